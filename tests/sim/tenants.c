/* Projects with members and quotas, and whether their quotas hold, judged from outside: by the
 * leases that the tracker has, and the time for which it had them. */
#include <string.h>

#include "tests/sim/fair.h"

#define DAY_NS (86400 * SIM_S)
/* What a tracker that is killed may forget of a day: the row of use is written every two seconds,
 * and a slow disk may hold it for two groups. */
#define FORGOTTEN_NS (KILN_TRACKER_SHARE_NS + 20 * SIM_S)

/* ---- Rows that an administrator wrote before the history began ---- */

static void write_row(sim_world *world, kiln_tracker_row_kind kind, const char *id,
                      kiln_record_type type, const void *record) {
    kiln_strbuf body = {0};
    kiln_status st = kiln_record_encode(type, record, &body);
    if (st) sim_fail(world, "a row of %s: %s", id, kiln_status_text(st));
    kiln_status_free(st);
    const kiln_tracker_row row = {
        .kind = kind, .id = kiln_str_from(id), .body = kiln_strbuf_view(&body)};
    const uint64_t session = sim_database_open(world->database);
    sim_database_lead(world->database, session);
    sim_database_write(world->database, session, &row, 1);
    sim_database_close(world->database, session);
    kiln_strbuf_deinit(&body);
}

static void write_quotas(sim_world *world, const char *project, const sim_quotas *quotas) {
    kiln_msg_setting setting[] = {{KILN_STR("boards"), quotas->boards},
                                  {KILN_STR("board-seconds"), quotas->board_seconds},
                                  {KILN_STR("hold"), quotas->hold_s},
                                  {KILN_STR("jobs"), quotas->jobs},
                                  {KILN_STR("queue"), quotas->queue}};
    const kiln_msg_kept_quota kept = {.settings = {setting, KILN_ARRAY_COUNT(setting)}};
    write_row(world, KILN_TRACKER_ROW_QUOTA, project, KILN_RECORD_kept_quota, &kept);
}

void sim_tenants_init(sim_world *world) {
    const kiln_msg_kept_project made = {.made_ms = 1};
    const kiln_msg_kept_member member = {.role = KILN_MEMBER_MEMBER, .native = true},
                               plain = {.role = KILN_MEMBER_MEMBER};
    for (uint32_t p = 0; p < SIM_PROJECTS; p++) {
        const char *project = sim_project_name[p];
        write_row(world, KILN_TRACKER_ROW_PROJECT, project, KILN_RECORD_kept_project, &made);
        for (uint32_t i = 0; i < world->node.count; i++) {
            const sim_node *node = world->node.data[i];
            const bool rogue = node->kind == SIM_ROGUE && sim_rogue_is_member(world);
            const bool client = node->kind == SIM_CLIENT && node->index != world->options.stranger;
            if (!rogue && !client) continue;
            char *id = kiln_arena_printf(&world->scratch, "%s/%s", project, node->identity);
            write_row(world, KILN_TRACKER_ROW_MEMBER, id, KILN_RECORD_kept_member,
                      rogue ? &plain : &member);
        }
        if (world->options.quotas) write_quotas(world, project, &world->options.quota[p]);
    }
}

void sim_tenants_draw(sim_world *world) {
    sim_options *o = &world->options;
    o->stranger =
        sim_chance(world, 150) ? (uint32_t)sim_between(world, 0, o->clients - 1) : UINT32_MAX;
    o->quotas = sim_chance(world, 350);
    world->midnight_ns = sim_between(world, 130, 1000) * SIM_S;
    for (uint32_t p = 0; o->quotas && p < SIM_PROJECTS; p++)
        o->quota[p] = (sim_quotas){
            /* Enough for a lease of all slots of a board. */
            .boards = sim_chance(world, 600) ? (uint32_t)sim_between(world, 2, 5) : 0,
            .board_seconds = sim_chance(world, 400) ? (uint32_t)sim_between(world, 10, 200) : 0,
            .hold_s = sim_chance(world, 500) ? (uint32_t)sim_between(world, 3, 30) : 0,
            .jobs = sim_chance(world, 400) ? (uint32_t)sim_between(world, 1, 2) : 0,
            .queue = sim_chance(world, 400) ? (uint32_t)sim_between(world, 1, 6) : 0};
}

