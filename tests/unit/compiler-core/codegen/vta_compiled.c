#include "tests/unit/compiler-core/codegen/vta_compiled.h"

#include <string.h>

#include "base/macros.h"
#include "compiler-core/build.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/rules/space.h"
#include "tests/support/vta_random.h"
#include "tests/unit/compiler-core/codegen/vta_board.h"
#include "tests/unit/compiler-core/rules/vta_layer.h"
#include "vta/check.h"

#define REDRAWS 4u
#define LOG_LEAST 8u /* of a memory's bytes */

/* A layer on its machine. */
typedef struct drawn_layer {
    kiln_target target;
    kiln_program *te;
    kiln_space space;
    vta_judge judge;
    kiln_rand random;
} drawn_layer;

static kiln_status make_layer(uint64_t seed, kiln_arena *arena, drawn_layer *l) {
    kiln_vta_config machine = vta_random_config(seed);
    kiln_strbuf text = {0};
    machine.inp_bits = machine.wgt_bits = 8; /* others have no rules */
    kiln_rand_init(&l->random, seed);
    uint32_t *const log[] = {&machine.inp_log, &machine.wgt_log, &machine.acc_log};
    for (uint32_t i = 0; i < 3; i++) {
        *log[i] -= (uint32_t)kiln_rand_below(&l->random, 4);
        *log[i] = KILN_MAX(*log[i], LOG_LEAST);
    }
    kiln_strbuf_printf(&text, "vta:");
    kiln_vta_config_print(&machine, &text);
    kiln_status st = kiln_target_parse(kiln_strbuf_end(&text, arena), arena, &l->target);
    if (st) return st;
    l->te = vta_layer_random(arena, &machine, &l->random);
    st = kiln_space_create(l->te, &l->target, arena, &l->space);
    return st ? st : vta_judge_create(l->te, seed, arena, &l->judge);
}

static uint32_t threads_of(const kiln_program *p) {
    int64_t most = 1;
    for (uint32_t i = 1; i < p->stmt.count; i++)
        if (p->stmt.data[i].kind == KILN_STMT_FOR &&
            p->stmt.data[i].loop_kind == KILN_LOOP_VTHREAD && p->stmt.data[i].extent > most)
            most = p->stmt.data[i].extent;
    return (uint32_t)most;
}

/* NULL, or what the checkers did not notice. */
static const char *take_flags(kiln_vta_program *program, kiln_arena *arena,
                              vta_compiled_counts *counts) {
    kiln_vta_fault fault;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        kiln_vta_instruction *in = &program->instruction[i];
        uint32_t *flag[] = {&in->pop_prev, &in->pop_next, &in->push_prev, &in->push_next};
        for (uint32_t k = 0; k < 4; k++) {
            if (!*flag[k]) continue;
            *flag[k] = 0;
            if (kiln_vta_check(program, &fault))
                return kiln_arena_printf(arena, "instruction %u: nobody misses flag %u", i, k);
            *flag[k] = 1;
            counts->flags++;
        }
    }
    counts->redundant += kiln_vta_redundant_tokens(program, NULL, 0);
    return NULL;
}

/* Mostly one with virtual threads. */
static kiln_status draw_schedule(drawn_layer *l, kiln_arena *arena, kiln_trace *out_trace,
                                 kiln_program **out_scheduled) {
    kiln_status st = kiln_space_sample(&l->space, &l->random, arena, out_trace, out_scheduled);
    for (uint32_t again = 0; !st && again < REDRAWS && threads_of(*out_scheduled) == 1; again++)
        st = kiln_space_sample(&l->space, &l->random, arena, out_trace, out_scheduled);
    return st;
}

/* One schedule of the layer; NULL, or what is wrong with it. */
static const char *try_program(drawn_layer *l, bool takes_flags, kiln_trace *out_trace,
                               kiln_arena *arena, vta_compiled_counts *counts) {
    kiln_program *scheduled;
    kiln_artefact artefact;
    kiln_vta_program program;
    kiln_status st = draw_schedule(l, arena, out_trace, &scheduled);
    if (!st)
        st =
            kiln_build_scheduled(l->te, KILN_STR("drawn"), scheduled, &l->target, arena, &artefact);
    if (!st) st = kiln_vta_program_decode(artefact.payload, arena, &program);
    const kiln_code code = kiln_status_code(st);
    const char *text = st ? kiln_arena_printf(arena, "%s", kiln_status_text(st)) : NULL;
    kiln_status_free(st);
    if (text) { /* how many tokens wait at once is known too late for the rules; nothing else is */
        const bool is_refused = code == KILN_ILLEGAL_SCHEDULE && strstr(text, " tokens of ");
        counts->refused += is_refused;
        return is_refused ? NULL : text;
    }
    counts->programs++;
    counts->threads[KILN_MIN(threads_of(scheduled), VTA_COMPILED_THREADS_MAX)]++;
    counts->instructions += program.instruction_count;
    text = vta_judge_program(&l->judge, &artefact.manifest, &program, VTA_COMPILED_ORDERS, arena);
    return text || !takes_flags ? text : take_flags(&program, arena, counts);
}

static void report(const drawn_layer *l, const kiln_trace *trace, const char *wrong,
                   kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s\n", wrong);
    kiln_target_print(&l->target, out);
    kiln_strbuf_printf(out, "\n");
    kiln_program_print(l->te, out);
    kiln_trace_print(trace, out);
}

/* Whether all draws are right. */
static bool try_draws(drawn_layer *l, uint32_t draws, bool takes_flags, vta_compiled_counts *counts,
                      kiln_strbuf *out_report) {
    const char *wrong = NULL;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 1 << 20);
    for (uint32_t draw = 0; !wrong && draw < draws; draw++) {
        kiln_trace trace;
        wrong = try_program(l, takes_flags && draw == 0, &trace, &scratch, counts);
        if (wrong) report(l, &trace, wrong, out_report);
        kiln_arena_reset(&scratch);
    }
    kiln_arena_deinit(&scratch);
    return !wrong;
}

bool vta_compiled_layer(uint64_t seed, uint32_t draws, bool takes_flags,
                        vta_compiled_counts *counts, kiln_strbuf *out_report) {
    drawn_layer layer;
    kiln_arena arena;
    kiln_arena_init(&arena, 1 << 20);
    kiln_status st = make_layer(seed, &arena, &layer);
    const bool is_unscheduled = kiln_status_code(st) == KILN_FAILED_PRECONDITION;
    counts->layers++;
    counts->unscheduled += is_unscheduled;
    if (st && !is_unscheduled) kiln_strbuf_printf(out_report, "%s\n", kiln_status_text(st));
    const bool right =
        st ? is_unscheduled : try_draws(&layer, draws, takes_flags, counts, out_report);
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return right;
}
