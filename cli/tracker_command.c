#include "cli/tracker_command.h"

#include <stdio.h>

#include "base/macros.h"
#include "cli/common/client.h"
#include "cli/display.h"

void kiln_print_record(kiln_record_type type, const void *row) {
    kiln_strbuf text = {0};
    kiln_record_print_json(type, row, &text);
    puts(text.data);
    kiln_strbuf_deinit(&text);
}

enum { OPTIONS_ALWAYS = 5, OPTIONS_MAX = 24 };

/* Appends the options of `kiln fleet upgrade`. */
static void add_upgrade(kiln_upgrade_options *o, kiln_opt *option, size_t *count) {
    const kiln_opt rows[] = {
        {"to", KILN_OPT_LIST, &o->to, "VERSION|ARCHIVE",
         "upgrade: a signed archive, or a version, whose archives are here or in dist/; once for "
         "each processor"},
        {"canary", KILN_OPT_COUNT, &o->canary, "N",
         "upgrade: so many boards first; the others only when these are done (default 0)"},
        {"percent", KILN_OPT_COUNT, &o->percent, "N",
         "upgrade: so many of the boards at the same time, at least one (default 10)"},
        {"one-by-one", KILN_OPT_FLAG, &o->one_by_one, NULL, "upgrade: one board after the other"},
        {"label", KILN_OPT_LIST, &o->label, "K=V",
         "upgrade, window: only boards with this label; may be repeated"},
        {"wait", KILN_OPT_COUNT, &o->wait_s, "SECONDS",
         "upgrade: in which a new version must connect and pass its self-check (default 120)"},
        {"detach", KILN_OPT_FLAG, &o->detach, NULL, "upgrade: do not wait for its end"},
        {"status", KILN_OPT_FLAG, &o->status, NULL, "upgrade: show the last one"},
        {"cancel", KILN_OPT_FLAG, &o->cancel, NULL,
         "upgrade: end it; boards that have not restarted keep their version"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) option[(*count)++] = rows[i];
}

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
        option[count++] = (kiln_opt){"why|reason", KILN_OPT_LINE, &c.why, "TEXT",
                                     "reason, shown with the board's state"};
    if (commands->takes_times) {
        option[count++] = (kiln_opt){"for", KILN_OPT_TEXT, &c.duration, "TIME",
                                     "reserve: for so long (90s, 30m, 2h, 1d; at most 7d)"};
        option[count++] =
            (kiln_opt){"end", KILN_OPT_FLAG, &c.end, NULL, "reserve: end the reservation"};
        option[count++] = (kiln_opt){"remove", KILN_OPT_COUNT, &c.remove, "NUMBER",
                                     "window: remove the window of this number"};
    }
    if (commands->takes_follow) {
        option[count++] = (kiln_opt){"follow", KILN_OPT_FLAG, &c.follow, NULL,
                                     "log: print new lines as they come, until Ctrl-C"};
        option[count++] =
            (kiln_opt){"key", KILN_OPT_TEXT, &key, "BOARD", "ping: only boards of this name"};
    }
    if (commands->takes_upgrade) add_upgrade(&c.upgrade, option, &count);
    if (commands->takes_db)
        option[count++] = (kiln_opt){"db", KILN_OPT_TEXT, &c.db, "PATH",
                                     "records database (default $KILN_HOME/kiln.db)"};
    kiln_args args;
    size_t index = 0;
    kiln_status st =
        kiln_action_parse(&commands->actions, option, count, argc, argv, process, &args, &index);
    if (st) return st;
    const kiln_str wanted = kiln_str_from(commands->actions.action[index].arguments);
    const bool wants_id = kiln_str_is(wanted, "BOARD") || kiln_str_is(wanted, "JOB");
    if (args.help) {
        *out_command = NULL;
        return KILN_OK;
    }
    c.tracker.id = wants_id ? args.positional[0] : NULL;
    c.named = args.count ? args.positional[0] : key;
    c.second = args.count > 1 ? args.positional[1] : NULL;
    c.positional = args.positional;
    c.count = args.count;
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
