/* Random ONNX graphs: fuzz-graph [--seconds S] [--runs N] [--seed N] [--graph N] [--keep FOLDER]
 * [--peer PYTHON]
 *
 * Every graph is compiled with its default schedules and run, and compared with the interpreter;
 * once more with passes or parts of planning left out; and by ONNX Runtime where it is there.
 * graph/graph.h says how rounding is allowed for, graph/ops.def which operators are drawn and how.
 * Structured, so it has a main of its own instead of driver.c's bytes.
 *
 * Differences to ONNX Runtime 1.31 that are known; each is marked where the operator is drawn
 * (peer_may_differ), and what depends on such a value is not compared with it:
 *
 * - Dropout before opset 12: the mask at inference is True here, False there. Dropout-7 and
 *   Dropout-10 do not define it.
 * - Conv and pools with auto_pad SAME and a stride above the kernel: the specification's total
 *   padding is negative. Here nothing is padded, there elements are cut off.
 * - MaxPool with storage_order 1: the specification does not say which of equal elements is named.
 *   Here it is the lowest index, there the first by rows.
 * - Resize align_corners with scales: the resized length is scale * length here, as in ONNX's own
 *   test resize_downsample_scales_linear_align_corners, and rounded down there.
 * - GroupNormalization of f64 from opset 21 on: stash_type 1 lets mean and variance be computed in
 *   f32. ONNX Runtime does, Kiln takes f64.
 * - Resize to sizes, nearest: positions are (i + 0.5) / (size / length) - 0.5; there the scale is
 *   rounded to a float first, so a position that is a whole number may fall below it.
 * - MeanVarianceNormalization and InstanceNormalization of equal elements: there the variance is a
 *   difference of sums (NaN when it falls below 0), and x * s - mean * s is not 0.
 * - Reductions of integers that overflow: not defined. Here they wrap, there some are floats.
 * - Shrink of unsigned integers with x < bias: not defined. Here it is 0, there it wraps. Of signed
 *   ones: there x - bias is computed in floats, which hold no more than 24 bits.
 * - AffineGrid align_corners of a dimension of one position: there 1, here -1, as in ONNX's
 * reference.
 * - Windows of one number that are not periodic: there 0 / 0, here 1.
 * - Results of as many rows as data says: here there are zeros behind them, and a count.
 * - Functions of floats (logistic, tanh, erf, exp): there they are right to about 1e-6 of 1, not of
 *   their own value. tests/fuzz/graph_onnxruntime.py allows for it.
 *
 * Not drawn, because the result is not defined or no bound for rounding exists: casts of floats
 * beyond an integer's range, divisors near 0, arguments outside of a function's domain or near its
 * poles, scatters with "none" that write an element twice, windows of pools without an element, NaN
 * and infinity but to IsNaN and IsInf. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "compiler-core/passes/pass.h"
#include "deploy/pack/pack.h"
#include "tests/fuzz/graph/check.h"
#include "tests/fuzz/graph/generate.h"
#include "tests/fuzz/graph/peer.h"
#include "tests/support/targets.h"

typedef struct session {
    const char *keep; /* folder for graphs that fail; NULL: they are only named */
    kiln_target target[TEST_LEVELS];
    uint32_t target_count;
    fuzz_peer peer;
    fuzz_counts counts;
    uint64_t graphs, right, agrees, refuses, mismatches;
    uint64_t node_agrees, node_refuses; /* of graphs that ONNX Runtime refuses as a whole */
} session;

/* A signal handler can be told nothing by parameter. */
static uint64_t current;

static void on_death(int signal_number) {
    char line[128];
    int size = snprintf(
        line, sizeof line,
        "graph %" PRIu64
        ": signal %d while it was drawn\n  again: ./dev fuzz graph 0 --graph %" PRIu64 "\n",
        current, signal_number, current);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)size);
    (void)ignored; /* dying anyway */
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* ---- one graph ------------------------------------------------------------------------------- */

static void keep_part(const session *s, const fuzz_graph *g, const fuzz_part *part,
                      const char *kind) {
    char folder[512];
    if (!s->keep) return;
    snprintf(folder, sizeof folder, "%s/%" PRIu64 "-%s", s->keep, g->number, kind);
    kiln_status st = fuzz_write(g, part, folder);
    printf("  kept: %s%s%s\n", folder, st ? " failed: " : "", st ? kiln_status_text(st) : "");
    kiln_status_free(st);
}

