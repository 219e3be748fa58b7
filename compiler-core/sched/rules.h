/* Rules turn a loop program into sketches: traces with open decisions. Private to sched/. */
#ifndef KILN_COMPILER_CORE_SCHED_RULES_H
#define KILN_COMPILER_CORE_SCHED_RULES_H

#include "compiler-core/sched/maker.h"

/* Variants of one rule differ in what no decision can express: the order of loops. */
typedef struct kiln_rule {
    const char *name;
    uint32_t variants;
    /* Writes the sketch; false: the rule does not apply to this program. */
    bool (*make)(kiln_maker *m, uint32_t variant);
} kiln_rule;

/* The rules of a kind of targets. The first one that applies makes the space; the last one always
 * applies. */
typedef struct kiln_rule_set {
    uint32_t count; /* 0: there are no rules for such targets */
    const kiln_rule *rule;
} kiln_rule_set;
extern const kiln_rule_set kiln_rules_cpu, kiln_rules_none; /* column `rules` of target_kinds.def */

/* rules_tile.c: one large reduction with a register tile; what feeds and follows it moves along. */
bool kiln_sketch_tile(kiln_maker *m, uint32_t variant);
/* rules_loop.c: several reductions over the same rows; anything at all. */
bool kiln_sketch_rows(kiln_maker *m, uint32_t variant);
bool kiln_sketch_any(kiln_maker *m, uint32_t variant);

/* Shared by rules. */
/* Inlines what is cheap: all pointwise blocks except those that feed a reduction with more than a
 * copy. */
void kiln_sketch_inline(kiln_maker *m);
/* The reduction with most work, and how many reductions there are, apart from those of constants
 * alone; 0: none. */
kiln_block kiln_sketch_main_reduction(kiln_program *p, uint32_t *out_count);
/* Blocked layout "d0,d1/{0},d2,d1%{0}" that puts blocks of dimension `dim` innermost; NULL when
 * that dimension is innermost already. In the arena. */
const char *kiln_sketch_blocked_layout(kiln_maker *m, uint32_t rank, int dim);
/* Where the target has threads and the block enough work, shares out the outermost loops around it,
 * fused: as few as keep the threads equally busy, at most `most`. How many; 0: none. */
uint32_t kiln_sketch_share(kiln_maker *m, kiln_block block, uint32_t most);
/* Vectorises and parallelises a block that stands alone at the root. */
void kiln_sketch_finish_block(kiln_maker *m, kiln_block block);
/* What a block picks its value by: iterators, or their remainders, that its value compares with constants. Unrolled,
 * one value is left of each comparison, and neighbours share what they compute. */
typedef struct kiln_picks {
    uint32_t iters;                     /* bit i: by iterator i, or its remainder */
    int64_t by[KILN_BLOCK_ITERS_MAX];   /* remainder by this; 0: by the iterator itself */
} kiln_picks;
/* Whether it picks at all; `out` may be NULL. */
bool kiln_sketch_picks(kiln_program *p, kiln_block block, kiln_picks *out);
/* A block that picks, alone at the root: lanes over what all its operands have in common, blocked alike, and what it
 * picks by unrolled inside. False when there are no such lanes. */
bool kiln_sketch_transform(kiln_maker *m, kiln_block block);
/* The same for all that stand alone and have not been touched. */
void kiln_sketch_finish(kiln_maker *m);
/* Lanes of the target's widest vector of `dtype`, at most what `extent` fills to more than half. */
int64_t kiln_sketch_lanes(const kiln_target *target, kiln_dtype dtype, int64_t extent);

#endif
