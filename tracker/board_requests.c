#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tracker/state.h"

#define SPEAKS_OF_LOGS 3u /* version of the protocol from which on boards send logs */

/* ---- Pings ---- */

/* Sends rows of PROBED; `last`: no more follow. */
static void send_rows(kiln_tracker *t, const kiln_tracker_probe *p, const kiln_msg_probe_row *row,
                      uint32_t count, bool last) {
    kiln_msg_probe_row copy[KILN_MESSAGES_PAGE];
    if (count) memcpy(copy, row, count * sizeof *row);
    kiln_message message = {.type = KILN_MSG_PROBED,
                            .stream = p->stream,
                            .probed = {.last = last, .version = KILN_PROTO_VERSION_MAX}};
    message.probed.boards.item = copy;
    message.probed.boards.count = count;
    kiln_tracker_send(t, p->peer, &message);
}

static kiln_msg_probe_row row_of(const kiln_tracker_board *board) {
    kiln_msg_probe_row row = {.node = kiln_str_from(board->node), .key = board->up.key};
    if (!board->peer) return row;
    row.software = kiln_str_from(board->peer->software);
    row.version = board->peer->version;
    return row;
}

static void tell_silence(kiln_tracker *t, const kiln_tracker_probe *p,
                         const kiln_tracker_board *board, const char *why, bool last) {
    kiln_msg_probe_row row = row_of(board);
    row.text = kiln_str_from(why);
    send_rows(t, p, &row, 1, last);
}

static void end_probe(kiln_tracker *t, kiln_tracker_probe *p) {
    kiln_tracker_remove(&t->board_requests.probes, p);
    kiln_vec_deinit(&p->waits);
    kiln_free(p);
}

/* Pings connected boards; reports the others as not connected. False: no board has that name. */
static bool ping_boards(kiln_tracker *t, kiln_tracker_probe *p, kiln_str name) {
    bool found = name.size == 0;
    kiln_message ping = {.type = KILN_MSG_PING, .ping = {.t_ns = p->number}};
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        kiln_tracker_board *board = t->boards.all.data[i];
        if (!board->known ||
            (name.size && !kiln_tracker_is_named(name, kiln_str_from(board->node), board->up.key)))
            continue;
        found = true;
        if (board->peer) {
            kiln_vec_push(&p->waits, board);
            kiln_tracker_send(t, board->peer, &ping);
        } else {
            tell_silence(t, p, board, "it is not connected", false);
        }
    }
    return found;
}

void kiln_tracker_probe_boards(kiln_tracker *t, kiln_tracker_peer *client,
                               const kiln_message *message) {
    uint32_t own = 0;
    for (uint32_t i = 0; i < t->board_requests.probes.count; i++)
        own += kiln_tracker_is_same_person(t->board_requests.probes.data[i]->peer, client);
    kiln_status st = kiln_tracker_quota_of_board_requests(t, own);
    if (!st && t->board_requests.probes.count >= KILN_TRACKER_BOARD_REQUESTS_MAX)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "%u pings are under way already",
                        t->board_requests.probes.count);
    if (st) {
        kiln_tracker_send_status(t, client, message->stream, (kiln_str){0}, 0, st);
        return;
    }
    kiln_tracker_probe *p = kiln_alloc(sizeof *p);
    p->peer = client;
    p->stream = message->stream;
    p->number = ++t->board_requests.last_number;
    p->sent_ns = t->effects.now_ns;
    p->wait_ms = message->probe.wait_ms;
    kiln_vec_push(&t->board_requests.probes, p);
    if (!ping_boards(t, p, message->probe.board)) {
        kiln_tracker_send_error(t, client, message->stream, KILN_NOT_FOUND, (kiln_str){0}, 0,
                                "there is no board %.*s", KILN_STR_ARG(message->probe.board));
        end_probe(t, p);
    } else if (p->waits.count == 0) {
        send_rows(t, p, NULL, 0, true);
        end_probe(t, p);
    }
}

/* Ends the wait for a board, which answered with `pong`, or, where that is NULL, did not because of
 * `why`. */
static void end_wait(kiln_tracker *t, kiln_tracker_probe *p, kiln_tracker_board *board,
                     const kiln_msg_pong *pong, const char *why) {
    kiln_tracker_remove(&p->waits, board);
    const bool last = p->waits.count == 0;
    if (pong) {
        kiln_msg_probe_row row = row_of(board);
        row.answered = true;
        row.round_trip_ns = t->effects.now_ns - p->sent_ns;
        row.clock = pong->wall_ns != 0;
        const double wall_ns = (double)kiln_tracker_wall_ns(t);
        if (row.clock)
            row.ahead_ms = ((double)pong->wall_ns - wall_ns + (double)row.round_trip_ns / 2) / 1e6;
        send_rows(t, p, &row, 1, last);
    } else {
        tell_silence(t, p, board, why, last);
    }
    if (last) end_probe(t, p);
}

static bool is_waited_for(const kiln_tracker_probe *p, const kiln_tracker_board *board) {
    for (uint32_t i = 0; i < p->waits.count; i++)
        if (p->waits.data[i] == board) return true;
    return false;
}

void kiln_tracker_pong(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    for (uint32_t i = 0; peer->board && i < t->board_requests.probes.count; i++) {
        kiln_tracker_probe *p = t->board_requests.probes.data[i];
        if (p->number != message->pong.t_ns || !is_waited_for(p, peer->board)) continue;
        end_wait(t, p, peer->board, &message->pong, NULL);
        return;
    }
}

