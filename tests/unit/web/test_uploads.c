/* Models that persons bring. */
#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "web/uploads_state.h"

typedef struct fixture {
    kiln_arena arena;
    char *folder;
    kiln_loop *loop;
    kiln_uploads *uploads;
    kiln_digest digest;
} fixture;

static void start(fixture *f) {
    expect_ok(kiln_loop_create(&f->loop));
    expect_ok(kiln_uploads_create(f->loop, f->folder, &f->uploads));
}

static void stop(fixture *f) {
    kiln_uploads_destroy(f->uploads);
    kiln_loop_destroy(f->loop);
}

static int set_up(void **state) {
    static fixture the_fixture;
    the_fixture = (fixture){0};
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

static void on_flushed(void *context, const kiln_digest *digest, kiln_status st) {
    fixture *f = context;
    expect_ok(st);
    f->digest = *digest;
    kiln_loop_stop(f->loop);
}

/* An upload of this text that is whole, and a model of the person. */
static kiln_upload *bring(fixture *f, const char *person, const char *text,
                          kiln_model_file **out_model) {
    kiln_upload *upload = NULL;
    expect_ok(kiln_upload_create(f->uploads, person, strlen(text), &upload));
    kiln_spool_add(upload->spool, kiln_str_from(text));
    kiln_spool_flush(upload->spool, on_flushed, f);
    kiln_loop_run(f->loop);
    expect_ok(kiln_upload_finish(upload, person, &f->digest));
    *out_model = kiln_uploads_find(f->uploads, person, &f->digest);
    assert_non_null(*out_model);
    return upload;
}

static kiln_str name_of(fixture *f) {
    char text[KILN_DIGEST_TEXT];
    kiln_digest_print(&f->digest, text);
    return kiln_str_copy(&f->arena, kiln_str_from(text));
}

static void a_model_is_found_by_digest_and_upload(void **state) {
    fixture *f = *state;
    kiln_model_file *model = NULL, *found = NULL;
    kiln_str content;
    const kiln_upload *upload = bring(f, "ann", "one", &model);
    expect_ok(kiln_uploads_resolve(f->uploads, "ann", kiln_str_from(upload->id), &found));
    assert_ptr_equal(found, model);
    expect_ok(kiln_uploads_resolve(f->uploads, "ann", name_of(f), &found));
    assert_ptr_equal(found, model);
    assert_true(kiln_digest_equal(kiln_model_file_digest(found), &f->digest));
    expect_ok(kiln_file_read(kiln_model_file_path(found), 9, &f->arena, &content));
    expect_str(content, "one");
    bring(f, "ann", "one", &found); /* once more */
    assert_ptr_equal(found, model);
}

static void others_do_not_find_it(void **state) {
    fixture *f = *state;
    kiln_model_file *model = NULL;
    const kiln_upload *upload = bring(f, "ann", "one", &model);
    expect_error(kiln_uploads_resolve(f->uploads, "bob", kiln_str_from(upload->id), &model),
                 NOT_FOUND, "no such");
    expect_error(kiln_uploads_resolve(f->uploads, "bob", name_of(f), &model), NOT_FOUND, "no such");
    expect_error(kiln_uploads_resolve(f->uploads, "ann", KILN_STR("../ann"), &model), NOT_FOUND,
                 "no such");
    expect_error(kiln_uploads_resolve(f->uploads, "ann", KILN_STR(""), &model), NOT_FOUND,
                 "no such");
}

static void an_upload_in_parts_is_no_model_yet(void **state) {
    fixture *f = *state;
    kiln_model_file *model = NULL;
    kiln_upload *upload = NULL;
    expect_ok(kiln_upload_create(f->uploads, "ann", 5, &upload));
    kiln_spool_add(upload->spool, KILN_STR("on"));
    expect_error(kiln_uploads_resolve(f->uploads, "ann", kiln_str_from(upload->id), &model),
                 FAILED_PRECONDITION, "2 of 5 bytes");
}

static void a_person_has_few_open_uploads(void **state) {
    fixture *f = *state;
    kiln_upload *upload = NULL;
    for (unsigned i = 0; i < KILN_UPLOADS_OF_PERSON_MAX; i++)
        expect_ok(kiln_upload_create(f->uploads, "ann", 1, &upload));
    expect_error(kiln_upload_create(f->uploads, "ann", 1, &upload), RESOURCE_EXHAUSTED,
                 "8 uploads");
    expect_ok(kiln_upload_create(f->uploads, "bob", 1, &upload));
    kiln_upload_remove(f->uploads->uploads->next); /* one of ann's */
    expect_ok(kiln_upload_create(f->uploads, "ann", 1, &upload));
}

/* As after SIGKILL: whatever is in memory is lost. */
static void restart(fixture *f) {
    stop(f);
    start(f);
}

static kiln_str file_of(fixture *f, const kiln_upload *upload) {
    return kiln_str_printf(&f->arena, "%s/uploads/%s/%s.%llu", f->folder, upload->folder,
                           upload->id, (unsigned long long)upload->size);
}

static void flush(fixture *f, const kiln_upload *upload, const char *more) {
    kiln_spool_add(upload->spool, kiln_str_from(more));
    kiln_spool_flush(upload->spool, on_flushed, f);
    kiln_loop_run(f->loop);
}

static void models_and_whole_uploads_outlive_the_server(void **state) {
    fixture *f = *state;
    kiln_model_file *model = NULL;
    kiln_upload *upload = bring(f, "ann", "one", &model), *again = bring(f, "ann", "one", &model);
    const kiln_str id[] = {kiln_str_copy(&f->arena, kiln_str_from(upload->id)),
                           kiln_str_copy(&f->arena, kiln_str_from(again->id))};
    restart(f);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(id); i++) {
        upload = kiln_upload_find(f->uploads, "ann", id[i]);
        assert_true(upload && upload->is_whole && kiln_upload_offset(upload) == 3);
        assert_null(kiln_upload_find(f->uploads, "bob", id[i]));
        expect_ok(kiln_uploads_resolve(f->uploads, "ann", id[i], &model));
    }
    kiln_upload_remove(upload);
    restart(f);
    assert_null(kiln_upload_find(f->uploads, "ann", id[1]));
    assert_non_null(kiln_upload_find(f->uploads, "ann", id[0]));
    expect_ok(kiln_uploads_resolve(f->uploads, "ann", name_of(f), &model));
}

