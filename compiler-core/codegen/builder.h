/* Value builders: the interface between the walk over a lowered program (walk.h) and the generated
 * code. The walk makes every decision (what is unrolled, hoisted, remembered, masked, which
 * polynomial an exponential is); a builder only appends, so that each decision is made once for all
 * back ends. LLVM is behind one builder (llvm_builder.h), C-family text behind another
 * (c_builder.h).
 *
 * Values are SSA: computed once, never changed. A builder may fold constants; it owns everything
 * that it makes until it is destroyed. All operands of one instruction are scalars, or vectors of
 * equal lanes.
 *
 * Code is appended at one place. The walk moves it only to marks, and back to the end. */
#ifndef KILN_COMPILER_CORE_CODEGEN_BUILDER_H
#define KILN_COMPILER_CORE_CODEGEN_BUILDER_H

#include "base/manifest.h"
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

/* The memory that a pointer points to. A device has different instructions for each of its
 * memories. */
typedef enum kiln_ssa_space {
    KILN_SPACE_HOST,
    KILN_SPACE_GLOBAL, /* memory of the device: arguments and scratch of launches */
    KILN_SPACE_SHARED, /* memory of a group of threads */
    KILN_SPACE_LOCAL,  /* memory of one thread */
} kiln_ssa_space;

typedef struct kiln_ssa_type {
    kiln_ssa_scalar scalar;
    uint32_t lanes;       /* 0: a scalar; a vector may have one lane */
    kiln_ssa_space space; /* of pointers; HOST for numbers. Adding an offset to a pointer keeps the
                           * space. */
} kiln_ssa_type;

/* walk_value.c */
uint32_t kiln_ssa_scalar_bits(kiln_ssa_scalar scalar);  /* Bits of a number; 0 for pointers. */
kiln_ssa_type kiln_type_scalar(kiln_ssa_scalar scalar); /* One value of that type. */
/* `lanes` values of that type; 0: a scalar. */
kiln_ssa_type kiln_type_vector(kiln_ssa_scalar scalar, uint32_t lanes);

/* A value of the builder; NULL: none. Equal values of one builder may be different pointers, but
 * never the reverse. */
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

/* How instructions are built: classes of instructions.def. */
typedef enum kiln_build_class {
    KILN_BUILDS_INT,
    KILN_BUILDS_FLOAT,
    KILN_BUILDS_INT_COMPARE,
    KILN_BUILDS_FLOAT_COMPARE,
    KILN_BUILDS_NEGATE,
    KILN_BUILDS_CALL1,
    KILN_BUILDS_CALL2,
} kiln_build_class;

/* Conversions to another scalar type, lane by lane. */
typedef enum kiln_conversion {
    KILN_CONVERT_BITS,     /* the same bits; the number of lanes may change */
    KILN_CONVERT_SIGNED,   /* between integers: repeats the sign, or cuts off */
    KILN_CONVERT_UNSIGNED, /* between integers: zeros above, or cuts off */
    KILN_CONVERT_FLOAT,    /* between floats, to nearest */
    KILN_CONVERT_SIGNED_TO_FLOAT,
    KILN_CONVERT_UNSIGNED_TO_FLOAT,
    KILN_CONVERT_FLOAT_TO_SIGNED, /* towards zero, saturates; NaN gives 0 */
    KILN_CONVERT_FLOAT_TO_UNSIGNED,
} kiln_conversion;

/* Parameters of one function of the artefact. */
typedef struct kiln_entry_values {
    kiln_ssa scratch;
    kiln_ssa *data; /* [arg_count] start of each argument; NULL where it is not touched */
} kiln_entry_values;

/* Parameters of the body of a parallel loop. */
typedef struct kiln_body_values {
    kiln_ssa *captured;  /* [captured count] what was captured, inside of the body */
    kiln_ssa begin, end; /* I64: iterations to run */
    kiln_ssa worker;     /* I32 */
} kiln_body_values;

/* One launch of a device (lower/launch.h), as its function is declared. */
typedef struct kiln_launch_head {
    const char *name; /* of letters, digits and _: "run_0" */
    uint32_t arg_count;
    struct {
        bool is_written;
        bool is_alone; /* overlaps no other argument; results may lie over inputs (in_place.h) */
        uint32_t alignment;        /* bytes */
    } arg[KILN_MANIFEST_ARGS_MAX]; /* pointers to GLOBAL memory, in this order */
    bool
        uses_scratch; /* device scratch, GLOBAL too, is the last argument; aligned as buffers are */
    uint64_t shared_bytes, local_bytes; /* of a group, of a thread; 0: none */
    uint32_t shared_alignment;          /* bytes */
    uint32_t group_size[3];             /* threads in x, y, z; at least 1 */
    uint32_t resident;                  /* groups that must fit on a unit; 0: no requirement */
    uint32_t cluster;   /* groups of a cluster, which follow one another along x; 1: no clusters */
    uint32_t map_count; /* tensor maps, behind all other arguments */
} kiln_launch_head;

