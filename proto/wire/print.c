/* Messages and records as JSON, for logs, `--json` and tests. */
#include "base/check.h"
#include "base/text.h"
#include "proto/wire/schema.h"

void kiln_json_print_text(kiln_str text, kiln_strbuf *out) {
    kiln_strbuf_char(out, '"');
    kiln_text_append_json(out, text);
    kiln_strbuf_char(out, '"');
}

static void print_struct(const kiln_schema *schema, const void *owner, kiln_strbuf *out);

static void print_list(const kiln_field_info *field, const kiln_any_list *list, kiln_strbuf *out) {
    const kiln_schema *record = kiln_schema_of_record(field->record);
    kiln_strbuf_char(out, '[');
    for (uint32_t i = 0; i < list->count; i++) {
        if (i) kiln_strbuf_char(out, ',');
        print_struct(record, (const char *)list->item + i * record->size, out);
    }
    kiln_strbuf_char(out, ']');
}

static void print_u64s(const kiln_u64s *list, kiln_strbuf *out) {
    kiln_strbuf_char(out, '[');
    for (uint32_t i = 0; i < list->count; i++)
        kiln_strbuf_printf(out, "%s%llu", i ? "," : "", (unsigned long long)list->item[i]);
    kiln_strbuf_char(out, ']');
}

static void print_digest(const kiln_digest *digest, kiln_strbuf *out) {
    char text[KILN_DIGEST_TEXT];
    kiln_digest_print(digest, text);
    kiln_strbuf_printf(out, "\"%s\"", text);
}

static void print_field(const kiln_field_info *field, const void *at, kiln_strbuf *out) {
    switch (field->kind) {
    case KILN_FIELD_flag: kiln_strbuf_text(out, *(const bool *)at ? "true" : "false"); return;
    case KILN_FIELD_u32: kiln_strbuf_printf(out, "%u", *(const uint32_t *)at); return;
    case KILN_FIELD_u64:
        kiln_strbuf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        return;
    case KILN_FIELD_f64: kiln_strbuf_printf(out, "%.17g", *(const double *)at); return;
    case KILN_FIELD_text: kiln_json_print_text(*(const kiln_str *)at, out); return;
    /* Bytes may be secrets (the token): prints only their size. */
    case KILN_FIELD_bytes:
        kiln_strbuf_printf(out, "\"(%zu bytes)\"", ((const kiln_str *)at)->size);
        return;
    case KILN_FIELD_digest: print_digest(at, out); return;
    case KILN_FIELD_u64s: print_u64s(at, out); return;
    case KILN_FIELD_nest: print_struct(kiln_schema_of_record(field->record), at, out); return;
    case KILN_FIELD_list: print_list(field, at, out); return;
    case KILN_FIELD_KIND_COUNT: break;
    }
    KILN_CHECK(field->kind != KILN_FIELD_KIND_COUNT);
}

static void print_struct(const kiln_schema *schema, const void *owner, kiln_strbuf *out) {
    const char *separator = "";
    kiln_strbuf_char(out, '{');
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const kiln_field_info *field = &schema->field[i];
        if (!field->required && kiln_field_is_empty(field, owner)) continue;
        kiln_strbuf_printf(out, "%s\"%s\":", separator, field->name);
        print_field(field, (const char *)owner + field->offset, out);
        separator = ",";
    }
    kiln_strbuf_char(out, '}');
}

void kiln_record_print_json(kiln_record_type type, const void *record, kiln_strbuf *out) {
    print_struct(kiln_schema_of_record(type), record, out);
}

void kiln_message_print_json(const kiln_message *message, kiln_strbuf *out) {
    const kiln_schema *schema = kiln_schema_of_message(message->type);
    KILN_CHECK(schema != NULL);
    print_struct(schema, &message->hello, out);
}

void kiln_message_print(const kiln_message *message, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s #%u ", kiln_message_name(message->type), message->stream);
    kiln_message_print_json(message, out);
}
