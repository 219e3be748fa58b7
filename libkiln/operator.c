#include "libkiln/operator.h"

#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "compiler-core/graph/graph_codec.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/loop_eval.h"
#include "compiler-core/sched/trace.h"
#include "compiler-core/task/task.h"

typedef struct constant {
    char *name;
    void *data;
    size_t size_bytes;
} constant;

/* Arguments of kiln_operator_repeat. `steps` 0: not repeated. */
typedef struct repetition {
    int64_t steps;
    uint32_t states, rows;
} repetition;

/* The state of reading the lines. */
typedef struct reading {
    kiln_arena arena; /* of all of it */
    kiln_program *program;
    const char *program_text, *text;        /* `text` names the repetition as well */
    uint32_t count[KILN_OPERATOR_TEMP + 1]; /* of each role */
    kiln_module_port *port[KILN_OPERATOR_TEMP + 1];
} reading;

struct kiln_operator {
    char *name;
    kiln_strbuf tensors, blocks; /* lines: tensors stand above blocks */
    repetition repeat;
    reading *now;
    KILN_VEC(constant) constant;
    char *model; /* NULL: not requested since the last change */
    size_t model_bytes;
};

/* ---- lines ------------------------------------------------------------------------------------
 */

static const kiln_role role_of[] = {[KILN_OPERATOR_INPUT] = KILN_ROLE_INPUT,
                                    [KILN_OPERATOR_CONSTANT] = KILN_ROLE_CONSTANT,
                                    [KILN_OPERATOR_OUTPUT] = KILN_ROLE_OUTPUT,
                                    [KILN_OPERATOR_TEMP] = KILN_ROLE_TEMP};
static const char *const role_word[] = {[KILN_OPERATOR_INPUT] = "input ",
                                        [KILN_OPERATOR_CONSTANT] = "constant ",
                                        [KILN_OPERATOR_OUTPUT] = "output ",
                                        [KILN_OPERATOR_TEMP] = "temp "};

static bool is_tensor_line(kiln_str line) {
    for (uint32_t role = 1; role < KILN_ARRAY_COUNT(role_word); role++)
        if (kiln_str_starts(line, role_word[role])) return true;
    return false;
}

/* Appends each line to the lines of its kind. */
static kiln_status sort_lines(kiln_str lines, kiln_strbuf *tensors, kiln_strbuf *blocks) {
    while (lines.size) {
        kiln_str line = kiln_str_trim(kiln_str_cut(&lines, '\n'));
        if (line.size == 0 || line.data[0] == '#') continue;
        kiln_strbuf *to = is_tensor_line(line) ? tensors : blocks;
        if (to == blocks && !kiln_str_starts(line, "block "))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "expected a line that begins with input, constant, output, temp or "
                              "block: \"%.*s\"",
                              KILN_STR_ARG(line));
        kiln_strbuf_str(to, line);
        kiln_strbuf_char(to, '\n');
    }
    return NULL;
}

static const kiln_buffer_info *buffer_of(const kiln_program *p, kiln_role role, uint32_t index) {
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (p->buffer.data[b].role == role && index-- == 0) return &p->buffer.data[b];
    return NULL;
}

/* Whether callers pass all steps of the tensor at once. */
static bool has_rows(const repetition *repeat, kiln_role role, uint32_t index) {
    if (!repeat->steps || index < repeat->states) return false;
    return role == KILN_ROLE_OUTPUT ||
           (role == KILN_ROLE_INPUT && index - repeat->states < repeat->rows);
}

/* The port as callers see it. */
static kiln_module_port port_of(const kiln_buffer_info *buffer, const repetition *repeat,
                                uint32_t index, kiln_arena *arena) {
    const uint32_t first = has_rows(repeat, buffer->role, index), rank = buffer->shape.rank + first;
    int64_t *shape = rank ? KILN_ARENA_ARRAY(arena, int64_t, rank) : NULL;
    int64_t count = kiln_shape_count(&buffer->shape);
    for (uint32_t d = 0; d < buffer->shape.rank; d++) shape[first + d] = buffer->shape.dim[d];
    if (first) {
        shape[0] = repeat->steps;
        count *= repeat->steps;
    }
    return (kiln_module_port){.name = kiln_str_dup(arena, buffer->name),
                              .dtype = (uint32_t)buffer->dtype,
                              .rank = rank,
                              .shape = shape,
                              .size_bytes = (size_t)count * kiln_dtype_size(buffer->dtype)};
}

