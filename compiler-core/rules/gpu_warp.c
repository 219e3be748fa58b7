/* The rule "warp" of GPUs: a product whose type an instruction of warps multiplies. A group makes a
 * tile of the result, each of its warps some tiles of the instruction, whose sums stay in registers
 * of its threads as the vendor's description deals them out (ir/fragments.def). Blocks of both
 * operands are copied into shared memory, in units of 16 bytes that change places, so that
 * ldmatrix reads eight rows of them from different banks. Rows that windows read are a unit apart
 * instead: what a step of a window adds to an address is then the same for all.
 *
 * Other reductions of the task have tiles of threads, as the rule "tile" makes them. */
#include "compiler-core/rules/gpu_warp.h"
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"

#define ROWS_MIN 8 /* fewer, or columns, leave most of an instruction empty */

/* ---- whether there is an instruction --------------------------------------------------------- */

/* The dimension that the iterator alone steps along, one by one; -1: there is none. */
static int plain_dim(const kiln_gpu_operand *o, int i) {
    for (uint32_t d = 0; d < o->rank; d++) {
        uint32_t others = 0;
        for (int n = 0; n < KILN_BLOCK_ITERS_MAX; n++) others += n != i && o->coefficient[d][n];
        if (o->coefficient[d][i] == 1 && !others) return (int)d;
    }
    return -1;
}

/* The last dimension in which the iterator takes part; -1: there is none. */
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

static const kiln_intrinsic *find_mma(const kiln_gpu_tiling *t) {
    kiln_program *p = t->s->program;
    kiln_expr load[KILN_INTRINSIC_OPERANDS];
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *in = &kiln_intrinsics[i];
        if (in->owner == KILN_INTRINSIC_WARP && kiln_intrinsic_runs_on(in, t->s->target) &&
            kiln_gpu_extent(t, t->k) % in->steps == 0 &&
            p->buffer.data[t->operand[0].buffer].dtype == in->operand[0] &&
            p->buffer.data[t->operand[1].buffer].dtype == in->operand[1] &&
            kiln_intrinsic_matches(kiln_intrinsic_program(in, t->s->arena), p,
                                   p->block.data[t->block].value, load))
            return in;
    }
    return NULL;
}

static bool is_constant(kiln_program *p, kiln_buffer buffer) {
    const kiln_block producer = kiln_program_producer(p, buffer);
    return p->buffer.data[buffer].role == KILN_ROLE_CONSTANT ||
           (producer && kiln_block_reads_only_constants(p, producer));
}

/* Whether an iterator of windows moves along with one of the tile. */
static bool slides(const kiln_gpu_tiling *t, const kiln_gpu_operand *o) {
    bool found = false;
    for (uint32_t d = 0; d < o->rank; d++)
        for (uint32_t n = 0; n < t->tiled; n++)
            found |= o->coefficient[d][t->iter[n]] && plain_dim(o, t->iter[n]) != (int)d;
    return found;
}

/* How the operands lie in shared memory: steps or, where that is how they lie and ldmatrix can turn
 * them, rows or columns behind one another. */
static bool choose_layouts(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    for (uint32_t a = 0; a < 2; a++) {
        kiln_gpu_operand *o = &t->operand[a];
        const int iter = depends_on(o, t->iter[0]) ? t->iter[0] : t->iter[t->tiled - 1];
        const int last = (int)o->rank - 1;
        w->k_dim[a] = plain_dim(o, t->k);
        w->tile_dim[a] = dim_of(o, iter);
        if (w->k_dim[a] < 0 || w->tile_dim[a] == w->k_dim[a]) return false;
        w->k_inside[a] = plain_dim(o, iter) != last || o->bytes != 2;
        w->lies_so[a] = !w->k_inside[a] || w->k_dim[a] == last;
        w->slides[a] = w->k_inside[a] && slides(t, o);
        w->packed[a] = !w->lies_so[a] && is_constant(t->s->program, o->buffer);
        o->along = w->k_inside[a] ? w->k_dim[a] : w->tile_dim[a];
    }
    return true;
}

