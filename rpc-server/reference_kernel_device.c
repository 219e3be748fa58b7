#include "rpc-server/reference_kernel_device.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/gpu.h"
#include "base/macros.h"
#include "base/manifest.h"
#include "base/tensor.h"
#include "deploy/runtime/kernel.h"
#include "rpc-server/timing.h"

#define GROUP 256u          /* threads, as in the texts */
#define GROUPS_OF_A_UNIT 4u /* 1,024 threads hide the latency of operations */
#define WORDS_AT_ONCE 4u    /* read by a thread of the memory part */
#define CHUNK_BYTES ((size_t)1 << 20)
#define SEED UINT64_C(29)
/* Time of a sample while the clock rises. */
#define WARM_SAMPLE_NS UINT64_C(1000000)

/* Events, other than those of measured programs (rpc-server/ex_device.c). */
#define BEGIN 8u
#define DONE 9u

typedef enum reference_part { PART_ARITHMETIC, PART_MEMORY, PART_PEAK } reference_part;

/* A row of reference_kernel_texts.def. */
typedef struct reference_text {
    kiln_payload_kind payload;
    reference_part part;
    kiln_dtype dtype;
    const char *entry;
    double thread_flops;
    const char *head;
    uint32_t repeats;
    const char *body, *tail;
} reference_text;

static const reference_text text_table[] = {
#define X(PAYLOAD, part, DTYPE, entry, thread_flops, head, repeats, body, tail) \
    {KILN_PAYLOAD_##PAYLOAD,                                                    \
     PART_##part,                                                               \
     KILN_##DTYPE,                                                              \
     entry,                                                                     \
     thread_flops,                                                              \
     head,                                                                      \
     repeats,                                                                   \
     body,                                                                      \
     tail},
#include "rpc-server/reference_kernel_texts.def"
#undef X
};

enum { TEXT_COUNT = KILN_ARRAY_COUNT(text_table) };

struct kiln_device_reference {
    kiln_device *device;
    kiln_device_memory x, y;
    uint32_t threads;
    size_t x_bytes, y_bytes;
    /* [row]; NULL: a row for another payload. */
    kiln_kernel *kernel[TEXT_COUNT];
    kiln_call *call[TEXT_COUNT];
};

/* ---- Loading ---- */

static kiln_manifest_arg arg_of(const char *name, kiln_role role, size_t bytes) {
    return (kiln_manifest_arg){.name = kiln_str_from(name),
                               .dtype = KILN_I32,
                               .role = role,
                               .shape = {.rank = 1, .dim = {(int64_t)(bytes / sizeof(uint32_t))}},
                               .fill = KILN_FILL_UNIFORM,
                               .read_by_run = true};
}

static void encode(const kiln_device_reference *reference, const reference_text *text,
                   kiln_strbuf *out_bytes) {
    static const uint32_t all[] = {0, 1};
    kiln_manifest_arg arg[] = {arg_of("x", KILN_ROLE_INPUT, reference->x_bytes),
                               arg_of("y", KILN_ROLE_OUTPUT, reference->y_bytes)};
    kiln_manifest_launch launch = {.phase = KILN_LAUNCH_RUN,
                                   .entry = kiln_str_from(text->entry),
                                   .grid = {reference->threads / GROUP, 1, 1},
                                   .group = {GROUP, 1, 1},
                                   .arg_count = KILN_ARRAY_COUNT(all),
                                   .arg = all};
    kiln_artefact artefact = {
        .manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                     .payload_kind = text->payload,
                     .codegen_version = KILN_STR("reference"),
                     .task_key = KILN_STR("reference"),
                     .algorithm = KILN_STR("direct"),
                     .threads_max = 1,
                     .flops = text->thread_flops * reference->threads,
                     .arg_count = KILN_ARRAY_COUNT(arg),
                     .arg = arg,
                     .launch_count = 1,
                     .launch = &launch},
    };
    kiln_strbuf target = {0}, code = {0};
    kiln_strbuf_text(&code, text->head);
    for (uint32_t i = 0; i < text->repeats; i++) kiln_strbuf_text(&code, text->body);
    kiln_strbuf_text(&code, text->tail);
    artefact.payload = kiln_strbuf_view(&code);
    kiln_target_print(kiln_device_target(reference->device), &target);
    artefact.manifest.target = kiln_strbuf_view(&target);
    kiln_artefact_encode(&artefact, out_bytes);
    kiln_strbuf_deinit(&code);
    kiln_strbuf_deinit(&target);
}

