/* PTX that means harm, through the real contained child on a CUDA device: as test_gpu_hostile.c
 * does with OpenCL C. Without a device NVIDIA's assembler, where it is installed (KILN_PTXAS),
 * takes or refuses each text as a driver would. This program is its own helper and child. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/opt.h"
#include "base/proc.h"
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

/* ---- texts ----------------------------------------------------------------------------------- */

/* Of each entry: r1 group, r2 thread, r3 element, a1 its offset; a2 to a4 the arguments, a5 to a7
 * the element's addresses in them. */
#define REGISTERS                         \
    "{\n"                                 \
    "    .reg .pred %p<4>;\n"             \
    "    .reg .b32 %r<12>;\n"             \
    "    .reg .b64 %a<12>;\n"             \
    "    .reg .f32 %f<8>;\n"              \
    "    mov.u32 %r1, %ctaid.x;\n"        \
    "    mov.u32 %r2, %tid.x;\n"          \
    "    mad.lo.u32 %r3, %r1, 64, %r2;\n" \
    "    mul.wide.u32 %a1, %r3, 4;\n"
#define ARGUMENT(NAME, BASE, PLACE)             \
    "    ld.param.u64 %" BASE ", [" NAME "];\n" \
    "    add.u64 %" PLACE ", %" BASE ", %a1;\n"

