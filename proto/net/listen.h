/* What the listeners of a loop share. */
#ifndef KILN_PROTO_NET_LISTEN_H
#define KILN_PROTO_NET_LISTEN_H

#include "proto/net.h"

/* Connections accepted in one turn: each costs some 20 us, and the loop goes on in between. */
#define KILN_NET_ACCEPTS_PER_TURN 64u

typedef struct kiln_listeners {
    kiln_listener *first;
    uint32_t accepts_left; /* in this turn */
    uint32_t waiting;      /* listeners with a connection to accept in the next turn */
} kiln_listeners;

/* A new turn. */
void kiln_listeners_go_on(kiln_loop *loop);

#endif
