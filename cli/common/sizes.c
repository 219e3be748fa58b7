#include "cli/common/sizes.h"

#include <string.h>

#include "base/file.h"
#include "cli/common/json.h"
#include "cli/common/model_work.h"
#include "cli/common/options.h"
#include "deploy/pack/module_write.h"
#include "deploy/pack/wasm_module.h"

const char kiln_sizes_help[] =
    "size of a dimension that the model leaves open, as in --dim batch=8 (repeat for each "
    "dimension); one may have several sizes, 1,4,8 or 1..8, for one module that supports them all";
const char kiln_weights_help[] = "share of calls of each size of a module for several sizes, as in "
                                 "1:80,8:20; trials are divided by it (default: equal shares)";

/* ---- options --------------------------------------------------------------------------------- */

static kiln_status bad_list(const char *option) {
    return KILN_ERROR(INVALID_ARGUMENT,
                      "--dim %s: sizes are 1 or more, grow, and are at most %u: NAME=1,4,8 or a "
                      "range NAME=1..8",
                      option, KILN_MODULE_BUCKETS_MAX);
}

static bool read_size(kiln_str text, int64_t *out_size) {
    uint64_t size = 0;
    if (!kiln_str_to_u64(text, &size) || size == 0 || size > INT32_MAX) return false;
    *out_size = (int64_t)size;
    return true;
}

static bool add_size(kiln_sizes *sizes, int64_t size) {
    if (sizes->count == KILN_MODULE_BUCKETS_MAX ||
        (sizes->count > 0 && sizes->size[sizes->count - 1] >= size))
        return false;
    sizes->size[sizes->count++] = size;
    return true;
}

/* Both ends, and the powers of two between them. */
static bool read_range(kiln_str first, kiln_str last, kiln_sizes *sizes) {
    int64_t low, high;
    if (!read_size(first, &low) || !read_size(last, &high) || low >= high) return false;
    bool fits = add_size(sizes, low);
    for (int64_t size = 1; fits && size < high; size *= 2)
        if (size > low) fits = add_size(sizes, size);
    return fits && add_size(sizes, high);
}

static bool read_list(kiln_str list, kiln_sizes *sizes) {
    while (list.size) {
        int64_t size;
        if (!read_size(kiln_str_cut(&list, ','), &size) || !add_size(sizes, size)) return false;
    }
    return sizes->count > 1;
}

kiln_status kiln_sizes_option(const kiln_opt_list *dim, kiln_sizes *out_sizes) {
    kiln_sizes sizes = {0};
    for (size_t i = 0; i < dim->count; i++) {
        kiln_str rest = kiln_str_from(dim->item[i]);
        const kiln_str name = kiln_str_cut(&rest, '=');
        const char *dots = strstr(rest.data, "..");
        if (!dots && kiln_str_find_char(rest, ',') >= rest.size) continue;
        if (sizes.dim.size)
            return KILN_ERROR(INVALID_ARGUMENT,
                              "--dim %s: %.*s has several sizes already, and one dimension may",
                              dim->item[i], KILN_STR_ARG(sizes.dim));
        sizes.dim = name;
        sizes.option = i;
        const bool fits = dots ? read_range(kiln_str_slice(rest, 0, (size_t)(dots - rest.data)),
                                            kiln_str_from(dots + 2), &sizes)
                               : read_list(rest, &sizes);
        if (!fits || !name.size) return bad_list(dim->item[i]);
    }
    *out_sizes = sizes;
    return KILN_OK;
}

static kiln_status no_such_size(const char *option, int64_t size, const kiln_sizes *sizes) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < sizes->count; i++)
        kiln_strbuf_printf(&text, "%s%lld", i ? ", " : "", (long long)sizes->size[i]);
    kiln_status st =
        KILN_ERROR(INVALID_ARGUMENT, "--weights %s: there is no size %lld; there are %s", option,
                   (long long)size, text.data);
    kiln_strbuf_deinit(&text);
    return st;
}

