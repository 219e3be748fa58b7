/* Spaces: large, legal, right, and with a good schedule that needs no measurement. */
#include "compiler-core/rules/space.h"

#include <string.h>

#include "base/rand.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/sched/support.h"

static kiln_target avx512(uint32_t threads) {
    kiln_target target = avx2_target(threads);
    target.vector_bytes = 64;
    target.vector_registers = 32;
    return target;
}

static kiln_space make_space(const kiln_program *te, const kiln_target *target) {
    kiln_space space;
    kiln_status st = kiln_space_create(te, target, te->arena, &space);
    if (st) fail_msg("%s", kiln_status_text(st));
    return space;
}

/* The same without alternatives, for what is promised of the direct form. */
static kiln_space make_direct_space(const kiln_program *te, const kiln_target *target) {
    const kiln_space_options options = {.accuracy.exact = true};
    kiln_space space;
    expect_ok(kiln_space_create_with(te, target, &options, te->arena, &space));
    return space;
}

static void expect_right(const kiln_program *te, const kiln_program *p, const kiln_trace *trace) {
    kiln_status st = kiln_program_verify(p);
    if (!st) st = same_result_by(kiln_trace_algorithm(trace), te, p, te->arena);
    if (!st) return;
    kiln_strbuf text = {0};
    kiln_trace_print(trace, &text);
    fail_msg("%s\n%s", kiln_status_text(st), text.data);
}

static void expect_samples_right(const kiln_program *te, const kiln_target *target,
                                 uint32_t samples) {
    kiln_space space = make_space(te, target);
    kiln_trace trace;
    kiln_program *p;
    kiln_rand rand;
    kiln_rand_init(&rand, 11);
    assert_null(kiln_space_default(&space, te->arena, &trace, &p));
    expect_right(te, p, &trace);
    for (uint32_t i = 0; i < samples; i++) {
        assert_null(kiln_space_sample(&space, &rand, te->arena, &trace, &p));
        expect_right(te, p, &trace);
    }
}

/* Odd sizes, strides, 1x1, batches, few channels: each at two vector lengths and with threads. */
static void draws_compute_the_convolution(void **state) {
    static const conv_shape shape[] = {
        {1, 8, 6, 7, 16, 3, 3, 1, 1, true},   {1, 3, 9, 9, 10, 3, 3, 2, 1, true},
        {2, 12, 5, 5, 20, 1, 1, 1, 0, false}, {1, 5, 8, 8, 7, 3, 2, 1, 0, true},
        {1, 16, 4, 4, 33, 3, 3, 1, 1, false}, {1, 1, 7, 7, 8, 5, 5, 1, 2, true},
    };
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
        for (uint32_t k = 0; k < 2; k++) {
            kiln_target target = k ? avx512(2) : avx2;
            expect_samples_right(conv_program(*state, &shape[i]), &target, 4);
        }
}

static void draws_compute_the_matrix_product(void **state) {
    static const int64_t size[][3] = {{40, 24, 33}, {1, 40, 12}, {1, 500, 40}, {33, 24, 5}};
    for (size_t i = 0; i < 4; i++) {
        kiln_target target = i % 2 ? avx512(1) : avx2_target(2);
        expect_samples_right(matmul_program(*state, size[i][0], size[i][1], size[i][2]), &target,
                             8);
    }
}

static void draws_compute_elementwise_chains(void **state) {
    kiln_target one = avx2, two = avx2_target(2);
    expect_samples_right(chain_program(*state, 7, 19), &one, 2);
    expect_samples_right(chain_program(*state, 3, 64), &two, 2);
    expect_samples_right(chain_program(*state, 5, 1), &two, 2);
}

/* Computations that are told apart by their access patterns only. */
static const char grouped_convolution[] =
    "program grouped\n"
    "input x: f32[1,6,7,9]\n"
    "constant w: f32[33,2,3,3]\n"
    "output y: f32[1,33,5,7]\n"
    "block conv(n:1, g:3, oc:11, oh:5, ow:7 | ic:2, kh:3, kw:3): y[n, g*11 + oc, oh, ow] sum= "
    "x[n, g*2 + ic, oh + kh, ow + kw]*w[g*11 + oc, ic, kh, kw] init 0.0\n";
