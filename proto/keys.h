/* Keys: which nodes may connect to a tracker over a network, and in which role. A key is a secret
 * that one node and its tracker share; TLS proves that both know it (docs/reference/keys.md). To it
 * belongs a pair for signatures: the node has its seed, the tracker only the public half.
 *
 * A key is called ROLE/NODE/GENERATION, as in "board/rpi-1/2". NODE is also the identity of its
 * holder in the fleet. A node has at most two generations at a time, so that a key can be replaced
 * while one is always valid; a number is never used again. A key file is text, one key a line; a
 * tracker's file holds the keys of all its nodes, a node's file its own. This header has text and
 * decisions only; proto/net.h reads files and watches them.
 *
 * A tracker's file also holds tokens, with which people sign in at a web server:
 * "kiln-NAME-SECRET", listed as ROLE/NAME/web/GENERATION with the SHA-256 of the secret. TLS does
 * not accept them. */
#ifndef KILN_PROTO_KEYS_H
#define KILN_PROTO_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sign/sign.h"
#include "base/status.h"
#include "base/str.h"
#include "base/vec.h"
#include "proto/proto.h"

#define KILN_KEY_GENERATIONS 2u /* of one node at a time */
#define KILN_KEY_GENERATION_MAX 999999999u
#define KILN_KEYS_MAX 32768u    /* of one file */
#define KILN_KEY_NAME_BYTES 96u /* longest "ROLE/NODE/GENERATION" and its NUL */
#define KILN_KEY_FILE_MAX ((size_t)16 << 20)

typedef enum kiln_key_state {
    KILN_KEY_IN_FORCE,
    KILN_KEY_OFFERED,  /* in force; offered to the node, which has the one before it */
    KILN_KEY_DECLINED, /* in force; the node could not take it */
    KILN_KEY_REVOKED,  /* only its number is kept, so that it is not used again */
    KILN_KEY_STATE_COUNT
} kiln_key_state;

typedef struct kiln_key {
    kiln_peer_role role;               /* any but TRACKER */
    char node[KILN_MESSAGES_TEXT + 1]; /* letters, digits, dot, dash, underscore */
    uint32_t generation;               /* from 1; 0 in names that mean all of them */
    bool is_token; /* of a client or admin: `secret` is the digest of the token's */
    kiln_key_state state;
    uint32_t last_day; /* on which it is valid, UTC, counted from 1970; 0: no end */
    bool has_public, has_seed;
    kiln_sign_public public_half;       /* of its node's signatures; in a tracker's file */
    uint8_t seed[KILN_SIGN_SEED_BYTES]; /* the secret half; in the node's own file only */
    uint8_t secret[KILN_KEY_BYTES];
    bool has_before;            /* its node signed with another seed before this key */
    kiln_succession succession; /* that seed's public half, and its signature of public_half */
} kiln_key;

/* Sorted by role, node, keys before tokens, generation; zero-initialise. */
typedef struct kiln_keys {
    KILN_VEC(kiln_key) key; /* only keys.c lets it grow, and wipes the old memory */
} kiln_keys;

/* Wipes the secrets. */
void kiln_keys_deinit(kiln_keys *keys);

/* "ROLE/NODE" or "ROLE/NODE/GENERATION", of a token "ROLE/NODE/web" or "ROLE/NODE/web/GENERATION",
 * into a key without a secret. INVALID_ARGUMENT: none of them; the error lists the roles. */
KILN_MUST_USE kiln_status kiln_key_name_parse(kiln_str text, kiln_key *out_name);
/* NUL-terminated; a generation of 0 is left out. */
void kiln_key_name_print(const kiln_key *name, char out_text[KILN_KEY_NAME_BYTES]);

#define KILN_DAY_TEXT 11      /* "2026-12-31" and NUL */
#define KILN_DAY_MAX 2932896u /* 9999-12-31 */
/* Days since 1970 and back. False: `text` is no day after 1970-01-01. */
bool kiln_day_parse(kiln_str text, uint32_t *out_day);
void kiln_day_print(uint32_t day, char out_text[KILN_DAY_TEXT]);
uint32_t kiln_day_of(uint64_t wall_ns);
/* Whether the key's last day is over. */
bool kiln_key_has_expired(const kiln_key *key, uint32_t today);

/* Reads the text of a key file. DATA_LOSS with the line's number; `*out_keys` is empty then. */
KILN_MUST_USE kiln_status kiln_keys_parse(kiln_str text, kiln_keys *out_keys);
/* The text that parses to the same; holds secrets, so the caller wipes it (kiln_strbuf_wipe). */
void kiln_keys_print(const kiln_keys *keys, kiln_strbuf *out);

