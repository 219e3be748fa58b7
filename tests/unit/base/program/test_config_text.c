#include "base/program/config_text.h"

#include "tests/support/test.h"

/* Writes down what is found, as "section/name=value@line ". "stop" is refused. */
static kiln_status take(void *context, const char *section, const char *name, const char *value,
                        uint32_t line) {
    kiln_strbuf_printf(context, "%s/%s=%s@%u ", section, name, value, line);
    return kiln_str_is(kiln_str_from(value), "stop") ? KILN_ERROR(NOT_FOUND, "stopped") : KILN_OK;
}

static kiln_status parse(const char *text, kiln_strbuf *out) {
    kiln_strbuf_reset(out);
    kiln_strbuf_text(out, "");
    return kiln_config_text_parse("file", kiln_str_from(text), take, out);
}

static void values_come_with_their_section_and_line(void **state) {
    kiln_strbuf found = {0};
    (void)state;
    expect_ok(parse("# a comment\n; another\nfirst=1\n\n[kiln tune]\n trials = 64 ; why\n"
                    "list = a\n    b\nempty =\n[x]\nlast = a = b",
                    &found));
    expect_str(kiln_strbuf_view(&found), "/first=1@3 kiln tune/trials=64@6 kiln tune/list=a@7 "
                                         "kiln tune/list=b@8 kiln tune/empty=@9 x/last=a = b@11 ");
    expect_ok(parse("", &found));
    expect_str(kiln_strbuf_view(&found), "");
    kiln_strbuf_deinit(&found);
}

static void errors_name_the_first_wrong_line(void **state) {
    kiln_strbuf found = {0}, text = {0};
    (void)state;
    expect_error(parse("[a]\nb=1\nnonsense\nc=2\n", &found), INVALID_ARGUMENT,
                 "file:3: this is neither [section] nor option = value");
    expect_error(parse("[a]\nb=1\nc=stop\nd=3\n", &found), NOT_FOUND, "file:3: stopped");
    expect_str(kiln_strbuf_view(&found), "a/b=1@2 a/c=stop@3 ");
    expect_error(parse("[a]\n[b\nc=stop\n", &found), INVALID_ARGUMENT, "file:2: this is neither");
    for (size_t size = 195; size < 200; size++) { /* with "x=" before it */
        kiln_strbuf_reset(&text);
        kiln_strbuf_text(&text, "[a]\nx=");
        for (size_t i = 0; i < size; i++) kiln_strbuf_char(&text, 'y');
        kiln_strbuf_text(&text, "\nz=1\n");
        if (size + 2 <= 198)
            expect_ok(parse(text.data, &found));
        else
            expect_error(parse(text.data, &found), INVALID_ARGUMENT, "at most 198 are read");
    }
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(values_come_with_their_section_and_line),
        test_with_arena(errors_name_the_first_wrong_line),
    };
    return cmocka_run_group_tests_name("base/program/config_text", tests, NULL, NULL);
}
