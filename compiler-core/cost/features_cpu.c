#include "compiler-core/cost/features_cpu.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/cost/estimate.h"

#define NOMINAL_GHZ 3.0 /* of predicted times; measured ones are compared within a task */
#define UNROLLED_SHOWN 6
#define LOOPS_SHOWN 12

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct writer {
    const kiln_facts *facts;
    const kiln_estimate *estimate;
    const kiln_facts_statement *main;
    const kiln_tile_use *tile;
    float *out;
} writer;

static void put(writer *w, kiln_feature feature, double value) { w->out[feature] = (float)value; }

static void put_count(writer *w, uint32_t feature, double count) {
    w->out[feature] = log2f(1 + (float)count);
}

static void put_ratio(writer *w, uint32_t feature, double a, double b) {
    w->out[feature] = a > 0 && b > 0 ? log2f((float)(a / b)) : 0;
}

/* ---- families -------------------------------------------------------------------------------- */

static void put_program(writer *w) {
    const kiln_estimate *e = w->estimate;
    double ops[KILN_OPS_COUNT] = {0}, executed = 0, needed = 0;
    uint32_t placed = 0;
    for (uint32_t i = 0; i < w->facts->statement_count; i++) {
        const kiln_facts_statement *s = &w->facts->statement[i];
        if (s->prepare) continue;
        placed++;
        for (uint32_t k = 0; k < KILN_OPS_COUNT; k++) {
            ops[k] += s->ops[k] * s->points;
            executed += s->ops[k] * s->points;
            needed += s->ops[k] * s->domain;
        }
    }
    double ns = e->cycles / NOMINAL_GHZ;
    w->out[KILN_FEATURE_NS] = log2f((float)fmax(ns, 1));
    put_count(w, KILN_FEATURE_WORK, needed);
    put_ratio(w, KILN_FEATURE_EFFICIENCY, e->peak_cycles, e->cycles);
    put_ratio(w, KILN_FEATURE_INTENSITY, needed, w->facts->bytes);
    put_count(w, KILN_FEATURE_STATEMENTS, placed);
    put_count(w, KILN_FEATURE_BYTES, w->facts->bytes);
    put_ratio(w, KILN_FEATURE_OPS_EXECUTED, executed, needed);
    put_ratio(w, KILN_FEATURE_THREADS, e->workers, 1);
    put_ratio(w, KILN_FEATURE_IMBALANCE, e->imbalance, 1);
    for (uint32_t k = 0; k < KILN_OPS_COUNT; k++)
        put_count(w, KILN_FEATURE_OPS_F32_MAC + k, ops[k]);
    for (uint32_t k = 0; k < KILN_TERM_COUNT; k++)
        put_count(w, KILN_FEATURE_CYCLES_PORTS + k, e->term[k]);
    for (uint32_t k = 0; k < KILN_COST_PART_COUNT; k++)
        put_count(w, KILN_FEATURE_CYCLES_OF_MAIN + k, e->part[k]);
}

static void put_tile(writer *w) {
    const kiln_tile_use *t = w->tile;
    const kiln_facts_statement *s = w->main;
    double loads = t->vector_loads + t->broadcasts + t->gathers;
    put_count(w, KILN_FEATURE_TILE_LANES, t->of.lanes);
    put(w, KILN_FEATURE_TILE_VECTOR_FILL, t->fill);
    put(w, KILN_FEATURE_TILE_ACCUMULATORS, t->accumulators);
    put(w, KILN_FEATURE_TILE_OPERANDS, t->operands);
    put(w, KILN_FEATURE_TILE_PRESSURE,
        t->accumulators + t->operands - w->estimate->target->vector_registers);
    put_count(w, KILN_FEATURE_TILE_CHAINS, t->accumulators);
    put_count(w, KILN_FEATURE_TILE_CHAIN, t->of.reduce);
    put_count(w, KILN_FEATURE_TILE_MACS, t->steps);
    put_count(w, KILN_FEATURE_TILE_LOADS, loads);
    put_ratio(w, KILN_FEATURE_TILE_MACS_PER_LOAD, t->steps, loads);
    put_count(w, KILN_FEATURE_TILE_VECTOR_LOADS, t->vector_loads);
    put_count(w, KILN_FEATURE_TILE_BROADCASTS, t->broadcasts);
    put_count(w, KILN_FEATURE_TILE_SPATIAL, t->of.spatial);
    put_count(w, KILN_FEATURE_TILE_REDUCE, t->of.reduce);
    put_count(w, KILN_FEATURE_TILE_CODE, t->code);
    put(w, KILN_FEATURE_TILE_TAIL, 1 - s->points / fmax(s->iterations, 1));
    put(w, KILN_FEATURE_TILE_LANE_TAIL, 1 - t->fill);
}

