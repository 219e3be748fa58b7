#include "cli/db_list.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/stats.h"
#include "base/text.h"
#include "cli/common/json.h"
#include "cli/common/roofline.h"
#include "cli/common/task_names.h"
#include "cli/rows_json.h"

/* ---- cells ------------------------------------------------------------------------------------
 */

void kiln_csv_append(kiln_str text, kiln_strbuf *out) {
    bool quoted = false;
    for (size_t i = 0; i < text.size; i++) quoted |= memchr(",\"\r\n", text.data[i], 4) != NULL;
    if (quoted) kiln_strbuf_char(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '"') kiln_strbuf_char(out, '"');
        kiln_strbuf_char(out, text.data[i]);
    }
    if (quoted) kiln_strbuf_char(out, '"');
}

static void print_csv(const char *const *cell, uint32_t count) {
    kiln_strbuf line = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (i) kiln_strbuf_char(&line, ',');
        kiln_csv_append(kiln_str_from(cell[i] ? cell[i] : ""), &line);
    }
    puts(line.data);
    kiln_strbuf_deinit(&line);
}

/* "2026-11-23T01:20:15Z". */
static const char *time_text(int64_t wall_ns, kiln_arena *arena) {
    time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm parts;
    char text[32] = "";
    if (wall_ns > 0 && gmtime_r(&seconds, &parts))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return kiln_str_dup(arena, kiln_str_from(text));
}

/* ---- what is known of a record ----------------------------------------------------------------
 */

/* A task's shape and a job's model, of the last record that was asked for: records of one task and
 * job mostly follow each other. */
typedef struct describer {
    kiln_db *db;
    kiln_arena *arena;
    kiln_str task_key, job_id;
    const char *label, *model;
    kiln_program *te; /* of the task; NULL: of another version */
    double flops; /* that a run of the task needs; of a program of another version, as recorded */
} describer;

static kiln_status describe_task(describer *d, kiln_str key) {
    kiln_db_task task = {0};
    bool found = false;
    if (d->label && kiln_str_equal(d->task_key, key)) return KILN_OK;
    kiln_status st = kiln_db_find_task(d->db, key, d->arena, &task, &found);
    if (st) return st;
    d->task_key = key;
    d->label = found ? kiln_str_dup(d->arena, task.op) : "";
    d->flops = task.flops;
    d->te = NULL;
    st = found ? kiln_program_parse(task.canonical, d->arena, &d->te) : KILN_OK;
    if (d->te) {
        d->label = kiln_task_label(&(kiln_task){.op = task.op, .te = d->te}, d->arena);
        d->flops = kiln_program_flops(d->te);
    }
    kiln_status_free(st); /* of another version: then the operator must do */
    return KILN_OK;
}

static kiln_status describe_job(describer *d, kiln_str id) {
    kiln_db_job job = {0};
    bool found = false;
    if (d->model && kiln_str_equal(d->job_id, id)) return KILN_OK;
    kiln_status st = kiln_db_find_job(d->db, id, d->arena, &job, &found);
    if (st) return st;
    d->job_id = id;
    d->model = found ? kiln_str_dup(d->arena, job.model) : "";
    return KILN_OK;
}

static kiln_status describe(describer *d, const kiln_db_record *r) {
    kiln_status st = describe_task(d, r->task_key);
    return st ? st : describe_job(d, r->job_id);
}

static kiln_target target_of(kiln_str text, kiln_arena *arena) {
    kiln_target target = {0};
    kiln_status st = kiln_target_parse(text, arena, &target);
    kiln_status_free(st); /* written by a Kiln that knows more targets */
    return target;
}

static double gflops_of(const describer *d, const kiln_db_record *r) {
    return r->median_ns > 0 ? d->flops / r->median_ns : 0;
}

static double share_of(const describer *d, const kiln_db_record *r) {
    const kiln_target target = target_of(r->target, d->arena);
    const double peak = kiln_roofline_peak_of(r, &target, d->te);
    return peak > 0 ? gflops_of(d, r) * 1e9 / peak : 0;
}

/* ---- as JSON and CSV --------------------------------------------------------------------------
 */

