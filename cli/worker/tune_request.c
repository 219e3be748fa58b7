/* Serves `kiln tune`: submits a model to a tracker (its own private fleet when none is named),
 * follows the job, brings the records home, and packs the module. Always the same three programs
 * over a socket. */
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/isolated/isolated.h"
#include "cli/common/boards.h"
#include "cli/common/json.h"
#include "cli/common/options.h"
#include "cli/common/records.h"
#include "cli/common/sizes.h"
#include "cli/worker/schedules.h"
#include "cli/worker/serve.h"
#include "cli/worker/tune.h"
#include "deploy/pack/limits.h"
#include "deploy/runtime/calibrate.h"
#include "deploy/runtime/calibrate_kept.h"
#include "tuner/search/searcher.h"

/* In the end the whole model runs here: what one node reads and writes must fit, whatever else is
 * alive beside it. */
static kiln_status check_memory(const kiln_graph *graph, uint64_t mib) {
    const uint64_t most = mib ? mib : KILN_ISOLATED_MEMORY_BYTES >> 20;
    for (uint32_t n = 1; n < graph->node.count; n++) {
        const kiln_node_info *node = &graph->node.data[n];
        double bytes = 0;
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
            const kiln_value v =
                i < node->input_count ? node->input[i] : node->output[i - node->input_count];
            const kiln_value_info *value = &graph->value.data[v];
            if (v && value->dtype != KILN_DTYPE_NONE)
                bytes +=
                    (double)kiln_shape_count(&value->shape) * (double)kiln_dtype_size(value->dtype);
        }
        if (bytes / 0x1p20 > (double)most)
            return KILN_ERROR(RESOURCE_EXHAUSTED,
                              "node '%.*s' reads and writes %.0f MiB, and tuning runs it: at most "
                              "%llu (--model-memory MIB)",
                              KILN_STR_ARG(node->name), bytes / 0x1p20, (unsigned long long)most);
    }
    return KILN_OK;
}

/* In a process without rights. */
static kiln_status check_and_compile(const kiln_model_call *call, kiln_graph *graph,
                                     kiln_arena *arena, kiln_isolated_result *out_result) {
    const kiln_tune *t = call->work->context;
    kiln_compilation *c = NULL;
    kiln_status st = check_memory(graph, t->options->import.memory_mib);
    if (!st) st = kiln_compilation_of_model(graph, &t->target, &t->accuracy, arena, &c);
    if (!st) st = kiln_limits_check(c);
    return st ? st : kiln_model_give_tasks(c, arena, out_result);
}

/* The first job of a private fleet for this machine measures it, once for all later commands. */
static kiln_status calibrate_once(kiln_tune *t) {
    char *home = NULL;
    if (t->options->trials == 0 || !kiln_target_is_native(t->options->target_text) ||
        !kiln_calibration_is_wanted() || !kiln_figures_is_empty(&t->target.calibration))
        return KILN_OK;
    kiln_status st = kiln_home(t->process, &home);
    if (st) return st;
    const kiln_figures found = kiln_calibrate_core().calibration;
    kiln_target_calibrate(&t->target, &found);
    return kiln_calibration_keep(home, &found, t->process);
}

static kiln_status find_tasks(kiln_tune *t) {
    kiln_model_work work = {.model = &t->model,
                            .doing = "compiling",
                            .run = check_and_compile,
                            .context = t,
                            .precision = t->accuracy.precision};
    return kiln_model_take_tasks(&work, t->process, &t->compilation);
}

/* Again, where the fleet that measures has other figures than the model was compiled by. */
static kiln_status find_figures(kiln_tune *t) {
    const kiln_tune_options *o = t->options;
    const kiln_client_options client = {.tracker = o->tracker,
                                        .key_file = o->key_file,
                                        .person = o->person,
                                        .insecure = o->insecure,
                                        .waits = kiln_events_waits,
                                        .waits_context = t->events};
    kiln_figures kept = {0};
    if (!o->tracker || o->trials == 0) return KILN_OK;
    kiln_status st = kiln_boards_figures(&client, &t->target, t->process, &kept);
    if (st || kiln_figures_equal(&kept, &t->target.calibration)) return st;
    kiln_target_calibrate(&t->target, &kept);
    return find_tasks(t);
}

