/* Sums of products whose factors are rounded to fewer bits, and that are added up in f32 as before.
 *
 *     weights:  w is stored in halves, rounded once when it is loaded, and widened in registers:
 *               half the bytes where reading weights is what takes the time (fully connected
 *               layers, recurrent ones)
 *     products: x is rounded as well, for instructions that multiply halves: in the copy that pads
 *     it, or in a separate one, unless it lies in memory as halves already. Steps that
 *               are no multiple of what an instruction takes are padded with zeros in both. FMLAL
 *               multiplies f16, one step at a time
 *     data:     the same for products of two values that are both computed at run time
 *               (attention's scores and its sums of values)
 *
 * A factor that is rounded to nearest has a relative error of at most u, u = 2^-8 for bf16 and
 * 2^-11 for f16 (numbers below 2^-14 have errors of up to 2^-25, which is negligible in a sum). So
 * the error of a sum is u * sum|a*b| for each rounded factor: the row's error factor is the number
 * of rounded factors of a product (kiln_algorithm_error_factor). */
#include "compiler-core/algorithm/narrow.h"

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/algorithm/steps.h"
#include "compiler-core/algorithm/sums.h"

#define STEPS 2 /* of dot products of halves */

typedef struct form {
    kiln_dtype dtype;
    bool both; /* factors are rounded */
    bool data; /* neither factor is a weight */
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

static bool sums_products(const kiln_program *p, kiln_block block) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_expr_node *value = kiln_expr_get(p, b->value);
    return !b->removed && b->combiner == KILN_COMBINE_SUM && value->op == KILN_EXPR_MUL &&
           value->dtype == KILN_F32;
}

bool kiln_narrow_finds(const kiln_program *p, kiln_block block, uint32_t *out_weight) {
    const kiln_block_info *b = &p->block.data[block];
    if (!sums_products(p, block)) return false;
    kiln_expr factor[] = {kiln_expr_operand(p, b->value, 0), kiln_expr_operand(p, b->value, 1)};
    *out_weight = is_weight(p, factor[1]);
    return is_weight(p, factor[*out_weight]) && !is_weight(p, factor[1 - *out_weight]) &&
           is_plain_load(p, factor[1 - *out_weight]);
}

/* Products of two different values, neither of which is a weight. */
static bool multiplies_data(const kiln_program *p, kiln_block block) {
    if (!sums_products(p, block)) return false;
    const kiln_expr a = kiln_expr_operand(p, p->block.data[block].value, 0),
                    b = kiln_expr_operand(p, p->block.data[block].value, 1);
    return is_plain_load(p, a) && is_plain_load(p, b) && !is_weight(p, a) && !is_weight(p, b) &&
           kiln_expr_get(p, a)->payload.id != kiln_expr_get(p, b)->payload.id;
}

static bool match(const kiln_program *p, kiln_block block, const form *f, uint32_t *out_weight) {
    if (!(f->data ? multiplies_data(p, block) : kiln_narrow_finds(p, block, out_weight)))
        return false;
    const kiln_expr weight = kiln_expr_operand(p, p->block.data[block].value, *out_weight),
                    data = kiln_expr_operand(p, p->block.data[block].value, 1 - *out_weight);
    return f->both ? kiln_steps_find(p, block, data, weight, STEPS).extent > 0
                   : kiln_narrow_reads(p, block, weight) <= KILN_NARROW_READS_MAX;
}

/* ---- existing halves ------------------------------------------------------------------- */

/* The buffer of halves whose widened elements `buffer` holds; 0: there is none. */
static kiln_buffer narrow_source(const kiln_program *p, kiln_buffer buffer, kiln_dtype dtype) {
    const kiln_block producer = kiln_program_producer(p, buffer);
    const kiln_block_info *b = &p->block.data[producer];
    if (!producer || b->combiner != KILN_COMBINE_NONE ||
        kiln_expr_get(p, b->value)->op != KILN_EXPR_CAST)
        return 0;
    const kiln_expr load = kiln_expr_operand(p, b->value, 0);
    const kiln_expr_node *from = kiln_expr_get(p, load);
    if (from->op != KILN_EXPR_LOAD || from->dtype != dtype ||
        !kiln_shape_equal(&p->buffer.data[from->payload.id].shape, &p->buffer.data[buffer].shape))
        return 0;
    for (uint32_t i = 0; i < from->operand_count; i++)
        if (kiln_expr_operand(p, load, i) != b->index[i]) return 0;
    return from->payload.id;
}

static kiln_expr load_instead(kiln_program *p, kiln_expr load, kiln_buffer buffer) {
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = kiln_expr_get(p, load)->operand_count;
    for (uint32_t i = 0; i < rank; i++) index[i] = kiln_expr_operand(p, load, i);
    return kiln_expr_load(p, buffer, index, rank);
}

/* `e` rounded: a widened value is replaced by its halves. */
static kiln_expr rounded(kiln_program *p, kiln_expr e, kiln_dtype dtype) {
    const kiln_expr_node node = *kiln_expr_get(p, e);
    const kiln_buffer source =
        node.op == KILN_EXPR_LOAD ? narrow_source(p, node.payload.id, dtype) : 0;
    if (source) return load_instead(p, e, source);
    if (node.op == KILN_EXPR_SELECT) {
        const kiln_expr then = rounded(p, kiln_expr_operand(p, e, 1), dtype),
                        other = rounded(p, kiln_expr_operand(p, e, 2), dtype);
        return kiln_expr_select(p, kiln_expr_operand(p, e, 0), then, other);
    }
    return kiln_expr_cast(p, dtype, e);
}

