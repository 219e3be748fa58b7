/* Rules for GPUs: grids of groups of threads whose sums lie in registers. What they decide comes
 * from access patterns and from the limits of the target alone. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_GPU_H
#define KILN_COMPILER_CORE_RULES_GPU_H

#include "compiler-core/ir/affine.h"
#include "compiler-core/rules/rules.h"

/* What schedules must keep to, and what makes one tile better than another. */
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
    double issue;           /* instructions of warps that a unit does a cycle */
    double copy_rate;       /* bytes that a unit reads from the device a cycle */
} kiln_gpu_limits;

kiln_gpu_limits kiln_gpu_limits_of(const kiln_target *target);

/* ---- one large reduction --------------------------------------------------------------------- */

#define KILN_GPU_TILED_MAX 3  /* iterators that a tile has */
#define KILN_GPU_COPIES_MAX 2 /* operands that threads of a group share */
#define KILN_GPU_ROWS_MAX 56  /* tiles that are worth a try: what a table of a trace holds */
#define KILN_GPU_STEPS_MAX 72
#define KILN_GPU_PITCH_BYTES 16 /* of the widest access, so that rows still begin on one */
/* Columns of the table of steps: a block of k, how many of it are unrolled, stages of the pipeline.
 */
enum { KILN_GPU_BLOCK, KILN_GPU_UNROLLED, KILN_GPU_STAGES, KILN_GPU_STEP_COLUMNS };

/* An operand that the group copies into its memory. */
typedef struct kiln_gpu_operand {
    kiln_buffer buffer;
    uint32_t rank;
    /* index of dimension d = sum of coefficient[d][i] * iterator i */
    int64_t coefficient[KILN_RANK_MAX][KILN_BLOCK_ITERS_MAX];
    /* The same along iterators of the tile and along k, and elements that a group of one point
     * reads in one step. */
    int64_t along_tile[KILN_RANK_MAX][KILN_GPU_TILED_MAX];
    int64_t along_k[KILN_RANK_MAX], fixed[KILN_RANK_MAX];
    int64_t taps[KILN_RANK_MAX]; /* of windows along the dimension; each reads an element */
    int along;                   /* dimension that lies innermost in shared memory */
    bool packed;                 /* a constant that is packed in that order first, */
    kiln_block packing;          /* by this block */
    /* Elements that a row may be longer in shared memory: so many that rows which windows read
     * begin where vectors do; elsewhere a vector, so that threads which write across rows ask
     * different banks. */
    int64_t pitch;
    int block_dim;               /* along k alone, around all others of a plane; -1: none */
    int64_t bytes;               /* of an element */
    int64_t run;                 /* elements of `along` that lie together in memory */
    int64_t fetch;               /* elements that one thread copies at a time */
    int64_t most[KILN_RANK_MAX]; /* elements of a dimension that some tile of the table reads */
} kiln_gpu_operand;

/* A row of the table: a tile that every step of the reduction goes with. */
typedef struct kiln_gpu_tile {
    int64_t threads[KILN_GPU_TILED_MAX], points[KILN_GPU_TILED_MAX];
    int64_t lanes, parts; /* of a thread's points of the iterator with lanes; parts lie apart */
    int64_t live;         /* kiln_gpu_live */
    int64_t plane;        /* threads to which one step of k is dealt, where that is a plane */
    double cycles;        /* all groups, with the preferred steps, about */
} kiln_gpu_tile;

typedef struct kiln_gpu_tiling {
    kiln_sched *s;
    kiln_gpu_limits limits;
    kiln_block block;
    kiln_pattern pattern;
    uint32_t tiled;               /* how many iterators are */
    int iter[KILN_GPU_TILED_MAX]; /* outermost first; the last one is contiguous in the result */
    int vector;                   /* which of them has lanes; -1: none */
    int k;                        /* reduced in blocks */
    int64_t steps_most;           /* of k, with what fills up whole blocks; 0: nothing does */
    uint32_t operand_count;
    kiln_gpu_operand operand[KILN_GPU_COPIES_MAX];
    int64_t together; /* threads that each of a row stands for: 1, or those of a warp */
    uint32_t row_count, preferred;
    kiln_gpu_tile row[KILN_GPU_ROWS_MAX];
    uint32_t step_count, preferred_step;
    int64_t step[KILN_GPU_STEPS_MAX][KILN_GPU_STEP_COLUMNS];
    kiln_sched_sample tile, steps;
} kiln_gpu_tiling;

