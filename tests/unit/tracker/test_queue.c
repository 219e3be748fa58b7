#include <string.h>

#include "tests/unit/tracker/fleet.h"

static void one_slot_has_one_lease_and_the_next_request_waits(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    uint64_t first = fleet_lease(f, 1);
    kiln_message ask = fleet_request("j", 2);
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = first}};
    fleet_say(f, 20, &release);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    assert_true(grant->lease_grant.lease > first);
}

static void two_slots_are_leased_apart(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_board(f, 11, "large", 2);
    uint64_t lease[3];
    for (uint64_t i = 0; i < 3; i++) lease[i] = fleet_lease(f, i + 1);
    assert_true(lease[0] != lease[1] && lease[1] != lease[2]);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 3);
}

static void a_repeated_request_gets_the_same_grant(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_board(f, 11, "second", 1);
    uint64_t first = fleet_lease(f, 1);
    assert_int_equal(fleet_lease(f, 1), first);
    assert_int_equal(kiln_tracker_counts_of(f->t).leases, 1);
}

static void a_request_for_a_foreign_job_is_refused(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_tuner(f, 21, "other", "other-1");
    kiln_message ask = fleet_request("j", 1);
    fleet_say(f, 21, &ask);
    const kiln_message *error = fleet_take(f, 21, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_NOT_FOUND);
    assert_int_equal(error->stream, 3);
}

static void a_bad_request_is_refused_with_its_reason(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_message ask = fleet_request("j", 1);
    ask.lease_req.ttl_ms = 3600000;
    fleet_say(f, 20, &ask);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
    ask = fleet_request("j", 2);
    ask.lease_req.target = KILN_STR("cpu:");
    fleet_say(f, 20, &ask);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
}

static void times_under_an_emulator_are_for_who_asks_for_them(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_message ask = fleet_request("j", 1);
    ask.lease_req.target = KILN_STR(FLEET_TARGET ",emulated");
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)); /* the board is a real one */
    fleet_connect(f, 11, KILN_PEER_BOARD, "qemu", "boot");
    kiln_message up = {.type = KILN_MSG_BOARD_UP,
                       .board_up = {.key = KILN_STR("qemu"),
                                    .target = KILN_STR(FLEET_TARGET ",emulated"),
                                    .slots = 2}};
    fleet_say(f, 11, &up);
    expect_str(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)->lease_grant.board, "qemu");
    fleet_lease(f, 2);
    ask = fleet_request("j", 3);
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)); /* the emulated one has a slot left */
}

static void labels_and_targets_choose_the_board(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_msg_label want = {KILN_STR("room"), KILN_STR("lab")};
    kiln_message ask = fleet_request("j", 1);
    ask.lease_req.labels.item = &want;
    ask.lease_req.labels.count = 1;
    fleet_say(f, 20, &ask);
    assert_null(fleet_take(f, 20, KILN_MSG_LEASE_GRANT));
    fleet_connect(f, 11, KILN_PEER_BOARD, "lab-board", "boot");
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("lab-board"), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
    up.board_up.labels.item = &want;
    up.board_up.labels.count = 1;
    fleet_say(f, 11, &up);
    const kiln_message *grant = fleet_take(f, 20, KILN_MSG_LEASE_GRANT);
    assert_non_null(grant);
    expect_str(grant->lease_grant.board, "lab-board");
}

static void the_job_with_fewer_leases_is_served_first(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_open_job(f, 30, "k", false);
    fleet_lease(f, 1);
    kiln_message more = fleet_request("j", 2), other = fleet_request("k", 3);
    fleet_say(f, 20, &more); /* older, but its job has a board already */
    fleet_say(f, 20, &other);
    fleet_board(f, 11, "second", 1);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_LEASE_GRANT)->lease_grant.request, 3);
}

/* ---- Shares ---- */

#define TUNER 20u
#define CLIENT 30u

static void release(fleet *f, uint64_t lease) {
    kiln_message message = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    fleet_say(f, TUNER, &message);
}

/* A job of a project, which asks for one board at a time and holds each for `hold_ns`. */
typedef struct user {
    const char *job, *project;
    uint32_t weight, priority;
    uint64_t hold_ns, held_since_ns, lease, request, had_ns, longest_wait_ns, asked_ns;
} user;

static void open_for(fleet *f, const user *u) {
    kiln_message open = fleet_job(u->job, false);
    open.job_open.spec.project = kiln_str_from(u->project);
    open.job_open.spec.weight = u->weight;
    open.job_open.spec.priority = u->priority;
    fleet_say(f, CLIENT, &open);
}

