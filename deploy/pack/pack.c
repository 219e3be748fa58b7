#include "deploy/pack/pack.h"

#include "base/check.h"
#include "deploy/pack/choose.h"
#include "deploy/pack/limits.h"
#include "deploy/pack/module_write.h"
#include "deploy/pack/packer.h"
#include "deploy/pack/places.h"
#include "deploy/pack/wasm_module.h"

static const kiln_layout row;

const char *kiln_planner_name(kiln_planner planner) {
    static const char *const name[] = {
#define X(id, name, doc) name,
#include "deploy/pack/planners.def"
#undef X
    };
    KILN_CHECK((unsigned)planner < KILN_PLANNER_COUNT);
    return name[planner];
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* In the packer's scratch, until the next call. */
static kiln_str buffer_key(kiln_packer *p, kiln_value value, const kiln_layout *layout) {
    kiln_strbuf_reset(&p->text);
    kiln_strbuf_printf(&p->text, "%u ", value);
    kiln_layout_print(layout, &p->text);
    return kiln_strbuf_view(&p->text);
}

static uint64_t physical_bytes(const kiln_packer *p, kiln_value value, const kiln_layout *layout) {
    const kiln_value_info *info = &p->graph->value.data[value];
    kiln_shape physical = kiln_layout_physical(layout, &info->shape);
    return (uint64_t)kiln_shape_count(&physical) * kiln_dtype_size(info->dtype);
}

uint32_t kiln_packer_add_buffer(kiln_packer *p, kiln_value value, const kiln_layout *layout,
                                kiln_plan_buffer plan) {
    plan.size_bytes = physical_bytes(p, value, layout);
    kiln_vec_push_in(p->arena, &p->buffer, plan);
    kiln_map_put(&p->buffers, buffer_key(p, value, layout), p->buffer.count - 1);
    return p->buffer.count - 1;
}

bool kiln_packer_find_buffer(kiln_packer *p, kiln_value value, const kiln_layout *layout,
                             uint32_t *out_index) {
    uint64_t index = 0;
    if (!kiln_map_find(&p->buffers, buffer_key(p, value, layout), &index)) return false;
    *out_index = (uint32_t)index;
    return true;
}

uint32_t kiln_packer_root(const kiln_packer *p, uint32_t buffer) {
    return p->buffer.data[buffer].storage == KILN_STORAGE_ALIAS ? p->buffer.data[buffer].source
                                                                : buffer;
}

/* Bytes of another buffer from `offset` on. */
kiln_plan_buffer kiln_packer_alias(const kiln_packer *p, uint32_t buffer, uint64_t offset) {
    const kiln_plan_buffer *b = &p->buffer.data[buffer];
    if (b->storage == KILN_STORAGE_ALIAS) offset += b->offset;
    return (kiln_plan_buffer){.storage = KILN_STORAGE_ALIAS,
                              .source = kiln_packer_root(p, buffer),
                              .offset = offset,
                              .stride = b->stride,
                              .loop = b->loop};
}

void kiln_packer_add_step(kiln_packer *p, kiln_plan_step step) {
    kiln_vec_push_in(p->arena, &p->level[p->depth], step);
}

void kiln_packer_add_move(kiln_packer *p, kiln_plan_action action, kiln_str name, uint32_t from,
                          uint32_t to) {
    kiln_packer_add_step(p,
                         (kiln_plan_step){.action = action,
                                          .name = name,
                                          .op = KILN_STR("copy"),
                                          .arg_count = 2,
                                          .output_count = 1,
                                          .arg = kiln_arena_copy(p->arena, (uint32_t[]){from, to},
                                                                 2 * sizeof(uint32_t))});
}

static void add_copy(kiln_packer *p, kiln_str name, uint32_t from, uint32_t to) {
    kiln_packer_add_move(p, KILN_ACTION_COPY, name, from, to);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Reads from the schedule which input each result may overwrite, and the layouts of constants,
 * which are not in ways. */
static kiln_status look_at_schedule(kiln_packer *p, const kiln_program *te,
                                    const kiln_trace *trace) {
    kiln_arena scratch;
    kiln_program *program = NULL;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_trace_replay(trace, te, NULL, &scratch, &program, NULL);
    kiln_arg_buffers arg = st ? (kiln_arg_buffers){0} : kiln_program_args(program);
    uint32_t *over = KILN_ARENA_ARRAY(p->arena, uint32_t, arg.count);
    kiln_layout *constant = KILN_ARENA_ARRAY(p->arena, kiln_layout, arg.count);
    for (uint32_t i = 0; i < arg.count; i++) {
        const kiln_buffer_info *buffer = &program->buffer.data[arg.buffer[i]];
        if (buffer->role == KILN_ROLE_CONSTANT) constant[i] = buffer->layout;
        if (buffer->role != KILN_ROLE_OUTPUT) continue;
        kiln_buffer input = kiln_program_in_place(program, arg.buffer[i]);
        for (uint32_t k = 0; input && k < arg.count; k++)
            if (arg.buffer[k] == input) over[i] = k + 1;
    }
    kiln_vec_push_in(p->arena, &p->in_place, over);
    kiln_vec_push_in(p->arena, &p->constant, constant);
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status tell_step(kiln_packer *p, const kiln_program *te, kiln_str key) {
    if (!p->options->step) return KILN_OK;
    kiln_strbuf_reset(&p->text);
    kiln_strbuf_printf(&p->text, "kernel %.*s of task %.*s", KILN_STR_ARG(te->name),
                       KILN_STR_ARG(key));
    return p->options->step(p->options->step_context, p->text.data);
}

/* The artefact's bytes, from an earlier packing if it has built it. */
static kiln_status build_kernel(kiln_packer *p, const kiln_program *te, kiln_str key, kiln_str name,
                                const kiln_trace *trace, bool on_host, kiln_str *out_bytes) {
    kiln_pack_kernels *known = p->options->kernels;
    const kiln_target *target = on_host ? p->target->host : p->target;
    uint64_t index = 0;
    kiln_artefact artefact;
    if (known && kiln_map_find(&known->name, name, &index)) {
        *out_bytes = known->bytes.data[index];
        return KILN_OK;
    }
    kiln_status st = tell_step(p, te, key);
    if (!st)
        st = p->options->as_c ? kiln_build_c(te, key, trace, target, p->arena, &artefact)
                              : kiln_build(te, key, trace, target, p->arena, &artefact);
    if (st) return st;
    kiln_strbuf bytes = {0};
    kiln_artefact_encode(&artefact, &bytes);
    *out_bytes = kiln_strbuf_end(&bytes, p->arena);
    if (!known) return KILN_OK;
    kiln_map_put(&known->name, name, known->bytes.count);
    kiln_vec_push_in(p->arena, &known->bytes, *out_bytes);
    return KILN_OK;
}

/* The kernel of a task and trace, built once per module and place. */
static kiln_status find_kernel(kiln_packer *p, const kiln_program *te, kiln_str key,
                               const kiln_trace *trace, bool on_host, uint32_t *out_index) {
    char hash[KILN_HASH128_TEXT];
    uint64_t known = 0;
    kiln_str bytes;
    kiln_hash128_print(kiln_trace_hash(trace), hash);
    kiln_str name =
        kiln_str_printf(p->arena, "%.*s %s%s", KILN_STR_ARG(key), hash, on_host ? " host" : "");
    if (kiln_map_find(&p->kernels, name, &known)) {
        *out_index = (uint32_t)known;
        return KILN_OK;
    }
    kiln_status st = build_kernel(p, te, key, name, trace, on_host, &bytes);
    if (!st) st = look_at_schedule(p, te, trace);
    if (st) return st;
    kiln_vec_push_in(p->arena, &p->kernel, bytes);
    kiln_vec_push_in(p->arena, &p->on_host, on_host);
    *out_index = p->kernel.count - 1;
    kiln_map_put(&p->kernels, name, *out_index);
    return KILN_OK;
}

/* Steps that take the same way of a task share the pointer to it (choose.h). */
static kiln_str way_key(kiln_packer *p, uint32_t step) {
    return (kiln_str){(const char *)&p->way[step], sizeof p->way[step]};
}

static kiln_status kernel_of_step(kiln_packer *p, uint32_t step, uint32_t *out_index) {
    const kiln_task *task = &p->plan.tasks.task[p->plan.step[step].task];
    uint64_t known = 0;
    if (kiln_map_find(&p->ways, way_key(p, step), &known)) {
        *out_index = (uint32_t)known;
        return KILN_OK;
    }
    kiln_trace trace;
    kiln_status st = kiln_trace_decode(p->way[step]->trace, p->arena, &trace);
    if (!st) st = find_kernel(p, task->te, task->key, &trace, p->way[step]->on_host, out_index);
    if (!st) kiln_map_put(&p->ways, way_key(p, step), *out_index);
    return kiln_status_note(st, "packing %.*s", KILN_STR_ARG(task->op));
}

static kiln_status make_conversion(kiln_packer *p, const kiln_program *te, kiln_str key,
                                   kiln_packer_conversion *out) {
    kiln_space space;
    kiln_trace trace;
    kiln_program *program = NULL;
    const bool on_host = p->target->host != NULL; /* as layouts were assigned */
    *out = (kiln_packer_conversion){.key = kiln_str_copy(p->arena, key)};
    kiln_status st = kiln_space_create(te, on_host ? p->target->host : p->target, p->arena, &space);
    if (!st) st = kiln_space_default(&space, p->arena, &trace, &program);
    if (!st) st = find_kernel(p, te, out->key, &trace, on_host, &out->kernel);
    return kiln_status_note(st, "packing a layout conversion");
}

static kiln_status find_conversion(kiln_packer *p, const kiln_value_info *info,
                                   const kiln_layout *from, const kiln_layout *to,
                                   kiln_packer_conversion *out) {
    kiln_arena scratch;
    uint64_t known = 0;
    kiln_status st = KILN_OK;
    kiln_arena_init(&scratch, 0);
    const kiln_program *te = kiln_conversion_te(info->dtype, &info->shape, from, to, &scratch);
    kiln_str key = kiln_task_key(te, &scratch);
    if (kiln_map_find(&p->conversions, key, &known)) {
        *out = p->conversion.data[known];
    } else {
        st = make_conversion(p, te, key, out);
        kiln_map_put(&p->conversions, key, p->conversion.count);
        kiln_vec_push_in(p->arena, &p->conversion, *out);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status convert(kiln_packer *p, kiln_value value, uint32_t from, uint32_t to,
                           const kiln_layout *from_layout, const kiln_layout *to_layout) {
    const kiln_value_info *info = &p->graph->value.data[value];
    kiln_packer_conversion c;
    kiln_status st = find_conversion(p, info, from_layout, to_layout, &c);
    if (st) return st;
    kiln_packer_add_step(p,
                         (kiln_plan_step){.action = KILN_ACTION_KERNEL,
                                          .name = info->name,
                                          .op = KILN_STR("convert"),
                                          .task = c.key,
                                          .kernel = c.kernel,
                                          .arg_count = 2,
                                          .output_count = 1,
                                          .arg = kiln_arena_copy(p->arena, (uint32_t[]){from, to},
                                                                 2 * sizeof(uint32_t))});
    p->report.conversion_count++;
    return KILN_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The bytes of a constant in that layout, converted now instead of in each run. */
static const void *constant_in(kiln_packer *p, kiln_value value, const kiln_layout *layout) {
    const kiln_value_info *info = &p->graph->value.data[value];
    if (kiln_layout_is_identity(layout)) return info->data;
    char *bytes = KILN_ARENA_ARRAY(p->arena, char, physical_bytes(p, value, layout));
    kiln_layout_pack(layout, &info->shape, info->dtype, info->data, bytes);
    return bytes;
}

kiln_status kiln_packer_read(kiln_packer *p, kiln_value value, const kiln_layout *layout,
                             uint32_t *out_buffer) {
    if (kiln_layout_same_places(layout, &row, &p->graph->value.data[value].shape)) layout = &row;
    if (kiln_packer_find_buffer(p, value, layout, out_buffer)) return KILN_OK;
    if (kiln_value_is_constant(p->graph, value)) {
        kiln_plan_buffer plan = {.storage = KILN_STORAGE_CONSTANT,
                                 .data = constant_in(p, value, layout)};
        *out_buffer = kiln_packer_add_buffer(p, value, layout, plan);
        return KILN_OK;
    }
    uint32_t source = 0;
    KILN_CHECK(kiln_packer_find_buffer(p, value, &p->layout[value], &source));
    uint32_t result =
        kiln_packer_add_buffer(p, value, layout, (kiln_plan_buffer){.storage = KILN_STORAGE_ARENA});
    *out_buffer = result;
    /* Convert once, where the value is computed, not in each iteration of a loop that reads it. */
    const uint32_t depth = p->depth;
    p->depth = p->depth_of[value];
    kiln_status st = convert(p, value, source, result, &p->layout[value], layout);
    p->depth = depth;
    return st;
}

static bool is_output(const kiln_packer *p, kiln_value value, uint32_t *out_index) {
    for (uint32_t i = 0; i < p->graph->output.count; i++) {
        if (p->graph->output.data[i] != value) continue;
        *out_index = i;
        return true;
    }
    return false;
}

uint32_t kiln_packer_write(kiln_packer *p, kiln_value value) {
    const kiln_window *window = &p->windows.of[value];
    kiln_plan_buffer plan = {.storage = KILN_STORAGE_ARENA};
    uint32_t known = 0;
    if (kiln_packer_find_buffer(p, value, &p->layout[value], &known)) return known;
    if (p->stack_of[value]) {
        plan = kiln_packer_row(p, value);
    } else if (window->whole) {
        plan = kiln_packer_alias(p, kiln_packer_write(p, window->whole), window->offset_bytes);
        p->report.window_bytes += physical_bytes(p, value, &p->layout[value]);
    } else if (kiln_layout_is_identity(&p->layout[value]) && is_output(p, value, &plan.source)) {
        plan.storage = KILN_STORAGE_OUTPUT;
    }
    return kiln_packer_add_buffer(p, value, &p->layout[value], plan);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static const kiln_layout *layout_of_arg(const kiln_packer *p, uint32_t step, uint32_t kernel,
                                        uint32_t arg) {
    const kiln_program *te = p->plan.tasks.task[p->plan.step[step].task].te;
    const kiln_buffer buffer = kiln_program_args(te).buffer[arg];
    return te->buffer.data[buffer].role == KILN_ROLE_CONSTANT ? &p->constant.data[kernel][arg]
                                                              : &p->way[step]->layout[arg];
}

static kiln_status pack_kernel(kiln_packer *p, uint32_t index) {
    const kiln_step *from = &p->plan.step[index];
    const kiln_task *task = &p->plan.tasks.task[from->task];
    KILN_CHECK(kiln_program_args(task->te).count == from->arg_count);
    uint32_t *arg = KILN_ARENA_ARRAY(p->arena, uint32_t, from->arg_count);
    kiln_plan_step step = {.action = KILN_ACTION_KERNEL,
                           .name = from->name,
                           .op = from->op,
                           .task = task->key,
                           .arg_count = from->arg_count,
                           .output_count = from->arg_count - from->read_count,
                           .arg = arg};
    kiln_status st = kernel_of_step(p, index, &step.kernel);
    for (uint32_t i = 0; !st && i < from->read_count; i++)
        st = kiln_packer_read(p, from->arg[i], layout_of_arg(p, index, step.kernel, i), &arg[i]);
    for (uint32_t i = from->read_count; !st && i < from->arg_count; i++)
        arg[i] = kiln_packer_write(p, from->arg[i]);
    if (!st) kiln_packer_add_step(p, step);
    return st;
}

/* Copies an operand that is not written in place to its place; these bytes get no name. */
static kiln_status bring(kiln_packer *p, kiln_value operand, uint32_t whole, uint64_t offset,
                         const kiln_layout *layout, uint32_t *out_part) {
    const kiln_value_info *info = &p->graph->value.data[operand];
    const kiln_layout *from = &p->layout[operand];
    kiln_plan_buffer part = kiln_packer_alias(p, whole, offset);
    uint32_t source = 0;
    kiln_status st = kiln_packer_read(p, operand, from, &source);
    if (st) return st;
    part.size_bytes = physical_bytes(p, operand, layout);
    kiln_vec_push_in(p->arena, &p->buffer, part);
    *out_part = p->buffer.count - 1;
    if (!kiln_layout_same_places(from, layout, &info->shape))
        return convert(p, operand, source, *out_part, from, layout);
    add_copy(p, info->name, source, *out_part);
    return KILN_OK;
}

/* Most operands lie in the result already. */
static kiln_status pack_joined(kiln_packer *p, const kiln_step *from, const kiln_parts *parts,
                               uint32_t *arg) {
    kiln_value whole = from->arg[parts->part[0].whole];
    uint32_t result = kiln_packer_write(p, whole);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < parts->count; i++) {
        kiln_value operand = from->arg[parts->part[i].arg];
        const kiln_window *window = &p->windows.of[operand];
        const kiln_value_info *info = &p->graph->value.data[operand];
        uint64_t offset = 0;
        KILN_CHECK(kiln_part_offset(&parts->part[i], &p->graph->value.data[whole].shape,
                                    info->shape.dim[parts->part[i].axis], info->dtype,
                                    &p->layout[whole], &offset));
        if (window->whole == whole && window->offset_bytes == offset)
            arg[i] = kiln_packer_write(p, operand);
        else
            st = bring(p, operand, result, offset, &p->layout[whole], &arg[i]);
    }
    arg[parts->count] = result;
    return st;
}

static kiln_status pack_cut(kiln_packer *p, uint32_t index, const kiln_parts *parts,
                            uint32_t *arg) {
    const kiln_step *from = &p->plan.step[index];
    uint32_t whole = parts->part[0].whole;
    kiln_status st =
        kiln_packer_read(p, from->arg[whole], &p->way[index]->layout[whole], &arg[parts->count]);
    for (uint32_t i = 0; !st && i < parts->count; i++) {
        kiln_value result = from->arg[parts->part[i].arg];
        const kiln_layout *layout = &p->layout[result];
        arg[i] = kiln_packer_add_buffer(
            p, result, layout,
            kiln_packer_alias(p, arg[parts->count], p->windows.of[result].offset_bytes));
        p->report.window_bytes += physical_bytes(p, result, layout);
    }
    return st;
}

/* A step that needs no kernel: its arguments are parts of one of them. */
static kiln_status pack_windows(kiln_packer *p, uint32_t index) {
    const kiln_step *from = &p->plan.step[index];
    const kiln_parts *parts = p->windows.step[index];
    uint32_t *arg = KILN_ARENA_ARRAY(p->arena, uint32_t, parts->count + 1);
    kiln_status st =
        parts->joins ? pack_joined(p, from, parts, arg) : pack_cut(p, index, parts, arg);
    if (!st)
        kiln_packer_add_step(p, (kiln_plan_step){.action = KILN_ACTION_ALIAS,
                                                 .name = from->name,
                                                 .op = from->op,
                                                 .arg_count = parts->count + 1,
                                                 .arg = arg});
    return st;
}

/* The same bytes under another shape: only row-major bytes have a shape that can change. */
static kiln_status pack_alias(kiln_packer *p, const kiln_step *from) {
    uint32_t source = 0, output = 0;
    kiln_status st = kiln_packer_read(p, from->arg[0], &row, &source);
    if (st) return st;
    kiln_plan_step step = {
        .action = KILN_ACTION_ALIAS, .name = from->name, .op = from->op, .arg_count = 2};
    uint32_t *arg = KILN_ARENA_ARRAY(p->arena, uint32_t, 2);
    kiln_plan_buffer plan = kiln_packer_alias(p, source, 0);
    if (is_output(p, from->arg[1], &output)) {
        step.action = KILN_ACTION_COPY; /* an output is the caller's memory */
        step.output_count = 1;
        plan = (kiln_plan_buffer){.storage = KILN_STORAGE_ARENA};
        if (is_output(p, from->arg[1], &plan.source)) plan.storage = KILN_STORAGE_OUTPUT;
    }
    arg[0] = source;
    arg[1] = kiln_packer_add_buffer(p, from->arg[1], &row, plan);
    step.arg = arg;
    kiln_packer_add_step(p, step);
    return KILN_OK;
}

static void pack_inputs(kiln_packer *p) {
    for (uint32_t i = 0; i < p->graph->input.count; i++)
        kiln_packer_add_buffer(p, p->graph->input.data[i], &row,
                               (kiln_plan_buffer){.storage = KILN_STORAGE_INPUT, .source = i});
}

/* The buffer of output port `index`: converted or copied into where it was not written in place. */
static kiln_status pack_output(kiln_packer *p, uint32_t index, uint32_t *out_buffer) {
    kiln_value value = p->graph->output.data[index];
    const kiln_layout *own = &p->layout[value];
    uint32_t source = 0;
    bool known = kiln_packer_find_buffer(p, value, &row, &source);
    if (known && p->buffer.data[source].storage == KILN_STORAGE_OUTPUT &&
        p->buffer.data[source].source == index) {
        *out_buffer = source;
        return KILN_OK;
    }
    bool copied = known || kiln_layout_is_identity(own);
    kiln_status st = copied ? kiln_packer_read(p, value, &row, &source) : KILN_OK;
    if (st) return st;
    if (!copied) KILN_CHECK(kiln_packer_find_buffer(p, value, own, &source));
    *out_buffer = kiln_packer_add_buffer(
        p, value, &row, (kiln_plan_buffer){.storage = KILN_STORAGE_OUTPUT, .source = index});
    if (!copied) return convert(p, value, source, *out_buffer, own, &row);
    add_copy(p, p->graph->value.data[value].name, source, *out_buffer);
    return KILN_OK;
}

static kiln_plan_port port_of(const kiln_packer *p, kiln_value value, uint32_t buffer) {
    const kiln_value_info *info = &p->graph->value.data[value];
    return (kiln_plan_port){info->name, info->dtype, info->shape, buffer};
}

static kiln_status pack_outputs(kiln_packer *p, kiln_plan_port *port) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < p->graph->output.count; i++) {
        uint32_t buffer = 0;
        st = pack_output(p, i, &buffer);
        if (!st) port[i] = port_of(p, p->graph->output.data[i], buffer);
    }
    return st;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool is_on(const kiln_packer *p, kiln_planner planner) {
    return !(p->options->without >> planner & 1);
}

/* Places buffers in the arena of the kernels' device, and in that of the processor. */
static void place_buffers(kiln_packer *p) {
    kiln_places places = {.buffer = p->buffer.data,
                          .buffer_count = p->buffer.count,
                          .step = p->level[0].data,
                          .step_count = p->level[0].count,
                          .in_place = p->in_place.data,
                          .device = p->device_kind != 0,
                          .alignment = p->alignment,
                          .overwrite = is_on(p, KILN_PLANNER_IN_PLACE),
                          .reuse = is_on(p, KILN_PLANNER_REUSE)};
    kiln_memory_peak peak = kiln_places_find(&places, p->arena);
    places.device = 0;
    places.alignment = 0;
    if (p->device_kind) p->host_bytes = kiln_places_find(&places, p->arena).arena_bytes;
    p->report.value_bytes = peak.value_bytes;
    p->report.arena_bytes = peak.arena_bytes;
    p->report.live_bytes = peak.live_bytes;
}

static kiln_str count_text(kiln_packer *p, uint32_t count) {
    return kiln_str_from(kiln_arena_printf(p->arena, "%u", count));
}

static kiln_str ns_text(kiln_packer *p, double ns) {
    return ns > 0 ? kiln_str_from(kiln_arena_printf(p->arena, "%.0f", ns)) : (kiln_str){0};
}

/* Time of one run, as the sum of its kernels; 0 if one was not measured, or its number of
 * executions is unknown. */
static double median_ns_of(const kiln_packer *p) {
    double sum = 0;
    for (uint32_t s = 0; s < p->plan.step_count; s++) {
        const kiln_step *step = &p->plan.step[s];
        if (step->kind == KILN_STEP_LOOP) return 0;
        if (step->kind != KILN_STEP_KERNEL) continue;
        if (p->way[s]->median_ns <= 0) return 0;
        sum += p->way[s]->median_ns;
    }
    return sum;
}

/* The keys are listed in docs/reference/module.md. */
static kiln_plan_pair *find_metadata(kiln_packer *p, uint32_t *out_count) {
    const kiln_pack_provenance *from = &p->options->provenance;
    kiln_strbuf target = {0}, host = {0};
    uint32_t tuned = 0, count = 0;
    for (uint32_t i = 0; i < p->report.task_count; i++) tuned += p->report.task[i].median_ns > 0;
    kiln_target_print(p->target, &target);
    if (p->target->host) kiln_target_print(p->target->host, &host);
    kiln_plan_pair pair[] = {{KILN_STR("model"), p->options->model_name},
                             {KILN_STR("target"), kiln_strbuf_end(&target, p->arena)},
                             {KILN_STR("host"), kiln_strbuf_end(&host, p->arena)},
                             {KILN_STR("codegen"), kiln_str_from(kiln_codegen_version())},
                             {KILN_STR("tasks"), count_text(p, p->report.task_count)},
                             {KILN_STR("tuned"), count_text(p, tuned)},
                             {KILN_STR("median_ns"), ns_text(p, median_ns_of(p))},
                             {KILN_STR("model_sha256"), from->model_sha256},
                             {KILN_STR("dims"), from->dims},
                             {KILN_STR("database"), from->database},
                             {KILN_STR("software"), from->software}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(pair); i++)
        if (pair[i].value.size) pair[count++] = pair[i];
    *out_count = count;
    return kiln_arena_copy(p->arena, pair, count * sizeof *pair);
}

static kiln_module_plan whole_plan(kiln_packer *p, kiln_plan_port *output) {
    uint32_t metadata_count = 0;
    kiln_plan_pair *metadata = find_metadata(p, &metadata_count);
    kiln_plan_port *input = KILN_ARENA_ARRAY(p->arena, kiln_plan_port, p->graph->input.count);
    for (uint32_t i = 0; i < p->graph->input.count; i++)
        input[i] = port_of(p, p->graph->input.data[i], i);
    const kiln_plan_device device = {.kind = p->device_kind, .arena_bytes = p->report.arena_bytes};
    return (kiln_module_plan){.metadata_count = metadata_count,
                              .metadata = metadata,
                              .input_count = p->graph->input.count,
                              .input = input,
                              .output_count = p->graph->output.count,
                              .output = output,
                              .kernel_count = p->kernel.count,
                              .kernel = p->kernel.data,
                              .buffer_count = p->buffer.count,
                              .buffer = p->buffer.data,
                              .step_count = p->level[0].count,
                              .step = p->level[0].data,
                              .arena_bytes = p->device_kind ? p->host_bytes : p->report.arena_bytes,
                              .device_count = p->device_kind != 0,
                              .device = kiln_arena_copy(p->arena, &device, sizeof device),
                              .threads =
                                  p->target->host ? p->target->host->threads : p->target->threads};
}

static void fill_report(kiln_packer *p) {
    p->report.task_count = p->plan.tasks.count;
    p->report.task = KILN_ARENA_ARRAY(p->arena, kiln_pack_task, p->plan.tasks.count);
    for (uint32_t s = p->plan.step_count;
         s-- > 0;) { /* if a task has several ways, the first one wins */
        const kiln_step *step = &p->plan.step[s];
        if (step->kind != KILN_STEP_KERNEL) continue;
        const kiln_task *task = &p->plan.tasks.task[step->task];
        p->report.task[step->task] = (kiln_pack_task){task->key,
                                                      task->op,
                                                      p->way[s]->median_ns,
                                                      p->way[s]->relative_error,
                                                      p->way[s]->trace,
                                                      p->way[s]->is_default};
    }
}

kiln_status kiln_pack_plan(kiln_compilation *c, const kiln_pack_options *options, kiln_arena *arena,
                           kiln_module_plan *out_plan, kiln_pack_report *out_report) {
    kiln_packer p = {.graph = c->graph, .options = options, .target = &c->target, .arena = arena};
    kiln_pack_options own = *options;
    kiln_packer_find_device(&p);
    if (p.device_kind) own.without |= 1u << KILN_PLANNER_WINDOWS; /* devices copy */
    kiln_map_init(&p.kernels);
    kiln_map_init(&p.ways);
    kiln_map_init(&p.conversions);
    kiln_map_init(&p.buffers);
    kiln_plan_port *output = KILN_ARENA_ARRAY(arena, kiln_plan_port, c->graph->output.count);
    kiln_status st = kiln_choose(c, &own);
    if (!st) st = kiln_limits_check(c);
    if (!st) {
        p.plan = c->plan;
        p.way = c->way;
        p.layout = c->layout;
        p.windows = c->windows;
        kiln_packer_prepare_loops(&p);
        pack_inputs(&p);
    }
    for (uint32_t s = 0; !st && s < p.plan.step_count; s++) {
        const kiln_step *step = &p.plan.step[s];
        if (p.windows.step[s])
            st = pack_windows(&p, s);
        else if (step->kind == KILN_STEP_KERNEL)
            st = pack_kernel(&p, s);
        else if (step->kind == KILN_STEP_LOOP)
            st = kiln_packer_open_loop(&p, s);
        else if (step->kind == KILN_STEP_LOOP_END)
            st = kiln_packer_close_loop(&p, s);
        else
            st = pack_alias(&p, step);
    }
    if (!st) st = pack_outputs(&p, output);
    if (!st) kiln_packer_move_to_device(&p);
    if (!st) kiln_packer_number_loops(&p);
    if (!st) place_buffers(&p);
    if (!st) fill_report(&p);
    if (!st) *out_plan = whole_plan(&p, output);
    kiln_map_deinit(&p.kernels);
    kiln_map_deinit(&p.ways);
    kiln_map_deinit(&p.conversions);
    kiln_map_deinit(&p.buffers);
    kiln_strbuf_deinit(&p.text);
    if (!st && out_report) *out_report = p.report;
    return kiln_status_note(st, "packing %.*s", KILN_STR_ARG(options->model_name));
}

/* The bytes of a buffer as the only part. */
static kiln_module_bytes whole(kiln_strbuf *bytes, kiln_arena *arena) {
    kiln_str *part = KILN_ARENA_NEW(arena, kiln_str);
    *part = kiln_strbuf_end(bytes, arena);
    return (kiln_module_bytes){1, part, part->size};
}

kiln_status kiln_pack_parts(kiln_compilation *c, const kiln_pack_options *options,
                            kiln_arena *arena, kiln_module_bytes *out_bytes,
                            kiln_pack_report *out_report) {
    kiln_module_bucket only = {0};
    kiln_strbuf file = {0};
    const kiln_module_sizes sizes = {.bucket_count = 1, .bucket = &only};
    const bool for_pages = c->target.arch == KILN_ARCH_WASM32 && !options->is_part;
    kiln_status st = kiln_pack_plan(c, options, arena, &only.plan, out_report);
    if (st) return st;
    st = for_pages ? kiln_wasm_module_encode(&sizes, arena, &file)
                   : kiln_module_encode_parts(&sizes, arena, out_bytes);
    if (for_pages) *out_bytes = whole(&file, arena);
    return kiln_status_note(st, "packing %.*s", KILN_STR_ARG(options->model_name));
}

kiln_status kiln_pack(kiln_compilation *c, const kiln_pack_options *options, kiln_arena *arena,
                      kiln_strbuf *out, kiln_pack_report *out_report) {
    kiln_module_bytes bytes = {0};
    kiln_status st = kiln_pack_parts(c, options, arena, &bytes, out_report);
    for (uint32_t i = 0; !st && i < bytes.part_count; i++) kiln_strbuf_str(out, bytes.part[i]);
    return st;
}
