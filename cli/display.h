/* Progress of a tuning job on standard error: a table that renews itself on a terminal, plain lines
 * otherwise, also where TERM is dumb or NO_COLOR is set. With --json, whose objects go to standard
 * output, the table only if that is no terminal. */
#ifndef KILN_CLI_DISPLAY_H
#define KILN_CLI_DISPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "cli/curve.h"
#include "libkiln/tune/tune.h"

/* What is known of one task of the job. */
typedef struct kiln_display_task {
    kiln_request_task state; /* a copy; its texts are the request's */
    kiln_curve curve;
    uint64_t changed_ns;
} kiln_display_task;

typedef struct kiln_display_options {
    bool json;
    double seconds; /* time budget; 0: none */
    kiln_arena *process;
} kiln_display_options;

typedef struct kiln_display {
    kiln_display_options options;
    bool live, utf8;
    bool waits;     /* for kiln_waits_show */
    bool finished;  /* the last frame was drawn */
    uint32_t first; /* task of the request that the table begins with */
    uint32_t lines; /* drawn by the last frame */
    uint64_t start_ns, drawn_ns;
    uint32_t kernel_count; /* of an inference; 0: not known */
    KILN_VEC(kiln_display_task) task;
} kiln_display;

/* Starts the clock; nothing is drawn yet. */
void kiln_display_init(kiln_display *display, const kiln_display_options *options);
/* Takes in how far the request is; it lives as long as the display. After the last frame a new
 * table begins, of the tasks that came since. */
void kiln_display_update(kiln_display *display, const kiln_request *request);
/* The same of its task `index`: one that is there, or the next. */
void kiln_display_update_task(kiln_display *display, uint32_t index, const kiln_request_task *task);
/* Draws when it is time: on a terminal at once after a change (at most 10 times a second) and once
 * a second, else every 5 s. To be called several times a second. */
void kiln_display_tick(kiln_display *display);
/* Prints a line for the person without spoiling the table. */
void kiln_display_say(kiln_display *display, const char *text);
/* The table, where it is not on the terminal already. */
void kiln_display_table(const kiln_display *display);
/* The last frame, once. */
void kiln_display_finish(kiln_display *display);

/* Prints what a command waits for: on a terminal on one line again and again, where a table may be
 * drawn over it; elsewhere once. "": it goes on. kiln_client_options.waits; `said` is a bool that
 * says whether it was printed, false at first. */
void kiln_waits_show(void *said, const char *text);

/* The frame for a terminal of this size, and the plain line. Pure. */
typedef struct kiln_display_size {
    uint32_t columns, rows;
} kiln_display_size;
void kiln_display_frame(const kiln_display *display, uint64_t now_ns, kiln_display_size size,
                        kiln_strbuf *out);
void kiln_display_line(const kiln_display *display, uint64_t now_ns, kiln_strbuf *out);

#endif
