/* Artefacts whose payload is text for a driver's compiler, with text that a test writes:
 *
 *     prepare_0(w, p)       p = 2 w
 *     run_1(x, p, t)        t = x + p
 *     run_2(t, y, scratch)  y[i] = t[the same group, from behind], with shared memory
 *
 * on vectors of f32. What the text does is the text's affair. */
#ifndef KILN_TESTS_SUPPORT_TEXT_ARTEFACT_H
#define KILN_TESTS_SUPPORT_TEXT_ARTEFACT_H

#include "base/arena.h"
#include "base/manifest.h"

enum { TEXT_ARTEFACT_COUNT = 1024, TEXT_ARTEFACT_GROUP = 64 };
#define TEXT_ARTEFACT_BYTES (TEXT_ARTEFACT_COUNT * sizeof(float))
enum { TEXT_X, TEXT_W, TEXT_Y, TEXT_P, TEXT_T, TEXT_ARG_COUNT };

typedef struct text_artefact {
    kiln_payload_kind kind;
    const char *target, *text;
    uint32_t group;        /* threads; 0: TEXT_ARTEFACT_GROUP */
    uint64_t shared_bytes; /* 0: what the group needs */
    /* Of run_1. */
    uint32_t cluster, map_count;
    const kiln_manifest_map *map;
} text_artefact;

/* Its bytes, in `arena`. */
kiln_str text_artefact_encode(const text_artefact *a, kiln_arena *arena);
/* What it computes: [TEXT_ARTEFACT_COUNT] each. */
void text_artefact_expected(const float *x, const float *w, float *y);
/* Bytes of the reference for inputs of that seed, in `arena`. */
kiln_str text_artefact_reference(uint64_t seed, kiln_arena *arena);
/* The three kernels in OpenCL C. */
extern const char text_artefact_opencl[];

#endif
