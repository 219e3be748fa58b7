/* What the tuner's step holds: its owners, each with the files that write its fields. Shared by the
 * files of the step only.
 *
 * A file calls what its owner's header declares, or a header that this one includes, down to
 * effects.h: there are no circles. It writes fields of structs that its own header declares, and of
 * those whose comment says "Written by" it; all may read (tests/check/check_owners.py). */
#ifndef KILN_TUNER_STATE_H
#define KILN_TUNER_STATE_H

#include "tuner/boards.h"
#include "tuner/effects.h"
#include "tuner/finals.h"
#include "tuner/job_end.h"
#include "tuner/job_life.h"
#include "tuner/jobs.h"
#include "tuner/leases.h"
#include "tuner/pipeline.h"
#include "tuner/recipes.h"
#include "tuner/tasks.h"
#include "tuner/trials.h"

struct kiln_tuner {
    kiln_tuner_options options;
    kiln_tuner_effects effects;
    kiln_tuner_jobs job;
    kiln_tuner_requests requests;
};

#endif
