/* Turns products of two operands whose rows, columns or steps are several iterators, as in
 * convolutions, into products of matrices: the iterators of each side become one. So tiles have the
 * rows and columns that instructions need, for images of any size, and instructions of warp groups
 * read the operands of a window's step from shared memory, gathered there piece by piece. There is
 * no matrix of windows in memory.
 *
 * Steps of all windows are outside the other steps, whose dimension is innermost in the gathered
 * operand: threads then copy neighbours. The copy that pads, or a separate one, transposes it
 * so. */
#include "base/integer.h"
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/gpu.h"

#define GATHERED_BYTES_MIN 4 /* contiguous bytes that make transposing data worth a launch */
#define GATHERED_BYTES_MAX 16

enum { OF_FIRST, OF_SECOND, STEPS, SIDES };

/* Variables of iterators, outermost first: iterators change their places. */
typedef struct side {
    uint32_t count;
    kiln_var var[KILN_BLOCK_ITERS_MAX];
    uint32_t moving; /* number of those of extent above 1 */
} side;

typedef struct matrices {
    kiln_sched *s;
    kiln_block block, follower;
    kiln_pattern pattern;
    side side[SIDES], followed[STEPS]; /* the sides of the block that takes the sums */
    double cycles;                     /* of launches that transpose data */
} matrices;

static bool has(uint32_t mask, uint32_t i) { return mask >> i & 1; }

static void add_iter(side *to, const kiln_iter *iter) {
    to->var[to->count++] = iter->var;
    to->moving += iter->extent > 1;
}

/* Whether a window steps along it. */
static bool slides(const kiln_pattern *pattern, uint32_t i) {
    bool found = false;
    for (uint32_t a = 0; a < pattern->from_count; a++)
        found |= has(pattern->from[a].iters, i) && pattern->from[a].dim_of[i] < 0;
    return found;
}

/* False: an iterator belongs to no side, or there is nothing to merge. */
static bool find_sides(matrices *m) {
    const kiln_program *p = m->s->program;
    const kiln_block_info *b = &p->block.data[m->block];
    if (!kiln_pattern_of(m->s->program, m->block, &m->pattern) || !m->pattern.multiplies)
        return false;
    for (int windows = 1; windows >= 0; windows--)
        for (uint32_t i = 0; i < b->iter_count; i++) {
            const bool first = has(m->pattern.from[0].iters, i),
                       second = has(m->pattern.from[1].iters, i);
            if (b->iter[i].reduce) {
                if (first != second && b->iter[i].extent > 1) return false;
                if (slides(&m->pattern, i) == windows) add_iter(&m->side[STEPS], &b->iter[i]);
            } else if (windows && first != second) {
                add_iter(&m->side[first ? OF_FIRST : OF_SECOND], &b->iter[i]);
            } else if (windows && !first && b->iter[i].extent > 1) {
                return false;
            }
        }
    bool several = false;
    for (int k = 0; k < SIDES; k++) {
        if (m->side[k].moving == 0) return false;
        several |= m->side[k].moving > 1;
    }
    return several;
}

/* ---- iterators ------------------------------------------------------------------------------- */

/* Finds the iterators that go with the sides in the block that takes the sums. */
static bool follow_sides(matrices *m) {
    kiln_program *p = m->s->program;
    const kiln_block_info *b = &p->block.data[m->block];
    const kiln_buffer sums = b->buffer;
    kiln_gpu_tiling t = {.s = m->s, .block = m->block};
    kiln_pattern follower;
    if (!kiln_pattern_of(p, m->block, &t.pattern) || !kiln_pattern_of(p, m->follower, &follower))
        return false;
    for (int k = 0; k < STEPS; k++)
        for (uint32_t n = 0; n < m->side[k].count; n++) {
            const int i = kiln_block_iter_of(p, m->block, kiln_expr_var(p, m->side[k].var[n])),
                      same = kiln_gpu_follower_iter(&t, &follower, sums, i);
            if (same < 0) return false;
            add_iter(&m->followed[k], &p->block.data[m->follower].iter[same]);
        }
    return true;
}

