/* Products on accelerators: whatever is drawn is legal, computes the same and fits into the
 * machine. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
#include "compiler-core/core.h"
#include "compiler-core/cost/features.h"
#include "compiler-core/facts/facts.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/rules/vta.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/codegen/vta_board.h"
#include "tests/unit/compiler-core/rules/support.h"
#include "tests/unit/compiler-core/rules/vta_layer.h"
#include "vta/csim.h"

/* Small machines, so that small layers have many parts. */
#define TINY "vta:b1i4o4,i8w8a32,uop10,inp9,wgt11,acc10,bus64,clk100,alu4,pipe5,v1"
#define TINY_V2 "vta:b1i4o4,i8w8a32,uop10,inp9,wgt11,acc10,bus64,clk100,alu4,pipe5,v2"
#define WIDE "vta:b2i8o4,i8w8a32,uop10,inp9,wgt11,acc10,bus64,clk100,alu8,pipe5,v1"
#define FULL "vta:b1i4o4,i8w8a32,uop10,inp9,wgt11,acc8,bus64,clk100,alu4,pipe5,v1+engine"
static const char *const machine[] = {TINY, TINY_V2, WIDE, "vta:pynq"};

#define OPTIONS (2 * KILN_VTA_POSITIONS_BESIDE - 1)

#define PLAIN "i8(min(max(shr(s[n, o, h, v] + 8i32, 4i32), -128i32), 127i32))"
#define BIASED "i8(min(max(shr(s[n, o, h, v] + b[o, 0, 0], 5i32), 0i32), 127i32))"
#define ADDED                                                                                   \
    "i8(min(max(shr(s[n, o, h, v] + b[o, 0, 0] + shl(i32(r[n, o, h, v]), 2i32), 5i32), 0i32), " \
    "127i32))"

#define DENSE "i8(min(max(shr(s[i, j] + 4i32, 3i32), -128i32), 127i32))"

/* A convolution whose channels are in groups of so many: each sums over those of its group. */
static kiln_program *groups_of(kiln_arena *arena, int groups, int in, int out, int size) {
    return parsed(
        arena,
        kiln_arena_printf(
            arena,
            "program g\ninput x: i8[1,%d,%d,%d]\nconstant w: i8[%d,%d,3,3]\n"
            "constant b: i32[%d,1,1]\ntemp s: i32[1,%d,%d,%d]\noutput y: i8[1,%d,%d,%d]\n"
            "block conv(n:1, o:%d, h:%d, v:%d | c:%d, r:3, q:3): s[n, o, h, v] sum= "
            "i32(x[n, floordiv(o, %d)*%d + c, h + r, v + q]) * i32(w[o, c, r, q]) init 0i32\n"
            "block out(n:1, o:%d, h:%d, v:%d): y[n, o, h, v] = " BIASED "\n",
            groups * in, size, size, groups * out, in, groups * out, groups * out, size - 2,
            size - 2, groups * out, size - 2, size - 2, groups * out, size - 2, size - 2, in, out,
            in, groups * out, size - 2, size - 2));
}

/* ---- capacities ------------------------------------------------------------------------------ */

/* Places that the temp takes: those of one iteration of its home, in each iteration of a virtual
 * thread loop around it that its elements depend on, as many as the nearest pipeline has stages. */
static double places_of(const kiln_facts *f, const kiln_facts_access *a) {
    double elements = 1;
    bool is_found = false; /* the loop of the turns */
    for (uint32_t d = 0; d < f->shape[a->buffer].rank; d++)
        elements *= (double)f->shape[a->buffer].dim[d];
    for (uint32_t at = f->home[a->buffer]; at; at = f->loop[at].parent) {
        const bool beside = f->loop[at].kind == KILN_LOOP_VTHREAD;
        bool moves = false;
        for (uint32_t d = 0; d < a->rank; d++)
            for (uint32_t k = 0; k < a->index[d].term_count; k++)
                moves |= a->index[d].term[k].var == f->loop[at].var;
        if (beside && moves) elements *= (double)f->loop[at].extent;
        if (beside || is_found || f->loop[at].extent == 1) continue;
        const kiln_attribute *stages =
            kiln_stmt_attribute(f->p, f->loop[at].stmt, KILN_ATTRIBUTE_PIPELINE);
        elements *= stages ? stages->row : 1;
        is_found = true;
    }
    return elements;
}

