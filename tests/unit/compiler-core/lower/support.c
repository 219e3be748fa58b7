#include "tests/unit/compiler-core/lower/support.h"

#include <string.h>

#include "base/check.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/sched/trace.h"
#include "tests/support/interpreter.h"
#include "tests/support/targets.h"

#define ARGS_MAX 64

kiln_target x86_target(kiln_arena *arena, int level, uint32_t threads) {
    kiln_target target;
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v%d,cores=8,threads=%u",
                       level, threads);
    kiln_status st = kiln_target_parse(kiln_strbuf_view(&text), arena, &target);
    kiln_strbuf_deinit(&text);
    if (st) fail_msg("%s", kiln_status_text(st));
    return target;
}

kiln_program *parse_in(kiln_arena *arena, const char *text) {
    kiln_program *p = NULL;
    kiln_status st = kiln_program_parse(kiln_str_from(text), arena, &p);
    if (st) fail_msg("%s", kiln_status_text(st));
    return p;
}

kiln_program *replay_text(const kiln_program *te, const char *trace_text) {
    kiln_trace trace;
    kiln_program *scheduled = NULL;
    kiln_status st = kiln_trace_parse(kiln_str_from(trace_text), te->arena, &trace);
    if (!st) st = kiln_trace_replay(&trace, te, NULL, te->arena, &scheduled, NULL);
    if (st) fail_msg("%s", kiln_status_text(st));
    return scheduled;
}

