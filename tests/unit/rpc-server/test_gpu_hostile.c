/* OpenCL C that means harm, through the real contained child on PoCL: each text ends with its
 * outcome, leaves nothing behind, and the honest one behind it is right. This program is its own
 * helper and child. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "rpc-server/find_device.h"
#include "tests/support/text_artefact.h"
#include "tests/unit/rpc-server/served.h"

#define SEED 7

static const kiln_msg_trial the_trial = {.seed = SEED,
                                         .policy = {.samples_min = 5,
                                                    .samples_max = 10,
                                                    .interval = 0.05,
                                                    .sample_ns = 100000,
                                                    .total_ns = 5000000}};

static const char *the_target; /* of the device; NULL: there is none */

static kiln_status find_device(served *f, uint32_t index, kiln_found_device *out_device) {
    return kiln_find_device(f->helper, kiln_executor_find(KILN_STR("opencl")), index, &f->arena,
                            out_device);
}

static int set_up(void **state) {
    static served the_served;
    served_open(&the_served, KILN_TARGET_OPENCL_CPU, NULL);
    kiln_found_device device;
    kiln_status st = find_device(&the_served, 0, &device);
    the_target = st ? NULL : device.target_text.data;
    if (st)
        print_message("# no OpenCL device, install pocl-opencl-icd: %s\n", kiln_status_text(st));
    kiln_status_free(st); /* every test skips, and this says why */
    *state = &the_served;
    return 0;
}

static int tear_down(void **state) {
    served_close(*state);
    return 0;
}

static const char *write_artefact(served *f, const char *name, const char *text) {
    const char *path = kiln_arena_printf(&f->arena, "%s/%s", f->folder, name);
    expect_ok(kiln_file_write(
        path,
        text_artefact_encode(
            &(text_artefact){.kind = KILN_PAYLOAD_OPENCL, .target = the_target, .text = text},
            &f->arena),
        0600));
    return path;
}

static const char *write_reference(served *f, const char *name) {
    const char *path = kiln_arena_printf(&f->arena, "%s/%s", f->folder, name);
    expect_ok(kiln_file_write(path, text_artefact_reference(SEED, &f->arena), 0600));
    return path;
}

/* The honest text with `body` in the place of the line that writes y. */
static void run_text(served *f, const char *name, const char *body) {
    static const char line[] = "    y[get_global_id(0)] = scratch[get_global_id(0)];\n";
    const char *at = strstr(text_artefact_opencl, line);
    assert_non_null(at);
    if (!the_target) skip_because("no OpenCL device: install pocl-opencl-icd");
    const char *text =
        kiln_arena_printf(&f->arena, "%.*s%s%s", (int)(at - text_artefact_opencl),
                          text_artefact_opencl, body ? body : line, at + strlen(line));
    served_run(f, &the_trial, write_artefact(f, name, text), write_reference(f, "reference"));
}

static void expect_right(served *f) {
    run_text(f, "honest", NULL);
    served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
    assert_true(f->result.checked && f->result.samples_ns.count >= 5);
}

static void one_child_measures_text_after_text(void **state) {
    served *f = *state;
    expect_right(f);
    const uint64_t child = served_by(f);
    for (uint32_t i = 0; i < 3; i++) {
        /* Another text each time, so that the driver builds it. */
        run_text(f, "honest",
                 kiln_arena_printf(&f->arena,
                                   "    y[get_global_id(0)] = scratch[get_global_id(0)]; "
                                   "/* %u */\n",
                                   i));
        served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
        assert_int_equal(served_by(f), child);
    }
}

static void a_device_of_another_number_is_not_there(void **state) {
    served *f = *state;
    kiln_found_device device;
    if (!the_target) skip_because("no OpenCL device: install pocl-opencl-icd");
    expect_error(find_device(f, 9, &device), NOT_FOUND, "there is no opencl device 9");
    expect_ok(find_device(f, 0, &device));
    assert_true(device.name.size && device.driver.size && device.target.emulated);
}

