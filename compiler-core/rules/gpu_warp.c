/* The rule "warp" of GPUs: a product whose type an instruction of warps multiplies. A group
 * computes a tile of the result, each of its warps some tiles of the instruction, whose sums stay
 * in registers of its threads as the vendor's description distributes them (ir/fragments.def).
 * Blocks of both operands are copied into shared memory, in permuted units of 16 bytes, so that
 * ldmatrix reads eight rows of them from different banks. Rows that windows read have a unit of
 * padding instead: a step of a window then adds the same to every address.
 *
 * For the instruction of four warps together (wgmma), which reads both operands from there, rows
 * have 128 bytes and their units are permuted as its descriptors say. Products that both kinds
 * multiply have sketches of both: of the one with the better estimate, and by option of the other
 * one.
 *
 * Other reductions of the task have tiles of threads, as the rule "tile" makes them. */
#include "compiler-core/rules/gpu_warp.h"

#include <math.h>

#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"

#define ROWS_MIN 4 /* fewer rows, or columns, leave most of an instruction empty */

/* ---- whether there is an instruction --------------------------------------------------------- */

/* The dimension that the iterator alone steps along in a group, one by one; -1: there is none. */
static int plain_dim(const kiln_gpu_tiling *t, const kiln_gpu_operand *o, int i) {
    for (uint32_t d = 0; d < o->rank; d++) {
        uint32_t others = 0;
        for (int n = 0; n < KILN_BLOCK_ITERS_MAX; n++)
            others += n != i && o->coefficient[d][n] && kiln_gpu_moves(t, n);
        if (o->coefficient[d][i] == 1 && !others) return (int)d;
    }
    return -1;
}

/* The last dimension that the iterator indexes; -1: none. */
static int dim_of(const kiln_gpu_operand *o, int i) {
    for (uint32_t d = o->rank; d-- > 0;)
        if (o->coefficient[d][i]) return (int)d;
    return -1;
}

static bool depends_on(const kiln_gpu_operand *o, int i) { return dim_of(o, i) >= 0; }

/* One operand of rows alone, one of columns alone. */
static bool has_two_sides(const kiln_gpu_tiling *t) {
    if (t->operand_count != 2 || !t->pattern.multiplies) return false;
    for (uint32_t a = 0; a < 2; a++) {
        const kiln_gpu_operand *rows = &t->operand[a], *columns = &t->operand[1 - a];
        bool fits = depends_on(rows, t->iter[0]) && !depends_on(columns, t->iter[0]);
        for (uint32_t n = 1; n < t->tiled; n++)
            fits &= depends_on(columns, t->iter[n]) && !depends_on(rows, t->iter[n]);
        if (fits) return true;
    }
    return false;
}

/* Whether copies can have zeros behind the steps of k. If another iterator indexes the same
 * dimension, as that of a split sum's parts does, the steps of the next part lie there. */
static bool ends_in_zeros(const kiln_gpu_tiling *t) {
    bool alone = true;
    for (uint32_t a = 0; a < t->operand_count; a++)
        for (uint32_t d = 0; d < t->operand[a].rank; d++)
            for (int n = 0; n < KILN_BLOCK_ITERS_MAX && t->operand[a].coefficient[d][t->k]; n++)
                alone &= n == t->k || !t->operand[a].coefficient[d][n];
    return alone;
}

/* Whether k fills whole blocks, or at least half of one, with zeros as the rest. */
static bool has_steps(const kiln_gpu_tiling *t, const kiln_intrinsic *in) {
    const int64_t unit = kiln_gpu_warp_unit_steps(in), all = kiln_gpu_extent(t, t->k);
    return all % unit == 0 || (2 * all >= unit && ends_in_zeros(t));
}

static const kiln_intrinsic *find_mma(const kiln_gpu_tiling *t, kiln_intrinsic_owner owner) {
    kiln_program *p = t->s->program;
    kiln_expr load[KILN_INTRINSIC_OPERANDS];
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        if (in->owner == owner && kiln_intrinsic_runs_on(in, t->s->target) && has_steps(t, in) &&
            p->buffer.data[t->operand[0].buffer].dtype == in->operand[0] &&
            p->buffer.data[t->operand[1].buffer].dtype == in->operand[1] &&
            kiln_intrinsic_matches(kiln_intrinsic_program(in, t->s->arena), p,
                                   p->block.data[t->block].value, load))
            return in;
    }
    return NULL;
}

/* Whether an iterator of windows moves along with one of the tile. */
static bool slides(const kiln_gpu_tiling *t, const kiln_gpu_operand *o) {
    bool found = false;
    for (uint32_t d = 0; d < o->rank; d++)
        for (uint32_t n = 0; n < t->tiled; n++)
            found |= o->coefficient[d][t->iter[n]] && plain_dim(t, o, t->iter[n]) != (int)d;
    return found;
}

