#include "compiler-core/codegen/vta_chain.h"

#include <string.h>

#define BYTE_MIN (-128)
#define BYTE_MAX 127

/* ---- contents of accumulators
 * ------------------------------------------------------------------ */

typedef struct holding {
    kiln_vta_matching *m;
    uint8_t wanted, set;
    bool is_wrong, is_outside;
} holding;

static void look_at_tile(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    holding *h = context;
    if (tile >= h->m->calls->sizes.tile_count[memory])
        h->is_outside = true;
    else if (memory == KILN_VTA_ACC && !writes)
        h->is_wrong |= h->m->held[tile] && !(h->m->held[tile] & h->wanted);
}

static void set_tile(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    holding *h = context;
    if (memory == KILN_VTA_ACC && tile < h->m->calls->sizes.tile_count[KILN_VTA_ACC] && writes)
        h->m->held[tile] = h->set;
}

/* Adds a call that requires one of `wanted` in the accumulators that it reads, and leaves `held` in
 * those that it writes. */
static bool add_wanting(kiln_vta_matching *m, const kiln_vta_call *call, uint8_t wanted,
                        uint8_t held) {
    holding h = {.m = m, .wanted = wanted, .set = held};
    kiln_vta_call_visit(call, look_at_tile, &h);
    if (h.is_outside) return kiln_vta_refuse(m, "a tile is beyond the end of the memory");
    if (h.is_wrong) return kiln_vta_refuse(m, "an accumulator is read after outputs overwrote it");
    kiln_vta_call_visit(call, set_tile, &h);
    kiln_vta_add_call(m, *call);
    return true;
}

bool kiln_vta_add_reading(kiln_vta_matching *m, const kiln_vta_call *call, uint8_t held) {
    return add_wanting(m, call, KILN_VTA_HELD_ACC, held);
}

void kiln_vta_add_call(kiln_vta_matching *m, kiln_vta_call call) {
    kiln_vec_push_in(m->arena, &m->calls->call, call);
}

/* ---- ALU ------------------------------------------------------------------------------------- */

static bool find_chain(kiln_vta_matching *m, kiln_expr e, kiln_vta_chain *c);

bool kiln_vta_chain_add(kiln_vta_matching *m, kiln_vta_chain *c, kiln_vta_alu_op op, int64_t number,
                        kiln_expr source) {
    if (c->count == KILN_VTA_OPERATIONS_MAX)
        return kiln_vta_refuse(m, "more than %u operations in one store", KILN_VTA_OPERATIONS_MAX);
    if (op == KILN_VTA_ALU_MUL && !kiln_vta_config_has(&m->calls->config, KILN_VTA_MUL))
        return kiln_vta_refuse(m, "the machine does not multiply accumulators (feature mul)");
    if (!source && (number < INT16_MIN || number > INT16_MAX))
        return kiln_vta_refuse(m, "the number %lld has more than 16 bits", (long long)number);
    if (op == KILN_VTA_ALU_SHR && (source || number < -31 || number > 31))
        return kiln_vta_refuse(m, "a shift is not by a number up to 31");
    c->operation[c->count] =
        (kiln_vta_operation){.op = op, .use_imm = !source, .imm = (int32_t)number};
    c->source[c->count++] = source;
    return true;
}

/* The accumulator load in the value; 0: it is none. Loads of bytes are cast. */
static kiln_expr accumulator_of(const kiln_vta_matching *m, kiln_expr e) {
    if (kiln_vta_is_cast(m, e, KILN_I32, KILN_I8)) e = kiln_vta_operand(m, e, 0);
    return kiln_vta_is_load(m, e, KILN_SCOPE_ACC) ? e : 0;
}

/* A second operand: an accumulator, or a value computed by other operations. */
static bool find_source(kiln_vta_matching *m, kiln_expr e, kiln_vta_chain *c,
                        kiln_expr *out_source) {
    *out_source = accumulator_of(m, e);
    if (*out_source) return true;
    kiln_vta_chain *part = KILN_ARENA_NEW(m->arena, kiln_vta_chain);
    if (c->part_count == KILN_VTA_OPERATIONS_MAX)
        return kiln_vta_refuse(m, "more than %u operands have operations", KILN_VTA_OPERATIONS_MAX);
    if (!find_chain(m, e, part)) return false;
    c->part[c->part_count++] = part;
    *out_source = part->first;
    return true;
}

