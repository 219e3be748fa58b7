/* Primitives on loops: split, fuse, reorder, and kinds of loops. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/prim_all.h"

#define VECTORIZE_EXTENT_MAX 64
#define UNROLL_EXTENT_MAX 256
#define VTHREADS_MAX 16
#define SPLIT_EXTENT_MAX (INT64_C(1) << 40)

static kiln_status need_serial(const kiln_program *p, kiln_stmt loop) {
    static const char *const kind_name[KILN_LOOP_KIND_COUNT] = {
        "serial", "parallel", "vectorized", "unrolled", "bound to an axis", "a virtual thread"};
    uint8_t kind = p->stmt.data[loop].loop_kind;
    return kind == KILN_LOOP_SERIAL
               ? NULL
               : ILLEGAL("loop %.*s is already %s", LOOP_NAME(p, loop), kind_name[kind]);
}

/* ---- split ---- */

/* Fills in the factor given as -1 and returns the product in *out_product. */
static kiln_status resolve_factors(const kiln_program *p, kiln_stmt loop,
                                   const kiln_prim_args *args, int64_t *factor,
                                   int64_t *out_product) {
    int64_t extent = p->stmt.data[loop].extent;
    int64_t product = 1;
    int open = -1;
    for (uint32_t i = 0; i < args->integer_count; i++) {
        factor[i] = args->integer[i];
        if (factor[i] == -1 && open < 0) {
            open = (int)i;
        } else if (factor[i] < 1 || factor[i] > SPLIT_EXTENT_MAX / product) {
            return ILLEGAL("factor %lld of %.*s is not a positive extent", (long long)factor[i],
                           LOOP_NAME(p, loop));
        } else {
            product *= factor[i];
        }
    }
    if (open >= 0) {
        factor[open] = (extent + product - 1) / product;
        product *= factor[open];
    }
    if (product < extent)
        return ILLEGAL("the factors of %.*s make %lld iterations of its %lld", LOOP_NAME(p, loop),
                       (long long)product, (long long)extent);
    *out_product = product;
    return NULL;
}

/* "name.i"; made by hand, because candidates are replayed by the thousand. */
static kiln_str part_name(kiln_program *p, kiln_str name, uint32_t i) {
    KILN_CHECK(i < 100);
    char *text = kiln_arena_alloc(p->arena, name.size + 3);
    memcpy(text, name.data, name.size);
    size_t size = name.size;
    text[size++] = '.';
    if (i >= 10) text[size++] = (char)('0' + i / 10);
    text[size++] = (char)('0' + i % 10);
    return (kiln_str){text, size};
}

static void require_below(kiln_program *p, kiln_block block, void *context) {
    kiln_block_require(p, block, *(kiln_expr *)context);
}

kiln_status kiln_prim_split(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    int64_t factor[KILN_BLOCK_ITERS_MAX];
    int64_t product = 1;
    if (args->integer_count < 2)
        return ILLEGAL("split of %.*s needs two or more factors", LOOP_NAME(p, loop));
    kiln_status st = need_serial(p, loop);
    if (!st) st = resolve_factors(p, loop, args, factor, &product);
    if (st) return st;

    /* New loops inside out, then old variable = sum of the new ones at their strides. */
    kiln_var old = p->stmt.data[loop].var;
    kiln_str name = p->var.data[old].name;
    int64_t extent = p->stmt.data[loop].extent;
    kiln_expr sum = kiln_expr_index(p, 0);
    int64_t stride = product;
    kiln_var var[KILN_BLOCK_ITERS_MAX];
    for (uint32_t i = 0; i < args->integer_count; i++) {
        stride /= factor[i];
        var[i] = kiln_var_create(p, part_name(p, name, i), 0, factor[i] - 1);
        if (factor[i] == 1) continue; /* always 0 */
        kiln_expr term = kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_var(p, var[i]),
                                          kiln_expr_index(p, stride));
        sum = kiln_expr_binary(p, KILN_EXPR_ADD, sum, term);
    }
    kiln_expr *replacement = kiln_nest_replacements(p);
    replacement[old] = sum;
    kiln_nest_substitute(p, loop, replacement);
    if (product > extent) {
        kiln_expr inside = kiln_expr_binary(p, KILN_EXPR_LT, sum, kiln_expr_index(p, extent));
        inside = kiln_expr_simplify(p, inside, NULL);
        kiln_nest_visit_blocks(p, loop, require_below, &inside);
    }
    kiln_stmt body = p->stmt.data[loop].child.data[0];
    kiln_stmt_replace(p, loop, body);
    for (uint32_t i = args->integer_count; i-- > 0;)
        body = kiln_stmt_for(p, var[i], 0, factor[i], KILN_LOOP_SERIAL, body);
    kiln_var_retire(p, old);
    return NULL;
}

