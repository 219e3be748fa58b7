/* Who may do what: the standing of each person in each project, the question that handlers ask,
 * and the orders that change it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "tracker/state.h"

#define SEEN_MS                                                                      \
    UINT64_C(3600000) /* a person's row is written again so long after the last time \
                       */

/* ---- Persons ---- */

static uint64_t wall_ms(const kiln_tracker *t) {
    return (t->now_ns + t->wall_offset_ns) / KILN_NS_PER_MS;
}

static kiln_tracker_person *find_person(kiln_tracker *t, kiln_str name) {
    uint64_t value = 0;
    return kiln_map_find(&t->person_of_name, name, &value) ? (kiln_tracker_person *)(uintptr_t)value
                                                           : NULL;
}

/* Names are those of keys and of this machine's users, so that there are not too many. */
kiln_tracker_person *kiln_tracker_person_named(kiln_tracker *t, kiln_str name) {
    kiln_tracker_person *person = find_person(t, name);
    if (person) return person;
    person = kiln_alloc(sizeof *person);
    kiln_tracker_set_text(person->name, name);
    kiln_vec_push(&t->person, person);
    kiln_map_put(&t->person_of_name, kiln_str_from(person->name), (uintptr_t)person);
    return person;
}

static void write_record(kiln_tracker_row *row, kiln_record_type type, const void *record,
                         kiln_strbuf *body) {
    kiln_status st = kiln_record_encode(type, record, body);
    KILN_CHECK(st == NULL); /* every part came through the decoder or is shorter */
    row->body = kiln_strbuf_view(body);
}

static void see_person(kiln_tracker *t, kiln_tracker_person *person) {
    const uint64_t now_ms = wall_ms(t);
    if (person->seen_ms && now_ms - person->seen_ms < SEEN_MS) return;
    if (!person->seen_ms) person->first_ms = now_ms;
    person->seen_ms = now_ms;
    kiln_msg_kept_person kept = {.first_ms = person->first_ms, .seen_ms = person->seen_ms};
    kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_PERSON, .id = kiln_str_from(person->name)};
    kiln_strbuf body = {0};
    write_record(&row, KILN_RECORD_kept_person, &kept, &body);
    kiln_tracker_persist_later(t, &row, 1);
    kiln_strbuf_deinit(&body);
}

kiln_tracker_person *kiln_tracker_person_get(kiln_tracker *t, const kiln_tracker_peer *peer) {
    kiln_tracker_person *person =
        kiln_tracker_person_named(t, kiln_str_from(peer->is_proven ? peer->person : ""));
    if (person->name[0] && !peer->is_owner) see_person(t, person);
    return person;
}

/* ---- Rights ---- */

static kiln_tracker_member *find_member(const kiln_tracker_project *project, kiln_str person) {
    for (uint32_t i = 0; i < project->member.count; i++)
        if (kiln_str_is(person, project->member.data[i].person)) return &project->member.data[i];
    return NULL;
}

