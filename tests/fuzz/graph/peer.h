/* Another runtime's word on a graph: a process that is told folders, a line each, and answers each
 * with a line (tests/fuzz/graph_onnxruntime.py):
 *
 *     agrees | refuses REASON | differs WHERE
 *
 * Known and explained differences are listed there and beside the operators' draw functions
 * (peer_may_differ). */
#ifndef KILN_TESTS_FUZZ_GRAPH_PEER_H
#define KILN_TESTS_FUZZ_GRAPH_PEER_H

#include <stdio.h>
#include <sys/types.h>

#include "base/status.h"
#include "tests/fuzz/graph/graph.h"

typedef enum fuzz_opinion {
    FUZZ_PEER_AGREES,
    FUZZ_PEER_REFUSES,
    FUZZ_PEER_DIFFERS,
    FUZZ_PEER_DIED
} fuzz_opinion;

typedef struct fuzz_peer {
    pid_t pid; /* 0: there is none */
    FILE *to, *from;
    char *folder;
    kiln_arena arena;
} fuzz_peer;

/* Starts `python` with `script`. NOT_FOUND: it cannot be started. */
KILN_MUST_USE kiln_status fuzz_peer_start(fuzz_peer *peer, const char *python, const char *script);
void fuzz_peer_stop(fuzz_peer *peer); /* accepts a zeroed one */
/* Writes the part for the peer and asks it. `why` gets its reason. */
KILN_MUST_USE kiln_status fuzz_peer_ask(fuzz_peer *peer, const fuzz_graph *g, const fuzz_part *part,
                                        fuzz_opinion *out_opinion, kiln_strbuf *why);

#endif
