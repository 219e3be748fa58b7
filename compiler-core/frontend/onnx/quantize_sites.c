/* Chooses the nodes of a model that compute on bytes, and the values that become bytes. */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/frontend/onnx/quantize.h"

static const struct {
    const char *op;
    kiln_quantize_kind kind;
} kind_table[] = {
#define X(op, kind) {op, KILN_QUANTIZE_KIND_##kind},
#include "compiler-core/frontend/onnx/quantize.def"
#undef X
};

/* ---- checks ------------------------------------------------------------------- */

#define OPSET_MIN 10      /* QuantizeLinear */
#define OPSET_CHANNELS 13 /* a scale per channel */
#define OPSET_FOUR 21     /* integers of 4 bits */
#define OPSET_TWO 25      /* integers of 2 bits */

static bool is_few(const kiln_quantize_options *options) {
    return options->weight_bits < 8 || options->activation_bits < 8;
}

int64_t kiln_onnx_quantize_opset(const kiln_quantize_options *options) {
    if (options->weight_bits < 4 || options->activation_bits < 4) return OPSET_TWO;
    if (is_few(options)) return OPSET_FOUR;
    return options->per_channel ? OPSET_CHANNELS : OPSET_MIN;
}

kiln_status kiln_onnx_quantize_check(const kiln_onnx_edit *edit) {
    static const char *const quantised[] = {
        "QuantizeLinear", "DequantizeLinear", "QLinearConv",          "QLinearMatMul",
        "ConvInteger",    "MatMulInteger",    "DynamicQuantizeLinear"};
    for (uint32_t i = 0; i < edit->node.count; i++)
        for (size_t k = 0; k < KILN_ARRAY_COUNT(quantised); k++)
            if (kiln_onnx_node_is(edit->node.data[i], quantised[k]))
                return KILN_ERROR(FAILED_PRECONDITION, "it is quantised already: node %u is a %s",
                                  i, quantised[k]);
    return KILN_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

uint32_t kiln_sites_find(const kiln_sites *sites, const char *name) {
    uint64_t index;
    return kiln_map_find(&sites->by_name, kiln_str_from(name), &index) ? (uint32_t)index
                                                                       : KILN_SITE_NONE;
}

static void add_value(kiln_sites *sites, kiln_onnx_edit *edit, const char *name,
                      uint32_t producer) {
    if (!name || !*name || kiln_onnx_edit_is_constant(edit, name)) return;
    const kiln_site_value value = {.name = name,
                                   .producer = producer,
                                   .last_reader = KILN_SITE_NONE,
                                   .group = sites->value.count};
    kiln_map_put(&sites->by_name, kiln_str_from(name), sites->value.count);
    kiln_vec_push_in(edit->arena, &sites->value, value);
}

static void pin(void *context, const char *name) {
    kiln_sites *sites = context;
    const uint32_t v = kiln_sites_find(sites, name);
    if (v != KILN_SITE_NONE) sites->value.data[v].pinned = true;
}

static void find_values(kiln_sites *sites, kiln_onnx_edit *edit) {
    const Onnx__GraphProto *graph = &edit->graph;
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__ValueInfoProto *info = graph->input[i];
        const uint32_t before = sites->value.count;
        const bool tensor =
            info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
        add_value(sites, edit, info->name, KILN_SITE_NONE);
        if (sites->value.count > before)
            sites->value.data[before].floats = tensor && info->type->tensor_type->elem_type ==
                                                             ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    }
    for (uint32_t i = 0; i < edit->node.count; i++)
        for (size_t k = 0; k < edit->node.data[i]->n_output; k++)
            add_value(sites, edit, edit->node.data[i]->output[k], i);
    for (uint32_t i = 0; i < edit->node.count; i++) {
        const Onnx__NodeProto *node = edit->node.data[i];
        for (size_t k = 0; k < node->n_input; k++) {
            const uint32_t v = kiln_sites_find(sites, node->input[k]);
            if (v == KILN_SITE_NONE) continue;
            sites->value.data[v].readers++;
            sites->value.data[v].last_reader = i;
        }
        kiln_onnx_node_body_reads(node, pin, sites);
    }
    for (uint32_t i = 0; i < edit->output.count; i++)
        pin(sites, edit->output.data[i]->name ? edit->output.data[i]->name : "");
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static uint32_t count_values(const kiln_sites *sites, const Onnx__NodeProto *node) {
    uint32_t count = 0;
    for (size_t i = 0; i < node->n_input; i++)
        count += kiln_sites_find(sites, node->input[i]) != KILN_SITE_NONE;
    return count;
}

/* The number of leading inputs that a node reads as quantised data. */
static size_t data_inputs(const kiln_site_node *site, const Onnx__NodeProto *node) {
    bool all = site->kind == KILN_QUANTIZE_KIND_OWN || site->kind == KILN_QUANTIZE_KIND_MERGE ||
               site->kind == KILN_QUANTIZE_KIND_FOLLOW;
    return all ? node->n_input : 1;
}

/* Whether the node multiplies its input by constant weights, in a form that integer sums
 * support. */
static bool has_weights(const kiln_onnx_edit *edit, const kiln_sites *sites,
                        const Onnx__NodeProto *node) {
    kiln_shape shape;
    if (kiln_sites_find(sites, kiln_onnx_node_input(node, 0)) == KILN_SITE_NONE ||
        !kiln_onnx_edit_has_floats(edit, kiln_onnx_node_input(node, 1), &shape))
        return false;
    if (kiln_onnx_node_is(node, "Conv")) return shape.rank >= 3;
    if (kiln_onnx_node_is(node, "MatMul")) return shape.rank == 2;
    return shape.rank == 2 && !kiln_onnx_node_int(node, "transA", 0) &&
           kiln_onnx_node_float(node, "alpha", 1) == 1 &&
           kiln_onnx_node_float(node, "beta", 1) == 1;
}

static kiln_quantize_kind kind_of(const kiln_onnx_edit *edit, const kiln_sites *sites,
                                  const Onnx__NodeProto *node) {
    kiln_quantize_kind kind = KILN_QUANTIZE_KIND_NONE;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(kind_table); i++)
        if (kiln_onnx_node_is(node, kind_table[i].op)) kind = kind_table[i].kind;
    if (node->n_output != 1 || node->n_input == 0 ||
        kiln_sites_find(sites, node->output[0]) == KILN_SITE_NONE)
        return KILN_QUANTIZE_KIND_NONE;
    const uint32_t values = count_values(sites, node);
    switch (kind) {
    case KILN_QUANTIZE_KIND_NONE: return kind;
    case KILN_QUANTIZE_KIND_WEIGHTS:
        return has_weights(edit, sites, node) ? kind : KILN_QUANTIZE_KIND_NONE;
    case KILN_QUANTIZE_KIND_OWN: /* an operator with a constant operand is of kind FOLLOW */
        if (values == node->n_input) return kind;
        return values == 1 ? KILN_QUANTIZE_KIND_FOLLOW : KILN_QUANTIZE_KIND_NONE;
    case KILN_QUANTIZE_KIND_MOVE:
        return kiln_sites_find(sites, node->input[0]) != KILN_SITE_NONE ? kind
                                                                        : KILN_QUANTIZE_KIND_NONE;
    case KILN_QUANTIZE_KIND_MERGE: return values == node->n_input ? kind : KILN_QUANTIZE_KIND_NONE;
    case KILN_QUANTIZE_KIND_FOLLOW: return values == 1 ? kind : KILN_QUANTIZE_KIND_NONE;
    }
    return KILN_QUANTIZE_KIND_NONE;
}

