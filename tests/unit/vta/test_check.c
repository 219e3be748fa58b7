#include "vta/check.h"

#include <string.h>

#include "base/rand.h"
#include "tests/support/test.h"

#define MACHINE                                                                          \
    "config b1i2o2,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu2,pipe3,v1+first+chain\n" \
    "buffer in argument 256\nbuffer out argument 256\nbuffer keep scratch 256\nuop\nuop dst=1\n"
#define UOP "load memory=uop y_size=1 x_size=2\n"
#define ACC "load memory=acc buffer=in y_size=1 x_size=4\n"

static kiln_vta_program program_of(const char *body, kiln_arena *arena) {
    kiln_vta_program p = {0};
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, MACHINE "%s", body);
    expect_ok(kiln_vta_program_parse(kiln_strbuf_view(&text), arena, &p));
    kiln_strbuf_deinit(&text);
    return p;
}

static void each_fault_is_found_and_named(void **state) {
    static const struct {
        const char *body;
        kiln_vta_fault_kind fault;
        uint32_t instruction;
        const char *words;
    } row[] = {
        {"finish", KILN_VTA_FAULT_NONE, 0, ""},
        {"finish\nfinish", KILN_VTA_FAULT_NO_FINISH, 0, ""},
        /* Tokens. */
        {"load memory=acc push_next\nstore memory=out push_prev\nfinish pop_next",
         KILN_VTA_FAULT_TOKENS_LEFT, 2, "1 for store from compute"},
        {"load memory=inp pop_next push_next\nload memory=acc pop_prev push_prev\nfinish",
         KILN_VTA_FAULT_DEADLOCK, 0, "load waits"},
        {"load memory=inp buffer=in y_size=1 x_size=1\nfinish", KILN_VTA_FAULT_FINISH_EARLY, 1,
         "of load is not waited for"},
        /* One engine after the other. */
        {ACC "load memory=acc push_next\nstore memory=out buffer=out y_size=1 x_size=4 pop_prev "
             "push_prev\nfinish pop_next",
         KILN_VTA_FAULT_NONE, 0, ""},
        {ACC "load memory=acc push_next\nstore memory=out buffer=out y_size=1 x_size=4 pop_prev "
             "push_prev\n" ACC "finish pop_next",
         KILN_VTA_FAULT_HAZARD, 2, "acc 0, also used by instruction 3 of compute"},
        {ACC "store memory=out buffer=out y_size=1 x_size=4 push_prev\nfinish pop_next",
         KILN_VTA_FAULT_HAZARD, 1, "acc 0"},
        /* Main memory. */
        {ACC "load memory=acc push_next\n"
             "store memory=out buffer=out y_size=1 x_size=4 pop_prev push_prev\n"
             "load memory=inp buffer=out y_size=1 x_size=1 push_next\n"
             "load memory=acc pop_prev\nfinish pop_next",
         KILN_VTA_FAULT_HAZARD, 2, "byte 0"},
        {ACC "load memory=acc push_next\n"
             "store memory=out buffer=out y_size=1 x_size=4 pop_prev push_prev\n"
             "load memory=inp buffer=out dram_base=4 y_size=1 x_size=1 push_next\n"
             "load memory=acc pop_prev\nfinish pop_next",
         KILN_VTA_FAULT_NONE, 0, ""},
        {ACC "load memory=acc push_next\n"
             "store memory=out buffer=keep y_size=1 x_size=4 pop_prev push_prev\n"
             "load memory=inp buffer=keep dram_base=4 y_size=1 x_size=1 push_next\n"
             "load memory=acc pop_prev\nfinish pop_next",
         KILN_VTA_FAULT_UNINITIALISED, 3, "byte 8 of keep"},
        /* What nothing wrote. */
        {UOP "alu use_imm uop_end=1 iter_out=1 iter_in=1\nfinish", KILN_VTA_FAULT_UNINITIALISED, 1,
         "tile 0 of acc"},
        {"gemm reset uop_end=1 iter_out=1 iter_in=1\nfinish", KILN_VTA_FAULT_UNINITIALISED, 0,
         "tile 0 of uop"},
        {UOP "gemm reset uop_end=1 iter_out=40 iter_in=1 dst_out=1\nfinish", KILN_VTA_FAULT_INDEX,
         1, "tile 32 of acc, which has 32"},
        /* What is written too late for who reads it: pipe3, two micro-ops a round. */
        {"load memory=inp buffer=in y_size=1 x_size=1\n"
         "load memory=wgt buffer=in y_size=1 x_size=1 push_next\n"
         "load memory=uop y_size=1 x_size=2 pop_prev\n" ACC
         "gemm uop_end=2 iter_out=1 iter_in=2\nfinish",
         KILN_VTA_FAULT_ACC_DISTANCE, 4, "tile 0 after 2 cycles; it is written after 3"},
        {UOP ACC "alu use_imm uop_end=2 iter_out=1 iter_in=2\nfinish", KILN_VTA_FAULT_ACC_DISTANCE,
         2, "tile 0 after 2 cycles; it is written after 4"},
        {UOP ACC "alu use_imm uop_end=2 iter_out=2 iter_in=2 dst_in=2\nfinish", KILN_VTA_FAULT_NONE,
         0, ""},
        {UOP ACC "alu use_imm chain uop_end=2 iter_out=2 iter_in=2 dst_in=2\n"
                 "alu use_imm uop_end=2 iter_out=2 iter_in=2 dst_in=2\nfinish",
         KILN_VTA_FAULT_ACC_DISTANCE, 2, "tile 0 after 4 cycles; it is written after 5"},
        /* Work for nothing. */
        {UOP ACC "alu use_imm imm=1 uop_end=1 iter_out=1 iter_in=1\n" ACC "finish",
         KILN_VTA_FAULT_ACC_UNSTORED, 3, "tile 0 of acc"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_vta_fault fault = {0};
        const kiln_vta_program p = program_of(row[i].body, *state);
        const bool ok = kiln_vta_check(&p, &fault);
        if (fault.kind != row[i].fault)
            fail_msg("row %zu: %s %s", i, kiln_vta_fault_name(fault.kind), fault.text);
        assert_int_equal(ok, fault.kind == KILN_VTA_FAULT_NONE);
        if (ok) continue;
        assert_int_equal(fault.instruction, row[i].instruction);
        expect_contains(fault.text, row[i].words);
    }
}

static void redundant_tokens_are_listed(void **state) {
    uint32_t list[8];
    kiln_vta_fault fault = {0};
    /* The first token says nothing that the second does not; the second lets FINISH go. */
    const kiln_vta_program p = program_of("load memory=inp buffer=in y_size=1 x_size=1 push_next\n"
                                          "load memory=acc pop_prev\n"
                                          "load memory=inp buffer=in y_size=1 x_size=1 push_next\n"
                                          "finish pop_prev\n",
                                          *state);
    assert_true(kiln_vta_check(&p, &fault));
    assert_int_equal(kiln_vta_redundant_tokens(&p, list, 8), 1);
    assert_int_equal(list[0], 0);
    /* Each of them is needed. */
    const kiln_vta_program q = program_of(ACC "load memory=acc push_next\n"
                                              "store memory=out buffer=out y_size=1 x_size=4 "
                                              "pop_prev push_prev\nfinish pop_next",
                                          *state);
    assert_true(kiln_vta_check(&q, &fault));
    assert_int_equal(kiln_vta_redundant_tokens(&q, list, 8), 0);
}

/* ---- against every interleaving -------------------------------------------------------------- */

/* A small program of loads of accumulators, stores of them and loads of what was stored, with
 * random tokens; most are wrong. */
#define STEPS_MAX 5u
#define ENGINES 3u /* load, compute, store */

typedef struct world {
    kiln_vta_program program;
    uint32_t count[ENGINES], index[ENGINES][STEPS_MAX];        /* instructions of each engine */
    bool reached[STEPS_MAX + 1][STEPS_MAX + 1][STEPS_MAX + 1]; /* states, by what is done */
    bool ends;
} world;

static const kiln_vta_instruction *at(const world *w, uint32_t engine, uint32_t step) {
    return &w->program.instruction[w->index[engine][step]];
}

static uint32_t tokens_given(const world *w, uint32_t engine, bool behind, uint32_t done) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < done; i++)
        count += behind ? at(w, engine, i)->push_next : at(w, engine, i)->push_prev;
    return count;
}
static uint32_t tokens_taken(const world *w, uint32_t engine, bool behind, uint32_t done) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < done; i++)
        count += behind ? at(w, engine, i)->pop_next : at(w, engine, i)->pop_prev;
    return count;
}

