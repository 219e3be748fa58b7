#include "rpc-server/golden_vta.h"

#include <string.h>

#include "vta/builder.h"

#define TILES KILN_GOLDEN_VTA_TILES

enum { X = KILN_VTA_BUFFER_UOPS + 1, W, Y };

static kiln_status add_buffers(kiln_vta_builder *b, const kiln_golden_vta *g) {
    const struct {
        kiln_str name;
        uint64_t bytes;
    } buffer[] = {
        {KILN_STR("x"), g->x_bytes}, {KILN_STR("w"), g->w_bytes}, {KILN_STR("y"), g->y_bytes}};
    kiln_status st = KILN_OK;
    uint32_t number;
    for (uint32_t i = 0; !st && i < KILN_ARRAY_COUNT(buffer); i++)
        st = kiln_vta_builder_buffer(b, buffer[i].name, KILN_VTA_ROLE_ARGUMENT, buffer[i].bytes,
                                     (kiln_str){0}, &number);
    return st;
}

/* Makes `to` wait for what `from` did. */
static kiln_status hand_over(kiln_vta_builder *b, kiln_vta_engine from, kiln_vta_engine to) {
    kiln_vta_builder_signal(b, from, to);
    return kiln_vta_builder_wait(b, to, from);
}

static kiln_status load(kiln_vta_builder *b) {
    const kiln_vta_copy x = {
        .memory = KILN_VTA_INP,
        .buffer = X,
        .dim_count = 1,
        .dim = {{TILES, 1, 0, 0}}
    };
    const kiln_vta_copy w = {
        .memory = KILN_VTA_WGT, .buffer = W, .dim_count = 1, .dim = {{TILES, 1, 0, 0}}};
    kiln_status st = kiln_vta_builder_copy(b, &x);
    if (!st) st = kiln_vta_builder_copy(b, &w);
    return st ? st : hand_over(b, KILN_VTA_ENGINE_LOAD, KILN_VTA_ENGINE_COMPUTE);
}

/* One instruction per tile, because within one an accumulator cannot be used again so soon. */
static kiln_status multiply(kiln_vta_builder *b) {
    kiln_status st = kiln_vta_builder_gemm(b, KILN_VTA_GEMM_RESET, &(kiln_vta_nest){0});
    for (uint32_t k = 0; !st && k < TILES; k++)
        st = kiln_vta_builder_gemm(b, KILN_VTA_GEMM_ADD,
                                   &(kiln_vta_nest){.base = {.src = k, .wgt = k}});
    return st;
}

static kiln_status store(kiln_vta_builder *b, bool has_alu_engine) {
    static const kiln_vta_operation shift = {
        .op = KILN_VTA_ALU_SHR, .use_imm = true, .imm = KILN_GOLDEN_VTA_SHIFT};
    const kiln_vta_engine alu = has_alu_engine ? KILN_VTA_ENGINE_ALU : KILN_VTA_ENGINE_COMPUTE;
    kiln_status st = KILN_OK;
    if (has_alu_engine) st = hand_over(b, KILN_VTA_ENGINE_COMPUTE, alu);
    if (!st) st = kiln_vta_builder_alu(b, &(kiln_vta_nest){0}, &shift, 1);
    if (!st) st = hand_over(b, alu, KILN_VTA_ENGINE_STORE);
    return st ? st
              : kiln_vta_builder_copy(b, &(kiln_vta_copy){.memory = KILN_VTA_OUT, .buffer = Y});
}

kiln_status kiln_golden_vta_make(const kiln_vta_config *config, kiln_arena *arena,
                                 kiln_golden_vta *out_golden) {
    kiln_golden_vta g = {
        .x_bytes = (uint64_t)TILES * kiln_vta_tile_bytes(config, KILN_VTA_INP),
        .w_bytes = (uint64_t)TILES * kiln_vta_tile_bytes(config, KILN_VTA_WGT),
        .y_bytes = kiln_vta_tile_bytes(config, KILN_VTA_OUT),
    };
    kiln_vta_stream stream;
    kiln_strbuf code = {0};
    kiln_vta_builder *b = kiln_vta_builder_create(config, arena);
    kiln_status st = add_buffers(b, &g);
    if (!st) st = load(b);
    if (!st) st = multiply(b);
    if (!st) st = store(b, kiln_vta_config_has(config, KILN_VTA_ENGINE));
    if (!st) st = kiln_vta_builder_finish(b, &(kiln_vta_limits){0}, &stream);
    kiln_vta_builder_destroy(b);
    if (st) return st;
    kiln_vta_program_encode(&stream.program[0], &code);
    g.code = (kiln_str){kiln_arena_copy(arena, code.data, code.size), code.size};
    kiln_strbuf_deinit(&code);
    *out_golden = g;
    return KILN_OK;
}

/* Reads number `index` of packed numbers of `bits` bits, low bits first. */
static int32_t number_at(const uint8_t *bytes, uint32_t bits, uint32_t index) {
    const uint32_t value = (uint32_t)bytes[index * bits / 8] >> index * bits % 8;
    const int32_t low = (int32_t)(value & ((1u << bits) - 1));
    return low >> (bits - 1) ? low - (1 << bits) : low;
}

void kiln_golden_vta_compute(const kiln_vta_config *c, const uint8_t *x, const uint8_t *w,
                             uint8_t *out_y) {
    memset(out_y, 0, kiln_vta_tile_bytes(c, KILN_VTA_OUT));
    for (uint32_t row = 0; row < c->batch; row++)
        for (uint32_t out = 0; out < c->block_out; out++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < TILES; k++)
                for (uint32_t in = 0; in < c->block_in; in++)
                    sum += number_at(x, c->inp_bits, (k * c->batch + row) * c->block_in + in) *
                           number_at(w, c->wgt_bits, (k * c->block_out + out) * c->block_in + in);
            const uint32_t index = row * c->block_out + out;
            const uint32_t low =
                (uint32_t)(sum >> KILN_GOLDEN_VTA_SHIFT) & ((1u << c->inp_bits) - 1);
            out_y[index * c->inp_bits / 8] |= (uint8_t)(low << index * c->inp_bits % 8);
        }
}
