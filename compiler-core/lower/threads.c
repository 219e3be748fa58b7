/* threads: if kernels get one thread, or threads by launches, parallel loops are ordinary loops,
 * which can be split and need no call. Preparation is always serial: it runs once. */
#include "compiler-core/lower/pass.h"

static void make_serial(kiln_program *p) {
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (p->stmt.data[s].kind == KILN_STMT_FOR &&
            p->stmt.data[s].loop_kind == KILN_LOOP_PARALLEL)
            p->stmt.data[s].loop_kind = KILN_LOOP_SERIAL;
}

kiln_status kiln_lower_threads(kiln_lowering *l) {
    if (l->target->threads <= 1 || l->list == KILN_LOWER_GRID || l->list == KILN_LOWER_CORE)
        make_serial(l->run);
    if (l->prepare) make_serial(l->prepare);
    return KILN_OK;
}
