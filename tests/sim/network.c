/* Connections: in order, as bytes, with delays; until they are cut, or silently swallow everything.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "tests/sim/world.h"

typedef struct packet {
    sim_conn *conn;
    int to;
    kiln_strbuf bytes; /* empty: the end of the connection */
} packet;

static int side_of(const sim_conn *conn, const sim_node *node) {
    return conn->side[1] == node ? 1 : 0;
}

sim_conn *sim_find_conn(sim_world *world, uint64_t id) {
    return id - 1 < world->conn.count ? world->conn.data[id - 1] : NULL; /* none is taken out */
}

static uint64_t draw_delay(sim_world *world) {
    uint64_t latency = world->options.latency_ns;
    uint64_t delay = sim_between(world, latency / 2, latency * 2);
    if (sim_chance(world, 10)) delay += sim_between(world, 0, 200 * SIM_MS);
    if (world->now_ns < world->slow_until_ns) delay += sim_between(world, 0, SIM_S);
    return delay;
}

static uint64_t arrival(sim_conn *conn, int to) {
    sim_world *world = conn->side[0]->world;
    uint64_t at = world->now_ns + draw_delay(world);
    if (at < conn->last_arrival_ns[to])
        at = conn->last_arrival_ns[to]; /* nothing overtakes in one connection */
    conn->last_arrival_ns[to] = at;
    return at - world->now_ns;
}

static bool is_there(const sim_conn *conn, int side) {
    return conn->open[side] && conn->side[side]->alive && conn->side[side]->run == conn->run[side];
}

/* Connections are kept until both sides let go and their last packet is through: freed with the
 * world. */
static void end_side(sim_conn *conn, int side) {
    sim_node *node = conn->side[side];
    bool was_there = is_there(conn, side);
    conn->open[side] = false;
    if (!was_there) return;
    if (node->conn == conn) node->conn = NULL;
    node->program->closed(node, conn);
}

static void deliver_bytes(packet *p) {
    sim_node *node = p->conn->side[p->to];
    kiln_frame_reader reader = {0};
    kiln_str input = kiln_strbuf_view(&p->bytes);
    kiln_frame frame;
    kiln_message message;
    bool ready = false;
    kiln_status st = kiln_frame_read(&reader, &input, &frame, &ready);
    if (!st && ready)
        st = kiln_message_decode(frame.type, frame.stream, frame.body, &node->world->scratch,
                                 &message);
    KILN_CHECK(st == NULL); /* the codec read what it wrote */
    KILN_CHECK(ready);
    sim_world *world = node->world;
    if (p->to == 1) sim_keys_check(p->conn);
    world->hash = kiln_hash64(p->bytes.data, p->bytes.size, world->hash ^ world->now_ns);
    if (world->trace) {
        kiln_strbuf line = {0};
        kiln_message_print(&message, &line);
        printf("%12.6f conn %llu -> side %d: %.400s\n", (double)world->now_ns / 1e9,
               (unsigned long long)p->conn->id, p->to, line.data);
        kiln_strbuf_deinit(&line);
    }
    node->program->message(node, p->conn, &message);
    kiln_frame_reader_deinit(&reader);
}

static void arrive(sim_node *none, uint64_t packet_at, uint64_t b) {
    (void)none, (void)b;
    packet *p = (packet *)(uintptr_t)packet_at;
    if (is_there(p->conn, p->to) && !p->conn->silent) {
        if (p->bytes.size)
            deliver_bytes(p);
        else
            end_side(p->conn, p->to);
    }
    kiln_strbuf_deinit(&p->bytes);
    kiln_free(p);
}

static void post(sim_conn *conn, int to, kiln_strbuf bytes) {
    packet *p = kiln_alloc(sizeof *p);
    *p = (packet){.conn = conn, .to = to, .bytes = bytes};
    sim_at(conn->side[0]->world, arrival(conn, to), NULL, arrive, (uintptr_t)p, 0);
}

void sim_send(sim_node *from, sim_conn *conn, const kiln_message *message) {
    sim_world *world = from->world;
    int to = 1 - side_of(conn, from);
    if (!conn->open[1 - to] || conn->silent) return;
    bool again = sim_chance(world, world->options.repeat_permille);
    for (int i = 0; i <= again; i++) {
        kiln_strbuf bytes = {0};
        kiln_status st = kiln_frame_write_message(&bytes, message);
        if (st) {
            sim_fail(world, "a message that cannot be sent: %s", kiln_status_text(st));
            kiln_status_free(st);
            kiln_strbuf_deinit(&bytes);
            return;
        }
        post(conn, to, bytes);
    }
}