/* The innermost dimension in memory: of a gathered operand, in its source. */
static int innermost(kiln_gpu_warp_tiling *w, uint32_t a) {
    const kiln_gpu_operand *o = &w->t.operand[a];
    const int tile = w->tile_dim[a], k = w->k_dim[a];
    if (!w->gathered[a]) return (int)o->rank - 1;
    return kiln_gpu_gathered_run(w->t.s, o->buffer, (uint32_t)tile) >
                   kiln_gpu_gathered_run(w->t.s, o->buffer, (uint32_t)k)
               ? tile
               : k;
}

/* Layouts of the operands in shared memory: steps contiguous or, if the operand has that layout and
 * ldmatrix can transpose it, rows or columns. */
static bool choose_layouts(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    for (uint32_t a = 0; a < 2; a++) {
        kiln_gpu_operand *o = &t->operand[a];
        const int iter = depends_on(o, t->iter[0]) ? t->iter[0] : t->iter[t->tiled - 1];
        const kiln_buffer_info *b = &t->s->program->buffer.data[o->buffer];
        w->k_dim[a] = plain_dim(t, o, t->k);
        w->tile_dim[a] = dim_of(o, iter);
        w->gathered[a] = b->scope == KILN_SCOPE_SHARED;
        if (w->k_dim[a] < 0 || w->tile_dim[a] == w->k_dim[a]) return false;
        const int last = innermost(w, a);
        w->k_inside[a] = plain_dim(t, o, iter) != last || o->bytes != 2;
        w->lies_so[a] = !w->k_inside[a] || w->k_dim[a] == last;
        w->slides[a] = w->k_inside[a] && slides(t, o);
        w->packed[a] = !w->lies_so[a] && kiln_gpu_is_constant(t->s->program, o->buffer);
        w->stretches |= !w->k_inside[a] && iter != t->iter[0];
        o->along = w->k_inside[a] ? w->k_dim[a] : w->tile_dim[a];
        o->run = w->gathered[a] ? kiln_gpu_gathered_run(t->s, o->buffer, (uint32_t)o->along)
                                : b->shape.dim[o->along];
    }
    return true;
}

static bool choose_roles(kiln_gpu_warp_tiling *w, kiln_intrinsic_owner owner) {
    kiln_gpu_tiling *t = &w->t;
    if (!t->s->target->gpu || !kiln_gpu_choose_roles(t) || !has_two_sides(t)) return false;
    w->mma = find_mma(t, owner);
    if (!w->mma || kiln_gpu_extent(t, t->iter[0]) < ROWS_MIN) return false;
    int64_t columns = 1;
    for (uint32_t n = 1; n < t->tiled; n++) columns *= kiln_gpu_extent(t, t->iter[n]);
    for (uint32_t n = 0; n < t->tiled; n++) w->unit[n] = 1;
    w->unit[0] = w->mma->rows;
    w->unit[t->tiled - 1] = w->mma->lanes;
    t->together = KILN_WARP_LANES;
    if (kiln_gpu_warp_is_grouped(w)) {
        w->unit[t->tiled - 1] = KILN_GROUP_COLUMNS;
        t->together *= KILN_GROUP_WARPS;
    }
    return columns >= ROWS_MIN && choose_layouts(w) &&
           !(kiln_gpu_warp_is_grouped(w) && (w->slides[0] || w->slides[1]));
}

/* ---- which instruction ----------------------------------------------------------------------- */

enum { BY_WARPS, BY_GROUPS, OWNERS }; /* instructions of single warps, or of warp groups */
static const kiln_intrinsic_owner owner_of[OWNERS] = {KILN_INTRINSIC_WARP, KILN_INTRINSIC_GROUP};

/* The tiling of the instruction with the better estimate, or of the `other` one if both have a
 * tiling. NULL: `*out` is it, or has no instruction at all. Else why no tile is legal. */
static const char *choose_tiling(kiln_sched *s, kiln_block block, bool other,
                                 kiln_gpu_warp_tiling *out, bool *out_both) {
    kiln_gpu_warp_tiling w[OWNERS];
    const char *empty[OWNERS];
    bool has[OWNERS], legal[OWNERS];
    for (int i = 0; i < OWNERS; i++) {
        w[i] = (kiln_gpu_warp_tiling){
            .t = {.s = s, .block = block, .limits = kiln_gpu_limits_of(s->target)}};
        has[i] = choose_roles(&w[i], owner_of[i]);
        empty[i] = has[i] ? kiln_gpu_warp_choose_sizes(&w[i]) : NULL;
        legal[i] = has[i] && !empty[i];
    }
    *out_both = legal[BY_WARPS] && legal[BY_GROUPS];
    int chosen = legal[BY_GROUPS] ? BY_GROUPS : BY_WARPS;
    if (*out_both)
        chosen = (w[BY_GROUPS].cycles < w[BY_WARPS].cycles) != other ? BY_GROUPS : BY_WARPS;
    *out = w[chosen];
    if (!has[chosen]) out->mma = NULL;
    return empty[chosen];
}

