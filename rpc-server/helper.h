/* The helper of a server: a process that keeps the server's rights (root's, if it has them) and
 * takes requests from the server only. It starts contained children (rpc-server/zygote.h), makes
 * and removes their control groups, kills and reaps them, reads the keys, opens the tracker's Unix
 * socket, and runs the owner's --power-cycle command. Its requests are a table,
 * rpc-server/helper_requests.def. The server process, which talks TLS, zstd and msgpack with the
 * tracker, reads manifests and compares outputs, gives its rights up (rpc-server/privilege.h): it
 * cannot signal, trace or read children, and knows them only by the helper's numbers, not by
 * process numbers.
 *
 * The helper and its children start with an empty environment and no descriptor but their sockets.
 * The helper ends, with all children, when the server ends. Without root it has the rights of the
 * user who started the server. One thread; each call waits for the answer. */
#ifndef KILN_RPC_SERVER_HELPER_H
#define KILN_RPC_SERVER_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/child.h"
#include "base/macros.h"
#include "base/status.h"
#include "proto/net.h"
#include "rpc-server/driver.h"

typedef struct kiln_helper kiln_helper;

typedef struct kiln_helper_options {
    const char *program;  /* path of this program */
    const char *emulator; /* under which this program runs (base/proc.h); NULL: none */
    const char *label; /* shown on its command line, so that users can tell which server's it is */
    uint32_t slots;    /* for the memory limit of children; 0: one */
    kiln_addresses tracker;    /* whose credentials and sockets it gives out */
    const char *home;          /* folder of the loopback token and the key; NULL: none */
    const char *key_file;      /* NULL: the one in `home` */
    bool insecure;             /* dials without credentials */
    bool drivers;              /* children may open devices (rpc-server/driver.h) */
    const char *power, *board; /* --power-cycle command (NULL: none), and name for it */
} kiln_helper_options;

/* Starts the helper and waits until it is ready. Strings are copied. INVALID_ARGUMENT: a path is
 * too long; NOT_FOUND, PERMISSION_DENIED: of the program; RESOURCE_EXHAUSTED: no processes or
 * descriptors; UNAVAILABLE: the helper ended. */
KILN_MUST_USE kiln_status kiln_helper_open(const kiln_helper_options *options,
                                           kiln_helper **out_helper);
/* Ends the helper and all its children, and waits for its end. NULL is fine. */
void kiln_helper_close(kiln_helper *helper);

/* A bit per kiln_fence that control groups and the helper's own filter hold here. */
uint32_t kiln_helper_fences(const kiln_helper *helper);
pid_t kiln_helper_pid(const kiln_helper *helper);
/* The socket to the helper, for tests. */
int kiln_helper_socket(const kiln_helper *helper);

/* A child of the helper. Number 0: none. */
typedef struct kiln_held {
    uint32_t number;
    int pidfd; /* readable once the child has ended; the caller closes it */
} kiln_held;

/* Starts a contained child (rpc-server/sandboxed_child.h) that may open a device of `driver` (NULL:
 * none). `*out_socket` is the caller's end of its socket, non-blocking. RESOURCE_EXHAUSTED,
 * PERMISSION_DENIED: this machine's fault; UNAVAILABLE: the helper has ended. */
KILN_MUST_USE kiln_status kiln_helper_start(kiln_helper *helper, const kiln_driver *driver,
                                            int *out_socket, kiln_held *out_child);
/* Starts the --power-cycle command. NOT_FOUND: there is none; FAILED_PRECONDITION: it already runs.
 */
KILN_MUST_USE kiln_status kiln_helper_power(kiln_helper *helper, const char *reason,
                                            kiln_held *out_child);
/* These accept number 0. */
void kiln_helper_keep_to(kiln_helper *helper, uint32_t child, const uint32_t *core,
                         uint32_t core_count);
void kiln_helper_kill(kiln_helper *helper, uint32_t child);
void kiln_helper_release(kiln_helper *helper, uint32_t child);
typedef struct kiln_helper_seen {
    bool ended, gone; /* gone: no process of it or of its control group is left */
    kiln_child_exit exit;
} kiln_helper_seen;
/* If the helper has ended the child counts as killed, because the helper kills all children. */
kiln_helper_seen kiln_helper_look(kiln_helper *helper, uint32_t child);

/* Removes a folder of this process' user and the files that ended children left in it, which this
 * process may not be allowed to remove. Follows no link. Errors of kiln_folder_remove. */
KILN_MUST_USE kiln_status kiln_helper_remove_folder(kiln_helper *helper, const char *path);

/* Credentials for the tracker's address of that index. Errors of kiln_credentials_load. */
KILN_MUST_USE kiln_status kiln_helper_credentials(kiln_helper *helper, uint32_t address,
                                                  kiln_credentials *out_credentials);
/* Replaces the key in the key file: errors of kiln_key_take. */
KILN_MUST_USE kiln_status kiln_helper_take_key(kiln_helper *helper, const kiln_key *next);
/* Connects to the Unix socket of the tracker's address of that index. Errors of the system. */
KILN_MUST_USE kiln_status kiln_helper_connect(kiln_helper *helper, uint32_t address, int *out_fd);

/* Whether this process was started as a helper or a contained child (rpc-server/sandboxed_child.h),
 * and their main function. */
bool kiln_helper_is_asked(int argc, char **argv);
KILN_NORETURN void kiln_helper_main(int argc, char **argv);

#endif
