/* A tracker's shell, played: groups of rows with commits that take time and that a kill may lose,
 * as tracker/persistence.c makes them; the lead, where two trackers share a database; and a blob
 * store. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tests/sim/database.h"
#include "tests/sim/fair.h"

#define LOOK_NS (200 * SIM_MS) /* between two looks at who leads */

/* Rows that are committed together: of one identity the last. */
typedef struct group {
    kiln_arena arena;
    KILN_VEC(kiln_tracker_row) row;
    uint64_t first, last; /* PERSIST actions; 0: none */
    bool awaited;
} group;

typedef struct tracker_state {
    kiln_tracker *machine; /* NULL when it does not run, or stands by */
    uint64_t session;
    uint64_t written; /* newest lease that it read, or wrote while it led */
    kiln_map tuner;   /* job -> hash of the tuner that it read, or wrote while it led */
    group group[2];
    uint32_t collecting; /* which of them; the other is being committed while `busy` */
    bool busy, again;
    uint64_t check_ns; /* when promises about time are checked again */
    sim_fair fair;
} tracker_state;

void *sim_tracker_state(void) {
    tracker_state *s = kiln_alloc(sizeof *s);
    for (uint32_t i = 0; i < 2; i++) kiln_arena_init(&s->group[i].arena, 1024);
    kiln_map_init(&s->tuner);
    return s;
}

void sim_tracker_free(void *memory) {
    tracker_state *s = memory;
    for (uint32_t i = 0; i < 2; i++) {
        kiln_vec_deinit(&s->group[i].row);
        kiln_arena_deinit(&s->group[i].arena);
    }
    kiln_map_deinit(&s->tuner);
    sim_fair_deinit(&s->fair);
    kiln_free(s);
}

/* ---- Groups of rows ---- */

static void add_row(group *g, const kiln_tracker_row *row) {
    uint32_t at = 0;
    while (at < g->row.count &&
           !(g->row.data[at].kind == row->kind && kiln_str_equal(g->row.data[at].id, row->id)))
        at++;
    kiln_tracker_row copy = kiln_tracker_row_copy(row, &g->arena);
    if (at == g->row.count)
        kiln_vec_push(&g->row, copy);
    else
        g->row.data[at] = copy;
}

static void collect(sim_node *node, const kiln_tracker_action *action) {
    tracker_state *s = node->state;
    group *g = &s->group[s->collecting];
    if (!g->first) g->first = action->persist;
    g->last = action->persist;
    g->awaited |= !action->may_wait;
    for (uint32_t i = 0; i < action->row_count; i++) add_row(g, &action->row[i]);
}

static void empty(group *g) {
    g->row.count = 0;
    g->first = g->last = 0;
    g->awaited = false;
    kiln_arena_reset(&g->arena);
}

static void run_step(sim_node *node, const kiln_tracker_event *event);

static void commit_done(sim_node *node, uint64_t a, uint64_t b);

static void commit(sim_node *node) {
    tracker_state *s = node->state;
    sim_world *world = node->world;
    bool is_empty = s->group[s->collecting].first == 0;
    s->again = s->busy && !is_empty;
    if (s->busy || is_empty) return;
    s->collecting = !s->collecting;
    s->busy = true;
    uint64_t delay = sim_between(world, SIM_MS / 5, 25 * SIM_MS);
    if (world->now_ns < world->slow_disk_until_ns) delay += sim_between(world, 0, 8 * SIM_S);
    sim_at(world, delay, node, commit_done, 0, 0);
}

static uint64_t newest_lease(const kiln_tracker_row *row, uint32_t count, uint64_t newest) {
    for (uint32_t i = 0; i < count; i++) /* of an epoch: what is reserved */
        if (row[i].kind == KILN_TRACKER_ROW_LEASE) newest = KILN_MAX(newest, row[i].epoch);
    return newest;
}

static uint64_t hash_of_tuner(kiln_str node) { return kiln_hash64(node.data, node.size, 0); }

/* Who works on which job, as the rows say. */
static void note_tuners(sim_node *node, const kiln_tracker_row *row, uint32_t count) {
    tracker_state *s = node->state;
    kiln_arena *arena = &node->world->scratch;
    for (uint32_t i = 0; i < count; i++) {
        kiln_msg_kept_job kept = {0};
        if (row[i].kind != KILN_TRACKER_ROW_JOB || row[i].removed) continue;
        kiln_status st = kiln_record_decode(KILN_RECORD_kept_job, row[i].body, arena, &kept);
        if (st) sim_fail(node->world, "a job's row: %s", kiln_status_text(st));
        kiln_status_free(st);
        kiln_map_put(&s->tuner, row[i].id, hash_of_tuner(kept.tuner));
    }
}

