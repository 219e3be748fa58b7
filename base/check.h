/* Bugs. KILN_CHECK is always compiled in: it prints the condition and its place, dumps the tail of
 * the trace, and aborts. Operating errors (files, peers, input) are kiln_status, never a check. */
#ifndef KILN_BASE_CHECK_H
#define KILN_BASE_CHECK_H

#include "base/macros.h"

#define KILN_CHECK(cond) ((cond) ? (void)0 : kiln_check_failed(#cond, __FILE__, __LINE__))

KILN_NORETURN void kiln_check_failed(const char *condition, const char *file, int line);

#endif
