#include "base/opt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macros.h"
#include "tests/support/test.h"

typedef struct options {
    bool json;
    const char *db;
    uint64_t trials;
    double seconds;
    kiln_opt_list listen;
    kiln_args args;
} options;

/* Parses a blank-separated command line. */
static kiln_status parse(kiln_arena *arena, const char *line, options *out) {
    *out = (options){.db = "default.db", .trials = 32};
    const kiln_opt option[] = {
        {"json", KILN_OPT_FLAG, &out->json, NULL, "Prints JSON."},
        {"db|$KILN_TEST_DB", KILN_OPT_TEXT, &out->db, "PATH", "The database."},
        {"trials|n", KILN_OPT_COUNT, &out->trials, "N", "Measurements."},
        {"seconds", KILN_OPT_NUMBER, &out->seconds, "S", "Time."},
        {"listen", KILN_OPT_LIST, &out->listen, "ADDR", "Addresses."},
    };
    const kiln_opt_table table = {"kiln test FILE...",      "Tests.", option,
                                  KILN_ARRAY_COUNT(option), 1,        2};
    char *argv[20] = {(char *)(uintptr_t)"kiln"};
    int argc = 1;
    kiln_str rest = kiln_str_from(line);
    while (rest.size) argv[argc++] = kiln_str_dup(arena, kiln_str_cut(&rest, ' '));
    return kiln_opt_parse(&table, argc, argv, arena, &out->args);
}

static void every_kind_is_parsed_in_both_spellings(void **state) {
    options o;
    expect_ok(
        parse(*state, "a --json --db x.db --trials=7 --seconds 1.5 --listen u --listen=v b", &o));
    assert_true(o.json);
    assert_string_equal(o.db, "x.db");
    assert_int_equal(o.trials, 7);
    assert_true(o.seconds == 1.5);
    assert_int_equal(o.listen.count, 2);
    assert_string_equal(o.listen.item[0], "u");
    assert_string_equal(o.listen.item[1], "v");
    assert_int_equal(o.args.count, 2);
    assert_string_equal(o.args.positional[1], "b");
    expect_ok(parse(*state, "a --json --json=no", &o));
    assert_false(o.json);
    expect_ok(parse(*state, "a --json=no --json=on", &o));
    assert_true(o.json);
    expect_ok(parse(*state, "a -n 9 --db=", &o));
    assert_int_equal(o.trials, 9);
    assert_string_equal(o.db, "");
}

static void options_are_listed_as_they_were_given(void **state) {
    static const kiln_opt_given expected[] = {
        {"n", "9"}, {"json", NULL}, {"listen", "u=1"}, {"listen", "v"}, {"db", ""}};
    options o;
    expect_ok(parse(*state, "a -n 9 --json --listen u=1 --listen=v --db= -- --json", &o));
    assert_int_equal(o.args.given.count, KILN_ARRAY_COUNT(expected));
    for (uint32_t i = 0; i < o.args.given.count; i++) {
        assert_string_equal(o.args.given.data[i].name, expected[i].name);
        if (expected[i].value)
            assert_string_equal(o.args.given.data[i].value, expected[i].value);
        else
            assert_null(o.args.given.data[i].value);
    }
}

static void defaults_stay_and_two_dashes_end_options(void **state) {
    options o;
    expect_ok(parse(*state, "-- --json -", &o));
    assert_false(o.json);
    assert_string_equal(o.db, "default.db");
    assert_int_equal(o.trials, 32);
    assert_string_equal(o.args.positional[0], "--json");
    assert_string_equal(o.args.positional[1], "-");
}

static void bad_command_lines_are_refused_with_what_to_do(void **state) {
    static const struct {
        const char *line, *complaint;
    } row[] = {
        {"", "usage: kiln test FILE..."},
        {"a b c", "unexpected argument 'c'"},
        {"a --trails 3", "did you mean --trials?"},
        {"a --xyzzyxyzzy", "--help lists the options"},
        {"a --trials", "wants a value N"},
        {"a --trials x", "wants a whole number, not 'x'"},
        {"a --trials -1", "wants a whole number"},
        {"a --trials 99999999999999999999", "wants a whole number"},
        {"a --seconds nan", "wants a number"},
        {"a --json=1", "takes no value but yes or no, not '1'"},
        {"a --json=", "takes no value but yes or no, not ''"},
        {"a -x", "unknown option"},
        {"a --$KILN_TEST_DB x", "unknown option"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        options o;
        expect_error_at(parse(*state, row[i].line, &o), KILN_INVALID_ARGUMENT, row[i].complaint,
                        row[i].line, (int)i);
    }
}

/* As a request says them, which has no command line. */
static void single_options_are_set_by_name(void **state) {
    static const struct {
        kiln_opt_given given;
        const char *complaint; /* NULL: it is right */
    } row[] = {
        {{"n", "9"}, NULL},
        {{"json", NULL}, NULL},
        {{"listen", "a=b"}, NULL},
        {{"trails", "9"}, "unknown option --trails; did you mean --trials?"},
        {{"help", NULL}, "unknown option --help"},
        {{"json", "1"}, "--json takes no value"},
        {{"trials", NULL}, "--trials wants a value N"},
        {{"trials", "x"}, "--trials wants a whole number, not 'x'"},
        {{"job", "nightly 7"}, NULL},
        {{"job", "a\nb"}, "--job \"a\\x0ab\" has line ends or characters that are not printable"},
    };
    const char *job = NULL;
    uint64_t trials = 0;
    bool json = false;
    kiln_opt_list listen = {0};
    const kiln_opt option[] = {{"trials|n", KILN_OPT_COUNT, &trials, "N", ""},
                               {"json", KILN_OPT_FLAG, &json, NULL, ""},
                               {"job", KILN_OPT_LINE, &job, "NAME", ""},
                               {"listen", KILN_OPT_LIST, &listen, "ADDR", ""}};
    const kiln_opt_table table = {.option = option, .option_count = KILN_ARRAY_COUNT(option)};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_status st = kiln_opt_set(&table, &row[i].given, *state);
        if (row[i].complaint)
            expect_error(st, INVALID_ARGUMENT, row[i].complaint);
        else
            expect_ok(st);
    }
    assert_int_equal(trials, 9);
    assert_true(json);
    assert_int_equal(listen.count, 1);
    assert_string_equal(listen.item[0], "a=b");
}

