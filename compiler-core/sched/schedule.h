/* Writes schedules: used by rules to make sketches, and by other code that makes a schedule without
 * text.
 *
 * A kiln_sched holds the trace so far and the resulting program, in which every decision has its
 * preferred value. There is one function per row of prims.def, with the row's operands in the row's
 * order. Each applies its primitive to the program at once and records the instruction.
 *
 *     kiln_sched_sample tile = kiln_sched_choice(s, 2, sizes, rows, 0);
 *     kiln_sched_loops part = kiln_sched_split(
 *         s, kiln_sched_loop_of(s, conv, 1),
 *         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(tile, 0)));
 *     kiln_sched_vectorize(s, part.loop[1]);
 *
 * Handles. Blocks and buffers are their ids in the program, iterators their positions in the block.
 * A loop is identified by its variable: it stays valid when reorder, compute_at or parallel move or
 * mark the loop; split, divide and fuse end a loop and return its replacements. A refused call
 * returns the handle "none" (all zero); none may be passed on, and a call that gets it is refused
 * as well.
 *
 * Errors. A refused primitive is a bug of the caller, unless the call is a try:
 *
 *     kiln_block copy = kiln_sched_cache_read(kiln_sched_try(s), conv, weights, KILN_SCOPE_GLOBAL);
 *
 * After a bug all calls do nothing; kiln_sched_end returns it as INTERNAL. A full trace is no bug:
 * programs can have more blocks than a trace has room for. */
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

/* A refused try; text in the schedule's arena. */
typedef struct kiln_sched_refusal {
    const char *instruction, *reason;
} kiln_sched_refusal;

