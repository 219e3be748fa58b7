#include "tests/unit/compiler-core/codegen/c_compile.h"

#include "base/child.h"
#include "base/file.h"
#include "tests/support/test.h"

const char *const c_compiler[C_COMPILERS] = {"gcc", "clang-19"};

kiln_str compile_c(kiln_str text, const char *compiler, const char *flag, const char *folder,
                   kiln_arena *arena) {
    const char *source = kiln_arena_printf(arena, "%s/kernel.c", folder),
               *object = kiln_arena_printf(arena, "%s/kernel.o", folder);
    /* What the loader of objects takes (docs/reference/object.md). */
    const char *const argv[] = {compiler,
                                "-std=c11",
                                "-O1",
                                "-Wall",
                                "-Werror",
                                "-Wno-psabi",
                                "-fPIC",
                                "-ffp-contract=off",
                                "-fno-asynchronous-unwind-tables",
                                "-fno-stack-protector",
                                "-fno-jump-tables",
                                "-c",
                                "-o",
                                object,
                                source,
                                flag,
                                NULL};
    const kiln_child_options options = {.argv = argv};
    kiln_child child;
    kiln_str bytes;
    expect_ok(kiln_file_write(source, text, 0600));
    expect_ok(kiln_child_start(&options, &child));
    kiln_child_exit end = kiln_child_wait(&child);
    kiln_child_destroy(&child);
    if (end.code != 0) fail_msg("%s made nothing of this:\n%.*s", compiler, KILN_STR_ARG(text));
    expect_ok(kiln_file_read(object, (size_t)64 << 20, arena, &bytes));
    return bytes;
}
