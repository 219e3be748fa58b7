#include "base/clock.h"
#include "proto/proto.h"
#include "tests/support/test.h"

#define MS KILN_NS_PER_MS
#define S KILN_NS_PER_S

static void the_first_dial_is_at_once(void **state) {
    (void)state;
    kiln_link link;
    kiln_link_init(&link, 5 * S, 1);
    assert_int_equal(kiln_link_next_ns(&link), 5 * S);
    assert_int_equal(kiln_link_tick(&link, 5 * S), KILN_LINK_DIAL);
    assert_int_equal(kiln_link_tick(&link, 6 * S), KILN_LINK_NOTHING);
    assert_true(kiln_link_next_ns(&link) == UINT64_MAX);
}

static void failed_dials_wait_longer_and_longer_up_to_a_limit(void **state) {
    (void)state;
    kiln_link link;
    uint64_t now = 0, wait = 0;
    kiln_link_init(&link, now, 1);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(kiln_link_tick(&link, now), KILN_LINK_DIAL);
        kiln_link_closed(&link, now);
        uint64_t next = kiln_link_next_ns(&link) - now, full = 100 * MS << i;
        if (full > 5 * S) full = 5 * S;
        assert_in_range(next, full - full / 4, full);
        assert_int_equal(kiln_link_tick(&link, now + next - 1), KILN_LINK_NOTHING);
        now += next;
        wait += next;
    }
    assert_true(wait > 20 * S);
}

static void boards_do_not_dial_in_step(void **state) {
    (void)state;
    kiln_link a, b;
    kiln_link_init(&a, 0, 1);
    kiln_link_init(&b, 0, 2);
    assert_int_equal(kiln_link_tick(&a, 0), KILN_LINK_DIAL);
    assert_int_equal(kiln_link_tick(&b, 0), KILN_LINK_DIAL);
    kiln_link_closed(&a, 0);
    kiln_link_closed(&b, 0);
    assert_true(kiln_link_next_ns(&a) != kiln_link_next_ns(&b));
}

/* Else a fleet that came all at once would speak all at once for ever. */
static void boards_do_not_ping_in_step(void **state) {
    (void)state;
    uint64_t first = 0;
    bool differ = false;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        kiln_link link;
        kiln_link_init(&link, 0, seed);
        assert_int_equal(kiln_link_tick(&link, 0), KILN_LINK_DIAL);
        kiln_link_opened(&link, 0);
        uint64_t next = kiln_link_next_ns(&link);
        assert_in_range(next, 1 * S, 2 * S);
        differ |= seed > 1 && next != first;
        first = next;
        assert_int_equal(kiln_link_tick(&link, next), KILN_LINK_PING);
        assert_int_equal(kiln_link_next_ns(&link), next + 2 * S);
    }
    assert_true(differ);
}

static void a_silent_tracker_is_given_up_within_seven_seconds(void **state) {
    (void)state;
    kiln_link link;
    kiln_link_init(&link, 0, 1);
    assert_int_equal(kiln_link_tick(&link, 0), KILN_LINK_DIAL);
    kiln_link_opened(&link, 0);
    uint32_t pings = 0;
    uint64_t now = 0;
    for (;;) {
        now = kiln_link_next_ns(&link);
        kiln_link_want want = kiln_link_tick(&link, now);
        if (want == KILN_LINK_HANG_UP) break;
        assert_int_equal(want, KILN_LINK_PING);
        pings++;
    }
    assert_in_range(pings, 2, 3);
    assert_true(now <= 7 * S);
    assert_int_equal(link.state, KILN_LINK_DOWN);
}

static void a_tracker_that_answers_is_kept(void **state) {
    (void)state;
    kiln_link link;
    kiln_link_init(&link, 0, 1);
    assert_int_equal(kiln_link_tick(&link, 0), KILN_LINK_DIAL);
    kiln_link_opened(&link, 0);
    for (uint64_t now = 0; now < 600 * S; now = kiln_link_next_ns(&link)) {
        assert_int_not_equal(kiln_link_tick(&link, now), KILN_LINK_HANG_UP);
        kiln_link_heard(&link, now);
    }
}

/* The timer of a program that was stopped fires before what came meanwhile is read. */
static void who_did_not_listen_gives_nobody_up(void **state) {
    (void)state;
    kiln_link link;
    kiln_link_init(&link, 0, 1);
    assert_int_equal(kiln_link_tick(&link, 0), KILN_LINK_DIAL);
    kiln_link_opened(&link, 0);
    assert_int_equal(kiln_link_tick(&link, 60 * S), KILN_LINK_PING);
    uint64_t now = 60 * S;
    while (kiln_link_tick(&link, now) != KILN_LINK_HANG_UP) now = kiln_link_next_ns(&link);
    assert_int_equal(now, 66 * S);
}

static void only_a_connection_that_lasted_makes_the_wait_short_again(void **state) {
    (void)state;
    kiln_link link;
    kiln_link_init(&link, 0, 1);
    uint64_t now = 0;
    for (int i = 0; i < 5; i++) { /* opens and breaks at once, five times */
        assert_int_equal(kiln_link_tick(&link, now), KILN_LINK_DIAL);
        kiln_link_opened(&link, now);
        kiln_link_closed(&link, now);
        now = kiln_link_next_ns(&link);
    }
    assert_true(link.backoff_ns > S);
    assert_int_equal(kiln_link_tick(&link, now), KILN_LINK_DIAL);
    kiln_link_opened(&link, now);
    kiln_link_closed(&link, now + 3 * S);
    kiln_link_closed(&link, now + 4 * S); /* told twice: it counts once */
    assert_true(kiln_link_next_ns(&link) <= now + 3 * S + 100 * MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_dial_is_at_once),
        cmocka_unit_test(failed_dials_wait_longer_and_longer_up_to_a_limit),
        cmocka_unit_test(boards_do_not_dial_in_step),
        cmocka_unit_test(boards_do_not_ping_in_step),
        cmocka_unit_test(a_silent_tracker_is_given_up_within_seven_seconds),
        cmocka_unit_test(a_tracker_that_answers_is_kept),
        cmocka_unit_test(who_did_not_listen_gives_nobody_up),
        cmocka_unit_test(only_a_connection_that_lasted_makes_the_wait_short_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
