#include "tests/unit/tracker/fleet.h"

enum { BOARD = 10, OTHER_BOARD = 11, TUNER = 20, OTHER_TUNER = 21, OWNER = 30, ANN = 31, BOB = 32 };

static kiln_digest digest_of(uint8_t number) {
    kiln_digest digest = {{0}};
    digest.byte[0] = number;
    return digest;
}

static bool may_get(fleet *f, uint64_t peer, uint8_t number) {
    kiln_digest digest = digest_of(number);
    return kiln_tracker_may_get(f->t, peer, &digest);
}

static kiln_code may_put(fleet *f, uint64_t peer, uint64_t size) {
    kiln_status st = kiln_tracker_may_put(f->t, peer, size);
    const kiln_code code = kiln_status_code(st);
    kiln_status_free(st);
    return code;
}

static void put(fleet *f, uint64_t peer, uint8_t number, uint64_t size) {
    kiln_digest digest = digest_of(number);
    assert_int_equal(may_put(f, peer, size), KILN_OK);
    kiln_tracker_was_put(f->t, peer, &digest, size);
}

/* All with keys of their own, but the owner. */
static void begin(fleet *f) {
    fleet_connect(f, OWNER, KILN_PEER_CLIENT, "owner", "owner");
    f->who = (kiln_tracker_who){.is_proven = true};
    fleet_board(f, BOARD, "b0", 1);
    fleet_board(f, OTHER_BOARD, "b1", 1);
    fleet_tuner(f, TUNER, "tuner", "tuner-1");
    f->who.person = "ann";
    fleet_connect(f, ANN, KILN_PEER_CLIENT, "ann", "ann");
    f->who.person = "bob";
    fleet_connect(f, BOB, KILN_PEER_CLIENT, "bob", "bob");
}

static void a_digest_alone_is_no_right(void **state) {
    fleet *f = *state;
    begin(f);
    put(f, OWNER, 1, 100);
    assert_true(may_get(f, OWNER, 1));
    assert_false(may_get(f, ANN, 1));
    assert_false(may_get(f, TUNER, 1));
    assert_false(may_get(f, BOARD, 1));
    assert_false(may_get(f, 77, 1)); /* nobody */
    put(f, ANN, 2, 100);
    assert_true(may_get(f, ANN, 2));
    assert_false(may_get(f, BOB, 2));
    assert_int_equal(fleet_open_model(f, ANN, "a", digest_of(1)),
                     KILN_NOT_FOUND); /* naming it does not help */
    assert_false(may_get(f, ANN, 1));
}

static void a_job_gives_its_blobs_to_its_tuner_and_its_project(void **state) {
    fleet *f = *state;
    begin(f);
    put(f, ANN, 2, 100);
    assert_int_equal(fleet_open_model(f, ANN, "j", digest_of(2)), KILN_OK);
    assert_true(may_get(f, TUNER, 2));
    assert_true(may_get(f, BOB, 2)); /* both are members of `default` */
    f->who.person = NULL;
    fleet_tuner(f, OTHER_TUNER, "other", "other-1");
    assert_false(may_get(f, OTHER_TUNER, 2));
    put(f, TUNER, 3, 10);
    assert_false(may_get(f, BOB, 3));
    fleet_say(f, TUNER,
              &(kiln_message){.type = KILN_MSG_JOB_DONE,
                              .job_done = {.job = KILN_STR("j"), .records = digest_of(3)}});
    assert_true(may_get(f, ANN, 3) && may_get(f, BOB, 3));
    fleet_restart(f); /* what jobs have is known again */
    begin(f);
    assert_true(may_get(f, BOB, 2) && may_get(f, BOB, 3));
    assert_int_equal(kiln_tracker_project_blob_bytes(
                         f->t, kiln_tracker_project_get(f->t, KILN_STR(KILN_PROJECT_DEFAULT))),
                     110);
}

