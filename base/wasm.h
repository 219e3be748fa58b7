/* The part of WebAssembly's binary format that Kiln reads and writes: a file is a head and
 * sections, a section is a byte, a size and its content. Numbers are LEB128. Source: WebAssembly
 * Core Specification, "Binary Format". Used by code generation, the loader's check and modules. */
#ifndef KILN_BASE_WASM_H
#define KILN_BASE_WASM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define KILN_WASM_HEAD "\0asm\1\0\0\0" /* 8 bytes */
#define KILN_WASM_PAGE_BYTES 65536u
#define KILN_WASM_PAGES_MAX 65536u /* of a memory with addresses of 32 bits */

enum {
    KILN_WASM_CUSTOM = 0,
    KILN_WASM_TYPE = 1,
    KILN_WASM_IMPORT = 2,
    KILN_WASM_MEMORY = 5,
    KILN_WASM_EXPORT = 7,
    KILN_WASM_START = 8,
    KILN_WASM_CODE = 10,
    KILN_WASM_DATA = 11,
};

/* What is imported or exported. */
enum { KILN_WASM_OF_FUNCTION, KILN_WASM_OF_TABLE, KILN_WASM_OF_MEMORY, KILN_WASM_OF_GLOBAL };

/* LLVM's names of imports from the module "env". */
#define KILN_WASM_NAME_MEMORY "__linear_memory"
#define KILN_WASM_NAME_TABLE "__indirect_function_table"
#define KILN_WASM_NAME_STACK "__stack_pointer"
#define KILN_WASM_NAME_TABLE_BASE "__table_base"

/* Reads a view from its front. A read beyond its end returns 0 or nothing, and sets `bad` for good.
 */
typedef struct kiln_wasm_reader {
    kiln_str rest;
    bool bad;
} kiln_wasm_reader;

uint8_t kiln_wasm_read_byte(kiln_wasm_reader *r);
uint32_t kiln_wasm_read_u32(kiln_wasm_reader *r);
/* Reads a size and that many bytes: names, contents. */
kiln_str kiln_wasm_read_bytes(kiln_wasm_reader *r);
/* False at the end, or where `r` became bad. */
bool kiln_wasm_read_section(kiln_wasm_reader *r, uint8_t *out_id, kiln_str *out_content);
/* Reads the head; a file that does not begin with it is bad. */
kiln_wasm_reader kiln_wasm_open(kiln_str file);

/* The content of the first custom section of that name in a file; false: there is none. */
bool kiln_wasm_find_custom(kiln_str file, const char *name, kiln_str *out_content);

/* One entry of an import section. `limits`: the bytes after its kind, which give the type. */
typedef struct kiln_wasm_import {
    kiln_str module, name, limits;
    uint8_t kind;
} kiln_wasm_import;
kiln_wasm_import kiln_wasm_read_import(kiln_wasm_reader *r);

/* Each appends to `out`. */
void kiln_wasm_write_u32(kiln_strbuf *out, uint32_t value);
void kiln_wasm_write_bytes(kiln_strbuf *out, kiln_str bytes);
void kiln_wasm_write_section(kiln_strbuf *out, uint8_t id, kiln_str content);

#endif
