#include "compiler-core/codegen/vta_match.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"

#define LOOPS_MAX KILN_VTA_CHAIN_LOOPS_MAX
#define BYTE_MIN (-128)
#define BYTE_MAX 127

/* constant + the sum of factor[i] * loop i, in elements or in tiles. */
typedef struct linear {
    int64_t constant, factor[LOOPS_MAX];
} linear;

/* What is loaded or stored. */
typedef struct access {
    kiln_buffer buffer;
    linear at;
} access;

static bool refuse(kiln_vta_matching *m, const char *format, ...) KILN_PRINTF(2, 3);
static bool refuse(kiln_vta_matching *m, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(m->reason, sizeof m->reason, format, list);
    va_end(list);
    m->reason_store = m->store;
    m->reason_loops = m->loop_count;
    return false;
}

/* A tile has no loops, or runs them outside already: then the reason is that of all loops. */
static bool refuse_tile(kiln_vta_matching *m, uint32_t count, const char *what) {
    if (m->reason_store == m->store && m->reason_loops > m->loop_count) return false;
    return refuse(m, "no loops run over the %u %s", count, what);
}

kiln_vta_memory kiln_vta_memory_of(kiln_scope scope) {
    return scope == KILN_SCOPE_INP   ? KILN_VTA_INP
           : scope == KILN_SCOPE_WGT ? KILN_VTA_WGT
           : scope == KILN_SCOPE_ACC ? KILN_VTA_ACC
           : scope == KILN_SCOPE_OUT ? KILN_VTA_OUT
                                     : KILN_VTA_MEMORY_COUNT;
}

uint32_t kiln_vta_tile_elements(const kiln_vta_config *config, kiln_vta_memory memory) {
    return memory == KILN_VTA_WGT   ? config->block_out * config->block_in
           : memory == KILN_VTA_INP ? config->batch * config->block_in
                                    : config->batch * config->block_out;
}

uint64_t kiln_vta_tiles_of(const kiln_vta_matching *m, kiln_buffer buffer) {
    const kiln_buffer_info *b = &m->p->buffer.data[buffer];
    const kiln_shape physical = kiln_layout_physical(&b->layout, &b->shape);
    const uint32_t elements =
        kiln_vta_tile_elements(&m->calls->config, kiln_vta_memory_of(b->scope));
    return ((uint64_t)kiln_shape_count(&physical) + elements - 1) / elements;
}

static kiln_vta_memory memory_of(const kiln_vta_matching *m, kiln_buffer buffer) {
    return kiln_vta_memory_of(m->p->buffer.data[buffer].scope);
}

static const kiln_expr_node *node_of(const kiln_vta_matching *m, kiln_expr e) {
    return kiln_expr_get(m->p, e);
}

static kiln_expr operand(const kiln_vta_matching *m, kiln_expr e, uint32_t i) {
    return kiln_expr_operand(m->p, e, i);
}

static bool is_load(const kiln_vta_matching *m, kiln_expr e, kiln_scope scope) {
    const kiln_expr_node *node = node_of(m, e);
    return node->op == KILN_EXPR_LOAD && m->p->buffer.data[node->payload.id].scope == scope;
}

static bool is_cast(const kiln_vta_matching *m, kiln_expr e, kiln_dtype to, kiln_dtype from) {
    const kiln_expr_node *node = node_of(m, e);
    return node->op == KILN_EXPR_CAST && node->dtype == to &&
           node_of(m, operand(m, e, 0))->dtype == from;
}

/* ---- indices --------------------------------------------------------------------------------- */

static int64_t extent_of(const kiln_vta_matching *m, uint32_t loop) {
    return m->p->stmt.data[m->loop[loop]].extent;
}

static bool add_var(kiln_vta_matching *m, kiln_var var, int64_t factor, linear *sum) {
    for (uint32_t i = 0; i < m->loop_count; i++) {
        const kiln_stmt_info *loop = &m->p->stmt.data[m->loop[i]];
        if (loop->var != var) continue;
        sum->constant += factor * loop->first;
        if (loop->extent > 1) sum->factor[i] += factor;
        return true;
    }
    if (!m->runs[var])
        return refuse(m, "%.*s has no value", KILN_STR_ARG(m->p->var.data[var].name));
    sum->constant += factor * m->interp.var[var];
    return true;
}

static bool is_fixed(const kiln_vta_matching *m, kiln_expr e) {
    for (uint32_t i = 0; i < m->loop_count; i++)
        if (kiln_expr_uses_var(m->p, e, m->p->stmt.data[m->loop[i]].var)) return false;
    return true;
}

static bool linear_of(kiln_vta_matching *m, const kiln_affine *a, linear *out) {
    *out = (linear){.constant = a->constant};
    for (uint32_t i = 0; i < a->term_count; i++) {
        const kiln_expr term = a->term[i];
        if (node_of(m, term)->op == KILN_EXPR_VAR) {
            if (!add_var(m, node_of(m, term)->payload.id, a->coefficient[i], out)) return false;
        } else if (is_fixed(m, term) && !(node_of(m, term)->uses & KILN_USES_LOAD)) {
            out->constant += a->coefficient[i] * kiln_interp_eval(&m->interp, term).i;
        } else {
            return refuse(m, "an index is no sum of multiples of loops");
        }
    }
    return true;
}

