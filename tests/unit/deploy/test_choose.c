/* Which stored trace each task is packed with: the fastest, unless its layouts cost more than they
 * save. */
#include "deploy/pack/choose.h"

#include "tests/unit/compiler-core/graph/support.h"
#include "tests/unit/db/support.h"

#define TARGET "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"
#define ROW "row"
#define BLOCKED "d0,d1/8,d2,d3,d1%8"

/* Two kernels over a megabyte, so that a conversion (read and written at 10 GB/s) costs 210 us. */
#define CHAIN                        \
    "graph chain\n"                  \
    "input x: f32[1,64,64,64]\n"     \
    "a: f32[1,64,64,64] = relu(x)\n" \
    "y: f32[1,64,64,64] = neg(a)\n"  \
    "output y\n"

typedef struct fixture {
    kiln_arena arena;
    kiln_target target;
    kiln_db *db;
    unsigned records;
    kiln_graph *graph;
    kiln_compilation *c;
} fixture;

static int set_up(void **state) {
    static fixture f;
    f = (fixture){0};
    kiln_arena_init(&f.arena, 0);
    expect_ok(kiln_target_parse(KILN_STR(TARGET), &f.arena, &f.target));
    f.db = open_records(":memory:");
    put_parents(f.db);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_db_close(f->db);
    kiln_arena_deinit(&f->arena);
    return 0;
}

static void use_graph(fixture *f, const char *text) {
    f->graph = graph_of(&f->arena, text);
    expect_ok(kiln_compilation_create(f->graph, &f->target, &f->arena, &f->c));
}

/* A good record of a task; the caller may still spoil it. */
static kiln_db_record good_of(fixture *f, const kiln_task *task, double us, const char *in,
                              const char *out) {
    kiln_db_record record = record_of(f->records++, us * 1e3);
    kiln_strbuf target = {0};
    kiln_target_print(&f->target, &target);
    record.task_key = task->key;
    record.target = kiln_str_from(kiln_str_dup(&f->arena, kiln_strbuf_view(&target)));
    record.codegen_version = kiln_str_from(kiln_codegen_version());
    record.layout_in = kiln_str_from(in);
    record.layout_out = kiln_str_from(out);
    kiln_strbuf_deinit(&target);
    return record;
}

static kiln_db_record good(fixture *f, uint32_t task, double us, const char *in, const char *out) {
    return good_of(f, &f->c->base.tasks.task[task], us, in, out);
}

static void store(fixture *f, const kiln_db_record *record) {
    expect_ok(
        kiln_db_put_task(f->db, &(kiln_db_task){.key = record->task_key, .op = KILN_STR("any")}));
    expect_ok(kiln_db_put_target(f->db, &(kiln_db_target){.target = record->target}));
    expect_ok(kiln_db_put_record(f->db, record));
}

static void put(fixture *f, uint32_t task, double us, const char *in, const char *out) {
    kiln_db_record record = good(f, task, us, in, out);
    store(f, &record);
}

static void put_join(fixture *f, uint32_t task, double us, const char *in) {
    kiln_db_record record = good_of(f, &f->c->joins.tasks.task[task], us, in, ROW);
    store(f, &record);
}

static kiln_status choose(fixture *f) {
    const kiln_pack_stored stored = kiln_pack_stored_in(f->db);
    const kiln_pack_options options = {.stored = &stored};
    return kiln_choose(f->c, &options);
}

static void expect_chosen(fixture *f, uint32_t step, double us) {
    assert_float_equal(f->c->way[step]->median_ns, (us * 1e3), 1e-6);
    assert_int_equal(f->c->way[step]->is_default, us == 0);
}

/* ---- promises -------------------------------------------------------------------------------- */

/* Though a stored one is faster. */
static void a_schedule_that_is_given_is_taken(void **state) {
    fixture *f = *state;
    use_graph(f, CHAIN);
    put(f, 0, 1, ROW, ROW);
    kiln_pack_given given = {.task_key = f->c->base.tasks.task[0].key};
    expect_ok(kiln_trace_parse(KILN_STR("vectorize(relu.l)\n"), &f->arena, &given.trace));
    const kiln_pack_stored stored = kiln_pack_stored_in(f->db);
    kiln_pack_options options = {.stored = &stored, .given = &given, .given_count = 1};
    expect_ok(kiln_choose(f->c, &options));
    kiln_trace chosen;
    kiln_strbuf text = {0};
    expect_ok(kiln_trace_decode(f->c->way[0]->trace, &f->arena, &chosen));
    kiln_trace_print(&chosen, &text);
    assert_string_equal(text.data, "vectorize(relu.l)\n");
    kiln_strbuf_deinit(&text);
    assert_true(f->c->way[1]->is_default);
    options.without = 1u << KILN_PLANNER_LAYOUT;
    expect_ok(kiln_choose(f->c, &options));
    assert_true(f->c->way[0]->is_given);
}

