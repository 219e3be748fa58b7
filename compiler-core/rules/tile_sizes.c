/* The sizes that are worth trying, and those preferred without a measurement: register tiles, steps
 * of the reduction, parts, rounds of tiles, blocks of channels. */
#include "base/macros.h"
#include "compiler-core/rules/tile.h"

#define TILE_ROWS_MAX 16
#define TILE_WORTH_TRYING 0.7 /* of the best one's efficiency */
#define REDUCE_BLOCK_MAX 64
#define STEPS_UNROLLED_MAX 8
#define ROUND_TILES_MAX 1000000 /* no bound */
#define ROUNDS_MAX 16           /* sizes of rounds of rows that are tried */

/* Times in slots; a multiply-add of a vector takes one: half a cycle if two are done in a cycle.
 * Fitted to the times of a few tiles of 1x1 convolutions on one Zen 3; the causes given fit them,
 * no counters were read. */
#define BROADCAST_SLOTS 1.2 /* as many loads a cycle, but those of one bank conflict */
#define WIDENED_SLOTS 4     /* bytes that are widened and then broadcast; not measured */
#define JOINED_SLOTS 3      /* a vector of data joined from those of several taps */
#define STREAMED_SLOTS 2.3  /* a vector of weights that comes from the second cache */
/* Of a load that multiply-adds hide, if factors are elements of registers, or several rows are
 * multiplied at once, so that only loads can be saved: narrow cores cannot hide all of it. Not
 * measured; it decides between tiles that are equal otherwise. */
#define LOAD_SLOTS_EXPOSED 0.1
/* Decides between tiles that are equal otherwise: a last one that is smaller is a second copy of
 * the code, in which weights are not fetched ahead. 128x256 by 256x256 takes 66 instead of 69 us in
 * tiles of 8 rows instead of 13, 20x650 by 650x2600 285 instead of 600 in tiles of 10 instead of
 * 14, both inside of networks (Zen 5). */
#define REMAINDER_SHARE 0.999999

int64_t kiln_tile_span(const kiln_tiling *t, int i) {
    const kiln_sched_loop loop =
        i < 0 ? (kiln_sched_loop){0} : kiln_sched_loop_of(t->s, t->block, (uint32_t)i);
    return kiln_sched_loop_is_none(loop) ? kiln_tile_extent(t, i) : kiln_sched_extent(t->s, loop);
}

/* ---- caches ---- */

double kiln_tile_operand_bytes(const kiln_tiling *t, int operand) {
    if (operand < 0) return 0;
    const kiln_buffer_info *b = &t->s->program->buffer.data[t->pattern.from[operand].buffer];
    return (double)kiln_shape_count(&b->shape) * (double)kiln_dtype_size(b->dtype);
}

static kiln_dtype dtype_of(const kiln_tiling *t, const kiln_block_access *a) {
    return t->s->program->buffer.data[a->buffer].dtype;
}

/* Bytes of weights for so many vectors of outputs. */
static double panel_bytes(const kiln_tiling *t, int64_t vectors) {
    double bytes = (double)(vectors * t->s->target->vector_bytes);
    if (t->weights >= 0)
        bytes *= (double)kiln_dtype_size(dtype_of(t, &t->pattern.from[t->weights])) /
                 (double)kiln_dtype_size(dtype_of(t, &t->pattern.to));
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (kiln_tile_has(t->pattern.reduce, i)) bytes *= (double)kiln_tile_extent(t, i);
    return bytes;
}

/* Whether the weights of one tile leave no room for anything else in the first cache, so that each
 * tile streams them again. */
static bool streams_weights(const kiln_tiling *t, int64_t vectors) {
    return t->packs && panel_bytes(t, vectors) > t->s->target->l1_bytes / 2.0;
}

