#include "tests/bench/swarm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/identity.h"

/* Links are looked at one part at a time, as boards do not tick in step. */
#define TICK_NS KILN_NS_PER_MS
#define TICK_PARTS 10u
#define PACE_NS (400 * KILN_NS_PER_US) /* the grain in which an open load is sent */
#define LEASE_MS 60000u
#define TARGET "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"

typedef struct peer {
    swarm *swarm;
    kiln_peer_role role;
    uint32_t number;
    char node[32], boot[KILN_HASH128_TEXT];
    kiln_link link;
    kiln_conn *dialled, *conn; /* the latest, and it when it is open; NULL: none */
    bool counted;              /* in swarm_counts.boards or .opened */
    uint64_t lease;            /* of a board: the last that a trial came under */
} peer;

typedef struct job {
    char id[32];
    peer *tuner; /* NULL: not assigned, or it is away */
} job;

typedef struct request {
    uint64_t due_ns;
    job *job;
    bool out;
} request;

/* A lease that is held, by the board's number. */
typedef struct held {
    uint64_t lease, trial; /* 0: none */
    uint32_t left;         /* trials */
    peer *tuner;
    job *job;
} held;

struct swarm {
    kiln_loop *loop;
    swarm_options options;
    kiln_rand rand;
    kiln_timer *tick;
    kiln_watch *pace;
    int pace_fd;
    KILN_VEC(peer *) peer;
    job *job;   /* [clients] */
    held *held; /* [boards] */
    swarm_counts counts;
    KILN_VEC(request) request; /* by number - 1 */
    uint32_t first_request;    /* of the present load */
    KILN_VEC(uint64_t) waits, late;
    uint64_t last_trial;
    uint32_t ahead, trials, out, next_job, tick_turn;
    double per_s;
    bool pings;      /* instead of requests */
    uint64_t due_ns; /* of the next request of an open load */
    bool closing;
};

void swarm_name(kiln_peer_role role, uint32_t number, char out_name[32]) {
    snprintf(out_name, 32, "%s-%u", kiln_peer_role_name(role), number);
}

/* ---- Sending ---- */

static void send_to_tracker(peer *p, kiln_message *message) {
    if (!p->conn) return;
    kiln_status st = kiln_conn_send(p->conn, message);
    KILN_CHECK(st == NULL);
}

/* ---- Requests and leases, as tuners see them ---- */

static void ask(swarm *s, job *j, uint64_t due_ns) {
    request r = {.due_ns = due_ns, .job = j, .out = true};
    kiln_vec_push(&s->request, r);
    s->out++;
    kiln_message ping = {.type = KILN_MSG_PING, .ping = {.t_ns = s->request.count}};
    kiln_message message = {.type = KILN_MSG_LEASE_REQ,
                            .lease_req = {.request = s->request.count,
                                          .job = kiln_str_from(j->id),
                                          .target = KILN_STR(TARGET),
                                          .trials = KILN_MAX(s->trials, 1u),
                                          .ttl_ms = LEASE_MS}};
    send_to_tracker(j->tuner, s->pings ? &ping : &message);
}

/* The next job in turn whose tuner is there; NULL. */
static job *next_job(swarm *s) {
    for (uint32_t i = 0; i < s->options.clients; i++) {
        job *j = &s->job[s->next_job];
        s->next_job = (s->next_job + 1) % s->options.clients;
        if (j->tuner) return j;
    }
    return NULL;
}

static void keep_asking(swarm *s) {
    while (s->out < s->ahead) {
        job *j = next_job(s);
        if (!j) return;
        ask(s, j, kiln_clock_ns());
    }
}

/* The request with that number, if it is out; it no longer is then. */
static request *answered(swarm *s, uint64_t number) {
    if (number == 0 || number > s->request.count) return NULL;
    request *r = &s->request.data[number - 1];
    if (!r->out) return NULL;
    r->out = false;
    s->out--;
    if (number > s->first_request) kiln_vec_push(&s->waits, kiln_clock_ns() - r->due_ns);
    return r;
}

