/* What a board decides in an upgrade of the fleet (docs/decisions/0153-rolling-upgrades.md). */
#include "rpc-server/upgrade.h"

#include <stdio.h>
#include <string.h>

#include "rpc-server/health.h"
#include "tests/unit/rpc-server/bench.h"

#define NUMBER 5u
#define ARCHIVE ((uint8_t)'Z') /* first byte of its digest, for bench_fetched */

static kiln_release_keys trusted;

static kiln_signer *signer_of(uint8_t seed) {
    kiln_signer *signer = NULL;
    const uint8_t bytes[KILN_SIGN_SEED_BYTES] = {seed};
    if (!kiln_sign_supported()) skip_because("this build cannot sign");
    expect_ok(kiln_signer_create(bytes, &signer));
    return signer;
}

/* Appends a signed statement. */
static void sign(uint8_t seed, const char *name, const char *version, const char *arch,
                 kiln_strbuf *out) {
    kiln_release release = {.size_bytes = 9, .digest = bench_digest(ARCHIVE)};
    kiln_signer *signer = signer_of(seed);
    snprintf(release.name, sizeof release.name, "%s", name);
    snprintf(release.version, sizeof release.version, "%s", version);
    snprintf(release.arch, sizeof release.arch, "%s", arch);
    expect_ok(kiln_release_sign(&release, signer, out));
    kiln_signer_destroy(signer);
}

static const char *other_arch(void) {
    return strcmp(kiln_release_arch(), "aarch64") == 0 ? "x86_64" : "aarch64";
}

/* The board in place of the usual one: version 0.1.0, trusts the key of seed 1. */
static void start(bench *b, uint64_t check_ns, kiln_server_launch launch) {
    static const kiln_msg_board_up up = {.key = {"b", 1}, .target = {"cpu:x", 5}, .slots = 2};
    kiln_signer *signer = signer_of(1);
    trusted = (kiln_release_keys){.key = {*kiln_signer_public(signer)}, .count = 1};
    kiln_signer_destroy(signer);
    kiln_server_destroy(b->server);
    b->server = kiln_server_create(&(kiln_server_options){.board = &up,
                                                          .seed = 1,
                                                          .check_ns = check_ns,
                                                          .release_keys = &trusted,
                                                          .version = "0.1.0",
                                                          .launch = launch},
                                   b->now_ns);
}

static void say_order(bench *b, kiln_upgrade_step step, uint64_t number, kiln_str statement) {
    kiln_msg_release_statement release = {statement};
    const kiln_message message = {.type = KILN_MSG_UPGRADE,
                                  .upgrade = {.number = number,
                                              .step = step,
                                              .releases = {&release, statement.size > 0},
                                              .wait_s = 30}};
    bench_say(b, &message);
}

static void say(bench *b, kiln_upgrade_step step) { say_order(b, step, NUMBER, (kiln_str){0}); }

/* PREPARE with a statement for this processor. */
static void prepare(bench *b, uint8_t seed, const char *name, const char *version) {
    kiln_strbuf text = {0};
    sign(seed, name, version, kiln_release_arch(), &text);
    say_order(b, KILN_UPGRADE_PREPARE, NUMBER, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
}

static uint32_t count_reports(const bench *b) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->actions.list.count; i++) {
        const kiln_server_action *action = &b->actions.list.data[i];
        count += action->kind == KILN_SERVER_SEND && action->message.type == KILN_MSG_UPGRADED;
    }
    return count;
}

static void expect_report(bench *b, kiln_upgrade_report what, const char *text) {
    const kiln_message *said = bench_find_sent(b, KILN_MSG_UPGRADED);
    assert_non_null(said);
    assert_int_equal(count_reports(b), 1);
    assert_int_equal(said->upgraded.number, NUMBER);
    assert_int_equal(said->upgraded.report, what);
    if (text) expect_contains(said->upgraded.text.data ? said->upgraded.text.data : "", text);
}

static void get_ready(bench *b) {
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    prepare(b, 1, "kiln-board", "0.2.0");
    assert_non_null(bench_find(b, KILN_SERVER_FETCH));
    bench_fetched(b, ARCHIVE, NULL);
    expect_report(b, KILN_UPGRADE_IS_READY, NULL);
}

