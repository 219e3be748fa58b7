/* A whole fleet in one thread: trackers, tuners, boards and clients with the real step
 * functions, and a virtual clock, network and disks. Everything that happens is an event in one
 * queue; every choice comes from one seed; so a seed names a history, and the same seed gives the
 * same one.
 *
 * Some boards build candidates themselves, with the tuners' compiler or with another one.
 *
 * In some worlds two trackers share a database: one leads, and the other takes over when its
 * session is gone; in some the tuners share their records, and claim jobs.
 *
 * Every node has a key, which is rotated and revoked while it works. In some worlds there is a
 * rogue: a client that says HELLO in the name of others, and sends what it has no right to.
 * Clients are members of projects, in some worlds with quotas. In some their jobs come with forged
 * records, and the tuners' are in real databases (forged.h).
 *
 * What is real: the three steps, keys and what they let say, the codec (each message crosses the
 * network as bytes). What is played here: the shells, sockets, databases, searchers, builders,
 * kernels. Faults come until `calm_ns` (faults.c): connections cut or silent, nodes behind a
 * partition, programs killed and started again without what was not synced, leads lost, disks full
 * or slow, clocks that jump, boards sick, broken, hot, slow, hanging, and lying. The network delays
 * and repeats; what an old connection still carries comes after what a new one brought. In some
 * worlds boards cannot rely on the tracker's half of the fence. After that everything must come to
 * its end. No step of a machine hashes or walks more than a loop has time for. */
#ifndef KILN_TESTS_SIM_WORLD_H
#define KILN_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/sign/release.h"
#include "base/thread_work.h"
#include "base/vec.h"
#include "proto/keys.h"
#include "proto/proto.h"
#include "tests/sim/database.h"
#include "tests/sim/store.h"

#define SIM_MS KILN_NS_PER_MS
#define SIM_S KILN_NS_PER_S
#define SIM_TRACKERS_MAX 2u
#define SIM_BOARDS_MAX 6u
#define SIM_TUNERS_MAX 3u
#define SIM_CLIENTS_MAX 4u
#define SIM_PROJECTS 2u
#define SIM_REST_NS (5000 * SIM_S) /* for what goes on when every client has its answer */
/* What every board runs, and what every other one offers beside it. */
#define SIM_TARGET "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"
#define SIM_OTHER_TARGET "opencl:simulated"
#define SIM_WAIT_NS (1500 * SIM_S) /* longest that a request may wait for its turn */
/* What one step of a machine may do: 5 ms of a small computer (docs/decisions/0023). */
#define SIM_STEP_HASHED_MAX (UINT64_C(256) << 10)
#define SIM_STEP_ROWS_MAX UINT64_C(5000)
#define SIM_END_NS (3600 * SIM_S) /* virtual time by which every history must be over */

typedef struct sim_world sim_world;
typedef struct sim_node sim_node;
typedef struct sim_conn sim_conn;
typedef struct sim_records sim_records;

typedef enum sim_kind {
    SIM_TRACKER,
    SIM_BOARD,
    SIM_TUNER,
    SIM_CLIENT,
    SIM_ADMIN,
    SIM_ROGUE
} sim_kind;

/* What a kind of program does with what happens to it. `start` and `stop` make and drop everything
 * that does not survive a kill; the rest of the node is its disk. */
typedef struct sim_program {
    void (*start)(sim_node *node);
    void (*stop)(sim_node *node);
    void (*opened)(sim_node *node, sim_conn *conn,
                   const kiln_msg_hello *hello); /* hello: on the tracker's side */
    void (*message)(sim_node *node, sim_conn *conn, const kiln_message *message);
    void (*closed)(sim_node *node, sim_conn *conn);
    void (*tick)(sim_node *node);
} sim_program;

