#include "tests/support/null_artefact.h"

#include "base/kernel_abi.h"
#include "base/manifest.h"

#define REGISTERS 10

static kiln_manifest_arg argument(const null_artefact *a, const char *name, kiln_role role) {
    return (kiln_manifest_arg){.name = kiln_str_from(name),
                               .dtype = a->dtype,
                               .role = role,
                               .shape = {.rank = 1, .dim = {NULL_ARTEFACT_ELEMENTS}},
                               .fill = KILN_FILL_UNIFORM,
                               .read_by_run = true};
}

kiln_str null_artefact_encode(const null_artefact *a, kiln_arena *arena) {
    static const uint32_t both[] = {0, 1};
    const kiln_str entry = KILN_STR("run_0");
    kiln_null_buffer buffer[] = {
        {KILN_NULL_ARGUMENT, (uint8_t)a->dtype, 0, 0, a->count},
        {KILN_NULL_ARGUMENT, (uint8_t)a->dtype, 1, 0, a->count},
    };
    kiln_null_function f = {.name = entry,
                            .register_count = REGISTERS,
                            .shared_bytes = a->shared_bytes,
                            .buffer_count = 2,
                            .buffer = buffer,
                            .instruction_count = a->instruction_count,
                            .instruction = a->instruction};
    const kiln_manifest_launch launch = {.phase = KILN_LAUNCH_RUN,
                                         .entry = entry,
                                         .grid = {1, 1, 1},
                                         .group = {1, 1, 1},
                                         .scratch_bytes = {[KILN_MEMORY_SHARED] = a->shared_bytes},
                                         .arg_count = 2,
                                         .arg = both};
    kiln_manifest_arg arg[] = {argument(a, "x", KILN_ROLE_INPUT),
                               argument(a, "y", KILN_ROLE_OUTPUT)};
    kiln_strbuf code = {0}, bytes = {0};
    kiln_null_code_encode(&(kiln_null_code){1, &f}, &code);
    kiln_artefact artefact = {.manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                                           .payload_kind = KILN_PAYLOAD_NULL_CODE,
                                           .target = kiln_str_from(a->target),
                                           .codegen_version = KILN_STR("test"),
                                           .task_key = KILN_STR("test"),
                                           .algorithm = KILN_STR("direct"),
                                           .threads_max = 1,
                                           .arg_count = 2,
                                           .arg = arg,
                                           .launch_count = 1,
                                           .launch = &launch},
                              .payload = kiln_strbuf_view(&code)};
    kiln_artefact_encode(&artefact, &bytes);
    kiln_str copy = {kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size};
    kiln_strbuf_deinit(&code);
    kiln_strbuf_deinit(&bytes);
    return copy;
}
