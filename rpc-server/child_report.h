/* Checks the notes of a contained child (rpc-server/child_protocol.h) against the protocol, and
 * derives the outcome from the notes and the child's exit. Pure. */
#ifndef KILN_RPC_SERVER_CHILD_REPORT_H
#define KILN_RPC_SERVER_CHILD_REPORT_H

#include "base/arena.h"
#include "base/child.h"
#include "rpc-server/child_protocol.h"

typedef struct kiln_child_report {
    uint32_t kernel_count; /* of the order */
    kiln_phase phase;
    bool is_ready, is_loaded, may_time;
    bool may_lose; /* the child may report a lost device, because its candidates run on the device
                      and cannot forge notes; set by the caller */
    bool is_told;  /* the last note arrived */
    bool broke_rules;     /* it sent a note that the protocol forbids; later notes are ignored */
    kiln_child_note note; /* the newest one */
    uint32_t measured;    /* kernels with a MEASURED note */
    uint64_t began_ns;    /* when it was allowed to time */
    uint64_t since_ns;    /* when its phase began or its last note arrived */
    kiln_msg_phases times_ns;
} kiln_child_report;

/* `waits`: the child times after kiln_child_report_let_time; otherwise as soon as it is linked. */
void kiln_child_report_open(kiln_child_report *report, uint32_t kernel_count, bool waits,
                            uint64_t now_ns);
/* Takes `note`; false: the protocol does not allow it now. */
bool kiln_child_report_take(kiln_child_report *report, const kiln_child_note *note,
                            uint64_t now_ns);
/* The child was told to time. Its wait until now counts for no phase. */
void kiln_child_report_let_time(kiln_child_report *report, uint64_t now_ns);

typedef enum kiln_ended {
    KILN_ENDED_MEASURED, /* its outputs decide the outcome */
    KILN_ENDED_DECIDED,  /* outcome, blame and text are known */
    KILN_ENDED_DIED,     /* without a result; the text says how */
} kiln_ended;

/* The outcome, as far as the child's notes and exit decide it. */
typedef struct kiln_ending {
    kiln_ended how;
    kiln_outcome outcome;
    kiln_blame blame;
    const char *text;
} kiln_ending;
/* Texts in `arena` or in the report. */
kiln_ending kiln_child_report_ending(const kiln_child_report *report, const kiln_child_exit *end,
                                     kiln_arena *arena);

#endif
