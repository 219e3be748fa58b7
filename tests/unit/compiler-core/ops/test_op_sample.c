#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/graph/support.h"

/* x = 1 2 / 3 4; positions are (x, y). */
#define AT(positions) "input x: f32[1,1,2,2]\nconstant g: f32[1,1,2,2] = [" positions "]"

static void positions_run_from_corner_to_corner(void **state) {
    expect_op(*state, AT("-1, -1, 1, 1"), "y: f32[1,1,1,2] = grid_sample(x, g) align_corners=1",
              "f32[1,1,1,2]: 1 4");
    expect_op(*state, AT("0, 0, 1, -1"), "y: f32[1,1,1,2] = grid_sample(x, g) align_corners=1",
              "f32[1,1,1,2]: 2.5 2");
    /* Without align_corners the ends are the outer edges of the elements. */
    expect_op(*state, AT("-0.5, -0.5, 0, 0.5"), "y: f32[1,1,1,2] = grid_sample(x, g)",
              "f32[1,1,1,2]: 1 3.5");
}

static void positions_outside_are_padded(void **state) {
    const char *op =
        "y: f32[1,1,1,2] = grid_sample(x, g) align_corners=1 mode=\"%s\" padding_mode=\"%s\"";
    const char *positions = AT("3, -1, -7, -1");
    expect_op(*state, positions, kiln_arena_printf(*state, op, "linear", "zeros"),
              "f32[1,1,1,2]: 0 0");
    expect_op(*state, positions, kiln_arena_printf(*state, op, "linear", "border"),
              "f32[1,1,1,2]: 2 1");
    expect_op(*state, positions, kiln_arena_printf(*state, op, "nearest", "reflection"),
              "f32[1,1,1,2]: 1 2");
    expect_op(*state, AT("1.5, -1, nan, -1"), kiln_arena_printf(*state, op, "linear", "zeros"),
              "f32[1,1,1,2]: 1.5 0");
}

static void cubic_keeps_what_is_constant(void **state) {
    expect_op(*state,
              "input x: f32[1]\nconstant k: f32[1,1,3,3] = [5, 5, 5, 5, 5, 5, 5, 5, 5]\n"
              "constant g: f32[1,1,1,2] = [0.3, -0.7]",
              "y: f32[1,1,1,1] = grid_sample(k, g) mode=\"cubic\" padding_mode=\"border\"",
              "f32[1,1,1,1]: 5");
}

/* ---- every mode against the specification, one element at a time ------------------------------
 */

typedef struct sampling {
    const char *mode, *padding;
    bool corners;
    uint32_t dims; /* spatial ones */
    int64_t extent[3];
} sampling;

/* The element that stands for element `i` of `extent`; -1: zero does. */
static int64_t padded(const sampling *s, int64_t i, int64_t extent) {
    if (i >= 0 && i < extent) return i;
    if (strcmp(s->padding, "zeros") == 0) return -1;
    if (strcmp(s->padding, "border") == 0) return i < 0 ? 0 : extent - 1;
    /* The line is folded at the middles of the outermost elements, or at their edges. */
    int64_t period = s->corners ? 2 * (extent - 1) : 2 * extent;
    if (period == 0) return 0;
    int64_t at = ((i % period) + period) % period;
    return at < extent ? at : period - at - (s->corners ? 0 : 1);
}

