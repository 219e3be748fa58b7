#include "tests/unit/tracker/fleet.h"

enum { TUNER = 20, ANN = 31, BOB = 32 };

static const uint64_t people[] = {ANN, BOB, TUNER, 0};

static kiln_digest digest_of(uint32_t number) {
    kiln_digest digest = {{1}};
    memcpy(&digest.byte[8], &number, sizeof number);
    return digest;
}

static bool may_get(fleet *f, uint64_t peer, uint32_t number) {
    const kiln_digest digest = digest_of(number);
    return kiln_tracker_may_get(f->t, peer, &digest);
}

static void put(fleet *f, uint64_t peer, uint32_t number, uint64_t size) {
    const kiln_digest digest = digest_of(number);
    kiln_tracker_was_put(f->t, peer, &digest, size);
}

static void connect_all(fleet *f) {
    f->who = (kiln_tracker_who){.is_proven = true};
    fleet_tuner(f, TUNER, "tuner", "tuner-1");
    f->who.person = "ann";
    fleet_connect(f, ANN, KILN_PEER_CLIENT, "ann", "ann");
    f->who.person = "bob";
    fleet_connect(f, BOB, KILN_PEER_CLIENT, "bob", "bob");
}

static uint32_t rows_of_blobs(const fleet *f) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->rows.count; i++)
        count += f->rows.data[i].kind == KILN_TRACKER_ROW_BLOB;
    return count;
}

static void what_people_put_outlives_the_tracker(void **state) {
    fleet *f = *state;
    connect_all(f);
    put(f, ANN, 1, 100);
    put(f, BOB, 1, 100);
    put(f, TUNER, 2, 100); /* programs put by the thousand: no row */
    fleet_wait(f, FLEET_S, people);
    assert_int_equal(rows_of_blobs(f), 2);
    put(f, ANN, 3, 100); /* killed before this one is on disk */
    fleet_restart(f);
    connect_all(f);
    assert_true(may_get(f, ANN, 1) && may_get(f, BOB, 1));
    assert_false(may_get(f, TUNER, 1));
    assert_false(may_get(f, TUNER, 2));
    assert_false(may_get(f, ANN, 3));
    assert_int_equal(fleet_open_model(f, ANN, "j", digest_of(3)), KILN_NOT_FOUND);
    assert_int_equal(fleet_open_model(f, ANN, "j", digest_of(1)), KILN_OK);
    assert_int_equal(kiln_tracker_job_find(f->t, KILN_STR("j"))->blob_bytes, 100);
}

static void bytes_of_today_outlive_the_tracker(void **state) {
    fleet *f = *state;
    kiln_tracker_set_wall(f->t, UINT64_C(20000) * 86400 * FLEET_S + FLEET_S);
    connect_all(f);
    put(f, ANN, 1, KILN_TRACKER_PUT_BYTES_A_DAY - 10);
    fleet_wait(f, FLEET_S, people);
    fleet_restart(f);
    kiln_tracker_set_wall(f->t, UINT64_C(20000) * 86400 * FLEET_S + 5 * FLEET_S);
    connect_all(f);
    kiln_status st = kiln_tracker_may_put(f->t, ANN, 11);
    expect_error(st, RESOURCE_EXHAUSTED, "today");
    expect_ok(kiln_tracker_may_put(f->t, ANN, 10));
    kiln_tracker_set_wall(f->t, UINT64_C(20001) * 86400 * FLEET_S + 5 * FLEET_S);
    expect_ok(kiln_tracker_may_put(f->t, ANN, 11));
}

static void blobs_that_are_gone_lose_their_rows(void **state) {
    fleet *f = *state;
    connect_all(f);
    for (uint32_t i = 1; i <= 3; i++) put(f, ANN, i, 100);
    put(f, BOB, 2, 100);
    put(f, TUNER, 2, 100);
    fleet_wait(f, FLEET_S, people);
    const kiln_digest gone[] = {digest_of(2), digest_of(9)};
    kiln_tracker_blobs_gone(f->t, gone, 2);
    assert_false(may_get(f, ANN, 2) || may_get(f, BOB, 2) || may_get(f, TUNER, 2));
    fleet_wait(f, FLEET_S, people);
    assert_int_equal(rows_of_blobs(f), 2);
    kiln_tracker_blobs_gone(f->t, gone, 1);
    put(f, ANN, 2, 100); /* it came again */
    fleet_wait(f, FLEET_S, people);
    assert_int_equal(rows_of_blobs(f), 3);
}

