/* What `kiln db` lists; tests/e2e/test_newcomer.py looks at whole tables. */
#include "cli/db_list.h"
#include "tests/support/test.h"

static void cells_of_csv_are_quoted_where_they_must_be(void **state) {
    (void)state;
    static const struct {
        const char *text, *cell;
    } row[] = {{"", ""},
               {"plain text", "plain text"},
               {"a,b", "\"a,b\""},
               {"say \"no\"", "\"say \"\"no\"\"\""},
               {"two\nlines", "\"two\nlines\""},
               {"\r", "\"\r\""}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_strbuf out = {0};
        kiln_strbuf_text(&out, "");
        kiln_csv_append(kiln_str_from(row[i].text), &out);
        assert_string_equal(out.data, row[i].cell);
        kiln_strbuf_deinit(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_of_csv_are_quoted_where_they_must_be),
    };
    return cmocka_run_group_tests_name("cli/db_list", tests, NULL, NULL);
}
