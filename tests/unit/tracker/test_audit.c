#include "tracker/audit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "tests/support/test.h"

typedef struct fixture {
    kiln_arena *arena;
    char *folder, *path;
    kiln_audit *audit;
    kiln_peer peer;
} fixture;

static void set_up(fixture *f, kiln_arena *arena) {
    *f = (fixture){
        .arena = arena,
        .folder = make_folder(arena),
        .peer = {.address = "192.0.2.7:4711", .key = "admin/ann/1", .role = KILN_PEER_ADMIN}};
    f->path = kiln_arena_printf(arena, "%s/audit.log", f->folder);
    expect_ok(kiln_audit_open(f->path, &f->audit));
}

/* Closes the log and reads it. */
static const char *read_log(fixture *f) {
    kiln_str text = {0};
    kiln_audit_close(f->audit);
    expect_ok(kiln_file_read(f->path, 64 << 20, f->arena, &text));
    remove_folder(f->folder);
    return text.data;
}

static uint32_t count_of(const char *text, const char *needle) {
    uint32_t count = 0;
    for (const char *at = strstr(text, needle); at; at = strstr(at + 1, needle)) count++;
    return count;
}

static void an_act_says_who_and_what(void **state) {
    fixture f;
    set_up(&f, *state);
    kiln_message order = {
        .type = KILN_MSG_BOARD_ORDER,
        .board_order = {.board = KILN_STR("rpi"), .service = 1, .text = KILN_STR("say \"no\"\n")}};
    assert_true(kiln_audit_is_recorded(&order));
    kiln_audit_act(f.audit, &f.peer, &order);
    const char *text = read_log(&f);
    expect_contains(text, "{\"time\":\"2");
    expect_contains(text,
                    "\"event\":\"act\",\"from\":\"192.0.2.7:4711\",\"key\":\"admin/ann/1\","
                    "\"role\":\"admin\",\"message\":\"BOARD_ORDER\",\"body\":{\"board\":\"rpi\"");
    expect_contains(text, "say \\\"no\\\"\\\\x0a");
    assert_int_equal(count_of(text, "\n"), 1);
}

static void what_a_web_server_does_for_a_person_names_both(void **state) {
    fixture f;
    set_up(&f, *state);
    f.peer = (kiln_peer){.address = "192.0.2.7:4711",
                         .key = "web/lab/1",
                         .person = "ann",
                         .by_web = true,
                         .role = KILN_PEER_CLIENT};
    const kiln_message cancel = {.type = KILN_MSG_CANCEL,
                                 .cancel = {.scope = KILN_CANCEL_JOB, .id = KILN_STR("j")}};
    kiln_audit_act(f.audit, &f.peer, &cancel);
    f.peer.key[0] = '\0'; /* the web server of the tracker's user */
    kiln_audit_act(f.audit, &f.peer, &cancel);
    const char *text = read_log(&f);
    expect_contains(text, "\"from\":\"192.0.2.7:4711\",\"person\":\"ann\",\"by\":\"web/lab/1\","
                          "\"role\":\"client\",\"message\":\"CANCEL\"");
    expect_contains(text, "\"person\":\"ann\",\"by\":\"web\",\"role\"");
}

static void people_who_sign_in_are_written_and_a_crowd_of_wrong_tokens_is_counted(void **state) {
    fixture f;
    set_up(&f, *state);
    f.peer = (kiln_peer){.address = "unix", .key = "web/lab/1", .role = KILN_PEER_WEB};
    kiln_audit_sign_in(f.audit, &f.peer, KILN_STR("ann"), true, 1);
    for (uint64_t i = 0; i < 1000; i++)
        kiln_audit_sign_in(f.audit, &f.peer, KILN_STR("a\"b"), false, 2);
    const char *text = read_log(&f);
    expect_contains(text, "\"event\":\"signed_in\",\"from\":\"unix\",\"by\":\"web/lab/1\","
                          "\"person\":\"ann\"}\n");
    expect_contains(text, "\"event\":\"sign_in_refused\",\"from\":\"unix\",\"by\":"
                          "\"web/lab/1\",\"person\":\"a\\\"b\"}\n");
    assert_int_equal(count_of(text, "sign_in_refused"), KILN_AUDIT_REFUSED_MAX);
    expect_contains(text, "\"refused_more\",\"count\":980}");
}

