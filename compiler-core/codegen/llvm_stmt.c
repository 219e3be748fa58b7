/* Statements and loops: a walk over the lowered program that appends to the function being written.
 */
#include "base/check.h"
#include "compiler-core/codegen/llvm_emit.h"

/* ---- levels ---------------------------------------------------------------------------------- */

void kiln_llvm_push_level(kiln_llvm_emitter *e) {
    KILN_CHECK(e->level_count < KILN_LLVM_LEVELS_MAX);
    kiln_llvm_level *level = e->level[e->level_count];
    if (!level) level = e->level[e->level_count] = KILN_ARENA_NEW(e->arena, kiln_llvm_level);
    kiln_llvm_table_pop(&level->known, 1);
    level->pointer.count = 0;
    level->counter = NULL;
    level->marker = LLVMBuildFreeze(e->builder, kiln_llvm_i64(e, 0), "");
    e->level_count++;
}

/* The loop's counter and where it starts, for the level just pushed. */
static void set_counter(kiln_llvm_emitter *e, LLVMValueRef counter, LLVMValueRef first,
                        LLVMBasicBlockRef preheader) {
    kiln_llvm_level *level = e->level[e->level_count - 1];
    level->counter = counter;
    level->first = first;
    level->preheader = preheader;
}

static void step_pointers(kiln_llvm_emitter *e, LLVMBasicBlockRef latch) {
    const kiln_llvm_level *level = e->level[e->level_count - 1];
    for (uint32_t i = 0; i < level->pointer.count; i++) {
        LLVMValueRef step = kiln_llvm_i64(e, level->pointer.data[i].step_bytes),
                     phi = level->pointer.data[i].phi;
        LLVMValueRef next = LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), phi, &step, 1, "");
        LLVMAddIncoming(phi, &next, &latch, 1);
    }
}

void kiln_llvm_pop_level(kiln_llvm_emitter *e) {
    LLVMInstructionEraseFromParent(e->level[--e->level_count]->marker);
}

/* ---- register buffers across control flow ---------------------------------------------------- */

/* Buffers stored to below `stmt`, as a byte per buffer. */
static void collect_stored(const kiln_program *p, kiln_stmt stmt, bool *stored) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_STORE) stored[s->buffer] = true;
    for (uint32_t i = 0; i < s->child.count; i++) collect_stored(p, s->child.data[i], stored);
}

static const bool *stored_below(kiln_llvm_emitter *e, kiln_stmt stmt) {
    bool *stored = KILN_ARENA_ARRAY(e->arena, bool, e->p->buffer.count);
    collect_stored(e->p, stmt, stored);
    return stored;
}

/* After code that may run again or not at all, what memory of these buffers held is no longer
 * known. */
static void forget_loads(kiln_llvm_emitter *e, const bool *stored) {
    for (uint32_t b = 1; b < e->p->buffer.count; b++) e->epoch[b] += stored[b];
}

static bool is_carried(const kiln_llvm_emitter *e, const bool *stored, kiln_buffer b) {
    return stored[b] && e->registers[b].live;
}

/* A chunk and its value where control flow joined or will join. */
typedef struct carried {
    LLVMValueRef *slot, value;
} carried;
typedef KILN_VEC(carried) carried_list;

static LLVMTypeRef slot_type(kiln_llvm_emitter *e, kiln_buffer b) {
    LLVMTypeRef scalar = kiln_llvm_compute_type(e, e->p->buffer.data[b].dtype);
    return e->registers[b].width == 1 ? scalar : LLVMVectorType(scalar, e->registers[b].width);
}

