/* Loops of the graph to loops of the module. A carried value has one place: it is filled before the
 * loop, and at the end of each iteration with the value for the next one. Rows are read and written
 * in place in the whole, if they are aligned there; otherwise they are copied. */
#include "base/check.h"
#include "base/macros.h"
#include "deploy/pack/packer.h"

static const kiln_layout row;

static const kiln_node_info *node_of(const kiln_packer *p, uint32_t step) {
    return &p->graph->node.data[p->plan.step[step].node];
}

static uint64_t bytes_of(const kiln_packer *p, kiln_value value) {
    const kiln_value_info *info = &p->graph->value.data[value];
    return (uint64_t)kiln_shape_count(&info->shape) * kiln_dtype_size(info->dtype);
}

/* A buffer that holds no value of the graph. */
static uint32_t add_unnamed(kiln_packer *p, kiln_plan_buffer plan, uint64_t size_bytes) {
    plan.size_bytes = size_bytes;
    kiln_vec_push_in(p->arena, &p->buffer, plan);
    return p->buffer.count - 1;
}

static uint32_t add_temp(kiln_packer *p, uint64_t size_bytes) {
    return add_unnamed(p, (kiln_plan_buffer){.storage = KILN_STORAGE_ARENA}, size_bytes);
}

/* ---- before packing -------------------------------------------------------------------------- */

static void note_outputs(kiln_packer *p, const kiln_node_info *node, uint32_t depth) {
    for (uint32_t i = 0; i < node->output_count; i++) p->depth_of[node->output[i]] = depth;
}

static void note_kernel(kiln_packer *p, const kiln_step *step, uint32_t depth) {
    const kiln_program *te = p->plan.tasks.task[step->task].te;
    kiln_arg_buffers arg = kiln_program_args(te);
    for (uint32_t i = 0; i < step->arg_count; i++)
        if (te->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT)
            p->depth_of[step->arg[i]] = depth;
}

static bool is_aligned(const kiln_packer *p, uint64_t size_bytes) {
    return size_bytes > 0 && size_bytes % p->alignment == 0;
}

/* Results of kernels of this body that are row-major and have no other place may be written
 * directly into the stack, unless that is in another memory (pack_device.c). */
static void find_stacked(kiln_packer *p, uint32_t end_step, const bool *computed, uint32_t depth) {
    const kiln_node_info *end = node_of(p, end_step);
    const kiln_loop_info info =
        kiln_loop_describe(p->graph, p->plan.step[p->plan.step[end_step].partner].node);
    for (uint32_t i = info.carried; i < end->output_count; i++) {
        kiln_value item = end->input[i + end->input_count - end->output_count];
        bool free = computed[item] && p->depth_of[item] == depth && !p->windows.of[item].whole &&
                    kiln_layout_is_identity(&p->layout[item]) && !p->stack_of[item];
        if (p->device_kind && kiln_loop_grows(p->graph, end->output[i])) continue;
        if (end->output[i] && free && is_aligned(p, bytes_of(p, item)))
            p->stack_of[item] = end->output[i];
    }
}

static void note_computed(const kiln_packer *p, const kiln_step *step, bool *computed) {
    const kiln_program *te = p->plan.tasks.task[step->task].te;
    kiln_arg_buffers arg = kiln_program_args(te);
    for (uint32_t i = 0; i < step->arg_count; i++)
        if (te->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT) computed[step->arg[i]] = true;
}

