/* Primitives that move computation: compute_at, reverse_compute_at, inline, decompose_reduction. */
#include "base/macros.h"
#include "compiler-core/facts/region.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/prim_all.h"

/* ---- a block's points inside a loop ---- */

/* Ranges of the block's iterators: iterator i over base[i] + [0, extent[i]). */
typedef struct window {
    int64_t extent[KILN_BLOCK_ITERS_MAX];
    kiln_expr base[KILN_BLOCK_ITERS_MAX];
    kiln_expr limit[KILN_BLOCK_ITERS_MAX]; /* and below this; 0: no limit but the domain */
} window;

static window whole_domain(const kiln_program *p, kiln_block block) {
    window w = {{0}, {0}, {0}};
    for (uint32_t i = 0; i < p->block.data[block].iter_count; i++)
        w.extent[i] = p->block.data[block].iter[i].extent;
    return w;
}

/* Narrows iterator i to an interval, unless that is no narrower than its domain. */
static void narrow(kiln_program *p, kiln_block block, window *w, uint32_t i,
                   const kiln_region_dim *dim) {
    int64_t extent = p->block.data[block].iter[i].extent;
    bool bounded = dim->low > INT64_MIN / 2 && dim->high < INT64_MAX / 2;
    if (!dim->base) { /* an interval of constants: cut to the domain at once */
        int64_t low = KILN_MAX(dim->low, 0), high = KILN_MIN(dim->high, extent - 1);
        if (!bounded || low > high || (low == 0 && high == extent - 1)) return;
        w->extent[i] = high - low + 1;
        w->base[i] = kiln_expr_index(p, low);
        return;
    }
    if (!bounded || dim->high - dim->low + 1 >= extent) return;
    w->extent[i] = dim->high - dim->low + 1;
    w->base[i] = kiln_expr_simplify(
        p, kiln_expr_binary(p, KILN_EXPR_ADD, dim->base, kiln_expr_index(p, dim->low)), NULL);
}

/* Requires low <= value < end of the block's points; 0 for no bound. */
static void require_between(kiln_program *p, kiln_block block, kiln_expr low, kiln_expr value,
                            kiln_expr end) {
    kiln_expr above = low ? kiln_expr_binary(p, KILN_EXPR_LE, low, value) : 0;
    kiln_expr below = end ? kiln_expr_binary(p, KILN_EXPR_LT, value, end) : 0;
    if (above) kiln_block_require(p, block, kiln_expr_simplify(p, above, NULL));
    if (below) kiln_block_require(p, block, kiln_expr_simplify(p, below, NULL));
}

/* Puts the block into loops over the window at `at` in `parent`; points outside the domain are cut
 * off. */
static void place(kiln_program *p, kiln_block block, const window *w, kiln_stmt parent,
                  kiln_stmt at, bool after) {
    kiln_nest_remove(p, kiln_program_block_stmt(p, block));
    kiln_stmt nest = kiln_block_make_nest(p, block, w->extent, w->base);
    kiln_nest_insert(p, parent, at, after, nest);
    p->block.data[block].predicate = 0;
    for (uint32_t i = 0; i < p->block.data[block].iter_count; i++) {
        const kiln_iter iter = p->block.data[block].iter[i];
        kiln_expr end = kiln_expr_index(p, iter.extent);
        if (w->limit[i]) require_between(p, block, 0, iter.binding, w->limit[i]);
        bool limited = w->limit[i] && kiln_expr_bounds(p, w->limit[i], NULL).high <= iter.extent;
        if (w->base[i])
            require_between(p, block, kiln_expr_index(p, 0), iter.binding, limited ? 0 : end);
    }
}

/* The statement that holds the loop's children, and the child that contains `stmt`. */
static kiln_stmt body_of(const kiln_program *p, kiln_stmt loop) {
    kiln_stmt body = p->stmt.data[loop].child.data[0];
    return p->stmt.data[body].kind == KILN_STMT_SEQ ? body : loop;
}

