#include "vta/search/conv.h"

#include <string.h>

#define NONE UINT32_MAX

typedef struct part {
    uint32_t out, row, column; /* its first ones */
} part;

typedef struct making {
    const kiln_vta_conv *conv;
    const kiln_vta_conv_cut *cut;
    kiln_vta_builder *b;
    kiln_vta_sizes sizes;
    kiln_vta_engine alu; /* the engine that runs operations */
    bool overwrites, saturates;
    uint32_t row_step; /* rows of the image from one row of a part's inputs to the next */
    uint32_t in_rows, in_columns;               /* of a part's inputs */
    uint32_t places;                            /* for inputs and weights of steps */
    uint32_t inp_tiles, wgt_tiles;              /* of a place */
    uint32_t acc_places, acc_stride, acc_tiles; /* places for results; distance of places; tiles of
                                                 * a place */
    uint32_t inp_there[KILN_VTA_CONV_PLACES_MAX][3],
        wgt_there[KILN_VTA_CONV_PLACES_MAX][2]; /* weights that are loaded */
    kiln_status status;
} making;

uint32_t kiln_vta_conv_out_height(const kiln_vta_conv *c) {
    return (c->height + 2 * c->padding - c->kernel) / c->stride + 1;
}
uint32_t kiln_vta_conv_out_width(const kiln_vta_conv *c) {
    return (c->width + 2 * c->padding - c->kernel) / c->stride + 1;
}

uint32_t kiln_vta_conv_row_step(const kiln_vta_conv *c) {
    return c->kernel == 1 && c->padding == 0 ? c->stride : 1;
}
uint32_t kiln_vta_conv_in_rows(const kiln_vta_conv *c, uint32_t rows) {
    return (rows - 1) * (c->stride / kiln_vta_conv_row_step(c)) + c->kernel;
}

uint32_t kiln_vta_conv_acc_places(const kiln_vta_config *config, const kiln_vta_conv_cut *cut) {
    const bool one_more =
        kiln_vta_config_has(config, KILN_VTA_ENGINE) && cut->in_turn && cut->threads > 1;
    return cut->threads + one_more;
}

uint32_t kiln_vta_conv_acc_stride(const kiln_vta_config *config, const kiln_vta_conv_cut *cut) {
    const uint32_t tiles = cut->rows * cut->columns * cut->out;
    const uint32_t quarter = kiln_vta_tile_count(config, KILN_VTA_ACC) / 4;
    const bool own_quarters =
        kiln_vta_config_has(config, KILN_VTA_ENGINE) && kiln_vta_conv_acc_places(config, cut) < 4;
    return own_quarters ? KILN_MAX(tiles, quarter) : tiles;
}

static void did(making *m, kiln_status st) {
    if (m->status)
        kiln_status_free(st);
    else
        m->status = st;
}
static void signal_to(making *m, kiln_vta_engine from, kiln_vta_engine to) {
    kiln_vta_builder_signal(m->b, from, to);
}
static void wait_for(making *m, kiln_vta_engine engine, kiln_vta_engine on) {
    did(m, kiln_vta_builder_wait(m->b, engine, on));
}

/* Rows or columns of the input that a part needs; those outside of the input are zeros. */
static kiln_vta_copy_dim window(const making *m, uint32_t first, uint32_t count, uint32_t size,
                                uint32_t stride, uint32_t *out_first) {
    const uint32_t from = first * m->conv->stride, padding = m->conv->padding;
    const uint32_t before = from < padding ? padding - from : 0;
    const uint32_t end = from + count; /* counted with the padding before */
    const uint32_t behind = end > size + padding ? end - size - padding : 0;
    *out_first = from + before - padding;
    return (kiln_vta_copy_dim){count - before - behind, stride, before, behind};
}

static bool is_there(uint32_t *there, const uint32_t *wanted, uint32_t count) {
    if (!memcmp(there, wanted, 4 * count)) return true;
    memcpy(there, wanted, 4 * count);
    return false;
}

