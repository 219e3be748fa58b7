/* Public halves as text, for builds with and without OpenSSL. */
#include <string.h>

#include "base/hash.h"
#include "base/sign/sign.h"

_Static_assert(sizeof(kiln_sign_public) == sizeof(kiln_digest), "both are 32 bytes in hexadecimal");

void kiln_sign_public_print(const kiln_sign_public *half, char out_text[KILN_SIGN_PUBLIC_TEXT]) {
    kiln_digest bytes;
    memcpy(bytes.byte, half->byte, sizeof bytes.byte);
    kiln_digest_print(&bytes, out_text);
}

bool kiln_sign_public_parse(kiln_str text, kiln_sign_public *out_public) {
    kiln_digest bytes;
    if (!kiln_digest_parse(text, &bytes)) return false;
    memcpy(out_public->byte, bytes.byte, sizeof bytes.byte);
    return true;
}
