/* The distribution of inputs that boards generate to measure a task. Private to task/. */
#ifndef KILN_COMPILER_CORE_TASK_FILL_H
#define KILN_COMPILER_CORE_TASK_FILL_H

#include "compiler-core/ir/ir.h"

/* Sets buffer_info.fill of every input and constant: POSITIVE where data near or below zero would
 * make infinities or NaN (divisors, square roots, logarithms, bases of powers) or index far
 * outside, else UNIFORM. Derived from the tensor expression, through its temps. */
void kiln_task_choose_fill(kiln_program *te);

#endif
