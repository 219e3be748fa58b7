/* Tables as data: one generic writer and reader over the columns of rows.def. */
#include <string.h>

#include "base/check.h"
#include "base/reading.h"
#include "db/backend.h"

#define COLUMN(R, type, name, meaning) {#name, meaning, KILN_DB_##type, offsetof(R, name)},
#define COMMA_NAME(R, type, name, meaning) ", \"" #name "\""
#define TABLE(NAME, name, kind, conflict, identity, columns)                         \
    static const kiln_db_column name##_column[] = {columns(COLUMN, kiln_db_##name)}; \
    static const char name##_comma_names[] = columns(COMMA_NAME, );
#include "db/rows.def"
#undef TABLE

static const kiln_db_table_info table_info[] = {
#define TABLE(NAME, name, kind, conflict, identity, columns)                             \
    [KILN_DB_TABLE_##                                                                    \
        NAME] = {#name,         KILN_DB_##kind,         KILN_DB_##conflict,              \
                 name##_column, name##_comma_names + 2, KILN_ARRAY_COUNT(name##_column), \
                 identity,      sizeof(kiln_db_##name)},
#include "db/rows.def"
#undef TABLE
};

#define TABLE(NAME, name, kind, conflict, identity, columns)                 \
    kiln_status kiln_db_put_##name(kiln_db *db, const kiln_db_##name *row) { \
        return kiln_db_put(db, KILN_DB_TABLE_##NAME, row);                   \
    }
#include "db/rows.def"
#undef TABLE

const kiln_db_table_info *kiln_db_table_info_of(kiln_db_table table) {
    KILN_CHECK((unsigned)table < KILN_DB_TABLE_COUNT);
    return &table_info[table];
}

bool kiln_db_table_find(kiln_str name, kiln_db_table *out_table) {
    for (size_t i = 0; i < KILN_DB_TABLE_COUNT; i++) {
        if (!kiln_str_is(name, table_info[i].name)) continue;
        *out_table = (kiln_db_table)i;
        return true;
    }
    return false;
}

void *kiln_db_copy_row(kiln_db_table table, const void *row, kiln_arena *arena) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    char *copy = kiln_arena_copy(arena, row, info->row_size);
    for (uint32_t i = 0; i < info->column_count; i++) {
        const kiln_db_column *column = &info->column[i];
        kiln_str *text = (kiln_str *)(void *)(copy + column->offset);
        kiln_db_samples *samples = (kiln_db_samples *)(void *)(copy + column->offset);
        if (column->type == KILN_DB_TEXT || column->type == KILN_DB_BLOB)
            text->data = kiln_str_dup(arena, *text);
        if (column->type == KILN_DB_SAMPLES && samples->count)
            samples->data =
                kiln_arena_copy(arena, samples->data, samples->count * sizeof *samples->data);
    }
    return copy;
}

/* "(a, b) DO NOTHING" or "(a) DO UPDATE SET b = excluded.b, ... WHERE ...": a row that is stored as
 * it is already is not written once more. */
static void append_conflict(const kiln_db_table_info *table, bool foreign, kiln_strbuf *sql) {
    for (uint32_t i = 0; i < table->identity_count; i++)
        kiln_strbuf_printf(sql, "%s\"%s\"", i ? ", " : "(", table->column[i].name);
    if (foreign || table->conflict == KILN_DB_KEEP ||
        table->identity_count == table->column_count) {
        kiln_strbuf_text(sql, ") DO NOTHING");
        return;
    }
    kiln_strbuf_text(sql, ") DO UPDATE SET ");
    for (uint32_t i = table->identity_count; i < table->column_count; i++)
        kiln_strbuf_printf(sql, "%s\"%s\" = excluded.\"%s\"", i > table->identity_count ? ", " : "",
                           table->column[i].name, table->column[i].name);
    for (uint32_t i = table->identity_count; i < table->column_count; i++)
        kiln_strbuf_printf(sql, "%s\"%s\".\"%s\" IS DISTINCT FROM excluded.\"%s\"",
                           i > table->identity_count ? " OR " : " WHERE ", table->name,
                           table->column[i].name, table->column[i].name);
}

static kiln_status prepare_put(kiln_db *db, kiln_db_table table, bool foreign) {
    if (db->put[table][foreign]) return NULL;
    const kiln_db_table_info *info = &table_info[table];
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "INSERT INTO \"%s\" (%s", info->name, info->column_list);
    for (uint32_t i = 0; i < info->column_count; i++)
        kiln_strbuf_printf(&sql, i ? ", $%u" : ") VALUES ($%u", i + 1);
    kiln_strbuf_text(&sql, ") ON CONFLICT ");
    append_conflict(info, foreign, &sql);
    kiln_status st = kiln_db_prepare(db, sql.data, &db->put[table][foreign]);
    kiln_strbuf_deinit(&sql);
    return st;
}

