/* Sums of integers of few bits that count ones are the same sums. */
#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/rules/space.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/sched/support.h"

static kiln_program *applied(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_algorithm_apply(KILN_ALGORITHM_BIT_PLANES, te, arena);
    if (p) expect_ok(kiln_program_verify(p));
    return p;
}

/* A convolution of so many channels with padding and strides, and a block behind it. */
#define CONV(data, fill, weights, ic)                                                    \
    "program p\ninput x: " data "\nconstant w: " weights "\noutput y: i32[2,6,4,4]\n"    \
    "temp s: i32[2,6,4,4]\ntemp p: " fill "[2," ic ",9,9]\n"                             \
    "block pad(n:2, c:" ic ", h:9, w:9): p[n, c, h, w] = select(and(1 <= h, and(h < 8, " \
    "and(1 <= w, w < 8))), x[n, c, h - 1, w - 1], 0" fill ")\n"                          \
    "block conv(n:2, oc:6, oh:4, ow:4 | ic:" ic ", kh:3, kw:3): s[n, oc, oh, ow] sum= "  \
    "i32(p[n, ic, oh*2 + kh, ow*2 + kw])*i32(w[oc, ic, kh, kw]) init 0i32\n"             \
    "block more(i:2, j:6, k:4, l:4): y[i, j, k, l] = s[i, j, k, l] + 1i32\n"
#define SQUARE(dtype, ic) dtype "[2," ic ",7,7]"
#define TAPS(dtype, ic) dtype "[6," ic ",3,3]"
#define DOT(data, weights)                                                        \
    "program p\ninput x: " data "\nconstant w: " weights "\noutput y: i32[5,7]\n" \
    "block dot(m:5, o:7 | k:40): y[m, o] sum= i32(w[k, o])*i32(x[m, k]) init 0i32\n"

static void sums_stay_what_they_are(void **state) {
    static const struct {
        const char *text, *planes; /* of the data, or of the weights where that is told apart */
    } tried[] = {
        {CONV(SQUARE("u8", "32") " range(0, 3)", "u8", TAPS("i8", "32") " range(-1, 1, 2)", "32"),
         "conv.bits: u32[2,1,9,9,2]"},
        {CONV(SQUARE("u8", "40") " range(0, 1)", "u8", TAPS("i8", "40") " range(-1, 1, 2)", "40"),
         "conv.bits: u32[2,2,9,9,1]"},
        {CONV(SQUARE("i8", "32") " range(-2, 1)", "i8", TAPS("i8", "32") " range(-1, 1, 2)", "32"),
         "conv.weights: u32[6,1,3,3,1]"},
        {CONV(SQUARE("i8", "20") " range(-2, 1)", "i8", TAPS("i8", "20") " range(-2, 1)", "20"),
         "conv.weights: u32[6,1,3,3,2]"},
        {CONV(SQUARE("u8", "32") " range(0, 3)", "u8", TAPS("u8", "32") " range(0, 1)", "32"),
         "conv.weights: u32[6,1,3,3,1]"},
        {CONV(SQUARE("u8", "32") " range(0, 3)", "u8", TAPS("i8", "32") " range(-3, 3, 2)", "32"),
         "conv.weights: u32[6,1,3,3,2]"},
        {CONV(SQUARE("i8", "32") " range(-1, 0)", "i8", TAPS("i8", "32") " range(-1, 0)", "32"),
         "conv.bits: u32[2,1,9,9,1]"},
        {DOT("u8[5,40] range(0, 3)", "i8[40,7] range(-1, 1, 2)"), "dot.bits: u32[5,2,2]"},
        {DOT("u8[5,40] range(0, 15)", "i8[40,7] range(-1, 1, 2)"), "dot.bits: u32[5,2,4]"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(tried); i++) {
        kiln_program *te = parsed(*state, tried[i].text);
        kiln_program *p = applied(te, *state);
        assert_non_null(p);
        kiln_strbuf text = {0};
        kiln_program_print(p, &text);
        expect_contains(text.data, tried[i].planes);
        kiln_strbuf_deinit(&text);
        kiln_program_make_loops(p);
        expect_ok(same_result(te, p, *state));
    }
}

static void other_computations_are_left_alone(void **state) {
    static const char *const other[] = {
        DOT("u8[5,40]", "i8[40,7] range(-1, 1, 2)"),          /* any bytes */
        DOT("u8[5,40] range(0, 3)", "i8[40,7]"),              /* any weights */
        DOT("u8[5,40] range(0, 7)", "i8[40,7] range(-2, 1)"), /* too many planes */
        /* weights that come at run time would be packed at each run */
        "program p\ninput x: u8[5,40] range(0, 3)\ninput w: i8[40,7] range(-1, 1, 2)\n"
        "output y: i32[5,7]\n"
        "block dot(m:5, o:7 | k:40): y[m, o] sum= i32(w[k, o])*i32(x[m, k]) init 0i32\n",
        /* few channels */
        "program p\ninput x: u8[5,8] range(0, 3)\nconstant w: i8[8,7] range(-1, 1, 2)\n"
        "output y: i32[5,7]\n"
        "block dot(m:5, o:7 | k:8): y[m, o] sum= i32(w[k, o])*i32(x[m, k]) init 0i32\n",
        /* some of the channels */
        "program p\ninput x: u8[5,80] range(0, 3)\nconstant w: i8[40,7] range(-1, 1, 2)\n"
        "output y: i32[5,7]\n"
        "block dot(m:5, o:7 | k:40): y[m, o] sum= i32(w[k, o])*i32(x[m, k]) init 0i32\n",
        /* channels that two dimensions run along */
        "program p\ninput x: u8[5,40,40] range(0, 3)\nconstant w: i8[40,7] range(-1, 1, 2)\n"
        "output y: i32[5,7]\n"
        "block dot(m:5, o:7 | k:40): y[m, o] sum= i32(w[k, o])*i32(x[m, k, k]) init 0i32\n",
        /* a padding beyond the range, of more bits with it */
        CONV(SQUARE("u8", "32") " range(250, 251)", "u8", TAPS("i8", "32") " range(-1, 1, 2)",
             "32"),
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(other); i++)
        assert_null(applied(parsed(*state, other[i]), *state));
}

/* Planes are unrolled, so that nothing is fetched ahead in loops over them. */
static void many_weights_of_two_bits_have_a_space(void **state) {
    const kiln_program *te =
        parsed(*state, "program p\ninput x: u8[1,512,9,9] range(0, 3)\n"
                       "constant w: i8[512,512,3,3] range(-2, 1)\noutput y: i32[1,512,7,7]\n"
                       "block conv(n:1, oc:512, oh:7, ow:7 | ic:512, kh:3, kw:3): y[n, oc, oh, ow] "
                       "sum= i32(x[n, ic, oh + kh, ow + kw])*i32(w[oc, ic, kh, kw]) init 0i32\n");
    kiln_space space;
    uint32_t counting = 0;
    expect_ok(kiln_space_create(te, &avx2, *state, &space));
    for (uint32_t i = 0; i < space.sketch_count; i++)
        counting += kiln_trace_algorithm(&space.sketch[i].preferred) == KILN_ALGORITHM_BIT_PLANES;
    assert_true(counting > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(sums_stay_what_they_are),
        test_with_arena(other_computations_are_left_alone),
        test_with_arena(many_weights_of_two_bits_have_a_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
