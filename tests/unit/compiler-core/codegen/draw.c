#include "tests/unit/compiler-core/codegen/draw.h"

#include "base/check.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/sched/prim.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/ir/support.h"

typedef struct drawing {
    kiln_program *p;
    kiln_rand *rand;
} drawing;

static uint32_t below(drawing *d, uint32_t n) { return (uint32_t)kiln_rand_below(d->rand, n); }

static kiln_block draw_block(drawing *d) {
    for (uint32_t tries = 0; tries < 20; tries++) {
        kiln_block b = 1 + below(d, d->p->block.count - 1);
        if (!d->p->block.data[b].removed && kiln_program_block_stmt(d->p, b)) return b;
    }
    return 0;
}

/* The loops around a block; none around none. */
static kiln_loops nest_of(const drawing *d, kiln_block block) {
    return block ? kiln_block_loops(d->p, block) : (kiln_loops){0};
}

static kiln_stmt draw_loop(drawing *d, kiln_block block) {
    kiln_loops nest = nest_of(d, block);
    return nest.count ? nest.loop[below(d, nest.count)] : 0;
}

static kiln_str draw_layout(drawing *d, kiln_buffer buffer) {
    static const char *const text[KILN_RANK_MAX + 1][3] = {
        [1] = {"d0/4,d0%4", "row", "d0"},
        [2] = {"d1,d0", "d0,d1/8,d1%8", "d1/3,d0,d1%3"},
        [3] = {"d0,d2,d1", "d0,d1/4,d2,d1%4", "d2,d0/2,d1,d0%2"},
        [4] = {"d0,d2,d3,d1", "d0,d1/8,d2,d3,d1%8", "d3,d2,d1,d0"},
    };
    const char *picked = text[d->p->buffer.data[buffer].shape.rank][below(d, 3)];
    return kiln_str_from(picked ? picked : "row");
}

/* Loops of one block in a random order. */
static void draw_reorder(drawing *d, kiln_block block, kiln_prim_args *args) {
    kiln_loops nest = nest_of(d, block);
    args->loop_count = KILN_MIN(nest.count, KILN_BLOCK_ITERS_MAX);
    for (uint32_t i = 0; i < args->loop_count; i++) args->loop[i] = nest.loop[i];
    for (uint32_t i = args->loop_count; i > 1; i--) {
        uint32_t k = below(d, i);
        kiln_stmt swap = args->loop[i - 1];
        args->loop[i - 1] = args->loop[k];
        args->loop[k] = swap;
    }
}

static void draw_fuse(drawing *d, kiln_block block, kiln_prim_args *args) {
    kiln_loops nest = nest_of(d, block);
    if (nest.count < 2) return;
    uint32_t first = below(d, nest.count - 1);
    args->loop[0] = nest.loop[first];
    args->loop[1] = nest.loop[first + 1];
    args->loop_count = 2;
}

/* Factors whose product is not much more than the loop has: iterations that only predicates stop
 * would keep the interpreter busy for ever. */
static void draw_split(drawing *d, kiln_prim_args *args) {
    static const int64_t factor[] = {2, 3, 4, 5, 8, 16};
    int64_t extent = d->p->stmt.data[args->loop[0]].extent;
    args->integer[0] = -1;
    args->integer[1] = factor[below(d, KILN_ARRAY_COUNT(factor))];
    args->integer_count = 2;
    if (below(d, 3) == 0) args->integer[args->integer_count++] = factor[below(d, 3)];
    int64_t product = args->integer[1] * (args->integer_count > 2 ? args->integer[2] : 1);
    if (product > 2 * extent) args->loop_count = 0;
}

static void draw_args(drawing *d, kiln_prim prim, kiln_prim_args *args) {
    static const char *const scope[] = {"global", "global", "global", "register"};
    kiln_block block = draw_block(d);
    *args = (kiln_prim_args){.block = block};
    args->loop[0] = draw_loop(
        d, prim == KILN_PRIM_COMPUTE_AT || prim == KILN_PRIM_REVERSE_COMPUTE_AT ? draw_block(d)
                                                                                : block);
    args->loop_count = 1;
    args->buffer = 1 + below(d, d->p->buffer.count - 1);
    args->integer[0] = 2 + below(d, 4);
    args->integer_count = 1;
    args->text = kiln_str_from(scope[below(d, 4)]);
    if (prim == KILN_PRIM_SPLIT) draw_split(d, args);
    if (prim == KILN_PRIM_REORDER) draw_reorder(d, block, args);
    if (prim == KILN_PRIM_FUSE) draw_fuse(d, block, args);
    if (prim == KILN_PRIM_TRANSFORM_LAYOUT) {
        args->text = draw_layout(d, args->buffer);
        args->integer_count = 0;
    }
    if (prim == KILN_PRIM_PAD && block)
        args->text = kiln_iter_name(d->p, &d->p->block.data[block].iter[0]);
    if (prim == KILN_PRIM_ANNOTATE) args->text = KILN_STR("note=fuzz");
}

kiln_program *draw_schedule(const kiln_program *te, kiln_rand *rand, uint32_t steps) {
    static const kiln_prim prims[] = {
        KILN_PRIM_SPLIT,
        KILN_PRIM_SPLIT,
        KILN_PRIM_SPLIT,
        KILN_PRIM_FUSE,
        KILN_PRIM_REORDER,
        KILN_PRIM_REORDER,
        KILN_PRIM_COMPUTE_AT,
        KILN_PRIM_REVERSE_COMPUTE_AT,
        KILN_PRIM_INLINE,
        KILN_PRIM_CACHE_READ,
        KILN_PRIM_CACHE_WRITE,
        KILN_PRIM_SET_SCOPE,
        KILN_PRIM_DECOMPOSE_REDUCTION,
        KILN_PRIM_VECTORIZE,
        KILN_PRIM_VECTORIZE,
        KILN_PRIM_UNROLL,
        KILN_PRIM_UNROLL,
        KILN_PRIM_PARALLEL,
        KILN_PRIM_TRANSFORM_LAYOUT,
        KILN_PRIM_PAD,
        KILN_PRIM_ANNOTATE,
    };
    drawing d = {kiln_program_copy(te, te->arena), rand};
    kiln_program_make_loops(d.p);
    for (uint32_t i = 0; i < steps; i++) {
        kiln_prim prim = prims[below(&d, KILN_ARRAY_COUNT(prims))];
        kiln_prim_args args;
        draw_args(&d, prim, &args);
        if (!args.block || !args.loop[0] || args.loop_count == 0) continue;
        kiln_status_free(kiln_prim_apply(d.p, prim, &args)); /* refused ones are part of the game */
    }
    return d.p;
}

kiln_program *draw_sample(const kiln_program *te, const kiln_target *target, kiln_rand *rand) {
    kiln_space *space = KILN_ARENA_NEW(te->arena, kiln_space);
    kiln_trace trace;
    kiln_program *scheduled = NULL;
    kiln_status st = kiln_space_create(te, target, te->arena, space);
    if (!st) st = kiln_space_sample(space, rand, te->arena, &trace, &scheduled);
    if (st) fail_msg("%s", kiln_status_text(st));
    return scheduled;
}

bool schedule_is_sound(const kiln_program *te, const kiln_program *scheduled, uint64_t seed) {
    kiln_tensor got[64];
    uint32_t count = make_args(te, seed, got);
    kiln_status st = kiln_loop_eval(scheduled, got, count);
    if (st)
        print_message("seed %llu: schedule left out: %s\n", (unsigned long long)seed,
                      kiln_status_text(st));
    bool sound = st == NULL;
    kiln_status_free(st);
    return sound;
}