/* The outermost level whose loops belong to one reduction: between loading and storing the
 * accumulators. */
static uint32_t reduction_level(const kiln_facts_statement *s, const kiln_tile_use *t) {
    uint32_t level = t->of.level;
    while (level > 1 && s->reduces[level - 1]) level--;
    return level;
}

/* The loop's extent and kind, by its place from the inside out: within the tile or around it. */
static void put_loop(writer *w, uint32_t k) {
    const kiln_facts_statement *s = w->main;
    bool inside = k >= w->tile->of.level;
    uint32_t place = inside ? s->depth - 1 - k : w->tile->of.level - 1 - k;
    if (place >= (inside ? UNROLLED_SHOWN : LOOPS_SHOWN)) return;
    uint32_t row = (inside ? KILN_FEATURE_UNROLLED0_EXTENT : KILN_FEATURE_LOOP0_EXTENT) + 2 * place;
    put_count(w, row, (double)w->facts->loop[s->path[k]].extent);
    w->out[row + 1] = s->reduces[k] ? -1 : 1;
}

static void put_nest(writer *w) {
    const kiln_facts_statement *s = w->main;
    uint32_t reduction = reduction_level(s, w->tile), serial = 0, parallel_depth = 0;
    double parallel = 1, reduce_trips = 1, reduce_outside = 1;
    for (uint32_t k = s->depth; k-- > 1;) {
        const kiln_facts_loop *loop = &w->facts->loop[s->path[k]];
        double extent = (double)loop->extent;
        if (k >= reduction && k < w->tile->of.level) reduce_trips *= extent;
        if (k < reduction && s->reduces[k]) reduce_outside *= extent;
        if (loop->kind == KILN_LOOP_PARALLEL) {
            parallel *= extent;
            parallel_depth = k;
        }
        serial += k < w->tile->of.level && loop->extent > 1;
        put_loop(w, k);
    }
    const kiln_facts_loop *inner = &w->facts->loop[s->path[w->tile->of.level - 1]];
    put(w, KILN_FEATURE_NEST_DEPTH, s->depth - 1);
    put_count(w, KILN_FEATURE_NEST_INNER_TRIPS, (double)inner->extent);
    put_count(w, KILN_FEATURE_NEST_REDUCE_TRIPS, reduce_trips);
    put_count(w, KILN_FEATURE_NEST_TILES, w->tile->count);
    put_count(w, KILN_FEATURE_NEST_REDUCE_OUTSIDE, reduce_outside);
    put_count(w, KILN_FEATURE_NEST_PARALLEL, parallel);
    put(w, KILN_FEATURE_NEST_PARALLEL_DEPTH, parallel_depth);
    put(w, KILN_FEATURE_NEST_SERIAL_LOOPS, serial);
}

static double lines_at(const kiln_facts_statement *s, uint32_t level, bool crowd) {
    double lines = 0;
    for (uint32_t i = 0; i < s->access_count; i++)
        if (s->access[i].in_memory)
            lines += s->access[i].lines[level] * (crowd ? s->access[i].crowding[level] : 1);
    return lines;
}

