/* kiln db: best, top, history, stats, export, import, sql, plot; the rest is in db_trust.c. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/stats.h"
#include "cli/action.h"
#include "cli/autotvm_import.h"
#include "cli/common/json.h"
#include "cli/common/options.h"
#include "cli/common/records.h"
#include "cli/db_call.h"
#include "cli/db_list.h"
#include "cli/db_remote.h"
#include "cli/display.h"
#include "cli/plot.h"
#include "cli/rows_json.h"
#include "db/recorded.h"
#include "proto/signing.h"
#include "tuner/plausible.h"

#define IMPORT_BYTES_MAX ((size_t)4 << 30)

/* ---- records --------------------------------------------------------------------------------- */

/* Whether a processor's time, or an emulator's. */
static bool is_emulated(const kiln_db_call *c, kiln_str text) {
    kiln_target target = {0};
    kiln_status st = kiln_target_parse(text, c->process, &target);
    kiln_status_free(st); /* written by a Kiln that knows more targets */
    return target.emulated;
}

/* Text of the database, for a table. */
static kiln_str line_of(const kiln_db_call *c, kiln_str text) {
    return kiln_text_printable(text, KILN_TEXT_LINE, SIZE_MAX, c->process);
}

/* ---- which target --------------------------------------------------------------------------- */

/* --target in any form becomes the canonical text, as which it is stored. */
static kiln_status resolve_target(kiln_db_call *c) {
    return c->target ? kiln_db_recorded_target(c->db, c->path, c->target, c->process, &c->target)
                     : KILN_OK;
}

/* Makes `*text` whole where it is the beginning of one identity of the kinds from `first` to
 * `last`. One that no record has stays as it is: whoever takes it says so. */
static kiln_status complete(const kiln_db_call *c, kiln_db_identity first, kiln_db_identity last,
                            const char *what, const char **text) {
    kiln_identity_search search = {.typed = kiln_str_from(*text), .arena = c->process};
    kiln_str id = {0};
    kiln_status st = KILN_OK;
    if (!*text || !**text) return KILN_OK;
    for (unsigned kind = first; !st && kind <= last; kind++)
        st = kiln_db_try_identities(c->db, (kiln_db_identity)kind, &search);
    if (st || search.count == 0) return st;
    st = kiln_identity_found(&search, what, &id);
    if (!st) *text = kiln_str_dup(c->process, id);
    return st;
}

/* A budget of accuracy that was asked for. */
static kiln_status resolve_allowed(const kiln_accuracy_options *options, kiln_db_call *c) {
    kiln_accuracy accuracy;
    if (!options->precision && !options->error_max && !options->exact) return KILN_OK;
    kiln_status st = kiln_accuracy_option(options, &accuracy);
    if (!st) c->allowed = kiln_allowed_by(&accuracy, c->process);
    return st;
}

/* ---- questions ------------------------------------------------------------------------------- */

static kiln_db_filter filter_of(const kiln_db_call *c, kiln_db_order order, uint32_t limit) {
    return (kiln_db_filter){.task_key = kiln_str_from(c->task),
                            .target = kiln_str_from(c->target),
                            .allowed = c->allowed,
                            .order = order,
                            .limit = c->limit ? (uint32_t)KILN_MIN(c->limit, UINT32_MAX) : limit};
}

static kiln_status print_records(const kiln_db_call *c, kiln_db_order order, uint32_t limit) {
    kiln_db_filter filter = filter_of(c, order, limit);
    if (order == KILN_DB_OLDEST) filter.whose = KILN_DB_ANY;
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_db_records(c->db, &filter, c->process, &record, &count);
    return st ? st : kiln_db_list_records(c->db, c->form, record, count, c->process);
}

static kiln_status db_best(const kiln_db_call *c) {
    kiln_db_filter filter = filter_of(c, KILN_DB_FASTEST, 0);
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_db_best(c->db, &filter, c->process, &record, &count);
    if (filter.limit) count = KILN_MIN(count, filter.limit);
    return st ? st : kiln_db_list_records(c->db, c->form, record, count, c->process);
}

static kiln_status db_top(const kiln_db_call *c) { return print_records(c, KILN_DB_FASTEST, 10); }
static kiln_status db_history(const kiln_db_call *c) { return print_records(c, KILN_DB_OLDEST, 0); }

static json_t *outcome_counts(const kiln_db_stat *stat) {
    json_t *counts = json_object();
    for (unsigned k = 0; k < KILN_OUTCOME_COUNT; k++)
        if (stat->outcome_count[k])
            json_object_set_new(counts, kiln_outcome_name((kiln_outcome)k),
                                json_integer(stat->outcome_count[k]));
    return counts;
}

