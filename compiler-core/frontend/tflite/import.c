/* The walk over a model: its tensors, inputs, operators in order, outputs. Unsupported operators
 * are collected; one that depends on an unsupported one is still looked up, so that one run lists
 * everything. */
#include "compiler-core/frontend/tflite/import.h"

#include <string.h>

/* Memory for constants beyond twice the file, because tensors may share a buffer and integers may
 * be packed. */
#define SHARED_BYTES_MAX ((uint64_t)128 << 20)
#define SCHEMA_VERSION 3
#define DEPTH_MAX 16 /* nesting of subgraphs */

bool kiln_tflite_probe(kiln_str bytes);
kiln_status kiln_tflite_import(kiln_str bytes, const char *folder,
                               const kiln_import_options *options, kiln_arena *arena,
                               kiln_graph **out_graph);

static const kiln_tflite_row row_table[KILN_TFLITE_OPERATOR_COUNT] = {
#define X(number, name, op, how, activation) \
    [number] = {#name, number, KILN_OP_##op, kiln_tflite_##how, KILN_TFLITE_##activation},
#include "compiler-core/frontend/tflite/operators.def"
#undef X
};

/* ---- fields ---------------------------------------------------------------------------------- */

static const struct {
    uint8_t number, bytes;
} field_table[] = {
#define FIELD(table, name, number, bytes) {number, bytes},
#define TYPE(name, number, dtype, bits)
#define ACTIVATION(name, number, op, low, high)
#include "compiler-core/frontend/tflite/tflite.def"
#undef FIELD
#undef TYPE
#undef ACTIVATION
};

int64_t kiln_tflite_int(const kiln_flat_table *table, kiln_tflite_field field, int64_t otherwise) {
    if (field == KILN_TFLITE_NONE) return otherwise;
    return kiln_flat_int(table, field_table[field].number, field_table[field].bytes, otherwise);
}

double kiln_tflite_float(const kiln_flat_table *table, kiln_tflite_field field, double otherwise) {
    return kiln_flat_float(table, field_table[field].number, otherwise);
}

kiln_str kiln_tflite_text(const kiln_flat_table *table, kiln_tflite_field field) {
    return kiln_flat_text(table, field_table[field].number);
}

kiln_flat_table kiln_tflite_child(const kiln_flat_table *table, kiln_tflite_field field) {
    return kiln_flat_child(table, field_table[field].number);
}

kiln_flat_vector kiln_tflite_items(const kiln_flat_table *table, kiln_tflite_field field,
                                   size_t item_bytes) {
    return kiln_flat_items(table, field_table[field].number, item_bytes);
}

int64_t kiln_tflite_option(const kiln_tflite *t, kiln_tflite_field field, int64_t otherwise) {
    return kiln_tflite_int(&t->options_table, field, otherwise);
}

/* ---- findings -------------------------------------------------------------------------------- */

/* Whether the tensor cannot be used; the reason is reported once. */
static bool is_poison(kiln_tflite *t, kiln_tflite_tensor *tensor) {
    if (!tensor || !tensor->poison) return false;
    if (tensor->refused)
        kiln_problems_add(&t->problems, "tensor \"%.*s\": %s", KILN_STR_ARG(tensor->name),
                          tensor->refused);
    tensor->refused = NULL;
    return true;
}

/* ---- ports ----------------------------------------------------------------------------------- */

static kiln_str dim_name(const kiln_tflite *t, const kiln_tflite_tensor *tensor, uint32_t d) {
    return kiln_str_printf(t->graph->arena, "%.*s.%u", KILN_STR_ARG(tensor->name), d);
}

/* Open dimensions of an input have the extent that the caller gives, or the file's own. */
static kiln_status set_dims(kiln_tflite *t, kiln_tflite_tensor *tensor, bool *given) {
    for (uint32_t d = 0; d < tensor->shape.rank; d++) {
        if (!tensor->open[d]) continue;
        for (uint32_t i = 0; i < t->options->known_count; i++) {
            const kiln_named_tensor *known = &t->options->known[i];
            if (!kiln_str_equal(known->name, tensor->name) ||
                known->tensor.shape.rank != tensor->shape.rank)
                continue;
            t->shapes_are_ours = true;
            tensor->shape.dim[d] = known->tensor.shape.dim[d];
        }
        for (uint32_t i = 0; i < t->options->dim_count; i++) {
            if (!kiln_str_equal(t->options->dim_name[i], dim_name(t, tensor, d))) continue;
            if (t->options->dim_value[i] < 0)
                return KILN_ERROR(INVALID_ARGUMENT, "dimension %u is negative", d);
            t->shapes_are_ours = given[i] = true;
            tensor->shape.dim[d] = t->options->dim_value[i];
        }
    }
    return KILN_OK;
}

static kiln_status import_input(kiln_tflite *t, int64_t number, bool *given) {
    size_t bytes;
    if (number < 0 || number >= t->tensor_count)
        return KILN_ERROR(INVALID_ARGUMENT, "an input of the model is tensor %lld of %u",
                          (long long)number, t->tensor_count);
    kiln_tflite_tensor *tensor = &t->tensor[number];
    if (tensor->stored[KILN_TFLITE_LAST])
        return KILN_ERROR(INVALID_ARGUMENT, "input \"%.*s\" is listed twice",
                          KILN_STR_ARG(tensor->name));
    if (is_poison(t, tensor)) return KILN_OK;
    kiln_status st = set_dims(t, tensor, given);
    if (!st) st = kiln_shape_bytes(&tensor->shape, tensor->dtype, &bytes);
    if (!st && tensor->bits)
        st = KILN_ERROR(INVALID_ARGUMENT, "its integers have %u bits", tensor->bits);
    if (st) return kiln_status_note(st, "input \"%.*s\"", KILN_STR_ARG(tensor->name));
    tensor->stored[KILN_TFLITE_LAST] =
        kiln_graph_add_input(t->graph, tensor->name, tensor->dtype, &tensor->shape);
    tensor->home = KILN_TFLITE_LAST;
    return KILN_OK;
}

static kiln_status check_dims(const kiln_tflite *t, const bool *given) {
    for (uint32_t i = 0; i < t->options->dim_count; i++)
        if (!given[i])
            return KILN_ERROR(INVALID_ARGUMENT,
                              "the model has no open dimension \"%.*s\"; they are called by their "
                              "input and place, \"x.0\"",
                              KILN_STR_ARG(t->options->dim_name[i]));
    return KILN_OK;
}

static kiln_status import_inputs(kiln_tflite *t, const kiln_flat_table *graph) {
    const kiln_flat_vector input = kiln_tflite_items(graph, KILN_TFLITE_GRAPH_INPUTS, 4);
    bool *given = KILN_ARENA_ARRAY(t->graph->arena, bool, t->options->dim_count + 1);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < input.count; i++)
        st = import_input(t, kiln_flat_item_int(&input, i, 4), given);
    return st ? st : check_dims(t, given);
}

