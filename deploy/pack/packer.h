/* The state of packing while it processes a graph's steps, shared by its files. Inside deploy/pack.
 *
 * Steps of a loop's body are collected separately, because a conversion of a value from outside is
 * placed outside the loop; they are appended behind the loop's step when the body ends. */
#ifndef KILN_DEPLOY_PACK_PACKER_H
#define KILN_DEPLOY_PACK_PACKER_H

#include "base/map.h"
#include "base/vec.h"
#include "deploy/format.h"
#include "deploy/pack/pack.h"

/* A loop whose body is being packed. */
typedef struct kiln_packer_loop {
    uint32_t step;             /* of the graph's plan */
    uint32_t *state;           /* [carried] buffers */
    uint32_t condition, index; /* buffers, or KILN_PLAN_NONE */
    uint32_t count;
} kiln_packer_loop;

/* The kernel that converts a value from one layout to another. */
typedef struct kiln_packer_conversion {
    kiln_str key; /* of its task, in the packer's arena */
    uint32_t kernel;
} kiln_packer_conversion;

typedef struct kiln_packer {
    const kiln_graph *graph;
    const kiln_pack_options *options;
    const kiln_target *target;
    kiln_arena *arena;
    /* of the compilation */
    kiln_plan plan;
    const kiln_way **way; /* [steps of the plan] */
    kiln_layout *layout;  /* [value] the layout in which it is written */
    kiln_windows windows;
    KILN_VEC(kiln_str) kernel;
    KILN_VEC(bool) on_host;           /* [kernels] of a partial target: its host's */
    KILN_VEC(uint32_t *) in_place;    /* [kernels][arguments] which input it may overwrite, + 1 */
    KILN_VEC(kiln_layout *) constant; /* [kernels][arguments] layouts of constants */
    KILN_VEC(kiln_plan_buffer)
    buffer; /* a value in one layout each; strided ones name a step of the graph's plan
               as their loop until the loops have numbers */
    KILN_VEC(kiln_plan_step)
    level[KILN_MODULE_LOOP_DEPTH_MAX + 1]; /* outside of loops, then of each open body */
    kiln_packer_loop loop[KILN_MODULE_LOOP_DEPTH_MAX]; /* [depth] */
    uint32_t depth;
    uint32_t *depth_of;   /* [value] number of loops around its computation */
    kiln_value *stack_of; /* [value] the stack into which its kernel may write it as a row; or 0 */
    KILN_VEC(kiln_packer_conversion) conversion;
    uint32_t device_kind; /* device of the kernels, a number of devices.def; 0: the processor */
    uint32_t alignment;   /* of buffers there */
    uint64_t host_bytes;  /* of the processor's arena, if kernels run on a device */
    kiln_map kernels;     /* key of the task and hash of the trace -> index into kernel */
    kiln_map ways;        /* pointer to a way -> index into kernel */
    kiln_map conversions; /* key -> index into conversion */
    kiln_map buffers;     /* "value layout" -> index into buffer */
    kiln_strbuf text;     /* scratch */
    kiln_pack_report report;
} kiln_packer;

/* ---- pack.c ---- */
/* A new buffer for `value` in `layout`. */
uint32_t kiln_packer_add_buffer(kiln_packer *p, kiln_value value, const kiln_layout *layout,
                                kiln_plan_buffer plan);
/* The buffer of a value in a layout; false: there is none yet. */
bool kiln_packer_find_buffer(kiln_packer *p, kiln_value value, const kiln_layout *layout,
                             uint32_t *out_index);
/* The source of an alias; any other buffer itself. */
uint32_t kiln_packer_root(const kiln_packer *p, uint32_t buffer);
/* Bytes of another buffer from `offset` on. */
kiln_plan_buffer kiln_packer_alias(const kiln_packer *p, uint32_t buffer, uint64_t offset);
/* Appends the step to the open body. */
void kiln_packer_add_step(kiln_packer *p, kiln_plan_step step);
/* COPY or CARRY. */
void kiln_packer_add_move(kiln_packer *p, kiln_plan_action action, kiln_str name, uint32_t from,
                          uint32_t to);
/* The buffer that holds `value` in `layout`, converted when it exists only in another one. */
KILN_MUST_USE kiln_status kiln_packer_read(kiln_packer *p, kiln_value value,
                                           const kiln_layout *layout, uint32_t *out_buffer);
/* A buffer for a value that a step is about to write: its place in another one, or the caller's
 * memory when it is a row-major output. A whole that is written in parts has its buffer already. */
uint32_t kiln_packer_write(kiln_packer *p, kiln_value value);

/* ---- pack_loop.c ---- */
/* Finds depth_of and stack_of; windows are known by then. */
void kiln_packer_prepare_loops(kiln_packer *p);
/* For steps LOOP and LOOP_END of the plan. UNIMPLEMENTED: too many nested loops. */
KILN_MUST_USE kiln_status kiln_packer_open_loop(kiln_packer *p, uint32_t step);
KILN_MUST_USE kiln_status kiln_packer_close_loop(kiln_packer *p, uint32_t step);
/* The row of a value with stack_of in each iteration. */
kiln_plan_buffer kiln_packer_row(kiln_packer *p, kiln_value value);
/* Makes strided buffers name their loops by the module's steps. */
void kiln_packer_number_loops(kiln_packer *p);

/* ---- pack_device.c ---- */
/* Finds the device of the target's kernels; C text runs on the processor. */
void kiln_packer_find_device(kiln_packer *p);
/* Moves all buffers to the kernels' device, if it has its own memory, except inputs, outputs,
 * results of the host's kernels, and counts and conditions of loops. Steps are complete, and loops
 * have no numbers yet. */
void kiln_packer_move_to_device(kiln_packer *p);

#endif
