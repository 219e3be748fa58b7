/* Tiles that fit into an accelerator's memories, by estimated time. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/cost/core_time.h"
#include "compiler-core/rules/vta.h"

static const int64_t threads_worth[] = {1, 2, 4};
static const int64_t stages_worth[] = {1, 2, 3, 4};

typedef struct tile_row {
    int64_t column[KILN_VTA_TILE_COLUMNS];
    double cycles;
} tile_row;

/* Best first. */
typedef struct tile_table {
    uint32_t count;
    tile_row row[KILN_VTA_ROWS_MAX];
} tile_table;

/* A part of a row. */
typedef struct part {
    double of[KILN_VTA_AXES];   /* tiles along the axes: of a step along IN */
    double side[KILN_VTA_AXES]; /* the same of all virtual threads together */
    double threads;
} part;

static part part_of(const kiln_vta_tiling *t, const tile_row *r) {
    part p = {.threads = (double)r->column[KILN_VTA_THREADS]};
    for (int x = 0; x < KILN_VTA_AXES; x++)
        p.of[x] = p.side[x] = (double)r->column[KILN_VTA_TILES + x];
    if (p.threads > 1) p.side[kiln_vta_beside(t)] *= p.threads;
    return p;
}

/* ---- what is moved --------------------------------------------------------------------------- */

/* The part in main memory of a block of the operand, which has so many tiles along each axis.
 * Contiguous tiles are one transfer unless the zeros around them are not in main memory. */
static kiln_core_block block_of(const kiln_vta_tiling *t, const kiln_vta_operand *o,
                                const double tiles[KILN_VTA_AXES]) {
    const kiln_block_info *b = &t->s->program->block.data[t->sums];
    const kiln_shape *shape = &t->s->program->buffer.data[o->buffer].shape;
    kiln_core_block block = KILN_CORE_BLOCK;
    const bool padded = o == &t->data && kiln_vta_padding_of(t);
    for (uint32_t d = o->rank; d-- > 0;) {
        double reach = 1, all = (double)shape->dim[d];
        for (int i = 0; i < (int)b->iter_count; i++) {
            double size = b->iter[i].reduce ? (double)b->iter[i].extent : 1;
            bool in_tiles = false;
            for (int x = 0; x < KILN_VTA_AXES; x++)
                if (t->iter[x] == i) {
                    size = tiles[x];
                    in_tiles = x == KILN_VTA_AXIS_OUT || x == KILN_VTA_AXIS_IN;
                }
            if (in_tiles && o->coefficient[d][i])
                all = (double)kiln_vta_tiles(t, i == t->iter[KILN_VTA_AXIS_OUT] ? KILN_VTA_AXIS_OUT
                                                                                : KILN_VTA_AXIS_IN);
            reach += (double)o->coefficient[d][i] * (size - 1);
        }
        kiln_core_block_add(&block, reach, padded ? INFINITY : all);
    }
    return block;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool stays(const kiln_vta_tiling *t, bool data) {
    const bool inside = t->options & KILN_VTA_OUT_INSIDE;
    return (t->options & KILN_VTA_STAYS) && data == inside;
}

/* A block of the operand: of a step, or all of an operand that stays. */
static kiln_core_block loaded(const kiln_vta_tiling *t, const part *p, bool data) {
    double tiles[KILN_VTA_AXES];
    memcpy(tiles, stays(t, data) ? p->side : p->of, sizeof tiles);
    if (stays(t, data)) tiles[KILN_VTA_AXIS_IN] = (double)kiln_vta_tiles(t, KILN_VTA_AXIS_IN);
    return block_of(t, data ? &t->data : &t->weights, tiles);
}

/* Virtual threads that have separate blocks. */
static double owners(const kiln_vta_tiling *t, const tile_row *r, bool data) {
    const bool along_out = kiln_vta_beside(t) == KILN_VTA_AXIS_OUT;
    return stays(t, data) || data == along_out ? 1 : (double)r->column[KILN_VTA_THREADS];
}

/* Steps of sums that use one tile of weights, except those along IN. */
static double taps(const kiln_vta_tiling *t) {
    const kiln_block_info *b = &t->s->program->block.data[t->sums];
    double count = 1;
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->iter[KILN_VTA_AXIS_IN]) count *= (double)b->iter[i].extent;
    return count;
}

static double vectors_of(const part *p) {
    double vectors = 1;
    for (int x = 0; x < KILN_VTA_PART_AXES; x++) vectors *= p->of[x];
    return vectors;
}

