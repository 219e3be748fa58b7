/* The loop interpreter: what it computes and what its shadow memory finds. */
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/ir/support.h"

/* Runs with x = 1, 2, 3, ... and returns the status; the first output is left in `*out`. */
static kiln_status run(const kiln_program *test, const char *text, kiln_tensor *out) {
    kiln_program *p = parse(test, text);
    kiln_tensor args[64];
    uint32_t count = make_args(p, 1, args);
    for (uint32_t i = 0; i < count; i++) {
        kiln_arg_buffers arg = kiln_program_args(p);
        bool is_output = p->buffer.data[arg.buffer[i]].role == KILN_ROLE_OUTPUT;
        if (is_output) *out = args[i];
        for (int64_t k = 0; !is_output && k < kiln_shape_count(&args[i].shape); k++)
            kiln_dtype_store_f64(args[i].dtype, args[i].data, (size_t)k, (double)(k + 1));
    }
    return kiln_loop_eval(p, args, count);
}

static void expect_output(const kiln_program *test, const char *text, const double *wanted) {
    kiln_tensor out;
    kiln_status st = run(test, text, &out);
    if (st) fail_msg("%s", kiln_status_text(st));
    for (int64_t i = 0; i < kiln_shape_count(&out.shape); i++)
        assert_true(kiln_dtype_load_f64(out.dtype, out.data, (size_t)i) == wanted[i]);
}

static void expect_finding(const kiln_program *test, const char *text, const char *part) {
    kiln_tensor out;
    expect_error(run(test, text, &out), FAILED_PRECONDITION, part);
}

static void reductions_start_where_their_iterators_are_zero(void **state) {
    expect_output(*state,
                  "program sum\n"
                  "input x: f32[2,3]\n"
                  "output y: f32[2]\n"
                  "block sum(a:2 | b:3): y[a] sum= x[a, b] init 10.0\n"
                  "loops:\n"
                  "  for b in 3:\n"
                  "    for a in 2:\n"
                  "      block sum(a=a, b=b)\n",
                  (const double[]){16, 25});
}

static void predicates_skip_and_initialisers_replace_init(void **state) {
    expect_output(*state,
                  "program sum\n"
                  "input x: f32[2,3]\n"
                  "output y: f32[2]\n"
                  "block sum(a:2 | b:3): y[a] sum= x[a, b] without init\n"
                  "block sum.init(a:2) of sum: y[a] = 1.0\n"
                  "loops:\n"
                  "  parallel a in 2:\n"
                  "    block sum.init(a=a)\n"
                  "    for b in 4:\n"
                  "      block sum(a=a, b=b) if b < 3\n",
                  (const double[]){7, 16});
}

static void stores_round_to_the_dtype(void **state) {
    expect_output(*state,
                  "program add\n"
                  "input x: f32[2]\n"
                  "output y: f32[2]\n"
                  "loops:\n"
                  "  for i in 2:\n"
                  "    y[i] = x[i] + 16777216.0\n",
                  (const double[]){16777216, 16777218});
}

static void the_side_not_selected_is_not_read(void **state) {
    expect_output(*state,
                  "program pad\n"
                  "input x: f32[2]\n"
                  "output y: f32[4]\n"
                  "block pad(i:4): y[i] = select(and(1 <= i, i < 3), x[i - 1], 0.0)\n"
                  "loops:\n"
                  "  vectorize i in 4:\n"
                  "    block pad(i=i)\n",
                  (const double[]){0, 1, 2, 0});
}

static void reads_outside_are_found(void **state) {
    expect_finding(*state,
                   "program shift\n"
                   "input x: f32[4]\n"
                   "output y: f32[4]\n"
                   "loops:\n"
                   "  for i in 4:\n"
                   "    if i < 4:\n"
                   "      y[i] = x[i + 1]\n",
                   "x[4] is read and lies outside, the store to y, i=3");
}

static void elements_never_written_are_found(void **state) {
    expect_finding(*state,
                   "program early\n"
                   "input x: f32[4]\n"
                   "output y: f32[4]\n"
                   "temp t: f32[4]\n"
                   "block first(i:4): t[i] = x[i]\n"
                   "block second(i:4): y[i] = t[i] + t[3 - i]\n"
                   "loops:\n"
                   "  for i in 4:\n"
                   "    block first(i=i)\n"
                   "    block second(i=i)\n",
                   "t[3] is read and was never written, block second");
    expect_finding(*state,
                   "program short\n"
                   "input x: f32[4]\n"
                   "output y: f32[4]\n"
                   "loops:\n"
                   "  for i in 3:\n"
                   "    y[i] = x[i]\n",
                   "element 3 of output y is never written");
}

