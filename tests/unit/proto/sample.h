/* Messages made from the table, so that every test covers every message, also those of tomorrow. */
#ifndef KILN_TESTS_PROTO_SAMPLE_H
#define KILN_TESTS_PROTO_SAMPLE_H

#include "proto/wire/schema.h"

typedef enum sample_size {
    SAMPLE_EMPTY, /* all zero */
    SAMPLE_SMALL, /* every field set, different values, lists of two */
    SAMPLE_FULL,  /* every field at its limit */
} sample_size;

/* A message whose parts live in `arena`. */
kiln_message sample_message(kiln_message_type type, sample_size size, kiln_arena *arena);
void sample_fill(const kiln_schema *schema, void *owner, sample_size size, kiln_arena *arena);

#endif
