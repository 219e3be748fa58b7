#include "tests/sim/forged.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "db/canonical.h"
#include "db/import.h"
#include "tuner/job.h"

const char *const sim_task_key[SIM_TASKS_MAX] = {"task-a", "task-b", "task-c", "task-d"};

struct sim_ledger {
    kiln_db *db;
    kiln_rand rand; /* the forger's own */
    kiln_signer *ours, *stranger;
    char half[KILN_SIGN_PUBLIC_TEXT]; /* ours */
    kiln_arena arena;                 /* of one call */
};

bool sim_has_forgers(const sim_world *world) { return world->options.seed % 8 == 5; }

static void must(kiln_status st) { KILN_CHECK(st == NULL); }

static void put_parents(kiln_db *db) {
    for (uint32_t i = 0; i < SIM_TASKS_MAX; i++)
        must(kiln_db_put_task(db, &(kiln_db_task){.key = kiln_str_from(sim_task_key[i]),
                                                  .op = KILN_STR("conv2d"),
                                                  .flops = 1e6}));
    must(kiln_db_put_target(db, &(kiln_db_target){.target = KILN_STR(SIM_TARGET)}));
}

sim_ledger *sim_ledger_create(uint64_t seed) {
    sim_ledger *ledger = kiln_alloc(sizeof *ledger);
    const uint8_t our_seed[KILN_SIGN_SEED_BYTES] = {1}, other_seed[KILN_SIGN_SEED_BYTES] = {2};
    kiln_arena_init(&ledger->arena, 0);
    kiln_rand_init(&ledger->rand, seed);
    must(kiln_db_open(":memory:", KILN_DB_RECORDS, KILN_DB_WRITE, &ledger->db));
    put_parents(ledger->db);
    if (!kiln_sign_supported()) return ledger;
    must(kiln_signer_create(our_seed, &ledger->ours));
    must(kiln_signer_create(other_seed, &ledger->stranger));
    kiln_sign_public_print(kiln_signer_public(ledger->ours), ledger->half);
    return ledger;
}

void sim_ledger_destroy(sim_ledger *ledger) {
    if (!ledger) return;
    kiln_db_close(ledger->db);
    kiln_signer_destroy(ledger->ours);
    kiln_signer_destroy(ledger->stranger);
    kiln_arena_deinit(&ledger->arena);
    kiln_free(ledger);
}

static void put_job(sim_ledger *ledger, const char *job) {
    must(kiln_db_put_job(ledger->db, &(kiln_db_job){.id = kiln_str_from(job),
                                                    .target = KILN_STR(SIM_TARGET),
                                                    .searcher = KILN_STR("random"),
                                                    .trials_max = 1,
                                                    .state = KILN_STR("open"),
                                                    .opened_wall_ns = 1}));
}

static kiln_db_record row_of(sim_ledger *ledger, const sim_entry *entry) {
    const bool ok = entry->outcome == KILN_OUTCOME_OK, final = entry->index == KILN_TUNER_FINAL;
    double *sample = KILN_ARENA_ARRAY(&ledger->arena, double, 3);
    for (uint32_t i = 0; i < 3; i++) sample[i] = entry->median_ns;
    return (kiln_db_record){
        .trial_id = kiln_str_from(entry->trial),
        .attempt = KILN_MAX(entry->attempt, 1u),
        .job_id = kiln_str_from(entry->job),
        .task_key = kiln_str_from(sim_task_key[entry->task]),
        .target = KILN_STR(SIM_TARGET),
        .trial_index = entry->index,
        .trace = KILN_STR("\x80"),
        .trace_hash = kiln_str_from(final ? entry->trial
                                          : kiln_arena_printf(&ledger->arena, "%u", entry->index)),
        .codegen_version = KILN_STR(SIM_CODEGEN),
        .artefact_kind = KILN_STR("elf"),
        .threads = 1,
        .outcome = kiln_str_from(kiln_outcome_name(entry->outcome)),
        .blame = kiln_str_from(kiln_blame_name(kiln_outcome_blame(entry->outcome))),
        .checked = ok,
        .samples_ns = {sample, ok ? 3 : 0},
        .runs_per_sample = 1,
        .cache_state = KILN_STR("warm"),
        .flops = 1e6,
        .final = final,
        .gain_low = 1,
        .stored_wall_ns = 1};
}

