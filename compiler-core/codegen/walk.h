/* Private to codegen/: the walk over one lowered program, which calls a value builder (builder.h).
 * Shared by walk_*.c; independent of LLVM and C text.
 *
 * The output is already unrolled, vectorised SSA: UNROLL loops are copied here, the variable of a
 * VECTORIZE loop becomes the lanes of vector values, REGISTER buffers are tables of SSA values
 * joined where control flow joins. Nothing relies on the code generator behind the builder to find
 * loads, loops or vectors again. Within a vector loop every expression is either uniform (a scalar)
 * or has all lanes (a vector); the type of a value says which. */
#ifndef KILN_COMPILER_CORE_CODEGEN_WALK_H
#define KILN_COMPILER_CORE_CODEGEN_WALK_H

#include "base/kernel_abi.h"
#include "base/small_float.h"
#include "base/target.h"
#include "compiler-core/codegen/backend.h"
#include "compiler-core/codegen/builder.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/ir.h"

/* How a loop variable is bound at the place of insertion. */
typedef enum kiln_walk_binding {
    KILN_WALK_UNBOUND,
    KILN_WALK_CONSTANT, /* of an unrolled loop */
    KILN_WALK_SERIAL,   /* an I64 of some loop level */
    KILN_WALK_LANES,    /* constant + lane number */
} kiln_walk_binding;

typedef struct kiln_walk_slot {
    kiln_walk_binding binding;
    int64_t constant;
    kiln_ssa value;
    uint32_t level;
} kiln_walk_slot;

/* Known values. Keys name the operation and its operands; entries are removed in the order of a
 * stack, so that a value is only found where its definition dominates. */
typedef struct kiln_walk_entry {
    uint64_t key[4];
    kiln_ssa value;
    uint32_t next;
} kiln_walk_entry;

#define KILN_WALK_BUCKETS 512
typedef struct kiln_walk_table {
    KILN_VEC(kiln_walk_entry) entry; /* [0] unused */
    uint32_t bucket[KILN_WALK_BUCKETS];
} kiln_walk_table;

/* One open serial loop, or the function (level 0). Code that depends on nothing deeper is put
 * before `mark`, at the start of the loop's body, and is remembered while the loop is open. */
typedef struct kiln_walk_level {
    kiln_mark mark;
    kiln_walk_table known;
    kiln_loop_handle loop; /* NULL: the function */
    kiln_ssa counter;
} kiln_walk_level;

/* A live REGISTER buffer: element n is lane n % width of chunk[n / width]. */
typedef struct kiln_walk_registers {
    bool live;
    uint32_t width, chunk_count;
    kiln_ssa *chunk; /* NULL: never written */
} kiln_walk_registers;

/* The part of memory that a tile of a matrix unit holds. */
typedef struct kiln_walk_tile_holds {
    kiln_buffer buffer;
    uint32_t epoch;
    kiln_ssa pointer; /* NULL: unknown contents */
    int64_t constant, stride;
    uint64_t last_use;
} kiln_walk_tile_holds;

/* An element of a REGISTER buffer that an instruction of a group of warps adds to. */
typedef struct kiln_walk_sum {
    kiln_buffer buffer;
    int64_t element;
    kiln_ssa value;
} kiln_walk_sum;

typedef struct kiln_walk_tiles kiln_walk_tiles; /* how a TILE buffer lies in tiles (walk_tiles.c) */

#define KILN_WALK_TILES 8 /* of a processor that has them */
#define KILN_WALK_LEVELS_MAX 64

