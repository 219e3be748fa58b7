/* Whether the rows of a dimension, usually of a batch, depend on each other: then a model that was
 * compiled for one size cannot compute another size by padding or in parts.
 *
 * Derived from the accesses of kernels, never from an operator's name. A row of a value consists of
 * the elements whose index along one axis lies in [r * factor, (r + 1) * factor). Rows are
 * independent when each element of row r is computed from rows r of other values, and in the same
 * way for every r: shifting the row's index by one changes the row that is read and nothing
 * else. */
#ifndef KILN_COMPILER_CORE_TASK_ROWS_H
#define KILN_COMPILER_CORE_TASK_ROWS_H

#include "compiler-core/task/task.h"

#define KILN_ROWS_NONE UINT32_MAX

/* The axis along which a value has rows. */
typedef struct kiln_row_axis {
    uint32_t axis; /* KILN_ROWS_NONE: the value is the same for all rows */
    int64_t factor;
} kiln_row_axis;

/* `plan` is of `graph`, whose dimension has `size` rows, 2 or more; `input` and `output` are those
 * of the graph. True only where independence is proved. `*out_signature` is then equal for two
 * sizes of one model exactly when both compute a row alike: constants that depend on the size
 * change it. A loop is independent if each carried value has rows along one axis before the first
 * iteration and after each, and if its length, its condition and the number of rows that it stacks
 * are the same for all rows. Cost: linear in the kernels' expressions and the constants; of a
 * loop's body, times the axes that its first values could have rows along, mostly one. */
bool kiln_rows_are_independent(const kiln_graph *graph, const kiln_plan *plan, int64_t size,
                               const kiln_row_axis *input, const kiln_row_axis *output,
                               uint64_t *out_signature);

#endif
