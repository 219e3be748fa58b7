/* Traces of a program in Chrome's format (chrome://tracing, Perfetto), for `kiln trace`, which
 * joins those of several programs. Off until main opens a file; then an event is one line, written
 * in pieces of whole lines at least every quarter of a second, so that a killed program loses only
 * its last events. */
#ifndef KILN_BASE_TRACE_H
#define KILN_BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "base/str.h"

typedef enum kiln_trace_name {
#define X(NAME, category, name, doc) KILN_TRACE_##NAME,
#include "base/trace.def"
#undef X
    KILN_TRACE_NAME_COUNT
} kiln_trace_name;

typedef enum kiln_trace_phase {
    KILN_TRACE_BEGIN,
    KILN_TRACE_END,
    KILN_TRACE_MARK
} kiln_trace_phase;

/* Called once from main. A file that has half of `bytes_max` becomes PATH.1, in place of an older
 * one, and a new one is begun, so that the newest events are kept; 0: there is no bound.
 * PERMISSION_DENIED, NOT_FOUND: the file cannot be made. */
KILN_MUST_USE kiln_status kiln_trace_open(const char *path, const char *program,
                                          uint64_t bytes_max);
bool kiln_trace_is_on(void);
/* `id` identifies the subject: BEGIN and END of the same name and id belong together. */
void kiln_trace_event(kiln_trace_phase phase, kiln_trace_name name, kiln_str id, uint64_t now_ns,
                      const kiln_log_field *field, uint32_t field_count);
/* Records another program's clock (the tracker's, from WELCOME) at `now_ns` of ours. */
void kiln_trace_clock(kiln_str their_boot, uint64_t their_ns, uint64_t now_ns);
/* Writes buffered events and the end of the list. */
void kiln_trace_close(void);

#endif
