#include "cli/tracker_command.h"

#include <stdio.h>

#include "cli/common/client.h"
#include "cli/display.h"

void kiln_print_record(kiln_record_type type, const void *row) {
    kiln_strbuf text = {0};
    kiln_record_print_json(type, row, &text);
    puts(text.data);
    kiln_strbuf_deinit(&text);
}

enum { OPTIONS_ALWAYS = 5, OPTIONS_MAX = 9 };

kiln_status kiln_tracker_command_parse(const kiln_tracker_commands *commands, kiln_arena *process,
                                       int argc, char **argv, kiln_command_call *out_call,
                                       const kiln_tracker_command **out_command) {
    kiln_command_call c = {.tracker = {.process = process}};
    const char *key = NULL;
    kiln_opt option[OPTIONS_MAX] = {
        KILN_CLIENT_OPTIONS(&c.tracker.client_options),
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object per line"},
    };
    size_t count = OPTIONS_ALWAYS;
    if (commands->takes_why)
        option[count++] = (kiln_opt){"why", KILN_OPT_TEXT, &c.why, "TEXT",
                                     "reason, shown with the board's state"};
    if (commands->takes_follow) {
        option[count++] = (kiln_opt){"follow", KILN_OPT_FLAG, &c.follow, NULL,
                                     "log: print new lines as they come, until Ctrl-C"};
        option[count++] =
            (kiln_opt){"key", KILN_OPT_TEXT, &key, "K", "ping: only boards of this name"};
    }
    if (commands->takes_db)
        option[count++] = (kiln_opt){"db", KILN_OPT_TEXT, &c.db, "PATH",
                                     "records database (default $KILN_HOME/kiln.db)"};
    kiln_args args;
    size_t index = 0;
    kiln_status st =
        kiln_action_parse(&commands->actions, option, count, argc, argv, process, &args, &index);
    if (st) return st;
    const bool wants_id =
        kiln_str_is(kiln_str_from(commands->actions.action[index].arguments), "ID");
    if (args.help) {
        *out_command = NULL;
        return KILN_OK;
    }
    c.tracker.id = wants_id ? args.positional[0] : NULL;
    c.named = args.count ? args.positional[0] : key;
    c.second = args.count > 1 ? args.positional[1] : NULL;
    c.given = args.given;
    *out_call = c;
    *out_command = &commands->command[index];
    return KILN_OK;
}

kiln_status kiln_tracker_command_run(kiln_command_call *c, const kiln_tracker_command *command) {
    c->tracker.client_options.admin = command->admin;
    c->tracker.client_options.waits = kiln_waits_show;
    c->tracker.client_options.waits_context = &c->waits;
    kiln_status st = kiln_tracker_call_open(&c->tracker);
    if (!st && c->tracker.id) st = kiln_tracker_complete_id(&c->tracker, KILN_TOPIC_BOARD);
    if (!st) st = command->run(c);
    kiln_tracker_call_close(&c->tracker);
    return st;
}
