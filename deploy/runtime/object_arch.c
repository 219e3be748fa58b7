#include "deploy/runtime/object_arch.h"

#include <string.h>

#include "base/macros.h"

/* Objects of all processors here are little-endian, and so are the machines that load them. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the loader copies numbers as they are");

static const kiln_object_arch *const arch_table[] = {
    &kiln_object_x86_64, &kiln_object_aarch64, &kiln_object_arm,
    &kiln_object_thumb,  &kiln_object_riscv64,
};

const kiln_object_arch *kiln_object_arch_at(uint32_t row) {
    return row < KILN_ARRAY_COUNT(arch_table) ? arch_table[row] : NULL;
}

const kiln_object_arch *kiln_object_arch_find(kiln_arch arch) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(arch_table); i++)
        if (arch_table[i]->arch == arch) return arch_table[i];
    return NULL;
}

const kiln_relocation_kind *kiln_relocation_find(const kiln_object_arch *arch, uint32_t number) {
    for (uint32_t i = 0; i < arch->relocation_count; i++)
        if (arch->relocation[i].number == number) return &arch->relocation[i];
    return NULL;
}

uint32_t kiln_relocate_get32(const uint8_t *place) {
    uint32_t value;
    memcpy(&value, place, sizeof value);
    return value;
}

void kiln_relocate_put32(uint8_t *place, uint32_t value) { memcpy(place, &value, sizeof value); }

void kiln_relocate_field(uint8_t *place, uint32_t mask, uint32_t bits) {
    kiln_relocate_put32(place, (kiln_relocate_get32(place) & ~mask) | (bits & mask));
}

/* After adding half the range, a number that fits has no bits above. */
bool kiln_relocate_fits(uint64_t value, uint32_t bits) {
    return (value + (UINT64_C(1) << (bits - 1))) >> bits == 0;
}

bool kiln_relocate_abs64(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    memcpy(place, &value, sizeof value);
    return true;
}

bool kiln_relocate_abs32(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {
    if (value > UINT32_MAX) return false;
    kiln_relocate_put32(place, (uint32_t)value);
    return true;
}

bool kiln_relocate_pc32(uint8_t *place, uint64_t address, uint64_t value) {
    uint64_t distance = value - address;
    if (!kiln_relocate_fits(distance, 32)) return false;
    kiln_relocate_put32(place, (uint32_t)distance);
    return true;
}
