/* Shared by the files of tflite/: the model that is being read, its tensors, and calls that append
 * nodes. Private to this folder.
 *
 * TFLite has channels last where the graph's operators on images have them first. A tensor of four
 * dimensions therefore has two forms; a transposition makes the other one when it is needed.
 * Operators that accept both compute in the form of their input, so that a network of convolutions
 * is transposed only at its inputs and outputs.
 *
 * Tensors of integers with a scale are quantised. Their stored values are the integers of the file;
 * their real values are computed from these by dequantize_linear.
 *
 * A subgraph that an operator names is imported in place of the operator, with its own tensors.
 * Variables are inputs of the graph, and outputs where an operator writes them.
 *
 * The first error of an operator is kept in `st`; from then on calls do nothing and return 0. */
#ifndef KILN_COMPILER_CORE_FRONTEND_TFLITE_IMPORT_H
#define KILN_COMPILER_CORE_FRONTEND_TFLITE_IMPORT_H

#include "base/tensor.h"
#include "base/vec.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/problems.h"
#include "compiler-core/frontend/tflite/flat.h"
#include "compiler-core/graph/op.h"

typedef enum kiln_tflite_field {
#define FIELD(table, name, number, bytes) KILN_TFLITE_##table##_##name,
#define TYPE(name, number, dtype, bits)
#define ACTIVATION(name, number, op, low, high)
#include "compiler-core/frontend/tflite/tflite.def"
#undef FIELD
#undef TYPE
#undef ACTIVATION
    KILN_TFLITE_NONE
} kiln_tflite_field;

typedef enum kiln_tflite_operator {
#define X(number, name, op, how, activation) KILN_TFLITE_OPERATOR_##name = number,
#include "compiler-core/frontend/tflite/operators.def"
#undef X
    KILN_TFLITE_OPERATOR_COUNT
} kiln_tflite_operator;

/* Of a tensor of four dimensions: as in the file, or with channels before height and width. Others
 * are as in the file. */
typedef enum kiln_tflite_layout {
    KILN_TFLITE_LAST,
    KILN_TFLITE_FIRST,
    KILN_TFLITE_LAYOUT_COUNT
} kiln_tflite_layout;

/* Rows of a list before or after a position that is known at run time only. */
typedef struct kiln_tflite_part {
    kiln_value list, at;
    bool is_behind;
} kiln_tflite_part;

typedef struct kiln_tflite_tensor {
    kiln_str name;
    kiln_dtype dtype;
    uint32_t bits, buffer;
    kiln_shape shape; /* with the extents that the caller or the file gives open dimensions */
    bool open[KILN_RANK_MAX];     /* dimensions that are open in the file */
    bool poison;                  /* not supported, or the result of something that is not */
    const char *refused;          /* why the tensor is not supported; NULL once reported */
    bool variable, written;       /* it keeps its value from run to run; it got a new one */
    bool quantised, zero_is_zero; /* zero_is_zero: all zero points are 0 */
    uint32_t axis;                /* along which scales differ, channels last */
    kiln_tensor scale, zero;      /* one element, or one per index of `axis`; f32 and `dtype` */
    kiln_value scale_value, zero_value; /* 0: not made yet; same below */
    kiln_tflite_part part;              /* `list` 0: it is an ordinary tensor */
    kiln_tflite_layout home;            /* the form that was made first */
    kiln_value stored[KILN_TFLITE_LAYOUT_COUNT], real[KILN_TFLITE_LAYOUT_COUNT];
} kiln_tflite_tensor;

typedef struct kiln_tflite kiln_tflite;
typedef struct kiln_tflite_row {
    const char *name; /* NULL: there is no operator of this number */
    kiln_tflite_operator number;
    kiln_op op;
    void (*import)(kiln_tflite *t);
    kiln_tflite_field activation;
} kiln_tflite_row;

