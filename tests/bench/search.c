/* Compares searchers on recorded logs, with nothing measured:
 *
 *     bench-search LOG...                    best found after some trials, geometric mean over
 * seeds bench-search --record DATABASE TASK    the log of a task, from the records of kiln tune
 *
 * A log is the text of tests/replay/log.h. What a search finds is given as the best of the
 * whole log over it: 1 is as good as a log's fastest trial. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macros.h"
#include "base/vec.h"
#include "tests/replay/pool.h"

#define SEEDS 10u
#define TRIALS 128u
#define LOGS_MAX 32

static const uint32_t mark[] = {8, 16, 32, 64, 100, 128};

typedef struct contender {
    const char *name;
    const char *searcher;
    bool uninformed, shuffle_labels, knows_others;
} contender;

static const contender contender_table[] = {
    {"random", "random", false, false, false},
    {"grid", "grid", false, false, false},
    {"evolution", "evolution", false, false, false},
    {"sa", "sa", false, false, false},
    {"sa, others known", "sa", false, false, true},
    {"sa, results alone", "sa", true, false, false},
    {"the same, others known", "sa", true, false, true},
    {"the same, shuffled", "sa", true, true, false},
};

static kiln_status load(const char *path, kiln_replay_pool **out_pool) {
    kiln_arena arena;
    kiln_str text;
    kiln_replay_log log;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_file_read(path, (size_t)64 << 20, &arena, &text);
    if (!st) st = kiln_replay_log_parse(text, &arena, &log);
    if (!st) st = kiln_replay_pool_create(&log, KILN_MODEL_XGBOOST, out_pool);
    kiln_arena_deinit(&arena);
    return kiln_status_note(st, "%s", path);
}

/* Prints the shares of the best at each mark, geometric mean over logs and seeds. */
static kiln_status run(const contender *c, kiln_replay_pool *const *pool, uint32_t pools) {
    double sum[KILN_ARRAY_COUNT(mark)] = {0}, best[TRIALS];
    kiln_replay_options options = {.uninformed = c->uninformed,
                                   .shuffle_labels = c->shuffle_labels,
                                   .known = pool,
                                   .known_count = c->knows_others ? pools : 0};
    kiln_status st = kiln_searcher_find(kiln_str_from(c->searcher), &options.kind);
    uint64_t began_ns = kiln_clock_thread_ns();
    for (uint32_t p = 0; !st && p < pools; p++)
        for (uint64_t seed = 1; !st && seed <= SEEDS; seed++) {
            options.seed = seed;
            st = kiln_replay_pool_search(pool[p], &options, TRIALS, best, NULL, NULL);
            for (size_t m = 0; m < KILN_ARRAY_COUNT(mark); m++)
                sum[m] += log(kiln_replay_pool_best_ns(pool[p]) / best[mark[m] - 1]);
        }
    if (st) return st;
    printf("%-24s", c->name);
    for (size_t m = 0; m < KILN_ARRAY_COUNT(mark); m++)
        printf("%8.4f", exp(sum[m] / (pools * SEEDS)));
    printf("%10.2f\n",
           (double)(kiln_clock_thread_ns() - began_ns) / 1e6 / (pools * SEEDS * TRIALS));
    fflush(stdout);
    return KILN_OK;
}

static kiln_status compare(int count, char **path) {
    kiln_replay_pool *pool[LOGS_MAX] = {0};
    kiln_status st = KILN_OK;
    uint32_t pools = 0;
    for (; !st && (int)pools < count && pools < LOGS_MAX; pools++) {
        st = load(path[pools], &pool[pools]);
        if (!st)
            printf("%s: %u trials, best %.1f us\n", path[pools],
                   kiln_replay_pool_count(pool[pools]),
                   kiln_replay_pool_best_ns(pool[pools]) / 1e3);
    }
    printf("%-24s", "best found after");
    for (size_t m = 0; m < KILN_ARRAY_COUNT(mark); m++) printf("%8u", mark[m]);
    printf("%10s\n", "ms/trial");
    for (size_t c = 0; !st && c < KILN_ARRAY_COUNT(contender_table); c++)
        st = run(&contender_table[c], pool, pools);
    for (uint32_t p = 0; p < pools; p++) kiln_replay_pool_destroy(pool[p]);
    return st;
}

static kiln_status record(const char *path, const char *task) {
    kiln_db *db = NULL;
    kiln_arena arena;
    kiln_replay_log log;
    kiln_strbuf text = {0};
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_replay_log_read(db, kiln_str_from(task), &arena, &log);
    if (!st) kiln_replay_log_print(&log, &text);
    if (!st) fwrite(text.data, 1, text.size, stdout);
    kiln_strbuf_deinit(&text);
    kiln_db_close(db);
    kiln_arena_deinit(&arena);
    return st;
}

int main(int argc, char **argv) {
    bool records = argc == 4 && strcmp(argv[1], "--record") == 0;
    if (argc < 2 || (argv[1][0] == '-' && !records)) {
        fprintf(stderr, "usage: bench-search LOG... | --record DATABASE TASK\n");
        return 2;
    }
    kiln_status st = records ? record(argv[2], argv[3]) : compare(argc - 1, argv + 1);
    if (st) fprintf(stderr, "bench-search: %s\n", kiln_status_text(st));
    int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    return code;
}
