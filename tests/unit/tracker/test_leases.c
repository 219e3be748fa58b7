#include <string.h>

#include "tests/unit/tracker/fleet.h"

static kiln_message result(uint64_t lease, const char *id) {
    return (kiln_message){
        .type = KILN_MSG_TRIAL_RESULT,
        .trial_result = {.trial = kiln_str_from(id), .attempt = 1, .lease = lease}};
}

static void a_grant_is_on_disk_before_it_is_sent(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    f->hold_disk = true;
    kiln_message ask = fleet_request("j", 5);
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    fleet_persist(f, NULL);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    expect_str(grant->lease_grant.board, "board");
    assert_int_equal(grant->lease_grant.trials, 2);
    assert_int_equal(grant->lease_grant.ttl_ms, 15000);
}

static void a_grant_says_with_which_compiler_its_board_builds(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_msg_label label[] = {{KILN_STR("room"), KILN_STR("7")},
                              {KILN_STR(KILN_LABEL_BUILDS), KILN_STR("1-llvm0")}};
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("board"), .target = KILN_STR(FLEET_TARGET), .slots = 2}};
    for (uint32_t labels = 1; labels <= 2; labels++) {
        up.board_up.labels.item = label;
        up.board_up.labels.count = labels;
        fleet_say(f, 10, &up);
        kiln_message ask = fleet_request("j", labels);
        fleet_say(f, 20, &ask);
        const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
        assert_non_null(grant);
        expect_str(grant->lease_grant.builds, labels == 2 ? "1-llvm0" : "");
    }
}

static void a_grant_that_cannot_be_written_is_refused_and_the_slot_is_free_again(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    f->hold_disk = true;
    kiln_message ask = fleet_request("j", 5);
    fleet_say(f, 20, &ask);
    fleet_persist(f, "the disk is full");
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    const kiln_message *error = fleet_take(f, 20, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(error->error.lease, 5);
    expect_str(error->error.text, "the disk is full");
    while (f->persists.count) fleet_persist(f, NULL);
    f->hold_disk = false;
    assert_true(fleet_lease(f, 6) > 0);
}

static void lease_expires_and_late_result_is_refused(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 20, 30, 0};
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_trial(f, lease, "t");
    fleet_wait(f, 16 * FLEET_S, alive);
    const kiln_message *lost = fleet_take(f, 20, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    assert_int_equal(lost->lease_lost.lease, lease);
    assert_int_equal(lost->lease_lost.code, KILN_DEADLINE_EXCEEDED);
    assert_non_null(fleet_take(f, 10, KILN_MSG_LEASE_LOST));
    kiln_message late = result(lease, "t");
    fleet_say(f, 10, &late);
    assert_null(fleet_take(f, 20, KILN_MSG_TRIAL_RESULT));
    assert_non_null(fleet_take(f, 10, KILN_MSG_LEASE_LOST)); /* the board may forget it */
    assert_int_equal(kiln_tracker_counts_of(f->t).stale_refused, 1);
}

static void a_renewed_lease_lives_on(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 20, 30, 0};
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    for (int i = 0; i < 6; i++) {
        fleet_wait(f, 5 * FLEET_S, alive);
        fleet_say(f, 20, &renew);
        assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_RENEW));
    }
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
}

static void a_board_hears_of_the_end_of_leases_that_it_knows_only(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    for (uint64_t request = 1; request <= 2; request++) {
        uint64_t lease = fleet_lease(f, request);
        if (request == 2) fleet_trial(f, lease, "t");
        kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
        fleet_say(f, 20, &release);
        assert_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST)); /* it gave it back itself */
        assert_int_equal(fleet_take(f, 10, KILN_MSG_LEASE_LOST) != NULL, request == 2);
    }
}

/* Takes away what the disk holds of the epoch, and returns it. */
static uint64_t forget_epoch(fleet *f) {
    uint64_t epoch = 0;
    for (uint32_t i = f->rows.count; i-- > 0;) {
        if (f->rows.data[i].kind != KILN_TRACKER_ROW_EPOCH) continue;
        epoch = f->rows.data[i].epoch;
        f->rows.data[i] = kiln_vec_pop(&f->rows);
    }
    return epoch;
}

static void numbers_are_reserved_on_disk_before_they_are_given_out(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    f->hold_disk = true;
    kiln_message ask = fleet_request("j", 1);
    fleet_say(f, 20, &ask);
    assert_true(forget_epoch(f) > 0);
    fleet_persist(f, "the disk is full");
    while (f->persists.count) fleet_persist(f, NULL);
    f->hold_disk = false;
    uint64_t lease = fleet_lease(f, 2), reserved = forget_epoch(f);
    assert_true(reserved >= lease); /* the reservation that failed was made again */
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    for (uint64_t request = 3; lease <= reserved; request++) {
        release.lease_release.lease = lease;
        fleet_say(f, 20, &release);
        lease = fleet_lease(f, request);
        assert_int_equal(forget_epoch(f) > 0, lease > reserved); /* one row for many */
    }
}