static void commit_done(sim_node *node, uint64_t a, uint64_t b) {
    (void)a, (void)b;
    tracker_state *s = node->state;
    sim_world *world = node->world;
    group *g = &s->group[!s->collecting];
    bool full = world->now_ns < world->full_until_ns;
    if (!full && !sim_database_write(world->database, s->session, g->row.data, g->row.count))
        return; /* the session is gone: nothing comes back until that is noticed */
    if (!full && sim_database_leads(world->database, s->session)) {
        s->written = newest_lease(g->row.data, g->row.count, s->written);
        note_tuners(node, g->row.data, g->row.count);
    }
    uint64_t first = g->first, last = g->last;
    s->busy = false;
    empty(g);
    if (s->again) commit(node);
    kiln_tracker_event event = {.kind = KILN_TRACKER_PERSISTED,
                                .failure = full ? "the disk is full" : NULL};
    for (event.persist = first; event.persist <= last; event.persist++) run_step(node, &event);
}

/* ---- Checks ---- */

/* A lease that is given, not told again, is never of a board that is out of service. */
static void check_duty(sim_world *world, const kiln_msg_lease_grant *grant) {
    for (uint32_t i = 0; i < world->options.boards; i++)
        if (kiln_str_is(grant->board, world->node.data[1 + i]->identity) && world->service[i] &&
            grant->lease > world->duty_lease[i])
            sim_fail(world, "board %u is %s and leased", i,
                     kiln_board_service_name(world->service[i]));
}

/* No lease is given to two requests, before it is on disk, or by a tracker that does not lead any
 * more, which can only tell of what was written before; and those of a slot only grow. */
static void check_grant(sim_node *node, const sim_conn *conn, const kiln_msg_lease_grant *grant) {
    sim_world *world = node->world;
    const tracker_state *s = node->state;
    uint64_t number = grant->lease, before = 0, newest = 0;
    kiln_str view = {(const char *)&number, sizeof number};
    uint64_t holder = kiln_hash64(conn->boot, KILN_HASH128_TEXT, grant->request);
    bool known = kiln_map_find(&world->granted, view, &before);
    if (known && before != holder)
        sim_fail(world, "lease %llu is given to two requests", (unsigned long long)number);
    if (!sim_database_leads(world->database, s->session)) {
        if (!known && number > s->written)
            sim_fail(world, "lease %llu is given by a tracker that does not lead",
                     (unsigned long long)number);
        return;
    }
    if (!sim_database_has_lease(world->database, number))
        sim_fail(world, "lease %llu is given and not on disk", (unsigned long long)number);
    check_duty(world, grant);
    kiln_map_put(&world->granted, view, holder);
    char *slot =
        kiln_arena_printf(&world->scratch, "%.*s/%u", KILN_STR_ARG(grant->board), grant->slot);
    if (kiln_map_find(&world->newest, kiln_str_from(slot), &newest) && number < newest)
        sim_fail(world, "lease %llu is granted after %llu", (unsigned long long)number,
                 (unsigned long long)newest);
    kiln_map_put(&world->newest, kiln_str_from(slot), number);
}

/* A job is given to the tuner that the disk says, also by a tracker that does not lead any more. */
static void check_assign(sim_node *node, const sim_conn *conn, const kiln_msg_job_assign *assign) {
    const tracker_state *s = node->state;
    uint64_t tuner = 0;
    if (!kiln_map_find(&s->tuner, assign->job, &tuner) ||
        tuner != hash_of_tuner(kiln_str_from(conn->side[0]->identity)))
        sim_fail(node->world, "job %.*s is given to a tuner before that is on disk",
                 KILN_STR_ARG(assign->job));
}

/* What is promised about time, with a second of grace. */
static void check_job(const sim_node *node, kiln_tracker *t, const kiln_tracker_job *job) {
    sim_world *world = node->world;
    uint64_t now = sim_clock(node), long_ago = now > 11 * SIM_S ? now - 11 * SIM_S : 0;
    if (!kiln_tracker_job_is_open(job) || job->persist || job->ending_ns) return;
    bool tuner = job->state == KILN_JOB_WAITING || job->spec.by_client ||
                 kiln_tracker_tuner_by_node(t, job->tuner);
    if (!tuner && job->tuner_until_ns + SIM_S < now)
        sim_fail(world, "job %s stays with a tuner that is gone", job->id);
    if (job->spec.detach) return;
    if (job->unserved_ns && job->unserved_ns < long_ago)
        sim_fail(world, "job %s waits for what is missing", job->id);
    if (!job->client && (!job->client_until_ns || job->client_until_ns + SIM_S < now))
        sim_fail(world, "job %s runs on without its client", job->id);
}

