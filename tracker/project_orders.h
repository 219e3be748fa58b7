/* Queries about projects, and the orders that change them. */
#ifndef KILN_TRACKER_PROJECT_ORDERS_H
#define KILN_TRACKER_PROJECT_ORDERS_H

#include "tracker/blobs.h"

/* An order that is not on disk yet. */
typedef struct kiln_tracker_project_change {
    uint64_t persist, peer;
    uint32_t stream;
    kiln_tracker_text project;
} kiln_tracker_project_change;

typedef struct kiln_tracker_project_orders {
    KILN_VEC(kiln_tracker_project_change) waiting;
} kiln_tracker_project_orders;

void kiln_tracker_project_orders_free(kiln_tracker *t);

void kiln_tracker_project_order(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message);
void kiln_tracker_project_query(kiln_tracker *t, kiln_tracker_peer *client,
                                const kiln_message *message);
void kiln_tracker_project_persisted(kiln_tracker *t, uint64_t persist, const char *failure);

#endif
