/* Device code that means harm, through the real tracker and the real server on PoCL: each is blamed
 * for what it did, the next trial gets a fresh context where one was spoilt, is right and measured
 * as before, and the board stays. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/text_artefact.h"
#include "tests/unit/rpc-server/fleet.h"

#define SEED 7
#define LEASE_TRIALS 64
#define HASTY_MS 300 /* for what does not end */
#define LOST_MAX 5u

static const char *the_target; /* of the device; NULL: there is none */

typedef struct bench {
    fleet fleet;
    kiln_msg_blob_ref honest, reference;
    uint32_t sent, lost;
} bench;

/* The honest text with `body` in the place of the line that writes y. */
static kiln_msg_blob_ref upload_text(bench *b, const char *body) {
    static const char line[] = "    y[get_global_id(0)] = scratch[get_global_id(0)];\n";
    const char *at = strstr(text_artefact_opencl, line);
    assert_non_null(at);
    const char *text =
        kiln_arena_printf(&b->fleet.arena, "%.*s%s%s", (int)(at - text_artefact_opencl),
                          text_artefact_opencl, body ? body : line, at + strlen(line));
    return fleet_upload(
        &b->fleet,
        text_artefact_encode(
            &(text_artefact){.kind = KILN_PAYLOAD_OPENCL, .target = the_target, .text = text},
            &b->fleet.arena));
}

static kiln_msg_blob_ref upload_reference(bench *b) {
    return fleet_upload(&b->fleet, text_artefact_reference(SEED, &b->fleet.arena));
}

static const kiln_msg_trial_result *measure(bench *b, const kiln_msg_blob_ref *artefact,
                                            uint32_t deadline_ms) {
    for (;;) {
        char id[32];
        snprintf(id, sizeof id, "%u", ++b->sent);
        kiln_msg_trial trial = fleet_trial(&b->fleet, id, 1, artefact, &b->reference);
        trial.seed = SEED;
        trial.deadlines_ms.warm = deadline_ms;
        fleet_send_trial(&b->fleet, &trial);
        const kiln_msg_trial_result *result = fleet_await_result(&b->fleet, id, 1);
        if (result) {
            fleet_acknowledge(&b->fleet, result);
            return result;
        }
        assert_true(++b->lost < LOST_MAX); /* on a busy machine it may call itself sick */
        fleet_lease(&b->fleet, LEASE_TRIALS);
    }
}

/* The youngest child of the server's helper. */
static uint64_t serving_child(bench *b) {
    const int helper = fleet_helper(&b->fleet);
    kiln_str pids = {0};
    uint64_t pid = 0, last = 0;
    expect_ok(kiln_file_read_system(
        kiln_arena_printf(&b->fleet.arena, "/proc/%d/task/%d/children", helper, helper),
        &b->fleet.arena, &pids));
    while (kiln_str_to_u64(kiln_str_cut(&pids, ' '), &pid)) last = pid;
    return last;
}

/* Returns the child that measured it. */
static uint64_t expect_right(bench *b) {
    const kiln_msg_trial_result *result = measure(b, &b->honest, 0);
    if (result->outcome != KILN_OUTCOME_OK)
        fail_msg("the honest one: %s, %.*s", kiln_outcome_name((kiln_outcome)result->outcome),
                 KILN_STR_ARG(result->text));
    assert_int_equal(result->blame, KILN_BLAME_NONE);
    assert_true(result->checked && result->samples_ns.count >= 5);
    return serving_child(b);
}

#define COPY "    y[get_global_id(0)] = scratch[get_global_id(0)];\n"

