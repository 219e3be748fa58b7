/* Which outer loops threads share. */
#include "tests/unit/compiler-core/rules/support.h"

/* A pointwise block over [n, c, h, w]. */
static kiln_sched images(kiln_arena *arena, int64_t n, int64_t c, int64_t h, int64_t w,
                         const kiln_target *target) {
    long long e[] = {(long long)n, (long long)c, (long long)h, (long long)w};
    const char *text = kiln_arena_printf(
        arena,
        "program p\ninput x: f32[%lld,%lld,%lld,%lld]\noutput y: f32[%lld,%lld,%lld,%lld]\n"
        "block b(n:%lld, c:%lld, h:%lld, w:%lld): y[n, c, h, w] = x[n, c, h, w]\n",
        e[0], e[1], e[2], e[3], e[0], e[1], e[2], e[3], e[0], e[1], e[2], e[3]);
    return kiln_sched_begin(parsed(arena, text), target, arena);
}

static void one_thread_and_little_work_are_not_shared(void **state) {
    kiln_target one = avx2_target(1), two = avx2_target(2);
    kiln_sched s = images(*state, 2, 64, 32, 32, &one);
    assert_int_equal(kiln_sketch_share(&s, 1, 4), 0);
    s = images(*state, 2, 4, 8, 8, &two);
    assert_int_equal(kiln_sketch_share(&s, 1, 4), 0);
    expect_lines(&s, 0, "");
}

static void as_few_loops_are_fused_as_keep_all_threads_busy(void **state) {
    kiln_target two = avx2_target(2), three = avx2_target(3);
    kiln_sched s = images(*state, 2, 64, 32, 32, &two);
    assert_int_equal(kiln_sketch_share(&s, 1, 4), 1);
    expect_lines(&s, 0, "parallel(b.n)\n");
    s = images(*state, 1, 64, 32, 32, &two);
    assert_int_equal(kiln_sketch_share(&s, 1, 4), 2);
    expect_lines(&s, 0, "fuse(b.n, b.c)\nparallel(b.n.f)\n");
    /* of 4 parts two thirds of the threads wait for the last; of 256 nearly none */
    s = images(*state, 1, 4, 64, 128, &three);
    assert_int_equal(kiln_sketch_share(&s, 1, 4), 3);
    expect_lines(&s, 0, "fuse(b.n, b.c, b.h)\nparallel(b.n.f)\n");
}

static void no_more_loops_are_shared_than_allowed(void **state) {
    kiln_target three = avx2_target(3);
    kiln_sched s = images(*state, 1, 4, 64, 128, &three);
    assert_int_equal(kiln_sketch_share(&s, 1, 2), 2);
    expect_lines(&s, 0, "fuse(b.n, b.c)\nparallel(b.n.f)\n");
    s = images(*state, 1, 4, 64, 128, &three);
    assert_int_equal(kiln_sketch_share(&s, 1, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(one_thread_and_little_work_are_not_shared),
        test_with_arena(as_few_loops_are_fused_as_keep_all_threads_busy),
        test_with_arena(no_more_loops_are_shared_than_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
