/* Matrices out of points. */
#include "compiler-core/algorithm/winograd.h"

#include <math.h>

#include "base/macros.h"
#include "tests/support/test.h"

static const double four[] = {0, 1, -1}, six[] = {0, 0.625, -0.625, 1.5, -1.5},
                    eight[] = {0, 0.5, -0.5, 1, -1, 2, -2};

static const struct {
    int64_t outputs, taps, stride;
    const double *point;
} made[] = {{2, 3, 1, four}, {4, 3, 1, six},  {6, 3, 1, eight}, {2, 5, 1, six}, {4, 5, 1, eight},
            {1, 3, 1, four}, {3, 1, 1, NULL}, {2, 3, 2, four},  {4, 3, 2, six}, {2, 4, 2, four},
            {2, 5, 2, four}, {2, 3, 3, NULL}, {2, 5, 3, four},  {1, 5, 2, four}};

/* sum over points of result[o][p] * weights[p][t] * data[p][x]: how much element x of the data
 * counts in output o with tap t. */
static double share(const kiln_winograd *w, int64_t o, int64_t t, int64_t x) {
    double sum = 0;
    for (int64_t p = 0; p < w->points; p++)
        sum += w->result[o][p] * w->weights[p][t] * w->data[p][x];
    return sum;
}

static void outputs_are_sums_of_taps_times_data(void **state) {
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(made); i++) {
        const kiln_winograd w =
            kiln_winograd_of_points(made[i].outputs, made[i].taps, made[i].stride, made[i].point);
        assert_int_equal(w.points, made[i].stride * (made[i].outputs - 1) + made[i].taps);
        for (int64_t o = 0; o < w.outputs; o++)
            for (int64_t t = 0; t < w.taps; t++)
                for (int64_t x = 0; x < w.points; x++)
                    assert_true(fabs(share(&w, o, t, x) - (x == made[i].stride * o + t)) < 1e-13);
    }
}

/* As Lavin and Gray print them (section 4.1): records of F(2, 3) mean these. */
static void f_2_3_is_as_published(void **state) {
    (void)state;
    static const double data[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
    static const double weights[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
    static const double result[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};
    const kiln_winograd w = kiln_winograd_of_points(2, 3, 1, four);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++) {
            assert_true(w.data[i][k] == data[i][k]);
            assert_true(k == 3 || w.weights[i][k] == weights[i][k]);
            assert_true(i >= 2 || w.result[i][k] == result[i][k]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_sums_of_taps_times_data),
        cmocka_unit_test(f_2_3_is_as_published),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/winograd_matrices", tests, NULL,
                                       NULL);
}
