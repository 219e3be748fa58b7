#include "rpc-server/golden.h"

#include "base/file.h"
#include "base/kernel_abi.h"
#include "base/macros.h"
#include "base/manifest.h"
#include "base/reference.h"
#include "base/target.h"
#include "rpc-server/golden_object.h"
#include "rpc-server/golden_vta.h"

#define SIZE 64
#define SEED 20

/* A kernel for a kind of payload, y = x w of some kind. */
typedef struct golden_kernel {
    kiln_payload_kind payload;
    kiln_str entry; /* of its launch; empty: none */
    kiln_str code;
    kiln_dtype dtype;
    kiln_shape x, w, y;
    double flops;
    const kiln_vta_config *vta; /* NULL: a product of integers modulo 2^32, SIZE by SIZE */
} golden_kernel;

static const struct {
    kiln_payload_kind payload;
    const char *entry, *text;
} text_table[] = {
#define X(PAYLOAD, entry, text) {KILN_PAYLOAD_##PAYLOAD, entry, text},
#include "rpc-server/golden_texts.def"
#undef X
};

static golden_kernel product(kiln_payload_kind payload, kiln_str entry, kiln_str code) {
    const kiln_shape square = {.rank = 2, .dim = {SIZE, SIZE}};
    return (golden_kernel){.payload = payload,
                           .entry = entry,
                           .code = code,
                           .dtype = KILN_I32,
                           .x = square,
                           .w = square,
                           .y = square,
                           .flops = 2.0 * SIZE * SIZE * SIZE};
}

static kiln_status make_vta(const kiln_vta_config *config, kiln_arena *arena,
                            golden_kernel *out_kernel) {
    kiln_golden_vta made;
    kiln_status st = kiln_golden_vta_make(config, arena, &made);
    if (st) return st;
    *out_kernel = (golden_kernel){.payload = KILN_PAYLOAD_VTA,
                                  .entry = KILN_STR("run_0"),
                                  .code = made.code,
                                  .dtype = KILN_I8,
                                  .x = {.rank = 1, .dim = {(int64_t)made.x_bytes}},
                                  .w = {.rank = 1, .dim = {(int64_t)made.w_bytes}},
                                  .y = {.rank = 1, .dim = {(int64_t)made.y_bytes}},
                                  .flops = 2.0 * KILN_GOLDEN_VTA_TILES * config->batch *
                                           config->block_in * config->block_out,
                                  .vta = config};
    return KILN_OK;
}

/* Finds the kernel for `device` (NULL: this machine's processor). `*out_kernel` has no code if
 * there is none. */
static kiln_status find_kernel(const kiln_target *device, kiln_arena *arena,
                               golden_kernel *out_kernel) {
    const kiln_payload_kind payload = device ? kiln_payload_of(device->kind) : KILN_PAYLOAD_ELF;
    *out_kernel = (golden_kernel){0};
    if (payload == KILN_PAYLOAD_VTA) return make_vta(&device->vta, arena, out_kernel);
    if (!device)
        *out_kernel = product(payload, (kiln_str){0},
                              (kiln_str){(const char *)golden_object, sizeof golden_object});
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text_table); i++)
        if (device && text_table[i].payload == payload)
            *out_kernel = product(payload, kiln_str_from(text_table[i].entry),
                                  kiln_str_from(text_table[i].text));
    return KILN_OK;
}

static kiln_manifest_arg arg_of(const golden_kernel *kernel, const char *name, kiln_role role,
                                kiln_shape shape) {
    return (kiln_manifest_arg){.name = kiln_str_from(name),
                               .dtype = kernel->dtype,
                               .role = role,
                               .shape = shape,
                               .fill = KILN_FILL_UNIFORM,
                               .read_by_run = true};
}

static kiln_status write_artefact(const char *path, const golden_kernel *kernel,
                                  const kiln_target *device, kiln_arena *arena) {
    static const uint32_t all[] = {0, 1, 2};
    kiln_target native;
    kiln_status st = device ? KILN_OK : kiln_target_native(arena, &native);
    if (st) return st;
    kiln_manifest_arg arg[] = {arg_of(kernel, "x", KILN_ROLE_INPUT, kernel->x),
                               arg_of(kernel, "w", KILN_ROLE_CONSTANT, kernel->w),
                               arg_of(kernel, "y", KILN_ROLE_OUTPUT, kernel->y)};
    kiln_manifest_launch launch = {.phase = KILN_LAUNCH_RUN,
                                   .entry = kernel->entry,
                                   .grid = {kernel->vta ? 1 : SIZE, 1, 1},
                                   .group = {kernel->vta ? 1 : SIZE, 1, 1},
                                   .arg_count = KILN_ARRAY_COUNT(arg),
                                   .arg = all};
    kiln_strbuf target = {0}, bytes = {0};
    kiln_target_print(device ? device : &native, &target);
    const kiln_artefact artefact = {.manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                                                 .payload_kind = kernel->payload,
                                                 .target = kiln_strbuf_view(&target),
                                                 .codegen_version = KILN_STR("golden"),
                                                 .task_key = KILN_STR("golden"),
                                                 .algorithm = KILN_STR("direct"),
                                                 .threads_max = 1,
                                                 .flops = kernel->flops,
                                                 .arg_count = KILN_ARRAY_COUNT(arg),
                                                 .arg = arg,
                                                 .launch_count = kernel->entry.size > 0,
                                                 .launch = &launch},
                                    .payload = kernel->code};
    kiln_artefact_encode(&artefact, &bytes);
    st = kiln_file_write(path, kiln_strbuf_view(&bytes), 0600);
    kiln_strbuf_deinit(&target);
    kiln_strbuf_deinit(&bytes);
    return st;
}