static void what_changes_nothing_for_others_is_not_written(void **state) {
    (void)state;
    kiln_message job = {.type = KILN_MSG_CANCEL, .cancel = {.scope = KILN_CANCEL_JOB}};
    kiln_message trial = {.type = KILN_MSG_CANCEL, .cancel = {.scope = KILN_CANCEL_TRIAL}};
    assert_true(kiln_audit_is_recorded(&job));
    assert_true(kiln_audit_is_recorded(&(kiln_message){.type = KILN_MSG_JOB_ORDER}));
    assert_false(kiln_audit_is_recorded(&trial));
    assert_false(kiln_audit_is_recorded(&(kiln_message){.type = KILN_MSG_QUERY}));
    assert_false(kiln_audit_is_recorded(&(kiln_message){.type = KILN_MSG_TRIAL_RESULT}));
}

static void a_crowd_that_is_refused_cannot_fill_the_disk(void **state) {
    fixture f;
    set_up(&f, *state);
    kiln_status why = KILN_ERROR(UNAUTHENTICATED, "no key of ours");
    for (uint64_t i = 0; i < 1000; i++) kiln_audit_refused(f.audit, &f.peer, why, i);
    kiln_audit_refused(f.audit, &f.peer, why, 2 * KILN_AUDIT_WINDOW_NS); /* a new window */
    kiln_status_free(why);
    const char *text = read_log(&f);
    assert_int_equal(count_of(text, "\"event\":\"refused\""), KILN_AUDIT_REFUSED_MAX + 1);
    expect_contains(text, "\"event\":\"refused_more\",\"count\":980}");
    expect_contains(text, "\"code\":\"UNAUTHENTICATED\",\"text\":\"no key of ours\"");
}

static void what_was_only_counted_is_written_at_the_end(void **state) {
    fixture f;
    set_up(&f, *state);
    kiln_status why = KILN_ERROR(DATA_LOSS, "noise");
    for (uint64_t i = 0; i < 25; i++) kiln_audit_refused(f.audit, &f.peer, why, 1);
    kiln_status_free(why);
    expect_contains(read_log(&f), "\"refused_more\",\"count\":5}");
}

static void readings_of_the_key_file_are_written(void **state) {
    fixture f;
    set_up(&f, *state);
    kiln_status why = KILN_ERROR(DATA_LOSS, "line 3");
    kiln_audit_keys(f.audit, 7, NULL);
    kiln_audit_keys(f.audit, 7, why);
    kiln_status_free(why);
    const char *text = read_log(&f);
    expect_contains(text, "\"event\":\"keys\",\"count\":7}\n");
    expect_contains(text, "\"count\":7,\"code\":\"DATA_LOSS\",\"text\":\"line 3\"}\n");
}

