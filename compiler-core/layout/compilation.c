#include "compiler-core/layout/compilation.h"

#include "base/check.h"
#include "base/map.h"
#include "base/reference.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/layout/assign.h"
#include "compiler-core/layout/convert.h"
#include "compiler-core/layout/joined.h"
#include "compiler-core/passes/narrow.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/rules/space.h"

static const kiln_layout row;

static kiln_status find_joins(kiln_compilation *c) {
    uint32_t *group = KILN_ARENA_ARRAY(c->arena, uint32_t, c->graph->node.count);
    for (kiln_node n = 1; n < c->graph->node.count; n++) group[n] = c->graph->node.data[n].group;
    c->base = c->plan;
    c->base_group = group;
    if (c->target.kind != KILN_TARGET_CPU && c->target.kind != KILN_TARGET_MICRO)
        return KILN_OK; /* launches share no near memory */
    return kiln_joins_find(c->graph, &c->base, &c->target, c->arena, &c->joins);
}

kiln_status kiln_compilation_create(kiln_graph *graph, const kiln_target *target, kiln_arena *arena,
                                    kiln_compilation **out_compilation) {
    kiln_compilation *c = KILN_ARENA_NEW(arena, kiln_compilation);
    *c = (kiln_compilation){.arena = arena, .graph = graph, .target = *target};
    kiln_status st = kiln_plan_create(graph, arena, &c->plan);
    if (!st) st = find_joins(c);
    if (!st) *out_compilation = c;
    return st;
}

/* ---- the choice ------------------------------------------------------------------------------ */

typedef struct chooser {
    const kiln_compilation *c;
    const kiln_choice *choice;
    kiln_plan whole; /* the base, with the tasks of the joins behind its own */
    kiln_ways *list; /* [tasks of whole] */
} chooser;

static double conversion_ns(void *context, kiln_value value, const kiln_layout *from,
                            const kiln_layout *to) {
    const chooser *ch = context;
    const kiln_value_info *info = &ch->c->graph->value.data[value];
    if (ch->choice->conversion_ns)
        return ch->choice->conversion_ns(ch->choice->context, info, from, to);
    return kiln_conversion_estimate_ns(info->dtype, &info->shape, from, to);
}

/* Copies between the memories of a board's processor and its device: a driver's call, and main
 * memory once through uncached pages. */
#define COPY_NS 5e3
#define COPY_BYTES_PER_S 1e9

static double copy_ns(void *context, kiln_value value) {
    const chooser *ch = context;
    const kiln_value_info *info = &ch->c->graph->value.data[value];
    return COPY_NS + (double)kiln_shape_count(&info->shape) * (double)kiln_dtype_size(info->dtype) *
                         1e9 / COPY_BYTES_PER_S;
}

static bool is_measured(const kiln_ways *list) {
    for (uint32_t i = 0; i < list->way.count; i++)
        if (list->way.data[i].median_ns > 0) return true;
    return false;
}

/* Of the kernels that the join replaces. */
static uint32_t count_measured(const chooser *ch, const kiln_join *join) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < join->row.count; k++)
        count += is_measured(&ch->list[ch->c->base.step[join->row.step[k]].task]);
    return count;
}

/* Measured ways of a join are useful only if all its kernels have some, too: an estimate cannot be
 * compared with a measurement. If nothing was measured, some have their default schedules. */
static kiln_status find_ways_of_joins(chooser *ch, const kiln_ways_maker *maker) {
    const kiln_choice *choice = ch->choice;
    const kiln_joins *joins = &ch->c->joins;
    const uint32_t own = ch->c->base.tasks.count;
    kiln_status st = KILN_OK;
    for (uint32_t j = 0; !st && !choice->no_joins && j < joins->count; j++) {
        const kiln_join *join = &joins->join[j];
        const kiln_task *task = &joins->tasks.task[join->step.task];
        kiln_ways *list = &ch->list[own + join->step.task];
        const uint32_t measured = count_measured(ch, join);
        if (list->way.count) continue;
        if (measured == join->row.count &&
            (!choice->may_join || choice->may_join(choice->context, task)))
            st = choice->measured(choice->context, task, ch->c->arena, list);
        else if (measured == 0 && join->by_default && maker)
            st = kiln_ways_add_default(task, maker, list);
    }
    return st;
}

