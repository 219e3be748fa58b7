#include "tracker/rights.h"

#include <string.h>

#include "base/macros.h"
#include "tests/support/test.h"

/* Who asks, in the order of the columns below. */
static const struct {
    const char *name;
    kiln_standing standing;
} asker[] = {
    {"a stranger to the project", {0}},
    {"a viewer", {.role = KILN_MEMBER_VIEWER}},
    {"a member", {.role = KILN_MEMBER_MEMBER}},
    {"an operator", {.role = KILN_MEMBER_OPERATOR}},
    {"an admin of the project", {.role = KILN_MEMBER_ADMIN}},
    {"a viewer with `native`", {.role = KILN_MEMBER_VIEWER, .native = true}},
    {"a member with `native`", {.role = KILN_MEMBER_MEMBER, .native = true}},
    {"an administrator who proved nothing", {.role = KILN_MEMBER_OPERATOR, .rules = true}},
    {"the tracker's user", {.all = true}},
};

/* What each may send about jobs of others, and about jobs of their own; 'x': it may. */
static const struct {
    kiln_message_type type;
    const char *any, *own;
} table[] = {
    {KILN_MSG_HELLO, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_WELCOME, "xxxxxxxxx", "xxxxxxxxx"}, /* only of the tracker */
    {KILN_MSG_PING, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_PONG, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_ERROR, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_GOAWAY, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_WINDOW, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_CHALLENGE, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_PROOF, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_KEY_OFFER, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_KEY_TAKEN, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_BOARD_UP, "xxxxxxxxx", "xxxxxxxxx"}, /* only of boards */
    {KILN_MSG_BOARD_STATE, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_JOB_OPEN, "..xxx.xxx", "..xxx.xxx"},
    {KILN_MSG_JOB_STATE, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_JOB_ASSIGN, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_JOB_EVENT, "xxxxxxxxx", "xxxxxxxxx"}, /* only of tuners */
    {KILN_MSG_JOB_DONE, "......x.x", "......x.x"},
    {KILN_MSG_JOB_CLOSE, "xxxxxxxxx", "xxxxxxxxx"}, /* forgets what its own connection follows */
    {KILN_MSG_LEASE_REQ, "......x.x", "......x.x"},
    {KILN_MSG_LEASE_GRANT, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_LEASE_RENEW, "......x.x", "......x.x"},
    {KILN_MSG_LEASE_RELEASE, "xxxxxxxxx", "xxxxxxxxx"}, /* of what it holds itself */
    {KILN_MSG_LEASE_LOST, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_BLOB_HAVE, ".xxxxxxxx", ".xxxxxxxx"},
    {KILN_MSG_BLOB_MISSING, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_BLOB_PUT, "..xxx.xxx", "..xxx.xxx"},
    {KILN_MSG_BLOB_OK, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_BLOB_GET, ".xxxxxxxx", ".xxxxxxxx"},
    {KILN_MSG_TRIAL, "......x.x", "......x.x"},
    {KILN_MSG_TRIAL_EVENT, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_TRIAL_RESULT, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_TRIAL_ACK, "xxxxxxxxx", "xxxxxxxxx"}, /* under a lease that it holds itself */
    {KILN_MSG_CANCEL, "...xx..xx", "..xxx.xxx"},
    {KILN_MSG_QUERY, ".xxxxxxxx", ".xxxxxxxx"},
    {KILN_MSG_ANSWER, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_BOARD_ORDER, ".......xx", ".......xx"},
    {KILN_MSG_WATCH, ".xxxxxxxx", ".xxxxxxxx"},
    {KILN_MSG_CHANGE, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_PROBE, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_PROBED, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_TAIL, ".......xx", ".......xx"},
    {KILN_MSG_LINES, "xxxxxxxxx", "xxxxxxxxx"}, /* only of boards */
    {KILN_MSG_PROJECT_ORDER, "....x..xx", "....x..xx"},
    {KILN_MSG_PROJECT_QUERY, ".xxxxxxxx", ".xxxxxxxx"},
    {KILN_MSG_PROJECTS, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_KICK, ".......xx", ".......xx"},
    {KILN_MSG_KICKED, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_SIGN_IN, "xxxxxxxxx", "xxxxxxxxx"}, /* only of web servers */
    {KILN_MSG_SIGNED_IN, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_RESERVE, "..xxx.xxx", "..xxx.xxx"},
    {KILN_MSG_MAINTENANCE_ORDER, ".......xx", ".......xx"},
    {KILN_MSG_MAINTENANCE_QUERY, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_MAINTENANCE, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_JOB_ORDER, "...xx..xx", "..xxx.xxx"},
    {KILN_MSG_RECORDS_ASK, ".xxxxxxxx", ".xxxxxxxx"},  /* of the projects that it reads */
    {KILN_MSG_RECORDS_PAGE, "xxxxxxxxx", "xxxxxxxxx"}, /* only of tuners */
    {KILN_MSG_UPGRADE_ORDER, ".......xx", ".......xx"},
    {KILN_MSG_UPGRADE_QUERY, ".......xx", ".......xx"},
    {KILN_MSG_UPGRADES, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_UPGRADE, "xxxxxxxxx", "xxxxxxxxx"},
    {KILN_MSG_UPGRADED, "xxxxxxxxx", "xxxxxxxxx"}, /* only of boards */
};

