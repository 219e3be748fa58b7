/* Writes the recording of vta/builder.c as programs: tokens become bits of instructions, kernels
 * get their places in the micro-op memory, and streams are cut. */
#ifndef KILN_VTA_EMIT_H
#define KILN_VTA_EMIT_H

#include "base/vec.h"
#include "vta/builder.h"

#define KILN_VTA_NO_KERNEL UINT32_MAX

typedef enum kiln_vta_event_kind {
    KILN_VTA_EVENT_RUN,  /* instructions of an engine; a chain is one event */
    KILN_VTA_EVENT_GIVE, /* `engine` gives the token */
    KILN_VTA_EVENT_TAKE, /* `engine` takes it */
    KILN_VTA_EVENT_SYNC  /* later events do not depend on earlier contents of the machine's
                          * memories */
} kiln_vta_event_kind;

typedef struct kiln_vta_event {
    kiln_vta_event_kind kind;
    uint32_t engine;
    uint32_t first,
        count;       /* RUN: instructions; SYNC: the next `count` events are useless after a cut */
    uint32_t kernel; /* RUN: of GEMM and ALU, else KILN_VTA_NO_KERNEL */
    uint32_t token;  /* GIVE, TAKE */
} kiln_vta_event;

typedef struct kiln_vta_recorded_token {
    uint32_t from, to; /* engines */
    uint32_t taken;    /* the event that takes it; 0: none does, and it is left out */
    uint32_t steps[KILN_VTA_ENGINE_COUNT]; /* RUN events of each engine that are done when it is
                                            * given */
} kiln_vta_recorded_token;

typedef struct kiln_vta_recording {
    kiln_vta_config config;
    kiln_vta_sizes sizes;
    KILN_VEC(kiln_vta_buffer) buffer;           /* the first one's size is not known yet */
    KILN_VEC(kiln_vta_instruction) instruction; /* micro-ops from 0 on, no tokens */
    KILN_VEC(uint32_t) instruction_buffer;
    KILN_VEC(kiln_vta_event) event; /* in the order of the calls; the last one is a SYNC */
    KILN_VEC(kiln_vta_recorded_token) token;
    KILN_VEC(kiln_vta_uop) uop;      /* of all kernels, one after the other */
    KILN_VEC(uint32_t) kernel_first; /* of each kernel in uop */
    KILN_VEC(uint32_t) kernel_uops;  /* and how many it has */
} kiln_vta_recording;

/* As kiln_vta_builder_finish; programs lie in `arena`. */
KILN_MUST_USE kiln_status kiln_vta_emit(const kiln_vta_recording *recording,
                                        const kiln_vta_limits *limits, kiln_arena *arena,
                                        kiln_vta_stream *out_stream);
/* Entries of ACC and UOP that no-ops of the ALU's engine need: 1, or 0 without that engine. */
uint32_t kiln_vta_emit_reserved(const kiln_vta_config *config);

#endif
