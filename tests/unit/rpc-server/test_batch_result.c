/* Results as lines of JSON; tests/e2e/test_batch.py imports real ones. */
#include "rpc-server/batch_result.h"

#include <string.h>

#include "tests/support/test.h"

static kiln_batch_board a_board(void) {
    return (kiln_batch_board){.node = KILN_STR("node"),
                              .key = KILN_STR("a \"key\""),
                              .target = KILN_STR("null"),
                              .device = KILN_STR("a device"),
                              .fences = KILN_STR("uid,pids")};
}

static void a_result_is_one_line_behind_its_record(void **state) {
    (void)state;
    const kiln_batch_board board = a_board();
    uint64_t samples[] = {30, 10};
    const kiln_msg_trial_result result = {.trial = KILN_STR("aa"),
                                          .attempt = 2,
                                          .outcome = KILN_OUTCOME_OK,
                                          .samples_ns = {samples, 2},
                                          .runs = 4,
                                          .stop = KILN_STOP_CONVERGED,
                                          .text = KILN_STR("line\n\"\x1b"),
                                          .error = 0.25};
    kiln_strbuf out = {0};
    kiln_batch_print_result(KILN_STR("{\"trial_id\":\"aa\""), &board, &result, 7, &out);
    assert_non_null(strstr(out.data, "{\"trial_id\":\"aa\",\"device_id\":\"node\""));
    assert_non_null(strstr(out.data, "\"attempt\":2,\"outcome\":\"ok\",\"blame\":\"none\""));
    assert_non_null(strstr(out.data, "\"samples_ns\":[7.5,2.5],\"runs_per_sample\":4"));
    assert_non_null(strstr(out.data, "\"error\":0.25"));
    assert_non_null(strstr(out.data, "\"detail\":\"line"));
    assert_true(kiln_str_find_char(kiln_strbuf_view(&out), '\n') == out.size - 1);
    assert_true(kiln_str_find_char(kiln_strbuf_view(&out), '\x1b') == out.size);
    kiln_strbuf_deinit(&out);
}

static void another_state_of_the_board_is_another_fingerprint(void **state) {
    (void)state;
    const kiln_batch_board board = a_board();
    const kiln_msg_env cool = {0}, hot = {.throttle_bits = 1};
    char first[KILN_HASH128_TEXT], second[KILN_HASH128_TEXT];
    kiln_strbuf out = {0};
    kiln_batch_fingerprint(&board, &cool, first);
    kiln_batch_fingerprint(&board, &hot, second);
    assert_string_not_equal(first, second);
    kiln_batch_print_board(&board, &hot, &out);
    assert_non_null(strstr(out.data, "\"table\":\"device\",\"id\":\"node\",\"name\":\"a \\\"key"));
    assert_non_null(strstr(out.data, second));
    kiln_strbuf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_is_one_line_behind_its_record),
        cmocka_unit_test(another_state_of_the_board_is_another_fingerprint),
    };
    return cmocka_run_group_tests_name("rpc-server/batch_result", tests, NULL, NULL);
}