struct sim_node {
    sim_world *world;
    sim_kind kind;
    uint32_t index;
    const sim_program *program;
    bool alive;
    uint32_t run; /* grows with each start; events of older runs are dropped */
    char identity[KILN_HASH128_TEXT], boot[KILN_HASH128_TEXT];
    sim_conn *conn;         /* of one that dials */
    uint64_t tick_ns;       /* earliest tick in the queue */
    uint64_t ahead_ns;      /* of its clock before the world's: it only jumps forward */
    uint64_t jumped_ns;     /* when it last did */
    uint64_t cut_off_ns;    /* until then nothing reaches it */
    uint32_t reign;         /* of a tracker: how many leads were taken when it took its own */
    kiln_key key, next_key; /* what its key file holds; the one that is on its way to it */
    bool key_changes;
    const struct sim_node *boot_of;           /* of a rogue: whose boot it says */
    const struct sim_node *name_of, *role_of; /* of a rogue: in whose name, and as what it dials;
                                                 NULL: its own */
    void *state; /* of the program's kind: lives as long as the world */
};

typedef void (*sim_fire)(sim_node *node, uint64_t a, uint64_t b);

typedef struct sim_event {
    uint64_t at_ns, order; /* by time, then as they were made */
    sim_node *node;        /* NULL: the world's own */
    uint32_t run;
    sim_fire fire;
    uint64_t a, b;
} sim_event;

/* Of a project; 0: no bound. */
typedef struct sim_quotas {
    uint32_t boards, board_seconds, hold_s, jobs, queue;
} sim_quotas;

/* What a project has after a step of the tracker. */
typedef struct sim_use {
    uint32_t slots, jobs, queued;
    uint64_t longest_ns; /* that a lease was held */
} sim_use;

typedef struct sim_tenant {
    sim_use use;
    uint64_t day, used_ns; /* time of slots on that day */
} sim_tenant;

/* What is wrong with a version (kiln-sim --upgrades): the last number of its name. */
typedef enum sim_flaw {
    SIM_FLAW_NONE,
    SIM_FLAW_ENDS,     /* before it connects */
    SIM_FLAW_MUTE,     /* it never dials */
    SIM_FLAW_MISTAKEN, /* it fails its self-check */
    SIM_FLAW_COUNT
} sim_flaw;

/* What a seed chooses, printed when it fails. */
typedef struct sim_options {
    uint64_t seed;
    uint32_t trackers; /* that share a database: one leads, the other stands by */
    uint32_t boards, tuners, clients, trials, tasks;
    uint64_t blob_rate; /* bytes a second, where some blobs are 1 GiB; 0: all are small */
    bool quotas;
    sim_quotas quota[SIM_PROJECTS];
    uint32_t stranger; /* the client that is in no project; UINT32_MAX: none */
    bool upgrades;     /* not drawn: kiln-sim --upgrades */
    bool rogue;        /* there is one */
    bool share;        /* the tuners share their records */
    uint32_t builders; /* of each tuner; 0: boards build everything */
    uint32_t weight[SIM_PROJECTS];
    uint64_t latency_ns;
    bool crowd;       /* many and long jobs on few boards, so that whose turn it is matters */
    uint64_t late_ns; /* so much later the second of the projects of a crowd comes */
    double faults_per_minute;
    uint32_t hang_permille, crash_permille, wrong_permille, repeat_permille, drift_permille;
    uint32_t lie_permille, slow_permille;
    /* Of a tracker that does not keep its half of the fence: LEASE_LOSTs that do not come to their
     * board, TRIALs that come again after a newer lease. */
    uint32_t deaf_permille, late_permille;
} sim_options;

#define SIM_CODEGEN "sim" /* codegen version of the tuners' builders */

/* A trial that a board began: what a liar may have heard of. */
typedef struct sim_heard {
    char trial[KILN_MESSAGES_TEXT + 1];
    uint64_t lease;
    uint32_t attempt, board;
} sim_heard;
#define SIM_HEARD 16u

