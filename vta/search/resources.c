#include "vta/search/resources.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "vta/isa.h"

/* Memories and their mapping are those of vta/rtl; params.c has the numbers that both take. */
#define QUARTERS 4u
#define READ_BEATS_LEAST 512u /* of an engine's queue of beats, vta_reader.v */
/* Of LUTs and flip-flops, because the model's error is up to a tenth. */
#define FIT_SHARE 0.9
#define READERS 2u /* load and compute; fetch has its queue in LUTs */

static const kiln_vta_device device_table[] = {
#define X(name, lut, ff, bram18, dsp, doc) {name, doc, {lut, ff, bram18, dsp}},
#include "vta/search/devices.def"
#undef X
};

const kiln_vta_device *kiln_vta_device_find(const char *name) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(device_table); i++)
        if (!strcmp(device_table[i].name, name)) return &device_table[i];
    return NULL;
}

static bool has(const kiln_vta_config *c, kiln_vta_feature feature) {
    return kiln_vta_config_has(c, feature);
}
static uint32_t lanes_of(const kiln_vta_config *c, kiln_vta_memory memory) {
    return KILN_MAX(1u, c->bus_bits / 8 / kiln_vta_tile_bytes(c, memory));
}
static uint32_t acc_lanes(const kiln_vta_config *c) {
    return KILN_MAX(lanes_of(c, KILN_VTA_ACC),
                    has(c, KILN_VTA_BYTES) ? lanes_of(c, KILN_VTA_ACC_BYTES) : 1);
}
static uint32_t acc_bits(const kiln_vta_config *c) { return c->batch * c->block_out * 32; }
static uint32_t tile_bits(const kiln_vta_config *c) {
    return c->batch * c->block_in * c->inp_bits + c->block_out * c->block_in * c->wgt_bits +
           acc_bits(c) * acc_lanes(c);
}
static uint32_t bank_bits(const kiln_vta_config *c) {
    const uint32_t lanes = lanes_of(c, KILN_VTA_INP) + lanes_of(c, KILN_VTA_WGT) +
                           lanes_of(c, KILN_VTA_UOP) + acc_lanes(c) +
                           KILN_MAX(lanes_of(c, KILN_VTA_OUT), acc_lanes(c));
    return (lanes - 5) * c->bus_bits;
}
static uint32_t lanes_alu(const kiln_vta_config *c) {
    return KILN_MIN(c->alu_lanes, c->batch * c->block_out);
}
static uint32_t operations(const kiln_vta_config *c) {
    return lanes_alu(c) * (has(c, KILN_VTA_CHAIN) ? 4 : 1);
}
static uint32_t multiplications(const kiln_vta_config *c) {
    return has(c, KILN_VTA_MUL) ? operations(c) : 0;
}

/* ---- memories ---- */

typedef struct memory_use {
    uint32_t bram18, luts;
} memory_use;

static uint32_t parts(uint32_t whole, uint32_t part) { return (whole + part - 1) / part; }

/* Halves of a RAMB36: 36 bits wide and 512 deep, or half as wide and twice as deep, down to 9 bits;
 * from 4 bits on without the ninth. Deeper memories need several. */
static uint32_t bram18_of(uint32_t width, uint32_t depth) {
    if (depth <= 512) return parts(width, 36);
    if (depth <= 1024) return parts(width, 18);
    if (depth <= 2048) return parts(width, 9);
    const uint32_t nines = 2 * parts(depth, 4096) * parts(width, 9);
    const uint32_t fours = depth <= 16384 ? parts(width, 16384 / depth) : nines;
    return KILN_MIN(nines, fours);
}

/* Adds `count` memories. Yosys takes the cheaper kind by its costs: a RAM64M is 3 bits of 64, a
 * RAM32M 6 of 32, each of 4 LUTs at a cost of 8; half a RAMB36 costs 129 alone and 128.5 in a
 * pair. */
static void add(memory_use *use, uint32_t count, uint32_t width, uint32_t depth) {
    const uint32_t bram18 = bram18_of(width, depth);
    const uint32_t ram = depth <= 32 ? parts(width, 6) : parts(width, 3) * parts(depth, 64);
    if (8 * ram <= 128 * bram18)
        use->luts += count * 4 * ram;
    else
        use->bram18 += count * bram18;
}

