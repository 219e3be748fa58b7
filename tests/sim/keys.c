/* Keys: each node has one of its own, the trackers read the list of all. They are rotated and
 * revoked while everything runs; who holds one that is no longer in force is cut. */
#include <string.h>

#include "tests/sim/world.h"

#define NOTICE_NS SIM_S /* until trackers have read a list that changed */

kiln_peer_role sim_role_of(const sim_node *node) {
    static const kiln_peer_role role[] = {
        [SIM_TRACKER] = KILN_PEER_TRACKER, [SIM_BOARD] = KILN_PEER_BOARD,
        [SIM_TUNER] = KILN_PEER_TUNER,     [SIM_CLIENT] = KILN_PEER_CLIENT,
        [SIM_ADMIN] = KILN_PEER_ADMIN,     [SIM_ROGUE] = KILN_PEER_CLIENT};
    return role[node->kind];
}

static kiln_key name_of(const sim_node *node) {
    kiln_key name = {.role = sim_role_of(node)};
    memcpy(name.node, node->identity, sizeof node->identity);
    return name;
}

/* The next generation of the node's key, in the list at once, in its own file when it has come
 * there. */
static void add_key(sim_node *node, kiln_key *out_key) {
    sim_world *world = node->world;
    kiln_key name = name_of(node);
    const kiln_key *made = NULL;
    uint64_t secret[KILN_KEY_BYTES / sizeof(uint64_t)];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(secret); i++) secret[i] = kiln_rand_u64(&world->rand);
    memcpy(name.secret, secret, sizeof name.secret);
    kiln_status st = kiln_keys_add(&world->key_list, &name, &made);
    if (st) sim_fail(world, "no new key: %s", kiln_status_text(st));
    kiln_status_free(st);
    if (made) *out_key = *made;
}

/* As trackers read it. */
static void read_list(sim_world *world) {
    kiln_strbuf text = {0};
    kiln_keys_print(&world->key_list, &text);
    kiln_keys_deinit(&world->keys);
    kiln_status st = kiln_keys_parse(kiln_strbuf_view(&text), &world->keys);
    if (st) sim_fail(world, "the list of keys: %s", kiln_status_text(st));
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
}

static bool is_in_force(const sim_world *world, const kiln_key *key) {
    const kiln_key *known = kiln_keys_find(&world->keys, key);
    return known && memcmp(known->secret, key->secret, sizeof key->secret) == 0;
}

static void on_list(sim_node *none, uint64_t a, uint64_t world_at) {
    (void)none, (void)a;
    sim_world *world = (sim_world *)(uintptr_t)world_at;
    read_list(world);
    for (uint32_t i = 0; i < world->conn.count; i++) {
        sim_conn *conn = world->conn.data[i];
        if (conn->open[1] && !is_in_force(world, &conn->key)) sim_refuse(conn);
    }
}

static void list_changed(sim_world *world) {
    sim_at(world, sim_between(world, 0, NOTICE_NS), NULL, on_list, 0, (uintptr_t)world);
}

void sim_keys_init(sim_world *world) {
    kiln_map_init(&world->revoked);
    for (uint32_t i = 0; i < world->node.count; i++)
        if (world->node.data[i]->kind != SIM_TRACKER)
            add_key(world->node.data[i], &world->node.data[i]->key);
    read_list(world);
}

bool sim_keys_let_in(sim_conn *conn, const kiln_msg_hello *hello) {
    const sim_node *node = conn->side[0];
    sim_world *world = node->world;
    if (!is_in_force(world, &node->key)) return false;
    conn->key = node->key;
    kiln_status st = kiln_key_check_hello(kiln_keys_find(&world->keys, &node->key), hello);
    bool lets_in = !st;
    kiln_status_free(st);
    if (lets_in && (!kiln_str_is(hello->node, node->identity) || hello->role != sim_role_of(node)))
        sim_fail(world, "a %s is let in under the name or as the role of another",
                 kiln_peer_role_name(sim_role_of(node)));
    return lets_in;
}

static kiln_str bytes_of(const kiln_key *key) {
    return (kiln_str){(const char *)key->secret, sizeof key->secret};
}

void sim_keys_check(const sim_conn *conn) {
    sim_world *world = conn->side[0]->world;
    uint64_t until_ns = 0;
    bool is_revoked = kiln_map_find(&world->revoked, bytes_of(&conn->key), &until_ns);
    if (!is_in_force(world, &conn->key) || (is_revoked && world->now_ns > until_ns))
        sim_fail(world, "a message comes under a key that is not in force");
}

/* ---- Changes ---- */

/* By this time no tracker may hear it any more. */
static void note_revoked(sim_world *world, const kiln_key *key) {
    kiln_map_put(&world->revoked, bytes_of(key), world->now_ns + NOTICE_NS);
}

/* The new key comes to its node; in a rotation the old one goes later. */
static void deliver(sim_node *none, uint64_t node_at, uint64_t revokes) {
    (void)none;
    sim_node *node = (sim_node *)(uintptr_t)node_at;
    sim_world *world = node->world;
    const kiln_key old = node->key;
    node->key = node->next_key;
    node->key_changes = false;
    if (!revokes) return;
    note_revoked(world, &old);
    uint32_t count = kiln_keys_revoke(&world->key_list, &old);
    if (count != 1) sim_fail(world, "%u keys are revoked instead of one", count);
    list_changed(world);
}

static void give_later(sim_node *node, uint64_t delay_ns, bool revokes) {
    add_key(node, &node->next_key);
    list_changed(node->world);
    sim_at(node->world, delay_ns, NULL, deliver, (uintptr_t)node, revokes);
}

void sim_keys_rotate(sim_node *node) {
    if (node->key_changes) return;
    sim_note(node->world, "the key of %s is rotated", node->identity);
    node->key_changes = true;
    give_later(node, sim_between(node->world, 0, 10 * SIM_S), true);
}

static void trust_again(sim_node *none, uint64_t node_at, uint64_t b) {
    (void)none, (void)b;
    sim_node *node = (sim_node *)(uintptr_t)node_at;
    give_later(node, sim_between(node->world, 0, 3 * SIM_S), false);
}

void sim_keys_revoke(sim_node *node) {
    sim_world *world = node->world;
    const kiln_key name = name_of(node);
    if (node->key_changes) return;
    sim_note(world, "the key of %s is revoked", node->identity);
    node->key_changes = true;
    note_revoked(world, &node->key);
    kiln_keys_revoke(&world->key_list, &name);
    list_changed(world);
    sim_at(world, sim_between(world, SIM_S, 20 * SIM_S), NULL, trust_again, (uintptr_t)node, 0);
}

void sim_keys_deinit(sim_world *world) {
    kiln_keys_deinit(&world->key_list);
    kiln_keys_deinit(&world->keys);
    kiln_map_deinit(&world->revoked);
}
