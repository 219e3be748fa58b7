/* Tables of flatbuffers: offsets are unsigned and relative to their own position, forwards; only
 * the first four bytes of a table are the distance back to the list of its fields' offsets. */
#include "compiler-core/frontend/tflite/flat.h"

#include <string.h>

#include "base/check.h"

#define OFFSET_BYTES 4u
#define PLACE_BYTES 2u
#define PLACES_HEAD_BYTES 4u /* sizes of the list of offsets, and of the table */

static void fail(kiln_flat *file, const char *bad, size_t at) {
    if (file->bad) return;
    file->bad = bad;
    file->bad_at = at;
}

kiln_status kiln_flat_status(const kiln_flat *file) {
    if (!file->bad) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "the file is damaged: %s at byte %zu", file->bad,
                      file->bad_at);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool fits(const kiln_flat *file, size_t at, size_t size) {
    return at <= file->bytes.size && size <= file->bytes.size - at;
}

/* `size` bytes, least first; the caller knows that they are there. */
static uint64_t load(const kiln_flat *file, size_t at, size_t size) {
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)(uint8_t)file->bytes.data[at + i] << (8 * i);
    return value;
}

static int64_t load_signed(const kiln_flat *file, size_t at, size_t size) {
    const uint32_t unused = 64 - 8 * (uint32_t)size;
    const uint64_t sign = UINT64_C(1) << (63 - unused), value = load(file, at, size);
    return (int64_t)((value ^ sign) - sign);
}

static double load_float(const kiln_flat *file, size_t at) {
    const uint32_t bits = (uint32_t)load(file, at, sizeof bits);
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Follows the offset at `at`; false: it leads out of the file. */
static bool follow(kiln_flat *file, size_t at, size_t *out_at) {
    if (!fits(file, at, OFFSET_BYTES)) {
        fail(file, "an offset is cut off", at);
        return false;
    }
    const size_t offset = (size_t)load(file, at, OFFSET_BYTES);
    if (!offset || !fits(file, at, offset) || !fits(file, at + offset, OFFSET_BYTES)) {
        fail(file, "an offset leads out of the file", at);
        return false;
    }
    *out_at = at + offset;
    return true;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static kiln_flat_table table_at(kiln_flat *file, size_t at) {
    static const kiln_flat_table nothing = {0};
    const int64_t back = load_signed(file, at, OFFSET_BYTES);
    const int64_t places = (int64_t)at - back;
    if (places < 0 || !fits(file, (size_t)places, PLACES_HEAD_BYTES)) {
        fail(file, "the fields of a table are listed outside of the file", at);
        return nothing;
    }
    const size_t vtable = (size_t)places, list_bytes = (size_t)load(file, vtable, PLACE_BYTES),
                 table_bytes = (size_t)load(file, vtable + PLACE_BYTES, PLACE_BYTES);
    if (list_bytes < PLACES_HEAD_BYTES || !fits(file, vtable, list_bytes) ||
        table_bytes < OFFSET_BYTES || !fits(file, at, table_bytes)) {
        fail(file, "a table has a wrong size", at);
        return nothing;
    }
    return (kiln_flat_table){.file = file,
                             .at = at,
                             .size = table_bytes,
                             .vtable = vtable + PLACES_HEAD_BYTES,
                             .field_count = (list_bytes - PLACES_HEAD_BYTES) / PLACE_BYTES};
}

/* The position of a field of `size` bytes; false: it is absent. */
static bool find(const kiln_flat_table *table, uint32_t field, size_t size, size_t *out_at) {
    if (!table->file || table->file->bad || field >= table->field_count) return false;
    const size_t place =
        (size_t)load(table->file, table->vtable + (size_t)field * PLACE_BYTES, PLACE_BYTES);
    if (!place) return false;
    if (place > table->size || size > table->size - place) {
        fail(table->file, "a field is outside of its table", table->at);
        return false;
    }
    *out_at = table->at + place;
    return true;
}

bool kiln_flat_is(kiln_str bytes, const char *identifier) {
    const kiln_flat file = {.bytes = bytes};
    if (!fits(&file, 0, 2 * OFFSET_BYTES)) return false;
    return memcmp(bytes.data + OFFSET_BYTES, identifier, 4) == 0 &&
           fits(&file, (size_t)load(&file, 0, OFFSET_BYTES), OFFSET_BYTES);
}

kiln_flat_table kiln_flat_root(kiln_flat *file) {
    size_t at;
    return follow(file, 0, &at) ? table_at(file, at) : (kiln_flat_table){0};
}

bool kiln_flat_has(const kiln_flat_table *table, uint32_t field) {
    size_t at;
    return find(table, field, 1, &at);
}

int64_t kiln_flat_int(const kiln_flat_table *table, uint32_t field, size_t size,
                      int64_t otherwise) {
    size_t at;
    return find(table, field, size, &at) ? load_signed(table->file, at, size) : otherwise;
}

double kiln_flat_float(const kiln_flat_table *table, uint32_t field, double otherwise) {
    size_t at;
    return find(table, field, sizeof(float), &at) ? load_float(table->file, at) : otherwise;
}

kiln_flat_table kiln_flat_child(const kiln_flat_table *table, uint32_t field) {
    size_t at;
    if (!find(table, field, OFFSET_BYTES, &at) || !follow(table->file, at, &at))
        return (kiln_flat_table){0};
    return table_at(table->file, at);
}

kiln_flat_vector kiln_flat_items(const kiln_flat_table *table, uint32_t field, size_t item_bytes) {
    size_t at;
    if (!find(table, field, OFFSET_BYTES, &at) || !follow(table->file, at, &at))
        return (kiln_flat_vector){0};
    const uint32_t count = (uint32_t)load(table->file, at, OFFSET_BYTES);
    if (count > (table->file->bytes.size - at - OFFSET_BYTES) / item_bytes) {
        fail(table->file, "a list is longer than the file", at);
        return (kiln_flat_vector){0};
    }
    return (kiln_flat_vector){table->file, at + OFFSET_BYTES, count};
}

/* ---- items ----------------------------------------------------------------------------------- */

kiln_str kiln_flat_bytes(const kiln_flat_vector *vector) {
    if (!vector->file) return KILN_STR("");
    return (kiln_str){vector->file->bytes.data + vector->at, vector->count};
}

kiln_str kiln_flat_text(const kiln_flat_table *table, uint32_t field) {
    const kiln_flat_vector text = kiln_flat_items(table, field, 1);
    return kiln_flat_bytes(&text);
}

int64_t kiln_flat_item_int(const kiln_flat_vector *vector, uint32_t index, size_t size) {
    KILN_CHECK(index < vector->count);
    return load_signed(vector->file, vector->at + index * size, size);
}

double kiln_flat_item_float(const kiln_flat_vector *vector, uint32_t index) {
    KILN_CHECK(index < vector->count);
    return load_float(vector->file, vector->at + index * sizeof(float));
}

kiln_flat_table kiln_flat_item_table(const kiln_flat_vector *vector, uint32_t index) {
    size_t at;
    KILN_CHECK(index < vector->count);
    if (vector->file->bad || !follow(vector->file, vector->at + (size_t)index * OFFSET_BYTES, &at))
        return (kiln_flat_table){0};
    return table_at(vector->file, at);
}
