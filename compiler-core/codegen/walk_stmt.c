/* Statements and loops: a walk over the lowered program that appends to the function being written.
 */
#include <math.h>

#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/ir/device.h"

/* ---- levels ---------------------------------------------------------------------------------- */

void kiln_walk_push_level(kiln_walk *w, kiln_loop_handle loop, kiln_ssa counter) {
    KILN_CHECK(w->level_count < KILN_WALK_LEVELS_MAX);
    kiln_walk_level *level = w->level[w->level_count];
    if (!level) level = w->level[w->level_count] = KILN_ARENA_NEW(w->arena, kiln_walk_level);
    kiln_walk_table_pop(&level->known, 1);
    level->loop = loop;
    level->counter = counter;
    level->mark = w->b->ops->open_mark(w->b);
    w->level_count++;
}

void kiln_walk_pop_level(kiln_walk *w) {
    w->b->ops->close_mark(w->b, w->level[--w->level_count]->mark);
}

/* ---- register buffers across control flow ---------------------------------------------------- */

/* Adds buffers that other threads of the launch may have written before a barrier or token. */
static void add_shared(const kiln_walk *w, bool *stored) {
    for (kiln_buffer b = 1; w->written && b < w->p->buffer.count; b++)
        stored[b] |=
            w->written[b] && kiln_scopes[w->p->buffer.data[b].scope].seen_by != KILN_SEEN_BY_THREAD;
}

static void collect_stored(const kiln_walk *w, kiln_stmt stmt, bool *stored) {
    const kiln_stmt_info *s = &w->p->stmt.data[stmt];
    if (!kiln_walk_is_of_unit(w, stmt)) return;
    if (s->kind == KILN_STMT_STORE || s->kind == KILN_STMT_COPY) stored[s->buffer] = true;
    if (kiln_stmt_is_step(w->p, stmt)) add_shared(w, stored);
    for (uint32_t i = 0; i < s->child.count; i++) collect_stored(w, s->child.data[i], stored);
}

const bool *kiln_walk_stored_below(kiln_walk *w, kiln_stmt stmt) {
    bool *stored = KILN_ARENA_ARRAY(w->arena, bool, w->p->buffer.count);
    collect_stored(w, stmt, stored);
    return stored;
}

/* Drops known loads of these buffers after code that may be repeated or skipped. */
static void forget_loads(kiln_walk *w, const bool *stored) {
    for (uint32_t b = 1; b < w->p->buffer.count; b++) w->epoch[b] += stored[b];
}

static bool is_carried(const kiln_walk *w, const bool *stored, kiln_buffer b) {
    return stored[b] && w->registers[b].live;
}

/* Chunks that are written in a loop and used behind it. */
typedef KILN_VEC(kiln_ssa *) carried_list;

static carried_list find_carried(kiln_walk *w, const bool *stored) {
    carried_list list = {0};
    for (kiln_buffer b = 1; b < w->p->buffer.count; b++) {
        if (!is_carried(w, stored, b)) continue;
        for (uint32_t i = 0; i < w->registers[b].chunk_count; i++) {
            kiln_ssa *chunk = &w->registers[b].chunk[i];
            if (!*chunk) *chunk = w->b->ops->poison(w->b, kiln_walk_chunk_type(w, b));
            kiln_vec_push_in(w->arena, &list, chunk);
        }
    }
    return list;
}

static kiln_ssa *values_of(kiln_walk *w, const carried_list *list) {
    kiln_ssa *value = KILN_ARENA_ARRAY(w->arena, kiln_ssa, list->count + 1);
    for (uint32_t i = 0; i < list->count; i++) value[i] = *list->data[i];
    return value;
}

/* ---- loops ----------------------------------------------------------------------------------- */

void kiln_walk_bind(kiln_walk *w, kiln_var var, int64_t value) {
    w->slot[var] = (kiln_walk_slot){.binding = KILN_WALK_CONSTANT, .constant = value};
    w->constant_of[var] = kiln_expr_index(w->p, value);
}

void kiln_walk_unbind(kiln_walk *w, kiln_var var) {
    w->slot[var] = (kiln_walk_slot){0};
    w->constant_of[var] = 0;
}

/* Whether unrolled copies and lanes are the rows and columns of a square that is stored as a
 * whole. */
