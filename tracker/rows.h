/* Boards and jobs as rows of answers to people. */
#ifndef KILN_TRACKER_ROWS_H
#define KILN_TRACKER_ROWS_H

#include "tracker/access.h"
#include "tracker/calendar.h"

/* Views into the tracker. */
/* Shows only jobs that `reader` may see; NULL: all. */
kiln_msg_board_row kiln_tracker_board_row(kiln_tracker *t, const kiln_tracker_board *board,
                                          const kiln_tracker_peer *reader);
/* With its history in `event`, and its facts. */
kiln_msg_board_row kiln_tracker_long_board_row(kiln_tracker *t, const kiln_tracker_board *board,
                                               const kiln_tracker_peer *reader,
                                               kiln_msg_board_event event[KILN_TRACKER_PAST_MAX]);
kiln_msg_job_row kiln_tracker_job_row(const kiln_tracker *t, const kiln_tracker_job *job,
                                      bool with_tasks);
/* With its tasks, and the signers that its project trusts in `trusted`. */
kiln_msg_job_row kiln_tracker_long_job_row(kiln_tracker *t, const kiln_tracker_job *job,
                                           kiln_sign_public trusted[KILN_MESSAGES_TRUSTED]);
/* Whether `wanted` is the identity or the name. */
bool kiln_tracker_is_named(kiln_str wanted, kiln_str identity, kiln_str name);
/* Sends ANSWER with this board's row. */
void kiln_tracker_answer_board(kiln_tracker *t, const kiln_tracker_peer *client, uint32_t stream,
                               const kiln_tracker_board *board);

#endif
