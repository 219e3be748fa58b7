/* C text of the back end `c`, compiled by one of the C compilers that Kiln names. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_C_COMPILE_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_C_COMPILE_H

#include "base/manifest.h"

#define C_COMPILERS 2
extern const char *const c_compiler[C_COMPILERS]; /* "gcc", "clang-19" */

/* The object that `compiler` makes of C text, in `arena`; the test fails with its messages when it
 * makes none. `flag`: one more, NULL: none. `folder`: private. */
kiln_str compile_c(kiln_str text, const char *compiler, const char *flag, const char *folder,
                   kiln_arena *arena);

#endif
