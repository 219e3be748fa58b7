#include "tests/replay/log.h"

#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#define HEAD "kiln replay log 1"
#define MEDIAN_MAX_NS UINT64_C(1000000000000000) /* exact in a double */

typedef KILN_VEC(kiln_trace) trace_vec;

/* ---- sketches ---- */

static kiln_trace open_copy(const kiln_trace *trace, kiln_arena *arena) {
    kiln_trace open = kiln_trace_copy(trace, arena);
    for (uint32_t i = 0; i < open.count; i++) {
        open.instruction[i].decided = false;
        open.instruction[i].decision_count = 0;
    }
    return open;
}

/* Number of the sketch that the trace closes; a new one is added. */
static uint32_t sketch_of(const kiln_trace *trace, kiln_map *known, trace_vec *sketch,
                          kiln_arena *arena) {
    kiln_trace open = open_copy(trace, arena);
    char hash[KILN_HASH128_TEXT];
    uint64_t number = sketch->count;
    kiln_hash128_print(kiln_trace_hash(&open), hash);
    if (kiln_map_find(known, kiln_str_from(hash), &number)) return (uint32_t)number;
    kiln_map_put(known, kiln_str_from(hash), number);
    kiln_vec_push_in(arena, sketch, open);
    return (uint32_t)number;
}

/* ---- from a database ---- */

static bool counts(const kiln_db_record *record, kiln_outcome *out) {
    return kiln_outcome_find(record->outcome, out) &&
           (*out == KILN_OUTCOME_OK || kiln_outcome_blame(*out) == KILN_BLAME_CANDIDATE);
}

static kiln_status take_records(const kiln_db_record *record, uint32_t count, kiln_arena *arena,
                                kiln_replay_log *log) {
    kiln_map seen, known;
    trace_vec sketch = {0};
    uint32_t defaults = 0;
    kiln_map_init(&seen);
    kiln_map_init(&known);
    kiln_status st = KILN_OK;
    log->trial = KILN_ARENA_ARRAY(arena, kiln_replay_trial, count);
    for (uint32_t i = 0; !st && i < count; i++) {
        kiln_replay_trial trial = {.median_ns = record[i].median_ns};
        bool same = kiln_str_equal(record[i].target, record[0].target) &&
                    kiln_str_equal(record[i].codegen_version, record[0].codegen_version);
        if (!same || !counts(&record[i], &trial.outcome)) continue;
        if (!kiln_map_put(&seen, record[i].trace_hash, 1)) continue;
        st = kiln_trace_decode(record[i].trace, arena, &trial.trace);
        if (st) break;
        trial.sketch = sketch_of(&trial.trace, &known, &sketch, arena);
        bool first = kiln_str_is(record[i].searcher, "default") && defaults++ == 0;
        log->trial[log->trial_count++] = trial;
        if (!first) continue;
        kiln_replay_trial swapped = log->trial[0];
        log->trial[0] = trial;
        log->trial[log->trial_count - 1] = swapped;
    }
    log->sketch = sketch.data;
    log->sketch_count = sketch.count;
    kiln_map_deinit(&seen);
    kiln_map_deinit(&known);
    if (!st && defaults == 0) st = KILN_ERROR(NOT_FOUND, "the default schedule was not measured");
    return st;
}

kiln_status kiln_replay_log_read(kiln_db *db, kiln_str task_key, kiln_arena *arena,
                                 kiln_replay_log *out_log) {
    kiln_db_filter filter = {.task_key = task_key};
    kiln_db_record *record = NULL;
    kiln_db_task task;
    kiln_replay_log log = {.key = task_key};
    uint32_t count = 0;
    bool found = false;
    kiln_status st = kiln_db_find_task(db, task_key, arena, &task, &found);
    if (!st && found) st = kiln_db_records(db, &filter, arena, &record, &count);
    if (!st && count == 0)
        st = KILN_ERROR(NOT_FOUND, "there is no record of task %.*s", KILN_STR_ARG(task_key));
    if (!st) {
        log.op = task.op;
        log.program = task.canonical;
        log.target = record[0].target;
        log.codegen = record[0].codegen_version;
        st = take_records(record, count, arena, &log);
    }
    if (!st) *out_log = log;
    return kiln_status_note(st, "reading a log");
}