static void list_ports(reading *r, const repetition *repeat) {
    for (uint32_t role = 1; role < KILN_ARRAY_COUNT(role_of); role++) {
        r->port[role] = KILN_ARENA_ARRAY(&r->arena, kiln_module_port, r->program->buffer.count);
        for (kiln_buffer b = 1; b < r->program->buffer.count; b++)
            if (r->program->buffer.data[b].role == role_of[role]) {
                r->port[role][r->count[role]] =
                    port_of(&r->program->buffer.data[b], repeat, r->count[role], &r->arena);
                r->count[role]++;
            }
    }
}

/* Checks that each state and each stacked tensor is valid. */
static kiln_status check_repetition(const kiln_program *p, const repetition *repeat) {
    if (!repeat->steps) return NULL;
    for (uint32_t i = 0; i < repeat->states; i++) {
        const kiln_buffer_info *in = buffer_of(p, KILN_ROLE_INPUT, i),
                               *next = buffer_of(p, KILN_ROLE_OUTPUT, i);
        if (!in || !next)
            return KILN_ERROR(INVALID_ARGUMENT,
                              "%u states are repeated: expected an input and an output for each",
                              repeat->states);
        if (in->dtype != next->dtype || !kiln_shape_equal(&in->shape, &next->shape))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "state '%.*s' is followed by '%.*s' of another type or shape",
                              KILN_STR_ARG(in->name), KILN_STR_ARG(next->name));
    }
    for (uint32_t i = 0; i < repeat->rows; i++)
        if (!buffer_of(p, KILN_ROLE_INPUT, repeat->states + i))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "%u inputs are given by rows: only %u follow the states",
                              repeat->rows, i);
    for (kiln_role role = KILN_ROLE_INPUT; role <= KILN_ROLE_OUTPUT; role++) {
        const kiln_buffer_info *buffer;
        for (uint32_t i = 0; (buffer = buffer_of(p, role, i)) != NULL; i++) {
            const int64_t bytes =
                kiln_shape_count(&buffer->shape) * (int64_t)kiln_dtype_size(buffer->dtype);
            if (has_rows(repeat, role, i) &&
                (buffer->shape.rank == KILN_RANK_MAX || bytes > INT64_MAX / repeat->steps))
                return KILN_ERROR(INVALID_ARGUMENT, "'%.*s' is too large for %lld steps of it",
                                  KILN_STR_ARG(buffer->name), (long long)repeat->steps);
        }
    }
    return NULL;
}

static void print_repetition(const reading *r, const repetition *repeat, kiln_strbuf *out) {
    if (!repeat->steps) return;
    kiln_strbuf_printf(out, "# repeated %lld times", (long long)repeat->steps);
    for (uint32_t i = 0; i < repeat->states; i++)
        kiln_strbuf_printf(out, "%s %s = %s", i ? "," : ", then",
                           r->port[KILN_OPERATOR_INPUT][i].name,
                           r->port[KILN_OPERATOR_OUTPUT][i].name);
    for (uint32_t i = 0; i < repeat->rows; i++)
        kiln_strbuf_printf(out, "%s %s", i ? "," : "; by rows:",
                           r->port[KILN_OPERATOR_INPUT][repeat->states + i].name);
    kiln_strbuf_char(out, '\n');
}

static void free_reading(reading *r) {
    if (!r) return;
    kiln_arena_deinit(&r->arena);
    kiln_free(r);
}

static kiln_status read_lines(const char *name, const kiln_strbuf *tensors,
                              const kiln_strbuf *blocks, const repetition *repeat,
                              reading **out_reading) {
    reading *r = kiln_alloc(sizeof *r);
    kiln_strbuf text = {0};
    *r = (reading){.program = NULL};
    kiln_arena_init(&r->arena, 0);
    kiln_strbuf_printf(&text, "program %s\n", name);
    kiln_strbuf_str(&text, kiln_strbuf_view(tensors));
    kiln_strbuf_str(&text, kiln_strbuf_view(blocks));
    kiln_status st = kiln_program_parse(kiln_strbuf_view(&text), &r->arena, &r->program);
    if (!st && !kiln_str_is(r->program->name, name))
        st = KILN_ERROR(INVALID_ARGUMENT, "'%s' is no word", name);
    if (!st) st = check_repetition(r->program, repeat);
    if (!st) {
        list_ports(r, repeat);
        kiln_strbuf_reset(&text);
        kiln_program_print(r->program, &text);
        r->program_text = kiln_str_dup(&r->arena, kiln_strbuf_view(&text));
        print_repetition(r, repeat, &text);
        r->text = kiln_str_dup(&r->arena, kiln_strbuf_view(&text));
        *out_reading = r;
    } else {
        free_reading(r);
    }
    kiln_strbuf_deinit(&text);
    return st;
}

static void forget_model(kiln_operator *op) {
    kiln_free(op->model);
    op->model = NULL;
}

