/* Rules turn a loop program into sketches: schedules in which every decision has the value that the
 * rule prefers, and which a search opens again. A rule asks what blocks read and write
 * (facts/pattern.h), never for an operator's name. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_RULES_H
#define KILN_COMPILER_CORE_RULES_RULES_H

#include "compiler-core/facts/pattern.h"
#include "compiler-core/sched/schedule.h"

/* How writing a sketch ended. */
typedef enum kiln_sketch_end {
    KILN_SKETCH_MADE,
    KILN_SKETCH_SAME,  /* the option `option` makes no difference here, whatever the others are */
    KILN_SKETCH_NONE,  /* there is no such sketch with these options */
    KILN_SKETCH_NEVER, /* the rule does not apply to this program, whatever the options are */
} kiln_sketch_end;

typedef struct kiln_sketch_result {
    kiln_sketch_end end;
    uint32_t option;    /* SAME: its position */
    const char *reason; /* why it was not made, or the rule not do more; NULL: nothing to say */
    /* Made: what the rule expects it to take. The sketch of least becomes the rule's first, which
     * may be the default; 0, of all of them: they stay in the order of options. */
    double cycles;
} kiln_sketch_result;

/* Sketches of one rule differ by options: what no decision can express, such as the order of loops.
 * Each is on or off. A rule reads them as a struct of its own. */
typedef struct kiln_rule {
    const char *name;
    uint32_t option_count;
    const char *const *option; /* [option_count] names, for people */
    /* Writes the sketch with the options whose bits are set. */
    kiln_sketch_result (*make)(kiln_sched *s, uint32_t options);
} kiln_rule;

/* The rules of a kind of targets. The first one that applies makes the space; the last one always
 * applies, or its reason is why there is none. */
typedef struct kiln_rule_set {
    uint32_t count; /* 0: there are no rules for such targets */
    const kiln_rule *rule;
} kiln_rule_set;
/* Column `rules` of target_kinds.def. */
#define X(NAME, name, rules, ...) extern const kiln_rule_set kiln_rules_##rules;
#include "base/target_kinds.def"
#undef X

/* rule_tile.c: one large reduction with a register tile; what feeds and follows it moves along. */
kiln_sketch_result kiln_sketch_tile(kiln_sched *s, uint32_t options);
/* rule_stack.c: reductions in series, each in a tile; blocks of rows go through all of them. */
kiln_sketch_result kiln_sketch_stack(kiln_sched *s, uint32_t options);
/* rule_rows.c: several reductions over the same rows. */
kiln_sketch_result kiln_sketch_rows(kiln_sched *s, uint32_t options);
/* alone.c: anything at all. */
kiln_sketch_result kiln_sketch_any(kiln_sched *s, uint32_t options);

/* Results of each kind but SAME. */
static inline kiln_sketch_result kiln_sketch_made(void) {
    return (kiln_sketch_result){.end = KILN_SKETCH_MADE};
}
static inline kiln_sketch_result kiln_sketch_none(const char *reason) {
    return (kiln_sketch_result){.end = KILN_SKETCH_NONE, .reason = reason};
}
static inline kiln_sketch_result kiln_sketch_never(const char *reason) {
    return (kiln_sketch_result){.end = KILN_SKETCH_NEVER, .reason = reason};
}

/* ---- shared by rules ---- */

/* inline.c: inlines what is cheap: all pointwise blocks except those that feed a reduction with
 * more than a copy. */
void kiln_sketch_inline(kiln_sched *s);
/* The reduction with most work, and how many reductions there are, apart from those of constants
 * alone; 0: none. */
kiln_block kiln_sketch_main_reduction(kiln_program *p, uint32_t *out_count);

/* tile_follow.c: the block that takes a reduction's results where they are, in memory that is near:
 * its reader, or a copy to where they were written before, which then are in `scope`. 0: there can
 * be none. */
kiln_block kiln_sketch_separate_result(kiln_sched *s, kiln_block block, kiln_scope scope);

/* tile_pad.c: what the block fills in around the source that it copies; 0: it does something else.
 */
kiln_expr kiln_sketch_padding_of(const kiln_program *p, kiln_block copy);

/* share.c: where the target has threads and the block enough work, shares out the outermost loops
 * around it, fused: as few as keep the threads equally busy, at most `most`. How many; 0: none. */
