/* Rules for GPUs: grids of groups of threads whose sums lie in registers. They decide by access
 * patterns and limits of the target alone. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_GPU_H
#define KILN_COMPILER_CORE_RULES_GPU_H

#include "compiler-core/ir/affine.h"
#include "compiler-core/rules/rules.h"

/* Limits of schedules, and the rates by which tiles are compared. */
typedef struct kiln_gpu_limits {
    int64_t threads;      /* of a group */
    int64_t warp;         /* threads that run in step */
    int64_t shared_bytes; /* of a group */
    int64_t registers;    /* of a thread, 4 bytes each */
    int64_t fetch_bytes;  /* widest access of a thread */
    int64_t units;        /* that run groups */
    /* of all groups on one unit */
    int64_t unit_threads, unit_groups, unit_shared_bytes, unit_registers;
    int64_t reserved_bytes; /* of shared memory, for each group */
    double issue;           /* instructions of warps that a unit issues per cycle */
    double copy_rate;       /* bytes that a unit reads from the device per cycle */
} kiln_gpu_limits;

kiln_gpu_limits kiln_gpu_limits_of(const kiln_target *target);

/* ---- one large reduction --------------------------------------------------------------------- */

#define KILN_GPU_TILED_MAX 3  /* iterators that a tile has */
#define KILN_GPU_COPIES_MAX 2 /* operands that threads of a group share */
#define KILN_GPU_ROWS_MAX 56  /* most tiles to try: the size of a table in a trace */
#define KILN_GPU_STEPS_MAX 72
#define KILN_GPU_PITCH_BYTES 16 /* of the widest access, so that rows stay aligned to it */
/* Columns of the table of steps: block of k, unrolled steps of it, stages of the pipeline.
 */
enum { KILN_GPU_BLOCK, KILN_GPU_UNROLLED, KILN_GPU_STAGES, KILN_GPU_STEP_COLUMNS };

/* An operand that the group copies into its memory. */
typedef struct kiln_gpu_operand {
    kiln_buffer buffer;
    uint32_t rank;
    /* index of dimension d = sum of coefficient[d][i] * iterator i */
    int64_t coefficient[KILN_RANK_MAX][KILN_BLOCK_ITERS_MAX];
    /* The coefficients along iterators of the tile and along k, and elements that a group of one
     * point reads in one step. */
    int64_t along_tile[KILN_RANK_MAX][KILN_GPU_TILED_MAX];
    int64_t along_k[KILN_RANK_MAX], fixed[KILN_RANK_MAX];
    int64_t taps[KILN_RANK_MAX]; /* taps of a window along the dimension; each reads an element */
    int along;                   /* dimension that lies innermost in shared memory */
    bool packed;                 /* a constant that is packed in that order first, */
    kiln_block packing;          /* by this block */
    /* Padding of a row in shared memory, in elements: rows read by windows stay aligned to vectors;
     * other rows are a vector longer, so that threads that write across rows use different
     * banks. */
    int64_t pitch;
    int64_t ways;                /* of an exchange of vectors in place of that; 1: none */
    int block_dim;               /* dimension along k alone, outside all others of a plane; -1:
                                  * none */
    int64_t bytes;               /* of an element */
    int64_t run;                 /* consecutive elements of `along` in memory */
    int64_t fetch;               /* elements that one thread copies at a time */
    int64_t most[KILN_RANK_MAX]; /* most elements of a dimension that a tile of the table reads */
} kiln_gpu_operand;

/* A row of the table: a tile that is legal with every row of steps. */
typedef struct kiln_gpu_tile {
    int64_t threads[KILN_GPU_TILED_MAX], points[KILN_GPU_TILED_MAX];
    int64_t lanes, parts; /* of a thread's points of the iterator with lanes; parts are not
                           * adjacent */
    int64_t live;         /* kiln_gpu_live */
    int64_t plane;        /* threads that share one step of k, where that is a plane */
    double cycles;        /* estimate for all groups, with the preferred steps */
} kiln_gpu_tile;