static void release(peer *tuner, uint64_t lease) {
    kiln_message message = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    send_to_tracker(tuner, &message);
}

/* A trial's identity tells its board, so that its result finds the lease. */
static void send_trial(swarm *s, uint32_t board) {
    char id[KILN_MESSAGES_TEXT];
    held *h = &s->held[board];
    h->trial = ++s->last_trial;
    h->left--;
    snprintf(id, sizeof id, "%08x%024llx", board, (unsigned long long)h->trial);
    kiln_message message = {.type = KILN_MSG_TRIAL,
                            .trial = {.trial = kiln_str_from(id),
                                      .attempt = 1,
                                      .lease = h->lease,
                                      .job = kiln_str_from(h->job->id),
                                      .artefact = {.size = 4096},
                                      .reference = {.size = 65536},
                                      .policy = {.samples_min = 5,
                                                 .samples_max = 20,
                                                 .interval = 0.01,
                                                 .sample_ns = 1000000,
                                                 .total_ns = 50000000}}};
    memset(&message.trial.artefact.digest, 1, sizeof message.trial.artefact.digest);
    memset(&message.trial.reference.digest, 2, sizeof message.trial.reference.digest);
    send_to_tracker(h->tuner, &message);
}

static void on_grant(peer *tuner, const kiln_msg_lease_grant *grant) {
    swarm *s = tuner->swarm;
    uint32_t board = 0;
    request *r = answered(s, grant->request);
    if (!r) return; /* told again */
    for (size_t i = sizeof "board-" - 1; i < grant->board.size; i++)
        board = board * 10 + (uint32_t)(grant->board.data[i] - '0');
    KILN_CHECK(board < s->options.boards);
    held *h = &s->held[board];
    s->counts.grants++;
    s->counts.breaches += h->lease != 0;
    if (s->trials == 0) {
        release(tuner, grant->lease);
    } else {
        *h = (held){.lease = grant->lease, .left = grant->trials, .tuner = tuner, .job = r->job};
        send_trial(s, board);
    }
    keep_asking(s);
}

static void on_result(peer *tuner, const kiln_msg_trial_result *result) {
    swarm *s = tuner->swarm;
    unsigned board = 0;
    unsigned long long trial = 0;
    if (result->trial.size != 32 || sscanf(result->trial.data, "%8x%24llx", &board, &trial) != 2 ||
        board >= s->options.boards)
        return;
    held *h = &s->held[board];
    if (h->lease != result->lease || h->trial != trial) return; /* of a lease that was lost */
    s->counts.results++;
    kiln_message ack = {
        .type = KILN_MSG_TRIAL_ACK,
        .trial_ack = {.trial = result->trial, .attempt = result->attempt, .lease = result->lease}};
    send_to_tracker(tuner, &ack);
    if (h->left > 0) {
        send_trial(s, board);
        return;
    }
    *h = (held){0};
    release(tuner, result->lease);
}

/* Leases that end by our own release are not among those held any more. */
static void on_lost(swarm *s, uint64_t lease) {
    for (uint32_t i = 0; s->trials && i < s->options.boards; i++) {
        if (s->held[i].lease != lease) continue;
        s->held[i] = (held){0};
        s->counts.lost++;
    }
}

static void on_assigned(peer *tuner, kiln_str id) {
    swarm *s = tuner->swarm;
    for (uint32_t i = 0; i < s->options.clients; i++) {
        job *j = &s->job[i];
        if (!kiln_str_is(id, j->id)) continue;
        s->counts.jobs += j->tuner == NULL;
        j->tuner = tuner;
    }
    keep_asking(s);
}

