/* The space of a task on a target: traces with open decisions ("sketches") made by rules from the
 * loop program alone. No rule looks at an operator's or workload's name: rules see access patterns
 * (which iterators index which operands, what is contiguous, what is constant, how much is reused).
 */
#ifndef KILN_COMPILER_CORE_SCHED_SPACE_H
#define KILN_COMPILER_CORE_SCHED_SPACE_H

#include "base/rand.h"
#include "base/status.h"
#include "base/target.h"
#include "compiler-core/sched/trace.h"

#define KILN_SKETCHES_MAX 32

typedef struct kiln_space {
    const kiln_program *te;    /* not owned */
    const kiln_target *target; /* not owned */
    const char *rule;          /* that made the sketches */
    uint32_t sketch_count;
    kiln_trace sketch[KILN_SKETCHES_MAX]; /* all decisions open */
    kiln_trace
        preferred[KILN_SKETCHES_MAX]; /* the same, closed as the rule would without measuring */
    double size[KILN_SKETCHES_MAX];   /* closed traces of each sketch */
} kiln_space;

/* UNIMPLEMENTED: there are no rules for targets of this kind. Every space_create says so too. */
KILN_MUST_USE kiln_status kiln_space_check_target(const kiln_target *target);
/* UNIMPLEMENTED naming the block for which no rule applies (does not happen for CPU targets: the
 * last rule always applies). `te` and `target` must outlive the space. */
KILN_MUST_USE kiln_status kiln_space_create(const kiln_program *te, const kiln_target *target,
                                            kiln_arena *arena, kiln_space *out_space);
/* The same with arguments' layouts given: [arguments of te, in the order of kiln_program_args],
 * NULL where the rules may choose and for constants. The traces say the layouts themselves, so they
 * replay on `te` like any other. ILLEGAL_SCHEDULE: an argument cannot have its layout. */
KILN_MUST_USE kiln_status kiln_space_create_on(const kiln_program *te, const kiln_target *target,
                                               const kiln_layout *const *layout, kiln_arena *arena,
                                               kiln_space *out_space);
/* The space in which everything in memory stays row-major, weights and copies included: what
 * schedules are without a choice of layouts. Errors of kiln_space_create. */
KILN_MUST_USE kiln_status kiln_space_create_row_major(const kiln_program *te,
                                                      const kiln_target *target, kiln_arena *arena,
                                                      kiln_space *out_space);
/* A random closed trace that replays legally (drawn again until it does, at most 256 times), and
 * its program. */
KILN_MUST_USE kiln_status kiln_space_sample(const kiln_space *space, kiln_rand *rand,
                                            kiln_arena *arena, kiln_trace *out_trace,
                                            kiln_program **out_program);
/* The schedule chosen without any measurement: blocked and vectorised. Deterministic. */
KILN_MUST_USE kiln_status kiln_space_default(const kiln_space *space, kiln_arena *arena,
                                             kiln_trace *out_trace, kiln_program **out_program);
/* Number of closed traces (product over independent decisions, summed over sketches). */
double kiln_space_size(const kiln_space *space);
/* The index-th closed trace in a fixed order, for grid search. ILLEGAL_SCHEDULE when that one is;
 * OUT_OF_RANGE. */
KILN_MUST_USE kiln_status kiln_space_at(const kiln_space *space, uint64_t index, kiln_arena *arena,
                                        kiln_trace *out_trace, kiln_program **out_program);
/* Text: sketches with their open decisions and how many ways each can be closed. */
void kiln_space_print(const kiln_space *space, kiln_strbuf *out);

#endif