/* One phi per chunk of each register buffer that the loop writes and that outlives it. */
static carried_list begin_carried(kiln_llvm_emitter *e, const bool *stored,
                                  LLVMBasicBlockRef preheader) {
    carried_list list = {0};
    for (kiln_buffer b = 1; b < e->p->buffer.count; b++) {
        if (!is_carried(e, stored, b)) continue;
        LLVMTypeRef type = slot_type(e, b);
        for (uint32_t i = 0; i < e->registers[b].chunk_count; i++) {
            LLVMValueRef *slot = &e->registers[b].chunk[i],
                         before = *slot ? *slot : LLVMGetPoison(type);
            LLVMValueRef phi = LLVMBuildPhi(e->builder, type, "");
            LLVMAddIncoming(phi, &before, &preheader, 1);
            *slot = phi;
            kiln_vec_push_in(e->arena, &list, ((carried){slot, phi}));
        }
    }
    return list;
}

static void end_carried(const carried_list *list, LLVMBasicBlockRef latch) {
    for (uint32_t i = 0; i < list->count; i++)
        LLVMAddIncoming(list->data[i].value, list->data[i].slot, &latch, 1);
}

/* ---- loops ----------------------------------------------------------------------------------- */

void kiln_llvm_bind(kiln_llvm_emitter *e, kiln_var var, int64_t value) {
    e->slot[var] = (kiln_llvm_slot){.binding = KILN_LLVM_CONSTANT, .constant = value};
    e->constant_of[var] = kiln_expr_index(e->p, value);
}

void kiln_llvm_unbind(kiln_llvm_emitter *e, kiln_var var) {
    e->slot[var] = (kiln_llvm_slot){0};
    e->constant_of[var] = 0;
}

static void emit_unrolled(kiln_llvm_emitter *e, const kiln_stmt_info *s) {
    for (int64_t i = 0; i < s->extent; i++) {
        kiln_llvm_bind(e, s->var, s->first + i);
        kiln_llvm_stmt(e, s->child.data[0]);
    }
    kiln_llvm_unbind(e, s->var);
}

static void emit_vector(kiln_llvm_emitter *e, const kiln_stmt_info *s) {
    e->slot[s->var] = (kiln_llvm_slot){.binding = KILN_LLVM_LANES, .constant = s->first};
    e->lanes = (uint32_t)s->extent;
    e->lane_var = s->var;
    kiln_llvm_stmt(e, s->child.data[0]);
    e->lanes = 0;
    e->lane_var = 0;
    kiln_llvm_unbind(e, s->var);
}

void kiln_llvm_counted(kiln_llvm_emitter *e, kiln_stmt stmt, LLVMValueRef first, LLVMValueRef end) {
    kiln_stmt body = e->p->stmt.data[stmt].child.data[0];
    kiln_var var = e->p->stmt.data[stmt].var;
    const bool *stored = stored_below(e, body);
    LLVMBasicBlockRef preheader = LLVMGetInsertBlock(e->builder),
                      block = kiln_llvm_append_block(e, ""), exit;
    LLVMBuildBr(e->builder, block);
    LLVMPositionBuilderAtEnd(e->builder, block);
    LLVMValueRef counter = LLVMBuildPhi(e->builder, kiln_llvm_int(e, 64), "");
    LLVMAddIncoming(counter, &first, &preheader, 1);
    carried_list list = begin_carried(e, stored, preheader);

    e->slot[var] =
        (kiln_llvm_slot){.binding = KILN_LLVM_SERIAL, .value = counter, .level = e->level_count};
    kiln_llvm_push_level(e);
    set_counter(e, counter, first, preheader);
    uint32_t mark = kiln_llvm_table_mark(&e->loads);
    forget_loads(e, stored);
    kiln_llvm_prefetch(e, stmt);
    kiln_llvm_stmt(e, body);
    forget_loads(e, stored);
    kiln_llvm_table_pop(&e->loads, mark);

    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
    step_pointers(e, latch);
    LLVMValueRef next = LLVMBuildNSWAdd(e->builder, counter, kiln_llvm_i64(e, 1), "");
    LLVMValueRef again = LLVMBuildICmp(e->builder, LLVMIntNE, next, end, "");
    exit = kiln_llvm_append_block(e, "");
    LLVMBuildCondBr(e->builder, again, block, exit);
    LLVMAddIncoming(counter, &next, &latch, 1);
    end_carried(&list, latch);
    kiln_llvm_pop_level(e);
    kiln_llvm_unbind(e, var);
    LLVMPositionBuilderAtEnd(e->builder, exit);
}

