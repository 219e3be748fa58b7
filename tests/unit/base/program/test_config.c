/* What configuration files say of a program's options, without a program. */
#include "base/program/config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"

static const char *const commands[] = {"tune", "fleet", "vta search", NULL};
static const char *const shared[] = {"tracker|$KILN_TRACKER", "json", NULL};
static const kiln_executable kiln_tune = {
    .name = "kiln", .command = "tune", .commands = commands, .shared = shared};
static const kiln_executable daemon_program = {.name = "kiln-tracker"};

/* Reads a file of that content and writes down what it says, as "name=value@source:line ". */
static kiln_status read_text(kiln_arena *arena, const kiln_executable *program, const char *text,
                             const char **out) {
    char *folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/config", folder);
    const kiln_config_file file = {path, KILN_SOURCE_USER, true};
    uint64_t trials = 0;
    bool json = false;
    const char *tracker = NULL;
    kiln_opt_list listen = {0};
    const kiln_opt option[] = {{"trials", KILN_OPT_COUNT, &trials, "N", ""},
                               {"json", KILN_OPT_FLAG, &json, NULL, ""},
                               {"tracker", KILN_OPT_TEXT, &tracker, "ADDR", ""},
                               {"listen|l", KILN_OPT_LIST, &listen, "ADDR", ""}};
    const kiln_opt_table table = {"", "", option, KILN_ARRAY_COUNT(option), 0, 0};
    kiln_value_list values = {0};
    kiln_strbuf found = {0};
    expect_ok(kiln_file_write(path, kiln_str_from(text), 0600));
    kiln_status st = kiln_config_read(&file, program, &table, arena, &values);
    for (uint32_t i = 0; i < values.count; i++) {
        const kiln_value *v = &values.data[i];
        kiln_strbuf_printf(&found, "%s=%s@%u:%s ", v->given.name, v->given.value, v->source,
                           strrchr(v->place, ':') + 1);
    }
    if (out) *out = kiln_strbuf_end(&found, arena).data;
    kiln_strbuf_deinit(&found);
    remove_folder(folder);
    return st;
}

static void own_and_shared_sections_count_and_others_are_passed_over(void **state) {
    const char *found = NULL;
    expect_ok(read_text(*state, &kiln_tune,
                        "[kiln]\njson = yes\n[kiln tune]\ntrials = 9\nlisten = a\nl = b\n"
                        "[kiln fleet]\nwhatever = 1\n[kiln-tracker]\nlisten = 1\n"
                        "[kiln vta search]\nlut = 1\n",
                        &found));
    /* 3: the user's file, section of all commands; 4: of this one. */
    assert_string_equal(found, "json=yes@3:2 trials=9@4:4 listen=a@4:5 l=b@4:6 ");
    /* The program without commands does not know those of kiln. */
    expect_ok(read_text(*state, &daemon_program,
                        "[kiln]\njson = 1\n[kiln tnue]\nx = 1\n[kiln-tracker]\nlisten = c\n",
                        &found));
    assert_string_equal(found, "listen=c@4:6 ");
}

/* The table's --tracker is not the one that has a variable, so it is another one. */
static void a_shared_option_is_for_options_that_are_written_as_it(void **state) {
    const char *found = NULL;
    expect_ok(read_text(*state, &kiln_tune, "[kiln]\ntracker = a:1\n", &found));
    assert_string_equal(found, "");
    expect_ok(read_text(*state, &kiln_tune, "[kiln tune]\ntracker = a:1\n", &found));
    assert_string_equal(found, "tracker=a:1@4:2 ");
}

