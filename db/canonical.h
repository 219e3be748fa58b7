/* The bytes that signatures of db/ cover. docs/reference/record-bytes.md repeats them with a test
 * vector. A record is signed by the tuner that measured it, a tombstone by the user who asked for
 * it.
 *
 * Version 1 of a record: the text "kiln record 1\n", then the columns of rows.def from trial_id to
 * fences, in their order, without median_ns and min_ns, which each database derives from the
 * samples. Columns after `fences` differ by database and are not covered. Version 1 of a tombstone:
 * "kiln tombstone 1\n" and its columns from trial_id to said_wall_ns.
 *
 *   TEXT, BLOB   u32 number of bytes, the bytes
 *   INT          i64
 *   REAL         IEEE 754 binary64; a zero is positive
 *   SAMPLES      u32 number of samples, each as a REAL
 *
 * Numbers are little-endian. Text is UTF-8 without NUL: kiln_record_sign replaces each byte that
 * breaks this by '?', as a PostgreSQL server's tables take no other. */
#ifndef KILN_DB_CANONICAL_H
#define KILN_DB_CANONICAL_H

#include "base/arena.h"
#include "base/sign/sign.h"
#include "db/db.h"

/* Appends them. */
void kiln_record_canonical(const kiln_db_record *record, kiln_strbuf *out);
void kiln_tombstone_canonical(const kiln_db_tombstone *tombstone, kiln_strbuf *out);

/* Sets the signer (said_by) and the signature, in `arena`. Errors are those of kiln_sign. */
KILN_MUST_USE kiln_status kiln_record_sign(kiln_signer *signer, kiln_arena *arena,
                                           kiln_db_record *record);
KILN_MUST_USE kiln_status kiln_tombstone_sign(kiln_signer *signer, kiln_arena *arena,
                                              kiln_db_tombstone *tombstone);

/* Checkers by signer. Zero-initialise; at most KILN_CHECKERS_MAX are kept, as a bundle may name any
 * number of signers. */
#define KILN_CHECKERS_MAX 64u
typedef struct kiln_checkers {
    struct {
        kiln_sign_public half;
        kiln_sign_checker *checker;
    } item[KILN_CHECKERS_MAX];
    uint32_t count, next;
    kiln_strbuf bytes;
} kiln_checkers;
void kiln_checkers_deinit(kiln_checkers *checkers);

/* Whether the signature is that of the row's signer (said_by) over these bytes. False also where
 * the row has none, or its signer is no public half. */
bool kiln_record_is_signed(kiln_checkers *checkers, const kiln_db_record *record);
bool kiln_tombstone_is_signed(kiln_checkers *checkers, const kiln_db_tombstone *tombstone);

/* `text` as a server takes it, see above: itself, or a copy in `arena`. */
kiln_str kiln_db_text_corrected(kiln_str text, kiln_arena *arena);

#endif
