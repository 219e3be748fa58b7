/* Private to codegen/: the state of turning one lowered program into LLVM IR, shared by llvm_*.c.
 *
 * What is emitted is already unrolled, vectorised SSA: UNROLL loops are copied here, the variable
 * of a VECTORIZE loop becomes the lanes of vector values, REGISTER buffers are tables of SSA values
 * joined by phis. Nothing relies on LLVM to find loads, loops or vectors again, which is why no
 * pass runs before instruction selection. Within a vector loop every expression is either uniform
 * (a scalar) or has all lanes (a vector); the LLVM type of a value says which. */
#ifndef KILN_COMPILER_CORE_CODEGEN_LLVM_EMIT_H
#define KILN_COMPILER_CORE_CODEGEN_LLVM_EMIT_H

#include <llvm-c/Core.h>

#include "base/kernel_abi.h"
#include "base/target.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/lower/lower.h"

/* What a loop variable stands for at the point of emission. */
typedef enum kiln_llvm_binding {
    KILN_LLVM_UNBOUND,
    KILN_LLVM_CONSTANT, /* of an unrolled loop */
    KILN_LLVM_SERIAL,   /* an i64 of some loop level */
    KILN_LLVM_LANES,    /* constant + lane number */
} kiln_llvm_binding;

typedef struct kiln_llvm_slot {
    kiln_llvm_binding binding;
    int64_t constant;
    LLVMValueRef value;
    uint32_t level;
} kiln_llvm_slot;

/* Known values. Keys name what was computed from what; entries disappear in the order of a stack,
 * so that a value is only found where its definition dominates. */
typedef struct kiln_llvm_entry {
    uint64_t key[4];
    LLVMValueRef value;
    uint32_t next;
} kiln_llvm_entry;

#define KILN_LLVM_BUCKETS 512
typedef struct kiln_llvm_table {
    KILN_VEC(kiln_llvm_entry) entry; /* [0] unused */
    uint32_t bucket[KILN_LLVM_BUCKETS];
} kiln_llvm_table;

/* A pointer that a loop advances. */
typedef struct kiln_llvm_stepping {
    LLVMValueRef phi;
    int64_t step_bytes;
} kiln_llvm_stepping;

/* One open serial loop, or the function (level 0). Code that depends on nothing deeper is put
 * before `marker`, a placeholder at the start of the loop's body, and is remembered while the loop
 * is open. */
typedef struct kiln_llvm_level {
    LLVMValueRef marker;
    kiln_llvm_table known;
    /* Loops only. Addresses that advance with the counter are pointers of their own, stepped at the
     * end of the loop: LLVM's strength reduction would find them too, but takes longer than all
     * other passes. */
    LLVMBasicBlockRef preheader;
    LLVMValueRef counter, first;
    KILN_VEC(kiln_llvm_stepping) pointer;
} kiln_llvm_level;

/* A live REGISTER buffer: element e is lane e % width of chunk[e / width]. */
typedef struct kiln_llvm_registers {
    bool live;
    uint32_t width, chunk_count;
    LLVMValueRef *chunk; /* NULL: never written */
} kiln_llvm_registers;

#define KILN_LLVM_LEVELS_MAX 64

/* Argument buffers that the program touches, in the order of the ABI. */
typedef struct kiln_llvm_arguments {
    const kiln_buffer *buffer; /* [count] */
    uint32_t count;
} kiln_llvm_arguments;

