#include "compiler-core/cost/features_grid.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/null_code.h"
#include "compiler-core/cost/grid.h"

typedef enum tick_term { STATEMENTS, DEVICE, SHARED, BARRIERS, LAUNCHES, TERM_COUNT } tick_term;

/* A nest at the root. */
typedef struct launch {
    bool used;
    double groups, threads, shared_bytes, barriers;
    double ticks[TERM_COUNT]; /* of a group; except LAUNCHES */
} launch;

typedef struct counting {
    const kiln_facts *facts;
    const kiln_target *target;
    launch *launch; /* [nest count] */
    uint32_t launch_count;
    double device, shared, work, executed; /* of all threads */
} counting;

static void add_statement(counting *c, const kiln_facts_statement *s) {
    launch *l = &c->launch[s->nest];
    const kiln_grid_loops n = kiln_grid_loops_of(c->facts, s);
    const double groups = n.groups, threads = n.threads, rounds = n.rounds;
    double device = 0, shared = 0;
    bool meets = false;
    const double times = s->iterations / (groups * threads); /* of one thread */
    for (uint32_t i = 0; i < s->access_count; i++) {
        const kiln_facts_access *a = &s->access[i];
        const kiln_seen_by seen = kiln_grid_seen_by(c->facts, a->buffer);
        const double accesses = (double)a->loads + (double)a->stores;
        device += seen == KILN_SEEN_BY_DEVICE ? accesses : 0;
        shared += seen == KILN_SEEN_BY_GROUP ? accesses : 0;
        meets |= seen == KILN_SEEN_BY_GROUP;
    }
    l->used = true;
    l->groups = fmax(l->groups, groups);
    l->threads = fmax(l->threads, threads);
    l->barriers += meets && threads > 1 ? rounds : 0;
    l->ticks[STATEMENTS] += times * KILN_NULL_TICKS_STATEMENT;
    l->ticks[DEVICE] += times * device * KILN_NULL_TICKS_ARGUMENT;
    l->ticks[SHARED] += times * shared * KILN_NULL_TICKS_SHARED;
    l->ticks[BARRIERS] += meets && threads > 1 ? rounds * KILN_NULL_TICKS_BARRIER : 0;
    c->device += s->iterations * device;
    c->shared += s->iterations * shared;
    for (uint32_t k = 0; k < KILN_OPS_COUNT; k++) {
        c->executed += s->ops[k] * s->points;
        c->work += s->ops[k] * s->domain;
    }
}

/* Adds shared memory of groups, by the launch of a buffer. */
static void add_shared_bytes(counting *c, kiln_buffer buffer) {
    const kiln_buffer_info *b = &c->facts->p->buffer.data[buffer];
    if (b->scope != KILN_SCOPE_SHARED) return;
    for (uint32_t i = 0; i < c->facts->statement_count; i++) {
        const kiln_facts_statement *s = &c->facts->statement[i];
        if (s->prepare || s->access[0].buffer != buffer) continue;
        c->launch[s->nest].shared_bytes +=
            (double)kiln_shape_count(&c->facts->shape[buffer]) * (double)kiln_dtype_size(b->dtype);
        return;
    }
}

static double rounds_of(const launch *l) { return ceil(l->groups / KILN_NULL_UNITS); }

