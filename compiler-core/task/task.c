#include "compiler-core/task/task.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "compiler-core/graph/loops.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/task/fill.h"
#include "compiler-core/task/ranges.h"

/* Nodes that become one step: a fused group, or a node by itself. */
typedef struct unit {
    KILN_VEC(kiln_node) node;
    bool placed, waiting; /* has its place in the order of steps; on the stack of the search */
    bool unread;          /* nothing reads its results: it gets no step */
} unit;

/* Steps of one body, or of the graph outside of all loops. */
typedef KILN_VEC(uint32_t) body;

typedef struct planner {
    const kiln_graph *graph;
    kiln_arena *arena;
    kiln_arena kernel; /* what is needed while one kernel is made */
    kiln_graph_loops loops;
    body *body;        /* [loops + 1] of units, in order: outside of all loops, then of each loop */
    double *times;     /* [loops + 1] that one inference runs it */
    kiln_range *range; /* [value] of what operators compute */
    KILN_VEC(unit) unit;
    uint32_t *unit_of;        /* [node] index into unit, + 1; 0: removed */
    uint32_t *outside;        /* [value] readers outside of the current unit */
    KILN_VEC(uint32_t) order; /* of units, producers first */
    KILN_VEC(kiln_task) task;
    KILN_VEC(kiln_step) step;
    kiln_map tasks; /* key -> index into task */
} planner;

/* ---- units and their order ------------------------------------------------------------------- */

static void find_units(planner *p) {
    const kiln_graph *g = p->graph;
    uint32_t group_max = 0;
    for (kiln_node n = 1; n < g->node.count; n++)
        group_max = KILN_MAX(group_max, g->node.data[n].group);
    uint32_t *unit_of_group = KILN_ARENA_ARRAY(p->arena, uint32_t, group_max + 1);
    for (kiln_node n = 1; n < g->node.count; n++) {
        const kiln_node_info *node = &g->node.data[n];
        if (node->op == KILN_OP_NONE) continue;
        uint32_t *known = node->group ? &unit_of_group[node->group] : &p->unit_of[n];
        if (!*known) {
            kiln_vec_push_in(p->arena, &p->unit, (unit){0});
            *known = p->unit.count;
        }
        p->unit_of[n] = *known;
        kiln_vec_push_in(p->arena, &p->unit.data[*known - 1].node, n);
    }
}

/* The first unit that `index` reads from and that has no place yet, or UINT32_MAX. */
static uint32_t missing_producer(const planner *p, uint32_t index) {
    const unit *u = &p->unit.data[index];
    for (uint32_t i = 0; i < u->node.count; i++) {
        const kiln_node_info *node = &p->graph->node.data[u->node.data[i]];
        for (uint32_t k = 0; k < node->input_count; k++) {
            kiln_node producer = node->input[k] ? p->graph->value.data[node->input[k]].producer : 0;
            if (!producer || !p->unit_of[producer]) continue;
            uint32_t from = p->unit_of[producer] - 1;
            if (from != index && !p->unit.data[from].placed) return from;
        }
    }
    return UINT32_MAX;
}

/* Depth first, with an explicit stack: a deep graph must not overflow the thread's stack. */
static kiln_status order_units(planner *p) {
    KILN_VEC(uint32_t) stack = {0};
    for (uint32_t first = 0; first < p->unit.count; first++) {
        if (p->unit.data[first].placed) continue;
        kiln_vec_push_in(p->arena, &stack, first);
        while (stack.count) {
            uint32_t top = kiln_vec_last(&stack), from = missing_producer(p, top);
            p->unit.data[top].waiting = true;
            if (from != UINT32_MAX && p->unit.data[from].waiting)
                return KILN_ERROR(
                    INTERNAL, "fusion made kernels that wait for each other (node %.*s)",
                    KILN_STR_ARG(p->graph->node.data[p->unit.data[from].node.data[0]].name));
            if (from != UINT32_MAX) {
                kiln_vec_push_in(p->arena, &stack, from);
                continue;
            }
            p->unit.data[top].placed = true;
            kiln_vec_push_in(p->arena, &p->order, top);
            stack.count--;
        }
    }
    return KILN_OK;
}

/* Adds the unit's reads to the counts of outside readers (+1), or subtracts them (-1). */
static void count_reads(planner *p, const unit *u, int by) {
    for (uint32_t i = 0; i < u->node.count; i++) {
        const kiln_node_info *node = &p->graph->node.data[u->node.data[i]];
        for (uint32_t k = 0; k < node->input_count; k++) p->outside[node->input[k]] += (uint32_t)by;
    }
}