/* Parameters of the function of a launch, for each thread. */
typedef struct kiln_launch_values {
    kiln_ssa data[KILN_MANIFEST_ARGS_MAX]; /* [arg_count] */
    kiln_ssa scratch, shared, local;       /* NULL where the head has none */
    kiln_ssa map[KILN_LAUNCH_MAPS_MAX];    /* [map_count] for box_copy */
    kiln_ssa grid[3], group[3]; /* I64: indices of the group and of the thread in it; x, y, z */
} kiln_launch_values;

/* A matrix in shared memory, as a group's instruction takes it (intrinsic.h): in rows of
 * KILN_GROUP_ROW_BYTES, of steps, or transposed, of rows or columns. */
typedef struct kiln_group_operand {
    kiln_ssa pointer; /* to its first element */
    bool is_transposed;
    uint32_t leading_bytes; /* transposed: distance to the row that continues this
                             * row */
    uint32_t stride_bytes;  /* from 8 such rows to the next 8 */
} kiln_group_operand;
/* The descriptor of such a matrix, without its lowest 14 bits: those are its address / 16. */
uint64_t kiln_group_descriptor(const kiln_group_operand *operand);

/* A copy of one box of a tensor map (kiln_manifest_map) into shared memory. */
typedef struct kiln_box_copy {
    kiln_ssa to, map;
    uint32_t rank;
    kiln_ssa coordinate[KILN_MAP_RANK_MAX]; /* I32, of its first element, as the map's dimensions */
    kiln_ssa token;                         /* counts its bytes */
    uint32_t groups; /* 1, or as many as the cluster has: all of them get it, at the same place of
                        their memory, and their tokens at the same place count it */
} kiln_box_copy;

typedef struct kiln_builder kiln_builder;