/* ---- divide ---- */

static kiln_status check_divisible(kiln_program *p, const kiln_prim_args *args, uint32_t *out_iter,
                                   kiln_stmt *out_loop) {
    kiln_block block = args->block;
    const kiln_block_info *b = &p->block.data[block];
    int i = kiln_block_find_iter(p, block, args->text);
    int64_t factor = args->integer[0];
    if (i < 0)
        return ILLEGAL("%.*s has no iterator %.*s", BLOCK_NAME(p, block), KILN_STR_ARG(args->text));
    if (b->iter_count == KILN_BLOCK_ITERS_MAX)
        return ILLEGAL("%.*s has as many iterators as a block may have", BLOCK_NAME(p, block));
    if (factor < 1 || b->iter[i].extent % factor != 0)
        return ILLEGAL("%lld does not divide %.*s", (long long)factor, KILN_STR_ARG(args->text));
    *out_loop = kiln_block_own_loop(p, block, (uint32_t)i);
    if (!*out_loop) return ILLEGAL("%.*s no longer has a separate loop", KILN_STR_ARG(args->text));
    *out_iter = (uint32_t)i;
    return NULL;
}

/* Splits iterator `i` into two, bound to the loops `outer` and `inner`; returns the old one's
 * value. */
static kiln_expr divide_iter(kiln_program *p, kiln_block block, uint32_t i, kiln_stmt outer,
                             kiln_stmt inner) {
    kiln_block_info *b = &p->block.data[block];
    kiln_str name = p->var.data[b->iter[i].var].name;
    bool reduce = b->iter[i].reduce;
    kiln_stmt loop[2] = {outer, inner};
    kiln_expr term[2];
    memmove(&b->iter[i + 2], &b->iter[i + 1], (b->iter_count - i - 1) * sizeof *b->iter);
    b->iter_count++;
    for (uint32_t k = 0; k < 2; k++) {
        int64_t extent = p->stmt.data[loop[k]].extent;
        kiln_str part = kiln_str_printf(p->arena, "%.*s.%u", KILN_STR_ARG(name), k);
        kiln_var var = kiln_var_create(p, part, 0, extent - 1);
        term[k] = kiln_expr_var(p, var);
        kiln_expr binding = kiln_expr_var(p, p->stmt.data[loop[k]].var);
        p->block.data[block].iter[i + k] =
            (kiln_iter){.var = var, .extent = extent, .reduce = reduce, .binding = binding};
    }
    term[0] =
        kiln_expr_binary(p, KILN_EXPR_MUL, term[0], kiln_expr_index(p, p->stmt.data[inner].extent));
    return kiln_expr_binary(p, KILN_EXPR_ADD, term[0], term[1]);
}

kiln_status kiln_prim_divide(kiln_program *p, const kiln_prim_args *args) {
    kiln_block block = args->block;
    uint32_t i = 0;
    kiln_stmt loop = 0;
    kiln_status st = check_divisible(p, args, &i, &loop);
    if (st) return st;
    int64_t factor = args->integer[0];
    kiln_prim_args split = {.loop = {loop},
                            .loop_count = 1,
                            .integer = {p->stmt.data[loop].extent / factor, factor},
                            .integer_count = 2};
    kiln_stmt parent = p->stmt.data[loop].parent;
    uint32_t place = 0;
    while (p->stmt.data[parent].child.data[place] != loop) place++;
    st = kiln_prim_split(p, &split);
    if (st) return st;
    kiln_stmt outer = p->stmt.data[parent].child.data[place];
    kiln_var old = p->block.data[block].iter[i].var;
    kiln_expr *replacement = kiln_nest_replacements(p);
    replacement[old] = divide_iter(p, block, i, outer, p->stmt.data[outer].child.data[0]);
    kiln_block_info b = p->block.data[block];
    for (uint32_t d = 0; d < b.index_count; d++)
        b.index[d] = kiln_expr_simplify(p, kiln_expr_substitute(p, b.index[d], replacement), NULL);
    b.value = kiln_expr_simplify(p, kiln_expr_substitute(p, b.value, replacement), NULL);
    if (b.init) b.init = kiln_expr_simplify(p, kiln_expr_substitute(p, b.init, replacement), NULL);
    p->block.data[block] = b;
    kiln_var_retire(p, old);
    return kiln_dependences_check(p, block);
}

