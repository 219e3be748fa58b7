/* What each instruction does, on a machine small enough to compute by hand: tiles of inputs and
 * results of two elements, weights of two by two. */
#include "vta/core.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "vta/fsim.h"

#define MACHINE "config b1i2o2,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu2,pipe2,v2\n"

typedef struct ran {
    kiln_vta_program program;
    uint8_t *dram;
    uint64_t *place;
    kiln_vta_counts counts;
    kiln_vta_fault fault;
} ran;

/* Runs a program, its `in` filled with `count` bytes; what follows is read of the buffer `out`. */
static ran run(const char *text, const int8_t *in, uint32_t count, kiln_arena *arena) {
    ran r = {0};
    expect_ok(kiln_vta_program_parse(kiln_str_from(text), arena, &r.program));
    if (!kiln_vta_program_check(&r.program, &r.fault)) fail_msg("%s", r.fault.text);
    r.place = KILN_ARENA_ARRAY(arena, uint64_t, r.program.buffer_count);
    const uint64_t bytes = kiln_vta_program_place(&r.program, r.place);
    r.dram = kiln_arena_alloc(arena, bytes);
    memset(r.dram, 0x55, bytes);
    kiln_vta_program_fill(&r.program, r.place, r.dram);
    memcpy(r.dram + r.place[1], in, count);
    (void)kiln_vta_fsim_run(&r.program, r.dram, bytes, 0, &r.counts, &r.fault);
    return r;
}

static void expect_out(const ran *r, const int8_t *expected, uint32_t count) {
    if (r->fault.kind) fail_msg("%u: %s", r->fault.instruction, r->fault.text);
    assert_memory_equal(r->dram + r->place[2], expected, count);
}

#define BUFFERS "buffer in argument 64\nbuffer out argument 64\n"
#define END "store memory=out buffer=out y_size=1 x_size=2 pop_prev push_prev\nfinish pop_next\n"
/* Results 0 and 1 become what the bytes of `in` say: int32, so 4 bytes each. */
#define LOAD_ACC "load memory=acc buffer=in y_size=1 x_size=2\nload memory=uop y_size=1 x_size=2\n"
#define ACC(a, b, c, d) {a, 0, 0, 0, b, 0, 0, 0, c, 0, 0, 0, d, 0, 0, 0}

static void gemm_multiplies_rows_of_weights(void **state) {
    /* Inputs (1, 2), (3, 4); weights rows (1, 2), (-1, 5). */
    static const int8_t in[] = {1, 2, 3, 4, 1, 2, -1, 5};
    static const int8_t expected[] = {5, 9, 11, 17};
    const ran r = run(MACHINE BUFFERS
                      "uop\nuop dst=1 src=1\n"
                      "load memory=inp buffer=in y_size=1 x_size=2\n"
                      "load memory=wgt buffer=in dram_base=1 y_size=1 x_size=1 push_next\n"
                      "load memory=uop y_size=1 x_size=2 pop_prev\n"
                      "gemm reset uop_end=2 iter_out=1 iter_in=1\n"
                      "gemm uop_end=2 iter_out=1 iter_in=1 push_next\n"
                      "alu op=add use_imm imm=0 uop_end=2 iter_out=1 iter_in=1 pop_prev push_next\n"
                      "store memory=out buffer=out y_size=1 x_size=2 pop_prev push_prev\n"
                      "alu op=add use_imm imm=0 uop_end=2 iter_out=1 iter_in=1 pop_next push_prev\n"
                      "finish pop_next\n",
                      in, sizeof in, *state);
    expect_out(&r, expected, sizeof expected);
    assert_int_equal(r.counts.multiply_adds, 8);
    assert_int_equal(r.counts.bytes[KILN_VTA_INP], 4);
    assert_int_equal(r.counts.instructions[KILN_VTA_GEMM], 2);
}

#define V1 "config b1i2o2,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu2,pipe2,v1+mul+chain+bytes\n"

