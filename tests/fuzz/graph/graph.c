#include "tests/fuzz/graph/graph.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/small_float.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/onnx/dtype.h"
#include "tests/support/interpreter.h"

#define NOISE 2.0 /* units in the last place, at most, before and after a node that rounds */

/* ---- models ---------------------------------------------------------------------------------- */

fuzz_part fuzz_part_all(const fuzz_graph *g) {
    return (fuzz_part){.nodes = (uint32_t)(((uint64_t)1 << g->node_count) - 1)};
}

static bool has_node(const fuzz_part *part, uint32_t node) { return part->nodes >> node & 1; }

void fuzz_part_ports(const fuzz_graph *g, const fuzz_part *part, fuzz_ports *out) {
    bool is_read[FUZZ_VALUES_MAX] = {false}, is_made[FUZZ_VALUES_MAX] = {false};
    for (uint32_t n = 0; n < g->node_count; n++) {
        const fuzz_node *node = &g->node[n];
        if (!has_node(part, n)) continue;
        for (uint32_t i = 0; i < node->input_count; i++)
            if (node->input[i] != FUZZ_NONE) is_read[node->input[i]] = true;
        for (uint32_t i = 0; i < node->output_count; i++) is_made[node->output[i]] = true;
    }
    out->input_count = out->output_count = 0;
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (is_read[v] && !is_made[v] && g->value[v].origin != FUZZ_CONSTANT)
            out->input[out->input_count++] = v;
        if (is_made[v] && (!is_read[v] || part->is_extra[v])) out->output[out->output_count++] = v;
    }
}

static message port_message(kiln_arena *arena, const fuzz_value *value) {
    message shape = message_of(arena);
    for (uint32_t d = 0; d < value->truth.shape.rank; d++)
        shape = with_message(shape, 1, with_int(message_of(arena), 1, value->truth.shape.dim[d]));
    message port = with_text(message_of(arena), 1, value->name);
    if (!value->truth.dtype) return port; /* a result that is about to be evaluated */
    message tensor = with_int(message_of(arena), 1, kiln_onnx_dtype_number(value->truth.dtype));
    tensor = with_message(tensor, 2, shape);
    return with_message(port, 2, with_message(message_of(arena), 1, tensor));
}

/* Fields may stand in any order: the attributes come first. */
static message node_message(const fuzz_graph *g, const fuzz_node *node, kiln_arena *arena) {
    message m = {arena, node->attributes.bytes};
    for (uint32_t i = 0; i < node->input_count - node->hidden_count; i++)
        m = with_text(m, 1, node->input[i] == FUZZ_NONE ? "" : g->value[node->input[i]].name);
    for (uint32_t i = 0; i < node->output_count; i++)
        m = with_text(m, 2, g->value[node->output[i]].name);
    m = with_text(m, 3, kiln_arena_printf(arena, "%s_%u", node->op, (unsigned)(node - g->node)));
    return with_text(m, 4, node->op);
}

static bool part_reads(const fuzz_graph *g, const fuzz_part *part, uint32_t value) {
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0; has_node(part, n) && i < g->node[n].input_count; i++)
            if (g->node[n].input[i] == value) return true;
    return false;
}

