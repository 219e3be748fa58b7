/* Operating errors. A kiln_status is NULL on success; otherwise it is an owned object with a code,
 * the place where it was made, a message and notes that callers added on the way up. Return it,
 * note it, or free it. Used by every folder; codes come from status.def. */
#ifndef KILN_BASE_STATUS_H
#define KILN_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"

typedef enum kiln_code {
#define X(name, number, exit_code, meaning) KILN_##name = number,
#include "base/status.def"
#undef X
} kiln_code;

typedef struct kiln_status_object *kiln_status;
/* Success as a value of type kiln_status (the enum above has the wire number KILN_OK = 0, which
 * converts to the null pointer as well, so `return KILN_OK;` is right in both worlds). */

#define KILN_ERROR(name, ...) kiln_status_make(KILN_##name, __FILE__, __LINE__, __VA_ARGS__)

/* "DOING PATH: reason" for an errno of a file, process or socket call. */
#define KILN_SYSTEM_ERROR(number, doing, path)                                               \
    kiln_status_make(kiln_code_from_errno(number), __FILE__, __LINE__, "%s %s: %s", (doing), \
                     (path), strerror(number))

/* Makes a status; use KILN_ERROR. The message is bounded to 4096 bytes. */
KILN_MUST_USE kiln_status kiln_status_make(kiln_code code, const char *file, int line,
                                           const char *format, ...) KILN_PRINTF(4, 5);
/* Adds context that the callee did not know; returns the same status. `status` may be NULL: then
 * nothing happens and NULL returns. */
KILN_MUST_USE kiln_status kiln_status_note(kiln_status status, const char *format, ...)
    KILN_PRINTF(2, 3);
/* Code of a status; KILN_OK for NULL. */
kiln_code kiln_status_code(kiln_status status);
/* One line: "outermost note: ...: message". Owned by the status. "ok" for NULL. */
const char *kiln_status_text(kiln_status status);
/* Source file and line that made it, for debug output; "" and 0 for NULL. */
const char *kiln_status_origin(kiln_status status, int *out_line);
/* Frees; accepts NULL. */
void kiln_status_free(kiln_status status);
/* For functions that other programs call: returns the code and copies the text into `error`, cut to
 * `error_bytes`, unless that is NULL or 0. Frees the status. Returns 0 for NULL and leaves `error`
 * unchanged. */
int kiln_status_report(kiln_status status, char *error, size_t error_bytes);

/* Names and numbers of codes. `find` returns false when the name is unknown. */
const char *kiln_code_name(kiln_code code);
const char *kiln_code_meaning(kiln_code code);
int kiln_code_exit(kiln_code code);
bool kiln_code_find(const char *name, kiln_code *out_code);
bool kiln_code_from_wire(unsigned number, kiln_code *out_code);
/* The code that best fits an errno of a file, process or socket call. */
kiln_code kiln_code_from_errno(int number);

#endif