static kiln_status add_lines(kiln_operator *op, kiln_str lines) {
    kiln_strbuf tensors = {0}, blocks = {0};
    reading *now = NULL;
    kiln_strbuf_str(&tensors, kiln_strbuf_view(&op->tensors));
    kiln_strbuf_str(&blocks, kiln_strbuf_view(&op->blocks));
    kiln_status st = sort_lines(lines, &tensors, &blocks);
    if (!st) st = read_lines(op->name, &tensors, &blocks, &op->repeat, &now);
    if (!st) {
        const kiln_strbuf old_tensors = op->tensors, old_blocks = op->blocks;
        free_reading(op->now);
        forget_model(op);
        op->now = now;
        op->tensors = tensors;
        op->blocks = blocks;
        tensors = old_tensors;
        blocks = old_blocks;
    }
    kiln_strbuf_deinit(&tensors);
    kiln_strbuf_deinit(&blocks);
    return st;
}

/* ---- operators --------------------------------------------------------------------------------
 */

static kiln_operator *new_operator(const char *name) {
    kiln_operator *op = kiln_alloc(sizeof *op);
    const size_t size = strlen(name) + 1;
    *op = (kiln_operator){.name = kiln_alloc(size)};
    memcpy(op->name, name, size);
    return op;
}

int kiln_operator_create(const char *name, kiln_operator **out_operator, char *error,
                         size_t error_bytes) {
    kiln_operator *op = new_operator(name);
    kiln_status st = kiln_status_note(add_lines(op, KILN_STR("")), "the name of an operator");
    if (st)
        kiln_operator_destroy(op);
    else
        *out_operator = op;
    return kiln_status_report(st, error, error_bytes);
}

void kiln_operator_destroy(kiln_operator *op) {
    if (!op) return;
    for (uint32_t i = 0; i < op->constant.count; i++) {
        kiln_free(op->constant.data[i].name);
        kiln_free(op->constant.data[i].data);
    }
    kiln_vec_deinit(&op->constant);
    free_reading(op->now);
    kiln_strbuf_deinit(&op->tensors);
    kiln_strbuf_deinit(&op->blocks);
    forget_model(op);
    kiln_free(op->name);
    kiln_free(op);
}

int kiln_operator_add(kiln_operator *op, const char *lines, char *error, size_t error_bytes) {
    return kiln_status_report(add_lines(op, kiln_str_from(lines)), error, error_bytes);
}

static constant *find_constant(const kiln_operator *op, kiln_str name) {
    for (uint32_t i = 0; i < op->constant.count; i++)
        if (kiln_str_is(name, op->constant.data[i].name)) return &op->constant.data[i];
    return NULL;
}

static kiln_status set_constant(kiln_operator *op, const char *name, const void *data,
                                size_t size_bytes) {
    const reading *r = op->now;
    const kiln_module_port *port = NULL;
    for (uint32_t i = 0; i < r->count[KILN_OPERATOR_CONSTANT]; i++)
        if (strcmp(r->port[KILN_OPERATOR_CONSTANT][i].name, name) == 0)
            port = &r->port[KILN_OPERATOR_CONSTANT][i];
    if (!port) return KILN_ERROR(NOT_FOUND, "there is no constant named '%s'", name);
    if (port->size_bytes != size_bytes)
        return KILN_ERROR(INVALID_ARGUMENT, "%zu bytes are given for '%s': expected %zu",
                          size_bytes, name, port->size_bytes);
    constant *known = find_constant(op, kiln_str_from(name));
    if (!known) {
        const size_t name_size = strlen(name) + 1;
        constant made = {kiln_alloc(name_size), kiln_alloc(size_bytes + 1), size_bytes};
        memcpy(made.name, name, name_size);
        kiln_vec_push(&op->constant, made);
        known = &kiln_vec_last(&op->constant);
    }
    if (size_bytes) memcpy(known->data, data, size_bytes);
    forget_model(op);
    return NULL;
}

int kiln_operator_set_constant(kiln_operator *op, const char *name, const void *data,
                               size_t size_bytes, char *error, size_t error_bytes) {
    return kiln_status_report(set_constant(op, name, data, size_bytes), error, error_bytes);
}

int kiln_operator_repeat(kiln_operator *op, int64_t steps, uint32_t states, uint32_t rows,
                         char *error, size_t error_bytes) {
    const repetition repeat = {steps, states, rows};
    reading *now = NULL;
    kiln_status st = NULL;
    if (steps < 1 || steps > KILN_LOOP_TRIPS_MAX)
        st = KILN_ERROR(INVALID_ARGUMENT, "%lld steps: expected 1 to %lld", (long long)steps,
                        (long long)KILN_LOOP_TRIPS_MAX);
    if (!st) st = read_lines(op->name, &op->tensors, &op->blocks, &repeat, &now);
    if (!st) {
        free_reading(op->now);
        forget_model(op);
        op->now = now;
        op->repeat = repeat;
    }
    return kiln_status_report(kiln_status_note(st, "repeating operator '%s'", op->name), error,
                              error_bytes);
}

