#include "base/mpack.h"

#include <msgpack/pack.h>
#include <string.h>

static int append(void *buffer, const char *data, size_t size) {
    kiln_strbuf_append(buffer, data, size);
    return 0;
}

static msgpack_packer packer_of(kiln_strbuf *out) {
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, append);
    return packer;
}

void kiln_mpack_write_nil(kiln_strbuf *out) {
    msgpack_packer packer = packer_of(out);
    msgpack_pack_nil(&packer);
}

void kiln_mpack_write_bool(kiln_strbuf *out, bool value) {
    msgpack_packer packer = packer_of(out);
    if (value)
        msgpack_pack_true(&packer);
    else
        msgpack_pack_false(&packer);
}

void kiln_mpack_write_u64(kiln_strbuf *out, uint64_t value) {
    msgpack_packer packer = packer_of(out);
    msgpack_pack_uint64(&packer, value);
}

void kiln_mpack_write_i64(kiln_strbuf *out, int64_t value) {
    msgpack_packer packer = packer_of(out);
    msgpack_pack_int64(&packer, value);
}

void kiln_mpack_write_f64(kiln_strbuf *out, double value) {
    msgpack_packer packer = packer_of(out);
    msgpack_pack_double(&packer, value);
}

void kiln_mpack_write_str(kiln_strbuf *out, kiln_str value) {
    msgpack_packer packer = packer_of(out);
    msgpack_pack_str(&packer, value.size);
    msgpack_pack_str_body(&packer, value.data, value.size);
}

void kiln_mpack_write_bin(kiln_strbuf *out, const void *data, size_t size) {
    msgpack_packer packer = packer_of(out);
    msgpack_pack_bin(&packer, size);
    msgpack_pack_bin_body(&packer, data, size);
}

void kiln_mpack_write_array(kiln_strbuf *out, uint32_t count) {
    msgpack_packer packer = packer_of(out);
    msgpack_pack_array(&packer, count);
}

void kiln_mpack_write_map(kiln_strbuf *out, uint32_t count) {
    msgpack_packer packer = packer_of(out);
    msgpack_pack_map(&packer, count);
}

/* First bytes from 0xc0 to 0xdf, each with its kind and the bytes of the number that follows: a
 * value, a length or a count (github.com/msgpack/msgpack, spec.md). All other first bytes carry
 * their number inside. */
typedef enum number_form { NONE, UNSIGNED, SIGNED, REAL } number_form;

static const struct {
    kiln_mpack_kind kind;
    number_form form;
    uint8_t bytes;
} first_byte[32] = {
    [0x00] = {KILN_MPACK_NIL, NONE, 0},       [0x01] = {KILN_MPACK_BAD, NONE, 0},
    [0x02] = {KILN_MPACK_BOOL, NONE, 0},      [0x03] = {KILN_MPACK_BOOL, NONE, 0},
    [0x04] = {KILN_MPACK_BIN, UNSIGNED, 1},   [0x05] = {KILN_MPACK_BIN, UNSIGNED, 2},
    [0x06] = {KILN_MPACK_BIN, UNSIGNED, 4},   [0x07] = {KILN_MPACK_BAD, NONE, 0},
    [0x08] = {KILN_MPACK_BAD, NONE, 0},       [0x09] = {KILN_MPACK_BAD, NONE, 0},
    [0x0a] = {KILN_MPACK_FLOAT, REAL, 4},     [0x0b] = {KILN_MPACK_FLOAT, REAL, 8},
    [0x0c] = {KILN_MPACK_INT, UNSIGNED, 1},   [0x0d] = {KILN_MPACK_INT, UNSIGNED, 2},
    [0x0e] = {KILN_MPACK_INT, UNSIGNED, 4},   [0x0f] = {KILN_MPACK_INT, UNSIGNED, 8},
    [0x10] = {KILN_MPACK_INT, SIGNED, 1},     [0x11] = {KILN_MPACK_INT, SIGNED, 2},
    [0x12] = {KILN_MPACK_INT, SIGNED, 4},     [0x13] = {KILN_MPACK_INT, SIGNED, 8},
    [0x14] = {KILN_MPACK_BAD, NONE, 0},       [0x15] = {KILN_MPACK_BAD, NONE, 0},
    [0x16] = {KILN_MPACK_BAD, NONE, 0},       [0x17] = {KILN_MPACK_BAD, NONE, 0},
    [0x18] = {KILN_MPACK_BAD, NONE, 0},       [0x19] = {KILN_MPACK_STR, UNSIGNED, 1},
    [0x1a] = {KILN_MPACK_STR, UNSIGNED, 2},   [0x1b] = {KILN_MPACK_STR, UNSIGNED, 4},
    [0x1c] = {KILN_MPACK_ARRAY, UNSIGNED, 2}, [0x1d] = {KILN_MPACK_ARRAY, UNSIGNED, 4},
    [0x1e] = {KILN_MPACK_MAP, UNSIGNED, 2},   [0x1f] = {KILN_MPACK_MAP, UNSIGNED, 4},
};

