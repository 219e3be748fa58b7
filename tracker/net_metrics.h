/* Counts of the tracker's listeners as text for Prometheus. Not in metrics.c, which knows no
 * sockets. */
#ifndef KILN_TRACKER_NET_METRICS_H
#define KILN_TRACKER_NET_METRICS_H

#include "proto/net.h"

void kiln_tracker_print_net_metrics(const kiln_net_stats *stats, kiln_strbuf *out);

#endif
