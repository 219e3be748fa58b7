/* What facts count by affine analysis against counting by hand: every iteration of the loops
 * is run, and what it touches is written down. */
#include "compiler-core/facts/facts.h"

#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "compiler-core/rules/space.h"
#include "tests/unit/compiler-core/sched/support.h"

#define ELEMENTS_MAX (1 << 14)

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Value of an index or condition when variables have these values. */
static int64_t value_of(const kiln_program *p, kiln_expr e, const int64_t *var) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op == KILN_EXPR_INT) return node->payload.i;
    if (node->op == KILN_EXPR_VAR) return var[node->payload.id];
    int64_t a = value_of(p, kiln_expr_operand(p, e, 0), var);
    int64_t b = node->operand_count > 1 ? value_of(p, kiln_expr_operand(p, e, 1), var) : 0;
    switch ((kiln_expr_op)node->op) {
    case KILN_EXPR_ADD: return a + b;
    case KILN_EXPR_SUB: return a - b;
    case KILN_EXPR_MUL: return a * b;
    case KILN_EXPR_FLOORDIV: return floor_divide(a, b);
    case KILN_EXPR_FLOORMOD: return a - b * floor_divide(a, b);
    case KILN_EXPR_LT: return a < b;
    case KILN_EXPR_LE: return a <= b;
    case KILN_EXPR_AND: return a && b;
    default: fail_msg("an operator that no index here has"); return 0;
    }
}

/* One access of one statement while the loops from `level` inwards run. */
typedef struct counting {
    const kiln_facts *facts;
    const kiln_facts_statement *s;
    const kiln_facts_access *a; /* NULL: points are counted */
    uint32_t level;
    int64_t *var;
    kiln_expr index[KILN_RANK_MAX];
    bool touched[ELEMENTS_MAX];
    int64_t now, most, points;
} counting;

static void touch(counting *c) {
    const kiln_program *p = c->facts->p;
    const kiln_block_info *b = &p->block.data[c->s->block];
    if (b->predicate && !value_of(p, b->predicate, c->var)) return;
    c->points++;
    if (!c->a) return;
    for (uint32_t i = 0; i < b->iter_count; i++)
        c->var[b->iter[i].var] = value_of(p, b->iter[i].binding, c->var);
    const kiln_shape *shape = &p->buffer.data[c->a->buffer].shape;
    int64_t at = 0;
    for (uint32_t d = 0; d < c->a->rank; d++) {
        int64_t index = value_of(p, c->index[d], c->var);
        if (index < 0 || index >= shape->dim[d]) return; /* guarded by a select */
        at = at * shape->dim[d] + index;
    }
    assert_in_range(at, 0, ELEMENTS_MAX - 1);
    c->now += !c->touched[at];
    c->touched[at] = true;
}

static void run(counting *c, uint32_t depth) {
    if (depth == c->level) {
        memset(c->touched, 0, sizeof c->touched);
        c->now = 0;
    }
    if (depth == c->s->depth) {
        touch(c);
    } else {
        const kiln_facts_loop *loop = &c->facts->loop[c->s->path[depth]];
        for (int64_t i = 0; i < loop->extent; i++) {
            c->var[loop->var] = i;
            run(c, depth + 1);
        }
    }
    if (depth == c->level && c->now > c->most) c->most = c->now;
}

static int64_t count_points(const kiln_facts *facts, const kiln_facts_statement *s,
                            kiln_arena *arena) {
    counting *c = KILN_ARENA_NEW(arena, counting);
    c->facts = facts;
    c->s = s;
    c->var = KILN_ARENA_ARRAY(arena, int64_t, facts->p->var.count);
    run(c, 0);
    return c->points;
}

typedef struct finding {
    kiln_buffer buffer;
    kiln_expr *index;
    uint32_t count;
    bool found;
} finding;