static kiln_status check_movable(kiln_program *p, kiln_block block, kiln_stmt loop) {
    if (p->block.data[block].init_of)
        return ILLEGAL("%.*s initialises a reduction", BLOCK_NAME(p, block));
    if (kiln_block_is_reduction(p, block) && !p->block.data[block].init)
        return ILLEGAL("the reduction %.*s has been decomposed", BLOCK_NAME(p, block));
    for (kiln_stmt at = loop; at; at = p->stmt.data[at].parent)
        if (p->stmt.data[at].kind == KILN_STMT_FOR &&
            p->stmt.data[at].loop_kind == KILN_LOOP_VECTORIZE)
            return ILLEGAL("%.*s is vectorized; nothing can be placed in it", LOOP_NAME(p, at));
    return NULL;
}

/* ---- compute_at ---- */

/* Readers inside of the loop are the first `*out_count` of `reader` afterwards. Those behind it
 * read the results of all its iterations; the check of dependences decides whether these are
 * enough.
 */
static kiln_status check_producer(kiln_program *p, kiln_block block, kiln_stmt loop,
                                  kiln_block *reader, uint32_t *out_count) {
    uint32_t inside = 0;
    kiln_status st = check_movable(p, block, loop);
    if (st) return st;
    kiln_buffer buffer = p->block.data[block].buffer;
    if (p->buffer.data[buffer].role != KILN_ROLE_TEMP)
        return ILLEGAL("%.*s writes %.*s, which is an output", BLOCK_NAME(p, block),
                       BUFFER_NAME(p, buffer));
    *out_count = kiln_buffer_readers(p, buffer, reader);
    if (*out_count == 0) return ILLEGAL("nothing reads what %.*s writes", BLOCK_NAME(p, block));
    for (uint32_t i = 0; i < *out_count; i++)
        if (kiln_stmt_is_inside(p, kiln_program_block_stmt(p, reader[i]), loop))
            reader[inside++] = reader[i];
    if (inside == 0)
        return ILLEGAL("nothing inside %.*s reads what %.*s writes", LOOP_NAME(p, loop),
                       BLOCK_NAME(p, block));
    *out_count = inside;
    return NULL;
}

/* Union of the regions of `buffer` that the readers read within one iteration of `loop`. */
static kiln_region region_read(kiln_program *p, kiln_buffer buffer, const kiln_block *reader,
                               uint32_t count, kiln_stmt loop) {
    kiln_region all = {.rank = 0};
    bool first = true;
    for (uint32_t i = 0; i < count; i++) {
        kiln_loads loads = kiln_block_loads(p, reader[i]);
        for (uint32_t k = 0; k < loads.count; k++) {
            if (kiln_load_buffer(p, loads.load[k]) != buffer) continue;
            kiln_expr index[KILN_RANK_MAX];
            uint32_t rank = kiln_load_index(p, loads.load[k], index);
            kiln_region one = kiln_region_of(p, reader[i], index, rank, loop);
            all = first ? one : kiln_region_union(p, &all, &one, &p->buffer.data[buffer].shape);
            first = false;
        }
    }
    return all;
}

kiln_status kiln_prim_compute_at(kiln_program *p, const kiln_prim_args *args) {
    kiln_block block = args->block;
    kiln_stmt loop = args->loop[0];
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    uint32_t reader_count;
    kiln_status st = check_producer(p, block, loop, reader, &reader_count);
    if (st) return st;

    kiln_region needed = region_read(p, p->block.data[block].buffer, reader, reader_count, loop);
    window w = whole_domain(p, block);
    for (uint32_t d = 0; d < p->block.data[block].index_count; d++) {
        int i = kiln_block_iter_of(p, block, p->block.data[block].index[d]);
        if (i >= 0) narrow(p, block, &w, (uint32_t)i, &needed.dim[d]);
    }
    kiln_stmt parent = body_of(p, loop);
    uint32_t at = 0; /* before the first child with a reader */
    for (bool found = false; !found; at += !found)
        for (uint32_t i = 0; i < reader_count; i++)
            found |= kiln_stmt_is_inside(p, kiln_program_block_stmt(p, reader[i]),
                                         p->stmt.data[parent].child.data[at]);
    place(p, block, &w, parent, p->stmt.data[parent].child.data[at], false);
    return kiln_dependences_check(p, block);
}