static void tuner_heard(peer *p, const kiln_message *message) {
    swarm *s = p->swarm;
    if (message->type == KILN_MSG_LEASE_GRANT) on_grant(p, &message->lease_grant);
    if (message->type == KILN_MSG_PONG) s->counts.pongs += answered(s, message->pong.t_ns) != NULL;
    if (message->type == KILN_MSG_TRIAL_RESULT) on_result(p, &message->trial_result);
    if (message->type == KILN_MSG_JOB_ASSIGN) on_assigned(p, message->job_assign.job);
    if (message->type == KILN_MSG_LEASE_LOST && message->lease_lost.code != KILN_OK)
        on_lost(s, message->lease_lost.lease);
    if (message->type == KILN_MSG_ERROR && answered(s, message->error.lease)) {
        s->counts.refused++;
        keep_asking(s);
    }
}

/* Another run of the tuner comes back: what the last one asked for and held is void. */
static void tuner_gone(peer *p) {
    swarm *s = p->swarm;
    for (uint32_t i = 0; i < s->options.clients; i++) {
        if (s->job[i].tuner != p) continue;
        s->job[i].tuner = NULL;
        s->counts.jobs--;
    }
    for (uint32_t i = 0; i < s->options.boards; i++)
        if (s->held[i].tuner == p) s->held[i] = (held){0};
    for (uint32_t i = s->request.count; s->out > 0 && i-- > 0;)
        if (s->request.data[i].out && !s->request.data[i].job->tuner) answered(s, i + 1);
    kiln_status st = kiln_identity_create(p->boot);
    KILN_CHECK(st == NULL);
}

/* ---- Clients and boards ---- */

static void say_board_up(peer *p) {
    kiln_message up = {.type = KILN_MSG_BOARD_UP,
                       .board_up = {.key = kiln_str_from(p->node),
                                    .target = KILN_STR(TARGET),
                                    .slots = 1,
                                    .device = KILN_STR("a board that is made up"),
                                    .memory_bytes = UINT64_C(4) << 30}};
    /* Messages are handled in order: its answer means that the board is known. */
    kiln_message ping = {.type = KILN_MSG_PING};
    send_to_tracker(p, &up);
    send_to_tracker(p, &ping);
}

/* Clients with a key are members of this one alone. */
static kiln_str project_of(const peer *p) {
    if (p->swarm->options.keys) return KILN_STR("default");
    return kiln_str_from(p->number % 2 ? "a" : "b");
}

static void open_job(peer *p) {
    kiln_message open = {.type = KILN_MSG_JOB_OPEN,
                         .stream = kiln_conn_stream(p->conn),
                         .job_open = {.job = kiln_str_from(p->swarm->job[p->number].id),
                                      .spec = {.target = KILN_STR(TARGET),
                                               .searcher = KILN_STR("random"),
                                               .project = project_of(p),
                                               .trials = 1000000,
                                               .detach = true}}};
    send_to_tracker(p, &open);
}

static void client_heard(peer *p) {
    if (p->counted) return;
    p->counted = true;
    p->swarm->counts.opened++;
}

static void board_heard(peer *p, const kiln_message *message) {
    if (message->type == KILN_MSG_PONG && !p->counted) {
        p->counted = true;
        p->swarm->counts.boards++;
    }
    if (message->type != KILN_MSG_TRIAL) return;
    uint64_t samples[] = {1000000, 1000100, 1000200, 1000300, 1000400};
    p->swarm->counts.breaches += message->trial.lease < p->lease;
    p->lease = message->trial.lease;
    kiln_message result = {.type = KILN_MSG_TRIAL_RESULT,
                           .trial_result = {.trial = message->trial.trial,
                                            .attempt = message->trial.attempt,
                                            .lease = message->trial.lease,
                                            .outcome = KILN_OUTCOME_OK,
                                            .samples_ns = {samples, KILN_ARRAY_COUNT(samples)},
                                            .runs = 100,
                                            .stop = KILN_STOP_CONVERGED,
                                            .phase = KILN_PHASE_CHECK,
                                            .peak_flops = 1e11,
                                            .checked = true}};
    send_to_tracker(p, &result);
}

