/* docs/reference/messages.md, written from messages.def. */
#include "proto/wire/schema.h"

static const char *const kind_name[KILN_FIELD_KIND_COUNT] = {
    [KILN_FIELD_flag] = "bool",     [KILN_FIELD_u32] = "u32",    [KILN_FIELD_u64] = "u64",
    [KILN_FIELD_f64] = "f64",       [KILN_FIELD_text] = "text",  [KILN_FIELD_bytes] = "bytes",
    [KILN_FIELD_digest] = "digest", [KILN_FIELD_u64s] = "[u64]",
};

static void print_kind(const kiln_field_info *field, kiln_strbuf *out) {
    if (kind_name[field->kind]) {
        kiln_strbuf_text(out, kind_name[field->kind]);
        return;
    }
    const char *format = field->kind == KILN_FIELD_list ? "[`%s`]" : "`%s`";
    kiln_strbuf_printf(out, format, kiln_schema_of_record(field->record)->name);
}

static void print_limit(const kiln_field_info *field, kiln_strbuf *out) {
    const char *unit = "";
    if (field->kind == KILN_FIELD_text || field->kind == KILN_FIELD_bytes) unit = " bytes";
    if (field->kind == KILN_FIELD_u64s || field->kind == KILN_FIELD_list) unit = " items";
    bool whole_u32 = field->kind == KILN_FIELD_u32 && field->limit == UINT32_MAX;
    if (field->limit == 0 || field->limit == UINT64_MAX || whole_u32) return;
    kiln_strbuf_printf(out, "%llu%s", (unsigned long long)field->limit, unit);
}

static void print_fields(const kiln_schema *schema, kiln_strbuf *out) {
    kiln_strbuf_text(out, "| key | field | kind | at most | | |\n|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const kiln_field_info *field = &schema->field[i];
        kiln_strbuf_printf(out, "| %u | %s | ", field->key, field->name);
        print_kind(field, out);
        kiln_strbuf_text(out, " | ");
        print_limit(field, out);
        kiln_strbuf_printf(out, " | %s | ", field->required ? "required" : "");
        for (const char *c = field->doc; *c; c++) { /* a bare bar would end the cell */
            if (*c == '|') kiln_strbuf_char(out, '\\');
            kiln_strbuf_char(out, *c);
        }
        kiln_strbuf_text(out, " |\n");
    }
    kiln_strbuf_char(out, '\n');
}

static void print_roles(unsigned roles, kiln_strbuf *out) {
    const char *separator = "";
    for (unsigned role = 0; role < KILN_PEER_COUNT; role++) {
        if (!(roles >> role & 1u)) continue;
        kiln_strbuf_printf(out, "%s%s", separator, kiln_peer_role_name((kiln_peer_role)role));
        separator = ", ";
    }
}

static void print_head(kiln_strbuf *out) {
    kiln_strbuf_printf(
        out,
        "# Messages\n\n"
        "Written from `proto/messages.def`; do not edit. Protocol versions %u to %u.\n\n"
        "A frame is a 16-byte little-endian header and a body: u32 magic `KLN1`, u8 type, u8 flags "
        "(1 = END, on DATA\n"
        "only; 4 = the body is compressed, where HELLO and WELCOME agreed on zstd), u16 zero, u32 "
        "stream, u32 body bytes. The body of type %d (DATA) is raw bytes of a "
        "blob, at most %zu; of\n"
        "all others a msgpack map with the integer keys below, at most %zu bytes. Fields that are "
        "not required are left\n"
        "out when zero or empty. Unknown keys are skipped; a missing required key, a wrong kind or "
        "a value over its limit\n"
        "is DATA_LOSS and ends the connection.\n\n",
        KILN_PROTO_VERSION_MIN, KILN_PROTO_VERSION_MAX, (int)KILN_MSG_DATA, KILN_FRAME_DATA_MAX,
        KILN_FRAME_CONTROL_MAX);
}

void kiln_messages_print_docs(kiln_strbuf *out) {
    print_head(out);
    kiln_message_type type = kiln_message_next((kiln_message_type)0);
    for (; type; type = kiln_message_next(type)) {
        const kiln_schema *schema = kiln_schema_of_message(type);
        kiln_strbuf_printf(out, "## %s (%d)\n\nFrom ", schema->id, (int)schema->type);
        print_roles(schema->from, out);
        kiln_strbuf_text(out, " to ");
        print_roles(schema->to, out);
        kiln_strbuf_printf(out, "; since version %u. %s\n\n", schema->since, schema->doc);
        print_fields(schema, out);
    }
    kiln_strbuf_text(out, "# Records\n\nParts of messages.\n");
    for (unsigned i = 0; i < KILN_RECORD_COUNT; i++) {
        const kiln_schema *schema = kiln_schema_of_record((kiln_record_type)i);
        kiln_strbuf_printf(out, "\n## %s\n\n%s\n\n", schema->name, schema->doc);
        print_fields(schema, out);
        if (i + 1 == KILN_RECORD_COUNT) out->size--; /* no empty line at the end */
    }
}
