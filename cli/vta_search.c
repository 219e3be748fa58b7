#include "cli/vta_search.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/common/client.h"
#include "cli/common/json.h"
#include "vta/rtl/params.h"

/* Machines from all over the space, by which bounds are judged; some cannot run every layer. */
#define SAMPLES 120u
#define SIMULATED 3u   /* cuts of each layer, of every machine */
#define TUNE_SHARE 0.6 /* of the time, where there is a model to tune */
#define JOBS_MAX 64u
#define BATCH_MAX 16u

typedef struct search_call {
    const char *device, *model, *layers, *out, *tracker, *key_file, *person;
    uint64_t seconds, evaluate, candidates, trials, batch, clock, channels, lut, ff, bram, dsp,
        jobs;
    bool insecure, json;
    kiln_vta_device chip; /* with what of it may be taken */
    kiln_vta_layers judged;
    uint64_t begun_ns;
} search_call;

/* ---- evaluating by several threads ---- */

typedef struct evaluation {
    const kiln_vta_wanted *wanted;
    kiln_vta_machine *machine;
    uint32_t count, step; /* every step-th of so many */
    uint64_t deadline_ns;
    _Atomic uint32_t next;
} evaluation;

static void *evaluate_some(void *context) {
    evaluation *e = context;
    for (;;) {
        const uint32_t i = atomic_fetch_add(&e->next, e->step);
        if (i >= e->count || kiln_clock_ns() >= e->deadline_ns) return NULL;
        if (e->machine[i].ms > 0) continue;
        /* One that cannot run a layer keeps its time, which is 0, and is none that is found. */
        kiln_status_free(kiln_vta_machine_evaluate(e->wanted, SIMULATED, &e->machine[i]));
    }
}