/* ---- Connections ---- */

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)hello, (void)welcome;
    peer *p = context;
    p->conn = conn;
    kiln_link_opened(&p->link, kiln_clock_ns());
    if (p->role == KILN_PEER_BOARD) say_board_up(p);
    if (p->role == KILN_PEER_CLIENT) open_job(p);
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    (void)conn;
    peer *p = context;
    kiln_link_heard(&p->link, kiln_clock_ns());
    if (p->role == KILN_PEER_BOARD) board_heard(p, message);
    if (p->role == KILN_PEER_TUNER) tuner_heard(p, message);
    if (p->role == KILN_PEER_CLIENT && message->type == KILN_MSG_JOB_STATE) client_heard(p);
}

static void gone(peer *p) {
    if (p->role == KILN_PEER_BOARD) p->swarm->counts.boards -= p->counted;
    if (p->role == KILN_PEER_CLIENT) p->swarm->counts.opened -= p->counted;
    p->counted = false;
    if (p->role == KILN_PEER_TUNER) tuner_gone(p);
    p->conn = p->dialled = NULL;
    p->swarm->counts.closed++;
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    peer *p = context;
    (void)why;
    if (p->swarm->closing || p->dialled != conn) return;
    if (p->conn) gone(p);
    kiln_link_closed(&p->link, kiln_clock_ns());
}

static const kiln_conn_handler handler = {on_opened, on_message, on_closed};

static void dial(peer *p) {
    swarm *s = p->swarm;
    kiln_credentials credentials = {0};
    if (s->options.keys) {
        kiln_key name = {.role = p->role, .generation = 1};
        memcpy(name.node, p->node, sizeof p->node);
        const kiln_key *key = kiln_keys_find(s->options.keys, &name);
        KILN_CHECK(key != NULL);
        credentials.has_key = true;
        credentials.key = *key;
    } else {
        credentials.has_token = true;
        memcpy(credentials.token, s->options.token, sizeof credentials.token);
    }
    const kiln_dial_options options = {.address = s->options.address,
                                       .role = p->role,
                                       .node = p->node,
                                       .boot = p->boot,
                                       .software = "bench-fleet",
                                       .credentials = &credentials,
                                       .handler = &handler,
                                       .context = p};
    p->dialled = kiln_net_dial(s->loop, &options);
}

static void cut(peer *p) {
    kiln_conn *conn = p->conn;
    if (!conn) return;
    gone(p);
    kiln_conn_close(conn, NULL);
}

static void on_tick(void *context) {
    swarm *s = context;
    uint64_t now_ns = kiln_clock_ns();
    kiln_message ping = {.type = KILN_MSG_PING};
    s->tick_turn = (s->tick_turn + 1) % TICK_PARTS;
    for (uint32_t i = s->tick_turn; i < s->peer.count; i += TICK_PARTS) {
        peer *p = s->peer.data[i];
        switch (kiln_link_tick(&p->link, now_ns)) {
        case KILN_LINK_NOTHING: break;
        case KILN_LINK_DIAL: dial(p); break;
        case KILN_LINK_PING: send_to_tracker(p, &ping); break;
        case KILN_LINK_HANG_UP: cut(p); break;
        }
    }
    kiln_timer_start(s->tick, TICK_NS);
}

/* ---- Load ---- */

static void on_pace(void *context, unsigned ready_for) {
    (void)ready_for;
    swarm *s = context;
    uint64_t expirations = 0, now_ns = kiln_clock_ns();
    ssize_t size = read(s->pace_fd, &expirations, sizeof expirations);
    KILN_CHECK(size < 0 || size == sizeof expirations);
    while (s->per_s > 0 && s->due_ns <= now_ns) {
        job *j = next_job(s);
        if (!j) return;
        ask(s, j, s->due_ns);
        kiln_vec_push(&s->late, kiln_clock_ns() - s->due_ns);
        s->due_ns += (uint64_t)(-log(1 - kiln_rand_unit(&s->rand)) / s->per_s * 1e9);
    }
}

