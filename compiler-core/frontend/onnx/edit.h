/* Changes an ONNX model that was read from a file. The unpacked messages are not modified; a
 * message is copied before it is changed. Private to onnx/. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ONNX_EDIT_H
#define KILN_COMPILER_CORE_FRONTEND_ONNX_EDIT_H

#include "base/map.h"
#include "base/vec.h"
#include "compiler-core/frontend/onnx/proto.h"

typedef struct kiln_onnx_edit {
    kiln_arena *arena;
    Onnx__ModelProto *source; /* as it was unpacked */
    Onnx__ModelProto model;   /* a copy; the lists below are its graph's nodes, ... */
    Onnx__GraphProto graph;
    KILN_VEC(Onnx__NodeProto *) node;
    KILN_VEC(Onnx__TensorProto *) initializer;
    KILN_VEC(Onnx__ValueInfoProto *) input;
    KILN_VEC(Onnx__ValueInfoProto *) output;
    kiln_map constant; /* name -> TensorProto of an initialiser or a Constant node */
    kiln_map taken;    /* names of all values, in bodies too */
    int64_t opset;
} kiln_onnx_edit;

/* Unpacks `bytes`, which need not last. External data in `files` becomes part of the model, at most
 * `memory_bytes` in all. Deinit is required after an error, too. */
KILN_MUST_USE kiln_status kiln_onnx_edit_init(kiln_onnx_edit *edit, kiln_str bytes,
                                              const kiln_onnx_files *files, uint64_t memory_bytes,
                                              kiln_arena *arena);
void kiln_onnx_edit_deinit(kiln_onnx_edit *edit);
/* The model in its current state, for kiln_import_model. Unread initialisers and the descriptions
 * of values between nodes are dropped. */
const Onnx__ModelProto *kiln_onnx_edit_model(kiln_onnx_edit *edit);
/* Its bytes, in the arena. OUT_OF_RANGE: more than a model can have. */
KILN_MUST_USE kiln_status kiln_onnx_edit_pack(kiln_onnx_edit *edit, kiln_str *out_bytes);

/* A constant of floats by name; false: there is none, it is of another type, or damaged. */
bool kiln_onnx_edit_floats(kiln_onnx_edit *edit, const char *name, kiln_tensor *out_tensor);
/* The same without the data: whether it has at least one element, and its extents. */
bool kiln_onnx_edit_has_floats(const kiln_onnx_edit *edit, const char *name, kiln_shape *out_shape);
bool kiln_onnx_edit_is_constant(const kiln_onnx_edit *edit, const char *name);
/* A new name, `wanted` followed by `suffix`, changed where that is taken; reserves it. */
char *kiln_onnx_edit_name(kiln_onnx_edit *edit, const char *wanted, const char *suffix);
/* A new initialiser; its data are copied. Returns its name. */
char *kiln_onnx_edit_add_constant(kiln_onnx_edit *edit, const char *wanted, const char *suffix,
                                  const kiln_tensor *tensor);
/* The same for integers of 2 or 4 bits, each in a byte of I8 or U8; bits 0: an ordinary type. */
char *kiln_onnx_edit_add_packed(kiln_onnx_edit *edit, const char *wanted, const char *suffix,
                                const kiln_tensor *tensor, uint32_t bits);
/* Sets the element type of an input or output of the model to `dtype`. */
void kiln_onnx_edit_set_type(kiln_onnx_edit *edit, const char *name, kiln_dtype dtype);
/* Adds an output to the model. */
void kiln_onnx_edit_add_output(kiln_onnx_edit *edit, const char *name);
/* A copy of a node with room for `input_count` inputs, those without a name are "". */
Onnx__NodeProto *kiln_onnx_edit_copy_node(kiln_onnx_edit *edit, const Onnx__NodeProto *node,
                                          size_t input_count);
/* A new node, not in a list yet. */
Onnx__NodeProto *kiln_onnx_edit_make_node(kiln_onnx_edit *edit, const char *op,
                                          uint32_t input_count, char *const *input, char *output);
void kiln_onnx_edit_set_int(kiln_onnx_edit *edit, Onnx__NodeProto *node, const char *name,
                            int64_t value);

/* Sets the version of the standard operator set that the model declares to `opset`. */
void kiln_onnx_edit_set_opset(kiln_onnx_edit *edit, int64_t opset);
/* Rewrites the nodes that changed between the model's operator set and `to`, if that is newer, so
 * that the model's meaning is kept. UNIMPLEMENTED: a node that is not converted, or a set before
 * 7. */
KILN_MUST_USE kiln_status kiln_onnx_raise_opset(kiln_onnx_edit *edit, int64_t to);

/* ---- reading nodes ---- */
/* Input `index`, "" where it is left out. */
const char *kiln_onnx_node_input(const Onnx__NodeProto *node, size_t index);
bool kiln_onnx_node_is(const Onnx__NodeProto *node, const char *op); /* of the standard domain */
int64_t kiln_onnx_node_int(const Onnx__NodeProto *node, const char *name, int64_t otherwise);
double kiln_onnx_node_float(const Onnx__NodeProto *node, const char *name, double otherwise);
/* Calls `see` for each name that nodes in bodies of `node` read, and for each result of a body. */
void kiln_onnx_node_body_reads(const Onnx__NodeProto *node,
                               void (*see)(void *context, const char *name), void *context);

#endif
