/* Ways that need no measurement. */
#include "compiler-core/layout/ways.h"

#include <math.h>

#include "base/macros.h"
#include "compiler-core/cost/features.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/layout/parts.h"
#include "compiler-core/rules/space.h"

/* Estimates rank ways of one task against conversions of its arguments; both are of the
 * order of one core of an AVX2 machine. */
#define FLOPS_PER_S 50e9
#define BYTES_PER_S 10e9
#define UNMEASURED                                                                \
    1.1 /* times the fastest that was measured: used only if it saves conversions \
         */
/* The host of a device: one core of a board's processor (a Cortex-A9 of 650 MHz, an operation on
 * four lanes a cycle, half of that achieved), even if another machine simulates it. */
#define HOST_FLOPS_PER_S 1.3e9
#define HOST_BYTES_PER_S 0.5e9
#define FOREIGN 1.02 /* on the layouts of others rather than on its own */
#define FAMILIES_MAX 4u

static const kiln_layout row;

static bool is_alike(const kiln_way *a, const kiln_way *b, uint32_t arg_count) {
    if (a->on_host != b->on_host) return false;
    for (uint32_t i = 0; i < arg_count; i++)
        if (!kiln_layout_equal(&a->layout[i], &b->layout[i])) return false;
    return true;
}

static bool is_given(const kiln_ways *list) {
    return list->way.count > 0 && list->way.data[0].is_given;
}

void kiln_ways_add(kiln_ways *list, const kiln_task *task, const kiln_way *way, kiln_arena *arena) {
    kiln_arg_buffers arg = kiln_program_args(task->te);
    if (list->way.count == KILN_WAYS_MAX || is_given(list)) return;
    for (uint32_t i = 0; i < list->way.count; i++)
        if (is_alike(&list->way.data[i], way, arg.count)) return;
    kiln_vec_push_in(arena, &list->way, *way);
}

double kiln_ways_least_ns(const kiln_ways *list) {
    double least = list->way.count ? list->way.data[0].cost_ns : 0;
    for (uint32_t i = 1; i < list->way.count; i++)
        least = KILN_MIN(least, list->way.data[i].cost_ns);
    return least;
}

/* predicted_ns: of a device's schedule, by its model; 0: not predicted. */
static double estimate_ns(const kiln_task *task, const kiln_ways *list, bool on_host,
                          double predicted_ns) {
    kiln_arg_buffers arg = kiln_program_args(task->te);
    double bytes = 0, measured = 0;
    for (uint32_t i = 0; i < arg.count; i++) {
        const kiln_buffer_info *buffer = &task->te->buffer.data[arg.buffer[i]];
        bytes += (double)kiln_shape_count(&buffer->shape) * (double)kiln_dtype_size(buffer->dtype);
    }
    for (uint32_t i = 0; i < list->way.count; i++) {
        double ns = list->way.data[i].median_ns;
        if (ns > 0 && (measured <= 0 || ns < measured)) measured = ns;
    }
    if (on_host) return (task->flops / HOST_FLOPS_PER_S + bytes / HOST_BYTES_PER_S) * 1e9;
    if (measured > 0) return measured * UNMEASURED;
    if (predicted_ns > 0) return predicted_ns;
    return (task->flops / FLOPS_PER_S + bytes / BYTES_PER_S) * 1e9;
}

/* The time of a device with a host: parts of tiles take as long as whole ones. 0: there is no host
 * to compare with. */
static double predict_ns(const kiln_ways_maker *maker, const kiln_program *scheduled) {
    const kiln_feature_set *set = kiln_features_of(maker->target);
    if (!maker->target->host || !set->count) return 0;
    float *number = KILN_ARENA_ARRAY(maker->arena, float, set->count);
    set->compute(scheduled, maker->target, maker->arena, number);
    return exp2((double)number[set->predicted_ns]);
}

/* The default schedule of the task with these options, on the host or the device, with the cost
 * that is predicted, or 0. ILLEGAL_SCHEDULE: an argument cannot have the layout that they give it;
 * FAILED_PRECONDITION: the device has none. */
