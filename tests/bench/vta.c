/* What accelerators of the VTA class reach on convolutions C2 to C12 of ResNet-18, by the cycle
 * simulator, as the compiler schedules them: how much of what the machine could do, with one
 * virtual thread and one stage and with what hides latency; what each feature of v2 brings. Beside
 * it the cuts of vta/search, by which hardware is searched: also what the port to memory does, and
 * how fast the simulators are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "tests/support/vta_tuning.h"
#include "vta/search/cut.h"
#include "vta/search/resources.h"

/* Schedules of each layer that are simulated with one thread and one stage, and with any; so many
 * cuts, too. */
#define SIMULATED 32u

/* v1, v2, and between them one feature more in each row. */
static const char *const machine_table[] = {"pynq", "pynq,v2", "pynq,bus128,v2"};
static const char *const ablation_table[] = {
    "pynq",          "pynq,v1+first",  "pynq,v1+first+chain", "pynq,v1+first+chain+engine",
    "pynq,v1+chain", "pynq,v1+engine", "pynq,v2-first",       "pynq,v2-chain",
    "pynq,v2-engine"};

/* Ways to schedule a layer: columns of the table. */
typedef enum way {
    COMPILED_DEFAULT, /* without a measurement */
    COMPILED_ALONE,   /* the best with one virtual thread and one stage */
    COMPILED,         /* the best of all */
    CUT_ALONE,        /* the best cuts with one thread, and with two */
    CUT,
    WAYS
} way;
static const char *const way_name[] = {"default", "1", "best", "cut 1", "cut 2"};

typedef struct layer_time {
    kiln_vta_timing timing;
    uint32_t threads, stages, instructions;
    uint64_t stream_bytes;
} layer_time;

/* Sums over layers. */
typedef struct total {
    double multiply_adds, cycles, bound, instructions, no_ops, stream_bytes;
    double best; /* utilisation of one layer */
} total;

static double utilisation(const kiln_vta_config *config, double multiply_adds, double cycles) {
    return multiply_adds / kiln_vta_peak(config) / cycles;
}

static void add(total *t, const kiln_vta_config *config, const kiln_vta_layer *layer,
                const layer_time *time) {
    const kiln_vta_conv conv = kiln_vta_layer_tiled(layer, config);
    const double adds = (double)kiln_vta_layer_multiply_adds(layer);
    t->multiply_adds += adds;
    t->cycles += (double)time->timing.cycles;
    t->bound += kiln_vta_conv_bound(config, &conv).all;
    t->instructions += time->instructions;
    t->no_ops += (double)time->timing.counts.no_ops;
    t->stream_bytes += (double)time->stream_bytes;
    t->best = fmax(t->best, utilisation(config, adds, (double)time->timing.cycles));
}

static kiln_vta_config config_of(const char *text) {
    kiln_vta_config config;
    kiln_status st = kiln_vta_config_parse(kiln_str_from(text), &config);
    if (st) {
        fprintf(stderr, "%s\n", kiln_status_text(st));
        exit(2);
    }
    return config;
}

static void must(kiln_status st, const char *what) {
    if (!st) return;
    fprintf(stderr, "%s: %s\n", what, kiln_status_text(st));
    exit(1);
}

static kiln_vta_cut_time run_cut(const kiln_vta_config *config, const kiln_vta_layer *layer,
                                 uint32_t threads) {
    const kiln_vta_conv conv = kiln_vta_layer_tiled(layer, config);
    kiln_vta_cut_time time;
    must(kiln_vta_cut_search(config, &conv, threads, SIMULATED, &time), layer->name);
    return time;
}

static layer_time time_cut(const kiln_vta_config *config, const kiln_vta_layer *layer,
                           uint32_t threads) {
    const kiln_vta_cut_time cut = run_cut(config, layer, threads);
    return (layer_time){cut.timing, threads, 0, cut.instructions, cut.stream_bytes};
}

static void time_compiled(const kiln_vta_config *config, const kiln_vta_layer *layer,
                          layer_time time[WAYS]) {
    kiln_arena arena;
    kiln_vta_tuning tuning;
    kiln_vta_compiled found[COMPILED + 1];
    kiln_arena_init(&arena, 0);
    must(kiln_vta_tuning_create(layer, config, &arena, &tuning), layer->name);
    must(kiln_vta_tuning_default(&tuning, &arena, &found[COMPILED_DEFAULT]), layer->name);
    must(kiln_vta_tuning_best(&tuning, true, SIMULATED, &arena, &found[COMPILED_ALONE]),
         layer->name);
    must(kiln_vta_tuning_best(&tuning, false, SIMULATED, &arena, &found[COMPILED]), layer->name);
    for (uint32_t w = 0; w <= COMPILED; w++)
        time[w] = (layer_time){found[w].timing, found[w].threads, found[w].stages,
                               found[w].instructions, found[w].stream_bytes};
    kiln_arena_deinit(&arena);
}

