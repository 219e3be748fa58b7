#include "tests/unit/tracker/fleet.h"
#include "tracker/quotas.h"

#define CLIENT 30
#define OTHER 31
#define TUNER 20

static kiln_message question(const char *tuner) {
    return (kiln_message){.type = KILN_MSG_RECORDS_ASK,
                          .stream = 7,
                          .records_ask = {.question = KILN_RECORDS_TOP,
                                          .tuner = kiln_str_from(tuner),
                                          .task = KILN_STR("v2:1"),
                                          .limit = 5}};
}

static void connect_all(fleet *f) {
    fleet_tuner(f, TUNER, "node-1", "tuner-1");
    fleet_connect(f, CLIENT, KILN_PEER_CLIENT, "client", "c1");
    fleet_connect(f, OTHER, KILN_PEER_CLIENT, "other", "c2");
}

static void a_question_goes_to_the_tuner_and_its_page_to_the_person(void **state) {
    fleet *f = *state;
    connect_all(f);
    kiln_message ask = question("node-1");
    fleet_say(f, CLIENT, &ask);
    const kiln_message *told = fleet_take(f, TUNER, KILN_MSG_RECORDS_ASK);
    assert_non_null(told);
    assert_int_equal(told->records_ask.tuner.size, 0);
    assert_int_equal(told->records_ask.limit, 5);
    expect_str(told->records_ask.task, "v2:1");
    kiln_message page = {.type = KILN_MSG_RECORDS_PAGE,
                         .records_page = {.number = told->records_ask.number + 1,
                                          .rows = KILN_STR("\x90"),
                                          .count = 3,
                                          .more = true}};
    fleet_say(f, TUNER, &page); /* of no question */
    assert_null(fleet_take(f, CLIENT, KILN_MSG_RECORDS_PAGE));
    page.records_page.number--;
    fleet_say(f, TUNER, &page);
    const kiln_message *got = fleet_take(f, CLIENT, KILN_MSG_RECORDS_PAGE);
    assert_non_null(got);
    assert_int_equal(got->stream, 7);
    assert_int_equal(got->records_page.number, 0);
    assert_int_equal(got->records_page.count, 3);
    assert_true(got->records_page.more);
    assert_null(fleet_take(f, OTHER, KILN_MSG_RECORDS_PAGE));
    fleet_say(f, TUNER, &page); /* the question is over */
    assert_null(fleet_take(f, CLIENT, KILN_MSG_RECORDS_PAGE));
}

static void another_tuner_cannot_answer(void **state) {
    fleet *f = *state;
    connect_all(f);
    fleet_tuner(f, 21, "node-2", "tuner-2");
    kiln_message ask = question("node-1");
    fleet_say(f, CLIENT, &ask);
    const uint64_t number = fleet_take(f, TUNER, KILN_MSG_RECORDS_ASK)->records_ask.number;
    const kiln_message page = {.type = KILN_MSG_RECORDS_PAGE, .records_page = {.number = number}};
    assert_null(fleet_take(f, 21, KILN_MSG_RECORDS_ASK));
    fleet_say(f, 21, &page);
    assert_null(fleet_take(f, CLIENT, KILN_MSG_RECORDS_PAGE));
    fleet_say(f, TUNER, &page);
    assert_non_null(fleet_take(f, CLIENT, KILN_MSG_RECORDS_PAGE));
}

static void a_person_has_so_many_questions_at_a_time(void **state) {
    fleet *f = *state;
    const kiln_message ask = question("node-1");
    connect_all(f);
    for (uint32_t i = 0; i < KILN_TRACKER_BOARD_REQUESTS_OF_PERSON_MAX; i++) {
        fleet_say(f, CLIENT, &ask);
        assert_non_null(fleet_take(f, TUNER, KILN_MSG_RECORDS_ASK));
    }
    assert_null(fleet_take(f, CLIENT, KILN_MSG_ERROR));
    fleet_say(f, CLIENT, &ask);
    assert_null(fleet_take(f, TUNER, KILN_MSG_RECORDS_ASK));
    assert_int_equal(fleet_take(f, CLIENT, KILN_MSG_ERROR)->error.code, KILN_RESOURCE_EXHAUSTED);
}

static void without_a_tuner_the_connected_ones_are_named(void **state) {
    fleet *f = *state;
    connect_all(f);
    fleet_tuner(f, 21, "node-2", "tuner-2");
    kiln_message ask = question("");
    fleet_say(f, CLIENT, &ask);
    const kiln_message *got = fleet_take(f, CLIENT, KILN_MSG_RECORDS_PAGE);
    assert_int_equal(got->records_page.tuners.count, 2);
    expect_str(got->records_page.tuners.item[0].id, "node-1");
    expect_str(got->records_page.tuners.item[1].id, "node-2");
    ask = question("node-9");
    fleet_say(f, CLIENT, &ask);
    assert_int_equal(fleet_take(f, CLIENT, KILN_MSG_ERROR)->error.code, KILN_NOT_FOUND);
}

