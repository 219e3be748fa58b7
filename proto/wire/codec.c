/* Messages to bytes and back, by walking the schema. Checks everything that a peer sends: kinds,
 * limits, required fields, counts. Other files see only checked values. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/mpack.h"
#include "base/text.h"
#include "proto/wire/schema.h"

/* ---- Encoding ---- */

static kiln_status encode_struct(const kiln_schema *schema, const void *owner, kiln_strbuf *out);

/* `code` is OUT_OF_RANGE for our own values and DATA_LOSS for a peer's. */
static kiln_status check_limit(kiln_code code, const kiln_field_info *field, uint64_t value) {
    if (value <= field->limit) return KILN_OK;
    return kiln_status_make(code, __FILE__, __LINE__, "%llu is more than the limit of %llu",
                            (unsigned long long)value, (unsigned long long)field->limit);
}

static kiln_status encode_list(const kiln_field_info *field, const kiln_any_list *list,
                               kiln_strbuf *out) {
    const kiln_schema *record = kiln_schema_of_record(field->record);
    kiln_status st = check_limit(KILN_OUT_OF_RANGE, field, list->count);
    if (!st) kiln_mpack_write_array(out, list->count);
    for (uint32_t i = 0; !st && i < list->count; i++)
        st = encode_struct(record, (const char *)list->item + i * record->size, out);
    return st;
}

static kiln_status encode_u64s(const kiln_field_info *field, const kiln_u64s *list,
                               kiln_strbuf *out) {
    kiln_status st = check_limit(KILN_OUT_OF_RANGE, field, list->count);
    if (st) return st;
    kiln_mpack_write_array(out, list->count);
    for (uint32_t i = 0; i < list->count; i++) kiln_mpack_write_u64(out, list->item[i]);
    return KILN_OK;
}

static kiln_status encode_number(const kiln_field_info *field, uint64_t value, kiln_strbuf *out) {
    kiln_mpack_write_u64(out, value);
    return check_limit(KILN_OUT_OF_RANGE, field, value);
}

static kiln_status encode_field(const kiln_field_info *field, const void *at, kiln_strbuf *out) {
    const kiln_str *view = at;
    switch (field->kind) {
    case KILN_FIELD_flag: kiln_mpack_write_bool(out, *(const bool *)at); return KILN_OK;
    case KILN_FIELD_u32: return encode_number(field, *(const uint32_t *)at, out);
    case KILN_FIELD_u64: return encode_number(field, *(const uint64_t *)at, out);
    case KILN_FIELD_f64:
        kiln_mpack_write_f64(out, *(const double *)at);
        return isfinite(*(const double *)at) ? KILN_OK
                                             : KILN_ERROR(OUT_OF_RANGE, "not a finite number");
    case KILN_FIELD_text:
        kiln_mpack_write_str(out, *view);
        return check_limit(KILN_OUT_OF_RANGE, field, view->size);
    case KILN_FIELD_bytes:
        kiln_mpack_write_bin(out, view->data, view->size);
        return check_limit(KILN_OUT_OF_RANGE, field, view->size);
    case KILN_FIELD_digest: kiln_mpack_write_bin(out, at, sizeof(kiln_digest)); return KILN_OK;
    case KILN_FIELD_u64s: return encode_u64s(field, at, out);
    case KILN_FIELD_nest: return encode_struct(kiln_schema_of_record(field->record), at, out);
    case KILN_FIELD_list: return encode_list(field, at, out);
    case KILN_FIELD_KIND_COUNT: break;
    }
    KILN_CHECK(field->kind != KILN_FIELD_KIND_COUNT);
    return KILN_OK;
}

static bool is_sent(const kiln_field_info *field, const void *owner) {
    return field->required || !kiln_field_is_empty(field, owner);
}

static kiln_status encode_struct(const kiln_schema *schema, const void *owner, kiln_strbuf *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < schema->field_count; i++) count += is_sent(&schema->field[i], owner);
    kiln_mpack_write_map(out, count);
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const kiln_field_info *field = &schema->field[i];
        if (!is_sent(field, owner)) continue;
        kiln_mpack_write_u64(out, field->key);
        kiln_status st = encode_field(field, (const char *)owner + field->offset, out);
        if (st) return kiln_status_note(st, "%s.%s", schema->id, field->name);
    }
    return KILN_OK;
}

