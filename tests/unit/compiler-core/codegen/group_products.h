/* Products by instructions of warp groups, for tests: expression, schedule, text, emulation. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_GROUP_PRODUCTS_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_GROUP_PRODUCTS_H

#include "base/tensor.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/ptxas.h"

/* A product in blocks of 64 * groups rows and `columns` columns, 64 steps at a time. */
typedef struct group_product {
    const char *type;
    int64_t m, n, k;
    int64_t groups, columns;
    bool by_columns; /* x[k, i]: rows lie behind one another */
    bool by_rows;    /* w[k, j]: columns lie behind one another */
    int64_t stages;  /* of its pipeline; 0: it is none */
    int producer;    /* 1: threads of their own fetch, 2: by boxes */
    int64_t cluster; /* groups below one another that are one; 0: none */
} group_product;

/* The expression, and the schedule as text. */
kiln_program *group_program(const group_product *x, kiln_arena *arena);
const char *group_schedule(const group_product *x, kiln_arena *arena);
/* What the text makes of the expression; it must be good. */
kiln_program *group_scheduled(const kiln_program *te, const char *text);
/* For sm_90a; `backend`: "cuda" for CUDA C, NULL for PTX. */
kiln_str group_text(const kiln_program *p, const char *backend, kiln_arena *arena,
                    kiln_lowered *lowered);
/* Small integers; the result is not filled. */
void group_tensors(const kiln_program *te, kiln_arena *arena, kiln_tensor arg[3]);
/* What the emulator makes of CUDA C. */
kiln_status group_emulate(kiln_str text, const kiln_launch *l, const kiln_tensor arg[3],
                          kiln_arena *arena);
/* The program that is lowered, and the CUDA C run by the emulator, compute what the expression
 * does, bit by bit. `word` stands in the text. */
void group_expect_product(const group_product *x, const char *word);
/* The text with a fault in it, which is the test's own. */
typedef kiln_str group_spoil(kiln_str text, const void *fault, kiln_arena *arena);
/* The emulator refuses the product's CUDA C with that fault, saying `error`; or, where that is
 * NULL, computes something else. */
void group_expect_fault(const group_product *x, group_spoil *spoil, const void *fault,
                        const char *error);
/* NVIDIA's assembler takes the text without spills and notes; false: it is not installed. */
bool group_assembled(kiln_str ptx, kiln_arena *arena, kiln_ptxas_report *out_report);
/* The text with `what` replaced wherever it stands. */
kiln_str replaced(kiln_str text, const char *what, const char *instead, kiln_arena *arena);

#endif
