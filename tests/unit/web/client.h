/* An HTTP client on sockets for tests of web/, whose server runs in the same thread. */
#ifndef KILN_TESTS_UNIT_WEB_CLIENT_H
#define KILN_TESTS_UNIT_WEB_CLIENT_H

#include "base/str.h"
#include "proto/loop.h"

/* Of a request that is sent whole and answered whole. */
#define CLOSE "Host: localhost\r\nConnection: close\r\n\r\n"

/* A connection to a port of this machine that does not block. */
int client_dial(unsigned port);
/* Sends all of it while the loop runs; false: the server has closed the connection. */
bool client_send(kiln_loop *loop, int fd, kiln_str text);
/* What comes until the server closes; closes `fd`. */
kiln_strbuf client_receive(kiln_loop *loop, int fd);
/* What comes until `end` stands at its end. */
kiln_strbuf client_receive_until(kiln_loop *loop, int fd, const char *end);
/* Sends `request`, and expects an answer with that beginning, that contains a text. */
void client_expect(kiln_loop *loop, unsigned port, const char *request, const char *begins,
                   const char *contains);

#endif
