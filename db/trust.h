/* Who is believed, and what is forgotten (docs/decisions/0020-who-measured-it.md). A database holds
 * for each signer that somebody spoke for whether its records count; changing that moves the
 * standing of the records that are there. A tombstone says that a record is forgotten or
 * quarantined, also where a later import brings it again. Everything here writes into the open
 * group: the caller commits. Used by the tuner and `kiln db`, `kiln key trust`. */
#ifndef KILN_DB_TRUST_H
#define KILN_DB_TRUST_H

#include "base/sign/sign.h"
#include "db/db.h"

/* In place of a public half: all records without a signature. */
#define KILN_DB_UNSIGNED "unsigned"

const char *kiln_db_trust_name(kiln_db_trust trust);
/* Whether records of such a signer count. */
bool kiln_db_trust_counts(kiln_db_trust trust);

/* What is held of a signer (empty text: of records without one). */
KILN_MUST_USE kiln_status kiln_db_trust_of(kiln_db *db, kiln_str signer, kiln_db_trust *out_trust);
/* The signer with that public half or that name; of several with one name the first. */
KILN_MUST_USE kiln_status kiln_db_find_signer(kiln_db *db, kiln_str who, kiln_arena *arena,
                                              kiln_db_signer *out_signer, bool *out_found);
/* From here on `trust` is held of the signer, and its records stand accordingly. What a person said
 * (PERSON, REFUSED) is changed by a person only; OWN is not lowered to TRACKER. O(records) when it
 * changes anything.
 * INVALID_ARGUMENT     `signer` is neither a public half nor KILN_DB_UNSIGNED */
KILN_MUST_USE kiln_status kiln_db_set_trust(kiln_db *db, kiln_str signer, kiln_str name,
                                            kiln_db_trust trust, int64_t now_wall_ns);
/* This user's own signer, and which one it took the place of (NULL: none). What a person said
 * stays. */
KILN_MUST_USE kiln_status kiln_db_trust_own(kiln_db *db, const kiln_sign_public *own,
                                            const kiln_succession *succession, int64_t now_wall_ns);
/* Keeps who took whose place, where the one before signed that, and nobody took that place before;
 * otherwise nothing happens. Where the one before counts, the next is held alike, unless something
 * is held of it already: also those who come after it, and also when the one before counts later
 * only (at most KILN_DB_SUCCESSORS_MAX, one after the other). */
#define KILN_DB_SUCCESSORS_MAX 64u
KILN_MUST_USE kiln_status kiln_db_succeed(kiln_db *db, const kiln_db_succession *row,
                                          int64_t now_wall_ns);

/* On whose word records count: a project's, of what these signers measured. */
typedef struct kiln_db_word {
    kiln_str project;
    kiln_db_trusting signers;
} kiln_db_word;
/* Public halves one after the other, as messages carry them, in their hexadecimal form. */
kiln_db_trusting kiln_db_trusting_read(kiln_str halves, kiln_arena *arena);
/* What counts here on the project's word and is of none of these signers any more is a hint again
 * (imports say what begins to count: db/import.h). */
KILN_MUST_USE kiln_status kiln_db_hold_to_word(kiln_db *db, const kiln_db_word *word);

typedef enum kiln_db_verdict {
    KILN_DB_FORGOTTEN,  /* the rows go */
    KILN_DB_QUARANTINE, /* they stay, as if they were not there */
    KILN_DB_RESTORED,   /* what was quarantined stands as before */
    KILN_DB_VERDICTS,
} kiln_db_verdict;

typedef struct kiln_db_sentence {
    kiln_db_verdict verdict;
    kiln_str id;         /* of a trial, a job or a signer; or 12 digits or more of a trace's hash */
    kiln_str reason;     /* may be empty */
    kiln_signer *signer; /* signs the tombstones, so that other databases heed them; may be NULL */
    int64_t now_wall_ns;
} kiln_db_sentence;
/* Passes it on every record that `id` names, with a tombstone each. */
KILN_MUST_USE kiln_status kiln_db_pass(kiln_db *db, const kiln_db_sentence *sentence,
                                       uint32_t *out_count);
/* A tombstone that came from elsewhere; the caller has decided that it is to be heeded. Older than
 * the stored one: nothing happens. */
KILN_MUST_USE kiln_status kiln_db_heed(kiln_db *db, const kiln_db_tombstone *tombstone);
/* What a tombstone says of a record; *out_verdict is KILN_DB_RESTORED where there is none. */
KILN_MUST_USE kiln_status kiln_db_verdict_of(kiln_db *db, const kiln_db_record *record,
                                             kiln_db_verdict *out_verdict);
/* Removes hints and what is quarantined; tombstones stay. */
KILN_MUST_USE kiln_status kiln_db_prune(kiln_db *db, uint32_t *out_count);

typedef struct kiln_db_verification {
    uint64_t right, wrong, unsigned_before, unsigned_others;
    uint64_t counting, hints, quarantined;
    char first_wrong[64]; /* its trial */
} kiln_db_verification;
/* Checks every signature. O(records), some 100 us each. */
KILN_MUST_USE kiln_status kiln_db_verify(kiln_db *db, kiln_db_verification *out);

#endif
