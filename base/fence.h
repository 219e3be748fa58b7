/* Names of the fences that contain candidates on boards (base/fences.def). Boards try which hold
 * and report them; trackers and owners of boards may require some. */
#ifndef KILN_BASE_FENCE_H
#define KILN_BASE_FENCE_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

typedef enum kiln_fence {
#define X(name, text, doc) KILN_FENCE_##name,
#include "base/fences.def"
#undef X
    KILN_FENCE_COUNT
} kiln_fence;

/* Sets of fences: a bit per kiln_fence. */
#define KILN_FENCES_ALL ((UINT32_C(1) << KILN_FENCE_COUNT) - 1)

/* Appends the texts of `fences`, in the table's order, separated by commas. */
void kiln_fences_print(uint32_t fences, kiln_strbuf *out);
/* Parses a user's list: texts separated by commas, or "all". INVALID_ARGUMENT: an unknown fence;
 * the text lists all. */
KILN_MUST_USE kiln_status kiln_fences_parse(kiln_str text, uint32_t *out_fences);
/* Parses a peer's list; texts unknown here are skipped. */
uint32_t kiln_fences_known(kiln_str text);

#endif
