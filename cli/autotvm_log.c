#include "cli/autotvm_log.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/macros.h"

#define EXTENT_MAX ((int64_t)1 << 20) /* of a dimension; sums and products of a few fit */
#define SECONDS_MAX 1e4
#define RANK_MAX 6

typedef enum workload_kind { CONV_NCHW, CONV_NHWC, DEPTHWISE, DENSE, BATCH_MATMUL } workload_kind;

typedef struct template_row {
    const char *name;
    workload_kind workload;
    const char *rows, *columns, *lanes, *steps;
} template_row;

static const template_row templates[] = {
#define X(name, workload, rows, columns, lanes, steps) \
    {name, workload, rows, columns, lanes, steps},
#include "cli/autotvm_templates.def"
#undef X
};

static kiln_status wrong(const char *what) {
    return KILN_ERROR(INVALID_ARGUMENT, "%s: no line of an AutoTVM log of version 0.2", what);
}

/* ---- values ---- */

static bool take_extent(const json_t *value, int64_t least, int64_t *out) {
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= EXTENT_MAX;
}

typedef struct tensor {
    uint32_t rank;
    int64_t dim[RANK_MAX];
    bool is_f32;
} tensor;

static bool take_tensor(const json_t *value, tensor *out) {
    const json_t *shape = json_array_get(value, 1);
    const char *kind = json_string_value(json_array_get(value, 0)),
               *type = json_string_value(json_array_get(value, 2));
    const size_t rank = json_array_size(shape);
    *out = (tensor){.rank = (uint32_t)rank, .is_f32 = type && strcmp(type, "float32") == 0};
    if (!kind || strcmp(kind, "TENSOR") != 0 || !type || rank == 0 || rank > RANK_MAX) return false;
    for (size_t i = 0; i < rank; i++)
        if (!take_extent(json_array_get(shape, i), 1, &out->dim[i])) return false;
    return true;
}

/* One number for all, or `count` of them, or half as many for both ends. */
static bool take_numbers(const json_t *value, int64_t least, uint32_t count, int64_t *out) {
    const size_t size = json_array_size(value);
    if (!json_is_integer(value) && size != count && size * 2 != count) return false;
    for (uint32_t i = 0; i < count; i++) {
        const json_t *one = size ? json_array_get(value, i % size) : value;
        if (!take_extent(one, least, &out[i])) return false;
    }
    return true;
}

/* ---- workloads: false where a number cannot be true; `line->use` says which have no counterpart.
 * ---- */

typedef struct convolution {
    int64_t batch, in, out, size[2], kernel[2];
} convolution;

/* Layouts of one block of channels become plain ones. */
static bool unblock(const tensor *data, const tensor *kernel, workload_kind workload,
                    convolution *c) {
    const int64_t *d = data->dim, *k = kernel->dim;
    const bool blocked = data->rank == 5 && kernel->rank == 6;
    if (!blocked && (data->rank != 4 || kernel->rank != 4)) return false;
    if (workload == CONV_NHWC) {
        *c = (convolution){d[0], d[3], k[3], {d[1], d[2]}, {k[0], k[1]}};
        return !blocked && k[2] == d[3];
    }
    const int64_t inputs = blocked ? k[1] * k[4] : k[1];
    *c = (convolution){d[0], d[1], k[0], {d[2], d[3]}, {k[2], k[3]}};
    if (blocked) c->in *= d[4], c->out *= k[5];
    return inputs == (workload == DEPTHWISE ? 1 : c->in) &&
           (workload != DEPTHWISE || c->out == c->in);
}

static bool take_convolution(const json_t *argument, const tensor *data, const tensor *kernel,
                             workload_kind workload, kiln_autotvm_line *line) {
    int64_t stride[2], padding[4], dilation[2], size[2], reach[2];
    convolution c;
    if (!take_numbers(json_array_get(argument, 2), 1, 2, stride) ||
        !take_numbers(json_array_get(argument, 3), 0, 4, padding) ||
        !take_numbers(json_array_get(argument, 4), 1, 2, dilation))
        return false;
    if (!unblock(data, kernel, workload, &c)) {
        line->use = KILN_AUTOTVM_NO_WORKLOAD;
        return true;
    }
    for (int i = 0; i < 2; i++) {
        const int64_t window = (c.kernel[i] - 1) * dilation[i] + 1,
                      padded = c.size[i] + padding[i] + padding[i + 2];
        if (padded < window) return false;
        size[i] = (padded - window) / stride[i] + 1;
        reach[i] = (size[i] - 1) * stride[i] + window;
    }
    line->work = (kiln_foreign_work){
        .result_count = 4,
        .result = {c.batch, c.out, size[0], size[1]},
        .reduce_count = 3,
        .reduce = {workload == DEPTHWISE ? 1 : c.in, c.kernel[0], c.kernel[1]},
        .data_count = 4,
        .data = {{c.batch, 1}, {c.in, 1}, {reach[0], stride[0]}, {reach[1], stride[1]}}};
    return true;
}

/* Weights [N, K], or packed [N / n, K, n]. */
static bool take_dense(const tensor *data, const tensor *weights, kiln_autotvm_line *line) {
    const bool packed = weights->rank == 3;
    if (data->rank != 2 || (weights->rank != 2 && !packed) || weights->dim[1] != data->dim[1])
        return false;
    const int64_t columns = packed ? weights->dim[0] * weights->dim[2] : weights->dim[0];
    line->work = (kiln_foreign_work){.result_count = 2,
                                     .result = {data->dim[0], columns},
                                     .reduce_count = 1,
                                     .reduce = {data->dim[1]},
                                     .data_count = 2,
                                     .data = {{data->dim[0], 1}, {data->dim[1], 1}}};
    return true;
}

