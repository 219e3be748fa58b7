/* From a scheduled loop program to what code generators take: two programs without blocks. Passes
 * are in lower.def, in order, each in the lists of the targets that need it; `kiln explain --stage
 * loops` can stop after any of them.
 *
 * - supported: what the list does not implement is refused
 * - split_prepare: root-level blocks that depend on constants only go to the prepare program; their
 *   buffers become PACKED arguments
 * - intrinsics: tensor intrinsics that the target lacks are refused
 * - threads: parallel loops become serial where kernels get one thread, and in the prepare program
 * - blocks: they become stores, inits and ifs over loop variables
 * - simplify: indices, conditions, loops of extent 1
 * - skip: sums ask for what would make their term zero, products with a padding, before they add it
 * - vthread: loops over virtual threads move inwards and are unrolled; for accelerator cores,
 * around a step of each thread at a time
 * - items: parallel loops at the root become groups of one work item
 * - launches: root statements are launches; temps get the scope of what shares them
 * - crossthread: parts of a reduction that threads have made are summed by these threads
 * - pipeline: what iterations fetch into shared temps is begun an iteration ahead, or by threads
 *   of their own
 * - barriers: as few between thread nests as keep the order
 * - unify: the thread nests of a launch become one
 * - place: each temp is allocated around all its accesses and compacted to the region that one
 *   execution of that scope touches
 * - unswitch: conditions that do not change in a loop are asked before it
 * - partition: loops split where a predicate changes, so that full tiles carry no predicate
 * - vectors: vectorized loops are cut to whole hardware vectors and a masked rest
 * - unroll: nothing is copied here: UNROLL loops stay for the emitter; those above a size limit
 *   become serial
 * - registers: every REGISTER buffer is indexed by constants once unrolled; counts the vector
 *   registers, or registers of a thread, that live at once against the target
 * - copies: stores of pipelines with more than two stages become copies that land later
 * - shared: shared temps get places in the memory of their group; those that are not alive together
 *   may have the same bytes
 */
#ifndef KILN_COMPILER_CORE_LOWER_LOWER_H
#define KILN_COMPILER_CORE_LOWER_LOWER_H

#include "base/status.h"
#include "base/target.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/lower/launch.h"

/* Iterations of a vectorized loop that lowering leaves; longer loops are cut into such pieces. */
#define KILN_LOWER_LANES_MAX 64

/* The passes of a kind of targets; numbers are bits of lower.def's column. */
typedef enum kiln_lower_list {
    KILN_LOWER_CPU = 1,
    KILN_LOWER_GRID = 2,
    KILN_LOWER_ITEMS = 4,
    KILN_LOWER_CORE = 8,
} kiln_lower_list;

typedef struct kiln_lowered {
    kiln_program *prepare; /* NULL when there is nothing to pack */
    kiln_program *run;
    /* Arguments of both, in kernel_abi.h's order (inputs, constants, outputs, packed); the same
     * names in both. */
    uint32_t arg_count;
    struct {
        kiln_str name;
        kiln_buffer in_scheduled;
        kiln_buffer in_prepare, in_run; /* 0: that program does not touch it */
    } arg[KILN_MANIFEST_ARGS_MAX];
    uint32_t registers; /* of the widest region: vectors, or of a thread, 4 bytes each */
    bool has_launches;  /* of the lists GRID, ITEMS and CORE: of the last one there is one launch */
    kiln_launches run_launches, prepare_launches;
} kiln_lowered;

/* ILLEGAL_SCHEDULE: a register buffer that cannot be promoted, or more registers than the target
 * has (the note says how many). RESOURCE_EXHAUSTED: code or scratch beyond its limit. */
KILN_MUST_USE kiln_status kiln_lower(const kiln_program *scheduled, const kiln_target *target,
                                     kiln_arena *arena, kiln_lowered *out_lowered);
/* The same by the passes of `list`. */
KILN_MUST_USE kiln_status kiln_lower_by(const kiln_program *scheduled, const kiln_target *target,
                                        kiln_lower_list list, kiln_arena *arena,
                                        kiln_lowered *out_lowered);
/* The same, stopping after the named pass of lower.def (empty: the last), for explain and golden
 * tests: text of both programs. */
KILN_MUST_USE kiln_status kiln_lower_explain(const kiln_program *scheduled,
                                             const kiln_target *target, kiln_str after,
                                             kiln_arena *arena, kiln_strbuf *out);
KILN_MUST_USE kiln_status kiln_lower_explain_by(const kiln_program *scheduled,
                                                const kiln_target *target, kiln_lower_list list,
                                                kiln_str after, kiln_arena *arena,
                                                kiln_strbuf *out);

#endif
