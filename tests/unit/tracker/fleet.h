/* A tracker's step under test: peers by number, messages in and out, a disk that answers when the
 * test says so. */
#ifndef KILN_TESTS_TRACKER_FLEET_H
#define KILN_TESTS_TRACKER_FLEET_H

#include "base/clock.h"
#include "tests/support/test.h"
#include "tracker/state.h"

#define FLEET_S KILN_NS_PER_S
#define FLEET_MS KILN_NS_PER_MS
#define FLEET_TARGET "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"

typedef struct fleet_sent {
    uint64_t peer;
    kiln_message message;
    bool taken;
} fleet_sent;

typedef struct fleet {
    kiln_tracker *t;
    kiln_arena arena;
    uint64_t now_ns;
    KILN_VEC(fleet_sent) sent;
    KILN_VEC(uint64_t) persists;     /* not yet answered */
    KILN_VEC(kiln_tracker_row) rows; /* what a disk would hold, oldest first; views in the arena */
    uint32_t writes[KILN_TRACKER_ROW_KIND_COUNT];
    uint64_t dropped; /* last peer that the tracker closed */
    KILN_VEC(kiln_digest) dropped_blobs;
    kiln_code drop_code;
    kiln_tracker_who who; /* what is known of those who connect now: at first the tracker's user */
    uint32_t version;     /* newest that peers speak who connect now; 0: ours */
    kiln_str signer;      /* of those who connect now: empty, or a public key's bytes */
    bool hold_disk;       /* PERSIST is answered by fleet_persist only */
} fleet;

int fleet_set_up(void **state);
int fleet_tear_down(void **state);
#define test_with_fleet(f) cmocka_unit_test_setup_teardown(f, fleet_set_up, fleet_tear_down)

void fleet_connect(fleet *f, uint64_t peer, kiln_peer_role role, const char *node,
                   const char *boot);
void fleet_disconnect(fleet *f, uint64_t peer);
void fleet_say(fleet *f, uint64_t peer, const kiln_message *message);
/* Time passes, in ticks; peers listed in `alive` (0 ends it) ping meanwhile. */
void fleet_wait(fleet *f, uint64_t ns, const uint64_t *alive);
/* Answers the oldest PERSIST. */
void fleet_persist(fleet *f, const char *failure);
/* The tracker is killed and started with what its disk holds. */
void fleet_restart(fleet *f);
/* The oldest message of that type to the peer that was not taken yet; NULL. */
const kiln_message *fleet_take(fleet *f, uint64_t peer, kiln_message_type type);
void fleet_forget_sent(fleet *f);
/* Prints a whole page. */
void fleet_print(fleet *f, kiln_tracker_page_kind kind, kiln_strbuf *out);

/* Usual steps. */
void fleet_board(fleet *f, uint64_t peer, const char *node, uint32_t slots);
void fleet_tuner(fleet *f, uint64_t peer, const char *node, const char *boot);
kiln_message fleet_job(const char *id, bool detach);
void fleet_open_job(fleet *f, uint64_t client, const char *id, bool detach);
/* A detached one with that model; what it was refused with, or KILN_OK. */
kiln_code fleet_open_model(fleet *f, uint64_t client, const char *id, kiln_digest model);
kiln_message fleet_request(const char *job, uint64_t request);
/* A board (10), a tuner (20), a client (30) and job "j" running. */
void fleet_running_job(fleet *f);
/* Asks for a lease of job "j" as peer 20 and returns its number. */
uint64_t fleet_lease(fleet *f, uint64_t request);
/* Peer 20 sends a trial under the lease. */
void fleet_trial(fleet *f, uint64_t lease, const char *id);

#endif
