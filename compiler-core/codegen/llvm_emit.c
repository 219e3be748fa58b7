/* Functions, loops and statements: a walk over the lowered program that appends to LLVM functions.
 */
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/llvm_emit.h"

static void emit_stmt(kiln_llvm_emitter *e, kiln_stmt stmt);

static uint64_t round_up(uint64_t bytes) {
    return (bytes + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
}

/* ---- the plan of scratch memory -------------------------------------------------------------- */

/* Temps that live at different times share memory: an allocation begins where those around it end.
 */
static void plan_scratch(kiln_llvm_emitter *e, kiln_stmt stmt, uint64_t used, bool in_parallel) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    bool in_memory =
        s->kind == KILN_STMT_ALLOC && e->p->buffer.data[s->buffer].scope != KILN_SCOPE_REGISTER;
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_PARALLEL && !in_parallel) {
        in_parallel = true;
        used = 0;
    }
    if (in_memory) {
        const kiln_buffer_info *info = &e->p->buffer.data[s->buffer];
        kiln_shape physical = kiln_layout_physical(&info->layout, &info->shape);
        e->scratch_offset[s->buffer] = used;
        used =
            round_up(used + (uint64_t)kiln_shape_count(&physical) * kiln_dtype_size(info->dtype));
        uint64_t *total = in_parallel ? &e->worker_bytes : &e->scratch_bytes;
        *total = KILN_MAX(*total, used);
    }
    for (uint32_t i = 0; i < s->child.count; i++)
        plan_scratch(e, s->child.data[i], used, in_parallel);
}

/* ---- functions ------------------------------------------------------------------------------- */

static void add_attribute(kiln_llvm_emitter *e, LLVMValueRef function, LLVMAttributeIndex at,
                          const char *name, uint64_t value) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(function, at, LLVMCreateEnumAttribute(e->context, kind, value));
}

static void add_text_attribute(kiln_llvm_emitter *e, LLVMValueRef function, const char *name,
                               const char *value) {
    LLVMAttributeRef attribute = LLVMCreateStringAttribute(e->context, name, (unsigned)strlen(name),
                                                           value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex, attribute);
}

static LLVMValueRef new_function(kiln_llvm_emitter *e, const char *name, LLVMTypeRef type,
                                 LLVMLinkage linkage) {
    LLVMValueRef function = LLVMAddFunction(e->module, name, type);
    LLVMSetLinkage(function, linkage);
    add_attribute(e, function, LLVMAttributeFunctionIndex, "nounwind", 0);
    add_text_attribute(e, function, "target-cpu", kiln_str_dup(e->arena, e->target->mcpu));
    if (e->target->features.size > 0)
        add_text_attribute(e, function, "target-features",
                           kiln_str_dup(e->arena, e->target->features));
    add_text_attribute(e, function, "prefer-vector-width",
                       kiln_arena_printf(e->arena, "%u", e->target->vector_bytes * 8));
    return function;
}

static LLVMBasicBlockRef append_block(kiln_llvm_emitter *e, const char *name) {
    return LLVMAppendBasicBlockInContext(e->context, e->function, name);
}

static LLVMValueRef load_pointer(kiln_llvm_emitter *e, LLVMValueRef base, uint64_t byte_offset) {
    LLVMValueRef offset = kiln_llvm_i64(e, (int64_t)byte_offset);
    LLVMValueRef at = LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), base, &offset, 1, "");
    return LLVMBuildLoad2(e->builder, kiln_llvm_ptr(e), at, "");
}

static LLVMValueRef byte_pointer(kiln_llvm_emitter *e, LLVMValueRef base, LLVMValueRef offset) {
    return LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), base, &offset, 1, "");
}