static void load(making *m, uint32_t step, const part *p, uint32_t in) {
    const kiln_vta_conv *c = m->conv;
    const uint32_t taps = c->kernel * c->kernel;
    const uint32_t inputs[3] = {p->row, p->column, in}, weights[2] = {p->out, in};
    const uint32_t inp_place = step % m->cut->inp_places, wgt_place = step % m->cut->wgt_places;
    uint32_t row, column;
    kiln_vta_copy copy = {
        .memory = KILN_VTA_INP,
        .buffer = KILN_VTA_CONV_INP,
        .sram_base = inp_place * m->inp_tiles,
        .dim_count = 3,
        .dim = {{m->cut->in, c->height * c->width, 0, 0},
                window(m, p->row, m->in_rows, c->height, m->row_step * c->width, &row),
                window(m, p->column, m->in_columns, c->width, 1, &column)}};
    copy.dram_base = (in * c->height + row) * c->width + column;
    if (!is_there(m->inp_there[inp_place], inputs, 3)) did(m, kiln_vta_builder_copy(m->b, &copy));
    copy =
        (kiln_vta_copy){.memory = KILN_VTA_WGT,
                        .buffer = KILN_VTA_CONV_WGT,
                        .sram_base = wgt_place * m->wgt_tiles,
                        .dram_base = (p->out * c->in + in) * taps,
                        .dim_count = 2,
                        .dim = {{m->cut->out, c->in * taps, 0, 0}, {m->cut->in * taps, 1, 0, 0}}};
    if (!is_there(m->wgt_there[wgt_place], weights, 2)) did(m, kiln_vta_builder_copy(m->b, &copy));
}

static void multiply(making *m, uint32_t acc_place, uint32_t step, uint32_t in) {
    const kiln_vta_conv *c = m->conv;
    const kiln_vta_conv_cut *cut = m->cut;
    const uint32_t taps = c->kernel * c->kernel, positions = cut->rows * cut->columns;
    const kiln_vta_nest nest = {
        .base = {acc_place * m->acc_stride, step % cut->inp_places * m->inp_tiles,
                 step % cut->wgt_places * m->wgt_tiles},
        .loop_count = 6,
        .loop = {{cut->out, {positions, 0, cut->in * taps}},
                 {cut->in, {0, m->in_rows * m->in_columns, taps}},
                 {c->kernel, {0, m->in_columns, c->kernel}},
                 {c->kernel, {0, 1, 1}},
                 {cut->rows, {cut->columns, c->stride / m->row_step * m->in_columns, 0}},
                 {cut->columns, {1, c->stride, 0}}}};
    did(m,
        kiln_vta_builder_gemm(
            m->b, in == 0 && m->overwrites ? KILN_VTA_GEMM_OVERWRITE : KILN_VTA_GEMM_ADD, &nest));
}

static kiln_vta_nest all_results(const making *m, uint32_t acc_place) {
    return (kiln_vta_nest){.base.dst = acc_place * m->acc_stride,
                           .loop_count = 1,
                           .loop = {{m->acc_tiles, {1, 0, 0}}}};
}

static bool has_engine(const making *m) { return m->alu == KILN_VTA_ENGINE_ALU; }

/* If the ALU is an engine, it tells compute that a part of the accumulators is stored. With more
 * places for results than threads that signal is sent with the operations of another part, and the
 * next sums begin during those. */
static bool relays_with_operations(const making *m) { return m->acc_places > m->cut->threads; }

static void begin_part(making *m, uint32_t acc_place) {
    if (has_engine(m) && !relays_with_operations(m)) {
        wait_for(m, KILN_VTA_ENGINE_ALU, KILN_VTA_ENGINE_STORE);
        signal_to(m, KILN_VTA_ENGINE_ALU, KILN_VTA_ENGINE_COMPUTE);
    }
    wait_for(m, KILN_VTA_ENGINE_COMPUTE, has_engine(m) ? m->alu : KILN_VTA_ENGINE_STORE);
    const kiln_vta_nest all = all_results(m, acc_place);
    if (!m->overwrites) did(m, kiln_vta_builder_gemm(m->b, KILN_VTA_GEMM_RESET, &all));
}

/* Step `number` of all. */
static void step(making *m, uint32_t acc_place, uint32_t number, const part *p, uint32_t in) {
    wait_for(m, KILN_VTA_ENGINE_LOAD, KILN_VTA_ENGINE_COMPUTE);
    load(m, number, p, in);
    signal_to(m, KILN_VTA_ENGINE_LOAD, KILN_VTA_ENGINE_COMPUTE);
    if (in == 0) begin_part(m, acc_place);
    wait_for(m, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_LOAD);
    multiply(m, acc_place, number, in);
    signal_to(m, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_LOAD);
}

static uint32_t first_bias(const making *m) { return m->acc_places * m->acc_stride; }

