/* What root gives up, tried in children of this program; without root there is nothing to give. */
#include "rpc-server/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "rpc-server/sandbox.h"
#include "tests/support/test.h"

#define OTHER 61000u /* nobody's number either */

static const kiln_privilege_user user = {KILN_PRIVILEGE_USER, KILN_PRIVILEGE_USER};

typedef struct fixture {
    kiln_arena arena;
    char *folder;
} fixture;

static int set_up(void **state) {
    static fixture the_fixture;
    kiln_arena_init(&the_fixture.arena, 0);
    expect_ok(
        kiln_folder_create_temp("kiln-privilege-test", &the_fixture.arena, &the_fixture.folder));
    *state = &the_fixture;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
    return 0;
}

static const char *path_of(fixture *f, const char *name) {
    return kiln_arena_printf(&f->arena, "%s/%s", f->folder, name);
}

static void put(fixture *f, const char *name, const char *content) {
    expect_ok(kiln_file_write(path_of(f, name), kiln_str_from(content), 0600));
}

static uid_t owner_of(fixture *f, const char *name) {
    struct stat info;
    assert_int_equal(lstat(path_of(f, name), &info), 0);
    return info.st_uid;
}

static bool is_there(fixture *f, const char *name) {
    struct stat info;
    return lstat(path_of(f, name), &info) == 0;
}

/* ---- Who ---- */

static void expect_user(fixture *f, const char *passwd, uid_t uid, gid_t gid) {
    put(f, "passwd", passwd);
    const kiln_privilege_user found = kiln_privilege_find_user(path_of(f, "passwd"));
    assert_int_equal(found.uid, uid);
    assert_int_equal(found.gid, gid);
}

static void a_user_of_that_name_is_taken_else_a_number_of_nobody(void **state) {
    fixture *f = *state;
    expect_user(f, "root:x:0:0::/:/bin/sh\nkiln:x:990:991::/:/bin/false\n", 990, 991);
    expect_user(f, "kiln:x:990:991::/:\nkiln-board:x:5:6::/:", 5, 6); /* not the tracker's */
    expect_user(f, "root:x:0:0::/:/bin/sh\n", KILN_PRIVILEGE_USER, KILN_PRIVILEGE_USER);
    expect_user(f, "kilns:x:3:3::/:\n", KILN_PRIVILEGE_USER, KILN_PRIVILEGE_USER);
    /* Root under another name, the children's own user, and what is no line. */
    expect_user(f, "kiln:x:0:0::/:\n", KILN_PRIVILEGE_USER, KILN_PRIVILEGE_USER);
    expect_user(f, "kiln:x:65534:7::/:\n", KILN_PRIVILEGE_USER, KILN_PRIVILEGE_USER);
    expect_user(f, "kiln:x:-1:7\nkiln\nkiln:x:4294967295:1", KILN_PRIVILEGE_USER,
                KILN_PRIVILEGE_USER);
    const kiln_privilege_user nobody = kiln_privilege_find_user(path_of(f, "nowhere"));
    assert_int_equal(nobody.uid, KILN_PRIVILEGE_USER);
    assert_int_not_equal(KILN_PRIVILEGE_USER, KILN_SANDBOX_USER);
}

/* ---- The folder ---- */

static void a_folder_of_root_is_taken_over_with_what_is_in_it(void **state) {
    fixture *f = *state;
    if (geteuid() != 0) skip_because("only root has rights to give up");
    expect_ok(kiln_privilege_take_folder(path_of(f, "new/state"), user));
    assert_int_equal(owner_of(f, "new/state"), user.uid);
    assert_int_equal(owner_of(f, "new"), 0);
    expect_ok(kiln_folder_create(path_of(f, "old/blobs/deep"), 0700));
    put(f, "old/node", "n");
    put(f, "old/blobs/deep/blob", "b");
    expect_ok(kiln_privilege_take_folder(path_of(f, "old"), user));
    static const char *const all[] = {"old", "old/node", "old/blobs", "old/blobs/deep",
                                      "old/blobs/deep/blob"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(all); i++)
        assert_int_equal(owner_of(f, all[i]), user.uid);
}

