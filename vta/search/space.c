#include "vta/search/space.h"

#include <math.h>
#include <stdlib.h>

#include "vta/rtl/params.h"

#define FEATURE(NAME) (1u << KILN_VTA_##NAME)

/* Values for configurations; memories are bytes as powers of two. Never MUL: no layer here needs
 * it, and it needs as many multipliers as GEMM. */
static const uint32_t batch_table[] = {1, 2, 4}, block_table[] = {8, 16, 32, 64},
                      alu_table[] = {4, 8, 16, 32}, alu_cycles_table[] = {1, 2},
                      pipeline_table[] = {11, 13, 16, 20},
                      clock_table[] = {100, 125, 142, 166, 200, 250, 333},
                      channel_table[] = {1, 2, 4}, bus_table[] = {64, 128},
                      feature_table[] = {0, FEATURE(FIRST), FEATURE(FIRST) | FEATURE(CHAIN),
                                         FEATURE(FIRST) | FEATURE(ENGINE),
                                         FEATURE(FIRST) | FEATURE(CHAIN) | FEATURE(ENGINE)},
                      uop_table[] = {11, 13, 15}, inp_table[] = {13, 14, 15, 16, 17},
                      wgt_table[] = {15, 16, 17, 18, 19}, acc_table[] = {14, 15, 16, 17, 18};
/* Multiply-adds a cycle: fewer are never best on a chip of this size. */
#define PEAK_LEAST 64u
#define PEAK_MOST 1024u
#define SPLITS                                                                                 \
    (KILN_ARRAY_COUNT(uop_table) * KILN_ARRAY_COUNT(inp_table) * KILN_ARRAY_COUNT(wgt_table) * \
     KILN_ARRAY_COUNT(acc_table))
/* Chooses an entry by one digit of `number`, and leaves the other digits. */
#define CHOOSE(number, table) choose(number, table, KILN_ARRAY_COUNT(table))

static uint32_t choose(uint64_t *number, const uint32_t *table, uint32_t count) {
    const uint32_t value = table[*number % count];
    *number /= count;
    return value;
}

/* ---- bounds ---- */

/* Beats to load inputs and weights where the memories force reloads: parts of the weights stay and
 * inputs are reloaded, or the reverse, or both are reloaded for parts of results. */
static double load_beats(const kiln_vta_config *config, const kiln_vta_conv *conv) {
    const kiln_vta_sizes s = kiln_vta_sizes_of(config);
    const double beat = config->bus_bits / 8.0, taps = (double)conv->kernel * conv->kernel;
    const double positions = (double)kiln_vta_conv_out_height(conv) * kiln_vta_conv_out_width(conv);
    const double inp_tiles =
        ceil((double)conv->height / kiln_vta_conv_row_step(conv)) * conv->width * conv->in;
    const double inp = fmax(inp_tiles * s.tile_bytes[KILN_VTA_INP] / beat, inp_tiles);
    const double wgt = taps * conv->in * conv->out * s.tile_bytes[KILN_VTA_WGT] / beat;
    const double outs = floor(s.tile_count[KILN_VTA_WGT] / (taps * conv->in));
    double least = outs >= 1 ? inp * ceil(conv->out / outs) + wgt : INFINITY;
    least = fmin(least, inp + wgt * ceil(inp_tiles / s.tile_count[KILN_VTA_INP]));
    for (uint32_t out = 1; out <= conv->out; out++) {
        const double part = floor(s.tile_count[KILN_VTA_ACC] / 2.0 / out);
        if (part >= 1)
            least = fmin(least, inp * ceil((double)conv->out / out) + wgt * ceil(positions / part));
    }
    return least;
}

/* The bound of one layer, for as many images as the machine runs at once. */
static double layer_bound(const kiln_vta_config *config, const kiln_vta_conv *conv) {
    const kiln_vta_bound b = kiln_vta_conv_bound(config, conv);
    const double written =
        ceil((double)kiln_vta_conv_out_height(conv) * kiln_vta_conv_out_width(conv) * conv->out *
             kiln_vta_tile_bytes(config, KILN_VTA_OUT) / (config->bus_bits / 8.0));
    const double read = load_beats(config, conv);
    const double memory = config->channels > 2 ? fmax(read, written) : read + written;
    return fmax(b.all, memory);
}

