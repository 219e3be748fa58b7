/* The addresses that a tracker listens on, and the files that tell other programs about them. */
#ifndef KILN_TRACKER_LISTENERS_H
#define KILN_TRACKER_LISTENERS_H

#include "tracker/shell.h"

typedef struct kiln_tracker_listeners kiln_tracker_listeners;

/* Listens on all addresses of `options`, then writes the address file and the port file. `common`
 * has what all listeners share: `address` and `token` are filled in here. Both outlive the
 * listeners. ALREADY_EXISTS, PERMISSION_DENIED (kiln_tracker_shell_create). */
KILN_MUST_USE kiln_status kiln_tracker_listeners_open(kiln_loop *loop,
                                                      const kiln_tracker_shell_options *options,
                                                      const kiln_listen_options *common,
                                                      kiln_tracker_listeners **out_listeners);
/* Stops listening and removes the address file. NULL is fine. */
void kiln_tracker_listeners_close(kiln_tracker_listeners *listeners);
/* For listeners that were opened without a keyring. NULL is fine. */
void kiln_tracker_listeners_set_keyring(kiln_tracker_listeners *listeners, kiln_keyring *keyring);

/* Writes the port by rename, so that a reader never finds half of it. NULL: nothing is written. */
KILN_MUST_USE kiln_status kiln_tracker_write_port(const char *path, unsigned port);

#endif