static bool is_square(const kiln_walk *w, const kiln_stmt_info *s) {
    const kiln_stmt_info *stmt = w->p->stmt.data, *vector = &stmt[s->child.data[0]];
    return w->lanes == 0 && s->extent > 1 && vector->kind == KILN_STMT_FOR &&
           vector->loop_kind == KILN_LOOP_VECTORIZE && vector->extent == s->extent &&
           stmt[vector->child.data[0]].kind == KILN_STMT_STORE;
}

static void emit_unrolled(kiln_walk *w, const kiln_stmt_info *s) {
    w->square = is_square(w, s) ? s : NULL;
    for (int64_t i = 0; i < s->extent; i++) {
        kiln_walk_bind(w, s->var, s->first + i);
        kiln_walk_stmt(w, s->child.data[0]);
    }
    kiln_walk_unbind(w, s->var);
    w->square = NULL;
}

void kiln_walk_open_lanes(kiln_walk *w, kiln_stmt loop) {
    const kiln_stmt_info *s = &w->p->stmt.data[loop];
    w->slot[s->var] = (kiln_walk_slot){.binding = KILN_WALK_LANES, .constant = s->first};
    w->lanes = (uint32_t)s->extent;
    w->lane_var = s->var;
    w->combines = kiln_stmt_combines_lanes(w->p, loop);
}

void kiln_walk_close_lanes(kiln_walk *w) {
    kiln_walk_unbind(w, w->lane_var);
    w->lanes = 0;
    w->lane_var = 0;
    w->combines = false;
}

static void emit_vector(kiln_walk *w, kiln_stmt stmt) {
    kiln_walk_open_lanes(w, stmt);
    kiln_walk_stmt(w, w->p->stmt.data[stmt].child.data[0]);
    kiln_walk_close_lanes(w);
}

void kiln_walk_counted(kiln_walk *w, kiln_stmt stmt, kiln_ssa first, kiln_ssa end) {
    kiln_stmt body = w->p->stmt.data[stmt].child.data[0];
    kiln_var var = w->p->stmt.data[stmt].var;
    const bool *stored = kiln_walk_stored_below(w, body);
    kiln_ssa counter;
    kiln_walk_group_wait(w);
    carried_list list = find_carried(w, stored);
    kiln_loop_handle loop = w->b->ops->loop_begin(w->b, first, &counter);
    for (uint32_t i = 0; i < list.count; i++)
        *list.data[i] = w->b->ops->loop_carry(w->b, loop, *list.data[i]);

    w->slot[var] =
        (kiln_walk_slot){.binding = KILN_WALK_SERIAL, .value = counter, .level = w->level_count};
    kiln_walk_push_level(w, loop, counter);
    uint32_t mark = kiln_walk_table_mark(&w->loads);
    forget_loads(w, stored);
    kiln_walk_tiles_forget(w);
    kiln_walk_prefetch(w, stmt);
    kiln_walk_stmt(w, body);
    kiln_walk_group_wait(w);
    forget_loads(w, stored);
    kiln_walk_tiles_forget(w);
    kiln_walk_table_pop(&w->loads, mark);

    kiln_ssa *carried = values_of(w, &list);
    w->b->ops->loop_end(w->b, loop, end, carried);
    for (uint32_t i = 0; i < list.count; i++) *list.data[i] = carried[i];
    kiln_walk_pop_level(w);
    kiln_walk_unbind(w, var);
}

/* ---- statements ------------------------------------------------------------------------------ */

static void emit_for(kiln_walk *w, kiln_stmt stmt);

/* The loops of a producer whose fetches are all boxes, for one of its threads. */
static bool emit_for_one_thread(kiln_walk *w, kiln_stmt stmt) {
    if (!w->launch || !w->launch->boxes_alone || w->unit != KILN_UNIT_LOAD || w->is_one)
        return false;
    kiln_branch_handle branch = w->b->ops->branch_begin(w->b, kiln_walk_is_first_thread(w), false);
    w->is_one = true;
    emit_for(w, stmt);
    w->is_one = false;
    w->b->ops->branch_end(w->b, branch);
    return true;
}

static void emit_parallel(kiln_walk *w, kiln_stmt stmt) {
    kiln_walk_parallel(w, stmt);
    forget_loads(w, kiln_walk_stored_below(w, stmt));
}

