/* Text of programs: printer and parser, for people, golden tests, hashes and fuzzers.
 * Grammar: docs/reference/loop-text.md. parse(print(p)) prints the same text. */
#ifndef KILN_COMPILER_CORE_IR_IR_TEXT_H
#define KILN_COMPILER_CORE_IR_IR_TEXT_H

#include "base/hash.h"
#include "base/status.h"
#include "compiler-core/ir/ir.h"

void kiln_program_print(const kiln_program *p, kiln_strbuf *out); /* Appends the whole program. */
/* Appends the expression; nothing for 0. */
void kiln_expr_print(const kiln_program *p, kiln_expr e, kiln_strbuf *out);
#define KILN_PROGRAM_TEXT_MAX ((size_t)4 << 20)
#define KILN_PROGRAM_BLOCKS_MAX 1024
#define KILN_PROGRAM_STMTS_MAX 8192
#define KILN_PROGRAM_DEPTH_MAX 64     /* statements in statements */
#define KILN_EXPR_TEXT_NODES_MAX 2048 /* per expression */
#define KILN_EXTENT_MAX (INT64_C(1) << 40)

/* INVALID_ARGUMENT with line:column. Input is hostile: sizes, ids, depth and ranks are bounded. The
 * result has passed kiln_program_verify. UNIMPLEMENTED: reserved words, such as symbolic
 * dimensions. */
KILN_MUST_USE kiln_status kiln_program_parse(kiln_str text, kiln_arena *arena,
                                             kiln_program **out_program);

/* Structural hash of a program's own text. */
kiln_hash128 kiln_program_hash(const kiln_program *p);

/* Checks every rule of ir.h: ids, dtypes, ranks, ranges of variables, index bounds of every access
 * (proved by interval analysis where possible), one parent per statement, producers before
 * consumers, each block placed once. INTERNAL naming the rule and the place. Run after every
 * primitive and pass in debug builds. */
KILN_MUST_USE kiln_status kiln_program_verify(const kiln_program *p);

#endif
