/* From a model's compilation to the tasks of a job and their searchers. */
#include <stdio.h>
#include <string.h>

#include "compiler-core/layout/compilation.h"
#include "tests/unit/compiler-core/graph/support.h"
#include "tuner/shell.h"

/* Tasks for two convolutions, a softmax, and conversions between layouts. */
#define MODEL                                                                    \
    "graph net\ninput x: f32[1,16,9,9]\n"                                        \
    "constant w: f32[16,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"   \
    "constant v: f32[32,16,3,3] = hash \"10112233445566778899aabbccddeeff\"\n"   \
    "a: f32[1,16,9,9] = conv(x, w) pads=[1,1,1,1]\nb: f32[1,16,9,9] = relu(a)\n" \
    "c: f32[1,32,9,9] = conv(b, v) pads=[1,1,1,1]\n"                             \
    "r: f32[32,81] = reshape(c) shape=[32,81]\n"                                 \
    "s: f32[16,81] = slice(r) axes=[0] starts=[16] ends=[32]\n"                  \
    "y: f32[16,81] = softmax(s)\noutput y\noutput r\n"

typedef struct desk {
    kiln_shell shell;
    kiln_shell_job job;
    kiln_compilation *c; /* what its bytes say, with alternatives that a test adds */
} desk;

static desk the_desk;

static int set_up(void **state) {
    desk *d = &the_desk;
    *d = (desk){0};
    kiln_shell_job *job = &d->job;
    kiln_arena_init(&job->arena, 0);
    d->shell.options.model = KILN_MODEL_ANALYTIC;
    job->shell = &d->shell;
    job->identity = "me";
    job->spec.searcher = KILN_STR("random");
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v3"), &job->arena, &job->target));
    expect_ok(kiln_compilation_of_model(graph_of(&job->arena, MODEL), &job->target,
                                        &(kiln_accuracy){0}, &job->arena, &d->c));
    assert_true(d->c->searched.count >= 4);
    *state = d;
    return 0;
}

static int tear_down(void **state) {
    desk *d = *state;
    for (uint32_t i = 0; i < d->job.task_count; i++) kiln_searcher_destroy(d->job.task[i].searcher);
    kiln_cost_model_destroy(d->job.model);
    kiln_arena_deinit(&d->job.arena);
    return 0;
}

static kiln_status open_tasks(desk *d) {
    kiln_strbuf bytes = {0};
    kiln_compilation_encode(d->c, false, &bytes);
    kiln_status st = kiln_shell_open_tasks(&d->job, kiln_strbuf_view(&bytes));
    kiln_strbuf_deinit(&bytes); /* the job has copied them */
    return st;
}

static kiln_str key_of(const desk *d, uint32_t task) { return d->c->searched.task[task].key; }

/* The first hash that a searcher of that seed and that model proposes after the default one. */
static const char *second_proposal(desk *d, uint32_t task) {
    const kiln_point *point = NULL;
    for (int i = 0; i < 2; i++)
        expect_ok(kiln_searcher_propose(d->job.task[task].searcher, &point));
    return point->hash;
}

static void all_tasks_of_the_model_are_opened(void **state) {
    desk *d = *state;
    expect_ok(open_tasks(d));
    const kiln_tasks *searched = &d->c->searched;
    assert_int_equal(d->job.task_count, searched->count);
    for (uint32_t i = 0; i < searched->count; i++) {
        const kiln_shell_task *task = &d->job.task[i];
        kiln_strbuf text = {0};
        kiln_program_print(searched->task[i].te, &text);
        assert_true(kiln_str_equal(task->key, searched->task[i].key));
        assert_true(kiln_str_equal(task->text, kiln_strbuf_view(&text)));
        assert_true(task->flops == searched->task[i].flops);
        assert_int_equal(task->weight, searched->task[i].weight);
        assert_non_null(task->searcher);
        assert_int_equal(task->error.size, 0);
        kiln_strbuf_deinit(&text);
    }
    assert_null(d->job.model);
    assert_int_equal(d->job.alternative_count, 0);
}