static void find_load(kiln_program *p, kiln_expr load, void *context) {
    finding *f = context;
    if (kiln_expr_get(p, load)->payload.id != f->buffer) return;
    f->found = true;
    for (uint32_t d = 0; d < f->count; d++) f->index[d] = kiln_expr_operand(p, load, d);
}

/* The most distinct elements that any iteration of the outer loops touches. */
static int64_t count_elements(const kiln_facts *facts, const kiln_facts_statement *s,
                              const kiln_facts_access *a, uint32_t level, kiln_arena *arena) {
    counting *c = KILN_ARENA_NEW(arena, counting);
    c->facts = facts;
    c->s = s;
    c->a = a;
    c->level = level;
    c->var = KILN_ARENA_ARRAY(arena, int64_t, facts->p->var.count);
    const kiln_block_info *b = &facts->p->block.data[s->block];
    memcpy(c->index, b->index, sizeof c->index);
    if (!a->stores) {
        finding f = {a->buffer, c->index, a->rank, false};
        kiln_expr_visit_loads((kiln_program *)(uintptr_t)facts->p, b->value, 0, find_load, &f);
        assert_true(f.found);
    }
    run(c, 0);
    return c->most;
}

/* Exact where no tile reaches beyond its domain and no select guards the access, which may be at
 * several places, some of them beyond a border; else what a full tile would touch. Returns how many
 * counts were compared exactly. */
static uint32_t check_statement(const kiln_facts *facts, const kiln_facts_statement *s) {
    const bool whole = s->points == s->iterations;
    uint32_t compared = 0;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 1 << 16);
    assert_int_equal(llround(s->points), count_points(facts, s, &scratch));
    for (uint32_t i = 0; i < s->access_count; i++) {
        const kiln_facts_access *a = &s->access[i];
        for (uint32_t d = 0; d < a->rank; d++) assert_true(a->index[d].exact);
        for (uint32_t level = a->home_level; level <= s->depth; level++) {
            kiln_arena_reset(&scratch);
            int64_t counted = count_elements(facts, s, a, level, &scratch);
            compared += whole && !a->conditional;
            bool right = whole && !a->conditional ? (int64_t)a->elements[level] == counted
                                                  : (int64_t)a->elements[level] >= counted;
            if (!right)
                fail_msg("block %u, access %u, level %u of %u: %g elements, counted %lld", s->block,
                         i, level, s->depth, a->elements[level], (long long)counted);
        }
    }
    kiln_arena_deinit(&scratch);
    return compared;
}

/* Random schedules of one computation. */
static void check_draws(kiln_program *te, uint32_t draws) {
    kiln_target target = avx2;
    kiln_space space;
    kiln_arena arena;
    kiln_arena_init(&arena, 1 << 16);
    expect_ok(kiln_space_create(te, &target, te->arena, &space));
    uint32_t compared = 0;
    for (uint32_t i = 0; i < draws; i++) {
        kiln_rand rand;
        kiln_trace trace;
        kiln_program *program = NULL;
        kiln_rand_init(&rand, i);
        expect_ok(kiln_space_sample(&space, &rand, &arena, &trace, &program));
        const kiln_facts *facts = kiln_facts_create(program, 64, &arena);
        uint32_t run_statements = 0;
        for (uint32_t k = 0; k < facts->statement_count; k++) {
            if (facts->statement[k].prepare) continue;
            run_statements++;
            compared += check_statement(facts, &facts->statement[k]);
        }
        assert_in_range(run_statements, 1, facts->statement_count);
        kiln_arena_reset(&arena);
    }
    kiln_arena_deinit(&arena);
    assert_in_range(compared, 100, UINT32_MAX);
}

static void matrix_products_touch_what_is_counted(void **state) {
    check_draws(matmul_program(*state, 13, 24, 12), 12);
}

static void padded_convolutions_touch_what_is_counted(void **state) {
    const conv_shape shape = {1, 6, 6, 6, 16, 3, 3, 1, 1, true};
    check_draws(conv_program(*state, &shape), 10);
}