kiln_str fuzz_part_model(const fuzz_graph *g, const fuzz_part *part, kiln_arena *arena) {
    fuzz_ports ports;
    fuzz_part_ports(g, part, &ports);
    message graph = with_text(message_of(arena), 2, "fuzz");
    for (uint32_t n = 0; n < g->node_count; n++)
        if (has_node(part, n)) graph = with_message(graph, 1, node_message(g, &g->node[n], arena));
    for (uint32_t v = 0; v < g->value_count; v++)
        if (g->value[v].origin == FUZZ_CONSTANT && part_reads(g, part, v))
            graph =
                with_message(graph, 5, tensor_message(arena, g->value[v].name, &g->value[v].truth));
    for (uint32_t i = 0; i < ports.input_count; i++)
        graph = with_message(graph, 11, port_message(arena, &g->value[ports.input[i]]));
    for (uint32_t i = 0; i < ports.output_count; i++)
        graph = with_message(graph, 12, port_message(arena, &g->value[ports.output[i]]));
    message model = with_int(message_of(arena), 1, g->opset > 22 ? 10 : 8);
    model = with_message(model, 8, with_int(with_text(message_of(arena), 1, ""), 2, g->opset));
    return with_message(model, 7, graph).bytes;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void measure(fuzz_value *value) {
    value->low = INFINITY;
    value->high = -INFINITY;
    for (size_t i = 0; i < (size_t)kiln_shape_count(&value->truth.shape); i++) {
        double x = kiln_dtype_load_f64(value->truth.dtype, value->truth.data, i);
        if (isnan(x)) value->low = -INFINITY, value->high = INFINITY;
        value->low = fmin(value->low, x);
        value->high = fmax(value->high, x);
    }
}

static uint32_t add_value(fuzz_graph *g, fuzz_origin origin) {
    fuzz_value *value = &g->value[g->value_count];
    KILN_CHECK(g->value_count < FUZZ_VALUES_MAX);
    *value = (fuzz_value){.origin = origin, .exact = true};
    snprintf(value->name, sizeof value->name, "v%u", g->value_count);
    return g->value_count++;
}

uint32_t fuzz_graph_add(fuzz_graph *g, fuzz_origin origin, const kiln_tensor *data) {
    uint32_t v = add_value(g, origin);
    g->value[v].truth = *data;
    for (uint32_t c = 0; c < FUZZ_COPIES; c++) g->value[v].copy[c] = *data;
    measure(&g->value[v]);
    return v;
}

uint32_t fuzz_graph_fix(fuzz_graph *g, const kiln_tensor *data) {
    uint32_t v = fuzz_graph_add(g, FUZZ_CONSTANT, data);
    g->value[v].fixed = true;
    return v;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static double epsilon_of(kiln_dtype dtype) {
    const kiln_small_float *small = kiln_small_float_of(dtype);
    if (small) return ldexp(1, -(int)small->fraction_bits);
    switch ((int)dtype) {
    case KILN_F64: return DBL_EPSILON;
    case KILN_F16: return 0x1p-10;
    case KILN_BF16: return 0x1p-7;
    default: return (double)FLT_EPSILON;
    }
}

/* Below it numbers are no more exact than at it. */
static double least_normal_of(kiln_dtype dtype) {
    const kiln_small_float *small = kiln_small_float_of(dtype);
    if (small) return ldexp(1, 1 - small->bias);
    switch ((int)dtype) {
    case KILN_F64: return DBL_MIN;
    case KILN_F16: return 0x1p-14;
    default: return (double)FLT_MIN; /* that of BF16, too */
    }
}

/* Largest finite values that a graph goes on with. */
static double magnitude_max(kiln_dtype dtype) {
    return dtype == KILN_F16 || kiln_small_float_of(dtype) ? 1e3 : 1e6;
}

/* How far a node's elements may be moved: by units in their last place, and by a fixed amount. */
typedef struct noise {
    double units, absolute;
} noise;

/* `tensor` with every element moved by at least half of the noise: in one direction in even copies,
 * in the other in odd ones, so that what lies on an edge falls to different sides. What may be 0 is
 * 0 in odd ones: nothing else is false when it is cast to bool. */
static kiln_tensor disturbed(const fuzz_graph *g, const kiln_tensor *tensor, noise n,
                             uint64_t stream, uint32_t copy) {
    if (!kiln_dtype_is_float(tensor->dtype)) return *tensor;
    kiln_tensor moved = kiln_tensor_create(g->arena, tensor->dtype, &tensor->shape);
    kiln_rand r;
    kiln_rand_init(&r, stream);
    for (size_t i = 0; i < (size_t)kiln_shape_count(&tensor->shape); i++) {
        double x = kiln_dtype_load_f64(tensor->dtype, tensor->data, i);
        double amount = (0.5 + kiln_rand_unit(&r) / 2) * (kiln_rand_below(&r, 2) ? 1 : -1);
        double off = fabs(x) * n.units * epsilon_of(tensor->dtype) + n.absolute;
        double to = x + (copy % 2 ? -amount : amount) * off;
        if (copy % 2 && fabs(x) <= off) to = 0;
        kiln_dtype_store_f64(tensor->dtype, moved.data, i, to);
    }
    return moved;
}

static noise noise_of(const fuzz_graph *g, const fuzz_node *node, const kiln_tensor *output) {
    noise n = {NOISE, 0};
    double largest = 1, terms = 0, count = (double)kiln_shape_count(&output->shape);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->input[i] == FUZZ_NONE) continue;
        const fuzz_value *value = &g->value[node->input[i]];
        terms = fmax(terms, (double)kiln_shape_count(&value->truth.shape) / fmax(count, 1));
        if (kiln_dtype_is_float(value->truth.dtype) && value->low <= value->high)
            largest = fmax(largest, fmax(fabs(value->low), fabs(value->high)));
    }
    if (node->sums) n.units += terms / 8; /* rounding of equal terms goes one way */
    if (node->absolute) n.absolute = NOISE * epsilon_of(output->dtype) * largest;
    return n;
}

