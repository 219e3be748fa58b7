/* Graphs to modules, packed for every level of x86-64: what a module computes is what the
 * interpreter of the graph says, whatever layouts its kernels chose, and buffers share memory only
 * while they may. */
#include "deploy/pack/pack.h"

#include <stdio.h>
#include <string.h>

#include "base/kernel_abi.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/zoo/zoo.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/sched/trace.h"
#include "deploy/module.h"
#include "deploy/runtime/module_read.h"
#include "tests/support/interpreter.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/graph/support.h"
#include "tests/unit/db/support.h"

#define PORTS_MAX 8

static const char *the_level; /* that the running case packs for; set_up sets it */

typedef struct packed {
    kiln_arena *arena;
    kiln_graph *graph;
    kiln_target target;
    kiln_str bytes; /* aligned */
    kiln_pack_report report;
    kiln_module_plan plan;
} packed;

static kiln_str aligned_copy(kiln_arena *arena, kiln_str bytes) {
    char *room = kiln_arena_alloc(arena, bytes.size + KILN_MODULE_SECTION_ALIGNMENT);
    char *at = room + (-(uintptr_t)room & (KILN_MODULE_SECTION_ALIGNMENT - 1));
    memcpy(at, bytes.data, bytes.size);
    return (kiln_str){at, bytes.size};
}

static packed pack_graph_without(kiln_arena *arena, kiln_graph *graph, kiln_db *db,
                                 uint32_t without) {
    packed m = {.arena = arena, .graph = graph, .target = target_of(arena, the_level)};
    kiln_strbuf bytes = {0};
    size_t constant_bytes;
    kiln_module_sizes sizes;
    kiln_compilation *compilation = NULL;
    const kiln_pack_stored stored = kiln_pack_stored_in(db);
    const kiln_pack_options options = {
        .stored = db ? &stored : NULL, .model_name = KILN_STR("test"), .without = without};
    expect_ok(kiln_compilation_create(graph, &m.target, arena, &compilation));
    expect_ok(kiln_pack(compilation, &options, arena, &bytes, &m.report));
    m.bytes = aligned_copy(arena, kiln_strbuf_view(&bytes));
    kiln_strbuf_deinit(&bytes);
    expect_ok(kiln_module_decode(m.bytes, arena, &sizes, &constant_bytes));
    m.plan = sizes.bucket->plan;
    return m;
}

static packed pack_graph(kiln_arena *arena, kiln_graph *graph, kiln_db *db) {
    return pack_graph_without(arena, graph, db, 0);
}

static packed pack_text(kiln_arena *arena, const char *text) {
    return pack_graph(arena, graph_of(arena, text), NULL);
}

static void expect_close(const kiln_tensor *got, const kiln_tensor *wanted, uint32_t output) {
    for (int64_t i = 0; i < kiln_shape_count(&wanted->shape); i++) {
        double a = kiln_dtype_load_f64(got->dtype, got->data, (size_t)i);
        double b = kiln_dtype_load_f64(wanted->dtype, wanted->data, (size_t)i);
        double difference = a > b ? a - b : b - a, size = b > 0 ? b : -b;
        if (!(difference <= 1e-4 * (size + 1)))
            fail_msg("output %u element %lld is %.9g, not %.9g", output, (long long)i, a, b);
    }
}

static kiln_tensor value_like(const packed *m, kiln_value value) {
    const kiln_value_info *info = &m->graph->value.data[value];
    return kiln_tensor_create(m->arena, info->dtype, &info->shape);
}