static const char before_run_1[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".extern .shared .align 16 .b8 row[];\n"
    ".visible .entry prepare_0(.param .u64 w, .param .u64 p)\n.reqntid 64, 1, 1\n" REGISTERS
        ARGUMENT("w", "a2", "a5") ARGUMENT(
            "p", "a3", "a6") "    ld.global.f32 %f1, [%a5];\n"
                             "    add.f32 %f1, %f1, %f1;\n"
                             "    st.global.f32 [%a6], %f1;\n"
                             "    ret;\n}\n"
                             ".visible .entry run_1(.param .u64 x, .param .u64 p, .param .u64 "
                             "t)\n.reqntid 64, 1, 1\n" REGISTERS ARGUMENT("x", "a2", "a5")
                                 ARGUMENT("p", "a3", "a6") ARGUMENT("t", "a4", "a7");
static const char before_scratch[] =
    "    ld.global.f32 %f1, [%a5];\n"
    "    ld.global.f32 %f2, [%a6];\n"
    "    add.f32 %f1, %f1, %f2;\n"
    "    st.global.f32 [%a7], %f1;\n"
    "    ret;\n}\n"
    ".visible .entry run_2(.param .u64 t, .param .u64 y, .param .u64 s)\n.reqntid 64, 1, "
    "1\n" REGISTERS ARGUMENT("t", "a2", "a5") ARGUMENT("y", "a3", "a6")
        ARGUMENT("s", "a4", "a7") "    ld.global.f32 %f1, [%a5];\n"
                                  "    shl.b32 %r4, %r2, 2;\n"
                                  "    mov.u32 %r5, row;\n"
                                  "    add.u32 %r6, %r5, %r4;\n"
                                  "    st.shared.f32 [%r6], %f1;\n"
                                  "    bar.sync 0;\n"
                                  "    sub.u32 %r4, 63, %r2;\n"
                                  "    shl.b32 %r4, %r4, 2;\n"
                                  "    add.u32 %r6, %r5, %r4;\n"
                                  "    ld.shared.f32 %f2, [%r6];\n";
static const char before_result[] = "    st.global.f32 [%a7], %f2;\n"
                                    "    ld.global.f32 %f3, [%a7];\n";
static const char after[] = "    ret;\n}\n";

#define RESULT "    st.global.f32 [%a6], %f3;\n"
#define FIRST_THREAD(PLACE)                 \
    RESULT "    setp.eq.u32 %p1, %r3, 0;\n" \
           "    @%p1 st.global.f32 [" PLACE "], %f3;\n"

/* What is put before run_1's work, before the scratch is written, and in place of the line that
 * writes y. NULL: nothing, or that line. */
typedef struct hostile {
    const char *first, *lazy, *result;
} hostile;

static const hostile honest = {NULL, NULL, NULL}, /* its loop waits for a number that t never has */
    endless = {NULL, NULL,
               "again:\n"
               "    ld.volatile.global.u32 %r7, [%a5];\n"
               "    setp.ne.u32 %p1, %r7, 1;\n"
               "    @%p1 bra again;\n" RESULT},
                     behind = {NULL, NULL, FIRST_THREAD("%a3+4096")},
                     before = {NULL, NULL, FIRST_THREAD("%a3+-4")},
                     far_behind = {NULL, NULL, FIRST_THREAD("%a3+6000")},
                     temp = {NULL, NULL, RESULT "    st.global.f32 [%a5], %f3;\n"},
                     input = {"    mov.f32 %f1, 0f00000000;\n    st.global.f32 [%a2], %f1;\n", NULL,
                              NULL},
                     wild = {NULL, NULL, "    mov.u64 %a8, 16;\n    st.global.f32 [%a8], %f3;\n"},
                     idle = {NULL, NULL,
                             "    setp.eq.u32 %p1, %r3, 5;\n"
                             "    @%p1 st.global.f32 [%a6], %f3;\n"},
                     adds = {NULL, NULL,
                             "    ld.global.f32 %f4, [%a6];\n"
                             "    add.f32 %f3, %f3, %f4;\n" RESULT},
                     lazy = {NULL,
                             "    ld.global.f32 %f4, [%a7];\n"
                             "    setp.eq.f32 %p1, %f4, %f2;\n"
                             "    @%p1 ret;\n",
                             NULL},
                     branch = {NULL, NULL,
                               "    rem.u32 %r7, %r2, 3;\n"
                               "    setp.eq.u32 %p1, %r7, 1;\n"
                               "    @%p1 bar.sync 0;\n" RESULT},
                     greedy = {NULL, NULL,
                               "    .local .align 4 .b8 hold[400000];\n"
                               "    mov.u64 %a8, hold;\n"
                               "    mul.wide.u32 %a9, %r2, 4;\n"
                               "    add.u64 %a9, %a8, %a9;\n"
                               "    st.local.f32 [%a9], %f3;\n"
                               "    cvt.u64.u32 %a9, %r4;\n"
                               "    add.u64 %a9, %a8, %a9;\n"
                               "    ld.local.f32 %f3, [%a9];\n" RESULT},
                     broken = {NULL, NULL, "    add.u32 %r7, %r7, %nobody;\n" RESULT};

static const char *text_of(const hostile *h, kiln_arena *arena) {
    return kiln_arena_printf(arena, "%s%s%s%s%s%s%s", before_run_1, h->first ? h->first : "",
                             before_scratch, h->lazy ? h->lazy : "", before_result,
                             h->result ? h->result : RESULT, after);
}

/* ---- on a device ----------------------------------------------------------------------------- */

static int set_up(void **state) {
    static served the_served;
    served_open(&the_served, KILN_TARGET_CUDA, NULL);
    kiln_found_device device;
    kiln_status st = kiln_find_device(the_served.helper, kiln_executor_find(KILN_STR("cuda")), 0,
                                      &the_served.arena, &device);
    the_target = st ? NULL : device.target_text.data;
    if (st) print_message("# no CUDA device: %s\n", kiln_status_text(st));
    kiln_status_free(st); /* every test skips, and this says why */
    *state = &the_served;
    return 0;
}

static int tear_down(void **state) {
    served_close(*state);
    return 0;
}

static const char *write_part(served *f, const char *name, kiln_str bytes) {
    const char *path = kiln_arena_printf(&f->arena, "%s/%s", f->folder, name);
    expect_ok(kiln_file_write(path, bytes, 0600));
    return path;
}

static void run_with(served *f, const hostile *h, uint64_t shared_bytes) {
    if (!the_target) skip_because("no CUDA device: install NVIDIA's driver beside a GPU of it");
    const text_artefact artefact = {.kind = KILN_PAYLOAD_PTX,
                                    .target = the_target,
                                    .text = text_of(h, &f->arena),
                                    .shared_bytes = shared_bytes};
    served_run(f, &the_trial, write_part(f, "artefact", text_artefact_encode(&artefact, &f->arena)),
               write_part(f, "reference", text_artefact_reference(SEED, &f->arena)));
}

static void expect_right(served *f) {
    run_with(f, &honest, 0);
    served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
    assert_true(f->result.checked && f->result.samples_ns.count >= 5);
}

/* The candidate ends so, and the next one is right. */
static void expect_blamed(served *f, const hostile *h, kiln_outcome outcome, const char *text) {
    run_with(f, h, 0);
    served_expect(f, outcome, KILN_BLAME_CANDIDATE, text);
    expect_right(f);
}

static void run_hastily(served *f, const hostile *h) {
    expect_right(f);
    f->is_hasty = true;
    run_with(f, h, 0);
    f->is_hasty = false;
}

static void the_golden_kernel_of_the_payload_passes(void **state) {
    served *f = *state;
    kiln_golden golden;
    if (!the_target) skip_because("no CUDA device: install NVIDIA's driver beside a GPU of it");
    served_run_golden(f, the_target, &golden);
}

static void one_child_measures_text_after_text(void **state) {
    served *f = *state;
    expect_right(f);
    const uint64_t child = served_by(f);
    expect_right(f);
    assert_int_equal(served_by(f), child);
}

static void an_endless_kernel_is_killed_at_its_deadline(void **state) {
    served *f = *state;
    run_hastily(f, &endless);
    assert_true(f->died);
    assert_int_equal(served_children(f), f->idle);
    expect_right(f);
}

static void a_write_beside_an_argument_is_a_stray_write(void **state) {
    served *f = *state;
    expect_blamed(f, &behind, KILN_OUTCOME_CRASH, "outside of its arguments");
    expect_blamed(f, &before, KILN_OUTCOME_CRASH, "outside of its arguments");
    expect_blamed(f, &far_behind, KILN_OUTCOME_CRASH, "outside of its arguments");
}

static void an_input_that_is_written_is_a_stray_write(void **state) {
    served *f = *state;
    run_with(f, &temp, 0);
    served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, ""); /* a temp is its own */
    expect_blamed(f, &input, KILN_OUTCOME_CRASH, "outside of its arguments");
}

