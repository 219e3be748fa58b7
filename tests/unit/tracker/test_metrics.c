#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/thread_work.h"
#include "tests/unit/tracker/fleet.h"

/* The value after "NAME " at the beginning of a line; -1 when there is none. */
static double value_of(const kiln_strbuf *text, const char *name) {
    size_t size = strlen(name);
    kiln_str rest = kiln_strbuf_view(text);
    while (rest.size) {
        kiln_str line = kiln_str_cut(&rest, '\n');
        double value = 0;
        if (!kiln_str_starts(line, name) || line.size <= size || line.data[size] != ' ') continue;
        assert_true(kiln_str_to_f64(kiln_str_slice(line, size + 1, line.size), &value));
        return value;
    }
    return -1;
}

/* Every sample's metric was introduced, and none twice: what a scraper insists on. */
static void expect_exposition(const kiln_strbuf *text) {
    kiln_map types;
    kiln_map_init(&types);
    kiln_str rest = kiln_strbuf_view(text);
    assert_true(text->data[text->size - 1] == '\n');
    while (rest.size) {
        kiln_str line = kiln_str_cut(&rest, '\n');
        if (kiln_str_starts(line, "# HELP ")) continue;
        bool is_type = kiln_str_starts(line, "# TYPE ");
        if (is_type) line = kiln_str_slice(line, strlen("# TYPE "), line.size);
        size_t end = 0;
        while (end < line.size && line.data[end] != ' ' && line.data[end] != '{') end++;
        kiln_str name = kiln_str_slice(line, 0, end);
        if (is_type) {
            assert_true(kiln_map_put(&types, name, 1));
            continue;
        }
        static const char *const suffix[] = {"_bucket", "_sum", "_count"};
        uint64_t unused = 0;
        bool known = kiln_map_find(&types, name, &unused);
        for (size_t i = 0; !known && i < KILN_ARRAY_COUNT(suffix); i++)
            known = kiln_str_ends(name, suffix[i]) &&
                    kiln_map_find(&types, kiln_str_slice(name, 0, name.size - strlen(suffix[i])),
                                  &unused);
        if (!known) fail_msg("%.*s has no type", KILN_STR_ARG(name));
    }
    kiln_map_deinit(&types);
}

static void the_fleet_is_counted(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 11, 20, 30, 0};
    fleet_running_job(f);
    fleet_board(f, 11, "quo\"te", 2);
    fleet_lease(f, 1);
    fleet_lease(f, 2);
    fleet_lease(f, 3);
    kiln_message ask = fleet_request("j", 4);
    fleet_say(f, 20, &ask);
    fleet_wait(f, FLEET_S, alive);
    kiln_strbuf text = {0};
    fleet_print(f, KILN_TRACKER_PAGE_METRICS, &text);
    expect_exposition(&text);
    assert_true(value_of(&text, "kiln_boards_connected") == 2);
    assert_true(value_of(&text, "kiln_slots") == 3);
    assert_true(value_of(&text, "kiln_leases") == 3);
    assert_true(value_of(&text, "kiln_requests") == 1);
    assert_true(value_of(&text, "kiln_request_oldest_seconds") == 1);
    assert_true(value_of(&text, "kiln_job_waiting_oldest_seconds") == 0);
    assert_true(value_of(&text, "kiln_grants_total") == 3);
    assert_true(value_of(&text, "kiln_jobs_open") == 1);
    assert_true(value_of(&text, "kiln_lease_wait_seconds_count") == 3);
    assert_true(value_of(&text, "kiln_lease_wait_seconds_bucket{le=\"+Inf\"}") == 3);
    assert_true(value_of(&text, "kiln_project_leases{project=\"default\"}") == 3);
    assert_true(value_of(&text, "kiln_project_slots{project=\"default\"}") == 3);
    assert_true(value_of(&text, "kiln_project_board_seconds_today{project=\"default\"}") == 3);
    assert_true(value_of(&text, "kiln_project_refused_total{project=\"default\"}") == 0);
    assert_true(value_of(&text, "kiln_board_busy_slots{node=\"quo\\\"te\",key=\"quo\\\"te\"}") ==
                2);
    kiln_strbuf_deinit(&text);
}

