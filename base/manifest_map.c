#include "base/manifest_map.h"

#include "base/layout.h"

#define UNIT_BYTES 16u /* a multiple of it are offset, strides and the rows of boxes */
#define SIZE_END (UINT64_C(1) << 32)
#define STRIDE_END (UINT64_C(1) << 40)

enum { FIELD_COUNT = 7 }; /* as kiln_manifest_map_write has them */

void kiln_manifest_map_write(const kiln_manifest_map *map, kiln_strbuf *out) {
    kiln_mpack_write_array(out, FIELD_COUNT);
    kiln_mpack_write_u64(out, map->arg);
    kiln_mpack_write_u64(out, map->offset_bytes);
    kiln_mpack_write_u64(out, map->dtype);
    kiln_mpack_write_array(out, map->rank);
    for (uint32_t d = 0; d < map->rank; d++) kiln_mpack_write_u64(out, map->size[d]);
    kiln_mpack_write_array(out, map->rank);
    for (uint32_t d = 0; d < map->rank; d++) kiln_mpack_write_u64(out, map->stride_bytes[d]);
    kiln_mpack_write_array(out, map->rank);
    for (uint32_t d = 0; d < map->rank; d++) kiln_mpack_write_u64(out, map->box[d]);
    kiln_mpack_write_bool(out, map->is_permuted);
}

/* An array of `rank` numbers. */
static kiln_status read_numbers(kiln_mpack_reader *r, uint32_t rank, uint64_t *out) {
    kiln_status st = kiln_mpack_read_array_of(r, rank);
    for (uint32_t d = 0; d < rank && !st; d++) st = kiln_mpack_read_u64(r, &out[d]);
    return st;
}

static kiln_status read_box(kiln_mpack_reader *r, uint32_t rank, uint32_t *out) {
    kiln_status st = kiln_mpack_read_array_of(r, rank);
    for (uint32_t d = 0; d < rank && !st; d++) {
        uint64_t number = 0;
        st = kiln_mpack_read_below(r, UINT64_C(1) << 32, &number);
        out[d] = (uint32_t)number;
    }
    return st;
}

kiln_status kiln_manifest_map_read(kiln_mpack_reader *r, kiln_manifest_map *out_map) {
    kiln_manifest_map map = {0};
    uint64_t arg = 0, dtype = 0;
    kiln_status st = kiln_mpack_read_array_of(r, FIELD_COUNT);
    if (!st) st = kiln_mpack_read_below(r, UINT64_C(1) << 32, &arg);
    if (!st) st = kiln_mpack_read_u64(r, &map.offset_bytes);
    if (!st) st = kiln_mpack_read_below(r, KILN_DTYPE_COUNT, &dtype);
    if (!st) st = kiln_mpack_read_count(r, KILN_MAP_RANK_MAX, "dimensions", &map.rank);
    for (uint32_t d = 0; d < map.rank && !st; d++) st = kiln_mpack_read_u64(r, &map.size[d]);
    if (!st) st = read_numbers(r, map.rank, map.stride_bytes);
    if (!st) st = read_box(r, map.rank, map.box);
    if (!st) st = kiln_mpack_read_bool(r, &map.is_permuted);
    if (st) return st;
    map.arg = (uint32_t)arg;
    map.dtype = (kiln_dtype)dtype;
    *out_map = map;
    return KILN_OK;
}

static kiln_status refuse(uint32_t dimension, const char *what, uint64_t value,
                          const char *wanted) {
    return KILN_ERROR(DATA_LOSS, "dimension %u: %s is %llu, not %s", dimension, what,
                      (unsigned long long)value, wanted);
}

static kiln_status check_dimension(const kiln_manifest_map *map, uint32_t d,
                                   uint32_t element_bytes) {
    const uint64_t stride = map->stride_bytes[d];
    if (map->size[d] == 0 || map->size[d] >= SIZE_END)
        return refuse(d, "the size", map->size[d], "from 1 to 2^32 - 1 elements");
    if (map->box[d] == 0 || map->box[d] > KILN_MAP_BOX_MAX)
        return refuse(d, "the box", map->box[d], "from 1 to 256 elements");
    if (d == 0 && stride != element_bytes)
        return refuse(d, "the stride", stride, "an element's bytes");
    if (d > 0 && (stride == 0 || stride % UNIT_BYTES != 0 || stride >= STRIDE_END))
        return refuse(d, "the stride", stride, "a multiple of 16 bytes below 2^40");
    return KILN_OK;
}

