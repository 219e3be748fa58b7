/* 128-bit identities of nodes and of runs of a program, as text. */
#ifndef KILN_BASE_IDENTITY_H
#define KILN_BASE_IDENTITY_H

#include "base/hash.h"
#include "base/status.h"

/* A new one from the operating system. */
KILN_MUST_USE kiln_status kiln_identity_create(char out_text[KILN_HASH128_TEXT]);
/* The one that the file holds; a missing file is made (0600) with a new one, so that a node is the
 * same over restarts. DATA_LOSS: the file holds something else. */
KILN_MUST_USE kiln_status kiln_identity_load(const char *path, char out_text[KILN_HASH128_TEXT]);

#endif
