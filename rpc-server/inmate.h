/* The contained child's side: one measurement in one process, and what it says to its parent about it.
 *
 * The child is an exec'd copy of the program (`kiln-rpc-server --child`) whose standard input is a
 * SOCK_SEQPACKET socket. It gets one kiln_inmate_order with three descriptors, and answers with
 * kiln_inmate_notes, all of one size. From the note WARM on, candidate code may have run in its address space,
 * so nothing it says is evidence: the parent bounds every number, and compares the outputs itself, in memory
 * that the child can write but whose expected content it never sees. */
#ifndef KILN_RPC_SERVER_INMATE_H
#define KILN_RPC_SERVER_INMATE_H

#include <stdint.h>

#include "proto/proto.h"
#include "rpc-server/executor.h"
#include "rpc-server/timing.h"

#define KILN_INMATE_MAGIC UINT32_C(0x31444c4b) /* "KLD1" */

/* Descriptors passed with the order, in this order. */
typedef enum kiln_inmate_fd {
    KILN_INMATE_ARTEFACT, /* the artefact's bytes, read-only */
    KILN_INMATE_OUTPUTS,  /* sealed memory of 2 * output_bytes: after the first call, after the last */
    KILN_INMATE_FOLDER,   /* its own empty folder */
    KILN_INMATE_FD_COUNT
} kiln_inmate_fd;

typedef struct kiln_inmate_order {
    uint32_t magic;
    uint32_t executor; /* row of executors.def */
    uint32_t core_count;
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
    uint64_t artefact_bytes, output_bytes, seed, cpu_seconds;
    kiln_msg_policy policy;
} kiln_inmate_order;

typedef enum kiln_inmate_said {
    KILN_INMATE_PHASE = 1, /* entered `phase` */
    KILN_INMATE_REFUSED,   /* the artefact cannot be run: code, text; last note */
    KILN_INMATE_FAILED,    /* a call of the candidate went wrong: code (kiln_ran); last note */
    KILN_INMATE_MEASURED,  /* timing; last note */
} kiln_inmate_said;

typedef struct kiln_inmate_note {
    uint32_t magic, said, phase;
    uint32_t code;       /* REFUSED: kiln_code; FAILED: kiln_ran */
    double peak_flops;   /* PHASE WARM and later: of one core, measured before the candidate ran */
    char text[512];      /* REFUSED; NUL-terminated */
    kiln_timing timing;
} kiln_inmate_note;

/* The child's whole life. Never returns. */
KILN_NORETURN void kiln_inmate_main(void);

#endif
