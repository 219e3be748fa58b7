/* Whether iterations of a loop are independent. */
#include "compiler-core/facts/decode.h"
#include "compiler-core/facts/region.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/nest.h"

/* Whether the term uses iterators inside the loop. */
static bool moves(kiln_program *p, kiln_expr term, const void *movers) {
    return kiln_mix_of(p, term, movers).moves;
}

bool kiln_element_determines(kiln_program *p, kiln_block block, kiln_stmt loop) {
    if (p->stmt.data[loop].extent <= 1) return true;
    kiln_var var = p->stmt.data[loop].var;
    kiln_movers m =
        kiln_movers_inside(p, kiln_program_block_stmt(p, block), p->stmt.data[loop].parent);
    kiln_decoding d = {.moves = moves, .context = &m};
    const kiln_block_info b = p->block.data[block];
    for (uint32_t k = 0; k < b.index_count; k++)
        kiln_decoding_learn(&d, kiln_expr_simplify(p, kiln_bound_index(p, block, b.index[k]), NULL),
                            0);
    return kiln_decoding_determines(p, &d, kiln_expr_var(p, var));
}

typedef struct iterations_check {
    kiln_stmt loop;
    kiln_status status;
} iterations_check;

/* Every access to the buffer lies inside the loop: each iteration has its own. */
static bool is_private(kiln_program *p, kiln_buffer buffer, kiln_stmt loop) {
    if (p->buffer.data[buffer].role != KILN_ROLE_TEMP) return false;
    for (kiln_block b = 1; b < p->block.count; b++) {
        if (p->block.data[b].removed) continue;
        bool touches = p->block.data[b].buffer == buffer || kiln_block_reads(p, b, buffer);
        if (touches && !kiln_stmt_is_inside(p, kiln_program_block_stmt(p, b), loop)) return false;
    }
    return true;
}

static void check_block(kiln_program *p, kiln_block block, void *context) {
    iterations_check *check = context;
    if (check->status || p->stmt.data[check->loop].extent <= 1) return;
    kiln_buffer buffer = p->block.data[block].buffer;
    if (is_private(p, buffer, check->loop) || kiln_stmt_combines_lanes(p, check->loop)) return;
    const kiln_block_info *b = &p->block.data[block];
    kiln_var var = p->stmt.data[check->loop].var;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && kiln_expr_uses_var(p, b->iter[i].binding, var)) {
            check->status =
                ILLEGAL("iterations of %.*s add to the same elements of %.*s (reduce iterator %.*s "
                        "of %.*s)",
                        LOOP_NAME(p, check->loop), BUFFER_NAME(p, buffer),
                        KILN_STR_ARG(kiln_iter_name(p, &b->iter[i])), BLOCK_NAME(p, block));
            return;
        }
    if (!kiln_element_determines(p, block, check->loop))
        check->status =
            ILLEGAL("two iterations of %.*s may write the same element of %.*s (block %.*s)",
                    LOOP_NAME(p, check->loop), BUFFER_NAME(p, buffer), BLOCK_NAME(p, block));
}

kiln_status kiln_iterations_check(kiln_program *p, kiln_stmt loop) {
    iterations_check check = {loop, NULL};
    kiln_nest_visit_blocks(p, loop, check_block, &check);
    return check.status;
}

kiln_status kiln_iterations_check_all(kiln_program *p) {
    kiln_status st = NULL;
    for (kiln_stmt s = 1; s < p->stmt.count && !st; s++) {
        const kiln_stmt_info *info = &p->stmt.data[s];
        bool ordered = info->loop_kind == KILN_LOOP_SERIAL || info->loop_kind == KILN_LOOP_UNROLL;
        if (info->kind == KILN_STMT_FOR && !ordered && kiln_stmt_is_inside(p, s, p->root))
            st = kiln_iterations_check(p, s);
    }
    return st;
}
