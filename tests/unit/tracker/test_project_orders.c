#include "tests/unit/tracker/fleet.h"

enum { OWNER = 30, ANN = 31, BOB = 32, ADMIN = 33, STRANGER = 34 };

static void connect_as(fleet *f, uint64_t peer, kiln_peer_role role, const char *person,
                       kiln_tracker_who who) {
    f->who = who;
    f->who.person = person;
    fleet_connect(f, peer, role, person ? person : "n", person ? person : "b");
}

static void connect_people(fleet *f) {
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    connect_as(f, OWNER, KILN_PEER_CLIENT, "owner",
               (kiln_tracker_who){.is_owner = true, .is_proven = true});
    connect_as(f, ANN, KILN_PEER_CLIENT, "ann", (kiln_tracker_who){.is_proven = true});
    connect_as(f, BOB, KILN_PEER_CLIENT, "bob", (kiln_tracker_who){.is_proven = true});
    connect_as(f, ADMIN, KILN_PEER_ADMIN, "root",
               (kiln_tracker_who){.is_admin = true, .is_proven = true});
    connect_as(f, STRANGER, KILN_PEER_CLIENT, NULL, (kiln_tracker_who){0});
}

static kiln_code open_in(fleet *f, uint64_t peer, const char *id, const char *project,
                         bool by_client) {
    kiln_message open = fleet_job(id, true);
    open.job_open.spec.project = kiln_str_from(project);
    open.job_open.spec.user = KILN_STR("somebody else");
    open.job_open.spec.by_client = by_client;
    fleet_forget_sent(f);
    fleet_say(f, peer, &open);
    const kiln_message *error = fleet_take(f, peer, KILN_MSG_ERROR);
    return error ? (kiln_code)error->error.code : KILN_OK;
}

static kiln_code cancel(fleet *f, uint64_t peer, const char *id) {
    kiln_message stop = {.type = KILN_MSG_CANCEL,
                         .stream = 3,
                         .cancel = {.scope = KILN_CANCEL_JOB, .id = kiln_str_from(id)}};
    fleet_forget_sent(f);
    fleet_say(f, peer, &stop);
    const kiln_message *error = fleet_take(f, peer, KILN_MSG_ERROR);
    return error ? (kiln_code)error->error.code : KILN_OK;
}

static void a_job_belongs_to_the_person_that_proved_it(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(open_in(f, ANN, "j", NULL, false), KILN_OK);
    const kiln_tracker_job *job = kiln_tracker_job_find(f->t, KILN_STR("j"));
    assert_string_equal(job->owner, "ann");
    assert_true(kiln_str_is(job->spec.user, "ann"));
    assert_true(kiln_str_is(job->spec.project, "default"));
    fleet_restart(f);
    job = kiln_tracker_job_find(f->t, KILN_STR("j"));
    assert_string_equal(job->owner, "ann");
    connect_people(f);
    assert_int_equal(cancel(f, BOB, "j"), KILN_PERMISSION_DENIED);
    assert_int_equal(cancel(f, ANN, "j"), KILN_OK);
}

static void only_an_owner_or_more_cancels_and_attaches(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(open_in(f, ANN, "j", NULL, false), KILN_OK);
    assert_int_equal(open_in(f, BOB, "j", NULL, false), KILN_PERMISSION_DENIED);
    assert_int_equal(cancel(f, BOB, "j"), KILN_PERMISSION_DENIED);
    assert_ptr_equal(kiln_tracker_job_find(f->t, KILN_STR("j"))->client,
                     kiln_tracker_peer_find(f->t, ANN));
    assert_int_equal(open_in(f, ANN, "j", NULL, false), KILN_OK);
    assert_int_equal(cancel(f, ADMIN, "j"), KILN_OK);
    assert_int_equal(kiln_tracker_counts_of(f->t).rights_refused, 2);
}

