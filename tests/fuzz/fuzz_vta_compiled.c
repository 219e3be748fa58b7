/* Programs of the compiler for accelerators of the VTA class: random small layers, random machines,
 * schedules drawn out of the space that the rules make. Each compiled program passes the checkers
 * (the back end asks them), and the functional simulator computes under 16 orders what the
 * interpreter says of the expression. Of every 16th layer's first program, each flag of a token is
 * taken away: the checkers must notice.
 *
 * fuzz-vta-compiled [--seconds S] [--runs N] [--seed N] [--first N] [--corpus IGNORED]; runs are
 * layers. Structured, so it has a main of its own instead of driver.c's bytes. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/macros.h"
#include "compiler-core/build.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/rules/space.h"
#include "tests/support/vta_random.h"
#include "tests/unit/compiler-core/codegen/vta_board.h"
#include "tests/unit/compiler-core/rules/vta_layer.h"
#include "vta/check.h"

#define ORDERS 16u
#define DRAWS 16u /* schedules of a layer */
#define REDRAWS 2u
#define FLAGS_EVERY 16u
#define THREADS_MAX 4u
#define LOG_LEAST 8u /* of a memory's bytes */

typedef struct fuzz_counts {
    uint64_t layers, unscheduled;      /* of these: without a schedule on their machine */
    uint64_t programs, refused;        /* compiled; that the machine cannot run */
    uint64_t threads[THREADS_MAX + 1]; /* programs by the most virtual threads of a loop */
    uint64_t instructions, flags;      /* of programs; taken away, each of which was noticed */
} fuzz_counts;

/* A layer on its machine. */
typedef struct fuzz_layer {
    kiln_target target;
    kiln_program *te;
    kiln_space space;
    vta_judge judge;
    kiln_rand random;
} fuzz_layer;

