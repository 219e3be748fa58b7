/* Front header of proto/wire: the messages between Kiln's programs, as structs and as bytes. Used
 * by tracker, tuner, rpc-server and cli; it does no I/O. The messages are the rows of messages.def;
 * docs/reference/messages.md is generated from them.
 *
 * A frame is a 16-byte little-endian header and a body:
 *     u32 magic "KLN1" | u8 type | u8 flags | u16 zero | u32 stream | u32 body bytes
 * The body is a msgpack map with small-integer keys, or raw bytes when the type is DATA. The header
 * is checked before anything is allocated for the body. A stream names a request; the answer has
 * the same stream. The dialling side opens odd streams, the tracker even ones; stream 0 is for
 * messages that answer no request. */
#ifndef KILN_PROTO_PROTO_H
#define KILN_PROTO_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/accuracy.h"
#include "base/arena.h"
#include "base/assembled.h"
#include "base/figures.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/model_size.h"
#include "base/outcome.h"
#include "base/rand.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_PROTO_VERSION_MIN 1u
#define KILN_PROTO_VERSION_MAX 6u
#define KILN_PROTO_PROVES_TOKEN 5u /* since then CHALLENGE proves the token */
#define KILN_NONCE_BYTES 32u
#define KILN_KEY_BYTES 32u /* secret of a key (proto/keys.h), and of a token of a person */

#define KILN_FRAME_MAGIC UINT32_C(0x314e4c4b) /* "KLN1" */
#define KILN_FRAME_HEADER_BYTES 16u
#define KILN_FRAME_CONTROL_MAX ((size_t)256 << 10) /* body of a message */
#define KILN_FRAME_DATA_MAX ((size_t)64 << 10)     /* body of a DATA frame */
#define KILN_BLOB_BYTES_MAX KILN_MODEL_SENT_BYTES_MAX
#define KILN_BLOB_BYTES_BEFORE ((uint64_t)1 << 30) /* with peers before this version: */
#define KILN_PROTO_LARGE_BLOBS 6u
/* DATA bytes that may be sent on a stream before the receiver grants more by WINDOW (version 2). */
#define KILN_STREAM_CREDIT ((uint32_t)1 << 20)
#define KILN_STREAM_CREDIT_MAX ((uint32_t)16 << 20) /* largest credit of a stream */

/* The largest blob that a peer of this version takes. */
static inline uint64_t kiln_blob_bytes_max(uint32_t version) {
    return version < KILN_PROTO_LARGE_BLOBS ? KILN_BLOB_BYTES_BEFORE : KILN_BLOB_BYTES_MAX;
}

#define KILN_RESERVE_S_MAX (7u * 24u * 3600u) /* a board can be reserved for so long */

/* ---- Values of fields. Numbers are on the wire and are never reused. ---- */

/* A row of the lists below as a member of its enum. */
#define KILN_WIRE_VALUE(name, number, text) name = number,

/* Role of a peer. messages.def lists what each may send. */
#define KILN_PEER_ROLES(X)             \
    X(KILN_PEER_TRACKER, 0, "tracker") \
    X(KILN_PEER_BOARD, 1, "board")     \
    X(KILN_PEER_TUNER, 2, "tuner")     \
    X(KILN_PEER_CLIENT, 3, "client")   \
    X(KILN_PEER_ADMIN, 4, "admin")     \
    X(KILN_PEER_BUILDER, 5, "builder") \
    X(KILN_PEER_WEB, 6, "web")
typedef enum kiln_peer_role { KILN_PEER_ROLES(KILN_WIRE_VALUE) KILN_PEER_COUNT } kiln_peer_role;

/* Features beyond the version, bits of HELLO and WELCOME. */
typedef enum kiln_wire_feature {
    KILN_WIRE_ZSTD = 1, /* frames whose body is compressed */
} kiln_wire_feature;

/* Phases of a trial on a board, in order; BUILD, if the board builds, follows FETCH. */
#define KILN_PHASES(X)              \
    X(KILN_PHASE_NONE, 0, "none")   \
    X(KILN_PHASE_FETCH, 1, "fetch") \
    X(KILN_PHASE_LOAD, 2, "load")   \
    X(KILN_PHASE_WARM, 3, "warm")   \
    X(KILN_PHASE_RUN, 4, "run")     \
    X(KILN_PHASE_CHECK, 5, "check") \
    X(KILN_PHASE_BUILD, 6, "build")
