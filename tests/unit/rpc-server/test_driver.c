/* The table of what drivers need: each executor that opens a device has a row, and no row lets a
 * child do what would undo its fences. */
#include "rpc-server/driver.h"

#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_executor_that_lives_on_has_a_driver_of_its_name),
        cmocka_unit_test(no_driver_may_mount_trace_or_reach_a_network),
        cmocka_unit_test(rows_belong_to_their_driver),
        cmocka_unit_test(a_driver_has_the_variables_that_its_rows_keep),
    };
    return cmocka_run_group_tests_name("rpc-server/driver", tests, NULL, NULL);
}
