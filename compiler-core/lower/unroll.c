/* unroll: decides which loops the emitter unrolls; nothing is copied here. Unrolled nests that
 * would become too long are made serial from the outside in; a program that is still too long or
 * too deep is refused. */
#include "compiler-core/lower/pass.h"

static void limit_tree(kiln_program *p, kiln_stmt stmt) {
    kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_UNROLL &&
        kiln_lower_size(p, stmt) > KILN_LOWER_UNROLL_MAX)
        s->loop_kind = KILN_LOOP_SERIAL;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        limit_tree(p, p->stmt.data[stmt].child.data[i]);
}

/* The most loops around one statement that remain loops in the code. */
static uint32_t depth_of(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < s->child.count; i++) {
        const uint32_t depth = depth_of(p, s->child.data[i]); /* KILN_MAX would evaluate the call
                                                               * twice */
        deepest = KILN_MAX(deepest, depth);
    }
    return deepest + (s->kind == KILN_STMT_FOR && s->loop_kind != KILN_LOOP_UNROLL);
}

static kiln_status limit_program(kiln_program *p) {
    if (!p->root) return KILN_OK;
    limit_tree(p, p->root);
    uint64_t size = kiln_lower_size(p, p->root);
    if (size > KILN_LOWER_SIZE_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "unrolled code has %llu stores, more than %u",
                          (unsigned long long)size, KILN_LOWER_SIZE_MAX);
    uint32_t depth = depth_of(p, p->root);
    if (depth > KILN_LOWER_DEPTH_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u loops are nested, more than %u", depth,
                          KILN_LOWER_DEPTH_MAX);
    return KILN_OK;
}

kiln_status kiln_lower_unroll(kiln_lowering *l) {
    kiln_status st = limit_program(l->run);
    if (!st && l->prepare) st = limit_program(l->prepare);
    return st;
}