/* gpu_roles.c: which iterators make the tile, and what is copied. False: no element is used by
 * several rows and several columns of a tile. */
bool kiln_gpu_choose_roles(kiln_gpu_tiling *t);
/* Whether iterator `i` takes more than one value in a group. */
bool kiln_gpu_moves(const kiln_gpu_tiling *t, int i);
/* Extent of iterator `i` of the tiling's block. */
int64_t kiln_gpu_extent(const kiln_gpu_tiling *t, int i);

/* Whether nothing but constants is behind what the buffer holds. */
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
/* Of the operands' copies for one block of steps. */
int64_t kiln_gpu_shared_bytes(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps);
/* Threads to which a step of a plane is dealt, so that a thread copies as few times as can be for
 * `steps` of them; more of them lie behind one another. */
int64_t kiln_gpu_choose_plane(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps);
/* Elements of windows that straight code of all taps holds, since it has loaded them and reads them
 * again; 0: no window of the thread's points reads any twice. */
int64_t kiln_gpu_live(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile);

/* What a group takes with a tile for one block of steps. Registers are of 4 bytes. */
typedef struct kiln_gpu_needs {
    int64_t block;                       /* of steps */
    int64_t threads;                     /* of the group */
    int64_t points;                      /* of a thread */
    int64_t registers;                   /* of a thread, without what it fetches, about */
    int64_t rounds[KILN_GPU_COPIES_MAX]; /* kiln_gpu_rounds */
    int64_t fetched_words;               /* registers of a thread's fetches */
    int64_t places;                      /* fetches whose addresses are no sums of digits */
    bool holds_too_many;                 /* more of these than pipelines keep in registers */
    int64_t copied_bytes;                /* kiln_gpu_shared_bytes */
    int64_t stage_bytes;                 /* of shared memory, whatever pitch is drawn */
} kiln_gpu_needs;

/* Tiles of threads, not of warps. */
kiln_gpu_needs kiln_gpu_needs_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile,
                                 int64_t block);
/* 4-byte registers of a thread, about. */
int64_t kiln_gpu_tile_registers(const kiln_gpu_needs *needs, int64_t stages);

/* gpu_sizes.c: tables of tiles and of steps, all of which go together within the limits. NULL, or
 * the limit that leaves none. */
const char *kiln_gpu_choose_sizes(kiln_gpu_tiling *t);
/* Makes t->row of tiles whose `cycles` are known: half are those of least, the others are spread
 * over the rest. Sorts `tile`; t->preferred is the one of least. */
void kiln_gpu_fill_table(kiln_gpu_tiling *t, kiln_gpu_tile *tile, uint32_t count);
/* Sets o->most to how far the tiles of the table reach. */
void kiln_gpu_note_reach(const kiln_gpu_tiling *t, kiln_gpu_operand *o);
/* The most of `steps` that can be straight code with so many points each. */
int64_t kiln_gpu_unrolled(const kiln_gpu_tiling *t, int64_t steps, int64_t points);

/* Whether rows of the operand's copy are apart by default. */
bool kiln_gpu_is_pitched(const kiln_gpu_operand *o);

/* gpu_time.c: how many groups make the result. */
double kiln_gpu_groups(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile);
/* Cycles of a unit that has its share of the groups. */
double kiln_gpu_cycles(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile,
                       const kiln_gpu_needs *needs, int64_t stages);

/* gpu_order.c. Rows of tiles, a divisor of `rows`, that take turns before the next of `columns`
 * does, so that groups which run at once read the fewest different elements. */
int64_t kiln_gpu_order_rows(const kiln_gpu_tiling *t, int64_t rows, int64_t columns);
/* The loops over tiles, outermost first, with a decision on that: `row` is that of rows. */
kiln_sched_loops kiln_gpu_order_grid(kiln_gpu_tiling *t, const kiln_sched_loops *grid,
                                     uint32_t row);
/* How many tiles each of at most so many groups makes at least; 1: turns do not divide the tiles,
 * or are too many. */
