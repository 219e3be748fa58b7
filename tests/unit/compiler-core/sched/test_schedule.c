/* Schedules written by calls: each records what its line of text would, handles stay what they are,
 * and what is refused is a bug unless it was tried. */
#include "compiler-core/sched/schedule.h"

#include <string.h>

#include "base/macros.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/sched/prim.h"
#include "tests/unit/compiler-core/sched/support.h"

static const conv_shape small_conv = {1, 2, 5, 5, 4, 3, 3, 1, 1, true};

static kiln_block block(const kiln_sched *s, const char *name) {
    kiln_block b = kiln_program_find_block(s->program, kiln_str_from(name));
    if (!b) fail_msg("there is no block %s", name);
    return b;
}

static kiln_buffer buffer(const kiln_sched *s, const char *name) {
    kiln_buffer b = kiln_program_find_buffer(s->program, kiln_str_from(name));
    if (!b) fail_msg("there is no buffer %s", name);
    return b;
}

/* The loop of the iterator called `iter`. */
static kiln_sched_loop loop(const kiln_sched *s, const char *name, const char *iter) {
    const kiln_block b = block(s, name);
    const kiln_block_info *info = &s->program->block.data[b];
    for (uint32_t i = 0; i < info->iter_count; i++)
        if (kiln_str_is(kiln_iter_name(s->program, &info->iter[i]), iter))
            return kiln_sched_loop_of(s, b, i);
    fail_msg("%s has no iterator %s", name, iter);
    return (kiln_sched_loop){0};
}

static uint32_t iter(const kiln_sched *s, const char *name, const char *iter_name) {
    const kiln_block_info *info = &s->program->block.data[block(s, name)];
    for (uint32_t i = 0; i < info->iter_count; i++)
        if (kiln_str_is(kiln_iter_name(s->program, &info->iter[i]), iter_name)) return i;
    fail_msg("%s has no iterator %s", name, iter_name);
    return 0;
}

static char *text_of(const kiln_sched *s) {
    kiln_strbuf out = {0};
    kiln_trace_print(kiln_sched_trace(s), &out);
    char *text = kiln_str_dup(s->arena, kiln_strbuf_view(&out));
    kiln_strbuf_deinit(&out);
    return text;
}

/* The text that a schedule of all but one primitive must have, and what it does to conv_program. */
static const char conv_lines[] =
    "inline(bias)\n"
    "rfactor(conv, \"kw\", 3)\n"
    "cache_read(conv.part, w, \"global\")\n"
    "pad(w.read, \"d0\", 8)\n"
    "transform_layout(w.read, \"d0/{0},d1,d2,d3,d0%{0}\", 8)\n"
    "t0 = perfect_tile(conv.part.oc, 2, 4) = [1, 4]\n"
    "split(conv.part.oc, t0[0], t0[1])\n"
    "c1 = categorical(1, 2, 5) = 2\n"
    "split(conv.part.ow, -1, c1)\n"
    "reorder(conv.part.n, conv.part.oc.0, conv.part.oh, conv.part.ow.0, conv.part.ic, "
    "conv.part.kh, conv.part.kw.0, conv.part.kw.1, conv.part.ow.1, conv.part.oc.1)\n"
    "l2 = location(pad, 3) = 3\n"
    "compute_at(pad, l2)\n"
    "reverse_compute_at(relu, conv.ow)\n"
    "decompose_reduction(conv.part, conv.part.ic)\n"
    "prefetch(w.read, conv.part.kh, 1)\n"
    "vectorize(conv.part.oc.1)\n"
    "unroll(conv.part.ow.1)\n"
    "set_scope(sum, \"global\")\n"
    "c3 = choice(2, 1, 5, 5, 1) = 0\n"
    "split(pad.w, -1, c3[0]*c3[1])\n"
    "annotate(pad.w.0, \"note=here\")\n"
    "cache_write(relu, \"global\")\n"
    "divide(relu.write, \"w\", 5)\n"
    "merge(relu.write, \"w.0,w.1\")\n"
    "gather(relu.write, y.acc, \"global\")\n"
    "fuse(relu.write.c, relu.write.h)\n"
    "parallel(relu.write.n)\n"
    "bind(conv.n, \"block.x\")\n"
    "vthread(conv.oc)\n"
    "cache_read(conv.part, w.read, \"shared\")\n"
    "swizzle(w.read.read, 4, 2, 2, 1)\n"
    "compute_at(w.read.read, conv.part.kh)\n"
    "pipeline(conv.part.kh, 2)\n"
    "producer(conv.part.kh, 1)\n"
    "resident(conv.n, 2)\n";

