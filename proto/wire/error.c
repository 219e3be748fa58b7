/* Errors as messages, and the version of two peers. */
#include "base/check.h"
#include "proto/proto.h"

/* The usual blame of each code, and after how long the same request may succeed (0: never). */
typedef struct error_kind {
    kiln_code code;
    kiln_blame blame;
    uint32_t retry_after_ms;
} error_kind;

static const error_kind kind_table[] = {
    {KILN_OK, KILN_BLAME_NONE, 0},
    {KILN_CANCELLED, KILN_BLAME_CLIENT, 0},
    {KILN_INTERNAL, KILN_BLAME_INFRA, 0},
    {KILN_INVALID_ARGUMENT, KILN_BLAME_CLIENT, 0},
    {KILN_DEADLINE_EXCEEDED, KILN_BLAME_INFRA, 1000},
    {KILN_NOT_FOUND, KILN_BLAME_CLIENT, 0},
    {KILN_ALREADY_EXISTS, KILN_BLAME_CLIENT, 0},
    {KILN_PERMISSION_DENIED, KILN_BLAME_CLIENT, 0},
    {KILN_RESOURCE_EXHAUSTED, KILN_BLAME_INFRA, 5000},
    {KILN_FAILED_PRECONDITION, KILN_BLAME_CLIENT, 0},
    {KILN_ABORTED, KILN_BLAME_INFRA, 100},
    {KILN_OUT_OF_RANGE, KILN_BLAME_CLIENT, 0},
    {KILN_UNIMPLEMENTED, KILN_BLAME_CLIENT, 0},
    {KILN_UNAVAILABLE, KILN_BLAME_INFRA, 1000},
    {KILN_DATA_LOSS, KILN_BLAME_INFRA, 0},
    {KILN_UNAUTHENTICATED, KILN_BLAME_CLIENT, 0},
    {KILN_ILLEGAL_SCHEDULE, KILN_BLAME_CANDIDATE, 0},
};

/* For a peer's unknown code that of OK, without blame. */
static const error_kind *kind_of(kiln_code code) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(kind_table); i++)
        if (kind_table[i].code == code) return &kind_table[i];
    return &kind_table[0];
}

kiln_message kiln_message_error(kiln_code code, uint32_t stream, const char *text) {
    const error_kind *kind = kind_of(code);
    kiln_str view = kiln_str_slice(kiln_str_from(text), 0, KILN_MESSAGES_PROSE);
    return (kiln_message){.type = KILN_MSG_ERROR,
                          .stream = stream,
                          .error = {.code = (uint32_t)code,
                                    .text = view,
                                    .blame = kind->blame,
                                    .retry_after_ms = kind->retry_after_ms}};
}

kiln_message kiln_message_from_status(kiln_status status, uint32_t stream) {
    KILN_CHECK(status != NULL);
    return kiln_message_error(kiln_status_code(status), stream, kiln_status_text(status));
}

kiln_status kiln_status_from_error(const kiln_msg_error *error) {
    kiln_code code = KILN_INTERNAL;
    if (!kiln_code_from_wire(error->code, &code) || code == KILN_OK) code = KILN_INTERNAL;
    return kiln_status_make(code, __FILE__, __LINE__, "%.*s", KILN_STR_ARG(error->text));
}

kiln_status kiln_version_agree(uint32_t peer_min, uint32_t peer_max, uint32_t *out_version) {
    uint32_t newest = KILN_MIN(peer_max, KILN_PROTO_VERSION_MAX);
    if (peer_min <= newest && newest >= KILN_PROTO_VERSION_MIN) {
        *out_version = newest;
        return KILN_OK;
    }
    return KILN_ERROR(FAILED_PRECONDITION,
                      "the peer speaks protocol %u to %u, we speak %u to %u; upgrade %s", peer_min,
                      peer_max, KILN_PROTO_VERSION_MIN, KILN_PROTO_VERSION_MAX,
                      peer_max < KILN_PROTO_VERSION_MIN ? "the peer" : "this side");
}
