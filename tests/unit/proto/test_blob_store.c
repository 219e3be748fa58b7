#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "proto/net/blob_store.h"
#include "tests/support/test.h"

static kiln_blob_store *open_store(const char *folder, uint64_t bytes_max) {
    kiln_blob_store *store = NULL;
    expect_ok(kiln_blob_store_open(
        &(kiln_blob_store_options){.folder = folder, .bytes_max = bytes_max}, &store));
    return store;
}

static void what_is_put_is_got_under_its_digest(void **state) {
    char *folder = make_folder(*state);
    kiln_blob_store *store = open_store(folder, 0);
    kiln_digest digest, expected;
    kiln_str content = KILN_STR("content"), got = {0};
    kiln_digest_of(content.data, content.size, &expected);
    assert_false(kiln_blob_store_has(store, &expected));
    expect_error(kiln_blob_store_get(store, &expected, *state, &got), NOT_FOUND, "blob");
    expect_ok(kiln_blob_store_put(store, content, &digest));
    assert_true(kiln_digest_equal(&digest, &expected));
    expect_ok(kiln_blob_store_get(store, &digest, *state, &got));
    expect_str(got, "content");
    kiln_blob_store_close(store);
    store = open_store(folder, 0); /* and in the next run */
    assert_true(kiln_blob_store_has(store, &digest));
    kiln_blob_store_close(store);
    remove_folder(folder);
}

static void the_empty_blob_is_one_too(void **state) {
    char *folder = make_folder(*state);
    kiln_blob_store *store = open_store(folder, 0);
    kiln_digest digest;
    kiln_str got = KILN_STR("x");
    expect_ok(kiln_blob_store_put(store, (kiln_str){0}, &digest));
    expect_ok(kiln_blob_store_get(store, &digest, *state, &got));
    assert_int_equal(got.size, 0);
    kiln_blob_store_close(store);
    remove_folder(folder);
}

static void a_blob_that_the_disk_changed_is_found_out_and_removed(void **state) {
    char *folder = make_folder(*state);
    kiln_blob_store *store = open_store(folder, 0);
    kiln_digest digest;
    kiln_str got = {0};
    char *path = NULL;
    expect_ok(kiln_blob_store_put(store, KILN_STR("content"), &digest));
    expect_ok(kiln_blob_store_path(store, &digest, *state, &path));
    expect_ok(kiln_file_write(path, KILN_STR("c0ntent"), 0600));
    expect_error(kiln_blob_store_get(store, &digest, *state, &got), DATA_LOSS, "damaged");
    assert_false(kiln_blob_store_has(store, &digest));
    kiln_blob_store_close(store);
    remove_folder(folder);
}

