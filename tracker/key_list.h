/* The key file of a tracker: opened at the start, read again when it changes or SIGHUP comes, with
 * each change in the log and the audit log. On the loop's thread. */
#ifndef KILN_TRACKER_KEY_LIST_H
#define KILN_TRACKER_KEY_LIST_H

#include "proto/net.h"
#include "tracker/audit.h"
#include "tracker/tracker.h"

typedef struct kiln_tracker_key_list kiln_tracker_key_list;

/* `path` must be there; NULL: `home`/keys, which need not. All arguments outlive the list.
 * NOT_FOUND and the errors of kiln_keyring_open. */
KILN_MUST_USE kiln_status kiln_tracker_key_list_open(kiln_loop *loop, const char *path,
                                                     const char *home, kiln_audit *audit,
                                                     kiln_tracker_key_list **out_list);
/* Before the loop is destroyed. NULL is fine. */
void kiln_tracker_key_list_close(kiln_tracker_key_list *list);
/* NULL: there is no key file, so that only programs of this machine, or with --insecure everybody,
 * may connect. */
kiln_keyring *kiln_tracker_key_list_keyring(const kiln_tracker_key_list *list);
/* Reads the file again. True: there was none before, and listeners have to be given the keyring. */
bool kiln_tracker_key_list_reload(kiln_tracker_key_list *list);
/* A kiln_tracker_find_key, whose context is the list. A node without a role is a tuner. */
bool kiln_tracker_key_list_find(void *list, kiln_str node, const kiln_sign_public *half,
                                kiln_tracker_known_key *out_key);

#endif
