#include "proto/net/key_rotation.h"

#include <string.h>

#include "base/alloc.h"
#include "proto/net/conn.h"
#include "proto/net/keyring.h"

/* ---- Listening ---- */

static bool is_half(kiln_str bytes, const kiln_sign_public *half) {
    return bytes.size == sizeof half->byte && memcmp(bytes.data, half->byte, bytes.size) == 0;
}

/* Whether HELLO names a new signer that the list's signer has signed; then it is in `*out_key`. */
static bool succeeds(const kiln_key *key, const kiln_msg_hello *hello, kiln_key *out_key) {
    kiln_succession said;
    kiln_sign_public half;
    if (!key->has_public || hello->signer.size != sizeof half.byte ||
        is_half(hello->signer, &key->public_half) ||
        !is_half(hello->signer_before, &key->public_half) ||
        hello->signer_proof.size != sizeof said.proof.byte)
        return false;
    memcpy(half.byte, hello->signer.data, sizeof half.byte);
    memcpy(said.proof.byte, hello->signer_proof.data, sizeof said.proof.byte);
    said.before = key->public_half;
    if (!kiln_succession_is_right(&said, &half)) return false;
    out_key->has_public = out_key->has_before = true;
    out_key->public_half = half;
    out_key->succession = said;
    return true;
}

kiln_status kiln_key_rotation_check_signer(const kiln_key *key, const kiln_msg_hello *hello) {
    kiln_key next;
    if (!hello->signer.size || !key->has_public || is_half(hello->signer, &key->public_half) ||
        succeeds(key, hello, &next))
        return KILN_OK;
    return KILN_ERROR(PERMISSION_DENIED, "%s signs by another seed than its key file's", key->node);
}

/* HMAC with the present secret of a word, both nonces, numbers of 32 bits and the masked secret. */
static void hmac_of(const kiln_offer_terms *terms, kiln_str word, kiln_str rest,
                    kiln_digest *out_digest) {
    uint8_t number[8];
    for (uint32_t i = 0; i < 4; i++) {
        number[i] = (uint8_t)(terms->generation >> 8 * i);
        number[4 + i] = (uint8_t)(terms->last_day >> 8 * i);
    }
    const kiln_str part[] = {word,
                             {(const char *)terms->peer_nonce, KILN_NONCE_BYTES},
                             {(const char *)terms->tracker_nonce, KILN_NONCE_BYTES},
                             {(const char *)number, sizeof number},
                             rest};
    kiln_hmac_of_parts((kiln_str){(const char *)terms->secret, KILN_KEY_BYTES}, part,
                       KILN_ARRAY_COUNT(part), out_digest);
}

void kiln_offer_mask(const kiln_offer_terms *terms, const uint8_t secret[KILN_KEY_BYTES],
                     uint8_t out_masked[KILN_KEY_BYTES]) {
    static const char word[] = "kiln next key mask"; /* with its NUL */
    kiln_digest mask;
    _Static_assert(sizeof mask.byte == KILN_KEY_BYTES, "one mask for the whole secret");
    hmac_of(terms, (kiln_str){word, sizeof word}, (kiln_str){0}, &mask);
    for (uint32_t i = 0; i < KILN_KEY_BYTES; i++)
        out_masked[i] = (uint8_t)(secret[i] ^ mask.byte[i]);
    explicit_bzero(&mask, sizeof mask);
}

void kiln_offer_prove(const kiln_offer_terms *terms, const uint8_t masked[KILN_KEY_BYTES],
                      kiln_digest *out_proof) {
    static const char word[] = "kiln next key"; /* with its NUL */
    hmac_of(terms, (kiln_str){word, sizeof word}, (kiln_str){(const char *)masked, KILN_KEY_BYTES},
            out_proof);
}

/* `present` is the proven key, as in our list. */
static kiln_status offer_to_page(kiln_conn *conn, const kiln_key *present, const kiln_key *next) {
    uint8_t masked[KILN_KEY_BYTES];
    const kiln_offer_terms terms = {.secret = present->secret,
                                    .peer_nonce = conn->peer_nonce,
                                    .tracker_nonce = conn->tracker_nonce,
                                    .generation = next->generation,
                                    .last_day = next->last_day};
    kiln_message offer = {
        .type = KILN_MSG_KEY_OFFER,
        .key_offer = {.generation = next->generation,
                      .secret = {(const char *)masked, sizeof masked},
                      .last_day = next->last_day},
    };
    kiln_offer_mask(&terms, next->secret, masked);
    kiln_offer_prove(&terms, masked, &offer.key_offer.proof);
    return kiln_conn_put(conn, &offer);
}

static kiln_status offer_over_tls(kiln_conn *conn, const kiln_key *next) {
    const kiln_message offer = {
        .type = KILN_MSG_KEY_OFFER,
        .key_offer = {.generation = next->generation,
                      .secret = {(const char *)next->secret, sizeof next->secret},
                      .last_day = next->last_day},
    };
    return kiln_conn_put_secret(conn, &offer);
}

void kiln_key_rotation_offer(kiln_conn *conn) {
    if (conn->dialled || conn->state != KILN_CONN_OPEN || !kiln_conn_key(conn) ||
        conn->version < kiln_message_since(KILN_MSG_KEY_OFFER))
        return;
    const kiln_key *present = kiln_keyring_find(conn->listen.keyring, kiln_conn_key(conn));
    const kiln_key *next = present ? kiln_keyring_offer(conn->listen.keyring, present) : NULL;
    if (!next || next->generation == conn->offered) return;
    conn->offered = next->generation;
    kiln_status st = conn->tls ? offer_over_tls(conn, next) : offer_to_page(conn, present, next);
    if (st) kiln_conn_fail(conn, st);
}