static void alu_operates_on_each_element(void **state) {
    static const struct {
        const char *operation;
        int8_t expected[4];
    } row[] = {
        {"op=min use_imm imm=6", {5, -3, 6, 6}},
        {"op=max use_imm imm=6", {6, 6, 7, 100}},
        {"op=add use_imm imm=-1", {4, -4, 6, 99}},
        {"op=add use_imm imm=100", {105, 97, 107, -56}},
        {"op=shr use_imm imm=1", {2, -2, 3, 50}},
        {"op=shr use_imm imm=-1", {10, -6, 14, -56}},
        {"op=mul use_imm imm=3", {15, -9, 21, 44}},
        {"op=add src_in=1", {12, 97, 7, 100}}, /* of tile 0, the second one added */
        {"op=max src_in=1", {7, 100, 7, 100}},
    };
    static const int8_t in[] = {5, 0, 0, 0, -3, -1, -1, -1, 7, 0, 0, 0, 100, 0, 0, 0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const bool two = strstr(row[i].operation, "use_imm") != NULL;
        char *text =
            kiln_arena_printf(*state,
                              V1 BUFFERS "uop%s\nuop dst=1\n" LOAD_ACC
                                         "alu %s uop_end=%u iter_out=1 iter_in=1 push_next\n" END,
                              two ? "" : " src=1", row[i].operation, two ? 2 : 1);
        const ran r = run(text, in, sizeof in, *state);
        if (r.fault.kind || memcmp(r.dram + r.place[2], row[i].expected, 4) != 0)
            fail_msg("%s: %s", row[i].operation, r.fault.text);
    }
}

static void chains_compute_one_after_the_other(void **state) {
    static const int8_t in[] = ACC(5, 9, 7, 100), expected[] = {12, 20, 16, 20};
    const ran r =
        run(V1 BUFFERS "uop\nuop dst=1\n" LOAD_ACC
                       "alu op=add use_imm imm=1 chain uop_end=2 iter_out=1 iter_in=1\n"
                       "alu op=mul use_imm imm=2 chain uop_end=2 iter_out=1 iter_in=1\n"
                       "alu op=min use_imm imm=20 uop_end=2 iter_out=1 iter_in=1 push_next\n" END,
            in, sizeof in, *state);
    expect_out(&r, expected, sizeof expected);
}

static void stores_cut_or_saturate(void **state) {
    static const int8_t in[] = {-56, 0, 0, 0, 44, 1, 0, 0, 56, -1, -1, -1, 0, -1, -1, -1};
    static const int8_t cut[] = {-56, 44, 56, 0}, nearest[] = {127, 127, -128, -128};
    const char *move =
        V1 BUFFERS "load memory=acc buffer=in y_size=1 x_size=2 push_next\n"
                   "store memory=out buffer=out y_size=1 x_size=2 pop_prev push_prev%s\n"
                   "finish pop_next\n";
    for (uint32_t saturate = 0; saturate < 2; saturate++) {
        char text[512];
        snprintf(text, sizeof text, move, saturate ? " saturate" : "");
        const ran r = run(text, in, sizeof in, *state);
        expect_out(&r, saturate ? nearest : cut, 4);
    }
}

static void loads_pad_and_repeat(void **state) {
    static const int8_t in[] = {1, 2, 3, 4};
    /* A row of zeros, then twice (0, the first tile, the second). */
    static const int8_t expected[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4};
    const ran r = run(V1 BUFFERS
                      "load memory=acc8 buffer=in y_size=2 x_size=2 x_stride=0 y_pad_0=1 x_pad_0=1 "
                      "push_next\n"
                      "store memory=out buffer=out y_size=1 x_size=9 pop_prev push_prev\n"
                      "finish pop_next\n",
                      in, sizeof in, *state);
    expect_out(&r, expected, sizeof expected);
}

