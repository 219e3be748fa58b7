/* Questions about records. "Best" is a query, never a stored fact. The best record counts (its
 * standing is above a hint), its whole output was compared with the reference, and it was not
 * stopped early. If its trace was measured in finals, only the newest final is considered, and a
 * final that was not faster than its default is never best. Finals come first: the fastest of many
 * single measurements is a lucky one. */
#include <string.h>

#include "base/check.h"
#include "base/vec.h"
#include "db/backend.h"

typedef KILN_VEC(kiln_db_record) record_list;

#define ALGORITHMS_MAX 64u /* of a filter */

/* Texts of the filter that were set, in the order of their placeholders. */
typedef struct condition_list {
    kiln_str value[9 + ALGORITHMS_MAX + KILN_DB_PROJECTS_MAX];
    uint32_t count;
    uint32_t project_at; /* placeholder of the first project; 0: none yet */
} condition_list;

/* Clauses speak of the row "one". Empty text is stored as NULL. */
static void add_condition(kiln_strbuf *sql, condition_list *conditions, const char *column,
                          kiln_str value) {
    kiln_strbuf_text(sql, " AND one.");
    kiln_strbuf_text(sql, column);
    if (value.size == 0) {
        kiln_strbuf_text(sql, " IS NULL");
        return;
    }
    conditions->value[conditions->count++] = value;
    kiln_strbuf_printf(sql, " = $%u", conditions->count);
}

static void append_before(const char *row, int64_t before_wall_ns, kiln_strbuf *sql) {
    if (before_wall_ns)
        kiln_strbuf_printf(sql, " AND %s.stored_wall_ns < %lld", row, (long long)before_wall_ns);
}

/* Records without a project belong to none that a person could be a member of. The names are bound
 * once for a clause. */
static void append_projects(const char *row, const kiln_db_projects *projects, kiln_strbuf *sql,
                            condition_list *conditions) {
    if (!projects) return;
    KILN_CHECK(projects->count <= KILN_DB_PROJECTS_MAX);
    if (!projects->count) kiln_strbuf_text(sql, " AND 1 = 0");
    if (!conditions->project_at) {
        conditions->project_at = conditions->count + 1;
        for (uint32_t i = 0; i < projects->count; i++)
            conditions->value[conditions->count++] = projects->name[i];
    }
    for (uint32_t i = 0; i < projects->count; i++)
        if (i)
            kiln_strbuf_printf(sql, ", $%u", conditions->project_at + i);
        else
            kiln_strbuf_printf(sql, " AND %s.project IN ($%u", row, conditions->project_at);
    if (projects->count) kiln_strbuf_char(sql, ')');
}

static const char *const whose_text[] = {
    [KILN_DB_COUNTING] = " AND one.standing > 0",
    [KILN_DB_HINTS] = " AND one.standing = 0",
    [KILN_DB_HERE] = " AND one.standing = 2",
    [KILN_DB_ANY] = " AND one.standing >= 0",
};

/* That it counts. */
static void append_counts(const char *row, const kiln_db_trusting *trusting, kiln_strbuf *sql) {
    kiln_strbuf_printf(sql, "%s.standing > 0", row);
    if (!trusting) return;
    kiln_strbuf_printf(sql,
                       " AND (%s.origin NOT LIKE '%s %%' OR coalesce(%s.signer, '') IN"
                       " (SELECT id FROM signer))",
                       row, kiln_db_origin_name(KILN_DB_ORIGIN_PROJECT), row);
    if (!trusting->count) return;
    kiln_strbuf_printf(sql, " OR %s.standing >= 0 AND ", row);
    kiln_db_append_trusted(row, trusting, sql);
}

/* Where no signers are named these are the terms of the indexes. */
static void append_whose(const kiln_db_filter *filter, kiln_strbuf *sql) {
    const bool counting = filter->whose == KILN_DB_COUNTING;
    if (!filter->trusting || (!counting && filter->whose != KILN_DB_HINTS)) {
        kiln_strbuf_text(sql, whose_text[filter->whose]);
        return;
    }
    kiln_strbuf_text(sql, counting ? " AND (" : " AND one.standing >= 0 AND NOT (");
    append_counts("one", filter->trusting, sql);
    kiln_strbuf_text(sql, ")");
}

