/* Schedules being written: what rules make sketches with, and whatever else writes a schedule
 * without text.
 *
 * A kiln_sched holds the trace so far and the program that it makes, in which every decision has
 * its preferred value. Below stands one function per row of prims.def, with the row's operands in
 * the row's order. Each applies its primitive to the program at once and records the instruction.
 *
 *     kiln_sched_sample tile = kiln_sched_choice(s, 2, sizes, rows, 0);
 *     kiln_sched_loops part = kiln_sched_split(
 *         s, kiln_sched_loop_of(s, conv, 1),
 *         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(tile, 0)));
 *     kiln_sched_vectorize(s, part.loop[1]);
 *
 * Handles. Blocks and buffers are their ids in the program, iterators their positions in the block.
 * A loop is its variable: it stays the same where reorder, compute_at or parallel move or mark the
 * loop; split, divide and fuse end a loop and return those that take its place. What returns a
 * handle returns "none" (all zero) when it is refused; none may be passed on, and whatever takes it
 * is refused as well.
 *
 * Errors. A primitive that is refused is a bug of the caller, unless the call is a try:
 *
 *     kiln_block copy = kiln_sched_cache_read(kiln_sched_try(s), conv, weights, KILN_SCOPE_GLOBAL);
 *
 * After a bug no call does anything; kiln_sched_end returns it as INTERNAL. A trace that is full is
 * no bug: programs can have more blocks than a trace has room for. */
#ifndef KILN_COMPILER_CORE_SCHED_SCHEDULE_H
#define KILN_COMPILER_CORE_SCHED_SCHEDULE_H

#include "base/layout.h"
#include "base/target.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/sched/replay.h"

/* A loop of the program, or the one that a location sampler chose. */
typedef struct kiln_sched_loop {
    kiln_var var;
    uint32_t location; /* index of the sampler's instruction + 1 */
} kiln_sched_loop;

#define KILN_SCHED_LOOPS_MAX (KILN_BLOCK_ITERS_MAX * 2)
typedef struct kiln_sched_loops {
    uint32_t count;
    kiln_sched_loop loop[KILN_SCHED_LOOPS_MAX]; /* outermost first */
} kiln_sched_loops;

/* A sampler: elements of its decision are integers (kiln_sched_element). */
typedef struct kiln_sched_sample {
    uint32_t instruction; /* index + 1 */
} kiln_sched_sample;

/* An integer: a product of constants and elements of samplers' decisions. */
typedef struct kiln_sched_int {
    kiln_operand operand;
} kiln_sched_int;

/* What a try was refused; text in the schedule's arena. */
typedef struct kiln_sched_refusal {
    const char *instruction, *reason;
} kiln_sched_refusal;

typedef struct kiln_sched {
    kiln_arena *arena; /* everything below lives there; not owned */
    const kiln_target *target;
    kiln_program *program; /* scheduled so far */
    bool row_major;        /* set after begin: layouts of buffers in memory are refused */
    bool compact;          /* set after begin: rules prefer small code to the fastest */
    bool keeps_refused;    /* set after begin */
    KILN_VEC(kiln_sched_refusal) refused;
    /* Private from here on. */
    const kiln_program *te;
    kiln_replay replay;
    kiln_status bug;
    bool trying;
} kiln_sched;

/* Starts from `te` placed in loops. Both must outlive the schedule. */
kiln_sched kiln_sched_begin(const kiln_program *te, const kiln_target *target, kiln_arena *arena);
/* The next primitive may be refused. Samplers and primitives among its own arguments come before
 * it, so they are computed in a statement of their own. */
kiln_sched *kiln_sched_try(kiln_sched *s);
/* The trace so far, decisions closed; in the schedule's arena. */
const kiln_trace *kiln_sched_trace(const kiln_sched *s);
/* Closed traces that its samplers allow: the product of the ways to close each. */
double kiln_sched_size(const kiln_sched *s);
/* INTERNAL            a primitive that was no try was refused; names it and the reason
 * RESOURCE_EXHAUSTED  no more instruction fits into the trace; tries were refused as well */
KILN_MUST_USE kiln_status kiln_sched_end(kiln_sched *s);

/* ---- handles and integers ---- */

/* The loop that was made for an iterator of the block when the block was placed, which no split,
 * divide or fuse has ended; none: there is none. */