kiln_standing kiln_tracker_standing(kiln_tracker *t, const kiln_tracker_peer *peer,
                                    kiln_str project) {
    if (!kiln_tracker_is_person(peer)) return (kiln_standing){0};
    if (peer->is_owner || peer->is_admin) return (kiln_standing){.all = true};
    /* A tracker that lets in anybody takes them for what they say, but runs no code of theirs. */
    if (!peer->is_proven)
        return (kiln_standing){.rules = peer->role == KILN_PEER_ADMIN,
                               .role = KILN_MEMBER_OPERATOR};
    const kiln_tracker_project *found = kiln_tracker_project_find(t, project);
    const kiln_tracker_member *member =
        found ? find_member(found, kiln_str_from(peer->person)) : NULL;
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

void kiln_tracker_refuse(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                         kiln_str about, kiln_right right, kiln_str project) {
    const kiln_member role = kiln_right_role(right);
    t->rights_refused++;
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

/* ---- What a message asks for ---- */

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

/* Too many requests of the person, or about the project, are refused. */
static bool is_over(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_message *message,
                    kiln_tracker_project *project) {
    kiln_status st = kiln_tracker_quota_of_requests(t, peer, project);
    if (!st) return false;
    kiln_tracker_send_error(t, peer, message->stream, kiln_status_code(st), (kiln_str){0}, 0, "%s",
                            kiln_status_text(st));
    kiln_status_free(st);
    return true;
}

/* A job that the person may not see is not there. */
static bool is_allowed_on_job(kiln_tracker *t, const kiln_tracker_peer *peer,
                              const kiln_message *message, kiln_right right,
                              const kiln_tracker_job *job) {
    const kiln_str project = job->spec.project, id = kiln_str_from(job->id);
    if (kiln_tracker_may(t, peer, right, project, job)) return true;
    if (kiln_tracker_may(t, peer, KILN_RIGHT_LOOK, project, job)) {
        kiln_tracker_refuse(t, peer, message->stream, id, right, project);
        return false;
    }
    t->rights_refused++;
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
    const kiln_str project = spec->project.size ? spec->project : KILN_STR(KILN_PROJECT_DEFAULT);
    return is_allowed_on_project(t, peer, message, KILN_RIGHT_OPEN, project, id) &&
           (!spec->by_client ||
            is_allowed_on_project(t, peer, message, KILN_RIGHT_NATIVE, project, id));
}

/* The job that the message is about, as far as its sender can be told; NULL. */
static const kiln_tracker_job *job_of(kiln_tracker *t, const kiln_tracker_peer *peer,
                                      const kiln_message *message, kiln_need_scope scope) {
    const kiln_tracker_lease *lease = NULL;
    if (message->type == KILN_MSG_JOB_OPEN)
        return kiln_tracker_job_latest(t, message->job_open.job);
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
    return message->job_open.spec.project.size ? message->job_open.spec.project
                                               : KILN_STR(KILN_PROJECT_DEFAULT);
}

static bool has_right(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_message *message,
                      kiln_need need, const kiln_tracker_job *job) {
    switch (need.scope) {
    case KILN_NEED_CONNECTION:
    case KILN_NEED_TRACKER:
    case KILN_NEED_PROGRAM:
    case KILN_NEED_ANY_PROJECT: /* blobs never get here: the shell asks */
    case KILN_NEED_BLOB:
    case KILN_NEED_ROWS: return true;
    case KILN_NEED_FLEET:
    case KILN_NEED_PROJECT: /* some orders take more */
        return is_allowed_on_project(t, peer, message, need.right, project_of(message, NULL),
                                     (kiln_str){0});
    case KILN_NEED_JOB_OR_PROJECT: /* one that has ended is opened anew */
        return (!job || is_allowed_on_job(t, peer, message, KILN_RIGHT_STOP, job)) &&
               is_allowed_to_open(t, peer, message);
    case KILN_NEED_JOB:
    case KILN_NEED_LEASE: break;
    }
    return !job || is_allowed_on_job(t, peer, message, need.right, job);
}

bool kiln_tracker_is_allowed(kiln_tracker *t, const kiln_tracker_peer *peer,
                             const kiln_message *message) {
    kiln_need need;
    if (!kiln_tracker_is_person(peer)) return true; /* messages.def says what programs may */
    if (!kiln_need_of(message->type, &need)) return false;
    if (need.scope == KILN_NEED_CONNECTION) return true;
    const kiln_tracker_job *job = job_of(t, peer, message, need.scope);
    kiln_tracker_project *project = kiln_tracker_project_find(t, project_of(message, job));
    return !is_over(t, peer, message, NULL) && has_right(t, peer, message, need, job) &&
           (!project || !is_over(t, peer, message, project));
}

/* ---- Rows on disk ---- */

static void list_settings(const kiln_tracker_project *project, kiln_msg_setting *out,
                          uint32_t *out_count, bool (*wanted)(kiln_setting)) {
    for (kiln_setting s = 0; s < KILN_SETTING_COUNT; s++)
        if ((!wanted || wanted(s)) && project->setting[s])
            out[(*out_count)++] =
                (kiln_msg_setting){kiln_str_from(kiln_setting_name(s)), project->setting[s]};
}

static const kiln_right right_of_setting[KILN_SETTING_COUNT] = {
#define X(NAME, name, right, unit, max, text) [KILN_SETTING_##NAME] = KILN_RIGHT_##right,
#include "proto/settings.def"
#undef X
};

static bool is_of_admins(kiln_setting s) { return right_of_setting[s] == KILN_RIGHT_MANAGE; }
static bool is_of_fleet(kiln_setting s) { return right_of_setting[s] == KILN_RIGHT_RULE; }

static kiln_tracker_row member_row_of(const kiln_tracker_project *project, const char *person,
                                      kiln_strbuf *id) {
    kiln_strbuf_printf(id, "%s/%s", project->name, person);
    return (kiln_tracker_row){.kind = KILN_TRACKER_ROW_MEMBER, .id = kiln_strbuf_view(id)};
}

/* Both rows of a project. */
static uint64_t keep_project(kiln_tracker *t, const kiln_tracker_project *project, bool removed) {
    kiln_msg_setting of_admins[KILN_SETTING_COUNT], of_fleet[KILN_SETTING_COUNT];
    kiln_msg_kept_project kept = {.text = kiln_str_from(project->text),
                                  .by = kiln_str_from(project->by),
                                  .made_ms = project->made_ms,
                                  .settings = {.item = of_admins}};
    kiln_msg_kept_quota quota = {.settings = {.item = of_fleet}};
    list_settings(project, of_admins, &kept.settings.count, is_of_admins);
    list_settings(project, of_fleet, &quota.settings.count, is_of_fleet);
    const kiln_str id = kiln_str_from(project->name);
    kiln_tracker_row row[] = {
        {.kind = KILN_TRACKER_ROW_PROJECT, .id = id, .removed = removed},
        {.kind = KILN_TRACKER_ROW_QUOTA, .id = id, .removed = removed},
    };
    kiln_strbuf body[2] = {{0}};
    write_record(&row[0], KILN_RECORD_kept_project, &kept, &body[0]);
    write_record(&row[1], KILN_RECORD_kept_quota, &quota, &body[1]);
    const uint64_t persist = kiln_tracker_persist(t, row, KILN_ARRAY_COUNT(row));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(body); i++) kiln_strbuf_deinit(&body[i]);
    return persist;
}

static uint64_t keep_member(kiln_tracker *t, const kiln_tracker_project *project,
                            const kiln_tracker_member *member, bool removed) {
    kiln_msg_kept_member kept = {.role = member->role,
                                 .native = member->native,
                                 .by = kiln_str_from(member->by),
                                 .given_ms = member->given_ms};
    kiln_strbuf id = {0}, body = {0};
    kiln_tracker_row row = member_row_of(project, member->person, &id);
    row.removed = removed;
    write_record(&row, KILN_RECORD_kept_member, &kept, &body);
    const uint64_t persist = kiln_tracker_persist(t, &row, 1);
    kiln_strbuf_deinit(&id);
    kiln_strbuf_deinit(&body);
    return persist;
}

static void restore_settings(kiln_tracker_project *project, const kiln_msg_setting *item,
                             uint32_t count) {
    kiln_setting s;
    for (uint32_t i = 0; i < count; i++)
        if (kiln_setting_find(item[i].name, &s) && item[i].value <= kiln_setting_max(s))
            project->setting[s] = item[i].value;
}

static kiln_status restore_member(kiln_tracker *t, const kiln_tracker_row *row,
                                  kiln_arena *scratch) {
    kiln_msg_kept_member kept = {0};
    kiln_str person = row->id, name = kiln_str_cut(&person, '/');
    kiln_tracker_project *project = kiln_tracker_project_find(t, name);
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_member, row->body, scratch, &kept);
    if (st || !project) return st; /* one of a project that was dropped is of no use */
    kiln_tracker_member member = {
        .role = (kiln_member)kept.role, .native = kept.native, .given_ms = kept.given_ms};
    kiln_tracker_set_text(member.person, person);
    kiln_tracker_set_text(member.by, kept.by);
    kiln_vec_push(&project->member, member);
    return KILN_OK;
}