static void emit_for(kiln_walk *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &w->p->stmt.data[stmt];
    if (s->extent <= 0 || emit_for_one_thread(w, stmt) || kiln_walk_tile_nest(w, stmt) ||
        kiln_walk_tensor(w, stmt) || kiln_walk_warp(w, stmt) || kiln_walk_group(w, stmt) ||
        kiln_walk_bulk_copy(w, stmt))
        return;
    bool vector = s->loop_kind == KILN_LOOP_VECTORIZE && w->lanes == 0;
    bool unrolled = s->loop_kind == KILN_LOOP_UNROLL || s->loop_kind == KILN_LOOP_VECTORIZE;
    if (s->extent == 1 || (unrolled && !vector))
        emit_unrolled(w, s);
    else if (vector)
        emit_vector(w, stmt);
    else if (s->loop_kind == KILN_LOOP_PARALLEL && w->lanes == 0 && !w->in_parallel)
        emit_parallel(w, stmt);
    else
        kiln_walk_counted(w, stmt, kiln_walk_i64(w, s->first),
                          kiln_walk_i64(w, s->first + s->extent));
}

/* Runs the child where the uniform `condition` holds; register buffers that it writes are joined
 * afterwards. */
static void emit_branch(kiln_walk *w, kiln_ssa condition, kiln_stmt child) {
    const bool *stored = kiln_walk_stored_below(w, child);
    carried_list list = find_carried(w, stored);
    kiln_ssa *old = values_of(w, &list);
    kiln_branch_handle branch = w->b->ops->branch_begin(w->b, condition, false);
    uint32_t mark = kiln_walk_table_mark(&w->loads);
    kiln_walk_stmt(w, child);
    kiln_walk_group_wait(w);
    kiln_walk_table_pop(&w->loads, mark); /* known there only */
    w->b->ops->branch_end(w->b, branch);
    for (uint32_t i = 0; i < list.count; i++) {
        kiln_ssa *chunk = list.data[i];
        if (*chunk != old[i]) *chunk = w->b->ops->branch_join(w->b, branch, *chunk, old[i]);
    }
    forget_loads(w, stored);
    kiln_walk_tiles_forget(w);
}

static void emit_masked(kiln_walk *w, kiln_ssa condition, kiln_stmt child) {
    kiln_ssa outer = w->mask;
    w->mask = outer ? kiln_walk_compute(w, KILN_BUILD_AND, outer, condition) : condition;
    kiln_walk_stmt(w, child);
    w->mask = outer;
}

/* In copies of an unrolled loop the condition is usually constant. */
static void emit_if(kiln_walk *w, const kiln_stmt_info *s) {
    kiln_expr here = kiln_expr_substitute(w->p, s->condition, w->constant_of);
    w->stamp = ++w->last_stamp;
    kiln_ssa condition = kiln_walk_expr(w, kiln_expr_simplify(w->p, here, NULL));
    int64_t known;
    if (w->b->ops->known_integer(w->b, condition, &known)) {
        if (known) kiln_walk_stmt(w, s->child.data[0]);
    } else if (kiln_walk_is_vector(w, condition)) {
        emit_masked(w, condition, s->child.data[0]);
    } else {
        emit_branch(w, condition, s->child.data[0]);
    }
}

static void emit_alloc(kiln_walk *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &w->p->stmt.data[stmt];
    kiln_buffer b = s->buffer;
    if (w->p->buffer.data[b].scope == KILN_SCOPE_REGISTER) {
        kiln_walk_registers_begin(w, b, stmt);
        kiln_walk_stmt(w, w->p->stmt.data[stmt].child.data[0]);
        kiln_walk_group_wait(w);
        kiln_walk_registers_end(w, b);
        return;
    }
    const bool is_placed = w->data[b] != NULL; /* temps of launches are placed at the start */
    if (!is_placed) w->data[b] = kiln_walk_scratch(w, b);
    w->epoch[b]++;
    kiln_walk_tiles *around = w->tiles_here;
    if (w->p->buffer.data[b].scope == KILN_SCOPE_TILE) kiln_walk_tiles_alloc(w, stmt);
    kiln_walk_stmt(w, w->p->stmt.data[stmt].child.data[0]);
    w->tiles_here = around;
    if (!is_placed) w->data[b] = NULL;
}