static bool can_run(const world *w, const uint32_t *done, uint32_t e) {
    if (done[e] == w->count[e]) return false;
    const uint32_t next = done[e] + 1;
    return (e == 0 ||
            tokens_given(w, e - 1, true, done[e - 1]) >= tokens_taken(w, e, false, next)) &&
           (e == 2 || tokens_given(w, e + 1, false, done[e + 1]) >= tokens_taken(w, e, true, next));
}

static void reach(world *w, uint32_t a, uint32_t b, uint32_t c) {
    if (w->reached[a][b][c]) return;
    const uint32_t done[ENGINES] = {a, b, c};
    w->reached[a][b][c] = true;
    w->ends |= a == w->count[0] && b == w->count[1] && c == w->count[2];
    for (uint32_t e = 0; e < ENGINES; e++)
        if (can_run(w, done, e)) reach(w, a + (e == 0), b + (e == 1), c + (e == 2));
}

/* Whether a state is reached in which step `i` of engine `e` is done and step `k` of `f` is not. */
static bool may_come_first(const world *w, uint32_t e, uint32_t i, uint32_t f, uint32_t k) {
    uint32_t done[ENGINES];
    for (done[0] = 0; done[0] <= w->count[0]; done[0]++)
        for (done[1] = 0; done[1] <= w->count[1]; done[1]++)
            for (done[2] = 0; done[2] <= w->count[2]; done[2]++)
                if (w->reached[done[0]][done[1]][done[2]] && done[e] > i && done[f] <= k)
                    return true;
    return false;
}

