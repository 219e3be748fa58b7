#include "tests/sim/forged.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/mpack.h"
#include "db/bundle.h"
#include "db/canonical.h"
#include "db/trust.h"
#include "tuner/tuner.h"

const char *const sim_task_key[SIM_TASKS_MAX] = {"task-a", "task-b", "task-c", "task-d"};

struct sim_ledger {
    kiln_db *db;
    kiln_rand rand; /* the forger's own */
    kiln_signer *ours, *colleague, *stranger;
    uint32_t honest;                  /* records of the colleague's that came whole */
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
    const uint8_t our_seed[KILN_SIGN_SEED_BYTES] = {1}, other_seed[KILN_SIGN_SEED_BYTES] = {2},
                  colleague_seed[KILN_SIGN_SEED_BYTES] = {3};
    char colleague[KILN_SIGN_PUBLIC_TEXT];
    kiln_arena_init(&ledger->arena, 0);
    kiln_rand_init(&ledger->rand, seed);
    must(kiln_db_open(":memory:", KILN_DB_RECORDS, KILN_DB_WRITE, &ledger->db));
    put_parents(ledger->db);
    if (!kiln_sign_supported()) return ledger;
    must(kiln_signer_create(our_seed, &ledger->ours));
    must(kiln_signer_create(other_seed, &ledger->stranger));
    must(kiln_signer_create(colleague_seed, &ledger->colleague));
    kiln_sign_public_print(kiln_signer_public(ledger->ours), ledger->half);
    kiln_sign_public_print(kiln_signer_public(ledger->colleague), colleague);
    must(kiln_db_set_trust(ledger->db, kiln_str_from(colleague), KILN_STR("colleague"),
                           KILN_DB_TRUST_PERSON, 1));
    must(kiln_db_commit(ledger->db));
    return ledger;
}