static void write_conv(kiln_sched *s) {
    assert_true(kiln_sched_inline(s, block(s, "bias")));
    kiln_block part =
        kiln_sched_rfactor(s, block(s, "conv"), iter(s, "conv", "kw"), kiln_sched_const(3));
    assert_int_equal(part, block(s, "conv.part"));
    kiln_block copy = kiln_sched_cache_read(s, part, buffer(s, "w"), KILN_SCOPE_GLOBAL);
    assert_int_equal(copy, block(s, "w.read"));
    assert_true(kiln_sched_pad(s, copy, 0, kiln_sched_const(8)));
    const kiln_layout blocked = {5,
                                 {{.dim = 0, .divisor = KILN_SCHED_GIVEN(0)},
                                  {.dim = 1, .divisor = 1},
                                  {.dim = 2, .divisor = 1},
                                  {.dim = 3, .divisor = 1},
                                  {.dim = 0, .divisor = 1, .modulus = KILN_SCHED_GIVEN(0)}}};
    assert_true(kiln_sched_transform_layout(s, buffer(s, "w.read"), &blocked,
                                            KILN_SCHED_INTS(kiln_sched_const(8))));
    kiln_sched_loop oc = loop(s, "conv.part", "oc");
    kiln_sched_sample t = kiln_sched_perfect_tile(s, oc, 2, 4, (int64_t[]){1, 4});
    kiln_sched_loops channels = kiln_sched_split(
        s, oc, KILN_SCHED_INTS(kiln_sched_element(t, 0), kiln_sched_element(t, 1)));
    kiln_sched_sample c = kiln_sched_categorical(s, (int64_t[]){1, 2, 5}, 3, 2);
    kiln_sched_loops columns =
        kiln_sched_split(s, loop(s, "conv.part", "ow"),
                         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(c, 0)));
    assert_int_equal(columns.count, 2);
    assert_int_equal(kiln_sched_extent(s, columns.loop[1]), 5);
    kiln_sched_loops order = {0};
    kiln_sched_loop kh = loop(s, "conv.part", "kh");
    kiln_sched_loops_add(&order, loop(s, "conv.part", "n"));
    kiln_sched_loops_add(&order, channels.loop[0]);
    kiln_sched_loops_add(&order, (kiln_sched_loop){0}); /* none is left out */
    kiln_sched_loops_add(&order, loop(s, "conv.part", "oh"));
    kiln_sched_loops_add(&order, columns.loop[0]);
    kiln_sched_loops_add(&order, loop(s, "conv.part", "ic"));
    kiln_sched_loops_add(&order, kh);
    kiln_sched_loops_add(&order, loop(s, "conv.part", "kw.0"));
    kiln_sched_loops_add(&order, loop(s, "conv.part", "kw.1"));
    kiln_sched_loops_add(&order, columns.loop[1]);
    kiln_sched_loops_add(&order, channels.loop[1]);
    assert_true(kiln_sched_reorder(s, &order));
    kiln_sched_loop place = kiln_sched_location(s, block(s, "pad"), 3, 3);
    assert_true(kiln_sched_compute_at(s, block(s, "pad"), place));
    assert_true(kiln_sched_reverse_compute_at(s, block(s, "relu"), loop(s, "conv", "ow")));
    kiln_block init = kiln_sched_decompose_reduction(s, part, loop(s, "conv.part", "ic"));
    assert_int_equal(init, block(s, "conv.part.init"));
    assert_true(kiln_sched_prefetch(s, buffer(s, "w.read"), kh, kiln_sched_const(1)));
    assert_true(kiln_sched_vectorize(s, channels.loop[1]));
    assert_true(kiln_sched_unroll(s, columns.loop[1]));
    assert_true(kiln_sched_set_scope(s, buffer(s, "sum"), KILN_SCOPE_GLOBAL));
    kiln_sched_sample pair = kiln_sched_choice(s, 2, (int64_t[]){1, 5, 5, 1}, 2, 0);
    kiln_sched_loops along = kiln_sched_split(
        s, loop(s, "pad", "w"),
        KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_times(kiln_sched_element(pair, 0),
                                                            kiln_sched_element(pair, 1))));
    assert_true(kiln_sched_annotate(s, along.loop[0], "note=here"));
    kiln_block write = kiln_sched_cache_write(s, block(s, "relu"), KILN_SCOPE_GLOBAL);
    assert_int_equal(write, block(s, "relu.write"));
    assert_int_equal(
        kiln_sched_divide(s, write, iter(s, "relu.write", "w"), kiln_sched_const(5)).count, 2);
    assert_true(kiln_sched_merge(s, block(s, "relu.write"), (uint32_t[]){3, 4}, 2));
    copy = kiln_sched_gather(s, block(s, "relu.write"), buffer(s, "y.acc"), KILN_SCOPE_GLOBAL);
    assert_int_equal(copy, block(s, "y.acc.gather"));
    kiln_sched_loops both = {0};
    kiln_sched_loops_add(&both, loop(s, "relu.write", "c"));
    kiln_sched_loops_add(&both, loop(s, "relu.write", "h"));
    assert_int_equal(kiln_sched_extent(s, kiln_sched_fuse(s, &both)), 20);
    assert_true(kiln_sched_parallel(s, loop(s, "relu.write", "n")));
    assert_true(kiln_sched_bind(s, loop(s, "conv", "n"), KILN_AXIS_BLOCK_X));
    assert_true(kiln_sched_vthread(s, loop(s, "conv", "oc")));
    kiln_sched_cache_read(s, part, buffer(s, "w.read"), KILN_SCOPE_SHARED);
    assert_true(kiln_sched_swizzle(s, buffer(s, "w.read.read"), kiln_sched_const(4),
                                   kiln_sched_const(2), kiln_sched_const(2), kiln_sched_const(1)));
    assert_true(kiln_sched_compute_at(s, block(s, "w.read.read"), kh));
    assert_true(kiln_sched_pipeline(s, kh, kiln_sched_const(2)));
    assert_true(kiln_sched_producer(s, kh, kiln_sched_const(1)));
    assert_true(kiln_sched_resident(s, loop(s, "conv", "n"), kiln_sched_const(2)));
}

