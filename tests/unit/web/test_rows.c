#include "web/rows.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/support/test.h"
#include "web/events.h"

typedef struct fixture {
    kiln_rows rows;
    kiln_arena arena;
} fixture;

static int set_up(void **state) {
    static fixture the_fixture;
    the_fixture = (fixture){.rows = {.kind = KILN_ROWS_BOARDS}};
    kiln_arena_init(&the_fixture.arena, 0);
    *state = &the_fixture;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_rows_deinit(&f->rows);
    kiln_arena_deinit(&f->arena);
    return 0;
}

static kiln_msg_board_row board_of(const char *node, const char *state) {
    return (kiln_msg_board_row){.node = kiln_str_from(node),
                                .key = KILN_STR("pi"),
                                .target = KILN_STR("cpu:x86_64"),
                                .state = kiln_str_from(state)};
}

static void put(fixture *f, const char *node, const char *state, bool is_change) {
    const kiln_msg_board_row row = board_of(node, state);
    expect_ok(kiln_rows_put(&f->rows, &row, is_change, 1000));
}

/* Identities of the rows after `seq`, in order. */
static const char *after(fixture *f, uint64_t seq) {
    kiln_strbuf text = {0};
    for (const kiln_row *row = kiln_rows_after(&f->rows, seq); row; row = row->next)
        kiln_strbuf_printf(&text, "%s ", row->id);
    kiln_strbuf_char(&text, '.');
    return kiln_str_dup(&f->arena, kiln_strbuf_end(&text, &f->arena));
}

static void rows_are_in_the_order_of_their_changes(void **state) {
    fixture *f = *state;
    put(f, "a", "free", true);
    put(f, "b", "free", true);
    put(f, "c", "free", true);
    assert_string_equal(after(f, 0), "a b c .");
    put(f, "a", "leased", true);
    assert_string_equal(after(f, 0), "b c a .");
    assert_string_equal(after(f, 3), "a .");
    assert_string_equal(after(f, 4), ".");
    put(f, "b", "lost", false); /* known: it stays as it is */
    assert_string_equal(after(f, 4), ".");
    assert_int_equal(kiln_rows_count(&f->rows), 3);
}

static void rows_that_a_pass_does_not_find_are_gone(void **state) {
    fixture *f = *state;
    put(f, "a", "free", true);
    put(f, "b", "free", true);
    kiln_rows_begin_pass(&f->rows);
    put(f, "b", "free", false);
    put(f, "c", "free", false);
    kiln_rows_end_pass(&f->rows);
    assert_string_equal(after(f, 0), "b c .");
    assert_null(kiln_rows_find(&f->rows, KILN_STR("a")));
    assert_int_equal(f->rows.gone_count, 1);
    assert_string_equal(f->rows.gone[0].id, "a");
    assert_true(kiln_rows_knows_gone(&f->rows, 0));
}

static void times_go_on(void **state) {
    fixture *f = *state;
    kiln_msg_board_row row = board_of("a", "lost"), out;
    row.job = KILN_STR("job");
    row.held_ms = 5;
    row.silent_ms = 7;
    row.eta_ms = 1500;
    expect_ok(kiln_rows_put(&f->rows, &row, true, 1000));
    kiln_row_board(f->rows.first, 1000 + 1000 * KILN_NS_PER_MS, &f->arena, &out);
    assert_int_equal(out.held_ms, 1005);
    assert_int_equal(out.silent_ms, 1007);
    assert_int_equal(out.eta_ms, 500);
    kiln_row_board(f->rows.first, 1000 + 9000 * KILN_NS_PER_MS, &f->arena, &out);
    assert_int_equal(out.eta_ms, 1);
}

static void a_row_without_an_identity_is_refused(void **state) {
    fixture *f = *state;
    const kiln_msg_board_row row = board_of("", "free");
    expect_error(kiln_rows_put(&f->rows, &row, true, 0), DATA_LOSS, "identity");
}

/* ---- Events ---- */

static const char *event(fixture *f, kiln_event_cursor *cursor, size_t bytes_max, bool *out_more) {
    kiln_strbuf text = {0};
    if (!kiln_event_print(&f->rows, bytes_max, 1000, cursor, &text, out_more)) return NULL;
    return kiln_str_dup(&f->arena, kiln_strbuf_end(&text, &f->arena));
}

