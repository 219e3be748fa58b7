/* Layers as the compiler schedules them for accelerators: the task is the one of a model, what is
 * found is no slower than the default, and one thread with one stage hides nothing. */
#include "tests/support/vta_tuning.h"

#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/zoo/zoo.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"
#include "vta/search/cut.h"

#define MODEL "conv:32,14,14,64,3,3,1,1,1,1,1,1,1,1,1_int8"
static const kiln_vta_layer layer = {"layer", 14, 14, 32, 64, 3, 1, 1, 1};

static kiln_vta_config config_of(const char *text) {
    kiln_vta_config config;
    expect_ok(kiln_vta_config_parse(kiln_str_from(text), &config));
    return config;
}

static void create(const char *machine, const kiln_vta_layer *of, kiln_arena *arena,
                   kiln_vta_tuning *out_tuning) {
    const kiln_vta_config config = config_of(machine);
    expect_ok(kiln_vta_tuning_create(of, &config, arena, out_tuning));
}

/* The kernel of a model that `kiln zoo` writes, in the place of the layer's task. */
static void take_task_of_model(kiln_arena *arena, kiln_vta_tuning *t) {
    kiln_strbuf bytes = {0};
    kiln_graph *graph;
    kiln_compilation *compilation;
    const kiln_accuracy accuracy = {0};
    expect_ok(kiln_zoo_build(KILN_STR(MODEL), 1, &bytes));
    expect_ok(kiln_import_bytes(kiln_strbuf_view(&bytes), NULL, NULL, arena, &graph));
    expect_ok(kiln_compilation_of_model(graph, &t->target, &accuracy, arena, &compilation));
    t->te = compilation->searched.task[0].te;
    expect_ok(kiln_space_create(t->te, &t->target, arena, &t->space));
    kiln_strbuf_deinit(&bytes);
}

static void the_task_takes_as_long_as_the_one_of_a_model(void **state) {
    static const char *const machine[] = {"pynq", "pynq,v2"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(machine); i++) {
        kiln_vta_tuning t;
        kiln_vta_compiled of_layer, of_model;
        create(machine[i], &layer, *state, &t);
        expect_ok(kiln_vta_tuning_default(&t, *state, &of_layer));
        assert_int_equal(of_layer.timing.counts.multiply_adds,
                         kiln_vta_layer_multiply_adds(&layer));
        take_task_of_model(*state, &t);
        expect_ok(kiln_vta_tuning_default(&t, *state, &of_model));
        assert_int_equal(of_layer.timing.cycles, of_model.timing.cycles);
    }
}

static void the_best_of_all_hides_latency(void **state) {
    kiln_vta_tuning t;
    /* few products for each tile of weights, of which there are more than the machine holds */
    static const kiln_vta_layer point = {"point", 14, 14, 256, 512, 1, 2, 0, 1};
    kiln_vta_compiled preferred, alone, best;
    create("pynq", &point, *state, &t);
    for (uint32_t i = 1; i < t.count; i++)
        assert_true(t.candidate[i - 1].cycles <= t.candidate[i].cycles);
    expect_ok(kiln_vta_tuning_default(&t, *state, &preferred));
    expect_ok(kiln_vta_tuning_best(&t, true, 4, *state, &alone));
    expect_ok(kiln_vta_tuning_best(&t, false, 4, *state, &best));
    assert_true(alone.threads == 1 && alone.stages == 1);
    assert_true(best.threads > 1 || best.stages > 1);
    assert_true((double)best.timing.cycles < 0.9 * (double)alone.timing.cycles);
    assert_true(best.timing.cycles <= preferred.timing.cycles);
    assert_true(best.instructions > 0 && best.stream_bytes >= 16 * best.instructions);
}

/* Channels that do not fill their tiles are padded. */
static void tiles_are_filled(void **state) {
    const kiln_vta_config config = config_of("pynq,b1i16o32,alu16");
    const kiln_vta_layer narrow = {"narrow", 6, 6, 24, 24, 1, 2, 0, 1};
    kiln_vta_tuning t;
    kiln_vta_compiled compiled;
    expect_ok(kiln_vta_tuning_create(&narrow, &config, *state, &t));
    expect_ok(kiln_vta_tuning_default(&t, *state, &compiled));
    assert_int_equal(compiled.timing.counts.multiply_adds, 3 * 3 * 32 * 32);
}

/* So cuts stand for schedules where machines are ranked. */
static void schedules_are_as_fast_as_cuts(void **state) {
    const kiln_vta_config config = config_of("pynq");
    const kiln_vta_conv conv = kiln_vta_layer_tiled(&layer, &config);
    kiln_vta_tuning t;
    kiln_vta_compiled best;
    kiln_vta_cut_time cut;
    create("pynq", &layer, *state, &t);
    expect_ok(kiln_vta_tuning_best(&t, false, 8, *state, &best));
    expect_ok(kiln_vta_cut_search(&config, &conv, 2, 8, &cut));
    assert_true((double)best.timing.cycles <= 1.05 * (double)cut.timing.cycles);
}

static void a_machine_without_room_has_no_schedule(void **state) {
    const kiln_vta_config config = config_of("pynq,wgt11");
    kiln_vta_tuning t;
    expect_error(kiln_vta_tuning_create(&layer, &config, *state, &t), FAILED_PRECONDITION,
                 "have no schedule for");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(the_task_takes_as_long_as_the_one_of_a_model),
        test_with_arena(the_best_of_all_hides_latency),
        test_with_arena(tiles_are_filled),
        test_with_arena(schedules_are_as_fast_as_cuts),
        test_with_arena(a_machine_without_room_has_no_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
