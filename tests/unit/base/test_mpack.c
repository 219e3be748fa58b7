#include "base/mpack.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
#include "tests/support/test.h"

static kiln_mpack_reader reader_of(const kiln_strbuf *bytes) {
    kiln_mpack_reader r;
    kiln_mpack_reader_init(&r, bytes->data, bytes->size);
    return r;
}

static kiln_mpack_reader reader_of_bytes(const char *bytes, size_t size) {
    kiln_mpack_reader r;
    kiln_mpack_reader_init(&r, bytes, size);
    return r;
}

static void integers_round_trip_at_every_width(void **state) {
    (void)state;
    for (int bits = 0; bits < 64; bits++)
        for (int64_t delta = -2; delta <= 2; delta++) {
            uint64_t number = (UINT64_C(1) << bits) + (uint64_t)delta, u = 0;
            int64_t i = 0;
            kiln_strbuf bytes = {0};
            kiln_mpack_write_u64(&bytes, number);
            kiln_mpack_write_i64(&bytes, (int64_t)number);
            kiln_mpack_write_i64(&bytes, (int64_t)(0 - number));
            kiln_mpack_reader r = reader_of(&bytes);
            expect_ok(kiln_mpack_read_u64(&r, &u));
            assert_true(u == number);
            expect_ok(kiln_mpack_read_i64(&r, &i));
            assert_true(i == (int64_t)number);
            expect_ok(kiln_mpack_read_i64(&r, &i));
            assert_true(i == (int64_t)(0 - number));
            assert_int_equal(kiln_mpack_peek(&r), KILN_MPACK_END);
            kiln_strbuf_deinit(&bytes);
        }
}

static void every_kind_round_trips(void **state) {
    (void)state;
    static char large[70000];
    memset(large, 'x', sizeof large);
    const size_t size[] = {0, 1, 31, 32, 255, 256, 65535, 65536, 70000};
    kiln_strbuf bytes = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(size); i++) {
        kiln_mpack_write_str(&bytes, (kiln_str){large, size[i]});
        kiln_mpack_write_bin(&bytes, large, size[i]);
    }
    kiln_mpack_write_nil(&bytes);
    kiln_mpack_write_bool(&bytes, true);
    kiln_mpack_write_bool(&bytes, false);
    kiln_mpack_write_f64(&bytes, -0.1);
    kiln_mpack_write_map(&bytes, 1);
    kiln_mpack_write_u64(&bytes, 7);
    kiln_mpack_write_array(&bytes, 0);
    kiln_mpack_reader r = reader_of(&bytes);
    kiln_str text;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(size); i++) {
        assert_int_equal(kiln_mpack_peek(&r), KILN_MPACK_STR);
        expect_ok(kiln_mpack_read_str(&r, &text));
        assert_int_equal(text.size, size[i]);
        assert_int_equal(kiln_mpack_peek(&r), KILN_MPACK_BIN);
        expect_ok(kiln_mpack_read_bin(&r, &text));
        assert_true(kiln_str_equal(text, (kiln_str){large, size[i]}));
    }
    bool flag = false;
    double number = 0;
    uint32_t count = 9;
    uint64_t key = 0;
    assert_int_equal(kiln_mpack_peek(&r), KILN_MPACK_NIL);
    expect_ok(kiln_mpack_skip(&r));
    expect_ok(kiln_mpack_read_bool(&r, &flag));
    assert_true(flag);
    expect_ok(kiln_mpack_read_bool(&r, &flag));
    assert_false(flag);
    expect_ok(kiln_mpack_read_f64(&r, &number));
    assert_true(number == -0.1);
    expect_ok(kiln_mpack_read_map(&r, &count));
    assert_int_equal(count, 1);
    expect_ok(kiln_mpack_read_u64(&r, &key));
    assert_int_equal(kiln_mpack_peek(&r), KILN_MPACK_ARRAY);
    expect_ok(kiln_mpack_read_array(&r, &count));
    assert_int_equal(count, 0);
    assert_int_equal(r.offset, r.size);
    kiln_strbuf_deinit(&bytes);
}

static void integers_and_short_floats_read_as_doubles(void **state) {
    (void)state;
    double number = 0;
    kiln_mpack_reader r = reader_of_bytes("\xca\x3f\xc0\x00\x00\xff\x07", 7); /* 1.5f, -1, 7 */
    expect_ok(kiln_mpack_read_f64(&r, &number));
    assert_true(number == 1.5);
    expect_ok(kiln_mpack_read_f64(&r, &number));
    assert_true(number == -1);
    expect_ok(kiln_mpack_read_f64(&r, &number));
    assert_true(number == 7);
}

