#include "base/wasm.h"

#include <string.h>

#define HEAD_BYTES 8u

static kiln_str take(kiln_wasm_reader *r, size_t size) {
    if (r->bad || size > r->rest.size) {
        r->bad = true;
        return (kiln_str){0};
    }
    kiln_str taken = {r->rest.data, size};
    r->rest = kiln_str_slice(r->rest, size, r->rest.size);
    return taken;
}

uint8_t kiln_wasm_read_byte(kiln_wasm_reader *r) {
    kiln_str byte = take(r, 1);
    return byte.size ? (uint8_t)byte.data[0] : 0;
}

uint32_t kiln_wasm_read_u32(kiln_wasm_reader *r) {
    uint64_t value = 0;
    uint8_t byte = 0x80;
    for (uint32_t shift = 0; byte & 0x80 && shift < 35; shift += 7) {
        byte = kiln_wasm_read_byte(r);
        value |= (uint64_t)(byte & 0x7f) << shift;
    }
    if (byte & 0x80 || value > UINT32_MAX) r->bad = true;
    return r->bad ? 0 : (uint32_t)value;
}

kiln_str kiln_wasm_read_bytes(kiln_wasm_reader *r) {
    uint32_t size = kiln_wasm_read_u32(r);
    return take(r, size);
}

bool kiln_wasm_read_section(kiln_wasm_reader *r, uint8_t *out_id, kiln_str *out_content) {
    if (r->bad || r->rest.size == 0) return false;
    *out_id = kiln_wasm_read_byte(r);
    *out_content = kiln_wasm_read_bytes(r);
    return !r->bad;
}

kiln_wasm_reader kiln_wasm_open(kiln_str file) {
    kiln_wasm_reader r = {.rest = file};
    kiln_str head = take(&r, HEAD_BYTES);
    if (head.size && memcmp(head.data, KILN_WASM_HEAD, HEAD_BYTES) != 0) r.bad = true;
    return r;
}

bool kiln_wasm_find_custom(kiln_str file, const char *name, kiln_str *out_content) {
    kiln_wasm_reader r = kiln_wasm_open(file);
    uint8_t id;
    kiln_str content;
    while (kiln_wasm_read_section(&r, &id, &content)) {
        kiln_wasm_reader section = {.rest = content};
        if (id != KILN_WASM_CUSTOM || !kiln_str_is(kiln_wasm_read_bytes(&section), name)) continue;
        *out_content = section.rest;
        return true;
    }
    return false;
}

static void skip_limits(kiln_wasm_reader *r) {
    uint8_t flags = kiln_wasm_read_byte(r);
    (void)kiln_wasm_read_u32(r);
    if (flags & 1) (void)kiln_wasm_read_u32(r);
}

kiln_wasm_import kiln_wasm_read_import(kiln_wasm_reader *r) {
    kiln_wasm_import import = {0};
    import.module = kiln_wasm_read_bytes(r);
    import.name = kiln_wasm_read_bytes(r);
    import.kind = kiln_wasm_read_byte(r);
    const char *from = r->rest.data;
    switch (import.kind) {
    case KILN_WASM_OF_FUNCTION: (void)kiln_wasm_read_u32(r); break;
    case KILN_WASM_OF_TABLE:
        (void)kiln_wasm_read_byte(r);
        skip_limits(r);
        break;
    case KILN_WASM_OF_MEMORY: skip_limits(r); break;
    case KILN_WASM_OF_GLOBAL: (void)take(r, 2); break;
    default: r->bad = true;
    }
    if (!r->bad) import.limits = (kiln_str){from, (size_t)(r->rest.data - from)};
    return import;
}

void kiln_wasm_write_u32(kiln_strbuf *out, uint32_t value) {
    for (; value >= 0x80; value >>= 7) kiln_strbuf_char(out, (char)(value | 0x80));
    kiln_strbuf_char(out, (char)value);
}

void kiln_wasm_write_bytes(kiln_strbuf *out, kiln_str bytes) {
    kiln_wasm_write_u32(out, (uint32_t)bytes.size);
    kiln_strbuf_str(out, bytes);
}

void kiln_wasm_write_section(kiln_strbuf *out, uint8_t id, kiln_str content) {
    kiln_strbuf_char(out, (char)id);
    kiln_wasm_write_bytes(out, content);
}