static void a_full_log_is_moved_aside_and_lines_are_appended_over_restarts(void **state) {
    fixture f;
    struct stat info;
    set_up(&f, *state);
    static char prose[KILN_MESSAGES_NAME];
    memset(prose, 'x', sizeof prose);
    kiln_message order = {.type = KILN_MSG_BOARD_ORDER,
                          .board_order = {.text = {prose, sizeof prose}}};
    kiln_audit_act(f.audit, &f.peer, &order);
    kiln_audit_close(f.audit);
    assert_int_equal(stat(f.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    off_t line = info.st_size;
    expect_ok(kiln_audit_open(f.path, &f.audit));
    kiln_audit_act(f.audit, &f.peer, &order);
    assert_int_equal(stat(f.path, &info), 0);
    assert_int_equal(info.st_size, 2 * line);
    for (uint64_t i = 0; i < KILN_AUDIT_BYTES_MAX / (uint64_t)line; i++) {
        snprintf(f.peer.key, sizeof f.peer.key, "admin/%03u/1", (unsigned)(i % 100));
        kiln_audit_act(f.audit, &f.peer, &order);
    }
    assert_int_equal(stat(kiln_arena_printf(*state, "%s.1", f.path), &info), 0);
    assert_true((uint64_t)info.st_size <= KILN_AUDIT_BYTES_MAX);
    assert_int_equal(stat(f.path, &info), 0);
    assert_true(info.st_size > 0 && info.st_size <= 4 * line);
    kiln_audit_close(f.audit);
    remove_folder(f.folder);
}

/* One key says the same for ever: the line of another stays where it was. */
static void no_key_alone_fills_the_log(void **state) {
    fixture f;
    struct stat info;
    set_up(&f, *state);
    kiln_message order = {.type = KILN_MSG_BOARD_ORDER, .board_order = {.board = KILN_STR("rpi")}};
    kiln_peer other = f.peer;
    snprintf(other.key, sizeof other.key, "admin/bob/1");
    kiln_audit_act(f.audit, &other, &order);
    for (uint32_t i = 0; i < 4 * KILN_AUDIT_BYTES_MAX / 100; i++)
        kiln_audit_act(f.audit, &f.peer, &order);
    kiln_audit_act(f.audit, &other, &order);
    assert_int_equal(stat(f.path, &info), 0);
    assert_true((uint64_t)info.st_size < 2 * KILN_AUDIT_BYTES_OF_SOURCE);
    assert_false(kiln_file_exists(kiln_arena_printf(*state, "%s.1", f.path)));
    const char *text = read_log(&f);
    assert_int_equal(count_of(text, "admin/bob/1"), 2);
    expect_contains(text, "\"event\":\"withheld\",\"of\":\"admin/ann/1\",\"count\":65536}");
}

/* A tracker that is started anew counts what the file holds. */
static void a_budget_outlives_the_tracker(void **state) {
    fixture f;
    set_up(&f, *state);
    kiln_message order = {
        .type = KILN_MSG_BOARD_ORDER,
        .board_order = {.board = KILN_STR("rpi"), .text = KILN_STR("\",\"key\":\"admin/bob/1\"")}};
    kiln_peer user = {.address = "a socket", .person = "ann", .role = KILN_PEER_ADMIN};
    const kiln_peer *const peer[] = {&f.peer, &user};
    kiln_str before = {0}, after = {0};
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 8000; k++) kiln_audit_act(f.audit, peer[i], &order);
    kiln_audit_close(f.audit);
    expect_ok(kiln_file_read(f.path, 64 << 20, f.arena, &before));
    expect_ok(kiln_audit_open(f.path, &f.audit));
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 8000; k++) kiln_audit_act(f.audit, peer[i], &order);
    kiln_peer other = {.address = "192.0.2.8:1", .key = "admin/bob/1", .role = KILN_PEER_ADMIN};
    kiln_audit_act(f.audit, &other, &order);
    after = kiln_str_from(read_log(&f));
    const uint32_t acts = count_of(before.data, "\"event\":\"act\"");
    assert_in_range(acts, 1000, 15998);
    assert_int_equal(count_of(after.data, "\"event\":\"act\""), acts + 1);
    expect_contains(after.data, "\"of\":\"ann\"");
}

static void older_logs_are_kept(void **state) {
    fixture f;
    set_up(&f, *state);
    kiln_message order = {.type = KILN_MSG_BOARD_ORDER, .board_order = {.board = KILN_STR("rpi")}};
    for (uint32_t i = 0; i < KILN_AUDIT_FILES_MAX + 2; i++) {
        kiln_audit_close(f.audit);
        assert_int_equal(truncate(f.path, KILN_AUDIT_BYTES_MAX - 1), 0);
        expect_ok(kiln_audit_open(f.path, &f.audit));
        kiln_audit_act(f.audit, &f.peer, &order);
    }
    for (uint32_t i = 1; i <= KILN_AUDIT_FILES_MAX + 1; i++)
        assert_true(kiln_file_exists(kiln_arena_printf(*state, "%s.%u", f.path, i)) ==
                    (i <= KILN_AUDIT_FILES_MAX));
    kiln_audit_close(f.audit);
    remove_folder(f.folder);
}

