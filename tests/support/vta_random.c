#include "tests/support/vta_random.h"

#include <string.h>

#include "base/rand.h"
#include "base/vec.h"
#include "vta/csim.h"

kiln_vta_config vta_random_config(uint64_t seed) {
    kiln_rand r;
    kiln_rand_init(&r, seed);
    kiln_vta_config c = {.batch = 1u << kiln_rand_below(&r, 3),
                         .block_in = 2u << kiln_rand_below(&r, 4),
                         .block_out = 2u << kiln_rand_below(&r, 4),
                         .inp_bits = kiln_rand_below(&r, 4) ? 8 : 4,
                         .wgt_bits = kiln_rand_below(&r, 4) ? 8 : 4,
                         .acc_bits = 32,
                         .uop_log = 10,
                         .bus_bits = 8u << kiln_rand_below(&r, 5),
                         .clock_mhz = 100,
                         .alu_lanes = 1u << kiln_rand_below(&r, 5),
                         .pipeline = (uint32_t)kiln_rand_range(&r, 1, 12),
                         .channels = (uint32_t)kiln_rand_range(&r, 1, 4),
                         .latency = (uint32_t)kiln_rand_below(&r, 80),
                         .row_cycles = (uint32_t)kiln_rand_below(&r, 8),
                         .requests = (uint32_t)kiln_rand_range(&r, 1, 8),
                         .commands = (uint32_t)kiln_rand_range(&r, 4, 16),
                         .tokens = (uint32_t)kiln_rand_range(&r, 2, 8),
                         .alu_cycles = (uint32_t)kiln_rand_range(&r, 1, 2),
                         .features = (uint32_t)kiln_rand_below(&r, 1u << KILN_VTA_FEATURE_COUNT)};
    /* 256 tiles of each, in bytes as a power of two. */
    const uint32_t tiles = 256;
    kiln_vta_config one = c;
    uint32_t *log[] = {&c.inp_log, &c.wgt_log, &c.acc_log};
    const kiln_vta_memory memory[] = {KILN_VTA_INP, KILN_VTA_WGT, KILN_VTA_ACC};
    for (uint32_t i = 0; i < 3; i++)
        while ((1u << *log[i]) < tiles * kiln_vta_tile_bytes(&one, memory[i])) ++*log[i];
    return c;
}

#define PARTS_MAX 3u
#define PART_TILES 64u   /* of each memory */
#define RESULT_TILES 32u /* the first ones of a part of ACC; the others are second operands */

enum {
    BUFFER_UOPS,
    BUFFER_INP,
    BUFFER_WGT,
    BUFFER_ACC,
    BUFFER_ACC8,
    BUFFER_OUT,
    BUFFER_SCRATCH,
    BUFFER_COUNT
};

typedef struct making {
    kiln_rand random;
    kiln_arena *arena;
    kiln_vta_program program;
    kiln_vta_sizes sizes;
    uint32_t parts, items;
    KILN_VEC(kiln_vta_uop) uop;
    KILN_VEC(kiln_vta_instruction) instruction;
    KILN_VEC(uint32_t) buffer;
} making;

static uint32_t below(making *m, uint32_t bound) {
    return (uint32_t)kiln_rand_below(&m->random, bound);
}
static bool has(const making *m, kiln_vta_feature feature) {
    return kiln_vta_config_has(&m->program.config, feature);
}

/* It stays where it is until the next one is added. */
static kiln_vta_instruction *add(making *m, kiln_vta_instruction in, uint32_t buffer) {
    kiln_vec_push_in(m->arena, &m->instruction, in);
    kiln_vec_push_in(m->arena, &m->buffer, buffer);
    return &kiln_vec_last(&m->instruction);
}

static kiln_vta_instruction *add_load(making *m, uint32_t memory, uint32_t sram, uint32_t tiles,
                                      uint32_t buffer, uint32_t dram) {
    return add(m,
               (kiln_vta_instruction){.opcode = KILN_VTA_LOAD,
                                      .memory = memory,
                                      .sram_base = sram,
                                      .dram_base = dram,
                                      .y_size = 1,
                                      .x_size = tiles},
               buffer);
}