static void end_part(making *m, uint32_t acc_place, const part *p) {
    static const kiln_vta_operation operation[KILN_VTA_CONV_OPERATIONS] = {
        {.op = KILN_VTA_ALU_ADD},
        {KILN_VTA_ALU_SHR, true, 6},
        {KILN_VTA_ALU_MAX, true, 0},
        {KILN_VTA_ALU_MIN, true, 127}};
    /* A saturating store does the last operation. */
    const uint32_t operations = KILN_VTA_CONV_OPERATIONS - (m->saturates ? 1 : 0);
    const uint32_t positions = m->cut->rows * m->cut->columns;
    const kiln_vta_nest with_bias = {
        .base = {acc_place * m->acc_stride, first_bias(m) + p->out, 0},
        .loop_count = 2,
        .loop = {{m->cut->out, {positions, 1, 0}}, {positions, {1, 0, 0}}}};
    if (has_engine(m)) {
        signal_to(m, KILN_VTA_ENGINE_COMPUTE, m->alu);
        wait_for(m, m->alu, KILN_VTA_ENGINE_COMPUTE);
    }
    if (relays_with_operations(m)) wait_for(m, m->alu, KILN_VTA_ENGINE_STORE);
    did(m, kiln_vta_builder_alu(m->b, &with_bias, operation, operations));
    if (relays_with_operations(m)) signal_to(m, m->alu, KILN_VTA_ENGINE_COMPUTE);
    signal_to(m, m->alu, KILN_VTA_ENGINE_STORE);
    wait_for(m, KILN_VTA_ENGINE_STORE, m->alu);
    const uint32_t height = kiln_vta_conv_out_height(m->conv),
                   width = kiln_vta_conv_out_width(m->conv);
    const kiln_vta_copy copy = {.memory = KILN_VTA_OUT,
                                .buffer = KILN_VTA_CONV_OUT,
                                .sram_base = acc_place * m->acc_stride,
                                .saturate = m->saturates,
                                .dram_base = (p->out * height + p->row) * width + p->column,
                                .dim_count = 3,
                                .dim = {{m->cut->out, height * width, 0, 0},
                                        {m->cut->rows, width, 0, 0},
                                        {m->cut->columns, 1, 0, 0}}};
    did(m, kiln_vta_builder_copy(m->b, &copy));
    signal_to(m, KILN_VTA_ENGINE_STORE, m->alu);
}

static part part_of(const making *m, uint32_t number) {
    const uint32_t outs = m->conv->out / m->cut->out;
    const uint32_t rows = kiln_vta_conv_out_height(m->conv) / m->cut->rows;
    const uint32_t columns = kiln_vta_conv_out_width(m->conv) / m->cut->columns;
    const uint32_t out = m->cut->out_inside ? number % outs : number / (rows * columns);
    const uint32_t place = m->cut->out_inside ? number / outs : number % (rows * columns);
    return (part){out * m->cut->out, place / columns * m->cut->rows,
                  place % columns * m->cut->columns};
}

static void add_buffers(making *m) {
    const kiln_vta_conv *c = m->conv;
    const uint64_t taps = c->kernel * c->kernel;
    const struct {
        const char *name;
        kiln_vta_memory memory;
        uint64_t tiles;
    } row[KILN_VTA_CONV_BUFFERS] = {
        [KILN_VTA_CONV_INP] = {"inp", KILN_VTA_INP, (uint64_t)c->in * c->height * c->width},
        [KILN_VTA_CONV_WGT] = {"wgt", KILN_VTA_WGT, c->out * c->in * taps},
        [KILN_VTA_CONV_BIAS] = {"bias", KILN_VTA_ACC, c->out},
        [KILN_VTA_CONV_OUT] = {"out", KILN_VTA_OUT,
                               (uint64_t)c->out * kiln_vta_conv_out_height(c) *
                                   kiln_vta_conv_out_width(c)}};
    for (uint32_t i = 1; i < KILN_VTA_CONV_BUFFERS; i++) {
        uint32_t number;
        did(m, kiln_vta_builder_buffer(m->b, kiln_str_from(row[i].name), KILN_VTA_ROLE_ARGUMENT,
                                       row[i].tiles * m->sizes.tile_bytes[row[i].memory],
                                       (kiln_str){0}, &number));
    }
    const kiln_vta_copy copy = {.memory = KILN_VTA_ACC,
                                .buffer = KILN_VTA_CONV_BIAS,
                                .sram_base = first_bias(m),
                                .dim_count = 1,
                                .dim = {{c->out, 1, 0, 0}}};
    did(m, kiln_vta_builder_copy(m->b, &copy));
}

/* The number of steps between a step and the earlier one that its loads wait for. */
static uint32_t lag_of(const kiln_vta_conv_cut *cut) {
    return KILN_MIN(cut->inp_places, cut->wgt_places);
}

