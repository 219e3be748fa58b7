/* bench-db PATH ROWS [GROUP]: fills a records database through db/ and asks it, as tuners do;
 * prints one JSON object. A PATH that exists is only asked; a server's database must be empty. A
 * group is committed when it has GROUP rows, or (0) as the tuner does, when half of
 * KILN_DB_GROUP_NS is over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rand.h"
#include "base/vec.h"
#include "db/db.h"

#define TASKS 200
#define LAYOUTS 8
#define SAMPLES 10
#define TRACE_BYTES 300
#define QUESTIONS 4000
#define OPENINGS 40
#define BEST_K 10

typedef KILN_VEC(double) times;

static void fail_on(kiln_status st) {
    if (!st) return;
    fprintf(stderr, "bench-db: %s\n", kiln_status_text(st));
    exit(1);
}

static double seconds_since(uint64_t begin_ns) {
    return (double)(kiln_clock_ns() - begin_ns) / 1e9;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints and forgets them. */
static void print_times(const char *name, times *all, double unit) {
    qsort(all->data, all->count, sizeof(double), compare);
    printf(", \"%s\": {\"count\": %u, \"median\": %.9g, \"p99\": %.9g, \"max\": %.9g}", name,
           all->count, all->data[all->count / 2] / unit, all->data[all->count * 99 / 100] / unit,
           all->data[all->count - 1] / unit);
    all->count = 0;
}

static kiln_str task_of(uint64_t task) {
    static char key[48];
    snprintf(key, sizeof key, "v1:%032llx", (unsigned long long)(task * 0x9e3779b97f4a7c15u));
    return kiln_str_from(key);
}

static kiln_str layout_of(uint64_t layout) {
    static char text[64];
    snprintf(text, sizeof text, "d0,d1/%llu,d2,d3,d1%%%llu", (unsigned long long)layout + 1,
             (unsigned long long)layout + 1);
    return kiln_str_from(text);
}

static const kiln_str the_target = {"cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,cores=2", 51};

static void put_parents(kiln_db *db) {
    fail_on(kiln_db_put_target(db, &(kiln_db_target){the_target}));
    fail_on(kiln_db_put_device(db, &(kiln_db_device){.id = KILN_STR("d1")}));
    fail_on(kiln_db_put_fingerprint(
        db, &(kiln_db_fingerprint){.id = KILN_STR("f1"), .device_id = KILN_STR("d1")}));
    fail_on(kiln_db_put_job(
        db, &(kiln_db_job){.id = KILN_STR("j1"), .target = the_target, .state = KILN_STR("open")}));
    for (uint64_t i = 0; i < TASKS; i++)
        fail_on(kiln_db_put_task(
            db, &(kiln_db_task){.key = task_of(i), .op = KILN_STR("conv"), .flops = 1e9}));
    fail_on(kiln_db_commit(db));
}

static void put_record(kiln_db *db, kiln_rand *rand, uint64_t number) {
    char trial[KILN_HASH128_TEXT], hash[KILN_HASH128_TEXT], trace[TRACE_BYTES];
    double samples[SAMPLES];
    kiln_hash128_print((kiln_hash128){kiln_rand_u64(rand), number}, trial);
    kiln_hash128_print((kiln_hash128){kiln_rand_u64(rand), number}, hash);
    for (size_t i = 0; i < sizeof trace; i++) trace[i] = (char)kiln_rand_u64(rand);
    double speed = 1e5 * (1 + 9 * kiln_rand_unit(rand));
    for (int i = 0; i < SAMPLES; i++) samples[i] = speed * (1 + 0.01 * kiln_rand_unit(rand));
    bool failed = kiln_rand_below(rand, 20) == 0;
    kiln_str layout = layout_of(kiln_rand_below(rand, LAYOUTS));
    fail_on(kiln_db_put_record(
        db, &(kiln_db_record){.trial_id = kiln_str_from(trial),
                              .attempt = 1,
                              .job_id = KILN_STR("j1"),
                              .task_key = task_of(kiln_rand_below(rand, TASKS)),
                              .target = the_target,
                              .device_id = KILN_STR("d1"),
                              .fingerprint_id = KILN_STR("f1"),
                              .trial_index = (int64_t)number,
                              .trace = {trace, sizeof trace},
                              .trace_hash = kiln_str_from(hash),
                              .codegen_version = KILN_STR("7 LLVM 19.1.7"),
                              .artefact_kind = KILN_STR("elf"),
                              .artefact_digest = kiln_str_from(hash),
                              .algorithm = KILN_STR("direct"),
                              .threads = 1,
                              .layout_in = layout,
                              .layout_out = layout,
                              .searcher = KILN_STR("sa"),
                              .outcome = failed ? KILN_STR("crash") : KILN_STR("ok"),
                              .blame = failed ? KILN_STR("candidate") : KILN_STR("none"),
                              .checked = !failed,
                              .error = 0.25,
                              .samples_ns = {samples, failed ? 0 : SAMPLES},
                              .runs_per_sample = 3,
                              .stop_reason = KILN_STR("converged"),
                              .cache_state = KILN_STR("warm"),
                              .flops = 1e9,
                              .peak_flops = 1e11,
                              .build_ns = 1e7,
                              .project = KILN_STR("default"),
                              .user = KILN_STR("somebody"),
                              .stored_wall_ns = (int64_t)number,
                              .raced = kiln_rand_below(rand, 10) == 0,
                              .final = !failed && kiln_rand_below(rand, 200) == 0,
                              .gain_low = 1.1}));
}

