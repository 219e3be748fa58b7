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
    kiln_trace preferred; /* the same, closed as the rule would without measuring */
    double size;          /* closed traces of it */
    const char *options;  /* names of the rule's options that it has, "" for none */
    double cycles;        /* that its rule expects it to take; 0: it expects nothing */
    const char *limit;    /* why its rule did no more of what the options say; NULL: it could not */
} kiln_sketch;

/* What a rule tried in vain, or why it made no sketch. */
typedef struct kiln_refused {
    const char *rule, *options; /* of the sketch that it happened in */
    const char *instruction;    /* "": the whole sketch */
    const char *reason;
} kiln_refused;

typedef struct kiln_space {
    const kiln_program *te;    /* not owned */
    const kiln_target *target; /* not owned */
    const char *rule;          /* that made the sketches */
    uint32_t preferred; /* the sketch that is best without measuring, closed as its rule would */
    uint32_t sketch_count;
    kiln_sketch *sketch; /* [sketch_count] */
    uint32_t refused_count;
    kiln_refused *refused; /* [refused_count] */
} kiln_space;

typedef struct kiln_space_options {
    /* [arguments of te, in the order of kiln_program_args]: layouts that they have; NULL where the
     * rules may choose and for constants. The traces say the layouts themselves, so they replay on
     * `te` like any other. NULL: the rules choose all. */
    const kiln_layout *const *layout;
    /* Everything in memory stays row-major, weights and copies included: what schedules are without
     * a choice of layouts. */
    bool row_major;
    /* Code is to stay small: the direct form, and paddings are copied instead of cut out. */
    bool compact;
    bool keeps_refused;     /* fills in `refused` */
    kiln_accuracy accuracy; /* only algorithms that it allows */
} kiln_space_options;

/* What values between kernels are best stored in: BF16 where `accuracy` leaves room for products of
 * them and the target has an instruction for these; else NONE, which is as the model has them. */
kiln_dtype kiln_space_storage(const kiln_target *target, const kiln_accuracy *accuracy);
/* `te` and `target` must outlive the space.
 *
 * UNIMPLEMENTED     the device does not compute with a type of the task
 * FAILED_PRECONDITION  of partial targets: no rule applies, with the last one's reason; the task is
 *                      for their host
 * INTERNAL          a rule relied on an instruction that is refused, which is a bug of the rule;
 *                   names both */
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
/* The schedule chosen without any measurement: blocked and vectorised. Deterministic. It is of the
 * algorithm that is expected to take least time by far, of those that the accuracy allows; of the
 * direct form where work is little or layouts are given that lanes of transforms do not fit. */
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
/* Appends why sums of the default schedule are not split among groups of a GPU, or not into more
 * parts, of a space that keeps what was refused; nothing where no rule splits any. */
void kiln_space_explain_split(const kiln_space *space, kiln_arena *scratch, kiln_strbuf *out);
/* Text: what rules tried in vain and which sketches they did not make, each with its reason. */
void kiln_space_print_refused(const kiln_space *space, kiln_strbuf *out);

#endif
