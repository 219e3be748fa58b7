#include "tests/support/interpreter.h"

#include <string.h>

#include "compiler-core/graph/loops.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/interp.h"
#include "compiler-core/ir/reference.h"
#include "compiler-core/task/task.h"

/* ---- values with their bounds ---------------------------------------------------------------- */

/* Evaluates the reference program, whose outputs are the values, each float one followed by its
 * bound. */
kiln_status kiln_te_eval_bounds(const kiln_program *p, const kiln_tensor *args, uint32_t arg_count,
                                kiln_arena *arena, kiln_tensor *bounds) {
    kiln_status st = kiln_interp_check_args(p, args, arg_count);
    if (st) return st;
    kiln_program *reference = kiln_te_reference(p, arena);
    kiln_tensor *all = KILN_ARENA_ARRAY(arena, kiln_tensor, (size_t)arg_count * 2);
    uint32_t count = 0;
    uint32_t outputs = 0;
    kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < arg_count; i++) {
        all[count++] = args[i];
        if (p->buffer.data[arg.buffer[i]].role != KILN_ROLE_OUTPUT) continue;
        bounds[outputs] = kiln_tensor_create(arena, KILN_F32, &args[i].shape);
        if (kiln_dtype_is_float(args[i].dtype)) all[count++] = bounds[outputs];
        outputs++;
    }
    return kiln_te_eval(reference, all, count);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static kiln_tensor value_tensor(const kiln_graph *graph, kiln_value value, kiln_arena *arena) {
    const kiln_value_info *info = &graph->value.data[value];
    if (kiln_value_is_constant(graph, value)) return kiln_value_tensor(graph, value);
    return kiln_tensor_create(arena, info->dtype, &info->shape);
}

typedef struct evaluator {
    const kiln_graph *graph;
    const kiln_plan *plan;
    kiln_arena *arena;
    kiln_tensor *tensor; /* [values]; without a type until it is needed */
} evaluator;

static kiln_tensor *tensor_of(evaluator *e, kiln_value value) {
    if (!e->tensor[value].dtype) e->tensor[value] = value_tensor(e->graph, value, e->arena);
    return &e->tensor[value];
}

static void copy_bytes(const kiln_tensor *to, size_t to_at, const kiln_tensor *from, size_t from_at,
                       size_t size) {
    if (size) memcpy((char *)to->data + to_at, (const char *)from->data + from_at, size);
}

static kiln_status eval_step(evaluator *e, const kiln_step *step) {
    kiln_tensor args[KILN_MANIFEST_ARGS_MAX];
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < step->arg_count; i++) args[i] = *tensor_of(e, step->arg[i]);
    if (step->kind == KILN_STEP_KERNEL)
        st = kiln_te_eval(e->plan->tasks.task[step->task].te, args, step->arg_count);
    else
        memcpy(args[1].data, args[0].data, kiln_tensor_bytes(&args[0]));
    return kiln_status_note(st, "step %.*s", KILN_STR_ARG(step->name));
}

static kiln_status eval_steps(evaluator *e, uint32_t begin, uint32_t end);

/* One of the rows that an iteration reads or writes. */
static size_t row_at(const kiln_node_info *node, uint32_t index, uint64_t iteration, uint64_t trips,
                     size_t row_bytes) {
    return (size_t)(kiln_loop_is_reversed(node, index) ? trips - 1 - iteration : iteration) *
           row_bytes;
}

static void read_rows(evaluator *e, const kiln_node_info *begin, uint32_t first, uint64_t iteration,
                      uint64_t trips) {
    for (uint32_t i = first; i < begin->output_count; i++) {
        if (!begin->output[i]) continue;
        const kiln_tensor *row = tensor_of(e, begin->output[i]);
        size_t size = kiln_tensor_bytes(row);
        uint32_t input = i + begin->input_count - begin->output_count;
        copy_bytes(row, 0, tensor_of(e, begin->input[input]),
                   row_at(begin, i - first, iteration, trips, size), size);
    }
}

static void write_rows(evaluator *e, const kiln_node_info *end, uint32_t first, uint64_t iteration,
                       uint64_t trips) {
    for (uint32_t i = first; i < end->output_count; i++) {
        if (!end->output[i]) continue;
        const kiln_tensor *row = tensor_of(e, end->input[i + end->input_count - end->output_count]);
        size_t size = kiln_tensor_bytes(row);
        copy_bytes(tensor_of(e, end->output[i]), row_at(end, i - first, iteration, trips, size),
                   row, 0, size);
    }
}