/* ---- fuse ---- */

kiln_status kiln_prim_fuse(kiln_program *p, const kiln_prim_args *args) {
    int64_t extent = 1;
    if (args->loop_count < 2) return ILLEGAL("fuse needs two or more loops");
    for (uint32_t i = 0; i < args->loop_count; i++) {
        kiln_stmt loop = args->loop[i];
        kiln_status st = need_serial(p, loop);
        if (st) return st;
        if (i > 0 && kiln_nest_only_child(p, args->loop[i - 1]) != loop)
            return ILLEGAL("%.*s is not the only thing directly inside %.*s", LOOP_NAME(p, loop),
                           LOOP_NAME(p, args->loop[i - 1]));
        if (p->stmt.data[loop].extent == 0) return ILLEGAL("%.*s never runs", LOOP_NAME(p, loop));
        if (p->stmt.data[loop].extent > SPLIT_EXTENT_MAX / extent)
            return ILLEGAL("the fused loop is too long");
        extent *= p->stmt.data[loop].extent;
    }

    kiln_stmt outermost = args->loop[0];
    kiln_str name = p->var.data[p->stmt.data[outermost].var].name;
    kiln_str fused_name = kiln_str_printf(p->arena, "%.*s.f", KILN_STR_ARG(name));
    kiln_var fused = kiln_var_create(p, fused_name, 0, extent - 1);
    kiln_expr *replacement = kiln_nest_replacements(p);
    kiln_expr rest = kiln_expr_var(p, fused);
    /* Loops of one iteration get no digit: a later split may run further than the fused loop, under
     * a condition, where all digits but the first would wrap around. */
    uint32_t first = 0;
    while (first + 1 < args->loop_count && p->stmt.data[args->loop[first]].extent == 1) first++;
    for (uint32_t i = args->loop_count; i-- > 0;) {
        const kiln_stmt_info *info = &p->stmt.data[args->loop[i]];
        kiln_expr size = kiln_expr_index(p, info->extent);
        if (i < first || (i > first && info->extent == 1)) {
            replacement[info->var] = kiln_expr_index(p, 0);
            continue;
        }
        replacement[info->var] =
            i == first ? rest : kiln_expr_binary(p, KILN_EXPR_FLOORMOD, rest, size);
        rest = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, rest, size);
    }
    kiln_nest_substitute(p, outermost, replacement);
    kiln_stmt body = p->stmt.data[args->loop[args->loop_count - 1]].child.data[0];
    for (uint32_t i = 0; i < args->loop_count; i++)
        kiln_var_retire(p, p->stmt.data[args->loop[i]].var);
    kiln_stmt_replace(p, outermost, body);
    kiln_stmt_for(p, fused, 0, extent, KILN_LOOP_SERIAL, body);
    return NULL;
}

/* ---- reorder ---- */

typedef struct reorder_check {
    const kiln_stmt *nest; /* in the new order */
    uint32_t count;
    kiln_status status;
} reorder_check;

/* A sum starts where all reduce iterators are 0, which must stay the first visit of its element: a
 * loop over both spatial and reduce iterators would break that. And a loop inside a reduce loop
 * must not visit an element twice: the sum would count its terms twice. */
static void check_sums_once(kiln_program *p, kiln_block block, void *context) {
    reorder_check *check = context;
    if (check->status || !kiln_block_is_reduction(p, block)) return;
    bool inside_reduce = false;
    for (uint32_t i = 0; i < check->count && !check->status; i++) {
        kiln_reach reach = kiln_block_reach(p, block, p->stmt.data[check->nest[i]].var);
        bool reduces = reach.reduce;
        if (check->count > 1 && reach.reduce && reach.spatial)
            check->status = ILLEGAL("%.*s mixes spatial and reduce iterators of %.*s",
                                    LOOP_NAME(p, check->nest[i]), BLOCK_NAME(p, block));
        if (!reduces && inside_reduce && !kiln_element_determines(p, block, check->nest[i]))
            check->status = ILLEGAL(
                "iterations of %.*s inside a reduce loop of %.*s may add to the same element",
                LOOP_NAME(p, check->nest[i]), BLOCK_NAME(p, block));
        inside_reduce |= reduces;
    }
}

static int find_loop_in(const kiln_prim_args *args, kiln_stmt loop) {
    for (uint32_t i = 0; i < args->loop_count; i++)
        if (args->loop[i] == loop) return (int)i;
    return -1;
}