static void strided_convolutions_touch_what_is_counted(void **state) {
    const conv_shape shape = {1, 4, 8, 12, 8, 3, 3, 2, 1, false};
    check_draws(conv_program(*state, &shape), 10);
}

static const kiln_facts *facts_of(kiln_program *program, kiln_arena *arena) {
    return kiln_facts_create(program, 64, arena);
}

static void operations_are_counted_by_type(void **state) {
    const conv_shape shape = {1, 4, 6, 6, 8, 3, 3, 1, 1, true};
    const kiln_facts *facts = facts_of(schedule(conv_program(*state, &shape), ""), *state);
    double macs = 0, adds = 0;
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        macs += facts->statement[i].ops[KILN_OPS_F32_MAC] * facts->statement[i].points;
        adds += facts->statement[i].ops[KILN_OPS_F32_ADD] * facts->statement[i].points;
    }
    assert_int_equal((int64_t)macs, 8 * 6 * 6 * 4 * 9);
    assert_int_equal((int64_t)adds, 2 * 8 * 6 * 6); /* bias, and the maximum of relu */
}

static void lines_follow_the_layout(void **state) {
    static const char plain[] = "reorder(matmul.k, matmul.n)\n";
    static const char packed[] = "reorder(matmul.k, matmul.n)\n"
                                 "cache_read(matmul, w, \"global\")\n"
                                 "transform_layout(w.read, \"d1/{0},d0,d1%{0}\", 16)\n"
                                 "split(matmul.n, -1, 16)\n"
                                 "reorder(matmul.n.0, matmul.k, matmul.n.1)\n";
    kiln_program *te = matmul_program(*state, 4, 64, 32);
    const kiln_facts *a = facts_of(schedule(te, plain), *state);
    const kiln_facts *b = facts_of(schedule(te, packed), *state);
    const kiln_facts_statement *row = &a->statement[0], *panel = NULL;
    for (uint32_t i = 0; i < b->statement_count; i++)
        if (b->statement[i].reduction) panel = &b->statement[i];
    assert_non_null(panel);
    /* One k: 64 consecutive floats are 4 lines; a panel of 16 columns is one line a row, and its
     * rows follow each other. */
    assert_int_equal((int64_t)row->access[2].lines[row->depth - 1], 4);
    assert_int_equal((int64_t)row->access[2].run[row->depth - 1], 256);
    assert_int_equal((int64_t)panel->access[2].lines[panel->depth - 2], 32);
    assert_int_equal((int64_t)panel->access[2].run[panel->depth - 2], 32 * 64);
}

static void work_on_constants_is_not_counted(void **state) {
    kiln_program *te = matmul_program(*state, 4, 16, 8);
    const kiln_facts *facts = facts_of(schedule(te, "cache_read(matmul, w, \"global\")\n"), *state);
    uint32_t prepared = 0;
    for (uint32_t i = 0; i < facts->statement_count; i++) prepared += facts->statement[i].prepare;
    assert_int_equal(facts->statement_count, 2);
    assert_int_equal(prepared, 1);
}

static void every_access_of_a_block_is_listed(void **state) {
    kiln_arena *arena = *state;
    char *sum = kiln_str_dup(arena, KILN_STR("x[i, 0]"));
    for (uint32_t k = 1; k < 100; k++) sum = kiln_arena_printf(arena, "%s + x[i, %u]", sum, k);
    kiln_program *te =
        parsed(arena, kiln_arena_printf(arena,
                                        "program wide\ninput x: f32[8,100]\noutput y: f32[8]\n"
                                        "block c(i:8): y[i] = %s\n",
                                        sum));
    const kiln_facts *facts = facts_of(schedule(te, ""), arena);
    assert_int_equal(facts->statement_count, 1);
    assert_int_equal(facts->statement[0].access_count, 101);
}

