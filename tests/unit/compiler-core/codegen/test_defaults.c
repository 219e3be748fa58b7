/* The default schedule of every operator, for every element type that it takes and sizes that fill
 * no vector, compiles for every level of processor; and what it computes is what the interpreter
 * says, where this machine can run it. */
#include <string.h>

#include "compiler-core/graph/attr.h"
#include "compiler-core/graph/graph.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/task/task.h"
#include "tests/unit/compiler-core/codegen/support.h"

#define WORDS_MAX 16

/* `input`: "NAME TYPE[SHAPE]" separated by ';', a constant where NAME begins with 'w'; TYPE `T` is
 * drawn from `types` (letters of ops.def), and N in shapes and attributes is the size. `node`:
 * operator, operands, attributes. */
typedef struct row {
    const char *types, *input, *node;
    uint32_t output_count;
} row;

static const row rows[] = {
    {"fiub", "x T[3,N]", "identity x", 1},
    {"fiub", "x T[3,N]", "cast x to=f32", 1},
    {"fiub", "x T[3,N]", "cast x to=u8", 1},
    {"fiub", "x T[3,N]", "cast x to=i8", 1},
    {"fiub", "x T[3,N]", "cast x to=i16", 1},
    {"fiub", "x T[3,N]", "cast x to=i64", 1},
    {"fiub", "x T[3,N]", "cast x to=bool", 1},
    {"fiub", "x T[3,N]", "cast x to=f16", 1},
    {"fiu", "x T[3,N]", "abs x", 1},
    {"fiu", "x T[3,N]", "sign x", 1},
    {"f", "x T[3,N]", "exp x", 1},
    {"f", "x T[3,N]", "erf x", 1},
    {"f", "x T[3,N]", "gelu x", 1},
    {"f", "x T[3,N]", "is_nan x", 1},
    {"b", "x T[3,N]", "not x", 1},
    {"fiu", "x T[3,N];y T[N]", "add x y", 1},
    {"fiu", "x T[3,N];y T[3,1]", "mul x y", 1},
    {"fiu", "x T[3,N];y T[3,N]", "div x y", 1},
    {"fiu", "x T[3,N];y T[3,N]", "mod x y", 1},
    {"fiu", "x T[3,N];y T[3,N]", "max x y", 1},
    {"fiu", "x T[3,N];y T[3,N]", "less x y", 1},
    {"b", "x T[3,N];y T[3,N]", "xor x y", 1},
    {"iu", "x T[3,N];y T[3,N]", "bit_shift x y", 1},
    {"fiub", "c bool[3,N];x T[3,N];y T[3,1]", "where c x y", 1},
    {"fiu", "x T[3,N];lo T[];hi T[]", "clip x lo hi", 1},
    {"f", "x f32[3,N];s f32[];z i8[]", "quantize_linear x s z", 1},
    {"f", "x i8[3,N];s f32[];z i8[]", "dequantize_linear x s z", 1},
    {"f", "x T[2,3,N];s T[3];b T[3];m T[3];v T[3]", "batch_norm x s b m v", 1},
    {"f", "x T[1,N,5,N];w T[3,N,3,1]", "conv x w pads=1,0,1,0", 1},
    {"f", "x T[1,3,5,N];w T[N,3,1,1]", "conv x w", 1},
    {"f", "x T[1,N,5,7];w T[N,1,3,3]", "conv x w group=N strides=2,2", 1},
    {"u", "x u8[1,N,5,7];w i8[3,N,3,3];z u8[]", "conv_integer x w z", 1},
    {"i", "x i8[1,3,5,7];w i8[N,3,3,3]", "conv_integer x w", 1},
    {"f", "x T[1,N,5,3];w T[N,3,3,3]", "conv_transpose x w strides=2,2", 1},
    {"fiu", "x T[5,N];y T[N,3]", "matmul x y", 1},
    {"fiu", "x T[3,5];y T[5,N]", "matmul x y", 1},
    {"fiu", "x T[2,N,5];y T[2,5,3]", "matmul x y", 1},
    {"fiu", "x T[5,17];w T[17,N]", "matmul x w", 1},
    {"u", "x u8[5,N];w i8[N,3];z u8[]", "matmul_integer x w z", 1},
    {"i", "x i8[5,8];w i8[8,N]", "matmul_integer x w", 1},
    {"fiu", "x T[N,5];y T[3,N];c T[3]", "gemm x y c transA=1 transB=1", 1},
    {"fiu", "x T[3,N,5];y T[5,N]", "einsum x y equation=abc,cd->bd", 1},
    {"fiu", "x T[1,3,9,N]", "max_pool x kernel_shape=3,1 pads=1,0,1,0", 1},
    {"fiu", "x T[1,N,5,7]", "max_pool x kernel_shape=2,3 strides=2,2", 2},
    {"f", "x T[1,N,5,7]", "average_pool x kernel_shape=3,3 pads=1,1,1,1", 1},
    {"f", "x T[1,3,5,N]", "lp_pool x kernel_shape=3,1", 1},
    {"f", "x T[2,N,5,7]", "global_average_pool x", 1},
    {"f", "x T[2,3,5,N]", "global_max_pool x", 1},
    {"f", "x T[1,N,5,3]", "lrn x size=3", 1},
    {"fiu", "x T[7,2,N]", "reduce_sum x axes=1", 1},
    {"fiu", "x T[7,2,N]", "reduce_sum x axes=0", 1},
    {"fiu", "x T[7,2,N]", "reduce_mean x axes=2", 1},
    {"fiub", "x T[16,2,N]", "reduce_max x axes=1 keepdims=0", 1},
    {"fiub", "x T[5,7,N]", "reduce_max x axes=0,1", 1},
    {"fiub", "x T[16,N,3]", "reduce_min x axes=1", 1},
    {"fiub", "x T[2,3,N]", "reduce_min x", 1},
    {"fiub", "x T[2,0,N]", "reduce_max x axes=1", 1},
    {"fiu", "x T[0,N]", "reduce_sum x", 1},
    {"fiu", "x T[3,0];y T[0,N]", "matmul x y", 1},
    {"fiu", "x T[40,2,N]", "reduce_prod x axes=1", 1},
    {"fiu", "x T[40,N]", "reduce_l1 x axes=0", 1},
    {"f", "x T[3,N]", "reduce_l2 x axes=1", 1},
    {"f", "x T[3,N]", "reduce_log_sum_exp x axes=1", 1},
    {"fiu", "x T[3,5,N]", "reduce_sum_square x axes=1", 1},
    {"fiu", "x T[5,7,N]", "arg_max x axis=1", 1},
    {"fiu", "x T[5,N]", "arg_min x axis=1 select_last_index=1", 1},
    {"fiu", "x T[5,N]", "cum_sum x axis=1 exclusive=1", 1},
    {"fiu", "x T[5,N]", "cum_prod x axis=0", 1},
    {"fiu", "x T[5,N]", "top_k x k=1", 2},
    {"fiu", "x T[5,N]", "top_k x k=3 axis=0 largest=0", 2},
    {"u", "x T[2,520,N]", "top_k x k=2 axis=1", 2},
    {"f", "x T[5,N]", "softmax x", 1},
    {"f", "x T[5,N]", "log_softmax x axis=0", 1},
    {"f", "x T[5,N]", "hardmax x", 1},
    {"f", "x T[2,3,N];s T[3];b T[3]", "instance_norm x s b", 1},
    {"f", "x T[5,N];s T[N];b T[N]", "layer_norm x s b", 1},
    {"f", "x T[5,N];s T[N]", "rms_norm x s", 1},
    {"f", "x T[2,3,N,5]", "mean_variance_norm x axes=0,2,3", 1},
    {"f", "x T[5,N]", "lp_norm x p=1", 1},
    {"f", "x T[3,5,N];t i64[3,N]", "nll_loss x t", 1},
    {"f", "x T[N,5];t i64[N]", "softmax_loss x t reduction=none", 2},
    {"fiub", "x T[3,5,N]", "transpose x perm=2,0,1", 1},
    {"fiub", "x T[3,N];y T[1,N]", "concat x y x axis=0", 1},
    {"fiub", "x T[3,N];y T[3,2]", "concat x y x axis=1", 1},
    {"fiub", "x T[N,6]", "split x axis=1 split=1,3,2", 3},
    {"fiub", "x T[7,N]", "slice x axes=0,1 starts=1,0 ends=6,N steps=2,1", 1},
    {"fiub", "x T[3,N]", "pad x pads=1,2,0,1", 1},
    {"fiub", "x T[5,N]", "pad x pads=2,0,1,0 mode=reflect", 1},
    {"fiub", "x T[3,1]", "expand x shape=3,N", 1},
    {"fiub", "x T[3,N]", "tile x repeats=2,3", 1},
    {"fiub", "x T[5,N];i i64[3]", "gather x i", 1},
    {"fiub", "x T[3,N];i i64[3]", "gather x i axis=1", 1},
    {"fiub", "x T[3,N];i i64[3,2]", "gather_elements x i axis=1", 1},
    {"fiub", "x T[3,N,2];i i64[5,2]", "gather_nd x i", 1},
    {"fiub", "x T[3,N];i i64[2,N];u T[2,N]", "scatter_elements x i u", 1},
    {"fiu", "x T[3,N];i i64[2,N];u T[2,N]", "scatter_elements x i u reduction=max", 1},
    {"fiub", "x T[3,N];i i64[2,1];u T[2,N]", "scatter_nd x i u", 1},
    {"fiu", "x T[3,N];i i64[2,1];u T[2,N]", "scatter_nd x i u reduction=add", 1},
    {"i", "i i64[N];v f32[2]", "one_hot i v depth=5", 1},
    {"fiub", "x T[1,8,3,N]", "depth_to_space x blocksize=2", 1},
    {"fiub", "x T[1,N,4,6]", "space_to_depth x blocksize=2", 1},
    {"fiub", "x T[5,N]", "trilu x", 1},
    {"fiub", "x T[5,3,N];i i64[3]", "reverse_sequence x i", 1},
    {"f", "x T[1,N,3,5]", "resize x scales=1,1,2,1.5 mode=linear", 1},
    {"fiu", "x T[1,2,3,N]", "resize x scales=1,1,2,2", 1},
    {"f", "x T[1,2,5,N];g T[1,3,7,2]", "grid_sample x g", 1},
    {"f", "x T[1,2,5,N];g T[1,3,7,2]", "grid_sample x g mode=cubic padding_mode=reflection", 1},
    {"f", "x T[1,2,5,N];b T[3,4];i i64[3]", "roi_align x b i output_width=3 sampling_ratio=2", 1},
};