/* The offset of an index in the buffer, made once for `*cached`. */
static bool find_offset(kiln_vta_matching *m, kiln_affine **cached, kiln_buffer buffer,
                        const kiln_expr *index, linear *out) {
    if (!*cached) {
        kiln_affine *made = KILN_ARENA_NEW(m->arena, kiln_affine);
        if (!kiln_affine_of(m->p, kiln_buffer_offset(m->p, buffer, index), NULL, made))
            return refuse(m, "an index has too many terms");
        *cached = made;
    }
    return linear_of(m, *cached, out);
}

static bool find_load(kiln_vta_matching *m, kiln_expr load, access *out) {
    const kiln_expr_node node = *node_of(m, load);
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < node.operand_count; i++) index[i] = operand(m, load, i);
    out->buffer = node.payload.id;
    return find_offset(m, &m->load_offset[load], out->buffer, index, &out->at);
}

static bool find_store(kiln_vta_matching *m, kiln_stmt store, access *out) {
    const kiln_stmt_info *s = &m->p->stmt.data[store];
    out->buffer = s->buffer;
    return find_offset(m, &m->store_offset[store], s->buffer, s->index, &out->at);
}

/* Which loops run over the elements of a tile: together each element once. */
static bool find_tile_loops(kiln_vta_matching *m, const linear *at, uint32_t elements,
                            uint32_t *out_loops) {
    int64_t dense = 1;
    *out_loops = 0;
    for (bool found = true; found && dense < elements;) {
        found = false;
        for (uint32_t i = 0; i < m->loop_count && !found; i++) {
            if (at->factor[i] != dense) continue;
            *out_loops |= 1u << i;
            dense *= extent_of(m, i);
            found = true;
        }
    }
    return dense == elements || refuse_tile(m, elements, "elements of a tile");
}

/* From elements to tiles, without the loops of the tile. */
static bool make_tiles(kiln_vta_matching *m, uint32_t tile_loops, uint32_t elements, linear *at) {
    if (at->constant % elements != 0) return refuse(m, "a tile begins within a tile");
    at->constant /= elements;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (tile_loops >> i & 1) at->factor[i] = 0;
        if (at->factor[i] % elements != 0)
            return refuse(m, "loop %.*s runs over parts of tiles",
                          KILN_STR_ARG(m->p->var.data[m->p->stmt.data[m->loop[i]].var].name));
        at->factor[i] /= elements;
    }
    return true;
}

static bool is_same_in_tile(kiln_vta_matching *m, const linear *a, const linear *b,
                            uint32_t tile_loops) {
    for (uint32_t i = 0; i < m->loop_count; i++)
        if (tile_loops >> i & 1 && a->factor[i] != b->factor[i])
            return refuse(m, "elements change places within their tile");
    return true;
}

static bool is_same(const kiln_vta_matching *m, const linear *a, const linear *b) {
    return a->constant == b->constant &&
           memcmp(a->factor, b->factor, m->loop_count * sizeof a->factor[0]) == 0;
}

/* Both accesses in tiles; returns their loops over elements in `*out_loops`. */
static bool make_pair(kiln_vta_matching *m, uint32_t elements, linear *a, linear *b,
                      uint32_t *out_loops) {
    return find_tile_loops(m, a, elements, out_loops) && is_same_in_tile(m, a, b, *out_loops) &&
           make_tiles(m, *out_loops, elements, a) && make_tiles(m, *out_loops, elements, b);
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* Of a nest: a memory's tiles; NULL of `at`: none. */
typedef struct operand_tiles {
    const linear *at;
    uint32_t place;
} operand_tiles;

static bool set_tiles(kiln_vta_matching *m, operand_tiles of, uint32_t *out_base,
                      uint32_t out_step[LOOPS_MAX]) {
    *out_base = 0;
    memset(out_step, 0, LOOPS_MAX * sizeof *out_step);
    if (!of.at) return true;
    if (of.at->constant < 0) return refuse(m, "a tile lies before its buffer");
    *out_base = (uint32_t)(of.place + of.at->constant);
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (of.at->factor[i] < 0 || of.at->factor[i] > UINT32_MAX)
            return refuse(m, "a loop runs backwards over tiles");
        out_step[i] = (uint32_t)of.at->factor[i];
    }
    return true;
}

/* Two loops that are one have the step of the inner one. */
static bool joins(const kiln_vta_loop *outer, const kiln_vta_loop *inner) {
    return outer->step.dst == inner->step.dst * inner->extent &&
           outer->step.src == inner->step.src * inner->extent &&
           outer->step.wgt == inner->step.wgt * inner->extent;
}

static bool make_nest(kiln_vta_matching *m, uint32_t tile_loops, operand_tiles dst,
                      operand_tiles src, operand_tiles wgt, kiln_vta_nest *out) {
    uint32_t step[3][LOOPS_MAX];
    *out = (kiln_vta_nest){.loop_count = 0};
    if (!set_tiles(m, dst, &out->base.dst, step[0]) ||
        !set_tiles(m, src, &out->base.src, step[1]) || !set_tiles(m, wgt, &out->base.wgt, step[2]))
        return false;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        const kiln_vta_loop loop = {(uint32_t)extent_of(m, i),
                                    {step[0][i], step[1][i], step[2][i]}};
        kiln_vta_loop *last = out->loop_count ? &out->loop[out->loop_count - 1] : NULL;
        if (tile_loops >> i & 1 || loop.extent == 1) continue;
        if (last && joins(last, &loop)) {
            *last = (kiln_vta_loop){last->extent * loop.extent, loop.step};
            continue;
        }
        if (out->loop_count == KILN_VTA_NEST_LOOPS_MAX)
            return refuse(m, "more than %u loops run over tiles", KILN_VTA_NEST_LOOPS_MAX);
        out->loop[out->loop_count++] = loop;
    }
    return true;
}