static void an_endless_kernel_is_killed_at_its_deadline(void **state) {
    served *f = *state;
    expect_right(f);
    f->is_hasty = true;
    run_text(f, "endless",
             "    volatile int go = 1;\n    while (go) {}\n"
             "    y[get_global_id(0)] = scratch[get_global_id(0)];\n");
    f->is_hasty = false;
    assert_true(f->died);
    assert_int_equal(served_children(f), f->idle);
    expect_right(f);
}

static void a_write_beside_an_argument_is_a_stray_write(void **state) {
    served *f = *state;
    static const char *const place[] = {"1024", "-1", "1500"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(place); i++) {
        expect_right(f);
        run_text(f, "stray",
                 kiln_arena_printf(&f->arena,
                                   "    y[get_global_id(0)] = scratch[get_global_id(0)];\n"
                                   "    if (get_global_id(0) == 0) y[%s] = 1;\n",
                                   place[i]));
        served_expect(f, KILN_OUTCOME_CRASH, KILN_BLAME_CANDIDATE, "outside of its arguments");
        assert_int_equal(served_children(f), f->idle);
    }
    expect_right(f);
}

static void an_input_that_is_written_is_a_stray_write(void **state) {
    served *f = *state;
    run_text(f, "input",
             "    y[get_global_id(0)] = scratch[get_global_id(0)];\n"
             "    ((__global float *)t)[get_global_id(0)] = 0;\n");
    served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, ""); /* a temp is its own */
    static const char write_x[] = "    t[get_global_id(0)] = x[get_global_id(0)]";
    const char *at = strstr(text_artefact_opencl, write_x);
    assert_non_null(at);
    const char *text =
        kiln_arena_printf(&f->arena, "%.*s    ((__global float *)x)[0] = 0;\n%s",
                          (int)(at - text_artefact_opencl), text_artefact_opencl, at);
    served_run(f, &the_trial, write_artefact(f, "input", text), write_reference(f, "reference"));
    served_expect(f, KILN_OUTCOME_CRASH, KILN_BLAME_CANDIDATE, "outside of its arguments");
    expect_right(f);
}

/* Far outside: the process of a device in software dies of it. */
static void a_wild_address_ends_the_child(void **state) {
    served *f = *state;
    expect_right(f);
    run_text(f, "wild", "    *(volatile __global float *)(size_t)16 = 1;\n");
    assert_true(f->died);
    assert_non_null(strstr(f->text, "signal 11"));
    assert_int_equal(served_children(f), f->idle);
    expect_right(f);
}

static void the_result_of_the_trial_before_does_not_count(void **state) {
    served *f = *state;
    expect_right(f);
    run_text(f, "idle", "    if (get_global_id(0) == 5) y[5] = scratch[5];\n");
    served_expect(f, KILN_OUTCOME_WRONG_RESULT, KILN_BLAME_CANDIDATE, "");
    expect_right(f);
}

/* It adds to what it finds: right only in memory that holds zeros. */
static void memory_holds_no_zeros(void **state) {
    served *f = *state;
    run_text(f, "adds", "    y[get_global_id(0)] += scratch[get_global_id(0)];\n");
    served_expect(f, KILN_OUTCOME_WRONG_RESULT, KILN_BLAME_CANDIDATE, "");
    expect_right(f);
}

/* It remembers in its scratch that its work is done. */
static void a_run_that_does_nothing_is_seen(void **state) {
    served *f = *state;
    static const char line[] = "    scratch[get_global_id(0)] = row";
    const char *at = strstr(text_artefact_opencl, line);
    assert_non_null(at);
    if (!the_target) skip_because("no OpenCL device: install pocl-opencl-icd");
    const char *text = kiln_arena_printf(
        &f->arena,
        "%.*s    if (scratch[get_global_id(0)] == row[63 - get_local_id(0)]) return;\n%s",
        (int)(at - text_artefact_opencl), text_artefact_opencl, at);
    served_run(f, &the_trial, write_artefact(f, "lazy", text), write_reference(f, "reference"));
    served_expect(f, KILN_OUTCOME_WRONG_RESULT, KILN_BLAME_CANDIDATE, "left an element");
    expect_right(f);
}

