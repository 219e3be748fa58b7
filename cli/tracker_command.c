#include "cli/tracker_command.h"

#include <stdio.h>
#include <string.h>

#include "cli/common/client.h"
#include "cli/display.h"

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

kiln_status kiln_tracker_command_parse(const kiln_tracker_commands *actions, kiln_arena *process,
                                       int argc, char **argv, kiln_command_call *out_call,
                                       const kiln_tracker_command **out_action) {
    kiln_command_call c = {.tracker = {.process = process}};
    const char *key = NULL;
    kiln_opt option[OPTIONS_MAX] = {
        KILN_CLIENT_OPTIONS(&c.tracker.client_options),
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
    if (a) c.tracker.id = a->wants_id ? args.positional[1] : NULL;
    c.named = args.count > 1 ? args.positional[1] : key;
    c.given = args.given;
    *out_call = c;
    *out_action = a;
    return KILN_OK;
}

kiln_status kiln_tracker_command_run(kiln_command_call *c, const kiln_tracker_command *action) {
    c->tracker.client_options.admin = action->admin;
    c->tracker.client_options.waits = kiln_waits_show;
    c->tracker.client_options.waits_context = &c->waits;
    kiln_status st = kiln_tracker_call_open(&c->tracker);
    if (!st) st = action->run(c);
    kiln_tracker_call_close(&c->tracker);
    return st;
}
