#include "tests/support/gpu_programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/ir_text.h"

/* ---- drawn ----------------------------------------------------------------------------------- */

static int range(kiln_rand *rand, int low, int high) {
    return low + (int)kiln_rand_below(rand, (uint64_t)(high - low + 1));
}

static const char *product(kiln_rand *r, kiln_arena *a) {
    const bool few = kiln_rand_below(r, 4) == 0; /* results of many steps, which are split */
    const int n = few ? 1 : range(r, 1, 3), i = range(r, few ? 2 : 1, few ? 4 : 40),
              j = range(r, few ? 2 : 1, few ? 4 : 40),
              k = few ? 32 * range(r, 4, 32) + (int)kiln_rand_below(r, 2) : range(r, 1, 24);
    return kiln_arena_printf(
        a,
        "program p\ninput x: f32[%d,%d,%d]\ninput w: f32[%d,%s]\noutput y: f32[%d,%d,%d]\n"
        "block mul(n:%d, i:%d, j:%d | k:%d): y[n, i, j] sum= x[n, i, k] * w[n, %s] init 0.0\n",
        n, i, k, n,
        k % 2 ? kiln_arena_printf(a, "%d,%d", k, j) : kiln_arena_printf(a, "%d,%d", j, k), n, i, j,
        n, i, j, k, k % 2 ? "k, j" : "j, k");
}

static const char *convolution(kiln_rand *r, kiln_arena *a) {
    const int n = range(r, 1, 2), c = range(r, 1, 8), o = range(r, 1, 16), h = range(r, 3, 12),
              w = range(r, 3, 12), kh = range(r, 1, 3), kw = range(r, 1, 3), s = range(r, 1, 2),
              oh = (h + 2 - kh) / s + 1, ow = (w + 2 - kw) / s + 1;
    return kiln_arena_printf(
        a,
        "program p\ninput x: f32[%d,%d,%d,%d]\nconstant w: f32[%d,%d,%d,%d]\nconstant b: f32[%d]\n"
        "temp p: f32[%d,%d,%d,%d]\ntemp s: f32[%d,%d,%d,%d]\noutput y: f32[%d,%d,%d,%d]\n"
        "block pad(n:%d, c:%d, h:%d, v:%d): p[n, c, h, v] = select(and(and(1 <= h, h < %d), "
        "and(1 <= v, v < %d)), x[n, c, h - 1, v - 1], 0.0)\n"
        "block conv(n:%d, o:%d, h:%d, v:%d | c:%d, kh:%d, kw:%d): s[n, o, h, v] sum= "
        "p[n, c, h*%d + kh, v*%d + kw] * w[o, c, kh, kw] init 0.0\n"
        "block act(n:%d, o:%d, h:%d, v:%d): y[n, o, h, v] = max(s[n, o, h, v] + b[o], 0.0)\n",
        n, c, h, w, o, c, kh, kw, o, n, c, h + 2, w + 2, n, o, oh, ow, n, o, oh, ow, n, c, h + 2,
        w + 2, h + 1, w + 1, n, o, oh, ow, c, kh, kw, s, s, n, o, oh, ow);
}

static const char *window(kiln_rand *r, kiln_arena *a) {
    const int c = range(r, 1, 6), h = range(r, 3, 14), w = range(r, 3, 14), k = range(r, 1, 3),
              s = range(r, 1, 2), oh = (h - k) / s + 1, ow = (w - k) / s + 1;
    const bool weighs = kiln_rand_below(r, 2);
    return kiln_arena_printf(
        a,
        "program p\ninput x: f32[1,%d,%d,%d]\nconstant w: f32[%d,%d,%d]\noutput y: "
        "f32[1,%d,%d,%d]\nblock b(n:1, c:%d, h:%d, v:%d | r:%d, q:%d): y[n, c, h, v] %s "
        "x[n, c, h*%d + r, v*%d + q]%s init %s\n",
        c, h, w, c, k, k, c, oh, ow, c, oh, ow, k, k, weighs ? "sum=" : "max=", s, s,
        weighs ? " * w[c, r, q]" : "", weighs ? "0.0" : "-inf");
}

