/* Whole convolutions through builder, checks and simulators, against plain loops. */
#include <string.h>

#include "base/rand.h"
#include "tests/support/test.h"
#include "vta/check.h"
#include "vta/csim.h"
#include "vta/search/conv.h"

#define BLOCK 16u /* of every machine here: 1x16x16 */

static const struct {
    kiln_vta_conv conv;
    kiln_vta_conv_cut cut; /* threads and places aside */
} shape_table[] = {
    {{12, 8, 2, 4, 3, 1, 1}, {.rows = 4, .columns = 8, .out = 2, .in = 1}},
    {{12, 8, 2, 4, 3, 1, 1}, {.rows = 4, .columns = 4, .out = 1, .in = 2, .out_inside = true}},
    {{9, 9, 4, 2, 3, 2, 1}, {.rows = 5, .columns = 5, .out = 2, .in = 2}}, /* one part */
    {{12, 8, 2, 2, 1, 1, 0}, {.rows = 4, .columns = 8, .out = 1, .in = 1}},
    {{10, 10, 3, 2, 1, 2, 0}, {.rows = 5, .columns = 5, .out = 1, .in = 1, .out_inside = true}},
    {{12, 8, 4, 3, 3, 1, 1}, {.rows = 4, .columns = 8, .out = 1, .in = 2}},
    {{10, 10, 1, 2, 1, 2, 0}, {.rows = 5, .columns = 5, .out = 1, .in = 1, .out_inside = true}},
    {{14, 14, 1, 1, 7, 2, 3}, {.rows = 7, .columns = 7, .out = 1, .in = 1}},
};
static const char *const machine_table[] = {"pynq", "pynq,v1+engine", "pynq,v1+first+chain",
                                            "pynq,v2", "pynq,v2,chan3,req2,tok16"};

static int32_t input_at(const kiln_vta_conv *c, const int8_t *inp, uint32_t channel, int64_t y,
                        int64_t x) {
    if (y < 0 || x < 0 || y >= c->height || x >= c->width) return 0;
    return inp[((channel / BLOCK * c->height + y) * c->width + x) * BLOCK + channel % BLOCK];
}

static void plain_conv(const kiln_vta_conv *c, const int8_t *inp, const int8_t *wgt,
                       const int32_t *bias, int8_t *out) {
    const uint32_t taps = c->kernel * c->kernel, height = kiln_vta_conv_out_height(c),
                   width = kiln_vta_conv_out_width(c);
    for (uint32_t o = 0; o < c->out * BLOCK; o++)
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++) {
                int32_t sum = bias[o];
                for (uint32_t i = 0; i < c->in * BLOCK; i++)
                    for (uint32_t t = 0; t < taps; t++)
                        sum +=
                            input_at(c, inp, i, (int64_t)y * c->stride + t / c->kernel - c->padding,
                                     (int64_t)x * c->stride + t % c->kernel - c->padding) *
                            wgt[(((o / BLOCK * c->in + i / BLOCK) * taps + t) * BLOCK + o % BLOCK) *
                                    BLOCK +
                                i % BLOCK];
                sum >>= 6;
                out[((o / BLOCK * height + y) * width + x) * BLOCK + o % BLOCK] =
                    (int8_t)(sum < 0     ? 0
                             : sum > 127 ? 127
                                         : sum);
            }
}

/* Its cycles, after everything has agreed. */
static uint64_t build_and_compare(const char *machine, size_t shape, uint32_t threads, bool in_turn,
                                  uint32_t inp_places, uint32_t wgt_places, kiln_arena *arena) {
    kiln_vta_config config;
    kiln_vta_stream stream;
    kiln_vta_fault fault = {0};
    kiln_vta_counts counts;
    kiln_vta_timing timing;
    kiln_rand r;
    kiln_vta_conv_cut cut = shape_table[shape].cut;
    cut.threads = threads;
    cut.in_turn = in_turn;
    cut.inp_places = inp_places;
    cut.wgt_places = wgt_places;
    expect_ok(kiln_vta_config_parse(kiln_str_from(machine), &config));
    expect_ok(kiln_vta_conv_build(&config, &shape_table[shape].conv, &cut, arena, &stream));
    const kiln_vta_program *p = stream.program;
    if (!kiln_vta_check(p, &fault))
        fail_msg("%s, shape %zu, %u threads: %s", machine, shape, threads, fault.text);

    uint64_t *place = KILN_ARENA_ARRAY(arena, uint64_t, p->buffer_count);
    const uint64_t bytes = kiln_vta_program_place(p, place);
    uint8_t *dram = kiln_arena_alloc(arena, bytes), *other = kiln_arena_alloc(arena, bytes);
    kiln_rand_init(&r, shape);
    for (uint64_t i = 0; i < bytes; i++) dram[i] = (uint8_t)((int)kiln_rand_below(&r, 15) - 7);
    int32_t *bias = (int32_t *)(void *)(dram + place[KILN_VTA_CONV_BIAS]);
    for (uint32_t i = 0; i < shape_table[shape].conv.out * BLOCK; i++)
        bias[i] = (int32_t)kiln_rand_below(&r, 4000) - 1000;
    kiln_vta_program_fill(p, place, dram);
    memcpy(other, dram, bytes);
    int8_t *wanted = kiln_arena_alloc(arena, p->buffer[KILN_VTA_CONV_OUT].size_bytes);
    plain_conv(&shape_table[shape].conv, (int8_t *)dram + place[KILN_VTA_CONV_INP],
               (int8_t *)dram + place[KILN_VTA_CONV_WGT], bias, wanted);
    assert_true(kiln_vta_fsim_run(p, dram, bytes, 1 + threads, &counts, &fault));
    assert_memory_equal(dram + place[KILN_VTA_CONV_OUT], wanted,
                        p->buffer[KILN_VTA_CONV_OUT].size_bytes);
    assert_true(
        kiln_vta_csim_run(p, other, bytes, &(kiln_vta_csim_options){0}, arena, &timing, &fault));
    assert_memory_equal(dram, other, bytes);
    return timing.cycles;
}

static void convolutions_are_those_of_plain_loops(void **state) {
    for (size_t machine = 0; machine < KILN_ARRAY_COUNT(machine_table); machine++)
        for (size_t shape = 0; shape < KILN_ARRAY_COUNT(shape_table); shape++)
            for (uint32_t threads = 1; threads <= 4; threads *= 2) {
                const kiln_vta_conv *c = &shape_table[shape].conv;
                const uint32_t steps = c->in / shape_table[shape].cut.in, all = threads * steps;
                const struct {
                    bool in_turn;
                    uint32_t inp_places, wgt_places;
                } way[] = {{false, threads, threads}, {true, threads, threads},
                           {false, all, all},         {true, steps, threads},
                           {true, all, threads},      {true, threads, steps},
                           {true, steps, steps}};
                /* Two threads have them all; one and four the first ones. */
                const size_t ways = threads == 2 ? KILN_ARRAY_COUNT(way) : threads == 1 ? 1 : 2;
                for (size_t w = 0; w < ways; w++) {
                    build_and_compare(machine_table[machine], shape, threads, way[w].in_turn,
                                      way[w].inp_places, way[w].wgt_places, *state);
                    kiln_arena_reset(*state);
                }
            }
}

static void two_virtual_threads_hide_latency(void **state) {
    const uint64_t one = build_and_compare("pynq", 0, 1, false, 1, 1, *state);
    const uint64_t two = build_and_compare("pynq", 0, 2, false, 2, 2, *state);
    assert_true(two * 100 < one * 85);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(convolutions_are_those_of_plain_loops),
        test_with_arena(two_virtual_threads_hide_latency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
