/* Primitives that change a block's iterators, or its operands' dimensions to match them: merge,
 * gather. */
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/prim_all.h"

#define MERGED_EXTENT_MAX INT32_MAX

/* ---- merge ---- */

typedef struct merging {
    uint32_t count;                       /* of iterators, */
    uint32_t iter[KILN_BLOCK_ITERS_MAX];  /* outermost first */
    kiln_var old[KILN_BLOCK_ITERS_MAX];   /* and their variables */
    int64_t stride[KILN_BLOCK_ITERS_MAX]; /* in the one that they become, */
    int64_t extent;
    kiln_var var;     /* which is this */
    kiln_expr *digit; /* each iterator's old value, for kiln_expr_substitute */
} merging;

static bool is_merged(const merging *m, uint32_t iter) {
    for (uint32_t k = 0; k < m->count; k++)
        if (m->iter[k] == iter) return true;
    return false;
}

static kiln_status find_merged(kiln_program *p, const kiln_prim_args *args, merging *m) {
    const kiln_block_info *b = &p->block.data[args->block];
    for (kiln_str rest = args->text; rest.size > 0;) {
        const size_t comma = kiln_str_find_char(rest, ',');
        const kiln_str name = kiln_str_slice(rest, 0, comma);
        const int i = kiln_block_find_iter(p, args->block, name);
        if (i < 0)
            return ILLEGAL("%.*s has no iterator %.*s", BLOCK_NAME(p, args->block),
                           KILN_STR_ARG(name));
        if (is_merged(m, (uint32_t)i)) return ILLEGAL("%.*s is named twice", KILN_STR_ARG(name));
        if (m->count > 0 && b->iter[i].reduce != b->iter[m->iter[0]].reduce)
            return ILLEGAL("%.*s reduces, or those before it do, and not both", KILN_STR_ARG(name));
        m->iter[m->count++] = (uint32_t)i;
        rest = kiln_str_slice(rest, comma < rest.size ? comma + 1 : comma, rest.size);
    }
    if (m->count < 2) return ILLEGAL("merge needs two or more iterators");
    m->extent = 1;
    for (uint32_t k = m->count; k-- > 0;) {
        const int64_t extent = b->iter[m->iter[k]].extent;
        m->old[k] = b->iter[m->iter[k]].var;
        m->stride[k] = m->extent;
        if (extent < 1 || extent > MERGED_EXTENT_MAX / m->extent)
            return ILLEGAL("the merged iterator would have no values, or too many");
        m->extent *= extent;
    }
    return NULL;
}

/* The dimension of the block's result that only this iterator indexes; -1: none. */
static int dimension_of(kiln_program *p, kiln_block block, uint32_t iter) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_shape *shape = &p->buffer.data[b->buffer].shape;
    int found = -1;
    for (uint32_t d = 0; d < b->index_count; d++) {
        if (!kiln_expr_uses_var(p, b->index[d], b->iter[iter].var)) continue;
        if (found >= 0 || kiln_block_iter_of(p, block, b->index[d]) != (int)iter ||
            shape->dim[d] != b->iter[iter].extent)
            return -1;
        found = (int)d;
    }
    return found;
}

/* ---- dimensions of a temp ---- */

typedef struct flattening {
    kiln_buffer buffer, to; /* a new one, as older expressions have the old dimensions */
    uint32_t count;
    uint32_t dim[KILN_RANK_MAX]; /* that become one, in the order of the iterators */
    int64_t stride[KILN_RANK_MAX];
} flattening;

static bool is_flattened(const flattening *f, uint32_t d) {
    for (uint32_t k = 0; k < f->count; k++)
        if (f->dim[k] == d) return true;
    return false;
}

/* The merged dimension's index takes the place of the last of them. */
static uint32_t flatten_index(kiln_program *p, const flattening *f, kiln_expr *index,
                              uint32_t rank) {
    kiln_expr sum = kiln_expr_index(p, 0);
    uint32_t kept = 0;
    for (uint32_t k = 0; k < f->count; k++)
        sum = kiln_expr_binary(
            p, KILN_EXPR_ADD, sum,
            kiln_expr_binary(p, KILN_EXPR_MUL, index[f->dim[k]], kiln_expr_index(p, f->stride[k])));
    sum = kiln_expr_simplify(p, sum, NULL);
    for (uint32_t d = 0; d < rank; d++)
        if (d == f->dim[f->count - 1])
            index[kept++] = sum;
        else if (!is_flattened(f, d))
            index[kept++] = index[d];
    return kept;
}

