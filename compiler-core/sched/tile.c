/* What to tile and how: analysis of the reduction, and the decisions that a search closes. */
#include "compiler-core/sched/tile.h"

#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/rules.h"

#define TILE_ROWS_MAX 16
#define TILE_WORTH_TRYING 0.7 /* of the best one's efficiency */
#define REDUCE_BLOCK_MAX 64
#define TAPS_UNROLLED_MAX 7
#define STEPS_UNROLLED_MAX 8

/* Times in slots, of which one multiply-add of a vector takes one: half a cycle where two are done
 * in a cycle. Fitted to the times of a few tiles of 1x1 convolutions on one Zen 3; the causes given
 * are what fits, no counters were read. */
#define BROADCAST_SLOTS 1.2 /* as many loads a cycle, but those of one bank exclude each other */
#define WIDENED_SLOTS 4     /* bytes that are widened and then broadcast; not measured */
#define STREAMED_SLOTS 2.3  /* a vector of weights that comes from the second cache */
/* Of a load that multiply-adds hide, where factors are elements of registers and loads are all that
 * is left to save: narrow cores cannot hide all of it. Not measured; it decides between tiles that
 * are equal otherwise. */
#define LOAD_SLOTS_EXPOSED 0.1

/* ---- analysis ---- */

/* An output iterator of which blocks are blocks of a dimension of everything that it indexes. */
static bool can_be_lanes(const kiln_tile *t, int i) {
    if (t->given_v >= 0 && i != t->given_v) return false;
    if (!kiln_tile_has(t->pattern.spatial, i) || t->pattern.to.dim_of[i] < 0) return false;
    for (uint32_t a = 0; a < t->pattern.from_count; a++)
        if (kiln_tile_has(t->pattern.from[a].iters, i) && t->pattern.from[a].dim_of[i] < 0)
            return false;
    return true;
}

/* A constant, or what is computed from constants alone, once. */
static bool is_constant(const kiln_tile *t, const kiln_access *a) {
    kiln_program *p = t->m->replay.p;
    kiln_block producer = kiln_program_producer(p, a->buffer);
    return kiln_tile_role(t, a) == KILN_ROLE_CONSTANT ||
           (producer && kiln_block_reads_only_constants(p, producer));
}

/* Weights and data: lanes over an iterator that indexes only one of two operands; constants are
 * preferred, as packing them costs nothing, then the innermost output dimension. */
static bool choose_packed(kiln_tile *t) {
    if (!t->pattern.multiplies || t->pattern.from[0].buffer == t->pattern.from[1].buffer)
        return false;
    double best = 0;
    for (int side = 0; side < 2; side++) {
        const kiln_access *w = &t->pattern.from[side], *x = &t->pattern.from[1 - side];
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
            if (!can_be_lanes(t, i) || !kiln_tile_has(w->iters, i) || kiln_tile_has(x->iters, i))
                continue;
            bool innermost = t->pattern.to.dim_of[i] + 1 == (int)kiln_tile_rank(t, &t->pattern.to);
            double score =
                (double)kiln_tile_extent(t, i) * (is_constant(t, w) ? 1e6
                                                  : innermost                                ? 1e3
                                                                                             : 1);
            if (score <= best) continue;
            best = score;
            t->v = i;
            t->weights = side;
            t->data = 1 - side;
        }
    }
    return best > 0;
}

/* Lanes over an iterator that all operands share. Making it contiguous costs a conversion unless it
 * is, which pays for images but not for rows of a matrix. */
static bool choose_shared(kiln_tile *t) {
    t->data = -1;
    for (uint32_t a = 0; a < t->pattern.from_count; a++)
        if (kiln_tile_role(t, &t->pattern.from[a]) != KILN_ROLE_CONSTANT) {
            if (t->data >= 0) return false;
            t->data = (int)a;
        } else {
            t->weights = (int)a;
        }
    if (t->data < 0 || t->pattern.from_count > 2) return false;
    const kiln_access *x = &t->pattern.from[t->data];
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (!can_be_lanes(t, i) || !kiln_tile_has(x->iters, i)) continue;
        if (kiln_tile_rank(t, x) < 4 && x->dim_of[i] + 1 != (int)kiln_tile_rank(t, x)) continue;
        if (t->v < 0 || kiln_tile_extent(t, i) > kiln_tile_extent(t, t->v)) t->v = i;
    }
    return t->v >= 0;
}

/* With data in vectors, neighbouring columns of a window read the same vectors: the window's
 * columns are unrolled inside the tile, so that each vector is loaded once. Broadcast data has no
 * such gain. */