void kiln_tracker_board_requests_tick(kiln_tracker *t) {
    for (uint32_t i = t->board_requests.probes.count; i-- > 0;) {
        kiln_tracker_probe *p = t->board_requests.probes.data[i];
        if (t->effects.now_ns - p->sent_ns < p->wait_ms * UINT64_C(1000000)) continue;
        char why[48];
        snprintf(why, sizeof why, "none came in %u ms", p->wait_ms);
        for (uint32_t left = p->waits.count; left-- > 0;)
            end_wait(t, p, p->waits.data[0], NULL, why); /* the last one frees the probe */
    }
}

/* ---- Logs ---- */

static kiln_tracker_log_reader *find_reader(const kiln_tracker *t, const kiln_tracker_peer *peer,
                                            uint32_t stream) {
    for (uint32_t i = 0; i < t->board_requests.log_readers.count; i++)
        if (t->board_requests.log_readers.data[i]->peer == peer &&
            t->board_requests.log_readers.data[i]->stream == stream)
            return t->board_requests.log_readers.data[i];
    return NULL;
}

static void ask_board(kiln_tracker *t, const kiln_tracker_log_reader *reader,
                      const kiln_msg_tail *what) {
    kiln_message message = {.type = KILN_MSG_TAIL,
                            .tail = {.since = what->since,
                                     .follow = what->follow,
                                     .stop = what->stop,
                                     .reader = reader->reader}};
    kiln_tracker_send(t, reader->board->peer, &message);
}

static void end_reader(kiln_tracker *t, kiln_tracker_log_reader *reader, bool tell_board) {
    if (tell_board) ask_board(t, reader, &(kiln_msg_tail){.stop = true});
    kiln_tracker_remove(&t->board_requests.log_readers, reader);
    kiln_free(reader);
}

static kiln_status refusal(kiln_tracker *t, const kiln_tracker_peer *client, kiln_str name,
                           const kiln_tracker_board *board) {
    uint32_t own = 0;
    for (uint32_t i = 0; i < t->board_requests.log_readers.count; i++)
        own += kiln_tracker_is_same_person(t->board_requests.log_readers.data[i]->peer, client);
    if (!board) return KILN_ERROR(NOT_FOUND, "there is no board %.*s", KILN_STR_ARG(name));
    if (!board->peer)
        return KILN_ERROR(UNAVAILABLE, "board %.*s is not connected", KILN_STR_ARG(name));
    if (board->peer->version < SPEAKS_OF_LOGS)
        return KILN_ERROR(UNIMPLEMENTED, "board %.*s runs %s, which is too old to show its log",
                          KILN_STR_ARG(name), board->peer->software);
    if (t->board_requests.log_readers.count >= KILN_TRACKER_BOARD_REQUESTS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u logs are read already",
                          t->board_requests.log_readers.count);
    return kiln_tracker_quota_of_board_requests(t, own);
}

void kiln_tracker_log_request(kiln_tracker *t, kiln_tracker_peer *client,
                              const kiln_message *message) {
    kiln_tracker_log_reader *reader = find_reader(t, client, message->stream);
    if (reader && message->tail.stop) {
        end_reader(t, reader, true);
        return;
    }
    if (!reader && !message->tail.stop) {
        kiln_tracker_board *board = kiln_tracker_board_named(t, message->tail.board);
        kiln_status st = refusal(t, client, message->tail.board, board);
        if (st) {
            kiln_tracker_send_status(t, client, message->stream, (kiln_str){0}, 0, st);
            return;
        }
        reader = kiln_alloc(sizeof *reader);
        *reader = (kiln_tracker_log_reader){client, message->stream,
                                            ++t->board_requests.last_number, board};
        kiln_vec_push(&t->board_requests.log_readers, reader);
    }
    if (reader) ask_board(t, reader, &message->tail);
}

void kiln_tracker_log_lines(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    for (uint32_t i = 0; i < t->board_requests.log_readers.count; i++) {
        const kiln_tracker_log_reader *reader = t->board_requests.log_readers.data[i];
        if (reader->reader != message->lines.reader || reader->board != peer->board) continue;
        kiln_message lines = *message;
        lines.stream = reader->stream;
        kiln_tracker_send(t, reader->peer, &lines);
        return;
    }
}

/* ---- Disconnected peers ---- */

void kiln_tracker_board_requests_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer) {
    for (uint32_t i = t->board_requests.probes.count; i-- > 0;) {
        kiln_tracker_probe *p = t->board_requests.probes.data[i];
        if (p->peer == peer)
            end_probe(t, p);
        else if (peer->board && is_waited_for(p, peer->board))
            end_wait(t, p, peer->board, NULL, "its connection closed");
    }
    for (uint32_t i = t->board_requests.log_readers.count; i-- > 0;) {
        kiln_tracker_log_reader *reader = t->board_requests.log_readers.data[i];
        const bool board_gone = peer->board && reader->board == peer->board;
        if (reader->peer != peer && !board_gone) continue;
        if (board_gone)
            kiln_tracker_send_error(t, reader->peer, reader->stream, KILN_UNAVAILABLE,
                                    (kiln_str){0}, 0, "board %.*s was lost",
                                    KILN_STR_ARG(reader->board->up.key));
        end_reader(t, reader, !board_gone);
    }
}

void kiln_tracker_board_requests_free(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->board_requests.probes.count; i++) {
        kiln_vec_deinit(&t->board_requests.probes.data[i]->waits);
        kiln_free(t->board_requests.probes.data[i]);
    }
    for (uint32_t i = 0; i < t->board_requests.log_readers.count; i++)
        kiln_free(t->board_requests.log_readers.data[i]);
    kiln_vec_deinit(&t->board_requests.probes);
    kiln_vec_deinit(&t->board_requests.log_readers);
}
