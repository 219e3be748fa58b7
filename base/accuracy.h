/* How exact results have to be: a budget that a user gives and that everything which chooses
 * between kernels keeps to: the space of a task, the choice among records, the check of the whole
 * network.
 *
 * Errors are relative to a tensor: the largest difference from double precision over the largest
 * magnitude. The direct form in the model's own types is within every budget, because nothing
 * is more exact. */
#ifndef KILN_BASE_ACCURACY_H
#define KILN_BASE_ACCURACY_H

#include "base/str.h"

typedef enum kiln_precision {
#define X(name, text, accuracy) KILN_PRECISION_##name,
#include "base/precisions.def"
#undef X
    KILN_PRECISION_COUNT
} kiln_precision;

/* All zero: f32 and what comes with it. */
typedef struct kiln_accuracy {
    kiln_precision precision; /* AUTO: any */
    bool exact;               /* direct sums only */
    double error_max;         /* 0: what comes with the precision */
} kiln_accuracy;

/* "bf16"; static. */
const char *kiln_precision_name(kiln_precision precision);
/* KILN_PRECISION_COUNT: there is none of that name. */
kiln_precision kiln_precision_find(kiln_str name);
/* The largest error that is allowed; of an exact one the precision's. */
double kiln_accuracy_error_max(const kiln_accuracy *accuracy);
/* "f32, errors up to 0.0001", "f32, direct sums only". */
void kiln_accuracy_print(const kiln_accuracy *accuracy, kiln_strbuf *out);

#endif
