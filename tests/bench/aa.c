/* bench-aa RPC-SERVER TUNER KERNELS REPEATS MODEL SLOWER.onnx...: measures artefacts again and
 * again, in an order of chance, as the board does, and counts how often a difference is seen
 *
 *     alone     between two measurements of one artefact, where there is none
 *     in turns  in finals in which an artefact stands against itself and is called really faster
 *     power     between the default schedules of MODEL and of each SLOWER, which does more work
 *
 * of those in band. KERNELS artefacts of MODEL, its default first. Prints a JSON object. The first
 * two shares should not be above 0.05; what the last shows is what that costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/manifest.h"
#include "base/rand.h"
#include "base/reading.h"
#include "base/stats.h"
#include "compiler-core/core.h"
#include "compiler-core/worker/builder.h"
#include "rpc-server/board.h"
#include "rpc-server/supervisor.h"
#include "tuner/finalist.h"

#define KERNELS_MAX 16u /* of all models */
#define REPEATS_MAX 200u
#define SEED 7u
#define WORK_DEADLINE_NS UINT64_C(120000000000)

typedef struct measurement {
    kiln_reading reading;
    bool out_of_band;
} measurement;

typedef struct subject {
    const char *path, *reference;
    double flops;
    measurement m[REPEATS_MAX];
} subject;

typedef struct bench {
    kiln_arena arena;
    kiln_loop *loop;
    kiln_builders *builders;
    kiln_helper *helper;
    kiln_supervisor *supervisor;
    const char *folder;
    kiln_slots slots;
    /* Of what is waited for. */
    bool done;
    kiln_work_reply reply;
    kiln_msg_trial_result result;
    const char *failure;
} bench;

static void give_up(const char *what, const char *why) {
    fprintf(stderr, "bench-aa: %s: %s\n", what, why);
    exit(1);
}

static void must(kiln_status st, const char *what) {
    if (st) give_up(what, kiln_status_text(st));
}

/* ---- building ---- */

static kiln_str keep(kiln_arena *arena, kiln_str text) {
    return (kiln_str){kiln_arena_copy(arena, text.data, text.size), text.size};
}

static void on_work(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                    const char *text) {
    bench *b = context;
    (void)outcome;
    b->done = true;
    if (!reply || reply->code) {
        b->failure = kiln_str_dup(&b->arena, reply ? reply->text : kiln_str_from(text));
        return;
    }
    b->reply.bytes = keep(&b->arena, reply->bytes);
}

static void ask(bench *b, const kiln_work_request *request, const char *what) {
    b->done = false;
    b->failure = NULL;
    kiln_builders_submit(b->builders, request, false, WORK_DEADLINE_NS, on_work, b);
    while (!b->done && kiln_loop_run_once(b->loop)) {}
    if (b->failure) give_up(what, b->failure);
}

static const char *write_blob(bench *b, const char *name, uint32_t number, kiln_str bytes) {
    const char *path = kiln_arena_printf(&b->arena, "%s/%s%u", b->folder, name, number);
    must(kiln_file_write(path, bytes, 0600), path);
    return path;
}

static double flops_of(bench *b, kiln_str bytes) {
    kiln_artefact artefact;
    must(kiln_artefact_decode(bytes, &b->arena, &artefact), "an artefact");
    return artefact.manifest.flops;
}

/* `count` artefacts of the model's first task: the default and samples of its space. */
static void build_all(bench *b, const char *model, uint32_t count, subject *out) {
    static uint32_t number;
    kiln_target target;
    kiln_strbuf text = {0};
    kiln_program *te = NULL;
    kiln_space space;
    must(kiln_target_native(&b->arena, &target), "this machine");
    kiln_target_print(&target, &text);
    kiln_work_request request = {.work = KILN_WORK_TASKS,
                                 .target = kiln_strbuf_view(&text),
                                 .model_path = kiln_str_from(model),
                                 .seed = SEED};
    ask(b, &request, model);
    kiln_compilation *compilation = NULL;
    kiln_strbuf expression = {0};
    must(kiln_compilation_decode(b->reply.bytes, &b->arena, &compilation), "its tasks");
    kiln_program_print(compilation->searched.task->te, &expression);
    request.te = kiln_str_from(kiln_str_dup(&b->arena, kiln_strbuf_view(&expression)));
    request.task_key = compilation->searched.task->key;
    kiln_strbuf_deinit(&expression);
    request.work = KILN_WORK_REFERENCE;
    ask(b, &request, "the reference");
    const char *reference = write_blob(b, "reference", ++number, b->reply.bytes);

    must(kiln_program_parse(request.te, &b->arena, &te), "the task");
    must(kiln_space_create(te, &target, &b->arena, &space), "its space");
    kiln_rand rand;
    kiln_rand_init(&rand, SEED);
    request.work = KILN_WORK_BUILD;
    for (uint32_t built = 0; built < count;) {
        kiln_trace trace;
        kiln_program *program = NULL;
        kiln_strbuf bytes = {0};
        kiln_status st = built ? kiln_space_sample(&space, &rand, &b->arena, &trace, &program)
                               : kiln_space_default(&space, &b->arena, &trace, &program);
        kiln_status refused = st;
        if (!st) {
            kiln_trace_encode(&trace, &bytes);
            request.trace = kiln_strbuf_view(&bytes);
            b->done = false;
            b->failure = NULL;
            kiln_builders_submit(b->builders, &request, false, WORK_DEADLINE_NS, on_work, b);
            while (!b->done && kiln_loop_run_once(b->loop)) {}
            if (!b->failure)
                out[built++] =
                    (subject){.path = write_blob(b, "artefact", ++number, b->reply.bytes),
                              .reference = reference,
                              .flops = flops_of(b, b->reply.bytes)};
        }
        kiln_status_free(refused); /* drawn again */
        kiln_strbuf_deinit(&bytes);
    }
    kiln_strbuf_deinit(&text);
}

