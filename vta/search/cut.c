#include "vta/search/cut.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/integer.h"
#include "base/vec.h"

/* Cycles of an instruction in addition to its work: to take it, to take and to give tokens. */
#define TAKE_CYCLES 3.0

static double positions_of(const kiln_vta_conv *c) {
    return (double)kiln_vta_conv_out_height(c) * kiln_vta_conv_out_width(c);
}
static double taps_of(const kiln_vta_conv *c) { return (double)c->kernel * c->kernel; }
static bool has(const kiln_vta_config *config, kiln_vta_feature feature) {
    return kiln_vta_config_has(config, feature);
}

/* Passes of the ALU over each result. */
static double alu_passes(const kiln_vta_config *config) {
    return has(config, KILN_VTA_CHAIN) ? 1 : KILN_VTA_CONV_OPERATIONS;
}
/* Cycles of a pass for each tile of results. */
static double pass_cycles(const kiln_vta_config *config) {
    return ceil((double)config->batch * config->block_out / config->alu_lanes) * config->alu_cycles;
}
static double beats_of(const kiln_vta_config *config, kiln_vta_memory memory, double tiles) {
    return ceil(tiles * kiln_vta_tile_bytes(config, memory) / (config->bus_bits / 8.0));
}

/* ---- bounds ---- */

kiln_vta_bound kiln_vta_conv_bound(const kiln_vta_config *config, const kiln_vta_conv *conv) {
    const double results = positions_of(conv) * conv->out, taps = taps_of(conv);
    const double reset = has(config, KILN_VTA_FIRST) ? 0 : results;
    const double alu = results * alu_passes(config) * pass_cycles(config);
    const double rows = ceil((double)conv->height / kiln_vta_conv_row_step(conv));
    const double read = beats_of(config, KILN_VTA_INP, rows * conv->width * conv->in) +
                        beats_of(config, KILN_VTA_WGT, taps * conv->in * conv->out);
    const double written = beats_of(config, KILN_VTA_OUT, results);
    kiln_vta_bound b = {.gemm = results * conv->in * taps};
    b.compute = has(config, KILN_VTA_ENGINE) ? fmax(b.gemm + reset, alu) : b.gemm + reset + alu;
    b.memory = config->channels > 2 ? fmax(read, written) : read + written;
    b.all = fmax(b.compute, b.memory);
    return b;
}

/* ---- estimates ---- */

/* More steps are never best, and an estimate takes time for each. */
#define STEPS_MAX 4096u

/* Costs of a cut's parts and steps, in cycles. */
typedef struct costs {
    uint32_t parts, outs, steps;               /* steps of a part */
    double inp, wgt, out;                      /* of a channel, to move the data of a step or
                                                * part */
    double inp_engine, wgt_engine, out_engine; /* of the engine in addition: each instruction waits
                                                * for its last beat */
    double gemm, reset, alu;
} costs;

/* Cycles of a channel for so many rows of `tiles` each. */
static double rows_cycles(const kiln_vta_config *config, kiln_vta_memory memory, double rows,
                          double tiles) {
    const double beats = beats_of(config, memory, tiles);
    return rows * (beats + ceil(beats / KILN_VTA_BURST_BEATS) * config->row_cycles);
}

