/* Programs for devices with threads or units: the tables of axes, scopes, units and attributes, and
 * the rules for such programs.
 *
 * Groups and threads. BIND loops run over the groups of a launch (grid loops) or the threads of a
 * group (thread loops), all at once. A scheduled program is fork-join: a thread nest ends when all
 * its threads have ended, so the nest behind it sees all writes. A lowered program has one thread
 * nest per launch, and barriers in it (lower/launch.h).
 *
 * Clusters. The loop on `cluster`, innermost of the grid loops, runs over the groups of a cluster.
 * Devices run these at the same time; otherwise they are groups like all others, ordered by
 * nothing.
 *
 * Asynchronous copies. A COPY reads its source and writes its element at some time between itself
 * and the WAIT that covers it; until then no thread may touch the element or write the source.
 * Copies of one token since the last COMMIT of it are a group; groups land in order, and WAIT
 * leaves the youngest `pending` of them in flight. Other threads see the copied elements behind a
 * barrier that follows the wait.
 *
 * Warps. KILN_WARP_LANES threads that follow one another on thread.x are a warp, each a lane of it.
 * A STORE with the attribute EXCHANGE stores the value that its load, of the thread's own memory,
 * has in another lane. All lanes must execute it together: conditions around it may depend on the
 * warp, not on the lane.
 *
 * Units. The attribute UNIT assigns a statement, and all inside it, to a unit of an accelerator
 * core; the default is COMPUTE. Each unit executes its statements in program order, all units run
 * concurrently. TOKEN_PUSH enters a token into the queue from one unit to another when all earlier
 * statements of the first are done; TOKEN_POP removes the oldest token, and later statements of the
 * second unit start after that. Queues are those of token_queues.def; they are empty before and
 * after a program. In program order every token is pushed before it is popped, so program order is
 * a valid order of the units, and no order deadlocks.
 *
 * Threads as units. In a launch with tokens the threads of the last `thread.z` are the unit LOAD,
 * all others COMPUTE. Each store of LOAD carries the attribute. Tokens are allowed where barriers
 * are, and concern all threads of a unit: a push means that each of them is done, and that its
 * copies have landed. They are numbered from 0 in each queue, and use its `pending` places in turn;
 * devices count phases of these places (mbarriers). Threads of one unit are ordered among
 * themselves only by a token that comes back, or by barriers of all threads. */
#ifndef KILN_COMPILER_CORE_IR_DEVICE_H
#define KILN_COMPILER_CORE_IR_DEVICE_H

#include "base/status.h"
#include "compiler-core/ir/ir.h"

#define KILN_GROUP_THREADS_MAX 1024
#define KILN_PIPELINE_STAGES_MAX 8 /* at least 2 */
/* Elements of a temp that a thread fetches, up to which two stages have them in registers. */
#define KILN_PIPELINE_STAGED_MAX 64
/* A thread with at least so many registers of values gets the maximum that a group's threads may
 * have: otherwise ptxas 12.9 spills some of these so that more groups fit on a unit. A thread with
 * fewer would use the additional registers for early loads. Decision 123. */
#define KILN_REGISTERS_MANY 64
#define KILN_RESIDENT_GROUPS_MAX 8 /* that a schedule asks a unit to hold */
/* CUDA devices from this capability on have asynchronous copies into shared memory (cp.async). */
#define KILN_COPIES_CAPABILITY 80
#define KILN_COPY_BYTES_MIN 4    /* of such a copy */
#define KILN_EXCHANGE_BYTES 4    /* that lanes of a warp exchange at once */
#define KILN_PLACE_MAX (1 << 20) /* largest place of a shared temp in program text, bytes */
/* CUDA devices from this capability on wait for phases of barriers in shared memory. */
#define KILN_TOKENS_CAPABILITY 90
/* CUDA devices from this capability on run groups of a launch in clusters. */
#define KILN_CLUSTERS_CAPABILITY 90

typedef enum kiln_seen_by {
    KILN_SEEN_BY_THREAD,
    KILN_SEEN_BY_GROUP,
    KILN_SEEN_BY_DEVICE,
    KILN_SEEN_BY_CORE,
} kiln_seen_by;

typedef struct kiln_scope_info {
    const char *text;
    kiln_seen_by seen_by;
    uint32_t alignment; /* bytes */
} kiln_scope_info;
extern const kiln_scope_info kiln_scopes[KILN_SCOPE_COUNT]; /* Rows of scopes.def. */
bool kiln_scope_find(kiln_str text, kiln_scope *out_scope); /* By its text; false: no such. */

