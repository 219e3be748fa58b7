/* How a trial ended and whose fault it was, for the wire, boards, the tuner and the database. The
 * table is outcome.def. */
#ifndef KILN_BASE_OUTCOME_H
#define KILN_BASE_OUTCOME_H

#include <stdbool.h>

#include "base/str.h"

typedef enum kiln_outcome {
#define X(name, number, text, blame, trains, meaning) KILN_OUTCOME_##name = number,
#include "base/outcome.def"
#undef X
    KILN_OUTCOME_COUNT
} kiln_outcome;

typedef enum kiln_blame {
    KILN_BLAME_NONE = 0,
    KILN_BLAME_CANDIDATE = 1,
    KILN_BLAME_BOARD = 2,
    KILN_BLAME_INFRA = 3,
    KILN_BLAME_CLIENT = 4,
    KILN_BLAME_COUNT
} kiln_blame;

/* Text as stored and shown: "wrong_result", "candidate". */
const char *kiln_outcome_name(kiln_outcome outcome);
const char *kiln_blame_name(kiln_blame blame);
/* False: no outcome has that name. */
bool kiln_outcome_find(kiln_str name, kiln_outcome *out_outcome);
bool kiln_blame_find(kiln_str name, kiln_blame *out_blame);
/* Whose fault this outcome usually is; a record may say otherwise. */
kiln_blame kiln_outcome_blame(kiln_outcome outcome);
/* Whether a cost model may learn from it. */
bool kiln_outcome_trains(kiln_outcome outcome);

#endif
