/* Programs of the compiler for accelerators of the VTA class: fuzz-vta-compiled [--seconds S]
 * [--runs N] [--seed N] [--first N] [--corpus IGNORED]; runs are layers. Structured, so it has a
 * main of its own instead of driver.c's bytes. */
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "tests/fuzz/drawing.h"
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
    fuzz_drawing d;
    if (!fuzz_drawing_parse("fuzz-vta_compiled", argc, argv, &d)) return 2;
    vta_compiled_counts counts = {0};
    kiln_strbuf report = {0};
    bool right = true;
    uint64_t at = d.first;
    while (right && fuzz_drawing_goes_on(&d, at)) {
        right = vta_compiled_layer(kiln_hash64(&at, sizeof at, d.seed), DRAWS,
                                   at % FLAGS_EVERY == 0, &counts, &report);
        at++;
    }
    if (!right)
        printf("%sagain: fuzz-vta_compiled --seed %" PRIu64 " --first %" PRIu64 " --runs 1\n",
               report.data, d.seed, at - 1);
    printf("vta-compiled: %" PRIu64 " programs, %s\n", counts.programs,
           right ? "none differs" : "ONE IS WRONG");
    print_counts(&counts);
    kiln_strbuf_deinit(&report);
    return right ? 0 : 1;
}
