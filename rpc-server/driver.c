#include "rpc-server/driver.h"

#include <seccomp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/opt.h"

extern char **environ;

typedef struct file_row {
    const char *driver;
    kiln_driver_file file; /* path NULL: the value of `variable`, if it is a path */
    const char *variable;
} file_row;

typedef struct call_row {
    const char *driver; /* of an entry that begins a row */
    int call;
} call_row;

#define DRIVER(name, mib, starts, bounded, doc) \
    const kiln_driver kiln_driver_##name = {#name, doc, (uint64_t)(mib) << 20, starts, bounded};
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

static const kiln_driver *const driver_table[] = {
#define DRIVER(name, mib, starts, bounded, doc) &kiln_driver_##name,
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
};

/* What a variable names. */
enum { PLAIN, SEEN, OPENED };

static const file_row file_table[] = {
#define DRIVER(name, mib, starts, bounded, doc)
#define SETS(name, variable, value, doc)
#define KEEPS(name, variable, means, doc) \
    {#name, {NULL, means == OPENED}, means == PLAIN ? NULL : variable},
#define SEES(name, path, doc) {#name, {path, false}, NULL},
#define OPENS(name, path, doc) {#name, {path, true}, NULL},
#define CALLS(name, why, calls)
#include "rpc-server/drivers.def"
#undef DRIVER
#undef SETS
#undef KEEPS
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
};

static const char *const kept_table[] = {
#define DRIVER(name, mib, starts, bounded, doc)
#define SETS(name, variable, value, doc)
#define KEEPS(name, variable, means, doc) variable,
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
};

/* The calls of a row follow an entry that names its driver. */
#define CALLS_BEGIN (-1000000)
static const call_row call_table[] = {
#define DRIVER(name, mib, starts, bounded, doc)
#define SETS(name, variable, value, doc)
#define KEEPS(name, variable, means, doc)
#define SEES(name, path, doc)
#define OPENS(name, path, doc)
#define CALL(name) {NULL, SCMP_SYS(name)},
#define CALLS(name, why, calls) {#name, CALLS_BEGIN}, calls
#include "rpc-server/drivers.def"
#undef DRIVER
#undef SETS
#undef KEEPS
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
        if (row->variable) out_file->path = kiln_env(row->variable);
        if (out_file->path && out_file->path[0] == '/') return true;
    }
    return false;
}

bool kiln_driver_has_files(const kiln_driver *driver) {
    kiln_driver_file file;
    uint32_t at = 0;
    return driver->folder_bytes || kiln_driver_next_file(driver, &at, &file);
}

bool kiln_driver_sees(const kiln_driver *driver, const char *path) {
    kiln_driver_file file;
    for (uint32_t at = 0; kiln_driver_next_file(driver, &at, &file);)
        if (strcmp(file.path, path) == 0) return true;
    return false;
}

static bool is_folder(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static uint32_t print_closed(const char *path, kiln_strbuf *out) {
    if (access(path, F_OK) != 0 || access(path, R_OK | W_OK) == 0) return 0;
    kiln_strbuf_printf(out, "; this user may not open %s", path);
    return 1;
}

/* Drivers compute through "renderD128", not through "card0", which is the display's. */
static uint32_t print_closed_in(const char *folder, kiln_arena *arena, kiln_strbuf *out) {
    char **name = NULL;
    size_t count = 0;
    uint32_t closed = 0;
    kiln_status st = kiln_folder_list(folder, arena, &name, &count);
    if (st) { /* the folder itself is closed */
        kiln_status_free(st);
        return print_closed(folder, out);
    }
    for (size_t i = 0; i < count; i++) {
        const char *path = kiln_arena_printf(arena, "%s/%s", folder, name[i]);
        if (!is_folder(path) && strncmp(name[i], "card", 4) != 0) closed += print_closed(path, out);
    }
    return closed;
}

uint32_t kiln_driver_print_closed(const kiln_driver *driver, kiln_arena *arena, kiln_strbuf *out) {
    kiln_driver_file file;
    uint32_t closed = 0;
    for (uint32_t at = 0; kiln_driver_next_file(driver, &at, &file);)
        if (file.is_device)
            closed += is_folder(file.path) ? print_closed_in(file.path, arena, out)
                                           : print_closed(file.path, out);
    return closed;
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

bool kiln_driver_keeps(const char *variable) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(kept_table); i++) {
        const size_t size = strlen(kept_table[i]);
        if (strncmp(variable, kept_table[i], size) == 0 &&
            (variable[size] == '=' || kept_table[i][size - 1] == '_'))
            return true;
    }
    return false;
}

void kiln_driver_environment(const char *out[KILN_DRIVER_KEPT_MAX + 1]) {
    uint32_t count = 0;
    for (char **variable = environ; variable && *variable; variable++)
        if (count < KILN_DRIVER_KEPT_MAX && kiln_driver_keeps(*variable)) out[count++] = *variable;
    out[count] = NULL;
}

/* Whether entry `at` of the calls belongs to a row of `driver`. */
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
