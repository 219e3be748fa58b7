/* Fair shares between projects: each is charged the time that it holds slots, over its weight, and
 * the one that was charged least comes first. What a lease will cost is not known when it is given,
 * so that it counts as much as the project's leases lately lasted, until it ends. (Start-time fair
 * queueing, Goyal, Vin and Cheng 1996.) */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"
#include "tracker/state.h"

#define FIRST_LEASE_NS 2e9 /* taken for a lease as long as none has ended */
#define LATELY 0.2         /* weight of the newest duration in the running mean */
#define CREDIT_LEASES \
    3 /* so much may be made up for after a pause: one between two leases is none */

/* As much as its job says and the project may. */
static uint32_t weight_of(const kiln_tracker_project *project, const kiln_tracker_job *job) {
    const uint64_t bound = project->setting[KILN_SETTING_WEIGHT];
    const uint32_t asked = KILN_MAX(job->spec.weight, 1u);
    return bound && bound < asked ? (uint32_t)bound : asked;
}

kiln_tracker_project *kiln_tracker_project_find(kiln_tracker *t, kiln_str name) {
    uint64_t value = 0;
    return kiln_map_find(&t->project_of_name, name, &value)
               ? (kiln_tracker_project *)(uintptr_t)value
               : NULL;
}

kiln_tracker_project *kiln_tracker_project_get(kiln_tracker *t, kiln_str name) {
    kiln_tracker_project *project = kiln_tracker_project_find(t, name);
    if (project) return project;
    project = kiln_alloc(sizeof *project);
    kiln_map_put(&t->project_of_name, name, (uintptr_t)project);
    kiln_vec_push(&t->project, project);
    project->number = ++t->last_row;
    project->name = kiln_alloc(name.size + 1);
    if (name.size) memcpy(project->name, name.data, name.size);
    project->weight = 1;
    project->charged_ns = t->now_ns;
    if (kiln_str_is(name, KILN_PROJECT_DEFAULT))
        project->setting[KILN_SETTING_EVERYONE] = KILN_MEMBER_MEMBER;
    return project;
}

void kiln_tracker_project_weigh(kiln_tracker *t, kiln_tracker_project *project) {
    project->weight = 1;
    kiln_thread_walks(t->job.count);
    for (uint32_t i = 0; i < t->job.count; i++)
        if (t->job.data[i]->project == project)
            project->weight = KILN_MAX(project->weight, weight_of(project, t->job.data[i]));
}

kiln_tracker_project *kiln_tracker_project_join(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_tracker_project *project = kiln_tracker_project_get(t, job->spec.project);
    project->jobs++;
    project->weight = KILN_MAX(project->weight, weight_of(project, job));
    return project;
}

/* ---- On disk: now and then, as leases end all the time ---- */

#define ROW_PREFIX "project/" /* so that no name is empty */

static kiln_tracker_row row_of(const kiln_tracker_project *project, kiln_strbuf *id) {
    kiln_strbuf_printf(id, ROW_PREFIX "%s", project->name);
    return (kiln_tracker_row){.kind = KILN_TRACKER_ROW_SHARE, .id = kiln_strbuf_view(id)};
}

static void keep(kiln_tracker *t, kiln_tracker_project *project, double used) {
    kiln_tracker_project_charge(t, project);
    kiln_msg_kept_share kept = {.used = used,
                                .lease_ns = project->lease_ns,
                                .shared = t->shared,
                                .day = project->day,
                                .day_ns = project->day_ns};
    kiln_strbuf id = {0}, body = {0};
    kiln_tracker_row row = row_of(project, &id);
    kiln_status st = kiln_record_encode(KILN_RECORD_kept_share, &kept, &body);
    KILN_CHECK(st == NULL); /* numbers only */
    row.body = kiln_strbuf_view(&body);
    kiln_tracker_persist_later(t, &row, 1); /* should it fail, the next one says more */
    kiln_strbuf_deinit(&body);
    kiln_strbuf_deinit(&id);
    project->kept = used;
    project->kept_day_ns = project->day_ns;
    project->is_kept = true;
}

/* What leases that are held have cost so far counts too: after a restart they cost only what
 * comes then. */
void kiln_tracker_shares_tick(kiln_tracker *t) {
    if (t->now_ns < t->shares_ns) return;
    t->shares_ns = t->now_ns + KILN_TRACKER_SHARE_NS;
    for (uint32_t i = 0; i < t->project.count; i++) t->project.data[i]->running = 0;
    kiln_thread_walks(t->lease.count);
    for (uint32_t i = 0; i < t->lease.count; i++) {
        const kiln_tracker_lease *lease = t->lease.data[i];
        if (lease->job) lease->job->project->running += (double)kiln_tracker_lease_cost(t, lease);
    }
    for (uint32_t i = 0; i < t->project.count; i++) {
        kiln_tracker_project *project = t->project.data[i];
        double used = project->used + project->running / project->weight;
        if (used != project->kept ||
            kiln_tracker_project_day_ns(t, project) != project->kept_day_ns)
            keep(t, project, used);
    }
}

