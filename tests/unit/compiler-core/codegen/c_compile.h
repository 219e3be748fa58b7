/* Text of back ends, compiled by a compiler that Kiln names: C, and CUDA C. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_C_COMPILE_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_C_COMPILE_H

#include "base/manifest.h"

#define C_COMPILERS 2
extern const char *const c_compiler[C_COMPILERS]; /* "gcc", "clang-19" */

/* The object that `compiler` makes of C text, in `arena`; the test fails with its messages when it
 * makes none. `flag`: one more, NULL: none. `folder`: private. */
kiln_str compile_c(kiln_str text, const char *compiler, const char *flag, const char *folder,
                   kiln_arena *arena);
/* The PTX for a processor ("sm_80") that clang makes of CUDA C, without a toolkit's headers; the
 * same. */
kiln_str compile_cuda(kiln_str text, const char *processor, const char *folder, kiln_arena *arena);

#endif
