/* Reductions split among groups: where tiles are few, right, within limits, and the same sums on
 * every run. */
#include <string.h>

#include "compiler-core/build.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/zoo/zoo.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/rules/gpu.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/task/task.h"
#include "tests/unit/compiler-core/codegen/device_board.h"
#include "tests/unit/compiler-core/lower/support.h"
#include "tests/unit/compiler-core/rules/support.h"

/* Few tiles and many steps. */
static const struct {
    const char *target, *rule, *text;
} example[] = {
    {"h200", "tile",
     "program product\ninput x: f32[7,2048]\ninput w: f32[2048,12]\ninput b: f32[12]\n"
     "temp s: f32[7,12]\noutput y: f32[7,12]\n"
     "block mul(i:7, j:12 | k:2048): s[i, j] sum= x[i, k] * w[k, j] init 0.0\n"
     "block act(i:7, j:12): y[i, j] = max(s[i, j] + b[j], 0.0)\n"},
    {"opencl:some", "tile",
     "program product\ninput x: f32[5,2048]\ninput w: f32[6,2048]\noutput y: f32[5,6]\n"
     "block mul(i:5, j:6 | k:2048): y[i, j] sum= x[i, k] * w[j, k] init 0.0\n"},
    {"a100", "tile",
     "program convolution\ninput x: f32[1,256,3,3]\nconstant w: f32[8,256,3,3]\n"
     "temp p: f32[1,256,5,5]\ntemp s: f32[1,8,3,3]\noutput y: f32[1,8,3,3]\n"
     "block around(n:1, c:256, h:5, v:5): p[n, c, h, v] = select(and(and(1 <= h, h < 4), "
     "and(1 <= v, v < 4)), x[n, c, h - 1, v - 1], 0.0)\n"
     "block conv(n:1, o:8, h:3, v:3 | c:256, r:3, q:3): s[n, o, h, v] sum= "
     "p[n, c, h + r, v + q] * w[o, c, r, q] init 0.0\n"
     "block relu(n:1, o:8, h:3, v:3): y[n, o, h, v] = max(s[n, o, h, v], 0.0)\n"},
    {"a100", "warp",
     "program halves\ninput x: f16[8,4096]\ninput w: f16[8,4096]\noutput y: f32[8,8]\n"
     "block mul(i:8, j:8 | k:4096): y[i, j] sum= f32(x[i, k]) * f32(w[j, k]) init 0.0\n"},
};

static kiln_space space_of(kiln_arena *arena, const kiln_program *te, const char *target) {
    static const kiln_space_options options = {.keeps_refused = true, .accuracy = {.exact = true}};
    kiln_target *t = KILN_ARENA_NEW(arena, kiln_target);
    kiln_space space;
    *t = target_of(arena, target);
    expect_ok(kiln_space_create_with(te, t, &options, arena, &space));
    return space;
}

/* A second launch adds up what many more groups made. */
static void few_tiles_are_split(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(example); i++) {
        kiln_program *te = parsed(*state, example[i].text), *scheduled;
        const kiln_space space = space_of(*state, te, example[i].target);
        kiln_trace trace;
        kiln_lowered lowered;
        assert_string_equal(space.rule, example[i].rule);
        assert_string_equal(space.sketch[space.preferred].options, "split");
        expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
        expect_ok(kiln_program_verify(scheduled));
        expect_computes(te, scheduled, i);
        kiln_status st = grid_equals_on(te, scheduled, space.target, i, &lowered);
        if (st) fail_msg("%s: %s", example[i].text, kiln_status_text(st));
        assert_int_equal(lowered.run_launches.count, 2);
        assert_true(lowered.run_launches.scratch_bytes > 0);
    }
}

#define DRAWS 16 /* of each example; the first one is run */

