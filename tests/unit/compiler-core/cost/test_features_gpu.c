/* Features of GPUs: what is counted, beside running the loops and beside what lowering makes of the
 * same program; and what the analytic model makes of it. */
#include "compiler-core/cost/features_gpu.h"

#include <math.h>
#include <string.h>

#include "compiler-core/cost/estimate_gpu.h"
#include "compiler-core/cost/warp.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/space.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/sched/support.h"

/* 128 x 128 points a group, 8 x 8 a thread: 4 x 4 in each of 2 x 2 virtual threads, so that the 16
 * bytes that neighbours read are neighbours. */
static const char strided[] =
    "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\ncache_write(mul, "
    "\"register\")\n"
    "split(mul.i, -1, 2, 16, 4)\nsplit(mul.j, -1, 2, 16, 4)\nsplit(mul.k, -1, 8)\n"
    "reorder(mul.i.0, mul.j.0, mul.i.1, mul.j.1, mul.k.0, mul.i.2, mul.j.2, mul.k.1, mul.i.3, "
    "mul.j.3)\n"
    "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\nvthread(mul.i.1)\nvthread(mul.j.1)\n"
    "bind(mul.i.2, \"thread.y\")\nbind(mul.j.2, \"thread.x\")\n"
    "decompose_reduction(mul, mul.k.0)\n"
    "compute_at(x.read, mul.k.0)\ncompute_at(w.read, mul.k.0)\n"
    "reverse_compute_at(mul.write, mul.j.1)\n"
    "split(mul.write.i, 16, 4)\nsplit(mul.write.j, 16, 4)\n"
    "reorder(mul.write.i.0, mul.write.j.0, mul.write.i.1, mul.write.j.1)\n"
    "bind(mul.write.i.0, \"thread.y\")\nbind(mul.write.j.0, \"thread.x\")\n"
    "unroll(mul.write.i.1)\nvectorize(mul.write.j.1)\n"
    "unroll(mul.k.1)\nunroll(mul.i.3)\nunroll(mul.j.3)\nunroll(mul.init.i.3)\nunroll(mul.init.j.3)"
    "\n"
    "transform_layout(x.read, \"d1,d0\")\n"
    "split(x.read.d0, 16, 4)\nsplit(x.read.d1, 4, 2)\nfuse(x.read.d0.1, x.read.d1.0)\n"
    "bind(x.read.d0.0, \"thread.y\")\nbind(x.read.d0.1.f, \"thread.x\")\nvectorize(x.read.d1.1)\n"
    "split(w.read.d1, 2, 16, 2)\nfuse(w.read.d0, w.read.d1.0)\n"
    "bind(w.read.d0.f, \"thread.y\")\nbind(w.read.d1.1, \"thread.x\")\nvectorize(w.read.d1.2)\n";

/* The same with 8 x 8 neighbours a thread, which are in conflict, and copies by half of the
 * threads.
 */
