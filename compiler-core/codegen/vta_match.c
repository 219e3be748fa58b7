#include "compiler-core/codegen/vta_match.h"

#include "compiler-core/codegen/vta_chain.h"
#include "compiler-core/codegen/vta_inside.h"

#define LOOPS_MAX KILN_VTA_CHAIN_LOOPS_MAX

static kiln_vta_memory memory_of(const kiln_vta_matching *m, kiln_buffer buffer) {
    return kiln_vta_memory_of(m->p->buffer.data[buffer].scope);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Both in tiles, `core` from the beginning of the memory. */
static bool make_copy(kiln_vta_matching *m, const kiln_vta_linear *core,
                      const kiln_vta_linear *global, const kiln_vta_inside *at,
                      kiln_vta_copy *out) {
    uint32_t order[LOOPS_MAX], count = 0;
    int64_t dram = global->constant, dense = 1;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (kiln_vta_loop_extent(m, i) == 1 || at->tile_loops >> i & 1) continue;
        if (count == KILN_VTA_COPY_DIMS_MAX) return kiln_vta_refuse(m, "a copy has too many loops");
        uint32_t place = count++;
        for (; place > 0 && core->factor[order[place - 1]] < core->factor[i]; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
    out->dim_count = count;
    for (uint32_t d = count; d-- > 0;) {
        const uint32_t i = order[d];
        const int64_t stride = global->factor[i], low = at->is_empty ? 0 : at->low[i],
                      rounds = at->is_empty ? kiln_vta_loop_extent(m, i) : at->high[i] - low + 1;
        if (core->factor[i] != dense)
            return kiln_vta_refuse(m, "tiles do not follow each other in the core");
        if (stride < 0 || stride > UINT32_MAX)
            return kiln_vta_refuse(m, "a loop runs backwards over tiles of main memory");
        dense *= kiln_vta_loop_extent(m, i);
        dram += low * stride;
        out->dim[d] =
            (kiln_vta_copy_dim){.extent = (uint32_t)rounds,
                                .stride = (uint32_t)stride,
                                .before = (uint32_t)low,
                                .behind = (uint32_t)(kiln_vta_loop_extent(m, i) - low - rounds)};
    }
    if (core->constant < 0 || (!at->is_empty && (dram < 0 || dram > UINT32_MAX)))
        return kiln_vta_refuse(m, "a tile lies before its buffer");
    out->sram_base = (uint32_t)core->constant;
    out->dram_base = at->is_empty ? 0 : (uint32_t)dram;
    if (at->is_empty) {
        out->dim_count = 1;
        out->dim[0] = (kiln_vta_copy_dim){.before = (uint32_t)dense};
    }
    return true;
}

/* The known steps of tiles that a load fills; NULL: all are loaded. */
typedef struct known_steps {
    uint16_t *of; /* of the matching; NULL: not tracked */
    const kiln_vta_part *part;
    bool unknown; /* the elements behind the part are undefined */
} known_steps;

/* Elements of the tile along the part's loop that are inside, by the rounds of all loops. */
static uint16_t inside_of(const kiln_vta_matching *m, const kiln_vta_part *part,
                          const int64_t *round) {
    int64_t count = part->more.constant + 1;
    for (uint32_t i = 0; i < m->loop_count; i++) count += part->more.factor[i] * round[i];
    return (uint16_t)KILN_MAX(0, KILN_MIN(count, kiln_vta_loop_extent(m, part->loop)));
}

/* For each tile at `core`. */
static void note_steps(kiln_vta_matching *m, const known_steps *steps, const kiln_vta_linear *core,
                       uint32_t tile_loops) {
    int64_t round[LOOPS_MAX] = {0};
    m->has_unknown |= steps->unknown;
    for (bool more = true; more;) {
        int64_t tile = core->constant;
        for (uint32_t k = 0; k < m->loop_count; k++) tile += core->factor[k] * round[k];
        steps->of[tile] =
            steps->part ? inside_of(m, steps->part, round) : (uint16_t)m->calls->config.block_in;
        more = false;
        for (uint32_t k = 0; k < m->loop_count && !more; k++) {
            more = !(tile_loops >> k & 1) && ++round[k] < kiln_vta_loop_extent(m, k);
            if (!more) round[k] = 0;
        }
    }
}

/* Elements behind parts of tiles are zeros if a constant pads them, else undefined, and then they
 * may only be multiplied by zeros. */
static bool find_steps(kiln_vta_matching *m, kiln_vta_memory memory,
                       const kiln_vta_linear *elements, kiln_expr load, const kiln_vta_inside *at,
                       known_steps *out) {
    const kiln_buffer from = kiln_vta_node(m, load)->payload.id;
    const bool zeros = m->p->buffer.data[from].role == KILN_ROLE_CONSTANT;
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < kiln_vta_node(m, load)->operand_count; d++)
        index[d] = kiln_vta_operand(m, load, d);
    *out = (known_steps){.of = memory == KILN_VTA_INP   ? m->known
                               : memory == KILN_VTA_WGT ? m->used
                                                        : NULL};
    for (uint32_t i = 0; i < at->part_count; i++) {
        const bool is_steps = elements->factor[at->part[i].loop] == 1;
        if (!zeros && (memory != KILN_VTA_INP || !is_steps))
            return kiln_vta_refuse(m, "the padding of a partial tile is not known");
        out->unknown |= !zeros;
        if (is_steps && (memory == KILN_VTA_WGT || !zeros)) out->part = &at->part[i];
    }
    return kiln_vta_parts_are_all(m, at, from, index);
}

static bool match_load(kiln_vta_matching *m, kiln_stmt store, kiln_expr value, kiln_expr condition,
                       bool widens) {
    const kiln_vta_memory memory = memory_of(m, m->p->stmt.data[store].buffer);
    kiln_vta_call call = {.kind = KILN_VTA_CALL_COPY,
                          .engine = memory == KILN_VTA_ACC ? KILN_VTA_ENGINE_COMPUTE
                                                           : KILN_VTA_ENGINE_LOAD,
                          .stmt = store,
                          .copy.memory = widens ? KILN_VTA_ACC_BYTES : memory};
    kiln_vta_access to, from;
    uint32_t tile_loops;
    if (widens && !kiln_vta_config_has(&m->calls->config, KILN_VTA_BYTES))
        return kiln_vta_refuse(
            m, "the machine has no loads of bytes into accumulators (feature bytes)");
    if (!kiln_vta_find_store(m, store, &to) || !kiln_vta_find_load(m, value, &from)) return false;
    if (m->p->buffer.data[from.buffer].dtype !=
        (memory == KILN_VTA_ACC && !widens ? KILN_I32 : KILN_I8))
        return kiln_vta_refuse(m, "the machine does not load elements of this type");
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, memory);
    const kiln_vta_linear in_elements = to.at;
    if (!kiln_vta_make_pair(m, elements, &to.at, &from.at, &tile_loops)) return false;
    kiln_vta_inside at = kiln_vta_everywhere(m, tile_loops);
    if (condition && !kiln_vta_narrow(m, condition, &at)) return false;
    to.at.constant += m->place[to.buffer];
    call.copy.buffer = m->number[from.buffer];
    known_steps steps;
    if (!find_steps(m, memory, &in_elements, value, &at, &steps) ||
        !make_copy(m, &to.at, &from.at, &at, &call.copy) ||
        !kiln_vta_add_reading(m, &call, KILN_VTA_HELD_ACC))
        return false;
    if (steps.of) note_steps(m, &steps, &to.at, tile_loops);
    return true;
}

