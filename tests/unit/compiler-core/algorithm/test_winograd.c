/* Winograd's convolution computes the direct one. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/interpreter.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/algorithm/support.h"
#include "tests/unit/compiler-core/sched/support.h"

#define WINOGRAD KILN_ALGORITHM_WINOGRAD_2X2_3X3

static kiln_program *winograd(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_algorithm_apply(WINOGRAD, te, arena);
    if (p) expect_ok(kiln_program_verify(p));
    return p;
}

static const conv_shape shapes[] = {
    {.n = 1, .ic = 4, .h = 8, .w = 8, .oc = 3, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
    {.n = 2, .ic = 3, .h = 7, .w = 9, .oc = 5, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
    {.n = 1, .ic = 2, .h = 3, .w = 3, .oc = 2, .kh = 3, .kw = 3, .stride = 1},
    {.n = 1, .ic = 5, .h = 6, .w = 5, .oc = 2, .kh = 3, .kw = 3, .stride = 1, .epilogue = true},
    {.n = 2,
     .ic = 2,
     .h = 7,
     .w = 7,
     .oc = 4,
     .kh = 3,
     .kw = 3,
     .stride = 1,
     .padding = 1,
     .epilogue = true},
};

/* Small integers: every sum, and every half of the weights' transform, is exact. */
static void results_equal_the_direct_form(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(shapes); i++) {
        kiln_program *te = conv_program(*state, &shapes[i]);
        kiln_program *p = winograd(te, *state);
        assert_non_null(p);
        kiln_program_make_loops(p);
        expect_ok(same_result(te, p, *state));
    }
}

/* The others have thirds and fifths among their weights: in double precision, on small integers,
 * what is left of roundings is far below any mistake. */
static const struct {
    kiln_algorithm algorithm;
    int64_t taps, stride;
} larger[] = {
    {KILN_ALGORITHM_WINOGRAD_4X4_3X3, 3, 1},
    {KILN_ALGORITHM_WINOGRAD_6X6_3X3, 3, 1},
    {KILN_ALGORITHM_WINOGRAD_2X2_5X5, 5, 1},
    {KILN_ALGORITHM_WINOGRAD_4X4_5X5, 5, 1},
    {KILN_ALGORITHM_WINOGRAD_3X3_7X7, 7, 1},
    {KILN_ALGORITHM_WINOGRAD_2X2_2X2, 2, 1},
    {KILN_ALGORITHM_WINOGRAD_4X4_2X2, 2, 1},
    {KILN_ALGORITHM_WINOGRAD_3X3_2X2, 2, 1},
    {KILN_ALGORITHM_WINOGRAD_2X2_2X2, 4, 2},
    {KILN_ALGORITHM_WINOGRAD_3X3_2X2, 4, 2},
    {KILN_ALGORITHM_WINOGRAD_4X4_2X2, 8, 4},
    {KILN_ALGORITHM_WINOGRAD_2X2_3X3, 6, 2},
    {KILN_ALGORITHM_WINOGRAD_2X2_3X3_STRIDE2, 3, 2},
    {KILN_ALGORITHM_WINOGRAD_4X4_3X3_STRIDE2, 3, 2},
};

/* A sum of two products, and half of the data 0, leaves a bound that is next to nothing: phases of
 * two taps need channels. */
static bool needs_channels(size_t row) { return larger[row].taps <= 2 * larger[row].stride; }

/* Phases as channels leave no dimension for a batch. */
static bool has_phases(size_t row) {
    return larger[row].stride > 1 && larger[row].taps % larger[row].stride == 0;
}

/* Constants say what they are: "0.0" is of f32. */
static kiln_program *in_doubles(const kiln_program *te, kiln_arena *arena) {
    kiln_strbuf text = {0}, doubled = {0};
    kiln_program *p = NULL;
    kiln_program_print(te, &text);
    for (const char *at = text.data; *at;) {
        const bool type = strncmp(at, "f32", 3) == 0, zero = strncmp(at, "0.0", 3) == 0;
        kiln_strbuf_printf(&doubled, "%.*s", type || zero ? 0 : 1, at);
        kiln_strbuf_printf(&doubled, "%s", type ? "f64" : zero ? "0.0f64" : "");
        at += type || zero ? 3 : 1;
    }
    expect_ok(kiln_program_parse(kiln_strbuf_view(&doubled), arena, &p));
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&doubled);
    return p;
}