void sim_close(sim_node *node, sim_conn *conn) {
    int side = side_of(conn, node);
    if (!conn->open[side]) return;
    conn->open[side] = false;
    if (node->conn == conn) node->conn = NULL;
    if (!conn->silent) post(conn, 1 - side, (kiln_strbuf){0});
}

void sim_refuse(sim_conn *conn) {
    end_side(conn, 1);
    if (!conn->silent) post(conn, 0, (kiln_strbuf){0});
}

void sim_cut(sim_conn *conn, bool silent) {
    if (silent) {
        conn->silent = true;
        return;
    }
    for (int side = 0; side < 2; side++)
        if (!conn->silent) post(conn, side, (kiln_strbuf){0});
}

/* The dialling side hears of success one delay after the tracker does. */
static void dialler_opened(sim_node *node, uint64_t conn_at, uint64_t b) {
    (void)b;
    sim_conn *conn = (sim_conn *)(uintptr_t)conn_at;
    if (node->conn != conn || !is_there(conn, 0) || conn->silent) return;
    conn->shaken = true;
    node->program->opened(node, conn, NULL);
}

/* No answer at all: dialling gives up, as proto/net does. */
static void dial_timed_out(sim_node *node, uint64_t conn_at, uint64_t b) {
    (void)node, (void)b;
    sim_conn *conn = (sim_conn *)(uintptr_t)conn_at;
    if (conn->shaken || !conn->open[0]) return;
    if (!conn->silent) post(conn, 1, (kiln_strbuf){0});
    end_side(conn, 0);
}

static void tracker_opened(sim_node *none, uint64_t conn_at, uint64_t b) {
    (void)none, (void)b;
    sim_conn *conn = (sim_conn *)(uintptr_t)conn_at;
    sim_node *node = conn->side[0], *tracker = conn->side[1];
    if (!is_there(conn, 0) || node->cut_off_ns > node->world->now_ns) return; /* it will give up */
    if (!sim_tracker_serves(tracker)) {
        end_side(conn, 0); /* refused */
        return;
    }
    const sim_node *as = node->name_of ? node->name_of : node;
    kiln_msg_hello hello = {
        .version_min = 1,
        .version_max = node->world->options.upgrades ? KILN_PROTO_VERSION_MAX : 1,
        .role = sim_role_of(node->role_of ? node->role_of : node),
        .node = kiln_str_from(as->identity),
        .boot = kiln_str_from(node->boot_of ? node->boot_of->boot : as->boot),
    };
    if (!sim_keys_let_in(conn, &hello)) {
        end_side(conn, 0);
        return;
    }
    conn->open[1] = true;
    conn->run[1] = tracker->run;
    uint64_t delay = arrival(conn, 0); /* before anything that the tracker says next */
    sim_at(node->world, delay, node, dialler_opened, conn_at, 0);
    tracker->program->opened(tracker, conn, &hello);
}

void sim_dial(sim_node *node) {
    sim_world *world = node->world;
    sim_conn *conn = kiln_alloc(sizeof *conn);
    *conn = (sim_conn){
        .id = ++world->last_conn,
        .side = {node, world->tracker[sim_between(world, 0, world->options.trackers - 1)]},
        .run = {node->run, 0},
        .open = {true, false}};
    memcpy(conn->boot, node->boot, sizeof conn->boot);
    kiln_vec_push(&world->conn, conn);
    node->conn = conn;
    sim_at(world, draw_delay(world), NULL, tracker_opened, (uintptr_t)conn, 0);
    sim_at(world, 5 * SIM_S, node, dial_timed_out, (uintptr_t)conn, 0);
}

void sim_network_deinit(sim_world *world) {
    for (uint32_t i = 0; i < world->queue.count; i++) {
        if (world->queue.data[i].fire != arrive) continue;
        packet *p = (packet *)(uintptr_t)world->queue.data[i].a;
        kiln_strbuf_deinit(&p->bytes);
        kiln_free(p);
    }
    for (uint32_t i = 0; i < world->conn.count; i++) kiln_free(world->conn.data[i]);
    kiln_vec_deinit(&world->conn);
}