static const char tiles[] =
    "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\ncache_write(mul, "
    "\"register\")\n"
    "split(mul.i, -1, 16, 8)\nsplit(mul.j, -1, 16, 8)\nsplit(mul.k, -1, 8)\n"
    "reorder(mul.i.0, mul.j.0, mul.k.0, mul.i.1, mul.j.1, mul.k.1, mul.i.2, mul.j.2)\n"
    "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n"
    "bind(mul.i.1, \"thread.y\")\nbind(mul.j.1, \"thread.x\")\n"
    "decompose_reduction(mul, mul.k.0)\n"
    "compute_at(x.read, mul.k.0)\ncompute_at(w.read, mul.k.0)\n"
    "reverse_compute_at(mul.write, mul.j.0)\n"
    "split(mul.write.i, 16, 8)\nsplit(mul.write.j, 16, 8)\n"
    "reorder(mul.write.i.0, mul.write.j.0, mul.write.i.1, mul.write.j.1)\n"
    "bind(mul.write.i.0, \"thread.y\")\nbind(mul.write.j.0, \"thread.x\")\n"
    "unroll(mul.write.i.1)\nvectorize(mul.write.j.1)\n"
    "unroll(mul.k.1)\nunroll(mul.i.2)\nvectorize(mul.j.2)\nunroll(mul.init.i.2)\nvectorize(mul."
    "init.j.2)\n"
    "transform_layout(x.read, \"d1,d0\")\n"
    "split(x.read.d0, 16, 8)\nsplit(x.read.d1, 8, 1)\nreorder(x.read.d0.0, x.read.d1.0, "
    "x.read.d0.1)\n"
    "bind(x.read.d0.0, \"thread.y\")\nbind(x.read.d1.0, \"thread.x\")\nunroll(x.read.d0.1)\n"
    "split(w.read.d1, 16, 8)\nbind(w.read.d0, \"thread.y\")\nbind(w.read.d1.0, "
    "\"thread.x\")\nvectorize(w.read.d1.1)\n";

static const char product_text[] =
    "program p\ninput x: f32[%d,%d]\ninput w: f32[%d,%d]\noutput y: f32[%d,%d]\n"
    "block mul(i:%d, j:%d | k:%d): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n";

/* Without computing anything, as large products take the interpreter minutes. */
static kiln_program *product(kiln_arena *arena, int m, int n, int k, const char *text) {
    kiln_trace trace;
    kiln_program *p = NULL;
    kiln_program *te =
        parsed(arena, kiln_arena_printf(arena, product_text, m, k, k, n, m, n, m, n, k));
    expect_ok(kiln_trace_parse(kiln_str_from(text), arena, &trace));
    expect_ok(kiln_trace_replay(&trace, te, NULL, arena, &p, NULL));
    return p;
}

static kiln_gpu_estimate estimate_of(kiln_arena *arena, const kiln_program *p,
                                     const kiln_target *target) {
    kiln_gpu_estimate e;
    kiln_gpu_estimate_make(kiln_facts_create(p, KILN_WARP_SECTOR_BYTES, arena), target, arena, &e);
    return e;
}

/* ---- requests of warps, beside running the loops --------------------------------------------- */

static int64_t value_of(const kiln_program *p, kiln_expr e, const int64_t *var) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op == KILN_EXPR_INT) return node->payload.i;
    if (node->op == KILN_EXPR_VAR) return var[node->payload.id];
    const int64_t a = value_of(p, kiln_expr_operand(p, e, 0), var);
    const int64_t b = node->operand_count > 1 ? value_of(p, kiln_expr_operand(p, e, 1), var) : 0;
    switch ((kiln_expr_op)node->op) {
    case KILN_EXPR_ADD: return a + b;
    case KILN_EXPR_SUB: return a - b;
    case KILN_EXPR_MUL: return a * b;
    case KILN_EXPR_FLOORDIV: return a / b; /* nothing here is negative */
    case KILN_EXPR_FLOORMOD: return a % b;
    default: fail_msg("an operator that no index here has"); return 0;
    }
}

typedef struct finding {
    kiln_buffer buffer;
    const kiln_expr *index;
} finding;

static void find_load(kiln_program *p, kiln_expr load, void *context) {
    finding *f = context;
    if (kiln_expr_get(p, load)->payload.id != f->buffer) return;
    kiln_expr *index = KILN_ARENA_ARRAY(p->arena, kiln_expr, KILN_RANK_MAX);
    for (uint32_t d = 0; d < p->buffer.data[f->buffer].shape.rank; d++)
        index[d] = kiln_expr_operand(p, load, d);
    f->index = index;
}

