/* join: consecutive statements of a processor's launches that are not distributed over groups
 * become one launch, because PoCL compiles and links each launch separately. They are put in a loop
 * of one iteration, since every statement of the sequence at the root is a launch. Device memory is
 * placed for the whole program, so its allocations move around all statements. */
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/pass.h"

typedef struct joining {
    kiln_program *p;
    kiln_stmt all;      /* the new sequence at the root */
    kiln_stmt alone;    /* its last statement, if that is not distributed over groups; or 0 */
    kiln_stmt once;     /* the loop around several such statements; or 0 */
    bool *is_allocated; /* [buffer count] in device memory */
} joining;

static void add_launch(joining *j, kiln_stmt stmt) {
    kiln_program *p = j->p;
    const bool has_groups = kiln_lower_has_level(p, stmt, KILN_LEVEL_GRID);
    if (has_groups || !j->alone) {
        kiln_stmt_append(p, j->all, stmt);
        j->alone = has_groups ? 0 : stmt;
        j->once = 0;
        return;
    }
    if (!j->once)
        j->once = kiln_stmt_for(p, kiln_var_create(p, KILN_STR("once"), 0, 0), 0, 1,
                                KILN_LOOP_SERIAL, j->alone);
    kiln_stmt_append(p, j->once, stmt);
}

static bool is_memory(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    return s->kind == KILN_STMT_ALLOC && p->buffer.data[s->buffer].scope == KILN_SCOPE_GLOBAL;
}

/* Moves out allocations of device memory inside of a launch; copies of loops leave them there. */
static void move_memory_out(joining *j, kiln_stmt stmt) {
    kiln_program *p = j->p;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++) {
        kiln_stmt child = p->stmt.data[stmt].child.data[i];
        while (is_memory(p, child)) {
            const kiln_stmt body = p->stmt.data[child].child.data[0];
            j->is_allocated[p->stmt.data[child].buffer] = true;
            kiln_stmt_replace(p, child, body);
            child = body;
        }
        move_memory_out(j, child);
    }
}

/* Visits the launches like describe_root: sequences, and allocations of device memory. */
static void take_launches(joining *j, kiln_stmt stmt) {
    kiln_program *p = j->p;
    if (is_memory(p, stmt)) j->is_allocated[p->stmt.data[stmt].buffer] = true;
    if (is_memory(p, stmt) || p->stmt.data[stmt].kind == KILN_STMT_SEQ) {
        for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
            take_launches(j, p->stmt.data[stmt].child.data[i]);
        return;
    }
    kiln_stmt_replace(p, stmt, kiln_stmt_create(p, KILN_STMT_SEQ));
    move_memory_out(j, stmt);
    add_launch(j, stmt);
}

static void join_program(kiln_program *p) {
    if (!p || !p->root) return;
    joining j = {.p = p,
                 .all = kiln_stmt_create(p, KILN_STMT_SEQ),
                 .is_allocated = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count)};
    take_launches(&j, p->root);
    kiln_stmt_replace(p, p->root, j.all);
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        if (!j.is_allocated[b]) continue;
        const kiln_stmt memory = kiln_stmt_create(p, KILN_STMT_ALLOC);
        p->stmt.data[memory].buffer = b;
        kiln_stmt_wrap(p, p->root, memory);
    }
}

kiln_status kiln_lower_join(kiln_lowering *l) {
    join_program(l->run);
    join_program(l->prepare);
    return KILN_OK;
}
