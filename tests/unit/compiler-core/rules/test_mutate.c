/* Moves between closed traces: legal, right, different, and able to reach what the space holds. */
#include "compiler-core/rules/mutate.h"

#include "base/map.h"
#include "tests/unit/compiler-core/sched/support.h"

static const conv_shape small_conv = {1, 8, 6, 7, 16, 3, 3, 1, 1, true};

typedef struct walk {
    kiln_target target;
    kiln_space space;
    kiln_program *te, *program;
    kiln_trace trace;
    kiln_rand rand;
} walk;

static void walk_begin(walk *w, kiln_program *te) {
    w->target = avx2;
    w->te = te;
    kiln_rand_init(&w->rand, 3);
    assert_null(kiln_space_create(te, &w->target, te->arena, &w->space));
    assert_null(kiln_space_default(&w->space, te->arena, &w->trace, &w->program));
}

/* One legal move; illegal ones are drawn again, as searchers do. */
static void walk_step(walk *w) {
    for (uint32_t i = 0; i < 64; i++) {
        kiln_trace moved;
        kiln_status st =
            kiln_space_mutate(&w->space, &w->trace, &w->rand, w->te->arena, &moved, &w->program);
        if (!st) {
            w->trace = moved;
            return;
        }
        assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
        kiln_status_free(st);
    }
    fail_msg("no legal move in 64");
}

static void moves_keep_what_the_program_computes(void **state) {
    kiln_program *programs[] = {conv_program(*state, &small_conv),
                                matmul_program(*state, 13, 24, 12)};
    for (size_t i = 0; i < 2; i++) {
        walk w;
        walk_begin(&w, programs[i]);
        for (uint32_t step = 0; step < 24; step++) {
            walk_step(&w);
            kiln_status st =
                same_result_by(kiln_trace_algorithm(&w.trace), w.te, w.program, w.te->arena);
            if (st) fail_msg("%s", kiln_status_text(st));
        }
    }
}

static void a_moved_trace_differs_and_replays_to_the_same_program(void **state) {
    walk w;
    walk_begin(&w, conv_program(*state, &small_conv));
    for (uint32_t step = 0; step < 24; step++) {
        kiln_trace before = w.trace, again;
        kiln_program *program = NULL;
        walk_step(&w);
        assert_true(kiln_trace_distance(&before, &w.trace) > 0);
        assert_null(kiln_trace_replay(&w.trace, w.te, NULL, w.te->arena, &program, &again));
        kiln_hash128 one = kiln_trace_hash(&w.trace), two = kiln_trace_hash(&again);
        assert_memory_equal(&one, &two, sizeof one);
    }
}

/* Every decision changes sooner or later, and so does the sketch. */
static void moves_reach_every_decision_and_sketch(void **state) {
    walk w;
    walk_begin(&w, conv_program(*state, &small_conv));
    kiln_trace first = w.trace;
    kiln_map seen;
    kiln_map_init(&seen);
    uint32_t moved[KILN_TRACE_INSTRUCTIONS_MAX] = {0}, other_sketch = 0;
    for (uint32_t step = 0; step < 400; step++) {
        walk_step(&w);
        char hash[KILN_HASH128_TEXT];
        kiln_hash128_print(kiln_trace_hash(&w.trace), hash);
        kiln_map_put(&seen, kiln_str_from(hash), 1);
        if (w.trace.count != first.count) continue;
        for (uint32_t i = 0; i < first.count; i++)
            moved[i] += w.trace.instruction[i].decision_count &&
                        first.instruction[i].decision_count &&
                        w.trace.instruction[i].decision[0] != first.instruction[i].decision[0];
        kiln_operand *a = NULL, *b = NULL;
        for (uint32_t i = 0; i < first.count; i++)
            if (first.instruction[i].prim == KILN_PRIM_REORDER && !a) {
                a = first.instruction[i].operand;
                b = w.trace.instruction[i].operand;
            }
        for (uint32_t k = 0; a && k < 12; k++)
            other_sketch += !kiln_str_equal(a[k].text, b[k].text);
    }
    assert_true(kiln_map_count(&seen) > 100);
    assert_true(other_sketch > 0);
    for (uint32_t i = 0; i < first.count; i++)
        if (first.instruction[i].prim == KILN_PRIM_CHOICE) assert_true(moved[i] > 0);
    kiln_map_deinit(&seen);
}