static kiln_status find_ways(chooser *ch) {
    const kiln_compilation *c = ch->c;
    const kiln_choice *choice = ch->choice;
    kiln_status st = KILN_OK;
    ch->list = KILN_ARENA_ARRAY(c->arena, kiln_ways, ch->whole.tasks.count);
    for (uint32_t t = 0; !st && choice->measured && t < c->base.tasks.count; t++)
        st = choice->measured(choice->context, &c->base.tasks.task[t], c->arena, &ch->list[t]);
    const kiln_ways_maker maker = {.target = &c->target,
                                   .accuracy = choice->accuracy,
                                   .is_exact = choice->is_exact,
                                   .context = choice->context,
                                   .compact = choice->compact,
                                   .arena = c->arena};
    const bool row_major = choice->row_major || choice->apart;
    if (!st) st = find_ways_of_joins(ch, row_major ? NULL : &maker);
    if (st) return st;
    st = row_major ? kiln_ways_make_row_major(&c->base, &maker, !choice->row_major, ch->list)
                   : kiln_ways_add_defaults(&c->base, &maker, ch->list);
    if (!st && !choice->no_windows) kiln_ways_free_windows(&c->base, c->arena, ch->list);
    return st;
}

static void note_times(chooser *ch, kiln_join_times *out) {
    const kiln_compilation *c = ch->c;
    for (uint32_t j = 0; j < c->joins.count; j++) {
        const kiln_join *join = &c->joins.join[j];
        const kiln_ways *joined = &ch->list[c->base.tasks.count + join->step.task];
        if (!is_measured(joined)) continue;
        out[j].joined_ns = kiln_ways_least_ns(joined);
        for (uint32_t k = 0; k < join->row.count; k++)
            out[j].apart_ns += kiln_ways_least_ns(&ch->list[c->base.step[join->row.step[k]].task]);
    }
}

/* The groups of the graph become those of the base with the chosen joins, and the plan is made from
 * them; lists: of all tasks; those of the plan's tasks are taken over. */
static kiln_status make_plan(kiln_compilation *c, const kiln_plan *whole, const kiln_ways *list) {
    bool any = false;
    kiln_map place; /* key -> index into list */
    for (kiln_node n = 1; n < c->graph->node.count; n++)
        c->graph->node.data[n].group = c->base_group[n];
    for (uint32_t j = 0; j < c->joins.count; j++) {
        if (c->joined[j]) kiln_join_apply(&c->joins.join[j], c->graph);
        any |= c->joined[j];
    }
    c->plan = c->base;
    kiln_status st = any ? kiln_plan_create(c->graph, c->arena, &c->plan) : KILN_OK;
    if (st) return st;
    c->list = KILN_ARENA_ARRAY(c->arena, kiln_ways, c->plan.tasks.count);
    kiln_map_init(&place);
    for (uint32_t t = 0; t < whole->tasks.count; t++)
        kiln_map_put(&place, whole->tasks.task[t].key, t);
    for (uint32_t t = 0; t < c->plan.tasks.count; t++) {
        uint64_t at = 0;
        KILN_CHECK(kiln_map_find(&place, c->plan.tasks.task[t].key, &at));
        c->list[t] = list[at];
    }
    kiln_map_deinit(&place);
    return KILN_OK;
}

