/* Which boards a command asks for: `--on KEY,LABEL=VALUE,...`, and whether those are emulated. */
#ifndef KILN_CLI_COMMON_BOARDS_H
#define KILN_CLI_COMMON_BOARDS_H

#include "base/target.h"
#include "cli/common/client.h"

/* "KEY" or "KEY,K=V,...", or labels alone, or NULL for any board: fills key and labels of `spec`,
 * views of `on`. INVALID_ARGUMENT. */
KILN_MUST_USE kiln_status kiln_boards_parse_on(const char *on, kiln_arena *process,
                                               kiln_msg_job_spec *spec);

/* Makes the spec's key whole, of which a person may have typed the beginning (INVALID_ARGUMENT: it
 * is that of several boards). Where only emulated boards can be what is asked for, `target` and the
 * spec's text of it become what they are: their times are labelled so, and are no processor's.
 * `*out_emulated`: it is so, or was. */
KILN_MUST_USE kiln_status kiln_boards_settle(kiln_client *client, kiln_target *target,
                                             kiln_msg_job_spec *spec, kiln_arena *process,
                                             bool *out_emulated);

/* What the tracker keeps of the processor of `target`: figures of a board of its text, whatever its
 * cores and threads. Empty: of none, or the tracker is of a version that keeps none. Errors of the
 * client. */
KILN_MUST_USE kiln_status kiln_boards_figures(const kiln_client_options *options,
                                              const kiln_target *target, kiln_arena *process,
                                              kiln_figures *out_figures);

#endif