/* As kiln_gpu_expect_tile, by instructions of warps if there are any. `other`: by those with the
 * worse estimate, of a block that has both. */
static double expect(kiln_sched *s, kiln_block block, bool other, double *out_groups) {
    kiln_gpu_warp_tiling w;
    bool both;
    if (choose_tiling(s, block, other, &w, &both) || (other && !both)) return INFINITY;
    if (!w.mma) return kiln_gpu_expect_tile(s, block, out_groups);
    *out_groups = kiln_gpu_groups(&w.t, &w.t.row[w.t.preferred]);
    return w.t.row[w.t.preferred].cycles;
}

static double expect_tile(kiln_sched *s, kiln_block block, double *out_groups) {
    return expect(s, block, false, out_groups);
}

static double expect_other(kiln_sched *s, kiln_block block, double *out_groups) {
    return expect(s, block, true, out_groups);
}

/* Whether some instruction multiplies operands of these types, regardless of their indices. */
static bool multiplies_types(const kiln_sched *s, kiln_block block) {
    kiln_pattern pattern;
    const kiln_program *p = s->program;
    bool found = false;
    if (!s->target->gpu || !kiln_pattern_of(s->program, block, &pattern) || !pattern.multiplies)
        return false;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        found |= kiln_intrinsic_of_threads(in) && kiln_intrinsic_runs_on(in, s->target) &&
                 p->buffer.data[pattern.from[0].buffer].dtype == in->operand[0] &&
                 p->buffer.data[pattern.from[1].buffer].dtype == in->operand[1];
    }
    return found;
}

kiln_sketch_result kiln_sketch_gpu_warp(kiln_sched *s, uint32_t options) {
    const bool other = options & KILN_GPU_OTHER_INSTRUCTION;
    kiln_gpu_splits splits = {.options = options, .expect = other ? expect_other : expect_tile};
    kiln_sketch_inline(s);
    kiln_gpu_inline_paddings(s);
    uint32_t products = 0;
    bool differs = false, merges = false, could = false;
    const uint32_t count = s->program->block.count;
    for (kiln_block b = 1; b < count; b++) {
        kiln_gpu_warp_tiling w;
        bool both = false;
        if (!kiln_gpu_is_tiled(s, b)) continue;
        kiln_gpu_matrices matrices = {.made = false};
        could |= multiplies_types(s, b);
        const char *reason =
            options & KILN_GPU_MATRIX ? kiln_gpu_make_matrices(s, b, &matrices) : NULL;
        if (reason) return kiln_sketch_none(reason);
        const kiln_block part = kiln_gpu_split(s, b, &splits);
        if (!part) return kiln_sketch_none("the steps of a product cannot be split");
        reason = choose_tiling(s, part, other, &w, &both);
        if (!reason && matrices.made && !w.mma)
            reason = "no instruction of warps makes the product of matrices";
        if (!reason)
            reason = w.mma ? kiln_gpu_warp_block(&w) : kiln_gpu_tile_block(s, part, &splits.cycles);
        if (reason) return kiln_sketch_none(reason);
        if (w.mma) splits.cycles += w.t.row[w.t.preferred].cycles + w.turns;
        products += w.mma != NULL;
        differs |= both;
        merges |= matrices.made;
        splits.cycles += matrices.cycles;
        for (uint32_t a = 0; a < KILN_ARRAY_COUNT(matrices.constant); a++)
            if (matrices.constant[a]) kiln_gpu_spread_block(s, matrices.constant[a]);
    }
    if (products == 0)
        return (kiln_sketch_result){
            .end = could ? KILN_SKETCH_NONE : KILN_SKETCH_NEVER,
            .reason = "no reduction is a product that an instruction of warps makes"};
    if (other && !differs) /* of products of matrices there may be two */
        return (kiln_sketch_result){.end = options & KILN_GPU_MATRIX ? KILN_SKETCH_SAME
                                                                     : KILN_SKETCH_NONE,
                                    .option = 1,
                                    .reason = "there is one kind of instructions"};
    if ((options & KILN_GPU_MATRIX) && !merges)
        return (kiln_sketch_result){
            .end = KILN_SKETCH_SAME, .option = 2, .reason = "its products are of matrices already"};
    kiln_sketch_visit_alone(s, kiln_gpu_spread_block);
    return kiln_gpu_end_splits(&splits);
}