void kiln_compilation_use(kiln_compilation *c, const uint32_t *way) {
    const kiln_assignment assignment = {.graph = c->graph, .plan = &c->plan, .list = c->list};
    c->way = KILN_ARENA_ARRAY(c->arena, const kiln_way *, c->plan.step_count);
    for (uint32_t s = 0; s < c->plan.step_count; s++)
        if (c->plan.step[s].kind == KILN_STEP_KERNEL)
            c->way[s] = &c->list[c->plan.step[s].task].way.data[way[s]];
    if (!c->graph) return;
    const kiln_value_info *value = c->graph->value.data;
    c->layout = KILN_ARENA_ARRAY(c->arena, kiln_layout, c->graph->value.count);
    kiln_layout_of_values(&assignment, way, c->layout);
    for (kiln_value v = 1; v < c->graph->value.count; v++)
        if (kiln_layout_same_places(&c->layout[v], &row, &value[v].shape)) c->layout[v] = row;
    kiln_windows_find(c->graph, &c->plan, c->way, c->layout, !c->no_windows, c->arena, &c->windows);
}

kiln_status kiln_compilation_choose(kiln_compilation *c, const kiln_choice *choice) {
    static const kiln_choice plain;
    chooser ch = {.c = c, .choice = choice ? choice : &plain};
    c->joined = KILN_ARENA_ARRAY(c->arena, bool, c->joins.count);
    c->join_times = KILN_ARENA_ARRAY(c->arena, kiln_join_times, c->joins.count);
    c->no_windows = ch.choice->no_windows;
    ch.whole = kiln_joined_plan(&c->base, &c->joins, c->joined, c->arena);
    kiln_status st = find_ways(&ch);
    kiln_assignment assignment = {.graph = c->graph,
                                  .plan = &ch.whole,
                                  .list = ch.list,
                                  .conversion_ns = conversion_ns,
                                  .copy_ns = c->target.host ? copy_ns : NULL,
                                  .context = &ch};
    if (!st) note_times(&ch, c->join_times);
    if (!st) kiln_joined_choose(&assignment, &c->joins, c->arena, c->joined);
    if (!st) st = make_plan(c, &ch.whole, ch.list);
    if (st) return kiln_status_note(st, "choosing schedules");
    assignment.plan = &c->plan;
    assignment.list = c->list;
    uint32_t *way = KILN_ARENA_ARRAY(c->arena, uint32_t, c->plan.step_count);
    double ns = 0;
    kiln_layout_assign(&assignment, c->arena, way, &ns);
    kiln_compilation_use(c, way);
    return KILN_OK;
}

/* ---- what is tuned --------------------------------------------------------------------------- */

typedef struct finder {
    kiln_compilation *c;
    bool *written, *read; /* [values] by a kernel */
    uint32_t *step_of;    /* [nodes] of the plan, of those that kernels compute */
    uint32_t *place;      /* [tasks of the base] among the searched ones, + 1 */
    KILN_VEC(kiln_task) task;
    KILN_VEC(const kiln_layout **) agreed;
    KILN_VEC(kiln_alternative) alternative;
    kiln_map conversions; /* key -> index into task */
} finder;

/* Boards compare every output with its reference: a program with more outputs keeps its default. */
static bool can_be_checked(const kiln_program *te) {
    kiln_arg_buffers arg = kiln_program_args(te);
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < arg.count; i++)
        outputs += te->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT;
    return outputs <= KILN_REFERENCE_OUTPUTS_MAX;
}

/* Finds the values that pass from kernel to kernel. */
static void find_links(finder *f) {
    const kiln_compilation *c = f->c;
    f->written = KILN_ARENA_ARRAY(c->arena, bool, c->graph->value.count);
    f->read = KILN_ARENA_ARRAY(c->arena, bool, c->graph->value.count);
    f->step_of = KILN_ARENA_ARRAY(c->arena, uint32_t, c->graph->node.count);
    for (uint32_t s = 0; s < c->plan.step_count; s++) {
        const kiln_step *step = &c->plan.step[s];
        for (uint32_t i = 0; step->kind == KILN_STEP_KERNEL && i < step->arg_count; i++)
            (i < step->read_count ? f->read : f->written)[step->arg[i]] = true;
        for (uint32_t i = 0; i < step->member_count; i++) f->step_of[step->member[i]] = s;
    }
}