static void write_bytes(kiln_sched *s) {
    kiln_sched_loops part = kiln_sched_split(
        s, loop(s, "dot", "n"), KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_const(4)));
    kiln_sched_decompose_reduction(s, block(s, "dot"), kiln_sched_loop_around(s, 1, 0));
    assert_true(kiln_sched_tensorize(s, part.loop[1], kiln_intrinsic_find(KILN_STR("sdot"))));
}

static void write_words(kiln_sched *s) {
    const kiln_block product = kiln_sched_unit_product(s, block(s, "b"), buffer(s, "x"),
                                                       iter(s, "b", "i"), kiln_sched_const(2));
    assert_int_equal(product, block(s, "x.unit"));
    assert_int_equal(product + 1, block(s, "x.ones"));
}

static void write_winograd(kiln_sched *s) {
    assert_true(kiln_sched_algorithm(s, KILN_ALGORITHM_WINOGRAD_2X2_3X3));
    assert_true(kiln_sched_unroll(s, loop(s, "conv.tiles", "p")));
}

static void every_primitive_has_a_function_that_records_its_line(void **state) {
    kiln_arena *arena = *state;
    const kiln_program *te = conv_program(arena, &small_conv);
    kiln_sched conv = kiln_sched_begin(te, &avx2, arena);
    write_conv(&conv);
    expect_ok(kiln_sched_end(&conv));
    assert_string_equal(text_of(&conv), conv_lines);
    expect_ok(same_result(te, conv.program, arena));
    kiln_sched bytes = kiln_sched_begin(bytes_program(arena, 3, 8, 4), &avx2, arena);
    write_bytes(&bytes);
    expect_ok(kiln_sched_end(&bytes));
    assert_string_equal(text_of(&bytes), "split(dot.n, -1, 4)\n"
                                         "decompose_reduction(dot, dot.m)\n"
                                         "tensorize(dot.n.1, \"sdot\")\n");
    kiln_sched words =
        kiln_sched_begin(parsed(arena, "program p\ninput x: i8[4]\noutput y: i32[4]\n"
                                       "block b(i:4): y[i] = i32(x[i])\n"),
                         &avx2, arena);
    write_words(&words);
    expect_ok(kiln_sched_end(&words));
    assert_string_equal(text_of(&words), "unit_product(b, x, \"i\", 2)\n");
    kiln_sched winograd = kiln_sched_begin(te, &avx2, arena);
    write_winograd(&winograd);
    expect_ok(kiln_sched_end(&winograd));
    assert_string_equal(text_of(&winograd),
                        "algorithm(\"winograd_2x2_3x3\")\nunroll(conv.tiles.p)\n");
    bool seen[KILN_PRIM_COUNT] = {false};
    const kiln_trace *trace[] = {kiln_sched_trace(&conv), kiln_sched_trace(&bytes),
                                 kiln_sched_trace(&words), kiln_sched_trace(&winograd)};
    for (uint32_t t = 0; t < KILN_ARRAY_COUNT(trace); t++)
        for (uint32_t i = 0; i < trace[t]->count; i++) seen[trace[t]->instruction[i].prim] = true;
    for (uint32_t i = 0; i < KILN_PRIM_COUNT; i++)
        if (!seen[i])
            fail_msg("%s has no function in schedule.h that this test calls",
                     kiln_prim_name((kiln_prim)i));
}