static void it_says_whether_it_takes_releases(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    assert_false(bench_find_sent(b, KILN_MSG_BOARD_UP)->board_up.upgrades);
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    assert_true(bench_find_sent(b, KILN_MSG_BOARD_UP)->board_up.upgrades);
    assert_null(bench_find_sent(b, KILN_MSG_UPGRADED));
}

static void a_prepared_board_restarts_when_it_is_told(void **state) {
    bench *b = *state;
    get_ready(b);
    say(b, KILN_UPGRADE_RESTART);
    expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
    const kiln_server_action *restart = bench_find(b, KILN_SERVER_RESTART);
    assert_non_null(restart);
    assert_int_equal(restart->run, NUMBER);
    assert_int_equal(restart->deadline_ns, 30 * BENCH_S);
    assert_int_equal(restart->digest.byte[0], ARCHIVE);
    expect_contains(restart->text, "version 0.2.0\n");
    say(b, KILN_UPGRADE_RESTART); /* repeated */
    expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
    assert_null(bench_find(b, KILN_SERVER_RESTART));
    say(b, KILN_UPGRADE_FORGET); /* too late */
    expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
}

static void it_hands_in_all_results_before_it_restarts(void **state) {
    bench *b = *state;
    get_ready(b);
    bench_send_trial(b, "a", 7, 0);
    bench_send_trial(b, "c", 7, 0); /* waits for its slot */
    say(b, KILN_UPGRADE_RESTART);
    assert_null(bench_find(b, KILN_SERVER_RESTART));
    for (int i = 0; i < 2; i++) {
        bench_finish(b, 0);
        assert_null(bench_find(b, KILN_SERVER_RESTART));
    }
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED}); /* the tracker is away */
    bench_tick_after(b, 600 * BENCH_S);
    assert_null(bench_find(b, KILN_SERVER_RESTART));
    bench_connect_to_tracker(b);
    for (int i = 0; i < 2; i++) {
        const kiln_message ack = {
            .type = KILN_MSG_TRIAL_ACK,
            .trial_ack = {.trial = kiln_str_from(i ? "c" : "a"), .attempt = 1, .lease = 7}};
        assert_null(bench_find(b, KILN_SERVER_RESTART));
        bench_say(b, &ack);
    }
    assert_non_null(bench_find(b, KILN_SERVER_RESTART));
}

/* As after a lost connection, with which leases end. */
static void results_of_a_lost_lease_hold_nothing_up(void **state) {
    bench *b = *state;
    get_ready(b);
    bench_send_trial(b, "a", 7, 0);
    bench_finish(b, 0);
    say(b, KILN_UPGRADE_RESTART);
    assert_null(bench_find(b, KILN_SERVER_RESTART));
    bench_say(b, &(kiln_message){.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}});
    assert_non_null(bench_find(b, KILN_SERVER_RESTART));
}

static void it_waits_for_its_self_check_and_starts_no_other(void **state) {
    bench *b = *state;
    start(b, KILN_HEALTH_CHECK_NS, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    const uint64_t run = bench_find(b, KILN_SERVER_CHECK)->run;
    prepare(b, 1, "kiln-board", "0.2.0");
    bench_fetched(b, ARCHIVE, NULL);
    say(b, KILN_UPGRADE_RESTART);
    assert_null(bench_find(b, KILN_SERVER_RESTART));
    bench_checked(b, run, "a neighbour disturbed it");
    assert_non_null(bench_find(b, KILN_SERVER_RESTART));
    bench_tick_heard(b, 2 * BENCH_S);
    assert_null(bench_find(b, KILN_SERVER_CHECK));
}

static void bad_statements_are_failures_that_name_the_reason(void **state) {
    static const struct {
        uint8_t seed;
        const char *name, *why;
    } bad[] = {
        {2, "kiln-board", "which is no release key here"},
        {2, "kiln-web", "which is no release key here"}, /* whose name is nobody's word */
        {1, "kiln-web", "no release for boards"},
    };
    bench *b = *state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        start(b, 0, (kiln_server_launch){0});
        bench_connect_to_tracker(b);
        prepare(b, bad[i].seed, bad[i].name, "0.2.0");
        expect_report(b, KILN_UPGRADE_IS_FAILED, bad[i].why);
        assert_null(bench_find(b, KILN_SERVER_FETCH));
        say(b, KILN_UPGRADE_RESTART); /* which it does not */
        expect_report(b, KILN_UPGRADE_IS_FAILED, bad[i].why);
        assert_null(bench_find(b, KILN_SERVER_RESTART));
    }
}