static void a_refusal_says_which_right_and_who_gives_it(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(open_in(f, ANN, "j", NULL, false), KILN_OK);
    kiln_message stop = {.type = KILN_MSG_CANCEL,
                         .stream = 3,
                         .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    fleet_say(f, BOB, &stop);
    const kiln_message *error = fleet_take(f, BOB, KILN_MSG_ERROR);
    expect_contains(kiln_str_dup(&f->arena, error->error.text), "bob may not cancel jobs");
    expect_contains(kiln_str_dup(&f->arena, error->error.text), "on project default");
    expect_contains(kiln_str_dup(&f->arena, error->error.text), "\"stop\"");
    expect_contains(kiln_str_dup(&f->arena, error->error.text),
                    "kiln project add default bob --role operator");
    assert_int_equal(error->stream, 3);
}

static void a_job_of_a_foreign_project_is_not_there(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(open_in(f, OWNER, "secret", "hidden", false), KILN_OK);
    assert_int_equal(open_in(f, ANN, "mine", "hidden", false), KILN_PERMISSION_DENIED);
    assert_int_equal(open_in(f, ANN, "mine", "nowhere", false), KILN_PERMISSION_DENIED);
    assert_int_equal(cancel(f, ANN, "secret"), KILN_NOT_FOUND);
    assert_int_equal(cancel(f, ANN, "none"), KILN_NOT_FOUND);
    assert_int_equal(open_in(f, ANN, "secret", NULL, false), KILN_ALREADY_EXISTS);
    kiln_message list = {.type = KILN_MSG_QUERY, .stream = 5, .query = {.topic = KILN_TOPIC_JOBS}};
    fleet_say(f, ANN, &list);
    assert_int_equal(fleet_take(f, ANN, KILN_MSG_ANSWER)->answer.total, 0);
    fleet_say(f, ADMIN, &list);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_ANSWER)->answer.total, 1);
    kiln_message watch = {.type = KILN_MSG_WATCH,
                          .stream = 7,
                          .watch = {.topic = KILN_TOPIC_JOB, .id = KILN_STR("secret")}};
    fleet_say(f, ANN, &watch);
    assert_int_equal(fleet_take(f, ANN, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
    watch.watch = (kiln_msg_watch){.topic = KILN_TOPIC_JOBS};
    fleet_say(f, ANN, &watch);
    assert_null(fleet_take(f, ANN, KILN_MSG_CHANGE));
    fleet_say(f, ADMIN, &watch);
    assert_int_equal(fleet_take(f, ADMIN, KILN_MSG_CHANGE)->change.jobs.count, 1);
}

static void who_has_a_board_is_told_to_those_who_may_look(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(open_in(f, OWNER, "j", "hidden", false), KILN_OK);
    fleet_lease(f, 1);
    kiln_message list = {.type = KILN_MSG_QUERY, .stream = 5, .query = {.topic = KILN_TOPIC_FLEET}};
    fleet_say(f, ANN, &list);
    const kiln_msg_board_row *row = &fleet_take(f, ANN, KILN_MSG_ANSWER)->answer.boards.item[0];
    assert_true(kiln_str_is(row->state, "leased"));
    assert_int_equal(row->job.size + row->user.size + row->project.size, 0);
    fleet_say(f, ADMIN, &list);
    row = &fleet_take(f, ADMIN, KILN_MSG_ANSWER)->answer.boards.item[0];
    assert_true(kiln_str_is(row->job, "j"));
    assert_true(kiln_str_is(row->user, "owner"));
    assert_true(kiln_str_is(row->project, "hidden"));
}

static void machine_code_of_ones_own_is_a_right_by_itself(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(open_in(f, ANN, "a", NULL, true), KILN_PERMISSION_DENIED);
    assert_int_equal(open_in(f, STRANGER, "s", NULL, true), KILN_PERMISSION_DENIED);
    assert_int_equal(open_in(f, STRANGER, "t", NULL, false), KILN_OK);
    assert_int_equal(open_in(f, OWNER, "o", NULL, true), KILN_OK);
    kiln_message ask = fleet_request("t", 1);
    fleet_say(f, ANN, &ask);
    assert_int_equal(fleet_take(f, ANN, KILN_MSG_ERROR)->error.code, KILN_PERMISSION_DENIED);
}

static void strangers_of_an_open_tracker_do_what_they_did(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(open_in(f, STRANGER, "s", "any", false), KILN_OK);
    assert_true(
        kiln_str_is(kiln_tracker_job_find(f->t, KILN_STR("s"))->spec.user, "somebody else"));
    assert_int_equal(open_in(f, OWNER, "o", "any", false), KILN_OK);
    assert_int_equal(cancel(f, STRANGER, "o"), KILN_OK);
}

/* ---- Orders ---- */

static kiln_code order(fleet *f, uint64_t peer, kiln_msg_project_order what) {
    fleet_forget_sent(f);
    fleet_say(f, peer,
              &(kiln_message){.type = KILN_MSG_PROJECT_ORDER, .stream = 9, .project_order = what});
    const kiln_message *error = fleet_take(f, peer, KILN_MSG_ERROR);
    if (error) return (kiln_code)error->error.code;
    assert_non_null(fleet_take(f, peer, KILN_MSG_PROJECTS));
    return KILN_OK;
}

static kiln_code make(fleet *f, uint64_t peer, const char *project) {
    return order(
        f, peer,
        (kiln_msg_project_order){.project = kiln_str_from(project), .act = KILN_PROJECT_NEW});
}

static kiln_code add(fleet *f, uint64_t peer, const char *project, const char *person,
                     kiln_member role, bool native) {
    return order(f, peer,
                 (kiln_msg_project_order){.project = kiln_str_from(project),
                                          .act = KILN_PROJECT_ADD,
                                          .person = kiln_str_from(person),
                                          .role = role,
                                          .native = native});
}

static kiln_code drop(fleet *f, uint64_t peer, const char *project, const char *person) {
    return order(f, peer,
                 (kiln_msg_project_order){.project = kiln_str_from(project),
                                          .act = person ? KILN_PROJECT_REMOVE : KILN_PROJECT_DROP,
                                          .person = kiln_str_from(person)});
}

static kiln_code set(fleet *f, uint64_t peer, const char *project, kiln_setting setting,
                     uint64_t value) {
    kiln_msg_setting item = {kiln_str_from(kiln_setting_name(setting)), value};
    return order(f, peer,
                 (kiln_msg_project_order){.project = kiln_str_from(project),
                                          .act = KILN_PROJECT_SET,
                                          .settings = {&item, 1}});
}

static const kiln_msg_project_row *show(fleet *f, uint64_t peer, const char *project) {
    fleet_forget_sent(f);
    fleet_say(f, peer,
              &(kiln_message){.type = KILN_MSG_PROJECT_QUERY,
                              .project_query = {.project = kiln_str_from(project)}});
    const kiln_message *answer = fleet_take(f, peer, KILN_MSG_PROJECTS);
    return answer ? &answer->projects.projects.item[0] : NULL;
}

static void each_role_does_what_it_may_and_no_more(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(make(f, ANN, "vision"), KILN_PERMISSION_DENIED);
    assert_int_equal(make(f, ADMIN, "vision"), KILN_OK);
    assert_int_equal(make(f, ADMIN, "vision"), KILN_ALREADY_EXISTS);
    assert_int_equal(open_in(f, OWNER, "o", "vision", false), KILN_OK);
    assert_null(show(f, ANN, "vision"));
    assert_int_equal(add(f, ADMIN, "vision", "ann", KILN_MEMBER_VIEWER, false), KILN_OK);
    assert_int_equal(show(f, ANN, "vision")->role, KILN_MEMBER_VIEWER);
    assert_int_equal(open_in(f, ANN, "a", "vision", false), KILN_PERMISSION_DENIED);
    assert_int_equal(cancel(f, ANN, "o"), KILN_PERMISSION_DENIED);
    assert_int_equal(add(f, ADMIN, "vision", "ann", KILN_MEMBER_MEMBER, false), KILN_OK);
    assert_int_equal(open_in(f, ANN, "a", "vision", false), KILN_OK);
    assert_int_equal(open_in(f, ANN, "n", "vision", true), KILN_PERMISSION_DENIED);
    assert_int_equal(cancel(f, ANN, "o"), KILN_PERMISSION_DENIED);
    assert_int_equal(add(f, ADMIN, "vision", "ann", KILN_MEMBER_OPERATOR, true), KILN_OK);
    assert_int_equal(open_in(f, ANN, "n", "vision", true), KILN_OK);
    assert_int_equal(cancel(f, ANN, "o"), KILN_OK);
    assert_int_equal(add(f, ANN, "vision", "bob", KILN_MEMBER_VIEWER, false),
                     KILN_PERMISSION_DENIED);
    assert_int_equal(add(f, ADMIN, "vision", "ann", KILN_MEMBER_ADMIN, true), KILN_OK);
    assert_int_equal(add(f, ANN, "vision", "bob", KILN_MEMBER_MEMBER, false), KILN_OK);
    assert_int_equal(add(f, ANN, "vision", "bob", KILN_MEMBER_MEMBER, true),
                     KILN_PERMISSION_DENIED); /* it is no admin's to grant */
    assert_int_equal(drop(f, ANN, "vision", NULL), KILN_PERMISSION_DENIED);
    assert_int_equal(add(f, ANN, "default", "bob", KILN_MEMBER_ADMIN, false),
                     KILN_PERMISSION_DENIED);
}

static kiln_code answer_to(fleet *f, uint64_t peer, const kiln_message *message) {
    fleet_forget_sent(f);
    fleet_say(f, peer, message);
    const kiln_message *error = fleet_take(f, peer, KILN_MSG_ERROR);
    return error ? (kiln_code)error->error.code : KILN_OK;
}

static void a_client_that_lost_its_grant_sends_nothing_more_to_the_board_it_has(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(make(f, ADMIN, "p"), KILN_OK);
    assert_int_equal(add(f, ADMIN, "p", "ann", KILN_MEMBER_MEMBER, true), KILN_OK);
    assert_int_equal(open_in(f, ANN, "n", "p", true), KILN_OK);
    const kiln_message ask = fleet_request("n", 1);
    fleet_say(f, ANN, &ask);
    const uint64_t lease = fleet_take(f, ANN, KILN_MSG_LEASE_GRANT)->lease_grant.lease;
    const kiln_message trial = {.type = KILN_MSG_TRIAL,
                                .trial = {.trial = KILN_STR("t"),
                                          .attempt = 1,
                                          .lease = lease,
                                          .job = KILN_STR("n"),
                                          .module = {.threads = 1}}};
    const kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    const kiln_message done = {.type = KILN_MSG_JOB_DONE, .job_done = {.job = KILN_STR("n")}};
    const kiln_message release = {.type = KILN_MSG_LEASE_RELEASE,
                                  .lease_release = {.lease = lease}};
    assert_int_equal(answer_to(f, ANN, &trial), KILN_OK);
    assert_int_equal(add(f, ADMIN, "p", "ann", KILN_MEMBER_MEMBER, false), KILN_OK);
    assert_int_equal(answer_to(f, ANN, &trial), KILN_PERMISSION_DENIED);
    assert_null(fleet_take(f, 10, KILN_MSG_TRIAL));
    assert_int_equal(answer_to(f, ANN, &renew), KILN_PERMISSION_DENIED);
    assert_int_equal(answer_to(f, ANN, &ask), KILN_PERMISSION_DENIED);
    assert_int_equal(answer_to(f, ANN, &done), KILN_PERMISSION_DENIED);
    assert_int_equal(answer_to(f, ANN, &release), KILN_OK); /* giving back needs no right */
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 0);
}

