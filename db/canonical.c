#include "db/canonical.h"

#include <string.h>

#include "base/check.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

static void append_number(kiln_strbuf *out, uint64_t number, size_t size) {
    char byte[8];
    for (size_t i = 0; i < size; i++) byte[i] = (char)(uint8_t)(number >> 8 * i);
    kiln_strbuf_append(out, byte, size);
}

static void append_real(kiln_strbuf *out, double real) {
    uint64_t bits = 0;
    if (real != 0) memcpy(&bits, &real, sizeof bits); /* SQLite knows one zero */
    append_number(out, bits, sizeof bits);
}

static void append_member(kiln_strbuf *out, const kiln_db_column *column, const void *row) {
    const void *member = (const char *)row + column->offset;
    switch (column->type) {
    case KILN_DB_TEXT:
    case KILN_DB_BLOB: {
        const kiln_str *bytes = member;
        append_number(out, bytes->size, sizeof(uint32_t));
        kiln_strbuf_append(out, bytes->data, bytes->size);
        break;
    }
    case KILN_DB_INT: append_number(out, (uint64_t)*(const int64_t *)member, 8); break;
    case KILN_DB_REAL: append_real(out, *(const double *)member); break;
    case KILN_DB_SAMPLES: {
        const kiln_db_samples *samples = member;
        append_number(out, samples->count, sizeof(uint32_t));
        for (size_t i = 0; i < samples->count; i++) append_real(out, samples->data[i]);
        break;
    }
    }
}

static bool is_derived(const kiln_db_column *column) {
    return strcmp(column->name, "median_ns") == 0 || strcmp(column->name, "min_ns") == 0;
}

/* The columns up to and with `last`. */
static void append_row(kiln_strbuf *out, kiln_db_table table, const char *last, const void *row) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    for (uint32_t i = 0; i < info->column_count; i++) {
        const kiln_db_column *column = &info->column[i];
        if (!is_derived(column)) append_member(out, column, row);
        if (strcmp(column->name, last) == 0) return;
    }
    KILN_CHECK(false); /* rows.def lost the column */
}

void kiln_record_canonical(const kiln_db_record *record, kiln_strbuf *out) {
    kiln_strbuf_text(out, "kiln record 1\n");
    append_row(out, KILN_DB_TABLE_RECORD, "fences", record);
}

void kiln_tombstone_canonical(const kiln_db_tombstone *tombstone, kiln_strbuf *out) {
    kiln_strbuf_text(out, "kiln tombstone 1\n");
    append_row(out, KILN_DB_TABLE_TOMBSTONE, "said_wall_ns", tombstone);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Length of the UTF-8 sequence at `text`, 0 when it is none that a server takes. */
static size_t sequence_of(const unsigned char *text, size_t size) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } form[] = {{0x80, 0, 1}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 0; more < KILN_ARRAY_COUNT(form); more++) {
        if ((text[0] & form[more].mask) != form[more].lead) continue;
        uint32_t letter = text[0] & (unsigned char)~form[more].mask;
        for (size_t i = 1; i <= more; i++) {
            if (i >= size || (text[i] & 0xc0) != 0x80) return 0;
            letter = letter << 6 | (text[i] & 0x3f);
        }
        bool surrogate = letter >= 0xd800 && letter < 0xe000;
        return letter >= form[more].least && letter <= 0x10ffff && !surrogate ? more + 1 : 0;
    }
    return 0;
}

kiln_str kiln_db_text_corrected(kiln_str text, kiln_arena *arena) {
    char *copy = NULL;
    for (size_t i = 0; i < text.size;) {
        size_t length = sequence_of((const unsigned char *)text.data + i, text.size - i);
        if (length == 0) {
            if (!copy) copy = kiln_str_dup(arena, text);
            copy[i] = '?';
        }
        i += length ? length : 1;
    }
    return copy ? (kiln_str){copy, text.size} : text;
}

static void mend(kiln_db_table table, kiln_arena *arena, void *row) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    for (uint32_t i = 0; i < info->column_count; i++) {
        kiln_str *text = (kiln_str *)(void *)((char *)row + info->column[i].offset);
        if (info->column[i].type == KILN_DB_TEXT) *text = kiln_db_text_corrected(*text, arena);
    }
}