/* The largest difference of the outputs. */
static double difference_on_integers(const kiln_program *te, const kiln_program *p,
                                     kiln_arena *arena) {
    kiln_tensor wanted[8], got[8];
    kiln_arg_buffers arg = kiln_program_args(te);
    kiln_rand rand;
    kiln_rand_init(&rand, 5);
    double worst = 0;
    for (uint32_t i = 0; i < arg.count; i++) {
        const kiln_buffer_info *b = &te->buffer.data[arg.buffer[i]];
        wanted[i] = kiln_tensor_create(arena, b->dtype, &b->shape);
        got[i] = kiln_tensor_create(arena, b->dtype, &b->shape);
        for (int64_t k = 0; k < kiln_shape_count(&b->shape); k++)
            ((double *)wanted[i].data)[k] = (double)kiln_rand_below(&rand, 17) - 8;
        memcpy(got[i].data, wanted[i].data, kiln_tensor_bytes(&got[i]));
    }
    expect_ok(kiln_te_eval(te, wanted, arg.count));
    expect_ok(kiln_loop_eval(p, got, arg.count));
    for (uint32_t i = 0; i < arg.count; i++)
        for (int64_t k = 0; k < kiln_shape_count(&got[i].shape); k++)
            worst = fmax(worst, fabs(((double *)got[i].data)[k] - ((double *)wanted[i].data)[k]));
    return worst;
}

static void larger_tiles_compute_the_direct_form(void **state) {
    for (size_t r = 0; r < KILN_ARRAY_COUNT(larger); r++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(shapes); i++) {
            conv_shape s = shapes[i];
            s.kh = s.kw = larger[r].taps;
            s.stride = larger[r].stride;
            if (has_phases(r)) s.n = 1;
            if (needs_channels(r)) s.ic *= 8;
            s.padding += larger[r].taps / 2; /* tiles that are cut at each border */
            kiln_program *te = in_doubles(conv_program(*state, &s), *state);
            kiln_program *p = kiln_algorithm_apply(larger[r].algorithm, te, *state);
            assert_non_null(p);
            expect_ok(kiln_program_verify(p));
            kiln_program_make_loops(p);
            const double worst = difference_on_integers(te, p, *state);
            if (worst > 1e-9) fail_msg("row %zu, shape %zu: off by %g", r, i, worst);
        }
}

/* Each phase of a transposed convolution is a convolution, whose window begins elsewhere and whose
 * taps are others of the kernel. Without a batch there is no dimension for it. */
static void phases_of_transposed_convolutions_are_convolutions(void **state) {
    static const kiln_algorithm tried[] = {KILN_ALGORITHM_WINOGRAD_2X2_2X2,
                                           KILN_ALGORITHM_WINOGRAD_4X4_2X2};
    for (int64_t n = 1; n <= 2; n++)
        for (size_t i = 0; i < KILN_ARRAY_COUNT(tried); i++) {
            kiln_program *te = NULL;
            const char *text = kiln_arena_printf(
                *state,
                "program t\ninput x: f32[%d,8,7,6]\nconstant w: f32[8,2,4,4]\n"
                "temp s: f32[%d,2,2,2,5,4]\noutput y: f32[%d,2,10,8]\n"
                "block conv(n:%d, oc:2, ph:2, pw:2, oh:5, ow:4 | ic:8, kh:2, kw:2): "
                "s[n, oc, ph, pw, oh, ow] sum= "
                "x[n, ic, oh + floordiv(ph + 1, 2) + kh, ow + floordiv(pw + 1, 2) + kw]*"
                "w[ic, oc, floormod(ph + 1, 2) + (kh*-2 + 2), floormod(pw + 1, 2) + (kw*-2 + 2)] "
                "init 0.0\n"
                "block join(i:%d, j:2, k:10, l:8): y[i, j, k, l] = s[i, j, floormod(k, 2), "
                "floormod(l, 2), floordiv(k, 2), floordiv(l, 2)]\n",
                (int)n, (int)n, (int)n, (int)n, (int)n);
            expect_ok(kiln_program_parse(kiln_str_from(text), *state, &te));
            te = in_doubles(te, *state);
            kiln_program *p = kiln_algorithm_apply(tried[i], te, *state);
            assert_non_null(p);
            expect_ok(kiln_program_verify(p));
            for (kiln_buffer b = 1; b < p->buffer.count && n == 1; b++)
                assert_true(p->buffer.data[b].shape.rank < KILN_RANK_MAX);
            kiln_program_make_loops(p);
            assert_true(difference_on_integers(te, p, *state) < 1e-9);
        }
}

