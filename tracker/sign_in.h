/* People who sign in at a web server: whose token it is, and how often wrong ones may be tried. */
#ifndef KILN_TRACKER_SIGN_IN_H
#define KILN_TRACKER_SIGN_IN_H

#include "tracker/peers.h"

/* Wrong tokens for one person in KILN_TRACKER_WRONG_NS; beyond that its tokens are not looked at
 * until that time is over. */
#define KILN_TRACKER_WRONG_MAX 10u
#define KILN_TRACKER_WRONG_NS UINT64_C(60000000000)
#define KILN_TRACKER_WRONG_NAMES 256u /* persons that are remembered, the newest ones */

/* Wrong tokens for one person. */
typedef struct kiln_tracker_wrong {
    kiln_tracker_text person;
    uint32_t count;
    uint64_t since_ns; /* of the first of them; 0: the entry is unused */
} kiln_tracker_wrong;

typedef struct kiln_tracker_sign_ins {
    kiln_tracker_find_token find_token; /* NULL: there is no list of keys */
    void *context;
    kiln_tracker_wrong wrong[KILN_TRACKER_WRONG_NAMES];
} kiln_tracker_sign_ins;

/* Answers SIGN_IN. */
void kiln_tracker_sign_in(kiln_tracker *t, kiln_tracker_peer *web, const kiln_message *message);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_sign_ins_check(const kiln_tracker *t);

#endif
