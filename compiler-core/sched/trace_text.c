/* Text of traces, for people, tests and hand-written templates (docs/reference/trace-text.md). */
#include <ctype.h>

#include "base/macros.h"
#include "compiler-core/sched/prim.h"
#include "compiler-core/sched/trace.h"

/* ---- printing ---- */

static char sampler_letter(kiln_prim prim) {
    return prim == KILN_PRIM_PERFECT_TILE ? 't' : kiln_prim_name(prim)[0];
}
/* Samplers whose elements are numbered in text. */
static bool has_elements(kiln_prim prim) {
    return prim == KILN_PRIM_PERFECT_TILE || prim == KILN_PRIM_CHOICE;
}

static bool is_bare(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '\'' || c == '~' || c == '/' ||
           c == '+' || c == '$';
}

static void print_name(kiln_str name, bool quote, kiln_strbuf *out) {
    quote |= name.size == 0;
    for (size_t i = 0; i < name.size; i++) quote |= !is_bare(name.data[i]);
    if (!quote) {
        kiln_strbuf_str(out, name);
        return;
    }
    kiln_strbuf_char(out, '"');
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] == '"' || name.data[i] == '\\') kiln_strbuf_char(out, '\\');
        kiln_strbuf_char(out, name.data[i]);
    }
    kiln_strbuf_char(out, '"');
}

static uint32_t sampler_number(const kiln_trace *trace, uint32_t at) {
    uint32_t number = 0;
    for (uint32_t i = 0; i < at; i++) number += kiln_prim_is_sampler(trace->instruction[i].prim);
    return number;
}

static void print_sampler(const kiln_trace *trace, uint32_t sampler, kiln_strbuf *out) {
    kiln_prim prim = trace->instruction[sampler - 1].prim;
    kiln_strbuf_printf(out, "%c%u", sampler_letter(prim), sampler_number(trace, sampler - 1));
}

static void print_operand(const kiln_trace *trace, const kiln_operand *operand, char letter,
                          kiln_strbuf *out) {
    if (letter == 't' || operand->factor_count == 0) {
        print_name(operand->text, letter == 't', out);
        return;
    }
    for (uint32_t i = 0; i < operand->factor_count; i++) {
        if (i > 0) kiln_strbuf_char(out, '*');
        uint32_t sampler = operand->factor[i].sampler;
        if (sampler == 0) {
            kiln_strbuf_printf(out, "%lld", (long long)operand->factor[i].value);
            continue;
        }
        print_sampler(trace, sampler, out);
        if (has_elements(trace->instruction[sampler - 1].prim))
            kiln_strbuf_printf(out, "[%lld]", (long long)operand->factor[i].value);
    }
}

static void print_decision(const kiln_instruction *in, kiln_strbuf *out) {
    kiln_strbuf_text(out, " = ");
    if (!in->decided) {
        kiln_strbuf_char(out, '?');
        return;
    }
    bool many = in->prim == KILN_PRIM_PERFECT_TILE;
    if (many) kiln_strbuf_char(out, '[');
    for (uint32_t i = 0; i < in->decision_count; i++)
        kiln_strbuf_printf(out, "%s%lld", i ? ", " : "", (long long)in->decision[i]);
    if (many) kiln_strbuf_char(out, ']');
}

/* `at`: its index in the trace, or the one it would have. */
static void print_instruction(const kiln_trace *trace, uint32_t at, const kiln_instruction *in,
                              kiln_strbuf *out) {
    const char *letter = kiln_prim_operands(in->prim);
    if (kiln_prim_is_sampler(in->prim))
        kiln_strbuf_printf(out, "%c%u = ", sampler_letter(in->prim), sampler_number(trace, at));
    kiln_strbuf_printf(out, "%s(", kiln_prim_name(in->prim));
    for (uint32_t k = 0; k < in->operand_count; k++) {
        if (k > 0) kiln_strbuf_text(out, ", ");
        print_operand(trace, &in->operand[k], kiln_prim_next_letter(&letter), out);
    }
    kiln_strbuf_char(out, ')');
    if (kiln_prim_is_sampler(in->prim)) print_decision(in, out);
}

void kiln_trace_print_instruction(const kiln_trace *trace, const kiln_instruction *in,
                                  kiln_strbuf *out) {
    print_instruction(trace, trace->count, in, out);
}