static json_t *origin_counts(const kiln_db_stat *stat) {
    json_t *counts = json_object();
    for (unsigned k = 0; k < KILN_DB_ORIGIN_COUNT; k++)
        if (stat->origin_count[k])
            json_object_set_new(counts, kiln_db_origin_name((kiln_db_origin)k),
                                json_integer(stat->origin_count[k]));
    return counts;
}

/* "; 12 measured, 3 imported" */
static void print_origins(const kiln_db_stat *stat) {
    const char *between = "; ";
    for (unsigned k = 0; k < KILN_DB_ORIGIN_COUNT; k++) {
        if (stat->origin_count[k] == 0) continue;
        printf("%s%lld %s", between, (long long)stat->origin_count[k],
               kiln_db_origin_name((kiln_db_origin)k));
        between = ", ";
    }
    putchar('\n');
}

static void print_stat(const kiln_db_call *c, const kiln_db_stat *s) {
    if (c->json) {
        kiln_json_line(
            json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:f, s:o, s:o}", "event", "stats", "task",
                      kiln_json_str(s->task_key), "op", kiln_json_str(s->op), "target",
                      kiln_json_str(s->target), "records", (json_int_t)s->record_count, "ok",
                      (json_int_t)s->outcome_count[KILN_OUTCOME_OK], "best_ms", s->best_ns / 1e6,
                      "outcomes", outcome_counts(s), "origins", origin_counts(s)));
        return;
    }
    kiln_strbuf time = {0};
    if (s->best_ns > 0)
        kiln_print_time(s->best_ns, &time);
    else
        kiln_strbuf_char(&time, '-');
    printf("%-35.*s %-26.*s %6lld records, %6lld ok, best %s%s",
           KILN_STR_ARG(line_of(c, s->task_key)), KILN_STR_ARG(line_of(c, s->op)),
           (long long)s->record_count, (long long)s->outcome_count[KILN_OUTCOME_OK], time.data,
           is_emulated(c, s->target) ? " emulated" : "");
    print_origins(s);
    kiln_strbuf_deinit(&time);
}

void kiln_db_call_print_stats(const kiln_db_call *c, const kiln_db_stat *stat, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) print_stat(c, &stat[i]);
}

static kiln_status db_stats(const kiln_db_call *c) {
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_db_stats(c->db, c->process, &stat, &count);
    if (!st) kiln_db_call_print_stats(c, stat, count);
    return st;
}

/* ---- export, import, sql --------------------------------------------------------------------- */

static kiln_status export_row(void *context, kiln_db_table table, const void *row) {
    (void)context;
    kiln_row_print(table, row, stdout);
    return ferror(stdout) ? KILN_ERROR(CANCELLED, "nobody takes the rest") : KILN_OK;
}

static kiln_status db_export(const kiln_db_call *c) {
    kiln_status st = KILN_OK;
    for (unsigned i = 0; !st && i < KILN_DB_TABLE_COUNT; i++)
        if (kiln_db_table_info_of((kiln_db_table)i)->kind == KILN_DB_RECORDS &&
            i != KILN_DB_TABLE_SIGNER) /* whom we trust is our own affair */
            st = kiln_db_each(c->db, (kiln_db_table)i, export_row, NULL);
    return st;
}

/* The key of this person, made at first use. */
static kiln_status load_own(const kiln_db_call *c, kiln_signing *out_signing) {
    char *home = NULL;
    kiln_status st = kiln_home(c->process, &home);
    if (!st) st = kiln_signing_load(home, NULL, out_signing);
    if (!st && !out_signing->signer)
        st = KILN_ERROR(UNIMPLEMENTED, "--own signs records, and this kiln has no signatures");
    return st;
}