static void a_lost_board_ends_its_lease_at_once(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_disconnect(f, 10);
    const kiln_message *lost = fleet_take(f, 20, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    assert_int_equal(lost->lease_lost.lease, lease);
    assert_int_equal(lost->lease_lost.code, KILN_UNAVAILABLE);
}

static void a_tuner_that_was_started_anew_loses_its_old_leases(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_trial(f, lease, "t");
    fleet_disconnect(f, 20);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases,
                     1); /* it may only have lost its connection */
    fleet_tuner(f, 21, "tuner", "tuner-2");
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 0);
    const kiln_message *lost = fleet_take(f, 10, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    assert_int_equal(lost->lease_lost.lease, lease);
}

static void a_tuner_that_only_reconnects_keeps_its_lease(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_disconnect(f, 20);
    fleet_tuner(f, 21, "tuner", "tuner-1");
    kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    fleet_say(f, 21, &renew);
    assert_non_null(fleet_take(f, 21, KILN_MSG_LEASE_RENEW));
}

/* Ann has a client's key, and says the boot of a tuner. */
static void connect_liar(fleet *f) {
    const kiln_tracker_who owner = f->who;
    f->who = (kiln_tracker_who){.is_proven = true, .person = "ann"};
    fleet_connect(f, 31, KILN_PEER_CLIENT, "ann", "tuner-1");
    f->who = owner;
    fleet_forget_sent(f);
}

/* Beside the answer that a lease is not its own. */
static void expect_nothing_for_liar(fleet *f) {
    static const kiln_message_type theirs[] = {KILN_MSG_LEASE_GRANT, KILN_MSG_LEASE_RENEW,
                                               KILN_MSG_TRIAL_RESULT};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(theirs); i++) assert_null(fleet_take(f, 31, theirs[i]));
}

static void who_says_the_boot_of_a_tuner_that_is_away_gets_nothing_of_it(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_board(f, 11, "second", 1);
    const uint64_t lease = fleet_lease(f, 1);
    fleet_trial(f, lease, "t");
    f->hold_disk = true;
    kiln_message ask = fleet_request("j", 2);
    fleet_say(f, 20, &ask); /* its grant is on its way to the disk */
    fleet_disconnect(f, 20);
    connect_liar(f);
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    kiln_message done = result(lease, "t");
    fleet_say(f, 31, &renew);
    fleet_say(f, 31, &release);
    while (f->persists.count) fleet_persist(f, NULL);
    f->hold_disk = false;
    fleet_say(f, 10, &done);
    expect_nothing_for_liar(f);
    assert_null(fleet_take(f, 10, KILN_MSG_LEASE_LOST));
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 2);
    fleet_tuner(f, 20, "tuner", "tuner-1"); /* while the other is still here */
    fleet_say(f, 20, &renew);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_RENEW));
    fleet_say(f, 10, &done); /* boards repeat what nobody acknowledged */
    assert_non_null(fleet_take(f, 20, KILN_MSG_TRIAL_RESULT));
    fleet_say(f, 20, &ask);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    expect_nothing_for_liar(f);
}

static void who_said_the_boot_of_a_tuner_first_gives_it_up(void **state) {
    fleet *f = *state;
    connect_liar(f);
    fleet_running_job(f);
    const uint64_t lease = fleet_lease(f, 1);
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    fleet_say(f, 31, &release);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 1);
    expect_nothing_for_liar(f);
}

static void leases_and_their_numbers_survive_a_restart(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 20, 30, 0};
    fleet_running_job(f);
    fleet_board(f, 11, "second", 1);
    uint64_t kept = fleet_lease(f, 1), released = fleet_lease(f, 2);
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = released}};
    fleet_say(f, 20, &release);
    fleet_restart(f);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_board(f, 10, "board", 1);
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_open_job(f, 30, "j", false);
    kiln_message up = result(kept, "t");
    fleet_say(f, 10, &up);
    assert_non_null(fleet_take(f, 20, KILN_MSG_TRIAL_RESULT));
    fleet_board(f, 11, "second", 1);
    fleet_wait(f, FLEET_S, alive);
    assert_true(fleet_lease(f, 3) > released);
}

static void a_lease_ends_when_tracker_and_tuner_both_start_anew(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_restart(f);
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 21, "tuner", "tuner-2");
    const kiln_message *lost = fleet_take(f, 10, KILN_MSG_LEASE_LOST);
    assert_non_null(lost);
    assert_int_equal(lost->lease_lost.lease, lease);
    kiln_message again = fleet_request("j", 1);
    fleet_say(f, 21, &again);
    assert_non_null(fleet_take(f, 21, KILN_MSG_LEASE_GRANT));
}

