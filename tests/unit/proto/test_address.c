#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "proto/net.h"
#include "tests/support/test.h"

static void expect_address(const char *text, const char *printed, bool is_loopback) {
    kiln_address address;
    kiln_strbuf out = {0};
    expect_ok(kiln_address_parse(kiln_str_from(text), &address));
    kiln_address_print(&address, &out);
    assert_string_equal(out.data, printed);
    assert_int_equal(address.is_loopback, is_loopback);
    kiln_strbuf_deinit(&out);
}

static void addresses_parse_and_print(void **state) {
    (void)state;
    expect_address("127.0.0.1:0", "127.0.0.1:0", true);
    expect_address("127.9.9.9:65535", "127.9.9.9:65535", true);
    expect_address("localhost:80", "localhost:80", true);
    expect_address("[::1]:9190", "[::1]:9190", true);
    expect_address("[fe80::1]:1", "[fe80::1]:1", false);
    expect_address("0.0.0.0:9190", "0.0.0.0:9190", false);
    expect_address("build.example:9190", "build.example:9190", false);
    expect_address("unix:/run/kiln/s", "unix:/run/kiln/s", true);
}

static void bad_addresses_say_what_is_wrong(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"", "the port is missing"},      {"localhost", "the port is missing"},
        {":80", "the host is missing"},   {"h:", "not a number"},
        {"h:65536", "not a number"},      {"h:-1", "not a number"},
        {"::1:80", "stands in brackets"}, {"unix:", "the path is missing"},
        {"h:0x", "not a number"},         {"[::1:80", "stands in brackets"},
    };
    kiln_address address;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_error(kiln_address_parse(kiln_str_from(bad[i][0]), &address), INVALID_ARGUMENT,
                     bad[i][1]);
    char path[200] = "unix:/";
    memset(path + 6, 'x', 150);
    expect_error(kiln_address_parse(kiln_str_from(path), &address), INVALID_ARGUMENT, "longer");
    char host[400];
    memset(host, 'h', 300);
    memcpy(host + 300, ":1", 3);
    expect_error(kiln_address_parse(kiln_str_from(host), &address), INVALID_ARGUMENT, "too long");
}

static void the_first_tracker_makes_a_token_that_others_read(void **state) {
    uint8_t made[KILN_TOKEN_BYTES], read[KILN_TOKEN_BYTES];
    char *home = make_folder(*state);
    struct stat info;
    expect_error(kiln_token_read(home, false, read), NOT_FOUND, "no tracker of this user");
    expect_ok(kiln_token_read(home, true, made));
    assert_int_equal(stat(kiln_arena_printf(*state, "%s/token", home), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    expect_ok(kiln_token_read(home, false, read));
    assert_memory_equal(made, read, sizeof made);
    expect_ok(kiln_token_read(home, true, read)); /* the second tracker keeps it */
    assert_memory_equal(made, read, sizeof made);
    remove_folder(home);
}

static void a_token_that_others_can_read_is_refused(void **state) {
    uint8_t token[KILN_TOKEN_BYTES];
    char *home = make_folder(*state);
    expect_ok(kiln_token_read(home, true, token));
    assert_int_equal(chmod(kiln_arena_printf(*state, "%s/token", home), 0644), 0);
    expect_error(kiln_token_read(home, false, token), PERMISSION_DENIED, "can be read by others");
    remove_folder(home);
}

static void a_file_that_is_no_token_is_refused(void **state) {
    uint8_t token[KILN_TOKEN_BYTES];
    char *home = make_folder(*state);
    expect_ok(
        kiln_file_write(kiln_arena_printf(*state, "%s/token", home), KILN_STR("hello\n"), 0600));
    expect_error(kiln_token_read(home, true, token), DATA_LOSS, "is not a token");
    static const char *const odd[] = {"g", "/", ":", "A", "`"}; /* beside the digits */
    for (size_t i = 0; i < KILN_ARRAY_COUNT(odd); i++) {
        kiln_strbuf text = {0};
        for (unsigned k = 0; k < 2 * KILN_TOKEN_BYTES; k++)
            kiln_strbuf_text(&text, k == 2 * i + 1 ? odd[i] : "0");
        expect_ok(kiln_file_write(kiln_arena_printf(*state, "%s/token", home),
                                  kiln_strbuf_view(&text), 0600));
        expect_error(kiln_token_read(home, false, token), DATA_LOSS, "is not a token");
        kiln_strbuf_deinit(&text);
    }
    remove_folder(home);
}

static void several_addresses_take_turns(void **state) {
    (void)state;
    kiln_addresses list;
    expect_ok(kiln_addresses_parse(KILN_STR("unix:/a, host:1"), &list));
    static const char *const turns[] = {"/a", "host", "/a"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(turns); i++)
        assert_string_equal(kiln_addresses_next(&list)->host, turns[i]);
    expect_ok(kiln_addresses_parse(KILN_STR("unix:/a"), &list));
    assert_string_equal(kiln_addresses_next(&list)->host, kiln_addresses_next(&list)->host);
    expect_error(kiln_addresses_parse(KILN_STR("a:1,b"), &list), INVALID_ARGUMENT, "'b'");
    expect_error(kiln_addresses_parse(KILN_STR("a:1,b:2,c:3,d:4,e:5"), &list), INVALID_ARGUMENT,
                 "more than 4");
    expect_error(kiln_addresses_parse(KILN_STR(""), &list), INVALID_ARGUMENT, "port");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_parse_and_print),
        cmocka_unit_test(bad_addresses_say_what_is_wrong),
        test_with_arena(the_first_tracker_makes_a_token_that_others_read),
        test_with_arena(a_token_that_others_can_read_is_refused),
        test_with_arena(a_file_that_is_no_token_is_refused),
        cmocka_unit_test(several_addresses_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
