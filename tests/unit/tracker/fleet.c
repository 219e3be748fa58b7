#include "tests/unit/tracker/fleet.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

static void write_row(fleet *f, const kiln_tracker_row *row) {
    assert_in_range(row->id.size, 1, KILN_TRACKER_ROW_ID_MAX);
    for (uint32_t i = 0; i < f->rows.count; i++) {
        const kiln_tracker_row *old = &f->rows.data[i];
        if (old->kind != row->kind || !kiln_str_equal(old->id, row->id)) continue;
        memmove(&f->rows.data[i], &f->rows.data[i + 1], (--f->rows.count - i) * sizeof *row);
        break;
    }
    if (row->removed) return;
    kiln_tracker_row copy = kiln_tracker_row_copy(row, &f->arena);
    kiln_vec_push(&f->rows, copy);
}

/* Nobody waits for what cannot be sent. */
static void expect_encodable(const kiln_message *message) {
    kiln_strbuf body = {0};
    expect_ok(kiln_message_encode(message, &body));
    kiln_strbuf_deinit(&body);
}

static void step(fleet *f, const kiln_tracker_event *event) {
    kiln_tracker_actions actions = {0};
    kiln_tracker_step(f->t, f->now_ns, event, &actions);
    kiln_tracker_check(f->t);
    for (uint32_t i = 0; i < actions.list.count; i++) {
        const kiln_tracker_action *action = &actions.list.data[i];
        if (action->kind == KILN_TRACKER_SEND) {
            expect_encodable(&action->message);
            fleet_sent sent = {action->peer, kiln_message_copy(&action->message, &f->arena), false};
            kiln_vec_push(&f->sent, sent);
        } else if (action->kind == KILN_TRACKER_CLOSE) {
            f->dropped = action->peer;
            f->drop_code = action->code;
        } else if (action->kind == KILN_TRACKER_DROP_BLOB) {
            kiln_vec_push(&f->dropped_blobs, action->blob);
        } else if (action->kind == KILN_TRACKER_PERSIST) {
            kiln_vec_push(&f->persists, action->persist);
            for (uint32_t r = 0; r < action->row_count; r++) {
                f->writes[action->row[r].kind]++;
                write_row(f, &action->row[r]);
            }
        }
    }
    kiln_tracker_actions_deinit(&actions);
    while (!f->hold_disk && f->persists.count) fleet_persist(f, NULL);
}

int fleet_set_up(void **state) {
    fleet *f = kiln_alloc(sizeof *f);
    kiln_arena_init(&f->arena, 0);
    f->now_ns = 100 * FLEET_S;
    f->who = (kiln_tracker_who){.is_owner = true, .is_proven = true, .person = "owner"};
    expect_ok(kiln_tracker_create(NULL, 0, f->now_ns, &f->t));
    *state = f;
    return 0;
}

int fleet_tear_down(void **state) {
    fleet *f = *state;
    kiln_tracker_destroy(f->t);
    kiln_vec_deinit(&f->sent);
    kiln_vec_deinit(&f->persists);
    kiln_vec_deinit(&f->rows);
    kiln_vec_deinit(&f->dropped_blobs);
    kiln_arena_deinit(&f->arena);
    kiln_free(f);
    return 0;
}

void fleet_connect(fleet *f, uint64_t peer, kiln_peer_role role, const char *node,
                   const char *boot) {
    kiln_msg_hello hello = {.version_min = 1,
                            .version_max = f->version ? f->version : KILN_PROTO_VERSION_MAX,
                            .role = role,
                            .signer = f->signer,
                            .node = kiln_str_from(node),
                            .boot = kiln_str_from(boot),
                            .software = KILN_STR("test 1")};
    step(f, &(kiln_tracker_event){
                .kind = KILN_TRACKER_CONNECTED, .peer = peer, .hello = &hello, .who = f->who});
}

void fleet_disconnect(fleet *f, uint64_t peer) {
    step(f, &(kiln_tracker_event){.kind = KILN_TRACKER_CLOSED, .peer = peer});
}

void fleet_say(fleet *f, uint64_t peer, const kiln_message *message) {
    step(f, &(kiln_tracker_event){.kind = KILN_TRACKER_MESSAGE, .peer = peer, .message = message});
}