static void a_changed_statement_has_a_wrong_signature(void **state) {
    bench *b = *state;
    kiln_strbuf text = {0};
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    sign(1, "kiln-board", "0.2.0", kiln_release_arch(), &text);
    char *version = strstr(text.data, "0.2.0");
    assert_non_null(version);
    version[0] = '9';
    say_order(b, KILN_UPGRADE_PREPARE, NUMBER, kiln_strbuf_view(&text));
    expect_report(b, KILN_UPGRADE_IS_FAILED, "signature");
    kiln_strbuf_deinit(&text);
}

static void a_release_for_another_processor_is_refused(void **state) {
    bench *b = *state;
    kiln_strbuf text = {0};
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    sign(1, "kiln-board", "0.2.0", other_arch(), &text);
    say_order(b, KILN_UPGRADE_PREPARE, NUMBER, kiln_strbuf_view(&text));
    expect_report(b, KILN_UPGRADE_IS_REFUSED, "there is no archive for");
    say_order(b, KILN_UPGRADE_PREPARE, NUMBER + 1, KILN_STR("nonsense"));
    assert_int_equal(bench_find_sent(b, KILN_MSG_UPGRADED)->upgraded.report,
                     KILN_UPGRADE_IS_REFUSED);
    kiln_strbuf_deinit(&text);
}

static void a_board_without_keys_takes_no_release(void **state) {
    bench *b = *state;
    bench_connect_to_tracker(b);
    prepare(b, 1, "kiln-board", "0.2.0");
    expect_report(b, KILN_UPGRADE_IS_REFUSED, "takes no releases");
}

static void the_version_that_runs_is_done_at_once(void **state) {
    bench *b = *state;
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    prepare(b, 1, "kiln-board", "0.1.0");
    expect_report(b, KILN_UPGRADE_IS_DONE, NULL);
    assert_null(bench_find(b, KILN_SERVER_FETCH));
}

static void a_fetch_is_tried_three_times_in_a_connection(void **state) {
    bench *b = *state;
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    prepare(b, 1, "kiln-board", "0.2.0");
    bench_fetched(b, ARCHIVE, "the connection closed");
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED}); /* which does not count */
    bench_tick_after(b, 10 * BENCH_S);
    assert_null(bench_find(b, KILN_SERVER_FETCH)); /* not without a tracker */
    assert_true(kiln_server_next_ns(b->server) > b->now_ns);
    bench_connect_to_tracker(b);
    for (uint32_t i = 0; i < KILN_SERVER_UPGRADE_FETCHES; i++) {
        if (i) {
            assert_true(kiln_server_next_ns(b->server) <= b->now_ns + KILN_SERVER_UPGRADE_RETRY_NS);
            bench_tick_heard(b, KILN_SERVER_UPGRADE_RETRY_NS - 1);
            assert_null(bench_find(b, KILN_SERVER_FETCH));
            bench_tick_heard(b, 1);
        }
        assert_non_null(bench_find(b, KILN_SERVER_FETCH));
        bench_tick_heard(b, 1);
        assert_null(bench_find(b, KILN_SERVER_FETCH)); /* one at a time */
        bench_fetched(b, ARCHIVE, "no space left on the device");
        assert_null(bench_find_sent(b, KILN_MSG_UPGRADED));
    }
    bench_tick_heard(b, KILN_SERVER_UPGRADE_RETRY_NS);
    expect_report(b, KILN_UPGRADE_IS_FAILED, "no space left");
    assert_null(bench_find(b, KILN_SERVER_FETCH));
    bench_tick_heard(b, KILN_SERVER_UPGRADE_RETRY_NS);
    assert_null(bench_find(b, KILN_SERVER_FETCH));
    assert_true(kiln_server_next_ns(b->server) > b->now_ns);
}

/* A fetch that fails, until the next one begins. */
static void fail_fetch(bench *b) {
    bench_fetched(b, ARCHIVE, "no space left on the device");
    bench_tick_heard(b, KILN_SERVER_UPGRADE_RETRY_NS);
    assert_non_null(bench_find(b, KILN_SERVER_FETCH));
}

/* The shell hears of the fetch before it hears of the connection; after a silence, it is the other
 * way round. */
