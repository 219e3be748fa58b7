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

/* The loader reports only the reason of the last place that it searched, which may be that one of
 * them is not readable. */
static kiln_status refuse(const kiln_driver_library *library, const char *file, const char *why) {
    const size_t size = strlen(file);
    if (!why) why = file;
    if (!strchr(file, '/') && strncmp(why, file, size) == 0 &&
        strncmp(why + size, ": cannot open", strlen(": cannot open")) == 0)
        return KILN_ERROR(NOT_FOUND, "there is no driver: %s is not installed; %s", file,
                          library->install);
    return KILN_ERROR(NOT_FOUND, "there is no driver: %s; %s", why, library->install);
}

kiln_status kiln_driver_load(const kiln_driver_library *library,
                             const kiln_driver_function *function, uint32_t count) {
    const char *named = kiln_env(library->variable), *file = named ? named : library->file;
    /* The process may have one already: tools that inspect kernels are preloaded. */
    void *handle = named ? NULL : dlopen(NULL, RTLD_NOW);
    if (!handle || !dlsym(handle, function[0].name)) handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return refuse(library, file, dlerror());
    for (uint32_t i = 0; i < count; i++) {
        void *found = dlsym(handle, function[i].name);
        if (!found)
            return KILN_ERROR(FAILED_PRECONDITION, "%s has no function %s: it is too old", file,
                              function[i].name);
        memcpy(function[i].address, &found, sizeof found); /* C has no cast from an object to a
                                                            * function pointer */
    }
    return KILN_OK;
}

#endif
