/* The tracker's shell, played: a disk of rows with slow commits that a kill may lose, and a blob
 * store. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tests/sim/fair.h"

typedef struct disk_row {
    kiln_arena arena;
    kiln_tracker_row row;
} disk_row;

/* A commit under way. */
typedef struct commit {
    uint64_t persist;
    kiln_arena arena;
    kiln_tracker_row *row;
    uint32_t row_count;
} commit;

typedef struct tracker_state {
    kiln_tracker *machine;      /* NULL when it does not run */
    KILN_VEC(commit *) commits; /* in order */
    uint64_t commit_at_ns;      /* of the newest: they end in order */
    uint64_t check_ns;          /* when promises about time are checked again */
    sim_fair fair;
    /* Disk. */
    KILN_VEC(disk_row *) disk;
    KILN_VEC(kiln_digest) blobs;
    uint64_t full_until_ns;
} tracker_state;

void *sim_tracker_state(void) { return kiln_alloc(sizeof(tracker_state)); }

static void free_commit(commit *c) {
    kiln_arena_deinit(&c->arena);
    kiln_free(c);
}

static void free_row(disk_row *row) {
    kiln_arena_deinit(&row->arena);
    kiln_free(row);
}

void sim_tracker_free(void *memory) {
    tracker_state *s = memory;
    for (uint32_t i = 0; i < s->disk.count; i++) free_row(s->disk.data[i]);
    kiln_vec_deinit(&s->disk);
    kiln_vec_deinit(&s->blobs);
    kiln_vec_deinit(&s->commits);
    sim_fair_deinit(&s->fair);
    kiln_free(s);
}

/* ---- Disk ---- */

static void write_row(tracker_state *s, const kiln_tracker_row *row) {
    uint32_t at = 0;
    while (at < s->disk.count && !(s->disk.data[at]->row.kind == row->kind &&
                                   kiln_str_equal(s->disk.data[at]->row.id, row->id)))
        at++;
    if (at < s->disk.count) {
        free_row(s->disk.data[at]);
        memmove(&s->disk.data[at], &s->disk.data[at + 1],
                (--s->disk.count - at) * sizeof s->disk.data[0]);
    }
    if (row->removed) return;
    disk_row *stored = kiln_alloc(sizeof *stored);
    kiln_arena_init(&stored->arena, 1024);
    stored->row = kiln_tracker_row_copy(row, &stored->arena);
    kiln_vec_push(&s->disk, stored);
}

static void run_step(sim_node *node, const kiln_tracker_event *event);

static void commit_done(sim_node *node, uint64_t a, uint64_t b) {
    (void)a, (void)b;
    tracker_state *s = node->state;
    commit *c = s->commits.data[0];
    memmove(&s->commits.data[0], &s->commits.data[1], --s->commits.count * sizeof c);
    bool full = node->world->now_ns < s->full_until_ns;
    for (uint32_t i = 0; !full && i < c->row_count; i++) write_row(s, &c->row[i]);
    kiln_tracker_event event = {.kind = KILN_TRACKER_PERSISTED,
                                .persist = c->persist,
                                .failure = full ? "the disk is full" : NULL};
    free_commit(c);
    run_step(node, &event);
}

static void begin_commit(sim_node *node, const kiln_tracker_action *action) {
    tracker_state *s = node->state;
    sim_world *world = node->world;
    commit *c = kiln_alloc(sizeof *c);
    c->persist = action->persist;
    c->row_count = action->row_count;
    kiln_arena_init(&c->arena, 1024);
    c->row = KILN_ARENA_ARRAY(&c->arena, kiln_tracker_row, action->row_count);
    for (uint32_t i = 0; i < c->row_count; i++)
        c->row[i] = kiln_tracker_row_copy(&action->row[i], &c->arena);
    kiln_vec_push(&s->commits, c);
    uint64_t at = world->now_ns + sim_between(world, SIM_MS / 5, 25 * SIM_MS);
    if (at < s->commit_at_ns) at = s->commit_at_ns;
    s->commit_at_ns = at;
    sim_at(world, at - world->now_ns, node, commit_done, 0, 0);
}

/* ---- Checks ---- */

/* A lease that is given, not told again, is never of a board that is off duty. */
static void check_duty(sim_world *world, const kiln_msg_lease_grant *grant) {
    for (uint32_t i = 0; i < world->options.boards; i++)
        if (kiln_str_is(grant->board, world->node.data[1 + i]->identity) && world->duty[i] &&
            grant->lease > world->duty_lease[i])
            sim_fail(world, "board %u is %s and leased", i, kiln_duty_name(world->duty[i]));
}

static bool is_on_disk(const tracker_state *s, uint64_t lease) {
    for (uint32_t i = 0; i < s->disk.count; i++)
        if (s->disk.data[i]->row.kind == KILN_TRACKER_ROW_LEASE &&
            s->disk.data[i]->row.epoch == lease)
            return true;
    return false;
}

