/* Processes that are copies of one. This program is its own zygote (`--children`). */
#include "rpc-server/zygote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "tests/support/test.h"

#define GRACE_MS 60000

extern char **environ;

static const char *the_program;

/* A child says what it was told and ends with the code that it is sent, or when its caller is gone.
 */
typedef struct introduction {
    pid_t own; /* as it sees itself */
    bool grouped;
    uint32_t variables; /* of its environment */
} introduction;

KILN_NORETURN static void live(bool grouped) {
    introduction own = {getpid(), grouped, 0};
    while (environ[own.variables]) own.variables++;
    char code = 0;
    if (send(STDIN_FILENO, &own, sizeof own, 0) != sizeof own) _exit(99);
    if (recv(STDIN_FILENO, &code, 1, 0) != 1) _exit(98);
    _exit(code);
}

static introduction meet(const kiln_child *child) {
    introduction own = {0};
    struct pollfd ready = {.fd = child->in_fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, GRACE_MS), 1);
    assert_int_equal(recv(child->in_fd, &own, sizeof own, 0), sizeof own);
    return own;
}

static int end_with(kiln_child *child, char code) {
    assert_int_equal(send(child->in_fd, &code, 1, MSG_NOSIGNAL), 1);
    return kiln_child_wait(child).code;
}

static int set_up(void **state) {
    static kiln_zygote zygote;
    expect_ok(kiln_zygote_open(&zygote, the_program));
    *state = &zygote;
    return 0;
}

static int tear_down(void **state) {
    kiln_zygote_close(*state);
    return 0;
}

/* With a socket to it. */
static kiln_status start_copy(const kiln_zygote *zygote, const char *cgroup,
                              kiln_child *out_child) {
    int end[2];
    pid_t pid = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end), 0);
    kiln_status st = kiln_zygote_start(zygote, NULL, cgroup, end[0], &pid);
    close(end[0]);
    if (st)
        close(end[1]);
    else
        *out_child = (kiln_child){.pid = pid, .in_fd = end[1], .out_fd = -1, .error_fd = -1};
    return st;
}

static void start(const kiln_zygote *zygote, kiln_child *out_child) {
    if (!kiln_zygote_is_allowed()) skip_because("sanitizers allow no copies of processes");
    kiln_status st = start_copy(zygote, NULL, out_child);
    const kiln_code code = kiln_status_code(st);
    if (code != KILN_PERMISSION_DENIED && code != KILN_UNIMPLEMENTED) {
        expect_ok(st);
        return;
    }
    kiln_status_free(st);
    skip_because("this machine allows no copies of processes");
}

static void a_copy_is_our_own_child_in_a_group_of_its_own(void **state) {
    kiln_child child;
    start(*state, &child);
    const introduction own = meet(&child);
    assert_true(own.own == child.pid || own.own == 1); /* of a namespace of its own, for root */
    assert_false(own.grouped);
    assert_int_equal(own.variables, 0); /* whatever ours has */
    assert_int_equal(getpgid(child.pid), child.pid);
    assert_int_equal(end_with(&child, 7), 7); /* and we are told how it ended */
    kiln_child_destroy(&child);
}

static void copies_have_sockets_of_their_own(void **state) {
    kiln_child first, second;
    start(*state, &first);
    start(*state, &second);
    meet(&second);
    meet(&first);
    assert_int_equal(end_with(&first, 1), 1);
    assert_int_equal(end_with(&second, 2), 2);
    kiln_child_destroy(&first);
    kiln_child_destroy(&second);
}

static void copies_outlive_what_they_are_copies_of(void **state) {
    kiln_child child;
    start(*state, &child);
    kiln_zygote_close(*state);
    meet(&child);
    assert_int_equal(end_with(&child, 3), 3);
    kiln_child_destroy(&child);
}

static void a_group_that_is_not_there_is_an_error_and_no_child(void **state) {
    kiln_child child = {0};
    start(*state, &child);
    assert_int_equal(end_with(&child, 0), 0);
    kiln_child_destroy(&child);
    expect_error(start_copy(*state, "/no/such/group", &child), NOT_FOUND, "/no/such/group");
    /* What is no group at all is refused by the machine itself. */
    expect_error(start_copy(*state, "/tmp", &child), INVALID_ARGUMENT, "starting");
    start(*state, &child); /* it still answers */
    assert_int_equal(end_with(&child, 0), 0);
    kiln_child_destroy(&child);
}

static void a_request_to_end_is_no_matter_of_its(void **state) {
    const kiln_zygote *zygote = *state;
    kiln_child child;
    start(zygote, &child); /* it has begun to serve */
    assert_int_equal(kill(zygote->process.pid, SIGTERM), 0);
    assert_int_equal(kill(child.pid, SIGTERM), 0);
    assert_int_equal(end_with(&child, 5), 5);
    kiln_child_destroy(&child);
    start(zygote, &child);
    assert_int_equal(end_with(&child, 6), 6);
    kiln_child_destroy(&child);
}

static void an_end_of_the_zygote_is_noticed(void **state) {
    kiln_zygote *zygote = *state;
    kiln_child child = {0};
    kill(zygote->process.pid, SIGKILL);
    kiln_child_wait(&zygote->process);
    expect_error(start_copy(zygote, NULL, &child), UNAVAILABLE, "has ended");
    assert_int_equal(child.pid, 0);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--children") == 0) live(kiln_zygote_serve().is_grouped);
    the_program = argv[0];
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_copy_is_our_own_child_in_a_group_of_its_own),
        TEST(copies_have_sockets_of_their_own),
        TEST(copies_outlive_what_they_are_copies_of),
        TEST(a_group_that_is_not_there_is_an_error_and_no_child),
        TEST(a_request_to_end_is_no_matter_of_its),
        TEST(an_end_of_the_zygote_is_noticed),
    };
    return cmocka_run_group_tests_name("rpc-server/zygote", tests, NULL, NULL);
}