static void loops_of_any_depth_are_listed(void **state) {
    kiln_program *p = schedule(chain_program(*state, 4, 6), deep_split(*state, "a.i", 4, 100));
    const kiln_facts *facts = facts_of(p, *state);
    const kiln_facts_statement *s = &facts->statement[0];
    assert_in_range(s->depth, 102, 120);
    assert_int_equal((int64_t)s->access[0].elements[0], 24);
    assert_int_equal((int64_t)s->access[0].elements[s->depth], 1);
}

static void tiles_are_the_innermost_flat_loops(void **state) {
    kiln_program *te = matmul_program(*state, 12, 64, 32);
    kiln_program *p =
        schedule(te, "split(matmul.m, 3, 4)\nsplit(matmul.n, 4, 16)\n"
                     "split(matmul.k, 16, 2)\n"
                     "reorder(matmul.m.0, matmul.n.0, matmul.k.0, matmul.k.1, "
                     "matmul.m.1, matmul.n.1)\ndecompose_reduction(matmul, matmul.k.0)\n"
                     "vectorize(matmul.n.1)\nunroll(matmul.m.1)\nunroll(matmul.k.1)\n");
    const kiln_facts *facts = facts_of(p, *state);
    const kiln_facts_statement *s = NULL;
    for (uint32_t i = 0; i < facts->statement_count; i++)
        if (facts->statement[i].reduction) s = &facts->statement[i];
    assert_non_null(s);
    assert_int_equal(s->tile.level, 4); /* the program, m.0, n.0, k.0 */
    assert_int_equal((int64_t)s->tile.lanes, 16);
    assert_int_equal((int64_t)s->tile.spatial, 4);
    assert_int_equal((int64_t)s->tile.reduce, 2);
}

/* What must be near at once: tiles of two copies that a loop around them fills again and again. */
static void temps_are_cut_to_what_lives_at_once(void **state) {
    kiln_program *te = matmul_program(*state, 16, 32, 64);
    kiln_program *p = schedule(te, "cache_read(matmul, x, \"global\")\n"
                                   "split(matmul.k, 8, 8)\nreorder(matmul.k.0, matmul.m)\n"
                                   "compute_at(x.read, matmul.k.0)\n");
    kiln_buffer copy = kiln_program_find_buffer(p, KILN_STR("x.read"));
    const kiln_facts *facts = facts_of(p, *state);
    uint32_t loop = 0;
    while (facts->loop[loop].stmt != kiln_program_find_loop(p, KILN_STR("matmul.k.0"))) loop++;
    assert_int_equal(facts->home[copy], loop);
    assert_int_equal(kiln_shape_count(&facts->shape[copy]), 16 * 8);
    const kiln_facts_statement *s = &facts->statement[facts->statement_count - 1];
    kiln_var n = p->stmt.data[kiln_program_find_loop(p, KILN_STR("matmul.n"))].var,
             m = p->stmt.data[kiln_program_find_loop(p, KILN_STR("matmul.m"))].var;
    assert_int_equal(kiln_facts_stride(facts, &s->access[0], n), 1); /* y: neighbours */
    assert_int_equal(kiln_facts_stride(facts, &s->access[0], m), 32);
    assert_int_equal(kiln_facts_stride(facts, &s->access[1], n), 0); /* x.read: shared by all n */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(matrix_products_touch_what_is_counted),
        test_with_arena(padded_convolutions_touch_what_is_counted),
        test_with_arena(strided_convolutions_touch_what_is_counted),
        test_with_arena(operations_are_counted_by_type),
        test_with_arena(lines_follow_the_layout),
        test_with_arena(work_on_constants_is_not_counted),
        test_with_arena(every_access_of_a_block_is_listed),
        test_with_arena(loops_of_any_depth_are_listed),
        test_with_arena(tiles_are_the_innermost_flat_loops),
        test_with_arena(temps_are_cut_to_what_lives_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