typedef struct kiln_walk {
    kiln_builder *b;
    kiln_program *p;
    const kiln_target *target;
    kiln_arena *arena;
    const char *name; /* of the entry; prefix of internal names */
    const kiln_buffer
        *arg; /* [arg_count] buffers that the program touches, in the order of the ABI */
    uint32_t arg_count;

    /* State of the function being written. */
    kiln_ssa scratch;
    kiln_ssa worker_scratch; /* in bodies of parallel loops */
    kiln_ssa *data;          /* [buffer count] start of each buffer in memory */
    kiln_walk_level *level[KILN_WALK_LEVELS_MAX];
    uint32_t level_count;
    uint32_t function_count; /* parallel bodies so far, for their names */
    bool in_parallel;        /* parallel loops run in order here */
    const bool *written; /* [buffer count] whether the launch stores to it; NULL: no launch is being
                          * written */

    kiln_walk_slot *slot; /* [var count at the start] */
    kiln_expr
        *constant_of; /* [var count] index constant of CONSTANT slots, else 0: for substitution */
    uint32_t var_count;
    uint32_t lanes; /* 0 outside vector loops */
    kiln_var lane_var;
    bool combines; /* the lanes of this loop are reduced to one element */
    /* The unrolled loop whose copies are one vector loop each, with as many lanes as there are
     * copies, that stores once; NULL: none. */
    const kiln_stmt_info *square;
    kiln_ssa mask; /* <lanes> BOOL, or NULL: all lanes */
    bool moves;    /* halves are only moved here: they stay as they lie in memory */
    /* While one lane is built alone: its number, and the loop's lanes and constant otherwise. */
    uint32_t lane, all_lanes;
    kiln_ssa all_mask;
    int64_t all_constant; /* of the lane variable's slot */

    kiln_walk_registers *registers; /* [buffer count] */
    kiln_walk_table loads;          /* values loaded from memory, splats */
    uint32_t *epoch;                /* [buffer count] stores so far: part of the key of loads */
    /* Results within one statement, by expression: valid when the stamp is the current one. */
    KILN_VEC(kiln_ssa) memo;
    KILN_VEC(uint32_t) memo_stamp;
    uint32_t stamp, last_stamp;

    uint32_t copy_tokens; /* of the launch; devices do not tell groups of different ones apart */
    kiln_var warp_lane;   /* of the launch's threads, whose 32 values are a warp; 0: none */
    kiln_var group_warp;  /* the same, whose values are the four warps of a group; 0: none */
    bool has_groups;      /* it has instructions of groups, which read shared memory
                           * asynchronously */
    /* Of launches whose threads are units: [stmt count] the units that a statement has work for, as
     * bits; NULL: no units. The unit being written, and the place of the tokens. */
    uint8_t *units;
    kiln_unit unit;
    uint32_t token_slots;
    kiln_ssa tokens;
    bool has_bulk_copies;      /* bulk copies or boxes are possible */
    kiln_ssa full;             /* the token for the copies that the producer starts now; or NULL */
    const kiln_launch *launch; /* with the boxes of the producer; NULL: no launch */
    bool is_one;               /* inside of loops that one thread of the producer runs */
    kiln_ssa *map;             /* [launch->map_count] its tensor maps */
    /* Sums of groups' instructions that have not been waited for. */
    KILN_VEC(kiln_walk_sum) in_flight;
    const kiln_program *meaning[KILN_INTRINSIC_COUNT]; /* of tensor intrinsics used so far */

    /* Tiles of a matrix unit. */
    kiln_walk_tiles **tiles_of;  /* [stmt count] of allocations; NULL: in memory */
    kiln_walk_tiles *tiles;      /* any allocation's of the current function */
    bool tiles_differ;           /* its allocations have several configurations */
    kiln_walk_tiles *tiles_here; /* of the open allocation */
    kiln_walk_tile_holds tile_holds[KILN_WALK_TILES];
    uint64_t last_tile_use;

    /* Layout of scratch: every temp in memory has its place. */
    uint64_t *scratch_offset; /* [buffer count] */
    uint64_t scratch_bytes, worker_bytes;
    KILN_VEC(kiln_affine *)
    offset; /* by expression (loads) or statement (stores): element offset */
    KILN_VEC(kiln_affine *) store_offset;
} kiln_walk;

/* ---- walk_entry.c: functions ----------------------------------------------------------------- */

/* Adds the entries of a lowered program: kiln_prepare, where it has one, and kiln_run, whose
 * scratch needs go into `output`; or a function for each launch.
 *
 * UNIMPLEMENTED  a program has a construct that no builder supports; the note names it */
KILN_MUST_USE kiln_status kiln_walk_lowered(kiln_builder *b, const kiln_lowered *lowered,
                                            const kiln_target *target, kiln_arena *arena,
                                            kiln_codegen_output *output);
