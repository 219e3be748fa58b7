#include <string.h>

#include "cli/vta_search.h"
#include "compiler-core/frontend/isolated.h"

#define CHANNELS_LEAST 8 /* of inputs: with fewer, tiles are mostly padding */

static int64_t attr_at(const kiln_node_info *node, const char *name, uint32_t index,
                       int64_t otherwise) {
    const kiln_attr *attr = kiln_node_attr(node, name);
    return attr && index < attr->count ? attr->ints[index] : otherwise;
}

/* False: a machine does not run it. */
static bool read_conv(const kiln_graph *graph, const kiln_node_info *node,
                      kiln_vta_layer *out_layer) {
    const kiln_shape *data = &graph->value.data[node->input[0]].shape;
    const kiln_shape *weights = &graph->value.data[node->input[1]].shape;
    if (data->rank != 4 || weights->rank != 4) return false;
    const kiln_attr *group = kiln_node_attr(node, "group");
    const int64_t kernel = weights->dim[2], stride = attr_at(node, "strides", 0, 1),
                  padding = attr_at(node, "pads", 0, 0);
    bool square = weights->dim[3] == kernel && attr_at(node, "strides", 1, 1) == stride;
    for (uint32_t i = 1; i < 4; i++) square &= attr_at(node, "pads", i, 0) == padding;
    for (uint32_t i = 0; i < 2; i++) square &= attr_at(node, "dilations", i, 1) == 1;
    if (!square || (group && group->i != 1) || data->dim[1] < CHANNELS_LEAST) return false;
    *out_layer = (kiln_vta_layer){.height = (uint32_t)data->dim[2],
                                  .width = (uint32_t)data->dim[3],
                                  .in = (uint32_t)data->dim[1],
                                  .out = (uint32_t)weights->dim[0],
                                  .kernel = (uint32_t)kernel,
                                  .stride = (uint32_t)stride,
                                  .padding = (uint32_t)padding,
                                  .count = 1};
    return true;
}

static bool same_layer(const kiln_vta_layer *a, const kiln_vta_layer *b) {
    return a->height == b->height && a->width == b->width && a->in == b->in && a->out == b->out &&
           a->kernel == b->kernel && a->stride == b->stride && a->padding == b->padding;
}

static kiln_status add_layer(kiln_vta_layer layer, kiln_arena *process, kiln_vta_layers *list) {
    for (uint32_t i = 0; i < list->count; i++)
        if (same_layer(&list->layer[i], &layer)) {
            list->layer[i].count++;
            return KILN_OK;
        }
    if (list->count == KILN_VTA_LAYERS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "more than %u different convolutions",
                          KILN_VTA_LAYERS_MAX);
    layer.name =
        kiln_arena_printf(process, "%ux%ux%u to %u, %ux%u by %u", layer.height, layer.width,
                          layer.in, layer.out, layer.kernel, layer.kernel, layer.stride);
    list->layer[list->count++] = layer;
    return KILN_OK;
}

/* An addition of what two layers make. */
static bool adds_layers(const kiln_graph *graph, const kiln_node_info *node) {
    return node->op == KILN_OP_ADD && !kiln_value_is_constant(graph, node->input[0]) &&
           !kiln_value_is_constant(graph, node->input[1]);
}

kiln_status kiln_vta_layers_of_model(const char *path, kiln_arena *process,
                                     kiln_vta_layers *out_layers) {
    kiln_graph *graph = NULL;
    kiln_mapping bytes = {0};
    kiln_vta_layers *l = out_layers;
    kiln_status st = kiln_import_isolated(path, NULL, process, &graph, &bytes);
    *l = (kiln_vta_layers){.batch = 1};
    for (uint32_t i = 1; !st && i < graph->node.count; i++) {
        const kiln_node_info *node = &graph->node.data[i];
        kiln_vta_layer layer;
        l->adds_bytes |= adds_layers(graph, node);
        if (node->op != KILN_OP_CONV && node->op != KILN_OP_CONV_INTEGER) continue;
        if (node->op == KILN_OP_CONV_INTEGER && read_conv(graph, node, &layer)) {
            l->batch = (uint32_t)graph->value.data[node->input[0]].shape.dim[0];
            st = add_layer(layer, process, l);
        } else {
            l->left++;
        }
    }
    if (!st && !l->count)
        st = KILN_ERROR(NOT_FOUND, "no convolution that an accelerator would run%s",
                        l->left ? ": it computes with bytes (kiln quantize MODEL --shift)" : "");
    kiln_file_unmap(&bytes);
    return kiln_status_note(st, "%s", path);
}

static bool find_name(const kiln_vta_layer *layer, uint32_t count, kiln_str name,
                      uint32_t *out_index) {
    for (uint32_t i = 0; i < count; i++)
        if (kiln_str_equal(kiln_str_from(layer[i].name), name)) {
            *out_index = i;
            return true;
        }
    return false;
}

kiln_status kiln_vta_layers_named(const char *names, kiln_vta_layers *out_layers) {
    kiln_vta_layer *layer = out_layers->layer;
    *out_layers = (kiln_vta_layers){.batch = 1};
    const char *dots = strstr(names, "..");
    const kiln_str from = dots ? (kiln_str){names, (size_t)(dots - names)} : kiln_str_from(names);
    const uint32_t all = kiln_vta_layers_resnet(false, layer);
    uint32_t first, last;
    if (!find_name(layer, all, from, &first) ||
        !find_name(layer, all, dots ? kiln_str_from(dots + 2) : from, &last) || last < first)
        return KILN_ERROR(NOT_FOUND, "no layers '%s'; there are C2 to C12, as C2..C12 or C9",
                          names);
    out_layers->count = last - first + 1;
    memmove(layer, layer + first, out_layers->count * sizeof *layer);
    return KILN_OK;
}
