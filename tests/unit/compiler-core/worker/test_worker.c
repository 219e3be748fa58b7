/* What a worker answers. This program is its own worker, the real one. */
#include "compiler-core/worker/worker.h"

#include <string.h>

#include "base/file.h"
#include "base/reference.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/zoo/zoo.h"
#include "compiler-core/graph/graph_codec.h"
#include "compiler-core/layout/compilation.h"
#include "compiler-core/worker/builder.h"
#include "proto/proto.h"
#include "tests/support/test.h"

#define PATIENCE (300 * UINT64_C(1000000000)) /* only what is broken reaches it */

static const char *own_path;

typedef struct fixture {
    kiln_loop *loop;
    kiln_arena *arena;
    kiln_reference reference;
} fixture;

static void on_done(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                    const char *text) {
    fixture *f = context;
    (void)outcome;
    if (!reply) fail_msg("%s", text);
    if (reply->code) fail_msg("%.*s", KILN_STR_ARG(reply->text));
    void *copy = kiln_arena_alloc_aligned(f->arena, 16, reply->bytes.size);
    memcpy(copy, reply->bytes.data, reply->bytes.size);
    expect_ok(kiln_reference_decode((kiln_str){copy, reply->bytes.size}, &f->reference));
    kiln_loop_stop(f->loop);
}

/* The reference of a program, made by a worker process. */
static kiln_reference reference_of(kiln_arena *arena, const char *te) {
    fixture f = {.arena = arena};
    const kiln_builders_options options = {.program = own_path, .worker_count = 1};
    const kiln_work_request request = {.work = KILN_WORK_REFERENCE,
                                       .task_key = KILN_STR("v2:0"),
                                       .te = kiln_str_from(te),
                                       .seed = 7};
    expect_ok(kiln_loop_create(&f.loop));
    kiln_builders *pool = kiln_builders_create(f.loop, &options);
    kiln_builders_submit(pool, &request, false, PATIENCE, on_done, &f);
    kiln_loop_run(f.loop);
    kiln_builders_destroy(pool);
    kiln_loop_destroy(f.loop);
    return f.reference;
}

/* Sums of weights, as zero points of bytes take them off, are made once; their buffer belongs to
 * the kernel. The first program subtracts the same sums without a buffer for them. */
static void references_may_prepare_what_depends_on_constants_alone(void **state) {
    static const char together[] =
        "program product\n"
        "input x: i8[5,8]\n"
        "constant w: i8[6,8]\n"
        "output y: i32[5,6]\n"
        "block product(m:5, n:6 | k:8): y[m, n] sum= i32(x[m, k])*i32(w[n, k]) - "
        "i32(w[n, k])*3i32 init 0i32\n";
    static const char prepared[] =
        "program product\n"
        "input x: i8[5,8]\n"
        "constant w: i8[6,8]\n"
        "output y: i32[5,6]\n"
        "temp s: i32[6]\n"
        "temp t: i32[5,6]\n"
        "block weights(n:6 | k:8): s[n] sum= i32(w[n, k]) init 0i32\n"
        "block product(m:5, n:6 | k:8): t[m, n] sum= i32(x[m, k])*i32(w[n, k]) init "
        "0i32\n"
        "block zero(m:5, n:6): y[m, n] = t[m, n] - s[n]*3i32\n";
    kiln_reference wanted = reference_of(*state, together), got = reference_of(*state, prepared);
    assert_int_equal(wanted.output_count, 1);
    assert_int_equal(got.output_count, 1);
    assert_memory_equal(got.output[0].value, wanted.output[0].value, 5 * 6 * sizeof(int32_t));
}

/* ---- tasks of a model ------------------------------------------------------------------------ */

typedef struct answer {
    kiln_loop *loop;
    kiln_arena *arena;
    uint32_t code;
    char *text; /* of the tasks, or of the error */
} answer;