static double runs_of(const kiln_vta_wanted *wanted, const kiln_vta_config *config) {
    return ceil((double)wanted->batch / config->batch);
}

double kiln_vta_machine_bound(const kiln_vta_wanted *wanted, const kiln_vta_config *config) {
    double cycles = 0;
    for (uint32_t i = 0; i < wanted->layer_count; i++) {
        const kiln_vta_conv conv = kiln_vta_layer_tiled(&wanted->layer[i], config);
        cycles += wanted->layer[i].count * layer_bound(config, &conv);
    }
    return runs_of(wanted, config) * cycles / config->clock_mhz / 1e3;
}

/* ---- the space ---- */

static bool covers(const kiln_vta_config *a, const kiln_vta_config *b) {
    return a->uop_log >= b->uop_log && a->inp_log >= b->inp_log && a->wgt_log >= b->wgt_log &&
           a->acc_log >= b->acc_log;
}

/* Adds a machine to those from `begin` on, which differ from it only in their memories, unless one
 * of them covers it. */
static void add_machine(kiln_vta_machines *machines, uint32_t begin,
                        const kiln_vta_machine *machine) {
    uint32_t kept = begin;
    for (uint32_t i = begin; i < machines->count; i++)
        if (covers(&machines->data[i].config, &machine->config)) return;
    for (uint32_t i = begin; i < machines->count; i++)
        if (!covers(&machine->config, &machines->data[i].config))
            machines->data[kept++] = machines->data[i];
    machines->count = kept;
    kiln_vec_push(machines, *machine);
}

/* Whether the instructions have enough bits, and vta/rtl can build the machine. */
static bool is_legal(const kiln_vta_machine *machine) {
    kiln_strbuf text = {0}, params = {0};
    kiln_vta_config same;
    kiln_vta_config_print(&machine->config, &text);
    kiln_status st = kiln_vta_config_parse(kiln_strbuf_view(&text), &same);
    if (!st) st = kiln_vta_rtl_params_print(&machine->config, machine->lut_columns, &params);
    kiln_strbuf_deinit(&params);
    kiln_strbuf_deinit(&text);
    const bool legal = !st;
    kiln_status_free(st);
    return legal;
}

/* All splits of the block RAM. */
static void add_splits(const kiln_vta_wanted *wanted, kiln_vta_machine machine,
                       kiln_vta_machines *machines) {
    const uint32_t begin = machines->count;
    for (uint64_t split = 0; split < SPLITS; split++) {
        uint64_t number = split;
        machine.config.uop_log = CHOOSE(&number, uop_table);
        machine.config.inp_log = CHOOSE(&number, inp_table);
        machine.config.wgt_log = CHOOSE(&number, wgt_table);
        machine.config.acc_log = CHOOSE(&number, acc_table);
        machine.resources = kiln_vta_resources_of(&machine.config, machine.lut_columns);
        if (kiln_vta_resources_fit(&machine.resources, wanted->device) && is_legal(&machine))
            add_machine(machines, begin, &machine);
    }
    for (uint32_t i = begin; i < machines->count; i++)
        machines->data[i].bound_ms = kiln_vta_machine_bound(wanted, &machines->data[i].config);
}

static int by_bound(const void *a, const void *b) {
    const kiln_vta_machine *x = a, *y = b;
    return (x->bound_ms > y->bound_ms) - (x->bound_ms < y->bound_ms);
}

/* Bytes get into accumulators as products with an identity if tiles are square, else by their
 * feature. Chooses the shortest pipeline that reaches the clock; false: none, or the choices
 * conflict. */
