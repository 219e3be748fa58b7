/* Artefacts and a small module for the tests of deploy/, made of the objects in objects/. */
#ifndef KILN_TESTS_DEPLOY_FIXTURE_H
#define KILN_TESTS_DEPLOY_FIXTURE_H

#include "base/arena.h"
#include "base/manifest.h"
#include "base/str.h"
#include "deploy/format.h"

#define FIXTURE_COUNT 1000 /* elements of every tensor */
#define FIXTURE_BYTES (FIXTURE_COUNT * sizeof(float))
#define FIXTURE_THREADS 4u

/* Bytes of an object file in the folder that the test program was given. */
kiln_str fixture_object(kiln_arena *arena, const char *name);
/* The manifest of objects/kernel.c for this machine: x, w (packed into p by prepare), y. */
kiln_manifest fixture_manifest(kiln_arena *arena);
/* An artefact of objects/launches.c: x, w (doubled into p by prepare), y, and between two launches the temp t;
 * y = (x * table + 2 w)^2, the table 0.5, 1, 2, 4. The second launch's entry is in a payload of its own. */
kiln_str fixture_launches(kiln_arena *arena);
/* Artefact of a manifest and an object, given by its bytes or its file. */
kiln_str fixture_artefact_of(kiln_arena *arena, const kiln_manifest *manifest, kiln_str object);
kiln_str fixture_artefact(kiln_arena *arena, const kiln_manifest *manifest, const char *object);

/* Where things are in fixture_plan, for tests that spoil it. */
enum {
    FIXTURE_X, FIXTURE_W0, FIXTURE_W1, FIXTURE_A0, FIXTURE_A1, FIXTURE_A1_ALIAS, FIXTURE_OUT0, FIXTURE_OUT1,
    FIXTURE_W0_AGAIN, FIXTURE_BUFFER_COUNT
};
enum { FIXTURE_STEP_COUNT = 5 };
/* x -> kernel(w0) -> a0 -> kernel(w1) -> a1 = alias; kernel(alias, w0 again) -> out0; alias copied to out1. */
kiln_module_plan fixture_plan(kiln_arena *arena, const char *object);
/* What a run of it gives, computed here. `x`: [FIXTURE_COUNT]. */
void fixture_expected(const float *x, float *out0, float *out1);

/* From the command line; set once in main. */
void fixture_init(int argc, char **argv);

#endif