/* ---- text ---- */

static uint32_t lines_of(kiln_str text) {
    uint32_t lines = text.size && text.data[text.size - 1] != '\n';
    for (size_t i = 0; i < text.size; i++) lines += text.data[i] == '\n';
    return lines;
}

static void print_word(const char *name, kiln_str text, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s ", name);
    kiln_strbuf_str(out, text);
    kiln_strbuf_char(out, '\n');
}

static void print_block(const char *name, kiln_str text, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s %u\n", name, lines_of(text));
    kiln_strbuf_str(out, text);
    if (text.size && text.data[text.size - 1] != '\n') kiln_strbuf_char(out, '\n');
}

static void print_trial(const kiln_replay_trial *trial, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s %.0f %u", kiln_outcome_name(trial->outcome), trial->median_ns,
                       trial->sketch);
    for (uint32_t i = 0; i < trial->trace.count; i++) {
        const kiln_instruction *in = &trial->trace.instruction[i];
        for (uint32_t k = 0; k < in->decision_count; k++)
            kiln_strbuf_printf(out, "%c%lld", k ? ',' : ' ', (long long)in->decision[k]);
    }
    kiln_strbuf_char(out, '\n');
}

void kiln_replay_log_print(const kiln_replay_log *log, kiln_strbuf *out) {
    kiln_strbuf_printf(out, HEAD "\n");
    print_word("op", log->op, out);
    print_word("key", log->key, out);
    print_word("target", log->target, out);
    print_word("codegen", log->codegen, out);
    print_block("program", log->program, out);
    for (uint32_t i = 0; i < log->sketch_count; i++) {
        kiln_strbuf text = {0};
        kiln_trace_print(&log->sketch[i], &text);
        print_block("sketch", kiln_strbuf_view(&text), out);
        kiln_strbuf_deinit(&text);
    }
    kiln_strbuf_printf(out, "trials %u\n", log->trial_count);
    for (uint32_t i = 0; i < log->trial_count; i++) print_trial(&log->trial[i], out);
}

typedef struct parser {
    kiln_str rest;
    uint32_t line;
    kiln_arena *arena;
    kiln_replay_log log;
} parser;

static kiln_str next_line(parser *p) {
    p->line++;
    return kiln_str_cut(&p->rest, '\n');
}

static kiln_status bad(const parser *p, const char *wanted) {
    return KILN_ERROR(INVALID_ARGUMENT, "replay log, line %u: %s is expected", p->line, wanted);
}

/* "WORD REST": the rest. */
static kiln_status parse_word(parser *p, const char *word, kiln_str *out) {
    kiln_str line = next_line(p);
    kiln_str head = kiln_str_cut(&line, ' ');
    if (!kiln_str_is(head, word)) return bad(p, word);
    *out = line;
    return KILN_OK;
}

static kiln_status parse_count(parser *p, const char *word, uint64_t max, uint32_t *out) {
    kiln_str text;
    uint64_t count = 0;
    kiln_status st = parse_word(p, word, &text);
    if (!st && (!kiln_str_to_u64(text, &count) || count > max)) st = bad(p, "a count");
    if (!st) *out = (uint32_t)count;
    return st;
}

/* "WORD COUNT" and so many lines: those. */
static kiln_status parse_block(parser *p, const char *word, kiln_str *out) {
    uint32_t lines = 0;
    kiln_status st = parse_count(p, word, KILN_REPLAY_TRIALS_MAX, &lines);
    const char *begin = p->rest.data;
    for (uint32_t i = 0; !st && i < lines; i++) {
        if (p->rest.size == 0)
            st = bad(p, "a line");
        else
            (void)next_line(p);
    }
    if (!st) *out = (kiln_str){begin, (size_t)(p->rest.data - begin)};
    return st;
}

