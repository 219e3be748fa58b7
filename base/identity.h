/* 128-bit identities of nodes and of runs of a program, as text; and finding the one that a person
 * means by its beginning. */
#ifndef KILN_BASE_IDENTITY_H
#define KILN_BASE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/str.h"

/* Makes a new identity from the operating system's random numbers. */
KILN_MUST_USE kiln_status kiln_identity_create(char out_text[KILN_HASH128_TEXT]);
/* Reads the identity in the file, or creates the file (0600) with a new one, so that a node keeps
 * its identity over restarts. DATA_LOSS: the file holds something else. */
KILN_MUST_USE kiln_status kiln_identity_load(const char *path, char out_text[KILN_HASH128_TEXT]);

#define KILN_IDENTITY_PREFIX_MIN 4 /* characters, as git wants of a commit */
#define KILN_IDENTITIES_SHOWN 8    /* that the error about several lists */

/* What a person typed for a board, job, record, task, ...: an identity, a name, or the beginning of
 * one. In use:
 *
 *     kiln_identity_search search = {.typed = typed, .arena = arena};
 *     for (...) kiln_identity_try(&search, id, name);
 *     st = kiln_identity_found(&search, "board", &id); */
typedef struct kiln_identity_search {
    kiln_str typed;
    kiln_arena *arena;
    bool is_exact; /* those below are what was typed, not only begun by it */
    uint32_t count;
    kiln_str id[KILN_IDENTITIES_SHOWN + 1], name[KILN_IDENTITIES_SHOWN + 1]; /* different ones */
} kiln_identity_search;

/* `name`: another word for it; empty: there is none. */
void kiln_identity_try(kiln_identity_search *search, kiln_str id, kiln_str name);
/* The identity that was typed, else the only one that begins with it. NOT_FOUND; INVALID_ARGUMENT:
 * several, which the text lists. `what` is for errors: "board". */
KILN_MUST_USE kiln_status kiln_identity_found(const kiln_identity_search *search, const char *what,
                                              kiln_str *out_id);

#endif