static int find_tap(const kiln_tile *t) {
    const kiln_access *x = &t->pattern.from[t->data];
    int tap = -1;
    if (t->packs || t->mw < 0 || x->window == 0) return -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (kiln_tile_has(t->pattern.reduce, i) && kiln_tile_has(x->iters, i) && x->dim_of[i] < 0 &&
            kiln_tile_extent(t, i) <= TAPS_UNROLLED_MAX)
            tap = i;
    return tap;
}

/* Whether v alone indexes its dimension of the output, so that padding it is padding the buffer.
 * With groups of channels it does not; then partial vectors need masks. */
bool kiln_tile_can_pad(const kiln_tile *t) {
    const kiln_buffer_info *to = &t->m->replay.p->buffer.data[t->pattern.to.buffer];
    return to->shape.dim[t->pattern.to.dim_of[t->v]] == kiln_tile_extent(t, t->v);
}

/* Whether the operands have the instruction's element types, in either order: known at once, where
 * comparing what is computed takes a parser. */
static bool has_operands_of(const kiln_tile *t, const kiln_intrinsic *dot) {
    const kiln_buffer_info *buffer = t->m->replay.p->buffer.data;
    kiln_dtype a = buffer[t->pattern.from[0].buffer].dtype,
               b = buffer[t->pattern.from[1].buffer].dtype;
    return (a == dot->operand[0] && b == dot->operand[1]) ||
           (a == dot->operand[1] && b == dot->operand[0]);
}

/* The first instruction of the target that does what the reduction does, for whole vectors of
 * weights and whole blocks of steps. */
static const kiln_intrinsic *find_dot(const kiln_tile *t) {
    kiln_program *p = t->m->replay.p;
    bool whole = kiln_tile_can_pad(t) || kiln_tile_extent(t, t->v) % t->lanes == 0;
    if (t->plain || !t->packs || t->k < 0 || !whole) return NULL;
    for (uint32_t i = 0; i < KILN_INTRINSIC_COUNT; i++) {
        const kiln_intrinsic *dot = &kiln_intrinsics[i];
        kiln_expr load[KILN_INTRINSIC_OPERANDS];
        if (kiln_intrinsic_runs_on(dot, t->m->target) && dot->lanes == t->lanes &&
            kiln_tile_extent(t, t->k) % dot->steps == 0 && has_operands_of(t, dot) &&
            kiln_intrinsic_matches(kiln_intrinsic_program(dot, t->m->arena), p,
                                   p->block.data[t->block].value, load))
            return dot;
    }
    return NULL;
}

bool kiln_tile_analyse(kiln_tile *t) {
    t->weights = t->data = t->v = t->mh = t->mw = t->k = -1;
    if (!kiln_pattern_of(t->m->replay.p, t->block, &t->pattern)) return false;
    t->packs = choose_packed(t);
    if (!t->packs && !choose_shared(t)) return false;
    const kiln_access *x = &t->pattern.from[t->data];
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (i != t->v && kiln_tile_has(t->pattern.spatial, i) && kiln_tile_has(x->iters, i) &&
            t->pattern.to.dim_of[i] >= 0 &&
            (!t->packs || !kiln_tile_has(t->pattern.from[t->weights].iters, i))) {
            t->mh = t->mw;
            t->mw = i;
        }
        bool blocks = t->packs && kiln_tile_has(t->pattern.reduce, i) && x->dim_of[i] >= 0 &&
                      t->pattern.from[t->weights].dim_of[i] >= 0;
        if (blocks && (t->k < 0 || kiln_tile_extent(t, i) > kiln_tile_extent(t, t->k))) t->k = i;
    }
    t->tap = find_tap(t);
    t->lanes =
        kiln_sketch_lanes(t->m->target, t->m->replay.p->buffer.data[t->pattern.to.buffer].dtype,
                          kiln_tile_extent(t, t->v));
    t->dot = find_dot(t);
    return t->lanes > 1;
}

/* ---- decisions ---- */

static double max2(double a, double b) { return a > b ? a : b; }

static double bytes_of(const kiln_tile *t, const kiln_access *a) {
    const kiln_buffer_info *b = &t->m->replay.p->buffer.data[a->buffer];
    return (double)kiln_shape_count(&b->shape) * (double)kiln_dtype_size(b->dtype);
}

static kiln_dtype dtype_of(const kiln_tile *t, const kiln_access *a) {
    return t->m->replay.p->buffer.data[a->buffer].dtype;
}