static void a_fetch_that_fails_with_its_connection_is_no_fault(void **state) {
    bench *b = *state;
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    prepare(b, 1, "kiln-board", "0.2.0");
    for (int is_after = 0; is_after < 2; is_after++) {
        for (uint32_t i = 1; i < KILN_SERVER_UPGRADE_FETCHES; i++) fail_fetch(b);
        if (!is_after) bench_fetched(b, ARCHIVE, "the connection closed");
        bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
        if (is_after) bench_fetched(b, ARCHIVE, "the connection closed");
        bench_tick_after(b, KILN_SERVER_UPGRADE_RETRY_NS);
        bench_connect_to_tracker(b);
        assert_null(bench_find_sent(b, KILN_MSG_UPGRADED));
        assert_non_null(bench_find(b, KILN_SERVER_FETCH));
    }
    bench_fetched(b, ARCHIVE, NULL);
    expect_report(b, KILN_UPGRADE_IS_READY, NULL);
}

static void each_order_has_its_own_fetches(void **state) {
    bench *b = *state;
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    for (int i = 0; i < 2; i++) {
        prepare(b, 1, "kiln-board", "0.2.0");
        assert_non_null(bench_find(b, KILN_SERVER_FETCH));
        for (uint32_t k = 1; k < KILN_SERVER_UPGRADE_FETCHES; k++) fail_fetch(b);
        say(b, KILN_UPGRADE_FORGET);
    }
}

/* A trial may have asked for the same bytes. */
static void only_its_own_fetches_count(void **state) {
    bench *b = *state;
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    prepare(b, 1, "kiln-board", "0.2.0");
    for (uint32_t i = 0; i < KILN_SERVER_UPGRADE_FETCHES; i++)
        bench_fetched(b, ARCHIVE, "no space left on the device");
    bench_tick_heard(b, KILN_SERVER_UPGRADE_RETRY_NS);
    assert_null(bench_find_sent(b, KILN_MSG_UPGRADED));
    assert_non_null(bench_find(b, KILN_SERVER_FETCH));
    say(b, KILN_UPGRADE_FORGET);
    bench_fetched(b, ARCHIVE, NULL); /* which was under way */
    assert_null(bench_find_sent(b, KILN_MSG_UPGRADED));
}

static void a_fetch_that_fails_is_not_begun_again_once_it_is_forgotten(void **state) {
    bench *b = *state;
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    prepare(b, 1, "kiln-board", "0.2.0");
    bench_fetched(b, ARCHIVE, "no space left on the device");
    say(b, KILN_UPGRADE_FORGET);
    bench_tick_heard(b, KILN_SERVER_UPGRADE_RETRY_NS);
    assert_null(bench_find(b, KILN_SERVER_FETCH));
    assert_true(kiln_server_next_ns(b->server) > b->now_ns);
    bench_fetched(b, ARCHIVE, NULL); /* late */
    assert_null(bench_find_sent(b, KILN_MSG_UPGRADED));
}

static void other_blobs_do_not_make_it_ready(void **state) {
    bench *b = *state;
    start(b, 0, (kiln_server_launch){0});
    bench_connect_to_tracker(b);
    prepare(b, 1, "kiln-board", "0.2.0");
    bench_fetched(b, 'o', NULL);
    assert_null(bench_find_sent(b, KILN_MSG_UPGRADED));
    bench_fetched(b, ARCHIVE, NULL);
    expect_report(b, KILN_UPGRADE_IS_READY, NULL);
    bench_fetched(b, ARCHIVE, NULL); /* a trial had asked for it, too */
    assert_null(bench_find_sent(b, KILN_MSG_UPGRADED));
}

static void it_says_again_where_it_is_after_a_reconnect_and_when_asked(void **state) {
    bench *b = *state;
    get_ready(b);
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
    bench_tick_after(b, BENCH_S);
    bench_connect_to_tracker(b);
    expect_report(b, KILN_UPGRADE_IS_READY, NULL);
    prepare(b, 1, "kiln-board", "0.2.0");
    expect_report(b, KILN_UPGRADE_IS_READY, NULL);
    assert_null(bench_find(b, KILN_SERVER_FETCH));
    assert_int_equal(bench_find_sent(b, KILN_MSG_UPGRADED)->upgraded.number, NUMBER);
}

