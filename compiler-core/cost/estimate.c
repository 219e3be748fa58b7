#include "compiler-core/cost/estimate.h"

#include <math.h>

#include "base/macros.h"
#include "compiler-core/ir/device.h"

/* Slots of the multiply-add ports per vector operation: 1 is a multiply-add. Calls and halves count
 * as their instruction sequences; division and conversions have figures of the core
 * (base/figures.def). */
static const double op_slots[KILN_OPS_COUNT] = {
    [KILN_OPS_F32_MAC] = 1,   [KILN_OPS_F32_ADD] = 1, [KILN_OPS_F32_MUL] = 1,
    [KILN_OPS_F32_CALL] = 24, [KILN_OPS_F64] = 2,     [KILN_OPS_I8_MAC] = 4,
    [KILN_OPS_INT_MAC] = 2,   [KILN_OPS_INT_OPS] = 1, [KILN_OPS_CASTS] = 1,
    [KILN_OPS_SELECTS] = 1,
};
static const double op_instructions[KILN_OPS_COUNT] = {
    [KILN_OPS_F32_MAC] = 1, [KILN_OPS_F32_ADD] = 1,   [KILN_OPS_F32_MUL] = 1,
    [KILN_OPS_F32_DIV] = 1, [KILN_OPS_F32_CALL] = 24, [KILN_OPS_F64] = 2,
    [KILN_OPS_F16] = 4,     [KILN_OPS_I8_MAC] = 4,    [KILN_OPS_INT_MAC] = 2,
    [KILN_OPS_INT_OPS] = 1, [KILN_OPS_CASTS] = 1,     [KILN_OPS_SELECTS] = 1,
};

#define LOADS_SHARE 0.9 /* measured: tiles of one vector take 1.2 times as long as of two */
#define LOOP_INSTRUCTIONS 3
/* Share of a cache that loops can count on: other data and associativity take the rest. */
#define CACHE_SHARE_FULL 0.6
#define CACHE_SHARE_NONE 1.2
/* Part of the time to move a line from the next level that does not overlap with execution. */
#define LINES_EXPOSED 0.12
/* Share of the second cache's sequential read rate: lines that kernels miss are less ordered, and
 * evict others. Measured: of 0.4 to 1 it ranks trials of seven convolutions and a product best. */
#define L2_SHARE 0.6

/* Points of one lane per vector operation. */
static double points_at_once(const kiln_facts_statement *s) {
    if (!s->intrinsic) return 1;
    return kiln_intrinsic_in_tiles(s->intrinsic) ? s->intrinsic->rows * s->intrinsic->steps
                                                 : s->intrinsic->steps;
}

/* Size of the word of a lane's steps over that of an element of the sum. */
static double word_elements(const kiln_facts_statement *s) {
    return s->intrinsic && !kiln_intrinsic_in_tiles(s->intrinsic) ? s->intrinsic->rows : 1;
}

static bool sums_halves(const kiln_facts_statement *s) {
    return s->intrinsic && kiln_intrinsic_sum(s->intrinsic) == KILN_F32;
}

/* Whether the intrinsic does the operation: multiply-adds, and for halves the casts of both
 * factors. */
static bool is_done_at_once(const kiln_facts_statement *s, uint32_t op) {
    if (sums_halves(s)) return op == KILN_OPS_F32_MAC || op == KILN_OPS_CASTS;
    return s->intrinsic && op == KILN_OPS_I8_MAC;
}

static double instructions_of(const kiln_facts_statement *s, uint32_t op) {
    if (!is_done_at_once(s, op)) return op_instructions[op];
    if (op == KILN_OPS_CASTS) return 0;
    return (1 + !s->intrinsic->accumulates + (s->intrinsic->bias > 0)) / points_at_once(s);
}