/* Whether a value may swap names with the value that has the name. */
static bool can_swap(const kiln_graph *graph, kiln_value value, kiln_value holder) {
    bool can = graph->value.data[value].producer && (!holder || graph->value.data[holder].producer);
    for (uint32_t i = 0; i < graph->output.count; i++)
        can = can && graph->output.data[i] != value && graph->output.data[i] != holder;
    return can;
}

/* An output's value under the output's name, which becomes the name of the module's port. If two
 * outputs have one name, the second one gets another. */
static kiln_value named_output(kiln_tflite *t, kiln_value value, kiln_str name) {
    kiln_graph *graph = t->graph;
    const kiln_value holder = kiln_graph_find_value(graph, name);
    if (holder == value) return value;
    if (!can_swap(graph, value, holder)) {
        value = kiln_tflite_unary(t, KILN_OP_IDENTITY, value);
        if (value && !holder) kiln_graph_rename_value(graph, value, name);
        return value;
    }
    const kiln_str old = graph->value.data[value].name;
    if (holder) kiln_graph_rename_value(graph, holder, KILN_STR(""));
    kiln_graph_rename_value(graph, value, name);
    if (holder) kiln_graph_rename_value(graph, holder, old);
    return value;
}

static kiln_status import_outputs(kiln_tflite *t, const kiln_flat_table *graph) {
    const kiln_flat_vector output = kiln_tflite_items(graph, KILN_TFLITE_GRAPH_OUTPUTS, 4);
    for (uint32_t i = 0; i < output.count; i++) {
        const int64_t number = kiln_flat_item_int(&output, i, 4);
        if (number < 0 || number >= t->tensor_count)
            return KILN_ERROR(INVALID_ARGUMENT, "an output of the model is tensor %lld of %u",
                              (long long)number, t->tensor_count);
        kiln_tflite_tensor *tensor = &t->tensor[number];
        if (is_poison(t, tensor)) continue;
        kiln_value value = kiln_tflite_stored(t, tensor, KILN_TFLITE_LAST);
        if (!t->st) value = named_output(t, value, tensor->name);
        if (t->st) return t->st;
        kiln_vec_push_in(t->graph->arena, &t->graph->output, value);
    }
    return KILN_OK;
}