typedef struct kiln_llvm_emitter {
    kiln_program *p;
    const kiln_target *target;
    kiln_arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    const char *name; /* of the entry; prefix of everything internal */
    kiln_llvm_arguments args;

    /* The function being written. */
    LLVMValueRef function, services, scratch;
    LLVMValueRef worker_scratch; /* in bodies of parallel loops */
    LLVMValueRef *data;          /* [buffer count] start of each buffer in memory */
    kiln_llvm_level *level[KILN_LLVM_LEVELS_MAX];
    uint32_t level_count;
    uint32_t function_count; /* parallel bodies so far, for their names */
    bool in_parallel;

    kiln_llvm_slot *slot; /* [var count at the start] */
    kiln_expr
        *constant_of; /* [var count] index constant of CONSTANT slots, else 0: for substitution */
    uint32_t var_count;
    uint32_t lanes; /* 0 outside vector loops */
    kiln_var lane_var;
    LLVMValueRef mask; /* <lanes x i1>, or NULL: all lanes */
    /* While one lane is emitted by itself: which, and what `lanes` and `mask` are outside of it. */
    uint32_t lane, all_lanes;
    LLVMValueRef all_mask;

    kiln_llvm_registers *registers; /* [buffer count] */
    kiln_llvm_table loads;          /* values loaded from memory, splats */
    uint32_t *epoch;                /* [buffer count] stores so far: part of the key of loads */
    /* Results within one statement, by expression: valid when the stamp is the current one. */
    KILN_VEC(LLVMValueRef) memo;
    KILN_VEC(uint32_t) memo_stamp;
    uint32_t stamp, last_stamp;

    const kiln_program *meaning[KILN_INTRINSIC_COUNT]; /* of tensor intrinsics used so far */

    /* Layout of scratch: every temp in memory has its place. */
    uint64_t *scratch_offset; /* [buffer count] */
    uint64_t scratch_bytes, worker_bytes;
    KILN_VEC(kiln_affine *)
    offset; /* by expression (loads) or statement (stores): element offset */
    KILN_VEC(kiln_affine *) store_offset;
} kiln_llvm_emitter;

/* ---- llvm_emit.c: functions ------------------------------------------------------------------ */

/* Adds the entry `name` to `module`. `arg_buffer`: [arg_count] buffers of `p` in the order of the
 * ABI, 0 for arguments that `p` does not touch. Scratch needs are raised to what this program
 * needs. */
void kiln_llvm_emit_entry(LLVMContextRef context, LLVMModuleRef module, kiln_program *p,
                          const char *name, const kiln_buffer *arg_buffer, uint32_t arg_count,
                          const kiln_target *target, kiln_arena *arena, uint64_t *scratch_bytes,
                          uint64_t *worker_bytes);
/* A parallel loop: its body in functions of its own, and the call that shares it out. */
void kiln_llvm_parallel(kiln_llvm_emitter *e, kiln_stmt stmt);
/* Where a temp lies in scratch memory (the worker's own inside parallel loops). */
LLVMValueRef kiln_llvm_scratch(kiln_llvm_emitter *e, kiln_buffer buffer);
/* The target's features as LLVM wants them. */
const char *kiln_llvm_features(const kiln_target *target, kiln_arena *arena);
LLVMBasicBlockRef kiln_llvm_append_block(kiln_llvm_emitter *e, const char *name);
LLVMValueRef kiln_llvm_byte_pointer(kiln_llvm_emitter *e, LLVMValueRef base, LLVMValueRef offset);

/* ---- llvm_stmt.c: statements and loops ------------------------------------------------------- */

void kiln_llvm_stmt(kiln_llvm_emitter *e, kiln_stmt stmt);
/* do { body of the loop `stmt` } while (++v != end), from `first`: i64 values, first < end. */
void kiln_llvm_counted(kiln_llvm_emitter *e, kiln_stmt stmt, LLVMValueRef first, LLVMValueRef end);
/* Gives a loop variable one value, and takes it back. */
void kiln_llvm_bind(kiln_llvm_emitter *e, kiln_var var, int64_t value);
void kiln_llvm_unbind(kiln_llvm_emitter *e, kiln_var var);
/* Opens and closes a level at the current place. */
void kiln_llvm_push_level(kiln_llvm_emitter *e);
void kiln_llvm_pop_level(kiln_llvm_emitter *e);

/* ---- llvm_types.c: types, small builders, known values --------------------------------------- */

