/* The order of tiles and how many of them a group makes: that few different elements are read at
 * once, and that turns divide the tiles. */
#include "compiler-core/rules/gpu.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/lower/support.h"

/* Tiles of `rows` x `columns` elements on a device with so many units. */
static kiln_gpu_tiling tiling(int64_t rows, int64_t columns, int64_t units) {
    return (kiln_gpu_tiling){.limits = {.units = units},
                             .tiled = 2,
                             .row_count = 1,
                             .row = {{.threads = {2, 4}, .points = {rows / 2, columns / 4}}}};
}

/* What the groups that run at once read, counted tile by tile. */
static int64_t count_read(const kiln_gpu_tiling *t, int64_t rows, int64_t columns, int64_t turn) {
    bool row[64] = {false}, column[64] = {false};
    int64_t read = 0;
    for (int64_t i = 0; i < KILN_MIN(t->limits.units, rows * columns); i++) {
        row[i / (turn * columns) * turn + i % turn] = true;
        column[i / turn % columns] = true;
    }
    for (int i = 0; i < 64; i++) {
        if (row[i]) read += t->row[0].threads[0] * t->row[0].points[0];
        if (column[i]) read += t->row[0].threads[1] * t->row[0].points[1];
    }
    return read;
}

static void groups_at_once_read_the_fewest_elements(void **state) {
    static const int64_t grid[][2] = {{32, 16}, {16, 32}, {24, 8}, {8, 8}, {1, 64}, {64, 1}};
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(grid); i++) {
        const kiln_gpu_tiling t = tiling(128, 256, 132);
        const int64_t rows = grid[i][0], columns = grid[i][1];
        const int64_t found = kiln_gpu_order_rows(&t, rows, columns);
        assert_int_equal(rows % found, 0);
        for (int64_t n = 1; n <= KILN_MIN(rows, 16); n++)
            if (rows % n == 0)
                assert_true(count_read(&t, rows, columns, found) <=
                            count_read(&t, rows, columns, n));
    }
    const kiln_gpu_tiling t = tiling(128, 256, 132);
    assert_int_equal(kiln_gpu_order_rows(&t, 32, 16), 16);
}

static void turns_divide_the_tiles(void **state) {
    (void)state;
    assert_int_equal(kiln_gpu_least_turns(512, 132), 4);
    assert_int_equal(kiln_gpu_least_turns(100, 132), 1);
    assert_int_equal(kiln_gpu_least_turns(136, 132), 2);
    assert_int_equal(kiln_gpu_least_turns(397, 132), 1);  /* a prime */
    assert_int_equal(kiln_gpu_least_turns(4096, 132), 1); /* 32 turns */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_at_once_read_the_fewest_elements),
        cmocka_unit_test(turns_divide_the_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
