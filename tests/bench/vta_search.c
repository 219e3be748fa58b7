/* How near searches come to the best of all schedules, on layers whose spaces are small enough to
 * simulate every one:
 *
 *     bench-vta-search log CONFIG LAYER    all schedules of a layer with their times, as a log
 *     bench-vta-search search LOG...       what searches find in these spaces, one log a layer
 *
 * Logs are the text of tests/replay/log.h. Times are cycles, so nothing is by chance but
 * what seeds say. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/replay/pool.h"
#include "tests/support/sign_test.h"
#include "tests/support/vta_tuning.h"

#define SEEDS 10u
#define COLD 48u
#define WARM 8u

static void must(kiln_status st, const char *what) {
    if (!st) return;
    fprintf(stderr, "bench-vta-search: %s: %s\n", what, kiln_status_text(st));
    exit(1);
}

/* ---- all schedules of a layer ---- */

/* The sketch that the index-th trace of a space closes. */
static uint32_t sketch_of(const kiln_space *space, uint64_t index) {
    uint32_t sketch = 0;
    while ((double)index >= space->sketch[sketch].size)
        index -= (uint64_t)space->sketch[sketch++].size;
    return sketch;
}

/* Simulates every legal trace; the default schedule comes first. Traces live in `arena`. */
static void simulate_all(const kiln_vta_tuning *t, kiln_arena *arena, kiln_replay_log *log) {
    kiln_trace first, trace;
    kiln_program *program;
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 20);
    must(kiln_space_default(&t->space, arena, &first, &program), "the default schedule");
    log->trial = KILN_ARENA_ARRAY(arena, kiln_replay_trial, t->count);
    for (uint32_t i = 0; i < t->count; i++) {
        const uint64_t index = t->candidate[i].index;
        kiln_vta_compiled made;
        kiln_status st = kiln_vta_tuning_at(t, index, &scratch, &trace, &made);
        kiln_replay_trial *trial = &log->trial[log->trial_count++];
        *trial = (kiln_replay_trial){.outcome = st ? KILN_OUTCOME_BUILD_ERROR : KILN_OUTCOME_OK,
                                     .sketch = sketch_of(&t->space, index),
                                     .trace = kiln_trace_copy(&trace, arena)};
        if (!st) trial->median_ns = (double)made.timing.cycles * 1e3 / t->target.vta.clock_mhz;
        kiln_status_free(st);
        kiln_arena_reset(&scratch);
        if (kiln_trace_distance(&trial->trace, &first) > 0) continue;
        const kiln_replay_trial swapped = log->trial[0];
        log->trial[0] = *trial;
        *trial = swapped;
    }
    kiln_arena_deinit(&scratch);
}

static void print_log(const char *machine, const char *name) {
    kiln_vta_layer layer[KILN_VTA_LAYERS_MAX];
    const uint32_t layers = kiln_vta_layers_resnet(false, layer);
    uint32_t i = 0;
    kiln_arena arena;
    kiln_vta_config config;
    kiln_vta_tuning tuning;
    kiln_strbuf program = {0}, target = {0}, text = {0};
    while (i < layers && strcmp(layer[i].name, name)) i++;
    must(i < layers ? KILN_OK : KILN_ERROR(NOT_FOUND, "there is no such layer"), name);
    kiln_arena_init(&arena, 0);
    must(kiln_vta_config_parse(kiln_str_from(machine), &config), machine);
    must(kiln_vta_tuning_create(&layer[i], &config, &arena, &tuning), name);
    kiln_program_print(tuning.te, &program);
    kiln_target_print(&tuning.target, &target);
    kiln_replay_log log = {.op = kiln_str_from(name),
                           .key = kiln_task_key(tuning.te, &arena),
                           .target = kiln_strbuf_view(&target),
                           .codegen = kiln_str_from(kiln_codegen_version()),
                           .program = kiln_strbuf_view(&program),
                           .sketch_count = tuning.space.sketch_count};
    log.sketch = KILN_ARENA_ARRAY(&arena, kiln_trace, log.sketch_count);
    for (uint32_t s = 0; s < log.sketch_count; s++) log.sketch[s] = tuning.space.sketch[s].open;
    simulate_all(&tuning, &arena, &log);
    kiln_replay_log_print(&log, &text);
    fwrite(text.data, 1, text.size, stdout);
    kiln_strbuf_deinit(&program);
    kiln_strbuf_deinit(&target);
    kiln_strbuf_deinit(&text);
    kiln_arena_deinit(&arena);
}

/* ---- searches ---- */

typedef struct layer_space {
    kiln_replay_log log;
    kiln_replay_pool *pool;
    double best_ns, default_ns, rank_correlation;
    /* Slower than the best by so much: [seed]. */
    double cold_16[SEEDS], cold_32[SEEDS], cold[SEEDS], warm[SEEDS];
    double random_16[SEEDS], random_32[SEEDS];
} layer_space;