static void help_wins_and_lists_every_option(void **state) {
    options o;
    expect_ok(parse(*state, "a b c --help --trials x", &o) /* c is counted only at the end */);
    assert_true(o.args.help);
    uint64_t n = 0;
    const kiln_opt option[] = {{"trials|n", KILN_OPT_COUNT, &n, "N", "Measures at most N times."}};
    const kiln_opt_table table = {"kiln tune MODEL", "Tunes.", option, 1, 0, 1};
    kiln_strbuf help = {0};
    kiln_opt_print_help(&table, &help);
    assert_string_equal(help.data, "usage: kiln tune MODEL\n\nTunes.\n\noptions:\n"
                                   "  --trials, -n N          Measures at most N times.\n"
                                   "  --help, -h              Prints this and ends.\n");
    kiln_strbuf_deinit(&help);
}

static void an_option_knows_its_names_and_its_variable(void **state) {
    const kiln_opt option[] = {{"output|o|$KILN_TEST_OUT", KILN_OPT_TEXT, NULL, "F", "Writes F."},
                               {"trials|n", KILN_OPT_COUNT, NULL, "N", "Measures."}};
    const kiln_opt_table table = {"kiln x", "X.", option, KILN_ARRAY_COUNT(option), 0, 0};
    const char *value = "";
    expect_str(kiln_opt_name(&option[0]), "output");
    assert_ptr_equal(kiln_opt_find(&table, KILN_STR("o")), &option[0]);
    assert_null(kiln_opt_find(&table, KILN_STR("$KILN_TEST_OUT")));
    unsetenv("KILN_TEST_OUT");
    assert_string_equal(kiln_opt_variable(&option[0], *state, &value), "KILN_TEST_OUT");
    assert_null(value);
    setenv("KILN_TEST_OUT", "here", 1);
    assert_non_null(kiln_opt_variable(&option[0], *state, &value));
    assert_string_equal(value, "here");
    assert_null(kiln_opt_variable(&option[1], *state, &value));
    kiln_strbuf help = {0};
    kiln_opt_print_help(&table, &help);
    expect_contains(help.data, "  --output, -o F          Writes F.\n");
    kiln_strbuf_deinit(&help);
}

static void the_nearest_name_is_found_where_one_is_near(void **state) {
    static const struct {
        const char *typed, *found;
    } row[] = {{"tnue", "tune"}, {"run", "run"}, {"fleeet", "fleet"}, {"xyzzy", ""}, {"x", ""}};
    static const char *const name[] = {"fleet", "tune", "run"};
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_nearest nearest = kiln_nearest_to(kiln_str_from(row[i].typed));
        for (size_t k = 0; k < KILN_ARRAY_COUNT(name); k++)
            kiln_nearest_try(&nearest, kiln_str_from(name[k]));
        expect_str(nearest.found, row[i].found);
    }
}

static void home_is_made_private_where_it_is_named(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena), *home = NULL;
    struct stat info;
    setenv("KILN_HOME", kiln_arena_printf(arena, "%s/a/b", folder), 1);
    expect_ok(kiln_home(arena, &home));
    assert_int_equal(stat(home, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    setenv("KILN_HOME", "", 1);
    assert_null(kiln_env("KILN_HOME"));
    setenv("HOME", folder, 1);
    expect_ok(kiln_home(arena, &home));
    expect_contains(home, "/.local/state/kiln");
    assert_true(kiln_file_is_folder(home));
    unsetenv("HOME");
    expect_error(kiln_home(arena, &home), FAILED_PRECONDITION, "KILN_HOME");
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_kind_is_parsed_in_both_spellings),
        test_with_arena(options_are_listed_as_they_were_given),
        test_with_arena(defaults_stay_and_two_dashes_end_options),
        test_with_arena(bad_command_lines_are_refused_with_what_to_do),
        test_with_arena(single_options_are_set_by_name),
        test_with_arena(help_wins_and_lists_every_option),
        test_with_arena(an_option_knows_its_names_and_its_variable),
        test_with_arena(the_nearest_name_is_found_where_one_is_near),
        test_with_arena(home_is_made_private_where_it_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