static bool find_chain(kiln_vta_matching *m, kiln_expr e, kiln_vta_chain *c) {
    static const struct {
        kiln_expr_op op;
        kiln_vta_alu_op alu;
        bool commutes, negates;
    } row[] = {
        {KILN_EXPR_ADD, KILN_VTA_ALU_ADD, true, false},
        {KILN_EXPR_SUB, KILN_VTA_ALU_ADD, false, true},
        {KILN_EXPR_MIN, KILN_VTA_ALU_MIN, true, false},
        {KILN_EXPR_MAX, KILN_VTA_ALU_MAX, true, false},
        {KILN_EXPR_MUL, KILN_VTA_ALU_MUL, true, false},
        {KILN_EXPR_SHR, KILN_VTA_ALU_SHR, false, false},
        {KILN_EXPR_SHL, KILN_VTA_ALU_SHR, false, true},
    };
    c->first = accumulator_of(m, e);
    if (c->first) return true;
    const kiln_expr_node node = *kiln_vta_node(m, e);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        if (node.op != row[i].op || node.dtype != KILN_I32) continue;
        kiln_expr a = kiln_vta_operand(m, e, 0), b = kiln_vta_operand(m, e, 1), source = 0;
        int64_t number = 0;
        if (row[i].commutes && (kiln_expr_as_int(m->p, a, &number) ||
                                (accumulator_of(m, a) && !kiln_expr_as_int(m->p, b, &number) &&
                                 !accumulator_of(m, b)))) {
            const kiln_expr other = a;
            a = b;
            b = other;
        }
        const bool is_number = kiln_expr_as_int(m->p, b, &number);
        if (!is_number && row[i].negates)
            return kiln_vta_refuse(m, "an operand that is subtracted is no number");
        return find_chain(m, a, c) && (is_number || find_source(m, b, c, &source)) &&
               kiln_vta_chain_add(m, c, row[i].alu, row[i].negates ? -number : number, source);
    }
    return kiln_vta_refuse(m, "the ALU has no operation for a part of the value");
}

/* Starts a chain: its first operation works on the accumulator that is written. */
static bool begin_chain(kiln_vta_matching *m, const kiln_vta_access *wanted, kiln_vta_chain *c) {
    kiln_vta_access first;
    if (!kiln_vta_find_load(m, c->first, &first)) return false;
    if (first.buffer == wanted->buffer && kiln_vta_is_same(m, &first.at, &wanted->at)) return true;
    if (c->count && c->source[0] && c->operation[0].op != KILN_VTA_ALU_SHR) {
        kiln_vta_access source;
        if (!kiln_vta_find_load(m, c->source[0], &source)) return false;
        if (source.buffer == wanted->buffer && kiln_vta_is_same(m, &source.at, &wanted->at)) {
            const kiln_expr other = c->first;
            c->first = c->source[0];
            c->source[0] = other;
            return true;
        }
    }
    return kiln_vta_refuse(m, "an accumulator is made of another one, not of itself");
}

/* Removes operations that a saturating store does: minima and maxima at the end, with byte limits,
 * at least one of each. Returns whether the store saturates. */
static bool take_off_saturation(const kiln_vta_matching *m, kiln_vta_chain *c) {
    uint32_t first = c->count, kept;
    bool has_min = false, has_max = false;
    if (!kiln_vta_config_has(&m->calls->config, KILN_VTA_CHAIN)) return false;
    for (; first > 0; first--) {
        const kiln_vta_operation *o = &c->operation[first - 1];
        if ((o->op != KILN_VTA_ALU_MIN && o->op != KILN_VTA_ALU_MAX) || !o->use_imm ||
            o->imm < BYTE_MIN || o->imm > BYTE_MAX)
            break;
        has_min |= o->op == KILN_VTA_ALU_MIN;
        has_max |= o->op == KILN_VTA_ALU_MAX;
    }
    if (!has_min || !has_max) return false;
    kept = first;
    for (uint32_t i = first; i < c->count; i++) {
        const kiln_vta_operation o = c->operation[i];
        if (o.imm == (o.op == KILN_VTA_ALU_MIN ? BYTE_MAX : BYTE_MIN)) continue;
        c->operation[kept] = o;
        c->source[kept++] = 0;
    }
    c->count = kept;
    return true;
}

