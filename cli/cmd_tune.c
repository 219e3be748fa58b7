/* kiln tune: submits a model to a tracker (its own private fleet when none is named), follows the
 * job, brings the records home, and packs the module. Always the same three programs over a socket.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/display.h"
#include "cli/private_fleet.h"
#include "db/bundle.h"
#include "deploy/pack/pack.h"
#include "tuner/search/searcher.h"

#define FLEET_CHECK_NS (UINT64_C(200) * KILN_NS_PER_MS)
#define SAMPLES_VERIFIED_MIN 5u
#define MODULE_ALIGNMENT 4096u

typedef struct tune_options {
    const char *model, *target_text, *tasks, *tracker, *db, *search, *out;
    uint64_t trials, seed;
    double seconds;
    bool detach, json, insecure;
} tune_options;

typedef struct tune {
    const tune_options *options;
    kiln_arena *process;
    const char *db_path;
    kiln_target target;
    const char *target_text; /* canonical */
    kiln_graph *graph;
    kiln_tasks tasks;
    kiln_private_fleet *fleet;
    kiln_client *client;
    kiln_display display;
    char job[KILN_HASH128_TEXT];
    kiln_message open; /* JOB_OPEN, repeated after a reconnect */
    bool done, cancelled;
    kiln_msg_job_done end;     /* views in process */
    uint64_t start_ns, end_ns; /* of the job */
} tune;

/* ---- before ---------------------------------------------------------------------------------- */