static bool is_read_outside(const planner *p, const unit *u) {
    for (uint32_t i = 0; i < u->node.count; i++) {
        const kiln_node_info *node = &p->graph->node.data[u->node.data[i]];
        for (uint32_t k = 0; k < node->output_count; k++)
            if (node->output[k] && p->outside[node->output[k]] > 0) return true;
    }
    return false;
}

/* Consumers first, so that a chain without readers is removed as a whole. The pass remove-dead does
 * this in the graph, but it may be left out. */
static void find_unread_units(planner *p) {
    for (uint32_t i = p->order.count; i-- > 0;) {
        unit *u = &p->unit.data[p->order.data[i]];
        count_reads(p, u, -1);
        u->unread = !is_read_outside(p, u);
        if (!u->unread) count_reads(p, u, 1);
    }
}

/* ---- one kernel ------------------------------------------------------------------------------ */

/* The values of a kernel by role, each once, in order of first use. */
typedef struct ports {
    KILN_VEC(kiln_value) input, constant, output;
} ports;

#define ADD_ONCE(arena, list, value)                                          \
    do {                                                                      \
        uint32_t at_ = 0;                                                     \
        while (at_ < (list)->count && (list)->data[at_] != (value)) at_++;    \
        if (at_ == (list)->count) kiln_vec_push_in((arena), (list), (value)); \
    } while (0)

/* The lists live in p->kernel. */
static void find_ports(planner *p, uint32_t index, ports *out) {
    const kiln_graph *g = p->graph;
    const unit *u = &p->unit.data[index];
    count_reads(p, u, -1);
    for (uint32_t i = 0; i < u->node.count; i++) {
        const kiln_node_info *node = &g->node.data[u->node.data[i]];
        for (uint32_t k = 0; k < node->input_count; k++) {
            kiln_value value = node->input[k];
            if (!value) continue;
            kiln_node producer = g->value.data[value].producer;
            if (producer && p->unit_of[producer] == index + 1) continue;
            if (kiln_value_is_literal(g, value)) continue;
            if (kiln_value_is_constant(g, value))
                ADD_ONCE(&p->kernel, &out->constant, value);
            else
                ADD_ONCE(&p->kernel, &out->input, value);
        }
    }
    for (uint32_t i = 0; i < u->node.count; i++) {
        const kiln_node_info *node = &g->node.data[u->node.data[i]];
        for (uint32_t k = 0; k < node->output_count; k++)
            if (node->output[k] && p->outside[node->output[k]] > 0)
                ADD_ONCE(&p->kernel, &out->output, node->output[k]);
    }
    count_reads(p, u, 1);
}

/* Buffers are named after their role and number, never after the model's values: traces speak of
 * buffers, and a trace of this task must fit wherever its key occurs. */
static void add_buffers(const planner *p, kiln_program *te, const kiln_value *value, uint32_t count,
                        kiln_role role, kiln_buffer *buffer_of) {
    static const char letter[] = {[KILN_ROLE_INPUT] = 'x',
                                  [KILN_ROLE_CONSTANT] = 'w',
                                  [KILN_ROLE_OUTPUT] = 'y',
                                  [KILN_ROLE_TEMP] = 't'};
    for (uint32_t i = 0; i < count; i++) {
        const kiln_value_info *info = &p->graph->value.data[value[i]];
        kiln_str name = kiln_str_printf(te->arena, "%c%u", letter[role], te->buffer.count - 1);
        buffer_of[value[i]] = kiln_buffer_create(te, name, info->dtype, role, &info->shape);
    }
}

/* Constants get a range only with data that have one: other tasks keep their keys, and their
 * constants need not be read. Arguments come first, in the order of the ports. */
static void set_ranges(const planner *p, kiln_program *te, const ports *port) {
    bool any = false;
    for (uint32_t i = 0; i < port->input.count; i++) {
        te->buffer.data[i + 1].range = p->range[port->input.data[i]];
        any |= te->buffer.data[i + 1].range.step != 0;
    }
    for (uint32_t i = 0; any && i < port->constant.count; i++) {
        const kiln_tensor constant = kiln_value_tensor(p->graph, port->constant.data[i]);
        te->buffer.data[port->input.count + i + 1].range = kiln_constant_range(&constant);
    }
}

static kiln_str unit_name(const planner *p, const unit *u, kiln_arena *arena) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < u->node.count; i++)
        kiln_strbuf_printf(&text, "%s%s", i ? "+" : "",
                           kiln_op_get(p->graph->node.data[u->node.data[i]].op)->name);
    return kiln_strbuf_end(&text, arena);
}

