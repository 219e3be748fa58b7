#include "rpc-server/launch_talk.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc-server/helper_socket.h"
#include "tests/support/test.h"

static int ends[2];

static int set_up(void **state) {
    (void)state;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int tear_down(void **state) {
    (void)state;
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void a_message_arrives_with_its_descriptor(void **state) {
    (void)state;
    char buffer[KILN_LAUNCH_MESSAGE_BYTES], byte = 0;
    kiln_launch_message got;
    int content[2];
    assert_int_equal(pipe(content), 0);
    assert_true(kiln_launch_say(ends[0], &(kiln_launch_message){.saying = KILN_LAUNCH_SAYS_TRY,
                                                                .number = 7,
                                                                .seconds = 30,
                                                                .text = KILN_STR("two\nlines\n"),
                                                                .fd = content[0]}));
    assert_true(kiln_launch_hear(ends[1], buffer, &got));
    assert_int_equal(got.saying, KILN_LAUNCH_SAYS_TRY);
    assert_int_equal(got.number, 7);
    assert_int_equal(got.seconds, 30);
    expect_str(got.text, "two\nlines\n");
    assert_int_equal(write(content[1], "x", 1), 1);
    assert_int_equal(read(got.fd, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(got.fd);
    close(content[0]);
    close(content[1]);
}

static void a_message_may_have_nothing_but_its_word(void **state) {
    (void)state;
    char buffer[KILN_LAUNCH_MESSAGE_BYTES];
    kiln_launch_message got;
    assert_true(kiln_launch_say(
        ends[0], &(kiln_launch_message){.saying = KILN_LAUNCH_SAYS_CONFIRM, .fd = -1}));
    assert_true(kiln_launch_hear(ends[1], buffer, &got));
    assert_int_equal(got.saying, KILN_LAUNCH_SAYS_CONFIRM);
    assert_int_equal(got.text.size, 0);
    assert_int_equal(got.fd, -1);
}

/* A later version says more. */
static void unknown_words_and_other_forms_are_told_as_such(void **state) {
    (void)state;
    static const char *const bad[] = {"restart 1 2\n", "", "\n", "try\nx", "try 1\n", "try a b\n",
                                      "confirm -1 0\n"};
    char buffer[KILN_LAUNCH_MESSAGE_BYTES], large[2 * KILN_LAUNCH_MESSAGE_BYTES] = {0};
    kiln_launch_message got;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        if (!*bad[i]) continue; /* an empty message means the end */
        assert_true(kiln_helper_socket_send(ends[0], bad[i], strlen(bad[i]), NULL, 0));
        assert_true(kiln_launch_hear(ends[1], buffer, &got));
        assert_int_equal(got.saying, KILN_LAUNCH_SAYING_COUNT);
    }
    assert_true(kiln_helper_socket_send(ends[0], large, sizeof large, NULL, 0));
    assert_true(kiln_launch_hear(ends[1], buffer, &got));
    assert_int_equal(got.saying, KILN_LAUNCH_SAYING_COUNT);
}

static void the_end_of_the_other_side_is_noticed(void **state) {
    (void)state;
    char buffer[KILN_LAUNCH_MESSAGE_BYTES];
    kiln_launch_message got;
    shutdown(ends[0], SHUT_RDWR);
    assert_false(kiln_launch_hear(ends[1], buffer, &got));
    assert_false(kiln_launch_say(
        ends[1], &(kiln_launch_message){.saying = KILN_LAUNCH_SAYS_CONFIRM, .fd = -1}));
}

/* What is in the wild already must keep its meaning. */
static void the_words_are_those_of_the_first_version(void **state) {
    (void)state;
    static const char *const first[] = {"run", "trial",   "failed", "confirmed",
                                        "try", "confirm", "fail"};
    char buffer[KILN_LAUNCH_MESSAGE_BYTES], text[64];
    kiln_launch_message got;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(first); i++) {
        snprintf(text, sizeof text, "%s 3 4\nwhy", first[i]);
        assert_true(kiln_helper_socket_send(ends[0], text, strlen(text), NULL, 0));
        assert_true(kiln_launch_hear(ends[1], buffer, &got));
        assert_int_equal(got.saying, i);
        expect_str(got.text, "why");
    }
}

#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(a_message_arrives_with_its_descriptor),
        test(a_message_may_have_nothing_but_its_word),
        test(unknown_words_and_other_forms_are_told_as_such),
        test(the_end_of_the_other_side_is_noticed),
        test(the_words_are_those_of_the_first_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
