/* Decodes a plan from a module's bytes. Private to the runtime; the public reader is
 * deploy/module.h. */
#ifndef KILN_DEPLOY_MODULE_READ_H
#define KILN_DEPLOY_MODULE_READ_H

#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "deploy/format.h"

/* Splits a file into module and signature block, by the size in its header; checks only the form of
 * the block. `*out_block` is empty without one. DATA_LOSS: the bytes behind the module are no such
 * block. */
KILN_MUST_USE kiln_status kiln_module_split(kiln_str file, kiln_str *out_module,
                                            kiln_str *out_block);

/* Checks every byte and decodes; ignores a signature. Arrays go to `arena`; names,
 * artefacts and constants point into `bytes`, which are aligned to KILN_MODULE_SECTION_ALIGNMENT.
 * `*out_constant_bytes` is the section's size. DATA_LOSS      damaged, cut short, or a plan that
 * kiln_module_plan_check refuses UNIMPLEMENTED  intact, but of another version */
KILN_MUST_USE kiln_status kiln_module_decode(kiln_str bytes, kiln_arena *arena,
                                             kiln_module_sizes *out_sizes,
                                             size_t *out_constant_bytes);

/* Turns INVALID_ARGUMENT, NOT_FOUND and OUT_OF_RANGE into DATA_LOSS: in a file that was checked
 * when it was written such an error means damage. */
KILN_MUST_USE kiln_status kiln_module_damage(kiln_status st);

#endif
