/* Progress of a tuning job on standard error: a table that renews itself on a terminal, plain lines
 * otherwise. With --json one object per line on standard output, and the table only if that is no
 * terminal. */
#ifndef KILN_CLI_DISPLAY_H
#define KILN_CLI_DISPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/curve.h"
#include "compiler-core/core.h"
#include "proto/proto.h"

/* What is known of one task of the job. */
typedef struct kiln_display_task {
    kiln_msg_task_state state; /* a copy */
    const char *label;
    const char *fault; /* why nothing of it can be measured; NULL: it can */
    kiln_curve curve;
    uint64_t changed_ns;
} kiln_display_task;

typedef struct kiln_display_options {
    bool json;
    double seconds; /* time budget; 0: none */
    const kiln_tasks
        *tasks; /* for labels with shapes; NULL: the operators as the tuner says them */
    kiln_arena *process;
} kiln_display_options;

typedef struct kiln_display {
    kiln_display_options options;
    bool live, utf8;
    uint32_t lines; /* drawn by the last frame */
    uint64_t start_ns, drawn_ns;
    KILN_VEC(kiln_display_task) task;
} kiln_display;

/* Starts the clock; nothing is drawn yet. */
void kiln_display_init(kiln_display *display, const kiln_display_options *options);
/* Takes in what changed. */
void kiln_display_update(kiln_display *display, const kiln_msg_job_event *event);
/* Draws when it is time: on a terminal at once after a change (at most 10 times a second) and once
 * a second, else every 5 s. To be called several times a second. */
void kiln_display_tick(kiln_display *display);
/* Prints a line for the person without spoiling the table. */
void kiln_display_say(kiln_display *display, const char *text);
/* The table, where it is not on the terminal already. */
void kiln_display_table(const kiln_display *display);
/* The last frame. */
void kiln_display_finish(kiln_display *display);

/* The frame for a terminal of this size, and the plain line. Pure. */
typedef struct kiln_display_size {
    uint32_t columns, rows;
} kiln_display_size;
void kiln_display_frame(const kiln_display *display, uint64_t now_ns, kiln_display_size size,
                        kiln_strbuf *out);
void kiln_display_line(const kiln_display *display, uint64_t now_ns, kiln_strbuf *out);

/* "conv+relu 64x56x56 over 64x3x3": operators, and the extents of the largest computation. */
const char *kiln_task_label(const kiln_task *task, kiln_arena *arena);

#endif
