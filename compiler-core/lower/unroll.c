/* unroll: nothing is copied here, since the emitter does that. Unrolled nests that would become too
 * long are made serial from the outside in; a program that is too long all the same is refused. */
#include "compiler-core/lower/pass.h"

static void limit_tree(kiln_program *p, kiln_stmt stmt) {
    kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_UNROLL &&
        kiln_lower_size(p, stmt) > KILN_LOWER_UNROLL_MAX)
        s->loop_kind = KILN_LOOP_SERIAL;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        limit_tree(p, p->stmt.data[stmt].child.data[i]);
}

static kiln_status limit_program(kiln_program *p) {
    if (!p->root) return KILN_OK;
    limit_tree(p, p->root);
    uint64_t size = kiln_lower_size(p, p->root);
    if (size > KILN_LOWER_SIZE_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "unrolled code has %llu stores, more than %u",
                          (unsigned long long)size, KILN_LOWER_SIZE_MAX);
    return KILN_OK;
}

kiln_status kiln_lower_unroll(kiln_lowering *l) {
    kiln_status st = limit_program(l->run);
    if (!st && l->prepare) st = limit_program(l->prepare);
    return st;
}