int64_t kiln_gpu_least_turns(int64_t tiles, int64_t groups);
/* Binds the one loop over tiles to groups, each of which makes some tiles, one after the other: a
 * decision, by default `turns`. `*out`: the loop over those of a group. */
bool kiln_gpu_bind_grid(kiln_gpu_tiling *t, kiln_sched_loop grid, int64_t turns,
                        kiln_sched_loop *out);

/* gpu_tile.c: whether the block is a reduction whose operands are used several times. */
bool kiln_gpu_is_tiled(kiln_sched *s, kiln_block block);
/* The nest of one reduction, whose expected cycles are added. NULL, or why there is none. */
const char *kiln_gpu_tile_block(kiln_sched *s, kiln_block block, double *cycles);
/* A copy of the operand for the group, as long as the tiles reach, which computes what only fills
 * up itself. 0: there can be none. */
kiln_block kiln_gpu_copy_operand(kiln_gpu_tiling *t, const kiln_gpu_operand *o);
/* The iterator of `follower`, which reads the sums, that goes along with an iterator of the
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

/* What a rule's sketch has of it so far. */
typedef struct kiln_gpu_splits {
    uint32_t options; /* of the sketch */
    /* As kiln_gpu_expect_tile, by the rule's tiles. */
    double (*expect)(kiln_sched *s, kiln_block block, double *out_groups);
    uint32_t count;    /* reductions that are split */
    double cycles;     /* that tiles and second launches are expected to take */
    const char *limit; /* why a reduction is not split, or not into more parts */
} kiln_gpu_splits;
/* The block that is to be in tiles: the reduction itself or, with the option and where groups are
 * few, a new one that makes parts, whose number is a decision; the reduction adds them up then, and
 * stands alone. 0: its loops do not allow that. */
kiln_block kiln_gpu_split(kiln_sched *s, kiln_block block, kiln_gpu_splits *splits);
/* How the sketch ends when all reductions have their places. */
kiln_sketch_result kiln_gpu_end_splits(const kiln_gpu_splits *splits);

/* gpu_matrix.c. */
typedef struct kiln_gpu_matrices {
    bool made;              /* false: nothing was to be done */
    kiln_block constant[2]; /* what packs a constant operand, to be dealt to threads in the end */
    double cycles;          /* of launches that turn data before, expected */
} kiln_gpu_matrices;
/* Makes the block, a product, one of matrices, whose operands are gathered: a constant before the
 * first run, data into shared memory, by blocks that write what their own iterators index. NULL, or
 * why there is none; then the schedule is of no use. */
const char *kiln_gpu_make_matrices(kiln_sched *s, kiln_block block, kiln_gpu_matrices *out);
/* How many elements along dimension `dim` of a gathered operand lie together where they are taken
 * from, at aligned addresses: a power of two, at most 16 bytes of them. */
int64_t kiln_gpu_gathered_run(const kiln_sched *s, kiln_buffer buffer, uint32_t dim);

/* gpu_warp.c: products by instructions of warps. */
kiln_sketch_result kiln_sketch_gpu_warp(kiln_sched *s, uint32_t options);

/* ---- everything else ------------------------------------------------------------------------- */

/* gpu_rows.c: reductions along rows, a group for each row. */
kiln_sketch_result kiln_sketch_gpu_rows(kiln_sched *s, uint32_t options);
/* gpu_sums.c: whether each dimension of what the block writes has an iterator of its own. */
bool kiln_gpu_has_plain_result(const kiln_program *p, const kiln_pattern *pattern);
/* A reduction that stands alone at the root, of few results and many steps: threads of a group
 * share those. False: a thread for each result is as good, and nothing was changed; or the loops do
 * not allow it. */
bool kiln_gpu_share_sums(kiln_sched *s, kiln_block block);
/* gpu_spread.c: a block that stands alone at the root, some results for each thread. */
void kiln_gpu_spread_block(kiln_sched *s, kiln_block block);
/* What only fills up around the data of one reduction disappears into it, unless a group copies
 * that. */
void kiln_gpu_inline_paddings(kiln_sched *s);
kiln_sketch_result kiln_sketch_gpu_spread(kiln_sched *s, uint32_t options);

#endif