/* ---- nodes that compute on bytes
 * ------------------------------------------------------------------ */

static kiln_site_value *value_at(const kiln_sites *sites, const char *name) {
    const uint32_t v = kiln_sites_find(sites, name);
    return v == KILN_SITE_NONE ? NULL : &sites->value.data[v];
}

/* From readers to producers: marks values that would be read as bytes. */
static void find_wanted(kiln_sites *sites, const kiln_onnx_edit *edit) {
    for (uint32_t i = edit->node.count; i-- > 0;) {
        const Onnx__NodeProto *node = edit->node.data[i];
        const kiln_site_node *site = &sites->node[i];
        if (site->kind == KILN_QUANTIZE_KIND_NONE) continue;
        const kiln_site_value *result = value_at(sites, node->output[0]);
        const bool wants = site->kind == KILN_QUANTIZE_KIND_WEIGHTS || result->wanted;
        for (size_t k = 0; wants && k < data_inputs(site, node); k++) {
            kiln_site_value *value = value_at(sites, node->input[k]);
            if (value) value->wanted = true;
        }
    }
}

/* From producers to readers: a node between floats stays in floats. */
static void find_reachable(kiln_sites *sites, const kiln_onnx_edit *edit) {
    for (uint32_t v = 0; v < sites->value.count; v++)
        sites->value.data[v].reachable = sites->value.data[v].floats;
    for (uint32_t i = 0; i < edit->node.count; i++) {
        const Onnx__NodeProto *node = edit->node.data[i];
        kiln_site_node *site = &sites->node[i];
        if (site->kind == KILN_QUANTIZE_KIND_NONE) continue;
        kiln_site_value *result = value_at(sites, node->output[0]);
        bool reached = site->kind == KILN_QUANTIZE_KIND_WEIGHTS;
        for (size_t k = 0; !reached && k < data_inputs(site, node); k++) {
            const kiln_site_value *value = value_at(sites, node->input[k]);
            reached = value && value->reachable;
        }
        const bool follows = site->kind == KILN_QUANTIZE_KIND_FOLLOW;
        site->quantised =
            !follows && reached && (result->wanted || site->kind == KILN_QUANTIZE_KIND_WEIGHTS);
        result->reachable = follows ? reached : site->quantised;
    }
}