/* What is written is what replays. */
static void the_trace_replays_to_the_same_program(void **state) {
    kiln_arena *arena = *state;
    const kiln_program *te = conv_program(arena, &small_conv);
    kiln_sched s = kiln_sched_begin(te, &avx2, arena);
    kiln_program *p = NULL;
    write_conv(&s);
    expect_ok(kiln_trace_replay(kiln_sched_trace(&s), te, NULL, arena, &p, NULL));
    kiln_hash128 a = kiln_program_hash(s.program), b = kiln_program_hash(p);
    assert_memory_equal(&a, &b, sizeof a);
    /* ways of t0, c1, l2 and c3: [1, 4] [2, 2] [4, 1]; 3; 4 with the root; 2 */
    assert_true(kiln_sched_size(&s) == 3 * 3 * 4 * 2);
}

/* Handles made before the fork are those of both; what one does, the other does not have. */
static void a_fork_goes_its_own_way(void **state) {
    kiln_arena *arena = *state;
    kiln_sched s = kiln_sched_begin(matmul_program(arena, 8, 12, 4), &avx2, arena);
    s.keeps_refused = true;
    const int64_t value[] = {2, 4};
    const kiln_sched_loop m = kiln_sched_loop_of(&s, 1, 0);
    const kiln_sched_sample size = kiln_sched_categorical(&s, value, 2, 1);
    kiln_sched_loops part =
        kiln_sched_split(&s, m, KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(size, 0)));
    kiln_sched fork = kiln_sched_fork(&s);
    assert_int_equal(kiln_sched_trace(&fork)->count, kiln_sched_trace(&s)->count);
    assert_true(kiln_sched_size(&fork) == kiln_sched_size(&s));
    assert_true(kiln_sched_unroll(&fork, part.loop[1]));
    assert_true(kiln_sched_parallel(&fork, part.loop[0]));
    assert_false(kiln_sched_vectorize(kiln_sched_try(&fork), m)); /* it has ended */
    expect_ok(kiln_sched_end(&fork));
    assert_int_equal(kiln_sched_trace(&s)->count, 2);
    assert_int_equal(s.refused.count, 0);
    assert_true(kiln_sched_unroll(&s, part.loop[1])); /* nothing unrolled it here */
    expect_ok(kiln_sched_end(&s));
    kiln_sched other = kiln_sched_fork(&s);
    kiln_sched_vectorize(&other, m);
    expect_error(kiln_sched_end(&other), INTERNAL, "which a rule relies on");
    expect_ok(kiln_sched_end(&s));
}

