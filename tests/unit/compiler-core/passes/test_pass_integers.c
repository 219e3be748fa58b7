/* Requantisation by powers of two becomes shifts of integers where both are the same for every
 * input, and nowhere else. */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
#include "compiler-core/graph/graph_text.h"
#include "compiler-core/passes/pass.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/graph/support.h"

/* x: numbers of 16 bits round each multiple of 32, halves of 256 among them; skip: bytes. */
#define COLUMNS 2048
#define SHAPE_OF_ALL "[2,2048]"
#define HEAD                                                                                       \
    "graph g\ninput x: i16" SHAPE_OF_ALL "\ninput skip: i8" SHAPE_OF_ALL "\n"                      \
    "input wide: i32" SHAPE_OF_ALL "\nconstant k8: f32[] = [0.00390625]\n"                         \
    "constant h8: f32[] = [0.001953125]\nconstant half: f32[] = [0.5]\nconstant one: f32[] = "     \
    "[1]\n"                                                                                        \
    "constant three: f32[] = [3]\nconstant none: f32[] = [0]\nconstant six: f32[] = [6]\n"         \
    "constant off: f32[] = [0.3]\nconstant minus: f32[] = [-0.00390625]\n"                         \
    "constant k10: f32[] = [0.0009765625]\nconstant four: f32[] = [4]\n"                           \
    "constant h10: f32[] = [0.00048828125]\nconstant big: i32[2,1] = [30000, -500]\n"              \
    "constant zero: i8[] = [0]\nconstant uthree: u8[] = [3]\nconstant whole: f32[2,1] = [7, -9]\n" \
    "constant part: f32[2,1] = [0.25, 0.5]\nconstant own: f32[2,1] = [0.5, 0.25]\nconstant "       \
    "zeros: i8[2] = [0, 0]\nconstant each: f32[2] = [0.5, 0.25]\n"                                 \
    "constant low: f32[] = [-128]\nconstant high: f32[] = [127]\n"                                 \
    "f: f32" SHAPE_OF_ALL " = cast(x) to=\"f32\"\n"
#define NODE(name, text) name ": f32" SHAPE_OF_ALL " = " text "\n"
#define SCALED NODE("m", "mul(f, k8)")
#define HALF NODE("h", "add(m, h8)")
#define Y(text) "y: i8" SHAPE_OF_ALL " = " text "\noutput y\n"
#define ROUNDED Y("quantize_linear(h, one, zero)")

typedef struct example {
    bool applies;
    const char *body;
} example;