typedef struct kiln_gpu_tiling {
    kiln_sched *s;
    kiln_gpu_limits limits;
    kiln_block block;
    kiln_pattern pattern;
    uint32_t tiled;               /* number of tiled iterators */
    int iter[KILN_GPU_TILED_MAX]; /* outermost first; the last one is contiguous in the result */
    int vector;                   /* which of them has lanes; -1: none */
    int k;                        /* reduced in blocks */
    int64_t steps_most;           /* of k, including padding to whole blocks; 0: not padded */
    uint32_t operand_count;
    kiln_gpu_operand operand[KILN_GPU_COPIES_MAX];
    int64_t together; /* threads that one thread of a row represents: 1, or those of a warp */
    uint32_t row_count, preferred;
    kiln_gpu_tile row[KILN_GPU_ROWS_MAX];
    uint32_t step_count, preferred_step;
    int64_t step[KILN_GPU_STEPS_MAX][KILN_GPU_STEP_COLUMNS];
    bool exchanged; /* vectors of rows are by default, in place of a pitch */
    kiln_sched_sample tile, steps;
} kiln_gpu_tiling;

/* gpu_roles.c: chooses the iterators of the tile and the copied operands. False: no element is used
 * by several rows and several columns of a tile. */
bool kiln_gpu_choose_roles(kiln_gpu_tiling *t);
/* Whether iterator `i` takes more than one value in a group. */
bool kiln_gpu_moves(const kiln_gpu_tiling *t, int i);
/* Extent of iterator `i` of the tiling's block. */
int64_t kiln_gpu_extent(const kiln_gpu_tiling *t, int i);

/* Whether the buffer depends on constants alone. */
bool kiln_gpu_is_constant(kiln_program *p, kiln_buffer buffer);

/* gpu_needs.c: elements of dimension `d` of the operand that a group reads for one block of steps.
 */
int64_t kiln_gpu_region(const kiln_gpu_tiling *t, const kiln_gpu_operand *o, uint32_t d,
                        const kiln_gpu_tile *tile, int64_t steps);
/* Threads of a group. */
int64_t kiln_gpu_group_threads(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile);
/* Points of a thread. */
int64_t kiln_gpu_points(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile);
/* How many times a thread copies `o->fetch` elements of the operand for one block of steps. */
int64_t kiln_gpu_rounds(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                        const kiln_gpu_tile *tile, int64_t steps);
/* Elements of the operand's copy for one block of steps. */
int64_t kiln_gpu_copied_elements(const kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                                 const kiln_gpu_tile *tile, int64_t steps);
/* Bytes of the operands' copies for one block of steps. */
int64_t kiln_gpu_shared_bytes(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps);
/* Threads that share one step of a plane, so that a thread makes the fewest copies for `steps` of
 * them; several steps are processed one after another. */
int64_t kiln_gpu_choose_plane(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps);
/* Elements of windows that straight code of all taps keeps live, because it reads them again; 0: no
 * window of the thread's points reads an element twice. */
int64_t kiln_gpu_live(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile);

/* Resources of a group with a tile for one block of steps. Registers have 4 bytes. */
typedef struct kiln_gpu_needs {
    int64_t block;                       /* of steps */
    int64_t threads;                     /* of the group */
    int64_t points;                      /* of a thread */
    int64_t registers;                   /* of a thread, estimated, without fetches */
    int64_t rounds[KILN_GPU_COPIES_MAX]; /* kiln_gpu_rounds */
    int64_t fetched_words;               /* registers of a thread's fetches */
    int64_t places;                      /* fetches whose addresses are no sums of digits */
    bool holds_too_many;                 /* more fetched elements than pipelines keep in
                                          * registers */
    int64_t copied_bytes;                /* kiln_gpu_shared_bytes */
    int64_t stage_bytes;                 /* of shared memory, with the largest pitch */
    int64_t exchanged_bytes;             /* the same with vectors exchanged in place of it */
    bool exchanged;                      /* threads compute an address for each load of these */
} kiln_gpu_needs;

