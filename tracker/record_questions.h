/* Questions of people about the records of tuners: RECORDS_ASK goes to the tuner with the projects
 * that the person may read, and its RECORDS_PAGE back to the person. */
#ifndef KILN_TRACKER_RECORD_QUESTIONS_H
#define KILN_TRACKER_RECORD_QUESTIONS_H

#include "tracker/access.h"
#include "tracker/rows.h"

#define KILN_TRACKER_RECORD_QUESTIONS_MAX 256u
#define KILN_TRACKER_RECORD_QUESTION_NS                      \
    UINT64_C(30000000000) /* time that a tuner has to answer \
                           */

typedef struct kiln_tracker_record_question {
    kiln_tracker_peer *person, *tuner;
    uint32_t stream;
    uint64_t number; /* carried by its messages */
    uint64_t asked_ns;
} kiln_tracker_record_question;

typedef struct kiln_tracker_record_questions {
    KILN_VEC(kiln_tracker_record_question) open;
    uint64_t last_number;
} kiln_tracker_record_questions;

void kiln_tracker_records_ask(kiln_tracker *t, kiln_tracker_peer *person,
                              const kiln_message *message);
/* A page that nobody waits for is dropped. */
void kiln_tracker_records_page(kiln_tracker *t, kiln_tracker_peer *tuner,
                               const kiln_message *message);
void kiln_tracker_record_questions_tick(kiln_tracker *t);
/* A person who asks, or a tuner that is asked, has disconnected. */
void kiln_tracker_record_questions_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer);
void kiln_tracker_record_questions_free(kiln_tracker *t);

#endif
