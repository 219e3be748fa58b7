/* The program: tensor expressions and loop programs in one form.
 *
 * A program is tables of expressions, variables, buffers, blocks and statements, all named by small
 * integer ids, in one arena. The same program passes through three stages:
 *
 *  1. tensor expression: buffers and blocks only (root == 0). Each block computes one tensor
 *     element per point of its iteration domain; blocks are in producer-before-consumer order.
 *     This is what operators build, what the task key hashes, and what kiln_te_eval interprets.
 *  2. loop program: a statement tree places each block once. Loops are ordinary loops; a block's
 *     iterators are bound to expressions over loop variables. Schedule primitives (sched/prim.h)
 *     rewrite this stage.
 *  3. lowered program (lower/lower.h): blocks are gone; only loops, ifs, allocations and stores
 *     remain, buffers are compacted to what is live, and predicates are partitioned away.
 *
 * Buffer accesses use LOGICAL indices at every stage; a buffer's physical layout (base/layout.h) is
 * an attribute and is applied when addresses are computed. A schedule can therefore change a layout
 * without changing an access.
 *
 * Used by everything in compiler-core. Text form: docs/reference/loop-text.md (ir_text.h).
 * Sources: the tensor expressions and schedules of TVM (OSDI'18), blocks as in TensorIR
 * (ASPLOS'23). */
#ifndef KILN_COMPILER_CORE_IR_IR_H
#define KILN_COMPILER_CORE_IR_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/manifest.h"
#include "base/str.h"
#include "base/tensor.h"
#include "base/vec.h"

/* Ids index the program's tables; 0 is "none" in each. */
typedef uint32_t kiln_expr;
typedef uint32_t kiln_var;
typedef uint32_t kiln_buffer;
typedef uint32_t kiln_block;
typedef uint32_t kiln_stmt;

#define KILN_INDEX_DTYPE KILN_I64
#define KILN_BLOCK_ITERS_MAX 16
#define KILN_PROGRAM_BUFFERS_MAX 512 /* limit for program texts and traces */

typedef enum kiln_expr_op {
#define X(name, text, operands, class) KILN_EXPR_##name,
#include "compiler-core/ir/exprs.def"
#undef X
    KILN_EXPR_OP_COUNT
} kiln_expr_op;

/* Expressions are hash-consed within a program: equal ids if and only if equal structure.
 * Immutable. */
/* What an expression contains, itself included, as bits: one for variables of the same remainder by
 * 46, one for loads from buffers of the same remainder by 16. Walks skip expressions without the
 * bit. */
#define KILN_USES_BOOL (UINT64_C(1) << 63)   /* a value of dtype bool */
#define KILN_USES_SELECT (UINT64_C(1) << 62) /* a select */
#define KILN_USES_LOAD (UINT64_C(0xffff) << 46)
#define KILN_USES_VAR ((UINT64_C(1) << 46) - 1)
static inline uint64_t kiln_uses_var(uint32_t var) { return UINT64_C(1) << var % 46; }
static inline uint64_t kiln_uses_load(uint32_t buffer) { return UINT64_C(1) << (46 + buffer % 16); }

typedef struct kiln_expr_node {
    uint8_t op;    /* kiln_expr_op */
    uint8_t dtype; /* kiln_dtype of the value */
    uint16_t operand_count;
    uint32_t first_operand; /* into program->operand */
    union {
        int64_t i;
        double f;
        uint32_t id; /* kiln_var or kiln_buffer */
    } payload;
    uint64_t uses; /* KILN_USES_..., kiln_uses_... */
} kiln_expr_node;

typedef struct kiln_var_info {
    kiln_str name; /* unique in the program; "conv.oc", after a split "conv.oc.0" */
    /* Values lie in [low, high] (inclusive) wherever the variable is in scope; code that makes or
     * changes a loop or block must keep this true (kiln_var_set_range). The simplifier relies on
     * it. */
    int64_t low, high;
    uint32_t suffix_free; /* of this name, all suffixes from 2 to below this number are taken; or
                           * 0 */
} kiln_var_info;