/* Elements of the memories of the machine that a scheduled program keeps alive. */
static void count_places(const kiln_program *p, kiln_arena *arena, double elements[]) {
    const kiln_facts *f = kiln_facts_create(p, 1, arena);
    bool *seen = KILN_ARENA_ARRAY(arena, bool, p->buffer.count);
    for (uint32_t i = 0; i < f->statement_count; i++) {
        const kiln_facts_access *a = &f->statement[i].access[0];
        if (p->buffer.data[a->buffer].role != KILN_ROLE_TEMP || seen[a->buffer]) continue;
        seen[a->buffer] = true;
        elements[p->buffer.data[a->buffer].scope] += places_of(f, a);
    }
}

static void expect_fits(const kiln_program *p, const kiln_target *target, kiln_arena *arena) {
    const kiln_vta_config *c = &target->vta;
    double elements[KILN_SCOPE_COUNT] = {0};
    count_places(p, arena, elements);
    assert_true(elements[KILN_SCOPE_INP] > 0 && elements[KILN_SCOPE_WGT] > 0);
    assert_true(elements[KILN_SCOPE_ACC] > 0 && elements[KILN_SCOPE_OUT] > 0);
    assert_true(elements[KILN_SCOPE_INP] <= (double)(1u << c->inp_log));
    assert_true(elements[KILN_SCOPE_WGT] <= (double)(1u << c->wgt_log));
    /* Streams keep an accumulator where the ALU is an engine. */
    const uint32_t tiles =
        kiln_vta_tile_count(c, KILN_VTA_ACC) - kiln_vta_config_has(c, KILN_VTA_ENGINE);
    assert_true(elements[KILN_SCOPE_ACC] <= (double)tiles * c->batch * c->block_out);
}

/* ---- sketches -------------------------------------------------------------------------------- */

static void expect_sketches(kiln_arena *arena, const kiln_program *te, const char *device) {
    const kiln_target target = target_of(arena, device);
    uint32_t made = 0;
    for (uint32_t options = 0; options <= OPTIONS; options++) {
        kiln_sched s = kiln_sched_begin(te, &target, arena);
        const kiln_sketch_result result = kiln_rules_vta.rule[0].make(&s, options);
        if (result.end == KILN_SKETCH_NEVER) fail_msg("%s: %s", device, result.reason);
        if (result.end != KILN_SKETCH_MADE) continue;
        made++;
        assert_true(result.cycles > 0);
        expect_sound(&s, te);
        expect_fits(s.program, &target, arena);
    }
    assert_true(made > 0);
}

static void every_sketch_of_a_product_is_sound(void **state) {
    static const vta_layer convs[] = {
        {1, 8, 8, 6, 3, 1, 1, BIASED, 0}, {1, 16, 8, 6, 3, 2, 1, PLAIN, 0},
        {1, 8, 16, 4, 1, 1, 0, PLAIN, 0}, {1, 8, 8, 7, 1, 2, 0, BIASED, 0},
        {2, 8, 8, 4, 3, 1, 0, PLAIN, 0},  {1, 3, 8, 6, 3, 1, 1, PLAIN, 0},
        {1, 8, 6, 6, 3, 2, 1, BIASED, 0}, {1, 6, 7, 5, 1, 1, 0, BIASED, 0},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(convs); i++)
        expect_sketches(*state, vta_layer_conv(*state, &convs[i]), TINY);
    expect_sketches(*state, vta_layer_conv(*state, &convs[4]), WIDE);
    const vta_layer filling = {1, 8, 8, 4, 1, 1, 0, PLAIN, 0}; /* 16 results, as many as places */
    expect_sketches(*state, vta_layer_conv(*state, &filling), FULL);
    const vta_layer added = {1, 8, 8, 4, 3, 1, 1, ADDED, 0},
                    parts = {1, 6, 9, 4, 3, 1, 1, ADDED, 0};
    expect_sketches(*state, vta_layer_conv(*state, &parts), TINY_V2);
    expect_sketches(*state, vta_layer_conv(*state, &added), TINY_V2);
    expect_sketches(*state, vta_layer_conv(*state, &added), TINY);
    expect_sketches(*state, groups_of(*state, 3, 4, 8, 6), TINY);
    expect_sketches(*state, groups_of(*state, 2, 8, 4, 5), TINY_V2);
    expect_sketches(*state, vta_layer_dense(*state, 1, 24, 32, DENSE), TINY);
    expect_sketches(*state, vta_layer_dense(*state, 6, 8, 16, DENSE), WIDE);
    expect_sketches(*state, vta_layer_dense(*state, 4, 10, 13, DENSE), WIDE);
}

