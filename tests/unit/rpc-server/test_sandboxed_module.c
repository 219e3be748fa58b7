/* Modules on a real board, made of planted candidates: each end has its name, and the board goes
 * on. */
#include <string.h>

#include "base/file.h"
#include "deploy/run/parcel.h"
#include "deploy/runtime/module_open.h"
#include "tests/unit/rpc-server/fleet.h"

#define SAMPLES 3u
#define PATIENCE_MS 60000u /* the machine may be busy */
#define SHORT_MS 100u      /* for what never ends */

static int set_up(void **state) {
    static fleet the_fleet;
    fleet_set_up(&the_fleet, NULL);
    *state = &the_fleet;
    return 0;
}

static int tear_down(void **state) {
    fleet_tear_down(*state);
    return 0;
}

/* A path in the fleet's folder. */
static const char *make_module(fleet *f, const char *fault) {
    kiln_strbuf artefact = {0};
    const char *path = kiln_arena_printf(&f->arena, "%s/%s.kiln", f->folder, fault);
    fleet_artefact(fault, &artefact);
    candidate_module(kiln_strbuf_view(&artefact), path);
    kiln_strbuf_deinit(&artefact);
    return path;
}

/* What goes with a module, and a view of it here. */
typedef struct visit {
    kiln_module *module;
    kiln_parcel parcel;
    kiln_msg_trial trial;
    uint64_t samples[1];
    float *x; /* [SAMPLES][CANDIDATE_ELEMENTS] */
} visit;

static kiln_msg_blob_ref upload_file(fleet *f, const char *path) {
    kiln_str bytes;
    expect_ok(kiln_file_read(path, (size_t)1 << 24, &f->arena, &bytes));
    return fleet_upload(f, bytes);
}

static visit prepare(fleet *f, const char *fault, bool bench) {
    visit v = {.samples = {SAMPLES}};
    const char *path = make_module(f, fault);
    kiln_str bytes;
    expect_ok(kiln_file_read(path, (size_t)1 << 24, &f->arena, &bytes));
    expect_ok(kiln_module_inspect(bytes, 0, &v.module));
    expect_ok(kiln_parcel_measure(v.module, v.samples, bench, &v.parcel));
    v.x = kiln_arena_alloc_aligned(&f->arena, 64, (size_t)v.parcel.input_bytes);
    memset(v.x, 0, (size_t)v.parcel.input_bytes);
    for (size_t i = 0; i < (size_t)SAMPLES * CANDIDATE_ELEMENTS; i++) v.x[i] = (float)(i % 11);
    const kiln_msg_blob_ref module = upload_file(f, path);
    const kiln_msg_blob_ref inputs =
        fleet_upload(f, (kiln_str){(const char *)v.x, (size_t)v.parcel.input_bytes});
    v.trial = fleet_trial(f, fault, 1, &module, &inputs);
    const uint64_t ms = strncmp(fault, "loops_", 6) == 0 ? SHORT_MS : PATIENCE_MS;
    v.trial.deadlines_ms =
        (kiln_msg_phases){.load = PATIENCE_MS, .warm = ms, .run = ms, .check = ms};
    v.trial.module = (kiln_msg_module_run){.output_bytes = v.parcel.output_bytes,
                                           .threads = kiln_module_threads(v.module),
                                           .bench = bench};
    return v;
}

static const kiln_msg_trial_result *run(fleet *f, visit *v) {
    v->trial.module.samples = (kiln_u64s){v->samples, 1};
    fleet_send_trial(f, &v->trial);
    const kiln_msg_trial_result *result =
        fleet_await_result(f, kiln_str_dup(&f->arena, v->trial.trial), 1);
    assert_non_null(result);
    return result;
}

static void expect_end(fleet *f, visit *v, kiln_outcome outcome, const char *says) {
    const kiln_msg_trial_result *result = run(f, v);
    if ((kiln_outcome)result->outcome != outcome)
        fail_msg("%.*s: %s, %.*s", KILN_STR_ARG(v->trial.trial),
                 kiln_outcome_name((kiln_outcome)result->outcome), KILN_STR_ARG(result->text));
    if (says) expect_contains(kiln_str_dup(&f->arena, result->text), says);
    assert_true(outcome == KILN_OUTCOME_OK || result->outputs.size == 0);
    fleet_acknowledge(f, result);
    kiln_module_close(v->module);
}

