/* TLS 1.3 by OpenSSL; see tls.h and docs/decisions/0007-tls-with-shared-keys.md. */
#include "proto/net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/rand.h"
#include "proto/net/keyring.h"

#define RECORD_HEAD 5u
#define RECORD_MAX ((size_t)16384)
#define HANDSHAKE_RECORD KILN_TLS_FIRST_BYTE
/* Both hash with SHA-256, which a key is bound to; the second is for boards without AES. */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

static const unsigned char key_cipher[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

struct kiln_tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *method;
    uint8_t decoy[KILN_KEY_BYTES]; /* secret of unknown keys */
    uint64_t rekey_bytes, rekey_ns;
};

struct kiln_tls {
    const kiln_tls_context *context;
    SSL *ssl;
    const kiln_keyring *ring; /* NULL: we dialled */
    bool ready, has_key;
    uint64_t bytes, since_ns;  /* of the traffic keys: carried so far, and since when they are */
    kiln_key key;              /* its secret only until it is proven */
    kiln_digest secret_digest; /* from then on */
    char claim[KILN_KEY_NAME_BYTES];
    kiln_str input;      /* of the call under way */
    kiln_strbuf *output; /* of the call under way */
    kiln_strbuf held;    /* a partial record, before the peer is known */
};

bool kiln_tls_supported(void) { return true; }

/* ---- The caller's buffers as OpenSSL's ---- */

