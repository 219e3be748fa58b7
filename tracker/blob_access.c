/* Which peers may get and put a blob. Knowing its digest is not enough. A peer may get blobs that
 * it uploaded itself. Beyond that a person gets blobs of jobs that it may read, a tuner those of
 * its jobs, a board those that trials sent to it name and the archives of
 * an upgrade of the fleet, and the holder of a lease the outputs that
 * its board sent back. Programs of the tracker's own user, and unproven peers of an --insecure
 * tracker, get all blobs. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tracker/state.h"

#define DAY_NS (UINT64_C(86400) * KILN_NS_PER_S)

static bool is_free(const kiln_tracker_peer *peer) {
    return peer->is_owner || peer->is_admin || !peer->is_proven;
}

static bool job_has(const kiln_tracker_job *job, const kiln_digest *digest) {
    return kiln_digest_equal(&job->spec.model, digest) ||
           kiln_digest_equal(&job->spec.records, digest) ||
           kiln_digest_equal(&job->spec.by_hand, digest) ||
           kiln_digest_equal(&job->done.records, digest);
}

static bool is_of_its_jobs(kiln_tracker *t, const kiln_tracker_peer *peer,
                           const kiln_digest *digest) {
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        if (!job_has(job, digest)) continue;
        if (peer->role == KILN_PEER_TUNER && strcmp(job->tuner, peer->node) == 0) return true;
        if (kiln_tracker_may(t, peer, KILN_RIGHT_READ, job->spec.project, job)) return true;
    }
    return false;
}

/* A restored lease may have trials that were sent before the tracker restarted: its board gets all
 * blobs. */
static bool is_of_its_trials(kiln_tracker *t, const kiln_tracker_board *board,
                             const kiln_digest *digest) {
    for (uint32_t slot = 0; slot < KILN_TRACKER_SLOTS_MAX; slot++) {
        const kiln_tracker_lease *lease = kiln_tracker_lease_find(t, board->slot[slot]);
        if (!lease) continue;
        if (lease->restored) return true;
        for (uint32_t i = 0; i < lease->blob.count; i++)
            if (kiln_digest_equal(&lease->blob.data[i], digest)) return true;
    }
    return false;
}

static bool was_sent(const kiln_tracker_peer *peer, const kiln_digest *digest) {
    for (uint32_t i = 0; i < KILN_TRACKER_SENT_BLOBS; i++)
        if (kiln_digest_equal(&peer->sent[i], digest)) return true;
    return false;
}

static bool may_have(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_digest *digest) {
    if (is_free(peer) || kiln_tracker_put_find(t, peer, digest)) return true;
    if (kiln_digest_is_none(digest)) return false;
    if (peer->board && kiln_tracker_boards_is_release(t, digest)) return true;
    return (peer->board && is_of_its_trials(t, peer->board, digest)) || was_sent(peer, digest) ||
           is_of_its_jobs(t, peer, digest);
}

bool kiln_tracker_may_get(kiln_tracker *t, uint64_t peer, const kiln_digest *digest) {
    const kiln_tracker_peer *who = kiln_tracker_peer_find(t, peer);
    return who && may_have(t, who, digest);
}

/* ---- Putting ---- */

/* The bytes that the person uploaded today. */
static uint64_t *put_today(const kiln_tracker *t, kiln_tracker_person *person) {
    const uint64_t day = kiln_tracker_wall_ns(t) / DAY_NS;
    if (person->blobs.day != day) person->blobs.day_bytes = 0;
    person->blobs.day = day;
    return &person->blobs.day_bytes;
}

kiln_status kiln_tracker_may_put(kiln_tracker *t, uint64_t peer, uint64_t size) {
    const kiln_tracker_peer *who = kiln_tracker_peer_find(t, peer);
    if (!who) return KILN_ERROR(FAILED_PRECONDITION, "the sender of this blob is not known yet");
    if (is_free(who) || who->role == KILN_PEER_TUNER || who->role == KILN_PEER_BUILDER)
        return KILN_OK;
    if (who->role == KILN_PEER_BOARD)
        return who->board && who->board->busy
                   ? KILN_OK
                   : KILN_ERROR(PERMISSION_DENIED, "a board puts blobs under a lease only");
    if (!kiln_tracker_may_anywhere(t, who, KILN_RIGHT_OPEN)) {
        kiln_tracker_count_refusal(t);
        return KILN_ERROR(PERMISSION_DENIED,
                          "%s may open jobs in no project, so that it may hand in nothing: the "
                          "right \"open\" is missing",
                          who->person);
    }
    if (!kiln_tracker_put_fits(t, who->known, size)) {
        kiln_tracker_count_over_quota(t, NULL);
        return KILN_ERROR(
            RESOURCE_EXHAUSTED,
            "jobs need %llu MiB of what %s handed in, and with this blob it would be "
            "more than %llu MiB at once (kiln-tracker --person-blobs): end jobs first",
            (unsigned long long)(who->known->blobs.needed_bytes >> 20), who->person,
            (unsigned long long)(t->blobs.bytes_of_person_max >> 20));
    }
    if (*put_today(t, who->known) + size <= KILN_TRACKER_PUT_BYTES_A_DAY) return KILN_OK;
    kiln_tracker_count_over_quota(t, NULL);
    return KILN_ERROR(RESOURCE_EXHAUSTED, "%s has handed in %llu MiB today, and may %llu",
                      who->person, (unsigned long long)(who->known->blobs.day_bytes >> 20),
                      (unsigned long long)(KILN_TRACKER_PUT_BYTES_A_DAY >> 20));
}