static void time_all(const kiln_vta_config *config, const kiln_vta_layer *layer,
                     layer_time time[WAYS]) {
    time_compiled(config, layer, time);
    time[CUT_ALONE] = time_cut(config, layer, 1);
    time[CUT] = time_cut(config, layer, 2);
}

static void print_utilisation(const kiln_vta_config *config, const total all[WAYS]) {
    for (uint32_t w = 0; w < WAYS; w++)
        printf(" %7.3f", utilisation(config, all[w].multiply_adds, all[w].cycles));
}

static void print_ways(void) {
    for (uint32_t w = 0; w < WAYS; w++) printf(" %7s", way_name[w]);
}

static void table(const char *machine, const kiln_vta_layer *layer, uint32_t layers) {
    const kiln_vta_config config = config_of(machine);
    total all[WAYS] = {0};
    printf("\n%s\n%-5s %9s %6s ", machine, "layer", "kcycles", "bound");
    print_ways();
    printf("  %8s  best\n", "of bound");
    for (uint32_t i = 0; i < layers; i++) {
        const kiln_vta_conv conv = kiln_vta_layer_tiled(&layer[i], &config);
        const double bound = kiln_vta_conv_bound(&config, &conv).all;
        total one[WAYS] = {0};
        layer_time time[WAYS];
        time_all(&config, &layer[i], time);
        for (uint32_t w = 0; w < WAYS; w++) {
            add(&one[w], &config, &layer[i], &time[w]);
            add(&all[w], &config, &layer[i], &time[w]);
        }
        printf("%-5s %9.1f %6.3f ", layer[i].name, one[COMPILED].cycles / 1e3,
               utilisation(&config, one[COMPILED].multiply_adds, bound));
        print_utilisation(&config, one);
        printf("  %8.3f  threads %u, stages %u\n", bound / one[COMPILED].cycles,
               time[COMPILED].threads, time[COMPILED].stages);
        fflush(stdout);
    }
    const total *best = &all[COMPILED];
    printf("%-5s %9.1f %6.3f ", "total", best->cycles / 1e3,
           utilisation(&config, best->multiply_adds, best->bound));
    print_utilisation(&config, all);
    printf("  %8.3f\nbest layer             ", best->bound / best->cycles);
    for (uint32_t w = 0; w < WAYS; w++) printf(" %7.3f", all[w].best);
    printf("\nstream bytes a thousand multiply-adds %.3f, no-ops %.2f %% of %.0f instructions\n",
           1e3 * best->stream_bytes / best->multiply_adds, 100 * best->no_ops / best->instructions,
           best->instructions);
}

static void ablation(const kiln_vta_layer *layer, uint32_t layers) {
    printf("\n%-28s", "features, total");
    print_ways();
    printf(" %7s %8s\n", "bound", "no-ops");
    for (uint32_t m = 0; m < KILN_ARRAY_COUNT(ablation_table); m++) {
        const kiln_vta_config config = config_of(ablation_table[m]);
        total all[WAYS] = {0};
        for (uint32_t i = 0; i < layers; i++) {
            layer_time time[WAYS];
            time_all(&config, &layer[i], time);
            for (uint32_t w = 0; w < WAYS; w++) add(&all[w], &config, &layer[i], &time[w]);
        }
        const total *best = &all[COMPILED];
        printf("%-28s", ablation_table[m]);
        print_utilisation(&config, all);
        printf(" %7.3f %6.2f %%\n", utilisation(&config, best->multiply_adds, best->bound),
               100 * best->no_ops / best->instructions);
        fflush(stdout);
    }
}

static void sensitivity(const kiln_vta_layer *layer, uint32_t layers) {
    static const char *const base[] = {"pynq", "pynq,v2"};
    for (uint32_t m = 0; m < KILN_ARRAY_COUNT(base); m++) {
        printf(
            "\n%s, cuts with 2 threads: total by bytes a cycle (down) and latency (across)\n      ",
            base[m]);
        for (uint32_t latency = 16; latency <= 256; latency *= 2) printf(" %6u", latency);
        for (uint32_t bytes = 4; bytes <= 32; bytes *= 2) {
            printf("\n%6u", bytes);
            for (uint32_t latency = 16; latency <= 256; latency *= 2) {
                kiln_vta_config config = config_of(base[m]);
                config.bus_bits = 8 * bytes;
                config.latency = latency;
                total two = {0};
                for (uint32_t i = 0; i < layers; i++) {
                    const layer_time time = time_cut(&config, &layer[i], 2);
                    add(&two, &config, &layer[i], &time);
                }
                printf(" %6.3f", utilisation(&config, two.multiply_adds, two.cycles));
                fflush(stdout);
            }
        }
        printf("\n");
    }
}

