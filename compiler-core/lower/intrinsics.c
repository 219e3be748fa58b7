/* intrinsics: refuses a program that uses an instruction which the target lacks, by name, before
 * LLVM would. Nothing is rewritten: the emitter recognises marked loops by their attribute. */
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/lower/pass.h"

/* `loop` and its parents are steps, lanes and rows of the target's core. */
static kiln_status check_core(const kiln_program *p, kiln_stmt loop, const kiln_intrinsic *used,
                              const kiln_target *target) {
    const kiln_intrinsic_extents takes = kiln_intrinsic_on(used, target);
    const kiln_stmt_info *steps = &p->stmt.data[loop], *lanes = &p->stmt.data[steps->parent],
                         *rows = &p->stmt.data[lanes->parent];
    if (steps->extent == takes.steps && lanes->extent == takes.lanes && rows->extent == takes.rows)
        return KILN_OK;
    return KILN_ERROR(ILLEGAL_SCHEDULE,
                      "loop %.*s: %s has %lld rows, %lld lanes and %lld steps; %.*s takes %u, %u "
                      "and %u",
                      KILN_STR_ARG(p->var.data[steps->var].name), used->name,
                      (long long)rows->extent, (long long)lanes->extent, (long long)steps->extent,
                      KILN_STR_ARG(target->triple), takes.rows, takes.lanes, takes.steps);
}

static kiln_status check_tree(const kiln_program *p, kiln_stmt stmt, const kiln_target *target) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    const kiln_intrinsic *used = s->kind == KILN_STMT_FOR ? kiln_intrinsic_of_loop(p, stmt) : NULL;
    kiln_status st = NULL;
    if (used && !kiln_intrinsic_runs_on(used, target))
        st = KILN_ERROR(ILLEGAL_SCHEDULE, "loop %.*s uses %s, which needs %s; %.*s lacks it",
                        KILN_STR_ARG(p->var.data[s->var].name), used->name, used->feature,
                        KILN_STR_ARG(target->gpu ? target->triple : target->mcpu));
    else if (used && used->owner == KILN_INTRINSIC_CORE)
        st = check_core(p, stmt, used, target);
    for (uint32_t i = 0; !st && i < s->child.count; i++)
        st = check_tree(p, s->child.data[i], target);
    return st;
}

kiln_status kiln_lower_intrinsics(kiln_lowering *l) {
    kiln_status st = l->run->root ? check_tree(l->run, l->run->root, l->target) : KILN_OK;
    return !st && l->prepare ? check_tree(l->prepare, l->prepare->root, l->target) : st;
}