/* Two runs on different data, in memory with old bytes in it, where this machine runs the level. */
static void expect_module_equals_graph(const packed *m) {
    if (!runs_here(&m->target, m->arena)) return;
    kiln_module *module = NULL;
    char error[KILN_MODULE_ERROR_BYTES] = "";
    if (kiln_module_open_memory(m->bytes.data, m->bytes.size, NULL, &module, error, sizeof error))
        fail_msg("%s", error);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        kiln_tensor input[PORTS_MAX], wanted[PORTS_MAX], got[PORTS_MAX];
        const void *in[PORTS_MAX];
        void *out[PORTS_MAX];
        for (uint32_t i = 0; i < m->graph->input.count; i++) {
            input[i] = value_like(m, m->graph->input.data[i]);
            kiln_fill_data(input[i].data, input[i].dtype, (size_t)kiln_shape_count(&input[i].shape),
                           seed * 100 + i, KILN_FILL_UNIFORM);
            in[i] = input[i].data;
        }
        expect_ok(kiln_graph_eval(m->graph, input, m->arena, wanted));
        for (uint32_t i = 0; i < m->graph->output.count; i++) {
            got[i] = value_like(m, m->graph->output.data[i]);
            memset(got[i].data, 0x5a, kiln_tensor_bytes(&got[i]));
            out[i] = got[i].data;
        }
        if (kiln_module_run(module, in, out)) fail_msg("%s", kiln_module_error(module));
        for (uint32_t i = 0; i < m->graph->output.count; i++) expect_close(&got[i], &wanted[i], i);
    }
    kiln_module_close(module);
}

#define NETWORK                                                               \
    "graph network\n"                                                         \
    "input x: f32[1,3,9,9]\n"                                                 \
    "constant w1: f32[8,3,3,3] = hash \"00112233445566778899aabbccddeeff\"\n" \
    "constant w2: f32[8,8,3,3] = hash \"10112233445566778899aabbccddeeff\"\n" \
    "constant w3: f32[8,5] = hash \"20112233445566778899aabbccddeeff\"\n"     \
    "a: f32[1,8,9,9] = conv(x, w1) pads=[1,1,1,1] kernel 1\n"                 \
    "b: f32[1,8,9,9] = relu(a) kernel 1\n"                                    \
    "c: f32[1,8,9,9] = conv(b, w2) pads=[1,1,1,1] kernel 2\n"                 \
    "d: f32[1,8,9,9] = add(c, b) kernel 2\n"                                  \
    "e: f32[1,8,1,1] = global_average_pool(d)\n"                              \
    "f: f32[1,8] = flatten(e)\n"                                              \
    "g: f32[1,5] = matmul(f, w3)\n"                                           \
    "h: f32[1,5] = softmax(g)\n"

/* ---- promises -------------------------------------------------------------------------------- */

static void a_small_network_gives_what_the_interpreter_says(void **state) {
    packed m = pack_text(*state, NETWORK "output h\n");
    expect_module_equals_graph(&m);
}

static void any_value_may_be_an_output(void **state) {
    packed m =
        pack_text(*state, NETWORK "output b\noutput h\noutput f\noutput b\noutput x\noutput w3\n");
    assert_int_equal(m.plan.output_count, 6);
    expect_module_equals_graph(&m);
}

static void aliases_of_inputs_and_of_aliases_are_the_same_bytes(void **state) {
    packed m = pack_text(*state, "graph views\ninput x: f32[2,3,4]\n"
                                 "a: f32[2,12] = flatten(x) axis=1\n"
                                 "b: f32[1,24] = flatten(a) axis=0\n"
                                 "c: f32[1,24] = neg(b)\n"
                                 "d: f32[24,1] = flatten(c) axis=2\n"
                                 "output d\noutput b\n");
    expect_module_equals_graph(&m);
}

static void equal_tasks_share_a_kernel(void **state) {
    packed m = pack_text(
        *state, "graph twice\ninput x: f32[64]\na: f32[64] = relu(x)\nb: f32[64] = neg(a)\n"
                "c: f32[64] = relu(b)\noutput c\n");
    assert_int_equal(m.plan.kernel_count, 2);
    assert_int_equal(m.plan.step_count, 3);
    expect_module_equals_graph(&m);
}

