/* The messages between a server and its helper (rpc-server/helper.h) on a SOCK_SEQPACKET socket:
 * one setup, then requests and answers in turn. They are plain structs of fixed sizes, because both
 * ends are the same program. The helper uses a request only after kiln_helper_request_check has
 * accepted it. */
#ifndef KILN_RPC_SERVER_HELPER_REQUEST_H
#define KILN_RPC_SERVER_HELPER_REQUEST_H

#include <stdint.h>

#include "proto/net.h"
#include "rpc-server/executor.h"

#define KILN_HELPER_MAGIC UINT32_C(0x31484c4b) /* "KLH1" */
#define KILN_HELPER_TEXT_BYTES 512u
#define KILN_HELPER_PATH_BYTES 4096u
/* At the same time: a child per slot, killed ones, the spare, and the power cycle. */
#define KILN_HELPER_CHILDREN_MAX 64u

/* Sent once, before the server has received anything from a peer. */
typedef struct kiln_helper_setup {
    uint32_t magic;
    uint32_t slots;    /* for the memory limit of children */
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
    uint32_t code;   /* kiln_code; if not 0 `text` says why */
    uint32_t fences; /* answer to the setup: as kiln_helper_fences */
    uint32_t child;
    uint32_t ended, gone; /* LOOK */
    int32_t exit_code, exit_signal;
    char text[KILN_HELPER_TEXT_BYTES];
    kiln_credentials credentials;
} kiln_helper_answer;

typedef struct kiln_helper_limits {
    uint32_t addresses; /* number of addresses in the setup */
    uint32_t cores;     /* number of this machine's cores */
} kiln_helper_limits;

/* Checks a received request: its size, magic and row, that the fields of the row are within bounds
 * and all others 0, and the number of descriptors. Returns NULL, or what is wrong. The caller
 * checks that the child exists. */
const char *kiln_helper_request_check(const void *bytes, size_t size, uint32_t fd_count,
                                      const kiln_helper_limits *limits);

#endif
