/* Statements a second that the null device runs, on a convolution and a matrix product as they are
 * written: `./dev bench null`. At least 50 million are wanted. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "compiler-core/build.h"
#include "compiler-core/ir/ir_text.h"
#include "deploy/runtime/kernel.h"

#define ROUNDS 5

static const struct {
    const char *name;
    uint64_t statements;
    const char *text;
} program[] = {
    {"convolution 3x3, 32 channels of 28x28", 32 * 28 * 28 * (32 * 3 * 3 + 1),
     "program conv\n"
     "input x: f32[32, 30, 30]\n"
     "input w: f32[32, 32, 3, 3]\n"
     "output y: f32[32, 28, 28]\n"
     "block conv(o:32, h:28, v:28 | i:32, r:3, s:3): y[o, h, v] sum= "
     "x[i, h + r, v + s] * w[o, i, r, s] init 0.0\n"},
    {"product of 192", 192 * 192 * (192 + 1),
     "program product\n"
     "input x: f32[192, 192]\n"
     "input w: f32[192, 192]\n"
     "output y: f32[192, 192]\n"
     "block mul(i:192, j:192 | k:192): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n"},
};

static void require(kiln_status st) {
    if (!st) return;
    fprintf(stderr, "bench null: %s\n", kiln_status_text(st));
    kiln_status_free(st);
    fflush(stderr);
    _Exit(1);
}

static void measure(const char *name, uint64_t statements, const char *text, kiln_arena *arena) {
    kiln_program *te, *loops;
    kiln_target target;
    kiln_artefact artefact;
    kiln_device *device;
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_strbuf bytes = {0};
    kiln_device_memory memory[KILN_MANIFEST_ARGS_MAX] = {{0}};
    require(kiln_target_parse(KILN_STR("null"), arena, &target));
    require(kiln_program_parse(kiln_str_from(text), arena, &te));
    loops = kiln_program_copy(te, arena);
    kiln_program_make_loops(loops);
    require(kiln_build_scheduled(te, KILN_STR("bench"), loops, &target, arena, &artefact));
    kiln_artefact_encode(&artefact, &bytes);
    require(kiln_device_open(KILN_DEVICE_NULL, NULL, &device));
    require(kiln_kernel_load(kiln_strbuf_view(&bytes), device, &kernel));
    require(kiln_call_create(kernel, KILN_GUARD_NONE, &call));
    const uint32_t count = kiln_kernel_manifest(kernel)->arg_count;
    for (uint32_t i = 0; i < count; i++) {
        size_t size = kiln_kernel_arg_bytes(kernel, i);
        require(kiln_device_allocate(device, size, KILN_GUARD_NONE, &memory[i]));
        require(kiln_call_bind_place(call, i, kiln_device_place_at(device, &memory[i], 0), size));
    }
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t began_ns = kiln_clock_ns();
        if (kiln_call_run(call, NULL) != KILN_KERNEL_OK)
            require(KILN_ERROR(INTERNAL, "%s", kiln_device_error(device)));
        double rate = (double)statements * 1e3 / (double)(kiln_clock_ns() - began_ns);
        best = rate > best ? rate : best;
    }
    printf("%-40s %6.1f million statements, %6.1f million a second\n", name,
           (double)statements / 1e6, best);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    for (uint32_t i = 0; i < count; i++) kiln_device_release(device, &memory[i]);
    kiln_device_close(device);
    kiln_strbuf_deinit(&bytes);
}

int main(void) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++)
        measure(program[i].name, program[i].statements, program[i].text, &arena);
    kiln_arena_deinit(&arena);
    return 0;
}
