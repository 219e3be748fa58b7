/* Linking of objects of Thumb code for microcontrollers, floats in vector registers (hard float).
 * Addresses of functions have bit 0 set; instructions of four bytes are two halfwords, the first
 * one lower (Arm v7-M Architecture Reference Manual, A5.1 and A7.7). */
#include "deploy/runtime/relocate_arm.h"

/* bl, b.w: S:I1:I2:imm10:imm11 halfwords, where I1 is not (J1 xor S), and I2 the same of J2. */
#define BRANCH_FIELD 0x2fff07ffu
static bool apply_branch(uint8_t *place, uint64_t address, uint64_t value) {
    const uint64_t distance = (value & ~UINT64_C(1)) - address;
    if (!kiln_relocate_fits(distance, 25)) return false;
    const uint32_t offset = (uint32_t)distance, s = offset >> 24 & 1;
    const uint32_t j1 = (~(offset >> 23) ^ s) & 1, j2 = (~(offset >> 22) ^ s) & 1;
    kiln_relocate_field(place, BRANCH_FIELD,
                        s << 10 | (offset >> 12 & 0x3ff) | j1 << 29 | j2 << 27 |
                            (offset >> 1 & 0x7ff) << 16);
    return true;
}
static int64_t addend_branch(const uint8_t *place) {
    const uint32_t code = kiln_relocate_get32(place), s = code >> 10 & 1;
    const uint32_t i1 = ~(code >> 29 ^ s) & 1, i2 = ~(code >> 27 ^ s) & 1;
    return sign_extended(
        s << 24 | i1 << 23 | i2 << 22 | (code & 0x3ff) << 12 | (code >> 16 & 0x7ff) << 1, 25);
}

/* movw, movt: imm4:i:imm3:imm8. */
#define HALF_FIELD 0x70ff040fu
static void put_half(uint8_t *place, uint32_t half) {
    kiln_relocate_field(place, HALF_FIELD,
                        half >> 12 | (half >> 11 & 1) << 10 | (half >> 8 & 7) << 28 |
                            (half & 0xff) << 16);
}
static uint32_t half_at(const uint8_t *place) {
    const uint32_t code = kiln_relocate_get32(place);
    return (code & 0xf) << 12 | (code >> 10 & 1) << 11 | (code >> 28 & 7) << 8 |
           (code >> 16 & 0xff);
}
KILN_ARM_HALVES(put_half, half_at)

/* ldr.w pc, [pc]; the address. */
static void write_veneer(uint8_t *place, uint64_t target) {
    kiln_relocate_put32(place, 0xf000f8df);
    kiln_relocate_put32(place + 4, (uint32_t)target);
}

static bool attributes_suit(kiln_str bytes) { return kiln_relocate_hard_float(bytes, true); }

static const kiln_relocation_kind relocations[] = {
#define X(name, number, bytes, form) \
    {number, #name, bytes, apply_##form, false, NULL, addend_##form, 0},
#define REFUSED(name, number, reason) {number, #name, 0, NULL, false, reason, NULL, 0},
#include "deploy/runtime/relocations_thumb.def"
#undef X
#undef REFUSED
};

const kiln_object_arch kiln_object_thumb = {
    .arch = KILN_ARCH_THUMB,
    .machine = EM_ARM,
    .name = "Thumb",
    .elf = &kiln_elf_32,
    .addends = false,
    .relocation = relocations,
    .relocation_count = KILN_ARRAY_COUNT(relocations),
    .veneer_bytes = 16,
    .write_veneer = write_veneer,
    .function_bits = 1,
    .trap = 0xde00de00, /* udf #0, twice */
    .flags_mask = EF_ARM_EABIMASK,
    .flags = EF_ARM_EABI_VER5,
    .flags_meaning = "version 5 of the embedded ABI",
    .unused_type = SHT_ARM_EXIDX,
    .attributes_type = SHT_ARM_ATTRIBUTES,
    .attributes_suit = attributes_suit,
    .attributes_meaning = "profile M, floats passed in vector registers (hard float)",
};