/* Ranks of `value` [count], those of equals alike. */
static void rank(const double *value, uint32_t count, double *out_rank) {
    for (uint32_t i = 0; i < count; i++) {
        out_rank[i] = 0;
        for (uint32_t k = 0; k < count; k++)
            out_rank[i] += value[k] < value[i] ? 1 : value[k] == value[i] ? 0.5 : 0;
    }
}

static double correlation(const double *a, const double *b, uint32_t count) {
    double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (uint32_t i = 0; i < count; i++) {
        mean_a += a[i] / count;
        mean_b += b[i] / count;
    }
    for (uint32_t i = 0; i < count; i++) {
        ab += (a[i] - mean_a) * (b[i] - mean_b);
        aa += (a[i] - mean_a) * (a[i] - mean_a);
        bb += (b[i] - mean_b) * (b[i] - mean_b);
    }
    return ab / sqrt(aa * bb);
}

/* Spearman's, of the analytic model's predictions with the simulator's times. */
static double judge_prediction(const kiln_replay_log *log, kiln_arena *arena) {
    double *predicted = KILN_ARENA_ARRAY(arena, double, log->trial_count),
           *measured = KILN_ARENA_ARRAY(arena, double, log->trial_count),
           *rank_of_predicted = KILN_ARENA_ARRAY(arena, double, log->trial_count),
           *rank_of_measured = KILN_ARENA_ARRAY(arena, double, log->trial_count);
    kiln_program *te = NULL, *program = NULL;
    kiln_target target;
    kiln_arena scratch;
    uint32_t count = 0;
    kiln_arena_init(&scratch, (size_t)1 << 20);
    must(kiln_program_parse(log->program, arena, &te), "program");
    must(kiln_target_parse(log->target, arena, &target), "target");
    const kiln_feature_set *features = kiln_features_of(&target);
    float *vector = KILN_ARENA_ARRAY(arena, float, features->count);
    for (uint32_t i = 0; i < log->trial_count; i++) {
        const kiln_replay_trial *trial = &log->trial[i];
        if (trial->outcome != KILN_OUTCOME_OK) continue;
        must(kiln_trace_replay(&trial->trace, te, NULL, &scratch, &program, NULL), "trace");
        features->compute(program, &target, &scratch, vector);
        predicted[count] = (double)vector[features->predicted_ns];
        measured[count++] = trial->median_ns;
        kiln_arena_reset(&scratch);
    }
    kiln_arena_deinit(&scratch);
    rank(predicted, count, rank_of_predicted);
    rank(measured, count, rank_of_measured);
    return correlation(rank_of_predicted, rank_of_measured, count);
}

static layer_space load(const char *path, kiln_arena *arena) {
    layer_space s = {0};
    kiln_str text;
    must(kiln_file_read(path, (size_t)16 << 20, arena, &text), path);
    must(kiln_replay_log_parse(text, arena, &s.log), path);
    must(kiln_replay_pool_create(&s.log, KILN_MODEL_XGBOOST, &s.pool), path);
    if (kiln_replay_pool_count(s.pool) != s.log.trial_count)
        must(KILN_ERROR(FAILED_PRECONDITION, "not every trace replays"), path);
    s.best_ns = kiln_replay_pool_best_ns(s.pool);
    s.default_ns = s.log.trial[0].median_ns;
    s.rank_correlation = judge_prediction(&s.log, arena);
    return s;
}

static double slower(const layer_space *s, double ns) { return ns / s->best_ns - 1; }

/* What a tuner's database would hold of the layer after the search. */
static kiln_replay_pool *tried_part(const layer_space *s, const uint32_t *tried, uint32_t count) {
    kiln_replay_pool *part = NULL;
    kiln_replay_trial trial[COLD];
    kiln_replay_log log = s->log;
    for (uint32_t i = 0; i < count; i++) trial[i] = s->log.trial[tried[i]];
    log.trial = trial;
    log.trial_count = count;
    must(kiln_replay_pool_create(&log, KILN_MODEL_XGBOOST, &part), "what was tried");
    return part;
}

