#include "cli/action.h"

#include <ctype.h>
#include <string.h>

#define NAME_COLUMN 24

static const kiln_action *find(const kiln_actions *actions, const char *name) {
    for (size_t i = 0; i < actions->count; i++)
        if (strcmp(name, actions->action[i].name) == 0) return &actions->action[i];
    return NULL;
}

static kiln_status no_such_action(const kiln_actions *actions, const char *name) {
    kiln_nearest nearest = kiln_nearest_to(kiln_str_from(name));
    kiln_strbuf known = {0};
    for (size_t i = 0; i < actions->count; i++) {
        kiln_nearest_try(&nearest, kiln_str_from(actions->action[i].name));
        kiln_strbuf_printf(&known, "%s%s", i ? ", " : "", actions->action[i].name);
    }
    kiln_status st = nearest.found.size
                         ? KILN_ERROR(INVALID_ARGUMENT, "kiln %s has no '%s'; did you mean '%.*s'?",
                                      actions->command, name, KILN_STR_ARG(nearest.found))
                         : KILN_ERROR(INVALID_ARGUMENT, "kiln %s has no '%s'; there are %s",
                                      actions->command, name, known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

/* "kiln fleet drain BOARD" */
static const char *usage_of(const kiln_actions *actions, const kiln_action *action,
                            kiln_arena *process) {
    return kiln_arena_printf(process, "kiln %s %s%s%s [options]", actions->command, action->name,
                             *action->arguments ? " " : "", action->arguments);
}

/* "A [B] C..." takes two or more. */
static kiln_status check_arguments(const kiln_actions *actions, const kiln_action *action,
                                   const kiln_args *args, kiln_arena *process) {
    kiln_str rest = kiln_str_from(action->arguments), missing = {0};
    size_t min = 0, max = 0;
    while (rest.size) {
        const kiln_str word = kiln_str_cut(&rest, ' ');
        max = kiln_str_ends(word, "...") || kiln_str_ends(word, "...]") ? SIZE_MAX : max + 1;
        if (*word.data == '[') continue;
        if (++min == args->count + 1) missing = word;
    }
    if (missing.size)
        return KILN_ERROR(INVALID_ARGUMENT, "%.*s is missing; usage: %s", KILN_STR_ARG(missing),
                          usage_of(actions, action, process));
    if (args->count > max)
        return KILN_ERROR(INVALID_ARGUMENT, "unexpected argument '%s'; usage: %s",
                          args->positional[max], usage_of(actions, action, process));
    return KILN_OK;
}

/* The summary and a line for each action. */
static const char *describe(const kiln_actions *actions, kiln_arena *process) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%s\n", actions->summary);
    for (size_t i = 0; i < actions->count; i++) {
        const kiln_action *action = &actions->action[i];
        const char *head = kiln_arena_printf(process, "%s %s", action->name, action->arguments);
        kiln_strbuf_printf(&text, "\n  %-*s  %s", NAME_COLUMN, head, action->help);
    }
    return kiln_strbuf_end(&text, process).data;
}

kiln_status kiln_action_parse(const kiln_actions *actions, const kiln_opt *option,
                              size_t option_count, int argc, char **argv, kiln_arena *process,
                              kiln_args *out_args, size_t *out_index) {
    const kiln_action *action = argc > 1 ? find(actions, argv[1]) : NULL;
    if (argc > 1 && !action && argv[1][0] != '-') return no_such_action(actions, argv[1]);
    kiln_opt_table table = {.usage =
                                kiln_arena_printf(process, "kiln %s %s [options]", actions->command,
                                                  actions->has_default ? "[ACTION]" : "ACTION"),
                            .summary = describe(actions, process),
                            .option = option,
                            .option_count = option_count,
                            .positional_max = SIZE_MAX};
    if (action) {
        table.usage = usage_of(actions, action, process);
        table.summary =
            kiln_arena_printf(process, "%c%s.", toupper(*action->help), action->help + 1);
    }
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (!st && !args.help && args.count) {
        const char *name = args.positional[0];
        action = find(actions, name);
        if (!action) st = no_such_action(actions, name);
        args.positional++;
        args.count--;
    } else if (!st && !args.help) {
        action = actions->action;
        if (!actions->has_default)
            st = KILN_ERROR(INVALID_ARGUMENT, "the action is missing; kiln %s --help lists them",
                            actions->command);
    }
    if (!st && !args.help) st = check_arguments(actions, action, &args, process);
    if (st) return st;
    *out_args = args;
    *out_index = args.help ? 0 : (size_t)(action - actions->action);
    return KILN_OK;
}