static bool choose_roles(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    if (!t->s->target->gpu || !kiln_gpu_choose_roles(t) || !has_two_sides(t)) return false;
    w->mma = find_mma(t);
    if (!w->mma || kiln_gpu_extent(t, t->iter[0]) < ROWS_MIN) return false;
    int64_t columns = 1;
    for (uint32_t n = 1; n < t->tiled; n++) columns *= kiln_gpu_extent(t, t->iter[n]);
    for (uint32_t n = 0; n < t->tiled; n++) w->unit[n] = 1;
    w->unit[0] = w->mma->rows;
    w->unit[t->tiled - 1] = w->mma->lanes;
    t->together = KILN_WARP_LANES;
    return columns >= ROWS_MIN && choose_layouts(w);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static kiln_sched_int warps_of(const kiln_gpu_tiling *t, uint32_t n) {
    return kiln_sched_element(t->tile, 2 * n);
}
static kiln_sched_int pieces_of(const kiln_gpu_tiling *t, uint32_t n) {
    return kiln_sched_element(t->tile, 2 * n + 1);
}

static void sample_sizes(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    int64_t table[KILN_GPU_ROWS_MAX][KILN_GPU_WARP_COLUMNS];
    for (uint32_t r = 0; r < t->row_count; r++) {
        for (uint32_t n = 0; n < KILN_GPU_TILED_MAX; n++) {
            table[r][2 * n] = n < t->tiled ? t->row[r].threads[n] : 1;
            table[r][2 * n + 1] = n < t->tiled ? t->row[r].points[n] / w->unit[n] : 1;
        }
        const uint32_t last = t->tiled - 1;
        kiln_gpu_warp_exchange(t->row[r].threads[last] * t->row[r].points[last] *
                                   t->operand[0].bytes,
                               &table[r][KILN_GPU_WARP_WAYS], &table[r][KILN_GPU_WARP_STEP]);
    }
    t->tile = kiln_sched_choice(t->s, KILN_GPU_WARP_COLUMNS, table[0], t->row_count, t->preferred);
    t->steps = kiln_sched_choice(t->s, KILN_GPU_WARP_STEP_COLUMNS, w->step[0], w->step_count,
                                 w->preferred_step);
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Other dimensions, then the two that instructions read. */
static void lay_out(kiln_gpu_warp_tiling *w, uint32_t a, kiln_buffer buffer) {
    const kiln_gpu_operand *o = &w->t.operand[a];
    const int before = w->k_inside[a] ? w->tile_dim[a] : w->k_dim[a];
    kiln_layout layout = {0};
    for (uint32_t d = 0; d < o->rank; d++)
        if ((int)d != o->along && (int)d != before) kiln_sketch_add_piece(&layout, d, 1, 0);
    kiln_sketch_add_piece(&layout, (uint32_t)before, 1, 0);
    kiln_sketch_add_piece(&layout, (uint32_t)o->along, 1, 0);
    if (!kiln_layout_is_identity(&layout))
        kiln_sched_transform_layout(kiln_sched_try(w->t.s), buffer, &layout, NULL, 0);
}

static kiln_block copy_operand(kiln_gpu_warp_tiling *w, uint32_t a) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    kiln_gpu_operand *o = &t->operand[a];
    if (w->packed[a]) {
        const kiln_block packed =
            kiln_sched_cache_read(kiln_sched_try(s), t->block, o->buffer, KILN_SCOPE_GLOBAL);
        if (!packed) return 0;
        o->buffer = s->program->block.data[packed].buffer;
        lay_out(w, a, o->buffer);
        kiln_gpu_spread_block(s, packed);
    }
    const kiln_block copy = kiln_gpu_copy_operand(t, o);
    if (!copy) return 0;
    const kiln_buffer shared = s->program->block.data[copy].buffer;
    const bool inside = w->k_inside[a];
    const kiln_sched_int unit = kiln_sched_const(KILN_GPU_WARP_UNIT_BYTES / o->bytes),
                         one = kiln_sched_const(1);
    lay_out(w, a, shared);
    if (w->slides[a]) {
        kiln_sched_swizzle(kiln_sched_try(s), shared, unit, unit, one, one);
        return copy;
    }
    kiln_sched_swizzle(kiln_sched_try(s), shared, kiln_sched_const(0), unit,
                       inside ? kiln_sched_element(t->steps, KILN_GPU_WARP_K_WAYS)
                              : kiln_sched_element(t->tile, KILN_GPU_WARP_WAYS),
                       inside ? kiln_sched_element(t->steps, KILN_GPU_WARP_K_STEP)
                              : kiln_sched_element(t->tile, KILN_GPU_WARP_STEP));
    return copy;
}

static void pad_tiles(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    for (uint32_t n = 0; n < t->tiled; n++)
        kiln_sched_pad(kiln_sched_try(t->s), t->block, (uint32_t)t->iter[n],
                       kiln_sched_times(kiln_sched_times(warps_of(t, n), pieces_of(t, n)),
                                        kiln_sched_const(w->unit[n])));
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* The loops of one iterator of the tile. None where the instruction has none. */
typedef struct split_iter {
    kiln_sched_loop grid, warps, pieces;
    kiln_sched_loop lanes, sums; /* of the instruction: across its threads, and of one of them */
} split_iter;

static split_iter split(kiln_gpu_warp_tiling *w, kiln_sched_loop loop, uint32_t n, bool grid) {
    kiln_gpu_tiling *t = &w->t;
    const bool rows = n == 0, columns = n + 1 == t->tiled;
    kiln_sched_int part[5];
    uint32_t count = 0;
    if (grid) part[count++] = kiln_sched_rest();
    part[count++] = warps_of(t, n);
    part[count++] = pieces_of(t, n);
    if (rows || columns) {
        const int64_t sums = rows ? KILN_WARP_ROWS : KILN_WARP_COLUMNS, lanes = w->unit[n] / sums;
        part[count++] = kiln_sched_const(rows ? sums : lanes);
        part[count++] = kiln_sched_const(rows ? lanes : sums);
    }
    const kiln_sched_loops parts = kiln_sched_split(t->s, loop, part, count);
    const kiln_sched_loop *at = parts.loop;
    split_iter out = {0};
    if (parts.count == 0) return out;
    if (grid) out.grid = *at++;
    out.warps = *at++;
    out.pieces = *at++;
    if (rows || columns) {
        out.lanes = at[rows ? 1 : 0];
        out.sums = at[rows ? 0 : 1];
    }
    return out;
}

static bool bind_all(kiln_sched *s, const kiln_sched_loops *loops, kiln_loop_axis axis,
                     kiln_sched_loop *out) {
    *out = loops->count > 1 ? kiln_sched_fuse(kiln_sched_try(s), loops) : loops->loop[0];
    return !kiln_sched_loop_is_none(*out) && kiln_sched_bind(kiln_sched_try(s), *out, axis);
}

static void add_all(kiln_sched_loops *to, const kiln_sched_loops *from) {
    for (uint32_t i = 0; i < from->count; i++) kiln_sched_loops_add(to, from->loop[i]);
}

static void unroll_all(kiln_sched *s, const kiln_sched_loops *loops) {
    for (uint32_t i = 0; i < loops->count; i++)
        kiln_sched_unroll(kiln_sched_try(s), loops->loop[i]);
}

/* What all nests of the tile have, from the outside. */
typedef struct tile_loops {
    kiln_sched_loops grid, warps, lanes, pieces, sums;
} tile_loops;

static void add_split(tile_loops *all, const split_iter *one) {
    kiln_sched_loops_add(&all->grid, one->grid);
    kiln_sched_loops_add(&all->warps, one->warps);
    kiln_sched_loops_add(&all->lanes, one->lanes);
    kiln_sched_loops_add(&all->pieces, one->pieces);
    kiln_sched_loops_add(&all->sums, one->sums);
}

typedef struct nest {
    kiln_sched_loop grid, blocks; /* groups; blocks of the reduction */
    kiln_sched_loop sums;         /* the instruction's outermost loop */
} nest;

static bool make_nest(kiln_gpu_warp_tiling *w, nest *out) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    const kiln_block_info *b = &s->program->block.data[t->block];
    tile_loops all = {0};
    kiln_sched_loops order, taps = {0};
    kiln_sched_loop bound;
    uint32_t tiled = 0;
    for (uint32_t n = 0; n < t->tiled; n++) tiled |= 1u << t->iter[n];
    for (int i = 0; i < (int)b->iter_count; i++)
        if (!b->iter[i].reduce && !(tiled >> i & 1))
            kiln_sched_loops_add(&all.grid, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->k)
            kiln_sched_loops_add(&taps, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    for (uint32_t n = 0; n < t->tiled; n++) {
        const split_iter one =
            split(w, kiln_sched_loop_of(s, t->block, (uint32_t)t->iter[n]), n, true);
        add_split(&all, &one);
    }
    const kiln_sched_loops block = kiln_sched_split(
        s, kiln_sched_loop_of(s, t->block, (uint32_t)t->k),
        KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->steps, KILN_GPU_WARP_BLOCK)));
    const kiln_sched_loops steps = kiln_sched_split(
        s, block.loop[1], KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_const(w->mma->steps)));
    out->blocks = block.loop[0];
    out->sums = all.sums.loop[0];
    order = all.grid;
    kiln_sched_loops_add(&order, out->blocks);
    add_all(&order, &all.warps);
    add_all(&order, &all.lanes);
    add_all(&order, &taps);
    kiln_sched_loops_add(&order, steps.loop[0]);
    add_all(&order, &all.pieces);
    add_all(&order, &all.sums);
    kiln_sched_loops_add(&order, steps.loop[1]);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    kiln_sched_unroll(kiln_sched_try(s), steps.loop[0]);
    unroll_all(s, &all.pieces);
    return bind_all(s, &all.grid, KILN_AXIS_BLOCK_X, &out->grid) &&
           bind_all(s, &all.warps, KILN_AXIS_THREAD_Y, &bound) &&
           bind_all(s, &all.lanes, KILN_AXIS_THREAD_X, &bound);
}

