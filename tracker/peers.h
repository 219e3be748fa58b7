/* Peers: the connections, and what is sent to them. */
#ifndef KILN_TRACKER_PEERS_H
#define KILN_TRACKER_PEERS_H

#include "base/map.h"
#include "base/sign/sign.h"
#include "tracker/effects.h"

#define KILN_TRACKER_SENT_BLOBS 8u /* newest outputs that a holder of leases may still fetch */

/* A connection. */
typedef struct kiln_tracker_peer {
    uint64_t id;
    uint32_t index; /* in kiln_tracker_peers.all */
    kiln_peer_role role;
    kiln_tracker_text node, boot;
    kiln_tracker_text name;             /* for people */
    bool is_owner, is_admin, is_proven; /* as in kiln_tracker_who */
    bool has_key;                       /* it has a key for its node */
    kiln_tracker_text person;           /* empty: not known */
    struct kiln_tracker_person *known;  /* of people */
    uint32_t version;                   /* of the protocol, as agreed */
    char software[64];                  /* program and version, for people */
    uint64_t heard_ns;
    bool closing;                              /* CLOSE was emitted: its messages are ignored */
    struct kiln_tracker_board *board;          /* a board's, after BOARD_UP */
    kiln_digest sent[KILN_TRACKER_SENT_BLOBS]; /* outputs of its trials, the newest ones */
    uint32_t sent_count;
    bool signs; /* of a tuner: it signs its records, as `signer` */
    kiln_sign_public signer;
    uint32_t jobs; /* of a tuner: its running jobs, as last counted */
} kiln_tracker_peer;

typedef struct kiln_tracker_peers {
    KILN_VEC(kiln_tracker_peer *) all;
    KILN_VEC(kiln_tracker_peer *) tuners; /* the tuners among `all` */
    kiln_map of_id;                       /* 8 bytes of id -> pointer */
    kiln_map of_node;        /* "ROLE/NODE" -> pointer: connected programs, not people */
    kiln_map holder_of_boot; /* peers that may hold leases: tuners, and people for their own jobs */
    uint64_t heard_until_ns; /* the tracker itself was able to hear until then */
} kiln_tracker_peers;

void kiln_tracker_peers_init(kiln_tracker *t, uint64_t now_ns);
void kiln_tracker_peers_free(kiln_tracker *t);
/* Adds an entry for a new connection. */
kiln_tracker_peer *kiln_tracker_peer_add(kiln_tracker *t, uint64_t id, const kiln_msg_hello *hello,
                                         const kiln_tracker_who *who);
/* Removes the entry of a closed connection. */
void kiln_tracker_peer_remove(kiln_tracker *t, kiln_tracker_peer *peer);
/* Registers the newest connection of a program. Returns its older connection; NULL: it had none. */
kiln_tracker_peer *kiln_tracker_peer_replace(kiln_tracker *t, kiln_tracker_peer *newer);
/* Lets the peer hold leases. */
void kiln_tracker_peer_may_hold(kiln_tracker *t, kiln_tracker_peer *peer);
void kiln_tracker_peer_heard(kiln_tracker *t, kiln_tracker_peer *peer);
/* Silence of peers does not count while the tracker itself was held up (by a busy or suspended
 * machine), because their messages were held up, too. Called before silence is judged. */
void kiln_tracker_peers_excuse(kiln_tracker *t);
/* Marks a peer whose connection has closed: it is found no more as a tuner or holder. */
void kiln_tracker_peer_closed(kiln_tracker_peer *peer);
void kiln_tracker_peer_set_board(kiln_tracker_peer *peer, struct kiln_tracker_board *board);
void kiln_tracker_peer_set_person(kiln_tracker_peer *peer, struct kiln_tracker_person *known);
void kiln_tracker_peer_set_jobs(kiln_tracker_peer *peer, uint32_t jobs);
/* Lets the holder of a lease fetch an output; NULL is fine. */
void kiln_tracker_peer_add_output(kiln_tracker_peer *holder, const kiln_digest *digest);

/* Sends a deep copy of `message`; nothing is sent to NULL or a closing peer. */
void kiln_tracker_send(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_send_error(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                             kiln_code code, kiln_str about, uint64_t lease, const char *format,
                             ...) KILN_PRINTF(7, 8);
/* The same with code and text of `status`, which is taken. */
void kiln_tracker_send_status(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                              kiln_str about, uint64_t lease, kiln_status status);
/* Sends the peer the reason and closes its connection. What it held is freed when CLOSED comes. */
void kiln_tracker_drop(kiln_tracker *t, kiln_tracker_peer *peer, kiln_code code, const char *text);
bool kiln_tracker_is_person(const kiln_tracker_peer *peer);
kiln_tracker_peer *kiln_tracker_peer_find(kiln_tracker *t, uint64_t id); /* NULL: it is gone */
/* The connected holder of leases with this boot; the connected tuner with this node. NULL: there is
 * none. */
kiln_tracker_peer *kiln_tracker_holder_by_boot(kiln_tracker *t, const char *boot);
kiln_tracker_peer *kiln_tracker_tuner_by_node(const kiln_tracker *t, const char *node);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_peers_check(const kiln_tracker *t);

#endif