static kiln_status encode(const kiln_schema *schema, const void *owner, kiln_strbuf *out) {
    size_t before = out->size;
    kiln_status st = encode_struct(schema, owner, out);
    size_t size = out->size - before;
    if (!st && size > KILN_FRAME_CONTROL_MAX)
        st = KILN_ERROR(OUT_OF_RANGE, "%s of %zu bytes is larger than a frame may be", schema->id,
                        size);
    if (st) {
        out->size = before;
        out->data[before] = 0;
    }
    return st;
}

kiln_status kiln_message_encode(const kiln_message *message, kiln_strbuf *out_body) {
    const kiln_schema *schema = kiln_schema_of_message(message->type);
    KILN_CHECK(schema != NULL);
    return encode(schema, &message->hello, out_body);
}

kiln_status kiln_record_encode(kiln_record_type type, const void *record, kiln_strbuf *out_body) {
    return encode(kiln_schema_of_record(type), record, out_body);
}

/* ---- Decoding ---- */

static kiln_status decode_struct(const kiln_schema *schema, kiln_mpack_reader *r, kiln_arena *arena,
                                 void *owner);

static kiln_status decode_count(const kiln_field_info *field, kiln_mpack_reader *r,
                                uint32_t *out_count) {
    kiln_status st = kiln_mpack_read_array(r, out_count);
    return st ? st : check_limit(KILN_DATA_LOSS, field, *out_count);
}

static kiln_status decode_u64s(const kiln_field_info *field, kiln_mpack_reader *r,
                               kiln_arena *arena, kiln_u64s *out) {
    uint32_t count = 0;
    kiln_status st = decode_count(field, r, &count);
    if (st) return st;
    *out = (kiln_u64s){.item = KILN_ARENA_ARRAY(arena, uint64_t, count), .count = count};
    for (uint32_t i = 0; !st && i < count; i++) st = kiln_mpack_read_u64(r, &out->item[i]);
    return st;
}

static kiln_status decode_list(const kiln_field_info *field, kiln_mpack_reader *r,
                               kiln_arena *arena, kiln_any_list *out) {
    const kiln_schema *record = kiln_schema_of_record(field->record);
    uint32_t count = 0;
    kiln_status st = decode_count(field, r, &count);
    if (st) return st;
    *out = (kiln_any_list){.item = kiln_arena_alloc(arena, record->size * count), .count = count};
    for (uint32_t i = 0; !st && i < count; i++)
        st = decode_struct(record, r, arena, (char *)out->item + i * record->size);
    return st;
}

/* Texts are shown to people and become C strings: no NUL inside. */
static kiln_status decode_text(const kiln_field_info *field, kiln_mpack_reader *r, kiln_str *out) {
    kiln_status st = kiln_mpack_read_str(r, out);
    if (!st) st = check_limit(KILN_DATA_LOSS, field, out->size);
    if (!st && kiln_str_find_char(*out, 0) < out->size)
        st = KILN_ERROR(DATA_LOSS, "a text with a NUL inside");
    return st;
}

static kiln_status decode_digest(kiln_mpack_reader *r, kiln_digest *out) {
    kiln_str view = {0};
    kiln_status st = kiln_mpack_read_bin(r, &view);
    if (st) return st;
    if (view.size != sizeof *out) return KILN_ERROR(DATA_LOSS, "a digest of %zu bytes", view.size);
    memcpy(out, view.data, sizeof *out);
    return KILN_OK;
}