static void a_schedule_for_no_task_or_that_does_not_apply_is_refused(void **state) {
    fixture *f = *state;
    use_graph(f, CHAIN);
    kiln_pack_given given = {.task_key = KILN_STR("v2:00")};
    const kiln_pack_options options = {.given = &given, .given_count = 1};
    expect_error(kiln_choose(f->c, &options), NOT_FOUND, "task v2:00, which the model");
    given.task_key = f->c->base.tasks.task[0].key;
    expect_ok(kiln_trace_parse(KILN_STR("vectorize(neg.l)\n"), &f->arena, &given.trace));
    expect_error(kiln_choose(f->c, &options), ILLEGAL_SCHEDULE, "there is no loop neg.l");
}

static void without_records_the_default_schedule_is_taken(void **state) {
    use_graph(*state, CHAIN);
    expect_ok(choose(*state));
    for (uint32_t i = 0; i < 2; i++) {
        expect_chosen(*state, i, 0);
        assert_true(((fixture *)*state)->c->way[i]->trace.size > 0);
    }
}

static void the_fastest_of_equal_layouts_is_taken(void **state) {
    use_graph(*state, CHAIN);
    put(*state, 0, 120, ROW, ROW);
    put(*state, 0, 100, ROW, ROW);
    put(*state, 0, 110, ROW, ROW);
    expect_ok(choose(*state));
    expect_chosen(*state, 0, 100);
    expect_chosen(*state, 1, 0);
}

static void a_kernel_gives_way_where_its_layout_costs_more_than_it_saves(void **state) {
    use_graph(*state, CHAIN);
    put(*state, 0, 100, ROW, ROW);
    put(*state, 0, 90, ROW, BLOCKED);
    put(*state, 1, 100, ROW, ROW);
    expect_ok(choose(*state));
    expect_chosen(*state, 0, 100);
    expect_chosen(*state, 1, 100);
}

static void kernels_agree_on_a_layout_that_pays_for_both(void **state) {
    use_graph(*state, CHAIN);
    put(*state, 0, 100, ROW, ROW);
    put(*state, 0, 110, ROW, BLOCKED);
    put(*state, 1, 100, ROW, ROW);
    put(*state, 1, 50, BLOCKED, ROW);
    expect_ok(choose(*state));
    expect_chosen(*state, 0, 110);
    expect_chosen(*state, 1, 50);
}

static void a_layout_that_saves_more_than_its_conversion_is_taken(void **state) {
    use_graph(*state, CHAIN);
    put(*state, 1, 1000, ROW, ROW);
    put(*state, 1, 100, BLOCKED, ROW);
    put(*state, 0, 100, ROW, ROW);
    expect_ok(choose(*state));
    expect_chosen(*state, 1, 100);
}

static void inputs_and_outputs_of_the_graph_are_row_major(void **state) {
    use_graph(*state, "graph one\ninput x: f32[1,64,64,64]\n"
                      "y: f32[1,64,64,64] = relu(x)\noutput y\n");
    put(*state, 0, 100, ROW, ROW);
    put(*state, 0, 10, BLOCKED, BLOCKED);
    expect_ok(choose(*state));
    expect_chosen(*state, 0, 100);
}

static void records_that_do_not_fit_are_not_looked_at(void **state) {
    fixture *f = *state;
    use_graph(f, CHAIN);
    put(f, 0, 100, ROW, ROW);
    kiln_db_record record = good(f, 0, 1, ROW, ROW);
    record.target = KILN_STR("cpu:x86_64-unknown-linux-gnu");
    store(f, &record);
    record = good(f, 0, 2, ROW, ROW);
    record.codegen_version = KILN_STR("0");
    store(f, &record);
    record = good(f, 0, 3, ROW, ROW);
    record.outcome = KILN_STR("wrong_result");
    record.blame = KILN_STR("candidate");
    store(f, &record);
    record = good(f, 0, 4, ROW, ROW);
    record.checked = 0;
    store(f, &record);
    expect_ok(choose(f));
    expect_chosen(f, 0, 100);
}