/* A tuner that was started anew holds nothing of its former run: its boards are free for others. */
static void check_lease(const sim_node *node, kiln_tracker *t, const kiln_tracker_lease *lease) {
    sim_world *world = node->world;
    const kiln_tracker_job *job = lease->job;
    if (lease->expires_ns + SIM_S < sim_clock(node))
        sim_fail(world, "lease %llu does not expire", (unsigned long long)lease->lease);
    const kiln_tracker_device *device = kiln_tracker_board_device(lease->board, lease->slot);
    for (uint32_t i = 0; device && i < KILN_TRACKER_SLOTS_MAX; i++) {
        bool is_its =
            lease->whole ? kiln_tracker_board_device(lease->board, i) == device : i == lease->slot;
        if (is_its != (lease->board->slot[i] == lease->lease))
            sim_fail(world, "slot %u of board %s is under lease %llu, not %llu", i,
                     lease->board->node, (unsigned long long)lease->board->slot[i],
                     (unsigned long long)lease->lease);
    }
    if (device && job && device->target.kind != job->required->target.kind)
        sim_fail(world, "lease %llu is of a slot of another target",
                 (unsigned long long)lease->lease);
    if (job && kiln_tracker_tuner_by_node(t, job->tuner) &&
        !kiln_tracker_holder_by_boot(t, lease->tuner))
        sim_fail(world, "lease %llu is kept for a run of a tuner that is over",
                 (unsigned long long)lease->lease);
}

/* Nobody waits while there is what they want, nor longer than their turn may take. */
static void check_waiting(const sim_node *node, kiln_tracker *t, const kiln_tracker_job *job) {
    sim_world *world = node->world;
    if (!job->queue.requests.count) return;
    if (world->options.quotas) return; /* then it may well wait */
    kiln_tracker_request *request = job->queue.requests.data[0];
    for (uint32_t i = 0; i < t->boards.idle.count; i++) {
        kiln_tracker_device *device = t->boards.idle.data[i];
        bool needs_all = kiln_tracker_requirement_is_whole(request->required, device);
        if (kiln_tracker_requirement_fits(request->required, device) &&
            !(needs_all && device->reported->busy))
            sim_fail(world, "board %s idles while a request waits", device->board->node);
    }
    uint64_t waited_ns = sim_clock(node) - request->since_ns;
    if (!request->required->devices || node->jumped_ns) return;
    world->longest_wait_ns = KILN_MAX(world->longest_wait_ns, waited_ns);
    if (waited_ns > SIM_WAIT_NS)
        sim_fail(world, "a request waits for %.0f s", (double)waited_ns / 1e9);
}

static void check_promises(sim_node *node) {
    tracker_state *s = node->state;
    sim_world *world = node->world;
    if (world->now_ns < s->check_ns || world->now_ns < node->jumped_ns + SIM_S) return;
    s->check_ns = world->now_ns + SIM_S;
    for (uint32_t i = 0; i < s->machine->jobs.all.count; i++) {
        check_job(node, s->machine, s->machine->jobs.all.data[i]);
        check_waiting(node, s->machine, s->machine->jobs.all.data[i]);
    }
    for (uint32_t i = 0; i < s->machine->leases.all.count; i++)
        check_lease(node, s->machine, s->machine->leases.all.data[i]);
    for (uint32_t i = 0; i < s->machine->peers.all.count; i++) {
        const kiln_tracker_peer *peer = s->machine->peers.all.data[i];
        if (!peer->closing && sim_clock(node) - peer->heard_ns > 7 * SIM_S)
            sim_fail(world, "a dead %s goes unnoticed", kiln_peer_role_name(peer->role));
    }
}

/* ---- The program ---- */

/* What a trial needs stays as long as its job is open. */
static void pin(sim_world *world, const kiln_msg_trial *trial) {
    sim_store_pin(world, &trial->artefact.digest, trial->job);
    sim_store_pin(world, &trial->reference.digest, trial->job);
    sim_store_pin(world, &trial->recipe.program.digest, trial->job);
    for (uint32_t i = 0; i < trial->rivals.count; i++)
        sim_store_pin(world, &trial->rivals.item[i].digest, trial->job);
}

