/* The launcher: the process that a user or a service manager started, where the owner of the board
 * trusts release keys (docs/decisions/0153-rolling-upgrades.md). It runs the server as its child,
 * and replaces its program when the server asks for that and after it has ended. It talks to no
 * peer, keeps its rights, and checks the signature itself. The new program runs from PROGRAM.next
 * until it has confirmed; then PROGRAM becomes PROGRAM.previous, and PROGRAM.next PROGRAM. */
#ifndef KILN_RPC_SERVER_LAUNCHER_H
#define KILN_RPC_SERVER_LAUNCHER_H

#include "base/arena.h"
#include "base/sign/release.h"

#define KILN_LAUNCHED "--launched" /* first argument of a server that a launcher started */

typedef struct kiln_launcher_options {
    const char *program; /* path of the server's program */
    char **argv;         /* NULL-terminated arguments of the server, without its name */
    const char *release_keys;
} kiln_launcher_options;

/* Runs until a server ends that asked for no upgrade and was not on trial. Returns the exit code:
 * the server's, or 128 and its signal. `process`: for paths. */
int kiln_launcher_run(const kiln_launcher_options *options, kiln_arena *process);

/* Reads the owner's file of release keys. Errors of kiln_file_read and kiln_release_keys_parse. */
KILN_MUST_USE kiln_status kiln_launcher_read_keys(const char *path, kiln_release_keys *out_keys);

/* The steps of the replacement, for tests. `archive_fd`: at any position. */
KILN_MUST_USE kiln_status kiln_launcher_install(const char *program, const char *next,
                                                const kiln_release_keys *keys, kiln_str statement,
                                                int archive_fd);
KILN_MUST_USE kiln_status kiln_launcher_commit(const char *program, const char *next);

#endif
