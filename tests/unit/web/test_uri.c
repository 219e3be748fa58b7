#include "web/uri.h"

#include "tests/support/test.h"

static void a_path_and_a_query_are_decoded(void **state) {
    kiln_uri uri;
    expect_ok(kiln_uri_parse(KILN_STR("/api/v1/boards/a%20b%2Fc?state=free&q=x+%2B&empty=&flag"),
                             *state, &uri));
    assert_int_equal(uri.segment_count, 4);
    expect_str(uri.segment[3], "a b/c");
    assert_int_equal(uri.pair_count, 4);
    expect_str(uri.pair[1].name, "q");
    expect_str(uri.pair[1].value, "x +");
    expect_str(uri.pair[2].value, "");
    expect_str(uri.pair[3].name, "flag");
}

static void the_root_has_no_segments(void **state) {
    kiln_uri uri;
    expect_ok(kiln_uri_parse(KILN_STR("/"), *state, &uri));
    assert_int_equal(uri.segment_count, 0);
    expect_ok(kiln_uri_parse(KILN_STR("/?a=1"), *state, &uri));
    assert_int_equal(uri.pair_count, 1);
}

static void what_could_mean_two_things_is_refused(void **state) {
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "begin with /"},
        {"x", "begin with /"},
        {"/a/../b", "empty, . or .."},
        {"/a/%2e%2e", "empty, . or .."},
        {"/./a", "empty, . or .."},
        {"//a", "empty, . or .."},
        {"/a/", "ends with /"},
        {"/a//b", "empty, . or .."},
        {"/%", "% escape"},
        {"/%4", "% escape"},
        {"/%zz", "% escape"},
        {"/%00", "control"},
        {"/a%0d%0ab", "control"},
        {"/%ff", "UTF-8"},
        {"/%c0%ae", "UTF-8"},
        {"/a?b=%", "% escape"},
        {"/a?%00=1", "control"},
        {"/a?b=%ed%a0%80", "UTF-8"},
        {"/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h", "more than 16 parts"},
    };
    kiln_uri uri = {.pair_count = 99};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        expect_error(kiln_uri_parse(kiln_str_from(bad[i].text), *state, &uri), INVALID_ARGUMENT,
                     bad[i].why);
    assert_int_equal(uri.pair_count, 99);
}

static void its_size_is_bounded(void **state) {
    kiln_uri uri;
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "/a?");
    for (uint32_t i = 0; i <= KILN_URI_PAIRS_MAX; i++) kiln_strbuf_text(&text, "a=1&");
    expect_error(kiln_uri_parse(kiln_strbuf_view(&text), *state, &uri), INVALID_ARGUMENT,
                 "64 parameters");
    while (text.size <= KILN_URI_BYTES_MAX) kiln_strbuf_text(&text, "aaaaaaaaaaaaaaaa");
    expect_error(kiln_uri_parse(kiln_strbuf_view(&text), *state, &uri), INVALID_ARGUMENT, "bytes");
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_path_and_a_query_are_decoded),
        test_with_arena(the_root_has_no_segments),
        test_with_arena(what_could_mean_two_things_is_refused),
        test_with_arena(its_size_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