void kiln_packer_prepare_loops(kiln_packer *p) {
    uint32_t depth = 0;
    bool *computed = KILN_ARENA_ARRAY(p->arena, bool, p->graph->value.count);
    p->depth_of = KILN_ARENA_ARRAY(p->arena, uint32_t, p->graph->value.count);
    p->stack_of = KILN_ARENA_ARRAY(p->arena, kiln_value, p->graph->value.count);
    for (uint32_t s = 0; s < p->plan.step_count; s++) {
        const kiln_step *step = &p->plan.step[s];
        switch (step->kind) {
        case KILN_STEP_KERNEL:
            note_kernel(p, step, depth);
            if (!p->windows.step[s]) note_computed(p, step, computed);
            break;
        case KILN_STEP_ALIAS: p->depth_of[step->arg[1]] = depth; break;
        case KILN_STEP_LOOP: note_outputs(p, node_of(p, s), ++depth); break;
        case KILN_STEP_LOOP_END:
            find_stacked(p, s, computed, depth);
            note_outputs(p, node_of(p, s), --depth);
            break;
        }
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The row of `whole` for each iteration of the loop at plan step `loop`. */
static kiln_plan_buffer row_of(const kiln_packer *p, uint32_t whole, uint64_t row_bytes,
                               uint32_t loop, bool reversed) {
    const kiln_loop_info info = kiln_loop_describe(p->graph, p->plan.step[loop].node);
    uint64_t first = reversed ? (uint64_t)(info.trips - 1) * row_bytes : 0;
    kiln_plan_buffer plan = kiln_packer_alias(p, whole, first);
    plan.stride = reversed ? -(int64_t)row_bytes : (int64_t)row_bytes;
    plan.loop = row_bytes > 0 ? loop : 0;
    return plan;
}

kiln_plan_buffer kiln_packer_row(kiln_packer *p, kiln_value value) {
    const uint32_t loop = p->loop[p->depth - 1].step;
    const kiln_node_info *end = node_of(p, p->plan.step[loop].partner);
    uint32_t whole = kiln_packer_write(p, p->stack_of[value]), at = 0;
    const kiln_loop_info info = kiln_loop_describe(p->graph, p->plan.step[loop].node);
    while (end->output[at] != p->stack_of[value]) at++;
    return row_of(p, whole, bytes_of(p, value), loop,
                  kiln_loop_is_reversed(end, at - info.carried));
}

/* A row of a row cannot be expressed: the outer one is copied out first. */
static uint32_t without_stride(kiln_packer *p, uint32_t buffer, kiln_str name) {
    if (p->buffer.data[buffer].stride == 0) return buffer;
    uint32_t copy = add_temp(p, p->buffer.data[buffer].size_bytes);
    kiln_packer_add_move(p, KILN_ACTION_COPY, name, buffer, copy);
    return copy;
}

/* Makes an iteration's row of a value; the body is open. */
static void open_row(kiln_packer *p, uint32_t loop, kiln_value value, uint32_t whole,
                     bool reversed) {
    const uint64_t size_bytes = bytes_of(p, value);
    const kiln_plan_buffer plan = row_of(p, whole, size_bytes, loop, reversed);
    if (is_aligned(p, size_bytes) || size_bytes == 0) {
        (void)kiln_packer_add_buffer(p, value, &row, plan);
        return;
    }
    uint32_t from = add_unnamed(p, plan, size_bytes);
    uint32_t to =
        kiln_packer_add_buffer(p, value, &row, (kiln_plan_buffer){.storage = KILN_STORAGE_ARENA});
    kiln_packer_add_move(p, KILN_ACTION_COPY, p->graph->value.data[value].name, from, to);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Whether a step of the body reads the number of the iteration. */
static bool reads_index(const kiln_packer *p, uint32_t loop, kiln_value index) {
    for (uint32_t s = loop + 1; s <= p->plan.step[loop].partner; s++) {
        const kiln_step *step = &p->plan.step[s];
        bool end = s == p->plan.step[loop].partner; /* whose first argument it always is */
        for (uint32_t i = end ? 1 : 0; i < step->arg_count; i++)
            if (step->arg[i] == index) return true;
    }
    return false;
}

/* Makes a place for a carried value, filled with its initial value. */
static kiln_status open_carried(kiln_packer *p, kiln_value first, kiln_value value,
                                uint32_t *out_buffer) {
    const kiln_plan_buffer plan = {.storage = KILN_STORAGE_ARENA};
    uint32_t from = 0;
    kiln_status st = kiln_packer_read(p, first, &row, &from);
    if (st) return st;
    *out_buffer =
        value ? kiln_packer_add_buffer(p, value, &row, plan) : add_temp(p, bytes_of(p, first));
    kiln_packer_add_move(p, KILN_ACTION_COPY, p->graph->value.data[first].name, from, *out_buffer);
    return KILN_OK;
}

/* The number of iterations, if it may differ from the loop's bound. */
static kiln_status open_count(kiln_packer *p, kiln_value count, int64_t trips,
                              uint32_t *out_buffer) {
    *out_buffer = KILN_PLAN_NONE;
    if (kiln_value_is_constant(p->graph, count)) {
        const kiln_tensor number = kiln_value_tensor(p->graph, count);
        if (kiln_dtype_load_i64(number.dtype, number.data, 0) == trips) return KILN_OK;
    }
    return kiln_packer_read(p, count, &row, out_buffer);
}

kiln_status kiln_packer_open_loop(kiln_packer *p, uint32_t step) {
    const kiln_node_info *begin = node_of(p, step), *end = node_of(p, p->plan.step[step].partner);
    const kiln_loop_info info = kiln_loop_describe(p->graph, p->plan.step[step].node);
    const uint32_t skipped =
        begin->input_count - begin->output_count; /* inputs before the results' */
    if (p->depth == KILN_MODULE_LOOP_DEPTH_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "loops nested more than %u deep",
                          KILN_MODULE_LOOP_DEPTH_MAX);
    kiln_packer_loop *loop = &p->loop[p->depth];
    *loop = (kiln_packer_loop){.step = step, .condition = KILN_PLAN_NONE, .index = KILN_PLAN_NONE};
    loop->state = KILN_ARENA_ARRAY(p->arena, uint32_t, info.carried);
    uint32_t *whole = KILN_ARENA_ARRAY(p->arena, uint32_t, begin->output_count);
    kiln_status st = open_count(p, begin->input[0], info.trips, &loop->count);
    if (!st && info.guarded) st = open_carried(p, begin->input[1], 0, &loop->condition);
    for (uint32_t i = 0; !st && i < info.carried; i++)
        st = open_carried(p, begin->input[1 + i + skipped], begin->output[1 + i], &loop->state[i]);
    for (uint32_t i = 1 + info.carried; !st && i < begin->output_count; i++) {
        if (!begin->output[i]) continue;
        st = kiln_packer_read(p, begin->input[i + skipped], &row, &whole[i]);
        if (!st) whole[i] = without_stride(p, whole[i], begin->name);
    }
    if (st) return st;
    for (uint32_t i = info.carried; i < end->output_count; i++)
        if (end->output[i]) (void)kiln_packer_write(p, end->output[i]);
    if (begin->output[0] && reads_index(p, step, begin->output[0]))
        loop->index = kiln_packer_add_buffer(p, begin->output[0], &row,
                                             (kiln_plan_buffer){.storage = KILN_STORAGE_ARENA});
    p->level[++p->depth].count = 0;
    for (uint32_t i = 1 + info.carried; i < begin->output_count; i++)
        if (begin->output[i])
            open_row(p, step, begin->output[i], whole[i],
                     kiln_loop_is_reversed(begin, i - 1 - info.carried));
    return KILN_OK;
}

/* ---- closing --------------------------------------------------------------------------------- */

static bool is_carried(const kiln_packer *p, const kiln_packer_loop *loop, uint32_t carried,
                       uint32_t buffer) {
    uint32_t root = kiln_packer_root(p, buffer);
    for (uint32_t i = 0; i < carried; i++)
        if (kiln_packer_root(p, loop->state[i]) == root) return true;
    return false;
}

/* Finds the next value for each carried value's place. A next value that lies in such a place
 * itself is copied out first, so that no value is overwritten before it is passed on. */
static kiln_status find_next(kiln_packer *p, const kiln_packer_loop *loop, uint32_t carried,
                             kiln_value next, uint32_t to, uint32_t *out_buffer) {
    kiln_status st = kiln_packer_read(p, next, &row, out_buffer);
    if (st || *out_buffer == to || !is_carried(p, loop, carried, *out_buffer)) return st;
    uint32_t copy = add_temp(p, bytes_of(p, next));
    kiln_packer_add_move(p, KILN_ACTION_COPY, p->graph->value.data[next].name, *out_buffer, copy);
    *out_buffer = copy;
    return KILN_OK;
}

static kiln_status hand_on(kiln_packer *p, const kiln_packer_loop *loop, const kiln_node_info *end,
                           const kiln_loop_info *info) {
    const uint32_t skipped = end->input_count - end->output_count;
    uint32_t *next = KILN_ARENA_ARRAY(p->arena, uint32_t, info->carried), condition = 0;
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < info->carried; i++)
        st = find_next(p, loop, info->carried, end->input[i + skipped], loop->state[i], &next[i]);
    if (!st && info->guarded)
        st = find_next(p, loop, info->carried, end->input[1], loop->condition, &condition);
    if (st) return st;
    for (uint32_t i = 0; i < info->carried; i++)
        if (next[i] != loop->state[i])
            kiln_packer_add_move(p, KILN_ACTION_CARRY,
                                 p->graph->value.data[end->input[i + skipped]].name, next[i],
                                 loop->state[i]);
    if (info->guarded)
        kiln_packer_add_move(p, KILN_ACTION_CARRY, p->graph->value.data[end->input[1]].name,
                             condition, loop->condition);
    return KILN_OK;
}

/* Copies rows that no kernel wrote in place. */
static kiln_status stack_rows(kiln_packer *p, uint32_t loop, const kiln_node_info *end,
                              const kiln_loop_info *info) {
    const uint32_t skipped = end->input_count - end->output_count;
    for (uint32_t i = info->carried; i < end->output_count; i++) {
        kiln_value item = end->input[i + skipped], whole = end->output[i];
        uint32_t from = 0, stack = 0;
        if (!whole || p->stack_of[item] == whole) continue;
        kiln_status st = kiln_packer_read(p, item, &row, &from);
        if (st) return st;
        KILN_CHECK(kiln_packer_find_buffer(p, whole, &row, &stack));
        uint64_t size_bytes = bytes_of(p, item);
        kiln_plan_buffer plan =
            row_of(p, stack, size_bytes, loop, kiln_loop_is_reversed(end, i - info->carried));
        kiln_packer_add_move(p, KILN_ACTION_COPY, p->graph->value.data[whole].name, from,
                             add_unnamed(p, plan, size_bytes));
    }
    return KILN_OK;
}

kiln_status kiln_packer_close_loop(kiln_packer *p, uint32_t step) {
    const uint32_t begin = p->plan.step[step].partner;
    const kiln_node_info *end = node_of(p, step);
    const kiln_loop_info info = kiln_loop_describe(p->graph, p->plan.step[begin].node);
    const kiln_packer_loop *loop = &p->loop[p->depth - 1];
    KILN_CHECK(loop->step == begin);
    kiln_status st = stack_rows(p, begin, end, &info);
    if (!st) st = hand_on(p, loop, end, &info);
    if (st) return st;
    const uint32_t body_count = p->level[p->depth--].count;
    const kiln_plan_step *body = p->level[p->depth + 1].data;
    kiln_packer_add_step(p, (kiln_plan_step){.action = KILN_ACTION_LOOP,
                                             .name = node_of(p, begin)->name,
                                             .op = KILN_STR("loop"),
                                             .kernel = begin, /* until the loops have numbers */
                                             .body_count = body_count,
                                             .trip_max = (uint64_t)info.trips,
                                             .count = loop->count,
                                             .condition = loop->condition,
                                             .index = loop->index});
    for (uint32_t i = 0; i < body_count; i++) kiln_packer_add_step(p, body[i]);
    for (uint32_t i = 0; i < info.carried; i++)
        if (end->output[i])
            (void)kiln_packer_add_buffer(p, end->output[i], &row,
                                         kiln_packer_alias(p, loop->state[i], 0));
    return KILN_OK;
}

void kiln_packer_number_loops(kiln_packer *p) {
    uint32_t *number = KILN_ARENA_ARRAY(p->arena, uint32_t, p->plan.step_count);
    for (uint32_t s = 0; s < p->level[0].count; s++) {
        kiln_plan_step *step = &p->level[0].data[s];
        if (step->action != KILN_ACTION_LOOP) continue;
        number[step->kernel] = s;
        step->kernel = 0;
    }
    for (uint32_t i = 0; i < p->buffer.count; i++)
        if (p->buffer.data[i].stride != 0) p->buffer.data[i].loop = number[p->buffer.data[i].loop];
}