static kiln_status restore_project(kiln_tracker *t, const kiln_tracker_row *row,
                                   kiln_arena *scratch) {
    kiln_msg_kept_project kept = {0};
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_project, row->body, scratch, &kept);
    if (st) return st;
    kiln_tracker_project *project = kiln_tracker_project_get(t, row->id);
    project->is_made = true;
    project->made_ms = kept.made_ms;
    kiln_tracker_set_text(project->by, kept.by);
    snprintf(project->text, sizeof project->text, "%.*s", KILN_STR_ARG(kept.text));
    project->setting[KILN_SETTING_EVERYONE] = KILN_MEMBER_NONE; /* unless it says otherwise */
    restore_settings(project, kept.settings.item, kept.settings.count);
    return KILN_OK;
}

static kiln_status restore_quota(kiln_tracker *t, const kiln_tracker_row *row,
                                 kiln_arena *scratch) {
    kiln_msg_kept_quota kept = {0};
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_quota, row->body, scratch, &kept);
    kiln_tracker_project *project = kiln_tracker_project_find(t, row->id);
    if (!st && project) restore_settings(project, kept.settings.item, kept.settings.count);
    return st;
}

static kiln_status restore_person(kiln_tracker *t, const kiln_tracker_row *row,
                                  kiln_arena *scratch) {
    kiln_msg_kept_person kept = {0};
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_person, row->body, scratch, &kept);
    if (st) return st;
    kiln_tracker_person *person = kiln_tracker_person_named(t, row->id);
    person->first_ms = kept.first_ms;
    person->seen_ms = kept.seen_ms;
    return KILN_OK;
}

