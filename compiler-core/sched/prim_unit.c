/* unit_product: widens a block's bytes by a product, for machines that turn bytes into words only
 * by products of tiles. */
#include "compiler-core/ir/affine.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/prim_all.h"

#define UNIT_SIZE_MAX 256
#define UNIT_SHIFT_MAX 6 /* 1 << 7 is no i8 */

/* The expression that the product replaces: i32(load), or that shifted left. */
typedef struct widening {
    kiln_expr load, cast, whole;
    int64_t shift;
    uint32_t iter, dim; /* of the block, and of the buffer that it steps along */
} widening;

/* Finds the load of the buffer, its widening cast, and the shift of that. */
static kiln_expr find_widening(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    widening *w = context;
    const kiln_expr_node *node = kiln_expr_get(p, e);
    int64_t shift;
    if (node->op == KILN_EXPR_CAST && node->dtype == KILN_I32 &&
        kiln_expr_operand(p, e, 0) == w->load)
        w->cast = w->whole = e;
    if (node->op == KILN_EXPR_SHL && w->cast && kiln_expr_operand(p, e, 0) == w->cast &&
        kiln_expr_as_int(p, kiln_expr_operand(p, e, 1), &shift) && shift >= 0 &&
        shift <= UNIT_SHIFT_MAX) {
        w->whole = e;
        w->shift = shift;
    }
    return rebuilt;
}

static kiln_status find_load(kiln_program *p, const kiln_prim_args *args, widening *w) {
    const kiln_loads loads = kiln_block_loads(p, args->block);
    for (uint32_t k = 0; k < loads.count; k++) {
        if (kiln_load_buffer(p, loads.load[k]) != args->buffer) continue;
        if (w->load)
            return ILLEGAL("%.*s reads several elements of %.*s at a time",
                           BLOCK_NAME(p, args->block), BUFFER_NAME(p, args->buffer));
        w->load = loads.load[k];
    }
    if (!w->load)
        return ILLEGAL("%.*s does not read %.*s", BLOCK_NAME(p, args->block),
                       BUFFER_NAME(p, args->buffer));
    (void)kiln_expr_rewrite(p, p->block.data[args->block].value, 0, find_widening, w);
    if (p->buffer.data[args->buffer].dtype != KILN_I8 || !w->cast)
        return ILLEGAL("%.*s does not widen bytes of %.*s to i32", BLOCK_NAME(p, args->block),
                       BUFFER_NAME(p, args->buffer));
    return NULL;
}

/* The dimension along which whole tiles of the unit matrix lie. */
static kiln_status find_dim(kiln_program *p, const kiln_prim_args *args, widening *w) {
    kiln_expr index[KILN_RANK_MAX];
    const int64_t size = args->integer[0];
    const int i = kiln_block_find_iter(p, args->block, args->text);
    if (i < 0)
        return ILLEGAL("%.*s has no iterator %.*s", BLOCK_NAME(p, args->block),
                       KILN_STR_ARG(args->text));
    const kiln_iter *iter = &p->block.data[args->block].iter[i];
    uint32_t used = 0;
    const uint32_t rank = kiln_load_index(p, w->load, index);
    for (uint32_t d = 0; d < rank; d++) {
        const kiln_interval range = kiln_expr_bounds(p, index[d], NULL);
        if (range.low < 0 || range.high >= p->buffer.data[args->buffer].shape.dim[d])
            return ILLEGAL("%.*s may read outside of %.*s", BLOCK_NAME(p, args->block),
                           BUFFER_NAME(p, args->buffer));
        if (!kiln_expr_uses_var(p, index[d], iter->var)) continue;
        used++;
        if (kiln_block_iter_of(p, args->block, index[d]) == i) w->dim = d;
    }
    if (used != 1 || kiln_block_iter_of(p, args->block, index[w->dim]) != i || iter->reduce)
        return ILLEGAL("%.*s is no plain index of %.*s", KILN_STR_ARG(args->text),
                       BUFFER_NAME(p, args->buffer));
    if (size < 1 || size > UNIT_SIZE_MAX || iter->extent % size != 0)
        return ILLEGAL("%lld is no size of a unit matrix for the %lld elements along %.*s",
                       (long long)size, (long long)iter->extent, KILN_STR_ARG(args->text));
    w->iter = (uint32_t)i;
    return NULL;
}