/* The head of the next value. */
typedef struct head {
    kiln_mpack_kind kind;
    number_form form;
    uint64_t number; /* value bits (signed ones extended), length or count */
    size_t bytes;    /* of the head itself; a string's or binary's content follows */
} head;

static head inline_head(uint8_t byte) {
    if (byte < 0x80) return (head){KILN_MPACK_INT, UNSIGNED, byte, 1};
    if (byte < 0x90) return (head){KILN_MPACK_MAP, UNSIGNED, byte & 15u, 1};
    if (byte < 0xa0) return (head){KILN_MPACK_ARRAY, UNSIGNED, byte & 15u, 1};
    if (byte < 0xc0) return (head){KILN_MPACK_STR, UNSIGNED, byte & 31u, 1};
    return (head){KILN_MPACK_INT, SIGNED, (uint64_t)(int64_t)(int8_t)byte, 1};
}

/* Reads the head. The kind is END if its number is cut off. */
static head read_head(const kiln_mpack_reader *r) {
    if (r->offset >= r->size) return (head){.kind = KILN_MPACK_END};
    uint8_t byte = r->data[r->offset];
    if (byte < 0xc0 || byte >= 0xe0) return inline_head(byte);
    head h = {first_byte[byte & 31].kind, first_byte[byte & 31].form, byte & 1, 1};
    size_t bytes = first_byte[byte & 31].bytes;
    if (h.form == NONE) return h;
    if (r->size - r->offset - 1 < bytes) return (head){.kind = KILN_MPACK_END};
    h.number = 0;
    for (size_t i = 0; i < bytes; i++) h.number = h.number << 8 | r->data[r->offset + 1 + i];
    if (h.form == SIGNED && bytes < 8) {
        uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
        h.number = (h.number ^ sign) - sign;
    }
    h.bytes = 1 + bytes;
    return h;
}

void kiln_mpack_reader_init(kiln_mpack_reader *r, const void *data, size_t size) {
    *r = (kiln_mpack_reader){.data = data, .size = size};
}

kiln_mpack_kind kiln_mpack_peek(const kiln_mpack_reader *r) {
    if (r->offset >= r->size) return KILN_MPACK_END;
    uint8_t byte = r->data[r->offset];
    return byte < 0xc0 || byte >= 0xe0 ? inline_head(byte).kind : first_byte[byte & 31].kind;
}

static const char *kind_name(kiln_mpack_kind kind) {
    static const char *const name[] = {
        [KILN_MPACK_END] = "the end",     [KILN_MPACK_NIL] = "nil",
        [KILN_MPACK_BOOL] = "a bool",     [KILN_MPACK_INT] = "an integer",
        [KILN_MPACK_FLOAT] = "a float",   [KILN_MPACK_STR] = "a string",
        [KILN_MPACK_BIN] = "binary data", [KILN_MPACK_ARRAY] = "an array",
        [KILN_MPACK_MAP] = "a map",       [KILN_MPACK_BAD] = "an unknown byte",
    };
    return name[kind];
}

static kiln_status unexpected(const kiln_mpack_reader *r, kiln_mpack_kind wanted, const head *h) {
    return KILN_ERROR(DATA_LOSS, "wanted %s at byte %zu, found %s", kind_name(wanted), r->offset,
                      kind_name(h->kind));
}

static kiln_status does_not_fit(const kiln_mpack_reader *r, const char *what) {
    return KILN_ERROR(DATA_LOSS, "%s at byte %zu does not fit", what, r->offset);
}

