/* Progress of a tuning job: a table that renews itself on a terminal, plain lines otherwise. */
#ifndef KILN_CLI_DISPLAY_H
#define KILN_CLI_DISPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/proto.h"

typedef struct kiln_display {
    kiln_arena *process;
    bool live, json;
    uint32_t lines; /* drawn by the last frame */
    uint64_t start_ns, drawn_ns;
    uint32_t task_count;
    kiln_msg_task_state *task; /* copies */
    uint32_t task_capacity;
} kiln_display;

void kiln_display_init(kiln_display *display, bool json, kiln_arena *process);
/* Takes in what changed and draws: at once on a terminal (at most 10 times a second), else every 5
 * s. */
void kiln_display_update(kiln_display *display, const kiln_msg_job_event *event);
/* The last frame. */
void kiln_display_finish(kiln_display *display);

#endif
