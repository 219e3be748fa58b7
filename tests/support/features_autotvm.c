/* The features of AutoTVM's model, to be beaten: per loop its length, place and kind, and per
 * access stride, count and reuse; then curves of reuse, count and topdown against each other. As in
 * the original, operations on integers are not counted, loops stand in order of first occurrence,
 * and the vector is padded at its end. */
#include "tests/support/features_autotvm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/facts/facts.h"

#define ANNOTATIONS \
    11 /* block x y z, thread x y z, unrolled, vectorized, parallel, serial, virtual */
#define CURVE_SAMPLES 20
#define CURVE_POINTS (2 * CURVE_SAMPLES)
#define CURVE_BUFFERS 3 /* curves of so many accesses close the vector: 4 relations each */
#define CURVES_BEGIN (FEATURES_AUTOTVM_COUNT - CURVE_BUFFERS * 4 * CURVE_POINTS)

typedef struct writer {
    float *out;
    uint32_t at, end;
} writer;

static void put(writer *w, double x) {
    if (w->at < w->end) w->out[w->at++] = (float)x;
}

static double signed_log2(double x) { return x >= 0 ? log2(x + 1) : -log2(-x + 1); }

static void put_log2(writer *w, double x) { put(w, signed_log2(x)); }

static void put_annotation(writer *w, uint8_t kind) {
    static const uint8_t place[KILN_LOOP_KIND_COUNT] = {
        [KILN_LOOP_SERIAL] = 9, [KILN_LOOP_PARALLEL] = 8, [KILN_LOOP_VECTORIZE] = 7,
        [KILN_LOOP_UNROLL] = 6, [KILN_LOOP_BIND] = 0,     [KILN_LOOP_VTHREAD] = 10,
    };
    for (uint32_t i = 0; i < ANNOTATIONS; i++) put(w, i == place[kind]);
}

/* One access below one loop. */
typedef struct touch {
    double stride, count, reuse;
} touch;

/* Of the access while path[level..] runs: iterations that move it, and those that do not. */
static touch touch_at(const kiln_facts *facts, const kiln_facts_statement *s,
                      const kiln_facts_access *a, uint32_t level) {
    touch t = {0, 1, 1};
    for (uint32_t k = s->depth; k-- > level;) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        int64_t stride = kiln_facts_stride(facts, a, loop->var);
        if (k == level) t.stride = (double)stride;
        if (stride != 0)
            t.count *= (double)loop->extent;
        else
            t.reuse *= (double)loop->extent;
    }
    return t;
}

static double topdown_at(const kiln_facts *facts, const kiln_facts_statement *s, uint32_t level) {
    double product = 1;
    for (uint32_t k = 0; k <= level; k++) product *= (double)facts->loop[s->path[k]].extent;
    return product;
}

static void put_loop(writer *w, const kiln_facts *facts, const kiln_facts_statement *s,
                     uint32_t level) {
    const kiln_facts_loop *loop = &facts->loop[s->path[level]];
    double bottomup = 0;
    for (uint32_t i = 0; i < s->access_count; i++) {
        touch t = touch_at(facts, s, &s->access[i], level);
        bottomup = fmax(bottomup, t.count * t.reuse);
    }
    put_log2(w, (double)loop->extent);
    put(w, level);
    put_log2(w, topdown_at(facts, s, level));
    put_log2(w, bottomup);
    put_annotation(w, loop->kind);
    bool innermost = level == s->depth - 1;
    double mac = s->ops[KILN_OPS_F32_MAC];
    put_log2(w, innermost ? mac + s->ops[KILN_OPS_F32_ADD] : 0);
    put_log2(w, innermost ? mac + s->ops[KILN_OPS_F32_MUL] : 0);
    put_log2(w, innermost ? s->ops[KILN_OPS_F32_DIV] : 0);
    for (uint32_t i = 0; i < s->access_count; i++) {
        touch t = touch_at(facts, s, &s->access[i], level);
        put_log2(w, t.stride);
        put(w, 0); /* "mod" is never set in the original */
        put_log2(w, t.count);
        put_log2(w, t.reuse);
        put_log2(w, 1); /* no thread level encloses it */
        put_log2(w, 1);
    }
}

/* ---- curves ---------------------------------------------------------------------------------- */

typedef struct curve {
    uint32_t count;
    double *x, *y; /* [depth of the statement] */
} curve;

static void add_point(curve *c, double x, double y) {
    uint32_t at = c->count++;
    for (; at > 0 && c->x[at - 1] > x; at--) {
        c->x[at] = c->x[at - 1];
        c->y[at] = c->y[at - 1];
    }
    c->x[at] = x;
    c->y[at] = y;
}

/* For x = 0, 1, ... in log2: the last point at or before it, and how far back that lies. */
static void put_curve(writer *w, const curve *c) {
    uint32_t last = 0;
    for (uint32_t x = 0; x < CURVE_SAMPLES; x++) {
        while (last + 1 < c->count && c->x[last + 1] <= x) last++;
        put(w, c->y[last]);
        put(w, x - c->x[last]);
    }
}

static void put_curves(writer *w, const kiln_facts *facts, const kiln_facts_statement *s,
                       const kiln_facts_access *a, kiln_arena *scratch) {
    curve c[4];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(c); i++) {
        c[i].count = 0;
        c[i].x = KILN_ARENA_ARRAY(scratch, double, s->depth);
        c[i].y = KILN_ARENA_ARRAY(scratch, double, s->depth);
        add_point(&c[i], 0, 0);
    }
    for (uint32_t level = 1; level < s->depth; level++) {
        touch t = touch_at(facts, s, a, level);
        double reuse = log2(t.reuse), count = log2(t.count);
        double topdown = log2(topdown_at(facts, s, level));
        add_point(&c[0], count, reuse);
        add_point(&c[1], reuse, count);
        add_point(&c[2], count, topdown);
        add_point(&c[3], topdown, count);
    }
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(c); i++) put_curve(w, &c[i]);
}

void features_autotvm_compute(const kiln_program *scheduled, const kiln_target *target,
                              kiln_arena *scratch, float *out) {
    memset(out, 0, FEATURES_AUTOTVM_COUNT * sizeof *out);
    const kiln_facts *facts = kiln_facts_create(scheduled, target->line_bytes, scratch);
    bool *seen = KILN_ARENA_ARRAY(scratch, bool, facts->loop_count);
    const kiln_facts_statement *deepest = NULL;
    writer loops = {out, 0, CURVES_BEGIN};
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        if (s->prepare) continue;
        if (!deepest || s->depth > deepest->depth) deepest = s;
        for (uint32_t level = 1; level < s->depth; level++) {
            if (!seen[s->path[level]]) put_loop(&loops, facts, s, level);
            seen[s->path[level]] = true;
        }
    }
    writer curves = {out, CURVES_BEGIN, FEATURES_AUTOTVM_COUNT};
    for (uint32_t i = 0; deepest && i < deepest->access_count; i++)
        put_curves(&curves, facts, deepest, &deepest->access[i], scratch);
}