static int bio_read(BIO *bio, char *out, size_t size, size_t *out_got) {
    kiln_tls *tls = BIO_get_data(bio);
    size_t got = KILN_MIN(size, tls->input.size);
    BIO_clear_retry_flags(bio);
    *out_got = got;
    if (got == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(out, tls->input.data, got);
    tls->input = kiln_str_slice(tls->input, got, tls->input.size);
    return 1;
}

static int bio_write(BIO *bio, const char *data, size_t size, size_t *out_taken) {
    kiln_tls *tls = BIO_get_data(bio);
    kiln_strbuf_append(tls->output, data, size);
    *out_taken = size;
    return 1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

/* ---- Keys ---- */

/* To OpenSSL a pre-shared key is a session that both sides remember. */
static SSL_SESSION *session_of(SSL *ssl, const uint8_t secret[KILN_KEY_BYTES]) {
    SSL_SESSION *session = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, key_cipher);
    if (session && cipher && SSL_SESSION_set1_master_key(session, secret, KILN_KEY_BYTES) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* The dialling side shows its key. `digest` is set when only that hash is allowed. */
static int show_key(SSL *ssl, const EVP_MD *digest, const unsigned char **out_name,
                    size_t *out_size, SSL_SESSION **out_session) {
    kiln_tls *tls = SSL_get_app_data(ssl);
    *out_session = NULL;
    if (digest && EVP_MD_get_type(digest) != NID_sha256) return 1;
    *out_name = (const unsigned char *)tls->claim;
    *out_size = strlen(tls->claim);
    *out_session = session_of(ssl, tls->key.secret);
    return *out_session != NULL;
}

/* The listening side looks up the key. An unknown name gets a random secret: the handshake then
 * fails as with a wrong secret, and a stranger does not learn which names exist. */
static int find_key(SSL *ssl, const unsigned char *name, size_t size, SSL_SESSION **out_session) {
    kiln_tls *tls = SSL_get_app_data(ssl);
    kiln_key claimed;
    *out_session = NULL;
    kiln_str text = kiln_str_slice((kiln_str){(const char *)name, size}, 0, sizeof tls->claim - 1);
    memset(tls->claim, 0, sizeof tls->claim);
    for (size_t i = 0; i < text.size; i++)
        tls->claim[i] = text.data[i] > ' ' && text.data[i] < 0x7f ? text.data[i] : '?';
    kiln_status st = kiln_key_name_parse((kiln_str){(const char *)name, size}, &claimed);
    const kiln_key *key = st ? NULL : kiln_keyring_find(tls->ring, &claimed);
    kiln_status_free(st); /* an invalid name is an unknown key */
    tls->has_key = key != NULL;
    if (key) tls->key = *key;
    *out_session = session_of(ssl, key ? key->secret : tls->context->decoy);
    return *out_session != NULL;
}

/* ---- Set-up ---- */

static bool set_up(kiln_tls_context *context) {
    SSL_CTX *ssl = context->ssl = SSL_CTX_new(TLS_method());
    context->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "kiln");
    if (!ssl || !context->method) return false;
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_quiet_shutdown(ssl, 1);
    SSL_CTX_set_psk_use_session_callback(ssl, show_key);
    SSL_CTX_set_psk_find_session_callback(ssl, find_key);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_ciphersuites(ssl, CIPHERS) && SSL_CTX_set_num_tickets(ssl, 0) &&
           SSL_CTX_set1_groups_list(ssl, "X25519:P-256") &&
           BIO_meth_set_read_ex(context->method, bio_read) &&
           BIO_meth_set_write_ex(context->method, bio_write) &&
           BIO_meth_set_ctrl(context->method, bio_ctrl);
}

kiln_status kiln_tls_context_create(kiln_tls_context **out_context) {
    kiln_tls_context *context = kiln_alloc(sizeof *context);
    kiln_status st = kiln_rand_system(context->decoy, sizeof context->decoy);
    if (!st && !set_up(context)) st = KILN_ERROR(RESOURCE_EXHAUSTED, "OpenSSL could not be set up");
    if (st) {
        kiln_tls_context_destroy(context);
        ERR_clear_error();
        return st;
    }
    kiln_tls_context_set_rekey(context, KILN_TLS_REKEY_BYTES, KILN_TLS_REKEY_NS);
    *out_context = context;
    return KILN_OK;
}

void kiln_tls_context_destroy(kiln_tls_context *context) {
    if (!context) return;
    SSL_CTX_free(context->ssl);
    BIO_meth_free(context->method);
    kiln_free(context);
}

void kiln_tls_context_set_rekey(kiln_tls_context *context, uint64_t bytes, uint64_t ns) {
    context->rekey_bytes = bytes;
    context->rekey_ns = ns;
}

static kiln_tls *make(kiln_tls_context *context) {
    kiln_tls *tls = kiln_alloc(sizeof *tls);
    tls->context = context;
    BIO *bio = BIO_new(context->method);
    tls->ssl = SSL_new(context->ssl);
    KILN_CHECK(tls->ssl != NULL && bio != NULL); /* memory: docs/decisions/0002 */
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_app_data(tls->ssl, tls);
    return tls;
}

kiln_tls *kiln_tls_accept(kiln_tls_context *context, const kiln_keyring *ring) {
    kiln_tls *tls = make(context);
    tls->ring = ring;
    SSL_set_accept_state(tls->ssl);
    return tls;
}

kiln_tls *kiln_tls_dial(kiln_tls_context *context, const kiln_key *key) {
    kiln_tls *tls = make(context);
    tls->key = *key;
    tls->has_key = true;
    kiln_key_name_print(key, tls->claim);
    SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL); /* no certificate is accepted */
    SSL_set_connect_state(tls->ssl);
    return tls;
}

void kiln_tls_destroy(kiln_tls *tls) {
    if (!tls) return;
    SSL_free(tls->ssl);
    kiln_strbuf_deinit(&tls->held);
    explicit_bzero(tls, sizeof *tls);
    kiln_free(tls);
}

bool kiln_tls_ready(const kiln_tls *tls) { return tls->ready; }

const kiln_key *kiln_tls_key(const kiln_tls *tls) { return tls->has_key ? &tls->key : NULL; }

const char *kiln_tls_claim(const kiln_tls *tls) { return tls->claim; }

/* ---- The handshake ---- */

/* Why the claimed key is refused. */
static kiln_status refusal(const kiln_tls *tls) {
    kiln_key name;
    kiln_status st = kiln_key_name_parse(kiln_str_from(tls->claim), &name);
    if (!st) return kiln_keyring_refusal(tls->ring, &name);
    kiln_status_free(st); /* it is no name */
    return KILN_ERROR(UNAUTHENTICATED, "no key of ours: '%s'", tls->claim);
}

/* Why the last call failed. Clears OpenSSL's list of errors. */
static kiln_status tls_error(const kiln_tls *tls) {
    unsigned long error = ERR_peek_last_error();
    int reason = ERR_GET_REASON(error);
    const char *text = error ? ERR_reason_error_string(error) : "the connection broke off";
    kiln_status st = NULL;
    bool dialling = !tls->ready && !tls->ring, accepting = !tls->ready && tls->ring;
    if (dialling && reason >= SSL_AD_REASON_OFFSET) /* an alert of the tracker */
        st = KILN_ERROR(UNAUTHENTICATED,
                        "the tracker does not accept the key %s: it was revoked or replaced, or is "
                        "another tracker's",
                        tls->claim);
    else if (accepting && !tls->has_key)
        st = refusal(tls);
    else if (accepting && reason == SSL_R_BINDER_DOES_NOT_VERIFY)
        st = KILN_ERROR(UNAUTHENTICATED, "a wrong secret for the key %s", tls->claim);
    else
        st = KILN_ERROR(DATA_LOSS, "TLS: %s", text ? text : "unknown error");
    ERR_clear_error();
    return st;
}

bool kiln_tls_has_proven(const kiln_tls *tls, const kiln_key *key) {
    kiln_digest digest;
    kiln_digest_of(key->secret, sizeof key->secret, &digest);
    return kiln_digest_equal_secret(&digest, &tls->secret_digest);
}

/* Also wipes the secret in OpenSSL's session. */
static void keep_digest_only(kiln_tls *tls) {
    kiln_digest_of(tls->key.secret, sizeof tls->key.secret, &tls->secret_digest);
    explicit_bzero(tls->key.secret, sizeof tls->key.secret);
    (void)SSL_SESSION_set1_master_key(SSL_get_session(tls->ssl), tls->key.secret, KILN_KEY_BYTES);
}

static kiln_status continue_handshake(kiln_tls *tls) {
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1)
        return SSL_get_error(tls->ssl, result) == SSL_ERROR_WANT_READ ? KILN_OK : tls_error(tls);
    /* Without this check any tracker with a certificate would be accepted. */
    if (!SSL_session_reused(tls->ssl) || !tls->has_key)
        return KILN_ERROR(UNAUTHENTICATED, "the peer has proven no key");
    tls->ready = true;
    keep_digest_only(tls);
    tls->since_ns = kiln_clock_ns();
    kiln_strbuf_deinit(&tls->held);
    return KILN_OK;
}