/* Byte address of the access when the loops stand at `var`. */
static int64_t address_of(const kiln_facts *facts, const kiln_facts_statement *s,
                          const kiln_facts_access *a, int64_t *var) {
    kiln_program *p = (kiln_program *)(uintptr_t)facts->p;
    const kiln_block_info *b = &p->block.data[s->block];
    finding f = {a->buffer, a->stores ? b->index : NULL};
    int64_t index[KILN_RANK_MAX];
    if (!a->stores) kiln_expr_visit_loads(p, b->value, 0, find_load, &f);
    assert_non_null(f.index);
    for (uint32_t i = 0; i < b->iter_count; i++)
        var[b->iter[i].var] = value_of(p, b->iter[i].binding, var);
    for (uint32_t d = 0; d < a->rank; d++) index[d] = value_of(p, f.index[d], var);
    return a->element_bytes *
           kiln_layout_offset(&p->buffer.data[a->buffer].layout, &facts->shape[a->buffer], index);
}

static uint32_t distinct(int64_t *value, uint32_t count, int64_t bank) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool first = bank < 0 || value[i] % KILN_WARP_BANKS == bank;
        for (uint32_t k = 0; k < i && first; k++) first = value[k] != value[i];
        found += first;
    }
    return found;
}

/* Runs the statement's thread loops as the first warp does, all other loops at their beginning. */
static void check_request(const kiln_facts *facts, const kiln_facts_statement *s,
                          const kiln_facts_access *a, const kiln_warp_shape *shape,
                          kiln_warp_places *places) {
    int64_t sector[64], word[64];
    int64_t *var = KILN_ARENA_ARRAY(facts->p->arena, int64_t, facts->p->var.count);
    uint32_t count = 0, cycles = 1;
    for (uint32_t thread = 0; thread < shape->warp; thread++) {
        const uint32_t *size = shape->group_size;
        const uint32_t at[3] = {thread % size[0], thread / size[0] % size[1],
                                thread / size[0] / size[1]};
        bool runs = at[2] < size[2];
        memset(var, 0, sizeof *var * facts->p->var.count);
        for (uint32_t k = 1; k < s->depth; k++) {
            const kiln_facts_loop *loop = &facts->loop[s->path[k]];
            if (kiln_stmt_level(facts->p, loop->stmt) != KILN_LEVEL_GROUP) continue;
            const uint32_t d = kiln_axes[facts->p->stmt.data[loop->stmt].axis].dimension;
            var[loop->var] = at[d];
            runs &= at[d] < loop->extent;
        }
        if (!runs) continue;
        const int64_t address = address_of(facts, s, a, var);
        sector[count] = address / KILN_WARP_SECTOR_BYTES;
        word[count++] = address / 4;
    }
    for (int64_t bank = 0; bank < KILN_WARP_BANKS; bank++)
        cycles = KILN_MAX(cycles, distinct(word, count, bank));
    const kiln_warp_request r = kiln_warp_request_of(facts, s, a, shape, a->element_bytes, places);
    assert_int_equal(r.threads, count);
    assert_int_equal(r.sectors, distinct(sector, count, -1));
    assert_int_equal(r.cycles, cycles);
}

static void requests_are_those_of_the_loops(void **state) {
    static const char *const text[] = {strided, tiles};
    kiln_target target = target_of(*state, "h200");
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        uint32_t checked = 0;
        kiln_program *p = product(*state, 256, 256, 32, text[i]);
        const kiln_facts *facts = kiln_facts_create(p, KILN_WARP_SECTOR_BYTES, *state);
        const kiln_warp_shape shape = {target.gpu->warp, {16, 16, 1}};
        kiln_warp_places places = {0};
        for (uint32_t k = 0; k < facts->statement_count; k++)
            for (uint32_t q = 0; q < facts->statement[k].access_count; q++, checked++)
                check_request(facts, &facts->statement[k], &facts->statement[k].access[q], &shape,
                              &places);
        assert_true(checked >= 9);
    }
}

