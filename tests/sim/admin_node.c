/* An administrator: takes a board out of service, says so again until it is confirmed, and puts it
 * back.
 */
#include "base/alloc.h"
#include "tests/sim/world.h"

#define PATIENCE_NS (7 * SIM_S)

typedef struct admin_state {
    /* What the person wants; survives the program. */
    bool wanted;
    uint32_t board;
    kiln_board_service service;
    uint64_t sent_ns; /* in this run; 0: not yet */
} admin_state;

void *sim_admin_state(void) { return kiln_alloc(sizeof(admin_state)); }

void sim_admin_free(void *memory) { kiln_free(memory); }

static sim_node *board_of(sim_node *node) {
    const admin_state *s = node->state;
    return node->world->node.data[1 + s->board]; /* after the tracker */
}

static void send_order(sim_node *node) {
    admin_state *s = node->state;
    kiln_message order = {.type = KILN_MSG_BOARD_ORDER,
                          .stream = 1,
                          .board_order = {.board = kiln_str_from(board_of(node)->identity),
                                          .service = (uint32_t)s->service}};
    if (s->service == KILN_BOARD_IN_SERVICE) node->world->service[s->board] = KILN_BOARD_IN_SERVICE;
    s->sent_ns = node->world->now_ns;
    sim_send(node, node->conn, &order);
}

static void want(sim_node *node, uint64_t board, uint64_t service) {
    admin_state *s = node->state;
    s->wanted = true;
    s->board = (uint32_t)board;
    s->service = (kiln_board_service)service;
    sim_note(node->world, "board %u shall be %s", s->board, kiln_board_service_name(s->service));
    sim_tick_at(node, node->world->now_ns);
}

void sim_admin_order(sim_node *node) {
    admin_state *s = node->state;
    sim_world *world = node->world;
    if (s->wanted || s->service != KILN_BOARD_IN_SERVICE) return; /* one at a time */
    want(node, sim_between(world, 0, world->options.boards - 1),
         sim_chance(world, 500) ? KILN_BOARD_DRAINED : KILN_BOARD_QUARANTINED);
}

static void start(sim_node *node) {
    admin_state *s = node->state;
    s->sent_ns = 0;
    /* The release of a board that was lost with the program is thought of again. */
    if (!s->wanted && s->service != KILN_BOARD_IN_SERVICE)
        want(node, s->board, KILN_BOARD_IN_SERVICE);
    sim_tick_at(node, node->world->now_ns);
}

static void stop(sim_node *node) { (void)node; }

static void opened(sim_node *node, sim_conn *conn, const kiln_msg_hello *hello) {
    (void)conn, (void)hello;
    send_order(node);
}

static void release(sim_node *node, uint64_t board, uint64_t b) {
    (void)b;
    const admin_state *s = node->state;
    if (!s->wanted) want(node, board, KILN_BOARD_IN_SERVICE);
}

static void on_message(sim_node *node, sim_conn *conn, const kiln_message *message) {
    admin_state *s = node->state;
    sim_world *world = node->world;
    if (message->type == KILN_MSG_ERROR) s->sent_ns = 0; /* again, at the next tick */
    if (message->type != KILN_MSG_ANSWER || !s->wanted) return;
    s->wanted = false;
    world->service[s->board] = s->service;
    world->duty_lease[s->board] = sim_tracker_newest_lease(world);
    if (s->service != KILN_BOARD_IN_SERVICE)
        sim_at(world, sim_between(world, SIM_S, 20 * SIM_S), node, release, s->board, 0);
    sim_close(node, conn);
}

static void closed(sim_node *node, sim_conn *conn) {
    (void)conn;
    admin_state *s = node->state;
    s->sent_ns = 0;
}

static void tick(sim_node *node) {
    admin_state *s = node->state;
    uint64_t now_ns = node->world->now_ns;
    if (!s->wanted) return;
    if (node->conn && s->sent_ns && now_ns - s->sent_ns > PATIENCE_NS) {
        sim_close(node, node->conn);
        s->sent_ns = 0;
    } else if (!node->conn) {
        sim_dial(node);
    } else if (node->conn->shaken && !s->sent_ns) {
        send_order(node);
    }
    sim_tick_at(node, now_ns + SIM_S);
}

const sim_program sim_admin_program = {start, stop, opened, on_message, closed, tick};