static void above_its_limit_the_store_drops_what_was_not_used(void **state) {
    char *folder = make_folder(*state);
    kiln_blob_store *store = open_store(folder, 10000);
    static char content[2000];
    kiln_digest digest[6];
    kiln_str got = {0};
    for (int i = 0; i < 6; i++) {
        /* File systems stamp times coarsely: what is older says so. */
        content[0] = (char)i;
        expect_ok(kiln_blob_store_put(store, (kiln_str){content, sizeof content}, &digest[i]));
        if (i == 5) break;
        char *path = NULL;
        expect_ok(kiln_blob_store_path(store, &digest[i], *state, &path));
        struct timespec times[2] = {{.tv_sec = 1000 + (i == 0 ? 100 : i)},
                                    {.tv_sec = 1000 + (i == 0 ? 100 : i)}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    assert_true(kiln_blob_store_has(store, &digest[0])); /* used after the others */
    assert_false(kiln_blob_store_has(store, &digest[1]));
    assert_false(kiln_blob_store_has(store, &digest[2]));
    assert_true(kiln_blob_store_has(store, &digest[5]));
    expect_ok(kiln_blob_store_get(store, &digest[5], *state, &got));
    static char large[20000];
    expect_error(kiln_blob_store_put(store, (kiln_str){large, sizeof large}, &digest[0]),
                 RESOURCE_EXHAUSTED, "a blob of 20000 bytes: the store takes at most 10000");
    kiln_blob_store_close(store);
    remove_folder(folder);
}

static void pinned_blobs_stay(void **state) {
    char *folder = make_folder(*state);
    kiln_blob_store *store = open_store(folder, 10000);
    kiln_digest digest[3], other;
    static char content[3000];
    for (int i = 0; i < 3; i++) {
        content[0] = (char)i;
        expect_ok(kiln_blob_store_put(store, (kiln_str){content, sizeof content}, &digest[i]));
    }
    kiln_blob_store_pin(store, KILN_STR("job"), digest, 2);
    kiln_blob_store_pin(store, KILN_STR("twin"), &digest[1], 1);
    content[0] = 3;
    expect_ok(kiln_blob_store_put(store, (kiln_str){content, sizeof content}, &other));
    assert_true(kiln_blob_store_has(store, &digest[0]) && kiln_blob_store_has(store, &digest[1]));
    assert_false(kiln_blob_store_has(store, &digest[2]));   /* the oldest that nobody holds */
    kiln_blob_store_pin(store, KILN_STR("job"), &other, 1); /* and no longer the others */
    content[0] = 4;
    expect_ok(kiln_blob_store_put(store, (kiln_str){content, sizeof content}, &digest[2]));
    assert_false(kiln_blob_store_has(store, &digest[0]));
    assert_true(kiln_blob_store_has(store, &digest[1]) && kiln_blob_store_has(store, &other));
    kiln_blob_store_pin(store, KILN_STR("twin"), NULL, 0);
    kiln_blob_store_pin(store, KILN_STR("nobody"), NULL, 0);
    content[0] = 5;
    expect_ok(kiln_blob_store_put(store, (kiln_str){content, sizeof content}, &digest[0]));
    assert_false(kiln_blob_store_has(store, &digest[1]));
    kiln_blob_store_close(store);
    remove_folder(folder);
}

static void halves_are_kept_for_a_day(void **state) {
    char *folder = make_folder(*state);
    char *fresh = kiln_arena_printf(*state, "%s/half-1", folder);
    char *stale = kiln_arena_printf(*state, "%s/half-2", folder);
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    expect_ok(kiln_file_write(fresh, KILN_STR("half"), 0600));
    expect_ok(kiln_file_write(stale, KILN_STR("half"), 0600));
    assert_int_equal(utimensat(AT_FDCWD, stale, long_ago, 0), 0);
    kiln_blob_store_close(open_store(folder, 0));
    assert_true(kiln_file_exists(fresh));
    assert_false(kiln_file_exists(stale));
    remove_folder(folder);
}

static void two_transfers_may_bring_one_blob(void **state) {
    char *folder = make_folder(*state);
    kiln_blob_store *store = open_store(folder, 0);
    kiln_str content = KILN_STR("content"), got = {0};
    kiln_digest digest;
    kiln_digest_of(content.data, content.size, &digest);
    kiln_blob_writer *first = NULL, *second = NULL;
    expect_ok(kiln_blob_writer_open(store, &digest, 7, 0, &first));
    expect_ok(kiln_blob_writer_open(store, &digest, 7, 0, &second));
    expect_ok(kiln_blob_writer_add(first, KILN_STR("cont")));
    expect_ok(kiln_blob_writer_add(second, content));
    assert_int_equal(kiln_blob_store_half(store, &digest), 0); /* somebody is at it */
    expect_ok(kiln_blob_writer_finish(second));
    assert_true(kiln_blob_store_has(store, &digest));
    expect_ok(kiln_blob_writer_add(first, KILN_STR("ent")));
    expect_ok(kiln_blob_writer_finish(first));
    expect_ok(kiln_blob_store_get(store, &digest, *state, &got));
    expect_str(got, "content");
    kiln_blob_store_close(store);
    remove_folder(folder);
}

static void a_transfer_goes_on_only_where_the_last_one_ended(void **state) {
    char *folder = make_folder(*state);
    kiln_blob_store *store = open_store(folder, 0);
    kiln_str content = KILN_STR("content");
    kiln_digest digest;
    kiln_digest_of(content.data, content.size, &digest);
    kiln_blob_writer *writer = NULL, *second = NULL;
    expect_ok(kiln_blob_writer_open(store, &digest, 7, 0, &writer));
    expect_ok(kiln_blob_writer_add(writer, KILN_STR("cont")));
    kiln_blob_writer_abandon(writer, true);
    assert_int_equal(kiln_blob_store_half(store, &digest), 4);
    expect_error(kiln_blob_writer_open(store, &digest, 7, 3, &writer), ABORTED, "byte 3");
    expect_error(kiln_blob_writer_open(store, &digest, 7, 8, &writer), DATA_LOSS, "behind its end");
    expect_ok(kiln_blob_writer_open(store, &digest, 7, 4, &writer));
    expect_error(kiln_blob_writer_open(store, &digest, 7, 4, &second), ABORTED, "ask again");
    expect_error(kiln_blob_writer_add(writer, KILN_STR("entx")), DATA_LOSS, "announced 7");
    expect_ok(kiln_blob_writer_add(writer, KILN_STR("ent")));
    expect_ok(kiln_blob_writer_finish(writer));
    assert_true(kiln_blob_store_has(store, &digest));
    kiln_blob_store_close(store);
    remove_folder(folder);
}

/* The n-th operation on a file fails, for every n: it is an error, never a blob that lies, and the
 * next try does it. */
static void whichever_operation_fails_no_blob_lies(void **state) {
    static char content[200000];
    uint32_t failed = 0;
    bool whole = false;
    memset(content, 'x', sizeof content);
    for (uint64_t nth = 1; !whole; nth++) {
        char *folder = make_folder(*state);
        kiln_digest digest, again;
        kiln_str got = {0};
        kiln_blob_store *store = NULL;
        expect_ok(kiln_blob_store_open(
            &(kiln_blob_store_options){.folder = folder, .durable = true, .bytes_max = 1 << 20},
            &store));
        kiln_digest_of(content, sizeof content, &digest);
        kiln_fail_io_nth(nth);
        kiln_status st = kiln_blob_store_put(store, (kiln_str){content, sizeof content}, &again);
        kiln_fail_io_nth(0);
        whole = st == NULL;
        failed += !whole;
        assert_int_equal(kiln_blob_store_has(store, &digest), whole);
        assert_true(whole || kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED);
        kiln_status_free(st);
        expect_ok(kiln_blob_store_put(store, (kiln_str){content, sizeof content}, &again));
        expect_ok(kiln_blob_store_get(store, &digest, *state, &got));
        assert_int_equal(got.size, sizeof content);
        kiln_blob_store_close(store);
        remove_folder(folder);
    }
    assert_true(failed >= 4); /* open, truncate, write, sync, rename */
}

/* Puts one blob, then another while the `nth` operation fails for want of space. Whether the first
 * had to go. */
static bool had_to_go(kiln_arena *arena, uint64_t nth, bool durable) {
    static char first[3000], second[2000];
    char *folder = make_folder(arena);
    const kiln_blob_store_options options = {
        .folder = folder, .bytes_max = 1 << 20, .durable = durable};
    kiln_blob_store *store = NULL;
    kiln_digest digest, other;
    second[0] = 1;
    expect_ok(kiln_blob_store_open(&options, &store));
    expect_ok(kiln_blob_store_put(store, (kiln_str){first, sizeof first}, &digest));
    kiln_fail_io_nth(nth);
    kiln_status st = kiln_blob_store_put(store, (kiln_str){second, sizeof second}, &other);
    kiln_fail_io_nth(0);
    const bool gone = !kiln_blob_store_has(store, &digest);
    if (gone) assert_true(!st && kiln_blob_store_has(store, &other));
    kiln_status_free(st); /* without space, and nothing lost */
    kiln_blob_store_close(store);
    remove_folder(folder);
    return gone;
}

static void a_full_disk_is_no_end_of_a_cache(void **state) {
    uint32_t cache = 0, durable = 0;
    for (uint64_t nth = 1; nth <= 8; nth++) {
        cache += had_to_go(*state, nth, false);
        durable += had_to_go(*state, nth, true);
    }
    assert_int_equal(cache, 1); /* for the write */
    assert_int_equal(durable, 0);
}

typedef struct bringing {
    kiln_blob_store *store;
    kiln_str content;
    kiln_status st;
} bringing;

static void *bring(void *context) {
    bringing *b = context;
    const kiln_str half[] = {kiln_str_slice(b->content, 0, b->content.size / 2),
                             kiln_str_slice(b->content, b->content.size / 2, b->content.size)};
    kiln_blob_writer *writer = NULL;
    kiln_digest digest;
    kiln_digest_of(b->content.data, b->content.size, &digest);
    b->st = kiln_blob_writer_open(b->store, &digest, b->content.size, 0, &writer);
    for (int i = 0; i < 2 && !b->st; i++) b->st = kiln_blob_writer_add(writer, half[i]);
    if (!b->st) b->st = kiln_blob_writer_finish(writer);
    return NULL;
}

static void what_two_threads_write_is_not_counted_twice(void **state) {
    enum { BYTES = 1940000, ROUNDS = 40 };
    char *content = kiln_arena_alloc(*state, 2 * BYTES);
    memset(content, 1, BYTES);
    memset(content + BYTES, 2, BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        char *folder = make_folder(*state);
        kiln_digest old;
        kiln_blob_store *store = open_store(folder, 4000000); /* both fit, without the old one */
        expect_ok(kiln_blob_store_put(store, (kiln_str){content, BYTES / 2}, &old));
        bringing one = {store, {content, BYTES}, NULL},
                 other = {store, {content + BYTES, BYTES}, NULL};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, bring, &other), 0);
        bring(&one);
        pthread_join(thread, NULL);
        expect_ok(one.st);
        expect_ok(other.st);
        assert_false(kiln_blob_store_has(store, &old));
        kiln_blob_store_close(store);
        remove_folder(folder);
    }
}

