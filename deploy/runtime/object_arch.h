/* The processor-specific part of linking an object: the form of the file, relocation kinds, and the
 * jump stubs (veneers) to functions of the host at any distance. Private to the loader. A new
 * processor is a row in object_arch.c, a file relocate_*.c and a table of its relocations. */
#ifndef KILN_DEPLOY_OBJECT_ARCH_H
#define KILN_DEPLOY_OBJECT_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/target.h"
#include "deploy/runtime/elf_read.h"

/* Writes the value of a relocation. `place` is where it is written, `address` the address that
 * `place` will run at, `value` symbol + addend. False: it does not fit. */
typedef bool (*kiln_relocation_apply)(uint8_t *place, uint64_t address, uint64_t value);
/* The addend stored at the place, for relocations without one. */
typedef int64_t (*kiln_relocation_addend)(const uint8_t *place);

typedef struct kiln_relocation_kind {
    uint32_t number;
    const char *name;
    uint32_t byte_count;         /* written at the place */
    kiln_relocation_apply apply; /* NULL: refused */
    bool low;                    /* fits only if all addresses are below 2 GiB */
    const char *reason;          /* why it is refused */
    kiln_relocation_addend addend;
    /* The value is the distance of the relocation with this number at the symbol's place; 0: no
     * such pair. */
    uint32_t high;
} kiln_relocation_kind;

typedef struct kiln_object_arch {
    kiln_arch arch;
    uint16_t machine; /* e_machine */
    const char *name;
    const kiln_elf_class *elf;
    bool addends; /* addends are in the relocations (SHT_RELA); else at their places (SHT_REL) */
    const kiln_relocation_kind *relocation;
    uint32_t relocation_count;
    uint32_t veneer_bytes; /* a multiple of 16 */
    /* Writes code at `place` that jumps to `target` without changing an argument register. */
    void (*write_veneer)(uint8_t *place, uint64_t target);
    uint64_t function_bits; /* set in the address of a function in addition to its place */
    uint32_t trap;          /* an instruction, or four of a byte; fills gaps between functions */
    /* The calling convention of an object: these bits of e_flags must have this value. */
    uint32_t flags_mask, flags;
    const char *flags_meaning;
    /* Types of sections: one that is ignored (0: none), and one with ABI attributes, which must
     * exist and suit. */
    uint32_t unused_type, attributes_type;
    bool (*attributes_suit)(kiln_str bytes);
    const char *attributes_meaning;
} kiln_object_arch;

extern const kiln_object_arch kiln_object_x86_64, kiln_object_aarch64, kiln_object_arm,
    kiln_object_thumb, kiln_object_riscv64;

/* NULL: no linker for that processor yet. */
const kiln_object_arch *kiln_object_arch_find(kiln_arch arch);
/* Row `row`; NULL after the last. */
const kiln_object_arch *kiln_object_arch_at(uint32_t row);
/* NULL: a number that the table does not know. */
const kiln_relocation_kind *kiln_relocation_find(const kiln_object_arch *arch, uint32_t number);

/* ---- for relocate_*.c: numbers in memory, little-endian ----------------------------------------
 */

/* Four bytes at any alignment. */
uint32_t kiln_relocate_get32(const uint8_t *place);
void kiln_relocate_put32(uint8_t *place, uint32_t value);
/* Replaces the bits of `mask` of the instruction at `place`. */
void kiln_relocate_field(uint8_t *place, uint32_t mask, uint32_t bits);
/* Whether `value` is a signed number of so many bits. */
bool kiln_relocate_fits(uint64_t value, uint32_t bits);

/* Data relocations, the same on all processors: the address in 64 or 32 bits, and the distance from
 * the place in 32. */
bool kiln_relocate_abs64(uint8_t *place, uint64_t address, uint64_t value);
bool kiln_relocate_abs32(uint8_t *place, uint64_t address, uint64_t value);
bool kiln_relocate_pc32(uint8_t *place, uint64_t address, uint64_t value);

#endif