typedef struct reader {
    kiln_buffer buffer;
    bool found;
} reader;

static void look_at_load(kiln_program *p, kiln_expr load, void *context) {
    reader *r = context;
    r->found |= kiln_expr_get(p, load)->payload.id == r->buffer;
}

/* Whether a block other than `block` (0: any block) reads the buffer. */
static bool is_read(kiln_program *p, kiln_buffer buffer, kiln_block block) {
    reader r = {.buffer = buffer};
    for (kiln_block b = 1; b < p->block.count; b++)
        if (b != block && !p->block.data[b].removed)
            kiln_expr_visit_loads(p, p->block.data[b].value, 0, look_at_load, &r);
    return r.found;
}

/* Makes the copy that pads the data write halves, if it has no other reader; 0: there is no such
 * copy. */
static kiln_buffer round_copy(kiln_program *p, kiln_block block, kiln_buffer data,
                              kiln_dtype dtype) {
    const kiln_block copy = kiln_program_producer(p, data);
    if (!copy || p->buffer.data[data].role != KILN_ROLE_TEMP || is_read(p, data, block) ||
        kiln_expr_get(p, p->block.data[copy].value)->op != KILN_EXPR_SELECT)
        return 0;
    const kiln_shape shape = p->buffer.data[data].shape;
    const kiln_str name =
        kiln_str_printf(p->arena, "%.*s.data", KILN_STR_ARG(p->block.data[block].name));
    const kiln_buffer to = kiln_buffer_create(p, name, dtype, KILN_ROLE_TEMP, &shape);
    const kiln_expr value = rounded(p, p->block.data[copy].value, dtype);
    p->block.data[copy].value = value;
    p->block.data[copy].buffer = to;
    return to;
}

/* ---- new halves -------------------------------------------------------------------- */

/* A block before `block`, which moves up by one, that rounds the whole buffer; `extent`: new extent
 * of dimension `dim`, padded with zeros; 0: unchanged. */
static kiln_buffer add_rounded(kiln_program *p, kiln_block block, kiln_buffer from,
                               const char *suffix, kiln_dtype dtype, uint32_t dim, int64_t extent) {
    kiln_shape shape = p->buffer.data[from].shape;
    const int64_t elements = shape.dim[dim];
    kiln_str name =
        kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(p->block.data[block].name), suffix);
    if (extent) shape.dim[dim] = extent;
    kiln_buffer to = kiln_buffer_create(p, name, dtype, KILN_ROLE_TEMP, &shape);
    kiln_block made = kiln_block_create(p, name);
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < shape.rank; i++)
        index[i] = kiln_block_add_iter(p, made, kiln_arena_printf(p->arena, "i%u", i), shape.dim[i],
                                       false);
    kiln_expr value = rounded(p, kiln_expr_load(p, from, index, shape.rank), dtype);
    if (extent) value = kiln_steps_or_zero(p, value, index[dim], elements);
    kiln_block_set(p, made, to, index, shape.rank, KILN_COMBINE_NONE, value, 0);
    kiln_blocks_put_around(p, block, 1, 0);
    return to;
}

/* Removes widening blocks that have no reader any more. */
static void drop_unread(kiln_program *p) {
    for (kiln_block b = 1; b < p->block.count; b++) {
        const kiln_buffer to = p->block.data[b].buffer;
        if (p->buffer.data[to].role == KILN_ROLE_TEMP && !is_read(p, to, 0))
            p->block.data[b].removed = true;
    }
}

static kiln_block narrow_block(kiln_program *p, kiln_block block, const form *f, uint32_t weight) {
    const char *const suffix[] = {"data", f->data ? "others" : "weights"};
    const kiln_steps none = {.padded = -1};
    kiln_expr factor[2];
    for (uint32_t i = 0; i < 2; i++)
        factor[i] = kiln_expr_operand(p, p->block.data[block].value, i);
    const kiln_steps steps =
        f->both ? kiln_steps_find(p, block, factor[1 - weight], factor[weight], STEPS) : none;
    const bool pads = steps.padded >= 0;
    for (uint32_t i = 0; i < 2; i++) {
        const bool is_weights = i == weight;
        const kiln_buffer from = kiln_expr_get(p, factor[i])->payload.id;
        if (!is_weights && !f->both) continue;
        kiln_buffer narrow = pads ? 0 : narrow_source(p, from, f->dtype);
        if (!narrow && !pads) narrow = round_copy(p, block, from, f->dtype);
        if (!narrow)
            narrow = add_rounded(p, block++, from, suffix[is_weights], f->dtype,
                                 is_weights ? steps.weights_dim : steps.data_dim,
                                 pads ? steps.extent : 0);
        factor[i] = kiln_expr_cast(p, KILN_F32, load_instead(p, factor[i], narrow));
    }
    kiln_steps_extend(p, block, &steps);
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
    if (found) drop_unread(p);
    return found ? p : NULL;
}

kiln_program *kiln_bf16_weights(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){.dtype = KILN_BF16}, te, arena);
}

kiln_program *kiln_f16_weights(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){.dtype = KILN_F16}, te, arena);
}

kiln_program *kiln_bf16_products(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){.dtype = KILN_BF16, .both = true}, te, arena);
}

kiln_program *kiln_f16_products(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){.dtype = KILN_F16, .both = true}, te, arena);
}

kiln_program *kiln_bf16_data(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){.dtype = KILN_BF16, .both = true, .data = true}, te, arena);
}