static void an_upload_goes_on_in_the_next_server(void **state) {
    fixture *f = *state;
    kiln_upload *upload = NULL;
    kiln_model_file *model = NULL;
    kiln_digest wanted;
    expect_ok(kiln_upload_create(f->uploads, "ann", 7, &upload));
    flush(f, upload, "one ");
    const kiln_str id = kiln_str_copy(&f->arena, kiln_str_from(upload->id));
    restart(f);
    restart(f);
    upload = kiln_upload_find(f->uploads, "ann", id);
    assert_true(upload && !upload->is_whole && upload->size == 7);
    assert_int_equal(kiln_upload_offset(upload), 4);
    flush(f, upload, "two");
    kiln_digest_of("one two", 7, &wanted);
    assert_true(kiln_digest_equal(&f->digest, &wanted));
    expect_ok(kiln_upload_finish(upload, "ann", &f->digest));
    expect_ok(kiln_uploads_resolve(f->uploads, "ann", id, &model));
}

/* All bytes are there, but the server was killed before it could say so. */
static void an_upload_without_its_end_misses_its_last_byte(void **state) {
    fixture *f = *state;
    kiln_upload *upload = NULL;
    kiln_digest wanted;
    expect_ok(kiln_upload_create(f->uploads, "ann", 7, &upload));
    flush(f, upload, "one two");
    const kiln_str id = kiln_str_copy(&f->arena, kiln_str_from(upload->id));
    restart(f);
    upload = kiln_upload_find(f->uploads, "ann", id);
    assert_true(upload && !upload->is_whole && kiln_upload_offset(upload) == 6);
    flush(f, upload, "o");
    kiln_digest_of("one two", 7, &wanted);
    assert_true(kiln_digest_equal(&f->digest, &wanted));
}