/* ---- operators ------------------------------------------------------------------------------- */

void kiln_tflite_refused(kiln_tflite *t) {
    kiln_tflite_fail(t, KILN_ERROR(UNIMPLEMENTED, "operator %s", t->row->name));
}

/* The row of an operator code; NULL: not supported, reported. Old files have one byte for the
 * number. */
static const kiln_tflite_row *find_row(kiln_tflite *t, const kiln_flat_table *code) {
    const int64_t old = kiln_tflite_int(code, KILN_TFLITE_CODE_OLD_NUMBER, 0),
                  wide = kiln_tflite_int(code, KILN_TFLITE_CODE_NUMBER, 0),
                  number = KILN_MAX(old, wide);
    const kiln_str custom = kiln_tflite_text(code, KILN_TFLITE_CODE_CUSTOM);
    if (number < 0 || number >= KILN_TFLITE_OPERATOR_COUNT || !row_table[number].name) {
        kiln_problems_add(&t->problems, "operator number %lld, which is not known",
                          (long long)number);
        return NULL;
    }
    const kiln_tflite_row *row = &row_table[number];
    if (row->import != kiln_tflite_refused) return row;
    if (number == KILN_TFLITE_OPERATOR_CUSTOM)
        kiln_problems_add(&t->problems, "custom operator \"%.*s\"", (int)KILN_MIN(custom.size, 200),
                          custom.data);
    else if (!t->told[number])
        kiln_problems_add(&t->problems, "operator %s", row->name);
    t->told[number] = true;
    return NULL;
}

static kiln_status check_operands(const kiln_tflite *t, const kiln_flat_vector *list,
                                  const char *what) {
    if (list->count > KILN_NODE_OPERANDS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "%u %ss", list->count, what);
    for (uint32_t i = 0; i < list->count; i++) {
        const int64_t number = kiln_flat_item_int(list, i, 4);
        if (number < -1 || number >= t->tensor_count)
            return KILN_ERROR(INVALID_ARGUMENT, "%s %u is tensor %lld of %u", what, i,
                              (long long)number, t->tensor_count);
    }
    return KILN_OK;
}

/* Whether an input is not supported, or depends on something that is not. */
static bool reads_poison(kiln_tflite *t) {
    bool poison = false;
    for (uint32_t i = 0; i < t->input.count; i++)
        poison = is_poison(t, kiln_tflite_input(t, i)) || poison;
    return poison;
}

static void poison_outputs(kiln_tflite *t) {
    for (uint32_t i = 0; i < t->output.count; i++) {
        kiln_tflite_tensor *tensor = kiln_tflite_output(t, i);
        if (tensor) tensor->poison = true;
    }
}

static bool defines_poison(kiln_tflite *t) {
    bool poison = false;
    for (uint32_t i = 0; i < t->output.count; i++)
        poison = is_poison(t, kiln_tflite_output(t, i)) || poison;
    return poison;
}