/* Alignment of the buffer's first byte: its scope's, or 1024 for rows in shared memory whose units
 * of 16 bytes are permuted in 8 ways, as matrix descriptors require (intrinsic.h). */
uint32_t kiln_buffer_alignment(const kiln_program *p, kiln_buffer buffer);
/* Registers of `register_bytes` that `elements` of a REGISTER buffer take, in values of `width`
 * elements each. */
uint64_t kiln_buffer_registers(kiln_dtype dtype, uint64_t elements, uint64_t width,
                               uint64_t register_bytes);

typedef enum kiln_axis_level {
    KILN_LEVEL_NONE, /* no bound loop */
    KILN_LEVEL_GRID,
    KILN_LEVEL_GROUP,
} kiln_axis_level;

typedef struct kiln_loop_axis_info {
    const char *text; /* NULL: no axis */
    kiln_axis_level level;
    uint32_t dimension; /* 0, 1, 2: x, y, z */
    int64_t extent_max;
} kiln_loop_axis_info;
extern const kiln_loop_axis_info kiln_axes[KILN_AXIS_COUNT]; /* Rows of axes.def. */
bool kiln_loop_axis_find(kiln_str text,
                         kiln_loop_axis *out_axis); /* By its text; false: no such. */
/* The level of the loop's axis; NONE where the statement is no bound loop. */
kiln_axis_level kiln_stmt_level(const kiln_program *p, kiln_stmt stmt);
/* The outermost loop of that level at or around `stmt`; 0: none. */
kiln_stmt kiln_stmt_outermost(const kiln_program *p, kiln_stmt stmt, kiln_axis_level level);

extern const char *const kiln_unit_word[KILN_UNIT_COUNT]; /* Texts of units.def. */
/* The unit that executes the statement. */
kiln_unit kiln_stmt_unit(const kiln_program *p, kiln_stmt stmt);
/* Whether it is a barrier or a token, which all threads of a group, or of a unit, must reach. */
bool kiln_stmt_is_step(const kiln_program *p, kiln_stmt stmt);
/* Whether token_queues.def has that row. */
bool kiln_token_queue_exists(kiln_unit from, kiln_unit to);

/* ---- attributes ---- */
extern const char *const kiln_attribute_word[KILN_ATTRIBUTE_COUNT]; /* Texts of attributes.def. */
/* The statement's first attribute of that kind; NULL: it has none. */
const kiln_attribute *kiln_stmt_attribute(const kiln_program *p, kiln_stmt stmt,
                                          kiln_attribute_id id);
/* Adds an attribute. */
void kiln_stmt_set_attribute(kiln_program *p, kiln_stmt stmt, kiln_attribute attribute);
/* From its text form: the attribute `key` with that value; false where there is no such key or no
 * such buffer, intrinsic or unit. */
bool kiln_attribute_parse(const kiln_program *p, kiln_str key, kiln_str value, kiln_attribute *out);
/* "key=value": the attribute of that key and value, or else a remark. */
kiln_attribute kiln_attribute_from(kiln_program *p, kiln_str text);
/* Its value in text form. */
kiln_str kiln_attribute_value(const kiln_program *p, const kiln_attribute *a);

/* ---- rules ---- */
/* Checks the rules for bound loops, barriers and allocations in every program, scheduled or
 * lowered:
 *
 * - bound loops start at 0 and keep to their axes' extents; no axis twice around one statement
 * - only sequences, allocations and grid loops enclose a grid loop, and a grid loop contains
 *   nothing else than the grid loop inside it
 * - a loop over `cluster` is the innermost grid loop, and its extent is a power of two
 * - thread loops of one nest are nested directly, and have KILN_GROUP_THREADS_MAX iterations
 *   at most
 * - no parallel loop around or inside a bound one, and no bound loop in lanes
 * - a barrier or token is not in lanes, and no condition around it depends on the thread
 * - an allocation has its scope's place: of the device outside of grid loops, of a group outside of
 *   thread loops, of a thread inside them
 *
 * ILLEGAL_SCHEDULE names the loop or buffer. Races of threads are not checked here; the interpreter
 * finds them. */
KILN_MUST_USE kiln_status kiln_device_check(const kiln_program *p);

#endif
