#include "cli/tracker_call.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/display.h"

kiln_status kiln_tracker_ask_pages(kiln_tracker_call *c, kiln_topic topic, kiln_page_taker take) {
    uint32_t offset = 0;
    for (bool more = true; more;) {
        kiln_message question = {.type = KILN_MSG_QUERY,
                                 .query = {topic, kiln_str_from(c->id), offset}};
        kiln_message answer = {0};
        kiln_status st = kiln_client_ask(c->client, &question, c->process, &answer);
        if (st) return st;
        if (answer.type != KILN_MSG_ANSWER)
            return KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
        take(c, &answer.answer);
        uint32_t rows = answer.answer.boards.count + answer.answer.jobs.count;
        offset += rows;
        more = rows > 0 && offset < answer.answer.total;
    }
    return KILN_OK;
}

/* ---- Watching ---- */

static void ask_for_changes(kiln_tracker_call *c, uint64_t since) {
    kiln_message watch = {.type = KILN_MSG_WATCH,
                          .stream = c->stream,
                          .watch = {.topic = c->topic, .id = kiln_str_from(c->id), .since = since}};
    kiln_client_send(c->client, &watch);
}

static void begin(kiln_tracker_call *c) {
    c->stream = kiln_client_stream(c->client);
    ask_for_changes(c, 0);
}

static void on_message(void *context, const kiln_message *message) {
    kiln_tracker_call *c = context;
    if (!c->change && !c->heard) return;
    if (!message && c->heard) {
        c->stream = kiln_client_stream(c->client);
        c->heard(c, NULL);
    } else if (!message) {
        begin(c); /* another connection, perhaps another tracker */
    } else if (message->stream != c->stream) {
        return;
    } else if (c->heard && message->type != KILN_MSG_ERROR) {
        c->heard(c, message);
        kiln_client_wake(c->client);
    } else if (message->type == KILN_MSG_CHANGE) {
        c->change(c->context, &message->change);
        ask_for_changes(c, message->change.seq);
        kiln_client_wake(c->client);
    } else if (message->type == KILN_MSG_ERROR) {
        kiln_status_free(c->failure);
        c->failure = kiln_status_from_error(&message->error);
        kiln_client_wake(c->client);
    }
}

static void on_stop(void *context, int number) {
    (void)number;
    kiln_tracker_call *c = context;
    c->stopped = true;
    kiln_client_stop(c->client);
}

bool kiln_tracker_watch(kiln_tracker_call *c, kiln_topic topic, kiln_tracker_change change,
                        void *context) {
    kiln_loop_on_signal(kiln_client_loop(c->client), SIGINT, on_stop, c);
    if (kiln_client_version(c->client) < kiln_message_since(KILN_MSG_WATCH)) return false;
    c->topic = topic;
    c->change = change;
    c->context = context;
    begin(c);
    return true;
}

void kiln_tracker_listen(kiln_tracker_call *c,
                         void (*heard)(kiln_tracker_call *call, const kiln_message *message),
                         void *context) {
    kiln_loop_on_signal(kiln_client_loop(c->client), SIGINT, on_stop, c);
    c->stream = kiln_client_stream(c->client);
    c->heard = heard;
    c->context = context;
}

kiln_status kiln_tracker_watch_on(kiln_tracker_call *c, uint64_t wait_ns) {
    kiln_status st = kiln_client_wait(c->client, wait_ns);
    if (st) return st;
    st = c->failure;
    c->failure = NULL;
    return st;
}

void kiln_print_record(kiln_record_type type, const void *row) {
    kiln_strbuf text = {0};
    kiln_record_print_json(type, row, &text);
    puts(text.data);
    kiln_strbuf_deinit(&text);
}

static kiln_status no_such_action(const kiln_tracker_commands *table, const char *name) {
    kiln_strbuf known = {0};
    for (size_t i = 0; i < table->count; i++)
        kiln_strbuf_printf(&known, "%s%s%s", i ? ", " : "", table->action[i].name,
                           table->action[i].wants_id ? " ID" : "");
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "kiln %s has no '%s'; there are %s",
                                table->command, name, known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

static kiln_status find_action(const kiln_tracker_commands *table, const kiln_args *args,
                               const kiln_tracker_command **out) {
    const char *name = args->count ? args->positional[0] : table->action[0].name;
    for (size_t i = 0; i < table->count; i++) {
        const kiln_tracker_command *a = &table->action[i];
        if (strcmp(name, a->name) != 0) continue;
        if (a->wants_id && args->count < 2)
            return KILN_ERROR(INVALID_ARGUMENT, "kiln %s %s ID: the ID is missing (kiln %s list)",
                              table->command, name, table->command);
        *out = a;
        return KILN_OK;
    }
    return no_such_action(table, name);
}

enum { OPTIONS_ALWAYS = 4, OPTIONS_MAX = 8 };

kiln_status kiln_tracker_call_parse(const kiln_tracker_commands *actions, kiln_arena *process,
                                    int argc, char **argv, kiln_tracker_call *out_call,
                                    const kiln_tracker_command **out_action) {
    kiln_tracker_call c = {.process = process};
    const char *key = NULL;
    kiln_opt option[OPTIONS_MAX] = {
        {"tracker", KILN_OPT_TEXT, &c.client_options.tracker, "ADDR", kiln_tracker_help},
        {"key-file", KILN_OPT_TEXT, &c.client_options.key_file, "F",
         "key to show to a tracker on another machine (default $KILN_HOME/key)"},
        {"insecure", KILN_OPT_FLAG, &c.client_options.insecure, NULL,
         "connect in plain text, without a key"},
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object per line"},
    };
    size_t count = OPTIONS_ALWAYS;
    if (actions->takes_why)
        option[count++] =
            (kiln_opt){"why", KILN_OPT_TEXT, &c.why, "TEXT", "shown beside the board's state"};
    if (actions->takes_follow) {
        option[count++] = (kiln_opt){"follow", KILN_OPT_FLAG, &c.follow, NULL,
                                     "log: go on with lines that come, until Ctrl-C"};
        option[count++] =
            (kiln_opt){"key", KILN_OPT_TEXT, &key, "K", "ping: only boards of this name"};
    }
    if (actions->takes_db)
        option[count++] = (kiln_opt){"db", KILN_OPT_TEXT, &c.db, "PATH",
                                     "records database (default $KILN_HOME/kiln.db)"};
    const kiln_opt_table table = {actions->usage, actions->summary, option, count, 0, 2};
    kiln_args args;
    const kiln_tracker_command *a = NULL;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (!st && !args.help) st = find_action(actions, &args, &a);
    if (st) return st;
    if (a) c.id = a->wants_id ? args.positional[1] : NULL;
    c.named = args.count > 1 ? args.positional[1] : key;
    c.given = args.given;
    *out_call = c;
    *out_action = a;
    return KILN_OK;
}

kiln_status kiln_tracker_call_run(kiln_tracker_call *c, const kiln_tracker_command *action) {
    c->client_options.admin = action->admin;
    c->client_options.message = on_message;
    c->client_options.context = c;
    c->client_options.waits = c->events ? kiln_events_waits : kiln_waits_show;
    c->client_options.waits_context = c->events ? (void *)c->events : &c->waits;
    kiln_status st = kiln_client_open(&c->client_options, c->process, &c->client);
    if (!st) st = action->run(c);
    c->change = NULL;
    kiln_client_close(c->client);
    kiln_status_free(c->failure);
    return st;
}
