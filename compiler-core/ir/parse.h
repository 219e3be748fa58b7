/* The state of the parser of program text, and the functions its files share. The first error is
 * kept: afterwards every function returns at once with a meaningless result. Private to ir/. */
#ifndef KILN_COMPILER_CORE_IR_PARSE_H
#define KILN_COMPILER_CORE_IR_PARSE_H

#include "base/vec.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/lex.h"
#include "compiler-core/ir/text.h"

typedef struct kiln_parser {
    kiln_lexer lx;
    kiln_program *p;
    kiln_status status;
    kiln_block block; /* names refer to its iterators; 0: to loop variables */
    uint32_t loop_count;
    kiln_var loop[KILN_PROGRAM_DEPTH_MAX]; /* variables in scope */
    uint32_t nodes;                        /* of the current expression */
    uint32_t depth;                        /* of its parentheses */
    KILN_VEC(kiln_expr) part; /* $1, $2, ... of the current expression; in the program's arena */
} kiln_parser;

#define KILN_PARSE_FAIL(ps, ...)                                                                \
    do {                                                                                        \
        if (!(ps)->status)                                                                      \
            (ps)->status = kiln_status_note(KILN_ERROR(INVALID_ARGUMENT, __VA_ARGS__), "%u:%u", \
                                            (ps)->lx.line, (ps)->lx.column);                    \
    } while (0)

/* Skips the word if it is the current token. */
bool kiln_parse_accept(kiln_parser *ps, const char *word);
void kiln_parse_expect(kiln_parser *ps, const char *word); /* The same; an error if it is not. */
/* Bare or quoted. */
kiln_str kiln_parse_name(kiln_parser *ps);
/* An error if there is no buffer of that name. */
kiln_buffer kiln_parse_find_buffer(kiln_parser *ps, kiln_str name);
/* "[i, j]" after the buffer's name; returns the count. `index`: [KILN_RANK_MAX]. */
uint32_t kiln_parse_index(kiln_parser *ps, kiln_buffer buffer, kiln_expr *index);
/* An expression of that dtype. */
kiln_expr kiln_parse_expr(kiln_parser *ps, kiln_dtype dtype);

#endif
