/* Records as JSON, with what people want to know beside the columns. For the routes that answer
 * from the database. */
#ifndef KILN_WEB_RECORD_ROWS_H
#define KILN_WEB_RECORD_ROWS_H

#include "db/browse.h"
#include "db/db.h"

/* Task, label and model of the record that was described last: records of one task mostly follow
 * each other. */
typedef struct kiln_record_describer {
    kiln_db *db;
    kiln_arena *arena;
    kiln_str task_key, job_id, label, model;
    bool has_task, has_job;
    bool is_brief; /* without trace, samples and signature */
} kiln_record_describer;

/* Appends the object that `kiln db --json` prints: the columns, label, model, gflops; of a brief
 * describer without the long columns. Errors of the database. */
KILN_MUST_USE kiln_status kiln_record_print(kiln_record_describer *describer,
                                            const kiln_db_record *record, kiln_strbuf *out);
/* A task for people: its operators, and the extents of its largest loop nest, "gemm 64x64 over 64".
 * `canonical` is the text of its computation; of a text that cannot be read, the operators. */
kiln_str kiln_record_label(kiln_str op, kiln_str canonical, kiln_arena *arena);
/* Bytes of the inputs, constants and outputs of a task's program; 0: not known. */
double kiln_record_bytes(kiln_str canonical);
/* Appends `,"name":` and the text or the number. */
void kiln_json_add_text(kiln_strbuf *out, const char *name, kiln_str text);
void kiln_json_add_real(kiln_strbuf *out, const char *name, double value);
void kiln_json_add_int(kiln_strbuf *out, const char *name, int64_t value);

#endif
