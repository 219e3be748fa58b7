/* The queue of lease requests. */
#ifndef KILN_TRACKER_QUEUE_H
#define KILN_TRACKER_QUEUE_H

#include "tracker/jobs.h"

typedef struct kiln_tracker_request {
    kiln_arena arena;
    kiln_msg_lease_req asked; /* as it came */
    kiln_tracker_requirement *required;
    struct kiln_tracker_job *job;
    uint64_t order, since_ns;             /* order and time of arrival */
    kiln_tracker_text tuner, node;        /* boot and node of the tuner */
    kiln_tracker_reservation reservation; /* the device that is reserved for it */
    bool fresh;                           /* listed in kiln_tracker_queue.fresh */
} kiln_tracker_request;

typedef struct kiln_tracker_queue {
    uint32_t count;
    kiln_map of_key;                        /* number, tuner's boot -> pointer */
    KILN_VEC(kiln_tracker_request *) fresh; /* not yet compared with the idle devices */
    uint64_t last_order;                    /* of a request */
} kiln_tracker_queue;

/* Names a request, also after it was granted: its number and the boot of its tuner. */
typedef struct kiln_tracker_request_key {
    uint64_t number;
    kiln_tracker_text tuner;
} kiln_tracker_request_key;

void kiln_tracker_queue_init(kiln_tracker *t);
/* Takes over one use of `required`. */
void kiln_tracker_request_add(kiln_tracker *t, const kiln_tracker_peer *tuner,
                              const kiln_message *message, kiln_tracker_job *job,
                              kiln_tracker_requirement *required);
/* Exchanges the queue positions and ages of two requests of a job, given by index. */
void kiln_tracker_requests_trade_places(kiln_tracker_job *job, uint32_t a, uint32_t b);
/* Takes the next fresh request; NULL: there is none. */
kiln_tracker_request *kiln_tracker_queue_take_fresh(kiln_tracker *t);

kiln_str kiln_tracker_request_name(kiln_tracker_request_key *key, const char *tuner,
                                   uint64_t number);
/* The waiting request; NULL: there is none. */
kiln_tracker_request *kiln_tracker_request_find(kiln_tracker *t, const char *tuner,
                                                uint64_t number);
void kiln_tracker_request_remove(kiln_tracker *t, kiln_tracker_request *request);
void kiln_tracker_requests_end_of_job(kiln_tracker *t, kiln_tracker_job *job);
/* Removes requests of earlier runs of a tuner that connects. */
void kiln_tracker_requests_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner);
void kiln_tracker_requests_free(kiln_tracker *t);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_queue_check(const kiln_tracker *t);

#endif
