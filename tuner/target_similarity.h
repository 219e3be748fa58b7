/* Whether times on one target predict times on another: cores of one architecture share schedule
 * spaces, and so does what a model learns about them; the same holds for GPUs of one vendor and
 * family. */
#ifndef KILN_TUNER_TARGET_SIMILARITY_H
#define KILN_TUNER_TARGET_SIMILARITY_H

#include "base/target.h"

/* A rank; 0: times do not compare, as between architectures, or between an emulator and a
 * processor. Otherwise these count, in this order: like vectors and vector registers, the same
 * core, the same threads; for GPUs like limits of a group, the same device, the same units.
 * Symmetric. */
uint32_t kiln_target_similarity(const kiln_target *a, const kiln_target *b);

#endif
