/* What a contained child says about a measurement (the notes of rpc-server/child_protocol.h), held
 * against what a child that keeps to the protocol can say, and what its end means. Pure. */
#ifndef KILN_RPC_SERVER_CHILD_REPORT_H
#define KILN_RPC_SERVER_CHILD_REPORT_H

#include "base/arena.h"
#include "base/child.h"
#include "rpc-server/child_protocol.h"

typedef struct kiln_child_report {
    uint32_t kernel_count; /* of the order */
    kiln_phase phase;
    bool is_ready, is_loaded, may_time;
    bool may_lose;        /* candidates run on a device of its own, so what it says of a loss is
                             not theirs; set by the caller */
    bool is_told;         /* the last note came */
    bool broke_rules;     /* from here on nothing counts */
    kiln_child_note note; /* the newest */
    uint32_t measured;    /* kernels whose timing was told */
    uint64_t began_ns;    /* when it was let time */
    uint64_t since_ns;    /* when its phase began, or its last note came */
    kiln_msg_phases times_ns;
} kiln_child_report;

/* `waits`: it times when it is let (kiln_child_report_let_time), else when it is linked. */
void kiln_child_report_open(kiln_child_report *report, uint32_t kernel_count, bool waits,
                            uint64_t now_ns);
/* Takes `note`; false: a child that keeps to the protocol cannot say that now. */
bool kiln_child_report_take(kiln_child_report *report, const kiln_child_note *note,
                            uint64_t now_ns);
/* The child is told to time: what it waited until now counts for no phase. */
void kiln_child_report_let_time(kiln_child_report *report, uint64_t now_ns);

typedef enum kiln_ended {
    KILN_ENDED_MEASURED, /* its outputs decide */
    KILN_ENDED_DECIDED,  /* outcome, blame and text are known */
    KILN_ENDED_DIED,     /* without a result: text */
} kiln_ended;

/* How it went, as far as the child's end says. */
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
