/* Modules of one size each to one of several: what they share, and what does not belong together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "deploy/pack/gather.h"
#include "deploy/pack/module_write.h"
#include "tests/unit/deploy/fixture.h"

typedef struct world {
    kiln_arena arena;
    kiln_module_plan plan;
} world;

static int set_up(void **state) {
    world *w = kiln_alloc(sizeof *w);
    kiln_arena_init(&w->arena, 0);
    w->plan = fixture_plan(&w->arena, "kernel_static.o");
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    kiln_arena_deinit(&w->arena);
    kiln_free(w);
    return 0;
}

static kiln_str aligned(world *w, kiln_strbuf *bytes) {
    char *copy = kiln_arena_alloc_aligned(&w->arena, KILN_MODULE_CONSTANT_ALIGNMENT, bytes->size);
    memcpy(copy, bytes->data, bytes->size);
    const kiln_str view = {copy, bytes->size};
    kiln_strbuf_deinit(bytes);
    return view;
}

/* A module whose metadata are so many tasks, of which half are tuned, and the time of a run. */
static kiln_gather_part part_of(world *w, int64_t size, kiln_module_plan plan, const char *tasks,
                                const char *tuned, const char *median_ns) {
    kiln_plan_pair *pair = KILN_ARENA_ARRAY(&w->arena, kiln_plan_pair, 4);
    kiln_strbuf bytes = {0};
    pair[0] = (kiln_plan_pair){KILN_STR("model"), KILN_STR("net.onnx")};
    pair[1] = (kiln_plan_pair){KILN_STR("tasks"), kiln_str_from(tasks)};
    pair[2] = (kiln_plan_pair){KILN_STR("tuned"), kiln_str_from(tuned)};
    pair[3] = (kiln_plan_pair){KILN_STR("median_ns"), kiln_str_from(median_ns)};
    plan.metadata = pair;
    plan.metadata_count = 4;
    assert_null(kiln_module_encode(&plan, &bytes));
    return (kiln_gather_part){size, aligned(w, &bytes)};
}

static void metadata_and_times_are_those_of_all(void **state) {
    world *w = *state;
    const kiln_gather_part part[] = {part_of(w, 1, w->plan, "3", "3", "1500"),
                                     part_of(w, 4, w->plan, "4", "2", "0")};
    kiln_module_sizes sizes;
    assert_null(kiln_module_gather(part, 2, KILN_STR("batch"), &w->arena, &sizes));
    assert_int_equal(sizes.bucket_count, 2);
    assert_false(sizes.by_rows);
    assert_int_equal(sizes.bucket[1].size, 4);
    assert_int_equal(sizes.bucket[0].median_ns, 1500);
    assert_int_equal(sizes.bucket[1].median_ns, 0);
    const char *const right[][2] = {{"model", "net.onnx"}, {"tasks", "7"}, {"tuned", "5"}};
    for (uint32_t b = 0; b < 2; b++) {
        assert_int_equal(sizes.bucket[b].plan.metadata_count, 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(kiln_str_is(sizes.bucket[b].plan.metadata[i].key, right[i][0]));
            assert_true(kiln_str_is(sizes.bucket[b].plan.metadata[i].value, right[i][1]));
        }
    }
}

static void refused(world *w, const kiln_gather_part *part, kiln_code code, const char *text) {
    kiln_module_sizes sizes;
    kiln_status st = kiln_module_gather(part, 2, KILN_STR("batch"), &w->arena, &sizes);
    assert_int_equal(kiln_status_code(st), code);
    if (!strstr(kiln_status_text(st), text))
        fail_msg("'%s' does not say '%s'", kiln_status_text(st), text);
    kiln_status_free(st);
}

static void parts_that_do_not_belong_together_are_refused(void **state) {
    world *w = *state;
    kiln_gather_part part[] = {part_of(w, 1, w->plan, "1", "1", "1"),
                               part_of(w, 4, w->plan, "1", "1", "1")};
    const kiln_gather_part second = part[1];
    kiln_module_sizes sizes;
    kiln_strbuf bytes = {0};
    assert_null(kiln_module_gather(part, 2, KILN_STR("batch"), &w->arena, &sizes));
    assert_null(kiln_module_encode_sizes(&sizes, &bytes));
    part[1].bytes = aligned(w, &bytes);
    refused(w, part, KILN_INVALID_ARGUMENT, "size 4: it has several sizes already");
    part[1] = second;
    part[1].bytes.size--;
    refused(w, part, KILN_DATA_LOSS, "size 4");
    part[1] = part_of(w, 4, fixture_loop_plan(&w->arena), "1", "1", "1");
    refused(w, part, KILN_INVALID_ARGUMENT, "size 4");
    part[1] = second;
    part[1].size = 1;
    refused(w, part, KILN_INVALID_ARGUMENT, "size 1 after size 1");
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        ROW(metadata_and_times_are_those_of_all),
        ROW(parts_that_do_not_belong_together_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
