/* Replaces tls.c in a build without OpenSSL: such programs connect over Unix sockets, with the
 * token on loopback, or with --insecure. */
#include "base/check.h"
#include "proto/net/tls.h"

bool kiln_tls_supported(void) { return false; }

kiln_status kiln_tls_context_create(kiln_tls_context **out_context) {
    (void)out_context;
    return KILN_ERROR(UNIMPLEMENTED, "this program was built without TLS (meson option `tls`)");
}

void kiln_tls_context_destroy(kiln_tls_context *context) { KILN_CHECK(context == NULL); }

kiln_tls *kiln_tls_accept(kiln_tls_context *context, const kiln_keyring *ring) {
    (void)ring;
    KILN_CHECK(context != NULL);
    return NULL;
}

kiln_tls *kiln_tls_dial(kiln_tls_context *context, const kiln_key *key) {
    (void)key;
    KILN_CHECK(context != NULL);
    return NULL;
}

void kiln_tls_context_set_rekey(kiln_tls_context *context, uint64_t bytes, uint64_t ns) {
    (void)context, (void)bytes, (void)ns;
}

void kiln_tls_destroy(kiln_tls *tls) { KILN_CHECK(tls == NULL); }

kiln_status kiln_tls_begin(kiln_tls *tls, kiln_strbuf *out_wire) {
    (void)tls, (void)out_wire;
    return kiln_tls_context_create(NULL);
}

kiln_status kiln_tls_receive(kiln_tls *tls, kiln_str wire, kiln_strbuf *out_plain,
                             kiln_strbuf *out_wire) {
    (void)tls, (void)wire, (void)out_plain, (void)out_wire;
    return kiln_tls_context_create(NULL);
}

bool kiln_tls_ready(const kiln_tls *tls) { return tls != NULL; }

kiln_status kiln_tls_send(kiln_tls *tls, kiln_str plain, kiln_strbuf *out_wire) {
    (void)tls, (void)plain, (void)out_wire;
    return kiln_tls_context_create(NULL);
}

const kiln_key *kiln_tls_key(const kiln_tls *tls) {
    (void)tls;
    return NULL;
}

const char *kiln_tls_claim(const kiln_tls *tls) {
    (void)tls;
    return "";
}

bool kiln_tls_has_proven(const kiln_tls *tls, const kiln_key *key) {
    (void)tls, (void)key;
    return false;
}