static const struct harm {
    const char *name, *body;
    kiln_outcome outcome;
    bool spoils; /* the context: the next trial gets another */
} harm_table[] = {
    {"endless", "    volatile int go = 1;\n    while (go) {}\n" COPY, KILN_OUTCOME_TIMEOUT, true},
    {"beside its output", COPY "    if (get_global_id(0) == 0) y[1024] = 1;\n", KILN_OUTCOME_CRASH,
     true},
    {"a wild address", "    *(volatile __global float *)(size_t)16 = 1;\n", KILN_OUTCOME_CRASH,
     true},
    {"what the trial before left", "    if (get_global_id(0) == 5) y[5] = scratch[5];\n",
     KILN_OUTCOME_WRONG_RESULT, false},
    {"memory of zeros", "    y[get_global_id(0)] += scratch[get_global_id(0)];\n",
     KILN_OUTCOME_WRONG_RESULT, false},
    {"text that does not compile", "    y[get_global_id(0)] = nobody_knows;\n",
     KILN_OUTCOME_LINK_ERROR, false},
};

static void skip_without_a_device(void) {
    if (the_target) return;
    skip_because("no OpenCL device: install pocl-opencl-icd");
}

static void each_is_blamed_and_the_next_one_is_right(void **state) {
    bench *b = *state;
    skip_without_a_device();
    const uint32_t closed = b->fleet.closed;
    uint64_t child = expect_right(b);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(harm_table); i++) {
        const struct harm *h = &harm_table[i];
        const kiln_msg_blob_ref artefact = upload_text(b, h->body);
        const kiln_msg_trial_result *result =
            measure(b, &artefact, h->outcome == KILN_OUTCOME_TIMEOUT ? HASTY_MS : 0);
        if ((kiln_outcome)result->outcome != h->outcome || result->blame != KILN_BLAME_CANDIDATE)
            fail_msg("%s: %s, blame %d: %.*s", h->name,
                     kiln_outcome_name((kiln_outcome)result->outcome), (int)result->blame,
                     KILN_STR_ARG(result->text));
        const uint64_t next = expect_right(b);
        if (h->spoils && next == child) fail_msg("%s: the context was used again", h->name);
        child = next;
    }
    assert_int_equal(b->fleet.closed, closed);
}

/* What the standard leaves open, or depends on how much memory there is: it may end anyhow, but
 * never the board, and never as anybody else's fault. */
static void what_may_end_anyhow_disturbs_nothing(void **state) {
    bench *b = *state;
    skip_without_a_device();
    static const char *const body[] = {
        "    if (get_local_id(0) % 3 == 1) barrier(CLK_GLOBAL_MEM_FENCE);\n" COPY,
        "    volatile float hold[1 << 24];\n"
        "    for (int i = 0; i < (1 << 24); i++) hold[i] = i;\n"
        "    y[get_global_id(0)] = scratch[get_global_id(0)] + hold[7] - 7;\n"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(body); i++) {
        const kiln_msg_blob_ref artefact = upload_text(b, body[i]);
        const kiln_msg_trial_result *result = measure(b, &artefact, HASTY_MS);
        if (result->blame != KILN_BLAME_NONE && result->blame != KILN_BLAME_CANDIDATE)
            fail_msg("%zu: %s, blame %d: %.*s", i, kiln_outcome_name((kiln_outcome)result->outcome),
                     (int)result->blame, KILN_STR_ARG(result->text));
        expect_right(b);
    }
}

static int set_up(void **state) {
    static bench the_bench;
    bench *b = *state = &the_bench;
    *b = (bench){0};
    if (!the_target) return 0;
    fleet_set_up(&b->fleet, NULL);
    fleet_open_job(&b->fleet);
    fleet_lease(&b->fleet, LEASE_TRIALS);
    b->honest = upload_text(b, NULL);
    b->reference = upload_reference(b);
    return 0;
}

static int tear_down(void **state) {
    bench *b = *state;
    if (the_target) fleet_tear_down(&b->fleet);
    return 0;
}

int main(int argc, char **argv) {
    kiln_arena arena;
    char *target = NULL;
    kiln_arena_init(&arena, 0);
    fleet_take_arguments(argc, argv);
    if (fleet_offers("opencl", &arena, &target)) the_target = target;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_is_blamed_and_the_next_one_is_right, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_may_end_anyhow_disturbs_nothing, set_up, tear_down),
    };
    const int failed = cmocka_run_group_tests_name("rpc-server/gpu_blamed", tests, NULL, NULL);
    kiln_arena_deinit(&arena);
    return failed;
}
