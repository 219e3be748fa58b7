#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "tests/unit/proto/raw.h"

static void dial_and_fail(pair *p, kiln_code code, const char *why) {
    pair_dial(p);
    pair_run_until(p, &p->client.closed);
    assert_int_equal(p->client.why, code);
    expect_contains(p->client.why_text, why);
    assert_false(p->client.opened);
}

static void ipv6_loopback_serves_as_well(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_set_address(&p, "[::1]:0");
    kiln_status st = kiln_net_listen(p.loop, &p.listen, &p.listener);
    if (st) {
        kiln_status_free(st);
        pair_deinit(&p);
        skip_because("this machine has no IPv6");
    }
    p.dial.address = *kiln_listener_address(p.listener);
    pair_dial(&p);
    pair_run_until(&p, &p.server.opened);
    assert_true(kiln_conn_peer(p.server.conn)->is_loopback);
    expect_contains(kiln_conn_peer(p.server.conn)->address, "[::1]:");
    pair_deinit(&p);
}

static void a_name_with_two_addresses_reaches_the_one_that_listens(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_listen(&p); /* 127.0.0.1; localhost may be ::1 first */
    uint16_t port = p.dial.address.port;
    expect_ok(kiln_address_parse(KILN_STR("localhost:1"), &p.dial.address));
    p.dial.address.port = port;
    pair_dial(&p);
    pair_run_until(&p, &p.client.opened);
    pair_run_until(&p, &p.server.opened);
    pair_deinit(&p);
}

static void a_name_that_does_not_resolve_is_named(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    p.credentials.insecure = true;
    memcpy(p.dial.address.host, "no such host", 13);
    p.dial.address.is_loopback = false;
    dial_and_fail(&p, KILN_UNAVAILABLE, "dialling no such host");
    pair_deinit(&p);
}

static void a_socket_file_that_is_not_there_says_that_nobody_listens(void **state) {
    pair p;
    pair_init(&p);
    char *folder = make_folder(*state);
    pair_set_address(&p, kiln_arena_printf(*state, "unix:%s/s", folder));
    dial_and_fail(&p, KILN_UNAVAILABLE, "no tracker listens there");
    pair_deinit(&p);
    remove_folder(folder);
}

static void closing_while_it_dials_is_a_close(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    pair_listen(&p);
    kiln_conn *conn = pair_dial(&p);
    kiln_conn_close(conn, KILN_OK); /* the name is still being resolved */
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_CANCELLED);
    p.client.closed = false;
    conn = pair_dial(&p);
    kiln_conn_close(conn, KILN_ERROR(ABORTED, "changed its mind"));
    kiln_conn_close(conn, KILN_ERROR(INTERNAL, "twice")); /* the first reason stands */
    kiln_conn_close(conn, KILN_OK);
    expect_ok(kiln_conn_send(conn, &(kiln_message){.type = KILN_MSG_PING})); /* swallowed */
    pair_run_until(&p, &p.client.closed);
    assert_int_equal(p.client.why, KILN_ABORTED);
    pair_deinit(&p);
}

static void without_credentials_only_this_machine_is_dialled(void **state) {
    (void)state;
    pair p;
    pair_init(&p);
    p.dial.credentials = NULL;
    expect_ok(kiln_address_parse(KILN_STR("192.0.2.1:9"), &p.dial.address));
    dial_and_fail(&p, KILN_PERMISSION_DENIED, "--key-file");
    pair_deinit(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv6_loopback_serves_as_well),
        cmocka_unit_test(a_name_with_two_addresses_reaches_the_one_that_listens),
        cmocka_unit_test(a_name_that_does_not_resolve_is_named),
        test_with_arena(a_socket_file_that_is_not_there_says_that_nobody_listens),
        cmocka_unit_test(closing_while_it_dials_is_a_close),
        cmocka_unit_test(without_credentials_only_this_machine_is_dialled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
