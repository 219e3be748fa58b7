#include "rpc-server/golden.h"

#include "base/file.h"
#include "base/kernel_abi.h"
#include "base/macros.h"
#include "base/manifest.h"
#include "base/reference.h"
#include "base/target.h"
#include "rpc-server/golden_object.h"

#define SIZE 64
#define SEED 20

static kiln_manifest_arg arg_of(const char *name, kiln_role role) {
    return (kiln_manifest_arg){.name = kiln_str_from(name),
                               .dtype = KILN_I32,
                               .role = role,
                               .shape = {.rank = 2, .dim = {SIZE, SIZE}},
                               .fill = KILN_FILL_UNIFORM,
                               .read_by_run = true};
}

/* A row of golden_texts.def. */
typedef struct golden_text {
    kiln_payload_kind payload;
    const char *entry, *text;
} golden_text;

static const golden_text text_table[] = {
#define X(PAYLOAD, entry, text) {KILN_PAYLOAD_##PAYLOAD, entry, text},
#include "rpc-server/golden_texts.def"
#undef X
};

static const golden_text *find_text(const kiln_target *device) {
    const kiln_payload_kind payload = kiln_payload_of(device->kind);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text_table); i++)
        if (text_table[i].payload == payload) return &text_table[i];
    return NULL;
}

/* `text`: for `target`; NULL: the processor's object. */
static kiln_status write_bytes(const char *path, const kiln_target *target,
                               const golden_text *text) {
    static const uint32_t all[] = {0, 1, 2};
    kiln_manifest_arg arg[] = {arg_of("x", KILN_ROLE_INPUT), arg_of("w", KILN_ROLE_CONSTANT),
                               arg_of("y", KILN_ROLE_OUTPUT)};
    kiln_artefact artefact = {
        .manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                     .payload_kind = KILN_PAYLOAD_ELF,
                     .codegen_version = KILN_STR("golden"),
                     .task_key = KILN_STR("golden"),
                     .algorithm = KILN_STR("direct"),
                     .threads_max = 1,
                     .flops = 2.0 * SIZE * SIZE * SIZE,
                     .arg_count = KILN_ARRAY_COUNT(arg),
                     .arg = arg},
        .payload = {(const char *)golden_object, sizeof golden_object},
    };
    kiln_manifest_launch launch = {.phase = KILN_LAUNCH_RUN,
                                   .grid = {SIZE, 1, 1},
                                   .group = {SIZE, 1, 1},
                                   .arg_count = KILN_ARRAY_COUNT(arg),
                                   .arg = all};
    kiln_strbuf written = {0}, bytes = {0};
    if (text) {
        launch.entry = kiln_str_from(text->entry);
        artefact.payload = kiln_str_from(text->text);
        artefact.manifest.payload_kind = text->payload;
        artefact.manifest.launch_count = 1;
        artefact.manifest.launch = &launch;
    }
    kiln_target_print(target, &written);
    artefact.manifest.target = kiln_strbuf_view(&written);
    kiln_artefact_encode(&artefact, &bytes);
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&bytes), 0600);
    kiln_strbuf_deinit(&written);
    kiln_strbuf_deinit(&bytes);
    return st;
}

static kiln_status write_artefact(const char *path, const kiln_target *device, kiln_arena *arena) {
    kiln_target native;
    if (device) return write_bytes(path, device, find_text(device));
    kiln_status st = kiln_target_native(arena, &native);
    return st ? st : write_bytes(path, &native, NULL);
}

/* What the kernel must compute, in plain C. */
static kiln_status write_reference(const char *path, kiln_arena *arena) {
    const size_t count = (size_t)SIZE * SIZE;
    uint32_t *x = KILN_ARENA_ARRAY(arena, uint32_t, count);
    uint32_t *w = KILN_ARENA_ARRAY(arena, uint32_t, count);
    uint32_t *y = KILN_ARENA_ARRAY(arena, uint32_t, count);
    kiln_fill_data(x, KILN_I32, count, kiln_input_seed(SEED, 0), KILN_FILL_UNIFORM);
    kiln_fill_data(w, KILN_I32, count, kiln_input_seed(SEED, 1), KILN_FILL_UNIFORM);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < SIZE; k++) y[i] += x[i / SIZE * SIZE + k] * w[k * SIZE + i % SIZE];
    const kiln_reference reference = {
        .output_count = 1,
        .output = {{.dtype = KILN_I32, .shape = {.rank = 2, .dim = {SIZE, SIZE}}, .value = y}}};
    kiln_strbuf bytes = {0};
    kiln_reference_encode(&reference, &bytes);
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&bytes), 0600);
    kiln_strbuf_deinit(&bytes);
    return st;
}