static void put_fits(writer *w) {
    const kiln_facts_statement *s = w->main;
    const kiln_target *target = w->estimate->target;
    uint32_t reduction = reduction_level(s, w->tile);
    const uint32_t level[] = {w->tile->of.level, reduction, KILN_MAX(reduction, 1) - 1};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(level); i++) {
        double bytes = lines_at(s, level[i], false) * target->line_bytes;
        double crowd = lines_at(s, level[i], true) * target->line_bytes;
        put_ratio(w, KILN_FEATURE_FIT_TILE_L1 + 2 * i, bytes, target->l1_bytes);
        put_ratio(w, KILN_FEATURE_FIT_TILE_L2 + 2 * i, bytes, target->l2_bytes);
        put_ratio(w, KILN_FEATURE_CROWD_TILE + i, crowd, target->l1_bytes);
    }
    const uint32_t cache[] = {target->l1_bytes, target->l2_bytes, target->l3_bytes};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(cache); i++) {
        uint32_t k = 0;
        double executions = 1;
        while (k < s->depth && w->facts->loop[s->path[k]].bytes > cache[i])
            executions *= (double)w->facts->loop[s->path[k++]].extent;
        put_count(w, KILN_FEATURE_WORK_IN_L1 + i, s->iterations / executions);
    }
}

/* The family of rows of an access of the main statement. */
static kiln_feature operand_family(const kiln_facts_access *a, const kiln_tile_use *t) {
    if (a->stores) return KILN_FEATURE_RESULT_BYTES;
    if (t->of.lanes > 1 && a->lane_stride == 1) return KILN_FEATURE_VECTOR_BYTES;
    if (t->of.lanes > 1 && a->lane_stride == 0) return KILN_FEATURE_SCALAR_BYTES;
    return KILN_FEATURE_OTHER_BYTES;
}

enum {
    OPERAND_BYTES,
    OPERAND_REUSE,
    OPERAND_STRIDE,
    OPERAND_RUN,
    OPERAND_TILE,
    OPERAND_CROWDING,
    OPERAND_L1
};

/* Several operands of one kind are added up; stride and run are of the last. */
static void put_operands(writer *w) {
    const kiln_facts_statement *s = w->main;
    uint32_t reduction = reduction_level(s, w->tile);
    double sum[KILN_FEATURE_COUNT] = {0};
    for (uint32_t i = 0; i < s->access_count; i++) {
        const kiln_facts_access *a = &s->access[i];
        if (!a->in_memory) continue;
        kiln_feature row = operand_family(a, w->tile);
        sum[row + OPERAND_BYTES] += a->elements[0] * a->element_bytes;
        sum[row + OPERAND_REUSE] = s->points / fmax(a->elements[0], 1);
        for (uint32_t k = s->depth; k-- > 1;) {
            int64_t stride = kiln_facts_stride(w->facts, a, w->facts->loop[s->path[k]].var);
            bool lanes = w->facts->loop[s->path[k]].kind == KILN_LOOP_VECTORIZE;
            if (stride == 0 || lanes) continue;
            sum[row + OPERAND_STRIDE] = (double)stride * a->element_bytes;
            break;
        }
        sum[row + OPERAND_RUN] = a->run[reduction];
        sum[row + OPERAND_CROWDING] = a->crowding[reduction] - 1;
        sum[row + OPERAND_TILE] += a->lines[reduction] * w->estimate->target->line_bytes;
        for (uint32_t level = 0; level < KILN_CACHE_LEVELS; level++)
            sum[row + OPERAND_L1 + level] +=
                w->estimate->traffic[s - w->facts->statement][i][level];
    }
    for (uint32_t f = KILN_FEATURE_VECTOR_BYTES; f <= KILN_FEATURE_RESULT_L3; f++)
        put_count(w, f, sum[f]);
}

