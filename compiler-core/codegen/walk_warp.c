/* Pieces of a warp: the three loops in each thread that `tensorize` marked with an instruction of
 * owner WARP become that instruction.
 *
 * Each thread holds words of both operands for other threads' products (fragments.def). So the
 * index of an operand's element is computed for other values of the thread's number and of the
 * loops: for the row and step in its register, not for those of its own sums. Operands in shared
 * memory with contiguous rows of 16 bytes are loaded by ldmatrix, others word by word, or element
 * by element if steps are not contiguous.
 *
 * Rows and columns of the instruction need not be neighbours in memory: row r is in the threads of
 * group r % 8 in iteration r / 8. */
#include "base/check.h"
#include "compiler-core/codegen/walk.h"

#define GROUPS (KILN_WARP_LANES / KILN_WARP_GROUP)
#define WORD_BYTES 4
#define MATRIX_WORDS 4 /* words in a row of ldmatrix */
#define MATRIX_ROWS 8
#define MATRIX_ROW_BYTES (MATRIX_WORDS * WORD_BYTES)

typedef struct warp_piece {
    const kiln_intrinsic *intrinsic;
    const kiln_stmt_info *rows, *columns, *steps;
    kiln_stmt store;
    kiln_expr before;                        /* load of the result */
    kiln_expr load[KILN_INTRINSIC_OPERANDS]; /* a, b */
} warp_piece;

/* ---- finding --------------------------------------------------------------------------------- */

static bool asks_thread(const kiln_walk *w, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(w->p, e);
    if (node->op == KILN_EXPR_LOAD) return true; /* the loaded value may differ between threads */
    if (node->op == KILN_EXPR_VAR) return node->payload.id == w->warp_lane;
    for (uint32_t i = 0; i < node->operand_count; i++)
        if (asks_thread(w, kiln_expr_operand(w->p, e, i))) return true;
    return false;
}

bool kiln_walk_is_uniform(const kiln_walk *w, kiln_stmt stmt) {
    for (; stmt; stmt = w->p->stmt.data[stmt].parent)
        if (w->p->stmt.data[stmt].kind == KILN_STMT_IF &&
            asks_thread(w, w->p->stmt.data[stmt].condition))
            return false;
    return true;
}

const kiln_stmt_info *kiln_walk_loop_in(const kiln_walk *w, const kiln_stmt_info *outer,
                                        kiln_stmt *out) {
    *out = outer->child.data[0];
    const kiln_stmt_info *s = &w->p->stmt.data[*out];
    return s->kind == KILN_STMT_FOR ? s : NULL;
}

bool kiln_walk_find_operands(kiln_walk *w, const kiln_intrinsic *row, kiln_var rows,
                             kiln_var columns, kiln_expr value,
                             kiln_expr load[KILN_INTRINSIC_OPERANDS]) {
    kiln_expr found[KILN_INTRINSIC_OPERANDS];
    if (!kiln_intrinsic_matches(kiln_walk_meaning(w, row), w->p, value, found)) return false;
    for (uint32_t a = 0; a < KILN_INTRINSIC_OPERANDS; a++) {
        load[0] = found[a];
        load[1] = found[1 - a];
        if ((a == 0 || row->operand[0] == row->operand[1]) &&
            !kiln_expr_uses_var(w->p, load[0], columns) &&
            !kiln_expr_uses_var(w->p, load[1], rows) &&
            kiln_intrinsic_asks_lane(w->p, load[0], w->warp_lane, true) &&
            kiln_intrinsic_asks_lane(w->p, load[1], w->warp_lane, false))
            return true;
    }
    return false;
}

