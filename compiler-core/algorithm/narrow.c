/* Sums of products whose factors are rounded to fewer bits, and that are added up in f32 as before.
 *
 *     weights   w is stored in halves, rounded once when it is loaded, and widened in registers:
 * half the bytes where reading weights is what takes the time (fully connected layers, recurrent
 * ones) products  x is rounded as well, in a copy: for instructions that multiply halves
 *
 * A factor that is rounded to nearest is off by at most u of itself, u = 2^-8 for bf16 and 2^-11
 * for f16 (whose numbers below 2^-14 are off by up to 2^-25, which is nothing beside the others of
 * a sum). So a sum is off by u * sum|a*b| for each factor that is rounded: the row's error factor
 * is how many of a product's are (kiln_algorithm_error_factor). */
#include "compiler-core/algorithm/narrow.h"

#include <string.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"

typedef struct form {
    kiln_dtype dtype;
    bool both; /* factors are rounded */
} form;

static bool is_plain_load(const kiln_program *p, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    return node->op == KILN_EXPR_LOAD && node->dtype == KILN_F32;
}

static bool is_weight(const kiln_program *p, kiln_expr e) {
    return is_plain_load(p, e) &&
           p->buffer.data[kiln_expr_get(p, e)->payload.id].role == KILN_ROLE_CONSTANT;
}

double kiln_narrow_reads(const kiln_program *p, kiln_block block, kiln_expr load) {
    const kiln_block_info *b = &p->block.data[block];
    double reads = 1;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce && !kiln_expr_uses_var(p, load, b->iter[i].var))
            reads *= (double)b->iter[i].extent;
    return reads;
}

bool kiln_narrow_finds(const kiln_program *p, kiln_block block, uint32_t *out_weight) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_expr_node *value = kiln_expr_get(p, b->value);
    if (b->removed || b->combiner != KILN_COMBINE_SUM || value->op != KILN_EXPR_MUL ||
        value->dtype != KILN_F32)
        return false;
    kiln_expr factor[] = {kiln_expr_operand(p, b->value, 0), kiln_expr_operand(p, b->value, 1)};
    *out_weight = is_weight(p, factor[1]);
    return is_weight(p, factor[*out_weight]) && !is_weight(p, factor[1 - *out_weight]) &&
           is_plain_load(p, factor[1 - *out_weight]);
}

static bool match(const kiln_program *p, kiln_block block, const form *f, uint32_t *out_weight) {
    return kiln_narrow_finds(p, block, out_weight) &&
           (f->both || kiln_narrow_reads(p, block,
                                         kiln_expr_operand(p, p->block.data[block].value,
                                                           *out_weight)) <= KILN_NARROW_READS_MAX);
}

void kiln_narrow_move_before(kiln_program *p, kiln_block block, kiln_block first) {
    const uint32_t added = p->block.count - first;
    kiln_block_info *moved =
        kiln_arena_copy(p->arena, &p->block.data[first], added * sizeof *moved);
    memmove(&p->block.data[block + added], &p->block.data[block],
            (first - block) * sizeof p->block.data[0]);
    memcpy(&p->block.data[block], moved, added * sizeof *moved);
}

/* A block in front of `block`, which moves up by one, that rounds the whole buffer. */
static kiln_buffer add_rounded(kiln_program *p, kiln_block block, kiln_buffer from,
                               const char *suffix, kiln_dtype dtype) {
    const kiln_shape shape = p->buffer.data[from].shape;
    kiln_str name =
        kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(p->block.data[block].name), suffix);
    kiln_buffer to = kiln_buffer_create(p, name, dtype, KILN_ROLE_TEMP, &shape);
    kiln_block made = kiln_block_create(p, name);
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < shape.rank; i++)
        index[i] = kiln_block_add_iter(p, made, kiln_arena_printf(p->arena, "i%u", i), shape.dim[i],
                                       false);
    kiln_expr value = kiln_expr_cast(p, dtype, kiln_expr_load(p, from, index, shape.rank));
    kiln_block_set(p, made, to, index, shape.rank, KILN_COMBINE_NONE, value, 0);
    kiln_narrow_move_before(p, block, made);
    return to;
}

static kiln_expr rounded_load(kiln_program *p, kiln_expr load, kiln_buffer rounded) {
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = kiln_expr_get(p, load)->operand_count;
    for (uint32_t i = 0; i < rank; i++) index[i] = kiln_expr_operand(p, load, i);
    return kiln_expr_cast(p, KILN_F32, kiln_expr_load(p, rounded, index, rank));
}

static kiln_block narrow_block(kiln_program *p, kiln_block block, const form *f, uint32_t weight) {
    static const char *const suffix[] = {"data", "weights"};
    kiln_expr factor[2];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(factor); i++) {
        const bool is_weights = i == weight;
        factor[i] = kiln_expr_operand(p, p->block.data[block].value, i);
        if (!is_weights && !f->both) continue;
        const kiln_buffer from = kiln_expr_get(p, factor[i])->payload.id;
        kiln_buffer rounded = add_rounded(p, block++, from, suffix[is_weights], f->dtype);
        factor[i] = rounded_load(p, factor[i], rounded);
    }
    p->block.data[block].value = kiln_expr_binary(p, KILN_EXPR_MUL, factor[0], factor[1]);
    return block;
}

static kiln_program *apply(const form *f, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    bool found = false;
    for (kiln_block block = 1; block < p->block.count; block++) {
        uint32_t weight = 0;
        if (!match(p, block, f, &weight)) continue;
        block = narrow_block(p, block, f, weight);
        found = true;
    }
    return found ? p : NULL;
}

kiln_program *kiln_bf16_weights(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){KILN_BF16, false}, te, arena);
}

kiln_program *kiln_f16_weights(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){KILN_F16, false}, te, arena);
}

kiln_program *kiln_bf16_products(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){KILN_BF16, true}, te, arena);
}