static bool merge(kiln_sched *s, kiln_block block, const side *merged) {
    uint32_t iter[KILN_BLOCK_ITERS_MAX];
    if (merged->count < 2) return true;
    for (uint32_t n = 0; n < merged->count; n++)
        iter[n] = (uint32_t)kiln_block_iter_of(s->program, block,
                                               kiln_expr_var(s->program, merged->var[n]));
    return kiln_sched_merge(kiln_sched_try(s), block, iter, merged->count);
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool is_alone_with(kiln_program *p, kiln_buffer buffer, kiln_block block) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    return kiln_buffer_readers(p, buffer, reader) == 1 && reader[0] == block;
}

static int innermost_of(const kiln_buffer_info *b) {
    return b->layout.piece_count ? (int)b->layout.piece[b->layout.piece_count - 1].dim
                                 : (int)b->shape.rank - 1;
}

/* Counts a separate launch, which reads all and writes all. */
static void count_turning(matrices *m, kiln_buffer buffer) {
    const kiln_gpu_limits l = kiln_gpu_limits_of(m->s->target);
    const kiln_buffer_info *b = &m->s->program->buffer.data[buffer];
    const double bytes = (double)kiln_shape_count(&b->shape) * (double)kiln_dtype_size(b->dtype);
    m->cycles += kiln_gpu_launch_cycles(m->s->target) + 2 * bytes / (l.copy_rate * (double)l.units);
}

/* The operand transposed in a launch before, so that dimension `inner` is innermost; 0: not
 * transposed. */
static kiln_buffer turn(matrices *m, kiln_buffer buffer, int inner) {
    kiln_sched *s = m->s;
    kiln_program *p = s->program;
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    const kiln_block producer = kiln_program_producer(p, buffer);
    const int64_t bytes = (int64_t)kiln_dtype_size(b->dtype);
    kiln_layout layout = {0};
    if (inner < 0 || inner == innermost_of(b) || s->row_major ||
        kiln_gcd(b->shape.dim[inner] * bytes, GATHERED_BYTES_MAX) < GATHERED_BYTES_MIN)
        return 0;
    const bool pads = producer && kiln_sketch_padding_of(p, producer) &&
                      is_alone_with(p, buffer, m->block) && kiln_layout_is_identity(&b->layout);
    for (uint32_t d = 0; d < b->shape.rank; d++)
        if ((int)d != inner) kiln_sketch_add_piece(&layout, d, 1, 0);
    kiln_sketch_add_piece(&layout, (uint32_t)inner, 1, 0);
    if (!pads) {
        const kiln_block copy =
            kiln_sched_cache_read(kiln_sched_try(s), m->block, buffer, KILN_SCOPE_GLOBAL);
        if (!copy) return 0;
        buffer = p->block.data[copy].buffer;
    }
    if (!kiln_sched_transform_layout(kiln_sched_try(s), buffer, &layout, NULL, 0)) return 0;
    count_turning(m, buffer);
    return buffer;
}

static bool is_plain(kiln_program *p, kiln_block block, kiln_buffer buffer) {
    const kiln_loads loads = kiln_block_loads(p, block);
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t k = 0; k < loads.count; k++) {
        if (kiln_load_buffer(p, loads.load[k]) != buffer) continue;
        const uint32_t rank = kiln_load_index(p, loads.load[k], index);
        for (uint32_t d = 0; d < rank; d++)
            if (!kiln_expr_is_const(p, index[d]) && kiln_block_iter_of(p, block, index[d]) < 0)
                return false;
    }
    return true;
}

/* Constants are gathered once, before the first run; data piece by piece into shared memory. */
static bool gather(matrices *m, kiln_buffer buffer, kiln_block *out_constant) {
    kiln_sched *s = m->s;
    kiln_program *p = s->program;
    const bool constant = kiln_gpu_is_constant(p, buffer);
    const kiln_block producer = kiln_program_producer(p, buffer);
    const bool pads = producer && kiln_sketch_padding_of(p, producer) &&
                      is_alone_with(p, buffer, m->block) &&
                      kiln_layout_is_identity(&p->buffer.data[buffer].layout);
    if (is_plain(p, m->block, buffer)) return true;
    const kiln_block made = kiln_sched_gather(kiln_sched_try(s), m->block, buffer,
                                              constant ? KILN_SCOPE_GLOBAL : KILN_SCOPE_SHARED);
    if (constant) *out_constant = made;
    if (made && pads && !constant) kiln_sched_inline(kiln_sched_try(s), producer);
    return made != 0;
}