/* The scopes, and the order in which the machine wants loops. */
static void a_sketch_says_where_everything_lies(void **state) {
    const vta_layer c = {1, 8, 8, 6, 3, 1, 1, BIASED, 0};
    const kiln_program *te = vta_layer_conv(*state, &c);
    const kiln_target target = target_of(*state, TINY);
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    kiln_strbuf lines = {0};
    assert_int_equal(kiln_rules_vta.rule[0].make(&s, KILN_VTA_OUT_BESIDE).end, KILN_SKETCH_MADE);
    kiln_trace_print(kiln_sched_trace(&s), &lines);
    const char *text = kiln_strbuf_end(&lines, *state).data;
    expect_contains(text, "set_scope(p, \"inp\")\n");
    expect_contains(text, "transform_layout(x, \"d0,d1/4,d2,d3,d1%4\")\n");
    expect_contains(text, "cache_read(conv, w, \"wgt\")\n");
    expect_contains(text, "transform_layout(w, \"d0/4,d1/4,d2,d3,d0%4,d1%4\")\n");
    expect_contains(text, "set_scope(s, \"acc\")\n");
    expect_contains(text, "cache_read(out, b, \"acc\")\n");
    expect_contains(text, "cache_write(out, \"out\")\n");
    expect_contains(text, "\"gemm.i8\")\n");
    expect_contains(text, "vthread(conv.");
    expect_contains(text, "pipeline(conv.");
}

/* ---- draws ----------------------------------------------------------------------------------- */

static int pick(kiln_rand *rand, const int *value, uint32_t count) {
    return value[kiln_rand_below(rand, count)];
}

static void expect_draws(const kiln_program *te, const char *device, kiln_rand *rand, uint64_t seed,
                         kiln_arena *arena) {
    const kiln_target target = target_of(arena, device);
    kiln_space space;
    expect_ok(kiln_space_create(te, &target, arena, &space));
    for (uint32_t draw = 0; draw < 3; draw++) {
        kiln_trace trace;
        kiln_program *program;
        expect_ok(kiln_space_sample(&space, rand, arena, &trace, &program));
        expect_ok(same_result(te, program, arena));
        expect_fits(program, &target, arena);
        expect_ok(vta_builds_equal(te, program, &target, seed, arena));
    }
}

static void every_draw_computes_the_same_and_fits(void **state) {
    static const int in[] = {8, 16, 24, 2, 3, 10}, out[] = {8, 16, 24, 5, 6, 11},
                     sizes[] = {5, 6, 7}, kernels[] = {1, 1, 3};
    static const int groups_worth[] = {2, 3};
    static const char *const followers[] = {PLAIN, BIASED, ADDED};
    kiln_rand rand;
    kiln_rand_init(&rand, 19);
    for (uint32_t i = 0; i < 48; i++) {
        const char *device = machine[i % 3];
        const bool wide = device == machine[2];
        vta_layer c = {.n = wide ? 2 : 1,
                       .in = pick(&rand, in, i < 24 ? 3 : 6),
                       .out = pick(&rand, out, i < 24 ? 3 : 6),
                       .size = pick(&rand, sizes, 3),
                       .kernel = pick(&rand, kernels, 3),
                       .stride = 1 + (int)kiln_rand_below(&rand, 2),
                       .padding = (int)kiln_rand_below(&rand, 2)};
        const bool adds = device == machine[1] || c.out % 4 == 0; /* bytes, in whole tiles or any */
        c.follower = followers[wide ? 0 : kiln_rand_below(&rand, adds ? 3 : 2)];
        expect_draws(vta_layer_conv(*state, &c), device, &rand, i, *state);
    }
    for (uint32_t i = 0; i < 6; i++) {
        const int groups = pick(&rand, groups_worth, 2), size = pick(&rand, sizes, 3);
        const int from = 4 * (1 + (int)kiln_rand_below(&rand, 2)),
                  made = 4 * (1 + (int)kiln_rand_below(&rand, 2));
        expect_draws(groups_of(*state, groups, from, made, size), machine[i % 2], &rand, i, *state);
    }
}

