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

double kiln_accuracy_error_max(const kiln_accuracy *accuracy) {
    return accuracy->error_max > 0 ? accuracy->error_max
                                   : precision_table[accuracy->precision].error_max;
}

void kiln_accuracy_print(const kiln_accuracy *accuracy, kiln_strbuf *out) {
    kiln_strbuf_text(out, kiln_precision_name(accuracy->precision));
    if (accuracy->exact)
        kiln_strbuf_text(out, ", direct sums only");
    else
        kiln_strbuf_printf(out, ", errors up to %.3g", kiln_accuracy_error_max(accuracy));
}