static const int64_t sizes[] = {1, 3, 5, 7, 17, 33};

static const char *const targets[] = {
    "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64",
    "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v2",
    "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3",
    "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4",
    "rpi4",
};

/* ---- a graph of one node -------------------------------------------------------------------- */

typedef struct instance {
    const row *row;
    kiln_dtype type;
    int64_t size;
    kiln_arena *arena;
} instance;

/* "3,N,5" as numbers; how many. */
static uint32_t read_numbers(const instance *in, kiln_str text, double *out) {
    uint32_t count = 0;
    while (text.size) {
        kiln_str word = kiln_str_cut(&text, ',');
        assert_true(count < WORDS_MAX);
        out[count] = (double)in->size;
        if (!kiln_str_is(word, "N")) assert_true(kiln_str_to_f64(word, &out[count]));
        count++;
    }
    return count;
}

static kiln_dtype read_type(const instance *in, kiln_str name) {
    kiln_dtype type = in->type;
    if (!kiln_str_is(name, "T")) assert_true(kiln_dtype_find(name, &type));
    return type;
}

static void add_operand(const instance *in, kiln_graph *graph, kiln_str text) {
    double number[WORDS_MAX];
    kiln_str name = kiln_str_cut(&text, ' '), type = kiln_str_cut(&text, '[');
    kiln_shape shape = {.rank = read_numbers(in, kiln_str_cut(&text, ']'), number)};
    for (uint32_t d = 0; d < shape.rank; d++) shape.dim[d] = (int64_t)number[d];
    if (name.data[0] != 'w') {
        kiln_graph_add_input(graph, name, read_type(in, type), &shape);
        return;
    }
    kiln_tensor data = kiln_tensor_create(in->arena, read_type(in, type), &shape);
    kiln_fill_data(data.data, data.dtype, (size_t)kiln_shape_count(&shape), 5, KILN_FILL_UNIFORM);
    kiln_graph_add_constant(graph, name, &data);
}