/* It spoils the context: the child ends, and the next trial gets a fresh one. */
static void a_wild_address_ends_the_child(void **state) {
    served *f = *state;
    expect_right(f);
    run_with(f, &wild, 0);
    served_expect(f, KILN_OUTCOME_CRASH, KILN_BLAME_CANDIDATE, "the device is lost");
    assert_int_equal(served_children(f), f->idle);
    expect_right(f);
}

static void what_does_not_compute_is_wrong(void **state) {
    served *f = *state;
    expect_right(f);
    expect_blamed(f, &idle, KILN_OUTCOME_WRONG_RESULT, "");
    expect_blamed(f, &adds, KILN_OUTCOME_WRONG_RESULT, "");
    expect_blamed(f, &lazy, KILN_OUTCOME_WRONG_RESULT, "left an element");
}

/* Undefined, but never the end of the board. */
static void what_is_undefined_ends_somehow(void **state) {
    served *f = *state;
    run_hastily(f, &branch);
    run_hastily(f, &greedy);
    expect_right(f);
}

static void text_that_does_not_compile_shows_the_log(void **state) {
    served *f = *state;
    expect_right(f);
    const uint64_t child = served_by(f);
    expect_blamed(f, &broken, KILN_OUTCOME_LINK_ERROR, "does not compile");
    assert_int_equal(served_by(f), child);
}

static void code_for_a_larger_device_names_the_limit(void **state) {
    served *f = *state;
    run_with(f, &honest, UINT64_C(1) << 31);
    served_expect(f, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, "2147483648 bytes");
    expect_right(f);
}

/* ---- without a device ------------------------------------------------------------------------ */

static void the_assembler_takes_what_a_driver_should(void **state) {
    const hostile *const text[] = {&honest, &endless, &behind, &before, &far_behind,
                                   &temp,   &input,   &wild,   &idle,   &adds,
                                   &lazy,   &branch,  &greedy, &broken};
    const char *ptxas = kiln_env("KILN_PTXAS");
    if (!ptxas || !*ptxas) skip_because("KILN_PTXAS names no assembler");
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        const char *const argv[] = {ptxas, "-arch", "sm_80", "-o", "/dev/null", "-", NULL};
        const kiln_proc_options options = {
            .argv = argv, .input = kiln_str_from(text_of(text[i], *state)), .output_max = 1 << 16};
        kiln_proc_result result;
        expect_ok(kiln_proc_run(&options, *state, &result));
        if ((result.exit_code == 0) != (text[i] != &broken))
            fail_msg("text %zu: %s", i, result.err.data);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        test_with_arena(the_assembler_takes_what_a_driver_should),
        TEST(the_golden_kernel_of_the_payload_passes),
        TEST(one_child_measures_text_after_text),
        TEST(an_endless_kernel_is_killed_at_its_deadline),
        TEST(a_write_beside_an_argument_is_a_stray_write),
        TEST(an_input_that_is_written_is_a_stray_write),
        TEST(a_wild_address_ends_the_child),
        TEST(what_does_not_compute_is_wrong),
        TEST(what_is_undefined_ends_somehow),
        TEST(text_that_does_not_compile_shows_the_log),
        TEST(code_for_a_larger_device_names_the_limit),
    };
    return cmocka_run_group_tests_name("rpc-server/gpu_hostile_ptx", tests, NULL, NULL);
}
