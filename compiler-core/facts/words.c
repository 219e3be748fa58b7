#include "compiler-core/facts/words.h"

#include "base/macros.h"
#include "compiler-core/facts/facts.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/facts/pattern.h"
#include "compiler-core/ir/affine.h"

/* ---- places ---------------------------------------------------------------------- */

/* Description of one placed block. */
typedef struct scene {
    kiln_program *p;
    kiln_block block;
    kiln_loops around;
    uint32_t outer; /* number of them outside the tile */
    const kiln_intrinsic *by;
} scene;

static scene scene_of(kiln_program *p, const kiln_facts *facts, kiln_block block) {
    scene found = {.p = p, .block = block, .around = kiln_block_loops(p, block)};
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        if (s->block != block) continue;
        found.outer = s->tile.level - 1; /* the path begins with the program */
        found.by = s->intrinsic;
    }
    return found;
}

static bool is_placed(const kiln_program *p, kiln_block block) {
    return !p->block.data[block].removed && kiln_program_block_stmt(p, block) != 0;
}

/* The largest computation; 0 when nothing is placed. */
static kiln_block main_block(const kiln_program *p) {
    kiln_block best = 0;
    for (kiln_block b = 1; b < p->block.count; b++) {
        if (!is_placed(p, b) || p->block.data[b].init_of) continue;
        if (!best || kiln_pattern_work(p, b) > kiln_pattern_work(p, best)) best = b;
    }
    return best;
}

/* The iterator that a loop steps through and the step; NULL for several (a fused loop) or none. */
static const kiln_iter *iter_of_loop(kiln_program *p, const kiln_block_info *b, kiln_stmt loop,
                                     int64_t *out_step) {
    const kiln_iter *found = NULL;
    kiln_var var = p->stmt.data[loop].var;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        kiln_affine affine;
        if (!kiln_expr_uses_var(p, b->iter[i].binding, var)) continue;
        if (found || !kiln_affine_of(p, b->iter[i].binding, NULL, &affine)) return NULL;
        *out_step = kiln_affine_coefficient(p, &affine, var);
        if (*out_step == 0) return NULL;
        found = &b->iter[i];
    }
    return found;
}

/* ---- the tile -------------------------------------------------------------------------------- */

typedef struct tile {
    int64_t extent[KILN_BLOCK_ITERS_MAX]; /* per iterator of the block, 1 when it is fixed */
    int64_t lanes, accumulators;          /* accumulators: vectors, or numbers without vectors */
    const kiln_intrinsic *by;             /* the instruction that does several steps; or NULL */
} tile;

static tile tile_of(const scene *at) {
    kiln_program *p = at->p;
    const kiln_block_info b = p->block.data[at->block];
    tile t = {.lanes = 1, .accumulators = 1, .by = at->by};
    for (uint32_t i = 0; i < KILN_BLOCK_ITERS_MAX; i++) t.extent[i] = 1;
    for (uint32_t k = at->outer; k < at->around.count; k++) {
        const kiln_stmt_info loop = p->stmt.data[at->around.loop[k]];
        int64_t step = 0;
        const kiln_iter *iter = iter_of_loop(p, &b, at->around.loop[k], &step);
        if (iter) t.extent[iter - b.iter] *= loop.extent;
        if (loop.loop_kind == KILN_LOOP_VECTORIZE) t.lanes *= loop.extent;
        if (iter && !iter->reduce && loop.loop_kind == KILN_LOOP_UNROLL)
            t.accumulators *= loop.extent;
    }
    return t;
}

static bool in_registers(const kiln_program *p, const kiln_block_info *b) {
    return p->buffer.data[b->buffer].scope == KILN_SCOPE_REGISTER;
}