static void a_filter_takes_tasks_by_operator_or_key(void **state) {
    desk *d = *state;
    uint32_t softmax = 0;
    while (!strstr(d->c->searched.task[softmax].op.data, "softmax")) softmax++;
    const uint32_t other = softmax ? 0 : 1;
    d->job.spec.tasks = kiln_str_from(
        kiln_arena_printf(&d->job.arena, " ,,softmax , %.*s,", KILN_STR_ARG(key_of(d, other))));
    expect_ok(open_tasks(d));
    assert_int_equal(d->job.task_count, 2);
    assert_true(kiln_str_equal(d->job.task[softmax > other].key, key_of(d, softmax)));
    assert_true(kiln_str_equal(d->job.task[softmax < other].key, key_of(d, other)));
}

static void a_filter_of_one_letter_is_a_filter(void **state) {
    desk *d = *state;
    d->job.spec.tasks = KILN_STR("@");
    expect_error(open_tasks(d), NOT_FOUND, "tasks matches '@'");
}

static void a_model_without_tasks_needs_no_filter(void **state) {
    desk *d = *state;
    d->c->searched.count = 0;
    d->job.spec.tasks = KILN_STR("softmax");
    expect_ok(open_tasks(d));
    assert_int_equal(d->job.task_count, 0);
}

static void an_unknown_searcher_stops_the_job(void **state) {
    desk *d = *state;
    kiln_alternative alternative = {.task = 0, .count = 1, .instead_of = {1}};
    d->c->alternative = &alternative;
    d->c->alternative_count = 1;
    d->job.spec.searcher = KILN_STR("nonsense");
    expect_error(open_tasks(d), NOT_FOUND, "no searcher is called 'nonsense'");
    assert_int_equal(d->job.alternative_count, 0);
}

static void damaged_bytes_stop_the_job(void **state) {
    desk *d = *state;
    expect_error(kiln_shell_open_tasks(&d->job, KILN_STR("nonsense")), DATA_LOSS, "");
    assert_int_equal(d->job.task_count, 0);
}

static void alternatives_whose_tasks_are_all_wanted_are_kept(void **state) {
    desk *d = *state;
    kiln_alternative alternative[] = {
        {.task = 3, .count = 2, .instead_of = {2, 1}, .times = 5},
        {.task = 0, .count = 2, .instead_of = {1, 2}}, /* which is not wanted */
        {.task = 1, .count = 2, .instead_of = {0, 2}},
        {.task = 1, .count = 2, .instead_of = {2, 0}},
        {.task = 2, .count = 1, .instead_of = {3}, .times = 7},
    };
    d->c->alternative = alternative;
    d->c->alternative_count = KILN_ARRAY_COUNT(alternative);
    d->job.spec.tasks =
        kiln_str_from(kiln_arena_printf(&d->job.arena, "%.*s,%.*s,%.*s", KILN_STR_ARG(key_of(d, 1)),
                                        KILN_STR_ARG(key_of(d, 2)), KILN_STR_ARG(key_of(d, 3))));
    expect_ok(open_tasks(d));
    assert_int_equal(d->job.alternative_count, 2);
    const kiln_tuner_alternative *first = &d->job.alternative[0];
    assert_int_equal(first->task, 2);
    assert_int_equal(first->count, 2);
    assert_int_equal(first->instead_of[0], 1);
    assert_int_equal(first->instead_of[1], 0);
    assert_true(first->times == 5);
    assert_int_equal(d->job.alternative[1].task, 1);
    assert_int_equal(d->job.alternative[1].instead_of[0], 2);
}