const char *kiln_operator_text(const kiln_operator *op) { return op->now->text; }

static bool is_role(uint32_t role) {
    return role >= KILN_OPERATOR_INPUT && role <= KILN_OPERATOR_TEMP;
}

uint32_t kiln_operator_tensor_count(const kiln_operator *op, uint32_t role) {
    return is_role(role) ? op->now->count[role] : 0;
}

const kiln_module_port *kiln_operator_tensor(const kiln_operator *op, uint32_t role,
                                             uint32_t index) {
    return &op->now->port[role][index];
}

/* ---- as a graph -------------------------------------------------------------------------------
 */

static kiln_status add_constant(const kiln_operator *op, const kiln_buffer_info *buffer,
                                kiln_graph *graph, kiln_value *out_value) {
    const constant *known = find_constant(op, buffer->name);
    if (!known)
        return KILN_ERROR(FAILED_PRECONDITION, "constant '%.*s' has no elements yet",
                          KILN_STR_ARG(buffer->name));
    kiln_tensor tensor = kiln_tensor_create(graph->arena, buffer->dtype, &buffer->shape);
    if (known->size_bytes) memcpy(tensor.data, known->data, known->size_bytes);
    *out_value = kiln_graph_add_constant(graph, buffer->name, &tensor);
    return NULL;
}

static kiln_value add_input(const kiln_buffer_info *buffer, bool has_all_steps, int64_t steps,
                            kiln_graph *graph) {
    kiln_shape shape = {.rank = buffer->shape.rank + has_all_steps, .dim = {steps}};
    for (uint32_t d = 0; d < buffer->shape.rank; d++)
        shape.dim[has_all_steps + d] = buffer->shape.dim[d];
    return kiln_graph_add_input(graph, buffer->name, buffer->dtype, &shape);
}

/* `name` with a suffix that makes it new, because the names of tensors are for values that callers
 * see. */
static kiln_str inner_name(kiln_graph *graph, kiln_str name) {
    kiln_str inner = kiln_str_printf(graph->arena, "%.*s:step", KILN_STR_ARG(name));
    while (kiln_graph_find_value(graph, inner))
        inner = kiln_str_printf(graph->arena, "%.*s:", KILN_STR_ARG(inner));
    return inner;
}

/* The loop around a step, from its states and rows `input`; `input` is what the step reads. */
static kiln_status begin_loop(const repetition *repeat, kiln_graph *graph, kiln_value *input,
                              kiln_value *out_number) {
    static const kiln_shape scalar = {.rank = 0};
    const uint32_t count = repeat->states + repeat->rows;
    kiln_tensor steps = kiln_tensor_create(graph->arena, KILN_I64, &scalar);
    memcpy(steps.data, &repeat->steps, sizeof repeat->steps);
    kiln_node begin =
        kiln_graph_add_node(graph, KILN_OP_LOOP_BEGIN, KILN_STR("repeat"), 1 + count, 1 + count);
    kiln_graph_set_int(graph, begin, "trips", repeat->steps);
    kiln_graph_set_int(graph, begin, "carried", repeat->states);
    kiln_graph_set_input(graph, begin, 0,
                         kiln_graph_add_constant(graph, KILN_STR("repeat:steps"), &steps));
    *out_number = kiln_graph_add_value(graph, KILN_STR("repeat:step"));
    kiln_graph_set_output(graph, begin, 0, *out_number);
    for (uint32_t i = 0; i < count; i++) {
        kiln_graph_set_input(graph, begin, 1 + i, input[i]);
        input[i] = kiln_graph_add_value(graph, inner_name(graph, graph->value.data[input[i]].name));
        kiln_graph_set_output(graph, begin, 1 + i, input[i]);
    }
    return kiln_node_infer(graph, begin);
}

/* Turns the step's results `output` into the loop's, which get their names. */
static kiln_status end_loop(kiln_graph *graph, kiln_value number, kiln_value *output,
                            uint32_t count) {
    kiln_node end =
        kiln_graph_add_node(graph, KILN_OP_LOOP_END, KILN_STR("repeat.end"), 1 + count, count);
    kiln_graph_set_input(graph, end, 0, number);
    for (uint32_t i = 0; i < count; i++) {
        const kiln_str name = graph->value.data[output[i]].name;
        kiln_graph_set_input(graph, end, 1 + i, output[i]);
        kiln_graph_rename_value(graph, output[i], inner_name(graph, name));
        output[i] = kiln_graph_add_value(graph, name);
        kiln_graph_set_output(graph, end, i, output[i]);
    }
    return kiln_node_infer(graph, end);
}

