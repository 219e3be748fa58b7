/* Whether the board is as fast as it usually is: what the reference kernel
 * (rpc-server/reference_kernel.h) takes now, over what it usually takes. What is usual, and how far
 * readings of a quiet board stray from it, is learned from the board's own readings: at the start,
 * and from a round of each trial, of which the latest KILN_DRIFT_WINDOW count, so that a board that
 * stays slower or faster is taken as it is. A clock that rose is believed after four rounds. Pure.
 *
 * A part of the reference kernel is used where its readings say something about the board. It is
 * switched off where they
 *
 *     depend on what ran before   in one state they are further from those of another than the
 *                                 widest band: each kernel would bring its own reading along
 *     scatter                     more than one in twenty is out of band although others of its
 *                                 round, which were taken in the same two milliseconds, are not
 *
 * Neighbours that slow the board for longer than a round do neither, so a part stays on beside
 * them. */
#ifndef KILN_RPC_SERVER_DRIFT_H
#define KILN_RPC_SERVER_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/reading.h"
#include "proto/proto.h"
#include "rpc-server/reference_kernel.h"

#define KILN_DRIFT_WINDOW 64u /* rounds that are remembered */
#define KILN_DRIFT_START 32u  /* rounds before the first trial */
/* One in so many readings is at least as fast as usual. Neighbours only slow a board down, and some
 * do so most of the time: on a busy machine 0.1 to 0.7 of all moments were undisturbed. */
#define KILN_DRIFT_FASTER 16u
/* A band holds this share of the readings, if it need not be wider than the widest. */
#define KILN_DRIFT_IN_BAND 0.97
#define KILN_DRIFT_SCATTER_MAX 0.05 /* share of readings; more of them switch a part off */
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

/* What is usual for one part. */
typedef struct kiln_part_norm {
    kiln_part_use use;
    double usual_ns;
    /* Share of usual_ns that a quiet board's readings are above or below it at most. */
    double band;
    /* Of readings in each state, over the median of their round: the median. */
    double state[KILN_REFERENCE_KERNEL_STATE_COUNT];
    double scatter; /* share of readings that are out of band beside others that are not */
} kiln_part_norm;

typedef struct kiln_reference_kernel_norm {
    kiln_part_norm arithmetic, memory;
} kiln_reference_kernel_norm;

typedef struct kiln_drift {
    kiln_reference_kernel_norm norm;
    kiln_reference_kernel_round round[KILN_DRIFT_WINDOW];
    uint32_t count; /* of all rounds so far: the newest is at (count - 1) % WINDOW */
} kiln_drift;

/* `round`: [count], count >= 1; all readings above 0. */
kiln_reference_kernel_norm kiln_reference_kernel_norm_of(const kiln_reference_kernel_round *round,
                                                         uint32_t count);
/* Learns from a round: one of those before the first trial, or of a trial, before any code of the
 * candidate ran. All readings above 0. */
void kiln_drift_take(kiln_drift *drift, const kiln_reference_kernel_round *round);

/* `pace` over what is usual; 0 for a part that is not used. */
kiln_drift_ratio kiln_drift_ratio_of(const kiln_reference_kernel_times *pace,
                                     const kiln_reference_kernel_norm *norm);
/* Whether a part is slower than its band allows. */
bool kiln_drift_is_slow(const kiln_drift_ratio *ratio, const kiln_reference_kernel_norm *norm);
/* Whether `ratio` is further from 1 than the part's band; unknown ones (0) are not. */
bool kiln_part_is_out(double ratio, const kiln_part_norm *norm);
/* Whether samples with that drift, taken between these readings, are out of band. */
bool kiln_drift_is_out(const kiln_drift_ratio *ratio, const kiln_reference_kernel_norm *norm,
                       const kiln_msg_env *before, const kiln_msg_env *after);

/* For people and BOARD_UP: "3.27 us within 15 %", or why the part is switched off. */
void kiln_part_norm_print(const kiln_part_norm *norm, kiln_strbuf *out);

#endif
