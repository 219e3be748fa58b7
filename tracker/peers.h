/* Connections: who is there, and what is sent to it. */
#ifndef KILN_TRACKER_PEERS_H
#define KILN_TRACKER_PEERS_H

#include "base/map.h"
#include "base/sign/sign.h"
#include "tracker/effects.h"

#define KILN_TRACKER_SENT_BLOBS 8u /* outputs that a holder may still fetch */

/* A connection. */
typedef struct kiln_tracker_peer {
    uint64_t id;
    uint32_t index; /* in kiln_tracker_peers.all */
    kiln_peer_role role;
    kiln_tracker_text node, boot;
    kiln_tracker_text name;             /* for people */
    bool is_owner, is_admin, is_proven; /* as in kiln_tracker_who */
    bool has_key;                       /* its node is that of a key */
    kiln_tracker_text person;           /* empty: nobody that is known */
    struct kiln_tracker_person *known;  /* of people */
    uint32_t version;                   /* of the protocol, that both sides speak */
    char software[64];                  /* program and version, for people */
    uint64_t heard_ns;
    bool closing;                     /* CLOSE was emitted; nothing from it counts any more */
    struct kiln_tracker_board *board; /* of a board, after BOARD_UP */
    kiln_digest sent[KILN_TRACKER_SENT_BLOBS]; /* outputs of its trials, the newest ones */
    uint32_t sent_count;
    bool signs; /* of a tuner: it said whose signature its records carry: */
    kiln_sign_public signer;
    uint32_t jobs; /* of a tuner: those it has, as of the last look at all jobs */
} kiln_tracker_peer;

typedef struct kiln_tracker_peers {
    KILN_VEC(kiln_tracker_peer *) all;
    KILN_VEC(kiln_tracker_peer *) tuners; /* those of `all` that are one */
    kiln_map of_id;                       /* 8 bytes of id -> pointer */
    kiln_map of_node;        /* "ROLE/NODE" -> pointer: programs, not people, that are connected */
    kiln_map holder_of_boot; /* who may hold leases: tuners, and people for jobs of their own */
    uint64_t heard_until_ns; /* the tracker itself was there to hear until then */
} kiln_tracker_peers;

void kiln_tracker_peers_init(kiln_tracker *t, uint64_t now_ns);
void kiln_tracker_peers_free(kiln_tracker *t);
/* An entry for a new connection, which is not there yet. */
kiln_tracker_peer *kiln_tracker_peer_add(kiln_tracker *t, uint64_t id, const kiln_msg_hello *hello,
                                         const kiln_tracker_who *who);
/* Its connection is gone, and the entry goes with it. */
void kiln_tracker_peer_remove(kiln_tracker *t, kiln_tracker_peer *peer);
/* The program takes the place of its older connection, which is returned; NULL: there is none. */
kiln_tracker_peer *kiln_tracker_peer_replace(kiln_tracker *t, kiln_tracker_peer *newer);
/* It may hold leases. */
void kiln_tracker_peer_may_hold(kiln_tracker *t, kiln_tracker_peer *peer);
void kiln_tracker_peer_heard(kiln_tracker *t, kiln_tracker_peer *peer);
/* Silence counts while the tracker itself was there to hear: what held it up (a busy machine, a
 * suspended one) held up the peers' words too. Called before silence is judged. */
void kiln_tracker_peers_excuse(kiln_tracker *t);
/* It is closed already: it is no tuner to be found any more. */
void kiln_tracker_peer_closed(kiln_tracker_peer *peer);
void kiln_tracker_peer_set_board(kiln_tracker_peer *peer, struct kiln_tracker_board *board);
void kiln_tracker_peer_set_person(kiln_tracker_peer *peer, struct kiln_tracker_person *known);
void kiln_tracker_peer_set_jobs(kiln_tracker_peer *peer, uint32_t jobs);
/* An output that the holder of a lease may fetch now; a NULL holder swallows it. */
void kiln_tracker_peer_add_output(kiln_tracker_peer *holder, const kiln_digest *digest);

/* Sends a deep copy of `message`; a NULL peer swallows it. */
void kiln_tracker_send(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_send_error(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                             kiln_code code, kiln_str about, uint64_t lease, const char *format,
                             ...) KILN_PRINTF(7, 8);
/* The same with code and text of `status`, which is taken. */
void kiln_tracker_send_status(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                              kiln_str about, uint64_t lease, kiln_status status);
/* Tells the peer why and has its connection closed. What it held is dropped when CLOSED comes. */
void kiln_tracker_drop(kiln_tracker *t, kiln_tracker_peer *peer, kiln_code code, const char *text);
bool kiln_tracker_is_person(const kiln_tracker_peer *peer);
kiln_tracker_peer *kiln_tracker_peer_find(kiln_tracker *t, uint64_t id); /* NULL: gone */
/* The connected holder of leases with this boot, tuner with this node; NULL. */
kiln_tracker_peer *kiln_tracker_holder_by_boot(kiln_tracker *t, const char *boot);
kiln_tracker_peer *kiln_tracker_tuner_by_node(const kiln_tracker *t, const char *node);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_peers_check(const kiln_tracker *t);

#endif
