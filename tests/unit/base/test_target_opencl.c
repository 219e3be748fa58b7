/* Texts and limits of devices behind an OpenCL driver, GPUs and processors. */
#include "base/macros.h"
#include "base/rand.h"
#include "base/target.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

static void parts_are_printed_where_they_differ_from_the_row(void **state) {
    static const char *const row[][2] = {
        {"opencl", "opencl"},
        {"opencl:mali-g78,group=256,shared=32768,units=16,vector=16", "opencl:mali-g78"},
        {"opencl:x,vector=4,shared=65536,units=24,group=512",
         "opencl:x,group=512,shared=65536,units=24,vector=4"},
        {"opencl:pocl,emulated", "opencl:pocl,emulated"},
        {"opencl:pocl,emulated,group=1024,vector=64,units=1", "opencl:pocl,emulated"},
        {"opencl:pocl,group=256,emulated,units=2", "opencl:pocl,group=256,units=2,emulated"},
        {"opencl:x,features=+f64-f16", "opencl:x"},
        {"opencl:x,features=-f64+f16", "opencl:x,features=+f16-f64"},
        {"opencl:x,features=-f64", "opencl:x,features=-f64"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target = target_of(*state, row[i][0]);
        expect_str(text_of_target(&target, *state), row[i][1]);
    }
}

static void processors_are_a_kind_of_their_own_with_what_rules_ask(void **state) {
    kiln_target gpu = target_of(*state, "opencl:x"), wide = target_of(*state, "opencl:x,emulated"),
                two = target_of(*state, "opencl:x,units=2,vector=32,emulated"),
                avx2 = target_of(*state, "x86-64-v3"), avx512 = target_of(*state, "x86-64-v4");
    assert_int_equal(gpu.kind, KILN_TARGET_OPENCL);
    assert_int_equal(wide.kind, KILN_TARGET_OPENCL_CPU);
    assert_string_equal(kiln_target_kind_name(wide.kind), "opencl");
    assert_true(wide.gpu->is_cpu && !gpu.gpu->is_cpu);
    assert_int_equal(gpu.group_threads, 256);
    assert_int_equal(gpu.shared_bytes, 32768);
    assert_int_equal(wide.group_threads, 1024);
    assert_int_equal(wide.vector_bytes, 64);
    assert_int_equal(wide.vector_registers, avx512.vector_registers);
    assert_int_equal(wide.l2_bytes, avx512.l2_bytes);
    assert_memory_equal(&wide.core, &avx512.core, sizeof wide.core);
    assert_int_equal(two.threads, 2);
    assert_int_equal(two.cores, 2);
    assert_int_equal(two.vector_registers, avx2.vector_registers);
    assert_true(two.arch == KILN_ARCH_OTHER && two.has_fma);
    /* Deriving once more, as calibration does, changes nothing. */
    kiln_target again = two;
    kiln_target_calibrate(&again, &two.calibration);
    expect_str(text_of_target(&again, *state), "opencl:x,units=2,vector=32,emulated");
    assert_int_equal(again.kind, KILN_TARGET_OPENCL_CPU);
}

static void a_target_that_only_emulated_devices_run_becomes_one(void **state) {
    kiln_target target = target_of(*state, "opencl:x,units=2"), made;
    expect_ok(kiln_target_emulated(&target, *state, &made));
    assert_int_equal(made.kind, KILN_TARGET_OPENCL_CPU);
    assert_int_equal(made.group_threads, 1024);
    expect_str(text_of_target(&made, *state), "opencl:x,units=2,emulated");
    expect_ok(kiln_target_emulated(&made, *state, &made));
    expect_str(text_of_target(&made, *state), "opencl:x,units=2,emulated");
    target = target_of(*state, "rpi4,threads=2");
    expect_ok(kiln_target_emulated(&target, *state, &made));
    assert_true(made.emulated);
    target = target_of(*state, "null");
    expect_error(kiln_target_emulated(&target, *state, &made), INVALID_ARGUMENT, "emulated");
}

static void types_that_a_device_lacks_are_known(void **state) {
    kiln_target plain = target_of(*state, "opencl:x"),
                other = target_of(*state, "opencl:x,features=+f16-f64"),
                cpu = target_of(*state, "x86-64");
    assert_false(kiln_target_computes(&plain, KILN_F16));
    assert_true(kiln_target_computes(&plain, KILN_F64));
    assert_true(kiln_target_computes(&plain, KILN_BF16));
    assert_true(kiln_target_computes(&other, KILN_F16));
    assert_false(kiln_target_computes(&other, KILN_F64));
    assert_true(kiln_target_computes(&cpu, KILN_F16));
}

static void a_smaller_device_says_which_limit_is_exceeded(void **state) {
    static const struct {
        const char *wanted, *device, *reason;
    } row[] = {
        {"opencl", "opencl:x", NULL},
        {"opencl:x", "opencl:x,units=9", NULL},
        {"opencl:x", "opencl:x,emulated", NULL}, /* code knows no emulator */
        {"opencl:x,group=64", "opencl:x,group=128", NULL},
        {"opencl:x", "opencl:y", "the device is y, not x"},
        {"opencl:x", "opencl:x,group=128", "groups of 256 threads; the device runs 128"},
        {"opencl:x", "opencl:x,shared=16384",
         "32768 bytes shared by a group; the device has 16384"},
        {"opencl:x,features=+f16", "opencl:x", "the device lacks f16"},
        {"opencl:x", "opencl:x,features=-f64", "the device lacks f64"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target wanted = target_of(*state, row[i].wanted),
                    device = target_of(*state, row[i].device);
        kiln_strbuf reason = {0};
        assert_int_equal(kiln_target_runs_on(&wanted, &device, &reason), row[i].reason == NULL);
        if (row[i].reason) expect_contains(reason.data, row[i].reason);
        kiln_strbuf_deinit(&reason);
    }
}

static void bad_parts_are_refused(void **state) {
    static const char *const row[][2] = {
        {"opencl:PoCL", "written in lower case"},
        {"opencl:emulated", "write opencl,emulated"},
        {"opencl,group=0", "from 1 to"},
        {"opencl,shared=9999999", "from 1 to"},
        {"opencl,vector=12", "vector=12 is not 4, 8, 16, 32 or 64"},
        {"opencl,vector=2", "vector=2 is not"},
        {"opencl,vector=x", "is not a number"},
        {"opencl,features=+f16+bf16", "unknown feature '+bf16'"},
        {"opencl,features=f16", "unknown feature 'f16'"},
        {"opencl,emulated=1", "unknown part 'emulated=1'"},
        {"opencl,threads=2", "known: group= shared= units= vector= features= emulated"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target;
        expect_error_at(kiln_target_parse(kiln_str_from(row[i][0]), *state, &target),
                        KILN_INVALID_ARGUMENT, row[i][1], row[i][0], (int)i);
    }
}

static void random_parts_print_as_they_parse(void **state) {
    static const char *const part[] = {",group=",   ",shared=",       ",units=",       ",vector=",
                                       ",emulated", ",features=+f16", ",features=-f64"};
    kiln_rand r;
    kiln_rand_init(&r, 5);
    for (int round = 0; round < 5000; round++) {
        kiln_arena_reset(*state);
        kiln_strbuf text = {0};
        kiln_strbuf_text(&text, "opencl:x");
        for (uint64_t n = kiln_rand_below(&r, 5); n > 0; n--) {
            const uint64_t i = kiln_rand_below(&r, KILN_ARRAY_COUNT(part));
            kiln_strbuf_text(&text, part[i]);
            if (i < 4) kiln_strbuf_printf(&text, "%u", 1u << kiln_rand_below(&r, 8));
        }
        kiln_target target;
        kiln_status st = kiln_target_parse(kiln_strbuf_view(&text), *state, &target);
        if (!st) {
            kiln_str once = text_of_target(&target, *state);
            kiln_target again = target_of(*state, kiln_str_dup(*state, once));
            assert_true(kiln_str_equal(once, text_of_target(&again, *state)));
            assert_true(again.kind == target.kind && again.group_threads == target.group_threads &&
                        again.shared_bytes == target.shared_bytes && again.cores == target.cores &&
                        again.threads == target.threads &&
                        again.vector_bytes == target.vector_bytes &&
                        kiln_str_equal(again.features, target.features));
        }
        kiln_status_free(st);
        kiln_strbuf_deinit(&text);
    }
}

static void names_of_devices_become_words(void **state) {
    kiln_strbuf name = {0};
    (void)state;
    kiln_target_spell_device(KILN_STR("pthread-AMD EPYC (R) 2.4GHz"), &name);
    expect_str(kiln_strbuf_view(&name), "pthread-amd-epyc--r--2-4ghz");
    kiln_strbuf_deinit(&name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(parts_are_printed_where_they_differ_from_the_row),
        test_with_arena(processors_are_a_kind_of_their_own_with_what_rules_ask),
        test_with_arena(a_target_that_only_emulated_devices_run_becomes_one),
        test_with_arena(types_that_a_device_lacks_are_known),
        test_with_arena(a_smaller_device_says_which_limit_is_exceeded),
        test_with_arena(bad_parts_are_refused),
        test_with_arena(random_parts_print_as_they_parse),
        test_with_arena(names_of_devices_become_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
