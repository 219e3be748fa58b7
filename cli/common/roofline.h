/* The roofline: how fast a computation can be at most, from its arithmetic intensity, the peak of
 * the cores and the speed of memory. For `kiln db plot` and `kiln explain --why`. */
#ifndef KILN_CLI_COMMON_ROOFLINE_H
#define KILN_CLI_COMMON_ROOFLINE_H

#include "compiler-core/core.h"
#include "db/db.h"

typedef struct kiln_roofline {
    double peak_flops;                /* per second, of all threads; 0: unknown */
    double memory_bytes, cache_bytes; /* read per second by one core; 0: unknown */
    uint32_t l2_bytes;                /* what cache_bytes is measured in half of */
    const char *memory_of;            /* for people: whose memory_bytes they are */
} kiln_roofline;

/* Measures this machine on this core; about 0.1 s. */
KILN_MUST_USE kiln_status kiln_roofline_measure(kiln_arena *arena, kiln_roofline *out);

/* That of the target for what `te` computes: of a GPU by its row of base/gpus.def, for products of
 * the type of the inputs, by tensor cores where these multiply it (f32, and where `te` is NULL:
 * without); of devices whose times are counted nothing is known; else what kiln_roofline_measure
 * finds. */
KILN_MUST_USE kiln_status kiln_roofline_of(const kiln_target *target, const kiln_program *te,
                                           kiln_arena *arena, kiln_roofline *out);

/* The peak that a record's speed is a share of; 0: unknown. A board tells what no kernel of its
 * arguments beats, which for f32 is the peak of tensor cores (tf32): a kernel that computes in f32
 * has that of the vectors. `te`: the task's program; NULL: it is not known. */
double kiln_roofline_peak_of(const kiln_db_record *record, const kiln_target *target,
                             const kiln_program *te);

/* Bytes that any implementation moves at least: inputs, constants and outputs once. */
double kiln_program_argument_bytes(const kiln_program *te);

typedef enum kiln_bound { KILN_BOUND_UNKNOWN, KILN_BOUND_ARITHMETIC, KILN_BOUND_MEMORY } kiln_bound;
/* The highest operations per second at this intensity (operations per byte) if every byte comes
 * from memory once, and what sets it. */
double kiln_roof(const kiln_roofline *machine, double intensity, kiln_bound *out_bound);

#endif