/* With scales that are powers of two the other operand's bytes can be shifted to the sums' unit,
 * which saves a rounding. Chooses the later of two layers whose result has no other reader. */
static void find_sums(kiln_sites *sites, const kiln_onnx_edit *edit) {
    for (uint32_t i = 0; i < edit->node.count; i++) {
        const Onnx__NodeProto *node = edit->node.data[i];
        kiln_site_node *site = &sites->node[i];
        uint32_t latest = 0;
        site->sums = KILN_SITE_NONE;
        if (!sites->options->shift || !site->quantised || !kiln_onnx_node_is(node, "Add")) continue;
        for (uint32_t k = 0; k < node->n_input; k++) {
            const kiln_site_value *value = value_at(sites, node->input[k]);
            if (value->producer == KILN_SITE_NONE || value->pinned || value->readers != 1 ||
                sites->node[value->producer].kind != KILN_QUANTIZE_KIND_WEIGHTS ||
                value->producer < latest)
                continue;
            latest = value->producer;
            site->sums = k;
        }
    }
}

/* The values that quantised nodes compute on are bytes. */
static void find_quantised(kiln_sites *sites, const kiln_onnx_edit *edit) {
    for (uint32_t i = 0; i < edit->node.count; i++) {
        const Onnx__NodeProto *node = edit->node.data[i];
        const kiln_site_node *site = &sites->node[i];
        for (size_t k = 0; site->quantised && k < data_inputs(site, node); k++) {
            kiln_site_value *value = value_at(sites, node->input[k]);
            if (!value || k == site->sums) continue;
            value->quantised = true;
            if (site->kind == KILN_QUANTIZE_KIND_WEIGHTS && *kiln_onnx_node_input(node, 2))
                value->biased = true;
        }
    }
    for (uint32_t i = 0; sites->options->bytes_outside && i < edit->output.count; i++) {
        kiln_site_value *value = value_at(sites, edit->output.data[i]->name);
        if (value) value->quantised = value->quantised || value->reachable;
    }
}

static uint32_t group_of(const kiln_sites *sites, uint32_t v) {
    while (sites->value.data[v].group != v) v = sites->value.data[v].group;
    return v;
}

static void join(kiln_sites *sites, const char *a, const char *b) {
    const uint32_t x = kiln_sites_find(sites, a), y = kiln_sites_find(sites, b);
    if (x == KILN_SITE_NONE || y == KILN_SITE_NONE) return;
    const uint32_t first = KILN_MIN(group_of(sites, x), group_of(sites, y));
    sites->value.data[group_of(sites, x)].group = first;
    sites->value.data[group_of(sites, y)].group = first;
    sites->value.data[x].group = sites->value.data[y].group = first;
}

/* Nodes that only move bytes keep their scale. */
static void find_groups(kiln_sites *sites, const kiln_onnx_edit *edit) {
    for (uint32_t i = 0; i < edit->node.count; i++) {
        const Onnx__NodeProto *node = edit->node.data[i];
        const kiln_site_node *site = &sites->node[i];
        bool keeps =
            site->kind == KILN_QUANTIZE_KIND_MOVE || site->kind == KILN_QUANTIZE_KIND_MERGE;
        for (size_t k = 0; keeps && site->quantised && k < data_inputs(site, node); k++)
            join(sites, node->input[k], node->output[0]);
    }
    for (uint32_t v = 0; v < sites->value.count; v++)
        sites->value.data[v].group = group_of(sites, v);
}

/* ---- nodes that compute on fewer bits
 * ------------------------------------------------------------- */

/* A sum over a window of one channel is too short for few bits. */
static bool is_depthwise(const kiln_onnx_edit *edit, const Onnx__NodeProto *node) {
    kiln_shape shape;
    return kiln_onnx_node_is(node, "Conv") &&
           kiln_onnx_edit_has_floats(edit, kiln_onnx_node_input(node, 1), &shape) &&
           shape.dim[1] == 1 && kiln_onnx_node_int(node, "group", 1) > 1;
}

