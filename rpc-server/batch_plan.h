/* A folder of trials to measure without a tracker (`kiln batch` writes it, `kiln-rpc-server
 * --batch` measures it):
 *
 *     trials          frames as on the wire: LEASE_REQ, which says for what target, then each TRIAL
 *     records.jsonl   a line for each trial, in their order: its record but for what is measured
 *     rows.jsonl      what the records refer to, and records of candidates that could not be built
 *     blobs/DIGEST    artefacts and references
 *     results.jsonl   written by the server: rows.jsonl, then a record for each measured trial;
 *                     `kiln db import` takes it
 *
 * The folder comes from another machine and is not believed: what passes here is in its bounds. */
#ifndef KILN_RPC_SERVER_BATCH_PLAN_H
#define KILN_RPC_SERVER_BATCH_PLAN_H

#include "base/map.h"
#include "proto/proto.h"

#define KILN_BATCH_TRIALS_MAX 4096u
#define KILN_BATCH_LINE_MAX ((size_t)1 << 20) /* of a record; its trace has 64 KiB, as hex */
/* With what a line of a trial begins, before the trial's identity. */
#define KILN_BATCH_LINE_BEGINS "{\"table\":\"record\",\"trial_id\":\""

typedef struct kiln_batch_trial {
    kiln_msg_trial trial;
    kiln_str record; /* an object in JSON, without the brace that ends it */
} kiln_batch_trial;

typedef struct kiln_batch_plan {
    kiln_str target; /* canonical text of what it was built for */
    uint32_t count;
    kiln_batch_trial *trial;
    kiln_str rows; /* whole lines, or empty */
    kiln_map by_id;
} kiln_batch_plan;

/* Reads the contents of the three files; views of `*out_plan`, which is owned by the caller, point
 * into them and into `arena`. DATA_LOSS: damaged, or parts that do not belong together; the note
 * says which trial or line. UNIMPLEMENTED: a trial of a kind that is not measured in this way. */
KILN_MUST_USE kiln_status kiln_batch_plan_read(kiln_str trials, kiln_str records, kiln_str rows,
                                               kiln_arena *arena, kiln_batch_plan *out_plan);
/* Accepts a zeroed one. */
void kiln_batch_plan_deinit(kiln_batch_plan *plan);

/* What of results.jsonl is kept when a server goes on with it: `*out_size` bytes, up to the last
 * whole line, and which trials are measured: out_done [count]. It is 0 where not all of plan->rows
 * is there. DATA_LOSS: the results are those of another folder. */
KILN_MUST_USE kiln_status kiln_batch_plan_resume(const kiln_batch_plan *plan, kiln_str results,
                                                 bool *out_done, size_t *out_size);

#endif
