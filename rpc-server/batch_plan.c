#include "rpc-server/batch_plan.h"

#include <string.h>

#define DAMAGED(...) KILN_ERROR(DATA_LOSS, __VA_ARGS__)

void kiln_batch_plan_deinit(kiln_batch_plan *plan) { kiln_map_deinit(&plan->by_id); }

/* ---- trials ---- */

static kiln_status check_trial(const kiln_msg_trial *trial, uint32_t number) {
    if (trial->recipe.trace.size || trial->module.threads || trial->rivals.count)
        return KILN_ERROR(UNIMPLEMENTED,
                          "trials: trial %u is a recipe, a module or has rivals; only artefacts "
                          "are measured without a tracker",
                          number);
    if (trial->artefact.size == 0 || trial->reference.size == 0)
        return DAMAGED("trials: trial %u has no artefact or no reference", number);
    for (size_t i = 0; i < trial->trial.size; i++)
        if (!strchr("0123456789abcdef", trial->trial.data[i]) || !trial->trial.data[i])
            return DAMAGED("trials: the identity of trial %u is not a hexadecimal number", number);
    return trial->trial.size ? NULL : DAMAGED("trials: trial %u has no identity", number);
}

static kiln_status add_trial(const kiln_message *message, kiln_batch_plan *plan, uint32_t most) {
    const uint32_t number = plan->count;
    if (message->type != KILN_MSG_TRIAL || number >= most)
        return DAMAGED("trials: frame %u is not one of the %u trials that the file announces",
                       number + 1, most);
    kiln_status st = check_trial(&message->trial, number);
    if (st) return st;
    if (!kiln_map_put(&plan->by_id, message->trial.trial, number))
        return DAMAGED("trials: trial %u appears twice", number);
    plan->trial[plan->count++].trial = message->trial;
    return NULL;
}

static kiln_status begin_plan(const kiln_message *message, kiln_arena *arena, kiln_batch_plan *plan,
                              uint32_t *out_most) {
    if (message->type != KILN_MSG_LEASE_REQ)
        return DAMAGED("trials: the first frame does not name a target");
    if (message->lease_req.trials > KILN_BATCH_TRIALS_MAX)
        return DAMAGED("trials: the file announces %u trials; at most %u are allowed",
                       message->lease_req.trials, KILN_BATCH_TRIALS_MAX);
    plan->target = message->lease_req.target;
    plan->trial = KILN_ARENA_ARRAY(arena, kiln_batch_trial, message->lease_req.trials);
    *out_most = message->lease_req.trials;
    return NULL;
}

static kiln_status read_trials(kiln_str bytes, kiln_arena *arena, kiln_batch_plan *plan) {
    kiln_frame_reader reader = {0};
    kiln_frame frame;
    kiln_status st = NULL;
    uint32_t most = 0;
    bool begun = false, ready = true;
    while (!st && bytes.size) {
        kiln_message message = {0};
        st = kiln_frame_read(&reader, &bytes, &frame, &ready);
        if (st || !ready) break;
        if (frame.flags || frame.type == KILN_MSG_DATA)
            st = DAMAGED("trials: frame %u is not a message", plan->count);
        const kiln_str body = {kiln_arena_copy(arena, frame.body.data, frame.body.size),
                               frame.body.size};
        if (!st) st = kiln_message_decode(frame.type, 0, body, arena, &message);
        if (!st)
            st = begun ? add_trial(&message, plan, most) : begin_plan(&message, arena, plan, &most);
        begun = true;
    }
    kiln_frame_reader_deinit(&reader);
    if (st) return kiln_status_note(st, "after trial %u", plan->count);
    if (!begun || !ready || plan->count != most || most == 0)
        return DAMAGED("trials: the file ends after %u of %u trials", plan->count, most);
    return NULL;
}

/* ---- lines ---- */

/* Cuts the next line off, without its end; false: no whole line is left. */
static bool cut_line(kiln_str *rest, kiln_str *out_line) {
    const char *end = rest->size ? memchr(rest->data, '\n', rest->size) : NULL;
    if (!end) return false;
    out_line->data = rest->data;
    out_line->size = (size_t)(end - rest->data);
    rest->data = end + 1;
    rest->size -= out_line->size + 1;
    return true;
}

