/* A module with two kernels one after the other on a device, of text for its driver's compiler
 * (tests/support/text_artefact.h), which each take a constant that is packed:
 *
 *     x copied to the device -> kernel(w) -> kernel(w) -> copied to y; the processor waits */
#ifndef KILN_TESTS_SUPPORT_DEVICE_MODULE_H
#define KILN_TESTS_SUPPORT_DEVICE_MODULE_H

#include "base/arena.h"
#include "deploy/format.h"
#include "tests/support/text_artefact.h"

enum {
    DEVICE_MODULE_COPY_X,
    DEVICE_MODULE_FIRST,
    DEVICE_MODULE_SECOND,
    DEVICE_MODULE_COPY_Y,
    DEVICE_MODULE_WAIT,
    DEVICE_MODULE_STEPS
};

/* `kind`: of devices.def, which runs artefacts like `a`. All of it in `arena`. */
kiln_module_plan device_module_plan(uint32_t kind, const text_artefact *a, kiln_arena *arena);
/* What it makes of x: [TEXT_ARTEFACT_COUNT] each. */
void device_module_expected(const float *x, float *y);

#endif
