#include "tests/sim/store.h"

void sim_store_deinit(sim_store *store) { kiln_vec_deinit(&store->blob); }

bool sim_store_has(const sim_store *store, const kiln_digest *digest) {
    for (uint32_t i = 0; i < store->blob.count; i++)
        if (kiln_digest_equal(&store->blob.data[i], digest)) return true;
    return false;
}

void sim_store_put(sim_store *store, const kiln_digest *digest) {
    if (!sim_store_has(store, digest)) kiln_vec_push(&store->blob, *digest);
}
