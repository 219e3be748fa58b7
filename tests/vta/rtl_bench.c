/* rtl_bench MODEL.so CONFIG PROGRAMS [SEED]: runs random programs on a machine of vta/rtl
 * (rtl_model.h) and on the cycle simulator: main memory must be the same byte for byte,
 * cycles too, and each engine must say that it ended all of its instructions.
 * rtl_bench MODEL.so FILE...: the same of programs in files, as text or blobs, within 2 %; a line
 * each. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "tests/support/vta_random.h"
#include "tests/vta/rtl_model.h"
#include "vta/csim.h"

#define PROGRAM_BYTES_MAX (UINT64_C(1) << 30)

typedef struct bench {
    rtl_run_fn *model_run;
    uint64_t cycles, cpu_ns; /* of the hardware, of all programs */
    uint32_t programs, exact;
    double worst; /* difference of cycles */
} bench;

static double difference(uint64_t a, uint64_t b) {
    const double d = ((double)a - (double)b) / (double)b;
    return d < 0 ? -d : d;
}

/* Main memory with the instructions behind the program's buffers, at a page. */
static uint8_t *with_instructions(const kiln_vta_program *program, const uint8_t *dram,
                                  uint64_t bytes, kiln_arena *arena, rtl_run *out_run) {
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(&program->config);
    uint64_t *place = KILN_ARENA_ARRAY(arena, uint64_t, program->buffer_count);
    kiln_vta_program_place(program, place);
    const uint64_t at =
        (bytes + KILN_VTA_PAGE_BYTES - 1) / KILN_VTA_PAGE_BYTES * KILN_VTA_PAGE_BYTES;
    const uint64_t all =
        at + ((uint64_t)program->instruction_count + 16) * KILN_VTA_INSTRUCTION_BYTES;
    uint8_t *memory = kiln_arena_alloc(arena, all);
    memcpy(memory, dram, bytes);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const kiln_vta_instruction in = kiln_vta_program_placed(program, &sizes, place, i);
        kiln_vta_instruction_encode(&program->config, &in,
                                    memory + at + (uint64_t)i * KILN_VTA_INSTRUCTION_BYTES);
    }
    out_run->dram = memory;
    out_run->dram_bytes = all;
    out_run->program_address = (uint32_t)at;
    out_run->instruction_count = program->instruction_count;
    return memory;
}

/* Whether the machine says that each engine has ended all of its instructions. */
static bool has_ended(const kiln_vta_program *program, const uint32_t *ended, const char *name) {
    uint32_t count[KILN_VTA_ENGINE_COUNT] = {0};
    for (uint32_t i = 0; i < program->instruction_count; i++)
        count[kiln_vta_engine_of(&program->config, &program->instruction[i])]++;
    bool ok = true;
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) {
        if (ended[e] == count[e]) continue;
        ok = false;
        fprintf(stderr, "%s: %s has ended %u of %u instructions\n", name,
                kiln_vta_engine_name((kiln_vta_engine)e), ended[e], count[e]);
    }
    return ok;
}

/* False: they differ, said on standard error. */
static bool compare(bench *b, const kiln_vta_program *program, uint8_t *dram, uint64_t bytes,
                    double tolerance, const char *name, kiln_arena *arena) {
    kiln_vta_timing timing;
    kiln_vta_fault fault;
    rtl_run run = {.latency = program->config.latency, .row_cycles = program->config.row_cycles};
    uint8_t *memory = with_instructions(program, dram, bytes, arena, &run);
    if (!kiln_vta_csim_run(program, dram, bytes, &(kiln_vta_csim_options){0}, arena, &timing,
                           &fault)) {
        fprintf(stderr, "%s: instruction %u: %s\n", name, fault.instruction, fault.text);
        return false;
    }
    run.cycles_most = 2 * timing.cycles + 10000;
    const uint64_t begin = kiln_clock_thread_ns();
    const bool ran = b->model_run(&run);
    b->cpu_ns += kiln_clock_thread_ns() - begin;
    if (!ran) {
        fprintf(stderr, "%s: the hardware: %s (the simulator has %llu cycles)\n", name, run.fault,
                (unsigned long long)timing.cycles);
        return false;
    }
    b->cycles += run.cycles;
    b->programs++;
    b->exact += run.cycles == timing.cycles;
    const double off = difference(run.cycles, timing.cycles);
    if (off > b->worst) b->worst = off;
    uint64_t at = 0;
    while (at < bytes && memory[at] == dram[at]) at++;
    if (at < bytes)
        fprintf(stderr, "%s: byte %llu is %d, not %d\n", name, (unsigned long long)at, memory[at],
                dram[at]);
    const bool all_ended = has_ended(program, run.ended, name);
    if (off > tolerance)
        fprintf(stderr, "%s: %llu cycles; the simulator has %llu\n", name,
                (unsigned long long)run.cycles, (unsigned long long)timing.cycles);
    return at == bytes && off <= tolerance && all_ended;
}

