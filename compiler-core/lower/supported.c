/* supported: refuses, by name, what neither the passes behind it nor the code generators
 * implement. */
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/pass.h"

#define REFUSE(...) KILN_ERROR(ILLEGAL_SCHEDULE, __VA_ARGS__)

static kiln_status check_loop(const kiln_lowering *l, kiln_stmt stmt) {
    const kiln_program *p = l->run;
    const kiln_lower_list list = l->list;
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    const kiln_gpu *gpu = l->target->gpu;
    const bool has_threads = list == KILN_LOWER_GRID || list == KILN_LOWER_CORE;
    if (s->loop_kind == KILN_LOOP_VTHREAD && !has_threads)
        return REFUSE("loop %.*s is over virtual threads, and the target has no launches",
                      KILN_STR_ARG(p->var.data[s->var].name));
    if (kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_PIPELINE) && !has_threads)
        return REFUSE("loop %.*s is a pipeline, and the target has no launches",
                      KILN_STR_ARG(p->var.data[s->var].name));
    if (s->loop_kind == KILN_LOOP_BIND && list != KILN_LOWER_GRID)
        return REFUSE("loop %.*s is bound to %s, and the target has no launches",
                      KILN_STR_ARG(p->var.data[s->var].name), kiln_axes[s->axis].text);
    if (s->loop_kind == KILN_LOOP_BIND && s->axis == KILN_AXIS_CLUSTER &&
        (!gpu || gpu->capability < KILN_CLUSTERS_CAPABILITY))
        return REFUSE("loop %.*s is bound to cluster, and the target has no clusters of groups; "
                      "CUDA devices from sm_90 on have them",
                      KILN_STR_ARG(p->var.data[s->var].name));
    return KILN_OK;
}

static kiln_status check_tree(const kiln_lowering *l, kiln_stmt stmt) {
    const kiln_program *p = l->run;
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    kiln_status st = s->kind == KILN_STMT_FOR ? check_loop(l, stmt) : KILN_OK;
    if (!st && (s->kind >= KILN_STMT_BARRIER || kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_UNIT)))
        st = REFUSE(
            "the program has barriers, copies, tokens or units, which lowering makes itself");
    for (uint32_t i = 0; i < s->child.count && !st; i++) st = check_tree(l, s->child.data[i]);
    return st;
}

/* A core has its own memories, and main memory for arguments. */
static kiln_status check_core_scope(const kiln_buffer_info *b) {
    const bool has_it =
        kiln_scopes[b->scope].seen_by == KILN_SEEN_BY_CORE || b->scope == KILN_SCOPE_GLOBAL;
    return has_it ? KILN_OK
                  : REFUSE("%.*s has scope %s, which the target does not have",
                           KILN_STR_ARG(b->name), kiln_scopes[b->scope].text);
}

static kiln_status check_scope(const kiln_buffer_info *b, kiln_lower_list list) {
    bool core = kiln_scopes[b->scope].seen_by == KILN_SEEN_BY_CORE;
    bool grid = b->scope == KILN_SCOPE_SHARED || b->scope == KILN_SCOPE_LOCAL;
    bool tile = b->scope == KILN_SCOPE_TILE;
    if (list == KILN_LOWER_CORE) return check_core_scope(b);
    const bool is_missing = list == KILN_LOWER_GRID    ? tile
                            : list == KILN_LOWER_ITEMS ? tile || grid
                                                       : grid;
    return core || is_missing ? REFUSE("%.*s has scope %s, which the target does not have",
                                       KILN_STR_ARG(b->name), kiln_scopes[b->scope].text)
                              : KILN_OK;
}

kiln_status kiln_lower_supported(kiln_lowering *l) {
    const kiln_program *p = l->run;
    kiln_status st = KILN_OK;
    for (kiln_buffer b = 1; b < p->buffer.count && !st; b++)
        st = check_scope(&p->buffer.data[b], l->list);
    return st ? st : check_tree(l, p->root);
}
