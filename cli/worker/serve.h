/* `kiln --worker`: serves one request of libkiln (libkiln/tune/tune.h), whose host started it with
 * a socket as standard input. Requests are rows of requests.def; a function serves one with what is
 * in kiln_served, says what happens by `events`, and knows no terminal.
 *
 * SIGINT means that the host wants no more. The worker ends at once when the host is gone. */
#ifndef KILN_CLI_WORKER_SERVE_H
#define KILN_CLI_WORKER_SERVE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/opt.h"
#include "base/status.h"
#include "cli/worker/events.h"
#include "libkiln/tune/tune.h"

typedef struct kiln_served {
    kiln_arena *process;
    kiln_events *events;
    const char *subject; /* "": none */
    const kiln_request_setting *setting;
    uint32_t setting_count;
} kiln_served;

/* Sets what the settings say in the table's places, and the log's level where log-level is one of
 * them. INVALID_ARGUMENT: an unknown name, or a bad
 * value. */
KILN_MUST_USE kiln_status kiln_served_options(const kiln_served *served,
                                              const kiln_opt_table *table);

/* Whether this program is asked to be a worker. */
bool kiln_serve_is_asked(int argc, char **argv);
/* Serves the request and says how it ended, which is returned, too; `*out_is_said`: the host was
 * told. FAILED_PRECONDITION: the host is of another version; DATA_LOSS: standard input is none. */
KILN_MUST_USE kiln_status kiln_serve(kiln_arena *process, bool *out_is_said);

#define X(what, wants_subject, function) kiln_status function(const kiln_served *served);
#include "cli/worker/requests.def"
#undef X

#endif
