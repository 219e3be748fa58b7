#include "compiler-core/task/rows.h"

#include <string.h>

#include "base/hash.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/eval.h"

/* The rows of a value: index (o * size + r) * factor + f along `axis` is of row r, where o is one
 * of `outer` and f one of `factor`. So rows remain rows when steps and batch are merged into one
 * dimension. */
typedef struct rows {
    uint32_t axis; /* KILN_ROWS_NONE: no rows, the value is the same for all of them */
    int64_t outer, factor;
} rows;

static const rows none = {.axis = KILN_ROWS_NONE};

static bool has_rows(rows a) { return a.axis != KILN_ROWS_NONE; }

static rows plain_rows(kiln_row_axis a) { return (rows){a.axis, 1, a.factor}; }

static bool is_same(rows a, rows b) {
    return a.axis == b.axis && (!has_rows(a) || (a.outer == b.outer && a.factor == b.factor));
}

/* A program of one step, and the rows of its buffers. */
typedef struct kernel {
    kiln_program *p;
    kiln_arena *arena;
    rows *of; /* [buffer] */
    int64_t size;
    uint64_t *signature; /* of everything so far */
} kernel;

static void mix(uint64_t *signature, const void *data, size_t size) {
    *signature = kiln_hash64(data, size, *signature);
}

/* ---- numbers of rows ------------------------------------------------------------------------- */

static kiln_expr divided(kiln_program *p, kiln_expr_op op, kiln_expr e, int64_t by) {
    return kiln_expr_binary(p, op, e, kiln_expr_index(p, by));
}

static kiln_expr outer_number(const kernel *k, kiln_expr index, rows a) {
    const kiln_expr outer = divided(k->p, KILN_EXPR_FLOORDIV, index, k->size * a.factor);
    return kiln_expr_simplify(k->p, outer, NULL);
}

static kiln_expr row_number(const kernel *k, kiln_expr index, rows a) {
    kiln_expr row = a.factor == 1 ? index : divided(k->p, KILN_EXPR_FLOORDIV, index, a.factor);
    if (a.outer > 1) row = divided(k->p, KILN_EXPR_FLOORMOD, row, k->size);
    return kiln_expr_simplify(k->p, row, NULL);
}

static kiln_expr inner_number(const kernel *k, kiln_expr index, rows a) {
    return kiln_expr_simplify(k->p, divided(k->p, KILN_EXPR_FLOORMOD, index, a.factor), NULL);
}

static kiln_expr join_numbers(kiln_program *p, kiln_expr outer, kiln_expr row, kiln_expr inner,
                              int64_t size, int64_t factor) {
    kiln_expr e = kiln_expr_binary(p, KILN_EXPR_MUL, outer, kiln_expr_index(p, size));
    e = kiln_expr_binary(p, KILN_EXPR_ADD, e, row);
    e = kiln_expr_binary(p, KILN_EXPR_MUL, e, kiln_expr_index(p, factor));
    return kiln_expr_binary(p, KILN_EXPR_ADD, e, inner);
}

/* ---- what a block computes ------------------------------------------------------------------- */

/* Hashes of a block's expressions, with iterators by their number and the rest by its structure. */
typedef struct hashes {
    const kiln_program *p;
    const kiln_block_info *block;
    const kiln_var *part; /* [ROW_PARTS] */
    uint64_t *of;         /* [expr]; 0: not yet */
} hashes;

/* The parts of the iterator of rows: the numbers in rows. */
#define ROW_PARTS 3u

static uint64_t number_of(const hashes *h, kiln_var var) {
    for (uint32_t i = 0; i < ROW_PARTS; i++)
        if (h->part[i] == var) return KILN_BLOCK_ITERS_MAX + i;
    for (uint32_t i = 0; i < h->block->iter_count; i++)
        if (h->block->iter[i].var == var) return i;
    return UINT64_MAX;
}