static void what_is_no_blob_in_the_folder_is_left_alone(void **state) {
    char *folder = make_folder(*state);
    kiln_digest digest, missing = {{1}};
    char *path = NULL, *foreign = kiln_arena_printf(*state, "%s/README", folder);
    expect_ok(kiln_file_write(foreign, KILN_STR("mine"), 0600));
    kiln_blob_store *store = open_store(folder, 10000);
    static char content[6000];
    for (int i = 0; i < 4; i++) {
        content[0] = (char)i;
        expect_ok(kiln_blob_store_put(store, (kiln_str){content, sizeof content}, &digest));
        expect_ok(kiln_blob_store_put(store, (kiln_str){content, sizeof content}, &digest));
    }
    assert_true(kiln_file_exists(foreign));
    expect_error(kiln_blob_store_path(store, &missing, *state, &path), NOT_FOUND, "blob");
    kiln_blob_store_close(store);
    kiln_blob_store_close(NULL);
    remove_folder(folder);
}

static void a_folder_that_cannot_be_made_is_named(void **state) {
    char *folder = make_folder(*state);
    char *file = kiln_arena_printf(*state, "%s/file", folder);
    kiln_blob_store *store = NULL;
    expect_ok(kiln_file_write(file, KILN_STR("x"), 0600));
    kiln_status st = kiln_blob_store_open(
        &(kiln_blob_store_options){.folder = kiln_arena_printf(*state, "%s/blobs", file)}, &store);
    assert_non_null(st);
    expect_contains(kiln_status_text(st), file);
    kiln_status_free(st);
    remove_folder(folder);
}

