#include "proto/net/stranger_limit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "proto/net/loop_state.h"

uint32_t kiln_strangers_reserve(uint64_t descriptors) {
    uint64_t share = descriptors / KILN_STRANGERS_RESERVE_SHARE;
    return (uint32_t)KILN_MAX(KILN_STRANGERS_RESERVE_MIN,
                              KILN_MIN(share, KILN_STRANGERS_RESERVE_MAX));
}

uint32_t kiln_strangers_places(uint64_t descriptors) {
    uint32_t reserve = kiln_strangers_reserve(descriptors);
    uint64_t left = descriptors > reserve ? descriptors - reserve : 0;
    left = KILN_MIN(left / KILN_STRANGERS_SHARE, KILN_NET_STRANGERS_MAX);
    return (uint32_t)KILN_MAX(left, KILN_STRANGERS_PLACES_MIN);
}

uint32_t kiln_strangers_count(const kiln_loop *loop) {
    uint32_t count = 0;
    for (int rank = 0; rank < KILN_RANK_COUNT; rank++) count += loop->conns.by_rank[rank].count;
    return count;
}

/* Connections that are closing are counted until the turn ends; each is closed only once. */
static bool drop_oldest(kiln_conn_list *list) {
    kiln_conn *oldest = list->oldest;
    while (oldest && oldest->state == KILN_CONN_CLOSED) oldest = oldest->newer;
    if (!oldest) return false;
    oldest->loop->conns.stats.crowded_out++;
    kiln_conn_fail(oldest,
                   KILN_ERROR(RESOURCE_EXHAUSTED, "closed to make room for newer connections"));
    return true;
}

static bool drop_first(kiln_loop *loop, kiln_rank last) {
    for (int rank = 0; rank <= (int)last; rank++)
        if (drop_oldest(&loop->conns.by_rank[rank])) return true;
    return false;
}

static kiln_rank rank_of(kiln_conn *conn) {
    kiln_rate_limit *limit = conn->loop->strangers.rate_limit;
    struct sockaddr_storage address = {0};
    int size = sizeof address;
    if (conn->socket->handle.type != UV_TCP ||
        uv_tcp_getpeername(&conn->socket->tcp, (struct sockaddr *)&address, &size) != 0)
        return KILN_RANK_SPEAKS; /* of a Unix socket, guarded by the file's mode */
    conn->rate_key = kiln_rate_limit_key(limit, &address);
    if (!kiln_rate_limit_enter(limit, conn->rate_key, kiln_clock_ns())) return KILN_RANK_SUSPECT;
    return kiln_rate_limit_knows(limit, conn->rate_key) ? KILN_RANK_SPEAKS : KILN_RANK_SILENT;
}

void kiln_strangers_enter(kiln_conn *conn) {
    kiln_loop *loop = conn->loop;
    const uint32_t most = conn->listen.strangers_max;
    const uint32_t suspects =
        KILN_MAX(most / KILN_STRANGERS_SUSPECTS_SHARE, KILN_STRANGERS_PLACES_MIN);
    loop->conns.stats.accepted++;
    conn->rank = rank_of(conn);
    loop->conns.stats.over_rate += conn->rank == KILN_RANK_SUSPECT;
    if (conn->rank == KILN_RANK_SUSPECT && loop->conns.by_rank[KILN_RANK_SUSPECT].count >= suspects)
        drop_oldest(&loop->conns.by_rank[KILN_RANK_SUSPECT]);
    else if (kiln_strangers_count(loop) >= most)
        drop_first(loop, KILN_RANK_SPEAKS);
    kiln_conn_enlist(conn);
}

bool kiln_strangers_has_descriptor(kiln_loop *loop, const kiln_socket *socket) {
    uv_os_fd_t fd = -1;
    if (uv_fileno(&socket->handle, &fd) != 0) return false;
    /* The system gives the lowest free number. */
    return (uint64_t)fd < loop->strangers.descriptors_for_peers ||
           drop_first(loop, KILN_RANK_SILENT);
}

void kiln_strangers_speaks(kiln_conn *conn) {
    if (conn->was_opened || conn->rank == KILN_RANK_SPEAKS) return;
    kiln_conn_delist(conn);
    conn->rank = KILN_RANK_SPEAKS;
    kiln_conn_enlist(conn);
}

void kiln_strangers_pass(kiln_conn *conn) {
    kiln_conn_delist(conn);
    conn->was_opened = true;
    kiln_conn_enlist(conn);
    conn->loop->conns.stats.welcomed++;
    if (conn->rate_key)
        kiln_rate_limit_pass(conn->loop->strangers.rate_limit, conn->rate_key, kiln_clock_ns());
}

void kiln_strangers_drop(kiln_loop *loop, const kiln_listen_options *options) {
    for (int rank = 0; rank < KILN_RANK_COUNT; rank++)
        for (kiln_conn *conn = loop->conns.by_rank[rank].oldest; conn; conn = conn->newer)
            if (conn->listen.boot == options->boot) /* each listener has its own copy */
                kiln_conn_fail_telling(conn, KILN_ERROR(UNAVAILABLE, "the listener was closed"));
}

/* ---- Turns ---- */

static void trim(void *context) {
    (void)context;
    kiln_alloc_trim();
}

static void trimmed(void *context) { (void)context; }

void kiln_strangers_turn(kiln_loop *loop) {
    const uint32_t count = kiln_strangers_count(loop);
    loop->strangers.most = KILN_MAX(loop->strangers.most, count);
    if (count > 0) return;
    if (loop->strangers.most >= KILN_NET_STRANGERS_TRIM) kiln_loop_work(loop, trim, trimmed, loop);
    loop->strangers.most = 0;
}

void kiln_strangers_warn(kiln_loop *loop, const kiln_listen_options *options) {
    const kiln_net_stats *now = &loop->conns.stats, *told = &loop->strangers.told;
    const uint64_t lost = now->crowded_out + now->no_descriptor + now->accept_errors;
    const uint64_t lost_before = told->crowded_out + told->no_descriptor + told->accept_errors;
    const uint64_t now_ns = kiln_clock_ns();
    if (!options->on_losses || lost == lost_before ||
        (loop->strangers.told_ns && now_ns - loop->strangers.told_ns < KILN_STRANGERS_WARN_NS))
        return;
    const kiln_net_stats since = {
#define X(name, doc) .name = now->name - told->name,
        KILN_NET_COUNTS(X)
#undef X
    };
    loop->strangers.told = *now;
    loop->strangers.told_ns = now_ns;
    options->on_losses(options->context, &since);
}

void kiln_loop_net_stats(const kiln_loop *loop, kiln_net_stats *out_stats) {
    *out_stats = loop->conns.stats;
    out_stats->strangers = kiln_strangers_count(loop);
    out_stats->known = loop->conns.accepted.count;
}