static void an_event_has_what_changed_since(void **state) {
    fixture *f = *state;
    kiln_event_cursor cursor = {0};
    bool more = false;
    const char *text = event(f, &cursor, 1000, &more);
    assert_string_equal(text, "\"seq\":0,\"all\":true,\"rows\":[],\"gone\":[]");
    put(f, "a", "free", true);
    put(f, "b", "free", true);
    text = event(f, &cursor, 1000, &more);
    expect_contains(text, "\"seq\":2,\"rows\":[{\"node\":\"a\"");
    assert_null(strstr(text, "all"));
    assert_null(event(f, &cursor, 1000, &more));
    kiln_rows_begin_pass(&f->rows);
    put(f, "b", "free", false);
    kiln_rows_end_pass(&f->rows);
    assert_string_equal(event(f, &cursor, 1000, &more), "\"seq\":3,\"rows\":[],\"gone\":[\"a\"]");
    assert_null(event(f, &cursor, 1000, &more));
}

static void a_large_change_comes_in_pieces(void **state) {
    fixture *f = *state;
    kiln_event_cursor cursor = {.is_known = true};
    char node[16];
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(node, sizeof node, "n%u", i);
        put(f, node, "free", true);
    }
    bool more = true;
    uint32_t pieces = 0;
    for (; more; pieces++) {
        const char *text = event(f, &cursor, 500, &more);
        assert_non_null(text);
        assert_in_range(strlen(text), 1, 800);
    }
    assert_in_range(pieces, 10, 50);
    assert_int_equal(cursor.seq, 100);
}

static void a_reader_that_knows_too_little_gets_all(void **state) {
    fixture *f = *state;
    char node[16];
    bool more = false;
    for (uint32_t i = 0; i < KILN_ROWS_GONE_MAX + 1; i++) {
        snprintf(node, sizeof node, "n%u", i);
        put(f, node, "free", true);
    }
    kiln_event_cursor old = {.is_known = true, .seq = f->rows.seq - 1};
    kiln_event_cursor future = {.is_known = true, .seq = f->rows.seq + 1000000};
    kiln_rows_begin_pass(&f->rows);
    put(f, "last", "free", false);
    kiln_rows_end_pass(&f->rows);
    expect_contains(event(f, &old, 1000, &more), "\"all\":true");
    expect_contains(event(f, &future, 1000, &more), "\"all\":true");
}

static void hostile_names_stay_inside_their_strings(void **state) {
    fixture *f = *state;
    kiln_event_cursor cursor = {0};
    bool more = false;
    kiln_msg_board_row row = board_of("a", "free");
    row.key = KILN_STR("</script>\"\n\ndata: {}\r\n\xe2\x80\xa8");
    expect_ok(kiln_rows_put(&f->rows, &row, true, 0));
    const char *text = event(f, &cursor, 1000, &more);
    assert_null(strchr(text, '\n'));
    assert_null(strchr(text, '\r'));
    expect_contains(text, "</script>\\\"");
}

static void ids_of_events_are_parsed(void **state) {
    (void)state;
    uint64_t epoch = 0, seq[KILN_ROWS_KINDS];
    assert_true(kiln_event_id_parse(KILN_STR("18446744073709551615-2-3"), &epoch, seq));
    assert_int_equal(epoch, UINT64_MAX);
    assert_int_equal(seq[KILN_ROWS_JOBS], 3);
    static const char *const bad[] = {"",        "1",     "1-2",
                                      "1-2-3-4", "a-b-c", "1-2-18446744073709551616"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        assert_false(kiln_event_id_parse(kiln_str_from(bad[i]), &epoch, seq));
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(rows_are_in_the_order_of_their_changes),
        TEST(rows_that_a_pass_does_not_find_are_gone),
        TEST(times_go_on),
        TEST(a_row_without_an_identity_is_refused),
        TEST(an_event_has_what_changed_since),
        TEST(a_large_change_comes_in_pieces),
        TEST(a_reader_that_knows_too_little_gets_all),
        TEST(hostile_names_stay_inside_their_strings),
        TEST(ids_of_events_are_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
