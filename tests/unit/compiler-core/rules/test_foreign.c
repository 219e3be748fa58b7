/* Schedules of other systems: the right task is found, and the nearest schedule of its space. */
#include "compiler-core/rules/foreign.h"

#include "tests/unit/compiler-core/sched/support.h"

static const conv_shape strided = {1, 16, 16, 16, 32, 3, 3, 2, 1, true};

/* The same, as another system says it. */
static kiln_foreign_work strided_work(void) {
    return (kiln_foreign_work){.result_count = 4,
                               .result = {1, 32, 8, 8},
                               .reduce_count = 3,
                               .reduce = {16, 3, 3},
                               .data_count = 4,
                               .data = {{1, 1}, {16, 1}, {17, 2}, {17, 2}}};
}

static void a_convolution_is_found_under_what_follows_it(void **state) {
    const kiln_foreign_work work = strided_work();
    assert_true(kiln_foreign_is(&work, conv_program(*state, &strided)));
}

static void another_extent_anywhere_is_another_task(void **state) {
    kiln_program *te = conv_program(*state, &strided);
    const kiln_foreign_work right = strided_work();
    for (uint32_t i = 0; i < 4; i++) {
        kiln_foreign_work work = right;
        work.result[i]++;
        assert_false(kiln_foreign_is(&work, te));
        work = right;
        work.data[i].extent += 2;
        assert_false(kiln_foreign_is(&work, te));
        work = right;
        work.data[i].extent = KILN_MAX(work.data[i].extent - 4, 2);
        assert_false(kiln_foreign_is(&work, te));
        if (i == 3) continue;
        work = right;
        work.reduce[i]++;
        assert_false(kiln_foreign_is(&work, te));
    }
}

static void a_product_of_matrices_is_found_and_extents_of_one_do_not_matter(void **state) {
    kiln_program *te = matmul_program(*state, 24, 32, 48);
    const kiln_foreign_work plain = {.result_count = 2,
                                     .result = {24, 32},
                                     .reduce_count = 1,
                                     .reduce = {48},
                                     .data_count = 2,
                                     .data = {{24, 1}, {48, 1}}},
                            batch = {.result_count = 3,
                                     .result = {1, 24, 32},
                                     .reduce_count = 1,
                                     .reduce = {48},
                                     .data_count = 3,
                                     .data = {{1, 1}, {24, 1}, {48, 1}}};
    assert_true(kiln_foreign_is(&plain, te));
    assert_true(kiln_foreign_is(&batch, te));
    assert_false(kiln_foreign_is(&plain, matmul_program(*state, 32, 24, 48)));
}

static void a_product_of_bytes_is_not_one_of_floats(void **state) {
    const kiln_foreign_work work = {.result_count = 2,
                                    .result = {24, 32},
                                    .reduce_count = 1,
                                    .reduce = {48},
                                    .data_count = 2,
                                    .data = {{24, 1}, {48, 1}}};
    assert_false(kiln_foreign_is(&work, bytes_program(*state, 24, 32, 48)));
}

/* The decision of the first table, as (rows, columns, vectors). */
static void decided(const kiln_trace *trace, int64_t out[3]) {
    uint32_t at = 0;
    while (trace->instruction[at].prim != KILN_PRIM_CHOICE) at++;
    const kiln_instruction *in = &trace->instruction[at];
    const int64_t width = in->operand[0].factor[0].value;
    for (int64_t i = 0; i < 3; i++)
        out[i] = in->operand[1 + in->decision[0] * width + i].factor[0].value;
}

static void adopt(kiln_program *te, const kiln_foreign_tile *tile, int64_t out[3]) {
    kiln_space space;
    kiln_trace trace;
    kiln_program *program = NULL;
    const kiln_target target = avx2;
    assert_null(kiln_space_create(te, &target, te->arena, &space));
    assert_null(kiln_foreign_adopt(&space, tile, te->arena, &trace));
    decided(&trace, out);
    assert_null(kiln_trace_replay(&trace, te, NULL, te->arena, &program, NULL));
    assert_null(same_result(te, program, te->arena));
}

static void the_nearest_tile_is_taken_and_computes_the_same(void **state) {
    const conv_shape shape = {1, 8, 6, 8, 16, 3, 3, 1, 1, true};
    const kiln_foreign_tile wide = {1, 4, 16, 8}, tall = {3, 2, 16, 8};
    int64_t sizes[3];
    adopt(conv_program(*state, &shape), &wide, sizes);
    assert_int_equal(sizes[0], 1);
    assert_int_equal(sizes[1], 4);
    assert_int_equal(sizes[2], 2);
    adopt(conv_program(*state, &shape), &tall, sizes);
    assert_int_equal(sizes[0], 3);
    assert_int_equal(sizes[1], 2);
}

static void a_task_without_tiles_is_refused(void **state) {
    kiln_program *te = chain_program(*state, 8, 8);
    const kiln_foreign_tile tile = {1, 4, 16, 8};
    const kiln_target target = avx2;
    kiln_space space;
    kiln_trace trace;
    assert_null(kiln_space_create(te, &target, te->arena, &space));
    kiln_status st = kiln_foreign_adopt(&space, &tile, te->arena, &trace);
    assert_int_equal(kiln_status_code(st), KILN_UNIMPLEMENTED);
    kiln_status_free(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_convolution_is_found_under_what_follows_it),
        test_with_arena(another_extent_anywhere_is_another_task),
        test_with_arena(a_product_of_matrices_is_found_and_extents_of_one_do_not_matter),
        test_with_arena(a_product_of_bytes_is_not_one_of_floats),
        test_with_arena(the_nearest_tile_is_taken_and_computes_the_same),
        test_with_arena(a_task_without_tiles_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