/* c + a * b of a sum reduction becomes one multiply-add: the schedule fixes the order of the sum,
 * the target the rounding of a step. */
static kiln_ssa multiply_add(kiln_walk *w, const kiln_stmt_info *s) {
    const kiln_program *p = w->p;
    const kiln_expr_node *sum = kiln_expr_get(p, s->value);
    if (sum->op != KILN_EXPR_ADD || !kiln_dtype_is_float(sum->dtype)) return NULL;
    kiln_expr side[2] = {kiln_expr_operand(p, s->value, 0), kiln_expr_operand(p, s->value, 1)};
    for (uint32_t i = 0; i < 2; i++) {
        const kiln_expr_node *old = kiln_expr_get(p, side[i]),
                             *product = kiln_expr_get(p, side[1 - i]);
        if (old->op != KILN_EXPR_LOAD || old->payload.id != s->buffer ||
            product->op != KILN_EXPR_MUL)
            continue;
        kiln_ssa v[3] = {kiln_walk_expr(w, kiln_expr_operand(p, side[1 - i], 0)),
                         kiln_walk_expr(w, kiln_expr_operand(p, side[1 - i], 1)),
                         kiln_walk_expr(w, side[i])};
        for (uint32_t at = 0; w->lanes && at < 3; at++) {
            bool any = kiln_walk_is_vector(w, v[0]) || kiln_walk_is_vector(w, v[1]) ||
                       kiln_walk_is_vector(w, v[2]);
            if (any) v[at] = kiln_walk_splat(w, v[at], w->lanes);
        }
        return kiln_walk_fma(w, v[0], v[1], v[2]);
    }
    return NULL;
}

/* The operand of the popcount in `e`, a popcount in i32 with or without a factor; 0: it is
 * something else. `*out_factor` 0: no factor. */
static kiln_expr counted_ones(const kiln_program *p, kiln_expr e, kiln_expr *out_factor) {
    kiln_expr side[2] = {e, 0};
    if (kiln_expr_get(p, e)->op == KILN_EXPR_MUL)
        for (uint32_t i = 0; i < 2; i++) side[i] = kiln_expr_operand(p, e, i);
    for (uint32_t i = 0; i < 2 && side[i]; i++) {
        const kiln_expr_node *node = kiln_expr_get(p, side[i]);
        if (node->op != KILN_EXPR_CAST || node->dtype != KILN_I32) continue;
        const kiln_expr count = kiln_expr_operand(p, side[i], 0);
        if (kiln_expr_get(p, count)->op != KILN_EXPR_POPCOUNT ||
            kiln_expr_get(p, count)->dtype != KILN_U32)
            continue;
        *out_factor = side[1 - i];
        return kiln_expr_operand(p, count, 0);
    }
    return 0;
}

/* c + popcount(x) * factor of a sum reduction, if the target has an instruction for it. */
static kiln_ssa add_ones(kiln_walk *w, const kiln_stmt_info *s) {
    const kiln_program *p = w->p;
    if (!w->b->ops->add_ones || w->lanes == 0 || kiln_expr_get(p, s->value)->op != KILN_EXPR_ADD)
        return NULL;
    for (uint32_t i = 0; i < 2; i++) {
        const kiln_expr old = kiln_expr_operand(p, s->value, i);
        const kiln_expr_node *node = kiln_expr_get(p, old);
        kiln_expr factor = 0;
        if (node->op != KILN_EXPR_LOAD || node->payload.id != s->buffer) continue;
        const kiln_expr what = counted_ones(p, kiln_expr_operand(p, s->value, 1 - i), &factor);
        int64_t by = 1;
        if (!what || (factor && !w->b->ops->known_integer(w->b, kiln_walk_expr(w, factor), &by)) ||
            by < INT8_MIN || by > INT8_MAX)
            continue;
        kiln_ssa v = kiln_walk_expr(w, what), sum = kiln_walk_expr(w, old);
        if (!kiln_walk_is_vector(w, v) || !kiln_walk_is_vector(w, sum)) return NULL;
        return w->b->ops->add_ones(w->b, sum, v, by);
    }
    return NULL;
}

