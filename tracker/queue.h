/* The queue: requests for boards that wait. */
#ifndef KILN_TRACKER_QUEUE_H
#define KILN_TRACKER_QUEUE_H

#include "tracker/jobs.h"

typedef struct kiln_tracker_request {
    kiln_arena arena;
    kiln_msg_lease_req asked; /* as it came */
    kiln_tracker_requirement *required;
    struct kiln_tracker_job *job;
    uint64_t order, since_ns;             /* of arrival */
    kiln_tracker_text tuner, node;        /* of the tuner: its run and itself */
    kiln_tracker_reservation reservation; /* of a device that is kept free for it */
    bool fresh;                           /* it is in kiln_tracker_queue.fresh */
} kiln_tracker_request;

typedef struct kiln_tracker_queue {
    uint32_t count;
    kiln_map of_key;                        /* number, tuner's boot -> pointer */
    KILN_VEC(kiln_tracker_request *) fresh; /* not yet offered to the idle boards */
    uint64_t last_order;                    /* of a request */
} kiln_tracker_queue;

/* Number and run of its tuner name a request, also after it was granted. */
typedef struct kiln_tracker_request_key {
    uint64_t number;
    kiln_tracker_text tuner;
} kiln_tracker_request_key;

void kiln_tracker_queue_init(kiln_tracker *t);
/* Takes over one use of `want`. */
void kiln_tracker_request_add(kiln_tracker *t, const kiln_tracker_peer *tuner,
                              const kiln_message *message, kiln_tracker_job *job,
                              kiln_tracker_requirement *required);
/* Exchanges two requests of a job, by their places, in the order of waiting. */
void kiln_tracker_requests_trade_places(kiln_tracker_job *job, uint32_t a, uint32_t b);
/* The next request that no idle board was offered to; NULL: that was all. */
kiln_tracker_request *kiln_tracker_queue_take_fresh(kiln_tracker *t);

kiln_str kiln_tracker_request_name(kiln_tracker_request_key *key, const char *tuner,
                                   uint64_t number);
/* A waiting request; NULL. */
kiln_tracker_request *kiln_tracker_request_find(kiln_tracker *t, const char *tuner,
                                                uint64_t number);
void kiln_tracker_request_remove(kiln_tracker *t, kiln_tracker_request *request);
void kiln_tracker_requests_end_of_job(kiln_tracker *t, kiln_tracker_job *job);
/* A tuner came: what a former run of it asked for is forgotten. */
void kiln_tracker_requests_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner);
void kiln_tracker_requests_free(kiln_tracker *t);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_queue_check(const kiln_tracker *t);

#endif