static void an_admin_of_a_project_keeps_what_was_granted_and_its_bounds(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(make(f, ADMIN, "p"), KILN_OK);
    assert_int_equal(add(f, ADMIN, "p", "ann", KILN_MEMBER_ADMIN, false), KILN_OK);
    assert_int_equal(add(f, ADMIN, "p", "bob", KILN_MEMBER_MEMBER, true), KILN_OK);
    assert_int_equal(add(f, ANN, "p", "bob", KILN_MEMBER_OPERATOR, false), KILN_OK);
    assert_true(show(f, BOB, "p")->native);
    assert_int_equal(set(f, ADMIN, "p", KILN_SETTING_WEIGHT_MAX, 5), KILN_OK);
    assert_int_equal(set(f, ANN, "p", KILN_SETTING_WEIGHT_MAX, 9), KILN_PERMISSION_DENIED);
    assert_int_equal(set(f, ANN, "p", KILN_SETTING_WEIGHT, 6), KILN_OUT_OF_RANGE);
    assert_int_equal(set(f, ANN, "p", KILN_SETTING_WEIGHT, 4), KILN_OK);
    kiln_message open = fleet_job("j", true);
    open.job_open.spec.project = KILN_STR("p");
    open.job_open.spec.weight = 1000;
    fleet_say(f, BOB, &open);
    assert_int_equal(kiln_tracker_project_find(f->t, KILN_STR("p"))->weight, 4);
    assert_int_equal(set(f, ANN, "p", KILN_SETTING_WEIGHT, 2), KILN_OK);
    assert_int_equal(kiln_tracker_project_find(f->t, KILN_STR("p"))->weight, 2);
    assert_int_equal(set(f, ANN, "p", KILN_SETTING_PRIORITY, 1000), KILN_OUT_OF_RANGE);
}