static kiln_status load_text(kiln_device_reference *reference, uint32_t index) {
    kiln_strbuf bytes = {0};
    kiln_kernel **kernel = &reference->kernel[index];
    kiln_call **call = &reference->call[index];
    encode(reference, &text_table[index], &bytes);
    kiln_status st = kiln_kernel_load(kiln_strbuf_view(&bytes), reference->device, kernel);
    if (!st) st = kiln_call_create(*kernel, KILN_GUARD_NONE, call);
    if (!st)
        st = kiln_call_bind_place(*call, 0,
                                  kiln_device_place_at(reference->device, &reference->x, 0),
                                  reference->x_bytes);
    if (!st)
        st = kiln_call_bind_place(*call, 1,
                                  kiln_device_place_at(reference->device, &reference->y, 0),
                                  reference->y_bytes);
    kiln_strbuf_deinit(&bytes);
    return kiln_status_note(st, "the reference kernel %s", text_table[index].entry);
}

/* Not zeros, for which some memories and multipliers are faster. */
static kiln_status fill(const kiln_device_reference *reference) {
    const uint32_t passes =
        (uint32_t)(reference->x_bytes / sizeof(uint32_t) / WORDS_AT_ONCE) / reference->threads;
    uint32_t *chunk = kiln_alloc(CHUNK_BYTES);
    int32_t status = KILN_KERNEL_OK;
    kiln_fill_data(chunk, KILN_I32, CHUNK_BYTES / sizeof *chunk, SEED, KILN_FILL_UNIFORM);
    chunk[0] = passes;
    for (size_t at = 0; !status && at < reference->x_bytes; at += CHUNK_BYTES)
        status = kiln_device_copy(reference->device, KILN_COPY_TO_DEVICE,
                                  kiln_device_place_at(reference->device, &reference->x, at),
                                  kiln_host_place(chunk),
                                  KILN_MIN(CHUNK_BYTES, reference->x_bytes - at));
    kiln_free(chunk);
    return status ? KILN_ERROR(UNAVAILABLE, "filling the reference kernel's memory: %s",
                               kiln_device_error(reference->device))
                  : NULL;
}

/* Chooses enough threads to keep each unit busy, and memory of which each thread reads the same
 * amount. */
static void choose_sizes(kiln_device_reference *reference) {
    const kiln_target *target = kiln_device_target(reference->device);
    const uint64_t cache = target->gpu ? target->gpu->l2_bytes : 0;
    const uint64_t wanted = cache ? KILN_MIN(2 * cache, KILN_REFERENCE_KERNEL_DEVICE_BYTES_MAX)
                                  : KILN_REFERENCE_KERNEL_DEVICE_BYTES;
    reference->threads = KILN_MAX(target->cores, 1) * GROUPS_OF_A_UNIT * GROUP;
    reference->y_bytes = reference->threads * sizeof(uint32_t);
    const size_t pass = reference->y_bytes * WORDS_AT_ONCE;
    reference->x_bytes = (size_t)(wanted + pass - 1) / pass * pass;
}

kiln_status kiln_device_reference_create(kiln_device *device,
                                         kiln_device_reference **out_reference) {
    const kiln_payload_kind payload = kiln_device_row_in(device)->payload;
    uint32_t count = 0;
    for (uint32_t i = 0; i < TEXT_COUNT; i++) count += text_table[i].payload == payload;
    if (count == 0)
        return KILN_ERROR(UNIMPLEMENTED, "there is no reference kernel for devices of kind %s",
                          kiln_device_row_in(device)->name);
    kiln_device_reference *reference = kiln_alloc(sizeof *reference);
    reference->device = device;
    choose_sizes(reference);
    kiln_status st =
        kiln_device_allocate(device, reference->x_bytes, KILN_GUARD_NONE, &reference->x);
    if (!st) st = kiln_device_allocate(device, reference->y_bytes, KILN_GUARD_NONE, &reference->y);
    if (!st) st = fill(reference);
    for (uint32_t i = 0; !st && i < TEXT_COUNT; i++)
        if (text_table[i].payload == payload) st = load_text(reference, i);
    if (st)
        kiln_device_reference_destroy(reference);
    else
        *out_reference = reference;
    return st;
}