void kiln_trace_print(const kiln_trace *trace, kiln_strbuf *out) {
    for (uint32_t i = 0; i < trace->count; i++) {
        print_instruction(trace, i, &trace->instruction[i], out);
        kiln_strbuf_char(out, '\n');
    }
}

/* ---- parsing ---- */

#define LINE_OPERANDS_MAX 512

typedef struct parser {
    kiln_str text;
    size_t at;
    uint32_t line;
    kiln_arena *arena;
    kiln_trace trace;
} parser;

static kiln_status error_at(const parser *ps, const char *what) {
    size_t start = ps->at;
    while (start > 0 && ps->text.data[start - 1] != '\n') start--;
    return KILN_ERROR(INVALID_ARGUMENT, "trace text %u:%zu: %s", ps->line, ps->at - start + 1,
                      what);
}

static char peek(parser *ps) {
    while (ps->at < ps->text.size &&
           (ps->text.data[ps->at] == ' ' || ps->text.data[ps->at] == '\t' ||
            ps->text.data[ps->at] == '\r'))
        ps->at++;
    return ps->at < ps->text.size ? ps->text.data[ps->at] : '\0';
}

static bool accept(parser *ps, char c) {
    if (peek(ps) != c || c == '\0') return false;
    ps->at++;
    return true;
}

static kiln_str bare_word(parser *ps) {
    (void)peek(ps);
    size_t begin = ps->at;
    while (ps->at < ps->text.size && is_bare(ps->text.data[ps->at])) ps->at++;
    return kiln_str_slice(ps->text, begin, ps->at);
}

static kiln_status parse_quoted(parser *ps, kiln_str *out) {
    char *text = kiln_arena_alloc(ps->arena, ps->text.size - ps->at + 1);
    size_t size = 0;
    for (ps->at++; ps->at < ps->text.size && ps->text.data[ps->at] != '\n'; ps->at++) {
        char c = ps->text.data[ps->at];
        if (c == '"') {
            ps->at++;
            *out = (kiln_str){text, size};
            return NULL;
        }
        if (c == '\\' && ps->at + 1 < ps->text.size) c = ps->text.data[++ps->at];
        text[size++] = c;
    }
    return error_at(ps, "the quoted text does not end");
}

static kiln_status parse_integer(parser *ps, int64_t *out) {
    (void)peek(ps);
    size_t begin = ps->at;
    if (ps->at < ps->text.size && ps->text.data[ps->at] == '-') ps->at++;
    while (ps->at < ps->text.size && isdigit((unsigned char)ps->text.data[ps->at])) ps->at++;
    if (!kiln_str_to_i64(kiln_str_slice(ps->text, begin, ps->at), out))
        return error_at(ps, "an integer is expected");
    return NULL;
}

/* Instruction index + 1 of the sampler called `word`, or 0. */
static uint32_t find_sampler(const parser *ps, kiln_str word) {
    uint64_t number;
    if (word.size < 2 || !isdigit((unsigned char)word.data[1])) return 0;
    if (!kiln_str_to_u64(kiln_str_slice(word, 1, word.size), &number)) return 0;
    for (uint32_t i = 0; i < ps->trace.count; i++) {
        kiln_prim prim = ps->trace.instruction[i].prim;
        if (!kiln_prim_is_sampler(prim) || sampler_letter(prim) != word.data[0]) continue;
        if (sampler_number(&ps->trace, i) == number) return i + 1;
    }
    return 0;
}

static kiln_status parse_factor(parser *ps, kiln_operand *operand) {
    if (operand->factor_count == KILN_OPERAND_FACTORS_MAX)
        return error_at(ps, "the product has too many factors");
    uint32_t i = operand->factor_count++;
    char c = peek(ps);
    if (c == '-' || isdigit((unsigned char)c)) return parse_integer(ps, &operand->factor[i].value);
    operand->factor[i].sampler = find_sampler(ps, bare_word(ps));
    if (!operand->factor[i].sampler)
        return error_at(ps, "there is no such sampler before this line");
    if (!has_elements(ps->trace.instruction[operand->factor[i].sampler - 1].prim)) return NULL;
    if (!accept(ps, '[')) return error_at(ps, "an element [k] is expected");
    kiln_status st = parse_integer(ps, &operand->factor[i].value);
    if (!st && !accept(ps, ']')) st = error_at(ps, "] is expected");
    return st;
}

