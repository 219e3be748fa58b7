#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

/* ---- Answers ---- */

/* The row of a project, without its members; `settings` is room for its settings. */
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
        .queue = project->queue.count,
        .board_seconds = kiln_tracker_project_day_ns(t, project) / 1e9,
        .blob_bytes = kiln_tracker_project_blob_bytes(t, project),
        .refused = project->refused,
        .role = standing.all ? KILN_MEMBER_ADMIN : standing.role,
        .native = kiln_right_is_held(&standing, KILN_RIGHT_NATIVE, false),
    };
    kiln_tracker_project_settings(project, settings, &row.settings.count, NULL);
    return row;
}

static void list_members(kiln_tracker *t, const kiln_tracker_project *project,
                         kiln_msg_member_row *out) {
    for (uint32_t i = 0; i < project->member.count; i++) {
        const kiln_tracker_member *member = &project->member.data[i];
        const kiln_tracker_person *person =
            kiln_tracker_person_find(t, kiln_str_from(member->person));
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

/* A project that was not made by an order is shown while it has jobs. */
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
                                    "there is no project %.*s, or %s has no role in it",
                                    KILN_STR_ARG(query->project), client->person);
        return;
    }
    kiln_msg_project_row row[KILN_MESSAGES_PAGE];
    kiln_msg_setting settings[KILN_MESSAGES_PAGE][KILN_SETTING_COUNT];
    kiln_message answer = {.type = KILN_MSG_PROJECTS, .stream = message->stream};
    kiln_msg_projects *projects = &answer.projects;
    kiln_tracker_project_get(t, KILN_STR(KILN_PROJECT_DEFAULT)); /* it always exists */
    for (uint32_t i = 0; i < t->projects.all.count; i++) {
        if (!may_look(t, client, t->projects.all.data[i])) continue;
        const uint32_t index = projects->total++, at = projects->projects.count;
        if (index < query->offset || index - query->offset >= KILN_MESSAGES_PAGE) continue;
        row[projects->projects.count++] = row_of(t, client, t->projects.all.data[i], settings[at]);
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
    const bool is_there = project && kiln_tracker_member_find(project, order->person);
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

/* Checks the order itself, whatever the rights of its sender. */
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
    if (!project && t->projects.all.count >= KILN_TRACKER_PROJECTS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "there are %u projects already",
                          t->projects.all.count);
    if (order->act == KILN_PROJECT_DROP && project && project->jobs)
        return KILN_ERROR(FAILED_PRECONDITION, "project %s has %u open jobs; cancel them first",
                          project->name, project->jobs);
    if (order->act == KILN_PROJECT_ADD || order->act == KILN_PROJECT_REMOVE)
        return check_member(project, order);
    if (order->act == KILN_PROJECT_TRUST || order->act == KILN_PROJECT_DISTRUST)
        return kiln_tracker_trusted_check(t, project, order);
    return check_settings(project, order);
}

/* The right that the order needs; MANAGE was checked already. */
static kiln_right right_of(const kiln_msg_project_order *order) {
    if (order->act == KILN_PROJECT_NEW || order->act == KILN_PROJECT_DROP) return KILN_RIGHT_RULE;
    for (uint32_t i = 0; i < order->settings.count; i++) {
        kiln_setting s;
        if (kiln_setting_find(order->settings.item[i].name, &s) && kiln_tracker_is_of_fleet(s))
            return KILN_RIGHT_RULE;
    }
    return KILN_RIGHT_MANAGE;
}

/* Ends the following of jobs that their clients may no longer see. */
static void drop_followers(kiln_tracker *t) {
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        kiln_tracker_job *job = t->jobs.all.data[i];
        if (!job->client || kiln_tracker_sees(t, job->client, job)) continue;
        kiln_tracker_refuse(t, job->client, 0, kiln_str_from(job->id), KILN_RIGHT_LOOK,
                            job->spec.project);
        kiln_tracker_job_drop_client(job);
    }
}

