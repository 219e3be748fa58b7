#include "tests/support/group_folder.h"

#include <stdio.h>

#include "tests/support/test.h"

char group_folder[PATH_MAX];

int make_group_folder(void **state) {
    kiln_arena arena = {0};
    (void)state;
    snprintf(group_folder, sizeof group_folder, "%s", make_folder(&arena));
    kiln_arena_deinit(&arena);
    return 0;
}

int remove_group_folder(void **state) {
    (void)state;
    remove_folder(group_folder);
    return 0;
}