static void a_lease_whose_board_does_not_come_back_after_a_restart_ends(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {20, 0};
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    fleet_restart(f);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    fleet_say(f, 20, &renew);
    fleet_wait(f, 9 * FLEET_S, alive);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
    fleet_wait(f, 2 * FLEET_S, alive);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
}

/* Tracker, tuner and board are back; the tuner goes on. */
static void come_back(fleet *f) {
    fleet_restart(f);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_board(f, 10, "board", 1);
}

/* Whoever dialled in vain for long waits for seconds before the next try. */
static void a_tuner_that_is_late_after_a_restart_keeps_job_and_lease(void **state) {
    fleet *f = *state;
    static const uint64_t early[] = {10, 30, 0};
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 5);
    fleet_restart(f);
    fleet_board(f, 10, "board", 1);
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_open_job(f, 30, "j", false);
    fleet_wait(f, 8 * FLEET_S, early);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    assert_non_null(fleet_take(f, 20, KILN_MSG_JOB_ASSIGN));
    kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    fleet_say(f, 20, &renew);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_RENEW));
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
}

static const kiln_message ping = {.type = KILN_MSG_PING};

static void a_grant_that_died_with_its_tracker_is_given_again(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 5);
    come_back(f);
    kiln_message ask = fleet_request("j", 5);
    fleet_say(f, 20, &ask);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    assert_int_equal(grant->lease_grant.lease, lease);
    assert_int_equal(grant->lease_grant.trials, 2);
    expect_str(grant->lease_grant.board, "board");
    fleet_say(f, 20, &ping);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
}

static void a_lease_that_its_tuner_does_not_know_is_free_when_that_is_back(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lost = fleet_lease(f, 5);
    come_back(f);
    kiln_message ask = fleet_request("j", 6);
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    fleet_say(f, 20, &ping);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    assert_true(grant->lease_grant.lease > lost);
}

static void a_lease_that_its_tuner_renews_is_kept_over_a_restart(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 5);
    come_back(f);
    kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    fleet_say(f, 20, &renew);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_RENEW));
    fleet_say(f, 20, &ping);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_LOST));
}

/* Which request it answers is told again too. */
static void a_board_that_shall_rest_after_a_restart_ends_what_it_has(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 5);
    come_back(f);
    kiln_message goaway = {.type = KILN_MSG_GOAWAY};
    fleet_say(f, 10, &goaway);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    assert_int_equal(grant->lease_grant.request, 5);
    assert_int_equal(grant->lease_grant.lease, lease);
    assert_int_equal(grant->lease_grant.trials, 1);
}

static void release(fleet *f, uint64_t lease) {
    kiln_message message = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    fleet_say(f, 20, &message);
}

static uint64_t lease_of(fleet *f, uint64_t request, bool exclusive) {
    kiln_message ask = fleet_request("j", request);
    ask.lease_req.exclusive = exclusive;
    fleet_say(f, 20, &ask);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    return grant ? grant->lease_grant.lease : 0;
}

/* The row of a lease as it is on disk now. */
static kiln_tracker_row row_of(const fleet *f, uint64_t lease) {
    uint32_t at = 0;
    while (f->rows.data[at].kind != KILN_TRACKER_ROW_LEASE || f->rows.data[at].epoch != lease) at++;
    return f->rows.data[at];
}

/* Rows whose removal did not reach the disk, and then the disk had room again: the board had two
 * slots under a lease each, then one lease of all of it (or the reverse), in any order of rows. */
static void of_stored_leases_that_share_a_slot_the_newest_holds(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 10);
    fleet_board(f, 10, "board", 2);
    for (uint64_t round = 0; round < 4; round++) {
        const bool whole_last = round % 2, stale_first = round / 2;
        uint64_t request = 10 * (round + 1), old = 0, newest = 0;
        if (whole_last) {
            uint64_t first = lease_of(f, request, false);
            old = lease_of(f, request + 1, false); /* in the second slot */
            release(f, first);
        } else {
            old = lease_of(f, request, true);
        }
        kiln_tracker_row stale = row_of(f, old);
        release(f, old);
        uint64_t filler = whole_last ? 0 : lease_of(f, request + 2, false);
        newest = lease_of(f, request + 3, whole_last);
        if (filler) release(f, filler);
        kiln_vec_push(&f->rows, stale);
        for (uint32_t i = f->rows.count; stale_first && i-- > 1;) {
            kiln_tracker_row row = f->rows.data[i];
            f->rows.data[i] = f->rows.data[i - 1];
            f->rows.data[i - 1] = row;
        }
        fleet_restart(f);
        assert_int_equal(kiln_tracker_counts_of(f->t).leases, 1);
        fleet_board(f, 10, "board", 2);
        fleet_tuner(f, 20, "tuner", "tuner-1");
        kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = newest}};
        fleet_say(f, 20, &renew);
        assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_RENEW));
        assert_int_equal(f->t->boards.all.data[0]->busy, whole_last ? 2 : 1);
        release(f, newest);
        assert_int_equal(f->t->boards.all.data[0]->busy, 0);
    }
}