typedef enum kiln_scope {
#define X(name, text, seen_by, alignment) KILN_SCOPE_##name,
#include "compiler-core/ir/scopes.def"
#undef X
    KILN_SCOPE_COUNT
} kiln_scope;

typedef struct kiln_buffer_info {
    kiln_str name; /* unique in the program */
    kiln_dtype dtype;
    kiln_role role; /* INPUT, CONSTANT, OUTPUT: arguments; TEMP: made and used inside */
    kiln_scope scope;
    kiln_shape shape; /* logical; a padded temp has the padded extents */
    kiln_layout layout;
    bool pinned;      /* arguments: the layout is part of the task and never changes */
    kiln_fill fill;   /* arguments: how boards generate data for measurements */
    kiln_range range; /* inputs and constants: range of their integers, guaranteed by the caller */
    double scale;     /* reserved for quantised tensors; 0 = none */
    int32_t zero_point;
    bool is_placed;  /* lowered programs: a shared temp with a place in its group's memory */
    uint64_t offset; /* that place, bytes; a multiple of kiln_buffer_alignment */
} kiln_buffer_info;

typedef enum kiln_combiner {
    KILN_COMBINE_NONE, /* not a reduction */
    KILN_COMBINE_SUM,
    KILN_COMBINE_PROD,
    KILN_COMBINE_MAX, /* NaN propagates */
    KILN_COMBINE_MIN,
    KILN_COMBINE_COUNT
} kiln_combiner;

typedef struct kiln_iter {
    kiln_var var;   /* its range is [0, extent) */
    int64_t extent; /* domain */
    bool reduce;
    kiln_expr binding; /* over loop variables; 0 in tensor expressions */
} kiln_iter;

/* One computation: for every point of the domain (with `predicate` true)
 *     combiner NONE:  buffer[index] = value
 *     otherwise:      buffer[index] = combine(buffer[index], value), starting from `init`
 * `init` is stored when all reduce iterators are 0; after decompose_reduction it is 0 here (its own
 * block stores it). index and value are over the iterators; index uses spatial iterators only and
 * is injective in them; value never loads `buffer`. All blocks but initialisers have distinct
 * output buffers. */
typedef struct kiln_block_info {
    kiln_str
        name; /* unique in the program: the operator's name, "conv", "conv.init", "conv.read0" */
    uint32_t iter_count;
    kiln_iter iter[KILN_BLOCK_ITERS_MAX];
    kiln_expr predicate; /* bool over loop variables; 0 = always */
    kiln_combiner combiner;
    kiln_buffer buffer;
    uint32_t index_count;
    kiln_expr index[KILN_RANK_MAX];
    kiln_expr value;
    kiln_expr init;     /* over spatial iterators; 0: none */
    kiln_block init_of; /* this block initialises that reduction; 0: ordinary block */
    bool removed;       /* inlined away */
} kiln_block_info;

typedef enum kiln_stmt_kind {
    KILN_STMT_SEQ,   /* child[] in order */
    KILN_STMT_FOR,   /* for var in [first, first + extent): child[0] */
    KILN_STMT_BLOCK, /* stages 1-2 only */
    KILN_STMT_IF,    /* if condition: child[0] (no else) */
    KILN_STMT_ALLOC, /* buffer lives during child[0]; lowered stage only */
    KILN_STMT_STORE, /* buffer[index] = value; lowered stage only */
    /* The following are in lowered programs only; ir/device.h defines them. */
    KILN_STMT_BARRIER,    /* waits for all threads of the group */
    KILN_STMT_COPY,       /* as STORE of a load, but asynchronous: done at the latest after its
                           * WAIT */
    KILN_STMT_COMMIT,     /* ends the thread's open group of copies of `token` */
    KILN_STMT_WAIT,       /* until at most `pending` of these groups have not landed */
    KILN_STMT_TOKEN_PUSH, /* unit `from` signals unit `to` that all its earlier work is done */
    KILN_STMT_TOKEN_POP,  /* unit `to` waits for one signal of unit `from` */
    KILN_STMT_KIND_COUNT
} kiln_stmt_kind;