/* False: the cut does not fit into the machine. */
static bool costs_of(const kiln_vta_config *config, const kiln_vta_conv *conv,
                     const kiln_vta_conv_cut *cut, costs *c) {
    const uint32_t height = kiln_vta_conv_out_height(conv), width = kiln_vta_conv_out_width(conv);
    const uint32_t in_rows = kiln_vta_conv_in_rows(conv, cut->rows),
                   in_columns = (cut->columns - 1) * conv->stride + conv->kernel;
    const double taps = taps_of(conv), acc = (double)cut->rows * cut->columns * cut->out;
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(config);
    c->outs = conv->out / cut->out;
    c->parts = c->outs * (height / cut->rows) * (width / cut->columns);
    c->steps = conv->in / cut->in;
    if (cut->threads > c->parts || (uint64_t)c->parts * c->steps > STEPS_MAX ||
        KILN_MAX(cut->inp_places, cut->wgt_places) > KILN_VTA_CONV_PLACES_MAX ||
        (double)cut->inp_places * cut->in * in_rows * in_columns > sizes.tile_count[KILN_VTA_INP] ||
        (double)cut->wgt_places * cut->out * cut->in * taps > sizes.tile_count[KILN_VTA_WGT] ||
        (uint64_t)kiln_vta_conv_acc_places(config, cut) * kiln_vta_conv_acc_stride(config, cut) +
                conv->out >=
            sizes.tile_count[KILN_VTA_ACC])
        return false;

    const bool whole_rows = cut->columns == width;
    const bool together = whole_rows && conv->padding == 0 && kiln_vta_conv_row_step(conv) == 1;
    c->inp = together ? rows_cycles(config, KILN_VTA_INP, cut->in, (double)in_rows * in_columns)
                      : rows_cycles(config, KILN_VTA_INP, (double)cut->in * in_rows,
                                    KILN_MIN(in_columns, conv->width));
    c->wgt = rows_cycles(config, KILN_VTA_WGT, cut->out, cut->in * taps);
    c->out = whole_rows
                 ? rows_cycles(config, KILN_VTA_OUT, cut->out, cut->rows * (double)cut->columns)
                 : rows_cycles(config, KILN_VTA_OUT, (double)cut->out * cut->rows, cut->columns);
    const double wait = config->latency + TAKE_CYCLES;
    c->inp_engine = (together ? 1 : cut->in) * wait;
    c->wgt_engine = wait;
    c->out_engine = (whole_rows ? 1 : cut->out) * TAKE_CYCLES;
    c->gemm = taps * cut->in * acc + config->pipeline + TAKE_CYCLES;
    c->reset = has(config, KILN_VTA_FIRST) ? 0 : acc + config->pipeline + TAKE_CYCLES;
    c->alu = alu_passes(config) * (acc * pass_cycles(config) + KILN_VTA_ALU_PIPELINE + TAKE_CYCLES);
    return true;
}

/* The part, and the step in it, of step `number` of all. */
static void step_of(const costs *c, const kiln_vta_conv_cut *cut, uint32_t number,
                    uint32_t *out_part, uint32_t *out_step) {
    if (cut->in_turn) {
        *out_part = number / c->steps;
        *out_step = number % c->steps;
        return;
    }
    const uint32_t group = number / (cut->threads * c->steps) * cut->threads;
    const uint32_t threads = KILN_MIN(cut->threads, c->parts - group);
    const uint32_t inside = number - group * c->steps;
    *out_part = group + inside % threads;
    *out_step = inside / threads;
}

/* Times of engines, step by step, as tokens order them. */
typedef struct clocks {
    double load, compute, alu, store, channel; /* when each is free */
    double ready[STEPS_MAX], used[STEPS_MAX];  /* a step's loads and its sums are done */
    double stored[STEPS_MAX];                  /* a part is stored */
    uint32_t inp_there[KILN_VTA_CONV_PLACES_MAX], wgt_there[KILN_VTA_CONV_PLACES_MAX];
} clocks;

/* One move on an engine and a channel that others share. */
static double move(double *engine, double *channel, double from, double cycles, double wait) {
    const double begin = fmax(fmax(*engine, from), channel ? *channel : 0);
    if (channel) *channel = begin + cycles;
    *engine = begin + cycles + wait;
    return *engine;
}

static void load_step(const costs *c, const kiln_vta_conv_cut *cut, uint32_t number, double from,
                      clocks *t) {
    uint32_t part, step;
    step_of(c, cut, number, &part, &step);
    const uint32_t places = c->parts / c->outs;
    const uint32_t out = cut->out_inside ? part % c->outs : part / places,
                   place = cut->out_inside ? part / c->outs : part % places;
    const uint32_t inputs = place * c->steps + step + 1, weights = out * c->steps + step + 1;
    uint32_t *inp = &t->inp_there[number % cut->inp_places],
             *wgt = &t->wgt_there[number % cut->wgt_places];
    t->ready[number] = fmax(from, t->load);
    if (*inp != inputs) t->ready[number] = move(&t->load, &t->channel, from, c->inp, c->inp_engine);
    if (*wgt != weights)
        t->ready[number] = move(&t->load, &t->channel, from, c->wgt, c->wgt_engine);
    *inp = inputs;
    *wgt = weights;
}

