#include "db/bundle.h"

#include "base/map.h"
#include "base/mpack.h"
#include "base/vec.h"

/* ---- export ---------------------------------------------------------------------------------- */

typedef struct export_state {
    kiln_strbuf rows;
    uint32_t row_count;
    kiln_map wanted; /* identities that a record refers to: "table:identity" */
} export_state;

static void write_value(const kiln_db_column *column, const void *row, kiln_strbuf *out) {
    const void *member = (const char *)row + column->offset;
    switch (column->type) {
    case KILN_DB_TEXT: kiln_mpack_write_str(out, *(const kiln_str *)member); break;
    case KILN_DB_BLOB:
        kiln_mpack_write_bin(out, ((const kiln_str *)member)->data,
                             ((const kiln_str *)member)->size);
        break;
    case KILN_DB_INT: kiln_mpack_write_i64(out, *(const int64_t *)member); break;
    case KILN_DB_REAL: kiln_mpack_write_f64(out, *(const double *)member); break;
    case KILN_DB_SAMPLES: {
        const kiln_db_samples *samples = member;
        kiln_mpack_write_array(out, (uint32_t)samples->count);
        for (size_t i = 0; i < samples->count; i++) kiln_mpack_write_f64(out, samples->data[i]);
        break;
    }
    }
}

void kiln_bundle_row(kiln_db_table table, const void *row, kiln_strbuf *out) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    kiln_mpack_write_array(out, 2);
    kiln_mpack_write_str(out, kiln_str_from(info->name));
    kiln_mpack_write_map(out, info->column_count);
    for (uint32_t i = 0; i < info->column_count; i++) {
        kiln_mpack_write_str(out, kiln_str_from(info->column[i].name));
        write_value(&info->column[i], row, out);
    }
}

static void write_row(export_state *state, kiln_db_table table, const void *row) {
    kiln_bundle_row(table, row, &state->rows);
    state->row_count++;
}

static void identity_key(kiln_db_table table, kiln_str identity, kiln_strbuf *out) {
    kiln_strbuf_reset(out);
    kiln_strbuf_printf(out, "%s:%.*s", kiln_db_table_info_of(table)->name, KILN_STR_ARG(identity));
}

static void want(export_state *state, kiln_db_table table, kiln_str identity) {
    if (identity.size == 0) return;
    kiln_strbuf key = {0};
    identity_key(table, identity, &key);
    kiln_map_put(&state->wanted, kiln_strbuf_view(&key), 1);
    kiln_strbuf_deinit(&key);
}

static bool is_wanted(const export_state *state, kiln_db_table table, kiln_str identity) {
    kiln_strbuf key = {0};
    uint64_t ignored = 0;
    identity_key(table, identity, &key);
    bool found = kiln_map_find(&state->wanted, kiln_strbuf_view(&key), &ignored);
    kiln_strbuf_deinit(&key);
    return found;
}

/* Equal devices share a fingerprint, which names the first of them: that device is exported, too.
 */
static kiln_status want_device_of(void *context, kiln_db_table table, const void *row) {
    const kiln_db_fingerprint *fingerprint = row;
    if (is_wanted(context, table, fingerprint->id))
        want(context, KILN_DB_TABLE_DEVICE, fingerprint->device_id);
    return KILN_OK;
}

static kiln_status write_if_wanted(void *context, kiln_db_table table, const void *row) {
    export_state *state = context;
    const kiln_db_column *identity = &kiln_db_table_info_of(table)->column[0];
    const void *member = (const char *)row + identity->offset;
    if (is_wanted(state, table, *(const kiln_str *)member)) write_row(state, table, row);
    return KILN_OK;
}

