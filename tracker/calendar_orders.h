/* Orders of people about the calendar of the boards, and what happens when its times come. */
#ifndef KILN_TRACKER_CALENDAR_ORDERS_H
#define KILN_TRACKER_CALENDAR_ORDERS_H

#include "tracker/calendar.h"
#include "tracker/leases.h"
#include "tracker/rows.h"

/* An order that is not on disk yet, and where to send the answer. */
typedef struct kiln_tracker_calendar_order {
    uint64_t persist, peer;
    uint32_t stream;
    kiln_tracker_text node; /* of a reservation; empty: of a window */
    uint64_t number;        /* of a window; 0: it was removed */
} kiln_tracker_calendar_order;

typedef struct kiln_tracker_calendar_orders {
    KILN_VEC(kiln_tracker_calendar_order) waiting;
} kiln_tracker_calendar_orders;

void kiln_tracker_calendar_orders_free(kiln_tracker *t);

void kiln_tracker_reserve(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);
void kiln_tracker_maintenance_order(kiln_tracker *t, kiln_tracker_peer *client,
                                    const kiln_message *message);
void kiln_tracker_maintenance_query(kiln_tracker *t, kiln_tracker_peer *client,
                                    const kiln_message *message);
void kiln_tracker_calendar_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
/* Ends reservations whose time is over, opens and closes windows. O(boards) when a window opens or
 * closes, else O(calendar). */
void kiln_tracker_calendar_tick(kiln_tracker *t);

#endif
