/* Errors of alternatives on random data. */
#include "tests/unit/compiler-core/algorithm/support.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
#include "compiler-core/ir/eval.h"
#include "tests/support/interpreter.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/sched/support.h"

/* The same numbers in `wanted` and `got`, whose outputs are left as they are. Returns which
 * argument is the output. */
static uint32_t fill(const kiln_program *te, uint64_t seed, double zeros, kiln_arena *arena,
                     kiln_tensor *wanted, kiln_tensor *got) {
    kiln_arg_buffers arg = kiln_program_args(te);
    uint32_t output = 0;
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    for (uint32_t i = 0; i < arg.count; i++) {
        const kiln_buffer_info *b = &te->buffer.data[arg.buffer[i]];
        wanted[i] = kiln_tensor_create(arena, b->dtype, &b->shape);
        got[i] = kiln_tensor_create(arena, b->dtype, &b->shape);
        if (b->role == KILN_ROLE_OUTPUT) output = i;
        if (b->role == KILN_ROLE_OUTPUT) continue;
        for (int64_t k = 0; k < kiln_shape_count(&b->shape); k++) {
            bool zero = b->role == KILN_ROLE_INPUT && kiln_rand_unit(&rand) < zeros;
            double value = zero ? 0 : 2 * kiln_rand_unit(&rand) - 1;
            kiln_dtype_store_f64(b->dtype, wanted[i].data, (size_t)k, value);
            kiln_dtype_store_f64(b->dtype, got[i].data, (size_t)k, value);
        }
    }
    return output;
}

random_error error_on_random_data(const kiln_program *te, const kiln_program *p, uint64_t seed,
                                  double zeros, kiln_arena *arena) {
    kiln_tensor wanted[8], got[8], bound[8];
    const uint32_t count = kiln_program_args(te).count;
    uint32_t output = fill(te, seed, zeros, arena, wanted, got);
    expect_ok(kiln_te_eval_bounds(te, wanted, count, arena, bound));
    expect_ok(kiln_loop_eval(p, got, count));
    const float *w = wanted[output].data, *g = got[output].data, *allowed = bound[0].data;
    random_error error = {0};
    double magnitude = 0;
    for (int64_t k = 0; k < kiln_shape_count(&wanted[output].shape); k++) {
        double difference = fabs((double)g[k] - (double)w[k]);
        error.in_bounds = fmax(error.in_bounds, difference / (double)allowed[k]);
        error.relative = fmax(error.relative, difference);
        magnitude = fmax(magnitude, fabs((double)w[k]));
    }
    error.relative /= magnitude;
    return error;
}

kiln_program *data_product_program(kiln_arena *arena, int64_t m, int64_t n, int64_t k) {
    kiln_program *p = matmul_program(arena, m, n, k);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (kiln_str_is(p->buffer.data[b].name, "w")) p->buffer.data[b].role = KILN_ROLE_INPUT;
    return p;
}

kiln_program *attention_program(kiln_arena *arena, const attention_shape *a) {
    const bool scales = strchr(a->share, '*') != NULL;
    const int n = a->keys, rows = a->rows;
    const char *t = a->dtype, *f = strcmp(t, "f64") == 0 ? "f64" : "";
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text,
                       "program p\ninput q: %s[2,%d,4]\ninput k: %s[2,%d,4]\n"
                       "input v: %s[2,%d,4]\ninput w: %s[%d,%d]\noutput y: %s[2,%d,4]\n",
                       t, rows, t, n, t, n, t, rows, n, t, rows);
    static const char *const wide[] = {"s", "t", "e", "a"}, *const narrow[] = {"m", "l", "r"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wide); i++)
        kiln_strbuf_printf(&text, "temp %s: %s[2,%d,%d]\n", wide[i], t, rows, n);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(narrow) - !scales; i++)
        kiln_strbuf_printf(&text, "temp %s: %s[2,%d]\n", narrow[i], t, rows);
    const char *const all = kiln_arena_printf(arena, "h:2, i:%d, j:%d", rows, n);
    kiln_strbuf_printf(&text,
                       "block scores(%s | c:4): s[h, i, j] sum= q[h, i, c]*k[h, j, c] init 0.0%s\n"
                       "block scaled(%s): t[h, i, j] = %s\n"
                       "block max(h:2, i:%d | j:%d): m[h, i] max= t[h, i, j] init -1e30%s\n"
                       "block exp(%s): e[h, i, j] = exp(t[h, i, j] - m[h, i])\n"
                       "block sum(h:2, i:%d | j:%d): l[h, i] sum= e[h, i, j] init 0.0%s\n",
                       all, f, all, a->scaled, rows, n, f, all, rows, n, f);
    if (scales)
        kiln_strbuf_printf(&text, "block scale(h:2, i:%d): r[h, i] = 1.0%s/l[h, i]\n", rows, f);
    kiln_strbuf_printf(
        &text,
        "block share(%s): a[h, i, j] = %s\n"
        "block values(h:2, i:%d, c:4 | j:%d): y[h, i, c] sum= a[h, i, j]*v[h, j, c] init 0.0%s\n",
        all, a->share, rows, n, f);
    kiln_program *te = parsed(arena, kiln_str_dup(arena, kiln_strbuf_view(&text)));
    kiln_strbuf_deinit(&text);
    return te;
}