/* All layers with one seed: cold, by chance, and then warm, each layer after all others. */
static void search_all(layer_space *space, uint32_t count, uint32_t seed, kiln_arena *arena) {
    kiln_replay_pool **part = KILN_ARENA_ARRAY(arena, kiln_replay_pool *, count),
                     **others = KILN_ARENA_ARRAY(arena, kiln_replay_pool *, count);
    double best[COLD];
    for (uint32_t i = 0; i < count; i++) {
        layer_space *s = &space[i];
        kiln_replay_options options = {
            .kind = KILN_SEARCHER_SA, .seed = seed + 1, .whole_space = true};
        uint32_t tried[COLD], tried_count = 0;
        must(kiln_replay_pool_search(s->pool, &options, COLD, best, tried, &tried_count), "cold");
        s->cold_16[seed] = slower(s, best[15]);
        s->cold_32[seed] = slower(s, best[31]);
        s->cold[seed] = slower(s, best[COLD - 1]);
        part[i] = tried_part(s, tried, tried_count);
        options.kind = KILN_SEARCHER_RANDOM;
        must(kiln_replay_pool_search(s->pool, &options, 32, best, NULL, NULL), "random");
        s->random_16[seed] = slower(s, best[15]);
        s->random_32[seed] = slower(s, best[31]);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t known = 0;
        for (uint32_t k = 0; k < count; k++)
            if (k != i) others[known++] = part[k];
        const kiln_replay_options options = {.kind = KILN_SEARCHER_SA,
                                             .seed = seed + 1,
                                             .whole_space = true,
                                             .known = others,
                                             .known_count = known};
        must(kiln_replay_pool_search(space[i].pool, &options, WARM, best, NULL, NULL), "warm");
        space[i].warm[seed] = slower(&space[i], best[WARM - 1]);
    }
    for (uint32_t i = 0; i < count; i++) kiln_replay_pool_destroy(part[i]);
}

/* ---- the table ---- */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median and worst of the seeds, in per cent. */
static void print_gaps(const double gap[SEEDS]) {
    double sorted[SEEDS];
    memcpy(sorted, gap, sizeof sorted);
    qsort(sorted, SEEDS, sizeof *sorted, by_size);
    printf("  %5.2f %5.2f", 50 * (sorted[SEEDS / 2 - 1] + sorted[SEEDS / 2]),
           100 * sorted[SEEDS - 1]);
}

static void print_layer(const layer_space *s) {
    printf("%-5.*s %6u %9.1f %6.3f %8.2f", KILN_STR_ARG(s->log.op), s->log.trial_count,
           s->best_ns / 1e3, s->rank_correlation, 100 * slower(s, s->default_ns));
    print_gaps(s->cold);
    print_gaps(s->warm);
    print_gaps(s->cold_16);
    print_gaps(s->random_16);
    print_gaps(s->cold_32);
    print_gaps(s->random_32);
    printf("\n");
}

typedef const double *(*column)(const layer_space *s);
static const double *cold_16(const layer_space *s) { return s->cold_16; }
static const double *cold_32(const layer_space *s) { return s->cold_32; }
static const double *random_16(const layer_space *s) { return s->random_16; }
static const double *random_32(const layer_space *s) { return s->random_32; }

/* Random search is further from the best than ours: over layers and seeds, and over seeds alone,
 * with the mean of all layers. */
static void print_chance(const char *name, const layer_space *space, uint32_t count, column chance,
                         column ours, kiln_arena *arena) {
    double *a = KILN_ARENA_ARRAY(arena, double, count *SEEDS),
           *b = KILN_ARENA_ARRAY(arena, double, count *SEEDS), mean_a[SEEDS] = {0},
           mean_b[SEEDS] = {0};
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t s = 0; s < SEEDS; s++) {
            a[i * SEEDS + s] = chance(&space[i])[s];
            b[i * SEEDS + s] = ours(&space[i])[s];
            mean_a[s] += chance(&space[i])[s] / count;
            mean_b[s] += ours(&space[i])[s] / count;
        }
    printf("sa beats random at %s trials: p %.2g over layers and seeds, %.2g over seeds (sign "
           "test)\n",
           name, sign_test(a, b, count * SEEDS), sign_test(mean_a, mean_b, SEEDS));
}

static void search(int count, char **path) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    layer_space *space = KILN_ARENA_ARRAY(&arena, layer_space, count);
    const uint32_t layers = (uint32_t)count;
    for (uint32_t i = 0; i < layers; i++) space[i] = load(path[i], &arena);
    for (uint32_t seed = 0; seed < SEEDS; seed++) search_all(space, layers, seed, &arena);
    printf("%.*s\nslower than the best, %%: median and worst of %u seeds\n",
           KILN_STR_ARG(space[0].log.target), SEEDS);
    printf("%-5s %6s %9s %6s %8s  %11s  %11s  %11s  %11s  %11s  %11s\n", "layer", "space",
           "best us", "rank", "default", "48 cold", "8 warm", "16 sa", "16 random", "32 sa",
           "32 random");
    for (uint32_t i = 0; i < layers; i++) print_layer(&space[i]);
    print_chance("16", space, layers, random_16, cold_16, &arena);
    print_chance("32", space, layers, random_32, cold_32, &arena);
    for (uint32_t i = 0; i < layers; i++) kiln_replay_pool_destroy(space[i].pool);
    kiln_arena_deinit(&arena);
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "log")) {
        print_log(argv[2], argv[3]);
    } else if (argc >= 3 && !strcmp(argv[1], "search")) {
        search(argc - 2, argv + 2);
    } else {
        fprintf(stderr, "usage: bench-vta-search log CONFIG LAYER | search LOG...\n");
        return 2;
    }
    return 0;
}
