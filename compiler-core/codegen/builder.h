/* Value builders: what stands between the walk over a lowered program (walk.h) and the code that
 * comes out. The walk makes every decision (what is unrolled, hoisted, remembered, masked, which
 * polynomial an exponential is); a builder appends what it is told to and decides nothing, so that
 * each decision is made once for all back ends. LLVM is behind one builder (llvm_builder.h),
 * C-family text behind another (c_builder.h).
 *
 * Values are SSA: computed once, never changed. A builder may compute constants at once and owns
 * everything that it makes, until it is destroyed. All operands of one instruction are alike
 * scalars, or vectors of equal lanes.
 *
 * Code is appended at one place. The walk moves it only to marks, and back to the end. */
#ifndef KILN_COMPILER_CORE_CODEGEN_BUILDER_H
#define KILN_COMPILER_CORE_CODEGEN_BUILDER_H

#include "base/str.h"
#include "compiler-core/ir/intrinsic.h"

typedef enum kiln_ssa_scalar {
    KILN_SSA_BOOL,
    KILN_SSA_I8,
    KILN_SSA_I16,
    KILN_SSA_I32,
    KILN_SSA_I64,
    KILN_SSA_F16, /* loaded, stored and converted only */
    KILN_SSA_F32,
    KILN_SSA_F64,
    KILN_SSA_POINTER, /* to bytes */
} kiln_ssa_scalar;

typedef struct kiln_ssa_type {
    kiln_ssa_scalar scalar;
    uint32_t lanes; /* 0: a scalar; a vector may have one lane */
} kiln_ssa_type;

/* The builder's own; NULL: none. Equal values of one builder may be different pointers, but never
 * the reverse. */
typedef struct kiln_ssa_node *kiln_ssa;
/* A place in the code, an open loop, an open branch. */
typedef struct kiln_mark_node *kiln_mark;
typedef struct kiln_open_loop *kiln_loop_handle;
typedef struct kiln_open_branch *kiln_branch_handle;

typedef enum kiln_build_op {
#define X(name, ...) KILN_BUILD_##name,
#include "compiler-core/codegen/instructions.def"
#undef X
    KILN_BUILD_COUNT
} kiln_build_op;

/* Conversions to another scalar type, lane by lane. */
typedef enum kiln_conversion {
    KILN_CONVERT_BITS,     /* the same bits; vectors may become ones of other lanes */
    KILN_CONVERT_SIGNED,   /* between integers: repeats the sign, or cuts off */
    KILN_CONVERT_UNSIGNED, /* between integers: zeros above, or cuts off */
    KILN_CONVERT_FLOAT,    /* between floats, to nearest */
    KILN_CONVERT_SIGNED_TO_FLOAT,
    KILN_CONVERT_UNSIGNED_TO_FLOAT,
    KILN_CONVERT_FLOAT_TO_SIGNED, /* towards zero, saturates; NaN gives 0 */
    KILN_CONVERT_FLOAT_TO_UNSIGNED,
} kiln_conversion;

/* What one function of the artefact gets. */
typedef struct kiln_entry_values {
    kiln_ssa scratch;
    kiln_ssa *data; /* [arg_count] start of each argument; NULL where it is not touched */
} kiln_entry_values;

/* What the body of a parallel loop gets. */
typedef struct kiln_body_values {
    kiln_ssa *captured;  /* [captured count] what was captured, inside of the body */
    kiln_ssa begin, end; /* I64: iterations to run */
    kiln_ssa worker;     /* I32 */
} kiln_body_values;

typedef struct kiln_builder kiln_builder;