static void first_sums_overwrite(void **state) {
    /* Two rounds over inputs (1, 2), (3, 4): what was in the accumulator goes. */
    static const int8_t in[] = {1, 2, 3, 4, 1, 2, -1, 5}, expected[] = {16, 26, 5, 9};
    const ran r =
        run("config b1i2o2,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu2,pipe1,v1+first\n" BUFFERS
            "uop\nuop dst=1\n"
            "load memory=inp buffer=in y_size=1 x_size=2\n"
            "load memory=wgt buffer=in dram_base=1 y_size=1 x_size=1 push_next\n"
            "load memory=acc buffer=in y_size=1 x_size=2 pop_prev\n"
            "load memory=uop y_size=1 x_size=2\n"
            "gemm first uop_end=1 iter_out=1 iter_in=2 src_in=1\n"
            "gemm first uop_bgn=1 uop_end=2 iter_out=1 iter_in=1 push_next\n" END,
            in, sizeof in, *state);
    expect_out(&r, expected, sizeof expected);
}

static void nibbles_are_packed_from_the_lowest_bits(void **state) {
    static const int8_t in[] = {(int8_t)0xf7, 0x21}; /* 7, -1, 1, 2 */
    const ran r = run("config b1i2o2,i4w4a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu2,pipe2,v1\n"
                      "buffer in argument 64\nbuffer out argument 64\n"
                      "buffer rows constant 2 1121\nuop\nuop dst=1 src=1\n"
                      "load memory=inp buffer=in y_size=1 x_size=2\n"
                      "load memory=wgt buffer=rows y_size=1 x_size=1 push_next\n"
                      "load memory=uop y_size=1 x_size=2 pop_prev\n"
                      "gemm reset uop_end=2 iter_out=1 iter_in=1\n"
                      "gemm uop_end=2 iter_out=1 iter_in=1 push_next\n" END,
                      in, sizeof in, *state);
    /* 7 - 1 = 6, 7 - 2 = 5; 1 + 2 = 3, 1 * 1 + 2 * 2 = 5 */
    static const int8_t sums[] = {0x56, 0x53};
    expect_out(&r, sums, sizeof sums);
}

static void traps_name_what_is_wrong(void **state) {
    static const struct {
        const char *body;
        kiln_vta_fault_kind fault;
        uint32_t instruction;
    } row[] = {
        {"load memory=uop y_size=1 x_size=1\ngemm uop_end=1 iter_out=1 iter_in=1\n",
         KILN_VTA_FAULT_UNINITIALISED, 1},
        {"gemm reset uop_end=1 iter_out=1 iter_in=1\n", KILN_VTA_FAULT_UNINITIALISED, 0},
        {"load memory=uop y_size=1 x_size=1\ngemm reset uop_end=1 iter_out=9 iter_in=1 dst_out=4\n",
         KILN_VTA_FAULT_INDEX, 1},
        {"load memory=uop y_size=1 x_size=1\nload memory=acc buffer=in y_size=1 x_size=1\n"
         "alu op=shr uop_end=1 iter_out=1 iter_in=1\n",
         KILN_VTA_FAULT_SHIFT, 2},
    };
    static const int8_t in[] = ACC(32, 32, 0, 0);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        char *text = kiln_arena_printf(*state, "%s%sfinish\n", V1 BUFFERS "uop\n", row[i].body);
        const ran r = run(text, in, sizeof in, *state);
        if (r.fault.kind != row[i].fault) fail_msg("row %zu: %s", i, r.fault.text);
        assert_int_equal(r.fault.instruction, row[i].instruction);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(gemm_multiplies_rows_of_weights),
        test_with_arena(alu_operates_on_each_element),
        test_with_arena(chains_compute_one_after_the_other),
        test_with_arena(stores_cut_or_saturate),
        test_with_arena(loads_pad_and_repeat),
        test_with_arena(first_sums_overwrite),
        test_with_arena(nibbles_are_packed_from_the_lowest_bits),
        test_with_arena(traps_name_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