/* All members are required, except the optional ones at the end. */
typedef struct kiln_builder_ops {
#define X(result, name, arguments) result(*name) arguments;
#include "compiler-core/codegen/builder_control.def"
#include "compiler-core/codegen/builder_memory.def"
#include "compiler-core/codegen/builder_values.def"
#undef X

    /* ---- optional: what not every target has an instruction for ---- */
    /* A row of intrinsics.def. sum + a * b, or a * b where `sum` is NULL: vectors of I32 with the
     * elements that the row takes. NULL: tensorized loops are built as they stand. */
    kiln_ssa (*intrinsic)(kiln_builder *b, const kiln_intrinsic *row, kiln_ssa sum, kiln_ssa a,
                          kiln_ssa second);
    /* v * 2^exponent, rounded once: f32, `exponent` whole or infinite. The function returns NULL
     * where the target has no instruction for it. Member NULL: no target has. */
    kiln_ssa (*scale)(kiln_builder *b, kiln_ssa v, kiln_ssa exponent);
    /* The bits of an f32 rounded to the nearest bf16, halves to even, as an I16; a subnormal number
     * may give the bits of 0. The function returns NULL where the target has no instruction for it.
     * Member NULL: no target has. */
    kiln_ssa (*to_bf16)(kiln_builder *b, kiln_ssa v);
    /* The same value, hidden from the optimiser of the code generator. No instruction. NULL: not
     * needed. */
    kiln_ssa (*opaque)(kiln_builder *b, kiln_ssa v);
    /* Floats within the range of an I32 to the nearest, halves to even; a NaN gives a result whose
     * lowest 16 bits are 0. The function returns NULL where no single instruction does it. Member
     * NULL: they are rounded and converted as any float. */
    kiln_ssa (*rounded)(kiln_builder *b, kiln_ssa v);
    /* How many bits are 1, in each lane of integers. NULL: computed with other instructions.
     */
    kiln_ssa (*count_ones)(kiln_builder *b, kiln_ssa v);
    /* sum + factor * count_ones(v) in lanes of I32, -128 <= factor <= 127. The function returns
     * NULL where the target has no instruction for it. Member NULL: no target has. */
    kiln_ssa (*add_ones)(kiln_builder *b, kiln_ssa sum, kiln_ssa v, int64_t factor);
    /* The lanes of a BOOL vector as bits of an integer of as many, lane 0 the lowest: 8, 16, 32 or
     * 64. NULL: lanes are combined in halves. */
    kiln_ssa (*bits_of_lanes)(kiln_builder *b, kiln_ssa mask);
    /* An instruction on tiles, by LLVM's name: numbers of tiles, then a pointer and the bytes from
     * a row to the next, an I64, or the pointer alone, or neither. NULL: buffers of scope TILE lie
     * in memory. */
    void (*tile)(kiln_builder *b, const char *instruction, const uint32_t *number, uint32_t count,
                 kiln_ssa pointer, kiln_ssa stride);
    /* With `tile`: a pointer to bytes that never change, aligned to a line. */
    kiln_ssa (*constant_bytes)(kiln_builder *b, const uint8_t *bytes, uint32_t count);
    /* An instruction of a warp (walk_warp.c), which all its threads must reach: `a`, `second`:
     * registers of fragments.def, I32; `sum`: those of the sums, of F32 or I32, before and after.
     * NULL: its loops are built as ordinary loops. */
    void (*warp_product)(kiln_builder *b, const kiln_intrinsic *row, const kiln_ssa *a,
                         const kiln_ssa *second, kiln_ssa *sum);
    /* With `warp_product`: `count` matrices of 8 rows of 16 bytes from shared memory, a register of
     * I32 of each in `out`. `pointer`: thread l's to row l % 8 of matrix l / 8. `transposed`: of
     * elements of two bytes. NULL: words are loaded one by one. */
    void (*load_matrices)(kiln_builder *b, kiln_ssa pointer, uint32_t count, bool transposed,
                          kiln_ssa *out);
    /* An instruction of four warps (walk_group.c), which all their threads must reach. It is
     * asynchronous: until `group_wait` it reads its operands and adds to `sum`, [columns / 2]
     * values of F32. After `group_begin` the thread must not touch these values; `group_wait` waits
     * for all instructions since, `sum` being all their sums. Each call updates `sum` for the next.
     * `group_fence` comes before barriers: it makes shared memory that the thread wrote visible to
     * the instructions behind them. All four NULL: ordinary loops are built. */
    void (*group_begin)(kiln_builder *b, kiln_ssa *sum, uint32_t count);
    void (*group_product)(kiln_builder *b, const kiln_intrinsic *row, uint32_t columns,
                          const kiln_group_operand operand[KILN_INTRINSIC_OPERANDS], kiln_ssa *sum);
    void (*group_wait)(kiln_builder *b, kiln_ssa *sum, uint32_t count);
    void (*group_fence)(kiln_builder *b);
    /* Tokens between units of threads (walk_token.c): barriers in shared memory, of
     * KILN_TOKEN_PLACE_BYTES. `token_place`, called by one thread, makes a token whose phase ends
     * after `arrivals` arrivals. `token_push` arrives at it: each thread of a producer arrives
     * twice, at once and when all its copies have landed; of other units one thread of each warp
     * arrives, behind all of the warp. `token_pop` waits until a phase of that parity, an I32 of 0
     * or 1, has ended, `of_cluster` where other groups arrive as well. `unit_registers` changes the
     * registers of the threads of whole groups of four warps, to `more` or fewer; it alone may be
     * NULL. All NULL: launches with tokens are refused. */
    void (*token_place)(kiln_builder *b, kiln_ssa pointer, uint32_t arrivals);
    void (*token_push)(kiln_builder *b, kiln_ssa pointer, bool is_producer);
    void (*token_pop)(kiln_builder *b, kiln_ssa pointer, kiln_ssa parity, bool of_cluster);
    void (*unit_registers)(kiln_builder *b, uint32_t count, bool more);
    /* With tokens: asynchronous copies from global to shared memory, whose bytes a token counts.
     * Its phase does not end before those of `token_expect`, which comes first, have landed.
     * `bulk_copy` copies a multiple of 16 bytes at such addresses. All NULL: pieces are copied.
     * `box_copy` alone NULL: launches with boxes are refused. */
    void (*token_expect)(kiln_builder *b, kiln_ssa token, uint32_t bytes);
    void (*bulk_copy)(kiln_builder *b, kiln_ssa to, kiln_ssa from, uint32_t bytes, kiln_ssa token);
    /* Clusters of groups, with tokens. `cluster_sync`, reached by all threads of the cluster, waits
     * for all of them: what they wrote, and tokens that they made, are seen by all behind it.
     * `token_push_all` is `token_push` of a unit that is no producer, at the tokens of the same
     * place in the memory of all `groups` of the cluster. NULL: launches with clusters are refused.
     */
    void (*cluster_sync)(kiln_builder *b);
    void (*token_push_all)(kiln_builder *b, kiln_ssa pointer, uint32_t groups);
    void (*box_copy)(kiln_builder *b, const kiln_box_copy *copy);
    /* Copies of one thread that land later, from global to shared memory: 4, 8 or 16 bytes at
     * addresses that are aligned to as many; `copy_commit` ends a group of them, `copy_wait` waits
     * until at most `pending` groups are in flight. NULL, all three: copies are loads and stores.
     */
    void (*copy)(kiln_builder *b, kiln_ssa to, kiln_ssa from, uint32_t bytes);
    void (*copy_commit)(kiln_builder *b);
    void (*copy_wait)(kiln_builder *b, uint32_t pending);
    /* The scalar of 4 bytes that the lane with the caller's number XOR `lanes` passes. All lanes of
     * the warp must reach the call. NULL: lowering leaves no exchange. */
    kiln_ssa (*exchange)(kiln_builder *b, kiln_ssa v, uint32_t lanes);
} kiln_builder_ops;

/* First member of each builder. */
struct kiln_builder {
    const kiln_builder_ops *ops;
};

#endif