static const char *softmax(kiln_rand *r, kiln_arena *a) {
    const int n = range(r, 1, 9), w = range(r, 2, 300);
    return kiln_arena_printf(
        a,
        "program p\ninput x: f32[%d,%d]\ntemp m: f32[%d]\ntemp e: f32[%d,%d]\ntemp s: f32[%d]\n"
        "output y: f32[%d,%d]\nblock m(i:%d | r:%d): m[i] max= x[i, r] init -inf\n"
        "block e(i:%d, j:%d): e[i, j] = exp(x[i, j] - m[i])\n"
        "block s(i:%d | r:%d): s[i] sum= e[i, r] init 0.0\n"
        "block y(i:%d, j:%d): y[i, j] = e[i, j] / s[i]\n",
        n, w, n, n, w, n, n, w, n, w, n, w, n, w, n, w);
}

static const char *chain(kiln_rand *r, kiln_arena *a) {
    const int h = range(r, 1, 40), w = range(r, 1, 40);
    return kiln_arena_printf(a,
                             "program p\ninput x: f32[%d,%d]\ninput z: f32[%d,%d]\noutput y: "
                             "f32[%d,%d]\nblock y(i:%d, j:%d): y[i, j] = max(x[j, i] + z[i, j], "
                             "0.0) * 0.5\n",
                             w, h, h, w, h, w, h, w);
}

static const char *vector(kiln_rand *r, kiln_arena *a) {
    const int n = range(r, 1, 40), k = range(r, 1, 300);
    return kiln_arena_printf(a,
                             "program p\ninput x: f32[%d]\nconstant w: f32[%d,%d]\noutput y: "
                             "f32[%d]\nblock y(i:%d | k:%d): y[i] sum= w[i, k] * x[k] init 0.0\n",
                             k, n, k, n, n, k);
}

/* Few results of many steps: side by side, along two iterators, or one result. */
static const char *long_sum(kiln_rand *r, kiln_arena *a) {
    const int n = range(r, 1, 6), k = range(r, 30, 300), h = range(r, 3, 40), w = range(r, 3, 40);
    switch (kiln_rand_below(r, 3)) {
    case 0:
        return kiln_arena_printf(a,
                                 "program p\ninput x: f32[%d]\ninput w: f32[%d,%d]\noutput y: "
                                 "f32[%d]\nblock y(j:%d | k:%d): y[j] sum= x[k] * w[k, j] init "
                                 "0.0\n",
                                 k, k, h, h, h, k);
    case 1:
        return kiln_arena_printf(a,
                                 "program p\ninput x: f32[%d,%d,%d]\ntemp s: f32[%d]\noutput y: "
                                 "f32[%d,%d]\nblock s(n:%d | h:%d, v:%d): s[n] max= x[n, h, v] "
                                 "init -inf\nblock y(n:%d, i:%d): y[n, i] = s[n] * x[n, i, 0]\n",
                                 n, h, w, n, n, h, n, h, w, n, h);
    default:
        return kiln_arena_printf(a,
                                 "program p\ninput x: f32[%d,%d]\noutput y: f32[]\n"
                                 "block y( | i:%d, j:%d): y[] sum= x[i, j] init 0.0\n",
                                 h, w, h, w);
    }
}

static kiln_program *parse(const char *text, kiln_arena *arena) {
    kiln_program *p = NULL;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &p);
    if (st) fprintf(stderr, "%s\n%s", kiln_status_text(st), text);
    KILN_CHECK(!st);
    return p;
}

kiln_program *gpu_program_draw(kiln_rand *rand, kiln_arena *arena) {
    static const char *(*const pattern[])(kiln_rand *, kiln_arena *) = {
        product, convolution, convolution, window, softmax, chain, vector, long_sum};
    return parse(pattern[kiln_rand_below(rand, KILN_ARRAY_COUNT(pattern))](rand, arena), arena);
}

