/* Artefacts of a vta with a program that a test writes as text. */
#ifndef KILN_TESTS_SUPPORT_VTA_ARTEFACT_H
#define KILN_TESTS_SUPPORT_VTA_ARTEFACT_H

#include "base/arena.h"
#include "base/str.h"

/* Its bytes, in `arena`: one launch with `arg_count` arguments, one or two, of `elements` bytes,
 * the last of which is written. The program need not be right. */
kiln_str vta_artefact_encode(const char *target, const char *program, uint32_t arg_count,
                             int64_t elements, kiln_arena *arena);

#endif