static double cycles_of_op(const kiln_core *core, const kiln_facts_statement *s, uint32_t op) {
    if (is_done_at_once(s, op)) return core->dot * instructions_of(s, op);
    if (op == KILN_OPS_F32_DIV) return core->divide;
    if (op == KILN_OPS_F16) return core->convert_f16;
    return op_slots[op] / core->vector;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static uint32_t element_bytes_of(const kiln_facts_statement *s) {
    return KILN_MAX(s->access[0].element_bytes, 4); /* halves and bytes are computed in words */
}

static void size_tile(const kiln_estimate *e, const kiln_facts_statement *s, kiln_tile_use *t) {
    t->of = s->tile;
    double width = KILN_MAX(e->target->vector_bytes / element_bytes_of(s), 1);
    t->registers_per_vector = ceil(t->of.lanes / width);
    t->fill = t->of.lanes > 1 ? t->of.lanes / (t->registers_per_vector * width) : 1 / width;
    t->steps = t->of.spatial * t->of.reduce * t->registers_per_vector;
    t->count = 1;
    for (uint32_t k = 0; k < t->of.level; k++)
        t->count *= (double)e->facts->loop[s->path[k]].extent;
}

static bool in_tiles(const kiln_facts_statement *s) {
    return s->intrinsic && kiln_intrinsic_in_tiles(s->intrinsic);
}

/* `together`: elements that lie in one lane, those of the steps of a tensor intrinsic, in `words`
 * elements of the sum. */
static void count_access(const kiln_facts_statement *s, const kiln_facts_access *a, double together,
                         double words, kiln_tile_use *t) {
    if (!a->in_memory) return;
    if (a->stores) together = words = 1;
    if (in_tiles(s) && a->lane_stride != 0) together = kiln_intrinsic_word(s->intrinsic);
    double elements = a->elements[t->of.level] / together * words;
    bool vector = t->of.lanes > 1 && a->lane_stride != 0,
         behind = (double)a->lane_stride == together;
    double vectors = vector ? elements / t->of.lanes * t->registers_per_vector : elements;
    bool gathers = vector && !behind;
    if (gathers) t->gathers += elements;
    if (a->stores && !gathers) t->stores += vectors;
    if (!a->loads || gathers) return;
    if (vector)
        t->vector_loads += vectors;
    else
        t->broadcasts += elements;
}

static void count_tile(const kiln_estimate *e, const kiln_facts_statement *s, kiln_tile_use *t) {
    size_tile(e, s, t);
    double together = s->intrinsic ? s->intrinsic->steps : 1,
           steps = KILN_MAX(t->of.reduce / together, 1), words = word_elements(s);
    for (uint32_t i = 0; i < s->access_count; i++)
        count_access(s, &s->access[i], together, words, t);
    const kiln_facts_access *result = &s->access[0];
    if (s->reduction)
        t->accumulators = result->elements[t->of.level] / t->of.lanes * t->registers_per_vector;
    double group = e->target->factor_lanes;
    bool in_groups = group > 1 && steps * words >= group;
    if (in_groups) t->broadcasts /= group;
    t->operands =
        t->vector_loads / steps + (in_groups ? t->broadcasts * group / steps : t->broadcasts > 0);
    for (uint32_t i = 0; i < KILN_OPS_COUNT; i++)
        t->code += s->ops[i] * instructions_of(s, i) * t->steps;
    t->code += t->vector_loads + t->broadcasts + 2 * t->gathers + t->stores;
}

/* ---- traffic --------------------------------------------------------------------------------- */

/* The degree to which data of so many bytes stays in a cache: 1 fully, 0 not at all. */
static double stays(double bytes, double cache_bytes) {
    double share = bytes / cache_bytes;
    if (share <= CACHE_SHARE_FULL) return 1;
    if (share >= CACHE_SHARE_NONE) return 0;
    return (CACHE_SHARE_NONE - share) / (CACHE_SHARE_NONE - CACHE_SHARE_FULL);
}

/* Lines fetched from the next level in one run of the kernel. If the data of one iteration stays in
 * the cache for the next, all iterations together fetch only the distinct lines; else each fetches
 * its own. Kernels run repeatedly, so a program that fits as a whole fetches nothing, nor does the
 * reader of a temporary that is still cached. */
static double lines_fetched(const kiln_facts *facts, const kiln_facts_statement *s,
                            const kiln_facts_access *a, double cache_bytes, bool by_address) {
    double lines = a->lines[s->depth];
    for (uint32_t k = s->depth; k-- > 0;) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        double kept = stays(by_address ? loop->body_crowd : loop->body_bytes, cache_bytes);
        lines = kept * a->lines[k] + (1 - kept) * lines * (double)loop->extent;
    }
    double again = stays(facts->bytes, cache_bytes);
    if (facts->p->buffer.data[a->buffer].role == KILN_ROLE_TEMP && a->loads)
        again = KILN_MAX(again, stays(facts->loop[facts->home[a->buffer]].body_bytes, cache_bytes));
    return lines * (1 - again) * (a->stores ? 2 : 1); /* stored lines are read and written back */
}

