/* Asynchronous copies from global to shared memory. Lanes are copied in pieces of up to 16 bytes,
 * if both sides are contiguous and aligned to them; otherwise one by one.
 *
 * Loops of a producer that copy contiguous memory become one bulk copy, whose bytes the token of
 * the slot counts: rows of a tile without a swizzle. Fetches that are boxes (lower/boxes.h) become
 * copies of boxes, which one thread begins. */
#include "compiler-core/codegen/walk.h"

#define PIECE_BYTES_MAX 16
#define PIECE_BYTES_MIN 4
#define BULK_BYTES_MIN 32 /* smaller copies are done in pieces */
#define BULK_BYTES_STEP 16

/* Whether lanes of one side are contiguous. */
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

/* ---- bulk copies ----------------------------------------------------------------------------- */

/* Whether elements of the nest are contiguous: each loop steps over the whole range of those
 * inside. */
static bool is_row(const kiln_walk *w, const kiln_affine *offset, kiln_stmt nest) {
    const kiln_program *p = w->p;
    int64_t count = 1;
    for (kiln_stmt at = nest; p->stmt.data[at].kind == KILN_STMT_FOR;
         at = p->stmt.data[at].child.data[0])
        count *= p->stmt.data[at].extent;
    for (kiln_stmt at = nest; p->stmt.data[at].kind == KILN_STMT_FOR;
         at = p->stmt.data[at].child.data[0]) {
        const kiln_stmt_info *s = &p->stmt.data[at];
        count /= s->extent;
        for (uint32_t i = 0; i < offset->term_count; i++)
            if (kiln_expr_get(p, offset->term[i])->op != KILN_EXPR_VAR &&
                kiln_expr_uses_var(p, offset->term[i], s->var))
                return false;
        if (kiln_affine_coefficient(p, offset, s->var) != count) return false;
    }
    return true;
}

/* The COPY of the nest, if it is the nest's only statement and copies a row; else 0. */
static kiln_stmt find_row_copy(kiln_walk *w, kiln_stmt nest, uint64_t *out_bytes) {
    const kiln_program *p = w->p;
    kiln_stmt at = nest;
    *out_bytes = 1;
    for (; p->stmt.data[at].kind == KILN_STMT_FOR; at = p->stmt.data[at].child.data[0])
        *out_bytes *= (uint64_t)p->stmt.data[at].extent;
    if (at == nest || p->stmt.data[at].kind != KILN_STMT_COPY) return 0;
    *out_bytes *= kiln_dtype_size(p->buffer.data[p->stmt.data[at].buffer].dtype);
    return *out_bytes >= BULK_BYTES_MIN && *out_bytes % BULK_BYTES_STEP == 0 &&
                   is_row(w, kiln_walk_store_offset(w, at), nest) &&
                   is_row(w, kiln_walk_load_offset(w, p->stmt.data[at].value), nest)
               ? at
               : 0;
}

bool kiln_walk_has_bulk_copies(kiln_walk *w, kiln_stmt stmt) {
    uint64_t bytes;
    if (!w->b->ops->bulk_copy) return false;
    bool found = w->p->stmt.data[stmt].kind == KILN_STMT_FOR && find_row_copy(w, stmt, &bytes);
    for (uint32_t i = 0; i < w->p->stmt.data[stmt].child.count && !found; i++)
        found = kiln_walk_has_bulk_copies(w, w->p->stmt.data[stmt].child.data[i]);
    return found;
}

/* The address of the first element. */
static kiln_walk_address first_address(kiln_walk *w, kiln_stmt nest, kiln_buffer buffer,
                                       const kiln_affine *offset) {
    for (kiln_stmt at = nest; w->p->stmt.data[at].kind == KILN_STMT_FOR;
         at = w->p->stmt.data[at].child.data[0])
        kiln_walk_bind(w, w->p->stmt.data[at].var, w->p->stmt.data[at].first);
    w->stamp = ++w->last_stamp;
    const kiln_walk_address first = kiln_walk_address_of(w, buffer, offset);
    for (kiln_stmt at = nest; w->p->stmt.data[at].kind == KILN_STMT_FOR;
         at = w->p->stmt.data[at].child.data[0])
        kiln_walk_unbind(w, w->p->stmt.data[at].var);
    w->stamp = ++w->last_stamp;
    return first;
}

