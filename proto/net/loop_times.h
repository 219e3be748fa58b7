/* How long the turns of a loop take; event_loop.c reads the clocks. Pure but for the log. */
#ifndef KILN_PROTO_NET_LOOP_TIMES_H
#define KILN_PROTO_NET_LOOP_TIMES_H

#include "proto/loop.h"

/* One turn. */
typedef struct kiln_turn {
    uint64_t wall_ns, cpu_ns;
    kiln_thread_work work;
    const char *handler; /* that took most of it */
    uint64_t handler_ns;
    const char *cpu_handler; /* the same in CPU time, among slow handlers; may be NULL */
    uint64_t cpu_handler_ns;
} kiln_turn;

/* Logs at most one warning in ten seconds. */
typedef struct kiln_turn_warner {
    uint64_t said_ns;
    uint32_t unsaid;
} kiln_turn_warner;

void kiln_loop_times_add(kiln_loop_times *times, const kiln_turn *turn);
/* A handler took so much CPU; less than KILN_TURN_NS is not noted. `handler` lasts. */
void kiln_loop_times_note(kiln_loop_times *times, const char *handler, uint64_t cpu_ns);
/* Logs a turn that took KILN_TURN_WARN_NS; returns whether it did. */
bool kiln_turn_warns(kiln_turn_warner *warner, const kiln_turn *turn, uint64_t now_ns);

#endif