/* Whether a line may be copied into the results: braces around printable ASCII, which no terminal
 * interprets. The JSON itself is not parsed. */
static bool is_object(kiln_str line) {
    if (line.size < 2 || line.size > KILN_BATCH_LINE_MAX || line.data[0] != '{' ||
        line.data[line.size - 1] != '}')
        return false;
    for (size_t i = 0; i < line.size; i++)
        if (line.data[i] < ' ' || line.data[i] > '~') return false;
    return true;
}

static bool cut_prefix(kiln_str *line, const char *prefix) {
    const size_t size = strlen(prefix);
    if (line->size < size || memcmp(line->data, prefix, size) != 0) return false;
    *line = kiln_str_slice(*line, size, line->size);
    return true;
}

/* The identity of the trial that a line belongs to; empty: no trial's line. */
static kiln_str trial_of_line(kiln_str line) {
    if (!cut_prefix(&line, KILN_BATCH_LINE_BEGINS)) return (kiln_str){0};
    const size_t end = kiln_str_find_char(line, '"');
    return end < line.size ? kiln_str_slice(line, 0, end) : (kiln_str){0};
}

static kiln_status read_records(kiln_str rest, kiln_batch_plan *plan) {
    kiln_str line;
    uint32_t count = 0;
    for (; cut_line(&rest, &line); count++) {
        if (count == plan->count || !is_object(line) ||
            !kiln_str_equal(trial_of_line(line), plan->trial[count].trial.trial))
            return DAMAGED("records.jsonl: line %u is not the record of trial %u", count + 1,
                           count);
        plan->trial[count].record = kiln_str_slice(line, 0, line.size - 1);
    }
    if (count != plan->count || rest.size)
        return DAMAGED("records.jsonl: %u lines for %u trials", count, plan->count);
    return NULL;
}

static kiln_status read_rows(kiln_str rows, kiln_batch_plan *plan) {
    kiln_str line, rest = rows;
    uint64_t ignored = 0;
    uint32_t count = 0;
    for (; cut_line(&rest, &line); count++)
        if (!is_object(line) || kiln_map_find(&plan->by_id, trial_of_line(line), &ignored))
            return DAMAGED("rows.jsonl: line %u is not a row, or is the row of a trial", count + 1);
    if (rest.size) return DAMAGED("rows.jsonl: line %u does not end", count + 1);
    plan->rows = rows;
    return NULL;
}

kiln_status kiln_batch_plan_read(kiln_str trials, kiln_str records, kiln_str rows,
                                 kiln_arena *arena, kiln_batch_plan *out_plan) {
    kiln_batch_plan plan = {0};
    kiln_map_init(&plan.by_id);
    kiln_status st = read_trials(trials, arena, &plan);
    if (!st) st = read_records(records, &plan);
    if (!st) st = read_rows(rows, &plan);
    if (st) {
        kiln_batch_plan_deinit(&plan);
        return st;
    }
    *out_plan = plan;
    return NULL;
}

/* ---- results ---- */

kiln_status kiln_batch_plan_resume(const kiln_batch_plan *plan, kiln_str results, bool *out_done,
                                   size_t *out_size) {
    const size_t common = KILN_MIN(results.size, plan->rows.size);
    kiln_str line, rest;
    uint64_t number = 0;
    memset(out_done, 0, plan->count * sizeof *out_done);
    if (common && memcmp(results.data, plan->rows.data, common) != 0)
        return DAMAGED("results.jsonl: these results belong to another folder; move them away");
    *out_size = 0;
    if (results.size < plan->rows.size) return NULL;
    rest = kiln_str_slice(results, common, results.size);
    while (cut_line(&rest, &line)) {
        const kiln_str trial = trial_of_line(line);
        if (!trial.size) continue; /* the board's rows */
        if (!kiln_map_find(&plan->by_id, trial, &number))
            return DAMAGED("results.jsonl: trial %.*s is not in this folder; move the file away",
                           KILN_STR_ARG(kiln_str_slice(trial, 0, KILN_MESSAGES_TEXT)));
        out_done[number] = true;
    }
    *out_size = results.size - rest.size;
    return NULL;
}
