/* The table of precisions. */
#include "base/accuracy.h"

static const struct {
    const char *name;
    double error_max;
} precision_table[] = {
#define X(name, text, accuracy) [KILN_PRECISION_##name] = {text, accuracy},
#include "base/precisions.def"
#undef X
};

const char *kiln_precision_name(kiln_precision precision) {
    return precision_table[precision].name;
}

kiln_precision kiln_precision_find(kiln_str name) {
    uint32_t i = 0;
    while (i < KILN_PRECISION_COUNT && !kiln_str_is(name, precision_table[i].name)) i++;
    return (kiln_precision)i;
}

kiln_accuracy kiln_accuracy_default(kiln_precision precision) {
    return (kiln_accuracy){.precision = precision,
                           .error_max = precision_table[precision].error_max};
}
