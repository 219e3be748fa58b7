/* Cycles counted by hand from the rules of vta/csim.h. */
#include "vta/csim.h"

#include <string.h>

#include "tests/support/test.h"
#include "tests/support/vta_random.h"

/* 4 bytes a beat, latency 10, 2 cycles a row. Tiles: inp and out 2 bytes, wgt 4, acc 8. */
#define MACHINE                                                                            \
    "config b1i2o2,i8w8a32,uop8,inp8,wgt12,acc8,bus32,clk100,alu1,pipe3,lat10,row2,v1%s\n" \
    "buffer in argument 4096\nbuffer out argument 4096\nuop\nuop dst=1\n"

static kiln_vta_timing timed(const char *keys, const char *body, kiln_arena *arena) {
    kiln_vta_program p = {0};
    kiln_vta_fault fault = {0};
    kiln_vta_timing timing = {0};
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, MACHINE "%s", keys, body);
    expect_ok(kiln_vta_program_parse(kiln_strbuf_view(&text), arena, &p));
    if (!kiln_vta_program_check(&p, &fault)) fail_msg("%s", fault.text);
    const kiln_vta_csim_options options = {.timing_only = true, .spans = true};
    if (!kiln_vta_csim_run(&p, NULL, 0, &options, arena, &timing, &fault))
        fail_msg("%s", fault.text);
    kiln_strbuf_deinit(&text);
    return timing;
}

/* Fetch asks in cycle 0, the channel begins in 1, moves from 3 on, its beats are taken from 13 on,
 * four for each instruction: the first is handed over in 16, the second in 20. */
#define FIRST 16u
#define FURTHER 4u

static void finish_alone(void **state) {
    const kiln_vta_timing t = timed("", "finish\n", *state);
    /* Taken in 17, runs in 18. */
    assert_int_equal(t.cycles, FIRST + 3);
    assert_int_equal(t.activity[KILN_VTA_ENGINE_COMPUTE][KILN_VTA_IDLE], FIRST + 1);
    assert_int_equal(t.activity[KILN_VTA_ENGINE_COMPUTE][KILN_VTA_BUSY_TAKE], 2);
}

static void a_load_takes_its_beats_behind_the_latency(void **state) {
    const kiln_vta_timing t = timed(
        "", "load memory=wgt buffer=in y_size=1 x_size=5 push_next\nfinish pop_prev\n", *state);
    /* Taken in 17, asked in 18, begun in 19, beats taken from 31 to 35. FINISH takes the token in
     * 36 and runs in 37. */
    assert_int_equal(t.span[0].taken, FIRST + 1);
    assert_int_equal(t.span[0].ended, FIRST + 19);
    assert_int_equal(t.cycles, FIRST + 22);
    assert_int_equal(t.activity[KILN_VTA_ENGINE_LOAD][KILN_VTA_BUSY_MOVE], 5);
    assert_int_equal(t.activity[KILN_VTA_ENGINE_LOAD][KILN_VTA_WAIT_MEMORY], 13);
    /* Taken in 21, one cycle after it was handed over. */
    assert_int_equal(t.activity[KILN_VTA_ENGINE_COMPUTE][KILN_VTA_WAIT_BEFORE], 36 - 21);
    assert_int_equal(t.channel_busy[0], 2 + 8 + 2 + 5);
}

static void zeros_take_a_cycle_each(void **state) {
    const kiln_vta_timing with = timed("",
                                       "load memory=wgt buffer=in y_size=1 x_size=5 x_pad_1=3 "
                                       "y_pad_1=2 push_next\nfinish pop_prev\n",
                                       *state);
    assert_int_equal(with.span[0].ended, FIRST + 19 + 3 + 2 * 8);
    /* Those before the first beat hide in its latency. */
    const kiln_vta_timing before = timed("",
                                         "load memory=wgt buffer=in y_size=1 x_size=5 x_pad_0=9 "
                                         "push_next\nfinish pop_prev\n",
                                         *state);
    assert_int_equal(before.span[0].ended, FIRST + 19);
}