/* With the standing, these are the terms of the index record_best. */
#define IS_RIGHT " AND one.outcome = 'ok' AND one.checked = 1 AND one.raced = 0"

/* Of hints: nobody compared the output of a schedule from another system's log. It is measured and
 * compared here before it counts. */
#define IS_WORTH_TRYING                                                       \
    " AND one.outcome = 'ok' AND (one.checked = 1 OR one.origin = 'autotvm')" \
    " AND one.raced = 0"

/* A hint supersedes nothing: a foreign final must not exclude our record. Neither does a final that
 * the asker may not see. */
static void append_not_superseded(const kiln_db_filter *filter, kiln_strbuf *sql,
                                  condition_list *conditions) {
    kiln_strbuf_text(sql, " AND (one.final = 0 OR one.gain_low >= 1)"
                          " AND NOT EXISTS (SELECT 1 FROM record AS later WHERE later.final = 1"
                          " AND (");
    append_counts("later", filter->trusting, sql);
    kiln_strbuf_text(sql, ") AND later.task_key = one.task_key AND later.target = one.target"
                          " AND later.codegen_version = one.codegen_version"
                          " AND later.trace_hash = one.trace_hash");
    append_before("later", filter->before_wall_ns, sql);
    append_projects("later", filter->projects, sql, conditions);
    kiln_strbuf_text(sql, " AND (one.final = 0 OR later.rowid > one.rowid))");
}

/* A record that was never built names no algorithm and counts as direct. */
static void append_allowed(const kiln_db_allowed *allowed, kiln_strbuf *sql,
                           condition_list *conditions) {
    kiln_str list = allowed->algorithms;
    if (list.size == 0) return;
    kiln_strbuf_printf(sql,
                       " AND (coalesce(one.algorithm, 'direct') = 'direct'"
                       " OR one.relative_error <= %.17g AND one.algorithm IN (",
                       allowed->error_max);
    for (uint32_t i = 0; list.size && i < ALGORITHMS_MAX; i++) {
        conditions->value[conditions->count++] = kiln_str_cut(&list, ',');
        kiln_strbuf_printf(sql, "%s$%u", i ? ", " : "", conditions->count);
    }
    kiln_strbuf_text(sql, "))");
}

typedef enum question {
    OF_PAIRS,   /* pairs of task and target that the filter names */
    OF_RECORDS, /* any outcome */
    OF_BEST,    /* those that may be best */
} question;

/* Fills `conditions` anew: a statement may repeat the clause, or its beginning, because the
 * placeholders are numbered. */
