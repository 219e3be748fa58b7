#include "proto/net/peer_identity.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"

#define PASSWD "/etc/passwd"
#define PASSWD_BYTES_MAX ((size_t)1 << 20)

void kiln_peer_user_name(kiln_str passwd, uint32_t uid, char out_name[KILN_PERSON_MAX + 1]) {
    kiln_str name = {0};
    while (passwd.size && name.size == 0) {
        kiln_str line = kiln_str_cut(&passwd, '\n'), first = kiln_str_cut(&line, ':');
        kiln_str_cut(&line, ':'); /* the password field */
        uint64_t number = 0;
        if (kiln_str_to_u64(kiln_str_cut(&line, ':'), &number) && number == uid) name = first;
    }
    kiln_strbuf text = {0};
    if (name.size)
        kiln_strbuf_str(&text, kiln_str_slice(name, 0, KILN_PERSON_MAX));
    else
        kiln_strbuf_printf(&text, "uid-%u", uid);
    memcpy(out_name, text.data, text.size + 1);
    kiln_strbuf_deinit(&text);
}

/* Reads the file: the name service may ask other machines, which takes time. */
static void find_user_name(uint32_t uid, char out_name[KILN_PERSON_MAX + 1]) {
    kiln_arena arena = {0};
    kiln_str passwd = {0};
    kiln_status_free(kiln_file_read(PASSWD, PASSWD_BYTES_MAX, &arena, &passwd)); /* then uid-N */
    kiln_peer_user_name(passwd, uid, out_name);
    kiln_arena_deinit(&arena);
}

/* ---- Address ---- */

static bool is_loopback(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    }
    static const uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
    struct sockaddr_in6 v6;
    memcpy(&v6, address, sizeof v6);
    return memcmp(&v6.sin6_addr, &in6addr_loopback, sizeof in6addr_loopback) == 0 ||
           memcmp(&v6.sin6_addr, mapped, sizeof mapped) == 0;
}

static void set_address_text(kiln_peer *peer, const char *text) {
    kiln_str cut = kiln_str_slice(kiln_str_from(text), 0, sizeof peer->address - 1);
    memcpy(peer->address, cut.data, cut.size);
}

void kiln_peer_set_address(kiln_peer *peer, const struct sockaddr_storage *address) {
    char host[INET6_ADDRSTRLEN] = "?";
    kiln_strbuf text = {0};
    struct sockaddr_in v4; /* the port is at the same place in both kinds */
    memcpy(&v4, address, sizeof v4);
    uv_ip_name((const struct sockaddr *)address, host, sizeof host);
    kiln_strbuf_printf(&text, address->ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
                       ntohs(v4.sin_port));
    set_address_text(peer, text.data);
    peer->is_loopback = is_loopback(address);
    kiln_strbuf_deinit(&text);
}

void kiln_peer_learn_address(kiln_conn *conn) {
    struct sockaddr_storage address = {0};
    int size = sizeof address;
    if (conn->socket->handle.type != UV_TCP) {
        conn->peer.is_loopback = true;
        set_address_text(&conn->peer, "unix");
    } else if (uv_tcp_getpeername(&conn->socket->tcp, (struct sockaddr *)&address, &size) == 0) {
        kiln_peer_set_address(&conn->peer, &address);
    }
}

/* ---- User ---- */

uint32_t kiln_socket_uid(const uv_pipe_t *pipe) {
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    uv_os_fd_t fd = -1;
    if (uv_fileno((const uv_handle_t *)pipe, &fd) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return KILN_UID_UNKNOWN;
    return (uint32_t)peer.uid;
}

void kiln_conn_identify(kiln_conn *conn, bool knows_token) {
    kiln_peer *peer = &conn->peer;
    const bool is_person = kiln_peer_is_person(peer->role);
    const uint32_t own = (uint32_t)geteuid();
    const kiln_key *key = kiln_conn_key(conn);
    if (key) {
        peer->is_admin = key->role == KILN_PEER_ADMIN;
        if (is_person) memcpy(peer->person, key->node, sizeof key->node);
        return;
    }
    if (conn->socket->handle.type != UV_TCP) peer->uid = kiln_socket_uid(&conn->socket->pipe);
    peer->is_owner = knows_token || peer->uid == own || peer->uid == 0;
    if (is_person && peer->uid != KILN_UID_UNKNOWN)
        find_user_name(peer->uid, peer->person);
    else if (is_person && knows_token)
        find_user_name(own, peer->person);
}

/* ---- Web servers ---- */

/* The tracker's own user, whose web server it is. */
static bool is_own_user(const kiln_peer *peer) {
    char own[KILN_PERSON_MAX + 1];
    find_user_name((uint32_t)geteuid(), own);
    return peer->is_owner && strcmp(peer->person, own) == 0;
}

/* The web server of the tracker's user has let this user in itself. */
static bool is_vouched(const kiln_peer *peer) { return peer->is_owner && !peer->signed_in[0]; }

static kiln_status find_person(const kiln_conn *conn, bool *out_admin) {
    const kiln_listen_options *listen = &conn->listen;
    if (!listen->find_person)
        return KILN_ERROR(UNAUTHENTICATED, "web servers cannot speak for people here");
    return listen->find_person(listen->context, &conn->peer, out_admin);
}

kiln_status kiln_conn_admit_web(kiln_conn *conn, const kiln_msg_hello *hello) {
    kiln_peer *peer = &conn->peer;
    bool is_admin = false;
    if (peer->role != KILN_PEER_WEB || hello->person.size == 0) return KILN_OK;
    peer->by_web = true;
    memcpy(peer->person, hello->person.data, hello->person.size);
    if (hello->signed_in.size)
        memcpy(peer->signed_in, hello->signed_in.data,
               KILN_MIN(hello->signed_in.size, sizeof peer->signed_in - 1));
    peer->is_owner = is_own_user(peer);
    kiln_status st = is_vouched(peer) ? KILN_OK : find_person(conn, &is_admin);
    if (st) return st;
    peer->is_admin = is_admin;
    peer->role = is_admin || peer->is_owner ? KILN_PEER_ADMIN : KILN_PEER_CLIENT;
    return KILN_OK;
}

kiln_status kiln_conn_check_person(const kiln_conn *conn) {
    const kiln_peer *peer = &conn->peer;
    bool is_admin = false;
    if (!peer->by_web || is_vouched(peer)) return KILN_OK;
    kiln_status st = find_person(conn, &is_admin);
    if (!st && is_admin != peer->is_admin)
        st = KILN_ERROR(UNAUTHENTICATED, "the rights of %s have changed: sign in again",
                        peer->person);
    return st;
}