/* Loops keep their handles where they move, and end where others take their place. */
static void loops_are_their_variables(void **state) {
    kiln_arena *arena = *state;
    kiln_sched s = kiln_sched_begin(matmul_program(arena, 8, 12, 4), &avx2, arena);
    kiln_sched_loop m = kiln_sched_loop_of(&s, 1, 0), n = kiln_sched_loop_of(&s, 1, 1);
    const kiln_sched_loops order = {2, {n, m}};
    assert_true(kiln_sched_reorder(&s, &order));
    assert_int_equal(kiln_sched_extent(&s, m), 8);
    assert_int_equal(kiln_sched_extent(&s, n), 12);
    assert_int_equal(kiln_sched_loop_around(&s, 1, 0).var, n.var);
    assert_int_equal(kiln_sched_loops_around(&s, 1).count, 3);
    kiln_sched_loops part =
        kiln_sched_split(&s, m, KILN_SCHED_INTS(kiln_sched_const(2), kiln_sched_const(4)));
    assert_int_equal(kiln_sched_extent(&s, part.loop[0]), 2);
    assert_int_equal(kiln_sched_extent(&s, part.loop[1]), 4);
    assert_true(kiln_sched_loop_is_none(kiln_sched_loop_of(&s, 1, 0))); /* split */
    assert_true(kiln_sched_loop_is_none(kiln_sched_loop_around(&s, 1, 9)));
    assert_int_equal(kiln_sched_extent(&s, m), 1);
    assert_false(kiln_sched_unroll(kiln_sched_try(&s), m)); /* it has ended */
    assert_true(kiln_sched_unroll(&s, part.loop[1]));
    expect_ok(kiln_sched_end(&s));
}

static void tries_that_are_refused_leave_nothing_but_a_reason(void **state) {
    kiln_arena *arena = *state;
    kiln_sched s = kiln_sched_begin(matmul_program(arena, 8, 12, 4), &avx2, arena);
    s.keeps_refused = true;
    kiln_sched_loop k = kiln_sched_loop_of(&s, 1, 2);
    kiln_hash128 before = kiln_program_hash(s.program);
    assert_false(kiln_sched_vectorize(kiln_sched_try(&s), k));
    assert_int_equal(kiln_sched_split(kiln_sched_try(&s), k,
                                      KILN_SCHED_INTS(kiln_sched_const(1), kiln_sched_const(2)))
                         .count,
                     0);
    kiln_sched_sample none = kiln_sched_categorical(kiln_sched_try(&s), NULL, 0, 0);
    assert_int_equal(none.instruction, 0);
    assert_int_equal(kiln_sched_cache_read(kiln_sched_try(&s), 1, 0, KILN_SCOPE_GLOBAL), 0);
    assert_false(kiln_sched_pad(kiln_sched_try(&s), 1, 0, kiln_sched_element(none, 0)));
    assert_false(kiln_sched_compute_at(kiln_sched_try(&s), 0, k));
    kiln_hash128 after = kiln_program_hash(s.program);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(kiln_sched_trace(&s)->count, 0);
    assert_int_equal(s.refused.count, 6);
    assert_string_equal(s.refused.data[0].instruction, "vectorize(matmul.k)");
    expect_contains(s.refused.data[0].reason, "add to the same elements");
    assert_string_equal(s.refused.data[1].instruction, "split(matmul.k, 1, 2)");
    expect_contains(s.refused.data[1].reason, "make 2 iterations of its 4");
    assert_string_equal(s.refused.data[2].instruction, "c0 = categorical() = 0");
    expect_contains(s.refused.data[3].reason, "there is no buffer");
    assert_true(kiln_sched_vectorize(&s, kiln_sched_loop_of(&s, 1, 1)) ==
                false);                   /* not innermost */
    assert_int_equal(s.refused.count, 6); /* that was a bug */
    expect_error(kiln_sched_end(&s), INTERNAL, "not innermost");
}

