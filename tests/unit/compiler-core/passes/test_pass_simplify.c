/* The rows of simplify.def: each does what no other row does, keeps what the graph computes, and
 * knows where to stop. */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/graph/graph_text.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/passes/rewrite.h"
#include "tests/unit/compiler-core/graph/support.h"

#define HEAD                                                                                       \
    "graph g\ninput x: f32[1,2,3,3]\ninput i: i32[2]\nconstant w: f32[1,2,2,2] = [1, 2, 3, 4, 5, " \
    "6, 7, 8]\n"                                                                                   \
    "constant zero: f32[1] = [0]\nconstant ones: f32[2,1,1] = [1, 1]\nconstant two: f32[1] = "     \
    "[2]\n"                                                                                        \
    "constant three: f32[] = [3]\nconstant ifive: i32[1] = [5]\n"

/* Layer normalisation in the operators that exporters write. */
#define NORM(axes, mean, square, sum)                                                            \
    "constant tiny: f32[] = [0.001]\nm: f32[" mean "] = reduce_mean(x) axes=" axes               \
    "\nd: f32[1,2,3,3] = sub(x, m)\nq: f32[1,2,3,3] = " square "\nv: f32[" mean                  \
    "] = reduce_mean(q) axes=" axes "\ne: f32[" mean "] = " sum "\nr: f32[" mean "] = sqrt(e)\n" \
    "y: f32[1,2,3,3] = div(d, r)\n"

/* A convolution of bytes. */
#define BYTES(type, weights, zero)                                                          \
    "input bx: u8[1,1,3]\nconstant bw: " type "[1,1,2] = [" weights "]\nconstant bz: " type \
    "[] = [" zero "]\n"
#define CONV "y: i32[1,1,2] = conv_integer(bx, bw, bz, bz)\noutput y\n"

/* Bytes b and c that stand for floats d and e, by one quantum. */
#define QUANTISED(zero)                                                                           \
    "input b: u8[1,2,2,2]\ninput c: u8[1,2,2,2]\nconstant s: f32[] = [0.5]\nconstant t: f32[] = " \
    "[0.25]\nconstant q: u8[] = [" zero "]\nd: f32[1,2,2,2] = dequantize_linear(b, s, q)\n"
#define AGAIN "e: f32[1,2,2,2] = dequantize_linear(c, s, q)\n"
#define NEGATED "z: f32[1,2,2,2] = neg(y)\noutput z\n"

typedef struct example {
    kiln_simplify_row row;
    bool applies;
    const char *body;
} example;