/* The inputs of an item: rows with padding, of the image or of what an item stored that is over. */
static void load_inputs(making *m, uint32_t n, uint32_t sram) {
    const uint32_t x_size = 1 + below(m, 6), y_size = 1 + below(m, 5);
    const uint32_t x_pad_1 = below(m, 8 - x_size + 1), y_pad_0 = below(m, 8 - y_size + 1);
    const bool same_tiles = m->sizes.tile_bytes[KILN_VTA_INP] == m->sizes.tile_bytes[KILN_VTA_OUT];
    const bool again = same_tiles && n >= 2 * m->parts && below(m, 2);
    kiln_vta_instruction *in =
        add_load(m, KILN_VTA_INP, sram, x_size, again ? BUFFER_SCRATCH : BUFFER_INP, below(m, 16));
    in->y_size = y_size;
    in->x_stride = below(m, 8);
    in->y_pad_0 = y_pad_0;
    in->y_pad_1 = 8 - y_size - y_pad_0;
    in->x_pad_0 = 8 - x_size - x_pad_1;
    in->x_pad_1 = x_pad_1;
    if (!again) return;
    in->dram_base = (n - 2 * m->parts) * RESULT_TILES;
    in->x_stride = below(m, 4);
}

typedef struct loops {
    uint32_t uops, iter_out, iter_in; /* uops * iter_out * iter_in results, or fewer */
    uint32_t dst_out, dst_in;
} loops;

/* Loops over results, at most RESULT_TILES; a factor of 0 only where the pipeline lets it be. */
static loops draw_loops(making *m) {
    const uint32_t pipeline = m->program.config.pipeline;
    loops l = {.uops = 1 + below(m, 16), .iter_in = 1 + below(m, 3), .iter_out = 1 + below(m, 3)};
    while (l.uops * l.iter_in * l.iter_out > RESULT_TILES)
        if (l.iter_in > 1)
            l.iter_in--;
        else if (l.iter_out > 1)
            l.iter_out--;
        else
            l.uops--;
    l.dst_in = l.uops >= pipeline && below(m, 2) ? 0 : l.uops;
    const uint32_t round = l.dst_in ? l.uops * l.iter_in : l.uops;
    l.dst_out = round >= pipeline && below(m, 2) ? 0 : round;
    return l;
}

/* Micro-ops of a part, loaded to its own places. */
static uint32_t add_uops(making *m, uint32_t part, uint32_t slot, uint32_t count, kiln_vta_uop at,
                         uint32_t src_step, uint32_t wgt_step) {
    const uint32_t first = m->uop.count, place = part * 64 + slot * 16;
    for (uint32_t k = 0; k < count; k++) {
        kiln_vec_push_in(m->arena, &m->uop, at);
        at.dst++;
        at.src += src_step;
        at.wgt += wgt_step;
    }
    add_load(m, KILN_VTA_UOP, place, count, BUFFER_UOPS, first);
    return place;
}

static kiln_vta_instruction looped(const loops *l, uint32_t opcode, uint32_t uop) {
    return (kiln_vta_instruction){.opcode = opcode,
                                  .uop_bgn = uop,
                                  .uop_end = uop + l->uops,
                                  .iter_out = l->iter_out,
                                  .iter_in = l->iter_in,
                                  .dst_out = l->dst_out,
                                  .dst_in = l->dst_in};
}

/* Whether GEMM may sum into the accumulators: loaded, reset, or overwritten by the GEMM itself. */
static void add_sums(making *m, uint32_t part, uint32_t acc) {
    const uint32_t base = part * PART_TILES;
    const bool first = has(m, KILN_VTA_FIRST) && below(m, 2);
    if (!first && below(m, 2)) {
        const bool bytes = has(m, KILN_VTA_BYTES) && below(m, 2);
        add_load(m, bytes ? KILN_VTA_ACC_BYTES : KILN_VTA_ACC, acc, RESULT_TILES,
                 bytes ? BUFFER_ACC8 : BUFFER_ACC, below(m, 16));
    } else {
        /* All results, so that what a narrower GEMM leaves is something, too. */
        const loops all = {.uops = 16, .iter_out = 1, .iter_in = 2, .dst_in = 16};
        const uint32_t uop = add_uops(m, part, 0, 16, (kiln_vta_uop){.dst = acc}, 0, 0);
        kiln_vta_instruction *in = add(m, looped(&all, KILN_VTA_GEMM, uop), BUFFER_UOPS);
        in->reset = 1;
    }
    const loops l = draw_loops(m);
    const uint32_t uop =
        add_uops(m, part, 1, l.uops, (kiln_vta_uop){acc, base + below(m, 8), base + below(m, 8)},
                 below(m, 3), below(m, 3));
    kiln_vta_instruction *in = add(m, looped(&l, KILN_VTA_GEMM, uop), BUFFER_UOPS);
    in->first = first;
    in->src_out = below(m, 8);
    in->src_in = below(m, 4);
    in->wgt_out = below(m, 8);
    in->wgt_in = below(m, 4);
}