bool kiln_tile_keeps_weights(const kiln_tiling *t) {
    double cache = t->s->target->l2_bytes;
    return t->packs && t->mh >= 0 && kiln_tile_operand_bytes(t, t->data) > cache / 2 &&
           kiln_tile_operand_bytes(t, t->weights) <= cache / 4;
}

#define PANEL_VECTORS 2
#define PARTS_MAX 8

/* Because of the weights of other kernels, even weights of a quarter of the second cache are not in
 * it when a kernel starts: 128x256 by 256x256 takes 63 instead of 76 us inside of BERT-mini (1 MB,
 * Zen 5). */
bool kiln_tile_fetches_ahead(const kiln_tiling *t) {
    return t->packs && t->k >= 0 && t->mw >= 0 &&
           kiln_tile_operand_bytes(t, t->weights) >= t->s->target->l2_bytes / 4.0;
}

bool kiln_tile_wants_parts(const kiln_tiling *t) {
    return t->packs && kiln_tile_extent(t, t->k) % 8 == 0 &&
           panel_bytes(t, PANEL_VECTORS) > t->s->target->l2_bytes / 2.0;
}

/* ---- tables of sizes ---- */

/* The rows of a choice: `width` integers each. */
typedef struct size_table {
    uint32_t width, rows, preferred;
    KILN_VEC(int64_t) value;
} size_table;

static void add_row(kiln_tiling *t, size_table *table, const int64_t *value) {
    for (uint32_t i = 0; i < table->width; i++)
        kiln_vec_push_in(t->s->arena, &table->value, value[i]);
    table->rows++;
}

static kiln_sched_sample sample(kiln_tiling *t, const size_table *table) {
    if (table->rows == 0) return (kiln_sched_sample){0};
    return kiln_sched_choice(t->s, table->width, table->value.data, table->rows, table->preferred);
}

kiln_sched_sample kiln_tile_sample_parts(kiln_tiling *t) {
    /* The part in use and the next one, which is being fetched, take half of the cache. */
    double room = t->s->target->l2_bytes / 4.0, panel = panel_bytes(t, PANEL_VECTORS);
    int64_t extent = kiln_tile_extent(t, t->k);
    size_table table = {.width = 2};
    for (int64_t parts = 2; parts <= PARTS_MAX && extent % (parts * 4) == 0; parts *= 2) {
        if (panel / (double)(parts / 2) > room) table.preferred = table.rows;
        add_row(t, &table, (int64_t[]){extent / parts, parts});
    }
    return sample(t, &table);
}

/* ---- the register tile ---- */

/* Whether factors are elements of registers that hold several steps of the data.
 */
static bool takes_factors(const kiln_tiling *t) {
    int64_t group = t->s->target->factor_lanes;
    return t->packs && group > 1 && kiln_tile_dot_rows(t) == 1 && t->k >= 0 &&
           !t->pattern.counts_ones &&
           kiln_tile_extent(t, t->k) % (group * kiln_tile_stride(t)) == 0;
}

/* Whether steps of the data lie in blocks of an instruction's, so that those of two rows are often
 * neighbours. */
static bool blocks_steps(const kiln_tiling *t) {
    const kiln_block_access *x = &t->pattern.from[t->data];
    return kiln_tile_dot_rows(t) > 1 && !kiln_tile_in_tiles(t) &&
           x->dim_of[t->k] + 1 < (int)kiln_tile_rank(t, x);
}

/* Counting ones needs a register for the word, one for the weight of a further plane, and without
 * an instruction for it a table, a mask, two more factors and two temporaries. */
static int64_t counting_registers(const kiln_tiling *t) {
    if (!t->pattern.counts_ones) return 0;
    const bool counts = t->s->target->arch != KILN_ARCH_X86_64 ||
                        kiln_target_has(t->s->target, KILN_STR("avx512bitalg"));
    return counts ? 2 : 7;
}

/* Vector registers that hold data during the steps of a tile of so many points; with factors one
 * more is reserved for the compiler, which may reorder loads, two more if a separate instruction
 * adds products, and four for a bias and its subtraction. */