/* One node, an expression; in a loop when `repeat` says so. Values that callers see have the names
 * of tensors; everything lives in `arena`. */
static kiln_status make_graph(const kiln_operator *op, const repetition *repeat, kiln_arena *arena,
                              kiln_graph **out_graph) {
    const kiln_program *p = op->now->program;
    const uint32_t inputs = op->now->count[KILN_OPERATOR_INPUT],
                   operands = inputs + op->now->count[KILN_OPERATOR_CONSTANT],
                   outputs = op->now->count[KILN_OPERATOR_OUTPUT];
    kiln_graph *graph = kiln_graph_create(arena, kiln_str_from(op->name));
    kiln_status st = NULL;
    if (operands == 0 || outputs == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "operator '%s' has no %s", op->name,
                          operands ? "output" : "input");
    if (operands >= KILN_NODE_OPERANDS_MAX || outputs >= KILN_NODE_OPERANDS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "operator '%s' has %u inputs or outputs, or more",
                          op->name, KILN_NODE_OPERANDS_MAX);
    kiln_value *input = KILN_ARENA_ARRAY(arena, kiln_value, inputs + 1),
               *output = KILN_ARENA_ARRAY(arena, kiln_value, outputs), number = 0;
    for (uint32_t i = 0; i < inputs; i++)
        input[i] = add_input(buffer_of(p, KILN_ROLE_INPUT, i), has_rows(repeat, KILN_ROLE_INPUT, i),
                             repeat->steps, graph);
    if (repeat->steps) st = begin_loop(repeat, graph, input, &number);
    kiln_node node =
        kiln_graph_add_node(graph, KILN_OP_EXPRESSION, kiln_str_from(op->name), operands, outputs);
    kiln_attr text = {.name = KILN_STR("program"),
                      .kind = KILN_ATTR_TEXT,
                      .text = kiln_str_from(op->now->program_text)};
    kiln_graph_set_attr(graph, node, &text);
    uint32_t operand = 0, made = 0, given = 0;
    for (kiln_buffer b = 1; !st && b < p->buffer.count; b++) {
        const kiln_buffer_info *buffer = &p->buffer.data[b];
        kiln_value value = 0;
        if (buffer->role == KILN_ROLE_TEMP) continue;
        if (buffer->role == KILN_ROLE_OUTPUT) {
            output[made] = kiln_graph_add_value(graph, buffer->name);
            kiln_graph_set_output(graph, node, made, output[made]);
            made++;
            continue;
        }
        if (buffer->role == KILN_ROLE_CONSTANT)
            st = add_constant(op, buffer, graph, &value);
        else
            value = input[given++];
        kiln_graph_set_input(graph, node, operand++, value);
    }
    if (!st) st = kiln_node_infer(graph, node);
    if (!st && repeat->steps) st = end_loop(graph, number, output, outputs);
    for (uint32_t i = 0; !st && i < outputs; i++)
        kiln_vec_push_in(arena, &graph->output, output[i]);
    if (st) return kiln_status_note(st, "operator '%s'", op->name);
    *out_graph = graph;
    return NULL;
}

/* The operator, or one step of it. */
static kiln_status make_step_graph(const kiln_operator *op, kiln_arena *arena,
                                   kiln_graph **out_graph) {
    static const repetition once = {.steps = 0};
    return make_graph(op, &once, arena, out_graph);
}

static kiln_status make_model(kiln_operator *op) {
    kiln_arena arena;
    kiln_graph *graph = NULL;
    kiln_arena_init(&arena, 0);
    kiln_status st = make_graph(op, &op->repeat, &arena, &graph);
    if (!st) {
        const kiln_graph_bytes bytes = kiln_graph_encode(graph, &arena);
        size_t at = 0;
        op->model = kiln_alloc(bytes.size);
        op->model_bytes = bytes.size;
        for (uint32_t i = 0; i < bytes.part_count; i++) {
            if (bytes.part[i].size) memcpy(op->model + at, bytes.part[i].data, bytes.part[i].size);
            at += bytes.part[i].size;
        }
    }
    kiln_arena_deinit(&arena);
    return st;
}

int kiln_operator_model(kiln_operator *op, const void **out_bytes, size_t *out_size_bytes,
                        char *error, size_t error_bytes) {
    kiln_status st = op->model ? NULL : make_model(op);
    if (!st) {
        *out_bytes = op->model;
        *out_size_bytes = op->model_bytes;
    }
    return kiln_status_report(st, error, error_bytes);
}

/* ---- interpreting -----------------------------------------------------------------------------
 */

