/* Single elements agree with the whole, and faults in what is compared are named. */
#include "compiler-core/ir/te_sample.h"

#include <string.h>

#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/test.h"

/* A product, its rows less their largest, transposed: temps, reductions, and indices out of order.
 */
static const char text[] = "program p\n"
                           "input x: f32[9,7]\n"
                           "constant w: f32[7,5]\n"
                           "output y: f32[5,9]\n"
                           "temp t: f32[9,5]\n"
                           "temp m: f32[9]\n"
                           "block product(i:9, j:5 | k:7): t[i, j] sum= x[i, k]*w[k, j] init 0.0\n"
                           "block most(i:9 | j:5): m[i] max= t[i, j] init -inf\n"
                           "block turned(j:5, i:9): y[j, i] = t[i, j] - m[i]\n";

typedef struct fixture {
    kiln_program *p;
    kiln_tensor arg[3];
} fixture;

static fixture *evaluated(kiln_arena *arena, const char *program) {
    fixture *f = KILN_ARENA_NEW(arena, fixture);
    expect_ok(kiln_program_parse(kiln_str_from(program), arena, &f->p));
    const kiln_buffer *buffer = kiln_program_args(f->p).buffer;
    assert_int_equal(kiln_program_args(f->p).count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const kiln_buffer_info *b = &f->p->buffer.data[buffer[i]];
        f->arg[i] = kiln_tensor_create(arena, b->dtype, &b->shape);
        kiln_fill_data(f->arg[i].data, b->dtype, (size_t)kiln_shape_count(&b->shape), i + 1,
                       KILN_FILL_UNIFORM);
    }
    expect_ok(kiln_te_eval(f->p, f->arg, 3));
    return f;
}

static kiln_te_sample *sample_of(const fixture *f, uint64_t points_max) {
    kiln_te_sample *s = NULL;
    expect_ok(kiln_te_sample_create(f->p, f->arg, 3, points_max, &s));
    return s;
}

static void each_element_is_that_of_the_whole(void **state) {
    fixture *f = evaluated(*state, text);
    kiln_te_sample *s = sample_of(f, 100000);
    for (int64_t j = 5; j-- > 0;)
        for (int64_t i = 0; i < 9; i++) {
            float element = 0;
            expect_ok(kiln_te_sample_get(s, 3, (int64_t[]){j, i}, &element));
            assert_true(element == ((float *)f->arg[2].data)[j * 9 + i]);
        }
    kiln_te_sample_destroy(s);
}

/* A row's largest takes five products: computed for one element of the row, they are known to the
 * others. */
static void only_what_an_element_depends_on_is_computed_and_only_once(void **state) {
    fixture *f = evaluated(*state, text);
    const uint64_t row = 5 * 7 + 5 + 1;
    float element;
    kiln_te_sample *s = sample_of(f, row - 1);
    expect_error(kiln_te_sample_get(s, 3, (int64_t[]){1, 2}, &element), RESOURCE_EXHAUSTED,
                 "points");
    kiln_te_sample_destroy(s);
    s = sample_of(f, row + 4);
    for (int64_t j = 0; j < 5; j++)
        expect_ok(kiln_te_sample_get(s, 3, (int64_t[]){j, 2}, &element));
    expect_error(kiln_te_sample_get(s, 3, (int64_t[]){0, 3}, &element), RESOURCE_EXHAUSTED,
                 "points");
    kiln_te_sample_destroy(s);
}

static kiln_status compare(const fixture *f, uint32_t count, uint32_t *out_compared) {
    kiln_te_sample *s = sample_of(f, 100000);
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    kiln_status st = kiln_te_sample_compare(s, &rand, count, NULL, out_compared);
    kiln_te_sample_destroy(s);
    return st;
}

static void a_wrong_part_is_named(void **state) {
    fixture *f = evaluated(*state, text);
    uint32_t compared = 0;
    expect_ok(compare(f, 60, &compared));
    assert_int_equal(compared, 60);
    for (int64_t j = 0; j < 5; j++) ((float *)f->arg[2].data)[j * 9 + 8] += 0.5f;
    expect_error(compare(f, 60, &compared), DATA_LOSS, "8] of y is");
}

static void integers_are_compared_exactly(void **state) {
    static const char sums[] = "program p\n"
                               "input x: i32[4,3]\n"
                               "constant w: i32[3]\n"
                               "output y: i32[4]\n"
                               "block sum(i:4 | k:3): y[i] sum= x[i, k]*w[k] init 0i32\n";
    fixture *f = evaluated(*state, sums);
    uint32_t compared = 0;
    expect_ok(compare(f, 20, &compared));
    for (uint32_t i = 0; i < 4; i++) ((int32_t *)f->arg[2].data)[i]++;
    expect_error(compare(f, 20, &compared), DATA_LOSS, "of y is");
}

/* A block that writes two elements for each of its points cannot be asked for one; the rest can. */
static void blocks_that_do_not_say_where_they_write_are_left_out(void **state) {
    static const char pairs[] = "program p\n"
                                "input x: f32[4]\n"
                                "constant w: f32[4]\n"
                                "output y: f32[8]\n"
                                "block pairs(i:4, k:2): y[i*2 + k] = x[i]*w[i]\n";
    fixture *f = evaluated(*state, pairs);
    uint32_t compared = 1;
    float element;
    kiln_te_sample *s = sample_of(f, 100);
    expect_error(kiln_te_sample_get(s, 3, (int64_t[]){3}, &element), UNIMPLEMENTED, "pairs");
    kiln_te_sample_destroy(s);
    expect_ok(compare(f, 20, &compared));
    assert_int_equal(compared, 0);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(each_element_is_that_of_the_whole),
        test_with_arena(only_what_an_element_depends_on_is_computed_and_only_once),
        test_with_arena(a_wrong_part_is_named),
        test_with_arena(integers_are_compared_exactly),
        test_with_arena(blocks_that_do_not_say_where_they_write_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