static kiln_expr flatten_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const flattening *f = context;
    kiln_expr index[KILN_RANK_MAX];
    (void)e;
    if (kiln_expr_get(p, rebuilt)->op != KILN_EXPR_LOAD ||
        kiln_load_buffer(p, rebuilt) != f->buffer)
        return rebuilt;
    const uint32_t rank = kiln_load_index(p, rebuilt, index);
    return kiln_expr_load(p, f->to, index, flatten_index(p, f, index, rank));
}

static kiln_expr flatten_loads(kiln_program *p, flattening *f, kiln_expr e) {
    return e ? kiln_expr_rewrite(p, e, KILN_USES_LOAD, flatten_load, f) : 0;
}

/* A temp that is indexed by the iterators themselves gets one dimension in place of theirs. */
static void flatten_result(kiln_program *p, kiln_block block, const merging *m) {
    flattening f = {.buffer = p->block.data[block].buffer, .count = m->count};
    const kiln_buffer_info old = p->buffer.data[f.buffer];
    if (old.role != KILN_ROLE_TEMP || !kiln_layout_is_identity(&old.layout) ||
        p->block.data[block].iter[m->iter[0]].reduce)
        return;
    for (uint32_t k = 0; k < m->count; k++) {
        const int d = dimension_of(p, block, m->iter[k]);
        if (d < 0) return;
        f.dim[k] = (uint32_t)d;
        f.stride[k] = m->stride[k];
    }
    kiln_shape shape = {.rank = 0};
    for (uint32_t d = 0; d < old.shape.rank; d++)
        if (d == f.dim[f.count - 1])
            shape.dim[shape.rank++] = m->extent;
        else if (!is_flattened(&f, d))
            shape.dim[shape.rank++] = old.shape.dim[d];
    f.to = kiln_buffer_create(p, kiln_str_printf(p->arena, "%.*s.m", KILN_STR_ARG(old.name)),
                              old.dtype, KILN_ROLE_TEMP, &shape);
    p->buffer.data[f.to].scope = old.scope;
    for (kiln_block other = 1; other < p->block.count; other++) {
        kiln_block_info b = p->block.data[other];
        if (b.removed) continue;
        if (b.buffer == f.buffer) {
            b.index_count = flatten_index(p, &f, b.index, b.index_count);
            b.buffer = f.to;
        }
        b.value = flatten_loads(p, &f, b.value);
        b.init = flatten_loads(p, &f, b.init);
        b.predicate = flatten_loads(p, &f, b.predicate);
        for (uint32_t i = 0; i < b.iter_count; i++)
            b.iter[i].binding = flatten_loads(p, &f, b.iter[i].binding);
        p->block.data[other] = b;
    }
}

/* ---- iterators ---- */

/* An index that combines them like the merged iterator becomes a multiple of that; others get its
 * digits. */
static kiln_expr merged_index(kiln_program *p, const merging *m, kiln_expr index) {
    kiln_affine sum, rest = {0};
    if (!kiln_affine_of(p, index, NULL, &sum))
        return kiln_expr_simplify(p, kiln_expr_substitute(p, index, m->digit), NULL);
    const int64_t step = kiln_affine_coefficient(p, &sum, m->old[m->count - 1]);
    bool counts = step != 0;
    for (uint32_t k = 0; k < m->count; k++)
        counts &= p->var.data[m->old[k]].high == 0 ||
                  kiln_affine_coefficient(p, &sum, m->old[k]) == step * m->stride[k];
    rest.constant = sum.constant;
    for (uint32_t i = 0; i < sum.term_count && counts; i++) {
        const kiln_expr_node *node = kiln_expr_get(p, sum.term[i]);
        bool own = false;
        for (uint32_t k = 0; k < m->count; k++) {
            const bool self = node->op == KILN_EXPR_VAR && node->payload.id == m->old[k];
            own |= self;
            counts &= self || !kiln_expr_uses_var(p, sum.term[i], m->old[k]);
        }
        if (own) continue;
        rest.term[rest.term_count] = sum.term[i];
        rest.coefficient[rest.term_count++] = sum.coefficient[i];
    }
    if (!counts) return kiln_expr_simplify(p, kiln_expr_substitute(p, index, m->digit), NULL);
    const kiln_expr all =
        kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_var(p, m->var), kiln_expr_index(p, step));
    return kiln_expr_simplify(
        p, kiln_expr_binary(p, KILN_EXPR_ADD, kiln_affine_to_expr(p, &rest), all), NULL);
}

