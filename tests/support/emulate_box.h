/* Tensor maps and copies of boxes for the block emulator (PTX ISA, "cp.async.bulk.tensor"; CUDA
 * driver API, cuTensorMapEncodeTiled). */
#ifndef KILN_TESTS_SUPPORT_EMULATE_BOX_H
#define KILN_TESTS_SUPPORT_EMULATE_BOX_H

#include "base/manifest.h"
#include "tests/support/emulate_calls.h"

/* The map of a launch, with the argument at `base`. */
void emulate_map_make(const kiln_manifest_map *map, const void *base, struct emulate_map *out);

/* Calls `copy` for pieces of one box that lies at `to`, `from` NULL: zeros. Returns what is wrong
 * with the copy, or NULL. */
const char *emulate_box_copy(const struct emulate_map *map, char *to, const int *coordinate,
                             void (*copy)(void *context, void *to, const void *from,
                                          unsigned bytes),
                             void *context);

#endif
