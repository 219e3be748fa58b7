/* The trackers' blob store (store.c), as sizes: blobs come in parts, which outlive the transfers
 * that brought them; the jobs that use a blob pin it; what nobody pins is collected after a while.
 */
#ifndef KILN_TESTS_SIM_STORE_H
#define KILN_TESTS_SIM_STORE_H

#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"

typedef struct sim_world sim_world;

typedef struct sim_pin {
    char job[KILN_HASH128_TEXT];
} sim_pin;

typedef struct sim_blob {
    kiln_digest digest;
    uint64_t held; /* bytes that came; all of them: it is there */
    uint64_t came_ns;
    KILN_VEC(sim_pin) pin;
} sim_blob;

typedef struct sim_store {
    KILN_VEC(sim_blob) blob;
    kiln_map index_of;
    kiln_map pinned; /* digest and job -> that it was pinned while it was there; for the check */
} sim_store;

void sim_store_init(sim_store *store);
void sim_store_deinit(sim_store *store);
/* Of a whole blob. In some worlds a few are 1 GiB. */
uint64_t sim_blob_bytes(const sim_world *world, const kiln_digest *digest);
/* How long the rest of a blob takes. */
uint64_t sim_blob_time_ns(const sim_world *world, const kiln_digest *digest, uint64_t held);
/* So many bytes came in that time. */
uint64_t sim_blob_moved(const sim_world *world, uint64_t time_ns);
uint64_t sim_store_held(const sim_world *world, const kiln_digest *digest);
bool sim_store_has(const sim_world *world, const kiln_digest *digest);
/* That many bytes of it are there now. */
void sim_store_bring(sim_world *world, const kiln_digest *digest, uint64_t held);
void sim_store_put(sim_world *world, const kiln_digest *digest);
/* A trial of the job goes to a board. */
void sim_store_pin(sim_world *world, const kiln_digest *digest, kiln_str job);
/* Removes what no open job pins and what is older than `age_ns`. */
void sim_store_collect(sim_world *world, uint64_t age_ns);
/* A board does not find it. */
void sim_store_check_missing(sim_world *world, const kiln_digest *digest);

#endif