static kiln_vta_engine alu_engine(const kiln_vta_matching *m) {
    return kiln_vta_config_has(&m->calls->config, KILN_VTA_ENGINE) ? KILN_VTA_ENGINE_ALU
                                                                   : KILN_VTA_ENGINE_COMPUTE;
}

static kiln_buffer buffer_of(const kiln_vta_matching *m, kiln_expr load) {
    return kiln_vta_node(m, load)->payload.id;
}

/* Whether values computed in separate places are not used in another part. */
static bool parts_are_apart(kiln_vta_matching *m, const kiln_vta_chain *c) {
    for (uint32_t i = 0; i < c->part_count; i++) {
        const kiln_expr own = c->part[i]->first;
        bool found = buffer_of(m, own) == buffer_of(m, c->first);
        for (uint32_t k = 0; k < c->count; k++)
            found |= c->source[k] && c->source[k] != own &&
                     buffer_of(m, c->source[k]) == buffer_of(m, own);
        for (uint32_t k = 0; k < i; k++) found |= c->part[k]->first == own;
        if (found) return kiln_vta_refuse(m, "an accumulator is in two parts of a value");
    }
    return true;
}

/* Adds the calls of operands with their own operations, each in the place of its accumulators. */
static bool add_parts(kiln_vta_matching *m, kiln_stmt store, const kiln_vta_chain *c) {
    for (uint32_t i = 0; i < c->part_count; i++) {
        kiln_vta_access to;
        if (!kiln_vta_find_load(m, c->part[i]->first, &to) ||
            !kiln_vta_add_chain(m, store, c->part[i], &to, KILN_VTA_HELD_PART))
            return false;
    }
    return true;
}

/* The end of the operations from `first` on that have one source in all. */
static uint32_t end_of_pass(const kiln_vta_chain *c, uint32_t first, kiln_expr *out_source) {
    uint32_t end = first;
    *out_source = 0;
    for (; end < c->count; end++) {
        if (c->source[end] && *out_source && c->source[end] != *out_source) break;
        if (c->source[end]) *out_source = c->source[end];
    }
    return end;
}

/* The call of a pass at the tiles `at` of the place of `to`. */
static bool make_pass(kiln_vta_matching *m, const kiln_vta_chain *c, uint32_t first, uint32_t end,
                      kiln_expr load, const kiln_vta_access *to, uint8_t held, kiln_vta_call *out) {
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_ACC);
    kiln_vta_access result = *to, source = *to;
    uint32_t tile_loops;
    if (load && !kiln_vta_find_load(m, load, &source)) return false;
    if (!kiln_vta_make_pair(m, elements, &result.at, &source.at, &tile_loops)) return false;
    for (uint32_t i = 0; i < m->loop_count; i++) /* a part must be computed once */
        if (held == KILN_VTA_HELD_PART && result.at.factor[i] == 0 && source.at.factor[i] == 0)
            tile_loops |= 1u << i;
    kiln_vta_operation *operation = KILN_ARENA_ARRAY(m->arena, kiln_vta_operation, end - first);
    memcpy(operation, c->operation + first, (end - first) * sizeof *operation);
    out->operation_count = end - first;
    out->operation = operation;
    if (!kiln_vta_nest_of(m, tile_loops, (kiln_vta_operand_tiles){&result.at, m->place[to->buffer]},
                          (kiln_vta_operand_tiles){&source.at, m->place[source.buffer]},
                          (kiln_vta_operand_tiles){NULL, 0}, &out->nest))
        return false;
    return held == KILN_VTA_HELD_ACC || kiln_vta_nest_is_injective(&out->nest) ||
           kiln_vta_refuse(m, "several values are made of one accumulator, in its place");
}

static void spend_parts(kiln_vta_matching *m) {
    for (uint32_t i = 0; i < m->calls->sizes.tile_count[KILN_VTA_ACC]; i++)
        if (m->held[i] == KILN_VTA_HELD_PART) m->held[i] = KILN_VTA_HELD_SPENT;
}