kiln_status kiln_mpack_read_bool(kiln_mpack_reader *r, bool *out) {
    head h = read_head(r);
    if (h.kind != KILN_MPACK_BOOL) return unexpected(r, KILN_MPACK_BOOL, &h);
    *out = h.number != 0;
    r->offset += h.bytes;
    return KILN_OK;
}

static bool is_negative(const head *h) { return h->form == SIGNED && (int64_t)h->number < 0; }

kiln_status kiln_mpack_read_u64(kiln_mpack_reader *r, uint64_t *out) {
    head h = read_head(r);
    if (h.kind != KILN_MPACK_INT) return unexpected(r, KILN_MPACK_INT, &h);
    if (is_negative(&h)) return does_not_fit(r, "a negative integer");
    *out = h.number;
    r->offset += h.bytes;
    return KILN_OK;
}

kiln_status kiln_mpack_read_i64(kiln_mpack_reader *r, int64_t *out) {
    head h = read_head(r);
    if (h.kind != KILN_MPACK_INT) return unexpected(r, KILN_MPACK_INT, &h);
    if (h.form == UNSIGNED && h.number > INT64_MAX) return does_not_fit(r, "an integer");
    *out = (int64_t)h.number;
    r->offset += h.bytes;
    return KILN_OK;
}

/* The bits of a float32 or float64. */
static double real_of(const head *h) {
    if (h->bytes == 1 + sizeof(float)) {
        float narrow;
        uint32_t bits = (uint32_t)h->number;
        memcpy(&narrow, &bits, sizeof narrow);
        return (double)narrow;
    }
    double wide;
    memcpy(&wide, &h->number, sizeof wide);
    return wide;
}

kiln_status kiln_mpack_read_f64(kiln_mpack_reader *r, double *out) {
    head h = read_head(r);
    if (h.kind == KILN_MPACK_FLOAT)
        *out = real_of(&h);
    else if (h.kind == KILN_MPACK_INT)
        *out = is_negative(&h) ? (double)(int64_t)h.number : (double)h.number;
    else
        return unexpected(r, KILN_MPACK_FLOAT, &h);
    r->offset += h.bytes;
    return KILN_OK;
}

static size_t bytes_left_after(const kiln_mpack_reader *r, const head *h) {
    return r->size - r->offset - h->bytes;
}

static kiln_status read_bytes(kiln_mpack_reader *r, kiln_mpack_kind kind, kiln_str *out) {
    head h = read_head(r);
    if (h.kind != kind) return unexpected(r, kind, &h);
    if (h.number > bytes_left_after(r, &h)) return does_not_fit(r, kind_name(kind));
    *out = (kiln_str){(const char *)r->data + r->offset + h.bytes, (size_t)h.number};
    r->offset += h.bytes + (size_t)h.number;
    return KILN_OK;
}

kiln_status kiln_mpack_read_str(kiln_mpack_reader *r, kiln_str *out) {
    return read_bytes(r, KILN_MPACK_STR, out);
}

kiln_status kiln_mpack_read_bin(kiln_mpack_reader *r, kiln_str *out) {
    return read_bytes(r, KILN_MPACK_BIN, out);
}

/* Every item takes at least one byte, so a count above the bytes left is wrong. */
static kiln_status read_count(kiln_mpack_reader *r, kiln_mpack_kind kind, uint32_t *out_count) {
    head h = read_head(r);
    if (h.kind != kind) return unexpected(r, kind, &h);
    uint64_t items = kind == KILN_MPACK_MAP ? 2 * h.number : h.number;
    if (items > bytes_left_after(r, &h)) return does_not_fit(r, kind_name(kind));
    *out_count = (uint32_t)h.number;
    r->offset += h.bytes;
    return KILN_OK;
}

kiln_status kiln_mpack_read_array(kiln_mpack_reader *r, uint32_t *out_count) {
    return read_count(r, KILN_MPACK_ARRAY, out_count);
}

kiln_status kiln_mpack_read_map(kiln_mpack_reader *r, uint32_t *out_count) {
    return read_count(r, KILN_MPACK_MAP, out_count);
}

kiln_status kiln_mpack_read_count(kiln_mpack_reader *r, uint32_t max, const char *of,
                                  uint32_t *out_count) {
    uint32_t count = 0;
    kiln_status st = kiln_mpack_read_array(r, &count);
    if (!st && count > max)
        st = KILN_ERROR(DATA_LOSS, "%u %s, at most %u are allowed", count, of, max);
    if (!st) *out_count = count;
    return st;
}