static void add_call(kiln_vta_matching *m, kiln_vta_call call) {
    kiln_vec_push_in(m->arena, &m->calls->call, call);
}

/* ---- what accumulators hold ------------------------------------------------------------------ */

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

/* Adds a call that reads accumulators which hold one of `wanted`, and leaves `held` in those that
 * it writes. */
static bool add_wanting(kiln_vta_matching *m, const kiln_vta_call *call, uint8_t wanted,
                        uint8_t held) {
    holding h = {.m = m, .wanted = wanted, .set = held};
    kiln_vta_call_visit(call, look_at_tile, &h);
    if (h.is_outside) return refuse(m, "a tile lies behind the memory");
    if (h.is_wrong)
        return refuse(m, "an accumulator is read that outputs were made of in its place");
    kiln_vta_call_visit(call, set_tile, &h);
    add_call(m, *call);
    return true;
}

static bool add_reading(kiln_vta_matching *m, const kiln_vta_call *call, uint8_t held) {
    return add_wanting(m, call, KILN_VTA_HELD_ACC, held);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Rounds of each loop, from and to, in which something is there: others are padding. */
typedef struct inside {
    int64_t low[LOOPS_MAX], high[LOOPS_MAX];
    bool is_empty; /* everything is padding */
} inside;

static inside everywhere(const kiln_vta_matching *m) {
    inside all = {{0}, {0}, false};
    for (uint32_t i = 0; i < m->loop_count; i++) all.high[i] = extent_of(m, i) - 1;
    return all;
}

/* sum >= 0. */
static bool bound(kiln_vta_matching *m, const linear *sum, inside *at) {
    uint32_t loop = LOOPS_MAX;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (sum->factor[i] == 0) continue;
        if (loop != LOOPS_MAX) return refuse(m, "a condition of a padding is over two loops");
        loop = i;
    }
    if (loop == LOOPS_MAX) {
        at->is_empty |= sum->constant < 0;
        return true;
    }
    const int64_t factor = sum->factor[loop];
    if (factor > 0)
        at->low[loop] = KILN_MAX(at->low[loop], -kiln_floordiv(sum->constant, factor));
    else
        at->high[loop] = KILN_MIN(at->high[loop], kiln_floordiv(sum->constant, -factor));
    at->is_empty |= at->low[loop] > at->high[loop];
    return true;
}

static bool bound_difference(kiln_vta_matching *m, kiln_expr larger, kiln_expr smaller,
                             int64_t least, inside *at) {
    kiln_affine difference;
    linear sum;
    const kiln_expr e = kiln_expr_binary(m->p, KILN_EXPR_SUB, larger, smaller);
    if (!kiln_affine_of(m->p, e, NULL, &difference))
        return refuse(m, "a condition of a padding has too many terms");
    difference.constant -= least;
    return linear_of(m, &difference, &sum) && bound(m, &sum, at);
}

static bool find_inside(kiln_vta_matching *m, kiln_expr condition, inside *at) {
    const kiln_expr_node node = *node_of(m, condition);
    const kiln_expr a = node.operand_count == 2 ? operand(m, condition, 0) : 0,
                    b = node.operand_count == 2 ? operand(m, condition, 1) : 0;
    switch (node.op) {
    case KILN_EXPR_AND: return find_inside(m, a, at) && find_inside(m, b, at);
    case KILN_EXPR_LT: return bound_difference(m, b, a, 1, at);
    case KILN_EXPR_LE: return bound_difference(m, b, a, 0, at);
    case KILN_EXPR_EQ: return bound_difference(m, b, a, 0, at) && bound_difference(m, a, b, 0, at);
    default: return refuse(m, "a condition of a padding is no comparison of indices");
    }
}

