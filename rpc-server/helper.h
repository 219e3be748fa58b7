/* The helper of a server: a process of its own that keeps the server's rights, if it has some, and
 * listens to nobody but it. Children are the helper's: it starts them (rpc-server/zygote.h), makes
 * and removes their control groups, kills and reaps them; it also reads the keys, opens the
 * tracker's Unix socket and runs the owner's --power-cycle command. What it may be asked is a
 * table, rpc-server/helper_requests.def. The other half, which talks TLS, zstd and msgpack with the
 * tracker, reads manifests and compares outputs, gives its rights up (rpc-server/privilege.h): it
 * cannot signal, trace or read its children, and has no number of a process, only the helper's own.
 *
 * The helper starts with an empty environment and no descriptor but its socket; so do its children.
 * It ends, with all children, when the server does. Without root everything is the same, with the
 * rights of the user who started the server. One thread; each call waits for the answer. */
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
    const char *program;    /* path of this one */
    const char *emulator;   /* that it runs under (base/proc.h); NULL: none */
    const char *label;      /* what its command line shows, so that people can tell whose it is */
    uint32_t slots;         /* between which the machine's memory is shared; 0: one */
    kiln_addresses tracker; /* none: nothing can be dialled */
    const char *home;       /* of the loopback token and the key; NULL: none */
    const char *key_file;   /* NULL: the one in `home` */
    bool insecure;          /* no credentials */
    bool drivers;           /* children will see the files of drivers (rpc-server/driver.h) */
    const char *power, *board; /* command that switches the board off and on; NULL: none */
} kiln_helper_options;

/* Starts it and waits until it is ready. Strings are copied. INVALID_ARGUMENT: a path is too long;
 * NOT_FOUND, PERMISSION_DENIED: the program; RESOURCE_EXHAUSTED: no processes or descriptors;
 * UNAVAILABLE: it ended. */
KILN_MUST_USE kiln_status kiln_helper_open(const kiln_helper_options *options,
                                           kiln_helper **out_helper);
/* Ends it, with all children, and waits until it is gone. NULL is fine. */
void kiln_helper_close(kiln_helper *helper);

/* Fences that its control groups hold here: a bit per kiln_fence. */
uint32_t kiln_helper_fences(const kiln_helper *helper);
pid_t kiln_helper_pid(const kiln_helper *helper);
/* The socket to it: for tests, and for a watch that sees its end. */
int kiln_helper_socket(const kiln_helper *helper);

/* A child of the helper. Zeroed: none. */
typedef struct kiln_held {
    uint32_t number;
    int pidfd; /* readable when it has ended; the caller closes it */
} kiln_held;

/* A contained child (rpc-server/sandboxed_child.h), of those that open a device of `driver`, unless
 * that is NULL; `*out_socket` is the caller's end of its socket, non-blocking. RESOURCE_EXHAUSTED,
 * PERMISSION_DENIED: this machine's fault; UNAVAILABLE: the helper is gone. */
KILN_MUST_USE kiln_status kiln_helper_start(kiln_helper *helper, const kiln_driver *driver,
                                            int *out_socket, kiln_held *out_child);
/* The --power-cycle command. NOT_FOUND: there is none; FAILED_PRECONDITION: it runs already. */
KILN_MUST_USE kiln_status kiln_helper_power(kiln_helper *helper, const char *reason,
                                            kiln_held *out_child);
/* Number 0 is fine in all of these. */
void kiln_helper_keep_to(kiln_helper *helper, uint32_t child, const uint32_t *core,
                         uint32_t core_count);
void kiln_helper_kill(kiln_helper *helper, uint32_t child);
void kiln_helper_release(kiln_helper *helper, uint32_t child);
typedef struct kiln_helper_seen {
    bool ended, gone; /* gone: nothing is left of it, nor of its control group */
    kiln_child_exit exit;
} kiln_helper_seen;
/* Where the helper is gone, its children are too: killed. */
kiln_helper_seen kiln_helper_look(kiln_helper *helper, uint32_t child);

/* Removes a folder of this process's user, with what children that are gone left in it, which may
 * be closed to this process. Follows no link. Errors of kiln_folder_remove. */
KILN_MUST_USE kiln_status kiln_helper_remove_folder(kiln_helper *helper, const char *path);

/* What to show to the tracker's address of that index. Errors of kiln_credentials_load. */
KILN_MUST_USE kiln_status kiln_helper_credentials(kiln_helper *helper, uint32_t address,
                                                  kiln_credentials *out_credentials);
/* Replaces the key in the key file: errors of kiln_key_take. */
KILN_MUST_USE kiln_status kiln_helper_take_key(kiln_helper *helper, const kiln_key *next);
/* A connection to the Unix socket of that index. Errors of the system. */
KILN_MUST_USE kiln_status kiln_helper_connect(kiln_helper *helper, uint32_t address, int *out_fd);

/* Whether a program was started as a helper, or as what it starts (rpc-server/sandboxed_child.h),
 * and their whole life. */
bool kiln_helper_is_asked(int argc, char **argv);
KILN_NORETURN void kiln_helper_main(int argc, char **argv);

#endif