static bool has_decision(const kiln_trace *trace, uint32_t at, const kiln_instruction *in) {
    return trace->instruction[at].decision[0] == in->decision[0];
}

/* Tables of rows never snap, so a child's rows are those of its parents, if both have the tables.
 */
static void a_child_takes_its_decisions_from_its_parents(void **state) {
    walk w;
    walk_begin(&w, conv_program(*state, &small_conv));
    kiln_trace first = w.trace, child;
    for (uint32_t step = 0;
         step < 40 || kiln_trace_algorithm(&w.trace) != kiln_trace_algorithm(&first); step++)
        walk_step(&w);
    kiln_program *program = NULL;
    uint32_t children = 0;
    for (uint32_t i = 0; i < 32; i++) {
        kiln_status st =
            kiln_space_cross(&w.space, &first, &w.trace, &w.rand, w.te->arena, &child, &program);
        if (st) {
            kiln_status_free(st);
            continue;
        }
        children++;
        for (uint32_t k = 0; k < child.count; k++)
            if (child.instruction[k].prim == KILN_PRIM_CHOICE)
                assert_true(has_decision(&first, k, &child.instruction[k]) ||
                            has_decision(&w.trace, k, &child.instruction[k]));
        assert_null(same_result_by(kiln_trace_algorithm(&child), w.te, program, w.te->arena));
    }
    assert_true(children > 4);
}

static void a_trace_without_decisions_has_no_neighbours(void **state) {
    walk w;
    walk_begin(&w, chain_program(*state, 1, 1));
    kiln_trace moved;
    for (uint32_t i = 0; i < w.trace.count; i++)
        if (w.trace.instruction[i].decision_count) return; /* the rule grew decisions */
    kiln_status st =
        kiln_space_mutate(&w.space, &w.trace, &w.rand, w.te->arena, &moved, &w.program);
    assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
    kiln_status_free(st);
}

/* Also after the way through bytes, as records take it. */
static void a_space_holds_its_own_traces_and_no_others(void **state) {
    walk w, other;
    walk_begin(&w, conv_program(*state, &small_conv));
    walk_begin(&other, matmul_program(*state, 12, 32, 16));
    for (uint32_t step = 0; step < 12; step++) {
        kiln_strbuf bytes = {0};
        kiln_trace again;
        walk_step(&w);
        kiln_trace_encode(&w.trace, &bytes);
        assert_null(kiln_trace_decode(kiln_strbuf_view(&bytes), w.te->arena, &again));
        kiln_strbuf_deinit(&bytes);
        assert_true(kiln_space_holds(&w.space, &again));
        assert_false(kiln_space_holds(&other.space, &again));
    }
}

static void distance_counts_decisions(void **state) {
    walk w;
    walk_begin(&w, matmul_program(*state, 12, 32, 16));
    assert_true(kiln_trace_distance(&w.trace, &w.trace) == 0);
    kiln_trace before = w.trace;
    walk_step(&w);
    double once = kiln_trace_distance(&before, &w.trace);
    assert_true(once > 0);
    assert_true(once == kiln_trace_distance(&w.trace, &before));
}

/* Another core's space of the same program. */
static void elsewhere(const walk *w, const char *target, kiln_target *out_target, kiln_space *out) {
    assert_null(kiln_target_parse(kiln_str_from(target), w->te->arena, out_target));
    assert_null(kiln_space_create(w->te, out_target, w->te->arena, out));
}

static const char *const core_table[] = {"x86-64", "x86-64-v4", "rpi3", "rpi5", "pynq"};

/* Walks through the space of one core; what is adopted into another's is a member there and right.
 */
static void adopted_traces_are_members_and_right(void **state) {
    kiln_program *programs[] = {conv_program(*state, &small_conv),
                                matmul_program(*state, 13, 24, 12)};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(programs) * KILN_ARRAY_COUNT(core_table); i++) {
        walk w;
        kiln_target target;
        kiln_space other;
        uint32_t adopted = 0;
        walk_begin(&w, programs[i % KILN_ARRAY_COUNT(programs)]);
        elsewhere(&w, core_table[i / KILN_ARRAY_COUNT(programs)], &target, &other);
        for (uint32_t step = 0; step < 12; step++) {
            kiln_trace trace, again;
            kiln_program *program = NULL;
            kiln_status st = kiln_space_adopt(&other, &w.trace, w.te->arena, &trace, &program);
            if (st) assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
            if (!st) {
                adopted++;
                assert_true(kiln_space_holds(&other, &trace));
                assert_null(
                    same_result_by(kiln_trace_algorithm(&trace), w.te, program, w.te->arena));
                assert_null(kiln_space_adopt(&other, &w.trace, w.te->arena, &again, NULL));
                assert_true(kiln_trace_distance(&trace, &again) == 0);
            }
            kiln_status_free(st);
            walk_step(&w);
        }
        if (adopted < 6) fail_msg("%u of 12 for %s", adopted, core_table[i / 2]);
    }
}

