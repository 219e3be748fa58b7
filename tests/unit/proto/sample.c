#include "tests/unit/proto/sample.h"

#include <string.h>

#include "base/check.h"
#include "base/macros.h"

static uint64_t number_for(const kiln_field_info *field, sample_size size) {
    uint64_t number = size == SAMPLE_FULL ? UINT64_MAX : 100u + field->key;
    return KILN_MIN(number, field->limit);
}

static kiln_str text_for(const kiln_field_info *field, sample_size size, kiln_arena *arena) {
    size_t length = size == SAMPLE_FULL ? (size_t)field->limit : strlen(field->name);
    char *text = kiln_arena_alloc(arena, length + 1);
    memset(text, 'x', length);
    if (size == SAMPLE_SMALL) memcpy(text, field->name, length);
    return (kiln_str){text, length};
}

static void fill_field(const kiln_field_info *field, void *at, sample_size size,
                       kiln_arena *arena) {
    uint32_t count = size == SAMPLE_FULL ? (uint32_t)field->limit : 2;
    switch (field->kind) {
    case KILN_FIELD_flag: *(bool *)at = true; break;
    case KILN_FIELD_u32: *(uint32_t *)at = (uint32_t)number_for(field, size); break;
    case KILN_FIELD_u64: *(uint64_t *)at = number_for(field, size); break;
    case KILN_FIELD_f64:
        *(double *)at = size == SAMPLE_FULL ? -1.7976931348623157e308 : 0.5 + field->key;
        break;
    case KILN_FIELD_text:
    case KILN_FIELD_bytes: *(kiln_str *)at = text_for(field, size, arena); break;
    case KILN_FIELD_digest: memset(at, (int)(0x10 + field->key), sizeof(kiln_digest)); break;
    case KILN_FIELD_u64s: {
        kiln_u64s *list = at;
        *list = (kiln_u64s){KILN_ARENA_ARRAY(arena, uint64_t, count), count};
        for (uint32_t i = 0; i < count; i++)
            list->item[i] = size == SAMPLE_FULL ? UINT64_MAX : 1000u + i;
        break;
    }
    case KILN_FIELD_nest: sample_fill(kiln_schema_of_record(field->record), at, size, arena); break;
    case KILN_FIELD_list: {
        const kiln_schema *record = kiln_schema_of_record(field->record);
        kiln_any_list *list = at;
        *list = (kiln_any_list){kiln_arena_alloc(arena, count * record->size), count};
        for (uint32_t i = 0; i < count; i++)
            sample_fill(record, (char *)list->item + i * record->size, size, arena);
        break;
    }
    case KILN_FIELD_KIND_COUNT: KILN_CHECK(false);
    }
}

void sample_fill(const kiln_schema *schema, void *owner, sample_size size, kiln_arena *arena) {
    if (size == SAMPLE_EMPTY) return;
    for (uint32_t i = 0; i < schema->field_count; i++)
        fill_field(&schema->field[i], (char *)owner + schema->field[i].offset, size, arena);
}

kiln_message sample_message(kiln_message_type type, sample_size size, kiln_arena *arena) {
    kiln_message message = {.type = type, .stream = 7};
    sample_fill(kiln_schema_of_message(type), kiln_message_struct(&message), size, arena);
    return message;
}