/* Those over the budget never, and of tasks that have to be exact none but direct sums. */
static void records_are_chosen_within_the_budget(void **state) {
    fixture *f = *state;
    use_graph(f, CHAIN);
    const kiln_pack_stored stored = kiln_pack_stored_in(f->db);
    kiln_pack_options options = {.stored = &stored};
    put(f, 0, 100, ROW, ROW);
    kiln_db_record record = good(f, 0, 50, ROW, ROW);
    record.algorithm = KILN_STR("winograd_2x2_3x3");
    record.relative_error = 1e-6;
    store(f, &record);
    record = good(f, 0, 10, ROW, ROW);
    record.algorithm = KILN_STR("bf16_weights");
    record.relative_error = 1e-3;
    store(f, &record);
    expect_ok(kiln_choose(f->c, &options));
    expect_chosen(f, 0, 50);
    assert_true(f->c->way[0]->relative_error == 1e-6);
    options.accuracy.precision = KILN_PRECISION_BF16;
    expect_ok(kiln_choose(f->c, &options));
    expect_chosen(f, 0, 10);
    options.exact = &f->c->plan.tasks.task[0].key;
    options.exact_count = 1;
    expect_ok(kiln_choose(f->c, &options));
    expect_chosen(f, 0, 100);
    options = (kiln_pack_options){.stored = &stored, .accuracy = {.exact = true}};
    expect_ok(kiln_choose(f->c, &options));
    expect_chosen(f, 0, 100);
}

static void a_record_with_a_damaged_layout_is_named(void **state) {
    use_graph(*state, CHAIN);
    put(*state, 0, 100, "d0,d7", ROW);
    expect_error(choose(*state), INVALID_ARGUMENT, "relu");
}

static void values_are_written_in_the_layouts_chosen(void **state) {
    fixture *f = *state;
    use_graph(f, CHAIN);
    put(f, 0, 100, ROW, BLOCKED);
    put(f, 1, 100, BLOCKED, ROW);
    expect_ok(choose(f));
    kiln_layout *layout = f->c->layout, blocked;
    expect_ok(kiln_layout_parse(KILN_STR(BLOCKED), 4, &blocked));
    kiln_value a = kiln_graph_find_value(f->graph, KILN_STR("a"));
    assert_true(kiln_layout_equal(&layout[a], &blocked));
    assert_true(kiln_layout_is_identity(&layout[f->graph->input.data[0]]));
    assert_true(kiln_layout_is_identity(&layout[f->graph->output.data[0]]));
}

/* The estimate says 210 us, which 100 saved do not pay for; measured it takes 20. */
static void a_measured_conversion_counts_instead_of_the_estimate(void **state) {
    fixture *f = *state;
    use_graph(f, CHAIN);
    put(f, 0, 100, ROW, ROW);
    put(f, 1, 200, ROW, ROW);
    put(f, 1, 100, BLOCKED, ROW);
    expect_ok(choose(f));
    expect_chosen(f, 1, 200);
    kiln_layout row = {0}, blocked;
    const kiln_value_info *a =
        &f->graph->value.data[kiln_graph_find_value(f->graph, KILN_STR("a"))];
    expect_ok(kiln_layout_parse(KILN_STR(BLOCKED), 4, &blocked));
    kiln_db_record record = good(f, 0, 20, ROW, BLOCKED);
    record.task_key = kiln_task_key(
        kiln_conversion_te(a->dtype, &a->shape, &row, &blocked, &f->arena), &f->arena);
    store(f, &record);
    expect_ok(choose(f));
    expect_chosen(f, 1, 100);
}

/* Both steps run the same task; the second stands before what wants blocks. */
static void steps_of_one_task_may_take_different_schedules(void **state) {
    fixture *f = *state;
    use_graph(f, "graph twice\ninput x: f32[1,64,64,64]\ninput z: f32[1,64,64,64]\n"
                 "a: f32[1,64,64,64] = relu(x)\nb: f32[1,64,64,64] = relu(z)\n"
                 "y: f32[1,64,64,64] = neg(b)\noutput a\noutput y\n");
    put(f, 0, 100, ROW, ROW);
    put(f, 0, 110, ROW, BLOCKED);
    put(f, 1, 200, ROW, ROW);
    put(f, 1, 50, BLOCKED, ROW);
    expect_ok(choose(f));
    expect_chosen(f, 0, 100);
    expect_chosen(f, 1, 110);
    expect_chosen(f, 2, 50);
}

#define CHOOSE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- kernels that may be one ------------------------------------------------------------------
 */

/* Three kernels a, b, c, and the joins a > b, a > b > c, b > c. */
#define ROWS                                                                       \
    "graph rows\ninput x: f32[64,4]\ninput w: f32[4,64]\ninput v: f32[64,4]\n"     \
    "a: f32[64,64] = matmul(x, w) kernel 1\nb: f32[64,64] = softmax(a) kernel 2\n" \
    "c: f32[64,4] = matmul(b, v) kernel 3\noutput c\n"
enum { AB, ABC, BC };

static void use_rows(fixture *f) {
    use_graph(f, ROWS);
    assert_int_equal(f->c->joins.count, 3);
    put(f, 0, 100, "row;row", ROW);
    put(f, 1, 100, ROW, ROW);
    put(f, 2, 100, "row;row", ROW);
}

