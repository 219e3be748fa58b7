/* What the searchers and the model of a job learn before the first trial. */
#include "tests/support/test.h"
#include "tuner/shell.h"

typedef struct desk {
    kiln_shell_job job;
    kiln_shell_task task[2]; /* "t1" and "t2", without searchers at first */
} desk;

static desk the_desk;

static int set_up(void **state) {
    desk *d = &the_desk;
    *d = (desk){.task = {{.key = KILN_STR("t1")}, {.key = KILN_STR("t2")}}};
    kiln_arena_init(&d->job.arena, 0);
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v3"), &d->job.arena, &d->job.target));
    d->job.identity = "me";
    d->job.task = d->task;
    d->job.task_count = KILN_ARRAY_COUNT(d->task);
    *state = d;
    return 0;
}

static int tear_down(void **state) {
    desk *d = *state;
    for (uint32_t i = 0; i < d->job.task_count; i++) kiln_searcher_destroy(d->task[i].searcher);
    kiln_cost_model_destroy(d->job.model);
    kiln_arena_deinit(&d->job.arena);
    return 0;
}

#define PRODUCT(rows)                                                             \
    "program product\ninput x: f32[" rows ",64]\nconstant w: f32[32,64]\noutput " \
    "y: f32[" rows ",32]\nblock product(m:" rows ", n:32 | k:64): y[m, n] sum= "  \
    "x[m, k]*w[n, k] init 0f32\n"

static kiln_searcher *searcher_for(desk *d, const char *text, kiln_program **out_te) {
    const kiln_space_options space = {0};
    const kiln_searcher_options options = {
        .kind = KILN_SEARCHER_RANDOM, .seed = 1, .task = KILN_STR("task")};
    kiln_points *points = NULL;
    kiln_searcher *searcher = NULL;
    expect_ok(kiln_program_parse(kiln_str_from(text), &d->job.arena, out_te));
    expect_ok(kiln_points_of_space(*out_te, &d->job.target, &space, KILN_MODEL_ANALYTIC, &points));
    expect_ok(kiln_searcher_create(&options, points, &searcher));
    return searcher;
}

/* The trace of that proposal of a fresh searcher; 0: the default schedule. */
static kiln_point proposal_of(desk *d, const char *text, uint32_t at) {
    kiln_program *te = NULL;
    kiln_searcher *searcher = searcher_for(d, text, &te);
    const kiln_point *point = NULL;
    for (uint32_t i = 0; i <= at; i++) expect_ok(kiln_searcher_propose(searcher, &point));
    const kiln_point copy = kiln_point_copy(point, &d->job.arena);
    kiln_searcher_destroy(searcher);
    return copy;
}

static void open_task(desk *d, uint32_t at, const char *text) {
    d->task[at].searcher = searcher_for(d, text, &d->task[at].te);
}

static void with_model(desk *d) {
    const kiln_cost_model_options options = {.kind = KILN_MODEL_ANALYTIC};
    d->job.model = kiln_cost_model_create(&options);
}

static kiln_transfer_record *add(desk *d, uint32_t task, kiln_point point) {
    const kiln_transfer_record added = {
        .task = task,
        .key = KILN_STR("key"),
        .trace = point.trace,
        .hash = kiln_str_from(kiln_arena_copy(&d->job.arena, point.hash, sizeof point.hash)),
        .latency_ns = 500};
    kiln_vec_push_in(&d->job.arena, &d->job.transfer.records, added);
    return &d->job.transfer.records.data[d->job.transfer.records.count - 1];
}

static void add_other(desk *d, const char *text, uint32_t count) {
    const kiln_point point = proposal_of(d, text, 0);
    for (uint32_t i = 0; i < count; i++) {
        kiln_transfer_record *added = add(d, d->job.task_count, point);
        added->key = added->text = kiln_str_from(text);
    }
}

static void expect_proposal(desk *d, uint32_t task, const char *hash) {
    const kiln_point *point = NULL;
    expect_ok(kiln_searcher_propose(d->task[task].searcher, &point));
    assert_string_equal(point->hash, hash);
}

static void known_candidates_are_not_proposed_again(void **state) {
    desk *d = *state;
    const kiln_point base = proposal_of(d, PRODUCT("16"), 0);
    const kiln_point *point = NULL;
    open_task(d, 1, PRODUCT("16"));
    add(d, 0, base); /* of a task without a searcher */
    add(d, 1, base);
    kiln_shell_teach(&d->job);
    expect_ok(kiln_searcher_propose(d->task[1].searcher, &point));
    assert_string_not_equal(point->hash, base.hash);
}

static void what_was_fast_elsewhere_follows_the_default(void **state) {
    desk *d = *state;
    const kiln_point base = proposal_of(d, PRODUCT("16"), 0);
    const kiln_point fast = proposal_of(d, PRODUCT("16"), 9);
    open_task(d, 0, PRODUCT("16"));
    with_model(d);
    kiln_transfer_record *adopted = add(d, 0, fast);
    adopted->target = &d->job.target;
    adopted->adopted = true;
    kiln_shell_teach(&d->job);
    expect_proposal(d, 0, base.hash);
    expect_proposal(d, 0, fast.hash);
    assert_int_equal(kiln_cost_model_sample_count(d->job.model), 0);
}

