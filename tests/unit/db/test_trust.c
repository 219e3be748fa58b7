/* Who is believed, what is forgotten: every step of db/trust.c over rows that are there. */
#include "db/trust.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "db/canonical.h"
#include "tests/unit/db/support.h"

static const char half_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static const char half_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

typedef struct fixture {
    void *folder;
    kiln_db *db;
    kiln_arena arena;
} fixture;

static fixture the_fixture;

static int set_up(void **state) {
    fixture *f = &the_fixture;
    *f = (fixture){0};
    folder_create(&f->folder);
    f->db = open_records(place(&f->folder, 0));
    kiln_arena_init(&f->arena, 0);
    put_parents(f->db);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_db_close(f->db);
    kiln_arena_deinit(&f->arena);
    folder_remove(&f->folder);
    return 0;
}

static void put(fixture *f, unsigned number, const char *signer, kiln_db_origin origin,
                kiln_db_standing standing) {
    kiln_db_record record = record_of(number, 500);
    record.signer = kiln_str_from(signer);
    record.origin = kiln_str_from(kiln_db_origin_name(origin));
    record.standing = standing;
    expect_ok(kiln_db_put_record(f->db, &record));
    expect_ok(kiln_db_commit(f->db));
}

typedef struct search {
    const char *trial;
    int standing; /* -9: there is none */
} search;

static kiln_status see(void *context, kiln_db_table table, const void *row) {
    (void)table;
    search *s = context;
    const kiln_db_record *record = row;
    if (kiln_str_is(record->trial_id, s->trial)) s->standing = (int)record->standing;
    return NULL;
}

#define GONE (-9)
static int standing_of(fixture *f, const char *trial) {
    search s = {trial, GONE};
    expect_ok(kiln_db_each(f->db, KILN_DB_TABLE_RECORD, see, &s));
    return s.standing;
}

static void hold(fixture *f, const char *signer, kiln_db_trust trust) {
    expect_ok(kiln_db_set_trust(f->db, kiln_str_from(signer), KILN_STR("box"), trust, 1));
    expect_ok(kiln_db_commit(f->db));
}

static kiln_db_trust held(fixture *f, const char *signer) {
    kiln_db_trust trust = KILN_DB_TRUST_COUNT;
    expect_ok(kiln_db_trust_of(f->db, kiln_str_from(signer), &trust));
    return trust;
}

static uint32_t pass(fixture *f, kiln_db_verdict verdict, const char *id, int64_t now_ns) {
    uint32_t count = 0;
    expect_ok(kiln_db_apply_verdict(f->db,
                                    &(kiln_db_verdict_request){.verdict = verdict,
                                                               .id = kiln_str_from(id),
                                                               .reason = KILN_STR("why"),
                                                               .now_wall_ns = now_ns},
                                    &count));
    expect_ok(kiln_db_commit(f->db));
    return count;
}

static void a_signer_is_a_public_half(void **state) {
    fixture *f = *state;
    static const char *const wrong[] = {"", "box", "aaaa", "Unsigned"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++)
        expect_error(kiln_db_set_trust(f->db, kiln_str_from(wrong[i]), (kiln_str){0},
                                       KILN_DB_TRUST_PERSON, 1),
                     INVALID_ARGUMENT, "is no public key");
    char text[KILN_SIGN_PUBLIC_TEXT];
    memcpy(text, half_a, sizeof text);
    text[63] = 'x';
    expect_error(
        kiln_db_set_trust(f->db, kiln_str_from(text), (kiln_str){0}, KILN_DB_TRUST_PERSON, 1),
        INVALID_ARGUMENT, "is no public key");
    assert_int_equal(held(f, half_a), KILN_DB_TRUST_UNKNOWN);
}

