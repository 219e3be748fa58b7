/* Binary form of traces: [version, [texts], [instructions]]. An instruction is [number, decision,
 * operands...]: decision nil (open, or no sampler) or an array; an operand that is a text is its
 * index in the table of texts, a constant is an integer, anything else an array of factors, each an
 * integer or [sampler, element]. */
#include "base/macros.h"
#include "base/mpack.h"
#include "compiler-core/sched/prim.h"
#include "compiler-core/sched/trace.h"

#define TRACE_VERSION 1
#define TEXTS_MAX 1024
#define OPERANDS_MAX 512

static bool is_integer_letter(char letter) { return letter == 'i' || letter == 'I'; }

/* ---- writing ---- */

typedef struct text_table {
    kiln_str text[TEXTS_MAX];
    uint32_t count;
} text_table;

static uint32_t text_index(text_table *table, kiln_str text) {
    for (uint32_t i = 0; i < table->count; i++)
        if (kiln_str_equal(table->text[i], text)) return i;
    if (table->count < TEXTS_MAX) table->text[table->count++] = text;
    return table->count - 1;
}

static void write_factor(const kiln_operand *operand, uint32_t i, kiln_strbuf *out) {
    if (operand->factor[i].sampler > 0) {
        kiln_mpack_write_array(out, 2);
        kiln_mpack_write_u64(out, operand->factor[i].sampler);
    }
    kiln_mpack_write_i64(out, operand->factor[i].value);
}

static void write_operand(const kiln_operand *operand, char letter, text_table *table,
                          kiln_strbuf *out) {
    if (!is_integer_letter(letter) && operand->factor_count == 0) {
        kiln_mpack_write_u64(out, text_index(table, operand->text));
    } else if (is_integer_letter(letter) && operand->factor_count == 1 &&
               operand->factor[0].sampler == 0) {
        kiln_mpack_write_i64(out, operand->factor[0].value);
    } else {
        kiln_mpack_write_array(out, operand->factor_count);
        for (uint32_t i = 0; i < operand->factor_count; i++) write_factor(operand, i, out);
    }
}

static void write_instruction(const kiln_instruction *in, text_table *table, kiln_strbuf *out) {
    const char *letter = kiln_prim_operands(in->prim);
    kiln_mpack_write_array(out, 2 + in->operand_count);
    kiln_mpack_write_u64(out, kiln_prim_number(in->prim));
    if (in->decided) {
        kiln_mpack_write_array(out, in->decision_count);
        for (uint32_t i = 0; i < in->decision_count; i++)
            kiln_mpack_write_i64(out, in->decision[i]);
    } else {
        kiln_mpack_write_nil(out);
    }
    for (uint32_t i = 0; i < in->operand_count; i++)
        write_operand(&in->operand[i], kiln_prim_next_letter(&letter), table, out);
}

void kiln_trace_encode(const kiln_trace *trace, kiln_strbuf *out) {
    text_table table = {.count = 0};
    kiln_strbuf body = {0};
    kiln_mpack_write_array(&body, trace->count);
    for (uint32_t i = 0; i < trace->count; i++)
        write_instruction(&trace->instruction[i], &table, &body);
    kiln_mpack_write_array(out, 3);
    kiln_mpack_write_u64(out, TRACE_VERSION);
    kiln_mpack_write_array(out, table.count);
    for (uint32_t i = 0; i < table.count; i++) kiln_mpack_write_str(out, table.text[i]);
    kiln_strbuf_append(out, body.data, body.size);
    kiln_strbuf_deinit(&body);
}

/* ---- reading ---- */

typedef struct decoder {
    kiln_mpack_reader reader;
    kiln_arena *arena;
    kiln_str *text;
    uint32_t text_count;
    kiln_operand *operand; /* [OPERANDS_MAX] scratch */
    kiln_trace trace;
} decoder;

static kiln_status bad(const char *what) { return KILN_ERROR(DATA_LOSS, "trace bytes: %s", what); }

static kiln_status read_count(decoder *d, uint32_t max, const char *what, uint32_t *out) {
    kiln_status st = kiln_mpack_read_array(&d->reader, out);
    return !st && *out > max ? bad(what) : st;
}

static kiln_status read_factor(decoder *d, kiln_operand *operand) {
    uint32_t i = operand->factor_count++;
    if (kiln_mpack_peek(&d->reader) == KILN_MPACK_ARRAY) {
        uint32_t count;
        uint64_t sampler;
        kiln_status st = read_count(d, 2, "a factor is not [sampler, element]", &count);
        if (!st) st = kiln_mpack_read_u64(&d->reader, &sampler);
        if (st) return st;
        if (count != 2 || sampler == 0 || sampler > d->trace.count)
            return bad("a factor refers to no earlier instruction");
        operand->factor[i].sampler = (uint32_t)sampler;
    }
    return kiln_mpack_read_i64(&d->reader, &operand->factor[i].value);
}

