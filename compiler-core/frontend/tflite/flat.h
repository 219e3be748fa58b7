/* Reading tables of a flatbuffer: the form of TFLite's files. Used by the files of this folder.
 *
 * A table names its fields by number; a field that is absent has a default. Everything is read in
 * place, and every offset is checked before it is followed. The first offset or size that leaves
 * the file is remembered in `bad`; from then on reading yields defaults and empty tables, so that
 * callers check once, by kiln_flat_status. Nothing here is recursive: each call follows one offset.
 * Private to this folder. */
#ifndef KILN_COMPILER_CORE_FRONTEND_TFLITE_FLAT_H
#define KILN_COMPILER_CORE_FRONTEND_TFLITE_FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

typedef struct kiln_flat {
    kiln_str bytes;
    const char *bad; /* the first error of the file; NULL: none so far */
    size_t bad_at;
} kiln_flat;

/* All zero: a table without fields, as an absent one is read. */
typedef struct kiln_flat_table {
    kiln_flat *file;
    size_t at, size;            /* of the table */
    size_t vtable, field_count; /* offsets of the fields in the table, two bytes each */
} kiln_flat_table;

/* Items one after the other; all zero: none. */
typedef struct kiln_flat_vector {
    kiln_flat *file;
    size_t at;
    uint32_t count;
} kiln_flat_vector;

/* Whether the file has this identifier of four letters and a root table inside the file. */
bool kiln_flat_is(kiln_str bytes, const char *identifier);
kiln_flat_table kiln_flat_root(kiln_flat *file);
/* INVALID_ARGUMENT: an offset or size left the file. */
KILN_MUST_USE kiln_status kiln_flat_status(const kiln_flat *file);

/* Fields by number. Integers have `size` bytes (1, 2, 4 or 8) and are signed. */
bool kiln_flat_has(const kiln_flat_table *table, uint32_t field);
int64_t kiln_flat_int(const kiln_flat_table *table, uint32_t field, size_t size, int64_t otherwise);
double kiln_flat_float(const kiln_flat_table *table, uint32_t field, double otherwise);
kiln_str kiln_flat_text(const kiln_flat_table *table, uint32_t field);
kiln_flat_table kiln_flat_child(const kiln_flat_table *table, uint32_t field);
/* Items of `item_bytes` each; 4 for tables, whose offsets they are. */
kiln_flat_vector kiln_flat_items(const kiln_flat_table *table, uint32_t field, size_t item_bytes);

/* Item `index`, below the count (checked). */
int64_t kiln_flat_item_int(const kiln_flat_vector *vector, uint32_t index, size_t size);
double kiln_flat_item_float(const kiln_flat_vector *vector, uint32_t index);
kiln_flat_table kiln_flat_item_table(const kiln_flat_vector *vector, uint32_t index);
/* The bytes of a vector of bytes. */
kiln_str kiln_flat_bytes(const kiln_flat_vector *vector);

#endif