static void no_trick_has_something_else_given_away(void **state) {
    fixture *f = *state;
    if (geteuid() != 0) skip_because("only root has rights to give up");
    expect_ok(kiln_folder_create(path_of(f, "state/inner"), 0700));
    expect_ok(kiln_folder_create(path_of(f, "elsewhere"), 0700));
    put(f, "secret", "s");
    put(f, "elsewhere/secret", "s");
    assert_int_equal(symlink(path_of(f, "secret"), path_of(f, "state/link")), 0);
    assert_int_equal(symlink(path_of(f, "elsewhere"), path_of(f, "state/inner/folder")), 0);
    assert_int_equal(link(path_of(f, "secret"), path_of(f, "state/name")), 0);
    assert_int_equal(mkfifo(path_of(f, "state/pipe"), 0600), 0); /* nobody waits for a writer */
    expect_ok(kiln_privilege_take_folder(path_of(f, "state"), user));
    static const char *const kept[] = {"secret", "elsewhere", "elsewhere/secret"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(kept); i++) assert_int_equal(owner_of(f, kept[i]), 0);
    static const char *const gone[] = {"state/link", "state/inner/folder", "state/name",
                                       "state/pipe"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(gone); i++) assert_false(is_there(f, gone[i]));
    /* The folder itself is a link. */
    assert_int_equal(symlink(path_of(f, "elsewhere"), path_of(f, "also")), 0);
    expect_error(kiln_privilege_take_folder(path_of(f, "also"), user), PERMISSION_DENIED, "also");
    assert_int_equal(owner_of(f, "elsewhere"), 0);
}

static void what_is_the_users_or_somebody_elses_is_not_touched(void **state) {
    fixture *f = *state;
    if (geteuid() != 0) skip_because("only root has rights to give up");
    put(f, "secret", "s");
    expect_ok(kiln_folder_create(path_of(f, "own"), 0700));
    expect_ok(kiln_folder_create(path_of(f, "foreign"), 0700));
    assert_int_equal(link(path_of(f, "secret"), path_of(f, "own/name")), 0);
    assert_int_equal(chown(path_of(f, "own"), user.uid, user.gid), 0);
    assert_int_equal(chown(path_of(f, "foreign"), OTHER, OTHER), 0);
    expect_ok(kiln_privilege_take_folder(path_of(f, "own"), user));
    assert_int_equal(owner_of(f, "secret"), 0);
    expect_error(kiln_privilege_take_folder(path_of(f, "foreign"), user), PERMISSION_DENIED,
                 "belongs to user 61000");
}

static void the_folder_of_a_server_that_runs_is_left_to_it(void **state) {
    fixture *f = *state;
    int lock_fd = -1;
    if (geteuid() != 0) skip_because("only root has rights to give up");
    expect_ok(kiln_folder_create(path_of(f, "state"), 0700));
    expect_ok(kiln_folder_lock(path_of(f, "state"), &lock_fd));
    expect_error(kiln_privilege_take_folder(path_of(f, "state"), user), FAILED_PRECONDITION,
                 "state");
    assert_int_equal(owner_of(f, "state"), 0);
    close(lock_fd);
}

/* ---- Rights ---- */

/* Runs `attempt` in a child that gave up what it has; it ends with 0, or the number of what it
 * could do all the same. */
static void expect_powerless(int (*attempt)(pid_t parent)) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && kiln_privilege_leave_root(user)) _exit(99);
        kiln_privilege_shut(false);
        _exit(attempt(parent));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("status %x", (unsigned)status);
}

static int become_root_again(pid_t parent) {
    (void)parent;
    if (geteuid() == 0) return 1;
    if (setuid(0) == 0 || setgid(0) == 0 || setreuid((uid_t)-1, 0) == 0) return 2;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return 3;
    for (int right = 0; right < 40; right++)
        if (prctl(PR_CAPBSET_READ, right, 0, 0, 0) == 1) return 4;
    return 0;
}