static uint32_t last_use(const kiln_module_plan *plan, uint32_t buffer) {
    uint32_t last = 0;
    for (uint32_t s = 0; s < plan->step_count; s++)
        for (uint32_t i = 0; i < plan->step[s].arg_count; i++)
            if (kiln_module_plan_root(plan, plan->step[s].arg[i]) == buffer) last = s;
    return last;
}

static uint32_t first_use(const kiln_module_plan *plan, uint32_t buffer) {
    for (uint32_t s = 0; s < plan->step_count; s++)
        for (uint32_t i = 0; i < plan->step[s].arg_count; i++)
            if (kiln_module_plan_root(plan, plan->step[s].arg[i]) == buffer) return s;
    return plan->step_count;
}

static void expect_no_live_overlap(const kiln_module_plan *plan) {
    for (uint32_t a = 0; a < plan->buffer_count; a++) {
        for (uint32_t b = 0; b < a; b++) {
            const kiln_plan_buffer *one = &plan->buffer[a], *other = &plan->buffer[b];
            if (one->storage != KILN_STORAGE_ARENA || other->storage != KILN_STORAGE_ARENA)
                continue;
            bool meet =
                first_use(plan, a) <= last_use(plan, b) && first_use(plan, b) <= last_use(plan, a);
            bool overlap = one->offset < other->offset + other->size_bytes &&
                           other->offset < one->offset + one->size_bytes;
            uint32_t early = first_use(plan, a) < first_use(plan, b) ? a : b, late = a + b - early;
            bool in_place = one->offset == other->offset && one->size_bytes == other->size_bytes &&
                            last_use(plan, early) == first_use(plan, late);
            if (meet && overlap && !in_place)
                fail_msg("buffers %u and %u share bytes while both are alive", a, b);
        }
    }
}

static void memory_is_used_again_but_never_while_it_is_needed(void **state) {
    packed m = pack_text(*state, "graph chain\ninput x: f32[1000]\n"
                                 "a: f32[1000] = relu(x)\n"
                                 "b: f32[1000] = exp(a)\n"
                                 "c: f32[1000] = neg(b)\n"
                                 "d: f32[1000] = sin(c)\n"
                                 "e: f32[1000] = add(a, d)\n"
                                 "f: f32[1000] = tanh(e)\noutput f\n");
    expect_no_live_overlap(&m.plan);
    assert_true(m.report.arena_bytes < m.report.value_bytes);
    assert_true(m.report.arena_bytes <= 3 * 4096); /* a, and two of the others at a time */
    expect_module_equals_graph(&m);
    m = pack_text(*state, NETWORK "output h\n");
    expect_no_live_overlap(&m.plan);
}

static packed pack_without(kiln_arena *arena, const char *text, uint32_t without) {
    packed m = {.arena = arena, .graph = graph_of(arena, text)};
    return pack_graph_without(arena, m.graph, NULL, without);
}

#define CHAIN                                                                         \
    "graph chain\ninput x: f32[1000]\na: f32[1000] = exp(x)\nb: f32[1000] = sin(a)\n" \
    "c: f32[1000] = tanh(b)\nd: f32[1000] = abs(c)\noutput d\n"

static void results_overwrite_inputs_that_nobody_needs(void **state) {
    packed m = pack_text(*state, CHAIN);
    assert_int_equal(m.report.arena_bytes, 4032); /* one value, aligned */
    expect_module_equals_graph(&m);
}

/* a is read once more after the step that could overwrite it. */
static void what_is_needed_later_is_not_overwritten(void **state) {
    packed m = pack_text(
        *state, "graph late\ninput x: f32[1000]\na: f32[1000] = exp(x)\nb: f32[1000] = sin(a)\n"
                "c: f32[1000] = tanh(b)\nd: f32[1000] = sub(a, c)\noutput d\n");
    assert_int_equal(m.report.arena_bytes, 2 * 4032);
    expect_module_equals_graph(&m);
}