static const example table[] = {
    {KILN_SIMPLIFY_NEUTRAL, true,
     "a: f32[1,2,3,3] = add(zero, x)\ny: f32[1,2,3,3] = neg(a)\noutput y\n"},
    {KILN_SIMPLIFY_NEUTRAL, true,
     "a: f32[1,2,3,3] = mul(x, ones)\ny: f32[1,2,3,3] = neg(a)\noutput y\n"},
    {KILN_SIMPLIFY_NEUTRAL, true,
     "a: f32[1,2,3,3] = sub(x, zero)\ny: f32[1,2,3,3] = neg(a)\noutput y\n"},
    {KILN_SIMPLIFY_NEUTRAL, true,
     "a: f32[1,2,3,3] = div(x, ones)\ny: f32[1,2,3,3] = neg(a)\noutput y\n"},
    {KILN_SIMPLIFY_NEUTRAL, false,
     "a: f32[1,2,3,3] = sub(zero, x)\ny: f32[1,2,3,3] = neg(a)\noutput y\n"},
    {KILN_SIMPLIFY_NEUTRAL, false,
     "a: f32[1,2,3,3] = div(ones, x)\ny: f32[1,2,3,3] = neg(a)\noutput y\n"},
    {KILN_SIMPLIFY_NEUTRAL, false,
     "constant r: f32[2,1,1,1] = [1, 1]\na: f32[2,2,3,3] = mul(x, r)\noutput a\n"},
    {KILN_SIMPLIFY_NEUTRAL, false,
     "y: f32[1,2,3,3] = add(x, zero)\noutput y\n"}, /* an output is no input */
    {KILN_SIMPLIFY_SIGNED_WEIGHTS, true, BYTES("u8", "131, 0", "128") CONV},
    {KILN_SIMPLIFY_SIGNED_WEIGHTS, true, BYTES("u8", "9, 130", "3") CONV},
    {KILN_SIMPLIFY_SIGNED_WEIGHTS, true, BYTES("i8", "-120, 7", "7") CONV},
    {KILN_SIMPLIFY_SIGNED_WEIGHTS, true,
     BYTES("u8", "3, 127", "0") "y: i32[1,1,2] = conv_integer(bx, bw)\noutput y\n"},
    {KILN_SIMPLIFY_SIGNED_WEIGHTS, false, BYTES("u8", "9, 132", "3") CONV}, /* 129 is no i8 */
    {KILN_SIMPLIFY_SIGNED_WEIGHTS, false, BYTES("i8", "-127, 7", "7") CONV},
    {KILN_SIMPLIFY_SIGNED_WEIGHTS, false,
     BYTES("i8", "-127, 7", "7") "y: i32[1,1,2] = conv_integer(bx, bw)\noutput y\n"},
    {KILN_SIMPLIFY_SIGNED_WEIGHTS, false,
     "input bx: u8[1,1,3]\ninput bw: u8[1,1,2]\nconstant bz: u8[] = [3]\n" CONV},
    {KILN_SIMPLIFY_TWICE, true, "a: f32[1,2,3,3] = relu(x)\nb: f32[1,2,3,3] = relu(a)\noutput b\n"},
    {KILN_SIMPLIFY_TWICE, true, "a: f32[1,2,3,3] = abs(x)\nb: f32[1,2,3,3] = abs(a)\noutput b\n"},
    {KILN_SIMPLIFY_TWICE, false, "a: f32[1,2,3,3] = exp(x)\nb: f32[1,2,3,3] = exp(a)\noutput b\n"},
    {KILN_SIMPLIFY_TWICE, false, "a: f32[1,2,3,3] = relu(x)\nb: f32[1,2,3,3] = abs(a)\noutput b\n"},
    {KILN_SIMPLIFY_UNDONE, true,
     "a: f32[1,2,3,3] = neg(x)\nb: f32[1,2,3,3] = neg(a)\ny: f32[1,2,3,3] = exp(b)\noutput y\n"},
    {KILN_SIMPLIFY_GATHERED, true,
     "a: f32[1,2,3,3] = add(x, two)\nb: f32[1,2,3,3] = add(three, a)\noutput b\n"},
    {KILN_SIMPLIFY_GATHERED, true,
     "a: f32[1,2,3,3] = mul(two, x)\nb: f32[1,2,3,3] = mul(a, three)\noutput b\noutput a\n"},
    {KILN_SIMPLIFY_GATHERED, false,
     "a: f32[1,2,3,3] = add(x, two)\nb: f32[1,2,3,3] = mul(a, three)\noutput b\n"},
    {KILN_SIMPLIFY_GATHERED, false,
     "a: i32[2] = mul(i, ifive)\nb: i32[2] = mul(a, ifive)\noutput b\n"},
    {KILN_SIMPLIFY_CASTS, true,
     "a: i64[2] = cast(i) to=\"i64\"\nb: f32[2] = cast(a) to=\"f32\"\noutput b\n"},
    {KILN_SIMPLIFY_CASTS, true,
     "a: i64[2] = cast(i) to=\"i64\"\nb: i32[2] = cast(a) to=\"i32\"\ny: i32[2] = neg(b)\noutput "
     "y\n"},
    {KILN_SIMPLIFY_CASTS, false,
     "a: i32[1,2,3,3] = cast(x) to=\"i32\"\nb: f32[1,2,3,3] = cast(a) to=\"f32\"\noutput b\n"},
    {KILN_SIMPLIFY_VIEWS, true,
     "a: f32[6,3] = reshape(x) shape=[6,3]\nb: f32[9,2] = reshape(a) shape=[9,2]\noutput b\n"},
    {KILN_SIMPLIFY_VIEWS, true,
     "a: f32[2,3,3] = squeeze(x) axes=[0]\nb: f32[1,2,3,3] = unsqueeze(a) axes=[0]\n"
     "y: f32[1,2,3,3] = neg(b)\noutput y\n"},
    {KILN_SIMPLIFY_VIEWS, false,
     "a: f32[6,3] = reshape(x) shape=[6,3]\nb: i32[6,3] = bit_cast(a) to=\"i32\"\noutput b\n"},
    {KILN_SIMPLIFY_VIEWS, false,
     "a: i32[1,2,3,3] = bit_cast(x) to=\"i32\"\nb: i32[6,3] = reshape(a) shape=[6,3]\noutput b\n"},
    {KILN_SIMPLIFY_VIEWS, true,
     "a: i32[1,2,3,3] = bit_cast(x) to=\"i32\"\nb: f32[1,2,3,3] = bit_cast(a) to=\"f32\"\n"
     "y: f32[1,2,3,3] = neg(b)\noutput y\n"},
    {KILN_SIMPLIFY_TRANSPOSES, true,
     "a: f32[3,1,2,3] = transpose(x) perm=[2,0,1,3]\n"
     "b: f32[3,3,2,1] = transpose(a) perm=[3,0,2,1]\noutput b\n"},
    {KILN_SIMPLIFY_TRANSPOSES, true,
     "a: f32[3,3,2,1] = transpose(x)\nb: f32[1,2,3,3] = transpose(a)\n"
     "y: f32[1,2,3,3] = neg(b)\noutput y\n"},
    {KILN_SIMPLIFY_FLAT_TRANSPOSE, true,
     "a: f32[2,3,1,3] = transpose(x) perm=[1,2,0,3]\noutput a\n"},
    {KILN_SIMPLIFY_FLAT_TRANSPOSE, false,
     "a: f32[1,3,2,3] = transpose(x) perm=[0,2,1,3]\noutput a\n"},
    {KILN_SIMPLIFY_NORM, true, NORM("[-1]", "1,2,3,1", "pow(d, two)", "add(v, tiny)") "output y\n"},
    {KILN_SIMPLIFY_NORM, true,
     NORM("[2,3]", "1,2,1,1", "mul(d, d)",
          "add(tiny, v)") "z: f32[1,2,3,3] = mul(y, three)\noutput z\n"},
    {KILN_SIMPLIFY_NORM, false, NORM("[2]", "1,2,1,3", "mul(d, d)", "add(v, tiny)") "output y\n"},
    {KILN_SIMPLIFY_NORM, false, NORM("[3]", "1,2,3,1", "mul(d, x)", "add(v, tiny)") "output y\n"},
    {KILN_SIMPLIFY_NORM, false, NORM("[3]", "1,2,3,1", "mul(x, x)", "add(v, tiny)") "output y\n"},
    {KILN_SIMPLIFY_REQUANTISED, true,
     QUANTISED("3") "y: u8[1,2,2,2] = quantize_linear(d, s, q)\nz: f32[1,2,2,2] = cast(y) "
                    "to=\"f32\"\noutput z\noutput d\n"},
    {KILN_SIMPLIFY_REQUANTISED, false, /* another scale; d has two readers, so it stays */
     QUANTISED("3") "y: u8[1,2,2,2] = quantize_linear(d, t, q)\noutput y\noutput d\n"},
    {KILN_SIMPLIFY_REQUANTISED, false, /* another zero point */
     QUANTISED("3") "constant p: u8[] = [4]\ny: u8[1,2,2,2] = quantize_linear(d, s, p)\noutput "
                    "y\noutput d\n"},
    {KILN_SIMPLIFY_REQUANTISED, false, /* another type */
     QUANTISED("3") "constant p: i8[] = [3]\ny: i8[1,2,2,2] = quantize_linear(d, s, p)\noutput "
                    "y\noutput d\n"},
    {KILN_SIMPLIFY_REQUANTISED, false, /* to fewer bits */
     QUANTISED("3") "y: u8[1,2,2,2] = quantize_linear(d, s, q) bits=2\noutput y\noutput d\n"},
    {KILN_SIMPLIFY_REQUANTISED, true, /* of as few bits already, through what moves them */
     QUANTISED("1") "k: f32[1,2,2,2] = sigmoid(d)\n"
                    "n: u8[1,2,2,2] = quantize_linear(k, t, q) bits=2\n"
                    "m: u8[8] = reshape(n) shape=[8]\nf: f32[8] = dequantize_linear(m, s, q)\n"
                    "y: u8[8] = quantize_linear(f, s, q) bits=2\noutput f\n"
                    "z: f32[8] = cast(y) to=\"f32\"\noutput z\n"},
    {KILN_SIMPLIFY_CUT_TWICE, true, /* 1.6 is 3, the largest of 2 bits */
     QUANTISED("0") "constant f: f32[] = [1.6]\nconstant g: f32[] = [0]\n"
                    "k: f32[1,2,2,2] = sigmoid(d)\nl: f32[1,2,2,2] = clip(k, g, f)\n"
                    "y: u8[1,2,2,2] = quantize_linear(l, s, q) bits=2\noutput y\n"},
    {KILN_SIMPLIFY_CUT_TWICE, true, /* from 0 to 1 is one bit */
     QUANTISED("0") "constant f: f32[] = [0.5]\nconstant g: f32[] = [0]\n"
                    "k: f32[1,2,2,2] = sigmoid(d)\nl: f32[1,2,2,2] = clip(k, g, f)\n"
                    "y: u8[1,2,2,2] = quantize_linear(l, s, q) bits=2\noutput y\n"},
    {KILN_SIMPLIFY_CUT_TWICE, false, /* from 0 to 2 is no number of bits */
     QUANTISED("0") "constant f: f32[] = [1]\nconstant g: f32[] = [0]\n"
                    "k: f32[1,2,2,2] = sigmoid(d)\nl: f32[1,2,2,2] = clip(k, g, f)\n"
                    "y: u8[1,2,2,2] = quantize_linear(l, s, q) bits=2\noutput y\n"},
    {KILN_SIMPLIFY_CUT_TWICE, true,
     QUANTISED("0") "k: f32[1,2,2,2] = sigmoid(d)\nl: f32[1,2,2,2] = relu(k)\n"
                    "y: u8[1,2,2,2] = quantize_linear(l, s, q)\noutput y\n"},
    {KILN_SIMPLIFY_CUT_TWICE, true, /* 127.4 is 255 */
     QUANTISED("0") "constant f: f32[] = [127.4]\nconstant g: f32[] = [-0.2]\n"
                    "k: f32[1,2,2,2] = sigmoid(d)\nl: f32[1,2,2,2] = clip(k, g, f)\n"
                    "y: u8[1,2,2,2] = quantize_linear(l, s, q)\noutput y\n"},
    {KILN_SIMPLIFY_CUT_TWICE, false, /* 127.2 is 254 */
     QUANTISED(
         "0") "constant f: f32[] = [127.2]\nconstant g: f32[] = [0]\nk: f32[1,2,2,2] = sigmoid(d)\n"
              "l: f32[1,2,2,2] = clip(k, g, f)\n"
              "y: u8[1,2,2,2] = quantize_linear(l, s, q)\noutput y\n"},
    {KILN_SIMPLIFY_CUT_TWICE, false, /* bytes below the zero point stand for what is cut off */
     QUANTISED("1") "k: f32[1,2,2,2] = sigmoid(d)\nl: f32[1,2,2,2] = relu(k)\n"
                    "y: u8[1,2,2,2] = quantize_linear(l, s, q)\noutput y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, true,
     QUANTISED("3") "y: f32[1,2,2,2] = max_pool(d) kernel_shape=[3,3] pads=[1,1,1,1]\n" NEGATED},
    {KILN_SIMPLIFY_BYTES_MOVED, true,
     QUANTISED("3") "y: f32[1,2,2,2] = transpose(d) perm=[0,2,1,3]\noutput y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, true,
     QUANTISED("3") "y: f32[8] = reshape(d) shape=[8]\noutput y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, true,
     QUANTISED("3") "y: f32[1,2,1,1] = global_average_pool(d)\noutput y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, true,
     QUANTISED("3") "y: f32[1,2,3,3] = average_pool(d) kernel_shape=[2,2] pads=[1,1,1,1]\noutput "
                    "y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, true,
     QUANTISED("3") AGAIN "y: f32[1,4,2,2] = concat(d, e) axis=1\noutput y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, true,
     QUANTISED("3") AGAIN "y: f32[1,4,2,2] = concat(e, d) axis=1\noutput y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, false, /* padding counts as 0, which is no byte 0 */
     QUANTISED("3") "y: f32[1,2,3,3] = average_pool(d) count_include_pad=1 kernel_shape=[2,2] "
                    "pads=[1,1,1,1]\noutput y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, false, /* two scales */
     QUANTISED("3") "e: f32[1,2,2,2] = dequantize_linear(c, t, q)\ny: f32[1,4,2,2] = concat(d, e) "
                    "axis=1\noutput y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, false, /* a float among them */
     QUANTISED("3") "y: f32[1,4,2,2] = concat(w, d) axis=1\noutput y\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, false, /* somebody else reads it */
     QUANTISED("3") "y: f32[8] = reshape(d) shape=[8]\noutput y\noutput d\n"},
    {KILN_SIMPLIFY_BYTES_MOVED, false, /* the largest negated is the least */
     "input b: u8[2]\nconstant s: f32[] = [-0.5]\nd: f32[2] = dequantize_linear(b, s)\ny: f32[] "
     "= reduce_max(d) keepdims=0\noutput y\n"},
    {KILN_SIMPLIFY_SCALES_TAKEN, true,
     QUANTISED("3") "y: u8[1,2,2,2] = quantize_linear(d, t, q)\noutput y\n"},
    {KILN_SIMPLIFY_SCALES_TAKEN, true,
     QUANTISED("3") AGAIN "constant f: f32[2,1,1] = [1, 5]\ng: f32[1,2,2,2] = mul(e, f)\n"
                          "h: f32[1,2,2,2] = add(g, f)\nk: f32[1,2,2,2] = sub(d, h)\n"
                          "l: f32[1,2,2,2] = relu(k)\ny: u8[1,2,2,2] = quantize_linear(l, t, "
                          "q)\noutput y\n"},
    {KILN_SIMPLIFY_SCALES_TAKEN, true,
     QUANTISED("3") "constant f: f32[] = [6]\nk: f32[1,2,2,2] = clip(d, t, f)\n"
                    "y: u8[1,2,2,2] = quantize_linear(k, t, q)\noutput y\n"},
    {KILN_SIMPLIFY_SCALES_TAKEN, false, /* nothing to take it */
     "input b: u8[1]\nconstant s: f32[] = [0.5]\ny: u8[1,2,3,3] = quantize_linear(x, s)\noutput "
     "y\n"},
    {KILN_SIMPLIFY_SCALES_TAKEN, false, /* not all of a sum takes it */
     QUANTISED("3") "input f: f32[1,2,2,2]\nk: f32[1,2,2,2] = add(d, f)\n"
                    "y: u8[1,2,2,2] = quantize_linear(k, t, q)\noutput y\n"},
    {KILN_SIMPLIFY_SCALES_TAKEN, false, /* no line through 0 */
     QUANTISED("3") "k: f32[1,2,2,2] = sigmoid(d)\n"
                    "y: u8[1,2,2,2] = quantize_linear(k, t, q)\noutput y\n"},
    {KILN_SIMPLIFY_SCALES_TAKEN, false, /* somebody else reads it */
     QUANTISED("3") "y: u8[1,2,2,2] = quantize_linear(d, t, q)\noutput y\noutput d\n"},
    {KILN_SIMPLIFY_PADDING, true,
     "a: f32[1,2,5,6] = pad(x) pads=[0,0,1,1,0,0,1,2]\nb: f32[1,1,4,5] = conv(a, w)\noutput b\n"},
    {KILN_SIMPLIFY_PADDING, true,
     "a: f32[1,2,4,4] = pad(x, zero) pads=[0,0,1,0,0,0,0,1]\n"
     "b: f32[1,1,5,5] = conv(a, w) pads=[1,1,1,1]\noutput b\n"},
    {KILN_SIMPLIFY_PADDING, false,
     "a: f32[1,2,4,4] = pad(x, two) pads=[0,0,1,0,0,0,0,1]\nb: f32[1,1,3,3] = conv(a, w)\noutput "
     "b\n"},
    {KILN_SIMPLIFY_PADDING, false,
     "a: f32[1,2,4,4] = pad(x) pads=[0,0,1,0,0,0,0,1] mode=\"edge\"\nb: f32[1,1,3,3] = conv(a, "
     "w)\noutput b\n"},
    {KILN_SIMPLIFY_PADDING, false,
     "a: f32[1,2,4,4] = pad(x) pads=[0,0,1,0,0,0,0,1]\nb: f32[1,1,3,3] = conv(a, w)\noutput "
     "b\noutput a\n"},
    {KILN_SIMPLIFY_PADDING, false,
     "a: f32[1,2,2,2] = pad(x) pads=[0,0,-1,0,0,0,0,-1]\nb: f32[1,1,1,1] = conv(a, w)\noutput b\n"},
};

