/* The tracker's audit log: actions of people on the fleet, and refused connections. A file (0600)
 * with one JSON object a line, which is only appended to. When it reaches KILN_AUDIT_BYTES_MAX it
 * is renamed to FILE.1, that to FILE.2, and so on.
 *
 * One source (a key, or all peers without one together) can write at most
 * KILN_AUDIT_BYTES_OF_SOURCE bytes to a file; its further lines are only counted, so that no source
 * alone displaces the lines of others. Restarts do not reset this, because the existing lines are
 * counted. Of refused connections at most KILN_AUDIT_REFUSED_MAX in KILN_AUDIT_WINDOW_NS get a
 * line; the others are counted. A line that cannot be written goes to the program's log, and the
 * tracker goes on. */
#ifndef KILN_TRACKER_AUDIT_H
#define KILN_TRACKER_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/net.h"

#define KILN_AUDIT_BYTES_MAX ((uint64_t)16 << 20)
#define KILN_AUDIT_BYTES_OF_SOURCE ((uint64_t)1 << 20)
#define KILN_AUDIT_FILES_MAX 4u /* old files that are kept */
#define KILN_AUDIT_REFUSED_MAX 20u
#define KILN_AUDIT_WINDOW_NS UINT64_C(10000000000)

typedef struct kiln_audit kiln_audit;

/* PERMISSION_DENIED, RESOURCE_EXHAUSTED: the file cannot be made. */
KILN_MUST_USE kiln_status kiln_audit_open(const char *path, kiln_audit **out_audit);
/* Removes what is too old, so that no line is older than `keep_days` and a quarter of them (at
 * least a day): older files, and this one, which is moved aside when its first line has a quarter
 * of that age. 0: lines stay until newer ones displace them. Call it once in a while. */
void kiln_audit_expire(kiln_audit *audit, uint32_t keep_days);
/* Writes the counts of lines that were left out. NULL is fine. */
void kiln_audit_close(kiln_audit *audit);

/* Whether the message is recorded, because it changes the fleet for others: messages that only
 * administrators may send, orders about projects and jobs, and cancellations of jobs. */
bool kiln_audit_is_recorded(const kiln_message *message);
/* {"event":"act"}: the message and its sender. */
void kiln_audit_act(kiln_audit *audit, const kiln_peer *peer, const kiln_message *message);
/* {"event":"refused"}: a refused connection; `why` stays the caller's. */
void kiln_audit_refused(kiln_audit *audit, const kiln_peer *peer, kiln_status why, uint64_t now_ns);
/* {"event":"signed_in"}, {"event":"sign_in_refused"}: a person showed a token at a web server. The
 * refused ones count as refused connections. */
void kiln_audit_sign_in(kiln_audit *audit, const kiln_peer *web, kiln_str person, bool is_right,
                        uint64_t now_ns);
/* {"event":"keys"}: the key file was read again; `why`: NULL, or why it could not be. */
void kiln_audit_keys(kiln_audit *audit, uint32_t count, kiln_status why);

#endif
