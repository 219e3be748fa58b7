/* What goes wrong in a history, until it is calm: a table of faults, drawn by weight. */
#include "base/check.h"
#include "tests/sim/world.h"

static sim_node *any_node(sim_world *world) {
    return world->node.data[sim_between(world, 0, world->node.count - 1)];
}

/* A board that runs; NULL when chance finds none. */
static sim_node *any_board(sim_world *world) {
    sim_node *node = any_node(world);
    return node->kind == SIM_BOARD && node->alive ? node : NULL;
}

static void kill_one(sim_world *world) {
    sim_node *node = any_node(world);
    /* Clients are killed less often: nobody is surprised that their jobs are cancelled. */
    if (!node->alive || (node->kind == SIM_CLIENT && !sim_chance(world, 200))) return;
    sim_kill(node, sim_chance(world, 300));
    if (node->kind == SIM_CLIENT) return;
    sim_start_later(node, sim_between(world, 10 * SIM_MS, 20 * SIM_S));
}

static void cut_one(sim_world *world) {
    if (world->conn.count == 0) return;
    sim_conn *conn = world->conn.data[sim_between(world, 0, world->conn.count - 1)];
    bool silent = sim_chance(world, 400);
    sim_note(world, "cut %llu%s", (unsigned long long)conn->id, silent ? " silently" : "");
    sim_cut(conn, silent);
}

/* Some nodes and the tracker do not reach each other for a while; nobody is told. */
static void partition(sim_world *world) {
    uint64_t until_ns = world->now_ns + sim_between(world, 100 * SIM_MS, 20 * SIM_S);
    sim_note(world, "partition until %llu", (unsigned long long)until_ns);
    for (uint32_t i = 0; i < world->node.count; i++) {
        sim_node *node = world->node.data[i];
        if (node->kind == SIM_TRACKER || !sim_chance(world, 500)) continue;
        node->cut_off_ns = until_ns;
        if (node->conn) sim_cut(node->conn, true);
    }
}

static void slow_network(sim_world *world) {
    world->slow_until_ns = world->now_ns + sim_between(world, SIM_S, 10 * SIM_S);
}

static void fill_disk(sim_world *world) {
    uint64_t until_ns = world->now_ns + sim_between(world, SIM_S, 5 * SIM_S);
    sim_node *node = sim_chance(world, 600) ? world->tracker[0] : any_node(world);
    if (!node->alive) return;
    sim_note(world, "the disk of %u, %u is full", node->kind, node->index);
    if (node->kind == SIM_TRACKER) world->full_until_ns = until_ns;
    if (node->kind == SIM_BOARD) sim_board_fill_disk(node, until_ns);
    if (node->kind == SIM_TUNER) sim_tuner_fill_disk(node, until_ns);
}

static void slow_disk(sim_world *world) {
    sim_note(world, "the disk of the database is slow");
    world->slow_disk_until_ns = world->now_ns + sim_between(world, SIM_S, 20 * SIM_S);
}

/* For so long that another tuner of the same records gets its jobs; now and then with what it
 * measured on the way to a slow disk. */
static void cut_off_tuner(sim_world *world) {
    sim_node *node = any_node(world);
    if (!world->options.share || node->kind != SIM_TUNER || !node->conn) return;
    node->cut_off_ns = world->now_ns + sim_between(world, 6 * SIM_S, 40 * SIM_S);
    sim_note(world, "tuner %u is cut off until %llu", node->index,
             (unsigned long long)node->cut_off_ns);
    sim_cut(node->conn, true);
    if (sim_chance(world, 600)) slow_disk(world);
}

static void take_claim(sim_world *world) {
    sim_node *node = any_node(world);
    if (world->options.share && node->kind == SIM_TUNER && node->alive)
        sim_tuner_lose_claim(node, world->now_ns + sim_between(world, SIM_S, 15 * SIM_S));
}

static void change_key(sim_world *world) {
    sim_node *node = any_node(world);
    if (node->kind == SIM_TRACKER) return;
    if (node->kind < SIM_CLIENT && sim_chance(world, 400))
        sim_keys_revoke(node);
    else
        sim_keys_rotate(node);
}

static void collect_blobs(sim_world *world) {
    sim_store_collect(world, sim_between(world, 0, 60 * SIM_S));
}

static void lose_lead(sim_world *world) {
    if (world->options.trackers < 2) return;
    for (uint32_t i = 0; i < world->options.trackers; i++) sim_tracker_lose_lead(world->tracker[i]);
}

static void make_sick(sim_world *world) {
    sim_node *board = any_board(world);
    if (board) sim_board_make_sick(board, world->now_ns + sim_between(world, SIM_S, 20 * SIM_S));
}

static void break_board(sim_world *world) {
    sim_node *board = any_board(world);
    if (board) sim_board_break(board, world->now_ns + sim_between(world, SIM_S, 10 * SIM_S));
}

static void heat(sim_world *world) {
    sim_node *board = any_board(world);
    if (board) sim_board_heat(board, world->now_ns + sim_between(world, SIM_S, 20 * SIM_S));
}

/* The machine stood still, or its clock was set: for its program that is the same. */
static void jump_clock(sim_world *world) {
    sim_node *node = any_node(world);
    if (!node->alive || node->kind >= SIM_CLIENT) return;
    uint64_t jump_ns =
        sim_between(world, 10 * SIM_MS, sim_chance(world, 200) ? 100 * SIM_S : 9 * SIM_S);
    sim_note(world, "a clock jumps by %llu", (unsigned long long)jump_ns);
    node->ahead_ns += jump_ns;
    node->jumped_ns = world->now_ns;
    sim_tick_at(node, sim_clock(node));
}

static void give_order(sim_world *world) {
    sim_node *admin = kiln_vec_last(&world->node);
    KILN_CHECK(admin->kind == SIM_ADMIN);
    if (admin->alive) sim_admin_order(admin);
}

static const struct {
    uint32_t weight;
    void (*happen)(sim_world *world);
} faults[] = {{30, kill_one},      {32, cut_one},   {7, partition},     {8, slow_network},
              {6, fill_disk},      {5, make_sick},  {4, break_board},   {3, heat},
              {6, jump_clock},     {4, give_order}, {4, slow_disk},     {8, lose_lead},
              {24, cut_off_tuner}, {8, change_key}, {8, collect_blobs}, {6, take_claim}};

static void one_fault(sim_node *none, uint64_t a, uint64_t world_at) {
    (void)none, (void)a;
    sim_world *world = (sim_world *)(uintptr_t)world_at;
    if (sim_is_calm(world)) return;
    uint32_t sum = 0, at = 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(faults); i++) sum += faults[i].weight;
    for (uint64_t draw = sim_between(world, 0, sum - 1); draw >= faults[at].weight; at++)
        draw -= faults[at].weight;
    faults[at].happen(world);
    double mean_ns = 60e9 / world->options.faults_per_minute;
    sim_at(world, sim_between(world, 1, (uint64_t)(2 * mean_ns)), NULL, one_fault, 0, world_at);
}

void sim_faults_start(sim_world *world) {
    if (world->options.faults_per_minute > 0)
        sim_at(world, SIM_S, NULL, one_fault, 0, (uintptr_t)world);
}
