#include "vta/rtl/params.h"

#include <ctype.h>

#include "base/integer.h"
#include "vta/csim.h"
#include "vta/field.h"

/* Cycles of a step of GEMM without the sum of products: micro-op, tiles, products, the new
 * accumulator, and its write. */
#define GEMM_STAGES 5u
/* Memories of accumulators where compute and the ALU are two engines. */
#define QUARTERS 4u
/* Fetch chooses the engine of an instruction by its first bits. */
#define CHOOSING_BITS 16u

typedef struct named {
    const char *name;
    uint32_t value;
} named;

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t elements_of(const kiln_vta_config *c) { return c->batch * c->block_out; }

/* Tiles of a memory that a beat holds, at least 1. */
static uint32_t lanes_of(const kiln_vta_config *c, kiln_vta_memory memory) {
    return larger(1, c->bus_bits / 8 / kiln_vta_tile_bytes(c, memory));
}

/* The maximum over all memories: of tiles, bytes, or bytes of a tile. */
static uint32_t most_of(const uint32_t of[KILN_VTA_MEMORY_COUNT]) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++) most = larger(most, of[i]);
    return most;
}

static uint32_t most_bytes_of(const kiln_vta_sizes *s) {
    uint32_t bytes[KILN_VTA_MEMORY_COUNT];
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++)
        bytes[i] = s->tile_bytes[i] * s->tile_count[i];
    return most_of(bytes);
}

static uint32_t acc_lanes_of(const kiln_vta_config *c) {
    const bool bytes = kiln_vta_config_has(c, KILN_VTA_BYTES);
    return larger(lanes_of(c, KILN_VTA_ACC), bytes ? lanes_of(c, KILN_VTA_ACC_BYTES) : 1);
}

/* Levels of the tree of sums that have registers. */
static uint32_t tree_of(const kiln_vta_config *c) {
    return smaller(kiln_log2(c->block_in), c->pipeline - GEMM_STAGES);
}

/* Beats that an engine has room for: those of its bursts in flight, or two of the longest bursts
 * and the beats of one latency. */
static uint32_t read_beats_of(const kiln_vta_config *c) {
    uint32_t beats = 2 * KILN_VTA_BURST_BEATS;
    while (beats < c->latency + KILN_VTA_BURST_BEATS) beats *= 2;
    return smaller(beats, c->requests * KILN_VTA_BURST_BEATS);
}

static kiln_status check(const kiln_vta_config *c) {
    if (c->pipeline < GEMM_STAGES)
        return KILN_ERROR(UNIMPLEMENTED,
                          "pipe%u: vta/rtl needs %u cycles from the read of an "
                          "input to the write of its sum",
                          c->pipeline, GEMM_STAGES);
    if (c->latency + c->row_cycles < 2)
        return KILN_ERROR(UNIMPLEMENTED,
                          "lat%u,row%u: vta/rtl takes 2 cycles, together, to hear "
                          "of a beat",
                          c->latency, c->row_cycles);
    if (c->commands == 0 && c->bus_bits < CHOOSING_BITS)
        return KILN_ERROR(UNIMPLEMENTED, "bus%u,cmd0: vta/rtl has no queues from bus%u on",
                          c->bus_bits, CHOOSING_BITS);
    const bool engine = kiln_vta_config_has(c, KILN_VTA_ENGINE);
    if (engine && kiln_vta_config_has(c, KILN_VTA_CHAIN) && tree_of(c) < KILN_VTA_CHAIN_MAX - 2)
        return KILN_ERROR(UNIMPLEMENTED,
                          "i%u,pipe%u: vta/rtl has chains and the ALU as an engine from i4 and "
                          "pipe%u on; try -chain",
                          c->block_in, c->pipeline, GEMM_STAGES + KILN_VTA_CHAIN_MAX - 2);
    for (uint32_t i = 0; i < KILN_VTA_ACC_BYTES; i++)
        if (2 * larger(lanes_of(c, (kiln_vta_memory)i), acc_lanes_of(c)) * (engine ? QUARTERS : 1) >
            kiln_vta_tile_count(c, (kiln_vta_memory)i))
            return KILN_ERROR(
                UNIMPLEMENTED,
                "bus%u: vta/rtl has no memories, or quarters of accumulators, of less "
                "than two beats",
                c->bus_bits);
    return KILN_OK;
}

static void print_macro(const char *prefix, const char *name, uint32_t value, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "`define %s%s %u\n", prefix, name, value);
}

