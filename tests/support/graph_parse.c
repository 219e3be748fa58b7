/* Text to graphs: docs/reference/graph-text.md. Errors stick: after the first one every function
 * returns at once, and what it returns means nothing. */
#include "tests/support/graph_parse.h"

#include <math.h>

#include "base/map.h"
#include "compiler-core/graph/attr.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ir/lex.h"

typedef struct parser {
    kiln_lexer lx;
    kiln_graph *graph;
    kiln_status status;
    kiln_map value;    /* name -> kiln_value */
    size_t data_bytes; /* of constants so far */
} parser;

#define FAIL(ps, ...)                                                                           \
    do {                                                                                        \
        if (!(ps)->status)                                                                      \
            (ps)->status = kiln_status_note(KILN_ERROR(INVALID_ARGUMENT, __VA_ARGS__), "%u:%u", \
                                            (ps)->lx.line, (ps)->lx.column);                    \
    } while (0)

/* ---- words ----------------------------------------------------------------------------------- */

static bool accept(parser *ps, const char *word) {
    if (ps->status || !kiln_lexer_is(&ps->lx, word)) return false;
    kiln_lexer_next(&ps->lx);
    return true;
}

static void expect(parser *ps, const char *word) {
    if (!accept(ps, word)) FAIL(ps, "'%s' is expected here", word);
}

static kiln_str expect_name(parser *ps) {
    kiln_str name = ps->lx.token;
    if (ps->lx.kind != KILN_TOKEN_NAME && ps->lx.kind != KILN_TOKEN_QUOTED)
        FAIL(ps, "a name is expected here");
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return name;
}

static kiln_str expect_quoted(parser *ps) {
    kiln_str text = ps->lx.token;
    if (ps->lx.kind != KILN_TOKEN_QUOTED) FAIL(ps, "a quoted text is expected here");
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return text;
}

/* A whole number of 64 bits, signed or not: its bits. */
static int64_t expect_int(parser *ps) {
    bool negative = accept(ps, "-");
    uint64_t magnitude = 0;
    bool good = ps->lx.kind == KILN_TOKEN_NUMBER && kiln_str_to_u64(ps->lx.token, &magnitude);
    if (!good || (negative && magnitude > (uint64_t)INT64_MAX + 1)) {
        FAIL(ps, "a whole number is expected here");
        return 0;
    }
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return (int64_t)(negative ? 0 - magnitude : magnitude);
}

