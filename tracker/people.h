/* People that were ever seen, and what is counted of each. */
#ifndef KILN_TRACKER_PEOPLE_H
#define KILN_TRACKER_PEOPLE_H

#include "base/map.h"
#include "tracker/peers.h"

/* A token bucket that bounds the rate of requests. Written by quotas.c. */
typedef struct kiln_tracker_bucket {
    double left;
    uint64_t filled_ns;
} kiln_tracker_bucket;

/* The blobs that a person uploaded. Written by blobs.c and blob_access.c. */
typedef struct kiln_tracker_person_blobs {
    uint64_t day, day_bytes; /* bytes uploaded on `day`, counted since 1970 */
    uint64_t bytes;          /* of all its blobs that are still here */
    uint64_t needed_bytes,
        needed_ns; /* of these, those that jobs and leases need, and when they were counted */
    bool is_over;  /* it may exceed the bound: the next tick checks */
} kiln_tracker_person_blobs;

/* A person with a proven name; all peers without one share an entry. */
typedef struct kiln_tracker_person {
    kiln_tracker_text name;
    uint64_t first_ms, seen_ms; /* of the wall clock; 0: never */
    kiln_tracker_bucket requests;
    kiln_tracker_person_blobs blobs;
} kiln_tracker_person;

typedef struct kiln_tracker_people {
    KILN_VEC(kiln_tracker_person *) all;
    kiln_map of_name;
} kiln_tracker_people;

void kiln_tracker_people_init(kiln_tracker *t);
void kiln_tracker_people_free(kiln_tracker *t);
/* NULL: it was never seen. */
kiln_tracker_person *kiln_tracker_person_find(kiln_tracker *t, kiln_str name);
KILN_MUST_USE kiln_status kiln_tracker_person_restore(kiln_tracker *t, const kiln_tracker_row *row,
                                                      kiln_arena *scratch);

/* Adds an entry when there is none. */
kiln_tracker_person *kiln_tracker_person_named(kiln_tracker *t, kiln_str name);
kiln_tracker_person *kiln_tracker_person_get(kiln_tracker *t, const kiln_tracker_peer *peer);

#endif
