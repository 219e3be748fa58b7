/* Prints measurements of a board as JSON lines for `kiln db import`. The names are the columns of
 * db/rows.def, which boards are not linked with. Pure. */
#ifndef KILN_RPC_SERVER_BATCH_RESULT_H
#define KILN_RPC_SERVER_BATCH_RESULT_H

#include "base/hash.h"
#include "proto/proto.h"

/* The board that measures. */
typedef struct kiln_batch_board {
    kiln_str node, key, target, device, firmware, fences;
} kiln_batch_board;

/* Hashes the state of the board, as the tuner does. */
void kiln_batch_fingerprint(const kiln_batch_board *board, const kiln_msg_env *env,
                            char out_id[KILN_HASH128_TEXT]);
/* Prints two lines: the device's row and its fingerprint's. */
void kiln_batch_print_board(const kiln_batch_board *board, const kiln_msg_env *env,
                            kiln_strbuf *out);
/* Prints the line of a trial: `record` (kiln_batch_trial) and the measurements. */
void kiln_batch_print_result(kiln_str record, const kiln_batch_board *board,
                             const kiln_msg_trial_result *result, int64_t now_wall_ns,
                             kiln_strbuf *out);

#endif