/* Before a peer is known OpenSSL gets only complete records of bounded size, each with one complete
 * message: it would allocate the size that a message claims to have (128 KiB). */
static kiln_status check_record(kiln_str record) {
    const uint8_t *byte = (const uint8_t *)record.data;
    if (byte[0] != HANDSHAKE_RECORD)
        return KILN_OK; /* encrypted, or an alert: has no such length */
    if (record.size >= RECORD_HEAD + 4) {
        size_t claimed = (size_t)byte[6] << 16 | (size_t)byte[7] << 8 | byte[8];
        if (claimed + RECORD_HEAD + 4 == record.size) return KILN_OK;
    }
    return KILN_ERROR(DATA_LOSS, "TLS: a handshake in pieces");
}

/* Bytes of the record whose head is held. */
static kiln_status record_size(const kiln_tls *tls, size_t *out_size) {
    const uint8_t *byte = (const uint8_t *)tls->held.data;
    if (byte[0] == (KILN_FRAME_MAGIC & 0xff))
        return KILN_ERROR(UNAUTHENTICATED,
                          "the tracker there knows no keys; it is started with --keys for that");
    *out_size = RECORD_HEAD + ((size_t)byte[3] << 8 | byte[4]);
    return *out_size <= KILN_TLS_HELLO_MAX
               ? KILN_OK
               : KILN_ERROR(DATA_LOSS, "TLS: a record of %zu bytes before the key", *out_size);
}

