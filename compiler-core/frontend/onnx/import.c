/* The walk over a model's graph. Nodes are in topological order, so one pass imports them, infers
 * their shapes and can evaluate values that later nodes need. Unsupported nodes are collected; a
 * node that depends on such a node is still checked, so that one run lists everything. */
#include "compiler-core/frontend/onnx/import.h"

#include <string.h>

#include "base/isolated/isolated.h"
#include "compiler-core/graph/op.h"

static const kiln_import_row import_table[] = {
#define X(name, since, op, how, spec) {name, since, KILN_OP_##op, kiln_import_##how, spec},
#include "compiler-core/frontend/onnx/nodes.def"
#undef X
};

static const kiln_import_row contributed_table[] = {
#define X(name, since, op, how, spec) {name, since, KILN_OP_##op, kiln_import_##how, spec},
#include "compiler-core/frontend/onnx/contributed.def"
#undef X
};

static const kiln_import_row preview_table[] = {
#define X(name, since, op, how, spec) {name, since, KILN_OP_##op, kiln_import_##how, spec},
#include "compiler-core/frontend/onnx/preview.def"
#undef X
};

static const kiln_import_row ml_table[] = {
#define X(name, since, op, how, spec) {name, since, KILN_OP_##op, kiln_import_##how, spec},
#include "compiler-core/frontend/onnx/ml.def"
#undef X
};

static const kiln_import_row own_table[] = {
#define X(name, since, op, how, spec) {name, since, KILN_OP_##op, kiln_import_##how, spec},
#include "compiler-core/frontend/onnx/own.def"
#undef X
};

static const struct {
    const char *domain;
    const kiln_import_row *row;
    size_t count;
} domain_table[] = {
    {"", import_table, KILN_ARRAY_COUNT(import_table)},
    {"ai.onnx", import_table, KILN_ARRAY_COUNT(import_table)},
    {"com.microsoft", contributed_table, KILN_ARRAY_COUNT(contributed_table)},
    {"ai.onnx.ml", ml_table, KILN_ARRAY_COUNT(ml_table)},
    {"ai.onnx.preview", preview_table, KILN_ARRAY_COUNT(preview_table)},
    {"ai.kiln", own_table, KILN_ARRAY_COUNT(own_table)},
};

/* Importers that emit one node of the row's operator, with the same attributes. */
static const kiln_import_function plain_import[] = {kiln_import_node,
                                                    kiln_import_conv,
                                                    kiln_import_gemm,
                                                    kiln_import_matmul,
                                                    kiln_import_concat,
                                                    kiln_import_cast,
                                                    kiln_import_identity,
                                                    kiln_import_quantize_linear,
                                                    kiln_import_dequantize_linear};

static bool is_plain(const kiln_import_row *row) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(plain_import); i++)
        if (row->import == plain_import[i]) return true;
    return false;
}

const kiln_import_row *kiln_import_row_of(kiln_op op, int64_t opset) {
    const kiln_import_row *found = NULL;
    for (size_t i = 0; op != KILN_OP_NONE && i < KILN_ARRAY_COUNT(import_table); i++) {
        const kiln_import_row *row = &import_table[i];
        if (row->op == op && row->since <= opset && is_plain(row) &&
            (!found || row->since > found->since))
            found = row;
    }
    return found;
}

/* ---- findings -------------------------------------------------------------------------------- */

/* Whether an error means that the model is not supported: then it is listed and freed. */
static bool is_listed(kiln_importer *im, kiln_status st, const char *of, kiln_str name) {
    if (!st || kiln_status_code(st) != KILN_UNIMPLEMENTED) return false;
    kiln_problems_add(&im->problems, "%s \"%.*s\": %s", of, KILN_STR_ARG(name),
                      kiln_status_text(st));
    kiln_status_free(st); /* its text is in the list */
    return true;
}

static const char *first_output(const Onnx__NodeProto *node) {
    for (size_t i = 0; i < node->n_output; i++)
        if (*node->output[i]) return node->output[i];
    return "";
}

/* A node's name, or its first output's name when it has none. */
const char *kiln_import_node_name(const Onnx__NodeProto *node) {
    return node->name && *node->name ? node->name : first_output(node);
}

