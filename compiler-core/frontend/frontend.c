/* Chooses the front end for a file. */
#include "compiler-core/frontend/frontend.h"

#include <string.h>

#include "base/file.h"
#include "base/macros.h"

typedef bool (*probe_function)(kiln_str bytes);
typedef kiln_status (*import_function)(kiln_str bytes, const char *folder,
                                       const kiln_import_options *options, kiln_arena *arena,
                                       kiln_graph **out_graph);

#define X(id, name, doc)                                                                    \
    bool kiln_##name##_probe(kiln_str bytes);                                               \
    kiln_status kiln_##name##_import(kiln_str bytes, const char *folder,                    \
                                     const kiln_import_options *options, kiln_arena *arena, \
                                     kiln_graph **out_graph);
#include "compiler-core/frontend/frontends.def"
#undef X

static const struct {
    const char *name, *doc;
    probe_function probe;
    import_function import;
} table[] = {
#define X(id, name, doc) {#name, doc, kiln_##name##_probe, kiln_##name##_import},
#include "compiler-core/frontend/frontends.def"
#undef X
};

static kiln_status unknown_kind(void) {
    kiln_strbuf list = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++)
        kiln_strbuf_printf(&list, "%s%s", i ? "; " : "", table[i].doc);
    kiln_status st =
        KILN_ERROR(INVALID_ARGUMENT, "not a model file of a known kind: %s", list.data);
    kiln_strbuf_deinit(&list);
    return st;
}

kiln_status kiln_import_bytes(kiln_str bytes, const char *folder,
                              const kiln_import_options *options, kiln_arena *arena,
                              kiln_graph **out_graph) {
    static const kiln_import_options nothing = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++)
        if (table[i].probe(bytes))
            return table[i].import(bytes, folder, options ? options : &nothing, arena, out_graph);
    return unknown_kind();
}

const char *kiln_import_kind(kiln_str bytes) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++)
        if (table[i].probe(bytes)) return table[i].name;
    return NULL;
}

kiln_status kiln_model_file_map(const char *path, kiln_mapping *out_file) {
    kiln_mapping file = {0};
    kiln_status st = kiln_file_map(path, &file);
    if (st) return st;
    if (file.size <= KILN_MODEL_FILE_BYTES_MAX) {
        *out_file = file;
        return KILN_OK;
    }
    st = KILN_ERROR(OUT_OF_RANGE,
                    "%s has %zu bytes, and a model's file at most %zu: larger models keep their "
                    "weights in a file beside it (external data of ONNX)",
                    path, file.size, KILN_MODEL_FILE_BYTES_MAX);
    kiln_file_unmap(&file);
    return st;
}

char *kiln_folder_of(const char *path, kiln_arena *arena) {
    const char *slash = strrchr(path, '/');
    if (!slash) return kiln_str_dup(arena, KILN_STR("."));
    return kiln_str_dup(arena, (kiln_str){path, slash == path ? 1 : (size_t)(slash - path)});
}

kiln_status kiln_import_file(const char *path, const kiln_import_options *options,
                             kiln_arena *arena, kiln_graph **out_graph) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_str bytes;
    kiln_status st = kiln_file_read(path, KILN_MODEL_FILE_BYTES_MAX, &scratch, &bytes);
    if (!st)
        st = kiln_status_note(
            kiln_import_bytes(bytes, kiln_folder_of(path, &scratch), options, arena, out_graph),
            "%s", path);
    kiln_arena_deinit(&scratch);
    return st;
}