static void what_is_refused_without_a_try_is_a_bug_and_the_end(void **state) {
    kiln_arena *arena = *state;
    const kiln_program *te = matmul_program(arena, 8, 12, 4);
    kiln_sched s = kiln_sched_begin(te, &avx2, arena);
    kiln_sched_loops part = kiln_sched_split(
        &s, kiln_sched_loop_of(&s, 1, 1), KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_const(8)));
    kiln_hash128 before = kiln_program_hash(s.program);
    const kiln_sched_loops order = {2,
                                    {kiln_sched_loop_of(&s, 1, 2), kiln_sched_loop_of(&s, 1, 2)}};
    assert_false(kiln_sched_reorder(&s, &order));
    kiln_hash128 after = kiln_program_hash(s.program); /* nothing is left half done */
    assert_memory_equal(&before, &after, sizeof before);
    assert_false(kiln_sched_unroll(&s, part.loop[1])); /* legal, but nothing follows a bug */
    assert_false(kiln_sched_unroll(kiln_sched_try(&s), part.loop[1]));
    assert_int_equal(kiln_sched_trace(&s)->count, 1);
    expect_error(kiln_sched_end(&s), INTERNAL,
                 "instruction 2, reorder(matmul.k, matmul.k), which a rule relies on, is refused: "
                 "loop matmul.k is named twice");
}

/* Not the rule's fault: programs may have more blocks than there are instructions. */
static void a_full_trace_is_no_bug(void **state) {
    kiln_arena *arena = *state;
    kiln_sched s = kiln_sched_begin(matmul_program(arena, 8, 12, 4), &avx2, arena);
    kiln_sched_loop k = kiln_sched_loop_of(&s, 1, 2);
    for (uint32_t i = 0; i < KILN_TRACE_INSTRUCTIONS_MAX; i++)
        assert_true(kiln_sched_annotate(&s, k, "a=b"));
    assert_false(kiln_sched_annotate(kiln_sched_try(&s), k, "a=b"));
    assert_false(kiln_sched_annotate(&s, k, "a=b"));
    assert_int_equal(kiln_sched_trace(&s)->count, KILN_TRACE_INSTRUCTIONS_MAX);
    expect_error(kiln_sched_end(&s), RESOURCE_EXHAUSTED, "more than 512 instructions");
}

static void row_major_schedules_refuse_layouts_in_memory(void **state) {
    kiln_arena *arena = *state;
    kiln_sched s = kiln_sched_begin(conv_program(arena, &small_conv), &avx2, arena);
    const kiln_layout swapped = {4,
                                 {{.dim = 0, .divisor = 1},
                                  {.dim = 2, .divisor = 1},
                                  {.dim = 3, .divisor = 1},
                                  {.dim = 1, .divisor = 1}}};
    s.row_major = true;
    assert_false(
        kiln_sched_transform_layout(kiln_sched_try(&s), buffer(&s, "x"), &swapped, NULL, 0));
    kiln_sched_set_scope(&s, buffer(&s, "sum"), KILN_SCOPE_REGISTER);
    assert_true(kiln_sched_transform_layout(&s, buffer(&s, "sum"), &swapped, NULL, 0));
    assert_string_equal(text_of(&s), "set_scope(sum, \"register\")\n"
                                     "transform_layout(sum, \"d0,d2,d3,d1\")\n");
    expect_ok(kiln_sched_end(&s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_primitive_has_a_function_that_records_its_line),
        test_with_arena(the_trace_replays_to_the_same_program),
        test_with_arena(loops_are_their_variables),
        test_with_arena(a_fork_goes_its_own_way),
        test_with_arena(tries_that_are_refused_leave_nothing_but_a_reason),
        test_with_arena(what_is_refused_without_a_try_is_a_bug_and_the_end),
        test_with_arena(a_full_trace_is_no_bug),
        test_with_arena(row_major_schedules_refuse_layouts_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
