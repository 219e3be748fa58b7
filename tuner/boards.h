/* Boards for a job: asked for, kept busy and given back, and what they answer. */
#ifndef KILN_TUNER_BOARDS_H
#define KILN_TUNER_BOARDS_H

#include "tuner/pipeline.h"

#define KILN_TUNER_IDLE_NS                                                \
    UINT64_C(1000000000) /* a lease without work is given back after this \
                          */
#define KILN_TUNER_SILENCE_NS \
    UINT64_C(300000000000) /* after this time without news of a trial its lease is given back */
#define KILN_TUNER_LOSSES_MAX 10u /* lost leases of all kinds, started or not */

/* Asks for boards, sends trials, gives boards back. */
void kiln_tuner_leases_advance(kiln_tuner_job *job);
void kiln_tuner_leases_reconnected(kiln_tuner_job *job);
uint64_t kiln_tuner_leases_next_ns(const kiln_tuner_job *job);
void kiln_tuner_on_grant(kiln_tuner *t, const kiln_message *message);
void kiln_tuner_on_lost(kiln_tuner *t, const kiln_msg_lease_lost *lost);
void kiln_tuner_on_error(kiln_tuner *t, const kiln_msg_error *error);
void kiln_tuner_on_trial_event(kiln_tuner *t, const kiln_msg_trial_event *event);
void kiln_tuner_on_result(kiln_tuner *t, const kiln_msg_trial_result *result);

#endif