static void push_level(kiln_llvm_emitter *e) {
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

static void pop_level(kiln_llvm_emitter *e) {
    LLVMInstructionEraseFromParent(e->level[--e->level_count]->marker);
}

/* Every function that has loops is internal and takes: services, scratch, worker scratch, the data
 * pointers of the arguments (none aliases another), then `extra_count` integers. Callers that the
 * ABI fixes (the entry, bodies of parallel loops) only unpack for it. */
typedef struct inner_function {
    LLVMValueRef function;
    LLVMTypeRef type;
    uint32_t arg_count, extra_count; /* parameters: 3 + arg_count + extra_count */
} inner_function;

enum { PARAMETER_SERVICES, PARAMETER_SCRATCH, PARAMETER_WORKER, PARAMETER_ARGS };

#define PARAMETERS_MAX (PARAMETER_ARGS + KILN_MANIFEST_ARGS_MAX + KILN_LLVM_LEVELS_MAX + 2)

static inner_function new_inner_function(kiln_llvm_emitter *e, const char *name, uint32_t arg_count,
                                         uint32_t extra_count) {
    LLVMTypeRef parameter[PARAMETERS_MAX];
    uint32_t pointers = PARAMETER_ARGS + arg_count, count = pointers + extra_count;
    KILN_CHECK(count <= PARAMETERS_MAX);
    for (uint32_t i = 0; i < count; i++)
        parameter[i] = i < pointers ? kiln_llvm_ptr(e) : kiln_llvm_int(e, 64);
    inner_function inner = {.arg_count = arg_count, .extra_count = extra_count};
    inner.type = LLVMFunctionType(kiln_llvm_int(e, 32), parameter, count, false);
    inner.function = new_function(e, name, inner.type, LLVMInternalLinkage);
    for (uint32_t i = PARAMETER_SCRATCH; i < pointers; i++) {
        add_attribute(e, inner.function, i + 1, "noalias", 0);
        add_attribute(e, inner.function, i + 1, "align", KILN_KERNEL_ALIGNMENT);
    }
    return inner;
}

static kiln_llvm_arguments touched(kiln_llvm_emitter *e, const kiln_buffer *arg_buffer,
                                   uint32_t arg_count) {
    kiln_buffer *buffer = KILN_ARENA_ARRAY(e->arena, kiln_buffer, arg_count + 1);
    kiln_llvm_arguments a = {.buffer = buffer};
    for (uint32_t i = 0; i < arg_count; i++)
        if (arg_buffer[i]) buffer[a.count++] = arg_buffer[i];
    return a;
}

/* Puts data pointers of arguments and temps in place for the function being written. */
static void bind_data(kiln_llvm_emitter *e, const inner_function *inner) {
    e->services = LLVMGetParam(inner->function, PARAMETER_SERVICES);
    for (uint32_t i = 0; i < e->args.count; i++)
        e->data[e->args.buffer[i]] = LLVMGetParam(inner->function, PARAMETER_ARGS + i);
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

static void bind_constant(kiln_llvm_emitter *e, kiln_var var, int64_t value) {
    e->slot[var] = (kiln_llvm_slot){.binding = KILN_LLVM_CONSTANT, .constant = value};
    e->constant_of[var] = kiln_expr_index(e->p, value);
}

static void unbind(kiln_llvm_emitter *e, kiln_var var) {
    e->slot[var] = (kiln_llvm_slot){0};
    e->constant_of[var] = 0;
}

static void emit_unrolled(kiln_llvm_emitter *e, const kiln_stmt_info *s) {
    for (int64_t i = 0; i < s->extent; i++) {
        bind_constant(e, s->var, s->first + i);
        emit_stmt(e, s->child.data[0]);
    }
    unbind(e, s->var);
}

static void emit_vector(kiln_llvm_emitter *e, const kiln_stmt_info *s) {
    e->slot[s->var] = (kiln_llvm_slot){.binding = KILN_LLVM_LANES, .constant = s->first};
    e->lanes = (uint32_t)s->extent;
    e->lane_var = s->var;
    emit_stmt(e, s->child.data[0]);
    e->lanes = 0;
    e->lane_var = 0;
    unbind(e, s->var);
}

/* do { body } while (++v != end), from `first`; both are i64 values and first < end. */
static void emit_counted(kiln_llvm_emitter *e, kiln_stmt stmt, LLVMValueRef first,
                         LLVMValueRef end) {
    kiln_stmt body = e->p->stmt.data[stmt].child.data[0];
    kiln_var var = e->p->stmt.data[stmt].var;
    const bool *stored = stored_below(e, body);
    LLVMBasicBlockRef preheader = LLVMGetInsertBlock(e->builder), block = append_block(e, ""), exit;
    LLVMBuildBr(e->builder, block);
    LLVMPositionBuilderAtEnd(e->builder, block);
    LLVMValueRef counter = LLVMBuildPhi(e->builder, kiln_llvm_int(e, 64), "");
    LLVMAddIncoming(counter, &first, &preheader, 1);
    carried_list list = begin_carried(e, stored, preheader);

    e->slot[var] =
        (kiln_llvm_slot){.binding = KILN_LLVM_SERIAL, .value = counter, .level = e->level_count};
    push_level(e);
    set_counter(e, counter, first, preheader);
    uint32_t mark = kiln_llvm_table_mark(&e->loads);
    forget_loads(e, stored);
    emit_stmt(e, body);
    forget_loads(e, stored);
    kiln_llvm_table_pop(&e->loads, mark);

    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
    step_pointers(e, latch);
    LLVMValueRef next = LLVMBuildNSWAdd(e->builder, counter, kiln_llvm_i64(e, 1), "");
    LLVMValueRef again = LLVMBuildICmp(e->builder, LLVMIntNE, next, end, "");
    exit = append_block(e, "");
    LLVMBuildCondBr(e->builder, again, block, exit);
    LLVMAddIncoming(counter, &next, &latch, 1);
    end_carried(&list, latch);
    pop_level(e);
    unbind(e, var);
    LLVMPositionBuilderAtEnd(e->builder, exit);
}

/* ---- parallel loops -------------------------------------------------------------------------- */

/* What moves from the function that calls parallel_for to the body: 8-byte words on the caller's
 * stack. */
typedef struct closure {
    kiln_var captured[KILN_LLVM_LEVELS_MAX]; /* open serial loops */
    uint32_t captured_count, word_count;
    LLVMTypeRef type;
} closure;

static closure make_closure(kiln_llvm_emitter *e) {
    closure c = {0};
    for (kiln_var v = 1; v < e->var_count; v++)
        if (e->slot[v].binding == KILN_LLVM_SERIAL) c.captured[c.captured_count++] = v;
    c.word_count = 2 + e->args.count + c.captured_count; /* services, scratch, ... */
    c.type = LLVMArrayType2(kiln_llvm_int(e, 64), c.word_count);
    return c;
}

static LLVMValueRef closure_word(kiln_llvm_emitter *e, LLVMValueRef base, uint32_t word) {
    return byte_pointer(e, base, kiln_llvm_i64(e, 8 * (int64_t)word));
}

/* int32 body(context, begin, end, worker): unpacks and calls `inner`. */
static LLVMValueRef emit_body_wrapper(kiln_llvm_emitter *e, const char *name, const closure *c,
                                      const inner_function *inner) {
    LLVMTypeRef i64 = kiln_llvm_int(e, 64);
    LLVMTypeRef parameter[4] = {kiln_llvm_ptr(e), i64, i64, kiln_llvm_int(e, 32)};
    LLVMTypeRef type = LLVMFunctionType(kiln_llvm_int(e, 32), parameter, 4, false);
    LLVMValueRef function = new_function(e, name, type, LLVMInternalLinkage);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->context, function, ""));

    LLVMValueRef context = LLVMGetParam(function, 0), value[PARAMETERS_MAX];
    uint32_t pointers = PARAMETER_ARGS + inner->arg_count, at = 0;
    value[PARAMETER_SERVICES] =
        LLVMBuildLoad2(e->builder, kiln_llvm_ptr(e), closure_word(e, context, at++), "");
    value[PARAMETER_SCRATCH] =
        LLVMBuildLoad2(e->builder, kiln_llvm_ptr(e), closure_word(e, context, at++), "");
    LLVMValueRef worker = LLVMBuildZExt(e->builder, LLVMGetParam(function, 3), i64, "");
    worker = LLVMBuildMul(e->builder, worker, kiln_llvm_i64(e, (int64_t)e->worker_bytes), "");
    worker = LLVMBuildAdd(e->builder, worker, kiln_llvm_i64(e, (int64_t)e->scratch_bytes), "");
    value[PARAMETER_WORKER] = byte_pointer(e, value[PARAMETER_SCRATCH], worker);
    for (uint32_t i = PARAMETER_ARGS; i < pointers + c->captured_count; i++)
        value[i] = LLVMBuildLoad2(e->builder, i < pointers ? kiln_llvm_ptr(e) : i64,
                                  closure_word(e, context, at++), "");
    value[pointers + c->captured_count] = LLVMGetParam(function, 1);
    value[pointers + c->captured_count + 1] = LLVMGetParam(function, 2);
    uint32_t count = pointers + inner->extra_count;
    LLVMBuildRet(e->builder,
                 LLVMBuildCall2(e->builder, inner->type, inner->function, value, count, ""));
    LLVMPositionBuilderAtEnd(e->builder, here);
    return function;
}