static const char depthwise_convolution[] =
    "program depthwise\n"
    "input x: f32[1,12,6,7]\n"
    "constant w: f32[12,1,3,3]\n"
    "temp xp: f32[1,12,8,9]\n"
    "output y: f32[1,12,6,7]\n"
    "block pad(i:1, j:12, k:8, l:9): xp[i, j, k, l] = "
    "select(and(and(1 <= k, k < 7), and(1 <= l, l < 8)), x[i, j, k - 1, l - 1], 0.0)\n"
    "block conv(n:1, g:12, oh:6, ow:7 | kh:3, kw:3): y[n, g, oh, ow] sum= xp[n, g, oh + kh, ow + "
    "kw]*w[g, 0, kh, kw] init 0.0\n";
static const char phases_of_a_convolution[] =
    "program phases\n"
    "input x: f32[1,6,5,6]\n"
    "constant w: f32[6,20,4,4]\n"
    "temp s: f32[1,20,2,2,4,5]\n"
    "output y: f32[1,20,8,10]\n"
    "block sum(n:1, c:20, p:2, q:2, h:4, w:5 | ic:6, kh:2, kw:2): s[n, c, p, q, h, w] sum= x[n, "
    "ic, "
    "h + kh, w + kw]*w[ic, c, p - kh*2 + 2, q - kw*2 + 2] init 0.0\n"
    "block join(n:1, c:20, h:8, w:10): y[n, c, h, w] = s[n, c, floormod(h, 2), floormod(w, 2), "
    "floordiv(h, 2), floordiv(w, 2)]\n";
static const char pooling[] = "program pool\n"
                              "input x: f32[2,10,9,9]\n"
                              "output y: f32[2,10,4,4]\n"
                              "block pool(n:2, c:10, h:4, w:4 | kh:3, kw:3): y[n, c, h, w] max= "
                              "x[n, c, h*2 + kh, w*2 + kw] init -inf\n";
static const char global_pooling[] =
    "program mean\n"
    "input x: f32[1,20,5,5]\n"
    "temp s: f32[1,20,1,1]\n"
    "output y: f32[1,20,1,1]\n"
    "block sum(n:1, c:20, h:1, w:1 | kh:5, kw:5): s[n, c, h, w] sum= x[n, c, kh, kw] init 0.0\n"
    "block mean(n:1, c:20, h:1, w:1): y[n, c, h, w] = s[n, c, h, w]*0.25\n";
static const char rows[] = "program rows\n"
                           "input x: f32[6,37]\n"
                           "temp m: f32[6]\n"
                           "temp e: f32[6,37]\n"
                           "temp s: f32[6]\n"
                           "output y: f32[6,37]\n"
                           "block max(i:6 | j:37): m[i] max= x[i, j] init -inf\n"
                           "block shift(i:6, j:37): e[i, j] = x[i, j] - m[i]\n"
                           "block sum(i:6 | j:37): s[i] sum= e[i, j] init 0.0\n"
                           "block out(i:6, j:37): y[i, j] = e[i, j]*s[i]\n";
static const char column_sums[] = "program columns\n"
                                  "input x: f32[9,21]\n"
                                  "output y: f32[21]\n"
                                  "block sum(j:21 | i:9): y[j] sum= x[i, j] init 0.0\n";

static void expect_rule(kiln_arena *arena, const char *text, const char *rule) {
    kiln_program *te;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &te);
    if (st) fail_msg("%s", kiln_status_text(st));
    for (uint32_t k = 0; k < 2; k++) {
        kiln_target target = k ? avx512(2) : avx2;
        assert_string_equal(make_space(te, &target).rule, rule);
        expect_samples_right(te, &target, 6);
    }
}

static void patterns_find_their_rule(void **state) {
    expect_rule(*state, grouped_convolution, "tile");
    expect_rule(*state, depthwise_convolution, "tile");
    expect_rule(*state, phases_of_a_convolution, "tile");
    expect_rule(*state, pooling, "tile");
    expect_rule(*state, global_pooling, "tile");
    expect_rule(*state, rows, "rows");
    expect_rule(*state, column_sums, "tile");
}

static bool has_block(const kiln_program *p, const char *name) {
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed && kiln_str_is(p->block.data[b].name, name)) return true;
    return false;
}

/* The default reads data where it lies; a padded copy is a sketch of its own. */
static void expect_both_with_and_without_copy(kiln_program *te, uint32_t threads) {
    kiln_target target = avx2_target(threads);
    kiln_program *p;
    kiln_trace trace;
    kiln_space space = make_space(te, &target);
    uint32_t copies = 0;
    for (uint32_t i = 0; i < space.sketch_count; i++) {
        assert_null(kiln_trace_replay(&space.sketch[i].preferred, te, NULL, te->arena, &p, &trace));
        if (i == 0) assert_false(has_block(p, "pad"));
        copies += has_block(p, "pad");
    }
    assert_in_range(copies, 1, space.sketch_count - 1);
}

