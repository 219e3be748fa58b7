#include "tests/support/emulate_compile.h"

#include <string.h>

#include "base/file.h"
#include "base/proc.h"

/* The text without its declarations of `extern __shared__`; `out_definition`: for the compiler,
 * what the name stands for instead; NULL: there is no such declaration. */
static char *take_shared(kiln_str text, kiln_arena *arena, const char **out_definition) {
    static const char extern_shared[] = "extern __shared__", align[] = "__align__(";
    char *all = kiln_str_dup(arena, text);
    *out_definition = NULL;
    for (char *at = all; (at = strstr(at, extern_shared)); at++) {
        char *type = at + strlen(extern_shared), *end = strchr(at, '['),
             *semicolon = strchr(at, ';');
        if (!end || !semicolon) break;
        type += strspn(type, " ");
        if (strncmp(type, align, strlen(align)) == 0) type = strchr(type, ')') + 1;
        char *name = end;
        while (name > type && strchr(" *", name[-1]) == NULL) name--;
        *out_definition = kiln_arena_printf(arena, "-D%.*s=((%.*s *)kiln_emulated.kiln_memory)",
                                            (int)(end - name), name, (int)(name - type), type);
        memset(at, ' ', (size_t)(semicolon + 1 - at));
    }
    return all;
}

kiln_status emulate_compile(kiln_str text, const char *folder, kiln_arena *arena,
                            const char **out_path) {
    const char *source = kiln_arena_printf(arena, "%s/kernel.cc", folder),
               *library = kiln_arena_printf(arena, "%s/kernel.so", folder), *definition;
    kiln_str plain = kiln_str_from(take_shared(text, arena, &definition));
    const char *const argv[] = {"clang++-19",
                                "-x",
                                "c++",
                                "-std=c++17",
                                "-O1",
                                "-fPIC",
                                "-shared",
                                "-nostdinc",
                                "-fno-exceptions",
                                "-fno-rtti",
                                "-ffp-contract=off",
                                "-Wno-everything",
                                "-I.",
                                "-include",
                                "tests/support/emulate_block.cuh",
                                "-o",
                                library,
                                source,
                                definition,
                                NULL};
    const kiln_proc_options options = {.argv = argv, .output_max = 64 << 10};
    kiln_proc_result result;
    *out_path = library;
    kiln_status st = kiln_file_write(source, plain, 0600);
    if (!st) st = kiln_proc_run(&options, arena, &result);
    if (!st && result.exit_code != 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "the kernel does not compile:\n%.*s",
                        KILN_STR_ARG(result.err));
    return st;
}
