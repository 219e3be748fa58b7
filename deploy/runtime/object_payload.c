#include "deploy/runtime/object_payload.h"

#include "base/arena.h"
#include "deploy/runtime/load.h"

kiln_status kiln_object_payload_check_manifest(const kiln_manifest *manifest,
                                               kiln_payload_kind kind) {
    for (uint32_t i = 0; i < manifest->payload_count; i++)
        if (manifest->payload[i].kind != kind)
            return KILN_ERROR(UNIMPLEMENTED, "payload %u is %s, not %s", i,
                              kiln_payload_name(manifest->payload[i].kind),
                              kiln_payload_name(kind));
    for (uint32_t i = 0; i < manifest->launch_count; i++) {
        const kiln_manifest_launch *launch = &manifest->launch[i];
        for (uint32_t axis = 0; axis < 3; axis++)
            if (launch->grid[axis] != 1 || launch->group[axis] != 1)
                return KILN_ERROR(UNIMPLEMENTED, "launch %u has a grid; a processor has none", i);
        for (uint32_t space = 0; space < KILN_MEMORY_SPACES_END; space++)
            if (launch->scratch_bytes[space] > 0)
                return KILN_ERROR(UNIMPLEMENTED, "launch %u needs memory of space %s", i,
                                  kiln_memory_row_of((kiln_memory_space)space)->name);
    }
    return KILN_OK;
}

static kiln_status check_payload(const kiln_artefact *artefact, uint32_t payload, kiln_arch arch) {
    const kiln_manifest *manifest = &artefact->manifest;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    const char **entry = KILN_ARENA_ARRAY(&scratch, const char *, manifest->launch_count + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < manifest->launch_count; i++)
        if (manifest->launch[i].payload == payload)
            entry[count++] = kiln_str_dup(&scratch, manifest->launch[i].entry);
    kiln_status st = kiln_object_check(kiln_artefact_payload(artefact, payload), arch, entry);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_object_payload_check(const kiln_artefact *artefact, kiln_payload_kind kind,
                                      kiln_arch arch) {
    kiln_status st = kiln_object_payload_check_manifest(&artefact->manifest, kind);
    for (uint32_t i = 0; !st && i < artefact->manifest.payload_count; i++)
        st = check_payload(artefact, i, arch);
    return st;
}
