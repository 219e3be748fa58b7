#include "tuner/target_similarity.h"

/* Of NVIDIA's by the generation, sm_80 to sm_89; of OpenCL's, whose texts say nothing of a family,
 * by the device. */
static uint32_t kinship_of_gpus(const kiln_target *a, const kiln_target *b) {
    const uint32_t family = a->gpu->capability / 10;
    if (family != b->gpu->capability / 10) return 0;
    if (!family && !kiln_str_equal(a->triple, b->triple)) return 0;
    const bool same_limits =
        a->group_threads == b->group_threads && a->shared_bytes == b->shared_bytes;
    return 1 + 4u * same_limits + 2u * (a->gpu == b->gpu) + (a->cores == b->cores);
}

uint32_t kiln_target_similarity(const kiln_target *a, const kiln_target *b) {
    if (a->kind != b->kind || a->emulated != b->emulated) return 0;
    if (a->gpu) return kinship_of_gpus(a, b);
    if (a->arch != b->arch || a->arch == KILN_ARCH_OTHER) return 0;
    bool same_vectors =
        a->vector_bytes == b->vector_bytes && a->vector_registers == b->vector_registers;
    bool same_core = kiln_str_equal(a->mcpu, b->mcpu) && kiln_str_equal(a->features, b->features);
    return 1 + 4u * same_vectors + 2u * same_core + (a->threads == b->threads);
}
