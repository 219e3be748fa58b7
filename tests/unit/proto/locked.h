/* A pair whose listener goes by a key file. */
#ifndef KILN_TESTS_PROTO_LOCKED_H
#define KILN_TESTS_PROTO_LOCKED_H

#include "tests/unit/proto/pair.h"

typedef struct locked {
    pair p;
    char *folder, *path;
    kiln_keyring *ring;
    kiln_keys keys; /* that the file holds */
} locked;

/* The dialling end has a key, "tuner/tuna/1". Skips the test where TLS is not built in. */
void locked_init(locked *l, kiln_arena *arena);
void locked_deinit(locked *l);
/* Puts the next generation of that node into the file, its secret all of this byte. */
const kiln_key *locked_add_key(locked *l, const char *text, uint8_t fill);
/* What the dialling end shows next. */
void locked_show(locked *l, const kiln_key *key);

#endif