static void print_json(const describer *d, const kiln_db_record *r) {
    json_t *object = kiln_row_to_json(KILN_DB_TABLE_RECORD, r);
    json_object_set_new(object, "label", kiln_json_str(kiln_str_from(d->label)));
    json_object_set_new(object, "model", kiln_json_str(kiln_str_from(d->model)));
    json_object_set_new(object, "gflops", json_real(gflops_of(d, r)));
    kiln_json_line(object);
}

#define CSV_COLUMNS(X)                                                       \
    X("model", d->model)                                                     \
    X("label", d->label)                                                     \
    X("task_key", kiln_str_dup(d->arena, r->task_key))                       \
    X("target", kiln_str_dup(d->arena, r->target))                           \
    X("outcome", kiln_str_dup(d->arena, r->outcome))                         \
    X("median_ns", kiln_arena_printf(d->arena, "%.9g", r->median_ns))        \
    X("gflops", kiln_arena_printf(d->arena, "%.9g", gflops_of(d, r)))        \
    X("share_of_peak", kiln_arena_printf(d->arena, "%.9g", share_of(d, r)))  \
    X("threads", kiln_arena_printf(d->arena, "%lld", (long long)r->threads)) \
    X("found_by", kiln_str_dup(d->arena, r->searcher))                       \
    X("final", kiln_arena_printf(d->arena, "%lld", (long long)r->final))     \
    X("measured", time_text(r->stored_wall_ns, d->arena))                    \
    X("job", kiln_str_dup(d->arena, r->job_id))                              \
    X("trace_hash", kiln_str_dup(d->arena, r->trace_hash))

static void print_csv_header(void) {
#define X(name, value) name,
    static const char *const names[] = { CSV_COLUMNS(X) };
#undef X
    print_csv(names, KILN_ARRAY_COUNT(names));
}

static void print_csv_record(const describer *d, const kiln_db_record *r) {
#define X(name, value) value,
    const char *const cells[] = { CSV_COLUMNS(X) };
#undef X
    print_csv(cells, KILN_ARRAY_COUNT(cells));
}

#define CELL_BYTES_MAX 64u

/* ---- as a table -------------------------------------------------------------------------------
 */

typedef enum column {
    MODEL,
    TASK,
    OUTCOME,
    MEDIAN,
    GFLOPS,
    PEAK,
    FOUND_BY,
    MEASURED,
    KEY,
    TRACE,
    COLUMN_COUNT
} column;

static const struct {
    const char *name;
    bool right; /* numbers */
} columns[COLUMN_COUNT] = {{"model", false},    {"task", false},     {"outcome", false},
                           {"median", true},    {"GFLOP/s", true},   {"of peak", true},
                           {"found by", false}, {"measured", false}, {"key", false},
                           {"trace", false}};

static void fill(const describer *d, const kiln_db_record *r, const char *cell[COLUMN_COUNT]) {
    kiln_strbuf time = {0};
    cell[MODEL] = d->model;
    cell[TASK] = d->label;
    cell[OUTCOME] = kiln_str_dup(d->arena, r->outcome);
    cell[MEDIAN] = cell[GFLOPS] = cell[PEAK] = "-";
    if (r->median_ns > 0) {
        kiln_print_time(r->median_ns, &time);
        cell[MEDIAN] = kiln_str_dup(d->arena, kiln_strbuf_view(&time));
        cell[GFLOPS] = kiln_arena_printf(d->arena, "%.1f", gflops_of(d, r));
        if (share_of(d, r) > 0)
            cell[PEAK] = kiln_arena_printf(d->arena, "%.1f %%", 100 * share_of(d, r));
    }
    cell[FOUND_BY] = kiln_str_dup(d->arena, r->searcher);
    cell[MEASURED] = time_text(r->stored_wall_ns, d->arena);
    cell[KEY] = kiln_str_dup(d->arena, r->task_key);
    cell[TRACE] = kiln_arena_printf(d->arena, "%.12s%s", r->trace_hash.data,
                                    target_of(r->target, d->arena).emulated ? "  emulated" : "");
    for (unsigned i = 0; i < COLUMN_COUNT; i++)
        cell[i] = kiln_str_dup(d->arena, kiln_text_printable(kiln_str_from(cell[i]), KILN_TEXT_LINE,
                                                             CELL_BYTES_MAX, d->arena));
    kiln_strbuf_deinit(&time);
}

