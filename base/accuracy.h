/* The accuracy that results must have: a budget set by the user, which limits the space of a task,
 * the choice among records, and the check of the whole network.
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

/* All zero: f32 with its usual budget. */
typedef struct kiln_accuracy {
    kiln_precision precision; /* AUTO: any */
    bool exact;               /* direct sums only */
    double error_max;         /* 0: the precision's usual budget */
} kiln_accuracy;

/* "bf16"; static. */
const char *kiln_precision_name(kiln_precision precision);
/* KILN_PRECISION_COUNT: no such name. */
kiln_precision kiln_precision_find(kiln_str name);
/* The largest allowed error; for `exact`, the precision's. */
double kiln_accuracy_error_max(const kiln_accuracy *accuracy);
/* "f32, errors up to 0.0001", "f32, direct sums only". */
void kiln_accuracy_print(const kiln_accuracy *accuracy, kiln_strbuf *out);

#endif