static void what_is_drawn_is_right_and_within_limits(void **state) {
    kiln_rand rand;
    kiln_rand_init(&rand, 5);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(example); i++) {
        kiln_program *te = parsed(*state, example[i].text), *scheduled;
        const kiln_space space = space_of(*state, te, example[i].target);
        const kiln_gpu_limits limits = kiln_gpu_limits_of(space.target);
        assert_int_equal(space.sketch_count, 2); /* split and whole */
        for (uint32_t k = 0; k < DRAWS; k++) {
            kiln_trace trace;
            kiln_lowered lowered;
            kiln_status st =
                kiln_trace_replay(&space.sketch[0].open, te, &rand, *state, &scheduled, &trace);
            if (!st && k == 0)
                st = grid_equals_on(te, scheduled, space.target, k, &lowered);
            else if (!st)
                st = kiln_lower(scheduled, space.target, *state, &lowered);
            if (st) fail_msg("%s: %s", example[i].text, kiln_status_text(st));
            for (uint32_t n = 0; n < lowered.run_launches.count; n++) {
                const kiln_launch *l = &lowered.run_launches.launch[n];
                assert_true((int64_t)l->group_size[0] * l->group_size[1] <= limits.threads);
                assert_true((int64_t)l->shared_bytes <= limits.shared_bytes);
                assert_int_equal(l->local_bytes, 0);
            }
        }
    }
}

/* Behind a part's steps lie those of the next one, no zeros that could fill up an instruction. */
static void parts_have_steps_for_whole_instructions(void **state) {
    static const int64_t steps[] = {64, 128}; /* of wgmma, in two parts: half a block, a block */
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT};
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(steps); i++) {
        kiln_program *scheduled,
            *te = parsed(
                *state,
                kiln_arena_printf(*state,
                                  "program p\ninput x: f16[64,%lld]\ninput w: f16[64,%lld]\n"
                                  "output y: f32[64,64]\nblock mul(i:64, j:64 | k:%lld): "
                                  "y[i, j] sum= f32(x[i, k]) * f32(w[j, k]) init 0.0\n",
                                  (long long)steps[i], (long long)steps[i], (long long)steps[i]));
        const kiln_space space = space_of(*state, te, "h200");
        uint32_t groups = 0, warps = 0;
        for (uint32_t k = 0; k < 4 * space.sketch_count; k++) {
            const kiln_sketch *sketch = &space.sketch[k % space.sketch_count];
            kiln_trace trace;
            kiln_lowered lowered;
            kiln_str ptx;
            uint64_t scratch, worker;
            if (!strstr(sketch->options, "split")) continue;
            expect_ok(kiln_trace_replay(&sketch->open, te, &rand, *state, &scheduled, &trace));
            expect_ok(kiln_lower(scheduled, space.target, *state, &lowered));
            expect_ok(
                kiln_codegen(&lowered, space.target, &options, *state, &ptx, &scratch, &worker));
            const char *text = kiln_str_dup(*state, ptx);
            const bool by_groups = strstr(text, "wgmma.mma_async") != NULL;
            assert_true(by_groups || strstr(text, "mma.sync"));
            groups += by_groups;
            warps += !by_groups;
        }
        assert_true(warps > 0);
        assert_int_equal(groups > 0, i == 1);
    }
}

/* Each part has whole blocks of contiguous steps, so that fetches are as wide as without parts. */
static void fetches_stay_wide(void **state) {
    kiln_program *te = parsed(*state, example[0].text), *scheduled;
    const kiln_space space = space_of(*state, te, example[0].target);
    kiln_trace trace;
    kiln_strbuf text = {0};
    expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
    kiln_program_print(scheduled, &text);
    expect_contains(text.data, "vectorize x.read.d0.f.2 in 4:");
    kiln_strbuf_deinit(&text);
}

static void enough_tiles_are_left_whole(void **state) {
    static const char product[] =
        "program product\ninput x: f32[8192,4096]\ninput w: f32[4096,8192]\n"
        "output y: f32[8192,8192]\n"
        "block mul(i:8192, j:8192 | k:4096): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n";
    const kiln_space space = space_of(*state, parsed(*state, product), "h200");
    assert_int_equal(space.sketch_count, 1);
    assert_string_equal(space.sketch[0].options, "");
}

