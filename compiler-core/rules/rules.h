/* Rules turn a loop program into sketches: schedules in which every decision has the rule's
 * preferred value; a search opens the decisions again. A rule depends on access patterns
 * (facts/pattern.h), never on an operator's name. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_RULES_H
#define KILN_COMPILER_CORE_RULES_RULES_H

#include "compiler-core/facts/pattern.h"
#include "compiler-core/sched/schedule.h"

/* Result of writing a sketch. */
typedef enum kiln_sketch_end {
    KILN_SKETCH_MADE,
    KILN_SKETCH_SAME,  /* the option `option` makes no difference here, for any values of the
                        * others */
    KILN_SKETCH_NONE,  /* there is no such sketch with these options */
    KILN_SKETCH_NEVER, /* the rule does not apply to this program, for any options */
} kiln_sketch_end;

typedef struct kiln_sketch_result {
    kiln_sketch_end end;
    uint32_t option;    /* SAME: its position */
    const char *reason; /* why there is no sketch, or why an option had no full effect; NULL: no
                         * reason */
    /* Made: expected cycles. The fastest sketch becomes the rule's first, which may be the default;
     * if all are 0, sketches stay in the order of options. */
    double cycles;
} kiln_sketch_result;

/* Sketches of one rule differ by options, which express choices that no decision can, such as the
 * order of loops. Each is on or off. A rule decodes them into its own struct. */
typedef struct kiln_rule {
    const char *name;
    uint32_t option_count;
    const char *const *option; /* [option_count] names, for people */
    /* Writes the sketch with the options whose bits are set. */
    kiln_sketch_result (*make)(kiln_sched *s, uint32_t options);
} kiln_rule;

/* The rules of a kind of targets. The first one that applies makes the space. The last one always
 * applies, or its reason explains why there is no space. */
typedef struct kiln_rule_set {
    uint32_t count; /* 0: there are no rules for such targets */
    const kiln_rule *rule;
} kiln_rule_set;
/* Column `rules` of target_kinds.def. */
#define X(NAME, name, rules, ...) extern const kiln_rule_set kiln_rules_##rules;
#include "base/target_kinds.def"
#undef X

/* rule_tile.c: one large reduction with a register tile, with its producers and readers. */
kiln_sketch_result kiln_sketch_tile(kiln_sched *s, uint32_t options);
/* rule_stack.c: reductions in series, each in a tile; blocks of rows go through all of them. */
kiln_sketch_result kiln_sketch_stack(kiln_sched *s, uint32_t options);
/* rule_rows.c: several reductions over the same rows. */
kiln_sketch_result kiln_sketch_rows(kiln_sched *s, uint32_t options);
/* alone.c: any program. */
kiln_sketch_result kiln_sketch_any(kiln_sched *s, uint32_t options);

/* Results of each kind except SAME. */
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

/* inline.c: inlines cheap blocks: all pointwise blocks except those that feed a reduction with more
 * than a copy. */
void kiln_sketch_inline(kiln_sched *s);
/* The reduction with most work, and the number of reductions, not counting those of constants
 * alone; 0: none. */
kiln_block kiln_sketch_main_reduction(kiln_program *p, uint32_t *out_count);

/* tile_follow.c: the block that reads a reduction's results from near memory, `scope`: its reader,
 * or a new copy to the original buffer. 0: impossible. */
kiln_block kiln_sketch_separate_result(kiln_sched *s, kiln_block block, kiln_scope scope);

/* tile_pad.c: the value of the padding, if the block is a padded copy; 0: it is not.
 */
kiln_expr kiln_sketch_padding_of(const kiln_program *p, kiln_block copy);

/* share.c: if the target has threads and the block enough work, distributes the outermost loops
 * around it, fused, to threads: the fewest that keep the threads equally busy, at most `most`.
 * Returns how many; 0: none. */
uint32_t kiln_sketch_share(kiln_sched *s, kiln_block block, uint32_t most);
/* The same for the loops inside of `outer`, which does not change. `outer` none: as
 * kiln_sketch_share. */
uint32_t kiln_sketch_share_inside(kiln_sched *s, kiln_block block, kiln_sched_loop outer,
                                  uint32_t most);
