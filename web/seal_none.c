/* web/seal.h in builds without OpenSSL: there are no cookies, and requests carry tokens. */
#include "web/seal.h"

kiln_status kiln_seal(const kiln_digest *key, kiln_str content, kiln_strbuf *out) {
    (void)key, (void)content, (void)out;
    return KILN_ERROR(UNIMPLEMENTED,
                      "this kiln-web was built without OpenSSL, so it has no sessions; send the "
                      "token with each request (Authorization: Bearer TOKEN)");
}

bool kiln_unseal(const kiln_digest *key, kiln_str sealed, kiln_strbuf *out) {
    (void)key, (void)sealed, (void)out;
    return false;
}
