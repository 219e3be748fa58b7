/* Serves the text of a recorded trial: its schedule as a trace, its loops in words and as text, its
 * machine code. The program and the trace may come from anybody whose records were imported, so
 * that they are read and compiled in a process without rights. */
#include <string.h>

#include "base/isolated/isolated.h"
#include "cli/common/json.h"
#include "cli/common/records.h"
#include "cli/worker/serve.h"

#define ALL_STAGES "trace,words,loops,asm"
#define EXPLAIN_CPU_S 60u
#define TEXT_BYTES_MAX ((size_t)16 << 20)

typedef struct trial {
    const char *stage;
    kiln_db_record record;
    kiln_db_task task;
    kiln_target target;
} trial;

/* The back end or form in which people read code of such targets. */
static kiln_codegen_options code_options(const kiln_target *target) {
    switch (kiln_payload_of(target->kind)) {
    case KILN_PAYLOAD_PTX: return (kiln_codegen_options){.emit = KILN_EMIT_OBJECT, .optimise = 2};
    case KILN_PAYLOAD_OPENCL: return (kiln_codegen_options){.backend = "opencl"};
    case KILN_PAYLOAD_VTA: return (kiln_codegen_options){.backend = "tokens"};
    default: return (kiln_codegen_options){.emit = KILN_EMIT_ASM, .optimise = 2};
    }
}

static kiln_status print_code(const trial *t, kiln_program *program, kiln_arena *arena,
                              kiln_strbuf *out) {
    const kiln_codegen_options options = code_options(&t->target);
    kiln_lowered lowered;
    kiln_str text = {0};
    uint64_t scratch = 0, worker_scratch = 0;
    kiln_status st = kiln_lower(program, &t->target, arena, &lowered);
    if (!st)
        st = kiln_codegen(&lowered, &t->target, &options, arena, &text, &scratch, &worker_scratch);
    if (!st) kiln_strbuf_str(out, text);
    return st;
}

static kiln_status print_trial(const trial *t, kiln_arena *arena, kiln_strbuf *out) {
    kiln_program *te = NULL, *program = NULL;
    kiln_trace trace;
    kiln_status st = kiln_trace_decode(t->record.trace, arena, &trace);
    if (st) return st;
    if (strcmp(t->stage, "trace") == 0) {
        kiln_trace_print(&trace, out);
        return KILN_OK;
    }
    st = kiln_program_parse(t->task.canonical, arena, &te);
    if (!st) st = kiln_trace_replay(&trace, te, NULL, arena, &program, NULL);
    if (st) return st;
    if (strcmp(t->stage, "words") == 0) {
        kiln_program_words(program, out);
        return KILN_OK;
    }
    return strcmp(t->stage, "loops") == 0
               ? kiln_lower_explain(program, &t->target, KILN_STR(""), arena, out)
               : print_code(t, program, arena, out);
}

/* In a process without rights. */
static kiln_status run(void *context, kiln_arena *arena, kiln_isolated_result *out_result) {
    kiln_strbuf text = {0};
    kiln_status st = print_trial(context, arena, &text);
    if (!st && text.size > TEXT_BYTES_MAX)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "its text is longer than %zu bytes", TEXT_BYTES_MAX);
    const kiln_str all = kiln_strbuf_end(&text, arena);
    *out_result = (kiln_isolated_result){1, kiln_arena_copy(arena, &all, sizeof all)};
    return st;
}

/* The stage of the trial, as an event. */
static kiln_status explain(trial *t, kiln_events *events) {
    kiln_mapping text = {0};
    const kiln_isolated_work work = {
        .what = "its text", .run = run, .context = t, .limits = {.cpu_s = EXPLAIN_CPU_S}};
    kiln_status st = kiln_isolated_run(&work, &text);
    if (st) return st;
    kiln_events_result(events,
                       json_pack("{s:s, s:o, s:s, s:o, s:o}", "event", "explain", "trial",
                                 kiln_json_str(t->record.trial_id), "stage", t->stage,
                                 "codegen_version", kiln_json_str(t->record.codegen_version),
                                 "text", kiln_json_str((kiln_str){text.data, text.size})));
    kiln_file_unmap(&text);
    return KILN_OK;
}

static kiln_status read_trial(const char *path, const char *id, kiln_arena *process, trial *out) {
    const kiln_db_filter filter = {
        .trial_id = kiln_str_from(id), .whose = KILN_DB_ANY, .order = KILN_DB_NEWEST, .limit = 1};
    kiln_db_record *record = NULL;
    kiln_db *db = NULL;
    uint32_t count = 0;
    bool found = false;
    kiln_status st = kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_db_records(db, &filter, process, &record, &count);
    if (!st && !count) st = KILN_ERROR(NOT_FOUND, "no record is of the trial %s", id);
    if (!st) st = kiln_db_find_task(db, record->task_key, process, &out->task, &found);
    if (!st && !found)
        st = KILN_ERROR(NOT_FOUND, "the database does not have the task of the trial %s", id);
    kiln_db_close(db);
    if (!st) out->record = *record;
    return st ? st : kiln_target_parse(record->target, process, &out->target);
}

static kiln_status check_stages(const char *stages) {
    kiln_str rest = kiln_str_from(stages);
    const char *const known[] = {"trace", "words", "loops", "asm"};
    while (rest.size) {
        const kiln_str word = kiln_str_cut(&rest, ',');
        bool is_known = false;
        for (size_t i = 0; i < KILN_ARRAY_COUNT(known); i++)
            is_known |= kiln_str_is(word, known[i]);
        if (!is_known)
            return KILN_ERROR(INVALID_ARGUMENT,
                              "no stage of a trial is called '%.*s'; there are " ALL_STAGES,
                              KILN_STR_ARG(word));
    }
    return KILN_OK;
}

kiln_status kiln_serve_explain(const kiln_served *served) {
    const char *db_option = NULL, *stages = ALL_STAGES, *path = NULL;
    const kiln_opt option[] = {
        {"db", KILN_OPT_TEXT, &db_option, "PATH", "records database (default $KILN_HOME/kiln.db)"},
        {"stage", KILN_OPT_TEXT, &stages, "STAGES", "some of " ALL_STAGES " (default: all)"},
    };
    const kiln_opt_table table = {"", "", option, KILN_ARRAY_COUNT(option), 0, 0};
    trial t = {0};
    kiln_status st = kiln_served_options(served, &table);
    if (!st) st = check_stages(stages);
    if (!st) st = kiln_db_path(db_option, served->process, &path);
    if (!st) st = read_trial(path, served->subject, served->process, &t);
    kiln_str rest = kiln_str_from(st ? "" : stages);
    while (!st && rest.size) {
        t.stage = kiln_str_dup(served->process, kiln_str_cut(&rest, ','));
        st = kiln_status_note(explain(&t, served->events), "the stored schedule of the trial %s",
                              served->subject);
    }
    return st;
}
