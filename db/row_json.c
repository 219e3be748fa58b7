/* Rows as JSON, as `kiln db export` prints them. */
#include <math.h>

#include "base/text.h"
#include "db/browse.h"

static const char hex_digits[] = "0123456789abcdef";

static void append_unit(uint32_t unit, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "\\u%04x", unit);
}

static void append_character(uint32_t character, kiln_strbuf *out) {
    if (character == '"' || character == '\\') {
        kiln_strbuf_char(out, '\\');
        kiln_strbuf_char(out, (char)character);
    } else if (character >= 0x20 && character < 0x7f) {
        kiln_strbuf_char(out, (char)character);
    } else if (character > 0xffff) {
        append_unit(0xd800 + ((character - 0x10000) >> 10), out);
        append_unit(0xdc00 + ((character - 0x10000) & 0x3ff), out);
    } else {
        append_unit(character, out);
    }
}

void kiln_db_text_print_json(kiln_str text, kiln_strbuf *out) {
    kiln_strbuf_char(out, '"');
    while (text.size) {
        uint32_t character = 0;
        size_t size = kiln_text_character(text, &character);
        append_character(size ? character : 0xfffd, out);
        text = kiln_str_slice(text, size ? size : 1, text.size);
    }
    kiln_strbuf_char(out, '"');
}

void kiln_db_real_print_json(double value, kiln_strbuf *out) {
    if (isnan(value))
        kiln_strbuf_text(out, "\"nan\"");
    else if (isinf(value))
        kiln_strbuf_text(out, value > 0 ? "\"inf\"" : "\"-inf\"");
    else
        kiln_strbuf_printf(out, "%.17g", value);
}

static void print_blob(kiln_str blob, kiln_strbuf *out) {
    kiln_strbuf_char(out, '"');
    for (size_t i = 0; i < blob.size; i++) {
        const uint8_t byte = (uint8_t)blob.data[i];
        kiln_strbuf_char(out, hex_digits[byte >> 4]);
        kiln_strbuf_char(out, hex_digits[byte & 15]);
    }
    kiln_strbuf_char(out, '"');
}

static void print_samples(const kiln_db_samples *samples, kiln_strbuf *out) {
    kiln_strbuf_char(out, '[');
    for (size_t i = 0; i < samples->count; i++) {
        if (i) kiln_strbuf_char(out, ',');
        kiln_db_real_print_json(samples->data[i], out);
    }
    kiln_strbuf_char(out, ']');
}

static bool is_long(kiln_db_type type) { return type == KILN_DB_BLOB || type == KILN_DB_SAMPLES; }

static void print_row(kiln_db_table table, const void *row, bool is_brief, kiln_strbuf *out) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    kiln_strbuf_printf(out, "{\"table\":\"%s\"", info->name);
    for (uint32_t i = 0; i < info->column_count; i++) {
        if (is_brief && is_long(info->column[i].type)) continue;
        const void *member = (const char *)row + info->column[i].offset;
        kiln_strbuf_printf(out, ",\"%s\":", info->column[i].name);
        switch (info->column[i].type) {
        case KILN_DB_TEXT: kiln_db_text_print_json(*(const kiln_str *)member, out); break;
        case KILN_DB_BLOB: print_blob(*(const kiln_str *)member, out); break;
        case KILN_DB_INT:
            kiln_strbuf_printf(out, "%lld", (long long)*(const int64_t *)member);
            break;
        case KILN_DB_REAL: kiln_db_real_print_json(*(const double *)member, out); break;
        case KILN_DB_SAMPLES: print_samples(member, out); break;
        }
    }
    kiln_strbuf_char(out, '}');
}

void kiln_db_row_print_json(kiln_db_table table, const void *row, kiln_strbuf *out) {
    print_row(table, row, false, out);
}

void kiln_db_row_print_brief_json(kiln_db_table table, const void *row, kiln_strbuf *out) {
    print_row(table, row, true, out);
}
