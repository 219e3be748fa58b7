/* Private to codegen/: the value builder of C-family text (c_builder.c, c_memory.c, c_lines.c,
 * c_control.c) and the assembly of its functions (c_text.c). Each language of the family is a
 * dialect: C11 (c_text.c), OpenCL C (c_opencl.c), CUDA C (c_cuda.c).
 *
 * Each value is a named constant or a text inserted at each use: literals, lanes, addresses plus a
 * constant. Vectors are those of the compiler where the dialect has them and their size is a power
 * of two. Other vectors are structures, computed in loops over lanes; in dialects for GPUs, whose
 * arrays lie in memory, each lane is a named value. */
#ifndef KILN_COMPILER_CORE_CODEGEN_C_BUILDER_H
#define KILN_COMPILER_CORE_CODEGEN_C_BUILDER_H

#include "base/arena.h"
#include "base/vec.h"
#include "compiler-core/codegen/backend.h"
#include "compiler-core/codegen/builder.h"

typedef struct kiln_c_builder kiln_c_builder;

#define KILN_C_PREAMBLE_PARTS 7

/* Operations on whole vectors of the compiler. Types are those of the operands `x`, `y`, `yes`;
 * texts name whole vectors. A function returns NULL for operations that are done lane by lane. */
typedef struct kiln_c_vectors {
    const char *(*compute)(kiln_c_builder *b, kiln_build_op what, kiln_ssa_type type, const char *x,
                           const char *y);
    const char *(*choose)(kiln_c_builder *b, kiln_ssa_type type, const char *condition,
                          const char *yes, const char *no);
    const char *(*convert)(kiln_c_builder *b, kiln_conversion how, kiln_ssa_type type,
                           kiln_ssa_scalar to, const char *x);
    const char *(*any)(kiln_c_builder *b, kiln_ssa_type type, const char *mask);
} kiln_c_vectors;

/* How launches are written. */
typedef struct kiln_c_kernels {
    /* From the start of the function up to its opening parenthesis. */
    const char *(*head)(kiln_c_builder *b, const kiln_launch_head *head);
    const char *read_arg, *written_arg; /* types of arguments */
    const char *map_arg, *map_type;     /* of a tensor map, and its definition; NULL: none */
    const char *alone;                  /* qualifier of an argument that overlaps no other */
    const char *shared, *local;         /* formats of a number of bytes: declarations of memory */
    const char *shared_matrices;    /* shared memory aligned to KILN_GROUP_ATOM_BYTES; NULL: none */
    const char *grid[3], *group[3]; /* indices of the group and of the thread in it */
    const char *barrier;
} kiln_c_kernels;

