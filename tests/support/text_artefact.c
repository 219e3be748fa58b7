#include "tests/support/text_artefact.h"

#include "base/kernel_abi.h"
#include "base/macros.h"
#include "base/reference.h"
#include "base/tensor.h"

const char text_artefact_opencl[] =
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void prepare_0(\n"
    "    __global const float *w, __global float *p) {\n"
    "    p[get_global_id(0)] = 2 * w[get_global_id(0)];\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void run_1(\n"
    "    __global const float *x, __global const float *p, __global float *t) {\n"
    "    t[get_global_id(0)] = x[get_global_id(0)] + p[get_global_id(0)];\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void run_2(\n"
    "    __global const float *t, __global float *y, __global float *scratch) {\n"
    "    __local float row[64];\n"
    "    row[get_local_id(0)] = t[get_global_id(0)];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    scratch[get_global_id(0)] = row[63 - get_local_id(0)];\n"
    "    y[get_global_id(0)] = scratch[get_global_id(0)];\n"
    "}\n";

static kiln_manifest_arg argument(const char *name, kiln_role role) {
    return (kiln_manifest_arg){.name = kiln_str_from(name),
                               .dtype = KILN_F32,
                               .role = role,
                               .shape = {.rank = 1, .dim = {TEXT_ARTEFACT_COUNT}},
                               .fill = KILN_FILL_UNIFORM,
                               .read_by_run = role != KILN_ROLE_CONSTANT};
}

kiln_str text_artefact_encode(const text_artefact *a, kiln_arena *arena) {
    static const uint32_t pack[] = {TEXT_W, TEXT_P}, add[] = {TEXT_X, TEXT_P, TEXT_T},
                          turn[] = {TEXT_T, TEXT_Y};
    const uint32_t group = a->group ? a->group : TEXT_ARTEFACT_GROUP;
    const uint32_t grid = (TEXT_ARTEFACT_COUNT + group - 1) / group;
    kiln_manifest_launch launch[] = {
        {.phase = KILN_LAUNCH_PREPARE, .entry = KILN_STR("prepare_0"), .arg_count = 2, .arg = pack},
        {.phase = KILN_LAUNCH_RUN, .entry = KILN_STR("run_1"), .arg_count = 3, .arg = add},
        {.phase = KILN_LAUNCH_RUN, .entry = KILN_STR("run_2"), .arg_count = 2, .arg = turn},
    };
    for (uint32_t i = 0; i < 3; i++) {
        launch[i].grid[0] = grid;
        launch[i].group[0] = group;
        launch[i].grid[1] = launch[i].grid[2] = launch[i].group[1] = launch[i].group[2] = 1;
    }
    launch[1].cluster = a->cluster;
    launch[1].map_count = a->map_count;
    launch[1].map = a->map;
    launch[2].scratch_bytes[KILN_MEMORY_SHARED] =
        a->shared_bytes ? a->shared_bytes : group * sizeof(float);
    launch[2].scratch_bytes[KILN_MEMORY_DEVICE] = TEXT_ARTEFACT_BYTES;
    kiln_manifest_arg arg[TEXT_ARG_COUNT] = {
        argument("x", KILN_ROLE_INPUT), argument("w", KILN_ROLE_CONSTANT),
        argument("y", KILN_ROLE_OUTPUT), argument("p", KILN_ROLE_PACKED),
        argument("t", KILN_ROLE_TEMP)};
    kiln_strbuf bytes = {0};
    kiln_artefact artefact = {.manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                                           .payload_kind = a->kind,
                                           .target = kiln_str_from(a->target),
                                           .codegen_version = KILN_STR("test"),
                                           .task_key = KILN_STR("test"),
                                           .algorithm = KILN_STR("direct"),
                                           .has_prepare = true,
                                           .threads_max = 1,
                                           .arg_count = TEXT_ARG_COUNT,
                                           .arg = arg,
                                           .launch_count = KILN_ARRAY_COUNT(launch),
                                           .launch = launch},
                              .payload = kiln_str_from(a->text)};
    kiln_artefact_encode(&artefact, &bytes);
    kiln_str copy = {kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size};
    kiln_strbuf_deinit(&bytes);
    return copy;
}

void text_artefact_expected(const float *x, const float *w, float *y) {
    const uint32_t last = TEXT_ARTEFACT_GROUP - 1;
    for (uint32_t i = 0; i < TEXT_ARTEFACT_COUNT; i++) {
        const uint32_t from = i - i % TEXT_ARTEFACT_GROUP + last - i % TEXT_ARTEFACT_GROUP;
        y[i] = x[from] + 2 * w[from];
    }
}

kiln_str text_artefact_reference(uint64_t seed, kiln_arena *arena) {
    static float x[TEXT_ARTEFACT_COUNT], w[TEXT_ARTEFACT_COUNT], y[TEXT_ARTEFACT_COUNT],
        bound[TEXT_ARTEFACT_COUNT];
    kiln_strbuf bytes = {0};
    kiln_fill_data(x, KILN_F32, TEXT_ARTEFACT_COUNT, kiln_input_seed(seed, TEXT_X),
                   KILN_FILL_UNIFORM);
    kiln_fill_data(w, KILN_F32, TEXT_ARTEFACT_COUNT, kiln_input_seed(seed, TEXT_W),
                   KILN_FILL_UNIFORM);
    text_artefact_expected(x, w, y);
    for (uint32_t i = 0; i < TEXT_ARTEFACT_COUNT; i++) bound[i] = 1e-6f;
    const kiln_reference reference = {
        .output_count = 1,
        .output = {{.dtype = KILN_F32,
                    .shape = {.rank = 1, .dim = {TEXT_ARTEFACT_COUNT}},
                    .value = y,
                    .bound = bound}}};
    kiln_reference_encode(&reference, &bytes);
    kiln_str copy = {kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size};
    kiln_strbuf_deinit(&bytes);
    return copy;
}