kiln_status kiln_tracker_project_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = row->kind == KILN_TRACKER_ROW_PERSON    ? restore_person(t, row, &scratch)
                     : row->kind == KILN_TRACKER_ROW_PROJECT ? restore_project(t, row, &scratch)
                     : row->kind == KILN_TRACKER_ROW_MEMBER  ? restore_member(t, row, &scratch)
                     : row->kind == KILN_TRACKER_ROW_SIGNER
                         ? kiln_tracker_trusted_restore(t, row, &scratch)
                         : restore_quota(t, row, &scratch);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "stored row of %.*s", KILN_STR_ARG(row->id));
}

/* ---- Answers ---- */

/* `settings` lie with the caller. Members are only counted. */
static kiln_msg_project_row row_of(kiln_tracker *t, const kiln_tracker_peer *reader,
                                   const kiln_tracker_project *project,
                                   kiln_msg_setting *settings) {
    const kiln_standing standing = kiln_tracker_standing(t, reader, kiln_str_from(project->name));
    kiln_msg_project_row row = {
        .project = kiln_str_from(project->name),
        .made = project->is_made,
        .text = kiln_str_from(project->text),
        .settings = {.item = settings},
        .persons = project->member.count,
        .jobs = project->jobs,
        .boards = project->slots,
        .queue = project->queued,
        .board_seconds = kiln_tracker_project_day_ns(t, project) / 1e9,
        .blob_bytes = kiln_tracker_project_blob_bytes(t, project),
        .refused = project->refused,
        .role = standing.all ? KILN_MEMBER_ADMIN : standing.role,
        .native = kiln_right_is_held(&standing, KILN_RIGHT_NATIVE, false),
    };
    list_settings(project, settings, &row.settings.count, NULL);
    return row;
}

