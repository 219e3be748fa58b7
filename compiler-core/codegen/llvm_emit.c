/* Functions: entries as the kernel ABI has them, bodies of parallel loops, scratch memory. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/codegen/llvm_emit.h"

static uint64_t round_up(uint64_t bytes) {
    return (bytes + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
}

/* ---- the plan of scratch memory -------------------------------------------------------------- */

/* Temps that live at different times share memory: an allocation begins where those around it end.
 * A temp that is allocated in several places (parts of a loop that was split) has one offset for
 * all of them: true when one had to move, and the plan must be made again. */
static bool plan_scratch(kiln_llvm_emitter *e, kiln_stmt stmt, uint64_t used, bool in_parallel) {
    const kiln_stmt_info *s = &e->p->stmt.data[stmt];
    bool moved = false;
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_PARALLEL && !in_parallel) {
        in_parallel = true;
        used = 0;
    }
    if (s->kind == KILN_STMT_ALLOC && e->p->buffer.data[s->buffer].scope != KILN_SCOPE_REGISTER) {
        const kiln_buffer_info *info = &e->p->buffer.data[s->buffer];
        kiln_shape physical = kiln_layout_physical(&info->layout, &info->shape);
        uint64_t *offset = &e->scratch_offset[s->buffer];
        moved = *offset < used;
        *offset = KILN_MAX(*offset, used);
        used = round_up(*offset +
                        (uint64_t)kiln_shape_count(&physical) * kiln_dtype_size(info->dtype));
        uint64_t *total = in_parallel ? &e->worker_bytes : &e->scratch_bytes;
        *total = KILN_MAX(*total, used);
    }
    for (uint32_t i = 0; i < s->child.count; i++)
        moved |= plan_scratch(e, s->child.data[i], used, in_parallel);
    return moved;
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

LLVMBasicBlockRef kiln_llvm_append_block(kiln_llvm_emitter *e, const char *name) {
    return LLVMAppendBasicBlockInContext(e->context, e->function, name);
}

static LLVMValueRef load_pointer(kiln_llvm_emitter *e, LLVMValueRef base, uint64_t byte_offset) {
    LLVMValueRef offset = kiln_llvm_i64(e, (int64_t)byte_offset);
    LLVMValueRef at = LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), base, &offset, 1, "");
    return LLVMBuildLoad2(e->builder, kiln_llvm_ptr(e), at, "");
}

LLVMValueRef kiln_llvm_byte_pointer(kiln_llvm_emitter *e, LLVMValueRef base, LLVMValueRef offset) {
    return LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), base, &offset, 1, "");
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
    return kiln_llvm_byte_pointer(e, base, kiln_llvm_i64(e, 8 * (int64_t)word));
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
    value[PARAMETER_WORKER] = kiln_llvm_byte_pointer(e, value[PARAMETER_SCRATCH], worker);
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
    LLVMPositionBuilderAtEnd(e->builder, kiln_llvm_append_block(e, ""));
    memset(e->level, 0, sizeof e->level);
    e->level_count = 0;
    kiln_llvm_push_level(e);
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
        if (data[b] && e->p->buffer.data[b].role == KILN_ROLE_TEMP)
            e->data[b] =
                kiln_llvm_byte_pointer(e, scratch, kiln_llvm_i64(e, (int64_t)e->scratch_offset[b]));
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
    kiln_llvm_counted(e, stmt, begin, end);
    LLVMBuildRet(e->builder, LLVMConstInt(kiln_llvm_int(e, 32), KILN_KERNEL_OK, false));
    kiln_llvm_pop_level(e);

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

void kiln_llvm_parallel(kiln_llvm_emitter *e, kiln_stmt stmt) {
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
    LLVMBasicBlockRef failed = kiln_llvm_append_block(e, ""), next = kiln_llvm_append_block(e, "");
    LLVMBuildCondBr(e->builder,
                    LLVMBuildICmp(e->builder, LLVMIntNE, status, LLVMConstNull(i32), ""), failed,
                    next);
    LLVMPositionBuilderAtEnd(e->builder, failed);
    LLVMBuildRet(e->builder, status);
    LLVMPositionBuilderAtEnd(e->builder, next);
}

LLVMValueRef kiln_llvm_scratch(kiln_llvm_emitter *e, kiln_buffer buffer) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilderBefore(e->builder, e->level[0]->marker);
    uint32_t parameter = e->in_parallel ? PARAMETER_WORKER : PARAMETER_SCRATCH;
    LLVMValueRef base = LLVMGetParam(e->function, parameter);
    int64_t offset = (int64_t)e->scratch_offset[buffer];
    LLVMValueRef data = kiln_llvm_byte_pointer(e, base, kiln_llvm_i64(e, offset));
    LLVMPositionBuilderAtEnd(e->builder, here);
    return data;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* int32 name(args, services): unpacks descriptors and calls the inner function. */
static void emit_entry_wrapper(kiln_llvm_emitter *e, const inner_function *inner,
                               const kiln_buffer *arg_buffer, uint32_t arg_count) {
    LLVMTypeRef ptr = kiln_llvm_ptr(e);
    LLVMTypeRef type = LLVMFunctionType(kiln_llvm_int(e, 32), (LLVMTypeRef[]){ptr, ptr}, 2, false);
    e->function = new_function(e, e->name, type, LLVMExternalLinkage);
    LLVMPositionBuilderAtEnd(e->builder, kiln_llvm_append_block(e, ""));
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
    e->scratch_bytes = *scratch_bytes;
    e->worker_bytes = *worker_bytes;
    while (plan_scratch(e, p->root, 0, false)) {}

    e->args = touched(e, arg_buffer, arg_count);
    inner_function inner =
        new_inner_function(e, kiln_arena_printf(arena, "%s.main", name), e->args.count, 0);
    emit_entry_wrapper(e, &inner, arg_buffer, arg_count);
    begin_function(e, inner.function);
    bind_data(e, &inner);
    kiln_llvm_stmt(e, p->root);
    LLVMBuildRet(e->builder, LLVMConstInt(kiln_llvm_int(e, 32), KILN_KERNEL_OK, false));
    kiln_llvm_pop_level(e);
    LLVMDisposeBuilder(e->builder);
    *scratch_bytes = e->scratch_bytes;
    *worker_bytes = e->worker_bytes;
}