struct sim_world {
    sim_options options;
    kiln_rand rand;
    uint64_t now_ns, calm_ns;
    uint64_t last_order, event_count, hash;
    KILN_VEC(sim_event) queue; /* a heap */
    KILN_VEC(sim_node *) node; /* all of them, the first tracker first, then the boards */
    sim_node *tracker[SIM_TRACKERS_MAX];
    sim_database *database;
    kiln_keys key_list, keys; /* the list as it was written last; as the trackers read it last */
    kiln_map revoked;         /* keys -> when nothing may come under them any more */
    char last_job[KILN_HASH128_TEXT]; /* that a client opened */
    sim_records *shared;              /* that all tuners share; NULL: each has its own */
    sim_store store;                  /* of blobs: a folder that the trackers share */
    sim_tenant tenant[SIM_PROJECTS];
    uint64_t tenants_seen_ns; /* on the leader's clock */
    uint64_t midnight_ns;
    uint32_t reigns;             /* so often a tracker took the lead */
    uint64_t full_until_ns;      /* until then nothing can be written into the database */
    uint64_t slow_disk_until_ns; /* until then commits take seconds, also those of tuners */
    KILN_VEC(sim_conn *) conn;
    uint64_t last_conn;
    uint64_t slow_until_ns;
    bool failed;
    kiln_strbuf failure;
    bool trace; /* print every event */
    kiln_arena scratch;
    /* What the checkers remember. */
    kiln_map granted; /* lease -> hash of (tuner run, request) */
    kiln_map newest;  /* board, slot -> newest lease that was granted */
    kiln_map started; /* board, slot -> newest lease that ran there */
    kiln_board_service
        service[SIM_BOARDS_MAX]; /* as the tracker confirmed it; in service while in doubt */
    uint64_t duty_lease[SIM_BOARDS_MAX]; /* newest lease then: older ones may still be told */
    sim_heard heard[SIM_HEARD];
    uint32_t heard_count;
    kiln_map tried;           /* version with a flaw -> the board that tried it: its canary */
    uint64_t tries, upgraded; /* versions on trial; of these: put into their place */
    uint64_t longest_wait_ns; /* of a request while a board that fits was in service */
    uint64_t trials, built;   /* that boards began; candidates that they built */
    uint64_t records;         /* that tuners were asked to store */
    uint64_t lost, repeated;  /* records: of jobs that ended well and lack them; more than one */
    uint64_t forged;          /* records that are the best of a task */
    uint64_t results, jobs_ok, jobs_ended;
    kiln_thread_work most; /* of one step, each by itself */
};

/* ---- world.c ---- */
void sim_world_init(sim_world *world, uint64_t seed, bool upgrades, bool trace);
void sim_world_deinit(sim_world *world);
/* Runs until nothing is left to happen, a check fails, or SIM_END_NS. */
void sim_world_run(sim_world *world);
void sim_at(sim_world *world, uint64_t delay_ns, sim_node *node, sim_fire fire, uint64_t a,
            uint64_t b);
/* Makes sure that the node ticks at `at_ns`. */
void sim_tick_at(sim_node *node, uint64_t at_ns);
void sim_kill(sim_node *node, bool silent);
void sim_start(sim_node *node);
void sim_start_later(sim_node *node, uint64_t delay_ns);
bool sim_chance(sim_world *world, uint32_t permille);
uint64_t sim_between(sim_world *world, uint64_t low, uint64_t high); /* inclusive */
void sim_note(sim_world *world, const char *format, ...)
    KILN_PRINTF(2, 3); /* into the hash, and the trace */
void sim_fail(sim_world *world, const char *format, ...) KILN_PRINTF(2, 3);
bool sim_is_calm(const sim_world *world);
/* After a step of the node's machine; `before`: the thread's work then. */
void sim_check_work(sim_node *node, const kiln_thread_work *before);
/* The node's own clock. Ticks are asked for on it. */
uint64_t sim_clock(const sim_node *node);

/* ---- faults.c ---- */
/* Begins to let things go wrong, until it is calm. */
void sim_faults_start(sim_world *world);

/* ---- network.c ---- */
struct sim_conn {
    uint64_t id;
    sim_node *side[2]; /* who dialled; the tracker */
    uint32_t run[2];
    bool open[2];
    char boot[KILN_HASH128_TEXT]; /* of who dialled */
    kiln_key key;                 /* that it proved to have */
    bool shaken;                  /* the dialling side knows that it is open */
    bool silent;                  /* nothing comes through any more, and nobody is told */
    uint64_t last_arrival_ns[2];
};
void sim_dial(sim_node *node);
void sim_send(sim_node *from, sim_conn *conn, const kiln_message *message);
/* `node` lets go of the connection; the other side hears of it later. */
void sim_close(sim_node *node, sim_conn *conn);
void sim_cut(sim_conn *conn, bool silent);
/* The tracker closes it, now. */
void sim_refuse(sim_conn *conn);
sim_conn *sim_find_conn(sim_world *world, uint64_t id);
void sim_network_deinit(sim_world *world);