static kiln_status import_operator(kiln_tflite *t, const kiln_flat_table *table) {
    const int64_t code = kiln_tflite_int(table, KILN_TFLITE_OPERATOR_CODE, 0);
    t->input = kiln_tflite_items(table, KILN_TFLITE_OPERATOR_INPUTS, 4);
    t->output = kiln_tflite_items(table, KILN_TFLITE_OPERATOR_OUTPUTS, 4);
    t->options_table = kiln_tflite_child(table, KILN_TFLITE_OPERATOR_OPTIONS);
    if (code < 0 || code >= t->codes.count)
        return KILN_ERROR(INVALID_ARGUMENT, "its code is %lld of %u", (long long)code,
                          t->codes.count);
    const kiln_flat_table code_table = kiln_flat_item_table(&t->codes, (uint32_t)code);
    kiln_status st = check_operands(t, &t->input, "input");
    if (!st) st = check_operands(t, &t->output, "output");
    if (!st) st = kiln_flat_status(&t->file);
    if (st) return st;
    t->row = find_row(t, &code_table);
    if (!t->row || reads_poison(t) || defines_poison(t)) {
        poison_outputs(t);
        return KILN_OK;
    }
    t->first_value = t->graph->value.count;
    t->keeps = t->row->op != KILN_OP_NONE && kiln_op_keeps_elements(t->row->op) &&
               kiln_tflite_same_numbers(t) && !kiln_tflite_option(t, t->row->activation, 0);
    t->row->import(t);
    st = t->st;
    t->st = KILN_OK;
    return st;
}

/* "operator 3 (RELU)", with its subgraph where that is not the first one. */
static const char *place_of(const kiln_tflite *t, uint32_t operation) {
    const char *where =
        t->depth ? kiln_arena_printf(t->graph->arena, "subgraph %u, ", t->subgraph) : "";
    return kiln_arena_printf(t->graph->arena, "%soperator %u (%s)", where, operation,
                             t->row ? t->row->name : "?");
}

static kiln_status import_operators(kiln_tflite *t, const kiln_flat_table *graph) {
    const kiln_flat_vector operators = kiln_tflite_items(graph, KILN_TFLITE_GRAPH_OPERATORS, 4);
    kiln_status st = kiln_flat_status(&t->file);
    if (!st && operators.count > KILN_GRAPH_NODES_MAX)
        st = KILN_ERROR(OUT_OF_RANGE, "%u operators", operators.count);
    for (uint32_t i = 0; !st && i < operators.count; i++) {
        const kiln_flat_table table = kiln_flat_item_table(&operators, i);
        t->number = i;
        t->row = NULL;
        st = import_operator(t, &table);
        if (!st) st = kiln_flat_status(&t->file);
        if (!st) continue;
        const char *place = place_of(t, i);
        if (kiln_status_code(st) != KILN_UNIMPLEMENTED) return kiln_status_note(st, "%s", place);
        kiln_problems_add(&t->problems, "%s: %s", place, kiln_status_text(st));
        kiln_status_free(st); /* it is a line of the list now */
        st = KILN_OK;
        poison_outputs(t);
    }
    t->row = NULL;
    return st;
}

/* ---- subgraphs ------------------------------------------------------------------------------- */

static kiln_status bind_input(kiln_tflite *t, int64_t number, kiln_value value) {
    if (number < 0 || number >= t->tensor_count)
        return KILN_ERROR(INVALID_ARGUMENT, "an input is tensor %lld of %u", (long long)number,
                          t->tensor_count);
    kiln_tflite_tensor *tensor = &t->tensor[number];
    if (tensor->poison || tensor->variable || tensor->stored[KILN_TFLITE_LAST])
        return KILN_ERROR(INVALID_ARGUMENT, "tensor \"%.*s\" cannot be an input",
                          KILN_STR_ARG(tensor->name));
    if (tensor->dtype != kiln_tflite_dtype(t, value))
        return KILN_ERROR(INVALID_ARGUMENT, "its input \"%.*s\" is %s, and is given %s",
                          KILN_STR_ARG(tensor->name), kiln_dtype_name(tensor->dtype),
                          kiln_dtype_name(kiln_tflite_dtype(t, value)));
    tensor->shape = *kiln_tflite_shape(t, value);
    tensor->stored[KILN_TFLITE_LAST] = value;
    tensor->home = KILN_TFLITE_LAST;
    return KILN_OK;
}