/* Block "u.ones": 1 << shift where row and column are equal. Returns its buffer. */
static kiln_buffer make_unit_matrix(kiln_program *p, kiln_str name, int64_t size, int64_t shift,
                                    kiln_stmt before) {
    const kiln_shape shape = {.rank = 2, .dim = {size, size}};
    const kiln_buffer ones = kiln_buffer_create(p, name, KILN_I8, KILN_ROLE_TEMP, &shape);
    const kiln_block block = kiln_block_create(p, name);
    const kiln_expr index[2] = {kiln_block_add_iter(p, block, "i", size, false),
                                kiln_block_add_iter(p, block, "j", size, false)};
    const kiln_expr same = kiln_expr_binary(p, KILN_EXPR_EQ, index[0], index[1]);
    kiln_block_set(p, block, ones, index, 2, KILN_COMBINE_NONE,
                   kiln_expr_select(p, same, kiln_expr_int(p, KILN_I8, INT64_C(1) << shift),
                                    kiln_expr_int(p, KILN_I8, 0)),
                   0);
    kiln_nest_insert(p, p->root, before, false, kiln_block_make_nest(p, block, shape.dim, NULL));
    return ones;
}

/* sum over j of u[.., t / size * size + j, ..] * ones[t % size, j] is u[.., t, ..] << shift. */
kiln_status kiln_prim_unit_product(kiln_program *p, const kiln_prim_args *args) {
    widening w = {0};
    const int64_t size = args->integer[0];
    if (p->buffer.count + 2 >= KILN_PROGRAM_BUFFERS_MAX)
        return ILLEGAL("the program has too many buffers");
    kiln_status st = find_load(p, args, &w);
    if (!st) st = find_dim(p, args, &w);
    if (st) return st;
    const kiln_block_info b = p->block.data[args->block];
    const kiln_str name = kiln_str_printf(p->arena, "%.*s.unit", BUFFER_NAME(p, args->buffer)),
                   ones_name = kiln_str_printf(p->arena, "%.*s.ones", BUFFER_NAME(p, args->buffer));
    const kiln_block product = kiln_block_create(p, name);
    kiln_expr own[KILN_RANK_MAX], theirs[KILN_RANK_MAX], index[KILN_RANK_MAX], along = 0;
    kiln_shape shape = {.rank = 0};
    int64_t extent[KILN_BLOCK_ITERS_MAX];
    kiln_var replaced[KILN_RANK_MAX];
    for (uint32_t i = 0; i < b.iter_count; i++) {
        if (!kiln_expr_uses_var(p, w.load, b.iter[i].var)) continue;
        if (b.iter[i].reduce || shape.rank == KILN_RANK_MAX)
            return ILLEGAL("%.*s reads %.*s by an iterator that reduces, or by too many",
                           BLOCK_NAME(p, args->block), BUFFER_NAME(p, args->buffer));
        theirs[shape.rank] = kiln_expr_var(p, b.iter[i].var);
        replaced[shape.rank] = b.iter[i].var;
        own[shape.rank] =
            kiln_block_add_iter(p, product, kiln_str_dup(p->arena, kiln_iter_name(p, &b.iter[i])),
                                b.iter[i].extent, false);
        if (i == w.iter) along = own[shape.rank];
        extent[shape.rank] = shape.dim[shape.rank] = b.iter[i].extent;
        shape.rank++;
    }
    const kiln_expr step = kiln_block_add_iter(p, product, "unit", size, true),
                    tile = kiln_expr_index(p, size);
    extent[shape.rank] = size;
    kiln_expr *replacement = kiln_nest_replacements(p);
    for (uint32_t d = 0; d < shape.rank; d++) replacement[replaced[d]] = own[d];
    const uint32_t rank = kiln_load_index(p, w.load, index);
    for (uint32_t d = 0; d < rank; d++) index[d] = kiln_expr_substitute(p, index[d], replacement);
    index[w.dim] = kiln_expr_binary(
        p, KILN_EXPR_ADD,
        kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_binary(p, KILN_EXPR_FLOORDIV, along, tile),
                         tile),
        step);

    const kiln_stmt at =
        kiln_nest_child_towards(p, p->root, kiln_program_block_stmt(p, args->block));
    const kiln_buffer ones = make_unit_matrix(p, ones_name, size, w.shift, at);
    const kiln_buffer widened = kiln_buffer_create(p, name, KILN_I32, KILN_ROLE_TEMP, &shape);
    const kiln_expr row[2] = {kiln_expr_binary(p, KILN_EXPR_FLOORMOD, along, tile), step};
    const kiln_expr term = kiln_expr_binary(
        p, KILN_EXPR_MUL, kiln_expr_cast(p, KILN_I32, kiln_expr_load(p, args->buffer, index, rank)),
        kiln_expr_cast(p, KILN_I32, kiln_expr_load(p, ones, row, 2)));
    kiln_block_set(p, product, widened, own, shape.rank, KILN_COMBINE_SUM, term, 0);
    kiln_nest_insert(p, p->root, at, false, kiln_block_make_nest(p, product, extent, NULL));
    const kiln_expr there = kiln_expr_load(p, widened, theirs, shape.rank),
                    value = kiln_expr_replace(p, b.value, w.whole, there);
    p->block.data[args->block].value = value;
    return kiln_dependences_check(p, product);
}