static bool run_random(bench *b, const char *text, uint64_t programs, uint64_t seed) {
    kiln_arena arena;
    kiln_vta_config config;
    kiln_status st = kiln_vta_config_parse(kiln_str_from(text), &config);
    if (st) {
        fprintf(stderr, "%s\n", kiln_status_text(st));
        kiln_status_free(st);
        return false;
    }
    bool ok = true;
    kiln_arena_init(&arena, 0);
    for (uint64_t i = 0; i < programs && ok; i++) {
        char name[64];
        uint64_t bytes;
        snprintf(name, sizeof name, "seed %llu", (unsigned long long)(seed + i));
        kiln_arena_reset(&arena);
        const kiln_vta_program program = vta_random_program(&config, seed + i, &arena);
        uint8_t *dram = vta_random_dram(&program, seed + i, &arena, &bytes);
        ok = compare(b, &program, dram, bytes, 0, name, &arena);
    }
    kiln_arena_deinit(&arena);
    return ok;
}

static bool run_file(bench *b, const char *path) {
    kiln_arena arena;
    kiln_str content;
    kiln_vta_program program;
    bool ok = false;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_file_read(path, PROGRAM_BYTES_MAX, &arena, &content);
    if (!st)
        st = kiln_str_starts(content, "config ")
                 ? kiln_vta_program_parse(content, &arena, &program)
                 : kiln_vta_program_decode(content, &arena, &program);
    if (st) {
        fprintf(stderr, "%s: %s\n", path, kiln_status_text(st));
        kiln_status_free(st);
    } else {
        uint64_t bytes;
        uint8_t *dram = vta_random_dram(&program, 1, &arena, &bytes);
        const bench before = *b;
        ok = compare(b, &program, dram, bytes, 0.02, path, &arena);
        printf("%s: %llu cycles, %.3f s, %s\n", path,
               (unsigned long long)(b->cycles - before.cycles),
               (double)(b->cpu_ns - before.cpu_ns) / 1e9, ok ? "the same" : "different");
    }
    kiln_arena_deinit(&arena);
    return ok;
}

int main(int argc, char **argv) {
    bench b = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: rtl_bench MODEL.so CONFIG PROGRAMS [SEED] | MODEL.so FILE...\n");
        return 2;
    }
    void *model = dlopen(argv[1], RTLD_NOW);
    void *run = model ? dlsym(model, "rtl_model_run") : NULL;
    if (!run) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    memcpy(&b.model_run, &run, sizeof run);
    bool ok = true;
    if (kiln_file_exists(argv[2])) {
        for (int i = 2; i < argc; i++) ok &= run_file(&b, argv[i]);
    } else {
        uint64_t programs, seed = 1;
        ok = argc >= 4 && kiln_str_to_u64(kiln_str_from(argv[3]), &programs) &&
             (argc < 5 || kiln_str_to_u64(kiln_str_from(argv[4]), &seed)) &&
             run_random(&b, argv[2], programs, seed);
    }
    printf("%u programs, %llu cycles, of %u the simulator's exactly, worst %.2f %% off; "
           "%.0f kcycles/s\n",
           b.programs, (unsigned long long)b.cycles, b.exact, 100 * b.worst,
           (double)b.cycles * 1e6 / (double)(b.cpu_ns + 1));
    return !ok;
}