/* No lease is given to two requests, or before it is on disk, and those of a slot only grow. */
static void check_grant(sim_node *node, const sim_conn *conn, const kiln_msg_lease_grant *grant) {
    sim_world *world = node->world;
    if (!is_on_disk(node->state, grant->lease))
        sim_fail(world, "lease %llu is given and not on disk", (unsigned long long)grant->lease);
    uint64_t number = grant->lease, before = 0, newest = 0;
    kiln_str view = {(const char *)&number, sizeof number};
    uint64_t holder = kiln_hash64(conn->boot, KILN_HASH128_TEXT, grant->request);
    if (kiln_map_find(&world->granted, view, &before) && before != holder)
        sim_fail(world, "lease %llu is given to two requests", (unsigned long long)number);
    check_duty(world, grant);
    kiln_map_put(&world->granted, view, holder);
    char *slot =
        kiln_arena_printf(&world->scratch, "%.*s/%u", KILN_STR_ARG(grant->board), grant->slot);
    if (kiln_map_find(&world->newest, kiln_str_from(slot), &newest) && number < newest)
        sim_fail(world, "lease %llu is granted after %llu", (unsigned long long)number,
                 (unsigned long long)newest);
    kiln_map_put(&world->newest, kiln_str_from(slot), number);
}

/* What is promised about time, with a second of grace. */
static void check_job(sim_world *world, kiln_tracker *t, const kiln_tracker_job *job) {
    uint64_t now = sim_clock(world->tracker), long_ago = now > 11 * SIM_S ? now - 11 * SIM_S : 0;
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
static void check_lease(sim_world *world, kiln_tracker *t, const kiln_tracker_lease *lease) {
    const kiln_tracker_job *job = lease->job;
    if (lease->expires_ns + SIM_S < sim_clock(world->tracker))
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
    if (device && job && device->target.kind != job->want->target.kind)
        sim_fail(world, "lease %llu is of a slot of another target",
                 (unsigned long long)lease->lease);
    if (job && kiln_tracker_tuner_by_node(t, job->tuner) &&
        !kiln_tracker_holder_by_boot(t, lease->tuner))
        sim_fail(world, "lease %llu is kept for a run of a tuner that is over",
                 (unsigned long long)lease->lease);
}

/* Nobody waits while there is what they want, nor longer than their turn may take. */
static void check_waiting(sim_world *world, kiln_tracker *t, const kiln_tracker_job *job) {
    if (!job->request.count) return;
    kiln_tracker_request *request = job->request.data[0];
    for (uint32_t i = 0; i < t->idle.count; i++) {
        kiln_tracker_device *device = t->idle.data[i];
        bool needs_all = kiln_tracker_want_is_whole(request->fit, device);
        if (kiln_tracker_want_fits(request->fit, device) && !(needs_all && device->said->busy))
            sim_fail(world, "board %s idles while a request waits", device->board->node);
    }
    uint64_t waited_ns = sim_clock(world->tracker) - request->since_ns;
    if (!request->fit->devices || world->tracker->jumped_ns) return;
    world->longest_wait_ns = KILN_MAX(world->longest_wait_ns, waited_ns);
    if (waited_ns > SIM_WAIT_NS)
        sim_fail(world, "a request waits for %.0f s", (double)waited_ns / 1e9);
}

static void check_promises(sim_node *node) {
    tracker_state *s = node->state;
    sim_world *world = node->world;
    if (world->now_ns < s->check_ns || world->now_ns < node->jumped_ns + SIM_S) return;
    s->check_ns = world->now_ns + SIM_S;
    for (uint32_t i = 0; i < s->machine->job.count; i++) {
        check_job(world, s->machine, s->machine->job.data[i]);
        check_waiting(world, s->machine, s->machine->job.data[i]);
    }
    for (uint32_t i = 0; i < s->machine->lease.count; i++)
        check_lease(world, s->machine, s->machine->lease.data[i]);
    for (uint32_t i = 0; i < s->machine->peer.count; i++) {
        const kiln_tracker_peer *peer = s->machine->peer.data[i];
        if (!peer->closing && sim_clock(node) - peer->heard_ns > 7 * SIM_S)
            sim_fail(world, "a dead %s goes unnoticed", kiln_peer_role_name(peer->role));
    }
}

/* ---- The program ---- */

static void carry_out(sim_node *node, const kiln_tracker_action *action) {
    sim_conn *conn = action->peer ? sim_find_conn(node->world, action->peer) : NULL;
    switch (action->kind) {
    case KILN_TRACKER_SEND:
        if (action->message.type == KILN_MSG_LEASE_GRANT)
            check_grant(node, conn, &action->message.lease_grant);
        sim_send(node, conn, &action->message);
        break;
    case KILN_TRACKER_CLOSE:
        sim_close(node, conn);
        /* CLOSED follows */
        node->program->closed(node, conn);
        break;
    case KILN_TRACKER_PERSIST: begin_commit(node, action); break;
    case KILN_TRACKER_LOG: break;
    }
}

static void run_step(sim_node *node, const kiln_tracker_event *event) {
    tracker_state *s = node->state;
    kiln_tracker_actions actions = {0}; /* its own: carrying out may come back here */
    kiln_arena_init(&actions.arena, 0);
    sim_fair_before(&s->fair, s->machine, sim_clock(node));
    kiln_tracker_step(s->machine, sim_clock(node), event, &actions);
    sim_fair_after(&s->fair, node->world, s->machine, sim_clock(node));
    for (uint32_t i = 0; i < actions.list.count; i++) carry_out(node, &actions.list.data[i]);
    kiln_tracker_actions_deinit(&actions);
    check_promises(node);
    sim_tick_at(node, kiln_tracker_next_ns(s->machine));
}

static void start(sim_node *node) {
    tracker_state *s = node->state;
    kiln_tracker_row *rows =
        KILN_ARENA_ARRAY(&node->world->scratch, kiln_tracker_row, s->disk.count);
    for (uint32_t i = 0; i < s->disk.count; i++) rows[i] = s->disk.data[i]->row;
    kiln_status st = kiln_tracker_create(rows, s->disk.count, sim_clock(node), &s->machine);
    if (st) sim_fail(node->world, "the tracker does not start: %s", kiln_status_text(st));
    kiln_status_free(st);
    s->check_ns = node->world->now_ns;
    s->fair.seen_ns = sim_clock(node);
    if (!st) sim_tick_at(node, sim_clock(node));
}

static void stop(sim_node *node) {
    tracker_state *s = node->state;
    kiln_tracker_destroy(s->machine);
    s->machine = NULL;
    sim_fair_break(&s->fair);
    /* Of the commits under way the first few may have reached the disk. */
    uint64_t written = s->commits.count ? sim_between(node->world, 0, s->commits.count) : 0;
    for (uint32_t i = 0; i < s->commits.count; i++) {
        commit *c = s->commits.data[i];
        for (uint32_t r = 0; i < written && r < c->row_count; r++) write_row(s, &c->row[r]);
        free_commit(c);
    }
    s->commits.count = 0;
    s->commit_at_ns = 0;
}

static void opened(sim_node *node, sim_conn *conn, const kiln_msg_hello *hello) {
    run_step(node, &(kiln_tracker_event){
                       .kind = KILN_TRACKER_CONNECTED, .peer = conn->id, .hello = hello});
}

static void on_message(sim_node *node, sim_conn *conn, const kiln_message *message) {
    run_step(node, &(kiln_tracker_event){
                       .kind = KILN_TRACKER_MESSAGE, .peer = conn->id, .message = message});
}

static void closed(sim_node *node, sim_conn *conn) {
    run_step(node, &(kiln_tracker_event){.kind = KILN_TRACKER_CLOSED, .peer = conn->id});
}

static void tick(sim_node *node) {
    run_step(node, &(kiln_tracker_event){.kind = KILN_TRACKER_TICK});
}

const sim_program sim_tracker_program = {start, stop, opened, on_message, closed, tick};

bool sim_tracker_has_blob(sim_node *node, const kiln_digest *digest) {
    tracker_state *s = node->state;
    for (uint32_t i = 0; i < s->blobs.count; i++)
        if (kiln_digest_equal(&s->blobs.data[i], digest)) return true;
    return false;
}

void sim_tracker_store_blob(sim_node *node, const kiln_digest *digest) {
    tracker_state *s = node->state;
    if (!sim_tracker_has_blob(node, digest)) kiln_vec_push(&s->blobs, *digest);
}

void sim_tracker_fill_disk(sim_node *node, uint64_t until_ns) {
    tracker_state *s = node->state;
    s->full_until_ns = until_ns;
}

uint64_t sim_tracker_newest_lease(const sim_world *world) {
    const tracker_state *s = world->tracker->state;
    return s->machine ? s->machine->epoch : UINT64_MAX;
}

bool sim_tracker_is_at_rest(const sim_world *world) {
    const tracker_state *s = world->tracker->state;
    if (!s->machine) return false;
    kiln_tracker_counts counts = kiln_tracker_counts_of(s->machine);
    /* A board that is away may come back with one fault more, and go off duty for it. */
    return counts.jobs_open == 0 && counts.boards_off_duty == 0 && counts.leases == 0 &&
           counts.boards_connected == world->options.boards;
}

void sim_tracker_check_rest(sim_node *node) {
    tracker_state *s = node->state;
    kiln_tracker_counts counts = kiln_tracker_counts_of(s->machine);
    if (counts.jobs_open) sim_fail(node->world, "%u jobs are still open", counts.jobs_open);
    if (counts.leases) sim_fail(node->world, "%u leases are still held", counts.leases);
    if (counts.requests) sim_fail(node->world, "%u lease requests still wait", counts.requests);
    if (counts.boards_off_duty)
        sim_fail(node->world, "%u boards are off duty", counts.boards_off_duty);
    if (counts.boards_connected != node->world->options.boards)
        sim_fail(node->world, "%u of %u boards are connected", counts.boards_connected,
                 node->world->options.boards);
}