static void build_node(const planner *p, kiln_node n, kiln_program *te, kiln_buffer *buffer_of) {
    const kiln_node_info *node = &p->graph->node.data[n];
    kiln_buffer input[KILN_NODE_OPERANDS_MAX] = {0}, output[KILN_NODE_OPERANDS_MAX] = {0};
    for (uint32_t i = 0; i < node->input_count; i++)
        input[i] = node->input[i] ? buffer_of[node->input[i]] : 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        kiln_value value = node->output[i];
        if (value && !buffer_of[value]) add_buffers(p, te, &value, 1, KILN_ROLE_TEMP, buffer_of);
        output[i] = value ? buffer_of[value] : 0;
    }
    kiln_node_build(p->graph, n, te, input, output);
}

/* ---- tasks and steps ------------------------------------------------------------------------- */

kiln_str kiln_task_key(const kiln_program *te, kiln_arena *arena) {
    char hash[KILN_HASH128_TEXT];
    kiln_hash128_print(kiln_program_hash(te), hash);
    return kiln_str_printf(arena, "v%d:%s", KILN_TASK_KEY_VERSION, hash);
}

/* `te` and `op` are copied when the task is new. */
static uint32_t intern_task(planner *p, const kiln_program *te, kiln_str op, double times) {
    uint64_t index = 0;
    kiln_str key = kiln_task_key(te, &p->kernel);
    if (!kiln_map_find(&p->tasks, key, &index)) {
        kiln_task task = {.key = {kiln_str_dup(p->arena, key), key.size},
                          .op = {kiln_str_dup(p->arena, op), op.size},
                          .te = kiln_program_copy(te, p->arena),
                          .flops = kiln_program_flops(te)};
        kiln_vec_push_in(p->arena, &p->task, task);
        index = p->task.count - 1;
        kiln_map_put(&p->tasks, key, index);
    }
    p->task.data[index].weight += times;
    return (uint32_t)index;
}

/* Only what this kernel set: clearing all values for each kernel would take the square of their
 * number. */
static void forget_buffers(const planner *p, const unit *u, const kiln_step *step,
                           kiln_buffer *buffer_of) {
    for (uint32_t i = 0; i < step->arg_count; i++) buffer_of[step->arg[i]] = 0;
    for (uint32_t i = 0; i < u->node.count; i++) {
        const kiln_node_info *node = &p->graph->node.data[u->node.data[i]];
        for (uint32_t k = 0; k < node->output_count; k++) buffer_of[node->output[k]] = 0;
    }
}

/* buffer_of: [values], all 0 before and after. */
static kiln_status add_kernel(planner *p, uint32_t index, kiln_buffer *buffer_of) {
    const unit *u = &p->unit.data[index];
    ports port = {0};
    find_ports(p, index, &port);
    uint32_t count = port.input.count + port.constant.count + port.output.count, at = 0;
    kiln_str op = unit_name(p, u, &p->kernel);
    if (count > KILN_MANIFEST_ARGS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "kernel %.*s has %u arguments, at most %d",
                          KILN_STR_ARG(op), count, KILN_MANIFEST_ARGS_MAX);
    kiln_program *te = kiln_program_create(&p->kernel, op);
    add_buffers(p, te, port.input.data, port.input.count, KILN_ROLE_INPUT, buffer_of);
    add_buffers(p, te, port.constant.data, port.constant.count, KILN_ROLE_CONSTANT, buffer_of);
    add_buffers(p, te, port.output.data, port.output.count, KILN_ROLE_OUTPUT, buffer_of);
    for (uint32_t i = 0; i < u->node.count; i++) build_node(p, u->node.data[i], te, buffer_of);
    set_ranges(p, te, &port);
    kiln_task_choose_fill(te);
    const double times = p->times[p->loops.of[u->node.data[0]]];
    kiln_step step = {.kind = KILN_STEP_KERNEL,
                      .name = p->graph->node.data[u->node.data[0]].name,
                      .task = intern_task(p, te, op, times),
                      .times = times,
                      .arg_count = count,
                      .read_count = port.input.count + port.constant.count,
                      .arg = KILN_ARENA_ARRAY(p->arena, kiln_value, count),
                      .member_count = u->node.count,
                      .member = u->node.data};
    kiln_str known = p->task.data[step.task].op; /* the name is no part of the key */
    step.op = kiln_str_equal(op, known) ? known : kiln_str_copy(p->arena, op);
    for (uint32_t i = 0; i < port.input.count; i++) step.arg[at++] = port.input.data[i];
    for (uint32_t i = 0; i < port.constant.count; i++) step.arg[at++] = port.constant.data[i];
    for (uint32_t i = 0; i < port.output.count; i++) step.arg[at++] = port.output.data[i];
    forget_buffers(p, u, &step, buffer_of);
    kiln_vec_push_in(p->arena, &p->step, step);
    kiln_arena_reset(&p->kernel);
    return KILN_OK;
}

