/* Sums of bytes whose data change their sign, or get more steps, are the same sums. */
#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/test.h"
#include "tests/unit/compiler-core/sched/support.h"

static kiln_program *applied(kiln_algorithm algorithm, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_algorithm_apply(algorithm, te, arena);
    if (p) expect_ok(kiln_program_verify(p));
    return p;
}

/* A convolution with groups, strides and a block behind it, and a product of vectors. */
#define CONV(data, ic, each)                                             \
    "program p\ninput x: " data "[2," ic ",7,7]\nconstant w: i8[6," each \
    ",3,3]\noutput y: i32[2,6,3,3]\ntemp s: i32[2,6,3,3]\n"
#define GROUPED(data)                                                                         \
    CONV(data, "4", "2")                                                                      \
    "block conv(n:2, g:2, oc:3, oh:3, ow:3 | ic:2, kh:3, kw:3): s[n, g*3 + oc, oh, ow] sum= " \
    "i32(x[n, g*2 + ic, oh*2 + kh, ow*2 + kw])*i32(w[g*3 + oc, ic, kh, kw]) init 0i32\n" MORE
#define THREE(data)                                                                \
    CONV(data, "3", "3")                                                           \
    "block conv(n:2, oc:6, oh:3, ow:3 | ic:3, kh:3, kw:3): s[n, oc, oh, ow] sum= " \
    "i32(x[n, ic, oh*2 + kh, ow*2 + kw])*i32(w[oc, ic, kh, kw]) init 0i32\n" MORE
#define MORE "block more(i:2, j:6, k:3, l:3): y[i, j, k, l] = s[i, j, k, l] + 1i32\n"
#define DOT(data, k)                                                                   \
    "program p\ninput x: " data "[5," k "]\nconstant w: i8[" k "]\noutput y: i32[5]\n" \
    "block dot(m:5 | k:" k "): y[m] sum= i32(x[m, k])*i32(w[k]) init 0i32\n"

/* A sum for each channel, over a window of three rows and `kw` columns. */
#define TAPS(data, kw, column)                                                  \
    "program p\ninput x: " data "[2,6,7,7]\nconstant w: i8[6,3," kw "]\n"       \
    "output y: i32[2,6,3,3]\ntemp s: i32[2,6,3,3]\n"                            \
    "block conv(n:2, g:6, oh:3, ow:3 | kh:3, kw:" kw "): s[n, g, oh, ow] sum= " \
    "i32(x[n, g, oh*2 + kh, " column "])*i32(w[g, kh, kw]) init 0i32\n" MORE