kiln_loops kiln_block_locations(kiln_program *p, kiln_block block) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    uint32_t reader_count = kiln_buffer_readers(p, p->block.data[block].buffer, reader);
    if (reader_count == 0) return (kiln_loops){0};
    kiln_loops around = kiln_block_loops(p, reader[0]), found = {0, around.loop};
    for (uint32_t i = 0; i < around.count; i++) {
        kiln_stmt loop = around.loop[i];
        uint32_t inside = reader_count;
        kiln_status st = check_producer(p, block, loop, reader, &inside);
        if (!st && inside == reader_count) found.loop[found.count++] = loop;
        kiln_status_free(st); /* the reason why it does not apply there is not needed */
    }
    return found;
}

/* ---- reverse_compute_at ---- */

/* A domain of one point has a constant index, which does not depend on the iterations: a loop
 * around it with more than one would run the consumer where nothing was written. */
static kiln_status check_visits(const kiln_program *p, kiln_block writer, kiln_stmt loop) {
    const kiln_block_info *b = &p->block.data[writer];
    for (uint32_t i = 0; i < b->iter_count; i++)
        for (kiln_stmt at = loop; at; at = p->stmt.data[at].parent)
            if (p->stmt.data[at].kind == KILN_STMT_FOR && b->iter[i].extent == 1 &&
                p->stmt.data[at].extent > 1 &&
                kiln_expr_uses_var(p, b->iter[i].binding, p->stmt.data[at].var))
                return ILLEGAL("not every iteration of %.*s runs %.*s", LOOP_NAME(p, at),
                               BLOCK_NAME(p, writer));
    return NULL;
}

/* Iterators of `block` that index `load` directly, where the load's buffer is as long as their
 * domain, follow the region that `writer` writes within one iteration of `loop`. */
static kiln_status follow_writer(kiln_program *p, kiln_block block, kiln_expr load,
                                 kiln_block writer, kiln_stmt loop, window *w, bool *followed) {
    const kiln_block_info from = p->block.data[writer];
    kiln_region written = kiln_region_of(p, writer, from.index, from.index_count, loop);
    for (uint32_t d = 0; d < written.rank; d++) {
        int i = kiln_block_iter_of(p, block, kiln_expr_operand(p, load, d));
        if (i < 0 || p->block.data[block].iter[i].reduce) continue;
        if (p->block.data[block].iter[i].extent > p->buffer.data[from.buffer].shape.dim[d])
            continue;
        if (!written.dim[d].dense) continue;
        window one = whole_domain(p, block);
        narrow(p, block, &one, (uint32_t)i, &written.dim[d]);
        one.limit[i] = written.dim[d].limit;
        if (followed[i] && (one.base[i] != w->base[i] || one.extent[i] != w->extent[i] ||
                            one.limit[i] != w->limit[i]))
            return ILLEGAL("%.*s reads different parts of what is written in %.*s",
                           BLOCK_NAME(p, block), LOOP_NAME(p, loop));
        w->base[i] = one.base[i];
        w->extent[i] = one.extent[i];
        w->limit[i] = one.limit[i];
        followed[i] = true;
    }
    return NULL;
}

