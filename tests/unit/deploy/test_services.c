#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "deploy/runtime/services.h"

static void every_symbol_has_an_address_and_is_found(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kiln_service_count(); i++) {
        kiln_str name = kiln_str_from(kiln_service_name(i));
        bool of_arm = kiln_service_find(KILN_ARCH_X86_64, name) == KILN_SERVICE_NONE;
        assert_int_equal(kiln_service_find(of_arm ? KILN_ARCH_ARM : KILN_ARCH_X86_64, name),
                         i); /* names are unique */
        assert_true(kiln_service_address(i) != 0 || of_arm);
    }
}

static void helpers_of_one_processor_are_for_its_code_alone(void **state) {
    (void)state;
    assert_true(kiln_service_find(KILN_ARCH_ARM, KILN_STR("__aeabi_ldivmod")) != KILN_SERVICE_NONE);
    assert_int_equal(kiln_service_find(KILN_ARCH_X86_64, KILN_STR("__aeabi_ldivmod")),
                     KILN_SERVICE_NONE);
    assert_int_equal(kiln_service_find(KILN_ARCH_AARCH64, KILN_STR("__aeabi_ldivmod")),
                     KILN_SERVICE_NONE);
}

static void what_is_not_listed_is_not_found(void **state) {
    (void)state;
    static const char *const absent[] = {"",      "system", "malloc", "printf",
                                         "expf ", "exp\nf", "mmap",   "__tls_get_addr"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_int_equal(kiln_service_find(KILN_ARCH_X86_64, kiln_str_from(absent[i])),
                         KILN_SERVICE_NONE);
    assert_int_equal(kiln_service_find(KILN_ARCH_ARM, (kiln_str){"expfoo", 3}),
                     kiln_service_find(KILN_ARCH_X86_64, KILN_STR("exp")));
}

static uintptr_t address(const char *symbol) {
    return kiln_service_address(kiln_service_find(KILN_ARCH_X86_64, kiln_str_from(symbol)));
}

static void addresses_are_those_of_the_functions(void **state) {
    (void)state;
    assert_true(((float (*)(float))address("sqrtf"))(9.0f) == 3.0f);
    assert_true(((double (*)(double, double))address("fmod"))(7.5, 2.0) == 1.5);
    assert_true(((double (*)(double))address("roundeven"))(2.5) == 2.0);
    char to[4] = "";
    ((void *(*)(void *, const void *, size_t))address("memmove"))(to, "abc", 4);
    assert_string_equal(to, "abc");
}

static uint16_t low_half(float carrier) {
    uint32_t bits;
    memcpy(&bits, &carrier, sizeof bits);
    return (uint16_t)bits;
}

static void brain_floats_are_rounded_once(void **state) {
    (void)state;
    float (*from_double)(double) = (float (*)(double))address("__truncdfbf2");
    float (*from_float)(float) = (float (*)(float))address("__truncsfbf2");
    assert_int_equal(low_half(from_float(1.0f)), 0x3f80);
    assert_int_equal(low_half(from_float(-2.5f)), 0xc020);
    assert_int_equal(low_half(from_double(1.0)), 0x3f80);
    /* Just above the middle between two bf16: rounding to float first would land on the middle, and
     * then on the even neighbour below. */
    double middle = 1.0 + 1.0 / 256, above = middle + ldexp(1.0, -40),
           below = middle - ldexp(1.0, -40);
    assert_int_equal(low_half(from_double(middle)), 0x3f80);
    assert_int_equal(low_half(from_double(above)), 0x3f81);
    assert_int_equal(low_half(from_double(below)), 0x3f80);
    double odd = middle + 1.0 / 128; /* the middle above an odd one goes up */
    assert_int_equal(low_half(from_double(odd - ldexp(1.0, -40))), 0x3f81);
    assert_int_equal(low_half(from_double(odd)), 0x3f82);
    assert_int_equal(low_half(from_double(INFINITY)), 0x7f80);
    assert_int_equal(low_half(from_double(-0.0)), 0x8000);
    assert_int_equal(low_half(from_double(1e300)), 0x7f80);
    assert_true(isnan(kiln_bf16_to_f32(low_half(from_double(NAN)))));
}

static void halves_are_converted_by_the_tables_of_base(void **state) {
    (void)state;
    float (*to_float)(float) = (float (*)(float))address("__extendhfsf2");
    double (*to_double)(float) = (double (*)(float))address("__extendhfdf2");
    float (*from_float)(float) = (float (*)(float))address("__truncsfhf2");
    float (*from_double)(double) = (float (*)(double))address("__truncdfhf2");
    assert_int_equal(low_half(from_float(1.5f)), 0x3e00);
    assert_true(to_float(from_float(-0.25f)) == -0.25f && to_double(from_float(-0.25f)) == -0.25);
    /* As above, between two halves. */
    double middle = 1.0 + 1.0 / 2048, above = middle + ldexp(1.0, -40);
    assert_int_equal(low_half(from_double(middle)), 0x3c00);
    assert_int_equal(low_half(from_double(above)), 0x3c01);
    assert_int_equal(low_half(from_double(-1e300)), 0xfc00);
}

static void scratch_holds_all_regions_aligned(void **state) {
    (void)state;
    kiln_manifest manifest = {.scratch_bytes = 100, .scratch_worker_bytes = 65};
    assert_int_equal(kiln_services_scratch_bytes(&manifest, 1), 128 + 128);
    assert_int_equal(kiln_services_scratch_bytes(&manifest, 3), 128 + 3 * 128);
    assert_int_equal(kiln_services_scratch_bytes(&(kiln_manifest){.scratch_bytes = 0}, 8), 0);
}

static int32_t count_up(void *context, int64_t begin, int64_t end, int32_t worker) {
    int64_t *count = context;
    count[worker] += end - begin;
    return KILN_KERNEL_OK;
}

static void table_runs_loops_with_its_workers(void **state) {
    (void)state;
    _Alignas(KILN_KERNEL_ALIGNMENT) uint8_t scratch[64];
    kiln_pool *pool = NULL;
    kiln_pool_options options = {.worker_count = 3};
    assert_null(kiln_pool_create(&options, &pool));
    for (uint32_t workers = 1; workers <= 3; workers++) {
        kiln_services services;
        kiln_services_init(&services, pool, workers, scratch);
        const kiln_kernel_services *table = &services.table;
        assert_int_equal(table->version, KILN_KERNEL_ABI_VERSION);
        assert_int_equal(table->worker_count, workers);
        assert_ptr_equal(table->scratch, scratch);
        int64_t count[3] = {0};
        assert_int_equal(table->parallel_for(table->host, 300, count_up, count), KILN_KERNEL_OK);
        assert_int_equal(count[0] + count[1] + count[2], 300);
        for (uint32_t w = workers; w < 3; w++) assert_int_equal(count[w], 0);
    }
    kiln_pool_destroy(pool);
}

static void table_without_pool_runs_in_the_caller(void **state) {
    (void)state;
    kiln_services services;
    kiln_services_init(&services, NULL, 1, NULL);
    int64_t count[1] = {0};
    assert_int_equal(services.table.parallel_for(services.table.host, 5, count_up, count),
                     KILN_KERNEL_OK);
    assert_int_equal(services.table.parallel_for(services.table.host, 0, count_up, count),
                     KILN_KERNEL_OK);
    assert_int_equal(count[0], 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_symbol_has_an_address_and_is_found),
        cmocka_unit_test(helpers_of_one_processor_are_for_its_code_alone),
        cmocka_unit_test(what_is_not_listed_is_not_found),
        cmocka_unit_test(addresses_are_those_of_the_functions),
        cmocka_unit_test(brain_floats_are_rounded_once),
        cmocka_unit_test(halves_are_converted_by_the_tables_of_base),
        cmocka_unit_test(scratch_holds_all_regions_aligned),
        cmocka_unit_test(table_runs_loops_with_its_workers),
        cmocka_unit_test(table_without_pool_runs_in_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