static void a_default_says_why_its_sums_are_whole_or_in_no_more_parts(void **state) {
    static const struct {
        int rows, columns, steps;
        const char *why;
    } row[] = {
        {8192, 8192, 4096, "not split among blocks: each unit has blocks enough"},
        {64, 64, 30, "not split among blocks: 30 steps make no 2 equal parts of 16 or more"},
        {64, 64, 33, "not split among blocks: 33 steps make no 2 equal parts of 16 or more"},
        {64, 64, 32, "not split among blocks: with parts it is expected to take "},
        {8, 8, 65536, "in parts, but in no more of them: a sum has at most 16 parts"},
        {8, 8, 3 * 1024, "in parts, but in no more of them: "},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_strbuf words = {0};
        const char *product = kiln_arena_printf(
            *state,
            "program product\ninput x: f32[%d,%d]\ninput w: f32[%d,%d]\noutput y: f32[%d,%d]\n"
            "block mul(i:%d, j:%d | k:%d): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n",
            row[i].rows, row[i].steps, row[i].steps, row[i].columns, row[i].rows, row[i].columns,
            row[i].rows, row[i].columns, row[i].steps);
        const kiln_space space = space_of(*state, parsed(*state, product), "h200");
        kiln_space_explain_split(&space, *state, &words);
        expect_contains(words.data, row[i].why);
        assert_null(strchr(strchr(words.data, '\n') + 1, '\n')); /* once */
        kiln_strbuf_deinit(&words);
    }
    const kiln_space other = space_of(*state, parsed(*state, example[0].text), "x86-64-v3");
    kiln_strbuf none = {0};
    kiln_space_explain_split(&other, *state, &none);
    assert_int_equal(none.size, 0);
}

/* Convolutions of 7x7 at batch 1 have tiles for a part of the units. */
static void a_network_uses_it(void **state) {
    kiln_strbuf bytes = {0};
    kiln_graph *graph;
    kiln_tasks tasks;
    uint32_t split = 0;
    expect_ok(kiln_zoo_build(KILN_STR("resnet18"), 1, &bytes));
    expect_ok(kiln_import_bytes(kiln_strbuf_view(&bytes), NULL, NULL, *state, &graph));
    kiln_strbuf_deinit(&bytes);
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    expect_ok(kiln_tasks_extract(graph, *state, &tasks));
    for (uint32_t t = 0; t < tasks.count; t++) {
        const kiln_space space = space_of(*state, tasks.task[t].te, "h200");
        split += strcmp(space.sketch[space.preferred].options, "split") == 0;
    }
    assert_true(split > 0);
}

#define RUNS 4

/* On a device, whose groups run in any order. */
static void sums_are_the_same_on_every_run(void **state) {
    kiln_device *device;
    kiln_status st = opencl_board_open(&device);
    if (st) {
        kiln_status_free(st); /* no driver, or no device */
        skip_because("no OpenCL device: install pocl-opencl-icd");
    }
    kiln_program *te = parsed(*state, example[1].text), *scheduled;
    const kiln_space space = space_of(*state, te, "opencl");
    kiln_trace trace;
    kiln_artefact artefact;
    kiln_tensor arg[3];
    expect_ok(kiln_space_default(&space, *state, &trace, &scheduled));
    assert_string_equal(space.sketch[space.preferred].options, "split");
    expect_ok(
        kiln_build_scheduled(te, KILN_STR("test"), scheduled, space.target, *state, &artefact));
    for (uint32_t a = 0; a < 3; a++) {
        arg[a] = kiln_tensor_create(*state, KILN_F32, &te->buffer.data[a + 1].shape);
        float *value = arg[a].data; /* sums of these depend on their order */
        for (int64_t i = 0; i < kiln_shape_count(&arg[a].shape); i++)
            value[i] = 1.0f / (float)(1 + (i * 7919 + a) % 1009);
    }
    const size_t size = kiln_tensor_bytes(&arg[2]);
    expect_ok(run_on_device(device, &artefact, te, arg, 1));
    const void *first = kiln_arena_copy(*state, arg[2].data, size);
    for (uint32_t run = 1; run < RUNS; run++) {
        memset(arg[2].data, 0, size);
        expect_ok(run_on_device(device, &artefact, te, arg, 1));
        assert_memory_equal(arg[2].data, first, size);
    }
    opencl_board_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(few_tiles_are_split),
        test_with_arena(what_is_drawn_is_right_and_within_limits),
        test_with_arena(parts_have_steps_for_whole_instructions),
        test_with_arena(fetches_stay_wide),
        test_with_arena(enough_tiles_are_left_whole),
        test_with_arena(a_default_says_why_its_sums_are_whole_or_in_no_more_parts),
        test_with_arena(a_network_uses_it),
        test_with_arena(sums_are_the_same_on_every_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