/* Whoever speaks second: a person goes before all others, and our own is not lowered. */
static void a_persons_word_stays(void **state) {
    fixture *f = *state;
    enum { U, OWN = KILN_DB_TRUST_OWN, T = KILN_DB_TRUST_TRACKER, P = KILN_DB_TRUST_PERSON };
    enum { R = KILN_DB_TRUST_REFUSED };
    static const int step[][3] = {
        {U, OWN, OWN}, {U, T, T},     {U, P, P}, {U, R, R}, {OWN, T, OWN}, {OWN, P, P},
        {OWN, R, R},   {T, OWN, OWN}, {T, P, P}, {T, R, R}, {P, OWN, P},   {P, T, P},
        {P, R, R},     {R, OWN, R},   {R, T, R}, {R, P, P},
    };
    for (unsigned i = 0; i < KILN_ARRAY_COUNT(step); i++) {
        char signer[KILN_SIGN_PUBLIC_TEXT], trial[16];
        snprintf(signer, sizeof signer, "%064x", i + 1);
        snprintf(trial, sizeof trial, "r%u", i + 1);
        put(f, i + 1, signer, KILN_DB_ORIGIN_IMPORTED, KILN_DB_HINT);
        for (int k = 0; k < 2; k++)
            if (step[i][k] != KILN_DB_TRUST_UNKNOWN) hold(f, signer, (kiln_db_trust)step[i][k]);
        assert_int_equal(held(f, signer), step[i][2]);
        assert_int_equal(standing_of(f, trial), kiln_db_trust_counts((kiln_db_trust)step[i][2])
                                                    ? KILN_DB_TRUSTED
                                                    : KILN_DB_HINT);
    }
}

static void trust_moves_the_signers_records_only(void **state) {
    fixture *f = *state;
    put(f, 1, half_a, KILN_DB_ORIGIN_IMPORTED, KILN_DB_HINT);
    put(f, 2, half_b, KILN_DB_ORIGIN_IMPORTED, KILN_DB_HINT);
    put(f, 3, "", KILN_DB_ORIGIN_FOREIGN_LOG, KILN_DB_HINT);
    put(f, 4, "", KILN_DB_ORIGIN_BEFORE, KILN_DB_MEASURED);
    put(f, 5, half_a, KILN_DB_ORIGIN_MEASURED, KILN_DB_MEASURED);
    put(f, 6, half_a, KILN_DB_ORIGIN_IMPORTED, KILN_DB_QUARANTINED);
    static const struct {
        const char *signer;
        kiln_db_trust trust;
        int standing[6];
    } step[] = {
        {half_a, KILN_DB_TRUST_PERSON, {1, 0, 0, 2, 2, -1}},
        {half_a, KILN_DB_TRUST_REFUSED, {0, 0, 0, 2, 0, -1}},
        {half_a, KILN_DB_TRUST_PERSON, {1, 0, 0, 2, 2, -1}},
        {KILN_DB_UNSIGNED, KILN_DB_TRUST_PERSON, {1, 0, 1, 2, 2, -1}},
        {KILN_DB_UNSIGNED, KILN_DB_TRUST_REFUSED, {1, 0, 0, 2, 2, -1}},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(step); i++) {
        hold(f, step[i].signer, step[i].trust);
        for (unsigned k = 0; k < 6; k++) {
            char trial[16];
            snprintf(trial, sizeof trial, "r%u", k + 1);
            assert_int_equal(standing_of(f, trial), step[i].standing[k]);
        }
    }
}

static void signers_are_found_by_half_and_by_name(void **state) {
    fixture *f = *state;
    kiln_db_signer found;
    bool is_found = true;
    expect_ok(kiln_db_find_signer(f->db, KILN_STR("box"), &f->arena, &found, &is_found));
    assert_false(is_found);
    hold(f, half_b, KILN_DB_TRUST_PERSON);
    hold(f, half_a, KILN_DB_TRUST_REFUSED);
    expect_ok(kiln_db_find_signer(f->db, KILN_STR("box"), &f->arena, &found, &is_found));
    assert_true(is_found);
    expect_str(found.id, half_b);
    expect_ok(kiln_db_find_signer(f->db, kiln_str_from(half_a), &f->arena, &found, &is_found));
    assert_true(is_found);
    expect_str(found.trust, "refused");
}

