/* Layouts whose blocks are integers of a schedule. */
#include "compiler-core/rules/rules.h"

void kiln_sketch_add_piece(kiln_layout *layout, uint32_t dim, int64_t divisor, int64_t modulus) {
    uint32_t i = layout->piece_count++;
    if (i < KILN_RANK_MAX)
        layout->piece[i] = (kiln_layout_piece){.dim = dim, .divisor = divisor, .modulus = modulus};
}

void kiln_sketch_block_buffer(kiln_sched *s, kiln_buffer buffer, int dim, kiln_sched_int size) {
    kiln_layout layout = {0};
    const uint32_t rank = s->program->buffer.data[buffer].shape.rank;
    if (dim < 0 || (uint32_t)dim + 1 == rank || rank == KILN_RANK_MAX) return;
    for (uint32_t d = 0; d < rank; d++)
        kiln_sketch_add_piece(&layout, d, (int)d == dim ? KILN_SCHED_GIVEN(0) : 1, 0);
    kiln_sketch_add_piece(&layout, (uint32_t)dim, 1, KILN_SCHED_GIVEN(0));
    kiln_sched_transform_layout(kiln_sched_try(s), buffer, &layout, &size, 1);
}