static kiln_expr merge_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const merging *m = context;
    kiln_expr index[KILN_RANK_MAX];
    (void)e;
    if (kiln_expr_get(p, rebuilt)->op != KILN_EXPR_LOAD) return rebuilt;
    const uint32_t rank = kiln_load_index(p, rebuilt, index);
    for (uint32_t d = 0; d < rank; d++) index[d] = merged_index(p, m, index[d]);
    return kiln_expr_load(p, kiln_load_buffer(p, rebuilt), index, rank);
}

static kiln_expr merged_value(kiln_program *p, merging *m, kiln_expr e) {
    if (!e) return 0;
    e = kiln_expr_rewrite(p, e, KILN_USES_LOAD, merge_load, m);
    return kiln_expr_simplify(p, kiln_expr_substitute(p, e, m->digit), NULL);
}

static void make_digits(kiln_program *p, kiln_block block, merging *m) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_str last = p->var.data[m->old[m->count - 1]].name;
    m->var = kiln_var_create(p, kiln_str_printf(p->arena, "%.*s.m", KILN_STR_ARG(last)), 0,
                             m->extent - 1);
    m->digit = kiln_nest_replacements(p);
    for (uint32_t k = 0; k < m->count; k++) {
        kiln_expr digit = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, kiln_expr_var(p, m->var),
                                           kiln_expr_index(p, m->stride[k]));
        if (k > 0)
            digit = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, digit,
                                     kiln_expr_index(p, b->iter[m->iter[k]].extent));
        m->digit[m->old[k]] = kiln_expr_simplify(p, digit, NULL);
    }
}

kiln_status kiln_prim_merge(kiln_program *p, const kiln_prim_args *args) {
    merging m = {.count = 0};
    kiln_status st = kiln_block_check_whole(p, args->block);
    if (!st) st = find_merged(p, args, &m);
    if (!st && p->buffer.count + 1 >= KILN_PROGRAM_BUFFERS_MAX)
        st = ILLEGAL("the program has too many buffers");
    if (st) return st;
    flatten_result(p, args->block, &m);
    make_digits(p, args->block, &m);
    kiln_block_info b = p->block.data[args->block];
    for (uint32_t d = 0; d < b.index_count; d++) b.index[d] = merged_index(p, &m, b.index[d]);
    b.value = merged_value(p, &m, b.value);
    b.init = merged_value(p, &m, b.init);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b.iter_count; i++) {
        kiln_iter iter = b.iter[i];
        if (i == m.iter[m.count - 1])
            iter = (kiln_iter){.var = m.var, .extent = m.extent, .reduce = iter.reduce};
        else if (is_merged(&m, i))
            continue;
        b.iter[kept++] = iter;
    }
    b.iter_count = kept;
    p->block.data[args->block] = b;
    kiln_block_renew_nest(p, args->block);
    for (uint32_t k = 0; k < m.count; k++) kiln_var_retire(p, m.old[k]);
    return kiln_dependences_check(p, args->block);
}

/* ---- gather ---- */

