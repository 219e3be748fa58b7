#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

#define NUMBER_TEXT_MAX 64 /* longest text that is converted */

kiln_str kiln_str_from(const char *text) {
    return text ? (kiln_str){text, strlen(text)} : (kiln_str){"", 0};
}

bool kiln_str_equal(kiln_str a, kiln_str b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool kiln_str_is(kiln_str a, const char *text) { return kiln_str_equal(a, kiln_str_from(text)); }

int kiln_str_compare(kiln_str a, kiln_str b) {
    size_t shared = KILN_MIN(a.size, b.size);
    int order = shared ? memcmp(a.data, b.data, shared) : 0;
    if (order != 0) return order;
    return a.size < b.size ? -1 : a.size > b.size;
}

bool kiln_str_starts(kiln_str s, const char *prefix) {
    size_t size = strlen(prefix);
    return s.size >= size && (size == 0 || memcmp(s.data, prefix, size) == 0);
}

bool kiln_str_ends(kiln_str s, const char *suffix) {
    size_t size = strlen(suffix);
    return s.size >= size && (size == 0 || memcmp(s.data + s.size - size, suffix, size) == 0);
}

size_t kiln_str_find_char(kiln_str s, char c) {
    const char *at = s.size ? memchr(s.data, c, s.size) : NULL;
    return at ? (size_t)(at - s.data) : s.size;
}

kiln_str kiln_str_slice(kiln_str s, size_t begin, size_t end) {
    end = KILN_MIN(end, s.size);
    begin = KILN_MIN(begin, end);
    return (kiln_str){begin ? s.data + begin : s.data, end - begin};
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

kiln_str kiln_str_trim(kiln_str s) {
    while (s.size && is_space(s.data[0])) s = kiln_str_slice(s, 1, s.size);
    while (s.size && is_space(s.data[s.size - 1])) s.size--;
    return s;
}

kiln_str kiln_str_cut(kiln_str *rest, char separator) {
    size_t at = kiln_str_find_char(*rest, separator);
    kiln_str before = kiln_str_slice(*rest, 0, at);
    *rest = kiln_str_slice(*rest, at + 1, rest->size);
    return before;
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

bool kiln_str_to_u64(kiln_str s, uint64_t *out) {
    uint64_t base = 10, value = 0;
    if (kiln_str_starts(s, "0x") || kiln_str_starts(s, "0X")) {
        base = 16;
        s = kiln_str_slice(s, 2, s.size);
    }
    if (s.size == 0) return false;
    for (size_t i = 0; i < s.size; i++) {
        uint64_t digit = (uint64_t)digit_of(s.data[i]);
        if (digit >= base || value > (UINT64_MAX - digit) / base) return false;
        value = value * base + digit;
    }
    *out = value;
    return true;
}

bool kiln_str_to_i64(kiln_str s, int64_t *out) {
    bool negative = kiln_str_starts(s, "-");
    uint64_t magnitude = 0;
    if (!kiln_str_to_u64(negative ? kiln_str_slice(s, 1, s.size) : s, &magnitude)) return false;
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0)) return false;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

/* strtod also takes leading space, hexadecimal and names; a decimal number starts with one of
 * these. */
static bool is_decimal(kiln_str s) {
    for (size_t i = 0; i < s.size; i++) {
        char c = s.data[i];
        if (!(c >= '0' && c <= '9') && c != '+' && c != '-' && c != '.' && c != 'e' && c != 'E')
            return false;
    }
    return s.size > 0;
}

bool kiln_str_to_f64(kiln_str s, double *out) {
    char text[NUMBER_TEXT_MAX];
    if (s.size >= sizeof text || !is_decimal(s)) return false;
    memcpy(text, s.data, s.size);
    text[s.size] = '\0';
    char *end = NULL;
    double value = strtod(text, &end);
    if (end != text + s.size || !isfinite(value)) return false;
    *out = value;
    return true;
}

char *kiln_str_dup(kiln_arena *arena, kiln_str s) {
    char *copy = kiln_arena_alloc(arena, s.size + 1);
    if (s.size) memcpy(copy, s.data, s.size);
    return copy;
}

kiln_str kiln_str_copy(kiln_arena *arena, kiln_str s) {
    return (kiln_str){kiln_str_dup(arena, s), s.size};
}

/* Formats only once if the text is short. */
static char *format_in(kiln_arena *arena, const char *format, va_list args, size_t *out_size) {
    char brief[128];
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(brief, sizeof brief, format, args);
    KILN_CHECK(size >= 0);
    char *text = kiln_arena_alloc(arena, (size_t)size + 1);
    if ((size_t)size < sizeof brief)
        memcpy(text, brief, (size_t)size);
    else
        vsnprintf(text, (size_t)size + 1, format, again);
    va_end(again);
    *out_size = (size_t)size;
    return text;
}

char *kiln_arena_printf(kiln_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t size;
    char *text = format_in(arena, format, args, &size);
    va_end(args);
    return text;
}

kiln_str kiln_str_printf(kiln_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    kiln_str text;
    text.data = format_in(arena, format, args, &text.size);
    va_end(args);
    return text;
}

void kiln_strbuf_deinit(kiln_strbuf *b) {
    kiln_free(b->data);
    *b = (kiln_strbuf){0};
}

void kiln_strbuf_reset(kiln_strbuf *b) {
    b->size = 0;
    if (b->data) b->data[0] = '\0';
}

void kiln_strbuf_wipe(kiln_strbuf *b) {
    if (b->data) kiln_wipe(b->data, b->capacity);
    kiln_strbuf_deinit(b);
}

/* Capacity with room for `extra` bytes and the NUL after them. */
static size_t capacity_for(const kiln_strbuf *b, size_t extra) {
    KILN_CHECK(extra < SIZE_MAX / 4 && b->size < SIZE_MAX / 4);
    size_t needed = b->size + extra + 1;
    if (needed <= b->capacity) return b->capacity;
    return KILN_MAX(needed, b->capacity ? b->capacity * 2 : (size_t)64);
}

static void make_room(kiln_strbuf *b, size_t extra) {
    size_t capacity = capacity_for(b, extra);
    if (capacity == b->capacity) return;
    b->data = kiln_realloc(b->data, capacity);
    b->capacity = capacity;
}

bool kiln_strbuf_try_reserve(kiln_strbuf *b, size_t size) {
    size_t capacity = capacity_for(b, size);
    if (capacity == b->capacity) return true;
    char *data = kiln_try_realloc(b->data, capacity);
    if (!data) return false;
    b->data = data;
    b->capacity = capacity;
    return true;
}

void kiln_strbuf_reserve(kiln_strbuf *b, size_t size) { make_room(b, size); }

void kiln_strbuf_append(kiln_strbuf *b, const void *data, size_t size) {
    make_room(b, size);
    if (size) memcpy(b->data + b->size, data, size);
    b->size += size;
    b->data[b->size] = '\0';
}

void kiln_strbuf_str(kiln_strbuf *b, kiln_str s) { kiln_strbuf_append(b, s.data, s.size); }

void kiln_strbuf_text(kiln_strbuf *b, const char *text) {
    kiln_strbuf_append(b, text, strlen(text));
}

void kiln_strbuf_char(kiln_strbuf *b, char c) { kiln_strbuf_append(b, &c, 1); }

void kiln_strbuf_printf(kiln_strbuf *b, const char *format, ...) {
    va_list args;
    va_start(args, format);
    kiln_strbuf_vprintf(b, format, args);
    va_end(args);
}

void kiln_strbuf_vprintf(kiln_strbuf *b, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    make_room(b, 0);
    int size = vsnprintf(b->data + b->size, b->capacity - b->size, format, args);
    KILN_CHECK(size >= 0);
    if ((size_t)size >= b->capacity - b->size) {
        make_room(b, (size_t)size);
        vsnprintf(b->data + b->size, b->capacity - b->size, format, again);
    }
    va_end(again);
    b->size += (size_t)size;
}

kiln_str kiln_strbuf_view(const kiln_strbuf *b) {
    return b->data ? (kiln_str){b->data, b->size} : (kiln_str){"", 0};
}

kiln_str kiln_strbuf_end(kiln_strbuf *b, kiln_arena *arena) {
    kiln_str copy = kiln_str_copy(arena, kiln_strbuf_view(b));
    kiln_strbuf_deinit(b);
    return copy;
}
