#include "tests/support/vta_artefact.h"

#include "base/kernel_abi.h"
#include "base/manifest.h"
#include "tests/support/test.h"
#include "vta/program.h"

static kiln_manifest_arg argument(const char *name, kiln_role role, int64_t elements) {
    return (kiln_manifest_arg){.name = kiln_str_from(name),
                               .dtype = KILN_I8,
                               .role = role,
                               .shape = {.rank = 1, .dim = {elements}},
                               .fill = KILN_FILL_UNIFORM,
                               .read_by_run = true};
}

kiln_str vta_artefact_encode(const char *target, const char *text, uint32_t arg_count,
                             int64_t elements, kiln_arena *arena) {
    static const uint32_t both[] = {0, 1};
    kiln_vta_program program;
    kiln_strbuf code = {0}, bytes = {0};
    expect_ok(kiln_vta_program_parse(kiln_str_from(text), arena, &program));
    kiln_vta_program_encode(&program, &code);
    const kiln_manifest_launch launch = {.phase = KILN_LAUNCH_RUN,
                                         .entry = KILN_STR("run_0"),
                                         .grid = {1, 1, 1},
                                         .group = {1, 1, 1},
                                         .arg_count = arg_count,
                                         .arg = both};
    kiln_manifest_arg in = argument("in", KILN_ROLE_INPUT, elements),
                      out = argument("out", KILN_ROLE_OUTPUT, elements);
    kiln_manifest_arg arg[] = {arg_count == 1 ? out : in, out};
    kiln_artefact artefact = {.manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                                           .payload_kind = KILN_PAYLOAD_VTA,
                                           .target = kiln_str_from(target),
                                           .codegen_version = KILN_STR("test"),
                                           .task_key = KILN_STR("test"),
                                           .algorithm = KILN_STR("direct"),
                                           .threads_max = 1,
                                           .arg_count = arg_count,
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
