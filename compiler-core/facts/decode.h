/* Which expressions are determined by the known values of others: a sum whose strides lie far
 * enough apart determines its terms, and quotient and remainder determine the dividend. With it
 * legality proves that an element belongs to one iteration, and lowering that it belongs to one
 * thread.
 *
 * All answers are safe: "no" may mean "not proved". */
#ifndef KILN_COMPILER_CORE_FACTS_DECODE_H
#define KILN_COMPILER_CORE_FACTS_DECODE_H

#include "compiler-core/ir/ir.h"

#define KILN_KNOWN_MAX 128 /* with more, nothing is proved */

/* Whether `term` is unknown at the start: it varies between the compared iterations. */
typedef bool (*kiln_decode_moves)(kiln_program *p, kiln_expr term, const void *context);

typedef struct kiln_decoding {
    kiln_decode_moves moves;
    const void *context;
    uint32_t count;
    struct {
        kiln_expr e;
        uint64_t slack; /* its value is known up to an addend in [0, slack] */
    } known[KILN_KNOWN_MAX];
} kiln_decoding;

/* Records that the value of `e` is known, up to `slack`; false when it was known or there is no
 * room.
 */
bool kiln_decoding_learn(kiln_decoding *d, kiln_expr e, uint64_t slack);
/* Whether what is known determines `wanted`. */
bool kiln_decoding_determines(kiln_program *p, kiln_decoding *d, kiln_expr wanted);

#endif
