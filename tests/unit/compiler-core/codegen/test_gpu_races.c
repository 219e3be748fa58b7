/* Kernels of the ten networks' distinct tasks, made small, under oclgrind: what they compute, and
 * no data race, no access out of bounds, no barrier in a branch. Every eighth of them, all with
 * KILN_GPU_RACES=all (./dev test gpu_races). */
#include <string.h>

#include "base/opt.h"
#include "compiler-core/build.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/zoo/zoo.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/task/task.h"
#include "tests/support/gpu_programs.h"
#include "tests/unit/compiler-core/codegen/device_board.h"

#define EXTENT_MAX 6
#define TASKS_MAX 512
#define EVERY 8 /* of the tasks, in an ordinary run */
#define DRAWN 8 /* of each program of its own */

static kiln_str seen[TASKS_MAX];
static uint32_t seen_count;

static bool is_new(kiln_str key) {
    for (uint32_t i = 0; i < seen_count; i++)
        if (kiln_str_equal(seen[i], key)) return false;
    assert_true(seen_count < TASKS_MAX);
    seen[seen_count++] = key;
    return true;
}

/* With its default schedule; `name` is for messages. */
static void run_program(kiln_str name, const kiln_program *program, kiln_device *device) {
    kiln_arena arena;
    kiln_space space;
    kiln_trace trace;
    kiln_program *scheduled;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_program *te = kiln_program_copy(program, &arena);
    const kiln_target target = target_of(&arena, GPU_PROGRAMS_TARGET);
    const kiln_space_options options = {.accuracy = {.exact = true}};
    expect_ok(kiln_space_create_with(te, &target, &options, &arena, &space));
    expect_ok(kiln_space_default(&space, &arena, &trace, &scheduled));
    expect_ok(expect_runs_equal(te, scheduled, &target, NULL, 0, 1, run_on_device, device));
    const char *findings = gpu_oclgrind_findings(&arena);
    if (*findings) fail_msg("%.*s: %s", KILN_STR_ARG(name), findings);
    kiln_arena_deinit(&arena);
}

static void run_task(const kiln_task *task, kiln_device *device, kiln_arena *arena) {
    kiln_program *te = kiln_program_copy(task->te, arena);
    gpu_program_shrink(te, EXTENT_MAX);
    run_program(task->op, te, device);
}

/* What no network made small has: sums whose steps threads share, and a reduction in parts. */
static void sums_have_no_races(kiln_device *device, kiln_arena *arena) {
    static const char *const text[] = {
        "program columns\ninput x: f32[300]\ninput w: f32[300,40]\noutput y: f32[40]\n"
        "block mul(j:40 | k:300): y[j] sum= x[k] * w[k, j] init 0.0\n",
        "program means\ninput x: f32[5,13,14]\ntemp s: f32[5]\noutput y: f32[5,13]\n"
        "block sum(n:5 | h:13, v:14): s[n] sum= x[n, h, v] init 0.0\n"
        "block less(n:5, h:13): y[n, h] = x[n, h, 0] - s[n]\n",
        "program all\ninput x: f32[21,50]\noutput y: f32[]\n"
        "block sum( | i:21, j:50): y[] sum= x[i, j] init 0.0\n",
        "program split\ninput x: f32[5,2048]\ninput w: f32[6,2048]\noutput y: f32[5,6]\n"
        "block mul(i:5, j:6 | k:2048): y[i, j] sum= x[i, k] * w[j, k] init 0.0\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_program *te;
        expect_ok(kiln_program_parse(kiln_str_from(text[i]), arena, &te));
        run_program(te->name, te, device);
    }
}

/* With its barriers taken out. */
static kiln_status run_without_barriers(void *device, const kiln_artefact *artefact,
                                        const kiln_program *te, const kiln_tensor *args,
                                        uint32_t workers) {
    kiln_artefact raced = *artefact;
    char *text = kiln_arena_copy(te->arena, artefact->payload.data, artefact->payload.size);
    uint32_t count = 0;
    for (size_t i = 0; i + 8 <= artefact->payload.size; i++) {
        if (memcmp(text + i, "barrier(", 8) != 0) continue;
        const char *end = memchr(text + i, ';', artefact->payload.size - i);
        assert_non_null(end);
        memset(text + i, ' ', (size_t)(end - (text + i)));
        count++;
    }
    assert_true(count > 0);
    raced.payload.data = text;
    return run_on_device(device, &raced, te, args, workers);
}