double kiln_vta_cut_estimate(const kiln_vta_config *config, const kiln_vta_conv *conv,
                             const kiln_vta_conv_cut *cut) {
    costs c;
    clocks t;
    if (!costs_of(config, conv, cut, &c)) return INFINITY;
    const uint32_t count = c.parts * c.steps, lag = KILN_MIN(cut->inp_places, cut->wgt_places),
                   acc_places = kiln_vta_conv_acc_places(config, cut);
    const bool engine = has(config, KILN_VTA_ENGINE);
    t.load = t.compute = t.alu = t.store = t.channel = 0;
    memset(t.inp_there, 0, sizeof t.inp_there);
    memset(t.wgt_there, 0, sizeof t.wgt_there);
    for (uint32_t s = 0; s < KILN_MIN(lag, count); s++) load_step(&c, cut, s, 0, &t);
    for (uint32_t s = 0; s < count; s++) {
        uint32_t part, step;
        step_of(&c, cut, s, &part, &step);
        if (step == 0) {
            if (part >= acc_places) t.compute = fmax(t.compute, t.stored[part - acc_places]);
            t.compute += c.reset;
        }
        t.compute = t.used[s] = fmax(t.compute, t.ready[s]) + c.gemm;
        if (s + lag < count) load_step(&c, cut, s + lag, t.used[s], &t);
        if (step + 1 < c.steps) continue;
        double *alu = engine ? &t.alu : &t.compute;
        *alu = fmax(*alu, t.used[s]) + c.alu;
        /* If loads and stores share no channel, a store does not wait for loads. */
        t.stored[part] =
            move(&t.store, config->channels > 2 ? NULL : &t.channel, *alu, c.out, c.out_engine);
    }
    return t.store;
}

/* ---- a lower bound for a cut ---- */

/* A lower bound for the loads of a step's inputs or weights over all parts. There are `count`
 * different ones: consecutive parts use different ones in turn (`is_inner`), or parts with the same
 * ones follow each other. */
static double loads_of(const costs *c, const kiln_vta_conv_cut *cut, uint32_t places, bool is_inner,
                       uint32_t count) {
    const uint32_t round = cut->in_turn ? c->steps : cut->threads * c->steps;
    const uint32_t apart = places / c->steps; /* distance in parts of two uses of a place */
    double loads = c->parts;                  /* a place is used by another step next */
    if (places % round == 0 && !is_inner)
        loads = (double)count * KILN_MIN(apart, c->parts / count);
    else if (places % round == 0 && apart % count == 0)
        loads = KILN_MIN(apart, c->parts);
    /* The last parts may be fewer than threads, and then use other places. */
    return cut->in_turn ? loads : loads - c->parts % cut->threads;
}

static double least_of(const kiln_vta_config *config, const kiln_vta_conv_cut *cut,
                       const costs *c) {
    const double inp_loads = c->steps * loads_of(c, cut, cut->inp_places, !cut->out_inside,
                                                 c->parts / c->outs),
                 wgt_loads = c->steps * loads_of(c, cut, cut->wgt_places, cut->out_inside, c->outs);
    const double inp = c->inp + c->inp_engine, wgt = c->wgt + c->wgt_engine,
                 out = c->out + c->out_engine;
    const double moved =
        inp_loads * c->inp + wgt_loads * c->wgt + (config->channels > 2 ? 0 : c->parts * c->out);
    const double sums = c->parts * (c->reset + c->steps * c->gemm) - c->reset,
                 passes = c->parts * c->alu;
    const double computed =
        has(config, KILN_VTA_ENGINE) ? fmax(sums + c->alu, passes) : sums + passes;
    return fmax(moved,
                fmax(inp_loads * inp + wgt_loads * wgt + c->gemm + c->alu, inp + wgt + computed) +
                    out);
}

double kiln_vta_cut_least(const kiln_vta_config *config, const kiln_vta_conv *conv,
                          const kiln_vta_conv_cut *cut) {
    costs c;
    return costs_of(config, conv, cut, &c) ? least_of(config, cut, &c) : INFINITY;
}

/* ---- the search ---- */

/* A cut with its lower bound, or with its estimate once that is known. */
typedef struct ranked_cut {
    kiln_vta_conv_cut cut;
    double cycles;
    bool is_estimated;
} ranked_cut;

/* A heap: none takes fewer cycles than the one at half its index, from 1 on. */
typedef KILN_VEC(ranked_cut) cut_heap;

static void sift_down(cut_heap *heap, uint32_t index) {
    ranked_cut *at = heap->data - 1;
    const ranked_cut one = at[index];
    for (uint32_t child; (child = 2 * index) <= heap->count; index = child) {
        if (child < heap->count && at[child + 1].cycles < at[child].cycles) child++;
        if (one.cycles <= at[child].cycles) break;
        at[index] = at[child];
    }
    at[index] = one;
}

/* Takes the cut with the best estimate; false: there is none. Only cuts whose lower bound is below
 * it are estimated. */
static bool take_best(const kiln_vta_config *config, const kiln_vta_conv *conv, cut_heap *heap,
                      kiln_vta_cut_time *out_best) {
    while (heap->count) {
        ranked_cut *first = &heap->data[0];
        if (first->is_estimated) {
            *out_best = (kiln_vta_cut_time){.cut = first->cut, .estimate = first->cycles};
            *first = kiln_vec_pop(heap);
            if (heap->count) sift_down(heap, 1);
            return true;
        }
        first->cycles = kiln_vta_cut_estimate(config, conv, &first->cut);
        first->is_estimated = true;
        sift_down(heap, 1);
    }
    return false;
}