/* The bytes of the store's loops in the core's order, from its first element on; NULL: they are not
 * contiguous. */
static char *make_bytes(kiln_vta_matching *m, kiln_expr value, const kiln_vta_linear *at,
                        int64_t count) {
    char *bytes = kiln_arena_alloc(m->arena, (size_t)count);
    bool *made = KILN_ARENA_ARRAY(m->arena, bool, count);
    for (int64_t point = 0; point < count; point++) {
        int64_t rest = point, offset = 0;
        for (uint32_t i = m->loop_count; i-- > 0;) {
            const int64_t step = rest % kiln_vta_loop_extent(m, i);
            rest /= kiln_vta_loop_extent(m, i);
            offset += at->factor[i] * step;
            const kiln_stmt_info *loop = &m->p->stmt.data[m->loop[i]];
            m->interp.var[loop->var] = loop->first + step;
        }
        if (offset < 0 || offset >= count || made[offset]) return NULL;
        made[offset] = true;
        kiln_interp_moved(&m->interp);
        bytes[offset] = (char)kiln_interp_eval(&m->interp, value).i;
    }
    return bytes;
}

/* inp, wgt = a value without loads: it becomes a constant of the program. */
static bool match_made(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    const kiln_vta_memory memory = memory_of(m, m->p->stmt.data[store].buffer);
    const int64_t elements = kiln_vta_tile_elements(&m->calls->config, memory);
    kiln_vta_access to;
    int64_t count = 1;
    if ((kiln_vta_node(m, value)->uses & KILN_USES_LOAD) ||
        m->p->buffer.data[m->p->stmt.data[store].buffer].dtype != KILN_I8)
        return kiln_vta_refuse(m, "data and weights are loaded from main memory, or read nothing");
    if (!kiln_vta_find_store(m, store, &to)) return false;
    for (uint32_t i = 0; i < m->loop_count; i++) count *= kiln_vta_loop_extent(m, i);
    const int64_t place = m->place[to.buffer] + to.at.constant / elements;
    const char *bytes = count % elements == 0 && to.at.constant % elements == 0
                            ? make_bytes(m, value, &to.at, count)
                            : NULL;
    if (!bytes || m->guard_count || place + count / elements > m->calls->sizes.tile_count[memory])
        return kiln_vta_refuse(m, "a buffer filled in the core is no block of whole tiles");
    kiln_vec_push_in(m->arena, &m->calls->made, ((kiln_str){bytes, (size_t)count}));
    const kiln_vta_call call = {
        .kind = KILN_VTA_CALL_COPY,
        .engine = KILN_VTA_ENGINE_LOAD,
        .stmt = store,
        .copy = {.memory = memory,
                 .buffer = m->calls->buffer.count + m->calls->made.count,
                 .sram_base = (uint32_t)place,
                 .dim_count = 1,
                 .dim = {{.extent = (uint32_t)(count / elements), .stride = 1}}}};
    kiln_vta_add_call(m, call);
    for (uint32_t i = 0; i < call.copy.dim[0].extent; i++)
        (memory == KILN_VTA_INP ? m->known : m->used)[call.copy.sram_base + i] =
            (uint16_t)m->calls->config.block_in;
    return true;
}

