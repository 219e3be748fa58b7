/* The compiler of the block emulator's kernels: CUDA C to a library of this processor. */
#ifndef KILN_TESTS_SUPPORT_EMULATE_COMPILE_H
#define KILN_TESTS_SUPPORT_EMULATE_COMPILE_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

/* Writes a library to `folder` in which `extern __shared__` is the memory that the emulator names.
 * INVALID_ARGUMENT: the text does not compile; with the compiler's words. */
KILN_MUST_USE kiln_status emulate_compile(kiln_str text, const char *folder, kiln_arena *arena,
                                          const char **out_path);

#endif