static kiln_blob_store *open_beside(const char *folder, kiln_depot *depot, uint64_t bytes_max) {
    kiln_blob_store *store = NULL;
    expect_ok(kiln_blob_store_open(
        &(kiln_blob_store_options){
            .folder = folder, .bytes_max = bytes_max, .durable = true, .depot = depot},
        &store));
    return store;
}

static kiln_depot *open_depot(const char *folder, kiln_arena *arena) {
    kiln_depot *depot = NULL;
    expect_ok(kiln_depot_open(kiln_str_printf(arena, "folder:%s/depot", folder), &depot));
    return depot;
}

static void what_one_store_got_another_has_by_their_depot(void **state) {
    char *folder = make_folder(*state);
    kiln_depot *depot = open_depot(folder, *state);
    kiln_blob_store *one = open_beside(kiln_arena_printf(*state, "%s/one", folder), depot, 0);
    kiln_blob_store *two = open_beside(kiln_arena_printf(*state, "%s/two", folder), depot, 0);
    kiln_blob_store *small = open_beside(kiln_arena_printf(*state, "%s/small", folder), depot, 4);
    kiln_digest digest, unknown;
    kiln_str got = {0};
    int fd = -1;
    uint64_t size = 0;
    kiln_digest_of("x", 1, &unknown);
    expect_ok(kiln_blob_store_put(one, KILN_STR("content"), &digest));
    assert_false(kiln_blob_store_has(two, &digest));
    expect_ok(kiln_blob_store_reader(two, &digest, &fd, &size));
    assert_int_equal(size, 7);
    close(fd);
    assert_true(kiln_blob_store_has(two, &digest));
    expect_ok(kiln_blob_store_get(two, &digest, *state, &got));
    expect_str(got, "content");
    expect_error(kiln_blob_store_get(two, &unknown, *state, &got), NOT_FOUND, "");
    expect_error(kiln_blob_store_get(small, &digest, *state, &got), OUT_OF_RANGE, "4 bytes");
    kiln_blob_store_close(one);
    kiln_blob_store_close(two);
    kiln_blob_store_close(small);
    kiln_depot_close(depot);
    remove_folder(folder);
}

