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

const char *kiln_llvm_features(const kiln_target *target, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_target_spell_features(target, &text);
    const char *features = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return features;
}

static LLVMValueRef new_function(kiln_llvm_emitter *e, const char *name, LLVMTypeRef type,
                                 LLVMLinkage linkage) {
    LLVMValueRef function = LLVMAddFunction(e->module, name, type);
    LLVMSetLinkage(function, linkage);
    add_attribute(e, function, LLVMAttributeFunctionIndex, "nounwind", 0);
    add_text_attribute(e, function, "target-cpu", kiln_str_dup(e->arena, e->target->mcpu));
    const char *features = kiln_llvm_features(e->target, e->arena);
    if (*features) add_text_attribute(e, function, "target-features", features);
    add_text_attribute(e, function, "prefer-vector-width",
                       kiln_arena_printf(e->arena, "%u", e->target->vector_bytes * 8));
    return function;
}

LLVMBasicBlockRef kiln_llvm_append_block(kiln_llvm_emitter *e, const char *name) {
    return LLVMAppendBasicBlockInContext(e->context, e->function, name);
}

/* Where members of the ABI's structures lie on the target, whose pointers may be shorter than here.
 */
enum { SERVICE_HOST, SERVICE_PARALLEL_FOR, SERVICE_SCRATCH };

static uint64_t service_offset(const kiln_llvm_emitter *e, uint32_t pointer) {
    return 8 + (uint64_t)pointer * e->target->pointer_bytes;
}
_Static_assert(offsetof(kiln_kernel_services, parallel_for) ==
                       8 + SERVICE_PARALLEL_FOR * sizeof(void *) &&
                   offsetof(kiln_kernel_services, scratch) ==
                       8 + SERVICE_SCRATCH * sizeof(void *) &&
                   offsetof(kiln_kernel_tensor, data) == 0,
               "as service_offset and begin_entry have it");

static LLVMValueRef load_pointer(kiln_llvm_emitter *e, LLVMValueRef base, uint64_t byte_offset) {
    LLVMValueRef offset = kiln_llvm_i64(e, (int64_t)byte_offset);
    LLVMValueRef at = LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), base, &offset, 1, "");
    return LLVMBuildLoad2(e->builder, kiln_llvm_ptr(e), at, "");
}

LLVMValueRef kiln_llvm_byte_pointer(kiln_llvm_emitter *e, LLVMValueRef base, LLVMValueRef offset) {
    return LLVMBuildGEP2(e->builder, kiln_llvm_int(e, 8), base, &offset, 1, "");
}

/* Starts a function; what it unpacks from its parameters goes before the level that the caller
 * pushes next. */
static void begin_function(kiln_llvm_emitter *e, LLVMValueRef function) {
    e->function = function;
    LLVMPositionBuilderAtEnd(e->builder, kiln_llvm_append_block(e, ""));
    memset(e->level, 0, sizeof e->level);
    e->level_count = 0;
    e->loads = (kiln_llvm_table){0};
    e->stamp = ++e->last_stamp;
}

static void end_function(kiln_llvm_emitter *e) {
    LLVMBuildRet(e->builder, LLVMConstInt(kiln_llvm_int(e, 32), KILN_KERNEL_OK, false));
    kiln_llvm_pop_level(e);
}