/* Both in tiles, `core` from the begin of the memory. */
static bool make_copy(kiln_vta_matching *m, const linear *core, const linear *global,
                      const inside *at, uint32_t tile_loops, kiln_vta_copy *out) {
    uint32_t order[LOOPS_MAX], count = 0;
    int64_t dram = global->constant, dense = 1;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (extent_of(m, i) == 1) continue;
        if (tile_loops >> i & 1) {
            if (!at->is_empty && (at->low[i] != 0 || at->high[i] != extent_of(m, i) - 1))
                return refuse(m, "a part of a tile is padding");
            continue;
        }
        if (count == KILN_VTA_COPY_DIMS_MAX) return refuse(m, "a copy has too many loops");
        uint32_t place = count++;
        for (; place > 0 && core->factor[order[place - 1]] < core->factor[i]; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
    out->dim_count = count;
    for (uint32_t d = count; d-- > 0;) {
        const uint32_t i = order[d];
        const int64_t stride = global->factor[i], low = at->is_empty ? 0 : at->low[i],
                      rounds = at->is_empty ? extent_of(m, i) : at->high[i] - low + 1;
        if (core->factor[i] != dense)
            return refuse(m, "tiles do not follow each other in the core");
        if (stride < 0 || stride > UINT32_MAX)
            return refuse(m, "a loop runs backwards over tiles of main memory");
        dense *= extent_of(m, i);
        dram += low * stride;
        out->dim[d] = (kiln_vta_copy_dim){.extent = (uint32_t)rounds,
                                          .stride = (uint32_t)stride,
                                          .before = (uint32_t)low,
                                          .behind = (uint32_t)(extent_of(m, i) - low - rounds)};
    }
    if (core->constant < 0 || (!at->is_empty && (dram < 0 || dram > UINT32_MAX)))
        return refuse(m, "a tile lies before its buffer");
    out->sram_base = (uint32_t)core->constant;
    out->dram_base = at->is_empty ? 0 : (uint32_t)dram;
    if (at->is_empty) {
        out->dim_count = 1;
        out->dim[0] = (kiln_vta_copy_dim){.before = (uint32_t)dense};
    }
    return true;
}

static bool match_load(kiln_vta_matching *m, kiln_stmt store, kiln_expr value, kiln_expr condition,
                       bool widens) {
    const kiln_vta_memory memory = memory_of(m, m->p->stmt.data[store].buffer);
    kiln_vta_call call = {.kind = KILN_VTA_CALL_COPY,
                          .engine = memory == KILN_VTA_ACC ? KILN_VTA_ENGINE_COMPUTE
                                                           : KILN_VTA_ENGINE_LOAD,
                          .stmt = store,
                          .copy.memory = widens ? KILN_VTA_ACC_BYTES : memory};
    inside at = everywhere(m);
    access to, from;
    uint32_t tile_loops;
    if (widens && !kiln_vta_config_has(&m->calls->config, KILN_VTA_BYTES))
        return refuse(m, "the machine has no loads of bytes into accumulators (feature bytes)");
    if (!find_store(m, store, &to) || !find_load(m, value, &from)) return false;
    if (m->p->buffer.data[from.buffer].dtype !=
        (memory == KILN_VTA_ACC && !widens ? KILN_I32 : KILN_I8))
        return refuse(m, "the machine does not load elements of this type");
    if (condition && !find_inside(m, condition, &at)) return false;
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, memory);
    if (!make_pair(m, elements, &to.at, &from.at, &tile_loops)) return false;
    to.at.constant += m->place[to.buffer];
    call.copy.buffer = m->number[from.buffer];
    return make_copy(m, &to.at, &from.at, &at, tile_loops, &call.copy) &&
           add_reading(m, &call, KILN_VTA_HELD_ACC);
}

static kiln_expr find_any_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    *(bool *)context |= kiln_expr_get(p, e)->op == KILN_EXPR_LOAD;
    return rebuilt;
}

/* The bytes of the store's loops as they lie in the core, from its first element on; NULL: they
 * are no block. */
static char *make_bytes(kiln_vta_matching *m, kiln_expr value, const linear *at, int64_t count) {
    char *bytes = kiln_arena_alloc(m->arena, (size_t)count);
    bool *made = KILN_ARENA_ARRAY(m->arena, bool, count);
    for (int64_t point = 0; point < count; point++) {
        int64_t rest = point, offset = 0;
        for (uint32_t i = m->loop_count; i-- > 0;) {
            const int64_t step = rest % extent_of(m, i);
            rest /= extent_of(m, i);
            offset += at->factor[i] * step;
            m->interp.var[m->p->stmt.data[m->loop[i]].var] = step;
        }
        if (offset < 0 || offset >= count || made[offset]) return NULL;
        made[offset] = true;
        kiln_interp_moved(&m->interp);
        bytes[offset] = (char)kiln_interp_eval(&m->interp, value).i;
    }
    return bytes;
}

/* inp, wgt = a value that nothing is read for: the program brings it along. */
static bool match_made(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    const kiln_vta_memory memory = memory_of(m, m->p->stmt.data[store].buffer);
    const int64_t elements = kiln_vta_tile_elements(&m->calls->config, memory);
    bool reads = false;
    access to;
    int64_t count = 1;
    (void)kiln_expr_rewrite(m->p, value, 0, find_any_load, &reads);
    if (reads || m->p->buffer.data[m->p->stmt.data[store].buffer].dtype != KILN_I8)
        return refuse(m, "data and weights are loaded from main memory, or read nothing");
    if (!find_store(m, store, &to)) return false;
    for (uint32_t i = 0; i < m->loop_count; i++) count *= extent_of(m, i);
    const char *bytes = count % elements == 0 && to.at.constant % elements == 0
                            ? make_bytes(m, value, &to.at, count)
                            : NULL;
    if (!bytes) return refuse(m, "what is made in the core is no block of whole tiles");
    kiln_vec_push_in(m->arena, &m->calls->made, ((kiln_str){bytes, (size_t)count}));
    const kiln_vta_call call = {
        .kind = KILN_VTA_CALL_COPY,
        .engine = KILN_VTA_ENGINE_LOAD,
        .stmt = store,
        .copy = {.memory = memory,
                 .buffer = m->calls->buffer.count + m->calls->made.count,
                 .sram_base = (uint32_t)(m->place[to.buffer] + to.at.constant / elements),
                 .dim_count = 1,
                 .dim = {{.extent = (uint32_t)(count / elements), .stride = 1}}}};
    add_call(m, call);
    return true;
}

/* What the accumulators of a store hold: the same of all. */
static bool find_held(kiln_vta_matching *m, const kiln_vta_copy *copy, uint8_t *out_held) {
    uint64_t tiles = 1;
    for (uint32_t d = 0; d < copy->dim_count; d++) tiles *= copy->dim[d].extent;
    if (copy->sram_base + tiles > m->calls->sizes.tile_count[KILN_VTA_OUT])
        return refuse(m, "a tile lies behind the memory");
    *out_held = m->held[copy->sram_base];
    for (uint64_t i = 0; i < tiles; i++)
        if (m->held[copy->sram_base + i] != *out_held)
            return refuse(m, "outputs of several kinds are stored at once");
    return (*out_held & KILN_VTA_HELD_OUT) || refuse(m, "what is stored has not been made");
}