static int look_around(pid_t parent) {
    char path[64], byte;
    static const char *const files[] = {"environ", "mem", "maps"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(files); i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)parent, files[i]);
        const int fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, &byte, 1) > 0) return 10 + (int)i;
    }
    struct iovec here = {&byte, 1}, there = {path, 1};
    if (process_vm_readv(parent, &here, 1, &there, 1, 0) > 0) return 20;
    if (ptrace(PTRACE_ATTACH, parent, NULL, NULL) == 0) return 21;
    if (kill(parent, 0) == 0) return 22;
    return 0;
}

static int get_out(pid_t parent) {
    (void)parent;
    char *const argv[] = {(char *)(uintptr_t)"true", NULL};
    if (unshare(CLONE_NEWUSER) == 0) return 30;
    if (mount("none", "/tmp", "tmpfs", 0, NULL) == 0) return 31;
    if (chroot("/tmp") == 0) return 32;
    execv("/bin/true", argv);
    return errno == EPERM ? 0 : 33;
}

static int trace_a_child(pid_t parent) {
    (void)parent;
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 40 : 0;
}

static int clean_environment(pid_t parent) {
    (void)parent;
    setenv("DB_PASSWORD", "hunter2", 1);
    setenv("KILN_SAID", "so", 1);
    const char *secret = getenv("DB_PASSWORD");
    kiln_privilege_clean_environment();
    if (getenv("DB_PASSWORD") || getenv("PATH")) return 50;
    return secret[0] == 0 && getenv("KILN_SAID") ? 0 : 51;
}

static void the_environment_is_wiped(void **state) {
    (void)state;
    expect_powerless(clean_environment);
}

static void root_is_left_for_ever(void **state) {
    (void)state;
    if (geteuid() != 0) skip_because("only root has rights to give up");
    expect_powerless(become_root_again);
}

static void nobody_else_is_read_traced_or_signalled(void **state) {
    (void)state;
    if (geteuid() != 0) skip_because("only root has rights to give up");
    expect_powerless(look_around);
}

static void no_call_gets_out(void **state) {
    (void)state;
    if (KILN_SANITIZED) skip_because("sanitizers make system calls of their own");
    expect_powerless(get_out);
    expect_powerless(trace_a_child);
}

/* Another process of the same user finds nothing either. */
static void who_gave_up_is_not_read_by_its_own_user(void **state) {
    (void)state;
    int ready[2], done[2];
    char byte = 0;
    if (geteuid() != 0) skip_because("only root has rights to give up");
    if (KILN_SANITIZED) skip_because("sanitizers make system calls of their own");
    assert_int_equal(pipe(ready) | pipe(done), 0);
    const pid_t hidden = fork();
    if (hidden == 0) {
        close(done[1]);
        if (kiln_privilege_leave_root(user)) _exit(1);
        kiln_privilege_shut(false);
        (void)!write(ready[1], "x", 1);
        (void)!read(done[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    const pid_t looker = fork();
    if (looker == 0) {
        if (setresgid(user.gid, user.gid, user.gid) || setresuid(user.uid, user.uid, user.uid))
            _exit(98);
        const int found = look_around(hidden);
        _exit(found == 22 ? 0 : found); /* a signal to one's own process is no secret */
    }
    int status = 0;
    waitpid(looker, &status, 0);
    close(done[1]);
    waitpid(hidden, NULL, 0);
    close(ready[0]), close(ready[1]), close(done[0]);
    assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_user_of_that_name_is_taken_else_a_number_of_nobody),
        TEST(a_folder_of_root_is_taken_over_with_what_is_in_it),
        TEST(no_trick_has_something_else_given_away),
        TEST(what_is_the_users_or_somebody_elses_is_not_touched),
        TEST(the_folder_of_a_server_that_runs_is_left_to_it),
        TEST(the_environment_is_wiped),
        TEST(root_is_left_for_ever),
        TEST(nobody_else_is_read_traced_or_signalled),
        TEST(no_call_gets_out),
        TEST(who_gave_up_is_not_read_by_its_own_user),
    };
    return cmocka_run_group_tests_name("rpc-server/privilege", tests, NULL, NULL);
}