void kiln_key_rotation_proven(kiln_conn *conn, const kiln_msg_hello *hello) {
    const kiln_key *key = kiln_keyring_find(conn->listen.keyring, kiln_conn_key(conn));
    kiln_key taken = {0};
    if (!key) return;
    const bool is_next = succeeds(key, hello, &taken);
    if (key->state != KILN_KEY_OFFERED && !is_next) return;
    taken.role = key->role;
    taken.generation = key->generation;
    memcpy(taken.node, key->node, sizeof taken.node);
    kiln_keyring_settle(conn->listen.keyring, &taken, KILN_KEY_IN_FORCE, "");
}

/* Commands of people use the new key when they run next; programs must connect again. */
static void on_taken(kiln_conn *conn, const kiln_msg_key_taken *taken) {
    const kiln_key *key = kiln_conn_key(conn);
    const bool stays = key->role != KILN_PEER_CLIENT && key->role != KILN_PEER_ADMIN;
    kiln_key next = {.role = key->role, .generation = taken->generation};
    memcpy(next.node, key->node, sizeof next.node);
    if (taken->generation != conn->offered || !conn->offered) return; /* it was not offered */
    if (taken->text.size) {
        char why[KILN_MESSAGES_NAME + 1] = "";
        memcpy(why, taken->text.data, taken->text.size);
        kiln_keyring_settle(conn->listen.keyring, &next, KILN_KEY_DECLINED, why);
    } else if (stays) {
        kiln_conn_fail_telling(conn, KILN_ERROR(UNAVAILABLE, "connect again with the new key"));
    }
}

/* ---- Dialling ---- */

/* The pool writes the file, as this may wait for the disk. */
typedef struct taking {
    kiln_conn_ref ref;
    kiln_key next;
    char path[KILN_KEY_PATH_MAX + 1];
    kiln_status status;
} taking;

static void write_file(void *context) {
    taking *t = context;
    t->status = kiln_key_take(t->path, &t->next);
}

static void say_taken(kiln_conn *conn, uint32_t generation, const char *why) {
    kiln_str text = kiln_str_slice(kiln_str_from(why), 0, KILN_MESSAGES_NAME);
    kiln_message taken = {.type = KILN_MSG_KEY_TAKEN,
                          .key_taken = {.generation = generation, .text = text}};
    kiln_status st = kiln_conn_send(conn, &taken);
    if (st) kiln_conn_fail(conn, st);
}

static void written(void *context) {
    taking *t = context;
    if (t->ref.conn) {
        t->ref.conn->key_taking = NULL;
        say_taken(t->ref.conn, t->next.generation, t->status ? kiln_status_text(t->status) : "");
    }
    kiln_status_free(t->status);
    explicit_bzero(t, sizeof *t);
    kiln_free(t);
}

static kiln_key key_of(const kiln_conn *conn, const kiln_msg_key_offer *offer) {
    kiln_key next = {.role = conn->credentials.key.role,
                     .generation = offer->generation,
                     .last_day = offer->last_day};
    memcpy(next.node, conn->credentials.key.node, sizeof next.node);
    memcpy(next.secret, offer->secret.data, sizeof next.secret);
    explicit_bzero((char *)(uintptr_t)offer->secret.data, offer->secret.size);
    return next;
}

static void take_at_once(kiln_conn *conn, kiln_key *next) {
    kiln_status st = conn->dial.take_key(conn->context, next);
    say_taken(conn, next->generation, st ? kiln_status_text(st) : "");
    kiln_status_free(st);
}

static void take_on_pool(kiln_conn *conn, const kiln_key *next) {
    taking *t = kiln_alloc(sizeof *t);
    t->ref.conn = conn;
    t->next = *next;
    memcpy(t->path, conn->credentials.key_path, sizeof t->path);
    conn->key_taking = &t->ref;
    kiln_loop_work(conn->loop, write_file, written, t);
}

static void on_offer(kiln_conn *conn, const kiln_msg_key_offer *offer) {
    if (!conn->tls || conn->key_taking || offer->generation == 0 ||
        offer->generation > KILN_KEY_GENERATION_MAX || offer->secret.size != KILN_KEY_BYTES)
        return;
    kiln_key next = key_of(conn, offer);
    if (conn->dial.take_key)
        take_at_once(conn, &next);
    else if (conn->credentials.key_path[0])
        take_on_pool(conn, &next);
    else
        say_taken(conn, offer->generation, "the path of its key file is too long");
    explicit_bzero(&next, sizeof next);
}

bool kiln_key_rotation_message(kiln_conn *conn, const kiln_message *message) {
    if (message->type == KILN_MSG_KEY_OFFER && conn->dialled)
        on_offer(conn, &message->key_offer);
    else if (message->type == KILN_MSG_KEY_TAKEN && !conn->dialled && kiln_conn_key(conn))
        on_taken(conn, &message->key_taken);
    else
        return message->type == KILN_MSG_KEY_OFFER || message->type == KILN_MSG_KEY_TAKEN;
    return true;
}
