/* Text as (pointer, length) views, and a growing builder. Views own nothing. */
#ifndef KILN_BASE_STR_H
#define KILN_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/macros.h"

typedef struct kiln_str {
    const char *data; /* need not be NUL-terminated */
    size_t size;
} kiln_str;

#define KILN_STR(literal) ((kiln_str){"" literal, sizeof(literal) - 1})
#define KILN_STR_ARG(s) (int)(s).size, (s).data /* for "%.*s" */

kiln_str kiln_str_from(const char *text); /* NULL gives the empty string */
bool kiln_str_equal(kiln_str a, kiln_str b);
bool kiln_str_is(kiln_str a, const char *text);
int kiln_str_compare(kiln_str a, kiln_str b);
bool kiln_str_starts(kiln_str s, const char *prefix);
bool kiln_str_ends(kiln_str s, const char *suffix);
/* Index of the first `c`, or s.size. */
size_t kiln_str_find_char(kiln_str s, char c);
kiln_str kiln_str_slice(kiln_str s, size_t begin, size_t end); /* clamped */
kiln_str kiln_str_trim(kiln_str s);
/* Cuts at the first `separator`: returns what is before it; `*rest` becomes what is after (empty at
 * the end). */
kiln_str kiln_str_cut(kiln_str *rest, char separator);
/* Whole string must be a decimal number (integers also 0x…); false otherwise or when out of range.
 */
bool kiln_str_to_i64(kiln_str s, int64_t *out);
bool kiln_str_to_u64(kiln_str s, uint64_t *out);
bool kiln_str_to_f64(kiln_str s, double *out);
/* NUL-terminated copies. */
char *kiln_str_dup(kiln_arena *arena, kiln_str s);
kiln_str kiln_str_copy(kiln_arena *arena, kiln_str s);
char *kiln_arena_printf(kiln_arena *arena, const char *format, ...) KILN_PRINTF(2, 3);
kiln_str kiln_str_printf(kiln_arena *arena, const char *format, ...) KILN_PRINTF(2, 3);

/* Growing text or bytes on the heap; zero-initialise, deinit when done. `data` is always
 * NUL-terminated once anything was appended. */
typedef struct kiln_strbuf {
    char *data;
    size_t size, capacity;
} kiln_strbuf;

/* Frees it; reset empties it and keeps its memory. Both accept a zeroed buffer. */
void kiln_strbuf_deinit(kiln_strbuf *b);
void kiln_strbuf_reset(kiln_strbuf *b);
/* Makes room for `size` more bytes, so that appending them moves nothing. */
void kiln_strbuf_reserve(kiln_strbuf *b, size_t size);
/* The same; false: there is no memory, and the buffer is unchanged. */
KILN_MUST_USE bool kiln_strbuf_try_reserve(kiln_strbuf *b, size_t size);
/* Overwrites all of its memory and frees it, for secrets. */
void kiln_strbuf_wipe(kiln_strbuf *b);
/* Each appends. `data` may hold any bytes, text ends at its NUL. */
void kiln_strbuf_append(kiln_strbuf *b, const void *data, size_t size);
void kiln_strbuf_str(kiln_strbuf *b, kiln_str s);
void kiln_strbuf_text(kiln_strbuf *b, const char *text);
void kiln_strbuf_char(kiln_strbuf *b, char c);
void kiln_strbuf_printf(kiln_strbuf *b, const char *format, ...) KILN_PRINTF(2, 3);
void kiln_strbuf_vprintf(kiln_strbuf *b, const char *format, va_list args);
/* The contents; valid until the next change. */
kiln_str kiln_strbuf_view(const kiln_strbuf *b);
/* Moves the contents into `arena`; the buffer is then empty and needs no deinit. */
kiln_str kiln_strbuf_end(kiln_strbuf *b, kiln_arena *arena);

#endif