static void tile_words(const scene *at, kiln_strbuf *out) {
    const kiln_program *p = at->p;
    const kiln_block_info b = p->block.data[at->block];
    tile t = tile_of(at);
    uint32_t shown = 0;
    for (uint32_t reduce = 2; reduce-- > 0;)
        for (uint32_t i = 0; i < b.iter_count; i++)
            if (t.extent[i] > 1 && b.iter[i].reduce == (reduce == 1))
                kiln_strbuf_printf(out, "%s%lld %.*s", shown++ ? " x " : "", (long long)t.extent[i],
                                   KILN_STR_ARG(kiln_iter_name(p, &b.iter[i])));
    if (!shown) kiln_strbuf_text(out, "one element");
    if (t.lanes > 1) kiln_strbuf_printf(out, ", %lld at a time", (long long)t.lanes);
    if (t.by && kiln_intrinsic_in_tiles(t.by)) {
        kiln_strbuf_printf(out, " by %s, sums in tiles", t.by->name);
    } else if (t.by) {
        kiln_strbuf_printf(out, " by %s, %u steps each", t.by->name, t.by->steps);
        if (t.by->rows > 1) kiln_strbuf_printf(out, " of %u rows", t.by->rows);
    }
    if (in_registers(p, &b))
        kiln_strbuf_printf(out, ", %lld accumulator%s in registers", (long long)t.accumulators,
                           t.accumulators == 1 ? "" : "s");
}

void kiln_program_tile_words(kiln_program *scheduled, kiln_strbuf *out) {
    kiln_block block = main_block(scheduled);
    if (!block) return;
    const kiln_facts *facts = kiln_facts_create(scheduled, 1, scheduled->arena);
    scene at = scene_of(scheduled, facts, block);
    tile_words(&at, out);
}

/* ---- the largest computation ----------------------------------------------------------------- */

static void domain_words(const kiln_program *p, const kiln_block_info *b, kiln_strbuf *out) {
    bool reduces = false;
    uint32_t shown = 0;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (b->iter[i].extent == 1) continue;
        if (b->iter[i].reduce && !reduces)
            kiln_strbuf_text(out, shown ? ", reduced over" : " one element, reduced over");
        reduces = b->iter[i].reduce;
        shown++;
        kiln_strbuf_printf(out, " %lld %.*s", (long long)b->iter[i].extent,
                           KILN_STR_ARG(kiln_iter_name(p, &b->iter[i])));
    }
}

static void loop_words(kiln_program *p, const kiln_block_info *b, kiln_stmt loop,
                       kiln_strbuf *out) {
    const kiln_stmt_info info = p->stmt.data[loop];
    int64_t step = 0;
    const kiln_iter *iter = iter_of_loop(p, b, loop, &step);
    if (iter && step == 1)
        kiln_strbuf_printf(out, "%lld %.*s one by one", (long long)info.extent,
                           KILN_STR_ARG(kiln_iter_name(p, iter)));
    else if (iter)
        kiln_strbuf_printf(out, "%lld tiles of %lld %.*s", (long long)info.extent, (long long)step,
                           KILN_STR_ARG(kiln_iter_name(p, iter)));
    else
        kiln_strbuf_printf(out, "%lld steps of several at once (%.*s)", (long long)info.extent,
                           KILN_STR_ARG(p->var.data[info.var].name));
    if (info.loop_kind == KILN_LOOP_PARALLEL) kiln_strbuf_text(out, ", shared by the threads");
    if (iter && b->predicate && kiln_expr_uses_var(p, b->predicate, info.var))
        kiln_strbuf_text(out, ", the last one partly masked");
}

static void nest_words(const scene *at, kiln_strbuf *out) {
    kiln_program *p = at->p;
    const kiln_block_info b = p->block.data[at->block];
    uint32_t depth = 1;
    kiln_strbuf_printf(out, "%.*s computes", KILN_STR_ARG(b.name));
    domain_words(p, &b, out);
    kiln_strbuf_text(out, ":\n");
    for (uint32_t i = 0; i < at->outer; i++) {
        if (p->stmt.data[at->around.loop[i]].extent == 1) continue;
        kiln_strbuf_printf(out, "%*sfor ", (int)(2 * depth++), "");
        loop_words(p, &b, at->around.loop[i], out);
        kiln_strbuf_char(out, '\n');
    }
    kiln_strbuf_printf(out, "%*sas straight code: ", (int)(2 * depth), "");
    tile_words(at, out);
    kiln_strbuf_char(out, '\n');
}

