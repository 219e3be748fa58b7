/* Names of people, files and temporary folders. */
#ifndef KILN_CLI_COMMON_NAMES_H
#define KILN_CLI_COMMON_NAMES_H

#include "base/arena.h"

/* Of temporary folders that a command or a request holds (kiln_folder_hold_temp): one prefix for
 * all, so that each takes away what any killed one left. */
#define KILN_COMMAND_FOLDER "kiln-command"

/* This person's name: $USER, else that of the user's account, else "uid-1000". */
const char *kiln_user_name(kiln_arena *process);
/* The last part of a path. */
const char *kiln_file_name(const char *path);

#endif
