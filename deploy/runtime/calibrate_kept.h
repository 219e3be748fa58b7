/* Stores a calibration between runs of programs: in a file of $KILN_HOME, for commands and private
 * fleets, or of a board's state folder. It is valid for the processor that it was made on and for
 * the version of the measuring code. */
#ifndef KILN_DEPLOY_CALIBRATE_KEPT_H
#define KILN_DEPLOY_CALIBRATE_KEPT_H

#include "base/arena.h"
#include "base/figures.h"

/* Set to KILN_CALIBRATION_NONE: programs measure nothing and use the table's figures; for tests. */
#define KILN_CALIBRATION_VARIABLE "KILN_CALIBRATION"
#define KILN_CALIBRATION_NONE "none"

/* Whether programs may use figures of this machine: not if the variable above forbids it, or
 * KILN_NATIVE limits the machine to another level. */
bool kiln_calibration_is_wanted(void);
/* The system's name of the processor, from all its lines: "AMD EPYC 26 2 1". */
kiln_str kiln_calibration_processor(const char *cpuinfo_path, kiln_arena *arena);
/* FILE errors. */
KILN_MUST_USE kiln_status kiln_calibration_keep(const char *folder, const kiln_figures *calibration,
                                                kiln_arena *arena);
/* The calibration kept in `folder`; empty if there is none, or it is damaged, or of another
 * processor or version. */
kiln_figures kiln_calibration_kept(const char *folder, kiln_arena *arena);

#endif