static void data_is_read_without_a_padded_copy(void **state) {
    static const conv_shape broadcast = {1, 8, 6, 7, 16, 3, 3, 1, 1, true};
    for (uint32_t threads = 1; threads <= 2; threads++) {
        kiln_program *vectors;
        assert_null(kiln_program_parse(kiln_str_from(depthwise_convolution), *state, &vectors));
        expect_both_with_and_without_copy(vectors, threads);
        expect_both_with_and_without_copy(conv_program(*state, &broadcast), threads);
    }
}

/* What joins the phases is computed tile by tile, with the sums in registers. */
static void readers_in_several_strides_follow_tiles(void **state) {
    kiln_target target = avx2;
    kiln_program *te, *p;
    kiln_trace trace;
    assert_null(kiln_program_parse(kiln_str_from(phases_of_a_convolution), *state, &te));
    kiln_space space = make_space(te, &target);
    assert_null(kiln_space_default(&space, *state, &trace, &p));
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (kiln_str_is(p->buffer.data[b].name, "s"))
            assert_int_equal(p->buffer.data[b].scope, KILN_SCOPE_REGISTER);
}

/* Reductions along rows run in lanes, which stay in registers. */
static void rows_are_reduced_in_lanes(void **state) {
    kiln_target target = avx2;
    kiln_program *te, *p;
    kiln_trace trace;
    assert_null(kiln_program_parse(kiln_str_from(rows), *state, &te));
    kiln_space space = make_space(te, &target);
    assert_null(kiln_space_default(&space, *state, &trace, &p));
    uint32_t found = 0;
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (p->buffer.data[b].scope == KILN_SCOPE_REGISTER) {
            assert_int_equal(p->buffer.data[b].shape.dim[1], 16);
            found++;
        }
    assert_int_equal(found, 2);
}

static const conv_shape c2 = {1, 64, 56, 56, 64, 3, 3, 1, 1, true};

static void the_space_of_a_convolution_is_large(void **state) {
    kiln_target target = avx512(1);
    kiln_space space = make_space(conv_program(*state, &c2), &target);
    assert_string_equal(space.rule, "tile");
    assert_true(kiln_space_size(&space) >= 1e5);
}

/* Whether its rows of tiles are in groups, of which the last may cut a register tile: legality
 * refuses some of these. */
static bool has_groups(const kiln_sketch *sketch) {
    return kiln_trace_algorithm(&sketch->open) != KILN_ALGORITHM_DIRECT &&
           !strstr(sketch->options, "apart");
}

/* Register tiles that do not fit are not in the space, and nothing else that legality refuses is
 * either. */
static void draws_from_the_space_of_a_convolution_are_legal(void **state) {
    kiln_arena *arena = *state;
    kiln_target target = avx2_target(2);
    kiln_space space = make_space(conv_program(arena, &c2), &target);
    kiln_rand rand;
    uint32_t refused = 0;
    kiln_rand_init(&rand, 3);
    for (uint32_t i = 0; i < 100; i++) {
        kiln_arena scratch;
        kiln_arena_init(&scratch, 0);
        kiln_trace closed;
        const kiln_sketch *sketch = &space.sketch[i % space.sketch_count];
        kiln_status st = kiln_trace_replay(&sketch->open, space.te, &rand, &scratch, NULL, &closed);
        if (has_groups(sketch) && kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE) {
            kiln_status_free(st);
            kiln_arena_deinit(&scratch);
            refused++;
            continue;
        }
        if (st) fail_msg("%s", kiln_status_text(st));
        for (uint32_t k = 0; k < closed.count; k++) {
            const kiln_instruction *in = &closed.instruction[k];
            if (in->prim != KILN_PRIM_CHOICE || in->operand[0].factor[0].value != 3) continue;
            const kiln_operand *row = &in->operand[1 + 3 * in->decision[0]];
            int64_t points = row[0].factor[0].value * row[1].factor[0].value,
                    vectors = row[2].factor[0].value;
            assert_true(points * vectors + vectors + 1 <= 16);
            break; /* the first choice is the tile */
        }
        kiln_arena_deinit(&scratch);
    }
    print_message("%u of 100 refused\n", refused);
    assert_true(refused <= 20);
}

