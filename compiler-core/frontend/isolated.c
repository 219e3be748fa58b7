#include "compiler-core/frontend/isolated.h"

#include <string.h>

#include "base/isolated/isolated.h"
#include "base/opt.h"
#include "compiler-core/graph/graph_codec.h"

/* Before the graph's bytes, which begin at a multiple of their alignment. */
typedef struct head {
    uint32_t bound_count; /* kiln_import_options.out_bound_count */
    char padding[KILN_GRAPH_DATA_ALIGNMENT - sizeof(uint32_t)];
} head;

typedef struct reading {
    const char *path;
    kiln_mapping file;
    char *folder;
    const kiln_import_options *options;
    bool in_process;
} reading;

static kiln_status run(void *context, kiln_arena *arena, kiln_isolated_result *out_result) {
    const reading *in = context;
    const kiln_str bytes = {in->file.data, in->file.size};
    kiln_import_options options = *in->options;
    kiln_graph *graph = NULL;
    head *begin = kiln_arena_alloc(arena, sizeof *begin);
    options.out_bound_count = &begin->bound_count;
    options.open = in->in_process ? NULL : kiln_isolated_open;
    kiln_status st = kiln_status_note(kiln_import_bytes(bytes, in->folder, &options, arena, &graph),
                                      "%s", in->path);
    if (st) return st;
    const kiln_graph_bytes encoded = kiln_graph_encode(graph, arena);
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, encoded.part_count + 1);
    part[0] = (kiln_str){(const char *)begin, sizeof *begin};
    memcpy(part + 1, encoded.part, encoded.part_count * sizeof *part);
    *out_result = (kiln_isolated_result){encoded.part_count + 1, part};
    return KILN_OK;
}

kiln_status kiln_memory_limit(const kiln_import_options *options, uint64_t *out_bytes) {
    if (options->memory_mib > UINT64_MAX >> 20)
        return KILN_ERROR(OUT_OF_RANGE, "%llu MiB of memory exceed 64 bits",
                          (unsigned long long)options->memory_mib);
    *out_bytes = options->memory_mib << 20;
    return KILN_OK;
}

/* The child's result begins with the head. */
static kiln_status take(const kiln_mapping *bytes, const kiln_import_options *options,
                        kiln_str *out_graph) {
    head begin;
    if (bytes->size < sizeof begin) return KILN_ERROR(DATA_LOSS, "the graph's bytes are cut off");
    memcpy(&begin, bytes->data, sizeof begin);
    if (options->out_bound_count) *options->out_bound_count = begin.bound_count;
    *out_graph = (kiln_str){(const char *)bytes->data + sizeof begin, bytes->size - sizeof begin};
    return KILN_OK;
}

kiln_status kiln_read_isolated(const char *path, const kiln_import_options *options,
                               kiln_arena *arena, kiln_mapping *out_bytes, kiln_str *out_graph) {
    static const kiln_import_options nothing = {0};
    reading in = {.path = path,
                  .options = options ? options : &nothing,
                  .in_process = kiln_env("KILN_NO_ISOLATION") != NULL};
    kiln_isolated_work work = {.run = run, .context = &in, .in_process = in.in_process};
    kiln_mapping bytes = {0};
    *out_bytes = bytes;
    kiln_status st = kiln_model_file_map(path, &in.file);
    if (!st) st = kiln_memory_limit(in.options, &work.limits.memory_bytes);
    if (!st) {
        in.folder = kiln_folder_of(path, arena);
        work.what = kiln_arena_printf(arena, "reading %s", path);
        work.folder = in.folder;
        st = kiln_isolated_run(&work, &bytes);
    }
    kiln_file_unmap(&in.file);
    if (!st) st = kiln_status_note(take(&bytes, in.options, out_graph), "the graph of %s", path);
    if (st)
        kiln_file_unmap(&bytes);
    else
        *out_bytes = bytes;
    return st;
}

kiln_status kiln_import_isolated(const char *path, const kiln_import_options *options,
                                 kiln_arena *arena, kiln_graph **out_graph,
                                 kiln_mapping *out_bytes) {
    kiln_str bytes = {0};
    kiln_status st = kiln_read_isolated(path, options, arena, out_bytes, &bytes);
    if (st) return st;
    st = kiln_status_note(kiln_graph_decode(bytes, arena, out_graph), "the graph of %s", path);
    if (st) kiln_file_unmap(out_bytes);
    return st;
}