static void a_job_without_a_tuner_and_a_quarantined_board_are_seen(void **state) {
    fleet *f = *state;
    kiln_strbuf text = {0};
    fleet_board(f, 10, "board", 1);
    fleet_connect(f, 30, KILN_PEER_CLIENT, "client", "client-1");
    fleet_open_job(f, 30, "j", true);
    fleet_wait(f, 3 * FLEET_S, (const uint64_t[]){10, 30, 0});
    fleet_print(f, KILN_TRACKER_PAGE_METRICS, &text);
    assert_true(value_of(&text, "kiln_job_waiting_oldest_seconds") == 3);
    assert_true(value_of(&text, "kiln_request_oldest_seconds") == 0);
    expect_contains(text.data, "\nkiln_board_quarantined{");
    kiln_strbuf_deinit(&text);
}

static void the_state_is_json_with_the_rows_of_the_commands(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    fleet_lease(f, 1);
    kiln_strbuf text = {0};
    const uint64_t before = kiln_thread_work_here()->rows;
    fleet_print(f, KILN_TRACKER_PAGE_STATE, &text);
    assert_true(kiln_thread_work_here()->rows > before); /* its loop's watchdog hears of them */
    json_t *root = json_loadb(text.data, text.size, 0, NULL);
    assert_non_null(root);
    const json_t *board = json_array_get(json_object_get(root, "boards"), 0);
    const json_t *job = json_array_get(json_object_get(root, "jobs"), 0);
    assert_string_equal(json_string_value(json_object_get(board, "state")), "leased");
    assert_string_equal(json_string_value(json_object_get(job, "job")), "j");
    const json_t *counts = json_object_get(root, "counts");
    assert_int_equal(json_integer_value(json_object_get(counts, "leases")), 1);
    json_decref(root);
    kiln_strbuf_deinit(&text);
}

#define MANY 1200u /* boards: the page is half a megabyte */

static void add_boards(fleet *f, uint32_t from, uint32_t count) {
    for (uint32_t i = from; i < from + count; i++) {
        char node[32];
        snprintf(node, sizeof node, "many-%u", i);
        fleet_board(f, 1000 + i, node, 1);
    }
    fleet_forget_sent(f);
}

/* No slice goes over rows or bytes by more than a row, or is one of the lists that were made. */
static void expect_slices(fleet *f, kiln_tracker_page_kind kind, uint32_t slices_min,
                          kiln_strbuf *out) {
    kiln_tracker_page *page = kiln_tracker_page_create(f->t, kind);
    uint32_t slices = 1;
    for (bool more = true; more; slices++) {
        const uint64_t rows = kiln_thread_work_here()->rows;
        const size_t size = out->size;
        more = kiln_tracker_page_step(page, out);
        const uint64_t walked = kiln_thread_work_here()->rows - rows;
        const uint64_t counted = slices == 1 ? f->t->boards.all.count + f->t->peers.all.count : 0;
        assert_true(walked <= KILN_TRACKER_SLICE_ROWS + counted);
        if (kind == KILN_TRACKER_PAGE_STATE)
            assert_true(out->size - size <= KILN_TRACKER_SLICE_BYTES + 4096);
        else
            assert_true(out->size - size <= MANY * 100);
    }
    assert_true(slices >= slices_min);
    kiln_tracker_page_destroy(page);
}

