/* tensorize: a piece of a nest that one instruction computes. */
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/prim_all.h"

/* The nest that the instruction computes: rows if it has several, lanes, and in each the steps of a
 * sum. */
typedef struct piece {
    kiln_stmt rows; /* 0: it has one */
    kiln_stmt lanes, steps;
    kiln_block block;
} piece;

/* Checks the loop's kind and extent; lowering checks the target's configuration. */
static kiln_status check_loop(const kiln_program *p, kiln_stmt loop, uint32_t extent,
                              const kiln_intrinsic *intrinsic) {
    const kiln_stmt_info *s = &p->stmt.data[loop];
    if (s->loop_kind != KILN_LOOP_SERIAL) return ILLEGAL("%.*s is not serial", LOOP_NAME(p, loop));
    if (intrinsic->owner != KILN_INTRINSIC_CORE && s->extent != extent)
        return ILLEGAL("%.*s has %lld iterations; %s takes %u", LOOP_NAME(p, loop),
                       (long long)s->extent, intrinsic->name, extent);
    return NULL;
}

/* Checks it if the instruction takes up to `most` in multiples of `unit`. */
static kiln_status check_part(const kiln_program *p, kiln_stmt loop, uint32_t most, uint32_t unit,
                              const kiln_intrinsic *intrinsic) {
    const int64_t extent = p->stmt.data[loop].extent;
    if (extent > most || extent % unit != 0)
        return ILLEGAL("%.*s has %lld iterations; %s takes up to %u, in multiples of %u",
                       LOOP_NAME(p, loop), (long long)extent, intrinsic->name, most, unit);
    return check_loop(p, loop, (uint32_t)extent, intrinsic);
}

/* The only loop in another one; 0: there is none. */
static kiln_stmt loop_in(const kiln_program *p, kiln_stmt loop) {
    kiln_stmt child = loop ? kiln_nest_only_child(p, loop) : 0;
    return child && p->stmt.data[child].kind == KILN_STMT_FOR ? child : 0;
}

static kiln_status find_piece(const kiln_program *p, kiln_stmt outer,
                              const kiln_intrinsic *intrinsic, piece *out) {
    const bool has_rows = kiln_intrinsic_has_rows(intrinsic);
    kiln_stmt lanes = has_rows ? loop_in(p, outer) : outer, steps = loop_in(p, lanes);
    kiln_stmt body = steps ? kiln_nest_only_child(p, steps) : 0;
    if (!body || p->stmt.data[body].kind != KILN_STMT_BLOCK)
        return ILLEGAL("%.*s is not the outer one of the %s innermost loops around one block",
                       LOOP_NAME(p, outer), has_rows ? "three" : "two");
    const bool tiles = kiln_intrinsic_in_tiles(intrinsic);
    kiln_status st = NULL;
    if (tiles)
        st = check_part(p, outer, intrinsic->rows, 1, intrinsic);
    else if (has_rows)
        st = check_loop(p, outer, intrinsic->rows, intrinsic);
    if (!st) st = check_loop(p, lanes, intrinsic->lanes, intrinsic);
    if (!st && tiles)
        st = check_part(p, steps, intrinsic->steps, kiln_intrinsic_word(intrinsic), intrinsic);
    else if (!st)
        st = check_loop(p, steps, intrinsic->steps, intrinsic);
    *out = (piece){has_rows ? outer : 0, lanes, steps, p->stmt.data[body].block};
    return st;
}

/* Whether the block, with its predicate, runs in all iterations of the loop. */
static bool always_runs(const kiln_program *p, kiln_block block, kiln_stmt loop) {
    const kiln_block_info *b = &p->block.data[block];
    return !b->predicate || !kiln_expr_uses_var(p, b->predicate, p->stmt.data[loop].var);
}

static bool is_spatial(const kiln_program *p, kiln_block block, kiln_stmt loop) {
    return !loop || !kiln_block_reach(p, block, p->stmt.data[loop].var).reduce;
}

/* Rows and lanes must be elements of the result, with steps summed up in each. Lanes and steps must
 * always run; rows need not if the instruction can take fewer, which that of a core cannot. */