static void a_blob_that_its_depot_does_not_take_is_not_here_either(void **state) {
    char *folder = make_folder(*state);
    kiln_depot *depot = open_depot(folder, *state);
    kiln_blob_store *store = open_beside(kiln_arena_printf(*state, "%s/one", folder), depot, 0);
    kiln_digest digest;
    kiln_str content = KILN_STR("content");
    kiln_digest_of(content.data, content.size, &digest);
    expect_ok(kiln_file_write(kiln_arena_printf(*state, "%s/depot", folder), content, 0600));
    kiln_status st = kiln_blob_store_put(store, content, &digest);
    assert_true(st != NULL);
    kiln_status_free(st);
    assert_false(kiln_blob_store_has(store, &digest));
    kiln_blob_store_close(store);
    kiln_depot_close(depot);
    remove_folder(folder);
}

/* At second 1000 and so many after, by the file's own time. */
static kiln_digest put_at(kiln_blob_store *store, const char *content, int64_t after,
                          kiln_arena *arena) {
    kiln_digest digest;
    char *path = NULL;
    const struct timespec at[2] = {{.tv_sec = 1000 + after}, {.tv_sec = 1000 + after}};
    expect_ok(kiln_blob_store_put(store, kiln_str_from(content), &digest));
    expect_ok(kiln_blob_store_path(store, &digest, arena, &path));
    assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
    return digest;
}

static void what_was_not_used_for_long_goes(void **state) {
    char *folder = make_folder(*state);
    kiln_blob_store *store = open_store(folder, 0);
    const kiln_digest old = put_at(store, "old", 1, *state),
                      young = put_at(store, "young", 9, *state),
                      pinned = put_at(store, "pinned", 2, *state),
                      named = put_at(store, "named", 3, *state);
    kiln_digest gone[3], lost = {{7}};
    kiln_blob_store_pin(store, KILN_STR("job"), &pinned, 1);
    const kiln_blob_use use[] = {{named, 1008}, {old, 1003}, {named, 1}, {lost, 1}};
    expect_ok(kiln_blob_store_collect(store, 1005, use, 4));
    assert_false(kiln_blob_store_has(store, &old));
    assert_true(kiln_blob_store_has(store, &young) && kiln_blob_store_has(store, &pinned) &&
                kiln_blob_store_has(store, &named));
    assert_int_equal(kiln_blob_store_gone(store, gone, 3),
                     3); /* `old` twice, which does not matter */
    assert_int_equal(kiln_blob_store_gone(store, gone, 3), 0);
    expect_ok(kiln_blob_store_collect(store, 1010, NULL, 0)); /* to ask for one is a use */
    assert_true(kiln_blob_store_has(store, &young) && kiln_blob_store_has(store, &named));
    expect_ok(kiln_blob_store_remove(store, &pinned));
    assert_true(kiln_blob_store_has(store, &pinned));
    expect_ok(kiln_blob_store_remove(store, &young));
    expect_ok(kiln_blob_store_remove(store, &young));
    assert_false(kiln_blob_store_has(store, &young));
    kiln_blob_store_close(store);
    remove_folder(folder);
}

