#include "deploy/runtime/object_arch.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"

/* Objects of all processors here are little-endian, and so are the machines that load them. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the loader copies numbers as they are");

static bool apply_abs64(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    memcpy(place, &value, 8);
    return true;
}

static bool apply_abs32(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    if (value > UINT32_MAX) return false;
    uint32_t written = (uint32_t)value;
    memcpy(place, &written, 4);
    return true;
}

static bool write_signed32(uint8_t *place, uint64_t value) {
    /* In range when sign-extending the low half gives the whole. */
    uint32_t low = (uint32_t)value;
    uint64_t extended = low | (low >> 31 ? ~(uint64_t)UINT32_MAX : 0);
    if (extended != value) return false;
    memcpy(place, &low, 4);
    return true;
}

static bool apply_abs32s(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    return write_signed32(place, value);
}

static bool apply_pc32(uint8_t *place, uint64_t address, uint64_t value) {
    return write_signed32(place, value - address);
}

/* jmp *0(%rip), followed by the address: touches no register at all. */
static void write_veneer_x86_64(uint8_t *place, uint64_t target) {
    static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0};
    memcpy(place, jump, sizeof jump);
    memcpy(place + sizeof jump, &target, 8);
}

static const kiln_relocation_kind relocations_x86_64[] = {
#define X(name, number, bytes, apply, low) {number, #name, bytes, apply, low, NULL},
#define REFUSED(name, number, reason) {number, #name, 0, NULL, false, reason},
#include "deploy/runtime/relocations_x86_64.def"
#undef X
#undef REFUSED
};

static const kiln_object_arch arch_table[] = {
    {KILN_ARCH_X86_64, EM_X86_64, "x86-64", relocations_x86_64,
     KILN_ARRAY_COUNT(relocations_x86_64), 16, write_veneer_x86_64, 0xcc /* int3 */},
};

const kiln_object_arch *kiln_object_arch_find(kiln_arch arch) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(arch_table); i++)
        if (arch_table[i].arch == arch) return &arch_table[i];
    return NULL;
}

const kiln_relocation_kind *kiln_relocation_find(const kiln_object_arch *arch, uint32_t number) {
    for (uint32_t i = 0; i < arch->relocation_count; i++)
        if (arch->relocation[i].number == number) return &arch->relocation[i];
    return NULL;
}
