#include "deploy/runtime/opencl_vendors.h"

#ifdef KILN_STATIC

void kiln_opencl_vendors_describe(kiln_strbuf *out) { (void)out; } /* this build has no drivers */

#else

#include <dlfcn.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/opt.h"

#define FOLDER "/etc/OpenCL/vendors"
#define FILE_BYTES_MAX 4096

/* `path`: a text file whose first line is the name of a library. */
static void describe_file(const char *path, kiln_arena *scratch, kiln_strbuf *out) {
    kiln_str text;
    kiln_status st = kiln_file_read(path, FILE_BYTES_MAX, scratch, &text);
    if (st) {
        kiln_strbuf_printf(out, "%s%s", out->size ? "; " : "", kiln_status_text(st));
        kiln_status_free(st);
        return;
    }
    const kiln_str name = kiln_str_trim(kiln_str_cut(&text, '\n'));
    const char *library = kiln_arena_printf(scratch, "%.*s", KILN_STR_ARG(name));
    if (name.size == 0 || dlopen(library, RTLD_NOW | RTLD_LOCAL))
        return; /* stays loaded, like
                 * drivers */
    kiln_strbuf_printf(out, "%sthe driver of %s does not load into this program: %s",
                       out->size ? "; " : "", path, dlerror());
}

void kiln_opencl_vendors_describe(kiln_strbuf *out) {
    const char *named = kiln_env("OCL_ICD_VENDORS"), *folder = named ? named : FOLDER;
    kiln_arena scratch;
    char **file = NULL;
    size_t count = 0;
    kiln_arena_init(&scratch, 0);
    if (kiln_str_ends(kiln_str_from(folder), ".icd")) describe_file(folder, &scratch, out);
    kiln_status_free(kiln_folder_list(folder, &scratch, &file, &count)); /* no folder: no drivers */
    for (size_t i = 0; i < count; i++)
        if (kiln_str_ends(kiln_str_from(file[i]), ".icd"))
            describe_file(kiln_arena_printf(&scratch, "%s/%s", folder, file[i]), &scratch, out);
    kiln_arena_deinit(&scratch);
}

#endif
