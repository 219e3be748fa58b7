/* Results to rows. Records collect for at most KILN_DB_GROUP_NS, are signed, stored and become
 * durable together at the io_thread; only then does the machine hear RECORDED and acknowledge them.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "db/canonical.h"
#include "tuner/shell.h"

/* A row of the group; the record that it belongs to comes last. */
typedef struct group_row {
    kiln_db_table table;
    void *row;
} group_row;

/* Rows that become durable together. */
typedef struct kiln_shell_group {
    kiln_shell *shell;
    kiln_arena arena;
    KILN_VEC(group_row) row;
    KILN_VEC(kiln_tuner_event) event; /* RECORDED, of all records */
    KILN_VEC(uint32_t) row_end;       /* of each event: behind the last of its rows */
} group;

static void add_row(group *g, kiln_db_table table, const void *row) {
    const group_row copy = {table, kiln_db_copy_row(table, row, &g->arena)};
    kiln_vec_push(&g->row, copy);
}

/* One row per board and one per state it was seen in. */
static kiln_str add_device(group *g, const kiln_msg_lease_grant *grant,
                           const kiln_msg_trial_result *result, kiln_arena *scratch) {
    kiln_db_device device = {.id = grant->board, .name = grant->key, .target = grant->target};
    const kiln_msg_env *env = &result->before;
    char *content =
        kiln_arena_printf(scratch, "device=%.*s\nfirmware=%.*s\ngovernor=%.*s\nthrottle_bits=%u\n",
                          KILN_STR_ARG(grant->device), KILN_STR_ARG(grant->firmware),
                          KILN_STR_ARG(env->governor), env->throttle_bits);
    char *id = kiln_arena_alloc(scratch, KILN_HASH128_TEXT);
    kiln_str text = kiln_str_from(content);
    kiln_hash128_print(kiln_hash128_of(text.data, text.size), id);
    kiln_db_fingerprint fingerprint = {
        .id = kiln_str_from(id), .device_id = grant->board, .content = text};
    add_row(g, KILN_DB_TABLE_DEVICE, &device);
    add_row(g, KILN_DB_TABLE_FINGERPRINT, &fingerprint);
    return fingerprint.id;
}

/* Raw samples as the time of one run each. */
static kiln_db_samples samples_of(const kiln_msg_trial_result *result, kiln_arena *scratch) {
    const uint32_t count = result->samples_ns.count;
    double *data = KILN_ARENA_ARRAY(scratch, double, count);
    double runs = result->runs ? result->runs : 1;
    for (uint32_t i = 0; i < count; i++) data[i] = (double)result->samples_ns.item[i] / runs;
    return (kiln_db_samples){data, count};
}

static void fill_measurement(kiln_db_record *row, const kiln_msg_trial_result *result,
                             kiln_arena *scratch) {
    row->samples_ns = samples_of(result, scratch);
    row->runs_per_sample = result->runs;
    row->stop_reason = kiln_str_from(kiln_stop_name(result->stop));
    row->error = result->error;
    row->max_abs_error = result->max_abs_error;
    row->relative_error = result->relative_error;
    row->checked = result->checked;
    row->raced = result->stop == KILN_STOP_RACED;
    row->throttled = result->out_of_band;
    row->drift = result->drift;
    row->drift_memory = result->drift_memory;
    row->again = result->again;
    row->cache_state = KILN_STR("warm");
    row->peak_flops = result->peak_flops;
    const kiln_msg_phases *spent = &result->times_ns;
    row->board_ns = (double)(spent->fetch + spent->load + spent->warm + spent->run + spent->check);
}

/* Of one that its board built, when it did. */
static void take_built(kiln_db_record *row, const kiln_msg_trial_result *result,
                       char digest[KILN_DIGEST_TEXT]) {
    const kiln_msg_built *built = &result->built;
    if (built->artefact.size == 0) return;
    kiln_digest_print(&built->artefact.digest, digest);
    row->artefact_digest = kiln_str_from(digest);
    row->algorithm = built->algorithm;
    row->layout_in = built->layout_in;
    row->layout_out = built->layout_out;
    row->build_ns = (double)result->times_ns.build;
}