/* Neighbours in threads: consecutive words, words of one bank, one word, sectors of their own. */
static void addresses_of_neighbours_decide_what_a_request_takes(void **state) {
    for (uint32_t i = 0; i < 2; i++) {
        const char *copy = kiln_arena_printf(
            *state,
            "cache_read(c, x, \"shared\")\ntransform_layout(x.read, \"%s\")\n"
            "bind(c.b, \"block.x\")\nbind(c.i, \"thread.x\")\ncompute_at(x.read, c.b)\n"
            "bind(x.read.d2, \"thread.x\")\n",
            i ? "d0,d2,d1" : "d0,d1,d2");
        kiln_program *te =
            parsed(*state, "program p\ninput x: f32[4,32,32]\noutput y: f32[4,32,32]\n"
                           "block c(b:4, i:32, k:32): y[b, i, k] = x[b, k, i]\n");
        kiln_program *p = schedule(te, copy);
        kiln_target target = target_of(*state, "h200");
        kiln_gpu_estimate e = estimate_of(*state, p, &target);
        const kiln_gpu_launch *l = &e.launch[e.main];
        /* Of both, the store to x.read and the load from it. */
        assert_int_equal(l->shared_requests, 64);
        assert_int_equal(l->shared_cycles, 32 * (i ? 32 + 32 : 1 + 1));
        assert_int_equal(l->device_requests, 64);
        assert_int_equal(l->sectors, 32 * (4 + 32));
    }
}

/* ---- launches, beside what lowering makes of them -------------------------------------------- */

static void launches_are_counted_as_lowering_makes_them(void **state) {
    static const char *const text[] = {strided, tiles};
    kiln_target target = target_of(*state, "h200");
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_program *p = product(*state, 256, 384, 32, text[i]);
        kiln_gpu_estimate e = estimate_of(*state, p, &target);
        kiln_lowered lowered;
        expect_ok(kiln_lower(p, &target, *state, &lowered));
        const kiln_gpu_launch *l = &e.launch[e.main];
        const kiln_launch *made = &lowered.run_launches.launch[0];
        assert_int_equal(e.used, lowered.run_launches.count);
        assert_int_equal(l->groups, made->grid_size[0] * made->grid_size[1]);
        assert_int_equal(l->threads, made->group_size[0] * made->group_size[1]);
        assert_int_equal(l->shared_bytes, made->shared_bytes);
        /* 4 blocks of the reduction, a barrier behind the copies and one before the next. */
        assert_int_equal(l->barriers, 2 * 4);
        assert_int_equal(l->accumulators, 64);
        /* 8 x 8 x 32 multiply-adds of a thread, in 8 warps. */
        assert_int_equal(l->pipe[0] * target.gpu->multiply_adds[KILN_F32], 8 * 8 * 32 * 256);
    }
}

/* Threads of their own are threads, hold nothing of what comes, and meet nobody in the loop. */
static void producers_are_threads_too(void **state) {
    kiln_target target = target_of(*state, "h200");
    kiln_program *p = product(*state, 256, 384, 32,
                              kiln_arena_printf(*state,
                                                "%spipeline(mul.k.0, 2)\n"
                                                "producer(mul.k.0, 1)\n",
                                                tiles));
    kiln_gpu_estimate e = estimate_of(*state, p, &target);
    kiln_lowered lowered;
    expect_ok(kiln_lower(p, &target, *state, &lowered));
    const kiln_gpu_launch *l = &e.launch[e.main];
    const kiln_launch *made = &lowered.run_launches.launch[0];
    assert_int_equal(l->threads, made->group_size[0] * made->group_size[1] * made->group_size[2]);
    assert_int_equal(l->threads, 2 * 256);
    assert_int_equal(l->shared_bytes, made->token_offset);
    assert_int_equal(l->fetched, 0);
    assert_int_equal(l->barriers, 0);
}

/* The same copies: 8 elements of x by 8 warps and 2 vectors of w by 4, for each of 4 blocks. What
 * the device copies is one instruction of the warps that fetch, and passes the port once. */
