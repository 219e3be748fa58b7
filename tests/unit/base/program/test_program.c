/* Which of several sources an option's value comes from. */
#include "base/program/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"

typedef struct options {
    const char *tracker;
    uint64_t trials;
    double seconds;
    bool json;
    kiln_opt_list listen;
    kiln_args args;
} options;

/* The machine's file cannot be another one in a test, so the user's stands for all files. */
static void write_config(kiln_arena *arena, const char *folder, const char *text) {
    setenv("XDG_CONFIG_HOME", folder, 1);
    expect_ok(kiln_folder_create(kiln_arena_printf(arena, "%s/kiln", folder), 0700));
    expect_ok(kiln_file_write(kiln_arena_printf(arena, "%s/kiln/config", folder),
                              kiln_str_from(text), 0600));
}

static kiln_status parse(kiln_arena *arena, const char *line, options *out) {
    static const char *const commands[] = {"tune", NULL};
    static const char *const shared[] = {"tracker|$KILN_TRACKER", "log-level", "quiet|q", NULL};
    const kiln_executable program = {.name = "kiln",
                                     .level = KILN_LOG_WARN,
                                     .command = "tune",
                                     .commands = commands,
                                     .shared = shared};
    *out = (options){.trials = 32};
    const kiln_opt option[] = {
        {"tracker|$KILN_TRACKER", KILN_OPT_TEXT, &out->tracker, "ADDR", "where it is"},
        {"trials|n", KILN_OPT_COUNT, &out->trials, "N", "how many"},
        {"seconds", KILN_OPT_NUMBER, &out->seconds, "S", "how long"},
        {"json", KILN_OPT_FLAG, &out->json, NULL, "as JSON"},
        {"listen", KILN_OPT_LIST, &out->listen, "ADDR", "where"}};
    const kiln_opt_table table = {"kiln tune", "Tunes.", option, KILN_ARRAY_COUNT(option), 0, 1};
    char *argv[20] = {(char *)(uintptr_t)"tune"};
    int argc = 1;
    kiln_str rest = kiln_str_from(line);
    while (rest.size) argv[argc++] = kiln_str_dup(arena, kiln_str_cut(&rest, ' '));
    return kiln_command_line_parse(&program, &table, argc, argv, arena, &out->args);
}

static void the_strongest_source_gives_the_value(void **state) {
    char *folder = make_folder(*state);
    options o;
    write_config(*state, folder,
                 "[kiln]\ntracker = file:1\n[kiln tune]\ntrials = 64\njson = yes\nseconds = 2.5\n"
                 "listen = a\nlisten = b\n");
    expect_ok(parse(*state, "", &o));
    assert_string_equal(o.tracker, "file:1");
    assert_int_equal(o.trials, 64);
    assert_true(o.json);
    assert_true(o.seconds == 2.5);
    assert_int_equal(o.listen.count, 2);
    setenv("KILN_TRACKER", "env:1", 1);
    expect_ok(parse(*state, "", &o));
    assert_string_equal(o.tracker, "env:1");
    expect_ok(parse(*state, "--tracker line:1 -n 3 --json=no --listen=c m", &o));
    assert_string_equal(o.tracker, "line:1");
    assert_int_equal(o.trials, 3);
    assert_false(o.json);
    assert_int_equal(o.listen.count, 1); /* lists of two sources are not joined */
    assert_string_equal(o.listen.item[0], "c");
    assert_int_equal(o.args.count, 1);
    unsetenv("KILN_TRACKER");
    write_config(*state, folder, "[kiln tune]\ntracker = own:1\n[kiln]\ntracker = all:1\n");
    expect_ok(parse(*state, "", &o));
    assert_string_equal(o.tracker, "own:1");
    expect_ok(parse(*state, "--config none", &o));
    assert_null(o.tracker);
    setenv("KILN_CONFIG", "none", 1);
    expect_ok(parse(*state, "", &o));
    assert_null(o.tracker);
    unsetenv("KILN_CONFIG");
    remove_folder(folder);
}

/* As a request gets them, which knows no files: what counts, without what every program has. */
static void given_options_are_those_of_all_sources(void **state) {
    static const kiln_opt_given expected[] = {
        {"tracker", "file:1"}, {"listen", "a"}, {"listen", "b"}, {"n", "3"}, {"json", NULL}};
    char *folder = make_folder(*state);
    options o;
    write_config(*state, folder,
                 "[kiln]\ntracker = file:1\nlog-level = debug\n[kiln tune]\ntrials = 64\n"
                 "listen = a\nlisten = b\n");
    expect_ok(parse(*state, "-n 3 --json -q", &o));
    assert_int_equal(o.args.given.count, KILN_ARRAY_COUNT(expected));
    for (uint32_t i = 0; i < o.args.given.count; i++) {
        assert_string_equal(o.args.given.data[i].name, expected[i].name);
        if (expected[i].value) assert_string_equal(o.args.given.data[i].value, expected[i].value);
    }
    remove_folder(folder);
}

