#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void kiln_check_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "kiln: bug: %s does not hold at %s:%d\n", condition, file, line);
    abort();
}
