/* What /metrics says of this machine and its key file: room on the disk of the tracker's folder,
 * and when keys end. */
#ifndef KILN_TRACKER_SITE_METRICS_H
#define KILN_TRACKER_SITE_METRICS_H

#include "base/str.h"
#include "proto/net.h"

/* `folder`: on the file system in question. `keyring` NULL: there are no keys. */
void kiln_tracker_print_site_metrics(const char *folder, const kiln_keyring *keyring,
                                     kiln_strbuf *out);

#endif