/* Without a model the analytic one tells which candidates fit the registers. */
static void candidates_are_encoded_for_the_model_that_is_asked(void **state) {
    desk *d = *state;
    d->shell.options.model = KILN_MODEL_NULL;
    expect_ok(open_tasks(d));
    const kiln_encoding *encoding = kiln_searcher_default_encoding(d->job.task[0].searcher);
    assert_int_equal(encoding->size_bytes, sizeof(float)); /* the predicted time */
    tear_down(state);
    set_up(state);
    d->shell.options.model = KILN_MODEL_NULL;
    d->job.spec.searcher = KILN_STR("sa");
    expect_ok(open_tasks(d));
    encoding = kiln_searcher_default_encoding(d->job.task[0].searcher);
    assert_int_equal(encoding->size_bytes, 0);
}

static void searchers_that_learn_share_a_model_of_the_tuners_kind(void **state) {
    desk *d = *state;
    d->job.spec.searcher = KILN_STR("sa");
    d->shell.options.model = KILN_MODEL_NULL;
    expect_ok(open_tasks(d));
    assert_non_null(d->job.model);
    assert_int_equal(kiln_cost_model_kind(d->job.model), KILN_MODEL_NULL);
    for (uint32_t i = 0; i < d->job.task_count; i++) {
        const kiln_point *proposed = NULL;
        expect_ok(kiln_searcher_propose(d->job.task[i].searcher, &proposed));
        kiln_searcher_observe(d->job.task[i].searcher, 0, KILN_OUTCOME_OK, NULL, 500);
    }
    assert_int_equal(kiln_cost_model_sample_count(d->job.model), d->job.task_count);
}

static void the_seed_and_the_task_decide_what_is_drawn(void **state) {
    desk *d = *state;
    uint32_t conv = 0;
    while (!strstr(d->c->searched.task[conv].op.data, "conv")) conv++;
    expect_ok(open_tasks(d));
    char first[KILN_HASH128_TEXT]; /* outlives the job's arena */
    snprintf(first, sizeof first, "%s", second_proposal(d, conv));
    for (uint32_t seed = 0; seed < 2; seed++) {
        tear_down(state);
        set_up(state);
        d->job.spec.seed = seed;
        expect_ok(open_tasks(d));
        const char *again = second_proposal(d, conv);
        assert_int_equal(strcmp(first, again) == 0, seed == 0);
    }
}

static void tasks_without_trials_have_no_searcher(void **state) {
    desk *d = *state;
    expect_ok(open_tasks(d));
    d->job.spec.trials = d->job.task_count; /* one each */
    d->job.task[1].known.stored_count = 1;
    kiln_shell_close_tasks(&d->job);
    for (uint32_t i = 0; i < d->job.task_count; i++)
        assert_int_equal(d->job.task[i].searcher != NULL, i != 1);
}

/* A client that has the records of this model already asks for no trials. */
static void a_budget_that_is_used_up_closes_all_tasks(void **state) {
    desk *d = *state;
    expect_ok(open_tasks(d));
    d->job.spec.trials = d->job.task_count + 1;
    d->job.task[0].known.repeat_count = d->job.task_count; /* one is left */
    kiln_shell_close_tasks(&d->job);
    for (uint32_t i = 0; i < d->job.task_count; i++) assert_non_null(d->job.task[i].searcher);
    d->job.task[0].known.repeat_count++;
    kiln_shell_close_tasks(&d->job);
    for (uint32_t i = 0; i < d->job.task_count; i++) assert_null(d->job.task[i].searcher);
}

int main(void) {
#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        test(all_tasks_of_the_model_are_opened),
        test(a_filter_takes_tasks_by_operator_or_key),
        test(a_filter_of_one_letter_is_a_filter),
        test(a_model_without_tasks_needs_no_filter),
        test(an_unknown_searcher_stops_the_job),
        test(damaged_bytes_stop_the_job),
        test(alternatives_whose_tasks_are_all_wanted_are_kept),
        test(candidates_are_encoded_for_the_model_that_is_asked),
        test(searchers_that_learn_share_a_model_of_the_tuners_kind),
        test(the_seed_and_the_task_decide_what_is_drawn),
        test(tasks_without_trials_have_no_searcher),
        test(a_budget_that_is_used_up_closes_all_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