typedef enum kiln_phase { KILN_PHASES(KILN_WIRE_VALUE) KILN_PHASE_COUNT } kiln_phase;

#define KILN_JOB_STATES(X)            \
    X(KILN_JOB_WAITING, 0, "waiting") \
    X(KILN_JOB_RUNNING, 1, "running") \
    X(KILN_JOB_DONE, 2, "done")       \
    X(KILN_JOB_FAILED, 3, "failed")   \
    X(KILN_JOB_CANCELLED, 4, "cancelled")
typedef enum kiln_job_state {
    KILN_JOB_STATES(KILN_WIRE_VALUE) KILN_JOB_STATE_COUNT
} kiln_job_state;

#define KILN_STOPS(X)                            \
    X(KILN_STOP_NONE, 0, "none")                 \
    X(KILN_STOP_CONVERGED, 1, "converged")       \
    X(KILN_STOP_COUNT_CAP, 2, "capped by count") \
    X(KILN_STOP_TIME_CAP, 3, "capped by time")   \
    X(KILN_STOP_RACED, 4, "raced out")
typedef enum kiln_stop { KILN_STOPS(KILN_WIRE_VALUE) KILN_STOP_COUNT } kiln_stop;

/* Why a task of a job gets no more trials. */
#define KILN_RESTS(X)                                                     \
    X(KILN_REST_NONE, 0, "")                                              \
    X(KILN_REST_STORED, 1, "its share of the trials was measured before") \
    X(KILN_REST_NO_OTHERS, 2, "there are no other schedules")             \
    X(KILN_REST_AT_PEAK, 3, "at the machine's peak")                      \
    X(KILN_REST_SMALL, 4, "more trials would hardly be felt")             \
    X(KILN_REST_NO_FINAL, 5, "no time was left for its final")
typedef enum kiln_rest { KILN_RESTS(KILN_WIRE_VALUE) KILN_REST_COUNT } kiln_rest;

/* Form of a job's model blob. */
typedef enum kiln_model_form {
    KILN_MODEL_FORM_ONNX = 0,  /* a complete model file: of clients up to version 3 */
    KILN_MODEL_FORM_GRAPH = 1, /* a graph in its canonical bytes (version 4) */
    KILN_MODEL_FORM_COUNT
} kiln_model_form;

/* The first version whose trackers and tuners accept graphs. */
#define KILN_PROTO_TAKES_GRAPHS 4u
/* The first version whose trackers forget boards by an order. */
#define KILN_PROTO_FORGETS_BOARDS 5u

typedef enum kiln_cancel_scope {
    KILN_CANCEL_JOB = 0,
    KILN_CANCEL_TRIAL = 1,
    KILN_CANCEL_LEASE = 2,
    KILN_CANCEL_COUNT
} kiln_cancel_scope;

typedef enum kiln_topic {
    KILN_TOPIC_FLEET = 0, /* all boards */
    KILN_TOPIC_BOARD = 1, /* one board by node or key */
    KILN_TOPIC_JOBS = 2,  /* all jobs */
    KILN_TOPIC_JOB = 3,   /* one job, with its tasks */
    KILN_TOPIC_COUNT
} kiln_topic;

/* What RECORDS_ASK asks a tuner's database, as the actions of `kiln db`. */
typedef enum kiln_records_question {
    KILN_RECORDS_BEST = 0,
    KILN_RECORDS_TOP = 1,
    KILN_RECORDS_HISTORY = 2,
    KILN_RECORDS_STATS = 3,
    KILN_RECORDS_QUESTION_COUNT
} kiln_records_question;
#define KILN_PROTO_ASKS_RECORDS 6u /* version from which on tuners answer RECORDS_ASK */

/* Whether a board may be leased; kept over restarts of board and tracker. */
#define KILN_BOARD_SERVICES(X)                                                              \
    X(KILN_BOARD_IN_SERVICE, 0, "in service")                                               \
    X(KILN_BOARD_DRAINED, 1, "drained") /* its leases end in their own time; no new ones */ \
    X(KILN_BOARD_QUARANTINED, 2, "quarantined") /* its leases end at once: it cannot be trusted */
typedef enum kiln_board_service {
    KILN_BOARD_SERVICES(KILN_WIRE_VALUE) KILN_BOARD_SERVICE_COUNT
} kiln_board_service;