static void print_range(const char *prefix, const char *name, uint32_t low, uint32_t bits,
                        kiln_strbuf *out) {
    kiln_strbuf_printf(out, "`define %s", prefix);
    for (const char *c = name; *c; c++) kiln_strbuf_char(out, (char)toupper((unsigned char)*c));
    if (bits == 1)
        kiln_strbuf_printf(out, " %u\n", low);
    else
        kiln_strbuf_printf(out, " %u:%u\n", low + bits - 1, low);
}

/* Positions of fields in instructions of 128 bits. */
static void print_fields(const kiln_vta_sizes *sizes, kiln_strbuf *out) {
    static const uint32_t opcodes[] = {KILN_VTA_FINISH, KILN_VTA_LOAD, KILN_VTA_GEMM, KILN_VTA_ALU};
    kiln_vta_field table[KILN_VTA_FIELDS_MAX];
    bool printed[KILN_VTA_FIELDS_MAX] = {0};
    const uint32_t count = kiln_vta_fields(sizes, table);
    for (uint32_t k = 0; k < KILN_ARRAY_COUNT(opcodes); k++) {
        uint32_t used[2] = {0, 64};
        for (uint32_t i = 0; i < count; i++) {
            const kiln_vta_field *f = &table[i];
            if (!kiln_vta_form_has(kiln_vta_opcode_form(opcodes[k]), f->form)) continue;
            if (!printed[i]) print_range("F_", f->name, used[f->word], f->bits, out);
            printed[i] = true;
            used[f->word] += f->bits;
        }
    }
    const uint32_t src = sizes->acc_bits, wgt = src + sizes->src_bits;
    print_range("U_", "dst", 0, sizes->acc_bits, out);
    print_range("U_", "src", src, sizes->src_bits, out);
    print_range("U_", "wgt", wgt, sizes->wgt_bits, out);
}

static void print_numbers(kiln_strbuf *out) {
    static const named numbers[] = {
#define OPCODE(NAME, number, name, FORM, doc) {"OP_" #NAME, number},
#define ALU_OP(NAME, number, name, FEATURE, doc) {"ALU_" #NAME, number},
#include "vta/isa.def"
        {"MEMORY_UOP", KILN_VTA_UOP},
        {"MEMORY_WGT", KILN_VTA_WGT},
        {"MEMORY_INP", KILN_VTA_INP},
        {"MEMORY_ACC_BYTES", KILN_VTA_ACC_BYTES},
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(numbers); i++)
        kiln_strbuf_printf(out, "`define %s 3'd%u\n", numbers[i].name, numbers[i].value);
}

