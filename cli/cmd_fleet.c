#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/opt.h"
#include "cli/cli.h"
#include "cli/client.h"

/* Asks page after page; `page` prints one. */
static kiln_status query(kiln_client *client, kiln_topic topic, const char *id, kiln_arena *process,
                         void (*page)(const kiln_msg_answer *answer, bool json), bool json) {
    uint32_t offset = 0;
    kiln_status st = KILN_OK;
    for (bool more = true; !st && more;) {
        kiln_message question = {.type = KILN_MSG_QUERY,
                                 .query = {topic, kiln_str_from(id), offset}},
                     answer = {0};
        st = kiln_client_ask(client, &question, process, &answer);
        if (st) break;
        if (answer.type != KILN_MSG_ANSWER)
            return KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
        page(&answer.answer, json);
        uint32_t rows = answer.answer.boards.count + answer.answer.jobs.count;
        offset += rows;
        more = rows > 0 && offset < answer.answer.total;
    }
    return st;
}

static void print_json_row(kiln_record_type type, const void *row) {
    kiln_strbuf text = {0};
    kiln_record_print_json(type, row, &text);
    puts(text.data);
    kiln_strbuf_deinit(&text);
}

/* ---- kiln fleet
 * ----------------------------------------------------------------------------------------- */

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

/* Round trips to the tracker, and how long ago each board was heard. */
static kiln_status ping(kiln_client *client, kiln_arena *process, bool json) {
    uint64_t start_ns = kiln_clock_ns();
    kiln_status st = query(client, KILN_TOPIC_FLEET, NULL, process, print_nothing, json);
    double ms = (double)(kiln_clock_ns() - start_ns) / 1e6;
    if (st) return st;
    if (json)
        kiln_json_line(json_pack("{s:s, s:f}", "event", "ping", "tracker_ms", ms));
    else
        printf("tracker answers in %.3f ms\n", ms);
    return KILN_OK;
}

kiln_status kiln_cmd_fleet(kiln_arena *process, int argc, char **argv) {
    kiln_client_options client_options = {0};
    bool json = false;
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &client_options.tracker, "ADDR", "HOST:PORT or unix:PATH"},
        {"insecure", KILN_OPT_FLAG, &client_options.insecure, NULL, "connect without a token"},
        {"json", KILN_OPT_FLAG, &json, NULL, "print one object per line"},
    };
    const kiln_opt_table table = {"kiln fleet [list|show ID|ping] --tracker ADDR",
                                  "Looks at the boards of a tracker.",
                                  option,
                                  KILN_ARRAY_COUNT(option),
                                  0,
                                  2};
    kiln_args args;
    kiln_client *client = NULL;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    const char *action = args.count ? args.positional[0] : "list",
               *id = args.count > 1 ? args.positional[1] : NULL;
    if (strcmp(action, "drain") == 0 || strcmp(action, "quarantine") == 0)
        return KILN_ERROR(
            UNIMPLEMENTED,
            "kiln fleet %s is not there yet; stop the board's kiln-rpc-server instead", action);
    if (strcmp(action, "list") != 0 && strcmp(action, "show") != 0 && strcmp(action, "ping") != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "kiln fleet has no '%s'; there are list, show ID, ping",
                          action);
    if (strcmp(action, "show") == 0 && !id)
        return KILN_ERROR(INVALID_ARGUMENT, "kiln fleet show ID: the board is missing");
    st = kiln_client_open(&client_options, process, &client);
    if (!st && strcmp(action, "list") == 0)
        st = query(client, KILN_TOPIC_FLEET, NULL, process, print_boards, json);
    if (!st && strcmp(action, "show") == 0)
        st = query(client, KILN_TOPIC_BOARD, id, process, print_board, json);
    if (!st && strcmp(action, "ping") == 0) st = ping(client, process, json);
    kiln_client_close(client);
    return st;
}

/* ---- kiln jobs
 * -------------------------------------------------------------------------------------------- */

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

kiln_status kiln_cmd_jobs(kiln_arena *process, int argc, char **argv) {
    kiln_client_options client_options = {0};
    bool json = false;
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &client_options.tracker, "ADDR", "HOST:PORT or unix:PATH"},
        {"insecure", KILN_OPT_FLAG, &client_options.insecure, NULL, "connect without a token"},
        {"json", KILN_OPT_FLAG, &json, NULL, "print one object per line"},
    };
    const kiln_opt_table table = {"kiln jobs [list|show ID|cancel ID] --tracker ADDR",
                                  "Looks at tuning jobs.",
                                  option,
                                  KILN_ARRAY_COUNT(option),
                                  0,
                                  2};
    kiln_args args;
    kiln_client *client = NULL;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    const char *action = args.count ? args.positional[0] : "list",
               *id = args.count > 1 ? args.positional[1] : NULL;
    bool list = strcmp(action, "list") == 0, show = strcmp(action, "show") == 0,
         cancel = strcmp(action, "cancel") == 0;
    if (strcmp(action, "watch") == 0)
        return KILN_ERROR(UNIMPLEMENTED,
                          "kiln jobs watch is not there yet; repeat kiln jobs show ID");
    if (!list && !show && !cancel)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "kiln jobs has no '%s'; there are list, show ID, cancel ID", action);
    if (!list && !id)
        return KILN_ERROR(INVALID_ARGUMENT, "kiln jobs %s ID: the job is missing", action);
    st = kiln_client_open(&client_options, process, &client);
    if (!st && list) st = query(client, KILN_TOPIC_JOBS, NULL, process, print_jobs, json);
    if (!st && !list)
        st = query(client, KILN_TOPIC_JOB, id, process, show ? print_jobs : print_nothing, json);
    if (!st && cancel) {
        kiln_message stop = {.type = KILN_MSG_CANCEL,
                             .cancel = {.scope = KILN_CANCEL_JOB,
                                        .id = kiln_str_from(id),
                                        .reason = KILN_STR("kiln jobs cancel")}};
        kiln_client_send(client, &stop);
        st = query(client, KILN_TOPIC_JOB, id, process, print_jobs,
                   json); /* the answer comes after the order */
    }
    kiln_client_close(client);
    return st;
}
