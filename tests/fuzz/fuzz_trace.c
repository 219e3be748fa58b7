/* Traces from strangers, as text and as bytes: they parse or are refused; what parses prints, packs
 * and comes back the same; what replays on one of a few small programs leaves a valid one, has
 * features, and lowers to a valid program with code or is refused. Nothing aborts, hangs or
 * overflows. */
#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/cost/features_cpu.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/sched/trace.h"
#include "tests/fuzz/fuzz.h"

/* All have blocks "a" and "c" and buffers x, t and y, so that one trace fits several. */
static const char *const program_text[] = {
    "program chain\n"
    "input x: f32[4,6]\n"
    "temp t: f32[4,6]\n"
    "output y: f32[4]\n"
    "block a(i:4, j:6): t[i, j] = x[i, j]*2.0\n"
    "block c(i:4 | j:6): y[i] sum= t[i, j]\n",
    "program pack\n"
    "input x: f32[4,6]\n"
    "constant w: f32[6,16]\n"
    "temp t: f32[6,16]\n"
    "output y: f32[4,16]\n"
    "block a(i:6, j:16): t[i, j] = w[i, j]*2.0\n"
    "block c(i:4, k:16 | j:6): y[i, k] sum= x[i, j]*t[j, k]\n",
    "program gather\n"
    "input idx: i64[4]\n"
    "input x: f32[16]\n"
    "temp t: f32[16]\n"
    "output y: f32[4,6]\n"
    "block a(i:16): t[i] = x[i]*2.0\n"
    "block c(i:4, j:6): y[i, j] = t[idx[i]*2 + j]\n",
};

static void lower(const kiln_program *scheduled, kiln_arena *arena) {
    kiln_target target;
    kiln_lowered lowered;
    float feature[KILN_FEATURE_COUNT];
    kiln_status st = kiln_target_parse(
        KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,cores=4,threads=4"), arena, &target);
    KILN_CHECK(!st);
    kiln_features_cpu.compute(scheduled, &target, arena, feature);
    st = kiln_lower(scheduled, &target, arena, &lowered);
    if (!st) {
        const kiln_codegen_options options = {.backend = "c"};
        kiln_str text;
        uint64_t scratch, worker_scratch;
        KILN_CHECK(!kiln_program_verify(lowered.run));
        KILN_CHECK(!lowered.prepare || !kiln_program_verify(lowered.prepare));
        st = kiln_codegen(&lowered, &target, &options, arena, &text, &scratch, &worker_scratch);
    }
    kiln_code code = kiln_status_code(st);
    KILN_CHECK(!st || code == KILN_ILLEGAL_SCHEDULE || code == KILN_RESOURCE_EXHAUSTED);
    kiln_status_free(st);
}

static void replay(const kiln_trace *trace, const char *text, kiln_arena *arena) {
    kiln_program *te = NULL;
    kiln_program *p = NULL;
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    kiln_status parsed = kiln_program_parse(kiln_str_from(text), arena, &te);
    KILN_CHECK(!parsed);
    kiln_status st = kiln_trace_replay(trace, te, &rand, arena, &p, NULL);
    if (!st) {
        KILN_CHECK(!kiln_program_verify(p));
        lower(p, arena);
    }
    kiln_status_free(st); /* illegal is fine */
}

static void check(const kiln_trace *trace, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_strbuf bytes = {0};
    kiln_trace parsed, decoded;
    kiln_trace_print(trace, &text);
    kiln_trace_encode(trace, &bytes);
    if (bytes.size <= KILN_TRACE_BYTES_MAX) {
        kiln_status st = kiln_trace_decode(kiln_strbuf_view(&bytes), arena, &decoded);
        KILN_CHECK(!st);
        kiln_hash128 a = kiln_trace_hash(trace), b = kiln_trace_hash(&decoded);
        KILN_CHECK(a.high == b.high && a.low == b.low);
    }
    kiln_status_free(
        kiln_trace_parse(kiln_strbuf_view(&text), arena, &parsed)); /* texts may hold line ends */
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(program_text); i++)
        replay(trace, program_text[i], arena);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&bytes);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    const kiln_str input = {(const char *)data, size};
    kiln_arena arena;
    kiln_trace trace;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_trace_parse(input, &arena, &trace);
    if (!st) check(&trace, &arena);
    kiln_status_free(st);
    st = kiln_trace_decode(input, &arena, &trace);
    if (!st) check(&trace, &arena);
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return 0;
}
