/* What every depot promises, over a folder, and over the depot that KILN_TEST_DEPOT names
 * (tests/e2e/test_s3.py). */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "proto/depot.h"
#include "tests/support/test.h"

typedef struct place {
    kiln_arena arena;
    char *folder;
    kiln_depot *depot;
} place;

static char *path_in(place *p, const char *name) {
    return kiln_arena_printf(&p->arena, "%s/%s", p->folder, name);
}

static int set_up(void **state) {
    place *p = calloc(1, sizeof *p);
    kiln_arena_init(&p->arena, 0);
    p->folder = make_folder(&p->arena);
    const char *named = getenv("KILN_TEST_DEPOT");
    if (!named) named = kiln_arena_printf(&p->arena, "folder:%s/depot", p->folder);
    expect_ok(kiln_depot_open(kiln_str_from(named), &p->depot));
    *state = p;
    return 0;
}

static int tear_down(void **state) {
    place *p = *state;
    kiln_depot_close(p->depot);
    remove_folder(p->folder);
    kiln_arena_deinit(&p->arena);
    free(p);
    return 0;
}

/* A file with that content, and its digest. */
static char *make_file(place *p, const char *name, kiln_str content, kiln_digest *out_digest) {
    char *path = path_in(p, name);
    expect_ok(kiln_file_write(path, content, 0600));
    kiln_digest_of(content.data, content.size, out_digest);
    return path;
}

static void assert_content(place *p, const char *path, kiln_str expected) {
    kiln_str content;
    expect_ok(kiln_file_read(path, (size_t)64 << 20, &p->arena, &content));
    assert_int_equal(content.size, expected.size);
    assert_memory_equal(content.data, expected.data, expected.size);
}

/* Larger than a piece of a copy or of a transfer. */
static kiln_str large(place *p) {
    const size_t size = ((size_t)3 << 20) + 17;
    char *data = kiln_arena_alloc(&p->arena, size);
    for (size_t i = 0; i < size; i++) data[i] = (char)(i * 2654435761u >> 13);
    return (kiln_str){data, size};
}

static void a_blob_comes_back(void **state) {
    place *p = *state;
    const kiln_str contents[] = {KILN_STR("kernel"), KILN_STR(""), large(p)};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(contents); i++) {
        kiln_digest digest;
        char *from = make_file(p, "from", contents[i], &digest);
        char *to = path_in(p, kiln_arena_printf(&p->arena, "to-%zu", i));
        expect_error(p->depot->row->get(p->depot, &digest, UINT64_MAX, to), NOT_FOUND, "");
        assert_false(kiln_file_exists(to));
        expect_ok(p->depot->row->put(p->depot, &digest, from));
        expect_ok(p->depot->row->put(p->depot, &digest, from)); /* twice is once */
        expect_ok(p->depot->row->get(p->depot, &digest, UINT64_MAX, to));
        assert_content(p, to, contents[i]);
        struct stat info;
        assert_int_equal(stat(to, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
        expect_ok(p->depot->row->remove(p->depot, &digest));
        expect_ok(p->depot->row->remove(p->depot, &digest)); /* absent is fine */
        expect_error(p->depot->row->get(p->depot, &digest, UINT64_MAX, path_in(p, "gone")),
                     NOT_FOUND, "");
    }
}

static void what_is_too_large_or_not_what_its_name_says_is_no_file(void **state) {
    place *p = *state;
    kiln_digest digest, other;
    char *from = make_file(p, "from", KILN_STR("kernel"), &digest), *to = path_in(p, "to");
    expect_ok(p->depot->row->put(p->depot, &digest, from));
    expect_error(p->depot->row->get(p->depot, &digest, 5, to), OUT_OF_RANGE, "");
    assert_false(kiln_file_exists(to));
    expect_ok(p->depot->row->get(p->depot, &digest, 6, to));
    expect_error(p->depot->row->get(p->depot, &digest, 6, to), ALREADY_EXISTS, "");
    assert_content(p, to, KILN_STR("kernel"));
    /* An upload under another name: the depot notices, or who gets it does. */
    kiln_digest_of("other", 5, &other);
    kiln_status st = p->depot->row->put(p->depot, &other, from);
    if (!st) st = p->depot->row->get(p->depot, &other, 6, path_in(p, "other"));
    assert_true(st != NULL);
    kiln_status_free(st);
    assert_false(kiln_file_exists(path_in(p, "other")));
    expect_ok(p->depot->row->remove(p->depot, &other));
    expect_ok(p->depot->row->remove(p->depot, &digest));
}

typedef struct seen {
    uint32_t count;
    uint64_t bytes;
    kiln_digest last;
    bool stop;
} seen;

static kiln_status see(void *context, const kiln_depot_blob *blob) {
    seen *s = context;
    assert_true(blob->stored_s > 1600000000);
    s->count++;
    s->bytes += blob->size;
    s->last = blob->digest;
    return s->stop ? KILN_ERROR(CANCELLED, "enough") : KILN_OK;
}

static void all_are_listed(void **state) {
    place *p = *state;
    kiln_digest digest[5];
    seen s = {0};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(digest); i++) {
        kiln_str content = kiln_str_printf(&p->arena, "content %u", i);
        expect_ok(
            p->depot->row->put(p->depot, &digest[i], make_file(p, "from", content, &digest[i])));
    }
    expect_ok(p->depot->row->each(p->depot, see, &s));
    assert_int_equal(s.count, 5);
    assert_int_equal(s.bytes, 5 * strlen("content 0"));
    s = (seen){.stop = true};
    expect_error(p->depot->row->each(p->depot, see, &s), CANCELLED, "");
    assert_int_equal(s.count, 1);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(digest); i++)
        expect_ok(p->depot->row->remove(p->depot, &digest[i]));
    s = (seen){0};
    expect_ok(p->depot->row->each(p->depot, see, &s));
    assert_int_equal(s.count, 0);
}

static void names_are_checked(void **state) {
    (void)state;
    kiln_depot *depot = NULL;
    const char *const wrong[] = {"ftp:x", "", "folder:"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++)
        expect_error(kiln_depot_open(kiln_str_from(wrong[i]), &depot), INVALID_ARGUMENT, "");
    assert_true(kiln_depot_is_named(KILN_STR("folder:/srv")));
    assert_false(kiln_depot_is_named(KILN_STR("/srv/folder:")));
#ifdef KILN_WITH_CURL
    const char *const wrong_s3[] = {"s3:bucket",           "s3:ftp://host/bucket",
                                    "s3:https://host",     "s3:https:///bucket",
                                    "s3:https://host/a?b", "s3:https://host/b/c d"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong_s3); i++)
        expect_error(kiln_depot_open(kiln_str_from(wrong_s3[i]), &depot), INVALID_ARGUMENT, "");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_blob_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_too_large_or_not_what_its_name_says_is_no_file,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_are_listed, set_up, tear_down),
        cmocka_unit_test(names_are_checked),
    };
    return cmocka_run_group_tests_name("proto/depot", tests, NULL, NULL);
}