static void list_members(kiln_tracker *t, const kiln_tracker_project *project,
                         kiln_msg_member_row *out) {
    for (uint32_t i = 0; i < project->member.count; i++) {
        const kiln_tracker_member *member = &project->member.data[i];
        const kiln_tracker_person *person = find_person(t, kiln_str_from(member->person));
        out[i] = (kiln_msg_member_row){.person = kiln_str_from(member->person),
                                       .role = member->role,
                                       .native = member->native,
                                       .by = kiln_str_from(member->by),
                                       .given_ms = member->given_ms,
                                       .seen_ms = person ? person->seen_ms : 0};
    }
}

static void answer_one(kiln_tracker *t, const kiln_tracker_peer *client, uint32_t stream,
                       const kiln_tracker_project *project) {
    kiln_msg_setting settings[KILN_SETTING_COUNT];
    kiln_msg_signer_row signers[KILN_MESSAGES_TRUSTED];
    kiln_msg_member_row *members = kiln_alloc((project->member.count + 1) * sizeof *members);
    kiln_msg_project_row row = row_of(t, client, project, settings);
    list_members(t, project, members);
    row.members.item = members;
    row.members.count = project->member.count;
    row.signers.item = signers;
    row.signers.count = kiln_tracker_trusted_rows(t, project, signers);
    kiln_message answer = {.type = KILN_MSG_PROJECTS,
                           .stream = stream,
                           .projects = {.total = 1, .projects = {&row, 1}}};
    kiln_tracker_send(t, client, &answer);
    kiln_free(members);
}

/* One that nobody made is there while it has jobs. */
static bool is_there(const kiln_tracker_project *project) {
    return project->is_made || project->jobs || strcmp(project->name, KILN_PROJECT_DEFAULT) == 0;
}

static bool may_look(kiln_tracker *t, const kiln_tracker_peer *client,
                     const kiln_tracker_project *project) {
    return is_there(project) &&
           kiln_tracker_may(t, client, KILN_RIGHT_LOOK, kiln_str_from(project->name), NULL);
}

void kiln_tracker_project_query(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message) {
    const kiln_msg_project_query *query = &message->project_query;
    if (query->project.size) {
        const kiln_tracker_project *project = kiln_str_is(query->project, KILN_PROJECT_DEFAULT)
                                                  ? kiln_tracker_project_get(t, query->project)
                                                  : kiln_tracker_project_find(t, query->project);
        if (project && may_look(t, client, project))
            answer_one(t, client, message->stream, project);
        else
            kiln_tracker_send_error(t, client, message->stream, KILN_NOT_FOUND, (kiln_str){0}, 0,
                                    "there is no project %.*s, or %s is a stranger to it",
                                    KILN_STR_ARG(query->project), client->person);
        return;
    }
    kiln_msg_project_row row[KILN_MESSAGES_PAGE];
    kiln_msg_setting settings[KILN_MESSAGES_PAGE][KILN_SETTING_COUNT];
    kiln_message answer = {.type = KILN_MSG_PROJECTS, .stream = message->stream};
    kiln_msg_projects *projects = &answer.projects;
    kiln_tracker_project_get(t, KILN_STR(KILN_PROJECT_DEFAULT)); /* it is always there */
    for (uint32_t i = 0; i < t->project.count; i++) {
        if (!may_look(t, client, t->project.data[i])) continue;
        const uint32_t index = projects->total++, at = projects->projects.count;
        if (index < query->offset || index - query->offset >= KILN_MESSAGES_PAGE) continue;
        row[projects->projects.count++] = row_of(t, client, t->project.data[i], settings[at]);
    }
    projects->projects.item = row;
    kiln_tracker_send(t, client, &answer);
}

/* ---- Orders ---- */