kiln_status kiln_prim_reverse_compute_at(kiln_program *p, const kiln_prim_args *args) {
    kiln_block block = args->block;
    kiln_stmt loop = args->loop[0];
    kiln_status st = check_movable(p, block, loop);
    if (st) return st;
    if (kiln_stmt_is_inside(p, kiln_program_block_stmt(p, block), loop))
        return ILLEGAL("%.*s is inside %.*s already", BLOCK_NAME(p, block), LOOP_NAME(p, loop));

    window w = whole_domain(p, block);
    bool followed[KILN_BLOCK_ITERS_MAX] = {false};
    kiln_loads loads = kiln_block_loads(p, block);
    kiln_stmt parent = body_of(p, loop);
    int last = -1; /* the last child with a producer */
    for (uint32_t k = 0; k < loads.count && !st; k++) {
        kiln_block writer = kiln_program_producer(p, kiln_load_buffer(p, loads.load[k]));
        if (!writer || writer == block) continue;
        kiln_stmt placed = kiln_program_block_stmt(p, writer);
        if (!kiln_stmt_is_inside(p, placed, loop)) continue;
        for (uint32_t c = 0; c < p->stmt.data[parent].child.count; c++)
            if (kiln_stmt_is_inside(p, placed, p->stmt.data[parent].child.data[c]))
                last = KILN_MAX(last, (int)c);
        st = check_visits(p, writer, loop);
        if (!st) st = follow_writer(p, block, loads.load[k], writer, loop, &w, followed);
    }
    if (!st && last < 0)
        st = ILLEGAL("%.*s reads nothing that is computed in %.*s", BLOCK_NAME(p, block),
                     LOOP_NAME(p, loop));
    if (st) return st;
    place(p, block, &w, parent, p->stmt.data[parent].child.data[last], true);
    return kiln_dependences_check(p, block);
}

/* ---- inline ---- */

typedef struct inlining {
    kiln_buffer buffer;
    kiln_expr value;
    int iter_of[KILN_RANK_MAX]; /* iterator that indexes dimension d, or -1 for a constant index */
    kiln_var var[KILN_RANK_MAX];
    kiln_expr *replacement;
} inlining;

static kiln_expr inline_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const inlining *in = context;
    (void)e;
    if (kiln_expr_get(p, rebuilt)->op != KILN_EXPR_LOAD ||
        kiln_expr_get(p, rebuilt)->payload.id != in->buffer)
        return rebuilt;
    for (uint32_t d = 0; d < p->buffer.data[in->buffer].shape.rank; d++)
        if (in->iter_of[d] >= 0) in->replacement[in->var[d]] = kiln_expr_operand(p, rebuilt, d);
    return kiln_expr_substitute(p, in->value, in->replacement);
}

kiln_status kiln_prim_inline(kiln_program *p, const kiln_prim_args *args) {
    kiln_block block = args->block;
    const kiln_block_info b = p->block.data[block];
    inlining in = {.buffer = b.buffer, .value = b.value, .replacement = kiln_nest_replacements(p)};
    if (kiln_block_is_reduction(p, block) || b.init_of)
        return ILLEGAL("%.*s is a reduction", BLOCK_NAME(p, block));
    if (p->buffer.data[b.buffer].role != KILN_ROLE_TEMP)
        return ILLEGAL("%.*s writes %.*s, which is an output", BLOCK_NAME(p, block),
                       BUFFER_NAME(p, b.buffer));
    uint32_t covered = 0;
    for (uint32_t d = 0; d < b.index_count; d++) {
        in.iter_of[d] = kiln_block_iter_of(p, block, b.index[d]);
        if (in.iter_of[d] >= 0) {
            in.var[d] = b.iter[in.iter_of[d]].var;
            covered |= 1u << in.iter_of[d];
        } else if (!kiln_expr_is_const(p, b.index[d])) {
            return ILLEGAL("%.*s writes through an index that is no plain iterator",
                           BLOCK_NAME(p, block));
        }
    }
    for (uint32_t i = 0; i < b.iter_count; i++) {
        if (!(covered >> i & 1) && b.iter[i].extent != 1)
            return ILLEGAL("iterator %.*s of %.*s indexes nothing",
                           KILN_STR_ARG(kiln_iter_name(p, &b.iter[i])), BLOCK_NAME(p, block));
        if (!(covered >> i & 1)) in.replacement[b.iter[i].var] = kiln_expr_index(p, 0);
    }
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    uint32_t count = kiln_buffer_readers(p, b.buffer, reader);
    if (count == 0) return ILLEGAL("nothing reads what %.*s writes", BLOCK_NAME(p, block));
    for (uint32_t i = 0; i < count; i++) {
        kiln_block_info *r = &p->block.data[reader[i]];
        kiln_expr value = kiln_expr_rewrite(p, r->value, KILN_USES_LOAD, inline_load, &in);
        kiln_expr init =
            r->init ? kiln_expr_rewrite(p, r->init, KILN_USES_LOAD, inline_load, &in) : 0;
        r->value = kiln_expr_simplify(p, value, NULL);
        r->init = init ? kiln_expr_simplify(p, init, NULL) : 0;
    }
    kiln_nest_remove(p, kiln_program_block_stmt(p, block));
    p->block.data[block].removed = true;
    kiln_status st = NULL;
    for (uint32_t i = 0; i < count && !st; i++) st = kiln_dependences_check(p, reader[i]);
    return st;
}