/* ---- statements ------------------------------------------------------------------------------ */

static void emit_parallel(kiln_llvm_emitter *e, kiln_stmt stmt) {
    kiln_llvm_parallel(e, stmt);
    forget_loads(e, stored_below(e, stmt));
}

static void emit_for(kiln_llvm_emitter *e, kiln_stmt stmt) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    if (s->extent <= 0 || kiln_llvm_tensor(e, stmt)) return;
    bool vector = s->loop_kind == KILN_LOOP_VECTORIZE && e->lanes == 0;
    bool unrolled = s->loop_kind == KILN_LOOP_UNROLL || s->loop_kind == KILN_LOOP_VECTORIZE;
    if (s->extent == 1 || (unrolled && !vector))
        emit_unrolled(e, s);
    else if (vector)
        emit_vector(e, s);
    else if (s->loop_kind == KILN_LOOP_PARALLEL && e->lanes == 0 && !e->in_parallel)
        emit_parallel(e, stmt);
    else
        kiln_llvm_counted(e, stmt, kiln_llvm_i64(e, s->first),
                          kiln_llvm_i64(e, s->first + s->extent));
}

typedef struct then_branch {
    kiln_stmt child;
    LLVMBasicBlockRef end; /* where the branch leaves the child */
} then_branch;

static LLVMValueRef then_side(kiln_llvm_emitter *e, void *context) {
    then_branch *branch = context;
    kiln_llvm_stmt(e, branch->child);
    branch->end = LLVMGetInsertBlock(e->builder);
    return NULL;
}

/* Runs the child where the uniform i1 holds; register buffers that it writes are joined afterwards.
 */
static void emit_branch(kiln_llvm_emitter *e, LLVMValueRef condition, kiln_stmt child) {
    const bool *stored = stored_below(e, child);
    carried_list list = {0};
    for (kiln_buffer b = 1; b < e->p->buffer.count; b++) {
        if (!is_carried(e, stored, b)) continue;
        for (uint32_t i = 0; i < e->registers[b].chunk_count; i++) {
            LLVMValueRef *slot = &e->registers[b].chunk[i];
            if (!*slot) *slot = LLVMGetPoison(slot_type(e, b));
            kiln_vec_push_in(e->arena, &list, ((carried){slot, *slot}));
        }
    }
    then_branch branch = {.child = child};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    kiln_llvm_branch(e, condition, then_side, NULL, &branch);
    for (uint32_t i = 0; i < list.count; i++) {
        LLVMValueRef *slot = list.data[i].slot, old = list.data[i].value;
        if (*slot == old) continue;
        LLVMValueRef phi = LLVMBuildPhi(e->builder, LLVMTypeOf(old), "");
        LLVMAddIncoming(phi, (LLVMValueRef[]){old, *slot},
                        (LLVMBasicBlockRef[]){before, branch.end}, 2);
        *slot = phi;
    }
    forget_loads(e, stored);
}

static void emit_masked(kiln_llvm_emitter *e, LLVMValueRef condition, kiln_stmt child) {
    LLVMValueRef outer = e->mask;
    e->mask = outer ? LLVMBuildAnd(e->builder, outer, condition, "") : condition;
    kiln_llvm_stmt(e, child);
    e->mask = outer;
}