static void set_attr(const instance *in, kiln_graph *graph, kiln_node node, kiln_op op,
                     kiln_str text) {
    kiln_attr attr;
    bool has_default;
    double number[WORDS_MAX];
    kiln_str name = kiln_str_cut(&text, '=');
    assert_true(kiln_attr_spec_find(op, name, &attr, &has_default));
    attr.name = name;
    attr.text = text;
    attr.count = attr.kind == KILN_ATTR_TEXT ? 0 : read_numbers(in, text, number);
    int64_t *ints = KILN_ARENA_ARRAY(in->arena, int64_t, WORDS_MAX);
    for (uint32_t i = 0; i < attr.count; i++) ints[i] = (int64_t)number[i];
    attr.ints = ints;
    attr.floats = kiln_arena_copy(in->arena, number, sizeof number);
    if (attr.count) attr.i = ints[0], attr.f = number[0];
    kiln_graph_set_attr(graph, node, &attr);
}

static kiln_graph *make_graph(const instance *in) {
    kiln_graph *graph = kiln_graph_create(in->arena, KILN_STR("default"));
    kiln_str rest = kiln_str_from(in->row->input), word[WORDS_MAX];
    uint32_t count = 0, operands = 0;
    kiln_op op;
    while (rest.size) add_operand(in, graph, kiln_str_cut(&rest, ';'));
    for (rest = kiln_str_from(in->row->node); rest.size;) word[count++] = kiln_str_cut(&rest, ' ');
    assert_true(kiln_op_find(word[0], &op));
    while (1 + operands < count &&
           kiln_str_find_char(word[1 + operands], '=') == word[1 + operands].size)
        operands++;
    kiln_node node = kiln_graph_add_node(graph, op, word[0], operands, in->row->output_count);
    for (uint32_t i = 0; i < operands; i++)
        kiln_graph_set_input(graph, node, i, kiln_graph_find_value(graph, word[1 + i]));
    for (uint32_t i = 1 + operands; i < count; i++) set_attr(in, graph, node, op, word[i]);
    for (uint32_t i = 0; i < in->row->output_count; i++) {
        kiln_value output = kiln_graph_add_value(graph, KILN_STR("out"));
        kiln_graph_set_output(graph, node, i, output);
        kiln_vec_push_in(in->arena, &graph->output, output);
    }
    kiln_status st = kiln_node_infer(graph, node);
    if (st) fail_msg("%s: %s", in->row->node, kiln_status_text(st));
    return graph;
}