static kiln_status check_roles(const kiln_program *p, const piece *at, bool in_core) {
    const kiln_block_info *b = &p->block.data[at->block];
    if (b->combiner != KILN_COMBINE_SUM) return ILLEGAL("%.*s is no sum", BLOCK_NAME(p, at->block));
    if (b->init)
        return ILLEGAL("the reduction of %.*s has not been decomposed", BLOCK_NAME(p, at->block));
    if (!is_spatial(p, at->block, at->rows) || !is_spatial(p, at->block, at->lanes) ||
        kiln_block_reach(p, at->block, p->stmt.data[at->steps].var).spatial)
        return ILLEGAL("%.*s is no loop over elements of the result, or %.*s no step of the sum",
                       LOOP_NAME(p, at->lanes), LOOP_NAME(p, at->steps));
    if (in_core && !always_runs(p, at->block, at->rows))
        return ILLEGAL("%.*s does not run in all iterations of %.*s", BLOCK_NAME(p, at->block),
                       LOOP_NAME(p, at->rows));
    if (!always_runs(p, at->block, at->lanes) || !always_runs(p, at->block, at->steps))
        return ILLEGAL("%.*s does not run in all iterations of %.*s and %.*s",
                       BLOCK_NAME(p, at->block), LOOP_NAME(p, at->lanes), LOOP_NAME(p, at->steps));
    return NULL;
}

static kiln_status check_value(kiln_program *p, const piece *at, const kiln_intrinsic *intrinsic,
                               kiln_expr load[KILN_INTRINSIC_OPERANDS]) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    const kiln_program *meaning = kiln_intrinsic_program(intrinsic, &scratch);
    bool same = kiln_intrinsic_matches(meaning, p, p->block.data[at->block].value, load);
    kiln_arena_deinit(&scratch);
    return same ? NULL
                : ILLEGAL("%.*s does not sum up %s, as %s does", BLOCK_NAME(p, at->block),
                          intrinsic->value, intrinsic->name);
}

/* ---- pieces of warps ------------------------------------------------------------------------- */

/* The thread loop around a piece whose iterations are a warp, or the warps of a group. */
static kiln_status find_threads(const kiln_program *p, kiln_stmt inner, kiln_loop_axis axis,
                                int64_t extent, const kiln_intrinsic *intrinsic,
                                kiln_stmt *out_loop) {
    const char *what = axis == KILN_AXIS_THREAD_X ? "a warp" : "a group", *of = "threads";
    if (axis == KILN_AXIS_THREAD_Y) of = "warps";
    for (kiln_stmt at = inner; at; at = p->stmt.data[at].parent) {
        const kiln_stmt_info *s = &p->stmt.data[at];
        if (s->kind != KILN_STMT_FOR || s->loop_kind != KILN_LOOP_BIND || s->axis != axis) continue;
        *out_loop = at;
        if (s->extent == extent) return NULL;
        return ILLEGAL("%.*s has %lld iterations on %s; %s takes %s of %lld", LOOP_NAME(p, at),
                       (long long)s->extent, kiln_axes[axis].text, intrinsic->name, what,
                       (long long)extent);
    }
    return ILLEGAL("%.*s is not in a loop on %s; %s takes %s of %lld %s", LOOP_NAME(p, inner),
                   kiln_axes[axis].text, intrinsic->name, what, (long long)extent, of);
}

/* Whether the load's element is the same for all threads and iterations that hold one `word` of its
 * operand: it may depend on the group of a lane, or else on its place in the group, and not on the
 * variables of the loops `other` and `warps` (0: none), which index the other operand. */
static bool is_fragment(kiln_program *p, const piece *at, kiln_stmt warp, kiln_expr load,
                        bool by_group, kiln_stmt other, kiln_stmt warps) {
    const kiln_block_info *b = &p->block.data[at->block];
    kiln_expr *value = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count);
    for (uint32_t i = 0; i < b->iter_count; i++) value[b->iter[i].var] = b->iter[i].binding;
    kiln_expr placed = kiln_expr_substitute(p, load, value);
    return !kiln_expr_uses_var(p, placed, p->stmt.data[other].var) &&
           (!warps || !kiln_expr_uses_var(p, placed, p->stmt.data[warps].var)) &&
           kiln_intrinsic_asks_lane(p, placed, p->stmt.data[warp].var, by_group);
}

/* Whether each of so many threads holds that part of the columns of the instruction. */
static kiln_status check_columns(const kiln_program *p, kiln_stmt columns,
                                 const kiln_intrinsic *intrinsic) {
    if (intrinsic->owner == KILN_INTRINSIC_WARP)
        return check_loop(p, columns, KILN_WARP_COLUMNS, intrinsic);
    const int64_t extent = p->stmt.data[columns].extent, all = extent * KILN_WARP_GROUP;
    if (all < KILN_GROUP_COLUMNS_MIN || all > intrinsic->lanes || all % KILN_GROUP_COLUMNS != 0)
        return ILLEGAL("%.*s has %lld iterations; %s takes %u to %u, in multiples of %u",
                       LOOP_NAME(p, columns), (long long)extent, intrinsic->name,
                       KILN_GROUP_COLUMNS_MIN / KILN_WARP_GROUP, intrinsic->lanes / KILN_WARP_GROUP,
                       KILN_GROUP_COLUMNS / KILN_WARP_GROUP);
    return check_loop(p, columns, (uint32_t)extent, intrinsic);
}