static void records_of_a_similar_target_teach_the_model(void **state) {
    desk *d = *state;
    open_task(d, 0, PRODUCT("16"));
    with_model(d);
    for (uint32_t i = 0; i < 3; i++)
        add(d, 0, proposal_of(d, PRODUCT("16"), i))->target = &d->job.target;
    add(d, 0, (kiln_point){.trace = KILN_STR("no trace")})->target = &d->job.target;
    kiln_shell_teach(&d->job);
    assert_int_equal(kiln_cost_model_sample_count(d->job.model), 3);
    assert_int_equal(kiln_cost_model_own_count(d->job.model), 0);
    expect_proposal(d, 0, proposal_of(d, PRODUCT("16"), 0).hash);
}

static void schedules_by_hand_are_proposed_first(void **state) {
    desk *d = *state;
    const kiln_point first = proposal_of(d, PRODUCT("16"), 5);
    const kiln_point second = proposal_of(d, PRODUCT("16"), 6);
    const kiln_point other = proposal_of(d, PRODUCT("16"), 7);
    kiln_msg_hand_schedule given[] = {{KILN_STR("t1"), first.trace},
                                      {KILN_STR("t2"), other.trace}, /* which has no searcher */
                                      {KILN_STR("t1"), KILN_STR("no trace")},
                                      {KILN_STR("t1"), second.trace}};
    open_task(d, 0, PRODUCT("16"));
    d->job.transfer.by_hand.items.item = given;
    d->job.transfer.by_hand.items.count = KILN_ARRAY_COUNT(given);
    kiln_shell_teach(&d->job);
    expect_proposal(d, 0, first.hash);
    expect_proposal(d, 0, second.hash);
    expect_proposal(d, 0, proposal_of(d, PRODUCT("16"), 0).hash);
}

/* The most similar ones have few records, so that their number shows. */
static void the_six_most_similar_tasks_teach_the_model(void **state) {
    desk *d = *state;
    open_task(d, 1, PRODUCT("16"));
    with_model(d);
    add_other(d, PRODUCT("4096"), 20);
    add_other(d, PRODUCT("14"), 1);
    add_other(d, PRODUCT("15"), 3);
    add_other(d, PRODUCT("17"), 1);
    add_other(d, PRODUCT("18"), 1);
    add_other(d, PRODUCT("2048"), 20);
    add_other(d, PRODUCT("19"), 1);
    add_other(d, PRODUCT("20"), 1);
    kiln_shell_teach(&d->job);
    assert_int_equal(kiln_cost_model_sample_count(d->job.model), 8);
    assert_int_equal(kiln_cost_model_own_count(d->job.model), 0);
}

static void of_equally_similar_tasks_the_first_teach(void **state) {
    desk *d = *state;
    open_task(d, 0, PRODUCT("16"));
    with_model(d);
    for (uint32_t i = 0; i < 7; i++) { /* the same program under seven keys */
        const uint32_t records = i < 6 ? 1 : 20;
        add_other(d, PRODUCT("12"), records);
        for (uint32_t k = 0; k < records; k++)
            d->job.transfer.records.data[d->job.transfer.records.count - 1 - k].key =
                kiln_str_slice(KILN_STR("abcdefg"), i, i + 1);
    }
    kiln_shell_teach(&d->job);
    assert_int_equal(kiln_cost_model_sample_count(d->job.model), 6);
}

static void a_task_teaches_only_so_many_records(void **state) {
    desk *d = *state;
    open_task(d, 0, PRODUCT("16"));
    with_model(d);
    add_other(d, PRODUCT("12"), KILN_TRANSFER_RECORDS_PER_TASK + 5);
    add_other(d, PRODUCT("13"), 1);
    kiln_shell_teach(&d->job);
    assert_int_equal(kiln_cost_model_sample_count(d->job.model),
                     KILN_TRANSFER_RECORDS_PER_TASK + 1);
}

static void other_tasks_that_cannot_be_read_teach_nothing(void **state) {
    desk *d = *state;
    open_task(d, 0, PRODUCT("16"));
    with_model(d);
    add_other(d, PRODUCT("12"), 3);
    d->job.transfer.records.data[1].trace = KILN_STR("no trace"); /* the others count */
    for (uint32_t i = 0; i < 7; i++) {                            /* and take no place of the six */
        kiln_transfer_record *unknown = add(d, d->job.task_count, (kiln_point){0});
        unknown->key = kiln_str_slice(KILN_STR("abcdefg"), i, i + 1);
        unknown->text = KILN_STR("program of a later version");
    }
    kiln_shell_teach(&d->job);
    assert_int_equal(kiln_cost_model_sample_count(d->job.model), 2);
}

int main(void) {
#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        test(known_candidates_are_not_proposed_again),
        test(what_was_fast_elsewhere_follows_the_default),
        test(records_of_a_similar_target_teach_the_model),
        test(schedules_by_hand_are_proposed_first),
        test(the_six_most_similar_tasks_teach_the_model),
        test(of_equally_similar_tasks_the_first_teach),
        test(a_task_teaches_only_so_many_records),
        test(other_tasks_that_cannot_be_read_teach_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
