/* Pieces of a group of four warps: the three loops in each thread that `tensorize` marked with an
 * instruction of owner GROUP become that instruction.
 *
 * Its operands are not in registers: descriptors give their places in shared memory, and the
 * instruction reads them asynchronously until the wait. So the rows and steps must lie there in a
 * form that descriptors can express: rows of 128 bytes with permuted units of 16, as `swizzle` in 8
 * ways makes of a temp whose rows have 128 bytes. Rows hold steps, or rows or columns of the
 * product; the latter as consecutive stretches of 64, as a layout "d1/64,d0,d1%64" makes.
 *
 * Instructions are begun one after another; the wait comes before the next other statement. */
#include "base/check.h"
#include "base/integer.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/ir/device.h"

typedef struct group_piece {
    const kiln_intrinsic *intrinsic;
    const kiln_stmt_info *rows, *columns, *steps;
    kiln_stmt store;
    kiln_expr before;                        /* load of the result */
    kiln_expr load[KILN_INTRINSIC_OPERANDS]; /* a, b */
} group_piece;

/* ---- finding --------------------------------------------------------------------------------- */

static uint32_t columns_of(const group_piece *u) {
    return (uint32_t)u->columns->extent * KILN_WARP_GROUP;
}

static bool find_piece(kiln_walk *w, kiln_stmt stmt, group_piece *u) {
    const kiln_program *p = w->p;
    kiln_stmt at;
    u->rows = &p->stmt.data[stmt];
    if (u->rows->extent != KILN_WARP_ROWS || !(u->columns = kiln_walk_loop_in(w, u->rows, &at)) ||
        !(u->steps = kiln_walk_loop_in(w, u->columns, &at)))
        return false;
    u->intrinsic = kiln_intrinsic_of_loop(p, at);
    if (!u->intrinsic || u->intrinsic->owner != KILN_INTRINSIC_GROUP || u->rows->first != 0 ||
        u->columns->first != 0 || u->steps->first != 0 || u->steps->extent != u->intrinsic->steps ||
        columns_of(u) > u->intrinsic->lanes || columns_of(u) % KILN_GROUP_COLUMNS != 0)
        return false;
    u->store = u->steps->child.data[0];
    const kiln_stmt_info *s = &p->stmt.data[u->store];
    if (s->kind != KILN_STMT_STORE || kiln_expr_get(p, s->value)->op != KILN_EXPR_ADD ||
        p->buffer.data[s->buffer].scope != KILN_SCOPE_REGISTER)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        u->before = kiln_expr_operand(p, s->value, i);
        const kiln_expr_node *node = kiln_expr_get(p, u->before);
        if (node->op == KILN_EXPR_LOAD && node->payload.id == s->buffer)
            return kiln_walk_is_uniform(w, stmt) &&
                   kiln_walk_find_operands(w, u->intrinsic, u->rows->var, u->columns->var,
                                           kiln_expr_operand(p, s->value, 1 - i), u->load);
    }
    return false;
}

bool kiln_walk_has_groups(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    const kiln_intrinsic *row = s->kind == KILN_STMT_FOR ? kiln_intrinsic_of_loop(p, stmt) : NULL;
    if (row && row->owner == KILN_INTRINSIC_GROUP) return true;
    for (uint32_t i = 0; i < s->child.count; i++)
        if (kiln_walk_has_groups(p, s->child.data[i])) return true;
    return false;
}

/* ---- indices as functions of rows and steps
 * ------------------------------------------------------ */

/* Values of the piece's variables at one row (or column) and step of the instruction. */
typedef struct place {
    kiln_var var[4]; /* lane, warp, rows or columns, steps */
    int64_t value[4];
} place;

static place place_of(const kiln_walk *w, const group_piece *u, uint32_t operand, uint32_t outer,
                      uint32_t step) {
    const uint32_t in_tile = outer % KILN_GROUP_COLUMNS, tile = outer / KILN_GROUP_COLUMNS;
    place at = {.var = {w->warp_lane, w->group_warp, u->columns->var, u->steps->var}};
    if (operand == 0) {
        at.var[2] = u->rows->var;
        at.value[0] = in_tile * KILN_WARP_GROUP;
        at.value[1] = tile / KILN_WARP_ROWS;
        at.value[2] = tile % KILN_WARP_ROWS;
    } else {
        at.value[0] = in_tile / KILN_WARP_COLUMNS;
        at.value[2] = tile * KILN_WARP_COLUMNS + in_tile % KILN_WARP_COLUMNS;
    }
    at.value[3] = step;
    return at;
}