/* Number of loops around the block, from the root to `loop`; 0: it is none of them. */
uint32_t kiln_sketch_depth(const kiln_sched *s, kiln_block block, kiln_sched_loop loop);
/* Share of the time in which threads wait for the last one, with `parts` equal parts of work. */
double kiln_sketch_waiting(int64_t parts, int64_t threads);
/* The same for the loop that threads share; 0: they share none. */
uint32_t kiln_sketch_shared_depth(const kiln_sched *s, kiln_block block);

/* block_layout.c: adds the piece; pieces beyond a layout's limit are only counted. */
void kiln_sketch_add_piece(kiln_layout *layout, uint32_t dim, int64_t divisor, int64_t modulus);
/* Tries to give the buffer blocks of `size` along dimension `dim`, innermost:
 * "d0,d1/{0},d2,d1%{0}". Not when that dimension is innermost already, or none (-1). */
void kiln_sketch_block_buffer(kiln_sched *s, kiln_buffer buffer, int dim, kiln_sched_int size);

/* transform.c: the iterators, or their remainders, that a block's value compares with constants to
 * pick a case. Unrolled, each comparison has a constant result, and neighbours share
 * subexpressions. */
typedef struct kiln_picks {
    uint32_t iters;                   /* bit i: by iterator i, or its remainder */
    int64_t by[KILN_BLOCK_ITERS_MAX]; /* remainder by this; 0: by the iterator itself */
} kiln_picks;
/* Whether the block picks; `out` may be NULL. */
bool kiln_sketch_picks(kiln_program *p, kiln_block block, kiln_picks *out);
/* Whether its value depends on a border: then lowering cuts the loops around it there, and copies
 * their other contents. */
bool kiln_sketch_has_borders(kiln_program *p, kiln_block block);
/* The last block of the transforms that make `buffer`: it picks and is not one half of another
 * transform; 0: none. */
kiln_block kiln_sketch_transform_of(kiln_program *p, kiln_buffer buffer);
/* Schedules a block that picks in its own nest inside of loop `outer` (none: at the root): lanes
 * run over an iterator that all its operands share, blocked alike, and the iterators that it picks
 * by are unrolled inside. False when there are no such lanes. */
bool kiln_sketch_transform(kiln_sched *s, kiln_block block, kiln_sched_loop outer);
/* The same at the root with so many rows of tiles in a group. Returns the loop over groups, the
 * outermost one apart from iterators without tiles; none: there is none. Threads share it, or the
 * loops inside of it. */
kiln_sched_loop kiln_sketch_transform_in_groups(kiln_sched *s, kiln_block block,
                                                kiln_sched_int rows, bool shares_groups);

/* alone.c: lanes of the target's widest vector of `dtype`, reduced until `extent` fills more than
 * half. */
int64_t kiln_sketch_lanes(const kiln_target *target, kiln_dtype dtype, int64_t extent);
/* Index of the first value nearest to `to`. */
uint32_t kiln_sketch_nearest(const int64_t *value, uint32_t count, int64_t to);
/* The iterator that runs over consecutive elements of the block's result, or -1. */
int kiln_sketch_contiguous_iter(const kiln_program *p, const kiln_pattern *pattern);
/* Whether consecutive values of the iterator read consecutive elements, or the same one. */
bool kiln_sketch_reads_contiguously(const kiln_program *p, const kiln_pattern *pattern, int iter);
/* Splits the loop into vectors of `lanes`; none: refused. */
kiln_sched_loops kiln_sketch_split_lanes(kiln_sched *s, kiln_sched_loop loop, int64_t lanes);
/* Vectorises and parallelises a block alone at the root. */
void kiln_sketch_finish_block(kiln_sched *s, kiln_block block);
/* Visits the blocks alone at the root that are not scheduled yet. Of blocks that read constants
 * alone and run once, it visits only transforms, because each of their elements chooses among all
 * cases. */
void kiln_sketch_visit_alone(kiln_sched *s, void (*visit)(kiln_sched *, kiln_block));
/* Calls kiln_sketch_finish_block for all of them. */
void kiln_sketch_finish(kiln_sched *s);

#endif
