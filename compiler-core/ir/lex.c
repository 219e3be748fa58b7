#include "compiler-core/ir/lex.h"

#include <string.h>

#include "base/macros.h"
#include "compiler-core/ir/text.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

void kiln_lexer_init(kiln_lexer *lx, kiln_str text, kiln_arena *arena) {
    *lx = (kiln_lexer){.text = text, .arena = arena};
}

static char peek(const kiln_lexer *lx, size_t ahead) {
    return lx->next + ahead < lx->line_end ? lx->text.data[lx->next + ahead] : '\0';
}

/* The end of what counts on a line: a comment starts at a # that is not within quotes. */
static size_t find_line_end(const kiln_lexer *lx) {
    bool quoted = false;
    size_t at = lx->line_start;
    for (; at < lx->text.size && lx->text.data[at] != '\n'; at++) {
        char c = lx->text.data[at];
        if (c == '#' && !quoted) break;
        if (quoted && c == '\\' && at + 1 < lx->text.size && lx->text.data[at + 1] != '\n') {
            at++;
        } else if (c == '"') {
            quoted = !quoted;
        }
    }
    return at;
}

void kiln_lexer_next_line(kiln_lexer *lx) {
    for (;;) {
        if (lx->line > 0) {
            lx->line_start = lx->line_end;
            while (lx->line_start < lx->text.size && lx->text.data[lx->line_start] != '\n')
                lx->line_start++;
            lx->line_start++;
        }
        lx->line++;
        lx->at_end = lx->line_start >= lx->text.size;
        if (lx->at_end) {
            lx->kind = KILN_TOKEN_END;
            lx->token = (kiln_str){0};
            lx->next = lx->line_end = lx->line_start = lx->text.size;
            lx->column = 1;
            return;
        }
        lx->line_end = find_line_end(lx);
        lx->next = lx->line_start;
        while (peek(lx, 0) == ' ') lx->next++;
        lx->indent = (uint32_t)(lx->next - lx->line_start);
        kiln_lexer_next(lx);
        if (lx->kind != KILN_TOKEN_END) return;
    }
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes \" \\ \xHH; stands after the opening quote. */
static void read_quoted(kiln_lexer *lx) {
    size_t closing = lx->next;
    while (closing < lx->line_end && lx->text.data[closing] != '"')
        closing += lx->text.data[closing] == '\\' ? 2 : 1;
    char *decoded = kiln_arena_alloc(lx->arena, closing - lx->next + 1);
    size_t size = 0;
    lx->kind = KILN_TOKEN_BAD;
    while (lx->next < lx->line_end && peek(lx, 0) != '"') {
        char c = peek(lx, 0);
        lx->next++;
        if (c == '\\') {
            char escape = peek(lx, 0);
            int high = hex_digit(peek(lx, 1));
            int low = hex_digit(peek(lx, 2));
            if (escape == 'x' && high >= 0 && low >= 0) {
                c = (char)(high * 16 + low);
                lx->next += 3;
            } else if (escape == '"' || escape == '\\') {
                c = escape;
                lx->next++;
            } else {
                return;
            }
        }
        decoded[size++] = c;
    }
    if (lx->next >= lx->line_end) return;
    lx->next++;
    lx->kind = KILN_TOKEN_QUOTED;
    lx->token = (kiln_str){decoded, size};
}

static void read_number(kiln_lexer *lx) {
    while (is_digit(peek(lx, 0))) lx->next++;
    if (peek(lx, 0) == '.' && peek(lx, 1) != '.') lx->next++;
    while (is_digit(peek(lx, 0))) lx->next++;
    if (peek(lx, 0) == 'e') {
        size_t sign = peek(lx, 1) == '-' || peek(lx, 1) == '+';
        if (is_digit(peek(lx, 1 + sign))) lx->next += 1 + sign;
        while (is_digit(peek(lx, 0))) lx->next++;
    }
    while (is_letter(peek(lx, 0)) || is_digit(peek(lx, 0))) lx->next++;
}

static size_t symbol_size(const kiln_lexer *lx) {
    static const char *const two[] = {"==", "!=", "<=", ".."};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(two); i++)
        if (peek(lx, 0) == two[i][0] && peek(lx, 1) == two[i][1]) return 2;
    return strchr("()[]:,|@$=<+-*/", peek(lx, 0)) ? 1 : 0;
}

void kiln_lexer_next(kiln_lexer *lx) {
    while (peek(lx, 0) == ' ') lx->next++;
    size_t start = lx->next;
    lx->column = (uint32_t)(start - lx->line_start) + 1;
    lx->kind = KILN_TOKEN_END;
    lx->token = (kiln_str){0};
    if (start >= lx->line_end) return;
    char c = peek(lx, 0);
    if (c == '"') {
        lx->next++;
        read_quoted(lx);
        return;
    }
    if (is_letter(c)) {
        lx->kind = KILN_TOKEN_NAME;
        while (is_letter(peek(lx, 0)) || is_digit(peek(lx, 0)) || peek(lx, 0) == '.' ||
               peek(lx, 0) == '\'')
            lx->next++;
    } else if (is_digit(c)) {
        lx->kind = KILN_TOKEN_NUMBER;
        read_number(lx);
    } else {
        size_t size = c ? symbol_size(lx) : 0;
        lx->kind = size ? KILN_TOKEN_SYMBOL : KILN_TOKEN_BAD;
        lx->next += size ? size : 1;
    }
    lx->token = kiln_str_slice(lx->text, start, lx->next);
}

bool kiln_lexer_raw_until(kiln_lexer *lx, char end, kiln_str *out_text) {
    size_t start = lx->next;
    while (lx->next < lx->line_end && lx->text.data[lx->next] != end) lx->next++;
    if (lx->next >= lx->line_end) return false;
    *out_text = kiln_str_slice(lx->text, start, lx->next);
    lx->next++;
    kiln_lexer_next(lx);
    return true;
}

bool kiln_lexer_is(const kiln_lexer *lx, const char *symbol_or_word) {
    return (lx->kind == KILN_TOKEN_SYMBOL || lx->kind == KILN_TOKEN_NAME) &&
           kiln_str_is(lx->token, symbol_or_word);
}
