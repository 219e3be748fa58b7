/* What the unprivileged half of a server and its helper (rpc-server/helper.h) say to each other
 * over a SOCK_SEQPACKET socket: one setup, then requests and their answers in turn. Plain structs
 * of fixed sizes, as both ends are the same program. The helper trusts nothing of a request before
 * kiln_helper_request_check has passed it. */
#ifndef KILN_RPC_SERVER_HELPER_REQUEST_H
#define KILN_RPC_SERVER_HELPER_REQUEST_H

#include <stdint.h>

#include "proto/net.h"
#include "rpc-server/executor.h"

#define KILN_HELPER_MAGIC UINT32_C(0x31484c4b) /* "KLH1" */
#define KILN_HELPER_TEXT_BYTES 512u
#define KILN_HELPER_PATH_BYTES 4096u
/* Alive at once: a child per slot, those that die, the spare, and the power cycle. */
#define KILN_HELPER_CHILDREN_MAX 64u

/* Said once, by a server that has heard of no peer yet. */
typedef struct kiln_helper_setup {
    uint32_t magic;
    uint32_t slots;    /* between which the machine's memory is shared */
    uint32_t insecure; /* needs no credentials */
    uint32_t has_key_file, is_emulated, has_power, has_drivers;
    kiln_addresses tracker;
    char program[KILN_HELPER_PATH_BYTES];
    char emulator[KILN_HELPER_PATH_BYTES];
    char home[KILN_HELPER_PATH_BYTES], key_file[KILN_HELPER_PATH_BYTES];
    char power[KILN_HELPER_PATH_BYTES], board[KILN_HELPER_TEXT_BYTES];
} kiln_helper_setup;

typedef enum kiln_helper_ask {
#define X(NAME, child, cores, address, driver, text, fd, doc) KILN_HELPER_##NAME,
#include "rpc-server/helper_requests.def"
#undef X
    KILN_HELPER_ASK_COUNT
} kiln_helper_ask;

typedef struct kiln_helper_request {
    uint32_t magic, ask;
    uint32_t child, address, driver;
    uint32_t core_count, core[KILN_EXECUTOR_CORES_MAX];
    char text[KILN_HELPER_TEXT_BYTES];
} kiln_helper_request;

typedef struct kiln_helper_answer {
    uint32_t magic;
    uint32_t code;   /* kiln_code; then `text` says why */
    uint32_t fences; /* of the setup: a bit per kiln_fence that control groups hold here */
    uint32_t child;
    uint32_t ended, gone; /* LOOK */
    int32_t exit_code, exit_signal;
    char text[KILN_HELPER_TEXT_BYTES];
    kiln_credentials credentials;
} kiln_helper_answer;

typedef struct kiln_helper_limits {
    uint32_t addresses; /* that the setup named */
    uint32_t cores;     /* of this machine: numbers below it */
} kiln_helper_limits;

/* Whether these bytes, with so many descriptors, are a request that may be looked at: size, magic,
 * row, and every field that the row has in its bounds, every other 0. NULL, or what is wrong.
 * Whether there is such a child only the helper knows. */
const char *kiln_helper_request_check(const void *bytes, size_t size, uint32_t fd_count,
                                      const kiln_helper_limits *limits);

#endif