static void remove_row(kiln_tracker *t, const kiln_tracker_project *project) {
    if (!project->is_kept || !t->actions) return;
    kiln_strbuf id = {0};
    kiln_tracker_row row = row_of(project, &id);
    row.removed = true;
    kiln_tracker_persist_later(t, &row, 1);
    kiln_strbuf_deinit(&id);
}

/* After the jobs: of a project without any, only what it had today counts. */
kiln_status kiln_tracker_share_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_msg_kept_share kept = {0};
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_share, row->body, &scratch, &kept);
    kiln_arena_deinit(&scratch);
    if (st) return kiln_status_note(st, "stored share %.*s", KILN_STR_ARG(row->id));
    kiln_str name = kiln_str_slice(row->id, strlen(ROW_PREFIX), row->id.size);
    if (name.size == 0) name = KILN_STR(KILN_PROJECT_DEFAULT); /* as it once was */
    kiln_tracker_project *project =
        kept.day_ns > 0 ? kiln_tracker_project_get(t, name) : kiln_tracker_project_find(t, name);
    if (!project) return KILN_OK;
    project->used = project->kept = kept.used;
    project->lease_ns = kept.lease_ns;
    project->day = kept.day;
    project->day_ns = project->kept_day_ns = kept.day_ns;
    project->is_kept = true;
    t->shared = KILN_MAX(t->shared, kept.shared);
    t->lease_ns = KILN_MAX(t->lease_ns, kept.lease_ns);
    return KILN_OK;
}

static void free_project(kiln_tracker_project *project) {
    kiln_vec_deinit(&project->waiting);
    kiln_vec_deinit(&project->member);
    kiln_vec_deinit(&project->trusted);
    kiln_free(project->name);
    kiln_free(project);
}

/* What one without jobs and leases used too much is forgiven, as all that time passed without it.
 * It goes, unless somebody made it or it had boards today. */
void kiln_tracker_project_forget(kiln_tracker *t, kiln_tracker_project *project) {
    if (project->jobs || project->held) return;
    project->used = project->lease_ns = 0;
    if (project->is_made || kiln_tracker_project_day_ns(t, project) > 0) return;
    remove_row(t, project);
    kiln_tracker_remove(&t->project, project);
    kiln_map_remove(&t->project_of_name, kiln_str_from(project->name));
    free_project(project);
}

void kiln_tracker_project_leave(kiln_tracker *t, kiln_tracker_job *job) {
    kiln_tracker_project *project = job->project;
    if (!project) return;
    job->project = NULL;
    project->jobs--;
    kiln_tracker_project_weigh(t, project);
    kiln_tracker_project_forget(t, project);
}

static double expected_ns(const kiln_tracker *t, const kiln_tracker_project *project) {
    if (project->lease_ns > 0) return project->lease_ns;
    return t->lease_ns > 0 ? t->lease_ns : FIRST_LEASE_NS;
}

double kiln_tracker_project_claim(const kiln_tracker *t, const kiln_tracker_project *project) {
    return project->used + project->held * expected_ns(t, project) / project->weight;
}

void kiln_tracker_project_wakes(kiln_tracker *t, kiln_tracker_project *project) {
    /* Who did not ask for long gets no time for it afterwards. */
    double lease_ns = t->lease_ns > 0 ? t->lease_ns : FIRST_LEASE_NS;
    project->used = KILN_MAX(project->used, t->shared - CREDIT_LEASES * lease_ns);
}

void kiln_tracker_project_granted(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots) {
    double claim = kiln_tracker_project_claim(t, project);
    t->shared = KILN_MAX(t->shared, claim);
    kiln_tracker_project_charge(t, project);
    project->held++;
    project->slots += slots;
    kiln_tracker_project_watch_time(t, project);
}

static void update_mean(double *mean, double value) {
    *mean = *mean > 0 ? *mean + LATELY * (value - *mean) : value;
}

void kiln_tracker_project_ended(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots,
                                uint64_t held_ns) {
    kiln_tracker_project_charge(t, project);
    project->held--;
    project->slots -= slots;
    if (project->setting[KILN_SETTING_BOARDS] && project->waiting.count)
        kiln_tracker_offer_idle(t); /* one of its others may have what was kept from it */
    project->used += (double)held_ns / project->weight;
    if (held_ns) {
        update_mean(&project->lease_ns, (double)held_ns);
        update_mean(&t->lease_ns, (double)held_ns);
    }
    kiln_tracker_project_forget(t, project);
}

void kiln_tracker_projects_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->project.count; i++) free_project(t->project.data[i]);
    kiln_vec_deinit(&t->project);
    kiln_map_deinit(&t->project_of_name);
}
