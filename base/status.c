#include "base/status.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define MESSAGE_MAX 4096 /* bytes of one message or note, with its NUL */
#define TEXT_MAX 16384   /* of a status with all its notes; further notes are dropped */

struct kiln_status_object {
    kiln_code code;
    const char *file; /* where it was made: a string literal */
    int line;
    char *text; /* "outermost note: ...: message" */
};

typedef struct code_info {
    const char *name, *meaning;
    unsigned number;
    int exit_code;
} code_info;

static const code_info code_table[] = {
#define X(name, number, exit_code, meaning) {#name, meaning, number, exit_code},
#include "base/status.def"
#undef X
};

static const code_info *info_of(kiln_code code) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(code_table); i++)
        if (code_table[i].number == (unsigned)code) return &code_table[i];
    return NULL;
}

/* Replaces a status for which there is no memory, so that an error never ends a process. */
static const char no_memory_text[] = "out of memory";
static const struct kiln_status_object no_memory = {KILN_RESOURCE_EXHAUSTED, __FILE__, __LINE__,
                                                    (char *)no_memory_text};

kiln_status kiln_status_make(kiln_code code, const char *file, int line, const char *format, ...) {
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);

    const size_t size = strlen(message) + 1;
    kiln_status status = kiln_try_alloc(sizeof *status);
    char *text = status ? kiln_try_alloc(size) : NULL;
    if (!text) {
        kiln_free(status);
        return (kiln_status)(uintptr_t)&no_memory;
    }
    memcpy(text, message, size);
    *status = (struct kiln_status_object){code, file, line, text};
    return status;
}

kiln_status kiln_status_note(kiln_status status, const char *format, ...) {
    if (!status || status == &no_memory) return status;
    char note[MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);

    size_t size = strlen(note) + strlen(": ") + strlen(status->text) + 1;
    if (size > TEXT_MAX) return status;
    char *text = kiln_try_alloc(size);
    if (!text) return status;
    snprintf(text, size, "%s: %s", note, status->text);
    kiln_free(status->text);
    status->text = text;
    return status;
}

kiln_code kiln_status_code(kiln_status status) { return status ? status->code : KILN_OK; }

const char *kiln_status_text(kiln_status status) { return status ? status->text : "ok"; }

const char *kiln_status_origin(kiln_status status, int *out_line) {
    *out_line = status ? status->line : 0;
    return status ? status->file : "";
}

void kiln_status_free(kiln_status status) {
    if (!status || status == &no_memory) return;
    kiln_free(status->text);
    kiln_free(status);
}

int kiln_status_report(kiln_status status, char *error, size_t error_bytes) {
    const int number = (int)kiln_status_code(status);
    if (status && error && error_bytes > 0)
        (void)snprintf(error, error_bytes, "%s", kiln_status_text(status));
    kiln_status_free(status);
    return number;
}

const char *kiln_code_name(kiln_code code) {
    const code_info *info = info_of(code);
    return info ? info->name : "UNKNOWN";
}

const char *kiln_code_meaning(kiln_code code) {
    const code_info *info = info_of(code);
    return info ? info->meaning : "an error code that this version does not know";
}

int kiln_code_exit(kiln_code code) {
    const code_info *info = info_of(code);
    return info ? info->exit_code : 1;
}

bool kiln_code_find(const char *name, kiln_code *out_code) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(code_table); i++)
        if (strcmp(code_table[i].name, name) == 0) {
            *out_code = (kiln_code)code_table[i].number;
            return true;
        }
    return false;
}

bool kiln_code_from_wire(unsigned number, kiln_code *out_code) {
    if (!info_of((kiln_code)number)) return false;
    *out_code = (kiln_code)number;
    return true;
}

kiln_code kiln_code_from_errno(int number) {
    static const struct {
        int number;
        kiln_code code;
    } row[] = {
        {ENOENT, KILN_NOT_FOUND},
        {ENOTDIR, KILN_NOT_FOUND},
        {EACCES, KILN_PERMISSION_DENIED},
        {EPERM, KILN_PERMISSION_DENIED},
        {EROFS, KILN_PERMISSION_DENIED},
        {EEXIST, KILN_ALREADY_EXISTS},
        {ENOTEMPTY, KILN_ALREADY_EXISTS},
        {EADDRINUSE, KILN_ALREADY_EXISTS},
        {ENOSPC, KILN_RESOURCE_EXHAUSTED},
        {EDQUOT, KILN_RESOURCE_EXHAUSTED},
        {EMFILE, KILN_RESOURCE_EXHAUSTED},
        {ENFILE, KILN_RESOURCE_EXHAUSTED},
        {ENOMEM, KILN_RESOURCE_EXHAUSTED},
        {EFBIG, KILN_RESOURCE_EXHAUSTED},
        {EISDIR, KILN_INVALID_ARGUMENT},
        {EINVAL, KILN_INVALID_ARGUMENT},
        {ENAMETOOLONG, KILN_INVALID_ARGUMENT},
        {ELOOP, KILN_INVALID_ARGUMENT},
        {EIO, KILN_DATA_LOSS},
        {ETIMEDOUT, KILN_DEADLINE_EXCEEDED},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        if (row[i].number == number) return row[i].code;
    return KILN_UNAVAILABLE;
}
