#include "tests/unit/compiler-core/ir/support.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/interp.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/fill.h"

int program_set_up(void **state) {
    kiln_arena *arena = kiln_alloc(sizeof *arena);
    kiln_arena_init(arena, 0);
    *state = kiln_program_create(arena, KILN_STR("test"));
    return 0;
}

int program_tear_down(void **state) {
    kiln_arena *arena = ((kiln_program *)*state)->arena;
    kiln_arena_deinit(arena);
    kiln_free(arena);
    return 0;
}

kiln_expr add(kiln_program *p, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(p, KILN_EXPR_ADD, a, b);
}
kiln_expr sub(kiln_program *p, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(p, KILN_EXPR_SUB, a, b);
}

static kiln_expr with_const(kiln_program *p, kiln_expr_op op, kiln_expr a, int64_t c) {
    return kiln_expr_binary(p, op, a, kiln_expr_index(p, c));
}

kiln_expr times(kiln_program *p, kiln_expr a, int64_t c) {
    return with_const(p, KILN_EXPR_MUL, a, c);
}
kiln_expr plus(kiln_program *p, kiln_expr a, int64_t c) {
    return with_const(p, KILN_EXPR_ADD, a, c);
}
kiln_expr floordiv(kiln_program *p, kiln_expr a, int64_t c) {
    return with_const(p, KILN_EXPR_FLOORDIV, a, c);
}
kiln_expr floormod(kiln_program *p, kiln_expr a, int64_t c) {
    return with_const(p, KILN_EXPR_FLOORMOD, a, c);
}
kiln_expr compare(kiln_program *p, kiln_expr_op op, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(p, op, a, b);
}

kiln_expr var(kiln_program *p, const char *name, int64_t extent) {
    return kiln_expr_var(p, kiln_var_create(p, kiln_str_from(name), 0, extent - 1));
}

void expect_text(const kiln_program *p, kiln_expr e, const char *text) {
    kiln_strbuf out = {0};
    kiln_expr_print(p, e, &out);
    assert_string_equal(out.data, text);
    kiln_strbuf_deinit(&out);
}

/* ---- random expressions ---------------------------------------------------------- */

static const int64_t factor[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 49, 64, -1, -2, -3, -8};

static int64_t draw_factor(kiln_rand *r, bool positive) {
    return factor[kiln_rand_below(r, positive ? 12 : KILN_ARRAY_COUNT(factor))];
}

kiln_expr random_index(kiln_program *p, kiln_rand *r, uint32_t depth) {
    static const kiln_expr_op scaling[] = {KILN_EXPR_MUL, KILN_EXPR_FLOORDIV, KILN_EXPR_FLOORMOD,
                                           KILN_EXPR_DIV, KILN_EXPR_REM};
    static const kiln_expr_op combining[] = {KILN_EXPR_ADD, KILN_EXPR_ADD, KILN_EXPR_SUB,
                                             KILN_EXPR_MIN, KILN_EXPR_MAX, KILN_EXPR_MUL};
    uint64_t kind = depth == 0 ? kiln_rand_below(r, 2) : kiln_rand_below(r, 12);
    if (kind == 0) return kiln_expr_index(p, kiln_rand_range(r, -20, 100));
    if (kind == 1) return kiln_expr_var(p, (kiln_var)(1 + kiln_rand_below(r, p->var.count - 1)));
    if (kind < 7) {
        kiln_expr_op op = scaling[kiln_rand_below(r, KILN_ARRAY_COUNT(scaling))];
        return with_const(p, op, random_index(p, r, depth - 1),
                          draw_factor(r, op != KILN_EXPR_MUL));
    }
    kiln_expr a = random_index(p, r, depth - 1);
    kiln_expr b = random_index(p, r, depth - 1);
    if (kind == 7) return kiln_expr_select(p, random_condition(p, r, depth - 1), a, b);
    return kiln_expr_binary(p, combining[kiln_rand_below(r, KILN_ARRAY_COUNT(combining))], a, b);
}