static void what_a_producer_fetches_is_none_of_the_others_work(void **state) {
    const kiln_target target = target_of(*state, "h200");
    const char *staged = kiln_arena_printf(*state, "%spipeline(mul.k.0, 2)\n", tiles);
    const char *produced = kiln_arena_printf(*state, "%sproducer(mul.k.0, 1)\n", staged);
    const kiln_gpu_estimate a = estimate_of(*state, product(*state, 256, 384, 32, staged), &target),
                            b = estimate_of(*state, product(*state, 256, 384, 32, produced),
                                            &target);
    const kiln_gpu_launch *without = &a.launch[a.main], *with = &b.launch[b.main];
    const double copies = 4 * (8 + 2);
    assert_true(without->producer_instructions == 0);
    assert_true(with->producer_instructions > copies);
    assert_int_equal(without->warp_instructions,
                     with->warp_instructions + with->producer_instructions + copies);
    /* Kernels begin with 30 instructions of each warp. */
    assert_int_equal(without->instructions - with->instructions, 4 * (8 * 8 + 4 * 2) - 8 * 30);
    assert_int_equal(without->shared_requests, with->shared_requests);
    assert_int_equal(without->device_requests, with->device_requests);
    assert_true(with->device_cycles < without->device_cycles);
}

/* Two groups beside each other read the same 128 rows of 32 steps, which boxes bring to both at
 * once; one thread begins them. */
static void groups_of_a_cluster_read_a_box_once(void **state) {
    const kiln_target target = target_of(*state, "h200");
    kiln_gpu_launch by[3]; /* copies, boxes, boxes of clusters */
    for (int i = 0; i < 3; i++) {
        const char *all = kiln_arena_printf(
                       *state, "%spipeline(mul.k.0, 2)\nproducer(mul.k.0, %d)\n", tiles, i ? 2 : 1),
                   *bind = strstr(all, "bind(mul.i.0"), *rest = strstr(bind, "bind(mul.i.1");
        const char *text = kiln_arena_printf(
            *state, "%.*sbind(mul.i.0, \"%s\")\nbind(mul.j.0, \"%s\")\n%s", (int)(bind - all), all,
            i == 2 ? "block.x" : "block.y", i == 2 ? "cluster" : "block.x", rest);
        const kiln_gpu_estimate e =
            estimate_of(*state, product(*state, 256, 256, 32, text), &target);
        by[i] = e.launch[e.main];
    }
    assert_true(by[1].producer_instructions < by[0].producer_instructions);
    assert_int_equal(by[1].producer_instructions, by[2].producer_instructions);
    assert_int_equal(by[0].l2_bytes, by[1].l2_bytes);
    assert_int_equal(by[1].l2_bytes - by[2].l2_bytes, 2 * 128 * 32 * sizeof(float));
    assert_int_equal(by[1].groups, by[2].groups);
}

static void what_a_unit_holds_is_limited_by_what_it_runs_out_of(void **state) {
    kiln_target h200 = target_of(*state, "h200");
    kiln_program *p = product(*state, 4096, 4096, 4096, strided);
    kiln_gpu_estimate e = estimate_of(*state, p, &h200);
    const kiln_gpu_launch *l = &e.launch[e.main];
    assert_true(fabs(l->registers / 128 - 1) <= 0.15); /* as ptxas took for such a tile */
    assert_int_equal(l->limit, KILN_GPU_BY_REGISTERS);
    assert_int_equal(l->occupancy, 2);
    assert_true(fabs(l->waves - 1024.0 / (2 * 132)) < 1e-9);
    kiln_gpu small = *h200.gpu;
    small.unit_shared_bytes = 9 * 1024 + 512;
    h200.gpu = &small;
    e = estimate_of(*state, p, &h200);
    assert_int_equal(e.launch[e.main].limit, KILN_GPU_BY_SHARED);
    assert_int_equal(e.launch[e.main].occupancy, 1);
}