/* A product in tiles; outputs are right all the same, since oclgrind runs threads in order. */
static void a_barrier_that_is_missing_is_found(kiln_device *device, kiln_arena *arena) {
    static const char product[] =
        "program p\ninput x: f32[64,64]\ninput w: f32[64,64]\noutput y: f32[64,64]\n"
        "block mul(i:64, j:64 | k:64): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n";
    kiln_program *te, *scheduled;
    kiln_space space;
    kiln_trace trace;
    kiln_artefact artefact;
    kiln_tensor arg[3];
    const kiln_target target = target_of(arena, GPU_PROGRAMS_TARGET);
    const kiln_shape shape = {2, {64, 64}};
    expect_ok(kiln_program_parse(kiln_str_from(product), arena, &te));
    expect_ok(kiln_space_create(te, &target, arena, &space));
    expect_ok(kiln_space_default(&space, arena, &trace, &scheduled));
    expect_ok(kiln_build_scheduled(te, KILN_STR("test"), scheduled, &target, arena, &artefact));
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(arg); i++)
        arg[i] = kiln_tensor_create(arena, KILN_F32, &shape);
    expect_ok(run_on_device(device, &artefact, te, arg, 1));
    assert_string_equal(gpu_oclgrind_findings(arena), "");
    kiln_status_free(run_without_barriers(device, &artefact, te, arg, 1)); /* whatever it gives */
    expect_contains(gpu_oclgrind_findings(arena), "data race");
}

/* Tiles as searches draw them: stages, parts and rows that lie apart, groups that take turns. */
static void what_is_drawn_has_no_races(kiln_device *device, kiln_arena *arena) {
    static const char *const text[] = {
        "program p\ninput x: f32[48,40]\ninput w: f32[40,36]\noutput y: f32[48,36]\n"
        "block mul(i:48, j:36 | k:40): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n",
        "program c\ninput x: f32[1,8,10,10]\nconstant w: f32[16,8,3,3]\noutput y: f32[1,16,8,8]\n"
        "block conv(n:1, o:16, h:8, v:8 | i:8, r:3, q:3): y[n, o, h, v] sum= x[n, i, h + r, v + q]"
        " * w[o, i, r, q] init 0.0\n",
    };
    const kiln_target target = target_of(arena, GPU_PROGRAMS_TARGET);
    const kiln_space_options options = {.accuracy = {.exact = true}};
    kiln_rand rand;
    kiln_rand_init(&rand, 5);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        for (uint32_t k = 0; k < DRAWN; k++) {
            kiln_program *te, *scheduled;
            kiln_space space;
            kiln_trace closed;
            expect_ok(kiln_program_parse(kiln_str_from(text[i]), arena, &te));
            expect_ok(kiln_space_create_with(te, &target, &options, arena, &space));
            assert_string_equal(space.rule, "tile");
            expect_ok(kiln_space_sample(&space, &rand, arena, &closed, &scheduled));
            expect_ok(expect_runs_equal(te, scheduled, &target, NULL, 0, 1, run_on_device, device));
            const char *findings = gpu_oclgrind_findings(arena);
            if (*findings) fail_msg("drawn %u of program %u: %s", k, i, findings);
        }
}

static void kernels_of_the_networks_have_no_races(void **state) {
    static const char *const name[] = {
#define X(name, function, doc) name,
#include "compiler-core/frontend/zoo/networks.def"
#undef X
    };
    kiln_device *device;
    char *folder = make_folder(*state);
    if (!gpu_oclgrind_begin(folder, true, *state)) {
        remove_folder(folder);
        skip_because("no oclgrind: install oclgrind");
    }
    expect_ok(opencl_board_open(&device));
    const bool all = kiln_env("KILN_GPU_RACES") != NULL;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        kiln_strbuf bytes = {0};
        kiln_graph *graph;
        kiln_tasks tasks;
        expect_ok(kiln_zoo_build(kiln_str_from(name[i]), 1, &bytes));
        expect_ok(kiln_import_bytes(kiln_strbuf_view(&bytes), NULL, NULL, *state, &graph));
        kiln_strbuf_deinit(&bytes);
        expect_ok(kiln_passes_run(graph, (kiln_str){0}));
        expect_ok(kiln_tasks_extract(graph, *state, &tasks));
        for (uint32_t t = 0; t < tasks.count; t++)
            if (is_new(tasks.task[t].key) && (all || seen_count % EVERY == 0))
                run_task(&tasks.task[t], device, *state);
    }
    assert_true(seen_count > 100);
    sums_have_no_races(device, *state);
    what_is_drawn_has_no_races(device, *state);
    a_barrier_that_is_missing_is_found(device, *state);
    opencl_board_close();
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(kernels_of_the_networks_have_no_races),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