static const char *const row_name[] = {
#define X(id, name, function, doc) name,
#include "compiler-core/passes/simplify.def"
#undef X
};

static kiln_graph *graph_with(kiln_arena *arena, const example *e) {
    return graph_of(arena, kiln_arena_printf(arena, "%s%s", HEAD, e->body));
}

static const char *text_after(kiln_arena *arena, const example *e, uint32_t rows) {
    kiln_graph *graph = graph_with(arena, e);
    kiln_strbuf text = {0};
    kiln_graph_simplify(graph, rows);
    expect_ok(kiln_graph_verify(graph));
    kiln_graph_print(graph, &text);
    const char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static void every_row_does_what_no_other_does(void **state) {
    uint32_t shown = 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        const example *e = &table[i];
        const char *untouched = text_after(*state, e, 0),
                   *others = text_after(*state, e, ~(1u << e->row));
        const char *all = text_after(*state, e, ~0u);
        if (e->applies) shown |= 1u << e->row;
        if (strcmp(others, untouched) != 0)
            fail_msg("example %zu of %s: another row applies", i, row_name[e->row]);
        if ((strcmp(all, untouched) != 0) != e->applies)
            fail_msg("example %zu of %s:\n%s", i, row_name[e->row], all);
    }
    assert_int_equal(shown, (1u << KILN_SIMPLIFY_COUNT) - 1);
}

