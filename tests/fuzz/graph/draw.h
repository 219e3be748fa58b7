/* Drawing nodes: what the rows of graph/ops.def are made of.
 *
 * A draw function chooses operands (of the values that there are, or fresh ones), gives attributes
 * to the node under construction, and says how many results it has. It may say that it cannot
 * (false); then another operator is drawn. */
#ifndef KILN_TESTS_FUZZ_GRAPH_DRAW_H
#define KILN_TESTS_FUZZ_GRAPH_DRAW_H

#include "compiler-core/graph/graph.h"
#include "tests/fuzz/graph/graph.h"

#define FUZZ_ELEMENTS_MAX 1200 /* of a fresh tensor: the interpreter is slow */
#define FUZZ_OPSET_MAX 27

/* Sets of element types: bits 1 << dtype. */
#define T_(name) (1u << KILN_##name)
#define FLOATS (T_(F32) | T_(F64) | T_(F16) | T_(BF16))
#define SMALL_FLOATS (T_(F8E4M3FN) | T_(F8E4M3FNUZ) | T_(F8E5M2) | T_(F8E5M2FNUZ)) /* opset 19 */
#define SIGNED (T_(I8) | T_(I16) | T_(I32) | T_(I64))
#define UNSIGNED (T_(U8) | T_(U16) | T_(U32) | T_(U64))
#define TRUTHS T_(BOOL)
#define INDICES (T_(I32) | T_(I64))
#define NUMBERS (FLOATS | SIGNED | UNSIGNED)
#define ANY (NUMBERS | TRUTHS)

typedef struct draw {
    fuzz_graph *g;
    fuzz_node *node;         /* under construction */
    const struct rule *rule; /* its row */
    uint32_t types;          /* that Kiln takes for operand 0 */
} draw;

/* One row of ops.def: how nodes of an ONNX operator are drawn. */
typedef struct rule {
    const char *name;
    bool (*draw)(draw *d);
    const char *flags; /* letters, explained in ops.def */
    double low, high;  /* of the elements of operand 0; 0, 0: any */
    int last;          /* opset that still has the operator */
} rule;

bool fuzz_rule_has(const rule *r, char flag);

/* Numbers. */
int64_t between(draw *d, int64_t low, int64_t high); /* inclusive */
bool chance(draw *d, int percent);
double real(draw *d, double low, double high); /* a multiple of 1/8 */
const char *word(draw *d, const char *words);  /* one of them, separated by spaces */

/* Shapes: of dimensions 1, 2, 3, 5, 7, 17 and 33. */
kiln_shape draw_shape(draw *d, uint32_t rank_min, uint32_t rank_max);
kiln_dtype draw_dtype(draw *d, uint32_t types);
int64_t draw_axis(draw *d, uint32_t rank); /* negative now and then, since opset 11 */

/* Operands: each is fed to the node, and returned. `low`, `high`: range of its elements; 0, 0: any.
 * Pointers to values are valid until the next operand. */
typedef struct wanted {
    uint32_t types;
    uint32_t rank_min, rank_max;
    double low, high;
} wanted;
const fuzz_value *feed(draw *d, const wanted *w);
const fuzz_value *feed_of(draw *d, kiln_dtype dtype, kiln_shape shape, double low, double high);
/* Operand 0 of the rule: its types and its range. */
const fuzz_value *feed_data(draw *d, uint32_t rank_min, uint32_t rank_max);
/* Like feed_of, of a shape that broadcasts to `shape` (or, where `grow`, with it). */
const fuzz_value *feed_broadcast(draw *d, kiln_dtype dtype, kiln_shape shape, bool grow, double low,
                                 double high);
void feed_same(draw *d, const fuzz_value *value);
void feed_nothing(draw *d);
/* Constants that are needed when compiling. */
void feed_ints(draw *d, const int64_t *item, uint32_t count);
void feed_int(draw *d, int64_t value); /* a scalar */
void feed_floats(draw *d, const float *item, uint32_t count);
void feed_fixed(draw *d, kiln_dtype dtype, kiln_shape shape, double low, double high);
/* A scalar constant or input of that type. */
void feed_scalar(draw *d, kiln_dtype dtype, double value);

/* Attributes. */
void set_int(draw *d, const char *name, int64_t value);
void set_float(draw *d, const char *name, double value);
void set_text(draw *d, const char *name, const char *value);
void set_ints(draw *d, const char *name, const int64_t *value, uint32_t count);
void set_tensor(draw *d, const char *name, const kiln_tensor *tensor);
void set_texts(draw *d, const char *name, const char *const *value, uint32_t count);
void set_graph(draw *d, const char *name, message graph);

void results(draw *d, uint32_t count);
/* How many rows the results have is known at run time only. ONNX Runtime has no others. */
void results_grow(draw *d);
/* ONNX Runtime may compute something else for this node, for that reason. */
void peer_may_differ(draw *d, const char *why);
static inline int opset(const draw *d) { return d->g->opset; }

/* Tensors. */
kiln_tensor draw_tensor(draw *d, kiln_dtype dtype, kiln_shape shape, double low, double high);

#endif