/* What UPGRADE_ORDER asks of the tracker. */
#define KILN_UPGRADE_ACTS(X)          \
    X(KILN_UPGRADE_BEGIN, 0, "begin") \
    X(KILN_UPGRADE_CANCEL, 1, "cancel")
typedef enum kiln_upgrade_act {
    KILN_UPGRADE_ACTS(KILN_WIRE_VALUE) KILN_UPGRADE_ACT_COUNT
} kiln_upgrade_act;

/* Of an upgrade of the fleet. */
#define KILN_UPGRADE_STATES(X)                                         \
    X(KILN_UPGRADE_NONE, 0, "none")                                    \
    X(KILN_UPGRADE_RUNNING, 1, "running")                              \
    X(KILN_UPGRADE_DONE, 2, "done")                                    \
    X(KILN_UPGRADE_STOPPED, 3, "stopped") /* because a board failed */ \
    X(KILN_UPGRADE_CANCELLED, 4, "cancelled")
typedef enum kiln_upgrade_state {
    KILN_UPGRADE_STATES(KILN_WIRE_VALUE) KILN_UPGRADE_STATE_COUNT
} kiln_upgrade_state;

/* Of a board in an upgrade (docs/decisions/0153-rolling-upgrades.md). */
#define KILN_UPGRADE_STAGES(X)                        \
    X(KILN_UPGRADE_STAGE_WAITING, 0, "waiting")       \
    X(KILN_UPGRADE_STAGE_PREPARING, 1, "preparing")   \
    X(KILN_UPGRADE_STAGE_DRAINING, 2, "draining")     \
    X(KILN_UPGRADE_STAGE_RESTARTING, 3, "restarting") \
    X(KILN_UPGRADE_STAGE_DONE, 4, "done")             \
    X(KILN_UPGRADE_STAGE_FAILED, 5, "failed")         \
    X(KILN_UPGRADE_STAGE_SKIPPED, 6, "skipped")       \
    X(KILN_UPGRADE_STAGE_CANCELLED, 7, "cancelled")
typedef enum kiln_upgrade_stage {
    KILN_UPGRADE_STAGES(KILN_WIRE_VALUE) KILN_UPGRADE_STAGE_COUNT
} kiln_upgrade_stage;

/* What UPGRADE tells a board, and what it reports. */
#define KILN_UPGRADE_STEPS(X)                                                          \
    X(KILN_UPGRADE_PREPARE, 0, "prepare") /* check the signature, fetch the archive */ \
    X(KILN_UPGRADE_RESTART, 1, "restart")                                              \
    X(KILN_UPGRADE_FORGET, 2, "forget") /* unless it has restarted */
typedef enum kiln_upgrade_step {
    KILN_UPGRADE_STEPS(KILN_WIRE_VALUE) KILN_UPGRADE_STEP_COUNT
} kiln_upgrade_step;
#define KILN_UPGRADE_REPORTS(X)                                      \
    X(KILN_UPGRADE_IS_READY, 0, "ready")                             \
    X(KILN_UPGRADE_IS_RESTARTING, 1, "restarting") /* or on trial */ \
    X(KILN_UPGRADE_IS_DONE, 2, "done")                               \
    X(KILN_UPGRADE_IS_FAILED, 3, "failed")                           \
    X(KILN_UPGRADE_IS_REFUSED, 4, "refused") /* this board cannot take the release */
typedef enum kiln_upgrade_report {
    KILN_UPGRADE_REPORTS(KILN_WIRE_VALUE) KILN_UPGRADE_REPORT_COUNT
} kiln_upgrade_report;

/* Role of a person in a project; each has the rights of those before it (tracker/rights.def). */
#define KILN_MEMBERS(X)                    \
    X(KILN_MEMBER_NONE, 0, "none")         \
    X(KILN_MEMBER_VIEWER, 1, "viewer")     \
    X(KILN_MEMBER_MEMBER, 2, "member")     \
    X(KILN_MEMBER_OPERATOR, 3, "operator") \
    X(KILN_MEMBER_ADMIN, 4, "admin")
typedef enum kiln_member { KILN_MEMBERS(KILN_WIRE_VALUE) KILN_MEMBER_COUNT } kiln_member;

#define KILN_PROJECT_DEFAULT "default" /* of jobs that name none */

/* Settings of a project: settings.def. */
typedef enum kiln_setting {
#define X(NAME, name, right, unit, max, text) KILN_SETTING_##NAME,
#include "proto/settings.def"
#undef X
    KILN_SETTING_COUNT
} kiln_setting;

