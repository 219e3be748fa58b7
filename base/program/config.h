/* Configuration files: which there are, and the values that they have for a program's options. */
#ifndef KILN_BASE_PROGRAM_CONFIG_H
#define KILN_BASE_PROGRAM_CONFIG_H

#include "base/program/program.h"

#define KILN_CONFIG_NONE "none" /* --config none: no file is read */

/* From the weakest to the strongest. In one file the section of a command counts more than that of
 * all commands. */
typedef enum kiln_source {
    KILN_SOURCE_DEFAULT,
    KILN_SOURCE_MACHINE_ALL,
    KILN_SOURCE_MACHINE,
    KILN_SOURCE_USER_ALL,
    KILN_SOURCE_USER,
    KILN_SOURCE_ENVIRONMENT,
    KILN_SOURCE_COMMAND_LINE,
    KILN_SOURCE_COUNT,
} kiln_source;

typedef struct kiln_value {
    kiln_opt_given given;
    kiln_source source;
    const char *place; /* "PATH:LINE", "$VARIABLE"; NULL: the command line */
} kiln_value;
typedef KILN_VEC(kiln_value) kiln_value_list;

typedef struct kiln_config_file {
    const char *path;
    kiln_source source; /* KILN_SOURCE_MACHINE or KILN_SOURCE_USER */
    bool is_named;      /* by --config: it must be there */
} kiln_config_file;

#define KILN_CONFIG_FILES_MAX 2
/* The files to read: `named`, which is what --config says; NULL: the machine's and the user's.
 * Whether they are there is not asked. Returns their number. */
uint32_t kiln_config_files(const char *named, kiln_arena *arena,
                           kiln_config_file out_file[KILN_CONFIG_FILES_MAX]);

/* The section that is a program's own, or its command's: "kiln tune". */
const char *kiln_executable_section(const kiln_executable *program, kiln_arena *arena);

/* Appends what a file says of the program's options; nothing where a file that is not named does
 * not exist. INVALID_ARGUMENT: no such section or option, an option twice, a line that is none, a
 * line of more than 199 bytes; the note names file and line. PERMISSION_DENIED: another user can
 * write it. UNIMPLEMENTED: the program was built without libinih. */
KILN_MUST_USE kiln_status kiln_config_read(const kiln_config_file *file,
                                           const kiln_executable *program,
                                           const kiln_opt_table *table, kiln_arena *arena,
                                           kiln_value_list *values);

#endif
