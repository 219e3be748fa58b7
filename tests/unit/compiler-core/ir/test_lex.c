/* Words and lines of program text. */
#include "compiler-core/ir/lex.h"

#include "tests/unit/compiler-core/ir/support.h"

/* The kinds and texts of all words of one line, as "name:block symbol:( ...". */
static void expect_words(const kiln_program *p, const char *line, const char *wanted) {
    static const char *const kind[] = {"end", "name", "quoted", "number", "symbol", "bad"};
    kiln_lexer lx;
    kiln_strbuf found = {0};
    kiln_lexer_init(&lx, kiln_str_from(line), p->arena);
    for (kiln_lexer_next_line(&lx); lx.kind != KILN_TOKEN_END; kiln_lexer_next(&lx))
        kiln_strbuf_printf(&found, "%s%s:%.*s", found.size ? " " : "", kind[lx.kind],
                           KILN_STR_ARG(lx.token));
    assert_string_equal(found.size ? found.data : "", wanted);
    kiln_strbuf_deinit(&found);
}

static void words_end_where_another_kind_begins(void **state) {
    expect_words(*state, "for oc.0'2 in 0..8:",
                 "name:for name:oc.0'2 name:in number:0 symbol:.. "
                 "number:8 symbol::");
    expect_words(*state, "a<=b==c!=d<e",
                 "name:a symbol:<= name:b symbol:== name:c symbol:!= "
                 "name:d symbol:< name:e");
    expect_words(*state, "1.5e-3f16*2", "number:1.5e-3f16 symbol:* number:2");
    expect_words(*state, "1e+", "number:1e symbol:+");
}

static void quotes_hide_everything(void **state) {
    expect_words(*state, "\"a # \\\"b\\\" \\x41\" # c", "quoted:a # \"b\" A");
    expect_words(*state, "\"open", "bad:");
    expect_words(*state, "\"bad \\q\"", "bad: name:q bad:");
    expect_words(*state, "a ? b", "name:a bad:? name:b");
}

static void lines_know_their_number_and_indent(void **state) {
    const kiln_program *p = *state;
    kiln_lexer lx;
    kiln_lexer_init(&lx, KILN_STR("\n# only this\n  a\n\n    b"), p->arena);
    kiln_lexer_next_line(&lx);
    assert_int_equal(lx.line, 3);
    assert_int_equal(lx.indent, 2);
    assert_int_equal(lx.column, 3);
    kiln_lexer_next_line(&lx);
    assert_int_equal(lx.line, 5);
    assert_int_equal(lx.indent, 4);
    assert_false(lx.at_end);
    kiln_lexer_next_line(&lx);
    assert_true(lx.at_end);
}

static void raw_text_ends_at_its_bracket(void **state) {
    const kiln_program *p = *state;
    kiln_lexer lx;
    kiln_str raw;
    kiln_lexer_init(&lx, KILN_STR("layout(d0/8,d1%8) x"), p->arena);
    kiln_lexer_next_line(&lx);
    kiln_lexer_next(&lx);
    assert_true(kiln_lexer_is(&lx, "("));
    assert_true(kiln_lexer_raw_until(&lx, ')', &raw));
    expect_str(raw, "d0/8,d1%8");
    expect_str(lx.token, "x");
    assert_false(kiln_lexer_raw_until(&lx, ')', &raw));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(words_end_where_another_kind_begins),
        PROGRAM_TEST(quotes_hide_everything),
        PROGRAM_TEST(lines_know_their_number_and_indent),
        PROGRAM_TEST(raw_text_ends_at_its_bracket),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/lex", tests, NULL, NULL);
}
