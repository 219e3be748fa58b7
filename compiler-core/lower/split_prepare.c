/* split_prepare: root-level statements whose results depend on constants only (packing of weights,
 * folded scales) run once, in the prepare program; what they make for the rest becomes a PACKED
 * argument. */
#include "compiler-core/facts/loads.h"
#include "compiler-core/lower/pass.h"

typedef struct nests {
    kiln_program *p;
    uint32_t count;
    kiln_stmt *nest;  /* [count] children of the root */
    bool *is_prepare; /* [count] */
    bool *constant;   /* [buffer count] all its writers are prepare nests, or it is a CONSTANT */
    bool *read_by[2]; /* [buffer count] by a run nest, by a prepare nest */
    bool *written_by[2];
} nests;

typedef struct nest_walk {
    nests *n;
    bool is_constant;
    uint32_t side; /* which of read_by is marked; 2: none */
} nest_walk;

static void visit_load(kiln_program *p, kiln_expr load, void *context) {
    nest_walk *w = context;
    kiln_buffer buffer = kiln_expr_get(p, load)->payload.id;
    if (!w->n->constant[buffer]) w->is_constant = false;
    if (w->side < 2) w->n->read_by[w->side][buffer] = true;
}

static void walk_block(nest_walk *w, kiln_block block) {
    kiln_buffer written = w->n->p->block.data[block].buffer;
    kiln_block_visit_loads(w->n->p, block, visit_load, w);
    if (!w->n->constant[written]) w->is_constant = false;
    if (w->side < 2) w->n->written_by[w->side][written] = true;
}

static void walk_nest(nest_walk *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &w->n->p->stmt.data[stmt];
    if (s->kind == KILN_STMT_BLOCK) walk_block(w, s->block);
    for (uint32_t i = 0; i < s->child.count; i++) walk_nest(w, s->child.data[i]);
}

static void unmark_written(nests *n, kiln_stmt stmt) {
    const kiln_stmt_info *s = &n->p->stmt.data[stmt];
    if (s->kind == KILN_STMT_BLOCK) n->constant[n->p->block.data[s->block].buffer] = false;
    for (uint32_t i = 0; i < s->child.count; i++) unmark_written(n, s->child.data[i]);
}

/* The largest set of nests that read only what is constant: starts with all and takes away until it
 * holds. */
static bool find_constant_nests(nests *n) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < n->count; i++) {
            if (!n->is_prepare[i]) continue;
            nest_walk w = {.n = n, .is_constant = true, .side = 2};
            walk_nest(&w, n->nest[i]);
            if (w.is_constant) continue;
            n->is_prepare[i] = false;
            unmark_written(n, n->nest[i]);
            changed = true;
        }
    }
    bool any = false;
    for (uint32_t i = 0; i < n->count; i++) {
        nest_walk w = {.n = n, .side = n->is_prepare[i]};
        walk_nest(&w, n->nest[i]);
        any |= n->is_prepare[i];
    }
    return any;
}

static void keep_nests(kiln_program *p, const nests *n, bool prepare) {
    for (uint32_t i = 0; i < n->count; i++)
        if (n->is_prepare[i] != prepare) kiln_stmt_remove(p, n->nest[i]);
}

/* Arguments that a program does not touch are not its arguments. */
static void settle_roles(kiln_program *p, const nests *n, bool prepare) {
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        kiln_buffer_info *info = &p->buffer.data[b];
        bool packed = n->constant[b] && info->role == KILN_ROLE_TEMP && n->written_by[true][b] &&
                      n->read_by[false][b];
        if (packed)
            info->role = KILN_ROLE_PACKED;
        else if (!n->read_by[prepare][b] && !n->written_by[prepare][b])
            info->role = KILN_ROLE_TEMP;
    }
}

static void collect_nests(kiln_lowering *l, nests *n) {
    kiln_program *p = l->run;
    *n = (nests){.p = p};
    if (p->stmt.data[p->root].kind != KILN_STMT_SEQ)
        kiln_stmt_wrap(p, p->root, kiln_stmt_create(p, KILN_STMT_SEQ));
    const kiln_stmt_info *root = &p->stmt.data[p->root];
    n->count = root->child.count;
    n->nest = kiln_arena_copy(l->arena, root->child.data, sizeof *n->nest * n->count);
    n->is_prepare = KILN_ARENA_ARRAY(l->arena, bool, n->count);
    n->constant = KILN_ARENA_ARRAY(l->arena, bool, p->buffer.count);
    for (uint32_t side = 0; side < 2; side++) {
        n->read_by[side] = KILN_ARENA_ARRAY(l->arena, bool, p->buffer.count);
        n->written_by[side] = KILN_ARENA_ARRAY(l->arena, bool, p->buffer.count);
    }
    for (uint32_t i = 0; i < n->count; i++) n->is_prepare[i] = true;
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        const kiln_buffer_info *info = &p->buffer.data[b];
        n->constant[b] = info->role == KILN_ROLE_CONSTANT ||
                         (info->role == KILN_ROLE_TEMP && info->scope == KILN_SCOPE_GLOBAL);
    }
}

kiln_status kiln_lower_split_prepare(kiln_lowering *l) {
    nests n;
    collect_nests(l, &n);
    if (find_constant_nests(&n)) {
        l->prepare = kiln_program_copy(l->run, l->arena);
        keep_nests(l->prepare, &n, true);
        settle_roles(l->prepare, &n, true);
        keep_nests(l->run, &n, false);
    }
    settle_roles(l->run, &n, false);
    return KILN_OK;
}