static bool make_sums(kiln_gpu_warp_tiling *w, const nest *at) {
    kiln_sched *s = w->t.s;
    const kiln_block init =
        kiln_sched_decompose_reduction(kiln_sched_try(s), w->t.block, at->blocks);
    if (!init) return false;
    for (int k = 1; k <= 2; k++) /* those of one instruction */
        kiln_sched_unroll(kiln_sched_try(s), kiln_sched_loop_around(s, init, -k));
    return kiln_sched_tensorize(kiln_sched_try(s), at->sums, w->mma);
}

/* Elements are dealt to the threads in the order of memory, 16 bytes to each where they lie so. */
static bool place_copy(kiln_gpu_warp_tiling *w, uint32_t a, kiln_block copy, const nest *at) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    const kiln_gpu_operand *o = &t->operand[a];
    const int before = w->k_inside[a] ? w->tile_dim[a] : w->k_dim[a];
    const bool turned = w->packed[a];
    int64_t width[5];
    uint32_t widths = 0;
    kiln_sched_loops all = {0}, one;
    kiln_sched_loop bound;
    if (!kiln_sched_compute_at(kiln_sched_try(s), copy, at->blocks)) return false;
    for (uint32_t i = 0; i < s->program->block.data[copy].iter_count; i++)
        if (!turned || ((int)i != o->along && (int)i != before))
            kiln_sched_loops_add(&all, kiln_sched_loop_of(s, copy, i));
    if (turned) {
        kiln_sched_loops_add(&all, kiln_sched_loop_of(s, copy, (uint32_t)before));
        kiln_sched_loops_add(&all, kiln_sched_loop_of(s, copy, (uint32_t)o->along));
        if (!kiln_sched_reorder(kiln_sched_try(s), &all)) return false;
    }
    for (int64_t n = o->fetch; n >= 1 && widths < KILN_ARRAY_COUNT(width); n /= 2)
        width[widths++] = n;
    const kiln_sched_sample fetch = kiln_sched_categorical(s, width, widths, 0);
    const kiln_sched_loop loop =
        all.count > 1 ? kiln_sched_fuse(kiln_sched_try(s), &all) : all.loop[0];
    if (kiln_sched_loop_is_none(loop)) return false;
    kiln_sched_int warps = warps_of(t, 0);
    for (uint32_t n = 1; n < t->tiled; n++) warps = kiln_sched_times(warps, warps_of(t, n));
    const kiln_sched_loops part = kiln_sched_split(
        s, loop,
        KILN_SCHED_INTS(kiln_sched_rest(), warps, kiln_sched_const(KILN_WARP_LANES),
                        kiln_sched_element(fetch, 0)));
    if (part.count == 0) return false;
    const kiln_sched_loops order = {4, {part.loop[1], part.loop[2], part.loop[0], part.loop[3]}};
    kiln_sched_vectorize(kiln_sched_try(s), part.loop[3]);
    one = (kiln_sched_loops){1, {part.loop[1]}};
    if (!kiln_sched_reorder(kiln_sched_try(s), &order) ||
        !bind_all(s, &one, KILN_AXIS_THREAD_Y, &bound))
        return false;
    one.loop[0] = part.loop[2];
    return bind_all(s, &one, KILN_AXIS_THREAD_X, &bound);
}