static void arguments_stay_as_they_are(void **state) {
    kiln_program *te = conv_program(*state, &shapes[4]), *p = winograd(te, *state);
    kiln_arg_buffers wanted = kiln_program_args(te);
    kiln_arg_buffers got = kiln_program_args(p);
    assert_int_equal(got.count, wanted.count);
    for (uint32_t i = 0; i < wanted.count; i++)
        assert_true(kiln_str_equal(te->buffer.data[wanted.buffer[i]].name,
                                   p->buffer.data[got.buffer[i]].name));
}

/* A group is an iterator that both factors share. */
static void groups_are_convolutions_side_by_side(void **state) {
    kiln_program *te = NULL;
    expect_ok(kiln_program_parse(
        KILN_STR("program grouped\ninput x: f32[2,3,6,6]\nconstant w: f32[2,4,3,3,3]\n"
                 "output y: f32[2,4,4,4]\n"
                 "block conv(g:2, oc:4, oh:4, ow:4 | ic:3, kh:3, kw:3): y[g, oc, oh, ow] sum= "
                 "x[g, ic, oh + kh, ow + kw]*w[g, oc, ic, kh, kw] init 0.0\n"),
        *state, &te));
    kiln_program *p = winograd(te, *state);
    assert_non_null(p);
    kiln_program_make_loops(p);
    expect_ok(same_result(te, p, *state));
}

static void other_computations_are_left_alone(void **state) {
    static const conv_shape other[] = {
        {.n = 1, .ic = 4, .h = 9, .w = 9, .oc = 3, .kh = 3, .kw = 3, .stride = 2, .padding = 1},
        {.n = 1, .ic = 4, .h = 9, .w = 9, .oc = 3, .kh = 1, .kw = 1, .stride = 1},
        {.n = 1, .ic = 4, .h = 9, .w = 9, .oc = 3, .kh = 5, .kw = 5, .stride = 1, .padding = 2},
        {.n = 1, .ic = 4, .h = 9, .w = 9, .oc = 3, .kh = 3, .kw = 1, .stride = 1},
        {.n = 1, .ic = 1, .h = 9, .w = 9, .oc = 3, .kh = 3, .kw = 3, .stride = 1},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(other); i++)
        assert_null(winograd(conv_program(*state, &other[i]), *state));
    assert_null(winograd(matmul_program(*state, 8, 8, 8), *state));
    assert_null(winograd(chain_program(*state, 8, 8), *state));
    static const char *const text[] = {
        /* weights that are computed by another kernel would be transformed at each run */
        "program p\ninput x: f32[1,4,6,6]\ninput w: f32[3,4,3,3]\noutput y: f32[1,3,4,4]\n"
        "block conv(n:1, oc:3, oh:4, ow:4 | ic:4, kh:3, kw:3): y[n, oc, oh, ow] sum= "
        "x[n, ic, oh + kh, ow + kw]*w[oc, ic, kh, kw] init 0.0\n",
        /* dilated */
        "program p\ninput x: f32[1,4,8,8]\nconstant w: f32[3,4,3,3]\noutput y: f32[1,3,4,4]\n"
        "block conv(n:1, oc:3, oh:4, ow:4 | ic:4, kh:3, kw:3): y[n, oc, oh, ow] sum= "
        "x[n, ic, oh + kh*2, ow + kw*2]*w[oc, ic, kh, kw] init 0.0\n",
        /* a maximum is no sum */
        "program p\ninput x: f32[1,4,6,6]\nconstant w: f32[3,4,3,3]\noutput y: f32[1,3,4,4]\n"
        "block conv(n:1, oc:3, oh:4, ow:4 | ic:4, kh:3, kw:3): y[n, oc, oh, ow] max= "
        "x[n, ic, oh + kh, ow + kw]*w[oc, ic, kh, kw] init 0.0\n",
        /* integers have no halves */
        "program p\ninput x: i32[1,4,6,6]\nconstant w: i32[3,4,3,3]\noutput y: i32[1,3,4,4]\n"
        "block conv(n:1, oc:3, oh:4, ow:4 | ic:4, kh:3, kw:3): y[n, oc, oh, ow] sum= "
        "x[n, ic, oh + kh, ow + kw]*w[oc, ic, kh, kw] init 0i32\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_program *te = NULL;
        expect_ok(kiln_program_parse(kiln_str_from(text[i]), *state, &te));
        assert_null(winograd(te, *state));
    }
}