kiln_status kiln_mpack_read_array_of(kiln_mpack_reader *r, uint32_t count) {
    uint32_t found = 0;
    kiln_status st = kiln_mpack_read_array(r, &found);
    return st || found == count ? st : KILN_ERROR(DATA_LOSS, "%u fields of %u", found, count);
}

kiln_status kiln_mpack_read_below(kiln_mpack_reader *r, uint64_t limit, uint64_t *out) {
    uint64_t value = 0;
    kiln_status st = kiln_mpack_read_u64(r, &value);
    if (!st && value >= limit)
        st = KILN_ERROR(DATA_LOSS, "%llu where less than %llu are known", (unsigned long long)value,
                        (unsigned long long)limit);
    if (!st) *out = value;
    return st;
}

static void write_content(kiln_strbuf *out, kiln_str value) {
    kiln_mpack_write_bin(out, value.data, value.size);
}

#define X(name, type, write)                                        \
    void kiln_mpack_code_##name(kiln_mpack_coder *c, type *value) { \
        if (c->out)                                                 \
            write(c->out, *value);                                  \
        else if (!c->st)                                            \
            c->st = kiln_mpack_read_##name(&c->in, value);          \
    }
X(bool, bool, kiln_mpack_write_bool)
X(u64, uint64_t, kiln_mpack_write_u64)
X(i64, int64_t, kiln_mpack_write_i64)
X(f64, double, kiln_mpack_write_f64)
X(str, kiln_str, kiln_mpack_write_str)
X(bin, kiln_str, write_content)
#undef X

void kiln_mpack_code_fields(kiln_mpack_coder *c, uint32_t count) {
    if (c->out)
        kiln_mpack_write_array(c->out, count);
    else if (!c->st)
        c->st = kiln_mpack_read_array_of(&c->in, count);
}

void kiln_mpack_code_count(kiln_mpack_coder *c, uint32_t max, const char *of, uint32_t *count) {
    if (c->out)
        kiln_mpack_write_array(c->out, *count);
    else if (!c->st)
        c->st = kiln_mpack_read_count(&c->in, max, of, count);
}

void kiln_mpack_code_below(kiln_mpack_coder *c, uint64_t limit, uint32_t *value) {
    uint64_t wide = *value;
    if (c->out)
        kiln_mpack_write_u64(c->out, wide);
    else if (!c->st)
        c->st = kiln_mpack_read_below(&c->in, limit, &wide);
    *value = (uint32_t)wide;
}

static kiln_status skip_value(kiln_mpack_reader *r, int depth_left) {
    uint32_t count = 0;
    uint64_t items;
    kiln_str content;
    head h = read_head(r);
    switch (h.kind) {
    case KILN_MPACK_NIL:
    case KILN_MPACK_BOOL:
    case KILN_MPACK_INT:
    case KILN_MPACK_FLOAT: r->offset += h.bytes; return KILN_OK;
    case KILN_MPACK_STR:
    case KILN_MPACK_BIN: return read_bytes(r, h.kind, &content);
    case KILN_MPACK_ARRAY:
    case KILN_MPACK_MAP: {
        if (depth_left == 0)
            return KILN_ERROR(DATA_LOSS, "values at byte %zu are nested deeper than %d", r->offset,
                              KILN_MPACK_DEPTH_MAX);
        kiln_status st = read_count(r, h.kind, &count);
        items = h.kind == KILN_MPACK_MAP ? 2 * (uint64_t)count : count;
        for (uint64_t i = 0; i < items && !st; i++) st = skip_value(r, depth_left - 1);
        return st;
    }
    case KILN_MPACK_END:
    case KILN_MPACK_BAD: break;
    }
    return KILN_ERROR(DATA_LOSS, "wanted a value at byte %zu, found %s", r->offset,
                      kind_name(h.kind));
}

kiln_status kiln_mpack_skip(kiln_mpack_reader *r) {
    kiln_mpack_reader ahead = *r;
    kiln_status st = skip_value(&ahead, KILN_MPACK_DEPTH_MAX);
    if (!st) *r = ahead;
    return st;
}