/* The contents of the accumulators of a store, which must be the same for all. */
static bool find_held(kiln_vta_matching *m, const kiln_vta_copy *copy, uint8_t *out_held) {
    uint64_t tiles = 1;
    for (uint32_t d = 0; d < copy->dim_count; d++) tiles *= copy->dim[d].extent;
    if (copy->sram_base + tiles > m->calls->sizes.tile_count[KILN_VTA_OUT])
        return kiln_vta_refuse(m, "a tile is beyond the end of the memory");
    *out_held = m->held[copy->sram_base];
    for (uint64_t i = 0; i < tiles; i++)
        if (m->held[copy->sram_base + i] != *out_held)
            return kiln_vta_refuse(m, "outputs of several kinds are stored at once");
    return (*out_held & KILN_VTA_HELD_OUT) ||
           kiln_vta_refuse(m, "a value is stored before it is computed");
}

/* The call that stores tiles of a place in the core. */
static bool find_copy_out(kiln_vta_matching *m, kiln_stmt store, kiln_vta_access to,
                          kiln_vta_access from, uint32_t place, kiln_vta_call *out) {
    *out = (kiln_vta_call){.kind = KILN_VTA_CALL_COPY,
                           .engine = KILN_VTA_ENGINE_STORE,
                           .stmt = store,
                           .copy.memory = KILN_VTA_OUT,
                           .copy.buffer = m->number[to.buffer]};
    uint32_t tile_loops;
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_OUT);
    if (!kiln_vta_make_pair(m, elements, &to.at, &from.at, &tile_loops)) return false;
    const kiln_vta_inside all = kiln_vta_everywhere(m, tile_loops);
    from.at.constant += place;
    return make_copy(m, &from.at, &to.at, &all, &out->copy);
}

/* ---- GEMM ------------------------------------------------------------------------------------ */

/* The loop that moves by these factors and has that extent; an extent of 1 has none. */
static bool find_role(kiln_vta_matching *m, const kiln_vta_linear of[3], int64_t dst, int64_t src,
                      int64_t wgt, uint32_t extent, const char *what, uint32_t *loops) {
    if (extent == 1) return true;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (of[0].factor[i] != dst || of[1].factor[i] != src || of[2].factor[i] != wgt ||
            kiln_vta_loop_extent(m, i) != extent)
            continue;
        *loops |= 1u << i;
        return true;
    }
    return kiln_vta_refuse_tile(m, extent, what);
}