static const char two_writers[] = "program race\n"
                                  "input x: f32[4]\n"
                                  "output y: f32[2]\n"
                                  "loops:\n"
                                  "  %s i in 4:\n"
                                  "    y[floordiv(i, 2)] = x[i]\n";

static void two_iterations_that_write_one_element_race(void **state) {
    const kiln_program *p = *state;
    expect_finding(p, kiln_arena_printf(p->arena, two_writers, "parallel"),
                   "several iterations of concurrent loop i");
    expect_finding(p, kiln_arena_printf(p->arena, two_writers, "vectorize"),
                   "several iterations of concurrent loop i");
    expect_finding(p, kiln_arena_printf(p->arena, two_writers, "bind(cluster)"),
                   "several iterations of concurrent loop i");
    expect_output(p, kiln_arena_printf(p->arena, two_writers, "for"), (const double[]){2, 4});
    expect_output(p, kiln_arena_printf(p->arena, two_writers, "unroll"), (const double[]){2, 4});
}

static void reading_what_another_iteration_writes_races(void **state) {
    expect_finding(*state,
                   "program race\n"
                   "output y: f32[4]\n"
                   "loops:\n"
                   "  y[0] = 1.0\n"
                   "  parallel i in 1..4:\n"
                   "    y[i] = y[i - 1]\n",
                   "y[1] is read and written in several iterations");
    expect_finding(*state, /* the read comes first, from two iterations */
                   "program race\n"
                   "output y: f32[4]\n"
                   "output z: f32[4]\n"
                   "loops:\n"
                   "  for i in 4:\n"
                   "    y[i] = 1.0\n"
                   "  parallel i in 4:\n"
                   "    z[i] = y[3]\n"
                   "    if 3 <= i:\n"
                   "      y[3] = 2.0\n",
                   "y[3] is written and touched in several iterations");
}

static void a_parallel_reduction_races(void **state) {
    expect_finding(*state,
                   "program sum\n"
                   "input x: f32[4]\n"
                   "output y: f32[]\n"
                   "block sum( | b:4): y[] sum= x[b] init 0.0\n"
                   "loops:\n"
                   "  parallel b in 4:\n"
                   "    block sum(b=b)\n",
                   "concurrent loop b");
}

static void loops_one_after_another_do_not_race(void **state) {
    expect_output(*state,
                  "program chain\n"
                  "input x: f32[4]\n"
                  "output y: f32[4]\n"
                  "temp t: f32[4]\n"
                  "block first(i:4): t[i] = x[i]\n"
                  "block second(i:4): y[i] = t[3 - i]\n"
                  "loops:\n"
                  "  for n in 1:\n"
                  "    parallel i in 4:\n"
                  "      block first(i=i)\n"
                  "    parallel i in 4:\n"
                  "      block second(i=i)\n",
                  (const double[]){4, 3, 2, 1});
}

static void a_temp_inside_a_parallel_loop_is_private(void **state) {
    expect_output(*state, /* t[0] is written by every iteration of i, for itself */
                  "program private\n"
                  "input x: f32[4]\n"
                  "output y: f32[4]\n"
                  "temp t: f32[1]\n"
                  "loops:\n"
                  "  parallel i in 4:\n"
                  "    alloc t:\n"
                  "      t[0] = x[i]\n"
                  "      y[i] = t[0]\n",
                  (const double[]){1, 2, 3, 4});
    expect_finding(*state,
                   "program shared\n"
                   "input x: f32[4]\n"
                   "output y: f32[4]\n"
                   "temp t: f32[1]\n"
                   "loops:\n"
                   "  alloc t:\n"
                   "    parallel i in 4:\n"
                   "      t[0] = x[i]\n"
                   "      y[i] = t[0]\n",
                   "concurrent loop i");
}

static void an_allocation_starts_uninitialised_each_time(void **state) {
    expect_finding(*state,
                   "program stale\n"
                   "input x: f32[4]\n"
                   "output y: f32[4]\n"
                   "temp t: f32[1]\n"
                   "loops:\n"
                   "  for i in 4:\n"
                   "    alloc t:\n"
                   "      if i < 1:\n"
                   "        t[0] = x[i]\n"
                   "      y[i] = t[0]\n",
                   "t[0] is read and was never written, the store to y, i=1");
}

