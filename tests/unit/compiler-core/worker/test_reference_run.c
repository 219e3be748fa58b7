/* References at real sizes, right and with a fault planted in what is compiled. */
#include "compiler-core/worker/reference_run.h"

#include <string.h>

#include "base/reference.h"
#include "compiler-core/core.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

/* A product and a softmax-like division of its rows; `value` is what the product sums up. */
#define PROGRAM(value)                                                      \
    "program p\n"                                                           \
    "input a: f32[300,40]\n"                                                \
    "constant b: f32[40,500]\n"                                             \
    "output y: f32[300,500]\n"                                              \
    "output n: i32[300]\n"                                                  \
    "temp t: f32[300,500]\n"                                                \
    "temp s: f32[300]\n"                                                    \
    "block product(i:300, j:500 | k:40): t[i, j] sum= " value " init 0.0\n" \
    "block sum(i:300 | j:500): s[i] sum= exp(t[i, j]) init 0.0\n"           \
    "block y(i:300, j:500): y[i, j] = exp(t[i, j])/s[i]\n"                  \
    "block n(i:300 | k:40): n[i] sum= i32(a[i, k]*10.0) init 0i32\n"

static const char right[] = PROGRAM("a[i, k]*b[k, j]");

/* Compiles `compiled` and takes it for the reference of `wanted`. */
static kiln_status run(kiln_arena *arena, const char *wanted, const char *compiled,
                       kiln_reference *out) {
    kiln_program *te = NULL, *other = NULL;
    kiln_target target = plain_target(arena);
    kiln_artefact artefact;
    kiln_strbuf encoded = {0}, bytes = {0};
    expect_ok(kiln_program_parse(kiln_str_from(wanted), arena, &te));
    expect_ok(kiln_program_parse(kiln_str_from(compiled), arena, &other));
    expect_ok(kiln_build_reference(other, KILN_STR("v2:0"), &target, arena, &artefact));
    kiln_artefact_encode(&artefact, &encoded);
    kiln_status st = kiln_reference_run(te, kiln_strbuf_view(&encoded), 5, arena, &bytes);
    if (!st) {
        void *copy = kiln_arena_alloc_aligned(arena, 64, bytes.size);
        memcpy(copy, bytes.data, bytes.size);
        expect_ok(kiln_reference_decode((kiln_str){copy, bytes.size}, out));
    }
    kiln_strbuf_deinit(&encoded);
    kiln_strbuf_deinit(&bytes);
    return st;
}

static void references_of_real_sizes_agree_with_the_interpreter(void **state) {
    kiln_reference reference;
    expect_ok(run(*state, right, right, &reference));
    assert_int_equal(reference.output_count, 2);
    assert_non_null(reference.output[0].bound);
    assert_null(reference.output[1].bound);
}

/* Faults that no small shape has: behind the 256th column, in the last rows, in integers, in the
 * sum of a long row. */
static void faults_that_only_real_sizes_have_are_named(void **state) {
    static const struct {
        const char *compiled, *named;
    } fault[] = {
        {PROGRAM("select(j < 256, a[i, k]*b[k, j], 0.0)"), "of y is"},
        {PROGRAM("select(i < 280, a[i, k]*b[k, j], a[i, k])"), "of y is"},
        {PROGRAM("select(k < 32, a[i, k]*b[k, j], 0.0)"), "of y is"},
    };
    kiln_reference unused;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(fault); i++)
        expect_error(run(*state, right, fault[i].compiled, &unused), DATA_LOSS, fault[i].named);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(references_of_real_sizes_agree_with_the_interpreter),
        test_with_arena(faults_that_only_real_sizes_have_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
