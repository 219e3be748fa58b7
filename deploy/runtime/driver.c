#include "deploy/runtime/driver.h"

#ifdef KILN_STATIC

kiln_status kiln_driver_load(const kiln_driver_library *library,
                             const kiln_driver_function *function, uint32_t count) {
    (void)function, (void)count;
    return KILN_ERROR(
        UNIMPLEMENTED,
        "%s cannot be loaded: this program is linked statically, and drivers need one "
        "that is not",
        library->file);
}

#else

#include <dlfcn.h>
#include <string.h>

#include "base/opt.h"

kiln_status kiln_driver_load(const kiln_driver_library *library,
                             const kiln_driver_function *function, uint32_t count) {
    const char *named = kiln_env(library->variable), *file = named ? named : library->file;
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *why = dlerror();
        return KILN_ERROR(NOT_FOUND, "there is no driver: %s; %s", why ? why : file,
                          library->install);
    }
    for (uint32_t i = 0; i < count; i++) {
        void *found = dlsym(handle, function[i].name);
        if (!found)
            return KILN_ERROR(FAILED_PRECONDITION, "%s has no function %s: it is too old", file,
                              function[i].name);
        memcpy(function[i].address, &found, sizeof found); /* C has no cast from one to the other */
    }
    return KILN_OK;
}

#endif