static kiln_status make_layer(uint64_t seed, kiln_arena *arena, fuzz_layer *l) {
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
static const char *take_flags(kiln_vta_program *program, kiln_arena *arena, fuzz_counts *counts) {
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
    return NULL;
}

/* Mostly one with virtual threads. */
static kiln_status draw_schedule(fuzz_layer *l, kiln_arena *arena, kiln_trace *out_trace,
                                 kiln_program **out_scheduled) {
    kiln_status st = kiln_space_sample(&l->space, &l->random, arena, out_trace, out_scheduled);
    for (uint32_t again = 0; !st && again < REDRAWS && threads_of(*out_scheduled) == 1; again++)
        st = kiln_space_sample(&l->space, &l->random, arena, out_trace, out_scheduled);
    return st;
}

/* One schedule of the layer; NULL, or what is wrong with it. */
static const char *fuzz_program(fuzz_layer *l, bool takes_flags, kiln_trace *out_trace,
                                kiln_arena *arena, fuzz_counts *counts) {
    kiln_program *scheduled;
    kiln_artefact artefact;
    kiln_vta_program program;
    kiln_status st = draw_schedule(l, arena, out_trace, &scheduled);
    if (!st)
        st = kiln_build_scheduled(l->te, KILN_STR("fuzz"), scheduled, &l->target, arena, &artefact);
    if (!st) st = kiln_vta_program_decode(artefact.payload, arena, &program);
    const kiln_code code = kiln_status_code(st);
    const char *text = st ? kiln_arena_printf(arena, "%s", kiln_status_text(st)) : NULL;
    kiln_status_free(st);
    counts->refused += code == KILN_ILLEGAL_SCHEDULE;
    if (st) return code == KILN_ILLEGAL_SCHEDULE ? NULL : text;
    counts->programs++;
    counts->threads[KILN_MIN(threads_of(scheduled), THREADS_MAX)]++;
    counts->instructions += program.instruction_count;
    text = vta_judge_program(&l->judge, &artefact.manifest, &program, ORDERS, arena);
    return text || !takes_flags ? text : take_flags(&program, arena, counts);
}

static void print_failure(const fuzz_layer *l, const kiln_trace *trace, const char *wrong) {
    kiln_strbuf text = {0};
    kiln_target_print(&l->target, &text);
    kiln_strbuf_printf(&text, "\n");
    kiln_program_print(l->te, &text);
    kiln_trace_print(trace, &text);
    printf("%s\n%s", wrong, text.data);
    kiln_strbuf_deinit(&text);
}

/* Whether all draws of the layer are right. */
static bool fuzz_one(uint64_t number, uint64_t seed, kiln_arena *arena, kiln_arena *scratch,
                     fuzz_counts *counts) {
    fuzz_layer layer;
    const char *wrong = NULL;
    kiln_status st = make_layer(kiln_hash64(&number, sizeof number, seed), arena, &layer);
    const kiln_code code = kiln_status_code(st);
    counts->layers++;
    counts->unscheduled += code == KILN_FAILED_PRECONDITION;
    if (st && code != KILN_FAILED_PRECONDITION) printf("%s\n", kiln_status_text(st));
    kiln_status_free(st);
    if (st) return code == KILN_FAILED_PRECONDITION;
    for (uint32_t draw = 0; !wrong && draw < DRAWS; draw++) {
        kiln_trace trace;
        const bool takes_flags = draw == 0 && number % FLAGS_EVERY == 0;
        wrong = fuzz_program(&layer, takes_flags, &trace, scratch, counts);
        if (wrong) print_failure(&layer, &trace, wrong);
        kiln_arena_reset(scratch);
    }
    return !wrong;
}

int main(int argc, char **argv) {
    uint64_t seconds = 0, runs = 0, seed = 1, first = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        kiln_str name = kiln_str_from(argv[i]), value = kiln_str_from(argv[i + 1]);
        bool known = kiln_str_is(name, "--corpus");
        known |= kiln_str_is(name, "--seconds") && kiln_str_to_u64(value, &seconds);
        known |= kiln_str_is(name, "--runs") && kiln_str_to_u64(value, &runs);
        known |= kiln_str_is(name, "--seed") && kiln_str_to_u64(value, &seed);
        known |= kiln_str_is(name, "--first") && kiln_str_to_u64(value, &first);
        if (!known) {
            fprintf(stderr, "fuzz-vta-compiled: %s %s is not an option\n", argv[i], argv[i + 1]);
            return 2;
        }
    }
    fuzz_counts counts = {0};
    kiln_arena arena, scratch;
    kiln_arena_init(&arena, 1 << 20);
    kiln_arena_init(&scratch, 1 << 20);
    const uint64_t end_ns = kiln_clock_ns() + seconds * 1000000000u;
    bool right = true;
    uint64_t at = first;
    while (right && (runs ? at - first < runs : kiln_clock_ns() < end_ns)) {
        kiln_arena_reset(&arena);
        right = fuzz_one(at++, seed, &arena, &scratch, &counts);
    }
    if (!right)
        printf("again: fuzz-vta-compiled --seed %" PRIu64 " --first %" PRIu64 " --runs 1\n", seed,
               at - 1);
    printf("vta-compiled: %" PRIu64 " programs (%" PRIu64 " with 2 virtual threads, %" PRIu64
           " with 4), %" PRIu64 " instructions, %u orders each, %s\n",
           counts.programs, counts.threads[2], counts.threads[4], counts.instructions, ORDERS,
           right ? "none differs" : "ONE IS WRONG");
    printf("  %" PRIu64 " layers, %" PRIu64 " without a schedule on their machine; %" PRIu64
           " programs refused; %" PRIu64 " flags of tokens taken away, each noticed\n",
           counts.layers, counts.unscheduled, counts.refused, counts.flags);
    kiln_arena_deinit(&scratch);
    kiln_arena_deinit(&arena);
    return right ? 0 : 1;
}