static bool is_of_piece(const kiln_walk *w, kiln_expr e, const place *at) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(at->var); i++)
        if (kiln_expr_uses_var(w->p, e, at->var[i])) return true;
    return false;
}

static bool value_at(const kiln_walk *w, kiln_expr e, const place *at, int64_t *out) {
    const kiln_var_values values = {KILN_ARRAY_COUNT(at->var), at->var, at->value};
    return kiln_expr_value(w->p, e, &values, out);
}

/* An index as the sum of a part outside of the piece and the piece's part. */
typedef struct counted {
    int64_t multiple; /* the outside part is a multiple of this; 0: it is 0 */
    kiln_affine inside;
} counted;

static bool count_index(kiln_walk *w, kiln_expr index, const place *any, counted *out) {
    kiln_affine all;
    if (!kiln_affine_of(w->p, index, NULL, &all)) return false;
    *out = (counted){.multiple = all.constant};
    for (uint32_t i = 0; i < all.term_count; i++) {
        if (is_of_piece(w, all.term[i], any)) {
            out->inside.term[out->inside.term_count] = all.term[i];
            out->inside.coefficient[out->inside.term_count++] = all.coefficient[i];
        } else {
            out->multiple = kiln_gcd(out->multiple, all.coefficient[i]);
        }
    }
    return true;
}

static bool inside_at(const kiln_walk *w, const counted *c, const place *at, int64_t *out) {
    *out = 0;
    for (uint32_t i = 0; i < c->inside.term_count; i++) {
        int64_t value;
        if (!value_at(w, c->inside.term[i], at, &value)) return false;
        *out += value * c->inside.coefficient[i];
    }
    return true;
}

/* Whether the index counts only rows, or with `steps` only steps. No term has both kinds of
 * variables, so that they can be checked separately. */
static bool counts(const kiln_walk *w, const group_piece *u, uint32_t operand, const counted *c,
                   bool steps) {
    const uint32_t rows = operand == 0 ? u->intrinsic->rows : columns_of(u);
    for (uint32_t i = 0; i < rows + u->intrinsic->steps; i++) {
        const bool is_step = i >= rows;
        const place at =
            place_of(w, u, operand, is_step ? 0 : i, is_step ? (uint32_t)(i - rows) : 0);
        const int64_t wanted = steps != is_step ? 0 : is_step ? i - rows : i;
        int64_t value;
        if (!inside_at(w, c, &at, &value) || value != wanted) return false;
    }
    for (uint32_t i = 0; i < c->inside.term_count; i++)
        if (steps != kiln_expr_uses_var(w->p, c->inside.term[i], u->steps->var)) return false;
    return true;
}

/* ---- operands in memory ---------------------------------------------------------------------- */

static bool is_multiple(const counted *c, int64_t of) { return c->multiple % of == 0; }

/* The two innermost pieces of a layout: units of 16 bytes of `dim`, permuted by rows of `row`; then
 * all of `row`. */
static bool has_exchanged_rows(const kiln_layout *layout, const kiln_shape *places, uint32_t dim,
                               uint32_t row, int64_t unit) {
    const uint32_t n = layout->piece_count;
    if (n < 3) return false;
    const kiln_layout_piece *in_unit = &layout->piece[n - 1], *units = &layout->piece[n - 2],
                            *rows = &layout->piece[n - 3];
    return in_unit->dim == dim && in_unit->divisor == 1 && in_unit->modulus == unit &&
           !in_unit->pitch && !in_unit->xor_modulus && units->dim == dim &&
           units->divisor == unit && places->dim[n - 2] == KILN_GROUP_WAYS && !units->pitch &&
           units->xor_modulus == KILN_GROUP_WAYS && units->xor_dim == row &&
           units->xor_divisor == 1 && rows->dim == row && rows->divisor == 1 && !rows->modulus &&
           !rows->pitch && !rows->xor_modulus && places->dim[n - 3] % KILN_GROUP_WAYS == 0;
}

/* Rows of steps: outside the rows of 128 bytes are other stretches of steps. */
static bool describe_steps(const kiln_layout *layout, const kiln_shape *places, uint32_t rows_dim,
                           uint32_t steps_dim, int64_t unit, kiln_group_operand *out) {
    out->is_transposed = false;
    out->leading_bytes = KILN_GROUP_UNIT_BYTES; /* unused */
    out->stride_bytes = KILN_GROUP_ATOM_BYTES;
    return has_exchanged_rows(layout, places, steps_dim, rows_dim, unit);
}

/* Rows of 64 rows (or columns) of the product, one for each step; the next 64 lie behind those of
 * all steps. */