static void on_tasks(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                     const char *text) {
    answer *a = context;
    kiln_strbuf all = {0};
    (void)outcome;
    if (!reply) fail_msg("%s", text);
    a->code = reply->code;
    kiln_strbuf_str(&all, reply->text);
    if (!reply->code) {
        kiln_compilation *c = NULL;
        kiln_str bytes = {kiln_arena_copy(a->arena, reply->bytes.data, reply->bytes.size),
                          reply->bytes.size};
        expect_ok(kiln_compilation_decode(bytes, a->arena, &c));
        kiln_tasks_print(&c->searched, true, &all);
    }
    a->text = kiln_str_dup(a->arena, kiln_strbuf_view(&all));
    kiln_strbuf_deinit(&all);
    kiln_loop_stop(a->loop);
}

static answer tasks_of(kiln_arena *arena, const char *path, kiln_model_form form) {
    answer a = {.arena = arena};
    const kiln_builders_options options = {.program = own_path, .worker_count = 1};
    const kiln_work_request request = {.work = KILN_WORK_TASKS,
                                       .target = KILN_STR("x86-64-v3"),
                                       .model_path = kiln_str_from(path),
                                       .model_form = form};
    expect_ok(kiln_loop_create(&a.loop));
    kiln_builders *pool = kiln_builders_create(a.loop, &options);
    kiln_builders_submit(pool, &request, false, PATIENCE, on_tasks, &a);
    kiln_loop_run(a.loop);
    kiln_builders_destroy(pool);
    kiln_loop_destroy(a.loop);
    return a;
}

static char *write_parts(kiln_arena *arena, const char *folder, const kiln_graph_bytes *bytes) {
    char *path = kiln_arena_printf(arena, "%s/model", folder);
    kiln_strbuf whole = {0};
    for (uint32_t i = 0; i < bytes->part_count; i++) kiln_strbuf_str(&whole, bytes->part[i]);
    expect_ok(kiln_file_write(path, kiln_strbuf_view(&whole), 0600));
    kiln_strbuf_deinit(&whole);
    return path;
}

static void a_graph_has_the_tasks_of_the_model_it_was_imported_from(void **state) {
    kiln_strbuf model = {0};
    kiln_graph *graph = NULL;
    char *folder = make_folder(*state), *path = kiln_arena_printf(*state, "%s/m.onnx", folder);
    expect_ok(kiln_zoo_build(KILN_STR("dqn"), 1, &model));
    expect_ok(kiln_file_write(path, kiln_strbuf_view(&model), 0600));
    expect_ok(kiln_import_bytes(kiln_strbuf_view(&model), NULL, NULL, *state, &graph));
    kiln_graph_bytes bytes = kiln_graph_encode(graph, *state);
    answer of_file = tasks_of(*state, path, KILN_MODEL_FORM_ONNX),
           of_graph = tasks_of(*state, write_parts(*state, folder, &bytes), KILN_MODEL_FORM_GRAPH);
    assert_int_equal(of_file.code, 0);
    assert_int_equal(of_graph.code, 0);
    assert_non_null(strstr(of_file.text, "conv"));
    assert_string_equal(of_file.text, of_graph.text);
    kiln_strbuf_deinit(&model);
    remove_folder(folder);
}

static void a_damaged_graph_is_refused_and_the_worker_lives(void **state) {
    static const char bytes[] = "kilngrph\1\0\0\0\0\0\0\0\377\0\0\0\0\0\0";
    char *folder = make_folder(*state), *path = kiln_arena_printf(*state, "%s/g", folder);
    expect_ok(kiln_file_write(path, (kiln_str){bytes, sizeof bytes}, 0600));
    answer a = tasks_of(*state, path, KILN_MODEL_FORM_GRAPH);
    assert_int_equal(a.code, KILN_DATA_LOSS);
    expect_contains(a.text, "reading the bytes of a graph: the structure ends behind them");
    remove_folder(folder);
}

int main(int argc, char **argv) {
    own_path = argv[0];
    if (kiln_worker_is_asked(argc, argv)) return kiln_worker_main(argc, argv);
    const struct CMUnitTest tests[] = {
        test_with_arena(references_may_prepare_what_depends_on_constants_alone),
        test_with_arena(a_graph_has_the_tasks_of_the_model_it_was_imported_from),
        test_with_arena(a_damaged_graph_is_refused_and_the_worker_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