static void add_record(group *g, const kiln_shell_job *job, const kiln_candidate *candidate,
                       const kiln_tuner_action *action, kiln_arena *scratch) {
    const kiln_shell_task *task = &job->task[action->task];
    char digest[KILN_DIGEST_TEXT] = "";
    if (candidate->built.algorithm.size) kiln_digest_print(&candidate->built.artefact, digest);
    bool is_default =
        kiln_str_is(kiln_str_from(candidate->hash), kiln_searcher_default_hash(task->searcher));
    const double flops = kiln_program_flops_with_zeros(task->te); /* as earlier versions count */
    kiln_db_record row = {.trial_id = kiln_str_from(action->trial),
                          .attempt = action->attempt ? action->attempt : 1,
                          .job_id = kiln_str_from(job->identity),
                          .task_key = task->key,
                          .target = job->spec.target,
                          .trial_index = action->index,
                          .trace = candidate->trace,
                          .trace_hash = kiln_str_from(candidate->hash),
                          .codegen_version = kiln_str_from(kiln_codegen_version()),
                          .artefact_kind =
                              kiln_str_from(kiln_payload_name(kiln_payload_of(job->target.kind))),
                          .artefact_digest = kiln_str_from(digest),
                          .algorithm = candidate->built.algorithm,
                          .threads = job->target.threads,
                          .layout_in = candidate->built.layout_in,
                          .layout_out = candidate->built.layout_out,
                          .searcher = is_default           ? KILN_STR("default")
                                      : candidate->by_hand ? KILN_STR("hand")
                                      : candidate->adopted ? KILN_STR("transfer")
                                                           : job->spec.searcher,
                          .outcome = kiln_str_from(kiln_outcome_name(action->outcome)),
                          .blame = kiln_str_from(kiln_blame_name(action->blame)),
                          .detail = kiln_str_from(action->text),
                          .stop_reason = kiln_str_from(kiln_stop_name(KILN_STOP_NONE)),
                          .cache_state = KILN_STR("warm"),
                          .flops = flops,
                          .build_ns = (double)candidate->built.build_ns,
                          .search_ns = (double)candidate->search_ns,
                          .train_ns = (double)candidate->train_ns,
                          .project = job->spec.project,
                          .user = job->spec.user,
                          .stored_wall_ns = (int64_t)kiln_clock_wall_ns()};
    kiln_db_task task_row = {
        .key = task->key, .op = task->op, .canonical = task->text, .flops = flops};
    kiln_db_target target_row = {.target = job->spec.target};
    kiln_record_set_assembled(&row, &action->assembled);
    if (action->result) {
        take_built(&row, action->result, digest);
        fill_measurement(&row, action->result, scratch);
    }
    add_row(g, KILN_DB_TABLE_TASK, &task_row);
    add_row(g, KILN_DB_TABLE_TARGET, &target_row);
    if (action->result && action->grant) {
        row.device_id = action->grant->board;
        row.fences = action->grant->fences;
        row.board = action->grant->proven;
        row.fingerprint_id = add_device(g, action->grant, action->result, scratch);
    }
    add_row(g, KILN_DB_TABLE_RECORD, &row);
}

static kiln_str final_identity(const kiln_tuner_action *action, const kiln_db_record *row,
                               kiln_arena *scratch) {
    kiln_str text = kiln_str_from(kiln_arena_printf(scratch, "final 1\n%s\n%.*s\n", action->trial,
                                                    KILN_STR_ARG(row->trace_hash)));
    char *id = kiln_arena_alloc(scratch, KILN_HASH128_TEXT);
    kiln_hash128_print(kiln_hash128_of(text.data, text.size), id);
    return kiln_str_from(id);
}