static double expect_number(parser *ps) {
    bool negative = accept(ps, "-");
    double value = 0;
    if (kiln_lexer_is(&ps->lx, "inf")) {
        value = INFINITY;
    } else if (kiln_lexer_is(&ps->lx, "nan")) {
        value = NAN;
    } else if (ps->lx.kind != KILN_TOKEN_NUMBER || !kiln_str_to_f64(ps->lx.token, &value)) {
        FAIL(ps, "a number is expected here");
    }
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return negative ? -value : value;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* "f32[1,3,8,8]" */
static void parse_type(parser *ps, kiln_dtype *out_dtype, kiln_shape *out_shape) {
    *out_dtype = KILN_F32;
    *out_shape = (kiln_shape){0};
    if (!kiln_dtype_find(ps->lx.token, out_dtype)) FAIL(ps, "an element type is expected here");
    if (!ps->status) kiln_lexer_next(&ps->lx);
    expect(ps, "[");
    while (!ps->status && !kiln_lexer_is(&ps->lx, "]")) {
        if (out_shape->rank) expect(ps, ",");
        if (out_shape->rank == KILN_RANK_MAX)
            FAIL(ps, "a tensor has at most %d dimensions", KILN_RANK_MAX);
        int64_t extent = ps->status ? 0 : expect_int(ps);
        if (extent < 0) FAIL(ps, "a dimension is negative");
        if (!ps->status) out_shape->dim[out_shape->rank++] = extent;
    }
    expect(ps, "]");
    size_t size_bytes = 0;
    kiln_status st = ps->status ? KILN_OK : kiln_shape_bytes(out_shape, *out_dtype, &size_bytes);
    if (st) FAIL(ps, "the tensor is too large");
    kiln_status_free(st); /* said with the place */
}

/* "name: type", a new value. */
static kiln_value parse_declaration(parser *ps) {
    kiln_str name = expect_name(ps);
    kiln_dtype dtype;
    kiln_shape shape;
    expect(ps, ":");
    parse_type(ps, &dtype, &shape);
    uint64_t known;
    if (!ps->status && kiln_map_find(&ps->value, name, &known))
        FAIL(ps, "%.*s is defined twice", KILN_STR_ARG(name));
    if (!ps->status && ps->graph->value.count == KILN_GRAPH_VALUES_MAX) FAIL(ps, "too many values");
    if (ps->status) return 0;
    kiln_value value = kiln_graph_add_named_value(ps->graph, name);
    ps->graph->value.data[value].dtype = dtype;
    ps->graph->value.data[value].shape = shape;
    kiln_map_put(&ps->value, name, value);
    return value;
}

static kiln_value expect_value(parser *ps) {
    uint64_t value = 0;
    kiln_str name = expect_name(ps);
    if (!ps->status && !kiln_map_find(&ps->value, name, &value))
        FAIL(ps, "%.*s is not defined", KILN_STR_ARG(name));
    return (kiln_value)value;
}

static void parse_input(parser *ps) {
    kiln_value value = parse_declaration(ps);
    if (!ps->status) kiln_vec_push_in(ps->graph->arena, &ps->graph->input, value);
}

/* = hash "...": data made up from the hash */
static void parse_hashed(parser *ps, kiln_tensor *tensor, kiln_hash128 *out_hash) {
    if (!kiln_hash128_parse(expect_quoted(ps), out_hash))
        FAIL(ps, "a hash of 32 digits is expected here");
    if (!ps->status)
        kiln_fill_data(tensor->data, tensor->dtype, (size_t)kiln_shape_count(&tensor->shape),
                       out_hash->low, KILN_FILL_UNIFORM);
}

static void parse_items(parser *ps, kiln_tensor *tensor) {
    int64_t count = kiln_shape_count(&tensor->shape);
    expect(ps, "[");
    for (int64_t i = 0; !ps->status && i < count; i++) {
        if (i) expect(ps, ",");
        if (kiln_dtype_is_float(tensor->dtype)) {
            kiln_dtype_store_f64(tensor->dtype, tensor->data, (size_t)i, expect_number(ps));
        } else {
            kiln_dtype_store_i64(tensor->dtype, tensor->data, (size_t)i, expect_int(ps));
        }
    }
    expect(ps, "]");
}

static void parse_constant(parser *ps) {
    kiln_value value = parse_declaration(ps);
    kiln_hash128 hash = {0};
    expect(ps, "=");
    if (ps->status) return;
    const kiln_value_info *info = &ps->graph->value.data[value];
    size_t size_bytes = (size_t)kiln_shape_count(&info->shape) * kiln_dtype_size(info->dtype);
    if (size_bytes > KILN_GRAPH_TEXT_DATA_MAX - ps->data_bytes) {
        FAIL(ps, "constants take more than %zu bytes", KILN_GRAPH_TEXT_DATA_MAX);
        return;
    }
    ps->data_bytes += size_bytes;
    kiln_tensor tensor = kiln_tensor_create(ps->graph->arena, info->dtype, &info->shape);
    bool hashed = accept(ps, "hash");
    if (hashed) {
        parse_hashed(ps, &tensor, &hash);
    } else {
        parse_items(ps, &tensor);
    }
    if (ps->status) return;
    kiln_graph_set_constant(ps->graph, value, &tensor);
    if (hashed) ps->graph->value.data[value].hash = hash;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void parse_list(parser *ps, kiln_attr *attr) {
    KILN_VEC(int64_t) ints = {0};
    KILN_VEC(double) floats = {0};
    expect(ps, "[");
    while (!ps->status && !kiln_lexer_is(&ps->lx, "]")) {
        if (attr->count) expect(ps, ",");
        if (attr->count == KILN_ATTR_ITEMS_MAX) FAIL(ps, "too many items");
        if (attr->kind == KILN_ATTR_INTS) {
            kiln_vec_push_in(ps->graph->arena, &ints, expect_int(ps));
        } else {
            kiln_vec_push_in(ps->graph->arena, &floats, expect_number(ps));
        }
        attr->count++;
    }
    expect(ps, "]");
    static const int64_t no_ints = 0;
    static const double no_floats = 0;
    attr->ints = ints.data ? ints.data : &no_ints;
    attr->floats = floats.data ? floats.data : &no_floats;
}

static void parse_attr(parser *ps, kiln_node node, kiln_op op) {
    kiln_str name = expect_name(ps);
    kiln_attr attr = {0};
    bool has_default;
    if (!ps->status && !kiln_attr_spec_find(op, name, &attr, &has_default))
        FAIL(ps, "%s has no attribute %.*s", kiln_op_get(op)->name, KILN_STR_ARG(name));
    expect(ps, "=");
    if (ps->status) return;
    attr.text = (kiln_str){0};
    switch (attr.kind) {
    case KILN_ATTR_INT: attr.i = expect_int(ps); break;
    case KILN_ATTR_FLOAT: attr.f = expect_number(ps); break;
    case KILN_ATTR_TEXT: attr.text = expect_quoted(ps); break;
    case KILN_ATTR_INTS:
    case KILN_ATTR_FLOATS:
    case KILN_ATTR_KIND_COUNT: parse_list(ps, &attr); break;
    }
    if (!ps->status) kiln_graph_set_attr(ps->graph, node, &attr);
}

/* "a, _, b" up to `end` */
static uint32_t parse_inputs(parser *ps, const char *end, kiln_value *out_value) {
    uint32_t count = 0;
    while (!ps->status && !kiln_lexer_is(&ps->lx, end)) {
        if (count) expect(ps, ",");
        if (count == KILN_NODE_OPERANDS_MAX) FAIL(ps, "too many operands");
        if (!ps->status) out_value[count++] = accept(ps, "_") ? 0 : expect_value(ps);
    }
    return count;
}

static uint32_t parse_outputs(parser *ps, kiln_value *out_value) {
    uint32_t count = 0;
    do {
        if (count == KILN_NODE_OPERANDS_MAX) FAIL(ps, "too many results");
        if (!ps->status) out_value[count++] = accept(ps, "_") ? 0 : parse_declaration(ps);
    } while (accept(ps, ","));
    return count;
}

/* The declared types must be what the operator gives. */
static void check_node(parser *ps, kiln_node node, const kiln_value *output, uint32_t count) {
    kiln_value_info declared[KILN_NODE_OPERANDS_MAX];
    for (uint32_t i = 0; i < count; i++) declared[i] = ps->graph->value.data[output[i]];
    kiln_status st = kiln_node_infer(ps->graph, node);
    if (st) {
        ps->status = kiln_status_note(st, "%u: %s", ps->lx.line,
                                      kiln_op_get(ps->graph->node.data[node].op)->name);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const kiln_value_info *info = &ps->graph->value.data[output[i]];
        if (output[i] && (info->dtype != declared[i].dtype ||
                          !kiln_shape_equal(&info->shape, &declared[i].shape)))
            FAIL(ps, "%.*s is of another type", KILN_STR_ARG(info->name));
    }
}

static void parse_node(parser *ps) {
    kiln_value input[KILN_NODE_OPERANDS_MAX], output[KILN_NODE_OPERANDS_MAX];
    kiln_op op = KILN_OP_NONE;
    uint32_t output_count = parse_outputs(ps, output);
    expect(ps, "=");
    if (!ps->status && !kiln_op_find(ps->lx.token, &op))
        FAIL(ps, "no operator %.*s", KILN_STR_ARG(ps->lx.token));
    if (!ps->status) kiln_lexer_next(&ps->lx);
    expect(ps, "(");
    uint32_t input_count = parse_inputs(ps, ")", input);
    expect(ps, ")");
    if (!ps->status && ps->graph->node.count == KILN_GRAPH_NODES_MAX) FAIL(ps, "too many nodes");
    if (ps->status) return;
    kiln_node node = kiln_graph_add_node(ps->graph, op, (kiln_str){0}, input_count, output_count);
    for (uint32_t i = 0; i < input_count; i++) kiln_graph_set_input(ps->graph, node, i, input[i]);
    for (uint32_t i = 0; i < output_count; i++)
        kiln_graph_set_output(ps->graph, node, i, output[i]);
    while (!ps->status && ps->lx.kind != KILN_TOKEN_END) {
        if (accept(ps, "name")) {
            kiln_str name = expect_quoted(ps);
            if (!ps->status)
                ps->graph->node.data[node].name =
                    (kiln_str){kiln_str_dup(ps->graph->arena, name), name.size};
        } else if (accept(ps, "kernel")) {
            int64_t group = expect_int(ps);
            if (group < 0 || group >= KILN_GRAPH_NODES_MAX)
                FAIL(ps, "the kernel's number is out of range");
            if (!ps->status) ps->graph->node.data[node].group = (uint32_t)group;
        } else {
            parse_attr(ps, node, op);
        }
    }
    if (!ps->status) check_node(ps, node, output, output_count);
}

/* ---- the whole text -------------------------------------------------------------------------- */

static void parse_line(parser *ps) {
    if (accept(ps, "input")) {
        parse_input(ps);
    } else if (accept(ps, "constant")) {
        parse_constant(ps);
    } else if (accept(ps, "output")) {
        kiln_value value = expect_value(ps);
        if (!ps->status) kiln_vec_push_in(ps->graph->arena, &ps->graph->output, value);
    } else {
        parse_node(ps);
    }
    if (!ps->status && ps->lx.kind != KILN_TOKEN_END)
        FAIL(ps, "the end of the line is expected here");
}

kiln_status kiln_graph_parse(kiln_str text, kiln_arena *arena, kiln_graph **out_graph) {
    if (text.size > KILN_GRAPH_TEXT_BYTES_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "the text is longer than %zu bytes",
                          KILN_GRAPH_TEXT_BYTES_MAX);
    parser ps = {0};
    kiln_lexer_init(&ps.lx, text, arena);
    kiln_map_init(&ps.value);
    kiln_lexer_next_line(&ps.lx);
    expect(&ps, "graph");
    ps.graph = kiln_graph_create(arena, expect_name(&ps));
    if (!ps.status && ps.lx.kind != KILN_TOKEN_END)
        FAIL(&ps, "the end of the line is expected here");
    if (!ps.status) kiln_lexer_next_line(&ps.lx);
    while (!ps.status && !ps.lx.at_end) {
        parse_line(&ps);
        if (!ps.status) kiln_lexer_next_line(&ps.lx);
    }
    if (!ps.status && ps.graph->output.count == 0) FAIL(&ps, "the graph has no output");
    if (!ps.status) ps.status = kiln_graph_verify(ps.graph);
    kiln_map_deinit(&ps.value);
    if (!ps.status) *out_graph = ps.graph;
    return ps.status;
}