/* Orders about projects. */
#define KILN_PROJECT_ACTS(X)            \
    X(KILN_PROJECT_NEW, 0, "new")       \
    X(KILN_PROJECT_SET, 1, "set")       \
    X(KILN_PROJECT_DROP, 2, "drop")     \
    X(KILN_PROJECT_ADD, 3, "add")       \
    X(KILN_PROJECT_REMOVE, 4, "remove") \
    X(KILN_PROJECT_TRUST, 5, "trust")   \
    X(KILN_PROJECT_DISTRUST, 6, "distrust")
typedef enum kiln_project_act {
    KILN_PROJECT_ACTS(KILN_WIRE_VALUE) KILN_PROJECT_ACT_COUNT
} kiln_project_act;

#define KILN_WEIGHT_MAX 1000000u
#define KILN_PRIORITY_MAX 100u
#define KILN_LABEL_BUILDS "builds" /* label of boards that build: with which codegen version */

const char *kiln_peer_role_name(kiln_peer_role role); /* "board" */
bool kiln_peer_role_find(kiln_str name, kiln_peer_role *out_role);
bool kiln_peer_is_person(kiln_peer_role role); /* client or admin */
const char *kiln_phase_name(kiln_phase phase);
const char *kiln_job_state_name(kiln_job_state state);
const char *kiln_stop_name(kiln_stop stop);
const char *kiln_board_service_name(kiln_board_service service);  /* "drained" */
const char *kiln_upgrade_act_name(kiln_upgrade_act act);          /* "cancel" */
const char *kiln_upgrade_state_name(kiln_upgrade_state state);    /* "stopped" */
const char *kiln_upgrade_stage_name(kiln_upgrade_stage stage);    /* "draining" */
const char *kiln_upgrade_step_name(kiln_upgrade_step step);       /* "restart" */
const char *kiln_upgrade_report_name(kiln_upgrade_report report); /* "failed" */
const char *kiln_member_name(kiln_member role);                   /* "operator" */
bool kiln_member_find(kiln_str name, kiln_member *out_role);
const char *kiln_setting_name(kiln_setting setting); /* "board-seconds" */
uint64_t kiln_setting_max(kiln_setting setting);
bool kiln_setting_find(kiln_str name, kiln_setting *out_setting);
const char *kiln_rest_name(kiln_rest rest); /* for people; NONE: "" */

/* ---- Messages ---- */

typedef struct kiln_u64s {
    uint64_t *item;
    uint32_t count;
} kiln_u64s;

/* C types of the field kinds of messages.def. */
typedef bool kiln_field_flag;
typedef uint32_t kiln_field_u32;
typedef uint64_t kiln_field_u64;
typedef double kiln_field_f64;
typedef kiln_str kiln_field_text;
typedef kiln_str kiln_field_bytes;
typedef kiln_digest kiln_field_digest;
typedef kiln_u64s kiln_field_u64s;

/* One struct per record and message: kiln_msg_trial {.trial, .attempt, ...}; a list is {item,
 * count}. */
#define RECORD(name, doc) typedef struct kiln_msg_##name {
#define MESSAGE(id, number, name, from, to, since, doc) typedef struct kiln_msg_##name {
#define FIELD(owner, key, kind, name, need, limit, doc) kiln_field_##kind name;
#define NEST(owner, key, record, name, need, doc) kiln_msg_##record name;
#define LIST(owner, key, record, name, need, limit, doc) \
    struct {                                             \
        kiln_msg_##record *item;                         \
        uint32_t count;                                  \
    } name;
#define END(name) \
    }             \
    kiln_msg_##name;
#include "proto/messages.def"

typedef enum kiln_message_type {
#define MESSAGE(id, number, name, from, to, since, doc) KILN_MSG_##id = number,
#include "proto/messages.def"
    KILN_MSG_DATA = 127, /* a frame type, never a kiln_message: raw bytes of a blob */
} kiln_message_type;

/* Any message: `type` says which member is valid. Its views point into the decoder's body and
 * arena, or into the arena of a step's actions. */
typedef struct kiln_message {
    kiln_message_type type;
    uint32_t stream;
    union {
#define MESSAGE(id, number, name, from, to, since, doc) kiln_msg_##name name;
#include "proto/messages.def"
    };
} kiln_message;

