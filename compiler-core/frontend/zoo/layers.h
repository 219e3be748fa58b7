/* Layers that networks of the zoo are written in. Private to zoo/.
 *
 * Weights are drawn after He et al. 2015, with variance 2 / fan-in. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ZOO_LAYERS_H
#define KILN_COMPILER_CORE_FRONTEND_ZOO_LAYERS_H

#include "compiler-core/frontend/zoo/builder.h"

/* A square window moving over an image; 0 means none for `pad`, 1 for the rest. */
typedef struct kiln_zoo_window {
    int64_t channels; /* output channels; for pooling those of its input */
    int64_t size, stride, pad, group;
} kiln_zoo_window;

/* Operators of one input and no attributes; `power` is the factor by which the mean square changes.
 */
kiln_zoo_value kiln_zoo_apply(kiln_zoo_builder *b, const char *op, kiln_zoo_value x, double power);
/* Rectifiers: max(x, 0), and the same clipped to 6. */
kiln_zoo_value kiln_zoo_relu(kiln_zoo_builder *b, kiln_zoo_value x);
kiln_zoo_value kiln_zoo_relu6(kiln_zoo_builder *b, kiln_zoo_value x);
/* `x` op `y`, a scalar or of the same shape; the mean square is that of a sum. */
kiln_zoo_value kiln_zoo_binary(kiln_zoo_builder *b, const char *op, kiln_zoo_value x,
                               kiln_zoo_value y);

/* Convolution with a bias. */
kiln_zoo_value kiln_zoo_conv(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_window window);
/* Convolution without a bias, and batch normalisation. */
kiln_zoo_value kiln_zoo_conv_norm(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_window window);
/* Transposed convolution without a bias. */
kiln_zoo_value kiln_zoo_deconv(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_window window);
/* With statistics that fit `x`. */
kiln_zoo_value kiln_zoo_batch_norm(kiln_zoo_builder *b, kiln_zoo_value x);
/* Over the last dimension. */
kiln_zoo_value kiln_zoo_layer_norm(kiln_zoo_builder *b, kiln_zoo_value x);

/* Over a window, and the mean over the whole image. */
kiln_zoo_value kiln_zoo_max_pool(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_window window);
kiln_zoo_value kiln_zoo_global_average(kiln_zoo_builder *b, kiln_zoo_value x);
/* To [1, elements]. */
kiln_zoo_value kiln_zoo_flatten(kiln_zoo_builder *b, kiln_zoo_value x);
/* To a shape with the same number of elements; dimension d is dimension order[d] of `x`. */
kiln_zoo_value kiln_zoo_reshape(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_shape shape);
kiln_zoo_value kiln_zoo_transpose(kiln_zoo_builder *b, kiln_zoo_value x, const int64_t *order);
/* Along the channels. */
kiln_zoo_value kiln_zoo_concat(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_value y);

/* [1, in] to [1, outputs], as Gemm with a bias. */
kiln_zoo_value kiln_zoo_dense(kiln_zoo_builder *b, kiln_zoo_value x, int64_t outputs);
/* [..., in] to [..., outputs], as MatMul and Add, keeping the mean square. */
kiln_zoo_value kiln_zoo_linear(kiln_zoo_builder *b, kiln_zoo_value x, int64_t outputs);
/* The rows of a random table that integers `x` choose: [...] to [..., width]. */
kiln_zoo_value kiln_zoo_embed(kiln_zoo_builder *b, kiln_zoo_value x, int64_t rows, int64_t width);
/* [..., m, k] by [..., k, n]; along the last dimension. */
kiln_zoo_value kiln_zoo_matmul(kiln_zoo_builder *b, kiln_zoo_value x, kiln_zoo_value y);
kiln_zoo_value kiln_zoo_softmax(kiln_zoo_builder *b, kiln_zoo_value x);

#endif
