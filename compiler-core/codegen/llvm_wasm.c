#include "compiler-core/codegen/llvm_wasm.h"

#include "base/wasm.h"

/* Of the section "linking" (WebAssembly tool conventions, "Linking"): the table of symbols. */
#define SUBSECTION_SYMBOLS 8u
enum { SYMBOL_FUNCTION, SYMBOL_DATA, SYMBOL_GLOBAL, SYMBOL_SECTION, SYMBOL_TAG, SYMBOL_TABLE };
#define SYMBOL_LOCAL 0x02u
#define SYMBOL_UNDEFINED 0x10u
#define SYMBOL_NAMED 0x40u /* an undefined symbol with an explicit name */

#define MEMORY_SHARED 3u /* and with a maximum */

/* Reads one symbol; where it is a function to export, appends that. */
static uint32_t read_symbol(kiln_wasm_reader *r, kiln_strbuf *exports) {
    const uint8_t kind = kiln_wasm_read_byte(r);
    const uint32_t flags = kiln_wasm_read_u32(r);
    const bool defined = !(flags & SYMBOL_UNDEFINED);
    if (kind == SYMBOL_SECTION || kind == SYMBOL_DATA) {
        if (kind == SYMBOL_DATA) (void)kiln_wasm_read_bytes(r);
        for (uint32_t i = 0; defined && i < (kind == SYMBOL_DATA ? 3u : 1u); i++)
            (void)kiln_wasm_read_u32(r);
        return 0;
    }
    const uint32_t index = kiln_wasm_read_u32(r);
    const kiln_str name = defined || flags & SYMBOL_NAMED ? kiln_wasm_read_bytes(r) : (kiln_str){0};
    if (kind != SYMBOL_FUNCTION || !defined || flags & SYMBOL_LOCAL) return 0;
    kiln_wasm_write_bytes(exports, name);
    kiln_strbuf_char(exports, KILN_WASM_OF_FUNCTION);
    kiln_wasm_write_u32(exports, index);
    return 1;
}

/* The content of an export section; `linking` stands behind the section's name and version. */
static uint32_t read_symbols(kiln_wasm_reader *linking, kiln_strbuf *exports) {
    uint32_t count = 0;
    uint8_t id;
    kiln_str content;
    while (kiln_wasm_read_section(linking, &id, &content)) {
        if (id != SUBSECTION_SYMBOLS) continue;
        kiln_wasm_reader r = {.rest = content};
        for (uint32_t left = kiln_wasm_read_u32(&r); left > 0 && !r.bad; left--)
            count += read_symbol(&r, exports);
        linking->bad |= r.bad;
    }
    return count;
}

static kiln_str find_exports(kiln_str object, bool *out_bad, kiln_strbuf *exports) {
    kiln_wasm_reader r = kiln_wasm_open(object);
    kiln_strbuf list = {0};
    uint8_t id;
    kiln_str content;
    uint32_t count = 0;
    while (kiln_wasm_read_section(&r, &id, &content)) {
        kiln_wasm_reader section = {.rest = content};
        if (id != KILN_WASM_CUSTOM || !kiln_str_is(kiln_wasm_read_bytes(&section), "linking"))
            continue;
        (void)kiln_wasm_read_u32(&section); /* the version */
        count += read_symbols(&section, &list);
        r.bad |= section.bad;
    }
    kiln_wasm_write_u32(exports, count);
    kiln_strbuf_str(exports, kiln_strbuf_view(&list));
    kiln_strbuf_deinit(&list);
    *out_bad = r.bad;
    return kiln_strbuf_view(exports);
}

/* The same imports, with a shared memory. */
static kiln_str share_memory(kiln_str imports, bool *out_bad, kiln_strbuf *out) {
    kiln_wasm_reader r = {.rest = imports};
    const uint32_t count = kiln_wasm_read_u32(&r);
    kiln_wasm_write_u32(out, count);
    for (uint32_t i = 0; i < count && !r.bad; i++) {
        const kiln_wasm_import import = kiln_wasm_read_import(&r);
        kiln_wasm_write_bytes(out, import.module);
        kiln_wasm_write_bytes(out, import.name);
        kiln_strbuf_char(out, (char)import.kind);
        if (import.kind == KILN_WASM_OF_MEMORY) {
            kiln_strbuf_char(out, MEMORY_SHARED);
            kiln_wasm_write_u32(out, 0);
            kiln_wasm_write_u32(out, KILN_WASM_PAGES_MAX);
        } else {
            kiln_strbuf_str(out, import.limits);
        }
    }
    *out_bad |= r.bad;
    return kiln_strbuf_view(out);
}

kiln_status kiln_llvm_wasm_module(kiln_str object, bool shared, kiln_arena *arena,
                                  kiln_str *out_module) {
    kiln_strbuf module = {0}, exports = {0}, imports = {0};
    bool bad = false, has_data = false, is_exported = false;
    const kiln_str list = find_exports(object, &bad, &exports);
    kiln_wasm_reader r = kiln_wasm_open(object);
    uint8_t id;
    kiln_str content;
    kiln_strbuf_str(&module, KILN_STR(KILN_WASM_HEAD));
    while (kiln_wasm_read_section(&r, &id, &content)) {
        if (id == KILN_WASM_CUSTOM) continue;
        has_data |= id == KILN_WASM_DATA;
        if (id > KILN_WASM_EXPORT && !is_exported) {
            kiln_wasm_write_section(&module, KILN_WASM_EXPORT, list);
            is_exported = true;
        }
        if (id == KILN_WASM_IMPORT && shared) content = share_memory(content, &bad, &imports);
        kiln_wasm_write_section(&module, id, content);
    }
    bad |= r.bad || !is_exported;
    kiln_status st = KILN_OK;
    if (bad)
        st = KILN_ERROR(INTERNAL, "LLVM's object for WebAssembly cannot be read");
    else if (has_data)
        st = KILN_ERROR(UNIMPLEMENTED, "a kernel for WebAssembly with data in memory");
    else
        *out_module = kiln_str_copy(arena, kiln_strbuf_view(&module));
    kiln_strbuf_deinit(&module);
    kiln_strbuf_deinit(&exports);
    kiln_strbuf_deinit(&imports);
    return st;
}