static void a_board_gets_what_its_trials_name_while_their_lease_holds(void **state) {
    fleet *f = *state;
    begin(f);
    put(f, ANN, 2, 100);
    assert_int_equal(fleet_open_model(f, ANN, "j", digest_of(2)), KILN_OK);
    const uint64_t lease = fleet_lease(f, 1);
    const uint64_t board = kiln_tracker_lease_find(f->t, lease)->board->peer->id;
    const uint64_t other = board == BOARD ? OTHER_BOARD : BOARD;
    kiln_msg_blob_ref rival = {digest_of(7), 1};
    kiln_message trial = {.type = KILN_MSG_TRIAL,
                          .trial = {.trial = KILN_STR("t"),
                                    .attempt = 1,
                                    .lease = lease,
                                    .job = KILN_STR("j"),
                                    .artefact = {digest_of(5), 1},
                                    .reference = {digest_of(6), 1},
                                    .rivals = {&rival, 1}}};
    assert_false(may_get(f, board, 5));
    fleet_say(f, TUNER, &trial);
    assert_true(may_get(f, board, 5) && may_get(f, board, 6) && may_get(f, board, 7));
    assert_false(may_get(f, board, 2)); /* the model is the tuner's affair */
    assert_false(may_get(f, other, 5));
    assert_int_equal(may_put(f, board, 10), KILN_OK);
    assert_int_equal(may_put(f, other, 10), KILN_PERMISSION_DENIED);
    kiln_message result = {
        .type = KILN_MSG_TRIAL_RESULT,
        .trial_result = {
            .trial = KILN_STR("t"), .attempt = 1, .lease = lease, .outputs = {digest_of(9), 10}}};
    put(f, board, 9, 10);
    assert_false(may_get(f, TUNER, 9));
    fleet_say(f, board, &result);
    assert_true(may_get(f, TUNER, 9));
    fleet_say(f, TUNER,
              &(kiln_message){.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}});
    assert_false(may_get(f, board, 5));
}

static void what_a_person_and_a_project_hand_in_is_bounded(void **state) {
    fleet *f = *state;
    begin(f);
    assert_int_equal(may_put(f, ANN, KILN_TRACKER_PUT_BYTES_A_DAY + 1), KILN_RESOURCE_EXHAUSTED);
    put(f, ANN, 1, KILN_TRACKER_PUT_BYTES_A_DAY);
    assert_int_equal(may_put(f, ANN, 1), KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(may_put(f, BOB, 1), KILN_OK);
    assert_int_equal(may_put(f, OWNER, KILN_TRACKER_PUT_BYTES_A_DAY + 1), KILN_OK);
    kiln_msg_setting quota = {KILN_STR("blob-bytes"), 150};
    fleet_say(f, OWNER,
              &(kiln_message){.type = KILN_MSG_PROJECT_ORDER,
                              .project_order = {.project = KILN_STR("default"),
                                                .act = KILN_PROJECT_SET,
                                                .settings = {&quota, 1}}});
    put(f, BOB, 2, 100);
    assert_int_equal(fleet_open_model(f, BOB, "j", digest_of(2)), KILN_OK);
    assert_int_equal(fleet_open_model(f, BOB, "k", digest_of(2)), KILN_RESOURCE_EXHAUSTED);
    quota = (kiln_msg_setting){KILN_STR("everyone"), KILN_MEMBER_VIEWER};
    fleet_say(f, OWNER,
              &(kiln_message){.type = KILN_MSG_PROJECT_ORDER,
                              .project_order = {.project = KILN_STR("default"),
                                                .act = KILN_PROJECT_SET,
                                                .settings = {&quota, 1}}});
    assert_int_equal(may_put(f, BOB, 1), KILN_PERMISSION_DENIED);
    assert_true(may_get(f, BOB, 2));
}

static void builders_hand_in_what_they_build_and_web_servers_nothing(void **state) {
    fleet *f = *state;
    f->who = (kiln_tracker_who){.is_proven = true, .has_key = true};
    fleet_connect(f, 77, KILN_PEER_BUILDER, "builder", "boot-77");
    fleet_connect(f, 78, KILN_PEER_WEB, "lab", "boot-78");
    assert_int_equal(may_put(f, 77, 1), KILN_OK);
    assert_int_equal(may_put(f, 78, 1), KILN_PERMISSION_DENIED);
}

static void who_may_open_jobs_in_one_project_may_hand_in(void **state) {
    fleet *f = *state;
    begin(f);
    kiln_msg_setting nobody = {KILN_STR("everyone"), KILN_MEMBER_NONE};
    const kiln_msg_project_order orders[] = {
        {.project = KILN_STR("default"), .act = KILN_PROJECT_SET, .settings = {&nobody, 1}},
        {.project = KILN_STR("p"), .act = KILN_PROJECT_NEW},
        {.project = KILN_STR("p"),
         .act = KILN_PROJECT_ADD,
         .person = KILN_STR("ann"),
         .role = KILN_MEMBER_MEMBER}};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(orders); i++)
        fleet_say(f, OWNER,
                  &(kiln_message){.type = KILN_MSG_PROJECT_ORDER, .project_order = orders[i]});
    assert_int_equal(may_put(f, ANN, 1), KILN_OK);
    assert_int_equal(may_put(f, BOB, 1), KILN_PERMISSION_DENIED);
}