/* Whether at least as many other sums as the pipeline is long are between two uses of one. */
static bool keeps_distance(const kiln_vta_tiling *t, const part *p) {
    const double steps = p->of[KILN_VTA_AXIS_IN] * taps(t);
    return steps == 1 || vectors_of(p) >= t->machine->pipeline;
}

/* Accumulators of schedules. If the ALU is an engine, streams reserve one (vta/emit.h). */
static uint32_t accumulators_of(const kiln_vta_config *machine) {
    return kiln_vta_tile_count(machine, KILN_VTA_ACC) -
           kiln_vta_config_has(machine, KILN_VTA_ENGINE);
}

/* An ALU that is an engine waits for GEMM in the same quarter of the accumulators, which neither
 * the model here nor csim counts. So results in turn have separate quarters, and the bias, too;
 * virtual threads, whose results are contiguous, have at least a quarter each, and do not come in
 * turn. Addends of results are in the results' quarters anyway. */
static bool has_quarters(const kiln_vta_tiling *t, const tile_row *r, const part *p, double bias) {
    const double all = kiln_vta_tile_count(t->machine, KILN_VTA_ACC), quarter = all / 4;
    const double stages = (double)r->column[KILN_VTA_STAGES], results = vectors_of(p);
    if (!kiln_vta_config_has(t->machine, KILN_VTA_ENGINE) || t->addends > 0) return true;
    if (p->threads > 1) return stages == 1 && results >= quarter;
    return stages == 1 ||
           ceil(bias / quarter) * quarter + (stages - 1) * fmax(results, quarter) + results < all;
}

static bool fits(const kiln_vta_tiling *t, const tile_row *r) {
    const part p = part_of(t, r);
    const double stages = (double)r->column[KILN_VTA_STAGES];
    const double bias = t->has_bias ? (double)kiln_vta_bias_tiles(t) : 0;
    const double results = stages * p.threads * vectors_of(&p), unit_matrices = t->products;
    return keeps_distance(t, &p) && has_quarters(t, r, &p, bias) &&
           stages * owners(t, r, true) * loaded(t, &p, true).elements + results * t->products <=
               kiln_vta_tile_count(t->machine, KILN_VTA_INP) &&
           stages * owners(t, r, false) * loaded(t, &p, false).elements + unit_matrices <=
               kiln_vta_tile_count(t->machine, KILN_VTA_WGT) &&
           results * (1 + t->addends) + bias <= accumulators_of(t->machine);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Number of parts of all virtual threads, along one axis and in all. */
static double parts_along(const kiln_vta_tiling *t, const part *p, kiln_vta_axis x) {
    return (double)kiln_vta_tiles(t, x) / p->of[x];
}
static double parts_of(const kiln_vta_tiling *t, const part *p) {
    const kiln_block_info *b = &t->s->program->block.data[t->sums];
    double count = 1;
    for (int x = 0; x < KILN_VTA_PART_AXES; x++) count *= parts_along(t, p, (kiln_vta_axis)x);
    for (int i = 0; i < (int)b->iter_count; i++)
        if (!b->iter[i].reduce && i != t->iter[KILN_VTA_AXIS_OUT] &&
            i != t->iter[KILN_VTA_AXIS_ROW] && i != t->iter[KILN_VTA_AXIS_COLUMN])
            count *= (double)b->iter[i].extent / (i == t->batch ? (double)t->machine->batch : 1);
    return count;
}

/* How many times blocks of the operand are loaded. */
static double loads_of(const kiln_vta_tiling *t, const tile_row *r, const part *p, bool data) {
    const double parts = parts_of(t, p);
    if (!stays(t, data))
        return parts / p->threads * owners(t, r, data) *
               (double)kiln_vta_tiles(t, KILN_VTA_AXIS_IN) / p->of[KILN_VTA_AXIS_IN];
    if (!data)
        return parts_along(t, p, KILN_VTA_AXIS_OUT) * p->of[KILN_VTA_AXIS_OUT] /
               p->side[KILN_VTA_AXIS_OUT];
    return parts / p->threads / parts_along(t, p, KILN_VTA_AXIS_OUT) * p->side[KILN_VTA_AXIS_OUT] /
           p->of[KILN_VTA_AXIS_OUT];
}

/* The stores of a part, or the loads of an addend. */
static kiln_core_block results_of(const kiln_vta_tiling *t, const part *p) {
    kiln_core_block block = KILN_CORE_BLOCK;
    for (int x = KILN_VTA_AXIS_COLUMN; x >= KILN_VTA_AXIS_OUT; x--)
        kiln_core_block_add(&block, p->of[x], (double)kiln_vta_tiles(t, (kiln_vta_axis)x));
    return block;
}

static void add_copies(const kiln_vta_tiling *t, const kiln_core_block *block, double blocks,
                       kiln_vta_memory memory, kiln_core_copies *to) {
    to->blocks += blocks;
    to->calls += blocks * block->calls;
    to->rows += blocks * block->rows;
    to->bytes += blocks * block->elements * kiln_vta_tile_bytes(t->machine, memory);
}

/* Words of a bias are loaded once; addends of each result with each part. */
static void add_addends(const kiln_vta_tiling *t, const kiln_core_block *results, double parts,
                        kiln_core_work *w) {
    kiln_core_block bias = KILN_CORE_BLOCK;
    kiln_core_block_add(&bias, (double)kiln_vta_bias_tiles(t), 1);
    if (t->has_bias) add_copies(t, &bias, 1, KILN_VTA_ACC, &w->acc);
    if (t->addends)
        add_copies(t, results, t->addends * parts, t->products ? KILN_VTA_INP : KILN_VTA_ACC_BYTES,
                   t->products ? &w->inp : &w->acc);
}

/* Micro-ops of the GEMM of a step. */
static double uops_of(const kiln_vta_tiling *t, const part *p) {
    const kiln_block_info *b = &t->s->program->block.data[t->sums];
    double extent[KILN_VTA_AXES + KILN_BLOCK_ITERS_MAX];
    uint32_t count = 0;
    for (int x = 0; x < KILN_VTA_AXES; x++) extent[count++] = p->of[x];
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->iter[KILN_VTA_AXIS_IN])
            extent[count++] = (double)b->iter[i].extent;
    return kiln_core_uops(extent, count);
}