static int64_t data_registers(const kiln_tiling *t, int64_t points) {
    if (takes_factors(t)) return points + 1;
    /* Of each row the elements loaded at once, and of those the ones multiplied next. */
    if (kiln_tile_dot_rows(t) > 1) return blocks_steps(t) ? points / kiln_tile_dot_rows(t) : points;
    if (t->row_tap >= 0) { /* a vector for each row of the window, those for joining them, and
                            * bounds of the result; or all vectors, if compilers load them first */
        const bool first = t->s->target->factor_lanes > 1;
        return (first ? 2 * points : kiln_tile_extent(t, t->row_tap)) + 3 + t->dot->accumulates;
    }
    return 1 + (t->dot && !t->dot->accumulates ? 2 : 0) + (t->dot && t->dot->bias ? 4 : 0) +
           counting_registers(t);
}

/* If an instruction over taps only multiplies, weights are read from memory: for a product and the
 * sum of two. */
#define TAP_REGISTERS 2

/* Registers that hold a row of weights, and the bias of their products. */
static int64_t weight_registers(const kiln_tiling *t, int64_t vectors) {
    if (t->row_tap >= 0) {
        const int64_t taps = kiln_tile_extent(t, t->row_tap) * kiln_tile_extent(t, t->tap);
        return t->dot->accumulates ? vectors * taps / t->dot->steps : TAP_REGISTERS;
    }
    return t->dot && t->dot->bias ? 2 * vectors : vectors * kiln_tile_dot_rows(t);
}

static bool widens(const kiln_tiling *t) { return t->dot && kiln_intrinsic_widens(t->dot); }

/* Slots of arithmetic of one step besides its multiply-adds: joining words of rows. */
static double joining_slots(const kiln_tiling *t, double points) {
    const double rows = (double)kiln_tile_dot_rows(t);
    return rows > 1 && !blocks_steps(t) ? points / rows : 0;
}

/* Slots of the loads of one step. */
static double load_slots(const kiln_tiling *t, double rows, double columns, double vectors) {
    const kiln_target *target = t->s->target;
    const double points = rows * columns;
    double slots = target->core.vector / target->core.loads;
    if (t->row_tap >= 0) { /* each is made once for all rows of the window, and of the tile */
        const double taps = (double)kiln_tile_extent(t, t->row_tap);
        return columns * (rows + taps - 1) * vectors * JOINED_SLOTS * slots / taps;
    }
    if (!t->packs) return points * vectors * 1.5 * slots;
    const double rows_at_once = (double)kiln_tile_dot_rows(t); /* words are as many times longer */
    double broadcast = rows_at_once > 1   ? 1.0 / rows_at_once
                       : takes_factors(t) ? 1.0 / target->factor_lanes
                       : widens(t)        ? WIDENED_SLOTS
                                          : BROADCAST_SLOTS;
    return (points * broadcast + vectors * rows_at_once) * slots;
}

/* Multiply-adds in flight that keep the units busy, and the one that issues. */
static double in_flight(const kiln_target *target) {
    return target->core.vector * target->core.latency + 1;
}

/* Points of mw that instructions compute for so many: a last row may have no second row. */
static int64_t whole_rows(const kiln_tiling *t, int64_t points) {
    const int64_t rows = kiln_tile_dot_rows(t);
    return (points + rows - 1) / rows * rows;
}

/* Share of the arithmetic peak that a tile of this shape can reach: partial tiles at the borders,
 * few accumulators and many loads cost time. */