static kiln_status take_schedules(kiln_tune *t) {
    kiln_schedules schedules;
    if (t->options->schedule && t->options->trials == 0)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--trials 0 measures nothing, --schedule neither: kiln compile packs it "
                          "as it is");
    kiln_status st = kiln_schedules_read(t->options->schedule, t->process, &schedules);
    return st ? st
              : kiln_schedules_check(&schedules, t->compilation, &t->target, &t->accuracy,
                                     t->process, &t->by_hand);
}

/* Everything that can be wrong with the request is found before a program is started. The processes
 * that compile are started here, before a database is open. */
static kiln_status check_request(kiln_tune *t) {
    const kiln_tune_options *o = t->options;
    kiln_searcher_kind kind;
    if (o->detach && (!o->tracker || o->out))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--detach needs --tracker, as a private fleet ends with its command, and "
                          "goes without --out: kiln compile packs when the job is done");
    if (o->priority > KILN_PRIORITY_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "--priority is at most %u", KILN_PRIORITY_MAX);
    if (o->weight < 1 || o->weight > KILN_WEIGHT_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "--weight is 1 to %u", KILN_WEIGHT_MAX);
    if (o->job && (!*o->job || strlen(o->job) >= sizeof t->job))
        return KILN_ERROR(INVALID_ARGUMENT, "--job is 1 to %zu characters", sizeof t->job - 1);
    if (o->detach && o->trials == 0)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--trials 0 measures nothing: there is no job to leave");
    if (o->seconds < 0) return KILN_ERROR(INVALID_ARGUMENT, "--seconds %g is negative", o->seconds);
    kiln_status st = kiln_searcher_find(kiln_str_from(o->search), &kind);
    if (!st) st = kiln_accuracy_option(&o->accuracy, &t->accuracy);
    if (!st) st = kiln_target_option(o->target_text, o->threads, t->process, &t->target);
    if (!st && o->out) st = kiln_target_check_modules(&t->target, o->target_text, o->model);
    if (!st && o->out) st = kiln_file_check_writable(o->out);
    t->import = o->import;
    if (!st) st = kiln_dim_option(&o->dim, t->process, &t->import);
    if (!st) st = kiln_model_read(o->model, &t->import, t->process, &t->model);
    if (!st && !o->tracker) st = calibrate_once(t);
    if (!st) st = find_tasks(t);
    if (!st) st = find_figures(t); /* what is wrong with the model is known by now */
    if (!st) st = take_schedules(t);
    if (!st) st = kiln_db_path(o->db, t->process, &t->db_path);
    if (!st && o->out) st = kiln_tune_start_packer(t);
    if (st) return st;
    kiln_strbuf text = {0};
    kiln_target_print(&t->target, &text);
    t->target_text = kiln_str_dup(t->process, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

/* Unwritable, newer, or none. */
static kiln_status check_db(const kiln_tune *t) {
    kiln_db *db = NULL;
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
    kiln_db_close(db);
    return st;
}

/* The job, then what came of it: also of one that was stopped. With --trials 0 there is none. */
static kiln_status tune_and_report(kiln_tune *t) {
    const bool measures = t->options->trials > 0;
    t->end_ns = kiln_clock_ns();
    kiln_status st = measures ? kiln_tune_run_job(t) : KILN_OK;
    kiln_status report = KILN_OK;
    t->stopped = kiln_status_code(st) == KILN_CANCELLED;
    if ((!st || t->stopped) && t->options->out) report = kiln_tune_pack(t);
    if (!report && (t->done || t->stopped || !measures)) report = kiln_tune_summarise(t);
    if (!st) return report;
    kiln_status_free(report); /* the first error is the one to show */
    return st;
}

/* After its checks. */
static kiln_status tune_one(kiln_tune *t) {
    t->measuring_ns = kiln_clock_ns();
    t->events->tasks = &t->compilation->searched;
    return tune_and_report(t);
}

/* ---- several sizes --------------------------------------------------------------------------- */

/* What one size gets of --trials and --seconds: in proportion to its calls. A size that nobody
 * calls is not measured. */
static void share_out(const kiln_tune_options *o, const kiln_sizes *sizes, uint32_t index,
                      kiln_tune_options *own) {
    double sum = 0, before = 0;
    for (uint32_t i = 0; i < sizes->count; i++) sum += sizes->weight[i];
    for (uint32_t i = 0; i < index; i++) before += sum > 0 ? sizes->weight[i] / sum : 1;
    const double parts = sum > 0 ? 1 : sizes->count,
                 share = (sum > 0 ? sizes->weight[index] / sum : 1) / parts;
    before /= parts;
    own->seconds = o->seconds * share;
    if (o->trials != KILN_TUNE_TRIALS_UNSAID)
        own->trials = (uint64_t)((double)o->trials * (before + share) + 0.5) -
                      (uint64_t)((double)o->trials * before + 0.5);
    if (share == 0) own->trials = 0;
}

static void announce(const kiln_tune *t, const kiln_sizes *sizes, uint32_t index) {
    const uint64_t trials = t->options->trials;
    kiln_events_result(
        t->events,
        json_pack("{s:s, s:o, s:I, s:i, s:o}", "event", "size", "dim", kiln_json_str(sizes->dim),
                  "size", (json_int_t)sizes->size[index], "number", (int)index, "trials",
                  trials == KILN_TUNE_TRIALS_UNSAID ? json_null()
                                                    : json_integer((json_int_t)trials)));
}

static kiln_status tune_each(kiln_tune *t, const kiln_sizes *sizes) {
    kiln_status st = check_db(t);
    for (uint32_t i = 0; !st && i < sizes->count; i++) {
        announce(&t[i], sizes, i);
        t[i].start_ns = kiln_clock_ns();
        st = kiln_status_note(tune_one(&t[i]), "%.*s=%lld", KILN_STR_ARG(sizes->dim),
                              (long long)sizes->size[i]);
    }
    return st;
}

/* One model after the other; everything is checked before the first is measured. */
static kiln_status tune_sizes(const kiln_tune_options *o, const kiln_sizes *sizes,
                              kiln_events *events, kiln_arena *process) {
    kiln_tune *t = KILN_ARENA_ARRAY(process, kiln_tune, sizes->count);
    kiln_tune_options *own = KILN_ARENA_ARRAY(process, kiln_tune_options, sizes->count);
    kiln_strbuf module[KILN_MODULE_BUCKETS_MAX] = {{0}};
    kiln_str bytes[KILN_MODULE_BUCKETS_MAX];
    const kiln_sizes_model model = {o->model, sizes, &o->dim, &o->import};
    kiln_module_sizes made;
    size_t size;
    if (o->detach || o->job || o->schedule)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--%s is of one job, and each size is a job of its own: name one size",
                          o->detach ? "detach"
                          : o->job  ? "job"
                                    : "schedule");
    kiln_status st = KILN_OK;
    const bool has_rows = o->out && kiln_sizes_have_rows(&model, process);
    for (uint32_t i = 0; !st && i < sizes->count; i++) {
        own[i] = *o;
        own[i].dim = kiln_sizes_dim(&o->dim, sizes, i, process);
        share_out(o, sizes, i, &own[i]);
        t[i] = (kiln_tune){
            .options = &own[i], .process = process, .events = events, .bytes = &module[i]};
        st = check_request(&t[i]);
    }
    if (!st) st = tune_each(t, sizes);
    for (uint32_t i = 0; i < sizes->count; i++) {
        kiln_model_cancel(&t[i].packer);
        bytes[i] = kiln_strbuf_view(&module[i]);
    }
    if (!st && o->out) {
        st = kiln_sizes_join(sizes, has_rows, bytes, process, &made);
        if (!st) st = kiln_sizes_write(&made, &t[0].target, o->out, process, &size);
        if (!st) kiln_events_result(events, kiln_sizes_json(&made, "done", o->out, size));
    }
    if (!st && !o->out)
        kiln_events_result(
            events, json_pack("{s:s, s:o}", "event", "done", "dim", kiln_json_str(sizes->dim)));
    for (uint32_t i = 0; i < sizes->count; i++) kiln_strbuf_deinit(&module[i]);
    return st;
}

kiln_status kiln_serve_tune(const kiln_served *served) {
    kiln_tune_options o;
    kiln_sizes sizes;
    const kiln_opt_table table = kiln_tune_options_init(&o, served->process);
    kiln_tune t = {.options = &o,
                   .process = served->process,
                   .events = served->events,
                   .start_ns = kiln_clock_ns()};
    kiln_status st = kiln_served_options(served, &table);
    o.model = served->subject;
    if (!st) st = kiln_sizes_option(&o.dim, &sizes);
    if (!st) st = kiln_weights_option(o.weights, &sizes);
    if (st) return st;
    if (sizes.count) return tune_sizes(&o, &sizes, served->events, served->process);
    st = check_request(&t);
    if (!st) st = check_db(&t);
    if (!st) st = tune_one(&t);
    kiln_model_cancel(&t.packer);
    return st;
}
