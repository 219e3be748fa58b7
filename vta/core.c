#include "vta/core.h"

#include <string.h>

#include "base/check.h"

typedef struct running {
    kiln_vta_core *core;
    const kiln_vta_instruction *in;
    uint32_t count; /* of a chain */
    uint32_t index;
    kiln_vta_fault *out_fault;
} running;

#define FAULT(kind, ...) \
    kiln_vta_fault_set(r->out_fault, KILN_VTA_FAULT_##kind, r->index, __VA_ARGS__)

void kiln_vta_core_init(kiln_vta_core *core, const kiln_vta_config *config, uint8_t *dram,
                        uint64_t dram_bytes, kiln_arena *arena) {
    const kiln_vta_sizes s = kiln_vta_sizes_of(config);
    *core = (kiln_vta_core){.config = *config, .sizes = s, .dram = dram, .dram_bytes = dram_bytes};
    const uint32_t *count = s.tile_count;
    core->inp_elements = config->batch * config->block_in;
    core->wgt_elements = config->block_out * config->block_in;
    core->acc_elements = config->batch * config->block_out;
    core->uop = KILN_ARENA_ARRAY(arena, uint32_t, count[KILN_VTA_UOP]);
    core->decoded = KILN_ARENA_ARRAY(arena, kiln_vta_uop, count[KILN_VTA_UOP]);
    core->inp = KILN_ARENA_ARRAY(arena, int16_t, (size_t)count[KILN_VTA_INP] * core->inp_elements);
    core->wgt = KILN_ARENA_ARRAY(arena, int16_t, (size_t)count[KILN_VTA_WGT] * core->wgt_elements);
    core->acc = KILN_ARENA_ARRAY(arena, int32_t, (size_t)count[KILN_VTA_ACC] * core->acc_elements);
    core->overwritten = KILN_ARENA_ARRAY(arena, bool, count[KILN_VTA_ACC]);
    for (uint32_t i = KILN_VTA_UOP; i <= KILN_VTA_ACC; i++)
        core->written[i] = KILN_ARENA_ARRAY(arena, bool, count[i]);
}

/* ---- between main memory and the machine ----------------------------------------------------- */

/* Unpacks signed elements of `bits`, packed from the lowest bits of a byte on. */
static void unpack(const uint8_t *bytes, uint32_t bits, uint32_t count, int16_t *out) {
    if (bits == 8) {
        for (uint32_t i = 0; i < count; i++) out[i] = (int8_t)bytes[i];
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t value = bytes[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1);
        out[i] = (int16_t)((int32_t)value - (value >> (bits - 1) ? 1 << bits : 0));
    }
}

static void load_tile(kiln_vta_core *core, uint32_t memory, uint32_t tile, const uint8_t *bytes) {
    const kiln_vta_config *c = &core->config;
    const uint32_t inp = core->inp_elements, wgt = core->wgt_elements, acc = core->acc_elements;
    int32_t *to = core->acc + (size_t)tile * acc;
    switch (memory) {
    case KILN_VTA_UOP:
        core->uop[tile] = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                          (uint32_t)bytes[3] << 24;
        break;
    case KILN_VTA_INP: unpack(bytes, c->inp_bits, inp, core->inp + (size_t)tile * inp); break;
    case KILN_VTA_WGT: unpack(bytes, c->wgt_bits, wgt, core->wgt + (size_t)tile * wgt); break;
    case KILN_VTA_ACC:
        for (uint32_t i = 0; i < acc; i++, bytes += 4)
            to[i] = (int32_t)((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
                              (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);
        break;
    case KILN_VTA_ACC_BYTES:
        for (uint32_t i = 0; i < acc; i++) to[i] = (int8_t)bytes[i];
        break;
    }
}

static void clear_tile(kiln_vta_core *core, uint32_t memory, uint32_t tile) {
    switch (memory) {
    case KILN_VTA_UOP: core->uop[tile] = 0; break;
    case KILN_VTA_INP:
        memset(core->inp + (size_t)tile * core->inp_elements, 0, 2 * core->inp_elements);
        break;
    case KILN_VTA_WGT:
        memset(core->wgt + (size_t)tile * core->wgt_elements, 0, 2 * core->wgt_elements);
        break;
    default:
        memset(core->acc + (size_t)tile * core->acc_elements, 0, 4 * core->acc_elements);
        break;
    }
}

/* An accumulator as an output: its lowest bits, or the nearest number of so many bits. */
static int32_t narrowed(int32_t value, uint32_t bits, bool saturate) {
    const int32_t most = (1 << (bits - 1)) - 1;
    if (!saturate) return value;
    return value > most ? most : value < -most - 1 ? -most - 1 : value;
}

static void store_tile(const kiln_vta_core *core, uint32_t tile, bool saturate, uint8_t *bytes) {
    const uint32_t bits = core->config.inp_bits;
    const int32_t *from = core->acc + (size_t)tile * core->acc_elements;
    memset(bytes, 0, core->sizes.tile_bytes[KILN_VTA_OUT]);
    for (uint32_t i = 0; i < core->acc_elements; i++) {
        const uint32_t value = (uint32_t)narrowed(from[i], bits, saturate) & ((1u << bits) - 1);
        bytes[i * bits / 8] |= (uint8_t)(value << i * bits % 8);
    }
}

/* The memory whose flags say whether a tile was written: outputs are accumulators. */
static uint32_t flags_of(uint32_t memory) {
    return memory == KILN_VTA_OUT || memory == KILN_VTA_ACC_BYTES ? KILN_VTA_ACC : memory;
}

static bool move_row(const running *r, uint32_t tile, uint32_t y) {
    const kiln_vta_instruction *in = r->in;
    kiln_vta_core *core = r->core;
    const uint64_t bytes = core->sizes.tile_bytes[in->memory];
    uint64_t from = ((uint64_t)in->dram_base + (uint64_t)y * in->x_stride) * bytes;
    if (from + in->x_size * bytes > core->dram_bytes)
        return FAULT(DRAM_RANGE, "bytes %llu to %llu of %llu", (unsigned long long)from,
                     (unsigned long long)(from + in->x_size * bytes),
                     (unsigned long long)core->dram_bytes);
    bool *written = core->written[flags_of(in->memory)];
    for (uint32_t x = 0; x < in->x_size; x++, tile++, from += bytes) {
        if (in->opcode == KILN_VTA_STORE) {
            if (!written[tile]) return FAULT(UNINITIALISED, "tile %u of acc, to store", tile);
            store_tile(core, tile, in->saturate, core->dram + from);
        } else {
            load_tile(core, in->memory, tile, core->dram + from);
            written[tile] = true;
        }
    }
    return true;
}

static bool run_memory(const running *r) {
    const kiln_vta_instruction *in = r->in;
    const uint32_t columns = in->x_pad_0 + in->x_size + in->x_pad_1;
    if (in->x_size == 0) return true;
    const uint32_t rows = in->y_pad_0 + in->y_size + in->y_pad_1;
    uint32_t tile = in->sram_base;
    for (uint32_t row = 0; row < rows; row++, tile += columns) {
        const bool inside = row >= in->y_pad_0 && row < in->y_pad_0 + in->y_size;
        for (uint32_t column = 0; column < columns; column++) {
            if (inside && column >= in->x_pad_0 && column < in->x_pad_0 + in->x_size) continue;
            clear_tile(r->core, in->memory, tile + column);
            r->core->written[flags_of(in->memory)][tile + column] = true;
        }
        if (inside && !move_row(r, tile + in->x_pad_0, row - in->y_pad_0)) return false;
    }
    return true;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static inline int32_t dot(const int16_t *a, const int16_t *b, uint32_t count) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

static inline void gemm(int32_t *acc, const int16_t *inp, const int16_t *wgt, uint32_t batch,
                        uint32_t block_out, uint32_t block_in, bool overwrite) {
    for (uint32_t b = 0; b < batch; b++)
        for (uint32_t o = 0; o < block_out; o++) {
            int32_t *to = acc + b * block_out + o;
            const uint32_t sum = (uint32_t)dot(inp + b * block_in, wgt + o * block_in, block_in);
            *to = (int32_t)(overwrite ? sum : (uint32_t)*to + sum);
        }
}

static void gemm_tile(kiln_vta_core *core, const kiln_vta_uop *at, bool overwrite) {
    const kiln_vta_config *c = &core->config;
    int32_t *acc = core->acc + (size_t)at->dst * core->acc_elements;
    const int16_t *inp = core->inp + (size_t)at->src * core->inp_elements;
    const int16_t *wgt = core->wgt + (size_t)at->wgt * core->wgt_elements;
    if (c->batch == 1 && c->block_in == 16 && c->block_out == 16) /* constant sizes, so that the
                                                                   * compiler can vectorise */
        gemm(acc, inp, wgt, 1, 16, 16, overwrite);
    else
        gemm(acc, inp, wgt, c->batch, c->block_out, c->block_in, overwrite);
}

static bool shift_is_legal(int32_t by) { return by >= -31 && by <= 31; }

static int32_t alu(uint32_t op, int32_t a, int32_t b) {
    switch ((kiln_vta_alu_op)op) {
    case KILN_VTA_ALU_MIN: return a < b ? a : b;
    case KILN_VTA_ALU_MAX: return a > b ? a : b;
    case KILN_VTA_ALU_ADD: return (int32_t)((uint32_t)a + (uint32_t)b);
    case KILN_VTA_ALU_SHR: return b >= 0 ? a >> b : (int32_t)((uint32_t)a << -b);
    case KILN_VTA_ALU_MUL: return (int32_t)((uint32_t)a * (uint32_t)b);
    case KILN_VTA_ALU_OP_COUNT: break;
    }
    return a;
}

static bool alu_tile(const running *r, const kiln_vta_uop *at) {
    kiln_vta_core *core = r->core;
    const uint32_t count = core->acc_elements;
    int32_t *dst = core->acc + (size_t)at->dst * count;
    const int32_t *src = core->acc + (size_t)at->src * count;
    for (uint32_t k = 0; k < r->count; k++) {
        const kiln_vta_instruction *in = &r->in[k];
        for (uint32_t i = 0; i < count; i++) {
            const int32_t b = in->use_imm ? in->imm : src[i];
            if (in->op == KILN_VTA_ALU_SHR && !shift_is_legal(b))
                return FAULT(SHIFT, "%d in tile %u", b, at->src);
            dst[i] = alu(in->op, dst[i], b);
        }
    }
    return true;
}

/* Whether an operation of the chain reads its second operand from accumulators. */
static bool reads_source(const running *r) {
    for (uint32_t k = 0; k < r->count; k++)
        if (!r->in[k].use_imm) return true;
    return false;
}

static inline bool check_tile(const running *r, uint32_t memory, uint32_t tile, bool is_read) {
    if (tile >= r->core->sizes.tile_count[memory])
        return FAULT(INDEX, "tile %u of %s, which has %u", tile, kiln_vta_memory_name(memory),
                     r->core->sizes.tile_count[memory]);
    if (is_read && !r->core->written[memory][tile])
        return FAULT(UNINITIALISED, "tile %u of %s", tile, kiln_vta_memory_name(memory));
    return true;
}

static inline bool run_tile(const running *r, const kiln_vta_uop *at, bool overwrite) {
    const kiln_vta_instruction *in = r->in;
    kiln_vta_core *core = r->core;
    if (!check_tile(r, KILN_VTA_ACC, at->dst, !overwrite)) return false;
    if (in->opcode == KILN_VTA_ALU)
        return (!reads_source(r) || check_tile(r, KILN_VTA_ACC, at->src, true)) && alu_tile(r, at);
    if (in->reset) {
        clear_tile(core, KILN_VTA_ACC, at->dst);
    } else {
        if (!check_tile(r, KILN_VTA_INP, at->src, true)) return false;
        if (!check_tile(r, KILN_VTA_WGT, at->wgt, true)) return false;
        if (in->first && overwrite && core->overwritten[at->dst])
            return FAULT(FIRST_TWICE, "tile %u", at->dst);
        if (overwrite) core->overwritten[at->dst] = true;
        gemm_tile(core, at, overwrite);
        core->multiply_adds += (uint64_t)core->wgt_elements * core->config.batch;
    }
    core->written[KILN_VTA_ACC][at->dst] = true;
    return true;
}

/* The micro-ops that the loops use in each round. */
static bool decode_uops(const running *r) {
    kiln_vta_core *core = r->core;
    for (uint32_t k = r->in->uop_bgn; k < r->in->uop_end; k++)
        if (!check_tile(r, KILN_VTA_UOP, k, true) ||
            !kiln_vta_uop_decode(&core->sizes, core->uop[k], k, &core->decoded[k], r->out_fault))
            return false;
    return true;
}

static bool run_loops(const running *r) {
    const kiln_vta_instruction *in = r->in;
    kiln_vta_core *core = r->core;
    if (!decode_uops(r)) return false;
    if (in->first) memset(core->overwritten, 0, core->sizes.tile_count[KILN_VTA_ACC]);
    for (uint32_t i = 0; i < in->iter_out; i++)
        for (uint32_t j = 0; j < in->iter_in; j++) {
            const bool first = in->first && (in->dst_out || i == 0) && (in->dst_in || j == 0);
            for (uint32_t k = in->uop_bgn; k < in->uop_end; k++) {
                kiln_vta_uop at = core->decoded[k];
                at.dst += i * in->dst_out + j * in->dst_in;
                at.src += i * in->src_out + j * in->src_in;
                at.wgt += i * in->wgt_out + j * in->wgt_in;
                if (!run_tile(r, &at, in->reset || first)) return false;
            }
        }
    return true;
}

bool kiln_vta_core_run(kiln_vta_core *core, const kiln_vta_instruction *in, uint32_t count,
                       uint32_t index, kiln_vta_fault *out_fault) {
    const running r = {core, in, count, index, out_fault};
    switch ((kiln_vta_opcode)in->opcode) {
    case KILN_VTA_LOAD:
    case KILN_VTA_STORE: return run_memory(&r);
    case KILN_VTA_GEMM:
    case KILN_VTA_ALU: return run_loops(&r);
    case KILN_VTA_FINISH:
    case KILN_VTA_OPCODE_COUNT: break;
    }
    return true;
}