static void it_forgets_what_it_is_told_to(void **state) {
    bench *b = *state;
    get_ready(b);
    say_order(b, KILN_UPGRADE_FORGET, NUMBER + 1, (kiln_str){0}); /* another one */
    say(b, KILN_UPGRADE_FORGET);
    say(b, KILN_UPGRADE_RESTART); /* unknown, and without a statement */
    assert_null(bench_find(b, KILN_SERVER_RESTART));
    expect_report(b, KILN_UPGRADE_IS_REFUSED, NULL);
}

static void a_launcher_that_cannot_take_it_is_a_failure(void **state) {
    bench *b = *state;
    get_ready(b);
    say(b, KILN_UPGRADE_RESTART);
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_LAUNCHER, .failure = "it is gone"});
    expect_report(b, KILN_UPGRADE_IS_FAILED, "it is gone");
    bench_send_trial(b, "a", 7, 0); /* and the board goes on */
    assert_non_null(bench_find(b, KILN_SERVER_START));
}

/* ---- The new version ---- */

static const kiln_server_launch on_trial = {.number = NUMBER, .is_trial = true};

static void a_new_version_confirms_once_it_is_connected_and_well(void **state) {
    bench *b = *state;
    start(b, KILN_HEALTH_CHECK_NS, on_trial);
    bench_tick_after(b, 0);
    const uint64_t run = bench_find(b, KILN_SERVER_CHECK)->run;
    bench_checked(b, run, NULL);
    assert_null(bench_find(b, KILN_SERVER_CONFIRM)); /* it is not connected */
    bench_connect_to_tracker(b);
    expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
    assert_non_null(bench_find(b, KILN_SERVER_CONFIRM));
    bench_step(b,
               &(kiln_server_event){.kind = KILN_SERVER_READING}); /* not the launcher's answer */
    assert_null(bench_find_sent(b, KILN_MSG_UPGRADED));
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_LAUNCHER});
    expect_report(b, KILN_UPGRADE_IS_DONE, NULL);
    bench_tick_heard(b, BENCH_S);
    assert_null(bench_find(b, KILN_SERVER_CONFIRM));
}

static void reconnect(bench *b) {
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
    bench_tick_after(b, BENCH_S);
    bench_connect_to_tracker(b);
}

static void each_state_is_said_again_after_a_reconnect(void **state) {
    bench *b = *state;
    get_ready(b);
    bench_send_trial(b, "a", 7, 0);
    bench_finish(b, 0);
    say(b, KILN_UPGRADE_RESTART); /* waits for the result's acknowledgement */
    reconnect(b);
    expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
    bench_say(b, &(kiln_message){.type = KILN_MSG_LEASE_LOST, .lease_lost = {.lease = 7}});
    assert_non_null(bench_find(b, KILN_SERVER_RESTART));
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_LAUNCHER}); /* no failure: no answer */
    reconnect(b);
    expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
    start(b, 0, on_trial);
    bench_connect_to_tracker(b);
    assert_non_null(bench_find(b, KILN_SERVER_CONFIRM));
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_LAUNCHER, .failure = "for another"});
    reconnect(b);
    expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_LAUNCHER});
    reconnect(b);
    expect_report(b, KILN_UPGRADE_IS_DONE, NULL);
}

static void a_new_version_does_not_confirm_before_its_self_check(void **state) {
    bench *b = *state;
    start(b, KILN_HEALTH_CHECK_NS, on_trial);
    bench_connect_to_tracker(b);
    assert_null(bench_find(b, KILN_SERVER_CONFIRM));
    bench_checked(b, bench_find(b, KILN_SERVER_CHECK)->run, NULL);
    assert_non_null(bench_find(b, KILN_SERVER_CONFIRM));
}

static void a_new_version_that_fails_its_self_check_twice_gives_up(void **state) {
    bench *b = *state;
    start(b, KILN_HEALTH_CHECK_NS, on_trial);
    bench_connect_to_tracker(b);
    bench_checked(b, bench_find(b, KILN_SERVER_CHECK)->run, "one bit is wrong");
    assert_null(bench_find(b, KILN_SERVER_GIVE_UP)); /* a neighbour may have been the cause */
    bench_tick_heard(b, KILN_HEALTH_RETRY_NS);
    bench_checked(b, bench_find(b, KILN_SERVER_CHECK)->run, "one bit is wrong");
    const kiln_server_action *give_up = bench_find(b, KILN_SERVER_GIVE_UP);
    assert_non_null(give_up);
    assert_string_equal(give_up->text, "one bit is wrong");
    bench_tick_heard(b, KILN_HEALTH_RETRY_NS * 2);
    assert_null(bench_find(b, KILN_SERVER_GIVE_UP));
    assert_null(bench_find(b, KILN_SERVER_CONFIRM));
    reconnect(b); /* before the launcher ends it */
    expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
}