static void each_mistake_is_an_error_with_its_line(void **state) {
    static const struct {
        const kiln_executable *program;
        const char *text, *complaint;
    } row[] = {
        {&kiln_tune, "[kiln tune]\n\ntrails = 3\n",
         "/config:3: unknown option --trails; did you mean --trials?"},
        {&kiln_tune, "[kiln]\ntrials = 3\n", "(tracker, json); 'trials' goes into the section"},
        {&kiln_tune, "[kiln tnue]\ntrials = 3\n", "did you mean [kiln tune]?"},
        {&kiln_tune, "[kiln vta]\nx = 3\n", "/config:2: there is no section [kiln vta]"},
        {&kiln_tune, "[kiln-trackr]\nx = 3\n", "did you mean [kiln-tracker]?"},
        {&kiln_tune, "[something else]\nx = 3\n", "sections are named after programs"},
        {&daemon_program, "[kiln-trackr]\nx = 3\n", "did you mean [kiln-tracker]?"},
        {&daemon_program, "[kilm tune]\nx = 3\n", "there is no section [kilm tune]"},
        {&kiln_tune, "trials = 3\n", "/config:1: 'trials' stands before any [section]"},
        {&kiln_tune, "[kiln tune]\ntrials = 3\njson = no\ntrials = 3\n",
         "/config:4: 'trials' is set already, at"},
        {&kiln_tune, "[kiln tune]\nconfig = x\n", "--config is for command lines alone"},
        {&daemon_program, "[kiln-tracker]\nwith-parent = yes\n", "for command lines alone"},
        {&kiln_tune, "[kiln tune]\ntrials\n", "/config:2: this is neither"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_error(read_text(*state, row[i].program, row[i].text, NULL), INVALID_ARGUMENT,
                     row[i].complaint);
}

static void files_are_the_machines_and_the_users_or_the_named_one(void **state) {
    kiln_config_file file[KILN_CONFIG_FILES_MAX];
    setenv("XDG_CONFIG_HOME", "/x", 1);
    setenv("HOME", "/h", 1);
    assert_int_equal(kiln_config_files(NULL, *state, file), 2);
    assert_string_equal(file[0].path, "/etc/kiln/config");
    assert_int_equal(file[0].source, KILN_SOURCE_MACHINE);
    assert_false(file[0].is_named);
    assert_string_equal(file[1].path, "/x/kiln/config");
    unsetenv("XDG_CONFIG_HOME");
    assert_int_equal(kiln_config_files(NULL, *state, file), 2);
    assert_string_equal(file[1].path, "/h/.config/kiln/config");
    assert_int_equal(file[1].source, KILN_SOURCE_USER);
    unsetenv("HOME");
    assert_int_equal(kiln_config_files(NULL, *state, file), 1);
    assert_int_equal(kiln_config_files("none", *state, file), 0);
    assert_int_equal(kiln_config_files("/n", *state, file), 1);
    assert_string_equal(file[0].path, "/n");
    assert_true(file[0].is_named);
}

static void a_file_that_is_not_there_is_an_error_only_where_it_is_named(void **state) {
    const kiln_opt_table table = {0};
    kiln_value_list values = {0};
    kiln_config_file file = {"/nowhere/config", KILN_SOURCE_USER, false};
    expect_ok(kiln_config_read(&file, &kiln_tune, &table, *state, &values));
    assert_int_equal(values.count, 0);
    file.is_named = true;
    expect_error(kiln_config_read(&file, &kiln_tune, &table, *state, &values), NOT_FOUND,
                 "/nowhere/config");
}

static void a_file_that_others_may_write_is_refused(void **state) {
    char *folder = make_folder(*state);
    const char *path = kiln_arena_printf(*state, "%s/config", folder);
    const kiln_opt_table table = {0};
    const kiln_config_file file = {path, KILN_SOURCE_USER, false};
    kiln_value_list values = {0};
    expect_ok(kiln_file_write(path, KILN_STR("[kiln]\njson = yes\n"), 0600));
    expect_ok(kiln_config_read(&file, &kiln_tune, &table, *state, &values));
    assert_int_equal(chmod(path, 0602), 0);
    expect_error(kiln_config_read(&file, &kiln_tune, &table, *state, &values), PERMISSION_DENIED,
                 "everybody may write it");
    assert_int_equal(chmod(path, 0600), 0);
    if (chown(path, 65534, (gid_t)-1) == 0) /* only root can, and not in every container */
        expect_error(kiln_config_read(&file, &kiln_tune, &table, *state, &values),
                     PERMISSION_DENIED, "it belongs to user 65534, neither to root nor to you");
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(own_and_shared_sections_count_and_others_are_passed_over),
        test_with_arena(a_shared_option_is_for_options_that_are_written_as_it),
        test_with_arena(each_mistake_is_an_error_with_its_line),
        test_with_arena(files_are_the_machines_and_the_users_or_the_named_one),
        test_with_arena(a_file_that_is_not_there_is_an_error_only_where_it_is_named),
        test_with_arena(a_file_that_others_may_write_is_refused),
    };
    return cmocka_run_group_tests_name("base/program/config", tests, NULL, NULL);
}
