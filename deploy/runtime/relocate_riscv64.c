/* Linking of RISC-V objects: 64 bits, doubles in registers. */
#include <string.h>

#include "base/macros.h"
#include "deploy/runtime/object_arch.h"

/* auipc takes the upper 20 bits of a distance, rounded so that 12 signed bits make up the rest. */
static bool put_high(uint8_t *place, uint64_t distance) {
    if (!kiln_relocate_fits(distance + 0x800, 32)) return false;
    kiln_relocate_field(place, 0xfffff000, (uint32_t)(distance + 0x800));
    return true;
}

static bool apply_high20(uint8_t *place, uint64_t address, uint64_t value) {
    return put_high(place, value - address);
}

/* For these two `value` is the distance. */
static bool apply_low12_load(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    kiln_relocate_field(place, 0xfff00000, (uint32_t)value << 20);
    return true;
}
static bool apply_low12_store(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    uint32_t low = (uint32_t)value & 0xfff;
    kiln_relocate_field(place, 0xfe000f80, low >> 5 << 25 | (low & 0x1f) << 7);
    return true;
}

/* auipc, jalr */
static bool apply_call(uint8_t *place, uint64_t address, uint64_t value) {
    return put_high(place, value - address) && apply_low12_load(place + 4, 0, value - address);
}

/* auipc t1, 0; ld t1, 16(t1); jr t1; nop; the address. t1 carries no argument. */
static void write_veneer(uint8_t *place, uint64_t target) {
    static const uint32_t jump[4] = {0x00000317, 0x01033303, 0x00030067, 0x00000013};
    memcpy(place, jump, sizeof jump);
    memcpy(place + sizeof jump, &target, sizeof target);
}

static const kiln_relocation_kind relocations[] = {
#define X(name, number, bytes, apply) {number, #name, bytes, apply, false, NULL, NULL, 0},
#define LOW_OF(name, number, high, apply) {number, #name, 4, apply, false, NULL, NULL, high},
#define REFUSED(name, number, reason) {number, #name, 0, NULL, false, reason, NULL, 0},
#include "deploy/runtime/relocations_riscv64.def"
#undef X
#undef LOW_OF
#undef REFUSED
};

const kiln_object_arch kiln_object_riscv64 = {
    .arch = KILN_ARCH_RISCV64,
    .machine = EM_RISCV,
    .name = "RISC-V",
    .elf = &kiln_elf_64,
    .addends = true,
    .relocation = relocations,
    .relocation_count = KILN_ARRAY_COUNT(relocations),
    .veneer_bytes = 32,
    .write_veneer = write_veneer,
    .trap = 0, /* all zeros is an illegal instruction */
    .flags_mask = EF_RISCV_FLOAT_ABI_QUAD /* all bits of the floating-point ABI */ | EF_RISCV_RVE,
    .flags = EF_RISCV_FLOAT_ABI_DOUBLE,
    .flags_meaning = "doubles passed in registers (lp64d)",
};
