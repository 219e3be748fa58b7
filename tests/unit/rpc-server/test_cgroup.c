/* Control groups: how they are found and told, on folders that look like them; and, where this
 * machine allows it, that what is in one dies with it. */
#include "rpc-server/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "rpc-server/sandbox.h"
#include "tests/support/test.h"

#define BIT(name) (1U << KILN_FENCE_##name)

typedef struct fixture {
    kiln_arena arena;
    char *folder;
} fixture;

static int set_up(void **state) {
    static fixture the_fixture;
    kiln_arena_init(&the_fixture.arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-cgroup-test", &the_fixture.arena, &the_fixture.folder));
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

static void write_file(fixture *f, const char *name, const char *content) {
    expect_ok(kiln_file_write(path_of(f, name), kiln_str_from(content), 0600));
}

static void expect_file(fixture *f, const char *name, const char *content) {
    kiln_str text = {0};
    expect_ok(kiln_file_read(path_of(f, name), 4096, &f->arena, &text));
    assert_string_equal(kiln_str_dup(&f->arena, text), content);
}

static void put_folder(fixture *f, const char *name) {
    expect_ok(kiln_folder_create(path_of(f, name), 0700));
}

static bool is_there(fixture *f, const char *name) { return kiln_file_is_folder(path_of(f, name)); }

/* ---- Where they are ---- */

static void expect_found(fixture *f, const char *own, const char *mounts, const char *expected) {
    char found[KILN_CGROUP_PATH_BYTES];
    write_file(f, "proc/self/cgroup", own);
    write_file(f, "proc/self/mountinfo", mounts);
    assert_int_equal(kiln_cgroup_find(f->folder, found), expected != NULL);
    if (expected) assert_string_equal(found, path_of(f, expected));
}

static void our_group_is_found_where_it_is_mounted(void **state) {
    fixture *f = *state;
    put_folder(f, "proc/self");
    const char *unified = "22 1 0:20 / /proc rw shared:2 - proc proc rw\n"
                          "31 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
    expect_found(f, "0::/system.slice/kiln.service\n", unified,
                 "sys/fs/cgroup/system.slice/kiln.service");
    expect_found(f, "0::/\n", unified, "sys/fs/cgroup");
    /* Groups are made beside the launcher's, as no process may be above them. */
    expect_found(f, "0::/system.slice/kiln.service/launcher\n", unified,
                 "sys/fs/cgroup/system.slice/kiln.service");
    expect_found(f, "0::/my-launcher\n", unified, "sys/fs/cgroup/my-launcher");
    const char *hybrid = "30 22 0:25 / /sys/fs/cgroup ro shared:3 - tmpfs tmpfs ro\n"
                         "31 30 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                         "32 30 0:27 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw\n";
    expect_found(f, "4:memory:/elsewhere\n0::/ours\n", hybrid, "sys/fs/cgroup/unified/ours");
    /* A part of the hierarchy is mounted, as in a container. */
    const char *part = "31 22 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
    expect_found(f, "0::/box/inner\n", part, "sys/fs/cgroup/inner");
    expect_found(f, "0::/another\n", part, NULL);
    expect_found(f, "4:memory:/only/version/one\n", hybrid, NULL);
    expect_found(f, "0::/ours\n", "22 1 0:20 / /proc rw - proc proc rw\n", NULL);
    expect_found(f, "", "", NULL);
}

/* ---- What is told to them ---- */

static void all_bounds_are_set(void **state) {
    fixture *f = *state;
    kiln_cgroup group;
    static const char *const files[] = {"memory.max", "memory.swap.max", "memory.oom.group",
                                        "pids.max",   "cpuset.cpus",     "cgroup.kill"};
    put_folder(f, "group");
    snprintf(group.folder, sizeof group.folder, "%s", path_of(f, "group"));
    kiln_cgroup_bind(&group, 1); /* a kernel without those: nothing happens */
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(files); i++)
        write_file(f, kiln_arena_printf(&f->arena, "group/%s", files[i]), "");
    kiln_cgroup_bind(&group, 0); /* any */
    expect_file(f, "group/memory.max", "");
    kiln_cgroup_bind(&group, (uint64_t)3 << 30);
    kiln_cgroup_keep_to(&group, (const uint32_t[]){3, 2, 7}, 3);
    kiln_cgroup_kill(&group);
    expect_file(f, "group/memory.max", "3221225472");
    expect_file(f, "group/memory.swap.max", "0");
    expect_file(f, "group/memory.oom.group", "1");
    expect_file(f, "group/pids.max", "72");
    expect_file(f, "group/cpuset.cpus", "3,2,7");
    expect_file(f, "group/cgroup.kill", "1");
    assert_true(kiln_cgroup_is_empty(&group));
    write_file(f, "group/cgroup.events", "populated 1\nfrozen 0\n");
    assert_false(kiln_cgroup_is_empty(&group));
    write_file(f, "group/cgroup.events", "populated 0\nfrozen 0\n");
    assert_true(kiln_cgroup_is_empty(&group));
}

static void no_group_is_an_empty_one(void **state) {
    (void)state;
    kiln_cgroups groups = {.lock_fd = -1};
    kiln_cgroup group;
    kiln_cgroup_create(&groups, &group);
    assert_string_equal(group.folder, "");
    kiln_cgroup_keep_to(&group, (const uint32_t[]){0}, 1);
    kiln_cgroup_kill(&group);
    assert_true(kiln_cgroup_is_empty(&group));
    kiln_cgroup_destroy(&group);
    kiln_cgroups_close(&groups);
}

/* ---- What is believed ---- */

static void a_folder_that_only_looks_like_one_is_not_believed(void **state) {
    fixture *f = *state;
    kiln_cgroups groups;
    put_folder(f, "parent");
    write_file(f, "parent/cgroup.controllers", "cpuset cpu memory pids\n");
    write_file(f, "parent/cgroup.subtree_control", "");
    write_file(f, "parent/cgroup.procs", "");
    kiln_cgroups_open(&groups, path_of(f, "parent"), 1, 0);
    assert_int_equal(groups.fences, 0);
    assert_string_equal(groups.folder, "");
    assert_false(is_there(f, kiln_arena_printf(&f->arena, "parent/kiln-%d", (int)getpid())));
    kiln_str told = {0}; /* but its bounds were asked for */
    expect_ok(kiln_file_read(path_of(f, "parent/cgroup.subtree_control"), 64, &f->arena, &told));
    assert_true(kiln_str_starts(told, "+"));
    kiln_cgroups_close(&groups);
    kiln_cgroups_open(&groups, path_of(f, "nowhere"), 1, 0);
    assert_string_equal(groups.folder, "");
    kiln_cgroups_close(&groups);
}

static void groups_of_servers_that_are_gone_are_removed_and_no_others(void **state) {
    fixture *f = *state;
    kiln_cgroups groups;
    put_folder(f, "parent/kiln-1/child-7");
    put_folder(f, "parent/kiln-1/server");
    put_folder(f, "parent/kiln-2/child-1");
    put_folder(f, "parent/others/child-1");
    int lives = open(path_of(f, "parent/kiln-2"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(lives, LOCK_EX | LOCK_NB), 0);
    kiln_cgroups_open(&groups, path_of(f, "parent"), 1, 0);
    kiln_cgroups_close(&groups);
    assert_false(is_there(f, "parent/kiln-1"));
    assert_true(is_there(f, "parent/kiln-2/child-1"));
    assert_true(is_there(f, "parent/others/child-1"));
    close(lives);
}

/* ---- What is done with them here ---- */

/* Starts a process that has left our group and session behind, and its parent too. */
static void start_stray(const kiln_cgroup *group, int ready_fd) {
    pid_t child = fork();
    if (child == 0) {
        if (!kiln_cgroup_enter(group->folder) || fork() != 0) _exit(0);
        if (setsid() < 0 || write(ready_fd, "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_true(child > 0 && waitpid(child, NULL, 0) == child);
}

static void whatever_came_of_it_dies_with_its_group(void **state) {
    (void)state;
    char parent[KILN_CGROUP_PATH_BYTES], byte;
    kiln_cgroups groups = {.lock_fd = -1};
    kiln_cgroup group;
    int ready[2];
    if (kiln_cgroup_find("", parent)) kiln_cgroups_open(&groups, parent, (uint64_t)1 << 30, 0);
    if (!(groups.fences & BIT(GROUP))) {
        kiln_cgroups_close(&groups);
        skip_because("this machine allows no groups of processes of its own");
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    kiln_cgroup_create(&groups, &group);
    assert_true(kiln_cgroup_is_empty(&group));
    start_stray(&group, ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_false(kiln_cgroup_is_empty(&group));
    kiln_cgroup_kill(&group);
    int status = 0;
    assert_true(waitpid(-1, &status, 0) > 0); /* it came to us */
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(kiln_cgroup_is_empty(&group));
    kiln_cgroup_destroy(&group);
    char own[KILN_CGROUP_PATH_BYTES];
    snprintf(own, sizeof own, "%s", groups.folder);
    kiln_cgroups_close(&groups);
    assert_false(kiln_file_is_folder(own));
    close(ready[0]);
    close(ready[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(our_group_is_found_where_it_is_mounted),
        TEST(all_bounds_are_set),
        TEST(no_group_is_an_empty_one),
        TEST(a_folder_that_only_looks_like_one_is_not_believed),
        TEST(groups_of_servers_that_are_gone_are_removed_and_no_others),
        TEST(whatever_came_of_it_dies_with_its_group),
    };
    return cmocka_run_group_tests_name("rpc-server/cgroup", tests, NULL, NULL);
}
