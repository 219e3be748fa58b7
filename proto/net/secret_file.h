/* Files with secrets of this user: written 0600, refused where others can read them. */
#ifndef KILN_PROTO_NET_SECRET_FILE_H
#define KILN_PROTO_NET_SECRET_FILE_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/str.h"

/* Reads text into `arena`; the caller wipes it. PERMISSION_DENIED also: others can read the file.
 */
KILN_MUST_USE kiln_status kiln_secret_file_read(const char *path, size_t bytes_max,
                                                kiln_arena *arena, kiln_str *out_text);

/* A file with 32 random bytes as hexadecimal digits behind `head`; the caller wipes the bytes. */
KILN_MUST_USE kiln_status kiln_secret_create(const char *path, const char *head,
                                             kiln_digest *out_secret);
/* DATA_LOSS: the file holds something else; the error is "PATH `why`". */
KILN_MUST_USE kiln_status kiln_secret_load(const char *path, const char *head, const char *why,
                                           kiln_digest *out_secret);

#endif
