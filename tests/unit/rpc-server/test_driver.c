/* The table of what drivers need: each executor that opens a device has a row, and no row lets a
 * child do what would undo its fences. */
#include "rpc-server/driver.h"

#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "rpc-server/executor.h"
#include "tests/support/test.h"

static bool has_call(const kiln_driver *driver, int wanted) {
    int call = 0;
    for (uint32_t at = 0; kiln_driver_next_call(driver, &at, &call);)
        if (call == wanted) return true;
    return false;
}

static void an_executor_that_lives_on_has_a_driver_of_its_name(void **state) {
    (void)state;
    for (uint32_t i = 0; i < kiln_executor_count(); i++) {
        const kiln_executor *executor = kiln_executor_at(i);
        assert_int_equal(executor->lifetime == KILN_LIFETIME_FAULT, executor->driver != NULL);
        if (executor->driver) assert_string_equal(executor->driver->name, executor->name);
    }
}

static void no_driver_may_mount_trace_or_reach_a_network(void **state) {
    (void)state;
    static const int never[] = {
        SCMP_SYS(mount),     SCMP_SYS(ptrace), SCMP_SYS(socket),      SCMP_SYS(bpf),
        SCMP_SYS(unshare),   SCMP_SYS(setns),  SCMP_SYS(chroot),      SCMP_SYS(pivot_root),
        SCMP_SYS(open_tree), SCMP_SYS(setuid), SCMP_SYS(pidfd_getfd), SCMP_SYS(process_vm_readv)};
    for (uint32_t i = 0; i < kiln_driver_count(); i++) {
        const kiln_driver *driver = kiln_driver_at(i);
        assert_int_equal(kiln_driver_index(driver), i);
        assert_true(has_call(driver, SCMP_SYS(recvmsg))); /* the next order */
        for (size_t k = 0; k < KILN_ARRAY_COUNT(never); k++)
            if (has_call(driver, never[k])) fail_msg("%s: call %d", driver->name, never[k]);
    }
}

static void rows_belong_to_their_driver(void **state) {
    (void)state;
    kiln_driver_file file;
    uint32_t at = 0, files = 0;
    assert_false(kiln_driver_next_file(&kiln_driver_null, &at, &file));
    assert_false(kiln_driver_has_files(&kiln_driver_null));
    assert_true(kiln_driver_has_files(&kiln_driver_line)); /* a folder, without KILN_LINE too */
    assert_false(has_call(&kiln_driver_null, SCMP_SYS(openat)));
    assert_false(has_call(&kiln_driver_cuda, SCMP_SYS(execve)));
    assert_true(has_call(&kiln_driver_cuda, SCMP_SYS(memfd_create)));
    for (at = 0; kiln_driver_next_file(&kiln_driver_opencl, &at, &file); files++) {
        assert_int_equal(file.path[0], '/');
        assert_int_equal(file.is_device, strncmp(file.path, "/dev/", 5) == 0);
    }
    assert_true(files > 5);
}

/* A path that such a variable names is a file of the driver. */
static void a_driver_has_the_variables_that_its_rows_keep(void **state) {
    (void)state;
    kiln_driver_file file = {0};
    const char *kept[KILN_DRIVER_KEPT_MAX + 1];
    uint32_t at = 0, count = 0;
    assert_true(kiln_driver_keeps("KILN_CUDA_LIBRARY=x") && kiln_driver_keeps("KILN_CUDA_ANY=x"));
    assert_false(kiln_driver_keeps("CUDA_HOME=x") || kiln_driver_keeps("OCL_ICD_VENDORS_NOT=x"));
    assert_false(kiln_driver_keeps("PATH=/bin") || kiln_driver_keeps("AWS_SECRET=x"));
    assert_int_equal(clearenv(), 0);
    (void)setenv("KILN_CUDA_LIBRARY", "/somewhere/libcuda.so", 1);
    (void)setenv("SECRET", "x", 1);
    kiln_driver_environment(kept);
    while (kept[count]) count++;
    assert_int_equal(count, 1);
    while (kiln_driver_next_file(&kiln_driver_cuda, &at, &file) &&
           strcmp(file.path, "/somewhere/libcuda.so") != 0) {}
    assert_string_equal(file.path, "/somewhere/libcuda.so");
    (void)setenv("KILN_CUDA_LIBRARY", "libcuda.so.2", 1); /* where the loader looks */
    for (at = 0; kiln_driver_next_file(&kiln_driver_cuda, &at, &file);)
        assert_null(strstr(file.path, "libcuda"));
    assert_false(kiln_driver_has_files(&kiln_driver_vta)); /* a simulator */
    (void)setenv("KILN_VTA_REGISTERS", "/dev/uio0", 1);
    assert_true(kiln_driver_has_files(&kiln_driver_vta)); /* a board */
}

/* What is said to a user who is not root; `wanted`: the number of closed files. */
static const char *closed_for_nobody(const kiln_driver *driver, uint32_t wanted,
                                     kiln_arena *arena) {
    int ends[2];
    char *text = kiln_arena_alloc(arena, 4096);
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        kiln_strbuf out = {0};
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(1);
        const uint32_t closed = kiln_driver_print_closed(driver, arena, &out);
        const ssize_t wrote = out.size ? write(ends[1], out.data, out.size) : 0;
        _exit(closed == wanted && wrote == (ssize_t)out.size ? 0 : 1);
    }
    close(ends[1]);
    const ssize_t size = read(ends[0], text, 4095);
    close(ends[0]);
    int status;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    text[KILN_MAX(size, 0)] = 0;
    return text;
}

static void device_files_that_a_user_may_not_open_are_named(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    static const char *const name[] = {"renderD128", "renderD129", "card0", "by-path/x"};
    char folder[] = "/tmp/kiln-driver-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *inside = kiln_arena_printf(&arena, "%s/by-path", folder);
    assert_int_equal(mkdir(inside, 0700) | chmod(folder, 0755), 0);
    const char *path[KILN_ARRAY_COUNT(name)];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        path[i] = kiln_arena_printf(&arena, "%s/%s", folder, name[i]);
        expect_ok(kiln_file_write(path[i], KILN_STR(""), 0600));
        assert_int_equal(chmod(path[i], i == 1 ? 0666 : 0), 0);
    }
    (void)setenv("KILN_VTA_REGISTERS", folder, 1); /* like /dev/dri */
    (void)setenv("KILN_VTA_MEMORY", "/dev/no-such-file", 1);
    assert_string_equal(closed_for_nobody(&kiln_driver_vta, 1, &arena),
                        kiln_arena_printf(&arena, "; this user may not open %s", path[0]));
    (void)setenv("KILN_VTA_MEMORY", path[2], 1); /* named by itself */
    expect_contains(closed_for_nobody(&kiln_driver_vta, 2, &arena), path[2]);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) unlink(path[i]);
    assert_int_equal(rmdir(inside) | rmdir(folder), 0);
    (void)unsetenv("KILN_VTA_REGISTERS");
    (void)unsetenv("KILN_VTA_MEMORY");
    kiln_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_executor_that_lives_on_has_a_driver_of_its_name),
        cmocka_unit_test(no_driver_may_mount_trace_or_reach_a_network),
        cmocka_unit_test(rows_belong_to_their_driver),
        cmocka_unit_test(a_driver_has_the_variables_that_its_rows_keep),
        cmocka_unit_test(device_files_that_a_user_may_not_open_are_named),
    };
    return cmocka_run_group_tests_name("rpc-server/driver", tests, NULL, NULL);
}
