/* Instructions of warp groups for the block emulator: wgmma, whose operands lie in shared memory
 * and are read when it is waited for. */
#ifndef KILN_TESTS_SUPPORT_EMULATE_GROUP_H
#define KILN_TESTS_SUPPORT_EMULATE_GROUP_H

#include <stdbool.h>

#include "base/arena.h"
#include "tests/support/emulate_calls.h"

/* What one thread has begun. */
typedef struct emulate_products emulate_products;

emulate_products *emulate_products_create(kiln_arena *arena);
void emulate_products_reset(emulate_products *t); /* At the start of a block. */
/* One more, in order. Its sums are NaN until it has landed. What is wrong with it, or NULL. */
const char *emulate_products_begin(emulate_products *t, const struct emulate_wgmma *what,
                                   unsigned line);
void emulate_products_fence(emulate_products *t);
void emulate_products_commit(emulate_products *t);
/* Lands all but the last `pending` groups of the EMULATE_GROUP threads of a warp group, which have
 * come to the same wait. `shared`: `bytes` of shared memory. What is wrong, or NULL. */
const char *emulate_products_land(emulate_products *const thread[EMULATE_GROUP], unsigned pending,
                                  const char *shared, size_t bytes);

#endif
