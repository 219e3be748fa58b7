/* Texts that only this server can make and read: encrypted and authenticated (AES-256-GCM), in
 * base64url. For the cookies of web/session.h. */
#ifndef KILN_WEB_SEAL_H
#define KILN_WEB_SEAL_H

#include "base/hash.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_SEALED_BYTES_MAX ((size_t)1024) /* of a sealed text, and of what is in it */

/* Appends the sealed text of `content` to `out`. INTERNAL, RESOURCE_EXHAUSTED: no random bytes, or
 * the library fails. OUT_OF_RANGE: too long. */
KILN_MUST_USE kiln_status kiln_seal(const kiln_digest *key, kiln_str content, kiln_strbuf *out);
/* Appends what was sealed with that key to `out`, which stays as it is otherwise. False: this text
 * was not made by kiln_seal with the key. */
bool kiln_unseal(const kiln_digest *key, kiln_str sealed, kiln_strbuf *out);

#endif