static void begin_function(kiln_llvm_emitter *e, LLVMValueRef function) {
    e->function = function;
    LLVMPositionBuilderAtEnd(e->builder, append_block(e, ""));
    memset(e->level, 0, sizeof e->level);
    e->level_count = 0;
    push_level(e);
    e->loads = (kiln_llvm_table){0};
    e->stamp = ++e->last_stamp;
}

/* The loop itself, over [begin, end), in a function of its own. */
static void emit_body_function(kiln_llvm_emitter *e, kiln_stmt stmt, const closure *c,
                               const inner_function *inner) {
    kiln_llvm_emitter saved = *e;
    kiln_llvm_slot slot[KILN_LLVM_LEVELS_MAX];
    LLVMValueRef *data = e->data;
    e->data = kiln_arena_copy(e->arena, data, sizeof *data * e->p->buffer.count);
    e->in_parallel = true;
    begin_function(e, inner->function);
    bind_data(e, inner);
    LLVMValueRef scratch = LLVMGetParam(inner->function, PARAMETER_SCRATCH);
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilderBefore(e->builder, e->level[0]->marker);
    for (kiln_buffer b = 1; b < e->p->buffer.count;
         b++) /* temps around the loop are shared by all workers */
        if (saved.scratch_offset[b] != UINT64_MAX && data[b])
            e->data[b] = byte_pointer(e, scratch, kiln_llvm_i64(e, (int64_t)e->scratch_offset[b]));
    LLVMPositionBuilderAtEnd(e->builder, entry);
    uint32_t first_captured = PARAMETER_ARGS + inner->arg_count;
    for (uint32_t i = 0; i < c->captured_count; i++) {
        slot[i] = e->slot[c->captured[i]];
        e->slot[c->captured[i]] =
            (kiln_llvm_slot){.binding = KILN_LLVM_SERIAL,
                             .value = LLVMGetParam(inner->function, first_captured + i)};
    }
    LLVMValueRef begin = LLVMGetParam(inner->function, first_captured + c->captured_count);
    LLVMValueRef end = LLVMGetParam(inner->function, first_captured + c->captured_count + 1);
    int64_t first = e->p->stmt.data[stmt].first;
    if (first != 0) {
        begin = LLVMBuildAdd(e->builder, begin, kiln_llvm_i64(e, first), "");
        end = LLVMBuildAdd(e->builder, end, kiln_llvm_i64(e, first), "");
    }
    emit_counted(e, stmt, begin, end);
    LLVMBuildRet(e->builder, LLVMConstInt(kiln_llvm_int(e, 32), KILN_KERNEL_OK, false));
    pop_level(e);

    for (uint32_t i = 0; i < c->captured_count; i++) e->slot[c->captured[i]] = slot[i];
    /* Tables that grew keep their growth; what belongs to the function is taken back. */
    e->function = saved.function;
    e->services = saved.services;
    e->data = data;
    memcpy(e->level, saved.level, sizeof e->level);
    e->level_count = saved.level_count;
    e->loads = saved.loads;
    e->in_parallel = false;
    e->stamp = ++e->last_stamp;
}

