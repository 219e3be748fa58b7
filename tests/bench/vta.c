/* What accelerators of the VTA class reach on convolutions C2 to C12 of ResNet-18, by the cycle
 * simulator: how much of what the machine could do, with 1, 2 and 4 virtual threads; what each
 * feature of v2 brings; what the port to memory does; how fast the simulators are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "vta/search/cut.h"
#include "vta/search/layer.h"
#include "vta/search/resources.h"

/* Cuts that are simulated of each layer, with each number of threads. */
#define SIMULATED 64u

static const uint32_t thread_table[] = {1, 2, 4};
/* v1, v2, and between them one feature more in each row. */
static const char *const machine_table[] = {"pynq", "pynq,v2", "pynq,bus128,v2"};
static const char *const ablation_table[] = {
    "pynq",          "pynq,v1+first",  "pynq,v1+first+chain", "pynq,v1+first+chain+engine",
    "pynq,v1+chain", "pynq,v1+engine", "pynq,v2-first",       "pynq,v2-chain",
    "pynq,v2-engine"};

/* How a layer is run: the one place to change when the compiler tunes it. */
static kiln_status schedule(const kiln_vta_config *config, const kiln_vta_layer *layer,
                            uint32_t threads, kiln_vta_cut_time *out_best) {
    const kiln_vta_conv conv = kiln_vta_layer_tiled(layer, config);
    return kiln_vta_cut_search(config, &conv, threads, SIMULATED, out_best);
}

typedef struct total {
    double multiply_adds, cycles, bound, instructions, no_ops, hits, kernels, stream_bytes;
    double best;
} total;

static double utilisation(const kiln_vta_config *config, double multiply_adds, double cycles) {
    return multiply_adds / kiln_vta_peak(config) / cycles;
}

