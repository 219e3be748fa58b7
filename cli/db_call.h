/* One call of `kiln db`: what its actions share (cmd_db.c, db_trust.c). */
#ifndef KILN_CLI_DB_CALL_H
#define KILN_CLI_DB_CALL_H

#include "cli/db_list.h"
#include "db/db.h"

typedef struct kiln_db_call {
    kiln_db *db;
    kiln_arena *process;
    const char *task, *target;
    const char *argument;      /* file, statement or identity; NULL: none */
    const char *path, *output; /* of the database; of plot */
    const char *reason;        /* NULL: none */
    uint64_t limit;
    kiln_db_allowed allowed; /* by --accuracy, --exact and --precision; empty: any record */
    kiln_db_form form;
    bool json, csv, own;
} kiln_db_call;

/* Prints counts, for kiln db stats. */
void kiln_db_call_print_stats(const kiln_db_call *c, const kiln_db_stat *stat, uint32_t count);
/* kiln db forget, quarantine, restore, prune, verify. */
kiln_status kiln_db_call_forget(const kiln_db_call *c);
kiln_status kiln_db_call_quarantine(const kiln_db_call *c);
kiln_status kiln_db_call_restore(const kiln_db_call *c);
kiln_status kiln_db_call_prune(const kiln_db_call *c);
kiln_status kiln_db_call_verify(const kiln_db_call *c);
/* kiln key trust [NAME-or-PUBLIC] [--no]: `who` NULL lists what is held of signers. */
kiln_status kiln_db_call_trust(const kiln_db_call *c, const char *who, bool no);

#endif
