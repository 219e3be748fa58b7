/* What the driver of a device needs of the system: the table rpc-server/drivers.def. A contained
 * child that opens a device is given that and no more (rpc-server/sandbox.h); the helper, whose
 * filter of system calls its children inherit, lets it through where a driver is served. */
#ifndef KILN_RPC_SERVER_DRIVER_H
#define KILN_RPC_SERVER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/str.h"

typedef struct kiln_driver {
    const char *name, *doc;
    uint64_t folder_bytes; /* of a folder in memory that it may write to; 0: nothing */
    bool starts;           /* threads and programs while it serves */
    bool bounded;          /* its address space can be bounded */
} kiln_driver;

#define DRIVER(name, mib, starts, bounded, doc) extern const kiln_driver kiln_driver_##name;
#define SETS(name, variable, value, doc)
#define KEEPS(name, variable, means, doc)
#define SEES(name, path, doc)
#define OPENS(name, path, doc)
#define CALLS(name, why, calls)
#include "rpc-server/drivers.def"
#undef DRIVER
#undef SETS
#undef KEEPS
#undef SEES
#undef OPENS
#undef CALLS

uint32_t kiln_driver_count(void);
/* `index` below the count. */
const kiln_driver *kiln_driver_at(uint32_t index);
uint32_t kiln_driver_index(const kiln_driver *driver);

/* A file or folder that it uses. */
typedef struct kiln_driver_file {
    const char *path;
    bool is_device; /* it may be written to; the others only read */
} kiln_driver_file;
/* With what KEEPS rows name in this process's environment. From `*at` on, which begins at 0 and
 * moves behind the one found; false: there are no more. */
bool kiln_driver_next_file(const kiln_driver *driver, uint32_t *at, kiln_driver_file *out_file);
/* Whether it has any, or a folder that it may write to. */
bool kiln_driver_has_files(const kiln_driver *driver);
/* Whether a row shows it exactly this file or folder. */
bool kiln_driver_sees(const kiln_driver *driver, const char *path);
/* A variable of its environment. */
typedef struct kiln_driver_variable {
    const char *name, *value; /* value NULL: the folder where it may write */
} kiln_driver_variable;
/* The same as kiln_driver_next_file of them. */
bool kiln_driver_next_variable(const kiln_driver *driver, uint32_t *at,
                               kiln_driver_variable *out_variable);
/* Whether "NAME=value" is one of a KEEPS row, of any driver. */
bool kiln_driver_keeps(const char *variable);
/* Those of this process's environment, NULL-terminated; later ones are left out. */
#define KILN_DRIVER_KEPT_MAX 64u
void kiln_driver_environment(const char *out[KILN_DRIVER_KEPT_MAX + 1]);
/* The same as kiln_driver_next_file of numbers of system calls, as libseccomp has them. */
bool kiln_driver_next_call(const kiln_driver *driver, uint32_t *at, int *out_call);

#endif