static double ticks_of(const launch *l) {
    double ticks = 0;
    for (tick_term t = STATEMENTS; t < LAUNCHES; t++) ticks += l->ticks[t];
    return ticks * rounds_of(l) + KILN_NULL_TICKS_LAUNCH;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_count(float *out, uint32_t feature, double count) {
    out[feature] = log2f(1 + (float)count);
}

static void put_ratio(float *out, kiln_grid_feature feature, double a, double b) {
    out[feature] = a > 0 && b > 0 ? log2f((float)(a / b)) : 0;
}

static void put_main(const counting *c, const launch *l, float *out) {
    put_count(out, KILN_GRID_GROUPS, l->groups);
    put_count(out, KILN_GRID_THREADS, l->threads);
    put_ratio(out, KILN_GRID_THREADS_FILL, l->threads, c->target->group_threads);
    put_ratio(out, KILN_GRID_UNITS_FILL, l->groups, rounds_of(l) * KILN_NULL_UNITS);
    put_count(out, KILN_GRID_SHARED_BYTES, l->shared_bytes);
    put_count(out, KILN_GRID_BARRIERS, l->barriers);
    put_count(out, KILN_GRID_STATEMENTS, l->ticks[STATEMENTS] / KILN_NULL_TICKS_STATEMENT);
    put_ratio(out, KILN_GRID_REUSE, l->ticks[SHARED] / KILN_NULL_TICKS_SHARED + 1,
              l->ticks[DEVICE] / KILN_NULL_TICKS_ARGUMENT + 1);
}

static void put_program(const counting *c, float *out) {
    double term[TERM_COUNT] = {0}, all = 0, most = 0, shared = 0, launches = 0;
    const launch *main = NULL;
    for (uint32_t i = 0; i < c->launch_count; i++) {
        const launch *l = &c->launch[i];
        if (!l->used) continue;
        launches++;
        all += ticks_of(l);
        for (tick_term t = STATEMENTS; t < LAUNCHES; t++) term[t] += l->ticks[t] * rounds_of(l);
        term[LAUNCHES] += KILN_NULL_TICKS_LAUNCH;
        shared = fmax(shared, l->shared_bytes);
        if (ticks_of(l) > most) main = l;
        most = fmax(most, ticks_of(l));
    }
    if (!main) return; /* nothing is left to run */
    out[KILN_GRID_NS] = log2f((float)all);
    for (uint32_t t = 0; t < TERM_COUNT; t++)
        put_count(out, KILN_GRID_TICKS_STATEMENTS + t, term[t]);
    put_count(out, KILN_GRID_WORK, c->work);
    put_ratio(out, KILN_GRID_OPS_EXECUTED, c->executed, c->work);
    put_count(out, KILN_GRID_LAUNCHES, launches);
    put_count(out, KILN_GRID_DEVICE_ACCESSES, c->device);
    put_count(out, KILN_GRID_SHARED_ACCESSES, c->shared);
    put_count(out, KILN_GRID_DEVICE_BYTES, c->facts->bytes);
    put_ratio(out, KILN_GRID_SHARED_OVER, shared, c->target->shared_bytes);
    put_main(c, main, out);
}

static void compute(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                    float *out) {
    kiln_facts *facts = kiln_facts_create(scheduled, 1, scratch);
    counting c = {.facts = facts, .target = target};
    memset(out, 0, KILN_GRID_FEATURE_COUNT * sizeof *out);
    for (uint32_t i = 0; i < facts->statement_count; i++)
        c.launch_count = KILN_MAX(c.launch_count, facts->statement[i].nest + 1);
    c.launch = KILN_ARENA_ARRAY(scratch, launch, c.launch_count);
    for (uint32_t i = 0; i < facts->statement_count; i++)
        if (!facts->statement[i].prepare) add_statement(&c, &facts->statement[i]);
    for (kiln_buffer b = 1; b < scheduled->buffer.count; b++) add_shared_bytes(&c, b);
    put_program(&c, out);
}

static bool fits(const float *vector) {
    return vector[KILN_GRID_SHARED_OVER] <= 0 && vector[KILN_GRID_THREADS_FILL] <= 0;
}

static const kiln_feature_info feature_table[] = {
#define X(name, text, unit, doc) [KILN_GRID_##name] = {text, unit, doc},
#include "compiler-core/cost/features_grid.def"
#undef X
};

const kiln_feature_set kiln_features_grid = {
    .count = KILN_GRID_FEATURE_COUNT,
    .info = feature_table,
    .predicted_ns = KILN_GRID_NS,
    .first_term = KILN_GRID_TICKS_STATEMENTS,
    .term_count = TERM_COUNT,
    .compute = compute,
    .fits = fits,
};