/* Letters, digits, dots, dashes and underscores, as in the names of keys. */
static bool is_name(kiln_str text) {
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
        if (!fits) return false;
    }
    return text.size > 0;
}

static kiln_status check_settings(const kiln_tracker_project *project,
                                  const kiln_msg_project_order *order) {
    uint64_t value[KILN_SETTING_COUNT] = {0};
    if (project) memcpy(value, project->setting, sizeof value);
    for (uint32_t i = 0; i < order->settings.count; i++) {
        kiln_setting s;
        const kiln_msg_setting *given = &order->settings.item[i];
        if (!kiln_setting_find(given->name, &s))
            return KILN_ERROR(INVALID_ARGUMENT, "a project has no setting '%.*s'",
                              KILN_STR_ARG(given->name));
        if (given->value > kiln_setting_max(s))
            return KILN_ERROR(OUT_OF_RANGE, "%s is at most %llu", kiln_setting_name(s),
                              (unsigned long long)kiln_setting_max(s));
        value[s] = given->value;
    }
    static const kiln_setting bound[][2] = {
        {KILN_SETTING_WEIGHT, KILN_SETTING_WEIGHT_MAX},
        {KILN_SETTING_PRIORITY, KILN_SETTING_PRIORITY_MAX},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bound); i++)
        if (value[bound[i][1]] && value[bound[i][0]] > value[bound[i][1]])
            return KILN_ERROR(OUT_OF_RANGE, "%s is at most %llu in this project (%s)",
                              kiln_setting_name(bound[i][0]),
                              (unsigned long long)value[bound[i][1]],
                              kiln_setting_name(bound[i][1]));
    return KILN_OK;
}

static kiln_status check_member(const kiln_tracker_project *project,
                                const kiln_msg_project_order *order) {
    const bool is_there = project && find_member(project, order->person);
    if (!is_name(order->person))
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s' is no name of a person",
                          KILN_STR_ARG(order->person));
    if (order->act == KILN_PROJECT_REMOVE && !is_there)
        return KILN_ERROR(NOT_FOUND, "%.*s is no member of project %.*s",
                          KILN_STR_ARG(order->person), KILN_STR_ARG(order->project));
    if (order->act == KILN_PROJECT_ADD && !is_there && project &&
        project->member.count >= KILN_MESSAGES_MEMBERS)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "a project has at most %u members",
                          KILN_MESSAGES_MEMBERS);
    return KILN_OK;
}

/* Why it cannot be done, by anybody; NULL. */
static kiln_status check_order(const kiln_tracker *t, const kiln_tracker_project *project,
                               const kiln_msg_project_order *order) {
    const bool is_default = kiln_str_is(order->project, KILN_PROJECT_DEFAULT);
    const bool is_there = is_default || (project && project->is_made);
    if (!is_name(order->project))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "'%.*s' is no name of a project: letters, digits, '.', '-' and '_'",
                          KILN_STR_ARG(order->project));
    if (order->act == KILN_PROJECT_NEW && is_there)
        return KILN_ERROR(ALREADY_EXISTS, "project %.*s is there already",
                          KILN_STR_ARG(order->project));
    if (order->act != KILN_PROJECT_NEW && !is_there)
        return KILN_ERROR(NOT_FOUND, "there is no project %.*s; kiln project new makes it",
                          KILN_STR_ARG(order->project));
    if (!project && t->project.count >= KILN_TRACKER_PROJECTS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "there are %u projects already", t->project.count);
    if (order->act == KILN_PROJECT_DROP && project && project->jobs)
        return KILN_ERROR(FAILED_PRECONDITION, "project %s has %u open jobs; cancel them first",
                          project->name, project->jobs);
    if (order->act == KILN_PROJECT_ADD || order->act == KILN_PROJECT_REMOVE)
        return check_member(project, order);
    if (order->act == KILN_PROJECT_TRUST || order->act == KILN_PROJECT_DISTRUST)
        return kiln_tracker_trusted_check(t, project, order);
    return check_settings(project, order);
}