/* The perfect nest from the outermost named loop to the innermost: all of its loops. */
static kiln_status find_nest(const kiln_program *p, const kiln_prim_args *args, kiln_loops *out) {
    kiln_stmt outermost = args->loop[0];
    for (uint32_t i = 1; i < args->loop_count; i++) {
        for (uint32_t k = 0; k < i; k++)
            if (args->loop[i] == args->loop[k])
                return ILLEGAL("loop %.*s is named twice", LOOP_NAME(p, args->loop[i]));
        if (kiln_stmt_is_inside(p, outermost, args->loop[i])) outermost = args->loop[i];
    }
    uint32_t count = 0, named = 0;
    for (kiln_stmt loop = outermost, before = loop; named < args->loop_count; count++) {
        if (!loop || p->stmt.data[loop].kind != KILN_STMT_FOR)
            return ILLEGAL("the loops to reorder do not form one perfect nest (below %.*s)",
                           LOOP_NAME(p, before));
        named += find_loop_in(args, loop) >= 0;
        before = loop;
        loop = kiln_nest_only_child(p, loop);
    }
    *out = (kiln_loops){count, KILN_ARENA_ARRAY(p->arena, kiln_stmt, count)};
    for (uint32_t i = 0; i < count; i++)
        out->loop[i] = i ? kiln_nest_only_child(p, out->loop[i - 1]) : outermost;
    return NULL;
}

kiln_status kiln_prim_reorder(kiln_program *p, const kiln_prim_args *args) {
    kiln_loops whole = {0};
    if (args->loop_count < 1) return ILLEGAL("reorder needs loops");
    kiln_status st = find_nest(p, args, &whole);
    for (uint32_t i = 0; i < args->loop_count && !st; i++)
        if (kiln_intrinsic_of_loop(p, args->loop[i]))
            st = ILLEGAL("%.*s is the inner loop of a tensor intrinsic",
                         LOOP_NAME(p, args->loop[i]));
    if (st) return st;

    /* Loop statements keep their places in the tree; their variables and kinds move. */
    const kiln_stmt *nest = whole.loop;
    uint32_t count = whole.count, next = 0;
    kiln_stmt_info *moved = KILN_ARENA_ARRAY(p->arena, kiln_stmt_info, count);
    kiln_stmt *order = KILN_ARENA_ARRAY(p->arena, kiln_stmt, count);
    for (uint32_t i = 0; i < count; i++)
        order[i] = find_loop_in(args, nest[i]) < 0 ? nest[i] : args->loop[next++];
    for (uint32_t i = 0; i < count; i++) moved[i] = p->stmt.data[order[i]];
    for (uint32_t i = 0; i < count; i++) {
        kiln_stmt_info *info = &p->stmt.data[nest[i]];
        info->var = moved[i].var;
        info->first = moved[i].first;
        info->extent = moved[i].extent;
        info->loop_kind = moved[i].loop_kind;
        info->axis = moved[i].axis;
        info->attribute.data = moved[i].attribute.data;
        info->attribute.count = moved[i].attribute.count;
        info->attribute.capacity = moved[i].attribute.capacity;
    }
    for (uint32_t i = 0; i + 1 < count; i++)
        if (p->stmt.data[nest[i]].loop_kind == KILN_LOOP_VECTORIZE)
            return ILLEGAL("vectorized loop %.*s would not be innermost", LOOP_NAME(p, nest[i]));
    reorder_check check = {nest, count, NULL};
    kiln_nest_visit_blocks(p, nest[0], check_sums_once, &check);
    return check.status;
}

/* ---- kinds ---- */

static bool has_loop_below(const kiln_program *p, kiln_stmt stmt) {
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++) {
        kiln_stmt child = p->stmt.data[stmt].child.data[i];
        if (p->stmt.data[child].kind == KILN_STMT_FOR || has_loop_below(p, child)) return true;
    }
    return false;
}

kiln_status kiln_prim_vectorize(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    kiln_status st = need_serial(p, loop);
    if (st) return st;
    if (has_loop_below(p, loop)) return ILLEGAL("%.*s is not innermost", LOOP_NAME(p, loop));
    if (p->stmt.data[loop].extent > VECTORIZE_EXTENT_MAX)
        return ILLEGAL("%.*s has %lld iterations; a vector has at most %d lanes",
                       LOOP_NAME(p, loop), (long long)p->stmt.data[loop].extent,
                       VECTORIZE_EXTENT_MAX);
    p->stmt.data[loop].loop_kind = KILN_LOOP_VECTORIZE;
    return kiln_iterations_check(p, loop);
}

