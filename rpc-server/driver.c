#include "rpc-server/driver.h"

#include <seccomp.h>
#include <string.h>

#include "base/check.h"

typedef struct file_row {
    const char *driver;
    kiln_driver_file file;
} file_row;

typedef struct call_row {
    const char *driver; /* of an entry that begins a row */
    int call;
} call_row;

#define DRIVER(name, mib, starts, bounded, doc) \
    const kiln_driver kiln_driver_##name = {#name, doc, (uint64_t)(mib) << 20, starts, bounded};
#define SETS(name, variable, value, doc)
#define SEES(name, path, doc)
#define OPENS(name, path, doc)
#define CALLS(name, why, calls)
#include "rpc-server/drivers.def"
#undef DRIVER
#undef SETS
#undef SEES
#undef OPENS
#undef CALLS

static const kiln_driver *const driver_table[] = {
#define DRIVER(name, mib, starts, bounded, doc) &kiln_driver_##name,
#define SETS(name, variable, value, doc)
#define SEES(name, path, doc)
#define OPENS(name, path, doc)
#define CALLS(name, why, calls)
#include "rpc-server/drivers.def"
#undef DRIVER
#undef SETS
#undef SEES
#undef OPENS
#undef CALLS
};

static const file_row file_table[] = {
#define DRIVER(name, mib, starts, bounded, doc)
#define SETS(name, variable, value, doc)
#define SEES(name, path, doc) {#name, {path, false}},
#define OPENS(name, path, doc) {#name, {path, true}},
#define CALLS(name, why, calls)
#include "rpc-server/drivers.def"
#undef DRIVER
#undef SETS
#undef SEES
#undef OPENS
#undef CALLS
};

typedef struct variable_row {
    const char *driver;
    kiln_driver_variable variable;
} variable_row;

static const variable_row variable_table[] = {
#define DRIVER(name, mib, starts, bounded, doc)
#define SETS(name, variable, value, doc) {#name, {variable, value}},
#define SEES(name, path, doc)
#define OPENS(name, path, doc)
#define CALLS(name, why, calls)
#include "rpc-server/drivers.def"
#undef DRIVER
#undef SETS
#undef SEES
#undef OPENS
#undef CALLS
};

/* The calls of a row stand behind an entry that names its driver. */
#define CALLS_BEGIN (-1000000)
static const call_row call_table[] = {
#define DRIVER(name, mib, starts, bounded, doc)
#define SETS(name, variable, value, doc)
#define SEES(name, path, doc)
#define OPENS(name, path, doc)
#define CALL(name) {NULL, SCMP_SYS(name)},
#define CALLS(name, why, calls) {#name, CALLS_BEGIN}, calls
#include "rpc-server/drivers.def"
#undef DRIVER
#undef SETS
#undef SEES
#undef OPENS
#undef CALLS
#undef CALL
};

uint32_t kiln_driver_count(void) { return KILN_ARRAY_COUNT(driver_table); }

const kiln_driver *kiln_driver_at(uint32_t index) {
    KILN_CHECK(index < kiln_driver_count());
    return driver_table[index];
}

uint32_t kiln_driver_index(const kiln_driver *driver) {
    uint32_t index = 0;
    while (kiln_driver_at(index) != driver) index++;
    return index;
}

bool kiln_driver_next_file(const kiln_driver *driver, uint32_t *at, kiln_driver_file *out_file) {
    while (*at < KILN_ARRAY_COUNT(file_table)) {
        const file_row *row = &file_table[(*at)++];
        if (strcmp(row->driver, driver->name) != 0) continue;
        *out_file = row->file;
        return true;
    }
    return false;
}

bool kiln_driver_next_variable(const kiln_driver *driver, uint32_t *at,
                               kiln_driver_variable *out_variable) {
    while (*at < KILN_ARRAY_COUNT(variable_table)) {
        const variable_row *row = &variable_table[(*at)++];
        if (strcmp(row->driver, driver->name) != 0) continue;
        *out_variable = row->variable;
        return true;
    }
    return false;
}

/* Whether the row that entry `at` of the calls belongs to is one of `driver`. */
static bool is_of(const kiln_driver *driver, uint32_t at) {
    while (call_table[at].call != CALLS_BEGIN) at--; /* the first entry begins a row */
    const char *name = call_table[at].driver;
    return strcmp(name, "every") == 0 || strcmp(name, driver->name) == 0;
}

bool kiln_driver_next_call(const kiln_driver *driver, uint32_t *at, int *out_call) {
    for (; *at < KILN_ARRAY_COUNT(call_table); (*at)++) {
        if (call_table[*at].call == CALLS_BEGIN || !is_of(driver, *at)) continue;
        *out_call = call_table[(*at)++].call;
        return true;
    }
    return false;
}
