/* Programs of the compiler for accelerators of the VTA class: fuzz-vta-compiled [--seconds S]
 * [--runs N] [--seed N] [--first N] [--corpus IGNORED]; runs are layers. Structured, so it has a
 * main of its own instead of driver.c's bytes. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "tests/unit/compiler-core/codegen/vta_compiled.h"

#define DRAWS 16u       /* schedules of a layer */
#define FLAGS_EVERY 16u /* layers */

static void print_counts(const vta_compiled_counts *c) {
    printf("  %" PRIu64 " with 2 virtual threads, %" PRIu64 " with 4, %" PRIu64 " refused; %" PRIu64
           " instructions; %u orders each\n",
           c->threads[2], c->threads[4], c->refused, c->instructions, VTA_COMPILED_ORDERS);
    printf("  %" PRIu64 " layers, %" PRIu64 " of them without a schedule on their machine\n",
           c->layers, c->unscheduled);
    printf("  %" PRIu64 " flags of tokens taken away, each noticed; %" PRIu64
           " pairs of tokens are redundant\n",
           c->flags, c->redundant);
}

int main(int argc, char **argv) {
    uint64_t seconds = 0, runs = 0, seed = 1, first = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        kiln_str name = kiln_str_from(argv[i]), value = kiln_str_from(argv[i + 1]);
        bool known = kiln_str_is(name, "--corpus");
        known |= kiln_str_is(name, "--seconds") && kiln_str_to_u64(value, &seconds);
        known |= kiln_str_is(name, "--runs") && kiln_str_to_u64(value, &runs);
        known |= kiln_str_is(name, "--seed") && kiln_str_to_u64(value, &seed);
        known |= kiln_str_is(name, "--first") && kiln_str_to_u64(value, &first);
        if (!known) {
            fprintf(stderr, "fuzz-vta-compiled: %s %s is not an option\n", argv[i], argv[i + 1]);
            return 2;
        }
    }
    vta_compiled_counts counts = {0};
    kiln_strbuf report = {0};
    const uint64_t end_ns = kiln_clock_ns() + seconds * 1000000000u;
    bool right = true;
    uint64_t at = first;
    while (right && (runs ? at - first < runs : kiln_clock_ns() < end_ns)) {
        right = vta_compiled_layer(kiln_hash64(&at, sizeof at, seed), DRAWS, at % FLAGS_EVERY == 0,
                                   &counts, &report);
        at++;
    }
    if (!right)
        printf("%sagain: fuzz-vta_compiled --seed %" PRIu64 " --first %" PRIu64 " --runs 1\n",
               report.data, seed, at - 1);
    printf("vta-compiled: %" PRIu64 " programs, %s\n", counts.programs,
           right ? "none differs" : "ONE IS WRONG");
    print_counts(&counts);
    kiln_strbuf_deinit(&report);
    return right ? 0 : 1;
}
