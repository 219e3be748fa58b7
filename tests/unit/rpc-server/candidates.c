#include "tests/unit/rpc-server/candidates.h"

#include "base/file.h"
#include "base/kernel_abi.h"
#include "base/manifest.h"
#include "base/reference.h"
#include "tests/support/targets.h"

static const char *the_target; /* NULL: the plain one, which every board of this kind runs */

void candidate_target_is(const char *text) { the_target = text; }

kiln_str candidate_target(kiln_arena *arena) {
    kiln_target target = the_target ? target_of(arena, the_target) : plain_target(arena);
    return text_of_target(&target, arena);
}

static kiln_manifest_arg arg_of(const char *name, kiln_role role) {
    return (kiln_manifest_arg){.name = kiln_str_from(name),
                               .dtype = KILN_F32,
                               .role = role,
                               .shape = {.rank = 1, .dim = {CANDIDATE_ELEMENTS}},
                               .fill = KILN_FILL_UNIFORM,
                               .read_by_run = true};
}

void candidate_artefact(const char *folder, const char *fault, double flops, kiln_strbuf *out) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_manifest_arg arg[] = {arg_of("x", KILN_ROLE_INPUT), arg_of("w", KILN_ROLE_CONSTANT),
                               arg_of("y", KILN_ROLE_OUTPUT), arg_of("p", KILN_ROLE_PACKED)};
    kiln_artefact artefact = {.manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                                           .payload_kind = KILN_PAYLOAD_ELF,
                                           .target = candidate_target(&arena),
                                           .codegen_version = KILN_STR("1"),
                                           .task_key = KILN_STR("t"),
                                           .algorithm = KILN_STR("direct"),
                                           .has_prepare = true,
                                           .threads_max = 2,
                                           .flops = flops,
                                           .arg_count = KILN_ARRAY_COUNT(arg),
                                           .arg = arg}};
    const char *object = kiln_arena_printf(&arena, "%s/%s.o", folder, fault);
    expect_ok(kiln_file_read(object, KILN_ARTEFACT_BYTES_MAX, &arena, &artefact.payload));
    kiln_artefact_encode(&artefact, out);
    kiln_arena_deinit(&arena);
}

void candidate_reference(int64_t elements, kiln_strbuf *out) {
    static float x[CANDIDATE_ELEMENTS], w[CANDIDATE_ELEMENTS], y[CANDIDATE_ELEMENTS],
        bound[CANDIDATE_ELEMENTS];
    kiln_fill_data(x, KILN_F32, CANDIDATE_ELEMENTS, kiln_input_seed(CANDIDATE_SEED, 0),
                   KILN_FILL_UNIFORM);
    kiln_fill_data(w, KILN_F32, CANDIDATE_ELEMENTS, kiln_input_seed(CANDIDATE_SEED, 1),
                   KILN_FILL_UNIFORM);
    for (size_t i = 0; i < CANDIDATE_ELEMENTS; i++) y[i] = x[i] * 2 * w[i];
    kiln_reference reference = {.output_count = 1,
                                .output = {{.dtype = KILN_F32,
                                            .shape = {.rank = 1, .dim = {elements}},
                                            .value = y,
                                            .bound = bound}}};
    kiln_reference_encode(&reference, out);
}
