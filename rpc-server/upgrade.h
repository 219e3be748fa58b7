/* A board's part in an upgrade of the fleet (docs/decisions/0153-rolling-upgrades.md has the
 * states). Pure; part of the step of rpc-server/server.h. The launcher (rpc-server/launcher.h)
 * replaces the program; a board without one takes no releases. */
#ifndef KILN_RPC_SERVER_UPGRADE_H
#define KILN_RPC_SERVER_UPGRADE_H

#include "base/arena.h"
#include "base/sign/release.h"
#include "rpc-server/server.h"

#define KILN_SERVER_UPGRADE_FETCHES 3u /* failed ones in a connection, then it has failed */
#define KILN_SERVER_UPGRADE_RETRY_NS UINT64_C(1000000000)

typedef enum kiln_server_upgrade_state {
    KILN_SERVER_UPGRADE_NONE,
    KILN_SERVER_UPGRADE_FETCHING,
    KILN_SERVER_UPGRADE_READY,
    KILN_SERVER_UPGRADE_ENDING,    /* restarts once no trial and no result is left */
    KILN_SERVER_UPGRADE_ENDED,     /* the launcher was told; this process ends */
    KILN_SERVER_UPGRADE_ON_TRIAL,  /* this is the new version */
    KILN_SERVER_UPGRADE_CONFIRMED, /* the launcher was told; it replaces the program */
    KILN_SERVER_UPGRADE_DONE,
    KILN_SERVER_UPGRADE_FAILED,
    KILN_SERVER_UPGRADE_REFUSED,
} kiln_server_upgrade_state;

typedef struct kiln_server_upgrade {
    kiln_server_upgrade_state state;
    uint64_t number; /* of the upgrade, for the tracker */
    kiln_arena arena;
    kiln_str statement; /* about the archive, checked; in `arena` */
    kiln_digest archive;
    uint32_t wait_s;
    bool is_fetching;
    uint32_t fetch_failures;
    uint64_t fetch_again_ns; /* when the next fetch begins; UINT64_MAX: one is under way */
    char text[KILN_MESSAGES_NAME + 1U]; /* why it failed or was refused */
    /* Of the whole run. */
    kiln_release_keys keys; /* none: it takes no releases */
    char version[KILN_RELEASE_WORD_MAX];
} kiln_server_upgrade;

void kiln_server_upgrade_init(kiln_server_upgrade *upgrade, const kiln_server_options *options);
void kiln_server_upgrade_deinit(kiln_server_upgrade *upgrade);
void kiln_server_upgrade_ordered(kiln_server *s, const kiln_msg_upgrade *order);
void kiln_server_upgrade_fetched(kiln_server *s, const kiln_server_event *event);
/* The launcher's answer to RESTART, which comes on failure only, or CONFIRM. */
void kiln_server_upgrade_answered(kiln_server *s, const char *failure);
/* A connection is open. */
void kiln_server_upgrade_opened(kiln_server *s);
void kiln_server_upgrade_tick(kiln_server *s);
uint64_t kiln_server_upgrade_next_ns(const kiln_server *s);
/* Whether the launcher ends this process, so that no self-check starts. */
bool kiln_server_upgrade_is_ending(const kiln_server *s);

#endif
