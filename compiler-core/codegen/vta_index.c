#include "compiler-core/codegen/vta_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool kiln_vta_refuse(kiln_vta_matching *m, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(m->reason, sizeof m->reason, format, list);
    va_end(list);
    m->reason_store = m->store;
    m->reason_loops = m->loop_count;
    return false;
}

/* No loops run over a tile, or only outer ones, for which the reason is set already. */
bool kiln_vta_refuse_tile(kiln_vta_matching *m, uint32_t count, const char *what) {
    if (m->reason_store == m->store && m->reason_loops > m->loop_count) return false;
    return kiln_vta_refuse(m, "no loops run over the %u %s", count, what);
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

const kiln_expr_node *kiln_vta_node(const kiln_vta_matching *m, kiln_expr e) {
    return kiln_expr_get(m->p, e);
}

kiln_expr kiln_vta_operand(const kiln_vta_matching *m, kiln_expr e, uint32_t i) {
    return kiln_expr_operand(m->p, e, i);
}

bool kiln_vta_is_load(const kiln_vta_matching *m, kiln_expr e, kiln_scope scope) {
    const kiln_expr_node *node = kiln_vta_node(m, e);
    return node->op == KILN_EXPR_LOAD && m->p->buffer.data[node->payload.id].scope == scope;
}

bool kiln_vta_is_cast(const kiln_vta_matching *m, kiln_expr e, kiln_dtype to, kiln_dtype from) {
    const kiln_expr_node *node = kiln_vta_node(m, e);
    return node->op == KILN_EXPR_CAST && node->dtype == to &&
           kiln_vta_node(m, kiln_vta_operand(m, e, 0))->dtype == from;
}

/* ---- indices --------------------------------------------------------------------------------- */

int64_t kiln_vta_loop_extent(const kiln_vta_matching *m, uint32_t loop) {
    return m->p->stmt.data[m->loop[loop]].extent;
}

static bool add_var(kiln_vta_matching *m, kiln_var var, int64_t factor, kiln_vta_linear *sum) {
    for (uint32_t i = 0; i < m->loop_count; i++) {
        const kiln_stmt_info *loop = &m->p->stmt.data[m->loop[i]];
        if (loop->var != var) continue;
        sum->constant += factor * loop->first;
        if (loop->extent > 1) sum->factor[i] += factor;
        return true;
    }
    if (!m->runs[var])
        return kiln_vta_refuse(m, "%.*s has no value", KILN_STR_ARG(m->p->var.data[var].name));
    sum->constant += factor * m->interp.var[var];
    return true;
}

static bool is_fixed(const kiln_vta_matching *m, kiln_expr e) {
    for (uint32_t i = 0; i < m->loop_count; i++)
        if (kiln_expr_uses_var(m->p, e, m->p->stmt.data[m->loop[i]].var)) return false;
    return true;
}

bool kiln_vta_find_linear(kiln_vta_matching *m, const kiln_affine *a, kiln_vta_linear *out) {
    *out = (kiln_vta_linear){.constant = a->constant};
    for (uint32_t i = 0; i < a->term_count; i++) {
        const kiln_expr term = a->term[i];
        if (kiln_vta_node(m, term)->op == KILN_EXPR_VAR) {
            if (!add_var(m, kiln_vta_node(m, term)->payload.id, a->coefficient[i], out))
                return false;
        } else if (is_fixed(m, term) && !(kiln_vta_node(m, term)->uses & KILN_USES_LOAD)) {
            out->constant += a->coefficient[i] * kiln_interp_eval(&m->interp, term).i;
        } else {
            return kiln_vta_refuse(m, "an index is no sum of multiples of loops");
        }
    }
    return true;
}

/* The offset of an index in the buffer, made once for `*cached`. A dimension of one element has the
 * index 0, even with a padding around it. */
static bool find_offset(kiln_vta_matching *m, kiln_affine **cached, kiln_buffer buffer,
                        const kiln_expr *at, kiln_vta_linear *out) {
    if (!*cached) {
        const kiln_shape *shape = &m->p->buffer.data[buffer].shape;
        kiln_affine *made = KILN_ARENA_NEW(m->arena, kiln_affine);
        kiln_expr index[KILN_RANK_MAX];
        for (uint32_t d = 0; d < shape->rank; d++)
            index[d] = shape->dim[d] == 1 ? kiln_expr_index(m->p, 0) : at[d];
        if (!kiln_affine_of(m->p, kiln_buffer_offset(m->p, buffer, index), NULL, made))
            return kiln_vta_refuse(m, "an index has too many terms");
        *cached = made;
    }
    return kiln_vta_find_linear(m, *cached, out);
}

bool kiln_vta_find_load(kiln_vta_matching *m, kiln_expr load, kiln_vta_access *out) {
    const kiln_expr_node node = *kiln_vta_node(m, load);
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < node.operand_count; i++) index[i] = kiln_vta_operand(m, load, i);
    out->buffer = node.payload.id;
    return find_offset(m, &m->load_offset[load], out->buffer, index, &out->at);
}

bool kiln_vta_find_store(kiln_vta_matching *m, kiln_stmt store, kiln_vta_access *out) {
    const kiln_stmt_info *s = &m->p->stmt.data[store];
    out->buffer = s->buffer;
    return find_offset(m, &m->store_offset[store], s->buffer, s->index, &out->at);
}