/* The chain in passes with one source each, at the accumulators `to`, in elements. */
bool kiln_vta_add_chain(kiln_vta_matching *m, kiln_stmt store, const kiln_vta_chain *c,
                        const kiln_vta_access *to, uint8_t held) {
    const uint32_t before = m->calls->call.count;
    kiln_vta_call call[KILN_VTA_OPERATIONS_MAX];
    uint32_t count = 0;
    bool is_good = parts_are_apart(m, c);
    for (uint32_t first = 0, end; is_good && first < c->count; first = end) {
        kiln_expr load;
        end = end_of_pass(c, first, &load);
        call[count] =
            (kiln_vta_call){.kind = KILN_VTA_CALL_ALU, .engine = alu_engine(m), .stmt = store};
        is_good = make_pass(m, c, first, end, load, to, held, &call[count++]);
    }
    for (uint32_t i = 0; i < count && count > 1 && is_good; i++)
        if (kiln_vta_call_reads_results(&call[i], &m->calls->sizes, m->arena))
            is_good = kiln_vta_refuse(m, "a result is a source of the same store");
    is_good = is_good && add_parts(m, store, c);
    for (uint32_t i = 0; i < count && is_good; i++)
        is_good = add_wanting(m, &call[i], KILN_VTA_HELD_ACC | KILN_VTA_HELD_PART,
                              i + 1 == count ? held : KILN_VTA_HELD_ACC);
    if (!is_good) m->calls->call.count = before;
    if (held != KILN_VTA_HELD_PART) spend_parts(m);
    return is_good;
}

/* acc = operations on itself. */
bool kiln_vta_match_alu(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    kiln_vta_chain c = {.count = 0};
    kiln_vta_access to;
    if (!kiln_vta_find_store(m, store, &to) || !find_chain(m, value, &c) ||
        !begin_chain(m, &to, &c))
        return false;
    if (c.count == 0) return kiln_vta_refuse(m, "an accumulator is copied onto itself");
    return kiln_vta_add_chain(m, store, &c, &to, KILN_VTA_HELD_ACC);
}

/* ---- outputs --------------------------------------------------------------------------------- */

bool kiln_vta_find_output(kiln_vta_matching *m, kiln_expr value, kiln_vta_output *out) {
    *out = (kiln_vta_output){.saturates = false};
    if (!kiln_vta_is_cast(m, value, KILN_I8, KILN_I32))
        return kiln_vta_refuse(m, "outputs are not sums converted to bytes");
    if (!find_chain(m, kiln_vta_operand(m, value, 0), &out->chain) ||
        !kiln_vta_find_load(m, out->chain.first, &out->from))
        return false;
    out->saturates = take_off_saturation(m, &out->chain);
    return true;
}

/* Adds the operations; without any the tiles hold accumulators and outputs. */
bool kiln_vta_add_output(kiln_vta_matching *m, kiln_stmt store, const kiln_vta_output *o) {
    const uint8_t held = (uint8_t)(KILN_VTA_HELD_OUT | (o->saturates ? KILN_VTA_HELD_SATURATE : 0));
    if (o->chain.count) return kiln_vta_add_chain(m, store, &o->chain, &o->from, held);
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_ACC);
    kiln_vta_call tiles = {.kind = KILN_VTA_CALL_ALU};
    uint32_t tile_loops;
    kiln_vta_linear at = o->from.at;
    if (!kiln_vta_find_tile_loops(m, &at, elements, &tile_loops) ||
        !kiln_vta_make_tiles(m, tile_loops, elements, &at) ||
        !kiln_vta_nest_of(m, tile_loops, (kiln_vta_operand_tiles){&at, m->place[o->from.buffer]},
                          (kiln_vta_operand_tiles){NULL, 0}, (kiln_vta_operand_tiles){NULL, 0},
                          &tiles.nest))
        return false;
    holding h = {.m = m, .set = (uint8_t)(held | KILN_VTA_HELD_ACC)};
    kiln_vta_call_visit(&tiles, set_tile, &h);
    return true;
}

