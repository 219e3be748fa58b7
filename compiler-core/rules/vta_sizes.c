/* Tiles that fit into an accelerator's memories, and how long a nest of them takes, about: the most
 * of what its engines and its memory port do, or one after the other where nothing has a second
 * place to be in. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/rules/vta.h"

#define CHANNEL_BURST_BEATS 256.0 /* vta/csim.h: a longer row is several requests */
#define ALU_PIPELINE 4.0          /* the same */
#define TAKE_CYCLES 2.0           /* the same: an instruction is taken, and begins in the next */
#define CHAIN_MAX 4               /* operations in a pass (base/vta_features.def) */
#define INSTRUCTION_BYTES 16.0

static const int64_t threads_worth[] = {1, 2, 4};
static const int64_t stages_worth[] = {1, 2, 4};

typedef struct tile_row {
    int64_t column[KILN_VTA_TILE_COLUMNS];
    double cycles;
} tile_row;

/* Best first. */
typedef struct tile_table {
    uint32_t count;
    tile_row row[KILN_VTA_ROWS_MAX];
} tile_table;

/* What a part of a row is made of. */
typedef struct part {
    double of[KILN_VTA_AXES];   /* tiles along the axes: of a step along IN */
    double side[KILN_VTA_AXES]; /* the same of all virtual threads together */
    double threads;
} part;

static part part_of(const tile_row *r) {
    part p = {.threads = 1};
    for (int x = 0; x < KILN_VTA_AXES; x++)
        p.of[x] = p.side[x] = (double)r->column[KILN_VTA_TILES + x];
    for (int x = 0; x < KILN_VTA_PART_AXES; x++) {
        p.side[x] *= (double)r->column[KILN_VTA_THREADS + x];
        p.threads *= (double)r->column[KILN_VTA_THREADS + x];
    }
    return p;
}

/* ---- what is moved --------------------------------------------------------------------------- */

typedef struct moved {
    double tiles, rows, bytes; /* rows lie apart in main memory */
} moved;

/* What lies in main memory of a block of the operand, which is so many tiles along each axis.
 * Neighbours in memory go together unless zeros around them do not lie there. */
static moved block_of(const kiln_vta_tiling *t, const kiln_vta_operand *o,
                      const double tiles[KILN_VTA_AXES], kiln_vta_memory memory) {
    const kiln_block_info *b = &t->s->program->block.data[t->sums];
    const kiln_shape *shape = &t->s->program->buffer.data[o->buffer].shape;
    moved m = {1, 1, 0};
    double run = 1;
    bool whole = true;
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
        m.tiles *= reach;
        if (whole)
            run *= reach;
        else
            m.rows *= reach;
        whole = whole && reach >= all;
    }
    m.bytes = m.tiles * kiln_vta_tile_bytes(t->machine, memory);
    return m;
}

