/* Replay with control over how open decisions are closed: randomly, by enumeration, or by a rule's
 * preference. Private to sched/. */
#ifndef KILN_COMPILER_CORE_SCHED_REPLAY_H
#define KILN_COMPILER_CORE_SCHED_REPLAY_H

#include "compiler-core/sched/trace.h"

/* Called at each open decision with the number of ways to close it; returns one, in [0, ways). */
typedef uint64_t (*kiln_choose)(void *context, uint64_t ways);

/* Result of a closed sampler. */
typedef struct kiln_replay_result {
    uint64_t ways; /* to close it */
    uint32_t count;
    int64_t value[KILN_DECISIONS_MAX];
    kiln_str place; /* LOCATION: name of the loop; empty for the root */
} kiln_replay_result;

/* A replay in progress: rules run it step by step and inspect the program in between. */
typedef struct kiln_replay {
    const kiln_program *te; /* the task's expression, in its direct form */
    kiln_program *p;
    kiln_trace closed; /* the steps so far, with their decisions; operands belong to the caller */
    kiln_replay_result *result; /* [closed.count] */
    kiln_choose choose;
    void *context;
    bool snaps;      /* decisions that do not fit become the nearest valid one */
    bool ends_early; /* a step that fails ends the replay, so nothing needs undo information */
    kiln_arena *arena;
} kiln_replay;

/* Starts from a copy of `te` placed in loops. `choose` NULL: open decisions are errors. */
kiln_replay kiln_replay_begin(const kiln_program *te, kiln_choose choose, void *context,
                              kiln_arena *arena);
/* Applies one more instruction; an error leaves the replay unchanged, unless it ends early. */
KILN_MUST_USE kiln_status kiln_replay_step(kiln_replay *r, const kiln_instruction *in);

/* As kiln_trace_replay. `choose` NULL: an open decision is FAILED_PRECONDITION. `out_program` may
 * be NULL. */
KILN_MUST_USE kiln_status kiln_trace_replay_choosing(const kiln_trace *trace,
                                                     const kiln_program *te, kiln_choose choose,
                                                     void *context, kiln_arena *arena,
                                                     kiln_program **out_program,
                                                     kiln_trace *out_closed);

/* As kiln_trace_replay, but a decision that does not fit its loop or table becomes the nearest
 * valid one (mutate.h). */
KILN_MUST_USE kiln_status kiln_trace_replay_snapping(const kiln_trace *trace,
                                                     const kiln_program *te, kiln_rand *rand,
                                                     kiln_arena *arena, kiln_program **out_program,
                                                     kiln_trace *out_closed);

/* Ordered factorisations of `extent` into `parts` factors with the last at most `last_max`: how
 * many, and the index-th of them. */
uint64_t kiln_tilings_count(int64_t extent, uint32_t parts, int64_t last_max);
void kiln_tilings_at(int64_t extent, uint32_t parts, int64_t last_max, uint64_t index,
                     int64_t *out_factor);

#endif
