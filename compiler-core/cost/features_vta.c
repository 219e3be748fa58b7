#include "compiler-core/cost/features_vta.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/cost/core_time.h"
#include "compiler-core/cost/grid.h"

/* A memory of the core. */
typedef struct memory {
    kiln_core_copies copies;
    double tiles;  /* used tiles, with all places */
    double places; /* the fewest that one of its buffers has */
} memory;

typedef struct counting {
    const kiln_facts *facts;
    const kiln_target *target;
    memory memory[KILN_SCOPE_COUNT];
    kiln_core_work work;
    double needed; /* products of tiles */
    double threads;
    bool *counted; /* [buffer count] places counted already */
} counting;

static kiln_scope scope_of(const counting *c, kiln_buffer buffer) {
    return (kiln_scope)c->facts->p->buffer.data[buffer].scope;
}

static bool is_in_core(const counting *c, kiln_buffer buffer) {
    return kiln_scopes[scope_of(c, buffer)].seen_by == KILN_SEEN_BY_CORE;
}

static const kiln_vta_memory memory_of[KILN_SCOPE_COUNT] = {[KILN_SCOPE_INP] = KILN_VTA_INP,
                                                            [KILN_SCOPE_WGT] = KILN_VTA_WGT,
                                                            [KILN_SCOPE_ACC] = KILN_VTA_ACC,
                                                            [KILN_SCOPE_OUT] = KILN_VTA_OUT};

/* Elements of a tile of a memory. */
static double tile_of(const counting *c, kiln_scope scope) {
    const kiln_vta_config *m = &c->target->vta;
    if (scope == KILN_SCOPE_INP) return (double)m->batch * m->block_in;
    if (scope == KILN_SCOPE_WGT) return (double)m->block_out * m->block_in;
    return (double)m->batch * m->block_out;
}

/* The level at which a buffer of the core is reused: loops from there on belong to one call. */
static uint32_t home_level(const counting *c, const kiln_facts_statement *s, kiln_buffer buffer) {
    const uint32_t home = c->facts->home[buffer];
    uint32_t level = 0;
    for (uint32_t k = 0; k < s->depth; k++)
        if (s->path[k] == home) level = k + 1;
    return level;
}

/* Number of executions of a statement's loops from `level` on, including those of separate virtual
 * threads. */
static double calls_of(const counting *c, const kiln_facts_statement *s, const kiln_facts_access *a,
                       uint32_t level) {
    double calls = 1;
    for (uint32_t k = 1; k < level; k++) {
        const kiln_facts_loop *l = &c->facts->loop[s->path[k]];
        if (l->kind != KILN_LOOP_VTHREAD || kiln_grid_moves(a, l->var)) calls *= (double)l->extent;
    }
    return calls;
}

/* Places of a buffer: one for each virtual thread with its own, times those that rotate in the
 * innermost loop with several iterations around it. `shared`: also places that virtual threads
 * sharing it use in turn, as far as there is room (lower/vthread.c). */
static double places_of(const counting *c, const kiln_facts_statement *s,
                        const kiln_facts_access *a, uint32_t level, bool shared) {
    double places = 1;
    bool is_found = false; /* the rotating loop */
    for (uint32_t k = level; k-- > 1;) {
        const kiln_facts_loop *l = &c->facts->loop[s->path[k]];
        if (l->kind == KILN_LOOP_VTHREAD)
            places *= shared || kiln_grid_moves(a, l->var) ? (double)l->extent : 1;
        if (l->kind == KILN_LOOP_VTHREAD || l->extent == 1 || is_found) continue;
        const kiln_attribute *stages =
            kiln_stmt_attribute(c->facts->p, l->stmt, KILN_ATTRIBUTE_PIPELINE);
        places *= stages ? stages->row : 1;
        is_found = true;
    }
    return places;
}