/* All of its padding but one element is zeros, and so are steps along its rows and columns. */
static void an_image_of_one_element_has_zeros_around(void **state) {
    const vta_layer c = {4, 8, 4, 1, 1, 1, 1, PLAIN, 0};
    const kiln_program *te = vta_layer_conv(*state, &c);
    const kiln_target target = target_of(*state, WIDE);
    kiln_space space;
    kiln_trace trace;
    kiln_program *program;
    expect_ok(kiln_space_create(te, &target, *state, &space));
    expect_ok(kiln_space_default(&space, *state, &trace, &program));
    expect_ok(vta_builds_equal(te, program, &target, 1, *state));
}

/* ---- time ------------------------------------------------------------------------------------ */

static double simulated_cycles(const kiln_program *te, const kiln_program *scheduled,
                               const kiln_target *target, kiln_arena *arena) {
    kiln_artefact artefact;
    kiln_vta_program program;
    kiln_vta_timing timing;
    kiln_vta_fault fault;
    expect_ok(kiln_build_scheduled(te, KILN_STR("test"), scheduled, target, arena, &artefact));
    expect_ok(kiln_vta_program_decode(artefact.payload, arena, &program));
    if (!kiln_vta_csim_run(&program, NULL, 0, &(kiln_vta_csim_options){.timing_only = true}, arena,
                           &timing, &fault))
        fail_msg("instruction %u: %s", fault.instruction, fault.text);
    return (double)timing.cycles;
}

static double predicted_cycles(const kiln_program *scheduled, const kiln_target *target,
                               kiln_arena *arena) {
    const kiln_feature_set *set = kiln_features_of(target);
    float *number = KILN_ARENA_ARRAY(arena, float, set->count);
    set->compute(scheduled, target, arena, number);
    return exp2((double)number[set->predicted_ns]) * target->vta.clock_mhz / 1e3;
}

/* The default is good, and what is predicted orders candidates as the simulator does, mostly. */
static void the_prediction_orders_candidates(void **state) {
    enum { DRAWS = 16 };
    static const char *const device[] = {"vta:pynq", "vta:pynq,v2"};
    const vta_layer c = {1, 64, 64, 14, 3, 1, 1, BIASED, 0};
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    for (size_t d = 0; d < KILN_ARRAY_COUNT(device); d++) {
        const kiln_program *te = vta_layer_conv(*state, &c);
        const kiln_target target = target_of(*state, device[d]);
        double predicted[DRAWS], simulated[DRAWS], least = INFINITY;
        int agree = 0, pairs = 0;
        kiln_space space;
        kiln_trace trace;
        kiln_program *program;
        expect_ok(kiln_space_create(te, &target, *state, &space));
        for (int i = 0; i < DRAWS; i++) {
            expect_ok(kiln_space_sample(&space, &rand, *state, &trace, &program));
            predicted[i] = predicted_cycles(program, &target, *state);
            simulated[i] = simulated_cycles(te, program, &target, *state);
            least = fmin(least, simulated[i]);
            for (int k = 0; k < i; k++) {
                if (fabs(simulated[i] / simulated[k] - 1) < 0.02) continue;
                pairs++;
                agree += (predicted[i] < predicted[k]) == (simulated[i] < simulated[k]);
            }
        }
        expect_ok(kiln_space_default(&space, *state, &trace, &program));
        const double preferred = simulated_cycles(te, program, &target, *state);
        if (preferred > 1.05 * least)
            fail_msg("%s: %.0f cycles, of draws %.0f", device[d], preferred, least);
        if (agree * 5 < pairs * 4) fail_msg("%s: %d of %d pairs", device[d], agree, pairs);
    }
}