static void set_load(swarm *s, uint32_t ahead, double per_s, uint32_t trials) {
    s->ahead = ahead;
    s->per_s = per_s;
    s->trials = trials;
    s->pings = false;
    s->due_ns = kiln_clock_ns();
    s->first_request = s->request.count;
    s->waits.count = s->late.count = 0;
    const struct timespec grain = {.tv_nsec = per_s > 0 ? (long)PACE_NS : 0};
    const struct itimerspec pace = {.it_interval = grain, .it_value = grain};
    KILN_CHECK(timerfd_settime(s->pace_fd, 0, &pace, NULL) == 0);
}

void swarm_load_closed(swarm *s, uint32_t ahead, uint32_t trials) {
    set_load(s, ahead, 0, trials);
    keep_asking(s);
}

void swarm_load_open(swarm *s, double per_s, uint32_t trials) { set_load(s, 0, per_s, trials); }

void swarm_load_pings(swarm *s, double per_s) {
    set_load(s, 0, per_s, 0);
    s->pings = true;
}

const uint64_t *swarm_waits(const swarm *s, uint32_t *out_count) {
    *out_count = s->waits.count;
    return s->waits.data;
}

const uint64_t *swarm_late(const swarm *s, uint32_t *out_count) {
    *out_count = s->late.count;
    return s->late.data;
}

const swarm_counts *swarm_counted(const swarm *s) { return &s->counts; }

uint32_t swarm_out(const swarm *s) { return s->out; }

void swarm_cut(swarm *s) {
    uint64_t now_ns = kiln_clock_ns();
    for (uint32_t i = 0; i < s->peer.count; i++) {
        peer *p = s->peer.data[i];
        if (!p->conn) continue;
        cut(p);
        kiln_link_closed(&p->link, now_ns);
    }
}

/* ---- Life ---- */

static void add_peers(swarm *s, kiln_peer_role role, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        peer *p = kiln_alloc(sizeof *p);
        p->swarm = s;
        p->role = role;
        p->number = i;
        swarm_name(role, i, p->node);
        kiln_status st = kiln_identity_create(p->boot);
        KILN_CHECK(st == NULL);
        kiln_link_init(&p->link, kiln_clock_ns(), kiln_rand_u64(&s->rand));
        kiln_vec_push(&s->peer, p);
    }
}

swarm *swarm_create(kiln_loop *loop, const swarm_options *options) {
    swarm *s = kiln_alloc(sizeof *s);
    s->loop = loop;
    s->options = *options;
    kiln_rand_init(&s->rand, options->seed);
    s->job = kiln_alloc(options->clients * sizeof *s->job);
    for (uint32_t i = 0; i < options->clients; i++)
        snprintf(s->job[i].id, sizeof s->job[i].id, "job-%u", i);
    s->held = kiln_alloc(options->boards * sizeof *s->held);
    s->pace_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    KILN_CHECK(s->pace_fd >= 0);
    s->pace = kiln_watch_create(loop, s->pace_fd, KILN_WATCH_READ, on_pace, s);
    s->tick = kiln_timer_create(loop, on_tick, s);
    kiln_timer_start(s->tick, 0);
    add_peers(s, KILN_PEER_TUNER, options->tuners);
    add_peers(s, KILN_PEER_CLIENT, options->clients);
    return s;
}

void swarm_add_boards(swarm *s) { add_peers(s, KILN_PEER_BOARD, s->options.boards); }

void swarm_close(swarm *s) {
    s->closing = true;
    for (uint32_t i = 0; i < s->peer.count; i++)
        if (s->peer.data[i]->conn) kiln_conn_close(s->peer.data[i]->conn, NULL);
    kiln_timer_destroy(s->tick);
    kiln_watch_destroy(s->pace);
    close(s->pace_fd);
}

void swarm_free(swarm *s) {
    for (uint32_t i = 0; i < s->peer.count; i++) kiln_free(s->peer.data[i]);
    kiln_vec_deinit(&s->peer);
    kiln_vec_deinit(&s->request);
    kiln_vec_deinit(&s->waits);
    kiln_vec_deinit(&s->late);
    kiln_free(s->job);
    kiln_free(s->held);
    kiln_free(s);
}
