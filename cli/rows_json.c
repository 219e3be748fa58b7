#include "cli/rows_json.h"

#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/common/json.h"
#include "db/browse.h"

static const char hex_digits[] = "0123456789abcdef";

static json_t *blob_to_json(kiln_str blob) {
    kiln_strbuf text = {0};
    for (size_t i = 0; i < blob.size; i++) {
        uint8_t byte = (uint8_t)blob.data[i];
        kiln_strbuf_char(&text, hex_digits[byte >> 4]);
        kiln_strbuf_char(&text, hex_digits[byte & 15]);
    }
    json_t *value = json_string(text.data ? text.data : "");
    kiln_strbuf_deinit(&text);
    return value;
}

/* As it is: an export comes back as it was. Only what is no UTF-8, which nobody stores, does not.
 */
static json_t *text_to_json(kiln_str text) {
    json_t *value = json_stringn(text.data ? text.data : "", text.size);
    return value ? value : kiln_json_str(text);
}

/* JSON has no infinities; their names stand for them. */
static json_t *real_to_json(double value) {
    if (isnan(value)) return json_string("nan");
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return json_real(value);
}

static json_t *samples_to_json(const kiln_db_samples *samples) {
    json_t *array = json_array();
    for (size_t i = 0; i < samples->count; i++)
        json_array_append_new(array, real_to_json(samples->data[i]));
    return array;
}

static json_t *member_to_json(const kiln_db_column *column, const void *row) {
    const void *member = (const char *)row + column->offset;
    switch (column->type) {
    case KILN_DB_TEXT: return text_to_json(*(const kiln_str *)member);
    case KILN_DB_BLOB: return blob_to_json(*(const kiln_str *)member);
    case KILN_DB_INT: return json_integer(*(const int64_t *)member);
    case KILN_DB_REAL: return real_to_json(*(const double *)member);
    case KILN_DB_SAMPLES: return samples_to_json(member);
    }
    return NULL;
}

json_t *kiln_row_to_json(kiln_db_table table, const void *row) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    json_t *object = json_object();
    json_object_set_new(object, "table", json_string(info->name));
    for (uint32_t i = 0; i < info->column_count; i++)
        json_object_set_new(object, info->column[i].name, member_to_json(&info->column[i], row));
    return object;
}

void kiln_row_make_printable(kiln_db_table table, void *row, kiln_arena *arena) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    for (uint32_t i = 0; i < info->column_count; i++) {
        if (info->column[i].type != KILN_DB_TEXT) continue;
        kiln_str *text = (kiln_str *)((char *)row + info->column[i].offset);
        *text = kiln_text_printable(*text, KILN_TEXT_LINE, SIZE_MAX, arena);
    }
}

void kiln_row_print(kiln_db_table table, const void *row, FILE *out) {
    kiln_strbuf line = {0};
    kiln_db_row_print_json(table, row, &line);
    kiln_strbuf_char(&line, '\n');
    fwrite(line.data, 1, line.size, out);
    kiln_strbuf_deinit(&line);
}

static int digit_value(char c) {
    const char *at = c ? strchr(hex_digits, c) : NULL;
    return at ? (int)(at - hex_digits) : -1;
}

static bool blob_from_json(const json_t *value, kiln_arena *scratch, kiln_str *out) {
    const char *text = json_string_value(value);
    size_t size = text ? strlen(text) : 1;
    if (size % 2) return false;
    char *bytes = kiln_arena_alloc(scratch, size / 2);
    for (size_t i = 0; i < size / 2; i++) {
        int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i] = (char)(high * 16 + low);
    }
    *out = (kiln_str){bytes, size / 2};
    return true;
}

static bool real_from_json(const json_t *value, double *out) {
    const char *name = json_string_value(value);
    if (json_is_number(value))
        *out = json_number_value(value);
    else if (name && strcmp(name, "inf") == 0)
        *out = INFINITY;
    else if (name && strcmp(name, "-inf") == 0)
        *out = -INFINITY;
    else if (name && strcmp(name, "nan") == 0)
        *out = NAN;
    else
        return false;
    return true;
}

static bool samples_from_json(const json_t *value, kiln_arena *scratch, kiln_db_samples *out) {
    if (!json_is_array(value)) return false;
    size_t count = json_array_size(value);
    double *data = KILN_ARENA_ARRAY(scratch, double, count);
    for (size_t i = 0; i < count; i++)
        if (!real_from_json(json_array_get(value, i), &data[i])) return false;
    *out = (kiln_db_samples){data, count};
    return true;
}

static bool member_from_json(const kiln_db_column *column, const json_t *value, kiln_arena *scratch,
                             void *row) {
    void *member = (char *)row + column->offset;
    switch (column->type) {
    case KILN_DB_TEXT:
        if (!json_is_string(value)) return false;
        *(kiln_str *)member = (kiln_str){json_string_value(value), json_string_length(value)};
        return true;
    case KILN_DB_BLOB: return blob_from_json(value, scratch, member);
    case KILN_DB_INT:
        if (!json_is_integer(value)) return false;
        *(int64_t *)member = json_integer_value(value);
        return true;
    case KILN_DB_REAL: return real_from_json(value, member);
    case KILN_DB_SAMPLES: return samples_from_json(value, scratch, member);
    }
    return false;
}

static kiln_status put_object(kiln_db_import *import, const json_t *object, kiln_arena *scratch) {
    kiln_db_table table;
    const char *name = json_string_value(json_object_get(object, "table"));
    if (!name || !kiln_db_table_find(kiln_str_from(name), &table) ||
        kiln_db_table_info_of(table)->kind != KILN_DB_RECORDS)
        return KILN_ERROR(INVALID_ARGUMENT, "\"table\" is missing or names no table of records");
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    void *row = kiln_arena_alloc(scratch, info->row_size);
    for (uint32_t i = 0; i < info->column_count; i++) {
        const json_t *value = json_object_get(object, info->column[i].name);
        if (value && !member_from_json(&info->column[i], value, scratch, row))
            return KILN_ERROR(INVALID_ARGUMENT, "\"%s\" has the wrong type", info->column[i].name);
    }
    return kiln_db_import_row(import, table, row);
}

kiln_status kiln_row_import(kiln_db_import *import, kiln_str line, kiln_arena *scratch) {
    json_error_t error;
    json_t *object = json_loadb(line.data, line.size, JSON_REJECT_DUPLICATES, &error);
    if (!object) return KILN_ERROR(INVALID_ARGUMENT, "column %d: %s", error.column, error.text);
    kiln_status st = put_object(import, object, scratch);
    json_decref(object);
    return st;
}
