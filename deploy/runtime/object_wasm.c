#include "deploy/runtime/object_wasm.h"

#include "base/target.h"
#include "base/wasm.h"
#include "deploy/runtime/services.h"

static bool is_known(const kiln_wasm_import *import) {
    static const struct {
        const char *name;
        uint8_t kind;
    } own[] = {{KILN_WASM_NAME_MEMORY, KILN_WASM_OF_MEMORY},
               {KILN_WASM_NAME_TABLE, KILN_WASM_OF_TABLE},
               {KILN_WASM_NAME_STACK, KILN_WASM_OF_GLOBAL},
               {KILN_WASM_NAME_TABLE_BASE, KILN_WASM_OF_GLOBAL}};
    if (!kiln_str_is(import->module, "env")) return false;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(own); i++)
        if (import->kind == own[i].kind && kiln_str_is(import->name, own[i].name)) return true;
    return import->kind == KILN_WASM_OF_FUNCTION &&
           kiln_service_find(KILN_ARCH_WASM32, import->name) != KILN_SERVICE_NONE;
}

static kiln_status check_imports(kiln_str content) {
    kiln_wasm_reader r = {.rest = content};
    for (uint32_t left = kiln_wasm_read_u32(&r); left > 0 && !r.bad; left--) {
        const kiln_wasm_import import = kiln_wasm_read_import(&r);
        if (!r.bad && !is_known(&import))
            return KILN_ERROR(NOT_FOUND, "a kernel imports %.*s, which is no service",
                              KILN_STR_ARG(import.name));
    }
    return r.bad ? KILN_ERROR(DATA_LOSS, "imports are cut short") : KILN_OK;
}

static bool exports(kiln_str content, const char *entry) {
    kiln_wasm_reader r = {.rest = content};
    bool found = false;
    for (uint32_t left = kiln_wasm_read_u32(&r); left > 0 && !r.bad; left--) {
        const kiln_str name = kiln_wasm_read_bytes(&r);
        const uint8_t kind = kiln_wasm_read_byte(&r);
        (void)kiln_wasm_read_u32(&r);
        found |= kind == KILN_WASM_OF_FUNCTION && kiln_str_is(name, entry);
    }
    return found && !r.bad;
}

kiln_status kiln_object_wasm_check(kiln_str module, const char *const *entries) {
    kiln_wasm_reader r = kiln_wasm_open(module);
    kiln_str content, exported = {0};
    uint8_t id;
    kiln_status st = KILN_OK;
    while (!st && kiln_wasm_read_section(&r, &id, &content)) {
        if (id == KILN_WASM_IMPORT) st = check_imports(content);
        if (id == KILN_WASM_EXPORT) exported = content;
        if (id == KILN_WASM_START || id == KILN_WASM_DATA)
            st = KILN_ERROR(UNIMPLEMENTED, "a kernel with a section %u", id);
    }
    if (st) return st;
    if (r.bad) return KILN_ERROR(DATA_LOSS, "not a module of WebAssembly, or cut short");
    for (; entries && *entries; entries++)
        if (!exports(exported, *entries))
            return KILN_ERROR(NOT_FOUND, "the object has no entry %s", *entries);
    return KILN_OK;
}
