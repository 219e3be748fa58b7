/* Shadow memory of the loop interpreter: the elements of all buffers, and the recent accesses of
 * each, to find invalid accesses (loop_eval.h lists them).
 *
 * Concurrency. Every loop whose iterations may run at once, and every nest of thread loops, is a
 * level with an instance number, which changes each time it starts, and at each barrier. An element
 * stores, for each level around it, the instance and iteration that touched it last. Two accesses
 * race exactly if they have the same instance at some level and different iterations there; a
 * different instance means that a loop ended, or a barrier was passed, in between.
 *
 * Places. Shared temps with places in their group's memory may have the same bytes. That memory is
 * divided into cells; a cell stores its last accesses, as elements do, and the temp that holds its
 * bytes.
 *
 * Copies. The value that a COPY has read is kept in a list until its WAIT; its destination and
 * source elements are in flight until then.
 *
 * Units. Each unit has a vector clock, a token carries its sender's, and an element stores the
 * times of its last accesses by each unit. Where threads are units, accesses by threads of two
 * units are compared by these clocks; accesses by threads of one unit race unless a token that came
 * back orders them. A barrier of all threads makes the clocks equal.
 *
 * Private to the loop interpreter. */
#ifndef KILN_COMPILER_CORE_IR_LOOP_SHADOW_H
#define KILN_COMPILER_CORE_IR_LOOP_SHADOW_H

#include "compiler-core/ir/device.h"
#include "compiler-core/ir/interp.h"

/* The last accesses to an element at one level. */
typedef struct kiln_touch {
    uint32_t instance;                   /* 0: none */
    uint32_t iteration, other_iteration; /* the last one, and one other */
    kiln_stmt stmt, other_stmt;          /* other_stmt: 0 while all were of one iteration */
    kiln_buffer buffer, other_buffer;    /* the buffer of the element */
    uint32_t time;                       /* of the unit's clock, at the last one */
} kiln_touch;

/* The last accesses of one unit to an element: clock and statement; [read, write]. */
typedef struct kiln_unit_touch {
    uint32_t time[2];
    kiln_stmt stmt[2];
} kiln_unit_touch;

typedef struct kiln_shadow {
    kiln_tensor tensor;       /* of the first copy */
    uint32_t copies;          /* one per thread of a group whose threads run in step; else 1 */
    size_t count;             /* elements of a copy */
    kiln_stmt home;           /* executing it starts a new life; 0: one life, or those of ALLOCs */
    uint32_t home_depth;      /* levels around the home, this life */
    uint32_t life;            /* number of the current life, from 1 */
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
    kiln_buffer *holder; /* [cell_count]: the buffer written there last; 0: none */
    kiln_touch *touched; /* [cell_count][level][unit, where there are any][read, write] */
    uint32_t *coming;    /* [cell_count]: copies in flight to it */
    uint32_t committed[KILN_GROUP_THREADS_MAX][KILN_COPY_TOKENS_MAX]; /* groups of copies */
    bool has_units;
    kiln_clock clock[KILN_UNIT_COUNT];
    uint32_t returned[KILN_UNIT_COUNT]; /* each unit's own time, as known from tokens that came
                                         * back */
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
/* Executes TOKEN_PUSH, at which copies of the unit land, and TOKEN_POP. `number`: the token's, or
 * -1. */
KILN_MUST_USE kiln_status kiln_checker_push(kiln_checker *w, const kiln_stmt_info *s,
                                            int64_t number);
KILN_MUST_USE kiln_status kiln_checker_pop(kiln_checker *w, const kiln_stmt_info *s,
                                           int64_t number);
/* Executes a barrier: all units see the work of all. */
void kiln_checker_meet(kiln_checker *w);
/* The end of a group's work: token numbers start at 0 again. */
KILN_MUST_USE kiln_status kiln_checker_end(kiln_checker *w);
/* How many kiln_touch an element has at one level. */
uint32_t kiln_checker_touches(const kiln_checker *w);
/* At the end of the program: checks that queues are empty. */
KILN_MUST_USE kiln_status kiln_checker_drained(const kiln_checker *w);

#endif