/* ---- decompose_reduction ---- */

/* The conjuncts of the predicate on loops of the initialisation. Those on reduce loops only hold at
 * their first iteration, or the reduction would be empty. */
static kiln_status add_init_predicate(kiln_program *p, kiln_block init, kiln_expr condition,
                                      const bool *is_reduce_var) {
    if (kiln_expr_get(p, condition)->op == KILN_EXPR_AND) {
        kiln_status st =
            add_init_predicate(p, init, kiln_expr_operand(p, condition, 0), is_reduce_var);
        return st ? st
                  : add_init_predicate(p, init, kiln_expr_operand(p, condition, 1), is_reduce_var);
    }
    bool uses_reduce = false, uses_other = false;
    for (kiln_var v = 1; v < p->var.count; v++) {
        if (!kiln_expr_uses_var(p, condition, v)) continue;
        uses_reduce |= is_reduce_var[v];
        uses_other |= !is_reduce_var[v];
    }
    if (uses_reduce && uses_other) return ILLEGAL("the predicate mixes spatial and reduce loops");
    if (!uses_reduce) kiln_block_require(p, init, condition);
    return NULL;
}

static kiln_str init_loop_name(kiln_program *p, kiln_block block, kiln_block init, kiln_stmt loop) {
    kiln_str name = p->var.data[p->stmt.data[loop].var].name;
    kiln_str prefix = p->block.data[block].name;
    bool own = name.size > prefix.size && name.data[prefix.size] == '.' &&
               kiln_str_equal(kiln_str_slice(name, 0, prefix.size), prefix);
    kiln_str rest = kiln_str_slice(name, own ? prefix.size + 1 : 0, name.size);
    return kiln_str_printf(p->arena, "%.*s.%.*s", BLOCK_NAME(p, init), KILN_STR_ARG(rest));
}

static kiln_status check_decomposable(kiln_program *p, kiln_block block, kiln_loops around,
                                      uint32_t first) {
    if (!kiln_block_is_reduction(p, block) || !p->block.data[block].init)
        return ILLEGAL("%.*s is no reduction with its initialisation inside", BLOCK_NAME(p, block));
    if (first == around.count) return ILLEGAL("the loop is not around %.*s", BLOCK_NAME(p, block));
    const kiln_stmt *loop = around.loop;
    for (uint32_t i = 0; i < around.count; i++) {
        kiln_reach r = kiln_block_reach(p, block, p->stmt.data[loop[i]].var);
        if (i < first && r.reduce)
            return ILLEGAL("reduce loop %.*s lies outside %.*s", LOOP_NAME(p, loop[i]),
                           LOOP_NAME(p, loop[first]));
        if (r.reduce && r.spatial)
            return ILLEGAL("%.*s mixes spatial and reduce iterators", LOOP_NAME(p, loop[i]));
        if (i >= first && !r.reduce && !kiln_element_determines(p, block, loop[i]))
            return ILLEGAL("iterations of %.*s may add to the same element", LOOP_NAME(p, loop[i]));
    }
    return NULL;
}

