/* Names of what contains candidates on boards (base/fences.def): boards try which of them hold and
 * tell it, trackers and owners of boards may require some. */
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

/* Appends the texts of `fences`, in the order of the table, with commas between. */
void kiln_fences_print(uint32_t fences, kiln_strbuf *out);
/* What a person asked for: texts with commas between, or "all". INVALID_ARGUMENT: an unknown one;
 * the note names it and those that there are. */
KILN_MUST_USE kiln_status kiln_fences_parse(kiln_str text, uint32_t *out_fences);
/* What a peer told: texts that are unknown here are left out. */
uint32_t kiln_fences_known(kiln_str text);

#endif