struct kiln_tflite {
    kiln_flat file;
    kiln_flat_vector buffer, codes, graphs;
    kiln_graph *graph;
    const kiln_import_options *options;
    kiln_evaluation evaluation;
    uint64_t budget_bytes; /* that constants may still take */
    uint64_t given_bytes;  /* that they took */
    bool shapes_are_ours;  /* the caller gave an open dimension, so shapes in the file do not
                            * hold */
    /* The subgraph that is being imported, and the number of subgraphs around it. */
    uint32_t subgraph, depth;
    uint32_t tensor_count;
    kiln_tflite_tensor *tensor;
    /* The operator that is being imported. */
    uint32_t number; /* its place in the file */
    const kiln_tflite_row *row;
    kiln_flat_table options_table;
    kiln_flat_vector input, output;
    kiln_value first_value; /* values from here on are its own */
    bool keeps; /* moves or chooses elements of quantised tensors that all have the same scale */
    kiln_status st;
    kiln_problems problems;
    uint32_t bound_count;
    bool told[KILN_TFLITE_OPERATOR_COUNT]; /* operators already reported as unsupported */
};

#define X(number, name, op, how, activation) void kiln_tflite_##how(kiln_tflite *t);
#include "compiler-core/frontend/tflite/operators.def"
#undef X

/* ---- fields ---------------------------------------------------------------------------------- */
int64_t kiln_tflite_int(const kiln_flat_table *table, kiln_tflite_field field, int64_t otherwise);
double kiln_tflite_float(const kiln_flat_table *table, kiln_tflite_field field, double otherwise);
kiln_str kiln_tflite_text(const kiln_flat_table *table, kiln_tflite_field field);
kiln_flat_table kiln_tflite_child(const kiln_flat_table *table, kiln_tflite_field field);
kiln_flat_vector kiln_tflite_items(const kiln_flat_table *table, kiln_tflite_field field,
                                   size_t item_bytes);
/* A field of the current operator's options; booleans are integers. */
int64_t kiln_tflite_option(const kiln_tflite *t, kiln_tflite_field field, int64_t otherwise);

/* The results `output` [output_count] of a subgraph on `input` [input_count], all as stored, with
 * channels last; 0 with an error. */
void kiln_tflite_body(kiln_tflite *t, int64_t number, const kiln_value *input, uint32_t input_count,
                      kiln_value *output, uint32_t output_count);

/* ---- tensors (tensor.c) ---------------------------------------------------------------------- */
/* Reads what the file says of each tensor of its graph. INVALID_ARGUMENT: the file contradicts
 * itself. */
KILN_MUST_USE kiln_status kiln_tflite_read_tensors(kiln_tflite *t, const kiln_flat_table *graph);
/* Whether all inputs and outputs of the current operator have the same scale and zero point. */
bool kiln_tflite_same_numbers(const kiln_tflite *t);
kiln_tflite_tensor *kiln_tflite_output(const kiln_tflite *t, uint32_t index); /* NULL: left out */
/* The tensor that is input `index` of the current operator; NULL: it is left out. */
kiln_tflite_tensor *kiln_tflite_input(const kiln_tflite *t, uint32_t index);
/* The same, for inputs that must be there: NULL with an error. */
kiln_tflite_tensor *kiln_tflite_needed(kiln_tflite *t, uint32_t index);
/* The tensor's stored value, in a layout; 0 with an error. */
kiln_value kiln_tflite_stored(kiln_tflite *t, kiln_tflite_tensor *tensor,
                              kiln_tflite_layout layout);
/* The tensor's real value. */
kiln_value kiln_tflite_real(kiln_tflite *t, kiln_tflite_tensor *tensor, kiln_tflite_layout layout);
/* Input `index` as the current operator computes with it: stored values if it keeps elements, else
 * real ones. */
kiln_value kiln_tflite_data(kiln_tflite *t, uint32_t index, kiln_tflite_layout layout);
/* Integers that must be known while importing: elements of input `index`, at most `most`; false
 * with an error. In the graph's arena. */
bool kiln_tflite_ints(kiln_tflite *t, uint32_t index, uint32_t most, const int64_t **out_item,
                      uint32_t *out_count);
/* Converts a stored value of the tensor to a real one, and back; unchanged where it is not
 * quantised.
 */