static void check(kiln_message_type type, kiln_right right, const char *row, bool own) {
    assert_int_equal(strlen(row), KILN_ARRAY_COUNT(asker));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(asker); i++)
        if (kiln_right_is_held(&asker[i].standing, right, own) != (row[i] == 'x'))
            fail_msg("%s: %s on %s", kiln_message_name(type), asker[i].name,
                     own ? "its own" : "another's");
}

static void each_role_may_send_what_the_table_says(void **state) {
    (void)state;
    kiln_message_type type = 0;
    while ((type = kiln_message_next(type))) {
        kiln_need need;
        size_t at = 0;
        if (!kiln_need_of(type, &need))
            fail_msg("%s has no row in rights.def", kiln_message_name(type));
        while (at < KILN_ARRAY_COUNT(table) && table[at].type != type) at++;
        if (at == KILN_ARRAY_COUNT(table))
            fail_msg("nothing is expected of %s", kiln_message_name(type));
        check(type, need.right, table[at].any, false);
        check(type, need.right, table[at].own, true);
    }
}

/* A message that people may send and that names a right is about something. */
static void what_people_may_send_has_a_scope_that_fits(void **state) {
    (void)state;
    kiln_message_type type = 0;
    while ((type = kiln_message_next(type))) {
        kiln_need need;
        assert_true(kiln_need_of(type, &need));
        const bool people = kiln_message_may_send(type, KILN_PEER_CLIENT) ||
                            kiln_message_may_send(type, KILN_PEER_ADMIN);
        const bool is_for_people =
            need.scope != KILN_NEED_TRACKER && need.scope != KILN_NEED_PROGRAM;
        if (people != is_for_people)
            fail_msg("%s: rights.def and messages.def differ on people", kiln_message_name(type));
        if (!people) assert_int_equal(need.right, KILN_RIGHT_NONE);
    }
    assert_false(kiln_need_of(KILN_MSG_DATA, &(kiln_need){0}));
}

static void a_right_names_the_role_that_gives_it(void **state) {
    (void)state;
    assert_int_equal(kiln_right_role(KILN_RIGHT_STOP), KILN_MEMBER_OPERATOR);
    assert_int_equal(kiln_right_role(KILN_RIGHT_OPEN), KILN_MEMBER_MEMBER);
    assert_int_equal(kiln_right_role(KILN_RIGHT_NATIVE), KILN_MEMBER_COUNT);
    assert_int_equal(kiln_right_role(KILN_RIGHT_RULE), KILN_MEMBER_COUNT);
    assert_string_equal(kiln_right_name(KILN_RIGHT_STOP), "stop");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_role_may_send_what_the_table_says),
        cmocka_unit_test(what_people_may_send_has_a_scope_that_fits),
        cmocka_unit_test(a_right_names_the_role_that_gives_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
