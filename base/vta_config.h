/* The configuration of an accelerator of the VTA class, as text and as numbers: the head of targets
 * of kind vta. Used by base/target_vta.c and by vta/, which has its instructions and simulators.
 *
 *     config  = preset ("," part)* | part ("," part)*, in any order
 *     part    = "b" n "i" n "o" n | "i" n "w" n "a" n | key n | set (("+" | "-") feature)*
 *     set     = "v1" | "v2"
 *
 * Keys are rows of vta_config.def, features of vta_features.def, presets of vta_presets.def. */
#ifndef KILN_BASE_VTA_CONFIG_H
#define KILN_BASE_VTA_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef enum kiln_vta_feature {
#define X(NAME, name, doc) KILN_VTA_##NAME,
#include "base/vta_features.def"
#undef X
    KILN_VTA_FEATURE_COUNT
} kiln_vta_feature;

typedef struct kiln_vta_config {
#define X(field, key, least, most, usual, form, doc) uint32_t field;
#include "base/vta_config.def"
#undef X
    uint32_t features; /* bit per kiln_vta_feature; 0: v1 */
} kiln_vta_config;

/* The machine's memories. */
typedef enum kiln_vta_memory {
    KILN_VTA_UOP, /* numbers are those of instructions */
    KILN_VTA_WGT,
    KILN_VTA_INP,
    KILN_VTA_ACC,
    KILN_VTA_OUT,
    KILN_VTA_ACC_BYTES, /* ACC, from bytes in main memory */
    KILN_VTA_MEMORY_COUNT
} kiln_vta_memory;

/* INVALID_ARGUMENT quotes the part: unknown, given twice, missing, out of range, or too large for
 * the bits of instructions. */
KILN_MUST_USE kiln_status kiln_vta_config_parse(kiln_str text, kiln_vta_config *out_config);
/* The canonical text, every part in the order of the table; parse(print(c)) == c. */
void kiln_vta_config_print(const kiln_vta_config *config, kiln_strbuf *out);
bool kiln_vta_config_has(const kiln_vta_config *config, kiln_vta_feature feature);
/* Appends the first difference, as "bus64, not bus128"; false: none. */
bool kiln_vta_config_differs(const kiln_vta_config *a, const kiln_vta_config *b,
                             kiln_strbuf *out_difference);
/* Bytes of a memory's tile in main memory, where elements below a byte are packed, the first in the
 * lowest bits. */
uint32_t kiln_vta_tile_bytes(const kiln_vta_config *config, kiln_vta_memory memory);
/* Tiles that the memory holds; a power of two. */
uint32_t kiln_vta_tile_count(const kiln_vta_config *config, kiln_vta_memory memory);

#endif