static bool choose_rest(const kiln_vta_wanted *wanted, kiln_vta_machine *m) {
    kiln_vta_config *c = &m->config;
    if (wanted->adds_bytes && c->block_in != c->block_out) c->features |= FEATURE(BYTES);
    const uint32_t peak = c->batch * c->block_in * c->block_out;
    if (peak < PEAK_LEAST || peak > PEAK_MOST || c->alu_lanes > c->batch * c->block_out ||
        c->batch > wanted->batch || c->channels > wanted->channels ||
        c->bus_bits > wanted->channel_bits || c->clock_mhz > wanted->clock_mhz ||
        !kiln_vta_lut_columns(c, wanted->device, &m->lut_columns))
        return false;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(pipeline_table); i++) {
        m->config.pipeline = pipeline_table[i];
        if (kiln_vta_clock_guess(&m->config) >= m->config.clock_mhz) return true;
    }
    return false;
}

uint64_t kiln_vta_space_enumerate(const kiln_vta_wanted *wanted, kiln_vta_machines *machines) {
    uint64_t looked_at = 0;
    for (uint64_t choice = 0;; choice++) {
        uint64_t number = choice;
        kiln_vta_machine m = {0};
        kiln_vta_config *c = &m.config;
        if (kiln_vta_config_parse(KILN_STR("pynq"), c)) return 0; /* presets are valid */
        c->batch = CHOOSE(&number, batch_table);
        c->block_in = CHOOSE(&number, block_table);
        c->block_out = CHOOSE(&number, block_table);
        c->alu_lanes = CHOOSE(&number, alu_table);
        c->alu_cycles = CHOOSE(&number, alu_cycles_table);
        c->clock_mhz = CHOOSE(&number, clock_table);
        c->channels = CHOOSE(&number, channel_table);
        c->bus_bits = CHOOSE(&number, bus_table);
        c->features = CHOOSE(&number, feature_table);
        if (number) break;
        if (!choose_rest(wanted, &m)) continue;
        add_splits(wanted, m, machines);
        looked_at += SPLITS;
    }
    if (machines->count) qsort(machines->data, machines->count, sizeof *machines->data, by_bound);
    return looked_at;
}

/* ---- by the cycle ---- */

/* Dynamic energy of an operation in pJ: 8-bit multiply and 32-bit add, and a byte of main memory
 * (Horowitz, ISSCC 2014, 45 nm, DRAM at the middle of its range). For comparing machines, not for
 * boards: FPGAs take several times as much, and leakage is left out. */
#define MULTIPLY_ADD_PJ 0.3
#define BYTE_PJ 250.0

static uint64_t bytes_of(const kiln_vta_timing *timing) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++) bytes += timing->counts.bytes[i];
    return bytes;
}

static kiln_status best_cut(const kiln_vta_config *config, const kiln_vta_layer *layer,
                            uint32_t simulate_count, kiln_vta_cut_time *out_best) {
    const kiln_vta_conv conv = kiln_vta_layer_tiled(layer, config);
    kiln_status st = kiln_vta_cut_search(config, &conv, 2, simulate_count, out_best);
    if (!st) return KILN_OK;
    kiln_status_free(st);
    return kiln_vta_cut_search(config, &conv, 1, simulate_count, out_best);
}

kiln_status kiln_vta_machine_evaluate(const kiln_vta_wanted *wanted, uint32_t simulate_count,
                                      kiln_vta_machine *machine) {
    double cycles = 0, bytes = 0, multiply_adds = 0, useful = 0;
    const kiln_vta_config *config = &machine->config;
    for (uint32_t i = 0; i < wanted->layer_count; i++) {
        const kiln_vta_layer *layer = &wanted->layer[i];
        kiln_vta_cut_time best;
        kiln_status st = best_cut(config, layer, simulate_count, &best);
        if (st) return kiln_status_note(st, "%s", layer->name);
        cycles += layer->count * (double)best.timing.cycles;
        bytes += layer->count * ((double)bytes_of(&best.timing) + (double)best.stream_bytes);
        multiply_adds += layer->count * (double)best.timing.counts.multiply_adds;
        useful += layer->count * (double)kiln_vta_layer_multiply_adds(layer);
    }
    const double runs = runs_of(wanted, config);
    machine->ms = runs * cycles / config->clock_mhz / 1e3;
    machine->gops = 2 * wanted->batch * useful / machine->ms / 1e6;
    machine->mj = runs * (multiply_adds * MULTIPLY_ADD_PJ + bytes * BYTE_PJ) / 1e9;
    return KILN_OK;
}