static void a_temp_outside_of_its_allocation_is_found(void **state) {
    kiln_program *p = parse(*state, "program late\n"
                                    "input x: f32[4]\n"
                                    "output y: f32[4]\n"
                                    "temp t: f32[1]\n"
                                    "loops:\n"
                                    "  for i in 4:\n"
                                    "    alloc t:\n"
                                    "      t[0] = x[i]\n"
                                    "      y[i] = t[0]\n");
    kiln_tensor args[64];
    uint32_t count = make_args(p, 1, args);
    kiln_stmt read = 0;
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (p->stmt.data[s].kind == KILN_STMT_STORE) read = s; /* the last one */
    kiln_stmt_remove(p, read);
    kiln_stmt_append(p, kiln_program_find_loop(p, KILN_STR("i")), read);
    expect_error(kiln_program_verify(p), INTERNAL, "outside of its alloc");
    expect_error(kiln_loop_eval(p, args, count), FAILED_PRECONDITION, "outside of its alloc");
}

/* Lowering copies code, and the allocation in it. */
static void a_temp_may_be_allocated_in_several_places(void **state) {
    kiln_program *p = parse(*state, "program twice\n"
                                    "input x: f32[4]\n"
                                    "output y: f32[4]\n"
                                    "temp t: f32[1]\n"
                                    "loops:\n"
                                    "  parallel i in 4:\n"
                                    "    if i < 2:\n"
                                    "      alloc t:\n"
                                    "        t[0] = x[i]\n"
                                    "        y[i] = t[0]\n"
                                    "    if 2 <= i:\n"
                                    "      alloc t:\n"
                                    "        t[0] = x[i]\n"
                                    "        y[i] = t[0]\n");
    kiln_tensor args[64];
    uint32_t count = make_args(p, 1, args);
    expect_ok(kiln_loop_eval(p, args, count));
    assert_memory_equal(args[0].data, args[1].data, 4 * sizeof(float));
}

static void running_outside_the_domain_is_found(void **state) {
    expect_finding(*state,
                   "program over\n"
                   "input x: f32[4]\n"
                   "output y: f32[4]\n"
                   "block copy(i:4): y[i] = x[i]\n"
                   "loops:\n"
                   "  for i in 6:\n"
                   "    block copy(i=i) if i < 5\n",
                   "outside its domain");
}

static void tensors_must_fit_the_arguments(void **state) {
    kiln_program *p = parse(*state, "program copy\n"
                                    "input x: f32[4]\n"
                                    "output y: f32[4]\n"
                                    "loops:\n"
                                    "  for i in 4:\n"
                                    "    y[i] = x[i]\n");
    kiln_tensor args[64];
    make_args(p, 1, args);
    expect_error(kiln_loop_eval(p, args, 1), INVALID_ARGUMENT, "2 arguments");
    args[1].dtype = KILN_I32;
    expect_error(kiln_loop_eval(p, args, 2), INVALID_ARGUMENT, "argument y");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(reductions_start_where_their_iterators_are_zero),
        PROGRAM_TEST(predicates_skip_and_initialisers_replace_init),
        PROGRAM_TEST(stores_round_to_the_dtype),
        PROGRAM_TEST(the_side_not_selected_is_not_read),
        PROGRAM_TEST(reads_outside_are_found),
        PROGRAM_TEST(elements_never_written_are_found),
        PROGRAM_TEST(two_iterations_that_write_one_element_race),
        PROGRAM_TEST(reading_what_another_iteration_writes_races),
        PROGRAM_TEST(a_parallel_reduction_races),
        PROGRAM_TEST(loops_one_after_another_do_not_race),
        PROGRAM_TEST(a_temp_inside_a_parallel_loop_is_private),
        PROGRAM_TEST(an_allocation_starts_uninitialised_each_time),
        PROGRAM_TEST(a_temp_outside_of_its_allocation_is_found),
        PROGRAM_TEST(a_temp_may_be_allocated_in_several_places),
        PROGRAM_TEST(running_outside_the_domain_is_found),
        PROGRAM_TEST(tensors_must_fit_the_arguments),
    };
    return cmocka_run_group_tests_name("compiler-core/ir/loop_eval", tests, NULL, NULL);
}
