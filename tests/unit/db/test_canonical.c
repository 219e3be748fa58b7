/* The bytes that signatures cover: whoever changes an order or a kind fails here.
 * docs/reference/record-bytes.md has the same vectors; they and their signatures were also made by
 * programs that share no code with ours. */
#include "db/canonical.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "tests/unit/db/support.h"

/* Of record_of(1, 500), of each_column_by_name, of the_tombstone. */
#define RECORD_BYTES 463
#define RECORD_DIGEST "d51a9f5f6ae59c5b224a58bc3558d1a6747e215d09f21fe2b8f39624f97cc6dc"
#define RECORD_SIGNATURE                                               \
    "6f51ee275d68d431ca1c90aa4c1fdd15fbf3f5481c660e89b656420900e77875" \
    "f77f4770d7f86b6a8ca1594ca08edbfbd5fa139003eb381edddd7253c2d56503"
#define NAMED_BYTES 573
#define NAMED_DIGEST "dd0a66640018c60879fcc021c98150748f625f7d26615778d82efac69c29ba41"
#define NAMED_SIGNATURE                                                \
    "f6f75097b9e1e2a02f6065862e3b30fd57dd564ec0083ad58ceeb9909351fc29" \
    "2ea5c12aed2fb0dffc36b9ded633be4c47080b2546fd4418914efc48abeaab0d"
#define TOMBSTONE_BYTES 145
#define TOMBSTONE_DIGEST "59e71273b85b1a4b0505e25a592edc07ae988ce8dfb83b1d87932c2a0ef12cee"
#define TOMBSTONE_SIGNATURE                                            \
    "4280c725dbe1ec7137f8b48bb2528aaafc260a40171707d464529056d398476a" \
    "45588bb4a392acf5f79c3877457db9e981a26e54a6f5b2b1242aecd238408d02"

static kiln_signer *signer_of(uint8_t first) {
    uint8_t seed[KILN_SIGN_SEED_BYTES];
    kiln_signer *signer = NULL;
    for (size_t i = 0; i < sizeof seed; i++) seed[i] = (uint8_t)(first + i);
    expect_ok(kiln_signer_create(seed, &signer));
    return signer;
}

static void expect_bytes(kiln_strbuf *bytes, size_t size, const char *digest_text,
                         kiln_str signature, const char *signature_text) {
    kiln_digest digest;
    char text[KILN_DIGEST_TEXT];
    kiln_strbuf hex = {0};
    assert_int_equal(bytes->size, size);
    kiln_digest_of(bytes->data, bytes->size, &digest);
    kiln_digest_print(&digest, text);
    assert_string_equal(text, digest_text);
    for (size_t i = 0; i < signature.size; i++)
        kiln_strbuf_printf(&hex, "%02x", (unsigned char)signature.data[i]);
    assert_string_equal(hex.data, signature_text);
    kiln_strbuf_deinit(&hex);
    kiln_strbuf_deinit(bytes);
}

static void a_records_bytes_match_the_vector(void **state) {
    kiln_arena *arena = *state;
    kiln_signer *signer = signer_of(0);
    kiln_db_record record = record_of(1, 500);
    kiln_strbuf bytes = {0};
    expect_ok(kiln_record_sign(signer, arena, &record));
    kiln_record_canonical(&record, &bytes);
    expect_bytes(&bytes, RECORD_BYTES, RECORD_DIGEST, record.signature, RECORD_SIGNATURE);
    kiln_signer_destroy(signer);
}

/* A value that no other column has. */
static uint32_t number_of(const char *name) {
    uint32_t number = 0;
    for (; *name; name++) number = number * 31 + (unsigned char)*name;
    return number;
}

