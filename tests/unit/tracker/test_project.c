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
    fleet_say(f, peer, &open);
    const kiln_message *error = fleet_take(f, peer, KILN_MSG_ERROR);
    return error ? (kiln_code)error->error.code : KILN_OK;
}

static kiln_code cancel(fleet *f, uint64_t peer, const char *id) {
    kiln_message stop = {.type = KILN_MSG_CANCEL,
                         .stream = 3,
                         .cancel = {.scope = KILN_CANCEL_JOB, .id = kiln_str_from(id)}};
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

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_job_belongs_to_the_person_that_proved_it),
        test_with_fleet(only_an_owner_or_more_cancels_and_attaches),
        test_with_fleet(a_refusal_says_which_right_and_who_gives_it),
        test_with_fleet(a_job_of_a_foreign_project_is_not_there),
        test_with_fleet(who_has_a_board_is_told_to_those_who_may_look),
        test_with_fleet(machine_code_of_ones_own_is_a_right_by_itself),
        test_with_fleet(strangers_of_an_open_tracker_do_what_they_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