/* The tensor of one value of the graph: its data, or the caller's. */
static kiln_tensor tensor_of(const kiln_graph *graph, kiln_value value, const void *const *inputs,
                             void *const *outputs) {
    const kiln_value_info *info = &graph->value.data[value];
    kiln_tensor tensor = {.dtype = info->dtype, .shape = info->shape};
    memcpy(&tensor.data, &info->data, sizeof tensor.data); /* of a constant; it is read only */
    for (uint32_t i = 0; i < graph->input.count; i++)
        if (graph->input.data[i] == value) memcpy(&tensor.data, &inputs[i], sizeof tensor.data);
    for (uint32_t i = 0; i < graph->output.count; i++)
        if (graph->output.data[i] == value) tensor.data = outputs[i];
    return tensor;
}

/* Computes one step on tensors in the order of the program's arguments. */
typedef kiln_status (*evaluator)(const kiln_program *program, const kiln_tensor *tensor,
                                 uint32_t count);

/* Sets the pointers for step `t`: states are in the caller's memory before the first and after the
 * last step, and alternate between two places in `state` in between. */
static void point(const kiln_operator *op, int64_t t, void *const *state, const void *const *inputs,
                  void *const *outputs, const void **input, void **output) {
    const reading *r = op->now;
    const int64_t steps = op->repeat.steps;
    const uint32_t states = op->repeat.states;
    for (uint32_t i = 0; i < r->count[KILN_OPERATOR_INPUT]; i++) {
        const size_t row = r->port[KILN_OPERATOR_INPUT][i].size_bytes / (size_t)steps;
        if (i < states)
            input[i] = t ? state[2 * i + (t - 1) % 2] : inputs[i];
        else
            input[i] = has_rows(&op->repeat, KILN_ROLE_INPUT, i)
                           ? (const char *)inputs[i] + (size_t)t * row
                           : inputs[i];
    }
    for (uint32_t i = 0; i < r->count[KILN_OPERATOR_OUTPUT]; i++) {
        const size_t row = r->port[KILN_OPERATOR_OUTPUT][i].size_bytes / (size_t)steps;
        if (i < states)
            output[i] = t + 1 < steps ? state[2 * i + t % 2] : outputs[i];
        else
            output[i] = (char *)outputs[i] + (size_t)t * row;
    }
}

static void point_tensors(const kiln_graph *graph, const kiln_value *arg, uint32_t count,
                          const void *const *inputs, void *const *outputs, kiln_tensor *tensor) {
    for (uint32_t i = 0; i < count; i++) tensor[i] = tensor_of(graph, arg[i], inputs, outputs);
}

/* Runs `program`, whose arguments are the values `arg` [count] of the step's graph, as often as the
 * operator says. */
static kiln_status run_steps(const kiln_operator *op, const kiln_graph *graph,
                             const kiln_program *program, const kiln_value *arg, uint32_t count,
                             evaluator evaluate, const void *const *inputs, void *const *outputs) {
    const reading *r = op->now;
    const uint32_t states = op->repeat.states;
    kiln_status st = NULL;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_tensor *tensor = KILN_ARENA_ARRAY(&arena, kiln_tensor, count);
    if (op->repeat.steps) {
        const void **input = KILN_ARENA_ARRAY(&arena, const void *, r->count[KILN_OPERATOR_INPUT]);
        void **output = KILN_ARENA_ARRAY(&arena, void *, r->count[KILN_OPERATOR_OUTPUT]);
        void **state = KILN_ARENA_ARRAY(&arena, void *, 2 * states + 1);
        for (uint32_t i = 0; i < 2 * states; i++)
            state[i] = kiln_arena_alloc(&arena, r->port[KILN_OPERATOR_INPUT][i / 2].size_bytes);
        for (int64_t t = 0; !st && t < op->repeat.steps; t++) {
            point(op, t, state, inputs, outputs, input, output);
            point_tensors(graph, arg, count, input, output, tensor);
            st = evaluate(program, tensor, count);
            if (st) st = kiln_status_note(st, "step %lld", (long long)t);
        }
    } else {
        point_tensors(graph, arg, count, inputs, outputs, tensor);
        st = evaluate(program, tensor, count);
    }
    kiln_arena_deinit(&arena);
    return st;
}

static kiln_status run_operator(const kiln_operator *op, const void *const *inputs,
                                void *const *outputs, kiln_arena *arena) {
    kiln_graph *graph = NULL;
    kiln_status st = make_step_graph(op, arena, &graph);
    if (st) return st;
    const kiln_program *p = op->now->program;
    const kiln_arg_buffers args = kiln_program_args(p);
    kiln_value *arg = KILN_ARENA_ARRAY(arena, kiln_value, args.count);
    for (uint32_t i = 0; i < args.count; i++)
        arg[i] = kiln_graph_find_value(graph, p->buffer.data[args.buffer[i]].name);
    return run_steps(op, graph, p, arg, args.count, kiln_te_eval, inputs, outputs);
}

