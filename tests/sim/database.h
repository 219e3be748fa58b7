/* What trackers share (database.c): their rows, and the lead. It stands for a file as well as for
 * PostgreSQL: who loses its session has lost the lead, and writes nothing any more. */
#ifndef KILN_TESTS_SIM_DATABASE_H
#define KILN_TESTS_SIM_DATABASE_H

#include "tracker/tracker.h"

typedef struct sim_database sim_database;

sim_database *sim_database_create(void);
void sim_database_destroy(sim_database *db);
/* A session, from 1; never the same again. Closing it frees the lead that it has. */
uint64_t sim_database_open(sim_database *db);
void sim_database_close(sim_database *db, uint64_t session);
/* Takes the lead when it is free; whether the session has it. */
bool sim_database_lead(sim_database *db, uint64_t session);
bool sim_database_leads(const sim_database *db, uint64_t session);
/* All rows or none; false: the session does not lead. */
bool sim_database_write(sim_database *db, uint64_t session, const kiln_tracker_row *row,
                        uint32_t row_count);
/* Views, until the next write. */
uint32_t sim_database_read(const sim_database *db, kiln_arena *arena, kiln_tracker_row **out_rows);
bool sim_database_has_lease(const sim_database *db, uint64_t lease);

#endif