void kiln_import_add_problem(kiln_importer *im, kiln_status st) {
    kiln_problems_add(&im->problems, "node \"%s\": %s (opset %lld): %s",
                      kiln_import_node_name(im->node), im->node->op_type ? im->node->op_type : "",
                      (long long)im->opset, kiln_status_text(st));
    kiln_status_free(st); /* its text is in the list */
}

/* ---- names and values ------------------------------------------------------------------------ */

bool kiln_import_is_poison(const kiln_importer *im, const char *name) {
    uint64_t value;
    return kiln_map_find(&im->value, kiln_proto_text(name), &value) && value == KILN_IMPORT_POISON;
}

bool kiln_import_reads_poison(const kiln_importer *im) {
    for (size_t i = 0; i < im->node->n_input; i++)
        if (kiln_import_is_poison(im, im->node->input[i])) return true;
    return false;
}

kiln_value kiln_import_input(const kiln_importer *im, uint32_t index) {
    uint64_t value = 0;
    if (index >= im->node->n_input || !*im->node->input[index]) return 0;
    kiln_map_find(&im->value, kiln_proto_text(im->node->input[index]), &value);
    return value == KILN_IMPORT_POISON ? 0 : (kiln_value)value;
}

void kiln_import_define(kiln_importer *im, uint32_t index, kiln_value value) {
    if (index < im->node->n_output && *im->node->output[index])
        kiln_map_put(&im->value, kiln_proto_text(im->node->output[index]),
                     value ? value : KILN_IMPORT_POISON);
}

kiln_value kiln_import_defined(const kiln_importer *im, uint32_t index) {
    uint64_t value = 0;
    kiln_map_find(&im->value, kiln_proto_text(im->node->output[index]), &value);
    return value == KILN_IMPORT_POISON ? 0 : (kiln_value)value;
}

/* `wanted`, with a number when that is taken. */
static kiln_str unique_name(kiln_importer *im, const char *wanted) {
    kiln_str name = kiln_str_from(wanted);
    while (!kiln_map_put(&im->taken, name, 0))
        name = kiln_str_printf(im->graph->arena, "%s.%u", wanted, ++im->fresh_count);
    return name;
}

static kiln_str scoped_name(kiln_importer *im, const char *name) {
    if (!*im->scope) return kiln_proto_text(name); /* names in the model take precedence */
    return unique_name(im,
                       kiln_arena_printf(im->graph->arena, "%s/%s", im->scope, name ? name : ""));
}

kiln_str kiln_import_output_name(kiln_importer *im, uint32_t index) {
    return scoped_name(im, im->node->output[index]);
}

kiln_str kiln_import_fresh_name(kiln_importer *im) {
    const char *base = kiln_import_node_name(im->node);
    if (*im->scope) base = kiln_arena_printf(im->graph->arena, "%s/%s", im->scope, base);
    return unique_name(im, base);
}

kiln_status kiln_import_take_memory(kiln_importer *im, size_t size_bytes) {
    if (size_bytes > KILN_MADE_BYTES_MAX - im->made_bytes)
        return KILN_ERROR(OUT_OF_RANGE,
                          "constants that the model's nodes make take more than %llu bytes",
                          (unsigned long long)KILN_MADE_BYTES_MAX);
    im->made_bytes += size_bytes;
    return KILN_OK;
}

uint32_t kiln_import_bits(const kiln_importer *im, kiln_value value) {
    return value < im->bits.count ? im->bits.data[value] : 0;
}

void kiln_import_set_bits(kiln_importer *im, kiln_value value, uint32_t bits) {
    if (!bits) return;
    while (im->bits.count <= value) kiln_vec_push_in(im->graph->arena, &im->bits, 0);
    im->bits.data[value] = (uint8_t)bits;
}

/* Integers of few bits are only moved, by operators whose results have the type of input 0. */
static void pass_bits_on(kiln_importer *im) {
    const kiln_value from = kiln_import_input(im, 0);
    const uint32_t bits = kiln_import_bits(im, from);
    for (uint32_t i = 0; bits && i < im->node->n_output; i++) {
        const kiln_value to = *im->node->output[i] ? kiln_import_defined(im, i) : 0;
        if (to && im->graph->value.data[to].dtype == im->graph->value.data[from].dtype)
            kiln_import_set_bits(im, to, bits);
    }
}