static void fill(kiln_db *db, uint64_t rows, uint64_t group_rows) {
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    times commits = {0};
    uint64_t begin_ns = kiln_clock_ns(), last_ns = begin_ns;
    for (uint64_t row = 0, tenth_ns = begin_ns; row < rows;) {
        uint64_t group_ns = kiln_clock_ns(), first = row;
        do put_record(db, &rand, row++);
        while (row < rows && (group_rows ? row - first < group_rows
                                         : kiln_clock_ns() - group_ns < KILN_DB_GROUP_NS / 2));
        uint64_t commit_ns = kiln_clock_ns();
        fail_on(kiln_db_commit(db));
        kiln_vec_push(&commits, (double)(kiln_clock_ns() - commit_ns));
        if (first * 10 / rows != row * 10 / rows) {
            last_ns = tenth_ns;
            tenth_ns = kiln_clock_ns();
        }
    }
    double all_s = seconds_since(begin_ns), tenth_s = seconds_since(last_ns);
    printf("\"rows\": %llu, \"stored_per_s\": %.9g, \"last_tenth_per_s\": %.9g",
           (unsigned long long)rows, (double)rows / all_s, (double)rows / 10 / tenth_s);
    print_times("commit_ms", &commits, 1e6);
    kiln_vec_deinit(&commits);
}

static void open_again(const char *path, kiln_db_mode mode, const char *name) {
    times all = {0};
    for (int i = 0; i < OPENINGS; i++) {
        kiln_db *db = NULL;
        uint64_t begin_ns = kiln_clock_ns();
        fail_on(kiln_db_open(path, KILN_DB_RECORDS, mode, &db));
        kiln_vec_push(&all, (double)(kiln_clock_ns() - begin_ns));
        kiln_db_close(db);
    }
    print_times(name, &all, 1e6);
    kiln_vec_deinit(&all);
}

/* One question over and over, about tasks of chance. */
static void ask(kiln_db *db, const char *name, kiln_db_filter filter) {
    kiln_rand rand;
    kiln_rand_init(&rand, 2);
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    times all = {0}, processor = {0};
    kiln_strbuf cpu_name = {0};
    for (int i = 0; i < QUESTIONS; i++) {
        kiln_db_record *record = NULL;
        uint32_t count = 0;
        filter.task_key = task_of(kiln_rand_below(&rand, TASKS));
        if (filter.by_layout)
            filter.layout_in = filter.layout_out = layout_of(kiln_rand_below(&rand, LAYOUTS));
        kiln_arena_reset(&arena);
        uint64_t begin_ns = kiln_clock_ns(), cpu_ns = kiln_clock_thread_ns();
        fail_on(kiln_db_records(db, &filter, &arena, &record, &count));
        kiln_vec_push(&processor, (double)(kiln_clock_thread_ns() - cpu_ns));
        kiln_vec_push(&all, (double)(kiln_clock_ns() - begin_ns));
    }
    print_times(name, &all, 1e3);
    kiln_strbuf_printf(&cpu_name, "%s_of_processor", name);
    print_times(cpu_name.data, &processor, 1e3);
    kiln_strbuf_deinit(&cpu_name);
    kiln_vec_deinit(&processor);
    kiln_vec_deinit(&all);
    kiln_arena_deinit(&arena);
}

static void ask_all(kiln_db *db) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    times best = {0}, stats = {0};
    for (int i = 0; i < OPENINGS; i++) {
        kiln_db_record *record = NULL;
        kiln_db_stat *stat = NULL;
        uint32_t count = 0;
        kiln_arena_reset(&arena);
        uint64_t begin_ns = kiln_clock_ns();
        fail_on(kiln_db_best(db, &(kiln_db_filter){0}, &arena, &record, &count));
        kiln_vec_push(&best, (double)(kiln_clock_ns() - begin_ns));
        begin_ns = kiln_clock_ns();
        fail_on(kiln_db_stats(db, &arena, &stat, &count));
        kiln_vec_push(&stats, (double)(kiln_clock_ns() - begin_ns));
    }
    print_times("best_of_all_ms", &best, 1e6);
    print_times("stats_ms", &stats, 1e6);
    kiln_vec_deinit(&best);
    kiln_vec_deinit(&stats);
    kiln_arena_deinit(&arena);
}

int main(int argc, char **argv) {
    uint64_t rows = 0, group = 0;
    if (argc < 3 || !kiln_str_to_u64(kiln_str_from(argv[2]), &rows) || rows == 0 ||
        (argc > 3 && !kiln_str_to_u64(kiln_str_from(argv[3]), &group))) {
        fprintf(stderr, "usage: bench-db PATH ROWS [GROUP]\n");
        return 2;
    }
    kiln_db *db = NULL;
    const bool is_filled = kiln_file_exists(argv[1]);
    uint64_t begin_ns = kiln_clock_process_ns();
    fail_on(kiln_db_open(argv[1], KILN_DB_RECORDS, KILN_DB_WRITE, &db));
    if (is_filled) {
        printf("{\"migrated_s\": %.9g", (double)(kiln_clock_process_ns() - begin_ns) / 1e9);
    } else {
        put_parents(db);
        printf("{");
        fill(db, rows, group);
    }
    kiln_db_close(db);
    open_again(argv[1], KILN_DB_WRITE, "open_to_write_ms");
    open_again(argv[1], KILN_DB_READ, "open_to_read_ms");
    fail_on(kiln_db_open(argv[1], KILN_DB_RECORDS, KILN_DB_READ, &db));
    const kiln_db_filter fastest = {
        .target = the_target, .order = KILN_DB_FASTEST, .limit = BEST_K};
    kiln_db_filter by_layout = fastest;
    by_layout.by_layout = true;
    by_layout.limit = 1;
    ask(db, "best_k_us", fastest);
    ask(db, "best_by_layout_us", by_layout);
    ask_all(db);
    kiln_db_close(db);
    printf("}\n");
    return 0;
}