/* A parallel loop: its body in a separate function, and the call that distributes it. */
void kiln_walk_parallel(kiln_walk *w, kiln_stmt stmt);
/* Where a temp lies in scratch memory (the worker's own inside parallel loops). */
kiln_ssa kiln_walk_scratch(kiln_walk *w, kiln_buffer buffer);

/* ---- walk_stmt.c: statements and loops ------------------------------------------------------- */

/* [buffer count] buffers that are stored to below `stmt`; at barriers other threads store too. */
const bool *kiln_walk_stored_below(kiln_walk *w, kiln_stmt stmt);
/* All threads of the group meet. */
void kiln_walk_barrier(kiln_walk *w);
/* Appends a statement for the current bindings, if it concerns the unit being written. */
void kiln_walk_stmt(kiln_walk *w, kiln_stmt stmt);
/* do { body of the loop `stmt` } while (++v != end), from `first`: I64 values, first < end. */
void kiln_walk_counted(kiln_walk *w, kiln_stmt stmt, kiln_ssa first, kiln_ssa end);
/* Gives a loop variable one value, and takes it back. */
void kiln_walk_bind(kiln_walk *w, kiln_var var, int64_t value);
void kiln_walk_unbind(kiln_walk *w, kiln_var var);
/* Makes the variable of a vector loop lanes, and takes that back. */
void kiln_walk_open_lanes(kiln_walk *w, kiln_stmt loop);
void kiln_walk_close_lanes(kiln_walk *w);
/* Opens and closes a level at the current place. */
void kiln_walk_push_level(kiln_walk *w, kiln_loop_handle loop, kiln_ssa counter);
void kiln_walk_pop_level(kiln_walk *w);

/* ---- walk_value.c: types, short forms, known values ------------------------------------------ */

/* The type of `v` with another scalar. */
kiln_ssa_type kiln_type_like(kiln_walk *w, kiln_ssa v, kiln_ssa_scalar scalar);
/* How a dtype lies in memory: bf16 and smaller floats as bits, bool as a byte. */
kiln_ssa_scalar kiln_scalar_in_memory(kiln_dtype dtype);
/* The type that values of a dtype are computed in: halves and smaller floats in F32, bool in BOOL,
 * others unchanged. */
kiln_ssa_scalar kiln_scalar_computed(kiln_dtype dtype);

kiln_ssa_type kiln_walk_type(kiln_walk *w, kiln_ssa v); /* The type of a value. */
bool kiln_walk_is_vector(kiln_walk *w, kiln_ssa v);     /* Whether it has lanes. */
kiln_ssa kiln_walk_i64(kiln_walk *w, int64_t value);    /* An I64 constant. */
/* Constants of the type of `like`, in all its lanes. */
kiln_ssa kiln_walk_integer(kiln_walk *w, kiln_ssa like, int64_t value);
kiln_ssa kiln_walk_real(kiln_walk *w, kiln_ssa like, double value);
/* A row of instructions.def. */
kiln_ssa kiln_walk_compute(kiln_walk *w, kiln_build_op what, kiln_ssa a, kiln_ssa b);
/* yes where the condition holds, else no. */
kiln_ssa kiln_walk_select(kiln_walk *w, kiln_ssa condition, kiln_ssa yes, kiln_ssa no);
/* To the scalar type `to` in all lanes. */
kiln_ssa kiln_walk_convert(kiln_walk *w, kiln_conversion how, kiln_ssa v, kiln_ssa_scalar to);
/* Inverts all bits of a BOOL or an integer. */
kiln_ssa kiln_walk_not(kiln_walk *w, kiln_ssa v);
kiln_ssa kiln_walk_negated(kiln_walk *w, kiln_ssa v);               /* an integer */
kiln_ssa kiln_walk_splat(kiln_walk *w, kiln_ssa v, uint32_t lanes); /* vectors unchanged */
/* Makes both scalars or both vectors. */
void kiln_walk_match(kiln_walk *w, kiln_ssa *a, kiln_ssa *b);
kiln_ssa kiln_walk_extract(kiln_walk *w, kiln_ssa v, uint32_t lane); /* scalars unchanged */
/* a * b + c, fused where the target can. */
kiln_ssa kiln_walk_fma(kiln_walk *w, kiln_ssa a, kiln_ssa b, kiln_ssa c);
/* Calls a C function of one or two operands for each lane; it must be in kernel_services.def. */
kiln_ssa kiln_walk_libm(kiln_walk *w, const char *name, const kiln_ssa *arg, uint32_t arg_count);