static void print_part(const fuzz_graph *g, const fuzz_part *part) {
    for (uint32_t n = 0; n < g->node_count; n++) {
        const fuzz_node *node = &g->node[n];
        if (!(part->nodes >> n & 1)) continue;
        kiln_strbuf text = {0};
        for (uint32_t i = 0; i < node->output_count; i++)
            kiln_strbuf_printf(&text, "%s ", g->value[node->output[i]].name);
        kiln_strbuf_printf(&text, "= %s(", node->op);
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (i) kiln_strbuf_text(&text, ", ");
            if (node->input[i] == FUZZ_NONE) continue;
            const fuzz_value *value = &g->value[node->input[i]];
            kiln_strbuf_printf(&text, "%s %s%s", value->name,
                               value->origin == FUZZ_CONSTANT ? "constant " : "",
                               kiln_dtype_name(value->truth.dtype));
            kiln_shape_print(&value->truth.shape, &text);
        }
        printf("    %s)\n", text.data);
        kiln_strbuf_deinit(&text);
    }
}

static void report_failure(session *s, const fuzz_graph *g, const fuzz_part *part, const char *kind,
                           const char *why) {
    s->mismatches++;
    printf("graph %" PRIu64 " (opset %d), %s: %s\n  again: ./dev fuzz graph 0 --graph %" PRIu64
           "\n",
           g->number, g->opset, kind, why, g->number);
    print_part(g, part);
    keep_part(s, g, part, kind);
    fflush(stdout);
}

static bool way_fails(void *context, const fuzz_graph *g, const fuzz_part *part) {
    kiln_strbuf why = {0};
    bool fails = !fuzz_check(g, part, context, &why);
    kiln_strbuf_deinit(&why);
    return fails;
}

/* True: all is right. */
static bool check_way(session *s, const fuzz_graph *g, const fuzz_part *part, fuzz_way *way) {
    kiln_strbuf why = {0};
    bool right = fuzz_check(g, part, way, &why);
    if (!right) {
        fuzz_part small = fuzz_shrink(g, part, way_fails, way);
        kiln_strbuf_reset(&why);
        kiln_strbuf_printf(&why, "target %.*s", KILN_STR_ARG(way->target->mcpu));
        if (way->passes | way->planners)
            kiln_strbuf_printf(&why, ", without passes %x, planners %x", way->passes,
                               way->planners);
        kiln_strbuf_text(&why, ": ");
        if (fuzz_check(g, &small, way, &why)) kiln_strbuf_text(&why, "it does not fail every time");
        report_failure(s, g, &small, "kiln", why.data);
    }
    kiln_strbuf_deinit(&why);
    return right;
}

/* FUZZ_PEER_DIED where it could not be asked. */
static fuzz_opinion opinion_of(session *s, const fuzz_graph *g, const fuzz_part *part,
                               kiln_strbuf *why) {
    fuzz_opinion opinion = FUZZ_PEER_DIED;
    kiln_status st = fuzz_peer_ask(&s->peer, g, part, &opinion, why);
    if (st) kiln_strbuf_text(why, kiln_status_text(st));
    kiln_status_free(st);
    return opinion;
}

static bool peer_differs(void *context, const fuzz_graph *g, const fuzz_part *part) {
    kiln_strbuf why = {0};
    fuzz_opinion opinion = opinion_of(context, g, part, &why);
    kiln_strbuf_deinit(&why);
    return opinion == FUZZ_PEER_DIFFERS;
}

static void report_difference(session *s, const fuzz_graph *g, const fuzz_part *part) {
    fuzz_part small = fuzz_shrink(g, part, peer_differs, s);
    kiln_strbuf why = {0};
    opinion_of(s, g, &small, &why);
    report_failure(s, g, &small, "onnxruntime", why.data);
    kiln_strbuf_deinit(&why);
}

/* A graph with one node that ONNX Runtime has no kernel for is refused as a whole: then its nodes
 * are asked about one by one. False: one differs. */