/* ---- cycles ---------------------------------------------------------------------------------- */

static double share_of_points(const kiln_facts_statement *s) {
    return s->iterations > 0 ? s->points / s->iterations : 1;
}

/* Terms of products in tiles: the matrix unit needs the same time for partial tiles. */
static void tile_terms(const kiln_estimate *e, const kiln_facts_statement *s,
                       const kiln_tile_use *t, double *term) {
    const kiln_facts *facts = e->facts;
    const double rows = (double)facts->loop[s->path[s->depth - 3]].extent,
                 steps = (double)facts->loop[s->path[s->depth - 1]].extent,
                 sums = KILN_MAX(t->of.spatial / rows, 1),
                 products =
                     sums * KILN_MAX(t->of.reduce / steps, 1) * t->count * share_of_points(s);
    term[KILN_TERM_PORTS] = products * KILN_INTRINSIC_TILE_CYCLES;
    term[KILN_TERM_LATENCY] = products / sums * KILN_INTRINSIC_TILE_LATENCY;
    term[KILN_TERM_STORES] = term[KILN_TERM_SPILL] = 0;
}

static void statement_terms(const kiln_estimate *e, uint32_t at, double *term) {
    const kiln_facts *facts = e->facts;
    const kiln_core *core = &e->target->core;
    const kiln_facts_statement *s = &facts->statement[at];
    const kiln_tile_use *t = &e->tile[at];
    double executed = t->count * share_of_points(s); /* tiles, partial ones by their share */
    for (uint32_t i = 0; i < KILN_OPS_COUNT; i++)
        term[KILN_TERM_PORTS] += s->ops[i] * cycles_of_op(core, s, i) * t->steps * executed;
    bool in_memory = s->access[0].in_memory;
    if (s->reduction)
        term[KILN_TERM_LATENCY] = t->count * (t->of.reduce / points_at_once(s)) *
                                  (in_memory ? core->forward : core->latency);
    double loads = (t->vector_loads + t->broadcasts) / core->loads + t->gathers * core->gather;
    term[KILN_TERM_LOADS] = loads / LOADS_SHARE * executed;
    term[KILN_TERM_STORES] = t->stores / core->stores * executed;
    double loops = (double)(LOOP_INSTRUCTIONS + s->access_count);
    term[KILN_TERM_ISSUE] = (t->code * executed + loops * t->count) / core->issue;
    double over = t->accumulators + t->operands - e->target->vector_registers;
    if (!in_memory) term[KILN_TERM_SPILL] = 0.4 * KILN_MAX(over, 0) * t->of.reduce * executed;
    if (in_tiles(s)) tile_terms(e, s, t, term);
    double entered = t->count;
    for (uint32_t k = t->of.level; k-- > 1;) {
        entered /= (double)facts->loop[s->path[k]].extent;
        term[KILN_TERM_OVERHEAD] += entered * LOOP_INSTRUCTIONS / 2;
    }
    const double rate[KILN_CACHE_LEVELS] = {core->l2_rate * L2_SHARE, core->l3_rate,
                                            core->memory_rate};
    for (uint32_t level = 0; level < KILN_CACHE_LEVELS; level++)
        for (uint32_t i = 0; i < s->access_count; i++)
            term[KILN_TERM_L1 + level] +=
                e->traffic[at][i][level] * e->target->line_bytes / rate[level];
}

/* Overlapping terms count by their maximum; terms that execution cannot hide are added. */
static double cycles_of_terms(const double *term) {
    double busy = 0, lines = 0;
    for (uint32_t i = KILN_TERM_PORTS; i <= KILN_TERM_ISSUE; i++) busy = fmax(busy, term[i]);
    for (uint32_t i = KILN_TERM_L1; i <= KILN_TERM_L3; i++) {
        busy = fmax(busy, term[i]);
        lines += term[i];
    }
    return busy + term[KILN_TERM_SPILL] + term[KILN_TERM_OVERHEAD] + LINES_EXPOSED * lines;
}

kiln_cost_part kiln_cost_part_of(const kiln_estimate *estimate, uint32_t statement) {
    const kiln_facts_statement *s = &estimate->facts->statement[statement];
    if (statement == estimate->main) return KILN_COST_PART_MAIN;
    if (s->initial) return KILN_COST_PART_INITS;
    bool output = estimate->facts->p->buffer.data[s->access[0].buffer].role == KILN_ROLE_OUTPUT;
    return output ? KILN_COST_PART_WRITES : KILN_COST_PART_PRODUCERS;
}