static void expect_fault(fleet *f, const char *fault, kiln_outcome outcome, const char *says) {
    visit v = prepare(f, fault, false);
    expect_end(f, &v, outcome, says);
}

static void begin(fleet *f) {
    fleet_open_job(f);
    fleet_lease(f, 64);
}

static void fetched(void *context, const kiln_digest *digest, kiln_status status) {
    (void)digest;
    expect_ok(status);
    *(bool *)context = true;
}

static void a_module_runs_once_per_sample_and_its_outputs_come_back(void **state) {
    fleet *f = *state;
    begin(f);
    visit v = prepare(f, "honest", true);
    const kiln_msg_trial_result *result = run(f, &v);
    if (result->outcome != KILN_OUTCOME_OK) fail_msg("%.*s", KILN_STR_ARG(result->text));
    assert_int_equal(result->outputs.size, v.parcel.output_bytes);
    bool have = false;
    const kiln_digest digest = result->outputs.digest;
    fleet_acknowledge(f, result);
    kiln_blobs_fetch(f->blobs, &digest, fetched, &have);
    while (!have) fleet_turn(f);
    kiln_str content;
    expect_ok(kiln_blob_store_get(f->store, &digest, &f->arena, &content));
    char *outputs = kiln_arena_alloc_aligned(&f->arena, 64, content.size);
    memcpy(outputs, content.data, content.size);
    const float *y = (const float *)(const void *)outputs;
    for (size_t i = 0; i < (size_t)SAMPLES * CANDIDATE_ELEMENTS; i++)
        assert_true(y[i] == v.x[i] * 2 * candidate_weight(i % CANDIDATE_ELEMENTS));
    kiln_run_times times;
    expect_ok(kiln_parcel_read_times(v.module, &v.parcel, outputs, &f->arena, &times));
    assert_in_range(times.runs, KILN_RUN_TIMES_MIN, v.parcel.runs_max);
    for (uint32_t i = 0; i < times.runs; i++) assert_true(times.whole[i] > 0);
    kiln_module_close(v.module);
}

static void what_goes_wrong_has_a_name_and_the_board_goes_on(void **state) {
    fleet *f = *state;
    begin(f);
    expect_fault(f, "reads_nothing", KILN_OUTCOME_CRASH, "in phase run");
    expect_fault(f, "illegal_instruction", KILN_OUTCOME_CRASH, "in phase run");
    expect_fault(f, "says_it_failed", KILN_OUTCOME_CRASH, "error");
    expect_fault(f, "loops_for_ever", KILN_OUTCOME_TIMEOUT, "phase run");
    expect_fault(f, "loops_in_prepare", KILN_OUTCOME_TIMEOUT, "phase warm");
    expect_fault(f, "honest", KILN_OUTCOME_OK, NULL);
}

static void what_was_not_announced_is_refused(void **state) {
    fleet *f = *state;
    begin(f);
    visit less = prepare(f, "honest", false);
    less.trial.module.output_bytes -= 64;
    expect_end(f, &less, KILN_OUTCOME_LINK_ERROR, "announced");
    visit more = prepare(f, "honest", false);
    more.trial.trial = KILN_STR("more");
    more.samples[0]++;
    expect_end(f, &more, KILN_OUTCOME_LINK_ERROR, "announced");
    visit damaged = prepare(f, "honest", false);
    damaged.trial.trial = KILN_STR("damaged");
    damaged.trial.artefact = damaged.trial.reference;
    expect_end(f, &damaged, KILN_OUTCOME_LINK_ERROR, "not a module");
    expect_fault(f, "honest", KILN_OUTCOME_OK, NULL);
}

int main(int argc, char **argv) {
    if (!fleet_take_arguments(argc, argv)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_module_runs_once_per_sample_and_its_outputs_come_back,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_goes_wrong_has_a_name_and_the_board_goes_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_not_announced_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