/* NULL: not known. */
kiln_ssa kiln_walk_table_find(const kiln_walk_table *t, const uint64_t key[4]);
/* Stores the value until the table is popped below it. */
void kiln_walk_table_put(kiln_walk *w, kiln_walk_table *t, const uint64_t key[4], kiln_ssa value);
uint32_t kiln_walk_table_mark(const kiln_walk_table *t);     /* For kiln_walk_table_pop. */
void kiln_walk_table_pop(kiln_walk_table *t, uint32_t mark); /* Forgets what was put since. */

/* The current type of values of a dtype: kiln_scalar_computed, or the type in memory where halves
 * are only moved. */
kiln_ssa_scalar kiln_walk_scalar(const kiln_walk *w, kiln_dtype dtype);
/* From bits in memory to what is computed with, and back. */
kiln_ssa kiln_walk_from_memory(kiln_walk *w, kiln_dtype dtype, kiln_ssa v);
kiln_ssa kiln_walk_to_memory(kiln_walk *w, kiln_dtype dtype, kiln_ssa v);
/* exprs.def says how casts round. */
kiln_ssa kiln_walk_cast(kiln_walk *w, kiln_dtype from, kiln_dtype to, kiln_ssa v);

/* ---- walk_address.c: where things lie -------------------------------------------------------- */

/* An access for the current bindings. */
typedef struct kiln_walk_address {
    kiln_ssa pointer;       /* of lane 0, without `constant` */
    int64_t constant;       /* elements */
    int64_t lane_stride;    /* elements; meaningful when linear */
    bool linear;            /* false: the offset is no linear function of the lane */
    uint32_t align;         /* bytes, of lane 0 with `constant` */
    uint32_t pointer_align; /* bytes, of `pointer` */
} kiln_walk_address;

/* Offset in elements of the load in its buffer, before bindings. */
const kiln_affine *kiln_walk_load_offset(kiln_walk *w, kiln_expr load);
const kiln_affine *kiln_walk_store_offset(kiln_walk *w, kiln_stmt store); /* The same of a store. */
/* The access for the current bindings. */
kiln_walk_address kiln_walk_address_of(kiln_walk *w, kiln_buffer buffer, const kiln_affine *offset);
/* A pointer to lane 0, plus `elements`. */
kiln_ssa kiln_walk_pointer(kiln_walk *w, const kiln_walk_address *a, kiln_dtype dtype,
                           int64_t plus_elements);
/* The offset of one lane when it must be a constant (REGISTER buffers). */
int64_t kiln_walk_constant_offset(kiln_walk *w, const kiln_affine *offset, uint32_t lane);
/* A linear function of serial variables, computed as far out as possible; false when it is not
 * linear in the lane. `*out_base` NULL: 0. `*out_lane_stride` is 0 for uniform ones. */
bool kiln_walk_linear(kiln_walk *w, const kiln_affine *a, kiln_ssa *out_base, int64_t *out_constant,
                      int64_t *out_lane_stride);
/* Gives the lane variable one constant value, for code that is built lane by lane. */
void kiln_walk_enter_lane(kiln_walk *w, uint32_t lane);
void kiln_walk_leave_lane(kiln_walk *w); /* Back to all lanes. */

/* ---- walk_small.c: floats of at most 8 bits -------------------------------------------------- */

/* Such a number in memory, an I8, as F32, and an F32 rounded to one (base/small_float.h). */
kiln_ssa kiln_walk_from_small(kiln_walk *w, const kiln_small_float *format, kiln_ssa byte);
kiln_ssa kiln_walk_to_small(kiln_walk *w, const kiln_small_float *format, kiln_ssa v);
/* An F64 as the F32 that a second rounding, to such a number, takes for it: rounded to odd. */
kiln_ssa kiln_walk_to_odd(kiln_walk *w, kiln_ssa v);