static void evaluate(const search_call *c, evaluation *e) {
    pthread_t thread[JOBS_MAX];
    uint32_t started = 0;
    while (started + 1 < c->jobs && !pthread_create(&thread[started], NULL, evaluate_some, e))
        started++;
    evaluate_some(e);
    for (uint32_t i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* ---- what bounds are worth ---- */

static double rank_of(const double *value, uint32_t count, uint32_t which) {
    uint32_t below = 0, equal = 0;
    for (uint32_t i = 0; i < count; i++) {
        below += value[i] < value[which];
        equal += value[i] == value[which];
    }
    return below + (equal + 1) / 2.0;
}

/* Spearman's: Pearson's of ranks, equal values at the middle of theirs. */
static double rank_correlation(const double *a, const double *b, uint32_t count) {
    double ab = 0, aa = 0, bb = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double x = rank_of(a, count, i) - (count + 1) / 2.0,
                     y = rank_of(b, count, i) - (count + 1) / 2.0;
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static void judge_bounds(kiln_vta_found *f, uint32_t step) {
    double bound[SAMPLES], ms[SAMPLES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->machine.count && count < SAMPLES; i += step) {
        if (f->machine.data[i].ms <= 0) continue;
        bound[count] = f->machine.data[i].bound_ms;
        ms[count++] = f->machine.data[i].ms;
    }
    f->rank_correlation = rank_correlation(bound, ms, count);
    f->sample_count = count;
}

/* ---- the search ---- */

/* Evaluated ones first, the fastest of them first. */
static int by_time(const void *a, const void *b) {
    const kiln_vta_machine *x = a, *y = b;
    if ((x->ms > 0) != (y->ms > 0)) return x->ms > 0 ? -1 : 1;
    return (x->ms > y->ms) - (x->ms < y->ms);
}

/* They differ in nothing but their memories. */
static bool same_kind(const kiln_vta_config *a, const kiln_vta_config *b) {
    return a->batch == b->batch && a->block_in == b->block_in && a->block_out == b->block_out &&
           a->alu_lanes == b->alu_lanes && a->alu_cycles == b->alu_cycles &&
           a->features == b->features && a->channels == b->channels && a->bus_bits == b->bus_bits;
}

static bool is_no_larger(const kiln_vta_machine *m, const kiln_vta_machine *preset) {
    return m->resources.bram18 <= preset->resources.bram18 &&
           m->config.clock_mhz <= preset->config.clock_mhz;
}

static bool has_kind(const kiln_vta_found *f, const kiln_vta_config *config) {
    for (uint32_t i = 0; i < f->candidate_count; i++)
        if (same_kind(&f->candidate[i].machine.config, config)) return true;
    return false;
}

/* The fastest of each kind. Where none is no larger than the preset, the fastest such machine is in
 * the last place. */
static void choose_candidates(kiln_vta_found *f, uint64_t most, const kiln_vta_machine *preset) {
    bool has_equal = false;
    for (uint32_t i = 0; i < f->evaluated && f->candidate_count < most; i++) {
        const kiln_vta_machine *m = &f->machine.data[i];
        if (has_kind(f, &m->config)) continue;
        f->candidate[f->candidate_count++].machine = *m;
        has_equal |= is_no_larger(m, preset);
    }
    for (uint32_t i = 0; i < f->evaluated && !has_equal; i++) {
        has_equal = is_no_larger(&f->machine.data[i], preset);
        if (has_equal) f->candidate[f->candidate_count - 1].machine = f->machine.data[i];
    }
    f->candidate[f->candidate_count].machine = *preset;
}

/* Tuned ones first, the fastest of them first. */
static int by_result(const void *a, const void *b) {
    const kiln_vta_candidate *x = a, *y = b;
    if ((x->tuned.ms > 0) != (y->tuned.ms > 0)) return x->tuned.ms > 0 ? -1 : 1;
    const double x_ms = kiln_vta_candidate_ms(x), y_ms = kiln_vta_candidate_ms(y);
    return (x_ms > y_ms) - (x_ms < y_ms);
}

/* Taps of all results along one dimension that do not lie in the padding. */
static double taps_inside(const kiln_vta_layer *l, uint32_t size) {
    uint32_t taps = 0;
    for (uint32_t at = 0; at + l->kernel <= size + 2 * l->padding; at += l->stride)
        for (uint32_t k = at; k < at + l->kernel; k++)
            taps += k >= l->padding && k < size + l->padding;
    return taps;
}

/* As tasks count them: none for padding. */
static double operations_of(const kiln_vta_layer *l) {
    return 2.0 * l->count * l->in * l->out * taps_inside(l, l->height) * taps_inside(l, l->width);
}

static kiln_vta_tune_options tune_options(const search_call *c, const kiln_vta_found *f,
                                          kiln_arena *process) {
    const double spent_s = (double)(kiln_clock_ns() - c->begun_ns) / 1e9;
    double operations = 0;
    for (uint32_t i = 0; i < f->wanted.layer_count; i++)
        operations += operations_of(&f->wanted.layer[i]);
    return (kiln_vta_tune_options){.model = c->model,
                                   .operations = operations * f->wanted.batch,
                                   .db = kiln_arena_printf(process, "%s/tuning.db", c->out),
                                   .tracker = c->tracker,
                                   .key_file = c->key_file,
                                   .person = c->person,
                                   .insecure = c->insecure,
                                   .trials = c->trials,
                                   .seconds = (double)c->seconds - spent_s,
                                   .jobs = (uint32_t)c->jobs};
}

/* The preset, and candidates, the fastest by cuts first: where time ends, slow ones have none. */
static kiln_status tune_candidates(const search_call *c, kiln_vta_found *f, kiln_arena *process) {
    const kiln_vta_tune_options options = tune_options(c, f, process);
    const uint32_t count = f->candidate_count + 1;
    kiln_vta_config config[KILN_VTA_CANDIDATES_MAX + 1];
    kiln_vta_tuned tuned[KILN_VTA_CANDIDATES_MAX + 1];
    for (uint32_t i = 0; i < count; i++) config[(i + 1) % count] = f->candidate[i].machine.config;
    kiln_status st = kiln_vta_tune(&options, config, count, process, tuned);
    if (st) return st;
    for (uint32_t i = 0; i < count; i++) f->candidate[i].tuned = tuned[(i + 1) % count];
    qsort(f->candidate, f->candidate_count, sizeof *f->candidate, by_result);
    if (f->candidate[0].tuned.ms <= 0)
        return KILN_ERROR(NOT_FOUND, "the model could not be tuned for any candidate: %s",
                          f->candidate[0].tuned.why_not);
    return kiln_vta_pack(&options, &f->candidate[0].machine.config,
                         kiln_arena_printf(process, "%s/winner.kiln", c->out), process);
}

static kiln_status evaluate_preset(const kiln_vta_found *f, kiln_vta_machine *preset) {
    kiln_status st = kiln_vta_config_parse(KILN_STR("pynq"), &preset->config);
    if (st) return st;
    preset->resources = kiln_vta_resources_of(&preset->config, 0);
    preset->bound_ms = kiln_vta_machine_bound(&f->wanted, &preset->config);
    return kiln_status_note(kiln_vta_machine_evaluate(&f->wanted, SIMULATED, preset),
                            "pynq, for comparison");
}

static kiln_status evaluate_machines(const search_call *c, kiln_vta_found *f) {
    const double share = c->model ? 1 - TUNE_SHARE : 1;
    f->looked_at = kiln_vta_space_enumerate(&f->wanted, &f->machine);
    if (!f->machine.count)
        return KILN_ERROR(NOT_FOUND, "no machine fits into what %s may give", c->device);
    evaluation e = {.wanted = &f->wanted,
                    .machine = f->machine.data,
                    .count = f->machine.count,
                    .step = (f->machine.count + SAMPLES - 1) / SAMPLES,
                    .deadline_ns =
                        c->begun_ns + (uint64_t)(share * (double)(c->seconds * KILN_NS_PER_S))};
    evaluate(c, &e);
    judge_bounds(f, e.step);
    e.step = 1;
    e.next = 0;
    if (c->evaluate && c->evaluate < e.count) e.count = (uint32_t)c->evaluate;
    evaluate(c, &e);
    qsort(f->machine.data, f->machine.count, sizeof *f->machine.data, by_time);
    while (f->evaluated < f->machine.count && f->machine.data[f->evaluated].ms > 0) f->evaluated++;
    return f->evaluated ? KILN_OK
                        : KILN_ERROR(NOT_FOUND, "no machine of %u could run every layer in %llu s",
                                     f->machine.count, (unsigned long long)c->seconds);
}

static void print_evaluated(const search_call *c, const kiln_vta_found *f) {
    printf("%llu configurations looked at, %u kept of those that fit, %u simulated on %u layers in "
           "%.0f s; rank correlation of bounds with simulated times %.3f (%u machines)\n",
           (unsigned long long)f->looked_at, f->machine.count, f->evaluated, f->wanted.layer_count,
           (double)(kiln_clock_ns() - c->begun_ns) / 1e9, f->rank_correlation, f->sample_count);
    if (c->model)
        printf("tuning %s for %u candidates and pynq, %u at once\n", c->model, f->candidate_count,
               (unsigned)c->jobs);
    fflush(stdout);
}

static kiln_status search(const search_call *c, kiln_vta_found *f, kiln_arena *process) {
    kiln_vta_machine preset = {0};
    kiln_status st = evaluate_machines(c, f);
    if (!st) st = evaluate_preset(f, &preset);
    if (st) return st;
    choose_candidates(f, c->candidates, &preset);
    if (!c->json) print_evaluated(c, f);
    st = c->model ? tune_candidates(c, f, process) : KILN_OK;
    for (uint32_t i = f->candidate_count; i-- > 0;)
        if (is_no_larger(&f->candidate[i].machine, &preset)) f->equal = &f->candidate[i];
    return st;
}

/* ---- what is written ---- */

static const kiln_vta_candidate *preset_of(const kiln_vta_found *f) {
    return &f->candidate[f->candidate_count];
}

/* How many times as fast as pynq, both with schedules of the same source. */
static double gain_of(const kiln_vta_found *f, const kiln_vta_candidate *c) {
    const kiln_vta_candidate *pynq = preset_of(f);
    return c->tuned.ms > 0 && pynq->tuned.ms > 0 ? pynq->tuned.ms / c->tuned.ms
                                                 : pynq->machine.ms / c->machine.ms;
}

static void print_row(const kiln_vta_candidate *c, kiln_strbuf *out) {
    const kiln_vta_machine *m = &c->machine;
    kiln_vta_config_print(&m->config, out);
    kiln_strbuf_printf(out, "\t%u\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.0f\t%.0f\t%.1f\t%u\t%u\t%s\n",
                       m->lut_columns, kiln_vta_candidate_ms(c), m->ms, m->bound_ms,
                       kiln_vta_candidate_gops(c), m->mj, m->resources.lut, m->resources.ff,
                       m->resources.bram18 / 2.0, m->resources.dsp, c->tuned.trials,
                       kiln_vta_schedules_name(c));
}

static kiln_status write_found(const search_call *c, const kiln_vta_found *f) {
    kiln_strbuf text[4] = {0};
    static const char *const name[] = {"winner.vta", "winner.vh", "candidates.tsv", "pareto.html"};
    const kiln_vta_machine *winner = &f->candidate[0].machine;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_vta_config_print(&winner->config, &text[0]);
    kiln_strbuf_char(&text[0], '\n');
    kiln_status st = kiln_vta_rtl_params_print(&winner->config, winner->lut_columns, &text[1]);
    kiln_strbuf_text(&text[2], "config\tlut_columns\tms\tcuts_ms\tbound_ms\tgops\tmj\tlut\tff\t"
                               "bram36\tdsp\ttrials\tschedules\n");
    for (uint32_t i = 0; i <= f->candidate_count; i++) print_row(&f->candidate[i], &text[2]);
    kiln_vta_page_print(f, &text[3]);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        if (!st)
            st = kiln_file_write(kiln_arena_printf(&arena, "%s/%s", c->out, name[i]),
                                 kiln_strbuf_view(&text[i]), 0644);
        kiln_strbuf_deinit(&text[i]);
    }
    kiln_arena_deinit(&arena);
    return st;
}

static void print_candidate(const char *name, const kiln_vta_candidate *c) {
    const kiln_vta_machine *m = &c->machine;
    kiln_strbuf config = {0};
    kiln_vta_config_print(&m->config, &config);
    printf("%-7s %8.2f ms %7.1f GOPS %6.2f mJ  %6.0f LUT %6.0f FF %5.1f RAMB36 %3u DSP  %s", name,
           kiln_vta_candidate_ms(c), kiln_vta_candidate_gops(c), m->mj, m->resources.lut,
           m->resources.ff, m->resources.bram18 / 2.0, m->resources.dsp, config.data);
    if (m->lut_columns) printf(", %u columns in LUTs", m->lut_columns);
    if (c->tuned.ms > 0) printf(", %u trials", c->tuned.trials);
    if (c->tuned.why_not) printf(", by cuts: %s", c->tuned.why_not);
    putchar('\n');
    kiln_strbuf_deinit(&config);
}

static json_t *gain_json(const kiln_vta_found *f, const kiln_vta_candidate *c) {
    kiln_strbuf config = {0};
    if (!c) return json_null();
    kiln_vta_config_print(&c->machine.config, &config);
    json_t *json = json_pack("{s:s, s:f, s:f, s:f, s:i, s:f}", "config", config.data, "ms",
                             kiln_vta_candidate_ms(c), "gain", gain_of(f, c), "bram36",
                             c->machine.resources.bram18 / 2.0, "dsp",
                             (int)c->machine.resources.dsp, "lut", c->machine.resources.lut);
    kiln_strbuf_deinit(&config);
    return json;
}

static void print_json(const kiln_vta_found *f, double seconds) {
    const kiln_vta_candidate *winner = &f->candidate[0];
    kiln_strbuf config = {0};
    kiln_vta_config_print(&winner->machine.config, &config);
    kiln_json_line(json_pack(
        "{s:s, s:I, s:i, s:i, s:f, s:i, s:s, s:i, s:s, s:i, s:f, s:f, s:f, s:o, s:f}", "event",
        "done", "looked_at", (json_int_t)f->looked_at, "fit", (int)f->machine.count, "evaluated",
        (int)f->evaluated, "rank_correlation", f->rank_correlation, "samples", (int)f->sample_count,
        "winner", config.data, "lut_columns", (int)winner->machine.lut_columns, "schedules",
        kiln_vta_schedules_name(winner), "trials", (int)winner->tuned.trials, "ms",
        kiln_vta_candidate_ms(winner), "preset_ms", kiln_vta_candidate_ms(preset_of(f)), "gain",
        gain_of(f, winner), "equal", gain_json(f, f->equal), "wall_s", seconds));
    kiln_strbuf_deinit(&config);
}

static void print_found(const search_call *c, const kiln_vta_found *f) {
    const double seconds = (double)(kiln_clock_ns() - c->begun_ns) / 1e9;
    if (c->json) {
        print_json(f, seconds);
        return;
    }
    for (uint32_t i = 0; i < f->candidate_count; i++)
        print_candidate(i ? "" : "winner", &f->candidate[i]);
    print_candidate("pynq", preset_of(f));
    const kiln_vta_resources *has = &c->chip.has;
    printf("%-7s %35s  %6.0f LUT %6.0f FF %5.1f RAMB36 %3u DSP\n", c->device, "has", has->lut,
           has->ff, has->bram18 / 2.0, has->dsp);
    if (f->equal) {
        printf("of pynq's block RAM and clock, %.2fx as fast as pynq:\n", gain_of(f, f->equal));
        print_candidate("", f->equal);
    }
    printf("the winner is %.2fx as fast as pynq (LUT, FF and the clock are models); its "
           "configuration is in %s, after %.0f s\n",
           gain_of(f, &f->candidate[0]), c->out, seconds);
}

/* ---- the command ---- */

static kiln_status read_layers(search_call *c, kiln_arena *process, kiln_vta_found *f) {
    kiln_vta_layers *l = &c->judged;
    if (!c->model == !c->layers)
        return KILN_ERROR(INVALID_ARGUMENT, "say either --model or --layers");
    if (c->model && c->batch)
        return KILN_ERROR(INVALID_ARGUMENT, "--batch goes with --layers: a model has its own");
    f->source = c->model ? c->model : c->layers;
    kiln_status st = c->model ? kiln_vta_layers_of_model(c->model, process, l)
                              : kiln_vta_layers_named(c->layers, l);
    if (st) return st;
    if (l->left)
        fprintf(stderr,
                "convolutions left to the processor: %u (on floats, groups, dilations, kernels "
                "that are no squares, or fewer than 8 input channels)\n",
                l->left);
    f->wanted.layer = l->layer;
    f->wanted.layer_count = l->count;
    f->wanted.adds_bytes = l->adds_bytes;
    f->wanted.batch = c->batch ? (uint32_t)c->batch : l->batch;
    return KILN_OK;
}

static kiln_status read_limits(search_call *c, kiln_vta_found *f) {
    const kiln_vta_device *device = kiln_vta_device_find(c->device);
    if (!device) return KILN_ERROR(NOT_FOUND, "--device %s: known is xc7z020", c->device);
    if (!c->seconds || c->batch > BATCH_MAX || !c->trials || !c->candidates ||
        c->candidates > KILN_VTA_CANDIDATES_MAX || !c->channels || c->channels > 4 || !c->jobs ||
        c->jobs > JOBS_MAX)
        return KILN_ERROR(
            INVALID_ARGUMENT,
            "--seconds and --trials are at least 1, --candidates 1 to 10, --batch 1 to 16, "
            "--channels 1 to 4, --jobs 1 to 64");
    c->chip = *device;
    if (c->lut) c->chip.has.lut = (double)c->lut;
    if (c->ff) c->chip.has.ff = (double)c->ff;
    if (c->bram) c->chip.has.bram18 = (uint32_t)KILN_MIN(2 * c->bram, device->has.bram18);
    if (c->dsp) c->chip.has.dsp = (uint32_t)KILN_MIN(c->dsp, device->has.dsp);
    f->wanted.device = &c->chip;
    f->wanted.clock_mhz = (uint32_t)KILN_MIN(c->clock, 1000);
    f->wanted.channels = (uint32_t)c->channels;
    f->wanted.channel_bits = 64;
    return KILN_OK;
}

kiln_status kiln_vta_search_command(kiln_arena *process, int argc, char **argv) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    search_call c = {.device = "xc7z020",
                     .out = "vta-search",
                     .seconds = 600,
                     .candidates = KILN_VTA_CANDIDATES_MAX,
                     .trials = 48,
                     .clock = 100,
                     .channels = 4,
                     .jobs = processors > 0 ? (uint64_t)KILN_MIN(processors, (long)JOBS_MAX) : 1,
                     .begun_ns = kiln_clock_ns()};
    const kiln_opt option[] = {
        {"device", KILN_OPT_TEXT, &c.device, "CHIP", "the FPGA (default xc7z020)"},
        {"model", KILN_OPT_TEXT, &c.model, "FILE",
         "a model on bytes (kiln quantize --shift), whose convolutions are run; it is tuned for "
         "the candidates"},
        {"layers", KILN_OPT_TEXT, &c.layers, "NAMES",
         "layers of ResNet-18 instead, without tuning: C2..C12, or C9"},
        {"out", KILN_OPT_TEXT, &c.out, "FOLDER",
         "for winner.vta, winner.vh, candidates.tsv, pareto.html, and with --model tuning.db and "
         "winner.kiln (default vta-search)"},
        {"seconds", KILN_OPT_COUNT, &c.seconds, "S", "for all of it, about (default 600)"},
        {"evaluate", KILN_OPT_COUNT, &c.evaluate, "N",
         "simulate the N machines with the best bounds, beside some 120 that show how well bounds "
         "rank (default as many as S allows)"},
        {"candidates", KILN_OPT_COUNT, &c.candidates, "N",
         "machines that differ in more than their memories, for which the model is tuned (default "
         "10)"},
        {"trials", KILN_OPT_COUNT, &c.trials, "N",
         "of each candidate, at most; those in tuning.db count (default 48)"},
        {"tracker", KILN_OPT_TEXT, &c.tracker, "ADDR",
         "tune over this fleet, whose boards offer the candidates (default: a private one for "
         "each, with the machine simulated)"},
        KILN_CLIENT_KEY_OPTIONS(&c),
        {"batch", KILN_OPT_COUNT, &c.batch, "N", "images at once, of --layers (default 1)"},
        {"clock", KILN_OPT_COUNT, &c.clock, "MHZ",
         "the most; what a pipeline allows is a guess "
         "(default 100, that of pynq)"},
        {"channels", KILN_OPT_COUNT, &c.channels, "N",
         "memory channels of 64 bits, the most (default 4)"},
        {"lut", KILN_OPT_COUNT, &c.lut, "N", "LUTs that it may take (default all)"},
        {"ff", KILN_OPT_COUNT, &c.ff, "N", "flip-flops (default all)"},
        {"bram", KILN_OPT_COUNT, &c.bram, "N", "block RAMs of 36 Kbit (default all)"},
        {"dsp", KILN_OPT_COUNT, &c.dsp, "N", "DSP blocks (default all)"},
        {"jobs", KILN_OPT_COUNT, &c.jobs, "N",
         "threads, and candidates that are tuned at once (default one for each processor)"},
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object per line"},
    };
    const kiln_opt_table table = {
        "kiln vta search --model FILE|--layers NAMES [options]",
        "Finds an accelerator of the VTA class for a model and an FPGA: enumerates machines that "
        "fit, ranks them by bounds, simulates them by the cycle with a few cuts, tunes the model "
        "for the ten best and writes the fastest with what was tuned. Inputs and weights have 8 "
        "bits. LUTs, flip-flops and the clock are models (docs/how-to/vta-hardware.md).",
        option,
        KILN_ARRAY_COUNT(option),
        0,
        0};
    kiln_args args;
    kiln_vta_found found = {0};
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    st = read_limits(&c, &found);
    if (!st) st = read_layers(&c, process, &found);
    if (!st) st = kiln_folder_create(c.out, 0755);
    if (!st) st = search(&c, &found, process);
    if (!st) st = write_found(&c, &found);
    if (!st) print_found(&c, &found);
    kiln_vec_deinit(&found.machine);
    return st;
}
