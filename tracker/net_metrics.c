#include "tracker/net_metrics.h"

void kiln_tracker_print_net_metrics(const kiln_net_stats *stats, kiln_strbuf *out) {
#define X(name, doc)                                                                     \
    kiln_strbuf_printf(out,                                                              \
                       "# HELP kiln_net_" #name "_total " doc "\n# TYPE kiln_net_" #name \
                       "_total counter\nkiln_net_" #name "_total %llu\n",                \
                       (unsigned long long)stats->name);
    KILN_NET_COUNTS(X)
#undef X
    kiln_strbuf_printf(out,
                       "# HELP kiln_net_strangers connections in their handshake\n"
                       "# TYPE kiln_net_strangers gauge\nkiln_net_strangers %u\n"
                       "# HELP kiln_net_known connections whose handshake succeeded\n"
                       "# TYPE kiln_net_known gauge\nkiln_net_known %u\n",
                       stats->strangers, stats->known);
}