/* All members are required but the two at the end. `b` is the builder; results belong to it. */
typedef struct kiln_builder_ops {
    /* ---- types and constants ---- */
    kiln_ssa_type (*type_of)(kiln_builder *b, kiln_ssa v);
    /* `value` in all lanes, its lower bits where the type is narrower. */
    kiln_ssa (*integer)(kiln_builder *b, kiln_ssa_type type, int64_t value);
    kiln_ssa (*real)(kiln_builder *b, kiln_ssa_type type, double value);
    kiln_ssa (*zero)(kiln_builder *b, kiln_ssa_type type);
    kiln_ssa (*ramp)(kiln_builder *b, kiln_ssa_type type, int64_t first, int64_t step);
    /* Any value; nothing that depends on it is looked at. */
    kiln_ssa (*poison)(kiln_builder *b, kiln_ssa_type type);
    bool (*is_constant)(kiln_builder *b, kiln_ssa v);
    /* Whether a scalar integer or BOOL is known, and which it is. */
    bool (*known_integer)(kiln_builder *b, kiln_ssa v, int64_t *out_value);
    /* Whether all lanes of a vector of BOOL are known to be `wanted`. */
    bool (*known_mask)(kiln_builder *b, kiln_ssa mask, bool wanted);

    /* ---- arithmetic ---- */
    kiln_ssa (*compute)(kiln_builder *b, kiln_build_op what, kiln_ssa a,
                        kiln_ssa second); /* NULL for instructions of one operand */
    kiln_ssa (*select)(kiln_builder *b, kiln_ssa condition, kiln_ssa yes, kiln_ssa no);
    /* x * y + z, fused where the target can. */
    kiln_ssa (*multiply_add)(kiln_builder *b, kiln_ssa x, kiln_ssa y, kiln_ssa z);
    kiln_ssa (*convert)(kiln_builder *b, kiln_conversion how, kiln_ssa v, kiln_ssa_type to);
    /* A function of C's library of `count` scalars of one float type, by its name for doubles. */
    kiln_ssa (*call)(kiln_builder *b, const char *name, const kiln_ssa *arg, uint32_t count);

    /* ---- lanes ---- */
    kiln_ssa (*splat)(kiln_builder *b, kiln_ssa scalar, uint32_t lanes);
    kiln_ssa (*extract)(kiln_builder *b, kiln_ssa vector, uint32_t lane);
    kiln_ssa (*insert)(kiln_builder *b, kiln_ssa vector, kiln_ssa scalar, uint32_t lane);
    /* [count] lanes of `a` and, counted on from its lanes, of `second` (NULL: none); -1: any. */
    kiln_ssa (*shuffle)(kiln_builder *b, kiln_ssa a, kiln_ssa second, const int32_t *lane,
                        uint32_t count);
    /* Whether `v` is known to be a lane that was taken out of a vector, and of which. */
    bool (*taken_from)(kiln_builder *b, kiln_ssa v, kiln_ssa *out_vector, uint32_t *out_lane);
    kiln_ssa (*any)(kiln_builder *b, kiln_ssa mask); /* BOOL: one lane is on */

    /* ---- memory; alignments in bytes; lanes that are masked off are not touched and read as 0
     * ---- */
    kiln_ssa (*offset)(kiln_builder *b, kiln_ssa pointer, kiln_ssa bytes); /* I64 */
    kiln_ssa (*load)(kiln_builder *b, kiln_ssa_type type, kiln_ssa pointer, uint32_t align,
                     kiln_ssa mask); /* NULL: all lanes */
    void (*store)(kiln_builder *b, kiln_ssa v, kiln_ssa pointer, uint32_t align, kiln_ssa mask);
    /* The same at a pointer per lane. */
    kiln_ssa (*gather)(kiln_builder *b, kiln_ssa_type type, kiln_ssa pointers, kiln_ssa mask);
    void (*scatter)(kiln_builder *b, kiln_ssa v, kiln_ssa pointers, kiln_ssa mask);
    /* Asks for the line at `pointer` to be brought to the second cache; may do nothing. */
    void (*prefetch)(kiln_builder *b, kiln_ssa pointer);

    /* ---- places ---- */
    /* A mark at the current place, until it is closed. */
    kiln_mark (*open_mark)(kiln_builder *b);
    void (*close_mark)(kiln_builder *b, kiln_mark mark);
    /* What follows goes before the mark, until `leave` with what this gave. Not nested. */
    void *(*enter_mark)(kiln_builder *b, kiln_mark mark);
    void (*leave)(kiln_builder *b, void *place);

    /* ---- control ---- */
    /* do { ... } while (++counter != end), from `first`: I64, first < end. */
    kiln_loop_handle (*loop_begin)(kiln_builder *b, kiln_ssa first, kiln_ssa *out_counter);
    /* Right after the loop began: a value that is `before` in the first iteration and in the next
     * ones what loop_end is told. */
    kiln_ssa (*loop_carry)(kiln_builder *b, kiln_loop_handle loop, kiln_ssa before);
    /* base + step_bytes * counter, which the loop advances; from anywhere inside the loop. */
    kiln_ssa (*loop_pointer)(kiln_builder *b, kiln_loop_handle loop, kiln_ssa base,
                             int64_t step_bytes);
    /* `carried`: [carry count] values at the end of an iteration, in the order of loop_carry; they
     * become what holds them behind the loop. */
    void (*loop_end)(kiln_builder *b, kiln_loop_handle loop, kiln_ssa end, kiln_ssa *carried);
    /* if (condition) { ... } else { ... }: a scalar BOOL. */
    kiln_branch_handle (*branch_begin)(kiln_builder *b, kiln_ssa condition, bool has_else);
    void (*branch_else)(kiln_builder *b, kiln_branch_handle branch);
    /* While the else side is open: what follows goes to the end of the first one, until `leave`. */
    void *(*branch_enter_then)(kiln_builder *b, kiln_branch_handle branch);
    void (*branch_end)(kiln_builder *b, kiln_branch_handle branch);
    /* Right after branch_end: `yes` of the first side, or `no`, of the second side or, without one,
     * from before the branch. */
    kiln_ssa (*branch_join)(kiln_builder *b, kiln_branch_handle branch, kiln_ssa yes, kiln_ssa no);

    /* ---- functions ---- */
    /* Starts an entry of the artefact. */
    void (*entry_begin)(kiln_builder *b, const char *name, uint32_t arg_count, const bool *touched,
                        kiln_entry_values *out);
    void (*entry_end)(kiln_builder *b);
    /* Starts the body of a parallel loop over [0, count), as a function of its own in which only
     * what is `captured` is known. `entry`: mark at the start of the function that calls it. Not
     * nested. parallel_end ends it and calls it in all workers; a status that is not 0 ends the
     * caller too. */
    void (*parallel_begin)(kiln_builder *b, const char *name, kiln_mark entry,
                           const kiln_ssa *captured, uint32_t captured_count,
                           kiln_body_values *out);
    void (*parallel_end)(kiln_builder *b, int64_t count);

    /* ---- optional: instructions of intrinsics.def ---- */
    /* sum + a * b, or a * b where `sum` is NULL: vectors of I32 with the elements that the row
     * takes. NULL: tensorized loops are built as they stand. */
    kiln_ssa (*intrinsic)(kiln_builder *b, const kiln_intrinsic *row, kiln_ssa sum, kiln_ssa a,
                          kiln_ssa second);
    /* The value, of which the code generator behind the builder knows nothing any more. No
     * instruction. NULL: not needed. */
    kiln_ssa (*opaque)(kiln_builder *b, kiln_ssa v);
} kiln_builder_ops;

/* First member of each builder. */
struct kiln_builder {
    const kiln_builder_ops *ops;
};

#endif
