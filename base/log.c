#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE_MAX_BYTES 2048

/* Set once by main before any thread starts; read-only afterwards. */
static const char *program_name = "kiln";
static kiln_log_level threshold = KILN_LOG_WARN;

void kiln_log_init(const char *program, kiln_log_level level) {
    program_name = program;
    threshold = level;
}

/* One write per line, so that lines of several processes on one terminal do not mix. */
void kiln_log(kiln_log_level level, const char *format, ...) {
    static const char *const level_name[] = {"error", "warn", "info", "debug"};
    if (level > threshold) return;

    uint64_t wall_ns = kiln_clock_wall_ns();
    time_t seconds = (time_t)(wall_ns / KILN_NS_PER_S);
    struct tm utc;
    char stamp[32] = "";
    if (gmtime_r(&seconds, &utc)) strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);

    char line[LINE_MAX_BYTES];
    int head = snprintf(line, sizeof line, "%s %s.%03uZ %s ", level_name[level], stamp,
                        (unsigned)(wall_ns / KILN_NS_PER_MS % 1000), program_name);
    size_t size = head > 0 && (size_t)head < sizeof line / 2 ? (size_t)head : 0;
    va_list args;
    va_start(args, format);
    int body = vsnprintf(line + size, sizeof line - size - 1, format, args);
    va_end(args);
    size = body < 0 ? size : strlen(line);
    for (size_t i = 0; i < size; i++)
        if (line[i] == '\n') line[i] = ' '; /* peers' text must not forge lines */
    line[size++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, size);
    (void)ignored; /* a closed stderr must not stop a daemon */
}
