/* What a tracker knows of a board, as advice. */
#include "cli/fleet_doctor.h"

#include "tests/support/test.h"

static kiln_msg_board_row healthy(void) {
    return (kiln_msg_board_row){.key = KILN_STR("rpi4"),
                                .target = KILN_STR("cpu:aarch64-unknown-linux-gnu"),
                                .state = KILN_STR("free"),
                                .device = KILN_STR("Raspberry Pi 4"),
                                .noise = 0.005,
                                .drift = 1.0,
                                .env = {.temperature_mc = 50000}};
}

/* The only thing said of `board` begins with `verdict` and contains `text`. */
static void expect_advice(const kiln_msg_board_row *board, const char *verdict, const char *text) {
    kiln_strbuf out = {0};
    assert_int_equal(kiln_fleet_diagnose(board, NULL, &out), 1);
    assert_true(kiln_str_starts(kiln_strbuf_view(&out), verdict));
    expect_contains(out.data, text);
    kiln_strbuf_deinit(&out);
}

static void a_healthy_board_is_said_to_be(void **state) {
    (void)state;
    kiln_msg_board_row board = healthy();
    kiln_strbuf out = {0};
    assert_int_equal(kiln_fleet_diagnose(&board, NULL, &out), 0);
    assert_string_equal(out.data, "ok   rpi4 runs cpu:aarch64-unknown-linux-gnu\n");
    kiln_strbuf_deinit(&out);
}

static void a_board_that_may_not_serve_hears_why_and_what_to_do(void **state) {
    (void)state;
    kiln_msg_board_row board = healthy();
    board.state = KILN_STR("lost");
    board.silent_ms = 90000;
    expect_advice(&board, "BAD", "90 s: on the board, kiln-rpc-server --doctor");
    board = healthy();
    board.state = KILN_STR("sick");
    board.text = KILN_STR("wrong sums");
    expect_advice(&board, "BAD", "wrong sums");
    board.state = KILN_STR("unfenced");
    expect_advice(&board, "BAD", "wrong sums");
    board.state = KILN_STR("quarantined");
    expect_advice(&board, "BAD", "kiln fleet release rpi4");
}

static void what_makes_times_worse_is_named(void **state) {
    (void)state;
    kiln_msg_label label = {KILN_STR("governor"), KILN_STR("ondemand")};
    kiln_msg_board_row board = healthy();
    board.facts.item = &label;
    board.facts.count = 1;
    expect_advice(&board, "note", "governor ondemand");
    label.value = KILN_STR("performance");
    board.noise = 0.06;
    expect_advice(&board, "note", "6.0 %");
    board = healthy();
    board.env.throttle_bits = 1;
    expect_advice(&board, "BAD", "it is throttled now");
    board = healthy();
    board.env.temperature_mc = 91000;
    expect_advice(&board, "note", "91 degrees");
    board = healthy();
    board.drift = 1.2;
    expect_advice(&board, "note", "20 % slower");
    board = healthy();
    board.device = KILN_STR("emulated aarch64");
    expect_advice(&board, "note", "an emulator");
    board = healthy();
    board.missing = KILN_STR("seccomp");
    expect_advice(&board, "note", "refuses: seccomp");
}

static void expect_answer_advice(const kiln_msg_probe_row *probe, const char *verdict,
                                 const char *text) {
    kiln_msg_board_row board = healthy();
    kiln_strbuf out = {0};
    assert_int_equal(kiln_fleet_diagnose(&board, probe, &out), 1);
    assert_true(kiln_str_starts(kiln_strbuf_view(&out), verdict));
    expect_contains(out.data, text);
    kiln_strbuf_deinit(&out);
}

static void how_it_answers_is_part_of_it(void **state) {
    (void)state;
    kiln_msg_board_row board = healthy();
    kiln_msg_probe_row probe = {.answered = true,
                                .clock = true,
                                .ahead_ms = -20,
                                .software = KILN_STR("kiln-rpc-server 0.0.9"),
                                .version = KILN_PROTO_VERSION_MAX};
    kiln_strbuf out = {0};
    assert_int_equal(kiln_fleet_diagnose(&board, &probe, &out), 0);
    kiln_strbuf_deinit(&out);
    probe.ahead_ms = -86400e3;
    expect_answer_advice(&probe, "note", "86400 s behind");
    probe.ahead_ms = 6e3;
    expect_answer_advice(&probe, "note", "6 s ahead of");
    probe.clock = false; /* it does not say */
    probe.version--;
    expect_answer_advice(&probe, "note", "kiln-rpc-server 0.0.9");
    probe.answered = false;
    probe.text = KILN_STR("no answer in 5000 ms");
    expect_answer_advice(&probe, "BAD", "no answer in 5000 ms");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_it_answers_is_part_of_it),
        cmocka_unit_test(a_healthy_board_is_said_to_be),
        cmocka_unit_test(a_board_that_may_not_serve_hears_why_and_what_to_do),
        cmocka_unit_test(what_makes_times_worse_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