static memory_use memories_of(const kiln_vta_config *c) {
    const bool engine = has(c, KILN_VTA_ENGINE);
    const bool twice = engine || c->alu_cycles == 1;
    const kiln_vta_sizes s = kiln_vta_sizes_of(c);
    const uint32_t inp = lanes_of(c, KILN_VTA_INP), wgt = lanes_of(c, KILN_VTA_WGT),
                   uop = lanes_of(c, KILN_VTA_UOP), acc = acc_lanes(c),
                   out = KILN_MAX(lanes_of(c, KILN_VTA_OUT), acc);
    const uint32_t quarters = engine ? QUARTERS : 1;
    const uint32_t lanes = lanes_alu(c), passes = c->batch * c->block_out / lanes;
    const uint32_t kept = c->inp_bits + (has(c, KILN_VTA_CHAIN) ? 2 : 0);
    const uint32_t acc_tiles = s.tile_count[KILN_VTA_ACC] / quarters;
    memory_use use = {0};
    add(&use, inp, c->batch * c->block_in * c->inp_bits, s.tile_count[KILN_VTA_INP] / inp);
    add(&use, wgt, c->block_out * c->block_in * c->wgt_bits, s.tile_count[KILN_VTA_WGT] / wgt);
    add(&use, uop * (engine ? 2 : 1), 32, s.tile_count[KILN_VTA_UOP] / uop);
    add(&use, quarters * passes * acc * (twice ? 2 : 1), lanes * 32, acc_tiles / acc);
    add(&use, quarters * passes * out, lanes * kept, acc_tiles / out);
    uint32_t beats = READ_BEATS_LEAST;
    while (beats < c->latency + READ_BEATS_LEAST / 2) beats *= 2;
    const uint32_t on_their_way = c->requests * (READ_BEATS_LEAST / 2);
    add(&use, READERS, c->bus_bits + 1, beats < on_their_way ? beats : on_their_way);
    return use;
}

uint32_t kiln_vta_memory_luts(const kiln_vta_config *config) { return memories_of(config).luts; }

/* ---- all of it ---- */

static uint32_t dsp_of(const kiln_vta_config *c, uint32_t lut_columns) {
    const uint32_t columns = c->block_out - lut_columns;
    const uint32_t shared = c->block_out > 1 ? columns / 2 : columns; /* two share a multiplier */
    return c->batch * c->block_in * shared + 3 * multiplications(c);
}

uint32_t kiln_vta_resource_amounts(const kiln_vta_config *config, uint32_t lut_columns,
                                   const char *const **out_name, double *out_amount) {
    static const char *const name_table[] = {
#define X(name, amount, lut, ff, doc) #name,
#include "vta/search/resources.def"
#undef X
    };
    const kiln_vta_config *c = config;
    uint32_t count = 0;
#define X(name, amount, lut, ff, doc) out_amount[count++] = (double)(amount);
#include "vta/search/resources.def"
#undef X
    *out_name = name_table;
    return count;
}

kiln_vta_resources kiln_vta_resources_of(const kiln_vta_config *config, uint32_t lut_columns) {
    static const struct {
        double lut, ff;
    } each_table[] = {
#define X(name, amount, lut, ff, doc) {lut, ff},
#include "vta/search/resources.def"
#undef X
    };
    double amount[KILN_VTA_RESOURCE_AMOUNTS_MAX];
    const char *const *names;
    const uint32_t count = kiln_vta_resource_amounts(config, lut_columns, &names, amount);
    const memory_use memory = memories_of(config);
    kiln_vta_resources r = {
        .lut = memory.luts, .bram18 = memory.bram18, .dsp = dsp_of(config, lut_columns)};
    for (uint32_t i = 0; i < count; i++) {
        r.lut += amount[i] * each_table[i].lut;
        r.ff += amount[i] * each_table[i].ff;
    }
    return r;
}

bool kiln_vta_resources_fit(const kiln_vta_resources *wanted, const kiln_vta_device *device) {
    const kiln_vta_resources *most = &device->has;
    return wanted->lut <= FIT_SHARE * most->lut && wanted->ff <= FIT_SHARE * most->ff &&
           wanted->bram18 <= most->bram18 && wanted->dsp <= most->dsp;
}

bool kiln_vta_lut_columns(const kiln_vta_config *config, const kiln_vta_device *device,
                          uint32_t *out_columns) {
    for (uint32_t columns = 0; columns <= config->block_out; columns += 2)
        if (dsp_of(config, columns) <= device->has.dsp) {
            *out_columns = columns;
            return true;
        }
    return false;
}

double kiln_vta_clock_guess(const kiln_vta_config *config) {
    const double fixed_ns = 7.0, level_ns = 1.5; /* the ALU's shift; an adder and its wires */
    const uint32_t levels = kiln_log2(config->block_in), registered = config->pipeline - 5;
    return 1e3 / (fixed_ns + level_ns * (levels > registered ? levels - registered : 0));
}
