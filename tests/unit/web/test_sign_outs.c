/* Sessions that were signed out, over restarts. */
#include "web/sign_outs.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"

typedef struct fixture {
    kiln_arena arena;
    char *folder;
    kiln_loop *loop;
    kiln_sign_outs *ended;
    uint32_t done;
    kiln_code code;
} fixture;

static void start(fixture *f) {
    expect_ok(kiln_loop_create(&f->loop));
    expect_ok(kiln_sign_outs_create(f->loop, f->folder, &f->ended));
}

static void stop(fixture *f) {
    kiln_sign_outs_destroy(f->ended);
    kiln_loop_destroy(f->loop);
}

static int set_up(void **state) {
    static fixture the_fixture;
    the_fixture = (fixture){.folder = NULL};
    kiln_arena_init(&the_fixture.arena, 0);
    the_fixture.folder = make_folder(&the_fixture.arena);
    start(&the_fixture);
    *state = &the_fixture;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    stop(f);
    remove_folder(f->folder);
    kiln_arena_deinit(&f->arena);
    return 0;
}

static void on_done(void *context, kiln_status st) {
    fixture *f = context;
    f->done++;
    f->code = kiln_status_code(st);
    kiln_status_free(st);
    kiln_loop_stop(f->loop);
}

/* Signs out and waits until that is on the disk. */
static void end(fixture *f, const char *person, const char *id, uint64_t expires_s,
                uint64_t now_s) {
    const kiln_sign_out session = {person, id, expires_s};
    const uint32_t before = f->done;
    kiln_sign_outs_add(f->ended, &session, now_s, on_done, f);
    assert_int_equal(f->done, before); /* never from inside */
    while (f->done == before) kiln_loop_run(f->loop);
}

static bool has(const fixture *f, const char *person, const char *id, uint64_t expires_s) {
    const kiln_sign_out session = {person, id, expires_s};
    return kiln_sign_outs_has(f->ended, &session);
}

static const char *path_of(fixture *f) {
    return kiln_arena_printf(&f->arena, "%s/signed-out", f->folder);
}

static void what_was_answered_outlives_the_server(void **state) {
    fixture *f = *state;
    end(f, "ann", "0a", 100, 50);
    end(f, "a person of a proxy", "0b", 100, 50);
    assert_true(f->code == KILN_OK);
    stop(f);
    start(f);
    assert_true(has(f, "ann", "0a", 100) && has(f, "a person of a proxy", "0b", 100));
    assert_false(has(f, "ann", "0c", 100));
}

/* Both are in one write or in two, and both are told. */
static void several_at_once_are_all_kept(void **state) {
    fixture *f = *state;
    const char *const id[] = {"01", "02", "03"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(id); i++) {
        const kiln_sign_out session = {"ann", id[i], 100};
        kiln_sign_outs_add(f->ended, &session, 50, on_done, f);
        assert_true(has(f, "ann", id[i], 100)); /* at once */
    }
    while (f->done < KILN_ARRAY_COUNT(id)) kiln_loop_run(f->loop);
    stop(f);
    start(f);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(id); i++) assert_true(has(f, "ann", id[i], 100));
}

static void those_that_have_expired_are_forgotten(void **state) {
    fixture *f = *state;
    kiln_str content = {0};
    end(f, "ann", "0a", 100, 50);
    end(f, "ann", "0b", 200, 100);
    expect_ok(kiln_file_read(path_of(f), 100, &f->arena, &content));
    expect_str(content, "200 0b ann\n");
}

static void many_of_a_person_end_all_that_are_not_newer(void **state) {
    fixture *f = *state;
    kiln_str content = {0};
    for (unsigned i = 0; i <= KILN_SIGN_OUTS_OF_PERSON; i++)
        end(f, "ann", kiln_arena_printf(&f->arena, "%02x", i), 100 + i, 50);
    end(f, "bob", "b0", 100, 50);
    stop(f);
    start(f);
    expect_ok(kiln_file_read(path_of(f), 100, &f->arena, &content));
    expect_str(content, "132 - ann\n100 b0 bob\n");
    assert_true(has(f, "ann", "05", 105) && has(f, "ann", "never seen", 132));
    assert_false(has(f, "ann", "newer", 133));
    assert_false(has(f, "bob", "b1", 100));
    for (unsigned i = 0; i <= KILN_SIGN_OUTS_OF_PERSON; i++)
        end(f, "ann", kiln_arena_printf(&f->arena, "1%02x", i), 200, 50);
    assert_true(has(f, "ann", "05", 105) && has(f, "ann", "x", 200));
    assert_false(has(f, "ann", "x", 201));
}

static void a_full_list_forgets_what_expires_first(void **state) {
    fixture *f = *state;
    kiln_strbuf text = {0};
    for (unsigned i = 0; i < KILN_SIGN_OUTS_MAX; i++)
        kiln_strbuf_printf(&text, "%u %04x p%u\n", 1000 + i, i, i);
    expect_ok(kiln_file_write(path_of(f), kiln_strbuf_view(&text), 0600));
    kiln_strbuf_deinit(&text);
    stop(f);
    start(f);
    end(f, "ann", "aa", 2000, 50);
    assert_true(has(f, "ann", "aa", 2000) && has(f, "p1", "0001", 1001));
    assert_false(has(f, "p0", "0000", 1000));
}

static void a_disk_that_takes_nothing_is_told_and_the_session_is_over(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir(path_of(f), 0700), 0);
    end(f, "ann", "0a", 100, 50);
    assert_int_not_equal(f->code, KILN_OK);
    assert_true(has(f, "ann", "0a", 100));
    assert_int_equal(rmdir(path_of(f)), 0);
    end(f, "ann", "0b", 100, 50);
    assert_int_equal(f->code, KILN_OK);
    stop(f);
    start(f);
    assert_true(has(f, "ann", "0a", 100) && has(f, "ann", "0b", 100));
}

static void a_damaged_file_is_refused(void **state) {
    fixture *f = *state;
    static const char *const bad[] = {"x\n",      "100\n",       "100 \n",
                                      "100 0a\n", "-1 0a ann\n", "100 0a ann\n\n"};
    kiln_sign_outs *other = NULL;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        expect_ok(kiln_file_write(path_of(f), kiln_str_from(bad[i]), 0600));
        expect_error_at(kiln_sign_outs_create(f->loop, f->folder, &other), KILN_DATA_LOSS,
                        "signed-out is damaged", bad[i], (int)i);
    }
    expect_ok(kiln_file_write(path_of(f), (kiln_str){0}, 0600));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_was_answered_outlives_the_server),
        TEST(several_at_once_are_all_kept),
        TEST(those_that_have_expired_are_forgotten),
        TEST(many_of_a_person_end_all_that_are_not_newer),
        TEST(a_full_list_forgets_what_expires_first),
        TEST(a_disk_that_takes_nothing_is_told_and_the_session_is_over),
        TEST(a_damaged_file_is_refused),
    };
    return cmocka_run_group_tests_name("web/sign_outs", tests, NULL, NULL);
}
