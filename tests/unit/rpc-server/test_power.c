#include "rpc-server/power.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "tests/support/test.h"

typedef struct fixture {
    kiln_arena arena;
    kiln_loop *loop;
    char *folder;
} fixture;

static kiln_helper *the_helper;
static const char *the_program;

/* A helper that knows this command. */
static kiln_power *create(fixture *f, const char *command, uint64_t limit_ns) {
    const kiln_helper_options options = {.program = the_program, .power = command, .board = "desk"};
    expect_ok(kiln_helper_open(&options, &the_helper));
    return kiln_power_create(f->loop, the_helper, limit_ns);
}

static void destroy(kiln_power *power) {
    kiln_power_destroy(power);
    kiln_helper_close(the_helper);
}

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-power-test", &f->arena, &f->folder));
    expect_ok(kiln_loop_create(&f->loop));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_loop_destroy(f->loop);
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
    return 0;
}

static void run_to_end(fixture *f, kiln_power *power) {
    while (kiln_power_is_busy(power)) kiln_loop_run_once(f->loop);
}

static void the_command_hears_which_board_and_why(void **state) {
    fixture *f = *state;
    const char *said = kiln_arena_printf(&f->arena, "%s/said", f->folder);
    const char *command = kiln_arena_printf(&f->arena, "echo $KILN_BOARD: $KILN_REASON > %s", said);
    kiln_power *power = create(f, command, KILN_POWER_LIMIT_NS);
    kiln_power_cycle(power, "it hangs");
    assert_true(kiln_power_is_busy(power));
    run_to_end(f, power);
    kiln_str text;
    expect_ok(kiln_file_read(said, 100, &f->arena, &text));
    expect_str(text, "desk: it hangs\n");
    destroy(power);
}

static void a_command_that_hangs_is_killed(void **state) {
    fixture *f = *state;
    kiln_power *power = create(f, "sleep 1000 & wait", 1000000);
    kiln_power_cycle(power, "it hangs");
    kiln_power_cycle(power, "it hangs"); /* one at a time */
    run_to_end(f, power);
    kiln_power_cycle(power, "it hangs again");
    destroy(power); /* also while it runs */
}

/* Of the helper: alive or not yet reaped. */
static bool have_children(fixture *f) {
    kiln_str text;
    const int pid = kiln_helper_pid(the_helper);
    expect_ok(kiln_file_read_system(
        kiln_arena_printf(&f->arena, "/proc/%d/task/%d/children", pid, pid), &f->arena, &text));
    return text.size > 0;
}

static void what_a_command_leaves_behind_is_killed_and_reaped(void **state) {
    fixture *f = *state;
    kiln_power *power = create(f, "sleep 1000 & exit 0", KILN_POWER_LIMIT_NS);
    kiln_power_cycle(power, "it hangs");
    run_to_end(f, power);
    assert_false(have_children(f));
    destroy(power);
}

static void without_a_command_nothing_happens(void **state) {
    fixture *f = *state;
    kiln_power *power = create(f, NULL, KILN_POWER_LIMIT_NS);
    kiln_power_cycle(power, "it hangs");
    assert_false(kiln_power_is_busy(power));
    destroy(power);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void a_command_sees_nothing_of_our_environment(void **state) {
    fixture *f = *state;
    const char *said = kiln_arena_printf(&f->arena, "%s/said", f->folder);
    assert_int_equal(setenv("DB_PASSWORD", "hunter2", 1), 0);
    kiln_power *power = create(f, kiln_arena_printf(&f->arena, "env > %s && command -v env", said),
                               KILN_POWER_LIMIT_NS);
    kiln_power_cycle(power, "two\nlines");
    run_to_end(f, power);
    kiln_str text;
    expect_ok(kiln_file_read(said, 4096, &f->arena, &text));
    const char *all = kiln_str_dup(&f->arena, text);
    assert_null(strstr(all, "hunter2"));
    assert_non_null(strstr(all, "KILN_REASON=two lines\n"));
    destroy(power);
}

int main(int argc, char **argv) {
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    the_program = argv[0];
    const struct CMUnitTest tests[] = {
        TEST(the_command_hears_which_board_and_why),
        TEST(a_command_that_hangs_is_killed),
        TEST(what_a_command_leaves_behind_is_killed_and_reaped),
        TEST(without_a_command_nothing_happens),
        TEST(a_command_sees_nothing_of_our_environment),
    };
    return cmocka_run_group_tests_name("rpc-server/power", tests, NULL, NULL);
}