static uint64_t hash_of(hashes *h, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(h->p, e);
    if (e == 0 || h->of[e]) return h->of[e];
    uint64_t hash = (uint64_t)node->op << 8 | node->dtype, payload = 0;
    if (node->op == KILN_EXPR_VAR)
        payload = number_of(h, node->payload.id);
    else if (node->op == KILN_EXPR_LOAD)
        payload = node->payload.id;
    else if (node->operand_count == 0)
        memcpy(&payload, &node->payload, sizeof payload);
    mix(&hash, &payload, sizeof payload);
    for (uint32_t i = 0; i < node->operand_count; i++) {
        const uint64_t operand = hash_of(h, kiln_expr_operand(h->p, e, i));
        mix(&hash, &operand, sizeof operand);
    }
    h->of[e] = hash | 1u;
    return h->of[e];
}

/* Replaces the size in indices of rows, so that their hash does not depend on it. */
#define ANY_SIZE ((int64_t)1 << 20)

static kiln_expr read_any_size(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const kernel *k = context;
    (void)e;
    if (kiln_expr_get(p, rebuilt)->op != KILN_EXPR_LOAD) return rebuilt;
    const kiln_buffer buffer = kiln_load_buffer(p, rebuilt);
    const rows a = k->of[buffer];
    kiln_expr index[KILN_RANK_MAX];
    if (!has_rows(a)) return rebuilt;
    const uint32_t rank = kiln_load_index(p, rebuilt, index);
    const kiln_expr at = index[a.axis];
    index[a.axis] = join_numbers(p, outer_number(k, at, a), row_number(k, at, a),
                                 inner_number(k, at, a), ANY_SIZE, a.factor);
    return kiln_expr_load(p, buffer, index, rank);
}

/* The expression over the parts of the iterator of rows, without the size. */
static kiln_expr of_any_size(kernel *k, kiln_expr e, const kiln_expr *replacement) {
    if (e == 0) return 0;
    e = kiln_expr_simplify(k->p, kiln_expr_substitute(k->p, e, replacement), NULL);
    return kiln_expr_rewrite(k->p, e, KILN_USES_LOAD, read_any_size, k);
}

/* `row`: the iterator of rows, which `written` describes; 0: none. */
static void sign_block(kernel *k, kiln_block block, kiln_var row, rows written) {
    kiln_program *p = k->p;
    const kiln_block_info b = p->block.data[block];
    kiln_expr value = b.value, init = b.init;
    kiln_var part[ROW_PARTS] = {0};
    if (row) {
        const int64_t extent[ROW_PARTS] = {written.outer, k->size, written.factor};
        for (uint32_t i = 0; i < ROW_PARTS; i++)
            part[i] = kiln_var_create(p, KILN_STR("row"), 0, extent[i] - 1);
        kiln_expr *replacement = KILN_ARENA_ARRAY(k->arena, kiln_expr, p->var.count);
        replacement[row] = join_numbers(p, kiln_expr_var(p, part[0]), kiln_expr_var(p, part[1]),
                                        kiln_expr_var(p, part[2]), k->size, written.factor);
        value = of_any_size(k, value, replacement);
        init = of_any_size(k, init, replacement);
    }
    hashes h = {p, &b, part, KILN_ARENA_ARRAY(k->arena, uint64_t, p->expr.count)};
    const uint64_t about[] = {b.combiner,
                              b.buffer,
                              b.iter_count,
                              (uint64_t)written.outer,
                              (uint64_t)written.factor,
                              hash_of(&h, value),
                              hash_of(&h, init)};
    mix(k->signature, about, sizeof about);
    for (uint32_t i = 0; i < b.index_count; i++) {
        const uint64_t index = hash_of(&h, b.index[i]);
        mix(k->signature, &index, sizeof index);
    }
    for (uint32_t i = 0; i < b.iter_count; i++) {
        const int64_t extent = b.iter[i].var == row ? -1 : b.iter[i].extent;
        mix(k->signature, &extent, sizeof extent);
    }
}

/* ---- independence ---------------------------------------------------------------------------- */

