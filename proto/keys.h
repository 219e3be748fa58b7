/* Keys: who may speak to a tracker over a network, and as what. A key is a secret that one node and
 * its tracker share; TLS proves that both know it (docs/reference/keys.md). To it belongs a pair
 * that signs: the node has its seed, the tracker only the public half.
 *
 * A key is called ROLE/NODE/GENERATION, as in "board/rpi-1/2". NODE is also the identity under
 * which its holder appears in the fleet. A node has at most two generations at a time, so that a
 * key can be replaced without a moment in which none is right; a number never comes back. A key
 * file is text, one key a line; a tracker's holds the keys of all its nodes, a node's its own. This
 * header is text and decisions only; proto/net.h reads files and watches them. */
#ifndef KILN_PROTO_KEYS_H
#define KILN_PROTO_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sign/sign.h"
#include "base/status.h"
#include "base/str.h"
#include "base/vec.h"
#include "proto/proto.h"

#define KILN_KEY_BYTES 32u
#define KILN_KEY_GENERATIONS 2u /* of one node at a time */
#define KILN_KEY_GENERATION_MAX 999999999u
#define KILN_KEYS_MAX 32768u    /* of one file */
#define KILN_KEY_NAME_BYTES 96u /* longest "ROLE/NODE/GENERATION" and its NUL */
#define KILN_KEY_FILE_MAX ((size_t)16 << 20)

typedef enum kiln_key_state {
    KILN_KEY_IN_FORCE,
    KILN_KEY_OFFERED,  /* in force; the node that has the one before it is to take it */
    KILN_KEY_DECLINED, /* in force; the node could not take it */
    KILN_KEY_REVOKED,  /* nothing but its number is left, so that it does not come back */
    KILN_KEY_STATE_COUNT
} kiln_key_state;

typedef struct kiln_key {
    kiln_peer_role role;               /* any but TRACKER */
    char node[KILN_MESSAGES_TEXT + 1]; /* letters, digits, dot, dash, underscore */
    uint32_t generation;               /* from 1; 0 in names that mean all of them */
    kiln_key_state state;
    uint32_t last_day; /* on which it is valid, UTC, counted from 1970; 0: for ever */
    bool has_public, has_seed;
    kiln_sign_public public_half;       /* of what its node signs with; in a tracker's file */
    uint8_t seed[KILN_SIGN_SEED_BYTES]; /* the secret half; in the node's own file only */
    uint8_t secret[KILN_KEY_BYTES];
    bool has_before;            /* its node signed by another seed before this key */
    kiln_succession succession; /* which one, and that one's word for public_half */
} kiln_key;

/* Sorted by role, node, generation; zero-initialise. */
typedef struct kiln_keys {
    KILN_VEC(kiln_key) key; /* grown by keys.c alone, which wipes what it leaves behind */
} kiln_keys;

/* Forgets the secrets, in memory too. */
void kiln_keys_deinit(kiln_keys *keys);

/* "ROLE/NODE" or "ROLE/NODE/GENERATION" into a key without a secret. INVALID_ARGUMENT: neither; the
 * note says what is wrong and which roles there are. */
KILN_MUST_USE kiln_status kiln_key_name_parse(kiln_str text, kiln_key *out_name);
/* NUL-terminated; a generation of 0 is left out. */
void kiln_key_name_print(const kiln_key *name, char out_text[KILN_KEY_NAME_BYTES]);

#define KILN_DAY_TEXT 11      /* "2026-12-31" and NUL */
#define KILN_DAY_MAX 2932896u /* 9999-12-31 */
/* Days since 1970 and back; false: `text` is no day after 1970-01-01. */
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
/* Whether such a key was revoked, as far as the list remembers. */
bool kiln_keys_was_revoked(const kiln_keys *keys, const kiln_key *name);
/* A generation that its node is to take in place of `key`; NULL. */
const kiln_key *kiln_keys_offer(const kiln_keys *keys, const kiln_key *key);
/* The newest key with a public half, of that role and node (NULL: any) and with that half or in the
 * place of it (NULL: any), that is neither revoked nor expired; NULL. O(log n) with a name, else
 * O(n). */
const kiln_key *kiln_keys_signer(const kiln_keys *keys, const kiln_key *name,
                                 const kiln_sign_public *half, uint32_t today);
uint32_t kiln_keys_in_force(const kiln_keys *keys); /* how many are not revoked */
/* The newest generation of `name`, or of the only node in a node's own file when `name` is NULL.
 * NOT_FOUND; INVALID_ARGUMENT: `name` is NULL and there are several nodes. */
KILN_MUST_USE kiln_status kiln_keys_newest(const kiln_keys *keys, const kiln_key *name,
                                           const kiln_key **out_key);
/* Adds `key` as the next generation of its role and node, counting on from what was revoked, and
 * drops the oldest when there would be more than KILN_KEY_GENERATIONS. `*out_key` is valid until
 * the keys change. RESOURCE_EXHAUSTED: KILN_KEYS_MAX. OUT_OF_RANGE: KILN_KEY_GENERATION_MAX. */
KILN_MUST_USE kiln_status kiln_keys_add(kiln_keys *keys, const kiln_key *key,
                                        const kiln_key **out_key);
/* Revokes one generation, or all of the node when name's is 0; returns how many. */
uint32_t kiln_keys_revoke(kiln_keys *keys, const kiln_key *name);
/* What came of an offer. TAKEN (KILN_KEY_IN_FORCE): the generations before `name` are revoked, and
 * its node signs by `name`'s public half where that has a succession. */
void kiln_keys_settle(kiln_keys *keys, const kiln_key *name, kiln_key_state outcome);

bool kiln_key_may_speak_as(kiln_peer_role role, kiln_peer_role as);
/* PERMISSION_DENIED: it may not. The dialling side looks before it dials, as the tracker says
 * nothing to strangers. */
KILN_MUST_USE kiln_status kiln_key_check_role(const kiln_key *key, kiln_peer_role as);
/* What a key has proven must be what HELLO says: role and name. PERMISSION_DENIED. */
KILN_MUST_USE kiln_status kiln_key_check_hello(const kiln_key *key, const kiln_msg_hello *hello);

#endif
