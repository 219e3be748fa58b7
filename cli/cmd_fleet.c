#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/opt.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/display.h"

#define WATCH_NS (UINT64_C(500) * KILN_NS_PER_MS)

/* A call of `kiln fleet` or `kiln jobs`. */
typedef struct tracker_call {
    kiln_client_options client_options;
    kiln_client *client;
    kiln_arena *process;
    const char *id; /* NULL: none was given */
    bool json;
} tracker_call;

typedef void (*page_printer)(const kiln_msg_answer *answer, bool json);

/* Asks page after page; `page` prints one. */
static kiln_status query(tracker_call *c, kiln_topic topic, page_printer page) {
    uint32_t offset = 0;
    for (bool more = true; more;) {
        kiln_message question = {.type = KILN_MSG_QUERY,
                                 .query = {topic, kiln_str_from(c->id), offset}};
        kiln_message answer = {0};
        kiln_status st = kiln_client_ask(c->client, &question, c->process, &answer);
        if (st) return st;
        if (answer.type != KILN_MSG_ANSWER)
            return KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
        page(&answer.answer, c->json);
        uint32_t rows = answer.answer.boards.count + answer.answer.jobs.count;
        offset += rows;
        more = rows > 0 && offset < answer.answer.total;
    }
    return KILN_OK;
}

static void print_json_row(kiln_record_type type, const void *row) {
    kiln_strbuf text = {0};
    kiln_record_print_json(type, row, &text);
    puts(text.data);
    kiln_strbuf_deinit(&text);
}

/* ---- kiln fleet ------------------------------------------------------------------------------ */

static void print_boards(const kiln_msg_answer *answer, bool json) {
    for (uint32_t i = 0; i < answer->boards.count; i++) {
        const kiln_msg_board_row *b = &answer->boards.item[i];
        if (json)
            print_json_row(KILN_RECORD_board_row, b);
        else
            printf("%-12.*s %-9.*s %u/%u busy  %6llu trials  %-28.*s %.*s\n", KILN_STR_ARG(b->key),
                   KILN_STR_ARG(b->state), b->busy, b->slots, (unsigned long long)b->trials,
                   KILN_STR_ARG(b->device), KILN_STR_ARG(b->target));
    }
    if (!json && answer->total == 0)
        printf("no boards; start one with: kiln-rpc-server --tracker ADDR\n");
    if (!json && answer->tuners == 0)
        printf("no tuners; start one with: kiln-tuner --tracker ADDR\n");
}

static void print_board(const kiln_msg_answer *answer, bool json) {
    print_boards(answer, json);
    if (json || answer->boards.count == 0) return;
    const kiln_msg_board_row *b = &answer->boards.item[0];
    printf("  node %.*s, heard %llu ms ago, %.1f GB of memory\n", KILN_STR_ARG(b->node),
           (unsigned long long)b->silent_ms, (double)b->memory_bytes / 1e9);
    for (uint32_t i = 0; i < b->labels.count; i++)
        printf("  %.*s = %.*s\n", KILN_STR_ARG(b->labels.item[i].key),
               KILN_STR_ARG(b->labels.item[i].value));
    if (b->job.size) printf("  held by job %.*s\n", KILN_STR_ARG(b->job));
}

static void print_nothing(const kiln_msg_answer *answer, bool json) {
    (void)answer;
    (void)json;
}

static kiln_status fleet_list(tracker_call *c) { return query(c, KILN_TOPIC_FLEET, print_boards); }

static kiln_status fleet_show(tracker_call *c) { return query(c, KILN_TOPIC_BOARD, print_board); }

/* One round trip to the tracker. */
static kiln_status fleet_ping(tracker_call *c) {
    uint64_t start_ns = kiln_clock_ns();
    kiln_status st = query(c, KILN_TOPIC_FLEET, print_nothing);
    double ms = (double)(kiln_clock_ns() - start_ns) / 1e6;
    if (st) return st;
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:f}", "event", "ping", "tracker_ms", ms));
    else
        printf("tracker answers in %.3f ms\n", ms);
    return KILN_OK;
}