static void a_new_day_counts_from_nothing_after_a_restart_too(void **state) {
    fleet *f = *state;
    const uint64_t day_ns = UINT64_C(86400) * FLEET_S;
    kiln_tracker_set_wall(f->t, 20000 * day_ns + FLEET_S);
    connect_all(f);
    put(f, ANN, 1, KILN_TRACKER_PUT_BYTES_A_DAY);
    fleet_wait(f, FLEET_S, people);
    kiln_tracker_set_wall(f->t, 20001 * day_ns + FLEET_S);
    put(f, ANN, 2, 10);
    fleet_wait(f, FLEET_S, people);
    fleet_restart(f);
    kiln_tracker_set_wall(f->t, 20001 * day_ns + 5 * FLEET_S);
    connect_all(f);
    expect_ok(kiln_tracker_may_put(f->t, ANN, KILN_TRACKER_PUT_BYTES_A_DAY - 10));
    expect_error(kiln_tracker_may_put(f->t, ANN, KILN_TRACKER_PUT_BYTES_A_DAY - 9),
                 RESOURCE_EXHAUSTED, "today");
}

/* Rows come in the order of their names. */
static void what_was_used_last_is_known_whatever_the_order_of_rows(void **state) {
    fleet *f = *state;
    connect_all(f);
    put(f, ANN, 2, 1);
    fleet_wait(f, 2 * FLEET_S, people);
    put(f, ANN, 1, 1);
    fleet_wait(f, 2 * FLEET_S, people);
    kiln_tracker_row *blob[2] = {0};
    for (uint32_t i = 0, count = 0; i < f->rows.count; i++)
        if (f->rows.data[i].kind == KILN_TRACKER_ROW_BLOB) blob[count++] = &f->rows.data[i];
    const kiln_tracker_row first = *blob[0];
    *blob[0] = *blob[1];
    *blob[1] = first;
    fleet_restart(f);
    connect_all(f);
    for (uint32_t i = 0; i < KILN_TRACKER_PUTS_MAX - 1; i++) put(f, TUNER, 100 + i, 1);
    assert_true(may_get(f, ANN, 1));
    assert_false(may_get(f, ANN, 2));
}

/* Three people put one blob, and the second one's is dropped. */
static void one_persons_blob_goes_without_those_of_others(void **state) {
    fleet *f = *state;
    enum { CARL = 33 };
    static const uint64_t all[] = {ANN, BOB, CARL, TUNER, 0};
    connect_all(f);
    f->who.person = "carl";
    fleet_connect(f, CARL, KILN_PEER_CLIENT, "carl", "carl");
    kiln_tracker_limit_blobs(f->t, 150);
    put(f, ANN, 1, 100);
    put(f, BOB, 1, 100);
    put(f, CARL, 1, 100);
    fleet_wait(f, FLEET_S, all);
    put(f, BOB, 2, 100);
    fleet_wait(f, FLEET_S, all);
    assert_true(may_get(f, ANN, 1) && may_get(f, CARL, 1));
    assert_false(may_get(f, BOB, 1));
    put(f, ANN, 3, 100);
    fleet_wait(f, FLEET_S, all);
    assert_false(may_get(f, ANN, 1));
    assert_true(may_get(f, CARL, 1));
}

/* The least used goes first, also when it was put before the tracker was started anew. */
static void rows_are_bounded(void **state) {
    fleet *f = *state;
    connect_all(f);
    put(f, ANN, 1, 1);
    fleet_wait(f, 2 * FLEET_S, people);
    put(f, ANN, 2, 1);
    fleet_wait(f, 2 * FLEET_S, people);
    put(f, ANN, 1, 1); /* again within the hour: nothing is written */
    const uint32_t writes = f->writes[KILN_TRACKER_ROW_BLOB];
    fleet_wait(f, FLEET_S, people);
    assert_int_equal(f->writes[KILN_TRACKER_ROW_BLOB], writes);
    fleet_restart(f);
    connect_all(f);
    for (uint32_t i = 0; i < KILN_TRACKER_PUTS_MAX - 1; i++) put(f, TUNER, 100 + i, 1);
    assert_true(may_get(f, ANN, 2));
    assert_false(may_get(f, ANN, 1));
    fleet_wait(f, FLEET_S, people);
    assert_int_equal(rows_of_blobs(f), 1);
}

