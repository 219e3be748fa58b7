/* The space of a task on a target: traces with open decisions ("sketches") made by rules from the
 * loop program alone. No rule looks at an operator's or workload's name: rules see access patterns
 * (which iterators index which operands, what is contiguous, what is constant, how much is reused).
 */
#ifndef KILN_COMPILER_CORE_RULES_SPACE_H
#define KILN_COMPILER_CORE_RULES_SPACE_H

#include "base/accuracy.h"
#include "base/rand.h"
#include "base/status.h"
#include "base/target.h"
#include "compiler-core/sched/trace.h"

typedef struct kiln_sketch {
    kiln_trace open;      /* all decisions open */
    kiln_trace preferred; /* the same, closed by the rule's preferences */
    double size;          /* closed traces of it */
    const char *options;  /* names of the rule's options that it has, "" for none */
    double cycles;        /* expected by its rule; 0: no expectation */
    const char *limit;    /* why its rule did not fully apply the options; NULL: no reason */
} kiln_sketch;

/* An instruction that was refused, or the reason why a rule made no sketch. */
typedef struct kiln_refused {
    const char *rule, *options; /* of the sketch that it happened in */
    const char *instruction;    /* "": the whole sketch */
    const char *reason;
} kiln_refused;

typedef struct kiln_space {
    const kiln_program *te;    /* not owned */
    const kiln_target *target; /* not owned */
    const char *rule;          /* that made the sketches */
    uint32_t preferred; /* the best sketch without measurements, closed by its rule's preferences */
    uint32_t sketch_count;
    kiln_sketch *sketch; /* [sketch_count] */
    uint32_t refused_count;
    kiln_refused *refused; /* [refused_count] */
} kiln_space;

typedef struct kiln_space_options {
    /* [arguments of te, in the order of kiln_program_args]: their layouts; NULL where the rules may
     * choose and for constants. The traces contain the layouts, so they replay on `te` like any
     * other. NULL: the rules choose all. */
    const kiln_layout *const *layout;
    /* Everything in memory stays row-major, including weights and copies, as without a choice of
     * layouts. */
    bool row_major;
    /* Prefer small code: the direct form, and paddings are copied instead of cut out. */
    bool compact;
    bool keeps_refused;     /* fills in `refused` */
    kiln_accuracy accuracy; /* only algorithms that it allows */
} kiln_space_options;

/* The type for values between kernels: BF16 where `accuracy` allows products of BF16 and the target
 * has an instruction for them; else NONE, the model's type. */
kiln_dtype kiln_space_storage(const kiln_target *target, const kiln_accuracy *accuracy);
/* `te` and `target` must outlive the space.
 *
 * UNIMPLEMENTED     the device does not compute with a type of the task
 * FAILED_PRECONDITION  of partial targets: no rule applies, with the last one's reason; the task
 *                      runs on their host
 * INTERNAL          a rule used an instruction that was refused, which is a bug of the rule; names
 *                   both */
KILN_MUST_USE kiln_status kiln_space_create(const kiln_program *te, const kiln_target *target,
                                            kiln_arena *arena, kiln_space *out_space);
/* The same with options. ILLEGAL_SCHEDULE as well: an argument cannot have its layout. */
KILN_MUST_USE kiln_status kiln_space_create_with(const kiln_program *te, const kiln_target *target,
                                                 const kiln_space_options *options,
                                                 kiln_arena *arena, kiln_space *out_space);
/* A random closed trace that replays legally (drawn again until it does, at most 256 times), and
 * its program. */
KILN_MUST_USE kiln_status kiln_space_sample(const kiln_space *space, kiln_rand *rand,
                                            kiln_arena *arena, kiln_trace *out_trace,
                                            kiln_program **out_program);
/* The schedule chosen without any measurement: blocked and vectorised. Deterministic. It uses the
 * allowed algorithm that is expected to be fastest by a clear margin; the direct form for little
 * work, or for given layouts that do not fit lanes of transforms. */
KILN_MUST_USE kiln_status kiln_space_default(const kiln_space *space, kiln_arena *arena,
                                             kiln_trace *out_trace, kiln_program **out_program);
/* Number of closed traces (product over independent decisions, summed over sketches). */
double kiln_space_size(const kiln_space *space);
/* The index-th closed trace in a fixed order, for grid search. ILLEGAL_SCHEDULE when that one is;
 * OUT_OF_RANGE. */
KILN_MUST_USE kiln_status kiln_space_at(const kiln_space *space, uint64_t index, kiln_arena *arena,
                                        kiln_trace *out_trace, kiln_program **out_program);
/* Text: sketches with their open decisions and the number of ways to close each. */
void kiln_space_print(const kiln_space *space, kiln_strbuf *out);
/* Appends why sums of the default schedule are not split among groups of a GPU, or not into more
 * parts; nothing where no rule splits. Requires a space that keeps refusals. */
void kiln_space_explain_split(const kiln_space *space, kiln_arena *scratch, kiln_strbuf *out);
/* Text: refused instructions and sketches that were not made, each with its reason. */
void kiln_space_print_refused(const kiln_space *space, kiln_strbuf *out);

#endif