/* Each thread goes on with its own sums. */
static bool place_follower(kiln_gpu_warp_tiling *w, kiln_block follower, const nest *at) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    const kiln_buffer sums = s->program->block.data[t->block].buffer;
    kiln_pattern pattern;
    tile_loops all = {0};
    kiln_sched_loops order;
    kiln_sched_loop bound;
    uint32_t moved = 0;
    if (!kiln_pattern_of(s->program, follower, &pattern)) return false;
    if (!kiln_sched_reverse_compute_at(kiln_sched_try(s), follower, at->grid)) return false;
    for (uint32_t n = 0; n < t->tiled; n++) {
        const int i = kiln_gpu_follower_iter(t, &pattern, sums, t->iter[n]);
        if (i < 0) return false;
        const split_iter one = split(w, kiln_sched_loop_of(s, follower, (uint32_t)i), n, false);
        add_split(&all, &one);
        moved |= 1u << i;
    }
    order = all.warps;
    add_all(&order, &all.lanes);
    for (uint32_t i = 0; i < s->program->block.data[follower].iter_count; i++)
        if (!(moved >> i & 1)) kiln_sched_loops_add(&order, kiln_sched_loop_of(s, follower, i));
    add_all(&order, &all.pieces);
    add_all(&order, &all.sums);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    unroll_all(s, &all.pieces);
    kiln_sched_unroll(kiln_sched_try(s), all.sums.loop[0]);
    kiln_sched_vectorize(kiln_sched_try(s), all.sums.loop[1]);
    return bind_all(s, &all.warps, KILN_AXIS_THREAD_Y, &bound) &&
           bind_all(s, &all.lanes, KILN_AXIS_THREAD_X, &bound);
}