/* Every element of the result depends on all of a; and b reads a in another order. */
static void only_the_same_elements_are_overwritten(void **state) {
    packed m = pack_text(
        *state,
        "graph order\ninput x: f32[20,20]\na: f32[20,20] = exp(x)\nb: f32[20,20] = transpose(a)\n"
        "c: f32[20,20] = cum_sum(b) axis=[1]\nd: f32[20,20] = neg(c)\noutput d\n");
    expect_module_equals_graph(&m);
    expect_no_live_overlap(&m.plan);
}

static void planners_can_be_left_out(void **state) {
    packed m = pack_without(*state, CHAIN, 1u << KILN_PLANNER_IN_PLACE);
    assert_int_equal(m.report.arena_bytes, 2 * 4032);
    expect_module_equals_graph(&m);
    m = pack_without(*state, CHAIN, 1u << KILN_PLANNER_IN_PLACE | 1u << KILN_PLANNER_REUSE);
    assert_int_equal(m.report.arena_bytes, 3 * 4032);
    expect_module_equals_graph(&m);
    for (int i = 0; i < 2; i++) {
        const kiln_planner planner = i ? KILN_PLANNER_EXCHANGE : KILN_PLANNER_LAYOUT;
        m = pack_without(*state, NETWORK "output h\n", 1u << planner);
        assert_int_equal(m.report.conversion_count, 0);
        expect_module_equals_graph(&m);
    }
}

/* Kernels whose operator begins with `op`. */
static uint32_t kernels_of(const packed *m, const char *op) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < m->plan.step_count; s++)
        count +=
            m->plan.step[s].action == KILN_ACTION_KERNEL && kiln_str_starts(m->plan.step[s].op, op);
    return count;
}

static uint32_t copies_of(const packed *m) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < m->plan.step_count; s++)
        count += m->plan.step[s].action == KILN_ACTION_COPY;
    return count;
}

#define BRANCHES                                                               \
    "graph branches\ninput x: f32[1,8,6,6]\n"                                  \
    "constant w1: f32[16,8,1,1] = hash \"00112233445566778899aabbccddeeff\"\n" \
    "constant w3: f32[24,8,3,3] = hash \"10112233445566778899aabbccddeeff\"\n" \
    "constant k: f32[1,8,6,6] = hash \"20112233445566778899aabbccddeeff\"\n"   \
    "a: f32[1,16,6,6] = conv(x, w1)\nb: f32[1,24,6,6] = conv(x, w3) pads=[1,1,1,1]\n"

/* Packed with windows and without: both compute what the interpreter says. */
static packed pack_windows(kiln_arena *arena, const char *text) {
    packed without = pack_without(arena, text, 1u << KILN_PLANNER_WINDOWS);
    assert_int_equal(without.report.window_bytes, 0);
    expect_module_equals_graph(&without);
    packed m = pack_text(arena, text);
    expect_no_live_overlap(&m.plan);
    expect_module_equals_graph(&m);
    return m;
}

static void operands_are_written_where_they_end_up(void **state) {
    const char *text = BRANCHES "j: f32[1,40,6,6] = concat(a, b) axis=1\n"
                                "y: f32[1,40,1,1] = global_average_pool(j)\noutput y\n";
    packed m = pack_windows(*state, text);
    assert_int_equal(kernels_of(&m, "concat"), 0);
    assert_int_equal(copies_of(&m), 0);
    assert_int_equal(m.report.window_bytes, 40 * 36 * 4);
    packed without = pack_without(*state, text, 1u << KILN_PLANNER_WINDOWS);
    assert_int_equal(kernels_of(&without, "concat"), 1);
    assert_true(m.report.live_bytes < without.report.live_bytes);
}

/* What cannot be written in place is copied or converted there: a graph input, a constant, an
 * output of the graph, an operand that has its place already. */
static void other_operands_are_brought_into_their_places(void **state) {
    packed m = pack_windows(*state, BRANCHES
                            "j: f32[1,80,6,6] = concat(a, x, k, b, b) axis=1\n"
                            "y: f32[1,80,1,1] = global_average_pool(j)\noutput y\noutput a\n");
    assert_int_equal(kernels_of(&m, "concat"), 0);
    assert_int_equal(m.report.window_bytes, 24 * 36 * 4);
}

