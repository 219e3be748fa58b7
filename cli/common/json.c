#include "cli/common/json.h"

#include "base/text.h"

/* Makes every string in `value` printable; names of members are ours, or columns'. */
static json_t *printable(json_t *value) {
    size_t i = 0;
    const char *name = NULL;
    json_t *member = NULL;
    if (json_is_string(value))
        return kiln_json_str((kiln_str){json_string_value(value), json_string_length(value)});
    json_object_foreach(value, name, member) json_object_set_new(value, name, printable(member));
    json_array_foreach(value, i, member) json_array_set_new(value, i, printable(member));
    return json_incref(value);
}

static int append(const char *data, size_t size, void *out) {
    kiln_strbuf_append(out, data, size);
    return 0;
}

void kiln_json_print(json_t *object, kiln_strbuf *out) {
    json_decref(printable(object));
    json_dump_callback(object, append, out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
}

json_t *kiln_json_str(kiln_str text) {
    kiln_strbuf printable = {0};
    kiln_text_append(&printable, text, KILN_TEXT_PAGE, SIZE_MAX);
    json_t *value = json_stringn(printable.data ? printable.data : "", printable.size);
    kiln_strbuf_deinit(&printable);
    return value;
}