void kiln_tracker_was_put(kiln_tracker *t, uint64_t peer, const kiln_digest *digest,
                          uint64_t size) {
    const kiln_tracker_peer *who = kiln_tracker_peer_find(t, peer);
    if (!who) return;
    if (who->known) *put_today(t, who->known) += size;
    kiln_tracker_put_add(t, who, digest, size);
    if (who->known && !is_free(who)) who->known->blobs.is_over = true;
}

/* ---- Blobs of jobs and trials ---- */

static uint64_t bytes_of_project(const kiln_tracker *t, kiln_str name) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->jobs.all.count; i++)
        if (kiln_str_equal(t->jobs.all.data[i]->spec.project, name))
            bytes += t->jobs.all.data[i]->blob_bytes;
    return bytes;
}

uint64_t kiln_tracker_project_blob_bytes(const kiln_tracker *t,
                                         const kiln_tracker_project *project) {
    return bytes_of_project(t, kiln_str_from(project->name));
}

uint64_t kiln_tracker_put_size(const kiln_tracker *t, const kiln_tracker_peer *peer,
                               const kiln_digest *digest) {
    const kiln_tracker_put *put = kiln_tracker_put_find(t, peer, digest);
    return put ? put->size : 0;
}

/* Checks whether the project's jobs may have `bytes` more. */
static kiln_status quota_of_more(kiln_tracker *t, kiln_str name, uint64_t bytes) {
    kiln_tracker_project *project = kiln_tracker_project_find(t, name);
    const uint64_t quota = project ? project->setting[KILN_SETTING_BLOB_BYTES] : 0;
    if (!quota || bytes_of_project(t, name) + bytes <= quota) return KILN_OK;
    kiln_tracker_count_over_quota(t, project);
    return KILN_ERROR(RESOURCE_EXHAUSTED,
                      "jobs of project %s would have more than %llu bytes of blobs, its quota "
                      "\"blob-bytes\"; the tracker's user or the holder of an admin key raises it",
                      project->name, (unsigned long long)quota);
}

kiln_status kiln_tracker_quota_of_blobs(kiln_tracker *t, const kiln_tracker_peer *client,
                                        const kiln_msg_job_spec *spec) {
    static const char *const what[] = {"model", "records", "schedules"};
    const kiln_digest *const blob[] = {&spec->model, &spec->records, &spec->by_hand};
    uint64_t bytes = 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(blob); i++) {
        /* For a job that its client runs itself the blobs are checked with each trial. */
        if (!spec->by_client && !kiln_digest_is_none(blob[i]) && !may_have(t, client, blob[i]))
            return KILN_ERROR(NOT_FOUND,
                              "the job's %s is not here from %s: hand it in before the job",
                              what[i], client->person);
        kiln_tracker_put *put = kiln_tracker_put_find(t, client, blob[i]);
        if (put) kiln_tracker_put_use(t, put);
        bytes += put ? put->size : 0;
    }
    return quota_of_more(t, kiln_tracker_project_asked(spec->project), bytes);
}

kiln_status kiln_tracker_quota_of_results(kiln_tracker *t, const kiln_tracker_job *job,
                                          uint64_t bytes) {
    return bytes ? quota_of_more(t, job->spec.project, bytes) : KILN_OK;
}

bool kiln_tracker_trial_blobs(kiln_tracker *t, const kiln_tracker_peer *sender,
                              kiln_tracker_lease *lease, const kiln_msg_trial *trial) {
    kiln_digest digest[3 + KILN_MESSAGES_RIVALS] = {trial->artefact.digest, trial->reference.digest,
                                                    trial->recipe.program.digest};
    uint32_t count = 3;
    for (uint32_t i = 0; i < trial->rivals.count && i < KILN_MESSAGES_RIVALS; i++)
        digest[count++] = trial->rivals.item[i].digest;
    const bool is_asked = kiln_tracker_is_person(sender);
    for (uint32_t i = 0; i < count; i++)
        if (is_asked && !kiln_digest_is_none(&digest[i]) && !may_have(t, sender, &digest[i]))
            return false;
    for (uint32_t i = 0; i < count; i++)
        if (!kiln_digest_is_none(&digest[i])) kiln_tracker_lease_add_blob(lease, &digest[i]);
    return true;
}