/* Both simulators on C9, on one core. */
static void speed(const kiln_vta_layer *layer) {
    const kiln_vta_config config = config_of("pynq");
    const kiln_vta_conv conv = kiln_vta_layer_tiled(layer, &config);
    const kiln_vta_cut_time time = run_cut(&config, layer, 2);
    kiln_arena arena;
    kiln_vta_stream stream;
    kiln_vta_counts counts;
    kiln_vta_timing timing;
    kiln_vta_fault fault;
    kiln_arena_init(&arena, 0);
    must(kiln_vta_conv_build(&config, &conv, &time.cut, &arena, &stream), layer->name);
    const kiln_vta_program *p = stream.program;
    uint64_t *place = KILN_ARENA_ARRAY(&arena, uint64_t, p->buffer_count);
    const uint64_t bytes = kiln_vta_program_place(p, place);
    uint8_t *dram = kiln_arena_alloc(&arena, bytes);
    kiln_vta_program_fill(p, place, dram);
    const double adds = (double)kiln_vta_layer_multiply_adds(layer);
    uint64_t at = kiln_clock_thread_ns(), ns[3];
    bool ok = kiln_vta_fsim_run(p, dram, bytes, 0, &counts, &fault);
    ns[0] = kiln_clock_thread_ns() - at;
    at = kiln_clock_thread_ns();
    ok &= kiln_vta_csim_run(p, dram, bytes, &(kiln_vta_csim_options){0}, &arena, &timing, &fault);
    ns[1] = kiln_clock_thread_ns() - at;
    at = kiln_clock_thread_ns();
    ok &= kiln_vta_csim_run(p, NULL, 0, &(kiln_vta_csim_options){.timing_only = true}, &arena,
                            &timing, &fault);
    ns[2] = kiln_clock_thread_ns() - at;
    if (!ok) {
        fprintf(stderr, "%s: %s\n", layer->name, fault.text);
        exit(1);
    }
    printf("\n%s of pynq on one core: functional simulator %.2f GMAC/s, by the cycle %.2f GMAC/s; "
           "its cycles alone %.2f ms\n",
           layer->name, adds / (double)ns[0], adds / (double)ns[1], (double)ns[2] / 1e6);
    kiln_arena_deinit(&arena);
}

/* FOLDER/LAYER.vta, the best program of the compiler for each layer. */
static void write_programs(const char *machine, const char *folder, const kiln_vta_layer *layer,
                           uint32_t layers) {
    const kiln_vta_config config = config_of(machine);
    for (uint32_t i = 0; i < layers; i++) {
        kiln_arena arena;
        kiln_vta_tuning tuning;
        kiln_vta_compiled best;
        kiln_arena_init(&arena, 0);
        must(kiln_vta_tuning_create(&layer[i], &config, &arena, &tuning), layer[i].name);
        must(kiln_vta_tuning_best(&tuning, false, SIMULATED, &arena, &best), layer[i].name);
        const char *path = kiln_arena_printf(&arena, "%s/%s.vta", folder, layer[i].name);
        must(kiln_file_write(path, best.program, 0644), path);
        kiln_arena_deinit(&arena);
    }
}

/* Machines that were synthesised, for the fit of vta/search/resources.def: amounts with their
 * names, LUTs that are no memories, flip-flops, whether the fit may see it; then what the model
 * says. */
static void print_resources(void) {
    static const struct {
        const char *config;
        uint32_t lut_columns;
        double lut, ff;
        bool held_out;
    } row[] = {
#define X(config, columns, lut, ff, bram18, dsp, held_out) {config, columns, lut, ff, held_out},
#include "vta/search/synthesised.def"
#undef X
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_vta_config config = config_of(row[i].config);
        double amount[KILN_VTA_RESOURCE_AMOUNTS_MAX];
        const char *const *name;
        const uint32_t count =
            kiln_vta_resource_amounts(&config, row[i].lut_columns, &name, amount);
        const kiln_vta_resources r = kiln_vta_resources_of(&config, row[i].lut_columns);
        printf("%s@%u", row[i].config, row[i].lut_columns);
        for (uint32_t k = 0; k < count; k++) printf("\t%s=%g", name[k], amount[k]);
        printf("\tLUT=%g\tFF=%g\theld_out=%d\tmodel_LUT=%+.1f\tmodel_FF=%+.1f\n",
               row[i].lut - kiln_vta_memory_luts(&config), row[i].ff, row[i].held_out,
               100 * (r.lut / row[i].lut - 1), 100 * (r.ff / row[i].ff - 1));
    }
}

int main(int argc, char **argv) {
    kiln_vta_layer layer[KILN_VTA_LAYERS_MAX];
    const uint32_t layers = kiln_vta_layers_resnet(false, layer);
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "table")) {
        for (uint32_t m = 0; m < KILN_ARRAY_COUNT(machine_table); m++)
            table(machine_table[m], layer, layers);
        speed(&layer[7]);
    } else if (!strcmp(what, "ablation")) {
        ablation(layer, layers);
    } else if (!strcmp(what, "sensitivity")) {
        sensitivity(layer, layers);
    } else if (!strcmp(what, "programs") && argc == 4) {
        write_programs(argv[2], argv[3], layer, layers);
    } else if (!strcmp(what, "resources")) {
        print_resources();
    } else {
        fprintf(stderr, "usage: bench-vta table | ablation | sensitivity | resources | programs "
                        "CONFIG FOLDER\n");
        return 2;
    }
    return 0;
}