static void an_identity_names_trials_jobs_signers_and_traces(void **state) {
    fixture *f = *state;
    static const struct {
        const char *id;
        uint32_t count;
    } row[] = {
        {"r1", 1},
        {"j1", 4},
        {half_a, 2},
        {"unsigned", 1},
        {"r", 0},
        {"", 0},
        {"0123456789ab", 1},
        {"0123456789abc", 1},
        {"0123456789a", 0},
        {"123456789abc", 0},
    };
    for (unsigned i = 1; i <= 4; i++) {
        kiln_db_record record = record_of(i, 500);
        if (i <= 2) record.signer = kiln_str_from(half_a);
        if (i == 1) record.trace_hash = KILN_STR("0123456789abcdef");
        record.origin = kiln_str_from(
            kiln_db_origin_name(i == 4 ? KILN_DB_ORIGIN_BEFORE : KILN_DB_ORIGIN_FOREIGN_LOG));
        record.standing = KILN_DB_TRUSTED;
        expect_ok(kiln_db_put_record(f->db, &record));
    }
    int64_t now_ns = 1;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        assert_int_equal(pass(f, KILN_DB_RESTORED, row[i].id, now_ns++), 0);
        assert_int_equal(pass(f, KILN_DB_QUARANTINE, row[i].id, now_ns++), row[i].count);
        assert_int_equal(pass(f, KILN_DB_QUARANTINE, row[i].id, now_ns++), 0);
        assert_int_equal(pass(f, KILN_DB_RESTORED, row[i].id, now_ns++), row[i].count);
    }
    assert_int_equal(pass(f, KILN_DB_QUARANTINE, "r1", now_ns++), 1);
    assert_int_equal(pass(f, KILN_DB_FORGOTTEN, "j1", now_ns++), 4); /* that one, too */
    assert_int_equal(standing_of(f, "r1"), GONE);
}

static void what_is_restored_stands_as_before(void **state) {
    fixture *f = *state;
    static const struct {
        const char *signer;
        kiln_db_origin origin;
        kiln_db_trust trust;
        int standing;
    } row[] = {
        {half_a, KILN_DB_ORIGIN_MEASURED, KILN_DB_TRUST_UNKNOWN, 2},
        {"", KILN_DB_ORIGIN_BEFORE, KILN_DB_TRUST_UNKNOWN, 2},
        {half_a, KILN_DB_ORIGIN_IMPORTED, KILN_DB_TRUST_UNKNOWN, 0},
        {"", KILN_DB_ORIGIN_FOREIGN_LOG, KILN_DB_TRUST_UNKNOWN, 0},
        {half_a, KILN_DB_ORIGIN_IMPORTED, KILN_DB_TRUST_TRACKER, 1},
        {half_a, KILN_DB_ORIGIN_IMPORTED, KILN_DB_TRUST_REFUSED, 0},
        {half_a, KILN_DB_ORIGIN_MEASURED, KILN_DB_TRUST_REFUSED, 0},
    };
    for (unsigned i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        char trial[16];
        snprintf(trial, sizeof trial, "r%u", i);
        put(f, i, row[i].signer, row[i].origin, KILN_DB_QUARANTINED);
        if (row[i].trust != KILN_DB_TRUST_UNKNOWN) hold(f, row[i].signer, row[i].trust);
        assert_int_equal(standing_of(f, trial), -1);
        assert_int_equal(pass(f, KILN_DB_RESTORED, trial, 1), 1);
        assert_int_equal(standing_of(f, trial), row[i].standing);
    }
}

static kiln_db_tombstone tombstone_of(const char *signer, const char *verdict, int64_t wall_ns) {
    return (kiln_db_tombstone){.trial_id = KILN_STR("r1"),
                               .attempt = 1,
                               .signer = kiln_str_from(signer),
                               .state = kiln_str_from(verdict),
                               .said_wall_ns = wall_ns};
}

static kiln_db_verdict verdict_of(fixture *f, const char *signer, int64_t attempt) {
    kiln_db_record record = record_of(1, 500);
    kiln_db_verdict verdict = KILN_DB_VERDICTS;
    record.signer = kiln_str_from(signer);
    record.attempt = attempt;
    expect_ok(kiln_db_verdict_of(f->db, &record, &verdict));
    return verdict;
}