/* The highest right that the order takes; MANAGE has been asked for. */
static kiln_right right_of(const kiln_msg_project_order *order) {
    if (order->act == KILN_PROJECT_NEW || order->act == KILN_PROJECT_DROP) return KILN_RIGHT_RULE;
    for (uint32_t i = 0; i < order->settings.count; i++) {
        kiln_setting s;
        if (kiln_setting_find(order->settings.item[i].name, &s) && is_of_fleet(s))
            return KILN_RIGHT_RULE;
    }
    return KILN_RIGHT_MANAGE;
}

/* Those who followed what they may not see any more are told so. */
static void drop_followers(kiln_tracker *t) {
    kiln_thread_walks(t->job.count);
    for (uint32_t i = 0; i < t->job.count; i++) {
        kiln_tracker_job *job = t->job.data[i];
        if (!job->client || kiln_tracker_sees(t, job->client, job)) continue;
        kiln_tracker_refuse(t, job->client, 0, kiln_str_from(job->id), KILN_RIGHT_LOOK,
                            job->spec.project);
        job->client = NULL;
    }
}

static uint64_t set_member(kiln_tracker *t, const kiln_tracker_peer *client,
                           kiln_tracker_project *project, const kiln_msg_project_order *order) {
    kiln_tracker_member *member = find_member(project, order->person);
    if (!member) {
        kiln_tracker_member added = {0};
        kiln_tracker_set_text(added.person, order->person);
        kiln_vec_push(&project->member, added);
        member = &kiln_vec_last(&project->member);
    }
    const kiln_standing giver = kiln_tracker_standing(t, client, kiln_str_from(project->name));
    member->role = (kiln_member)order->role;
    if (giver.all) member->native = order->native;
    member->given_ms = wall_ms(t);
    kiln_tracker_set_text(member->by, kiln_str_from(client->person));
    return keep_member(t, project, member, false);
}

static uint64_t remove_member(kiln_tracker *t, kiln_tracker_project *project, kiln_str person) {
    kiln_tracker_member *member = find_member(project, person);
    const uint64_t persist = keep_member(t, project, member, true);
    *member = kiln_vec_pop(&project->member);
    return persist;
}

static uint64_t drop_project(kiln_tracker *t, kiln_tracker_project *project) {
    while (project->member.count)
        remove_member(t, project, kiln_str_from(kiln_vec_last(&project->member).person));
    kiln_tracker_trusted_drop(t, project);
    const uint64_t persist = keep_project(t, project, true);
    project->is_made = false;
    memset(project->setting, 0, sizeof project->setting);
    if (strcmp(project->name, KILN_PROJECT_DEFAULT) == 0)
        project->setting[KILN_SETTING_EVERYONE] = KILN_MEMBER_MEMBER;
    return persist;
}

static uint64_t set_project(kiln_tracker *t, const kiln_tracker_peer *client,
                            kiln_tracker_project *project, const kiln_msg_project_order *order) {
    kiln_setting s;
    if (!project->is_made) {
        project->made_ms = wall_ms(t);
        kiln_tracker_set_text(project->by, kiln_str_from(client->person));
    }
    project->is_made = true;
    if (order->text.size)
        snprintf(project->text, sizeof project->text, "%.*s", KILN_STR_ARG(order->text));
    for (uint32_t i = 0; i < order->settings.count; i++)
        if (kiln_setting_find(order->settings.item[i].name, &s))
            project->setting[s] = order->settings.item[i].value;
    kiln_tracker_project_weigh(t, project);
    return keep_project(t, project, false);
}