static void count_places(counting *c, const kiln_facts_statement *s) {
    const kiln_facts_access *a = &s->access[0];
    if (!is_in_core(c, a->buffer) || c->counted[a->buffer]) return;
    memory *m = &c->memory[scope_of(c, a->buffer)];
    const uint32_t level = home_level(c, s, a->buffer);
    const kiln_scope scope = scope_of(c, a->buffer);
    const double own = places_of(c, s, a, level, false), shared = places_of(c, s, a, level, true);
    const double tiles =
        own * (double)kiln_shape_count(&c->facts->shape[a->buffer]) / tile_of(c, scope);
    const double room = kiln_vta_tile_count(&c->target->vta, memory_of[scope]);
    const double places = fmin(shared, own * fmax(1, floor(room / tiles)));
    c->counted[a->buffer] = true;
    m->tiles += tiles;
    /* A buffer that is made once needs no second place. */
    double rounds = 1;
    for (uint32_t k = 1; k < level; k++)
        if (c->facts->loop[s->path[k]].kind != KILN_LOOP_VTHREAD)
            rounds *= (double)c->facts->loop[s->path[k]].extent;
    if (rounds > 1) m->places = m->places > 0 ? fmin(m->places, places) : places;
}

/* Elements along dimension `d` that the statement's loops from `level` on reach. */
static double reach_of(const counting *c, const kiln_facts_statement *s, const kiln_facts_access *a,
                       uint32_t level, uint32_t d) {
    double reach = 1;
    for (uint32_t k = level; k < s->depth; k++)
        for (uint32_t i = 0; i < a->index[d].term_count; i++)
            if (a->index[d].term[i].var == c->facts->loop[s->path[k]].var)
                reach += fabs((double)a->index[d].term[i].coefficient) *
                         ((double)a->index[d].term[i].extent - 1);
    return reach;
}

/* Adds a copy between the core and main memory; `outside` is the access to main memory, `inside`
 * that to the core. Whole dimensions of main memory are joined with those outside of them to one
 * row. */
static void add_copy(counting *c, const kiln_facts_statement *s, const kiln_facts_access *inside,
                     const kiln_facts_access *outside) {
    const kiln_buffer_info *b = &c->facts->p->buffer.data[outside->buffer];
    const uint32_t level = home_level(c, s, inside->buffer);
    const double calls = calls_of(c, s, inside, level);
    const kiln_shape lies = kiln_layout_physical(&b->layout, &b->shape);
    kiln_core_block block = KILN_CORE_BLOCK;
    for (uint32_t j = lies.rank; j-- > 0;) {
        const kiln_layout_piece *piece = b->layout.piece_count ? &b->layout.piece[j] : NULL;
        const double all = (double)lies.dim[j];
        double count = reach_of(c, s, outside, level, piece ? piece->dim : j);
        count = fmin(piece ? ceil(count / (double)piece->divisor) : count, all);
        const bool padded = outside->conditional && j + 1 < lies.rank;
        kiln_core_block_add(&block, count, padded ? INFINITY : all);
    }
    kiln_core_copies *to = &c->memory[scope_of(c, inside->buffer)].copies;
    to->blocks += calls;
    to->calls += calls * block.calls;
    to->rows += calls * block.rows;
    to->bytes += calls * block.elements * outside->element_bytes;
}

static void add_gemm(counting *c, const kiln_facts_statement *s) {
    const kiln_vta_config *m = &c->target->vta;
    const double tile = (double)m->batch * m->block_in * m->block_out;
    uint32_t level = 0;
    for (uint32_t i = 0; i < s->access_count; i++)
        level = KILN_MAX(level, home_level(c, s, s->access[i].buffer));
    double calls = 1;
    for (uint32_t k = 1; k < level; k++) calls *= (double)c->facts->loop[s->path[k]].extent;
    c->work.gemm_tiles += s->iterations / tile;
    c->work.gemm_calls += calls;
    c->needed += s->domain / tile;
    double extent[KILN_BLOCK_ITERS_MAX * 2];
    uint32_t count = 0;
    for (uint32_t k = level; k + 3 < s->depth && count < KILN_ARRAY_COUNT(extent); k++)
        extent[count++] = (double)c->facts->loop[s->path[k]].extent; /* without those of a tile */
    c->work.gemm_uops = fmax(c->work.gemm_uops, kiln_core_uops(extent, count));
}

