/* `kiln fleet upgrade`: gives the tracker releases, orders an upgrade of boards, and shows how it
 * goes (docs/how-to/upgrade.md). */
#ifndef KILN_CLI_FLEET_UPGRADE_H
#define KILN_CLI_FLEET_UPGRADE_H

#include "cli/tracker_command.h"

/* Reads the options, uploads, orders, and follows the upgrade to its end.
 * ABORTED: it stopped because a board failed. */
KILN_MUST_USE kiln_status kiln_fleet_upgrade(kiln_command_call *call);

/* Paths of the archives that `--to` names: a path itself, or a version, of which this folder or
 * dist/ has kiln-board-VERSION-ARCH.tar.zst. For tests. NOT_FOUND: there is none. */
KILN_MUST_USE kiln_status kiln_fleet_upgrade_archives(const char *to, kiln_arena *arena,
                                                      const char **out_path, uint32_t max,
                                                      uint32_t *out_count);

#endif