static kiln_status write_parents(kiln_db *db, export_state *state) {
    /* In the order in which import must see them. */
    static const kiln_db_table parents[] = {KILN_DB_TABLE_TASK, KILN_DB_TABLE_TARGET,
                                            KILN_DB_TABLE_DEVICE, KILN_DB_TABLE_FINGERPRINT,
                                            KILN_DB_TABLE_JOB};
    kiln_status st = kiln_db_each(db, KILN_DB_TABLE_FINGERPRINT, want_device_of, state);
    for (size_t i = 0; !st && i < KILN_ARRAY_COUNT(parents); i++)
        st = kiln_db_each(db, parents[i], write_if_wanted, state);
    return st;
}

/* In the order of storing: of two finals of a trace the newer must be imported last. */
static void write_records(export_state *state, const kiln_db_filter *filter,
                          const kiln_db_record *record, uint32_t count) {
    const bool reversed = filter->order == KILN_DB_NEWEST;
    for (uint32_t i = 0; i < count; i++)
        write_row(state, KILN_DB_TABLE_RECORD, &record[reversed ? count - 1 - i : i]);
}

kiln_status kiln_bundle_export(kiln_db *db, const kiln_db_filter *filter, uint32_t filter_count,
                               kiln_strbuf *out) {
    typedef struct found {
        kiln_db_record *record;
        uint32_t count;
    } found;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    export_state state = {0};
    kiln_map_init(&state.wanted);
    found *match = KILN_ARENA_ARRAY(&scratch, found, filter_count);
    uint32_t total = 0;
    kiln_status st = KILN_OK;
    for (uint32_t f = 0; !st && f < filter_count; f++) {
        st = kiln_db_records(db, &filter[f], &scratch, &match[f].record, &match[f].count);
        for (uint32_t i = 0; !st && i < match[f].count; i++) {
            want(&state, KILN_DB_TABLE_TASK, match[f].record[i].task_key);
            want(&state, KILN_DB_TABLE_TARGET, match[f].record[i].target);
            want(&state, KILN_DB_TABLE_DEVICE, match[f].record[i].device_id);
            want(&state, KILN_DB_TABLE_FINGERPRINT, match[f].record[i].fingerprint_id);
            want(&state, KILN_DB_TABLE_JOB, match[f].record[i].job_id);
        }
        total += st ? 0 : match[f].count;
    }
    if (!st && total > KILN_BUNDLE_ROWS_MAX / 2)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "%u records do not fit in one bundle (at most %u)",
                        total, KILN_BUNDLE_ROWS_MAX / 2);
    if (!st) st = write_parents(db, &state);
    for (uint32_t f = 0; !st && f < filter_count; f++)
        write_records(&state, &filter[f], match[f].record, match[f].count);
    if (!st) {
        kiln_mpack_write_array(out, state.row_count);
        kiln_strbuf_append(out, state.rows.data, state.rows.size);
    }
    kiln_strbuf_deinit(&state.rows);
    kiln_map_deinit(&state.wanted);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "exporting records");
}

/* ---- import ---------------------------------------------------------------------------------- */

static kiln_status read_samples(kiln_mpack_reader *r, kiln_arena *arena, kiln_db_samples *out) {
    uint32_t count = 0;
    kiln_status st = kiln_mpack_read_array(r, &count);
    double *data = st ? NULL : KILN_ARENA_ARRAY(arena, double, count);
    for (uint32_t i = 0; !st && i < count; i++) st = kiln_mpack_read_f64(r, &data[i]);
    if (!st) *out = (kiln_db_samples){data, count};
    return st;
}

static kiln_status read_value(kiln_mpack_reader *r, const kiln_db_column *column, kiln_arena *arena,
                              void *row) {
    void *member = (char *)row + column->offset;
    switch (column->type) {
    case KILN_DB_TEXT: return kiln_mpack_read_str(r, member);
    case KILN_DB_BLOB: return kiln_mpack_read_bin(r, member);
    case KILN_DB_INT: return kiln_mpack_read_i64(r, member);
    case KILN_DB_REAL: return kiln_mpack_read_f64(r, member);
    case KILN_DB_SAMPLES: return read_samples(r, arena, member);
    }
    return KILN_OK;
}