static kiln_status parse_operand(parser *ps, char letter, kiln_operand *out) {
    *out = (kiln_operand){.factor_count = 0};
    if (letter == 'i' || letter == 'I') {
        kiln_status st = parse_factor(ps, out);
        while (!st && accept(ps, '*')) st = parse_factor(ps, out);
        return st;
    }
    if (peek(ps) == '"') return parse_quoted(ps, &out->text);
    kiln_str word = bare_word(ps);
    if (word.size == 0) return error_at(ps, "a name is expected");
    uint32_t sampler = letter == 'l' || letter == 'L' ? find_sampler(ps, word) : 0;
    if (sampler && ps->trace.instruction[sampler - 1].prim == KILN_PRIM_LOCATION)
        *out = kiln_operand_ref(sampler, 0);
    else
        out->text = kiln_str_copy(ps->arena, word);
    return NULL;
}

static kiln_status parse_decision(parser *ps, kiln_instruction *in) {
    if (accept(ps, '?')) return NULL;
    bool many = accept(ps, '[');
    do {
        if (in->decision_count == KILN_DECISIONS_MAX)
            return error_at(ps, "the decision is too long");
        kiln_status st = parse_integer(ps, &in->decision[in->decision_count++]);
        if (st) return st;
    } while (many && accept(ps, ','));
    if (many && !accept(ps, ']')) return error_at(ps, "] is expected");
    in->decided = true;
    return NULL;
}

static kiln_status parse_operands(parser *ps, kiln_prim prim, kiln_operand *operand,
                                  uint32_t *out_count) {
    const char *letter = kiln_prim_operands(prim);
    uint32_t count = 0;
    if (!accept(ps, '(')) return error_at(ps, "( is expected");
    while (!accept(ps, ')')) {
        if (count > 0 && !accept(ps, ',')) return error_at(ps, ", or ) is expected");
        if (*letter == '\0' || count == LINE_OPERANDS_MAX) return error_at(ps, "too many operands");
        kiln_status st = parse_operand(ps, kiln_prim_next_letter(&letter), &operand[count++]);
        if (st) return st;
    }
    if (!kiln_prim_may_end(letter)) return error_at(ps, "too few operands");
    *out_count = count;
    return NULL;
}

static kiln_status parse_line(parser *ps, kiln_operand *operand) {
    size_t begin = ps->at;
    kiln_str word = bare_word(ps);
    kiln_str result_name = {0};
    if (accept(ps, '=')) {
        result_name = word;
        word = bare_word(ps);
    }
    kiln_prim prim;
    if (!kiln_prim_find(word, &prim)) {
        ps->at = begin;
        return error_at(ps, "there is no such primitive");
    }
    if (kiln_prim_is_sampler(prim) != (result_name.size > 0))
        return error_at(
            ps, "a sampler is written NAME = sampler(...) = DECISION, other primitives without");
    if (ps->trace.count == KILN_TRACE_INSTRUCTIONS_MAX)
        return error_at(ps, "the trace has too many instructions");
    uint32_t count = 0;
    kiln_status st = parse_operands(ps, prim, operand, &count);
    if (st) return st;
    uint32_t at = kiln_trace_add(&ps->trace, ps->arena, prim, operand, count);
    if (kiln_prim_is_sampler(prim)) {
        if (find_sampler(ps, result_name) != at)
            return error_at(ps, "samplers are named by letter and number, t0, c1, ...");
        if (!accept(ps, '=')) return error_at(ps, "= DECISION or = ? is expected");
        st = parse_decision(ps, &ps->trace.instruction[at - 1]);
    }
    return st;
}

kiln_status kiln_trace_parse(kiln_str text, kiln_arena *arena, kiln_trace *out_trace) {
    if (text.size > KILN_TRACE_BYTES_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "trace text is longer than %zu bytes",
                          KILN_TRACE_BYTES_MAX);
    parser ps = {.text = text, .line = 1, .arena = arena};
    kiln_operand *operand = KILN_ARENA_ARRAY(arena, kiln_operand, LINE_OPERANDS_MAX);
    while (ps.at < text.size) {
        char c = peek(&ps);
        if (c == '#')
            while (ps.at < text.size && text.data[ps.at] != '\n') ps.at++;
        else if (c != '\n' && c != '\0') {
            kiln_status st = parse_line(&ps, operand);
            if (st) return st;
        }
        c = peek(&ps);
        if (c != '\n' && c != '#' && ps.at < text.size)
            return error_at(&ps, "end of line is expected");
        if (c == '\n') {
            ps.at++;
            ps.line++;
        }
    }
    *out_trace = ps.trace;
    return NULL;
}
