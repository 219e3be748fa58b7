/* A private folder of a whole program of tests: set-up and tear-down of a cmocka group. */
#ifndef KILN_TESTS_SUPPORT_GROUP_FOLDER_H
#define KILN_TESTS_SUPPORT_GROUP_FOLDER_H

#include <limits.h>

extern char group_folder[PATH_MAX];

int make_group_folder(void **state);
int remove_group_folder(void **state);

#endif