static void ask_for(fleet *f, user *u) {
    static uint64_t number;
    u->request = 1000 + ++number;
    u->asked_ns = f->now_ns;
    kiln_message ask = fleet_request(u->job, u->request);
    fleet_say(f, TUNER, &ask);
}

static void take_grants(fleet *f, user *users, size_t count) {
    const kiln_message *grant;
    while ((grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT)))
        for (size_t i = 0; i < count; i++) {
            user *u = &users[i];
            if (u->request != grant->lease_grant.request) continue;
            u->lease = grant->lease_grant.lease;
            u->held_since_ns = f->now_ns;
            u->longest_wait_ns = KILN_MAX(u->longest_wait_ns, f->now_ns - u->asked_ns);
        }
}

/* Everybody wants a board all the time, for `ns`. */
static void compete(fleet *f, user *users, size_t count, uint64_t ns) {
    static const uint64_t alive[] = {10, 11, 20, 30, 0};
    for (uint64_t end_ns = f->now_ns + ns; f->now_ns < end_ns;) {
        for (size_t i = 0; i < count; i++) {
            user *u = &users[i];
            if (!u->request) ask_for(f, u);
            if (!u->lease || f->now_ns - u->held_since_ns < u->hold_ns) continue;
            u->had_ns += f->now_ns - u->held_since_ns;
            kiln_message release = {.type = KILN_MSG_LEASE_RELEASE,
                                    .lease_release = {.lease = u->lease}};
            u->lease = u->request = 0;
            fleet_say(f, TUNER, &release);
            take_grants(f, users, count);
        }
        take_grants(f, users, count);
        fleet_forget_sent(f);
        fleet_wait(f, 250 * FLEET_MS, alive);
    }
}

static void start_users(fleet *f, user *users, size_t count) {
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, TUNER, "tuner", "tuner-1");
    fleet_connect(f, CLIENT, KILN_PEER_CLIENT, "client", "client-1");
    for (size_t i = 0; i < count; i++) open_for(f, &users[i]);
}

static void expect_share(const user *users, size_t count, const char *project, double share) {
    double all = 0, its = 0;
    for (size_t i = 0; i < count; i++) {
        all += (double)users[i].had_ns;
        if (strcmp(users[i].project, project) == 0) its += (double)users[i].had_ns;
    }
    if (its / all < share - 0.05 || its / all > share + 0.05)
        fail_msg("%s had %.3f of the time, not %.3f", project, its / all, share);
}

static void two_projects_share_evenly_however_many_jobs_they_have(void **state) {
    fleet *f = *state;
    user users[] = {{"a1", "a", .hold_ns = FLEET_S},
                    {"a2", "a", .hold_ns = FLEET_S},
                    {"a3", "a", .hold_ns = FLEET_S},
                    {"b1", "b", .hold_ns = FLEET_S}};
    start_users(f, users, 4);
    compete(f, users, 4, 60 * FLEET_S);
    expect_share(users, 4, "a", 0.5);
}

static void shares_count_time_and_not_leases(void **state) {
    fleet *f = *state;
    user users[] = {{"a1", "a", .hold_ns = 4 * FLEET_S},
                    {"b1", "b", .hold_ns = FLEET_S / 2},
                    {"b2", "b", .hold_ns = FLEET_S / 2}};
    start_users(f, users, 3);
    compete(f, users, 3, 120 * FLEET_S);
    expect_share(users, 3, "a", 0.5);
}

static void weight_is_what_a_project_gets_more(void **state) {
    fleet *f = *state;
    user users[] = {{"a1", "a", .weight = 3, .hold_ns = FLEET_S},
                    {"a2", "a", .weight = 3, .hold_ns = FLEET_S},
                    {"a3", "a", .weight = 3, .hold_ns = FLEET_S},
                    {"a4", "a", .weight = 3, .hold_ns = FLEET_S},
                    {"b1", "b", .hold_ns = FLEET_S},
                    {"b2", "b", .hold_ns = FLEET_S}};
    start_users(f, users, 6);
    fleet_board(f, 11, "second", 1);
    compete(f, users, 6, 120 * FLEET_S);
    expect_share(users, 6, "a", 0.75);
}

/* The newcomer always has a request that waits, so that it could have each slot that gets free. */
static void a_newcomer_is_not_paid_for_the_time_before(void **state) {
    fleet *f = *state;
    user users[] = {{"a1", "a", .hold_ns = FLEET_S},
                    {"b1", "b", .hold_ns = FLEET_S},
                    {"b1", "b", .hold_ns = FLEET_S}};
    start_users(f, users, 3);
    compete(f, users, 1, 60 * FLEET_S);
    users[0].had_ns = 0;
    compete(f, users, 3, 60 * FLEET_S);
    expect_share(users, 3, "a", 0.5);
}

