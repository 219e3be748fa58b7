/* Random schedules of random programs: fuzz-schedule [--seconds S] [--runs N] [--seed N] [--corpus
 * IGNORED]. Structured, so it has a main of its own instead of driver.c's bytes. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/str.h"
#include "compiler-core/sched/prim.h"
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
    uint64_t seconds = 0, runs = 0, seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        kiln_str name = kiln_str_from(argv[i]), value = kiln_str_from(argv[i + 1]);
        bool known = kiln_str_is(name, "--corpus");
        known |= kiln_str_is(name, "--seconds") && kiln_str_to_u64(value, &seconds);
        known |= kiln_str_is(name, "--runs") && kiln_str_to_u64(value, &runs);
        known |= kiln_str_is(name, "--seed") && kiln_str_to_u64(value, &seed);
        if (!known) {
            fprintf(stderr, "fuzz-schedule: %s %s is not an option\n", argv[i], argv[i + 1]);
            return 2;
        }
    }
    schedule_fuzz_counts counts = {0};
    kiln_strbuf report = {0};
    uint64_t end_ns = kiln_clock_ns() + seconds * 1000000000u;
    bool same = true;
    for (uint64_t k = 0; same && (runs ? k < runs : kiln_clock_ns() < end_ns); k++)
        same = schedule_fuzz_pair(seed * 1000003u + k, build_and_run_on_null, &counts, &report);
    if (!same) printf("%s\n", report.data);
    printf("schedule: %" PRIu64 " pairs, %" PRIu64 " primitives applied, %" PRIu64 " refused, %s\n",
           counts.pairs, counts.applied, counts.refused, same ? "no mismatch" : "MISMATCH");
    print_counts(&counts);
    kiln_strbuf_deinit(&report);
    return same ? 0 : 1;
}