static void the_default_is_blocked_vectorised_and_deterministic(void **state) {
    kiln_arena *arena = *state;
    kiln_target target = avx512(1);
    kiln_trace trace;
    kiln_program *p, *again;
    kiln_space space = make_direct_space(conv_program(arena, &c2), &target);
    assert_null(kiln_space_default(&space, arena, &trace, &p));
    kiln_space other = make_direct_space(conv_program(arena, &c2), &target);
    assert_null(kiln_space_default(&other, arena, &trace, &again));
    kiln_hash128 a = kiln_program_hash(p), b = kiln_program_hash(again);
    assert_memory_equal(&a, &b, sizeof a);
    kiln_strbuf text = {0};
    kiln_program_print(p, &text);
    assert_non_null(
        strstr(text.data, "temp sum: f32[1,64,56,56] layout(d0,d2,d3,d1) scope(register)"));
    assert_non_null(strstr(text.data, "vectorize conv.oc.2 in 16:"));
    assert_non_null(
        strstr(text.data, "temp w.read: f32[64,64,3,3] layout(d0/32,d1/16,d2,d3,d1%16,d0%32)"));
    kiln_strbuf_deinit(&text);
}

/* Data of the sign that the fastest instruction takes is preferred; other sketches are behind. */
static void the_default_has_data_that_instructions_take(void **state) {
    static const struct {
        const char *target, *algorithm;
    } row[] = {{"cpu:x86_64-unknown-linux-gnu,mcpu=cascadelake", "unsigned_data"},
               {"x86-64-v3", "wide_data"},
               {"x86-64-v3,features=+avxvnni", "unsigned_data"},
               {"rpi5", "direct"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        kiln_target target;
        expect_ok(kiln_target_parse(kiln_str_from(row[i].target), *state, &target));
        kiln_space space = make_space(bytes_program(*state, 8, 32, 64), &target);
        assert_string_equal(kiln_algorithm_name(kiln_trace_algorithm(&space.sketch[0].preferred)),
                            row[i].algorithm);
        bool direct = false;
        for (uint32_t k = 0; k < space.sketch_count; k++)
            direct |= kiln_trace_algorithm(&space.sketch[k].open) == KILN_ALGORITHM_DIRECT;
        assert_true(direct);
    }
}

/* Bits are counted where that makes more products than multiplying bytes. */
static void the_default_counts_bits_where_that_is_faster(void **state) {
    static const struct {
        const char *target, *data, *weights, *algorithm;
    } row[] = {
        {"cpu:x86_64-unknown-linux-gnu,mcpu=znver4", "0, 3", "-1, 1, 2", "bit_planes"},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=znver4", "0, 1", "-1, 1, 2", "bit_planes"},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=znver4", "0, 3", "-2, 1", "direct"},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=cascadelake", "0, 3", "-1, 1, 2", "direct"},
        {"x86-64-v3", "0, 3", "-1, 1, 2", "bit_planes"},
        {"x86-64-v3", "0, 3", "-2, 1", "wide_data"},
        {"rpi5", "0, 3", "-1, 1, 2", "bit_planes"},
        {"rpi4", "0, 3", "-2, 1", "bit_planes"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        kiln_target target;
        expect_ok(kiln_target_parse(kiln_str_from(row[i].target), *state, &target));
        const char *text = kiln_arena_printf(
            *state,
            "program p\ninput x: u8[32,64] range(%s)\nconstant w: i8[64,64] range(%s)\n"
            "output y: i32[32,64]\nblock dot(m:32, n:64 | k:64): "
            "y[m, n] sum= i32(x[m, k])*i32(w[k, n]) init 0i32\n",
            row[i].data, row[i].weights);
        kiln_space space = make_space(parsed(*state, text), &target);
        assert_string_equal(kiln_algorithm_name(kiln_trace_algorithm(&space.sketch[0].preferred)),
                            row[i].algorithm);
    }
}

static int64_t default_extent(kiln_arena *arena, const conv_shape *shape, const char *loop) {
    kiln_target target = avx2;
    kiln_trace trace;
    kiln_program *p;
    kiln_space space = make_direct_space(conv_program(arena, shape), &target);
    expect_ok(kiln_space_default(&space, arena, &trace, &p));
    kiln_stmt found = kiln_program_find_loop(p, kiln_str_from(loop));
    assert_true(found != 0);
    return p->stmt.data[found].extent;
}

static const conv_shape few_channels = {1, 64, 56, 56, 128, 1, 1, 2, 0, false},
                        many_channels = {1, 512, 14, 14, 512, 1, 1, 1, 0, false};

static void what_exceeds_the_second_cache_is_fetched_once(void **state) {
    assert_int_equal(default_extent(*state, &few_channels, "conv.oc.0.0"), 1);
    assert_true(default_extent(*state, &few_channels, "conv.oh.0.0") > 1);
    assert_true(default_extent(*state, &many_channels, "conv.oc.0.0") > 1);
    assert_int_equal(default_extent(*state, &many_channels, "conv.oc.0.1"), 1);
}

/* The second cache gives less than a vector a cycle: each must serve several points. */
static void streamed_weights_serve_many_points(void **state) {
    int64_t points = default_extent(*state, &many_channels, "conv.oh.1") *
                     default_extent(*state, &many_channels, "conv.ow.1");
    assert_true(points >= 4);
}

static void steps_without_taps_are_unrolled_whole(void **state) {
    assert_int_equal(default_extent(*state, &many_channels, "conv.ic.1.0"), 1);
    assert_int_equal(default_extent(*state, &c2, "conv.ic.1.0"), 2);
}

static void panels_beyond_the_second_cache_are_used_in_parts(void **state) {
    static const conv_shape shape = {1, 512, 7, 7, 512, 3, 3, 1, 1, true};
    assert_int_equal(default_extent(*state, &shape, "conv.part.ic.0.1"), 4);
}

/* With caches this small everything streams: parts, prefetches, rows outside. */
static void draws_for_tiny_caches_compute_the_convolution(void **state) {
    static const conv_shape shape[] = {{1, 16, 6, 7, 20, 3, 3, 1, 1, true},
                                       {1, 64, 5, 4, 16, 1, 1, 1, 0, false}};
    kiln_target target = avx2;
    target.l1_bytes = 256;
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
        for (target.l2_bytes = 1 << 9; target.l2_bytes <= 1 << 15; target.l2_bytes <<= 3)
            expect_samples_right(conv_program(*state, &shape[i]), &target, 6);
}

static void given_layouts_are_kept_by_every_draw(void **state) {
    const kiln_program *te =
        conv_program(*state, &(conv_shape){1, 16, 10, 10, 16, 3, 3, 1, 1, false});
    kiln_target target = avx2;
    kiln_layout row = {0}, blocked;
    expect_ok(kiln_layout_parse(KILN_STR("d0,d1/4,d2,d3,d1%4"), 4, &blocked));
    kiln_arg_buffers arg = kiln_program_args(te);
    const kiln_layout *given[KILN_PROGRAM_BUFFERS_MAX] = {0};
    given[0] = &blocked;
    given[arg.count - 1] = &row;
    kiln_space space;
    kiln_rand rand;
    kiln_rand_init(&rand, 3);
    const kiln_space_options options = {.layout = given};
    expect_ok(kiln_space_create_with(te, &target, &options, te->arena, &space));
    for (uint32_t i = 0; i < 8; i++) {
        kiln_trace trace;
        kiln_program *p;
        assert_null(kiln_space_sample(&space, &rand, te->arena, &trace, &p));
        expect_right(te, p, &trace);
        assert_true(kiln_layout_equal(&p->buffer.data[arg.buffer[0]].layout, &blocked));
        assert_true(kiln_layout_equal(&p->buffer.data[arg.buffer[arg.count - 1]].layout, &row));
    }
    kiln_layout padding;
    expect_ok(kiln_layout_parse(KILN_STR("d0,d1/64,d2,d3,d1%64"), 4, &padding));
    given[0] = &padding;
    expect_error(kiln_space_create_with(te, &target, &options, te->arena, &space), ILLEGAL_SCHEDULE,
                 "cannot have the layout");
}

/* Given layouts refuse what the rule tries; options that make no difference are no sketches. */
static void what_was_refused_is_kept_when_asked_for(void **state) {
    const kiln_program *te =
        conv_program(*state, &(conv_shape){1, 16, 10, 10, 16, 3, 3, 1, 1, false});
    static const kiln_layout row;
    const kiln_layout *given[KILN_PROGRAM_BUFFERS_MAX] = {&row};
    kiln_space_options options = {.layout = given};
    kiln_target target = avx2;
    kiln_space space;
    expect_ok(kiln_space_create_with(te, &target, &options, te->arena, &space));
    assert_int_equal(space.refused_count, 0);
    options.keeps_refused = true;
    expect_ok(kiln_space_create_with(te, &target, &options, te->arena, &space));
    bool layout = false, plain = false;
    for (uint32_t i = 0; i < space.refused_count; i++) {
        const kiln_refused *r = &space.refused[i];
        assert_string_equal(r->rule, "tile");
        layout |= strstr(r->instruction, "transform_layout(x, ") == r->instruction &&
                  strstr(r->reason, "part of the task") && strcmp(r->options, "") == 0;
        plain |= strcmp(r->options, "plain") == 0 && strcmp(r->instruction, "") == 0;
    }
    assert_true(layout);
    assert_true(plain);
    kiln_strbuf text = {0};
    kiln_space_print_refused(&space, &text);
    expect_contains(text.data, "rule tile (plain): no sketch: no tensor intrinsic");
    kiln_strbuf_deinit(&text);
}

/* A product before 500 blocks that are inlined: no trace has room for its tiles too. */
static void programs_of_many_blocks_have_a_space(void **state) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "program p\ninput x: f32[16,16]\nconstant w: f32[16,16]\n"
                            "temp t0: f32[16,16]\noutput t500: f32[16,16]\n");
    for (int i = 1; i <= 499; i++) kiln_strbuf_printf(&text, "temp t%d: f32[16,16]\n", i);
    kiln_strbuf_text(&text, "block m(i:16, j:16 | k:16): t0[i, j] sum= x[i, k]*w[k, j] init 0.0\n");
    for (int i = 1; i <= 500; i++)
        kiln_strbuf_printf(&text, "block b%d(i:16, j:16): t%d[i, j] = max(t%d[i, j], 0.5)\n", i, i,
                           i - 1);
    kiln_program *te = parsed(*state, text.data);
    kiln_strbuf_deinit(&text);
    const kiln_space_options options = {.keeps_refused = true};
    kiln_space space;
    kiln_trace trace;
    kiln_program *p;
    expect_ok(kiln_space_create_with(te, &avx2, &options, *state, &space));
    assert_string_not_equal(space.rule, "tile");
    expect_contains(space.refused[0].reason, "too many blocks");
    expect_ok(kiln_space_default(&space, *state, &trace, &p));
    expect_ok(kiln_program_verify(p));
}

