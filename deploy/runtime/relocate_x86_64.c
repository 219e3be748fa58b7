/* Linking of x86-64 objects. */
#include <string.h>

#include "base/macros.h"
#include "deploy/runtime/object_arch.h"

static bool apply_abs32s(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    if (!kiln_relocate_fits(value, 32)) return false;
    kiln_relocate_put32(place, (uint32_t)value);
    return true;
}

/* jmp *0(%rip), followed by the address: touches no register at all. */
static void write_veneer(uint8_t *place, uint64_t target) {
    static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0};
    memcpy(place, jump, sizeof jump);
    memcpy(place + sizeof jump, &target, 8);
}

static const kiln_relocation_kind relocations[] = {
#define X(name, number, bytes, apply, low) {number, #name, bytes, apply, low, NULL, NULL, 0},
#define REFUSED(name, number, reason) {number, #name, 0, NULL, false, reason, NULL, 0},
#include "deploy/runtime/relocations_x86_64.def"
#undef X
#undef REFUSED
};

const kiln_object_arch kiln_object_x86_64 = {
    .arch = KILN_ARCH_X86_64,
    .machine = EM_X86_64,
    .name = "x86-64",
    .elf = &kiln_elf_64,
    .addends = true,
    .relocation = relocations,
    .relocation_count = KILN_ARRAY_COUNT(relocations),
    .veneer_bytes = 16,
    .write_veneer = write_veneer,
    .trap = 0xcccccccc, /* int3, four times */
};
