/* Algorithms: several ways to compute what one task asks for.
 *
 * A task is a tensor expression in its direct form. An alternative of it is another tensor
 * expression with the same arguments and the same results within a stated error: one or more blocks
 * (transforms, products, transforms back) with temps between them. The first decision of a trace is
 * the algorithm: its instruction `algorithm("NAME")` replaces the task's expression by the
 * alternative's, and all later instructions schedule that. A trace without the instruction is
 * direct. So search, records, cost models and modules see algorithms as they see any decision
 * (docs/decisions/0016-algorithms.md).
 *
 * The reference that candidates are compared with is always the direct form in double precision. */
#ifndef KILN_COMPILER_CORE_ALGORITHM_ALGORITHM_H
#define KILN_COMPILER_CORE_ALGORITHM_ALGORITHM_H

#include "base/accuracy.h"
#include "compiler-core/ir/ir.h"

typedef enum kiln_algorithm {
    KILN_ALGORITHM_DIRECT, /* the task's expression as it stands */
#define X(name, text, precision, roundoff, error_factor, relative_error, by, function) \
    KILN_ALGORITHM_##name,
#include "compiler-core/algorithm/algorithms.def"
#undef X
    KILN_ALGORITHM_COUNT
} kiln_algorithm;

/* A row of defaults.def; the columns are explained there. */
typedef struct kiln_algorithm_default {
    bool instruction;
    double share, steps;
    bool images;
} kiln_algorithm_default;

/* "direct", else the text of algorithms.def; static. */
const char *kiln_algorithm_name(kiln_algorithm algorithm);
/* KILN_ALGORITHM_COUNT when no algorithm has that name. */
kiln_algorithm kiln_algorithm_find(kiln_str name);
/* The error that is allowed, as a multiple of the error bound of `te`, a task in its direct form; 1
 * for the direct form. Where factors are rounded to few bits the bound, n*eps*sum|a*b|, gets a
 * second part, u*sum|a*b|: the result is (n*eps + u) / (n*eps). */
double kiln_algorithm_error_factor(kiln_algorithm algorithm, const kiln_program *te);
/* The largest relative error of a factor that is rounded on purpose; 0: no factor is rounded. */
double kiln_algorithm_roundoff(kiln_algorithm algorithm);
/* Whether both factors of the algorithm's products are rounded to the type of its precision. */
bool kiln_algorithm_rounds_both(kiln_algorithm algorithm);
/* The type that products are computed in; F32 for the direct form, whatever the model's types
 * are. */
kiln_precision kiln_algorithm_precision(kiln_algorithm algorithm);
/* The stated error of a right result: the largest difference from double precision over the
 * output's largest magnitude, on random data. 0 for the direct form. */
double kiln_algorithm_relative_error(kiln_algorithm algorithm);
/* When a schedule without measurements may use the algorithm. */
const kiln_algorithm_default *kiln_algorithm_default_of(kiln_algorithm algorithm);
/* Whether `accuracy` allows the algorithm. A named precision also allows algorithms in f32; the
 * direct form and exact algorithms are always allowed. */
bool kiln_algorithm_is_allowed(kiln_algorithm algorithm, const kiln_accuracy *accuracy);
/* The names of the allowed algorithms, comma-separated, the direct form first: for filters on
 * records (db/db.h). */
kiln_str kiln_algorithm_allowed(const kiln_accuracy *accuracy, kiln_arena *arena);

/* The alternative of `te` in `arena`; NULL when the algorithm does not apply to it. `te` is a
 * tensor expression in its direct form and is not changed; DIRECT gives a copy. Deterministic. */
kiln_program *kiln_algorithm_apply(kiln_algorithm algorithm, const kiln_program *te,
                                   kiln_arena *arena);

/* Operations that one run of `alternative`, made by `algorithm`, needs at least. Direct form: all
 * of them (kiln_program_flops), but two a point for reductions of two operands that are not sums of
 * products. Other algorithms: those of the reductions that run each time. Transforms are left out,
 * because what they cost depends on the schedule. No kernel can be faster than these at the peak of
 * its processor. */
double kiln_algorithm_executed_flops(kiln_algorithm algorithm, const kiln_program *alternative);

/* The minimum of these over all algorithms that are allowed and apply to `te`, a task in its direct
 * form. Products of halves count half, because a processor's peak is stated in f32. */
double kiln_algorithm_least_flops(const kiln_program *te, const kiln_accuracy *accuracy);

/* The function in a row of algorithms.def; the contract is that of kiln_algorithm_apply. */
typedef kiln_program *(*kiln_algorithm_function)(const kiln_program *te, kiln_arena *arena);
#define X(name, text, precision, roundoff, error_factor, relative_error, by, function) \
    kiln_program *function(const kiln_program *te, kiln_arena *arena);
#include "compiler-core/algorithm/algorithms.def"
#undef X

#endif