/* "TRIAL_RESULT"; NULL for an unknown type. */
const char *kiln_message_name(kiln_message_type type);
/* Whether a peer of this role may send the type (messages.def, `from`). */
bool kiln_message_may_send(kiln_message_type type, kiln_peer_role role);
/* The first protocol version that has the type. */
uint32_t kiln_message_since(kiln_message_type type);
/* Walks the types in the order of messages.def: start with 0; 0 after the last. */
kiln_message_type kiln_message_next(kiln_message_type type);

/* Appends the body. Optional fields that are zero or empty are left out. Same message, same bytes.
 * OUT_OF_RANGE: a field is larger than its limit; the note names it, and nothing was appended. */
KILN_MUST_USE kiln_status kiln_message_encode(const kiln_message *message, kiln_strbuf *out_body);
/* Reads a body. Texts and bytes point into `body`, lists go to `arena`; both must outlive the
 * message. DATA_LOSS: not a map of that message (the note names the field), or bytes left over.
 * UNIMPLEMENTED: unknown type. */
KILN_MUST_USE kiln_status kiln_message_decode(kiln_message_type type, uint32_t stream,
                                              kiln_str body, kiln_arena *arena,
                                              kiln_message *out_message);
/* Deep copy: nothing in the result points outside `arena`. */
kiln_message kiln_message_copy(const kiln_message *message, kiln_arena *arena);
/* The same with texts in their printable form (base/text.h), error texts as prose: for programs
 * that show messages to people. */
kiln_message kiln_message_printable(const kiln_message *message, kiln_arena *arena);
/* Whether each name and other short text in the message is one printable line; error texts and the
 * statements of releases (those of KILN_MESSAGES_PROSE and KILN_MESSAGES_STATEMENT) may be more.
 * INVALID_ARGUMENT: one is not (kiln_text_check_line); the note names the message. */
KILN_MUST_USE kiln_status kiln_message_check_lines(const kiln_message *message);
/* One line: `TRIAL_ACK #3 {"trial":"...","attempt":1,"lease":7}`; the braces are JSON with the
 * names of messages.def, so `--json` output is made from it too. Leaves out optional fields that
 * are zero. */
void kiln_message_print(const kiln_message *message, kiln_strbuf *out);
void kiln_message_print_json(const kiln_message *message, kiln_strbuf *out);
/* A text as JSON, with its quotes, in its printable form (base/text.h). */
void kiln_json_print_text(kiln_str text, kiln_strbuf *out);
/* The same for one record: KILN_RECORD_PRINT_JSON(board_row, &row, out). */
typedef enum kiln_record_type {
#define RECORD(name, doc) KILN_RECORD_##name,
#include "proto/messages.def"
    KILN_RECORD_COUNT
} kiln_record_type;
void kiln_record_print_json(kiln_record_type type, const void *record, kiln_strbuf *out);
/* Body form of one record, for rows on disk (the tracker's jobs). Errors as for messages. */
KILN_MUST_USE kiln_status kiln_record_encode(kiln_record_type type, const void *record,
                                             kiln_strbuf *out_body);
KILN_MUST_USE kiln_status kiln_record_decode(kiln_record_type type, kiln_str body,
                                             kiln_arena *arena, void *out_record);
/* docs/reference/messages.md, whole. */
void kiln_messages_print_docs(kiln_strbuf *out);

/* Makes a shallow copy of a record deep: afterwards nothing in it points outside `arena`. */
void kiln_record_copy(kiln_record_type type, void *record, kiln_arena *arena);

/* An ERROR message; `text` (cut at its limit) must outlive it. Blame and retry_after_ms get the
 * usual values of the code; the caller may change them. */
kiln_message kiln_message_error(kiln_code code, uint32_t stream, const char *text);
/* An ERROR message of `status` (NULL is a bug), which must outlive it; and back. */
kiln_message kiln_message_from_status(kiln_status status, uint32_t stream);
KILN_MUST_USE kiln_status kiln_status_from_error(const kiln_msg_error *error);

/* ---- Frames ---- */

typedef enum kiln_frame_flag {
    KILN_FRAME_END = 1,  /* last DATA frame of a blob */
    KILN_FRAME_ZSTD = 4, /* the body is compressed; only where both sides have KILN_WIRE_ZSTD */
} kiln_frame_flag;

typedef struct kiln_frame {
    kiln_message_type type;
    uint8_t flags;
    uint32_t stream;
    kiln_str body;
} kiln_frame;