int kiln_operator_run(const kiln_operator *op, const void *const *inputs, void *const *outputs,
                      char *error, size_t error_bytes) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_status st = run_operator(op, inputs, outputs, &arena);
    kiln_arena_deinit(&arena);
    return kiln_status_report(st, error, error_bytes);
}

/* ---- schedules --------------------------------------------------------------------------------
 */

enum { KINDS = KILN_SCHEDULE_BUFFERS + 1 };

/* The result of the lines so far. */
typedef struct scheduled {
    kiln_arena arena; /* of all of it */
    kiln_program *program;
    const char *text, *trace;
    kiln_names all[KINDS], made[KINDS]; /* `all` of blocks: that have a place */
} scheduled;

struct kiln_schedule {
    kiln_arena arena;  /* of data that does not change */
    kiln_operator *op; /* a copy of the operator */
    kiln_graph *graph;
    kiln_plan plan; /* one step: the operator */
    const char *task;
    scheduled *now;
};

static const kiln_program *task_program(const kiln_schedule *schedule) {
    return schedule->plan.tasks.task[0].te;
}

static bool has_name(const kiln_names *names, const char *name) {
    for (uint32_t i = 0; i < names->count; i++)
        if (strcmp(names->name[i], name) == 0) return true;
    return false;
}

static void add_name(scheduled *s, uint32_t what, kiln_str name) {
    const char **list = (const char **)s->all[what].name;
    list[s->all[what].count++] = kiln_str_dup(&s->arena, name);
}

static void list_stmt(scheduled *s, kiln_stmt stmt) {
    const kiln_program *p = s->program;
    const kiln_stmt_info *info = &p->stmt.data[stmt];
    if (info->kind == KILN_STMT_FOR) add_name(s, KILN_SCHEDULE_LOOPS, p->var.data[info->var].name);
    if (info->kind == KILN_STMT_BLOCK)
        add_name(s, KILN_SCHEDULE_BLOCKS, p->block.data[info->block].name);
    for (uint32_t i = 0; i < info->child.count; i++) list_stmt(s, info->child.data[i]);
}

static void list_names(scheduled *s, const scheduled *before) {
    const kiln_program *p = s->program;
    const uint32_t most = p->stmt.count + p->buffer.count;
    for (uint32_t what = 1; what < KINDS; what++)
        s->all[what].name = KILN_ARENA_ARRAY(&s->arena, const char *, most);
    list_stmt(s, p->root);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        add_name(s, KILN_SCHEDULE_BUFFERS, p->buffer.data[b].name);
    for (uint32_t what = 1; what < KINDS; what++) {
        const char **made = KILN_ARENA_ARRAY(&s->arena, const char *, s->all[what].count);
        s->made[what].name = made;
        for (uint32_t i = 0; i < s->all[what].count; i++)
            if (!has_name(&before->all[what], s->all[what].name[i]))
                made[s->made[what].count++] = s->all[what].name[i];
    }
}

static void free_scheduled(scheduled *s) {
    if (!s) return;
    kiln_arena_deinit(&s->arena);
    kiln_free(s);
}

/* Replays all lines; objects that are not in `before`, the result of the earlier lines, are new. */
static kiln_status replay(const kiln_program *te, kiln_str lines, const scheduled *before,
                          scheduled **out_scheduled) {
    scheduled *s = kiln_alloc(sizeof *s);
    kiln_trace trace, closed;
    kiln_strbuf text = {0};
    *s = (scheduled){.program = NULL};
    kiln_arena_init(&s->arena, 0);
    kiln_status st = kiln_trace_parse(lines, &s->arena, &trace);
    if (!st) st = kiln_trace_replay(&trace, te, NULL, &s->arena, &s->program, &closed);
    if (!st) st = kiln_program_verify(s->program);
    if (!st) {
        kiln_trace_print(&closed, &text);
        s->trace = kiln_str_dup(&s->arena, kiln_strbuf_view(&text));
        kiln_strbuf_reset(&text);
        kiln_program_print(s->program, &text);
        s->text = kiln_str_dup(&s->arena, kiln_strbuf_view(&text));
        list_names(s, before);
        *out_scheduled = s;
    } else {
        free_scheduled(s);
    }
    kiln_strbuf_deinit(&text);
    return st;
}

static kiln_status copy_operator(const kiln_operator *op, kiln_operator **out_copy) {
    kiln_operator *copy = new_operator(op->name);
    copy->repeat = op->repeat;
    kiln_status st = read_lines(op->name, &op->tensors, &op->blocks, &op->repeat, &copy->now);
    for (uint32_t i = 0; !st && i < op->constant.count; i++) {
        const constant *c = &op->constant.data[i];
        st = set_constant(copy, c->name, c->data, c->size_bytes);
    }
    if (st)
        kiln_operator_destroy(copy);
    else
        *out_copy = copy;
    return st;
}

