/* The order in which groups compute the tiles of a result, and the number of tiles per group. */
#include "base/macros.h"
#include "compiler-core/rules/gpu.h"

#define ORDER_MAX 16 /* rows of tiles computed before the next column of them */
#define TURNS_MAX 16 /* tiles that a group makes */

static int64_t parts_of(int64_t all, int64_t size) { return (all + size - 1) / size; }

/* Elements along the rows, or the columns, of the preferred tile. */
static int64_t reach_of(const kiln_gpu_tiling *t, uint32_t from, uint32_t to) {
    const kiln_gpu_tile *tile = &t->row[t->preferred];
    int64_t size = 1;
    for (uint32_t n = from; n < to; n++) size *= tile->threads[n] * tile->points[n];
    return size;
}

int64_t kiln_gpu_order_rows(const kiln_gpu_tiling *t, int64_t rows, int64_t columns) {
    const int64_t high = reach_of(t, 0, 1), wide = reach_of(t, 1, t->tiled),
                  units = t->limits.units;
    int64_t best = 1, least = 0;
    for (int64_t n = 1; n <= KILN_MIN(ORDER_MAX, rows); n++) {
        if (rows % n != 0) continue;
        const int64_t across = KILN_MIN(parts_of(units, n), columns),
                      down = KILN_MIN(n * parts_of(units, n * across), rows),
                      read = down * high + across * wide;
        if (n == 1 || read < least) least = read, best = n;
    }
    return best;
}

kiln_sched_loops kiln_gpu_order_grid(kiln_gpu_tiling *t, const kiln_sched_loops *grid,
                                     uint32_t row) {
    kiln_sched *s = t->s;
    const int64_t rows = kiln_sched_extent(s, grid->loop[row]);
    int64_t columns = 1;
    for (uint32_t i = row + 1; i < grid->count; i++) columns *= kiln_sched_extent(s, grid->loop[i]);
    const int64_t turn = kiln_gpu_order_rows(t, rows, columns), preferred[] = {rows / turn, turn};
    const kiln_sched_sample turns =
        kiln_sched_perfect_tile(s, grid->loop[row], 2, ORDER_MAX, preferred);
    const kiln_sched_loops part = kiln_sched_split(
        s, grid->loop[row],
        KILN_SCHED_INTS(kiln_sched_element(turns, 0), kiln_sched_element(turns, 1)));
    kiln_sched_loops order = {0};
    for (uint32_t i = 0; i < grid->count; i++)
        kiln_sched_loops_add(&order, i == row ? part.loop[0] : grid->loop[i]);
    kiln_sched_loops_add(&order, part.loop[1]);
    return order;
}

int64_t kiln_gpu_least_turns(int64_t tiles, int64_t groups) {
    const int64_t turns = parts_of(tiles, groups);
    return turns <= TURNS_MAX && tiles % turns == 0 ? turns : 1;
}

bool kiln_gpu_bind_grid(kiln_gpu_tiling *t, kiln_sched_loop grid, int64_t turns,
                        kiln_sched_loop *out) {
    kiln_sched *s = t->s;
    const int64_t preferred[] = {kiln_sched_extent(s, grid) / turns, turns};
    const kiln_sched_sample drawn = kiln_sched_perfect_tile(s, grid, 2, TURNS_MAX, preferred);
    const kiln_sched_loops part = kiln_sched_split(
        s, grid, KILN_SCHED_INTS(kiln_sched_element(drawn, 1), kiln_sched_element(drawn, 0)));
    const kiln_sched_loops order = {2, {part.loop[1], part.loop[0]}};
    *out = part.loop[0];
    return kiln_sched_reorder(kiln_sched_try(s), &order) &&
           kiln_sched_bind(kiln_sched_try(s), part.loop[1], KILN_AXIS_BLOCK_X);
}