static void add_alias(planner *p, kiln_node n) {
    const kiln_node_info *node = &p->graph->node.data[n];
    kiln_step step = {.kind = KILN_STEP_ALIAS,
                      .name = node->name,
                      .op = kiln_str_from(kiln_op_get(node->op)->name),
                      .arg_count = 2,
                      .read_count = 1,
                      .times = p->times[p->loops.of[n]],
                      .arg = KILN_ARENA_ARRAY(p->arena, kiln_value, 2)};
    step.arg[0] = node->input[0];
    step.arg[1] = node->output[0];
    kiln_vec_push_in(p->arena, &p->step, step);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* The assumed number of iterations when that is known at run time only. */
#define TRIPS_GUESSED 16.0

static void find_times(planner *p) {
    p->times = KILN_ARENA_ARRAY(p->arena, double, p->loops.count + 1);
    p->times[0] = 1;
    for (uint32_t i = 0; i < p->loops.count; i++) {
        const kiln_graph_loop *loop = &p->loops.loop[i];
        const kiln_loop_info info = kiln_loop_describe(p->graph, loop->begin);
        p->times[i + 1] =
            info.is_constant ? (double)info.trips : KILN_MIN((double)info.trips, TRIPS_GUESSED);
    }
    for (uint32_t i = 0; i < p->loops.count; i++) /* a loop begins behind the one around it */
        p->times[i + 1] *= p->times[p->loops.loop[i].parent];
}

/* A unit goes into its loop's body; a loop as a whole is placed at its end. Units between its ends
 * that do not belong to it are needed by it or not needed yet, so they come before. */
static void sort_into_bodies(planner *p) {
    p->body = KILN_ARENA_ARRAY(p->arena, body, p->loops.count + 1);
    for (uint32_t i = 0; i < p->order.count; i++) {
        const unit *u = &p->unit.data[p->order.data[i]];
        kiln_node n = u->node.data[0];
        if (!u->unread && p->graph->node.data[n].op != KILN_OP_LOOP_BEGIN)
            kiln_vec_push_in(p->arena, &p->body[p->loops.of[n]], p->order.data[i]);
    }
}

/* Loops are in the order of their beginnings. */
static uint32_t loop_that_ends(const planner *p, kiln_node end) {
    kiln_node begin = p->graph->value.data[p->graph->node.data[end].input[0]].producer;
    uint32_t low = 0, high = p->loops.count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (p->loops.loop[middle].begin <= begin)
            low = middle;
        else
            high = middle;
    }
    return low + 1;
}

static void add_loop_step(planner *p, kiln_step_kind kind, kiln_node n) {
    const kiln_node_info *node = &p->graph->node.data[n];
    kiln_vec_push_in(p->arena, &p->step,
                     ((kiln_step){.kind = kind,
                                  .name = node->name,
                                  .op = kiln_str_from(kiln_op_get(node->op)->name),
                                  .arg_count = node->input_count,
                                  .read_count = node->input_count,
                                  .arg = node->input,
                                  .times = p->times[p->loops.of[n]],
                                  .node = n}));
}

static kiln_status add_body(planner *p, uint32_t loop, kiln_buffer *buffer_of);

static kiln_status add_loop(planner *p, uint32_t loop, kiln_buffer *buffer_of) {
    uint32_t begin = p->step.count;
    add_loop_step(p, KILN_STEP_LOOP, p->loops.loop[loop - 1].begin);
    kiln_status st = add_body(p, loop, buffer_of);
    if (st) return st;
    add_loop_step(p, KILN_STEP_LOOP_END, p->loops.loop[loop - 1].end);
    p->step.data[begin].partner = p->step.count - 1;
    p->step.data[p->step.count - 1].partner = begin;
    return KILN_OK;
}

static kiln_status add_body(planner *p, uint32_t loop, kiln_buffer *buffer_of) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < p->body[loop].count; i++) {
        uint32_t index = p->body[loop].data[i];
        kiln_node n = p->unit.data[index].node.data[0];
        kiln_op op = p->graph->node.data[n].op;
        if (kiln_op_is_loop(op))
            st = add_loop(p, loop_that_ends(p, n), buffer_of);
        else if (kiln_op_is_alias(op))
            add_alias(p, n);
        else
            st = add_kernel(p, index, buffer_of);
    }
    return st;
}