LLVMTypeRef kiln_llvm_int(kiln_llvm_emitter *e, unsigned bits);
LLVMTypeRef kiln_llvm_ptr(kiln_llvm_emitter *e);
LLVMValueRef kiln_llvm_i64(kiln_llvm_emitter *e, int64_t value);
LLVMTypeRef kiln_llvm_memory_type(kiln_llvm_emitter *e, kiln_dtype dtype);
/* What values of a dtype are computed in: halves in f32, bool in i1, others as they are. */
LLVMTypeRef kiln_llvm_compute_type(kiln_llvm_emitter *e, kiln_dtype dtype);
bool kiln_llvm_is_vector(LLVMValueRef v);
LLVMTypeRef kiln_llvm_scalar_type(LLVMTypeRef type);
/* `scalar`, or a vector of it with as many lanes as `like` has. */
LLVMTypeRef kiln_llvm_type_like(LLVMTypeRef scalar, LLVMTypeRef like);
LLVMValueRef kiln_llvm_constant(LLVMTypeRef type, double value); /* floats, splatted for vectors */
LLVMValueRef kiln_llvm_constant_int(LLVMTypeRef type, int64_t value); /* likewise */
LLVMValueRef kiln_llvm_splat(kiln_llvm_emitter *e, LLVMValueRef v,
                             uint32_t lanes); /* vectors unchanged */
/* Makes both scalars or both vectors. */
void kiln_llvm_match(kiln_llvm_emitter *e, LLVMValueRef *a, LLVMValueRef *b);
LLVMValueRef kiln_llvm_extract(kiln_llvm_emitter *e, LLVMValueRef v,
                               uint32_t lane); /* scalars unchanged */
LLVMValueRef kiln_llvm_insert(kiln_llvm_emitter *e, LLVMValueRef v, LLVMValueRef scalar,
                              uint32_t lane);
/* lanes first, first + step, ... */
LLVMValueRef kiln_llvm_ramp(LLVMTypeRef element, uint32_t lanes, int64_t first, int64_t step);
/* Calls an intrinsic whose overloads are the types `overload`. */
LLVMValueRef kiln_llvm_intrinsic(kiln_llvm_emitter *e, const char *name, LLVMTypeRef *overload,
                                 uint32_t overload_count, LLVMValueRef *arg, uint32_t arg_count);