kiln_status kiln_prim_decompose_reduction(kiln_program *p, const kiln_prim_args *args) {
    kiln_block block = args->block;
    kiln_loops around = kiln_block_loops(p, block);
    const kiln_stmt *loop = around.loop;
    uint32_t count = around.count, first = 0;
    while (first < count && loop[first] != args->loop[0]) first++;
    kiln_status st = check_decomposable(p, block, around, first);
    if (st) return st;

    kiln_str name = kiln_str_printf(p->arena, "%.*s.init", BLOCK_NAME(p, block));
    kiln_block init = kiln_block_create(p, name);
    bool *is_reduce_var = KILN_ARENA_ARRAY(p->arena, bool, p->var.count);
    kiln_stmt nest = kiln_stmt_create(p, KILN_STMT_BLOCK);
    p->stmt.data[nest].block = init;
    uint32_t old_var_count = p->var.count;
    kiln_var *new_var = KILN_ARENA_ARRAY(p->arena, kiln_var, count);
    for (uint32_t i = first; i < count; i++) {
        kiln_var var = p->stmt.data[loop[i]].var;
        is_reduce_var[var] = kiln_block_reach(p, block, var).reduce;
        if (!is_reduce_var[var])
            new_var[i] = kiln_var_create(p, init_loop_name(p, block, init, loop[i]), 0, 0);
    }
    for (uint32_t i = count; i-- > first;) {
        const kiln_stmt_info info = p->stmt.data[loop[i]];
        if (new_var[i]) {
            nest = kiln_stmt_for(p, new_var[i], info.first, info.extent,
                                 (kiln_loop_kind)info.loop_kind, nest);
            p->stmt.data[nest].axis = info.axis;
        }
    }

    /* The same spatial iterators under new variables, bound to the new loops. */
    const kiln_block_info from = p->block.data[block];
    uint32_t loop_map_size = p->var.count + from.iter_count;
    kiln_expr *iter_map = KILN_ARENA_ARRAY(p->arena, kiln_expr, loop_map_size);
    kiln_expr *loop_map = KILN_ARENA_ARRAY(p->arena, kiln_expr, loop_map_size);
    for (uint32_t i = first; i < count; i++)
        if (new_var[i]) loop_map[p->stmt.data[loop[i]].var] = kiln_expr_var(p, new_var[i]);
    for (uint32_t i = 0; i < from.iter_count; i++) {
        if (from.iter[i].reduce) continue;
        char *iter_name = kiln_str_dup(p->arena, kiln_iter_name(p, &from.iter[i]));
        iter_map[from.iter[i].var] =
            kiln_block_add_iter(p, init, iter_name, from.iter[i].extent, false);
        kiln_block_info *to = &p->block.data[init];
        to->iter[to->iter_count - 1].binding =
            kiln_expr_substitute(p, from.iter[i].binding, loop_map);
    }
    if (from.predicate) {
        kiln_expr condition = kiln_expr_substitute(p, from.predicate, loop_map);
        bool *reduces = KILN_ARENA_ARRAY(p->arena, bool, p->var.count);
        for (kiln_var v = 1; v < old_var_count; v++) reduces[v] = is_reduce_var[v];
        st = add_init_predicate(p, init, condition, reduces);
        if (st) return st;
    }
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < from.index_count; d++)
        index[d] = kiln_expr_substitute(p, from.index[d], iter_map);
    kiln_expr value = kiln_expr_substitute(p, from.init, iter_map);
    kiln_block_set(p, init, from.buffer, index, from.index_count, KILN_COMBINE_NONE, value, 0);
    p->block.data[init].init_of = block;
    p->block.data[block].init = 0;
    kiln_stmt at = loop[first];
    kiln_stmt parent = p->stmt.data[at].parent;
    kiln_nest_insert(p, parent, at, false, nest);
    return NULL;
}
