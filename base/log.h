/* Leveled lines on stderr: "level time program message key=value ...", or one JSON object each.
 * Libraries log at debug only; the top of each program logs each event once. */
#ifndef KILN_BASE_LOG_H
#define KILN_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/status.h"
#include "base/str.h"

typedef enum kiln_log_level {
    KILN_LOG_ERROR,
    KILN_LOG_WARN,
    KILN_LOG_INFO,
    KILN_LOG_DEBUG
} kiln_log_level;

/* Called once from main. `program` must outlive the process. */
void kiln_log_init(const char *program, kiln_log_level level);
/* The level that it is at; words for levels, as --log-level has them. `find` returns false when the
 * word is unknown. */
kiln_log_level kiln_log_level_now(void);
const char *kiln_log_level_name(kiln_log_level level);
bool kiln_log_level_find(const char *name, kiln_log_level *out_level);
/* From here on each line is {"level":...,"time":...,"program":...,"message":...} and fields. */
void kiln_log_as_json(void);
void kiln_log(kiln_log_level level, const char *format, ...) KILN_PRINTF(2, 3);
/* Level for a failure that is retried: warn if its code is not yet in the set `logged`, else debug.
 * The caller empties the set after a success. */
kiln_log_level kiln_log_level_of(uint32_t *logged, kiln_code code);
/* Also passes each line, without its end, to `tap`, on the thread that logs. NULL ends that. Call
 * it while no other thread logs. */
void kiln_log_tap(void (*tap)(void *context, kiln_str line), void *context);

/* A field of a line: job, trial, board, lease, ... Left out if it has no value. */
typedef struct kiln_log_field {
    const char *name;
    kiln_str value;
} kiln_log_field;
void kiln_log_event(kiln_log_level level, const char *message, const kiln_log_field *field,
                    uint32_t field_count);

#endif
