#include "compiler-core/rules/foreign.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
#include "compiler-core/facts/pattern.h"
#include "compiler-core/sched/replay.h"

/* ---- which task it is ---- */

/* Copies the extents above one; false: there are more than `KILN_FOREIGN_RANK`. */
static bool take_extents(const int64_t *extent, uint32_t count, int64_t *out, uint32_t *out_count) {
    *out_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (extent[i] == 1) continue;
        if (*out_count == KILN_FOREIGN_RANK) return false;
        out[(*out_count)++] = extent[i];
    }
    return true;
}

static bool are_extents(const int64_t *wanted, uint32_t wanted_count, const int64_t *extent,
                        uint32_t count) {
    int64_t left[KILN_FOREIGN_RANK], right[KILN_FOREIGN_RANK];
    uint32_t lefts, rights;
    if (!take_extents(wanted, wanted_count, left, &lefts) ||
        !take_extents(extent, count, right, &rights) || lefts != rights)
        return false;
    for (uint32_t i = 0; i < lefts; i++)
        if (left[i] != right[i]) return false;
    return true;
}

static bool is_data(const kiln_foreign_work *work, const kiln_shape *shape) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < work->data_count; i++) {
        const kiln_foreign_extent wanted = work->data[i];
        while (at < shape->rank && shape->dim[at] == 1 && wanted.extent > 1) at++;
        if (at < shape->rank && shape->dim[at] >= wanted.extent &&
            shape->dim[at] - wanted.extent < wanted.slack)
            at++;
        else if (wanted.extent > 1)
            return false;
    }
    while (at < shape->rank && shape->dim[at] == 1) at++;
    return at == shape->rank;
}

static bool is_product(const kiln_foreign_work *work, const kiln_program *te,
                       const kiln_pattern *pattern) {
    int64_t reduce[KILN_BLOCK_ITERS_MAX];
    uint32_t reduces = 0;
    const kiln_buffer_info *result = &te->buffer.data[pattern->to.buffer],
                           *data = &te->buffer.data[pattern->from[0].buffer];
    if (result->dtype != KILN_F32 || data->dtype != KILN_F32) return false;
    for (uint32_t i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (pattern->reduce >> i & 1)
            reduce[reduces++] = te->block.data[pattern->block].iter[i].extent;
    return are_extents(work->result, work->result_count, result->shape.dim, result->shape.rank) &&
           are_extents(work->reduce, work->reduce_count, reduce, reduces) &&
           is_data(work, &data->shape);
}

bool kiln_foreign_is(const kiln_foreign_work *work, kiln_program *te) {
    kiln_pattern pattern;
    uint32_t products = 0, found = 0;
    for (kiln_block block = 1; block < te->block.count; block++) {
        if (!kiln_pattern_of(te, block, &pattern) || !pattern.multiplies) continue;
        products++;
        found += is_product(work, te, &pattern);
    }
    return products == 1 && found == 1;
}

/* ---- the nearest schedule ---- */

/* Columns of the rule's tables (rule_tile.c): sizes of the tile, and steps of the reduction. */
enum { TILE_ROWS, TILE_COLUMNS, TILE_VECTORS, TILE_WIDTH };

static uint32_t width_of(const kiln_instruction *in) {
    return in->operand_count ? (uint32_t)in->operand[0].factor[0].value : 0;
}

/* The next table of at least so many columns as a tile has, from instruction `*at` on; NULL: none.
 */
static kiln_instruction *next_table(kiln_trace *trace, uint32_t *at) {
    while (*at < trace->count) {
        kiln_instruction *in = &trace->instruction[(*at)++];
        if (in->prim == KILN_PRIM_CHOICE && width_of(in) >= TILE_WIDTH) return in;
    }
    return NULL;
}

/* Decides for the first of the rows that are nearest to `wanted` in its columns above 0. */
static void choose_row(kiln_instruction *in, const int64_t *wanted, uint32_t columns) {
    const uint32_t width = width_of(in), rows = (in->operand_count - 1) / width;
    double least = INFINITY;
    for (uint32_t row = 0; row < rows; row++) {
        double distance = 0;
        for (uint32_t i = 0; i < columns; i++) {
            const int64_t value = in->operand[1 + row * width + i].factor[0].value;
            if (wanted[i] > 0)
                distance += fabs(log2((double)KILN_MAX(value, 1) / (double)wanted[i]));
        }
        if (distance >= least - 1e-9) continue;
        least = distance;
        in->decision[0] = row;
    }
}

/* The first direct sketch of the rule "tile" for processors, which makes the one without options
 * first; rules for other targets have tables of other columns. NULL: none. */
static const kiln_sketch *direct_sketch(const kiln_space *space) {
    const kiln_target_kind kind = space->target->kind;
    if ((kind != KILN_TARGET_CPU && kind != KILN_TARGET_MICRO) || strcmp(space->rule, "tile") != 0)
        return NULL;
    for (uint32_t i = 0; i < space->sketch_count; i++)
        if (kiln_trace_algorithm(&space->sketch[i].open) == KILN_ALGORITHM_DIRECT)
            return &space->sketch[i];
    return NULL;
}

kiln_status kiln_foreign_adopt(const kiln_space *space, const kiln_foreign_tile *tile,
                               kiln_arena *arena, kiln_trace *out_trace) {
    const kiln_sketch *sketch = direct_sketch(space);
    kiln_trace trace = {0};
    uint32_t at = 0;
    if (sketch) trace = kiln_trace_copy(&sketch->preferred, arena);
    kiln_instruction *sizes = next_table(&trace, &at), *steps = next_table(&trace, &at);
    if (!sizes)
        return KILN_ERROR(UNIMPLEMENTED, "%.*s has no direct schedule in tiles of registers",
                          KILN_STR_ARG(space->te->name));
    const int64_t lanes = KILN_MAX(space->target->vector_bytes / (int64_t)sizeof(float), 1);
    const int64_t wanted[TILE_WIDTH] = {tile->rows, tile->columns,
                                        tile->lanes ? KILN_MAX(tile->lanes / lanes, 1) : 0};
    choose_row(sizes, wanted, TILE_WIDTH);
    if (steps) choose_row(steps, &tile->steps, 1);
    kiln_program *program = NULL;
    kiln_rand rand; /* draws nothing: every decision is made */
    kiln_rand_init(&rand, 0);
    return kiln_trace_replay_snapping(&trace, space->te, &rand, arena, &program, out_trace);
}