/* Calls an intrinsic of one overload, the type of its first argument. */
LLVMValueRef kiln_llvm_unary_intrinsic(kiln_llvm_emitter *e, const char *name, LLVMValueRef a);
/* a * b + c, fused where the target can. */
LLVMValueRef kiln_llvm_fma(kiln_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* Calls a C function of one or two operands for each lane; it must be in kernel_services.def. */
LLVMValueRef kiln_llvm_libm(kiln_llvm_emitter *e, const char *name, LLVMValueRef *arg,
                            uint32_t arg_count);

LLVMValueRef kiln_llvm_table_find(const kiln_llvm_table *t, const uint64_t key[4]);
void kiln_llvm_table_put(kiln_llvm_emitter *e, kiln_llvm_table *t, const uint64_t key[4],
                         LLVMValueRef value);
uint32_t kiln_llvm_table_mark(const kiln_llvm_table *t);
void kiln_llvm_table_pop(kiln_llvm_table *t, uint32_t mark);

/* From bits in memory to what is computed with, and back. */
LLVMValueRef kiln_llvm_from_memory(kiln_llvm_emitter *e, kiln_dtype dtype, LLVMValueRef v);
LLVMValueRef kiln_llvm_to_memory(kiln_llvm_emitter *e, kiln_dtype dtype, LLVMValueRef v);
LLVMValueRef kiln_llvm_cast(kiln_llvm_emitter *e, kiln_dtype from, kiln_dtype to, LLVMValueRef v);

/* ---- llvm_address.c: where things lie -------------------------------------------------------- */

/* An access for the current bindings. */
typedef struct kiln_llvm_address {
    LLVMValueRef pointer;   /* of lane 0, without `constant` */
    int64_t constant;       /* elements */
    int64_t lane_stride;    /* elements; meaningful when linear */
    bool linear;            /* false: the offset is no linear function of the lane */
    uint32_t align;         /* bytes, of lane 0 with `constant` */
    uint32_t pointer_align; /* bytes, of `pointer` */
} kiln_llvm_address;

const kiln_affine *kiln_llvm_load_offset(kiln_llvm_emitter *e, kiln_expr load);
const kiln_affine *kiln_llvm_store_offset(kiln_llvm_emitter *e, kiln_stmt store);
kiln_llvm_address kiln_llvm_address_of(kiln_llvm_emitter *e, kiln_buffer buffer,
                                       const kiln_affine *offset);
LLVMValueRef kiln_llvm_pointer(kiln_llvm_emitter *e, const kiln_llvm_address *a, kiln_dtype dtype,
                               int64_t plus_elements);
/* The offset of one lane when it must be a constant (REGISTER buffers). */
int64_t kiln_llvm_constant_offset(kiln_llvm_emitter *e, const kiln_affine *offset, uint32_t lane);
/* A linear function of serial variables, computed as far out as possible; false when lanes enter
 * otherwise than linearly. `*out_lane_stride` is 0 for uniform ones. */
bool kiln_llvm_linear(kiln_llvm_emitter *e, const kiln_affine *a, LLVMValueRef *out_base,
                      int64_t *out_constant, int64_t *out_lane_stride);
/* Gives the lane variable one constant value, for code that is emitted lane by lane. */
void kiln_llvm_enter_lane(kiln_llvm_emitter *e, uint32_t lane);
void kiln_llvm_leave_lane(kiln_llvm_emitter *e);

/* ---- llvm_memory.c: loads, stores, registers ------------------------------------------------- */

LLVMValueRef kiln_llvm_load(kiln_llvm_emitter *e, kiln_expr load);
void kiln_llvm_store(kiln_llvm_emitter *e, kiln_stmt store, LLVMValueRef value);
/* Whether every element that the load may name lies in memory of its buffer. */
bool kiln_llvm_load_is_safe(kiln_llvm_emitter *e, kiln_expr load);
void kiln_llvm_registers_begin(kiln_llvm_emitter *e, kiln_buffer buffer, kiln_stmt scope);
void kiln_llvm_registers_end(kiln_llvm_emitter *e, kiln_buffer buffer);

/* ---- llvm_tensor.c --------------------------------------------------------------------------- */

/* Emits the loop `stmt` as the tensor intrinsic that it is marked with. False: it is not, or no
 * longer the piece of a nest that it was; then it is a loop like others. */
bool kiln_llvm_tensor(kiln_llvm_emitter *e, kiln_stmt stmt);

/* ---- llvm_prefetch.c ------------------------------------------------------------------------- */

/* At the start of the body of `loop`: what its annotations ask to be fetched ahead. */
void kiln_llvm_prefetch(kiln_llvm_emitter *e, kiln_stmt loop);

/* ---- llvm_expr.c, llvm_math.c: values -------------------------------------------------------- */

/* The value of any expression for the current bindings, in the compute type of its dtype. */
LLVMValueRef kiln_llvm_expr(kiln_llvm_emitter *e, kiln_expr expr);
/* One arithmetic operator on computed operands. */
LLVMValueRef kiln_llvm_operator(kiln_llvm_emitter *e, kiln_expr expr, LLVMValueRef *operand);
/* Runs `emit` only where the uniform i1 `condition` holds and joins its value with `otherwise`
 * (NULL: no value). */
typedef LLVMValueRef (*kiln_llvm_side)(kiln_llvm_emitter *e, void *context);
LLVMValueRef kiln_llvm_branch(kiln_llvm_emitter *e, LLVMValueRef condition,
                              kiln_llvm_side then_side, kiln_llvm_side else_side, void *context);

/* f32 and f64, scalars and vectors; `op` a KILN_EXPR operator of one or two float operands. */
LLVMValueRef kiln_llvm_math(kiln_llvm_emitter *e, kiln_expr_op op, LLVMValueRef *operand);

#endif