static void rows_overlap_as_far_as_requests_may(void **state) {
    const char *body = "load memory=wgt buffer=in y_size=4 x_size=5 x_stride=5 push_next\n"
                       "finish pop_prev\n";
    /* One at a time: each row is asked for behind the last beat of the one before: 18 cycles. */
    assert_int_equal(timed(",req1", body, *state).span[0].ended, FIRST + 19 + 3 * 18);
    /* Eight: the channel goes on, 7 cycles for each row. */
    assert_int_equal(timed(",req8", body, *state).span[0].ended, FIRST + 19 + 3 * 7);
}

static void long_rows_are_several_bursts(void **state) {
    /* 600 beats: bursts of 256, 256 and 88. The channel goes on behind each with 2 cycles. */
    const kiln_vta_timing t = timed("",
                                    "load memory=wgt buffer=in y_size=1 x_size=600 "
                                    "push_next\nfinish pop_prev\n",
                                    *state);
    assert_int_equal(t.span[0].ended, FIRST + 14 + 600 + 2 * 2);
    assert_int_equal(t.channel_busy[0], 2 + 8 + 600 + 3 * 2);
}

static void rows_that_begin_within_a_beat_may_touch_one_more(void **state) {
    /* Two tiles of 2 bytes: a beat, or the second half of one and the first of the next. */
    const kiln_vta_timing at_begin = timed("",
                                           "load memory=inp buffer=in y_size=3 x_size=2 "
                                           "x_stride=4 push_next\nfinish pop_prev\n",
                                           *state);
    assert_int_equal(at_begin.activity[KILN_VTA_ENGINE_LOAD][KILN_VTA_BUSY_MOVE], 3);
    const kiln_vta_timing within = timed("",
                                         "load memory=inp buffer=in dram_base=1 y_size=3 x_size=2 "
                                         "x_stride=3 push_next\nfinish pop_prev\n",
                                         *state);
    assert_int_equal(within.activity[KILN_VTA_ENGINE_LOAD][KILN_VTA_BUSY_MOVE], 2 + 1 + 2);
}

static void a_chain_takes_its_instructions_one_by_one(void **state) {
    const char *chain = "alu op=add use_imm imm=1 uop_end=2 iter_out=3 iter_in=5 chain\n"
                        "alu op=max use_imm imm=2 uop_end=2 iter_out=3 iter_in=5 chain\n"
                        "alu op=min use_imm imm=3 uop_end=2 iter_out=3 iter_in=5\nfinish\n";
    const uint32_t passes = 2 * 2 * 15 + KILN_VTA_ALU_PIPELINE + 2;
    /* Passes begin when the third is there. */
    const kiln_vta_timing alone = timed("+chain", chain, *state);
    assert_int_equal(alone.span[0].started, FIRST + 1);
    assert_int_equal(alone.span[0].ended, FIRST + 2 * FURTHER + passes);
    /* It waits behind another instruction until all are there: two cycles for two more. */
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "gemm reset uop_end=2 iter_out=3 iter_in=5\n%s", chain);
    const kiln_vta_timing behind = timed("+chain", text.data, *state);
    assert_int_equal(behind.span[1].taken, behind.span[0].ended + 1);
    assert_int_equal(behind.span[1].ended - behind.span[1].started, 2 + passes);
    kiln_strbuf_deinit(&text);
}

