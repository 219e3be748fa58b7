/* The program's scratch tables of results by expression id: one per walk over expressions, so that
 * shared subexpressions are visited once. Walks nest (a rewrite may substitute). Private to ir/. */
#ifndef KILN_COMPILER_CORE_IR_MEMO_H
#define KILN_COMPILER_CORE_IR_MEMO_H

#include "compiler-core/ir/ir.h"

/* Starts a walk with an empty table. Every begin needs an end. */
kiln_expr_memo *kiln_memo_begin(kiln_program *p);
void kiln_memo_end(kiln_program *p); /* Ends the latest walk. */
/* 0 when nothing is stored in this walk. */
kiln_expr kiln_memo_find(const kiln_expr_memo *memo, kiln_expr e);
/* Stores the result of `e`. */
void kiln_memo_put(kiln_program *p, kiln_expr_memo *memo, kiln_expr e, kiln_expr value);

#endif