static void consider(const kiln_vta_config *config, const kiln_vta_conv *conv,
                     const kiln_vta_conv_cut *cut, cut_heap *heap) {
    const ranked_cut one = {*cut, kiln_vta_cut_least(config, conv, cut), false};
    if (isfinite(one.cycles)) kiln_vec_push(heap, one);
}

/* Both orders of parts and of threads, and places for a step of each thread, for all steps of a
 * part, or for those of each thread's part. One thread has one place, as nothing overlaps. */
static void consider_orders(const kiln_vta_config *config, const kiln_vta_conv *conv,
                            kiln_vta_conv_cut cut, cut_heap *heap) {
    const uint32_t steps = conv->in / cut.in;
    const uint32_t places[] = {cut.threads, steps, cut.threads * steps};
    const uint32_t kinds = cut.threads == 1 || steps == 1 ? 1 : 3;
    for (uint32_t order = 0; order < (cut.threads == 1 ? 2 : 4); order++)
        for (uint32_t inp = 0; inp < kinds; inp++)
            for (uint32_t wgt = 0; wgt < kinds; wgt++) {
                cut.out_inside = order & 1;
                cut.in_turn = order & 2;
                cut.inp_places = places[inp];
                cut.wgt_places = places[wgt];
                if (cut.in_turn || (inp == wgt && inp != 1)) consider(config, conv, &cut, heap);
            }
}

static void all_cuts(const kiln_vta_config *config, const kiln_vta_conv *conv, uint32_t threads,
                     cut_heap *heap) {
    const uint32_t height = kiln_vta_conv_out_height(conv), width = kiln_vta_conv_out_width(conv);
    for (uint32_t rows = 1; rows <= height; rows++) {
        if (height % rows) continue;
        for (uint32_t columns = 1; columns <= width; columns++) {
            if (width % columns) continue;
            for (uint32_t out = 1; out <= conv->out; out++) {
                if (conv->out % out) continue;
                for (uint32_t in = 1; in <= conv->in; in++)
                    if (conv->in % in == 0)
                        consider_orders(config, conv,
                                        (kiln_vta_conv_cut){.rows = rows,
                                                            .columns = columns,
                                                            .out = out,
                                                            .in = in,
                                                            .threads = threads},
                                        heap);
            }
        }
    }
    for (uint32_t i = heap->count / 2; i; i--) sift_down(heap, i);
}

/* False: the machine cannot run the cut after all. */
static bool simulate(const kiln_vta_config *config, const kiln_vta_conv *conv, kiln_arena *arena,
                     kiln_vta_cut_time *time) {
    static const kiln_vta_csim_options options = {.timing_only = true};
    kiln_vta_stream stream;
    kiln_vta_fault fault;
    kiln_status st = kiln_vta_conv_build(config, conv, &time->cut, arena, &stream);
    if (st) { /* too few micro-ops, or too small a distance between uses of an accumulator */
        kiln_status_free(st);
        return false;
    }
    KILN_CHECK(stream.program_count == 1); /* its length is not limited */
    const kiln_vta_program *p = stream.program;
    KILN_CHECK(kiln_vta_csim_run(p, NULL, 0, &options, arena, &time->timing, &fault));
    time->instructions = p->instruction_count;
    time->stream_bytes = kiln_vta_program_stream_bytes(p);
    time->no_ops = stream.no_ops;
    return true;
}

kiln_status kiln_vta_cut_search(const kiln_vta_config *config, const kiln_vta_conv *conv,
                                uint32_t threads, uint32_t simulate_count,
                                kiln_vta_cut_time *out_best) {
    cut_heap heap = {0};
    kiln_vta_cut_time one;
    kiln_arena arena;
    uint32_t simulated = 0;
    kiln_arena_init(&arena, 0);
    all_cuts(config, conv, threads, &heap);
    while (simulated < simulate_count && take_best(config, conv, &heap, &one)) {
        kiln_arena_reset(&arena);
        if (!simulate(config, conv, &arena, &one)) continue;
        if (!simulated++ || one.timing.cycles < out_best->timing.cycles) *out_best = one;
    }
    kiln_arena_deinit(&arena);
    kiln_vec_deinit(&heap);
    if (simulated) return KILN_OK;
    return KILN_ERROR(NOT_FOUND,
                      "no cut of the convolution with %u virtual threads fits into the machine",
                      threads);
}