/* Each sketch says the options that it has; the first, the default, has none. */
static void sketches_are_told_apart_by_their_options(void **state) {
    kiln_target target = avx2;
    kiln_space space = make_space(conv_program(*state, &c2), &target);
    assert_string_equal(space.sketch[0].options, "");
    for (uint32_t i = 1; i < space.sketch_count; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(space.sketch[i].options, space.sketch[k].options);
}

/* Outermost loops below `stmt` that work on anything but constants and are not parallel. */
static uint32_t serial_nests(kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR) return s->loop_kind != KILN_LOOP_PARALLEL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->child.count; i++) count += serial_nests(p, s->child.data[i]);
    return count;
}

static void a_row_major_space_changes_no_layout_in_memory(void **state) {
    const kiln_program *te =
        conv_program(*state, &(conv_shape){1, 16, 10, 10, 16, 3, 3, 1, 1, true});
    kiln_target target = avx2;
    kiln_space space;
    kiln_trace trace;
    kiln_program *p;
    const kiln_space_options options = {.row_major = true};
    expect_ok(kiln_space_create_with(te, &target, &options, te->arena, &space));
    expect_ok(kiln_space_default(&space, te->arena, &trace, &p));
    expect_right(te, p, &trace);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (p->buffer.data[b].scope == KILN_SCOPE_GLOBAL)
            assert_true(kiln_layout_is_identity(&p->buffer.data[b].layout));
}

