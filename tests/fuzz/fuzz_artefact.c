/* Fuzzes the reader of artefacts and the checks of their payloads, which need no device: what
 * decodes encodes to bytes that decode to the same, and what is accepted for a driver keeps to the
 * limits of its target. */
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