void fleet_wait(fleet *f, uint64_t ns, const uint64_t *alive) {
    uint64_t end_ns = f->now_ns + ns;
    while (f->now_ns < end_ns) {
        f->now_ns = KILN_MIN(end_ns, f->now_ns + 250 * FLEET_MS);
        for (const uint64_t *peer = alive; peer && *peer; peer++)
            fleet_say(f, *peer, &(kiln_message){.type = KILN_MSG_PING});
        step(f, &(kiln_tracker_event){.kind = KILN_TRACKER_TICK});
    }
}

void fleet_persist(fleet *f, const char *failure) {
    assert_true(f->persists.count > 0);
    uint64_t persist = f->persists.data[0];
    memmove(f->persists.data, f->persists.data + 1, --f->persists.count * sizeof persist);
    step(f, &(kiln_tracker_event){
                .kind = KILN_TRACKER_PERSISTED, .persist = persist, .failure = failure});
}

void fleet_restart(fleet *f) {
    kiln_tracker_destroy(f->t);
    f->persists.count = 0;
    fleet_forget_sent(f);
    expect_ok(kiln_tracker_create(f->rows.data, f->rows.count, f->now_ns, &f->t));
}

const kiln_message *fleet_take(fleet *f, uint64_t peer, kiln_message_type type) {
    for (uint32_t i = 0; i < f->sent.count; i++) {
        fleet_sent *sent = &f->sent.data[i];
        if (sent->taken || sent->peer != peer || sent->message.type != type) continue;
        sent->taken = true;
        /* Out of the vector, which may move. */
        return kiln_arena_copy(&f->arena, &sent->message, sizeof sent->message);
    }
    return NULL;
}

void fleet_forget_sent(fleet *f) { f->sent.count = 0; }

void fleet_board(fleet *f, uint64_t peer, const char *node, uint32_t slots) {
    fleet_connect(f, peer, KILN_PEER_BOARD, node, "boot");
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = kiln_str_from(node), .target = KILN_STR(FLEET_TARGET), .slots = slots}};
    fleet_say(f, peer, &up);
}

void fleet_tuner(fleet *f, uint64_t peer, const char *node, const char *boot) {
    fleet_connect(f, peer, KILN_PEER_TUNER, node, boot);
}

kiln_message fleet_job(const char *id, bool detach) {
    return (kiln_message){.type = KILN_MSG_JOB_OPEN,
                          .stream = 1,
                          .job_open = {.job = kiln_str_from(id),
                                       .spec = {.target = KILN_STR(FLEET_TARGET),
                                                .searcher = KILN_STR("random"),
                                                .trials = 8,
                                                .detach = detach}}};
}

void fleet_open_job(fleet *f, uint64_t client, const char *id, bool detach) {
    kiln_message open = fleet_job(id, detach);
    fleet_say(f, client, &open);
}

kiln_code fleet_open_model(fleet *f, uint64_t client, const char *id, kiln_digest model) {
    kiln_message open = fleet_job(id, true);
    open.job_open.spec.model = model;
    fleet_forget_sent(f);
    fleet_say(f, client, &open);
    const kiln_message *error = fleet_take(f, client, KILN_MSG_ERROR);
    return error ? (kiln_code)error->error.code : KILN_OK;
}

kiln_message fleet_request(const char *job, uint64_t request) {
    return (kiln_message){.type = KILN_MSG_LEASE_REQ,
                          .stream = 3,
                          .lease_req = {.request = request,
                                        .job = kiln_str_from(job),
                                        .target = KILN_STR(FLEET_TARGET),
                                        .trials = 2,
                                        .ttl_ms = 15000}};
}

void fleet_running_job(fleet *f) {
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_open_job(f, 30, "j", false);
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    fleet_forget_sent(f);
}

uint64_t fleet_lease(fleet *f, uint64_t request) {
    kiln_message ask = fleet_request("j", request);
    fleet_say(f, 20, &ask);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    assert_int_equal(grant->lease_grant.request, request);
    return grant->lease_grant.lease;
}

void fleet_trial(fleet *f, uint64_t lease, const char *id) {
    kiln_message trial = {
        .type = KILN_MSG_TRIAL,
        .trial = {.trial = kiln_str_from(id), .attempt = 1, .lease = lease, .job = KILN_STR("j")}};
    fleet_say(f, 20, &trial);
}

void fleet_print(fleet *f, kiln_tracker_page_kind kind, kiln_strbuf *out) {
    kiln_tracker_page *page = kiln_tracker_page_create(f->t, kind);
    while (kiln_tracker_page_step(page, out)) continue;
    kiln_tracker_page_destroy(page);
}