/* ---- measuring ---- */

static void on_phase(void *context, uint32_t slot, uint64_t run, kiln_phase phase) {
    (void)context, (void)slot, (void)run, (void)phase;
}

static void on_vacated(void *context, uint32_t slot, uint64_t run) {
    (void)context, (void)slot, (void)run;
}

static void on_finished(void *context, uint32_t slot, uint64_t run,
                        const kiln_msg_trial_result *result) {
    (void)slot, (void)run;
    bench *b = context;
    kiln_message copy = kiln_message_copy(
        &(kiln_message){.type = KILN_MSG_TRIAL_RESULT, .trial_result = *result}, &b->arena);
    b->result = copy.trial_result;
    b->done = true;
}

static void on_died(void *context, uint32_t slot, uint64_t run, const char *text) {
    (void)context, (void)slot, (void)run;
    give_up("a measurement died", text);
}

static const kiln_supervisor_handler handler = {NULL, on_phase, on_vacated, on_finished, on_died};

static void measure(bench *b, const kiln_supervisor_blobs *blobs, const kiln_msg_policy *policy) {
    static uint64_t run;
    const kiln_msg_trial trial = {.seed = SEED, .policy = *policy};
    b->done = false;
    kiln_supervisor_start(b->supervisor, 0, ++run, &trial, blobs);
    while (!b->done && kiln_loop_run_once(b->loop)) {}
    if (b->result.outcome != KILN_OUTCOME_OK)
        give_up("a measurement", kiln_str_dup(&b->arena, b->result.text));
}

static measurement read_result(const kiln_msg_trial_result *result, double flops) {
    double sample[1024];
    for (uint32_t i = 0; i < result->samples_ns.count; i++)
        sample[i] = (double)result->samples_ns.item[i] / result->runs;
    const kiln_samples samples = {.ns = sample,
                                  .count = result->samples_ns.count,
                                  .again = result->again,
                                  .drift = {result->drift, result->drift_memory},
                                  .flops = flops,
                                  .peak_flops = result->peak_flops};
    return (measurement){kiln_reading_of(&samples), result->out_of_band};
}

/* Pairs that were asked about, and how many were called different. */
typedef struct tally {
    uint32_t different, pairs;
} tally;

static void count_pair(const measurement *a, const measurement *b, tally *t) {
    if (a->out_of_band || b->out_of_band) return;
    t->different += kiln_reading_differs(&a->reading, &b->reading);
    t->pairs++;
}

static void count_alike(const subject *a, uint32_t repeats, tally *t) {
    for (uint32_t i = 0; i < repeats; i++)
        for (uint32_t j = i + 1; j < repeats; j++) count_pair(&a->m[i], &a->m[j], t);
}

static tally count_unlike(const subject *a, const subject *b, uint32_t repeats) {
    tally t = {0};
    for (uint32_t i = 0; i < repeats; i++)
        for (uint32_t j = 0; j < repeats; j++) count_pair(&a->m[i], &b->m[j], &t);
    return t;
}

/* Times in band, in `out_ns`, and half the interval of each in `out_doubt`. */
static uint32_t times_of(const subject *a, uint32_t repeats, double *out_ns, double *out_doubt) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < repeats; r++) {
        if (a->m[r].out_of_band) continue;
        out_doubt[count] = a->m[r].reading.doubt;
        out_ns[count++] = a->m[r].reading.time_ns;
    }
    return count;
}

/* Median of all its times, and how far nine in ten and one in ten of them are apart. */
static double middle_of(const subject *a, uint32_t repeats, double *out_spread, double *out_doubt) {
    double ns[REPEATS_MAX], doubt[REPEATS_MAX];
    const uint32_t count = times_of(a, repeats, ns, doubt);
    *out_spread = *out_doubt = 0;
    if (count == 0) return 0;
    *out_spread = kiln_stats_quantile(ns, count, 0.9) / kiln_stats_quantile(ns, count, 0.1) - 1;
    *out_doubt = kiln_stats_median(doubt, count);
    return kiln_stats_median(ns, count);
}

static double share_of(tally t) { return t.pairs ? (double)t.different / t.pairs : 0; }

