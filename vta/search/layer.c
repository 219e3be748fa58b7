#include "vta/search/layer.h"

static const struct {
    const char *name;
    uint32_t size, in, out, kernel, stride, padding, times;
} row_table[] = {
#define X(name, size, in, out, kernel, stride, padding, times) \
    {name, size, in, out, kernel, stride, padding, times},
#include "vta/search/layers.def"
#undef X
};

uint32_t kiln_vta_layers_resnet(bool as_network, kiln_vta_layer *out_layer) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row_table); i++) {
        const uint32_t times = as_network ? row_table[i].times : 1;
        if (!times) continue;
        out_layer[count++] = (kiln_vta_layer){.name = row_table[i].name,
                                              .height = row_table[i].size,
                                              .width = row_table[i].size,
                                              .in = row_table[i].in,
                                              .out = row_table[i].out,
                                              .kernel = row_table[i].kernel,
                                              .stride = row_table[i].stride,
                                              .padding = row_table[i].padding,
                                              .count = times};
    }
    return count;
}

uint64_t kiln_vta_layer_multiply_adds(const kiln_vta_layer *l) {
    const kiln_vta_conv conv = {.height = l->height,
                                .width = l->width,
                                .kernel = l->kernel,
                                .stride = l->stride,
                                .padding = l->padding};
    return (uint64_t)kiln_vta_conv_out_height(&conv) * kiln_vta_conv_out_width(&conv) * l->in *
           l->out * l->kernel * l->kernel;
}

kiln_vta_conv kiln_vta_layer_tiled(const kiln_vta_layer *l, const kiln_vta_config *config) {
    return (kiln_vta_conv){.height = l->height,
                           .width = l->width,
                           .in = (l->in + config->block_in - 1) / config->block_in,
                           .out = (l->out + config->block_out - 1) / config->block_out,
                           .kernel = l->kernel,
                           .stride = l->stride,
                           .padding = l->padding};
}

double kiln_vta_peak(const kiln_vta_config *config) {
    return (double)config->batch * config->block_in * config->block_out;
}