static void draw_operation(making *m, kiln_vta_instruction *in) {
    in->op = below(m, has(m, KILN_VTA_MUL) ? KILN_VTA_ALU_OP_COUNT : KILN_VTA_ALU_MUL);
    in->use_imm = in->op == KILN_VTA_ALU_SHR || below(m, 2);
    in->imm = !in->use_imm                 ? 0
              : in->op == KILN_VTA_ALU_SHR ? (int32_t)below(m, 20) - 4
                                           : (int32_t)below(m, 400) - 200;
}

/* Operations over all results: alone or as a chain. */
static void add_operations(making *m, uint32_t uop) {
    const loops all = {.uops = 16, .iter_out = 2, .iter_in = 1, .dst_out = 16};
    const uint32_t count = 1 + below(m, KILN_VTA_CHAIN_MAX);
    const bool chain = has(m, KILN_VTA_CHAIN) && below(m, 2);
    for (uint32_t i = 0; i < count; i++) {
        kiln_vta_instruction *in = add(m, looped(&all, KILN_VTA_ALU, uop), BUFFER_UOPS);
        in->src_out = 16;
        in->chain = chain && i + 1 < count;
        draw_operation(m, in);
    }
}

static void add_item(making *m, uint32_t n) {
    const uint32_t part = n % m->parts, base = part * PART_TILES, acc = base;
    const bool engine = has(m, KILN_VTA_ENGINE), again = n >= m->parts;
    const bool further = n + m->parts < m->items; /* its part is used again */
    uint32_t at = m->instruction.count;
    load_inputs(m, n, base);
    add_load(m, KILN_VTA_WGT, base, PART_TILES, BUFFER_WGT, below(m, 16))->push_next = 1;
    m->instruction.data[at].pop_next = again;

    at = m->instruction.count;
    add_load(m, KILN_VTA_ACC, acc + RESULT_TILES, RESULT_TILES, BUFFER_ACC, below(m, 16));
    const uint32_t uop =
        add_uops(m, part, 2, 16, (kiln_vta_uop){.dst = acc, .src = acc + RESULT_TILES}, 1, 0);
    add_sums(m, part, acc);
    m->instruction.data[at].pop_prev = 1;
    m->instruction.data[at].pop_next = again;
    kiln_vec_last(&m->instruction).push_prev = further;
    kiln_vec_last(&m->instruction).push_next = engine;

    at = m->instruction.count;
    add_operations(m, uop);
    m->instruction.data[at].pop_prev = engine;
    /* Where the ALU is an engine, it passes on that the item whose part comes next is stored. */
    const bool relays = engine && n + 1 >= m->parts && n + 1 < m->items;
    m->instruction.data[at].pop_next = relays;
    kiln_vec_last(&m->instruction).push_prev = relays;
    kiln_vec_last(&m->instruction).push_next = 1;

    kiln_vta_instruction *out = add(m,
                                    (kiln_vta_instruction){.opcode = KILN_VTA_STORE,
                                                           .memory = KILN_VTA_OUT,
                                                           .sram_base = acc,
                                                           .dram_base = n * RESULT_TILES,
                                                           .y_size = 4,
                                                           .x_size = RESULT_TILES / 4,
                                                           .x_stride = RESULT_TILES / 4,
                                                           .pop_prev = 1},
                                    below(m, 2) ? BUFFER_OUT : BUFFER_SCRATCH);
    out->saturate = has(m, KILN_VTA_CHAIN) && below(m, 2);
    out = add(m, *out, BUFFER_SCRATCH); /* for later items; the same again where it was there */
    out->pop_prev = 0;
    out->push_prev = further || n + 1 == m->items; /* the last one lets FINISH go */
}