static double tile_efficiency(const kiln_tiling *t, int64_t mh, int64_t mw, int64_t vectors) {
    int64_t h = kiln_tile_span(t, t->mh), w = kiln_tile_span(t, t->mw),
            n = (kiln_tile_span(t, t->v) + t->lanes - 1) / t->lanes;
    double cost = 0, least = streams_weights(t, vectors) ? STREAMED_SLOTS * (double)vectors : 0;
    least = KILN_MAX(least, in_flight(t->s->target));
    for (int tail_h = 0; tail_h < 2; tail_h++)
        for (int tail_w = 0; tail_w < 2; tail_w++) {
            int64_t rows = tail_h ? h % mh : mh, columns = whole_rows(t, tail_w ? w % mw : mw);
            int64_t count = (tail_h ? (h % mh != 0) : h / mh) * (tail_w ? (w % mw != 0) : w / mw);
            double points = (double)(rows * columns);
            double loads = load_slots(t, (double)rows, (double)columns, (double)vectors);
            const bool narrow = takes_factors(t) || kiln_tile_dot_rows(t) > 1;
            double exposed = narrow ? LOAD_SLOTS_EXPOSED * loads : 0;
            cost += (double)count *
                    (KILN_MAX(KILN_MAX(points * (double)vectors + joining_slots(t, points), least),
                              loads) +
                     exposed);
        }
    cost *= (double)((n + vectors - 1) / vectors);
    double useful = (double)(h * w) * (double)kiln_tile_span(t, t->v) / (double)t->lanes;
    return useful / cost * (mh > 1 && mw < w ? 0.99 : 1.0) *
           (h % mh != 0 || w % mw != 0 ? REMAINDER_SHARE : 1.0);
}

typedef struct tile_row {
    int64_t mh, mw, vectors;
    double efficiency;
    int64_t rows; /* of a tile of a matrix unit */
} tile_row;

static void insert_row(tile_row *row, uint32_t *count, tile_row added) {
    uint32_t at = *count < TILE_ROWS_MAX ? (*count)++ : TILE_ROWS_MAX;
    while (at > 0 && row[at - 1].efficiency < added.efficiency - 1e-9) {
        if (at < TILE_ROWS_MAX) row[at] = row[at - 1];
        at--;
    }
    if (at < TILE_ROWS_MAX) row[at] = added;
}

/* Whether tiles of so many values would leave a remainder in a part of the iterator: then the
 * computed elements are not known to be the whole part. */
static bool cuts_part(const kiln_tiling *t, int i, int64_t size) {
    const int64_t span = kiln_tile_span(t, i);
    return span < kiln_tile_extent(t, i) && span % size != 0;
}

/* ---- tiles of a matrix unit ---- */

/* A new configuration, and waiting for tiles: a guess. */
#define CONFIGURE_CYCLES 100.0
#define TILES_OF_SUMS 6 /* of eight: each factor needs one */

/* Share of the peak in blocks of mh by `across` tiles of `rows`, and by `vectors`. */
static double efficiency_in_tiles(const kiln_tiling *t, int64_t mh, int64_t across, int64_t rows,
                                  int64_t vectors) {
    const int64_t w = kiln_tile_extent(t, t->mw), sums = mh * across * vectors;
    double products = 1, blocks = (double)(kiln_tile_extent(t, t->mh) / mh);
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (kiln_tile_has(t->pattern.reduce, i))
            products *= (double)kiln_tile_extent(t, i) / (i == t->k ? (double)t->dot_steps : 1);
    const double loads = (double)(mh * across + vectors) * KILN_INTRINSIC_TILE_LOAD_CYCLES,
                 product = KILN_MAX((double)sums * KILN_INTRINSIC_TILE_CYCLES, loads),
                 block = products * (product + LOAD_SLOTS_EXPOSED * loads) +
                         KILN_INTRINSIC_TILE_LATENCY +
                         (double)sums * 2 * KILN_INTRINSIC_TILE_LOAD_CYCLES +
                         (w % rows != 0 ? CONFIGURE_CYCLES : 0);
    blocks *= (double)((w + across * rows - 1) / (across * rows));
    const int64_t v = kiln_tile_extent(t, t->v), panel = vectors * t->lanes;
    const double points = (double)(kiln_tile_extent(t, t->mh) * w) * (double)v /
                          (KILN_INTRINSIC_TILE_ROWS * (double)t->lanes);
    const double filled = (double)t->dot_steps / t->dot->steps;
    return points * products * filled * KILN_INTRINSIC_TILE_CYCLES /
           (blocks * block * (double)((v + panel - 1) / panel));
}