/* Everything that can be wrong with the request is found before a program is started. */
static kiln_status check_request(tune *t) {
    const tune_options *o = t->options;
    kiln_searcher_kind kind;
    kiln_db *db = NULL;
    if (o->detach)
        return KILN_ERROR(UNIMPLEMENTED, "--detach is not there yet; leave the command running");
    if (o->seconds < 0) return KILN_ERROR(INVALID_ARGUMENT, "--seconds %g is negative", o->seconds);
    kiln_status st = kiln_searcher_find(kiln_str_from(o->search), &kind);
    if (!st) st = kiln_target_option(o->target_text, t->process, &t->target);
    if (!st &&
        strcmp(t->target.kind.data ? kiln_str_dup(t->process, t->target.kind) : "", "cpu") != 0)
        st = KILN_ERROR(UNIMPLEMENTED, "this version tunes cpu targets only, not %.*s",
                        KILN_STR_ARG(t->target.kind));
    if (!st) st = kiln_model_load(o->model, t->process, &t->graph);
    if (!st) st = kiln_tasks_extract(t->graph, t->process, &t->tasks);
    if (!st) st = kiln_db_path(o->db, t->process, &t->db_path);
    if (!st)
        st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_WRITE,
                          &db); /* unwritable, newer, no database */
    kiln_db_close(db);
    if (st) return st;
    kiln_strbuf text = {0};
    kiln_target_print(&t->target, &text);
    t->target_text = kiln_str_dup(t->process, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

/* What is known about the tasks already, for a tuner that keeps another database. */
static kiln_status send_records(tune *t, kiln_digest *out_digest) {
    kiln_db *db = NULL;
    kiln_strbuf bytes = {0};
    kiln_db_filter *filter = KILN_ARENA_ARRAY(t->process, kiln_db_filter, t->tasks.count);
    for (uint32_t i = 0; i < t->tasks.count; i++)
        filter[i] = (kiln_db_filter){.task_key = t->tasks.task[i].key,
                                     .target = kiln_str_from(t->target_text)};
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_bundle_export(db, filter, t->tasks.count, &bytes);
    if (!st) st = kiln_client_put(t->client, kiln_strbuf_view(&bytes), out_digest);
    kiln_strbuf_deinit(&bytes);
    kiln_db_close(db);
    return st;
}

/* ---- the job --------------------------------------------------------------------------------- */

static void on_message(void *context, const kiln_message *message) {
    tune *t = context;
    if (!message) { /* connected again: the tracker attaches us to the job */
        kiln_client_send(t->client, &t->open);
        return;
    }
    if (message->type == KILN_MSG_JOB_EVENT) {
        kiln_display_update(&t->display, &message->job_event);
    } else if (message->type == KILN_MSG_JOB_DONE && !t->done) {
        t->end = kiln_message_copy(message, t->process).job_done;
        t->done = true;
        kiln_client_wake(t->client);
    }
}

static void cancel_job(tune *t, const char *reason) {
    t->cancelled = true;
    kiln_message cancel = {.type = KILN_MSG_CANCEL,
                           .cancel = {.scope = KILN_CANCEL_JOB,
                                      .id = kiln_str_from(t->job),
                                      .reason = kiln_str_from(reason)}};
    kiln_client_send(t->client, &cancel);
}

static void on_signal(void *context, int signal) {
    (void)signal;
    tune *t = context;
    if (t->cancelled)
        exit(kiln_code_exit(KILN_CANCELLED)); /* the second time; children end with us */
    fprintf(stderr, "stopping; what is measured is kept (again: at once)\n");
    cancel_job(t, "stopped by the user");
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static kiln_status open_job(tune *t) {
    const tune_options *o = t->options;
    kiln_strbuf model = {0};
    kiln_hash128 identity;
    kiln_msg_job_spec spec = {.model_name = kiln_str_from(file_name(o->model)),
                              .target = kiln_str_from(t->target_text),
                              .searcher = kiln_str_from(o->search),
                              .trials = (uint32_t)KILN_MIN(o->trials, 100000000u),
                              .seconds = o->seconds,
                              .seed = o->seed,
                              .tasks = kiln_str_from(o->tasks),
                              .project = KILN_STR("default"),
                              .user =
                                  kiln_str_from(kiln_env("USER") ? kiln_env("USER") : "unknown")};
    kiln_status st = kiln_onnx_embed(o->model, &model);
    if (!st) st = kiln_client_put(t->client, kiln_strbuf_view(&model), &spec.model);
    kiln_strbuf_deinit(&model);
    if (!st && !t->fleet) st = send_records(t, &spec.records);
    if (!st) st = kiln_rand_system(&identity, sizeof identity);
    if (st) return st;
    kiln_hash128_print(identity, t->job);
    t->open = (kiln_message){.type = KILN_MSG_JOB_OPEN, .job_open = {kiln_str_from(t->job), spec}};
    kiln_message answer;
    return kiln_client_ask(t->client, &t->open, t->process, &answer);
}

/* Follows the job to its end. The tracker itself ends jobs that nobody can serve. */
static kiln_status follow(tune *t) {
    kiln_status st = KILN_OK;
    while (!st && !t->done) {
        st = kiln_client_wait(t->client, FLEET_CHECK_NS);
        if (ferror(stdout) && !t->cancelled) cancel_job(t, "nobody reads the results any more");
        if (t->fleet && (st || !t->done)) {
            kiln_status dead = kiln_private_fleet_check(t->fleet);
            if (dead) {
                kiln_status_free(st);
                st = dead;
            }
        }
    }
    kiln_display_finish(&t->display);
    if (st) return kiln_status_note(st, "job %s", t->job);
    kiln_code code = KILN_INTERNAL;
    if (t->end.code && !kiln_code_from_wire(t->end.code, &code)) code = KILN_INTERNAL;
    return t->end.code ? kiln_status_make(code, __FILE__, __LINE__, "job %s: %.*s", t->job,
                                          KILN_STR_ARG(t->end.text))
                       : KILN_OK;
}

/* The records come home, unless the fleet wrote them here itself. Also after a job that was
 * stopped. */
static kiln_status bring_records(tune *t) {
    static const kiln_digest none;
    kiln_str bytes = {0};
    kiln_db *db = NULL;
    uint32_t count = 0;
    if (t->fleet || !t->done || kiln_digest_equal(&t->end.records, &none)) return KILN_OK;
    kiln_status st = kiln_client_get(t->client, &t->end.records, t->process, &bytes);
    if (!st) st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
    if (!st) st = kiln_bundle_import(db, bytes, &count);
    kiln_db_close(db);
    return kiln_status_note(st, "bringing the records of job %s into %s", t->job, t->db_path);
}

static void close_job(tune *t) {
    if (!t->done) return;
    kiln_message close = {.type = KILN_MSG_JOB_CLOSE, .job_close = {kiln_str_from(t->job)}};
    kiln_client_send(t->client, &close);
}

static kiln_status run_job(tune *t) {
    const tune_options *o = t->options;
    kiln_status st =
        o->tracker ? KILN_OK : kiln_private_fleet_start(t->db_path, t->process, &t->fleet);
    kiln_client_options client = {.tracker = o->tracker ? o->tracker
                                             : t->fleet ? kiln_private_fleet_address(t->fleet)
                                                        : NULL,
                                  .insecure = o->insecure,
                                  .message = on_message,
                                  .context = t};
    if (!st) st = kiln_client_open(&client, t->process, &t->client);
    if (!st) {
        kiln_loop_on_signal(kiln_client_loop(t->client), SIGINT, on_signal, t);
        kiln_loop_on_signal(kiln_client_loop(t->client), SIGTERM, on_signal, t);
        st = open_job(t);
    }
    if (!st) st = follow(t);
    kiln_status home = t->client ? bring_records(t) : KILN_OK;
    if (st)
        kiln_status_free(home); /* the first error is the one to show */
    else
        st = home;
    if (t->client) close_job(t);
    kiln_client_close(t->client);
    kiln_private_fleet_stop(t->fleet);
    return st;
}

/* ---- after ----------------------------------------------------------------------------------- */

typedef struct summary {
    uint32_t measured, verified;
    double peak;
    json_t *tasks;
} summary;

static char *trace_text(const kiln_db_record *record, kiln_arena *process) {
    kiln_trace trace;
    kiln_strbuf text = {0};
    kiln_status st = kiln_trace_decode(record->trace, process, &trace);
    if (!st) kiln_trace_print(&trace, &text);
    kiln_status_free(st); /* a trace of another version has no text here */
    char *copy = kiln_str_dup(process, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static void add_task(tune *t, const kiln_task *task, const kiln_db_record *record, uint32_t count,
                     summary *s) {
    const kiln_db_record *best = NULL, *base = NULL;
    uint32_t trials = 0;
    for (uint32_t i = 0; i < count; i++) {
        const kiln_db_record *r = &record[i];
        bool ours = kiln_str_is(r->job_id, t->job);
        bool ok = kiln_str_is(r->outcome, "ok") && r->checked;
        trials++;
        s->measured += ours;
        s->verified += ours && ok && r->samples_ns.count >= SAMPLES_VERIFIED_MIN;
        s->peak = KILN_MAX(s->peak, r->peak_flops);
        if (ok && (!best || r->median_ns < best->median_ns)) best = r;
        if (ok && kiln_str_is(r->searcher, "default")) base = r;
    }
    double best_ns = best ? best->median_ns : 0, default_ns = base ? base->median_ns : 0;
    double share =
        best && best->peak_flops > 0 ? task->flops / best_ns * 1e9 / best->peak_flops : 0;
    json_array_append_new(
        s->tasks,
        json_pack("{s:o, s:o, s:i, s:f, s:f, s:f, s:f, s:s}", "key", kiln_json_str(task->key), "op",
                  kiln_json_str(task->op), "trials", (int)trials, "best_ms", best_ns / 1e6,
                  "default_ms", default_ns / 1e6, "gflops", best ? task->flops / best_ns : 0.0,
                  "share_of_peak", share, "trace", best ? trace_text(best, t->process) : ""));
    if (t->options->json) return;
    kiln_strbuf line = {0};
    kiln_strbuf_printf(&line, "  %-30.*s %4u trials", KILN_STR_ARG(task->op), trials);
    if (best) {
        kiln_strbuf_text(&line, "  best ");
        kiln_print_time(best_ns, &line);
        kiln_strbuf_printf(&line, " (%.1f GFLOP/s, %.0f %% of peak)", task->flops / best_ns,
                           100 * share);
        if (base) kiln_strbuf_printf(&line, ", %.2fx of the default", default_ns / best_ns);
    } else {
        kiln_strbuf_text(&line, "  nothing ran right; the default schedule is used");
    }
    puts(line.data);
    kiln_strbuf_deinit(&line);
}

static kiln_status summarise(tune *t) {
    kiln_db *db = NULL;
    summary s = {.tasks = json_array()};
    double wall_s = (double)(t->end_ns - t->start_ns) / 1e9;
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    for (uint32_t i = 0; !st && i < t->tasks.count; i++) {
        kiln_db_filter filter = {.task_key = t->tasks.task[i].key,
                                 .target = kiln_str_from(t->target_text)};
        kiln_db_record *record = NULL;
        uint32_t count = 0;
        st = kiln_db_records(db, &filter, t->process, &record, &count);
        if (!st) add_task(t, &t->tasks.task[i], record, count, &s);
    }
    kiln_db_close(db);
    if (!st && t->options->json)
        kiln_json_line(json_pack("{s:s, s:s, s:O, s:i, s:i, s:f, s:f, s:f}", "event", "done", "job",
                                 t->job, "tasks", s.tasks, "measured", (int)s.measured, "verified",
                                 (int)s.verified, "peak_gflops", s.peak / 1e9, "trials_per_s",
                                 s.verified / wall_s, "wall_s", wall_s));
    else if (!st)
        printf("%u new trials, %u verified, %.1f per second, %.1f s; records in %s\n", s.measured,
               s.verified, s.verified / wall_s, wall_s, t->db_path);
    json_decref(s.tasks);
    return st;
}

static kiln_status pack_bytes(tune *t, kiln_db *db, kiln_strbuf *out) {
    kiln_pack_options options = {
        .target = &t->target, .db = db, .model_name = kiln_str_from(file_name(t->options->model))};
    return kiln_pack(t->graph, &options, t->process, out, NULL);
}

static kiln_status open_bytes(tune *t, const kiln_strbuf *bytes, kiln_module **out_module) {
    char error[KILN_MODULE_ERROR_BYTES] = "";
    void *aligned = kiln_arena_alloc_aligned(t->process, MODULE_ALIGNMENT, bytes->size);
    memcpy(aligned, bytes->data, bytes->size);
    int code = kiln_module_open_memory(aligned, bytes->size, NULL, out_module, error, sizeof error);
    return code ? KILN_ERROR(INTERNAL, "%s", error) : KILN_OK;
}

/* Runs both modules here, alternately. */
static kiln_status compare(tune *t, const kiln_strbuf *base, const kiln_strbuf *tuned,
                           kiln_bench_pair *out) {
    kiln_module *a = NULL, *b = NULL;
    kiln_status st = open_bytes(t, base, &a);
    if (!st) st = open_bytes(t, tuned, &b);
    if (!st) st = kiln_bench_compare(a, b, t->process, out);
    kiln_module_close(a);
    kiln_module_close(b);
    return st;
}

static void report_module(tune *t, const kiln_bench_pair *pair, bool tuned) {
    if (t->options->json) {
        kiln_json_line(json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:b}", "event", "module",
                                 "file", t->options->out, "default_ms", pair->a.median / 1e6,
                                 "tuned_ms", pair->b.median / 1e6, "ratio", pair->ratio, "low",
                                 pair->low, "high", pair->high, "tuned", tuned));
        return;
    }
    bool equal = pair->low <= 1 && pair->high >= 1;
    printf("whole model, interleaved: default %.4f ms, tuned %.4f ms: %s (%.2fx, 95 %% interval "
           "%.2f to %.2f)\n",
           pair->a.median / 1e6, pair->b.median / 1e6,
           equal             ? "equal"
           : pair->ratio > 1 ? "faster"
                             : "slower",
           pair->ratio, pair->low, pair->high);
    printf("module in %s%s\n", t->options->out,
           tuned ? "" : ", with the default schedules, which are faster here");
}

/* Ships the tuned schedules, unless the whole model is slower with them; known only for this
 * machine's target. */
static kiln_status pack_module(tune *t) {
    kiln_db *db = NULL;
    kiln_target native;
    kiln_strbuf base = {0}, tuned = {0}, reason = {0};
    kiln_bench_pair pair = {.ratio = 1, .low = 1, .high = 1};
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_target_native(t->process, &native);
    if (!st) st = pack_bytes(t, db, &tuned);
    bool runs_here = !st && kiln_target_runs_on(&t->target, &native, &reason);
    if (!st && runs_here) st = pack_bytes(t, NULL, &base);
    if (!st && runs_here) st = compare(t, &base, &tuned, &pair);
    bool ship_tuned = pair.high >= 1;
    if (!st)
        st = kiln_file_write(t->options->out, kiln_strbuf_view(ship_tuned ? &tuned : &base), 0666);
    if (!st) report_module(t, &pair, ship_tuned);
    kiln_strbuf_deinit(&base);
    kiln_strbuf_deinit(&tuned);
    kiln_strbuf_deinit(&reason);
    kiln_db_close(db);
    return st;
}

kiln_status kiln_cmd_tune(kiln_arena *process, int argc, char **argv) {
    tune_options o = {.search = "random", .tasks = ""};
    const kiln_opt option[] = {
        {"target", KILN_OPT_TEXT, &o.target_text, "T", "device to tune for (default native)"},
        {"trials", KILN_OPT_COUNT, &o.trials, "N",
         "at most so many new measurements over all tasks (default 32 per task)"},
        {"seconds", KILN_OPT_NUMBER, &o.seconds, "S", "stop proposing after this long"},
        {"tasks", KILN_OPT_TEXT, &o.tasks, "FILTER",
         "only tasks whose key or operator contains one of these, comma-separated"},
        {"tracker", KILN_OPT_TEXT, &o.tracker, "ADDR",
         "use this fleet (default: a private one on this machine)"},
        {"db", KILN_OPT_TEXT, &o.db, "PATH", "records database (default $KILN_HOME/kiln.db)"},
        {"seed", KILN_OPT_COUNT, &o.seed, "N",
         "seed of the search and of the test data (default 0)"},
        {"search", KILN_OPT_TEXT, &o.search, "NAME", "random or grid (default random)"},
        {"out", KILN_OPT_TEXT, &o.out, "MODULE", "pack the best schedules into this module"},
        {"detach", KILN_OPT_FLAG, &o.detach, NULL, "do not wait for the end"},
        {"insecure", KILN_OPT_FLAG, &o.insecure, NULL, "connect without a token"},
        {"json", KILN_OPT_FLAG, &o.json, NULL,
         "print one object per line; the last has \"event\":\"done\""},
    };
    const kiln_opt_table table = {
        "kiln tune MODEL.onnx [options]",
        "Searches fast schedules for a model's kernels: every candidate is compiled, run on a real "
        "device, checked and timed, and every result is stored.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        1};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    o.model = args.positional[0];
    tune t = {.options = &o, .process = process, .start_ns = kiln_clock_ns()};
    st = check_request(&t);
    if (st) return st;
    kiln_display_init(&t.display, o.json, process);
    st = run_job(&t);
    t.end_ns = kiln_clock_ns();
    if (!st && o.out) st = pack_module(&t);
    kiln_status summary_status = t.done ? summarise(&t) : KILN_OK;
    if (!st)
        st = summary_status;
    else
        kiln_status_free(summary_status);
    if (kiln_status_code(st) == KILN_CANCELLED)
        st = kiln_status_note(st, "stopped; the same command goes on where it was");
    return st;
}
