/* Launches: a lowered program cut into grids of groups of threads, for devices that run them.
 *
 * A target whose lowering list has the pass `launches` gets programs of this form, and code
 * generators use the descriptions below. The root is a sequence of launches, with ALLOCs of device
 * memory around those that share a temp:
 *
 *     alloc t:                            GLOBAL: device memory between launches
 *       bind(block.y) by in 2:            grid loops, outermost first, none or up to three; inside
 *                                         of them one over the groups of a cluster, or none
 *         bind(block.x) bx in 4:
 *           alloc a.read:                 SHARED: one copy per group
 *             bind(thread.y) ty in 8:     thread loops, none or up to three, all in one nest
 *               bind(thread.x) tx in 8:
 *                 alloc acc:              LOCAL or REGISTER: one copy per thread
 *                   for k in 4:
 *                     a.read[...] = ...
 *                     barrier             reached by all threads of the group or none
 *                     acc[...] = ...
 *                     barrier
 *       for i in 3: ...                   a nest without bound loops: one group of one thread
 *
 * Launches run one after another in program order, and each sees all writes of those before it.
 * Groups of one launch run concurrently in any order. Threads of a group run concurrently in any
 * order from barrier to barrier. Writes before a barrier are visible to all threads of the group
 * behind it, in shared and in global memory. Loops bound to axes start at 0 and run up to the
 * launch's extents: statements for fewer threads need an if.
 *
 * Used by code generators and by the builder, which copies the list into the manifest. */
#ifndef KILN_COMPILER_CORE_LOWER_LAUNCH_H
#define KILN_COMPILER_CORE_LOWER_LAUNCH_H

#include "base/manifest.h"
#include "base/status.h"
#include "base/target.h"
#include "compiler-core/ir/ir.h"

#define KILN_LAUNCH_DIMS 3
#define KILN_TOKEN_PLACE_BYTES 8 /* of shared memory, for each place of a queue */
#define KILN_LAUNCHES_MAX (KILN_MANIFEST_LAUNCHES_MAX / 2) /* of one program */

/* The place of a temp: in device scratch, in a group's shared memory or in a thread's memory. */
typedef struct kiln_launch_temp {
    kiln_buffer buffer;
    uint64_t offset; /* bytes; a multiple of kiln_buffer_alignment */
    uint64_t size_bytes;
} kiln_launch_temp;

/* A fetch of a producer that a device's copy unit does (lower/boxes.h): `piece_count` boxes, one
 * after the other along the contiguous dimension and in shared memory. The first one begins where
 * the fetch's copy is when all variables of `nest`, and the numbers of threads but thread.z, have
 * their first values.
 *
 * Groups of a cluster that fetch the same have a part of each piece to copy for all of them: group
 * r the one that begins r * map.box[part_dim] further along that dimension. */
typedef struct kiln_launch_box {
    kiln_stmt nest, copy; /* loops and conditions around the copy, or itself */
    uint32_t map;         /* of the launch */
    uint32_t piece_count;
    uint64_t piece_bytes;
    bool is_shared; /* by the groups of a cluster: map.box is a part of a piece */
    uint32_t part_dim;
    uint64_t part_bytes;
} kiln_launch_box;

/* One launch. Pointers are in the lowering's arena. */
typedef struct kiln_launch {
    kiln_str entry;  /* name of its function, unique in the artefact: "run_0", "prepare_1" */
    kiln_stmt nest;  /* in the lowered program: outermost grid loop, or the statement in its
                      * place */
    kiln_stmt group; /* body of a group: the first statement inside the grid loops */
    kiln_stmt body;  /* body of a thread: the first statement inside the thread loops */
    uint32_t grid_size[KILN_LAUNCH_DIMS]; /* groups in x, y, z; at least 1 */
    uint32_t cluster; /* groups of a cluster, which divide grid_size[0]; 1: no clusters */
    uint32_t group_size[KILN_LAUNCH_DIMS]; /* threads in x, y, z; at least 1 */
    uint32_t resident;                     /* groups that must fit on a unit; 0: no requirement */
    kiln_var grid_var[KILN_LAUNCH_DIMS], group_var[KILN_LAUNCH_DIMS]; /* 0: no loop, size 1 */
    kiln_var cluster_var;   /* group x is grid_var[0] * cluster + cluster_var; 0: no loop */
    uint32_t barrier_count; /* statements; 0: threads need not run in step */
    /* Places of each queue of tokens, 0: there are none. Queue by queue, full ones first, each has
     * 8 bytes from `token_offset` on in shared memory. */
    uint32_t token_slots;
    uint64_t token_offset;
    uint64_t shared_bytes; /* of one group: shared[] from 0, then tokens */
    uint32_t shared_count;
    kiln_launch_temp *shared;
    uint64_t local_bytes; /* of one thread: local[] from 0; REGISTER buffers take none */
    uint32_t local_count;
    kiln_launch_temp *local;
    /* If not 0, `local` lies in device scratch instead: each group has `own_bytes`, from
     * `own_offset` on, in the order of groups, x first. For groups of one thread only, on
     * processors that act as a device, where a thread's memory would lie on a stack. */
    uint64_t own_offset, own_bytes;
    /* Arguments of its entry: the program's arguments that it touches, in table order, then the
     * device scratch if it touches that. */
    uint32_t arg_count;
    kiln_buffer *arg;
    bool uses_scratch;
    /* Fetches by boxes, and what they read through: the entry's arguments behind the others. */
    uint32_t box_count, map_count;
    kiln_launch_box *box;
    kiln_manifest_map *map; /* [map_count]; `arg` counts the scratch behind `arg_count` others */
    bool has_shared_boxes;  /* groups of a cluster write into each other's memory */
    bool boxes_alone;       /* the producer has no other fetches: one of its threads does all */
} kiln_launch;

/* All launches of one lowered program, in order. */
typedef struct kiln_launches {
    uint32_t count;
    kiln_launch *launch;
    uint64_t scratch_bytes; /* device memory for temps between launches: temp[] from 0 */
    uint32_t temp_count;
    kiln_launch_temp *temp;
} kiln_launches;

/* Describes the launches of a lowered program; `prefix` is "run" or "prepare". Shared temps lie
 * where the pass `shared` put them and may overlap; all other temps have their own bytes. An empty
 * program is one launch of one thread that does nothing.
 *
 * ILLEGAL_SCHEDULE    the program does not have the form above, or a launch exceeds a limit of the
 *                     target: threads of a group, shared bytes. The note names loop or buffer,
 * value and limit RESOURCE_EXHAUSTED  more than KILN_LAUNCHES_MAX launches */
KILN_MUST_USE kiln_status kiln_launches_describe(kiln_program *lowered, const kiln_target *target,
                                                 kiln_str prefix, kiln_arena *arena,
                                                 kiln_launches *out);
/* The same of an accelerator core, whose whole program is one launch. */
KILN_MUST_USE kiln_status kiln_launches_describe_whole(kiln_program *lowered,
                                                       const kiln_target *target, kiln_str prefix,
                                                       kiln_arena *arena, kiln_launches *out);
/* For people: a line for each launch. */
void kiln_launches_print(const kiln_launches *launches, kiln_strbuf *out);

#endif
