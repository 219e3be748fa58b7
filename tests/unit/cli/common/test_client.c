#include "cli/common/client.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/child.h"
#include "tests/support/test.h"

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)context, (void)conn, (void)hello, (void)welcome;
}
static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    (void)context, (void)conn, (void)message;
}
static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    (void)context, (void)conn, (void)why;
}

static const kiln_conn_handler handler = {on_opened, on_message, on_closed};

/* A tracker that answers nothing it is asked, until it is killed. */
static void be_deaf(const char *address, int ready) {
    kiln_loop *loop = NULL;
    kiln_listener *listener = NULL;
    kiln_listen_options options = {.boot = "boot", .software = "deaf", .handler = &handler};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    kiln_status st = kiln_address_parse(kiln_str_from(address), &options.address);
    if (!st) st = kiln_loop_create(&loop);
    if (!st) st = kiln_net_listen(loop, &options, &listener);
    KILN_CHECK(!st);
    KILN_CHECK(write(ready, "", 1) == 1);
    for (;;) kiln_loop_run(loop);
}

static pid_t start_deaf_tracker(const char *address) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        kiln_child_die_with_parent();
        be_deaf(address, ready[1]);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void stop(void *client) { kiln_client_stop(client); }

static void who_wants_no_more_waits_for_no_transfer_and_no_answer(void **state) {
    char *folder = make_folder(*state);
    const char *address = kiln_arena_printf(*state, "unix:%s/tracker.sock", folder);
    pid_t tracker = start_deaf_tracker(address);
    kiln_client *client = NULL;
    kiln_digest digest;
    kiln_str content = {0};
    kiln_message question = {.type = KILN_MSG_QUERY}, answer = {0};
    expect_ok(kiln_client_open(&(kiln_client_options){.tracker = address}, *state, &client));
    kiln_timer *timer = kiln_timer_create(kiln_client_loop(client), stop, client);
    kiln_timer_start(timer, 0); /* as soon as it waits for the blob's end */
    expect_error(kiln_client_put(client, KILN_STR("a module"), &digest), CANCELLED, "stopped");
    expect_error(kiln_client_get(client, &digest, *state, &content), CANCELLED, "stopped");
    expect_error(kiln_client_ask(client, &question, *state, &answer), CANCELLED, "stopped");
    kiln_timer_destroy(timer);
    kiln_client_close(client);
    kill(tracker, SIGKILL);
    assert_int_equal(waitpid(tracker, NULL, 0), tracker);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(who_wants_no_more_waits_for_no_transfer_and_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
