#include <string.h>

#include "tracker/state.h"

void kiln_tracker_count_refusal(kiln_tracker *t) { t->access.refused++; }

bool kiln_tracker_is_member(const kiln_tracker *t, kiln_str person) {
    for (uint32_t i = 0; i < t->projects.all.count; i++) {
        const kiln_tracker_member *member =
            kiln_tracker_member_find(t->projects.all.data[i], person);
        if (member && member->role != KILN_MEMBER_NONE) return true;
    }
    return false;
}

kiln_standing kiln_tracker_standing(kiln_tracker *t, const kiln_tracker_peer *peer,
                                    kiln_str project) {
    if (!kiln_tracker_is_person(peer)) return (kiln_standing){0};
    if (peer->is_owner || peer->is_admin) return (kiln_standing){.all = true};
    /* An --insecure tracker believes the role that a peer states, but grants it no machine code. */
    if (!peer->is_proven)
        return (kiln_standing){.rules = peer->role == KILN_PEER_ADMIN,
                               .role = KILN_MEMBER_OPERATOR};
    const kiln_tracker_project *found = kiln_tracker_project_find(t, project);
    const kiln_tracker_member *member =
        found ? kiln_tracker_member_find(found, kiln_str_from(peer->person)) : NULL;
    if (member) return (kiln_standing){.role = member->role, .native = member->native};
    if (found) return (kiln_standing){.role = (kiln_member)found->setting[KILN_SETTING_EVERYONE]};
    return (kiln_standing){.role = kiln_str_is(project, KILN_PROJECT_DEFAULT) ? KILN_MEMBER_MEMBER
                                                                              : KILN_MEMBER_NONE};
}

static bool is_own(const kiln_tracker_peer *peer, const kiln_tracker_job *job) {
    return job && peer->is_proven && job->owner[0] && strcmp(job->owner, peer->person) == 0;
}

bool kiln_tracker_may(kiln_tracker *t, const kiln_tracker_peer *peer, kiln_right right,
                      kiln_str project, const kiln_tracker_job *job) {
    if (right == KILN_RIGHT_NONE) return true;
    const kiln_standing standing = kiln_tracker_standing(t, peer, project);
    return kiln_right_is_held(&standing, right, is_own(peer, job));
}

bool kiln_tracker_may_anywhere(kiln_tracker *t, const kiln_tracker_peer *peer, kiln_right right) {
    if (kiln_tracker_may(t, peer, right, KILN_STR(KILN_PROJECT_DEFAULT), NULL)) return true;
    for (uint32_t i = 0; i < t->projects.all.count; i++)
        if (kiln_tracker_may(t, peer, right, kiln_str_from(t->projects.all.data[i]->name), NULL))
            return true;
    return false;
}

void kiln_tracker_refuse(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                         kiln_str about, kiln_right right, kiln_str project) {
    const kiln_member role = kiln_right_role(right);
    kiln_tracker_count_refusal(t);
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%s may not %s", peer->person[0] ? peer->person : "a stranger",
                       kiln_right_text(right));
    if (project.size) kiln_strbuf_printf(&text, " on project %.*s", KILN_STR_ARG(project));
    kiln_strbuf_printf(&text, ": the right \"%s\" is missing; ", kiln_right_name(right));
    if (right == KILN_RIGHT_RULE)
        kiln_strbuf_text(&text, "the tracker's user and holders of admin keys have it");
    else if (role == KILN_MEMBER_COUNT)
        kiln_strbuf_printf(&text,
                           "the tracker's user or the holder of an admin key gives it: kiln "
                           "project add %.*s %s --native",
                           KILN_STR_ARG(project), peer->person);
    else
        kiln_strbuf_printf(&text,
                           "an admin of the project or the tracker's user gives it: kiln project "
                           "add %.*s %s --role %s",
                           KILN_STR_ARG(project), peer->person, kiln_member_name(role));
    kiln_tracker_send_error(t, peer, stream, KILN_PERMISSION_DENIED, about, 0, "%s", text.data);
    kiln_strbuf_deinit(&text);
}

bool kiln_tracker_sees(kiln_tracker *t, const kiln_tracker_peer *reader,
                       const kiln_tracker_job *job) {
    return !reader || kiln_tracker_may(t, reader, KILN_RIGHT_LOOK, job->spec.project, job);
}

/* ---- The right that a message needs ---- */

static kiln_str job_in(const kiln_message *message) {
    if (message->type == KILN_MSG_JOB_DONE) return message->job_done.job;
    if (message->type == KILN_MSG_LEASE_REQ) return message->lease_req.job;
    return (kiln_str){0};
}

static uint64_t lease_in(const kiln_message *message) {
    if (message->type == KILN_MSG_LEASE_RENEW) return message->lease_renew.lease;
    if (message->type == KILN_MSG_LEASE_RELEASE) return message->lease_release.lease;
    if (message->type == KILN_MSG_TRIAL) return message->trial.lease;
    if (message->type == KILN_MSG_TRIAL_ACK) return message->trial_ack.lease;
    return 0;
}

/* Refuses the message if the person sends too many, or too many are about the project. */
static bool is_over(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_message *message,
                    kiln_tracker_project *project) {
    kiln_status st = kiln_tracker_quota_of_requests(t, peer, project);
    if (!st) return false;
    kiln_tracker_send_status(t, peer, message->stream, (kiln_str){0}, 0, st);
    return true;
}