static void append_where(const kiln_db_filter *filter, question asked, kiln_strbuf *sql,
                         condition_list *conditions) {
    conditions->count = conditions->project_at = 0;
    kiln_strbuf_text(sql, " WHERE 1 = 1");
    if (asked == OF_BEST)
        kiln_strbuf_text(sql, filter->whose == KILN_DB_HINTS ? IS_WORTH_TRYING : IS_RIGHT);
    if (asked != OF_PAIRS) append_whose(filter, sql);
    append_before("one", filter->before_wall_ns, sql);
    const struct {
        const char *column;
        kiln_str value;
        bool wanted;
    } text[] = {
        {"task_key", filter->task_key, filter->task_key.size > 0},
        {"target", filter->target, filter->target.size > 0},
        {"job_id", filter->job_id, filter->job_id.size > 0},
        {"trial_id", filter->trial_id, filter->trial_id.size > 0},
        {"codegen_version", filter->codegen_version, filter->codegen_version.size > 0},
        {"trace_hash", filter->trace_hash, filter->trace_hash.size > 0},
        {"layout_in", filter->layout_in, filter->by_layout},
        {"layout_out", filter->layout_out, filter->by_layout},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        if (text[i].wanted) add_condition(sql, conditions, text[i].column, text[i].value);
    append_projects("one", filter->projects, sql, conditions);
    if (asked != OF_PAIRS) append_allowed(&filter->allowed, sql, conditions);
    if (asked == OF_BEST && filter->whose != KILN_DB_HINTS)
        append_not_superseded(filter, sql, conditions);
}

static void append_select_record(kiln_strbuf *sql) {
    kiln_strbuf_text(sql, "SELECT ");
    kiln_strbuf_text(sql, kiln_db_table_info_of(KILN_DB_TABLE_RECORD)->column_list);
    kiln_strbuf_text(sql, " FROM record");
}

/* Runs `sql`, whose columns are the record's, and collects the rows in `arena`. */
static kiln_status collect(kiln_db *db, const char *sql, const condition_list *conditions,
                           kiln_arena *arena, kiln_db_record **out_records, uint32_t *out_count) {
    KILN_CHECK(db->kind == KILN_DB_RECORDS);
    kiln_db_statement *statement = NULL;
    kiln_status st = kiln_db_prepare(db, sql, &statement);
    if (st) return st;
    for (uint32_t i = 0; i < conditions->count; i++)
        kiln_db_bind_text(statement, i + 1, conditions->value[i]);

    record_list found = {0};
    bool row = false;
    while (!(st = db->backend->step(statement, "reading records", &row)) && row) {
        kiln_db_record record;
        kiln_db_row_read(statement, kiln_db_table_info_of(KILN_DB_TABLE_RECORD), arena, &record);
        kiln_vec_push_in(arena, &found, record);
    }
    kiln_db_release(statement);
    if (st) return st;
    *out_records = found.data;
    *out_count = found.count;
    return NULL;
}

kiln_status kiln_db_records(kiln_db *db, const kiln_db_filter *filter, kiln_arena *arena,
                            kiln_db_record **out_records, uint32_t *out_count) {
    static const char *const order_by[] = {
        [KILN_DB_OLDEST] = " ORDER BY rowid",
        [KILN_DB_NEWEST] = " ORDER BY rowid DESC",
        [KILN_DB_FASTEST] = " ORDER BY final DESC, median_ns, rowid",
    };
    kiln_strbuf sql = {0};
    condition_list conditions = {0};
    append_select_record(&sql);
    kiln_strbuf_text(&sql, " AS one");
    append_where(filter, filter->order == KILN_DB_FASTEST ? OF_BEST : OF_RECORDS, &sql,
                 &conditions);
    if (filter->order == KILN_DB_FASTEST && filter->whose == KILN_DB_HINTS)
        kiln_strbuf_text(&sql, " ORDER BY median_ns, rowid");
    else
        kiln_strbuf_text(&sql, order_by[filter->order]);
    if (filter->limit)
        kiln_strbuf_printf(&sql, " LIMIT %u OFFSET %u", filter->limit, filter->offset);
    kiln_status st = collect(db, sql.data, &conditions, arena, out_records, out_count);
    kiln_strbuf_deinit(&sql);
    return st;
}

kiln_status kiln_db_best(kiln_db *db, const kiln_db_filter *filter, kiln_arena *arena,
                         kiln_db_record **out_records, uint32_t *out_count) {
    kiln_strbuf sql = {0};
    condition_list conditions = {0};
    /* One look into the index record_best per task and target that was counted. The first stored
     * wins a tie, so the answer does not depend on the order in which the database looks. */
    const kiln_db_filter pair = {
        .task_key = filter->task_key,
        .target = filter->target,
        .job_id = filter->job_id, /* records of a job are found by an index, its pairs are few */
        .projects = filter->projects};
    append_select_record(&sql);
    kiln_strbuf_text(&sql, " JOIN (SELECT DISTINCT task_key AS of_task, target AS of_target FROM ");
    kiln_strbuf_text(&sql, filter->job_id.size ? "record AS one" : "record_stat AS one");
    append_where(&pair, OF_PAIRS, &sql, &conditions);
    kiln_strbuf_text(&sql, ") AS pair ON record.rowid = (SELECT one.rowid FROM record AS one");
    append_where(filter, OF_BEST, &sql, &conditions);
    kiln_strbuf_text(&sql, " AND one.task_key = of_task AND one.target = of_target"
                           " ORDER BY one.final DESC, one.median_ns, one.rowid LIMIT 1)"
                           " ORDER BY task_key, target");
    kiln_status st = collect(db, sql.data, &conditions, arena, out_records, out_count);
    kiln_strbuf_deinit(&sql);
    return st;
}

static kiln_status find_row(kiln_db *db, kiln_db_table table, kiln_str identity, kiln_arena *arena,
                            void *out_row, bool *out_found) {
    const kiln_db_table_info *info = kiln_db_table_info_of(table);
    KILN_CHECK(db->kind == info->kind);
    kiln_strbuf sql = {0};
    kiln_strbuf_printf(&sql, "SELECT %s FROM \"%s\" WHERE \"%s\" = $1", info->column_list,
                       info->name, info->column[0].name);
    kiln_db_statement *statement = NULL;
    kiln_status st = kiln_db_prepare(db, sql.data, &statement);
    kiln_strbuf_deinit(&sql);
    if (st) return st;
    kiln_db_bind_text(statement, 1, identity);
    bool found = false;
    st = db->backend->step(statement, info->name, &found);
    if (!st && found) kiln_db_row_read(statement, info, arena, out_row);
    kiln_db_release(statement);
    if (!st) *out_found = found;
    return st;
}

kiln_status kiln_db_find_task(kiln_db *db, kiln_str key, kiln_arena *arena, kiln_db_task *out_task,
                              bool *out_found) {
    return find_row(db, KILN_DB_TABLE_TASK, key, arena, out_task, out_found);
}

kiln_status kiln_db_find_job(kiln_db *db, kiln_str id, kiln_arena *arena, kiln_db_job *out_job,
                             bool *out_found) {
    return find_row(db, KILN_DB_TABLE_JOB, id, arena, out_job, out_found);
}

static kiln_str dup_column(kiln_db_statement *statement, uint32_t index, kiln_arena *arena) {
    return kiln_str_copy(arena, statement->db->backend->column_bytes(statement, index));
}

kiln_status kiln_db_try_identities(kiln_db *db, kiln_db_identity kind,
                                   kiln_identity_search *search) {
    static const char *const column[] = {[KILN_DB_OF_TRIAL] = "trial_id",
                                         [KILN_DB_OF_JOB] = "job_id",
                                         [KILN_DB_OF_SIGNER] = "signer",
                                         [KILN_DB_OF_TRACE] = "trace_hash",
                                         [KILN_DB_OF_TASK] = "task_key"};
    _Static_assert(KILN_ARRAY_COUNT(column) == KILN_DB_IDENTITY_COUNT, "one for each");
    KILN_CHECK(db->kind == KILN_DB_RECORDS);
    kiln_strbuf sql = {0};
    kiln_db_statement *statement = NULL;
    kiln_strbuf_printf(&sql,
                       "SELECT DISTINCT %s FROM record WHERE substr(%s, 1, %zu) = $1"
                       " ORDER BY 1 LIMIT %d", /* the shortest first: what was typed whole is it */
                       column[kind], column[kind], search->typed.size, KILN_IDENTITIES_SHOWN + 1);
    kiln_status st = kiln_db_prepare(db, sql.data, &statement);
    kiln_strbuf_deinit(&sql);
    if (st) return st;
    bool row = false;
    kiln_db_bind_text(statement, 1, search->typed);
    while (!(st = db->backend->step(statement, "looking for identities", &row)) && row)
        kiln_identity_try(search, db->backend->column_bytes(statement, 0), (kiln_str){0});
    kiln_db_release(statement);
    return st;
}

/* One row per kind of record that was counted, those of a pair together. The best of each pair is
 * looked up once. */
static void append_stats(const kiln_db_projects *projects, kiln_strbuf *sql,
                         condition_list *conditions) {
    kiln_strbuf_text(sql, "WITH pair AS MATERIALIZED (SELECT task_key AS of_task,"
                          " target AS of_target, min(first_row) AS first_of_pair,"
                          " (SELECT one.median_ns FROM record AS one");
    append_where(&(kiln_db_filter){.projects = projects}, OF_BEST, sql, conditions);
    kiln_strbuf_text(sql, " AND one.task_key = stat.task_key AND one.target = stat.target"
                          " ORDER BY one.final DESC, one.median_ns LIMIT 1) AS best_ns"
                          " FROM (SELECT * FROM record_stat AS one");
    append_where(&(kiln_db_filter){.projects = projects}, OF_PAIRS, sql, conditions);
    kiln_strbuf_text(sql, ") AS stat GROUP BY task_key, target)"
                          " SELECT task_key, op, target, best_ns, outcome, raced, final, origin,"
                          " record_count, sampled_ns, first_wall_ns, last_wall_ns"
                          " FROM pair JOIN record_stat AS one ON task_key = of_task"
                          " AND target = of_target JOIN task ON key = of_task");
    append_where(&(kiln_db_filter){.projects = projects}, OF_PAIRS, sql, conditions);
    kiln_strbuf_text(sql, " ORDER BY first_of_pair, of_task, of_target");
}

static bool column_equals(kiln_db_statement *statement, uint32_t index, kiln_str text) {
    return kiln_str_equal(statement->db->backend->column_bytes(statement, index), text);
}

/* The project's name follows this origin. */
static bool is_origin(kiln_str text, kiln_db_origin origin) {
    const char *name = kiln_db_origin_name(origin);
    const size_t size = strlen(name);
    return kiln_str_starts(text, name) && (text.size == size || text.data[size] == ' ');
}

static kiln_db_stat read_pair(kiln_db_statement *statement, kiln_arena *arena) {
    const kiln_db_backend *backend = statement->db->backend;
    return (kiln_db_stat){.task_key = dup_column(statement, 0, arena),
                          .op = dup_column(statement, 1, arena),
                          .target = dup_column(statement, 2, arena),
                          .best_ns = backend->column_real(statement, 3),
                          .first_wall_ns = INT64_MAX,
                          .last_wall_ns = INT64_MIN};
}

static void add_counts(kiln_db_statement *statement, kiln_db_stat *stat) {
    const kiln_db_backend *backend = statement->db->backend;
    int64_t count = backend->column_int(statement, 8);
    bool is_final = backend->column_int(statement, 6);
    *(is_final ? &stat->final_count : &stat->record_count) += count;
    kiln_outcome outcome;
    if (!is_final && kiln_outcome_find(backend->column_bytes(statement, 4), &outcome))
        stat->outcome_count[outcome] += count;
    if (backend->column_int(statement, 5)) stat->raced_count += count;
    for (int i = 0; i < KILN_DB_ORIGIN_COUNT; i++)
        if (is_origin(backend->column_bytes(statement, 7), (kiln_db_origin)i))
            stat->origin_count[i] += count;
    stat->sampled_ns += backend->column_real(statement, 9);
    stat->first_wall_ns = KILN_MIN(stat->first_wall_ns, backend->column_int(statement, 10));
    stat->last_wall_ns = KILN_MAX(stat->last_wall_ns, backend->column_int(statement, 11));
}

kiln_status kiln_db_stats_of(kiln_db *db, const kiln_db_projects *projects, kiln_arena *arena,
                             kiln_db_stat **out_stats, uint32_t *out_count) {
    KILN_CHECK(db->kind == KILN_DB_RECORDS);
    kiln_strbuf sql = {0};
    condition_list conditions = {0};
    append_stats(projects, &sql, &conditions);
    kiln_db_statement *statement = NULL;
    kiln_status st = kiln_db_prepare(db, sql.data, &statement);
    kiln_strbuf_deinit(&sql);
    if (st) return st;
    for (uint32_t i = 0; i < conditions.count; i++)
        kiln_db_bind_text(statement, i + 1, conditions.value[i]);

    KILN_VEC(kiln_db_stat) found = {0};
    bool row = false;
    while (!(st = db->backend->step(statement, "counting records", &row)) && row) {
        const kiln_db_stat *last = found.count ? &found.data[found.count - 1] : NULL;
        if (!last || !column_equals(statement, 0, last->task_key) ||
            !column_equals(statement, 2, last->target)) {
            kiln_db_stat stat = read_pair(statement, arena);
            kiln_vec_push_in(arena, &found, stat);
        }
        add_counts(statement, &found.data[found.count - 1]);
    }
    kiln_db_release(statement);
    if (st) return st;
    *out_stats = found.data;
    *out_count = found.count;
    return NULL;
}

kiln_status kiln_db_stats(kiln_db *db, kiln_arena *arena, kiln_db_stat **out_stats,
                          uint32_t *out_count) {
    return kiln_db_stats_of(db, NULL, arena, out_stats, out_count);
}