/* ---- kiln jobs ------------------------------------------------------------------------------- */

static void print_jobs(const kiln_msg_answer *answer, bool json) {
    for (uint32_t i = 0; i < answer->jobs.count; i++) {
        const kiln_msg_job_row *j = &answer->jobs.item[i];
        if (json)
            print_json_row(KILN_RECORD_job_row, j);
        else
            printf("%.*s %-9.*s %6u trials  %-20.*s %-8.*s %s%.*s\n", KILN_STR_ARG(j->job),
                   KILN_STR_ARG(j->state), j->done, KILN_STR_ARG(j->model_name),
                   KILN_STR_ARG(j->searcher), j->text.size ? "- " : "", KILN_STR_ARG(j->text));
        for (uint32_t k = 0; !json && k < j->tasks.count; k++) {
            const kiln_msg_task_state *t = &j->tasks.item[k];
            printf("  %-35.*s %-26.*s %u of %u trials, %u failed, best %.3f ms\n",
                   KILN_STR_ARG(t->key), KILN_STR_ARG(t->op), t->done, t->planned, t->failed,
                   t->best_ns / 1e6);
        }
    }
    if (!json && answer->total == 0) printf("no jobs\n");
}

static kiln_status jobs_list(tracker_call *c) { return query(c, KILN_TOPIC_JOBS, print_jobs); }

static kiln_status jobs_show(tracker_call *c) { return query(c, KILN_TOPIC_JOB, print_jobs); }

static kiln_status jobs_cancel(tracker_call *c) {
    kiln_status st = query(c, KILN_TOPIC_JOB, print_nothing); /* there is such a job */
    if (st) return st;
    kiln_message stop = {.type = KILN_MSG_CANCEL,
                         .cancel = {.scope = KILN_CANCEL_JOB,
                                    .id = kiln_str_from(c->id),
                                    .reason = KILN_STR("kiln jobs cancel")}};
    kiln_client_send(c->client, &stop);
    return jobs_show(c); /* the answer comes after the order */
}

typedef struct watch {
    kiln_client *client;
    bool stopped;
} watch;

static void on_stop(void *context, int signal) {
    (void)signal;
    watch *w = context;
    w->stopped = true;
    kiln_client_wake(w->client);
}

static bool has_ended(const kiln_msg_job_row *job) {
    return kiln_str_is(job->state, "done") || kiln_str_is(job->state, "failed") ||
           kiln_str_is(job->state, "cancelled");
}