/* ---- walk_memory.c: loads, stores, registers ------------------------------------------------- */

/* The value of a LOAD for the current bindings and mask. */
kiln_ssa kiln_walk_load(kiln_walk *w, kiln_expr load);
/* Stores `value` to the element of the STORE; masked-off lanes are not written. */
void kiln_walk_store(kiln_walk *w, kiln_stmt store, kiln_ssa value);
/* Whether every element that the load may read lies inside its buffer's memory. */
bool kiln_walk_load_is_safe(kiln_walk *w, kiln_expr load);
/* A REGISTER buffer lives inside its alloc `scope`. */
void kiln_walk_registers_begin(kiln_walk *w, kiln_buffer buffer, kiln_stmt scope);
void kiln_walk_registers_end(kiln_walk *w, kiln_buffer buffer); /* Its life ends. */
/* Takes a vector of elements of a live REGISTER buffer, and puts it back: one chunk, unchanged,
 * where the elements are a chunk.
 */
kiln_ssa kiln_walk_registers_take(kiln_walk *w, kiln_buffer buffer, const int64_t *element,
                                  uint32_t count);
void kiln_walk_registers_put(kiln_walk *w, kiln_buffer buffer, const int64_t *element,
                             uint32_t count, kiln_ssa value);
/* Of one chunk of a live REGISTER buffer. */
kiln_ssa_type kiln_walk_chunk_type(const kiln_walk *w, kiln_buffer buffer);

/* ---- walk_library.c, walk_library_wide.c: where the builder's `call` is NULL -------------------
 */

/* A function of f32 or f64 that C's library has on other targets: POW, REM and those of one
 * operand. */
kiln_ssa kiln_walk_library(kiln_walk *w, kiln_expr_op op, const kiln_ssa *v, uint32_t count);
/* The same of f64 (y NULL: one operand), POW for x >= 0 and finite results of its logarithm:
 * kiln_walk_library handles C's special cases. Errors are documented in walk_library_wide.c. */
kiln_ssa kiln_walk_wide(kiln_walk *w, kiln_expr_op op, kiln_ssa x, kiln_ssa y);

/* ---- walk_tensor.c --------------------------------------------------------------------------- */

/* Builds the loop `stmt` as the tensor intrinsic that it, or the loop over steps inside of a loop
 * over rows, is marked with. False: no mark, a nest that no longer matches, or no such member of
 * the builder; then an ordinary loop must be built. */
bool kiln_walk_tensor(kiln_walk *w, kiln_stmt stmt);

/* The program of kiln_intrinsic_program, made once. */
const kiln_program *kiln_walk_meaning(kiln_walk *w, const kiln_intrinsic *intrinsic);

/* ---- walk_warp.c ----------------------------------------------------------------------------- */

/* Builds three loops of each thread of a warp as one instruction of the warp. False: the loop is
 * not, or no longer, the outer one of such a nest; then an ordinary loop must be built. */
bool kiln_walk_warp(kiln_walk *w, kiln_stmt stmt);

/* Whether all threads of a warp reach the statement together. */
bool kiln_walk_is_uniform(const kiln_walk *w, kiln_stmt stmt);
/* The only statement of a loop, where that is a loop as well; else NULL. */
const kiln_stmt_info *kiln_walk_loop_in(const kiln_walk *w, const kiln_stmt_info *outer,
                                        kiln_stmt *out);
/* Assigns the loads of the summed value to the intrinsic's operands: rows are shared by a group of
 * threads, columns by the threads with the same place in their groups. */
bool kiln_walk_find_operands(kiln_walk *w, const kiln_intrinsic *row, kiln_var rows,
                             kiln_var columns, kiln_expr value,
                             kiln_expr load[KILN_INTRINSIC_OPERANDS]);

/* ---- walk_group.c ---------------------------------------------------------------------------- */

/* The same for four warps: the instruction is begun. */
bool kiln_walk_group(kiln_walk *w, kiln_stmt stmt);
/* Waits for the instructions begun; needed before other accesses to their sums or operands. */
void kiln_walk_group_wait(kiln_walk *w);
/* Whether a loop below `stmt` is marked with an instruction of groups. */
bool kiln_walk_has_groups(const kiln_program *p, kiln_stmt stmt);