static void concatenations_nest(void **state) {
    packed m = pack_windows(
        *state, BRANCHES "j: f32[1,40,6,6] = concat(a, b) axis=1\n"
                         "constant w: f32[8,40,1,1] = hash \"30112233445566778899aabbccddeeff\"\n"
                         "c: f32[1,8,6,6] = conv(j, w)\n"
                         "l: f32[1,48,6,6] = concat(j, c) axis=1\n"
                         "y: f32[1,48,1,1] = global_average_pool(l)\noutput y\n");
    assert_int_equal(kernels_of(&m, "concat"), 0);
    assert_int_equal(copies_of(&m), 0);
}

static void an_output_may_be_written_in_parts(void **state) {
    packed m = pack_windows(*state, "graph out\ninput x: f32[4,32]\na: f32[4,32] = exp(x)\n"
                                    "b: f32[1,32] = reduce_sum(x) axes=[0]\n"
                                    "y: f32[5,32] = concat(a, b) axis=0\noutput y\n");
    assert_int_equal(m.report.arena_bytes, 0);
    assert_int_equal(kernels_of(&m, "concat"), 0);
}

static void slices_are_read_where_they_lie(void **state) {
    packed m = pack_windows(*state, "graph cut\ninput x: f32[6,32]\ns: f32[6,32] = softmax(x)\n"
                                    "p: f32[2,32], q: f32[4,32] = split(s) axis=0 split=[2,4]\n"
                                    "a: f32[2,1] = reduce_sum(p) axes=[1]\n"
                                    "b: f32[4,1] = reduce_max(q) axes=[1]\n"
                                    "c: f32[4,32] = softmax(q)\noutput a\noutput b\noutput c\n");
    assert_int_equal(kernels_of(&m, "split"), 0);
    assert_int_equal(m.report.window_bytes, 6 * 32 * 4);
}

/* Rows of 12 bytes; columns; channels within a block of a layout: kernels move these. */
static void what_is_no_run_of_bytes_is_copied_by_a_kernel(void **state) {
    packed m =
        pack_windows(*state, "graph odd\ninput x: f32[4,3]\na: f32[1,3] = reduce_max(x) axes=[0]\n"
                             "b: f32[1,3] = reduce_sum(x) axes=[0]\n"
                             "y: f32[2,3] = concat(a, b) axis=0\noutput y\n");
    assert_int_equal(kernels_of(&m, "concat"), 1);
    m = pack_windows(*state,
                     "graph columns\ninput x: f32[4,32]\na: f32[4,1] = reduce_max(x) axes=[1]\n"
                     "b: f32[4,1] = reduce_sum(x) axes=[1]\n"
                     "y: f32[4,2] = concat(a, b) axis=1\noutput y\n");
    assert_int_equal(kernels_of(&m, "concat"), 1);
}

static void modules_are_the_same_bytes_every_time(void **state) {
    packed a = pack_text(*state, NETWORK "output h\n"), b = pack_text(*state, NETWORK "output h\n");
    assert_int_equal(a.bytes.size, b.bytes.size);
    assert_memory_equal(a.bytes.data, b.bytes.data, a.bytes.size);
}

/* Without any record the default schedules agree, and memory is what is alive at once. */
static void networks_convert_at_their_edges_only_and_waste_no_memory(void **state) {
    static const char *const name[] = {"resnet18", "squeezenet1_1", "mobilenet_v2"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        kiln_strbuf bytes = {0};
        kiln_graph *graph = NULL;
        expect_ok(kiln_zoo_build(kiln_str_from(name[i]), 1, &bytes));
        expect_ok(kiln_import_bytes(kiln_strbuf_view(&bytes), NULL, NULL, *state, &graph));
        kiln_strbuf_deinit(&bytes);
        expect_ok(kiln_passes_run(graph, (kiln_str){0}));
        packed m = pack_graph(*state, graph, NULL);
        assert_in_range(m.report.conversion_count, 0, 2);
        assert_true((double)m.report.arena_bytes <= 1.1 * (double)m.report.live_bytes);
        assert_true(m.report.value_bytes > 2 * m.report.arena_bytes);
    }
}