/* Rows, columns and steps of each thread: loops at.rows, at.lanes, at.steps. */
static kiln_status tensorize_warp(kiln_program *p, kiln_stmt outer,
                                  const kiln_intrinsic *intrinsic) {
    const bool has_warps = intrinsic->owner == KILN_INTRINSIC_GROUP;
    kiln_stmt warp = 0, warps = 0, columns = loop_in(p, outer), steps = loop_in(p, columns);
    kiln_stmt body = steps ? kiln_nest_only_child(p, steps) : 0;
    kiln_expr load[KILN_INTRINSIC_OPERANDS];
    if (!body || p->stmt.data[body].kind != KILN_STMT_BLOCK)
        return ILLEGAL("%.*s is not the outer one of the three innermost loops around one block",
                       LOOP_NAME(p, outer));
    const piece at = {outer, columns, steps, p->stmt.data[body].block};
    kiln_status st = check_loop(p, outer, KILN_WARP_ROWS, intrinsic);
    if (!st) st = check_columns(p, columns, intrinsic);
    if (!st) st = check_loop(p, steps, intrinsic->steps, intrinsic);
    if (!st) st = find_threads(p, outer, KILN_AXIS_THREAD_X, KILN_WARP_LANES, intrinsic, &warp);
    if (!st && has_warps)
        st = find_threads(p, outer, KILN_AXIS_THREAD_Y, KILN_GROUP_WARPS, intrinsic, &warps);
    if (!st) st = check_roles(p, &at, intrinsic->owner == KILN_INTRINSIC_CORE);
    if (!st && (!always_runs(p, at.block, outer) || !always_runs(p, at.block, warp) ||
                (warps && !always_runs(p, at.block, warps))))
        st = ILLEGAL("%.*s does not run in all iterations of %.*s", BLOCK_NAME(p, at.block),
                     LOOP_NAME(p, warp));
    if (!st) st = check_value(p, &at, intrinsic, load);
    if (st) return st;
    bool found = false;
    for (uint32_t a = 0; a < KILN_INTRINSIC_OPERANDS && !found; a++)
        found = (a == 0 || intrinsic->operand[0] == intrinsic->operand[1]) &&
                is_fragment(p, &at, warp, load[a], true, columns, 0) &&
                is_fragment(p, &at, warp, load[1 - a], false, outer, warps);
    if (!found)
        return ILLEGAL(
            "threads of %.*s do not share rows by %.*s / %d and columns by %.*s %% %d, as "
            "%s does",
            LOOP_NAME(p, warp), LOOP_NAME(p, warp), KILN_WARP_GROUP, LOOP_NAME(p, warp),
            KILN_WARP_GROUP, intrinsic->name);
    p->stmt.data[outer].loop_kind = KILN_LOOP_UNROLL;
    p->stmt.data[columns].loop_kind = KILN_LOOP_UNROLL;
    kiln_stmt_set_attribute(p, steps,
                            (kiln_attribute){.id = KILN_ATTRIBUTE_TENSORIZE,
                                             .row = (uint32_t)(intrinsic - kiln_intrinsics)});
    return NULL;
}

kiln_status kiln_prim_tensorize(kiln_program *p, const kiln_prim_args *args) {
    const kiln_intrinsic *intrinsic = kiln_intrinsic_find(args->text);
    if (!intrinsic) return ILLEGAL("there is no tensor intrinsic %.*s", KILN_STR_ARG(args->text));
    if (kiln_intrinsic_of_threads(intrinsic)) return tensorize_warp(p, args->loop[0], intrinsic);
    piece at = {0};
    kiln_expr load[KILN_INTRINSIC_OPERANDS];
    kiln_status st = find_piece(p, args->loop[0], intrinsic, &at);
    if (!st) st = check_roles(p, &at, intrinsic->owner == KILN_INTRINSIC_CORE);
    if (!st) st = check_value(p, &at, intrinsic, load);
    if (!st) st = kiln_iterations_check(p, at.lanes);
    if (st) return st;
    const bool tiles = kiln_intrinsic_in_tiles(intrinsic);
    const bool in_core = intrinsic->owner == KILN_INTRINSIC_CORE; /* its loops stay as they are */
    if (at.rows && !tiles && !in_core) p->stmt.data[at.rows].loop_kind = KILN_LOOP_UNROLL;
    if (!in_core) p->stmt.data[at.lanes].loop_kind = KILN_LOOP_VECTORIZE;
    if (!tiles && !in_core)
        p->stmt.data[at.steps].loop_kind = KILN_LOOP_UNROLL; /* else one instruction, or many */
    kiln_stmt_set_attribute(p, at.steps,
                            (kiln_attribute){.id = KILN_ATTRIBUTE_TENSORIZE,
                                             .row = (uint32_t)(intrinsic - kiln_intrinsics)});
    return NULL;
}
