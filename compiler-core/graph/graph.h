/* The graph: a network as an SSA DAG of operators on typed tensors.
 *
 * A graph is a table of values (tensors) and a table of nodes (operators) named by small integer
 * ids, in one arena. Nodes stand in execution order: a node reads only graph inputs, constants and
 * results of earlier nodes. Values and nodes are never deleted, only left unused (a removed node
 * produces nothing).
 *
 * Built by frontend/ and the text parser, rewritten by passes/, cut into kernels by task/. The
 * meaning of operators is defined in ops/ (rows of ops.def). Text form: graph_text.h,
 * docs/reference/graph-text.md. */
#ifndef KILN_COMPILER_CORE_GRAPH_GRAPH_H
#define KILN_COMPILER_CORE_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/str.h"
#include "base/tensor.h"
#include "base/vec.h"

/* Ids index the graph's tables; 0 is "none". */
typedef uint32_t kiln_value;
typedef uint32_t kiln_node;

#define KILN_GRAPH_NODES_MAX 262144u
#define KILN_GRAPH_VALUES_MAX 1048576u
#define KILN_NODE_OPERANDS_MAX 256u /* inputs of one node; outputs as well */
#define KILN_ATTR_ITEMS_MAX 65536u

typedef enum kiln_op {
    KILN_OP_NONE,
#define X(id, name, least, most, results, dtypes, attrs, rule, te, element) KILN_OP_##id,
#include "compiler-core/graph/ops.def"
#undef X
    KILN_OP_COUNT
} kiln_op;

typedef enum kiln_attr_kind {
    KILN_ATTR_INT,
    KILN_ATTR_FLOAT,
    KILN_ATTR_TEXT,
    KILN_ATTR_INTS,
    KILN_ATTR_FLOATS,
    KILN_ATTR_KIND_COUNT
} kiln_attr_kind;

typedef struct kiln_attr {
    kiln_str name;
    kiln_attr_kind kind;
    int64_t i;
    double f;
    kiln_str text;
    uint32_t count; /* INTS, FLOATS */
    const int64_t *ints;
    const double *floats;
} kiln_attr;

typedef struct kiln_value_info {
    kiln_str name;      /* unique in the graph; changed by kiln_graph_rename_value alone */
    kiln_dtype dtype;   /* NONE until inferred */
    kiln_shape shape;   /* meaningful once dtype is known */
    kiln_node producer; /* 0: graph input or constant */
    const void *data;   /* constants: [count(shape)] row-major; NULL otherwise */
    kiln_hash128 hash;  /* constants: of the bytes; the text form prints it for large ones */
} kiln_value_info;

typedef struct kiln_node_info {
    kiln_op op; /* NONE: removed */
    kiln_str name;
    uint32_t input_count, output_count, attr_count;
    kiln_value *input;  /* 0: optional input left out */
    kiln_value *output; /* 0: optional output not wanted */
    kiln_attr *attr;    /* only those given; defaults are in ops.def */
    uint32_t group; /* kernel that computes it, set by fusion: nodes with the same number are one
                       kernel; 0: a kernel of its own (or none: aliases) */
} kiln_node_info;

typedef struct kiln_graph {
    kiln_arena *arena; /* owns everything below; not owned by the graph */
    kiln_str name;
    uint64_t given_bytes;            /* of constants that the model's file brought; 0: not known */
    KILN_VEC(kiln_value_info) value; /* [0] unused, likewise below */
    KILN_VEC(kiln_node_info) node;
    KILN_VEC(kiln_value) input;  /* graph inputs in order */
    KILN_VEC(kiln_value) output; /* graph outputs in order; a value may stand here twice */
    struct {
        kiln_value *slot;     /* [slot_count] open addressing by the name's hash; 0: free */
        uint32_t slot_count;  /* a power of two, or 0 */
        uint32_t used_count;  /* used slots, including those of dropped names */
        uint32_t value_count; /* values below this one have a slot */
    } by_name;
} kiln_graph;

/* An empty graph, all in `arena`. Copies `name`. */
kiln_graph *kiln_graph_create(kiln_arena *arena, kiln_str name);
/* A new value; `name` is made unique by a suffix "'2" when taken. */
kiln_value kiln_graph_add_value(kiln_graph *graph, kiln_str name);
/* The same for a name that the caller knows to be new. */
kiln_value kiln_graph_add_named_value(kiln_graph *graph, kiln_str name);
/* A new value that is the last input; the name as in kiln_graph_add_value. */
kiln_value kiln_graph_add_input(kiln_graph *graph, kiln_str name, kiln_dtype dtype,
                                const kiln_shape *shape);
/* `data` must live as long as the graph's arena; it is not copied. */
kiln_value kiln_graph_add_constant(kiln_graph *graph, kiln_str name, const kiln_tensor *tensor);
/* Turns a value that no node produces any more into a constant. */
void kiln_graph_set_constant(kiln_graph *graph, kiln_value value, const kiln_tensor *tensor);
/* Appends a node with room for the operands, all 0. Set them with the two calls below. */
kiln_node kiln_graph_add_node(kiln_graph *graph, kiln_op op, kiln_str name, uint32_t input_count,
                              uint32_t output_count);
void kiln_graph_set_input(kiln_graph *graph, kiln_node node, uint32_t index, kiln_value value);
void kiln_graph_set_output(kiln_graph *graph, kiln_node node, uint32_t index, kiln_value value);
/* Attributes for kiln_graph_set_attr; lists are views. */
kiln_attr kiln_attr_int(const char *name, int64_t value);
kiln_attr kiln_attr_float(const char *name, double value);
kiln_attr kiln_attr_ints(const char *name, const int64_t *value, uint32_t count);
/* Adds or replaces; strings and lists are copied into the graph's arena. */
void kiln_graph_set_attr(kiln_graph *graph, kiln_node node, const kiln_attr *attr);
/* The same by name. */
void kiln_graph_set_int(kiln_graph *graph, kiln_node node, const char *name, int64_t value);
void kiln_graph_set_ints(kiln_graph *graph, kiln_node node, const char *name, const int64_t *value,
                         uint32_t count);

kiln_value kiln_graph_find_value(kiln_graph *graph, kiln_str name); /* 0: none */
/* Copies `name`, which no other value may have. */
void kiln_graph_rename_value(kiln_graph *graph, kiln_value value, kiln_str name);
/* NULL: the node does not give it. */
const kiln_attr *kiln_node_attr(const kiln_node_info *node, const char *name);
static inline bool kiln_value_is_constant(const kiln_graph *graph, kiln_value value) {
    return value != 0 && graph->value.data[value].data != NULL;
}
kiln_tensor kiln_value_tensor(const kiln_graph *graph, kiln_value value); /* of a constant */

/* Removes the node; its results must be unused or replaced first. */
void kiln_graph_remove_node(kiln_graph *graph, kiln_node node);
/* Puts the nodes into another order: `order[n]` is the node that moves to `n`, [node count], a
 * permutation, [0] is 0. Groups move with their nodes. */
void kiln_graph_reorder(kiln_graph *graph, const kiln_node *order);
/* Uses of each value (inputs of nodes plus graph outputs): [value count], in `arena`. */
uint32_t *kiln_graph_count_uses(const kiln_graph *graph, kiln_arena *arena);

/* Checks the rules above and those of ops.def: arity, known attributes of the right kind, dtypes
 * and shapes that agree with the shape rule, unique names, order. INTERNAL naming the rule and the
 * node. */
KILN_MUST_USE kiln_status kiln_graph_verify(kiln_graph *graph);

#endif