static void what_gave_place_is_told_once(void **state) {
    char *folder = make_folder(*state);
    kiln_blob_store *store = open_store(folder, 10);
    kiln_digest gone[2];
    const kiln_digest first = put_at(store, "12345678", 0, *state);
    (void)put_at(store, "87654321", 1, *state);
    assert_int_equal(kiln_blob_store_gone(store, gone, 2), 1);
    assert_true(kiln_digest_equal(&gone[0], &first));
    assert_int_equal(kiln_blob_store_gone(store, gone, 2), 0);
    kiln_blob_store_close(store);
    remove_folder(folder);
}

static void the_depot_ages_too(void **state) {
    char *folder = make_folder(*state);
    kiln_depot *depot = open_depot(folder, *state);
    kiln_blob_store *one = open_beside(kiln_arena_printf(*state, "%s/one", folder), depot, 0);
    kiln_blob_store *two = open_beside(kiln_arena_printf(*state, "%s/two", folder), depot, 0);
    kiln_digest digest[4], gone[4];
    static const char *const content[] = {"old", "used here", "pinned", "named"};
    for (int i = 0; i < 4; i++) digest[i] = put_at(one, content[i], 0, *state);
    kiln_blob_store_pin(one, KILN_STR("job"), &digest[2], 1);
    assert_true(kiln_blob_store_has(one, &digest[1]));                             /* now */
    const int64_t before_s = (int64_t)(kiln_clock_wall_ns() / KILN_NS_PER_S) + 60; /* of no depot */
    const kiln_blob_use use[] = {{digest[3], before_s}, {digest[1], before_s + 1}};
    expect_ok(kiln_blob_store_collect(one, before_s, use, 2));
    kiln_str got = {0};
    expect_error(kiln_blob_store_get(two, &digest[0], *state, &got), NOT_FOUND, "");
    for (int i = 1; i < 4; i++) expect_ok(kiln_blob_store_get(two, &digest[i], *state, &got));
    assert_int_equal(kiln_blob_store_gone(one, gone, 4), 1);
    assert_true(kiln_digest_equal(&gone[0], &digest[0]));
    expect_ok(kiln_blob_store_remove(one, &digest[1]));
    kiln_blob_store_close(two);
    two = open_beside(kiln_arena_printf(*state, "%s/three", folder), depot, 0);
    expect_error(kiln_blob_store_get(two, &digest[1], *state, &got), NOT_FOUND, "");
    kiln_blob_store_close(one);
    kiln_blob_store_close(two);
    kiln_depot_close(depot);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(whichever_operation_fails_no_blob_lies),
        test_with_arena(a_full_disk_is_no_end_of_a_cache),
        test_with_arena(what_two_threads_write_is_not_counted_twice),
        test_with_arena(what_is_no_blob_in_the_folder_is_left_alone),
        test_with_arena(what_was_not_used_for_long_goes),
        test_with_arena(what_gave_place_is_told_once),
        test_with_arena(the_depot_ages_too),
        test_with_arena(what_is_put_is_got_under_its_digest),
        test_with_arena(the_empty_blob_is_one_too),
        test_with_arena(a_blob_that_the_disk_changed_is_found_out_and_removed),
        test_with_arena(above_its_limit_the_store_drops_what_was_not_used),
        test_with_arena(pinned_blobs_stay),
        test_with_arena(halves_are_kept_for_a_day),
        test_with_arena(two_transfers_may_bring_one_blob),
        test_with_arena(a_transfer_goes_on_only_where_the_last_one_ended),
        test_with_arena(a_folder_that_cannot_be_made_is_named),
        test_with_arena(what_one_store_got_another_has_by_their_depot),
        test_with_arena(a_blob_that_its_depot_does_not_take_is_not_here_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