static double work_of(const kiln_facts_statement *s) {
    double ops = 0;
    for (uint32_t i = 0; i < KILN_OPS_COUNT; i++)
        ops += s->ops[i] *
               (i == KILN_OPS_F32_MAC || i == KILN_OPS_I8_MAC || i == KILN_OPS_INT_MAC ? 2 : 1);
    return (ops + 0.01) * s->points; /* copies have work too */
}

/* Workers share the outermost parallel loop. */
static void share_work(kiln_estimate *e) {
    const kiln_facts *facts = e->facts;
    e->workers = e->imbalance = 1;
    const kiln_facts_statement *s = &facts->statement[e->main];
    double threads = e->target->threads;
    for (uint32_t k = 1; k < s->depth && threads > 1; k++) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        if (loop->kind != KILN_LOOP_PARALLEL) continue;
        e->workers = fmin(threads, (double)loop->extent);
        e->imbalance = ceil((double)loop->extent / e->workers) * e->workers / (double)loop->extent;
        double forks = 1;
        for (uint32_t outer = 1; outer < k; outer++)
            forks *= (double)facts->loop[s->path[outer]].extent;
        e->term[KILN_TERM_FORK] = forks * e->target->core.fork;
        return;
    }
}

/* Vector registers of register buffers: those of one nest can live at once. */
static double count_registers(const kiln_facts *facts, const kiln_estimate *e) {
    double most = 0;
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        const kiln_facts_access *a = &s->access[0];
        if (s->prepare || a->in_memory) continue;
        const uint64_t count =
            kiln_buffer_registers(facts->p->buffer.data[a->buffer].dtype,
                                  (uint64_t)kiln_shape_count(&facts->shape[a->buffer]),
                                  (uint64_t)fmax(e->tile[i].of.lanes, 1), e->target->vector_bytes);
        most = fmax(most, (double)count);
    }
    return most;
}

void kiln_estimate_make(const kiln_facts *facts, const kiln_target *target, kiln_arena *arena,
                        kiln_estimate *out) {
    *out = (kiln_estimate){.facts = facts, .target = target};
    uint32_t count = facts->statement_count;
    out->tile = KILN_ARENA_ARRAY(arena, kiln_tile_use, count);
    out->traffic = kiln_arena_alloc(arena, sizeof *out->traffic * count);
    out->cycles_of = KILN_ARENA_ARRAY(arena, double, count);
    const double cache[KILN_CACHE_LEVELS] = {
        target->l1_bytes, target->l2_bytes, target->l3_bytes ? target->l3_bytes : target->l2_bytes};
    double most = -1;
    for (uint32_t i = 0; i < count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        if (s->prepare) continue;
        count_tile(out, s, &out->tile[i]);
        out->traffic[i] = kiln_arena_alloc(arena, sizeof *out->traffic[i] * s->access_count);
        for (uint32_t k = 0; k < s->access_count; k++)
            for (uint32_t level = 0; level < KILN_CACHE_LEVELS && s->access[k].in_memory; level++)
                out->traffic[i][k][level] =
                    lines_fetched(facts, s, &s->access[k], cache[level], level < 2);
        if (work_of(s) > most) {
            most = work_of(s);
            out->main = i;
        }
    }
    if (most < 0) return; /* everything is constant */
    share_work(out);
    for (uint32_t i = 0; i < count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        if (s->prepare) continue;
        double term[KILN_TERM_COUNT] = {0};
        statement_terms(out, i, term);
        out->cycles_of[i] = cycles_of_terms(term);
        for (uint32_t k = 0; k < KILN_TERM_COUNT; k++) out->term[k] += term[k];
        out->part[kiln_cost_part_of(out, i)] += out->cycles_of[i];
        out->cycles += out->cycles_of[i];
        double width = KILN_MAX(target->vector_bytes / element_bytes_of(s), 1);
        for (uint32_t k = 0; k < KILN_OPS_COUNT; k++)
            out->peak_cycles += s->ops[k] * cycles_of_op(&target->core, s, k) * s->domain / width;
    }
    out->cycles = out->cycles * out->imbalance / out->workers + out->term[KILN_TERM_FORK];
    out->registers = count_registers(facts, out);
}
