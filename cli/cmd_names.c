/* kiln names: names that stand for arguments, one a line: completions of shells ask for them. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/common/tracker_call.h"
#include "proto/net.h"

#define WAIT_S 1 /* a person waits for it after a key */
#define WAIT_MAX_S 3600

typedef struct names_call {
    kiln_tracker_call tracker;
    const char *keys; /* --keys */
} names_call;

/* ---- What a tracker knows ---- */

static void print_name(kiln_str name) {
    if (name.size) printf("%.*s\n", KILN_STR_ARG(name));
}

/* kiln_page_taker */
static void print_page(void *context, const kiln_msg_answer *page) {
    (void)context;
    for (uint32_t i = 0; i < page->boards.count; i++) print_name(page->boards.item[i].key);
    for (uint32_t i = 0; i < page->jobs.count; i++) print_name(page->jobs.item[i].job);
}

static kiln_status print_pages(names_call *c, kiln_topic topic) {
    kiln_status st = kiln_tracker_call_open(&c->tracker);
    if (!st) st = kiln_tracker_ask_pages(&c->tracker, topic, print_page, NULL);
    kiln_tracker_call_close(&c->tracker);
    return st;
}

static kiln_status list_boards(names_call *c) { return print_pages(c, KILN_TOPIC_FLEET); }

static kiln_status list_jobs(names_call *c) { return print_pages(c, KILN_TOPIC_JOBS); }

/* kiln_projects_taker */
static void print_projects(void *context, const kiln_msg_projects *page) {
    (void)context;
    for (uint32_t i = 0; i < page->projects.count; i++) print_name(page->projects.item[i].project);
}

static kiln_status list_projects(names_call *c) {
    kiln_status st = kiln_tracker_call_open(&c->tracker);
    if (!st) st = kiln_projects_list(c->tracker.client, c->tracker.process, print_projects, NULL);
    kiln_tracker_call_close(&c->tracker);
    return st;
}

/* ---- What files and tables know ---- */

static kiln_status list_keys(names_call *c) {
    char *home = NULL, name[KILN_KEY_NAME_BYTES], before[KILN_KEY_NAME_BYTES] = "";
    kiln_keys keys = {0};
    kiln_status st = c->keys ? KILN_OK : kiln_home(c->tracker.process, &home);
    if (st) return st;
    if (!c->keys) c->keys = kiln_arena_printf(c->tracker.process, "%s/keys", home);
    st = kiln_keys_read(c->keys, &keys);
    if (st) return st;
    for (uint32_t i = 0; i < keys.key.count; i++) {
        kiln_key named = keys.key.data[i];
        if (named.state == KILN_KEY_REVOKED) continue;
        named.generation = 0; /* the command is told of the node, not of one of its keys */
        kiln_key_name_print(&named, name);
        if (strcmp(name, before) != 0) puts(name);
        memcpy(before, name, sizeof before);
    }
    kiln_keys_deinit(&keys);
    return KILN_OK;
}

static kiln_status list_kinds(names_call *c);

static const struct {
    const char *kind;
    kiln_status (*list)(names_call *c);
    const char *what;
} kind_table[] = {
#define X(kind, list, what) {kind, list, what},
#include "cli/names.def"
#undef X
};

static kiln_status list_kinds(names_call *c) {
    (void)c;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(kind_table); i++) puts(kind_table[i].kind);
    return KILN_OK;
}

/* ---- The command ---- */

static void on_late(int number) {
    (void)number;
    static const char text[] = "kiln names: the tracker did not answer within --wait SECONDS\n";
    const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(written < 0 ? 1 : kiln_code_exit(KILN_DEADLINE_EXCEEDED));
}

/* Takes from words of a command line that is being typed those options which `table` has too: the
 * tracker that was named there. Others, and values that are wrong, are left to that command. */
static void take_options(const kiln_opt_table *table, const char **word, size_t count,
                         kiln_arena *process) {
    for (size_t i = 0; i < count; i++) {
        kiln_str value = kiln_str_from(word[i]);
        if (!kiln_str_starts(value, "--")) continue;
        const bool has_value = strchr(word[i], '=') != NULL;
        kiln_str name = kiln_str_cut(&value, '=');
        name = kiln_str_slice(name, 2, name.size);
        const kiln_opt *option = name.size ? kiln_opt_find(table, name) : NULL;
        kiln_opt_given given = {.name = kiln_str_dup(process, name)};
        if (!option) continue;
        if (has_value)
            given.value = kiln_str_dup(process, value);
        else if (option->kind != KILN_OPT_FLAG && i + 1 < count)
            given.value = word[++i];
        kiln_status_free(kiln_opt_set(table, &given, process)); /* as said above */
    }
}

static kiln_status no_such_kind(const char *kind) {
    kiln_nearest nearest = kiln_nearest_to(kiln_str_from(kind));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(kind_table); i++)
        kiln_nearest_try(&nearest, kiln_str_from(kind_table[i].kind));
    if (nearest.found.size)
        return KILN_ERROR(INVALID_ARGUMENT, "there are no names of '%s'; did you mean %.*s?", kind,
                          KILN_STR_ARG(nearest.found));
    return KILN_ERROR(INVALID_ARGUMENT, "there are no names of '%s'; kiln names kinds lists them",
                      kind);
}

kiln_status kiln_cmd_names(kiln_arena *process, int argc, char **argv) {
    names_call c = {.tracker = {.process = process}};
    uint64_t wait_s = WAIT_S;
    const kiln_opt option[] = {
        KILN_CLIENT_OPTIONS(&c.tracker.client_options),
        {"keys", KILN_OPT_TEXT, &c.keys, "F", "the tracker's key file (default $KILN_HOME/keys)"},
        {"wait|$KILN_NAMES_WAIT", KILN_OPT_COUNT, &wait_s, "SECONDS",
         "end without names when nobody has answered in this time (default $KILN_NAMES_WAIT, or "
         "1)"},
    };
    const kiln_opt_table table = {
        "kiln names boards|jobs|projects|keys|kinds [options] [-- WORD...]",
        "Prints names, one a line, for completions of shells. WORDs are the "
        "command line that is completed: its --tracker, --key-file, --person, --insecure and "
        "--keys count.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        SIZE_MAX};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    if (wait_s < 1 || wait_s > WAIT_MAX_S)
        return KILN_ERROR(INVALID_ARGUMENT, "--wait: 1 to %u seconds", WAIT_MAX_S);
    take_options(&table, args.positional + 1, args.count - 1, process);
    c.tracker.client_options.quiet = true;
    signal(SIGALRM, on_late);
    alarm((unsigned)wait_s);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(kind_table); i++)
        if (strcmp(args.positional[0], kind_table[i].kind) == 0) return kind_table[i].list(&c);
    return no_such_kind(args.positional[0]);
}
