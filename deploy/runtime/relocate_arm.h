/* For relocate_arm.c and relocate_thumb.c, which include it once each: relocation forms common to
 * objects of ARM and of Thumb code. */
#ifndef KILN_DEPLOY_RUNTIME_RELOCATE_ARM_H
#define KILN_DEPLOY_RUNTIME_RELOCATE_ARM_H

#include "base/macros.h"
#include "deploy/runtime/object_arch.h"

static int64_t sign_extended(uint32_t value, uint32_t bits) {
    uint32_t sign = UINT32_C(1) << (bits - 1);
    return (int64_t)(value & (2 * sign - 1)) - (value & sign ? 2 * (int64_t)sign : 0);
}

/* ---- whole words ---- */

static bool apply_abs32(uint8_t *place, uint64_t address, uint64_t value) {
    return kiln_relocate_abs32(place, address, value);
}
static bool apply_pc32(uint8_t *place, uint64_t address, uint64_t value) {
    return kiln_relocate_pc32(place, address, value);
}
static int64_t addend_abs32(const uint8_t *place) { return (int32_t)kiln_relocate_get32(place); }
static int64_t addend_pc32(const uint8_t *place) { return (int32_t)kiln_relocate_get32(place); }

/* ---- movw and movt: the lower and the higher half ---- */

/* The forms of both, over the includer's `put` and `get`, which write and read the 16 bits of an
 * instruction: void put(uint8_t *place, uint32_t half), uint32_t get(const uint8_t *place). */
#define KILN_ARM_HALVES(put, get)                                                              \
    static bool apply_movw(uint8_t *place, KILN_UNUSED uint64_t address, uint64_t value) {     \
        put(place, (uint32_t)value & 0xffff);                                                  \
        return true;                                                                           \
    }                                                                                          \
    static bool apply_movt(uint8_t *place, uint64_t address, uint64_t value) {                 \
        return value <= UINT32_MAX && apply_movw(place, address, value >> 16);                 \
    }                                                                                          \
    static bool apply_movw_pc(uint8_t *place, uint64_t address, uint64_t value) {              \
        return apply_movw(place, address, value - address);                                    \
    }                                                                                          \
    static bool apply_movt_pc(uint8_t *place, uint64_t address, uint64_t value) {              \
        return kiln_relocate_fits(value - address, 32) &&                                      \
               apply_movw(place, address, (value - address) >> 16);                            \
    }                                                                                          \
    static int64_t addend_movw(const uint8_t *place) { return sign_extended(get(place), 16); } \
    static int64_t addend_movt(const uint8_t *place) { return addend_movw(place); }            \
    static int64_t addend_movw_pc(const uint8_t *place) { return addend_movw(place); }         \
    static int64_t addend_movt_pc(const uint8_t *place) { return addend_movw(place); }

/* ---- build attributes ---- */

/* Whether they declare floats in registers, and a processor of profile M (is_micro) or another one.
 * In relocate_arm.c. */
bool kiln_relocate_hard_float(kiln_str bytes, bool is_micro);

#endif