/* The parallel loop of that block. */
static kiln_stmt find_parallel(const kiln_program *p, const char *block) {
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (p->stmt.data[s].kind == KILN_STMT_FOR &&
            p->stmt.data[s].loop_kind == KILN_LOOP_PARALLEL && kiln_stmt_is_inside(p, s, p->root) &&
            kiln_str_starts(p->var.data[p->stmt.data[s].var].name, block))
            return s;
    fail_msg("nothing of %s is shared out", block);
    return 0;
}

static void threads_share_the_outer_loops(void **state) {
    kiln_arena *arena = *state;
    kiln_target target = avx2_target(2);
    kiln_trace trace;
    kiln_program *p;
    kiln_space space = make_direct_space(conv_program(arena, &c2), &target);
    assert_null(kiln_space_default(&space, arena, &trace, &p));
    kiln_stmt loop = kiln_program_find_loop(p, KILN_STR("conv.n.f"));
    assert_true(loop != 0);
    assert_int_equal(p->stmt.data[loop].loop_kind, KILN_LOOP_PARALLEL);
    assert_int_equal(serial_nests(p, p->root), 1); /* packs the weights, before anything runs */
}

/* Images that no tile divides, few and odd numbers of tiles: no thread waits long for another. */
static void threads_get_equal_shares(void **state) {
    static const conv_shape shape[] = {
        {1, 128, 27, 27, 32, 1, 1, 1, 0, false}, {1, 48, 13, 13, 192, 3, 3, 1, 1, true},
        {1, 64, 9, 9, 64, 3, 3, 1, 0, true},     {1, 16, 55, 55, 64, 3, 3, 1, 1, true},
        {1, 32, 20, 20, 64, 4, 4, 2, 0, true},   {1, 512, 7, 7, 512, 1, 1, 1, 0, true},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(shape); i++)
        for (uint32_t threads = 2; threads <= 4; threads += 2) {
            kiln_target target = avx2_target(threads);
            kiln_trace trace;
            kiln_program *p;
            kiln_space space = make_space(conv_program(*state, &shape[i]), &target);
            expect_ok(kiln_space_default(&space, *state, &trace, &p));
            int64_t parts = p->stmt.data[find_parallel(p, "conv.")].extent;
            int64_t rounds = (parts + threads - 1) / threads;
            assert_true((double)parts >= 0.85 * (double)(rounds * threads));
        }
}

