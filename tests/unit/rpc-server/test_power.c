#include "rpc-server/power.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/file.h"
#include "tests/support/test.h"

typedef struct fixture {
    kiln_arena arena;
    kiln_loop *loop;
    char *folder;
} fixture;

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
    kiln_power *power = kiln_power_create(f->loop, command, "desk", KILN_POWER_LIMIT_NS);
    kiln_power_cycle(power, "it hangs");
    assert_true(kiln_power_is_busy(power));
    run_to_end(f, power);
    kiln_str text;
    expect_ok(kiln_file_read(said, 100, &f->arena, &text));
    expect_str(text, "desk: it hangs\n");
    kiln_power_destroy(power);
}

static void a_command_that_hangs_is_killed(void **state) {
    fixture *f = *state;
    kiln_power *power = kiln_power_create(f->loop, "sleep 1000 & wait", "desk", 1000000);
    kiln_power_cycle(power, "it hangs");
    kiln_power_cycle(power, "it hangs"); /* one at a time */
    run_to_end(f, power);
    kiln_power_cycle(power, "it hangs again");
    kiln_power_destroy(power); /* also while it runs */
}

/* Alive or not yet reaped. */
static bool have_children(void) {
    siginfo_t ignored;
    return waitid(P_ALL, 0, &ignored, WEXITED | WNOWAIT | WNOHANG) == 0;
}

static void what_a_command_leaves_behind_is_killed_and_reaped(void **state) {
    fixture *f = *state;
    /* As the server is (rpc-server/ward.h). */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    kiln_power *power =
        kiln_power_create(f->loop, "sleep 1000 & exit 0", "desk", KILN_POWER_LIMIT_NS);
    kiln_power_cycle(power, "it hangs");
    for (bool more = true; have_children(); more = kiln_loop_run_once(f->loop)) assert_true(more);
    assert_int_equal(errno, ECHILD);
    assert_false(kiln_power_is_busy(power));
    kiln_power_destroy(power);
}

static void without_a_command_nothing_happens(void **state) {
    fixture *f = *state;
    kiln_power *power = kiln_power_create(f->loop, NULL, "desk", KILN_POWER_LIMIT_NS);
    kiln_power_cycle(power, "it hangs");
    assert_false(kiln_power_is_busy(power));
    kiln_power_destroy(power);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_command_hears_which_board_and_why),
        TEST(a_command_that_hangs_is_killed),
        TEST(what_a_command_leaves_behind_is_killed_and_reaped),
        TEST(without_a_command_nothing_happens),
    };
    return cmocka_run_group_tests_name("rpc-server/power", tests, NULL, NULL);
}