static bool ask_nodes(session *s, const fuzz_graph *g) {
    for (uint32_t n = 0; n < g->node_count; n++) {
        const fuzz_part alone = {.nodes = 1u << n};
        kiln_strbuf why = {0};
        fuzz_opinion opinion = opinion_of(s, g, &alone, &why);
        s->node_agrees += opinion == FUZZ_PEER_AGREES;
        s->node_refuses += opinion == FUZZ_PEER_REFUSES;
        if (opinion == FUZZ_PEER_DIFFERS) report_failure(s, g, &alone, "onnxruntime", why.data);
        kiln_strbuf_deinit(&why);
        if (opinion == FUZZ_PEER_DIFFERS) return false;
    }
    return true;
}

static kiln_status ask_peer(session *s, const fuzz_graph *g, const fuzz_part *part) {
    kiln_strbuf why = {0};
    kiln_status st = KILN_OK;
    if (!s->peer.pid) return KILN_OK;
    fuzz_opinion opinion = opinion_of(s, g, part, &why);
    s->agrees += opinion == FUZZ_PEER_AGREES;
    if (opinion == FUZZ_PEER_DIED)
        st = KILN_ERROR(UNAVAILABLE, "ONNX Runtime ended at graph %" PRIu64 ": %s", g->number,
                        why.data);
    if (opinion == FUZZ_PEER_REFUSES) s->refuses += ask_nodes(s, g);
    if (opinion == FUZZ_PEER_DIFFERS) report_difference(s, g, part);
    kiln_strbuf_deinit(&why);
    return st;
}

/* The target is the graph's own, or the last that runs here; every second graph is compiled once
 * more without some passes or parts of planning. */
