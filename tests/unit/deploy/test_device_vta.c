/* The simulated accelerator: programs that are checked before they run, memory of its own, a clock
 * of cycles. */
#include "base/macros.h"
#include "base/target.h"
#include "deploy/runtime/kernel.h"
#include "tests/support/test.h"
#include "tests/support/vta_artefact.h"

/* out = in * rows + 1 on a machine with tiles of two elements. */
#define BODY                                                              \
    "load memory=inp buffer=in y_size=1 x_size=2\n"                       \
    "load memory=wgt buffer=rows y_size=1 x_size=1 push_next\n"           \
    "load memory=uop y_size=1 x_size=2 pop_prev\n"                        \
    "gemm reset uop_end=2 iter_out=1 iter_in=1\n"                         \
    "gemm uop_end=2 iter_out=1 iter_in=1\n"                               \
    "alu op=add use_imm imm=1 uop_end=2 iter_out=1 iter_in=1 push_next\n" \
    "store memory=out buffer=out y_size=1 x_size=2 pop_prev push_prev\n"  \
    "finish pop_next\n"
#define BUFFERS                                                                               \
    "buffer in argument 4\nbuffer out argument 4\nbuffer rows constant 4 010202ff\nuop\nuop " \
    "dst=1 src=1\n"
#define MACHINE "b1i2o2,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu2,pipe2,v1"
#define TEXT "config " MACHINE "\n" BUFFERS BODY

static kiln_device *opened(kiln_arena *arena) {
    kiln_target target;
    kiln_device *device;
    expect_ok(kiln_target_parse(KILN_STR("vta:" MACHINE), arena, &target));
    expect_ok(kiln_device_open(KILN_DEVICE_VTA, &(kiln_device_setup){.target = &target}, &device));
    return device;
}

static void a_program_runs_and_takes_its_cycles(void **state) {
    static const int8_t sent[4] = {1, 2, 3, 4}, expected[4] = {6, 1, 12, 3};
    int8_t got[4] = {0};
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_device_memory in, out;
    const kiln_str bytes = vta_artefact_encode("vta:" MACHINE, TEXT, 2, 4, *state);
    expect_ok(kiln_kernel_check(bytes));
    kiln_device *device = opened(*state);
    expect_ok(kiln_kernel_load(bytes, device, &kernel));
    expect_ok(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    expect_ok(kiln_device_allocate(device, 4, KILN_GUARD_NONE, &in));
    expect_ok(kiln_device_allocate(device, 4, KILN_GUARD_NONE, &out));
    const kiln_device_place from = kiln_device_place_at(device, &in, 0),
                            to = kiln_device_place_at(device, &out, 0);
    expect_ok(kiln_call_bind_place(call, 0, from, 4));
    expect_ok(kiln_call_bind_place(call, 1, to, 4));
    assert_int_equal(kiln_device_copy(device, KILN_COPY_TO_DEVICE, from,
                                      kiln_host_place((void *)(uintptr_t)sent), 4),
                     KILN_KERNEL_OK);
    uint64_t first_ns = 0;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(kiln_device_record(device, 0), KILN_KERNEL_OK);
        assert_int_equal(kiln_call_run(call, NULL), KILN_KERNEL_OK);
        assert_int_equal(kiln_device_record(device, 1), KILN_KERNEL_OK);
        const uint64_t ns = kiln_device_elapsed_ns(device, 0, 1);
        assert_true(ns > 1000 && ns < 10000); /* some hundred cycles of 10 ns */
        if (i == 0) first_ns = ns;
        assert_int_equal(ns, first_ns);
    }
    assert_int_equal(kiln_device_copy(device, KILN_COPY_FROM_DEVICE, kiln_host_place(got), to, 4),
                     KILN_KERNEL_OK);
    assert_memory_equal(got, expected, 4);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    kiln_device_release(device, &in);
    kiln_device_release(device, &out);
    kiln_device_close(device);
}

static void programs_that_are_wrong_are_refused_before_they_run(void **state) {
    kiln_device *device = opened(*state);
    kiln_kernel *kernel;
    const struct {
        const char *target, *text;
        uint32_t arguments;
        kiln_code code;
        const char *words;
    } row[] = {
        {"vta:pynq", TEXT, 2, KILN_FAILED_PRECONDITION, "b1i2o2"},
        {"vta:" MACHINE, TEXT, 1, KILN_DATA_LOSS, "2 arguments, its launch 1"},
        {"vta:" MACHINE, "config " MACHINE "\n" BUFFERS "finish pop_next\n", 2, KILN_DATA_LOSS,
         "wait for each other"},
        {"vta:" MACHINE,
         "config " MACHINE "\n" BUFFERS "load memory=inp buffer=in y_size=1 x_size=3\n"
         "finish\n",
         2, KILN_DATA_LOSS, "outside of their buffer"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_str bytes =
            vta_artefact_encode(row[i].target, row[i].text, row[i].arguments, 4, *state);
        expect_error_at(kiln_kernel_check(bytes), row[i].code, i ? row[i].words : "", row[i].text,
                        (int)i);
        expect_error_at(kiln_kernel_load(bytes, device, &kernel), row[i].code, "", row[i].text,
                        (int)i);
    }
    kiln_device_close(device);
}

/* As often as what comes next is for another one. */
static void a_device_becomes_the_machine_that_is_wanted(void **state) {
    static const char *const wanted[] = {"vta:pynq", "vta:" MACHINE, "vta:" MACHINE, "vta:pynq"};
    static const uint32_t count[] = {0, 1, 1, 2};
    kiln_device *device, *other;
    kiln_kernel *kernel;
    kiln_target target;
    const kiln_str bytes = vta_artefact_encode("vta:" MACHINE, TEXT, 2, 4, *state);
    expect_ok(kiln_device_open(KILN_DEVICE_VTA, NULL, &device));
    expect_error(kiln_kernel_load(bytes, device, &kernel), FAILED_PRECONDITION,
                 "does not run on this machine");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wanted); i++) {
        expect_ok(kiln_target_parse(kiln_str_from(wanted[i]), *state, &target));
        expect_ok(kiln_device_reprogram(device, &target));
        assert_int_equal(kiln_device_reprogram_count(device), count[i]);
        assert_true(kiln_str_equal(kiln_device_target(device)->triple, target.triple));
        if (i != 1) continue;
        expect_ok(kiln_kernel_load(bytes, device, &kernel));
        kiln_kernel_unload(kernel);
    }
    kiln_device_close(device);
    expect_ok(kiln_device_open(KILN_DEVICE_NULL, NULL, &other)); /* which stays what it is */
    expect_ok(kiln_device_reprogram(other, &target));
    assert_int_equal(kiln_device_reprogram_count(other), 0);
    kiln_device_close(other);
}

static void every_preset_is_a_device(void **state) {
    kiln_device_facts *facts;
    uint32_t count;
    expect_ok(kiln_device_list(KILN_DEVICE_VTA, *state, &facts, &count));
    assert_int_equal(count, 4);
    for (uint32_t i = 0; i < count; i++) {
        kiln_device *device;
        expect_ok(kiln_device_open(KILN_DEVICE_VTA, &(kiln_device_setup){.index = i}, &device));
        assert_true(kiln_str_equal(kiln_device_target(device)->triple, facts[i].target.triple));
        kiln_device_close(device);
    }
    assert_string_equal(facts[0].name, "simulated pynq");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_program_runs_and_takes_its_cycles),
        test_with_arena(programs_that_are_wrong_are_refused_before_they_run),
        test_with_arena(a_device_becomes_the_machine_that_is_wanted),
        test_with_arena(every_preset_is_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