void kiln_device_reference_destroy(kiln_device_reference *reference) {
    if (!reference) return;
    for (uint32_t i = 0; i < TEXT_COUNT; i++) {
        kiln_call_destroy(reference->call[i]);
        kiln_kernel_unload(reference->kernel[i]);
    }
    kiln_device_release(reference->device, &reference->x);
    kiln_device_release(reference->device, &reference->y);
    kiln_free(reference);
}

/* ---- Readings ---- */

/* The time of `runs` runs of a row; 0: the device failed, or has no such kernel. */
static uint64_t time_text(const kiln_device_reference *reference, uint32_t index, uint32_t runs) {
    if (!reference->call[index]) return 0;
    int32_t status = kiln_device_record(reference->device, BEGIN);
    for (uint32_t i = 0; !status && i < runs; i++)
        status = kiln_call_run(reference->call[index], NULL);
    if (!status) status = kiln_device_record(reference->device, DONE);
    if (!status) status = kiln_device_wait(reference->device, DONE);
    return status ? 0 : kiln_device_elapsed_ns(reference->device, BEGIN, DONE);
}

/* The only row of a part for this device. */
static uint32_t row_of(const kiln_device_reference *reference, reference_part part) {
    uint32_t index = 0;
    while (!reference->call[index] || text_table[index].part != part) index++;
    return index;
}

static double time_part(const kiln_device_reference *reference, reference_part part) {
    return (double)time_text(reference, row_of(reference, part), 1);
}

kiln_reference_kernel_times kiln_device_reference_take(kiln_device_reference *reference) {
    const double arithmetic_ns = time_part(reference, PART_ARITHMETIC);
    return (kiln_reference_kernel_times){arithmetic_ns, time_part(reference, PART_MEMORY)};
}

static kiln_timing_spent work(void *context, uint32_t runs) {
    kiln_device_reference *reference = context;
    return (kiln_timing_spent){.elapsed_ns =
                                   time_text(reference, row_of(reference, PART_ARITHMETIC), runs)};
}

static void warm_up(kiln_device_reference *reference) {
    const kiln_timing_source source = {.run = work, .context = reference, .overhead_ns = 1};
    const kiln_msg_policy policy = {.sample_ns = WARM_SAMPLE_NS};
    (void)kiln_timing_warm_up(&source, &policy, (uint64_t)time_part(reference, PART_ARITHMETIC),
                              &KILN_TIMING_WARM_DEVICE);
}

/* Operations per second of a row; 0: it counts none, or failed. */
static double flops_of(const kiln_device_reference *reference, uint32_t index) {
    const uint64_t ns = time_text(reference, index, 1);
    return ns ? text_table[index].thread_flops * reference->threads / (double)ns * 1e9 : 0;
}

kiln_reference_kernel_round kiln_device_reference_measure(kiln_device_reference *reference) {
    kiln_reference_kernel_round round = {0};
    warm_up(reference);
    kiln_clock_wait_until(kiln_clock_ns() + KILN_REFERENCE_KERNEL_PAUSE_NS);
    round.reading[KILN_REFERENCE_KERNEL_AFTER_PAUSE] = kiln_device_reference_take(reference);
    for (uint32_t i = 0; i < TEXT_COUNT; i++)
        if (reference->call[i] && text_table[i].part != PART_MEMORY)
            round.dtype_flops[text_table[i].dtype] = flops_of(reference, i);
    round.peak_flops = round.dtype_flops[KILN_F32];
    round.reading[KILN_REFERENCE_KERNEL_AFTER_ARITHMETIC] = kiln_device_reference_take(reference);
    (void)time_part(reference, PART_MEMORY);
    round.reading[KILN_REFERENCE_KERNEL_AFTER_MEMORY] = kiln_device_reference_take(reference);
    round.reading[KILN_REFERENCE_KERNEL_AFTER_READING] = kiln_device_reference_take(reference);
    return round;
}