static void each_column_stands_at_its_place(void **state) {
    kiln_arena *arena = *state;
    const kiln_db_table_info *info = kiln_db_table_info_of(KILN_DB_TABLE_RECORD);
    static const double samples[] = {1, 2.5};
    kiln_signer *signer = signer_of(0);
    kiln_db_record record = {0};
    kiln_strbuf bytes = {0};
    for (uint32_t i = 0; i < info->column_count; i++) {
        const char *name = info->column[i].name;
        void *member = (char *)&record + info->column[i].offset;
        switch (info->column[i].type) {
        case KILN_DB_TEXT:
        case KILN_DB_BLOB: *(kiln_str *)member = kiln_str_from(name); break;
        case KILN_DB_INT: *(int64_t *)member = -(int64_t)number_of(name); break;
        case KILN_DB_REAL: *(double *)member = number_of(name) / 4.0; break;
        case KILN_DB_SAMPLES: *(kiln_db_samples *)member = (kiln_db_samples){samples, 2};
        }
    }
    expect_ok(kiln_record_sign(signer, arena, &record));
    kiln_record_canonical(&record, &bytes);
    expect_bytes(&bytes, NAMED_BYTES, NAMED_DIGEST, record.signature, NAMED_SIGNATURE);
    kiln_signer_destroy(signer);
}

static kiln_db_tombstone the_tombstone(void) {
    return (kiln_db_tombstone){.trial_id = KILN_STR("r1"),
                               .attempt = 2,
                               .signer = KILN_STR("unsigned"),
                               .state = KILN_STR("forgotten"),
                               .reason = KILN_STR("a mistake"),
                               .said_wall_ns = 1000};
}

static void a_tombstones_bytes_match_the_vector(void **state) {
    kiln_arena *arena = *state;
    kiln_signer *signer = signer_of(0);
    kiln_db_tombstone tombstone = the_tombstone();
    kiln_strbuf bytes = {0};
    expect_ok(kiln_tombstone_sign(signer, arena, &tombstone));
    kiln_tombstone_canonical(&tombstone, &bytes);
    expect_bytes(&bytes, TOMBSTONE_BYTES, TOMBSTONE_DIGEST, tombstone.signature,
                 TOMBSTONE_SIGNATURE);
    kiln_signer_destroy(signer);
}

static void change(const kiln_db_column *column, void *row) {
    static const double other_samples[] = {1, 2};
    void *member = (char *)row + column->offset;
    switch (column->type) {
    case KILN_DB_TEXT:
    case KILN_DB_BLOB: *(kiln_str *)member = KILN_STR("other"); break;
    case KILN_DB_INT: *(int64_t *)member += 1; break;
    case KILN_DB_REAL: *(double *)member += 1; break;
    case KILN_DB_SAMPLES: *(kiln_db_samples *)member = (kiln_db_samples){other_samples, 2};
    }
}

static void each_signed_column_is_covered(void **state) {
    kiln_arena *arena = *state;
    const kiln_db_table_info *info = kiln_db_table_info_of(KILN_DB_TABLE_RECORD);
    static const char *const open[] = {"median_ns",   "min_ns",         "origin",
                                       "standing",    "relative_error", "registers",
                                       "spill_bytes", "stack_bytes",    "shared_bytes"};
    kiln_checkers checkers = {0};
    kiln_signer *signer = signer_of(1);
    kiln_db_record record = record_of(1, 500);
    expect_ok(kiln_record_sign(signer, arena, &record));
    assert_true(kiln_record_is_signed(&checkers, &record));
    for (uint32_t i = 0; i < info->column_count; i++) {
        kiln_db_record changed = record;
        bool is_open = false;
        for (size_t k = 0; k < KILN_ARRAY_COUNT(open); k++)
            is_open |= strcmp(info->column[i].name, open[k]) == 0;
        change(&info->column[i], &changed);
        assert_int_equal(kiln_record_is_signed(&checkers, &changed), is_open);
    }
    info = kiln_db_table_info_of(KILN_DB_TABLE_TOMBSTONE);
    kiln_db_tombstone tombstone = the_tombstone();
    expect_ok(kiln_tombstone_sign(signer, arena, &tombstone));
    assert_true(kiln_tombstone_is_signed(&checkers, &tombstone));
    for (uint32_t i = 0; i < info->column_count; i++) {
        kiln_db_tombstone changed = tombstone;
        change(&info->column[i], &changed);
        assert_false(kiln_tombstone_is_signed(&checkers, &changed));
    }
    kiln_checkers_deinit(&checkers);
    kiln_signer_destroy(signer);
}