static kiln_db_value value_of(const kiln_db_column *column, const void *member) {
    kiln_db_value value = {.type = column->type};
    switch (column->type) {
    case KILN_DB_TEXT:
    case KILN_DB_BLOB: value.bytes = *(const kiln_str *)member; break;
    case KILN_DB_INT: value.integer = *(const int64_t *)member; break;
    case KILN_DB_REAL: value.real = *(const double *)member; break;
    case KILN_DB_SAMPLES: {
        const kiln_db_samples *samples = member;
        value.type = KILN_DB_BLOB;
        value.bytes =
            (kiln_str){(const char *)samples->data, samples->count * sizeof *samples->data};
        break;
    }
    }
    return value;
}

static const void *member_of(const void *row, const kiln_db_column *column) {
    return (const char *)row + column->offset;
}

const char *kiln_db_origin_name(kiln_db_origin origin) {
    static const char *const name[] = {
#define X(NAME, text, meaning) [KILN_DB_ORIGIN_##NAME] = text,
#include "db/origins.def"
#undef X
    };
    return name[origin];
}

static uint32_t number_of(int64_t column) {
    return column > 0 ? (uint32_t)KILN_MIN(column, (int64_t)KILN_ASSEMBLED_MAX) : 0;
}

kiln_assembled kiln_record_assembled(const kiln_db_record *record) {
    return (kiln_assembled){.registers = number_of(record->registers),
                            .spill_bytes = number_of(record->spill_bytes),
                            .stack_bytes = number_of(record->stack_bytes),
                            .shared_bytes = number_of(record->shared_bytes)};
}

void kiln_record_set_assembled(kiln_db_record *record, const kiln_assembled *assembled) {
    record->registers = assembled->registers;
    record->spill_bytes = assembled->spill_bytes;
    record->stack_bytes = assembled->stack_bytes;
    record->shared_bytes = assembled->shared_bytes;
}

/* Figures that are derived from the samples, and never taken from the caller. */
static void derive_record(kiln_db_record *record) {
    if (record->origin.size == 0) {
        record->origin = kiln_str_from(kiln_db_origin_name(KILN_DB_ORIGIN_MEASURED));
        record->standing = KILN_DB_MEASURED;
    }
    record->median_ns = record->min_ns = 0;
    if (record->samples_ns.count == 0) return;
    const kiln_reading reading =
        kiln_reading_of(&(kiln_samples){.ns = record->samples_ns.data,
                                        .count = record->samples_ns.count,
                                        .again = (size_t)record->again,
                                        .drift = {record->drift, record->drift_memory},
                                        .flops = record->flops,
                                        .peak_flops = record->peak_flops});
    record->median_ns = reading.time_ns;
    record->min_ns = reading.least_ns;
}

