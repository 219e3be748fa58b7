/* Schedule primitives: local rewrites of a loop program. Each checks legality (dependences,
 * coverage, races) and either applies or leaves the program unchanged and returns ILLEGAL_SCHEDULE
 * with the reason. Names, traces, fuzzers and documents are generated from prims.def;
 * kiln_prim_apply is the only dispatcher. */
#ifndef KILN_COMPILER_CORE_SCHED_PRIM_H
#define KILN_COMPILER_CORE_SCHED_PRIM_H

#include "base/status.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/sched/trace.h"

/* Resolved operands, in prims.def order. */
typedef struct kiln_prim_args {
    kiln_block block;
    kiln_buffer buffer;
    kiln_stmt loop[KILN_BLOCK_ITERS_MAX * 2];
    uint32_t loop_count;
    int64_t integer[KILN_BLOCK_ITERS_MAX];
    uint32_t integer_count;
    kiln_str text;
} kiln_prim_args;

/* Applies one APPLY primitive. On error the program is as before. */
KILN_MUST_USE kiln_status kiln_prim_apply(kiln_program *p, kiln_prim prim,
                                          const kiln_prim_args *args);
/* The same without undo information, which costs more than most primitives: after an error the
 * program must be dropped. */
KILN_MUST_USE kiln_status kiln_prim_apply_once(kiln_program *p, kiln_prim prim,
                                               const kiln_prim_args *args);
const char *kiln_prim_name(kiln_prim prim); /* As in text. */
/* Operand letters of prims.def. */
const char *kiln_prim_operands(kiln_prim prim);
/* The letter of the next operand; advances, except at a list's letter. '\0': no more. */
char kiln_prim_next_letter(const char **letters);
/* Whether operands may end here: at the end of the letters, or at a list. */
bool kiln_prim_may_end(const char *letters);
uint32_t kiln_prim_number(kiln_prim prim); /* In the binary form of traces. */
bool kiln_prim_is_sampler(kiln_prim prim); /* Whether it carries a decision. */
/* Whether it can only be the first instruction, and is not applied to a program. */
bool kiln_prim_begins(kiln_prim prim);
bool kiln_prim_find(kiln_str name, kiln_prim *out_prim); /* By its name; false: there is none. */
/* By its number; false: there is none. */
bool kiln_prim_from_number(uint64_t number, kiln_prim *out_prim);

/* Candidate loops of LOCATION for `block`, outermost first (those where compute_at is legal). */
kiln_loops kiln_block_locations(kiln_program *p, kiln_block block);

#endif
