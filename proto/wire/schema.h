/* messages.def as data, for codec, printer and docs. Private to proto/wire and its tests. */
#ifndef KILN_PROTO_WIRE_SCHEMA_H
#define KILN_PROTO_WIRE_SCHEMA_H

#include "proto/proto.h"

typedef enum kiln_field_kind {
    KILN_FIELD_flag,
    KILN_FIELD_u32,
    KILN_FIELD_u64,
    KILN_FIELD_f64,
    KILN_FIELD_text,
    KILN_FIELD_bytes,
    KILN_FIELD_digest,
    KILN_FIELD_u64s,
    KILN_FIELD_nest,
    KILN_FIELD_list,
    KILN_FIELD_KIND_COUNT
} kiln_field_kind;

#define KILN_FIELD_KEY_MAX 63u /* so that a key is a bit of the decoder's set */

typedef struct kiln_field_info {
    const char *name, *doc; /* `doc` is empty on boards */
    uint64_t limit;
    uint32_t offset;         /* in the struct */
    kiln_record_type record; /* nest and list: of what */
    kiln_field_kind kind;
    uint16_t key;
    bool required;
} kiln_field_info;

typedef struct kiln_schema {
    const char *id;   /* "TRIAL"; for records the same as name */
    const char *name; /* "trial" */
    const char *doc;
    size_t size; /* of the struct */
    const kiln_field_info *field;
    uint32_t field_count;
    kiln_message_type type; /* 0 for records */
    unsigned from, to;      /* sets of 1 << kiln_peer_role */
    unsigned since;
} kiln_schema;

/* The layout of every list member of a message struct. */
typedef struct kiln_any_list {
    void *item;
    uint32_t count;
} kiln_any_list;

/* NULL for an unknown type. */
const kiln_schema *kiln_schema_of_message(kiln_message_type type);
const kiln_schema *kiln_schema_of_record(kiln_record_type type);
/* The struct inside a message: every member of its union starts there. */
void *kiln_message_struct(kiln_message *message);
/* Whether a field holds zero or nothing, so that an optional one need not be sent. */
bool kiln_field_is_empty(const kiln_field_info *field, const void *owner);

#endif