typedef struct kiln_sched {
    kiln_arena *arena; /* everything below lives there; not owned */
    const kiln_target *target;
    kiln_program *program; /* scheduled so far */
    bool row_major;        /* set after begin: refuse layouts of buffers in memory */
    bool compact;          /* set after begin: rules prefer small code to fast code */
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
/* The next primitive may be refused. Samplers and primitives among its arguments would be called
 * before it, so they must be in an earlier statement. */
kiln_sched *kiln_sched_try(kiln_sched *s);
/* A schedule with the same steps, and so the same ids, on a program of its own, to find out whether
 * further steps apply; it keeps no refused ones. End it as any other. */
kiln_sched kiln_sched_fork(const kiln_sched *s);
/* The trace so far, decisions closed; in the schedule's arena. */
const kiln_trace *kiln_sched_trace(const kiln_sched *s);
/* Closed traces that its samplers allow: the product of the ways to close each. */
double kiln_sched_size(const kiln_sched *s);
/* INTERNAL            a primitive that was no try was refused; names it and the reason
 * RESOURCE_EXHAUSTED  no more instruction fits into the trace; tries were refused, too */
KILN_MUST_USE kiln_status kiln_sched_end(kiln_sched *s);

/* ---- handles and integers ---- */

/* The loop that was made for an iterator of the block when the block was placed; none if a split,
 * divide or fuse ended it. */
kiln_sched_loop kiln_sched_loop_of(const kiln_sched *s, kiln_block block, uint32_t iter);
/* The outermost KILN_SCHED_LOOPS_MAX loops around the block. */
kiln_sched_loops kiln_sched_loops_around(const kiln_sched *s, kiln_block block);
/* One of all loops around the block: 0 the outermost, -1 the innermost. */
kiln_sched_loop kiln_sched_loop_around(const kiln_sched *s, kiln_block block, int position);
bool kiln_sched_loop_is_none(kiln_sched_loop loop); /* Whether the call that returned it was
                                                     * refused. */
int64_t kiln_sched_extent(const kiln_sched *s, kiln_sched_loop loop); /* 1 for none */
/* Appends; none is left out. */
void kiln_sched_loops_add(kiln_sched_loops *list, kiln_sched_loop loop);

kiln_sched_int kiln_sched_const(int64_t value); /* The number itself. */
kiln_sched_int kiln_sched_rest(void);           /* the factor of a split that takes the rest */
kiln_sched_int kiln_sched_element(kiln_sched_sample sample, uint32_t element);
/* The decided value of the element; 0: there is none. */
int64_t kiln_sched_decided(const kiln_sched *s, kiln_sched_sample sample, uint32_t element);
/* At most KILN_OPERAND_FACTORS_MAX factors altogether. */
kiln_sched_int kiln_sched_times(kiln_sched_int a, kiln_sched_int b);
/* A list of integers and its length, as the functions below take them. */
#define KILN_SCHED_INTS(...)               \
    (const kiln_sched_int[]){__VA_ARGS__}, \
        (uint32_t)(sizeof((const kiln_sched_int[]){__VA_ARGS__}) / sizeof(kiln_sched_int))

/* ---- the algorithm ---- */

/* Schedules that alternative of the task instead of its direct form; must be the first call. */
bool kiln_sched_algorithm(kiln_sched *s, kiln_algorithm algorithm);

/* ---- samplers ---- */

/* `parts` factors whose product is the loop's extent, the last at most `innermost_max`. */
kiln_sched_sample kiln_sched_perfect_tile(kiln_sched *s, kiln_sched_loop loop, uint32_t parts,
                                          int64_t innermost_max, const int64_t *preferred);
/* One of the integers, as element 0. `preferred`: its index. */
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

/* Returns its replacements, outermost first: extents are the factors, one may be the rest. */
kiln_sched_loops kiln_sched_split(kiln_sched *s, kiln_sched_loop loop, const kiln_sched_int *factor,
                                  uint32_t count);
/* Replaces directly nested loops by one, which is returned. */
kiln_sched_loop kiln_sched_fuse(kiln_sched *s, const kiln_sched_loops *loops);
/* Loops of one perfect nest, in the new order; others keep their places. */
bool kiln_sched_reorder(kiln_sched *s, const kiln_sched_loops *order);
/* Runs all iterations at once, in lanes. */
bool kiln_sched_vectorize(kiln_sched *s, kiln_sched_loop loop);
bool kiln_sched_unroll(kiln_sched *s, kiln_sched_loop loop); /* Straight code. */
/* Distributes iterations to the threads of the CPU. */
bool kiln_sched_parallel(kiln_sched *s, kiln_sched_loop loop);
/* Over the groups of a launch or the threads of a group. */
bool kiln_sched_bind(kiln_sched *s, kiln_sched_loop loop, kiln_loop_axis axis);
/* Interleaves its iterations in each thread; around or inside a thread nest. */
bool kiln_sched_vthread(kiln_sched *s, kiln_sched_loop loop);
/* A remark on the loop, or an attribute in text form: "key=value". */
bool kiln_sched_annotate(kiln_sched *s, kiln_sched_loop loop, const char *key_and_value);
/* The loop and the reduce loop in it, the innermost two, become the instruction. */
bool kiln_sched_tensorize(kiln_sched *s, kiln_sched_loop lanes, const kiln_intrinsic *intrinsic);
/* Splits the iterator into two, at its place and the next, the inner one of `inner` values. */
kiln_sched_loops kiln_sched_divide(kiln_sched *s, kiln_block block, uint32_t iter,
                                   kiln_sched_int inner);
/* Merges iterators of the block, outermost first, into one, at the last one's place. */
bool kiln_sched_merge(kiln_sched *s, kiln_block block, const uint32_t *iter, uint32_t count);

/* ---- places ---- */

/* Moves a producer into a loop of its consumers, shrunk to the part needed there. */
bool kiln_sched_compute_at(kiln_sched *s, kiln_block block, kiln_sched_loop at);
/* Puts a consumer into a loop of its producer. */
bool kiln_sched_reverse_compute_at(kiln_sched *s, kiln_block block, kiln_sched_loop at);
/* Inlines its value into its consumers and removes the block. */
bool kiln_sched_inline(kiln_sched *s, kiln_block block);
/* Returns the new block, which stores the initial values. */
kiln_block kiln_sched_decompose_reduction(kiln_sched *s, kiln_block block, kiln_sched_loop at);
/* Returns the new block, which makes the parts. */
kiln_block kiln_sched_rfactor(kiln_sched *s, kiln_block block, uint32_t iter, kiln_sched_int parts);

/* ---- memory ---- */

/* Returns the new block, which copies the buffer. */
kiln_block kiln_sched_cache_read(kiln_sched *s, kiln_block block, kiln_buffer buffer,
                                 kiln_scope scope);
/* Returns the new block, which copies the elements of the buffer that `block` reads to a buffer
 * indexed by the block's iterators. */
kiln_block kiln_sched_gather(kiln_sched *s, kiln_block block, kiln_buffer buffer, kiln_scope scope);
/* Returns the new block, which multiplies bytes of the buffer by a unit matrix, in tiles of `size`
 * along the iterator of `block`; `block` reads the product instead of i32 of the bytes. The block
 * with the next id makes the matrix. */
kiln_block kiln_sched_unit_product(kiln_sched *s, kiln_block block, kiln_buffer buffer,
                                   uint32_t iter, kiln_sched_int size);
/* Returns the new block, which copies the result of `block`, now in `scope`, to its original
 * buffer. */
kiln_block kiln_sched_cache_write(kiln_sched *s, kiln_block block, kiln_scope scope);
/* Sets the memory of a temp. */
bool kiln_sched_set_scope(kiln_sched *s, kiln_buffer buffer, kiln_scope scope);
/* A divisor or modulus KILN_SCHED_GIVEN(k) of `layout` is the k-th of the integers. */
#define KILN_SCHED_GIVEN(k) (-1 - (int64_t)(k))
/* Changes the layout of a buffer. `given`: [count] integers of `layout`. */
bool kiln_sched_transform_layout(kiln_sched *s, kiln_buffer buffer, const kiln_layout *layout,
                                 const kiln_sched_int *given, uint32_t count);
/* Spreads rows of a shared temp over banks: rows are `pitch` elements longer in memory, and their
 * units of `unit` elements are permuted in `ways` ways (1: none), changing every `step` rows. */
bool kiln_sched_swizzle(kiln_sched *s, kiln_buffer buffer, kiln_sched_int pitch,
                        kiln_sched_int unit, kiln_sched_int ways, kiln_sched_int step);
/* Fetches of the loop into shared temps begin stages - 1 iterations earlier; 1: no pipeline. */
bool kiln_sched_pipeline(kiln_sched *s, kiln_sched_loop loop, kiln_sched_int stages);
/* With `on` 1 extra threads fetch for the loop, which must be such a pipeline. */
bool kiln_sched_producer(kiln_sched *s, kiln_sched_loop loop, kiln_sched_int on);
/* So many groups of the loop's launch must fit on a unit; 0: no requirement. The loop is a grid
 * loop. */
bool kiln_sched_resident(kiln_sched *s, kiln_sched_loop loop, kiln_sched_int groups);
/* Pads the iterator, and the temp that the block writes, to a multiple. */
bool kiln_sched_pad(kiln_sched *s, kiln_block block, uint32_t iter, kiln_sched_int multiple);
/* With `on` 1 each iteration also prefetches a share of the buffer's next part. */
bool kiln_sched_prefetch(kiln_sched *s, kiln_buffer buffer, kiln_sched_loop loop,
                         kiln_sched_int on);

#endif
