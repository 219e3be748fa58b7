/* For people who wait for a board. */
#ifndef KILN_TRACKER_AVAILABILITY_H
#define KILN_TRACKER_AVAILABILITY_H

#include "tracker/queue.h"

/* One line for people: what fits and how long it may take, or what there is instead. Whether any
 * board that was ever seen fits. */
bool kiln_tracker_requirement_describe(kiln_tracker *t, kiln_tracker_requirement *required,
                                       kiln_strbuf *out);

#endif