/* Silence is no reason to close a connection over which words come. */
static void check_close(sim_node *node, const sim_conn *conn, const kiln_tracker_action *action) {
    const sim_world *world = node->world;
    const sim_node *peer = conn->side[0];
    bool lives = peer->kind <= SIM_CLIENT && conn->open[0] && !conn->silent && peer->alive &&
                 peer->run == conn->run[0] && peer->cut_off_ns < world->now_ns &&
                 world->now_ns - node->jumped_ns > 10 * SIM_S;
    if (action->code == KILN_DEADLINE_EXCEEDED && lives)
        sim_fail(node->world, "a %s that lives is dropped for its silence",
                 kiln_peer_role_name(sim_role_of(peer)));
}

static void carry_out(sim_node *node, const kiln_tracker_action *action) {
    sim_conn *conn = action->peer ? sim_find_conn(node->world, action->peer) : NULL;
    switch (action->kind) {
    case KILN_TRACKER_SEND:
        if (action->message.type == KILN_MSG_LEASE_GRANT)
            check_grant(node, conn, &action->message.lease_grant);
        if (action->message.type == KILN_MSG_JOB_ASSIGN)
            check_assign(node, conn, &action->message.job_assign);
        if (action->message.type == KILN_MSG_TRIAL) pin(node->world, &action->message.trial);
        sim_send(node, conn, &action->message);
        break;
    case KILN_TRACKER_CLOSE:
        check_close(node, conn, action);
        sim_close(node, conn);
        /* CLOSED follows */
        node->program->closed(node, conn);
        break;
    case KILN_TRACKER_PERSIST: collect(node, action); break;
    case KILN_TRACKER_LOG:
    case KILN_TRACKER_DROP_BLOB: break; /* nobody puts blobs here */
    }
}

static void run_step(sim_node *node, const kiln_tracker_event *event) {
    tracker_state *s = node->state;
    kiln_tracker_actions actions = {0}; /* its own: carrying out may come back here */
    kiln_arena_init(&actions.arena, 0);
    sim_fair_before(&s->fair, s->machine, sim_clock(node));
    const kiln_thread_work before = *kiln_thread_work_here();
    kiln_tracker_step(s->machine, sim_clock(node), event, &actions);
    kiln_tracker_check(s->machine);
    sim_check_work(node, &before);
    sim_fair_after(&s->fair, node->world, s->machine, sim_clock(node));
    if (sim_database_leads(node->world->database, s->session)) sim_tenants_check(node, s->machine);
    for (uint32_t i = 0; i < actions.list.count; i++) carry_out(node, &actions.list.data[i]);
    kiln_tracker_actions_deinit(&actions);
    if (s->group[s->collecting].awaited) commit(node);
    check_promises(node);
    sim_tick_at(node, kiln_tracker_next_ns(s->machine));
}

/* ---- The lead ---- */

/* With what the last leader left. */
static void serve(sim_node *node) {
    tracker_state *s = node->state;
    sim_world *world = node->world;
    kiln_tracker_row *rows = NULL;
    uint32_t count = sim_database_read(world->database, &world->scratch, &rows);
    kiln_status st = kiln_tracker_create(rows, count, sim_clock(node), &s->machine);
    if (st) sim_fail(world, "the tracker does not start: %s", kiln_status_text(st));
    kiln_status_free(st);
    sim_note(world, "tracker %u leads", node->index);
    node->reign = ++world->reigns;
    s->written = newest_lease(rows, count, 0);
    note_tuners(node, rows, count);
    s->check_ns = world->now_ns;
    s->fair.seen_ns = sim_clock(node);
    if (!st) kiln_tracker_set_wall(s->machine, sim_wall_ns(world, world->now_ns));
    if (!st) sim_tenants_begin(world, s->machine);
    if (!st) sim_tick_at(node, sim_clock(node));
}

static void look_who_leads(sim_node *node, uint64_t a, uint64_t b) {
    (void)a, (void)b;
    const tracker_state *s = node->state;
    if (sim_database_lead(node->world->database, s->session))
        serve(node);
    else
        sim_at(node->world, LOOK_NS, node, look_who_leads, 0, 0);
}

/* It notices that its session is gone, and ends. */
static void give_up(sim_node *node, uint64_t a, uint64_t b) {
    (void)a, (void)b;
    sim_kill(node, false);
    sim_start_later(node, sim_between(node->world, 100 * SIM_MS, 5 * SIM_S));
}