static void a_space_adopts_its_own_traces_as_they_are(void **state) {
    walk w;
    walk_begin(&w, conv_program(*state, &small_conv));
    for (uint32_t step = 0; step < 24; step++) {
        kiln_trace trace;
        walk_step(&w);
        assert_null(kiln_space_adopt(&w.space, &w.trace, w.te->arena, &trace, NULL));
        kiln_hash128 one = kiln_trace_hash(&w.trace), two = kiln_trace_hash(&trace);
        assert_memory_equal(&one, &two, sizeof one);
    }
}

static kiln_instruction *first_choice(const kiln_trace *trace) {
    kiln_instruction *in = trace->instruction;
    while (in->prim != KILN_PRIM_CHOICE) assert_true(++in < trace->instruction + trace->count);
    return in;
}

static int64_t number(const kiln_instruction *in, uint32_t column) {
    uint32_t width = (uint32_t)in->operand[0].factor[0].value;
    return in->operand[1 + (uint32_t)in->decision[0] * width + column].factor[0].value;
}

/* Tables of cores differ in order and content: a tile of so many rows by so many vectors stays one
 * where the other core knows it. */
static void adopted_rows_keep_their_numbers(void **state) {
    walk w;
    kiln_target target;
    kiln_space other;
    uint32_t moved = 0;
    static const conv_shape wide_conv = {1, 64, 28, 28, 64, 3, 3, 1, 1, true};
    walk_begin(&w, conv_program(*state, &wide_conv));
    elsewhere(&w, "rpi4", &target, &other);
    kiln_instruction *ours = first_choice(&w.trace);
    int64_t width = ours->operand[0].factor[0].value;
    for (int64_t row = 0; row * width + 1 < ours->operand_count; row++) {
        kiln_trace trace;
        kiln_program *program = NULL;
        ours->decision[0] = row;
        kiln_status st = kiln_space_adopt(&other, &w.trace, w.te->arena, &trace, &program);
        bool legal = !st;
        kiln_status_free(st);
        if (!legal) continue;
        kiln_instruction *theirs = first_choice(&trace), at = *theirs;
        for (at.decision[0] = 0; at.decision[0] * width + 1 < at.operand_count; at.decision[0]++) {
            bool same = true;
            for (uint32_t k = 0; k < width; k++) same &= number(&at, k) == number(ours, k);
            if (!same) continue;
            assert_int_equal(theirs->decision[0], at.decision[0]);
            moved += at.decision[0] != row;
        }
    }
    assert_true(moved > 0); /* or the tables were alike, and nothing was shown */
}

static void a_trace_of_another_computation_is_not_adopted(void **state) {
    walk w, other;
    kiln_trace trace;
    walk_begin(&w, conv_program(*state, &small_conv));
    walk_begin(&other, chain_program(*state, 6, 8));
    kiln_status st = kiln_space_adopt(&w.space, &other.trace, w.te->arena, &trace, NULL);
    assert_int_equal(kiln_status_code(st), KILN_ILLEGAL_SCHEDULE);
    kiln_status_free(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(moves_keep_what_the_program_computes),
        test_with_arena(a_moved_trace_differs_and_replays_to_the_same_program),
        test_with_arena(moves_reach_every_decision_and_sketch),
        test_with_arena(a_child_takes_its_decisions_from_its_parents),
        test_with_arena(a_trace_without_decisions_has_no_neighbours),
        test_with_arena(a_space_holds_its_own_traces_and_no_others),
        test_with_arena(distance_counts_decisions),
        test_with_arena(adopted_traces_are_members_and_right),
        test_with_arena(a_space_adopts_its_own_traces_as_they_are),
        test_with_arena(adopted_rows_keep_their_numbers),
        test_with_arena(a_trace_of_another_computation_is_not_adopted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
