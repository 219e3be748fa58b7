/* Module bytes to plan. Private to the runtime; the public reader is deploy/module.h. */
#ifndef KILN_DEPLOY_MODULE_READ_H
#define KILN_DEPLOY_MODULE_READ_H

#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "deploy/format.h"

/* Where a file's module ends and its signature block begins, by the size in its header; neither is
 * checked but for the block's form. `*out_block` is empty where there is none. DATA_LOSS: what
 * stands behind the module is no such block. */
KILN_MUST_USE kiln_status kiln_module_split(kiln_str file, kiln_str *out_module,
                                            kiln_str *out_block);

/* Checks every byte and decodes; a signature is not looked at. Arrays go to `arena`; names,
 * artefacts and constants point into `bytes`, which are aligned to KILN_MODULE_SECTION_ALIGNMENT.
 * `*out_constant_bytes` is the section's size. DATA_LOSS      damaged, cut short, or a plan that
 * kiln_module_plan_check refuses UNIMPLEMENTED  intact, but of another version */
KILN_MUST_USE kiln_status kiln_module_decode(kiln_str bytes, kiln_arena *arena,
                                             kiln_module_sizes *out_sizes,
                                             size_t *out_constant_bytes);

/* What its makers call a wrong argument, a missing symbol or a number out of range is, in a file
 * that was checked when it was written, damage: such a status becomes DATA_LOSS. */
KILN_MUST_USE kiln_status kiln_module_damage(kiln_status st);

#endif