/* The block's only load of the buffer, which is always inside of it. */
static kiln_status find_gathered(kiln_program *p, const kiln_prim_args *args, kiln_expr *out_load) {
    const kiln_loads loads = kiln_block_loads(p, args->block);
    kiln_expr index[KILN_RANK_MAX];
    *out_load = 0;
    for (uint32_t k = 0; k < loads.count; k++) {
        if (kiln_load_buffer(p, loads.load[k]) != args->buffer) continue;
        if (*out_load)
            return ILLEGAL("%.*s reads several elements of %.*s at a time",
                           BLOCK_NAME(p, args->block), BUFFER_NAME(p, args->buffer));
        *out_load = loads.load[k];
    }
    if (!*out_load)
        return ILLEGAL("%.*s does not read %.*s", BLOCK_NAME(p, args->block),
                       BUFFER_NAME(p, args->buffer));
    const uint32_t rank = kiln_load_index(p, *out_load, index);
    for (uint32_t d = 0; d < rank; d++) {
        const kiln_interval range = kiln_expr_bounds(p, index[d], NULL);
        if (range.low < 0 || range.high >= p->buffer.data[args->buffer].shape.dim[d])
            return ILLEGAL("%.*s may read outside of %.*s", BLOCK_NAME(p, args->block),
                           BUFFER_NAME(p, args->buffer));
    }
    return NULL;
}

kiln_status kiln_prim_gather(kiln_program *p, const kiln_prim_args *args) {
    kiln_scope scope;
    kiln_expr load;
    size_t bytes;
    if (!kiln_scope_find(args->text, &scope))
        return ILLEGAL("\"%.*s\" is not a memory scope", KILN_STR_ARG(args->text));
    if (p->buffer.count + 1 >= KILN_PROGRAM_BUFFERS_MAX)
        return ILLEGAL("the program has too many buffers");
    kiln_status st = find_gathered(p, args, &load);
    if (st) return st;
    const kiln_block_info b = p->block.data[args->block];
    const kiln_dtype dtype = p->buffer.data[args->buffer].dtype;
    const kiln_str name = kiln_str_printf(p->arena, "%.*s.gather", BUFFER_NAME(p, args->buffer));
    kiln_shape shape = {.rank = 0};
    uint32_t used[KILN_RANK_MAX];
    for (uint32_t i = 0; i < b.iter_count; i++) {
        if (!kiln_expr_uses_var(p, load, b.iter[i].var)) continue;
        if (shape.rank == KILN_RANK_MAX)
            return ILLEGAL("too many iterators of %.*s index %.*s", BLOCK_NAME(p, args->block),
                           BUFFER_NAME(p, args->buffer));
        used[shape.rank] = i;
        shape.dim[shape.rank++] = b.iter[i].extent;
    }
    kiln_status bad = kiln_shape_bytes(&shape, dtype, &bytes);
    if (bad) st = ILLEGAL("%.*s would be too large", KILN_STR_ARG(name));
    kiln_status_free(bad); /* the schedule's message replaces it */
    if (st) return st;

    const kiln_buffer copied = kiln_buffer_create(p, name, dtype, KILN_ROLE_TEMP, &shape);
    p->buffer.data[copied].scope = scope;
    const kiln_block copy = kiln_block_create(p, name);
    kiln_expr *replacement = NULL, own[KILN_RANK_MAX], theirs[KILN_RANK_MAX];
    for (uint32_t d = 0; d < shape.rank; d++) {
        const kiln_iter *iter = &b.iter[used[d]];
        theirs[d] = kiln_expr_var(p, iter->var);
        own[d] = kiln_block_add_iter(p, copy, kiln_str_dup(p->arena, kiln_iter_name(p, iter)),
                                     iter->extent, false);
    }
    replacement = kiln_nest_replacements(p);
    for (uint32_t d = 0; d < shape.rank; d++) replacement[b.iter[used[d]].var] = own[d];
    kiln_block_set(p, copy, copied, own, shape.rank, KILN_COMBINE_NONE,
                   kiln_expr_substitute(p, load, replacement), 0);
    const kiln_stmt nest = kiln_block_make_nest(p, copy, shape.dim, NULL),
                    at = kiln_program_block_stmt(p, args->block);
    kiln_nest_insert(p, p->root, kiln_nest_child_towards(p, p->root, at), false, nest);
    const kiln_expr there = kiln_expr_load(p, copied, theirs, shape.rank),
                    value = kiln_expr_replace(p, b.value, load, there),
                    init = kiln_expr_replace(p, b.init, load, there);
    p->block.data[args->block].value = value;
    p->block.data[args->block].init = init;
    return kiln_dependences_check(p, copy);
}