static void a_signature_is_of_one_signer(void **state) {
    kiln_arena *arena = *state;
    kiln_checkers checkers = {0};
    kiln_signer *signer = signer_of(1), *other = signer_of(2);
    kiln_db_record record = record_of(1, 500), theirs = record;
    expect_ok(kiln_record_sign(signer, arena, &record));
    expect_ok(kiln_record_sign(other, arena, &theirs));
    kiln_db_record wrong = theirs;
    wrong.signer = record.signer;
    assert_false(kiln_record_is_signed(&checkers, &wrong));
    wrong = record;
    wrong.signature.size--;
    assert_false(kiln_record_is_signed(&checkers, &wrong));
    wrong.signature = (kiln_str){0};
    assert_false(kiln_record_is_signed(&checkers, &wrong));
    wrong = record;
    wrong.signer.size--;
    assert_false(kiln_record_is_signed(&checkers, &wrong));
    kiln_checkers_deinit(&checkers);
    kiln_signer_destroy(signer);
    kiln_signer_destroy(other);
}

/* More signers than are kept, twice in the same order, so that each pushes out another. */
static void any_number_of_signers_is_checked(void **state) {
    kiln_arena *arena = *state;
    kiln_checkers checkers = {0};
    enum { SIGNERS = KILN_CHECKERS_MAX + 9 };
    kiln_db_record *record = KILN_ARENA_ARRAY(arena, kiln_db_record, SIGNERS);
    for (unsigned i = 0; i < SIGNERS; i++) {
        kiln_signer *signer = signer_of((uint8_t)i);
        record[i] = record_of(1, 500);
        expect_ok(kiln_record_sign(signer, arena, &record[i]));
        kiln_signer_destroy(signer);
    }
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < SIGNERS; i++) {
            assert_true(kiln_record_is_signed(&checkers, &record[i]));
            assert_true(checkers.count <= KILN_CHECKERS_MAX);
            kiln_db_record wrong = record[i];
            wrong.flops += 1;
            assert_false(kiln_record_is_signed(&checkers, &wrong));
        }
    kiln_checkers_deinit(&checkers);
}

static void text_is_mended_before_it_is_signed(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        kiln_str text;
        const char *mended;
    } row[] = {
        {{"plain", 5}, "plain"},
        {{"a\0b", 3}, "a?b"},
        {{"\xff\xfe", 2}, "??"},
        {{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5", 9}, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5"},
        {{"\xc3", 1}, "?"}, /* cut off */
        {{"\xe2\x82", 2}, "??"},
        {{"\xc0\xaf", 2}, "??"},           /* longer than need be */
        {{"\xed\xa0\x80", 3}, "???"},      /* a surrogate */
        {{"\xf4\x90\x80\x80", 4}, "????"}, /* beyond the last letter */
        {{"\xf4\x8f\xbf\xbf", 4}, "\xf4\x8f\xbf\xbf"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_str(kiln_db_text_corrected(row[i].text, arena), row[i].mended);
    kiln_signer *signer = signer_of(1);
    kiln_db_record record = record_of(1, 500);
    record.detail = (kiln_str){"a\0\xff", 3};
    record.trace = (kiln_str){"\0\xff", 2}; /* no text */
    expect_ok(kiln_record_sign(signer, arena, &record));
    expect_str(record.detail, "a??");
    assert_memory_equal(record.trace.data, "\0\xff", 2);
    kiln_db_tombstone tombstone = the_tombstone();
    tombstone.reason = (kiln_str){"\xff", 1};
    expect_ok(kiln_tombstone_sign(signer, arena, &tombstone));
    expect_str(tombstone.reason, "?");
    kiln_signer_destroy(signer);
}

int main(void) {
    if (!kiln_sign_supported()) {
        puts("this build has no OpenSSL");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        test_with_arena(a_records_bytes_match_the_vector),
        test_with_arena(each_column_stands_at_its_place),
        test_with_arena(a_tombstones_bytes_match_the_vector),
        test_with_arena(each_signed_column_is_covered),
        test_with_arena(a_signature_is_of_one_signer),
        test_with_arena(any_number_of_signers_is_checked),
        test_with_arena(text_is_mended_before_it_is_signed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