static kiln_status make_default(const kiln_ways_maker *maker, const kiln_task *task, bool on_host,
                                kiln_space_options options, kiln_way *out) {
    kiln_arena *arena = maker->arena;
    kiln_space space;
    kiln_trace trace;
    kiln_program *program = NULL;
    options.accuracy = maker->accuracy;
    options.accuracy.exact |= maker->is_exact && maker->is_exact(maker->context, task);
    options.compact = maker->compact;
    kiln_status st = kiln_space_create_with(task->te, on_host ? maker->target->host : maker->target,
                                            &options, arena, &space);
    if (!st) st = kiln_space_default(&space, arena, &trace, &program);
    if (st) return st;
    kiln_strbuf bytes = {0};
    kiln_trace_encode(&trace, &bytes);
    kiln_arg_buffers arg = kiln_program_args(task->te), scheduled = kiln_program_args(program);
    *out = (kiln_way){.trace = kiln_strbuf_end(&bytes, arena),
                      .is_default = true,
                      .on_host = on_host,
                      .cost_ns = on_host ? 0 : predict_ns(maker, program),
                      .layout = KILN_ARENA_ARRAY(arena, kiln_layout, arg.count)};
    for (uint32_t i = 0; i < arg.count; i++)
        if (task->te->buffer.data[arg.buffer[i]].role != KILN_ROLE_CONSTANT)
            out->layout[i] = program->buffer.data[scheduled.buffer[i]].layout;
    return KILN_OK;
}

/* Whether the device leaves the task to its host. */
static bool is_refused(const kiln_ways_maker *maker, kiln_status st) {
    return maker->target->host && (kiln_status_code(st) == KILN_FAILED_PRECONDITION ||
                                   kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE);
}

/* ---- the blocks that others write ------------------------------------------------------------ */

/* A layout of tensors of one rank. */
typedef struct family {
    uint32_t rank;
    kiln_layout layout;
} family;

typedef struct families {
    uint32_t count;
    family item[FAMILIES_MAX];
} families;

static void add_families(families *f, const kiln_task *task, const kiln_way *way) {
    kiln_arg_buffers arg = kiln_program_args(task->te);
    for (uint32_t i = 0; i < arg.count; i++) {
        const kiln_buffer_info *buffer = &task->te->buffer.data[arg.buffer[i]];
        bool known = buffer->role != KILN_ROLE_OUTPUT || kiln_layout_is_identity(&way->layout[i]);
        for (uint32_t k = 0; k < f->count; k++)
            known |= f->item[k].rank == buffer->shape.rank &&
                     kiln_layout_equal(&f->item[k].layout, &way->layout[i]);
        if (!known && f->count < FAMILIES_MAX)
            f->item[f->count++] = (family){buffer->shape.rank, way->layout[i]};
    }
}

/* Few operations per element that is moved: the time is that of the bytes, whatever the layout. */
static bool is_light(const kiln_task *task) {
    kiln_arg_buffers arg = kiln_program_args(task->te);
    double elements = 0;
    for (uint32_t i = 0; i < arg.count; i++)
        elements += (double)kiln_shape_count(&task->te->buffer.data[arg.buffer[i]].shape);
    return task->flops <= 16 * elements;
}

static bool fits(const family *f, const kiln_buffer_info *buffer) {
    if (buffer->role == KILN_ROLE_CONSTANT || buffer->pinned || buffer->shape.rank != f->rank)
        return false;
    kiln_shape physical = kiln_layout_physical(&f->layout, &buffer->shape);
    return kiln_shape_count(&physical) == kiln_shape_count(&buffer->shape);
}

/* [tasks of the plan] Whether the task concatenates, or writes or reads a concatenated value: with
 * the same blocks in all of them nothing is copied. */
static bool *find_joined(const kiln_plan *plan, kiln_arena *arena) {
    bool *joins = KILN_ARENA_ARRAY(arena, bool, plan->tasks.count);
    bool *near = KILN_ARENA_ARRAY(arena, bool, plan->tasks.count);
    kiln_value value_count = 0;
    for (uint32_t t = 0; t < plan->tasks.count; t++)
        joins[t] = kiln_parts_of(plan->tasks.task[t].te, arena).joins;
    for (uint32_t s = 0; s < plan->step_count; s++)
        for (uint32_t i = 0; i < plan->step[s].arg_count; i++)
            value_count = KILN_MAX(value_count, plan->step[s].arg[i] + 1);
    bool *joined = KILN_ARENA_ARRAY(arena, bool, value_count);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t s = 0; s < plan->step_count; s++) {
            const kiln_step *step = &plan->step[s];
            if (step->kind != KILN_STEP_KERNEL) continue;
            for (uint32_t i = 0; i < step->arg_count; i++) {
                if (pass == 0) joined[step->arg[i]] |= joins[step->task];
                if (pass == 1) near[step->task] |= joined[step->arg[i]];
            }
        }
    }
    return near;
}

/* A tensor that fits no block is row-major, or, for tasks that compute much, as the default
 * schedule wants it. */
