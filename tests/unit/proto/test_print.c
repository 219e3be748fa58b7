#include "proto/proto.h"
#include "tests/support/test.h"

static void expect_print(const kiln_message *message, const char *text) {
    kiln_strbuf out = {0};
    kiln_message_print(message, &out);
    assert_string_equal(out.data, text);
    kiln_strbuf_deinit(&out);
}

static void a_message_is_one_line_of_json(void **state) {
    (void)state;
    uint64_t samples[] = {10, 20};
    kiln_message message = {
        .type = KILN_MSG_TRIAL_RESULT,
        .stream = 3,
        .trial_result = {.trial = KILN_STR("t"),
                         .attempt = 1,
                         .lease = 7,
                         .outcome = KILN_OUTCOME_OK,
                         .samples_ns = {samples, 2},
                         .error = 0.25,
                         .before = {.frequency_khz = 3000000}},
    };
    expect_print(&message,
                 "TRIAL_RESULT #3 "
                 "{\"trial\":\"t\",\"attempt\":1,\"lease\":7,\"outcome\":0,\"samples_ns\":[10,20],"
                 "\"error\":0.25,\"before\":{\"frequency_khz\":3000000}}");
}

static void texts_are_printable_and_escaped(void **state) {
    (void)state;
    kiln_message message = {
        .type = KILN_MSG_GOAWAY,
        .goaway = {
            .reason = KILN_STR("a\"b\\c\n  \xc3\xa9 \xff \xc0\xaf \xed\xa0\x80 \xf0\x9f\x94\xa5")}};
    expect_print(&message, "GOAWAY #0 {\"reason\":\"a\\\"b\\\\c\\u000a  \xc3\xa9 \\\\xff "
                           "\\\\xc0\\\\xaf \\\\xed\\\\xa0\\\\x80 \xf0\x9f\x94\xa5\"}");
}

static void a_token_is_not_shown(void **state) {
    (void)state;
    kiln_message message = {
        .type = KILN_MSG_HELLO,
        .hello = {.version_min = 1,
                  .version_max = 1,
                  .role = KILN_PEER_BOARD,
                  .node = KILN_STR("n"),
                  .boot = KILN_STR("b"),
                  .token = KILN_STR("secret")},
    };
    expect_print(&message, "HELLO #0 "
                           "{\"version_min\":1,\"version_max\":1,\"role\":1,\"node\":\"n\","
                           "\"boot\":\"b\",\"token\":\"(6 bytes)\"}");
}

static void a_record_prints_alone(void **state) {
    (void)state;
    kiln_msg_label labels[] = {{KILN_STR("room"), KILN_STR("lab")}};
    kiln_msg_board_row row = {.node = KILN_STR("n"),
                              .key = KILN_STR("pi"),
                              .target = KILN_STR("cpu:x"),
                              .state = KILN_STR("free")};
    row.labels.item = labels;
    row.labels.count = 1;
    kiln_strbuf out = {0};
    kiln_record_print_json(KILN_RECORD_board_row, &row, &out);
    assert_string_equal(out.data,
                        "{\"node\":\"n\",\"key\":\"pi\",\"target\":\"cpu:x\",\"state\":\"free\","
                        "\"labels\":[{\"key\":\"room\",\"value\":\"lab\"}]}");
    kiln_strbuf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_one_line_of_json),
        cmocka_unit_test(texts_are_printable_and_escaped),
        cmocka_unit_test(a_token_is_not_shown),
        cmocka_unit_test(a_record_prints_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
