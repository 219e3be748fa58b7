#include "db/browse.h"

#include <string.h>

#include "base/check.h"
#include "base/vec.h"
#include "db/backend.h"

/* ---- conditions ------------------------------------------------------------------------------ */

#define VALUES_MAX (3 + KILN_DB_PROJECTS_MAX)

typedef struct values {
    kiln_str text[VALUES_MAX];
    uint32_t count;
} values;

static void append_equal(const char *column, kiln_str value, kiln_strbuf *sql, values *bound) {
    if (!value.size) return;
    bound->text[bound->count++] = value;
    kiln_strbuf_printf(sql, " AND %s = $%u", column, bound->count);
}

/* ", $1, $2" of the names, which are bound; a list that holds nothing where there is none. */
static void append_project_list(const kiln_db_projects *projects, kiln_strbuf *sql, values *bound) {
    KILN_CHECK(projects->count <= KILN_DB_PROJECTS_MAX);
    kiln_strbuf_text(sql, "project IN (NULL");
    for (uint32_t i = 0; i < projects->count; i++) {
        bound->text[bound->count++] = projects->name[i];
        kiln_strbuf_printf(sql, ", $%u", bound->count);
    }
    kiln_strbuf_char(sql, ')');
}

static kiln_status prepare(kiln_db *db, kiln_strbuf *sql, const values *bound,
                           kiln_db_statement **out_statement) {
    KILN_CHECK(db->kind == KILN_DB_RECORDS);
    kiln_status st = kiln_db_prepare(db, sql->data, out_statement);
    kiln_strbuf_deinit(sql);
    for (uint32_t i = 0; !st && i < bound->count; i++)
        kiln_db_bind_text(*out_statement, i + 1, bound->text[i]);
    return st;
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* X(kind of column, member): in the order of the statement. */
#define TRIAL_COLUMNS(X)                      \
    X(TEXT, trial_id, "trial_id")             \
    X(TEXT, job_id, "job_id")                 \
    X(TEXT, task_key, "task_key")             \
    X(TEXT, target, "target")                 \
    X(TEXT, searcher, "searcher")             \
    X(TEXT, algorithm, "algorithm")           \
    X(TEXT, outcome, "outcome")               \
    X(TEXT, layout_in, "layout_in")           \
    X(TEXT, layout_out, "layout_out")         \
    X(INT, trial_index, "trial_index")        \
    X(INT, threads, "threads")                \
    X(INT, stored_wall_ns, "stored_wall_ns")  \
    X(BOOL, is_checked, "checked")            \
    X(BOOL, is_raced, "raced")                \
    X(BOOL, is_final, "final")                \
    X(REAL, median_ns, "median_ns")           \
    X(REAL, flops, "flops")                   \
    X(REAL, peak_flops, "peak_flops")         \
    X(REAL, gain_low, "gain_low")             \
    X(REAL, relative_error, "relative_error") \
    X(REAL, build_ns, "build_ns")             \
    X(REAL, search_ns, "search_ns")           \
    X(REAL, train_ns, "train_ns")             \
    X(REAL, board_ns, "board_ns")             \
    X(INT, registers, "registers")            \
    X(INT, spill_bytes, "spill_bytes")        \
    X(INT, shared_bytes, "shared_bytes")

static void append_trials(const kiln_db_trial_filter *filter, kiln_strbuf *sql, values *bound) {
    kiln_strbuf_text(sql, "SELECT rowid");
#define X(kind, member, column) kiln_strbuf_text(sql, ", " column);
    TRIAL_COLUMNS(X)
#undef X
    kiln_strbuf_text(sql, " FROM record WHERE standing >= 0");
    append_equal("job_id", filter->job_id, sql, bound);
    append_equal("task_key", filter->task_key, sql, bound);
    append_equal("target", filter->target, sql, bound);
    if (filter->projects) {
        kiln_strbuf_text(sql, " AND ");
        append_project_list(filter->projects, sql, bound);
    }
    kiln_strbuf_printf(sql, " AND rowid > $%u ORDER BY rowid LIMIT %u", bound->count + 1,
                       filter->limit);
}

static void bind_row(kiln_db_statement *statement, uint32_t index, int64_t row) {
    statement->db->backend->bind(statement, index,
                                 &(kiln_db_value){.type = KILN_DB_INT, .integer = row});
}

static kiln_db_trial read_trial(kiln_db_statement *statement) {
    const kiln_db_backend *backend = statement->db->backend;
    kiln_db_trial trial = {.row = backend->column_int(statement, 0)};
    uint32_t at = 1;
#define READ_TEXT(member) trial.member = backend->column_bytes(statement, at++);
#define READ_INT(member) trial.member = backend->column_int(statement, at++);
#define READ_BOOL(member) trial.member = backend->column_int(statement, at++) != 0;
#define READ_REAL(member) trial.member = backend->column_real(statement, at++);
#define X(kind, member, column) READ_##kind(member)
    TRIAL_COLUMNS(X)
#undef X
    return trial;
}

kiln_status kiln_db_trials(kiln_db *db, const kiln_db_trial_filter *filter,
                           kiln_db_trial_visit visit, void *context) {
    KILN_CHECK(filter->job_id.size || filter->task_key.size || filter->target.size);
    KILN_CHECK(filter->limit > 0);
    kiln_strbuf sql = {0};
    values bound = {.count = 0};
    kiln_db_statement *statement = NULL;
    append_trials(filter, &sql, &bound);
    kiln_status st = prepare(db, &sql, &bound, &statement);
    if (st) return st;
    bind_row(statement, bound.count + 1, filter->after_row);
    bool found = true;
    while (!st && found) {
        st = db->backend->step(statement, "reading trials", &found);
        if (st || !found) break;
        const kiln_db_trial trial = read_trial(statement);
        st = visit(context, &trial);
    }
    kiln_db_release(statement);
    return st;
}

kiln_status kiln_db_newest_run(kiln_db *db, kiln_str job, kiln_arena *arena, kiln_str *out_id) {
    kiln_strbuf sql = {0};
    kiln_db_statement *statement = NULL;
    values bound = {.count = 0};
    bound.text[bound.count++] = job;
    bound.text[bound.count++] = kiln_str_from(kiln_arena_printf(arena, "%.*s.", KILN_STR_ARG(job)));
    kiln_strbuf_printf(&sql,
                       "SELECT id FROM job WHERE id = $1 OR substr(id, 1, %zu) = $2"
                       " ORDER BY opened_wall_ns DESC, rowid DESC LIMIT 1",
                       bound.text[1].size);
    *out_id = job;
    kiln_status st = prepare(db, &sql, &bound, &statement);
    if (st) return st;
    bool found = false;
    st = db->backend->step(statement, "looking for runs of a job", &found);
    if (!st && found) *out_id = kiln_str_copy(arena, db->backend->column_bytes(statement, 0));
    kiln_db_release(statement);
    return st;
}

/* ---- readings of a board --------------------------------------------------------------------- */

static kiln_status prepare_readings(kiln_db *db, kiln_str device_id,
                                    const kiln_db_projects *projects, uint32_t limit,
                                    kiln_db_statement **out_statement) {
    kiln_strbuf sql = {0};
    values bound = {.text = {device_id}, .count = 1};
    kiln_strbuf_text(&sql, "SELECT stored_wall_ns, drift, drift_memory, throttled FROM record"
                           " WHERE standing >= 0 AND drift > 0 AND device_id = $1");
    if (projects) {
        kiln_strbuf_text(&sql, " AND ");
        append_project_list(projects, &sql, &bound);
    }
    kiln_strbuf_printf(&sql, " ORDER BY stored_wall_ns DESC LIMIT %u", limit);
    return prepare(db, &sql, &bound, out_statement);
}

kiln_status kiln_db_readings(kiln_db *db, kiln_str device_id, const kiln_db_projects *projects,
                             uint32_t limit, kiln_arena *arena, kiln_db_reading **out_readings,
                             uint32_t *out_count) {
    const kiln_db_backend *backend = db->backend;
    KILN_VEC(kiln_db_reading) found = {0};
    kiln_db_statement *statement = NULL;
    bool has_row = true;
    kiln_status st = prepare_readings(db, device_id, projects, limit, &statement);
    if (st) return st;
    while (!st && has_row) {
        st = backend->step(statement, "readings of a board", &has_row);
        if (st || !has_row) break;
        const kiln_db_reading one = {
            backend->column_int(statement, 0), backend->column_real(statement, 1),
            backend->column_real(statement, 2), backend->column_int(statement, 3) != 0};
        kiln_vec_push_in(arena, &found, one);
    }
    kiln_db_release(statement);
    if (st) return st;
    for (uint32_t i = 0; i < found.count / 2; i++) {
        const kiln_db_reading newer = found.data[i];
        found.data[i] = found.data[found.count - 1 - i];
        found.data[found.count - 1 - i] = newer;
    }
    *out_readings = found.data;
    *out_count = found.count;
    return KILN_OK;
}

/* ---- pages of tables ------------------------------------------------------------------------- */

/* Which rows of the table are of these projects. Targets and devices are of nobody. */
static void append_owned(kiln_db_table table, const kiln_db_projects *projects, kiln_strbuf *sql,
                         values *bound) {
    if (!projects) return;
    if (table == KILN_DB_TABLE_TOMBSTONE) kiln_strbuf_text(sql, " AND 1 = 0");
    if (table == KILN_DB_TABLE_RECORD || table == KILN_DB_TABLE_JOB) {
        kiln_strbuf_text(sql, " AND ");
        append_project_list(projects, sql, bound);
    }
    if (table != KILN_DB_TABLE_TASK) return;
    kiln_strbuf_text(sql, " AND key IN (SELECT task_key FROM record_stat WHERE ");
    append_project_list(projects, sql, bound);
    kiln_strbuf_char(sql, ')');
}

kiln_status kiln_db_visit_page(kiln_db *db, const kiln_db_page *page, kiln_db_visit visit,
                               void *context, int64_t *out_row) {
    const kiln_db_table_info *info = kiln_db_table_info_of(page->table);
    KILN_CHECK(info->kind == KILN_DB_RECORDS && page->table != KILN_DB_TABLE_SIGNER);
    KILN_CHECK(page->limit > 0);
    kiln_strbuf sql = {0};
    values bound = {.count = 0};
    kiln_db_statement *statement = NULL;
    kiln_strbuf_printf(&sql, "SELECT %s, rowid FROM \"%s\" WHERE 1 = 1", info->column_list,
                       info->name);
    append_owned(page->table, page->projects, &sql, &bound);
    kiln_strbuf_printf(&sql, " AND rowid > $%u AND rowid <= $%u ORDER BY rowid LIMIT %u",
                       bound.count + 1, bound.count + 2, page->limit);
    kiln_status st = prepare(db, &sql, &bound, &statement);
    if (st) return st;
    bind_row(statement, bound.count + 1, page->after_row);
    bind_row(statement, bound.count + 2, page->last_row);
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    bool found = true;
    int64_t row_number = 0;
    while (!st && found) {
        st = db->backend->step(statement, info->name, &found);
        if (st || !found) break;
        kiln_arena_reset(&scratch);
        void *row = kiln_arena_alloc(&scratch, info->row_size);
        kiln_db_row_read(statement, info, &scratch, row);
        row_number = db->backend->column_int(statement, info->column_count);
        st = visit(context, page->table, row);
    }
    kiln_db_release(statement);
    kiln_arena_deinit(&scratch);
    if (!st) *out_row = row_number;
    return st;
}

kiln_status kiln_db_newest_row(kiln_db *db, kiln_db_table table, int64_t *out_row) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    KILN_CHECK(info->kind == db->kind);
    kiln_strbuf sql = {0};
    const values none = {.count = 0};
    kiln_db_statement *statement = NULL;
    bool found = false;
    kiln_strbuf_printf(&sql, "SELECT coalesce(max(rowid), 0) FROM \"%s\"", info->name);
    kiln_status st = prepare(db, &sql, &none, &statement);
    if (st) return st;
    st = db->backend->step(statement, info->name, &found);
    if (!st) *out_row = found ? db->backend->column_int(statement, 0) : 0;
    kiln_db_release(statement);
    return st;
}
