/* Whether the board is as fast as usual: the time that the reference kernel
 * (rpc-server/reference_kernel.h) takes now, divided by its usual time. The usual time, and how far
 * readings of a quiet board are from it, are learned from the board's own readings: from rounds at
 * the start, and from one round of each trial. Only the latest KILN_DRIFT_WINDOW rounds count, so a
 * lasting change of speed becomes the usual. A faster clock becomes the usual after four rounds.
 * Pure.
 *
 * A part of the reference kernel is switched off where its readings do not measure the board's
 * speed, because they
 *
 *     depend on what ran before   readings of two states differ by more than the widest band: each
 *                                 kernel would change the reading after it
 *     scatter                     more than one in twenty is out of band although others of its
 *                                 round, taken within the same two milliseconds, are not
 *
 * Neighbours that slow the board for longer than a round cause neither, so the part stays on. */
#ifndef KILN_RPC_SERVER_DRIFT_H
#define KILN_RPC_SERVER_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/reading.h"
#include "proto/proto.h"
#include "rpc-server/reference_kernel.h"

#define KILN_DRIFT_WINDOW 64u /* rounds that are remembered */
#define KILN_DRIFT_START 32u  /* rounds before the first trial */
/* The usual time is the quantile 1/KILN_DRIFT_FASTER of the readings. Neighbours only slow a board
 * down, and some do so most of the time: on a busy machine 0.1 to 0.7 of all moments were
 * undisturbed. */
#define KILN_DRIFT_FASTER 16u
/* A band holds this share of the readings, unless it would be wider than KILN_DRIFT_BAND_MOST. */
#define KILN_DRIFT_IN_BAND 0.97
#define KILN_DRIFT_SCATTER_MAX 0.05 /* share of readings above which a part is switched off */
/* The narrowest and the widest band. The clock of a Sapphire Rapids class machine takes steps of
 * 0.05 and 0.08 by itself; a neighbour on the other thread of a core makes the arithmetic part 1.5
 * times as long. */
#define KILN_DRIFT_BAND_LEAST 0.05
#define KILN_DRIFT_BAND_MOST 0.25

typedef enum kiln_part_use {
    KILN_PART_UNKNOWN, /* nothing was read */
    KILN_PART_USED,
    KILN_PART_DEPENDS, /* on what ran before; switched off */
    KILN_PART_SCATTERS /* by itself; switched off */
} kiln_part_use;

/* The usual readings of one part. */
typedef struct kiln_part_norm {
    kiln_part_use use;
    double usual_ns;
    /* Readings of a quiet board are within this share of usual_ns, above and below. */
    double band;
    /* Median over the rounds of a state's reading, divided by the median of its round. */
    double state[KILN_REFERENCE_KERNEL_STATE_COUNT];
    double scatter; /* share of readings that are out of band beside others that are not */
} kiln_part_norm;

typedef struct kiln_reference_kernel_norm {
    kiln_part_norm arithmetic, memory;
} kiln_reference_kernel_norm;

typedef struct kiln_drift {
    kiln_reference_kernel_norm norm;
    kiln_reference_kernel_round round[KILN_DRIFT_WINDOW];
    uint32_t count; /* rounds so far; the newest is at (count - 1) % WINDOW */
} kiln_drift;

/* `round`: [count], count >= 1; all readings above 0. */
kiln_reference_kernel_norm kiln_reference_kernel_norm_of(const kiln_reference_kernel_round *round,
                                                         uint32_t count);
/* Adds a round taken before the first trial, or in a trial before the candidate's code ran. All
 * readings above 0. */
void kiln_drift_take(kiln_drift *drift, const kiln_reference_kernel_round *round);

/* `times` divided by the usual times; 0 for a part that is not used. */
kiln_drift_ratio kiln_drift_ratio_of(const kiln_reference_kernel_times *times,
                                     const kiln_reference_kernel_norm *norm);
/* Whether a part is slower than its band allows. */
bool kiln_drift_is_slow(const kiln_drift_ratio *ratio, const kiln_reference_kernel_norm *norm);
/* Whether `ratio` is further from 1 than the part's band. False for an unknown ratio (0). */
bool kiln_part_is_out(double ratio, const kiln_part_norm *norm);
/* Whether samples with that drift, taken between these readings, are out of band. */
bool kiln_drift_is_out(const kiln_drift_ratio *ratio, const kiln_reference_kernel_norm *norm,
                       const kiln_msg_env *before, const kiln_msg_env *after);

/* For people and BOARD_UP: "3.27 us within 15 %", or why the part is switched off. */
void kiln_part_norm_print(const kiln_part_norm *norm, kiln_strbuf *out);

#endif
