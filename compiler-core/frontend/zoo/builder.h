/* Writes an ONNX model node by node. Private to zoo/.
 *
 * Every value carries its shape, so that a layer needs only the parameters of its output, and the
 * expected size of its elements, so that the statistics of batch normalisations fit the random
 * weights before them and activations keep their size at any depth. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ZOO_BUILDER_H
#define KILN_COMPILER_CORE_FRONTEND_ZOO_BUILDER_H

#include "base/arena.h"
#include "base/dtype.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/vec.h"
#include "onnx.pb-c.h"

#define KILN_ZOO_RANK_MAX 4

typedef struct kiln_zoo_shape {
    uint32_t rank;
    int64_t dim[KILN_ZOO_RANK_MAX];
} kiln_zoo_shape;
#define KILN_ZOO_SHAPE(...)                                                       \
    ((kiln_zoo_shape){.rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
                      .dim = {__VA_ARGS__}})

typedef struct kiln_zoo_value {
    char *name;
    kiln_zoo_shape shape;
    double power; /* expected mean square of an element */
} kiln_zoo_value;

/* Expected distribution of a value's elements. */
typedef struct kiln_zoo_expected {
    const char *name;
    double power;
    bool rectified; /* none is below 0 */
} kiln_zoo_expected;

/* Options in a model's name. */
typedef struct kiln_zoo_form {
    kiln_dtype floats; /* of inputs, weights and results: F32, F16 or BF16 */
    int64_t batch;     /* of images */
    bool shifted;      /* the model will be quantised: operators have the bias and rectifier of a
                        * layer */
} kiln_zoo_form;

/* A model under construction: protobuf structs in an arena, only read by `end`. */
typedef struct kiln_zoo_builder {
    kiln_arena *arena;
    kiln_zoo_form form;
    bool has_images; /* its input is a batch of images */
    kiln_rand rand;
    uint32_t constant_count;
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset;
    KILN_VEC(kiln_zoo_expected) expected; /* of the input and the results of nodes */
} kiln_zoo_builder;

/* An empty model in `arena`, whose weights are drawn from `seed`. */
void kiln_zoo_begin(kiln_zoo_builder *b, kiln_zoo_form form, kiln_arena *arena, uint64_t seed);
/* The Onnx__TensorProto__DataType of its floats. */
int32_t kiln_zoo_float_type(const kiln_zoo_builder *b);
/* Appends the model's bytes with `y` as its output, renamed to "y". */
void kiln_zoo_end(kiln_zoo_builder *b, kiln_str name, kiln_zoo_value y, kiln_strbuf *out);

/* NULL: there is no such value. */
const kiln_zoo_expected *kiln_zoo_expectation(const kiln_zoo_builder *b, kiln_str name);

/* The input "x"; `type` is an Onnx__TensorProto__DataType. */
kiln_zoo_value kiln_zoo_input(kiln_zoo_builder *b, int32_t type, kiln_zoo_shape shape);

/* The same of a batch of images. */
kiln_zoo_value kiln_zoo_images(kiln_zoo_builder *b, int32_t type, int64_t channels, int64_t height,
                               int64_t width);

/* A node named by its operator and number, without inputs yet. */
Onnx__NodeProto *kiln_zoo_node(kiln_zoo_builder *b, const char *op);
/* The same with its first input. */
Onnx__NodeProto *kiln_zoo_node_on(kiln_zoo_builder *b, const char *op, kiln_zoo_value x);
/* Its next input. */
void kiln_zoo_feed(kiln_zoo_builder *b, Onnx__NodeProto *node, kiln_zoo_value x);
/* Its next input: a constant NODE.`suffix`, normally distributed. */
void kiln_zoo_weights(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *suffix,
                      kiln_zoo_shape shape, double mean, double deviation);
/* Its next input: a constant NODE.`suffix` of signed bytes, uniformly distributed. */
void kiln_zoo_bytes(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *suffix,
                    kiln_zoo_shape shape);
/* Its next input: one unsigned byte. */
void kiln_zoo_byte(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *suffix, uint8_t value);
/* Its attributes; a list is copied. */
void kiln_zoo_set_ints(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *name,
                       const int64_t *value, size_t count);
void kiln_zoo_set_int(kiln_zoo_builder *b, Onnx__NodeProto *node, const char *name, int64_t value);
/* Its next output. */
kiln_zoo_value kiln_zoo_result(kiln_zoo_builder *b, Onnx__NodeProto *node, kiln_zoo_shape shape,
                               double power);

/* Constants of their own. */
kiln_zoo_value kiln_zoo_random(kiln_zoo_builder *b, kiln_zoo_shape shape, double deviation);
kiln_zoo_value kiln_zoo_scalar(kiln_zoo_builder *b, float value);
kiln_zoo_value kiln_zoo_integers(kiln_zoo_builder *b, const int64_t *value, size_t count);

#endif