static void a_wrong_value_is_an_error_even_where_a_stronger_one_counts(void **state) {
    char *folder = make_folder(*state);
    options o;
    write_config(*state, folder, "[kiln tune]\n\ntrials = many\n");
    expect_error(parse(*state, "--trials 3", &o), INVALID_ARGUMENT,
                 "/kiln/config:3: --trials wants a whole number, not 'many'");
    expect_error(parse(*state, "--trails 3", &o), INVALID_ARGUMENT, "did you mean --trials?");
    write_config(*state, folder, "[kiln tune]\njson = perhaps\n");
    expect_error(parse(*state, "", &o), INVALID_ARGUMENT, "config:2: --json takes no value but");
    expect_error(parse(*state, "--config /nowhere", &o), NOT_FOUND, "/nowhere");
    write_config(*state, folder, "");
    expect_error(parse(*state, "--log-level loud", &o), INVALID_ARGUMENT,
                 "--log-level is error, warn, info or debug, not 'loud'");
    expect_error(parse(*state, "--show-config some", &o), INVALID_ARGUMENT, "all or own");
    expect_error(parse(*state, "a b", &o), INVALID_ARGUMENT, "unexpected argument 'b'");
    remove_folder(folder);
}

static void the_log_is_as_loud_as_the_strongest_source_says(void **state) {
    static const struct {
        const char *config, *line;
        kiln_log_level level;
    } row[] = {
        {"", "", KILN_LOG_WARN},
        {"", "-q", KILN_LOG_ERROR},
        {"", "-v", KILN_LOG_DEBUG},
        {"", "--log-level info", KILN_LOG_INFO},
        {"", "--log-level info -v", KILN_LOG_DEBUG},
        {"[kiln]\nlog-level = info\n", "", KILN_LOG_INFO},
        {"[kiln]\nquiet = yes\n", "", KILN_LOG_ERROR},
        {"[kiln]\nquiet = yes\n", "--log-level debug", KILN_LOG_DEBUG},
        {"[kiln]\nquiet = no\nlog-level = info\n", "", KILN_LOG_INFO},
        {"[kiln]\nquiet = yes\n[kiln tune]\nverbose = yes\n", "", KILN_LOG_DEBUG},
        {"[kiln]\nlog-level = info\n", "--verbose", KILN_LOG_DEBUG},
    };
    char *folder = make_folder(*state);
    options o;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        write_config(*state, folder, row[i].config);
        expect_ok(parse(*state, row[i].line, &o));
        if (kiln_log_level_now() != row[i].level)
            fail_msg("row %zu: %s", i, kiln_log_level_name(kiln_log_level_now()));
    }
    remove_folder(folder);
}

static void a_value_that_is_wrong_later_is_blamed_on_its_place(void **state) {
    char *folder = make_folder(*state);
    options o;
    write_config(*state, folder, "[kiln tune]\nlisten = nowhere\nseconds = 3\n");
    expect_ok(parse(*state, "--json", &o));
    expect_error(
        kiln_command_line_blame(&o.args, KILN_ERROR(INVALID_ARGUMENT, "--listen: no port"), *state),
        INVALID_ARGUMENT, "/kiln/config:2: --listen: no port");
    static const char *const others[] = {"--listening is wrong", "--listen-to is wrong",
                                         "--json is wrong", "--trials is wrong", "all is wrong"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(others); i++) {
        kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "%s", others[i]);
        st = kiln_command_line_blame(&o.args, st, *state);
        assert_string_equal(kiln_status_text(st), others[i]);
        kiln_status_free(st);
    }
    kiln_status st = KILN_ERROR(UNAVAILABLE, "--listen: not now");
    st = kiln_command_line_blame(&o.args, st, *state);
    assert_string_equal(kiln_status_text(st), "--listen: not now");
    kiln_status_free(st);
    remove_folder(folder);
}

int main(void) {
    unsetenv("KILN_CONFIG");
    unsetenv("KILN_TRACKER");
    const struct CMUnitTest tests[] = {
        test_with_arena(the_strongest_source_gives_the_value),
        test_with_arena(given_options_are_those_of_all_sources),
        test_with_arena(a_wrong_value_is_an_error_even_where_a_stronger_one_counts),
        test_with_arena(the_log_is_as_loud_as_the_strongest_source_says),
        test_with_arena(a_value_that_is_wrong_later_is_blamed_on_its_place),
    };
    return cmocka_run_group_tests_name("base/program/program", tests, NULL, NULL);
}