static bool find_piece(kiln_walk *w, kiln_stmt stmt, warp_piece *u) {
    const kiln_program *p = w->p;
    kiln_stmt at;
    u->rows = &p->stmt.data[stmt];
    if (u->rows->extent != KILN_WARP_ROWS || !(u->columns = kiln_walk_loop_in(w, u->rows, &at)) ||
        u->columns->extent != KILN_WARP_COLUMNS ||
        !(u->steps = kiln_walk_loop_in(w, u->columns, &at)))
        return false;
    u->intrinsic = kiln_intrinsic_of_loop(p, at);
    if (!u->intrinsic || u->intrinsic->owner != KILN_INTRINSIC_WARP ||
        u->steps->extent != u->intrinsic->steps)
        return false;
    u->store = u->steps->child.data[0];
    const kiln_stmt_info *s = &p->stmt.data[u->store];
    if (s->kind != KILN_STMT_STORE || kiln_expr_get(p, s->value)->op != KILN_EXPR_ADD) return false;
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

/* ---- places of an operand's elements --------------------------------------------------------- */

static kiln_expr index_of(kiln_walk *w, int64_t value) { return kiln_expr_index(w->p, value); }

static kiln_expr quotient(kiln_walk *w, kiln_expr e, int64_t by) {
    return kiln_expr_binary(w->p, KILN_EXPR_FLOORDIV, e, index_of(w, by));
}

static kiln_expr remainder_of(kiln_walk *w, kiln_expr e, int64_t by) {
    return kiln_expr_binary(w->p, KILN_EXPR_FLOORMOD, e, index_of(w, by));
}

static kiln_expr sum_of(kiln_walk *w, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(w->p, KILN_EXPR_ADD, a, b);
}

/* A map of fragments.def. */
static kiln_expr mapped(kiln_walk *w, const uint32_t factor[4], const kiln_expr of[4]) {
    kiln_expr sum = index_of(w, 0);
    for (uint32_t i = 0; i < 4; i++)
        if (factor[i])
            sum = sum_of(w, sum,
                         kiln_expr_binary(w->p, KILN_EXPR_MUL, of[i], index_of(w, factor[i])));
    return sum;
}

/* The operand's element at a row, or for b a column, and a step of the instruction. */
static kiln_walk_address element_at(kiln_walk *w, const warp_piece *u, uint32_t operand,
                                    kiln_expr outer, kiln_expr step) {
    kiln_expr *value = KILN_ARENA_ARRAY(w->arena, kiln_expr, w->p->var.count);
    if (operand == 0) {
        value[w->warp_lane] = kiln_expr_binary(w->p, KILN_EXPR_MUL, remainder_of(w, outer, GROUPS),
                                               index_of(w, KILN_WARP_GROUP));
        value[u->rows->var] = quotient(w, outer, GROUPS);
    } else {
        value[w->warp_lane] = quotient(w, outer, KILN_WARP_COLUMNS);
        value[u->columns->var] = remainder_of(w, outer, KILN_WARP_COLUMNS);
    }
    value[u->steps->var] = step;
    kiln_expr load =
        kiln_expr_simplify(w->p, kiln_expr_substitute(w->p, u->load[operand], value), NULL);
    w->stamp = ++w->last_stamp;
    return kiln_walk_address_of(w, kiln_expr_get(w->p, load)->payload.id,
                                kiln_walk_load_offset(w, load));
}

/* Whether `count` elements from there on are contiguous along steps, or with `across` along rows or
 * columns. */
static bool lie_together(kiln_walk *w, const warp_piece *u, uint32_t operand, kiln_expr outer,
                         kiln_expr step, bool across, uint32_t count) {
    const kiln_walk_address first = element_at(w, u, operand, outer, step);
    for (uint32_t i = 1; i < count; i++) {
        const kiln_expr by = index_of(w, i);
        const kiln_walk_address at =
            element_at(w, u, operand, across ? sum_of(w, outer, by) : outer,
                       across ? step : sum_of(w, step, by));
        if (!at.linear || at.pointer != first.pointer || at.constant != first.constant + i)
            return false;
    }
    return first.linear;
}

static kiln_buffer buffer_of(const kiln_walk *w, const warp_piece *u, uint32_t operand) {
    return kiln_expr_get(w->p, u->load[operand])->payload.id;
}

static const kiln_fragment *fragment_of(uint32_t operand) {
    return &kiln_fragments[operand == 0 ? KILN_FRAGMENT_A : KILN_FRAGMENT_B];
}

/* ---- loading --------------------------------------------------------------------------------- */

/* The key of a register loaded from there; valid until the buffer is written. */
static void key_of(const kiln_walk *w, kiln_buffer buffer, const kiln_walk_address *at,
                   uint32_t number, uint64_t out[4]) {
    out[0] = (uint64_t)buffer << 32 | w->epoch[buffer];
    out[1] = (uint64_t)(uintptr_t)at->pointer;
    out[2] = (uint64_t)at->constant;
    out[3] = UINT64_MAX - (UINT32_MAX + (uint64_t)number);
}

/* A register in the form of the instruction. */
static kiln_ssa prepared(kiln_walk *w, const warp_piece *u, kiln_ssa word) {
    if (!kiln_intrinsic_rounds(u->intrinsic)) return word;
    kiln_ssa value = kiln_walk_convert(w, KILN_CONVERT_BITS, word, KILN_SSA_F32);
    value = kiln_walk_math(w, KILN_EXPR_TF32, &value);
    return kiln_walk_convert(w, KILN_CONVERT_BITS, value, KILN_SSA_I32);
}

/* All registers of an operand by ldmatrix: thread l names row l % 8 of matrix l / 8. */
static bool load_matrices(kiln_walk *w, const warp_piece *u, uint32_t operand,
                          kiln_ssa reg[KILN_WARP_REGISTERS]) {
    const kiln_fragment *f = fragment_of(operand);
    const kiln_buffer buffer = buffer_of(w, u, operand);
    const kiln_dtype dtype = w->p->buffer.data[buffer].dtype;
    const uint32_t word = kiln_intrinsic_word(u->intrinsic);
    kiln_expr lane = kiln_expr_var(w->p, w->warp_lane), row = remainder_of(w, lane, MATRIX_ROWS),
              matrix = remainder_of(w, quotient(w, lane, MATRIX_ROWS), f->registers);
    if (!w->b->ops->load_matrices || w->p->buffer.data[buffer].scope != KILN_SCOPE_SHARED)
        return false;
    for (uint32_t transposed = 0; transposed < 2; transposed++) {
        const kiln_expr zero = index_of(w, 0),
                        of[4] = {transposed ? zero : row, zero, remainder_of(w, matrix, 2),
                                 quotient(w, matrix, 2)};
        kiln_expr outer = mapped(w, f->outer, of);
        kiln_expr step =
            kiln_expr_binary(w->p, KILN_EXPR_MUL, mapped(w, f->word, of), index_of(w, word));
        if (transposed) step = sum_of(w, step, row);
        if ((transposed && kiln_dtype_size(dtype) != 2) ||
            !lie_together(w, u, operand, outer, step, transposed, MATRIX_WORDS * word))
            continue;
        const kiln_walk_address at = element_at(w, u, operand, outer, step);
        if (at.align < MATRIX_ROW_BYTES) continue;
        uint64_t key[4];
        key_of(w, buffer, &at, 1 + transposed * KILN_WARP_REGISTERS, key);
        if (!kiln_walk_table_find(&w->loads, key)) {
            w->b->ops->load_matrices(w->b, kiln_walk_pointer(w, &at, dtype, 0), f->registers,
                                     transposed, reg);
            for (uint32_t r = 0; r < f->registers; r++, key[3]--)
                kiln_walk_table_put(w, &w->loads, key, prepared(w, u, reg[r]));
        }
        key_of(w, buffer, &at, 1 + transposed * KILN_WARP_REGISTERS, key);
        for (uint32_t r = 0; r < f->registers; r++, key[3]--)
            reg[r] = kiln_walk_table_find(&w->loads, key);
        return true;
    }
    return false;
}

/* One register: its elements are loaded together, or else one by one. */
static kiln_ssa load_word(kiln_walk *w, const warp_piece *u, uint32_t operand, uint32_t number) {
    const kiln_fragment *f = fragment_of(operand);
    const kiln_buffer buffer = buffer_of(w, u, operand);
    const kiln_dtype dtype = w->p->buffer.data[buffer].dtype;
    const uint32_t bytes = (uint32_t)kiln_dtype_size(dtype),
                   word = kiln_intrinsic_word(u->intrinsic);
    kiln_expr lane = kiln_expr_var(w->p, w->warp_lane);
    const kiln_expr of[4] = {quotient(w, lane, KILN_WARP_GROUP),
                             remainder_of(w, lane, KILN_WARP_GROUP), index_of(w, number % 2),
                             index_of(w, number / 2)};
    kiln_expr outer = mapped(w, f->outer, of),
              step =
                  kiln_expr_binary(w->p, KILN_EXPR_MUL, mapped(w, f->word, of), index_of(w, word));
    const kiln_walk_address first = element_at(w, u, operand, outer, step);
    uint64_t key[4];
    key_of(w, buffer, &first, 0, key);
    kiln_ssa value = kiln_walk_table_find(&w->loads, key);
    if (value) return value;
    if (word == 1 ||
        (first.align >= WORD_BYTES && lie_together(w, u, operand, outer, step, false, word))) {
        value = w->b->ops->load(w->b, kiln_type_scalar(KILN_SSA_I32),
                                kiln_walk_pointer(w, &first, dtype, 0), WORD_BYTES, NULL);
    } else {
        for (uint32_t i = 0; i < word; i++) {
            const kiln_walk_address at =
                element_at(w, u, operand, outer, sum_of(w, step, index_of(w, i)));
            kiln_ssa part =
                w->b->ops->load(w->b, kiln_type_scalar(bytes == 1 ? KILN_SSA_I8 : KILN_SSA_I16),
                                kiln_walk_pointer(w, &at, dtype, 0), bytes, NULL);
            part = kiln_walk_convert(w, KILN_CONVERT_UNSIGNED, part, KILN_SSA_I32);
            if (i)
                part = kiln_walk_compute(w, KILN_BUILD_SHL, part,
                                         kiln_walk_integer(w, part, (int64_t)(i * bytes * 8)));
            value = i ? kiln_walk_compute(w, KILN_BUILD_OR, value, part) : part;
        }
    }
    value = prepared(w, u, value);
    kiln_walk_table_put(w, &w->loads, key, value);
    return value;
}

static void load_operand(kiln_walk *w, const warp_piece *u, uint32_t operand,
                         kiln_ssa reg[KILN_WARP_REGISTERS]) {
    if (load_matrices(w, u, operand, reg)) return;
    for (uint32_t r = 0; r < fragment_of(operand)->registers; r++)
        reg[r] = load_word(w, u, operand, r);
}

/* ---- the instruction ------------------------------------------------------------------------- */

/* Makes sum number `r` of this thread the current one. */
static void open_sum(kiln_walk *w, const warp_piece *u, uint32_t r) {
    kiln_walk_bind(w, u->rows->var, u->rows->first + r / 2);
    kiln_walk_bind(w, u->columns->var, u->columns->first + r % 2);
    kiln_walk_bind(w, u->steps->var, u->steps->first);
    w->stamp = ++w->last_stamp;
}

bool kiln_walk_warp(kiln_walk *w, kiln_stmt stmt) {
    warp_piece u;
    kiln_ssa a[KILN_WARP_REGISTERS], b[KILN_WARP_REGISTERS], sum[KILN_WARP_REGISTERS];
    if (!w->warp_lane || !w->b->ops->warp_product || w->lanes || !find_piece(w, stmt, &u))
        return false;
    load_operand(w, &u, 0, a);
    load_operand(w, &u, 1, b);
    for (uint32_t r = 0; r < KILN_WARP_REGISTERS; r++) {
        open_sum(w, &u, r);
        sum[r] = kiln_walk_expr(w, u.before);
    }
    w->b->ops->warp_product(w->b, u.intrinsic, a, b, sum);
    for (uint32_t r = 0; r < KILN_WARP_REGISTERS; r++) {
        open_sum(w, &u, r);
        kiln_walk_store(w, u.store, sum[r]);
    }
    kiln_walk_unbind(w, u.rows->var);
    kiln_walk_unbind(w, u.columns->var);
    kiln_walk_unbind(w, u.steps->var);
    w->stamp = ++w->last_stamp;
    return true;
}
