/* What unit tests of every folder share, over cmocka: results of Kiln's functions, private folders,
 * children that are expected to die. */
#ifndef KILN_TESTS_SUPPORT_TEST_H
#define KILN_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/status.h"
#include "base/str.h"

/* The status is success; otherwise its text is printed. Takes the status. */
#define expect_ok(status) expect_ok_at((status), __FILE__, __LINE__)
/* The status has that code (KILN_ is put before it) and its text contains `needle`. Takes the
 * status. */
#define expect_error(status, code, needle) \
    expect_error_at((status), KILN_##code, (needle), __FILE__, __LINE__)
#define expect_str(str, text) expect_str_at((str), (text), __FILE__, __LINE__)
#define expect_contains(text, needle) expect_contains_at((text), (needle), __FILE__, __LINE__)

void expect_ok_at(kiln_status status, const char *file, int line);
void expect_error_at(kiln_status status, kiln_code code, const char *needle, const char *file,
                     int line);
void expect_str_at(kiln_str str, const char *text, const char *file, int line);
void expect_contains_at(const char *text, const char *needle, const char *file, int line);

/* Ends the test as skipped, for a reason in printf's form, which ./dev test tells. */
#define skip_because(...) skip_because_at(__FILE__, __LINE__, __VA_ARGS__)
KILN_PRINTF(3, 4) void skip_because_at(const char *file, int line, const char *format, ...);

/* cmocka set-up and tear-down: *state is a kiln_arena for the test. */
int arena_set_up(void **state);
int arena_tear_down(void **state);
/* A row of a test table with such an arena. */
#define test_with_arena(f) cmocka_unit_test_setup_teardown(f, arena_set_up, arena_tear_down)

/* A new private folder; the test removes it. */
char *make_folder(kiln_arena *arena);
void remove_folder(const char *path);

/* The first words of a command line whose program ends with this one, however this one ends
 * (setpriv(1)): for emulators, which know no --with-parent. */
#define ENDS_WITH_US "setpriv", "--pdeathsig", "KILL"

/* Runs `body` in a child with stderr thrown away, which ends with this program; returns its wait
 * status. */
int run_in_child(void (*body)(void));

#endif
