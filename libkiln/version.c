#include "libkiln/version.h"

const char *kiln_version(void) { return KILN_VERSION; }