static void orders_do_not_disturb_a_version_on_trial(void **state) {
    bench *b = *state;
    start(b, KILN_HEALTH_CHECK_NS, on_trial);
    bench_connect_to_tracker(b);
    const uint64_t run = bench_find(b, KILN_SERVER_CHECK)->run;
    for (int is_confirmed = 0; is_confirmed < 2; is_confirmed++) {
        prepare(b, 1, "kiln-board", "0.2.0");
        expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
        say(b, KILN_UPGRADE_FORGET);
        expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
        say_order(b, KILN_UPGRADE_PREPARE, NUMBER + 1, (kiln_str){0}); /* another upgrade */
        expect_report(b, KILN_UPGRADE_IS_RESTARTING, NULL);
        if (is_confirmed) continue;
        bench_checked(b, run, NULL);
        assert_non_null(bench_find(b, KILN_SERVER_CONFIRM));
    }
    bench_step(b, &(kiln_server_event){.kind = KILN_SERVER_LAUNCHER});
    expect_report(b, KILN_UPGRADE_IS_DONE, NULL);
    say_order(b, KILN_UPGRADE_PREPARE, NUMBER + 1, (kiln_str){0}); /* now it may come */
    assert_int_equal(bench_find_sent(b, KILN_MSG_UPGRADED)->upgraded.report,
                     KILN_UPGRADE_IS_REFUSED);
}

static void the_old_version_reports_why_the_new_one_failed(void **state) {
    bench *b = *state;
    start(b, 0, (kiln_server_launch){.number = NUMBER, .failure = "it ended with code 1"});
    bench_connect_to_tracker(b);
    expect_report(b, KILN_UPGRADE_IS_FAILED, "it ended with code 1");
    kiln_strbuf text = {0};
    sign(1, "kiln-board", "0.3.0", kiln_release_arch(), &text);
    say_order(b, KILN_UPGRADE_PREPARE, NUMBER + 1, kiln_strbuf_view(&text)); /* the next one */
    assert_non_null(bench_find(b, KILN_SERVER_FETCH));
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_bench(it_says_whether_it_takes_releases),
        test_with_bench(a_prepared_board_restarts_when_it_is_told),
        test_with_bench(it_hands_in_all_results_before_it_restarts),
        test_with_bench(results_of_a_lost_lease_hold_nothing_up),
        test_with_bench(it_waits_for_its_self_check_and_starts_no_other),
        test_with_bench(bad_statements_are_failures_that_name_the_reason),
        test_with_bench(a_changed_statement_has_a_wrong_signature),
        test_with_bench(a_release_for_another_processor_is_refused),
        test_with_bench(a_board_without_keys_takes_no_release),
        test_with_bench(the_version_that_runs_is_done_at_once),
        test_with_bench(a_fetch_is_tried_three_times_in_a_connection),
        test_with_bench(a_fetch_that_fails_with_its_connection_is_no_fault),
        test_with_bench(each_order_has_its_own_fetches),
        test_with_bench(only_its_own_fetches_count),
        test_with_bench(a_fetch_that_fails_is_not_begun_again_once_it_is_forgotten),
        test_with_bench(other_blobs_do_not_make_it_ready),
        test_with_bench(it_says_again_where_it_is_after_a_reconnect_and_when_asked),
        test_with_bench(it_forgets_what_it_is_told_to),
        test_with_bench(a_launcher_that_cannot_take_it_is_a_failure),
        test_with_bench(a_new_version_confirms_once_it_is_connected_and_well),
        test_with_bench(each_state_is_said_again_after_a_reconnect),
        test_with_bench(a_new_version_does_not_confirm_before_its_self_check),
        test_with_bench(a_new_version_that_fails_its_self_check_twice_gives_up),
        test_with_bench(orders_do_not_disturb_a_version_on_trial),
        test_with_bench(the_old_version_reports_why_the_new_one_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
