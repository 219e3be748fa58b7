#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "tracker/state.h"

bool kiln_tracker_is_person(const kiln_tracker_peer *peer) {
    return kiln_peer_is_person(peer->role);
}

void kiln_tracker_send(kiln_tracker *t, const kiln_tracker_peer *peer,
                       const kiln_message *message) {
    if (!peer || peer->closing) return;
    kiln_tracker_action *action = kiln_tracker_add_action(t, KILN_TRACKER_SEND);
    action->peer = peer->id;
    action->message = kiln_message_copy(message, &t->effects.actions->arena);
}

void kiln_tracker_send_error(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                             kiln_code code, kiln_str about, uint64_t lease, const char *format,
                             ...) {
    kiln_strbuf text = {0};
    va_list args;
    va_start(args, format);
    kiln_strbuf_vprintf(&text, format, args);
    va_end(args);
    kiln_message message = kiln_message_error(code, stream, text.data);
    message.error.about = about;
    message.error.lease = lease;
    kiln_tracker_send(t, peer, &message);
    kiln_strbuf_deinit(&text);
}

void kiln_tracker_send_status(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                              kiln_str about, uint64_t lease, kiln_status status) {
    kiln_tracker_send_error(t, peer, stream, kiln_status_code(status), about, lease, "%s",
                            kiln_status_text(status));
    kiln_status_free(status);
}

void kiln_tracker_drop(kiln_tracker *t, kiln_tracker_peer *peer, kiln_code code, const char *text) {
    if (peer->closing) return;
    peer->closing = true;
    kiln_tracker_action *action = kiln_tracker_add_action(t, KILN_TRACKER_CLOSE);
    action->peer = peer->id;
    action->code = code;
    action->text = kiln_str_dup(&t->effects.actions->arena, kiln_str_from(text));
}

/* ---- Where they are found ---- */

kiln_tracker_peer *kiln_tracker_peer_find(kiln_tracker *t, uint64_t id) {
    return kiln_tracker_find(&t->peers.of_id, kiln_tracker_number_key(&id));
}

kiln_tracker_peer *kiln_tracker_holder_by_boot(kiln_tracker *t, const char *boot) {
    kiln_tracker_peer *holder = kiln_tracker_find(&t->peers.holder_of_boot, kiln_str_from(boot));
    return holder && !holder->closing ? holder : NULL;
}

kiln_tracker_peer *kiln_tracker_tuner_by_node(const kiln_tracker *t, const char *node) {
    for (uint32_t i = 0; i < t->peers.tuners.count; i++) {
        kiln_tracker_peer *tuner = t->peers.tuners.data[i];
        if (!tuner->closing && strcmp(tuner->node, node) == 0) return tuner;
    }
    return NULL;
}

static kiln_str node_key(const kiln_tracker_peer *peer, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%d/%s", (int)peer->role, peer->node);
    return kiln_strbuf_view(out);
}

void kiln_tracker_peer_remove(kiln_tracker *t, kiln_tracker_peer *peer) {
    kiln_strbuf name = {0};
    kiln_str key = node_key(peer, &name);
    if (kiln_tracker_find(&t->peers.of_node, key) == peer) kiln_map_remove(&t->peers.of_node, key);
    kiln_strbuf_deinit(&name);
    key = kiln_str_from(peer->boot);
    if (kiln_tracker_find(&t->peers.holder_of_boot, key) == peer)
        kiln_map_remove(&t->peers.holder_of_boot, key);
    kiln_map_remove(&t->peers.of_id, kiln_tracker_number_key(&peer->id));
    kiln_tracker_peer *last = kiln_vec_pop(&t->peers.all);
    t->peers.all.data[peer->index] = last; /* which may be itself */
    last->index = peer->index;
    if (peer->role == KILN_PEER_TUNER) kiln_tracker_remove(&t->peers.tuners, peer);
    kiln_free(peer);
}

/* ---- Coming and going ---- */

void kiln_tracker_peers_init(kiln_tracker *t, uint64_t now_ns) {
    kiln_map_init(&t->peers.of_id);
    kiln_map_init(&t->peers.of_node);
    kiln_map_init(&t->peers.holder_of_boot);
    t->peers.heard_until_ns = now_ns;
}

void kiln_tracker_peers_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->peers.all.count; i++) kiln_free(t->peers.all.data[i]);
    kiln_vec_deinit(&t->peers.all);
    kiln_vec_deinit(&t->peers.tuners);
    kiln_map_deinit(&t->peers.of_id);
    kiln_map_deinit(&t->peers.of_node);
    kiln_map_deinit(&t->peers.holder_of_boot);
}