kiln_sched_loop kiln_sched_loop_of(const kiln_sched *s, kiln_block block, uint32_t iter);
/* The outermost KILN_SCHED_LOOPS_MAX loops around the block. */
kiln_sched_loops kiln_sched_loops_around(const kiln_sched *s, kiln_block block);
/* One of all loops around the block: 0 the outermost, -1 the innermost. */
kiln_sched_loop kiln_sched_loop_around(const kiln_sched *s, kiln_block block, int position);
bool kiln_sched_loop_is_none(kiln_sched_loop loop); /* Whether the call that gave it was refused. */
int64_t kiln_sched_extent(const kiln_sched *s, kiln_sched_loop loop); /* 1 for none */
/* Appends; none is left out. */
void kiln_sched_loops_add(kiln_sched_loops *list, kiln_sched_loop loop);

kiln_sched_int kiln_sched_const(int64_t value); /* The number itself. */
kiln_sched_int kiln_sched_rest(void); /* the factor of a split that takes whatever is left */
kiln_sched_int kiln_sched_element(kiln_sched_sample sample, uint32_t element);
/* The element as it was decided; 0: there is none. */
int64_t kiln_sched_decided(const kiln_sched *s, kiln_sched_sample sample, uint32_t element);
/* At most KILN_OPERAND_FACTORS_MAX factors altogether. */
kiln_sched_int kiln_sched_times(kiln_sched_int a, kiln_sched_int b);
/* A list of integers and its length, as the functions below take them. */
#define KILN_SCHED_INTS(...)               \
    (const kiln_sched_int[]){__VA_ARGS__}, \
        (uint32_t)(sizeof((const kiln_sched_int[]){__VA_ARGS__}) / sizeof(kiln_sched_int))

/* ---- the algorithm ---- */

/* Schedules that alternative of the task instead of its direct form; before anything else. */
bool kiln_sched_algorithm(kiln_sched *s, kiln_algorithm algorithm);

/* ---- samplers ---- */

/* `parts` factors whose product is the loop's extent, the last at most `innermost_max`. */
kiln_sched_sample kiln_sched_perfect_tile(kiln_sched *s, kiln_sched_loop loop, uint32_t parts,
                                          int64_t innermost_max, const int64_t *preferred);
/* One of the integers; element 0 is it. `preferred`: its index. */
kiln_sched_sample kiln_sched_categorical(kiln_sched *s, const int64_t *value, uint32_t count,
                                         uint32_t preferred);
/* One row of `value` [rows][width]; element k is its column k. */
kiln_sched_sample kiln_sched_choice(kiln_sched *s, uint32_t width, const int64_t *value,
                                    uint32_t rows, uint32_t preferred);
/* One of the outermost `places` loops where compute_at of the block is legal; `preferred` 0: none
 * of them, the block stays at the root, and compute_at there does nothing. */
kiln_sched_loop kiln_sched_location(kiln_sched *s, kiln_block block, uint32_t places,
                                    uint32_t preferred);

/* ---- loops ---- */

/* The loops that take its place, outermost first: extents are the factors, one may be the rest. */
kiln_sched_loops kiln_sched_split(kiln_sched *s, kiln_sched_loop loop, const kiln_sched_int *factor,
                                  uint32_t count);
/* The one loop that takes the place of loops that stand directly in one another. */
kiln_sched_loop kiln_sched_fuse(kiln_sched *s, const kiln_sched_loops *loops);
/* Loops of one perfect nest, in the new order; others keep their places. */
bool kiln_sched_reorder(kiln_sched *s, const kiln_sched_loops *order);
/* All iterations at once, in lanes. */
bool kiln_sched_vectorize(kiln_sched *s, kiln_sched_loop loop);
bool kiln_sched_unroll(kiln_sched *s, kiln_sched_loop loop); /* Straight code. */
/* Shared out among the threads of the CPU. */
bool kiln_sched_parallel(kiln_sched *s, kiln_sched_loop loop);
/* Over the groups of a launch or the threads of a group. */
bool kiln_sched_bind(kiln_sched *s, kiln_sched_loop loop, kiln_loop_axis axis);
/* Its iterations side by side in each thread; around or inside a thread nest. */
bool kiln_sched_vthread(kiln_sched *s, kiln_sched_loop loop);
/* A remark on the loop, or an attribute in text form: "key=value". */
bool kiln_sched_annotate(kiln_sched *s, kiln_sched_loop loop, const char *key_and_value);
/* The loop and the reduce loop in it, the innermost two, become the instruction. */
bool kiln_sched_tensorize(kiln_sched *s, kiln_sched_loop lanes, const kiln_intrinsic *intrinsic);
/* The iterator becomes two, at its place and the next, the inner one of `inner` values. */
kiln_sched_loops kiln_sched_divide(kiln_sched *s, kiln_block block, uint32_t iter,
                                   kiln_sched_int inner);