/* ---- stored layouts -------------------------------------------------------------------------- */

/* Stores a trace that chose these layouts for each task of that operator. */
static void put_trace(packed *m, kiln_db *db, double us, const char *op, const char *trace_text,
                      const char *in, const char *out) {
    static unsigned number;
    kiln_plan plan;
    kiln_trace trace;
    kiln_strbuf bytes = {0}, target = {0};
    m->target = target_of(m->arena, the_level);
    expect_ok(kiln_plan_create(m->graph, m->arena, &plan));
    expect_ok(kiln_trace_parse(kiln_str_from(trace_text), m->arena, &trace));
    kiln_trace_encode(&trace, &bytes);
    kiln_target_print(&m->target, &target);
    kiln_db_record record = record_of(++number, us * 1000);
    for (uint32_t t = 0; t < plan.tasks.count; t++)
        if (kiln_str_is(plan.tasks.task[t].op, op)) record.task_key = plan.tasks.task[t].key;
    record.target = kiln_strbuf_view(&target);
    record.codegen_version = kiln_str_from(kiln_codegen_version());
    record.trace = kiln_strbuf_view(&bytes);
    record.layout_in = kiln_str_from(in);
    record.layout_out = kiln_str_from(out);
    expect_ok(
        kiln_db_put_task(db, &(kiln_db_task){.key = record.task_key, .op = kiln_str_from(op)}));
    expect_ok(kiln_db_put_target(db, &(kiln_db_target){.target = record.target}));
    expect_ok(kiln_db_put_record(db, &record));
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&target);
}

#define BLOCKED "d0,d1/2,d2,d3,d1%2" /* which no level takes by itself */
/* The convolutions reuse their data, so that nothing but their records says on which layouts they
 * run. */
#define PAIR                                                                                  \
    "graph pair\ninput x: f32[1,8,6,5]\n"                                                     \
    "constant v: f32[8,8,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"                  \
    "constant w: f32[16,8,3,3] = hash \"10112233445566778899aabbccddeeff\"\n"                 \
    "a: f32[1,8,6,5] = relu(x)\nb: f32[1,8,4,3] = conv(a, v)\nc: f32[1,16,4,3] = conv(a, w) " \
    "kernel 3\n"                                                                              \
    "d: f32[1,16,4,3] = neg(c) kernel 3\noutput b\noutput d\n"

static packed pack_pair(kiln_arena *arena, bool blocked_reader) {
    packed m = {.arena = arena, .graph = graph_of(arena, PAIR)};
    kiln_db *db = open_records(":memory:");
    put_parents(db);
    put_trace(&m, db, 1, "relu", "transform_layout(y1, \"" BLOCKED "\")\n", "row", BLOCKED);
    put_trace(&m, db, 1000, "relu", "", "row", "row");
    if (blocked_reader)
        put_trace(&m, db, 1, "conv", "transform_layout(x0, \"" BLOCKED "\")\n", BLOCKED, "row");
    put_trace(&m, db, blocked_reader ? 1000 : 1, "conv", "", "row", "row");
    put_trace(&m, db, 1, "conv+neg", "", "row", "row");
    m = pack_graph(arena, m.graph, db);
    kiln_db_close(db);
    return m;
}

static uint32_t steps_called(const packed *m, const char *op) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < m->plan.step_count; s++) count += kiln_str_is(m->plan.step[s].op, op);
    return count;
}

static void a_conversion_stands_where_layouts_differ(void **state) {
    packed m = pack_pair(*state, false);
    assert_int_equal(m.report.conversion_count, 1); /* once for both readers */
    assert_int_equal(steps_called(&m, "convert"), 1);
    expect_module_equals_graph(&m);
}

