/* Random schedules of the rules for GPUs, of random programs: fuzz-gpu [--seconds S] [--runs N]
 * [--seed N] [--corpus IGNORED]. Both interpreters, Debian's PoCL and, in a process of its own,
 * oclgrind compute each, and the latter looks for races; what is not installed is left out and
 * named. One in five is for a CUDA device, with lanes that exchange values and copies that land
 * later, one for a device with drawn limits: interpreters alone compute these. Products by
 * instructions of warps and of warp groups are computed by both interpreters and the block
 * emulator, in a third process. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/str.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/rules/space.h"
#include "tests/support/emulate_scheduled.h"
#include "tests/support/gpu_programs.h"
#include "tests/support/schedule_fuzz.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/codegen/device_board.h"

#define CUDA_TARGET "cuda:sm_80"

typedef struct options {
    uint64_t seconds, runs, seed;
} options;

/* The program's text and the trace that shows the fault. */
static void print_candidate(const kiln_program *te, const kiln_trace *trace) {
    kiln_strbuf text = {0};
    kiln_program_print(te, &text);
    kiln_trace_print(trace, &text);
    printf("%s\n", text.data);
    kiln_strbuf_deinit(&text);
}

/* What is drawn, for which target, and what computes it beside the interpreters. */
typedef struct subject {
    const char *name, *target; /* target NULL: drawn */
    kiln_program *(*draw)(kiln_rand *rand, kiln_arena *arena);
    schedule_fuzz_device device; /* NULL: nothing */
    bool races;                  /* oclgrind looks for them */
} subject;

/* An OpenCL device with limits of any size: groups below a warp, hardly any shared memory. */
static const char *draw_target(kiln_rand *rand, kiln_arena *arena) {
    static const uint32_t group[] = {1, 7, 16, 32, 64, 100, 256, 1024},
                          shared[] = {1, 64, 1000, 4096, 16384, 65536}, vector[] = {4, 8, 16},
                          units[] = {1, 3, 16, 100};
#define ONE_OF(a) a[kiln_rand_below(rand, KILN_ARRAY_COUNT(a))]
    return kiln_arena_printf(arena, "opencl:some,group=%u,shared=%u,vector=%u,units=%u",
                             ONE_OF(group), ONE_OF(shared), ONE_OF(vector), ONE_OF(units));
#undef ONE_OF
}

/* One program and one schedule of it; false: something differs, and is printed. */
static bool try_one(uint64_t seed, const subject *with, schedule_fuzz_counts *counts) {
    kiln_arena arena;
    kiln_rand rand;
    kiln_space space;
    kiln_trace trace;
    kiln_program *scheduled = NULL;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_rand_init(&rand, seed);
    kiln_program *te = with->draw(&rand, &arena);
    const char *on = with->target ? with->target : draw_target(&rand, &arena);
    const kiln_target target = target_of(&arena, on);
    const kiln_space_options direct = {.accuracy = {.exact = true}};
    kiln_strbuf report = {0};
    kiln_status st = kiln_space_create_with(te, &target, &direct, &arena, &space);
    if (!st) st = kiln_space_sample(&space, &rand, &arena, &trace, &scheduled);
    bool same =
        !st && schedule_fuzz_candidate(te, scheduled, on, seed, with->device, counts, &report);
    const char *findings = same && with->races ? gpu_oclgrind_findings(&arena) : "";
    if (!same || *findings) {
        printf("seed %" PRIu64 ", %s: %s\n", seed, on,
               st     ? kiln_status_text(st)
               : same ? findings
                      : report.data);
        if (!st) print_candidate(te, &trace);
        same = false;
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&report);
    kiln_arena_deinit(&arena);
    return same;
}

static int run(const options *o, const subject *with, uint32_t count) {
    schedule_fuzz_counts counts = {0};
    const uint64_t end_ns = kiln_clock_ns() + o->seconds * 1000000000u;
    bool same = true;
    for (uint64_t k = 0; same && (o->runs ? k < o->runs : kiln_clock_ns() < end_ns); k++)
        same = try_one(o->seed * 1000003u + k, &with[k % count], &counts);
    printf("gpu: %s: %" PRIu64 " schedules, %" PRIu64 " ran, %" PRIu64 " with barriers, %" PRIu64
           " with lanes that exchange, %" PRIu64 " with bytes of two temps, %" PRIu64
           " by instructions of warps, %s\n",
           with->name, counts.lowered, counts.ran, counts.barriers, counts.exchanges,
           counts.overlaps, counts.warps, same ? "no mismatch" : "MISMATCH");
    fflush(stdout);
    return same ? 0 : 1;
}

