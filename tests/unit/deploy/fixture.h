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
/* An artefact of objects/launches.c: x, w (doubled into p by prepare), y, and between two launches
 * the temp t; y = (x * table + 2 w)^2, the table 0.5, 1, 2, 4. The second launch's entry is in a
 * payload of its own. */
kiln_str fixture_launches(kiln_arena *arena);
/* Artefact of a manifest and an object, given by its bytes or its file. */
kiln_str fixture_artefact_of(kiln_arena *arena, const kiln_manifest *manifest, kiln_str object);
kiln_str fixture_artefact(kiln_arena *arena, const kiln_manifest *manifest, const char *object);

/* An artefact for the null device: y = x + 1 on LOOP_ROW elements i32. */
kiln_str fixture_null_artefact(kiln_arena *arena);

/* Where things are in fixture_plan, for tests that spoil it. */
enum {
    FIXTURE_X,
    FIXTURE_W0,
    FIXTURE_W1,
    FIXTURE_A0,
    FIXTURE_A1,
    FIXTURE_A1_ALIAS,
    FIXTURE_OUT0,
    FIXTURE_OUT1,
    FIXTURE_W0_AGAIN,
    FIXTURE_BUFFER_COUNT
};
enum { FIXTURE_STEP_COUNT = 5 };
/* x -> kernel(w0) -> a0 -> kernel(w1) -> a1 = alias; kernel(alias, w0 again) -> out0; alias copied
 * to out1. */
kiln_module_plan fixture_plan(kiln_arena *arena, const char *object);
/* What a run of it gives, computed here. `x`: [FIXTURE_COUNT]. */
void fixture_expected(const float *x, float *out0, float *out1);

/* A loop of five iterations over objects/loop.c, on rows of 16 floats: a sum that is carried, of
 * which each partial one is stacked, and the numbers of the iterations, which are copied.
 *
 *     s0 copied to state; loop { (x[t], state) -> (next, y[t], go); index copied to idx[t]; next
 * carried to state }; state copied to sum */
enum { LOOP_TRIPS = 5, LOOP_ROW = 16 };
#define LOOP_ROW_BYTES (LOOP_ROW * sizeof(float))
enum {
    LOOP_X,
    LOOP_S0,
    LOOP_Y,
    LOOP_SUM,
    LOOP_IDX,
    LOOP_STATE,
    LOOP_NEXT,
    LOOP_GO,
    LOOP_INDEX,
    LOOP_X_ROW,
    LOOP_Y_ROW,
    LOOP_IDX_ROW,
    LOOP_SPARE,
    LOOP_BUFFER_COUNT
};
enum {
    LOOP_STEP_INIT,
    LOOP_STEP_LOOP,
    LOOP_STEP_KERNEL,
    LOOP_STEP_INDEX,
    LOOP_STEP_CARRY,
    LOOP_STEP_SUM,
    LOOP_STEP_COUNT
};
kiln_module_plan fixture_loop_plan(kiln_arena *arena);
/* The same with the kernel on device 1, a second handle on the processor with memory of its own: x
 * and s0 are copied there, and y and the sum back. */
enum { LOOP_DEVICE_X = LOOP_BUFFER_COUNT, LOOP_DEVICE_Y, LOOP_DEVICE_BUFFER_COUNT };
enum {
    LOOP_DEVICE_STEP_X,
    LOOP_DEVICE_STEP_INIT,
    LOOP_DEVICE_STEP_LOOP,
    LOOP_DEVICE_STEP_KERNEL,
    LOOP_DEVICE_STEP_INDEX,
    LOOP_DEVICE_STEP_CARRY,
    LOOP_DEVICE_STEP_SUM,
    LOOP_DEVICE_STEP_Y,
    LOOP_DEVICE_STEP_EVENT,
    LOOP_DEVICE_STEP_COUNT
};
kiln_module_plan fixture_device_plan(kiln_arena *arena);

/* From the command line; set once in main. */
void fixture_init(int argc, char **argv);

#endif