/* ---- the analytic model ---------------------------------------------------------------------- */

static double micros(kiln_arena *arena, const kiln_program *p, const char *target_text) {
    float f[KILN_GPU_FEATURE_COUNT];
    kiln_target target = target_of(arena, target_text);
    kiln_features_gpu.compute(p, &target, arena, f);
    assert_true(kiln_features_gpu.fits(f));
    for (uint32_t i = 0; i < KILN_GPU_FEATURE_COUNT; i++) assert_true(isfinite(f[i]));
    return exp2((double)f[KILN_GPU_FEATURE_NS]) / 1e3;
}

/* The vendor's heuristic says 2,160 us for its best tile on an H200, and 7,140 on an A100; this one
 * tile issues 0.89 multiply-adds of its main loop's slots. */
static void a_large_product_takes_about_what_the_vendor_predicts(void **state) {
    kiln_program *p = product(*state, 4096, 4096, 4096, strided);
    const double h200 = micros(*state, p, "h200"), a100 = micros(*state, p, "a100");
    assert_true(h200 > 2050 && h200 < 1.25 * 2160);
    assert_true(a100 > 7040 && a100 < 1.25 * 7140);
    assert_true(micros(*state, p, "opencl:x") > 10 * h200);
}

static kiln_program *default_of_halves(kiln_arena *arena, const char *target_text) {
    kiln_target *target = KILN_ARENA_NEW(arena, kiln_target);
    kiln_space space;
    kiln_trace trace;
    kiln_program *p = NULL;
    *target = target_of(arena, target_text);
    kiln_program *te = parsed(
        arena, "program p\ninput x: f16[4096,4096]\ninput w: f16[4096,4096]\noutput y: "
               "f32[4096,4096]\nblock mul(i:4096, j:4096 | k:4096): y[i, j] sum= f32(x[i, k]) * "
               "f32(w[k, j]) init 0.0\n");
    expect_ok(kiln_space_create(te, target, arena, &space));
    expect_ok(kiln_space_default(&space, arena, &trace, &p));
    return p;
}

/* Products of warps: the heuristic says 501 us for an A100 in fp16; an H200 does at most twice as
 * many a cycle with them. What is counted: each product once, fragments by what loads them. */
static void products_of_warps_take_tensor_cores(void **state) {
    kiln_program *p = default_of_halves(*state, "a100");
    kiln_target target = target_of(*state, "a100");
    const kiln_gpu_estimate e = estimate_of(*state, p, &target);
    const kiln_gpu_launch *l = &e.launch[e.main];
    const double products = 4096.0 * 4096 * 4096, took = micros(*state, p, "a100");
    assert_true(fabs(l->tensor * l->groups - products / 1024) < 1);
    assert_int_equal(l->bound, KILN_GPU_TENSOR);
    assert_true(l->stages > 2);
    /* An instruction for 2048 of them, half of one for fragments, and what fetches. */
    const double instructions = l->instructions * l->groups / (products / 2048);
    assert_true(instructions > 1.3 && instructions < 2.4);
    assert_true(l->shared_cycles < l->tensor);
    assert_true(took > 440 && took < 1.25 * 501);
}

/* An H200 took 229 us for the default, of warp groups with a producer (decision 86). */
static void a_product_of_halves_takes_what_a_device_measured(void **state) {
    kiln_program *p = default_of_halves(*state, "h200");
    const kiln_target target = target_of(*state, "h200");
    const kiln_gpu_estimate e = estimate_of(*state, p, &target);
    assert_true(e.launch[e.main].producers);
    assert_int_equal(e.launch[e.main].bound, KILN_GPU_L2);
    assert_true(fabs(micros(*state, p, "h200") / 229 - 1) < 0.1);
}

