/* Results over inputs. */
#include "compiler-core/facts/in_place.h"

#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/eval.h"

/* The only block that writes `output`, each element once; 0: there are several, it accumulates
 * there, or the output is read. */
static kiln_block only_writer(kiln_program *p, kiln_buffer output) {
    kiln_block writer = 0;
    for (kiln_block b = 1; b < p->block.count; b++) {
        const kiln_block_info *info = &p->block.data[b];
        if (info->removed) continue;
        if (kiln_block_reads(p, b, output)) return 0;
        if (info->buffer != output) continue;
        if (writer || info->combiner != KILN_COMBINE_NONE || info->init_of) return 0;
        writer = b;
    }
    return writer;
}

/* Whether the load reads the element that the block writes. */
static bool loads_own_element(const kiln_program *p, kiln_block block, kiln_expr load) {
    const kiln_block_info *b = &p->block.data[block];
    for (uint32_t d = 0; d < b->index_count; d++) {
        int iter = kiln_block_iter_of(p, block, b->index[d]);
        bool alone = p->buffer.data[b->buffer].shape.dim[d] == 1; /* there is no other index */
        if (!alone &&
            (iter < 0 || iter != kiln_block_iter_of(p, block, kiln_expr_operand(p, load, d))))
            return false;
    }
    return true;
}

static void note_load(kiln_program *p, kiln_expr load, void *context) {
    (void)p;
    (void)load;
    *(bool *)context = true;
}

/* Whether the place of a block depends on data of `input`. */
static bool places_blocks(kiln_program *p, kiln_buffer input) {
    bool found = false;
    for (kiln_block b = 1; b < p->block.count; b++) {
        const kiln_block_info info = p->block.data[b];
        kiln_expr_visit_loads(p, info.removed ? 0 : info.predicate, input, note_load, &found);
        for (uint32_t i = 0; i < info.iter_count && !info.removed; i++)
            kiln_expr_visit_loads(p, info.iter[i].binding, input, note_load, &found);
    }
    return found;
}

static bool may_be_overwritten(kiln_program *p, kiln_block writer, kiln_buffer input) {
    const kiln_buffer_info *in = &p->buffer.data[input],
                           *out = &p->buffer.data[p->block.data[writer].buffer];
    if (in->role != KILN_ROLE_INPUT || in->dtype != out->dtype ||
        !kiln_shape_equal(&in->shape, &out->shape) ||
        !kiln_layout_equal(&in->layout, &out->layout) || !kiln_block_reads(p, writer, input) ||
        places_blocks(p, input))
        return false;
    for (kiln_block b = 1; b < p->block.count; b++)
        if (b != writer && !p->block.data[b].removed && kiln_block_reads(p, b, input)) return false;
    kiln_loads loads = kiln_block_loads(p, writer);
    for (uint32_t i = 0; i < loads.count; i++)
        if (kiln_load_buffer(p, loads.load[i]) == input &&
            !loads_own_element(p, writer, loads.load[i]))
            return false;
    return true;
}

kiln_buffer kiln_program_in_place(kiln_program *p, kiln_buffer output) {
    kiln_arg_buffers arg = kiln_program_args(p);
    kiln_block writer = only_writer(p, output);
    for (uint32_t i = 0; writer && i < arg.count; i++)
        if (may_be_overwritten(p, writer, arg.buffer[i])) return arg.buffer[i];
    return 0;
}
