#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/file.h"

void expect_ok_at(kiln_status status, const char *file, int line) {
    if (!status) return;
    print_error("unexpected %s: %s\n", kiln_code_name(kiln_status_code(status)),
                kiln_status_text(status));
    kiln_status_free(status);
    _fail(file, line);
}

void expect_error_at(kiln_status status, kiln_code code, const char *needle, const char *file,
                     int line) {
    bool right = kiln_status_code(status) == code && strstr(kiln_status_text(status), needle);
    if (!right)
        print_error("wanted %s with '%s', got %s: %s\n", kiln_code_name(code), needle,
                    kiln_code_name(kiln_status_code(status)), kiln_status_text(status));
    kiln_status_free(status);
    if (!right) _fail(file, line);
}

void expect_str_at(kiln_str str, const char *text, const char *file, int line) {
    if (kiln_str_is(str, text)) return;
    print_error("wanted '%s', got '%.*s'\n", text, KILN_STR_ARG(str));
    _fail(file, line);
}

void expect_contains_at(const char *text, const char *needle, const char *file, int line) {
    if (strstr(text, needle)) return;
    print_error("'%s' does not contain '%s'\n", text, needle);
    _fail(file, line);
}

/* tests/check/report.py looks for the reason on the line before cmocka's. */
void skip_because_at(const char *file, int line, const char *format, ...) {
    char reason[512];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    print_message("# %s\n", reason);
    _skip(file, line);
}

int arena_set_up(void **state) {
    *state = kiln_alloc(sizeof(kiln_arena));
    return 0;
}

int arena_tear_down(void **state) {
    kiln_arena_deinit(*state);
    kiln_free(*state);
    return 0;
}

char *make_folder(kiln_arena *arena) {
    char *path = NULL;
    expect_ok(kiln_folder_create_temp("kiln-test", arena, &path));
    return path;
}

void remove_folder(const char *path) { expect_ok(kiln_folder_remove(path)); }

int run_in_child(void (*body)(void)) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        kiln_child_die_with_parent();
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        body();
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return how;
}