void sim_ledger_store(sim_ledger *ledger, sim_world *world, const sim_entry *entry) {
    kiln_db_record row = row_of(ledger, entry);
    put_job(ledger, entry->job);
    if (ledger->ours) must(kiln_record_sign(ledger->ours, &ledger->arena, &row));
    kiln_status st = kiln_db_put_record(ledger->db, &row);
    if (!st) st = kiln_db_commit(ledger->db);
    if (st) sim_fail(world, "a record is not stored: %s", kiln_status_text(st));
    kiln_status_free(st);
    kiln_arena_reset(&ledger->arena);
}

static kiln_db_record *find(sim_ledger *ledger, const kiln_db_filter *filter, uint32_t *out_count) {
    kiln_db_record *rows = NULL;
    must(kiln_db_records(ledger->db, filter, &ledger->arena, &rows, out_count));
    return rows;
}

/* ---- Forging ---- */

typedef enum forgery {
    OF_STRANGER, /* a record that somebody measured, or says so */
    STOLEN,      /* it has the identity of a trial that may be still to come */
    STOLEN_UNSIGNED,
    STOLEN_FINAL, /* it says that our best of a task was measured anew */
    TOMBSTONE,    /* a stranger says that the newest record of ours is forgotten */
    LAST_RIGHT = TOMBSTONE,
    IN_OUR_NAME, /* it says that we signed it */
    COPIED,      /* it has the signature of a record of ours, and another time */
    FORGERIES
} forgery;

static kiln_status send_tombstone(sim_ledger *ledger, kiln_db_import *import,
                                  const kiln_db_record *newest) {
    kiln_db_tombstone tombstone = {.trial_id = newest->trial_id,
                                   .attempt = newest->attempt,
                                   .signer = newest->signer,
                                   .state = KILN_STR("forgotten"),
                                   .said_wall_ns = 1};
    if (ledger->stranger) must(kiln_tombstone_sign(ledger->stranger, &ledger->arena, &tombstone));
    return kiln_db_import_row(import, KILN_DB_TABLE_TOMBSTONE, &tombstone);
}

static kiln_str best_trace(sim_ledger *ledger, const kiln_db_record *row) {
    const kiln_db_filter fastest = {
        .task_key = row->task_key, .order = KILN_DB_FASTEST, .limit = 1};
    uint32_t count = 0;
    const kiln_db_record *best = find(ledger, &fastest, &count);
    return count ? best->trace_hash : row->trace_hash;
}

static kiln_db_record forged_row(sim_ledger *ledger, const sim_world *world, const char *job,
                                 forgery how) {
    sim_entry entry = {.job = job,
                       .task = (uint32_t)kiln_rand_below(&ledger->rand, world->options.tasks),
                       .index = (uint32_t)kiln_rand_below(&ledger->rand, world->options.trials),
                       .outcome = KILN_OUTCOME_OK,
                       .median_ns = 100};
    char *trial = kiln_arena_alloc(&ledger->arena, KILN_HASH128_TEXT);
    entry.trial = trial;
    kiln_trial_identity(kiln_str_from(job), kiln_str_from(sim_task_key[entry.task]), entry.index,
                        trial);
    if (how == OF_STRANGER) trial[0] = 's';
    if (how == STOLEN_FINAL) trial[0] = 'f';
    kiln_db_record row = row_of(ledger, &entry);
    row.final = how == STOLEN_FINAL;
    row.gain_low = 5;
    if (row.final) row.trace_hash = best_trace(ledger, &row);
    if (how != STOLEN_UNSIGNED && ledger->stranger)
        must(kiln_record_sign(ledger->stranger, &ledger->arena, &row));
    if (how == IN_OUR_NAME) row.signer = kiln_str_from(ledger->half);
    return row;
}

