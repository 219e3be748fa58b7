/* The planted candidates of objects/ as artefacts, and the reference of what they should compute.
 */
#ifndef KILN_TESTS_UNIT_RPC_SERVER_CANDIDATES_H
#define KILN_TESTS_UNIT_RPC_SERVER_CANDIDATES_H

#include "base/arena.h"
#include "base/str.h"
#include "tests/support/test.h"

#define CANDIDATE_ELEMENTS 4093 /* not a multiple of a cache line: room beside the output */
#define CANDIDATE_SEED 42u
#define CANDIDATE_FLOPS (8.0 * CANDIDATE_ELEMENTS)

/* `folder`: where the objects are. `flops`: what the manifest claims. Appends the artefact's bytes.
 */
void candidate_artefact(const char *folder, const char *fault, double flops, kiln_strbuf *out);
/* A module of that artefact alone, written to `path` (candidate_module.c): y of x, and weights that
 * are those of candidate_weight. */
void candidate_module(kiln_str artefact, const char *path);
float candidate_weight(size_t index);
/* The reference blob for CANDIDATE_SEED, of an output that is `elements` long. */
void candidate_reference(int64_t elements, kiln_strbuf *out);
/* Canonical text of what candidates are compiled for, in `arena`: this machine, or what main said.
 */
kiln_str candidate_target(kiln_arena *arena);
void candidate_target_is(const char *text);

#endif
