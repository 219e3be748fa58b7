/* How rules write sketches: line by line in the text of traces, each line applied at once to a
 * program in which every decision has its preferred value. A line that is illegal there is left
 * out, so a sketch is legal at least where all preferences are taken. Private to sched/. */
#ifndef KILN_COMPILER_CORE_SCHED_MAKER_H
#define KILN_COMPILER_CORE_SCHED_MAKER_H

#include "base/macros.h"
#include "base/target.h"
#include "compiler-core/facts/pattern.h"
#include "compiler-core/sched/replay.h"

typedef struct kiln_maker {
    kiln_arena *arena;
    const kiln_target *target;
    kiln_replay replay; /* replay.p: the program so far */
    kiln_trace trace;   /* the lines so far; decisions are the preferred ones */
    bool row_major;     /* lines that give memory another layout are left out */
} kiln_maker;

kiln_maker kiln_maker_begin(const kiln_program *te, const kiln_target *target, kiln_arena *arena);
/* One instruction; false when it does not apply. */
bool kiln_make(kiln_maker *m, const char *format, ...) KILN_PRINTF(2, 3);
/* The same for a sampler, written without "NAME =": "categorical(1, 2) = 0". Returns its name, or
 * NULL. */
const char *kiln_make_sampler(kiln_maker *m, const char *format, ...) KILN_PRINTF(2, 3);
/* categorical over `value`, preferring the one nearest to `preferred`. */
const char *kiln_make_categorical(kiln_maker *m, const int64_t *value, uint32_t count,
                                  int64_t preferred);

/* Names as trace text spells them (quoted when needed); in the arena. */
const char *kiln_make_block_name(kiln_maker *m, kiln_block block);
const char *kiln_make_buffer_name(kiln_maker *m, kiln_buffer buffer);
/* Loop "BLOCK.ITER" + suffix, of iterator `iter`. */
const char *kiln_make_loop_name(kiln_maker *m, kiln_block block, int iter, const char *suffix);
/* Of the loop statement. */
const char *kiln_make_stmt_name(kiln_maker *m, kiln_stmt loop);

#endif