/* [B, M, K] by [B, N, K], unless the fifth and the sixth argument say otherwise. */
static bool take_batch(const json_t *argument, const tensor *a, const tensor *b,
                       kiln_autotvm_line *line) {
    const bool given = json_array_size(argument) >= 6,
               first = given && json_is_true(json_array_get(argument, 4)),
               second = !given || json_is_true(json_array_get(argument, 5));
    if (a->rank != 3 || b->rank != 3 || a->dim[first ? 1 : 2] != b->dim[second ? 2 : 1])
        return false;
    if (first) line->use = KILN_AUTOTVM_NO_WORKLOAD;
    if (a->dim[0] != b->dim[0]) line->use = KILN_AUTOTVM_NO_WORKLOAD;
    line->work = (kiln_foreign_work){.result_count = 3,
                                     .result = {a->dim[0], a->dim[1], b->dim[second ? 1 : 2]},
                                     .reduce_count = 1,
                                     .reduce = {a->dim[2]},
                                     .data_count = 3,
                                     .data = {{a->dim[0], 1}, {a->dim[1], 1}, {a->dim[2], 1}}};
    return true;
}

static bool take_workload(const json_t *argument, workload_kind workload, kiln_autotvm_line *line) {
    tensor a, b;
    if (!take_tensor(json_array_get(argument, 0), &a) ||
        !take_tensor(json_array_get(argument, 1), &b))
        return false;
    if (!a.is_f32 || !b.is_f32) line->use = KILN_AUTOTVM_NO_WORKLOAD;
    if (workload == DENSE) return take_dense(&a, &b, line);
    if (workload == BATCH_MATMUL) return take_batch(argument, &a, &b, line);
    return take_convolution(argument, &a, &b, workload, line);
}

/* ---- knobs and times ---- */

/* The innermost size that the knob of that name decides on; 0: there is none. */
static bool take_knob(const json_t *entity, const char *name, int64_t *out) {
    size_t i;
    json_t *knob;
    *out = 0;
    json_array_foreach(entity, i, knob) {
        const char *own = json_string_value(json_array_get(knob, 0)),
                   *kind = json_string_value(json_array_get(knob, 1));
        const json_t *value = json_array_get(knob, 2);
        if (!own || !kind || !value) return false;
        if (!*name || strcmp(own, name) != 0) continue;
        if (json_is_array(value)) value = json_array_get(value, json_array_size(value) - 1);
        if (!take_extent(value, 1, out)) return false;
    }
    return true;
}

static bool take_tile(const json_t *entity, const template_row *row, kiln_foreign_tile *out) {
    return json_is_array(entity) && take_knob(entity, row->rows, &out->rows) &&
           take_knob(entity, row->columns, &out->columns) &&
           take_knob(entity, row->lanes, &out->lanes) && take_knob(entity, row->steps, &out->steps);
}

static bool take_costs(const json_t *costs, kiln_autotvm_line *line) {
    const size_t count = json_array_size(costs);
    for (size_t i = 0; i < count && line->cost_count < KILN_AUTOTVM_COSTS_MAX; i++) {
        const json_t *one = json_array_get(costs, i);
        const double seconds = json_number_value(one);
        if (!json_is_number(one) || !(seconds > 0) || seconds > SECONDS_MAX) return false;
        line->cost_ns[line->cost_count++] = seconds * 1e9;
    }
    return count > 0;
}

/* ---- a line ---- */

static kiln_status take_line(const json_t *object, kiln_autotvm_line *line) {
    const json_t *input = json_object_get(object, "input"),
                 *result = json_object_get(object, "result"),
                 *entity = json_object_get(json_object_get(object, "config"), "entity");
    const char *name = json_string_value(json_array_get(input, 1));
    const json_t *error = json_array_get(result, 1);
    const template_row *row = NULL;
    if (json_number_value(json_object_get(object, "version")) != 0.2)
        return wrong("\"version\" is not 0.2, which TVM from 0.7 on writes");
    if (!json_is_string(json_array_get(input, 0)) || !name ||
        !json_is_array(json_array_get(input, 2)))
        return wrong("\"input\" is not [target, template, arguments, {}]");
    if (!json_is_integer(error)) return wrong("\"result\" is not [times, error, ...]");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(templates); i++)
        if (strcmp(templates[i].name, name) == 0) row = &templates[i];
    if (json_integer_value(error) != 0)
        line->use = KILN_AUTOTVM_FAILED;
    else if (!row)
        line->use = KILN_AUTOTVM_NO_TEMPLATE;
    if (line->use != KILN_AUTOTVM_TAKEN) return KILN_OK;
    if (!take_workload(json_array_get(input, 2), row->workload, line))
        return wrong("the arguments in \"input\" are not those of the template");
    if (!take_tile(entity, row, &line->tile)) return wrong("\"config\" has no such knobs");
    return take_costs(json_array_get(result, 0), line)
               ? KILN_OK
               : wrong("the times in \"result\" are not seconds");
}

kiln_status kiln_autotvm_parse(kiln_str text, kiln_autotvm_line *out) {
    json_error_t error;
    *out = (kiln_autotvm_line){0};
    json_t *object = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return KILN_ERROR(INVALID_ARGUMENT, "column %d: no JSON object of an AutoTVM log",
                          error.column);
    kiln_status st = json_is_object(object) ? take_line(object, out) : wrong("no object");
    json_decref(object);
    return st;
}
