/* bench-sign FOLDER ROWS: what signatures of records cost; prints one JSON object. Signs ROWS
 * records into FOLDER/from.db, and takes a bundle of them into FOLDER/to.db, whose signer is
 * trusted. Times are those of the processor, as others use it too; the import's also by the clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "db/bundle.h"
#include "db/canonical.h"
#include "db/trust.h"

#define TARGET KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,cores=2")
#define PER_BUNDLE 100000u

static void fail_on(kiln_status st) {
    if (!st) return;
    fprintf(stderr, "bench-sign: %s\n", kiln_status_text(st));
    exit(1);
}

static uint64_t cpu_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (uint64_t)at.tv_sec * KILN_NS_PER_S + (uint64_t)at.tv_nsec;
}

static double cpu_since(uint64_t begin_ns) { return (double)(cpu_ns() - begin_ns) / 1e9; }

static kiln_db *open_in(const char *folder, const char *name) {
    kiln_strbuf path = {0};
    kiln_db *db = NULL;
    kiln_strbuf_printf(&path, "%s/%s", folder, name);
    fail_on(kiln_db_open(path.data, KILN_DB_RECORDS, KILN_DB_WRITE, &db));
    kiln_strbuf_deinit(&path);
    return db;
}

static void put_parents(kiln_db *db) {
    fail_on(kiln_db_put_target(db, &(kiln_db_target){TARGET}));
    fail_on(kiln_db_put_job(
        db, &(kiln_db_job){.id = KILN_STR("j1"), .target = TARGET, .state = KILN_STR("open")}));
    fail_on(kiln_db_put_task(
        db, &(kiln_db_task){.key = KILN_STR("t1"), .op = KILN_STR("conv"), .flops = 1e6}));
}

static kiln_db_record record_of(uint64_t number, const double samples[10], char id[33]) {
    static const char trace[300] = {1, 2, 3};
    kiln_hash128_print((kiln_hash128){number * 0x9e3779b97f4a7c15u, number}, id);
    return (kiln_db_record){.trial_id = kiln_str_from(id),
                            .attempt = 1,
                            .job_id = KILN_STR("j1"),
                            .task_key = KILN_STR("t1"),
                            .target = TARGET,
                            .trace = {trace, sizeof trace},
                            .trace_hash = kiln_str_from(id),
                            .codegen_version = KILN_STR("7 LLVM 19.1.7"),
                            .threads = 1,
                            .outcome = KILN_STR("ok"),
                            .blame = KILN_STR("none"),
                            .checked = 1,
                            .samples_ns = {samples, 10},
                            .runs_per_sample = 3,
                            .flops = 1e6,
                            .peak_flops = 1e11,
                            .stored_wall_ns = (int64_t)number};
}

int main(int argc, char **argv) {
    uint64_t rows = 0;
    if (argc != 3 || !kiln_str_to_u64(kiln_str_from(argv[2]), &rows) || rows == 0 ||
        rows > PER_BUNDLE) {
        fprintf(stderr, "usage: bench-sign FOLDER ROWS (at most %u)\n", PER_BUNDLE);
        return 2;
    }
    const uint8_t seed[KILN_SIGN_SEED_BYTES] = {1};
    double samples[10], sign_s = 0, check_s = 0;
    char half[KILN_SIGN_PUBLIC_TEXT], id[33];
    kiln_signer *signer = NULL;
    kiln_checkers checkers = {0};
    kiln_arena arena;
    kiln_strbuf bytes = {0};
    kiln_db_import_counts counts = {0};
    kiln_db *from = open_in(argv[1], "from.db"), *to = open_in(argv[1], "to.db");
    kiln_arena_init(&arena, 4096);
    fail_on(kiln_signer_create(seed, &signer));
    kiln_sign_public_print(kiln_signer_public(signer), half);
    fail_on(kiln_db_set_trust(to, kiln_str_from(half), KILN_STR("bench"), KILN_DB_TRUST_PERSON, 1));
    put_parents(from);
    for (uint64_t i = 0; i < rows; i++) {
        for (int k = 0; k < 10; k++) samples[k] = 1e5 + (double)(i % 97) + k;
        kiln_db_record record = record_of(i, samples, id);
        uint64_t begin_ns = cpu_ns();
        fail_on(kiln_record_sign(signer, &arena, &record));
        sign_s += cpu_since(begin_ns);
        begin_ns = cpu_ns();
        if (!kiln_record_is_signed(&checkers, &record)) return 1;
        check_s += cpu_since(begin_ns);
        fail_on(kiln_db_put_record(from, &record));
        kiln_arena_reset(&arena);
    }
    fail_on(kiln_db_commit(from));
    fail_on(kiln_bundle_export(from, &(kiln_db_filter){0}, 1, &bytes));
    uint64_t begin_ns = cpu_ns(), begin_wall_ns = kiln_clock_ns();
    fail_on(kiln_bundle_import(to, kiln_strbuf_view(&bytes), NULL, &counts));
    printf("{\"rows\": %llu, \"sign_us\": %.9g, \"check_us\": %.9g, \"import_cpu_s\": %.9g, "
           "\"import_s\": %.9g, \"imported\": %u}\n",
           (unsigned long long)rows, sign_s / (double)rows * 1e6, check_s / (double)rows * 1e6,
           cpu_since(begin_ns), (double)(kiln_clock_ns() - begin_wall_ns) / 1e9, counts.trusted);
    kiln_strbuf_deinit(&bytes);
    kiln_checkers_deinit(&checkers);
    kiln_signer_destroy(signer);
    kiln_arena_deinit(&arena);
    kiln_db_close(from);
    kiln_db_close(to);
    return 0;
}
