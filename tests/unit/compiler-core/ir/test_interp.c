/* Values of expressions at one point. */
#include "compiler-core/ir/interp.h"

#include "tests/unit/compiler-core/ir/support.h"

static kiln_status load_counts(kiln_interp *in, kiln_buffer buffer, const int64_t *index,
                               kiln_scalar *out_value) {
    ++*(int *)in->context;
    if (index[0] > 2) return KILN_ERROR(OUT_OF_RANGE, "buffer %u, index %d", buffer, (int)index[0]);
    out_value->f = (double)index[0];
    return KILN_OK;
}

static kiln_expr load(kiln_program *p, kiln_expr index) {
    const kiln_shape shape = {.rank = 1, .dim = {4}};
    static const kiln_str name = {"x", 1};
    kiln_buffer x = kiln_program_find_buffer(p, name);
    if (!x) x = kiln_buffer_create(p, name, KILN_F32, KILN_ROLE_INPUT, &shape);
    return kiln_expr_load(p, x, &index, 1);
}

static void shared_parts_are_evaluated_once_until_something_moves(void **state) {
    kiln_program *p = *state;
    kiln_expr i = var(p, "i", 4);
    kiln_expr e = load(p, i);
    for (int k = 0; k < 50; k++) e = kiln_expr_binary(p, KILN_EXPR_MUL, e, e); /* 2^50 paths */
    int loads = 0;
    kiln_interp in;
    kiln_interp_init(&in, p, load_counts, &loads);
    in.var[1] = 1;
    assert_true(kiln_interp_eval(&in, e).f == 1);
    assert_true(kiln_interp_eval(&in, e).f == 1);
    assert_int_equal(loads, 1);
    in.var[1] = 0;
    kiln_interp_moved(&in);
    assert_true(kiln_interp_eval(&in, e).f == 0);
    assert_int_equal(loads, 2);
    kiln_interp_deinit(&in);
}

static void only_the_chosen_side_is_evaluated(void **state) {
    kiln_program *p = *state;
    kiln_expr i = var(p, "i", 4);
    kiln_expr inside = compare(p, KILN_EXPR_LT, i, kiln_expr_index(p, 3));
    kiln_expr e = kiln_expr_select(p, inside, load(p, i), kiln_expr_float(p, KILN_F32, 7));
    int loads = 0;
    kiln_interp in;
    kiln_interp_init(&in, p, load_counts, &loads);
    in.var[1] = 3;
    assert_true(kiln_interp_eval(&in, e).f == 7);
    assert_int_equal(loads, 0);
    kiln_interp_deinit(&in);
}

static void the_first_refused_load_stays(void **state) {
    kiln_program *p = *state;
    kiln_expr i = var(p, "i", 4);
    kiln_expr e = add(p, load(p, i), load(p, plus(p, i, 1)));
    int loads = 0;
    kiln_interp in;
    kiln_interp_init(&in, p, load_counts, &loads);
    in.var[1] = 3;
    kiln_interp_eval(&in, e);
    assert_int_equal(loads, 1);
    expect_contains(kiln_status_text(in.status), "index 3");
    kiln_interp_deinit(&in);
}

static void offsets_are_row_major_and_know_what_is_outside(void **state) {
    const kiln_shape shape = {.rank = 2, .dim = {3, 5}};
    (void)state;
    assert_int_equal(kiln_interp_offset(&shape, (const int64_t[]){2, 4}), 14);
    assert_int_equal(kiln_interp_offset(&shape, (const int64_t[]){0, 5}), -1);
    assert_int_equal(kiln_interp_offset(&shape, (const int64_t[]){-1, 0}), -1);
    const kiln_shape scalar = {.rank = 0};
    assert_int_equal(kiln_interp_offset(&scalar, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(shared_parts_are_evaluated_once_until_something_moves),
        PROGRAM_TEST(only_the_chosen_side_is_evaluated),
        PROGRAM_TEST(the_first_refused_load_stays),
        PROGRAM_TEST(offsets_are_row_major_and_know_what_is_outside),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/interp", tests, NULL, NULL);
}
