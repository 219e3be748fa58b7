/* Linking of AArch64 objects. */
#include <string.h>

#include "base/macros.h"
#include "deploy/runtime/object_arch.h"

#define PAGE_BITS 12

/* b, bl: 26 bits of words. */
static bool apply_branch26(uint8_t *place, uint64_t address, uint64_t value) {
    uint64_t distance = value - address;
    if (distance % 4 != 0 || !kiln_relocate_fits(distance, 28)) return false;
    kiln_relocate_field(place, 0x03ffffff, (uint32_t)(distance >> 2));
    return true;
}

/* adrp: the distance between pages in 21 bits, of which the lowest two are in another field.
 */
static bool apply_page(uint8_t *place, uint64_t address, uint64_t value) {
    const uint64_t page = ~((UINT64_C(1) << PAGE_BITS) - 1);
    uint64_t distance = (value & page) - (address & page);
    if (!kiln_relocate_fits(distance, 21 + PAGE_BITS)) return false;
    uint32_t pages = (uint32_t)(distance >> PAGE_BITS);
    kiln_relocate_field(place, 0x60ffffe0, (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5);
    return true;
}

/* add and accesses to memory: the address within its page, in units of the access size. */
static bool apply_low(uint8_t *place, uint64_t value, uint32_t unit_bits) {
    uint32_t low = (uint32_t)value & 0xfff;
    if (low & ((1u << unit_bits) - 1)) return false;
    kiln_relocate_field(place, 0x003ffc00, low >> unit_bits << 10);
    return true;
}

static bool apply_low12(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    return apply_low(place, value, 0);
}
static bool apply_low12_of2(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    return apply_low(place, value, 1);
}
static bool apply_low12_of4(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    return apply_low(place, value, 2);
}
static bool apply_low12_of8(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    return apply_low(place, value, 3);
}
static bool apply_low12_of16(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    return apply_low(place, value, 4);
}

/* ldr x16, 8; br x16; the address. x16 is reserved for veneers by the procedure call standard. */
static void write_veneer(uint8_t *place, uint64_t target) {
    kiln_relocate_put32(place, 0x58000050);
    kiln_relocate_put32(place + 4, 0xd61f0200);
    memcpy(place + 8, &target, sizeof target);
}

static const kiln_relocation_kind relocations[] = {
#define X(name, number, bytes, apply) {number, #name, bytes, apply, false, NULL, NULL, 0},
#define REFUSED(name, number, reason) {number, #name, 0, NULL, false, reason, NULL, 0},
#include "deploy/runtime/relocations_aarch64.def"
#undef X
#undef REFUSED
};

const kiln_object_arch kiln_object_aarch64 = {
    .arch = KILN_ARCH_AARCH64,
    .machine = EM_AARCH64,
    .name = "AArch64",
    .elf = &kiln_elf_64,
    .addends = true,
    .relocation = relocations,
    .relocation_count = KILN_ARRAY_COUNT(relocations),
    .veneer_bytes = 16,
    .write_veneer = write_veneer,
    .trap = 0, /* udf #0 */
};