/* The first midnight comes in the middle of the history. */
uint64_t sim_wall_ns(const sim_world *world, uint64_t at_ns) {
    return 2 * DAY_NS - world->midnight_ns + at_ns;
}

/* ---- What they have ---- */

static uint32_t slots_of(const kiln_tracker_lease *lease) {
    const kiln_tracker_device *device = kiln_tracker_board_device(lease->board, lease->slot);
    return lease->whole && device ? device->reported->slots : 1;
}

static void count(const kiln_tracker *t, uint32_t project, sim_use *out) {
    const char *name = sim_project_name[project];
    *out = (sim_use){0};
    for (uint32_t i = 0; i < t->leases.all.count; i++) {
        const kiln_tracker_lease *lease = t->leases.all.data[i];
        if (!lease->job || !kiln_str_is(lease->job->spec.project, name)) continue;
        out->slots += slots_of(lease);
        out->longest_ns = KILN_MAX(out->longest_ns, t->effects.now_ns - lease->granted_ns);
    }
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        if (!kiln_str_is(job->spec.project, name)) continue;
        out->jobs += kiln_tracker_job_is_open(job);
        out->queued += job->queue.requests.count;
    }
}

static void charge(sim_world *world, const kiln_tracker *t, uint32_t project) {
    sim_tenant *tenant = &world->tenant[project];
    const uint64_t wall_ns = t->effects.now_ns + t->effects.wall_offset_ns, day = wall_ns / DAY_NS;
    uint64_t passed_ns = t->effects.now_ns - world->tenants_seen_ns;
    if (tenant->day != day) {
        tenant->used_ns = 0;
        passed_ns = KILN_MIN(passed_ns, wall_ns % DAY_NS);
    }
    tenant->day = day;
    tenant->used_ns += passed_ns * tenant->use.slots;
}

static void check(sim_world *world, const kiln_tracker *t, uint32_t project) {
    const sim_quotas *quota = &world->options.quota[project];
    sim_tenant *tenant = &world->tenant[project];
    const sim_use before = tenant->use;
    const char *name = sim_project_name[project];
    count(t, project, &tenant->use);
    const sim_use *use = &tenant->use;
    /* A lease whose end could not be written is there again after a restart; it gives no right to
     * another one. */
    if (quota->boards && use->slots > quota->boards && use->slots > before.slots)
        sim_fail(world, "project %s has %u boards, over its quota of %u", name, use->slots,
                 quota->boards);
    if (quota->jobs && use->jobs > quota->jobs && use->jobs > before.jobs)
        sim_fail(world, "project %s has %u jobs, over its quota of %u", name, use->jobs,
                 quota->jobs);
    if (quota->queue && use->queued > quota->queue && use->queued > before.queued)
        sim_fail(world, "project %s has %u requests, over its quota of %u", name, use->queued,
                 quota->queue);
    if (quota->hold_s && use->longest_ns > quota->hold_s * SIM_S + SIM_S / 10)
        sim_fail(world, "project %s holds a board for %.1f s, over its quota of %u", name,
                 (double)use->longest_ns / 1e9, quota->hold_s);
    const uint64_t grace_ns = (world->reigns - 1) * FORGOTTEN_NS * 16 + SIM_S / 10;
    if (quota->board_seconds && tenant->used_ns > quota->board_seconds * SIM_S + grace_ns)
        sim_fail(world, "project %s had boards for %.1f s of a day, over its quota of %u", name,
                 (double)tenant->used_ns / 1e9, quota->board_seconds);
}

void sim_tenants_begin(sim_world *world, const kiln_tracker *t) {
    world->tenants_seen_ns = t->effects.now_ns;
    for (uint32_t p = 0; p < SIM_PROJECTS; p++) count(t, p, &world->tenant[p].use);
}

/* Time that jumps is charged at once, and takes nobody by surprise but the quota. */
void sim_tenants_check(sim_node *tracker, const kiln_tracker *t) {
    sim_world *world = tracker->world;
    if (!world->options.quotas) return;
    for (uint32_t p = 0; p < SIM_PROJECTS; p++) {
        if (tracker->jumped_ns)
            world->tenant[p].use.slots = 0; /* how long they were held is not known */
        charge(world, t, p);
        if (!tracker->jumped_ns) check(world, t, p);
    }
    world->tenants_seen_ns = t->effects.now_ns;
}
