/* Prints the levels of x86-64 that this machine runs, one a line; for ./dev. With KILN_NATIVE in
 * the environment it is held to that level; exits with the code of the error where it cannot be. */
#include <stdio.h>

#include "tests/support/targets.h"

int main(void) {
    kiln_arena arena;
    kiln_target native;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_target_native(&arena, &native);
    for (int i = 0; !st && i < TEST_LEVELS; i++) {
        kiln_strbuf reason = {0};
        kiln_target level;
        st = kiln_target_parse(kiln_str_from(test_level[i]), &arena, &level);
        if (!st && kiln_target_runs_on(&level, &native, &reason)) puts(test_level[i]);
        kiln_strbuf_deinit(&reason);
    }
    if (st) fprintf(stderr, "levels: %s\n", kiln_status_text(st));
    int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return code;
}
