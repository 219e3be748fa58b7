/* People who sign in at a web server. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/tracker/fleet.h"

enum { WEB = 40, ANN = 41 };

/* A list with one token, of ann. */
typedef struct token_list {
    uint32_t looked;
    bool is_admin;
} token_list;

static const char right[KILN_KEY_BYTES] = "the right one", wrong[KILN_KEY_BYTES];

static bool find_token(void *context, kiln_str person, kiln_str secret, kiln_tracker_token *out) {
    token_list *list = context;
    list->looked++;
    if (!kiln_str_is(person, "ann") || memcmp(secret.data, right, sizeof right) != 0) return false;
    snprintf(out->name, sizeof out->name, "client/ann/web/3");
    out->is_admin = list->is_admin;
    return true;
}

static void set_up(fleet *f, token_list *list) {
    *list = (token_list){0};
    kiln_tracker_know_tokens(f->t, find_token, list);
    f->who = (kiln_tracker_who){.is_proven = true, .has_key = true};
    fleet_connect(f, WEB, KILN_PEER_WEB, "lab", "boot-lab");
}

static void say(fleet *f, const char *person, const char *secret) {
    fleet_forget_sent(f);
    fleet_say(f, WEB,
              &(kiln_message){.type = KILN_MSG_SIGN_IN,
                              .stream = 5,
                              .sign_in = {kiln_str_from(person), {secret, KILN_KEY_BYTES}}});
}

static kiln_code refusal(fleet *f) {
    const kiln_message *error = fleet_take(f, WEB, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->stream, 5);
    return (kiln_code)error->error.code;
}

static void a_token_names_its_person_and_what_it_may(void **state) {
    fleet *f = *state;
    token_list list;
    set_up(f, &list);
    for (int is_admin = 0; is_admin < 2; is_admin++) {
        list.is_admin = is_admin;
        say(f, "ann", right);
        const kiln_message *answer = fleet_take(f, WEB, KILN_MSG_SIGNED_IN);
        assert_non_null(answer);
        assert_int_equal(answer->stream, 5);
        assert_true(kiln_str_is(answer->signed_in.person, "ann"));
        assert_true(kiln_str_is(answer->signed_in.token, "client/ann/web/3"));
        assert_int_equal(answer->signed_in.admin, is_admin);
    }
}

static void a_wrong_token_and_an_unknown_person_get_the_same_answer(void **state) {
    fleet *f = *state;
    token_list list;
    set_up(f, &list);
    say(f, "ann", wrong);
    assert_int_equal(refusal(f), KILN_UNAUTHENTICATED);
    say(f, "nobody", right);
    assert_int_equal(refusal(f), KILN_UNAUTHENTICATED);
}

static void without_a_list_of_keys_nobody_signs_in(void **state) {
    fleet *f = *state;
    fleet_connect(f, WEB, KILN_PEER_WEB, "lab", "boot-lab");
    say(f, "ann", right);
    assert_int_equal(refusal(f), KILN_UNAUTHENTICATED);
}