/* The call that stores tiles of a place in the core. */
static bool find_copy_out(kiln_vta_matching *m, kiln_stmt store, access to, access from,
                          uint32_t place, kiln_vta_call *out) {
    *out = (kiln_vta_call){.kind = KILN_VTA_CALL_COPY,
                           .engine = KILN_VTA_ENGINE_STORE,
                           .stmt = store,
                           .copy.memory = KILN_VTA_OUT,
                           .copy.buffer = m->number[to.buffer]};
    const inside all = everywhere(m);
    uint32_t tile_loops;
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_OUT);
    if (!make_pair(m, elements, &to.at, &from.at, &tile_loops)) return false;
    from.at.constant += place;
    return make_copy(m, &from.at, &to.at, &all, tile_loops, &out->copy);
}

/* ---- GEMM ------------------------------------------------------------------------------------ */

/* The loop that moves by these factors and has that extent; an extent of 1 has none. */
static bool find_role(kiln_vta_matching *m, const linear of[3], int64_t dst, int64_t src,
                      int64_t wgt, uint32_t extent, const char *what, uint32_t *loops) {
    if (extent == 1) return true;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (of[0].factor[i] != dst || of[1].factor[i] != src || of[2].factor[i] != wgt ||
            extent_of(m, i) != extent)
            continue;
        *loops |= 1u << i;
        return true;
    }
    return refuse_tile(m, extent, what);
}

static bool match_gemm(kiln_vta_matching *m, kiln_stmt store, kiln_expr sum, kiln_expr product) {
    const kiln_vta_config *c = &m->calls->config;
    kiln_vta_call call = {.kind = KILN_VTA_CALL_GEMM,
                          .engine = KILN_VTA_ENGINE_COMPUTE,
                          .stmt = store,
                          .gemm = KILN_VTA_GEMM_ADD};
    kiln_expr factor[2];
    access to, of_sum, data, weights;
    uint32_t loops = 0;
    for (uint32_t i = 0; i < 2; i++) {
        factor[i] = operand(m, product, i);
        if (!is_cast(m, factor[i], KILN_I32, KILN_I8))
            return refuse(m, "the factors of a product are no bytes");
        factor[i] = operand(m, factor[i], 0);
    }
    const bool is_swapped = is_load(m, factor[0], KILN_SCOPE_WGT);
    if (!is_load(m, factor[is_swapped], KILN_SCOPE_INP) ||
        !is_load(m, factor[!is_swapped], KILN_SCOPE_WGT))
        return refuse(m, "the factors of a product are not of inp and wgt");
    if (!find_store(m, store, &to) || !find_load(m, sum, &of_sum) ||
        !find_load(m, factor[is_swapped], &data) || !find_load(m, factor[!is_swapped], &weights))
        return false;
    if (of_sum.buffer != to.buffer || !is_same(m, &to.at, &of_sum.at))
        return refuse(m, "a sum is not added to itself");
    const linear of[3] = {to.at, data.at, weights.at};
    if (!find_role(m, of, 0, 1, 1, c->block_in, "steps of a product", &loops) ||
        !find_role(m, of, 1, 0, c->block_in, c->block_out, "lanes of a product", &loops) ||
        !find_role(m, of, c->block_out, c->block_in, 0, c->batch, "rows of a product", &loops) ||
        !make_tiles(m, loops, kiln_vta_tile_elements(c, KILN_VTA_ACC), &to.at) ||
        !make_tiles(m, loops, kiln_vta_tile_elements(c, KILN_VTA_INP), &data.at) ||
        !make_tiles(m, loops, kiln_vta_tile_elements(c, KILN_VTA_WGT), &weights.at))
        return false;
    return make_nest(m, loops, (operand_tiles){&to.at, m->place[to.buffer]},
                     (operand_tiles){&data.at, m->place[data.buffer]},
                     (operand_tiles){&weights.at, m->place[weights.buffer]}, &call.nest) &&
           add_reading(m, &call, KILN_VTA_HELD_ACC);
}

/* ---- ALU ------------------------------------------------------------------------------------- */

typedef struct chain chain;
struct chain {
    uint32_t count;
    kiln_vta_operation operation[KILN_VTA_OPERATIONS_MAX];
    kiln_expr source[KILN_VTA_OPERATIONS_MAX]; /* a load of an accumulator; 0: the number */
    kiln_expr first;                           /* a load: what the first operation works on */
    uint32_t part_count; /* sources that are computed before, each in its own place */
    chain *part[KILN_VTA_OPERATIONS_MAX];
};

static bool find_chain(kiln_vta_matching *m, kiln_expr e, chain *c);

static bool add_operation(kiln_vta_matching *m, chain *c, kiln_vta_alu_op op, int64_t number,
                          kiln_expr source) {
    if (c->count == KILN_VTA_OPERATIONS_MAX)
        return refuse(m, "more than %u operations in one store", KILN_VTA_OPERATIONS_MAX);
    if (op == KILN_VTA_ALU_MUL && !kiln_vta_config_has(&m->calls->config, KILN_VTA_MUL))
        return refuse(m, "the machine does not multiply accumulators (feature mul)");
    if (!source && (number < INT16_MIN || number > INT16_MAX))
        return refuse(m, "the number %lld has more than 16 bits", (long long)number);
    if (op == KILN_VTA_ALU_SHR && (source || number < -31 || number > 31))
        return refuse(m, "a shift is not by a number up to 31");
    c->operation[c->count] =
        (kiln_vta_operation){.op = op, .use_imm = !source, .imm = (int32_t)number};
    c->source[c->count++] = source;
    return true;
}