/* The row that all loads of a block read; false: they differ. 0: they read no rows. */
static bool find_row_read(kernel *k, kiln_block block, kiln_expr *out_row) {
    kiln_loads loads = kiln_block_loads(k->p, block);
    kiln_expr found = 0;
    for (uint32_t i = 0; i < loads.count; i++) {
        const rows a = k->of[kiln_load_buffer(k->p, loads.load[i])];
        kiln_expr index[KILN_RANK_MAX];
        if (!has_rows(a)) continue;
        (void)kiln_load_index(k->p, loads.load[i], index);
        const kiln_expr row = row_number(k, index[a.axis], a);
        if (found && row != found) return false;
        found = row;
    }
    *out_row = found;
    return true;
}

/* Each load of rows reads the next one. */
static kiln_expr read_next_row(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const kernel *k = context;
    (void)e;
    if (kiln_expr_get(p, rebuilt)->op != KILN_EXPR_LOAD) return rebuilt;
    const kiln_buffer buffer = kiln_load_buffer(p, rebuilt);
    const rows a = k->of[buffer];
    kiln_expr index[KILN_RANK_MAX];
    if (!has_rows(a)) return rebuilt;
    const uint32_t rank = kiln_load_index(p, rebuilt, index);
    index[a.axis] = kiln_expr_binary(p, KILN_EXPR_ADD, index[a.axis], kiln_expr_index(p, a.factor));
    return kiln_expr_load(p, buffer, index, rank);
}

/* Whether the expression in the next row is the same with the next row of its operands. */
static bool shifts(kernel *k, kiln_expr e, kiln_var row, int64_t factor) {
    if (e == 0) return true;
    kiln_program *p = k->p;
    const kiln_expr next =
        kiln_expr_binary(p, KILN_EXPR_ADD, kiln_expr_var(p, row), kiln_expr_index(p, factor));
    kiln_expr *replacement = KILN_ARENA_ARRAY(k->arena, kiln_expr, p->var.count);
    replacement[row] = next;
    const kiln_expr moved = kiln_expr_substitute(p, e, replacement);
    const kiln_expr wanted = kiln_expr_rewrite(p, e, KILN_USES_LOAD, read_next_row, k);
    return kiln_expr_simplify(p, moved, NULL) == kiln_expr_simplify(p, wanted, NULL);
}

/* Whether the block's result has the rows `read` as `written` describes, by its iterator alone. */
static bool writes_rows(kernel *k, kiln_block block, rows written, kiln_expr read,
                        kiln_var *out_row) {
    const kiln_block_info b = k->p->block.data[block];
    const kiln_expr_node *index = kiln_expr_get(k->p, b.index[written.axis]);
    const int64_t extent = k->p->buffer.data[b.buffer].shape.dim[written.axis];
    if (index->op != KILN_EXPR_VAR || written.factor == 0 ||
        written.outer * k->size * written.factor != extent)
        return false;
    const kiln_var row = index->payload.id;
    if (row_number(k, b.index[written.axis], written) != read) return false;
    for (uint32_t other = 0; other < b.index_count; other++)
        if (other != written.axis && kiln_expr_uses_var(k->p, b.index[other], row)) return false;
    *out_row = row;
    return shifts(k, b.value, row, written.factor) && shifts(k, b.init, row, written.factor);
}

/* Finds the rows of a block's result: in one piece, or as in its operands. */
static bool find_rows_written(kernel *k, kiln_block block, kiln_expr read, rows *out_written,
                              kiln_var *out_row) {
    const kiln_loads loads = kiln_block_loads(k->p, block);
    const kiln_block_info b = k->p->block.data[block];
    for (uint32_t d = 0; d < b.index_count; d++) {
        *out_written = (rows){d, 1, k->p->buffer.data[b.buffer].shape.dim[d] / k->size};
        if (writes_rows(k, block, *out_written, read, out_row)) return true;
        for (uint32_t i = 0; i < loads.count; i++) {
            *out_written = k->of[kiln_load_buffer(k->p, loads.load[i])];
            if (!has_rows(*out_written) || out_written->outer == 1) continue;
            out_written->axis = d;
            if (writes_rows(k, block, *out_written, read, out_row)) return true;
        }
    }
    return false;
}