/* Slots that blocks of the operand take in turn or at once. An operand that is loaded once needs no
 * second one; one that virtual threads share has a slot for each of them in turn, if there is
 * room. */
static double turns_of(const kiln_vta_tiling *t, const tile_row *r, const part *p, bool data,
                       double loads) {
    const double own = (double)r->column[KILN_VTA_STAGES] * owners(t, r, data);
    const double room = kiln_vta_tile_count(t->machine, data ? KILN_VTA_INP : KILN_VTA_WGT);
    const double shared = stays(t, data) || owners(t, r, data) > 1 ? 1 : p->threads;
    if (loads <= owners(t, r, data)) return INFINITY;
    return own * fmin(shared, floor(room / (own * loaded(t, p, data).elements)));
}

static double cycles_of(const kiln_vta_tiling *t, const tile_row *r) {
    const part p = part_of(t, r);
    const double parts = parts_of(t, &p), vectors = vectors_of(&p) * parts;
    const double steps = (double)kiln_vta_tiles(t, KILN_VTA_AXIS_IN) / p.of[KILN_VTA_AXIS_IN];
    const kiln_core_block data = loaded(t, &p, true), weights = loaded(t, &p, false),
                          results = results_of(t, &p);
    const double stages = (double)r->column[KILN_VTA_STAGES], products = 1 + t->products;
    const double data_loads = loads_of(t, r, &p, true), weight_loads = loads_of(t, r, &p, false);
    const double data_places = turns_of(t, r, &p, true, data_loads),
                 weight_places = turns_of(t, r, &p, false, weight_loads);
    const double load_places = fmin(data_places, weight_places);
    kiln_core_work w = {
        .gemm_tiles =
            vectors * ((double)kiln_vta_tiles(t, KILN_VTA_AXIS_IN) * taps(t) + t->products),
        .gemm_calls = parts * (steps + t->products),
        .gemm_uops = uops_of(t, &p),
        .reset_tiles = vectors * products,
        .reset_calls = parts * products,
        .alu_tiles = vectors,
        .alu_calls = parts,
        .alu_operations = t->operations,
        .threads = p.threads,
        .load_places = isinf(load_places) ? 2 : load_places,
        .result_places = parts > p.threads ? stages * p.threads : 2 * p.threads,
    };
    add_copies(t, &data, data_loads, KILN_VTA_INP, &w.inp);
    add_copies(t, &weights, weight_loads, KILN_VTA_WGT, &w.wgt);
    add_copies(t, &results, parts, KILN_VTA_OUT, &w.out);
    add_addends(t, &results, parts, &w);
    return kiln_core_time_of(t->machine, &w).cycles;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Whether parts along OUT first are in another order than parts along positions first. */
static bool order_matters(const kiln_vta_tiling *t, const tile_row *r) {
    const part p = part_of(t, r);
    const double out = parts_along(t, &p, KILN_VTA_AXIS_OUT), positions = parts_of(t, &p) / out;
    const bool along_out = kiln_vta_beside(t) == KILN_VTA_AXIS_OUT;
    return out > (along_out ? p.threads : 1) && positions > (along_out ? 1 : p.threads);
}

/* Whether the options without OUT_INSIDE give the same schedule of the row. */
static bool comes_again(const kiln_vta_tiling *t, const tile_row *r) {
    return (t->options & KILN_VTA_OUT_INSIDE) && !(t->options & KILN_VTA_STAYS) &&
           !order_matters(t, r);
}

/* Keeps the best rows of each number of stages, so that a search can compare them. */
static void add_row(const kiln_vta_tiling *t, tile_table *table, tile_row *r) {
    uint32_t at = 0, same = 0;
    if (comes_again(t, r) || !fits(t, r)) return;
    r->cycles = cycles_of(t, r);
    for (uint32_t i = 0; i < table->count; i++)
        same += table->row[i].column[KILN_VTA_STAGES] == r->column[KILN_VTA_STAGES];
    const uint32_t most = KILN_VTA_ROWS_MAX / KILN_ARRAY_COUNT(stages_worth);
    if (same >= most) { /* replaces the worst of its number of stages */
        uint32_t worst = table->count;
        while (table->row[worst - 1].column[KILN_VTA_STAGES] != r->column[KILN_VTA_STAGES]) worst--;
        if (table->row[worst - 1].cycles <= r->cycles) return;
        memmove(&table->row[worst - 1], &table->row[worst],
                (table->count - worst) * sizeof *table->row);
        table->count--;
    }
    while (at < table->count && table->row[at].cycles <= r->cycles) at++;
    memmove(&table->row[at + 1], &table->row[at], (table->count - at) * sizeof *table->row);
    table->row[at] = *r;
    table->count++;
}

/* The tiles with each number of virtual threads that the options allow, and of stages. */
static void add_threads(const kiln_vta_tiling *t, tile_table *table, tile_row *r) {
    const kiln_vta_axis x = kiln_vta_beside(t);
    const bool beside = x != KILN_VTA_AXES;
    const int64_t parts = beside ? kiln_vta_tiles(t, x) / r->column[KILN_VTA_TILES + x] : 1;
    for (size_t k = 0; k < KILN_ARRAY_COUNT(threads_worth); k++) {
        r->column[KILN_VTA_THREADS] = threads_worth[k];
        if ((threads_worth[k] > 1) != beside || parts % threads_worth[k] != 0) continue;
        for (size_t s = 0; s < KILN_ARRAY_COUNT(stages_worth); s++) {
            r->column[KILN_VTA_STAGES] = stages_worth[s];
            add_row(t, table, r);
        }
    }
}

/* All tiles that divide the axes from `x` on. */
static void add_tiles(const kiln_vta_tiling *t, tile_table *table, tile_row *r, int x) {
    if (x == KILN_VTA_AXES) {
        add_threads(t, table, r);
        return;
    }
    const int64_t all = kiln_vta_tiles(t, (kiln_vta_axis)x);
    for (int64_t tiles = 1; tiles <= all; tiles++) {
        if (all % tiles != 0) continue;
        r->column[KILN_VTA_TILES + x] = tiles;
        add_tiles(t, table, r, x + 1);
    }
}

double kiln_vta_choose_tile(kiln_vta_tiling *t) {
    tile_table *table = KILN_ARENA_NEW(t->s->arena, tile_table);
    tile_row r = {{0}, 0};
    add_tiles(t, table, &r, 0);
    if (table->count == 0) return 0;
    int64_t *value = KILN_ARENA_ARRAY(t->s->arena, int64_t, table->count *KILN_VTA_TILE_COLUMNS);
    for (uint32_t i = 0; i < table->count; i++)
        memcpy(&value[i * KILN_VTA_TILE_COLUMNS], table->row[i].column, sizeof r.column);
    t->tile = kiln_sched_choice(t->s, KILN_VTA_TILE_COLUMNS, value, table->count, 0);
    return table->row[0].cycles;
}
