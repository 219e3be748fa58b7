/* Random schedules of random programs: does a primitive that applies keep what the program
 * computes? The ordinary test runs a fixed number of pairs; `./dev fuzz schedule SECONDS` as many
 * as there is time for. */
#ifndef KILN_TESTS_SUPPORT_SCHEDULE_FUZZ_H
#define KILN_TESTS_SUPPORT_SCHEDULE_FUZZ_H

#include "base/tensor.h"
#include "compiler-core/ir/ir.h"

typedef struct schedule_fuzz_counts {
    uint64_t pairs, applied, refused;
    uint64_t applied_of[64], refused_of[64];  /* by kiln_prim */
    uint64_t lowered, unlowered;              /* to launches; refused */
    uint64_t grids, groups, barriers, shared; /* lowered programs with several groups, ... */
    uint64_t clusters;                        /* with clusters of several groups */
    uint64_t overlaps, exchanges; /* with temps on the same bytes; lanes that exchange */
    uint64_t warps;               /* lowered ones with instructions of warps */
    uint64_t ran;                 /* on a device */
} schedule_fuzz_counts;

/* Builds the scheduled program for a device and runs it there; `args` in the order of
 * kiln_program_args of `te`, row-major. ILLEGAL_SCHEDULE, RESOURCE_EXHAUSTED: the device does not
 * take it. */
typedef kiln_status (*schedule_fuzz_device)(const kiln_program *te, const kiln_program *scheduled,
                                            const kiln_tensor *args);

/* One pair (program, trace) drawn from `seed`: the loop interpreter compares the program with its
 * tensor expression after each primitive, the launches that lowering makes of the last one, and
 * what `device` (or NULL) makes of it. Every second pair is about groups of threads. False on a
 * mismatch: `out_report` then has the smallest program and trace found that still show it. */
bool schedule_fuzz_pair(uint64_t seed, schedule_fuzz_device device, schedule_fuzz_counts *counts,
                        kiln_strbuf *out_report);
/* The same for a schedule that is there already, on a target with launches. */
bool schedule_fuzz_candidate(const kiln_program *te, const kiln_program *scheduled,
                             const char *target_text, uint64_t seed, schedule_fuzz_device device,
                             schedule_fuzz_counts *counts, kiln_strbuf *out_report);

#endif