static kiln_status give_output(kiln_tflite *t, int64_t number, kiln_value *out_value) {
    if (number < 0 || number >= t->tensor_count)
        return KILN_ERROR(INVALID_ARGUMENT, "an output is tensor %lld of %u", (long long)number,
                          t->tensor_count);
    if (is_poison(t, &t->tensor[number]))
        return KILN_ERROR(UNIMPLEMENTED, "the value of an output is not supported");
    *out_value = kiln_tflite_stored(t, &t->tensor[number], KILN_TFLITE_LAST);
    kiln_status st = t->st;
    t->st = KILN_OK;
    return st;
}

/* Limits repeated imports: a few bytes of a file may name a subgraph many times, recursively. */
static kiln_status charge(kiln_tflite *t, const kiln_flat_table *graph) {
    const uint64_t tensors = kiln_tflite_items(graph, KILN_TFLITE_GRAPH_TENSORS, 4).count,
                   operators = kiln_tflite_items(graph, KILN_TFLITE_GRAPH_OPERATORS, 4).count,
                   bytes = (1 + tensors + operators) * sizeof *t->tensor;
    if (bytes > t->budget_bytes)
        return KILN_ERROR(OUT_OF_RANGE, "subgraphs take more memory than is allowed");
    t->budget_bytes -= bytes;
    return KILN_OK;
}

static kiln_status import_body(kiln_tflite *t, const kiln_value *input, uint32_t input_count,
                               kiln_value *output, uint32_t output_count) {
    const kiln_flat_table graph = kiln_flat_item_table(&t->graphs, t->subgraph);
    const kiln_flat_vector in = kiln_tflite_items(&graph, KILN_TFLITE_GRAPH_INPUTS, 4),
                           out = kiln_tflite_items(&graph, KILN_TFLITE_GRAPH_OUTPUTS, 4);
    kiln_status st = kiln_flat_status(&t->file);
    if (!st && (in.count != input_count || out.count != output_count))
        st = KILN_ERROR(INVALID_ARGUMENT, "it has %u inputs and %u outputs instead of %u and %u",
                        in.count, out.count, input_count, output_count);
    if (!st) st = charge(t, &graph);
    if (!st) st = kiln_tflite_read_tensors(t, &graph);
    for (uint32_t i = 0; !st && i < input_count; i++)
        st = bind_input(t, kiln_flat_item_int(&in, i, 4), input[i]);
    if (!st) st = import_operators(t, &graph);
    for (uint32_t i = 0; !st && i < output_count; i++)
        st = give_output(t, kiln_flat_item_int(&out, i, 4), &output[i]);
    return st;
}

void kiln_tflite_body(kiln_tflite *t, int64_t number, const kiln_value *input, uint32_t input_count,
                      kiln_value *output, uint32_t output_count) {
    const kiln_tflite caller = *t;
    kiln_status st = KILN_OK;
    memset(output, 0, sizeof *output * output_count);
    if (t->st) return;
    if (number < 0 || number >= t->graphs.count)
        st = KILN_ERROR(INVALID_ARGUMENT, "there is no subgraph %lld of %u", (long long)number,
                        t->graphs.count);
    else if (t->depth == DEPTH_MAX)
        st = KILN_ERROR(UNIMPLEMENTED, "subgraphs nested more than %d deep", DEPTH_MAX);
    if (!st) {
        t->subgraph = (uint32_t)number;
        t->depth++;
        st = kiln_status_note(import_body(t, input, input_count, output, output_count),
                              "subgraph %lld", (long long)number);
    }
    t->subgraph = caller.subgraph;
    t->depth = caller.depth;
    t->tensor_count = caller.tensor_count;
    t->tensor = caller.tensor;
    t->number = caller.number;
    t->row = caller.row;
    t->options_table = caller.options_table;
    t->input = caller.input;
    t->output = caller.output;
    t->first_value = caller.first_value;
    t->keeps = caller.keeps;
    if (st) kiln_tflite_fail(t, st);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Removes inputs that became constants. */
static void drop_bound_inputs(kiln_graph *graph) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->input.count; i++)
        if (!kiln_value_is_constant(graph, graph->input.data[i]))
            graph->input.data[kept++] = graph->input.data[i];
    graph->input.count = kept;
}

