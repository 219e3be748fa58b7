#include "proto/net/stranger_limit.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/net/loop_state.h"
#include "tests/support/test.h"
#include "tests/unit/proto/raw.h"

static void places_follow_the_descriptors(void **state) {
    (void)state;
    static const struct {
        uint64_t descriptors;
        uint32_t reserve, places;
    } row[] = {
        {0, 32, 4},
        {40, 32, 4},
        {256, 32, 56},
        {1024, 128, 224},
        {4096, 512, 896},
        {1 << 20, 1024, 16384},
        {UINT64_MAX, 1024, 16384},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        assert_int_equal(kiln_strangers_reserve(row[i].descriptors), row[i].reserve);
        assert_int_equal(kiln_strangers_places(row[i].descriptors), row[i].places);
    }
}

/* ---- Over sockets ---- */

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    pair_end *end = context;
    (void)hello, (void)welcome;
    end->conn = conn;
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    (void)context, (void)conn, (void)message;
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    pair_end *end = context;
    (void)why;
    if (end->conn == conn) end->conn = NULL;
}

/* Takes any number of peers. */
static void crowd_init(pair *p, uint32_t strangers_max) {
    static const kiln_conn_handler handler = {on_opened, on_message, on_closed};
    pair_init(p);
    p->listen.handler = &handler;
    p->listen.strangers_max = strangers_max;
}

static void crowd_deinit(pair *p) {
    while (p->loop->conns.accepted.count > 0) {
        kiln_loop_hurry(p->loop);
        kiln_loop_run_once(p->loop);
    }
    pair_deinit(p);
}

/* Connects from 127.0.0.`host`. */
static void dial_from(raw_peer *r, pair *p, uint8_t host) {
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + host - 1u);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(p->dial.address.port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    raw_take(r, p, fd);
}

static void wait_for_accepted(pair *p, uint64_t count) {
    while (p->loop->conns.stats.accepted < count) {
        kiln_loop_hurry(p->loop);
        kiln_loop_run_once(p->loop);
    }
}