/* Adds work on accumulators of a part: a reset, or operations that end in bytes. */
static void add_vectors(counting *c, const kiln_facts_statement *s) {
    const double tiles = s->iterations / tile_of(c, KILN_SCOPE_ACC);
    const double calls = calls_of(c, s, &s->access[0], home_level(c, s, s->access[0].buffer));
    if (s->initial) {
        c->work.reset_tiles += tiles;
        c->work.reset_calls += calls;
        return;
    }
    c->work.alu_tiles += tiles;
    c->work.alu_calls += calls;
    c->work.alu_operations =
        fmax(c->work.alu_operations, s->ops[KILN_OPS_INT_OPS] + s->ops[KILN_OPS_INT_MAC]);
}

static void add_statement(counting *c, const kiln_facts_statement *s) {
    const kiln_facts_access *a = &s->access[0], *other = NULL;
    bool reads_core = false;
    for (uint32_t i = 1; i < s->access_count; i++) {
        reads_core |= is_in_core(c, s->access[i].buffer);
        other = &s->access[i];
    }
    count_places(c, s);
    if (s->intrinsic)
        add_gemm(c, s);
    else if (is_in_core(c, a->buffer) && (reads_core || s->initial))
        add_vectors(c, s);
    else if (is_in_core(c, a->buffer) && other)
        add_copy(c, s, a, other);
    else if (reads_core && other)
        add_copy(c, s, other, a);
    double threads = 1;
    for (uint32_t k = 1; k < s->depth; k++)
        if (c->facts->loop[s->path[k]].kind == KILN_LOOP_VTHREAD)
            threads *= (double)c->facts->loop[s->path[k]].extent;
    c->threads = fmax(c->threads, threads);
}

