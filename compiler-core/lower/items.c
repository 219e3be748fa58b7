/* items: on a processor behind the interface of a GPU, each iteration of a parallel loop at the
 * root becomes a group of one work item, and the driver distributes the groups over cores. Other
 * parallel loops run in order. */
#include "compiler-core/lower/pass.h"

/* Whether only sequences are around the loop. */
static bool is_at_root(const kiln_program *p, kiln_stmt loop) {
    for (kiln_stmt s = p->stmt.data[loop].parent; s; s = p->stmt.data[s].parent)
        if (p->stmt.data[s].kind != KILN_STMT_SEQ) return false;
    return true;
}

kiln_status kiln_lower_items(kiln_lowering *l) {
    kiln_program *p = l->run;
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        kiln_stmt_info *loop = &p->stmt.data[s];
        if (loop->kind != KILN_STMT_FOR || loop->loop_kind != KILN_LOOP_PARALLEL) continue;
        const bool binds = is_at_root(p, s) && loop->first == 0 &&
                           loop->extent <= kiln_axes[KILN_AXIS_BLOCK_X].extent_max;
        loop->loop_kind = binds ? KILN_LOOP_BIND : KILN_LOOP_SERIAL;
        if (binds) loop->axis = KILN_AXIS_BLOCK_X;
    }
    return KILN_OK;
}
