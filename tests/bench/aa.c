/* bench-aa MODEL.onnx RPC-SERVER TUNER KERNELS REPEATS: measures identical artefacts again and
 * again, in an order of chance, as the board does, and counts how often a difference is seen where
 * there is none.
 *
 *     alone     pairs of measurements of one artefact whose 95 % intervals do not meet
 *     in turns  finals in which an artefact stands against itself and is called really faster
 *
 * Prints a JSON object. Neither share should be above 0.05. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rand.h"
#include "base/stats.h"
#include "compiler-core/core.h"
#include "rpc-server/board.h"
#include "rpc-server/cage.h"
#include "tuner/finalist.h"
#include "tuner/measure/builder.h"

#define KERNELS_MAX 16u
#define REPEATS_MAX 200u
#define SEED 7u
#define WORK_DEADLINE_NS UINT64_C(120000000000)

typedef struct measurement {
    double median_ns, low_ns, high_ns, drift;
    bool out_of_band;
} measurement;

typedef struct bench {
    kiln_arena arena;
    kiln_loop *loop;
    kiln_builders *builders;
    kiln_cages *cages;
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
    b->reply.task_count = reply->task_count;
    if (reply->task_count == 0) return;
    b->reply.task = KILN_ARENA_NEW(&b->arena, kiln_work_task);
    b->reply.task->key = keep(&b->arena, reply->task->key);
    b->reply.task->te = keep(&b->arena, reply->task->te);
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

/* The reference and `count` artefacts of the model's first task: the default and samples of its
 * space. */
static void build_all(bench *b, const char *model, uint32_t count, const char **out_artefact,
                      const char **out_reference) {
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
    request.te = b->reply.task->te;
    request.task_key = b->reply.task->key;
    request.work = KILN_WORK_REFERENCE;
    ask(b, &request, "the reference");
    *out_reference = write_blob(b, "reference", 0, b->reply.bytes);

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
                out_artefact[built] = write_blob(b, "artefact", built, b->reply.bytes), built++;
        }
        kiln_status_free(refused); /* drawn again */
        kiln_strbuf_deinit(&bytes);
    }
    kiln_strbuf_deinit(&text);
}

/* ---- measuring ---- */

static void on_loaded(void *context, uint32_t slot, uint64_t run) {
    bench *b = context;
    kiln_cages_time(b->cages, slot, run);
}

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

static const kiln_cage_handler handler = {on_loaded, on_phase, on_vacated, on_finished, on_died};

static void measure(bench *b, const kiln_cage_blobs *blobs, const kiln_msg_policy *policy) {
    static uint64_t run;
    const kiln_msg_trial trial = {.seed = SEED, .policy = *policy};
    b->done = false;
    kiln_cages_start(b->cages, 0, ++run, &trial, blobs);
    while (!b->done && kiln_loop_run_once(b->loop)) {}
    if (b->result.outcome != KILN_OUTCOME_OK)
        give_up("a measurement", kiln_str_dup(&b->arena, b->result.text));
}

static measurement read_result(const kiln_msg_trial_result *result) {
    double sample[1024];
    for (uint32_t i = 0; i < result->samples_ns.count; i++)
        sample[i] = (double)result->samples_ns.item[i] / result->runs;
    kiln_stats stats = kiln_stats_of(sample, result->samples_ns.count);
    return (measurement){stats.median, stats.low, stats.high, result->drift, result->out_of_band};
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Pairs called different among measurements that are in band, and all such pairs. */
static void count_pairs(const measurement *m, uint32_t count, uint32_t *out_different,
                        uint32_t *out_pairs) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++) {
            if (m[i].out_of_band || m[j].out_of_band) continue;
            *out_different += m[i].low_ns > m[j].high_ns || m[j].low_ns > m[i].high_ns;
            ++*out_pairs;
        }
}