/* Windows of halves with a padding, which overlap. */
static const char *windows(kiln_rand *r, kiln_arena *a) {
    const char *in = kiln_rand_below(r, 2) ? "f16" : "bf16";
    const int n = range(r, 1, 2), c = range(r, 1, 3) == 1 ? range(r, 3, 9) : 8 << range(r, 0, 3),
              o = range(r, 8, 40), h = range(r, 4, 9), w = range(r, 4, 9), k = range(r, 2, 3),
              s = range(r, 1, 2), oh = (h + 2 - k) / s + 1, ow = (w + 2 - k) / s + 1;
    return kiln_arena_printf(
        a,
        "program p\ninput x: %s[%d,%d,%d,%d]\ninput w: %s[%d,%d,%d,%d]\n"
        "temp p: %s[%d,%d,%d,%d]\noutput y: f32[%d,%d,%d,%d]\n"
        "block pad(n:%d, c:%d, h:%d, v:%d): p[n, c, h, v] = select(and(and(1 <= h, h < %d), "
        "and(1 <= v, v < %d)), x[n, c, h - 1, v - 1], %s(0.0))\n"
        "block conv(n:%d, o:%d, h:%d, v:%d | c:%d, r:%d, q:%d): y[n, o, h, v] sum= "
        "f32(p[n, c, h*%d + r, v*%d + q]) * f32(w[o, c, r, q]) init 0.0\n",
        in, n, c, h, w, in, o, c, k, k, in, n, c, h + 2, w + 2, n, o, oh, ow, n, c, h + 2, w + 2,
        h + 1, w + 1, in, n, o, oh, ow, c, k, k, s, s);
}

kiln_program *gpu_program_draw_product(kiln_rand *rand, kiln_arena *a) {
    if (kiln_rand_below(rand, 4) == 0) return parse(windows(rand, a), a);
    static const struct {
        const char *name, *factor; /* what elements become in products */
    } type[] = {{"f16", "f32"}, {"bf16", "f32"}, {"f32", "tf32"}, {"i8", "i32"}};
    const size_t drawn = (size_t)kiln_rand_below(rand, KILN_ARRAY_COUNT(type));
    const char *in = type[drawn].name, *factor = type[drawn].factor;
    const bool bytes = *in == 'i', x_turned = kiln_rand_below(rand, 2),
               w_turned = kiln_rand_below(rand, 2), follows = kiln_rand_below(rand, 2);
    const int n = range(rand, 1, 2), i = range(rand, 8, 72), j = 8 * range(rand, 1, 9),
              k = range(rand, 1, 3) == 1 ? range(rand, 16, 130)
                  : bytes                ? 32 * range(rand, 1, 3)
                                         : 16 << range(rand, 0, 3);
    const char *sum = bytes ? "i32" : "f32", *zero = bytes ? "0i32" : "0.0";
    return parse(
        kiln_arena_printf(
            a,
            "program p\ninput x: %s[%d,%d,%d]\ninput w: %s[%d,%d,%d]\n%s: %s[%d,%d,%d]\n%s"
            "block mul(n:%d, i:%d, j:%d | k:%d): s[n, i, j] sum= %s(x[n, %s]) * %s(w[n, %s]) "
            "init %s\n%s",
            in, n, x_turned ? k : i, x_turned ? i : k, in, n, w_turned ? k : j, w_turned ? j : k,
            follows ? "temp s" : "output s", sum, n, i, j,
            follows ? kiln_arena_printf(a, "output y: %s[%d,%d,%d]\n", sum, n, i, j) : "", n, i, j,
            k, factor, x_turned ? "k, i" : "i, k", factor, w_turned ? "k, j" : "j, k", zero,
            follows ? kiln_arena_printf(
                          a, "block act(n:%d, i:%d, j:%d): y[n, i, j] = max(s[n, i, j], %s)\n", n,
                          i, j, zero)
                    : ""),
        a);
}

/* ---- shrunk ---------------------------------------------------------------------------------- */

/* Iterators and dimensions that have to keep equal extents are of one set: parent[] leads to its
 * first member. */
typedef struct sets {
    kiln_program *p;
    uint32_t *parent;
    bool *fixed; /* of the first member: more than an amount */
} sets;

static uint32_t iter_member(kiln_block block, uint32_t iter) {
    return block * KILN_BLOCK_ITERS_MAX + iter;
}
static uint32_t dim_member(const sets *s, kiln_buffer buffer, uint32_t dim) {
    return s->p->block.count * KILN_BLOCK_ITERS_MAX + buffer * KILN_RANK_MAX + dim;
}

static uint32_t first_of(const sets *s, uint32_t member) {
    while (s->parent[member] != member) member = s->parent[member];
    return member;
}

static void fix(sets *s, uint32_t member) { s->fixed[first_of(s, member)] = true; }

static void join(sets *s, uint32_t a, uint32_t b) {
    a = first_of(s, a), b = first_of(s, b);
    s->parent[b] = a;
    s->fixed[a] |= s->fixed[b];
}

static int64_t *dim_of(const sets *s, kiln_buffer buffer, uint32_t d) {
    return &s->p->buffer.data[buffer].shape.dim[d];
}

