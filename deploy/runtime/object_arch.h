/* What differs between processors when an object is linked: relocation kinds and the jump stubs
 * (veneers) that reach functions of the host from anywhere. Private to the loader. A new processor is a
 * row in object_arch.c and a file of its relocations beside relocations_x86_64.def. */
#ifndef KILN_DEPLOY_OBJECT_ARCH_H
#define KILN_DEPLOY_OBJECT_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/target.h"

/* Writes the value of a relocation. `place` is where it is written, `address` the address that `place`
 * will run at, `value` symbol + addend. False: it does not fit. */
typedef bool (*kiln_relocation_apply)(uint8_t *place, uint64_t address, uint64_t value);

typedef struct kiln_relocation_kind {
    uint32_t number;
    const char *name;
    uint32_t byte_count;         /* written at the place */
    kiln_relocation_apply apply; /* NULL: refused */
    bool low;                    /* fits only when everything lies below 2 GiB */
    const char *reason;          /* why it is refused */
} kiln_relocation_kind;

typedef struct kiln_object_arch {
    kiln_arch arch;
    uint16_t machine; /* e_machine */
    const char *name;
    const kiln_relocation_kind *relocation;
    uint32_t relocation_count;
    uint32_t veneer_bytes; /* a multiple of 16 */
    /* Writes code at `place` that jumps to `target` and changes no register that carries an argument. */
    void (*write_veneer)(uint8_t *place, uint64_t target);
    uint8_t trap; /* fills gaps between functions */
} kiln_object_arch;

/* NULL: no linker for that processor yet. */
const kiln_object_arch *kiln_object_arch_find(kiln_arch arch);
/* NULL: a number that the table does not know. */
const kiln_relocation_kind *kiln_relocation_find(const kiln_object_arch *arch, uint32_t number);

#endif