/* The board's result for finalist `place`, in the form of a single measurement. */
static kiln_msg_trial_result result_of(const kiln_msg_trial_result *result, uint32_t place) {
    kiln_msg_trial_result own = *result;
    if (place == 0) return own;
    const kiln_msg_rival_result *rival = &result->rivals.item[place - 1];
    own.outcome = rival->outcome;
    own.blame = kiln_outcome_blame((kiln_outcome)rival->outcome);
    own.samples_ns = rival->samples_ns;
    own.runs = rival->runs;
    own.stop = rival->stop;
    own.error = rival->error;
    own.max_abs_error = rival->max_abs_error;
    own.relative_error = rival->relative_error;
    own.checked = rival->checked;
    own.text = rival->text;
    return own;
}

/* The gain over what the finalist has to beat: the default, and in a judgement also the winner, if
 * both have the same layouts. The loser of a judgement is in no later final, as figures of
 * different times do not compare. */
static double gain_low(const kiln_shell_task *task, const kiln_msg_trial_result *result,
                       uint32_t place) {
    const uint32_t winner = kiln_tuner_winner(result);
    const kiln_db_record *own = &task->final.finalist[place].row,
                         *best = &task->final.finalist[winner].row;
    const bool rivals = kiln_str_equal(own->layout_in, best->layout_in) &&
                        kiln_str_equal(own->layout_out, best->layout_out);
    const uint32_t against =
        task->final.early && place > 0 && place != winner && rivals ? winner : 0;
    return kiln_tuner_standing_beside(result, place, against).gain_low;
}

/* One more record for each finalist: all that was known of it, with the final's samples. */
static void add_final(group *g, const kiln_shell_job *job, const kiln_tuner_action *action,
                      kiln_arena *scratch) {
    const kiln_shell_task *task = &job->task[action->task];
    const kiln_str fingerprint = add_device(g, action->grant, action->result, scratch);
    const int64_t stored_wall_ns = (int64_t)kiln_clock_wall_ns(); /* one, by which all are known */
    for (uint32_t place = 0; place < task->final.count; place++) {
        kiln_db_record row = task->final.finalist[place].row;
        const kiln_msg_trial_result own = result_of(action->result, place);
        row.trial_id = final_identity(action, &row, scratch);
        row.attempt = action->attempt;
        row.job_id = kiln_str_from(job->identity);
        row.device_id = action->grant->board;
        row.fences = action->grant->fences;
        row.board = action->grant->proven;
        row.fingerprint_id = fingerprint;
        row.origin = (kiln_str){0}; /* measured here, also where its first measurement was not */
        row.outcome = kiln_str_from(kiln_outcome_name((kiln_outcome)own.outcome));
        row.blame = kiln_str_from(kiln_blame_name((kiln_blame)own.blame));
        row.detail = own.text;
        row.final = 1;
        row.gain_low = gain_low(task, action->result, place);
        row.project = job->spec.project;
        row.user = job->spec.user;
        row.stored_wall_ns = stored_wall_ns;
        fill_measurement(&row, &own, scratch);
        add_row(g, KILN_DB_TABLE_RECORD, &row);
    }
}

/* ---- at the io_thread ---- */

static kiln_status put_row(const group *g, const group_row *r, kiln_arena *scratch) {
    const kiln_shell *shell = g->shell;
    kiln_status st = KILN_OK;
    if (r->table == KILN_DB_TABLE_RECORD && shell->signer)
        st = kiln_record_sign(shell->signer, scratch, r->row);
    return st ? st : kiln_db_put(shell->db, r->table, r->row);
}

static void fail_event(group *g, uint32_t at, kiln_status st) {
    g->event.data[at].code = kiln_status_code(st);
    g->event.data[at].failure = kiln_str_dup(&g->arena, kiln_str_from(kiln_status_text(st)));
}

