/* Signatures of modules (deploy/format.h has the block): `kiln key sign` writes them, `kiln run
 * --trust` and `kiln inspect` check them. The runtime does not look at them, so that it needs no
 * cryptography (docs/decisions/0112-signed-modules.md). */
#ifndef KILN_CLI_MODULE_TRUST_H
#define KILN_CLI_MODULE_TRUST_H

#include "base/opt.h"
#include "base/sign/sign.h"
#include "base/status.h"
#include "base/str.h"

typedef enum kiln_module_signed_state {
    KILN_MODULE_UNSIGNED,
    KILN_MODULE_SIGNED,           /* by `signer`, and nothing was changed since */
    KILN_MODULE_SIGNED_WRONG,     /* `signer` did not sign these bytes */
    KILN_MODULE_SIGNED_UNCHECKED, /* this build has no OpenSSL */
} kiln_module_signed_state;

typedef struct kiln_module_signed {
    kiln_module_signed_state state;
    kiln_sign_public half;
    char signer[KILN_SIGN_PUBLIC_TEXT]; /* the public half; "" without a signature */
} kiln_module_signed;

/* The signature of a module's file. DATA_LOSS: its block is damaged. */
KILN_MUST_USE kiln_status kiln_module_signed_read(kiln_str file, kiln_module_signed *out_signed);

/* Signs the module at `path` in place, in one step; a signature that it has is replaced.
 * DATA_LOSS: it is no whole module. Errors of kiln_sign and of files. */
KILN_MUST_USE kiln_status kiln_module_sign(const char *path, kiln_signer *signer);

/* --trust WHO...: a public half in hexadecimal digits, a file with some, or a signer that the
 * database of records ($KILN_HOME/kiln.db) trusts by that name. */
extern const char kiln_trust_help[];

/* Whether one of `trust` has signed these bytes.
 * NOT_FOUND          nobody has that name, or a file holds no public half
 * PERMISSION_DENIED  no signature, that of somebody else, or a wrong one; a signer that is refused
 * UNIMPLEMENTED      this build has no OpenSSL */
KILN_MUST_USE kiln_status kiln_module_check_trust(kiln_str file, const kiln_opt_list *trust,
                                                  kiln_arena *process);
/* Reads a module into memory of `process`, aligned as kiln_module_open_memory wants it, and checks
 * it there. Errors as above, and of files. */
KILN_MUST_USE kiln_status kiln_module_read_trusted(const char *path, const kiln_opt_list *trust,
                                                   kiln_arena *process, kiln_str *out_bytes);

#endif
