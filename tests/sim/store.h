/* The trackers' blob store (store.c). */
#ifndef KILN_TESTS_SIM_STORE_H
#define KILN_TESTS_SIM_STORE_H

#include "base/hash.h"
#include "base/vec.h"

typedef struct sim_store {
    KILN_VEC(kiln_digest) blob;
} sim_store;

void sim_store_deinit(sim_store *store);
bool sim_store_has(const sim_store *store, const kiln_digest *digest);
void sim_store_put(sim_store *store, const kiln_digest *digest);

#endif