static bool all_exact(const fuzz_graph *g, const fuzz_node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->input[i] != FUZZ_NONE && !g->value[node->input[i]].exact) return false;
    return true;
}

/* One evaluation of the last node: of the truth (copy FUZZ_COPIES), or of a copy. */
static kiln_status evaluate(fuzz_graph *g, const kiln_graph *graph, uint32_t copy,
                            kiln_tensor *output) {
    const fuzz_node *node = &g->node[g->node_count - 1];
    kiln_tensor input[FUZZ_OPERANDS_MAX];
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_value_info *port = &graph->value.data[graph->input.data[i]];
        uint32_t v = 0;
        while (!kiln_str_is(port->name, g->value[v].name)) v++;
        input[i] = copy == FUZZ_COPIES ? g->value[v].truth : g->value[v].copy[copy];
        if (copy != FUZZ_COPIES && !node->exact)
            input[i] = disturbed(g, &input[i], (noise){NOISE, 0}, v, copy);
    }
    return kiln_graph_eval(graph, input, g->arena, output);
}

/* Whether elements of a copy are near enough to go on with. */
static bool is_conditioned(const kiln_tensor *truth, const kiln_tensor *copy, bool special) {
    bool is_float = kiln_dtype_is_float(truth->dtype);
    size_t count = (size_t)kiln_shape_count(&truth->shape);
    if (!is_float) return memcmp(truth->data, copy->data, kiln_tensor_bytes(truth)) == 0;
    double off = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        double a = kiln_dtype_load_f64(truth->dtype, truth->data, i),
               b = kiln_dtype_load_f64(copy->dtype, copy->data, i);
        if (special && (a == b || (isnan(a) && isnan(b)))) continue;
        if (!(fabs(a) <= magnitude_max(truth->dtype)) || !isfinite(b)) return false;
        off = fmax(off, fabs(a - b));
        largest = fmax(largest, fabs(a));
    }
    return off <= (epsilon_of(truth->dtype) > 1e-4 ? 0.1 : 0.001) * largest;
}

static double distance(const fuzz_value *value, size_t index) {
    double off = 0, truth = kiln_dtype_load_f64(value->truth.dtype, value->truth.data, index);
    for (uint32_t c = 0; c < FUZZ_COPIES; c++)
        off = fmax(
            off, fabs(kiln_dtype_load_f64(value->truth.dtype, value->copy[c].data, index) - truth));
    return off;
}