/* Whether `e` is a number of the lane, lane 0 being `*out_first`, as an i64 or cast from one. */
static bool numbers_lanes(kiln_walk *w, kiln_expr e, int64_t *out_first) {
    const kiln_program *p = w->p;
    while (kiln_expr_get(p, e)->op == KILN_EXPR_CAST) e = kiln_expr_operand(p, e, 0);
    kiln_affine form;
    kiln_ssa base;
    int64_t stride;
    return kiln_expr_get(p, e)->dtype == KILN_INDEX_DTYPE && kiln_affine_of(w->p, e, NULL, &form) &&
           kiln_walk_linear(w, &form, &base, out_first, &stride) && !base && stride == 1;
}

/* c + select(x, 1 << lane, 0) over all lanes: the sum is the mask as bits. NULL: it is another
 * sum. */
static kiln_ssa lanes_as_bits(kiln_walk *w, const kiln_stmt_info *s) {
    const kiln_program *p = w->p;
    const kiln_expr term = kiln_expr_operand(p, s->value, 1);
    const kiln_expr_node *node = kiln_expr_get(p, term);
    int64_t value, first;
    if (!w->b->ops->bits_of_lanes || kiln_expr_get(p, s->value)->op != KILN_EXPR_ADD ||
        node->op != KILN_EXPR_SELECT || node->dtype != KILN_U32 || w->lanes < 8 ||
        !kiln_expr_as_int(p, kiln_expr_operand(p, term, 2), &value) || value != 0)
        return NULL;
    const kiln_expr bit = kiln_expr_operand(p, term, 1);
    if (kiln_expr_get(p, bit)->op != KILN_EXPR_SHL ||
        !kiln_expr_as_int(p, kiln_expr_operand(p, bit, 0), &value) || value != 1 ||
        !numbers_lanes(w, kiln_expr_operand(p, bit, 1), &first) || first < 0 ||
        first + w->lanes > 32)
        return NULL;
    kiln_ssa mask = kiln_walk_expr(w, kiln_expr_operand(p, term, 0));
    if (!kiln_walk_is_vector(w, mask)) return NULL;
    kiln_ssa bits = w->b->ops->bits_of_lanes(w->b, mask);
    bits = kiln_walk_convert(w, KILN_CONVERT_UNSIGNED, bits, KILN_SSA_I32);
    return kiln_walk_compute(w, KILN_BUILD_SHL, bits, kiln_walk_integer(w, bits, first));
}

/* c op (x in all lanes): halves of the lanes are combined until one is left. */
static kiln_ssa halves_of_lanes(kiln_walk *w, const kiln_stmt_info *s) {
    kiln_ssa lanes =
        kiln_walk_splat(w, kiln_walk_expr(w, kiln_expr_operand(w->p, s->value, 1)), w->lanes);
    int32_t number[KILN_LOWER_LANES_MAX];
    for (uint32_t i = 0; i < w->lanes; i++) number[i] = (int32_t)i;
    for (uint32_t half = w->lanes / 2; half > 0; half /= 2) {
        kiln_ssa side[2] = {w->b->ops->shuffle(w->b, lanes, NULL, number, half),
                            w->b->ops->shuffle(w->b, lanes, NULL, number + half, half)};
        lanes = kiln_walk_apply(w, s->value, side);
    }
    return kiln_walk_extract(w, lanes, 0);
}

static kiln_ssa combined_lanes(kiln_walk *w, const kiln_stmt_info *s) {
    KILN_CHECK(!w->mask); /* the primitive refuses such loops */
    kiln_ssa lanes = lanes_as_bits(w, s);
    if (!lanes) lanes = halves_of_lanes(w, s);
    const uint32_t together = w->lanes;
    w->lanes = 0;
    kiln_ssa last[2] = {kiln_walk_expr(w, kiln_expr_operand(w->p, s->value, 0)), lanes};
    kiln_ssa value = kiln_walk_apply(w, s->value, last);
    w->lanes = together;
    return value;
}

static void count_load(kiln_program *p, kiln_expr load, void *context) {
    (void)p, (void)load;
    ++*(uint32_t *)context;
}

static uint32_t count_loads(const kiln_walk *w, kiln_expr e) {
    uint32_t count = 0;
    kiln_expr_visit_loads(w->p, e, 0, count_load, &count);
    return count;
}

