/* Values of expressions at one point, for both interpreters. Private to ir/ and its tests. */
#ifndef KILN_COMPILER_CORE_IR_INTERP_H
#define KILN_COMPILER_CORE_IR_INTERP_H

#include "base/status.h"
#include "compiler-core/ir/scalar.h"

typedef struct kiln_interp kiln_interp;

/* Gives the element at a logical index. A refused access returns a status. */
typedef kiln_status (*kiln_interp_load)(kiln_interp *in, kiln_buffer buffer, const int64_t *index,
                                        kiln_scalar *out_value);

struct kiln_interp {
    const kiln_program *p;
    int64_t *var;          /* [var count]: set by the caller, which then calls kiln_interp_moved */
    kiln_interp_load load; /* NULL: expressions without loads */
    void *context;
    kiln_status status; /* the first refused access; values after it mean nothing */
    /* Values by expression, valid while their stamp is the current one. */
    uint32_t stamp;
    uint32_t *stamped;
    kiln_scalar *value;
};

/* Stops at the first load that `load` refuses. `context` is for `load`. */
void kiln_interp_init(kiln_interp *in, const kiln_program *p, kiln_interp_load load, void *context);
/* Frees everything, including a status that was not taken. */
void kiln_interp_deinit(kiln_interp *in);
/* Drops kept values; required when a variable or an element changed. */
void kiln_interp_moved(kiln_interp *in);
/* The value at the current point; floats are not rounded. */
kiln_scalar kiln_interp_eval(kiln_interp *in, kiln_expr e);

/* combine(a, b) of a reduction, unrounded. */
kiln_scalar kiln_interp_combine(kiln_combiner combiner, kiln_dtype dtype, kiln_scalar a,
                                kiln_scalar b);

/* Whether the domain of the spatial, or of the reduce iterators of a block is not empty. */
bool kiln_interp_has_points(const kiln_block_info *b, bool reduce);
/* Moves these iterators to their next point in row-major order; false, and back at the first point,
 * after the last. */
bool kiln_interp_step(kiln_interp *in, const kiln_block_info *b, bool reduce);

/* Row-major offset of `index`, or -1 when it lies outside. */
int64_t kiln_interp_offset(const kiln_shape *shape, const int64_t *index);
/* "[1, 4]" for messages. */
void kiln_interp_print_index(const int64_t *index, uint32_t count, kiln_strbuf *out);
/* INVALID_ARGUMENT unless `args` are the program's arguments. */
KILN_MUST_USE kiln_status kiln_interp_check_args(const kiln_program *p, const kiln_tensor *args,
                                                 uint32_t arg_count);

#endif