static void a_reader_of_the_same_layout_needs_no_conversion(void **state) {
    packed m = pack_pair(*state, true);
    assert_int_equal(m.report.conversion_count, 1); /* for the other alone */
    expect_module_equals_graph(&m);
    assert_float_equal(m.report.task[0].median_ns, 1000, 0);
    assert_false(m.report.task[0].is_default);
}

static void outputs_are_row_major_whatever_kernels_chose(void **state) {
    packed m = {
        .arena = *state,
        .graph = graph_of(
            *state, "graph out\ninput x: f32[1,8,3,5]\na: f32[1,8,3,5] = relu(x)\noutput a\n")};
    kiln_db *db = open_records(":memory:");
    put_parents(db);
    put_trace(&m, db, 1, "relu",
              "transform_layout(x0, \"" BLOCKED "\")\ntransform_layout(y1, \"" BLOCKED "\")\n",
              BLOCKED, BLOCKED);
    put_trace(&m, db, 1000, "relu", "", "row", "row");
    m = pack_graph(*state, m.graph, db);
    kiln_db_close(db);
    assert_int_equal(m.report.conversion_count, 2);
    assert_int_equal(m.plan.kernel_count, 3);
    expect_module_equals_graph(&m);
}

/* Both outputs are wanted, so neither is computed a row at a time beside the other. */
static void several_results_of_a_long_row_are_reduced_in_lanes(void **state) {
    packed m = pack_text(*state, "graph best\ninput x: f32[3,64]\n"
                                 "v: f32[3,3], i: i64[3,3] = top_k(x) k=[3]\n"
                                 "output v\noutput i\n");
    expect_module_equals_graph(&m);
}

static void empty_operands_are_never_read(void **state) {
    packed m = pack_text(*state, "graph empty\ninput x: f32[2,3]\ninput none: f32[2,0]\n"
                                 "y: f32[2,3] = concat(x, none) axis=1\noutput y\n");
    expect_module_equals_graph(&m);
}

/* Rows of three elements: vectors with lanes switched off, in which the address of one load waits
 * for another load under the same mask. */
static void indices_may_be_computed_from_loads_in_part_of_a_vector(void **state) {
    packed m = pack_text(*state, "graph nested\ninput x: f32[3,3]\ninput u: f32[2,3]\n"
                                 "constant i: i64[2,3] = [1, 0, 2, 0, 2, 1]\n"
                                 "y: f32[3,3] = scatter_elements(x, i, u)\noutput y\n");
    expect_module_equals_graph(&m);
}

/* A stage of ResNet-18 on bytes, with fewer channels: a layer, one with a stride and its shortcut,
 * sums of both, and a pooling. Scales are powers of two, so the passes leave shifts in it. */
#define SCALES                                                                                    \
    "constant unit: f32[] = [0.00048828125]\nconstant half: f32[] = [0.000244140625]\n"           \
    "constant by: f32[] = [0.25]\nconstant one: f32[] = [1]\nconstant zero: i8[] = [0]\n"         \
    "constant b: i32[16,1,1] = [1, -2, 300, -4000, 5, 60, 700, -800, 9, 0, 11, 1024, 512, -512, " \
    "1536, 15]\n"
#define LAYER(name, from, weights, window, shape)                                                 \
    name "c: i32" shape " = conv_integer(" from ", " weights ") " window "\n" name "s: i32" shape \
         " = add(" name "c, b)\n" name "f: f32" shape " = cast(" name "s) to=\"f32\"\n" name      \
         "m: f32" shape " = mul(" name "f, unit)\n"
#define BYTES(name, from, shape)                                                                   \
    name "r: f32" shape " = relu(" from ")\n" name "h: f32" shape " = add(" name "r, half)\n" name \
         ": i8" shape " = quantize_linear(" name "h, one, zero)\n"

