#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

kiln_tracker_project *kiln_tracker_project_find(kiln_tracker *t, kiln_str name) {
    return kiln_tracker_find(&t->projects.of_name, name);
}

kiln_str kiln_tracker_project_asked(kiln_str name) {
    return name.size ? name : KILN_STR(KILN_PROJECT_DEFAULT);
}

kiln_tracker_project *kiln_tracker_project_get(kiln_tracker *t, kiln_str name) {
    kiln_tracker_project *project = kiln_tracker_project_find(t, name);
    if (project) return project;
    project = kiln_alloc(sizeof *project);
    kiln_map_put(&t->projects.of_name, name, (uintptr_t)project);
    kiln_vec_push(&t->projects.all, project);
    project->number = kiln_tracker_next_row(t);
    project->name = kiln_alloc(name.size + 1);
    if (name.size) memcpy(project->name, name.data, name.size);
    project->weight = 1;
    project->charged_ns = t->effects.now_ns;
    if (kiln_str_is(name, KILN_PROJECT_DEFAULT))
        project->setting[KILN_SETTING_EVERYONE] = KILN_MEMBER_MEMBER;
    return project;
}

kiln_tracker_project *kiln_tracker_project_join(kiln_tracker *t, kiln_str name, uint32_t weight) {
    kiln_tracker_project *project = kiln_tracker_project_get(t, name);
    project->jobs++;
    project->weight = KILN_MAX(project->weight, weight);
    return project;
}

void kiln_tracker_project_leave(kiln_tracker_project *project) { project->jobs--; }

void kiln_tracker_project_set_weight(kiln_tracker_project *project, uint32_t weight) {
    project->weight = weight;
}

void kiln_tracker_project_set_used_up(kiln_tracker_project *project, bool is_used_up) {
    project->is_used_up = is_used_up;
}

void kiln_tracker_count_over_quota(kiln_tracker *t, kiln_tracker_project *project) {
    t->projects.quota_refused++;
    if (project) project->refused++;
}

static void free_project(kiln_tracker_project *project) {
    kiln_vec_deinit(&project->member);
    kiln_vec_deinit(&project->trusted);
    kiln_free(project->name);
    kiln_free(project);
}

/* The use of a project without jobs and leases is reset. The project is removed, unless it was made
 * by an order or used boards today. */
void kiln_tracker_project_forget(kiln_tracker *t, kiln_tracker_project *project) {
    if (project->jobs || project->held) return;
    project->used = project->lease_ns = 0;
    if (project->is_made || kiln_tracker_project_day_ns(t, project) > 0) return;
    kiln_tracker_share_remove(t, project);
    kiln_tracker_remove(&t->projects.all, project);
    kiln_map_remove(&t->projects.of_name, kiln_str_from(project->name));
    free_project(project);
}

void kiln_tracker_projects_init(kiln_tracker *t) { kiln_map_init(&t->projects.of_name); }

void kiln_tracker_projects_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->projects.all.count; i++) free_project(t->projects.all.data[i]);
    kiln_vec_deinit(&t->projects.all);
    kiln_map_deinit(&t->projects.of_name);
}

/* ---- Members and settings ---- */

kiln_tracker_member *kiln_tracker_member_find(const kiln_tracker_project *project,
                                              kiln_str person) {
    for (uint32_t i = 0; i < project->member.count; i++)
        if (kiln_str_is(person, project->member.data[i].person)) return &project->member.data[i];
    return NULL;
}