static kiln_status decode_field(const kiln_field_info *field, kiln_mpack_reader *r,
                                kiln_arena *arena, void *at) {
    kiln_status st = KILN_OK;
    uint64_t number = 0;
    switch (field->kind) {
    case KILN_FIELD_flag: return kiln_mpack_read_bool(r, at);
    case KILN_FIELD_u32:
        st = kiln_mpack_read_u64(r, &number);
        if (!st) st = check_limit(KILN_DATA_LOSS, field, number);
        if (!st) *(uint32_t *)at = (uint32_t)number;
        return st;
    case KILN_FIELD_u64:
        st = kiln_mpack_read_u64(r, at);
        return st ? st : check_limit(KILN_DATA_LOSS, field, *(uint64_t *)at);
    case KILN_FIELD_f64:
        st = kiln_mpack_read_f64(r, at);
        return st || isfinite(*(double *)at) ? st : KILN_ERROR(DATA_LOSS, "not a finite number");
    case KILN_FIELD_text: return decode_text(field, r, at);
    case KILN_FIELD_bytes:
        st = kiln_mpack_read_bin(r, at);
        return st ? st : check_limit(KILN_DATA_LOSS, field, ((kiln_str *)at)->size);
    case KILN_FIELD_digest: return decode_digest(r, at);
    case KILN_FIELD_u64s: return decode_u64s(field, r, arena, at);
    case KILN_FIELD_nest: return decode_struct(kiln_schema_of_record(field->record), r, arena, at);
    case KILN_FIELD_list: return decode_list(field, r, arena, at);
    case KILN_FIELD_KIND_COUNT: break;
    }
    KILN_CHECK(field->kind != KILN_FIELD_KIND_COUNT);
    return KILN_OK;
}

static const kiln_field_info *find_field(const kiln_schema *schema, uint64_t key) {
    for (uint32_t i = 0; i < schema->field_count; i++)
        if (schema->field[i].key == key) return &schema->field[i];
    return NULL;
}

static kiln_status check_required(const kiln_schema *schema, uint64_t seen) {
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const kiln_field_info *field = &schema->field[i];
        if (field->required && !(seen >> field->key & 1u))
            return KILN_ERROR(DATA_LOSS, "%s.%s is missing", schema->id, field->name);
    }
    return KILN_OK;
}

static kiln_status decode_struct(const kiln_schema *schema, kiln_mpack_reader *r, kiln_arena *arena,
                                 void *owner) {
    uint32_t count = 0;
    uint64_t seen = 0;
    kiln_status st = kiln_mpack_read_map(r, &count);
    for (uint32_t i = 0; !st && i < count; i++) {
        uint64_t key = 0;
        st = kiln_mpack_read_u64(r, &key);
        if (st) break;
        const kiln_field_info *field = find_field(schema, key);
        if (!field) { /* a newer peer's */
            st = kiln_mpack_skip(r);
            continue;
        }
        if (seen >> key & 1u)
            return KILN_ERROR(DATA_LOSS, "%s.%s comes twice", schema->id, field->name);
        seen |= UINT64_C(1) << key;
        st = decode_field(field, r, arena, (char *)owner + field->offset);
        if (st) return kiln_status_note(st, "%s.%s", schema->id, field->name);
    }
    return st ? kiln_status_note(st, "%s", schema->id) : check_required(schema, seen);
}

static kiln_status decode(const kiln_schema *schema, kiln_str body, kiln_arena *arena,
                          void *owner) {
    kiln_mpack_reader r;
    kiln_mpack_reader_init(&r, body.data, body.size);
    kiln_status st = decode_struct(schema, &r, arena, owner);
    if (!st && r.offset != r.size)
        st = KILN_ERROR(DATA_LOSS, "%s is followed by %zu more bytes", schema->id,
                        r.size - r.offset);
    return st;
}

kiln_status kiln_message_decode(kiln_message_type type, uint32_t stream, kiln_str body,
                                kiln_arena *arena, kiln_message *out_message) {
    const kiln_schema *schema = kiln_schema_of_message(type);
    if (!schema)
        return KILN_ERROR(UNIMPLEMENTED, "messages of type %d are unknown to this version",
                          (int)type);
    kiln_message message = {.type = type, .stream = stream};
    kiln_status st = decode(schema, body, arena, kiln_message_struct(&message));
    if (!st) *out_message = message;
    return st;
}

kiln_status kiln_record_decode(kiln_record_type type, kiln_str body, kiln_arena *arena,
                               void *out_record) {
    const kiln_schema *schema = kiln_schema_of_record(type);
    memset(out_record, 0, schema->size);
    return decode(schema, body, arena, out_record);
}

/* ---- Copying ---- */

/* How texts are copied. */
typedef enum copy_text { COPY_AS_IT_IS, COPY_PRINTABLE } copy_text;