static void what_was_ordered_outlives_the_tracker(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(make(f, ADMIN, "p"), KILN_OK);
    assert_int_equal(add(f, ADMIN, "p", "ann", KILN_MEMBER_OPERATOR, true), KILN_OK);
    assert_int_equal(add(f, ADMIN, "p", "bob", KILN_MEMBER_VIEWER, false), KILN_OK);
    assert_int_equal(set(f, ADMIN, "p", KILN_SETTING_BOARDS, 3), KILN_OK);
    assert_int_equal(set(f, ADMIN, "default", KILN_SETTING_EVERYONE, KILN_MEMBER_NONE), KILN_OK);
    assert_int_equal(drop(f, ADMIN, "p", "bob"), KILN_OK);
    fleet_restart(f);
    connect_people(f);
    const kiln_msg_project_row *row = show(f, ANN, "p");
    assert_true(row->made && row->native);
    assert_int_equal(row->role, KILN_MEMBER_OPERATOR);
    assert_int_equal(row->settings.count, 1);
    assert_int_equal(row->settings.item[0].value, 3);
    assert_int_equal(row->members.count, 1);
    assert_true(kiln_str_is(row->members.item[0].by, "root"));
    assert_true(row->members.item[0].seen_ms > 0);
    assert_null(show(f, BOB, "p"));
    assert_null(show(f, BOB, "default"));
    assert_int_equal(open_in(f, BOB, "b", NULL, false), KILN_PERMISSION_DENIED);
    assert_int_equal(drop(f, ADMIN, "p", NULL), KILN_OK);
    assert_int_equal(drop(f, ADMIN, "default", NULL), KILN_OK);
    for (uint32_t i = 0; i < f->rows.count; i++)
        assert_false(f->rows.data[i].kind >= KILN_TRACKER_ROW_PROJECT &&
                     f->rows.data[i].kind <= KILN_TRACKER_ROW_QUOTA);
    assert_int_equal(open_in(f, BOB, "b", NULL, false), KILN_OK);
}