static void the_wrong_kind_is_refused_and_the_reader_stays(void **state) {
    (void)state;
    bool flag;
    uint64_t u;
    int64_t i;
    double f;
    kiln_str text;
    uint32_t count;
    kiln_mpack_reader r = reader_of_bytes("\xc0", 1);
    expect_error(kiln_mpack_read_bool(&r, &flag), DATA_LOSS, "wanted a bool at byte 0, found nil");
    expect_error(kiln_mpack_read_u64(&r, &u), DATA_LOSS, "wanted an integer");
    expect_error(kiln_mpack_read_i64(&r, &i), DATA_LOSS, "wanted an integer");
    expect_error(kiln_mpack_read_f64(&r, &f), DATA_LOSS, "wanted a float");
    expect_error(kiln_mpack_read_str(&r, &text), DATA_LOSS, "wanted a string");
    expect_error(kiln_mpack_read_bin(&r, &text), DATA_LOSS, "wanted binary data");
    expect_error(kiln_mpack_read_array(&r, &count), DATA_LOSS, "wanted an array");
    expect_error(kiln_mpack_read_map(&r, &count), DATA_LOSS, "wanted a map");
    assert_int_equal(r.offset, 0);
    r = reader_of_bytes("\xff", 1);
    expect_error(kiln_mpack_read_u64(&r, &u), DATA_LOSS, "negative");
    r = reader_of_bytes("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9);
    expect_error(kiln_mpack_read_i64(&r, &i), DATA_LOSS, "does not fit");
    r = reader_of_bytes("", 0);
    expect_error(kiln_mpack_read_u64(&r, &u), DATA_LOSS, "found the end");
    expect_error(kiln_mpack_skip(&r), DATA_LOSS, "found the end");
}

static void lengths_and_counts_beyond_the_bytes_left_are_refused(void **state) {
    (void)state;
    kiln_str text;
    uint32_t count;
    kiln_mpack_reader r = reader_of_bytes("\xdb\xff\xff\xff\xff"
                                          "abc",
                                          8);
    expect_error(kiln_mpack_read_str(&r, &text), DATA_LOSS, "does not fit");
    r = reader_of_bytes("\xc6\x00\x00\x00\x04"
                        "abc",
                        8);
    expect_error(kiln_mpack_read_bin(&r, &text), DATA_LOSS, "does not fit");
    r = reader_of_bytes("\xdd\xff\xff\xff\xff\x00", 6);
    expect_error(kiln_mpack_read_array(&r, &count), DATA_LOSS, "does not fit");
    r = reader_of_bytes("\xdf\xff\xff\xff\xff\x00", 6);
    expect_error(kiln_mpack_read_map(&r, &count), DATA_LOSS, "does not fit");
    r = reader_of_bytes("\x82\x00\x00\x00", 4); /* two pairs need four bytes */
    expect_error(kiln_mpack_read_map(&r, &count), DATA_LOSS, "does not fit");
    assert_int_equal(r.offset, 0);
}

static void extensions_and_reserved_bytes_are_bad(void **state) {
    (void)state;
    static const unsigned char bad[] = {0xc1, 0xc7, 0xc8, 0xc9, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8};
    for (size_t i = 0; i < sizeof bad; i++) {
        char bytes[20] = {(char)bad[i]};
        kiln_mpack_reader r = reader_of_bytes(bytes, sizeof bytes);
        assert_int_equal(kiln_mpack_peek(&r), KILN_MPACK_BAD);
        expect_error(kiln_mpack_skip(&r), DATA_LOSS, "unknown byte");
    }
}

static void skip_takes_one_value_to_the_depth_limit(void **state) {
    (void)state;
    char deep[KILN_MPACK_DEPTH_MAX + 2];
    memset(deep, '\x91', sizeof deep);
    deep[KILN_MPACK_DEPTH_MAX] = '\x05';
    kiln_mpack_reader r = reader_of_bytes(deep, KILN_MPACK_DEPTH_MAX + 1);
    expect_ok(kiln_mpack_skip(&r));
    assert_int_equal(r.offset, KILN_MPACK_DEPTH_MAX + 1);
    deep[KILN_MPACK_DEPTH_MAX] = '\x91';
    deep[KILN_MPACK_DEPTH_MAX + 1] = '\x05';
    r = reader_of_bytes(deep, sizeof deep);
    expect_error(kiln_mpack_skip(&r), DATA_LOSS, "nested deeper");
    assert_int_equal(r.offset, 0);
    r = reader_of_bytes("\x82\x01\x92\x02\x03\x04\xa1z\x09", 9);
    expect_ok(kiln_mpack_skip(&r));
    assert_int_equal(r.offset, 8);
}

static void random_bytes_never_lead_outside(void **state) {
    (void)state;
    kiln_rand random;
    kiln_rand_init(&random, 5);
    for (int round = 0; round < 100000; round++) {
        char *bytes = test_malloc(24); /* cmocka notices a touch outside */
        size_t size = (size_t)kiln_rand_below(&random, 25);
        for (size_t i = 0; i < size; i++) bytes[i] = (char)kiln_rand_u64(&random);
        kiln_mpack_reader r = reader_of_bytes(bytes, size);
        kiln_status st = KILN_OK;
        while (!st && r.offset < r.size) {
            size_t before = r.offset;
            st = kiln_mpack_skip(&r);
            assert_true(st || (r.offset > before && r.offset <= r.size));
        }
        kiln_status_free(st);
        test_free(bytes);
    }
}

static void bounds_of_the_caller_are_kept(void **state) {
    (void)state;
    kiln_strbuf bytes = {0};
    kiln_mpack_reader r;
    uint32_t count = 9;
    uint64_t value = 9;
    kiln_mpack_write_array(&bytes, 2);
    kiln_mpack_write_u64(&bytes, 7);
    kiln_mpack_write_u64(&bytes, 8);
    kiln_mpack_reader_init(&r, bytes.data, bytes.size);
    expect_ok(kiln_mpack_read_count(&r, 2, "things", &count));
    assert_int_equal(count, 2);
    expect_ok(kiln_mpack_read_below(&r, 8, &value));
    assert_int_equal(value, 7);
    expect_error(kiln_mpack_read_below(&r, 8, &value), DATA_LOSS, "8 where less than 8 are known");
    assert_int_equal(value, 7);
    kiln_mpack_reader_init(&r, bytes.data, bytes.size);
    expect_error(kiln_mpack_read_count(&r, 1, "things", &count), DATA_LOSS,
                 "2 things, at most 1 are allowed");
    kiln_mpack_reader_init(&r, bytes.data, bytes.size);
    expect_error(kiln_mpack_read_array_of(&r, 3), DATA_LOSS, "2 fields of 3");
    kiln_mpack_reader_init(&r, bytes.data, bytes.size);
    expect_ok(kiln_mpack_read_array_of(&r, 2));
    kiln_strbuf_deinit(&bytes);
}

typedef struct coded {
    uint64_t number;
    double real;
    kiln_str name, bytes;
    uint32_t small, count;
    bool flag;
} coded;

static void code(kiln_mpack_coder *c, coded *value, uint64_t limit) {
    kiln_mpack_code_fields(c, 6);
    kiln_mpack_code_u64(c, &value->number);
    kiln_mpack_code_f64(c, &value->real);
    kiln_mpack_code_str(c, &value->name);
    kiln_mpack_code_bin(c, &value->bytes);
    kiln_mpack_code_below(c, limit, &value->small);
    kiln_mpack_code_count(c, 1, "things", &value->count);
    kiln_mpack_code_bool(c, &value->flag);
}

static void one_walk_writes_and_reads(void **state) {
    (void)state;
    kiln_strbuf bytes = {0};
    coded value = {7, 0.5, KILN_STR("name"), KILN_STR("bytes"), 3, 1, true}, again = {0};
    kiln_mpack_coder writer = {.out = &bytes}, reader = {0};
    code(&writer, &value, 4);
    expect_ok(writer.st);
    kiln_mpack_reader_init(&reader.in, bytes.data, bytes.size);
    code(&reader, &again, 4);
    expect_ok(reader.st);
    assert_int_equal(again.number, 7);
    assert_true(again.real > 0.4 && again.real < 0.6 && again.flag);
    expect_str(again.name, "name");
    expect_str(again.bytes, "bytes");
    assert_int_equal(again.small + again.count, 4);
    /* The first error stays, and nothing behind it is read. */
    again = (coded){.count = 9};
    kiln_mpack_reader_init(&reader.in, bytes.data, bytes.size);
    code(&reader, &again, 3);
    assert_int_equal(again.count, 9);
    assert_false(again.flag);
    expect_error(reader.st, DATA_LOSS, "3 where less than 3 are known");
    kiln_strbuf_deinit(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_walk_writes_and_reads),
        cmocka_unit_test(bounds_of_the_caller_are_kept),
        cmocka_unit_test(integers_round_trip_at_every_width),
        cmocka_unit_test(every_kind_round_trips),
        cmocka_unit_test(integers_and_short_floats_read_as_doubles),
        cmocka_unit_test(the_wrong_kind_is_refused_and_the_reader_stays),
        cmocka_unit_test(lengths_and_counts_beyond_the_bytes_left_are_refused),
        cmocka_unit_test(extensions_and_reserved_bytes_are_bad),
        cmocka_unit_test(skip_takes_one_value_to_the_depth_limit),
        cmocka_unit_test(random_bytes_never_lead_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
