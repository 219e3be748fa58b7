/* Fuzzes the reader of artefacts and the checks of their payloads, which need no device: what
 * decodes encodes to bytes that decode to the same, its tensor maps are inside of their arguments,
 * and what is accepted for a driver keeps to the limits of its target. */
#include "base/check.h"
#include "base/manifest.h"
#include "base/target.h"
#include "deploy/runtime/kernel.h"
#include "tests/fuzz/fuzz.h"

static void look_at_launch(const kiln_manifest *manifest, const kiln_manifest_launch *launch,
                           const kiln_target *target) {
    uint64_t threads = 1;
    for (uint32_t axis = 0; axis < 3; axis++) {
        KILN_CHECK(launch->grid[axis] > 0 && launch->group[axis] > 0);
        threads *= launch->group[axis];
    }
    KILN_CHECK(threads <= target->group_threads);
    KILN_CHECK(launch->scratch_bytes[KILN_MEMORY_SHARED] <= target->shared_bytes);
    KILN_CHECK(launch->payload < manifest->payload_count);
    for (uint32_t i = 0; i < launch->arg_count; i++)
        KILN_CHECK(launch->arg[i] < manifest->arg_count);
}

/* The map's last element, reckoned in numbers that do not overflow for maps that are right. */
static void look_at_map(const kiln_manifest *manifest, const kiln_manifest_launch *launch,
                        const kiln_manifest_map *map) {
    const uint64_t element_bytes = kiln_dtype_size(map->dtype);
    size_t arg_bytes = 0;
    KILN_CHECK(map->arg < launch->arg_count);
    kiln_status st = kiln_manifest_arg_bytes(&manifest->arg[launch->arg[map->arg]], &arg_bytes);
    KILN_CHECK(st == NULL);
    uint64_t end = map->offset_bytes + element_bytes, box_bytes = element_bytes;
    for (uint32_t d = 0; d < map->rank; d++) {
        KILN_CHECK(map->size[d] >= 1 && map->size[d] - 1 <= arg_bytes);
        KILN_CHECK(map->size[d] == 1 || map->stride_bytes[d] <= arg_bytes);
        if (map->size[d] > 1) end += (map->size[d] - 1) * map->stride_bytes[d];
        KILN_CHECK(end <= arg_bytes);
        KILN_CHECK(map->box[d] >= 1 && map->box[d] <= KILN_MAP_BOX_MAX);
        KILN_CHECK(map->stride_bytes[d] % (d ? 16 : element_bytes) == 0);
    }
    box_bytes *= map->box[0];
    KILN_CHECK(map->offset_bytes % 16 == 0 && box_bytes % 16 == 0);
    KILN_CHECK(!map->is_permuted || box_bytes == KILN_MAP_ROW_BYTES);
}

static void look_at_maps(const kiln_manifest *manifest) {
    for (uint32_t i = 0; i < manifest->launch_count; i++) {
        const kiln_manifest_launch *launch = &manifest->launch[i];
        KILN_CHECK(launch->cluster >= 1 && launch->cluster <= KILN_LAUNCH_CLUSTER_MAX);
        KILN_CHECK(launch->grid[0] % launch->cluster == 0);
        KILN_CHECK(launch->map_count <= KILN_LAUNCH_MAPS_MAX);
        for (uint32_t k = 0; k < launch->map_count; k++)
            look_at_map(manifest, launch, &launch->map[k]);
        KILN_CHECK(!kiln_launch_has_cluster_or_maps(launch) ||
                   manifest->abi_version == KILN_MANIFEST_ABI_MAPS);
    }
}

static void check_artefact(kiln_str bytes, const kiln_manifest *manifest, kiln_arena *arena) {
    kiln_target target;
    kiln_status st = kiln_kernel_check(bytes);
    const bool text =
        manifest->payload_kind == KILN_PAYLOAD_OPENCL || manifest->payload_kind == KILN_PAYLOAD_PTX;
    if (!st && text) {
        KILN_CHECK(kiln_target_parse(manifest->target, arena, &target) == NULL);
        for (uint32_t i = 0; i < manifest->launch_count; i++)
            look_at_launch(manifest, &manifest->launch[i], &target);
    }
    kiln_status_free(st);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena = {0};
    kiln_strbuf once = {0}, twice = {0};
    kiln_artefact artefact;
    const kiln_str bytes = {(const char *)data, size};
    kiln_status st = kiln_artefact_decode(bytes, &arena, &artefact);
    if (!st) {
        look_at_maps(&artefact.manifest);
        check_artefact(bytes, &artefact.manifest, &arena);
        kiln_artefact_encode(&artefact, &once);
        KILN_CHECK(kiln_artefact_decode(kiln_strbuf_view(&once), &arena, &artefact) == NULL);
        kiln_artefact_encode(&artefact, &twice);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&once), kiln_strbuf_view(&twice)));
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&once);
    kiln_strbuf_deinit(&twice);
    kiln_arena_deinit(&arena);
    return 0;
}