const char *kiln_gpu_make_matrices(kiln_sched *s, kiln_block block, kiln_gpu_matrices *out) {
    matrices m = {.s = s, .block = block};
    kiln_program *p = s->program;
    int inner[2];
    *out = (kiln_gpu_matrices){.made = find_sides(&m)};
    if (!out->made) return NULL;
    const kiln_var last = m.side[STEPS].var[m.side[STEPS].count - 1];
    const int step = kiln_block_iter_of(p, block, kiln_expr_var(p, last));
    for (uint32_t a = 0; a < 2; a++) inner[a] = m.pattern.from[a].dim_of[step];
    m.follower = kiln_sketch_separate_result(s, block, KILN_SCOPE_GLOBAL);
    if (!m.follower || !follow_sides(&m))
        return "the reader of the sums does not have their iterators";
    for (uint32_t a = 0; a < 2; a++) {
        kiln_buffer *buffer = &m.pattern.from[a].buffer;
        const bool windows = m.pattern.from[a].window != 0;
        const kiln_buffer turned =
            windows && !kiln_gpu_is_constant(p, *buffer) ? turn(&m, *buffer, inner[a]) : 0;
        if (turned) *buffer = turned;
    }
    for (int k = 0; k < SIDES; k++)
        if (!merge(s, block, &m.side[k]) || (k < STEPS && !merge(s, m.follower, &m.followed[k])))
            return "its iterators cannot be those of matrices";
    for (uint32_t a = 0; a < 2; a++)
        if (!gather(&m, m.pattern.from[a].buffer, &out->constant[a]))
            return "an operand cannot be gathered";
    out->cycles = m.cycles;
    return NULL;
}

/* ---- how a gathered operand lies in memory --------------------------------------------------- */

/* Whether elements of `width` values of the iterator, from a multiple of it on, are contiguous in
 * memory, at an aligned address, and either all inside the source or all outside. */
static bool lies_together(const kiln_sched *s, kiln_block block, uint32_t iter, int64_t width) {
    kiln_program *p = kiln_program_copy(s->program, s->arena);
    const kiln_block_info b = p->block.data[block];
    const kiln_var block_of = kiln_var_create(p, KILN_STR("lies.block"), 0,
                                              b.iter[iter].extent / width - 1),
                   lane = kiln_var_create(p, KILN_STR("lies.lane"), 0, width - 1);
    kiln_expr *replacement = KILN_ARENA_ARRAY(s->arena, kiln_expr, p->var.count),
              index[KILN_RANK_MAX];
    kiln_affine offset;
    replacement[b.iter[iter].var] = kiln_expr_binary(
        p, KILN_EXPR_ADD,
        kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_var(p, block_of), kiln_expr_index(p, width)),
        kiln_expr_var(p, lane));
    kiln_expr e = kiln_expr_simplify(p, kiln_expr_substitute(p, b.value, replacement), NULL);
    if (kiln_expr_get(p, e)->op == KILN_EXPR_SELECT) {
        if (kiln_expr_uses_var(p, kiln_expr_operand(p, e, 0), lane)) return false;
        e = kiln_expr_operand(p, e, 1);
    }
    if (kiln_expr_get(p, e)->op != KILN_EXPR_LOAD) return false;
    kiln_load_index(p, e, index);
    if (!kiln_affine_of(p, kiln_buffer_offset(p, kiln_load_buffer(p, e), index), NULL, &offset) ||
        kiln_affine_coefficient(p, &offset, lane) != 1 || offset.constant % width != 0)
        return false;
    for (uint32_t i = 0; i < offset.term_count; i++) {
        const kiln_expr_node *node = kiln_expr_get(p, offset.term[i]);
        const bool self = node->op == KILN_EXPR_VAR && node->payload.id == lane;
        if (!self &&
            (offset.coefficient[i] % width != 0 || kiln_expr_uses_var(p, offset.term[i], lane)))
            return false;
    }
    return true;
}

int64_t kiln_gpu_gathered_run(const kiln_sched *s, kiln_buffer buffer, uint32_t dim) {
    const kiln_block producer = kiln_program_producer(s->program, buffer);
    const int64_t extent = s->program->buffer.data[buffer].shape.dim[dim];
    int64_t width =
        GATHERED_BYTES_MAX / (int64_t)kiln_dtype_size(s->program->buffer.data[buffer].dtype);
    while (width > 1 && (extent % width != 0 || !lies_together(s, producer, dim, width)))
        width /= 2;
    return KILN_MAX(width, 1);
}
