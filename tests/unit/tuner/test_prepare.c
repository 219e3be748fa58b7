/* A job from its model to its tasks. This program is its own worker, the real one. */
#include <math.h>
#include <stdio.h>

#include "compiler-core/frontend/zoo/zoo.h"
#include "tests/unit/proto/pair.h"
#include "tests/unit/tuner/shell_fixture.h"

static const kiln_digest nothing, somewhere = {{3}};
static const char *own_path;

/* An shell_fixture whose claims are granted, so that nothing but the model is waited for. */
static int set_up(void **state) {
    shell_fixture_set_up(state);
    shell_fixture *o = *state;
    o->shell.open = true;
    snprintf(o->shell.node, sizeof o->shell.node, "tuner-1");
    o->shell.options.model = KILN_MODEL_ANALYTIC;
    const kiln_builders_options options = {.program = own_path, .worker_count = 1};
    o->shell.builders = kiln_builders_create(o->shell.loop, &options);
    return 0;
}

static int tear_down(void **state) {
    shell_fixture *o = *state;
    kiln_builders_destroy(o->shell.builders);
    return shell_fixture_tear_down(state);
}

/* Runs until PREPARE has ended. */
static const kiln_tuner_event *wait_for_end(shell_fixture *o) {
    while (!shell_fixture_find(o, KILN_TUNER_PREPARED)) kiln_loop_run_once(o->shell.loop);
    return shell_fixture_find(o, KILN_TUNER_PREPARED);
}

static void expect_failure(shell_fixture *o, kiln_code code, const char *text) {
    const kiln_tuner_event *event = wait_for_end(o);
    assert_int_equal(event->code, code);
    assert_non_null(event->failure);
    expect_contains(event->failure, text);
}

static kiln_digest put_blob(shell_fixture *o, kiln_str bytes) {
    kiln_digest digest;
    expect_ok(kiln_blob_store_put(o->shell.store, bytes, &digest));
    return digest;
}

static kiln_digest put_model(shell_fixture *o) {
    kiln_strbuf model = {0};
    expect_ok(kiln_zoo_build(KILN_STR("dqn"), 1, &model));
    const kiln_digest digest = put_blob(o, kiln_strbuf_view(&model));
    kiln_strbuf_deinit(&model);
    return digest;
}

/* ---- The model ---- */

static void a_job_has_the_tasks_of_its_model(void **state) {
    shell_fixture *o = *state;
    const kiln_digest model = put_model(o);
    kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    spec.target = KILN_STR("x86-64-v3");
    spec.trials = 1; /* for the first task */
    const kiln_shell_job *job = shell_fixture_prepare(o, &spec);
    const kiln_tuner_event *event = wait_for_end(o);
    assert_null(event->failure);
    assert_true(event->task_count > 1);
    assert_int_equal(event->task_count, job->task_count);
    assert_non_null(job->task[0].searcher);
    assert_null(job->task[1].searcher);
}

static void a_model_that_cannot_be_read_fails_the_job(void **state) {
    shell_fixture *o = *state;
    const kiln_digest model = put_blob(o, KILN_STR("no model"));
    const kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    shell_fixture_prepare(o, &spec);
    expect_failure(o, KILN_INVALID_ARGUMENT, "reading the model");
}

static void damaged_records_of_the_client_fail_the_job(void **state) {
    shell_fixture *o = *state;
    const kiln_digest model = put_model(o), records = put_blob(o, KILN_STR("no bundle"));
    kiln_msg_job_spec spec = shell_fixture_spec(&model, &records);
    spec.target = KILN_STR("x86-64-v3");
    shell_fixture_prepare(o, &spec);
    expect_failure(o, KILN_DATA_LOSS, "");
}

static void damaged_schedules_by_hand_fail_the_job(void **state) {
    shell_fixture *o = *state;
    const kiln_digest model = put_model(o);
    kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    spec.target = KILN_STR("x86-64-v3");
    spec.by_hand = put_blob(o, KILN_STR("no schedules"));
    shell_fixture_prepare(o, &spec);
    expect_failure(o, KILN_DATA_LOSS, "schedules that the job brings");
}

static void tasks_of_a_job_that_is_gone_are_dropped(void **state) {
    shell_fixture *o = *state;
    const kiln_digest model = put_blob(o, KILN_STR("no model"));
    const kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    kiln_shell_job *job = shell_fixture_prepare(o, &spec);
    shell_fixture_forget(o, job, NULL);
    job = shell_fixture_prepare(o, &spec); /* answered after the first */
    wait_for_end(o);
    assert_int_equal(shell_fixture_find(o, KILN_TUNER_PREPARED)->job, job->handle);
}

