/* What device drivers need from the system, as in the table rpc-server/drivers.def. A contained
 * child that opens a device gets that and no more (rpc-server/sandbox.h). The helper's filter of
 * system calls, which children inherit, allows it if devices are offered. */
#ifndef KILN_RPC_SERVER_DRIVER_H
#define KILN_RPC_SERVER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/str.h"

typedef struct kiln_driver {
    const char *name, *doc;
    uint64_t folder_bytes; /* of a writable folder in memory; 0: none */
    bool starts;           /* starts threads and programs while it runs */
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
    bool is_device; /* writable; other files are read-only */
} kiln_driver_file;
/* Iterates over the driver's files, including those named by KEEPS variables in this process'
 * environment. `*at` starts at 0 and is advanced; false: no more. */
bool kiln_driver_next_file(const kiln_driver *driver, uint32_t *at, kiln_driver_file *out_file);
/* Whether the driver has files, or a writable folder. */
bool kiln_driver_has_files(const kiln_driver *driver);
/* Whether a row has exactly this file or folder. */
bool kiln_driver_sees(const kiln_driver *driver, const char *path);
/* Appends "; this user may not open PATH" for each device file of the driver that exists and that
 * this process may not open; of folders, files in them that are no displays ("card0"). Returns
 * their number. */
uint32_t kiln_driver_print_closed(const kiln_driver *driver, kiln_arena *arena, kiln_strbuf *out);
/* A variable of its environment. */
typedef struct kiln_driver_variable {
    const char *name, *value; /* value NULL: the path of the writable folder */
} kiln_driver_variable;
/* Iterates over the variables, like kiln_driver_next_file. */
bool kiln_driver_next_variable(const kiln_driver *driver, uint32_t *at,
                               kiln_driver_variable *out_variable);
/* Whether the variable of "NAME=value" is in a KEEPS row of any driver. */
bool kiln_driver_keeps(const char *variable);
/* Lists such variables of this process' environment, NULL-terminated; more than fit are left out.
 */
#define KILN_DRIVER_KEPT_MAX 64u
void kiln_driver_environment(const char *out[KILN_DRIVER_KEPT_MAX + 1]);
/* Iterates over libseccomp's numbers of the driver's system calls, like kiln_driver_next_file. */
bool kiln_driver_next_call(const kiln_driver *driver, uint32_t *at, int *out_call);

#endif
