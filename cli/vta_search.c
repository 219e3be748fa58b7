#include "cli/vta_search.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/common/json.h"
#include "cli/vta_compile.h"
#include "vta/rtl/params.h"

#define SAMPLES 100u        /* machines from all over the space, by which bounds are judged */
#define SIMULATED 3u        /* cuts of each layer, of every machine */
#define EVALUATE_SHARE 0.85 /* of the time; candidates have the rest */
#define JOBS_MAX 64u

/* Schedules of each layer that are compiled and simulated of every candidate, and of the preset:
 * more in each round, and as many rounds as there is time for, at least one. */
static const uint32_t compiled_table[] = {4, 16, 64};

typedef struct search_call {
    const char *device, *model, *layers, *out;
    uint64_t seconds, evaluate, batch, clock, channels, lut, ff, bram, dsp, jobs;
    bool json;
    kiln_vta_device chip; /* with what of it may be taken */
    kiln_vta_layer layer[KILN_VTA_LAYERS_MAX];
    uint64_t begun_ns;
} search_call;

/* ---- evaluating by several threads ---- */

typedef struct evaluation {
    const kiln_vta_wanted *wanted;
    kiln_vta_machine *machine;
    uint32_t count, step, simulate_count; /* every step-th of so many */
    bool compiles;                        /* also those that have a time by cuts */
    uint64_t deadline_ns;
    _Atomic uint32_t next;
} evaluation;

/* One that cannot run a layer keeps its time, which is 0, and is none that is found. */
static void evaluate_one(const evaluation *e, kiln_vta_machine *m) {
    kiln_status st = NULL;
    if (e->compiles) {
        st = kiln_vta_machine_evaluate(e->wanted, kiln_vta_schedule_compiled, e->simulate_count, m);
        m->compiled = !st;
        if (!st) return;
        kiln_status_free(st); /* the compiler has no schedule for it, cuts may have */
    }
    st = kiln_vta_machine_evaluate(e->wanted, kiln_vta_schedule_cuts, e->simulate_count, m);
    kiln_status_free(st);
}