/* Bytes of weights for so many vectors of outputs. */
static double panel_bytes(const kiln_tile *t, int64_t vectors) {
    double bytes = (double)(vectors * t->m->target->vector_bytes);
    if (t->weights >= 0)
        bytes *= (double)kiln_dtype_size(dtype_of(t, &t->pattern.from[t->weights])) /
                 (double)kiln_dtype_size(dtype_of(t, &t->pattern.to));
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (kiln_tile_has(t->pattern.reduce, i)) bytes *= (double)kiln_tile_extent(t, i);
    return bytes;
}

/* Whether the weights of one tile leave room for anything else in the first cache; if not, each
 * tile streams them anew. */
static bool streams_weights(const kiln_tile *t, int64_t vectors) {
    return t->packs && panel_bytes(t, vectors) > t->m->target->l1_bytes / 2.0;
}

#define PANEL_VECTORS 2
#define PARTS_MAX 8

bool kiln_tile_fetches_ahead(const kiln_tile *t) {
    return t->packs && t->k >= 0 && t->mw >= 0 &&
           bytes_of(t, &t->pattern.from[t->weights]) > t->m->target->l2_bytes / 2.0;
}

bool kiln_tile_wants_parts(const kiln_tile *t) {
    return t->packs && kiln_tile_extent(t, t->k) % 8 == 0 &&
           panel_bytes(t, PANEL_VECTORS) > t->m->target->l2_bytes / 2.0;
}

const char *kiln_tile_sample_parts(kiln_tile *t) {
    /* The part in use and the one that is fetched meanwhile take half of the cache. */
    double room = t->m->target->l2_bytes / 4.0, panel = panel_bytes(t, PANEL_VECTORS);
    int64_t extent = kiln_tile_extent(t, t->k);
    kiln_strbuf text = {0};
    uint32_t rows = 0, preferred = 0;
    for (int64_t parts = 2; parts <= PARTS_MAX && extent % (parts * 4) == 0; parts *= 2) {
        kiln_strbuf_printf(&text, ", %lld, %lld", (long long)(extent / parts), (long long)parts);
        if (panel / (double)(parts / 2) > room) preferred = rows;
        rows++;
    }
    const char *name = kiln_make_sampler(t->m, "choice(2%s) = %u", text.data, preferred);
    kiln_strbuf_deinit(&text);
    return name;
}

/* Whether elements of data are factors out of registers that hold several steps of the reduction.
 */
static bool takes_factors(const kiln_tile *t) {
    int64_t group = t->m->target->factor_lanes;
    return t->packs && group > 1 && t->k >= 0 &&
           kiln_tile_extent(t, t->k) % (group * kiln_tile_stride(t)) == 0;
}

/* Vector registers that hold data while a tile of so many points takes its steps; with factors one
 * more is left to the compiler, which orders loads as it likes, and so it is for products that an
 * instruction of their own adds, and four for a bias and where it is taken off. */
static int64_t data_registers(const kiln_tile *t, int64_t points) {
    if (takes_factors(t)) return points + 1;
    return 1 + (t->dot && !t->dot->accumulates) + (t->dot && t->dot->bias ? 4 : 0);
}

/* Those that hold a row of weights, and what a bias adds to their products. */
static int64_t weight_registers(const kiln_tile *t, int64_t vectors) {
    return t->dot && t->dot->bias ? 2 * vectors : vectors;
}

/* Slots of the loads of one step. */
static double load_slots(const kiln_tile *t, double points, double vectors) {
    const kiln_target *target = t->m->target;
    double slots = target->core.vector / target->core.loads;
    if (!t->packs) return points * vectors * 1.5 * slots;
    double broadcast = takes_factors(t)                       ? 1.0 / target->factor_lanes
                       : t->dot && t->dot->operand_bits == 16 ? WIDENED_SLOTS
                                                              : BROADCAST_SLOTS;
    return (points * broadcast + vectors) * slots;
}

/* Multiply-adds in flight that keep the units busy, and the one that issues. */
static double in_flight(const kiln_target *target) {
    return target->core.vector * target->core.latency + 1;
}

/* Share of the arithmetic peak that a tile reaches by its shape alone: partial tiles at the
 * borders, few accumulators and many loads cost time. */