/* Results count when they come: what is too much is not kept, and the job says why. */
static void results_count_towards_the_quota_when_they_come(void **state) {
    fleet *f = *state;
    begin(f);
    kiln_msg_setting quota = {KILN_STR("blob-bytes"), 150};
    fleet_say(f, OWNER,
              &(kiln_message){.type = KILN_MSG_PROJECT_ORDER,
                              .project_order = {.project = KILN_STR("default"),
                                                .act = KILN_PROJECT_SET,
                                                .settings = {&quota, 1}}});
    const struct {
        const char *job;
        uint8_t model, records;
        uint64_t size;
        kiln_code code;
    } row[] = {{"a", 2, 3, 40, KILN_OK}, {"b", 4, 5, 40, KILN_RESOURCE_EXHAUSTED}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_digest kept[KILN_TRACKER_JOB_BLOBS_MAX];
        put(f, BOB, row[i].model, 50);
        assert_int_equal(fleet_open_model(f, BOB, row[i].job, digest_of(row[i].model)), KILN_OK);
        put(f, TUNER, row[i].records, row[i].size);
        fleet_say(f, TUNER,
                  &(kiln_message){.type = KILN_MSG_JOB_DONE,
                                  .job_done = {.job = kiln_str_from(row[i].job),
                                               .records = digest_of(row[i].records)}});
        assert_int_equal(fleet_take(f, BOB, KILN_MSG_JOB_DONE)->job_done.code, row[i].code);
        assert_int_equal(kiln_tracker_job_blobs(f->t, kiln_str_from(row[i].job), kept),
                         row[i].code == KILN_OK);
    }
    assert_int_equal(kiln_tracker_project_blob_bytes(
                         f->t, kiln_tracker_project_get(f->t, KILN_STR(KILN_PROJECT_DEFAULT))),
                     140);
}

static void the_oldest_puts_are_forgotten(void **state) {
    fleet *f = *state;
    begin(f);
    kiln_digest digest = digest_of(1);
    kiln_tracker_was_put(f->t, TUNER, &digest, 1);
    for (uint32_t i = 0; i < KILN_TRACKER_PUTS_MAX; i++) {
        memcpy(&digest.byte[8], &i, sizeof i);
        digest.byte[1] = 1;
        kiln_tracker_was_put(f->t, TUNER, &digest, 1);
    }
    assert_false(may_get(f, TUNER, 1));
    assert_true(kiln_tracker_may_get(f->t, TUNER, &digest));
    assert_int_equal(kiln_map_count(&f->t->blobs.of_digest), KILN_TRACKER_PUTS_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_digest_alone_is_no_right),
        test_with_fleet(a_job_gives_its_blobs_to_its_tuner_and_its_project),
        test_with_fleet(a_board_gets_what_its_trials_name_while_their_lease_holds),
        test_with_fleet(what_a_person_and_a_project_hand_in_is_bounded),
        test_with_fleet(builders_hand_in_what_they_build_and_web_servers_nothing),
        test_with_fleet(who_may_open_jobs_in_one_project_may_hand_in),
        test_with_fleet(results_count_towards_the_quota_when_they_come),
        test_with_fleet(the_oldest_puts_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