static void *evaluate_some(void *context) {
    evaluation *e = context;
    for (;;) {
        const uint32_t i = atomic_fetch_add(&e->next, e->step);
        if (i >= e->count || kiln_clock_ns() >= e->deadline_ns) return NULL;
        if (e->machine[i].ms > 0 && !e->compiles) continue;
        evaluate_one(e, &e->machine[i]);
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

static double judge_bounds(const kiln_vta_machines *machines, uint32_t step) {
    double bound[2 * SAMPLES], ms[2 * SAMPLES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < machines->count && count < 2 * SAMPLES; i += step) {
        if (machines->data[i].ms <= 0) continue;
        bound[count] = machines->data[i].bound_ms;
        ms[count++] = machines->data[i].ms;
    }
    return rank_correlation(bound, ms, count);
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

/* The fastest of each kind. */
static void choose_candidates(kiln_vta_found *f) {
    for (uint32_t i = 0; i < f->evaluated && f->candidate_count < KILN_VTA_CANDIDATES_MAX; i++) {
        bool is_new = true;
        for (uint32_t k = 0; k < f->candidate_count; k++)
            is_new &= !same_kind(&f->candidate[k].config, &f->machine.data[i].config);
        if (is_new) f->candidate[f->candidate_count++] = f->machine.data[i];
    }
}

/* Times of candidates and the preset by the compiler. */
static void compile_candidates(const search_call *c, kiln_vta_found *f) {
    kiln_vta_machine machine[KILN_VTA_CANDIDATES_MAX + 1];
    const uint64_t end_ns = c->begun_ns + c->seconds * KILN_NS_PER_S;
    uint64_t took_ns = 0;
    memcpy(machine, f->candidate, sizeof f->candidate);
    machine[f->candidate_count] = f->preset;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(compiled_table); i++) {
        const uint64_t now_ns = kiln_clock_ns();
        if (i && now_ns + took_ns * compiled_table[i] / f->compiled_each > end_ns) break;
        f->compiled_each = compiled_table[i];
        evaluation e = {.wanted = &f->wanted,
                        .machine = machine,
                        .count = f->candidate_count + 1,
                        .step = 1,
                        .simulate_count = f->compiled_each,
                        .compiles = true,
                        .deadline_ns = UINT64_MAX};
        evaluate(c, &e);
        took_ns = kiln_clock_ns() - now_ns;
    }
    memcpy(f->candidate, machine, f->candidate_count * sizeof *machine);
    f->preset = machine[f->candidate_count];
    qsort(f->candidate, f->candidate_count, sizeof *f->candidate, by_time);
}

static kiln_status search(search_call *c, kiln_vta_found *f) {
    const uint64_t whole = c->seconds * KILN_NS_PER_S;
    f->looked_at = kiln_vta_space_enumerate(&f->wanted, &f->machine);
    if (!f->machine.count)
        return KILN_ERROR(NOT_FOUND, "no machine fits into what %s may give", c->device);
    evaluation e = {.wanted = &f->wanted,
                    .machine = f->machine.data,
                    .count = f->machine.count,
                    .step = (f->machine.count + SAMPLES - 1) / SAMPLES,
                    .simulate_count = SIMULATED,
                    .deadline_ns = c->begun_ns + (uint64_t)(EVALUATE_SHARE * (double)whole)};
    evaluate(c, &e);
    f->rank_correlation = judge_bounds(&f->machine, e.step);
    e.step = 1;
    e.next = 0;
    if (c->evaluate && c->evaluate < e.count) e.count = (uint32_t)c->evaluate;
    evaluate(c, &e);
    qsort(f->machine.data, f->machine.count, sizeof *f->machine.data, by_time);
    while (f->evaluated < f->machine.count && f->machine.data[f->evaluated].ms > 0) f->evaluated++;
    if (!f->evaluated)
        return KILN_ERROR(NOT_FOUND, "no machine of %u could run every layer in %llu s",
                          f->machine.count, (unsigned long long)c->seconds);
    choose_candidates(f);
    kiln_status st = kiln_vta_config_parse(KILN_STR("pynq"), &f->preset.config);
    if (st) return st;
    f->preset.resources = kiln_vta_resources_of(&f->preset.config, 0);
    f->preset.bound_ms = kiln_vta_machine_bound(&f->wanted, &f->preset.config);
    compile_candidates(c, f);
    return f->preset.ms > 0 ? KILN_OK
                            : KILN_ERROR(NOT_FOUND, "pynq, for comparison, has no schedule for a "
                                                    "layer");
}

/* ---- what is written ---- */

static void print_row(const kiln_vta_machine *m, kiln_strbuf *out) {
    kiln_vta_config_print(&m->config, out);
    kiln_strbuf_printf(out, "\t%u\t%.4g\t%.4g\t%.4g\t%.4g\t%.0f\t%.0f\t%.1f\t%u\t%s\n",
                       m->lut_columns, m->ms, m->bound_ms, m->gops, m->mj, m->resources.lut,
                       m->resources.ff, m->resources.bram18 / 2.0, m->resources.dsp,
                       kiln_vta_schedules_name(m));
}

static kiln_status write_found(const search_call *c, const kiln_vta_found *f) {
    kiln_strbuf text[4] = {0};
    static const char *const name[] = {"winner.vta", "winner.vh", "candidates.tsv", "pareto.html"};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_vta_config_print(&f->candidate[0].config, &text[0]);
    kiln_strbuf_char(&text[0], '\n');
    kiln_status st =
        kiln_vta_rtl_params_print(&f->candidate[0].config, f->candidate[0].lut_columns, &text[1]);
    kiln_strbuf_text(
        &text[2], "config\tlut_columns\tms\tbound_ms\tgops\tmj\tlut\tff\tbram36\tdsp\tschedules\n");
    for (uint32_t i = 0; i < f->candidate_count; i++) print_row(&f->candidate[i], &text[2]);
    print_row(&f->preset, &text[2]);
    kiln_vta_page_print(f, &text[3]);
    if (!st) st = kiln_folder_create(c->out, 0755);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        if (!st)
            st = kiln_file_write(kiln_arena_printf(&arena, "%s/%s", c->out, name[i]),
                                 kiln_strbuf_view(&text[i]), 0644);
        kiln_strbuf_deinit(&text[i]);
    }
    kiln_arena_deinit(&arena);
    return st;
}

static void print_machine(const char *name, const kiln_vta_machine *m) {
    kiln_strbuf config = {0};
    kiln_vta_config_print(&m->config, &config);
    printf("%-7s %8.2f ms %7.1f GOPS %6.2f mJ  %6.0f LUT %6.0f FF %5.1f RAMB36 %3u DSP  %s", name,
           m->ms, m->gops, m->mj, m->resources.lut, m->resources.ff, m->resources.bram18 / 2.0,
           m->resources.dsp, config.data);
    if (m->lut_columns) printf(", %u columns in LUTs", m->lut_columns);
    printf(m->compiled ? "\n" : ", by cuts\n");
    kiln_strbuf_deinit(&config);
}

static void print_found(const search_call *c, const kiln_vta_found *f) {
    const kiln_vta_machine *winner = &f->candidate[0];
    const double seconds = (double)(kiln_clock_ns() - c->begun_ns) / 1e9;
    if (c->json) {
        kiln_strbuf config = {0};
        kiln_vta_config_print(&winner->config, &config);
        kiln_json_line(json_pack(
            "{s:s, s:I, s:i, s:i, s:f, s:i, s:s, s:i, s:s, s:f, s:f, s:f, s:f}", "event", "done",
            "looked_at", (json_int_t)f->looked_at, "fit", (int)f->machine.count, "evaluated",
            (int)f->evaluated, "rank_correlation", f->rank_correlation, "compiled_each",
            (int)f->compiled_each, "winner", config.data, "lut_columns", (int)winner->lut_columns,
            "schedules", kiln_vta_schedules_name(winner), "ms", winner->ms, "preset_ms",
            f->preset.ms, "gain", f->preset.ms / winner->ms, "wall_s", seconds));
        kiln_strbuf_deinit(&config);
        return;
    }
    printf("%llu configurations looked at, %u kept of those that fit, %u simulated on %u layers in "
           "%.0f s; rank correlation of bounds with simulated times %.3f\n",
           (unsigned long long)f->looked_at, f->machine.count, f->evaluated, f->wanted.layer_count,
           seconds, f->rank_correlation);
    printf("candidates: %u schedules of each layer by the compiler\n", f->compiled_each);
    for (uint32_t i = 0; i < f->candidate_count; i++)
        print_machine(i ? "" : "winner", &f->candidate[i]);
    print_machine("pynq", &f->preset);
    printf("the winner is %.2fx as fast as pynq (LUT, FF and the clock are models); %s has it\n",
           f->preset.ms / winner->ms, c->out);
}

/* ---- the command ---- */

static kiln_status read_layers(search_call *c, kiln_arena *process, kiln_vta_found *f) {
    uint32_t left = 0;
    if (!c->model == !c->layers)
        return KILN_ERROR(INVALID_ARGUMENT, "say either --model or --layers");
    f->source = c->model ? c->model : c->layers;
    f->wanted.layer = c->layer;
    if (c->layers) return kiln_vta_layers_named(c->layers, c->layer, &f->wanted.layer_count);
    kiln_status st =
        kiln_vta_layers_of_model(c->model, process, c->layer, &f->wanted.layer_count, &left);
    if (!st && left)
        fprintf(stderr,
                "convolutions left to the processor: %u (groups, dilations, kernels that are no "
                "squares, or fewer than 8 input channels)\n",
                left);
    return st;
}

static kiln_status read_limits(search_call *c, kiln_vta_found *f) {
    const kiln_vta_device *device = kiln_vta_device_find(c->device);
    if (!device) return KILN_ERROR(NOT_FOUND, "--device %s: known is xc7z020", c->device);
    if (!c->seconds || !c->batch || c->batch > 16 || !c->channels || c->channels > 4 || !c->jobs ||
        c->jobs > JOBS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "--seconds is at least 1, --batch 1 to 16, --channels "
                                            "1 to 4, --jobs 1 to 64");
    c->chip = *device;
    if (c->lut) c->chip.has.lut = (double)c->lut;
    if (c->ff) c->chip.has.ff = (double)c->ff;
    if (c->bram) c->chip.has.bram18 = (uint32_t)KILN_MIN(2 * c->bram, device->has.bram18);
    if (c->dsp) c->chip.has.dsp = (uint32_t)KILN_MIN(c->dsp, device->has.dsp);
    f->wanted.device = &c->chip;
    f->wanted.batch = (uint32_t)c->batch;
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
                     .batch = 1,
                     .clock = 100,
                     .channels = 4,
                     .jobs = processors > 0 ? (uint64_t)KILN_MIN(processors, (long)JOBS_MAX) : 1,
                     .begun_ns = kiln_clock_ns()};
    const kiln_opt option[] = {
        {"device", KILN_OPT_TEXT, &c.device, "CHIP", "the FPGA (default xc7z020)"},
        {"model", KILN_OPT_TEXT, &c.model, "FILE", "a model, whose convolutions are run"},
        {"layers", KILN_OPT_TEXT, &c.layers, "NAMES",
         "layers of ResNet-18 instead: C2..C12, or C9"},
        {"out", KILN_OPT_TEXT, &c.out, "FOLDER",
         "for winner.vta, winner.vh, candidates.tsv and pareto.html (default vta-search)"},
        {"seconds", KILN_OPT_COUNT, &c.seconds, "S", "for all of it, about (default 600)"},
        {"evaluate", KILN_OPT_COUNT, &c.evaluate, "N",
         "simulate the N machines with the best bounds, beside some 100 that show how well bounds "
         "rank (default as many as S allows)"},
        {"batch", KILN_OPT_COUNT, &c.batch, "N", "images that the model runs at once (default 1)"},
        {"clock", KILN_OPT_COUNT, &c.clock, "MHZ",
         "the most; what a pipeline allows is a guess "
         "(default 100, that of pynq)"},
        {"channels", KILN_OPT_COUNT, &c.channels, "N",
         "memory channels of 64 bits, the most (default 4)"},
        {"lut", KILN_OPT_COUNT, &c.lut, "N", "LUTs that it may take (default all)"},
        {"ff", KILN_OPT_COUNT, &c.ff, "N", "flip-flops (default all)"},
        {"bram", KILN_OPT_COUNT, &c.bram, "N", "block RAMs of 36 Kbit (default all)"},
        {"dsp", KILN_OPT_COUNT, &c.dsp, "N", "DSP blocks (default all)"},
        {"jobs", KILN_OPT_COUNT, &c.jobs, "N", "threads (default one for each processor)"},
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object per line"},
    };
    const kiln_opt_table table = {
        "kiln vta search --model FILE|--layers NAMES [options]",
        "Finds an accelerator of the VTA class for a model and an FPGA: enumerates machines that "
        "fit, ranks them by bounds, simulates the best by the cycle with a few cuts, the ten "
        "best of these with the compiler's schedules, and writes the fastest. Inputs and weights "
        "have 8 bits. LUTs, flip-flops "
        "and the clock are models (docs/how-to/vta-hardware.md).",
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
    if (!st) st = search(&c, &found);
    if (!st) st = write_found(&c, &found);
    if (!st) print_found(&c, &found);
    kiln_vec_deinit(&found.machine);
    return st;
}
