/* Traces from strangers, as text and as bytes: they parse or are refused; what parses prints, packs
 * and comes back the same; what replays on a small program leaves a valid one. */
#include "base/check.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/sched/trace.h"
#include "tests/fuzz/fuzz.h"

static const char small_program[] = "program chain\n"
                                    "input x: f32[4,6]\n"
                                    "temp t: f32[4,6]\n"
                                    "output y: f32[4]\n"
                                    "block a(i:4, j:6): t[i, j] = x[i, j]*2.0\n"
                                    "block c(i:4 | j:6): y[i] sum= t[i, j]\n";

static void replay(const kiln_trace *trace, kiln_arena *arena) {
    kiln_program *te = NULL;
    kiln_program *p = NULL;
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    kiln_status parsed = kiln_program_parse(kiln_str_from(small_program), arena, &te);
    KILN_CHECK(!parsed);
    kiln_status st = kiln_trace_replay(trace, te, &rand, arena, &p, NULL);
    if (!st) KILN_CHECK(!kiln_program_verify(p));
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
    replay(trace, arena);
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