void kiln_tracker_project_settings(const kiln_tracker_project *project, kiln_msg_setting *out,
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

bool kiln_tracker_is_of_fleet(kiln_setting s) { return right_of_setting[s] == KILN_RIGHT_RULE; }

/* Writes or removes both rows of a project. */
static uint64_t keep_project(kiln_tracker *t, const kiln_tracker_project *project, bool removed) {
    kiln_msg_setting of_admins[KILN_SETTING_COUNT], of_fleet[KILN_SETTING_COUNT];
    kiln_msg_kept_project kept = {.text = kiln_str_from(project->text),
                                  .by = kiln_str_from(project->by),
                                  .made_ms = project->made_ms,
                                  .settings = {.item = of_admins}};
    kiln_msg_kept_quota quota = {.settings = {.item = of_fleet}};
    kiln_tracker_project_settings(project, of_admins, &kept.settings.count, is_of_admins);
    kiln_tracker_project_settings(project, of_fleet, &quota.settings.count,
                                  kiln_tracker_is_of_fleet);
    const kiln_str id = kiln_str_from(project->name);
    kiln_tracker_row row[] = {
        {.kind = KILN_TRACKER_ROW_PROJECT, .id = id, .removed = removed},
        {.kind = KILN_TRACKER_ROW_QUOTA, .id = id, .removed = removed},
    };
    kiln_strbuf body[2] = {{0}};
    kiln_tracker_row_fill(&row[0], KILN_RECORD_kept_project, &kept, &body[0]);
    kiln_tracker_row_fill(&row[1], KILN_RECORD_kept_quota, &quota, &body[1]);
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
    kiln_strbuf id = {0};
    kiln_strbuf_printf(&id, "%s/%s", project->name, member->person);
    const kiln_tracker_row row = {
        .kind = KILN_TRACKER_ROW_MEMBER, .id = kiln_strbuf_view(&id), .removed = removed};
    const uint64_t persist = kiln_tracker_persist_record(t, row, KILN_RECORD_kept_member, &kept);
    kiln_strbuf_deinit(&id);
    return persist;
}

uint64_t kiln_tracker_member_set(kiln_tracker *t, const kiln_tracker_peer *client,
                                 kiln_tracker_project *project, const kiln_msg_project_order *order,
                                 bool may_make_native) {
    kiln_tracker_member *member = kiln_tracker_member_find(project, order->person);
    if (!member) {
        kiln_tracker_member added = {0};
        kiln_tracker_set_text(added.person, order->person);
        kiln_vec_push(&project->member, added);
        member = &kiln_vec_last(&project->member);
    }
    member->role = (kiln_member)order->role;
    if (may_make_native) member->native = order->native;
    member->given_ms = kiln_tracker_wall_ms(t);
    kiln_tracker_set_text(member->by, kiln_str_from(client->person));
    return keep_member(t, project, member, false);
}

uint64_t kiln_tracker_member_remove(kiln_tracker *t, kiln_tracker_project *project,
                                    kiln_str person) {
    kiln_tracker_member *member = kiln_tracker_member_find(project, person);
    const uint64_t persist = keep_member(t, project, member, true);
    *member = kiln_vec_pop(&project->member);
    return persist;
}

uint64_t kiln_tracker_project_drop(kiln_tracker *t, kiln_tracker_project *project) {
    while (project->member.count)
        kiln_tracker_member_remove(t, project,
                                   kiln_str_from(kiln_vec_last(&project->member).person));
    kiln_tracker_trusted_drop(t, project);
    const uint64_t persist = keep_project(t, project, true);
    project->is_made = false;
    memset(project->setting, 0, sizeof project->setting);
    if (strcmp(project->name, KILN_PROJECT_DEFAULT) == 0)
        project->setting[KILN_SETTING_EVERYONE] = KILN_MEMBER_MEMBER;
    return persist;
}

uint64_t kiln_tracker_project_set(kiln_tracker *t, const kiln_tracker_peer *client,
                                  kiln_tracker_project *project,
                                  const kiln_msg_project_order *order) {
    kiln_setting s;
    if (!project->is_made) {
        project->made_ms = kiln_tracker_wall_ms(t);
        kiln_tracker_set_text(project->by, kiln_str_from(client->person));
    }
    project->is_made = true;
    if (order->text.size) kiln_tracker_copy_text(project->text, sizeof project->text, order->text);
    for (uint32_t i = 0; i < order->settings.count; i++)
        if (kiln_setting_find(order->settings.item[i].name, &s))
            project->setting[s] = order->settings.item[i].value;
    return keep_project(t, project, false);
}

/* ---- From the disk ---- */

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
    kiln_tracker_copy_text(project->text, sizeof project->text, kept.text);
    project->setting[KILN_SETTING_EVERYONE] = KILN_MEMBER_NONE; /* unless its row says otherwise */
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

static kiln_status restore_signer(kiln_tracker *t, const kiln_tracker_row *row,
                                  kiln_arena *scratch) {
    kiln_msg_kept_signer kept = {0};
    kiln_str half = row->id, name = kiln_str_cut(&half, '/');
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_signer, row->body, scratch, &kept);
    return st ? st : kiln_tracker_trusted_restore(kiln_tracker_project_find(t, name), half, &kept);
}

/* Restores only today's use of a project that has no jobs. */
static kiln_status restore_share(kiln_tracker *t, const kiln_tracker_row *row,
                                 kiln_arena *scratch) {
    kiln_msg_kept_share kept = {0};
    kiln_status st = kiln_record_decode(KILN_RECORD_kept_share, row->body, scratch, &kept);
    if (st) return st;
    const kiln_str name = kiln_tracker_project_asked(
        kiln_str_slice(row->id, strlen(KILN_TRACKER_SHARE_PREFIX), row->id.size));
    kiln_tracker_project *project =
        kept.day_ns > 0 ? kiln_tracker_project_get(t, name) : kiln_tracker_project_find(t, name);
    if (!project) return KILN_OK;
    project->used = project->kept = kept.used;
    project->lease_ns = kept.lease_ns;
    project->day = kept.day;
    project->day_ns = project->kept_day_ns = kept.day_ns;
    project->is_kept = true;
    t->projects.shared = KILN_MAX(t->projects.shared, kept.shared);
    t->projects.lease_ns = KILN_MAX(t->projects.lease_ns, kept.lease_ns);
    return KILN_OK;
}

kiln_status kiln_tracker_project_restore(kiln_tracker *t, const kiln_tracker_row *row) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = row->kind == KILN_TRACKER_ROW_PERSON
                         ? kiln_tracker_person_restore(t, row, &scratch)
                     : row->kind == KILN_TRACKER_ROW_PROJECT ? restore_project(t, row, &scratch)
                     : row->kind == KILN_TRACKER_ROW_MEMBER  ? restore_member(t, row, &scratch)
                     : row->kind == KILN_TRACKER_ROW_SIGNER  ? restore_signer(t, row, &scratch)
                     : row->kind == KILN_TRACKER_ROW_SHARE   ? restore_share(t, row, &scratch)
                                                             : restore_quota(t, row, &scratch);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "stored row of %.*s", KILN_STR_ARG(row->id));
}

/* ---- Invariants ---- */

void kiln_tracker_projects_check(const kiln_tracker *t) {
    for (uint32_t i = 0; i < t->projects.all.count; i++) {
        const kiln_tracker_project *project = t->projects.all.data[i];
        KILN_CHECK(kiln_tracker_find(&t->projects.of_name, kiln_str_from(project->name)) ==
                   project);
        KILN_CHECK(project->slots >= project->held && project->weight > 0);
        KILN_CHECK(project->held == 0 || project->jobs > 0);
        KILN_CHECK(project->queue.count == 0 || project->jobs > 0);
    }
}
