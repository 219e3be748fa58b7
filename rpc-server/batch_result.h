/* What a board measured, as JSON lines that `kiln db import` takes: names are the columns of
 * db/rows.def, which no board is linked with. Pure. */
#ifndef KILN_RPC_SERVER_BATCH_RESULT_H
#define KILN_RPC_SERVER_BATCH_RESULT_H

#include "base/hash.h"
#include "proto/proto.h"

/* The board that measures. */
typedef struct kiln_batch_board {
    kiln_str node, key, target, device, firmware, fences;
} kiln_batch_board;

/* The state of the board, by which its fingerprint is known: what the tuner keeps of it. */
void kiln_batch_fingerprint(const kiln_batch_board *board, const kiln_msg_env *env,
                            char out_id[KILN_HASH128_TEXT]);
/* Two lines: rows of the device and of its fingerprint. */
void kiln_batch_print_board(const kiln_batch_board *board, const kiln_msg_env *env,
                            kiln_strbuf *out);
/* The line of a trial: `record` (kiln_batch_trial) and what was measured. */
void kiln_batch_print_result(kiln_str record, const kiln_batch_board *board,
                             const kiln_msg_trial_result *result, int64_t now_wall_ns,
                             kiln_strbuf *out);

#endif
