/* The two steps of quantising a model, each in a process without rights. */
#include "compiler-core/frontend/onnx/quantize.h"

#include <string.h>

#include "base/isolated/isolated.h"
#include "base/macros.h"
#include "base/mpack.h"
#include "base/opt.h"
#include "compiler-core/frontend/isolated.h"
#include "compiler-core/frontend/onnx/graph_write.h"
#include "compiler-core/frontend/onnx/import.h"
#include "compiler-core/graph/graph_codec.h"

/* The child's result: this head, the graph, the model, the summary. */
typedef struct head {
    uint64_t graph_bytes, model_bytes, summary_bytes;
    char padding[KILN_GRAPH_DATA_ALIGNMENT - 3 * sizeof(uint64_t)];
} head;

typedef struct job {
    const char *path;
    kiln_str bytes; /* of the model */
    char *folder;   /* NULL: it has no external files */
    const kiln_quantize_options *options;
    bool in_process;
    const kiln_quantize_plan *plan;   /* writing: the caller's plan */
    const kiln_quantize_found *found; /* writing */
} job;

/* ---- observed values, as bytes -------------------------------------------------------------- */

static void code_plan(kiln_mpack_coder *m, kiln_arena *arena, kiln_quantize_plan *plan) {
    const bool reads = !m->out;
    kiln_mpack_code_fields(m, 4);
    kiln_mpack_code_below(m, KILN_GRAPH_VALUES_MAX, &plan->output_count);
    kiln_mpack_code_count(m, 2 * KILN_OBSERVED_MAX, "groups", &plan->group_count);
    if (reads && !m->st) plan->group_bits = KILN_ARENA_ARRAY(arena, uint32_t, plan->group_count);
    for (uint32_t i = 0; !m->st && i < plan->group_count; i++)
        kiln_mpack_code_below(m, 9, &plan->group_bits[i]);
    kiln_mpack_code_count(m, KILN_OBSERVED_MAX, "observed values", &plan->observed_count);
    if (reads && !m->st)
        plan->observed = KILN_ARENA_ARRAY(arena, kiln_observed, plan->observed_count);
    for (uint32_t i = 0; !m->st && i < plan->observed_count; i++) {
        kiln_observed *o = &plan->observed[i];
        uint32_t few = o->few_group + 1; /* 0: none */
        kiln_mpack_code_fields(m, 5);
        kiln_mpack_code_str(m, &o->name);
        kiln_mpack_code_bool(m, &o->quantised);
        kiln_mpack_code_below(m, KILN_MAX(plan->group_count, 1), &o->group);
        kiln_mpack_code_below(m, plan->group_count + 1, &few);
        o->few_group = few - 1;
        kiln_mpack_code_below(m, KILN_RANK_MAX, &o->mean_axis);
    }
    kiln_mpack_code_count(m, KILN_GRAPH_NODES_MAX, "layers", &plan->layer_count);
    if (reads && !m->st)
        plan->layer = KILN_ARENA_ARRAY(arena, kiln_quantize_layer, plan->layer_count);
    for (uint32_t i = 0; !m->st && i < plan->layer_count; i++) {
        kiln_quantize_layer *layer = &plan->layer[i];
        kiln_mpack_code_fields(m, 5);
        kiln_mpack_code_str(m, &layer->name);
        kiln_mpack_code_str(m, &layer->op);
        kiln_mpack_code_below(m, plan->observed_count, &layer->result);
        kiln_mpack_code_below(m, 9, &layer->weight_bits);
        kiln_mpack_code_below(m, 9, &layer->activation_bits);
    }
}

kiln_quantization *kiln_quantize_choose(const kiln_quantize_plan *plan, const kiln_histogram *seen,
                                        kiln_quantize_method method, bool shift,
                                        kiln_arena *arena) {
    kiln_quantization *group = KILN_ARENA_ARRAY(arena, kiln_quantization, plan->group_count);
    for (uint32_t g = 0; g < plan->group_count; g++) {
        kiln_histogram all = {0};
        for (uint32_t i = 0; i < plan->observed_count; i++) {
            const kiln_observed *o = &plan->observed[i];
            if (o->quantised && (o->group == g || o->few_group == g))
                kiln_histogram_merge(&all, &seen[i]);
        }
        const kiln_quantize_form form = {plan->group_bits[g], shift};
        group[g] = kiln_quantize_activation(&all, method, form);
    }
    return group;
}

