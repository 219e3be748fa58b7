/* split_prepare: root-level statements whose results depend on constants only (packing of weights,
 * folded scales) run once, in the prepare program; those of their results that the rest reads
 * become PACKED arguments. */
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/prepare.h"
#include "compiler-core/lower/pass.h"

/* The buffers that each program accesses: [0] the run program, [1] the prepare program; each
 * [buffer count]. */
typedef struct uses {
    bool *read[2], *written[2];
} uses;

typedef struct nest_walk {
    uses *uses;
    bool prepare;
} nest_walk;

static void visit_load(kiln_program *p, kiln_expr load, void *context) {
    nest_walk *w = context;
    w->uses->read[w->prepare][kiln_load_buffer(p, load)] = true;
}

static void walk_nest(kiln_program *p, nest_walk *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_BLOCK) {
        kiln_block_visit_loads(p, s->block, visit_load, w);
        w->uses->written[w->prepare][p->block.data[s->block].buffer] = true;
    }
    for (uint32_t i = 0; i < s->child.count; i++) walk_nest(p, w, p->stmt.data[stmt].child.data[i]);
}

static uses find_uses(kiln_program *p, const kiln_nests *n, kiln_arena *arena) {
    uses u;
    for (uint32_t side = 0; side < 2; side++) {
        u.read[side] = KILN_ARENA_ARRAY(arena, bool, p->buffer.count);
        u.written[side] = KILN_ARENA_ARRAY(arena, bool, p->buffer.count);
    }
    for (uint32_t i = 0; i < n->count; i++) {
        nest_walk w = {&u, n->prepare[i]};
        walk_nest(p, &w, n->nest[i]);
    }
    return u;
}

static void keep_nests(kiln_program *p, const kiln_nests *n, bool prepare) {
    for (uint32_t i = 0; i < n->count; i++)
        if (n->prepare[i] != prepare) kiln_stmt_remove(p, n->nest[i]);
}

/* Arguments that a program does not touch are not its arguments. */
static void settle_roles(kiln_program *p, const kiln_nests *n, const uses *u, bool prepare) {
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        kiln_buffer_info *info = &p->buffer.data[b];
        bool packed = n->constant[b] && info->role == KILN_ROLE_TEMP && u->written[true][b] &&
                      u->read[false][b];
        if (packed)
            info->role = KILN_ROLE_PACKED;
        else if (!u->read[prepare][b] && !u->written[prepare][b])
            info->role = KILN_ROLE_TEMP;
    }
}

kiln_status kiln_lower_split_prepare(kiln_lowering *l) {
    kiln_program *p = l->run;
    if (p->stmt.data[p->root].kind != KILN_STMT_SEQ)
        kiln_stmt_wrap(p, p->root, kiln_stmt_create(p, KILN_STMT_SEQ));
    kiln_nests nests = kiln_nests_of(p, l->arena);
    uses u = find_uses(p, &nests, l->arena);
    bool any = false;
    for (uint32_t i = 0; i < nests.count; i++) any |= nests.prepare[i];
    if (any) {
        l->prepare = kiln_program_copy(p, l->arena);
        keep_nests(l->prepare, &nests, true);
        settle_roles(l->prepare, &nests, &u, true);
        keep_nests(p, &nests, false);
    }
    settle_roles(p, &nests, &u, false);
    return KILN_OK;
}