kiln_status kiln_prim_unroll(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    kiln_status st = need_serial(p, loop);
    if (!st && p->stmt.data[loop].extent > UNROLL_EXTENT_MAX)
        st = ILLEGAL("%.*s has %lld iterations; at most %d are unrolled", LOOP_NAME(p, loop),
                     (long long)p->stmt.data[loop].extent, UNROLL_EXTENT_MAX);
    if (!st) p->stmt.data[loop].loop_kind = KILN_LOOP_UNROLL;
    return st;
}

static kiln_stmt parallel_below(const kiln_program *p, kiln_stmt stmt) {
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++) {
        kiln_stmt child = p->stmt.data[stmt].child.data[i];
        if (p->stmt.data[child].kind == KILN_STMT_FOR &&
            p->stmt.data[child].loop_kind == KILN_LOOP_PARALLEL)
            return child;
        kiln_stmt below = parallel_below(p, child);
        if (below) return below;
    }
    return 0;
}

kiln_status kiln_prim_parallel(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    kiln_status st = need_serial(p, loop);
    if (st) return st;
    for (kiln_stmt at = p->stmt.data[loop].parent; at; at = p->stmt.data[at].parent)
        if (p->stmt.data[at].kind == KILN_STMT_FOR &&
            p->stmt.data[at].loop_kind == KILN_LOOP_PARALLEL)
            return ILLEGAL("%.*s lies inside parallel loop %.*s", LOOP_NAME(p, loop),
                           LOOP_NAME(p, at));
    kiln_stmt below = parallel_below(p, loop);
    if (below)
        return ILLEGAL("parallel loop %.*s lies inside %.*s", LOOP_NAME(p, below),
                       LOOP_NAME(p, loop));
    st = kiln_iterations_check(p, loop);
    if (!st) p->stmt.data[loop].loop_kind = KILN_LOOP_PARALLEL;
    return st;
}

/* The places of bound loops are checked afterwards (kiln_device_check). */
kiln_status kiln_prim_bind(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    kiln_loop_axis axis;
    kiln_status st = need_serial(p, loop);
    if (!st && !kiln_loop_axis_find(args->text, &axis))
        st = ILLEGAL("\"%.*s\" is no axis", KILN_STR_ARG(args->text));
    if (!st && p->stmt.data[loop].extent < 1) st = ILLEGAL("%.*s never runs", LOOP_NAME(p, loop));
    if (!st) st = kiln_iterations_check(p, loop);
    if (st) return st;
    p->stmt.data[loop].loop_kind = KILN_LOOP_BIND;
    p->stmt.data[loop].axis = (uint8_t)axis;
    return NULL;
}

/* Iterations become copies in one thread's code, so their number is limited like an unrolled
 * loop's. */
kiln_status kiln_prim_vthread(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    kiln_status st = need_serial(p, loop);
    if (!st && p->stmt.data[loop].extent > VTHREADS_MAX)
        st = ILLEGAL("%.*s has %lld iterations; a thread has at most %d virtual threads",
                     LOOP_NAME(p, loop), (long long)p->stmt.data[loop].extent, VTHREADS_MAX);
    if (!st) st = kiln_iterations_check(p, loop);
    if (!st) p->stmt.data[loop].loop_kind = KILN_LOOP_VTHREAD;
    return st;
}

kiln_status kiln_prim_annotate(kiln_program *p, const kiln_prim_args *args) {
    kiln_stmt loop = args->loop[0];
    size_t equals = kiln_str_find_char(args->text, '=');
    if (equals == 0 || equals == args->text.size)
        return ILLEGAL("annotation \"%.*s\" of %.*s is not key=value", KILN_STR_ARG(args->text),
                       LOOP_NAME(p, loop));
    const kiln_attribute attribute = kiln_attribute_from(p, args->text);
    if (attribute.id == KILN_ATTRIBUTE_PIPELINE || attribute.id == KILN_ATTRIBUTE_PRODUCER ||
        attribute.id == KILN_ATTRIBUTE_BOX)
        return ILLEGAL("stages of %.*s are set by pipeline, which checks them", LOOP_NAME(p, loop));
    if (attribute.id == KILN_ATTRIBUTE_EXCHANGE)
        return ILLEGAL("%.*s is a loop; only stores exchange values between lanes",
                       LOOP_NAME(p, loop));
    if (attribute.id == KILN_ATTRIBUTE_RESIDENT)
        return ILLEGAL("groups of %.*s on a unit are given by resident", LOOP_NAME(p, loop));
    kiln_stmt_set_attribute(p, loop, attribute);
    return NULL;
}