/* The first subgraph is the model. */
static kiln_status find_graph(kiln_tflite *t, const kiln_flat_table *model,
                              kiln_flat_table *out_graph) {
    t->graphs = kiln_tflite_items(model, KILN_TFLITE_MODEL_SUBGRAPHS, 4);
    const int64_t version = kiln_tflite_int(model, KILN_TFLITE_MODEL_VERSION, 0);
    kiln_status st = kiln_flat_status(&t->file);
    if (st) return st;
    if (version != SCHEMA_VERSION)
        return KILN_ERROR(UNIMPLEMENTED, "version %lld of TFLite's schema; %d is read",
                          (long long)version, SCHEMA_VERSION);
    if (!t->graphs.count) return KILN_ERROR(INVALID_ARGUMENT, "the model has no subgraph");
    *out_graph = kiln_flat_item_table(&t->graphs, 0);
    return kiln_flat_status(&t->file);
}

/* Makes each variable with a new value an output, "NAME.next", behind those of the model. */
static kiln_status export_variables(kiln_tflite *t) {
    for (uint32_t i = 0; i < t->tensor_count; i++) {
        kiln_tflite_tensor *tensor = &t->tensor[i];
        if (!tensor->written) continue;
        const kiln_str name =
            kiln_str_printf(t->graph->arena, "%.*s.next", KILN_STR_ARG(tensor->name));
        const kiln_value value =
            named_output(t, kiln_tflite_stored(t, tensor, KILN_TFLITE_LAST), name);
        if (t->st) return t->st;
        kiln_vec_push_in(t->graph->arena, &t->graph->output, value);
    }
    return KILN_OK;
}

static kiln_status import_graph(kiln_tflite *t, const kiln_flat_table *model,
                                const kiln_flat_table *graph) {
    t->codes = kiln_tflite_items(model, KILN_TFLITE_MODEL_OPERATOR_CODES, 4);
    t->buffer = kiln_tflite_items(model, KILN_TFLITE_MODEL_BUFFERS, 4);
    kiln_status st = kiln_tflite_read_tensors(t, graph);
    if (!st) st = import_inputs(t, graph);
    if (!st) st = import_operators(t, graph);
    if (!st) st = import_outputs(t, graph);
    if (!st) st = export_variables(t);
    if (!st) st = kiln_flat_status(&t->file);
    return st ? st : kiln_problems_status(&t->problems);
}

bool kiln_tflite_probe(kiln_str bytes) { return kiln_flat_is(bytes, "TFL3"); }

kiln_status kiln_tflite_import(kiln_str bytes, const char *folder,
                               const kiln_import_options *options, kiln_arena *arena,
                               kiln_graph **out_graph) {
    kiln_tflite t = {.file = {.bytes = bytes},
                     .options = options,
                     .budget_bytes = SHARED_BYTES_MAX + 2 * (uint64_t)bytes.size};
    kiln_flat_table graph = {0};
    (void)folder; /* TFLite has its constants in the file */
    const kiln_flat_table model = kiln_flat_root(&t.file);
    kiln_status st = find_graph(&t, &model, &graph);
    if (st) return st;
    const kiln_str name = kiln_tflite_text(&graph, KILN_TFLITE_GRAPH_NAME);
    t.graph = kiln_graph_create(arena, kiln_str_slice(name, 0, KILN_MIN(name.size, 256)));
    kiln_evaluation_init(&t.evaluation, kiln_effort_for(0));
    st = import_graph(&t, &model, &graph);
    kiln_evaluation_deinit(&t.evaluation);
    kiln_problems_deinit(&t.problems);
    if (st) return st;
    drop_bound_inputs(t.graph);
    t.graph->given_bytes = t.given_bytes;
    if (options->out_bound_count) *options->out_bound_count = t.bound_count;
    *out_graph = t.graph;
    return KILN_OK;
}
