/* Linking of ARM objects: ARM instructions (not Thumb), floats in vector registers (hard float). */
#include "deploy/runtime/relocate_arm.h"

/* b, bl: 24 bits of words. The addend accounts for the program counter, which is two instructions
 * ahead. */
static bool apply_branch24(uint8_t *place, uint64_t address, uint64_t value) {
    uint64_t distance = value - address;
    if (distance % 4 != 0 || !kiln_relocate_fits(distance, 26)) return false;
    kiln_relocate_field(place, 0x00ffffff, (uint32_t)(distance >> 2));
    return true;
}
static int64_t addend_branch24(const uint8_t *place) {
    return sign_extended(kiln_relocate_get32(place), 24) * 4;
}

/* movw, movt: 16 bits, of which the highest four are in another field. */
static void put_half(uint8_t *place, uint32_t half) {
    kiln_relocate_field(place, 0x000f0fff, half >> 12 << 16 | (half & 0xfff));
}
static uint32_t half_at(const uint8_t *place) {
    const uint32_t instruction = kiln_relocate_get32(place);
    return (instruction >> 16 & 0xf) << 12 | (instruction & 0xfff);
}
KILN_ARM_HALVES(put_half, half_at)

/* ldr pc, [pc, #-4]; the address, which may be one of Thumb code. */
static void write_veneer(uint8_t *place, uint64_t target) {
    kiln_relocate_put32(place, 0xe51ff004);
    kiln_relocate_put32(place + 4, (uint32_t)target);
}

/* ---- build attributes (Addenda to the ABI for the Arm Architecture, section 3) --------------- */

#define TAG_FILE 1
#define TAG_CPU_RAW_NAME 4
#define TAG_CPU_NAME 5
#define TAG_PROFILE 7
#define TAG_VFP_ARGS 28
#define TAG_COMPATIBILITY 32
#define VFP_ARGS_IN_REGISTERS 1
#define PROFILE_MICRO 'M'

static uint32_t take_number(kiln_str *rest) { /* ULEB128 */
    uint32_t value = 0;
    for (uint32_t shift = 0; rest->size; shift += 7) {
        uint8_t byte = (uint8_t)rest->data[0];
        *rest = kiln_str_slice(*rest, 1, rest->size);
        if (shift < 28) value |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) break;
    }
    return value;
}

static void take_text(kiln_str *rest) { (void)kiln_str_cut(rest, '\0'); }

/* The value of the tag `wanted` in a list; 0: none. */
static uint32_t find_number(kiln_str list, uint32_t wanted) {
    while (list.size) {
        uint32_t tag = take_number(&list);
        bool is_text = tag == TAG_CPU_RAW_NAME || tag == TAG_CPU_NAME ||
                       (tag > TAG_COMPATIBILITY && tag % 2 == 1);
        uint32_t value = is_text ? 0 : take_number(&list);
        if (is_text || tag == TAG_COMPATIBILITY) take_text(&list);
        if (tag == wanted) return value;
    }
    return 0;
}

/* 'A', then one part per vendor: length, name; of "aeabi" one list per scope: tag, length. */
static kiln_str file_list(kiln_str bytes) {
    if (bytes.size < 5 || bytes.data[0] != 'A') return (kiln_str){0};
    kiln_str part = kiln_str_slice(bytes, 1, bytes.size);
    uint32_t part_bytes = kiln_relocate_get32((const uint8_t *)part.data);
    if (part_bytes < 4 || part_bytes > part.size) return (kiln_str){0};
    kiln_str rest = kiln_str_slice(part, 4, part_bytes);
    if (!kiln_str_is(kiln_str_cut(&rest, '\0'), "aeabi") || rest.size < 5 ||
        rest.data[0] != TAG_FILE)
        return (kiln_str){0};
    uint32_t list_bytes = kiln_relocate_get32((const uint8_t *)rest.data + 1);
    if (list_bytes < 5 || list_bytes > rest.size) return (kiln_str){0};
    return kiln_str_slice(rest, 5, list_bytes);
}

bool kiln_relocate_hard_float(kiln_str bytes, bool is_micro) {
    const kiln_str list = file_list(bytes);
    return find_number(list, TAG_VFP_ARGS) == VFP_ARGS_IN_REGISTERS &&
           (find_number(list, TAG_PROFILE) == PROFILE_MICRO) == is_micro;
}

static bool attributes_suit(kiln_str bytes) { return kiln_relocate_hard_float(bytes, false); }

static const kiln_relocation_kind relocations[] = {
#define X(name, number, bytes, form) \
    {number, #name, bytes, apply_##form, false, NULL, addend_##form, 0},
#define REFUSED(name, number, reason) {number, #name, 0, NULL, false, reason, NULL, 0},
#include "deploy/runtime/relocations_arm.def"
#undef X
#undef REFUSED
};

const kiln_object_arch kiln_object_arm = {
    .arch = KILN_ARCH_ARM,
    .machine = EM_ARM,
    .name = "ARM",
    .elf = &kiln_elf_32,
    .addends = false,
    .relocation = relocations,
    .relocation_count = KILN_ARRAY_COUNT(relocations),
    .veneer_bytes = 16,
    .write_veneer = write_veneer,
    .trap = 0xe7f000f0, /* udf #0 */
    .flags_mask = EF_ARM_EABIMASK,
    .flags = EF_ARM_EABI_VER5,
    .flags_meaning = "version 5 of the embedded ABI",
    .unused_type = SHT_ARM_EXIDX,
    .attributes_type = SHT_ARM_ATTRIBUTES,
    .attributes_suit = attributes_suit,
    .attributes_meaning = "floats passed in vector registers (hard float)",
};
