/* Loads the library of a device's driver while the program runs, so that programs start without it
 * and machines without it need no package. Used by the rows of devices.def with drivers, and by
 * `kiln doctor`. */
#ifndef KILN_DEPLOY_DRIVER_H
#define KILN_DEPLOY_DRIVER_H

#include <stdint.h>

#include "base/status.h"

typedef struct kiln_driver_library {
    const char *file;     /* "libcuda.so.1" */
    const char *variable; /* environment variable that names another file */
    const char *install;  /* instructions to install it */
} kiln_driver_library;

/* One function of a library, and where to store its address. */
typedef struct kiln_driver_function {
    const char *name;
    void *address; /* of a function pointer */
} kiln_driver_function;

/* Loads the library and finds its functions. The order is: the library that the variable names, one
 * that is preloaded in the process, `file`. It stays loaded until the process ends, because drivers
 * have threads and exit functions.
 *
 * UNIMPLEMENTED        this program is linked statically
 * NOT_FOUND            there is no such library, or it needs one that is missing
 * FAILED_PRECONDITION  it lacks a function: it is too old */
KILN_MUST_USE kiln_status kiln_driver_load(const kiln_driver_library *library,
                                           const kiln_driver_function *function, uint32_t count);

#endif