static double tile_efficiency(const kiln_tile *t, int64_t mh, int64_t mw, int64_t vectors) {
    int64_t h = kiln_tile_extent(t, t->mh), w = kiln_tile_extent(t, t->mw),
            n = (kiln_tile_extent(t, t->v) + t->lanes - 1) / t->lanes;
    double cost = 0, least = streams_weights(t, vectors) ? STREAMED_SLOTS * (double)vectors : 0;
    least = max2(least, in_flight(t->m->target));
    for (int tail_h = 0; tail_h < 2; tail_h++)
        for (int tail_w = 0; tail_w < 2; tail_w++) {
            int64_t rows = tail_h ? h % mh : mh, columns = tail_w ? w % mw : mw;
            int64_t count = (tail_h ? (h % mh != 0) : h / mh) * (tail_w ? (w % mw != 0) : w / mw);
            double points = (double)(rows * columns);
            double loads = load_slots(t, points, (double)vectors);
            double exposed = takes_factors(t) ? LOAD_SLOTS_EXPOSED * loads : 0;
            cost += (double)count * (max2(max2(points * (double)vectors, least), loads) + exposed);
        }
    cost *= (double)((n + vectors - 1) / vectors);
    double useful = (double)(h * w) * (double)kiln_tile_extent(t, t->v) / (double)t->lanes;
    return useful / cost * (mh > 1 && mw < w ? 0.99 : 1.0);
}

#define BLOCK_MIN 4

static int64_t channel_block(const kiln_tile *t) {
    return (int64_t)t->m->target->vector_bytes / (int64_t)sizeof(float) * kiln_tile_stride(t);
}

/* The block of so many channels that every kernel prefers, whether it reads or writes them, so that
 * those that were not measured agree without conversions: a vector of them, or the largest power of
 * two that divides them, of which a vector covers several blocks; without any, all of them. */
static int64_t preferred_block(const kiln_tile *t, int64_t channels) {
    int64_t block = channel_block(t);
    while (block >= BLOCK_MIN && channels % block != 0) block /= 2;
    return block >= BLOCK_MIN ? block : channels;
}

/* The most steps of the reduction that lie behind one another without measurement: a block of
 * channels where the data gets a layout. */
static int64_t preferred_steps(const kiln_tile *t) {
    if (t->k < 0) return 1;
    const kiln_access *x = &t->pattern.from[t->data];
    bool blocked = x->dim_of[t->k] + 1 < (int)kiln_tile_rank(t, x);
    return blocked ? preferred_block(t, kiln_tile_extent(t, t->k)) : channel_block(t);
}

typedef struct tile_row {
    int64_t mh, mw, vectors;
    double efficiency;
} tile_row;

static void insert_row(tile_row *row, uint32_t *count, tile_row added) {
    uint32_t at = *count < TILE_ROWS_MAX ? (*count)++ : TILE_ROWS_MAX;
    while (at > 0 && row[at - 1].efficiency < added.efficiency - 1e-9) {
        if (at < TILE_ROWS_MAX) row[at] = row[at - 1];
        at--;
    }
    if (at < TILE_ROWS_MAX) row[at] = added;
}

/* Register tiles that fit: accumulators, one row of weights, the data. Best first. */
const char *kiln_tile_sample_registers(kiln_tile *t) {
    tile_row row[TILE_ROWS_MAX];
    uint32_t count = 0;
    int64_t registers = t->m->target->vector_registers;
    int64_t vectors_max = KILN_MIN(6, (kiln_tile_extent(t, t->v) + t->lanes - 1) / t->lanes);
    for (int64_t mh = 1; mh <= KILN_MIN(kiln_tile_extent(t, t->mh), 8); mh++)
        for (int64_t mw = KILN_MIN(kiln_tile_extent(t, t->mw), 32); mw >= 1; mw--)
            for (int64_t vectors = 1; vectors <= vectors_max; vectors++) {
                int64_t operands = weight_registers(t, vectors) + data_registers(t, mh * mw);
                if (mh * mw * vectors + operands > registers) break;
                if (vectors > 1 && kiln_tile_extent(t, t->v) % (vectors * t->lanes) != 0 &&
                    !kiln_tile_can_pad(t))
                    continue;
                insert_row(row, &count,
                           (tile_row){mh, mw, vectors, tile_efficiency(t, mh, mw, vectors)});
            }
    while (count > 1 && row[count - 1].efficiency < TILE_WORTH_TRYING * row[0].efficiency) count--;
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&text, ", %lld, %lld, %lld", (long long)row[i].mh, (long long)row[i].mw,
                           (long long)row[i].vectors);
    const char *name = kiln_make_sampler(t->m, "choice(3%s) = 0", text.data);
    kiln_strbuf_deinit(&text);
    return name;
}

/* How many steps are better unrolled. Without taps around them no line of data is in the first
 * cache yet; then all steps of a block are, so that each instruction walks by one stride, which
 * prefetchers learn (0.79 to 0.97 of the peak for 28x28x256 1x1). */
