/* The real tracker and the real rpc-server as processes, joined by a Unix socket, for tests and
 * benches that play client and tuner: open a job, lease the board, send trials of hand-made
 * artefacts. */
#ifndef KILN_TESTS_UNIT_RPC_SERVER_FLEET_H
#define KILN_TESTS_UNIT_RPC_SERVER_FLEET_H

#include "base/child.h"
#include "base/vec.h"
#include "proto/net.h"
#include "tests/unit/rpc-server/candidates.h"

typedef struct fleet_event {
    char trial[32];
    kiln_phase phase;
} fleet_event;

typedef struct fleet {
    kiln_arena arena;
    kiln_loop *loop;
    char *folder, *address;
    kiln_child tracker, server;
    const char *slots; /* of the server, when it is started; NULL: its default */
    kiln_blob_store *store;
    char boot[KILN_HASH128_TEXT], node[KILN_HASH128_TEXT];
    kiln_conn *client, *tuner;
    kiln_blobs *blobs;
    kiln_timer *again;
    uint32_t opened, closed, uploads, results;
    char why_closed[256]; /* the connection that closed last */
    uint64_t pinged_ns;
    bool assigned; /* the tuner has the job */
    bool lost;     /* the lease */
    bool revive;   /* a server that ends while something is waited for is started again, unharmed */
    uint32_t deaths;
    kiln_child_exit death; /* the last one */
    /* The last message of a kind that somebody waits for. */
    kiln_message_type wanted;
    bool arrived;
    kiln_message message;
    uint64_t lease, request;
    uint32_t slot, lease_trials;  /* that were granted */
    uint32_t phases;              /* bit per phase of TRIAL_EVENT since a trial was sent */
    KILN_VEC(fleet_event) events; /* all of them, in the order in which they came */
} fleet;

#define SKIPPED 77 /* exit code, as meson knows it */

/* What every program that has a fleet is started with: OBJECTS TRACKER RPC-SERVER, and EMULATOR
 * TARGET for a server of another processor. Called by main; false: that server is not built. */
bool fleet_take_arguments(int argc, char **argv);
bool fleet_is_emulated(void);
/* The target of the first device of an executor, which servers offer from then on in place of the
 * processor: what `kiln-rpc-server --executor NAME --doctor` finds. False: there is none. */
bool fleet_offers(const char *executor, kiln_arena *arena, char **out_target);
/* Starts both programs and connects as client and tuner. `slots`: of the server; NULL: its default.
 */
void fleet_set_up(fleet *f, const char *slots);
void fleet_tear_down(fleet *f);

void fleet_start_tracker(fleet *f);
/* `fail`: a plan for base/fail.h, or NULL. */
void fleet_start_server(fleet *f, const char *fail);
/* Process of the server's helper; a server that connected has one. */
pid_t fleet_helper(fleet *f);
/* Until both connections are open; the tracker may still be starting. */
void fleet_connect(fleet *f);
/* Lets the loop run once; it comes back in 10 ms at most. */
void fleet_turn(fleet *f);
/* The next message of that type; it lasts until the next call. NULL: the lease was lost. */
const kiln_message *fleet_wait_for(fleet *f, kiln_message_type type);

void fleet_open_job(fleet *f);
/* The board, for `trials` or fewer; asserts that lease numbers grow. */
void fleet_lease(fleet *f, uint32_t trials);
/* Says that the lease is still wanted. */
void fleet_renew(fleet *f);
/* Puts bytes into the tracker's store. */
kiln_msg_blob_ref fleet_upload(fleet *f, kiln_str bytes);
/* The artefact of a planted candidate, appended; or in the tracker's store. */
void fleet_artefact(const char *candidate, kiln_strbuf *out);
kiln_msg_blob_ref fleet_upload_candidate(fleet *f, const char *candidate);
/* What the candidates should compute. */
kiln_msg_blob_ref fleet_upload_reference(fleet *f);
/* A trial of blobs that are there, with the sampling policy of a short search. */
kiln_msg_trial fleet_trial(const fleet *f, const char *id, uint32_t attempt,
                           const kiln_msg_blob_ref *artefact, const kiln_msg_blob_ref *reference);
void fleet_send_trial(fleet *f, const kiln_msg_trial *trial);
/* NULL: the lease was lost, as when the machine is so busy that the board calls itself sick. */
const kiln_msg_trial_result *fleet_await_result(fleet *f, const char *id, uint32_t attempt);
void fleet_acknowledge(fleet *f, const kiln_msg_trial_result *result);

#endif
