/* Somebody with a client's key who wants more: says HELLO in the name of others, and sends what a
 * client may not send, or speaks of leases and jobs that are not its own. Every other one is a
 * member of all projects. The tracker's shell checks that nothing comes of it (tracker_node.c). */
#include <string.h>

#include "base/alloc.h"
#include "tests/sim/world.h"

/* A signer of its own. */
#define ROGUE_HALF "7777777777777777777777777777777777777777777777777777777777777777"

typedef struct rogue_state {
    uint32_t sent; /* on this connection */
} rogue_state;

void *sim_rogue_state(void) { return kiln_alloc(sizeof(rogue_state)); }

bool sim_rogue_is_member(const sim_world *world) { return world->options.seed % 2 == 0; }

void sim_rogue_free(void *memory) { kiln_free(memory); }

/* ---- What it says ---- */

static const kiln_message_type beyond[] = {
    KILN_MSG_BOARD_UP,     KILN_MSG_BOARD_STATE, KILN_MSG_JOB_EVENT,   KILN_MSG_JOB_DONE,
    KILN_MSG_LEASE_REQ,    KILN_MSG_LEASE_GRANT, KILN_MSG_LEASE_RENEW, KILN_MSG_LEASE_RELEASE,
    KILN_MSG_LEASE_LOST,   KILN_MSG_TRIAL,       KILN_MSG_TRIAL_EVENT, KILN_MSG_TRIAL_RESULT,
    KILN_MSG_TRIAL_ACK,    KILN_MSG_JOB_ASSIGN,  KILN_MSG_BOARD_ORDER, KILN_MSG_TAIL,
    KILN_MSG_LINES,        KILN_MSG_JOB_STATE,   KILN_MSG_CANCEL,      KILN_MSG_JOB_OPEN,
    KILN_MSG_PROJECT_ORDER};

/* Of a lease that somebody has, and of a trial and a job that somebody runs, where it has heard of
 * any. */
static kiln_message draw_message(sim_node *node) {
    sim_world *world = node->world;
    const sim_heard *heard = &world->heard[sim_between(world, 0, SIM_HEARD - 1)];
    const kiln_str trial = kiln_str_from(heard->trial), job = kiln_str_from(world->last_job);
    const kiln_str board = kiln_str_from(world->node.data[1]->identity);
    const uint64_t lease = heard->lease + sim_between(world, 0, 2);
    kiln_message m = {.type = beyond[sim_between(world, 0, KILN_ARRAY_COUNT(beyond) - 1)],
                      .stream = 1};
    /* A member may open jobs, and may not end those of others. */
    if (m.type == KILN_MSG_JOB_OPEN && sim_rogue_is_member(world)) m.type = KILN_MSG_CANCEL;
    switch ((int)m.type) {
    case KILN_MSG_BOARD_UP:
        m.board_up = (kiln_msg_board_up){
            .key = KILN_STR("board"), .target = KILN_STR(SIM_TARGET), .slots = 1};
        break;
    case KILN_MSG_BOARD_STATE: m.board_state.sick = true; break;
    case KILN_MSG_JOB_EVENT: m.job_event.job = job; break;
    case KILN_MSG_JOB_DONE: m.job_done.job = job; break;
    case KILN_MSG_LEASE_REQ:
        m.lease_req = (kiln_msg_lease_req){
            .request = 1, .job = job, .target = KILN_STR(SIM_TARGET), .trials = 1, .ttl_ms = 10000};
        break;
    case KILN_MSG_LEASE_GRANT:
        m.lease_grant = (kiln_msg_lease_grant){.request = 1, .lease = lease, .board = board};
        break;
    case KILN_MSG_LEASE_RENEW: m.lease_renew.lease = lease; break;
    case KILN_MSG_LEASE_RELEASE: m.lease_release.lease = lease; break;
    case KILN_MSG_LEASE_LOST: m.lease_lost.lease = lease; break;
    case KILN_MSG_TRIAL:
        m.trial = (kiln_msg_trial){.trial = trial, .attempt = 1, .lease = lease, .job = job};
        break;
    case KILN_MSG_TRIAL_EVENT:
        m.trial_event = (kiln_msg_trial_event){.trial = trial, .attempt = 1, .lease = lease};
        break;
    case KILN_MSG_TRIAL_RESULT:
        m.trial_result = (kiln_msg_trial_result){.trial = trial,
                                                 .attempt = heard->attempt,
                                                 .lease = heard->lease,
                                                 .text = KILN_STR("a lie")};
        break;
    case KILN_MSG_TRIAL_ACK:
        m.trial_ack = (kiln_msg_trial_ack){trial, heard->attempt, heard->lease};
        break;
    case KILN_MSG_JOB_ASSIGN: m.job_assign.job = job; break;
    case KILN_MSG_BOARD_ORDER:
        m.board_order = (kiln_msg_board_order){.board = board, .service = KILN_BOARD_QUARANTINED};
        break;
    case KILN_MSG_TAIL: m.tail.board = board; break;
    case KILN_MSG_JOB_STATE: m.job_state.job = job; break;
    case KILN_MSG_CANCEL:
        m.cancel = (kiln_msg_cancel){.scope = KILN_CANCEL_LEASE, .lease = lease};
        if (sim_chance(world, 500))
            m.cancel = (kiln_msg_cancel){.scope = KILN_CANCEL_JOB, .id = job};
        break;
    case KILN_MSG_JOB_OPEN:
        m.job_open.job = job;
        m.job_open.spec.target = KILN_STR(SIM_TARGET);
        m.job_open.spec.searcher = KILN_STR("random");
        m.job_open.spec.project = KILN_STR("even");
        break;
    case KILN_MSG_PROJECT_ORDER:
        m.project_order = (kiln_msg_project_order){.project = KILN_STR("even"),
                                                   .act = KILN_PROJECT_ADD,
                                                   .person = kiln_str_from(node->identity),
                                                   .role = KILN_MEMBER_ADMIN};
        if (lease % 2)
            m.project_order = (kiln_msg_project_order){.project = KILN_STR("even"),
                                                       .act = KILN_PROJECT_TRUST,
                                                       .signer = KILN_STR(ROGUE_HALF)};
        break;
    default: break;
    }
    return m;
}

