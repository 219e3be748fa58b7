/* Which candidates of a task measure its final. They are chosen among all records of the task, of
 * any job: the default schedule first. A judgement during the search takes earlier winners and the
 * fastest of the others; the final at the end takes the fastest, and the fastest of other pairs of
 * layouts. It takes none when a judgement of this job still holds: its winner is faster than all
 * candidates that were in no final. Pure. Used by final.c. */
#ifndef KILN_TUNER_FINAL_CHOICE_H
#define KILN_TUNER_FINAL_CHOICE_H

#include "db/db.h"
#include "tuner/finalist.h"

typedef struct kiln_final_records {
    const kiln_db_record *row; /* [count] those that may be best (KILN_DB_FASTEST) */
    uint32_t count;
    kiln_str base; /* hash of the default schedule */
    kiln_str job;  /* identity of this job */
} kiln_final_records;

typedef struct kiln_final_choice {
    const kiln_db_record *record[1 + KILN_TUNER_FINALISTS]; /* the default first */
    uint32_t count;  /* 0: there is no record of the default; 1: no final is needed */
    double alone_ns; /* of the fastest that is in no final so far; 0: none */
} kiln_final_choice;

/* `early`: of a judgement during the search. */
kiln_final_choice kiln_final_choose(const kiln_final_records *all, bool early);

#endif