/* The key of that role, node and generation, unless it is revoked; NULL. O(log n). */
const kiln_key *kiln_keys_find(const kiln_keys *keys, const kiln_key *name);
/* The index behind the last generation of the node's keys, or tokens where `name` is one's; that of
 * the first in `*out_first`. Empty where both are equal. */
uint32_t kiln_keys_range(const kiln_keys *keys, const kiln_key *name, uint32_t *out_first);
/* Whether such a key was revoked, as far as the list remembers. */
bool kiln_keys_was_revoked(const kiln_keys *keys, const kiln_key *name);
/* The generation that is offered in place of `key`; NULL: none. */
const kiln_key *kiln_keys_offer(const kiln_keys *keys, const kiln_key *key);
/* The newest key with a public half that is neither revoked nor expired, of this role and node
 * (NULL: any), with this half or as its successor (NULL: any); NULL: none. O(log n) with a name,
 * else O(n). */
const kiln_key *kiln_keys_signer(const kiln_keys *keys, const kiln_key *name,
                                 const kiln_sign_public *half, uint32_t today);
uint32_t kiln_keys_in_force(const kiln_keys *keys); /* how many are not revoked */
/* The newest generation of `name`, or of the only node in a node's own file when `name` is NULL.
 * NOT_FOUND; INVALID_ARGUMENT: `name` is NULL and there are several nodes. */
KILN_MUST_USE kiln_status kiln_keys_newest(const kiln_keys *keys, const kiln_key *name,
                                           const kiln_key **out_key);
/* Adds `key` as the next generation of its role and node, after revoked ones too, and drops the
 * oldest beyond KILN_KEY_GENERATIONS. `*out_key` is valid until the keys change.
 * RESOURCE_EXHAUSTED: KILN_KEYS_MAX. OUT_OF_RANGE: KILN_KEY_GENERATION_MAX. */
KILN_MUST_USE kiln_status kiln_keys_add(kiln_keys *keys, const kiln_key *key,
                                        const kiln_key **out_key);
/* Revokes one generation, or all of the node, its tokens included, when name's is 0; with a token's
 * name only tokens. Returns how many. */
uint32_t kiln_keys_revoke(kiln_keys *keys, const kiln_key *name);
/* Records the outcome of an offer. KILN_KEY_IN_FORCE: the node has taken it. The generations before
 * `name` are revoked, and its public half replaces the node's where it has a succession. */
void kiln_keys_settle(kiln_keys *keys, const kiln_key *name, kiln_key_state outcome);

/* ---- People who sign in at a web server ---- */

#define KILN_WEB_TOKEN_TEXT (KILN_MESSAGES_TEXT + 71) /* longest "kiln-NAME-SECRET" and its NUL */
/* NUL-terminated; holds the secret, so the caller wipes it. */
void kiln_web_token_print(const char *person, const uint8_t secret[KILN_KEY_BYTES],
                          char out_text[KILN_WEB_TOKEN_TEXT]);
/* False: `text` is no token. */
bool kiln_web_token_parse(kiln_str text, char out_person[KILN_MESSAGES_TEXT + 1],
                          uint8_t out_secret[KILN_KEY_BYTES]);
/* What the list has as `secret` of a token. */
void kiln_web_token_digest(const uint8_t secret[KILN_KEY_BYTES],
                           uint8_t out_secret[KILN_KEY_BYTES]);

/* Whether the list has a key or token of the person that is neither revoked nor expired; one of
 * them may be an admin's. */
typedef struct kiln_person_keys {
    bool has_any, has_token, is_admin;
} kiln_person_keys;
kiln_person_keys kiln_keys_of_person(const kiln_keys *keys, kiln_str person, uint32_t today);
/* The person's token with this secret that is neither revoked nor expired; NULL. How long it takes
 * says nothing about the secret. */
const kiln_key *kiln_keys_token(const kiln_keys *keys, kiln_str person, kiln_str secret,
                                uint32_t today);

bool kiln_key_may_speak_as(kiln_peer_role role, kiln_peer_role as);
/* PERMISSION_DENIED: it may not. Checked before dialling, as the tracker tells strangers no reason.
 */
KILN_MUST_USE kiln_status kiln_key_check_role(const kiln_key *key, kiln_peer_role as);
/* PERMISSION_DENIED: HELLO says another role or node than the proven key. */
KILN_MUST_USE kiln_status kiln_key_check_hello(const kiln_key *key, const kiln_msg_hello *hello);

#endif
