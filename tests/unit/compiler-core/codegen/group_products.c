#include "tests/unit/compiler-core/codegen/group_products.h"

#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/sched/trace.h"
#include "tests/support/emulate_scheduled.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/codegen/support.h"
#include "tests/unit/compiler-core/sched/support.h"

kiln_program *group_program(const group_product *x, kiln_arena *arena) {
    return parsed(
        arena,
        kiln_arena_printf(
            arena,
            "program p\ninput x: %s[%lld, %lld]\ninput w: %s[%lld, %lld]\noutput y: f32[%lld, "
            "%lld]\nblock mul(i:%lld, j:%lld | k:%lld): y[i, j] sum= f32(x[%s]) * f32(w[%s]) "
            "init 0.0\n",
            x->type, (long long)(x->by_columns ? x->k : x->m),
            (long long)(x->by_columns ? x->m : x->k), x->type,
            (long long)(x->by_rows ? x->k : x->n), (long long)(x->by_rows ? x->n : x->k),
            (long long)x->m, (long long)x->n, (long long)x->m, (long long)x->n, (long long)x->k,
            x->by_columns ? "k, i" : "i, k", x->by_rows ? "k, j" : "j, k"));
}

/* All threads fetch a temp, 16 bytes each at a time, into rows of 128 bytes with exchanged units.
 */
static const char *fetch_of(const group_product *x, const char *temp, bool is_transposed,
                            kiln_arena *arena) {
    const char *groups =
        x->producer ? "" : kiln_arena_printf(arena, "bind(%s.d0.f.1, \"thread.z\")\n", temp);
    return kiln_arena_printf(
        arena,
        "compute_at(%s, mul.k.0)\nfuse(%s.d0, %s.d1)\nsplit(%s.d0.f, -1, %lld, 4, 32, 8)\n"
        "reorder(%s.d0.f.1, %s.d0.f.2, %s.d0.f.3, %s.d0.f.0, %s.d0.f.4)\n"
        "%sbind(%s.d0.f.2, \"thread.y\")\nbind(%s.d0.f.3, "
        "\"thread.x\")\nvectorize(%s.d0.f.4)\n%s%s%sswizzle(%s, 0, 8, 8, 1)\n",
        temp, temp, temp, temp, (long long)(x->producer ? 1 : x->groups), temp, temp, temp, temp,
        temp, groups, temp, temp, temp, is_transposed ? "transform_layout(" : "",
        is_transposed ? temp : "", is_transposed ? ", \"d1/64,d0,d1%64\")\n" : "", temp);
}

static const char *pipeline_of(const group_product *x, kiln_arena *arena) {
    if (x->stages == 0) return "";
    return kiln_arena_printf(arena, "pipeline(mul.k.0, %lld)\nproducer(mul.k.0, %d)\n",
                             (long long)x->stages, x->producer);
}

/* Groups that lie below one another are a cluster: they read the same columns. */
static const char *cluster_of(const group_product *x, kiln_arena *arena) {
    if (x->cluster == 0) return "bind(mul.i.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n";
    return kiln_arena_printf(arena,
                             "split(mul.i.0, -1, %lld)\nreorder(mul.i.0.0, mul.j.0, mul.i.0.1)\n"
                             "bind(mul.i.0.0, \"block.y\")\nbind(mul.j.0, \"block.x\")\n"
                             "bind(mul.i.0.1, \"cluster\")\n",
                             (long long)x->cluster);
}

const char *group_schedule(const group_product *x, kiln_arena *arena) {
    const long long groups = x->groups, m = x->m / (64 * groups), n = x->n / x->columns,
                    tiles = x->columns / 8;
    return kiln_arena_printf(
        arena,
        "cache_read(mul, x, \"shared\")\ncache_read(mul, w, \"shared\")\n"
        "cache_write(mul, \"register\")\n"
        "split(mul.i, %lld, %lld, 4, 2, 8)\nsplit(mul.j, %lld, %lld, 4, 2)\n"
        "split(mul.k, %lld, 4, 16)\n"
        "reorder(mul.i.0, mul.j.0, mul.k.0, mul.i.1, mul.i.2, mul.i.4, mul.j.2, mul.k.1, mul.i.3, "
        "mul.j.1, mul.j.3, mul.k.2)\n"
        "fuse(mul.i.4, mul.j.2)\nfuse(mul.j.1, mul.j.3)\n"
        "%sbind(mul.i.1, \"thread.z\")\nbind(mul.i.2, \"thread.y\")\nbind(mul.i.4.f, "
        "\"thread.x\")\n"
        "decompose_reduction(mul, mul.k.0)\n%s%s"
        "reverse_compute_at(mul.write, %s)\n"
        "split(mul.write.i, %lld, 4, 2, 8)\nsplit(mul.write.j, %lld, 4, 2)\n"
        "reorder(mul.write.i.0, mul.write.i.1, mul.write.i.3, mul.write.j.1, mul.write.i.2, "
        "mul.write.j.0, mul.write.j.2)\nfuse(mul.write.i.3, mul.write.j.1)\n"
        "bind(mul.write.i.0, \"thread.z\")\nbind(mul.write.i.1, \"thread.y\")\n"
        "bind(mul.write.i.3.f, \"thread.x\")\nunroll(mul.write.i.2)\nunroll(mul.write.j.0)\n"
        "vectorize(mul.write.j.2)\nunroll(mul.init.i.3)\nunroll(mul.init.j.1.f)\nunroll(mul.k.1)\n"
        "tensorize(mul.i.3, \"wgmma.m64k16.%s\")\n%s",
        m, groups, n, tiles, (long long)(x->k / 64), cluster_of(x, arena),
        fetch_of(x, "x.read", x->by_columns, arena), fetch_of(x, "w.read", x->by_rows, arena),
        x->cluster ? "mul.i.0.1" : "mul.j.0", groups, tiles, x->type, pipeline_of(x, arena));
}

