/* How operators access their data, found in their tensor expressions. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/ops/rules.h"

typedef struct scan {
    const kiln_block_info *block;
    kiln_access *least; /* [buffer count] the least simple access so far */
    bool *seen;         /* [buffer count] */
} scan;

/* Compares a load's indices with the ones that the block stores to, aligned right. */
static kiln_access access_of(kiln_program *p, const kiln_block_info *block, kiln_expr load) {
    uint32_t rank = kiln_expr_get(p, load)->operand_count;
    if (block->combiner != KILN_COMBINE_NONE) return KILN_ACCESS_REDUCTION;
    if (rank > block->index_count) return KILN_ACCESS_INJECTIVE;
    kiln_access access =
        rank < block->index_count ? KILN_ACCESS_BROADCAST : KILN_ACCESS_ELEMENTWISE;
    for (uint32_t d = 0; d < rank; d++) {
        kiln_expr index = kiln_expr_operand(p, load, d);
        uint32_t at = block->index_count - rank + d;
        int64_t constant;
        if (index == block->index[at]) continue;
        if (!kiln_expr_as_int(p, index, &constant)) return KILN_ACCESS_INJECTIVE;
        /* Index 0 along an output dimension of one element is no broadcast. */
        if (p->buffer.data[block->buffer].shape.dim[at] != 1) access = KILN_ACCESS_BROADCAST;
    }
    return access;
}

static void visit(kiln_program *p, kiln_expr load, void *context) {
    scan *s = context;
    kiln_buffer buffer = (kiln_buffer)kiln_expr_get(p, load)->payload.id;
    kiln_access access = access_of(p, s->block, load);
    /* A buffer read by several blocks, or through another access, is as complex as the worst of
     * them. */
    s->least[buffer] = KILN_MAX(s->least[buffer], access);
    s->seen[buffer] = true;
}

/* The access to a temp's inputs, from the access to the temp and the temp's own. */
static kiln_access through(kiln_access outer, kiln_access inner) {
    if (outer == KILN_ACCESS_REDUCTION && inner == KILN_ACCESS_REDUCTION)
        return KILN_ACCESS_COMPLEX;
    return KILN_MAX(outer, inner);
}

/* From the last block to the first: the access of each buffer relative to the outputs. A temp's
 * producer adds its own access to whatever reads the temp. */
static void propagate(kiln_program *p, scan *s, kiln_access *worst) {
    uint32_t reductions = 0;
    s->least = KILN_ARENA_ARRAY(p->arena, kiln_access, p->buffer.count);
    s->seen = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count);
    kiln_access *result = KILN_ARENA_ARRAY(p->arena, kiln_access, p->buffer.count);
    bool *reached = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        reached[b] = p->buffer.data[b].role == KILN_ROLE_OUTPUT;
    for (kiln_block id = p->block.count; id-- > 1;) {
        const kiln_block_info *block = &p->block.data[id];
        memset(s->least, 0, sizeof *s->least * p->buffer.count);
        memset(s->seen, 0, p->buffer.count);
        s->block = block;
        kiln_expr_visit_loads(p, block->value, 0, visit, s);
        reductions += block->combiner != KILN_COMBINE_NONE;
        for (kiln_buffer b = 1; b < p->buffer.count; b++) {
            if (!s->seen[b]) continue;
            kiln_access here = through(result[block->buffer], s->least[b]);
            /* Read again after a reduction of it: x in x - max(x). */
            bool again = reached[b] && here != result[b] &&
                         KILN_MAX(here, result[b]) >= KILN_ACCESS_REDUCTION;
            result[b] = again ? KILN_ACCESS_COMPLEX : KILN_MAX(result[b], here);
            reached[b] = true;
        }
    }
    *worst = KILN_ACCESS_ELEMENTWISE;
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (p->buffer.data[b].role == KILN_ROLE_INPUT) *worst = KILN_MAX(*worst, result[b]);
    if (reductions > 1) *worst = KILN_ACCESS_COMPLEX;
    if (reductions == 1) *worst = KILN_MAX(*worst, KILN_ACCESS_REDUCTION);
    s->least = result;
}

void kiln_node_classify(const kiln_graph *graph, kiln_node node, kiln_op_class *out_class) {
    const kiln_node_info *info = &graph->node.data[node];
    memset(out_class, 0, sizeof *out_class);
    if (kiln_op_is_alias(info->op)) {
        out_class->node = out_class->input[0] = KILN_ACCESS_INJECTIVE;
        return;
    }
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_buffer in[KILN_NODE_OPERANDS_MAX];
    kiln_program *p = kiln_node_program(graph, node, &scratch, in);
    scan *s = KILN_ARENA_NEW(&scratch, scan);
    propagate(p, s, &out_class->node);
    for (uint32_t i = 0; i < info->input_count; i++)
        if (in[i]) out_class->input[i] = s->least[in[i]];
    kiln_arena_deinit(&scratch);
}