static LLVMValueRef closure_fill(kiln_llvm_emitter *e, const closure *c) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilderBefore(e->builder, e->level[0]->marker);
    LLVMValueRef words = LLVMBuildAlloca(e->builder, c->type, "");
    LLVMSetAlignment(words, 8);
    LLVMPositionBuilderAtEnd(e->builder, here);
    uint32_t at = 0;
    LLVMBuildStore(e->builder, e->services, closure_word(e, words, at++));
    LLVMBuildStore(e->builder, LLVMGetParam(e->function, PARAMETER_SCRATCH),
                   closure_word(e, words, at++));
    for (uint32_t i = 0; i < e->args.count; i++)
        LLVMBuildStore(e->builder, e->data[e->args.buffer[i]], closure_word(e, words, at++));
    for (uint32_t i = 0; i < c->captured_count; i++)
        LLVMBuildStore(e->builder, e->slot[c->captured[i]].value, closure_word(e, words, at++));
    return words;
}

static void emit_parallel(kiln_llvm_emitter *e, kiln_stmt stmt) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    int64_t extent = s->extent;
    closure c = make_closure(e);
    uint32_t number = ++e->function_count;
    inner_function inner =
        new_inner_function(e, kiln_arena_printf(e->arena, "%s.loop%u", e->name, number),
                           e->args.count, c.captured_count + 2);
    LLVMValueRef body =
        emit_body_wrapper(e, kiln_arena_printf(e->arena, "%s.body%u", e->name, number), &c, &inner);
    LLVMValueRef words = closure_fill(e, &c);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    emit_body_function(e, stmt, &c, &inner);
    LLVMPositionBuilderAtEnd(e->builder, here);

    LLVMTypeRef i32 = kiln_llvm_int(e, 32), ptr = kiln_llvm_ptr(e);
    LLVMTypeRef type =
        LLVMFunctionType(i32, (LLVMTypeRef[]){ptr, kiln_llvm_int(e, 64), ptr, ptr}, 4, false);
    LLVMValueRef host = load_pointer(e, e->services, offsetof(kiln_kernel_services, host));
    LLVMValueRef parallel_for =
        load_pointer(e, e->services, offsetof(kiln_kernel_services, parallel_for));
    LLVMValueRef status =
        LLVMBuildCall2(e->builder, type, parallel_for,
                       (LLVMValueRef[]){host, kiln_llvm_i64(e, extent), body, words}, 4, "");
    LLVMBasicBlockRef failed = append_block(e, ""), next = append_block(e, "");
    LLVMBuildCondBr(e->builder,
                    LLVMBuildICmp(e->builder, LLVMIntNE, status, LLVMConstNull(i32), ""), failed,
                    next);
    LLVMPositionBuilderAtEnd(e->builder, failed);
    LLVMBuildRet(e->builder, status);
    LLVMPositionBuilderAtEnd(e->builder, next);
    forget_loads(e, stored_below(e, stmt));
}