/* ---- The program ---- */

static void dial(sim_node *node) {
    sim_world *world = node->world;
    const sim_node *other = world->node.data[sim_between(world, 0, world->node.count - 1)];
    const uint64_t pretends = other->kind == SIM_TRACKER ? 3 : sim_between(world, 0, 4);
    node->name_of = pretends < 2 ? other : NULL;
    node->boot_of = pretends == 3 && other->kind == SIM_TUNER ? other : NULL;
    node->role_of = pretends == 1 || pretends == 2 ? other : NULL;
    ((rogue_state *)node->state)->sent = 0;
    sim_dial(node);
}

static void start(sim_node *node) { sim_tick_at(node, node->world->now_ns); }

static void stop(sim_node *node) { (void)node; }

static void opened(sim_node *node, sim_conn *conn, const kiln_msg_hello *hello) {
    (void)conn, (void)hello;
    sim_tick_at(node, node->world->now_ns);
}

static void on_message(sim_node *node, sim_conn *conn, const kiln_message *message) {
    (void)conn;
    if (message->type != KILN_MSG_ERROR && message->type != KILN_MSG_LEASE_LOST &&
        message->type != KILN_MSG_JOB_CLOSE)
        sim_fail(node->world, "a rogue is told %s", kiln_message_name(message->type));
}

static void closed(sim_node *node, sim_conn *conn) { (void)node, (void)conn; }

static void tick(sim_node *node) {
    sim_world *world = node->world;
    rogue_state *s = node->state;
    if (sim_is_calm(world)) {
        if (node->conn) sim_close(node, node->conn);
        return;
    }
    if (!node->conn) {
        dial(node);
    } else if (node->conn->shaken) {
        const kiln_message message = draw_message(node);
        sim_send(node, node->conn, &message);
        if (++s->sent > 20) sim_close(node, node->conn);
    }
    sim_tick_at(node, world->now_ns + sim_between(world, 100 * SIM_MS, 3 * SIM_S));
}

const sim_program sim_rogue_program = {start, stop, opened, on_message, closed, tick};
