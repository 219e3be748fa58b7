/* Fuzzes configuration files: what is taken stands on the line that is told, and each text, also
 * one that a hostile user wrote, ends in values or an error. */
#include <string.h>

#include "base/check.h"
#include "base/program/config_text.h"
#include "tests/fuzz/fuzz.h"

typedef struct found {
    kiln_str text;
    uint32_t line; /* of the value before */
} found;

/* The line has the value; that of a value over several lines is its last one. */
static kiln_status take(void *context, const char *section, const char *name, const char *value,
                        uint32_t line) {
    found *f = context;
    kiln_str rest = f->text, told = {0};
    KILN_CHECK(line > f->line && strlen(section) < 64 && strlen(name) < 200);
    f->line = line;
    for (uint32_t i = 0; i < line; i++) told = kiln_str_cut(&rest, '\n');
    KILN_CHECK(!*value || memmem(told.data, told.size, value, strlen(value)));
    return strcmp(value, "stop") == 0 ? KILN_ERROR(CANCELLED, "stopped") : KILN_OK;
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    found f = {.text = {(const char *)data, size}};
    kiln_status_free(kiln_config_text_parse("file", f.text, take, &f)); /* or the value */
    return 0;
}
