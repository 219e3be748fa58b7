#include "tracker/site_metrics.h"

#include <string.h>

#include "base/file.h"
#include "proto/loop.h"
#include "tests/support/test.h"

static void the_disk_is_measured_and_without_keys_there_are_none(void **state) {
    (void)state;
    kiln_strbuf out = {0};
    kiln_tracker_print_site_metrics("/", NULL, &out);
    expect_contains(out.data, "\nkiln_disk_free_bytes ");
    expect_contains(out.data, "\nkiln_disk_size_bytes ");
    expect_contains(out.data, "\nkiln_keys 0\n");
    assert_null(strstr(out.data, "kiln_key_expires_timestamp_seconds{"));
    kiln_strbuf_reset(&out);
    kiln_tracker_print_site_metrics("/there/is/no/such/folder", NULL, &out);
    assert_null(strstr(out.data, "kiln_disk"));
    kiln_strbuf_deinit(&out);
}

static void keys_with_an_end_say_when_it_is(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/keys", folder);
    const kiln_str text =
        KILN_STR("kiln-keys 2\n"
                 "board/rpi/1 1111111111111111111111111111111111111111111111111111111111111111"
                 " expires=2099-12-31\n"
                 "client/ann/1 2222222222222222222222222222222222222222222222222222222222222222\n");
    kiln_loop *loop = NULL;
    kiln_keyring *ring = NULL;
    kiln_strbuf out = {0};
    expect_ok(kiln_file_write(path, text, 0600));
    expect_ok(kiln_loop_create(&loop));
    if (kiln_tls_supported()) {
        expect_ok(kiln_keyring_open(loop, path, NULL, NULL, &ring));
        kiln_tracker_print_site_metrics("/", ring, &out);
        expect_contains(out.data, "\nkiln_keys 2\n");
        expect_contains(out.data, "\nkiln_key_expires_timestamp_seconds{key=\"board/rpi/1\"} "
                                  "4102444800\n"); /* the day after: 2100-01-01 */
        assert_null(strstr(out.data, "client/ann"));
        assert_null(strstr(out.data, "1111"));
        kiln_keyring_close(ring);
    }
    kiln_loop_destroy(loop);
    kiln_strbuf_deinit(&out);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(the_disk_is_measured_and_without_keys_there_are_none),
        test_with_arena(keys_with_an_end_say_when_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