static const kiln_db_column *find_column(const kiln_db_table_info *info, kiln_str name) {
    for (uint32_t i = 0; i < info->column_count; i++)
        if (kiln_str_is(name, info->column[i].name)) return &info->column[i];
    return NULL;
}

/* One row, whose views are in the bytes or in the arena. */
static kiln_status read_row(kiln_mpack_reader *r, kiln_arena *arena, kiln_db_table *out_table,
                            void **out_row) {
    uint32_t parts = 0, columns = 0;
    kiln_str name = {0};
    kiln_db_table table = KILN_DB_TABLE_COUNT;
    kiln_status st = kiln_mpack_read_array(r, &parts);
    if (!st) st = kiln_mpack_read_str(r, &name);
    if (!st && (parts != 2 || !kiln_db_table_find(name, &table) ||
                kiln_db_table_info_of(table)->kind != KILN_DB_RECORDS))
        st = KILN_ERROR(DATA_LOSS, "no table of records is called '%.*s'",
                        KILN_STR_ARG(kiln_str_slice(name, 0, 64)));
    if (!st) st = kiln_mpack_read_map(r, &columns);
    if (st) return st;

    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    void *row = kiln_arena_alloc(arena, info->row_size);
    for (uint32_t i = 0; !st && i < columns; i++) {
        kiln_str key = {0};
        st = kiln_mpack_read_str(r, &key);
        const kiln_db_column *column = st ? NULL : find_column(info, key);
        if (!st) st = column ? read_value(r, column, arena, row) : kiln_mpack_skip(r);
    }
    *out_table = table;
    *out_row = row;
    return st;
}

kiln_status kiln_bundle_each(kiln_str bytes, kiln_arena *arena, kiln_db_visit visit,
                             void *context) {
    kiln_mpack_reader r;
    uint32_t rows = 0;
    kiln_mpack_reader_init(&r, bytes.data, bytes.size);
    kiln_status st = kiln_mpack_read_array(&r, &rows);
    for (uint32_t i = 0; !st && i < rows; i++) {
        kiln_db_table table;
        void *row = NULL;
        st = read_row(&r, arena, &table, &row);
        if (!st) st = visit(context, table, row);
    }
    if (!st && r.offset != r.size)
        st = KILN_ERROR(DATA_LOSS, "%zu bytes after the last row", r.size - r.offset);
    return st;
}

static kiln_status import_row(kiln_db_import *import, kiln_mpack_reader *r, kiln_arena *arena) {
    kiln_db_table table;
    void *row = NULL;
    kiln_status st = read_row(r, arena, &table, &row);
    return st ? st : kiln_db_import_row(import, table, row);
}

kiln_status kiln_bundle_import(kiln_db *db, kiln_str bytes, const kiln_db_import_options *options,
                               kiln_db_import_counts *counts) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_mpack_reader r;
    kiln_mpack_reader_init(&r, bytes.data, bytes.size);
    kiln_db_import *import = NULL;
    kiln_db_import_begin(db, options, &import);
    uint32_t rows = 0;
    kiln_status st = kiln_mpack_read_array(&r, &rows);
    if (!st && rows > KILN_BUNDLE_ROWS_MAX)
        st = KILN_ERROR(DATA_LOSS, "%u rows, at most %u", rows, KILN_BUNDLE_ROWS_MAX);
    for (uint32_t i = 0; !st && i < rows; i++) {
        st = kiln_status_note(import_row(import, &r, &scratch), "row %u", i);
        kiln_arena_reset(&scratch);
    }
    if (!st && r.offset != r.size)
        st = KILN_ERROR(DATA_LOSS, "%zu bytes after the last row", r.size - r.offset);
    kiln_db_import_counts found = {0};
    st = kiln_db_import_end(import, st, &found);
    kiln_arena_deinit(&scratch);
    if (!st) kiln_db_import_add(counts, &found);
    return kiln_status_note(st, "importing records");
}