static const example table[] = {
    {true, SCALED HALF ROUNDED},
    {true, NODE("a", "add(half, f)") NODE("h", "mul(k8, a)") ROUNDED},
    {true, SCALED NODE("h", "add(m, k10)") ROUNDED},    /* a quarter is no half, either */
    {false, SCALED Y("quantize_linear(m, one, zero)")}, /* halves go to even neighbours */
    {false, SCALED HALF Y("quantize_linear(h, three, zero)")},
    {false, SCALED HALF Y("quantize_linear(h, each, zeros) axis=0")},
    {false, NODE("m", "mul(f, minus)") HALF ROUNDED}, /* larger numbers get smaller bytes */
    {false, NODE("m", "mul(f, off)") HALF ROUNDED},
    {false, NODE("m", "mul(f, own)") HALF ROUNDED}, /* a scale per channel */
    {false, SCALED HALF ROUNDED "output h\n"},      /* the float is wanted as well */
    {false, SCALED HALF ROUNDED "output m\n"},
    {true, SCALED NODE("r", "relu(m)") NODE("h", "add(r, h8)") ROUNDED},
    {true, SCALED HALF NODE("r", "relu(h)") Y("quantize_linear(r, one, zero)")},
    {true, SCALED NODE("r", "clip(m, none, six)") NODE("h", "add(r, h8)") ROUNDED},
    {true, SCALED HALF NODE("r", "clip(h, none, six)") Y("quantize_linear(r, one, zero)")},
    {false, SCALED HALF NODE("r", "clip(h, off, six)") Y("quantize_linear(r, one, zero)")},
    {false, SCALED HALF NODE("r", "clip(h, six, none)") Y("quantize_linear(r, one, zero)")},
    {true, NODE("a", "add(f, half)") NODE("b", "clip(a, none, six)") NODE("c", "add(b, half)")
               NODE("e", "round(c)") Y("quantize_linear(e, half, zero)")}, /* bounds are halves */
    {true, Y("quantize_linear(f, one, zero)")},                            /* nothing to round */
    {true, NODE("a", "mul(f, four)") Y("quantize_linear(a, one, zero)")},
    {true, SCALED HALF "y: u8" SHAPE_OF_ALL " = quantize_linear(h, one, uthree)\noutput y\n"},
    {true, SCALED HALF Y("quantize_linear(h, one, zero) bits=4")},
    {true, SCALED NODE("a", "add(m, half)") NODE("b", "floor(a)") NODE("c", "clip(b, low, high)")
               Y("cast(c) to=\"i8\"")},
    {true, SCALED NODE("a", "add(m, half)") NODE("b", "floor(a)") Y("cast(b) to=\"i8\"")},
    {true, SCALED HALF NODE("b", "round(h)") Y("cast(b) to=\"i8\"")},
    {false, SCALED NODE("b", "round(m)") Y("cast(b) to=\"i8\"")},
    {false, SCALED HALF Y("cast(h) to=\"i8\"")}, /* towards zero */
    {false, SCALED NODE("a", "add(m, half)") NODE("b", "ceil(a)") Y("cast(b) to=\"i8\"")},
    {true, SCALED NODE("d", "dequantize_linear(skip, half)") NODE("a", "add(m, d)")
               NODE("h", "add(a, h8)") ROUNDED},
    {true, NODE("d", "dequantize_linear(skip, k10)") SCALED NODE("a", "add(d, m)")
               NODE("r", "relu(a)") NODE("h", "add(r, h10)") ROUNDED},
    {false, NODE("d", "dequantize_linear(skip, off)") SCALED NODE("a", "add(d, m)")
                NODE("h", "add(a, h8)") ROUNDED},
    {true, SCALED NODE("c", "clip(m, none, six)") NODE("d", "dequantize_linear(skip, half)")
               NODE("a", "add(c, d)") NODE("h", "add(a, h8)") ROUNDED},
    {true, NODE("a", "add(f, whole)") NODE("m", "mul(a, k8)") HALF ROUNDED},
    {false, NODE("a", "add(f, part)") NODE("m", "mul(a, k8)") HALF ROUNDED},
    {false, NODE("a", "relu(f)") NODE("b", "add(a, whole)") NODE("m", "mul(b, k8)") HALF ROUNDED},
    {true, "s: i32" SHAPE_OF_ALL " = cast(x) to=\"i32\"\nt: i32" SHAPE_OF_ALL
           " = add(s, big)\n" NODE("g", "cast(t) to=\"f32\"") NODE("m", "mul(g, k8)") HALF ROUNDED},
    {false, NODE("g", "cast(wide) to=\"f32\"") NODE("m", "mul(g, k8)") HALF ROUNDED},
};

static kiln_tensor *inputs(kiln_arena *arena) {
    const kiln_shape shape = {2, {2, COLUMNS}};
    kiln_tensor *input = KILN_ARENA_ARRAY(arena, kiln_tensor, 3);
    input[0] = kiln_tensor_create(arena, KILN_I16, &shape);
    input[1] = kiln_tensor_create(arena, KILN_I8, &shape);
    input[2] = kiln_tensor_create(arena, KILN_I32, &shape);
    for (int i = 0; i < 2 * COLUMNS; i++) {
        const int at = i % COLUMNS;
        ((int16_t *)input[0].data)[i] = (int16_t)((at - COLUMNS / 2) * 32 + (i % 3 - 1) * (at > 0));
        ((int32_t *)input[2].data)[i] = (at - COLUMNS / 2) * (INT32_MAX / COLUMNS);
    }
    kiln_fill_data(input[1].data, KILN_I8, 2 * COLUMNS, 1, KILN_FILL_UNIFORM);
    return input;
}

static uint32_t count_floats(const kiln_graph *graph) {
    uint32_t count = 0;
    for (kiln_node n = 1; n < graph->node.count; n++)
        for (uint32_t i = 0; i < graph->node.data[n].output_count; i++)
            count += graph->value.data[graph->node.data[n].output[i]].dtype == KILN_F32;
    return count;
}

/* Of what the outputs still depend on. */
static uint32_t floats_after(kiln_graph *graph) {
    expect_ok(kiln_pass_run(KILN_PASS_INTEGERS, graph));
    expect_ok(kiln_pass_run(KILN_PASS_REMOVE_DEAD, graph));
    return count_floats(graph);
}

