/* kiln db best, top, history, stats --tracker: the records of tuners, over their tracker. */
#ifndef KILN_CLI_DB_REMOTE_H
#define KILN_CLI_DB_REMOTE_H

#include "cli/common/client.h"
#include "cli/db_call.h"

typedef struct kiln_db_remote {
    kiln_client_options client;
    const char *tuner; /* name or node; NULL: all */
} kiln_db_remote;

/* Asks, joins the answers of several tuners and prints them as the same command does for a database
 * here; `c->db` is not used. Errors of kiln_client_ask; NOT_FOUND: there is no such tuner;
 * DATA_LOSS: an answer is damaged. */
KILN_MUST_USE kiln_status kiln_db_call_remote(const kiln_db_call *c, const kiln_db_remote *remote,
                                              kiln_records_question question);

#endif
