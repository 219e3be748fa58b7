/* Compiled programs compute what the interpreter says, for random programs at every optimisation
 * level and on every x86-64 level that this machine runs. */
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/lower/lower.h"
#include "tests/support/program_generate.h"
#include "tests/unit/compiler-core/codegen/support.h"

#define SEEDS 150

static kiln_program *generate(kiln_arena *arena, uint64_t seed) {
    const kiln_generate_options options = {
        .blocks_max = 5, .points_max = 600, .floats_only = seed % 2 == 0};
    kiln_rand r;
    kiln_rand_init(&r, seed);
    return kiln_program_generate(&r, &options, arena);
}

static void compare_on(const char *target_text, uint32_t optimise, uint64_t first, uint64_t last) {
    kiln_arena arena;
    skip_unless_runs_here(target_text);
    kiln_arena_init(&arena, 0);
    for (uint64_t seed = first; seed <= last; seed++) {
        kiln_arena_reset(&arena);
        kiln_target target = target_of(&arena, target_text);
        kiln_program *te = generate(&arena, seed);
        kiln_program *loops = kiln_program_copy(te, &arena);
        kiln_program_make_loops(loops);
        kiln_status st = expect_compiled_equals(te, loops, &target, optimise, seed);
        if (st) fail_msg("seed %llu: %s", (unsigned long long)seed, kiln_status_text(st));
    }
    kiln_arena_deinit(&arena);
}

static void unscheduled_programs_run_unoptimised(void **state) {
    (void)state;
    compare_on("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3", 0, 1, SEEDS);
}

static void unscheduled_programs_run_on_avx2(void **state) {
    (void)state;
    compare_on("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3", 2, 1, SEEDS);
}

static void unscheduled_programs_run_on_sse2(void **state) {
    (void)state;
    compare_on("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64", 2, 1, SEEDS);
}

static void unscheduled_programs_run_on_avx512(void **state) {
    (void)state;
    compare_on("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4", 2, 1, SEEDS);
}

/* The code that generating code ends with, 0 for none, where every statement of a lowered program
 * was changed by `spoil`. */
static int code_of_spoiled(kiln_arena *arena, void (*spoil)(kiln_stmt_info *s)) {
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .optimise = 2};
    kiln_target target = plain_target(arena);
    kiln_program *p = generate(arena, 1);
    kiln_lowered lowered;
    kiln_str bytes;
    uint64_t scratch, worker;
    kiln_program_make_loops(p);
    kiln_status st = kiln_lower(p, &target, arena, &lowered);
    if (st) fail_msg("%s", kiln_status_text(st));
    for (kiln_stmt i = 1; i < lowered.run->stmt.count; i++) spoil(&lowered.run->stmt.data[i]);
    st = kiln_codegen(&lowered, &target, &options, arena, &bytes, &scratch, &worker);
    int code = st ? (int)kiln_status_code(st) : 0;
    kiln_status_free(st);
    return code;
}

static void keep(kiln_stmt_info *s) { (void)s; }
static void bind_loops(kiln_stmt_info *s) {
    if (s->kind == KILN_STMT_FOR) s->loop_kind = KILN_LOOP_BIND;
}
static void widen_vectors(kiln_stmt_info *s) {
    if (s->kind != KILN_STMT_FOR) return;
    s->loop_kind = KILN_LOOP_VECTORIZE;
    s->extent = KILN_LOWER_LANES_MAX + 1;
}
static void put_barriers(kiln_stmt_info *s) {
    if (s->kind == KILN_STMT_STORE) s->kind = KILN_STMT_BARRIER;
}

static void what_no_builder_can_make_is_refused(void **state) {
    kiln_arena *arena = *state;
    assert_int_equal(code_of_spoiled(arena, keep), 0);
    assert_int_equal(code_of_spoiled(arena, bind_loops), KILN_UNIMPLEMENTED);
    assert_int_equal(code_of_spoiled(arena, widen_vectors), KILN_UNIMPLEMENTED);
    assert_int_equal(code_of_spoiled(arena, put_barriers), KILN_UNIMPLEMENTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unscheduled_programs_run_unoptimised),
        cmocka_unit_test(unscheduled_programs_run_on_avx2),
        cmocka_unit_test(unscheduled_programs_run_on_sse2),
        cmocka_unit_test(unscheduled_programs_run_on_avx512),
        test_with_arena(what_no_builder_can_make_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