/* ---- subjects -------------------------------------------------------------------------------- */

/* In a process of its own: one loads one OpenCL library. */
static int run_races(const options *o) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    char *folder = make_folder(&arena);
    int code = 0;
    const subject with = {"oclgrind", GPU_PROGRAMS_TARGET, gpu_program_draw,
                          build_and_run_on_small_opencl, true};
    if (gpu_oclgrind_begin(folder, false, &arena)) {
        code = run(o, &with, 1);
        opencl_board_close();
    } else {
        printf("gpu: oclgrind is not installed\n");
    }
    remove_folder(folder);
    kiln_arena_deinit(&arena);
    return code;
}

static int run_plain(const options *o) {
    kiln_device *opened;
    kiln_status st = opencl_board_open(&opened);
    if (st) printf("gpu: no OpenCL device, interpreters alone: %s\n", kiln_status_text(st));
    const subject device = {st ? "interpreters" : "PoCL", GPU_PROGRAMS_TARGET, gpu_program_draw,
                            st ? NULL : build_and_run_on_small_opencl, false};
    const subject with[] = {device,
                            device,
                            device,
                            {"interpreters", CUDA_TARGET, gpu_program_draw, NULL, false},
                            {"interpreters", NULL, gpu_program_draw, NULL, false}};
    const int code = run(o, with, KILN_ARRAY_COUNT(with));
    kiln_status_free(st);
    opencl_board_close();
    return code;
}

/* A schedule_fuzz_device: the block emulator as a device of that target. */
static kiln_status emulate_on(const char *name, const kiln_program *te,
                              const kiln_program *scheduled, const kiln_tensor *args) {
    kiln_arena arena;
    const char *text;
    kiln_arena_init(&arena, (size_t)1 << 20);
    const kiln_target target = target_of(&arena, name);
    kiln_status st =
        emulate_scheduled(scheduled, &target, args, kiln_program_args(te).count, &arena, &text);
    kiln_arena_deinit(&arena);
    if (st && kiln_status_code(st) == KILN_UNIMPLEMENTED) { /* several launches */
        kiln_status_free(st);
        st = KILN_ERROR(ILLEGAL_SCHEDULE, "only interpreters compute it");
    }
    return st;
}
static kiln_status emulate_a100(const kiln_program *te, const kiln_program *scheduled,
                                const kiln_tensor *args) {
    return emulate_on("a100", te, scheduled, args);
}
static kiln_status emulate_h200(const kiln_program *te, const kiln_program *scheduled,
                                const kiln_tensor *args) {
    return emulate_on("h200", te, scheduled, args);
}

static int run_emulated(const options *o) {
    static const subject with[] = {
        {"block emulator", "h200", gpu_program_draw_product, emulate_h200, false},
        {"block emulator", "a100", gpu_program_draw_product, emulate_a100, false},
    };
    return run(o, with, KILN_ARRAY_COUNT(with));
}

/* Runs the part in a process of its own; 0: none. */
static pid_t start(int (*part)(const options *), const options *o) {
    const pid_t child = fork();
    if (child == 0) _exit(part(o));
    return child;
}

static bool succeeds(pid_t child) {
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv) {
    options o = {.seed = 1};
    for (int i = 1; i + 1 < argc; i += 2) {
        kiln_str name = kiln_str_from(argv[i]), value = kiln_str_from(argv[i + 1]);
        bool known = kiln_str_is(name, "--corpus");
        known |= kiln_str_is(name, "--seconds") && kiln_str_to_u64(value, &o.seconds);
        known |= kiln_str_is(name, "--runs") && kiln_str_to_u64(value, &o.runs);
        known |= kiln_str_is(name, "--seed") && kiln_str_to_u64(value, &o.seed);
        if (!known) {
            fprintf(stderr, "fuzz-gpu: %s %s is not an option\n", argv[i], argv[i + 1]);
            return 2;
        }
    }
    const pid_t races = start(run_races, &o), emulated = start(run_emulated, &o);
    const bool plain = run_plain(&o) == 0, without_races = succeeds(races);
    return succeeds(emulated) && plain && without_races ? 0 : 1;
}