/* Appends header and body. `body` is within the limit of its type (checked). */
void kiln_frame_write(kiln_strbuf *out, kiln_message_type type, uint8_t flags, uint32_t stream,
                      kiln_str body);
/* Appends a whole frame of `message`; errors of kiln_message_encode. */
KILN_MUST_USE kiln_status kiln_frame_write_message(kiln_strbuf *out, const kiln_message *message);

/* Cuts a byte stream into frames; zero-initialise. Holds at most one partial frame. */
typedef struct kiln_frame_reader {
    kiln_strbuf partial; /* header and body so far */
    size_t need;         /* bytes of the whole frame, once the header is checked; 0 before */
    bool broken;         /* an error was reported: nothing more can be read */
} kiln_frame_reader;

/* Takes bytes from `*input` (which advances) until one frame is complete: then *out_ready is true
 * and `*out_frame` is valid until the next call. When it is false, all input was taken.
 * DATA_LOSS: bad magic, type 0 or above DATA, bad flag, length over the limit. Allocates for a body
 * only after its header was checked, never by its declared length. An error is final. */
KILN_MUST_USE kiln_status kiln_frame_read(kiln_frame_reader *reader, kiln_str *input,
                                          kiln_frame *out_frame, bool *out_ready);
void kiln_frame_reader_deinit(kiln_frame_reader *reader);

/* The frame that `bytes` is, as kiln_frame_write made it. */
kiln_frame kiln_frame_of(kiln_str bytes);
/* Bytes that a body of this type may have, compressed or not. */
size_t kiln_frame_body_max(kiln_message_type type);

/* The newest version of both ranges. FAILED_PRECONDITION names both, and the side to upgrade. */
KILN_MUST_USE kiln_status kiln_version_agree(uint32_t peer_min, uint32_t peer_max,
                                             uint32_t *out_version);

/* ---- Link: keeping one connection to the tracker, as a pure decision ----
 *
 * Used inside the steps of tuner and rpc-server and by clients: dials, waits longer after each
 * failure (100 ms doubling to 5 s, a quarter of it random), pings, and gives up a tracker that is
 * silent. After a gap between two ticks (this program was stopped or busy) the time of silence
 * begins again, because messages that came meanwhile are not read yet. */
typedef enum kiln_link_state { KILN_LINK_DOWN, KILN_LINK_DIALLING, KILN_LINK_UP } kiln_link_state;

#define KILN_LINK_HEARTBEAT_NS (UINT64_C(2000000000))
/* The tracker is given up after this silence: with one tick, in under 7 s. */
#define KILN_LINK_SILENCE_NS (UINT64_C(6000000000))
/* Between two ticks of a program that listens: more than a heartbeat, less than silence. */
#define KILN_LINK_GAP_NS (UINT64_C(4000000000))
#define KILN_LINK_BACKOFF_MIN_NS (UINT64_C(100000000))
#define KILN_LINK_BACKOFF_MAX_NS (UINT64_C(5000000000))

typedef struct kiln_link {
    kiln_link_state state;
    uint64_t dial_at_ns;    /* when down */
    uint64_t backoff_ns;    /* next wait */
    uint64_t heard_ns;      /* last frame from the tracker */
    uint64_t ticked_ns;     /* last tick */
    uint64_t ping_at_ns;    /* when up */
    uint64_t down_since_ns; /* since when there is no connection; 0 when up */
    uint64_t up_since_ns;
    kiln_rand rand; /* jitter; seeded by init */
} kiln_link;

typedef enum kiln_link_want {
    KILN_LINK_NOTHING,
    KILN_LINK_DIAL,
    KILN_LINK_PING,
    KILN_LINK_HANG_UP
} kiln_link_want;

/* Not connected; dials at once. `seed`: of the jitter between attempts. */
void kiln_link_init(kiln_link *link, uint64_t now_ns, uint64_t seed);
/* The connection is open. */
void kiln_link_opened(kiln_link *link, uint64_t now_ns);
/* The connection closed or could not be made. */
void kiln_link_closed(kiln_link *link, uint64_t now_ns);
/* A frame came in. */
void kiln_link_heard(kiln_link *link, uint64_t now_ns);
/* What the shell has to do now. DIAL moves to DIALLING, HANG_UP to DOWN (the shell closes the
 * connection and need not report it). */
kiln_link_want kiln_link_tick(kiln_link *link, uint64_t now_ns);
/* When to call kiln_link_tick next. */
uint64_t kiln_link_next_ns(const kiln_link *link);

#endif