/* ---- what there is no schedule for ----------------------------------------------------------- */

static void expect_reason(kiln_arena *arena, const kiln_program *te, const char *device,
                          const char *reason) {
    const kiln_target target = target_of(arena, device);
    kiln_space space;
    kiln_status st = kiln_space_create(te, &target, arena, &space);
    assert_int_equal(kiln_status_code(st), KILN_FAILED_PRECONDITION);
    expect_contains(kiln_status_text(st), "rules for vta have no schedule for ");
    expect_contains(kiln_status_text(st), reason);
    kiln_status_free(st);
}

static void whatever_else_there_is_no_schedule_for_has_a_reason(void **state) {
    static const struct {
        vta_layer conv;
        const char *device, *reason;
    } row[] = {
        {{1, 8, 6, 6, 3, 1, 1, ADDED, 0}, TINY, "are no whole tiles"},
        {{1, 8, 8, 6, 3, 1, 1, PLAIN, 0}, WIDE, "it has no rows for the machine's tiles"},
        {{2, 8, 8, 4, 3, 1, 1, BIASED, 0}, WIDE, "a bias is in one of them only"},
        {{1, 8, 8, 6, 3, 1, 1, "i8(shr(s[n, o, h, v], 4i32))", 0}, TINY, "not kept within bytes"},
        {{1, 8, 8, 6, 3, 1, 1, "i8(max(s[n, o, h, v], -128i32))", 0},
         TINY,
         "not kept within bytes"},
        {{1, 8, 8, 6, 3, 1, 1, "i8(min(max(s[n, o, h, v]*3i32, 0i32), 127i32))", 0},
         TINY,
         "the ALU lacks an operation"},
        {{1, 8, 8, 6, 3, 1, 1, "i8(min(max(s[n, o, h, v] + 99999i32, 0i32), 127i32))", 0},
         TINY,
         "the ALU lacks an operation"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_reason(*state, vta_layer_conv(*state, &row[i].conv), row[i].device, row[i].reason);
    expect_reason(*state, groups_of(*state, 4, 2, 4, 5), TINY, "does not divide into tiles");
    expect_reason(*state, groups_of(*state, 8, 1, 1, 5), TINY, "(depthwise)");
    expect_reason(*state, bytes_program(*state, 8, 8, 8), TINY,
                  "no single block turns its sums into bytes");
    expect_reason(*state,
                  parsed(*state, "program d\ninput x: i8[8,16]\nconstant w: i8[16,8]\n"
                                 "temp s: i32[8,8]\noutput y: i8[8,8]\noutput z: i8[8,16]\n"
                                 "block mul(i:8, j:8 | k:16): s[i, j] sum= i32(x[i, k]) * i32(w[k, "
                                 "j]) init 0i32\nblock out(i:8, j:8): y[i, j] = i8(min(max(s[i, "
                                 "j], -128i32), 127i32))\n"
                                 "block more(i:8, j:16): z[i, j] = max(x[i, j], 0i8)\n"),
                  TINY, "it has more blocks than a product");
    expect_reason(*state, chain_program(*state, 8, 8), TINY, "there is no reduction");
    expect_reason(*state, matmul_program(*state, 8, 8, 8), TINY, "no single block turns");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_sketch_of_a_product_is_sound),
        test_with_arena(a_sketch_says_where_everything_lies),
        test_with_arena(every_draw_computes_the_same_and_fits),
        test_with_arena(an_image_of_one_element_has_zeros_around),
        test_with_arena(the_prediction_orders_candidates),
        test_with_arena(whatever_else_there_is_no_schedule_for_has_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