kiln_program *unscheduled(const kiln_program *te) {
    kiln_program *loops = kiln_program_copy(te, te->arena);
    kiln_program_make_loops(loops);
    return loops;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct bindings {
    const kiln_program *te;
    const kiln_tensor *arg; /* of the expression, in its order */
    uint32_t packed_count;
    kiln_str packed_name[ARGS_MAX];
    kiln_tensor packed[ARGS_MAX];
} bindings;

static kiln_tensor tensor_of(bindings *b, const kiln_buffer_info *info) {
    kiln_arg_buffers buffer = kiln_program_args(b->te);
    for (uint32_t i = 0; i < buffer.count; i++)
        if (kiln_str_equal(b->te->buffer.data[buffer.buffer[i]].name, info->name)) return b->arg[i];
    for (uint32_t i = 0; i < b->packed_count; i++)
        if (kiln_str_equal(b->packed_name[i], info->name)) return b->packed[i];
    assert_true(info->role == KILN_ROLE_PACKED);
    assert_true(b->packed_count < ARGS_MAX);
    b->packed_name[b->packed_count] = info->name;
    kiln_tensor made = kiln_tensor_create(b->te->arena, info->dtype, &info->shape);
    memset(made.data, 0x5a, kiln_tensor_bytes(&made));
    return b->packed[b->packed_count++] = made;
}

/* What is prepared once may not depend on what changes from run to run. */
static void expect_prepared_from_constants(const kiln_program *prepare) {
    for (kiln_buffer b = 1; b < prepare->buffer.count; b++) {
        assert_int_not_equal(prepare->buffer.data[b].role, KILN_ROLE_INPUT);
        assert_int_not_equal(prepare->buffer.data[b].role, KILN_ROLE_OUTPUT);
    }
}

static kiln_status run_program(bindings *b, const kiln_program *p) {
    kiln_tensor arg[ARGS_MAX];
    kiln_arg_buffers buffer = kiln_program_args(p);
    assert_true(buffer.count <= ARGS_MAX);
    for (uint32_t i = 0; i < buffer.count; i++)
        arg[i] = tensor_of(b, &p->buffer.data[buffer.buffer[i]]);
    return kiln_loop_eval(p, arg, buffer.count);
}

static void fail_with_programs(const kiln_program *scheduled, const kiln_lowered *lowered,
                               uint64_t seed, kiln_status st) {
    kiln_strbuf text = {0};
    kiln_program_print(scheduled, &text);
    if (lowered->prepare) kiln_program_print(lowered->prepare, &text);
    if (lowered->run) kiln_program_print(lowered->run, &text);
    print_error("%s\n", text.data);
    fail_msg("seed %llu: %s", (unsigned long long)seed, kiln_status_text(st));
}

static kiln_status equals_by(const kiln_program *te, const kiln_program *scheduled,
                             const kiln_target *target, kiln_lower_list list, uint64_t seed,
                             kiln_lowered *out_lowered) {
    kiln_lowered lowered = {0};
    kiln_tensor wanted[ARGS_MAX], got[ARGS_MAX], bound[ARGS_MAX];
    kiln_status st = kiln_lower_by(scheduled, target, list, te->arena, &lowered);
    if (st && (kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE ||
               kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED))
        return st;
    uint32_t count = make_args(te, seed, wanted);
    make_args(te, seed, got);
    bindings b = {.te = te, .arg = got};
    if (!st) st = kiln_te_eval_bounds(te, wanted, count, te->arena, bound);
    if (!st) st = kiln_program_verify(lowered.run);
    if (!st && lowered.prepare) st = kiln_program_verify(lowered.prepare);
    if (!st && lowered.prepare) {
        expect_prepared_from_constants(lowered.prepare);
        st = run_program(&b, lowered.prepare);
    }
    if (!st) st = run_program(&b, lowered.run);
    if (st) fail_with_programs(scheduled, &lowered, seed, st);
    expect_within_bounds(te, got, wanted, bound, count, seed);
    if (out_lowered) *out_lowered = lowered;
    return KILN_OK;
}

kiln_status lowered_equals(const kiln_program *te, const kiln_program *scheduled,
                           const kiln_target *target, uint64_t seed) {
    return equals_by(te, scheduled, target, KILN_LOWER_CPU, seed, NULL);
}

kiln_status items_equal(const kiln_program *te, const kiln_program *scheduled,
                        const kiln_target *target, uint64_t seed) {
    return equals_by(te, scheduled, target, KILN_LOWER_ITEMS, seed, NULL);
}

void expect_computes(const kiln_program *te, const kiln_program *p, uint64_t seed) {
    kiln_tensor wanted[ARGS_MAX], got[ARGS_MAX], bound[ARGS_MAX];
    uint32_t count = make_args(te, seed, wanted);
    make_args(te, seed, got);
    bindings b = {.te = te, .arg = got};
    kiln_status st = kiln_te_eval_bounds(te, wanted, count, te->arena, bound);
    if (!st) st = run_program(&b, p);
    if (st) {
        kiln_lowered lowered = {.run = NULL};
        fail_with_programs(p, &lowered, seed, st);
    }
    expect_within_bounds(te, got, wanted, bound, count, seed);
}

kiln_status grid_equals(const kiln_program *te, const kiln_program *scheduled, uint64_t seed,
                        kiln_lowered *out_lowered) {
    kiln_target target = x86_target(te->arena, 3, 1);
    return equals_by(te, scheduled, &target, KILN_LOWER_GRID, seed, out_lowered);
}

kiln_status grid_equals_on(const kiln_program *te, const kiln_program *scheduled,
                           const kiln_target *target, uint64_t seed, kiln_lowered *out_lowered) {
    return equals_by(te, scheduled, target, KILN_LOWER_GRID, seed, out_lowered);
}

/* ---- text ------------------------------------------------------------------------------------ */

const char *lowered_text(const kiln_program *scheduled, const kiln_target *target,
                         const char *after) {
    kiln_strbuf text = {0};
    kiln_status st =
        kiln_lower_explain(scheduled, target, kiln_str_from(after), scheduled->arena, &text);
    if (st) fail_msg("%s", kiln_status_text(st));
    char *copy = kiln_str_dup(scheduled->arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

void expect_lowered_text(const kiln_program *scheduled, const kiln_target *target,
                         const char *after, const char *wanted) {
    const char *got = lowered_text(scheduled, target, after);
    if (strcmp(got, wanted) != 0) fail_msg("behind %s:\n%s\ninstead of\n%s", after, got, wanted);
}

void expect_grid_text(const kiln_program *scheduled, const char *after, const char *wanted) {
    kiln_strbuf text = {0};
    kiln_target target = x86_target(scheduled->arena, 3, 1);
    kiln_status st = kiln_lower_explain_by(scheduled, &target, KILN_LOWER_GRID,
                                           kiln_str_from(after), scheduled->arena, &text);
    if (st) fail_msg("%s", kiln_status_text(st));
    const char *loops = strstr(text.data, "loops:\n");
    assert_non_null(loops);
    assert_string_equal(loops + strlen("loops:\n"), wanted);
    kiln_strbuf_deinit(&text);
}

void expect_meaning_behind_every_pass(kiln_arena *arena, const kiln_program *te,
                                      const char *trace) {
    static const char *const pass[] = {
#define X(name, function, lists) #name,
#include "compiler-core/lower/lower.def"
#undef X
    };
    kiln_program *scheduled = replay_text(te, trace);
    kiln_target target = target_of(arena, "cuda:sm_80");
    expect_computes(te, scheduled, 1);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(pass); i++) {
        kiln_strbuf text = {0};
        expect_ok(kiln_lower_explain_by(scheduled, &target, KILN_LOWER_GRID, kiln_str_from(pass[i]),
                                        arena, &text));
        expect_computes(te, parse_in(arena, text.data), 1);
        kiln_strbuf_deinit(&text);
    }
}
