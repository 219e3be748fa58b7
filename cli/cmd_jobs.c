/* kiln jobs: starts the request and shows what becomes of it. */
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "cli/common/json.h"
#include "cli/host.h"
#include "cli/tracker_command.h"

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static unsigned count_of(const json_t *object, const char *name) {
    return (unsigned)json_integer_value(json_object_get(object, name));
}

/* Who works on it, or did: by its name, else by the beginning of its identity. */
static void print_tuner(const json_t *job) {
    const char *name = text_of(job, "tuner_name"), *node = text_of(job, "tuner");
    const bool is_number = strlen(node) == KILN_HASH128_TEXT - 1;
    if (*name)
        printf("  by %s", name);
    else if (*node)
        printf("  by %.*s", is_number ? 8 : (int)strlen(node), node);
}

static void print_heading(const json_t *job) {
    const double eta_ms = json_number_value(json_object_get(job, "eta_ms"));
    kiln_strbuf eta = {0};
    if (eta_ms > 0) {
        kiln_strbuf_text(&eta, ", ");
        kiln_print_time(eta_ms * 1e6, &eta);
        kiln_strbuf_text(&eta, " left");
    }
    printf("%-32s %-9s %6u trials  %-20s %-8s %s of %s", text_of(job, "job"), text_of(job, "state"),
           count_of(job, "done"), text_of(job, "model_name"), text_of(job, "searcher"),
           text_of(job, "user"), text_of(job, "project"));
    print_tuner(job);
    printf("  %s%s%s\n", *text_of(job, "text") ? "- " : "", text_of(job, "text"),
           eta.size ? eta.data : "");
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

static kiln_status change_priority(kiln_command_call *c) {
    uint64_t priority = 0;
    kiln_message answer = {0};
    c->tracker.id = c->named;
    if (!kiln_str_to_u64(kiln_str_from(c->second), &priority) || priority > KILN_PRIORITY_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "%s: the priority is a number up to %u", c->second,
                          KILN_PRIORITY_MAX);
    if (kiln_client_version(c->tracker.client) < kiln_message_since(KILN_MSG_JOB_ORDER))
        return KILN_ERROR(UNIMPLEMENTED, "the tracker is too old to change priorities");
    kiln_status st = kiln_tracker_complete_id(&c->tracker, KILN_TOPIC_JOB);
    const kiln_message order = {
        .type = KILN_MSG_JOB_ORDER,
        .job_order = {.job = kiln_str_from(c->tracker.id), .priority = (uint32_t)priority}};
    if (!st) st = kiln_client_ask(c->tracker.client, &order, c->tracker.process, &answer);
    if (st) return st;
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:s, s:i}", "event", "priority", "job", c->tracker.id,
                                 "priority", (int)priority));
    else
        printf("job %s has priority %u\n", c->tracker.id, (unsigned)priority);
    return KILN_OK;
}

/* Each is a request, but those with a function of their own. */
#define ACTIONS(X)                                                                            \
    X("list", "", JOBS, NULL, "list all jobs")                                                \
    X("show", "JOB", JOB, NULL, "show the results of a job, task by task")                    \
    X("watch", "JOB", WATCH, NULL, "show the progress of a job until it ends")                \
    X("attach", "JOB", ATTACH, NULL, "the same, and import its records into --db at the end") \
    X("cancel", "JOB", CANCEL, NULL, "end a job")                                             \
    X("priority", "JOB N", JOB, change_priority,                                              \
      "change the priority of a job, 0 to 100: within its project higher ones go first")

kiln_status kiln_cmd_jobs(kiln_arena *process, int argc, char **argv) {
    static const kiln_action actions[] = {
#define X(name, arguments, request, run, help) {name, arguments, help},
        ACTIONS(X)
#undef X
    };
    static const uint32_t request_of[] = {
#define X(name, arguments, request, run, help) KILN_REQUEST_##request,
        ACTIONS(X)
#undef X
    };
    static const kiln_tracker_command commands[] = {
#define X(name, arguments, request, run, help) {run, false},
        ACTIONS(X)
#undef X
    };
    static const kiln_tracker_commands table = {
        .actions = {.command = "jobs",
                    .summary =
                        "Lists tuning jobs, follows, orders and cancels them. JOB is a job's "
                        "identity or the beginning of it.",
                    .action = actions,
                    .count = KILN_ARRAY_COUNT(actions),
                    .has_default = true},
        .command = commands,
        .takes_db = true};
    kiln_command_call call;
    const kiln_tracker_command *command = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_tracker_command_parse(&table, process, argc, argv, &call, &command);
    if (st || !command) return st;
    if (command->run) return kiln_tracker_command_run(&call, command);
    const uint32_t what = request_of[command - commands];
    kiln_host host = {.json = call.json, .print = print_job, .context = &count, .process = process};
    st = kiln_host_run(&host, what, call.tracker.id, &call.given);
    if (!st && !call.json && count == 0 && what == KILN_REQUEST_JOBS) printf("no jobs\n");
    kiln_request_free(host.request);
    return st;
}
