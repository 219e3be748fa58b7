#include "base/file.h"
#include "base/opt.h"
#include "proto/proto.h"
#include "tests/support/test.h"

static void the_reference_is_what_the_table_says(void **state) {
    static const char path[] = "docs/reference/messages.md";
    kiln_strbuf docs = {0};
    kiln_str stored = {0};
    kiln_messages_print_docs(&docs);
    if (kiln_env("KILN_GOLDEN_UPDATE"))
        expect_ok(kiln_file_write(path, kiln_strbuf_view(&docs), 0644));
    expect_ok(kiln_file_read(path, 1 << 20, *state, &stored));
    assert_true(kiln_str_equal(stored, kiln_strbuf_view(&docs)));
    kiln_strbuf_deinit(&docs);
}

int main(void) {
    const struct CMUnitTest tests[] = {test_with_arena(the_reference_is_what_the_table_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