/* Values for the next iteration, all of which are read before one is written: [carried] of either
 * node's operands. */
static void carry(evaluator *e, kiln_value *const to, kiln_value *const from, uint32_t count) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    void **held = KILN_ARENA_ARRAY(&scratch, void *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!to[i]) continue;
        const kiln_tensor *tensor = tensor_of(e, from[i]);
        held[i] = kiln_arena_copy(&scratch, tensor->data, kiln_tensor_bytes(tensor));
    }
    for (uint32_t i = 0; i < count; i++)
        if (to[i])
            copy_bytes(tensor_of(e, to[i]), 0, &(kiln_tensor){.data = held[i]}, 0,
                       kiln_tensor_bytes(tensor_of(e, to[i])));
    kiln_arena_deinit(&scratch);
}

static int64_t number_in(evaluator *e, kiln_value value) {
    const kiln_tensor *tensor = tensor_of(e, value);
    return kiln_dtype_load_i64(tensor->dtype, tensor->data, 0);
}

/* Carried values live in the loop_begin's results, and so do those that are never carried on. */
static kiln_status eval_loop(evaluator *e, uint32_t index) {
    const kiln_step *step = &e->plan->step[index];
    const kiln_node_info *begin = &e->graph->node.data[step->node],
                         *end = &e->graph->node.data[e->plan->step[step->partner].node];
    const kiln_loop_info info = kiln_loop_describe(e->graph, step->node);
    const uint32_t carried = info.carried, guarded = info.guarded;
    const uint64_t trips = (uint64_t)info.trips;
    int64_t count = number_in(e, begin->input[0]);
    bool goes_on = !guarded || number_in(e, begin->input[1]) != 0;
    kiln_value *state = KILN_ARENA_ARRAY(e->arena, kiln_value, carried);
    for (uint32_t i = 0; i < carried;
         i++) /* one that nobody reads inside may be read behind the loop */
        state[i] = begin->output[1 + i] ? begin->output[1 + i] : end->output[i];
    carry(e, state, begin->input + 1 + guarded, carried);
    kiln_status st = KILN_OK;
    for (uint64_t i = 0; !st && goes_on && (int64_t)i < count; i++) {
        if (i == trips)
            return KILN_ERROR(OUT_OF_RANGE, "loop %.*s runs more than %llu times",
                              KILN_STR_ARG(begin->name), (unsigned long long)trips);
        if (begin->output[0])
            kiln_dtype_store_i64(KILN_I64, tensor_of(e, begin->output[0])->data, 0, (int64_t)i);
        read_rows(e, begin, 1 + carried, i, trips);
        st = eval_steps(e, index + 1, step->partner);
        if (st) break;
        write_rows(e, end, carried, i, trips);
        if (guarded) goes_on = number_in(e, end->input[1]) != 0;
        carry(e, state, end->input + 1 + guarded, carried);
    }
    if (!st) carry(e, end->output, state, carried);
    return st;
}

static kiln_status eval_steps(evaluator *e, uint32_t begin, uint32_t end) {
    kiln_status st = KILN_OK;
    for (uint32_t s = begin; !st && s < end; s++) {
        const kiln_step *step = &e->plan->step[s];
        if (step->kind == KILN_STEP_LOOP) {
            st = eval_loop(e, s);
            s = step->partner;
        } else {
            st = eval_step(e, step);
        }
    }
    return st;
}

kiln_status kiln_graph_eval(const kiln_graph *graph, const kiln_tensor *input, kiln_arena *arena,
                            kiln_tensor *output) {
    kiln_plan plan;
    kiln_status st = kiln_plan_create(graph, arena, &plan);
    if (st) return st;
    evaluator e = {.graph = graph, .plan = &plan, .arena = arena};
    e.tensor = KILN_ARENA_ARRAY(arena, kiln_tensor, graph->value.count);
    for (uint32_t i = 0; i < graph->input.count; i++) e.tensor[graph->input.data[i]] = input[i];
    st = eval_steps(&e, 0, plan.step_count);
    for (uint32_t i = 0; !st && i < graph->output.count; i++)
        output[i] = *tensor_of(&e, graph->output.data[i]);
    return st;
}
