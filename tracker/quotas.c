/* Quotas of persons and projects. A lease counts from the grant on, with all its slots. Requests of
 * a project that has as many boards as allowed wait; what would have to be stored beyond a quota is
 * refused. */
#include <string.h>

#include "tracker/state.h"

/* ---- Time of boards ---- */

/* Tells the clients of the project's jobs. */
static void tell_jobs(kiln_tracker *t, const kiln_tracker_project *project, const char *text) {
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++)
        if (t->jobs.all.data[i]->project == project)
            kiln_tracker_job_tell(t, t->jobs.all.data[i], t->jobs.all.data[i]->client, 0, text);
}

static void update_time(kiln_tracker *t, kiln_tracker_project *project) {
    const bool used_up = kiln_tracker_project_is_used_up(t, project),
               was_used_up = project->is_used_up;
    kiln_tracker_project_set_used_up(project, used_up);
    if (used_up && project->slots) {
        kiln_tracker_leases_end_of_project(t, project,
                                           "its project has used its time of boards for today");
        kiln_tracker_count_over_quota(t, project);
    }
    if (used_up && !was_used_up)
        tell_jobs(t, project,
                  "waits: its project has used its time of boards for today (quota "
                  "board-seconds); it goes on at 00:00 UTC");
    if (!used_up && was_used_up) {
        tell_jobs(t, project, "its project may have boards again");
        kiln_tracker_offer_idle(t);
    }
    kiln_tracker_project_watch_time(t, project);
}

void kiln_tracker_quotas_tick(kiln_tracker *t) {
    for (uint32_t i = t->projects.all.count; i-- > 0;) {
        kiln_tracker_project *project = t->projects.all.data[i];
        update_time(t, project);
        if (!project->is_made)
            kiln_tracker_project_forget(t, project); /* the day of its use may be over */
    }
}

/* ---- How many ---- */

static kiln_status over(kiln_tracker *t, kiln_tracker_project *project, kiln_status st) {
    kiln_tracker_count_over_quota(t, project);
    return st;
}

static const char raise_it[] = "the tracker's user or the holder of an admin key raises it";

static bool is_free(const kiln_tracker_peer *peer) { return peer->is_owner || peer->is_admin; }

bool kiln_tracker_is_same_person(const kiln_tracker_peer *a, const kiln_tracker_peer *b) {
    return a->known == b->known;
}

static uint32_t jobs_of(const kiln_tracker *t, const char *person) {
    uint32_t count = 0;
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++)
        count += kiln_tracker_job_is_open(t->jobs.all.data[i]) &&
                 strcmp(t->jobs.all.data[i]->owner, person) == 0;
    return count;
}

kiln_status kiln_tracker_quota_of_jobs(kiln_tracker *t, const kiln_tracker_peer *client,
                                       const kiln_msg_job_spec *spec) {
    const kiln_str name = kiln_tracker_project_asked(spec->project);
    kiln_tracker_project *project = kiln_tracker_project_find(t, name);
    if (!project) {
        if (t->projects.all.count < KILN_TRACKER_PROJECTS_MAX) return KILN_OK;
        return over(
            t, NULL,
            KILN_ERROR(RESOURCE_EXHAUSTED, "there are %u projects already", t->projects.all.count));
    }
    const uint64_t quota = project->setting[KILN_SETTING_JOBS];
    if (quota && project->jobs >= quota)
        return over(t, project,
                    KILN_ERROR(RESOURCE_EXHAUSTED,
                               "project %s has %u open jobs, which is its quota \"jobs\"; %s",
                               project->name, project->jobs, raise_it));
    if (kiln_tracker_project_is_used_up(t, project) && !spec->detach)
        return over(t, project,
                    KILN_ERROR(RESOURCE_EXHAUSTED,
                               "project %s has used its %llu board seconds of today, its quota "
                               "\"board-seconds\"; it has boards again at 00:00 UTC (--detach "
                               "waits); %s",
                               project->name,
                               (unsigned long long)project->setting[KILN_SETTING_BOARD_SECONDS],
                               raise_it));
    if (is_free(client)) return KILN_OK;
    if (project->jobs >= KILN_TRACKER_JOBS_OF_PROJECT_MAX)
        return over(t, project,
                    KILN_ERROR(RESOURCE_EXHAUSTED, "project %s has %u open jobs already",
                               project->name, project->jobs));
    if (jobs_of(t, client->person) >= KILN_TRACKER_JOBS_OF_PERSON_MAX)
        return over(t, project,
                    KILN_ERROR(RESOURCE_EXHAUSTED, "%s has %u open jobs already", client->person,
                               KILN_TRACKER_JOBS_OF_PERSON_MAX));
    return KILN_OK;
}