static void expect_joined(fixture *f, bool ab, bool abc, bool bc) {
    const bool expected[] = {ab, abc, bc};
    for (uint32_t j = 0; j < 3; j++) assert_int_equal(f->c->joined[j], expected[j]);
    assert_int_equal(f->c->plan.step_count, 3u - ab - 2u * abc - bc);
    for (uint32_t s = 0; s < f->c->plan.step_count; s++) assert_non_null(f->c->way[s]);
}

static void a_join_is_chosen_where_it_was_measured_to_be_faster(void **state) {
    use_rows(*state);
    put_join(*state, AB, 210, "row;row");
    expect_ok(choose(*state));
    expect_joined(*state, false, false, false);
    put_join(*state, AB, 150, "row;row");
    expect_ok(choose(*state));
    expect_joined(*state, true, false, false);
    expect_chosen(*state, 0, 150);
    expect_chosen(*state, 1, 100);
}

static void of_joins_that_overlap_the_best_set_is_chosen(void **state) {
    use_rows(*state);
    put_join(*state, AB, 150, "row;row");
    put_join(*state, BC, 140, "row;row");
    expect_ok(choose(*state));
    expect_joined(*state, false, false, true);
    put_join(*state, ABC, 230, "row;row;row");
    expect_ok(choose(*state));
    expect_joined(*state, false, true, false);
    expect_chosen(*state, 0, 230);
}

/* Measured at other moments, both times are as good as equal. */
static void a_join_has_to_gain_more_than_noise(void **state) {
    use_rows(*state);
    put_join(*state, AB, 199, "row;row");
    expect_ok(choose(*state));
    expect_joined(*state, false, false, false);
}

static void an_estimate_says_nothing_beside_a_measured_join(void **state) {
    use_graph(*state, ROWS);
    put_join(*state, AB, 1, "row;row");
    put(*state, 0, 100, "row;row", ROW);
    expect_ok(choose(*state));
    expect_joined(*state, false, false, false);
}

static void what_is_taken_back_or_left_out_is_not_joined(void **state) {
    fixture *f = *state;
    const kiln_pack_stored stored = kiln_pack_stored_in(f->db);
    kiln_pack_options options = {.stored = &stored};
    use_rows(f);
    put_join(f, AB, 150, "row;row");
    expect_ok(kiln_choose(f->c, &options));
    expect_joined(f, true, false, false);
    options.taken_back = &f->c->joins.tasks.task[AB].key;
    options.taken_back_count = 1;
    expect_ok(kiln_choose(f->c, &options));
    expect_joined(f, false, false, false);
    expect_chosen(f, 0, 100);
    options = (kiln_pack_options){.stored = &stored, .without = 1u << KILN_PLANNER_JOINS};
    expect_ok(kiln_choose(f->c, &options));
    expect_joined(f, false, false, false);
    options.without = 0;
    expect_ok(kiln_choose(f->c, &options));
    expect_joined(f, true, false, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHOOSE_TEST(a_schedule_that_is_given_is_taken),
        CHOOSE_TEST(a_schedule_for_no_task_or_that_does_not_apply_is_refused),
        CHOOSE_TEST(a_schedule_that_is_given_is_taken),
        CHOOSE_TEST(a_schedule_for_no_task_or_that_does_not_apply_is_refused),
        CHOOSE_TEST(without_records_the_default_schedule_is_taken),
        CHOOSE_TEST(the_fastest_of_equal_layouts_is_taken),
        CHOOSE_TEST(a_kernel_gives_way_where_its_layout_costs_more_than_it_saves),
        CHOOSE_TEST(kernels_agree_on_a_layout_that_pays_for_both),
        CHOOSE_TEST(a_layout_that_saves_more_than_its_conversion_is_taken),
        CHOOSE_TEST(inputs_and_outputs_of_the_graph_are_row_major),
        CHOOSE_TEST(records_that_do_not_fit_are_not_looked_at),
        CHOOSE_TEST(records_are_chosen_within_the_budget),
        CHOOSE_TEST(a_record_with_a_damaged_layout_is_named),
        CHOOSE_TEST(values_are_written_in_the_layouts_chosen),
        CHOOSE_TEST(a_measured_conversion_counts_instead_of_the_estimate),
        CHOOSE_TEST(steps_of_one_task_may_take_different_schedules),
        CHOOSE_TEST(a_join_is_chosen_where_it_was_measured_to_be_faster),
        CHOOSE_TEST(of_joins_that_overlap_the_best_set_is_chosen),
        CHOOSE_TEST(a_join_has_to_gain_more_than_noise),
        CHOOSE_TEST(an_estimate_says_nothing_beside_a_measured_join),
        CHOOSE_TEST(what_is_taken_back_or_left_out_is_not_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