static kiln_status run_graph(session *s, uint64_t number) {
    static fuzz_graph g; /* large */
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    current = number;
    uint64_t refused = s->counts.refused;
    fuzz_generate(number, &arena, &g, &s->counts);
    fuzz_part part = fuzz_part_all(&g);
    for (uint32_t v = 0; v < g.value_count; v++)
        part.is_extra[v] = kiln_rand_below(&g.rand, 4) == 0;
    uint32_t level = (uint32_t)kiln_rand_below(&g.rand, TEST_LEVELS);
    fuzz_way way = {.target = &s->target[KILN_MIN(level, s->target_count - 1)]};
    fuzz_way less = {.target = way.target,
                     .passes = (uint32_t)kiln_rand_below(&g.rand, 1u << KILN_PASS_COUNT),
                     .planners = (uint32_t)kiln_rand_below(&g.rand, 1u << KILN_PLANNER_COUNT)};
    bool twice = kiln_rand_below(&g.rand, 2);
    kiln_status st = KILN_OK;
    s->graphs++;
    if (s->counts.refused > refused) s->mismatches++;
    bool right = g.node_count == 0 ||
                 (check_way(s, &g, &part, &way) && (!twice || check_way(s, &g, &part, &less)));
    s->right += right;
    if (g.node_count) st = ask_peer(s, &g, &part);
    kiln_arena_deinit(&arena);
    return st;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The levels of x86-64 that run here; elsewhere the plainest processor. */
static kiln_status find_targets(session *s, const char *wanted, kiln_arena *arena) {
    const kiln_target plain = plain_target(arena);
    if (wanted) {
        s->target_count = 1;
        return kiln_target_parse(kiln_str_from(wanted), arena, &s->target[0]);
    }
    for (uint32_t i = 0; i < TEST_LEVELS && plain.arch == KILN_ARCH_X86_64; i++) {
        s->target[s->target_count] = target_of(arena, test_level[i]);
        if (runs_here(&s->target[s->target_count], arena)) s->target_count++;
    }
    if (s->target_count == 0) s->target[s->target_count++] = plain;
    return KILN_OK;
}

static void report(const session *s) {
    uint32_t missed = 0;
    for (uint32_t i = 0; i < fuzz_row_count(); i++) {
        int since;
        const char *name = fuzz_row_name(i, &since);
        if (s->counts.drawn_of[i] || s->graphs < fuzz_row_count()) continue;
        printf("never drawn: %s since opset %d\n", name, since);
        missed++;
    }
    if (s->counts.reasons.size) printf("refused by Kiln:\n%s", s->counts.reasons.data);
    printf("graph: %" PRIu64 " nodes, %" PRIu64 " ill-conditioned ones drawn anew, %" PRIu64
           " unsupported, %" PRIu64 " refused, %u operators missed\n",
           s->counts.drawn, s->counts.ill_conditioned, s->counts.unsupported, s->counts.refused,
           missed);
    printf("graph: graphs %" PRIu64 ", agree with the interpreter %" PRIu64, s->graphs, s->right);
    if (s->peer.pid)
        printf(", ORT agrees %" PRIu64 ", ORT refuses %" PRIu64
               " (of their nodes it agrees on %" PRIu64 ", refuses %" PRIu64 ")",
               s->agrees, s->refuses, s->node_agrees, s->node_refuses);
    printf(", mismatches %" PRIu64 "\n", s->mismatches);
}

static kiln_status run(int argc, char **argv, kiln_arena *arena, session *s) {
    uint64_t runs = UINT64_MAX, seed = 1, only = UINT64_MAX;
    double seconds = 0;
    const char *corpus = NULL, *peer = NULL, *script = "tests/fuzz/graph_onnxruntime.py",
               *target = NULL;
    const kiln_opt option[] = {
        {"seconds", KILN_OPT_NUMBER, &seconds, "S", "Ends after S seconds."},
        {"runs", KILN_OPT_COUNT, &runs, "N", "Ends after N graphs."},
        {"seed", KILN_OPT_COUNT, &seed, "N", "Starts with graph N million."},
        {"graph", KILN_OPT_COUNT, &only, "N", "Runs graph N only."},
        {"keep", KILN_OPT_TEXT, &s->keep, "FOLDER",
         "Leaves graphs that fail, shrunk, for `kiln verify`."},
        {"target", KILN_OPT_TEXT, &target, "T",
         "Compiles for T (default: levels of this machine in turns)."},
        {"peer", KILN_OPT_TEXT, &peer, "PYTHON",
         "Compares with ONNX Runtime, which that Python has."},
        {"script", KILN_OPT_TEXT, &script, "FILE", "What it is asked by."},
        {"corpus", KILN_OPT_TEXT, &corpus, "FOLDER", "Not used: graphs are drawn."},
    };
    const kiln_opt_table table = {"fuzz-graph [options]",
                                  "Compiles and runs random ONNX graphs.",
                                  option,
                                  KILN_ARRAY_COUNT(option),
                                  0,
                                  0};
    kiln_args args;
    kiln_status st = kiln_opt_parse(&table, argc, argv, arena, &args);
    if (st || args.help) return st;
    s->counts.drawn_of = KILN_ARENA_ARRAY(arena, uint64_t, fuzz_row_count());
    if (fuzz_missing_rule())
        return KILN_ERROR(FAILED_PRECONDITION, "graph/ops.def has no row for %s",
                          fuzz_missing_rule());
    st = find_targets(s, target, arena);
    if (!st && peer) st = fuzz_peer_start(&s->peer, peer, script);
    if (only != UINT64_MAX) return st ? st : run_graph(s, only);
    uint64_t end_ns = kiln_clock_ns() + (uint64_t)(seconds * 1e9);
    for (uint64_t i = 0; !st && i < runs && (runs != UINT64_MAX || kiln_clock_ns() < end_ns); i++)
        st = run_graph(s, seed * 1000000 + i);
    return st;
}

int main(int argc, char **argv) {
    static const int signals[] = {SIGABRT, SIGFPE, SIGILL, SIGSEGV, SIGBUS};
    kiln_arena arena = {0};
    session s = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(signals); i++) signal(signals[i], on_death);
    kiln_status st = run(argc, argv, &arena, &s);
    if (s.graphs) report(&s);
    int code = st ? kiln_code_exit(kiln_status_code(st)) : s.mismatches > 0;
    if (st) fprintf(stderr, "fuzz-graph: %s\n", kiln_status_text(st));
    kiln_status_free(st);
    fuzz_peer_stop(&s.peer);
    kiln_strbuf_deinit(&s.counts.reasons);
    kiln_arena_deinit(&arena);
    return code;
}