/* Writes the parts of a result. */
static kiln_isolated_result give(const kiln_graph *graph, kiln_str model, kiln_str summary,
                                 kiln_arena *arena) {
    const kiln_graph_bytes encoded = kiln_graph_encode(graph, arena);
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, encoded.part_count + 3);
    head *begin = KILN_ARENA_NEW(arena, head);
    *begin = (head){
        .graph_bytes = encoded.size, .model_bytes = model.size, .summary_bytes = summary.size};
    part[0] = (kiln_str){(const char *)begin, sizeof *begin};
    memcpy(part + 1, encoded.part, encoded.part_count * sizeof *part);
    part[encoded.part_count + 1] = model;
    part[encoded.part_count + 2] = summary;
    return (kiln_isolated_result){encoded.part_count + 3, part};
}

/* Reads them from a mapping. */
static kiln_status take(const kiln_mapping *bytes, kiln_str *out_graph, kiln_str *out_model,
                        kiln_str *out_summary) {
    head begin;
    kiln_str rest = {bytes->data, bytes->size};
    if (rest.size < sizeof begin) return KILN_ERROR(DATA_LOSS, "the quantised model is truncated");
    memcpy(&begin, rest.data, sizeof begin);
    rest = kiln_str_slice(rest, sizeof begin, rest.size);
    const uint64_t size[] = {begin.graph_bytes, begin.model_bytes, begin.summary_bytes};
    kiln_str *const part[] = {out_graph, out_model, out_summary};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(size); i++) {
        if (size[i] > rest.size) return KILN_ERROR(DATA_LOSS, "the quantised model is truncated");
        *part[i] = kiln_str_slice(rest, 0, (size_t)size[i]);
        rest = kiln_str_slice(rest, (size_t)size[i], rest.size);
    }
    return KILN_OK;
}

/* ---- in a process without rights ------------------------------------------------------------- */

static kiln_import_options import_options(const job *j) {
    kiln_import_options options =
        j->options->import ? *j->options->import : (kiln_import_options){0};
    options.open = j->in_process ? NULL : kiln_isolated_open;
    return options;
}

/* The graph of a model with further outputs. */
static kiln_status import_observed(kiln_onnx_edit *edit, char *const *name, uint32_t count,
                                   const kiln_import_options *options, kiln_graph **out_graph) {
    const uint32_t own = edit->output.count;
    for (uint32_t i = 0; i < count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < own && !known; k++)
            known = edit->output.data[k]->name && strcmp(edit->output.data[k]->name, name[i]) == 0;
        if (!known) kiln_onnx_edit_add_output(edit, name[i]);
    }
    return kiln_import_model(kiln_onnx_edit_model(edit), NULL, options, edit->arena, out_graph);
}

static char **observed_names(const kiln_quantize_plan *plan, kiln_arena *arena) {
    char **name = KILN_ARENA_ARRAY(arena, char *, plan->observed_count);
    for (uint32_t i = 0; i < plan->observed_count; i++)
        name[i] = kiln_str_dup(arena, plan->observed[i].name);
    return name;
}

static kiln_status prepare(const job *j, kiln_onnx_edit *edit, kiln_isolated_result *out_result) {
    const kiln_import_options options = import_options(j);
    kiln_arena *arena = edit->arena;
    kiln_quantize_plan plan = {0};
    kiln_sites sites = {0};
    kiln_graph *graph = NULL;
    kiln_strbuf summary = {0};
    kiln_str model = {0};
    kiln_status st = kiln_onnx_quantize_check(edit);
    if (!st) st = kiln_onnx_raise_opset(edit, kiln_onnx_quantize_opset(j->options));
    if (st) return st;
    kiln_onnx_fold_norms(edit);
    st = kiln_onnx_edit_pack(edit, &model);
    kiln_sites_init(&sites, edit, j->options);
    if (!st) st = kiln_sites_plan(&sites, edit, &plan);
    kiln_sites_deinit(&sites);
    if (!st)
        st = import_observed(edit, observed_names(&plan, arena), plan.observed_count, &options,
                             &graph);
    kiln_mpack_coder m = {.out = &summary};
    if (!st) code_plan(&m, arena, &plan);
    if (!st) *out_result = give(graph, model, kiln_strbuf_end(&summary, arena), arena);
    kiln_strbuf_deinit(&summary);
    return st ? st : m.st;
}

