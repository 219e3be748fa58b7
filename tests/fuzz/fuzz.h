/* What a fuzz program defines. tests/fuzz/fuzz_NAME.c holds kiln_fuzz_one; the main around it is
 * tests/fuzz/driver.c, which replays tests/fuzz/corpus/NAME, mutates it, and keeps inputs that
 * reach new code. Part of every test run with a fixed seed; `./dev fuzz NAME SECONDS` goes on as
 * long as you like. */
#ifndef KILN_TESTS_FUZZ_FUZZ_H
#define KILN_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Feeds `data` to the code under test; an input that it must not survive aborts (KILN_CHECK).
 * Called many times: leaves nothing allocated. Returns 0. */
int kiln_fuzz_one(const uint8_t *data, size_t size);

#endif