static void of_stored_leases_of_the_first_slot_the_newest_holds(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    const uint64_t old = lease_of(f, 1, false);
    const kiln_tracker_row stale = row_of(f, old);
    release(f, old);
    const uint64_t newest = lease_of(f, 2, false);
    kiln_vec_push(&f->rows, stale);
    come_back(f);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 1);
    const kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = newest}};
    fleet_say(f, 20, &renew);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_RENEW));
}

/* Rows of older trackers do not name the holder's node: it is that of the job's tuner. */
static void a_stored_lease_without_its_holders_node_is_kept_for_the_jobs_tuner(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    const uint64_t lease = fleet_lease(f, 1);
    for (uint32_t i = 0; i < f->rows.count; i++)
        if (f->rows.data[i].kind == KILN_TRACKER_ROW_LEASE) f->rows.data[i].node = (kiln_str){0};
    fleet_restart(f);
    fleet_wait(f, FLEET_S, NULL); /* what nobody can come back for ends at once */
    fleet_tuner(f, 20, "tuner", "tuner-1");
    fleet_board(f, 10, "board", 1);
    const kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease}};
    fleet_say(f, 20, &renew);
    assert_non_null(fleet_take(f, 20, KILN_MSG_LEASE_RENEW));
}

/* Nothing went wrong: the job that it was for has ended. */
static void a_grant_that_is_not_on_disk_when_its_job_ends_is_no_error(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    const kiln_message ask = fleet_request("j", 1);
    const kiln_message done = {.type = KILN_MSG_JOB_DONE, .job_done = {.job = KILN_STR("j")}};
    f->hold_disk = true;
    fleet_say(f, 20, &ask);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 1);
    fleet_say(f, 20, &done);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 0);
    assert_null(fleet_take(f, 20, KILN_MSG_ERROR));
}

static void a_stored_lease_without_sense_is_named(void **state) {
    (void)state;
    kiln_tracker *t = NULL;
    kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_LEASE,
                            .id = KILN_STR("b/99"),
                            .board = KILN_STR("b"),
                            .epoch = 4,
                            .slot = 99};
    expect_error(kiln_tracker_create(&row, 1, 0, &t), DATA_LOSS, "b/99");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_grant_is_on_disk_before_it_is_sent),
        test_with_fleet(a_grant_says_with_which_compiler_its_board_builds),
        test_with_fleet(a_grant_that_cannot_be_written_is_refused_and_the_slot_is_free_again),
        test_with_fleet(lease_expires_and_late_result_is_refused),
        test_with_fleet(a_renewed_lease_lives_on),
        test_with_fleet(a_board_hears_of_the_end_of_leases_that_it_knows_only),
        test_with_fleet(numbers_are_reserved_on_disk_before_they_are_given_out),
        test_with_fleet(a_lost_board_ends_its_lease_at_once),
        test_with_fleet(a_tuner_that_was_started_anew_loses_its_old_leases),
        test_with_fleet(a_tuner_that_only_reconnects_keeps_its_lease),
        test_with_fleet(who_says_the_boot_of_a_tuner_that_is_away_gets_nothing_of_it),
        test_with_fleet(who_said_the_boot_of_a_tuner_first_gives_it_up),
        test_with_fleet(leases_and_their_numbers_survive_a_restart),
        test_with_fleet(a_lease_ends_when_tracker_and_tuner_both_start_anew),
        test_with_fleet(a_lease_whose_board_does_not_come_back_after_a_restart_ends),
        test_with_fleet(a_tuner_that_is_late_after_a_restart_keeps_job_and_lease),
        test_with_fleet(a_grant_that_died_with_its_tracker_is_given_again),
        test_with_fleet(a_lease_that_its_tuner_does_not_know_is_free_when_that_is_back),
        test_with_fleet(a_lease_that_its_tuner_renews_is_kept_over_a_restart),
        test_with_fleet(a_board_that_shall_rest_after_a_restart_ends_what_it_has),
        test_with_fleet(of_stored_leases_that_share_a_slot_the_newest_holds),
        test_with_fleet(of_stored_leases_of_the_first_slot_the_newest_holds),
        test_with_fleet(a_stored_lease_without_its_holders_node_is_kept_for_the_jobs_tuner),
        test_with_fleet(a_grant_that_is_not_on_disk_when_its_job_ends_is_no_error),
        cmocka_unit_test(a_stored_lease_without_sense_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