typedef enum kiln_loop_kind {
    KILN_LOOP_SERIAL,
    KILN_LOOP_PARALLEL,  /* static partition over workers */
    KILN_LOOP_VECTORIZE, /* all iterations at once; extent is the lane count */
    KILN_LOOP_UNROLL,
    KILN_LOOP_BIND,    /* over the groups of a launch or the threads of a group: `axis` */
    KILN_LOOP_VTHREAD, /* virtual threads: concurrent, interleaved into one by lowering */
    KILN_LOOP_KIND_COUNT
} kiln_loop_kind;

/* The units that a BIND loop runs over. */
typedef enum kiln_loop_axis {
    KILN_AXIS_NONE,
#define X(name, text, level, dimension, extent_max) KILN_AXIS_##name,
#include "compiler-core/ir/axes.def"
#undef X
    KILN_AXIS_COUNT
} kiln_loop_axis;

typedef enum kiln_unit {
#define X(name, text) KILN_UNIT_##name,
#include "compiler-core/ir/units.def"
#undef X
    KILN_UNIT_COUNT
} kiln_unit;

typedef enum kiln_attribute_id {
#define X(name, text, number, value) KILN_ATTRIBUTE_##name,
#include "compiler-core/ir/attributes.def"
#undef X
    KILN_ATTRIBUTE_COUNT
} kiln_attribute_id;

typedef struct kiln_attribute {
    uint8_t id;    /* kiln_attribute_id */
    uint32_t row;  /* of the table that the attribute's value is in: kiln_buffer, kiln_unit, ... */
    kiln_str text; /* REMARK: "key=value" */
} kiln_attribute;

#define KILN_COPY_TOKENS_MAX 8
#define KILN_COPY_PENDING_MAX 64

/* Statements are mutable; each has exactly one parent (0 for the root). */
typedef struct kiln_stmt_info {
    uint8_t kind;      /* kiln_stmt_kind */
    uint8_t loop_kind; /* FOR */
    uint8_t axis;      /* FOR of kind BIND: kiln_loop_axis */
    uint8_t token;     /* COPY, COMMIT, WAIT: which copies, below KILN_COPY_TOKENS_MAX */
    uint8_t pending;   /* WAIT; TOKEN_PUSH, TOKEN_POP with a number: places of the queue */
    uint8_t from, to;  /* TOKEN_PUSH, TOKEN_POP: kiln_unit */
    kiln_stmt parent;
    KILN_VEC(kiln_stmt) child; /* in the program's arena; FOR, IF, ALLOC have one */
    kiln_var var;              /* FOR */
    int64_t first, extent;     /* FOR; extent >= 0 */
    kiln_block block;          /* BLOCK */
    kiln_expr condition;       /* IF */
    kiln_buffer buffer;        /* ALLOC, STORE, COPY */
    uint32_t index_count;      /* STORE, COPY */
    kiln_expr index[KILN_RANK_MAX];
    kiln_expr value; /* STORE; COPY: a load; TOKEN_PUSH, TOKEN_POP: its number, or 0 */
    KILN_VEC(kiln_attribute) attribute;
} kiln_stmt_info;

/* Results by expression id of one walk over expressions (memo.h). An entry is valid while its epoch
 * is the table's, so that clearing the table is O(1). */
typedef struct kiln_expr_memo {
    uint32_t epoch;
    KILN_VEC(struct {
        uint32_t epoch;
        kiln_expr value;
    })
    entry;
} kiln_expr_memo;
#define KILN_MEMO_DEPTH_MAX 6 /* walks that start walks: inlining inside a rewrite */

/* The loads of a block, kept by facts/loads.h; they hold while the block has these expressions. */
typedef struct kiln_load_list {
    kiln_expr value, init;
    uint32_t count;
    const kiln_expr *load;
} kiln_load_list;

/* Argument buffers, in kernel_abi.h's order. */
typedef struct kiln_arg_buffers {
    uint32_t count;
    const kiln_buffer *buffer; /* [count] */
} kiln_arg_buffers;

