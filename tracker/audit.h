/* The tracker's audit log: who did what to the fleet, and who was turned away. One JSON object a
 * line in a file of its own (0600), which nobody edits: it is only appended to, and moved aside as
 * FILE.1 (that as FILE.2, and so on) when it reaches KILN_AUDIT_BYTES_MAX. Of one key, and of all
 * strangers together, a file holds KILN_AUDIT_BYTES_OF_SOURCE and then counts: no key alone gets
 * the lines of others out; also not over restarts, as the file itself is counted. Peers that are
 * turned away can not fill it: at most KILN_AUDIT_REFUSED_MAX of them in KILN_AUDIT_WINDOW_NS get a
 * line, of the others there is a count. What cannot be written is said in the program's log, and
 * the tracker goes on. */
#ifndef KILN_TRACKER_AUDIT_H
#define KILN_TRACKER_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/net.h"

#define KILN_AUDIT_BYTES_MAX ((uint64_t)16 << 20)
#define KILN_AUDIT_BYTES_OF_SOURCE ((uint64_t)1 << 20)
#define KILN_AUDIT_FILES_MAX 4u /* older ones that are kept */
#define KILN_AUDIT_REFUSED_MAX 20u
#define KILN_AUDIT_WINDOW_NS UINT64_C(10000000000)

typedef struct kiln_audit kiln_audit;

/* PERMISSION_DENIED, RESOURCE_EXHAUSTED: the file cannot be made. */
KILN_MUST_USE kiln_status kiln_audit_open(const char *path, kiln_audit **out_audit);
/* Writes what was only counted so far. NULL is fine. */
void kiln_audit_close(kiln_audit *audit);

/* Whether the message changes the fleet for others: what an administrator may send and a client may
 * not, orders about projects, and the end of a job. */
bool kiln_audit_is_recorded(const kiln_message *message);
/* {"event":"act"}: the message, by whom. */
void kiln_audit_act(kiln_audit *audit, const kiln_peer *peer, const kiln_message *message);
/* {"event":"refused"}: a connection that was not let in; `why` stays the caller's. */
void kiln_audit_refused(kiln_audit *audit, const kiln_peer *peer, kiln_status why, uint64_t now_ns);
/* {"event":"keys"}: the key file was read again; `why` is NULL or says why it was not. */
void kiln_audit_keys(kiln_audit *audit, uint32_t count, kiln_status why);

#endif
