/* NumPy's .npy files: "\x93NUMPY", version, header length, a Python dictionary as text, raw data
 * (numpy.org, NEP 1). Only little-endian C-order arrays of Kiln's element types are supported. */
#include <string.h>

#include "base/file.h"
#include "base/tensor.h"

#define MAGIC "\x93NUMPY"
#define PREAMBLE_BYTES 10 /* magic, two version bytes, little-endian 16-bit header length */
#define HEADER_ALIGNMENT 64

static const struct {
    kiln_dtype type;
    const char *text;
} descr_table[] = {
    {KILN_F32, "<f4"}, {KILN_F64, "<f8"}, {KILN_F16, "<f2"}, {KILN_I8, "|i1"},
    {KILN_I16, "<i2"}, {KILN_I32, "<i4"}, {KILN_I64, "<i8"}, {KILN_U8, "|u1"},
    {KILN_U16, "<u2"}, {KILN_U32, "<u4"}, {KILN_U64, "<u8"}, {KILN_BOOL, "|b1"},
};

static const char *descr_of(kiln_dtype type) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(descr_table); i++)
        if (descr_table[i].type == type) return descr_table[i].text;
    return NULL;
}

/* Value of `'key':` in the dictionary: the text up to the next top-level comma or the closing
 * brace. */
static bool find_value(kiln_str header, const char *key, kiln_str *out_value) {
    kiln_str rest = kiln_str_trim(header);
    if (!kiln_str_starts(rest, "{") || !kiln_str_ends(rest, "}")) return false;
    rest = kiln_str_slice(rest, 1, rest.size - 1);
    while (rest.size) {
        kiln_str name = kiln_str_trim(kiln_str_cut(&rest, ':'));
        size_t end = 0;
        for (int depth = 0; end < rest.size && (depth > 0 || rest.data[end] != ','); end++)
            depth += rest.data[end] == '(' ? 1 : rest.data[end] == ')' ? -1 : 0;
        kiln_str value = kiln_str_trim(kiln_str_slice(rest, 0, end));
        rest = kiln_str_slice(rest, end + 1, rest.size);
        if (name.size < 2 || !kiln_str_is(kiln_str_slice(name, 1, name.size - 1), key)) continue;
        *out_value = value;
        return true;
    }
    return false;
}

static bool parse_descr(kiln_str value, kiln_dtype *out_type) {
    if (value.size < 2) return false;
    kiln_str text = kiln_str_slice(value, 1, value.size - 1);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(descr_table); i++)
        if (kiln_str_is(text, descr_table[i].text)) {
            *out_type = descr_table[i].type;
            return true;
        }
    return false;
}

/* "()", "(3,)" or "(3, 4)". */
static bool parse_shape(kiln_str value, kiln_shape *out_shape) {
    if (!kiln_str_starts(value, "(") || !kiln_str_ends(value, ")")) return false;
    kiln_str rest = kiln_str_trim(kiln_str_slice(value, 1, value.size - 1));
    kiln_shape shape = {0};
    while (rest.size) {
        if (shape.rank == KILN_RANK_MAX) return false;
        if (!kiln_str_to_i64(kiln_str_trim(kiln_str_cut(&rest, ',')), &shape.dim[shape.rank]))
            return false;
        if (shape.dim[shape.rank++] < 0) return false;
        rest = kiln_str_trim(rest);
    }
    *out_shape = shape;
    return true;
}

static kiln_status parse_file(kiln_str file, kiln_arena *arena, kiln_tensor *out_tensor) {
    if (file.size < PREAMBLE_BYTES || memcmp(file.data, MAGIC, strlen(MAGIC)) != 0)
        return KILN_ERROR(DATA_LOSS, "not a .npy file");
    const uint8_t *byte = (const uint8_t *)file.data;
    if (byte[6] != 1 || byte[7] != 0)
        return KILN_ERROR(UNIMPLEMENTED, ".npy version %u.%u; only 1.0 is read", byte[6], byte[7]);
    size_t header_bytes = (size_t)byte[8] | (size_t)byte[9] << 8;
    kiln_str header = kiln_str_slice(file, PREAMBLE_BYTES, PREAMBLE_BYTES + header_bytes);
    kiln_str data = kiln_str_slice(file, PREAMBLE_BYTES + header_bytes, file.size);
    if (header.size != header_bytes) return KILN_ERROR(DATA_LOSS, "the .npy header is cut off");

    kiln_str descr, order, dims;
    kiln_tensor tensor = {0};
    size_t bytes = 0;
    if (!find_value(header, "descr", &descr) || !find_value(header, "fortran_order", &order) ||
        !find_value(header, "shape", &dims))
        return KILN_ERROR(DATA_LOSS, "the .npy header lacks descr, fortran_order or shape");
    if (!parse_descr(descr, &tensor.dtype))
        return KILN_ERROR(UNIMPLEMENTED, ".npy element type %.*s", KILN_STR_ARG(descr));
    if (!kiln_str_is(order, "False"))
        return KILN_ERROR(UNIMPLEMENTED,
                          ".npy in Fortran order; save it with numpy.ascontiguousarray");
    if (!parse_shape(dims, &tensor.shape))
        return KILN_ERROR(DATA_LOSS, ".npy shape %.*s is not a tuple of at most %d sizes",
                          KILN_STR_ARG(dims), KILN_RANK_MAX);
    kiln_status st = kiln_shape_bytes(&tensor.shape, tensor.dtype, &bytes);
    if (st) return st;
    if (data.size != bytes)
        return KILN_ERROR(DATA_LOSS, ".npy holds %zu bytes of data; its shape needs %zu", data.size,
                          bytes);
    *out_tensor = kiln_tensor_create(arena, tensor.dtype, &tensor.shape);
    if (bytes) memcpy(out_tensor->data, data.data, bytes);
    return KILN_OK;
}

kiln_status kiln_tensor_read_npy(const char *path, kiln_arena *arena, kiln_tensor *out_tensor) {
    kiln_arena scratch = {0};
    kiln_str file;
    kiln_status st = kiln_file_read(path, KILN_TENSOR_BYTES_MAX, &scratch, &file);
    if (!st) st = kiln_status_note(parse_file(file, arena, out_tensor), "reading %s", path);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_tensor_write_npy(const char *path, const kiln_tensor *t) {
    const char *descr = descr_of(t->dtype);
    if (!descr)
        return KILN_ERROR(UNIMPLEMENTED, "writing %s: .npy has no type %s", path,
                          kiln_dtype_name(t->dtype));
    kiln_strbuf header = {0}, file = {0};
    kiln_strbuf_printf(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t i = 0; i < t->shape.rank; i++)
        kiln_strbuf_printf(&header, "%lld%s", (long long)t->shape.dim[i],
                           i + 1 < t->shape.rank ? ", "
                           : t->shape.rank == 1  ? ","
                                                 : "");
    kiln_strbuf_text(&header, "), }");
    while ((PREAMBLE_BYTES + header.size + 1) % HEADER_ALIGNMENT) kiln_strbuf_char(&header, ' ');
    kiln_strbuf_char(&header, '\n');

    uint8_t length[2] = {(uint8_t)(header.size & 255), (uint8_t)(header.size >> 8)};
    kiln_strbuf_append(&file, MAGIC "\1\0", 8);
    kiln_strbuf_append(&file, length, sizeof length);
    kiln_strbuf_str(&file, kiln_strbuf_view(&header));
    kiln_strbuf_append(&file, t->data, kiln_tensor_bytes(t));
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&file), 0644);
    kiln_strbuf_deinit(&header);
    kiln_strbuf_deinit(&file);
    return st;
}
