#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/net/stranger_limit.h"
#include "tests/support/test.h"
#include "tests/unit/proto/raw.h"

static void port_zero_picks_one_and_says_which(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_listen(&p);
    assert_true(kiln_listener_address(p.listener)->port != 0);
    pair_deinit(&p);
}

static void a_busy_port_is_named(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_listen(&p);
    p.listen.address = *kiln_listener_address(p.listener);
    kiln_listener *second = NULL;
    kiln_strbuf address = {0};
    kiln_address_print(&p.listen.address, &address);
    expect_error(kiln_net_listen(p.loop, &p.listen, &second), ALREADY_EXISTS, address.data);
    assert_null(second);
    kiln_strbuf_deinit(&address);
    pair_deinit(&p);
}

static void plaintext_beyond_loopback_wants_to_be_asked_for(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_set_address(&p, "0.0.0.0:0");
    expect_error(kiln_net_listen(p.loop, &p.listen, &p.listener), PERMISSION_DENIED, "--insecure");
    p.listen.insecure = true;
    pair_listen(&p);
    pair_deinit(&p);
}

static void tcp_without_a_token_is_refused(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    p.listen.token = NULL;
    expect_error(kiln_net_listen(p.loop, &p.listen, &p.listener), PERMISSION_DENIED, "token");
    pair_deinit(&p);
}

static void a_unix_socket_is_private_and_a_dead_ones_place_is_taken(void **state) {
    char *folder = make_folder(*state);
    char *path = kiln_arena_printf(*state, "%s/s", folder);
    struct stat info;
    pair p;
    pair_init(&p);
    pair_set_address(&p, kiln_arena_printf(*state, "unix:%s", path));
    pair_listen(&p);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    kiln_listener *second = NULL;
    expect_error(kiln_net_listen(p.loop, &p.listen, &second), ALREADY_EXISTS,
                 path); /* somebody lives there */
    char *kept = kiln_arena_printf(*state, "%s/kept", folder);
    assert_int_equal(rename(path, kept),
                     0); /* what a killed program leaves: a socket that nobody listens on */
    kiln_listener_close(p.listener);
    p.listener = NULL;
    kiln_loop_run_once(p.loop);
    assert_int_equal(rename(kept, path), 0);
    pair_open(&p);
    pair_deinit(&p);
    remove_folder(folder);
}

static void a_file_in_the_way_is_not_removed(void **state) {
    char *folder = make_folder(*state);
    char *path = kiln_arena_printf(*state, "%s/s", folder);
    expect_ok(kiln_file_write(path, KILN_STR("mine"), 0600));
    pair p;
    pair_init(&p);
    pair_set_address(&p, kiln_arena_printf(*state, "unix:%s", path));
    expect_error(kiln_net_listen(p.loop, &p.listen, &p.listener), ALREADY_EXISTS, path);
    assert_true(kiln_file_exists(path));
    pair_deinit(&p);
    remove_folder(folder);
}

/* A program that was stopped accepts nobody, and keeps its place. */
static void a_unix_socket_whose_queue_is_full_is_not_dead(void **state) {
    enum { MOST = 16 };
    char *folder = make_folder(*state);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = kiln_arena_printf(*state, "%s/s", folder);
    memcpy(address.sun_path, path, strlen(path));
    int fd[1 + MOST], count = 0;
    const int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    fd[count++] = socket(AF_UNIX, type, 0);
    assert_int_equal(bind(fd[0], (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd[0], 0), 0);
    bool full = false;
    while (!full) {
        assert_true(count <= MOST);
        fd[count] = socket(AF_UNIX, type, 0);
        full = connect(fd[count++], (struct sockaddr *)&address, sizeof address) != 0;
    }
    assert_int_equal(errno, EAGAIN);
    pair p;
    pair_init(&p);
    pair_set_address(&p, kiln_arena_printf(*state, "unix:%s", path));
    expect_error(kiln_net_listen(p.loop, &p.listen, &p.listener), ALREADY_EXISTS, path);
    pair_deinit(&p);
    while (count > 0) close(fd[--count]);
    remove_folder(folder);
}

/* What it would be welcomed with is gone, and so is who would speak with it. */
static void who_is_in_the_handshake_goes_with_the_listener(void **state) {
    (void)state;
    pair p;
    raw_peer r;
    kiln_frame frame;
    pair_init(&p);
    pair_listen(&p);
    raw_dial(&r, &p);
    while (kiln_strangers_count(p.loop) == 0) kiln_loop_run_once(p.loop);
    raw_say_hello(&r, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    kiln_listener_close(p.listener);
    p.listener = NULL;
    assert_int_equal(raw_expect(&r, KILN_MSG_ERROR).error.code, KILN_UNAVAILABLE);
    assert_false(raw_read(&r, &frame));
    pair_run_until_count(&p, &p.refused_count, 1);
    assert_false(p.server.opened);
    raw_close(&r);
    pair_deinit(&p);
}

static void open_connections_outlive_the_listener(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_open(&p);
    kiln_listener_close(p.listener);
    p.listener = NULL;
    expect_ok(kiln_conn_send(p.client.conn, &(kiln_message){.type = KILN_MSG_PING}));
    pair_run_until_count(&p, &p.server.message_count, 1);
    pair_deinit(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(port_zero_picks_one_and_says_which),
        cmocka_unit_test(a_busy_port_is_named),
        cmocka_unit_test(plaintext_beyond_loopback_wants_to_be_asked_for),
        cmocka_unit_test(tcp_without_a_token_is_refused),
        test_with_arena(a_unix_socket_is_private_and_a_dead_ones_place_is_taken),
        test_with_arena(a_file_in_the_way_is_not_removed),
        test_with_arena(a_unix_socket_whose_queue_is_full_is_not_dead),
        cmocka_unit_test(who_is_in_the_handshake_goes_with_the_listener),
        cmocka_unit_test(open_connections_outlive_the_listener),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
