/* Questions to the database of records. Each is asked on the loop's pool, with one of a few handles
 * that are kept open, and sees the records of the projects alone that its person may read. */
#ifndef KILN_WEB_RECORDS_H
#define KILN_WEB_RECORDS_H

#include "db/browse.h"
#include "db/db.h"
#include "web/routes.h"

#define KILN_RECORDS_LIST_MAX 1000u                /* `limit` of a list */
#define KILN_RECORDS_OFFSET_MAX 100000u            /* rows before the first of a list */
#define KILN_RECORDS_HANDLES_MAX 4u                /* kept open, as many as the pool has threads */
#define KILN_RECORDS_CACHE_BYTES ((size_t)4 << 20) /* of each; the system keeps the file, too */

/* `path` outlives it. Nothing is opened yet: a database that is not there yet has no records. */
kiln_records *kiln_records_create(const char *path);
/* After the loop is destroyed. NULL is fine. */
void kiln_records_destroy(kiln_records *records);
const char *kiln_records_path(const kiln_records *records);

/* A question on its way. Lives until its answer was handed over. */
typedef struct kiln_question {
    kiln_call *call;
    kiln_arena arena;                 /* of the pool's thread while it answers */
    const kiln_db_projects *projects; /* that the person may read; NULL: all */
    kiln_strbuf out;                  /* the answer */
    void *user;
} kiln_question;

/* On a pool thread: appends JSON to question->out. Of the call it may read the parameters. */
typedef kiln_status (*kiln_question_answer)(kiln_db *db, kiln_question *question);
/* On the loop. Takes `st`. It must answer the request. */
typedef void (*kiln_question_done)(kiln_question *question, kiln_status st);

/* Answers the call's request with what `answer` appends. */
void kiln_records_ask(kiln_call *call, kiln_question_answer answer);
/* The same, but hands the question to `done`; it is freed after that. */
void kiln_records_ask_for(kiln_call *call, kiln_question_answer answer, kiln_question_done done,
                          void *user);

/* The projects that the call's person may read, told by the tracker and remembered for a few
 * seconds; NULL for administrators, who may read all. `known` is called once, perhaps from inside;
 * the list is in `arena`. Takes nothing; `st` is owned. */
typedef void (*kiln_projects_known)(void *context, const kiln_db_projects *projects,
                                    kiln_status st);
void kiln_records_find_projects(kiln_call *call, kiln_arena *arena, kiln_projects_known known,
                                void *context);

/* Reads "2026-01-31" or "2026-01-31T12:00:00Z". False: it is neither. */
bool kiln_web_date_parse(kiln_str text, int64_t *out_wall_ns);

/* A handle to read with, of this thread until it is put back. Errors of kiln_db_open. */
KILN_MUST_USE kiln_status kiln_records_take(kiln_records *records, kiln_db **out_db);
/* `st`: how its use ended; a handle that failed is closed. */
void kiln_records_put_back(kiln_records *records, kiln_db *db, kiln_status st);

#endif