kiln_status kiln_vta_rtl_params_print(const kiln_vta_config *config, uint32_t lut_columns,
                                      kiln_strbuf *out) {
    const kiln_vta_config *c = config;
    kiln_status st = check(c);
    if (!st && (lut_columns % 2 || lut_columns > c->block_out))
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "%u columns in LUTs; the machine has %u, and two share a multiplier",
                        lut_columns, c->block_out);
    if (st) return st;
    const kiln_vta_sizes s = kiln_vta_sizes_of(c);
    const uint32_t levels = kiln_log2(c->block_in), elements = elements_of(c);
    const bool engine = kiln_vta_config_has(c, KILN_VTA_ENGINE);
    const uint32_t part = smaller(c->alu_lanes, elements), bus_bytes = c->bus_bits / 8;
    const named macros[] = {
        {"BATCH", c->batch},
        {"BLOCK_IN", c->block_in},
        {"BLOCK_OUT", c->block_out},
        {"INP_BITS", c->inp_bits},
        {"WGT_BITS", c->wgt_bits},
        {"SUM_BITS", c->inp_bits + c->wgt_bits + levels + 1},
        {"ELEMENTS", elements},
        {"INP_TILE_BITS", c->batch * c->block_in * c->inp_bits},
        {"WGT_TILE_BITS", c->block_out * c->block_in * c->wgt_bits},
        {"ACC_TILE_BITS", elements * 32},
        {"OUT_TILE_BITS", elements * c->inp_bits},
        {"PART_BITS", part * 32},
        {"PASSES", elements / part},
        {"PASS_LOG", larger(1, kiln_log2(elements / part))},
        {"UOP_LOG", s.uop_bits},
        {"INP_LOG", s.inp_bits},
        {"WGT_LOG", s.wgt_bits},
        {"ACC_LOG", s.acc_bits},
        {"SRC_LOG", s.src_bits},
        {"BUS_BITS", c->bus_bits},
        /* Of a number of rows or columns; of the beats of a row, which begin and end in part of
         * one; of the last beat's number in a tile. */
        {"SIZE_BITS", smaller(17, larger(8, kiln_log2(most_of(s.tile_count)) + 1))},
        {"ROW_BEATS_BITS", kiln_log2(most_bytes_of(&s) / bus_bytes) + 1},
        {"PART_OF_BITS", larger(1, kiln_log2(larger(1, most_of(s.tile_bytes) / bus_bytes)))},
        {"ACC_LANES", acc_lanes_of(c)},
        {"OUT_LANES", larger(lanes_of(c, KILN_VTA_OUT), acc_lanes_of(c))},
        {"PIPELINE", c->pipeline},
        {"TREE", tree_of(c)},
        {"ALU_CYCLES", c->alu_cycles},
        {"CHANNELS", c->channels},
        {"REQUESTS", c->requests},
        {"READ_BEATS", read_beats_of(c)},
        {"COMMANDS", c->commands},
        /* Parts in which fetch issues an instruction. */
        {"HANDED_PARTS", c->commands ? 1 : larger(1, 128 / c->bus_bits)},
        {"TOKENS", c->tokens},
        {"FIRST", kiln_vta_config_has(c, KILN_VTA_FIRST)},
        {"ENGINE", engine},
        {"QUARTERS", engine ? QUARTERS : 1},
        {"ACC_TWICE", engine || c->alu_cycles == 1},
        {"CHAIN", kiln_vta_config_has(c, KILN_VTA_CHAIN)},
        {"BYTES", kiln_vta_config_has(c, KILN_VTA_BYTES)},
        {"MUL", kiln_vta_config_has(c, KILN_VTA_MUL)},
    };
    kiln_strbuf_text(out, "// ");
    kiln_vta_config_print(c, out);
    kiln_strbuf_text(out, "\n`ifndef VTA_PARAMS\n`define VTA_PARAMS\n");
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(macros); i++)
        print_macro("VTA_", macros[i].name, macros[i].value, out);
    static const named logs[] = {{"INP_BYTES_LOG", KILN_VTA_INP},
                                 {"WGT_BYTES_LOG", KILN_VTA_WGT},
                                 {"ACC_BYTES_LOG", KILN_VTA_ACC},
                                 {"OUT_BYTES_LOG", KILN_VTA_OUT},
                                 {"ACC8_BYTES_LOG", KILN_VTA_ACC_BYTES}};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(logs); i++)
        kiln_strbuf_printf(out, "`define VTA_%s 5'd%u\n", logs[i].name,
                           kiln_log2(s.tile_bytes[logs[i].value]));
    kiln_strbuf_printf(out, "`define VTA_BUS_LOG %u\n", kiln_log2(c->bus_bits / 8));
    kiln_strbuf_text(
        out,
        "// Tiles of some bits that a beat holds, at least 1.\n"
        "`define VTA_LANES(bits) ((bits) < `VTA_BUS_BITS ? `VTA_BUS_BITS / "
        "(bits) : 1)\n"
        "// Two products share a multiplier (vta_dot.v).\n"
        "`ifndef VTA_SHARE_MULTIPLIERS\n"
        "`define VTA_SHARE_MULTIPLIERS 1\n"
        "`endif\n"
        "// Products in LUTs are sums that are chosen, not sums of what was chosen (vta_dot.v).\n"
        "`ifndef VTA_CHOOSE_SUMS\n"
        "`define VTA_CHOOSE_SUMS 0\n"
        "`endif\n"
        "// Of an address of main memory, for machines that have little of it.\n"
        "`ifndef VTA_ADDRESS_BITS\n"
        "`define VTA_ADDRESS_BITS 32\n"
        "`endif\n"
        "// Of a number of instructions.\n"
        "`define VTA_COUNT_BITS (`VTA_ADDRESS_BITS - 4)\n"
        "// Columns of weights that are multiplied in LUTs (vta_gemm.v).\n"
        "`ifndef VTA_LUT_COLUMNS\n");
    print_macro("VTA_", "LUT_COLUMNS", lut_columns, out);
    kiln_strbuf_text(out, "`endif\n");
    print_numbers(out);
    print_fields(&s, out);
    kiln_strbuf_text(out, "`endif\n");
    return KILN_OK;
}