static void a_tuner_that_fails_is_lost_or_silent_ends_the_question(void **state) {
    fleet *f = *state;
    static const uint64_t everybody[] = {TUNER, CLIENT, OTHER, 0};
    connect_all(f);
    kiln_message ask = question("node-1");
    fleet_say(f, CLIENT, &ask);
    uint64_t number = fleet_take(f, TUNER, KILN_MSG_RECORDS_ASK)->records_ask.number;
    const kiln_message failed = {.type = KILN_MSG_RECORDS_PAGE,
                                 .records_page = {.number = number,
                                                  .code = KILN_DATA_LOSS,
                                                  .text = KILN_STR("the disk is broken")}};
    fleet_say(f, TUNER, &failed);
    const kiln_message *error = fleet_take(f, CLIENT, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_DATA_LOSS);
    assert_int_equal(error->stream, 7);
    expect_str(error->error.text, "the disk is broken");
    fleet_say(f, CLIENT, &ask);
    fleet_wait(f, 31 * FLEET_S, everybody);
    assert_int_equal(fleet_take(f, CLIENT, KILN_MSG_ERROR)->error.code, KILN_DEADLINE_EXCEEDED);
    fleet_say(f, CLIENT, &ask);
    fleet_disconnect(f, TUNER);
    assert_int_equal(fleet_take(f, CLIENT, KILN_MSG_ERROR)->error.code, KILN_UNAVAILABLE);
    fleet_tuner(f, TUNER + 1, "node-1", "tuner-3");
    fleet_say(f, CLIENT, &ask);
    fleet_disconnect(f, CLIENT); /* nobody waits any more */
    number = fleet_take(f, TUNER + 1, KILN_MSG_RECORDS_ASK)->records_ask.number;
    const kiln_message page = {.type = KILN_MSG_RECORDS_PAGE, .records_page = {.number = number}};
    fleet_say(f, TUNER + 1, &page);
}

static const kiln_msg_records_ask *asked_by(fleet *f, uint64_t peer) {
    kiln_message ask = question("node-1");
    ask.records_ask.all = true; /* what a person says of its own rights is not believed */
    fleet_forget_sent(f);
    fleet_say(f, peer, &ask);
    const kiln_message *told = fleet_take(f, TUNER, KILN_MSG_RECORDS_ASK);
    assert_non_null(told);
    return &told->records_ask;
}

static void the_tuner_is_told_which_projects_the_person_may_read(void **state) {
    fleet *f = *state;
    fleet_tuner(f, TUNER, "node-1", "tuner-1");
    f->who = (kiln_tracker_who){.is_admin = true, .is_proven = true, .person = "root"};
    fleet_connect(f, 33, KILN_PEER_ADMIN, "root", "root");
    f->who = (kiln_tracker_who){.is_proven = true, .person = "ann"};
    fleet_connect(f, CLIENT, KILN_PEER_CLIENT, "ann", "ann");
    f->who = (kiln_tracker_who){.is_proven = true, .person = "bob"};
    fleet_connect(f, OTHER, KILN_PEER_CLIENT, "bob", "bob");
    kiln_message order = {
        .type = KILN_MSG_PROJECT_ORDER,
        .project_order = {.project = KILN_STR("secret"), .act = KILN_PROJECT_NEW}};
    fleet_say(f, 33, &order);
    order.project_order.act = KILN_PROJECT_ADD;
    order.project_order.person = KILN_STR("ann");
    order.project_order.role = KILN_MEMBER_VIEWER;
    fleet_say(f, 33, &order);
    assert_true(asked_by(f, 33)->all);
    const kiln_msg_records_ask *ask = asked_by(f, CLIENT);
    assert_false(ask->all);
    assert_int_equal(ask->projects.count, 2);
    expect_str(ask->projects.item[0].id, "default");
    expect_str(ask->projects.item[1].id, "secret");
    ask = asked_by(f, OTHER);
    assert_false(ask->all);
    assert_int_equal(ask->projects.count, 1);
    expect_str(ask->projects.item[0].id, "default");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_question_goes_to_the_tuner_and_its_page_to_the_person),
        test_with_fleet(the_tuner_is_told_which_projects_the_person_may_read),
        test_with_fleet(another_tuner_cannot_answer),
        test_with_fleet(a_person_has_so_many_questions_at_a_time),
        test_with_fleet(without_a_tuner_the_connected_ones_are_named),
        test_with_fleet(a_tuner_that_fails_is_lost_or_silent_ends_the_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
