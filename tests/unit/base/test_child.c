#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "tests/support/test.h"

/* What the mortal child of process 1 ends with, and those that could not start it. */
enum { LIVED = 7, NO_CHILD, NO_NAMESPACE };

static kiln_child start_script(const char *script, kiln_child_options options) {
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    kiln_child child = {.in_fd = -1, .out_fd = -1};
    options.argv = argv;
    expect_ok(kiln_child_start(&options, &child));
    assert_true(child.pid > 0);
    return child;
}

/* What the child writes until it closes its output. */
static size_t read_all(int fd, char *out, size_t size) {
    size_t got = 0;
    for (;;) {
        struct pollfd watched = {fd, POLLIN, 0};
        poll(&watched, 1, -1);
        ssize_t n = read(fd, out + got, size - 1 - got);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) break;
        got += (size_t)n;
    }
    out[got] = '\0';
    return got;
}

static void pipes_join_us_and_the_exit_code_comes_back(void **state) {
    (void)state;
    const char *extra[] = {"KILN_CHILD_TEST=there", NULL};
    kiln_child child =
        start_script("read line; echo $line $KILN_CHILD_TEST; exit 3",
                     (kiln_child_options){.pipe_in = true, .pipe_out = true, .env_extra = extra});
    char text[100];
    assert_int_equal(write(child.in_fd, "hello\n", 6), 6);
    read_all(child.out_fd, text, sizeof text);
    assert_string_equal(text, "hello there\n");
    kiln_child_exit how = kiln_child_wait(&child);
    assert_int_equal(how.code, 3);
    assert_int_equal(how.signal, 0);
    kiln_child_destroy(&child);
    assert_int_equal(child.in_fd, -1);
}

static void a_socket_as_input_carries_messages_both_ways(void **state) {
    (void)state;
    kiln_child child = start_script("cat <&0 >&0", (kiln_child_options){.socket_in = true});
    char text[100] = "";
    assert_int_equal(send(child.in_fd, "message", 7, 0), 7);
    struct pollfd watched = {child.in_fd, POLLIN, 0};
    poll(&watched, 1, -1);
    assert_int_equal(recv(child.in_fd, text, sizeof text, 0), 7);
    assert_string_equal(text, "message");
    kiln_child_destroy(&child);
}

static void stopping_and_destroying_end_the_child(void **state) {
    (void)state;
    kiln_child child =
        start_script("echo ready; exec sleep 1000", (kiln_child_options){.pipe_out = true});
    kiln_child_exit how;
    char ready[8];
    struct pollfd watched = {child.out_fd, POLLIN, 0};
    poll(&watched, 1, -1);
    assert_int_equal(read(child.out_fd, ready, sizeof ready), 6);
    assert_false(kiln_child_ended(&child, &how));
    kiln_child_stop(&child);
    how = kiln_child_wait(&child);
    assert_int_equal(how.code, -1);
    assert_int_equal(how.signal, SIGTERM);
    kiln_child_destroy(&child);

    child = start_script("trap '' TERM; sleep 1000", (kiln_child_options){0});
    pid_t group = child.pid;
    kiln_child_destroy(&child);
    assert_int_equal(child.pid, 0);
    kiln_child_destroy(&child);            /* a second time does nothing */
    while (kill(-group, 0) == 0) continue; /* the killed group is reaped by init */
    assert_int_equal(errno, ESRCH);
}

static void a_program_that_cannot_start_is_an_error(void **state) {
    (void)state;
    const char *missing[] = {"/nowhere/program", NULL}, *folder[] = {"/tmp", NULL};
    kiln_child child;
    expect_error(kiln_child_start(&(kiln_child_options){.argv = missing, .pipe_in = true}, &child),
                 NOT_FOUND, "/nowhere/program");
    expect_error(kiln_child_start(&(kiln_child_options){.argv = folder, .pipe_out = true}, &child),
                 PERMISSION_DENIED, "/tmp");
}

static void errors_are_appended_to_their_file(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena), *path = kiln_arena_printf(arena, "%s/log", folder);
    for (int i = 0; i < 2; i++) {
        kiln_child child = start_script("echo line >&2", (kiln_child_options){.error_path = path});
        kiln_child_wait(&child);
        kiln_child_destroy(&child);
    }
    kiln_str text;
    expect_ok(kiln_file_read(path, 100, arena, &text));
    expect_str(text, "line\nline\n");
    remove_folder(folder);
}

/* A mortal child of a process that is the first of its namespace, as the program of a container is.
 * Ends as that child does. */
static void be_the_first(void) {
    const char *const argv[] = {"/proc/self/exe", "--mortal", NULL};
    kiln_child child;
    kiln_status st = kiln_child_start(&(kiln_child_options){.argv = argv}, &child);
    _exit(st || getpid() != 1 ? NO_CHILD : kiln_child_wait(&child).code);
}

static void enter_namespace(void) {
    int status = 0;
    if (unshare(CLONE_NEWPID | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0) _exit(NO_NAMESPACE);
    pid_t first = fork();
    if (first == 0) be_the_first();
    if (first < 0 || waitpid(first, &status, 0) != first) _exit(NO_NAMESPACE);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : NO_CHILD);
}

static void a_parent_may_be_process_1(void **state) {
    (void)state;
    if (KILN_SANITIZED_THREAD) skip_because("the sanitizer of threads allows no fork");
    int status = 0;
    pid_t process = fork();
    if (process == 0) enter_namespace();
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_NAMESPACE)
        skip_because("this machine allows no namespace of processes");
    assert_int_equal(WEXITSTATUS(status), LIVED);
}

static void *give_way(void *context) {
    kiln_child_give_way();
    *(int *)context = getpriority(PRIO_PROCESS, 0);
    return NULL;
}

static void a_thread_gives_way_and_the_others_do_not(void **state) {
    (void)state;
    int before = getpriority(PRIO_PROCESS, 0), inside = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, give_way, &inside), 0);
    pthread_join(thread, NULL);
    assert_int_equal(inside, 19);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
}

/* Starts a child that would go on, says so by a byte, and is killed. */
static void start_and_be_killed(int said) {
    static const char *const argv[] = {ENDS_WITH_US, "sh", "-c", "echo; exec sleep 1000", NULL};
    kiln_child child = {0};
    char byte;
    expect_ok(kiln_child_start(&(kiln_child_options){.argv = argv, .pipe_out = true}, &child));
    fcntl(child.out_fd, F_SETFL, 0);
    KILN_CHECK(read(child.out_fd, &byte, 1) == 1 && write(said, "", 1) == 1);
    kill(getpid(), SIGKILL);
}

/* Both hold the pipe: it ends with the last of them. */
static void what_ends_with_us_is_gone_when_we_are_killed(void **state) {
    (void)state;
    int ends[2], how;
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        start_and_be_killed(ends[1]);
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    close(ends[0]);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--mortal") == 0) {
        kiln_child_die_with_parent();
        _exit(LIVED); /* a leak checker would look into the /proc of another namespace */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipes_join_us_and_the_exit_code_comes_back),
        cmocka_unit_test(a_socket_as_input_carries_messages_both_ways),
        cmocka_unit_test(stopping_and_destroying_end_the_child),
        cmocka_unit_test(a_parent_may_be_process_1),
        cmocka_unit_test(a_thread_gives_way_and_the_others_do_not),
        cmocka_unit_test(what_ends_with_us_is_gone_when_we_are_killed),
        cmocka_unit_test(a_program_that_cannot_start_is_an_error),
        test_with_arena(errors_are_appended_to_their_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