static bool describe_transposed(const kiln_layout *layout, const kiln_shape *places,
                                uint32_t rows_dim, uint32_t steps_dim, int64_t unit,
                                uint32_t row_count, kiln_group_operand *out) {
    const uint32_t n = layout->piece_count;
    const int64_t in_row = unit * KILN_GROUP_WAYS;
    if (!has_exchanged_rows(layout, places, rows_dim, steps_dim, unit)) return false;
    const int64_t leading = places->dim[n - 3] * KILN_GROUP_ROW_BYTES;
    out->is_transposed = true;
    out->stride_bytes = KILN_GROUP_ATOM_BYTES;
    out->leading_bytes = (uint32_t)leading;
    if (row_count <= in_row) return true;
    return n > 3 && leading < KILN_GROUP_BYTES_MAX && layout->piece[n - 4].dim == rows_dim &&
           layout->piece[n - 4].divisor == in_row && !layout->piece[n - 4].modulus;
}

/* Describes the operand, without its address. */
static bool describe_operand(kiln_walk *w, const group_piece *u, uint32_t operand,
                             kiln_group_operand *out) {
    const kiln_expr load = u->load[operand];
    const kiln_buffer_info *b = &w->p->buffer.data[kiln_expr_get(w->p, load)->payload.id];
    const place any = place_of(w, u, operand, 0, 0);
    const int64_t unit = KILN_GROUP_UNIT_BYTES / (int64_t)kiln_dtype_size(b->dtype);
    const uint32_t row_count = operand == 0 ? u->intrinsic->rows : columns_of(u);
    uint32_t rows_dim = UINT32_MAX, steps_dim = UINT32_MAX;
    counted rows = {0}, steps = {0};
    if (b->scope != KILN_SCOPE_SHARED) return false;
    for (uint32_t d = 0; d < b->shape.rank; d++) {
        counted c;
        if (!count_index(w, kiln_expr_operand(w->p, load, d), &any, &c)) return false;
        if (c.inside.term_count == 0) continue;
        if (rows_dim == UINT32_MAX && counts(w, u, operand, &c, false)) {
            rows_dim = d;
            rows = c;
        } else if (steps_dim == UINT32_MAX && counts(w, u, operand, &c, true)) {
            steps_dim = d;
            steps = c;
        } else {
            return false;
        }
    }
    if (rows_dim == UINT32_MAX || steps_dim == UINT32_MAX) return false;
    const kiln_shape places = kiln_layout_physical(&b->layout, &b->shape);
    if (is_multiple(&rows, KILN_GROUP_WAYS) && is_multiple(&steps, u->intrinsic->steps) &&
        describe_steps(&b->layout, &places, rows_dim, steps_dim, unit, out))
        return true;
    return is_multiple(&rows, unit * KILN_GROUP_WAYS) && is_multiple(&steps, KILN_GROUP_WAYS) &&
           describe_transposed(&b->layout, &places, rows_dim, steps_dim, unit, row_count, out);
}

static void find_address(kiln_walk *w, const group_piece *u, uint32_t operand,
                         kiln_group_operand *out) {
    const place first = place_of(w, u, operand, 0, 0);
    kiln_expr *value = KILN_ARENA_ARRAY(w->arena, kiln_expr, w->p->var.count);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(first.var); i++)
        value[first.var[i]] = kiln_expr_index(w->p, first.value[i]);
    const kiln_expr load =
        kiln_expr_simplify(w->p, kiln_expr_substitute(w->p, u->load[operand], value), NULL);
    const kiln_buffer buffer = kiln_expr_get(w->p, load)->payload.id;
    w->stamp = ++w->last_stamp;
    const kiln_walk_address at = kiln_walk_address_of(w, buffer, kiln_walk_load_offset(w, load));
    out->pointer = kiln_walk_pointer(w, &at, w->p->buffer.data[buffer].dtype, 0);
}