static void every_example_computes_what_it_did(void **state) {
    const kiln_tensor *input = inputs(*state);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        kiln_graph *graph =
            graph_of(*state, kiln_arena_printf(*state, "%s%s", HEAD, table[i].body));
        kiln_tensor before[2], after[2];
        expect_ok(kiln_graph_eval(graph, input, *state, before));
        if ((floats_after(graph) == 0) != table[i].applies)
            fail_msg("example %zu: %s", i, table[i].body);
        expect_ok(kiln_graph_eval(graph, input, *state, after));
        if (memcmp(before[0].data, after[0].data, 2 * COLUMNS) != 0)
            fail_msg("example %zu computes something else: %s", i, table[i].body);
    }
}

/* Integers of 28 bits, most of which f32 does not have. */
static void print_wide(kiln_strbuf *text) {
    kiln_strbuf_text(text, "w0: i32" SHAPE_OF_ALL " = cast(x) to=\"i32\"\n");
    for (int i = 1; i <= 12; i++)
        kiln_strbuf_printf(text, "w%d: i32" SHAPE_OF_ALL " = add(w%d, w%d)\n", i, i - 1, i - 1);
    kiln_strbuf_text(text, "s: i32" SHAPE_OF_ALL " = cast(skip) to=\"i32\"\nt: i32" SHAPE_OF_ALL
                           " = add(w12, s)\n" NODE("g", "cast(t) to=\"f32\""));
}

/* Chains of operators in any order, with and without halves at the end. */
static void random_chains_compute_what_they_did(void **state) {
    static const char *const step[] = {
        "mul(%s, k8)",    "mul(%s, half)", "mul(four, %s)",       "add(%s, h8)",  "add(h10, %s)",
        "add(%s, whole)", "add(%s, six)",  "clip(%s, none, six)", "relu(%s)",     "floor(%s)",
        "round(%s)",      "add(%s, d)",    "clip(%s, low, high)", "add(half, %s)"};
    const kiln_tensor *input = inputs(*state);
    kiln_rand rand;
    uint32_t applied = 0, left = 0;
    kiln_rand_init(&rand, 7);
    for (int round = 0; round < 150; round++) {
        kiln_arena arena;
        kiln_tensor before, after;
        kiln_strbuf text = {0};
        char name[16], next[16];
        kiln_arena_init(&arena, 0);
        kiln_strbuf_text(&text, HEAD NODE("d", "dequantize_linear(skip, h8)"));
        print_wide(&text);
        snprintf(name, sizeof name, "%s", kiln_rand_below(&rand, 2) ? "f" : "g");
        const int steps = 1 + (int)kiln_rand_below(&rand, 6);
        for (int i = 0; i < steps; i++) {
            const char *form = step[kiln_rand_below(&rand, KILN_ARRAY_COUNT(step))];
            const char *gap = strchr(form, '%');
            snprintf(next, sizeof next, "v%d", i);
            kiln_strbuf_printf(&text, "%s: f32" SHAPE_OF_ALL " = %.*s%s%s\n", next,
                               (int)(gap - form), form, name, gap + 2);
            memcpy(name, next, sizeof name);
        }
        kiln_strbuf_printf(&text,
                           "y: i8" SHAPE_OF_ALL " = quantize_linear(%s, %s, zero)\noutput y\n",
                           name, kiln_rand_below(&rand, 2) ? "one" : "half");
        kiln_graph *graph = graph_of(&arena, kiln_str_dup(&arena, kiln_strbuf_view(&text)));
        expect_ok(kiln_graph_eval(graph, input, &arena, &before));
        *(floats_after(graph) == 0 ? &applied : &left) += 1;
        expect_ok(kiln_graph_eval(graph, input, &arena, &after));
        if (memcmp(before.data, after.data, 2 * COLUMNS) != 0)
            fail_msg("round %d computes something else: %s", round, text.data + sizeof HEAD);
        kiln_strbuf_deinit(&text);
        kiln_arena_deinit(&arena);
    }
    assert_true(applied > 30 && left > 60);
}

/* ---- sums that f32 does not have all of ------------------------------------------------------ */

#define STEPS 1100 /* 127 * 128 * 1100 > 2^24 */
#define ROWS 64

/* Rows of bytes times weights of 127, plus a bias, times 2^-shift: floats and integers differ
 * beyond 2^24 unless both are cut off there. */