static void an_instruction_that_is_taken_leaves_its_place(void **state) {
    /* The first runs while four behind it wait, so the load is handed over. With a fifth that waits
     * for a place, the load comes behind it. */
    const char *body =
        "gemm reset uop_end=2 iter_out=50 iter_in=1\ngemm reset uop_end=2 iter_out=1 iter_in=1\n"
        "gemm reset uop_end=2 iter_out=1 iter_in=1\ngemm reset uop_end=2 iter_out=1 "
        "iter_in=1\ngemm reset uop_end=2 iter_out=1 iter_in=1\n"
        "load memory=inp buffer=in y_size=1 x_size=1 push_next\n"
        "finish pop_prev\n";
    const kiln_vta_timing t = timed(",cmd4", body, *state);
    assert_int_equal(t.span[5].taken, FIRST + 5 * FURTHER + 1);
    const kiln_vta_timing full = timed(
        ",cmd4", kiln_arena_printf(*state, "gemm reset uop_end=2 iter_out=50 iter_in=1\n%s", body),
        *state);
    assert_int_equal(full.span[6].taken, full.span[0].ended + 1 + 2);
}

static void without_queues_fetch_waits_for_the_engine(void **state) {
    /* The second is handed over beat by beat once the first has ended, and the load behind it. */
    const kiln_vta_timing t = timed(",cmd0",
                                    "gemm reset uop_end=2 iter_out=50 iter_in=1\n"
                                    "gemm reset uop_end=2 iter_out=1 iter_in=1\n"
                                    "load memory=inp buffer=in y_size=1 x_size=1 push_next\n"
                                    "finish pop_prev\n",
                                    *state);
    assert_int_equal(t.span[0].taken, FIRST + 1);
    assert_int_equal(t.span[1].taken, t.span[0].ended + 1 + FURTHER);
    assert_int_equal(t.span[2].taken, t.span[1].taken + FURTHER);
    /* So is each further instruction of a chain, once the one before it was taken. */
    const kiln_vta_timing chain =
        timed("+chain,cmd0",
              "alu op=add use_imm imm=1 uop_end=2 iter_out=3 iter_in=5 chain\n"
              "alu op=max use_imm imm=2 uop_end=2 iter_out=3 iter_in=5\n"
              "finish\n",
              *state);
    const uint32_t passes = 2 * 2 * 15 + KILN_VTA_ALU_PIPELINE + 1;
    assert_int_equal(chain.span[0].ended, FIRST + 2 + FURTHER + passes);
}

static void arithmetic_takes_a_cycle_a_tile_and_its_drain(void **state) {
    const kiln_vta_timing t =
        timed("",
              "load memory=uop y_size=1 x_size=2\n"
              "gemm reset uop_end=2 iter_out=3 iter_in=5\n"
              "alu op=add use_imm imm=1 uop_end=2 iter_out=3 iter_in=5\nfinish\n",
              *state);
    assert_int_equal(t.span[1].ended - t.span[1].started, 2 * 15 + 3);
    /* Two elements by one lane. */
    assert_int_equal(t.span[2].ended - t.span[2].started, 2 * 2 * 15 + KILN_VTA_ALU_PIPELINE);
    assert_int_equal(t.span[2].taken, t.span[1].ended + 1);
    assert_int_equal(t.cycles, t.span[2].ended + 3);
}

static void engines_share_a_channel_in_turn(void **state) {
    const char *body = "load memory=wgt buffer=in y_size=8 x_size=8 x_stride=8 push_next\n"
                       "load memory=acc buffer=in y_size=4 x_size=4 x_stride=4 pop_prev\n"
                       "finish\n";
    const char *both = "load memory=wgt buffer=in y_size=8 x_size=8 x_stride=8 push_next\n"
                       "load memory=acc buffer=in y_size=4 x_size=4 x_stride=4\n"
                       "finish pop_prev\n";
    const kiln_vta_timing apart = timed("", body, *state), shared = timed("", both, *state),
                          own = timed(",chan2", both, *state);
    assert_true(shared.cycles < apart.cycles);
    assert_true(own.cycles < shared.cycles);
    assert_true(own.channel_busy[1] > 0 && shared.channel_busy[1] == 0);
    /* Two rows beside eight do not wait for all of them, whichever engine has the two. */
    const kiln_vta_timing short_load =
        timed("",
              "load memory=wgt buffer=in y_size=2 x_size=8 x_stride=8 push_next\n"
              "load memory=acc buffer=in y_size=8 x_size=4 x_stride=4\nfinish pop_prev\n",
              *state);
    assert_true(short_load.span[0].ended < short_load.span[1].ended);
    assert_true(shared.span[1].ended < shared.span[0].ended);
}