/* ---- one default schedule ------------------------------------------------------------------- */

/* Draws the default schedule for the target and lowers it; with `run` it is also compiled, and run
 * where the machine can. */
static void expect_default(const instance *in, const kiln_program *te, const char *target_text,
                           bool run) {
    kiln_target target = target_of(in->arena, target_text);
    kiln_space space;
    kiln_trace trace;
    kiln_program *scheduled = NULL;
    kiln_lowered lowered;
    kiln_status st = kiln_space_create(te, &target, in->arena, &space);
    if (!st) st = kiln_space_default(&space, in->arena, &trace, &scheduled);
    if (!st && !run) st = kiln_lower(scheduled, &target, in->arena, &lowered);
    if (!st && run && runs_here(&target, in->arena)) {
        st = expect_compiled_equals(te, scheduled, &target, 2, 1);
    } else if (!st && run) {
        kiln_artefact artefact;
        st = compile_scheduled(scheduled, &target, 2, in->arena, &artefact);
    }
    if (st)
        fail_msg("%s of %s, N = %lld, on %s: %s", in->row->node, kiln_dtype_name(in->type),
                 (long long)in->size, target_text, kiln_status_text(st));
}

static bool takes(const row *r, kiln_dtype type) {
    static const char letter[] = {[KILN_KIND_FLOAT] = 'f',
                                  [KILN_KIND_INT] = 'i',
                                  [KILN_KIND_UINT] = 'u',
                                  [KILN_KIND_BOOL] = 'b'};
    return strchr(r->types, letter[kiln_dtype_kind_of(type)]) != NULL;
}

/* Runs every `step`th combination of a type, a size and a target, and lowers the others. */
static void expect_defaults_of(const row *r, uint32_t step, kiln_arena *arena) {
    uint32_t number = (uint32_t)(r - rows);
    for (int type = KILN_DTYPE_NONE + 1; type < KILN_DTYPE_COUNT; type++) {
        if (!takes(r, (kiln_dtype)type)) continue;
        bool has_types = strstr(r->input, "T[") != NULL;
        for (uint32_t s = 0; s < KILN_ARRAY_COUNT(sizes); s++) {
            kiln_arena_reset(arena);
            const instance in = {r, (kiln_dtype)type, sizes[s], arena};
            kiln_tasks tasks;
            expect_ok(kiln_tasks_extract(make_graph(&in), arena, &tasks));
            for (uint32_t t = 0; t < KILN_ARRAY_COUNT(targets); t++)
                expect_default(&in, tasks.task[0].te, targets[t], number++ % step == 0);
        }
        if (!has_types) break;
    }
}

static void every_default_schedule_compiles_and_is_right(void **state) {
    for (uint32_t r = 0; r < KILN_ARRAY_COUNT(rows); r++) expect_defaults_of(&rows[r], 31, *state);
}

/* test-core-codegen-defaults ROW: every combination of that row is run, for debugging. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_default_schedule_compiles_and_is_right),
    };
    uint64_t only;
    if (argc > 1 && kiln_str_to_u64(kiln_str_from(argv[1]), &only) &&
        only < KILN_ARRAY_COUNT(rows)) {
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        expect_defaults_of(&rows[only], 1, &arena);
        kiln_arena_deinit(&arena);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