/* Differences between languages of the family. */
typedef struct kiln_c_dialect {
    uint32_t vector_lanes; /* most lanes of the compiler's vectors, with + - * /; 0: it has none */
    bool lane_loops; /* other vector operations are loops over v[l]; false: each lane has a name */
    const kiln_c_vectors *vectors; /* NULL: + - * / alone */
    /* Vectors in memory, without lane_loops. */
    uint32_t piece_lanes, piece_bytes;    /* the largest */
    const char *load_apart, *store_apart; /* format of lanes: a function for vectors that are
                                             aligned as their elements are; NULL: none */
    const char *lane_load;   /* before the type of an element that is loaded for a lane alone; NULL:
                                nothing */
    const char *const *lane; /* behind vectors: each lane; NULL: [lane] */
    const char *literal;     /* format of type and lanes: a vector */
    const char *of_64;       /* behind literals of 64 bits */
    const char *library;     /* before names of C's library */
    bool has_suffix;         /* names of that library for f32 end with f */
    const char *multiply_add; /* format of bits: a function, fused where the hardware can; NULL: *
                               * + */
    const char *difference;   /* type of pointer offsets */
    const char *pointer[4];   /* types of pointers to bytes, by space */
    const char *space[4];     /* before types that are pointed to */
    const char *prefetch;     /* a function of a pointer and two numbers; NULL: nothing */
    const kiln_c_kernels *kernels; /* NULL: for processors */
    /* Optional members of kiln_builder_ops, for instructions, warps and copies; NULL: none. */
    kiln_ssa (*intrinsic)(kiln_builder *b, const kiln_intrinsic *row, kiln_ssa sum, kiln_ssa a,
                          kiln_ssa second);
    void (*warp_product)(kiln_builder *b, const kiln_intrinsic *row, const kiln_ssa *a,
                         const kiln_ssa *second, kiln_ssa *sum);
    void (*load_matrices)(kiln_builder *b, kiln_ssa pointer, uint32_t count, bool transposed,
                          kiln_ssa *out);
    void (*copy)(kiln_builder *b, kiln_ssa to, kiln_ssa from, uint32_t bytes);
    void (*copy_commit)(kiln_builder *b);
    void (*copy_wait)(kiln_builder *b, uint32_t pending);
    kiln_ssa (*exchange)(kiln_builder *b, kiln_ssa v, uint32_t lanes);
    void (*group_begin)(kiln_builder *b, kiln_ssa *sum, uint32_t count);
    void (*group_product)(kiln_builder *b, const kiln_intrinsic *row, uint32_t columns,
                          const kiln_group_operand operand[KILN_INTRINSIC_OPERANDS], kiln_ssa *sum);
    void (*group_wait)(kiln_builder *b, kiln_ssa *sum, uint32_t count);
    void (*group_fence)(kiln_builder *b);
    void (*token_place)(kiln_builder *b, kiln_ssa pointer, uint32_t arrivals);
    void (*token_push)(kiln_builder *b, kiln_ssa pointer, bool is_producer);
    void (*token_pop)(kiln_builder *b, kiln_ssa pointer, kiln_ssa parity, bool of_cluster);
    void (*unit_registers)(kiln_builder *b, uint32_t count, bool more);
    void (*token_expect)(kiln_builder *b, kiln_ssa token, uint32_t bytes);
    void (*bulk_copy)(kiln_builder *b, kiln_ssa to, kiln_ssa from, uint32_t bytes, kiln_ssa token);
    void (*cluster_sync)(kiln_builder *b);
    void (*token_push_all)(kiln_builder *b, kiln_ssa pointer, uint32_t groups);
    void (*box_copy)(kiln_builder *b, const kiln_box_copy *copy);
    const char *preamble[KILN_C_PREAMBLE_PARTS]; /* text at the start; NULL: end of the list */
} kiln_c_dialect;

#define KILN_C_LANES_MAX 128 /* of intermediate results of shuffles */

/* A line of a function. Lines stay in order of appearance; marks are empty ones. */
typedef struct kiln_c_line kiln_c_line;
struct kiln_c_line {
    kiln_c_line *before, *after;
    const char *text;  /* NULL: a mark */
    kiln_ssa value;    /* value that it defines or assigns, for uses alone; NULL: an effect */
    kiln_ssa *operand; /* [operand_count] */
    uint32_t operand_count;
};

struct kiln_ssa_node {
    kiln_ssa_type type;
    const char *text;    /* text of the whole value; NULL: composed from the members below */
    bool constant;       /* known while building */
    const int64_t *lane; /* known integers: [lanes, 1 for scalars], sign-extended */
    kiln_ssa uniform;    /* vectors: in all lanes */
    kiln_ssa *element;   /* vectors: lane by lane; NULL where any */
    kiln_ssa base;       /* value that `text` refers to, if it has no own line */
    bool defined;        /* by a line */
    kiln_c_line *loaded; /* the line that loads this element, if `lane_load` may apply */
    const char *as_lane; /* that line's text with `lane_load` */
    uint32_t uses;
};

typedef struct kiln_c_function {
    const char *head; /* up to "{" */
    kiln_c_line *end; /* the list is a ring around it */
} kiln_c_function;

struct kiln_c_builder {
    kiln_builder base;
    kiln_builder_ops ops;
    const kiln_c_dialect *dialect;
    kiln_arena *arena;
    KILN_VEC(kiln_c_function) done;                    /* in the order of definition that C needs */
    bool used[KILN_SSA_POINTER][KILN_C_LANES_MAX + 1]; /* types of vectors */
    KILN_VEC(const char *) helpers; /* definitions that the text needs, each once */
    uint32_t name_count;

