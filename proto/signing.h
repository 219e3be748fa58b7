/* The key with which a program signs what it stores: the seed in its node's key file, or, without
 * one, this user's own in HOME/signing.key, made at first use. For the tuner's records and the
 * command line's tombstones. */
#ifndef KILN_PROTO_SIGNING_H
#define KILN_PROTO_SIGNING_H

#include "base/sign/sign.h"

typedef struct kiln_signing {
    kiln_signer *signer; /* NULL in a build without signatures; the caller destroys it */
    bool has_before;     /* the key was rotated: the signer before names this one */
    kiln_succession succession;
} kiln_signing;

/* `key_file` NULL: HOME/key, where there is one.
 * PERMISSION_DENIED    others can read signing.key
 * DATA_LOSS            signing.key holds no seed */
KILN_MUST_USE kiln_status kiln_signing_load(const char *home, const char *key_file,
                                            kiln_signing *out_signing);

#endif