kiln_tracker_peer *kiln_tracker_peer_add(kiln_tracker *t, uint64_t id, const kiln_msg_hello *hello,
                                         const kiln_tracker_who *who) {
    KILN_CHECK(kiln_tracker_peer_find(t, id) == NULL);
    kiln_tracker_peer *peer = kiln_alloc(sizeof *peer);
    peer->is_owner = who->is_owner;
    peer->is_admin = who->is_admin;
    peer->is_proven = who->is_proven;
    peer->has_key = who->has_key;
    kiln_tracker_set_text(peer->person, kiln_str_from(who->person));
    peer->id = id;
    peer->role = (kiln_peer_role)hello->role;
    peer->heard_ns = t->effects.now_ns;
    kiln_tracker_set_text(peer->node, hello->node);
    kiln_tracker_set_text(peer->boot, hello->boot);
    kiln_tracker_set_text(peer->name, hello->name);
    peer->version = KILN_MIN(hello->version_max, KILN_PROTO_VERSION_MAX);
    kiln_tracker_copy_text(peer->software, sizeof peer->software, hello->software);
    peer->signs = hello->signer.size == sizeof peer->signer.byte;
    if (peer->signs) memcpy(peer->signer.byte, hello->signer.data, sizeof peer->signer.byte);
    peer->index = t->peers.all.count;
    kiln_vec_push(&t->peers.all, peer);
    if (peer->role == KILN_PEER_TUNER) kiln_vec_push(&t->peers.tuners, peer);
    kiln_map_put(&t->peers.of_id, kiln_tracker_number_key(&peer->id), (uintptr_t)peer);
    return peer;
}

kiln_tracker_peer *kiln_tracker_peer_replace(kiln_tracker *t, kiln_tracker_peer *newer) {
    kiln_strbuf name = {0};
    kiln_str key = node_key(newer, &name);
    kiln_tracker_peer *older = kiln_tracker_find(&t->peers.of_node, key);
    kiln_map_put(&t->peers.of_node, key, (uintptr_t)newer);
    kiln_strbuf_deinit(&name);
    return older && !older->closing ? older : NULL;
}

void kiln_tracker_peer_may_hold(kiln_tracker *t, kiln_tracker_peer *peer) {
    kiln_map_put(&t->peers.holder_of_boot, kiln_str_from(peer->boot), (uintptr_t)peer);
}

void kiln_tracker_peer_heard(kiln_tracker *t, kiln_tracker_peer *peer) {
    peer->heard_ns = t->effects.now_ns;
}

void kiln_tracker_peers_excuse(kiln_tracker *t) {
    const uint64_t now_ns = t->effects.now_ns, held_up_ns = now_ns - t->peers.heard_until_ns;
    if (held_up_ns > KILN_LINK_HEARTBEAT_NS)
        for (uint32_t i = 0; i < t->peers.all.count; i++)
            t->peers.all.data[i]->heard_ns =
                KILN_MIN(t->peers.all.data[i]->heard_ns + held_up_ns, now_ns);
    t->peers.heard_until_ns = now_ns;
}

void kiln_tracker_peer_closed(kiln_tracker_peer *peer) { peer->closing = true; }

void kiln_tracker_peer_set_board(kiln_tracker_peer *peer, struct kiln_tracker_board *board) {
    peer->board = board;
}

void kiln_tracker_peer_set_person(kiln_tracker_peer *peer, struct kiln_tracker_person *known) {
    peer->known = known;
}

void kiln_tracker_peer_set_jobs(kiln_tracker_peer *peer, uint32_t jobs) { peer->jobs = jobs; }

void kiln_tracker_peer_add_output(kiln_tracker_peer *holder, const kiln_digest *digest) {
    if (holder && !kiln_digest_is_none(digest))
        holder->sent[holder->sent_count++ % KILN_TRACKER_SENT_BLOBS] = *digest;
}

/* ---- Invariants ---- */

void kiln_tracker_peers_check(const kiln_tracker *t) {
    uint32_t tuners = 0;
    for (uint32_t i = 0; i < t->peers.all.count; i++) {
        const kiln_tracker_peer *peer = t->peers.all.data[i];
        KILN_CHECK(peer->index == i);
        KILN_CHECK(kiln_tracker_find(&t->peers.of_id, kiln_tracker_number_key(&peer->id)) == peer);
        tuners += peer->role == KILN_PEER_TUNER;
    }
    KILN_CHECK(tuners == t->peers.tuners.count);
}
