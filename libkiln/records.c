#include "libkiln/records.h"

#include <string.h>

#include "base/alloc.h"
#include "base/opt.h"
#include "base/vec.h"
#include "db/recorded.h"

struct kiln_records {
    kiln_db *db;
    char *path; /* for display, without a password */
};

typedef struct cell {
    bool is_null;
    kiln_str text; /* NUL-terminated */
    int64_t number;
    double real;
    kiln_db_samples reals;
} cell;

typedef struct heading {
    const char *name, *meaning;
    uint32_t type;
} heading;

struct kiln_rows {
    kiln_arena arena;
    const heading *column;
    uint32_t column_count;
    KILN_VEC(cell) cell; /* row after row */
    size_t row_count;
};

static kiln_rows *new_rows(void) {
    kiln_rows *rows = kiln_alloc(sizeof *rows);
    kiln_arena_init(&rows->arena, 0);
    return rows;
}

static kiln_str keep(kiln_rows *rows, kiln_str text) {
    return (kiln_str){kiln_str_dup(&rows->arena, text), text.size};
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static kiln_status own_path(kiln_arena *arena, const char **out_path) {
    char *home = NULL;
    kiln_status st = kiln_home(arena, &home);
    if (!st) *out_path = kiln_arena_printf(arena, "%s/kiln.db", home);
    return st;
}

int kiln_records_open(const char *path, kiln_records **out_records, char *error,
                      size_t error_bytes) {
    kiln_arena arena;
    kiln_db *db = NULL;
    kiln_strbuf shown = {0};
    kiln_arena_init(&arena, 0);
    kiln_status st = path ? NULL : own_path(&arena, &path);
    if (!st) st = kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) {
        kiln_db_print_path(path, &shown);
        kiln_records *records = kiln_alloc(sizeof *records);
        *records = (kiln_records){.db = db, .path = shown.data};
        *out_records = records;
    }
    kiln_arena_deinit(&arena);
    return kiln_status_report(st, error, error_bytes);
}

void kiln_records_close(kiln_records *records) {
    if (!records) return;
    kiln_db_close(records->db);
    kiln_free(records->path);
    kiln_free(records);
}

/* ---- which records ----------------------------------------------------------------------------
 */