/* Threads that do not all come to a barrier: undefined, but never the end of the board. */
static void a_barrier_in_a_branch_ends_somehow(void **state) {
    served *f = *state;
    expect_right(f);
    f->is_hasty = true;
    run_text(f, "barrier",
             "    if (get_local_id(0) % 3 == 1) barrier(CLK_GLOBAL_MEM_FENCE);\n"
             "    y[get_global_id(0)] = scratch[get_global_id(0)];\n");
    f->is_hasty = false;
    expect_right(f);
}

/* More private memory than any stack has, or all that the compiler allows. */
static void all_memory_that_can_be_asked_for_ends_somehow(void **state) {
    served *f = *state;
    expect_right(f);
    f->is_hasty = true;
    run_text(f, "greedy",
             "    volatile float hold[1 << 24];\n"
             "    for (int i = 0; i < (1 << 24); i++) hold[i] = i;\n"
             "    y[get_global_id(0)] = scratch[get_global_id(0)] + hold[7] - 7;\n");
    f->is_hasty = false;
    if (!f->died) assert_int_not_equal(f->result.blame, KILN_BLAME_INFRA);
    expect_right(f);
}

static void text_that_does_not_compile_shows_the_log(void **state) {
    served *f = *state;
    expect_right(f);
    const uint64_t child = served_by(f);
    run_text(f, "broken", "    y[get_global_id(0)] = nobody_knows;\n");
    served_expect(f, KILN_OUTCOME_LINK_ERROR, KILN_BLAME_CANDIDATE, "nobody_knows");
    expect_right(f);
    assert_int_equal(served_by(f), child);
}

static void code_for_a_larger_device_names_the_limit(void **state) {
    served *f = *state;
    if (!the_target) skip_because("no OpenCL device: install pocl-opencl-icd");
    const char *path = kiln_arena_printf(&f->arena, "%s/large", f->folder);
    expect_ok(
        kiln_file_write(path,
                        text_artefact_encode(&(text_artefact){.kind = KILN_PAYLOAD_OPENCL,
                                                              .target = the_target,
                                                              .text = text_artefact_opencl,
                                                              .shared_bytes = UINT64_C(1) << 31},
                                             &f->arena),
                        0600));
    served_run(f, &the_trial, path, write_reference(f, "reference"));
    served_expect(f, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, "2147483648 bytes");
    expect_right(f);
}

static void the_golden_kernel_of_the_payload_passes(void **state) {
    served *f = *state;
    kiln_golden golden;
    if (!the_target) skip_because("no OpenCL device: install pocl-opencl-icd");
    served_run_golden(f, the_target, &golden);
    assert_true(f->result.checked && !golden.is_timed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(the_golden_kernel_of_the_payload_passes),
        TEST(one_child_measures_text_after_text),
        TEST(a_device_of_another_number_is_not_there),
        TEST(an_endless_kernel_is_killed_at_its_deadline),
        TEST(a_write_beside_an_argument_is_a_stray_write),
        TEST(an_input_that_is_written_is_a_stray_write),
        TEST(a_wild_address_ends_the_child),
        TEST(the_result_of_the_trial_before_does_not_count),
        TEST(memory_holds_no_zeros),
        TEST(a_run_that_does_nothing_is_seen),
        TEST(a_barrier_in_a_branch_ends_somehow),
        TEST(all_memory_that_can_be_asked_for_ends_somehow),
        TEST(text_that_does_not_compile_shows_the_log),
        TEST(code_for_a_larger_device_names_the_limit),
    };
    return cmocka_run_group_tests_name("rpc-server/gpu_hostile", tests, NULL, NULL);
}