static bool parse_decision(kiln_str word, kiln_instruction *in) {
    in->decided = word.size > 0;
    while (word.size) {
        uint64_t value = 0;
        if (in->decision_count == KILN_DECISIONS_MAX ||
            !kiln_str_to_u64(kiln_str_cut(&word, ','), &value) || value > INT64_MAX)
            return false;
        in->decision[in->decision_count++] = (int64_t)value;
    }
    return in->decided;
}

static kiln_status parse_trial(parser *p, kiln_replay_trial *trial) {
    kiln_str line = next_line(p);
    uint64_t median = 0, sketch = 0;
    if (!kiln_outcome_find(kiln_str_cut(&line, ' '), &trial->outcome)) return bad(p, "an outcome");
    if (!kiln_str_to_u64(kiln_str_cut(&line, ' '), &median) || median > MEDIAN_MAX_NS)
        return bad(p, "a median");
    if (!kiln_str_to_u64(kiln_str_cut(&line, ' '), &sketch) || sketch >= p->log.sketch_count)
        return bad(p, "the number of a sketch");
    trial->median_ns = (double)median;
    trial->sketch = (uint32_t)sketch;
    trial->trace = kiln_trace_copy(&p->log.sketch[sketch], p->arena);
    for (uint32_t i = 0; i < trial->trace.count; i++) {
        kiln_instruction *in = &trial->trace.instruction[i];
        if (kiln_instruction_samples(in) && !parse_decision(kiln_str_cut(&line, ' '), in))
            return bad(p, "a decision of each sampler");
    }
    return line.size ? bad(p, "the end of the line") : KILN_OK;
}

static kiln_status parse_sketches(parser *p) {
    kiln_status st = KILN_OK;
    p->log.sketch = KILN_ARENA_ARRAY(p->arena, kiln_trace, KILN_REPLAY_SKETCHES_MAX);
    while (!st && kiln_str_starts(p->rest, "sketch ")) {
        kiln_str text;
        if (p->log.sketch_count == KILN_REPLAY_SKETCHES_MAX)
            return bad(p, "no more than 64 sketches");
        st = parse_block(p, "sketch", &text);
        kiln_trace trace;
        if (!st) st = kiln_trace_parse(text, p->arena, &trace);
        if (!st) p->log.sketch[p->log.sketch_count++] = open_copy(&trace, p->arena);
        if (st) return kiln_status_note(st, "sketch that ends in line %u", p->line);
    }
    return st;
}

kiln_status kiln_replay_log_parse(kiln_str text, kiln_arena *arena, kiln_replay_log *out_log) {
    parser p = {.rest = text, .arena = arena};
    kiln_str head = next_line(&p);
    kiln_status st = kiln_str_is(head, HEAD) ? KILN_OK : bad(&p, "\"" HEAD "\"");
    if (!st) st = parse_word(&p, "op", &p.log.op);
    if (!st) st = parse_word(&p, "key", &p.log.key);
    if (!st) st = parse_word(&p, "target", &p.log.target);
    if (!st) st = parse_word(&p, "codegen", &p.log.codegen);
    if (!st) st = parse_block(&p, "program", &p.log.program);
    if (!st) st = parse_sketches(&p);
    if (!st) st = parse_count(&p, "trials", KILN_REPLAY_TRIALS_MAX, &p.log.trial_count);
    if (!st) p.log.trial = KILN_ARENA_ARRAY(arena, kiln_replay_trial, p.log.trial_count);
    for (uint32_t i = 0; !st && i < p.log.trial_count; i++) st = parse_trial(&p, &p.log.trial[i]);
    if (!st && p.rest.size) st = bad(&p, "the end");
    if (!st && p.log.trial_count == 0) st = bad(&p, "a trial");
    if (!st) *out_log = p.log;
    return st;
}