static void count(counting *c) {
    c->counted = KILN_ARENA_ARRAY(c->facts->p->arena, bool, c->facts->p->buffer.count);
    for (uint32_t i = 0; i < c->facts->statement_count; i++)
        if (!c->facts->statement[i].prepare) add_statement(c, &c->facts->statement[i]);
    c->work.inp = c->memory[KILN_SCOPE_INP].copies;
    c->work.wgt = c->memory[KILN_SCOPE_WGT].copies;
    c->work.acc = c->memory[KILN_SCOPE_ACC].copies;
    c->work.out = c->memory[KILN_SCOPE_OUT].copies;
    const double inp = c->memory[KILN_SCOPE_INP].places, wgt = c->memory[KILN_SCOPE_WGT].places,
                 acc = c->memory[KILN_SCOPE_ACC].places;
    c->work.load_places = inp > 0 && wgt > 0 ? fmin(inp, wgt) : inp + wgt;
    if (c->work.load_places == 0) c->work.load_places = 2; /* all data is loaded once */
    c->work.threads = fmax(c->threads, 1);
    c->work.result_places = acc > 0 ? acc : 2 * c->work.threads;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_count(float *out, uint32_t feature, double value) {
    out[feature] = log2f(1 + (float)value);
}

static void put_ratio(float *out, kiln_vta_feature_number feature, double a, double b) {
    out[feature] = a > 0 && b > 0 ? log2f((float)(a / b)) : 0;
}

static double each(double all, double calls) { return calls > 0 ? all / calls : 0; }

/* Five numbers of a memory, from `first` on: bytes, rows, calls, places, fill. */
static void put_memory(const counting *c, kiln_scope scope, float *out, uint32_t first) {
    const memory *m = &c->memory[scope];
    put_count(out, first, m->copies.bytes);
    put_count(out, first + 1, m->copies.rows);
    put_count(out, first + 2, m->copies.calls);
    put_count(out, first + 3, m->places);
    put_ratio(out, (kiln_vta_feature_number)(first + 4), m->tiles,
              kiln_vta_tile_count(&c->target->vta, memory_of[scope]));
}

static void compute(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                    float *out) {
    counting c = {.facts = kiln_facts_create(scheduled, 1, scratch), .target = target};
    memset(out, 0, KILN_VTA_FEATURES * sizeof *out);
    count(&c);
    const kiln_core_time t = kiln_core_time_of(&target->vta, &c.work);
    out[KILN_VTA_FEATURE_NS] = log2f((float)(t.cycles * 1e3 / target->vta.clock_mhz));
    for (uint32_t i = 0; i < KILN_CORE_TERMS; i++)
        put_count(out, KILN_VTA_FEATURE_CYCLES_GEMM + i, t.term[i]);
    put_count(out, KILN_VTA_FEATURE_WORK, c.needed);
    put_ratio(out, KILN_VTA_FEATURE_UTILISATION, c.needed, t.cycles);
    put_memory(&c, KILN_SCOPE_INP, out, KILN_VTA_FEATURE_INP_BYTES);
    put_memory(&c, KILN_SCOPE_WGT, out, KILN_VTA_FEATURE_WGT_BYTES);
    put_memory(&c, KILN_SCOPE_ACC, out, KILN_VTA_FEATURE_ACC_BYTES);
    put_count(out, KILN_VTA_FEATURE_OUT_BYTES, c.work.out.bytes);
    put_count(out, KILN_VTA_FEATURE_OUT_ROWS, c.work.out.rows);
    put_count(out, KILN_VTA_FEATURE_OUT_CALLS, c.work.out.calls);
    put_count(out, KILN_VTA_FEATURE_GEMM_CALLS, c.work.gemm_calls);
    put_count(out, KILN_VTA_FEATURE_GEMM_TILES, each(c.work.gemm_tiles, c.work.gemm_calls));
    put_count(out, KILN_VTA_FEATURE_ALU_CALLS, c.work.alu_calls);
    put_count(out, KILN_VTA_FEATURE_ALU_TILES, each(c.work.alu_tiles, c.work.alu_calls));
    put_count(out, KILN_VTA_FEATURE_ALU_OPERATIONS, c.work.alu_operations);
    put_count(out, KILN_VTA_FEATURE_THREADS, c.threads);
}

static bool fits(const float *vector) {
    return vector[KILN_VTA_FEATURE_INP_FILL] <= 0 && vector[KILN_VTA_FEATURE_WGT_FILL] <= 0 &&
           vector[KILN_VTA_FEATURE_ACC_FILL] <= 0;
}

static void describe_memory(const counting *c, const char *name, kiln_scope scope,
                            kiln_strbuf *out) {
    const memory *m = &c->memory[scope];
    kiln_strbuf_printf(out,
                       "%s: %.0f of %u tiles, %.0f places; %.0f copies, %.0f rows, %.0f bytes\n",
                       name, m->tiles, kiln_vta_tile_count(&c->target->vta, memory_of[scope]),
                       m->places, m->copies.calls, m->copies.rows, m->copies.bytes);
}

static void describe(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                     kiln_strbuf *out) {
    counting c = {.facts = kiln_facts_create(scheduled, 1, scratch), .target = target};
    count(&c);
    const kiln_core_time t = kiln_core_time_of(&target->vta, &c.work);
    kiln_strbuf_printf(out, "%.0f cycles for %.0f products of tiles; bound by %s:", t.cycles,
                       c.needed, kiln_core_term_name(t.bound));
    for (uint32_t i = 0; i < KILN_CORE_TERMS; i++)
        kiln_strbuf_printf(out, "%s %s %.0f", i ? "," : "", kiln_core_term_name((kiln_core_term)i),
                           t.term[i]);
    kiln_strbuf_text(out, "\n");
    describe_memory(&c, "inp", KILN_SCOPE_INP, out);
    describe_memory(&c, "wgt", KILN_SCOPE_WGT, out);
    describe_memory(&c, "acc", KILN_SCOPE_ACC, out);
    kiln_strbuf_printf(out, "out: %.0f stores, %.0f rows, %.0f bytes\n", c.work.out.calls,
                       c.work.out.rows, c.work.out.bytes);
}

static const kiln_feature_info feature_table[] = {
#define X(name, text, unit, doc) [KILN_VTA_FEATURE_##name] = {text, unit, doc},
#include "compiler-core/cost/features_vta.def"
#undef X
};

const kiln_feature_set kiln_features_vta = {
    .count = KILN_VTA_FEATURES,
    .info = feature_table,
    .predicted_ns = KILN_VTA_FEATURE_NS,
    .first_term = KILN_VTA_FEATURE_CYCLES_GEMM,
    .term_count = KILN_CORE_TERMS,
    .compute = compute,
    .fits = fits,
    .describe = describe,
};