static void the_later_tombstone_holds(void **state) {
    fixture *f = *state;
    static const struct {
        const char *signer, *verdict;
        int64_t wall_ns;
        int standing;
        kiln_db_verdict then;
    } step[] = {
        {half_b, "forgotten", 9, 0, KILN_DB_RESTORED}, /* another's trial of that name */
        {half_a, "quarantined", 5, -1, KILN_DB_QUARANTINE},
        {half_a, "restored", 4, -1, KILN_DB_QUARANTINE},
        {half_a, "forgotten", 5, -1, KILN_DB_QUARANTINE},
        {half_a, "restored", 6, 0, KILN_DB_RESTORED},
        {half_a, "forgotten", 7, GONE, KILN_DB_FORGOTTEN},
    };
    put(f, 1, half_a, KILN_DB_ORIGIN_IMPORTED, KILN_DB_HINT);
    assert_int_equal(verdict_of(f, half_a, 1), KILN_DB_RESTORED);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(step); i++) {
        const kiln_db_tombstone tombstone =
            tombstone_of(step[i].signer, step[i].verdict, step[i].wall_ns);
        expect_ok(kiln_db_apply_tombstone(f->db, &tombstone));
        expect_ok(kiln_db_commit(f->db));
        assert_int_equal(standing_of(f, "r1"), step[i].standing);
        assert_int_equal(verdict_of(f, half_a, 1), step[i].then);
    }
    assert_int_equal(verdict_of(f, half_a, 2), KILN_DB_RESTORED);
    assert_int_equal(verdict_of(f, half_b, 1), KILN_DB_FORGOTTEN);
    assert_int_equal(verdict_of(f, "", 1), KILN_DB_RESTORED);
    const kiln_db_tombstone odd = tombstone_of(half_a, "pardoned", 10);
    expect_error(kiln_db_apply_tombstone(f->db, &odd), INVALID_ARGUMENT,
                 "a tombstone's state is 'pardoned'");
}

static void pruning_removes_what_does_not_count(void **state) {
    fixture *f = *state;
    uint32_t count = 9;
    expect_ok(kiln_db_prune(f->db, &count));
    assert_int_equal(count, 0);
    for (int standing = -1; standing <= 2; standing++)
        put(f, (unsigned)standing + 2, half_a, KILN_DB_ORIGIN_IMPORTED, (kiln_db_standing)standing);
    expect_ok(kiln_db_prune(f->db, &count));
    expect_ok(kiln_db_commit(f->db));
    assert_int_equal(count, 2);
    assert_int_equal(standing_of(f, "r1"), GONE);
    assert_int_equal(standing_of(f, "r2"), GONE);
    assert_int_equal(standing_of(f, "r3"), 1);
    assert_int_equal(standing_of(f, "r4"), 2);
}

