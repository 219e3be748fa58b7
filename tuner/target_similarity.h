/* Which targets' times say something about another's: cores of one architecture share spaces, and
 * what a model learns of them beside their analytic estimates; so do GPUs of one vendor and family.
 */
#ifndef KILN_TUNER_TARGET_SIMILARITY_H
#define KILN_TUNER_TARGET_SIMILARITY_H

#include "base/target.h"

/* How much, as a rank; 0: nothing. Of another architecture, or an emulator's beside a processor's,
 * they say nothing; then counts, in this order, whether vectors and their registers are alike, the
 * core is the same, and the threads are; of GPUs whether limits of a group, the device and its
 * units are. Symmetric. */
uint32_t kiln_target_similarity(const kiln_target *a, const kiln_target *b);

#endif