/* The load of an accumulator that the value is; 0: it is none. Those that hold bytes are cast. */
static kiln_expr accumulator_of(const kiln_vta_matching *m, kiln_expr e) {
    if (is_cast(m, e, KILN_I32, KILN_I8)) e = operand(m, e, 0);
    return is_load(m, e, KILN_SCOPE_ACC) ? e : 0;
}

/* A second operand: an accumulator, or one that operations of its own make. */
static bool find_source(kiln_vta_matching *m, kiln_expr e, chain *c, kiln_expr *out_source) {
    *out_source = accumulator_of(m, e);
    if (*out_source) return true;
    chain *part = KILN_ARENA_NEW(m->arena, chain);
    if (c->part_count == KILN_VTA_OPERATIONS_MAX)
        return refuse(m, "more than %u operands have operations", KILN_VTA_OPERATIONS_MAX);
    if (!find_chain(m, e, part)) return false;
    c->part[c->part_count++] = part;
    *out_source = part->first;
    return true;
}

static bool find_chain(kiln_vta_matching *m, kiln_expr e, chain *c) {
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
    const kiln_expr_node node = *node_of(m, e);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        if (node.op != row[i].op || node.dtype != KILN_I32) continue;
        kiln_expr a = operand(m, e, 0), b = operand(m, e, 1), source = 0;
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
            return refuse(m, "an operand that is subtracted is no number");
        return find_chain(m, a, c) && (is_number || find_source(m, b, c, &source)) &&
               add_operation(m, c, row[i].alu, row[i].negates ? -number : number, source);
    }
    return refuse(m, "the ALU has no operation for a part of the value");
}

/* The first operation works on the accumulator that is written. */
static bool begin_chain(kiln_vta_matching *m, const access *wanted, chain *c) {
    access first;
    if (!find_load(m, c->first, &first)) return false;
    if (first.buffer == wanted->buffer && is_same(m, &first.at, &wanted->at)) return true;
    if (c->count && c->source[0] && c->operation[0].op != KILN_VTA_ALU_SHR) {
        access source;
        if (!find_load(m, c->source[0], &source)) return false;
        if (source.buffer == wanted->buffer && is_same(m, &source.at, &wanted->at)) {
            const kiln_expr other = c->first;
            c->first = c->source[0];
            c->source[0] = other;
            return true;
        }
    }
    return refuse(m, "an accumulator is made of another one, not of itself");
}

/* Takes off what a store that saturates does: a last run of minima and maxima, of numbers that are
 * bytes and at least one of each. Returns whether the store saturates then. */
static bool take_off_saturation(const kiln_vta_matching *m, chain *c) {
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
    return node_of(m, load)->payload.id;
}

/* What is computed in a place of its own is in no other part of the value. */
static bool parts_are_apart(kiln_vta_matching *m, const chain *c) {
    for (uint32_t i = 0; i < c->part_count; i++) {
        const kiln_expr own = c->part[i]->first;
        bool found = buffer_of(m, own) == buffer_of(m, c->first);
        for (uint32_t k = 0; k < c->count; k++)
            found |= c->source[k] && c->source[k] != own &&
                     buffer_of(m, c->source[k]) == buffer_of(m, own);
        for (uint32_t k = 0; k < i; k++) found |= c->part[k]->first == own;
        if (found) return refuse(m, "an accumulator is in two parts of a value");
    }
    return true;
}

static bool add_chain(kiln_vta_matching *m, kiln_stmt store, const chain *c, const access *to,
                      uint8_t held);

/* Operands that have operations of their own, each in the place of its accumulators. */
static bool add_parts(kiln_vta_matching *m, kiln_stmt store, const chain *c) {
    for (uint32_t i = 0; i < c->part_count; i++) {
        access to;
        if (!find_load(m, c->part[i]->first, &to) ||
            !add_chain(m, store, c->part[i], &to, KILN_VTA_HELD_PART))
            return false;
    }
    return true;
}

/* The operations from `first` on that have one source between them; returns the end. */
static uint32_t end_of_pass(const chain *c, uint32_t first, kiln_expr *out_source) {
    uint32_t end = first;
    *out_source = 0;
    for (; end < c->count; end++) {
        if (c->source[end] && *out_source && c->source[end] != *out_source) break;
        if (c->source[end]) *out_source = c->source[end];
    }
    return end;
}

/* The call of a pass at the tiles `at` of the place of `to`. */
static bool make_pass(kiln_vta_matching *m, const chain *c, uint32_t first, uint32_t end,
                      kiln_expr load, const access *to, uint8_t held, kiln_vta_call *out) {
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_ACC);
    access result = *to, source = *to;
    uint32_t tile_loops;
    if (load && !find_load(m, load, &source)) return false;
    if (!make_pair(m, elements, &result.at, &source.at, &tile_loops)) return false;
    for (uint32_t i = 0; i < m->loop_count; i++) /* a part is computed once */
        if (held == KILN_VTA_HELD_PART && result.at.factor[i] == 0 && source.at.factor[i] == 0)
            tile_loops |= 1u << i;
    kiln_vta_operation *operation = KILN_ARENA_ARRAY(m->arena, kiln_vta_operation, end - first);
    memcpy(operation, c->operation + first, (end - first) * sizeof *operation);
    out->operation_count = end - first;
    out->operation = operation;
    if (!make_nest(m, tile_loops, (operand_tiles){&result.at, m->place[to->buffer]},
                   (operand_tiles){&source.at, m->place[source.buffer]}, (operand_tiles){NULL, 0},
                   &out->nest))
        return false;
    return held == KILN_VTA_HELD_ACC || kiln_vta_nest_is_injective(&out->nest) ||
           refuse(m, "several values are made of one accumulator, in its place");
}