/* A job that the person may not see is reported as one that does not exist. */
static bool is_allowed_on_job(kiln_tracker *t, const kiln_tracker_peer *peer,
                              const kiln_message *message, kiln_right right,
                              const kiln_tracker_job *job) {
    const kiln_str project = job->spec.project, id = kiln_str_from(job->id);
    if (kiln_tracker_may(t, peer, right, project, job)) return true;
    if (kiln_tracker_may(t, peer, KILN_RIGHT_LOOK, project, job)) {
        kiln_tracker_refuse(t, peer, message->stream, id, right, project);
        return false;
    }
    kiln_tracker_count_refusal(t);
    kiln_tracker_send_error(
        t, peer, message->stream,
        message->type == KILN_MSG_JOB_OPEN ? KILN_ALREADY_EXISTS : KILN_NOT_FOUND, id, 0,
        message->type == KILN_MSG_JOB_OPEN ? "job %s exists and asks for something else"
                                           : "there is no job %s",
        job->id);
    return false;
}

static bool is_allowed_on_project(kiln_tracker *t, const kiln_tracker_peer *peer,
                                  const kiln_message *message, kiln_right right, kiln_str project,
                                  kiln_str about) {
    if (kiln_tracker_may(t, peer, right, project, NULL)) return true;
    kiln_tracker_refuse(t, peer, message->stream, about, right, project);
    return false;
}

static bool is_allowed_to_open(kiln_tracker *t, const kiln_tracker_peer *peer,
                               const kiln_message *message) {
    const kiln_msg_job_spec *spec = &message->job_open.spec;
    const kiln_str id = message->job_open.job;
    const kiln_str project = kiln_tracker_project_asked(spec->project);
    return is_allowed_on_project(t, peer, message, KILN_RIGHT_OPEN, project, id) &&
           (!spec->by_client ||
            is_allowed_on_project(t, peer, message, KILN_RIGHT_NATIVE, project, id));
}

/* The job that the message is about; NULL: there is none, or its sender does not hold the lease. */
static const kiln_tracker_job *job_of(kiln_tracker *t, const kiln_tracker_peer *peer,
                                      const kiln_message *message, kiln_need_scope scope) {
    const kiln_tracker_lease *lease = NULL;
    if (message->type == KILN_MSG_JOB_OPEN)
        return kiln_tracker_job_latest(t, message->job_open.job);
    if (message->type == KILN_MSG_JOB_ORDER)
        return kiln_tracker_job_latest(t, message->job_order.job);
    if (message->type == KILN_MSG_CANCEL)
        return message->cancel.scope == KILN_CANCEL_JOB
                   ? kiln_tracker_job_latest(t, message->cancel.id)
                   : NULL;
    if (scope == KILN_NEED_JOB) return kiln_tracker_job_find(t, job_in(message));
    if (scope == KILN_NEED_LEASE) lease = kiln_tracker_lease_find(t, lease_in(message));
    return lease && strcmp(lease->node, peer->node) == 0 ? lease->job : NULL;
}

static kiln_str project_of(const kiln_message *message, const kiln_tracker_job *job) {
    if (job) return job->spec.project;
    if (message->type == KILN_MSG_PROJECT_ORDER) return message->project_order.project;
    if (message->type != KILN_MSG_JOB_OPEN) return (kiln_str){0};
    return kiln_tracker_project_asked(message->job_open.spec.project);
}

static bool has_right(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_message *message,
                      kiln_need need, const kiln_tracker_job *job) {
    switch (need.scope) {
    case KILN_NEED_CONNECTION:
    case KILN_NEED_TRACKER:
    case KILN_NEED_PROGRAM:
    case KILN_NEED_ANY_PROJECT: /* BLOB messages go to kiln_tracker_may_get and _may_put instead */
    case KILN_NEED_BLOB:
    case KILN_NEED_ROWS: return true;
    case KILN_NEED_FLEET:
    case KILN_NEED_PROJECT: /* kiln_tracker_project_order checks for rights beyond this */
        return is_allowed_on_project(t, peer, message, need.right, project_of(message, NULL),
                                     (kiln_str){0});
    case KILN_NEED_JOB_OR_PROJECT: /* a job that has ended is opened anew */
        return (!job || is_allowed_on_job(t, peer, message, KILN_RIGHT_STOP, job)) &&
               is_allowed_to_open(t, peer, message);
    case KILN_NEED_JOB:
    case KILN_NEED_LEASE: break;
    }
    return !job || is_allowed_on_job(t, peer, message, need.right, job);
}

/* Refuses names and reasons that would spoil lists and logs. Those of an order that makes or
 * changes something are checked; in questions and in orders to end something they are looked up. */
static bool has_bad_text(kiln_tracker *t, const kiln_tracker_peer *peer,
                         const kiln_message *message, kiln_right right) {
    if (right != KILN_RIGHT_OPEN && right != KILN_RIGHT_MANAGE && right != KILN_RIGHT_RULE)
        return false;
    kiln_status st = kiln_message_check_lines(message);
    if (!st) return false;
    kiln_tracker_send_status(
        t, peer, message->stream,
        message->type == KILN_MSG_JOB_OPEN ? message->job_open.job : (kiln_str){0}, 0, st);
    return true;
}

bool kiln_tracker_is_allowed(kiln_tracker *t, const kiln_tracker_peer *peer,
                             const kiln_message *message) {
    kiln_need need;
    if (!kiln_tracker_is_person(peer)) return true; /* messages.def says what programs may send */
    if (!kiln_need_of(message->type, &need)) return false;
    if (need.scope == KILN_NEED_CONNECTION) return true;
    const kiln_tracker_job *job = job_of(t, peer, message, need.scope);
    kiln_tracker_project *project = kiln_tracker_project_find(t, project_of(message, job));
    return !is_over(t, peer, message, NULL) && has_right(t, peer, message, need, job) &&
           (!project || !is_over(t, peer, message, project)) &&
           !has_bad_text(t, peer, message, need.right);
}
