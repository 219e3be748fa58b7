#include <string.h>

#include "base/macros.h"
#include "proto/depot/parts.h"

static const kiln_depot_row *const rows[] = {
#define DEPOT(name) &kiln_depot_##name,
#include "proto/depot/depots.def"
#undef DEPOT
};

static const kiln_depot_row *row_of(kiln_str text) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++)
        if (kiln_str_starts(text, rows[i]->prefix)) return rows[i];
    return NULL;
}

bool kiln_depot_is_named(kiln_str text) { return row_of(text) != NULL; }

kiln_status kiln_depot_open(kiln_str text, kiln_depot **out_depot) {
    const kiln_depot_row *row = row_of(text);
    if (row)
        return kiln_status_note(
            row->open(kiln_str_slice(text, strlen(row->prefix), text.size), out_depot), "%.*s",
            KILN_STR_ARG(text));
    kiln_strbuf forms = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++)
        kiln_strbuf_printf(&forms, "%s%s", i ? ", " : "", rows[i]->form);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "'%.*s' names no depot of blobs; one is: %s",
                                KILN_STR_ARG(text), forms.data);
    kiln_strbuf_deinit(&forms);
    return st;
}

void kiln_depot_close(kiln_depot *depot) {
    if (depot) depot->row->close(depot);
}
