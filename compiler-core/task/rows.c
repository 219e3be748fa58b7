#include "compiler-core/task/rows.h"

#include <string.h>

#include "base/hash.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/eval.h"

static const kiln_row_axis none = {.axis = KILN_ROWS_NONE};

static bool has_rows(kiln_row_axis a) { return a.axis != KILN_ROWS_NONE; }

/* A program of one step, and where its buffers have rows. */
typedef struct kernel {
    kiln_program *p;
    kiln_arena *arena;
    kiln_row_axis *of; /* [buffer] */
    int64_t size;
    uint64_t *signature; /* of everything so far */
} kernel;

static void mix(uint64_t *signature, const void *data, size_t size) {
    *signature = kiln_hash64(data, size, *signature);
}

/* ---- what a block computes ------------------------------------------------------------------- */

/* Hashes of a block's expressions, with iterators by their number and the rest by its structure. */
typedef struct hashes {
    const kiln_program *p;
    const kiln_block_info *block;
    uint64_t *of; /* [expr]; 0: not yet */
} hashes;

static uint64_t number_of(const hashes *h, kiln_var var) {
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

/* `row`: the iterator of rows, whose extent is the size's. */
static void sign_block(kernel *k, kiln_block block, kiln_var row) {
    const kiln_block_info *b = &k->p->block.data[block];
    hashes h = {k->p, b, KILN_ARENA_ARRAY(k->arena, uint64_t, k->p->expr.count)};
    uint64_t part[] = {b->combiner, b->buffer, b->iter_count, hash_of(&h, b->value),
                       hash_of(&h, b->init)};
    mix(k->signature, part, sizeof part);
    for (uint32_t i = 0; i < b->index_count; i++) {
        const uint64_t index = hash_of(&h, b->index[i]);
        mix(k->signature, &index, sizeof index);
    }
    for (uint32_t i = 0; i < b->iter_count; i++) {
        const int64_t extent = b->iter[i].var == row ? -1 : b->iter[i].extent;
        mix(k->signature, &extent, sizeof extent);
    }
}

/* ---- independence ---------------------------------------------------------------------------- */

static kiln_expr row_number(kiln_program *p, kiln_expr index, int64_t factor) {
    const kiln_expr divided =
        factor == 1 ? index
                    : kiln_expr_binary(p, KILN_EXPR_FLOORDIV, index, kiln_expr_index(p, factor));
    return kiln_expr_simplify(p, divided, NULL);
}

/* The row that all loads of a block read; false: they differ. 0: they read no rows. */
static bool find_row_read(kernel *k, kiln_block block, kiln_expr *out_row) {
    kiln_loads loads = kiln_block_loads(k->p, block);
    kiln_expr found = 0;
    for (uint32_t i = 0; i < loads.count; i++) {
        const kiln_row_axis a = k->of[kiln_load_buffer(k->p, loads.load[i])];
        kiln_expr index[KILN_RANK_MAX];
        if (!has_rows(a)) continue;
        (void)kiln_load_index(k->p, loads.load[i], index);
        const kiln_expr row = row_number(k->p, index[a.axis], a.factor);
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
    const kiln_row_axis a = k->of[buffer];
    kiln_expr index[KILN_RANK_MAX];
    if (!has_rows(a)) return rebuilt;
    const uint32_t rank = kiln_load_index(p, rebuilt, index);
    index[a.axis] = kiln_expr_binary(p, KILN_EXPR_ADD, index[a.axis], kiln_expr_index(p, a.factor));
    return kiln_expr_load(p, buffer, index, rank);
}

/* Whether the expression in the next row is the same on the next row of what it reads. */
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

/* Whether axis `d` of what the block writes has the rows `read`, with its iterator alone. */
static bool writes_rows(kernel *k, kiln_block block, uint32_t d, kiln_expr read,
                        kiln_row_axis *out_axis, kiln_var *out_row) {
    const kiln_block_info b = k->p->block.data[block];
    const kiln_expr_node *index = kiln_expr_get(k->p, b.index[d]);
    const int64_t extent = k->p->buffer.data[b.buffer].shape.dim[d], factor = extent / k->size;
    if (index->op != KILN_EXPR_VAR || factor == 0 || extent % k->size != 0) return false;
    const kiln_var row = index->payload.id;
    if (row_number(k->p, b.index[d], factor) != read) return false;
    for (uint32_t other = 0; other < b.index_count; other++)
        if (other != d && kiln_expr_uses_var(k->p, b.index[other], row)) return false;
    if (!shifts(k, b.value, row, factor) || !shifts(k, b.init, row, factor)) return false;
    *out_axis = (kiln_row_axis){d, factor};
    *out_row = row;
    return true;
}

static bool follow_block(kernel *k, kiln_block block) {
    const kiln_block_info *b = &k->p->block.data[block];
    const kiln_buffer buffer = b->buffer;
    const uint32_t rank = b->index_count;
    kiln_expr read = 0;
    kiln_var row = 0;
    bool found = false;
    if (b->removed) return true;
    if (!find_row_read(k, block, &read)) return false;
    for (uint32_t d = 0; read && !found && d < rank; d++)
        found = writes_rows(k, block, d, read, &k->of[buffer], &row);
    sign_block(k, block, row);
    return found || !read;
}

static bool follow_kernel(const kiln_graph *graph, const kiln_step *step, const kiln_program *te,
                          int64_t size, kiln_row_axis *of_value, uint64_t *signature) {
    kiln_arena arena;
    bool independent = true;
    kiln_arena_init(&arena, 0);
    kernel k = {kiln_program_copy(te, &arena), &arena, NULL, size, signature};
    const kiln_arg_buffers arg = kiln_program_args(k.p);
    k.of = KILN_ARENA_ARRAY(&arena, kiln_row_axis, k.p->buffer.count);
    for (uint32_t i = 0; i < k.p->buffer.count; i++) k.of[i] = none;
    for (uint32_t i = 0; i < step->read_count; i++) {
        const kiln_value_info *value = &graph->value.data[step->arg[i]];
        k.of[arg.buffer[i]] = of_value[step->arg[i]];
        if (value->data) mix(signature, &value->hash, sizeof value->hash);
    }
    for (kiln_block b = 1; independent && b < k.p->block.count; b++)
        independent = follow_block(&k, b);
    for (uint32_t i = step->read_count; i < step->arg_count; i++)
        of_value[step->arg[i]] = k.of[arg.buffer[i]];
    kiln_arena_deinit(&arena);
    return independent;
}

/* The same bytes under another shape: rows are where as much stands before them. */
static bool follow_alias(const kiln_shape *from, const kiln_shape *to, int64_t size,
                         kiln_row_axis rows, kiln_row_axis *out_rows) {
    int64_t before = 1, outer = 1;
    *out_rows = none;
    if (!has_rows(rows)) return true;
    for (uint32_t d = 0; d < rows.axis; d++) before *= from->dim[d];
    for (uint32_t d = 0; d < to->rank && outer <= before; d++) {
        if (outer == before && to->dim[d] % size == 0) {
            *out_rows = (kiln_row_axis){d, to->dim[d] / size};
            return true;
        }
        outer *= to->dim[d];
    }
    return false;
}

static bool follow_step(const kiln_graph *graph, const kiln_plan *plan, const kiln_step *step,
                        int64_t size, kiln_row_axis *of_value, uint64_t *signature) {
    switch (step->kind) {
    case KILN_STEP_KERNEL:
        return follow_kernel(graph, step, plan->tasks.task[step->task].te, size, of_value,
                             signature);
    case KILN_STEP_ALIAS:
        return follow_alias(&graph->value.data[step->arg[0]].shape,
                            &graph->value.data[step->arg[1]].shape, size, of_value[step->arg[0]],
                            &of_value[step->arg[1]]);
    case KILN_STEP_LOOP:
    case KILN_STEP_LOOP_END: break;
    }
    return false;
}

bool kiln_rows_are_independent(const kiln_graph *graph, const kiln_plan *plan, int64_t size,
                               const kiln_row_axis *input, const kiln_row_axis *output,
                               uint64_t *out_signature) {
    kiln_arena arena;
    uint64_t signature = 0;
    bool independent = size >= 2;
    kiln_arena_init(&arena, 0);
    kiln_row_axis *of_value = KILN_ARENA_ARRAY(&arena, kiln_row_axis, graph->value.count);
    for (uint32_t v = 0; v < graph->value.count; v++) of_value[v] = none;
    for (uint32_t i = 0; i < graph->input.count; i++) of_value[graph->input.data[i]] = input[i];
    for (uint32_t s = 0; independent && s < plan->step_count; s++)
        independent = follow_step(graph, plan, &plan->step[s], size, of_value, &signature);
    for (uint32_t i = 0; independent && i < graph->output.count; i++) {
        const kiln_row_axis found = of_value[graph->output.data[i]];
        independent =
            found.axis == output[i].axis && (!has_rows(found) || found.factor == output[i].factor);
    }
    kiln_arena_deinit(&arena);
    if (independent) *out_signature = signature;
    return independent;
}