static void every_row_keeps_what_the_graph_computes(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        kiln_graph *graph = graph_with(*state, &table[i]);
        const char *before = result_of(*state, graph);
        expect_ok(kiln_pass_run(KILN_PASS_SIMPLIFY, graph));
        assert_string_equal(result_of(*state, graph), before);
    }
}

static void rows_make_work_for_each_other(void **state) {
    kiln_graph *graph =
        graph_of(*state, "graph g\ninput x: f32[2,3]\nconstant zero: f32[1] = [0]\n"
                         "a: f32[3,2] = transpose(x)\nb: f32[3,2] = add(a, zero)\n"
                         "c: f32[2,3] = transpose(b)\nd: f32[2,3] = neg(c)\ny: f32[2,3] = neg(d)\n"
                         "z: f32[2,3] = exp(y)\noutput z\n");
    kiln_strbuf text = {0};
    expect_ok(kiln_pass_run(KILN_PASS_SIMPLIFY, graph));
    expect_ok(kiln_pass_run(KILN_PASS_REMOVE_DEAD, graph));
    kiln_graph_print(graph, &text);
    assert_non_null(strstr(text.data, "z: f32[2,3] = exp(x)\noutput z"));
    assert_null(strstr(text.data, "transpose"));
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_row_does_what_no_other_does),
        test_with_arena(every_row_keeps_what_the_graph_computes),
        test_with_arena(rows_make_work_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
