#include "compiler-core/cost/grid.h"

kiln_seen_by kiln_grid_seen_by(const kiln_facts *facts, kiln_buffer buffer) {
    const kiln_buffer_info *b = &facts->p->buffer.data[buffer];
    kiln_seen_by seen = kiln_scopes[b->scope].seen_by;
    if (seen != KILN_SEEN_BY_DEVICE || b->role != KILN_ROLE_TEMP ||
        facts->home[buffer] == KILN_FACTS_NO_HOME)
        return seen;
    for (uint32_t l = facts->home[buffer]; l != 0; l = facts->loop[l].parent) {
        if (facts->loop[l].level == KILN_LEVEL_GROUP) return KILN_SEEN_BY_THREAD;
        if (facts->loop[l].level == KILN_LEVEL_GRID) seen = KILN_SEEN_BY_GROUP;
    }
    return seen;
}

kiln_grid_loops kiln_grid_loops_of(const kiln_facts *facts, const kiln_facts_statement *s) {
    kiln_grid_loops n = {1, 1, 1};
    for (uint32_t k = 1; k < s->depth; k++) {
        const double extent = (double)facts->loop[s->path[k]].extent;
        const uint8_t level = facts->loop[s->path[k]].level;
        const bool is_virtual = facts->loop[s->path[k]].kind == KILN_LOOP_VTHREAD;
        if (level == KILN_LEVEL_GRID) n.groups *= extent;
        if (level == KILN_LEVEL_GROUP) n.threads *= extent;
        if (level == KILN_LEVEL_NONE && n.threads == 1 && !is_virtual) n.rounds *= extent;
    }
    return n;
}

bool kiln_grid_moves(const kiln_facts_access *a, kiln_var var) {
    for (uint32_t d = 0; d < a->rank; d++)
        for (uint32_t i = 0; i < a->index[d].term_count; i++)
            if (a->index[d].term[i].var == var) return true;
    return false;
}

double kiln_grid_virtual_threads(const kiln_facts *facts, const kiln_facts_statement *s,
                                 const kiln_facts_access *a, uint32_t level, bool own) {
    double count = 1;
    for (uint32_t k = 1; k < level; k++) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        if (loop->kind == KILN_LOOP_VTHREAD && kiln_grid_moves(a, loop->var) == own)
            count *= (double)loop->extent;
    }
    return count;
}

double kiln_grid_sharers(const kiln_facts *facts, const kiln_facts_statement *s,
                         const kiln_facts_access *a) {
    double groups = 1;
    for (uint32_t k = 1; k < s->depth; k++) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        if (loop->level == KILN_LEVEL_GRID && !kiln_grid_moves(a, loop->var) &&
            facts->p->stmt.data[loop->stmt].axis == KILN_AXIS_CLUSTER)
            groups *= (double)loop->extent;
    }
    return groups;
}

bool kiln_grid_has(const kiln_facts *facts, const kiln_facts_statement *s, kiln_attribute_id id) {
    bool found = false;
    for (uint32_t k = 1; k < s->depth && !found; k++)
        found = kiln_stmt_attribute(facts->p, facts->loop[s->path[k]].stmt, id);
    return found;
}
