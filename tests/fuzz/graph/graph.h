/* A random ONNX graph: what the graph fuzzer draws, runs, shrinks and writes.
 *
 * Every value carries what the interpreter computes for it, node by node (`truth`), so the
 * generator knows what it feeds to the next operator, any value can be an output, and any value can
 * become an input when the graph is shrunk.
 *
 * Rounding: beside the truth go COPIES evaluations whose float operands were moved by about two
 * units in the last place before every node that rounds. Their distance from the truth is how far a
 * right program may be off: comparisons of outputs take their tolerance from it. A node whose
 * integers or truth values differ between copies (ties of ArgMax, Floor at an integer, ...), or
 * whose floats lie far apart, is ill-conditioned, and is drawn anew. Nodes that only move or choose
 * elements are not disturbed, so ties and halves in inputs are tested where they must be exact. */
#ifndef KILN_TESTS_FUZZ_GRAPH_GRAPH_H
#define KILN_TESTS_FUZZ_GRAPH_GRAPH_H

#include "base/rand.h"
#include "base/tensor.h"
#include "tests/support/onnx_message.h"

#define FUZZ_VALUES_MAX 256u
#define FUZZ_NODES_MAX 24u
#define FUZZ_OPERANDS_MAX 16u
#define FUZZ_COPIES 2u
#define FUZZ_NONE UINT32_MAX /* an operand that is left out */

typedef enum fuzz_origin { FUZZ_INPUT, FUZZ_CONSTANT, FUZZ_RESULT } fuzz_origin;

typedef struct fuzz_value {
    char name[8];
    fuzz_origin origin;
    bool fixed; /* an operator needs it when compiling: a constant in every model */
    bool exact; /* nothing was rounded on the way here */
    bool grows; /* how many rows it has is known at run time only: nothing may read it */
    /* Why ONNX Runtime may compute something else for it; NULL: it may not. */
    const char *peer_differs;
    uint32_t uses;
    double low, high; /* of the truth */
    double off;       /* the largest distance of a copy from it, with its last noise or without */
    kiln_tensor truth, copy[FUZZ_COPIES];
} fuzz_value;

typedef struct fuzz_node {
    const char *op;
    bool exact;
    bool sums;     /* of many elements one after another: errors may add up */
    bool grows;    /* so do its results */
    bool absolute; /* right to some units of its operands, or of 1, not of its own value */
    const char *peer_differs;
    message attributes;
    uint32_t input_count, output_count;
    uint32_t hidden_count; /* of the last inputs: read by a graph in the node, not by the node */
    uint32_t input[FUZZ_OPERANDS_MAX], output[FUZZ_OPERANDS_MAX];
} fuzz_node;

typedef struct fuzz_graph {
    kiln_arena *arena;
    kiln_rand rand;
    uint64_t number; /* the graph is a pure function of it */
    int opset;
    bool common; /* element types that ONNX Runtime has most kernels for, where an operator takes
                    them */
    uint32_t value_count, node_count;
    fuzz_value value[FUZZ_VALUES_MAX];
    fuzz_node node[FUZZ_NODES_MAX];
} fuzz_graph;

/* Which part of a graph a model holds: bits of nodes. What they read and none of them makes becomes
 * an input with the truth as its data. Outputs are what no node of the part reads, and `extra`. */
typedef struct fuzz_part {
    uint32_t nodes;
    bool is_extra[FUZZ_VALUES_MAX];
} fuzz_part;

/* Ports of a part in order. */
typedef struct fuzz_ports {
    uint32_t input_count, output_count;
    uint32_t hidden_count; /* of the last inputs: read by a graph in the node, not by the node */
    uint32_t input[FUZZ_VALUES_MAX], output[FUZZ_VALUES_MAX];
} fuzz_ports;

fuzz_part fuzz_part_all(const fuzz_graph *g);
void fuzz_part_ports(const fuzz_graph *g, const fuzz_part *part, fuzz_ports *out);
/* The part as an ONNX model, in `arena`. */
kiln_str fuzz_part_model(const fuzz_graph *g, const fuzz_part *part, kiln_arena *arena);

/* Adds a value of that data; FUZZ_INPUT or FUZZ_CONSTANT. */
uint32_t fuzz_graph_add(fuzz_graph *g, fuzz_origin origin, const kiln_tensor *data);
/* A constant that an operator needs when compiling. */
uint32_t fuzz_graph_fix(fuzz_graph *g, const kiln_tensor *data);

typedef enum fuzz_outcome {
    FUZZ_DRAWN,
    FUZZ_ILL_CONDITIONED, /* or too large: draw another */
    FUZZ_UNSUPPORTED,     /* Kiln says UNIMPLEMENTED */
    FUZZ_REFUSED,         /* any other error: of the generator, or of Kiln */
} fuzz_outcome;
/* Evaluates the last node and adds its results. `why` gets the status of a refusal. */
fuzz_outcome fuzz_graph_evaluate(fuzz_graph *g, kiln_strbuf *why);

/* What output `value` may be off by at each element; 0 for what is exact. */
double fuzz_tolerance(const fuzz_value *value, size_t index);

#endif