/* One look at the job: what it has done goes to the display; at its end its row is printed. */
static kiln_status look(tracker_call *c, kiln_display *display, bool *out_ended) {
    kiln_message question = {.type = KILN_MSG_QUERY,
                             .query = {KILN_TOPIC_JOB, kiln_str_from(c->id), 0}};
    kiln_message answer = {0};
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_client_ask(c->client, &question, &scratch, &answer);
    if (!st && (answer.type != KILN_MSG_ANSWER || answer.answer.jobs.count != 1))
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
    if (!st) {
        const kiln_msg_job_row *job = &answer.answer.jobs.item[0];
        kiln_msg_job_event event = {.job = job->job, .tasks = {job->tasks.item, job->tasks.count}};
        display->start_ns = kiln_clock_ns() - job->age_ms * KILN_NS_PER_MS;
        kiln_display_update(display, &event);
        *out_ended = has_ended(job);
        if (*out_ended) kiln_display_finish(display);
        if (*out_ended) print_jobs(&answer.answer, c->json);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

/* Follows a job that somebody else opened. Ctrl-C ends the watching, not the job. */
static kiln_status jobs_watch(tracker_call *c) {
    watch w = {.client = c->client};
    kiln_display display;
    bool ended = false;
    kiln_display_init(&display, &(kiln_display_options){.json = c->json, .process = c->process});
    kiln_loop_on_signal(kiln_client_loop(c->client), SIGINT, on_stop, &w);
    kiln_status st = look(c, &display, &ended);
    while (!st && !ended && !w.stopped && !ferror(stdout)) {
        kiln_display_tick(&display);
        st = kiln_client_wait(c->client, WATCH_NS);
        if (!st && !w.stopped) st = look(c, &display, &ended);
    }
    return st;
}

/* ---- both ------------------------------------------------------------------------------------ */

typedef struct action {
    const char *name;
    bool wants_id;
    kiln_status (*run)(tracker_call *c); /* NULL: not there yet */
    const char *instead;                 /* what to do until it is there */
} action;

/* `kiln fleet` or `kiln jobs`: what they can do is a table, the first row what they do unasked. */
typedef struct action_table {
    const char *command, *usage, *summary;
    const action *action;
    size_t count;
} action_table;

static kiln_status no_such_action(const action_table *table, const char *name) {
    kiln_strbuf known = {0};
    for (size_t i = 0; i < table->count; i++)
        if (table->action[i].run)
            kiln_strbuf_printf(&known, "%s%s%s", i ? ", " : "", table->action[i].name,
                               table->action[i].wants_id ? " ID" : "");
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "kiln %s has no '%s'; there are %s",
                                table->command, name, known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

static kiln_status find_action(const action_table *table, const kiln_args *args,
                               const action **out) {
    const char *name = args->count ? args->positional[0] : table->action[0].name;
    for (size_t i = 0; i < table->count; i++) {
        const action *a = &table->action[i];
        if (strcmp(name, a->name) != 0) continue;
        if (!a->run)
            return KILN_ERROR(UNIMPLEMENTED, "kiln %s %s is not there yet; %s", table->command,
                              name, a->instead);
        if (a->wants_id && args->count < 2)
            return KILN_ERROR(INVALID_ARGUMENT, "kiln %s %s ID: the ID is missing (kiln %s list)",
                              table->command, name, table->command);
        *out = a;
        return KILN_OK;
    }
    return no_such_action(table, name);
}

static kiln_status run_action(const action_table *actions, kiln_arena *process, int argc,
                              char **argv) {
    tracker_call c = {.process = process};
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &c.client_options.tracker, "ADDR", "HOST:PORT or unix:PATH"},
        {"key-file", KILN_OPT_TEXT, &c.client_options.key_file, "F",
         "key to show to a tracker on another machine (default $KILN_HOME/key)"},
        {"insecure", KILN_OPT_FLAG, &c.client_options.insecure, NULL,
         "connect in plain text, without a key"},
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object per line"},
    };
    const kiln_opt_table table = {
        actions->usage, actions->summary, option, KILN_ARRAY_COUNT(option), 0, 2};
    kiln_args args;
    const action *a = NULL;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    st = find_action(actions, &args, &a);
    if (st) return st;
    c.id = a->wants_id ? args.positional[1] : NULL;
    st = kiln_client_open(&c.client_options, process, &c.client);
    if (!st) st = a->run(&c);
    kiln_client_close(c.client);
    return st;
}

kiln_status kiln_cmd_fleet(kiln_arena *process, int argc, char **argv) {
    static const char instead[] = "stop the board's kiln-rpc-server instead";
    static const action actions[] = {
        {"list", false, fleet_list, NULL},   {"show", true, fleet_show, NULL},
        {"ping", false, fleet_ping, NULL},   {"drain", true, NULL, instead},
        {"quarantine", true, NULL, instead},
    };
    static const action_table table = {"fleet", "kiln fleet [list|show ID|ping] --tracker ADDR",
                                       "Looks at the boards of a tracker.", actions,
                                       KILN_ARRAY_COUNT(actions)};
    return run_action(&table, process, argc, argv);
}

kiln_status kiln_cmd_jobs(kiln_arena *process, int argc, char **argv) {
    static const action actions[] = {
        {"list", false, jobs_list, NULL},
        {"show", true, jobs_show, NULL},
        {"watch", true, jobs_watch, NULL},
        {"cancel", true, jobs_cancel, NULL},
    };
    static const action_table table = {
        "jobs", "kiln jobs [list|show ID|watch ID|cancel ID] --tracker ADDR",
        "Looks at tuning jobs: all, one, one until it ends; or ends it.", actions,
        KILN_ARRAY_COUNT(actions)};
    return run_action(&table, process, argc, argv);
}