/* A last tile of fewer rows is a separate block. */
static kiln_sched_sample sample_tiles(kiln_tiling *t) {
    tile_row row[TILE_ROWS_MAX];
    uint32_t count = 0;
    const int64_t h = kiln_tile_extent(t, t->mh), w = kiln_tile_extent(t, t->mw);
    for (int64_t mh = 1; mh <= KILN_MIN(h, TILES_OF_SUMS); mh++)
        for (int64_t rows = 1; rows <= KILN_MIN(w, KILN_INTRINSIC_TILE_ROWS); rows++)
            for (int64_t across = 1; across * mh <= TILES_OF_SUMS; across++)
                for (int64_t vectors = 1; vectors * across * mh <= TILES_OF_SUMS; vectors++) {
                    const int64_t panel = vectors * t->lanes;
                    if (h % mh != 0 || (across > 1 && w % (across * rows) != 0) ||
                        panel >= kiln_tile_extent(t, t->v) + t->lanes ||
                        (kiln_tile_extent(t, t->v) % panel != 0 && !kiln_tile_can_pad(t)))
                        continue;
                    insert_row(row, &count,
                               (tile_row){mh, across * rows, vectors,
                                          efficiency_in_tiles(t, mh, across, rows, vectors), rows});
                }
    while (count > 1 && row[count - 1].efficiency < TILE_WORTH_TRYING * row[0].efficiency) count--;
    size_table table = {.width = 4};
    for (uint32_t i = 0; i < count; i++)
        add_row(t, &table, (int64_t[]){row[i].mh, row[i].mw, row[i].vectors, row[i].rows});
    return sample(t, &table);
}

/* A microcontroller's dot products use its 13 core registers: two vectors of sums, a word of each
 * operand, and three addresses. */
#define CORE_REGISTERS 4

static int64_t registers_for(const kiln_tiling *t) {
    const bool in_core = t->dot && t->s->target->arch == KILN_ARCH_THUMB;
    return in_core ? CORE_REGISTERS : t->s->target->vector_registers;
}

/* Register tiles that fit: accumulators, one row of weights, the data. Best first. */
kiln_sched_sample kiln_tile_sample_registers(kiln_tiling *t) {
    if (kiln_tile_in_tiles(t)) return sample_tiles(t);
    tile_row row[TILE_ROWS_MAX];
    uint32_t count = 0;
    const int64_t registers = registers_for(t);
    int64_t vectors_max = KILN_MIN(6, (kiln_tile_extent(t, t->v) + t->lanes - 1) / t->lanes);
    const bool part = kiln_tile_span(t, t->mh) < kiln_tile_extent(t, t->mh);
    const int64_t rows_max = part ? 1 : KILN_MIN(kiln_tile_extent(t, t->mh), 8);
    for (int64_t mh = 1; mh <= rows_max; mh++)
        for (int64_t mw = KILN_MIN(whole_rows(t, kiln_tile_span(t, t->mw)), 32); mw >= 1; mw--)
            for (int64_t vectors = 1; vectors <= vectors_max; vectors++) {
                if (mw != whole_rows(t, mw)) continue;
                if (cuts_part(t, t->mw, mw) || cuts_part(t, t->v, vectors * t->lanes)) continue;
                int64_t operands = weight_registers(t, vectors) + data_registers(t, mh * mw);
                if (mh * mw * vectors + operands > registers) break;
                if (vectors > 1 && kiln_tile_extent(t, t->v) % (vectors * t->lanes) != 0 &&
                    !kiln_tile_can_pad(t))
                    continue;
                insert_row(row, &count,
                           (tile_row){mh, mw, vectors, tile_efficiency(t, mh, mw, vectors), 0});
            }
    while (count > 1 && row[count - 1].efficiency < TILE_WORTH_TRYING * row[0].efficiency) count--;
    size_table table = {.width = 3};
    for (uint32_t i = 0; i < count; i++)
        add_row(t, &table, (int64_t[]){row[i].mh, row[i].mw, row[i].vectors});
    return sample(t, &table);
}

