#include "tests/fuzz/graph/check.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "cli/verify.h"
#include "deploy/pack/pack.h"

#define HANG_SECONDS 20
#define GUARD_BYTES 256u /* behind every output */
#define POISON 0xa5
#define REASON_BYTES_MAX 2000u

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same_element(const fuzz_value *value, const kiln_tensor *actual, size_t i) {
    double a = kiln_dtype_load_f64(actual->dtype, actual->data, i),
           r = kiln_dtype_load_f64(value->truth.dtype, value->truth.data, i);
    if (isnan(r)) return isnan(a);
    if (isinf(r)) return a == r;
    return fabs(a - r) <= fuzz_tolerance(value, i);
}

static bool same_output(const fuzz_value *value, const kiln_tensor *actual, kiln_strbuf *why) {
    size_t count = (size_t)kiln_shape_count(&value->truth.shape), wrong = 0, first = 0;
    bool is_float = kiln_dtype_is_float(value->truth.dtype);
    size_t each = kiln_dtype_size(value->truth.dtype);
    for (size_t i = 0; i < count; i++) {
        const char *a = (const char *)actual->data + i * each,
                   *r = (const char *)value->truth.data + i * each;
        bool same = is_float ? same_element(value, actual, i) : memcmp(a, r, each) == 0;
        if (!same && wrong++ == 0) first = i;
    }
    if (!wrong) return true;
    kiln_strbuf_printf(why, "%s (%s", value->name, kiln_dtype_name(value->truth.dtype));
    kiln_shape_print(&value->truth.shape, why);
    kiln_strbuf_printf(
        why, "): %zu of %zu elements are wrong, first [%zu]: %.9g instead of %.9g +- %.3g", wrong,
        count, first, kiln_dtype_load_f64(actual->dtype, actual->data, first),
        kiln_dtype_load_f64(value->truth.dtype, value->truth.data, first),
        fuzz_tolerance(value, first));
    return false;
}

/* ---- compiling and running ------------------------------------------------------------------- */

typedef struct run {
    kiln_graph *graph;
    const void **input;
    void **output;
    const fuzz_value **expected; /* [outputs] */
} run;

static const fuzz_value *value_of(const fuzz_graph *g, kiln_str name) {
    for (uint32_t v = 0; v < g->value_count; v++)
        if (kiln_str_is(name, g->value[v].name)) return &g->value[v];
    return NULL;
}

/* Ports of the compiled graph are found by name; types and shapes must be those of the truth. */
static kiln_status bind_ports(const fuzz_graph *g, run *r, kiln_arena *arena) {
    r->input = KILN_ARENA_ARRAY(arena, const void *, r->graph->input.count + 1);
    r->output = KILN_ARENA_ARRAY(arena, void *, r->graph->output.count + 1);
    r->expected = KILN_ARENA_ARRAY(arena, const fuzz_value *, r->graph->output.count + 1);
    for (uint32_t i = 0; i < r->graph->input.count; i++)
        r->input[i] = value_of(g, r->graph->value.data[r->graph->input.data[i]].name)->truth.data;
    return KILN_OK;
}

static size_t output_bytes(const fuzz_value *value) { return kiln_tensor_bytes(&value->truth); }

static kiln_status bind_outputs(const fuzz_graph *g, const fuzz_ports *ports, run *r,
                                kiln_arena *arena) {
    if (r->graph->output.count != ports->output_count)
        return KILN_ERROR(INTERNAL, "%u outputs instead of %u", r->graph->output.count,
                          ports->output_count);
    for (uint32_t i = 0; i < ports->output_count; i++) {
        const kiln_value_info *port = &r->graph->value.data[r->graph->output.data[i]];
        const fuzz_value *value = &g->value[ports->output[i]];
        if (port->dtype != value->truth.dtype ||
            !kiln_shape_equal(&port->shape, &value->truth.shape))
            return KILN_ERROR(INTERNAL, "output %u: type or shape differ", i);
        r->expected[i] = value;
        r->output[i] = kiln_arena_alloc_aligned(arena, 64, output_bytes(value) + GUARD_BYTES);
        memset(r->output[i], POISON, output_bytes(value) + GUARD_BYTES);
    }
    return KILN_OK;
}

static kiln_status compile_and_run(const fuzz_graph *g, const fuzz_part *part, const fuzz_way *way,
                                   run *r, uint32_t *out_count, kiln_arena *arena) {
    fuzz_ports ports;
    kiln_strbuf module = {0};
    kiln_compilation *compilation = NULL;
    kiln_pack_options options = {.model_name = KILN_STR("fuzz"), .without = way->planners};
    fuzz_part_ports(g, part, &ports);
    kiln_status st =
        kiln_import_bytes(fuzz_part_model(g, part, arena), NULL, NULL, arena, &r->graph);
    if (!st) st = kiln_passes_run_without(r->graph, way->passes);
    if (!st) st = bind_ports(g, r, arena);
    if (!st) st = bind_outputs(g, &ports, r, arena);
    if (!st) st = kiln_compilation_create(r->graph, way->target, arena, &compilation);
    if (!st) st = kiln_pack(compilation, &options, arena, &module, NULL);
    if (!st) st = kiln_verify_here(NULL, kiln_strbuf_view(&module), r->input, r->output, NULL);
    kiln_strbuf_deinit(&module);
    *out_count = ports.output_count;
    return st;
}