/* The nest of one product. NULL, or why there is none. */
static const char *warp_block(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    kiln_block copy[KILN_GPU_COPIES_MAX];
    nest n;
    const char *empty = kiln_gpu_warp_choose_sizes(w);
    if (empty) return empty;
    const kiln_block follower = kiln_sketch_separate_result(s, t->block, KILN_SCOPE_REGISTER);
    if (!follower) return "the sums have no place of their own";
    if (!kiln_sched_set_scope(kiln_sched_try(s), s->program->block.data[t->block].buffer,
                              KILN_SCOPE_REGISTER))
        return "the sums cannot be in registers";
    if (!kiln_pattern_of(s->program, t->block, &t->pattern)) return "the reduction is gone";
    sample_sizes(w);
    for (uint32_t a = 0; a < t->operand_count; a++) copy[a] = copy_operand(w, a);
    pad_tiles(w);
    if (!make_nest(w, &n)) return "its loops cannot be groups and warps";
    if (!make_sums(w, &n)) return "its sums cannot be the instruction's";
    for (uint32_t a = 0; a < t->operand_count; a++)
        if (!copy[a] || !place_copy(w, a, copy[a], &n))
            return "threads cannot copy what they share";
    if (!place_follower(w, follower, &n)) return "what follows does not go along with the tile";
    return kiln_sched_pipeline(kiln_sched_try(s), n.blocks,
                               kiln_sched_element(t->steps, KILN_GPU_WARP_STAGES))
               ? NULL
               : "blocks of the reduction cannot be fetched ahead";
}

kiln_sketch_result kiln_sketch_gpu_warp(kiln_sched *s, uint32_t options) {
    (void)options;
    kiln_sketch_inline(s);
    kiln_gpu_inline_paddings(s);
    uint32_t products = 0;
    const uint32_t count = s->program->block.count;
    for (kiln_block b = 1; b < count; b++) {
        kiln_gpu_warp_tiling w = {
            .t = {.s = s, .block = b, .limits = kiln_gpu_limits_of(s->target)}};
        if (!kiln_gpu_is_tiled(s, b)) continue;
        const bool warps = choose_roles(&w);
        const char *reason = warps ? warp_block(&w) : kiln_gpu_tile_block(s, b);
        if (reason) return kiln_sketch_none(reason);
        products += warps;
    }
    if (products == 0)
        return kiln_sketch_never("no reduction is a product that an instruction of warps makes");
    kiln_sketch_visit_alone(s, kiln_gpu_spread_block);
    return kiln_sketch_made();
}