/* The bytes of an ONNX model: the file's, or of the model converted from a file of another kind. */
static kiln_status as_onnx(const job *j, kiln_arena *arena, kiln_str *out_bytes) {
    const kiln_import_options options = import_options(j);
    const char *kind = kiln_import_kind(j->bytes);
    kiln_graph *graph = NULL;
    *out_bytes = j->bytes;
    if (!kind || strcmp(kind, "onnx") == 0) return KILN_OK;
    kiln_status st = kiln_import_bytes(j->bytes, NULL, &options, arena, &graph);
    return st ? st : kiln_onnx_of_graph(graph, arena, out_bytes);
}

static kiln_status read_isolated(void *context, kiln_arena *arena,
                                 kiln_isolated_result *out_result) {
    const job *j = context;
    const kiln_onnx_files files = {j->folder, j->in_process ? NULL : kiln_isolated_open};
    const uint64_t mib = j->options->import ? j->options->import->memory_mib : 0;
    kiln_onnx_edit edit;
    kiln_str bytes;
    kiln_status st = as_onnx(j, arena, &bytes);
    if (st) return kiln_status_note(st, "%s", j->path);
    st = kiln_onnx_edit_init(&edit, bytes, &files, mib ? mib << 20 : KILN_ISOLATED_MEMORY_BYTES,
                             arena);
    if (!st) st = prepare(j, &edit, out_result);
    kiln_onnx_edit_deinit(&edit);
    return kiln_status_note(st, "%s", j->path);
}

static kiln_status rewrite(const job *j, kiln_onnx_edit *edit, kiln_isolated_result *out_result) {
    const kiln_import_options options = import_options(j);
    kiln_quantize_plan plan = {0};
    kiln_sites sites = {0};
    kiln_graph *graph = NULL;
    char **name = NULL;
    kiln_str model = {0};
    kiln_sites_init(&sites, edit, j->options);
    kiln_status st = kiln_sites_plan(&sites, edit, &plan);
    if (!st && (plan.observed_count != j->plan->observed_count ||
                plan.group_count != j->plan->group_count))
        st = KILN_ERROR(DATA_LOSS, "it is not the model that was observed");
    if (!st) kiln_onnx_quantize(edit, &sites, &plan, j->found, j->options, &name);
    kiln_sites_deinit(&sites);
    if (!st) st = kiln_onnx_edit_pack(edit, &model);
    if (!st) st = import_observed(edit, name, plan.observed_count, &options, &graph);
    if (!st) {
        for (uint32_t i = 0; i < plan.observed_count; i++)
            plan.observed[i].name = kiln_str_from(name[i]);
        kiln_strbuf summary = {0};
        kiln_mpack_coder m = {.out = &summary};
        code_plan(&m, edit->arena, &plan);
        *out_result = give(graph, model, kiln_strbuf_end(&summary, edit->arena), edit->arena);
        kiln_strbuf_deinit(&summary);
        st = m.st;
    }
    return st;
}

static kiln_status write_isolated(void *context, kiln_arena *arena,
                                  kiln_isolated_result *out_result) {
    const job *j = context;
    kiln_onnx_edit edit;
    kiln_status st = kiln_onnx_edit_init(&edit, j->bytes, &(kiln_onnx_files){0}, 0, arena);
    if (!st) st = rewrite(j, &edit, out_result);
    kiln_onnx_edit_deinit(&edit);
    return kiln_status_note(st, "%s", j->path);
}

/* ---- in this process ------------------------------------------------------------ */