/* An argument as a trial fills it. */
static void *filled(const golden_kernel *kernel, const kiln_shape *shape, uint32_t index,
                    kiln_arena *arena) {
    const size_t count = (size_t)kiln_shape_count(shape);
    void *data = kiln_arena_alloc(arena, count * kiln_dtype_size(kernel->dtype));
    kiln_fill_data(data, kernel->dtype, count, kiln_input_seed(SEED, index), KILN_FILL_UNIFORM);
    return data;
}

static void multiply(const uint32_t *x, const uint32_t *w, uint32_t *y) {
    for (size_t i = 0; i < (size_t)SIZE * SIZE; i++)
        for (size_t k = 0; k < SIZE; k++) y[i] += x[i / SIZE * SIZE + k] * w[k * SIZE + i % SIZE];
}

/* Computes the kernel's reference in plain C. */
static kiln_status write_reference(const char *path, const golden_kernel *kernel,
                                   kiln_arena *arena) {
    const void *x = filled(kernel, &kernel->x, 0, arena), *w = filled(kernel, &kernel->w, 1, arena);
    void *y = kiln_arena_alloc(arena, (size_t)kiln_shape_count(&kernel->y) *
                                          kiln_dtype_size(kernel->dtype));
    if (kernel->vta)
        kiln_golden_vta_compute(kernel->vta, x, w, y);
    else
        multiply(x, w, y);
    const kiln_reference reference = {
        .output_count = 1, .output = {{.dtype = kernel->dtype, .shape = kernel->y, .value = y}}};
    kiln_strbuf bytes = {0};
    kiln_reference_encode(&reference, &bytes);
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&bytes), 0600);
    kiln_strbuf_deinit(&bytes);
    return st;
}

/* Reads the stored best time; 0: none. */
static double read_memory(const char *path, kiln_arena *arena) {
    kiln_str text = {0};
    double best_ns = 0;
    kiln_status st = kiln_file_read(path, 64, arena, &text);
    if (!st && (!kiln_str_to_f64(kiln_str_trim(text), &best_ns) || !(best_ns > 0))) best_ns = 0;
    kiln_status_free(st); /* missing at the first start */
    return best_ns;
}

kiln_status kiln_golden_open(const char *folder, const kiln_target *device, kiln_arena *arena,
                             kiln_golden *out_golden) {
    const char *artefact = kiln_arena_printf(arena, "%s/artefact", folder);
    const char *reference = kiln_arena_printf(arena, "%s/reference", folder);
    kiln_arena scratch;
    golden_kernel kernel;
    kiln_arena_init(&scratch, 0);
    kiln_status st = find_kernel(device, &scratch, &kernel);
    const bool is_there = !st && kernel.code.size > 0;
    if (is_there) st = kiln_folder_create(folder, 0700);
    if (is_there && !st) st = write_artefact(artefact, &kernel, device, &scratch);
    if (is_there && !st) st = write_reference(reference, &kernel, &scratch);
    kiln_arena_deinit(&scratch);
    if (st) return kiln_status_note(st, "preparing the board's self-check");
    if (!is_there) {
        *out_golden = (kiln_golden){0};
        return NULL;
    }
    /* An earlier start may have used the folder for another device. */
    const char *kind = device ? kiln_payload_name(kiln_payload_of(device->kind)) : NULL;
    const char *memory =
        kiln_arena_printf(arena, "%s/best-ns%s%s", folder, kind ? "-" : "", kind ? kind : "");
    /* Simulated machines of one kind differ in their times. */
    const bool is_timed = !device || !(device->emulated || kernel.vta);
    *out_golden = (kiln_golden){artefact, reference, memory, is_timed, read_memory(memory, arena)};
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

/* The least time of a run, because neighbours can only make runs longer. */
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
                                     0600)); /* the next start then learns it again */
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
                                 "the board's self-check took %.0f ns; its best time was %.0f; if "
                                 "the board is meant to be slower now, remove %s",
                                 run_ns, golden->best_ns, golden->memory);
    if (golden->best_ns == 0 || run_ns < golden->best_ns * 0.98) remember(golden, run_ns, arena);
    return NULL;
}