static void pages_of_many_boards_come_in_slices(void **state) {
    fleet *f = *state;
    fleet_running_job(f);
    add_boards(f, 0, MANY);
    kiln_strbuf text = {0};
    expect_slices(f, KILN_TRACKER_PAGE_METRICS, MANY / KILN_TRACKER_SLICE_ROWS, &text);
    expect_exposition(&text);
    assert_true(value_of(&text, "kiln_board_available{node=\"many-0\",key=\"many-0\"}") == 1);
    assert_true(value_of(&text, "kiln_board_busy_slots{node=\"many-1199\",key=\"many-1199\"}") ==
                0);
    kiln_strbuf_reset(&text);
    expect_slices(f, KILN_TRACKER_PAGE_STATE, MANY / KILN_TRACKER_SLICE_ROWS, &text);
    json_t *root = json_loadb(text.data, text.size, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "boards")), MANY + 1);
    assert_int_equal(json_array_size(json_object_get(root, "jobs")), 1);
    json_decref(root);
    kiln_strbuf_deinit(&text);
}

/* Between two slices boards go away and others come: each that stays is there once. */
static void a_page_stays_whole_while_the_fleet_changes(void **state) {
    fleet *f = *state;
    uint64_t alive[MANY + 1] = {0};
    uint32_t stay = 0, seen[2 * MANY] = {0};
    kiln_strbuf text = {0};
    add_boards(f, 0, MANY);
    kiln_tracker_forget_boards_after(f->t, FLEET_S);
    kiln_tracker_page *page = kiln_tracker_page_create(f->t, KILN_TRACKER_PAGE_STATE);
    assert_true(kiln_tracker_page_step(page, &text));
    for (uint32_t i = 0; i < MANY; i++) {
        if (i % 3 == 0)
            fleet_disconnect(f, 1000 + i);
        else
            alive[stay++] = 1000 + i;
    }
    fleet_wait(f, 3 * FLEET_S, alive);
    assert_int_equal(f->t->boards.all.count, stay);
    add_boards(f, MANY, 10);
    while (kiln_tracker_page_step(page, &text)) continue;
    kiln_tracker_page_destroy(page);
    json_t *root = json_loadb(text.data, text.size, 0, NULL);
    assert_non_null(root);
    size_t at;
    const json_t *row;
    json_array_foreach(json_object_get(root, "boards"), at, row) {
        const char *node = json_string_value(json_object_get(row, "node"));
        uint64_t number = 0;
        assert_true(kiln_str_to_u64(kiln_str_from(node + strlen("many-")), &number));
        assert_true(number < KILN_ARRAY_COUNT(seen));
        seen[number]++;
    }
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        if (i < MANY && i % 3 != 0) assert_int_equal(seen[i], 1);
        assert_true(seen[i] <= (i < MANY));
    }
    json_decref(root);
    kiln_strbuf_deinit(&text);
}

static void long_waits_are_in_their_bucket(void **state) {
    fleet *f = *state;
    static const uint64_t alive[] = {10, 20, 30, 0};
    fleet_running_job(f);
    uint64_t lease = fleet_lease(f, 1);
    kiln_message ask = fleet_request("j", 2);
    fleet_say(f, 20, &ask);
    fleet_wait(f, 10 * FLEET_S, alive); /* which is in the bucket of ten */
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = lease}};
    fleet_say(f, 20, &release);
    kiln_strbuf text = {0};
    fleet_print(f, KILN_TRACKER_PAGE_METRICS, &text);
    assert_true(value_of(&text, "kiln_lease_wait_seconds_bucket{le=\"1\"}") == 1);
    assert_true(value_of(&text, "kiln_lease_wait_seconds_bucket{le=\"10\"}") == 2);
    assert_true(value_of(&text, "kiln_lease_wait_seconds_sum") == 10);
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(the_fleet_is_counted),
        test_with_fleet(a_job_without_a_tuner_and_a_quarantined_board_are_seen),
        test_with_fleet(the_state_is_json_with_the_rows_of_the_commands),
        test_with_fleet(pages_of_many_boards_come_in_slices),
        test_with_fleet(a_page_stays_whole_while_the_fleet_changes),
        test_with_fleet(long_waits_are_in_their_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