/* Makes the project with the first order about it. */
static void make(kiln_tracker *t, const kiln_tracker_peer *client, kiln_tracker_project *project) {
    if (!project->is_made)
        kiln_tracker_project_set(t, client, project, &(kiln_msg_project_order){0});
}

static uint64_t carry_out(kiln_tracker *t, const kiln_tracker_peer *client,
                          kiln_tracker_project *project, const kiln_msg_project_order *order) {
    uint64_t persist = 0;
    switch ((kiln_project_act)order->act) {
    case KILN_PROJECT_NEW:
    case KILN_PROJECT_SET:
        persist = kiln_tracker_project_set(t, client, project, order);
        kiln_tracker_jobs_weigh(t, project);
        return persist;
    case KILN_PROJECT_DROP: return kiln_tracker_project_drop(t, project);
    case KILN_PROJECT_ADD:
        make(t, client, project);
        return kiln_tracker_member_set(t, client, project, order,
                                       kiln_tracker_standing(t, client, order->project).all);
    case KILN_PROJECT_REMOVE: return kiln_tracker_member_remove(t, project, order->person);
    case KILN_PROJECT_TRUST:
        make(t, client, project);
        return kiln_tracker_trusted_add(t, client, project, order->signer);
    case KILN_PROJECT_DISTRUST: return kiln_tracker_trusted_remove(t, project, order->signer);
    case KILN_PROJECT_ACT_COUNT: break;
    }
    KILN_CHECK(order->act < KILN_PROJECT_ACT_COUNT);
    return 0;
}

/* The order is in force at once; the sender is answered when it is on disk. */
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
    /* An unproven peer cannot order trust, whatever role it states. */
    const bool is_unproven = order->act == KILN_PROJECT_TRUST && !client->is_proven;
    if ((order->native && !standing.all) || is_unproven) {
        kiln_tracker_refuse(t, client, message->stream, (kiln_str){0}, KILN_RIGHT_RULE,
                            order->project);
        return;
    }
    kiln_status st = check_order(t, project, order);
    if (st) {
        kiln_tracker_send_status(t, client, message->stream, (kiln_str){0}, 0, st);
        return;
    }
    project = kiln_tracker_project_get(t, order->project);
    kiln_tracker_project_change change = {.peer = client->id, .stream = message->stream};
    kiln_tracker_set_text(change.project, order->project);
    change.persist = carry_out(t, client, project, order);
    kiln_vec_push(&t->project_orders.waiting, change);
    if (order->act == KILN_PROJECT_DROP) kiln_tracker_project_forget(t, project);
    drop_followers(t);
    kiln_tracker_offer_idle(t); /* the order may have raised a quota */
}

static void answer_change(kiln_tracker *t, const kiln_tracker_project_change *change,
                          const char *failure) {
    const kiln_tracker_peer *client = kiln_tracker_peer_find(t, change->peer);
    const kiln_tracker_project *project =
        kiln_tracker_project_find(t, kiln_str_from(change->project));
    const kiln_message gone = {.type = KILN_MSG_PROJECTS, .stream = change->stream};
    if (!client) return;
    if (failure)
        kiln_tracker_send_error(
            t, client, change->stream, KILN_RESOURCE_EXHAUSTED, (kiln_str){0}, 0,
            "in force until the tracker is started anew, as it is not on disk: %s", failure);
    else if (project && is_there(project))
        answer_one(t, client, change->stream, project);
    else
        kiln_tracker_send(t, client, &gone);
}

void kiln_tracker_project_persisted(kiln_tracker *t, uint64_t persist, const char *failure) {
    for (uint32_t i = 0; i < t->project_orders.waiting.count; i++) {
        const kiln_tracker_project_change change = t->project_orders.waiting.data[i];
        if (change.persist != persist) continue;
        memmove(&t->project_orders.waiting.data[i], &t->project_orders.waiting.data[i + 1],
                (--t->project_orders.waiting.count - i) * sizeof change);
        answer_change(t, &change, failure);
        return;
    }
}

void kiln_tracker_project_orders_free(kiln_tracker *t) {
    kiln_vec_deinit(&t->project_orders.waiting);
}
