/* Statements about archives of releases, as files beside them (docs/reference/release.md):
 * ARCHIVE.release. For `kiln key sign-release` and `kiln key check-release`. */
#ifndef KILN_CLI_RELEASE_H
#define KILN_CLI_RELEASE_H

#include "base/arena.h"
#include "base/sign/release.h"

#define KILN_RELEASE_SUFFIX ".release"

/* Signs the archive `path`, whose file name is NAME-VERSION-ARCH.tar.zst, and writes the statement
 * beside it, over an older one.
 * INVALID_ARGUMENT: another file name, an archive that is too large. Errors of files and of
 * kiln_sign. */
KILN_MUST_USE kiln_status kiln_release_file_sign(const char *path, kiln_signer *signer,
                                                 kiln_arena *process);
/* Checks the archive `path` by the statement beside it and a file of release keys.
 * PERMISSION_DENIED  signed by none of these keys, or wrongly
 * DATA_LOSS          the archive is not the one that was signed
 * Errors of files and of kiln_release_check. */
KILN_MUST_USE kiln_status kiln_release_file_check(const char *path, const char *keys,
                                                  kiln_arena *process, kiln_release *out_release);

#endif
