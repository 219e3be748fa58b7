/* Bundles: the blob of a job's records that a tuner sends to its client, and that a client sends to
 * a tuner so that nothing is measured twice. Rows travel as msgpack maps from column names to
 * values, parents (tasks, targets, devices, fingerprints, jobs) before the records that name them,
 * so a bundle can be imported into any database of Kiln; columns that the reader does not know are
 * skipped, missing ones are empty or 0. JSON lines for people are made in cli/ from the same
 * tables. */
#ifndef KILN_DB_BUNDLE_H
#define KILN_DB_BUNDLE_H

#include "db/db.h"
#include "db/import.h"

#define KILN_BUNDLE_ROWS_MAX 1000000u

/* Appends the records that match any of the filters (which should not overlap) and every row they
 * refer to. Deterministic. */
KILN_MUST_USE kiln_status kiln_bundle_export(kiln_db *db, const kiln_db_filter *filter,
                                             uint32_t filter_count, kiln_strbuf *out);
/* Appends one row as bundles hold it: a bundle is an array of them. */
void kiln_bundle_row(kiln_db_table table, const void *row, kiln_strbuf *out);
/* Calls `visit` for each row of a bundle, in its order; rows and views last as long as `bytes` and
 * `arena`. Nothing is checked but the form. DATA_LOSS: damaged bytes, an unknown table; errors of
 * `visit`. */
KILN_MUST_USE kiln_status kiln_bundle_each(kiln_str bytes, kiln_arena *arena, kiln_db_visit visit,
                                           void *context);
/* Takes in every row by the rules of db/import.h, and commits. Adds to `*counts`. `options` may be
 * NULL. DATA_LOSS: damaged bytes, an unknown table, a wrong signature; nothing of the bundle is
 * stored then. */
KILN_MUST_USE kiln_status kiln_bundle_import(kiln_db *db, kiln_str bytes,
                                             const kiln_db_import_options *options,
                                             kiln_db_import_counts *counts);

#endif
