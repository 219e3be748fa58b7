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
/* How loud a failure that is tried again is: warn when its code is new in `said`, a set of codes
 * that the caller empties when all is well again, and from then on debug. */
kiln_log_level kiln_log_level_of(uint32_t *said, kiln_code code);
/* Gives each line that is written, without its end, to `tap` as well; on the thread that writes it,
 * which may be any. NULL ends that. Called while no other thread logs. */
void kiln_log_tap(void (*tap)(void *context, kiln_str line), void *context);

/* What a line is about: job, trial, board, lease, ... A field without a value is left out. */
typedef struct kiln_log_field {
    const char *name;
    kiln_str value;
} kiln_log_field;
void kiln_log_event(kiln_log_level level, const char *message, const kiln_log_field *field,
                    uint32_t field_count);

#endif