/* Whether `e` is an unchanged half from memory, or zero, and does not depend on data otherwise. */
static bool is_moved(const kiln_walk *w, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(w->p, e);
    switch ((kiln_expr_op)node->op) {
    case KILN_EXPR_LOAD:
        return w->p->buffer.data[node->payload.id].scope != KILN_SCOPE_REGISTER &&
               count_loads(w, e) == 1;
    case KILN_EXPR_FLOAT: return node->payload.f == 0 && !signbit(node->payload.f);
    case KILN_EXPR_SELECT:
        return count_loads(w, kiln_expr_operand(w->p, e, 0)) == 0 &&
               is_moved(w, kiln_expr_operand(w->p, e, 1)) &&
               is_moved(w, kiln_expr_operand(w->p, e, 2));
    default: return false;
    }
}

/* Whether the store is of halves, or of smaller floats, in memory. */
static bool stores_halves(const kiln_walk *w, const kiln_stmt_info *s) {
    const kiln_buffer_info *to = &w->p->buffer.data[s->buffer];
    return to->scope != KILN_SCOPE_REGISTER && kiln_dtype_is_float(to->dtype) &&
           kiln_dtype_size(to->dtype) <= 2;
}

/* The value before a rounding to such a type, which the store repeats; else the value itself. */
static kiln_expr before_rounding(const kiln_walk *w, const kiln_stmt_info *s) {
    if (kiln_expr_get(w->p, s->value)->op != KILN_EXPR_CAST) return s->value;
    const kiln_expr before = kiln_expr_operand(w->p, s->value, 0);
    return kiln_expr_get(w->p, before)->dtype == KILN_F32 ? before : s->value;
}

static void emit_store(kiln_walk *w, kiln_stmt stmt) {
    kiln_stmt_info s = w->p->stmt.data[stmt];
    w->stamp = ++w->last_stamp;
    if (stores_halves(w, &s)) {
        w->moves = is_moved(w, s.value);
        s.value = before_rounding(w, &s);
    }
    kiln_ssa value = w->combines ? combined_lanes(w, &s) : multiply_add(w, &s);
    if (!value) value = add_ones(w, &s);
    if (!value) value = kiln_walk_expr(w, s.value);
    const kiln_attribute *exchange = kiln_stmt_attribute(w->p, stmt, KILN_ATTRIBUTE_EXCHANGE);
    if (exchange) value = w->b->ops->exchange(w->b, value, exchange->row);
    kiln_walk_store(w, stmt, value);
    w->moves = false;
}

void kiln_walk_barrier(kiln_walk *w) {
    if (w->has_groups) w->b->ops->group_fence(w->b);
    w->b->ops->barrier(w->b);
}

void kiln_walk_stmt(kiln_walk *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &w->p->stmt.data[stmt];
    if (!kiln_walk_is_of_unit(w, stmt) || kiln_walk_box(w, stmt)) return;
    if (s->kind != KILN_STMT_SEQ && s->kind != KILN_STMT_FOR && s->kind != KILN_STMT_ALLOC)
        kiln_walk_group_wait(w);
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_SEQ:
        for (uint32_t i = 0; i < s->child.count; i++) kiln_walk_stmt(w, s->child.data[i]);
        return;
    case KILN_STMT_FOR: emit_for(w, stmt); return;
    case KILN_STMT_IF: emit_if(w, s); return;
    case KILN_STMT_ALLOC: emit_alloc(w, stmt); return;
    case KILN_STMT_STORE: emit_store(w, stmt); return;
    case KILN_STMT_BARRIER:
        kiln_walk_barrier(w);
        forget_loads(w, kiln_walk_stored_below(w, stmt));
        return;
    case KILN_STMT_COPY:
        if (!kiln_walk_copy(w, stmt)) emit_store(w, stmt);
        return;
    case KILN_STMT_COMMIT:
        if (w->b->ops->copy) w->b->ops->copy_commit(w->b);
        return;
    case KILN_STMT_WAIT:
        if (w->b->ops->copy) w->b->ops->copy_wait(w->b, w->copy_tokens > 1 ? 0 : s->pending);
        return;
    case KILN_STMT_TOKEN_PUSH:
    case KILN_STMT_TOKEN_POP:
        kiln_walk_token(w, stmt);
        forget_loads(w, kiln_walk_stored_below(w, stmt));
        return;
    case KILN_STMT_BLOCK:
    case KILN_STMT_KIND_COUNT: break;
    }
    KILN_CHECK(s->kind == KILN_STMT_STORE); /* lowering leaves no other kind */
}
