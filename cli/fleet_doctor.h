/* `kiln fleet doctor ID`: what a tracker knows of a board, as advice. */
#ifndef KILN_CLI_FLEET_DOCTOR_H
#define KILN_CLI_FLEET_DOCTOR_H

#include "base/str.h"
#include "proto/proto.h"

/* `probe`: how it answered a ping; NULL: nobody asked. A line per thing that is wrong with the
 * board or makes its times worse, and what to do about it; each begins with "BAD" or "note".
 * Returns how many; with 0 `out` says that all is well. */
uint32_t kiln_fleet_diagnose(const kiln_msg_board_row *board, const kiln_msg_probe_row *probe,
                             kiln_strbuf *out);

#endif
