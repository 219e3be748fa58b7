/* In-memory linker of relocatable ELF objects, as docs/reference/object.md defines them: code and
 * read-only data, no undefined symbol other than those of kernel_services.def. Used by boards,
 * modules and (the check alone) by builders, which find link errors before a board gets the object.
 * Needs no linker program, no file and no dlopen, and works in static binaries.
 *
 * Every byte of an object is hostile: all functions are safe on any input. Calling a loaded object
 * is not safe: run untrusted objects in a contained process. */
#ifndef KILN_DEPLOY_LOAD_H
#define KILN_DEPLOY_LOAD_H

#include <stddef.h>

#include "base/kernel_abi.h"
#include "base/status.h"
#include "base/str.h"
#include "base/target.h"

#define KILN_OBJECT_BYTES_MAX ((size_t)32 << 20) /* of the file */
#define KILN_OBJECT_SECTIONS_MAX 4096u           /* in the section table */
#define KILN_OBJECT_SYMBOLS_MAX 65536u           /* in the symbol table */
#define KILN_OBJECT_ALIGNMENT_MAX 4096u          /* of one section */

typedef struct kiln_object kiln_object;

/* Does all checks of loading without mapping, for code of any `arch`, and looks for global
 * functions named in `entries` (NULL-terminated; may be NULL).
 *
 * DATA_LOSS      not an ELF file, cut short, or an offset, index or size in it points outside
 * UNIMPLEMENTED  well-formed but outside the contract (machine, section, symbol or relocation
 *                kind); the message names it
 * NOT_FOUND      an undefined symbol that is not in kernel_services.def, or a missing entry
 * OUT_OF_RANGE   one of the limits above */
KILN_MUST_USE kiln_status kiln_object_check(kiln_str bytes, kiln_arch arch,
                                            const char *const *entries);

/* Maps code for this machine into memory that is never writable and executable at once; `bytes` is
 * not needed afterwards. Errors as above, and RESOURCE_EXHAUSTED when the system refuses the
 * mapping. */
KILN_MUST_USE kiln_status kiln_object_load(kiln_str bytes, kiln_object **out_object);

/* A defined global function; NULL when there is none with that name. Valid until unload. */
kiln_kernel_entry kiln_object_find(const kiln_object *object, const char *name);

/* Where its code begins. */
const void *kiln_object_code(const kiln_object *object);
/* Bytes of code and of read-only data, padding included. */
size_t kiln_object_code_bytes(const kiln_object *object);
size_t kiln_object_data_bytes(const kiln_object *object);

/* Accepts NULL. No thread may be inside the code. */
void kiln_object_unload(kiln_object *object);

/* The architecture this process runs on. */
kiln_arch kiln_object_host_arch(void);

#endif