static bool keep_result(fuzz_graph *g, const fuzz_node *node, uint32_t index,
                        const kiln_tensor output[FUZZ_COPIES + 1][FUZZ_OPERANDS_MAX]) {
    uint32_t v = node->output[index];
    fuzz_value *value = &g->value[v];
    value->truth = output[FUZZ_COPIES][index];
    bool is_float = kiln_dtype_is_float(value->truth.dtype), narrows = false;
    for (uint32_t i = 0; i < node->input_count; i++)
        narrows |= node->input[i] != FUZZ_NONE && epsilon_of(g->value[node->input[i]].truth.dtype) <
                                                      epsilon_of(value->truth.dtype);
    bool exact_inputs = all_exact(g, node);
    value->exact = !is_float || (node->exact && exact_inputs);
    measure(value);
    for (uint32_t c = 0; c < FUZZ_COPIES; c++) {
        const kiln_tensor *copy = &output[c][index];
        bool rounds = is_float && (!node->exact || (narrows && !exact_inputs));
        value->copy[c] =
            rounds ? disturbed(g, copy, noise_of(g, node, copy), v + FUZZ_VALUES_MAX, c) : *copy;
        if (!is_conditioned(&value->truth, &value->copy[c], node->exact)) return false;
    }
    for (size_t i = 0; is_float && i < (size_t)kiln_shape_count(&value->truth.shape); i++) {
        value->off = fmax(value->off, distance(value, i));
        /* And before the noise, which may have moved a copy back to the truth. */
        double truth = kiln_dtype_load_f64(value->truth.dtype, value->truth.data, i);
        for (uint32_t c = 0; c < FUZZ_COPIES; c++)
            value->off = fmax(
                value->off,
                fabs(kiln_dtype_load_f64(value->truth.dtype, output[c][index].data, i) - truth));
    }
    return true;
}

fuzz_outcome fuzz_graph_evaluate(fuzz_graph *g, kiln_strbuf *why) {
    fuzz_node *node = &g->node[g->node_count - 1];
    fuzz_part alone = {.nodes = 1u << (g->node_count - 1)};
    kiln_tensor output[FUZZ_COPIES + 1][FUZZ_OPERANDS_MAX];
    kiln_graph *graph = NULL;
    const char *differs = node->peer_differs;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->input[i] != FUZZ_NONE && g->value[node->input[i]].peer_differs)
            differs = g->value[node->input[i]].peer_differs;
    for (uint32_t i = 0; i < node->output_count; i++) {
        node->output[i] = add_value(g, FUZZ_RESULT);
        g->value[node->output[i]].peer_differs = differs;
        g->value[node->output[i]].grows = node->grows;
    }
    kiln_str bytes = fuzz_part_model(g, &alone, g->arena);
    kiln_status st = kiln_import_bytes(bytes, NULL, NULL, g->arena, &graph);
    for (uint32_t c = 0; !st && c <= FUZZ_COPIES; c++) st = evaluate(g, graph, c, output[c]);
    if (st) {
        fuzz_outcome outcome =
            kiln_status_code(st) == KILN_UNIMPLEMENTED ? FUZZ_UNSUPPORTED : FUZZ_REFUSED;
        kiln_strbuf_text(why, kiln_status_text(st));
        kiln_status_free(st);
        return outcome;
    }
    for (uint32_t i = 0; i < node->output_count; i++)
        if (!keep_result(g, node, i, (const kiln_tensor(*)[FUZZ_OPERANDS_MAX])output))
            return FUZZ_ILL_CONDITIONED;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->input[i] != FUZZ_NONE) g->value[node->input[i]].uses++;
    return FUZZ_DRAWN;
}

/* ---- tolerance ------------------------------------------------------------------------------- */

double fuzz_tolerance(const fuzz_value *value, size_t index) {
    if (value->exact) return 0;
    const kiln_dtype dtype = value->truth.dtype;
    double truth = kiln_dtype_load_f64(dtype, value->truth.data, index);
    return 8 * distance(value, index) + 4 * value->off +
           4 * epsilon_of(dtype) * fmax(fabs(truth), least_normal_of(dtype));
}