void sim_tracker_lose_lead(sim_node *node) {
    tracker_state *s = node->state;
    if (!node->alive || !s->machine || !sim_database_leads(node->world->database, s->session))
        return;
    sim_note(node->world, "tracker %u loses its session", node->index);
    sim_database_close(node->world->database, s->session);
    sim_at(node->world, sim_between(node->world, 0, 12 * SIM_S), node, give_up, 0, 0);
}

/* The server frees the lead of a machine that is gone when it misses its session. */
static void end_session(sim_node *none, uint64_t session, uint64_t world_at) {
    (void)none;
    sim_database_close(((sim_world *)(uintptr_t)world_at)->database, session);
}

/* Jobs, boards, leases and requests, as one number. */
static uint64_t state_hash(const tracker_state *s) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < s->machine->boards.all.count; i++) {
        if (!s->machine->boards.all.data[i]->known) continue;
        const kiln_msg_board_row row =
            kiln_tracker_board_row(s->machine, s->machine->boards.all.data[i], NULL);
        kiln_record_print_json(KILN_RECORD_board_row, &row, &text);
    }
    for (uint32_t i = 0; i < s->machine->jobs.all.count; i++) {
        const kiln_msg_job_row row =
            kiln_tracker_job_row(s->machine, s->machine->jobs.all.data[i], true);
        kiln_record_print_json(KILN_RECORD_job_row, &row, &text);
    }
    for (uint32_t i = 0; i < s->machine->leases.all.count; i++) {
        const kiln_tracker_lease *lease = s->machine->leases.all.data[i];
        kiln_strbuf_printf(&text, "%llu %llu %u %u %d\n", (unsigned long long)lease->lease,
                           (unsigned long long)lease->expires_ns, lease->trial.count,
                           lease->held_back.messages.count, lease->unclaimed);
    }
    kiln_strbuf_printf(&text, "%u %llu", s->machine->queue.count,
                       (unsigned long long)s->machine->effects.persist);
    uint64_t hash = kiln_hash64(text.data, text.size, 0);
    kiln_strbuf_deinit(&text);
    return hash;
}

/* What goes beyond the rights of who says it is answered to it alone, and changes nothing. */
static void refuse_message(sim_node *node, const sim_conn *conn, const kiln_message *message) {
    tracker_state *s = node->state;
    kiln_tracker_actions actions = {0};
    kiln_arena_init(&actions.arena, 0);
    run_step(node, &(kiln_tracker_event){.kind = KILN_TRACKER_TICK});
    const uint64_t hash = state_hash(s);
    const kiln_thread_work before = *kiln_thread_work_here();
    kiln_tracker_step(
        s->machine, sim_clock(node),
        &(kiln_tracker_event){.kind = KILN_TRACKER_MESSAGE, .peer = conn->id, .message = message},
        &actions);
    sim_check_work(node, &before);
    if (state_hash(s) != hash)
        sim_fail(node->world, "a rogue's %s changes something", kiln_message_name(message->type));
    for (uint32_t i = 0; i < actions.list.count; i++) {
        const kiln_tracker_action *action = &actions.list.data[i];
        if (action->kind != KILN_TRACKER_SEND || action->peer != conn->id)
            sim_fail(node->world, "a rogue's %s comes through", kiln_message_name(message->type));
        else
            carry_out(node, action);
    }
    kiln_tracker_actions_deinit(&actions);
}

static void start(sim_node *node) {
    tracker_state *s = node->state;
    s->session = sim_database_open(node->world->database);
    look_who_leads(node, 0, 0);
}

static void stop(sim_node *node) {
    tracker_state *s = node->state;
    sim_world *world = node->world;
    group *under_way = &s->group[!s->collecting];
    kiln_tracker_destroy(s->machine);
    s->machine = NULL;
    kiln_map_reset(&s->tuner);
    sim_fair_break(&s->fair);
    /* What is being committed may have come to the disk; what was collected since did not. */
    if (s->busy && sim_chance(world, 500))
        sim_database_write(world->database, s->session, under_way->row.data, under_way->row.count);
    s->busy = s->again = false;
    for (uint32_t i = 0; i < 2; i++) empty(&s->group[i]);
    uint64_t missed_ns = world->options.trackers > 1 && sim_chance(world, 300)
                             ? sim_between(world, 0, 15 * SIM_S)
                             : 0;
    if (missed_ns)
        sim_at(world, missed_ns, NULL, end_session, s->session, (uintptr_t)world);
    else
        sim_database_close(world->database, s->session);
}

