/* What a service manager is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program/ready.h"
#include "tests/support/test.h"

/* A socket of a manager: at a path, or without one, where the kernel chooses an abstract address.
 */
static int open_manager(const char *path, char *out_name, size_t name_size) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof(sa_family_t);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    if (path) {
        assert_true(strlen(path) < sizeof address.sun_path);
        memcpy(address.sun_path, path, strlen(path));
        size = sizeof address;
    }
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    size = sizeof address;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    if (path)
        snprintf(out_name, name_size, "%s", path);
    else
        snprintf(out_name, name_size, "@%.*s",
                 (int)(size - offsetof(struct sockaddr_un, sun_path) - 1), address.sun_path + 1);
    return fd;
}

static void expect_told(int manager, const char *text) {
    char got[64];
    const ssize_t size = recv(manager, got, sizeof got, 0);
    if (!text) {
        assert_int_equal(size, -1);
        return;
    }
    assert_int_equal(size, strlen(text));
    assert_memory_equal(got, text, strlen(text));
}

static void a_manager_is_told_once_for_each_call(void **state) {
    kiln_arena *arena = *state;
    char *folder = NULL, name[128];
    expect_ok(kiln_folder_create_temp("kiln-ready-test", arena, &folder));
    const char *paths[] = {kiln_arena_printf(arena, "%s/notify", folder), NULL};
    for (size_t i = 0; i < 2; i++) {
        const int manager = open_manager(paths[i], name, sizeof name);
        setenv("NOTIFY_SOCKET", name, 1);
        expect_told(manager, NULL);
        kiln_ready_tell();
        expect_told(manager, "READY=1");
        expect_told(manager, NULL);
        close(manager);
    }
    expect_ok(kiln_folder_remove(folder));
}

static void without_a_manager_nothing_happens(void **state) {
    (void)state;
    char name[128];
    const int manager = open_manager(NULL, name, sizeof name);
    unsetenv("NOTIFY_SOCKET");
    kiln_ready_tell();
    setenv("NOTIFY_SOCKET", "", 1);
    kiln_ready_tell();
    expect_told(manager, NULL);
    close(manager);
}

static void an_address_that_is_wrong_is_no_reason_to_end(void **state) {
    kiln_arena *arena = *state;
    char *far = kiln_arena_alloc(arena, 301);
    memset(far, 'x', 300);
    far[0] = '/';
    far[300] = '\0';
    const char *names[] = {"notify", "/nobody/listens/here", far};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("NOTIFY_SOCKET", names[i], 1);
        kiln_ready_tell();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_manager_is_told_once_for_each_call),
        test_with_arena(without_a_manager_nothing_happens),
        test_with_arena(an_address_that_is_wrong_is_no_reason_to_end),
    };
    return cmocka_run_group_tests_name("base/ready", tests, NULL, NULL);
}
