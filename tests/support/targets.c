#include "tests/support/targets.h"

#include <stdio.h>

#include "tests/support/test.h"

const char *const test_level[TEST_LEVELS] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

#if defined(__x86_64__)
#define PLAIN "x86-64"
#elif defined(__aarch64__)
#define PLAIN "cpu:aarch64-unknown-linux-gnu"
#elif defined(__arm__)
#define PLAIN "cpu:armv7-unknown-linux-gnueabihf"
#else
#define PLAIN "riscv64"
#endif

kiln_target target_of(kiln_arena *arena, const char *text) {
    kiln_target target;
    kiln_status st = kiln_target_parse(kiln_str_from(text), arena, &target);
    if (st) fail_msg("%s", kiln_status_text(st));
    return target;
}

kiln_str text_of_target(const kiln_target *target, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_target_print(target, &text);
    kiln_str copy = {kiln_str_dup(arena, kiln_strbuf_view(&text)), text.size};
    kiln_strbuf_deinit(&text);
    return copy;
}

kiln_target plain_target(kiln_arena *arena) { return target_of(arena, PLAIN); }

/* NULL, or what this machine lacks. */
static const char *why_not(const kiln_target *target, kiln_arena *arena) {
    kiln_target native;
    kiln_strbuf reason = {0};
    kiln_status st = kiln_target_native(arena, &native);
    if (st) fail_msg("%s", kiln_status_text(st));
    bool runs = kiln_target_runs_on(target, &native, &reason);
    const char *copy = runs ? NULL : kiln_str_dup(arena, kiln_strbuf_view(&reason));
    kiln_strbuf_deinit(&reason);
    return copy;
}

bool runs_here(const kiln_target *target, kiln_arena *arena) { return !why_not(target, arena); }

void skip_unless_runs_here(const char *target_text) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_target target = target_of(&arena, target_text);
    const char *reason = why_not(&target, &arena);
    char text[256] = "";
    if (reason) (void)snprintf(text, sizeof text, "%s: %s", target_text, reason);
    kiln_arena_deinit(&arena);
    if (reason) skip_because("%s", text);
}