/* Whether undefined steps of data are multiplied only by zeros. */
static bool has_known_steps(kiln_vta_matching *m, const kiln_vta_nest *nest) {
    uint32_t round[KILN_VTA_NEST_LOOPS_MAX] = {0};
    for (bool more = m->has_unknown; more;) {
        uint32_t src = nest->base.src, wgt = nest->base.wgt;
        for (uint32_t k = 0; k < nest->loop_count; k++) {
            src += round[k] * nest->loop[k].step.src;
            wgt += round[k] * nest->loop[k].step.wgt;
        }
        if (src >= m->calls->sizes.tile_count[KILN_VTA_INP] ||
            wgt >= m->calls->sizes.tile_count[KILN_VTA_WGT])
            return kiln_vta_refuse(m, "a tile is beyond the end of the memory");
        if (m->used[wgt] > m->known[src])
            return kiln_vta_refuse(m, "a product is of data that is not loaded");
        more = false;
        for (uint32_t k = 0; k < nest->loop_count && !more; k++) {
            more = ++round[k] < nest->loop[k].extent;
            if (!more) round[k] = 0;
        }
    }
    return true;
}

static bool match_gemm(kiln_vta_matching *m, kiln_stmt store, kiln_expr sum, kiln_expr product) {
    const kiln_vta_config *c = &m->calls->config;
    kiln_vta_call call = {.kind = KILN_VTA_CALL_GEMM,
                          .engine = KILN_VTA_ENGINE_COMPUTE,
                          .stmt = store,
                          .gemm = KILN_VTA_GEMM_ADD};
    kiln_expr factor[2];
    kiln_vta_access to, of_sum, data, weights;
    uint32_t loops = 0;
    if (m->guard_count) return kiln_vta_refuse(m, "a product has a condition");
    for (uint32_t i = 0; i < 2; i++) {
        factor[i] = kiln_vta_operand(m, product, i);
        if (!kiln_vta_is_cast(m, factor[i], KILN_I32, KILN_I8))
            return kiln_vta_refuse(m, "the factors of a product are no bytes");
        factor[i] = kiln_vta_operand(m, factor[i], 0);
    }
    const bool is_swapped = kiln_vta_is_load(m, factor[0], KILN_SCOPE_WGT);
    if (!kiln_vta_is_load(m, factor[is_swapped], KILN_SCOPE_INP) ||
        !kiln_vta_is_load(m, factor[!is_swapped], KILN_SCOPE_WGT))
        return kiln_vta_refuse(m, "the factors of a product are not of inp and wgt");
    if (!kiln_vta_find_store(m, store, &to) || !kiln_vta_find_load(m, sum, &of_sum) ||
        !kiln_vta_find_load(m, factor[is_swapped], &data) ||
        !kiln_vta_find_load(m, factor[!is_swapped], &weights))
        return false;
    if (of_sum.buffer != to.buffer || !kiln_vta_is_same(m, &to.at, &of_sum.at))
        return kiln_vta_refuse(m, "a sum is not added to itself");
    const kiln_vta_linear of[3] = {to.at, data.at, weights.at};
    if (!find_role(m, of, 0, 1, 1, c->block_in, "steps of a product", &loops) ||
        !find_role(m, of, 1, 0, c->block_in, c->block_out, "lanes of a product", &loops) ||
        !find_role(m, of, c->block_out, c->block_in, 0, c->batch, "rows of a product", &loops) ||
        !kiln_vta_make_tiles(m, loops, kiln_vta_tile_elements(c, KILN_VTA_ACC), &to.at) ||
        !kiln_vta_make_tiles(m, loops, kiln_vta_tile_elements(c, KILN_VTA_INP), &data.at) ||
        !kiln_vta_make_tiles(m, loops, kiln_vta_tile_elements(c, KILN_VTA_WGT), &weights.at))
        return false;
    return kiln_vta_nest_of(m, loops, (kiln_vta_operand_tiles){&to.at, m->place[to.buffer]},
                            (kiln_vta_operand_tiles){&data.at, m->place[data.buffer]},
                            (kiln_vta_operand_tiles){&weights.at, m->place[weights.buffer]},
                            &call.nest) &&
           has_known_steps(m, &call.nest) && kiln_vta_add_reading(m, &call, KILN_VTA_HELD_ACC);
}

/* ---- to main memory -------------------------------------------------------------------------- */

static bool match_global(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    kiln_vta_access to, from;
    kiln_vta_output o;
    kiln_vta_call call;
    uint8_t held = 0;
    if (!kiln_vta_find_store(m, store, &to)) return false;
    if (m->p->buffer.data[to.buffer].dtype != KILN_I8)
        return kiln_vta_refuse(m, "the machine stores nothing but bytes");
    if (kiln_vta_is_load(m, value, KILN_SCOPE_OUT)) {
        if (!kiln_vta_find_load(m, value, &from) ||
            !kiln_vta_find_accumulators(m, &from, &from.at) ||
            !find_copy_out(m, store, to, from, 0, &call) || !find_held(m, &call.copy, &held))
            return false;
        call.copy.saturate = held & KILN_VTA_HELD_SATURATE;
    } else {
        if (!kiln_vta_find_output(m, value, &o) ||
            !find_copy_out(m, store, to, o.from, m->place[o.from.buffer], &call) ||
            !kiln_vta_add_output(m, store, &o))
            return false;
        call.copy.saturate = o.saturates;
    }
    kiln_vta_add_call(m, call);
    return true;
}
/* ---- all ------------------------------------------------------------------------------------- */