static void conflicts_tails_and_idle_units_cost(void **state) {
    const kiln_program *apart = product(*state, 4096, 4096, 4096, strided),
                       *meet = product(*state, 4096, 4096, 4096, tiles);
    kiln_target h200 = target_of(*state, "h200");
    kiln_gpu_estimate without = estimate_of(*state, apart, &h200),
                      with = estimate_of(*state, meet, &h200);
    assert_true(with.term[KILN_GPU_SHARED] > 1.5 * without.term[KILN_GPU_SHARED]);
    /* Issue slots hide them here, but not on a unit that issues and adds up more. */
    kiln_gpu wide = *h200.gpu;
    wide.issue *= 4;
    wide.multiply_adds[KILN_F32] *= 4;
    h200.gpu = &wide;
    without = estimate_of(*state, apart, &h200);
    with = estimate_of(*state, meet, &h200);
    assert_true(with.ns > 1.3 * without.ns);
    /* One group on each unit takes as long as one group alone. */
    const double one = micros(*state, product(*state, 128, 128, 4096, strided), "h200");
    const double all = micros(*state, product(*state, 128 * 12, 128 * 11, 4096, strided), "h200");
    const double more = micros(*state, product(*state, 128 * 19, 128 * 14, 4096, strided), "h200");
    assert_true(all < 1.05 * one);
    assert_true(more > 1.5 * all); /* 266 groups where 264 go at once */
}

static const char spread[] = "fuse(c.i, c.j)\nsplit(c.i.f, -1, 256)\nbind(c.i.f.0, \"block.x\")\n"
                             "bind(c.i.f.1, \"thread.x\")\n";

/* 256 MB in and out: as fast as memory, and slower by sectors where columns are read. */
static void what_moves_data_takes_as_long_as_memory(void **state) {
    double took[2];
    for (uint32_t i = 0; i < 2; i++) {
        kiln_program *te = parsed(
            *state,
            kiln_arena_printf(*state,
                              "program p\ninput x: f32[8192,8192]\noutput y: f32[8192,8192]\n"
                              "block c(i:8192, j:8192): y[i, j] = x[%s] * 2.0\n",
                              i ? "j, i" : "i, j"));
        kiln_trace trace;
        kiln_program *p = NULL;
        expect_ok(kiln_trace_parse(kiln_str_from(spread), *state, &trace));
        expect_ok(kiln_trace_replay(&trace, te, NULL, *state, &p, NULL));
        kiln_target target = target_of(*state, "h200");
        kiln_gpu_estimate e = estimate_of(*state, p, &target);
        const kiln_gpu_launch *l = &e.launch[e.main];
        assert_true(fabs(l->sectors / l->device_requests - (i ? (4 + 32) / 2.0 : 4)) < 1e-9);
        took[i] = e.ns / 1e3;
    }
    const double memory = 2 * 4.0 * 8192 * 8192 / 4.8e12 * 1e6;
    assert_true(took[0] > memory && took[0] < 1.3 * memory);
    assert_true(took[1] > 2 * took[0]);
}

static void computing_twice_gives_the_same_numbers_and_words(void **state) {
    float a[KILN_GPU_FEATURE_COUNT], b[KILN_GPU_FEATURE_COUNT];
    kiln_target target = target_of(*state, "h200");
    kiln_program *p = product(*state, 4096, 4096, 4096, strided);
    kiln_features_gpu.compute(p, &target, *state, a);
    memset(b, 0x55, sizeof b);
    kiln_features_gpu.compute(p, &target, *state, b);
    assert_memory_equal(a, b, sizeof a);
    kiln_strbuf words = {0};
    kiln_features_gpu.describe(p, &target, *state, &words);
    expect_contains(words.data, "1024 blocks of 256 threads (8 warps)");
    expect_contains(words.data, "a unit holds 2 at once, by registers; 3.88 waves on 132 units");
    expect_contains(words.data, "bound by: issue slots");
    assert_null(strstr(words.data, "without a block"));
    /* One group of many results, and a result that no unit more could take a part of. */
    p = product(*state, 128, 128, 4096, strided);
    kiln_features_gpu.describe(p, &target, *state, &words);
    expect_contains(words.data, "131 units are without a block: smaller blocks would read more");
    target.cores = 2048;
    kiln_features_gpu.describe(p, &target, *state, &words);
    expect_contains(words.data, "2047 units are without a block: its 16384 results are 512 warps");
    kiln_strbuf_deinit(&words);
}

