/* Private to codegen/: the value builder of C-family text (c_builder.c, c_lines.c, c_control.c) and
 * what puts its functions together (c_text.c).
 *
 * Each value is a named constant of its own, or a text that is put where it is used: literals,
 * lanes, addresses plus a constant. Vectors are those of the compiler where the dialect has them
 * and their size is a power of two; otherwise structures, computed lane by lane. */
#ifndef KILN_COMPILER_CORE_CODEGEN_C_BUILDER_H
#define KILN_COMPILER_CORE_CODEGEN_C_BUILDER_H

#include "base/arena.h"
#include "base/vec.h"
#include "compiler-core/codegen/builder.h"

/* What differs between languages of the family. */
typedef struct kiln_c_dialect {
    bool vectors;         /* vectors of the compiler, with + - * / and v[lane] */
    const char *of_64;    /* behind literals of 64 bits */
    const char *library;  /* before names of C's library */
    const char *prefetch; /* format of one pointer; NULL: nothing */
    const char *preamble; /* before everything else */
} kiln_c_dialect;

#define KILN_C_LANES_MAX 128 /* of what shuffles join on the way */

/* A line of a function. Lines stay in order of appearance; marks are empty ones. */
typedef struct kiln_c_line kiln_c_line;
struct kiln_c_line {
    kiln_c_line *before, *after;
    const char *text;  /* NULL: a mark */
    kiln_ssa value;    /* that it defines or assigns, for uses alone; NULL: an effect */
    kiln_ssa *operand; /* [operand_count] */
    uint32_t operand_count;
};

struct kiln_ssa_node {
    kiln_ssa_type type;
    const char *text;    /* of the whole value; NULL: made of the members below */
    bool constant;       /* known while building */
    const int64_t *lane; /* integers that are known: [lanes, 1 for scalars], sign-extended */
    kiln_ssa uniform;    /* vectors: in all lanes */
    kiln_ssa *element;   /* vectors: lane by lane; NULL where any */
    kiln_ssa base;       /* that `text` names without a line of its own */
    bool defined;        /* by a line */
    uint32_t uses;
};

typedef struct kiln_c_function {
    const char *head; /* up to "{" */
    kiln_c_line *end; /* the list is a ring around it */
} kiln_c_function;

typedef struct kiln_c_builder {
    kiln_builder base;
    const kiln_c_dialect *dialect;
    kiln_arena *arena;
    KILN_VEC(kiln_c_function) done;                    /* in the order in which C wants them */
    bool used[KILN_SSA_POINTER][KILN_C_LANES_MAX + 1]; /* types of vectors */
    uint32_t name_count;

    kiln_c_function function, caller; /* being written */
    kiln_c_line *at, *caller_at;      /* what follows goes before it */
    const char *tail;                 /* behind the function being written; NULL: nothing */
    const char *body_name, *context;  /* of the parallel body being written */
} kiln_c_builder;

/* An empty builder; everything lives in `arena`. */
void kiln_c_builder_init(kiln_c_builder *b, const kiln_c_dialect *dialect, kiln_arena *arena);
/* Appends all functions and the types that they use. */
void kiln_c_builder_print(kiln_c_builder *b, kiln_strbuf *out);

/* ---- c_lines.c: types, names, lines ---------------------------------------------------------- */

uint64_t kiln_c_low_bits(int64_t value, uint32_t bits);         /* zeros above */
const char *kiln_c_type(kiln_c_builder *b, kiln_ssa_type type); /* "u32", "f32x8", "char *" */
bool kiln_c_is_native(const kiln_c_builder *b, kiln_ssa_type type);
/* A value without a line of its own: `text`, or what its members say. */
kiln_ssa kiln_c_node(kiln_c_builder *b, kiln_ssa_type type, const char *text);
const char *kiln_c_name(kiln_c_builder *b); /* "v12", a new one */
/* The whole value; the lane `l` of a loop over lanes; one lane. */
const char *kiln_c_whole(kiln_c_builder *b, kiln_ssa v);
const char *kiln_c_each(kiln_c_builder *b, kiln_ssa v);
const char *kiln_c_lane(kiln_c_builder *b, kiln_ssa v, uint32_t lane);
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

/* ---- c_control.c: members of kiln_builder_ops ------------------------------------------------ */

#define X(result, name, arguments) result kiln_c_##name arguments;
#include "compiler-core/codegen/builder_control.def"
#undef X

#endif
