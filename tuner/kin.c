#include "tuner/kin.h"

uint32_t kiln_kinship(const kiln_target *a, const kiln_target *b) {
    if (a->kind != b->kind || a->arch == KILN_ARCH_OTHER) return 0;
    if (a->arch != b->arch || a->emulated != b->emulated) return 0;
    bool same_vectors =
        a->vector_bytes == b->vector_bytes && a->vector_registers == b->vector_registers;
    bool same_core = kiln_str_equal(a->mcpu, b->mcpu) && kiln_str_equal(a->features, b->features);
    return 1 + 4u * same_vectors + 2u * same_core + (a->threads == b->threads);
}
