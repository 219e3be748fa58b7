/* Import of rows of another database, from bundles (db/bundle.h) and from the JSON lines of `kiln
 * db import`.
 *
 * A record with a wrong signature ends the import: its bytes were changed. A signed record counts
 * when its signer is trusted here (db/trust.h) or by a project (`project`), else it is a hint; so
 * is a record without a signature, and always one whose origin is another system's log. Records
 * that cannot be true (db/plausible.h) or that a tombstone here forgets are left out and counted.
 * Rows that records refer to never replace stored ones.
 * Another database's trust in signers is skipped, and its tombstones apply only when their signer
 * is trusted here. All or nothing: rows become durable in kiln_db_import_end. */
#ifndef KILN_DB_IMPORT_H
#define KILN_DB_IMPORT_H

#include "base/sign/sign.h"
#include "db/trust.h"

typedef struct kiln_db_import_options {
    int64_t now_wall_ns; /* 0: records of the future are not noticed */
    /* Optional: a further check of a record. NULL: it can be true; else why not. `task` is NULL
     * when its row is unknown. Called on the thread of the import. */
    const char *(*implausible)(void *context, const kiln_db_record *record,
                               const kiln_db_task *task);
    void *context;
    /* Optional: a project whose signers are trusted in its jobs. */
    const kiln_db_project_trust *project;
    /* Signs records without a signature, for a user who says that they are their own; NULL: they
     * stay unsigned. */
    kiln_signer *signer;
} kiln_db_import_options;

typedef struct kiln_db_import_counts {
    uint32_t records; /* read: the sum of the next five */
    uint32_t trusted, hints, quarantined;
    uint32_t forgotten; /* left out: a tombstone says so */
    uint32_t refused;   /* left out because they cannot be true; the first for this reason: */
    const char *refusal;
    uint32_t tombstones, skipped_tombstones; /* applied; skipped */
} kiln_db_import_counts;

typedef struct kiln_db_import kiln_db_import;

/* `options` may be NULL. */
void kiln_db_import_begin(kiln_db *db, const kiln_db_import_options *options,
                          kiln_db_import **out_import);
/* `row` is a row struct of that table, which may be changed; parents come before what names them.
 * DATA_LOSS            a signature is wrong; the note names the trial
 * INVALID_ARGUMENT     a column breaks a rule of the schema
 * others               as kiln_db_put */
KILN_MUST_USE kiln_status kiln_db_import_row(kiln_db_import *import, kiln_db_table table,
                                             void *row);
/* Commits, or with an error (which it takes and returns) undoes everything. Frees `import`. */
KILN_MUST_USE kiln_status kiln_db_import_end(kiln_db_import *import, kiln_status st,
                                             kiln_db_import_counts *out_counts);

/* Adds `more`. */
void kiln_db_import_add(kiln_db_import_counts *counts, const kiln_db_import_counts *more);
/* "12 records: 10 count, 2 hints (kiln key trust ...)", one line for people without its end. */
void kiln_db_import_print(const kiln_db_import_counts *counts, kiln_strbuf *out);

#endif