/* For tiles of threads, not of warps. */
kiln_gpu_needs kiln_gpu_needs_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile,
                                 int64_t block);
/* Estimate of the 4-byte registers of a thread. */
int64_t kiln_gpu_tile_registers(const kiln_gpu_needs *needs, int64_t stages);

/* gpu_sizes.c: chooses tables of tiles and of steps; all pairs are within the limits. NULL, or the
 * limit that no pair meets. */
const char *kiln_gpu_choose_sizes(kiln_gpu_tiling *t);
/* Fills t->row from tiles whose `cycles` are known: one half are the fastest, the others are spread
 * over the rest. Sorts `tile`; t->preferred is the fastest. */
void kiln_gpu_fill_table(kiln_gpu_tiling *t, kiln_gpu_tile *tile, uint32_t count);
/* Sets o->most to the largest extents over the tiles of the table. */
void kiln_gpu_note_reach(const kiln_gpu_tiling *t, kiln_gpu_operand *o);
/* The largest number of `steps` that can be unrolled with so many points each. */
int64_t kiln_gpu_unrolled(const kiln_gpu_tiling *t, int64_t steps, int64_t points);

/* Whether rows of the operand's copy are padded by default. */
bool kiln_gpu_is_pitched(const kiln_gpu_operand *o);
/* Ways in which the vectors of a row may be exchanged, so that threads that write across rows use
 * different banks without a pitch; 1: none, as windows would read parts of two vectors. */
int64_t kiln_gpu_exchange_ways(const kiln_gpu_operand *o);

/* gpu_time.c: number of groups for the whole result. */
double kiln_gpu_groups(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile);
/* Cycles of a unit for its share of the groups. */
double kiln_gpu_cycles(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile,
                       const kiln_gpu_needs *needs, int64_t stages);

/* gpu_order.c. Rows of tiles, a divisor of `rows`, that are processed for one of `columns` before
 * the next, so that concurrent groups read the fewest different elements. */
int64_t kiln_gpu_order_rows(const kiln_gpu_tiling *t, int64_t rows, int64_t columns);
/* The loops over tiles, outermost first, in an order that is a decision; `row` is the loop over
 * rows. */
kiln_sched_loops kiln_gpu_order_grid(kiln_gpu_tiling *t, const kiln_sched_loops *grid,
                                     uint32_t row);
/* The least number of tiles per group for at most `groups`; 1: no such number divides the tiles, or
 * it is too large. */
int64_t kiln_gpu_least_turns(int64_t tiles, int64_t groups);
/* Binds the one loop over tiles to groups, each of which makes several tiles in sequence: a
 * decision, by default `turns`. `*out`: the loop over a group's tiles. */
bool kiln_gpu_bind_grid(kiln_gpu_tiling *t, kiln_sched_loop grid, int64_t turns,
                        kiln_sched_loop *out);

/* gpu_tile.c: whether the block is a reduction whose operands are used several times. */
bool kiln_gpu_is_tiled(kiln_sched *s, kiln_block block);
/* Makes the nest of one reduction and adds its expected cycles. NULL, or why there is none. */
const char *kiln_gpu_tile_block(kiln_sched *s, kiln_block block, double *cycles);
/* A copy of the operand for the group, as large as the tiles need, which also computes a padding.
 * 0: impossible. */
kiln_block kiln_gpu_copy_operand(kiln_gpu_tiling *t, const kiln_gpu_operand *o);
/* The iterator of `follower`, which reads the sums, that corresponds to an iterator of the
 * reduction; -1: none. */
int kiln_gpu_follower_iter(const kiln_gpu_tiling *t, const kiln_pattern *follower, kiln_buffer sums,
                           int iter);
/* Cycles that the preferred tile of the block is expected to take, and its groups; INFINITY: no
 * tile is legal. */