/* 0 when nothing readable was remembered. */
static double read_memory(const char *path, kiln_arena *arena) {
    kiln_str text = {0};
    double best_ns = 0;
    kiln_status st = kiln_file_read(path, 64, arena, &text);
    if (!st && (!kiln_str_to_f64(kiln_str_trim(text), &best_ns) || !(best_ns > 0))) best_ns = 0;
    kiln_status_free(st); /* the first start on this machine */
    return best_ns;
}

kiln_status kiln_golden_open(const char *folder, const kiln_target *device, kiln_arena *arena,
                             kiln_golden *out_golden) {
    if (device && !find_text(device)) {
        *out_golden = (kiln_golden){0};
        return NULL;
    }
    const char *artefact = kiln_arena_printf(arena, "%s/artefact", folder);
    const char *reference = kiln_arena_printf(arena, "%s/reference", folder);
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_folder_create(folder, 0700);
    if (!st) st = write_artefact(artefact, device, &scratch);
    if (!st) st = write_reference(reference, &scratch);
    kiln_arena_deinit(&scratch);
    if (st) return kiln_status_note(st, "preparing the board's self-check");
    /* A folder may have served another device before. */
    const char *kind = device ? kiln_payload_name(kiln_payload_of(device->kind)) : NULL;
    const char *memory =
        kiln_arena_printf(arena, "%s/best-ns%s%s", folder, kind ? "-" : "", kind ? kind : "");
    *out_golden = (kiln_golden){artefact, reference, memory, !device || !device->emulated,
                                read_memory(memory, arena)};
    return NULL;
}

kiln_msg_trial kiln_golden_trial(void) {
    return (kiln_msg_trial){.seed = SEED,
                            .policy = {.samples_min = 5,
                                       .samples_max = 10,
                                       .interval = 0.05,
                                       .sample_ns = 500000,
                                       .total_ns = 10000000}};
}

/* The least time of a run: what others did beside it makes it longer only. */
static double least_run_ns(const kiln_msg_trial_result *result) {
    uint64_t least = result->samples_ns.item[0];
    for (uint32_t i = 1; i < result->samples_ns.count; i++)
        least = KILN_MIN(least, result->samples_ns.item[i]);
    return (double)least / result->runs;
}

static void remember(kiln_golden *golden, double run_ns, kiln_arena *arena) {
    golden->best_ns = run_ns;
    const char *text = kiln_arena_printf(arena, "%.9g\n", run_ns);
    kiln_status_free(kiln_file_write(golden->memory, kiln_str_from(text),
                                     0600)); /* then the next start learns it again */
}

const char *kiln_golden_judge(kiln_golden *golden, const kiln_msg_trial_result *result,
                              kiln_arena *arena) {
    if (result->outcome != KILN_OUTCOME_OK || result->samples_ns.count == 0)
        return kiln_arena_printf(arena, "the board's self-check ended in %s: %.*s",
                                 kiln_outcome_name((kiln_outcome)result->outcome),
                                 KILN_STR_ARG(result->text));
    const double run_ns = least_run_ns(result);
    if (!golden->is_timed) return NULL;
    if (golden->best_ns > 0 && run_ns > golden->best_ns * KILN_GOLDEN_SLOW)
        return kiln_arena_printf(arena,
                                 "the board's self-check took %.0f ns where it has taken %.0f; "
                                 "if it is meant to be slower now, remove %s",
                                 run_ns, golden->best_ns, golden->memory);
    if (golden->best_ns == 0 || run_ns < golden->best_ns * 0.98) remember(golden, run_ns, arena);
    return NULL;
}