/* ---- steps and blocks ---- */

#define BLOCK_MIN 4
/* Channels that are contiguous where they become words of bits: one or two words. */
#define BITS_BLOCK 64

static int64_t channel_block(const kiln_tiling *t) {
    if (t->pattern.counts_ones) return BITS_BLOCK;
    if (blocks_steps(t)) return t->dot->steps;
    const int64_t word = t->packs ? kiln_tile_word(t) : 1;
    return (int64_t)t->s->target->vector_bytes / (int64_t)sizeof(float) * word;
}

/* The block of this many channels that every kernel prefers, for reading and writing, so that
 * unmeasured kernels agree without conversions: a vector of them, or the largest power of two that
 * divides them, of which a vector covers several blocks; if there is none, all of them. */
static int64_t preferred_block(const kiln_tiling *t, int64_t channels) {
    int64_t block = channel_block(t);
    while (block >= BLOCK_MIN && channels % block != 0) block /= 2;
    return block >= BLOCK_MIN ? block : channels;
}

kiln_sched_int kiln_tile_channels(const kiln_tiling *t, int64_t channels) {
    return kiln_sched_const(preferred_block(t, channels));
}

/* The most contiguous steps of the reduction without a measurement: a block of channels if the data
 * gets a layout. */
static int64_t preferred_steps(const kiln_tiling *t) {
    if (t->k < 0) return 1;
    const kiln_block_access *x = &t->pattern.from[t->data];
    bool blocked = x->dim_of[t->k] + 1 < (int)kiln_tile_rank(t, x);
    return blocked ? preferred_block(t, kiln_tile_extent(t, t->k)) : channel_block(t);
}

/* Preferred number of unrolled steps. Without taps around them no line of data is in the first
 * cache yet; then all steps of a block are unrolled, so that each instruction has one stride, which
 * prefetchers detect (0.79 to 0.97 of the peak for 28x28x256 1x1). */
static int64_t preferred_unrolled(const kiln_tiling *t) {
    if (widens(t)) return 4;                      /* widening makes code and needs registers */
    if (t->dot && !t->dot->accumulates) return 2; /* compilers load weights of later steps early */
    if (t->pattern.counts_ones) return 2;         /* planes are unrolled as well */
    return t->k >= 0 && t->pattern.reduce == 1u << t->k ? STEPS_UNROLLED_MAX : 4;
}

/* Reduce block (contiguous steps of data and weights), number of unrolled steps, and lanes along
 * the innermost dimension for the padding copy if the block is too short to fill a vector. Both
 * numbers are multiples of an instruction's steps. */
kiln_sched_sample kiln_tile_sample_steps(kiln_tiling *t) {
    int64_t extent = t->k < 0 ? 1 : kiln_tile_extent(t, t->k), stride = kiln_tile_stride(t);
    size_table table = {.width = t->dot && t->packs ? 4 : 3};
    int64_t best = 0, most = preferred_steps(t);
    for (int64_t block = stride; block <= KILN_MIN(extent, REDUCE_BLOCK_MAX); block += stride) {
        if (extent % block != 0 || (block < 4 && block < extent && extent % 4 == 0)) continue;
        for (int64_t unrolled = stride; unrolled <= KILN_MIN(block, STEPS_UNROLLED_MAX * stride);
             unrolled *= 2) {
            if (block % unrolled != 0) continue;
            bool fits = block <= most && unrolled <= preferred_unrolled(t) * stride;
            if (fits && block * 64 + unrolled > best) {
                best = block * 64 + unrolled;
                table.preferred = table.rows;
            }
            int64_t lanes = block > 1 ? 1 : t->lanes;
            add_row(t, &table, (int64_t[]){block, unrolled, lanes, block / kiln_tile_word(t)});
        }
    }
    return sample(t, &table);
}