static void opened(sim_node *node, sim_conn *conn, const kiln_msg_hello *hello) {
    const bool is_person = conn->side[0]->kind >= SIM_CLIENT;
    run_step(node,
             &(kiln_tracker_event){.kind = KILN_TRACKER_CONNECTED,
                                   .peer = conn->id,
                                   .hello = hello,
                                   .who = {.is_admin = conn->side[0]->kind == SIM_ADMIN,
                                           .is_proven = true,
                                           .person = is_person ? conn->side[0]->identity : NULL}});
}

static void on_message(sim_node *node, sim_conn *conn, const kiln_message *message) {
    if (conn->side[0]->kind == SIM_ROGUE) {
        refuse_message(node, conn, message);
        return;
    }
    run_step(node, &(kiln_tracker_event){
                       .kind = KILN_TRACKER_MESSAGE, .peer = conn->id, .message = message});
}

static void closed(sim_node *node, sim_conn *conn) {
    run_step(node, &(kiln_tracker_event){.kind = KILN_TRACKER_CLOSED, .peer = conn->id});
}

static void tick(sim_node *node) {
    if (!sim_tracker_serves(node)) return;
    commit(node);
    run_step(node, &(kiln_tracker_event){.kind = KILN_TRACKER_TICK});
}

const sim_program sim_tracker_program = {start, stop, opened, on_message, closed, tick};

bool sim_tracker_serves(const sim_node *node) {
    const tracker_state *s = node->state;
    return node->alive && s->machine;
}

static const tracker_state *leader_of(const sim_world *world) {
    for (uint32_t i = 0; i < world->options.trackers; i++) {
        const tracker_state *s = world->tracker[i]->state;
        if (s->machine && sim_database_leads(world->database, s->session)) return s;
    }
    return NULL;
}

bool sim_tracker_has_open_job(const sim_world *world, const char *job) {
    const tracker_state *s = leader_of(world);
    const kiln_tracker_job *found =
        s ? kiln_tracker_job_find(s->machine, kiln_str_from(job)) : NULL;
    return !s || (found && kiln_tracker_job_is_open(found));
}

bool sim_tracker_open_job(const sim_world *world, uint32_t index, char out_job[KILN_HASH128_TEXT]) {
    const tracker_state *s = leader_of(world);
    for (uint32_t i = 0; s && i < s->machine->jobs.all.count; i++) {
        const kiln_tracker_job *job = s->machine->jobs.all.data[i];
        if (!kiln_tracker_job_is_open(job) || index-- > 0) continue;
        memcpy(out_job, job->id, KILN_HASH128_TEXT);
        return true;
    }
    return false;
}

/* Of those that lead, or still think so. */
uint64_t sim_tracker_newest_lease(const sim_world *world) {
    uint64_t newest = 0;
    for (uint32_t i = 0; i < world->options.trackers; i++) {
        const tracker_state *s = world->tracker[i]->state;
        if (s->machine) newest = KILN_MAX(newest, s->machine->leases.epoch);
    }
    return newest ? newest : UINT64_MAX;
}

bool sim_tracker_is_at_rest(const sim_world *world) {
    const tracker_state *s = leader_of(world);
    if (!s) return false;
    for (uint32_t i = 0; i < s->machine->boards.all.count; i++)
        if (s->machine->boards.all.data[i]->sick) return false;
    kiln_tracker_counts counts = kiln_tracker_counts_of(s->machine);
    /* A board that is away may come back with one fault more, and go out of service for it. */
    return counts.jobs_open == 0 && counts.boards_off_duty == 0 && counts.leases == 0 &&
           counts.boards_connected == world->options.boards;
}

void sim_tracker_check_rest(sim_node *node) {
    const tracker_state *s = node->state;
    if (!s->machine) return; /* it stands by */
    kiln_tracker_counts counts = kiln_tracker_counts_of(s->machine);
    if (counts.jobs_open) sim_fail(node->world, "%u jobs are still open", counts.jobs_open);
    if (counts.leases) sim_fail(node->world, "%u leases are still held", counts.leases);
    if (counts.requests) sim_fail(node->world, "%u lease requests still wait", counts.requests);
    if (counts.boards_off_duty)
        sim_fail(node->world, "%u boards are out of service", counts.boards_off_duty);
    if (counts.boards_connected != node->world->options.boards)
        sim_fail(node->world, "%u of %u boards are connected", counts.boards_connected,
                 node->world->options.boards);
}