static void copy_fields(const kiln_schema *schema, copy_text how, void *owner, kiln_arena *arena);

static void copy_items(void **item, size_t size, kiln_arena *arena) {
    *item = size ? kiln_arena_copy(arena, *item, size) : NULL;
}

/* `at` is a shallow copy; copies what it points to. */
static void copy_field(const kiln_field_info *field, copy_text how, void *at, kiln_arena *arena) {
    if (field->kind == KILN_FIELD_text && how == COPY_PRINTABLE) {
        const bool is_prose = field->limit >= KILN_MESSAGES_PROSE;
        kiln_str *view = at;
        kiln_str text = kiln_text_printable(*view, is_prose ? KILN_TEXT_PROSE : KILN_TEXT_LINE,
                                            KILN_TEXT_PIECE_MAX * (size_t)field->limit, arena);
        *view = text.data == view->data ? kiln_str_copy(arena, text) : text;
    } else if (field->kind == KILN_FIELD_text || field->kind == KILN_FIELD_bytes) {
        kiln_str *view = at;
        view->data = view->size ? kiln_arena_copy(arena, view->data, view->size) : NULL;
    } else if (field->kind == KILN_FIELD_u64s) {
        kiln_any_list *list = at;
        copy_items(&list->item, list->count * sizeof(uint64_t), arena);
    } else if (field->kind == KILN_FIELD_nest) {
        copy_fields(kiln_schema_of_record(field->record), how, at, arena);
    } else if (field->kind == KILN_FIELD_list) {
        const kiln_schema *record = kiln_schema_of_record(field->record);
        kiln_any_list *list = at;
        copy_items(&list->item, list->count * record->size, arena);
        for (uint32_t i = 0; i < list->count; i++)
            copy_fields(record, how, (char *)list->item + i * record->size, arena);
    }
}

static void copy_fields(const kiln_schema *schema, copy_text how, void *owner, kiln_arena *arena) {
    for (uint32_t i = 0; i < schema->field_count; i++)
        copy_field(&schema->field[i], how, (char *)owner + schema->field[i].offset, arena);
}

static kiln_message copy_message(const kiln_message *message, copy_text how, kiln_arena *arena) {
    const kiln_schema *schema = kiln_schema_of_message(message->type);
    KILN_CHECK(schema != NULL);
    kiln_message copy = *message;
    copy_fields(schema, how, kiln_message_struct(&copy), arena);
    return copy;
}

kiln_message kiln_message_copy(const kiln_message *message, kiln_arena *arena) {
    return copy_message(message, COPY_AS_IT_IS, arena);
}

kiln_message kiln_message_printable(const kiln_message *message, kiln_arena *arena) {
    return copy_message(message, COPY_PRINTABLE, arena);
}

/* ---- Checking texts ---- */

static kiln_status check_lines(const kiln_schema *schema, const void *owner);

static kiln_status check_field_lines(const kiln_field_info *field, const void *at) {
    kiln_status st = KILN_OK;
    if (field->kind == KILN_FIELD_text && field->limit < KILN_MESSAGES_STATEMENT)
        return kiln_text_check_line(*(const kiln_str *)at, field->name);
    if (field->kind == KILN_FIELD_nest)
        return check_lines(kiln_schema_of_record(field->record), at);
    if (field->kind != KILN_FIELD_list) return KILN_OK;
    const kiln_schema *record = kiln_schema_of_record(field->record);
    const kiln_any_list *list = at;
    for (uint32_t i = 0; !st && i < list->count; i++)
        st = check_lines(record, (const char *)list->item + i * record->size);
    return st;
}

static kiln_status check_lines(const kiln_schema *schema, const void *owner) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < schema->field_count; i++)
        st = check_field_lines(&schema->field[i], (const char *)owner + schema->field[i].offset);
    return st;
}

kiln_status kiln_message_check_lines(const kiln_message *message) {
    const kiln_schema *schema = kiln_schema_of_message(message->type);
    KILN_CHECK(schema != NULL);
    return kiln_status_note(check_lines(schema, &message->hello), "%s", schema->id);
}

void kiln_record_copy(kiln_record_type type, void *record, kiln_arena *arena) {
    copy_fields(kiln_schema_of_record(type), COPY_AS_IT_IS, record, arena);
}