typedef struct kiln_program {
    kiln_arena *arena; /* owns everything below; not owned by the program */
    kiln_str name;     /* "conv2d_add_relu": operators in order; not part of the task key */
    KILN_VEC(kiln_expr_node) expr; /* [0] unused, likewise below */
    KILN_VEC(kiln_expr) operand;
    KILN_VEC(uint32_t) expr_slot; /* hash table of expr ids; count is a power of two */
    KILN_VEC(kiln_var_info) var;
    KILN_VEC(uint32_t) var_slot; /* hash table of variable ids by name, as expr_slot */
    KILN_VEC(kiln_buffer_info) buffer;
    KILN_VEC(kiln_block_info) block; /* tensor expressions: in execution order */
    KILN_VEC(kiln_stmt_info) stmt;
    kiln_stmt root;                           /* loop programs; 0 for tensor expressions */
    kiln_expr_memo memo[KILN_MEMO_DEPTH_MAX]; /* scratch */
    kiln_expr_memo simplified; /* results of kiln_expr_simplify, true while ranges stay */
    uint32_t memo_depth;
    KILN_VEC(kiln_load_list) loads; /* by block; lists made so far */
    struct kiln_arg_list {
        KILN_VEC(kiln_buffer) buffer;
    } *args; /* room for kiln_program_args */
} kiln_program;

/* An empty program whose memory is `arena`. */
kiln_program *kiln_program_create(kiln_arena *arena, kiln_str name);
/* A deep copy into `arena`; every id keeps its meaning. O(size), no hashing. */
kiln_program *kiln_program_copy(const kiln_program *program, kiln_arena *arena);

/* ---- expressions ----------------------------------------------------------------- */
/* Makers fold constants and apply local identities (x+0, x*1, select(true,..), nested constants)
 * but only such as hold bit-exactly for the dtype: no reassociation of floats. Operand dtypes must
 * agree (checked). */
kiln_expr kiln_expr_int(kiln_program *p, kiln_dtype dtype, int64_t value);
kiln_expr kiln_expr_index(kiln_program *p, int64_t value); /* i64 */
kiln_expr kiln_expr_float(kiln_program *p, kiln_dtype dtype, double value);
kiln_expr kiln_expr_zero(kiln_program *p, kiln_dtype dtype);                /* 0, 0.0, false. */
kiln_expr kiln_expr_const(kiln_program *p, kiln_dtype dtype, double value); /* either class */
kiln_expr kiln_expr_var(kiln_program *p, kiln_var var);
/* One i64 index per logical dimension. */
kiln_expr kiln_expr_load(kiln_program *p, kiln_buffer buffer, const kiln_expr *index,
                         uint32_t index_count);
/* An operator of one operand. */
kiln_expr kiln_expr_unary(kiln_program *p, kiln_expr_op op, kiln_expr a);
/* An operator of two operands of one dtype. */
kiln_expr kiln_expr_binary(kiln_program *p, kiln_expr_op op, kiln_expr a, kiln_expr b);
/* a where the BOOL holds, else b. */
kiln_expr kiln_expr_select(kiln_program *p, kiln_expr condition, kiln_expr a, kiln_expr b);
kiln_expr kiln_expr_cast(kiln_program *p, kiln_dtype dtype, kiln_expr a); /* a itself when equal */
/* Why `op` cannot take these operands (number, dtypes); NULL when it can. The makers check this. */
const char *kiln_expr_type_error(const kiln_program *p, kiln_expr_op op, const kiln_expr *operand,
                                 uint32_t operand_count);
/* Any operator, operands as given, with folding: for generic rewriting. `like` gives op, dtype,
 * payload; for make it may come from another program, with its payload translated. */
kiln_expr kiln_expr_make(kiln_program *p, const kiln_expr_node *like, const kiln_expr *operand,
                         uint32_t operand_count);
/* kiln_expr_make with the node of an expression of the same program. */
kiln_expr kiln_expr_rebuild(kiln_program *p, kiln_expr like, const kiln_expr *operand,
                            uint32_t operand_count);