/* ---- Blobs ---- */

typedef struct connection {
    pair p;
    const char *folder;
} connection;

/* To a tracker that has one blob, or none. */
static void connect_to(shell_fixture *o, connection *c, kiln_str blob, kiln_digest *out_digest) {
    const kiln_blob_store_options options = {
        .folder = kiln_arena_printf(&o->arena, "%s/tracker", o->folder)};
    pair_init_on(&c->p, o->shell.loop);
    expect_ok(kiln_blob_store_open(&options, &c->p.server.store));
    if (blob.size) expect_ok(kiln_blob_store_put(c->p.server.store, blob, out_digest));
    c->p.client.store = o->shell.store;
    pair_open(&c->p);
    o->shell.blobs = c->p.client.blobs;
}

/* To a tracker that does not answer. */
static void connect_to_silent(shell_fixture *o, connection *c) {
    pair_init_on(&c->p, o->shell.loop);
    c->p.client.store = o->shell.store;
    pair_open(&c->p);
    o->shell.blobs = c->p.client.blobs;
}

static void hang_up(shell_fixture *o, connection *c) {
    o->shell.blobs = NULL;
    pair_deinit(&c->p);
    kiln_blob_store_close(c->p.server.store);
}

static void what_is_missing_is_fetched_from_the_tracker(void **state) {
    shell_fixture *o = *state;
    connection c = {0};
    kiln_digest model;
    connect_to(o, &c, KILN_STR("no model"), &model);
    const kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    shell_fixture_prepare(o, &spec);
    expect_failure(o, KILN_INVALID_ARGUMENT, "reading the model");
    hang_up(o, &c);
}

static void what_the_tracker_lacks_fails_the_job(void **state) {
    shell_fixture *o = *state;
    connection c = {0};
    kiln_digest model = {{3}};
    connect_to(o, &c, (kiln_str){0}, NULL);
    const kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    shell_fixture_prepare(o, &spec);
    expect_failure(o, KILN_NOT_FOUND, "fetching the model");
    hang_up(o, &c);
}

static void a_job_waits_for_a_tracker_that_went_away(void **state) {
    shell_fixture *o = *state;
    connection c = {0}, again = {0};
    kiln_digest model;
    connect_to_silent(o, &c);
    const kiln_msg_job_spec spec = shell_fixture_spec(&somewhere, &nothing);
    kiln_shell_job *job = shell_fixture_prepare(o, &spec);
    assert_false(job->wants_blobs);
    kiln_conn_close(c.p.server.conn, KILN_OK); /* while it fetches */
    c.p.server.conn = NULL;
    while (!job->wants_blobs) kiln_loop_run_once(o->shell.loop);
    hang_up(o, &c);
    kiln_shell_fetch_again(&o->shell); /* there is still no tracker */
    assert_true(job->wants_blobs);
    assert_null(shell_fixture_find(o, KILN_TUNER_PREPARED));
    connect_to(o, &again, KILN_STR("no model"), &model);
    job->spec.model = model;
    kiln_shell_fetch_again(&o->shell);
    assert_false(job->wants_blobs);
    expect_failure(o, KILN_INVALID_ARGUMENT, "reading the model");
    hang_up(o, &again);
}

/* One that is under way is not begun again. */
static void only_fetches_that_broke_off_are_begun_again(void **state) {
    shell_fixture *o = *state;
    connection c = {0};
    connect_to_silent(o, &c);
    const kiln_msg_job_spec spec = shell_fixture_spec(&somewhere, &nothing);
    kiln_shell_job *job = shell_fixture_prepare(o, &spec);
    o->shell.blobs = NULL;
    kiln_shell_fetch_again(&o->shell);
    assert_false(job->wants_blobs);
    hang_up(o, &c);
}

static void a_fetch_for_a_job_that_is_gone_ends_quietly(void **state) {
    shell_fixture *o = *state;
    connection c = {0};
    connect_to_silent(o, &c);
    const kiln_msg_job_spec spec = shell_fixture_spec(&somewhere, &nothing);
    shell_fixture_forget(o, shell_fixture_prepare(o, &spec), NULL);
    hang_up(o, &c);
    shell_fixture_hear(o);
    assert_null(shell_fixture_find(o, KILN_TUNER_PREPARED));
}

/* ---- What the order says ---- */

