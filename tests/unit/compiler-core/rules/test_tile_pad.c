/* The padded copy: read through, placed around tiles, or made apart. */
#include "base/macros.h"
#include "tests/unit/compiler-core/rules/support.h"

static const conv_shape shape = {1, 64, 14, 14, 16, 3, 3, 1, 1, false};
#define DEPTHWISE(data, read)                                                             \
    "program depthwise\ninput x: " data "[1,16,20,20]\nconstant w: f32[16,1,3,3]\n"       \
    "temp xp: f32[1,16,22,22]\noutput y: f32[1,16,20,20]\n"                               \
    "block pad(n:1, c:16, h:22, w:22): xp[n, c, h, w] = select(and(and(1 <= h, h < 21), " \
    "and(1 <= w, w < 21)), " read ", 0.0)\n"                                              \
    "block conv(n:1, g:16, oh:20, ow:20 | kh:3, kw:3): y[n, g, oh, ow] sum= "             \
    "xp[n, g, oh + kh, ow + kw]*w[g, 0, kh, kw] init 0.0\n"
static const char depthwise[] = DEPTHWISE("f32", "x[n, c, h - 1, w - 1]");

typedef struct placed {
    kiln_sched s;
    kiln_tiling t;
    kiln_block copy;
    uint32_t before; /* instructions before the copy is placed */
} placed;

/* Everything up to the copy, which is placed then. */
static void place(kiln_arena *arena, const kiln_program *te, const kiln_target *target,
                  kiln_tile_options options, placed *out) {
    out->s = kiln_sched_begin(te, target, arena);
    kiln_tiling *t = &out->t;
    *t = tiling_of(&out->s, "conv");
    t->options = options;
    t->tile = kiln_sched_choice(&out->s, 3, (int64_t[]){1, 2, 2}, 1, 0);
    t->steps = kiln_sched_choice(&out->s, 3, (int64_t[]){8, 4, 1}, 1, 0);
    out->copy = kiln_tile_block_data(t, t->packs ? t->k : t->v, kiln_sched_const(8));
    assert_int_equal(out->copy, block_of(&out->s, "pad"));
    const kiln_sched_loops outer = kiln_tile_make_nest(t);
    out->before = kiln_sched_trace(&out->s)->count;
    kiln_tile_place_copy(t, out->copy, outer.count);
}

static void what_is_loaded_as_vectors_is_read_where_it_lies(void **state) {
    static const char *const text[] = {depthwise, DEPTHWISE("i8", "f32(x[n, c, h - 1, w - 1])")};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        const kiln_program *te = parsed(*state, text[i]);
        placed p;
        place(*state, te, &avx2, (kiln_tile_options){0}, &p);
        expect_lines(&p.s, p.before, "inline(pad)\n");
        expect_sound(&p.s, te);
        p.s = kiln_sched_begin(te, &avx2, *state);
        kiln_tiling t = tiling_of(&p.s, "conv");
        assert_true(kiln_tile_reads_source(&t, block_of(&p.s, "pad")));
    }
}

/* The same data with a copy of its own, in vectors of channels, around tiles. */
static void the_other_sketch_has_the_copy(void **state) {
    const kiln_program *te = parsed(*state, depthwise);
    placed p;
    place(*state, te, &avx2, (kiln_tile_options){.padded_copy = true}, &p);
    expect_lines(&p.s, p.before,
                 "l5 = location(pad, 3) = 3\n"
                 "compute_at(pad, l5)\n"
                 "split(pad.c, -1, 8)\n"
                 "split(pad.w, -1, 1)\n"
                 "reorder(pad.n, pad.c.0, pad.h, pad.w.0, pad.w.1, pad.c.1)\n"
                 "fuse(pad.w.1, pad.c.1)\n"
                 "vectorize(pad.w.1.f)\n");
    expect_sound(&p.s, te);
}

/* So is broadcast data, of which products with zeros are left out, but with zeros only: a sum of
 * products with ones is another one. */
static void broadcast_data_is_read_where_it_lies(void **state) {
    const kiln_program *te = conv_program(*state, &shape);
    placed p;
    place(*state, te, &avx2, (kiln_tile_options){0}, &p);
    expect_lines(&p.s, p.before, "inline(pad)\n");
    expect_sound(&p.s, te);
    for (uint32_t ones = 0; ones < 2; ones++) {
        p.s = kiln_sched_begin(te, &avx2, *state);
        kiln_block_info *pad = &p.s.program->block.data[block_of(&p.s, "pad")];
        kiln_expr inside = kiln_expr_operand(p.s.program, pad->value, 0),
                  source = kiln_expr_operand(p.s.program, pad->value, 1),
                  filled = kiln_expr_float(p.s.program, KILN_F32, ones);
        pad->value = kiln_expr_select(p.s.program, inside, source, filled);
        const kiln_tiling t = tiling_of(&p.s, "conv");
        assert_int_equal(kiln_tile_reads_source(&t, block_of(&p.s, "pad")), !ones);
    }
}

/* The copy is made at the root by preference; the search may choose a loop. */
static void broadcast_data_may_be_copied(void **state) {
    const kiln_program *te = conv_program(*state, &shape);
    placed p;
    place(*state, te, &avx2, (kiln_tile_options){.padded_copy = true}, &p);
    expect_lines(&p.s, p.before,
                 "l5 = location(pad, 3) = 0\n"
                 "compute_at(pad, l5)\n"
                 "split(pad.c, -1, c1[0])\n"
                 "split(pad.w, -1, c1[2])\n"
                 "reorder(pad.n, pad.c.0, pad.h, pad.w.0, pad.w.1, pad.c.1)\n"
                 "fuse(pad.w.1, pad.c.1)\n"
                 "vectorize(pad.w.1.f)\n");
    expect_sound(&p.s, te);
}

/* Only at the root can a copy be shared out apart. */
static void threads_share_the_copy_or_make_it_where_they_use_it(void **state) {
    const kiln_program *te = conv_program(*state, &shape);
    kiln_target two = avx2_target(2);
    placed p;
    place(*state, te, &two, (kiln_tile_options){.padded_copy = true}, &p);
    expect_lines(&p.s, p.before,
                 "split(pad.c, -1, c1[0])\n"
                 "split(pad.w, -1, c1[2])\n"
                 "reorder(pad.n, pad.c.0, pad.h, pad.w.0, pad.w.1, pad.c.1)\n"
                 "fuse(pad.w.1, pad.c.1)\n"
                 "vectorize(pad.w.1.f)\n"
                 "fuse(pad.n, pad.c.0)\n"
                 "parallel(pad.n.f)\n");
    expect_legal(&p.s);
    place(*state, te, &two, (kiln_tile_options){.padded_copy = true, .copy_elsewhere = true}, &p);
    assert_int_equal(kiln_sched_trace(&p.s)->instruction[p.before].prim, KILN_PRIM_LOCATION);
    expect_legal(&p.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_is_loaded_as_vectors_is_read_where_it_lies),
        test_with_arena(the_other_sketch_has_the_copy),
        test_with_arena(broadcast_data_is_read_where_it_lies),
        test_with_arena(broadcast_data_may_be_copied),
        test_with_arena(threads_share_the_copy_or_make_it_where_they_use_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