static kiln_graph *product(kiln_arena *arena, int shift, int bias) {
    kiln_strbuf text = {0};
    const double unit = 1 / (double)(1 << shift);
    kiln_strbuf_printf(&text, "graph g\ninput x: i8[%d,%d]\nconstant w: i8[%d,1] = [127", ROWS,
                       STEPS, STEPS);
    for (int i = 1; i < STEPS; i++) kiln_strbuf_text(&text, ", 127");
    kiln_strbuf_printf(&text,
                       "]\nconstant b: i32[1] = [%d]\nconstant k: f32[] = [%.17g]\nconstant h: "
                       "f32[] = [%.17g]\nconstant one: f32[] = [1]\nconstant zero: i8[] = [0]\n"
                       "p: i32[%d,1] = matmul_integer(x, w)\nq: i32[%d,1] = add(p, b)\n"
                       "f: f32[%d,1] = cast(q) to=\"f32\"\nm: f32[%d,1] = mul(f, k)\n"
                       "a: f32[%d,1] = add(m, h)\ny: i8[%d,1] = quantize_linear(a, one, zero)\n"
                       "output y\n",
                       bias, unit, unit / 2, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS);
    kiln_graph *graph = graph_of(arena, kiln_str_dup(arena, kiln_strbuf_view(&text)));
    kiln_strbuf_deinit(&text);
    return graph;
}

/* Sums from the lowest to the highest. */
static kiln_tensor rows_of_bytes(kiln_arena *arena) {
    kiln_tensor x = kiln_tensor_create(arena, KILN_I8, &(kiln_shape){2, {ROWS, STEPS}});
    for (int i = 0; i < ROWS * STEPS; i++) {
        const int row = i / STEPS, step = i % STEPS, full = STEPS * row / (ROWS - 1);
        ((int8_t *)x.data)[i] = (int8_t)(step < full ? 127 : -128);
    }
    return x;
}

static void wide_sums_are_shifted_where_they_are_cut_off(void **state) {
    static const struct {
        int shift, bias;
        bool applies;
    } row[] = {{4, 0, true},   {9, 12345, true},       {15, -77, true},           {16, 0, true},
               {18, 0, false}, {16, INT32_MAX, false}, {16, INT32_MIN + 1, false}};
    const kiln_tensor x = rows_of_bytes(*state);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_graph *graph = product(*state, row[i].shift, row[i].bias);
        kiln_tensor before, after;
        expect_ok(kiln_graph_eval(graph, &x, *state, &before));
        assert_int_equal(floats_after(graph) == 0, row[i].applies);
        expect_ok(kiln_graph_eval(graph, &x, *state, &after));
        assert_memory_equal(before.data, after.data, ROWS);
    }
}

/* Sums of sums of the same are looked at once; integers of 64 bits are not looked at. */
static void ranges_are_found_once(void **state) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "graph g\ninput x: i64[2]\ninput b: i8[2]\ns0: i32[2] = cast(b) "
                            "to=\"i32\"\nw: i32[2] = cast(x) to=\"i32\"\n");
    for (int i = 1; i < 23; i++)
        kiln_strbuf_printf(&text, "s%d: i32[2] = add(s%d, s%d)\n", i, i - 1, i - 1);
    kiln_strbuf_text(&text, "k: f32[2] = cast(s22) to=\"f32\"\nl: f32[2] = cast(w) to=\"f32\"\n"
                            "constant one: f32[] = [1]\nconstant zero: i8[] = [0]\n"
                            "y: i8[2] = quantize_linear(k, one, zero)\n"
                            "z: i8[2] = quantize_linear(l, one, zero)\noutput y\noutput z\n");
    kiln_graph *graph = graph_of(*state, kiln_str_dup(*state, kiln_strbuf_view(&text)));
    const char *before = result_of(*state, graph);
    assert_int_equal(floats_after(graph), 1); /* of the integers of 64 bits */
    assert_string_equal(result_of(*state, graph), before);
    kiln_strbuf_deinit(&text);
}

/* Half a unit and the bias are one constant. */
static void additions_are_as_few_as_can_be(void **state) {
    kiln_graph *graph = product(*state, 8, 1000);
    kiln_strbuf text = {0};
    assert_int_equal(floats_after(graph), 0);
    kiln_graph_print(graph, &text);
    assert_non_null(strstr(text.data, "i32[1] = [1128]"));
    uint32_t nodes = 0;
    for (kiln_node n = 1; n < graph->node.count; n++) nodes += graph->node.data[n].op != 0;
    assert_int_equal(nodes, 5); /* product, sum, shift, bounds, cast */
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_example_computes_what_it_did),
        test_with_arena(random_chains_compute_what_they_did),
        test_with_arena(wide_sums_are_shifted_where_they_are_cut_off),
        test_with_arena(ranges_are_found_once),
        test_with_arena(additions_are_as_few_as_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