static uint32_t shared_loops(const kiln_facts_statement *a, const kiln_facts_statement *b) {
    uint32_t k = 1;
    while (k < a->depth && k < b->depth && a->path[k] == b->path[k]) k++;
    return k - 1;
}

static void put_rest(writer *w) {
    double read = 0, written = 0, temps = 0, redo = 1, scalars = 0, run = 0, conditional = 0;
    uint32_t depth = 0;
    for (uint32_t i = 0; i < w->facts->statement_count; i++) {
        const kiln_facts_statement *s = &w->facts->statement[i];
        if (s->prepare) continue;
        const kiln_facts_access *result = &s->access[0];
        bool temp = w->facts->p->buffer.data[result->buffer].role == KILN_ROLE_TEMP;
        if (temp && result->in_memory && !s->initial)
            temps +=
                (double)kiln_shape_count(&w->facts->shape[result->buffer]) * result->element_bytes;
        if (w->estimate->tile[i].of.lanes == 1) scalars += s->points;
        for (uint32_t k = 0; k < s->access_count; k++)
            conditional += s->access[k].conditional ? s->points : 0;
        if (s == w->main) continue;
        written += result->in_memory ? s->points * result->element_bytes : 0;
        for (uint32_t k = 1; k < s->access_count; k++)
            read += s->access[k].in_memory ? s->points * s->access[k].element_bytes : 0;
        if (kiln_cost_part_of(w->estimate, i) == KILN_COST_PART_PRODUCERS) {
            depth = KILN_MAX(depth, shared_loops(s, w->main));
            redo = fmax(redo, s->points / fmax(s->domain, 1));
        }
        if (kiln_cost_part_of(w->estimate, i) == KILN_COST_PART_WRITES)
            run = result->run[w->estimate->tile[i].of.level];
    }
    put_count(w, KILN_FEATURE_REST_BYTES_READ, read);
    put_count(w, KILN_FEATURE_REST_BYTES_WRITTEN, written);
    put_count(w, KILN_FEATURE_REST_TEMP_BYTES, temps);
    put(w, KILN_FEATURE_REST_PRODUCER_DEPTH, depth);
    put_ratio(w, KILN_FEATURE_REST_PRODUCER_REDO, redo, 1);
    put_count(w, KILN_FEATURE_REST_SCALAR_POINTS, scalars);
    put_count(w, KILN_FEATURE_REST_WRITE_RUN, run);
    put_count(w, KILN_FEATURE_REST_SELECT_LOADS, conditional);
}

static void compute(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                    float *out) {
    memset(out, 0, KILN_FEATURE_COUNT * sizeof *out);
    kiln_facts *facts = kiln_facts_create(scheduled, target->line_bytes, scratch);
    kiln_estimate estimate;
    kiln_estimate_make(facts, target, scratch, &estimate);
    if (estimate.cycles <= 0) return; /* nothing is left to run */
    writer w = {facts, &estimate, &facts->statement[estimate.main], &estimate.tile[estimate.main],
                out};
    put_program(&w);
    put_tile(&w);
    put_nest(&w);
    put_fits(&w);
    put_operands(&w);
    put_rest(&w);
    put(&w, KILN_FEATURE_REGISTERS, estimate.registers - target->vector_registers);
}

static bool fits(const float *vector) { return vector[KILN_FEATURE_REGISTERS] < 0; }

static const kiln_feature_info feature_table[] = {
#define X(name, text, unit, doc) [KILN_FEATURE_##name] = {text, unit, doc},
#include "compiler-core/cost/features_cpu.def"
#undef X
};

const kiln_feature_set kiln_features_cpu = {
    .count = KILN_FEATURE_COUNT,
    .info = feature_table,
    .predicted_ns = KILN_FEATURE_NS,
    .first_term = KILN_FEATURE_CYCLES_PORTS,
    .term_count = KILN_TERM_COUNT,
    .compute = compute,
    .fits = fits,
};