void kiln_import_define_constant(kiln_importer *im, const kiln_tensor *tensor) {
    kiln_value value = kiln_graph_add_named_value(im->graph, kiln_import_output_name(im, 0));
    kiln_graph_set_constant(im->graph, value, tensor);
    kiln_import_define(im, 0, value);
}

static const kiln_named_tensor *find_known(const kiln_importer *im, kiln_str name) {
    for (uint32_t i = 0; i < im->options->known_count; i++)
        if (kiln_str_equal(im->options->known[i].name, name)) return &im->options->known[i];
    return NULL;
}

/* Graph inputs that `value` depends on become constants where the caller knows their data. */
static void bind_known_inputs(kiln_importer *im, kiln_value value) {
    kiln_graph *graph = im->graph;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    bool *needed = KILN_ARENA_ARRAY(&scratch, bool, graph->value.count);
    needed[value] = true;
    for (kiln_node n = graph->node.count; n-- > 1;) {
        const kiln_node_info *node = &graph->node.data[n];
        bool used = false;
        for (uint32_t i = 0; i < node->output_count; i++) used = used || needed[node->output[i]];
        for (uint32_t i = 0; used && i < node->input_count; i++) needed[node->input[i]] = true;
        needed[0] = false;
    }
    for (uint32_t i = 0; i < graph->input.count; i++) {
        kiln_value v = graph->input.data[i];
        const kiln_named_tensor *known = needed[v] && !kiln_value_is_constant(graph, v)
                                             ? find_known(im, graph->value.data[v].name)
                                             : NULL;
        if (!known) continue;
        kiln_graph_set_constant(graph, v, &known->tensor);
        im->bound_count++;
    }
    kiln_arena_deinit(&scratch);
}

kiln_status kiln_import_evaluate(kiln_importer *im, kiln_value value, kiln_tensor *out_tensor) {
    if (im->options->known_count && kiln_value_awaits(im->graph, value, &im->evaluation))
        bind_known_inputs(im, value);
    return kiln_value_evaluate(im->graph, value, &im->evaluation, out_tensor);
}

kiln_status kiln_import_demand(kiln_importer *im, uint32_t index, kiln_tensor *out_tensor) {
    kiln_value value = kiln_import_input(im, index);
    if (!value) return KILN_ERROR(INVALID_ARGUMENT, "input %u is missing", index);
    kiln_status st = kiln_import_evaluate(im, value, out_tensor);
    return kiln_status_note(st, "input %u must be known when compiling", index);
}

static kiln_status demand_one(kiln_importer *im, uint32_t index, kiln_tensor *out_tensor) {
    kiln_status st = kiln_import_demand(im, index, out_tensor);
    if (st) return st;
    return kiln_shape_count(&out_tensor->shape) == 1
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "input %u must hold one number", index);
}

kiln_status kiln_import_demand_int(kiln_importer *im, uint32_t index, int64_t *out_value) {
    kiln_tensor tensor;
    kiln_status st = demand_one(im, index, &tensor);
    if (!st && kiln_dtype_is_float(tensor.dtype))
        st = KILN_ERROR(INVALID_ARGUMENT, "input %u must hold an integer", index);
    if (!st) *out_value = kiln_dtype_load_i64(tensor.dtype, tensor.data, 0);
    return st;
}