/* Moves input into the held record. True when that is complete. */
static bool take(kiln_tls *tls, kiln_str *wire, size_t size) {
    size_t taken = KILN_MIN(size - tls->held.size, wire->size);
    kiln_strbuf_append(&tls->held, wire->data, taken);
    *wire = kiln_str_slice(*wire, taken, wire->size);
    return tls->held.size == size;
}

static kiln_status feed_whole_records(kiln_tls *tls, kiln_str wire) {
    kiln_status st = KILN_OK;
    while (!st && wire.size && !tls->ready) {
        size_t size = RECORD_HEAD;
        bool whole = tls->held.size >= RECORD_HEAD || take(tls, &wire, size);
        if (whole) st = record_size(tls, &size);
        if (st || !whole || !take(tls, &wire, size)) continue;
        st = check_record(kiln_strbuf_view(&tls->held));
        tls->input = kiln_strbuf_view(&tls->held);
        if (!st) st = continue_handshake(tls);
        kiln_strbuf_reset(&tls->held);
    }
    tls->input = wire; /* bytes after the handshake */
    return st;
}

kiln_status kiln_tls_begin(kiln_tls *tls, kiln_strbuf *out_wire) {
    tls->input = (kiln_str){0};
    tls->output = out_wire;
    return continue_handshake(tls);
}

/* ---- Data ---- */

static kiln_status read_all(kiln_tls *tls, kiln_strbuf *out_plain) {
    char piece[RECORD_MAX];
    size_t got = 0;
    ERR_clear_error();
    while (SSL_read_ex(tls->ssl, piece, sizeof piece, &got))
        kiln_strbuf_append(out_plain, piece, got);
    int error = SSL_get_error(tls->ssl, 0);
    if (error == SSL_ERROR_WANT_READ) return KILN_OK;
    if (error == SSL_ERROR_ZERO_RETURN) return KILN_ERROR(UNAVAILABLE, "the peer closed");
    return tls_error(tls);
}

kiln_status kiln_tls_receive(kiln_tls *tls, kiln_str wire, kiln_strbuf *out_plain,
                             kiln_strbuf *out_wire) {
    kiln_status st = KILN_OK;
    tls->output = out_wire;
    tls->input = wire;
    if (!tls->ready) st = feed_whole_records(tls, wire);
    if (!st && tls->ready) st = read_all(tls, out_plain);
    tls->bytes += wire.size;
    return st;
}

/* The peer renews its own when it next sends. */
static bool renew_keys(kiln_tls *tls, size_t bytes) {
    const uint64_t now_ns = kiln_clock_ns();
    tls->bytes += bytes;
    if (tls->bytes < tls->context->rekey_bytes && now_ns - tls->since_ns < tls->context->rekey_ns)
        return true;
    tls->bytes = 0;
    tls->since_ns = now_ns;
    return SSL_key_update(tls->ssl, SSL_KEY_UPDATE_REQUESTED) == 1;
}

kiln_status kiln_tls_send(kiln_tls *tls, kiln_str plain, kiln_strbuf *out_wire) {
    size_t sent = 0;
    KILN_CHECK(tls->ready);
    tls->input = (kiln_str){0};
    tls->output = out_wire;
    ERR_clear_error();
    return renew_keys(tls, plain.size) && SSL_write_ex(tls->ssl, plain.data, plain.size, &sent)
               ? KILN_OK
               : tls_error(tls);
}