/* Layers with weights that have such layers before and behind them, or all. */
static void find_few(kiln_sites *sites, const kiln_onnx_edit *edit) {
    const bool all = sites->options->all_layers;
    bool *behind = KILN_ARENA_ARRAY(edit->arena, bool, sites->value.count),
         *before = KILN_ARENA_ARRAY(edit->arena, bool, sites->value.count);
    if (!is_few(sites->options)) return;
    for (uint32_t i = 0; i < edit->node.count; i++) {
        const Onnx__NodeProto *node = edit->node.data[i];
        bool found = sites->node[i].kind == KILN_QUANTIZE_KIND_WEIGHTS;
        sites->node[i].few = found && !is_depthwise(edit, node) &&
                             (all || behind[kiln_sites_find(sites, node->input[0])]);
        for (size_t k = 0; k < node->n_input; k++) {
            const uint32_t v = kiln_sites_find(sites, node->input[k]);
            found = found || (v != KILN_SITE_NONE && behind[v]);
        }
        for (size_t k = 0; k < node->n_output; k++) {
            const uint32_t v = kiln_sites_find(sites, node->output[k]);
            if (v != KILN_SITE_NONE) behind[v] = found;
        }
    }
    for (uint32_t i = edit->node.count; i-- > 0;) {
        const Onnx__NodeProto *node = edit->node.data[i];
        bool found = false;
        for (size_t k = 0; k < node->n_output; k++) {
            const uint32_t v = kiln_sites_find(sites, node->output[k]);
            found = found || (v != KILN_SITE_NONE && before[v]);
        }
        sites->node[i].few = sites->node[i].few && (all || found);
        found = found || sites->node[i].kind == KILN_QUANTIZE_KIND_WEIGHTS;
        for (size_t k = 0; found && k < node->n_input; k++) {
            const uint32_t v = kiln_sites_find(sites, node->input[k]);
            if (v != KILN_SITE_NONE) before[v] = true;
        }
    }
}

/* A group has the maximum of its readers' bits; a reader with fewer bits gets the value quantised
 * once more. */
static void find_bits(kiln_sites *sites, const kiln_onnx_edit *edit) {
    bool *wide = KILN_ARENA_ARRAY(edit->arena, bool, sites->value.count),
         *few = KILN_ARENA_ARRAY(edit->arena, bool, sites->value.count);
    for (uint32_t i = 0; i < edit->node.count; i++) {
        const Onnx__NodeProto *node = edit->node.data[i];
        const kiln_site_node *site = &sites->node[i];
        const bool computes =
            site->kind == KILN_QUANTIZE_KIND_WEIGHTS || site->kind == KILN_QUANTIZE_KIND_OWN;
        for (size_t k = 0; site->quantised && computes && k < data_inputs(site, node); k++) {
            kiln_site_value *value = value_at(sites, node->input[k]);
            if (!value) continue;
            const bool fewer = site->few && sites->options->activation_bits < 8;
            value->few |= fewer;
            *(fewer ? &few[value->group] : &wide[value->group]) = true;
        }
    }
    for (uint32_t v = 0; v < sites->value.count; v++) {
        kiln_site_value *value = &sites->value.data[v];
        const bool is_wide = wide[value->group] || !few[value->group];
        value->bits = is_wide ? 8 : sites->options->activation_bits;
        value->narrowed = is_wide && value->few;
    }
}

void kiln_sites_init(kiln_sites *sites, kiln_onnx_edit *edit,
                     const kiln_quantize_options *options) {
    *sites = (kiln_sites){.options = options};
    kiln_map_init(&sites->by_name);
    find_values(sites, edit);
    sites->node = KILN_ARENA_ARRAY(edit->arena, kiln_site_node, edit->node.count);
    for (uint32_t i = 0; i < edit->node.count; i++)
        sites->node[i].kind = kind_of(edit, sites, edit->node.data[i]);
    find_wanted(sites, edit);
    find_reachable(sites, edit);
    find_sums(sites, edit);
    find_quantised(sites, edit);
    find_groups(sites, edit);
    find_few(sites, edit);
    find_bits(sites, edit);
}

void kiln_sites_deinit(kiln_sites *sites) { kiln_map_deinit(&sites->by_name); }

/* ---- plan ------------------------------------------------------------------------------------ */