/* Of `larger`; -1: of the first. */
static double worst_error(int row, kiln_arena *arena) {
    static const conv_shape tried[] = {
        {.n = 1, .ic = 16, .h = 12, .w = 12, .oc = 8, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
        {.n = 1, .ic = 64, .h = 7, .w = 7, .oc = 4, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
        {.n = 1, .ic = 2, .h = 16, .w = 16, .oc = 4, .kh = 3, .kw = 3, .stride = 1},
    };
    double worst = 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(tried); i++) {
        conv_shape shape = tried[i];
        shape.kh = shape.kw = row < 0 ? 3 : larger[row].taps;
        shape.stride = row < 0 ? 1 : larger[row].stride;
        kiln_program *te = conv_program(arena, &shape);
        kiln_program *p =
            kiln_algorithm_apply(row < 0 ? WINOGRAD : larger[row].algorithm, te, arena);
        if (row >= 0 && needs_channels((size_t)row) && shape.ic == 2 && !p) {
            assert_null(p); /* too few channels */
            continue;
        }
        kiln_program_make_loops(p);
        for (uint64_t seed = 0; seed < 8; seed++)
            worst =
                fmax(worst, error_on_random_data(te, p, seed, seed < 4 ? 0 : 0.5, arena).in_bounds);
    }
    return worst;
}

static void errors_stay_within_the_stated_factor(void **state) {
    for (int r = -1; r < (int)KILN_ARRAY_COUNT(larger); r++) {
        const kiln_algorithm algorithm = r < 0 ? WINOGRAD : larger[r].algorithm;
        const double factor =
            kiln_algorithm_error_factor(algorithm, conv_program(*state, &shapes[0]));
        const double worst = worst_error(r, *state);
        print_message("%s: %.3g of the task's bound, %.3g allowed\n",
                      kiln_algorithm_name(algorithm), worst, factor);
        assert_true(worst <= factor);
        assert_true(worst > 0);
    }
}

#define FIXED KILN_ALGORITHM_WINOGRAD_2X2_3X3_FIXED

/* 16 points of 4 output channels have a step each. */
static void transformed_weights_become_16_bits_and_steps(void **state) {
    conv_shape s = {.n = 1, .ic = 64, .h = 7, .w = 7, .oc = 4, .kh = 3, .kw = 3, .stride = 1};
    kiln_program *p = kiln_algorithm_apply(FIXED, conv_program(*state, &s), *state);
    uint32_t multiples = 0, steps = 0;
    expect_ok(kiln_program_verify(p));
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        const kiln_buffer_info *info = &p->buffer.data[b];
        multiples += info->dtype == KILN_I16 && kiln_shape_count(&info->shape) == 16 * 4 * 64;
        steps += info->shape.rank == 3 && kiln_shape_count(&info->shape) == 16 * 4;
    }
    assert_int_equal(multiples, 1);
    assert_int_equal(steps, 1);
    assert_null(kiln_algorithm_apply(FIXED, in_doubles(conv_program(*state, &s), *state), *state));
    s.ic = 63; /* too few products to bound the error by their magnitudes */
    assert_null(kiln_algorithm_apply(FIXED, conv_program(*state, &s), *state));
}