static void an_assembler_takes_the_place_of_what_was_expected(void **state) {
    float f[KILN_GPU_FEATURE_COUNT], before[KILN_GPU_FEATURE_COUNT];
    const kiln_target target = target_of(*state, "h200");
    const kiln_assembled said = {128, 48, 24, 9000};
    kiln_features_gpu.compute(product(*state, 4096, 4096, 4096, strided), &target, *state, f);
    assert_true(f[KILN_GPU_FEATURE_ASSEMBLED_REGISTERS] == f[KILN_GPU_FEATURE_REGISTERS]);
    assert_true(f[KILN_GPU_FEATURE_ASSEMBLED_SHARED] == f[KILN_GPU_FEATURE_SHARED_BYTES]);
    assert_true(f[KILN_GPU_FEATURE_ASSEMBLED_SPILL] == 0);
    assert_true(f[KILN_GPU_FEATURE_ASSEMBLED_STACK] == 0);
    memcpy(before, f, sizeof f);
    kiln_features_gpu.take_assembled(f, &said);
    assert_true(f[KILN_GPU_FEATURE_ASSEMBLED_REGISTERS] == log2f(129));
    assert_true(f[KILN_GPU_FEATURE_ASSEMBLED_SPILL] == log2f(49));
    assert_true(f[KILN_GPU_FEATURE_ASSEMBLED_STACK] == log2f(25));
    assert_true(f[KILN_GPU_FEATURE_ASSEMBLED_SHARED] == log2f(9001));
    const kiln_assembled none = {0};
    for (uint32_t i = 0; i < 2; i++) {
        kiln_features_gpu.take_assembled(f, i ? NULL : &none);
        for (uint32_t k = 0; k < KILN_GPU_FEATURE_COUNT; k++) {
            const bool missing = k >= KILN_GPU_FEATURE_ASSEMBLED_REGISTERS;
            assert_true(missing ? isnan(f[k]) : f[k] == before[k]);
        }
    }
}

static void too_many_threads_or_bytes_do_not_fit(void **state) {
    float f[KILN_GPU_FEATURE_COUNT];
    kiln_program *p = product(*state, 256, 256, 32, strided);
    static const char *const small[] = {"opencl:x,group=128", "opencl:x,shared=4096"};
    for (uint32_t i = 0; i < 2; i++) {
        kiln_target target = target_of(*state, small[i]);
        kiln_features_gpu.compute(p, &target, *state, f);
        assert_false(kiln_features_gpu.fits(f));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(requests_are_those_of_the_loops),
        test_with_arena(addresses_of_neighbours_decide_what_a_request_takes),
        test_with_arena(launches_are_counted_as_lowering_makes_them),
        test_with_arena(producers_are_threads_too),
        test_with_arena(what_a_producer_fetches_is_none_of_the_others_work),
        test_with_arena(groups_of_a_cluster_read_a_box_once),
        test_with_arena(what_a_unit_holds_is_limited_by_what_it_runs_out_of),
        test_with_arena(a_large_product_takes_about_what_the_vendor_predicts),
        test_with_arena(products_of_warps_take_tensor_cores),
        test_with_arena(a_product_of_halves_takes_what_a_device_measured),
        test_with_arena(conflicts_tails_and_idle_units_cost),
        test_with_arena(what_moves_data_takes_as_long_as_memory),
        test_with_arena(computing_twice_gives_the_same_numbers_and_words),
        test_with_arena(an_assembler_takes_the_place_of_what_was_expected),
        test_with_arena(too_many_threads_or_bytes_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