static void a_full_queue_of_tokens_makes_its_giver_wait(void **state) {
    const char *body = "load memory=inp buffer=in y_size=1 x_size=1 push_next\n"
                       "load memory=inp buffer=in y_size=1 x_size=1 push_next\n"
                       "load memory=inp buffer=in y_size=1 x_size=1 push_next\n"
                       "load memory=acc buffer=in y_size=30 x_size=1 pop_prev\n"
                       "load memory=acc buffer=in y_size=1 x_size=1 pop_prev\nfinish pop_prev\n";
    const kiln_vta_timing narrow = timed(",tok1", body, *state),
                          wide = timed(",tok3", body, *state);
    assert_true(narrow.activity[KILN_VTA_ENGINE_LOAD][KILN_VTA_WAIT_PLACE] > 0);
    assert_int_equal(wide.activity[KILN_VTA_ENGINE_LOAD][KILN_VTA_WAIT_PLACE], 0);
}

static void engines_that_wait_for_each_other_are_named(void **state) {
    kiln_vta_program p = {0};
    kiln_vta_fault fault = {0};
    kiln_vta_timing timing;
    kiln_vta_counts counts;
    expect_ok(kiln_vta_program_parse(KILN_STR("config pynq\nload pop_next push_next\n"
                                              "load memory=acc pop_prev push_prev\nfinish\n"),
                                     *state, &p));
    p.instruction[0].memory = KILN_VTA_INP;
    uint8_t none[1];
    assert_false(
        kiln_vta_csim_run(&p, none, 0, &(kiln_vta_csim_options){0}, *state, &timing, &fault));
    assert_int_equal(fault.kind, KILN_VTA_FAULT_DEADLOCK);
    expect_contains(fault.text, "load waits");
    assert_false(kiln_vta_fsim_run(&p, none, 0, 1, &counts, &fault));
    assert_int_equal(fault.kind, KILN_VTA_FAULT_DEADLOCK);
}

static void traces_have_a_row_for_each_instruction(void **state) {
    kiln_vta_program p = {0};
    kiln_vta_fault fault = {0};
    kiln_vta_timing timing;
    kiln_strbuf json = {0};
    const kiln_vta_config config = vta_random_config(5);
    p = vta_random_program(&config, 5, *state);
    const kiln_vta_csim_options options = {.timing_only = true, .spans = true};
    assert_true(kiln_vta_csim_run(&p, NULL, 0, &options, *state, &timing, &fault));
    kiln_vta_trace_print(&p, &timing, &json);
    uint32_t rows = 0;
    for (const char *at = json.data; (at = strstr(at, "\"ph\":\"X\"")); at++) rows++;
    assert_int_equal(rows, p.instruction_count);
    kiln_strbuf_deinit(&json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(finish_alone),
        test_with_arena(a_load_takes_its_beats_behind_the_latency),
        test_with_arena(zeros_take_a_cycle_each),
        test_with_arena(rows_overlap_as_far_as_requests_may),
        test_with_arena(long_rows_are_several_bursts),
        test_with_arena(rows_that_begin_within_a_beat_may_touch_one_more),
        test_with_arena(a_chain_takes_its_instructions_one_by_one),
        test_with_arena(an_instruction_that_is_taken_leaves_its_place),
        test_with_arena(without_queues_fetch_waits_for_the_engine),
        test_with_arena(arithmetic_takes_a_cycle_a_tile_and_its_drain),
        test_with_arena(engines_share_a_channel_in_turn),
        test_with_arena(a_full_queue_of_tokens_makes_its_giver_wait),
        test_with_arena(engines_that_wait_for_each_other_are_named),
        test_with_arena(traces_have_a_row_for_each_instruction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