    kiln_c_function function, caller; /* being written */
    kiln_c_line *at, *caller_at;      /* insertion point: lines go before it */
    const char *tail;                 /* behind the function being written; NULL: nothing */
    const char *body_name, *context;  /* of the parallel body being written */
};

/* An empty builder; everything lives in `arena`. */
void kiln_c_builder_init(kiln_c_builder *b, const kiln_c_dialect *dialect, kiln_arena *arena);
/* Appends all functions and the types that they use. */
void kiln_c_builder_print(kiln_c_builder *b, kiln_strbuf *out);
/* A lowered program in a dialect (c_text.c), which kiln_backend_emit gives. */
KILN_MUST_USE kiln_status kiln_c_write(const kiln_c_dialect *dialect, const kiln_lowered *lowered,
                                       const kiln_target *target,
                                       const kiln_codegen_options *options, kiln_arena *arena,
                                       kiln_codegen_output *out_output);
/* Conversion helpers that all dialects share, in terms of u8, s8, f32, ...; and those for f64. */
extern const char kiln_c_helpers[], kiln_c_helpers_f64[];
/* Those of CUDA C (c_cuda_words.c): types, instructions of warps, of groups of warps, tokens. */
extern const char kiln_cuda_types[], kiln_cuda_warps[], kiln_cuda_groups[], kiln_cuda_tokens[];
/* Class and spelling of an instruction, from instructions.def. */
kiln_build_class kiln_c_class(kiln_build_op what);
const char *kiln_c_spelling(kiln_build_op what);

/* ---- c_memory.c: members of kiln_builder_ops --------------------------------------------------
 */

#define X(result, name, arguments) result kiln_c_##name arguments;
#include "compiler-core/codegen/builder_memory.def"
#undef X

/* ---- c_lines.c: types, names, lines ---------------------------------------------------------- */

uint64_t kiln_c_low_bits(int64_t value, uint32_t bits);         /* zeros above */
const char *kiln_c_type(kiln_c_builder *b, kiln_ssa_type type); /* "u32", "f32x8", "char *" */
bool kiln_c_is_native(const kiln_c_builder *b, kiln_ssa_type type);
/* Whether values of the type have a name; others have one for each lane. */
bool kiln_c_is_named(const kiln_c_builder *b, kiln_ssa_type type);
/* A value without a line of its own: `text`, or what its members say. */
kiln_ssa kiln_c_node(kiln_c_builder *b, kiln_ssa_type type, const char *text);
const char *kiln_c_name(kiln_c_builder *b); /* "v12", a new one */
/* The whole value; the lane `l` of a loop over lanes; one lane. */
const char *kiln_c_whole(kiln_c_builder *b, kiln_ssa v);
const char *kiln_c_each(kiln_c_builder *b, kiln_ssa v);
const char *kiln_c_lane(kiln_c_builder *b, kiln_ssa v, uint32_t lane);
/* A value composed of lanes; with a name if its type has names (kiln_c_is_named). */
kiln_ssa kiln_c_joined(kiln_c_builder *b, kiln_ssa v);
/* A line before `at`. `operand`: values that its text names. */
kiln_c_line *kiln_c_insert(kiln_c_builder *b, kiln_c_line *at, const char *text, kiln_ssa value,
                           const kiln_ssa *operand, uint32_t operand_count);
/* A line that defines nothing, at the current place. */
void kiln_c_effect(kiln_c_builder *b, const char *text, const kiln_ssa *operand,
                   uint32_t operand_count);
/* const TYPE name = expression; or with `each` one lane after the other. */
kiln_ssa kiln_c_define(kiln_c_builder *b, kiln_ssa_type type, bool each, const char *expression,
                       const kiln_ssa *operand, uint32_t operand_count);
/* `text` defines `name`. */
kiln_ssa kiln_c_define_as(kiln_c_builder *b, kiln_ssa_type type, const char *name, const char *text,
                          const kiln_ssa *operand, uint32_t operand_count);

/* Adds a definition before all functions, once. */
void kiln_c_add_helper(kiln_c_builder *b, const char *text);

/* ---- c_control.c: members of kiln_builder_ops ------------------------------------------------ */

#define X(result, name, arguments) result kiln_c_##name arguments;
#include "compiler-core/codegen/builder_control.def"
#undef X

#endif