/* ---- the others ------------------------------------------------------------------------------ */

/* The only buffer that a block loads; 0 when there are several or none. */
static void note_load(kiln_program *p, kiln_expr load, void *context) {
    kiln_buffer *only = context, buffer = kiln_expr_get(p, load)->payload.id;
    *only = *only == 0 || *only == buffer ? buffer : UINT32_MAX;
}

static kiln_buffer only_source(kiln_program *p, const kiln_block_info *b) {
    kiln_buffer only = 0;
    kiln_expr_visit_loads(p, b->value, 0, note_load, &only);
    return only == UINT32_MAX ? 0 : only;
}

/* The innermost loop that a block shares with the largest computation; 0: none. */
static kiln_stmt shared_loop(const scene *main, const scene *at) {
    const kiln_loops *a = &main->around, *b = &at->around;
    kiln_stmt shared = 0;
    for (uint32_t i = 0; i < a->count && i < b->count && a->loop[i] == b->loop[i]; i++)
        if (at->p->stmt.data[b->loop[i]].extent > 1) shared = b->loop[i];
    return shared;
}

static void block_words(const scene *at, const scene *main, kiln_strbuf *out) {
    kiln_program *p = at->p;
    const kiln_block_info b = p->block.data[at->block], center = p->block.data[main->block];
    const kiln_buffer_info *made = &p->buffer.data[b.buffer];
    kiln_buffer source = only_source(p, &b);
    kiln_stmt shared = shared_loop(main, at);
    kiln_strbuf_printf(out, "%.*s makes ", KILN_STR_ARG(b.name));
    if (kiln_str_equal(b.name, made->name))
        kiln_strbuf_text(out, source ? "a copy" : "its temp");
    else
        kiln_strbuf_str(out, made->name);
    if (source)
        kiln_strbuf_printf(out, " %s %.*s", kiln_str_equal(b.name, made->name) ? "of" : "from",
                           KILN_STR_ARG(p->buffer.data[source].name));
    if (source && p->buffer.data[source].role == KILN_ROLE_CONSTANT) {
        kiln_strbuf_text(out, " once, before the first run\n");
        return;
    }
    if (shared) {
        kiln_strbuf_text(out, " inside the ");
        loop_words(p, &center, shared, out);
    } else {
        kiln_strbuf_text(out, ", whole, on its own");
    }
    tile t = tile_of(at);
    if (t.lanes > 1) kiln_strbuf_printf(out, "; %lld elements at a time", (long long)t.lanes);
    kiln_strbuf_char(out, '\n');
}

static void layout_words(const kiln_program *p, kiln_strbuf *out) {
    for (kiln_buffer i = 1; i < p->buffer.count; i++) {
        const kiln_buffer_info *b = &p->buffer.data[i];
        if (kiln_layout_is_identity(&b->layout) || b->scope == KILN_SCOPE_REGISTER) continue;
        kiln_strbuf_printf(out, "%.*s lies in memory as ", KILN_STR_ARG(b->name));
        kiln_layout_print(&b->layout, out);
        const kiln_layout_piece *last = &b->layout.piece[b->layout.piece_count - 1];
        if (last->modulus > 1)
            kiln_strbuf_printf(out, ": %lld of d%u side by side", (long long)last->modulus,
                               last->dim);
        kiln_strbuf_char(out, '\n');
    }
}

void kiln_program_words(kiln_program *scheduled, kiln_strbuf *out) {
    kiln_block largest = main_block(scheduled);
    if (!largest) return;
    const kiln_facts *facts = kiln_facts_create(scheduled, 1, scheduled->arena);
    scene main = scene_of(scheduled, facts, largest);
    nest_words(&main, out);
    for (kiln_block b = 1; b < scheduled->block.count; b++) {
        if (b == largest || !is_placed(scheduled, b) || scheduled->block.data[b].init_of) continue;
        scene at = scene_of(scheduled, facts, b);
        block_words(&at, &main, out);
    }
    layout_words(scheduled, out);
}