/* Visits the tiles of two accesses, for each round of the loops from `loop` on. */
typedef bool (*pair_visitor)(kiln_vta_matching *m, int64_t a, int64_t b, void *context);
static bool visit_pairs(kiln_vta_matching *m, const kiln_vta_linear *a, const kiln_vta_linear *b,
                        uint32_t loop, int64_t at_a, int64_t at_b, pair_visitor visit,
                        void *context) {
    if (loop == m->loop_count) return visit(m, at_a, at_b, context);
    const int64_t rounds = a->factor[loop] || b->factor[loop] ? kiln_vta_loop_extent(m, loop) : 1;
    bool is_good = true;
    for (int64_t i = 0; i < rounds && is_good; i++)
        is_good = visit_pairs(m, a, b, loop + 1, at_a + i * a->factor[loop],
                              at_b + i * b->factor[loop], visit, context);
    return is_good;
}

typedef struct output_tiles {
    uint32_t *accumulator; /* [count] */
    uint64_t count;
} output_tiles;

static bool keep_tile(kiln_vta_matching *m, int64_t out, int64_t accumulator, void *context) {
    const output_tiles *tiles = context;
    if (out < 0 || (uint64_t)out >= tiles->count)
        return kiln_vta_refuse(m, "an output lies outside of its buffer");
    tiles->accumulator[out] = (uint32_t)accumulator;
    return true;
}

static bool is_kept_tile(kiln_vta_matching *m, int64_t out, int64_t accumulator, void *context) {
    const output_tiles *tiles = context;
    return (out >= 0 && (uint64_t)out < tiles->count && tiles->accumulator[out] == accumulator) ||
           kiln_vta_refuse(m, "outputs are not in the order of the loops");
}

static output_tiles tiles_of_output(const kiln_vta_matching *m, kiln_buffer buffer) {
    return (output_tiles){m->output[buffer], m->output[buffer] ? kiln_vta_tiles_of(m, buffer) : 0};
}

/* out = operations on acc, in the place of acc. */
bool kiln_vta_match_output(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_OUT);
    kiln_vta_access to;
    kiln_vta_output o;
    uint32_t tile_loops;
    if (!kiln_vta_find_store(m, store, &to) || !kiln_vta_find_output(m, value, &o)) return false;
    kiln_vta_linear from = o.from.at;
    output_tiles tiles = tiles_of_output(m, to.buffer);
    if (!kiln_vta_make_pair(m, elements, &to.at, &from, &tile_loops)) return false;
    from.constant += m->place[o.from.buffer];
    return kiln_vta_add_output(m, store, &o) &&
           visit_pairs(m, &to.at, &from, 0, to.at.constant, from.constant, keep_tile, &tiles);
}

/* The accumulators that the outputs of a load are in, by the same loops; in elements. */
bool kiln_vta_find_accumulators(kiln_vta_matching *m, const kiln_vta_access *from,
                                kiln_vta_linear *out) {
    const int64_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_OUT);
    output_tiles tiles = tiles_of_output(m, from->buffer);
    kiln_vta_linear at = from->at, accumulators = {0};
    uint32_t tile_loops;
    if (!kiln_vta_find_tile_loops(m, &at, (uint32_t)elements, &tile_loops) ||
        !kiln_vta_make_tiles(m, tile_loops, (uint32_t)elements, &at))
        return false;
    if (at.constant < 0 || (uint64_t)at.constant >= tiles.count ||
        tiles.accumulator[at.constant] == KILN_VTA_NO_PLACE)
        return kiln_vta_refuse(m, "a value is stored before it is computed");
    accumulators.constant = tiles.accumulator[at.constant];
    for (uint32_t i = 0; i < m->loop_count; i++) {
        const int64_t next = at.constant + at.factor[i];
        if (at.factor[i] == 0) continue;
        if (next < 0 || (uint64_t)next >= tiles.count)
            return kiln_vta_refuse(m, "an output lies outside of its buffer");
        accumulators.factor[i] = tiles.accumulator[next] - accumulators.constant;
    }
    if (!visit_pairs(m, &at, &accumulators, 0, at.constant, accumulators.constant, is_kept_tile,
                     &tiles))
        return false;
    *out = from->at; /* elements of a tile */
    out->constant = accumulators.constant * elements;
    for (uint32_t i = 0; i < m->loop_count; i++)
        if (!(tile_loops >> i & 1)) out->factor[i] = accumulators.factor[i] * elements;
    return true;
}