static void add_finish(making *m, uint32_t uop) {
    if (has(m, KILN_VTA_ENGINE)) { /* the ALU passes the last store's token on */
        const loops one = {.uops = 1, .iter_out = 1, .iter_in = 1};
        kiln_vta_instruction *in = add(m, looped(&one, KILN_VTA_ALU, uop), BUFFER_UOPS);
        in->op = KILN_VTA_ALU_SHR;
        in->use_imm = in->pop_next = in->push_prev = 1;
    }
    add(m, (kiln_vta_instruction){.opcode = KILN_VTA_FINISH, .pop_next = 1}, BUFFER_UOPS);
}

static void add_buffers(making *m) {
    const uint32_t *bytes = m->sizes.tile_bytes, results = m->items * RESULT_TILES;
    const struct {
        const char *name;
        kiln_vta_role role;
        uint64_t bytes;
    } row[BUFFER_COUNT] = {
        [BUFFER_UOPS] = {"uops", KILN_VTA_ROLE_UOPS, 4 * (uint64_t)m->uop.count},
        [BUFFER_INP] = {"inp", KILN_VTA_ROLE_ARGUMENT, 64 * bytes[KILN_VTA_INP]},
        [BUFFER_WGT] = {"wgt", KILN_VTA_ROLE_ARGUMENT, 80 * bytes[KILN_VTA_WGT]},
        [BUFFER_ACC] = {"acc", KILN_VTA_ROLE_ARGUMENT, 48 * bytes[KILN_VTA_ACC]},
        [BUFFER_ACC8] = {"acc8", KILN_VTA_ROLE_ARGUMENT, 48 * bytes[KILN_VTA_ACC_BYTES]},
        [BUFFER_OUT] = {"out", KILN_VTA_ROLE_ARGUMENT, results * bytes[KILN_VTA_OUT]},
        [BUFFER_SCRATCH] = {"scratch", KILN_VTA_ROLE_SCRATCH, results * bytes[KILN_VTA_OUT]},
    };
    m->program.buffer_count = BUFFER_COUNT;
    m->program.buffer = KILN_ARENA_ARRAY(m->arena, kiln_vta_buffer, BUFFER_COUNT);
    for (uint32_t i = 0; i < BUFFER_COUNT; i++)
        m->program.buffer[i] = (kiln_vta_buffer){
            .name = kiln_str_from(row[i].name), .role = row[i].role, .size_bytes = row[i].bytes};
}

kiln_vta_program vta_random_program(const kiln_vta_config *config, uint64_t seed,
                                    kiln_arena *arena) {
    making m = {.arena = arena, .program.config = *config, .sizes = kiln_vta_sizes_of(config)};
    kiln_rand_init(&m.random, seed);
    m.parts = (has(&m, KILN_VTA_ENGINE) ? 2 : 1) + below(&m, 2);
    m.items = 1 + below(&m, 8);
    for (uint32_t n = 0; n < m.items; n++) add_item(&m, n);
    add_finish(&m, (m.items - 1) % m.parts * 64 + 2 * 16);
    add_buffers(&m);
    m.program.uop_count = m.uop.count;
    m.program.uop = m.uop.data;
    m.program.instruction_count = m.instruction.count;
    m.program.instruction = m.instruction.data;
    m.program.instruction_buffer = m.buffer.data;
    return m.program;
}

uint8_t *vta_random_dram(const kiln_vta_program *program, uint64_t seed, kiln_arena *arena,
                         uint64_t *out_bytes) {
    kiln_rand r;
    kiln_rand_init(&r, seed);
    uint64_t *place = KILN_ARENA_ARRAY(arena, uint64_t, program->buffer_count);
    *out_bytes = kiln_vta_program_place(program, place);
    uint8_t *dram = kiln_arena_alloc(arena, *out_bytes);
    memset(dram, 0xee, *out_bytes);
    for (uint32_t i = 0; i < program->buffer_count; i++)
        for (uint64_t k = 0; k < program->buffer[i].size_bytes; k++)
            if (program->buffer[i].role == KILN_VTA_ROLE_ARGUMENT)
                dram[place[i] + k] = (uint8_t)kiln_rand_u64(&r);
    kiln_vta_program_fill(program, place, dram);
    return dram;
}