static bool follow_block(kernel *k, kiln_block block) {
    kiln_expr read = 0;
    kiln_var row = 0;
    rows written = none;
    if (k->p->block.data[block].removed) return true;
    if (!find_row_read(k, block, &read)) return false;
    if (read && !find_rows_written(k, block, read, &written, &row)) return false;
    k->of[k->p->block.data[block].buffer] = written;
    sign_block(k, block, row, written);
    return true;
}

/* ---- constants ---------------------------------------------------------------------------------
 */

/* Whether all elements of a constant are equal: a state of zeros, whatever its shape. */
static bool is_splat(const kiln_value_info *value) {
    const size_t element = kiln_dtype_size(value->dtype);
    const size_t bytes = (size_t)kiln_shape_count(&value->shape) * element;
    const char *data = value->data;
    return data && bytes >= element && memcmp(data, data + element, bytes - element) == 0;
}

/* Hashes a constant's bytes; of one with equal elements the element, in every shape. */
static void sign_constant(uint64_t *signature, const kiln_value_info *value) {
    if (is_splat(value))
        mix(signature, value->data, kiln_dtype_size(value->dtype));
    else if (value->data)
        mix(signature, &value->hash, sizeof value->hash);
}

/* Of constants of equal elements the first one is read. */
static kiln_expr read_first(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const bool *splat = context; /* [buffer] */
    (void)e;
    if (kiln_expr_get(p, rebuilt)->op != KILN_EXPR_LOAD) return rebuilt;
    const kiln_buffer buffer = kiln_load_buffer(p, rebuilt);
    kiln_expr index[KILN_RANK_MAX];
    if (!splat[buffer]) return rebuilt;
    const uint32_t rank = kiln_load_index(p, rebuilt, index);
    for (uint32_t d = 0; d < rank; d++) index[d] = kiln_expr_index(p, 0);
    return kiln_expr_load(p, buffer, index, rank);
}