static void sums_stay_what_they_are(void **state) {
    static const struct {
        kiln_algorithm algorithm;
        const char *text, *data;
    } tried[] = {
        {KILN_ALGORITHM_SIGNED_DATA, GROUPED("u8"), "i8[2,4,7,7]"},
        {KILN_ALGORITHM_UNSIGNED_DATA, GROUPED("i8"), "u8[2,4,7,7]"},
        {KILN_ALGORITHM_PADDED_DATA, THREE("u8"), "u8[2,4,7,7]"},
        {KILN_ALGORITHM_PADDED_DATA, THREE("i8"), "i8[2,4,7,7]"},
        {KILN_ALGORITHM_SIGNED_DATA, THREE("u8"), "i8[2,4,7,7]"},
        {KILN_ALGORITHM_UNSIGNED_DATA, THREE("i8"), "u8[2,4,7,7]"},
        {KILN_ALGORITHM_SIGNED_DATA, DOT("u8", "8"), "i8[5,8]"},
        {KILN_ALGORITHM_UNSIGNED_DATA, DOT("i8", "8"), "u8[5,8]"},
        {KILN_ALGORITHM_PADDED_DATA, DOT("i8", "9"), "i8[5,12]"},
        {KILN_ALGORITHM_UNSIGNED_DATA, DOT("i8", "9"), "u8[5,12]"},
        {KILN_ALGORITHM_SIGNED_DATA, TAPS("u8", "3", "ow*2 + kw"), "i8[2,6,7,7]"},
        {KILN_ALGORITHM_PADDED_TAPS, TAPS("u8", "3", "ow*2 + kw"), "u8[2,6,7,8]"},
        {KILN_ALGORITHM_PADDED_TAPS, TAPS("i8", "3", "ow + kw*2"), "i8[2,6,7,9]"},
        {KILN_ALGORITHM_PADDED_TAPS, TAPS("i8", "5", "ow + kw"), "i8[2,6,7,10]"},
        {KILN_ALGORITHM_SIGNED_TAPS, TAPS("u8", "2", "ow*2 + kw"), "i8[2,6,7,9]"},
        {KILN_ALGORITHM_UNSIGNED_TAPS, TAPS("i8", "3", "ow*2 + kw"), "u8[2,6,7,8]"},
        {KILN_ALGORITHM_WIDE_DATA, THREE("i8"), "i16[2,4,7,7]"},
        {KILN_ALGORITHM_WIDE_DATA, DOT("u8", "8"), "i16[5,8]"},
        {KILN_ALGORITHM_WIDE_DATA, DOT("i8", "9"), "i16[5,10]"},
        {KILN_ALGORITHM_WIDE_TAPS, TAPS("u8", "3", "ow*2 + kw"), "i16[2,6,7,8]"},
        {KILN_ALGORITHM_WIDE_TAPS, TAPS("i8", "4", "ow + kw"), "i16[2,6,7,7]"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(tried); i++) {
        kiln_program *te = parsed(*state, tried[i].text);
        kiln_program *p = applied(tried[i].algorithm, te, *state);
        assert_non_null(p);
        kiln_strbuf text = {0};
        kiln_program_print(p, &text);
        expect_contains(text.data, kiln_arena_printf(*state, "data: %s", tried[i].data));
        kiln_strbuf_deinit(&text);
        kiln_program_make_loops(p);
        expect_ok(same_result(te, p, *state));
    }
}

static void other_computations_are_left_alone(void **state) {
    static const char *const other[] = {
        /* weights that come at run time would be summed up at each run */
        "program p\ninput x: u8[5,8]\ninput w: i8[8]\noutput y: i32[5]\n"
        "block dot(m:5 | k:8): y[m] sum= i32(x[m, k])*i32(w[k]) init 0i32\n",
        /* unsigned weights */
        "program p\ninput x: u8[5,8]\nconstant w: u8[8]\noutput y: i32[5]\n"
        "block dot(m:5 | k:8): y[m] sum= i32(x[m, k])*i32(w[k]) init 0i32\n",
        /* each weight is used for several elements of a sum */
        "program p\ninput x: u8[5,8,2]\nconstant w: i8[8]\noutput y: i32[5]\n"
        "block dot(m:5 | k:8, l:2): y[m] sum= i32(x[m, k, l])*i32(w[k]) init 0i32\n",
        /* some of the weights only */
        "program p\ninput x: u8[5,4]\nconstant w: i8[8]\noutput y: i32[5]\n"
        "block dot(m:5 | k:4): y[m] sum= i32(x[m, k])*i32(w[k]) init 0i32\n",
        "program p\ninput x: u8[5,4]\nconstant w: i8[8]\noutput y: i32[5]\n"
        "block dot(m:5 | k:4): y[m] sum= i32(x[m, k])*i32(w[k*2]) init 0i32\n",
        /* wider data */
        "program p\ninput x: i16[5,8]\nconstant w: i8[8]\noutput y: i32[5]\n"
        "block dot(m:5 | k:8): y[m] sum= i32(x[m, k])*i32(w[k]) init 0i32\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(other); i++) {
        kiln_program *te = parsed(*state, other[i]);
        assert_null(applied(KILN_ALGORITHM_SIGNED_DATA, te, *state));
        assert_null(applied(KILN_ALGORITHM_UNSIGNED_DATA, te, *state));
        assert_null(applied(KILN_ALGORITHM_PADDED_DATA, te, *state));
        assert_null(applied(KILN_ALGORITHM_PADDED_TAPS, te, *state));
        assert_null(applied(KILN_ALGORITHM_WIDE_DATA, te, *state));
        assert_null(applied(KILN_ALGORITHM_WIDE_TAPS, te, *state));
    }
    assert_null(applied(KILN_ALGORITHM_SIGNED_DATA, parsed(*state, DOT("i8", "8")), *state));
    assert_null(applied(KILN_ALGORITHM_UNSIGNED_DATA, parsed(*state, DOT("u8", "8")), *state));
    /* whole groups of steps, and steps that are channels of a group */
    assert_null(applied(KILN_ALGORITHM_PADDED_DATA, parsed(*state, DOT("u8", "8")), *state));
    assert_null(applied(KILN_ALGORITHM_PADDED_DATA, parsed(*state, GROUPED("u8")), *state));
    assert_null(applied(KILN_ALGORITHM_WIDE_DATA, parsed(*state, GROUPED("u8")), *state));
    /* steps that two dimensions of the data run along: zeros behind one would not do */
    static const char *const twice[] = {
        "program p\ninput x: u8[5,7,7]\nconstant w: i8[7]\noutput y: i32[5]\n"
        "block dot(m:5 | k:7): y[m] sum= i32(x[m, k, k])*i32(w[k]) init 0i32\n",
        "program p\ninput x: u8[5,7,11]\nconstant w: i8[7]\noutput y: i32[5]\n"
        "block dot(m:5 | k:7): y[m] sum= i32(x[m, k, m + k])*i32(w[k]) init 0i32\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(twice); i++) {
        assert_null(applied(KILN_ALGORITHM_PADDED_DATA, parsed(*state, twice[i]), *state));
        assert_null(applied(KILN_ALGORITHM_PADDED_TAPS, parsed(*state, twice[i]), *state));
    }
    /* taps are steps where channels are none, and only if some are missing */
    kiln_program *taps = parsed(*state, TAPS("u8", "3", "ow*2 + kw"));
    assert_null(applied(KILN_ALGORITHM_PADDED_DATA, taps, *state));
    assert_null(applied(KILN_ALGORITHM_PADDED_TAPS, parsed(*state, THREE("u8")), *state));
    assert_null(applied(KILN_ALGORITHM_WIDE_DATA, taps, *state));
    assert_null(applied(KILN_ALGORITHM_WIDE_TAPS, parsed(*state, THREE("u8")), *state));
    taps = parsed(*state, TAPS("u8", "4", "ow + kw"));
    assert_null(applied(KILN_ALGORITHM_PADDED_TAPS, taps, *state));
    assert_null(applied(KILN_ALGORITHM_SIGNED_TAPS, taps, *state));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(sums_stay_what_they_are),
        test_with_arena(other_computations_are_left_alone),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/bytes", tests, NULL, NULL);
}