static kiln_status db_import(const kiln_db_call *c) {
    kiln_db_import_options options = {.now_wall_ns = (int64_t)kiln_clock_wall_ns(),
                                      .implausible = kiln_plausible_why_not};
    kiln_db_import_counts counts = {0};
    kiln_db_import *import = NULL;
    kiln_str content = {0};
    uint64_t line_number = 0;
    kiln_signing own = {0};
    kiln_status st = kiln_file_read(c->argument, IMPORT_BYTES_MAX, c->process, &content);
    if (!st && c->own) st = load_own(c, &own);
    if (!st) st = kiln_trust_own(c->db, c->process);
    if (st) {
        kiln_signer_destroy(own.signer);
        return st;
    }
    options.signer = own.signer;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    options.context = kiln_plausible_create();
    kiln_db_import_begin(c->db, &options, &import);
    while (!st && content.size) {
        kiln_str line = kiln_str_trim(kiln_str_cut(&content, '\n'));
        line_number++;
        if (line.size) st = kiln_row_import(import, line, &scratch);
        kiln_arena_reset(&scratch);
    }
    kiln_arena_deinit(&scratch);
    st = kiln_db_import_end(import, st, &counts);
    kiln_plausible_destroy(options.context);
    kiln_signer_destroy(own.signer);
    if (st)
        return kiln_status_note(st, "%s:%llu (nothing was imported)", c->argument,
                                (unsigned long long)line_number);
    kiln_strbuf text = {0};
    kiln_db_import_print(&counts, &text);
    printf("%s\n", text.data);
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

static kiln_status import_autotvm(const kiln_db_call *c, kiln_autotvm_options *options,
                                  const kiln_opt_list *dim) {
    options->log = c->argument;
    options->db = c->path;
    options->json = c->json;
    if (c->own)
        return KILN_ERROR(INVALID_ARGUMENT, "--own or --autotvm, not both: what another system "
                                            "measured is always a hint");
    kiln_status st = kiln_target_option(c->target, 0, c->process, &options->target);
    if (!st) st = kiln_dim_option(dim, c->process, &options->import);
    return st ? st : kiln_autotvm_import(options, c->process);
}

static kiln_status db_sql(const kiln_db_call *c) {
    kiln_db_lister lister = {.form = c->form};
    return kiln_db_sql(c->db, kiln_str_from(c->argument), kiln_db_list_cells, &lister);
}

static kiln_status db_plot(const kiln_db_call *c) {
    kiln_db_filter filter = filter_of(c, KILN_DB_OLDEST, 0);
    kiln_plot plot = {.source = c->path};
    kiln_strbuf page = {0};
    if (!c->output)
        return KILN_ERROR(INVALID_ARGUMENT, "kiln db plot -o FILE.html: the file is missing");
    kiln_status st = kiln_file_check_writable(c->output);
    if (!st) st = kiln_plot_read(c->db, &filter, c->process, &plot);
    if (!st) kiln_plot_print(&plot, &page);
    if (!st) st = kiln_file_write(c->output, kiln_strbuf_view(&page), 0666);
    kiln_strbuf_deinit(&page);
    if (!st && c->json)
        kiln_json_line(json_pack("{s:s, s:s, s:i}", "event", "plot", "file", c->output, "tasks",
                                 (int)plot.task_count));
    return st;
}

#define ACTIONS(X)                                                                           \
    X("best", "", db_best, READ, "the fastest record of each task and target")               \
    X("top", "", db_top, READ, "the fastest records")                                        \
    X("history", "", db_history, READ, "all records, the oldest first")                      \
    X("stats", "", db_stats, READ, "count the records of each task by outcome")              \
    X("export", "", db_export, READ, "print all records, for kiln db import")                \
    X("import", "FILE", db_import, WRITE, "import records from a file")                      \
    X("sql", "STATEMENT", db_sql, READ, "run a statement of SQL that changes nothing")       \
    X("plot", "", db_plot, READ, "write a page of curves, -o FILE.html")                     \
    X("verify", "", kiln_db_call_verify, READ, "check every signature")                      \
    X("forget", "ID", kiln_db_call_forget, WRITE,                                            \
      "remove records for good, also from later imports")                                    \
    X("quarantine", "ID", kiln_db_call_quarantine, WRITE, "set records aside until restore") \
    X("restore", "ID", kiln_db_call_restore, WRITE, "let quarantined records count again")   \
    X("prune", "", kiln_db_call_prune, WRITE,                                                \
      "remove hints (records of untrusted signers) and quarantined records")

static const kiln_action actions[] = {
#define X(name, arguments, run, mode, help) {name, arguments, help},
    ACTIONS(X)
#undef X
};

static const struct {
    kiln_status (*run)(const kiln_db_call *c);
    kiln_db_mode mode;
} does[] = {
#define X(name, arguments, run, mode, help) {run, KILN_DB_##mode},
    ACTIONS(X)
#undef X
};

/* --tracker: the same of tuners, which have a database of their own. */
static kiln_status ask_from_afar(const kiln_action *action, const kiln_db_call *c,
                                 const kiln_db_remote *remote) {
    static const char *const question[KILN_RECORDS_QUESTION_COUNT] = {
        [KILN_RECORDS_BEST] = "best",
        [KILN_RECORDS_TOP] = "top",
        [KILN_RECORDS_HISTORY] = "history",
        [KILN_RECORDS_STATS] = "stats",
    };
    for (unsigned i = 0; i < KILN_RECORDS_QUESTION_COUNT; i++)
        if (strcmp(action->name, question[i]) == 0)
            return kiln_db_call_remote(c, remote, (kiln_records_question)i);
    return KILN_ERROR(INVALID_ARGUMENT,
                      "--tracker asks for best, top, history and stats; %s needs a database here",
                      action->name);
}

kiln_status kiln_cmd_db(kiln_arena *process, int argc, char **argv) {
    const char *db_option = NULL;
    bool waits = false;
    kiln_db_remote remote = {.client = {.waits = kiln_waits_show, .waits_context = &waits}};
    kiln_accuracy_options accuracy = {0};
    kiln_autotvm_options autotvm = {0};
    kiln_opt_list dim = {0};
    bool is_autotvm = false;
    kiln_db_call c = {.process = process};
    const kiln_opt option[] = {
        {"db", KILN_OPT_TEXT, &db_option, "PATH", "records database (default $KILN_HOME/kiln.db)"},
        {"task", KILN_OPT_TEXT, &c.task, "KEY", "only this task"},
        {"target", KILN_OPT_TEXT, &c.target, "T",
         "only this target: rpi4, native, cpu:... (best, top, history, plot)"},
        {"tracker", KILN_OPT_TEXT, &remote.client.tracker, "ADDR",
         "ask the tuners of this tracker for their records (best, top, history, stats)"},
        {"tuner", KILN_OPT_TEXT, &remote.tuner, "NAME",
         "with --tracker: only this tuner, by its name or node"},
        KILN_CLIENT_KEY_OPTIONS(&remote.client),
        KILN_ACCURACY_OPTIONS(&accuracy),
        {"output|o", KILN_OPT_TEXT, &c.output, "FILE", "plot: the page to write"},
        {"reason", KILN_OPT_LINE, &c.reason, "TEXT", "forget, quarantine, restore: why"},
        {"own", KILN_OPT_FLAG, &c.own, NULL,
         "import: sign records without a signature as yours (of kiln-rpc-server --batch), so that "
         "they count"},
        {"autotvm", KILN_OPT_FLAG, &is_autotvm, NULL,
         "import: FILE is a log of AutoTVM; its schedules for the kernels of --model become hints"},
        {"model", KILN_OPT_TEXT, &autotvm.model, "MODEL",
         "with --autotvm: the model whose kernels were tuned there, for --target (default native)"},
        {"dim", KILN_OPT_LIST, &dim, "NAME=N", kiln_dim_help},
        {"limit", KILN_OPT_COUNT, &c.limit, "N", "at most N rows (default: 10 for top, else all)"},
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object per line"},
        {"csv", KILN_OPT_FLAG, &c.csv, NULL, "print CSV with a header (best, top, history, sql)"},
    };
    static const kiln_actions table = {
        .command = "db",
        .summary =
            "Queries the records database. --accuracy, --exact and --precision leave out records "
            "that such a budget does not allow (best, top, history, plot; default: any record). ID "
            "is a trial, a job, a signer or a trace. The beginning of ID and of --task is enough.",
        .action = actions,
        .count = KILN_ARRAY_COUNT(actions)};
    kiln_args args;
    size_t index = 0;
    kiln_status st = kiln_action_parse(&table, option, KILN_ARRAY_COUNT(option), argc, argv,
                                       process, &args, &index);
    if (st || args.help) return st;
    if (c.json && c.csv) return KILN_ERROR(INVALID_ARGUMENT, "--json or --csv, not both");
    c.form = c.json ? KILN_DB_FORM_JSON : c.csv ? KILN_DB_FORM_CSV : KILN_DB_FORM_TEXT;
    c.argument = args.count ? args.positional[0] : NULL;
    st = resolve_allowed(&accuracy, &c);
    if (!st && remote.tuner && !remote.client.tracker)
        st = KILN_ERROR(INVALID_ARGUMENT, "--tuner needs --tracker");
    if (!st && remote.client.tracker && db_option)
        st = KILN_ERROR(INVALID_ARGUMENT, "--tracker or --db, not both");
    if (!st && (is_autotvm || autotvm.model || dim.count) &&
        (does[index].run != db_import || !is_autotvm || !autotvm.model))
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "it is kiln db import FILE --autotvm --model MODEL: a log names "
                        "workloads, and a model has the kernels that they are part of");
    if (!st && remote.client.tracker) return ask_from_afar(&actions[index], &c, &remote);
    if (!st) st = kiln_db_path(db_option, process, &c.path);
    if (!st && is_autotvm) return import_autotvm(&c, &autotvm, &dim);
    if (!st) st = kiln_db_open(c.path, KILN_DB_RECORDS, does[index].mode, &c.db);
    if (!st) st = resolve_target(&c);
    if (!st) st = complete(&c, KILN_DB_OF_TASK, KILN_DB_OF_TASK, "task", &c.task);
    if (!st && strcmp(actions[index].arguments, "ID") == 0)
        st = complete(&c, KILN_DB_OF_TRIAL, KILN_DB_OF_TRACE, "trial, job, signer or trace",
                      &c.argument);
    if (!st) st = does[index].run(&c);
    kiln_db_close(c.db);
    return st;
}
