/* The form of configuration files, read by libinih where the build has it. */
#ifndef KILN_BASE_PROGRAM_CONFIG_TEXT_H
#define KILN_BASE_PROGRAM_CONFIG_TEXT_H

#include "base/status.h"
#include "base/str.h"

/* `path` is for errors. Hands each "name = value" of `text` to `take`, in order, with its section
 * ("" before the first) and its line, from 1 on. The texts last until it returns. Ends at the first
 * error, of `take` too, whose note is "path:line". INVALID_ARGUMENT: a line that is neither, or is
 * too long. UNIMPLEMENTED: the program was built without libinih. */
KILN_MUST_USE kiln_status
kiln_config_text_parse(const char *path, kiln_str text,
                       kiln_status (*take)(void *context, const char *section, const char *name,
                                           const char *value, uint32_t line),
                       void *context);

#endif
