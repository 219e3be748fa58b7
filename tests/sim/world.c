#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"

/* ---- The queue: a binary heap ---- */

static bool is_before(const sim_event *a, const sim_event *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(sim_event *a, sim_event *b) {
    sim_event kept = *a;
    *a = *b;
    *b = kept;
}

void sim_at(sim_world *world, uint64_t delay_ns, sim_node *node, sim_fire fire, uint64_t a,
            uint64_t b) {
    sim_event event = {
        .at_ns = world->now_ns + delay_ns,
        .order = ++world->last_order,
        .node = node,
        .run = node ? node->run : 0,
        .fire = fire,
        .a = a,
        .b = b,
    };
    kiln_vec_push(&world->queue, event);
    sim_event *heap = world->queue.data;
    for (uint32_t i = world->queue.count - 1; i && is_before(&heap[i], &heap[(i - 1) / 2]);
         i = (i - 1) / 2)
        swap(&heap[i], &heap[(i - 1) / 2]);
}

static sim_event take_first(sim_world *world) {
    sim_event *heap = world->queue.data;
    sim_event first = heap[0];
    heap[0] = kiln_vec_pop(&world->queue);
    for (uint32_t i = 0;;) {
        uint32_t least = i, left = 2 * i + 1, right = left + 1;
        if (left < world->queue.count && is_before(&heap[left], &heap[least])) least = left;
        if (right < world->queue.count && is_before(&heap[right], &heap[least])) least = right;
        if (least == i) return first;
        swap(&heap[i], &heap[least]);
        i = least;
    }
}

/* ---- Chance, notes ---- */

bool sim_chance(sim_world *world, uint32_t permille) {
    return kiln_rand_below(&world->rand, 1000) < permille;
}

uint64_t sim_between(sim_world *world, uint64_t low, uint64_t high) {
    return low + kiln_rand_below(&world->rand, high - low + 1);
}

bool sim_is_calm(const sim_world *world) { return world->now_ns >= world->calm_ns; }

void sim_note(sim_world *world, const char *format, ...) {
    kiln_strbuf line = {0};
    va_list args;
    va_start(args, format);
    kiln_strbuf_vprintf(&line, format, args);
    va_end(args);
    world->hash = kiln_hash64(line.data, line.size, world->hash ^ world->now_ns);
    if (world->trace) printf("%12.6f %s\n", (double)world->now_ns / 1e9, line.data);
    kiln_strbuf_deinit(&line);
}

void sim_fail(sim_world *world, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (!world->failed) {
        kiln_strbuf_printf(&world->failure, "at %.6f s: ", (double)world->now_ns / 1e9);
        kiln_strbuf_vprintf(&world->failure, format, args);
    }
    va_end(args);
    world->failed = true;
}

/* ---- Programs ---- */

static const char *const kind_name[] = {"tracker", "board", "tuner", "client", "admin", "rogue"};

void sim_check_work(sim_node *node, const kiln_thread_work *before) {
    sim_world *world = node->world;
    const kiln_thread_work work = kiln_thread_work_since(before);
    kiln_thread_work_max(&world->most, &work);
    if (work.hashed_bytes > SIM_STEP_HASHED_MAX || work.rows > SIM_STEP_ROWS_MAX)
        sim_fail(world, "a step of %s %u hashes %llu bytes and walks %llu rows",
                 kind_name[node->kind], node->index, (unsigned long long)work.hashed_bytes,
                 (unsigned long long)work.rows);
}

static void draw_identity(sim_world *world, char out_text[KILN_HASH128_TEXT]) {
    kiln_hash128_print((kiln_hash128){kiln_rand_u64(&world->rand), kiln_rand_u64(&world->rand)},
                       out_text);
}

void sim_start(sim_node *node) {
    if (node->alive) return;
    node->alive = true;
    node->run++;
    node->conn = NULL;
    node->tick_ns = UINT64_MAX;
    draw_identity(node->world, node->boot);
    sim_note(node->world, "start %s %u", kind_name[node->kind], node->index);
    node->program->start(node);
}

void sim_kill(sim_node *node, bool silent) {
    if (!node->alive) return;
    sim_world *world = node->world;
    sim_note(world, "kill %s %u%s", kind_name[node->kind], node->index, silent ? " silently" : "");
    node->alive = false;
    for (uint32_t i = 0; i < world->conn.count; i++) {
        sim_conn *conn = world->conn.data[i];
        for (int side = 0; side < 2; side++) {
            if (conn->side[side] != node || !conn->open[side]) continue;
            if (silent) conn->silent = true;
            sim_close(node, conn);
        }
    }
    node->program->stop(node);
}

uint64_t sim_clock(const sim_node *node) { return node->world->now_ns + node->ahead_ns; }

static void on_tick(sim_node *node, uint64_t at_ns, uint64_t b) {
    (void)b;
    if (node->tick_ns != at_ns) return; /* an earlier one took its place */
    node->tick_ns = UINT64_MAX;
    node->program->tick(node);
}

void sim_tick_at(sim_node *node, uint64_t at_ns) {
    sim_world *world = node->world;
    if (at_ns == UINT64_MAX) return;
    at_ns = at_ns > node->ahead_ns ? at_ns - node->ahead_ns : 0;
    /* A step that wants to be asked again at once would stop the clock. */
    if (at_ns <= world->now_ns) at_ns = world->now_ns + SIM_MS;
    if (at_ns >= node->tick_ns) return;
    node->tick_ns = at_ns;
    sim_at(world, at_ns - world->now_ns, node, on_tick, at_ns, 0);
}

static sim_node *add_node(sim_world *world, sim_kind kind, uint32_t index,
                          const sim_program *program, void *state) {
    sim_node *node = kiln_alloc(sizeof *node);
    *node = (sim_node){
        .world = world, .kind = kind, .index = index, .program = program, .state = state};
    draw_identity(world, node->identity);
    kiln_vec_push(&world->node, node);
    return node;
}

static void start_at(sim_node *none, uint64_t node_at, uint64_t b) {
    (void)none, (void)b;
    sim_start((sim_node *)(uintptr_t)node_at);
}

void sim_start_later(sim_node *node, uint64_t delay_ns) {
    sim_at(node->world, delay_ns, NULL, start_at, (uintptr_t)node, 0);
}

/* ---- A history ---- */

/* Either one project weighs more, or it comes when the other has had boards for long. */
static void draw_crowd(sim_world *world) {
    sim_options *o = &world->options;
    o->crowd = true;
    o->quotas = false;
    o->stranger = UINT32_MAX;
    o->boards = (uint32_t)sim_between(world, 1, 2);
    o->clients = SIM_CLIENTS_MAX;
    o->trials = (uint32_t)sim_between(world, 200, 350);
    o->faults_per_minute = (double)sim_between(world, 0, 4); /* more of them end most jobs early */
    o->slow_permille = 0;
    o->weight[0] = 1;
    o->weight[1] = 4;
    if (!sim_chance(world, 500)) return;
    o->boards = o->weight[1] = 1;
    o->late_ns = 200 * SIM_S;
}

static void draw_options(sim_world *world, uint64_t seed) {
    kiln_rand_init(&world->rand, seed);
    world->options = (sim_options){
        .seed = seed,
        .trackers = sim_chance(world, 300) ? 2 : 1,
        .boards = (uint32_t)sim_between(world, 1, SIM_BOARDS_MAX),
        .tuners = (uint32_t)sim_between(world, 1, SIM_TUNERS_MAX - 1),
        .clients = (uint32_t)sim_between(world, 1, SIM_CLIENTS_MAX),
        .builders = (uint32_t)sim_between(world, 0, 4),
        .trials = (uint32_t)sim_between(world, 1, 160),
        .tasks = (uint32_t)sim_between(world, 1, 4),
        .latency_ns = sim_between(world, 20, 20000) * KILN_NS_PER_US,
        .faults_per_minute = (double)sim_between(world, 0, 90),
        .hang_permille = (uint32_t)sim_between(world, 0, 30),
        .crash_permille = (uint32_t)sim_between(world, 0, 60),
        .wrong_permille = (uint32_t)sim_between(world, 0, 60),
        .repeat_permille = (uint32_t)sim_between(world, 0, 20),
        .drift_permille = (uint32_t)sim_between(world, 0, 100),
        .lie_permille = sim_chance(world, 300) ? (uint32_t)sim_between(world, 1, 200) : 0,
        .slow_permille = 200,
        .blob_rate = sim_chance(world, 250) ? sim_between(world, 20, 1000) * 1000000 : 0,
        .rogue = sim_chance(world, 300),
        .share = sim_chance(world, 400),
    };
    if (world->options.share)
        world->options.tuners = (uint32_t)sim_between(world, 2, SIM_TUNERS_MAX);
    if (sim_chance(world, 250)) {
        world->options.deaf_permille = (uint32_t)sim_between(world, 1, 800);
        world->options.late_permille = (uint32_t)sim_between(world, 1, 100);
    }
    sim_tenants_draw(world);
    if (sim_chance(world, 180)) draw_crowd(world);
}

void sim_world_init(sim_world *world, uint64_t seed, bool upgrades, bool trace) {
    *world = (sim_world){.trace = trace, .calm_ns = 120 * SIM_S};
    kiln_arena_init(&world->scratch, 0);
    kiln_map_init(&world->granted);
    kiln_map_init(&world->newest);
    kiln_map_init(&world->started);
    kiln_map_init(&world->tried);
    sim_store_init(&world->store);
    world->database = sim_database_create();
    draw_options(world, seed);
    world->options.upgrades = upgrades;
    if (world->options.share) world->shared = sim_records_create();
    const sim_options *o = &world->options;
    world->tracker[0] = add_node(world, SIM_TRACKER, 0, &sim_tracker_program, sim_tracker_state());
    for (uint32_t i = 0; i < o->boards; i++)
        add_node(world, SIM_BOARD, i, &sim_board_program, sim_board_state());
    for (uint32_t i = 0; i < o->tuners; i++)
        add_node(world, SIM_TUNER, i, &sim_tuner_program, sim_tuner_state());
    for (uint32_t i = 0; i < o->clients; i++)
        add_node(world, SIM_CLIENT, i, &sim_client_program, sim_client_state());
    for (uint32_t i = 1; i < o->trackers; i++)
        world->tracker[i] =
            add_node(world, SIM_TRACKER, i, &sim_tracker_program, sim_tracker_state());
    if (o->rogue) add_node(world, SIM_ROGUE, 0, &sim_rogue_program, sim_rogue_state());
    if (o->upgrades) add_node(world, SIM_ADMIN, 1, &sim_upgrader_program, sim_upgrader_state());
    add_node(world, SIM_ADMIN, 0, &sim_admin_program, sim_admin_state());
    sim_keys_init(world);
    sim_tenants_init(world);
    for (uint32_t i = 0; i < world->node.count; i++) {
        sim_node *node = world->node.data[i];
        uint64_t delay_ns =
            sim_between(world, 0, node->kind == SIM_CLIENT ? 90 * SIM_S : 3 * SIM_S);
        if (node->kind == SIM_CLIENT && sim_client_side(node)) delay_ns += o->late_ns;
        sim_start_later(node, delay_ns);
    }
    sim_faults_start(world);
}

void sim_world_deinit(sim_world *world) {
    static void (*const free_state[])(void *) = {sim_tracker_free, sim_board_free, sim_tuner_free,
                                                 sim_client_free,  sim_admin_free, sim_rogue_free};
    sim_network_deinit(world);
    for (uint32_t i = 0; i < world->node.count; i++) {
        sim_node *node = world->node.data[i];
        if (node->alive) node->program->stop(node);
        free_state[node->kind](node->state);
        kiln_free(node);
    }
    kiln_vec_deinit(&world->node);
    sim_keys_deinit(world);
    sim_database_destroy(world->database);
    if (world->shared) sim_records_destroy(world->shared);
    sim_store_deinit(&world->store);
    kiln_vec_deinit(&world->queue);
    kiln_map_deinit(&world->granted);
    kiln_map_deinit(&world->newest);
    kiln_map_deinit(&world->started);
    kiln_map_deinit(&world->tried);
    kiln_strbuf_deinit(&world->failure);
    kiln_arena_deinit(&world->scratch);
}

/* Every client has its answer. Programs never run out of ticks, so this ends a history. */
static bool is_over(const sim_world *world) {
    for (uint32_t i = 0; i < world->node.count; i++)
        if (world->node.data[i]->kind == SIM_CLIENT && !sim_client_is_done(world->node.data[i]))
            return false;
        else if (world->node.data[i]->program == &sim_upgrader_program &&
                 !sim_upgrader_is_done(world->node.data[i]))
            return false;
    return sim_is_calm(world);
}

static void check_rest(sim_world *world) {
    for (uint32_t i = 0; i < world->node.count && !world->failed; i++) {
        sim_node *node = world->node.data[i];
        if (!node->alive && node->kind < SIM_CLIENT)
            sim_fail(world, "%s %u is not running", kind_name[node->kind], node->index);
        else if (node->kind == SIM_TRACKER)
            sim_tracker_check_rest(node);
        else if (node->kind == SIM_BOARD)
            sim_board_check_rest(node);
        else if (node->kind == SIM_TUNER)
            sim_tuner_check_rest(node);
    }
}

static void run_until(sim_world *world, uint64_t end_ns, bool (*over)(const sim_world *)) {
    while (!world->failed && world->queue.count && world->queue.data[0].at_ns <= end_ns &&
           !(over && over(world))) {
        sim_event event = take_first(world);
        world->now_ns = event.at_ns;
        if (event.node && (!event.node->alive || event.node->run != event.run)) continue;
        world->event_count++;
        event.fire(event.node, event.a, event.b);
        kiln_arena_reset(&world->scratch);
    }
}

void sim_world_run(sim_world *world) {
    run_until(world, SIM_END_NS, is_over);
    if (!world->failed && !is_over(world))
        sim_fail(world, "a client still waits for its answer, or an upgrade does not end");
    /* What clients no longer wait for must end too: detached jobs on slow boards, probation of
     * boards; then leases and kept results. */
    run_until(world, world->now_ns + SIM_REST_NS, sim_tracker_is_at_rest);
    run_until(world, world->now_ns + 60 * SIM_S, NULL);
    if (!world->failed) check_rest(world);
}
