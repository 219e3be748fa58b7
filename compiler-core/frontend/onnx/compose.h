/* Composes one ONNX node from several nodes: recurrent layers, attention and other arithmetic on
 * operators of ops.def. Such operators need no own definition, kernel or schedule.
 *
 * Calls append a node, infer its shape and return its result. The first error is kept in `st`; from
 * then on calls do nothing and return 0. Private to this folder. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_COMPOSE_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_COMPOSE_H

#include "compiler-core/frontend/onnx/proto.h"

typedef struct kiln_composer {
    kiln_importer *im;
    kiln_status st;
} kiln_composer;

/* Most parts that one node splits off or joins: a kernel has at most KILN_MANIFEST_ARGS_MAX
 * arguments. */
#define KILN_COMPOSE_FAN 32u

/* The general form: `output` gets [output_count] new values. */
void kiln_compose_node(kiln_composer *c, kiln_op op, const kiln_value *input, uint32_t input_count,
                       const kiln_attr *attr, uint32_t attr_count, kiln_value *output,
                       uint32_t output_count);
/* One or two inputs, no attribute. */
kiln_value kiln_compose_unary(kiln_composer *c, kiln_op op, kiln_value a);
kiln_value kiln_compose_binary(kiln_composer *c, kiln_op op, kiln_value a, kiln_value b);
/* One input and one attribute that is a list of integers: reshape, transpose, expand, ... */
kiln_value kiln_compose_ints(kiln_composer *c, kiln_op op, kiln_value a, const char *name,
                             const int64_t *item, uint32_t count);
/* One input and one attribute that is a number. */
kiln_value kiln_compose_int(kiln_composer *c, kiln_op op, kiln_value a, const char *name,
                            int64_t value);
/* To a shape with the same number of elements. */
kiln_value kiln_compose_reshape(kiln_composer *c, kiln_value a, const kiln_shape *shape);
/* Elements [start, end) along a dimension. */
kiln_value kiln_compose_slice(kiln_composer *c, kiln_value a, uint32_t axis, int64_t start,
                              int64_t end);
/* a * b (or b transposed) + bias (0: none), of matrices. */
kiln_value kiln_compose_gemm(kiln_composer *c, kiln_value a, kiln_value b, kiln_value bias,
                             bool transpose_b);
/* `a` where the condition holds, else `b`, element by element. */
kiln_value kiln_compose_where(kiln_composer *c, kiln_value condition, kiln_value a, kiln_value b);
/* `a` itself when it has that type already. */
kiln_value kiln_compose_cast(kiln_composer *c, kiln_value a, kiln_dtype dtype);
/* Elements along a dimension by their numbers, in place of that dimension. */
kiln_value kiln_compose_gather(kiln_composer *c, kiln_value a, kiln_value index, int64_t axis);
/* With a new dimension of size 1 there. */
kiln_value kiln_compose_unsqueeze(kiln_composer *c, kiln_value a, int64_t axis);
/* Splits into `count` equal parts along a dimension, or joins them. Many parts are split in several
 * steps, so that the kernels of one step are the same task. */
void kiln_compose_split(kiln_composer *c, kiln_value a, uint32_t axis, uint32_t count,
                        kiln_value *output);
kiln_value kiln_compose_concat(kiln_composer *c, const kiln_value *input, uint32_t count,
                               uint32_t axis);

/* A loop around the nodes composed between the two calls. The arrays belong to the caller, which
 * changes their items in between; `reversed` NULL: none are. */
typedef struct kiln_compose_loop {
    int64_t trips;        /* at most */
    kiln_value count;     /* number of iterations, an i64; 0: `trips` times */
    kiln_value condition; /* whether there is a first iteration, then whether there is a next one;
                             0: always */
    uint32_t carried, row_count, stack_count;
    kiln_value *carry; /* initial values; in the body: current values, replaced by the next ones;
                        * behind it: the last */
    kiln_value *row;   /* [trips][...]; in the body: the iteration's row */
    kiln_value *stack; /* the body's result; behind it: [trips][...] */
    const int64_t *row_reversed, *stack_reversed;
    kiln_value number; /* of the iteration */
} kiln_compose_loop;
void kiln_compose_loop_begin(kiln_composer *c, kiln_compose_loop *loop);
void kiln_compose_loop_end(kiln_composer *c, kiln_compose_loop *loop);
/* Appends an iteration: from `carry` and `row` to the next `carry` and to `stack`; `number` is the
 * iteration's. */
typedef void (*kiln_compose_iteration)(kiln_composer *c, void *context, kiln_compose_loop *loop);
/* A loop of equal iterations; a few iterations are unrolled instead. `count` and `condition` must
 * not be given. */
void kiln_compose_repeat(kiln_composer *c, kiln_compose_loop *loop,
                         kiln_compose_iteration iteration, void *context);
/* Loops of more iterations than this are not unrolled. */
int64_t kiln_compose_unroll_max(const kiln_composer *c);

/* Constants: a scalar; a tensor filled with one value (NULL shape: scalar); any data. */
kiln_value kiln_compose_scalar(kiln_composer *c, kiln_dtype dtype, double value);
kiln_value kiln_compose_filled(kiln_composer *c, kiln_dtype dtype, const kiln_shape *shape,
                               double value);
kiln_value kiln_compose_constant(kiln_composer *c, const kiln_tensor *tensor);
/* A tensor of `shape` filled with the tensor's only element. A large result is not stored: its
 * element is broadcast when it is used. */
kiln_value kiln_compose_spread(kiln_composer *c, const kiln_tensor *item, const kiln_shape *shape);

/* The type of a value that was composed without an error. */
kiln_dtype kiln_compose_dtype(const kiln_composer *c, kiln_value value);
const kiln_shape *kiln_compose_shape(const kiln_composer *c, kiln_value value);
/* Defines output `index` of the current ONNX node as `value`, which gets the output's name even if
 * a part was emitted under it. Does nothing when the node leaves that output out. */
void kiln_compose_define(kiln_composer *c, uint32_t index, kiln_value value);
/* Keeps `st` unless there is an error already. */
void kiln_compose_fail(kiln_composer *c, kiln_status st);

/* Imports the current node, a quantisation with both inputs and an attribute block_size
 * (blocked.c), to `bits` of the type, 0: all. */
KILN_MUST_USE kiln_status kiln_import_quantize_blocks(kiln_importer *im, kiln_dtype dtype,
                                                      uint32_t bits);
KILN_MUST_USE kiln_status kiln_import_dequantize_blocks(kiln_importer *im);

/* A scale or zero point of the current node, a quantisation, which may have been cast: in a shape
 * that broadcasts to that of input 0, or one element for each of its elements (blocked.c). */
kiln_value kiln_compose_granules(kiln_composer *c, kiln_value operand);

/* small.c. `x` as a float of at most 8 bits, by the current node's attributes saturate and
 * round_mode. */
kiln_value kiln_compose_small(kiln_composer *c, kiln_value x, kiln_dtype dtype);
/* Import the current node, a quantisation with both inputs: to such a float; and from one, or with
 * a scale of such a type. */
KILN_MUST_USE kiln_status kiln_import_quantize_small(kiln_importer *im, kiln_dtype dtype);
KILN_MUST_USE kiln_status kiln_import_dequantize_small(kiln_importer *im);

/* Attributes of the current ONNX node, or `otherwise`. */
int64_t kiln_import_int(const kiln_importer *im, const char *name, int64_t otherwise);
double kiln_import_float(const kiln_importer *im, const char *name, double otherwise);
kiln_str kiln_import_text(const kiln_importer *im, const char *name, const char *otherwise);

#endif