/* A person has at most 1000 bytes here at once. */
static void the_least_used_blobs_of_a_person_go_first(void **state) {
    fleet *f = *state;
    kiln_tracker_limit_blobs(f->t, 1000);
    connect_all(f);
    put(f, BOB, 4, 500);
    for (uint32_t i = 1; i <= 4; i++) put(f, ANN, i, 250);
    fleet_wait(f, FLEET_S, people);
    assert_int_equal(f->dropped_blobs.count, 0);
    assert_int_equal(fleet_open_model(f, ANN, "j", digest_of(1)),
                     KILN_OK); /* that needs the oldest */
    expect_ok(kiln_tracker_may_put(f->t, ANN, 250));
    put(f, ANN, 5, 250);
    fleet_wait(f, FLEET_S, people);
    const kiln_digest second = digest_of(2);
    assert_int_equal(f->dropped_blobs.count, 1);
    assert_true(kiln_digest_equal(&f->dropped_blobs.data[0], &second));
    assert_true(may_get(f, ANN, 1) && may_get(f, ANN, 3) && may_get(f, ANN, 5));
    assert_false(may_get(f, ANN, 2));
    put(f, ANN, 6, 500);
    fleet_wait(f, FLEET_S, people);
    assert_false(may_get(f, ANN, 3) || may_get(f, ANN, 4));
    assert_int_equal(f->dropped_blobs.count, 2); /* the fourth is bob's, too */
    assert_true(may_get(f, BOB, 4));
    assert_int_equal(rows_of_blobs(f), 4);
}

static void what_jobs_need_stays_and_the_person_is_told(void **state) {
    fleet *f = *state;
    connect_all(f);
    kiln_tracker_limit_blobs(f->t, 1000);
    put(f, ANN, 1, 900);
    assert_int_equal(fleet_open_model(f, ANN, "j", digest_of(1)), KILN_OK);
    expect_ok(kiln_tracker_may_put(f->t, ANN, 100));
    put(f, ANN, 2, 100);
    expect_ok(kiln_tracker_may_put(f->t, ANN, 100)); /* instead of the second */
    expect_error(kiln_tracker_may_put(f->t, ANN, 101), RESOURCE_EXHAUSTED, "--person-blobs");
    expect_ok(kiln_tracker_may_put(f->t, BOB, 1000));
    expect_error(kiln_tracker_may_put(f->t, BOB, 1001), RESOURCE_EXHAUSTED, "bob");
    put(f, ANN, 3, 100);
    fleet_wait(f, FLEET_S, people);
    assert_true(may_get(f, ANN, 1) && may_get(f, ANN, 3));
    assert_false(may_get(f, ANN, 2));
    kiln_tracker_limit_blobs(f->t, 0);
    expect_ok(kiln_tracker_may_put(f->t, ANN, 1 << 20));
}

static void rows_that_are_damaged_are_named(void **state) {
    fleet *f = *state;
    kiln_tracker *t = NULL;
    char digest[KILN_DIGEST_TEXT];
    const kiln_digest of = digest_of(1);
    kiln_digest_print(&of, digest);
    kiln_tracker_row row = {.kind = KILN_TRACKER_ROW_BLOB,
                            .id = kiln_str_printf(&f->arena, "%s/ann", digest),
                            .body = KILN_STR("\xc1")};
    expect_error(kiln_tracker_create(&row, 1, f->now_ns, &t), DATA_LOSS, "ann");
    row.id = KILN_STR("ann");
    expect_error(kiln_tracker_create(&row, 1, f->now_ns, &t), DATA_LOSS, "ann");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(what_people_put_outlives_the_tracker),
        test_with_fleet(bytes_of_today_outlive_the_tracker),
        test_with_fleet(blobs_that_are_gone_lose_their_rows),
        test_with_fleet(a_new_day_counts_from_nothing_after_a_restart_too),
        test_with_fleet(what_was_used_last_is_known_whatever_the_order_of_rows),
        test_with_fleet(one_persons_blob_goes_without_those_of_others),
        test_with_fleet(rows_are_bounded),
        test_with_fleet(the_least_used_blobs_of_a_person_go_first),
        test_with_fleet(what_jobs_need_stays_and_the_person_is_told),
        test_with_fleet(rows_that_are_damaged_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