kiln_status kiln_import_demand_float(kiln_importer *im, uint32_t index, double *out_value) {
    kiln_tensor tensor;
    kiln_status st = demand_one(im, index, &tensor);
    if (!st) *out_value = kiln_dtype_load_f64(tensor.dtype, tensor.data, 0);
    return st;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static const kiln_import_row *find_row(const Onnx__NodeProto *node, int64_t opset) {
    const kiln_import_row *best = NULL;
    const char *domain = node->domain ? node->domain : "";
    for (size_t d = 0; node->op_type && d < KILN_ARRAY_COUNT(domain_table); d++) {
        if (strcmp(domain_table[d].domain, domain) != 0) continue;
        for (size_t i = 0; i < domain_table[d].count; i++) {
            const kiln_import_row *row = &domain_table[d].row[i];
            if (strcmp(row->name, node->op_type) == 0 && row->since <= opset &&
                (!best || row->since > best->since))
                best = row;
        }
    }
    return best;
}

static void poison_outputs(kiln_importer *im) {
    for (size_t i = 0; i < im->node->n_output; i++)
        if (*im->node->output[i])
            kiln_map_put(&im->value, kiln_proto_text(im->node->output[i]), KILN_IMPORT_POISON);
}

static kiln_status check_names(kiln_importer *im) {
    uint64_t value;
    for (size_t i = 0; i < im->node->n_input; i++)
        if (*im->node->input[i] &&
            !kiln_map_find(&im->value, kiln_proto_text(im->node->input[i]), &value))
            return KILN_ERROR(INVALID_ARGUMENT, "input \"%s\" is produced by no earlier node",
                              im->node->input[i]);
    for (size_t i = 0; i < im->node->n_output; i++)
        if (*im->node->output[i] &&
            kiln_map_find(&im->value, kiln_proto_text(im->node->output[i]), &value))
            return KILN_ERROR(INVALID_ARGUMENT, "output \"%s\" is defined twice",
                              im->node->output[i]);
    return *first_output(im->node) ? KILN_OK : KILN_ERROR(INVALID_ARGUMENT, "it has no output");
}

/* A value whose length is known at run time only cannot be read, not even its shape. */
static kiln_status check_lengths(kiln_importer *im) {
    uint64_t value = 0;
    for (size_t i = 0; i < im->node->n_input; i++)
        if (kiln_map_find(&im->value, kiln_proto_text(im->node->input[i]), &value) &&
            value != KILN_IMPORT_POISON && kiln_loop_grows(im->graph, (kiln_value)value))
            return KILN_ERROR(
                UNIMPLEMENTED,
                "it reads \"%s\", which has as many rows as a loop runs, known at run "
                "time only; such a value can be an output of the model, no more",
                im->node->input[i]);
    return KILN_OK;
}

static kiln_status import_one(kiln_importer *im) {
    const Onnx__NodeProto *node = im->node;
    const kiln_import_row *row = im->row = find_row(node, im->opset);
    uint32_t before = im->problems.count;
    const Onnx__FunctionProto *function = NULL;
    kiln_status st = check_names(im);
    if (!st && !row) st = kiln_import_find_function(im, node, &function);
    if (!st && !row && !function) {
        bool foreign = node->domain && *node->domain;
        st = foreign ? KILN_ERROR(UNIMPLEMENTED, "operator of domain %s", node->domain)
                     : KILN_ERROR(UNIMPLEMENTED, "operator");
    }
    const bool composed = function || (row && row->op == KILN_OP_NONE);
    if (!st) st = check_lengths(im);
    if (!st && kiln_import_reads_list(im) && !function && strcmp(row->spec, "~") != 0)
        st = KILN_ERROR(UNIMPLEMENTED, "it reads a sequence");
    if (!st && !(composed && kiln_import_reads_poison(im)))
        st = function ? kiln_import_inline(im, function) : row->import(im);
    if (!st && row && row->op != KILN_OP_CAST && row->op != KILN_OP_BIT_CAST) pass_bits_on(im);
    if (st && kiln_status_code(st) != KILN_UNIMPLEMENTED)
        return kiln_status_note(st, "node \"%s\": %s (opset %lld)", kiln_import_node_name(node),
                                node->op_type ? node->op_type : "", (long long)im->opset);
    if (st) kiln_import_add_problem(im, st);
    if (im->problems.count != before || kiln_import_reads_poison(im)) poison_outputs(im);
    return KILN_OK;
}

/* ---- inputs, initialisers, outputs ----------------------------------------------------------- */

/* External files may be huge sparse files: all sizes are added up before any file is read. */
static kiln_status check_external(const kiln_importer *im, const Onnx__GraphProto *graph) {
    const uint64_t mib = im->options->memory_mib
                             ? KILN_MIN(im->options->memory_mib, UINT64_MAX >> 20)
                             : KILN_ISOLATED_MEMORY_BYTES >> 20;
    uint64_t bytes = 0;
    for (size_t i = 0; i < graph->n_initializer && bytes >> 20 <= mib; i++)
        bytes += kiln_onnx_external_bytes(graph->initializer[i]);
    return bytes >> 20 < mib || bytes == 0
               ? KILN_OK
               : KILN_ERROR(RESOURCE_EXHAUSTED,
                            "its tensors name %llu MiB or more of external data, and at most %llu "
                            "are read (--model-memory allows more)",
                            (unsigned long long)(bytes >> 20), (unsigned long long)mib);
}

/* Frees the fields that hold weights. */
static void release_data(Onnx__TensorProto *proto) {
    kiln_onnx_allocator->free(NULL, proto->raw_data.data);
    kiln_onnx_allocator->free(NULL, proto->float_data);
    proto->raw_data = (ProtobufCBinaryData){0};
    proto->float_data = NULL;
    proto->n_float_data = 0;
}

static kiln_status import_initializers(kiln_importer *im, const Onnx__GraphProto *graph) {
    kiln_status external = check_external(im, graph);
    if (external) return external;
    if (graph->n_sparse_initializer) kiln_problems_add(&im->problems, "sparse initialisers");
    for (size_t i = 0; i < graph->n_initializer; i++) {
        Onnx__TensorProto *proto = graph->initializer[i];
        kiln_tensor tensor;
        kiln_str name = kiln_proto_text(proto->name);
        if (im->graph->value.count == KILN_GRAPH_VALUES_MAX)
            return KILN_ERROR(OUT_OF_RANGE, "too many tensors");
        kiln_status st =
            kiln_onnx_tensor(proto, &im->files, &im->budget_bytes, im->graph->arena, &tensor);
        if (im->once && graph == im->model->graph) release_data(proto); /* bodies are read again */
        bool unsupported = is_listed(im, st, "initialiser", name);
        if (st && !unsupported)
            return kiln_status_note(st, "initialiser \"%.*s\"", KILN_STR_ARG(name));
        kiln_value value = kiln_graph_add_named_value(im->graph, scoped_name(im, proto->name));
        if (!unsupported) {
            kiln_graph_set_constant(im->graph, value, &tensor);
            kiln_import_set_bits(im, value, kiln_onnx_tensor_bits(proto));
        }
        if (!kiln_map_put(&im->value, name, unsupported ? KILN_IMPORT_POISON : value))
            return KILN_ERROR(INVALID_ARGUMENT, "initialiser \"%.*s\" is defined twice",
                              KILN_STR_ARG(name));
    }
    return KILN_OK;
}

/* `known`: its extent in the caller's data, or -1. */
static kiln_status read_dimension(const kiln_importer *im, const Onnx__ValueInfoProto *info,
                                  size_t place, int64_t known, int64_t *out_extent) {
    const Onnx__TensorShapeProto__Dimension *dim = info->type->tensor_type->shape->dim[place];
    if (!kiln_onnx_dim_is_open(dim)) {
        *out_extent = dim->dim_value;
        return KILN_OK;
    }
    kiln_str name = kiln_onnx_dim_name(info, place, im->graph->arena);
    if (kiln_onnx_dim_find(im->options, name, out_extent)) return KILN_OK;
    if (known >= 0) {
        *out_extent = known;
        return KILN_OK;
    }
    return KILN_ERROR(UNIMPLEMENTED, "dimension \"%.*s\" is open; give it a size: --dim %.*s=N",
                      KILN_STR_ARG(name), KILN_STR_ARG(name));
}

static kiln_status read_type(const kiln_importer *im, const Onnx__ValueInfoProto *info,
                             kiln_dtype *out_dtype, uint32_t *out_bits, kiln_shape *out_shape) {
    const Onnx__TypeProto *type = info->type;
    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return KILN_ERROR(UNIMPLEMENTED, "it is not a tensor");
    if (!kiln_onnx_type_find(type->tensor_type->elem_type, out_dtype, out_bits))
        return KILN_ERROR(UNIMPLEMENTED, "elements of ONNX type %d", type->tensor_type->elem_type);
    const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
    if (!shape) return KILN_ERROR(UNIMPLEMENTED, "it has no shape");
    if (shape->n_dim > KILN_RANK_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "%zu dimensions, at most %u are supported", shape->n_dim,
                          KILN_RANK_MAX);
    *out_shape = (kiln_shape){.rank = (uint32_t)shape->n_dim};
    const kiln_named_tensor *known = find_known(im, kiln_proto_text(info->name));
    bool fits = known && known->tensor.shape.rank == shape->n_dim;
    kiln_status st = KILN_OK;
    for (size_t d = 0; !st && d < shape->n_dim; d++)
        st =
            read_dimension(im, info, d, fits ? known->tensor.shape.dim[d] : -1, &out_shape->dim[d]);
    size_t size_bytes;
    return st ? st : kiln_shape_bytes(out_shape, *out_dtype, &size_bytes);
}

static kiln_status import_inputs(kiln_importer *im, const Onnx__GraphProto *graph) {
    for (size_t i = 0; i < graph->n_input; i++) {
        kiln_str name = kiln_proto_text(graph->input[i]->name);
        kiln_dtype dtype;
        kiln_shape shape;
        uint32_t bits;
        uint64_t value;
        if (kiln_map_find(&im->value, name, &value)) {
            if (value == KILN_IMPORT_POISON || kiln_value_is_constant(im->graph, (kiln_value)value))
                continue; /* an initialiser that is listed as an input, too */
            return KILN_ERROR(INVALID_ARGUMENT, "two inputs of the model are called \"%.*s\"",
                              KILN_STR_ARG(name));
        }
        kiln_status st = read_type(im, graph->input[i], &dtype, &bits, &shape);
        const bool unsupported = is_listed(im, st, "input", name);
        if (st && !unsupported) return kiln_status_note(st, "input \"%.*s\"", KILN_STR_ARG(name));
        value =
            unsupported ? KILN_IMPORT_POISON : kiln_graph_add_input(im->graph, name, dtype, &shape);
        kiln_map_put(&im->value, name, value);
        if (!unsupported) kiln_import_set_bits(im, (kiln_value)value, bits);
    }
    return KILN_OK;
}

/* An output's value under the output's name, which becomes the name of the module's port. */
static kiln_value named_output(kiln_importer *im, kiln_str name, kiln_value value) {
    kiln_graph *graph = im->graph;
    kiln_value_info *info = &graph->value.data[value];
    bool free_to_rename = info->producer != 0;
    if (kiln_str_equal(info->name, name)) return value;
    for (uint32_t i = 0; i < graph->output.count; i++)
        free_to_rename = free_to_rename && graph->output.data[i] != value;
    if (free_to_rename) {
        kiln_graph_rename_value(graph, value, name);
        return value;
    }
    kiln_node node = kiln_graph_add_node(graph, KILN_OP_IDENTITY, name, 1, 1);
    kiln_graph_set_input(graph, node, 0, value);
    kiln_value copy = kiln_graph_add_named_value(graph, name);
    graph->value.data[copy].dtype = graph->value.data[value].dtype;
    graph->value.data[copy].shape = graph->value.data[value].shape;
    kiln_graph_set_output(graph, node, 0, copy);
    return copy;
}

static kiln_status check_output_names(const Onnx__GraphProto *graph) {
    kiln_map seen;
    kiln_status st = KILN_OK;
    kiln_map_init(&seen);
    for (size_t i = 0; !st && i < graph->n_output; i++) {
        kiln_str name = kiln_proto_text(graph->output[i]->name);
        if (!kiln_map_put(&seen, name, 0))
            st = KILN_ERROR(INVALID_ARGUMENT, "two outputs of the model are called \"%.*s\"",
                            KILN_STR_ARG(name));
    }
    kiln_map_deinit(&seen);
    return st;
}

static kiln_status import_outputs(kiln_importer *im, const Onnx__GraphProto *graph) {
    if (graph->n_output == 0) return KILN_ERROR(INVALID_ARGUMENT, "the model has no output");
    kiln_status st = check_output_names(graph);
    for (size_t i = 0; !st && i < graph->n_output; i++) {
        uint64_t value = 0;
        if (!kiln_map_find(&im->value, kiln_proto_text(graph->output[i]->name), &value))
            return KILN_ERROR(INVALID_ARGUMENT, "output \"%s\" is produced by no node",
                              graph->output[i]->name ? graph->output[i]->name : "");
        if (value == KILN_IMPORT_POISON) continue;
        if (kiln_import_list_of(im, (kiln_value)value)) {
            kiln_problems_add(&im->problems, "output \"%s\": it is not a tensor",
                              graph->output[i]->name ? graph->output[i]->name : "");
            continue;
        }
        kiln_value named =
            named_output(im, kiln_proto_text(graph->output[i]->name), (kiln_value)value);
        kiln_vec_push_in(im->graph->arena, &im->graph->output, named);
    }
    return st;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static kiln_status import_nodes(kiln_importer *im, Onnx__NodeProto *const *node, size_t count) {
    kiln_status st = KILN_OK;
    for (size_t i = 0; !st && i < count; i++) {
        im->node = im->call ? kiln_import_called_node(im, node[i]) : node[i];
        if (im->graph->value.count + node[i]->n_output + 4 > KILN_GRAPH_VALUES_MAX)
            st = KILN_ERROR(OUT_OF_RANGE, "too many tensors");
        if (!st) st = import_one(im);
    }
    return st;
}

static kiln_status bind_body_inputs(kiln_importer *im, const Onnx__GraphProto *body,
                                    const kiln_value *input) {
    for (size_t i = 0; i < body->n_input; i++)
        if (!kiln_map_put(&im->value, kiln_proto_text(body->input[i]->name),
                          input[i] ? input[i] : KILN_IMPORT_POISON))
            return KILN_ERROR(INVALID_ARGUMENT, "its body's input \"%.*s\" is defined twice",
                              KILN_STR_ARG(kiln_proto_text(body->input[i]->name)));
    return KILN_OK;
}

static kiln_status find_body_outputs(kiln_importer *im, const Onnx__GraphProto *body,
                                     kiln_value *output) {
    for (size_t i = 0; i < body->n_output; i++) {
        uint64_t value = 0;
        if (!kiln_map_find(&im->value, kiln_proto_text(body->output[i]->name), &value))
            return KILN_ERROR(INVALID_ARGUMENT, "its body's output \"%.*s\" is produced by no node",
                              KILN_STR_ARG(kiln_proto_text(body->output[i]->name)));
        output[i] = value == KILN_IMPORT_POISON ? 0 : (kiln_value)value;
    }
    return KILN_OK;
}

static void forget_body(kiln_importer *im, const Onnx__GraphProto *body) {
    for (size_t i = 0; i < body->n_input; i++)
        kiln_map_remove(&im->value, kiln_proto_text(body->input[i]->name));
    for (size_t i = 0; i < body->n_initializer; i++)
        kiln_map_remove(&im->value, kiln_proto_text(body->initializer[i]->name));
    for (size_t i = 0; i < body->n_node; i++)
        for (size_t k = 0; k < body->node[i]->n_output; k++)
            if (*body->node[i]->output[k])
                kiln_map_remove(&im->value, kiln_proto_text(body->node[i]->output[k]));
}

/* Bodies within bodies, and nodes of all of them, are counted. */
static kiln_status enter_scope(kiln_importer *im, size_t nodes) {
    if (im->depth == KILN_IMPORT_DEPTH_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "more than %u bodies within bodies",
                          KILN_IMPORT_DEPTH_MAX);
    im->body_nodes += nodes;
    if (im->body_nodes > KILN_IMPORT_BODY_NODES_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "unrolled, the bodies of loops and branches have more than %u nodes",
                          KILN_IMPORT_BODY_NODES_MAX);
    im->scope = kiln_str_dup(im->graph->arena, kiln_import_fresh_name(im));
    im->depth++;
    return KILN_OK;
}

kiln_status kiln_import_scope(kiln_importer *im, Onnx__NodeProto *const *node, size_t count) {
    const Onnx__NodeProto *outer = im->node;
    const kiln_import_row *outer_row = im->row;
    const char *outer_scope = im->scope;
    kiln_status st = enter_scope(im, count);
    if (st) return st;
    st = import_nodes(im, node, count);
    im->depth--;
    im->scope = outer_scope;
    im->node = outer;
    im->row = outer_row;
    return st;
}

kiln_status kiln_import_body(kiln_importer *im, const Onnx__GraphProto *body,
                             const kiln_value *input, kiln_value *output) {
    const Onnx__NodeProto *outer = im->node;
    const char *outer_scope = im->scope;
    kiln_status st = enter_scope(im, body->n_node);
    if (st) return st;
    st = bind_body_inputs(im, body, input);
    if (!st) st = import_initializers(im, body);
    if (!st) st = import_nodes(im, body->node, body->n_node);
    if (!st) st = find_body_outputs(im, body, output);
    forget_body(im, body);
    im->depth--;
    im->scope = outer_scope;
    im->node = outer;
    return st;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Reserves the names in the model before the import makes new ones. */
static void reserve_names(kiln_importer *im, const Onnx__GraphProto *graph) {
    for (size_t i = 0; i < graph->n_input; i++)
        kiln_map_put(&im->taken, kiln_proto_text(graph->input[i]->name), 0);
    for (size_t i = 0; i < graph->n_initializer; i++)
        kiln_map_put(&im->taken, kiln_proto_text(graph->initializer[i]->name), 0);
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_output; k++)
            kiln_map_put(&im->taken, kiln_proto_text(graph->node[i]->output[k]), 0);
}

/* Removes inputs that became constants. */
static void drop_bound_inputs(kiln_graph *graph) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->input.count; i++)
        if (!kiln_value_is_constant(graph, graph->input.data[i]))
            graph->input.data[kept++] = graph->input.data[i];
    graph->input.count = kept;
}