/* Valid until the next expression is made. */
static inline const kiln_expr_node *kiln_expr_get(const kiln_program *p, kiln_expr e) {
    return &p->expr.data[e];
}
/* The i-th operand. */
static inline kiln_expr kiln_expr_operand(const kiln_program *p, kiln_expr e, uint32_t i) {
    return p->operand.data[p->expr.data[e].first_operand + i];
}
bool kiln_expr_is_const(const kiln_program *p, kiln_expr e); /* An integer or a float. */
bool kiln_expr_as_int(const kiln_program *p, kiln_expr e,
                      int64_t *out_value); /* integer constants */
bool kiln_expr_uses_var(const kiln_program *p, kiln_expr e, kiln_var var);
/* Identity element of a combiner: 0, 1, lowest, highest of the dtype (floats: -inf, +inf). */
kiln_expr kiln_expr_identity(kiln_program *p, kiln_combiner combiner, kiln_dtype dtype);
/* b, or what the combiner makes of a and b. */
kiln_expr kiln_expr_combine(kiln_program *p, kiln_combiner combiner, kiln_expr a, kiln_expr b);

/* Replaces variables: `replacement` is [var count], indexed by kiln_var; 0 keeps the variable. */
kiln_expr kiln_expr_substitute(kiln_program *p, kiln_expr e, const kiln_expr *replacement);
/* The same where all variables with a replacement have a bit in `vars`. */
kiln_expr kiln_expr_substitute_some(kiln_program *p, kiln_expr e, const kiln_expr *replacement,
                                    uint64_t vars);
/* Replaces by callback, bottom up: `rewrite` gets each distinct node `e` below and including the
 * root that has one of the bits `uses` (0: each node), and `rebuilt`, the same node with its
 * operands already rewritten; it returns `rebuilt` or its replacement. */
typedef kiln_expr (*kiln_expr_rewriter)(kiln_program *p, kiln_expr e, kiln_expr rebuilt,
                                        void *context);
kiln_expr kiln_expr_rewrite(kiln_program *p, kiln_expr e, uint64_t uses, kiln_expr_rewriter rewrite,
                            void *context);
/* The expression with `to` in place of the node `from`; e 0: 0. */
kiln_expr kiln_expr_replace(kiln_program *p, kiln_expr e, kiln_expr from, kiln_expr to);
/* Calls `visit` once per distinct load from `buffer` (0: any), or select, at and below e (operands
 * before users); e 0: none. */
typedef void (*kiln_expr_visitor)(kiln_program *p, kiln_expr node, void *context);
void kiln_expr_visit_loads(kiln_program *p, kiln_expr e, kiln_buffer buffer,
                           kiln_expr_visitor visit, void *context);
void kiln_expr_visit_selects(kiln_program *p, kiln_expr e, kiln_expr_visitor visit, void *context);

/* ---- variables, buffers, blocks -------------------------------------------------- */
/* `name` is made unique by a suffix "'2" when taken. Range [low, high]. */
kiln_var kiln_var_create(kiln_program *p, kiln_str name, int64_t low, int64_t high);
/* The only way to change a range: drops results that were simplified with the old one. */
void kiln_var_set_range(kiln_program *p, kiln_var var, int64_t low, int64_t high);
/* Renames a variable that no loop uses any more, so that its name is free again. */
void kiln_var_retire(kiln_program *p, kiln_var var);
/* Rebuilds the table of names, after variables or their names were taken back. */
void kiln_vars_enter_all(kiln_program *p);
/* A new global buffer, row-major, filled uniformly. The name is made unique. */
kiln_buffer kiln_buffer_create(kiln_program *p, kiln_str name, kiln_dtype dtype, kiln_role role,
                               const kiln_shape *shape);
/* A new block with no iterators yet, appended in execution order. The name is made unique. */
kiln_block kiln_block_create(kiln_program *p, kiln_str name);
/* Adds an iterator of [0, extent) and returns its variable as an expression. The variable is named
 * "block:name" (loops have "block.name"); text shows the part after the colon. */