/* ---- keys.c ---- */
kiln_peer_role sim_role_of(const sim_node *node);
void sim_keys_init(sim_world *world);
void sim_keys_deinit(sim_world *world);
/* Whether the key of who dials lets it say this HELLO. */
bool sim_keys_let_in(sim_conn *conn, const kiln_msg_hello *hello);
/* A message comes to the tracker. */
void sim_keys_check(const sim_conn *conn);
/* A new generation, and the end of the old one when the node has it. */
void sim_keys_rotate(sim_node *node);
/* No key is right any more, until there is a new one. */
void sim_keys_revoke(sim_node *node);

/* ---- tenants.c ---- */
struct kiln_tracker;
void sim_tenants_draw(sim_world *world);
void sim_tenants_init(sim_world *world);
uint64_t sim_wall_ns(const sim_world *world, uint64_t at_ns);
/* A tracker takes the lead with what the last one left. */
void sim_tenants_begin(sim_world *world, const struct kiln_tracker *t);
/* After each step of the leader. */
void sim_tenants_check(sim_node *tracker, const struct kiln_tracker *t);

/* ---- the programs ---- */
extern const sim_program sim_tracker_program, sim_board_program, sim_tuner_program,
    sim_client_program, sim_admin_program, sim_rogue_program, sim_upgrader_program;
void *sim_tracker_state(void);
void *sim_board_state(void);
void *sim_tuner_state(void);
void *sim_client_state(void);
void *sim_admin_state(void);
void *sim_rogue_state(void);
void *sim_upgrader_state(void);
/* Whether it is calm and every board runs a good version. */
bool sim_upgrader_is_done(const sim_node *upgrader);
/* The key that signs versions. */
void sim_upgrade_keys(kiln_release_keys *out_keys);
/* Whether it is a member of all projects, without the right to run machine code of its own. */
bool sim_rogue_is_member(const sim_world *world);
void sim_tracker_free(void *state);
void sim_board_free(void *state);
void sim_tuner_free(void *state);
void sim_client_free(void *state);
void sim_admin_free(void *state);
void sim_rogue_free(void *state);

/* Whether it leads, or thinks so: who stands by does not listen. */
bool sim_tracker_serves(const sim_node *tracker);
/* Of the one that leads; with none every job may still be open. */
bool sim_tracker_has_open_job(const sim_world *world, const char *job);
/* Its `index`-th open job; false: there are not as many. */
bool sim_tracker_open_job(const sim_world *world, uint32_t index, char out_job[KILN_HASH128_TEXT]);
/* Its session ends, and another may lead; it notices some seconds later. */
void sim_tracker_lose_lead(sim_node *tracker);
/* Somebody else claims a job that it works on. */
void sim_tuner_lose_claim(sim_node *tuner, uint64_t until_ns);
/* Until then nothing can be written. */
void sim_tuner_fill_disk(sim_node *tuner, uint64_t until_ns);
void sim_board_fill_disk(sim_node *board, uint64_t until_ns);
uint64_t sim_tracker_newest_lease(const sim_world *world);
/* Whether no job is open and every board is in service. */
bool sim_tracker_is_at_rest(const sim_world *world);
void sim_board_make_sick(sim_node *board, uint64_t until_ns);
/* Its measurements fail by its own fault, or are out of band. */
void sim_board_break(sim_node *board, uint64_t until_ns);
void sim_board_heat(sim_node *board, uint64_t until_ns);
/* Drains or quarantines a board for a while. */
void sim_admin_order(sim_node *admin);
/* Which project it is of, in a crowd. */
uint32_t sim_client_side(const sim_node *client);
bool sim_client_is_done(const sim_node *client);
sim_records *sim_records_create(void);
void sim_records_destroy(sim_records *records);
/* Records of a job in this tuner's database: how many there are below `planned` of each task. */
uint32_t sim_tuner_record_count(const sim_node *tuner, kiln_str job);
/* Complains when something is left over in a world where every client is done. */
void sim_tracker_check_rest(sim_node *tracker);
void sim_board_check_rest(sim_node *board);
void sim_tuner_check_rest(sim_node *tuner);

#endif