static void open_bench(bench *b, char **argv) {
    char *folder = NULL;
    kiln_arena_init(&b->arena, 0);
    must(kiln_folder_create_temp("kiln-aa", &b->arena, &folder), "a folder");
    b->folder = folder;
    must(kiln_loop_create(&b->loop), "the loop");
    b->builders = kiln_builders_create(
        b->loop, &(kiln_builders_options){.program = argv[2], .worker_count = 1});
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    const uint32_t core_count = kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    must(kiln_slots_share(core, core_count, 1, "/sys/devices/system", &b->slots), "a slot");
    kiln_slots_leave(&b->slots);
    must(kiln_helper_open(&(kiln_helper_options){.program = argv[1]}, &b->helper), "the helper");
    const kiln_supervisor_options options = {.loop = b->loop,
                                             .helper = b->helper,
                                             .folder =
                                                 kiln_arena_printf(&b->arena, "%s/run", folder),
                                             .slots = &b->slots,
                                             .handler = &handler,
                                             .context = b};
    must(kiln_supervisor_create(&options, &b->supervisor), "the supervisor");
}

static void close_bench(bench *b) {
    kiln_supervisor_destroy(b->supervisor);
    kiln_helper_close(b->helper);
    kiln_builders_destroy(b->builders);
    kiln_loop_destroy(b->loop);
    kiln_status_free(
        kiln_folder_remove(b->folder)); /* a temporary folder that stays harms nobody */
    kiln_arena_deinit(&b->arena);
}

/* One measurement of each artefact, in an order of chance, and one final of an artefact against
 * itself. */
static void measure_round(bench *b, subject *a, uint32_t count, uint32_t round, kiln_rand *rand,
                          tally *finals) {
    static const kiln_msg_policy search = {5, 20, 0.01, 1000000, 50000000};
    const uint32_t first = (uint32_t)kiln_rand_below(rand, count);
    for (uint32_t i = 0; i < count; i++) {
        subject *one = &a[(first + i) % count];
        measure(b, &(kiln_supervisor_blobs){one->reference, 1, {one->path}, false}, &search);
        one->m[round] = read_result(&b->result, one->flops);
    }
    const subject *self = &a[round % count];
    measure(b, &(kiln_supervisor_blobs){self->reference, 2, {self->path, self->path}, false},
            &kiln_tuner_final_policy);
    finals->different += kiln_tuner_standing_of(&b->result, 1).gain_low > 1;
    finals->pairs++;
}

static void report(const subject *a, uint32_t kernels, uint32_t slower, uint32_t repeats,
                   tally finals) {
    double spread[KERNELS_MAX], doubt[KERNELS_MAX], ns[KERNELS_MAX];
    tally alike = {0};
    uint32_t out = 0;
    for (uint32_t k = 0; k < kernels + slower; k++) {
        count_alike(&a[k], repeats, &alike);
        ns[k] = middle_of(&a[k], repeats, &spread[k], &doubt[k]);
        for (uint32_t r = 0; r < repeats; r++) out += a[k].m[r].out_of_band;
    }
    printf("{\"event\":\"aa\",\"measurements\":%u,\"out_of_band\":%u,\"pairs\":%u,"
           "\"different\":%u,\"share\":%.4g,\"spread\":%.4g,\"doubt\":%.4g,\"finals\":%u,"
           "\"faster\":%u,\"finals_share\":%.4g,\"power\":[",
           (kernels + slower) * repeats, out, alike.pairs, alike.different, share_of(alike),
           kiln_stats_median(spread, kernels + slower), kiln_stats_median(doubt, kernels + slower),
           finals.pairs, finals.different, share_of(finals));
    for (uint32_t k = kernels; k < kernels + slower; k++) {
        const tally unlike = count_unlike(&a[0], &a[k], repeats);
        printf("%s{\"slower\":%.4g,\"pairs\":%u,\"different\":%u,\"share\":%.4g}",
               k > kernels ? "," : "", ns[0] > 0 ? ns[k] / ns[0] - 1 : 0, unlike.pairs,
               unlike.different, share_of(unlike));
    }
    printf("]}\n");
}

int main(int argc, char **argv) {
    static subject a[KERNELS_MAX];
    bench b = {0};
    if (argc < 6)
        give_up("usage", "bench-aa RPC-SERVER TUNER KERNELS REPEATS MODEL SLOWER.onnx...");
    const uint32_t kernels = (uint32_t)strtoul(argv[3], NULL, 10), slower = (uint32_t)argc - 6;
    const uint32_t repeats = (uint32_t)strtoul(argv[4], NULL, 10);
    if (kernels < 1 || kernels + slower > KERNELS_MAX || repeats < 2 || repeats > REPEATS_MAX)
        give_up("usage", "1 to 16 kernels, 2 to 200 repeats");
    open_bench(&b, argv);
    build_all(&b, argv[5], kernels, a);
    for (uint32_t i = 0; i < slower; i++) build_all(&b, argv[6 + i], 1, &a[kernels + i]);

    tally finals = {0};
    kiln_rand rand;
    kiln_rand_init(&rand, SEED);
    for (uint32_t r = 0; r < repeats; r++)
        measure_round(&b, a, kernels + slower, r, &rand, &finals);
    report(a, kernels, slower, repeats, finals);
    close_bench(&b);
    return 0;
}