/* Finds the loops that run over the elements of a tile, each element once. */
bool kiln_vta_find_tile_loops(kiln_vta_matching *m, const kiln_vta_linear *at, uint32_t elements,
                              uint32_t *out_loops) {
    int64_t dense = 1;
    *out_loops = 0;
    for (bool found = true; found && dense < elements;) {
        found = false;
        for (uint32_t i = 0; i < m->loop_count && !found; i++) {
            if (at->factor[i] != dense) continue;
            *out_loops |= 1u << i;
            dense *= kiln_vta_loop_extent(m, i);
            found = true;
        }
    }
    if (dense != elements) return kiln_vta_refuse_tile(m, elements, "elements of a tile");
    return kiln_vta_stores_tiles(m, *out_loops);
}

/* From elements to tiles, without the loops of the tile. */
bool kiln_vta_make_tiles(kiln_vta_matching *m, uint32_t tile_loops, uint32_t elements,
                         kiln_vta_linear *at) {
    if (at->constant % elements != 0) return kiln_vta_refuse(m, "a tile begins within a tile");
    at->constant /= elements;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (tile_loops >> i & 1) at->factor[i] = 0;
        if (at->factor[i] % elements != 0)
            return kiln_vta_refuse(
                m, "loop %.*s runs over parts of tiles",
                KILN_STR_ARG(m->p->var.data[m->p->stmt.data[m->loop[i]].var].name));
        at->factor[i] /= elements;
    }
    return true;
}

static bool is_same_in_tile(kiln_vta_matching *m, const kiln_vta_linear *a,
                            const kiln_vta_linear *b, uint32_t tile_loops) {
    for (uint32_t i = 0; i < m->loop_count; i++)
        if (tile_loops >> i & 1 && a->factor[i] != b->factor[i])
            return kiln_vta_refuse(m, "elements change places within their tile");
    return true;
}

bool kiln_vta_is_same(const kiln_vta_matching *m, const kiln_vta_linear *a,
                      const kiln_vta_linear *b) {
    return a->constant == b->constant &&
           memcmp(a->factor, b->factor, m->loop_count * sizeof a->factor[0]) == 0;
}

/* Both accesses in tiles; returns their loops over elements in `*out_loops`. */
bool kiln_vta_make_pair(kiln_vta_matching *m, uint32_t elements, kiln_vta_linear *a,
                        kiln_vta_linear *b, uint32_t *out_loops) {
    return kiln_vta_find_tile_loops(m, a, elements, out_loops) &&
           is_same_in_tile(m, a, b, *out_loops) &&
           kiln_vta_make_tiles(m, *out_loops, elements, a) &&
           kiln_vta_make_tiles(m, *out_loops, elements, b);
}

/* ---- nests ----------------------------------------------------------------------------------- */

static bool set_tiles(kiln_vta_matching *m, kiln_vta_operand_tiles of, uint32_t *out_base,
                      uint32_t out_step[KILN_VTA_CHAIN_LOOPS_MAX]) {
    *out_base = 0;
    memset(out_step, 0, KILN_VTA_CHAIN_LOOPS_MAX * sizeof *out_step);
    if (!of.at) return true;
    if (of.at->constant < 0) return kiln_vta_refuse(m, "a tile lies before its buffer");
    *out_base = (uint32_t)(of.place + of.at->constant);
    for (uint32_t i = 0; i < m->loop_count; i++) {
        if (of.at->factor[i] < 0 || of.at->factor[i] > UINT32_MAX)
            return kiln_vta_refuse(m, "a loop runs backwards over tiles");
        out_step[i] = (uint32_t)of.at->factor[i];
    }
    return true;
}

/* Whether two loops run like one, with the step of the inner one. */
static bool joins(const kiln_vta_loop *outer, const kiln_vta_loop *inner) {
    return outer->step.dst == inner->step.dst * inner->extent &&
           outer->step.src == inner->step.src * inner->extent &&
           outer->step.wgt == inner->step.wgt * inner->extent;
}

bool kiln_vta_nest_of(kiln_vta_matching *m, uint32_t tile_loops, kiln_vta_operand_tiles dst,
                      kiln_vta_operand_tiles src, kiln_vta_operand_tiles wgt, kiln_vta_nest *out) {
    uint32_t step[3][KILN_VTA_CHAIN_LOOPS_MAX];
    *out = (kiln_vta_nest){.loop_count = 0};
    if (!set_tiles(m, dst, &out->base.dst, step[0]) ||
        !set_tiles(m, src, &out->base.src, step[1]) || !set_tiles(m, wgt, &out->base.wgt, step[2]))
        return false;
    for (uint32_t i = 0; i < m->loop_count; i++) {
        const kiln_vta_loop loop = {(uint32_t)kiln_vta_loop_extent(m, i),
                                    {step[0][i], step[1][i], step[2][i]}};
        kiln_vta_loop *last = out->loop_count ? &out->loop[out->loop_count - 1] : NULL;
        if (tile_loops >> i & 1 || loop.extent == 1) continue;
        if (last && joins(last, &loop)) {
            *last = (kiln_vta_loop){last->extent * loop.extent, loop.step};
            continue;
        }
        if (out->loop_count == KILN_VTA_NEST_LOOPS_MAX)
            return kiln_vta_refuse(m, "more than %u loops run over tiles", KILN_VTA_NEST_LOOPS_MAX);
        out->loop[out->loop_count++] = loop;
    }
    return true;
}