static void add(total *t, const kiln_vta_config *config, const kiln_vta_layer *layer,
                const kiln_vta_cut_time *time) {
    const kiln_vta_conv conv = kiln_vta_layer_tiled(layer, config);
    const double adds = (double)kiln_vta_layer_multiply_adds(layer);
    t->multiply_adds += adds;
    t->cycles += (double)time->timing.cycles;
    t->bound += kiln_vta_conv_bound(config, &conv).all;
    t->instructions += time->instructions;
    t->no_ops += (double)time->no_ops;
    t->hits += (double)time->uop_hits;
    t->kernels += (double)(time->uop_hits + time->uop_misses);
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

static kiln_vta_cut_time must(kiln_status st, const char *layer, const kiln_vta_cut_time *time) {
    if (st) {
        fprintf(stderr, "%s: %s\n", layer, kiln_status_text(st));
        exit(1);
    }
    return *time;
}

/* The best of all numbers of threads, or of one. */
static kiln_vta_cut_time run(const kiln_vta_config *config, const kiln_vta_layer *layer,
                             uint32_t threads) {
    kiln_vta_cut_time time;
    return must(schedule(config, layer, threads, &time), layer->name, &time);
}

static void print_cut(const kiln_vta_conv_cut *c) {
    printf("%ux%u of %u outputs, %u inputs; places %u, %u%s%s", c->rows, c->columns, c->out, c->in,
           c->inp_places, c->wgt_places, c->out_inside ? ", outputs inside" : "",
           c->in_turn ? ", in turn" : "");
}

static void table(const char *machine, const kiln_vta_layer *layer, uint32_t layers) {
    const kiln_vta_config config = config_of(machine);
    total all[KILN_ARRAY_COUNT(thread_table)] = {0};
    printf("\n%s\n%-5s %9s %6s  %6s %6s %6s  %8s  best cut, in tiles\n", machine, "layer",
           "kcycles", "bound", "1", "2", "4", "of bound");
    for (uint32_t i = 0; i < layers; i++) {
        const kiln_vta_conv conv = kiln_vta_layer_tiled(&layer[i], &config);
        const double adds = (double)kiln_vta_layer_multiply_adds(&layer[i]);
        const double bound = kiln_vta_conv_bound(&config, &conv).all;
        kiln_vta_cut_time time[KILN_ARRAY_COUNT(thread_table)];
        uint32_t best = 0;
        for (uint32_t t = 0; t < KILN_ARRAY_COUNT(thread_table); t++) {
            time[t] = run(&config, &layer[i], thread_table[t]);
            add(&all[t], &config, &layer[i], &time[t]);
            if (time[t].timing.cycles < time[best].timing.cycles) best = t;
        }
        const double cycles = (double)time[best].timing.cycles;
        printf("%-5s %9.1f %6.3f ", layer[i].name, cycles / 1e3, utilisation(&config, adds, bound));
        for (uint32_t t = 0; t < KILN_ARRAY_COUNT(thread_table); t++)
            printf(" %6.3f", utilisation(&config, adds, (double)time[t].timing.cycles));
        printf("  %8.3f  %ux ", bound / cycles, time[best].cut.threads);
        print_cut(&time[best].cut);
        printf("\n");
        fflush(stdout);
    }
    printf("%-5s %9.1f %6.3f ", "total", all[1].cycles / 1e3,
           utilisation(&config, all[1].multiply_adds, all[1].bound));
    for (uint32_t t = 0; t < KILN_ARRAY_COUNT(thread_table); t++)
        printf(" %6.3f", utilisation(&config, all[t].multiply_adds, all[t].cycles));
    printf("  %8.3f\nbest layer             ", all[1].bound / all[1].cycles);
    for (uint32_t t = 0; t < KILN_ARRAY_COUNT(thread_table); t++) printf(" %6.3f", all[t].best);
    printf("\n2 threads: micro-op kernels that were there %.2f %%, stream bytes a thousand "
           "multiply-adds %.3f, no-ops %.2f %% of %.0f instructions\n",
           100 * all[1].hits / all[1].kernels, 1e3 * all[1].stream_bytes / all[1].multiply_adds,
           100 * all[1].no_ops / all[1].instructions, all[1].instructions);
}

static total total_of(const kiln_vta_config *config, const kiln_vta_layer *layer, uint32_t layers,
                      uint32_t threads) {
    total all = {0};
    for (uint32_t i = 0; i < layers; i++) {
        const kiln_vta_cut_time time = run(config, &layer[i], threads);
        add(&all, config, &layer[i], &time);
    }
    return all;
}

static void ablation(const kiln_vta_layer *layer, uint32_t layers) {
    printf("\n%-28s %8s %8s %8s %8s\n", "features, total", "1", "2", "bound", "no-ops");
    for (uint32_t m = 0; m < KILN_ARRAY_COUNT(ablation_table); m++) {
        const kiln_vta_config config = config_of(ablation_table[m]);
        const total one = total_of(&config, layer, layers, 1),
                    two = total_of(&config, layer, layers, 2);
        printf("%-28s %8.3f %8.3f %8.3f %6.2f %%\n", ablation_table[m],
               utilisation(&config, one.multiply_adds, one.cycles),
               utilisation(&config, two.multiply_adds, two.cycles),
               utilisation(&config, two.multiply_adds, two.bound),
               100 * two.no_ops / two.instructions);
        fflush(stdout);
    }
}

static void sensitivity(const kiln_vta_layer *layer, uint32_t layers) {
    static const char *const base[] = {"pynq", "pynq,v2"};
    for (uint32_t m = 0; m < KILN_ARRAY_COUNT(base); m++) {
        printf("\n%s, 2 threads: total by bytes a cycle (down) and latency (across)\n      ",
               base[m]);
        for (uint32_t latency = 16; latency <= 256; latency *= 2) printf(" %6u", latency);
        for (uint32_t bytes = 4; bytes <= 32; bytes *= 2) {
            printf("\n%6u", bytes);
            for (uint32_t latency = 16; latency <= 256; latency *= 2) {
                kiln_vta_config config = config_of(base[m]);
                config.bus_bits = 8 * bytes;
                config.latency = latency;
                const total two = total_of(&config, layer, layers, 2);
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
    const kiln_vta_cut_time time = run(&config, layer, 2);
    kiln_arena arena;
    kiln_vta_stream stream;
    kiln_vta_counts counts;
    kiln_vta_timing timing;
    kiln_vta_fault fault;
    kiln_arena_init(&arena, 0);
    must(kiln_vta_conv_build(&config, &conv, &time.cut, &arena, &stream), layer->name, &time);
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

/* FOLDER/LAYER.vta, the best stream of each layer with two virtual threads. */
static void write_programs(const char *machine, const char *folder, const kiln_vta_layer *layer,
                           uint32_t layers) {
    const kiln_vta_config config = config_of(machine);
    for (uint32_t i = 0; i < layers; i++) {
        const kiln_vta_conv conv = kiln_vta_layer_tiled(&layer[i], &config);
        const kiln_vta_cut_time time = run(&config, &layer[i], 2);
        kiln_arena arena;
        kiln_vta_stream stream;
        kiln_strbuf bytes = {0};
        kiln_arena_init(&arena, 0);
        must(kiln_vta_conv_build(&config, &conv, &time.cut, &arena, &stream), layer[i].name, &time);
        kiln_vta_program_encode(stream.program, &bytes);
        const char *path = kiln_arena_printf(&arena, "%s/%s.vta", folder, layer[i].name);
        must(kiln_file_write(path, kiln_strbuf_view(&bytes), 0644), path, &time);
        kiln_strbuf_deinit(&bytes);
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
        ablation(layer, layers);
        speed(&layer[7]);
    } else if (!strcmp(what, "sensitivity")) {
        sensitivity(layer, layers);
    } else if (!strcmp(what, "programs") && argc == 4) {
        write_programs(argv[2], argv[3], layer, layers);
    } else if (!strcmp(what, "resources")) {
        print_resources();
    } else {
        fprintf(stderr,
                "usage: bench-vta table | sensitivity | resources | programs CONFIG FOLDER\n");
        return 2;
    }
    return 0;
}
