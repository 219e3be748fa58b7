/* Random schedules of random programs: fuzz-schedule [--seconds S] [--runs N] [--seed N] [--first
 * N]
 * [--corpus IGNORED]. Structured, so it has a main of its own instead of driver.c's bytes. */
#include <inttypes.h>
#include <stdio.h>

#include "compiler-core/sched/prim.h"
#include "tests/fuzz/drawing.h"
#include "tests/support/schedule_fuzz.h"
#include "tests/unit/compiler-core/codegen/device_board.h"

static void print_counts(const schedule_fuzz_counts *counts) {
    printf("  launches: %" PRIu64 " lowered, %" PRIu64 " refused; several groups %" PRIu64
           ", threads %" PRIu64 ", barriers %" PRIu64 ", shared memory %" PRIu64
           " (some bytes twice %" PRIu64 "), lanes that exchange %" PRIu64 "\n",
           counts->lowered, counts->unlowered, counts->grids, counts->groups, counts->barriers,
           counts->shared, counts->overlaps, counts->exchanges);
    printf("  null device: %" PRIu64 " ran\n", counts->ran);
    for (uint32_t i = 0; i < KILN_PRIM_COUNT; i++)
        printf("  %-20s applied %" PRIu64 ", refused %" PRIu64 "\n", kiln_prim_name((kiln_prim)i),
               counts->applied_of[i], counts->refused_of[i]);
}

int main(int argc, char **argv) {
    fuzz_drawing d;
    if (!fuzz_drawing_parse("fuzz-schedule", argc, argv, &d)) return 2;
    schedule_fuzz_counts counts = {0};
    kiln_strbuf report = {0};
    bool same = true;
    for (uint64_t k = d.first; same && fuzz_drawing_goes_on(&d, k); k++)
        same = schedule_fuzz_pair(d.seed * 1000003u + k, build_and_run_on_null, &counts, &report);
    if (!same) printf("%s\n", report.data);
    printf("schedule: %" PRIu64 " pairs, %" PRIu64 " primitives applied, %" PRIu64 " refused, %s\n",
           counts.pairs, counts.applied, counts.refused, same ? "no mismatch" : "MISMATCH");
    print_counts(&counts);
    kiln_strbuf_deinit(&report);
    return same ? 0 : 1;
}