double kiln_gpu_expect_tile(kiln_sched *s, kiln_block block, double *out_groups);
kiln_sketch_result kiln_sketch_gpu_tile(kiln_sched *s, uint32_t options);

/* gpu_split.c. Options of the rules "tile" and "warp":
 *
 * split              groups make parts of the sums, and a second launch adds these up
 * other instruction  of "warp" alone: where instructions of warps and of warp groups multiply, the
 *                    one that seems slower
 * matrix             of "warp" alone: iterators of rows, of columns and of steps become one each */
#define KILN_GPU_SPLIT 1u
#define KILN_GPU_OTHER_INSTRUCTION 2u
#define KILN_GPU_MATRIX 4u
#define KILN_GPU_TILE_OPTIONS 3
extern const char *const kiln_gpu_tile_option[KILN_GPU_TILE_OPTIONS];
/* Cycles from the end of one launch to the start of the next. */
double kiln_gpu_launch_cycles(const kiln_target *target);

/* State of splitting in a rule's sketch. */
typedef struct kiln_gpu_splits {
    uint32_t options; /* of the sketch */
    /* As kiln_gpu_expect_tile, for the rule's tiles. */
    double (*expect)(kiln_sched *s, kiln_block block, double *out_groups);
    uint32_t count;    /* reductions that are split */
    double cycles;     /* expected of tiles and second launches */
    const char *limit; /* why a reduction is not split, or not into more parts */
} kiln_gpu_splits;
/* The block to tile: the reduction itself or, with the option and few groups, a new one that makes
 * partial sums, whose number is a decision; the reduction then adds them up in its own launch. 0:
 * its loops do not allow that. */
kiln_block kiln_gpu_split(kiln_sched *s, kiln_block block, kiln_gpu_splits *splits);
/* The result of the sketch when all reductions are placed. */
kiln_sketch_result kiln_gpu_end_splits(const kiln_gpu_splits *splits);

/* gpu_matrix.c. */
typedef struct kiln_gpu_matrices {
    bool made;              /* false: nothing had to be done */
    kiln_block constant[2]; /* block that packs a constant operand; its loops are bound at the
                             * end */
    double cycles;          /* expected of earlier launches that rearrange data */
} kiln_gpu_matrices;
/* Turns the block, a product, into a product of matrices with gathered operands: a constant before
 * the first run, data into shared memory, by blocks that write elements indexed by their own
 * iterators. NULL, or the reason of the failure; then the schedule must be dropped. */
const char *kiln_gpu_make_matrices(kiln_sched *s, kiln_block block, kiln_gpu_matrices *out);
/* Consecutive, aligned elements in the source along dimension `dim` of a gathered operand: a power
 * of two, at most 16 bytes. */
int64_t kiln_gpu_gathered_run(const kiln_sched *s, kiln_buffer buffer, uint32_t dim);

/* gpu_warp.c: products by instructions of warps. */
kiln_sketch_result kiln_sketch_gpu_warp(kiln_sched *s, uint32_t options);

/* ---- everything else ------------------------------------------------------------------------- */

/* gpu_rows.c: reductions along rows, a group for each row. */
kiln_sketch_result kiln_sketch_gpu_rows(kiln_sched *s, uint32_t options);
/* gpu_sums.c: whether each dimension of what the block writes has an iterator of its own. */
bool kiln_gpu_has_plain_result(const kiln_program *p, const kiln_pattern *pattern);
/* For a reduction alone at the root with few results and many steps: threads of a group share the
 * steps. False, with nothing changed: a thread for each result is as fast, or the loops do not
 * allow it. */
bool kiln_gpu_share_sums(kiln_sched *s, kiln_block block);
/* gpu_spread.c: for a block alone at the root: some results for each thread. */
void kiln_gpu_spread_block(kiln_sched *s, kiln_block block);
/* Inlines paddings that only one reduction reads, unless a group copies that data. */
void kiln_gpu_inline_paddings(kiln_sched *s);
kiln_sketch_result kiln_sketch_gpu_spread(kiln_sched *s, uint32_t options);

#endif