/* ---- signatures ------------------------------------------------------------------------------ */

static kiln_str half_of(const kiln_signer *signer, kiln_arena *arena) {
    char *text = kiln_arena_alloc(arena, KILN_SIGN_PUBLIC_TEXT);
    kiln_sign_public_print(kiln_signer_public(signer), text);
    return kiln_str_from(text);
}

static kiln_status sign(kiln_signer *signer, kiln_strbuf *bytes, kiln_arena *arena,
                        kiln_str *out_signature) {
    kiln_signature *signature = KILN_ARENA_NEW(arena, kiln_signature);
    kiln_status st = kiln_sign(signer, kiln_strbuf_view(bytes), signature);
    if (!st) *out_signature = (kiln_str){(const char *)signature->byte, sizeof signature->byte};
    kiln_strbuf_deinit(bytes);
    return st;
}

kiln_status kiln_record_sign(kiln_signer *signer, kiln_arena *arena, kiln_db_record *record) {
    kiln_strbuf bytes = {0};
    record->signer = half_of(signer, arena);
    mend(KILN_DB_TABLE_RECORD, arena, record);
    kiln_record_canonical(record, &bytes);
    return sign(signer, &bytes, arena, &record->signature);
}

kiln_status kiln_tombstone_sign(kiln_signer *signer, kiln_arena *arena,
                                kiln_db_tombstone *tombstone) {
    kiln_strbuf bytes = {0};
    tombstone->said_by = half_of(signer, arena);
    mend(KILN_DB_TABLE_TOMBSTONE, arena, tombstone);
    kiln_tombstone_canonical(tombstone, &bytes);
    return sign(signer, &bytes, arena, &tombstone->signature);
}

void kiln_checkers_deinit(kiln_checkers *checkers) {
    for (uint32_t i = 0; i < checkers->count; i++)
        kiln_sign_checker_destroy(checkers->item[i].checker);
    kiln_strbuf_deinit(&checkers->bytes);
    *checkers = (kiln_checkers){0};
}

/* NULL: there is none for it. */
static kiln_sign_checker *checker_of(kiln_checkers *checkers, kiln_str signer) {
    kiln_sign_public half;
    kiln_sign_checker *made = NULL;
    if (!kiln_sign_public_parse(signer, &half)) return NULL;
    for (uint32_t i = 0; i < checkers->count; i++)
        if (memcmp(&checkers->item[i].half, &half, sizeof half) == 0)
            return checkers->item[i].checker;
    kiln_status st = kiln_sign_checker_create(&half, &made);
    kiln_status_free(st); /* a build without signatures: nothing is right */
    if (st) return NULL;
    uint32_t place = checkers->count;
    if (place < KILN_CHECKERS_MAX) {
        checkers->count++;
    } else {
        place = checkers->next++ % KILN_CHECKERS_MAX;
        kiln_sign_checker_destroy(checkers->item[place].checker);
    }
    checkers->item[place].half = half;
    checkers->item[place].checker = made;
    return made;
}

static bool is_right(kiln_checkers *checkers, kiln_str signer, kiln_str bytes) {
    kiln_signature signature;
    if (bytes.size != sizeof signature.byte) return false;
    memcpy(signature.byte, bytes.data, sizeof signature.byte);
    kiln_sign_checker *checker = checker_of(checkers, signer);
    return checker && kiln_sign_check(checker, kiln_strbuf_view(&checkers->bytes), &signature);
}

bool kiln_record_is_signed(kiln_checkers *checkers, const kiln_db_record *record) {
    kiln_strbuf_reset(&checkers->bytes);
    kiln_record_canonical(record, &checkers->bytes);
    return is_right(checkers, record->signer, record->signature);
}

bool kiln_tombstone_is_signed(kiln_checkers *checkers, const kiln_db_tombstone *tombstone) {
    kiln_strbuf_reset(&checkers->bytes);
    kiln_tombstone_canonical(tombstone, &checkers->bytes);
    return is_right(checkers, tombstone->said_by, tombstone->signature);
}
