/* From a scheduled loop program to the input of code generators: two programs without blocks.
 * Passes are in lower.def, in order, each in the lists of the targets that need it; `kiln explain
 * --stage loops` can stop after any of them.
 *
 * - supported: programs that the list does not implement are refused
 * - split_prepare: root-level blocks that depend on constants only go to the prepare program; their
 *   buffers become PACKED arguments
 * - intrinsics: tensor intrinsics that the target lacks are refused
 * - threads: parallel loops become serial where kernels get one thread, and in the prepare program
 * - blocks: they become stores, inits and ifs over loop variables
 * - simplify: indices, conditions, loops of extent 1
 * - skip: sums do not add products with the zeros of a padding
 * - vthread: loops over virtual threads move inwards and are unrolled; for accelerator cores,
 *   around a step of each thread at a time
 * - items: parallel loops at the root become groups of one work item
 * - launches: root statements become launches; temps get the scope of the threads that share them
 * - crossthread: partial sums of a reduction are added up by the threads that made them
 * - pipeline: fetches into shared temps begin an iteration ahead, or are done by extra threads
 * - barriers: inserts the fewest between thread nests that keep the order
 * - unify: the thread nests of a launch become one
 * - place: each temp is allocated around all its accesses and compacted to the region that one
 *   execution of that scope touches
 * - unswitch: conditions that do not change in a loop move before it
 * - partition: loops split where a predicate changes, so that full tiles carry no predicate
 * - vectors: vectorized loops are cut to whole hardware vectors and a masked rest
 * - unroll: UNROLL loops above a size limit become serial; the emitter copies the others
 * - registers: every REGISTER buffer is indexed by constants once unrolled; counts the vector
 *   registers, or registers of a thread, that live at once against the target
 * - copies: stores of pipelines with more than two stages become asynchronous copies
 * - shared: shared temps get places in the memory of their group; those that do not live together
 *   may overlap
 */
#ifndef KILN_COMPILER_CORE_LOWER_LOWER_H
#define KILN_COMPILER_CORE_LOWER_LOWER_H

#include "base/status.h"
#include "base/target.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/lower/launch.h"

/* Most iterations of a vectorized loop after lowering; longer loops are cut. */
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
        kiln_buffer in_prepare, in_run; /* 0: the program does not use the argument */
    } arg[KILN_MANIFEST_ARGS_MAX];
    uint32_t registers; /* of the region with most: vectors, or 4-byte registers of a thread */
    bool has_launches;  /* true for the lists GRID, ITEMS and CORE; CORE has one launch */
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