int kiln_schedule_create(const kiln_operator *op, kiln_schedule **out_schedule, char *error,
                         size_t error_bytes) {
    static const scheduled nothing = {.program = NULL};
    kiln_schedule *s = kiln_alloc(sizeof *s);
    *s = (kiln_schedule){.graph = NULL};
    kiln_arena_init(&s->arena, 0);
    kiln_status st = copy_operator(op, &s->op);
    if (!st) st = make_step_graph(s->op, &s->arena, &s->graph);
    if (!st) st = kiln_plan_create(s->graph, &s->arena, &s->plan);
    if (!st) st = replay(task_program(s), KILN_STR(""), &nothing, &s->now);
    if (!st) {
        s->task = kiln_str_dup(&s->arena, s->plan.tasks.task[0].key);
        *out_schedule = s;
    } else {
        kiln_schedule_destroy(s);
    }
    return kiln_status_report(st, error, error_bytes);
}

void kiln_schedule_destroy(kiln_schedule *schedule) {
    if (!schedule) return;
    free_scheduled(schedule->now);
    kiln_operator_destroy(schedule->op);
    kiln_arena_deinit(&schedule->arena);
    kiln_free(schedule);
}

int kiln_schedule_apply(kiln_schedule *schedule, const char *lines, char *error,
                        size_t error_bytes) {
    kiln_strbuf all = {0};
    scheduled *now = NULL;
    kiln_strbuf_text(&all, schedule->now->trace);
    kiln_strbuf_text(&all, lines);
    kiln_status st = replay(task_program(schedule), kiln_strbuf_view(&all), schedule->now, &now);
    if (!st) {
        free_scheduled(schedule->now);
        schedule->now = now;
    }
    kiln_strbuf_deinit(&all);
    return kiln_status_report(st, error, error_bytes);
}

const kiln_operator *kiln_schedule_operator(const kiln_schedule *schedule) { return schedule->op; }

const char *kiln_schedule_program(const kiln_schedule *schedule) { return schedule->now->text; }
const char *kiln_schedule_trace(const kiln_schedule *schedule) { return schedule->now->trace; }
const char *kiln_schedule_task(const kiln_schedule *schedule) { return schedule->task; }

const char *kiln_schedule_tensor(const kiln_schedule *schedule, const char *name) {
    const kiln_step *step = &schedule->plan.step[0];
    for (uint32_t i = 0; i < step->arg_count; i++)
        if (kiln_str_is(schedule->graph->value.data[step->arg[i]].name, name))
            return schedule->now->all[KILN_SCHEDULE_BUFFERS].name[i]; /* arguments come first */
    return has_name(&schedule->now->all[KILN_SCHEDULE_BUFFERS], name) ? name : NULL;
}

static bool is_kind(uint32_t what) { return what >= KILN_SCHEDULE_LOOPS && what < KINDS; }

kiln_names kiln_schedule_names(const kiln_schedule *schedule, uint32_t what) {
    return is_kind(what) ? schedule->now->all[what] : (kiln_names){0, NULL};
}

kiln_names kiln_schedule_made(const kiln_schedule *schedule, uint32_t what) {
    return is_kind(what) ? schedule->now->made[what] : (kiln_names){0, NULL};
}

kiln_names kiln_schedule_loops_around(kiln_schedule *schedule, const char *block) {
    scheduled *now = schedule->now;
    const kiln_program *p = now->program;
    kiln_block found = kiln_program_find_block(p, kiln_str_from(block));
    kiln_stmt stmt = found ? kiln_program_block_stmt(p, found) : 0;
    uint32_t count = 0;
    for (kiln_stmt at = stmt; at; at = p->stmt.data[at].parent)
        count += p->stmt.data[at].kind == KILN_STMT_FOR;
    const char **name = KILN_ARENA_ARRAY(&now->arena, const char *, count);
    uint32_t place = count;
    for (kiln_stmt at = stmt; at; at = p->stmt.data[at].parent)
        if (p->stmt.data[at].kind == KILN_STMT_FOR)
            name[--place] = kiln_str_dup(&now->arena, p->var.data[p->stmt.data[at].var].name);
    return (kiln_names){count, name};
}

int kiln_schedule_run(const kiln_schedule *schedule, const void *const *inputs,
                      void *const *outputs, char *error, size_t error_bytes) {
    const kiln_step *step = &schedule->plan.step[0];
    kiln_status st = run_steps(schedule->op, schedule->graph, schedule->now->program, step->arg,
                               step->arg_count, kiln_loop_eval, inputs, outputs);
    return kiln_status_report(st, error, error_bytes);
}
