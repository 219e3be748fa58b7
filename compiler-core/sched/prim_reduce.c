/* rfactor: a reduction in two steps, so that the first can run in lanes. */
#include "compiler-core/ir/affine.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/prim_all.h"

#define LANES_MAX 256

/* The result's shape with a dimension for the parts. */
static kiln_shape parts_shape(const kiln_program *p, kiln_block block, int64_t parts) {
    kiln_shape shape = p->buffer.data[p->block.data[block].buffer].shape;
    shape.dim[shape.rank++] = parts;
    return shape;
}

static kiln_status check_factor(kiln_program *p, const kiln_prim_args *args, uint32_t *out_iter) {
    kiln_block block = args->block;
    const kiln_block_info *b = &p->block.data[block];
    int i = kiln_block_find_iter(p, block, args->text);
    if (i < 0)
        return ILLEGAL("%.*s has no iterator %.*s", BLOCK_NAME(p, block), KILN_STR_ARG(args->text));
    if (!b->iter[i].reduce) return ILLEGAL("%.*s is no reduce iterator", KILN_STR_ARG(args->text));
    kiln_status st = kiln_block_check_whole(p, block);
    if (st) return st;
    if (args->integer[0] < 2 || args->integer[0] > LANES_MAX)
        return ILLEGAL("%lld is not a number of parts", (long long)args->integer[0]);
    if (b->iter_count == KILN_BLOCK_ITERS_MAX || b->index_count == KILN_RANK_MAX)
        return ILLEGAL("%.*s has as many dimensions as there may be", BLOCK_NAME(p, block));
    if (p->buffer.count + 1 >= KILN_PROGRAM_BUFFERS_MAX)
        return ILLEGAL("the program has too many buffers");
    size_t bytes;
    kiln_shape shape = parts_shape(p, block, args->integer[0]);
    kiln_status bad = kiln_shape_bytes(&shape, p->buffer.data[b->buffer].dtype, &bytes);
    bool too_large = bad != NULL;
    kiln_status_free(bad); /* the schedule's message replaces it */
    if (too_large)
        return ILLEGAL("%lld parts of %.*s would be too large", (long long)args->integer[0],
                       BUFFER_NAME(p, b->buffer));
    *out_iter = (uint32_t)i;
    return NULL;
}

/* Iterators of `part` like those of `b`, with `i` as quotient and, after the spatial ones, lane;
 * returns the values of b's iterators in terms of them. */
static kiln_expr *make_iters(kiln_program *p, const kiln_block_info *b, uint32_t i, int64_t lanes,
                             kiln_block part, kiln_expr *out_lane) {
    kiln_expr of[KILN_BLOCK_ITERS_MAX];
    for (int reduce = 0; reduce < 2; reduce++) {
        for (uint32_t k = 0; k < b->iter_count; k++) {
            if (b->iter[k].reduce != reduce) continue;
            bool split = k == i;
            char *name =
                kiln_arena_printf(p->arena, "%.*s%s", KILN_STR_ARG(kiln_iter_name(p, &b->iter[k])),
                                  split ? ".0" : "");
            int64_t extent = split ? (b->iter[k].extent + lanes - 1) / lanes : b->iter[k].extent;
            of[k] = kiln_block_add_iter(p, part, name, extent, reduce);
        }
        if (reduce) break;
        char *name =
            kiln_arena_printf(p->arena, "%.*s.1", KILN_STR_ARG(kiln_iter_name(p, &b->iter[i])));
        *out_lane = kiln_block_add_iter(p, part, name, lanes, false);
    }
    of[i] = kiln_expr_binary(p, KILN_EXPR_ADD,
                             kiln_expr_binary(p, KILN_EXPR_MUL, of[i], kiln_expr_index(p, lanes)),
                             *out_lane);
    kiln_expr *replacement = kiln_nest_replacements(p);
    for (uint32_t k = 0; k < b->iter_count; k++) replacement[b->iter[k].var] = of[k];
    return replacement;
}

static kiln_stmt make_nest(kiln_program *p, kiln_block block) {
    int64_t extent[KILN_BLOCK_ITERS_MAX];
    for (uint32_t k = 0; k < p->block.data[block].iter_count; k++)
        extent[k] = p->block.data[block].iter[k].extent;
    return kiln_block_make_nest(p, block, extent, NULL);
}

/* The remaining block combines the parts over the lanes only. */
static void combine_parts(kiln_program *p, kiln_block block, uint32_t i, int64_t lanes,
                          kiln_buffer parts) {
    kiln_block_info b = p->block.data[block];
    kiln_iter lane = b.iter[i];
    lane.extent = lanes;
    kiln_var_set_range(p, lane.var, 0, lanes - 1);
    uint32_t count = 0;
    for (uint32_t k = 0; k < b.iter_count; k++)
        if (!b.iter[k].reduce) b.iter[count++] = b.iter[k];
    b.iter[count++] = lane;
    b.iter_count = count;
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < b.index_count; d++) index[d] = b.index[d];
    index[b.index_count] = kiln_expr_var(p, lane.var);
    b.value = kiln_expr_load(p, parts, index, b.index_count + 1);
    p->block.data[block] = b;
}

kiln_status kiln_prim_rfactor(kiln_program *p, const kiln_prim_args *args) {
    kiln_block block = args->block;
    int64_t lanes = args->integer[0];
    uint32_t i = 0;
    kiln_status st = check_factor(p, args, &i);
    if (st) return st;
    const kiln_block_info b = p->block.data[block];
    const kiln_buffer_info whole = p->buffer.data[b.buffer];
    kiln_str name = kiln_str_printf(p->arena, "%.*s.part", BLOCK_NAME(p, block));
    kiln_shape shape = parts_shape(p, block, lanes);
    kiln_buffer parts =
        kiln_buffer_create(p, kiln_str_printf(p->arena, "%.*s.part", BUFFER_NAME(p, b.buffer)),
                           whole.dtype, KILN_ROLE_TEMP, &shape);

    kiln_block part = kiln_block_create(p, name);
    kiln_expr lane = 0, index[KILN_RANK_MAX];
    kiln_expr *replacement = make_iters(p, &b, i, lanes, part, &lane);
    kiln_expr along = replacement[b.iter[i].var];
    kiln_expr identity = kiln_expr_identity(p, b.combiner, whole.dtype);
    for (uint32_t d = 0; d < b.index_count; d++)
        index[d] = kiln_expr_substitute(p, b.index[d], replacement);
    index[b.index_count] = lane;
    kiln_expr value = kiln_expr_substitute(p, b.value, replacement);
    if (b.iter[i].extent % lanes != 0)
        value = kiln_expr_select(
            p, kiln_expr_binary(p, KILN_EXPR_LT, along, kiln_expr_index(p, b.iter[i].extent)),
            value, identity);
    kiln_block_set(p, part, parts, index, b.index_count + 1, b.combiner,
                   kiln_expr_simplify(p, value, NULL), identity);
    combine_parts(p, block, i, lanes, parts);

    kiln_stmt old = kiln_program_block_stmt(p, block), parts_nest = make_nest(p, part);
    kiln_nest_insert(p, p->root, kiln_nest_child_towards(p, p->root, old), false, parts_nest);
    kiln_nest_remove(p, old);
    kiln_nest_insert(p, p->root, parts_nest, true, make_nest(p, block));
    st = kiln_dependences_check(p, part);
    return st ? st : kiln_dependences_check(p, block);
}