/* ---- walk_copy.c ----------------------------------------------------------------------------- */

/* Appends a COPY that lands later. False: the builder has none for it; build a load and a store. */
bool kiln_walk_copy(kiln_walk *w, kiln_stmt stmt);
/* The same for all copies of a nest of loops; a token counts them. */
bool kiln_walk_bulk_copy(kiln_walk *w, kiln_stmt nest);
/* Whether a bulk copy is possible below `stmt`: its addresses are multiples of 16 bytes. */
bool kiln_walk_has_bulk_copies(kiln_walk *w, kiln_stmt stmt);
/* Appends the copies of boxes in place of a fetch. False: it is none of the launch's boxes. */
bool kiln_walk_box(kiln_walk *w, kiln_stmt nest);
/* Whether this is thread 0 in thread.x and thread.y, a BOOL. */
kiln_ssa kiln_walk_is_first_thread(kiln_walk *w);
/* How many tokens copies below `stmt` have. */
uint32_t kiln_walk_copy_tokens(const kiln_program *p, kiln_stmt stmt);

/* ---- walk_token.c ---------------------------------------------------------------------------- */

/* Whether a producer gives registers to the consumers: an equal share would be too small for them,
 * and the units are whole groups of four warps. `counted`: registers of a thread. */
bool kiln_walk_moves_registers(const kiln_walk *w, const kiln_launch *launch, uint32_t counted);
/* Writes the body of a launch with tokens. `registers`: the estimate for a thread. */
void kiln_walk_units(kiln_walk *w, const kiln_launch *launch, const kiln_launch_values *values,
                     uint32_t registers);
void kiln_walk_token(kiln_walk *w, kiln_stmt stmt);
/* Whether the statement concerns threads of the unit being written. */
bool kiln_walk_is_of_unit(const kiln_walk *w, kiln_stmt stmt);

/* ---- walk_tiles.c ---------------------------------------------------------------------------- */

/* At the start of a function whose statement is `body`, and at its end. */
void kiln_walk_tiles_begin(kiln_walk *w, kiln_stmt body);
void kiln_walk_tiles_end(kiln_walk *w);
/* Restores the configuration behind a call of a function that has another one. */
void kiln_walk_tiles_resume(kiln_walk *w);
/* At the start of an allocation of a TILE buffer. */
void kiln_walk_tiles_alloc(kiln_walk *w, kiln_stmt alloc);
/* At joins of control flow: forgets the contents of operand tiles. */
void kiln_walk_tiles_forget(kiln_walk *w);
/* Builds a loop over the rows of a tile as one instruction. False: it is no such loop, or its
 * buffer lies in memory. */
bool kiln_walk_tile_nest(kiln_walk *w, kiln_stmt stmt);

/* ---- walk_prefetch.c ------------------------------------------------------------------------- */

/* At the start of the body of `loop`: appends the prefetches that its attributes ask for. */
void kiln_walk_prefetch(kiln_walk *w, kiln_stmt loop);

/* ---- walk_expr.c, walk_math.c: values -------------------------------------------------------- */

/* The value of any expression for the current bindings, in the type that its dtype is computed in.
 */
kiln_ssa kiln_walk_expr(kiln_walk *w, kiln_expr expr);
/* Applies the operator of `expr`, which is no load, select or variable, to the given values.
 */
kiln_ssa kiln_walk_apply(kiln_walk *w, kiln_expr expr, kiln_ssa *v);
/* Runs `then_side` only where the uniform `condition` holds and joins its value with that of
 * `else_side` (NULL: no value). */
typedef kiln_ssa (*kiln_walk_side)(kiln_walk *w, void *context);
kiln_ssa kiln_walk_branch(kiln_walk *w, kiln_ssa condition, kiln_walk_side then_side,
                          kiln_walk_side else_side, void *context);

/* F32 and F64, scalars and vectors; `op` a KILN_EXPR operator of one or two float operands. */
kiln_ssa kiln_walk_math(kiln_walk *w, kiln_expr_op op, const kiln_ssa *operand);

#endif