/* Sets the time of a file's last line. */
static void set_age(const char *path, uint32_t days) {
    const time_t then = time(NULL) - (time_t)days * 86400;
    const struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void lines_that_are_too_old_are_removed(void **state) {
    fixture f;
    set_up(&f, *state);
    kiln_message order = {.type = KILN_MSG_BOARD_ORDER, .board_order = {.board = KILN_STR("rpi")}};
    const char *first = kiln_arena_printf(*state, "%s.1", f.path),
               *second = kiln_arena_printf(*state, "%s.2", f.path);
    kiln_audit_close(f.audit);
    expect_ok(kiln_file_write(f.path,
                              KILN_STR("{\"time\":\"2020-01-01T00:00:00.000Z\",\"event\":"
                                       "\"keys\"}\n"),
                              0600));
    expect_ok(kiln_file_write(first, KILN_STR("{}\n"), 0600));
    set_age(first, 39);
    expect_ok(kiln_audit_open(f.path, &f.audit));
    kiln_audit_expire(f.audit, 0); /* no bound */
    assert_false(kiln_file_exists(second));
    kiln_audit_expire(f.audit, 40);
    assert_true(kiln_file_exists(second)); /* what was the first */
    assert_true(kiln_file_exists(first));  /* what began in 2020 */
    kiln_audit_act(f.audit, &f.peer, &order);
    kiln_audit_expire(f.audit, 38);
    assert_false(kiln_file_exists(second));
    kiln_audit_expire(f.audit, 38); /* lines of today stay */
    assert_true(kiln_file_exists(first));
    set_age(first, 39);
    kiln_audit_expire(f.audit, 38);
    assert_false(kiln_file_exists(first));
    expect_contains(read_log(&f), "\"message\":\"BOARD_ORDER\"");
}

static void a_log_that_cannot_be_made_is_named(void **state) {
    kiln_audit *audit = NULL;
    (void)state;
    expect_error(kiln_audit_open("/nowhere/audit.log", &audit), NOT_FOUND, "/nowhere/audit.log");
}

/* Whichever operation fails, also while the log is moved aside: at most the line of that moment is
 * missing, and no other is half. */
static void a_full_disk_costs_one_line(void **state) {
    kiln_message order = {.type = KILN_MSG_BOARD_ORDER, .board_order = {.board = KILN_STR("rpi")}};
    for (uint64_t nth = 1; nth <= 6; nth++) {
        fixture f;
        set_up(&f, *state);
        kiln_audit_close(f.audit);
        assert_int_equal(truncate(f.path, KILN_AUDIT_BYTES_MAX - 1), 0);
        expect_ok(kiln_audit_open(f.path, &f.audit));
        kiln_fail_io_nth(nth);
        for (int i = 0; i < 3; i++) kiln_audit_act(f.audit, &f.peer, &order);
        kiln_fail_io_nth(0);
        bool moved = kiln_file_exists(kiln_arena_printf(*state, "%s.1", f.path));
        const char *text = read_log(&f);
        if (moved) {
            uint32_t lines = count_of(text, "\n");
            assert_true(lines >= 2 && lines <= 3);
            assert_int_equal(count_of(text, "{\"time\""), lines);
        }
    }
}

/* As when the disk gets full in the middle of it. */
static void of_a_line_that_fits_by_half_nothing_is_left(void **state) {
    fixture f;
    struct stat info;
    struct rlimit before, half;
    kiln_message order = {.type = KILN_MSG_BOARD_ORDER, .board_order = {.board = KILN_STR("rpi")}};
    set_up(&f, *state);
    kiln_audit_act(f.audit, &f.peer, &order);
    assert_int_equal(stat(f.path, &info), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN); /* the write says so instead */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    half = before;
    half.rlim_cur = (rlim_t)(info.st_size + info.st_size / 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &half), 0);
    kiln_audit_act(f.audit, &f.peer, &order);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    kiln_audit_act(f.audit, &f.peer, &order);
    const char *text = read_log(&f);
    assert_int_equal(count_of(text, "\n"), 2);
    assert_int_equal(count_of(text, "{\"time\""), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(an_act_says_who_and_what),
        test_with_arena(what_a_web_server_does_for_a_person_names_both),
        test_with_arena(people_who_sign_in_are_written_and_a_crowd_of_wrong_tokens_is_counted),
        cmocka_unit_test(what_changes_nothing_for_others_is_not_written),
        test_with_arena(a_crowd_that_is_refused_cannot_fill_the_disk),
        test_with_arena(what_was_only_counted_is_written_at_the_end),
        test_with_arena(readings_of_the_key_file_are_written),
        test_with_arena(a_full_log_is_moved_aside_and_lines_are_appended_over_restarts),
        test_with_arena(no_key_alone_fills_the_log),
        test_with_arena(a_budget_outlives_the_tracker),
        test_with_arena(older_logs_are_kept),
        test_with_arena(lines_that_are_too_old_are_removed),
        test_with_arena(a_full_disk_costs_one_line),
        test_with_arena(of_a_line_that_fits_by_half_nothing_is_left),
        cmocka_unit_test(a_log_that_cannot_be_made_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
