/* Warp instructions of the block emulator: what each does with the operands of 32 threads. */
#ifndef KILN_TESTS_SUPPORT_EMULATE_WARP_H
#define KILN_TESTS_SUPPORT_EMULATE_WARP_H

#include "tests/support/emulate_calls.h"

typedef struct emulate_warp_info {
    const char *text;
    /* [32] operands, NULL of lanes that do not take part. What is wrong with them, or NULL. */
    const char *(*run)(void *const operands[EMULATE_WARP]);
} emulate_warp_info;
extern const emulate_warp_info
    emulate_warp[EMULATE_INSTRUCTION_COUNT]; /* Rows of emulate_warp.def. */

#endif
