/* Shadow memory of the loop interpreter: the elements of all buffers, and what is remembered of
 * each to find accesses that no order of execution allows (loop_eval.h lists them).
 *
 * Concurrency. Every loop whose iterations may run at once, and every nest of thread loops, is a
 * level with an instance number, which changes each time it starts, and at each barrier. An element
 * remembers, for each level around it, which instance and iteration touched it last. Two accesses
 * can race exactly if they agree on the instance at some level and differ in the iteration there; a
 * different instance means that one loop ended, or all threads met, in between.
 *
 * Places. Shared temps with places in their group's memory may have the same bytes. That memory is
 * made of cells; a cell remembers who touched it, as elements do, and which temp holds its bytes.
 *
 * Copies. What a COPY has read waits in a list until its WAIT; the element it goes to and the one
 * it came from are in flight as long.
 *
 * Units. Each unit has a vector clock, a token carries its sender's, and an element remembers the
 * times of its last accesses by each unit. Where threads are units, accesses by threads of two
 * units are judged by these clocks, and those by threads of one unit race unless a token that came
 * back tells the unit of the earlier one; a barrier of all threads makes the clocks equal.
 *
 * Private to the loop interpreter. */
#ifndef KILN_COMPILER_CORE_IR_LOOP_SHADOW_H
#define KILN_COMPILER_CORE_IR_LOOP_SHADOW_H

#include "compiler-core/ir/device.h"
#include "compiler-core/ir/interp.h"

/* What is remembered of an element at one level. */
typedef struct kiln_touch {
    uint32_t instance;                   /* 0: none */
    uint32_t iteration, other_iteration; /* the last one, and one that differs from it */
    kiln_stmt stmt, other_stmt;          /* other: 0 while all were of one iteration */
    kiln_buffer buffer, other_buffer;    /* whose element it was */
    uint32_t time;                       /* of the unit's clock, at the last one */
} kiln_touch;

/* Of one unit's accesses to an element: its clock then, and the statement; [read, write]. */
typedef struct kiln_unit_touch {
    uint32_t time[2];
    kiln_stmt stmt[2];
} kiln_unit_touch;

typedef struct kiln_shadow {
    kiln_tensor tensor; /* of the first copy */
    uint32_t copies;    /* one per thread of a group whose threads run in step; else 1 */
    size_t count;       /* elements of a copy */
    kiln_stmt home;     /* starts a new life when it is executed; 0: one life, or those of ALLOCs */
    uint32_t home_depth;      /* levels around the home, this life */
    uint32_t life;            /* number of the life, from 1 */
    uint32_t *written_in;     /* [element]: the life in which it was written; 0 never */
    uint32_t *coming, *going; /* [element]: copies in flight to it (unless its cells know), from it
                               */
    kiln_touch *touched;      /* [element][level][unit, where there are any][read, write]; NULL: its
                                 cells know */
    uint32_t *first_cell;     /* [element]; NULL: it has no place in its group's memory */
    uint32_t cells;           /* of an element */
    kiln_unit_touch *by_unit; /* [element][unit]; NULL: the program has no units */
    bool is_given;            /* filled by the caller */
    bool is_away;             /* has ALLOCs, and none of them is being executed */
} kiln_shadow;

typedef struct kiln_level {
    kiln_stmt loop; /* of a nest of thread loops the outermost */
    bool is_group;  /* a nest of thread loops, in iterations of all of them */
    uint32_t instance, iteration;
} kiln_level;

/* A copy in flight. */
typedef struct kiln_flight {
    kiln_stmt stmt;
    kiln_buffer to, from;
    size_t to_element, from_element;
    kiln_scalar value;
    uint32_t thread, group;
    uint8_t token;
} kiln_flight;

typedef struct kiln_clock {
    uint32_t time[KILN_UNIT_COUNT];
} kiln_clock;

typedef struct kiln_checker {
    kiln_interp in;
    kiln_arena *arena;
    kiln_shadow *buffer; /* [buffer count] */
    uint32_t depth_max, depth;
    kiln_level *level; /* [depth_max] */
    uint32_t instances;
    kiln_stmt stmt;                        /* being executed */
    uint32_t thread;                       /* of the group that is being executed */
    KILN_VEC(kiln_flight) flight, landing; /* landing: those that a WAIT covers */
    uint32_t cell_bytes, cell_count;       /* memory of a group; 0: no temp has a place there */
    kiln_buffer *holder; /* [cell_count]: what was written there last; 0: nothing */
    kiln_touch *touched; /* [cell_count][level][unit, where there are any][read, write] */
    uint32_t *coming;    /* [cell_count]: copies in flight to it */
    uint32_t committed[KILN_GROUP_THREADS_MAX][KILN_COPY_TOKENS_MAX]; /* groups of copies */
    bool has_units;
    kiln_clock clock[KILN_UNIT_COUNT];
    uint32_t returned[KILN_UNIT_COUNT]; /* each unit's own time that tokens to it have carried */
    struct {
        KILN_VEC(kiln_clock) sent;
        uint32_t taken;
    } queue[KILN_UNIT_COUNT][KILN_UNIT_COUNT]; /* [from][to] */
} kiln_checker;

/* The first finding: FAILED_PRECONDITION with the element, the statement, and the loops around. */
KILN_MUST_USE kiln_status kiln_checker_finding(const kiln_checker *w, kiln_buffer buffer,
                                               const int64_t *index, const char *what);
/* A kiln_interp_load; `in->context` is the watch. */
KILN_MUST_USE kiln_status kiln_checker_load(kiln_interp *in, kiln_buffer buffer,
                                            const int64_t *index, kiln_scalar *out_value);
KILN_MUST_USE kiln_status kiln_checker_store(kiln_checker *w, kiln_buffer buffer,
                                             const int64_t *index, kiln_scalar value);
/* COPY: `from_index` says where `value` was read. COMMIT and WAIT are of thread `w->thread`. */
KILN_MUST_USE kiln_status kiln_checker_copy(kiln_checker *w, const kiln_stmt_info *s,
                                            const int64_t *index, const int64_t *from_index,
                                            kiln_scalar value);
void kiln_checker_commit(kiln_checker *w, uint8_t token);
KILN_MUST_USE kiln_status kiln_checker_wait(kiln_checker *w, uint8_t token, uint32_t pending);
/* All threads end: nothing may be in flight. */
KILN_MUST_USE kiln_status kiln_checker_landed(kiln_checker *w);
/* TOKEN_PUSH: copies of the unit land. TOKEN_POP. `number`: that the statement says, or -1. */
KILN_MUST_USE kiln_status kiln_checker_push(kiln_checker *w, const kiln_stmt_info *s,
                                            int64_t number);
KILN_MUST_USE kiln_status kiln_checker_pop(kiln_checker *w, const kiln_stmt_info *s,
                                           int64_t number);
/* A barrier: what any unit has done is done for all. */
void kiln_checker_meet(kiln_checker *w);
/* The end of what a group runs: the next one's tokens are numbered anew. */
KILN_MUST_USE kiln_status kiln_checker_end(kiln_checker *w);
/* How many kiln_touch an element has at one level. */
uint32_t kiln_checker_touches(const kiln_checker *w);
/* At the end of the program: queues are empty. */
KILN_MUST_USE kiln_status kiln_checker_drained(const kiln_checker *w);

#endif