static kiln_llvm_arguments touched(kiln_llvm_emitter *e, const kiln_buffer *arg_buffer,
                                   uint32_t arg_count) {
    kiln_buffer *buffer = KILN_ARENA_ARRAY(e->arena, kiln_buffer, arg_count + 1);
    kiln_llvm_arguments a = {.buffer = buffer};
    for (uint32_t i = 0; i < arg_count; i++)
        if (arg_buffer[i]) buffer[a.count++] = arg_buffer[i];
    return a;
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

static LLVMValueRef closure_take(kiln_llvm_emitter *e, LLVMTypeRef type, uint32_t word) {
    LLVMValueRef base = LLVMGetParam(e->function, 0);
    return LLVMBuildLoad2(e->builder, type, closure_word(e, base, word), "");
}

/* Takes everything out of the closure, in the order in which closure_fill put it there, and finds
 * this worker's scratch. */
static void closure_unpack(kiln_llvm_emitter *e, const closure *c) {
    LLVMTypeRef i64 = kiln_llvm_int(e, 64), ptr = kiln_llvm_ptr(e);
    uint32_t at = 0;
    e->services = closure_take(e, ptr, at++);
    e->scratch = closure_take(e, ptr, at++);
    for (uint32_t i = 0; i < e->args.count; i++)
        e->data[e->args.buffer[i]] = closure_take(e, ptr, at++);
    for (uint32_t i = 0; i < c->captured_count; i++)
        e->slot[c->captured[i]] =
            (kiln_llvm_slot){.binding = KILN_LLVM_SERIAL, .value = closure_take(e, i64, at++)};
    LLVMValueRef worker = LLVMBuildZExt(e->builder, LLVMGetParam(e->function, 3), i64, "");
    worker = LLVMBuildMul(e->builder, worker, kiln_llvm_i64(e, (int64_t)e->worker_bytes), "");
    worker = LLVMBuildAdd(e->builder, worker, kiln_llvm_i64(e, (int64_t)e->scratch_bytes), "");
    e->worker_scratch = kiln_llvm_byte_pointer(e, e->scratch, worker);
}

/* Temps around a parallel loop are shared by all workers. */
static void find_shared_temps(kiln_llvm_emitter *e, LLVMValueRef *const outer_data) {
    for (kiln_buffer b = 1; b < e->p->buffer.count; b++) {
        if (!outer_data[b] || e->p->buffer.data[b].role != KILN_ROLE_TEMP) continue;
        LLVMValueRef offset = kiln_llvm_i64(e, (int64_t)e->scratch_offset[b]);
        e->data[b] = kiln_llvm_byte_pointer(e, e->scratch, offset);
    }
}

/* int32 body(context, begin, end, worker): the loop itself, over [begin, end). */
static LLVMValueRef emit_body(kiln_llvm_emitter *e, kiln_stmt stmt, const closure *c) {
    const kiln_llvm_emitter saved = *e;
    kiln_llvm_slot slot[KILN_LLVM_LEVELS_MAX];
    for (uint32_t i = 0; i < c->captured_count; i++) slot[i] = e->slot[c->captured[i]];
    e->data = KILN_ARENA_ARRAY(e->arena, LLVMValueRef, e->p->buffer.count);
    e->in_parallel = true;

    LLVMTypeRef i64 = kiln_llvm_int(e, 64), i32 = kiln_llvm_int(e, 32);
    LLVMTypeRef parameter[4] = {kiln_llvm_ptr(e), i64, i64, i32};
    LLVMTypeRef type = LLVMFunctionType(i32, parameter, 4, false);
    const char *name = kiln_arena_printf(e->arena, "%s.body%u", e->name, ++e->function_count);
    LLVMValueRef function = new_function(e, name, type, LLVMInternalLinkage);
    begin_function(e, function);
    closure_unpack(e, c);
    find_shared_temps(e, saved.data);
    LLVMValueRef first = kiln_llvm_i64(e, e->p->stmt.data[stmt].first);
    LLVMValueRef begin = LLVMBuildAdd(e->builder, LLVMGetParam(function, 1), first, "");
    LLVMValueRef end = LLVMBuildAdd(e->builder, LLVMGetParam(function, 2), first, "");
    kiln_llvm_push_level(e);
    kiln_llvm_counted(e, stmt, begin, end);
    end_function(e);

    for (uint32_t i = 0; i < c->captured_count; i++) e->slot[c->captured[i]] = slot[i];
    /* Tables that grew keep their growth; what belongs to the function is taken back. */
    e->function = saved.function;
    e->services = saved.services;
    e->scratch = saved.scratch;
    e->data = saved.data;
    memcpy(e->level, saved.level, sizeof e->level);
    e->level_count = saved.level_count;
    e->loads = saved.loads;
    e->in_parallel = false;
    e->stamp = ++e->last_stamp;
    return function;
}

static LLVMValueRef closure_fill(kiln_llvm_emitter *e, const closure *c) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilderBefore(e->builder, e->level[0]->marker);
    LLVMValueRef words = LLVMBuildAlloca(e->builder, c->type, "");
    LLVMSetAlignment(words, 8);
    LLVMPositionBuilderAtEnd(e->builder, here);
    uint32_t at = 0;
    LLVMBuildStore(e->builder, e->services, closure_word(e, words, at++));
    LLVMBuildStore(e->builder, e->scratch, closure_word(e, words, at++));
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
    LLVMValueRef words = closure_fill(e, &c);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMValueRef body = emit_body(e, stmt, &c);
    LLVMPositionBuilderAtEnd(e->builder, here);

    LLVMTypeRef i32 = kiln_llvm_int(e, 32), ptr = kiln_llvm_ptr(e);
    LLVMTypeRef type =
        LLVMFunctionType(i32, (LLVMTypeRef[]){ptr, kiln_llvm_int(e, 64), ptr, ptr}, 4, false);
    LLVMValueRef host = load_pointer(e, e->services, service_offset(e, SERVICE_HOST));
    LLVMValueRef parallel_for =
        load_pointer(e, e->services, service_offset(e, SERVICE_PARALLEL_FOR));
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
    LLVMValueRef base = e->in_parallel ? e->worker_scratch : e->scratch;
    int64_t offset = (int64_t)e->scratch_offset[buffer];
    LLVMValueRef data = kiln_llvm_byte_pointer(e, base, kiln_llvm_i64(e, offset));
    LLVMPositionBuilderAtEnd(e->builder, here);
    return data;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* int32 name(args, services): finds the data of each argument in its descriptor. */
static void begin_entry(kiln_llvm_emitter *e, const kiln_buffer *arg_buffer, uint32_t arg_count) {
    LLVMTypeRef ptr = kiln_llvm_ptr(e);
    LLVMTypeRef type = LLVMFunctionType(kiln_llvm_int(e, 32), (LLVMTypeRef[]){ptr, ptr}, 2, false);
    begin_function(e, new_function(e, e->name, type, LLVMExternalLinkage));
    e->services = LLVMGetParam(e->function, 1);
    e->scratch = load_pointer(e, e->services, service_offset(e, SERVICE_SCRATCH));
    for (uint32_t i = 0; i < arg_count; i++) {
        if (!arg_buffer[i]) continue;
        LLVMValueRef tensor =
            load_pointer(e, LLVMGetParam(e->function, 0), (uint64_t)i * e->target->pointer_bytes);
        e->data[arg_buffer[i]] = load_pointer(e, tensor, 0);
    }
    kiln_llvm_push_level(e);
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
    begin_entry(e, arg_buffer, arg_count);
    kiln_llvm_stmt(e, p->root);
    end_function(e);
    LLVMDisposeBuilder(e->builder);
    *scratch_bytes = e->scratch_bytes;
    *worker_bytes = e->worker_bytes;
}
