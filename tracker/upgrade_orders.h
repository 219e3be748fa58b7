/* Orders of people about upgrades of the fleet, and their questions. */
#ifndef KILN_TRACKER_UPGRADE_ORDERS_H
#define KILN_TRACKER_UPGRADE_ORDERS_H

#include "tracker/upgrades.h"

/* The order that is not on disk yet, and where to send the answer. */
typedef struct kiln_tracker_upgrade_orders {
    uint64_t persist; /* 0: none */
    uint64_t peer;
    uint32_t stream;
} kiln_tracker_upgrade_orders;

void kiln_tracker_upgrade_order(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message);
void kiln_tracker_upgrade_query(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message);
void kiln_tracker_upgrade_order_persisted(kiln_tracker *t, uint64_t persist, const char *failure);

#endif