static void spend_parts(kiln_vta_matching *m) {
    for (uint32_t i = 0; i < m->calls->sizes.tile_count[KILN_VTA_ACC]; i++)
        if (m->held[i] == KILN_VTA_HELD_PART) m->held[i] = KILN_VTA_HELD_SPENT;
}

/* The chain in passes with one source each, at the accumulators `to`, in elements. */
static bool add_chain(kiln_vta_matching *m, kiln_stmt store, const chain *c, const access *to,
                      uint8_t held) {
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
            is_good = refuse(m, "a result is a source of the same store");
    is_good = is_good && add_parts(m, store, c);
    for (uint32_t i = 0; i < count && is_good; i++)
        is_good = add_wanting(m, &call[i], KILN_VTA_HELD_ACC | KILN_VTA_HELD_PART,
                              i + 1 == count ? held : KILN_VTA_HELD_ACC);
    if (!is_good) m->calls->call.count = before;
    if (held != KILN_VTA_HELD_PART) spend_parts(m);
    return is_good;
}

/* acc = operations on itself. */
static bool match_alu(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    chain c = {.count = 0};
    access to;
    if (!find_store(m, store, &to) || !find_chain(m, value, &c) || !begin_chain(m, &to, &c))
        return false;
    if (c.count == 0) return refuse(m, "an accumulator is copied onto itself");
    return add_chain(m, store, &c, &to, KILN_VTA_HELD_ACC);
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* Operations of which an output is made, in the place of accumulators. */
typedef struct output {
    chain chain;
    access from; /* the accumulators, in elements */
    bool saturates;
} output;

static bool find_output(kiln_vta_matching *m, kiln_expr value, output *out) {
    *out = (output){.saturates = false};
    if (!is_cast(m, value, KILN_I8, KILN_I32)) return refuse(m, "outputs are no bytes of sums");
    if (!find_chain(m, operand(m, value, 0), &out->chain) ||
        !find_load(m, out->chain.first, &out->from))
        return false;
    out->saturates = take_off_saturation(m, &out->chain);
    return true;
}

/* Adds the operations; without any the tiles hold accumulators and outputs. */
static bool add_output(kiln_vta_matching *m, kiln_stmt store, const output *o) {
    const uint8_t held = (uint8_t)(KILN_VTA_HELD_OUT | (o->saturates ? KILN_VTA_HELD_SATURATE : 0));
    if (o->chain.count) return add_chain(m, store, &o->chain, &o->from, held);
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_ACC);
    kiln_vta_call tiles = {.kind = KILN_VTA_CALL_ALU};
    uint32_t tile_loops;
    linear at = o->from.at;
    if (!find_tile_loops(m, &at, elements, &tile_loops) ||
        !make_tiles(m, tile_loops, elements, &at) ||
        !make_nest(m, tile_loops, (operand_tiles){&at, m->place[o->from.buffer]},
                   (operand_tiles){NULL, 0}, (operand_tiles){NULL, 0}, &tiles.nest))
        return false;
    holding h = {.m = m, .set = (uint8_t)(held | KILN_VTA_HELD_ACC)};
    kiln_vta_call_visit(&tiles, set_tile, &h);
    return true;
}

/* Tiles of two accesses, for each round of the loops from `loop` on. */
typedef bool (*pair_visitor)(kiln_vta_matching *m, int64_t a, int64_t b, void *context);
static bool visit_pairs(kiln_vta_matching *m, const linear *a, const linear *b, uint32_t loop,
                        int64_t at_a, int64_t at_b, pair_visitor visit, void *context) {
    if (loop == m->loop_count) return visit(m, at_a, at_b, context);
    const int64_t rounds = a->factor[loop] || b->factor[loop] ? extent_of(m, loop) : 1;
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
        return refuse(m, "an output lies outside of its buffer");
    tiles->accumulator[out] = (uint32_t)accumulator;
    return true;
}

static bool is_kept_tile(kiln_vta_matching *m, int64_t out, int64_t accumulator, void *context) {
    const output_tiles *tiles = context;
    return (out >= 0 && (uint64_t)out < tiles->count && tiles->accumulator[out] == accumulator) ||
           refuse(m, "outputs do not lie as loops go over them");
}

static output_tiles tiles_of_output(const kiln_vta_matching *m, kiln_buffer buffer) {
    return (output_tiles){m->output[buffer], m->output[buffer] ? kiln_vta_tiles_of(m, buffer) : 0};
}

/* out = operations on acc, in the place of acc. */
static bool match_output(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_OUT);
    access to;
    output o;
    uint32_t tile_loops;
    if (!find_store(m, store, &to) || !find_output(m, value, &o)) return false;
    linear from = o.from.at;
    output_tiles tiles = tiles_of_output(m, to.buffer);
    if (!make_pair(m, elements, &to.at, &from, &tile_loops)) return false;
    from.constant += m->place[o.from.buffer];
    return add_output(m, store, &o) &&
           visit_pairs(m, &to.at, &from, 0, to.at.constant, from.constant, keep_tile, &tiles);
}

