/* From examples/digits to bytes: what is found on data, what is written, and that a module of it
 * computes exactly what the interpreter computes. */
#include "cli/calibrate.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "compiler-core/graph/graph_codec.h"
#include "tests/support/interpreter.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

#define FOLDER "examples/digits"
#define MODEL FOLDER "/digits.onnx"

static const kiln_import_options import;

typedef struct world {
    kiln_arena *arena;
    kiln_target target;
    kiln_quantize_options options;
    kiln_quantize_plan plan;
    kiln_module *module;
    kiln_samples samples;
    kiln_calibration found;
} world;

static world make_world(kiln_arena *arena, bool per_channel, bool shift, size_t samples_max) {
    world w = {.arena = arena};
    kiln_samples_source source = {.folder = FOLDER, .samples_max = samples_max};
    w.options = (kiln_quantize_options){.per_channel = per_channel,
                                        .shift = shift,
                                        .is_unsigned = !shift,
                                        .weight_bits = 8,
                                        .activation_bits = 8,
                                        .import = &import};
    w.target = plain_target(arena);
    expect_ok(kiln_samples_check(&source, arena));
    expect_ok(kiln_quantize_read(MODEL, &w.options, arena, &w.plan));
    expect_ok(kiln_calibrate_compile(MODEL, w.plan.graph, &w.target, &import, arena, &w.module));
    expect_ok(kiln_samples_read(&source, w.module, arena, &w.samples));
    expect_ok(
        kiln_calibrate(w.module, &w.plan, &w.samples, KILN_QUANTIZE_MSE, shift, arena, &w.found));
    return w;
}

static void end_world(world *w) {
    kiln_module_close(w->module);
    kiln_file_unmap(&w->plan.bytes);
}

static kiln_quantised_model write_model(const world *w) {
    kiln_quantised_model made;
    const kiln_quantize_found found = {w->found.group, (const double *const *)w->found.mean,
                                       w->found.mean_count};
    expect_ok(kiln_quantize_write(MODEL, &w->plan, &found, &w->options, w->arena, &made));
    return made;
}

/* Every value that is quantised is the same number; probabilities go through exp. */
static void expect_exact(const world *w, const kiln_quantised_model *made, kiln_module *quantised) {
    kiln_graph *graph = NULL;
    void **actual = kiln_run_make_outputs(quantised, w->arena);
    expect_ok(kiln_graph_decode(made->graph, w->arena, &graph));
    kiln_tensor *expected = KILN_ARENA_ARRAY(w->arena, kiln_tensor, graph->output.count);
    for (size_t sample = 0; sample < w->samples.count; sample++) {
        const kiln_value_info *x = &graph->value.data[graph->input.data[0]];
        const void *const *inputs = kiln_samples_at(&w->samples, sample);
        const kiln_tensor input = {x->dtype, x->shape, (void *)(uintptr_t)inputs[0]};
        expect_ok(kiln_graph_eval(graph, &input, w->arena, expected));
        assert_int_equal(kiln_module_run(quantised, inputs, actual), 0);
        for (uint32_t i = 0; i < graph->output.count; i++) {
            const size_t bytes = kiln_tensor_bytes(&expected[i]);
            if (i >= w->plan.output_count) {
                assert_memory_equal(actual[i], expected[i].data, bytes);
                continue;
            }
            for (size_t k = 0; k < bytes / sizeof(float); k++)
                assert_true(fabsf(((float *)actual[i])[k] - ((float *)expected[i].data)[k]) <
                            1e-6f);
        }
    }
}

static void expect_exact_for(const world *w, const kiln_target *target) {
    kiln_quantised_model made = write_model(w);
    kiln_module *quantised = NULL;
    expect_ok(kiln_calibrate_compile(MODEL, made.graph, target, &import, w->arena, &quantised));
    expect_exact(w, &made, quantised);
    kiln_module_close(quantised);
    kiln_file_unmap(&made.bytes);
}

static void modules_compute_what_the_interpreter_computes(void **state) {
    static const bool flag[][2] = {{false, false}, {true, false}, {true, true}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(flag); i++) {
        world w = make_world(*state, flag[i][0], flag[i][1], 2);
        expect_exact_for(&w, &w.target);
        for (int level = 0; i == 1 && level < TEST_LEVELS; level++) {
            const kiln_target target = target_of(*state, test_level[level]);
            if (runs_here(&target, *state)) expect_exact_for(&w, &target);
        }
        end_world(&w);
    }
}

static void digits_keep_their_accuracy(void **state) {
    static const bool flag[][2] = {{false, false}, {true, false}, {false, true}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(flag); i++) {
        world w = make_world(*state, flag[i][0], flag[i][1], 0);
        kiln_quantised_model made = write_model(&w);
        kiln_module *quantised = NULL;
        kiln_calibration_check check;
        expect_ok(
            kiln_calibrate_compile(MODEL, made.graph, &w.target, &import, w.arena, &quantised));
        expect_ok(kiln_calibration_check_run(w.module, quantised, &w.plan, made.observed,
                                             &w.samples, w.arena, &check));
        assert_int_equal(w.samples.count, 359);
        assert_true(check.reference_accuracy > 0.98);
        assert_true(check.accuracy >= check.reference_accuracy - 0.005);
        assert_true(kiln_quantize_error_cosine(&check.output[0]) > 0.999);
        for (uint32_t k = 0; k < w.plan.layer_count; k++)
            assert_true(kiln_quantize_error_sqnr(&check.observed[w.plan.layer[k].result]) > 20);
        kiln_module_close(quantised);
        kiln_file_unmap(&made.bytes);
        end_world(&w);
    }
}

/* Means of channels, by hand from the samples: those of the input, which has one. */
static void means_and_ranges_are_those_of_the_data(void **state) {
    world w = make_world(*state, false, false, 40);
    double sum = 0, high = 0;
    for (size_t sample = 0; sample < 40; sample++) {
        const float *image = kiln_samples_at(&w.samples, sample)[0];
        for (int i = 0; i < 64; i++) {
            sum += (double)image[i];
            high = fmax(high, (double)image[i]);
        }
    }
    expect_str(w.plan.observed[0].name, "image");
    assert_int_equal(w.found.mean_count[0], 1);
    assert_true(fabs(w.found.mean[0][0] - sum / (40 * 64)) < 1e-12);
    assert_true(w.found.seen[0].high == high && w.found.seen[0].count == 40 * 64);
    end_world(&w);
}

static void labels_are_as_many_as_rows(void **state) {
    world w = make_world(*state, false, false, 10);
    kiln_calibration_check check;
    w.samples.label_count = 9;
    expect_error(kiln_calibration_check_run(w.module, w.module, &w.plan, w.plan.observed,
                                            &w.samples, w.arena, &check),
                 INVALID_ARGUMENT, "there are 9 labels for 10 rows of output probability");
    w.samples.label_count = 11;
    expect_ok(kiln_calibration_check_run(w.module, w.module, &w.plan, w.plan.observed, &w.samples,
                                         w.arena, &check)); /* the rest of 359 was left out */
    w.samples.is_part = false;
    expect_error(kiln_calibration_check_run(w.module, w.module, &w.plan, w.plan.observed,
                                            &w.samples, w.arena, &check),
                 INVALID_ARGUMENT, "there are 11 labels for 10 rows");
    end_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(modules_compute_what_the_interpreter_computes),
        test_with_arena(digits_keep_their_accuracy),
        test_with_arena(means_and_ranges_are_those_of_the_data),
        test_with_arena(labels_are_as_many_as_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