/* Neither too narrow for what is right, nor so wide that mistakes would pass. */
static void errors_of_multiples_stay_within_the_stated_factor(void **state) {
    static const conv_shape tried[] = {
        {.n = 1, .ic = 64, .h = 7, .w = 7, .oc = 4, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
        {.n = 2, .ic = 200, .h = 5, .w = 6, .oc = 3, .kh = 3, .kw = 3, .stride = 1, .padding = 1},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(tried); i++) {
        kiln_program *te = conv_program(*state, &tried[i]);
        kiln_program *p = kiln_algorithm_apply(FIXED, te, *state);
        const double factor = kiln_algorithm_error_factor(FIXED, te);
        double worst = 0;
        kiln_program_make_loops(p);
        for (uint64_t seed = 0; seed < 6; seed++)
            worst = fmax(worst,
                         error_on_random_data(te, p, seed, seed < 3 ? 0 : 0.5, *state).in_bounds);
        print_message("%lld channels: %.3g of %.3g\n", (long long)tried[i].ic, worst, factor);
        assert_true(worst <= factor && worst > factor / 400);
    }
}

/* Two phases of a row, one of two taps and one of one: 5 points for 2 outputs, 25 products instead
 * of 36; 81 for 16 instead of 144. */
static void strided_windows_take_the_points_of_their_phases(void **state) {
    const conv_shape s = {
        .n = 1, .ic = 8, .h = 16, .w = 16, .oc = 4, .kh = 3, .kw = 3, .stride = 2, .padding = 1};
    const kiln_algorithm two = KILN_ALGORITHM_WINOGRAD_2X2_3X3_STRIDE2,
                         four = KILN_ALGORITHM_WINOGRAD_4X4_3X3_STRIDE2;
    kiln_program *te = conv_program(*state, &s);
    kiln_program *by_two = kiln_algorithm_apply(two, te, *state),
                 *by_four = kiln_algorithm_apply(four, te, *state);
    assert_true(kiln_algorithm_executed_flops(two, by_two) == 2.0 * 25 * 8 * 4 * 4 * 4);
    assert_true(kiln_algorithm_executed_flops(four, by_four) == 2.0 * 81 * 8 * 4 * 2 * 2);
}

/* 2x2 taps over 4 times the channels: 16 points for 9 outputs, 64 products in place of 144. */
static void phases_of_equally_many_taps_share_points(void **state) {
    conv_shape s = {.n = 1, .ic = 8, .h = 20, .w = 20, .oc = 4, .kh = 4, .kw = 4, .stride = 2};
    const kiln_algorithm three = KILN_ALGORITHM_WINOGRAD_3X3_2X2;
    kiln_program *p = kiln_algorithm_apply(three, conv_program(*state, &s), *state);
    assert_true(kiln_algorithm_executed_flops(three, p) == 2.0 * 16 * 4 * 8 * 4 * 3 * 3);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        assert_true(p->buffer.data[b].shape.rank < KILN_RANK_MAX);
    s.n = 2; /* there is no dimension for a batch */
    assert_null(kiln_algorithm_apply(three, conv_program(*state, &s), *state));
    s.n = 1;
    s.kw = 2;
    assert_null(kiln_algorithm_apply(three, conv_program(*state, &s), *state));
}

/* Without the transforms: 16 products instead of 36 for each channel and tile. */
static void executed_operations_are_those_of_the_products(void **state) {
    const conv_shape s = {.n = 1,
                          .ic = 8,
                          .h = 8,
                          .w = 8,
                          .oc = 4,
                          .kh = 3,
                          .kw = 3,
                          .stride = 1,
                          .padding = 1,
                          .epilogue = true};
    kiln_program *te = conv_program(*state, &s), *p = winograd(te, *state);
    assert_true(kiln_algorithm_executed_flops(KILN_ALGORITHM_DIRECT, te) == kiln_program_flops(te));
    assert_true(kiln_algorithm_executed_flops(WINOGRAD, p) == 2.0 * 16 * 8 * 4 * 4 * 4);
}

/* Differences are subtracted beside the multiply-adds; what follows the reduction counts as it is.
 */
static void other_reductions_of_two_operands_count_as_products(void **state) {
    const kiln_program *te =
        parsed(*state, "program p\ninput x: f32[6,10]\ninput w: f32[7,10]\noutput y: f32[6,7]\n"
                       "temp t: f32[6,7]\n"
                       "block t(i:6, j:7 | k:10): t[i, j] sum= (x[i, k] - w[j, k])*(x[i, k] - w[j, "
                       "k])\nblock y(i:6, j:7): y[i, j] = sqrt(t[i, j])\n");
    assert_true(kiln_program_flops(te) == 6.0 * 7 * 10 * 3 + 6 * 7);
    assert_true(kiln_algorithm_executed_flops(KILN_ALGORITHM_DIRECT, te) ==
                6.0 * 7 * 10 * 2 + 6 * 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(results_equal_the_direct_form),
        test_with_arena(larger_tiles_compute_the_direct_form),
        test_with_arena(phases_of_transposed_convolutions_are_convolutions),
        test_with_arena(arguments_stay_as_they_are),
        test_with_arena(groups_are_convolutions_side_by_side),
        test_with_arena(other_computations_are_left_alone),
        test_with_arena(errors_stay_within_the_stated_factor),
        test_with_arena(transformed_weights_become_16_bits_and_steps),
        test_with_arena(errors_of_multiples_stay_within_the_stated_factor),
        test_with_arena(strided_windows_take_the_points_of_their_phases),
        test_with_arena(phases_of_equally_many_taps_share_points),
        test_with_arena(executed_operations_are_those_of_the_products),
        test_with_arena(other_reductions_of_two_operands_count_as_products),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/winograd", tests, NULL, NULL);
}