static kiln_status find_opset(kiln_importer *im, const Onnx__ModelProto *model) {
    im->opset = 1; /* the default of files without an entry */
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = model->opset_import[i]->domain;
        if (!domain || !*domain || strcmp(domain, "ai.onnx") == 0)
            im->opset = model->opset_import[i]->version;
    }
    if (im->opset < KILN_ONNX_OPSET_MIN)
        return KILN_ERROR(INVALID_ARGUMENT, "opset %lld does not exist", (long long)im->opset);
    if (im->opset > KILN_ONNX_OPSET_MAX)
        kiln_problems_add(&im->problems, "opset %lld; %d is the newest known", (long long)im->opset,
                          KILN_ONNX_OPSET_MAX);
    return KILN_OK;
}

static kiln_status import_model(const Onnx__ModelProto *model, bool once, const char *folder,
                                const kiln_import_options *options, kiln_arena *arena,
                                kiln_graph **out_graph) {
    const Onnx__GraphProto *proto = model->graph;
    kiln_importer im = {.files = {folder, options->open},
                        .options = options,
                        .model = model,
                        .once = once,
                        .budget_bytes = KILN_TENSOR_BYTES_MAX,
                        .scope = ""};
    im.graph = kiln_graph_create(arena, kiln_proto_text(proto->name));
    kiln_map_init(&im.value);
    kiln_map_init(&im.taken);
    kiln_evaluation_init(&im.evaluation, kiln_effort_for(0));
    reserve_names(&im, proto);
    kiln_status st = find_opset(&im, model);
    if (!st) st = kiln_onnx_dims_check(proto, options);
    if (!st) st = import_initializers(&im, proto);
    if (!st) st = import_inputs(&im, proto);
    if (!st) st = import_nodes(&im, proto->node, proto->n_node);
    if (!st) st = import_outputs(&im, proto);
    if (!st) st = kiln_problems_status(&im.problems);
    if (!st) drop_bound_inputs(im.graph);
    im.graph->given_bytes = KILN_TENSOR_BYTES_MAX - im.budget_bytes;
    kiln_evaluation_deinit(&im.evaluation);
    if (!st && options->out_bound_count) *options->out_bound_count = im.bound_count;
    kiln_map_deinit(&im.value);
    kiln_map_deinit(&im.taken);
    kiln_problems_deinit(&im.problems);
    if (!st) *out_graph = im.graph;
    return st;
}

kiln_status kiln_import_model(const Onnx__ModelProto *model, const char *folder,
                              const kiln_import_options *options, kiln_arena *arena,
                              kiln_graph **out_graph) {
    return import_model(model, false, folder, options, arena, out_graph);
}

kiln_status kiln_import_model_once(Onnx__ModelProto *model, const char *folder,
                                   const kiln_import_options *options, kiln_arena *arena,
                                   kiln_graph **out_graph) {
    return import_model(model, true, folder, options, arena, out_graph);
}