uint64_t kiln_group_descriptor(const kiln_group_operand *operand) {
    const uint64_t swizzle_128_bytes = 1;
    return (uint64_t)(operand->leading_bytes / 16) << 16 |
           (uint64_t)(operand->stride_bytes / 16) << 32 | swizzle_128_bytes << 62;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The element of the result for sum number `r` of this thread. */
static int64_t element_of(kiln_walk *w, const group_piece *u, uint32_t r) {
    const uint32_t tile = r / KILN_WARP_REGISTERS, in_tile = r % KILN_WARP_REGISTERS;
    kiln_walk_bind(w, u->rows->var, u->rows->first + in_tile / KILN_WARP_COLUMNS);
    kiln_walk_bind(w, u->columns->var,
                   u->columns->first + tile * KILN_WARP_COLUMNS + in_tile % KILN_WARP_COLUMNS);
    kiln_walk_bind(w, u->steps->var, u->steps->first);
    w->stamp = ++w->last_stamp;
    return kiln_walk_constant_offset(w, kiln_walk_store_offset(w, u->store), 0);
}

/* The position of the piece's sums among those in flight, in its order; UINT32_MAX: they are not
 * there. */
static uint32_t find_in_flight(const kiln_walk *w, kiln_buffer buffer, const int64_t *element,
                               uint32_t count) {
    for (uint32_t first = 0; first + count <= w->in_flight.count; first += count) {
        uint32_t same = 0;
        while (same < count && w->in_flight.data[first + same].buffer == buffer &&
               w->in_flight.data[first + same].element == element[same])
            same++;
        if (same == count) return first;
    }
    return UINT32_MAX;
}

/* Whether all pieces in flight have the same number of sums, and none shares only some of its sums
 * with another. */
static bool fits_in_flight(const kiln_walk *w, kiln_buffer buffer, const int64_t *element,
                           uint32_t count) {
    if (w->in_flight.count % count != 0) return false;
    for (uint32_t i = 0; i < w->in_flight.count; i++)
        for (uint32_t r = 0; r < count; r++)
            if (w->in_flight.data[i].buffer == buffer && w->in_flight.data[i].element == element[r])
                return false;
    return true;
}

/* Puts the piece's sums in flight, and returns their position. */
static uint32_t begin_sums(kiln_walk *w, const group_piece *u, const int64_t *element,
                           uint32_t count) {
    const kiln_buffer buffer = w->p->stmt.data[u->store].buffer;
    uint32_t first = find_in_flight(w, buffer, element, count);
    if (first != UINT32_MAX) return first;
    if (!fits_in_flight(w, buffer, element, count)) kiln_walk_group_wait(w);
    kiln_ssa *sum = KILN_ARENA_ARRAY(w->arena, kiln_ssa, count);
    for (uint32_t r = 0; r < count; r++) {
        element_of(w, u, r);
        sum[r] = kiln_walk_expr(w, u->before);
    }
    w->b->ops->group_begin(w->b, sum, count);
    first = (uint32_t)w->in_flight.count;
    for (uint32_t r = 0; r < count; r++) {
        const kiln_walk_sum one = {buffer, element[r], sum[r]};
        kiln_vec_push_in(w->arena, &w->in_flight, one);
    }
    return first;
}

bool kiln_walk_group(kiln_walk *w, kiln_stmt stmt) {
    group_piece u;
    kiln_group_operand operand[KILN_INTRINSIC_OPERANDS];
    if (!w->group_warp || !w->has_groups || w->lanes || !find_piece(w, stmt, &u) ||
        !describe_operand(w, &u, 0, &operand[0]) || !describe_operand(w, &u, 1, &operand[1]))
        return false;
    for (uint32_t i = 0; i < KILN_INTRINSIC_OPERANDS; i++) find_address(w, &u, i, &operand[i]);
    const uint32_t count = columns_of(&u) / KILN_WARP_COLUMNS;
    int64_t *element = KILN_ARENA_ARRAY(w->arena, int64_t, count);
    kiln_ssa *sum = KILN_ARENA_ARRAY(w->arena, kiln_ssa, count);
    for (uint32_t r = 0; r < count; r++) element[r] = element_of(w, &u, r);
    const uint32_t first = begin_sums(w, &u, element, count);
    for (uint32_t r = 0; r < count; r++) sum[r] = w->in_flight.data[first + r].value;
    w->b->ops->group_product(w->b, u.intrinsic, columns_of(&u), operand, sum);
    for (uint32_t r = 0; r < count; r++) w->in_flight.data[first + r].value = sum[r];
    kiln_walk_unbind(w, u.rows->var);
    kiln_walk_unbind(w, u.columns->var);
    kiln_walk_unbind(w, u.steps->var);
    w->stamp = ++w->last_stamp;
    return true;
}

void kiln_walk_group_wait(kiln_walk *w) {
    const uint32_t count = (uint32_t)w->in_flight.count;
    if (count == 0) return;
    kiln_ssa *sum = KILN_ARENA_ARRAY(w->arena, kiln_ssa, count);
    for (uint32_t i = 0; i < count; i++) sum[i] = w->in_flight.data[i].value;
    w->b->ops->group_wait(w->b, sum, count);
    w->in_flight.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const kiln_walk_sum *one = &w->in_flight.data[i];
        kiln_walk_registers_put(w, one->buffer, &one->element, 1, sum[i]);
    }
    w->stamp = ++w->last_stamp;
}
