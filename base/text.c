#include "base/text.h"

#include <string.h>

#include "base/check.h"

#define CUT "..."
#define CUT_BYTES (sizeof CUT - 1)
#define SHOWN_BYTES 100u /* of a text that is refused */

size_t kiln_text_character(kiln_str text, uint32_t *out_character) {
    static const struct {
        uint8_t first, last; /* of the first byte */
        uint8_t size;
        uint32_t least; /* longer forms of smaller numbers are refused */
    } form[] = {{0x00, 0x7f, 1, 0},
                {0xc2, 0xdf, 2, 0x80},
                {0xe0, 0xef, 3, 0x800},
                {0xf0, 0xf4, 4, 0x10000}};
    if (text.size == 0) return 0;
    const uint8_t *byte = (const uint8_t *)text.data;
    for (size_t f = 0; f < KILN_ARRAY_COUNT(form); f++) {
        if (byte[0] < form[f].first || byte[0] > form[f].last) continue;
        if (form[f].size > text.size) return 0;
        uint32_t value = form[f].size == 1 ? byte[0] : byte[0] & (0x7fU >> form[f].size);
        for (uint32_t i = 1; i < form[f].size; i++) {
            if ((byte[i] & 0xc0) != 0x80) return 0;
            value = value << 6 | (byte[i] & 0x3f);
        }
        const bool is_surrogate = value >= 0xd800 && value < 0xe000;
        if (value < form[f].least || value > 0x10ffff || is_surrogate) return 0;
        *out_character = value;
        return form[f].size;
    }
    return 0;
}

/* Unicode's general categories Cc, Cf, Zl and Zp, and invisible letters. */
static bool is_hidden(uint32_t character) {
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
                  {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
                  {0x8e2, 0x8e2},     {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
                  {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164},
                  {0xfdd0, 0xfdef},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
                  {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
                  {0xe0000, 0x10ffff}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(hidden); i++)
        if (character >= hidden[i].first && character <= hidden[i].last) return true;
    return false;
}

static size_t write_hex(uint32_t value, uint32_t digits_min, char *out) {
    static const char digit[] = "0123456789abcdef";
    uint32_t count = digits_min;
    while (count < 8 && value >> 4 * count) count++;
    for (uint32_t i = 0; i < count; i++) out[i] = digit[value >> 4 * (count - 1 - i) & 15];
    return count;
}

static size_t write_byte(uint8_t byte, char *out) {
    memcpy(out, "\\x", 2);
    return 2 + write_hex(byte, 2, out + 2);
}

static size_t write_escape(uint32_t character, char *out) {
    memcpy(out, "\\u{", 3);
    size_t size = 3 + write_hex(character, 1, out + 3);
    out[size] = '}';
    return size + 1;
}

/* Whether the form keeps this invisible character, which is followed by `rest`. */
static bool is_layout(char c, kiln_str rest, kiln_text_form form) {
    switch (form) {
    case KILN_TEXT_LINE: return false;
    case KILN_TEXT_PROSE: return c == '\n' && kiln_str_starts(rest, "  ");
    case KILN_TEXT_PAGE: return c == '\n' || c == '\t';
    }
    return false;
}

size_t kiln_text_step(kiln_str *rest, kiln_text_form form, char out_piece[KILN_TEXT_PIECE_MAX]) {
    uint32_t character = 0;
    const size_t size = kiln_text_character(*rest, &character);
    const char *at = rest->data;
    *rest = kiln_str_slice(*rest, size ? size : 1, rest->size);
    if (size == 1 && is_layout(*at, *rest, form)) {
        *out_piece = *at;
        return 1;
    }
    if (size == 0 || (size == 1 && is_hidden(character)))
        return write_byte((uint8_t)*at, out_piece);
    if (is_hidden(character)) return write_escape(character, out_piece);
    memcpy(out_piece, at, size);
    return size;
}

bool kiln_text_is_printable(kiln_str text, kiln_text_form form) {
    while (text.size) {
        char piece[KILN_TEXT_PIECE_MAX];
        const char *at = text.data;
        size_t size = kiln_text_step(&text, form, piece);
        if (size != (size_t)(text.data - at) || memcmp(piece, at, size) != 0) return false;
    }
    return true;
}

kiln_status kiln_text_check_line(kiln_str text, const char *what) {
    if (kiln_text_is_printable(text, KILN_TEXT_LINE)) return KILN_OK;
    char shown[SHOWN_BYTES];
    kiln_text_write(text, KILN_TEXT_LINE, shown, sizeof shown);
    return KILN_ERROR(INVALID_ARGUMENT,
                      "%s \"%s\" has line ends or characters that are not printable; give one "
                      "line of plain text",
                      what, shown);
}

/* Bytes written, and how many of them stay if not all fit. */
typedef struct cutter {
    size_t size, kept;
} cutter;

/* Whether a piece of `size` bytes is within the limit; counts it then. */
static bool cutter_takes(cutter *c, size_t size, size_t size_max) {
    if (c->size + CUT_BYTES <= size_max) c->kept = c->size;
    if (c->size + size > size_max) return false;
    c->size += size;
    return true;
}

void kiln_text_append(kiln_strbuf *out, kiln_str text, kiln_text_form form, size_t size_max) {
    KILN_CHECK(size_max > KILN_TEXT_PIECE_MAX + CUT_BYTES);
    const size_t begin = out->size;
    cutter c = {0};
    while (text.size) {
        char piece[KILN_TEXT_PIECE_MAX];
        size_t size = kiln_text_step(&text, form, piece);
        if (!cutter_takes(&c, size, size_max)) {
            out->size = begin + c.kept;
            kiln_strbuf_text(out, CUT);
            return;
        }
        kiln_strbuf_append(out, piece, size);
    }
}

kiln_str kiln_text_printable(kiln_str text, kiln_text_form form, size_t size_max,
                             kiln_arena *arena) {
    if (text.size <= size_max && kiln_text_is_printable(text, form)) return text;
    kiln_strbuf copy = {0};
    kiln_text_append(&copy, text, form, size_max);
    return kiln_strbuf_end(&copy, arena);
}

size_t kiln_text_write(kiln_str text, kiln_text_form form, char *out, size_t size) {
    KILN_CHECK(size > KILN_TEXT_PIECE_MAX + CUT_BYTES + 1);
    cutter c = {0};
    while (text.size) {
        char piece[KILN_TEXT_PIECE_MAX];
        const size_t at = c.size, piece_size = kiln_text_step(&text, form, piece);
        if (!cutter_takes(&c, piece_size, size - 1)) {
            memcpy(out + c.kept, CUT, CUT_BYTES);
            c.size = c.kept + CUT_BYTES;
            break;
        }
        memcpy(out + at, piece, piece_size);
    }
    out[c.size] = '\0';
    return c.size;
}

void kiln_text_append_json(kiln_strbuf *out, kiln_str text) {
    while (text.size) {
        char piece[KILN_TEXT_PIECE_MAX];
        const size_t size = kiln_text_step(&text, KILN_TEXT_PROSE, piece);
        if (*piece == '\n') {
            kiln_strbuf_text(out, "\\u000a");
            continue;
        }
        if (*piece == '"' || *piece == '\\') kiln_strbuf_char(out, '\\');
        kiln_strbuf_append(out, piece, size);
    }
}
