/* Networks that look at images. */
#include "compiler-core/frontend/zoo/networks.h"

#include "base/macros.h"
#include "compiler-core/frontend/zoo/layers.h"

#define IMAGENET_CLASSES 1000

typedef kiln_zoo_builder builder;
typedef kiln_zoo_value value;
#define WINDOW(...) ((kiln_zoo_window){__VA_ARGS__})

static value image(builder *b, int64_t channels, int64_t side) {
    return kiln_zoo_images(b, kiln_zoo_float_type(b), channels, side, side);
}

static value classify(builder *b, value x) {
    return kiln_zoo_dense(b, kiln_zoo_flatten(b, kiln_zoo_global_average(b, x)), IMAGENET_CLASSES);
}

static value conv_norm_relu(builder *b, value x, kiln_zoo_window window) {
    return kiln_zoo_relu(b, kiln_zoo_conv_norm(b, x, window));
}

static value conv_relu(builder *b, value x, kiln_zoo_window window) {
    return kiln_zoo_relu(b, kiln_zoo_conv(b, x, window));
}

/* ---- ResNet ---------------------------------------------------------------------------------- */

static value basic_branch(builder *b, value x, int64_t channels, int64_t stride) {
    value y =
        conv_norm_relu(b, x, WINDOW(.channels = channels, .size = 3, .stride = stride, .pad = 1));
    return kiln_zoo_conv_norm(b, y, WINDOW(.channels = channels, .size = 3, .pad = 1));
}

static value bottleneck_branch(builder *b, value x, int64_t channels, int64_t stride) {
    value y = conv_norm_relu(b, x, WINDOW(.channels = channels / 4));
    y = conv_norm_relu(b, y,
                       WINDOW(.channels = channels / 4, .size = 3, .stride = stride, .pad = 1));
    return kiln_zoo_conv_norm(b, y, WINDOW(.channels = channels));
}

static value resnet(builder *b, const int64_t blocks[4], int64_t channels,
                    value (*branch)(builder *, value, int64_t, int64_t)) {
    value x = conv_norm_relu(b, image(b, 3, 224),
                             WINDOW(.channels = 64, .size = 7, .stride = 2, .pad = 3));
    x = kiln_zoo_max_pool(b, x, WINDOW(.size = 3, .stride = 2, .pad = 1));
    for (int stage = 0; stage < 4; stage++, channels *= 2) {
        for (int64_t block = 0; block < blocks[stage]; block++) {
            int64_t stride = stage > 0 && block == 0 ? 2 : 1;
            value y = branch(b, x, channels, stride);
            if (stride != 1 || x.shape.dim[1] != channels)
                x = kiln_zoo_conv_norm(b, x, WINDOW(.channels = channels, .stride = stride));
            /* One summand was rectified before, so little of the sum is cut off. */
            x = kiln_zoo_apply(b, "Relu", kiln_zoo_binary(b, "Add", y, x), 1);
        }
    }
    return classify(b, x);
}

value kiln_zoo_net_resnet18(builder *b) {
    return resnet(b, (int64_t[]){2, 2, 2, 2}, 64, basic_branch);
}

value kiln_zoo_net_resnet50(builder *b) {
    return resnet(b, (int64_t[]){3, 4, 6, 3}, 256, bottleneck_branch);
}

/* ---- MobileNet ------------------------------------------------------------------------------- */

value kiln_zoo_net_mobilenet_v1(builder *b) {
    static const struct {
        int64_t channels, stride;
    } rows[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
    value x = conv_norm_relu(b, image(b, 3, 224),
                             WINDOW(.channels = 32, .size = 3, .stride = 2, .pad = 1));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) {
        int64_t channels = x.shape.dim[1];
        x = conv_norm_relu(b, x,
                           WINDOW(.channels = channels, .size = 3, .stride = rows[i].stride,
                                  .pad = 1, .group = channels));
        x = conv_norm_relu(b, x, WINDOW(.channels = rows[i].channels));
    }
    return classify(b, x);
}

static value inverted_residual(builder *b, value x, int64_t expansion, int64_t channels,
                               int64_t stride) {
    int64_t wide = x.shape.dim[1] * expansion;
    value y = x;
    if (expansion > 1) y = kiln_zoo_relu6(b, kiln_zoo_conv_norm(b, y, WINDOW(.channels = wide)));
    y = kiln_zoo_conv_norm(
        b, y, WINDOW(.channels = wide, .size = 3, .stride = stride, .pad = 1, .group = wide));
    y = kiln_zoo_conv_norm(b, kiln_zoo_relu6(b, y), WINDOW(.channels = channels));
    return stride == 1 && x.shape.dim[1] == channels ? kiln_zoo_binary(b, "Add", x, y) : y;
}

