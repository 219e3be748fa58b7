/* Takes one program out of the archive of a release (docs/reference/release.md). The archive's hash
 * and the statement about it were checked before. For rpc-server/launcher.c. */
#ifndef KILN_RPC_SERVER_RELEASE_ARCHIVE_H
#define KILN_RPC_SERVER_RELEASE_ARCHIVE_H

#include "base/sign/release.h"

#define KILN_RELEASE_UNPACKED_MAX ((uint64_t)1 << 30) /* bytes of all members */
#define KILN_RELEASE_MANIFEST_MAX ((size_t)64 * 1024u)

/* Writes the member `name` ("bin/kiln-rpc-server") of the archive at the position of `archive_fd`
 * to `out_fd`, and compares it with the manifest.
 * NOT_FOUND           the archive has no such member
 * INVALID_ARGUMENT    it is no such archive, or its manifest is of another release
 * DATA_LOSS           it is damaged, or the member is not what the manifest says
 * RESOURCE_EXHAUSTED  no space left
 * Errors of kiln_inflate. */
KILN_MUST_USE kiln_status kiln_release_unpack(int archive_fd, const kiln_release *release,
                                              const char *name, int out_fd);

#endif
