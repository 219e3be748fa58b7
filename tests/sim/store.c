#include "tests/sim/store.h"

#include <string.h>

#include "tests/sim/world.h"

#define LARGE_BYTES ((uint64_t)1 << 30)
#define SMALL_BYTES 4096u

void sim_store_init(sim_store *store) {
    kiln_map_init(&store->index_of);
    kiln_map_init(&store->pinned);
}

void sim_store_deinit(sim_store *store) {
    for (uint32_t i = 0; i < store->blob.count; i++) kiln_vec_deinit(&store->blob.data[i].pin);
    kiln_vec_deinit(&store->blob);
    kiln_map_deinit(&store->index_of);
    kiln_map_deinit(&store->pinned);
}

/* ---- Transfers ---- */

uint64_t sim_blob_bytes(const sim_world *world, const kiln_digest *digest) {
    return world->options.blob_rate && digest->byte[0] < 4 ? LARGE_BYTES : SMALL_BYTES;
}

uint64_t sim_blob_time_ns(const sim_world *world, const kiln_digest *digest, uint64_t held) {
    uint64_t rest = sim_blob_bytes(world, digest) - held;
    return world->options.blob_rate ? rest * 1000 / world->options.blob_rate * 1000000 : 0;
}

uint64_t sim_blob_moved(const sim_world *world, uint64_t time_ns) {
    return time_ns / 1000000 * world->options.blob_rate / 1000;
}

/* ---- The store ---- */

static kiln_str key_of(const kiln_digest *digest) {
    return (kiln_str){(const char *)digest->byte, sizeof digest->byte};
}

static sim_blob *find(const sim_store *store, const kiln_digest *digest) {
    uint64_t at = 0;
    return kiln_map_find(&store->index_of, key_of(digest), &at) ? &store->blob.data[at] : NULL;
}

uint64_t sim_store_held(const sim_world *world, const kiln_digest *digest) {
    const sim_blob *blob = find(&world->store, digest);
    return blob ? blob->held : 0;
}

bool sim_store_has(const sim_world *world, const kiln_digest *digest) {
    return sim_store_held(world, digest) == sim_blob_bytes(world, digest);
}

void sim_store_bring(sim_world *world, const kiln_digest *digest, uint64_t held) {
    sim_store *store = &world->store;
    sim_blob *blob = find(store, digest);
    if (!blob) {
        kiln_map_put(&store->index_of, key_of(digest), store->blob.count);
        kiln_vec_push(&store->blob, ((sim_blob){.digest = *digest}));
        blob = &kiln_vec_last(&store->blob);
    }
    blob->held = KILN_MIN(KILN_MAX(blob->held, held), sim_blob_bytes(world, digest));
    blob->came_ns = world->now_ns;
}

void sim_store_put(sim_world *world, const kiln_digest *digest) {
    sim_store_bring(world, digest, sim_blob_bytes(world, digest));
}

/* ---- Pins ---- */

static kiln_str pin_key(sim_world *world, const kiln_digest *digest, const char *job) {
    char text[KILN_DIGEST_TEXT];
    kiln_digest_print(digest, text);
    return kiln_str_from(kiln_arena_printf(&world->scratch, "%s %s", text, job));
}

void sim_store_pin(sim_world *world, const kiln_digest *digest, kiln_str job) {
    sim_blob *blob = find(&world->store, digest);
    sim_pin pin = {""};
    if (!blob || !sim_store_has(world, digest) || job.size >= sizeof pin.job) return;
    memcpy(pin.job, job.data, job.size);
    kiln_map_put(&world->store.pinned, pin_key(world, digest, pin.job), 1);
    for (uint32_t i = 0; i < blob->pin.count; i++)
        if (strcmp(blob->pin.data[i].job, pin.job) == 0) return;
    kiln_vec_push(&blob->pin, pin);
}

/* The pins of a job end with it, also when its client comes back and it is opened again. */
static bool is_pinned(sim_world *world, sim_blob *blob) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < blob->pin.count; i++)
        if (sim_tracker_has_open_job(world, blob->pin.data[i].job))
            blob->pin.data[kept++] = blob->pin.data[i];
        else
            kiln_map_remove(&world->store.pinned,
                            pin_key(world, &blob->digest, blob->pin.data[i].job));
    blob->pin.count = kept;
    return kept > 0;
}

void sim_store_collect(sim_world *world, uint64_t age_ns) {
    sim_store *store = &world->store;
    for (uint32_t i = store->blob.count; i-- > 0;) {
        sim_blob *blob = &store->blob.data[i];
        if (world->now_ns - blob->came_ns < age_ns || is_pinned(world, blob)) continue;
        kiln_map_remove(&store->index_of, key_of(&blob->digest));
        kiln_vec_deinit(&blob->pin);
        *blob = kiln_vec_pop(&store->blob);
        if (i < store->blob.count) kiln_map_put(&store->index_of, key_of(&blob->digest), i);
    }
}

/* What an open job pinned must be there. */
void sim_store_check_missing(sim_world *world, const kiln_digest *digest) {
    char job[KILN_HASH128_TEXT];
    uint64_t found = 0;
    for (uint32_t i = 0; sim_tracker_open_job(world, i, job); i++)
        if (kiln_map_find(&world->store.pinned, pin_key(world, digest, job), &found))
            sim_fail(world, "a blob that job %s pinned is gone", job);
}