/* acc = number. */
static bool match_number(kiln_vta_matching *m, kiln_stmt store, int64_t number) {
    kiln_vta_chain c = {.count = 0};
    kiln_vta_call call = {.kind = KILN_VTA_CALL_GEMM,
                          .engine = KILN_VTA_ENGINE_COMPUTE,
                          .stmt = store,
                          .gemm = KILN_VTA_GEMM_RESET};
    kiln_vta_access to;
    uint32_t tile_loops;
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_ACC);
    if (number && !kiln_vta_chain_add(m, &c, KILN_VTA_ALU_ADD, number, 0)) return false;
    if (!kiln_vta_find_store(m, store, &to)) return false;
    kiln_vta_linear at = to.at;
    return kiln_vta_find_tile_loops(m, &at, elements, &tile_loops) &&
           kiln_vta_make_tiles(m, tile_loops, elements, &at) &&
           kiln_vta_nest_of(m, tile_loops, (kiln_vta_operand_tiles){&at, m->place[to.buffer]},
                            (kiln_vta_operand_tiles){NULL, 0}, (kiln_vta_operand_tiles){NULL, 0},
                            &call.nest) &&
           kiln_vta_add_reading(m, &call, KILN_VTA_HELD_ACC) &&
           (!number || kiln_vta_add_chain(m, store, &c, &to, KILN_VTA_HELD_ACC));
}

static bool match_acc(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    const kiln_expr_node node = *kiln_vta_node(m, value);
    int64_t number;
    if (kiln_expr_as_int(m->p, value, &number)) return match_number(m, store, number);
    for (uint32_t i = 0; node.op == KILN_EXPR_ADD && i < 2; i++)
        if (kiln_vta_node(m, kiln_vta_operand(m, value, i))->op == KILN_EXPR_MUL &&
            kiln_vta_is_cast(m, kiln_vta_operand(m, kiln_vta_operand(m, value, i), 0), KILN_I32,
                             KILN_I8) &&
            kiln_vta_is_load(m, kiln_vta_operand(m, value, 1 - i), KILN_SCOPE_ACC))
            return match_gemm(m, store, kiln_vta_operand(m, value, 1 - i),
                              kiln_vta_operand(m, value, i));
    return kiln_vta_match_alu(m, store, value);
}

bool kiln_vta_match(kiln_vta_matching *m, kiln_stmt store) {
    const kiln_stmt_info *s = &m->p->stmt.data[store];
    const kiln_vta_memory memory = memory_of(m, s->buffer);
    kiln_expr loaded = s->value, condition = 0;
    m->store = store;
    const bool is_cast_there =
                   memory == KILN_VTA_ACC && kiln_vta_is_cast(m, loaded, KILN_I32, KILN_I8),
               widens = is_cast_there ||
                        (memory == KILN_VTA_ACC && m->p->buffer.data[s->buffer].dtype == KILN_I8);
    if (is_cast_there) loaded = kiln_vta_operand(m, loaded, 0);
    while (kiln_vta_node(m, loaded)->op == KILN_EXPR_SELECT) {
        const kiln_expr asked = kiln_vta_operand(m, loaded, 0);
        int64_t other;
        if (!kiln_expr_as_int(m->p, kiln_vta_operand(m, loaded, 2), &other) || other != 0)
            return kiln_vta_refuse(m, "a padding is not of zeros");
        condition = condition ? kiln_expr_binary(m->p, KILN_EXPR_AND, condition, asked) : asked;
        loaded = kiln_vta_operand(m, loaded, 1);
    }
    if (memory == KILN_VTA_MEMORY_COUNT) return match_global(m, store, s->value);
    if (memory == KILN_VTA_OUT) return kiln_vta_match_output(m, store, s->value);
    if (kiln_vta_is_load(m, loaded, KILN_SCOPE_GLOBAL))
        return match_load(m, store, loaded, condition, widens);
    if (memory == KILN_VTA_ACC) return match_acc(m, store, s->value);
    return match_made(m, store, s->value);
}