static kiln_status quantize_expected(kiln_onnx_edit *edit, const kiln_quantize_options *options,
                                     void (*expect)(void *context, kiln_str name,
                                                    kiln_histogram *out),
                                     void *context, kiln_str *out_model) {
    kiln_arena *arena = edit->arena;
    kiln_quantize_plan plan = {0};
    kiln_sites sites = {0};
    char **name = NULL;
    kiln_status st = kiln_onnx_quantize_check(edit);
    if (!st) st = kiln_onnx_raise_opset(edit, kiln_onnx_quantize_opset(options));
    if (st) return st;
    kiln_onnx_fold_norms(edit);
    kiln_sites_init(&sites, edit, options);
    st = kiln_sites_plan(&sites, edit, &plan);
    if (!st) {
        kiln_histogram *seen = KILN_ARENA_ARRAY(arena, kiln_histogram, plan.observed_count);
        for (uint32_t i = 0; i < plan.observed_count; i++)
            expect(context, plan.observed[i].name, &seen[i]);
        const kiln_quantize_found found = {
            kiln_quantize_choose(&plan, seen, KILN_QUANTIZE_MSE, options->shift, arena),
            KILN_ARENA_ARRAY(arena, const double *, plan.observed_count),
            KILN_ARENA_ARRAY(arena, uint32_t, plan.observed_count)};
        kiln_onnx_quantize(edit, &sites, &plan, &found, options, &name);
        st = kiln_onnx_edit_pack(edit, out_model);
    }
    kiln_sites_deinit(&sites);
    return st;
}

kiln_status kiln_quantize_expected(kiln_str model, const kiln_quantize_options *options,
                                   void (*expect)(void *context, kiln_str name,
                                                  kiln_histogram *out),
                                   void *context, kiln_arena *arena, kiln_str *out_model) {
    kiln_onnx_edit edit;
    kiln_status st = kiln_onnx_edit_init(&edit, model, &(kiln_onnx_files){0}, 0, arena);
    if (!st) st = quantize_expected(&edit, options, expect, context, out_model);
    kiln_onnx_edit_deinit(&edit);
    return st;
}

/* ---- the caller's side ----------------------------------------------------------------------- */

static kiln_status run_isolated(job *j, const char *doing,
                                kiln_status (*run)(void *context, kiln_arena *arena,
                                                   kiln_isolated_result *out_result),
                                kiln_arena *arena, kiln_mapping *out_bytes) {
    static const kiln_import_options nothing;
    kiln_isolated_work work = {.what = kiln_arena_printf(arena, "%s %s", doing, j->path),
                               .run = run,
                               .context = j,
                               .folder = j->folder};
    j->in_process = work.in_process = kiln_env("KILN_NO_ISOLATION") != NULL;
    kiln_status st = kiln_memory_limit(j->options->import ? j->options->import : &nothing,
                                       &work.limits.memory_bytes);
    return st ? st : kiln_isolated_run(&work, out_bytes);
}

kiln_status kiln_quantize_read(const char *path, const kiln_quantize_options *options,
                               kiln_arena *arena, kiln_quantize_plan *out_plan) {
    kiln_mapping file = {0};
    kiln_quantize_plan plan = {0};
    kiln_str summary = {0};
    kiln_status st = kiln_model_file_map(path, &file);
    job j = {.path = path,
             .bytes = {file.data, file.size},
             .folder = kiln_folder_of(path, arena),
             .options = options};
    if (!st) st = run_isolated(&j, "reading", read_isolated, arena, &plan.bytes);
    kiln_file_unmap(&file);
    if (!st) st = take(&plan.bytes, &plan.graph, &plan.model, &summary);
    if (!st) {
        kiln_mpack_coder m = {0};
        kiln_mpack_reader_init(&m.in, summary.data, summary.size);
        code_plan(&m, arena, &plan);
        st = m.st;
    }
    if (st)
        kiln_file_unmap(&plan.bytes);
    else
        *out_plan = plan;
    return st;
}

kiln_status kiln_quantize_write(const char *path, const kiln_quantize_plan *plan,
                                const kiln_quantize_found *found,
                                const kiln_quantize_options *options, kiln_arena *arena,
                                kiln_quantised_model *out_model) {
    kiln_quantised_model model = {0};
    kiln_str summary = {0};
    job j = {.path = path, .bytes = plan->model, .options = options, .plan = plan, .found = found};
    kiln_status st = run_isolated(&j, "quantising", write_isolated, arena, &model.bytes);
    if (!st) st = take(&model.bytes, &model.graph, &model.model, &summary);
    if (!st) {
        kiln_quantize_plan named = {0};
        kiln_mpack_coder m = {0};
        kiln_mpack_reader_init(&m.in, summary.data, summary.size);
        code_plan(&m, arena, &named);
        st = m.st;
        if (!st && named.observed_count != plan->observed_count)
            st = KILN_ERROR(DATA_LOSS, "the quantised model lists other values");
        model.observed = named.observed;
    }
    if (st)
        kiln_file_unmap(&model.bytes);
    else
        *out_model = model;
    return st;
}
