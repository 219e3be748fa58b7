/* Shared by printer and parser of programs: the words of docs/reference/loop-text.md. Private to
 * ir/. */
#ifndef KILN_COMPILER_CORE_IR_TEXT_H
#define KILN_COMPILER_CORE_IR_TEXT_H

#include "compiler-core/ir/ir.h"

typedef struct kiln_expr_op_info {
    const char *text;
    int8_t operand_count; /* -1: any */
    enum {
        KILN_CLASS_LEAF,
        KILN_CLASS_LOAD,
        KILN_CLASS_BINARY,
        KILN_CLASS_COMPARE,
        KILN_CLASS_CALLED,
        KILN_CLASS_CAST
    } class;
} kiln_expr_op_info;

extern const kiln_expr_op_info kiln_expr_op_table[KILN_EXPR_OP_COUNT]; /* Rows of exprs.def. */

/* Indexed by the enums; entries may be NULL where the enum has no word. */
extern const char *const kiln_role_word[];     /* "input", ..., by kiln_role */
extern const char *const kiln_loop_word[];     /* "for", "parallel", ... */
extern const char *const kiln_combiner_word[]; /* "", "sum", "prod", "max", "min" */
extern const char *const kiln_fill_word[];     /* by kiln_fill */

/* Whether `name` needs no quotes. */
bool kiln_name_is_plain(kiln_str name);
/* The name, in quotes where it needs them (or always). Graph text writes names the same way. */
void kiln_name_print(kiln_str name, bool always_quoted, kiln_strbuf *out);

#endif