static void read_splats(kiln_program *p, bool *splat) {
    for (kiln_block b = 1; b < p->block.count; b++) {
        kiln_block_info *block = &p->block.data[b];
        if (block->removed) continue;
        block->value = kiln_expr_rewrite(p, block->value, KILN_USES_LOAD, read_first, splat);
        if (block->init)
            block->init = kiln_expr_rewrite(p, block->init, KILN_USES_LOAD, read_first, splat);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct walk {
    const kiln_graph *graph;
    const kiln_plan *plan;
    int64_t size;
    rows *of_value;     /* [value] */
    uint64_t signature; /* of everything so far */
    uint32_t tries;     /* of loops' first values, remaining */
} walk;

static bool follow_kernel(walk *w, const kiln_step *step) {
    kiln_arena arena;
    bool independent = true;
    kiln_arena_init(&arena, 0);
    kernel k = {kiln_program_copy(w->plan->tasks.task[step->task].te, &arena), &arena, NULL,
                w->size, &w->signature};
    const kiln_arg_buffers arg = kiln_program_args(k.p);
    bool *splat = KILN_ARENA_ARRAY(&arena, bool, k.p->buffer.count);
    k.of = KILN_ARENA_ARRAY(&arena, rows, k.p->buffer.count);
    for (uint32_t i = 0; i < k.p->buffer.count; i++) k.of[i] = none;
    for (uint32_t i = 0; i < step->read_count; i++) {
        const kiln_value_info *value = &w->graph->value.data[step->arg[i]];
        k.of[arg.buffer[i]] = w->of_value[step->arg[i]];
        splat[arg.buffer[i]] = is_splat(value);
        sign_constant(k.signature, value);
    }
    read_splats(k.p, splat);
    for (kiln_block b = 1; independent && b < k.p->block.count; b++)
        independent = follow_block(&k, b);
    for (uint32_t i = step->read_count; i < step->arg_count; i++)
        w->of_value[step->arg[i]] = k.of[arg.buffer[i]];
    kiln_arena_deinit(&arena);
    return independent;
}

/* The same bytes under another shape: rows have the same number of elements before them. */
static bool follow_alias(const kiln_shape *from, const kiln_shape *to, int64_t size, rows before,
                         rows *out_rows) {
    int64_t outside = before.outer;
    *out_rows = none;
    if (!has_rows(before)) return true;
    for (uint32_t d = 0; d < before.axis; d++) outside *= from->dim[d];
    for (uint32_t d = 0; d < to->rank && outside > 0 && to->dim[d] > 0; d++) {
        if (to->dim[d] % (outside * size) == 0) {
            *out_rows = (rows){d, outside, to->dim[d] / (outside * size)};
            return true;
        }
        if (outside % to->dim[d] != 0) return false;
        outside /= to->dim[d];
    }
    return false;
}

static bool follow_step(walk *w, const kiln_step *step) {
    const kiln_value_info *value = w->graph->value.data;
    const kiln_value *arg = step->arg;
    if (step->kind == KILN_STEP_KERNEL) return follow_kernel(w, step);
    return follow_alias(&value[arg[0]].shape, &value[arg[1]].shape, w->size, w->of_value[arg[0]],
                        &w->of_value[arg[1]]);
}

static bool follow_steps(walk *w, uint32_t first, uint32_t end);

/* ---- loops ----------------------------------------------------------------------------------- */

#define CARRIED_MAX 16u
#define TRIES 1024u /* in a model; mostly the first one works */

/* Both ends, and the assumed axes of rows of their carried values. */
typedef struct loop {
    uint32_t begin_step, end_step;
    const kiln_node_info *begin, *end;
    kiln_loop_info info;
    rows carried[CARRIED_MAX];
} loop;

/* Input of either end that carries a value, or is stacked behind those that do. */
static kiln_value moved(const loop *l, const kiln_node_info *node, uint32_t index) {
    return node->input[1 + l->info.guarded + index];
}

/* Whether the number of iterations is the same for all rows. */
static bool follow_control(walk *w, const loop *l) {
    const kiln_value_info *value = w->graph->value.data;
    const uint32_t begin_inputs = l->begin->input_count, end_inputs = l->end->input_count;
    const int64_t what[] = {l->info.trips, l->info.carried, l->info.guarded, begin_inputs,
                            end_inputs};
    mix(&w->signature, what, sizeof what);
    for (uint32_t i = 0; i <= l->info.guarded; i++) {
        if (has_rows(w->of_value[l->begin->input[i]])) return false;
        sign_constant(&w->signature, &value[l->begin->input[i]]);
    }
    for (uint32_t i = 0; i < begin_inputs + end_inputs; i++) {
        const bool reversed = i < begin_inputs ? kiln_loop_is_reversed(l->begin, i)
                                               : kiln_loop_is_reversed(l->end, i - begin_inputs);
        mix(&w->signature, &reversed, sizeof reversed);
    }
    return l->info.is_constant || l->end->output_count == l->info.carried;
}

/* The rows of a value that the loop iterates over; rows of a batch are no iterations. */
static bool follow_rows_in(walk *w, const loop *l) {
    w->of_value[l->begin->output[0]] = none;
    for (uint32_t i = l->info.carried; i + 1 < l->begin->output_count; i++) {
        const kiln_value from = moved(l, l->begin, i);
        rows axis = w->of_value[from];
        sign_constant(&w->signature, &w->graph->value.data[from]);
        if (has_rows(axis) && axis.axis-- == 0) return false;
        w->of_value[l->begin->output[1 + i]] = axis;
    }
    return true;
}

/* The number-th possible axis of a carried value's rows before the first iteration: that of its
 * first value; for a constant of equal elements any whose extent fits, or none. */
static bool first_axis(const walk *w, const loop *l, uint32_t carried, uint32_t number,
                       rows *out_axis) {
    const kiln_value value = moved(l, l->begin, carried);
    const kiln_value_info *info = &w->graph->value.data[value];
    *out_axis = w->of_value[value];
    if (has_rows(*out_axis) || !is_splat(info)) return number == 0;
    for (uint32_t d = 0; d < info->shape.rank; d++) {
        if (info->shape.dim[d] < w->size || info->shape.dim[d] % w->size != 0 || number-- > 0)
            continue;
        *out_axis = (rows){d, 1, info->shape.dim[d] / w->size};
        return true;
    }
    return number == 0;
}

/* Whether carried values with the rows in `carried` have the same ones after the iteration. */
static bool follow_body(walk *w, const loop *l) {
    for (uint32_t i = 0; i < l->info.carried; i++) {
        w->of_value[l->begin->output[1 + i]] = l->carried[i];
        sign_constant(&w->signature, &w->graph->value.data[moved(l, l->begin, i)]);
        mix(&w->signature, &l->carried[i].axis, sizeof l->carried[i].axis);
        mix(&w->signature, &l->carried[i].factor, sizeof l->carried[i].factor);
    }
    if (!follow_steps(w, l->begin_step + 1, l->end_step)) return false;
    if (l->info.guarded && has_rows(w->of_value[l->end->input[1]])) return false;
    for (uint32_t i = 0; i < l->end->output_count; i++) {
        rows axis = w->of_value[moved(l, l->end, i)];
        if (i < l->info.carried && !is_same(axis, l->carried[i])) return false;
        sign_constant(&w->signature, &w->graph->value.data[moved(l, l->end, i)]);
        if (i >= l->info.carried && has_rows(axis)) axis.axis++;
        w->of_value[l->end->output[i]] = axis;
    }
    return true;
}

/* Tries the axes of carried values from the `index`-th on. */
static bool follow_carried(walk *w, loop *l, uint32_t index) {
    const uint64_t before = w->signature;
    if (index < l->info.carried) {
        for (uint32_t n = 0; w->tries > 0 && first_axis(w, l, index, n, &l->carried[index]); n++)
            if (follow_carried(w, l, index + 1)) return true;
        return false;
    }
    if (w->tries == 0) return false;
    w->tries--;
    if (follow_body(w, l)) return true;
    w->signature = before;
    return false;
}

static bool follow_loop(walk *w, uint32_t step) {
    const kiln_step *begin = &w->plan->step[step], *end = &w->plan->step[begin->partner];
    loop l = {.begin_step = step,
              .end_step = begin->partner,
              .begin = &w->graph->node.data[begin->node],
              .end = &w->graph->node.data[end->node],
              .info = kiln_loop_describe(w->graph, begin->node)};
    return l.info.carried <= CARRIED_MAX && follow_control(w, &l) && follow_rows_in(w, &l) &&
           follow_carried(w, &l, 0);
}

static bool follow_steps(walk *w, uint32_t first, uint32_t end) {
    bool independent = true;
    for (uint32_t s = first; independent && s < end; s++) {
        const bool begins = w->plan->step[s].kind == KILN_STEP_LOOP;
        independent = begins ? follow_loop(w, s) : follow_step(w, &w->plan->step[s]);
        if (begins) s = w->plan->step[s].partner;
    }
    return independent;
}

bool kiln_rows_are_independent(const kiln_graph *graph, const kiln_plan *plan, int64_t size,
                               const kiln_row_axis *input, const kiln_row_axis *output,
                               uint64_t *out_signature) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    walk w = {.graph = graph,
              .plan = plan,
              .size = size,
              .of_value = KILN_ARENA_ARRAY(&arena, rows, graph->value.count),
              .tries = TRIES};
    for (uint32_t v = 0; v < graph->value.count; v++) w.of_value[v] = none;
    for (uint32_t i = 0; i < graph->input.count; i++)
        w.of_value[graph->input.data[i]] = plain_rows(input[i]);
    bool independent = size >= 2 && follow_steps(&w, 0, plan->step_count);
    for (uint32_t i = 0; independent && i < graph->output.count; i++)
        independent = is_same(w.of_value[graph->output.data[i]], plain_rows(output[i]));
    kiln_arena_deinit(&arena);
    if (independent) *out_signature = w.signature;
    return independent;
}