static kiln_status put(kiln_db *db, kiln_db_table table, bool foreign, const void *row) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    KILN_CHECK(info->kind == db->kind);
    kiln_db_record derived;
    if (table == KILN_DB_TABLE_RECORD) {
        derived = *(const kiln_db_record *)row;
        derive_record(&derived);
        row = &derived;
    }
    for (uint32_t i = 0; i < info->column_count; i++)
        if (value_of(&info->column[i], member_of(row, &info->column[i])).bytes.size >
            KILN_DB_TEXT_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "%s.%s is longer than %zu bytes", info->name,
                              info->column[i].name, KILN_DB_TEXT_MAX);

    kiln_status st = prepare_put(db, table, foreign);
    if (!st) st = kiln_db_begin(db);
    if (st) {
        kiln_db_rollback(db); /* a failed write undoes the group, also before it got to the row */
        return st;
    }
    for (uint32_t i = 0; i < info->column_count; i++) {
        kiln_db_value value = value_of(&info->column[i], member_of(row, &info->column[i]));
        db->backend->bind(db->put[table][foreign], i + 1, &value);
    }
    return kiln_db_run(db->put[table][foreign], info->name);
}

kiln_status kiln_db_put(kiln_db *db, kiln_db_table table, const void *row) {
    return put(db, table, false, row);
}

kiln_status kiln_db_put_foreign(kiln_db *db, kiln_db_table table, const void *row) {
    return put(db, table, true, row);
}

kiln_status kiln_db_remove(kiln_db *db, kiln_db_table table, kiln_str identity) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    KILN_CHECK(info->kind == db->kind && info->conflict == KILN_DB_REPLACE);
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "DELETE FROM \"%s\" WHERE \"%s\" = $1", info->name,
                       info->column[0].name);
    kiln_db_statement *statement = NULL;
    kiln_status st = kiln_db_prepare(db, sql.data, &statement);
    if (!st) st = kiln_db_begin(db);
    if (!st) {
        kiln_db_bind_text(statement, 1, identity);
        st = kiln_db_run(statement, info->name);
    } else {
        kiln_db_rollback(db);
    }
    kiln_db_release(statement);
    kiln_strbuf_deinit(&sql);
    return st;
}

static void read_column(kiln_db_statement *statement, uint32_t index, kiln_db_type type,
                        kiln_arena *arena, void *member) {
    const kiln_db_backend *backend = statement->db->backend;
    switch (type) {
    case KILN_DB_TEXT:
    case KILN_DB_BLOB: {
        kiln_str bytes = backend->column_bytes(statement, index);
        *(kiln_str *)member = bytes.size ? kiln_str_copy(arena, bytes) : KILN_STR("");
        break;
    }
    case KILN_DB_INT: *(int64_t *)member = backend->column_int(statement, index); break;
    case KILN_DB_REAL: *(double *)member = backend->column_real(statement, index); break;
    case KILN_DB_SAMPLES: {
        kiln_str bytes = backend->column_bytes(statement, index);
        size_t count = bytes.size / sizeof(double);
        *(kiln_db_samples *)member =
            (kiln_db_samples){kiln_arena_copy(arena, bytes.data, count * sizeof(double)), count};
        break;
    }
    }
}

void kiln_db_row_read(kiln_db_statement *statement, const kiln_db_table_info *table,
                      kiln_arena *arena, void *row) {
    for (uint32_t i = 0; i < table->column_count; i++)
        read_column(statement, i, table->column[i].type, arena,
                    (char *)row + table->column[i].offset);
}

kiln_status kiln_db_each(kiln_db *db, kiln_db_table table, kiln_db_visit visit, void *context) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    KILN_CHECK(info->kind == db->kind);
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "SELECT %s FROM \"%s\" ORDER BY rowid", info->column_list, info->name);
    kiln_db_statement *statement = NULL;
    kiln_status st = kiln_db_prepare(db, sql.data, &statement);
    kiln_strbuf_deinit(&sql);

    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    bool found = !st;
    while (!st && found) {
        st = db->backend->step(statement, info->name, &found);
        if (st || !found) break;
        kiln_arena_reset(&scratch);
        void *row = kiln_arena_alloc(&scratch, info->row_size);
        kiln_db_row_read(statement, info, &scratch, row);
        st = visit(context, table, row);
    }
    kiln_db_release(statement);
    kiln_arena_deinit(&scratch);
    return st;
}
