/* Random schedules of random programs: does a primitive that applies keep what the program
 * computes? The ordinary test runs a fixed number of pairs; `./dev fuzz schedule SECONDS` as many
 * as there is time for. */
#ifndef KILN_TESTS_SUPPORT_SCHEDULE_FUZZ_H
#define KILN_TESTS_SUPPORT_SCHEDULE_FUZZ_H

#include "base/str.h"

typedef struct schedule_fuzz_counts {
    uint64_t pairs, applied, refused;
    uint64_t applied_of[64], refused_of[64];  /* by kiln_prim */
    uint64_t lowered, unlowered;              /* to launches; refused */
    uint64_t grids, groups, barriers, shared; /* lowered programs with several groups, ... */
} schedule_fuzz_counts;

/* One pair (program, trace) drawn from `seed`: the loop interpreter compares the program with its
 * tensor expression after each primitive, and the launches that lowering makes of the last one.
 * Every second pair is about groups of threads. False on a mismatch: `out_report` then has the
 * smallest program and trace found that still show it. */
bool schedule_fuzz_pair(uint64_t seed, schedule_fuzz_counts *counts, kiln_strbuf *out_report);
#endif