/* The fleet comes back to a tracker that was killed; what is held is renewed, and what waited is
 * asked for again. */
static void restart(fleet *f, user *users, size_t count) {
    fleet_restart(f);
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, TUNER, "tuner", "tuner-1");
    fleet_connect(f, CLIENT, KILN_PEER_CLIENT, "client", "client-1");
    for (size_t i = 0; i < count; i++) {
        open_for(f, &users[i]);
        if (!users[i].lease) users[i].request = 0;
        kiln_message renew = {.type = KILN_MSG_LEASE_RENEW,
                              .lease_renew = {.lease = users[i].lease}};
        if (users[i].lease) fleet_say(f, TUNER, &renew);
    }
}

/* Project a has had all the time before the restart, and asks after the newcomer. */
static void a_newcomer_after_a_restart_is_not_paid_either(void **state) {
    fleet *f = *state;
    user users[] = {{"b1", "b", .hold_ns = FLEET_S},
                    {"b1", "b", .hold_ns = FLEET_S},
                    {"a1", "a", .hold_ns = FLEET_S}};
    start_users(f, users, 3);
    compete(f, &users[2], 1, 60 * FLEET_S);
    if (users[2].lease) release(f, users[2].lease);
    users[2].lease = users[2].had_ns = 0;
    restart(f, users, 3);
    compete(f, users, 3, 60 * FLEET_S);
    expect_share(users, 3, "a", 0.5);
}

/* Who holds boards for long would gain most if each tracker began at zero: it is asked first. */
static void shares_outlive_a_tracker_that_is_killed_again_and_again(void **state) {
    fleet *f = *state;
    user users[] = {{"a1", "a", .hold_ns = 9 * FLEET_S},
                    {"b1", "b", .hold_ns = FLEET_S},
                    {"b2", "b", .hold_ns = FLEET_S}};
    start_users(f, users, 3);
    for (int life = 0; life < 30; life++) {
        compete(f, users, 3, 10 * FLEET_S);
        restart(f, users, 3);
    }
    expect_share(users, 3, "a", 0.5);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < f->rows.count; i++)
        rows += f->rows.data[i].kind == KILN_TRACKER_ROW_SHARE;
    assert_int_equal(rows, 2);
}

/* Leases end all the time; shares are written now and then. They go with their project, when its
 * day is over. */
static void a_share_is_written_seldom_and_removed_at_the_end(void **state) {
    fleet *f = *state;
    user users[] = {{"a1", "a", .hold_ns = FLEET_S / 4}};
    start_users(f, users, 1);
    uint32_t before = f->writes[KILN_TRACKER_ROW_SHARE];
    compete(f, users, 1, 60 * FLEET_S);
    uint32_t writes = f->writes[KILN_TRACKER_ROW_SHARE] - before;
    assert_true(writes > 0 && writes <= 60 * FLEET_S / KILN_TRACKER_SHARE_NS + 1);
    if (users[0].lease) release(f, users[0].lease);
    kiln_message cancel = {
        .type = KILN_MSG_CANCEL,
        .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("a1"), .code = KILN_CANCELLED}};
    kiln_message done = {.type = KILN_MSG_JOB_DONE, .job_done = {.job = KILN_STR("a1")}};
    fleet_say(f, CLIENT, &cancel);
    fleet_say(f, TUNER, &done);
    f->now_ns += 86400 * FLEET_S;
    fleet_wait(f, FLEET_S, NULL);
    for (uint32_t i = 0; i < f->rows.count; i++)
        assert_int_not_equal(f->rows.data[i].kind, KILN_TRACKER_ROW_SHARE);
}

static void priority_goes_first_and_waiting_makes_up_for_it(void **state) {
    fleet *f = *state;
    user users[] = {{"low", "p", .hold_ns = FLEET_S},
                    {"high1", "p", .priority = 5, .hold_ns = FLEET_S},
                    {"high2", "p", .priority = 5, .hold_ns = FLEET_S},
                    {"high3", "p", .priority = 5, .hold_ns = FLEET_S}};
    start_users(f, users, 4);
    compete(f, users, 4, 60 * FLEET_S);
    assert_true(users[0].had_ns > 0);
    assert_true(users[0].had_ns < users[1].had_ns);
    /* Five steps of priority are ten seconds, and those who waited as long may be before it. */
    assert_true(users[0].longest_wait_ns >= 5 * FLEET_S);
    assert_true(users[0].longest_wait_ns <= 16 * FLEET_S);
}

