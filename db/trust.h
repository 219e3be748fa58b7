/* Trusted signers and forgotten records (docs/decisions/0020-who-measured-it.md). A database says
 * for each known signer whether its records count; changing that changes the standing of stored
 * records. A tombstone says that a record is forgotten or quarantined, also when a later import
 * brings it again. Everything here writes into the open group: the caller commits. Used by the
 * tuner and `kiln db`, `kiln key trust`. */
#ifndef KILN_DB_TRUST_H
#define KILN_DB_TRUST_H

#include "base/sign/sign.h"
#include "db/db.h"

/* Stands for all records without a signature, in place of a public key. */
#define KILN_DB_UNSIGNED "unsigned"

const char *kiln_db_trust_name(kiln_db_trust trust);
/* Whether records of such a signer count. */
bool kiln_db_trust_counts(kiln_db_trust trust);

/* The trust in a signer (empty text: in records without one). */
KILN_MUST_USE kiln_status kiln_db_trust_of(kiln_db *db, kiln_str signer, kiln_db_trust *out_trust);
/* The signer with that public half or that name; of several with one name the first. */
KILN_MUST_USE kiln_status kiln_db_find_signer(kiln_db *db, kiln_str who, kiln_arena *arena,
                                              kiln_db_signer *out_signer, bool *out_found);
/* Sets the trust in a signer, and the standing of its records. Only a person changes what a person
 * said (PERSON, REFUSED); OWN is not lowered to TRACKER. O(records) when it changes anything.
 * INVALID_ARGUMENT     `signer` is neither a public half nor KILN_DB_UNSIGNED */
KILN_MUST_USE kiln_status kiln_db_set_trust(kiln_db *db, kiln_str signer, kiln_str name,
                                            kiln_db_trust trust, int64_t now_wall_ns);
/* Trusts this user's own signer, and the one that it replaced (NULL: none). What a person said
 * stays. */
KILN_MUST_USE kiln_status kiln_db_trust_own(kiln_db *db, const kiln_sign_public *own,
                                            const kiln_succession *succession, int64_t now_wall_ns);
/* Stores that a signer replaced another one, if the other one signed that and has no successor yet;
 * otherwise does nothing. When a signer is trusted, now or later, its successor is trusted alike
 * unless its trust is set already, and so are those that follow (at most KILN_DB_SUCCESSORS_MAX).
 */
#define KILN_DB_SUCCESSORS_MAX 64u
KILN_MUST_USE kiln_status kiln_db_put_successor(kiln_db *db, const kiln_db_succession *row,
                                                int64_t now_wall_ns);

/* A project whose records count when one of these signers measured them. */
typedef struct kiln_db_project_trust {
    kiln_str project;
    kiln_db_trusting signers;
} kiln_db_project_trust;
/* Concatenated public keys, as messages carry them, to their hexadecimal form. */
kiln_db_trusting kiln_db_trusting_read(kiln_str halves, kiln_arena *arena);
/* Makes records of the project hints again whose signer is not among these any more (imports say
 * what begins to count: db/import.h). */
KILN_MUST_USE kiln_status kiln_db_limit_project_trust(kiln_db *db,
                                                      const kiln_db_project_trust *trust);

typedef enum kiln_db_verdict {
    KILN_DB_FORGOTTEN,  /* the rows go */
    KILN_DB_QUARANTINE, /* they stay, but nothing uses them */
    KILN_DB_RESTORED,   /* quarantined records get their standing back */
    KILN_DB_VERDICTS,
} kiln_db_verdict;

typedef struct kiln_db_verdict_request {
    kiln_db_verdict verdict;
    kiln_str id;         /* of a trial, a job or a signer; or 12 digits or more of a trace's hash */
    kiln_str reason;     /* may be empty */
    kiln_signer *signer; /* signs the tombstones, so that other databases apply them; may be NULL */
    int64_t now_wall_ns;
} kiln_db_verdict_request;
/* Applies the verdict to every record that `id` names, with a tombstone each. */
KILN_MUST_USE kiln_status kiln_db_apply_verdict(kiln_db *db,
                                                const kiln_db_verdict_request *sentence,
                                                uint32_t *out_count);
/* Applies a tombstone of another database, whose signer the caller trusts. Does nothing when it is
 * older than the stored one. */
KILN_MUST_USE kiln_status kiln_db_apply_tombstone(kiln_db *db, const kiln_db_tombstone *tombstone);
/* The verdict on a record; *out_verdict is KILN_DB_RESTORED when there is no tombstone. */
KILN_MUST_USE kiln_status kiln_db_verdict_of(kiln_db *db, const kiln_db_record *record,
                                             kiln_db_verdict *out_verdict);
/* Removes hints and quarantined records; tombstones stay. */
KILN_MUST_USE kiln_status kiln_db_prune(kiln_db *db, uint32_t *out_count);

typedef struct kiln_db_verification {
    uint64_t right, wrong, unsigned_before, unsigned_others;
    uint64_t counting, hints, quarantined;
    char first_wrong[64]; /* its trial */
} kiln_db_verification;
/* Checks every signature. O(records), some 100 us each. */
KILN_MUST_USE kiln_status kiln_db_verify(kiln_db *db, kiln_db_verification *out);

#endif