static int64_t preferred_unrolled(const kiln_tile *t) {
    if (t->dot && t->dot->operand_bits == 16)
        return 4; /* widening makes code and needs registers */
    return t->k >= 0 && t->pattern.reduce == 1u << t->k ? STEPS_UNROLLED_MAX : 4;
}

/* Reduce block (contiguous steps of data and weights), how many of them are unrolled, and lanes
 * along the innermost dimension for the padding copy where the block is too short to fill a vector.
 * An instruction that takes several steps takes whole ones of both.
 */
const char *kiln_tile_sample_steps(kiln_tile *t) {
    int64_t extent = t->k < 0 ? 1 : kiln_tile_extent(t, t->k), stride = kiln_tile_stride(t);
    kiln_strbuf text = {0};
    uint32_t rows = 0, preferred = 0;
    int64_t best = 0, most = preferred_steps(t);
    for (int64_t block = stride; block <= KILN_MIN(extent, REDUCE_BLOCK_MAX); block += stride) {
        if (extent % block != 0 || (block < 4 && block < extent && extent % 4 == 0)) continue;
        for (int64_t unrolled = stride; unrolled <= KILN_MIN(block, STEPS_UNROLLED_MAX * stride);
             unrolled *= 2) {
            if (block % unrolled != 0) continue;
            int64_t lanes = block > 1 ? 1 : t->lanes;
            kiln_strbuf_printf(&text, ", %lld, %lld, %lld", (long long)block, (long long)unrolled,
                               (long long)lanes);
            if (t->dot) kiln_strbuf_printf(&text, ", %lld", (long long)(block / stride));
            bool fits = block <= most && unrolled <= preferred_unrolled(t) * stride;
            if (fits && block * 64 + unrolled > best) {
                best = block * 64 + unrolled;
                preferred = rows;
            }
            rows++;
        }
    }
    const char *name =
        kiln_make_sampler(t->m, "choice(%d%s) = %u", t->dot ? 4 : 3, text.data, preferred);
    kiln_strbuf_deinit(&text);
    return name;
}

bool kiln_tile_keeps_weights(const kiln_tile *t) {
    double cache = t->m->target->l2_bytes;
    return t->packs && t->mh >= 0 && bytes_of(t, &t->pattern.from[t->data]) > cache / 2 &&
           bytes_of(t, &t->pattern.from[t->weights]) <= cache / 4;
}

static int64_t loop_extent(const kiln_tile *t, const char *name) {
    kiln_stmt loop = kiln_program_find_loop(t->m->replay.p, kiln_str_from(name));
    return loop ? t->m->replay.p->stmt.data[loop].extent : 1;
}

int64_t kiln_tile_rows_a_round(const kiln_tile *t, const char *rows_loop) {
    if (!kiln_tile_keeps_weights(t)) return t->packs ? 4 : 8;
    double row = bytes_of(t, &t->pattern.from[t->data]) / (double)loop_extent(t, rows_loop);
    int64_t rows = (int64_t)(t->m->target->l2_bytes / 4 / row);
    return rows > 1 ? rows : 1;
}

/* Splits a loop over tiles into rounds of tiles without remainder, preferring `preferred` tiles a
 * round. */
void kiln_tile_split_rounds(kiln_tile *t, const char *tiles_loop, int64_t preferred) {
    int64_t tiles = loop_extent(t, tiles_loop), round = 1;
    for (int64_t r = 1; r <= KILN_MIN(tiles, preferred); r++)
        if (tiles % r == 0) round = r;
    const char *rounds =
        kiln_make_sampler(t->m, "perfect_tile(%s, 2, 1000000) = [%lld, %lld]", tiles_loop,
                          (long long)(tiles / round), (long long)round);
    if (rounds) kiln_make(t->m, "split(%s, %s[0], %s[1])", tiles_loop, rounds, rounds);
}

/* Blocks of output channels: the preferred one, whole vectors that divide, everything. */
const char *kiln_tile_sample_block(kiln_tile *t, int64_t extent) {
    int64_t value[16], preferred = preferred_block(t, extent);
    uint32_t count = 0;
    if (preferred % t->lanes != 0 && preferred < extent) value[count++] = preferred;
    for (int64_t block = t->lanes; block < extent && count + 1 < KILN_ARRAY_COUNT(value);
         block += t->lanes)
        if (extent % block == 0 && block <= 16 * t->lanes) value[count++] = block;
    value[count++] = extent;
    return kiln_make_categorical(t->m, value, count, preferred);
}
