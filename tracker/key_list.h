/* The key file of a tracker: opened at the start, read again when it changes or SIGHUP comes, with
 * each change in the log and the audit log. On the loop's thread. */
#ifndef KILN_TRACKER_KEY_LIST_H
#define KILN_TRACKER_KEY_LIST_H

#include "proto/net.h"
#include "tracker/audit.h"
#include "tracker/tracker.h"

typedef struct kiln_tracker_key_list kiln_tracker_key_list;

/* `path` must be there; NULL: `home`/keys, which need not: the list looks for it every
 * KILN_NET_KEYS_NS until it comes. A file that disappears later is reported once, and its keys stay
 * in force. All arguments outlive the list.
 * NOT_FOUND and the errors of kiln_keyring_open. */
KILN_MUST_USE kiln_status kiln_tracker_key_list_open(kiln_loop *loop, const char *path,
                                                     const char *home, kiln_audit *audit,
                                                     kiln_tracker_key_list **out_list);
/* Before the loop is destroyed. NULL is fine. */
void kiln_tracker_key_list_close(kiln_tracker_key_list *list);
/* NULL: there is no key file, so that only programs of this machine, or with --insecure everybody,
 * may connect. */
kiln_keyring *kiln_tracker_key_list_keyring(const kiln_tracker_key_list *list);
/* `opened` is called when a file that was missing at the start has come, so that the listeners get
 * its keyring. */
typedef void (*kiln_tracker_key_list_opened)(void *context);
void kiln_tracker_key_list_on_opened(kiln_tracker_key_list *list,
                                     kiln_tracker_key_list_opened opened, void *context);
/* Reads the file again, or looks whether it has come. */
void kiln_tracker_key_list_reload(kiln_tracker_key_list *list);
/* A kiln_tracker_find_token, whose context is the list. */
bool kiln_tracker_key_list_token(void *list, kiln_str person, kiln_str secret,
                                 kiln_tracker_token *out_token);
/* Whether a web server may speak for `peer->person`, who is a `member` of a project or not; the
 * `find_person` of listeners. UNAUTHENTICATED: no key and no membership, or a token that has ended.
 */
KILN_MUST_USE kiln_status kiln_tracker_key_list_admit(const kiln_tracker_key_list *list,
                                                      const kiln_peer *peer, bool is_member,
                                                      bool *out_admin);
/* A kiln_tracker_find_key, whose context is the list. A node without a role is a tuner. */
bool kiln_tracker_key_list_find(void *list, kiln_str node, const kiln_sign_public *half,
                                kiln_tracker_known_key *out_key);

#endif
