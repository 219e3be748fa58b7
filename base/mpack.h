/* Bounded msgpack (docs/decisions/0003): writing through msgpack-c's packer, reading through a
 * cursor that checks every count and length against the bytes that are left before anything is
 * allocated. Traces, manifests and messages are maps with small-integer keys in this form. */
#ifndef KILN_BASE_MPACK_H
#define KILN_BASE_MPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

#define KILN_MPACK_DEPTH_MAX 16

/* Writers append to `out`. Array and map headers are followed by exactly that many items /
 * key+value pairs. */
void kiln_mpack_write_nil(kiln_strbuf *out);
void kiln_mpack_write_bool(kiln_strbuf *out, bool value);
void kiln_mpack_write_u64(kiln_strbuf *out, uint64_t value);
void kiln_mpack_write_i64(kiln_strbuf *out, int64_t value);
void kiln_mpack_write_f64(kiln_strbuf *out, double value);
void kiln_mpack_write_str(kiln_strbuf *out, kiln_str value);
void kiln_mpack_write_bin(kiln_strbuf *out, const void *data, size_t size);
void kiln_mpack_write_array(kiln_strbuf *out, uint32_t count);
void kiln_mpack_write_map(kiln_strbuf *out, uint32_t count);

typedef struct kiln_mpack_reader {
    const uint8_t *data;
    size_t size, offset;
} kiln_mpack_reader;

typedef enum kiln_mpack_kind {
    KILN_MPACK_END, /* no byte left */
    KILN_MPACK_NIL,
    KILN_MPACK_BOOL,
    KILN_MPACK_INT, /* any integer */
    KILN_MPACK_FLOAT,
    KILN_MPACK_STR,
    KILN_MPACK_BIN,
    KILN_MPACK_ARRAY,
    KILN_MPACK_MAP,
    KILN_MPACK_BAD, /* extension types and the reserved byte */
} kiln_mpack_kind;

/* Starts at the first byte of `data`, which must outlive the reader. */
void kiln_mpack_reader_init(kiln_mpack_reader *r, const void *data, size_t size);
/* The kind of the next value, which is not consumed. KILN_MPACK_END after the last byte. */
kiln_mpack_kind kiln_mpack_peek(const kiln_mpack_reader *r);
/* Each read expects a value of that kind that fits the type. Otherwise it fails with DATA_LOSS and
 * the offset, and consumes nothing. str and bin point into the reader's bytes. Array and map counts
 * never exceed the bytes left. */
KILN_MUST_USE kiln_status kiln_mpack_read_bool(kiln_mpack_reader *r, bool *out);
KILN_MUST_USE kiln_status kiln_mpack_read_u64(kiln_mpack_reader *r, uint64_t *out);
KILN_MUST_USE kiln_status kiln_mpack_read_i64(kiln_mpack_reader *r, int64_t *out);
KILN_MUST_USE kiln_status kiln_mpack_read_f64(kiln_mpack_reader *r,
                                              double *out); /* integers convert */
KILN_MUST_USE kiln_status kiln_mpack_read_str(kiln_mpack_reader *r, kiln_str *out);
KILN_MUST_USE kiln_status kiln_mpack_read_bin(kiln_mpack_reader *r, kiln_str *out);
KILN_MUST_USE kiln_status kiln_mpack_read_array(kiln_mpack_reader *r, uint32_t *out_count);
KILN_MUST_USE kiln_status kiln_mpack_read_map(kiln_mpack_reader *r, uint32_t *out_count);
/* The same with a bound: an array of exactly `count` items; of at most `max` items, which `of`
 * names; a number below `limit`. */
KILN_MUST_USE kiln_status kiln_mpack_read_array_of(kiln_mpack_reader *r, uint32_t count);
KILN_MUST_USE kiln_status kiln_mpack_read_count(kiln_mpack_reader *r, uint32_t max, const char *of,
                                                uint32_t *out_count);
KILN_MUST_USE kiln_status kiln_mpack_read_below(kiln_mpack_reader *r, uint64_t limit,
                                                uint64_t *out);
/* Writes or reads the fields of a struct with the same code, bounds included. `st` keeps the first
 * error; later calls leave their value unchanged. Code that uses a value checks `st` first. */
typedef struct kiln_mpack_coder {
    kiln_strbuf *out; /* written to; NULL: reads from `in` */
    kiln_mpack_reader in;
    kiln_status st;
} kiln_mpack_coder;
void kiln_mpack_code_bool(kiln_mpack_coder *c, bool *value);
void kiln_mpack_code_u64(kiln_mpack_coder *c, uint64_t *value);
void kiln_mpack_code_i64(kiln_mpack_coder *c, int64_t *value);
void kiln_mpack_code_f64(kiln_mpack_coder *c, double *value);
void kiln_mpack_code_str(kiln_mpack_coder *c, kiln_str *value);
void kiln_mpack_code_bin(kiln_mpack_coder *c, kiln_str *value);
/* An array of exactly `count` items; of `*count`, at most `max`, which `of` names; a number below
 * `limit`. */
void kiln_mpack_code_fields(kiln_mpack_coder *c, uint32_t count);
void kiln_mpack_code_count(kiln_mpack_coder *c, uint32_t max, const char *of, uint32_t *count);
void kiln_mpack_code_below(kiln_mpack_coder *c, uint64_t limit, uint32_t *value);
/* Skips one whole value, of any depth up to KILN_MPACK_DEPTH_MAX. */
KILN_MUST_USE kiln_status kiln_mpack_skip(kiln_mpack_reader *r);

#endif
