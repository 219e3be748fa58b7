/* Times loading an object of about 50 KB, again and again in one process:
 *
 *     bench-link [TIMES]
 *
 * Prints median, 99th percentile and lowest from bytes to entry, and what is left when all are
 * unloaded: mappings, descriptors, bytes of the heap. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "deploy/runtime/load.h"

/* Straight-line code with constants and calls, so that there is something to relocate. */
static const char *const program = "program p\ninput x: f32[90]\noutput y: f32[90]\n"
                                   "block map(a:90): y[a] = sin(x[a]) * 1.7 + exp(x[a])\n"
                                   "loops:\n  unroll map.a in 90:\n    block map(a=map.a)\n";

static kiln_status make_object(kiln_arena *arena, kiln_str *out_object) {
    kiln_target target;
    kiln_program *p = NULL;
    kiln_lowered lowered;
    uint64_t scratch, worker;
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .optimise = 2};
    kiln_status st = kiln_target_parse(KILN_STR("native"), arena, &target);
    if (!st) st = kiln_program_parse(kiln_str_from(program), arena, &p);
    if (!st) st = kiln_lower(p, &target, arena, &lowered);
    if (!st) st = kiln_codegen(&lowered, &target, &options, arena, out_object, &scratch, &worker);
    return st;
}

static kiln_status load_once(kiln_str bytes, double *out_us) {
    kiln_object *object = NULL;
    uint64_t start = kiln_clock_ns();
    kiln_status st = kiln_object_load(bytes, &object);
    if (!st && !kiln_object_find(object, "kiln_run")) st = KILN_ERROR(NOT_FOUND, "kiln_run");
    *out_us = (double)(kiln_clock_ns() - start) * 1e-3;
    kiln_object_unload(object);
    return st;
}

static uint64_t count_mappings(kiln_arena *arena) {
    kiln_str text;
    kiln_status st = kiln_file_read_system("/proc/self/maps", arena, &text);
    uint64_t lines = 0;
    for (size_t i = 0; !st && i < text.size; i++) lines += text.data[i] == '\n';
    kiln_status_free(st);
    return lines;
}

static uint64_t count_descriptors(kiln_arena *arena) {
    char **names;
    size_t count = 0;
    kiln_status_free(kiln_folder_list("/proc/self/fd", arena, &names, &count));
    return count;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static kiln_status bench(uint32_t times, kiln_arena *arena) {
    double *us = KILN_ARENA_ARRAY(arena, double, times), warm;
    kiln_str object;
    kiln_status st = make_object(arena, &object);
    if (!st) st = load_once(object, &warm);
    if (st) return st;
    uint64_t mappings = count_mappings(arena), descriptors = count_descriptors(arena);
    size_t heap = mallinfo2().uordblks;
    for (uint32_t i = 0; !st && i < times; i++) st = load_once(object, &us[i]);
    size_t heap_after = mallinfo2().uordblks;
    if (st) return st;
    qsort(us, times, sizeof *us, ascending);
    printf("%zu bytes, %u loads: us %.1f median, %.1f p99, %.1f least\n", object.size, times,
           us[times / 2], us[times - 1 - times / 100], us[0]);
    printf("left behind: %lld mappings, %lld descriptors, %lld bytes\n",
           (long long)(count_mappings(arena) - mappings),
           (long long)(count_descriptors(arena) - descriptors), (long long)(heap_after - heap));
    return KILN_OK;
}

int main(int argc, char **argv) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    uint32_t times = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10000;
    kiln_status st = bench(times ? times : 1, &arena);
    if (st) fprintf(stderr, "%s\n", kiln_status_text(st));
    int failed = st != NULL;
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return failed;
}
