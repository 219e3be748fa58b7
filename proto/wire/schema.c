#include "proto/wire/schema.h"

#include <stddef.h>

#include "base/check.h"
#include "base/macros.h"

/* Words of messages.def. */
enum { OPTIONAL = false, REQUIRED = true };
enum {
    TRACKER = 1u << KILN_PEER_TRACKER,
    BOARD = 1u << KILN_PEER_BOARD,
    TUNER = 1u << KILN_PEER_TUNER,
    CLIENT = 1u << KILN_PEER_CLIENT,
    ADMIN = 1u << KILN_PEER_ADMIN,
    BUILDER = 1u << KILN_PEER_BUILDER,
    WEB = 1u << KILN_PEER_WEB,
    PEOPLE = CLIENT | ADMIN,
    WORKERS = BOARD | TUNER | CLIENT | ADMIN | BUILDER,
    PEERS = WORKERS | WEB,
};

/* Boards do not print documents. */
#ifdef KILN_STATIC
#define DOC(text) ""
#else
#define DOC(text) text
#endif

/* clang-format off */
#define RECORD(name, doc) static const kiln_field_info fields_of_##name[] = {
#define MESSAGE(id, number, name, from, to, since, doc) static const kiln_field_info fields_of_##name[] = {
#define FIELD(owner, key, kind, name, need, limit, doc) \
    {#name, DOC(doc), limit, offsetof(kiln_msg_##owner, name), KILN_RECORD_COUNT, KILN_FIELD_##kind, key, need},
#define NEST(owner, key, record, name, need, doc) \
    {#name, DOC(doc), 0, offsetof(kiln_msg_##owner, name), KILN_RECORD_##record, KILN_FIELD_nest, key, need},
#define LIST(owner, key, record, name, need, limit, doc) \
    {#name, DOC(doc), limit, offsetof(kiln_msg_##owner, name), KILN_RECORD_##record, KILN_FIELD_list, key, need},
#define END(name) };
#include "proto/messages.def"

static const kiln_schema record_table[] = {
#define RECORD(name, doc) \
    {#name, #name, DOC(doc), sizeof(kiln_msg_##name), fields_of_##name, KILN_ARRAY_COUNT(fields_of_##name), 0, 0, 0, 1},
#include "proto/messages.def"
};

static const kiln_schema message_table[] = {
#define MESSAGE(id, number, name, from, to, since, doc)                                                  \
    {#id, #name, DOC(doc), sizeof(kiln_msg_##name), fields_of_##name, KILN_ARRAY_COUNT(fields_of_##name),     \
     KILN_MSG_##id, from, to, since},
#include "proto/messages.def"
};

enum {
#define MESSAGE(id, number, name, from, to, since, doc) PLACE_##id,
#include "proto/messages.def"
};

/* In message_table, from 1; 0: there is no such message. */
static const uint8_t place_of[] = {
#define MESSAGE(id, number, name, from, to, since, doc) [number] = PLACE_##id + 1,
#include "proto/messages.def"
};
/* clang-format on */

_Static_assert(KILN_ARRAY_COUNT(record_table) == KILN_RECORD_COUNT, "one row per record");

const kiln_schema *kiln_schema_of_message(kiln_message_type type) {
    const bool is_one = (unsigned)type < KILN_ARRAY_COUNT(place_of) && place_of[type];
    return is_one ? &message_table[place_of[type] - 1] : NULL;
}

const kiln_schema *kiln_schema_of_record(kiln_record_type type) {
    KILN_CHECK((unsigned)type < KILN_RECORD_COUNT);
    return &record_table[type];
}

const char *kiln_message_name(kiln_message_type type) {
    const kiln_schema *schema = kiln_schema_of_message(type);
    return schema ? schema->id : NULL;
}

bool kiln_message_may_send(kiln_message_type type, kiln_peer_role role) {
    const kiln_schema *schema = kiln_schema_of_message(type);
    return schema && (schema->from >> role & 1u);
}

uint32_t kiln_message_since(kiln_message_type type) {
    const kiln_schema *schema = kiln_schema_of_message(type);
    KILN_CHECK(schema != NULL);
    return schema->since;
}

kiln_message_type kiln_message_next(kiln_message_type type) {
    if (type == 0) return message_table[0].type;
    const kiln_schema *schema = kiln_schema_of_message(type);
    KILN_CHECK(schema != NULL);
    size_t next = (size_t)(schema - message_table) + 1;
    return next < KILN_ARRAY_COUNT(message_table) ? message_table[next].type : (kiln_message_type)0;
}

void *kiln_message_struct(kiln_message *message) { return &message->hello; }

static bool is_empty(const kiln_schema *schema, const void *owner) {
    for (uint32_t i = 0; i < schema->field_count; i++)
        if (!kiln_field_is_empty(&schema->field[i], owner)) return false;
    return true;
}

bool kiln_field_is_empty(const kiln_field_info *field, const void *owner) {
    const void *at = (const char *)owner + field->offset;
    switch (field->kind) {
    case KILN_FIELD_flag: return !*(const bool *)at;
    case KILN_FIELD_u32: return *(const uint32_t *)at == 0;
    case KILN_FIELD_u64: return *(const uint64_t *)at == 0;
    case KILN_FIELD_f64: return *(const double *)at == 0;
    case KILN_FIELD_text:
    case KILN_FIELD_bytes: return ((const kiln_str *)at)->size == 0;
    case KILN_FIELD_digest: return kiln_digest_is_none(at);
    case KILN_FIELD_u64s: return ((const kiln_u64s *)at)->count == 0;
    case KILN_FIELD_nest: return is_empty(kiln_schema_of_record(field->record), at);
    case KILN_FIELD_list: return ((const kiln_any_list *)at)->count == 0;
    case KILN_FIELD_KIND_COUNT: break;
    }
    KILN_CHECK(field->kind != KILN_FIELD_KIND_COUNT);
    return true;
}

/* Names of the closed sets. */
static const char *name_at(const char *const *name, size_t count, size_t value) {
    KILN_CHECK(value < count);
    return name[value];
}
#define NAMES(function, type, set)                                     \
    const char *function(type value) {                                 \
        static const char *const name[] = {set(NAME_ROW)};             \
        return name_at(name, KILN_ARRAY_COUNT(name), (unsigned)value); \
    }
#define NAME_ROW(name, number, text) [number] = text,
NAMES(kiln_peer_role_name, kiln_peer_role, KILN_PEER_ROLES)
NAMES(kiln_phase_name, kiln_phase, KILN_PHASES)
NAMES(kiln_job_state_name, kiln_job_state, KILN_JOB_STATES)
NAMES(kiln_stop_name, kiln_stop, KILN_STOPS)
NAMES(kiln_board_service_name, kiln_board_service, KILN_BOARD_SERVICES)
NAMES(kiln_upgrade_act_name, kiln_upgrade_act, KILN_UPGRADE_ACTS)
NAMES(kiln_upgrade_state_name, kiln_upgrade_state, KILN_UPGRADE_STATES)
NAMES(kiln_upgrade_stage_name, kiln_upgrade_stage, KILN_UPGRADE_STAGES)
NAMES(kiln_upgrade_step_name, kiln_upgrade_step, KILN_UPGRADE_STEPS)
NAMES(kiln_upgrade_report_name, kiln_upgrade_report, KILN_UPGRADE_REPORTS)
NAMES(kiln_rest_name, kiln_rest, KILN_RESTS)
NAMES(kiln_member_name, kiln_member, KILN_MEMBERS)

static const struct {
    const char *name;
    uint64_t max;
} setting_table[KILN_SETTING_COUNT] = {
#define X(NAME, name, right, unit, max, text) [KILN_SETTING_##NAME] = {name, max},
#include "proto/settings.def"
#undef X
};

const char *kiln_setting_name(kiln_setting setting) { return setting_table[setting].name; }
uint64_t kiln_setting_max(kiln_setting setting) { return setting_table[setting].max; }

#define FIND(function, type, count, name_of)         \
    bool function(kiln_str name, type *out_value) {  \
        for (type value = 0; value < count; value++) \
            if (kiln_str_is(name, name_of(value))) { \
                *out_value = value;                  \
                return true;                         \
            }                                        \
        return false;                                \
    }
FIND(kiln_peer_role_find, kiln_peer_role, KILN_PEER_COUNT, kiln_peer_role_name)
FIND(kiln_member_find, kiln_member, KILN_MEMBER_COUNT, kiln_member_name)
FIND(kiln_setting_find, kiln_setting, KILN_SETTING_COUNT, kiln_setting_name)

bool kiln_peer_is_person(kiln_peer_role role) {
    return role == KILN_PEER_CLIENT || role == KILN_PEER_ADMIN;
}
