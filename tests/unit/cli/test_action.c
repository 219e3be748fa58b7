/* Which action a command line means, and what is wrong with it. Help is looked at by e2e/cli. */
#include "cli/action.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static const kiln_action action[] = {{"list", "", "list all"},
                                     {"show", "ID", "show one"},
                                     {"ping", "[ID]", "ping one or all"},
                                     {"set", "PROJECT SETTING=N...", "set some"},
                                     {"new", "PROJECT [SETTING=N...]", "make one"}};

/* Parses a blank-separated command line; "name argument argument" of what is found. */
static kiln_status parse(kiln_arena *arena, bool has_default, const char *line, const char **out) {
    const kiln_actions actions = {.command = "fleet",
                                  .summary = "Looks at things.",
                                  .action = action,
                                  .count = KILN_ARRAY_COUNT(action),
                                  .has_default = has_default};
    bool all = false;
    const kiln_opt option[] = {{"all", KILN_OPT_FLAG, &all, NULL, "all of them"}};
    kiln_args args;
    size_t index = 0;
    char *argv[20] = {(char *)(uintptr_t)"fleet"};
    int argc = 1;
    kiln_str rest = kiln_str_from(line);
    while (rest.size) argv[argc++] = kiln_str_dup(arena, kiln_str_cut(&rest, ' '));
    kiln_status st = kiln_action_parse(&actions, option, 1, argc, argv, arena, &args, &index);
    if (st) return st;
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, action[index].name);
    for (size_t i = 0; i < args.count; i++) kiln_strbuf_printf(&text, " %s", args.positional[i]);
    *out = kiln_strbuf_end(&text, arena).data;
    return KILN_OK;
}

static void an_action_comes_with_its_arguments(void **state) {
    static const struct {
        const char *line, *found;
    } row[] = {{"", "list"},
               {"--all", "list"},
               {"show x", "show x"},
               {"--all show x", "show x"},
               {"show --all x", "show x"},
               {"ping", "ping"},
               {"ping x", "ping x"},
               {"set p a=1", "set p a=1"},
               {"set p a=1 b=2 c=3", "set p a=1 b=2 c=3"},
               {"new p", "new p"},
               {"new p a=1 b=2", "new p a=1 b=2"}};
    const char *found = NULL;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        expect_ok(parse(*state, true, row[i].line, &found));
        assert_string_equal(found, row[i].found);
    }
}

static void mistakes_name_what_to_type(void **state) {
    static const struct {
        bool has_default;
        const char *line, *complaint;
    } row[] = {{true, "shwo x", "kiln fleet has no 'shwo'; did you mean 'show'?"},
               {true, "--all shwo x", "did you mean 'show'?"},
               {true, "frobnicate", "there are list, show, ping, set, new"},
               {false, "", "the action is missing; kiln fleet --help lists them"},
               {true, "show", "ID is missing; usage: kiln fleet show ID [options]"},
               {true, "show x y", "unexpected argument 'y'; usage: kiln fleet show ID [options]"},
               {true, "ping x y", "unexpected argument 'y'"},
               {true, "list x", "unexpected argument 'x'; usage: kiln fleet list [options]"},
               {true, "set", "PROJECT is missing"},
               {true, "set p", "SETTING=N... is missing"},
               {true, "new", "PROJECT is missing"},
               {true, "show x --al", "unknown option --al; did you mean --all?"}};
    const char *found = NULL;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_error(parse(*state, row[i].has_default, row[i].line, &found), INVALID_ARGUMENT,
                     row[i].complaint);
}

int main(void) {
    setenv("KILN_CONFIG", "none", 1);
    const struct CMUnitTest tests[] = {
        test_with_arena(an_action_comes_with_its_arguments),
        test_with_arena(mistakes_name_what_to_type),
    };
    return cmocka_run_group_tests_name("cli/action", tests, NULL, NULL);
}
