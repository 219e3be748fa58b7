/* What `kiln tune` prints for people of the objects that it prints with --json. */
#ifndef KILN_CLI_TUNE_PRINT_H
#define KILN_CLI_TUNE_PRINT_H

#include <jansson.h>

/* kiln_host.print; `tracker`: the address that was named; NULL: none. */
void kiln_tune_print(void *tracker, const json_t *result);

/* Of a module for several sizes, which `kiln compile` makes, too. */
void kiln_sizes_print(const json_t *result);

#endif