static bool is_cut(raw_peer *r) {
    char byte;
    for (int turns = 0; turns < 3; turns++) {
        kiln_loop_hurry(r->p->loop);
        kiln_loop_run_once(r->p->loop);
    }
    return recv(r->fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void the_oldest_silent_one_goes_and_who_speaks_stays(void **state) {
    enum { MOST = 8, ALL = 12 };
    (void)state;
    pair p;
    raw_peer r[ALL];
    crowd_init(&p, MOST);
    pair_listen(&p);
    for (uint32_t i = 0; i < ALL; i++) {
        dial_from(&r[i], &p, (uint8_t)(10 + i)); /* no address begins many */
        wait_for_accepted(&p, i + 1);
        if (i != 0) continue;
        raw_send(&r[0], KILN_STR("K")); /* the oldest has begun to speak */
        while (p.loop->conns.by_rank[KILN_RANK_SPEAKS].count == 0) kiln_loop_run_once(p.loop);
    }
    const uint32_t gone = ALL - MOST;
    pair_run_until_count(&p, &p.refused_count, gone);
    assert_int_equal(p.loop->conns.stats.crowded_out, gone);
    for (uint32_t i = 0; i < ALL; i++) assert_int_equal(is_cut(&r[i]), i >= 1 && i <= gone);
    expect_contains(p.refused_why, "to make room for newer");
    for (uint32_t i = 0; i < ALL; i++) raw_close(&r[i]);
    crowd_deinit(&p);
}

/* One address takes all that it can; another is not touched by it, nor by how many there are. */
static void who_begins_too_many_pushes_out_its_own_only(void **state) {
    enum { MOST = 64, CROWD = 200 };
    (void)state;
    pair p;
    static raw_peer r[CROWD];
    raw_peer quiet;
    crowd_init(&p, MOST);
    p.loop->strangers.rate_limit =
        kiln_rate_limit_create(1, MOST, 0); /* the same tokens however long this takes */
    pair_listen(&p);
    dial_from(&quiet, &p, 9);
    wait_for_accepted(&p, 1);
    for (uint32_t i = 0; i < CROWD; i++) {
        dial_from(&r[i], &p, 2);
        wait_for_accepted(&p, i + 2);
    }
    const uint32_t suspects = MOST / KILN_STRANGERS_SUSPECTS_SHARE;
    assert_int_equal(p.loop->conns.stats.over_rate, CROWD - MOST);
    assert_in_range(p.loop->conns.by_rank[KILN_RANK_SUSPECT].count, 1, suspects);
    assert_true(kiln_strangers_count(p.loop) <= MOST + suspects);
    raw_peer known;
    dial_from(&known, &p, 3);
    raw_hello(&known, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    raw_peer same; /* an honest one behind the crowd's address gets in, too */
    dial_from(&same, &p, 2);
    raw_hello(&same, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    raw_close(&known);
    raw_close(&same);
    raw_close(&quiet);
    for (uint32_t i = 0; i < CROWD; i++) raw_close(&r[i]);
    crowd_deinit(&p);
}

static void an_address_that_was_let_in_is_kept_longer(void **state) {
    enum { MOST = 8 };
    (void)state;
    pair p;
    raw_peer known, again, crowd[2 * MOST];
    crowd_init(&p, MOST);
    pair_listen(&p);
    dial_from(&known, &p, 3);
    raw_hello(&known, KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    dial_from(&again, &p, 3); /* silent so far */
    wait_for_accepted(&p, 2);
    for (uint32_t i = 0; i < 2 * MOST; i++) {
        dial_from(&crowd[i], &p, (uint8_t)(10 + i));
        wait_for_accepted(&p, i + 3);
    }
    assert_false(is_cut(&again));
    for (uint32_t i = 0; i < 2 * MOST; i++) raw_close(&crowd[i]);
    raw_close(&again);
    raw_close(&known);
    crowd_deinit(&p);
}

/* ---- Descriptors ---- */

typedef struct limit {
    struct rlimit before;
} limit;

static void limit_descriptors(limit *l, rlim_t count) {
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &l->before), 0);
    struct rlimit now = {count, l->before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static void end_limit(const limit *l) { assert_int_equal(setrlimit(RLIMIT_NOFILE, &l->before), 0); }

static void a_listener_takes_all_descriptors_that_it_may_have(void **state) {
    (void)state;
    limit l;
    limit_descriptors(&l, 200);
    assert_int_equal(kiln_descriptors_raise(), l.before.rlim_max);
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_true(now.rlim_cur == l.before.rlim_max);
    end_limit(&l);
}

static void on_losses(void *context, const kiln_net_stats *since) {
    pair *p = (pair *)(void *)((char *)context - offsetof(pair, server));
    p->server.t_ns[0]++;
    p->server.t_ns[1] = since->no_descriptor;
}

/* The reserve is not given to strangers: a newcomer takes the place of a silent one, and is closed
 * only where nobody is silent. It is told once, not for each. */
static void descriptors_of_the_reserve_are_kept(void **state) {
    enum { KNOWN = 6, MORE = 6 };
    (void)state;
    pair p;
    raw_peer known[KNOWN], more[MORE];
    crowd_init(&p, 0);
    p.listen.on_losses = on_losses;
    pair_listen(&p);
    for (uint32_t i = 0; i < KNOWN; i++) {
        dial_from(&known[i], &p, (uint8_t)(10 + i));
        raw_hello(&known[i], KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    }
    uv_os_fd_t highest = -1;
    assert_int_equal(uv_fileno(&p.server.conn->socket->handle, &highest), 0);
    p.loop->strangers.descriptors_for_peers = (uint64_t)highest; /* as if there were so few */
    for (uint32_t i = 0; i < MORE; i++) {
        dial_from(&more[i], &p, (uint8_t)(30 + i));
        while (p.loop->conns.stats.no_descriptor < i + 1) {
            kiln_loop_hurry(p.loop);
            kiln_loop_run_once(p.loop);
        }
        assert_true(is_cut(&more[i]));
    }
    assert_int_equal(p.loop->conns.accepted.count, KNOWN);
    assert_int_equal(p.server.t_ns[0], 1); /* one call, of the first */
    assert_int_equal(p.server.t_ns[1], 1);
    for (uint32_t i = 0; i < MORE; i++) raw_close(&more[i]);
    p.loop->strangers.descriptors_for_peers = (uint64_t)highest + 100;
    dial_from(&more[0], &p, 40);
    wait_for_accepted(&p, KNOWN + 1);
    p.loop->strangers.descriptors_for_peers = (uint64_t)highest;
    dial_from(&more[1], &p, 41); /* more[0] is silent */
    raw_hello(&more[1], KILN_PEER_CLIENT, KILN_PROTO_VERSION_MAX);
    assert_true(is_cut(&more[0]));
    kiln_net_stats stats;
    kiln_loop_net_stats(p.loop, &stats);
    assert_int_equal(stats.known, KNOWN + 1);
    assert_int_equal(stats.strangers, 0);
    assert_int_equal(stats.welcomed, KNOWN + 1);
    raw_close(&more[0]);
    raw_close(&more[1]);
    for (uint32_t i = 0; i < KNOWN; i++) raw_close(&known[i]);
    crowd_deinit(&p);
}

/* However many wait to be accepted, the loop gets on with the rest in between. */
static void accepts_of_one_turn_are_bounded(void **state) {
    enum { CROWD = 3 * KILN_NET_ACCEPTS_PER_TURN };
    (void)state;
    static raw_peer r[CROWD];
    pair p;
    crowd_init(&p, 0);
    pair_listen(&p);
    for (uint32_t i = 0; i < CROWD; i++) raw_dial(&r[i], &p);
    uint32_t turns = 0;
    while (p.loop->conns.stats.accepted < CROWD) {
        const uint64_t before = p.loop->conns.stats.accepted;
        kiln_loop_run_once(p.loop);
        assert_true(p.loop->conns.stats.accepted - before <= KILN_NET_ACCEPTS_PER_TURN + 1);
        turns++;
    }
    assert_true(turns >= CROWD / (KILN_NET_ACCEPTS_PER_TURN + 1));
    for (uint32_t i = 0; i < CROWD; i++) raw_close(&r[i]);
    crowd_deinit(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_follow_the_descriptors),
        cmocka_unit_test(the_oldest_silent_one_goes_and_who_speaks_stays),
        cmocka_unit_test(who_begins_too_many_pushes_out_its_own_only),
        cmocka_unit_test(an_address_that_was_let_in_is_kept_longer),
        cmocka_unit_test(a_listener_takes_all_descriptors_that_it_may_have),
        cmocka_unit_test(descriptors_of_the_reserve_are_kept),
        cmocka_unit_test(accepts_of_one_turn_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
