#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

#define LINE_MAX_BYTES 2048

/* Set once by main before any thread starts; read-only afterwards. */
static const char *program_name = "kiln";
static kiln_log_level threshold = KILN_LOG_WARN;
static bool as_json;
static void (*the_tap)(void *context, kiln_str line);
static void *tap_context;

void kiln_log_init(const char *program, kiln_log_level level) {
    program_name = program;
    threshold = level;
}

static const char *const level_name[] = {"error", "warn", "info", "debug"};

kiln_log_level kiln_log_level_now(void) { return threshold; }

const char *kiln_log_level_name(kiln_log_level level) { return level_name[level]; }

bool kiln_log_level_find(const char *name, kiln_log_level *out_level) {
    for (unsigned i = 0; i < KILN_ARRAY_COUNT(level_name); i++) {
        if (strcmp(name, level_name[i]) != 0) continue;
        *out_level = (kiln_log_level)i;
        return true;
    }
    return false;
}

void kiln_log_as_json(void) { as_json = true; }

void kiln_log_tap(void (*tap)(void *context, kiln_str line), void *context) {
    the_tap = tap;
    tap_context = context;
}

/* A line on the stack, because logging must not allocate. It is cut off at its limit. */
typedef struct line {
    char text[LINE_MAX_BYTES];
    size_t size;
} line;

#define TAIL_BYTES 4 /* always fit: quote, brace, line end */

static void add_char(line *l, char c) {
    if (l->size < sizeof l->text - TAIL_BYTES) l->text[l->size++] = c;
}

static void add_format(line *l, const char *format, va_list args) {
    size_t room = sizeof l->text - TAIL_BYTES - l->size;
    int size = vsnprintf(l->text + l->size, room, format, args);
    if (size > 0) l->size += (size_t)size < room ? (size_t)size : room - 1;
}

static void KILN_PRINTF(2, 3) add(line *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_format(l, format, args);
    va_end(args);
}

/* Inside quotes, printable; a line end is JSON's. A character's form is cut off whole. */
static void add_quoted(line *l, kiln_str text) {
    while (text.size) {
        char piece[KILN_TEXT_PIECE_MAX] = "\\u000a", quoted[2 * KILN_TEXT_PIECE_MAX];
        const bool is_end = *text.data == '\n';
        size_t size = 0, piece_size = 6;
        if (is_end)
            text = kiln_str_slice(text, 1, text.size);
        else
            piece_size = kiln_text_step(&text, KILN_TEXT_LINE, piece);
        for (size_t i = 0; i < piece_size; i++) {
            if (!is_end && (piece[i] == '"' || piece[i] == '\\')) quoted[size++] = '\\';
            quoted[size++] = piece[i];
        }
        if (l->size + size > sizeof l->text - TAIL_BYTES) return;
        memcpy(l->text + l->size, quoted, size);
        l->size += size;
    }
}

static bool is_plain(kiln_str text) {
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] <= ' ' || text.data[i] == '"' || text.data[i] == '=')
            return false;
    return true;
}

static void begin(line *l, kiln_log_level level) {
    uint64_t wall_ns = kiln_clock_wall_ns();
    time_t seconds = (time_t)(wall_ns / KILN_NS_PER_S);
    struct tm utc;
    char stamp[32] = "";
    l->size = 0;
    if (gmtime_r(&seconds, &utc)) strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    add(l,
        as_json ? "{\"level\":\"%s\",\"time\":\"%s.%03uZ\",\"program\":\"%s\",\"message\":\""
                : "%s %s.%03uZ %s ",
        level_name[level], stamp, (unsigned)(wall_ns / KILN_NS_PER_MS % 1000), program_name);
}

/* Escapes peers' text, which must not forge lines or control a terminal. */
static void make_printable(line *l) {
    line plain = *l;
    for (size_t i = 0; i < plain.size; i++)
        if (plain.text[i] == '\n') plain.text[i] = ' ';
    l->size = kiln_text_write((kiln_str){plain.text, plain.size}, KILN_TEXT_LINE, l->text,
                              sizeof l->text - TAIL_BYTES);
}

/* One write per line, so that lines of several processes on one terminal do not mix. */
static void end(line *l) {
    if (as_json)
        l->text[l->size++] = '}';
    else
        make_printable(l);
    if (the_tap) the_tap(tap_context, (kiln_str){l->text, l->size});
    l->text[l->size++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, l->text, l->size);
    (void)ignored; /* a closed stderr must not stop a daemon */
}

void kiln_log(kiln_log_level level, const char *format, ...) {
    if (level > threshold) return;
    line l, message = {.size = 0};
    va_list args;
    begin(&l, level);
    va_start(args, format);
    if (as_json) {
        add_format(&message, format, args);
        add_quoted(&l, (kiln_str){message.text, message.size});
        l.text[l.size++] = '"';
    } else {
        add_format(&l, format, args);
    }
    va_end(args);
    end(&l);
}

kiln_log_level kiln_log_level_of(uint32_t *logged, kiln_code code) {
    KILN_CHECK((uint32_t)code < 32); /* a bit for each */
    const uint32_t bit = UINT32_C(1) << code;
    const bool is_new = !(*logged & bit);
    *logged |= bit;
    return is_new ? KILN_LOG_WARN : KILN_LOG_DEBUG;
}

void kiln_log_event(kiln_log_level level, const char *message, const kiln_log_field *field,
                    uint32_t field_count) {
    if (level > threshold) return;
    line l;
    begin(&l, level);
    add(&l, as_json ? "%s\"" : "%s", message);
    for (uint32_t i = 0; i < field_count; i++) {
        /* A field is whole, cut in its value, or not there. */
        if (!field[i].value.size || l.size + strlen(field[i].name) + 16 > sizeof l.text) continue;
        bool quoted = as_json || !is_plain(field[i].value);
        add(&l, as_json ? ",\"%s\":" : " %s=", field[i].name);
        if (quoted) add_char(&l, '"');
        if (quoted)
            add_quoted(&l, field[i].value);
        else
            add(&l, "%.*s", KILN_STR_ARG(field[i].value));
        if (quoted) l.text[l.size++] = '"';
    }
    end(&l);
}
