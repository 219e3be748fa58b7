/* Loads the library of a device's driver while the program runs, so that programs start without it
 * and machines without it need no package. Used by the rows of devices.def that stand for drivers,
 * and by `kiln doctor`. */
#ifndef KILN_DEPLOY_DRIVER_H
#define KILN_DEPLOY_DRIVER_H

#include <stdint.h>

#include "base/status.h"

typedef struct kiln_driver_library {
    const char *file;     /* "libcuda.so.1" */
    const char *variable; /* of the environment: names another file */
    const char *install;  /* what a person does to get it */
} kiln_driver_library;

/* One function of a library: where its address goes. */
typedef struct kiln_driver_function {
    const char *name;
    void *address; /* of a function pointer */
} kiln_driver_function;

/* Loads the library and finds its functions. One that the process has already, because it was
 * preloaded, goes before that of `file`; none before the one that the variable names. It stays
 * loaded until the process ends: drivers have threads, and functions that are called at the end.
 *
 * UNIMPLEMENTED        this program is linked statically
 * NOT_FOUND            there is no such library, or it needs one that is not there
 * FAILED_PRECONDITION  it lacks a function: it is too old */
KILN_MUST_USE kiln_status kiln_driver_load(const kiln_driver_library *library,
                                           const kiln_driver_function *function, uint32_t count);

#endif