kiln_status kiln_weights_option(const char *weights, kiln_sizes *sizes) {
    if (!weights) return KILN_OK;
    if (!sizes->count)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--weights %s: no --dim lists several sizes, as in batch=1,4,8", weights);
    for (kiln_str list = kiln_str_from(weights); list.size;) {
        kiln_str weight = kiln_str_cut(&list, ',');
        const kiln_str name = kiln_str_cut(&weight, ':');
        uint64_t share = 0;
        int64_t size;
        uint32_t i = 0;
        if (!read_size(name, &size) || !kiln_str_to_u64(weight, &share))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "--weights %s: sizes and shares of calls, as in 1:80,8:20", weights);
        while (i < sizes->count && sizes->size[i] != size) i++;
        if (i == sizes->count) return no_such_size(weights, size, sizes);
        sizes->weight[i] = (double)share;
    }
    return KILN_OK;
}

static kiln_opt_list dim_of(const kiln_opt_list *dim, const kiln_sizes *sizes, int64_t size,
                            kiln_arena *process) {
    kiln_opt_list one = {.count = dim->count,
                         .item =
                             kiln_arena_copy(process, dim->item, dim->count * sizeof *dim->item)};
    one.item[sizes->option] =
        kiln_arena_printf(process, "%.*s=%lld", KILN_STR_ARG(sizes->dim), (long long)size);
    return one;
}

kiln_opt_list kiln_sizes_dim(const kiln_opt_list *dim, const kiln_sizes *sizes, uint32_t bucket,
                             kiln_arena *process) {
    return dim_of(dim, sizes, sizes->size[bucket], process);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A model is looked at in sizes 2 and 3, which need be none of the module's, and in the largest:
 * where a port has rows is told by its shapes in two of them. */
typedef struct rows_work {
    int64_t size, other_size;
    const kiln_shape *other; /* [port] in the other size, inputs first; NULL: not known yet */
    uint32_t other_count;
} rows_work;

/* What comes back, before the shapes of the ports. */
typedef struct rows_found {
    uint64_t signature;
    bool independent;
    uint32_t count;
} rows_found;

static bool find_axis(const kiln_shape *shape, const rows_work *work, const kiln_shape *other,
                      kiln_row_axis *out_axis) {
    *out_axis = (kiln_row_axis){KILN_ROWS_NONE, 0};
    if (shape->rank != other->rank) return false;
    for (uint32_t d = 0; d < shape->rank; d++) {
        const int64_t factor = shape->dim[d] / work->size;
        if (shape->dim[d] == other->dim[d]) continue;
        if (out_axis->axis != KILN_ROWS_NONE || factor * work->size != shape->dim[d] ||
            factor * work->other_size != other->dim[d])
            return false;
        *out_axis = (kiln_row_axis){d, factor};
    }
    return true;
}

static bool prove(const rows_work *work, const kiln_graph *graph, const kiln_plan *plan,
                  const kiln_shape *shape, kiln_arena *arena, uint64_t *out_signature) {
    const uint32_t inputs = graph->input.count, count = inputs + graph->output.count;
    kiln_row_axis *axis = KILN_ARENA_ARRAY(arena, kiln_row_axis, count);
    if (work->other_count != count) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!find_axis(&shape[i], work, &work->other[i], &axis[i])) return false;
    return kiln_rows_are_independent(graph, plan, work->size, axis, axis + inputs, out_signature);
}

/* In a process without rights. */
static kiln_status find_rows(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                             kiln_isolated_result *out_result) {
    const rows_work *work = call->work->context;
    kiln_plan plan;
    rows_found *found = KILN_ARENA_NEW(arena, rows_found);
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 2);
    kiln_status st = kiln_passes_run(graph, (kiln_str){0});
    if (!st) st = kiln_plan_create(graph, arena, &plan);
    if (st) return st;
    found->count = graph->input.count + graph->output.count;
    kiln_shape *shape = KILN_ARENA_ARRAY(arena, kiln_shape, found->count);
    for (uint32_t i = 0; i < found->count; i++) {
        const kiln_value v = i < graph->input.count ? graph->input.data[i]
                                                    : graph->output.data[i - graph->input.count];
        shape[i] = graph->value.data[v].shape;
    }
    if (work->other)
        found->independent = prove(work, graph, &plan, shape, arena, &found->signature);
    part[0] = (kiln_str){(const char *)found, sizeof *found};
    part[1] = (kiln_str){(const char *)shape, found->count * sizeof *shape};
    *out_result = (kiln_isolated_result){2, part};
    return KILN_OK;
}