/* Makes what was put of these events durable. */
static void end_group(group *g, uint32_t from, uint32_t end) {
    kiln_db *db = g->shell->db;
    if (from == end) return;
    kiln_status st = kiln_db_pending(db) ? kiln_db_commit(db)
                                         : KILN_ERROR(ABORTED, "a failed write undid the group");
    if (!st) return;
    for (uint32_t i = from; i < end; i++) fail_event(g, i, st);
    kiln_status_free(st);
}

/* A write that fails is the end of those before it, which may be undone with it. */
static void store_group(void *context) {
    group *g = context;
    uint32_t from = 0, row = 0;
    for (uint32_t i = 0; i < g->event.count; i++) {
        kiln_status st = KILN_OK;
        for (; !st && row < g->row_end.data[i]; row++)
            st = put_row(g, &g->row.data[row], &g->arena);
        row = g->row_end.data[i];
        if (!st) continue;
        end_group(g, from, i);
        fail_event(g, i, st);
        kiln_status_free(st);
        from = i + 1;
    }
    end_group(g, from, g->event.count);
}

/* ---- on the loop ---- */

static void post_failure(kiln_shell *shell, const kiln_tuner_event *event) {
    kiln_log(KILN_LOG_ERROR, "storing a record: %s", event->failure);
    kiln_shell_post(shell, event);
}

static void group_destroy(group *g) {
    kiln_arena_deinit(&g->arena);
    kiln_vec_deinit(&g->row);
    kiln_vec_deinit(&g->event);
    kiln_vec_deinit(&g->row_end);
    kiln_free(g);
}

static void on_stored(void *context) {
    group *g = context;
    for (uint32_t i = 0; i < g->event.count; i++)
        if (!g->event.data[i].failure) {
            kiln_fail_pass(KILN_FAIL_TUNER_RECORDED);
            break;
        }
    for (uint32_t i = 0; i < g->event.count; i++) {
        if (g->event.data[i].failure)
            post_failure(g->shell, &g->event.data[i]);
        else
            kiln_shell_post(g->shell, &g->event.data[i]);
    }
    group_destroy(g);
}

static group *group_of(kiln_shell *shell) {
    if (shell->records.group) return shell->records.group;
    shell->records.group = kiln_alloc(sizeof *shell->records.group);
    *shell->records.group = (group){.shell = shell};
    kiln_arena_init(&shell->records.group->arena, 0);
    kiln_timer_start(shell->commit, KILN_DB_GROUP_NS / 2);
    return shell->records.group;
}

void kiln_shell_record(kiln_shell *shell, const kiln_tuner_action *action) {
    kiln_shell_job *job = kiln_shell_find_job(shell, action->job);
    bool final = action->index == KILN_TUNER_FINAL;
    kiln_candidate *candidate =
        job && !final ? kiln_shell_find_candidate(job, action->task, action->index) : NULL;
    if (!candidate && !(job && final)) return;
    kiln_tuner_event event = {.kind = KILN_TUNER_RECORDED,
                              .job = job->handle,
                              .task = action->task,
                              .index = action->index};
    kiln_status st = kiln_fail_at(final ? KILN_FAIL_TUNER_FINAL : KILN_FAIL_TUNER_RECORD);
    if (st) {
        event.code = kiln_status_code(st);
        event.failure = kiln_status_text(st);
        post_failure(shell, &event);
        kiln_status_free(st);
        return;
    }
    group *g = group_of(shell);
    kiln_arena scratch;
    kiln_arena_init(&scratch, 4096);
    if (final)
        add_final(g, job, action, &scratch);
    else
        add_record(g, job, candidate, action, &scratch);
    kiln_arena_deinit(&scratch);
    kiln_vec_push(&g->event, event);
    kiln_vec_push(&g->row_end, g->row.count);
}

void kiln_shell_commit(void *context) {
    kiln_shell *shell = context;
    group *g = shell->records.group;
    shell->records.group = NULL;
    if (g) kiln_io_thread_submit(shell->io_thread, store_group, on_stored, g);
}