static kiln_status add_on_family(const kiln_ways_maker *maker, const kiln_task *task, bool on_host,
                                 const family *f, kiln_ways *list) {
    kiln_arena *arena = maker->arena;
    kiln_arg_buffers arg = kiln_program_args(task->te);
    const kiln_layout **given = KILN_ARENA_ARRAY(arena, const kiln_layout *, arg.count);
    bool any = false, light = is_light(task);
    for (uint32_t i = 0; i < arg.count; i++) {
        bool blocked = fits(f, &task->te->buffer.data[arg.buffer[i]]);
        given[i] = blocked ? &f->layout : light ? &row : NULL;
        any |= blocked;
    }
    if (!any) return KILN_OK;
    kiln_way way;
    kiln_status st =
        make_default(maker, task, on_host, (kiln_space_options){.layout = given}, &way);
    if (kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE || is_refused(maker, st)) {
        kiln_status_free(st); /* then there is no such way */
        return KILN_OK;
    }
    if (st) return st;
    way.cost_ns = estimate_ns(task, list, on_host, way.cost_ns) * FOREIGN;
    kiln_ways_add(list, task, &way, arena);
    return KILN_OK;
}

/* The default schedule on the layouts that it wants. */
static kiln_status add_own(const kiln_ways_maker *maker, const kiln_task *task, bool on_host,
                           kiln_space_options options, kiln_ways *list) {
    kiln_way way;
    kiln_status st = make_default(maker, task, on_host, options, &way);
    if (st) return kiln_status_note(st, "the default schedule of %.*s", KILN_STR_ARG(task->op));
    way.cost_ns = estimate_ns(task, list, on_host, way.cost_ns);
    kiln_ways_add(list, task, &way, maker->arena);
    return KILN_OK;
}

/* Of the device, and of the host where there is one. */
static kiln_status add_both(const kiln_ways_maker *maker, const kiln_task *task,
                            kiln_space_options options, kiln_ways *list) {
    kiln_status st = add_own(maker, task, false, options, list);
    if (is_refused(maker, st)) {
        kiln_status_free(st); /* the host has a way */
        st = KILN_OK;
    }
    return !st && maker->target->host ? add_own(maker, task, true, options, list) : st;
}

kiln_status kiln_ways_add_default(const kiln_task *task, const kiln_ways_maker *maker,
                                  kiln_ways *list) {
    return add_both(maker, task, (kiln_space_options){0}, list);
}

kiln_status kiln_ways_add_defaults(const kiln_plan *plan, const kiln_ways_maker *maker,
                                   kiln_ways *list) {
    kiln_arena *arena = maker->arena;
    families f = {0};
    kiln_status st = KILN_OK;
    for (uint32_t t = 0; !st && t < plan->tasks.count; t++) {
        const kiln_task *task = &plan->tasks.task[t];
        st = add_both(maker, task, (kiln_space_options){0}, &list[t]);
        for (uint32_t i = 0; !st && i < list[t].way.count; i++)
            add_families(&f, task, &list[t].way.data[i]);
    }
    if (st) return st;
    const bool *joined = find_joined(plan, arena);
    for (uint32_t t = 0; !st && t < plan->tasks.count; t++) {
        const kiln_task *task = &plan->tasks.task[t];
        for (uint32_t k = 0; !st && (joined[t] || is_light(task)) && k < f.count; k++) {
            st = add_on_family(maker, task, false, &f.item[k], &list[t]);
            if (!st && maker->target->host)
                st = add_on_family(maker, task, true, &f.item[k], &list[t]);
        }
    }
    return kiln_status_note(st, "schedules on the layouts of others");
}

void kiln_ways_free_windows(const kiln_plan *plan, kiln_arena *arena, kiln_ways *list) {
    for (uint32_t t = 0; t < plan->tasks.count; t++) {
        const kiln_program *te = plan->tasks.task[t].te;
        const kiln_parts parts = kiln_parts_of(te, arena);
        for (uint32_t i = 0; parts.count && i < list[t].way.count; i++)
            if (kiln_parts_are_windows(&parts, te, list[t].way.data[i].layout))
                list[t].way.data[i].cost_ns = 0;
    }
}

kiln_status kiln_ways_make_row_major(const kiln_plan *plan, const kiln_ways_maker *maker,
                                     bool packed, kiln_ways *list) {
    kiln_arena *arena = maker->arena;
    kiln_status st = KILN_OK;
    for (uint32_t t = 0; !st && t < plan->tasks.count; t++) {
        const kiln_task *task = &plan->tasks.task[t];
        if (is_given(&list[t])) continue;
        uint32_t count = kiln_program_args(task->te).count;
        const kiln_layout **given = KILN_ARENA_ARRAY(arena, const kiln_layout *, count);
        for (uint32_t i = 0; i < count; i++) given[i] = &row;
        list[t].way.count = 0;
        st = add_both(maker, task,
                      (kiln_space_options){.layout = packed ? given : NULL, .row_major = !packed},
                      &list[t]);
    }
    return kiln_status_note(st, "row-major schedules");
}