static void wrong_tokens_are_bounded_for_each_person(void **state) {
    fleet *f = *state;
    token_list list;
    const uint64_t alive[] = {WEB, 0};
    set_up(f, &list);
    for (uint32_t i = 0; i < KILN_TRACKER_WRONG_MAX; i++) {
        say(f, "ann", wrong);
        assert_int_equal(refusal(f), KILN_UNAUTHENTICATED);
    }
    assert_int_equal(list.looked, KILN_TRACKER_WRONG_MAX);
    say(f, "ann", right);
    const kiln_message *error = fleet_take(f, WEB, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_in_range(error->error.retry_after_ms, 59000, 60001);
    assert_int_equal(list.looked, KILN_TRACKER_WRONG_MAX); /* it was not looked at */
    say(f, "bob", wrong);                                  /* of another person */
    assert_int_equal(refusal(f), KILN_UNAUTHENTICATED);
    fleet_wait(f, KILN_TRACKER_WRONG_NS, alive);
    say(f, "ann", right);
    assert_non_null(fleet_take(f, WEB, KILN_MSG_SIGNED_IN));
}

static void a_time_without_wrong_tokens_begins_the_count_again(void **state) {
    fleet *f = *state;
    token_list list;
    const uint64_t alive[] = {WEB, 0};
    set_up(f, &list);
    for (uint32_t i = 0; i + 1 < KILN_TRACKER_WRONG_MAX; i++) say(f, "ann", wrong);
    fleet_wait(f, KILN_TRACKER_WRONG_NS, alive);
    for (uint32_t i = 0; i + 1 < KILN_TRACKER_WRONG_MAX; i++) say(f, "ann", wrong);
    say(f, "ann", right);
    assert_non_null(fleet_take(f, WEB, KILN_MSG_SIGNED_IN));
}

static void the_newest_names_are_remembered(void **state) {
    fleet *f = *state;
    token_list list;
    char name[16];
    set_up(f, &list);
    for (uint32_t i = 0; i < KILN_TRACKER_WRONG_NAMES + 5; i++) {
        snprintf(name, sizeof name, "p%u", i);
        f->now_ns += FLEET_MS;
        say(f, name, wrong);
    }
    for (uint32_t i = 1; i <= KILN_TRACKER_WRONG_MAX; i++) say(f, name, wrong);
    assert_int_equal(refusal(f), KILN_RESOURCE_EXHAUSTED);
    for (uint32_t i = 1; i <= KILN_TRACKER_WRONG_MAX; i++) say(f, "p5", wrong); /* the oldest */
    assert_int_equal(refusal(f), KILN_RESOURCE_EXHAUSTED);
}

static void only_web_servers_ask(void **state) {
    fleet *f = *state;
    token_list list;
    set_up(f, &list);
    f->who = (kiln_tracker_who){.is_proven = true, .person = "ann"};
    fleet_connect(f, ANN, KILN_PEER_CLIENT, "ann", "boot-ann");
    fleet_say(f, ANN,
              &(kiln_message){.type = KILN_MSG_SIGN_IN,
                              .stream = 1,
                              .sign_in = {KILN_STR("ann"), {right, KILN_KEY_BYTES}}});
    const kiln_message *error = fleet_take(f, ANN, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_PERMISSION_DENIED);
    assert_int_equal(list.looked, 0);
}

/* A web server asks nothing else, and may have several connections. */
static void a_web_server_is_no_person(void **state) {
    fleet *f = *state;
    token_list list;
    set_up(f, &list);
    fleet_connect(f, WEB + 5, KILN_PEER_WEB, "lab", "boot-lab");
    assert_int_equal(f->dropped, 0);
    fleet_say(f, WEB, &(kiln_message){.type = KILN_MSG_QUERY, .stream = 3});
    const kiln_message *error = fleet_take(f, WEB, KILN_MSG_ERROR);
    assert_int_equal(error->error.code, KILN_PERMISSION_DENIED);
    assert_false(kiln_tracker_is_member(f->t, KILN_STR("ann")));
}

static void a_member_of_a_project_is_known(void **state) {
    fleet *f = *state;
    const kiln_str person = KILN_STR("ann");
    fleet_connect(f, 30, KILN_PEER_ADMIN, "owner", "boot");
    const kiln_project_act act[] = {KILN_PROJECT_NEW, KILN_PROJECT_ADD, KILN_PROJECT_ADD,
                                    KILN_PROJECT_REMOVE};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(act); i++) {
        fleet_say(f, 30,
                  &(kiln_message){
                      .type = KILN_MSG_PROJECT_ORDER,
                      .stream = 1,
                      .project_order = {.project = KILN_STR("vision"),
                                        .act = act[i],
                                        .person = i ? person : (kiln_str){0},
                                        .role = i == 2 ? KILN_MEMBER_NONE : KILN_MEMBER_VIEWER}});
        assert_null(fleet_take(f, 30, KILN_MSG_ERROR));
        assert_int_equal(kiln_tracker_is_member(f->t, person), i == 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_token_names_its_person_and_what_it_may),
        test_with_fleet(a_wrong_token_and_an_unknown_person_get_the_same_answer),
        test_with_fleet(without_a_list_of_keys_nobody_signs_in),
        test_with_fleet(wrong_tokens_are_bounded_for_each_person),
        test_with_fleet(a_time_without_wrong_tokens_begins_the_count_again),
        test_with_fleet(the_newest_names_are_remembered),
        test_with_fleet(only_web_servers_ask),
        test_with_fleet(a_web_server_is_no_person),
        test_with_fleet(a_member_of_a_project_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
