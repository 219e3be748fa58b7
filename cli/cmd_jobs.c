/* kiln jobs: starts the request and shows what becomes of it. */
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "cli/host.h"
#include "cli/jobs.h"

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static unsigned count_of(const json_t *object, const char *name) {
    return (unsigned)json_integer_value(json_object_get(object, name));
}

static void print_heading(const json_t *job) {
    const double eta_ms = json_number_value(json_object_get(job, "eta_ms"));
    kiln_strbuf eta = {0};
    if (eta_ms > 0) {
        kiln_strbuf_text(&eta, ", ");
        kiln_print_time(eta_ms * 1e6, &eta);
        kiln_strbuf_text(&eta, " left");
    }
    printf("%-32s %-9s %6u trials  %-20s %-8s %s of %s  %s%s%s\n", text_of(job, "job"),
           text_of(job, "state"), count_of(job, "done"), text_of(job, "model_name"),
           text_of(job, "searcher"), text_of(job, "user"), text_of(job, "project"),
           *text_of(job, "text") ? "- " : "", text_of(job, "text"), eta.size ? eta.data : "");
    kiln_strbuf_deinit(&eta);
}

/* kiln_host.print; counts the jobs at `context`. */
static void print_job(void *context, const json_t *job) {
    size_t i = 0;
    const json_t *row = NULL;
    ++*(uint32_t *)context;
    print_heading(job);
    json_array_foreach(json_object_get(job, "tasks"), i, row)
        printf("  %-35s %-26s %u of %u trials, %u failed, best %.3f ms\n", text_of(row, "key"),
               text_of(row, "op"), count_of(row, "done"), count_of(row, "planned"),
               count_of(row, "failed"), json_number_value(json_object_get(row, "best_ns")) / 1e6);
    json_array_foreach(json_object_get(job, "faults"), i, row)
        printf("  %-35s cannot be measured: %s\n", text_of(row, "key"), text_of(row, "text"));
}

/* KILN_REQUEST_* that does an action of `kiln jobs`. */
static uint32_t request_of(const kiln_tracker_command *action) {
#define X(what, command, word, function) \
    if (strcmp(command, "jobs") == 0 && strcmp(word, action->name) == 0) return KILN_REQUEST_##what;
#include "cli/requests.def"
#undef X
    return 0;
}

kiln_status kiln_cmd_jobs(kiln_arena *process, int argc, char **argv) {
    kiln_tracker_call call;
    const kiln_tracker_command *action = NULL;
    uint32_t count = 0;
    kiln_status st =
        kiln_tracker_call_parse(&kiln_jobs_commands, process, argc, argv, &call, &action);
    if (st || !action) return st;
    kiln_host host = {.json = call.json, .print = print_job, .context = &count, .process = process};
    st = kiln_host_run(&host, request_of(action), call.id, &call.given);
    if (!st && !call.json && count == 0 && request_of(action) == KILN_REQUEST_JOBS)
        printf("no jobs\n");
    kiln_request_free(host.request);
    return st;
}