static void leases_of_a_slow_board_are_short_while_others_wait(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 20, 30, 0};
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    kiln_message trial = {.type = KILN_MSG_TRIAL,
                          .trial = {.trial = KILN_STR("t"), .attempt = 1, .lease = lease}};
    fleet_say(f, TUNER, &trial);
    fleet_wait(f, 10 * FLEET_S, alive); /* one trial in ten seconds */
    for (uint64_t i = 2; i <= 3; i++) {
        kiln_message ask = fleet_request("j", i);
        ask.lease_req.trials = 64;
        fleet_say(f, TUNER, &ask);
    }
    for (int waiting = 1; waiting >= 0; waiting--) {
        kiln_message back = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
        fleet_say(f, TUNER, &back);
        const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
        assert_int_equal(grant->lease_grant.trials, waiting ? 2 : 64);
        lease = grant->lease_grant.lease;
    }
}

/* ---- Boards ---- */

static uint64_t ask_like(fleet *f, uint64_t request, const char *board, bool exclusive) {
    kiln_message ask = fleet_request("j", request);
    ask.lease_req.board = kiln_str_from(board);
    ask.lease_req.exclusive = exclusive;
    fleet_say(f, TUNER, &ask);
    const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
    return grant ? grant->lease_grant.lease : 0;
}

static void a_task_goes_on_on_its_board(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_board(f, 11, "second", 1);
    fleet_board(f, 12, "third", 1);
    for (uint64_t i = 1; i <= 6; i++) {
        kiln_message ask = fleet_request("j", i);
        ask.lease_req.board = KILN_STR("third");
        fleet_say(f, TUNER, &ask);
        const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
        expect_str(grant->lease_grant.board, "third");
        release(f, grant->lease_grant.lease);
    }
}

/* The oldest request of a job likes no board, and younger ones go before it: its age is used up. */
static void who_likes_a_board_does_not_wait_with_anothers_age(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, TUNER, CLIENT, 0};
    fleet_running_job(f);
    fleet_open_job(f, CLIENT, "k", false);
    uint64_t lease = ask_like(f, 1, "board", false);
    assert_int_equal(ask_like(f, 2, NULL, false), 0);
    fleet_wait(f, 10 * FLEET_S, alive);
    kiln_message other = fleet_request("k", 3);
    fleet_say(f, TUNER, &other);
    for (uint64_t request = 4; request <= 5; request++) {
        assert_int_equal(ask_like(f, request, "board", false), 0);
        release(f, lease);
        const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
        assert_int_equal(grant->lease_grant.request, request == 4 ? 4 : 3);
        lease = grant->lease_grant.lease;
    }
}

static void a_board_that_is_free_is_not_kept_for_who_likes_another(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    assert_true(ask_like(f, 1, "elsewhere", false) > 0);
}

static void an_exclusive_lease_has_all_slots(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 10);
    fleet_board(f, 11, "large", 3);
    uint64_t all = ask_like(f, 1, "", true);
    assert_true(all > 0);
    assert_int_equal(ask_like(f, 2, "", false), 0);
    release(f, all);
    assert_non_null(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT));
}

static void a_board_is_kept_for_who_needs_all_of_it(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 10);
    fleet_board(f, 11, "large", 2);
    uint64_t first = ask_like(f, 1, "", false), second = ask_like(f, 2, "", false);
    assert_int_equal(ask_like(f, 3, "", true), 0);
    release(f, first);
    assert_int_equal(ask_like(f, 4, "", false), 0); /* the free slot waits for the other one */
    release(f, second);
    const kiln_message *grant = fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT);
    assert_int_equal(grant->lease_grant.request, 3);
    assert_null(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT));
    release(f, grant->lease_grant.lease);
    assert_int_equal(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT)->lease_grant.request, 4);
}

static void who_needs_all_of_a_board_has_one_that_is_free(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_disconnect(f, 10);
    fleet_board(f, 11, "first", 2);
    assert_true(ask_like(f, 1, "", false) > 0);
    fleet_board(f, 12, "second", 2);
    assert_true(ask_like(f, 2, "", true) > 0); /* it does not wait for half of the first */
}

static void a_kernel_with_more_threads_than_a_slot_has_cores_is_alone(void **state) {
    fleet *f = *state;
    static const char target[] = FLEET_TARGET ",cores=4,threads=4";
    fleet_running_job(f);
    fleet_disconnect(f, 10);
    fleet_connect(f, 11, KILN_PEER_BOARD, "large", "boot");
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("large"), .target = kiln_str_from(target), .slots = 2}};
    fleet_say(f, 11, &up);
    kiln_message ask = fleet_request("j", 1);
    ask.lease_req.target = KILN_STR(FLEET_TARGET ",threads=4");
    fleet_say(f, TUNER, &ask);
    assert_non_null(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT));
    assert_int_equal(ask_like(f, 2, "", false), 0);
}

