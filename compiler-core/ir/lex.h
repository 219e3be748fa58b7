/* Words of program text and graph text, line by line. Private to compiler-core. */
#ifndef KILN_COMPILER_CORE_IR_LEX_H
#define KILN_COMPILER_CORE_IR_LEX_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef enum kiln_token_kind {
    KILN_TOKEN_END,    /* of the line */
    KILN_TOKEN_NAME,   /* bare word */
    KILN_TOKEN_QUOTED, /* "any text", decoded */
    KILN_TOKEN_NUMBER, /* digits, maybe a fraction, exponent and dtype suffix: no sign */
    KILN_TOKEN_SYMBOL, /* one of ( ) [ ] : , | @ $ = == != < <= + - * / .. */
    KILN_TOKEN_BAD,
} kiln_token_kind;

typedef struct kiln_lexer {
    kiln_str text;
    kiln_arena *arena;
    size_t next; /* first byte after the token */
    size_t line_start;
    size_t line_end; /* newline, comment or end of text */
    uint32_t line;   /* from 1 */
    uint32_t indent; /* spaces before the first word of the line */
    bool at_end;     /* no line left */
    /* The current token. */
    kiln_token_kind kind;
    kiln_str token;
    uint32_t column; /* from 1 */
} kiln_lexer;

/* Stands before the first line: call kiln_lexer_next_line. */
void kiln_lexer_init(kiln_lexer *lx, kiln_str text, kiln_arena *arena);
/* Goes to the first token of the next line that is neither blank nor a comment (#). */
void kiln_lexer_next_line(kiln_lexer *lx);
void kiln_lexer_next(kiln_lexer *lx); /* Goes to the next token of the line. */
/* The raw text behind the current token up to `end` on this line; false when there is no `end`. The
 * next token is the one after `end`. */
bool kiln_lexer_raw_until(kiln_lexer *lx, char end, kiln_str *out_text);
/* Whether the current token is that symbol or bare word. */
bool kiln_lexer_is(const kiln_lexer *lx, const char *symbol_or_word);

#endif
