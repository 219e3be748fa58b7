/* Files that grow by what is sent. */
#include "web/spool.h"

#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"

typedef struct flushed {
    kiln_loop *loop;
    kiln_digest digest;
    kiln_code code;
    uint32_t count, more;
} flushed;

static void on_flushed(void *context, const kiln_digest *digest, kiln_status st) {
    flushed *f = context;
    f->count++;
    f->digest = *digest;
    f->code = kiln_status_code(st);
    kiln_status_free(st);
    kiln_loop_stop(f->loop);
}

static void on_more(void *context) {
    ((flushed *)context)->more++;
    kiln_loop_stop(((flushed *)context)->loop);
}

static void what_was_added_is_written_and_hashed(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_spool *spool = NULL;
    kiln_str content = {0};
    kiln_digest wanted;
    flushed f = {0};
    kiln_arena_init(&arena, 0);
    char *folder = make_folder(&arena);
    const char *path = kiln_arena_printf(&arena, "%s/a", folder);
    const char *kept = kiln_arena_printf(&arena, "%s/b", folder);
    expect_ok(kiln_loop_create(&f.loop));
    expect_ok(kiln_spool_create(f.loop, path, &spool));
    assert_true(kiln_spool_add(spool, KILN_STR("one ")));
    kiln_spool_flush(spool, on_flushed, &f);
    assert_int_equal(f.count, 0); /* never from inside */
    kiln_loop_run(f.loop);
    assert_true(kiln_spool_add(spool, KILN_STR("two")));
    kiln_spool_flush(spool, on_flushed, &f);
    kiln_loop_run(f.loop);
    kiln_digest_of("one two", 7, &wanted);
    assert_true(f.count == 2 && f.code == KILN_OK && kiln_digest_equal(&f.digest, &wanted));
    assert_int_equal(kiln_spool_size(spool), 7);
    expect_ok(kiln_spool_keep(spool, kept));
    kiln_spool_destroy(spool);
    expect_ok(kiln_file_read(kept, 100, &arena, &content));
    expect_str(content, "one two");
    kiln_loop_destroy(f.loop);
    kiln_arena_deinit(&arena);
}

static void a_full_one_says_when_there_is_room(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_spool *spool = NULL;
    flushed f = {0};
    kiln_arena_init(&arena, 0);
    const char *path = kiln_arena_printf(&arena, "%s/a", make_folder(&arena));
    char *block = kiln_arena_alloc(&arena, KILN_SPOOL_BYTES);
    memset(block, 'x', KILN_SPOOL_BYTES);
    expect_ok(kiln_loop_create(&f.loop));
    expect_ok(kiln_spool_create(f.loop, path, &spool));
    kiln_spool_on_more(spool, on_more, &f);
    assert_false(kiln_spool_add(spool, (kiln_str){block, KILN_SPOOL_BYTES}));
    assert_true(kiln_spool_is_full(spool));
    kiln_loop_run(f.loop);
    assert_int_equal(f.more, 1);
    kiln_spool_destroy(spool); /* while it may be writing: the file goes, too */
    kiln_loop_destroy(f.loop);
    assert_false(kiln_file_exists(path));
    kiln_arena_deinit(&arena);
}

static void an_existing_file_is_left_alone(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_loop *loop = NULL;
    kiln_spool *spool = NULL;
    kiln_arena_init(&arena, 0);
    const char *path = kiln_arena_printf(&arena, "%s/a", make_folder(&arena));
    expect_ok(kiln_file_write(path, KILN_STR("old"), 0600));
    expect_ok(kiln_loop_create(&loop));
    expect_error(kiln_spool_create(loop, path, &spool), RESOURCE_EXHAUSTED, "upload");
    kiln_loop_destroy(loop);
    kiln_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_written_and_hashed),
        cmocka_unit_test(a_full_one_says_when_there_is_room),
        cmocka_unit_test(an_existing_file_is_left_alone),
    };
    return cmocka_run_group_tests_name("web/spool", tests, NULL, NULL);
}