static void emit_if(kiln_llvm_emitter *e, const kiln_stmt_info *s) {
    e->stamp = ++e->last_stamp;
    LLVMValueRef condition = kiln_llvm_expr(e, s->condition);
    if (LLVMIsAConstantInt(condition)) {
        if (LLVMConstIntGetZExtValue(condition)) kiln_llvm_stmt(e, s->child.data[0]);
    } else if (kiln_llvm_is_vector(condition)) {
        emit_masked(e, condition, s->child.data[0]);
    } else {
        emit_branch(e, condition, s->child.data[0]);
    }
}

static void emit_alloc(kiln_llvm_emitter *e, kiln_stmt stmt) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    kiln_buffer b = s->buffer;
    if (e->p->buffer.data[b].scope == KILN_SCOPE_REGISTER) {
        kiln_llvm_registers_begin(e, b, stmt);
        kiln_llvm_stmt(e, e->p->stmt.data[stmt].child.data[0]);
        kiln_llvm_registers_end(e, b);
        return;
    }
    e->data[b] = kiln_llvm_scratch(e, b);
    e->epoch[b]++;
    kiln_llvm_stmt(e, s->child.data[0]);
    e->data[b] = NULL;
}

/* c + a * b of a sum reduction becomes one multiply-add: the schedule fixes the order of the sum,
 * the target how a step is rounded. */
static LLVMValueRef multiply_add(kiln_llvm_emitter *e, const kiln_stmt_info *s) {
    const kiln_program *p = e->p;
    const kiln_expr_node *sum = kiln_expr_get(p, s->value);
    if (sum->op != KILN_EXPR_ADD || !kiln_dtype_is_float(sum->dtype)) return NULL;
    kiln_expr side[2] = {kiln_expr_operand(p, s->value, 0), kiln_expr_operand(p, s->value, 1)};
    for (uint32_t i = 0; i < 2; i++) {
        const kiln_expr_node *old = kiln_expr_get(p, side[i]),
                             *product = kiln_expr_get(p, side[1 - i]);
        if (old->op != KILN_EXPR_LOAD || old->payload.id != s->buffer ||
            product->op != KILN_EXPR_MUL)
            continue;
        LLVMValueRef v[3] = {kiln_llvm_expr(e, kiln_expr_operand(p, side[1 - i], 0)),
                             kiln_llvm_expr(e, kiln_expr_operand(p, side[1 - i], 1)),
                             kiln_llvm_expr(e, side[i])};
        for (uint32_t at = 0; e->lanes && at < 3; at++) {
            bool any =
                kiln_llvm_is_vector(v[0]) || kiln_llvm_is_vector(v[1]) || kiln_llvm_is_vector(v[2]);
            if (any) v[at] = kiln_llvm_splat(e, v[at], e->lanes);
        }
        return kiln_llvm_fma(e, v[0], v[1], v[2]);
    }
    return NULL;
}

static void emit_store(kiln_llvm_emitter *e, kiln_stmt stmt) {
    const kiln_stmt_info s = e->p->stmt.data[stmt];
    e->stamp = ++e->last_stamp;
    LLVMValueRef value = multiply_add(e, &s);
    if (!value) value = kiln_llvm_expr(e, s.value);
    kiln_llvm_store(e, stmt, value);
}

void kiln_llvm_stmt(kiln_llvm_emitter *e, kiln_stmt stmt) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_SEQ:
        for (uint32_t i = 0; i < s->child.count; i++) kiln_llvm_stmt(e, s->child.data[i]);
        return;
    case KILN_STMT_FOR: emit_for(e, stmt); return;
    case KILN_STMT_IF: emit_if(e, s); return;
    case KILN_STMT_ALLOC: emit_alloc(e, stmt); return;
    case KILN_STMT_STORE: emit_store(e, stmt); return;
    case KILN_STMT_BLOCK:
    case KILN_STMT_BARRIER:
    case KILN_STMT_TOKEN_PUSH:
    case KILN_STMT_TOKEN_POP:
    case KILN_STMT_KIND_COUNT: break;
    }
    KILN_CHECK(s->kind == KILN_STMT_STORE); /* lowering leaves no other kind */
}