uint32_t kiln_sketch_share(kiln_sched *s, kiln_block block, uint32_t most);
/* The same with the loops inside of `outer`, which stays as it is. None: as kiln_sketch_share. */
uint32_t kiln_sketch_share_inside(kiln_sched *s, kiln_block block, kiln_sched_loop outer,
                                  uint32_t most);
/* How many loops stand around the block, from the root to `loop`; 0: it is none of them. */
uint32_t kiln_sketch_depth(const kiln_sched *s, kiln_block block, kiln_sched_loop loop);
/* Share of the threads' time in which they wait for the last of `parts` equal ones. */
double kiln_sketch_waiting(int64_t parts, int64_t threads);
/* The same of the loop that threads share; 0: they share none. */
uint32_t kiln_sketch_shared_depth(const kiln_sched *s, kiln_block block);

/* block_layout.c: adds the piece; more than a layout may have are left out and counted. */
void kiln_sketch_add_piece(kiln_layout *layout, uint32_t dim, int64_t divisor, int64_t modulus);
/* Tries to give the buffer blocks of `size` along dimension `dim`, innermost:
 * "d0,d1/{0},d2,d1%{0}". Not when that dimension is innermost already, or none (-1). */
void kiln_sketch_block_buffer(kiln_sched *s, kiln_buffer buffer, int dim, kiln_sched_int size);

/* transform.c: what a block picks its value by: iterators, or their remainders, that its value
 * compares with constants. Unrolled, one value is left of each comparison, and neighbours share
 * what they compute. */
typedef struct kiln_picks {
    uint32_t iters;                   /* bit i: by iterator i, or its remainder */
    int64_t by[KILN_BLOCK_ITERS_MAX]; /* remainder by this; 0: by the iterator itself */
} kiln_picks;
/* Whether it picks at all; `out` may be NULL. */
bool kiln_sketch_picks(kiln_program *p, kiln_block block, kiln_picks *out);
/* Whether its value asks where it is: then lowering cuts the loops around it there, and copies
 * whatever else is in them. */
bool kiln_sketch_has_borders(kiln_program *p, kiln_block block);
/* The block that reads what the transforms before it read, of `buffer`: the last one, which picks
 * and is no half of another; 0: none. */
kiln_block kiln_sketch_transform_of(kiln_program *p, kiln_buffer buffer);
/* A block that picks, in a nest of its own inside of loop `outer` (none: at the root): lanes over
 * what all its operands have in common, blocked alike, and what it picks by unrolled inside. False
 * when there are no such lanes. */
bool kiln_sketch_transform(kiln_sched *s, kiln_block block, kiln_sched_loop outer);
/* The same at the root with so many rows of tiles in a group. The loop over groups, outermost but
 * for what has no tiles; none: there is none. Threads share it, or what is inside of it. */
kiln_sched_loop kiln_sketch_transform_in_groups(kiln_sched *s, kiln_block block,
                                                kiln_sched_int rows, bool shares_groups);

/* alone.c: lanes of the target's widest vector of `dtype`, at most what `extent` fills to more than
 * half. */
int64_t kiln_sketch_lanes(const kiln_target *target, kiln_dtype dtype, int64_t extent);
/* Index of the first value that is nearest to `to`. */
uint32_t kiln_sketch_nearest(const int64_t *value, uint32_t count, int64_t to);
/* The iterator that runs over consecutive elements of what the block writes, or -1. */
int kiln_sketch_contiguous_iter(const kiln_program *p, const kiln_pattern *pattern);
/* Whether consecutive values of the iterator read consecutive elements, or all the same one. */
bool kiln_sketch_reads_contiguously(const kiln_program *p, const kiln_pattern *pattern, int iter);
/* Splits the loop into vectors of `lanes`; none: it is refused. */
kiln_sched_loops kiln_sketch_split_lanes(kiln_sched *s, kiln_sched_loop loop, int64_t lanes);
/* Vectorises and parallelises a block that stands alone at the root. */
void kiln_sketch_finish_block(kiln_sched *s, kiln_block block);
/* Visits the blocks that stand alone at the root and have not been touched. Of those of constants
 * alone, which run once, only transforms: each of their elements takes a choice among all cases. */
void kiln_sketch_visit_alone(kiln_sched *s, void (*visit)(kiln_sched *, kiln_block));
/* kiln_sketch_finish_block for all of them. */
void kiln_sketch_finish(kiln_sched *s);

#endif