static void threads_split_the_larger_operand(void **state) {
    static const struct {
        conv_shape shape;
        const char *first; /* loop whose parts go to different threads */
    } row[] = {
        {{1, 256, 27, 27, 32, 1, 1, 1, 0, true}, "conv.oh.0.0"}, /* 746 KB of data, 32 of weights */
        {{1, 512, 7, 7, 512, 1, 1, 1, 0, true},
         "conv.oc.0.0"}, /* 100 KB of data, 1049 of weights */
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target = avx2_target(2);
        kiln_trace trace;
        kiln_strbuf text = {0};
        kiln_space space = make_space(conv_program(*state, &row[i].shape), &target);
        expect_ok(kiln_space_default(&space, *state, &trace, NULL));
        kiln_trace_print(&trace, &text);
        const char *wanted = kiln_arena_printf(*state, "fuse(conv.n, %s", row[i].first);
        if (!strstr(text.data, wanted)) fail_msg("no %s in\n%s", wanted, text.data);
        kiln_strbuf_deinit(&text);
    }
}

/* Nothing more is divided per vector than what the threads need; names may be any. */
static void threads_fuse_as_few_loops_as_keep_them_busy(void **state) {
    static const char text[] = "program heads\n"
                               "input \"q:0\": f32[4,128,64]\n"
                               "input \"k:0\": f32[4,64,128]\n"
                               "output y: f32[4,128,128]\n"
                               "block product(h:4, m:128, n:128 | k:64): y[h, m, n] sum= "
                               "\"q:0\"[h, m, k]*\"k:0\"[h, k, n] init 0.0\n";
    kiln_program *te, *p;
    expect_ok(kiln_program_parse(kiln_str_from(text), *state, &te));
    kiln_target target = avx2_target(2);
    kiln_trace trace;
    kiln_space space = make_space(te, &target);
    expect_ok(kiln_space_default(&space, *state, &trace, &p));
    assert_int_equal(serial_nests(p, p->root), 0);
    assert_int_equal(p->stmt.data[find_parallel(p, "product.")].extent, 4);
    assert_int_equal(p->stmt.data[find_parallel(p, "k:0.read.")].extent, 4);
}

static void little_work_is_not_shared_out(void **state) {
    kiln_arena *arena = *state;
    kiln_target target = avx2_target(2);
    kiln_trace trace;
    kiln_program *p;
    kiln_space space = make_space(matmul_program(arena, 1, 64, 64), &target);
    assert_null(kiln_space_default(&space, arena, &trace, &p));
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        assert_int_not_equal(p->stmt.data[s].loop_kind, KILN_LOOP_PARALLEL);
}

static void an_index_names_one_trace(void **state) {
    kiln_arena *arena = *state;
    kiln_target target = avx2;
    const conv_shape shape = {1, 4, 4, 4, 8, 1, 1, 1, 0, false};
    kiln_program *te = conv_program(arena, &shape), *p;
    kiln_space space = make_space(te, &target);
    kiln_hash128 seen[64];
    uint32_t count = 0;
    for (uint64_t i = 0; (double)i < kiln_space_size(&space) && count < 64; i++) {
        kiln_trace trace;
        assert_null(kiln_space_at(&space, i, arena, &trace, &p));
        seen[count] = kiln_trace_hash(&trace);
        for (uint32_t k = 0; k < count; k++)
            assert_memory_not_equal(&seen[k], &seen[count], sizeof seen[k]);
        count++;
    }
    kiln_trace trace;
    kiln_status st = kiln_space_at(&space, (uint64_t)kiln_space_size(&space), arena, &trace, &p);
    assert_int_equal(kiln_status_code(st), KILN_OUT_OF_RANGE);
    kiln_status_free(st);
}

