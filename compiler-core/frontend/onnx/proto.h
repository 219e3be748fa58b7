/* Shared by the files of onnx/: the generated types, and their conversion. Private to this folder.
 */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_PROTO_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_PROTO_H

#include "base/map.h"
#include "base/vec.h"
#include "compiler-core/frontend/onnx/dtype.h"
#include "compiler-core/frontend/onnx/onnx.h"
#include "compiler-core/frontend/problems.h"
#include "compiler-core/graph/op.h"
#include "onnx.pb-c.h"

/* The allocator for protobuf-c. */
extern ProtobufCAllocator *const kiln_onnx_allocator;

static inline kiln_str kiln_proto_text(const char *text) { return kiln_str_from(text); }
static inline kiln_str kiln_proto_bytes(ProtobufCBinaryData data) {
    return (kiln_str){(const char *)data.data, data.len};
}

/* Checks and unpacks a whole file; free with kiln_onnx_model_free. INVALID_ARGUMENT: not a model.
 */
KILN_MUST_USE kiln_status kiln_onnx_model_unpack(kiln_str bytes, Onnx__ModelProto **out_model);
void kiln_onnx_model_free(Onnx__ModelProto *model); /* accepts NULL */

/* Location of external data. All zero: none is allowed. */
typedef struct kiln_onnx_files {
    const char *folder; /* NULL: there can be none */
    kiln_status (*open)(const char *path, int *out_fd, size_t *out_size); /* import_options.open */
} kiln_onnx_files;

/* A tensor's data, copied into `arena`. `*budget_bytes`: what all tensors together may still take;
 * it is reduced. UNIMPLEMENTED: a type that Kiln does not have. */
KILN_MUST_USE kiln_status kiln_onnx_tensor(const Onnx__TensorProto *proto,
                                           const kiln_onnx_files *files, uint64_t *budget_bytes,
                                           kiln_arena *arena, kiln_tensor *out_tensor);

/* Bits of the tensor's integers if they are packed; else 0. */
uint32_t kiln_onnx_tensor_bits(const Onnx__TensorProto *proto);
/* Bytes that the tensor has in a file beside the model; 0: none, or its kind is not supported. */
uint64_t kiln_onnx_external_bytes(const Onnx__TensorProto *proto);

/* Whether the model leaves the dimension open; some exporters write -1 for that. */
bool kiln_onnx_dim_is_open(const Onnx__TensorShapeProto__Dimension *dim);
/* The name of an open dimension, or "INPUT.PLACE" if it has none. In `arena`. */
kiln_str kiln_onnx_dim_name(const Onnx__ValueInfoProto *input, size_t place, kiln_arena *arena);
/* The value that `options` give the dimension of that name; false: none. */
bool kiln_onnx_dim_find(const kiln_import_options *options, kiln_str name, int64_t *out_value);
/* Checks that every name in `options` is an open dimension. INVALID_ARGUMENT: the message lists the
 * open dimensions. */
KILN_MUST_USE kiln_status kiln_onnx_dims_check(const Onnx__GraphProto *graph,
                                               const kiln_import_options *options);

/* ---- import ---------------------------------------------------------------------------------- */
typedef struct kiln_import_row kiln_import_row;
/* A sequence, or an empty optional value (sequences.c). */
typedef struct kiln_import_list {
    uint32_t count;
    bool is_none;
    kiln_value *item; /* [count] */
} kiln_import_list;

/* A call of one of the model's functions (functions.c). */
typedef struct kiln_import_call {
    const Onnx__NodeProto *node;
    const Onnx__FunctionProto *function;
    kiln_map absent; /* names of its inputs that the call leaves out */
} kiln_import_call;

typedef struct kiln_importer {
    kiln_graph *graph;
    kiln_onnx_files files;
    const kiln_import_options *options;
    int64_t opset;
    uint64_t budget_bytes;      /* that the file's tensors may still take */
    uint64_t made_bytes;        /* of constants that nodes made */
    kiln_evaluation evaluation; /* values that were evaluated while importing */
    kiln_map
        value; /* ONNX name -> kiln_value; KILN_IMPORT_POISON: the result of an unsupported node */
    kiln_map taken;         /* names of the graph's values, including reserved ones */
    KILN_VEC(uint8_t) bits; /* by kiln_value: kiln_import_bits; values beyond have 0 */
    KILN_VEC(kiln_import_list) list;
    KILN_VEC(uint32_t) list_of; /* by kiln_value: place in `list` + 1; values beyond have 0 */
    const Onnx__ModelProto *model;
    bool once;                    /* see kiln_import_model_once */
    const kiln_import_call *call; /* whose body is being imported; NULL: none */
    const Onnx__NodeProto *node;  /* being imported */
    const kiln_import_row *row;   /* the row of that node */
    const char *scope;            /* of names in a body, "loop.3"; "" outside of bodies */
    uint32_t depth;               /* bodies around the current node */
    uint64_t body_nodes;          /* imported so far */
    uint32_t fresh_count;         /* numbers for names */
    kiln_problems problems;
    uint32_t bound_count;
} kiln_importer;

#define KILN_IMPORT_POISON UINT64_MAX
/* A few bytes of a file can ask for a constant of any size: a larger one than this is an error, or
 * is computed at run time (compose.h). */
#define KILN_MADE_BYTES_MAX ((uint64_t)128 << 20)
#define KILN_IMPORT_DEPTH_MAX 16u /* bodies within bodies */
/* Nodes of bodies, counted each time that a body is imported: iterations multiply with each loop
 * around a loop. 32 steps of a layer of 1,000 nodes fit. */
#define KILN_IMPORT_BODY_NODES_MAX 32768u