void sim_ledger_destroy(sim_ledger *ledger) {
    if (!ledger) return;
    kiln_db_close(ledger->db);
    kiln_signer_destroy(ledger->ours);
    kiln_signer_destroy(ledger->colleague);
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

/* A bundle under way: its rows. */
typedef struct bundle {
    kiln_strbuf rows;
    uint32_t count;
} bundle;

static void add_row(bundle *b, kiln_db_table table, const void *row) {
    kiln_bundle_row(table, row, &b->rows);
    b->count++;
}

static void add_tombstone(sim_ledger *ledger, bundle *b, const kiln_db_record *newest) {
    kiln_db_tombstone tombstone = {.trial_id = newest->trial_id,
                                   .attempt = newest->attempt,
                                   .signer = newest->signer,
                                   .state = KILN_STR("forgotten"),
                                   .said_wall_ns = 1};
    if (ledger->stranger) must(kiln_tombstone_sign(ledger->stranger, &ledger->arena, &tombstone));
    add_row(b, KILN_DB_TABLE_TOMBSTONE, &tombstone);
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

static void add_forged(sim_ledger *ledger, const sim_world *world, const char *job, bundle *b,
                       forgery *how) {
    const kiln_db_filter newest = {.whose = KILN_DB_HERE, .order = KILN_DB_NEWEST, .limit = 1};
    uint32_t count = 0;
    kiln_db_record *ours = find(ledger, &newest, &count);
    const bool needs_ours = *how == TOMBSTONE || *how == COPIED;
    if (needs_ours && !(count && ledger->ours)) *how = STOLEN;
    if (*how == TOMBSTONE) {
        add_tombstone(ledger, b, ours);
        return;
    }
    kiln_db_record row = *how == COPIED ? *ours : forged_row(ledger, world, job, *how);
    if (*how == COPIED) row.samples_ns = forged_row(ledger, world, job, *how).samples_ns;
    row.origin = KILN_STR("measured"); /* as if that helped */
    row.standing = KILN_DB_MEASURED;
    add_row(b, KILN_DB_TABLE_RECORD, &row);
}

/* ---- Honest rows ---- */

/* What we measured comes back. */
static void add_ours(sim_ledger *ledger, bundle *b) {
    const kiln_db_filter newest = {.whose = KILN_DB_HERE, .order = KILN_DB_NEWEST, .limit = 1};
    uint32_t count = 0;
    const kiln_db_record *ours = find(ledger, &newest, &count);
    if (count) add_row(b, KILN_DB_TABLE_RECORD, ours);
}

/* Slower than all of ours, and of a job that ours do not know of. */
static void add_colleagues(sim_ledger *ledger, const sim_world *world, bundle *b, uint32_t number) {
    const char *job = "colleague";
    const kiln_db_job parent = {.id = kiln_str_from(job),
                                .target = KILN_STR(SIM_TARGET),
                                .searcher = KILN_STR("random"),
                                .trials_max = 1,
                                .state = KILN_STR("done"),
                                .opened_wall_ns = 1};
    const sim_entry entry = {
        .job = job,
        .trial = kiln_arena_printf(&ledger->arena, "%032u", ledger->honest + number),
        .task = (uint32_t)kiln_rand_below(&ledger->rand, world->options.tasks),
        .index = number,
        .outcome = KILN_OUTCOME_OK,
        .median_ns = 1e9};
    kiln_db_record row = row_of(ledger, &entry);
    must(kiln_record_sign(ledger->colleague, &ledger->arena, &row));
    add_row(b, KILN_DB_TABLE_JOB, &parent);
    add_row(b, KILN_DB_TABLE_RECORD, &row);
}

/* ---- Import ---- */

/* As tuner/prepare.c does it. */
static kiln_status import(sim_ledger *ledger, const bundle *b) {
    const kiln_db_import_options options = {.now_wall_ns = 2};
    kiln_db_import_counts counts = {0};
    kiln_strbuf bytes = {0};
    kiln_mpack_write_array(&bytes, b->count);
    kiln_strbuf_append(&bytes, b->rows.data, b->rows.size);
    kiln_status st = kiln_bundle_import(ledger->db, kiln_strbuf_view(&bytes), &options, &counts);
    kiln_strbuf_deinit(&bytes);
    return st;
}

void sim_ledger_import(sim_ledger *ledger, sim_world *world, const char *job) {
    const uint32_t forged = (uint32_t)kiln_rand_below(&ledger->rand, 6);
    const uint32_t honest = ledger->ours ? (uint32_t)kiln_rand_below(&ledger->rand, 3) : 0;
    bundle b = {0};
    bool wrong = false;
    put_job(ledger, job);
    must(kiln_db_commit(ledger->db));
    for (uint32_t i = 0; i < honest; i++) add_colleagues(ledger, world, &b, i);
    for (uint32_t i = 0; i < forged; i++) {
        const bool any = ledger->ours && kiln_rand_below(&ledger->rand, 4) == 0;
        forgery how = (forgery)kiln_rand_below(&ledger->rand, any ? FORGERIES : LAST_RIGHT + 1);
        add_forged(ledger, world, job, &b, &how);
        wrong |= how > LAST_RIGHT;
    }
    add_ours(ledger, &b);
    kiln_status st = import(ledger, &b);
    if (wrong != (kiln_status_code(st) == KILN_DATA_LOSS) || (!wrong && st))
        sim_fail(world, "a forged bundle is %s: %s", st ? "refused" : "taken",
                 kiln_status_text(st));
    if (!st) ledger->honest += honest;
    kiln_status_free(st);
    kiln_strbuf_deinit(&b.rows);
    kiln_arena_reset(&ledger->arena);
    sim_note(world, "a bundle of %u forged rows and %u honest ones comes%s", forged, honest,
             wrong ? " and is refused" : "");
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
        const bool honest = count && kiln_str_is(best->job_id, "colleague");
        world->forged += count && !ours && !honest;
        if (count && !ours && !honest)
            sim_fail(world, "a forged record is the best of %s", sim_task_key[i]);
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
    uint32_t counting = 0;
    find(ledger, &(kiln_db_filter){.whose = KILN_DB_COUNTING}, &counting);
    if (counting != here + ledger->honest)
        sim_fail(world, "%u records count, not %u and %u honest ones", counting, here,
                 ledger->honest);
    check_best(ledger, world, best_ns);
    kiln_arena_reset(&ledger->arena);
}