/* Whether both use one accumulator, or one place of main memory, and one writes it. */
static bool conflict(const world *w, uint32_t e, uint32_t i, uint32_t f, uint32_t k) {
    const kiln_vta_instruction *a = at(w, e, i), *b = at(w, f, k);
    if (!a->x_size || !b->x_size) return false;
    if (e == 1 && f == 2) return a->sram_base == b->sram_base; /* a write and a read */
    if (e == 0 && f == 2) return a->dram_base == b->dram_base;
    return false;
}

static bool tokens_match(const world *w) {
    for (uint32_t e = 0; e + 1 < ENGINES; e++)
        if (tokens_given(w, e, true, w->count[e]) !=
                tokens_taken(w, e + 1, false, w->count[e + 1]) ||
            tokens_given(w, e + 1, false, w->count[e + 1]) != tokens_taken(w, e, true, w->count[e]))
            return false;
    return true;
}

/* A store reads an accumulator that a load wrote before in every order. */
static bool stores_are_filled(const world *w) {
    for (uint32_t k = 0; k < w->count[2]; k++) {
        bool filled = at(w, 2, k)->x_size == 0;
        for (uint32_t i = 0; i < w->count[1] && !filled; i++)
            filled = conflict(w, 1, i, 2, k) && !may_come_first(w, 2, k, 1, i);
        if (!filled) return false;
    }
    return true;
}