/* The value behind a node and the operators that follow it. */
static uint32_t result_of(const kiln_sites *sites, const kiln_onnx_edit *edit, uint32_t node) {
    uint32_t v = kiln_sites_find(sites, edit->node.data[node]->output[0]);
    for (uint32_t i = 0; i < edit->node.count; i++) { /* upper bound of the chain's length */
        const kiln_site_value *value = &sites->value.data[v];
        if (value->quantised || value->pinned || value->readers != 1 ||
            sites->node[value->last_reader].kind != KILN_QUANTIZE_KIND_FOLLOW)
            break;
        v = kiln_sites_find(sites, edit->node.data[value->last_reader]->output[0]);
    }
    return v;
}

static void observe(const kiln_sites *sites, uint32_t v, uint32_t *index,
                    kiln_quantize_plan *plan) {
    const kiln_site_value *value = &sites->value.data[v];
    if (index[v] != KILN_SITE_NONE) return;
    index[v] = plan->observed_count;
    plan->observed[plan->observed_count++] = (kiln_observed){
        .name = kiln_str_from(value->name),
        .quantised = value->quantised,
        .group = value->group, /* numbered below */
        .few_group = value->narrowed ? 0 : KILN_GROUP_NONE,
        .mean_axis = value->biased ? 1 : 0}; /* of [n, channels, ...], and of [rows, columns] */
}

/* Groups from 0 on, in the order of their first values, and then those of fewer bits. */
static void number_groups(const kiln_sites *sites, kiln_quantize_plan *plan, uint32_t *number) {
    for (uint32_t i = 0; i < plan->observed_count; i++) {
        kiln_observed *o = &plan->observed[i];
        if (o->quantised && number[o->group] == KILN_SITE_NONE) {
            plan->group_bits[plan->group_count] = sites->value.data[o->group].bits;
            number[o->group] = plan->group_count++;
        }
        o->group = o->quantised ? number[o->group] : 0;
    }
    for (uint32_t i = 0; i < plan->observed_count; i++) {
        if (plan->observed[i].few_group == KILN_GROUP_NONE) continue;
        plan->group_bits[plan->group_count] = sites->options->activation_bits;
        plan->observed[i].few_group = plan->group_count++;
    }
}

static uint32_t *make_numbers(kiln_arena *arena, uint32_t count) {
    uint32_t *number = KILN_ARENA_ARRAY(arena, uint32_t, count);
    for (uint32_t i = 0; i < count; i++) number[i] = KILN_SITE_NONE;
    return number;
}

kiln_status kiln_sites_plan(const kiln_sites *sites, const kiln_onnx_edit *edit,
                            kiln_quantize_plan *out_plan) {
    kiln_quantize_plan plan = {.output_count = edit->output.count};
    uint32_t *index = make_numbers(edit->arena, sites->value.count), weights = 0;
    plan.observed = KILN_ARENA_ARRAY(edit->arena, kiln_observed, sites->value.count);
    plan.layer = KILN_ARENA_ARRAY(edit->arena, kiln_quantize_layer, edit->node.count);
    for (uint32_t v = 0; v < sites->value.count; v++)
        if (sites->value.data[v].quantised) observe(sites, v, index, &plan);
    for (uint32_t i = 0; i < edit->node.count; i++) {
        const kiln_site_node *site = &sites->node[i];
        bool layer = site->quantised && (site->kind == KILN_QUANTIZE_KIND_WEIGHTS ||
                                         site->kind == KILN_QUANTIZE_KIND_OWN);
        if (!layer) continue;
        const Onnx__NodeProto *node = edit->node.data[i];
        const uint32_t result = result_of(sites, edit, i);
        weights += site->kind == KILN_QUANTIZE_KIND_WEIGHTS;
        observe(sites, result, index, &plan);
        plan.layer[plan.layer_count++] = (kiln_quantize_layer){
            .name = kiln_str_from(node->name && *node->name ? node->name : node->output[0]),
            .op = kiln_str_from(node->op_type),
            .result = index[result],
            .weight_bits = site->kind == KILN_QUANTIZE_KIND_WEIGHTS
                               ? site->few ? sites->options->weight_bits : 8
                               : 0,
            .activation_bits = site->few ? sites->options->activation_bits : 8};
    }
    plan.group_bits = KILN_ARENA_ARRAY(edit->arena, uint32_t, 2 * plan.observed_count);
    number_groups(sites, &plan, make_numbers(edit->arena, sites->value.count));
    if (weights == 0)
        return KILN_ERROR(
            FAILED_PRECONDITION,
            "it has nothing to quantise: no Conv, Gemm or MatMul with constant weights "
            "of f32");
    if (plan.observed_count > KILN_OBSERVED_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "it has %u values to quantise, at most %u are",
                          plan.observed_count, KILN_OBSERVED_MAX);
    *out_plan = plan;
    return KILN_OK;
}