value kiln_zoo_net_mobilenet_v2(builder *b) {
    static const struct {
        int64_t expansion, channels, repeats, stride;
    } rows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    value x = kiln_zoo_conv_norm(b, image(b, 3, 224),
                                 WINDOW(.channels = 32, .size = 3, .stride = 2, .pad = 1));
    x = kiln_zoo_relu6(b, x);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) {
        for (int64_t k = 0; k < rows[i].repeats; k++)
            x = inverted_residual(b, x, rows[i].expansion, rows[i].channels,
                                  k == 0 ? rows[i].stride : 1);
    }
    return classify(b, kiln_zoo_relu6(b, kiln_zoo_conv_norm(b, x, WINDOW(.channels = 1280))));
}

/* ---- networks without normalisation ---------------------------------------------------------- */

static value fire(builder *b, value x, int64_t squeeze, int64_t expand) {
    value y = conv_relu(b, x, WINDOW(.channels = squeeze));
    return kiln_zoo_concat(b, conv_relu(b, y, WINDOW(.channels = expand)),
                           conv_relu(b, y, WINDOW(.channels = expand, .size = 3, .pad = 1)));
}

value kiln_zoo_net_squeezenet1_1(builder *b) {
    kiln_zoo_window pool = {.size = 3, .stride = 2};
    value x = conv_relu(b, image(b, 3, 224), WINDOW(.channels = 64, .size = 3, .stride = 2));
    for (int64_t stage = 1; stage <= 4; stage++) {
        if (stage < 4) x = kiln_zoo_max_pool(b, x, pool);
        x = fire(b, x, 16 * stage, 64 * stage);
        x = fire(b, x, 16 * stage, 64 * stage);
    }
    x = conv_relu(b, x, WINDOW(.channels = IMAGENET_CLASSES));
    return kiln_zoo_flatten(b, kiln_zoo_global_average(b, x));
}

value kiln_zoo_net_vgg11(builder *b) {
    static const struct {
        int64_t channels, repeats;
    } rows[] = {{64, 1}, {128, 1}, {256, 2}, {512, 2}, {512, 2}};
    value x = image(b, 3, 224);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) {
        for (int64_t k = 0; k < rows[i].repeats; k++)
            x = conv_relu(b, x, WINDOW(.channels = rows[i].channels, .size = 3, .pad = 1));
        x = kiln_zoo_max_pool(b, x, WINDOW(.size = 2, .stride = 2));
    }
    x = kiln_zoo_flatten(b, x);
    for (int i = 0; i < 2; i++) x = kiln_zoo_relu(b, kiln_zoo_dense(b, x, 4096));
    return kiln_zoo_dense(b, x, IMAGENET_CLASSES);
}

value kiln_zoo_net_dqn(builder *b) {
    value x = conv_relu(b, image(b, 4, 84), WINDOW(.channels = 32, .size = 8, .stride = 4));
    x = conv_relu(b, x, WINDOW(.channels = 64, .size = 4, .stride = 2));
    x = conv_relu(b, x, WINDOW(.channels = 64, .size = 3));
    x = kiln_zoo_relu(b, kiln_zoo_dense(b, kiln_zoo_flatten(b, x), 512));
    return kiln_zoo_dense(b, x, 18);
}

value kiln_zoo_net_dcgan(builder *b) {
    value x = kiln_zoo_deconv(b, image(b, 100, 1), WINDOW(.channels = 512, .size = 4));
    for (int64_t channels = 256; channels >= 64; channels /= 2) {
        x = kiln_zoo_relu(b, kiln_zoo_batch_norm(b, x));
        x = kiln_zoo_deconv(b, x, WINDOW(.channels = channels, .size = 4, .stride = 2, .pad = 1));
    }
    x = kiln_zoo_relu(b, kiln_zoo_batch_norm(b, x));
    x = kiln_zoo_deconv(b, x, WINDOW(.channels = 3, .size = 4, .stride = 2, .pad = 1));
    return kiln_zoo_apply(b, "Tanh", x, 1);
}
