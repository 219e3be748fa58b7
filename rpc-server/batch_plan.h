/* A folder of trials to measure without a tracker (`kiln batch` writes it, `kiln-rpc-server
 * --batch` measures it):
 *
 *     trials          frames as on the wire: LEASE_REQ, which names the target, then each TRIAL
 *     records.jsonl   a line for each trial, in the same order: its record without measurements
 *     rows.jsonl      rows that the records refer to, and records of candidates that failed to
 * build blobs/DIGEST    artefacts and references results.jsonl   written by the server: rows.jsonl,
 * then a record for each measured trial; `kiln db import` takes it
 *
 * The folder comes from another machine, so its contents are not trusted: these functions accept
 * only what is within bounds. */
#ifndef KILN_RPC_SERVER_BATCH_PLAN_H
#define KILN_RPC_SERVER_BATCH_PLAN_H

#include "base/map.h"
#include "proto/proto.h"

#define KILN_BATCH_TRIALS_MAX 4096u
#define KILN_BATCH_LINE_MAX \
    ((size_t)1 << 20) /* of a record; its trace is at most 64 KiB, in hexadecimal */
/* Beginning of a trial's line, up to the trial's identity. */
#define KILN_BATCH_LINE_BEGINS "{\"table\":\"record\",\"trial_id\":\""

typedef struct kiln_batch_trial {
    kiln_msg_trial trial;
    kiln_str record; /* a JSON object without its closing brace */
} kiln_batch_trial;

typedef struct kiln_batch_plan {
    kiln_str target; /* canonical text */
    uint32_t count;
    kiln_batch_trial *trial;
    kiln_str rows; /* whole lines, or empty */
    kiln_map by_id;
} kiln_batch_plan;

/* Reads the contents of the three files; views of `*out_plan`, which is owned by the caller, point
 * into them and into `arena`. DATA_LOSS: the files are damaged or do not belong together; the note
 * names the trial or line. UNIMPLEMENTED: a trial with a recipe, module or rivals. */
KILN_MUST_USE kiln_status kiln_batch_plan_read(kiln_str trials, kiln_str records, kiln_str rows,
                                               kiln_arena *arena, kiln_batch_plan *out_plan);
/* Accepts a zeroed one. */
void kiln_batch_plan_deinit(kiln_batch_plan *plan);

/* Finds how much of results.jsonl a server keeps when it continues a run: `*out_size` bytes, up to
 * the last whole line, or 0 if plan->rows is incomplete. out_done: [count], which trials are
 * measured. DATA_LOSS: the results belong to another folder. */
KILN_MUST_USE kiln_status kiln_batch_plan_resume(const kiln_batch_plan *plan, kiln_str results,
                                                 bool *out_done, size_t *out_size);

#endif