/* Whether the layout pads the value: only a kernel that stores whole tiles can choose such a
 * layout. */
static bool pads(const kiln_compilation *c, kiln_value value, const kiln_layout *layout) {
    const kiln_shape *shape = &c->graph->value.data[value].shape,
                     physical = kiln_layout_physical(layout, shape);
    return kiln_shape_count(&physical) != kiln_shape_count(shape);
}

/* The layout of an argument of a step of the base or of a join under the choice: that in the plan's
 * kernel that computes one of its nodes. NULL: the value is inside a kernel, an input or output of
 * the graph, or padded. */
static const kiln_layout *agreed_on(const finder *f, const kiln_step *step, uint32_t arg) {
    const kiln_compilation *c = f->c;
    const kiln_value value = step->arg[arg];
    for (uint32_t m = 0; f->written[value] && f->read[value] && m < step->member_count; m++) {
        const uint32_t s = f->step_of[step->member[m]];
        const kiln_step *planned = &c->plan.step[s];
        const uint32_t first = arg < step->read_count ? 0 : planned->read_count;
        const uint32_t end = arg < step->read_count ? planned->read_count : planned->arg_count;
        for (uint32_t i = first; i < end; i++)
            if (planned->arg[i] == value)
                return pads(c, value, &c->way[s]->layout[i]) ? NULL : &c->way[s]->layout[i];
    }
    return NULL;
}

static void add_task(finder *f, const kiln_task *task, const kiln_step *step) {
    const kiln_layout **agreed =
        KILN_ARENA_ARRAY(f->c->arena, const kiln_layout *, step->arg_count);
    for (uint32_t i = 0; i < step->arg_count; i++) agreed[i] = agreed_on(f, step, i);
    kiln_vec_push_in(f->c->arena, &f->task, *task);
    kiln_vec_push_in(f->c->arena, &f->agreed, agreed);
}

/* The device has no schedule for it, and tasks of its host are not measured. A task of the base:
 * with a host there are no joins, so the base is the plan. */
static bool is_hosts(const kiln_compilation *c, uint32_t task) {
    const kiln_ways *list = &c->list[task];
    bool hosts = c->target.host != NULL;
    for (uint32_t i = 0; hosts && i < list->way.count; i++) hosts = list->way.data[i].on_host;
    return hosts;
}

/* A kernel that only moves values that lie inside of others is never called. */
static void add_kernels(finder *f) {
    const kiln_compilation *c = f->c;
    const kiln_tasks *tasks = &c->base.tasks;
    bool *tuned = KILN_ARENA_ARRAY(c->arena, bool, tasks->count);
    const kiln_step **first = KILN_ARENA_ARRAY(c->arena, const kiln_step *, tasks->count);
    for (uint32_t s = c->base.step_count; s-- > 0;) { /* the first step of a task comes last */
        const kiln_step *step = &c->base.step[s];
        if (step->kind != KILN_STEP_KERNEL) continue;
        if (!c->windows.step[f->step_of[step->member[0]]])
            tuned[step->task] =
                can_be_checked(tasks->task[step->task].te) && !is_hosts(c, step->task);
        first[step->task] = step;
    }
    f->place = KILN_ARENA_ARRAY(c->arena, uint32_t, tasks->count);
    for (uint32_t t = 0; t < tasks->count; t++) {
        if (!tuned[t]) continue;
        add_task(f, &tasks->task[t], first[t]);
        f->place[t] = f->task.count;
    }
}