static void an_error_that_is_no_number_means_the_default(void **state) {
    shell_fixture *o = *state;
    const kiln_digest model = {{3}};
    static const double given[] = {0.25, NAN, INFINITY};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(given); i++) {
        kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
        spec.error_max = given[i];
        spec.exact = true;
        spec.precision = KILN_PRECISION_F32;
        const kiln_shell_job *job = shell_fixture_prepare(o, &spec);
        const kiln_accuracy expected = {.exact = true, .error_max = i ? 0 : 0.25};
        assert_true(job->accuracy.error_max == expected.error_max);
        assert_true(job->accuracy.exact);
        assert_true(job->allowed.error_max == kiln_accuracy_error_max(&expected));
    }
}

static void wrong_orders_fail_the_job(void **state) {
    shell_fixture *o = *state;
    const kiln_digest model = {{3}};
    kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    spec.target = KILN_STR("nonsense");
    shell_fixture_prepare(o, &spec);
    expect_failure(o, KILN_INVALID_ARGUMENT, "nonsense");
    o->event.count = 0;
    spec = shell_fixture_spec(&model, &nothing);
    spec.figures = KILN_STR("nonsense");
    shell_fixture_prepare(o, &spec);
    expect_failure(o, KILN_DATA_LOSS, "");
}

static void the_job_measures_its_machine_by_the_given_figures(void **state) {
    shell_fixture *o = *state;
    const kiln_digest model = {{3}};
    kiln_figures figures = {0};
    kiln_strbuf bytes = {0};
    figures.figure[0] = kiln_figure_info_of((kiln_figure)0)->least;
    kiln_figures_encode(&figures, &bytes);
    kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    spec.target = KILN_STR("x86-64-v3");
    spec.figures = kiln_strbuf_view(&bytes);
    const kiln_shell_job *job = shell_fixture_prepare(o, &spec);
    assert_true(kiln_figures_equal(&job->target.calibration, &figures));
    kiln_strbuf_deinit(&bytes);
}

/* ---- Its row ---- */

static uint64_t age_after(shell_fixture *o, int64_t opened_wall_ns, const char *origin) {
    const kiln_digest model = {{3}};
    const kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    const char *identity = kiln_arena_printf(&o->arena, "job %u", (unsigned)o->last_job + 1);
    const kiln_db_target target = {.target = spec.target};
    const kiln_db_job row = {.id = kiln_str_from(identity),
                             .target = spec.target,
                             .searcher = spec.searcher,
                             .state = KILN_STR("open"),
                             .opened_wall_ns = opened_wall_ns,
                             .origin = kiln_str_from(origin)};
    expect_ok(kiln_db_put_target(o->shell.db, &target));
    expect_ok(kiln_db_put_job(o->shell.db, &row));
    expect_ok(kiln_db_commit(o->shell.db));
    return shell_fixture_prepare(o, &spec)->opened_wall_ns;
}

static void a_job_that_an_earlier_run_began_keeps_its_age(void **state) {
    shell_fixture *o = *state;
    const uint64_t before_ns = kiln_clock_wall_ns();
    assert_int_equal(age_after(o, 1, ""), 1);
    assert_true(age_after(o, 0, "") >= before_ns);
    assert_true(age_after(o, INT64_MAX, "") < INT64_MAX); /* its clock was wrong */
    assert_true(age_after(o, 5, "imported") >= before_ns);
}

static void a_database_without_the_job_fails_it(void **state) {
    shell_fixture *o = *state;
    const kiln_digest model = {{3}};
    const kiln_msg_job_spec spec = shell_fixture_spec(&model, &nothing);
    shell_fixture_lose_table(o, "job");
    const kiln_shell_job *job = shell_fixture_prepare(o, &spec);
    expect_failure(o, KILN_INTERNAL, "no such table");
    assert_false(job->wants_blobs);
    assert_false(job->claim.wanted);
}

int main(int argc, char **argv) {
    own_path = argv[0];
    if (kiln_worker_is_asked(argc, argv)) return kiln_worker_main(argc, argv);
#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        test(a_job_has_the_tasks_of_its_model),
        test(a_model_that_cannot_be_read_fails_the_job),
        test(damaged_records_of_the_client_fail_the_job),
        test(damaged_schedules_by_hand_fail_the_job),
        test(tasks_of_a_job_that_is_gone_are_dropped),
        test(what_is_missing_is_fetched_from_the_tracker),
        test(what_the_tracker_lacks_fails_the_job),
        test(a_job_waits_for_a_tracker_that_went_away),
        test(only_fetches_that_broke_off_are_begun_again),
        test(a_fetch_for_a_job_that_is_gone_ends_quietly),
        test(an_error_that_is_no_number_means_the_default),
        test(wrong_orders_fail_the_job),
        test(the_job_measures_its_machine_by_the_given_figures),
        test(a_job_that_an_earlier_run_began_keeps_its_age),
        test(a_database_without_the_job_fails_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