kiln_expr random_condition(kiln_program *p, kiln_rand *r, uint32_t depth) {
    static const kiln_expr_op comparing[] = {KILN_EXPR_LT, KILN_EXPR_LE, KILN_EXPR_EQ,
                                             KILN_EXPR_NE};
    static const kiln_expr_op joining[] = {KILN_EXPR_AND, KILN_EXPR_AND, KILN_EXPR_OR,
                                           KILN_EXPR_XOR};
    uint64_t kind = depth == 0 ? 0 : kiln_rand_below(r, 5);
    if (kind == 3) return kiln_expr_unary(p, KILN_EXPR_NOT, random_condition(p, r, depth - 1));
    if (kind == 4)
        return kiln_expr_binary(p, joining[kiln_rand_below(r, KILN_ARRAY_COUNT(joining))],
                                random_condition(p, r, depth - 1),
                                random_condition(p, r, depth - 1));
    uint32_t below = depth ? depth - 1 : 0;
    return kiln_expr_binary(p, comparing[kiln_rand_below(r, KILN_ARRAY_COUNT(comparing))],
                            random_index(p, r, below), random_index(p, r, below));
}

void draw_point(const kiln_program *p, kiln_rand *r, int64_t *value) {
    for (kiln_var v = 1; v < p->var.count; v++)
        value[v] = kiln_rand_range(r, p->var.data[v].low, p->var.data[v].high);
}

int64_t value_at(const kiln_program *p, kiln_expr e, const int64_t *value) {
    kiln_interp in;
    kiln_interp_init(&in, p, NULL, NULL);
    memcpy(in.var, value, sizeof *value * p->var.count);
    int64_t result = kiln_interp_eval(&in, e).i;
    kiln_interp_deinit(&in);
    return result;
}

/* ---- programs -------------------------------------------------------------------- */

kiln_program *parse(const kiln_program *p, const char *text) {
    kiln_program *parsed = NULL;
    kiln_status st = kiln_program_parse(kiln_str_from(text), p->arena, &parsed);
    if (st) fail_msg("%s", kiln_status_text(st));
    return parsed;
}

/* ---- arguments ------------------------------------------------------------------- */

uint32_t make_args(const kiln_program *p, uint64_t seed, kiln_tensor *out) {
    kiln_arg_buffers arg = kiln_program_args(p);
    assert_true(arg.count <= 64);
    for (uint32_t i = 0; i < arg.count; i++) {
        const kiln_buffer_info *b = &p->buffer.data[arg.buffer[i]];
        out[i] = kiln_tensor_create(p->arena, b->dtype, &b->shape);
        if (b->role == KILN_ROLE_OUTPUT) {
            memset(out[i].data, 0x5a, kiln_tensor_bytes(&out[i]));
        } else {
            fill_buffer(b, seed + i, out[i].data);
        }
    }
    return arg.count;
}

static bool close_enough(double got, double wanted, double bound) {
    if (isnan(wanted) || isnan(got)) return (isnan(wanted) && isnan(got)) || isnan(bound);
    if (got == wanted) return true;
    return fabs(got - wanted) <= bound + 1e-30;
}

void expect_within_bounds(const kiln_program *p, const kiln_tensor *got, const kiln_tensor *wanted,
                          const kiln_tensor *bound, uint32_t arg_count, uint64_t seed) {
    kiln_arg_buffers arg = kiln_program_args(p);
    uint32_t output = 0;
    for (uint32_t i = 0; i < arg_count; i++) {
        if (p->buffer.data[arg.buffer[i]].role != KILN_ROLE_OUTPUT) continue;
        int64_t elements = kiln_shape_count(&got[i].shape);
        for (int64_t k = 0; k < elements; k++) {
            double a = kiln_dtype_load_f64(got[i].dtype, got[i].data, (size_t)k);
            double b = kiln_dtype_load_f64(wanted[i].dtype, wanted[i].data, (size_t)k);
            double allowed = kiln_dtype_load_f64(KILN_F32, bound[output].data, (size_t)k);
            if (!close_enough(a, b, allowed))
                fail_msg("seed %llu: output %u element %lld is %.9g, not %.9g within %.3g",
                         (unsigned long long)seed, output, (long long)k, a, b, allowed);
        }
        output++;
    }
}
