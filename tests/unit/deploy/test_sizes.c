/* Modules of several sizes: what their plans share, which bucket runs, and rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "deploy/runtime/sizes.h"
#include "tests/unit/deploy/fixture.h"

enum { BUCKETS = 3 };

typedef struct world {
    kiln_arena arena;
    kiln_module_bucket bucket[BUCKETS];
    kiln_module_sizes sizes;
} world;

/* Sizes 1, 4 and 8 of an input [2][3 * size][5] and of an output that is the same in all. */
static int set_up(void **state) {
    static world w;
    memset(&w, 0, sizeof w);
    kiln_arena_init(&w.arena, 0);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        kiln_plan_port *port = KILN_ARENA_ARRAY(&w.arena, kiln_plan_port, 2);
        w.bucket[b].size = (int64_t[]){1, 4, 8}[b];
        port[0] =
            (kiln_plan_port){.name = KILN_STR("x"), .shape = {3, {2, 3 * w.bucket[b].size, 5}}};
        port[1] = (kiln_plan_port){.name = KILN_STR("y"), .shape = {1, {7}}};
        w.bucket[b].plan = (kiln_module_plan){
            .input_count = 1, .input = port, .output_count = 1, .output = port + 1};
    }
    w.sizes = (kiln_module_sizes){KILN_STR("n"), true, BUCKETS, w.bucket};
    *state = &w;
    return 0;
}

static int tear_down(void **state) {
    kiln_arena_deinit(&((world *)*state)->arena);
    return 0;
}

static void axis_is_where_extents_follow_the_size(void **state) {
    world *w = *state;
    kiln_module_axis axis;
    assert_true(kiln_module_find_axis(&w->sizes, false, 0, &axis));
    assert_int_equal(axis.axis, 1);
    assert_int_equal(axis.factor, 3);
    assert_true(kiln_module_find_axis(&w->sizes, true, 0, &axis));
    assert_int_equal(axis.axis, KILN_MODULE_NO_AXIS);
    w->bucket[2].plan.input->shape.dim[1]++; /* no multiple */
    assert_false(kiln_module_find_axis(&w->sizes, false, 0, &axis));
    w->bucket[2].plan.input->shape.dim[1]--;
    w->bucket[1].plan.input->shape.dim[2]++; /* a second one */
    assert_false(kiln_module_find_axis(&w->sizes, false, 0, &axis));
}

static void a_size_runs_in_its_bucket_or_in_the_next_one(void **state) {
    world *w = *state;
    const uint32_t right[] = {0, 1, 1, 1, 2, 2, 2, 2};
    for (int64_t size = 1; size <= 8; size++)
        assert_int_equal(kiln_sizes_choose(&w->sizes, size), right[size - 1]);
}

/* 2 takes 2 x 1 or 4, 10 ns; 3 takes 4, 10 ns; 5 takes 2 x 4, 20 ns; 8 its own bucket. */
static void times_decide_between_padding_and_splitting(void **state) {
    world *w = *state;
    w->bucket[0].median_ns = 5;
    w->bucket[1].median_ns = 10;
    w->bucket[2].median_ns = 30;
    const uint32_t right[] = {0, 0, 1, 1, 1, 1, 1, 2};
    for (int64_t size = 1; size <= 8; size++)
        assert_int_equal(kiln_sizes_choose(&w->sizes, size), right[size - 1]);
    w->bucket[1].median_ns = 0; /* a time is missing: pad */
    assert_int_equal(kiln_sizes_choose(&w->sizes, 5), 2);
    w->bucket[1].median_ns = 10;
    w->sizes.by_rows = false;
    assert_int_equal(kiln_sizes_choose(&w->sizes, 5), 2);
}

static void rows_are_copied_at_each_outer_index(void **state) {
    uint8_t small[2][3][2], large[2][5][2];
    const kiln_rows from = {&small[0][0][0], 2, 2, 3}, to = {&large[0][0][0], 2, 2, 5};
    (void)state;
    for (uint8_t i = 0; i < sizeof small; i++) (&small[0][0][0])[i] = (uint8_t)(i + 1);
    memset(large, 0xee, sizeof large);
    kiln_sizes_copy_rows(&from, 1, &to, 0, 2);
    kiln_sizes_clear_rows(&to, 3);
    const uint8_t right[2][5][2] = {{{3, 4}, {5, 6}, {0xee, 0xee}},
                                    {{9, 10}, {11, 12}, {0xee, 0xee}}};
    assert_memory_equal(large, right, sizeof right);
}

static void refused(world *w, const char *text) {
    kiln_status st = kiln_module_sizes_check(&w->sizes);
    assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
    if (!strstr(kiln_status_text(st), text))
        fail_msg("'%s' does not say '%s'", kiln_status_text(st), text);
    kiln_status_free(st);
}

static void plans_that_do_not_belong_together_are_refused(void **state) {
    world *w = *state;
    kiln_module_plan plan = fixture_plan(&w->arena, "kernel_static.o");
    for (uint32_t b = 0; b < BUCKETS; b++) w->bucket[b].plan = plan;
    assert_null(kiln_module_sizes_check(&w->sizes));
    w->bucket[2].size = 4;
    refused(w, "size 4 after size 4");
    w->bucket[2].size = KILN_MODULE_SIZE_MAX + 1;
    refused(w, "size 2147483649 after size 4");
    w->bucket[2].size = 8;
    kiln_plan_port input = plan.input[0];
    input.name = KILN_STR("other");
    w->bucket[1].plan.input = &input;
    refused(w, "size 4 has another input 0");
    w->bucket[1].plan.input = plan.input;
    w->sizes.dim = (kiln_str){0};
    refused(w, "3 sizes of no dimension");
    w->sizes.bucket_count = 0;
    refused(w, "0 sizes");
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        ROW(axis_is_where_extents_follow_the_size),
        ROW(a_size_runs_in_its_bucket_or_in_the_next_one),
        ROW(times_decide_between_padding_and_splitting),
        ROW(rows_are_copied_at_each_outer_index),
        ROW(plans_that_do_not_belong_together_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
