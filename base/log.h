/* Leveled lines on stderr: "level time program message key=value ...". Libraries log at debug only;
 * the top of each program logs each event once. */
#ifndef KILN_BASE_LOG_H
#define KILN_BASE_LOG_H

#include "base/macros.h"

typedef enum kiln_log_level {
    KILN_LOG_ERROR,
    KILN_LOG_WARN,
    KILN_LOG_INFO,
    KILN_LOG_DEBUG
} kiln_log_level;

/* Called once from main. `program` must outlive the process. */
void kiln_log_init(const char *program, kiln_log_level level);
void kiln_log(kiln_log_level level, const char *format, ...) KILN_PRINTF(2, 3);

#endif