/* Imports the current node. UNIMPLEMENTED becomes a line of the list, other errors end the import.
 * Functions of rows without an operator are not called when an input is the result of an
 * unsupported node. */
typedef kiln_status (*kiln_import_function)(kiln_importer *im);

struct kiln_import_row {
    const char *name; /* ONNX operator */
    int since;        /* first opset with this meaning */
    kiln_op op;
    kiln_import_function import;
    const char *spec;
};

#define X(name, since, op, how, spec) \
    KILN_MUST_USE kiln_status kiln_import_##how(kiln_importer *im);
#include "compiler-core/frontend/onnx/contributed.def"
#include "compiler-core/frontend/onnx/ml.def"
#include "compiler-core/frontend/onnx/nodes.def"
#include "compiler-core/frontend/onnx/own.def"
#include "compiler-core/frontend/onnx/preview.def"
#undef X

/* The newest row of nodes.def up to `opset` that means the same as `op`, apart from the words of
 * `spec`; NULL: none. */
const kiln_import_row *kiln_import_row_of(kiln_op op, int64_t opset);
/* A node's name, or its first output's name when it has none. */
const char *kiln_import_node_name(const Onnx__NodeProto *node);
/* Adds a line to the list of problems: the current node is not supported. Takes the status. */
void kiln_import_add_problem(kiln_importer *im, kiln_status st);
/* Whether a name, or any input of the current node, is the result of an unsupported node. */
bool kiln_import_is_poison(const kiln_importer *im, const char *name);
bool kiln_import_reads_poison(const kiln_importer *im);
const Onnx__AttributeProto *kiln_import_attribute(const kiln_importer *im,
                                                  const char *name); /* NULL: not given */
/* The value of ONNX input `index`: 0 when left out. */
kiln_value kiln_import_input(const kiln_importer *im, uint32_t index);
/* The data of an input that must be known while importing: initialisers, constants, values computed
 * from them, and inputs with values in the options. UNIMPLEMENTED: only known at run time. */
KILN_MUST_USE kiln_status kiln_import_demand(kiln_importer *im, uint32_t index,
                                             kiln_tensor *out_tensor);
/* The input's only element. INVALID_ARGUMENT: it does not have exactly one. */
KILN_MUST_USE kiln_status kiln_import_demand_int(kiln_importer *im, uint32_t index,
                                                 int64_t *out_value);
KILN_MUST_USE kiln_status kiln_import_demand_float(kiln_importer *im, uint32_t index,
                                                   double *out_value);
/* The same of any value. */
KILN_MUST_USE kiln_status kiln_import_evaluate(kiln_importer *im, kiln_value value,
                                               kiln_tensor *out_tensor);
/* Binds ONNX output `index` of the current node to `value`; 0: the result is unsupported. */
void kiln_import_define(kiln_importer *im, uint32_t index, kiln_value value);
/* The value of ONNX output `index` so far; 0: none. */
kiln_value kiln_import_defined(const kiln_importer *im, uint32_t index);
/* Names for new values: of ONNX output `index`, and of a value that the model does not name. */
kiln_str kiln_import_output_name(kiln_importer *im, uint32_t index);
kiln_str kiln_import_fresh_name(kiln_importer *im);
/* Accounts for memory of a constant that a node makes; OUT_OF_RANGE: more than KILN_MADE_BYTES_MAX
 * in all. */
KILN_MUST_USE kiln_status kiln_import_take_memory(kiln_importer *im, size_t size_bytes);
/* A constant under ONNX output 0's name. */
void kiln_import_define_constant(kiln_importer *im, const kiln_tensor *tensor);
/* Bits in the file of the integers of a value that stores one per byte; 0: all. */
uint32_t kiln_import_bits(const kiln_importer *im, kiln_value value);
void kiln_import_set_bits(kiln_importer *im, kiln_value value, uint32_t bits);
/* Adds a graph node for the current ONNX node, with these inputs, attributes by `row`, and its
 * outputs. */
KILN_MUST_USE kiln_status kiln_import_emit(kiln_importer *im, const kiln_import_row *row,
                                           const kiln_value *input, uint32_t input_count);

/* The list behind a value; NULL: it is a tensor, or 0. */
const kiln_import_list *kiln_import_list_of(const kiln_importer *im, kiln_value value);
/* Whether an input of the current node is a list. */
bool kiln_import_reads_list(const kiln_importer *im);

/* The function of the model that a node calls; NULL: none. UNIMPLEMENTED: there are several. */
KILN_MUST_USE kiln_status kiln_import_find_function(const kiln_importer *im,
                                                    const Onnx__NodeProto *node,
                                                    const Onnx__FunctionProto **out_function);
/* Imports its body in place of the current node. */
KILN_MUST_USE kiln_status kiln_import_inline(kiln_importer *im,
                                             const Onnx__FunctionProto *function);
/* A node of the body of the current call, with the attributes of the call substituted. In the
 * graph's arena. */
const Onnx__NodeProto *kiln_import_called_node(kiln_importer *im, const Onnx__NodeProto *node);
/* Imports nodes in a new scope of names, as a nested body: UNIMPLEMENTED or RESOURCE_EXHAUSTED when
 * there are too many. */
KILN_MUST_USE kiln_status kiln_import_scope(kiln_importer *im, Onnx__NodeProto *const *node,
                                            size_t count);

/* Imports the nodes of a body (a branch of If, an iteration of Loop) into the graph. Its names are
 * valid during the call only; outer names are visible in it. `input`: one value per input of the
 * body; `output`: [n_output], 0 where a result depends on something unsupported. */
KILN_MUST_USE kiln_status kiln_import_body(kiln_importer *im, const Onnx__GraphProto *body,
                                           const kiln_value *input, kiln_value *output);

#endif