kiln_program *group_scheduled(const kiln_program *te, const char *text) {
    kiln_trace trace;
    kiln_program *p = NULL;
    expect_ok(kiln_trace_parse(kiln_str_from(text), te->arena, &trace));
    expect_ok(kiln_trace_replay(&trace, te, NULL, te->arena, &p, NULL));
    return p;
}

kiln_str group_text(const kiln_program *p, const char *backend, kiln_arena *arena,
                    kiln_lowered *lowered) {
    return device_text(p, "cuda:sm_90a", backend, arena, lowered);
}

void group_tensors(const kiln_program *te, kiln_arena *arena, kiln_tensor arg[3]) {
    for (uint32_t i = 0; i < 3; i++) {
        arg[i] =
            kiln_tensor_create(arena, te->buffer.data[i + 1].dtype, &te->buffer.data[i + 1].shape);
        for (uint32_t e = 0; i < 2 && e < kiln_shape_count(&arg[i].shape); e++)
            kiln_dtype_store_i64(arg[i].dtype, arg[i].data, e,
                                 (int64_t)((e * 7 + e / 13 + i) % 11) - 5);
    }
}

kiln_status group_emulate(kiln_str text, const kiln_launch *l, const kiln_tensor arg[3],
                          kiln_arena *arena) {
    return emulate_launch(text, l, arg, 3, arena);
}

/* What a product gives in the end, and its CUDA C. */
typedef struct computed {
    kiln_tensor want[3], low[3], got[3];
    kiln_lowered lowered;
    kiln_str text;
} computed;

static computed *compute(const group_product *x, kiln_arena *arena) {
    computed *c = KILN_ARENA_NEW(arena, computed);
    kiln_program *te = group_program(x, arena);
    group_tensors(te, arena, c->want);
    group_tensors(te, arena, c->low);
    group_tensors(te, arena, c->got);
    expect_ok(kiln_te_eval(te, c->want, 3));
    c->text = group_text(group_scheduled(te, group_schedule(x, arena)), "cuda", arena, &c->lowered);
    return c;
}

void group_expect_product(const group_product *x, const char *word) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    computed *c = compute(x, &arena);
    const size_t bytes = kiln_tensor_bytes(&c->want[2]);
    expect_contains(c->text.data, word);
    expect_ok(kiln_loop_eval(c->lowered.run, c->low, 3));
    expect_ok(group_emulate(c->text, &c->lowered.run_launches.launch[0], c->got, &arena));
    assert_memory_equal(c->low[2].data, c->want[2].data, bytes);
    assert_memory_equal(c->got[2].data, c->want[2].data, bytes);
    kiln_arena_deinit(&arena);
}

void group_expect_fault(const group_product *x, group_spoil *spoil, const void *fault,
                        const char *error) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    computed *c = compute(x, &arena);
    kiln_status st = group_emulate(spoil(c->text, fault, &arena),
                                   &c->lowered.run_launches.launch[0], c->got, &arena);
    if (error) {
        expect_error(st, FAILED_PRECONDITION, error);
    } else {
        expect_ok(st);
        assert_memory_not_equal(c->got[2].data, c->want[2].data, kiln_tensor_bytes(&c->want[2]));
    }
    kiln_arena_deinit(&arena);
}

bool group_assembled(kiln_str ptx, kiln_arena *arena, kiln_ptxas_report *out_report) {
    const char *program = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", arena);
    kiln_str printed;
    if (!program) {
        print_message("no ptxas on PATH or in " KILN_PTXAS_VARIABLE ": it is not asked\n");
        return false;
    }
    expect_ok(kiln_ptxas_run(program, KILN_STR("sm_90a"), ptx, NULL, arena, &printed));
    expect_ok(kiln_ptxas_parse(printed, arena, out_report));
    expect_ok(kiln_ptxas_check_spills(out_report));
    assert_int_equal(out_report->note.size, 0);
    return true;
}

kiln_str replaced(kiln_str text, const char *what, const char *instead, kiln_arena *arena) {
    kiln_strbuf out = {0};
    const char *from = kiln_str_dup(arena, text);
    assert_non_null(strstr(from, what));
    for (const char *at; (at = strstr(from, what)); from = at + strlen(what))
        kiln_strbuf_printf(&out, "%.*s%s", (int)(at - from), from, instead);
    kiln_strbuf_text(&out, from);
    return kiln_strbuf_end(&out, arena);
}