/* Cycles of a memory channel. */
static double channel_cycles(const kiln_vta_tiling *t, const moved *m) {
    const kiln_vta_config *c = t->machine;
    const double beats = ceil(m->bytes / m->rows * 8 / c->bus_bits);
    return m->rows * (ceil(beats / CHANNEL_BURST_BEATS) * c->row_cycles + beats);
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool stays(const kiln_vta_tiling *t, bool data) {
    const bool inside = t->options & KILN_VTA_OUT_INSIDE;
    return (t->options & KILN_VTA_STAYS) && data == inside;
}

/* A block of the operand: of a step, or all that stays. */
static moved loaded(const kiln_vta_tiling *t, const part *p, bool data) {
    double tiles[KILN_VTA_AXES];
    memcpy(tiles, stays(t, data) ? p->side : p->of, sizeof tiles);
    if (stays(t, data)) tiles[KILN_VTA_AXIS_IN] = (double)kiln_vta_tiles(t, KILN_VTA_AXIS_IN);
    return block_of(t, data ? &t->data : &t->weights, tiles, data ? KILN_VTA_INP : KILN_VTA_WGT);
}

/* Virtual threads that have blocks of their own. */
static double owners(const kiln_vta_tiling *t, const tile_row *r, bool data) {
    const int64_t *threads = &r->column[KILN_VTA_THREADS];
    if (stays(t, data)) return 1;
    return (double)(data ? threads[KILN_VTA_AXIS_ROW] * threads[KILN_VTA_AXIS_COLUMN]
                         : threads[KILN_VTA_AXIS_OUT]);
}

static double vectors_of(const part *p) {
    double vectors = 1;
    for (int x = 0; x < KILN_VTA_PART_AXES; x++) vectors *= p->of[x];
    return vectors;
}

static bool fits(const kiln_vta_tiling *t, const tile_row *r) {
    const part p = part_of(r);
    const double stages = (double)r->column[KILN_VTA_STAGES];
    const double bias = t->has_bias ? (double)kiln_vta_tiles(t, KILN_VTA_AXIS_OUT) : 0;
    const double results = stages * p.threads * vectors_of(&p), unit_matrices = t->products;
    return stages * owners(t, r, true) * loaded(t, &p, true).tiles + results * t->products <=
               kiln_vta_tile_count(t->machine, KILN_VTA_INP) &&
           stages * owners(t, r, false) * loaded(t, &p, false).tiles + unit_matrices <=
               kiln_vta_tile_count(t->machine, KILN_VTA_WGT) &&
           results * (1 + t->addends) + bias <= kiln_vta_tile_count(t->machine, KILN_VTA_ACC);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Steps of sums that one tile of weights takes part in, but for those along IN. */
static double taps(const kiln_vta_tiling *t) {
    const kiln_block_info *b = &t->s->program->block.data[t->sums];
    double count = 1;
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->iter[KILN_VTA_AXIS_IN]) count *= (double)b->iter[i].extent;
    return count;
}

/* Parts of all virtual threads, along one axis and in all. */
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

/* The stores of a part, or what is loaded of an addend: rows of the result. */
static moved results_of(const kiln_vta_tiling *t, const part *p) {
    moved m = {vectors_of(p), p->of[KILN_VTA_AXIS_OUT], 0};
    if (parts_along(t, p, KILN_VTA_AXIS_COLUMN) > 1) m.rows *= p->of[KILN_VTA_AXIS_ROW];
    m.bytes = m.tiles * kiln_vta_tile_bytes(t->machine, KILN_VTA_OUT);
    return m;
}

static double cycles_of(const kiln_vta_tiling *t, const tile_row *r) {
    const kiln_vta_config *c = t->machine;
    const part p = part_of(r);
    const double parts = parts_of(t, &p), vectors = vectors_of(&p);
    const double steps = (double)kiln_vta_tiles(t, KILN_VTA_AXIS_IN) / p.of[KILN_VTA_AXIS_IN];
    const double passes = ceil((double)c->batch * c->block_out / c->alu_lanes) * c->alu_cycles;
    const bool chains = kiln_vta_config_has(c, KILN_VTA_CHAIN);
    const double alu_instructions = t->operations;
    const double alu_passes =
        chains ? ceil((double)t->operations / CHAIN_MAX) : (double)t->operations;
    const double drain = TAKE_CYCLES + c->pipeline;
    const double step = vectors * p.of[KILN_VTA_AXIS_IN] * taps(t) + drain;
    const double reset =
        (1 + t->products) * (kiln_vta_config_has(c, KILN_VTA_FIRST) ? 0 : vectors + drain) +
        t->products * (vectors + drain);
    const double alu =
        alu_passes * (vectors * passes + ALU_PIPELINE) + alu_instructions * TAKE_CYCLES;
    const moved data = loaded(t, &p, true), weights = loaded(t, &p, false),
                store = results_of(t, &p);
    const double data_loads = loads_of(t, r, &p, true), weight_loads = loads_of(t, r, &p, false);
    const double load =
        data_loads * channel_cycles(t, &data) + weight_loads * channel_cycles(t, &weights);
    const double storing = parts * channel_cycles(t, &store);
    const double instructions =
        data_loads + weight_loads + parts * (steps + 1 + alu_instructions + 1);
    const double fetch = instructions * INSTRUCTION_BYTES * 8 / c->bus_bits;
    const double port = c->channels > 1 ? fmax(load, storing) : load + storing + fetch;
    const double gemm = parts * (steps * step + reset), epilogue = parts * alu;
    const bool engine = kiln_vta_config_has(c, KILN_VTA_ENGINE);
    const double first = channel_cycles(t, &data) + channel_cycles(t, &weights) + c->latency;
    const double last = alu + channel_cycles(t, &store) + c->latency;
    const bool hides_loads =
        r->column[KILN_VTA_STAGES] > 1 || (owners(t, r, true) > 1 && owners(t, r, false) > 1);
    const bool hides_stores = r->column[KILN_VTA_STAGES] > 1 || p.threads > 1;
    const double work = engine && hides_stores ? fmax(gemm, epilogue) : gemm + epilogue;
    const double waits = (data_loads + weight_loads) * c->latency;
    if (hides_loads) return fmax(port, work + (hides_stores ? 0 : storing)) + first + last;
    return load + waits + work + (hides_stores ? 0 : storing) + parts * c->latency;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Keeps the best rows of each number of stages, so that a search sees what overlap brings. */
static void add_row(const kiln_vta_tiling *t, tile_table *table, tile_row *r) {
    uint32_t at = 0, same = 0;
    if (!fits(t, r)) return;
    r->cycles = cycles_of(t, r);
    for (uint32_t i = 0; i < table->count; i++)
        same += table->row[i].column[KILN_VTA_STAGES] == r->column[KILN_VTA_STAGES];
    const uint32_t most = KILN_VTA_ROWS_MAX / KILN_ARRAY_COUNT(stages_worth);
    if (same >= most) { /* in place of the worst of its kind */
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

/* One kind of virtual threads, or parts in turn. */
static void add_threads(const kiln_vta_tiling *t, tile_table *table, tile_row *r) {
    const bool beside = t->options & KILN_VTA_SIDE_BY_SIDE;
    for (int x = 0; x < (beside ? KILN_VTA_PART_AXES : 1); x++)
        for (size_t k = 0; k < KILN_ARRAY_COUNT(threads_worth); k++) {
            const int64_t threads = threads_worth[k];
            const int64_t parts =
                kiln_vta_tiles(t, (kiln_vta_axis)x) / r->column[KILN_VTA_TILES + x];
            if ((threads > 1) != beside || parts % threads != 0) continue;
            for (int y = 0; y < KILN_VTA_PART_AXES; y++)
                r->column[KILN_VTA_THREADS + y] = y == x ? threads : 1;
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