/* Also takes the shapes, as those of the other size for the next look. */
static kiln_status look(const kiln_sizes_model *m, rows_work *work, kiln_arena *process,
                        rows_found *out_found) {
    kiln_import_options import = *m->import;
    const kiln_opt_list dim = dim_of(m->dim, m->sizes, work->size, process);
    kiln_model model = {0};
    kiln_mapping result = {0};
    kiln_model_work model_work = {
        .model = &model, .doing = "looking at", .run = find_rows, .context = work};
    kiln_status st = kiln_dim_option(&dim, process, &import);
    if (!st) st = kiln_model_read(m->path, &import, process, &model);
    if (!st) st = kiln_model_run(&model_work, NULL, process, &result);
    if (!st) {
        memcpy(out_found, result.data, sizeof *out_found);
        work->other_count = out_found->count;
        work->other = kiln_arena_copy(process, (const char *)result.data + sizeof *out_found,
                                      out_found->count * sizeof *work->other);
    }
    kiln_file_unmap(&result);
    kiln_model_deinit(&model);
    return st;
}

/* What holds for 2 and 3 rows need not for more, where a model compares its size with a number: so
 * the largest size must compute a row like them. */
bool kiln_sizes_have_rows(const kiln_sizes_model *model, kiln_arena *process) {
    const int64_t largest = model->sizes->size[model->sizes->count - 1];
    const int64_t size[] = {2, 3, 2, largest};
    const uint32_t count = largest > 3 ? 4 : 3;
    rows_work work = {0};
    rows_found found[KILN_ARRAY_COUNT(size)] = {{0}};
    for (uint32_t i = 0; i < count; i++) {
        work.size = size[i];
        work.other_size = i > 0 ? size[i - 1] : 0;
        kiln_status st = look(model, &work, process, &found[i]);
        const bool proved = !st && (i == 0 || found[i].independent);
        kiln_status_free(st); /* a model that takes neither has the sizes that are listed */
        if (!proved || (i > 1 && found[i].signature != found[1].signature)) return false;
    }
    return true;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Where a port follows the size otherwise than by one extent, no run is padded. */
static bool has_axes(const kiln_module_sizes *sizes) {
    const kiln_module_plan *plan = &sizes->bucket[0].plan;
    kiln_module_axis axis;
    for (uint32_t i = 0; i < plan->input_count; i++)
        if (!kiln_module_find_axis(sizes, false, i, &axis)) return false;
    for (uint32_t i = 0; i < plan->output_count; i++)
        if (!kiln_module_find_axis(sizes, true, i, &axis)) return false;
    return true;
}

kiln_status kiln_sizes_join(const kiln_sizes *sizes, bool has_rows, const kiln_str *module,
                            kiln_arena *process, kiln_module_sizes *out_sizes) {
    kiln_gather_part *part = KILN_ARENA_ARRAY(process, kiln_gather_part, sizes->count);
    for (uint32_t i = 0; i < sizes->count; i++) {
        char *copy =
            kiln_arena_alloc_aligned(process, KILN_MODULE_SECTION_ALIGNMENT, module[i].size);
        memcpy(copy, module[i].data, module[i].size);
        part[i] = (kiln_gather_part){sizes->size[i], {copy, module[i].size}};
    }
    kiln_status st = kiln_module_gather(part, sizes->count, sizes->dim, process, out_sizes);
    if (!st) out_sizes->by_rows = has_rows && has_axes(out_sizes);
    return st;
}

kiln_status kiln_sizes_write(const kiln_module_sizes *module, const kiln_target *target,
                             const char *path, kiln_arena *process, size_t *out_bytes) {
    kiln_strbuf bytes = {0};
    kiln_status st = target->arch == KILN_ARCH_WASM32
                         ? kiln_wasm_module_encode(module, process, &bytes)
                         : kiln_module_encode_sizes(module, &bytes);
    if (!st) st = kiln_file_write(path, kiln_strbuf_view(&bytes), KILN_MODULE_FILE_MODE);
    *out_bytes = bytes.size;
    kiln_strbuf_deinit(&bytes);
    return st;
}

json_t *kiln_sizes_json(const kiln_module_sizes *sizes, const char *event, const char *path,
                        size_t size) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < sizes->bucket_count; i++)
        json_array_append_new(list, json_integer(sizes->bucket[i].size));
    return json_pack("{s:s, s:s, s:I, s:o, s:o, s:b}", "event", event, "module", path, "bytes",
                     (json_int_t)size, "dim", kiln_json_str(sizes->dim), "sizes", list, "takes_all",
                     (int)sizes->by_rows);
}