bool kiln_walk_bulk_copy(kiln_walk *w, kiln_stmt nest) {
    uint64_t bytes;
    if (!w->full || !w->has_bulk_copies || w->lanes || w->mask) return false;
    const kiln_stmt copy = find_row_copy(w, nest, &bytes);
    if (!copy) return false;
    const kiln_stmt_info *s = &w->p->stmt.data[copy];
    const kiln_buffer from = kiln_expr_get(w->p, s->value)->payload.id, to = s->buffer;
    const kiln_dtype dtype = w->p->buffer.data[to].dtype;
    const kiln_walk_address target = first_address(w, nest, to, kiln_walk_store_offset(w, copy)),
                            source =
                                first_address(w, nest, from, kiln_walk_load_offset(w, s->value));
    if (target.align % BULK_BYTES_STEP != 0 || source.align % BULK_BYTES_STEP != 0) return false;
    w->b->ops->token_expect(w->b, w->full, (uint32_t)bytes);
    w->b->ops->bulk_copy(w->b, kiln_walk_pointer(w, &target, dtype, 0),
                         kiln_walk_pointer(w, &source, dtype, 0), (uint32_t)bytes, w->full);
    w->epoch[to]++;
    return true;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

kiln_ssa kiln_walk_is_first_thread(kiln_walk *w) {
    kiln_ssa any = kiln_walk_i64(w, 0);
    for (uint32_t d = 0; d < 2; d++)
        if (w->launch->group_var[d])
            any = kiln_walk_compute(w, KILN_BUILD_OR, any, w->slot[w->launch->group_var[d]].value);
    return kiln_walk_compute(w, KILN_BUILD_EQ, any, kiln_walk_i64(w, 0));
}

/* The variables of a box's loops and of its threads, at their first values, and those before. */
typedef struct box_vars {
    uint32_t count;
    kiln_var var[KILN_WALK_LEVELS_MAX];
    kiln_walk_slot slot[KILN_WALK_LEVELS_MAX];
} box_vars;

static void bind_first(kiln_walk *w, kiln_var var, int64_t first, box_vars *vars) {
    vars->var[vars->count] = var;
    vars->slot[vars->count++] = w->slot[var];
    kiln_walk_bind(w, var, first);
}

static void bind_box(kiln_walk *w, const kiln_launch_box *box, box_vars *vars) {
    const kiln_program *p = w->p;
    for (uint32_t d = 0; d < 2; d++)
        if (w->launch->group_var[d]) bind_first(w, w->launch->group_var[d], 0, vars);
    for (kiln_stmt at = box->copy;; at = p->stmt.data[at].parent) {
        const kiln_stmt_info *s = &p->stmt.data[at];
        if (s->kind == KILN_STMT_FOR) bind_first(w, s->var, s->first, vars);
        if (at == box->nest) break;
    }
    w->stamp = ++w->last_stamp;
}

static void unbind_box(kiln_walk *w, const box_vars *vars) {
    for (uint32_t i = vars->count; i-- > 0;) {
        kiln_walk_unbind(w, vars->var[i]);
        w->slot[vars->var[i]] = vars->slot[i];
    }
    w->stamp = ++w->last_stamp;
}

/* The source's index at the box's first element, contiguous dimension first. */
static void find_coordinates(kiln_walk *w, const kiln_launch_box *box, kiln_box_copy *out) {
    kiln_program *p = w->p;
    const kiln_expr load = p->stmt.data[box->copy].value;
    out->rank = w->launch->map[box->map].rank;
    for (uint32_t i = 0; i < out->rank; i++) {
        kiln_expr index = kiln_expr_operand(p, load, out->rank - 1 - i);
        index = kiln_expr_simplify(p, kiln_expr_substitute(p, index, w->constant_of), NULL);
        out->coordinate[i] =
            kiln_walk_convert(w, KILN_CONVERT_SIGNED, kiln_walk_expr(w, index), KILN_SSA_I32);
    }
}

static kiln_ssa plus(kiln_walk *w, kiln_ssa v, kiln_ssa more) {
    return kiln_walk_compute(w, KILN_BUILD_ADD, v, more);
}

/* Moves the copy on to this group's part of each piece. */
static void go_to_part(kiln_walk *w, const kiln_launch_box *box, kiln_walk_address *target,
                       kiln_box_copy *copy) {
    const kiln_manifest_map *map = &w->launch->map[box->map];
    kiln_ssa rank = w->slot[w->launch->cluster_var].value, *at = &copy->coordinate[box->part_dim];
    kiln_ssa bytes =
        kiln_walk_compute(w, KILN_BUILD_MUL, rank, kiln_walk_i64(w, (int64_t)box->part_bytes));
    kiln_ssa rows =
        kiln_walk_compute(w, KILN_BUILD_MUL, rank, kiln_walk_i64(w, map->box[box->part_dim]));
    target->pointer = w->b->ops->offset(w->b, target->pointer, bytes);
    *at = plus(w, *at, kiln_walk_convert(w, KILN_CONVERT_SIGNED, rows, KILN_SSA_I32));
    copy->groups = w->launch->cluster;
}

static void copy_box(kiln_walk *w, const kiln_launch_box *box) {
    const kiln_manifest_map *map = &w->launch->map[box->map];
    const kiln_buffer to = w->p->stmt.data[box->copy].buffer;
    kiln_box_copy copy = {.map = w->map[box->map], .token = w->full, .groups = 1};
    box_vars vars = {.count = 0};
    bind_box(w, box, &vars);
    kiln_walk_address target = kiln_walk_address_of(w, to, kiln_walk_store_offset(w, box->copy));
    find_coordinates(w, box, &copy);
    if (box->is_shared) go_to_part(w, box, &target, &copy);
    kiln_ssa first = copy.coordinate[0];
    w->b->ops->token_expect(w->b, w->full, (uint32_t)(box->piece_bytes * box->piece_count));
    for (uint32_t i = 0; i < box->piece_count; i++) {
        const int64_t further = (int64_t)i * (int64_t)map->box[0];
        copy.to = kiln_walk_pointer(w, &target, map->dtype,
                                    (int64_t)(i * box->piece_bytes / map->stride_bytes[0]));
        copy.coordinate[0] = plus(w, first, kiln_walk_integer(w, first, further));
        w->b->ops->box_copy(w->b, &copy);
    }
    unbind_box(w, &vars);
    w->epoch[to]++;
}

bool kiln_walk_box(kiln_walk *w, kiln_stmt nest) {
    const kiln_launch_box *box = NULL;
    for (uint32_t i = 0; w->launch && i < w->launch->box_count; i++)
        if (w->launch->box[i].nest == nest) box = &w->launch->box[i];
    if (!box) return false;
    if (w->launch->boxes_alone) {
        copy_box(w, box);
        return true;
    }
    kiln_branch_handle branch = w->b->ops->branch_begin(w->b, kiln_walk_is_first_thread(w), false);
    copy_box(w, box);
    w->b->ops->branch_end(w->b, branch);
    return true;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

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