static void fix_vars(sets *s, kiln_block block, kiln_expr e) {
    const kiln_block_info *b = &s->p->block.data[block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (kiln_expr_uses_var(s->p, e, b->iter[i].var)) fix(s, iter_member(block, i));
}

static void add_access(sets *s, kiln_block block, kiln_buffer buffer, uint32_t d, kiln_expr index) {
    const int i = kiln_block_iter_of(s->p, block, index);
    const uint32_t dim = dim_member(s, buffer, d);
    if (i >= 0 && s->p->block.data[block].iter[i].extent == *dim_of(s, buffer, d)) {
        join(s, iter_member(block, (uint32_t)i), dim);
        return;
    }
    fix(s, dim);
    fix_vars(s, block, index);
}

/* Iterators that the value uses otherwise than as an index of their own. */
static void walk_value(sets *s, kiln_block block, kiln_expr e) {
    kiln_program *p = s->p;
    const kiln_expr_node node = *kiln_expr_get(p, e);
    if (node.op == KILN_EXPR_VAR) fix_vars(s, block, e);
    for (uint32_t i = 0; i < node.operand_count; i++) {
        const kiln_expr operand = kiln_expr_operand(p, e, i);
        if (node.op == KILN_EXPR_LOAD) add_access(s, block, node.payload.id, i, operand);
        if (node.op != KILN_EXPR_LOAD || kiln_expr_get(p, operand)->op != KILN_EXPR_VAR)
            walk_value(s, block, operand);
    }
}

void gpu_program_shrink(kiln_program *p, int64_t most) {
    const uint32_t members =
        p->block.count * KILN_BLOCK_ITERS_MAX + p->buffer.count * KILN_RANK_MAX;
    sets s = {.p = p,
              .parent = KILN_ARENA_ARRAY(p->arena, uint32_t, members),
              .fixed = KILN_ARENA_ARRAY(p->arena, bool, members)};
    for (uint32_t i = 0; i < members; i++) s.parent[i] = i;
    for (kiln_block b = 1; b < p->block.count; b++) {
        const kiln_block_info info = p->block.data[b];
        for (uint32_t d = 0; d < info.index_count; d++)
            add_access(&s, b, info.buffer, d, info.index[d]);
        walk_value(&s, b, info.value);
        if (info.init) walk_value(&s, b, info.init);
        if (info.predicate) walk_value(&s, b, info.predicate);
    }
    for (kiln_block b = 1; b < p->block.count; b++)
        for (uint32_t i = 0; i < p->block.data[b].iter_count; i++) {
            kiln_iter *iter = &p->block.data[b].iter[i];
            if (s.fixed[first_of(&s, iter_member(b, i))] || iter->extent <= most) continue;
            iter->extent = most;
            kiln_var_set_range(p, iter->var, 0, most - 1);
        }
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        for (uint32_t d = 0; d < p->buffer.data[b].shape.rank; d++)
            if (!s.fixed[first_of(&s, dim_member(&s, b, d))])
                *dim_of(&s, b, d) = KILN_MIN(*dim_of(&s, b, d), most);
}

/* ---- oclgrind -------------------------------------------------------------------------------- */

#define OCLGRIND "/usr/lib/oclgrind/liboclgrind-rt.so"
#define FINDINGS_BYTES_MAX (1u << 20)

static const char *log_path;

bool gpu_oclgrind_begin(const char *folder, bool optimised, kiln_arena *arena) {
    if (access(OCLGRIND, R_OK)) return false;
    log_path = kiln_arena_printf(arena, "%s/oclgrind.log", folder);
    return !setenv("KILN_OPENCL_LIBRARY", OCLGRIND, 1) && !setenv("OCLGRIND_LOG", log_path, 1) &&
           !setenv("OCLGRIND_DATA_RACES", "1", 1) && !setenv("OCLGRIND_CHECK_API", "1", 1) &&
           !setenv("OCLGRIND_BUILD_OPTIONS", optimised ? "" : "-cl-opt-disable", 1);
}

const char *gpu_oclgrind_findings(kiln_arena *arena) {
    kiln_str text = {0};
    kiln_status st = kiln_file_read(log_path, FINDINGS_BYTES_MAX, arena, &text);
    const bool none = st != NULL; /* it writes no file where it finds nothing */
    kiln_status_free(st);
    return none ? "" : kiln_str_dup(arena, text);
}