static uint64_t carry_out(kiln_tracker *t, const kiln_tracker_peer *client,
                          kiln_tracker_project *project, const kiln_msg_project_order *order) {
    switch ((kiln_project_act)order->act) {
    case KILN_PROJECT_NEW:
    case KILN_PROJECT_SET: return set_project(t, client, project, order);
    case KILN_PROJECT_DROP: return drop_project(t, project);
    case KILN_PROJECT_ADD:
        if (!project->is_made) set_project(t, client, project, &(kiln_msg_project_order){0});
        return set_member(t, client, project, order);
    case KILN_PROJECT_REMOVE: return remove_member(t, project, order->person);
    case KILN_PROJECT_TRUST:
        if (!project->is_made) set_project(t, client, project, &(kiln_msg_project_order){0});
        return kiln_tracker_trusted_add(t, client, project, order->signer);
    case KILN_PROJECT_DISTRUST: return kiln_tracker_trusted_remove(t, project, order->signer);
    case KILN_PROJECT_ACT_COUNT: break;
    }
    KILN_CHECK(order->act < KILN_PROJECT_ACT_COUNT);
    return 0;
}

/* In force at once; the sender is told when it is on disk. */
void kiln_tracker_project_order(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message) {
    const kiln_msg_project_order *order = &message->project_order;
    kiln_tracker_project *project = kiln_tracker_project_find(t, order->project);
    const kiln_right right = right_of(order);
    const kiln_standing standing = kiln_tracker_standing(t, client, order->project);
    if (!kiln_tracker_may(t, client, right, order->project, NULL)) {
        kiln_tracker_refuse(t, client, message->stream, (kiln_str){0}, right, order->project);
        return;
    }
    /* Whoever proved nothing says in vain that it is an admin. */
    const bool is_unproven = order->act == KILN_PROJECT_TRUST && !client->is_proven;
    if ((order->native && !standing.all) || is_unproven) {
        kiln_tracker_refuse(t, client, message->stream, (kiln_str){0}, KILN_RIGHT_RULE,
                            order->project);
        return;
    }
    kiln_status st = check_order(t, project, order);
    if (st) {
        kiln_tracker_send_error(t, client, message->stream, kiln_status_code(st), (kiln_str){0}, 0,
                                "%s", kiln_status_text(st));
        kiln_status_free(st);
        return;
    }
    project = kiln_tracker_project_get(t, order->project);
    kiln_tracker_project_change change = {.peer = client->id, .stream = message->stream};
    kiln_tracker_set_text(change.project, order->project);
    change.persist = carry_out(t, client, project, order);
    kiln_vec_push(&t->project_change, change);
    if (order->act == KILN_PROJECT_DROP) kiln_tracker_project_forget(t, project);
    drop_followers(t);
    kiln_tracker_offer_idle(t); /* a quota may have been raised */
}

static void answer_change(kiln_tracker *t, const kiln_tracker_project_change *change,
                          const char *failure) {
    const kiln_tracker_peer *client = kiln_tracker_peer_find(t, change->peer);
    const kiln_tracker_project *project =
        kiln_tracker_project_find(t, kiln_str_from(change->project));
    const kiln_message gone = {.type = KILN_MSG_PROJECTS, .stream = change->stream};
    if (!client) return;
    if (failure)
        kiln_tracker_send_error(t, client, change->stream, KILN_RESOURCE_EXHAUSTED, (kiln_str){0},
                                0,
                                "in force until the tracker is started anew, as it is not on "
                                "disk: %s",
                                failure);
    else if (project && is_there(project))
        answer_one(t, client, change->stream, project);
    else
        kiln_tracker_send(t, client, &gone);
}

void kiln_tracker_project_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    for (uint32_t i = 0; i < t->project_change.count; i++) {
        const kiln_tracker_project_change change = t->project_change.data[i];
        if (change.persist != persist) continue;
        memmove(&t->project_change.data[i], &t->project_change.data[i + 1],
                (--t->project_change.count - i) * sizeof change);
        answer_change(t, &change, failure);
        return;
    }
}