kiln_expr kiln_block_add_iter(kiln_program *p, kiln_block block, const char *name, int64_t extent,
                              bool reduce);
kiln_str kiln_iter_name(const kiln_program *p, const kiln_iter *iter); /* without "block:" */
/* A variable for a loop of `extent` iterations that steps the block's iterator: "block.name". */
kiln_var kiln_block_loop_var(kiln_program *p, kiln_block block, uint32_t iter, int64_t extent);
/* Sets what the block computes. For reductions `init` 0 takes the combiner's identity. */
void kiln_block_set(kiln_program *p, kiln_block block, kiln_buffer buffer, const kiln_expr *index,
                    uint32_t index_count, kiln_combiner combiner, kiln_expr value, kiln_expr init);

kiln_buffer kiln_program_find_buffer(const kiln_program *p, kiln_str name); /* 0: none */
kiln_block kiln_program_find_block(const kiln_program *p, kiln_str name);
/* The block that computes `buffer` (not its initialiser); 0 for inputs and constants. */
kiln_block kiln_program_producer(const kiln_program *p, kiln_buffer buffer);
/* Whether it has a combiner. */
bool kiln_block_is_reduction(const kiln_program *p, kiln_block block);
/* Floating (or integer) operations that one run needs: 2 per multiply-add of a sum reduction, else
 * 1 per arithmetic node. Sums need no products with the zeros of a padding (zeros.h). */
double kiln_program_flops(const kiln_program *p);
/* The same including these products, as in records of earlier versions. */
double kiln_program_flops_with_zeros(const kiln_program *p);

/* ---- statements ------------------------------------------------------------------ */
/* A statement without children, not in the tree. */
kiln_stmt kiln_stmt_create(kiln_program *p, kiln_stmt_kind kind);
/* Also sets the variable's range. A body that is in the tree is wrapped: the loop takes its place.
 * `body` may be 0 and be set later. */
kiln_stmt kiln_stmt_for(kiln_program *p, kiln_var var, int64_t first, int64_t extent,
                        kiln_loop_kind kind, kiln_stmt body);
/* `child` must not be in the tree. A second child of FOR, IF or ALLOC makes their body a
 * sequence. */
void kiln_stmt_append(kiln_program *p, kiln_stmt parent, kiln_stmt child);
/* Puts childless `outer` (FOR, IF, ALLOC, SEQ) where `inner` is, and `inner` into it. */
void kiln_stmt_wrap(kiln_program *p, kiln_stmt inner, kiln_stmt outer);
/* Puts `replacement` in the place of `old` in its parent (or at the root); `old` is then out of the
 * tree. The replacement may come from inside `old` or from elsewhere, but may not contain it. */
void kiln_stmt_replace(kiln_program *p, kiln_stmt old, kiln_stmt replacement);
/* Removes `stmt` from its parent, and loops and sequences that become empty. If nothing is left,
 * the root is an empty sequence. */
void kiln_stmt_remove(kiln_program *p, kiln_stmt stmt);
kiln_stmt kiln_program_find_loop(const kiln_program *p, kiln_str var_name); /* 0: none */
kiln_stmt kiln_program_block_stmt(const kiln_program *p,
                                  kiln_block block); /* where it is placed; 0: nowhere */
bool kiln_stmt_is_inside(const kiln_program *p, kiln_stmt inner, kiln_stmt outer); /* or equal */
/* Whether all lanes of a vectorized loop are reduced into one element: their number is a power of
 * two, and the body is only a reduction, initialised before and not of i64, or its store. Code
 * generation combines such lanes in halves; other vectorized loops have an element per lane. */
bool kiln_stmt_combines_lanes(const kiln_program *p, kiln_stmt loop);

/* Places every block of a tensor expression in its own serial nest at the root, iterators in order
 * (spatial, then reduce, as declared): loop "conv.oc" binds iterator oc of block conv. A reduction
 * over nothing becomes a block that stores its initial value. */
void kiln_program_make_loops(kiln_program *p);

#endif