kiln_sched_sample kiln_tile_sample_block(kiln_tiling *t, int64_t extent) {
    int64_t value[16], preferred = preferred_block(t, extent);
    uint32_t count = 0;
    if (preferred % t->lanes != 0 && preferred < extent) value[count++] = preferred;
    for (int64_t block = t->lanes; block < extent && count + 1 < KILN_ARRAY_COUNT(value);
         block += t->lanes)
        if (extent % block == 0 && block <= 16 * t->lanes) value[count++] = block;
    value[count++] = extent;
    return kiln_sched_categorical(t->s, value, count, kiln_sketch_nearest(value, count, preferred));
}

/* ---- rounds ---- */

/* The most rows whose copies of data, of one vector of channels, fit into a quarter of the first
 * cache.
 */
static int64_t rows_copied_near(const kiln_tiling *t, kiln_sched_loop rows) {
    const double row = kiln_tile_operand_bytes(t, t->data) * (double)t->lanes /
                       (double)(kiln_tile_extent(t, t->v) * kiln_sched_extent(t->s, rows));
    return KILN_MAX(1, (int64_t)(t->s->target->l1_bytes / 4 / row));
}

int64_t kiln_tile_rows_a_round(const kiln_tiling *t, kiln_sched_loop rows) {
    if (t->row_tap >= 0) return rows_copied_near(t, rows);
    if (!kiln_tile_keeps_weights(t)) return t->packs ? 4 : 8;
    double row = kiln_tile_operand_bytes(t, t->data) / (double)kiln_sched_extent(t->s, rows);
    int64_t count = (int64_t)(t->s->target->l2_bytes / 4 / row);
    return count > 1 ? count : 1;
}

kiln_tile_loops kiln_tile_split_rounds(kiln_tiling *t, kiln_sched_loop tiles, int64_t preferred) {
    int64_t count = kiln_sched_extent(t->s, tiles), round = 1;
    for (int64_t r = 1; r <= KILN_MIN(count, preferred); r++)
        if (count % r == 0) round = r;
    kiln_sched_sample rounds =
        kiln_sched_perfect_tile(t->s, tiles, 2, ROUND_TILES_MAX, (int64_t[]){count / round, round});
    kiln_sched_loops part = kiln_sched_split(
        t->s, tiles, KILN_SCHED_INTS(kiln_sched_element(rounds, 0), kiln_sched_element(rounds, 1)));
    return (kiln_tile_loops){.rounds = part.loop[0], .tiles = part.loop[1]};
}

kiln_tile_loops kiln_tile_split_rows(kiln_tiling *t, kiln_sched_loop tiles) {
    const int64_t count = kiln_sched_extent(t->s, tiles);
    int64_t value[ROUNDS_MAX], last = 0;
    uint32_t values = 0, preferred = 0;
    for (int64_t rounds = 1; rounds <= count && values < ROUNDS_MAX; rounds++) {
        const int64_t size = (count + rounds - 1) / rounds;
        if (size == last) continue;
        last = value[values] = size;
        if (rounds <= t->rounds) preferred = values;
        values++;
    }
    const kiln_sched_sample size = kiln_sched_categorical(t->s, value, values, preferred);
    const kiln_sched_loops part = kiln_sched_split(
        t->s, tiles, KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(size, 0)));
    return (kiln_tile_loops){.rounds = part.loop[0], .tiles = part.loop[1]};
}