kiln_value kiln_tflite_as_real(kiln_tflite *t, kiln_tflite_tensor *tensor, kiln_value stored);
kiln_value kiln_tflite_as_stored(kiln_tflite *t, kiln_tflite_tensor *tensor, kiln_value real);
/* The variable that is input `index`; NULL with an error. */
kiln_tflite_tensor *kiln_tflite_variable(kiln_tflite *t, uint32_t index);
/* Gives a variable a new stored value, which later reads see. */
void kiln_tflite_write(kiln_tflite *t, kiln_tflite_tensor *variable, kiln_value stored);
/* Scale and zero point as constants of the graph. */
kiln_value kiln_tflite_scale(kiln_tflite *t, kiln_tflite_tensor *tensor);
kiln_value kiln_tflite_zero(kiln_tflite *t, kiln_tflite_tensor *tensor);
/* `value` is the current operator's result `index`, in a layout: applies the activation, quantises,
 * and compares type and shape with what the file says. */
void kiln_tflite_define(kiln_tflite *t, uint32_t index, kiln_value value,
                        kiln_tflite_layout layout);

/* ---- positions known at run time only (rows.c)
 * ------------------------------------------------- */
/* A SLICE of `x` that begins or ends at such a position; false: it is none, nothing was made. */
bool kiln_tflite_slice_in_run(kiln_tflite *t, kiln_tflite_tensor *x);
/* A CONCATENATION of the rows before one, a new row, and the rows behind it; false as above.
 */
bool kiln_tflite_set_row(kiln_tflite *t);

/* ---- nodes (node.c) -------------------------------------------------------------------------- */
void kiln_tflite_fail(kiln_tflite *t, kiln_status st); /* keeps `st` unless there is an error */
/* Appends a node with `output_count` new values. */
void kiln_tflite_nodes(kiln_tflite *t, kiln_op op, const kiln_value *input, uint32_t input_count,
                       const kiln_attr *attr, uint32_t attr_count, kiln_value *output,
                       uint32_t output_count);
/* With one result. */
kiln_value kiln_tflite_node(kiln_tflite *t, kiln_op op, const kiln_value *input,
                            uint32_t input_count, const kiln_attr *attr, uint32_t attr_count);
kiln_value kiln_tflite_unary(kiln_tflite *t, kiln_op op, kiln_value a);
kiln_value kiln_tflite_binary(kiln_tflite *t, kiln_op op, kiln_value a, kiln_value b);
kiln_value kiln_tflite_cast(kiln_tflite *t, kiln_value a, kiln_dtype dtype);
kiln_value kiln_tflite_reshaped(kiln_tflite *t, kiln_value a, const kiln_shape *shape);
kiln_value kiln_tflite_transposed(kiln_tflite *t, kiln_value a, const int64_t *order);
/* Elements [start, end) along a dimension. */
kiln_value kiln_tflite_cut_out(kiln_tflite *t, kiln_value a, int64_t axis, int64_t start,
                               int64_t end);
kiln_value kiln_tflite_clipped(kiln_tflite *t, kiln_value a, double low, double high);
kiln_value kiln_tflite_constant(kiln_tflite *t, const kiln_tensor *tensor);
kiln_value kiln_tflite_scalar(kiln_tflite *t, kiln_dtype dtype, double value);
const kiln_shape *kiln_tflite_shape(const kiln_tflite *t, kiln_value value);
kiln_dtype kiln_tflite_dtype(const kiln_tflite *t, kiln_value value);
kiln_attr kiln_tflite_word(const char *name, const char *word); /* a text attribute */
/* An axis of `rank` dimensions, from the end where negative; false with an error. */
bool kiln_tflite_axis(kiln_tflite *t, int64_t given, uint32_t rank, uint32_t *out_axis);
/* The place of the file's dimension in a tensor of four dimensions in this layout. */
uint32_t kiln_tflite_place(kiln_tflite_layout layout, uint32_t dimension);
/* The form that the operator's inputs of four dimensions have already: FIRST if any that is
 * computed has it. */
kiln_tflite_layout kiln_tflite_preferred(const kiln_tflite *t);

#endif