/* They replace calls of other kernels, which count already. */
static void add_joins(finder *f) {
    const kiln_compilation *c = f->c;
    bool *added = KILN_ARENA_ARRAY(c->arena, bool, c->joins.tasks.count);
    for (uint32_t j = 0; j < c->joins.count; j++) {
        const kiln_join *join = &c->joins.join[j];
        kiln_task task = c->joins.tasks.task[join->step.task];
        kiln_alternative of = {
            .task = f->task.count, .count = join->row.count, .times = task.weight};
        bool known = !added[join->step.task] && can_be_checked(task.te);
        for (uint32_t k = 0; k < join->row.count; k++) {
            const uint32_t place = f->place[c->base.step[join->row.step[k]].task];
            known = known && place;
            of.instead_of[k] = place - 1;
        }
        if (!known) continue;
        added[join->step.task] = true;
        task.weight = 0;
        add_task(f, &task, &join->step);
        kiln_vec_push_in(c->arena, &f->alternative, of);
    }
}

/* The task fixes both layouts of a conversion: there are none to choose. */
static void add_conversion(finder *f, kiln_value value, const kiln_layout *to) {
    const kiln_compilation *c = f->c;
    const kiln_value_info *info = &c->graph->value.data[value];
    uint64_t index = 0;
    if (kiln_value_is_constant(c->graph, value) ||
        kiln_layout_same_places(&c->layout[value], to, &info->shape))
        return;
    kiln_program *te =
        kiln_conversion_te(info->dtype, &info->shape, &c->layout[value], to, c->arena);
    kiln_str key = kiln_task_key(te, c->arena);
    if (!kiln_map_find(&f->conversions, key, &index)) {
        index = f->task.count;
        kiln_map_put(&f->conversions, key, index);
        kiln_vec_push_in(c->arena, &f->task,
                         ((kiln_task){.key = key, .op = KILN_STR("convert"), .te = te}));
        kiln_vec_push_in(c->arena, &f->agreed, KILN_ARENA_ARRAY(c->arena, const kiln_layout *, 2));
    }
    f->task.data[index].weight += 1;
}

static void add_conversions(finder *f) {
    const kiln_compilation *c = f->c;
    for (uint32_t s = 0; s < c->plan.step_count; s++) {
        const kiln_step *step = &c->plan.step[s];
        for (uint32_t i = 0; i < step->read_count; i++)
            add_conversion(f, step->arg[i], c->way[s] ? &c->way[s]->layout[i] : &row);
    }
    for (uint32_t i = 0; i < c->graph->output.count; i++)
        add_conversion(f, c->graph->output.data[i], &row);
}

void kiln_compilation_find_searched(kiln_compilation *c) {
    finder f = {.c = c};
    find_links(&f);
    add_kernels(&f);
    kiln_map_init(&f.conversions);
    if (!c->target.host) add_conversions(&f);
    kiln_map_deinit(&f.conversions);
    add_joins(&f);
    c->searched = (kiln_tasks){f.task.count, f.task.data};
    c->agreed = f.agreed.data;
    c->alternative_count = f.alternative.count;
    c->alternative = f.alternative.data;
}

kiln_status kiln_compilation_narrow(kiln_graph *graph, const kiln_target *target,
                                    const kiln_accuracy *accuracy) {
    const kiln_dtype storage = kiln_space_storage(target, accuracy);
    return storage == KILN_DTYPE_NONE ? KILN_OK : kiln_graph_narrow(graph, storage);
}

kiln_status kiln_compilation_of_model(kiln_graph *graph, const kiln_target *target,
                                      const kiln_accuracy *accuracy, kiln_arena *arena,
                                      kiln_compilation **out_compilation) {
    const kiln_choice choice = {.accuracy = *accuracy};
    kiln_compilation *c = NULL;
    kiln_status st = kiln_passes_run(graph, (kiln_str){0});
    if (!st) st = kiln_compilation_narrow(graph, target, accuracy);
    if (!st) st = kiln_compilation_create(graph, target, arena, &c);
    if (!st) st = kiln_compilation_choose(c, &choice);
    if (st) return st;
    kiln_compilation_find_searched(c);
    *out_compilation = c;
    return KILN_OK;
}