static kiln_status read_operand(decoder *d, char letter, kiln_operand *out) {
    *out = (kiln_operand){.factor_count = 0};
    if (kiln_mpack_peek(&d->reader) == KILN_MPACK_ARRAY) {
        uint32_t count;
        kiln_status st = read_count(d, KILN_OPERAND_FACTORS_MAX, "too many factors", &count);
        for (uint32_t i = 0; i < count && !st; i++) st = read_factor(d, out);
        return st ? st : count == 0 ? bad("an empty product") : NULL;
    }
    if (is_integer_letter(letter)) return read_factor(d, out);
    uint64_t index;
    kiln_status st = kiln_mpack_read_u64(&d->reader, &index);
    if (!st && index >= d->text_count) st = bad("an operand names no text");
    if (!st) out->text = d->text[index];
    return st;
}

static kiln_status read_instruction(decoder *d) {
    uint32_t count;
    uint64_t number;
    kiln_prim prim;
    kiln_instruction in = {.decided = false};
    kiln_status st = read_count(d, OPERANDS_MAX + 2, "too many operands", &count);
    if (!st && count < 2) st = bad("an instruction without number and decision");
    if (!st) st = kiln_mpack_read_u64(&d->reader, &number);
    if (st) return st;
    if (!kiln_prim_from_number(number, &prim)) return bad("an unknown primitive");
    if (kiln_mpack_peek(&d->reader) == KILN_MPACK_ARRAY) {
        st = read_count(d, KILN_DECISIONS_MAX, "a decision that is too long", &in.decision_count);
        for (uint32_t i = 0; i < in.decision_count && !st; i++)
            st = kiln_mpack_read_i64(&d->reader, &in.decision[i]);
        if (!st && !kiln_prim_is_sampler(prim))
            st = bad("a decision where there is nothing to decide");
        in.decided = true;
    } else {
        st = kiln_mpack_skip(&d->reader);
    }
    const char *letter = kiln_prim_operands(prim);
    for (uint32_t i = 0; i + 2 < count && !st; i++) {
        char now = kiln_prim_next_letter(&letter);
        st = now == '\0' ? bad("too many operands") : read_operand(d, now, &d->operand[i]);
    }
    if (st) return st;
    uint32_t at = kiln_trace_add(&d->trace, d->arena, prim, d->operand, count - 2) - 1;
    d->trace.instruction[at].decided = in.decided;
    d->trace.instruction[at].decision_count = in.decision_count;
    for (uint32_t i = 0; i < in.decision_count; i++)
        d->trace.instruction[at].decision[i] = in.decision[i];
    return NULL;
}

kiln_status kiln_trace_decode(kiln_str bytes, kiln_arena *arena, kiln_trace *out_trace) {
    if (bytes.size > KILN_TRACE_BYTES_MAX) return bad("longer than their limit");
    decoder d = {.arena = arena};
    uint32_t count;
    uint64_t version;
    kiln_mpack_reader_init(&d.reader, bytes.data, bytes.size);
    kiln_status st = kiln_mpack_read_array(&d.reader, &count);
    if (!st) st = kiln_mpack_read_u64(&d.reader, &version);
    if (!st && (count != 3 || version != TRACE_VERSION)) st = bad("of another version");
    if (!st) st = read_count(&d, TEXTS_MAX, "too many texts", &d.text_count);
    if (st) return st;
    d.text = KILN_ARENA_ARRAY(arena, kiln_str, d.text_count);
    for (uint32_t i = 0; i < d.text_count && !st; i++) {
        st = kiln_mpack_read_str(&d.reader, &d.text[i]);
        if (!st) d.text[i] = kiln_str_copy(arena, d.text[i]);
    }
    if (!st) st = read_count(&d, KILN_TRACE_INSTRUCTIONS_MAX, "too many instructions", &count);
    if (st) return st;
    d.operand = KILN_ARENA_ARRAY(arena, kiln_operand, OPERANDS_MAX);
    for (uint32_t i = 0; i < count && !st; i++) st = read_instruction(&d);
    if (!st && kiln_mpack_peek(&d.reader) != KILN_MPACK_END)
        st = bad("something follows the trace");
    if (!st) *out_trace = d.trace;
    return st;
}