/* Above its bound, as another version may allow it. */
static void a_stored_setting_out_of_bounds_is_ignored(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(make(f, ADMIN, "p"), KILN_OK);
    assert_int_equal(set(f, ADMIN, "p", KILN_SETTING_BOARDS, 3), KILN_OK);
    uint32_t changed = 0;
    for (uint32_t i = 0; i < f->rows.count; i++) {
        if (f->rows.data[i].kind != KILN_TRACKER_ROW_QUOTA) continue;
        kiln_msg_setting item = {kiln_str_from(kiln_setting_name(KILN_SETTING_BOARDS)),
                                 kiln_setting_max(KILN_SETTING_BOARDS) + 1};
        kiln_strbuf body = {0};
        expect_ok(kiln_record_encode(KILN_RECORD_kept_quota,
                                     &(kiln_msg_kept_quota){.settings = {&item, 1}}, &body));
        f->rows.data[i].body = kiln_strbuf_end(&body, &f->arena);
        changed++;
    }
    assert_int_equal(changed, 1);
    fleet_restart(f);
    connect_people(f);
    assert_int_equal(show(f, OWNER, "p")->settings.count, 0);
}

static void a_full_project_takes_no_more_members(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(make(f, ADMIN, "p"), KILN_OK);
    for (uint32_t i = 0; i < KILN_MESSAGES_MEMBERS; i++)
        assert_int_equal(
            add(f, ADMIN, "p", kiln_arena_printf(&f->arena, "m%u", i), KILN_MEMBER_VIEWER, false),
            KILN_OK);
    assert_int_equal(add(f, ADMIN, "p", "ann", KILN_MEMBER_VIEWER, false), KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(add(f, ADMIN, "p", "m0", KILN_MEMBER_ADMIN, false), KILN_OK);
    assert_int_equal(drop(f, ADMIN, "p", "m1"), KILN_OK);
    assert_int_equal(add(f, ADMIN, "p", "ann", KILN_MEMBER_VIEWER, false), KILN_OK);
}

static void projects_are_listed_by_pages(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_non_null(show(f, OWNER, KILN_PROJECT_DEFAULT)); /* which nobody made */
    for (uint32_t i = 0; i <= KILN_MESSAGES_PAGE; i++)
        assert_int_equal(make(f, ADMIN, kiln_arena_printf(&f->arena, "p%u", i)), KILN_OK);
    static const uint32_t rows[] = {KILN_MESSAGES_PAGE, 2, 0};
    for (uint32_t page = 0; page < KILN_ARRAY_COUNT(rows); page++) {
        const kiln_message list = {.type = KILN_MSG_PROJECT_QUERY,
                                   .project_query = {.offset = page * KILN_MESSAGES_PAGE}};
        fleet_forget_sent(f);
        fleet_say(f, OWNER, &list);
        const kiln_msg_projects *told = &fleet_take(f, OWNER, KILN_MSG_PROJECTS)->projects;
        assert_int_equal(told->total, KILN_MESSAGES_PAGE + 2);
        assert_int_equal(told->projects.count, rows[page]);
        if (page == 1) expect_str(told->projects.item[1].project, "p40");
    }
}

static void an_order_is_answered_when_it_is_on_disk(void **state) {
    fleet *f = *state;
    connect_people(f);
    f->hold_disk = true;
    kiln_message new = {.type = KILN_MSG_PROJECT_ORDER,
                        .stream = 9,
                        .project_order = {.project = KILN_STR("p"), .act = KILN_PROJECT_NEW}};
    fleet_say(f, ADMIN, &new);
    assert_null(fleet_take(f, ADMIN, KILN_MSG_PROJECTS));
    fleet_persist(f, "the disk is full");
    expect_contains(kiln_str_dup(&f->arena, fleet_take(f, ADMIN, KILN_MSG_ERROR)->error.text),
                    "the disk is full");
}

static void who_is_removed_hears_no_more(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(make(f, ADMIN, "p"), KILN_OK);
    assert_int_equal(add(f, ADMIN, "p", "ann", KILN_MEMBER_MEMBER, false), KILN_OK);
    assert_int_equal(open_in(f, ANN, "j", "p", false), KILN_OK);
    fleet_say(f, ADMIN,
              &(kiln_message){.type = KILN_MSG_PROJECT_ORDER,
                              .project_order = {.project = KILN_STR("p"),
                                                .act = KILN_PROJECT_REMOVE,
                                                .person = KILN_STR("ann")}});
    assert_int_equal(fleet_take(f, ANN, KILN_MSG_ERROR)->error.code, KILN_PERMISSION_DENIED);
    assert_null(kiln_tracker_job_find(f->t, KILN_STR("j"))->client);
    assert_int_equal(cancel(f, ANN, "j"), KILN_NOT_FOUND);
}

static void bad_orders_are_refused(void **state) {
    fleet *f = *state;
    connect_people(f);
    assert_int_equal(make(f, ADMIN, "a/b"), KILN_INVALID_ARGUMENT);
    assert_int_equal(make(f, ADMIN, "default"), KILN_ALREADY_EXISTS);
    assert_int_equal(set(f, ADMIN, "none", KILN_SETTING_JOBS, 1), KILN_NOT_FOUND);
    assert_int_equal(drop(f, ADMIN, "none", "ann"), KILN_NOT_FOUND);
    assert_int_equal(make(f, ADMIN, "p"), KILN_OK);
    assert_int_equal(drop(f, ADMIN, "p", "ann"), KILN_NOT_FOUND);
    assert_int_equal(add(f, ADMIN, "p", "a b", KILN_MEMBER_VIEWER, false), KILN_INVALID_ARGUMENT);
    assert_int_equal(open_in(f, OWNER, "o", "p", false), KILN_OK);
    assert_int_equal(drop(f, ADMIN, "p", NULL), KILN_FAILED_PRECONDITION);
    kiln_msg_setting odd = {KILN_STR("odd"), 1};
    assert_int_equal(order(f, ADMIN,
                           (kiln_msg_project_order){.project = KILN_STR("p"),
                                                    .act = KILN_PROJECT_SET,
                                                    .settings = {&odd, 1}}),
                     KILN_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_job_belongs_to_the_person_that_proved_it),
        test_with_fleet(only_an_owner_or_more_cancels_and_attaches),
        test_with_fleet(a_refusal_says_which_right_and_who_gives_it),
        test_with_fleet(a_job_of_a_foreign_project_is_not_there),
        test_with_fleet(who_has_a_board_is_told_to_those_who_may_look),
        test_with_fleet(machine_code_of_ones_own_is_a_right_by_itself),
        test_with_fleet(strangers_of_an_open_tracker_do_what_they_did),
        test_with_fleet(each_role_does_what_it_may_and_no_more),
        test_with_fleet(a_client_that_lost_its_grant_sends_nothing_more_to_the_board_it_has),
        test_with_fleet(an_admin_of_a_project_keeps_what_was_granted_and_its_bounds),
        test_with_fleet(what_was_ordered_outlives_the_tracker),
        test_with_fleet(a_stored_setting_out_of_bounds_is_ignored),
        test_with_fleet(a_full_project_takes_no_more_members),
        test_with_fleet(projects_are_listed_by_pages),
        test_with_fleet(an_order_is_answered_when_it_is_on_disk),
        test_with_fleet(who_is_removed_hears_no_more),
        test_with_fleet(bad_orders_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