static kiln_status send_row(sim_ledger *ledger, const sim_world *world, const char *job,
                            kiln_db_import *import, forgery *how) {
    const kiln_db_filter newest = {.whose = KILN_DB_HERE, .order = KILN_DB_NEWEST, .limit = 1};
    uint32_t count = 0;
    kiln_db_record *ours = find(ledger, &newest, &count);
    const bool needs_ours = *how == TOMBSTONE || *how == COPIED;
    if (needs_ours && !(count && ledger->ours)) *how = STOLEN;
    if (*how == TOMBSTONE) return send_tombstone(ledger, import, ours);
    kiln_db_record row = *how == COPIED ? *ours : forged_row(ledger, world, job, *how);
    if (*how == COPIED) row.samples_ns = forged_row(ledger, world, job, *how).samples_ns;
    row.origin = KILN_STR("measured"); /* as if that helped */
    row.standing = KILN_DB_MEASURED;
    return kiln_db_import_row(import, KILN_DB_TABLE_RECORD, &row);
}

void sim_ledger_forge(sim_ledger *ledger, sim_world *world, const char *job) {
    const uint32_t count = (uint32_t)kiln_rand_below(&ledger->rand, 6);
    kiln_db_import *import = NULL;
    kiln_db_import_counts counts;
    kiln_status st = KILN_OK;
    bool wrong = false;
    put_job(ledger, job);
    must(kiln_db_commit(ledger->db));
    kiln_db_import_begin(ledger->db, NULL, &import);
    for (uint32_t i = 0; i < count && !st; i++) {
        const bool any = ledger->ours && kiln_rand_below(&ledger->rand, 4) == 0;
        forgery how = (forgery)kiln_rand_below(&ledger->rand, any ? FORGERIES : LAST_RIGHT + 1);
        st = send_row(ledger, world, job, import, &how);
        wrong |= how > LAST_RIGHT;
    }
    st = kiln_db_import_end(import, st, &counts);
    if (wrong != (kiln_status_code(st) == KILN_DATA_LOSS) || (!wrong && st))
        sim_fail(world, "a forged bundle is %s: %s", st ? "refused" : "taken",
                 kiln_status_text(st));
    kiln_status_free(st);
    kiln_arena_reset(&ledger->arena);
    sim_note(world, "a bundle of %u forged rows comes%s", count, wrong ? " and is refused" : "");
}

/* ---- Checks ---- */

uint32_t sim_ledger_measured(sim_ledger *ledger, const char *job) {
    const kiln_db_filter filter = {.job_id = kiln_str_from(job), .whose = KILN_DB_HERE};
    uint32_t count = 0, trials = 0;
    const kiln_db_record *rows = find(ledger, &filter, &count);
    for (uint32_t i = 0; i < count; i++) trials += rows[i].final == 0;
    kiln_arena_reset(&ledger->arena);
    return trials;
}

static bool is_ours(const sim_ledger *ledger, const kiln_db_record *row) {
    return row->standing == KILN_DB_MEASURED && kiln_str_is(row->signer, ledger->half);
}

static void check_best(sim_ledger *ledger, sim_world *world, const double best_ns[SIM_TASKS_MAX]) {
    for (uint32_t i = 0; i < SIM_TASKS_MAX; i++) {
        const kiln_db_filter filter = {.task_key = kiln_str_from(sim_task_key[i]),
                                       .order = KILN_DB_FASTEST};
        kiln_db_record *best = NULL;
        uint32_t count = 0;
        must(kiln_db_best(ledger->db, &filter, &ledger->arena, &best, &count));
        const bool ours = count && is_ours(ledger, best);
        world->forged += count && !ours;
        if (count && !ours) sim_fail(world, "a forged record is the best of %s", sim_task_key[i]);
        if ((ours ? best->median_ns : 0) != best_ns[i])
            sim_fail(world, "the best of %s takes %g ns, not %g", sim_task_key[i],
                     ours ? best->median_ns : 0, best_ns[i]);
    }
}

void sim_ledger_check(sim_ledger *ledger, sim_world *world, uint32_t count,
                      const double best_ns[SIM_TASKS_MAX]) {
    uint32_t here = 0;
    const kiln_db_record *rows = find(ledger, &(kiln_db_filter){.whose = KILN_DB_HERE}, &here);
    for (uint32_t i = 0; i < here; i++)
        if (!is_ours(ledger, &rows[i])) sim_fail(world, "a forged record stands as measured here");
    if (here != count)
        sim_fail(world, "%u of our records are in the database, not %u", here, count);
    check_best(ledger, world, best_ns);
    kiln_arena_reset(&ledger->arena);
}