/* Iterators of the block, outermost first, become one, at the last one's place. */
bool kiln_sched_merge(kiln_sched *s, kiln_block block, const uint32_t *iter, uint32_t count);

/* ---- places ---- */

/* Puts a producer into a loop of its consumers, as much as they need there. */
bool kiln_sched_compute_at(kiln_sched *s, kiln_block block, kiln_sched_loop at);
/* Puts a consumer into a loop of its producer. */
bool kiln_sched_reverse_compute_at(kiln_sched *s, kiln_block block, kiln_sched_loop at);
/* Puts its value into its consumers; the block is gone. */
bool kiln_sched_inline(kiln_sched *s, kiln_block block);
/* The new block, which stores the initial values. */
kiln_block kiln_sched_decompose_reduction(kiln_sched *s, kiln_block block, kiln_sched_loop at);
/* The new block, which makes the parts. */
kiln_block kiln_sched_rfactor(kiln_sched *s, kiln_block block, uint32_t iter, kiln_sched_int parts);

/* ---- memory ---- */

/* The new block, which copies the buffer. */
kiln_block kiln_sched_cache_read(kiln_sched *s, kiln_block block, kiln_buffer buffer,
                                 kiln_scope scope);
/* The new block, which copies the elements of the buffer that `block` reads to where each has the
 * block's iterators as indices. */
kiln_block kiln_sched_gather(kiln_sched *s, kiln_block block, kiln_buffer buffer, kiln_scope scope);
/* The new block, which makes the product of bytes of the buffer with a unit matrix, tiles of `size`
 * of which lie along the iterator of `block`; `block` reads that in place of i32 of the bytes. The
 * next number is the block that makes the matrix. */
kiln_block kiln_sched_unit_product(kiln_sched *s, kiln_block block, kiln_buffer buffer,
                                   uint32_t iter, kiln_sched_int size);
/* The new block, which copies what `block` now makes in `scope` to where it wrote before. */
kiln_block kiln_sched_cache_write(kiln_sched *s, kiln_block block, kiln_scope scope);
/* Where a temp lies. */
bool kiln_sched_set_scope(kiln_sched *s, kiln_buffer buffer, kiln_scope scope);
/* A divisor or modulus KILN_SCHED_GIVEN(k) of `layout` is the k-th of the integers. */
#define KILN_SCHED_GIVEN(k) (-1 - (int64_t)(k))
/* Changes the layout of a buffer. `given`: [count] integers of `layout`. */
bool kiln_sched_transform_layout(kiln_sched *s, kiln_buffer buffer, const kiln_layout *layout,
                                 const kiln_sched_int *given, uint32_t count);
/* Keeps rows of a shared temp out of each other's banks: they are `pitch` elements longer in
 * memory, and units of a row of `unit` elements change places, in `ways` ways (1: they do not),
 * every `step` rows. */
bool kiln_sched_swizzle(kiln_sched *s, kiln_buffer buffer, kiln_sched_int pitch,
                        kiln_sched_int unit, kiln_sched_int ways, kiln_sched_int step);
/* What iterations of the loop fetch into shared temps is begun stages - 1 iterations before; 1: in
 * its own. */
bool kiln_sched_pipeline(kiln_sched *s, kiln_sched_loop loop, kiln_sched_int stages);
/* With `on` 1 threads of their own fetch for the loop, which is such a pipeline. */
bool kiln_sched_producer(kiln_sched *s, kiln_sched_loop loop, kiln_sched_int on);
/* So many groups of the launch whose grid loop it is are to fit on a unit; 0: as it comes. */
bool kiln_sched_resident(kiln_sched *s, kiln_sched_loop loop, kiln_sched_int groups);
/* Makes the iterator, and the temp that the block writes, a multiple longer. */
bool kiln_sched_pad(kiln_sched *s, kiln_block block, uint32_t iter, kiln_sched_int multiple);
/* With `on` 1 iterations also fetch a share each of what comes next in the buffer. */
bool kiln_sched_prefetch(kiln_sched *s, kiln_buffer buffer, kiln_sched_loop loop,
                         kiln_sched_int on);

#endif