static kiln_status resolve(kiln_records *records, const kiln_records_filter *filter,
                           kiln_arena *arena, kiln_db_filter *out) {
    static const kiln_db_order orders[] = {[KILN_RECORDS_FASTEST] = KILN_DB_FASTEST,
                                           [KILN_RECORDS_OLDEST] = KILN_DB_OLDEST,
                                           [KILN_RECORDS_NEWEST] = KILN_DB_NEWEST};
    *out = (kiln_db_filter){.order = KILN_DB_FASTEST};
    if (!filter) return NULL;
    if (filter->struct_bytes < sizeof *filter)
        return KILN_ERROR(INVALID_ARGUMENT, "the filter's struct_bytes is %zu; set it to its size",
                          filter->struct_bytes);
    if (filter->order >= KILN_ARRAY_COUNT(orders))
        return KILN_ERROR(INVALID_ARGUMENT, "there is no order %u", filter->order);
    out->order = orders[filter->order];
    out->whose = out->order == KILN_DB_FASTEST ? KILN_DB_COUNTING : KILN_DB_ANY;
    out->limit = filter->limit;
    out->task_key = kiln_str_from(filter->task);
    out->job_id = kiln_str_from(filter->job);
    const char *target = NULL;
    kiln_status st = filter->target ? kiln_db_recorded_target(records->db, records->path,
                                                              filter->target, arena, &target)
                                    : NULL;
    out->target = kiln_str_from(target);
    return st;
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static const uint32_t type_of[] = {[KILN_DB_TEXT] = KILN_ROWS_TEXT,
                                   [KILN_DB_BLOB] = KILN_ROWS_BYTES,
                                   [KILN_DB_INT] = KILN_ROWS_INT,
                                   [KILN_DB_REAL] = KILN_ROWS_REAL,
                                   [KILN_DB_SAMPLES] = KILN_ROWS_REALS};

enum { OP, MODEL, ADDED_COUNT }; /* columns behind those of the table */
static const heading added[ADDED_COUNT] = {
    [OP] = {"op", "operators of the task, for people", KILN_ROWS_TEXT},
    [MODEL] = {"model", "of the job, for people", KILN_ROWS_TEXT}};

static void set_columns(kiln_rows *rows, const kiln_db_table_info *info) {
    heading *made = KILN_ARENA_ARRAY(&rows->arena, heading, info->column_count + ADDED_COUNT);
    for (uint32_t i = 0; i < info->column_count; i++)
        made[i] =
            (heading){info->column[i].name, info->column[i].meaning, type_of[info->column[i].type]};
    memcpy(made + info->column_count, added, sizeof added);
    rows->column = made;
    rows->column_count = info->column_count + ADDED_COUNT;
}

static cell cell_of(kiln_rows *rows, const kiln_db_column *from, const void *row) {
    const void *member = (const char *)row + from->offset;
    cell made = {0};
    switch (from->type) {
    case KILN_DB_TEXT:
    case KILN_DB_BLOB: made.text = keep(rows, *(const kiln_str *)member); break;
    case KILN_DB_INT: made.number = *(const int64_t *)member; break;
    case KILN_DB_REAL: made.real = *(const double *)member; break;
    case KILN_DB_SAMPLES: {
        const kiln_db_samples *samples = member;
        made.reals.count = samples->count;
        made.reals.data =
            kiln_arena_copy(&rows->arena, samples->data, samples->count * sizeof(double));
        break;
    }
    }
    return made;
}

static kiln_status add_records(kiln_records *records, const kiln_db_record *record, uint32_t count,
                               kiln_arena *arena, kiln_rows *rows) {
    const kiln_db_table_info *info = kiln_db_table_info_of(KILN_DB_TABLE_RECORD);
    kiln_status st = NULL;
    set_columns(rows, info);
    for (uint32_t i = 0; !st && i < count; i++) {
        kiln_db_task task = {0};
        kiln_db_job job = {0};
        bool found = false;
        for (uint32_t k = 0; k < info->column_count; k++)
            kiln_vec_push(&rows->cell, cell_of(rows, &info->column[k], &record[i]));
        st = kiln_db_find_task(records->db, record[i].task_key, arena, &task, &found);
        if (!st) st = kiln_db_find_job(records->db, record[i].job_id, arena, &job, &found);
        kiln_vec_push(&rows->cell, (cell){.text = keep(rows, task.op)});
        kiln_vec_push(&rows->cell, (cell){.text = keep(rows, job.model)});
        rows->row_count++;
    }
    return st;
}

typedef kiln_status (*lister)(kiln_db *db, const kiln_db_filter *filter, kiln_arena *arena,
                              kiln_db_record **out_records, uint32_t *out_count);

static int list(kiln_records *records, const kiln_records_filter *filter, lister ask,
                kiln_rows **out_rows, char *error, size_t error_bytes) {
    kiln_arena arena;
    kiln_db_filter resolved;
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_rows *rows = new_rows();
    kiln_arena_init(&arena, 0);
    kiln_status st = resolve(records, filter, &arena, &resolved);
    if (!st) st = ask(records->db, &resolved, &arena, &record, &count);
    if (!st) st = add_records(records, record, count, &arena, rows);
    kiln_arena_deinit(&arena);
    if (st)
        kiln_rows_free(rows);
    else
        *out_rows = rows;
    return kiln_status_report(st, error, error_bytes);
}

int kiln_records_find(kiln_records *records, const kiln_records_filter *filter,
                      kiln_rows **out_rows, char *error, size_t error_bytes) {
    return list(records, filter, kiln_db_records, out_rows, error, error_bytes);
}

int kiln_records_best(kiln_records *records, const kiln_records_filter *filter,
                      kiln_rows **out_rows, char *error, size_t error_bytes) {
    return list(records, filter, kiln_db_best, out_rows, error, error_bytes);
}

/* ---- SQL --------------------------------------------------------------------------------------
 */

/* Cells are text at first: the type of a column is known when all cells are read. */
static kiln_status add_cells(void *context, uint32_t count, const kiln_db_cell *from) {
    kiln_rows *rows = context;
    if (!rows->column) {
        heading *made = KILN_ARENA_ARRAY(&rows->arena, heading, count);
        for (uint32_t i = 0; i < count; i++)
            made[i] = (heading){kiln_str_dup(&rows->arena, kiln_str_from(from[i].name)), "",
                                KILN_ROWS_INT};
        rows->column = made;
        rows->column_count = count;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *type = &((heading *)rows->column)[i].type;
        cell made = {.is_null = from[i].text == NULL};
        made.text = keep(rows, kiln_str_from(from[i].text));
        if (!made.is_null && *type == KILN_ROWS_INT &&
            (!from[i].is_number || !kiln_str_to_i64(made.text, &made.number)))
            *type = KILN_ROWS_REAL;
        if (!made.is_null && *type == KILN_ROWS_REAL &&
            (!from[i].is_number || !kiln_str_to_f64(made.text, &made.real)))
            *type = KILN_ROWS_TEXT;
        kiln_vec_push(&rows->cell, made);
    }
    rows->row_count++;
    return NULL;
}

/* Converts earlier rows, which were read with a narrower type than the column's. */
static void read_reals(kiln_rows *rows) {
    for (size_t i = 0; i < rows->cell.count; i++) {
        cell *at = &rows->cell.data[i];
        if (rows->column[i % rows->column_count].type == KILN_ROWS_REAL && !at->is_null)
            (void)kiln_str_to_f64(at->text, &at->real); /* it was a number when it was added */
    }
}

int kiln_records_sql(kiln_records *records, const char *statement, kiln_rows **out_rows,
                     char *error, size_t error_bytes) {
    kiln_rows *rows = new_rows();
    kiln_status st = kiln_db_sql(records->db, kiln_str_from(statement), add_cells, rows);
    if (st) {
        kiln_rows_free(rows);
    } else {
        read_reals(rows);
        *out_rows = rows;
    }
    return kiln_status_report(st, error, error_bytes);
}

/* ---- reading answers --------------------------------------------------------------------------
 */

static const cell *at(const kiln_rows *rows, size_t row, uint32_t column) {
    return &rows->cell.data[row * rows->column_count + column];
}

size_t kiln_rows_count(const kiln_rows *rows) { return rows->row_count; }
uint32_t kiln_rows_column_count(const kiln_rows *rows) { return rows->column_count; }
const char *kiln_rows_column_name(const kiln_rows *rows, uint32_t column) {
    return rows->column[column].name;
}
const char *kiln_rows_column_meaning(const kiln_rows *rows, uint32_t column) {
    return rows->column[column].meaning;
}
uint32_t kiln_rows_column_type(const kiln_rows *rows, uint32_t column) {
    return rows->column[column].type;
}
int kiln_rows_is_null(const kiln_rows *rows, size_t row, uint32_t column) {
    return at(rows, row, column)->is_null;
}
const char *kiln_rows_text(const kiln_rows *rows, size_t row, uint32_t column, size_t *out_bytes) {
    const kiln_str text = at(rows, row, column)->text;
    if (out_bytes) *out_bytes = text.size;
    return text.data;
}
int64_t kiln_rows_int(const kiln_rows *rows, size_t row, uint32_t column) {
    return at(rows, row, column)->number;
}
double kiln_rows_real(const kiln_rows *rows, size_t row, uint32_t column) {
    return at(rows, row, column)->real;
}
const double *kiln_rows_reals(const kiln_rows *rows, size_t row, uint32_t column,
                              size_t *out_count) {
    *out_count = at(rows, row, column)->reals.count;
    return at(rows, row, column)->reals.data;
}

void kiln_rows_free(kiln_rows *rows) {
    if (!rows) return;
    kiln_vec_deinit(&rows->cell);
    kiln_arena_deinit(&rows->arena);
    kiln_free(rows);
}