static bool is_right(world *w) {
    const uint32_t finish = w->count[1] - 1;
    reach(w, 0, 0, 0);
    if (!w->ends || !tokens_match(w) || !stores_are_filled(w)) return false;
    for (uint32_t e = 0; e < ENGINES; e++)
        for (uint32_t i = 0; e != 1 && i < w->count[e]; i++)
            if (may_come_first(w, 1, finish, e, i)) return false;
    for (uint32_t e = 0; e < ENGINES; e++)
        for (uint32_t f = 0; f < ENGINES; f++)
            for (uint32_t i = 0; i < w->count[e]; i++)
                for (uint32_t k = 0; k < w->count[f]; k++)
                    if (conflict(w, e, i, f, k) && may_come_first(w, e, i, f, k) &&
                        may_come_first(w, f, k, e, i))
                        return false;
    return true;
}

static void make_world(world *w, kiln_rand *r, kiln_arena *arena) {
    memset(w, 0, sizeof *w);
    w->program = program_of("finish", arena);
    w->program.instruction_count = 0;
    const uint32_t total = 2 + (uint32_t)kiln_rand_below(r, 7);
    w->program.instruction = KILN_ARENA_ARRAY(arena, kiln_vta_instruction, total);
    w->program.instruction_buffer = KILN_ARENA_ARRAY(arena, uint32_t, total);
    for (uint32_t n = 0; n < total; n++) {
        static const uint32_t opcode[] = {KILN_VTA_LOAD, KILN_VTA_LOAD, KILN_VTA_STORE};
        static const uint32_t memory[] = {KILN_VTA_INP, KILN_VTA_ACC, KILN_VTA_OUT};
        const bool last = n + 1 == total;
        const uint32_t e =
            last || w->count[1] == STEPS_MAX - 1 ? (last ? 1 : 0) : (uint32_t)kiln_rand_below(r, 3);
        if (w->count[e] == STEPS_MAX) continue;
        kiln_vta_instruction *in = &w->program.instruction[w->program.instruction_count];
        w->program.instruction_buffer[w->program.instruction_count] = e == 1 ? 1 : 2;
        w->index[e][w->count[e]++] = w->program.instruction_count;
        w->program.instruction_count++;
        *in = (kiln_vta_instruction){.opcode = last ? KILN_VTA_FINISH : opcode[e],
                                     .pop_prev = e > 0 && kiln_rand_below(r, 3) == 0,
                                     .pop_next = e < 2 && kiln_rand_below(r, 3) == 0,
                                     .push_prev = e > 0 && kiln_rand_below(r, 3) == 0,
                                     .push_next = e < 2 && kiln_rand_below(r, 3) == 0};
        if (last) continue;
        in->memory = memory[e];
        in->y_size = 1;
        in->x_size = kiln_rand_below(r, 4) > 0;
        in->sram_base = e == 0 ? n : (uint32_t)kiln_rand_below(r, 2);
        in->dram_base = (uint32_t)kiln_rand_below(r, 2);
    }
}

static void verdicts_are_those_of_every_interleaving(void **state) {
    uint32_t right = 0;
    kiln_rand r;
    kiln_rand_init(&r, 1);
    for (uint32_t n = 0; n < 60000; n++) {
        static world w;
        kiln_vta_fault fault = {0};
        make_world(&w, &r, *state);
        const bool expected = is_right(&w), found = kiln_vta_check(&w.program, &fault);
        if (expected != found) {
            kiln_strbuf text = {0};
            kiln_vta_program_print(&w.program, &text);
            fail_msg("%s, yet %s\n%s", expected ? "right" : "wrong", found ? "taken" : fault.text,
                     text.data);
        }
        right += expected;
        if (n % 100 == 0) kiln_arena_reset(*state);
    }
    print_message("%u of 60000 are right\n", right);
    assert_true(right > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(each_fault_is_found_and_named),
        test_with_arena(redundant_tokens_are_listed),
        test_with_arena(verdicts_are_those_of_every_interleaving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
