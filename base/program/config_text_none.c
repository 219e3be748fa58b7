/* In place of config_text.c in builds without libinih. */
#include "base/program/config_text.h"

kiln_status kiln_config_text_parse(const char *path, kiln_str text,
                                   kiln_status (*take)(void *context, const char *section,
                                                       const char *name, const char *value,
                                                       uint32_t line),
                                   void *context) {
    (void)text;
    (void)take;
    (void)context;
    return KILN_ERROR(UNIMPLEMENTED,
                      "%s: this program reads no configuration files: it was built "
                      "without libinih (--config none leaves them out)",
                      path);
}
