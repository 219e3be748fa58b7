/* Fetches of a producer that are boxes: all of a fetch's copies together move a box of its source,
 * which a device with tensor maps copies by itself, at the command of one thread
 * (kiln_manifest_map). Found by running the fetch's loops, so any order of loops and threads is
 * recognised. Private to lower/. */
#ifndef KILN_COMPILER_CORE_LOWER_BOXES_H
#define KILN_COMPILER_CORE_LOWER_BOXES_H

#include "compiler-core/lower/launch.h"

/* Fills the launch's `box`, `map` and `boxes_alone` from its copies with the attribute BOX; all
 * other members are set. Fetches that are no boxes stay copies of all threads. */
void kiln_lower_find_boxes(kiln_program *p, const kiln_launches *launches, kiln_arena *arena,
                           kiln_launch *launch);

#endif