/* Signals that all memory is free. */
static void signal_free(making *m) {
    memset(m->inp_there, 255, sizeof m->inp_there);
    memset(m->wgt_there, 255, sizeof m->wgt_there);
    for (uint32_t p = 0; p < lag_of(m->cut); p++)
        signal_to(m, KILN_VTA_ENGINE_COMPUTE, KILN_VTA_ENGINE_LOAD);
    for (uint32_t p = 0; p < m->acc_places; p++) {
        if (relays_with_operations(m) && p < m->cut->threads)
            signal_to(m, m->alu, KILN_VTA_ENGINE_COMPUTE);
        else
            signal_to(m, KILN_VTA_ENGINE_STORE, m->alu);
    }
}

/* A step of each thread in turn. */
static void add_parts_together(making *m, uint32_t parts) {
    const uint32_t threads = m->cut->threads;
    for (uint32_t first = 0; first < parts && !m->status; first += threads) {
        uint32_t s = 0;
        for (uint32_t in = 0; in < m->conv->in; in += m->cut->in)
            for (uint32_t t = 0; t < threads; t++, s++) {
                const part p = part_of(m, first + t);
                if (first + t < parts)
                    step(m, t, s, &p, in);
                else if (s < lag_of(m->cut)) /* the thread has no part left, and its token is the
                                              * next one */
                    wait_for(m, KILN_VTA_ENGINE_LOAD, KILN_VTA_ENGINE_COMPUTE);
            }
        for (uint32_t t = 0; t < threads && first + t < parts; t++) {
            const part p = part_of(m, first + t);
            end_part(m, t, &p);
        }
    }
}

static void add_parts_in_turn(making *m, uint32_t parts) {
    for (uint32_t n = 0, steps = 0; n < parts && !m->status; n++) {
        const part p = part_of(m, n);
        for (uint32_t in = 0; in < m->conv->in; in += m->cut->in, steps++)
            step(m, n % m->acc_places, steps, &p, in);
        end_part(m, n % m->acc_places, &p);
    }
}

static void add_parts(making *m) {
    const uint32_t parts = m->conv->out / m->cut->out *
                           (kiln_vta_conv_out_height(m->conv) / m->cut->rows) *
                           (kiln_vta_conv_out_width(m->conv) / m->cut->columns);
    signal_free(m);
    if (m->cut->in_turn)
        add_parts_in_turn(m, parts);
    else
        add_parts_together(m, parts);
}

kiln_status kiln_vta_conv_build(const kiln_vta_config *config, const kiln_vta_conv *conv,
                                const kiln_vta_conv_cut *cut, kiln_arena *arena,
                                kiln_vta_stream *out_stream) {
    making m = {.conv = conv,
                .cut = cut,
                .sizes = kiln_vta_sizes_of(config),
                .alu = kiln_vta_config_has(config, KILN_VTA_ENGINE) ? KILN_VTA_ENGINE_ALU
                                                                    : KILN_VTA_ENGINE_COMPUTE,
                .overwrites = kiln_vta_config_has(config, KILN_VTA_FIRST),
                .saturates = kiln_vta_config_has(config, KILN_VTA_CHAIN),
                .acc_stride = kiln_vta_conv_acc_stride(config, cut),
                .acc_places = kiln_vta_conv_acc_places(config, cut),
                .row_step = kiln_vta_conv_row_step(conv),
                .in_rows = kiln_vta_conv_in_rows(conv, cut->rows),
                .in_columns = (cut->columns - 1) * conv->stride + conv->kernel,
                .acc_tiles = cut->rows * cut->columns * cut->out};
    m.inp_tiles = cut->in * m.in_rows * m.in_columns;
    m.wgt_tiles = cut->out * cut->in * conv->kernel * conv->kernel;
    if (cut->inp_places > KILN_VTA_CONV_PLACES_MAX || cut->wgt_places > KILN_VTA_CONV_PLACES_MAX ||
        cut->inp_places * m.inp_tiles > m.sizes.tile_count[KILN_VTA_INP] ||
        cut->wgt_places * m.wgt_tiles > m.sizes.tile_count[KILN_VTA_WGT] ||
        first_bias(&m) + conv->out >= m.sizes.tile_count[KILN_VTA_ACC])
        return KILN_ERROR(OUT_OF_RANGE, "parts of the convolution are larger than the machine");
    m.b = kiln_vta_builder_create(config, arena);
    add_buffers(&m);
    add_parts(&m);
    if (!m.status) m.status = kiln_vta_builder_finish(m.b, &(kiln_vta_limits){0}, out_stream);
    kiln_vta_builder_destroy(m.b);
    return m.status;
}
