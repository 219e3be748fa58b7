/* A peer of bytes: it says what a test wants it to, also what no program of ours would say. */
#ifndef KILN_TESTS_PROTO_RAW_H
#define KILN_TESTS_PROTO_RAW_H

#include "tests/unit/proto/pair.h"

typedef struct raw_peer {
    pair *p;
    int fd;
    kiln_arena arena; /* of everything it has read */
    kiln_frame_reader reader;
    kiln_str input; /* read from the socket, not yet cut */
    char buffer[4096];
    bool closed; /* by the other side */
} raw_peer;

/* Connects to the pair's listener. */
void raw_dial(raw_peer *r, pair *p);
/* A port where nobody listens, told to the pair's dialling end, for as long as the socket lives. */
int raw_bind(pair *p);
/* In place of a tracker: listens there; accepts. */
int raw_listen(pair *p);
void raw_accept(raw_peer *r, pair *p, int listener);
/* A socket that is connected already. */
void raw_take(raw_peer *r, pair *p, int fd);
void raw_close(raw_peer *r);
void raw_send(raw_peer *r, kiln_str bytes);
void raw_say(raw_peer *r, const kiln_message *message);
void raw_send_data(raw_peer *r, uint32_t stream, size_t size, bool end);
/* HELLO with this version, with the pair's token up to version 4, a nonce from then on; raw_hello
 * answers CHALLENGE, and waits for WELCOME. */
void raw_say_hello(raw_peer *r, kiln_peer_role role, uint32_t version);
void raw_hello(raw_peer *r, kiln_peer_role role, uint32_t version);
/* Until there is something to read. */
void raw_wait(raw_peer *r);
/* The next frame, while the loop runs; false when the other side closed. Its body lives in `arena`.
 */
bool raw_read(raw_peer *r, kiln_frame *out_frame);
/* The next one is a message of that type; returns it decoded. */
kiln_message raw_expect(raw_peer *r, kiln_message_type type);
/* So many bytes of DATA come, and no more. */
void raw_expect_data(raw_peer *r, uint32_t stream, size_t size);

#endif