static void print_line(const char *const cell[COLUMN_COUNT], const int width[COLUMN_COUNT]) {
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        if (i) fputs("  ", stdout);
        if (i + 1 == COLUMN_COUNT)
            fputs(cell[i], stdout);
        else
            printf("%*s", columns[i].right ? width[i] : -width[i], cell[i]);
    }
    putchar('\n');
}

static void print_table(const char *const (*cell)[COLUMN_COUNT], uint32_t count) {
    int width[COLUMN_COUNT];
    const char *names[COLUMN_COUNT];
    for (unsigned i = 0; i < COLUMN_COUNT; i++) {
        names[i] = columns[i].name;
        width[i] = (int)strlen(names[i]);
        for (uint32_t k = 0; k < count; k++) width[i] = KILN_MAX(width[i], (int)strlen(cell[k][i]));
    }
    print_line(names, width);
    for (uint32_t k = 0; k < count; k++) print_line(cell[k], width);
}

kiln_status kiln_db_list_records(kiln_db *db, kiln_db_form form, const kiln_db_record *record,
                                 uint32_t count, kiln_arena *process) {
    describer d = {.db = db, .arena = process};
    kiln_status st = KILN_OK;
    const bool is_text = form == KILN_DB_FORM_TEXT;
    const char *(*cell)[COLUMN_COUNT] = kiln_arena_alloc(process, (count + 1) * sizeof *cell);
    if (form == KILN_DB_FORM_CSV) print_csv_header();
    for (uint32_t i = 0; !st && i < count; i++) {
        st = describe(&d, &record[i]);
        if (st) return st;
        switch (form) {
        case KILN_DB_FORM_TEXT: fill(&d, &record[i], cell[i]); break;
        case KILN_DB_FORM_CSV: print_csv_record(&d, &record[i]); break;
        case KILN_DB_FORM_JSON: print_json(&d, &record[i]); break;
        }
    }
    if (is_text && count) print_table((const char *const(*)[COLUMN_COUNT])cell, count);
    if (is_text && !count) puts("no records");
    return st;
}

/* ---- a person's statement ---------------------------------------------------------------------
 */

/* A number as it stands there, infinities as text. */
static json_t *number_to_json(const char *text) {
    int64_t whole = 0;
    double real = 0;
    if (kiln_str_to_i64(kiln_str_from(text), &whole)) return json_integer(whole);
    json_t *value = kiln_str_to_f64(kiln_str_from(text), &real) ? json_real(real) : NULL;
    return value ? value : json_string(text);
}

static void print_cells_json(uint32_t count, const kiln_db_cell *cell) {
    json_t *object = json_object();
    for (uint32_t i = 0; i < count; i++) {
        json_t *value = !cell[i].text       ? json_null()
                        : cell[i].is_number ? number_to_json(cell[i].text)
                                            : kiln_json_str(kiln_str_from(cell[i].text));
        json_object_set_new(object, cell[i].name, value);
    }
    kiln_json_line(object);
}

static void print_cells(kiln_db_form form, uint32_t count, const kiln_db_cell *cell, bool names) {
    kiln_strbuf line = {0};
    kiln_strbuf_text(&line, "");
    for (uint32_t i = 0; i < count; i++) {
        const char *text = names ? cell[i].name : cell[i].text;
        const bool is_csv = form == KILN_DB_FORM_CSV;
        if (i) kiln_strbuf_char(&line, is_csv ? ',' : '\t');
        if (is_csv)
            kiln_csv_append(kiln_str_from(text ? text : ""), &line);
        else
            kiln_text_append(&line, kiln_str_from(text ? text : "NULL"), KILN_TEXT_LINE, SIZE_MAX);
    }
    puts(line.data);
    kiln_strbuf_deinit(&line);
}

kiln_status kiln_db_list_cells(void *context, uint32_t count, const kiln_db_cell *cell) {
    kiln_db_lister *lister = context;
    if (lister->form == KILN_DB_FORM_JSON) {
        print_cells_json(count, cell);
        return KILN_OK;
    }
    if (!lister->begun) print_cells(lister->form, count, cell, true);
    lister->begun = true;
    print_cells(lister->form, count, cell, false);
    return KILN_OK;
}