static void a_jobs_key_and_labels_hold_for_all_it_asks(void **state) {
    fleet *f = *state;
    kiln_msg_label lab = {KILN_STR("room"), KILN_STR("lab")};
    fleet_running_job(f);
    fleet_connect(f, 11, KILN_PEER_BOARD, "rpi3", "boot");
    kiln_message up = {
        .type = KILN_MSG_BOARD_UP,
        .board_up = {.key = KILN_STR("rpi3"), .target = KILN_STR(FLEET_TARGET), .slots = 1}};
    up.board_up.labels.item = &lab;
    up.board_up.labels.count = 1;
    fleet_say(f, 11, &up);
    kiln_message open = fleet_job("k", false);
    open.job_open.spec.key = KILN_STR("rpi3");
    open.job_open.spec.labels.item = &lab;
    open.job_open.spec.labels.count = 1;
    fleet_say(f, CLIENT, &open);
    for (uint64_t i = 1; i <= 2; i++) {
        kiln_message ask = fleet_request("k", i);
        fleet_say(f, TUNER, &ask);
    }
    expect_str(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT)->lease_grant.board, "rpi3");
    assert_null(fleet_take(f, TUNER, KILN_MSG_LEASE_GRANT));
}

static void one_job_cannot_fill_the_queue(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_lease(f, 1);
    for (uint64_t i = 2; i < 2 + KILN_TRACKER_REQUESTS_OF_JOB_MAX + 1; i++)
        ask_like(f, i, "", false);
    const kiln_message *error = fleet_take(f, TUNER, KILN_MSG_ERROR);
    assert_non_null(error);
    assert_int_equal(error->error.code, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(kiln_tracker_counts_of(f->t).requests, KILN_TRACKER_REQUESTS_OF_JOB_MAX);
}

static void a_lease_without_trials_or_time_is_refused(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    kiln_message ask = fleet_request("j", 1);
    ask.lease_req.trials = 0;
    fleet_say(f, 20, &ask);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
    ask = fleet_request("j", 2);
    ask.lease_req.ttl_ms = 0;
    fleet_say(f, 20, &ask);
    assert_int_equal(fleet_take(f, 20, KILN_MSG_ERROR)->error.code, KILN_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(a_lease_without_trials_or_time_is_refused),
        test_with_fleet(one_slot_has_one_lease_and_the_next_request_waits),
        test_with_fleet(two_slots_are_leased_apart),
        test_with_fleet(a_repeated_request_gets_the_same_grant),
        test_with_fleet(a_request_for_a_foreign_job_is_refused),
        test_with_fleet(a_bad_request_is_refused_with_its_reason),
        test_with_fleet(times_under_an_emulator_are_for_who_asks_for_them),
        test_with_fleet(labels_and_targets_choose_the_board),
        test_with_fleet(the_job_with_fewer_leases_is_served_first),
        test_with_fleet(two_projects_share_evenly_however_many_jobs_they_have),
        test_with_fleet(shares_count_time_and_not_leases),
        test_with_fleet(weight_is_what_a_project_gets_more),
        test_with_fleet(a_newcomer_is_not_paid_for_the_time_before),
        test_with_fleet(a_newcomer_after_a_restart_is_not_paid_either),
        test_with_fleet(shares_outlive_a_tracker_that_is_killed_again_and_again),
        test_with_fleet(a_share_is_written_seldom_and_removed_at_the_end),
        test_with_fleet(priority_goes_first_and_waiting_makes_up_for_it),
        test_with_fleet(leases_of_a_slow_board_are_short_while_others_wait),
        test_with_fleet(a_task_goes_on_on_its_board),
        test_with_fleet(who_likes_a_board_does_not_wait_with_anothers_age),
        test_with_fleet(a_board_that_is_free_is_not_kept_for_who_likes_another),
        test_with_fleet(an_exclusive_lease_has_all_slots),
        test_with_fleet(a_board_is_kept_for_who_needs_all_of_it),
        test_with_fleet(who_needs_all_of_a_board_has_one_that_is_free),
        test_with_fleet(a_kernel_with_more_threads_than_a_slot_has_cores_is_alone),
        test_with_fleet(a_jobs_key_and_labels_hold_for_all_it_asks),
        test_with_fleet(one_job_cannot_fill_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