static bool guard_is_whole(const run *r, uint32_t output) {
    const uint8_t *guard = (const uint8_t *)r->output[output] + output_bytes(r->expected[output]);
    for (uint32_t i = 0; i < GUARD_BYTES; i++)
        if (guard[i] != POISON) return false;
    return true;
}

static bool check_here(const fuzz_graph *g, const fuzz_part *part, const fuzz_way *way,
                       kiln_strbuf *why) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    run r = {0};
    uint32_t count = 0;
    kiln_status st = compile_and_run(g, part, way, &r, &count, &arena);
    bool right = st == NULL;
    for (uint32_t i = 0; right && i < count; i++) {
        kiln_tensor actual = {r.expected[i]->truth.dtype, r.expected[i]->truth.shape, r.output[i]};
        right = same_output(r.expected[i], &actual, why);
        if (right && !guard_is_whole(&r, i)) {
            kiln_strbuf_printf(why, "%s: bytes behind the output are written", r.expected[i]->name);
            right = false;
        }
    }
    if (st) kiln_strbuf_text(why, kiln_status_text(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return right;
}

/* ---- in a child ------------------------------------------------------------------------------ */

static void check_in_child(int fd, const fuzz_graph *g, const fuzz_part *part,
                           const fuzz_way *way) {
    kiln_strbuf why = {0};
    alarm(HANG_SECONDS);
    bool right = check_here(g, part, way, &why);
    size_t size = KILN_MIN(why.size, (size_t)REASON_BYTES_MAX);
    ssize_t ignored = size ? write(fd, why.data, size) : 0;
    (void)ignored; /* the parent sees that nothing came */
    _exit(right ? 0 : 1);
}

static void read_all(int fd, kiln_strbuf *out) {
    char buffer[512];
    ssize_t got;
    while ((got = read(fd, buffer, sizeof buffer)) > 0)
        kiln_strbuf_append(out, buffer, (size_t)got);
}

bool fuzz_check(const fuzz_graph *g, const fuzz_part *part, const fuzz_way *way, kiln_strbuf *why) {
    int pipes[2], status = 0;
    KILN_CHECK(pipe2(pipes, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t child = fork();
    KILN_CHECK(child >= 0);
    if (child == 0) check_in_child(pipes[1], g, part, way);
    close(pipes[1]);
    read_all(pipes[0], why);
    close(pipes[0]);
    KILN_CHECK(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status))
        kiln_strbuf_printf(why, "it ended by signal %d%s", WTERMSIG(status),
                           WTERMSIG(status) == SIGALRM ? " (it hangs)" : "");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- shrinking ------------------------------------------------------------------------------- */

fuzz_part fuzz_shrink(const fuzz_graph *g, const fuzz_part *part, fuzz_failing fails,
                      void *context) {
    fuzz_part best = *part, tried;
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (uint32_t n = g->node_count; n-- > 0;) {
            tried = best;
            tried.nodes &= ~(1u << n);
            if (tried.nodes == best.nodes || tried.nodes == 0 || !fails(context, g, &tried))
                continue;
            best = tried;
            smaller = true;
        }
    }
    tried = best;
    memset(tried.is_extra, 0, sizeof tried.is_extra);
    return fails(context, g, &tried) ? tried : best;
}

/* ---- writing --------------------------------------------------------------------------------- */

static kiln_status write_tensor(const char *folder, const char *kind, uint32_t index,
                                const kiln_tensor *tensor, kiln_arena *arena) {
    message m = tensor_message(arena, "", tensor);
    return kiln_file_write(kiln_arena_printf(arena, "%s/%s_%u.pb", folder, kind, index), m.bytes,
                           0666);
}

/* Infinite where ONNX Runtime may compute something else. */
static kiln_status write_tolerance(const char *folder, uint32_t index, const fuzz_value *value,
                                   kiln_arena *arena) {
    kiln_tensor tensor = kiln_tensor_create(arena, KILN_F64, &value->truth.shape);
    for (size_t i = 0; i < (size_t)kiln_shape_count(&tensor.shape); i++)
        kiln_dtype_store_f64(KILN_F64, tensor.data, i,
                             value->peer_differs ? (double)INFINITY : fuzz_tolerance(value, i));
    return write_tensor(folder, "tolerance", index, &tensor, arena);
}

kiln_status fuzz_write(const fuzz_graph *g, const fuzz_part *part, const char *folder) {
    kiln_arena arena;
    fuzz_ports ports;
    kiln_arena_init(&arena, 0);
    const char *data = kiln_arena_printf(&arena, "%s/test_data_set_0", folder);
    fuzz_part_ports(g, part, &ports);
    kiln_status st = kiln_folder_create(data, 0777);
    if (!st)
        st = kiln_file_write(kiln_arena_printf(&arena, "%s/model.onnx", folder),
                             fuzz_part_model(g, part, &arena), 0666);
    for (uint32_t i = 0; !st && i < ports.input_count; i++)
        st = write_tensor(data, "input", i, &g->value[ports.input[i]].truth, &arena);
    for (uint32_t i = 0; !st && i < ports.output_count; i++) {
        st = write_tensor(data, "output", i, &g->value[ports.output[i]].truth, &arena);
        if (!st) st = write_tolerance(data, i, &g->value[ports.output[i]], &arena);
    }
    kiln_arena_deinit(&arena);
    return st;
}