kiln_status kiln_tracker_quota_of_queue(kiln_tracker *t, kiln_tracker_project *project) {
    const uint64_t quota = project->setting[KILN_SETTING_QUEUE];
    const uint64_t most = quota ? KILN_MIN(quota, KILN_TRACKER_REQUESTS_OF_PROJECT_MAX)
                                : KILN_TRACKER_REQUESTS_OF_PROJECT_MAX;
    if (project->queue.count < most) return KILN_OK;
    return over(t, project,
                KILN_ERROR(RESOURCE_EXHAUSTED,
                           "%u lease requests of project %s wait already (quota \"queue\")",
                           project->queue.count, project->name));
}

kiln_status kiln_tracker_quota_of_watchers(kiln_tracker *t, const kiln_tracker_peer *client,
                                           uint32_t of_person, const kiln_tracker_job *job,
                                           uint32_t of_project) {
    if (of_person >= KILN_TRACKER_WATCHERS_OF_PERSON_MAX)
        return over(t, NULL,
                    KILN_ERROR(RESOURCE_EXHAUSTED, "%s has %u watches open already",
                               client->person[0] ? client->person : "a stranger", of_person));
    if (of_project >= KILN_TRACKER_WATCHERS_OF_PROJECT_MAX)
        return over(t, NULL,
                    KILN_ERROR(RESOURCE_EXHAUSTED,
                               "%u watches of jobs of project %.*s are open already", of_project,
                               KILN_STR_ARG(job->spec.project)));
    return KILN_OK;
}

kiln_status kiln_tracker_quota_of_board_requests(kiln_tracker *t, uint32_t count) {
    if (count < KILN_TRACKER_BOARD_REQUESTS_OF_PERSON_MAX) return KILN_OK;
    return over(t, NULL,
                KILN_ERROR(RESOURCE_EXHAUSTED,
                           "this person has %u requests to boards under way already", count));
}

/* ---- How often ---- */

/* Takes one token; an unused bucket is full. */
static bool take(const kiln_tracker *t, kiln_tracker_bucket *bucket, double rate) {
    const double most = KILN_MAX(rate * KILN_TRACKER_BURST_S, 1.0);
    const double passed_s = (double)(t->effects.now_ns - bucket->filled_ns) / 1e9;
    bucket->left = bucket->filled_ns ? KILN_MIN(bucket->left + passed_s * rate, most) : most;
    bucket->filled_ns = t->effects.now_ns;
    if (bucket->left < 1) return false;
    bucket->left -= 1;
    return true;
}

kiln_status kiln_tracker_quota_of_requests(kiln_tracker *t, const kiln_tracker_peer *peer,
                                           kiln_tracker_project *project) {
    if (is_free(peer)) return KILN_OK;
    if (!project) {
        if (take(t, &peer->known->requests, KILN_TRACKER_RATE_OF_PERSON)) return KILN_OK;
        return over(t, NULL,
                    KILN_ERROR(RESOURCE_EXHAUSTED, "%s asks more than %.0f times a second",
                               peer->person[0] ? peer->person : "a stranger",
                               KILN_TRACKER_RATE_OF_PERSON));
    }
    const double rate = (double)project->setting[KILN_SETTING_REQUESTS];
    if (rate == 0 || take(t, &project->requests, rate)) return KILN_OK;
    return over(t, project,
                KILN_ERROR(RESOURCE_EXHAUSTED,
                           "project %s is asked about more than %.0f times a second, its quota "
                           "\"requests\"; %s",
                           project->name, rate, raise_it));
}