static void verifying_counts_every_kind(void **state) {
    fixture *f = *state;
    kiln_db_verification v;
    if (!kiln_sign_supported()) {
        expect_error(kiln_db_verify(f->db, &v), UNIMPLEMENTED, "without signatures");
        return;
    }
    const uint8_t seed[KILN_SIGN_SEED_BYTES] = {4};
    kiln_signer *signer = NULL;
    expect_ok(kiln_signer_create(seed, &signer));
    for (unsigned i = 1; i <= 5; i++) {
        kiln_db_record record = record_of(i, 500);
        expect_ok(kiln_record_sign(signer, &f->arena, &record));
        record.origin = kiln_str_from(kiln_db_origin_name(KILN_DB_ORIGIN_IMPORTED));
        record.standing = i == 1 ? KILN_DB_TRUSTED : KILN_DB_HINT;
        if (i == 2) record.flops += 1;
        if (i == 3) record.signature = (kiln_str){0};
        if (i == 4) record.signer = (kiln_str){0};
        if (i == 5) record.signature.size--;
        expect_ok(kiln_db_put_record(f->db, &record));
    }
    put(f, 6, "", KILN_DB_ORIGIN_BEFORE, KILN_DB_MEASURED);
    put(f, 7, "", KILN_DB_ORIGIN_FOREIGN_LOG, KILN_DB_QUARANTINED);
    put(f, 8, "", KILN_DB_ORIGIN_MEASURED, KILN_DB_MEASURED);
    expect_ok(kiln_db_verify(f->db, &v));
    assert_int_equal(v.right, 1);
    assert_int_equal(v.wrong, 4);
    assert_string_equal(v.first_wrong, "r2");
    assert_int_equal(v.unsigned_before, 1);
    assert_int_equal(v.unsigned_others, 2);
    assert_int_equal(v.counting, 3);
    assert_int_equal(v.hints, 4);
    assert_int_equal(v.quarantined, 1);
    kiln_signer_destroy(signer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- successors ---- */

#define CHAIN 4u
typedef struct chain {
    char half[CHAIN][KILN_SIGN_PUBLIC_TEXT]; /* each named by the one before */
    kiln_succession said[CHAIN];
} chain;

static void seed_of(unsigned number, uint8_t out_seed[KILN_SIGN_SEED_BYTES]) {
    memset(out_seed, (int)number + 1, KILN_SIGN_SEED_BYTES);
}

static void make_chain(chain *out) {
    for (unsigned i = 0; i < CHAIN; i++) {
        uint8_t seed[KILN_SIGN_SEED_BYTES], before[KILN_SIGN_SEED_BYTES];
        kiln_sign_public half;
        seed_of(i, seed);
        expect_ok(kiln_sign_public_of(seed, &half));
        kiln_sign_public_print(&half, out->half[i]);
        if (i == 0) continue;
        seed_of(i - 1, before);
        expect_ok(kiln_succession_sign(before, &half, &out->said[i]));
    }
}

static void succeed(fixture *f, const char *before, const char *next, const kiln_succession *said) {
    const kiln_db_succession row = {
        .predecessor = kiln_str_from(before),
        .successor = kiln_str_from(next),
        .proof = {(const char *)said->proof.byte, sizeof said->proof.byte}};
    expect_ok(kiln_db_put_successor(f->db, &row, 1));
    expect_ok(kiln_db_commit(f->db));
}

static void succeed_at(fixture *f, const chain *c, unsigned i) {
    succeed(f, c->half[i - 1], c->half[i], &c->said[i]);
}

static void a_successor_is_held_as_the_one_before(void **state) {
    fixture *f = *state;
    chain c;
    make_chain(&c);
    put(f, 1, c.half[0], KILN_DB_ORIGIN_IMPORTED, KILN_DB_HINT);
    put(f, 2, c.half[1], KILN_DB_ORIGIN_IMPORTED, KILN_DB_HINT);
    hold(f, c.half[0], KILN_DB_TRUST_PERSON);
    assert_int_equal(standing_of(f, "r2"), KILN_DB_HINT);
    succeed_at(f, &c, 1);
    assert_int_equal(held(f, c.half[1]), KILN_DB_TRUST_PERSON);
    assert_int_equal(standing_of(f, "r2"), KILN_DB_TRUSTED);
    assert_int_equal(standing_of(f, "r1"), KILN_DB_TRUSTED); /* what was signed before counts on */
    hold(f, c.half[1], KILN_DB_TRUST_REFUSED);
    succeed_at(f, &c, 1); /* a person's word stays */
    assert_int_equal(held(f, c.half[1]), KILN_DB_TRUST_REFUSED);
}

/* What came before anybody trusted the first of them. */
static void trust_goes_along_the_whole_chain(void **state) {
    fixture *f = *state;
    chain c;
    make_chain(&c);
    for (unsigned i = CHAIN - 1; i > 0; i--) succeed_at(f, &c, i);
    assert_int_equal(held(f, c.half[3]), KILN_DB_TRUST_UNKNOWN);
    hold(f, c.half[0], KILN_DB_TRUST_TRACKER);
    for (unsigned i = 1; i < CHAIN; i++)
        assert_int_equal(held(f, c.half[i]), KILN_DB_TRUST_TRACKER);
}

/* Who is not trusted passes nothing on, a refusal neither: it could name anybody. */
static void a_stranger_names_nobody(void **state) {
    fixture *f = *state;
    chain c;
    make_chain(&c);
    succeed_at(f, &c, 1);
    assert_int_equal(held(f, c.half[1]), KILN_DB_TRUST_UNKNOWN);
    hold(f, c.half[0], KILN_DB_TRUST_REFUSED);
    assert_int_equal(held(f, c.half[1]), KILN_DB_TRUST_UNKNOWN);
}

static void a_forged_succession_says_nothing(void **state) {
    fixture *f = *state;
    chain c;
    make_chain(&c);
    hold(f, c.half[0], KILN_DB_TRUST_PERSON);
    succeed(f, c.half[0], c.half[2], &c.said[1]); /* another is meant */
    succeed(f, c.half[0], c.half[2], &c.said[2]); /* another has said it */
    succeed(f, "nobody", c.half[2], &c.said[2]);
    succeed(f, c.half[0], "nobody", &c.said[1]);
    assert_int_equal(held(f, c.half[2]), KILN_DB_TRUST_UNKNOWN);
    succeed_at(f, &c, 1); /* the place was not taken by any of them */
    assert_int_equal(held(f, c.half[1]), KILN_DB_TRUST_PERSON);
}

/* Whoever comes to have a seed that was given up can name no second one. */
static void a_signer_has_one_successor(void **state) {
    fixture *f = *state;
    chain c;
    uint8_t seed[KILN_SIGN_SEED_BYTES];
    kiln_sign_public third;
    kiln_succession again;
    make_chain(&c);
    hold(f, c.half[0], KILN_DB_TRUST_PERSON);
    succeed_at(f, &c, 1);
    assert_true(kiln_sign_public_parse(kiln_str_from(c.half[2]), &third));
    seed_of(0, seed);
    expect_ok(kiln_succession_sign(seed, &third, &again));
    succeed(f, c.half[0], c.half[2], &again);
    assert_int_equal(held(f, c.half[2]), KILN_DB_TRUST_UNKNOWN);
}

/* The error of the first record is not lost behind the next one, whose tombstone could be made. */
static void a_verdict_ends_with_its_first_error(void **state) {
    fixture *f = *state;
    uint8_t seed[KILN_SIGN_SEED_BYTES];
    kiln_signer *signer = NULL;
    seed_of(0, seed);
    expect_ok(kiln_signer_create(seed, &signer));
    put(f, 1, half_a, KILN_DB_ORIGIN_IMPORTED, KILN_DB_HINT);
    put(f, 2, half_a, KILN_DB_ORIGIN_IMPORTED, KILN_DB_HINT);
    const kiln_db_verdict_request request = {.verdict = KILN_DB_QUARANTINE,
                                             .id = kiln_str_from(half_a),
                                             .signer = signer,
                                             .now_wall_ns = 1};
    uint32_t count = 7;
    expect_ok(kiln_fail_arm("DB_PUT=error"));
    expect_error(kiln_db_apply_verdict(f->db, &request, &count), RESOURCE_EXHAUSTED, "DB_PUT");
    expect_ok(kiln_fail_arm(NULL));
    assert_int_equal(count, 7);
    assert_int_equal(standing_of(f, "r2"), KILN_DB_HINT);
    kiln_signer_destroy(signer);
}

int main(int argc, char **argv) {
    choose_place(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(a_signer_is_a_public_half),
        TEST(a_persons_word_stays),
        TEST(trust_moves_the_signers_records_only),
        TEST(signers_are_found_by_half_and_by_name),
        TEST(an_identity_names_trials_jobs_signers_and_traces),
        TEST(what_is_restored_stands_as_before),
        TEST(the_later_tombstone_holds),
        TEST(pruning_removes_what_does_not_count),
        TEST(verifying_counts_every_kind),
    };
    const struct CMUnitTest of_successors[] = {
        TEST(a_successor_is_held_as_the_one_before),
        TEST(trust_goes_along_the_whole_chain),
        TEST(a_stranger_names_nobody),
        TEST(a_forged_succession_says_nothing),
        TEST(a_signer_has_one_successor),
        TEST(a_verdict_ends_with_its_first_error),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (kiln_sign_supported()) failed += cmocka_run_group_tests(of_successors, NULL, NULL);
    return failed;
}