static kiln_status open_planner(planner *p, const kiln_graph *graph, kiln_arena *arena) {
    *p = (planner){.graph = graph, .arena = arena};
    kiln_arena_init(&p->kernel, 0);
    kiln_map_init(&p->tasks);
    p->outside = kiln_graph_count_uses(graph, arena);
    p->range = kiln_graph_ranges(graph, arena);
    p->unit_of = KILN_ARENA_ARRAY(arena, uint32_t, graph->node.count);
    kiln_status st = kiln_graph_loops_find(graph, arena, &p->loops);
    if (!st) find_times(p);
    return st;
}

static void close_planner(planner *p) {
    kiln_map_deinit(&p->tasks);
    kiln_arena_deinit(&p->kernel);
}

static kiln_status make_plan(planner *p) {
    kiln_buffer *buffer_of = KILN_ARENA_ARRAY(p->arena, kiln_buffer, p->graph->value.count);
    find_units(p);
    kiln_status st = order_units(p);
    if (st) return st;
    find_unread_units(p);
    sort_into_bodies(p);
    return add_body(p, 0, buffer_of);
}

kiln_status kiln_plan_create(const kiln_graph *graph, kiln_arena *arena, kiln_plan *out_plan) {
    planner p;
    kiln_status st = open_planner(&p, graph, arena);
    if (!st) st = make_plan(&p);
    close_planner(&p);
    if (st) return kiln_status_note(st, "cutting the graph into kernels");
    *out_plan = (kiln_plan){{p.task.count, p.task.data}, p.step.count, p.step.data};
    return KILN_OK;
}

static int by_number(const void *a, const void *b) {
    const kiln_node x = *(const kiln_node *)a, y = *(const kiln_node *)b;
    return (x > y) - (x < y);
}

/* The nodes of all steps of a row, in order. A node is in the unit of the row that was made last.
 */
static void add_unit_of_row(planner *p, const kiln_plan *plan, const kiln_step_row *row) {
    unit u = {0};
    for (uint32_t i = 0; i < row->count; i++) {
        const kiln_step *step = &plan->step[row->step[i]];
        for (uint32_t k = 0; k < step->member_count; k++)
            kiln_vec_push_in(p->arena, &u.node, step->member[k]);
    }
    qsort(u.node.data, u.node.count, sizeof *u.node.data, by_number);
    kiln_vec_push_in(p->arena, &p->unit, u);
    for (uint32_t i = 0; i < u.node.count; i++) p->unit_of[u.node.data[i]] = p->unit.count;
}

kiln_status kiln_plan_join(const kiln_graph *graph, const kiln_plan *plan, const kiln_step_row *row,
                           uint32_t count, kiln_arena *arena, kiln_step *out_step,
                           kiln_tasks *out_tasks) {
    planner p;
    kiln_status st = open_planner(&p, graph, arena);
    kiln_buffer *buffer_of = KILN_ARENA_ARRAY(arena, kiln_buffer, graph->value.count);
    for (uint32_t i = 0; !st && i < count; i++) {
        add_unit_of_row(&p, plan, &row[i]);
        st = add_kernel(&p, i, buffer_of);
    }
    close_planner(&p);
    if (st) return kiln_status_note(st, "joining kernels");
    for (uint32_t i = 0; i < count; i++) out_step[i] = p.step.data[i];
    *out_tasks = (kiln_tasks){p.task.count, p.task.data};
    return KILN_OK;
}

kiln_status kiln_tasks_extract(const kiln_graph *graph, kiln_arena *arena, kiln_tasks *out_tasks) {
    kiln_plan plan;
    kiln_status st = kiln_plan_create(graph, arena, &plan);
    if (!st) *out_tasks = plan.tasks;
    return st;
}

void kiln_tasks_print(const kiln_tasks *tasks, bool verbose, kiln_strbuf *out) {
    for (uint32_t i = 0; i < tasks->count; i++) {
        const kiln_task *task = &tasks->task[i];
        kiln_strbuf_printf(out, "%stask %u %.*s %.*s, %.6g MFLOP, %g per inference\n",
                           verbose && i ? "\n" : "", i, KILN_STR_ARG(task->key),
                           KILN_STR_ARG(task->op), task->flops / 1e6, task->weight);
        if (verbose) kiln_program_print(task->te, out);
    }
}