static void integers_of_a_network_are_those_of_its_floats(void **state) {
    const char *text =
        "graph stage\ninput x: i8[1,16,10,10]\n"
        "constant v: i8[16,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"
        "constant w: i8[16,16,3,3] = hash \"10112233445566778899aabbccddeeff\"\n"
        "constant u: i8[16,16,1,1] = hash \"20112233445566778899aabbccddeeff\"\n" SCALES LAYER(
            "l", "x", "v", "strides=[2,2] pads=[1,1,1,1]", "[1,16,5,5]")
            BYTES("y", "lm", "[1,16,5,5]") LAYER("k", "x", "u", "strides=[2,2]",
                                                 "[1,16,5,5]") BYTES("z", "km", "[1,16,5,5]")
                LAYER("j", "y", "w", "pads=[1,1,1,1]",
                      "[1,16,5,5]") "d: f32[1,16,5,5] = dequantize_linear(z, by, zero)\n"
                                    "a: f32[1,16,5,5] = add(jm, d)\n" BYTES(
                                        "q", "a", "[1,16,5,5]") "p: i8[1,16,2,2] = max_pool(q) "
                                                                "kernel_shape=[3,3] strides=[2,2]\n"
                                                                "output p\noutput q\n";
    kiln_graph *integers = graph_of(*state, text);
    uint32_t shifts = 0;
    expect_ok(kiln_passes_run(integers, (kiln_str){0}));
    for (kiln_node n = 1; n < integers->node.count; n++)
        shifts += integers->node.data[n].op == KILN_OP_BIT_SHIFT;
    assert_int_equal(shifts, 4);
    packed m = pack_graph(*state, integers, NULL);
    m.graph = graph_of(*state, text);
    expect_module_equals_graph(&m);
}

#define CASE(name) {#name, name}

static const struct {
    const char *name;
    CMUnitTestFunction run;
} case_table[] = {
    CASE(several_results_of_a_long_row_are_reduced_in_lanes),
    CASE(empty_operands_are_never_read),
    CASE(indices_may_be_computed_from_loads_in_part_of_a_vector),
    CASE(integers_of_a_network_are_those_of_its_floats),
    CASE(a_small_network_gives_what_the_interpreter_says),
    CASE(any_value_may_be_an_output),
    CASE(aliases_of_inputs_and_of_aliases_are_the_same_bytes),
    CASE(equal_tasks_share_a_kernel),
    CASE(memory_is_used_again_but_never_while_it_is_needed),
    CASE(results_overwrite_inputs_that_nobody_needs),
    CASE(what_is_needed_later_is_not_overwritten),
    CASE(only_the_same_elements_are_overwritten),
    CASE(planners_can_be_left_out),
    CASE(operands_are_written_where_they_end_up),
    CASE(other_operands_are_brought_into_their_places),
    CASE(concatenations_nest),
    CASE(an_output_may_be_written_in_parts),
    CASE(slices_are_read_where_they_lie),
    CASE(what_is_no_run_of_bytes_is_copied_by_a_kernel),
    CASE(modules_are_the_same_bytes_every_time),
    CASE(networks_convert_at_their_edges_only_and_waste_no_memory),
    CASE(a_conversion_stands_where_layouts_differ),
    CASE(a_reader_of_the_same_layout_needs_no_conversion),
    CASE(outputs_are_row_major_whatever_kernels_chose),
};

static int set_up(void **state) {
    the_level = *state;
    return arena_set_up(state);
}

/* Every case on every level. */
int main(void) {
    static struct CMUnitTest test[TEST_LEVELS * KILN_ARRAY_COUNT(case_table)];
    static char name[KILN_ARRAY_COUNT(test)][128];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(test); i++) {
        const char *level = test_level[i / KILN_ARRAY_COUNT(case_table)];
        size_t at = i % KILN_ARRAY_COUNT(case_table);
        snprintf(name[i], sizeof name[i], "%s on %s", case_table[at].name, level);
        test[i] = (struct CMUnitTest){name[i], case_table[at].run, set_up, arena_tear_down,
                                      (void *)(uintptr_t)level};
    }
    return cmocka_run_group_tests(test, NULL, NULL);
}