static void open_bench(bench *b, char **argv) {
    char *folder = NULL;
    kiln_arena_init(&b->arena, 0);
    must(kiln_folder_create_temp("kiln-aa", &b->arena, &folder), "a folder");
    b->folder = folder;
    must(kiln_loop_create(&b->loop), "the loop");
    b->builders = kiln_builders_create(
        b->loop, &(kiln_builders_options){.program = argv[3], .worker_count = 1});
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    const uint32_t core_count = kiln_board_cores(core, KILN_EXECUTOR_CORES_MAX);
    must(kiln_slots_share(core, core_count, 1, "/sys/devices/system", &b->slots), "a slot");
    kiln_slots_leave(&b->slots);
    const kiln_cage_options options = {.loop = b->loop,
                                       .program = argv[2],
                                       .folder = kiln_arena_printf(&b->arena, "%s/run", folder),
                                       .slots = &b->slots,
                                       .handler = &handler,
                                       .context = b};
    must(kiln_cages_create(&options, &b->cages), "the cages");
}

static void close_bench(bench *b) {
    kiln_cages_destroy(b->cages);
    kiln_builders_destroy(b->builders);
    kiln_loop_destroy(b->loop);
    kiln_status_free(
        kiln_folder_remove(b->folder)); /* a temporary folder that stays harms nobody */
    kiln_arena_deinit(&b->arena);
}

int main(int argc, char **argv) {
    static const kiln_msg_policy search = {5, 20, 0.01, 1000000, 50000000};
    static const kiln_msg_policy final = {10, 40, 0.005, 1000000, 100000000};
    static measurement m[KERNELS_MAX][REPEATS_MAX];
    bench b = {0};
    if (argc != 6) give_up("usage", "bench-aa MODEL RPC-SERVER TUNER KERNELS REPEATS");
    uint32_t kernels = (uint32_t)strtoul(argv[4], NULL, 10), different = 0, pairs = 0, out = 0;
    uint32_t repeats = (uint32_t)strtoul(argv[5], NULL, 10), faster = 0, finals = 0;
    if (kernels < 1 || kernels > KERNELS_MAX || repeats < 2 || repeats > REPEATS_MAX)
        give_up("usage", "1 to 16 kernels, 2 to 200 repeats");
    const char *artefact[KERNELS_MAX], *reference = NULL;
    open_bench(&b, argv);
    build_all(&b, argv[1], kernels, artefact, &reference);

    double spread[KERNELS_MAX], medians[REPEATS_MAX];
    kiln_rand rand;
    kiln_rand_init(&rand, SEED);
    for (uint32_t r = 0; r < repeats; r++) {
        uint32_t first = (uint32_t)kiln_rand_below(&rand, kernels);
        for (uint32_t i = 0; i < kernels; i++) {
            uint32_t k = (first + i) % kernels;
            measure(&b, &(kiln_cage_blobs){reference, 1, {artefact[k]}}, &search);
            m[k][r] = read_result(&b.result);
            out += m[k][r].out_of_band;
        }
        uint32_t k = r % kernels;
        measure(&b, &(kiln_cage_blobs){reference, 2, {artefact[k], artefact[k]}}, &final);
        faster += kiln_tuner_standing_of(&b.result, 1).gain_low > 1;
        finals++;
    }
    for (uint32_t k = 0; k < kernels; k++) {
        count_pairs(m[k], repeats, &different, &pairs);
        for (uint32_t r = 0; r < repeats; r++) medians[r] = m[k][r].median_ns;
        qsort(medians, repeats, sizeof medians[0], by_value);
        spread[k] = medians[repeats * 9 / 10] / medians[repeats / 10] - 1;
    }
    printf("{\"event\":\"aa\",\"kernels\":%u,\"repeats\":%u,\"pairs\":%u,\"different\":%u,"
           "\"share\":%.4g,\"out_of_band\":%u,\"spread\":%.4g,\"finals\":%u,\"faster\":%u}\n",
           kernels, repeats, pairs, different, pairs ? (double)different / pairs : 0.0, out,
           kiln_stats_median(spread, kernels), finals, faster);
    close_bench(&b);
    return 0;
}