/* Rows of a box are whole units. */
static kiln_status check_row(const kiln_manifest_map *map, uint32_t element_bytes) {
    const uint64_t row_bytes = (uint64_t)map->box[0] * element_bytes;
    if (row_bytes % UNIT_BYTES != 0)
        return refuse(0, "a row of the box", row_bytes, "a multiple of 16 bytes");
    if (map->is_permuted && row_bytes != KILN_MAP_ROW_BYTES)
        return refuse(0, "a row of the box", row_bytes, "128 bytes, which permuted units need");
    return KILN_OK;
}

/* Products of hostile sizes and strides do not fit into 64 bits, so each part is compared with the
 * bytes that are left. */
static kiln_status check_inside(const kiln_manifest_map *map, const kiln_manifest_arg *arg,
                                uint32_t element_bytes) {
    const kiln_shape physical = kiln_layout_physical(&arg->layout, &arg->shape);
    size_t bytes = 0;
    kiln_status st = kiln_shape_bytes(&physical, arg->dtype, &bytes);
    if (st) return st;
    if (map->offset_bytes % UNIT_BYTES != 0)
        return KILN_ERROR(DATA_LOSS, "it begins at byte %llu, not a multiple of 16",
                          (unsigned long long)map->offset_bytes);
    if (bytes < element_bytes || map->offset_bytes > bytes - element_bytes)
        return KILN_ERROR(DATA_LOSS, "it begins at byte %llu of the argument's %zu",
                          (unsigned long long)map->offset_bytes, bytes);
    uint64_t left = bytes - element_bytes - map->offset_bytes; /* to the last element's place */
    for (uint32_t d = 0; d < map->rank; d++) {
        const uint64_t steps = map->size[d] - 1, stride = map->stride_bytes[d];
        if (steps > left / stride)
            return KILN_ERROR(DATA_LOSS,
                              "dimension %u: %llu elements, %llu bytes apart, do not fit into the "
                              "argument's %zu bytes",
                              d, (unsigned long long)map->size[d], (unsigned long long)stride,
                              bytes);
        left -= steps * stride;
    }
    return KILN_OK;
}

kiln_status kiln_manifest_map_check_form(const kiln_manifest_map *map) {
    if (map->dtype == KILN_DTYPE_NONE || map->dtype >= KILN_DTYPE_COUNT)
        return KILN_ERROR(DATA_LOSS, "there is no type %d", (int)map->dtype);
    const uint32_t element_bytes = (uint32_t)kiln_dtype_size(map->dtype);
    if (map->rank == 0 || map->rank > KILN_MAP_RANK_MAX)
        return KILN_ERROR(DATA_LOSS, "%u dimensions; from 1 to %d are allowed", map->rank,
                          KILN_MAP_RANK_MAX);
    kiln_status st = KILN_OK;
    for (uint32_t d = 0; !st && d < map->rank; d++) st = check_dimension(map, d, element_bytes);
    return st ? st : check_row(map, element_bytes);
}

kiln_status kiln_manifest_map_check(const kiln_manifest_map *map, const kiln_manifest_arg *arg) {
    kiln_status st = kiln_manifest_map_check_form(map);
    return st ? st : check_inside(map, arg, (uint32_t)kiln_dtype_size(map->dtype));
}

void kiln_manifest_map_print(const kiln_manifest_map *map, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s from byte %llu size", kiln_dtype_name(map->dtype),
                       (unsigned long long)map->offset_bytes);
    for (uint32_t d = 0; d < map->rank; d++)
        kiln_strbuf_printf(out, "%c%llu", d ? 'x' : ' ', (unsigned long long)map->size[d]);
    if (map->rank > 1) kiln_strbuf_text(out, " stride");
    for (uint32_t d = 1; d < map->rank; d++)
        kiln_strbuf_printf(out, "%c%llu", d > 1 ? ',' : ' ',
                           (unsigned long long)map->stride_bytes[d]);
    kiln_strbuf_text(out, " box");
    for (uint32_t d = 0; d < map->rank; d++)
        kiln_strbuf_printf(out, "%c%u", d ? 'x' : ' ', map->box[d]);
    if (map->is_permuted) kiln_strbuf_text(out, " permuted");
}
