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
    expect_ok(kiln_uploads_keep(f->uploads, person, upload->spool, &f->digest, out_model));
    upload->is_whole = true;
    upload->digest = f->digest;
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

static void models_outlive_the_server_and_uploads_do_not(void **state) {
    fixture *f = *state;
    kiln_model_file *model = NULL;
    char id[KILN_HASH128_TEXT];
    const kiln_upload *upload = bring(f, "ann", "one", &model);
    memcpy(id, upload->id, sizeof id);
    stop(f);
    start(f);
    assert_null(kiln_upload_find(f->uploads, "ann", kiln_str_from(id)));
    expect_ok(kiln_uploads_resolve(f->uploads, "ann", name_of(f), &model));
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
        TEST(models_outlive_the_server_and_uploads_do_not),
        TEST(a_model_that_nobody_used_for_long_is_removed),
    };
    return cmocka_run_group_tests_name("web/uploads", tests, NULL, NULL);
}
