/* Options of fuzzers that draw programs instead of reading bytes. */
#ifndef KILN_TESTS_FUZZ_DRAWING_H
#define KILN_TESTS_FUZZ_DRAWING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/str.h"

typedef struct fuzz_drawing {
    uint64_t end_ns, runs; /* runs 0: until the end */
    uint64_t seed, first;  /* of the runs */
} fuzz_drawing;

/* [--seconds S] [--runs N] [--seed N] [--first N] [--corpus IGNORED]. False: the rest is none of
 * them, which has been said. */
static inline bool fuzz_drawing_parse(const char *program, int argc, char **argv,
                                      fuzz_drawing *out) {
    uint64_t seconds = 0;
    *out = (fuzz_drawing){.seed = 1};
    for (int i = 1; i + 1 < argc; i += 2) {
        kiln_str name = kiln_str_from(argv[i]), value = kiln_str_from(argv[i + 1]);
        bool known = kiln_str_is(name, "--corpus");
        known |= kiln_str_is(name, "--seconds") && kiln_str_to_u64(value, &seconds);
        known |= kiln_str_is(name, "--runs") && kiln_str_to_u64(value, &out->runs);
        known |= kiln_str_is(name, "--seed") && kiln_str_to_u64(value, &out->seed);
        known |= kiln_str_is(name, "--first") && kiln_str_to_u64(value, &out->first);
        if (!known) {
            fprintf(stderr, "%s: %s %s is not an option\n", program, argv[i], argv[i + 1]);
            return false;
        }
    }
    out->end_ns = kiln_clock_ns() + seconds * 1000000000u;
    return true;
}

/* Whether the run of this number, from `first` on, is to be made. */
static inline bool fuzz_drawing_goes_on(const fuzz_drawing *d, uint64_t run) {
    return d->runs ? run - d->first < d->runs : kiln_clock_ns() < d->end_ns;
}

#endif