/* Killed between the note that it is whole and the move of its bytes. */
static void bytes_that_are_there_count_more_than_the_note(void **state) {
    fixture *f = *state;
    kiln_upload *upload = NULL;
    char digest[KILN_DIGEST_TEXT];
    expect_ok(kiln_upload_create(f->uploads, "ann", 7, &upload));
    flush(f, upload, "one two");
    kiln_digest_print(&f->digest, digest);
    const kiln_str id = kiln_str_copy(&f->arena, kiln_str_from(upload->id)),
                   path = file_of(f, upload);
    const char *note = kiln_arena_printf(&f->arena, "%s.%s", path.data, digest);
    expect_ok(kiln_file_write(note, (kiln_str){0}, 0600));
    restart(f);
    upload = kiln_upload_find(f->uploads, "ann", id);
    assert_true(upload && !upload->is_whole && kiln_upload_offset(upload) == 6);
    assert_false(kiln_file_exists(note));
}

static void what_is_no_upload_is_removed_at_the_start(void **state) {
    fixture *f = *state;
    kiln_upload *upload = NULL;
    kiln_spool *spool = NULL;
    expect_ok(kiln_upload_create(f->uploads, "ann", 7, &upload));
    const kiln_str path = file_of(f, upload);
    const char *odd[] = {
        kiln_arena_printf(&f->arena, "%s.x", path.data),
        kiln_arena_printf(&f->arena, "%s/uploads/%s/strange", f->folder, upload->folder),
        kiln_arena_printf(&f->arena, "%s/uploads/0", f->folder)};
    expect_ok(kiln_uploads_spool(f->uploads, &spool));
    kiln_spool_leave(spool);
    for (size_t i = 0; i < 2; i++) expect_ok(kiln_file_write(odd[i], KILN_STR("x"), 0600));
    restart(f);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(odd); i++) assert_false(kiln_file_exists(odd[i]));
    assert_true(kiln_file_exists(path.data));
}

static void whole_uploads_make_room_for_others(void **state) {
    fixture *f = *state;
    kiln_model_file *model = NULL;
    kiln_upload *upload = NULL;
    for (unsigned i = 0; i < 2 * KILN_UPLOADS_OF_PERSON_MAX; i++)
        bring(f, "ann", kiln_arena_printf(&f->arena, "model %u", i), &model);
    expect_ok(kiln_upload_create(f->uploads, "ann", 1, &upload));
}

static void stop_loop(void *context) { kiln_loop_stop(((fixture *)context)->loop); }

static void a_model_that_nobody_used_for_long_is_removed(void **state) {
    fixture *f = *state;
    kiln_model_file *old = NULL, *held = NULL;
    bring(f, "ann", "one", &old);
    bring(f, "ann", "two", &held);
    const char *path = kiln_str_dup(&f->arena, kiln_str_from(kiln_model_file_path(old)));
    kiln_model_file_hold(held);
    old->used_s = held->used_s = 1;
    kiln_timer *timer = kiln_timer_create(f->loop, stop_loop, f);
    kiln_timer_start(f->uploads->timer, 0);
    kiln_timer_start(timer, 1);
    kiln_loop_run(f->loop);
    kiln_timer_destroy(timer);
    assert_false(kiln_file_exists(path));
    assert_true(kiln_file_exists(kiln_model_file_path(held)));
    kiln_model_file_release(held);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_model_is_found_by_digest_and_upload),
        TEST(others_do_not_find_it),
        TEST(an_upload_in_parts_is_no_model_yet),
        TEST(a_person_has_few_open_uploads),
        TEST(models_and_whole_uploads_outlive_the_server),
        TEST(an_upload_goes_on_in_the_next_server),
        TEST(an_upload_without_its_end_misses_its_last_byte),
        TEST(bytes_that_are_there_count_more_than_the_note),
        TEST(what_is_no_upload_is_removed_at_the_start),
        TEST(whole_uploads_make_room_for_others),
        TEST(a_model_that_nobody_used_for_long_is_removed),
    };
    return cmocka_run_group_tests_name("web/uploads", tests, NULL, NULL);
}