/* ---- statements ------------------------------------------------------------------------------ */

static void emit_for(kiln_llvm_emitter *e, kiln_stmt stmt) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    if (s->extent <= 0) return;
    bool vector = s->loop_kind == KILN_LOOP_VECTORIZE && e->lanes == 0;
    bool unrolled = s->loop_kind == KILN_LOOP_UNROLL || s->loop_kind == KILN_LOOP_VECTORIZE;
    if (s->extent == 1 || (unrolled && !vector))
        emit_unrolled(e, s);
    else if (vector)
        emit_vector(e, s);
    else if (s->loop_kind == KILN_LOOP_PARALLEL && e->lanes == 0 && !e->in_parallel)
        emit_parallel(e, stmt);
    else
        emit_counted(e, stmt, kiln_llvm_i64(e, s->first), kiln_llvm_i64(e, s->first + s->extent));
}

typedef struct then_branch {
    kiln_stmt child;
    LLVMBasicBlockRef end; /* where the branch leaves the child */
} then_branch;

static LLVMValueRef then_side(kiln_llvm_emitter *e, void *context) {
    then_branch *branch = context;
    emit_stmt(e, branch->child);
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
    emit_stmt(e, child);
    e->mask = outer;
}

static void emit_if(kiln_llvm_emitter *e, const kiln_stmt_info *s) {
    e->stamp = ++e->last_stamp;
    LLVMValueRef condition = kiln_llvm_expr(e, s->condition);
    if (LLVMIsAConstantInt(condition)) {
        if (LLVMConstIntGetZExtValue(condition)) emit_stmt(e, s->child.data[0]);
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
        emit_stmt(e, e->p->stmt.data[stmt].child.data[0]);
        kiln_llvm_registers_end(e, b);
        return;
    }
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilderBefore(e->builder, e->level[0]->marker);
    LLVMValueRef base =
        LLVMGetParam(e->function, e->in_parallel ? PARAMETER_WORKER : PARAMETER_SCRATCH);
    e->data[b] = byte_pointer(e, base, kiln_llvm_i64(e, (int64_t)e->scratch_offset[b]));
    LLVMPositionBuilderAtEnd(e->builder, here);
    e->epoch[b]++;
    emit_stmt(e, s->child.data[0]);
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

static void emit_stmt(kiln_llvm_emitter *e, kiln_stmt stmt) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_SEQ:
        for (uint32_t i = 0; i < s->child.count; i++) emit_stmt(e, s->child.data[i]);
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

/* ---- entries --------------------------------------------------------------------------------- */

/* int32 name(args, services): unpacks descriptors and calls the inner function. */
static void emit_entry_wrapper(kiln_llvm_emitter *e, const inner_function *inner,
                               const kiln_buffer *arg_buffer, uint32_t arg_count) {
    LLVMTypeRef ptr = kiln_llvm_ptr(e);
    LLVMTypeRef type = LLVMFunctionType(kiln_llvm_int(e, 32), (LLVMTypeRef[]){ptr, ptr}, 2, false);
    e->function = new_function(e, e->name, type, LLVMExternalLinkage);
    LLVMPositionBuilderAtEnd(e->builder, append_block(e, ""));
    LLVMValueRef value[PARAMETERS_MAX];
    value[PARAMETER_SERVICES] = LLVMGetParam(e->function, 1);
    value[PARAMETER_SCRATCH] =
        load_pointer(e, value[PARAMETER_SERVICES], offsetof(kiln_kernel_services, scratch));
    value[PARAMETER_WORKER] = value[PARAMETER_SCRATCH];
    uint32_t at = PARAMETER_ARGS;
    for (uint32_t i = 0; i < arg_count; i++) {
        if (!arg_buffer[i]) continue;
        LLVMValueRef tensor = load_pointer(e, LLVMGetParam(e->function, 0), 8 * (uint64_t)i);
        value[at++] = load_pointer(e, tensor, offsetof(kiln_kernel_tensor, data));
    }
    LLVMBuildRet(e->builder,
                 LLVMBuildCall2(e->builder, inner->type, inner->function, value, at, ""));
}

void kiln_llvm_emit_entry(LLVMContextRef context, LLVMModuleRef module, kiln_program *p,
                          const char *name, const kiln_buffer *arg_buffer, uint32_t arg_count,
                          const kiln_target *target, kiln_arena *arena, uint64_t *scratch_bytes,
                          uint64_t *worker_bytes) {
    kiln_llvm_emitter *e = KILN_ARENA_NEW(arena, kiln_llvm_emitter);
    *e = (kiln_llvm_emitter){.p = p,
                             .target = target,
                             .arena = arena,
                             .context = context,
                             .module = module,
                             .name = name};
    e->builder = LLVMCreateBuilderInContext(context);
    e->var_count = p->var.count;
    e->slot = KILN_ARENA_ARRAY(arena, kiln_llvm_slot, p->var.count);
    e->constant_of = KILN_ARENA_ARRAY(arena, kiln_expr, p->var.count);
    e->data = KILN_ARENA_ARRAY(arena, LLVMValueRef, p->buffer.count);
    e->registers = KILN_ARENA_ARRAY(arena, kiln_llvm_registers, p->buffer.count);
    e->epoch = KILN_ARENA_ARRAY(arena, uint32_t, p->buffer.count);
    e->scratch_offset = KILN_ARENA_ARRAY(arena, uint64_t, p->buffer.count);
    memset(e->scratch_offset, 0xff, sizeof *e->scratch_offset * p->buffer.count);
    e->scratch_bytes = *scratch_bytes;
    e->worker_bytes = *worker_bytes;
    plan_scratch(e, p->root, 0, false);

    e->args = touched(e, arg_buffer, arg_count);
    inner_function inner =
        new_inner_function(e, kiln_arena_printf(arena, "%s.main", name), e->args.count, 0);
    emit_entry_wrapper(e, &inner, arg_buffer, arg_count);
    begin_function(e, inner.function);
    bind_data(e, &inner);
    emit_stmt(e, p->root);
    LLVMBuildRet(e->builder, LLVMConstInt(kiln_llvm_int(e, 32), KILN_KERNEL_OK, false));
    pop_level(e);
    LLVMDisposeBuilder(e->builder);
    *scratch_bytes = e->scratch_bytes;
    *worker_bytes = e->worker_bytes;
}