/* Two sums along rows, as a variance is made: reduced in several vectors each, in registers. */
static kiln_program *row_sums(kiln_arena *arena) {
    static const char text[] = "program rows\n"
                               "input x: f32[5,128]\n"
                               "output y: f32[5,128]\n"
                               "temp s: f32[5]\n"
                               "temp q: f32[5]\n"
                               "block sum(i:5 | k:128): s[i] sum= x[i, k] init 0.0\n"
                               "block square(i:5 | k:128): q[i] sum= x[i, k]*x[i, k] init 0.0\n"
                               "block norm(i:5, j:128): y[i, j] = x[i, j]*s[i] + q[i]\n";
    kiln_program *te;
    expect_ok(kiln_program_parse(kiln_str_from(text), arena, &te));
    return te;
}

/* However few registers there are: where the rule's own choice does not fit, another sketch or rule
 * makes the default. */
static void the_default_is_never_refused(void **state) {
    static const conv_shape shape = {1, 16, 6, 7, 16, 3, 3, 1, 1, true};
    kiln_arena *arena = *state;
    const kiln_program *te[] = {row_sums(arena), conv_program(arena, &shape),
                                matmul_program(arena, 5, 33, 17)};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(te); i++)
        for (uint32_t registers = 1; registers <= 8; registers++) {
            kiln_target target = avx2;
            target.vector_registers = registers;
            kiln_space space = make_space(te[i], &target);
            kiln_trace trace;
            kiln_program *p;
            kiln_lowered lowered;
            expect_ok(kiln_space_default(&space, arena, &trace, &p));
            expect_ok(kiln_lower(p, &target, arena, &lowered));
            expect_right(te[i], p, &trace);
        }
}

static void types_that_a_device_lacks_are_refused_by_name(void **state) {
    static const char *const text = "program p\ninput x: %s[64]\noutput y: %s[64]\n"
                                    "block b(i:64): y[i] = x[i] + x[i]\n";
    static const struct {
        const char *dtype, *target, *reason;
    } row[] = {{"f64", "opencl:x,features=-f64", "the device lacks f64, the type of x in p"},
               {"f64", "opencl:x", NULL},
               {"f16", "opencl:x", NULL}}; /* computed in f32 */
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target = target_of(*state, row[i].target);
        kiln_program *te =
            parsed(*state, kiln_arena_printf(*state, text, row[i].dtype, row[i].dtype));
        kiln_space space;
        kiln_status st = kiln_space_create(te, &target, te->arena, &space);
        if (row[i].reason)
            expect_error(st, UNIMPLEMENTED, row[i].reason);
        else
            expect_ok(st);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(draws_compute_the_convolution),
        test_with_arena(draws_compute_the_matrix_product),
        test_with_arena(draws_compute_elementwise_chains),
        test_with_arena(patterns_find_their_rule),
        test_with_arena(data_is_read_without_a_padded_copy),
        test_with_arena(readers_in_several_strides_follow_tiles),
        test_with_arena(rows_are_reduced_in_lanes),
        test_with_arena(the_space_of_a_convolution_is_large),
        test_with_arena(draws_from_the_space_of_a_convolution_are_legal),
        test_with_arena(the_default_is_blocked_vectorised_and_deterministic),
        test_with_arena(the_default_has_data_that_instructions_take),
        test_with_arena(the_default_counts_bits_where_that_is_faster),
        test_with_arena(what_exceeds_the_second_cache_is_fetched_once),
        test_with_arena(streamed_weights_serve_many_points),
        test_with_arena(steps_without_taps_are_unrolled_whole),
        test_with_arena(panels_beyond_the_second_cache_are_used_in_parts),
        test_with_arena(draws_for_tiny_caches_compute_the_convolution),
        test_with_arena(the_default_is_never_refused),
        test_with_arena(given_layouts_are_kept_by_every_draw),
        test_with_arena(a_row_major_space_changes_no_layout_in_memory),
        test_with_arena(what_was_refused_is_kept_when_asked_for),
        test_with_arena(programs_of_many_blocks_have_a_space),
        test_with_arena(sketches_are_told_apart_by_their_options),
        test_with_arena(threads_share_the_outer_loops),
        test_with_arena(threads_get_equal_shares),
        test_with_arena(threads_split_the_larger_operand),
        test_with_arena(threads_fuse_as_few_loops_as_keep_them_busy),
        test_with_arena(little_work_is_not_shared_out),
        test_with_arena(an_index_names_one_trace),
        test_with_arena(types_that_a_device_lacks_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
