/* A server's step under test, with what its shell would do: for tests of server.c and trials.c. */
#ifndef KILN_TESTS_UNIT_RPC_SERVER_BENCH_H
#define KILN_TESTS_UNIT_RPC_SERVER_BENCH_H

#include "base/clock.h"
#include "rpc-server/server.h"
#include "tests/support/test.h"

#define BENCH_MEMORY_BYTES ((uint64_t)8 << 20) /* of the board */
#define BENCH_MS KILN_NS_PER_MS
#define BENCH_S KILN_NS_PER_S

/* The last actions, and what a shell would remember. */
typedef struct bench {
    kiln_server *server;
    kiln_server_actions actions; /* of the last step */
    uint64_t now_ns;
    uint64_t run; /* of the last START */
} bench;

void bench_step(bench *b, const kiln_server_event *event);
void bench_tick_after(bench *b, uint64_t ns);
/* The same while the tracker is there. */
void bench_tick_heard(bench *b, uint64_t ns);
void bench_say(bench *b, const kiln_message *message);
/* In the actions of the last step; NULL: there is none. */
const kiln_server_action *bench_find(const bench *b, kiln_server_action_kind kind);
const kiln_message *bench_find_sent(const bench *b, kiln_message_type type);
int bench_set_up(void **state);
int bench_tear_down(void **state);
#define test_with_bench(f) cmocka_unit_test_setup_teardown(f, bench_set_up, bench_tear_down)
void bench_connect_to_tracker(bench *b);
/* Another server in its place that checks itself, connected; its first check has begun. */
void bench_check_itself(bench *b);
void bench_checked(bench *b, uint64_t run, const char *failure);
kiln_digest bench_digest(uint8_t first);
kiln_message bench_trial(const char *id, uint64_t lease, uint32_t slot);
void bench_fetched(bench *b, uint8_t first, const char *failure);
/* A trial that has its blobs; the reference is 1, the artefact is named by the trial's first
 * letter. */
void bench_send_trial(bench *b, const char *id, uint64_t lease, uint32_t slot);
/* The child of the last START is done; dies. */
void bench_finish(bench *b, uint32_t slot);
void bench_die(bench *b, uint32_t slot, const char *text);

#endif
