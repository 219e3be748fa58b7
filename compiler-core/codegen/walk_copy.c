/* Copies that land later, from global to shared memory. Lanes are copied in pieces of up to 16
 * bytes, where both sides lie together and are aligned to them; one by one where they lie apart. */
#include "compiler-core/codegen/walk.h"

#define PIECE_BYTES_MAX 16
#define PIECE_BYTES_MIN 4

/* Where lanes of one side lie behind one another. */
static bool lies_together(const kiln_walk *w, const kiln_walk_address *at) {
    return w->lanes == 0 || (at->linear && at->lane_stride == 1);
}

static void copy_pieces(kiln_walk *w, kiln_dtype dtype, const kiln_walk_address *to,
                        const kiln_walk_address *from, uint32_t bytes, uint32_t piece) {
    const uint32_t size = (uint32_t)kiln_dtype_size(dtype);
    for (uint32_t at = 0; at < bytes; at += piece)
        w->b->ops->copy(w->b, kiln_walk_pointer(w, to, dtype, at / size),
                        kiln_walk_pointer(w, from, dtype, at / size), piece);
}

static void copy_lanes(kiln_walk *w, kiln_dtype dtype, kiln_walk_address to,
                       kiln_walk_address from) {
    const uint32_t size = (uint32_t)kiln_dtype_size(dtype);
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        copy_pieces(w, dtype, &to, &from, size, size);
        to.constant += to.lane_stride;
        from.constant += from.lane_stride;
    }
}

bool kiln_walk_copy(kiln_walk *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &w->p->stmt.data[stmt];
    const kiln_buffer from = kiln_expr_get(w->p, s->value)->payload.id, to = s->buffer;
    const kiln_dtype dtype = w->p->buffer.data[to].dtype;
    const uint32_t size = (uint32_t)kiln_dtype_size(dtype), bytes = KILN_MAX(w->lanes, 1u) * size;
    if (!w->b->ops->copy || w->mask || w->p->buffer.data[to].scope != KILN_SCOPE_SHARED ||
        w->p->buffer.data[from].scope != KILN_SCOPE_GLOBAL)
        return false;
    w->stamp = ++w->last_stamp;
    const kiln_walk_address target = kiln_walk_address_of(w, to, kiln_walk_store_offset(w, stmt)),
                            source =
                                kiln_walk_address_of(w, from, kiln_walk_load_offset(w, s->value));
    uint32_t piece = PIECE_BYTES_MAX;
    while (bytes % piece != 0 || target.align % piece != 0 || source.align % piece != 0) piece /= 2;
    if (piece >= PIECE_BYTES_MIN && lies_together(w, &target) && lies_together(w, &source))
        copy_pieces(w, dtype, &target, &source, bytes, piece);
    else if (size >= PIECE_BYTES_MIN && target.linear && source.linear)
        copy_lanes(w, dtype, target, source);
    else
        return false;
    w->epoch[to]++;
    return true;
}

static uint32_t tokens_below(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    uint32_t set = s->kind == KILN_STMT_COPY ? 1u << s->token : 0;
    for (uint32_t i = 0; i < s->child.count; i++) set |= tokens_below(p, s->child.data[i]);
    return set;
}

uint32_t kiln_walk_copy_tokens(const kiln_program *p, kiln_stmt stmt) {
    uint32_t count = 0;
    for (uint32_t set = tokens_below(p, stmt); set; set &= set - 1) count++;
    return count;
}