static double cubic(double t) {
    const double a = -0.75;
    t = fabs(t);
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/* Elements with a weight around a position in one dimension; how many. */
static uint32_t taps_at(const sampling *s, double position, int64_t *element, double *weight) {
    if (strcmp(s->mode, "nearest") == 0) {
        element[0] = (int64_t)nearbyint(position);
        weight[0] = 1;
        return 1;
    }
    bool is_cubic = strcmp(s->mode, "cubic") == 0;
    uint32_t count = is_cubic ? 4 : 2;
    for (uint32_t k = 0; k < count; k++) {
        element[k] = (int64_t)floor(position) + k + 1 - count / 2;
        double away = position - (double)element[k];
        weight[k] = is_cubic ? cubic(away) : 1 - fabs(away);
    }
    return count;
}

/* The sample at a position whose last coordinate comes first, of dimensions from `d` on. */
static double sample(const sampling *s, const float *data, const float *grid, uint32_t d,
                     int64_t offset) {
    if (d == s->dims) return data[offset];
    int64_t extent = s->extent[d], element[4];
    double up = (double)grid[s->dims - 1 - d] + 1, weight[4], sum = 0;
    double position = s->corners ? up / 2 * (double)(extent - 1) : (up * (double)extent - 1) / 2;
    uint32_t count = taps_at(s, position, element, weight);
    for (uint32_t k = 0; k < count; k++) {
        int64_t i = padded(s, element[k], extent);
        if (i >= 0) sum += weight[k] * sample(s, data, grid, d + 1, offset * extent + i);
    }
    return sum;
}

#define CHANNELS 2
#define POSITIONS 40

static void expect_samples(kiln_arena *arena, const sampling *s, uint64_t seed) {
    bool deep = s->dims == 3;
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    const char *middle = deep ? kiln_arena_printf(arena, "%lld,", (long long)s->extent[2]) : "";
    kiln_graph *graph = graph_of(
        arena, kiln_arena_printf(
                   arena,
                   "graph t\ninput x: f32[1,%d,%lld,%lld%s%.*s]\ninput g: f32[1,%s%d,1,%u]\n"
                   "y: f32[1,%d,%s%d,1] = grid_sample(x, g) align_corners=%d mode=\"%s\" "
                   "padding_mode=\"%s\"\noutput y\n",
                   CHANNELS, (long long)s->extent[0], (long long)s->extent[1], deep ? "," : "",
                   deep ? (int)strlen(middle) - 1 : 0, middle, deep ? "1," : "", POSITIONS, s->dims,
                   CHANNELS, deep ? "1," : "", POSITIONS, s->corners, s->mode, s->padding));
    kiln_tensor input[2], output;
    for (uint32_t i = 0; i < 2; i++) {
        const kiln_value_info *info = &graph->value.data[graph->input.data[i]];
        input[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        float *value = input[i].data;
        for (int64_t k = 0; k < kiln_shape_count(&info->shape); k++)
            value[k] = (float)(kiln_rand_unit(&rand) * 5 - 2.5);
    }
    expect_ok(kiln_graph_eval(graph, input, arena, &output));
    const float *data = input[0].data, *grid = input[1].data, *got = output.data;
    for (int64_t c = 0; c < CHANNELS; c++)
        for (int64_t k = 0; k < POSITIONS; k++) {
            double wanted = sample(s, data, grid + k * s->dims, 0, c);
            if (fabs(got[c * POSITIONS + k] - wanted) > 1e-4)
                fail_msg("%s, %s, corners %d, %u dimensions: %g, not %g", s->mode, s->padding,
                         s->corners, s->dims, (double)got[c * POSITIONS + k], wanted);
        }
}

static void every_mode_pads_the_elements_around_a_position(void **state) {
    static const char *const mode[] = {"nearest", "linear", "cubic"}, *const padding[] = {
                                                                          "zeros", "border",
                                                                          "reflection"};
    static const int64_t extent[][3] = {{5, 7, 3}, {1, 4, 2}, {3, 2, 6}};
    for (uint32_t i = 0; i < 3 * 3 * 2 * 3 * 2; i++) {
        sampling s = {.mode = mode[i % 3],
                      .padding = padding[i / 3 % 3],
                      .corners = i / 9 % 2,
                      .dims = 2 + i / 18 % 2};
        if (s.dims == 3 && i % 3 == 2) continue; /* the specification has no cubic volumes */
        memcpy(s.extent, extent[i / 36], sizeof s.extent);
        expect_samples(*state, &s, i);
    }
}

static void what_does_not_fit_is_refused(void **state) {
    expect_op_refused(*state, AT("0, 0, 0, 0"),
                      "y: f32[1,1,1,2] = grid_sample(x, g) mode=\"magic\"", "\"magic\"");
    expect_op_refused(*state, AT("0, 0, 0, 0"),
                      "y: f32[1,1,1,2] = grid_sample(x, g) padding_mode=\"odd\"",
                      "padding_mode: \"odd\"");
    expect_op_refused(*state, "input x: f32[1,1,2,2]\ninput g: f32[1,1,2,3]",
                      "y: f32[1,1,1,2] = grid_sample(x, g)", "does not hold a position");
}

/* ---- RoiAlign -------------------------------------------------------------------------------- */

/* Images 1 2 / 3 4 and 5 6 / 7 8; one box [x1, y1, x2, y2] of image `number`. */
static void expect_box(kiln_arena *arena, const char *box, int number, const char *attributes,
                       const char *result) {
    const char *inputs = kiln_arena_printf(arena,
                                           "input x: f32[2,1,2,2]\nconstant b: f32[1,4] = [%s]\n"
                                           "constant i: i64[1] = [%d]",
                                           box, number);
    expect_op(arena, inputs,
              kiln_arena_printf(arena, "y: f32[1,1,1,1] = roi_align(x, b, i) %s", attributes),
              kiln_arena_printf(arena, "f32[1,1,1,1]: %s", result));
}

static void boxes_are_sampled_in_bins(void **state) {
    expect_box(*state, "0, 0, 2, 2", 0, "sampling_ratio=1", "2.5"); /* at (0.5, 0.5) */
    expect_box(*state, "0, 0, 2, 2", 1, "sampling_ratio=1", "6.5");
    expect_box(*state, "0, 0, 2, 2", 0, "sampling_ratio=2", "2.5"); /* each element once */
    expect_box(*state, "0, 0, 2, 2", 0, "sampling_ratio=2 mode=\"max\"", "4");
    expect_box(*state, "0, 0, 4, 4", 0, "sampling_ratio=1 spatial_scale=0.5", "2.5");
    expect_box(*state, "0, 0, 2, 2", 0,
               "sampling_ratio=1 coordinate_transformation_mode=\"output_half_pixel\"", "4");
    /* Boxes without an extent are one element large there. */
    expect_box(*state, "0, 0, 0, 0", 0,
               "sampling_ratio=1 coordinate_transformation_mode=\"output_half_pixel\"", "2.5");
    expect_op(*state,
              "input x: f32[1,1,2,2]\nconstant b: f32[1,4] = [0, 0, 2, 2]\n"
              "constant i: i64[1] = [0]",
              "y: f32[1,1,2,2] = roi_align(x, b, i) output_height=2 output_width=2 "
              "sampling_ratio=1",
              "f32[1,1,2,2]: 1 2 3 4");
}

static void positions_far_outside_count_nothing(void **state) {
    expect_box(*state, "-0.5, 0.5, 0.5, 1.5", 0, "sampling_ratio=1", "2"); /* x = -0.5, y = 0.5 */
    expect_box(*state, "-3, 0.5, 0, 1.5", 0, "sampling_ratio=1", "0");     /* x = -2 */
    expect_box(*state, "-3, 0.5, 0, 1.5", 0, "sampling_ratio=1 mode=\"max\"", "0");
    expect_box(*state, "9, 9, 12, 12", 0, "sampling_ratio=2", "0");
}

static void boxes_that_do_not_fit_are_refused(void **state) {
    const char *inputs = "input x: f32[1,1,2,2]\ninput b: f32[3,4]\ninput i: i64[3]";
    expect_op_refused(*state, inputs, "y: f32[3,1,1,1] = roi_align(x, b, i)",
                      "sampling_ratio: 0; as many positions");
    expect_op_refused(*state, inputs,
                      "y: f32[3,1,1,1] = roi_align(x, b, i) sampling_ratio=1 mode=\"sum\"",
                      "attribute mode: \"sum\"");
    expect_op_refused(*state, "input x: f32[1,1,2,2]\ninput b: f32[3,4]\ninput i: i64[2]",
                      "y: f32[3,1,1,1] = roi_align(x, b, i) sampling_ratio=1", "boxes [count, 4]");
    expect_op_refused(*state, "input x: f32[1,1,2,2]\ninput b: f32[3,4]\ninput i: f32[3]",
                      "y: f32[3,1,1,1] = roi_align(x, b, i) sampling_ratio=1", "integers");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(positions_run_from_corner_to_corner),
        test_with_arena(positions_outside_are_padded),
        test_with_arena(cubic_keeps_what_is_constant),
        test_with_arena(every_mode_pads_the_elements_around_a_position),
        test_with_arena(what_does_not_fit_is_refused),
        test_with_arena(boxes_are_sampled_in_bins),
        test_with_arena(positions_far_outside_count_nothing),
        test_with_arena(boxes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