/* The accumulators that the outputs of a load are in, by the same loops; in elements. */
static bool find_accumulators(kiln_vta_matching *m, const access *from, linear *out) {
    const int64_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_OUT);
    output_tiles tiles = tiles_of_output(m, from->buffer);
    linear at = from->at, accumulators = {0};
    uint32_t tile_loops;
    if (!find_tile_loops(m, &at, (uint32_t)elements, &tile_loops) ||
        !make_tiles(m, tile_loops, (uint32_t)elements, &at))
        return false;
    if (at.constant < 0 || (uint64_t)at.constant >= tiles.count ||
        tiles.accumulator[at.constant] == KILN_VTA_NO_PLACE)
        return refuse(m, "what is stored has not been made");
    accumulators.constant = tiles.accumulator[at.constant];
    for (uint32_t i = 0; i < m->loop_count; i++) {
        const int64_t next = at.constant + at.factor[i];
        if (at.factor[i] == 0) continue;
        if (next < 0 || (uint64_t)next >= tiles.count)
            return refuse(m, "an output lies outside of its buffer");
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

static bool match_global(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    access to, from;
    output o;
    kiln_vta_call call;
    uint8_t held = 0;
    if (!find_store(m, store, &to)) return false;
    if (m->p->buffer.data[to.buffer].dtype != KILN_I8)
        return refuse(m, "the machine stores nothing but bytes");
    if (is_load(m, value, KILN_SCOPE_OUT)) {
        if (!find_load(m, value, &from) || !find_accumulators(m, &from, &from.at) ||
            !find_copy_out(m, store, to, from, 0, &call) || !find_held(m, &call.copy, &held))
            return false;
        call.copy.saturate = held & KILN_VTA_HELD_SATURATE;
    } else {
        if (!find_output(m, value, &o) ||
            !find_copy_out(m, store, to, o.from, m->place[o.from.buffer], &call) ||
            !add_output(m, store, &o))
            return false;
        call.copy.saturate = o.saturates;
    }
    add_call(m, call);
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* acc = number. */
static bool match_number(kiln_vta_matching *m, kiln_stmt store, int64_t number) {
    chain c = {.count = 0};
    kiln_vta_call call = {.kind = KILN_VTA_CALL_GEMM,
                          .engine = KILN_VTA_ENGINE_COMPUTE,
                          .stmt = store,
                          .gemm = KILN_VTA_GEMM_RESET};
    access to;
    uint32_t tile_loops;
    const uint32_t elements = kiln_vta_tile_elements(&m->calls->config, KILN_VTA_ACC);
    if (number && !add_operation(m, &c, KILN_VTA_ALU_ADD, number, 0)) return false;
    if (!find_store(m, store, &to)) return false;
    linear at = to.at;
    return find_tile_loops(m, &at, elements, &tile_loops) &&
           make_tiles(m, tile_loops, elements, &at) &&
           make_nest(m, tile_loops, (operand_tiles){&at, m->place[to.buffer]},
                     (operand_tiles){NULL, 0}, (operand_tiles){NULL, 0}, &call.nest) &&
           add_reading(m, &call, KILN_VTA_HELD_ACC) &&
           (!number || add_chain(m, store, &c, &to, KILN_VTA_HELD_ACC));
}

static bool match_acc(kiln_vta_matching *m, kiln_stmt store, kiln_expr value) {
    const kiln_expr_node node = *node_of(m, value);
    int64_t number;
    if (kiln_expr_as_int(m->p, value, &number)) return match_number(m, store, number);
    for (uint32_t i = 0; node.op == KILN_EXPR_ADD && i < 2; i++)
        if (node_of(m, operand(m, value, i))->op == KILN_EXPR_MUL &&
            is_cast(m, operand(m, operand(m, value, i), 0), KILN_I32, KILN_I8) &&
            is_load(m, operand(m, value, 1 - i), KILN_SCOPE_ACC))
            return match_gemm(m, store, operand(m, value, 1 - i), operand(m, value, i));
    return match_alu(m, store, value);
}

bool kiln_vta_match(kiln_vta_matching *m, kiln_stmt store) {
    const kiln_stmt_info *s = &m->p->stmt.data[store];
    const kiln_vta_memory memory = memory_of(m, s->buffer);
    kiln_expr loaded = s->value, condition = 0;
    m->store = store;
    const bool is_cast_there = memory == KILN_VTA_ACC && is_cast(m, loaded, KILN_I32, KILN_I8),
               widens = is_cast_there ||
                        (memory == KILN_VTA_ACC && m->p->buffer.data[s->buffer].dtype == KILN_I8);
    if (is_cast_there) loaded = operand(m, loaded, 0);
    if (node_of(m, loaded)->op == KILN_EXPR_SELECT) {
        int64_t other;
        if (!kiln_expr_as_int(m->p, operand(m, loaded, 2), &other) || other != 0)
            return refuse(m, "a padding is not of zeros");
        condition = operand(m, loaded, 0);
        loaded = operand(m, loaded, 1);
    }
    if (memory == KILN_VTA_MEMORY_COUNT) return match_global(m, store, s->value);
    if (memory == KILN_VTA_OUT) return match_output(m, store, s->value);
    if (is_load(m, loaded, KILN_SCOPE_GLOBAL))
        return match_load(m, store, loaded, condition, widens);
    if (memory == KILN_VTA_ACC) return match_acc(m, store, s->value);
    return match_made(m, store, s->value);
}
