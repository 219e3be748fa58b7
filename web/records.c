#include "web/records.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"

#define OK 200u
#define PROJECTS_NS (UINT64_C(5) * KILN_NS_PER_S) /* how long rights are remembered */
#define READERS_MAX 256u                          /* persons whose projects are remembered */

/* The projects of one person. */
typedef struct reader {
    char person[KILN_PERSON_MAX + 1];
    uint64_t until_ns;
    kiln_arena arena;
    kiln_db_projects projects;
} reader;

struct kiln_records {
    const char *path;
    pthread_mutex_t lock; /* of `idle`; the rest is the loop's */
    kiln_db *idle[KILN_RECORDS_HANDLES_MAX];
    uint32_t idle_count;
    reader *reader[READERS_MAX];
    uint32_t reader_count;
};

kiln_records *kiln_records_create(const char *path) {
    kiln_records *records = kiln_alloc(sizeof *records);
    *records = (kiln_records){.path = path};
    KILN_CHECK(pthread_mutex_init(&records->lock, NULL) == 0);
    return records;
}

static void free_reader(reader *r) {
    kiln_arena_deinit(&r->arena);
    kiln_free(r);
}

void kiln_records_destroy(kiln_records *records) {
    if (!records) return;
    while (records->idle_count) kiln_db_close(records->idle[--records->idle_count]);
    while (records->reader_count) free_reader(records->reader[--records->reader_count]);
    pthread_mutex_destroy(&records->lock);
    kiln_free(records);
}

const char *kiln_records_path(const kiln_records *records) { return records->path; }

/* ---- handles --------------------------------------------------------------------------------- */

kiln_status kiln_records_take(kiln_records *records, kiln_db **out_db) {
    kiln_db *db = NULL;
    pthread_mutex_lock(&records->lock);
    if (records->idle_count) db = records->idle[--records->idle_count];
    pthread_mutex_unlock(&records->lock);
    if (db) {
        *out_db = db;
        return KILN_OK;
    }
    if (!kiln_db_is_there(records->path)) /* nobody has stored anything yet */
        return kiln_db_open(":memory:", KILN_DB_RECORDS, KILN_DB_WRITE, out_db);
    kiln_status st = kiln_db_open(records->path, KILN_DB_RECORDS, KILN_DB_READ, out_db);
    if (!st) kiln_db_bound_cache(*out_db, KILN_RECORDS_CACHE_BYTES);
    return st;
}

void kiln_records_put_back(kiln_records *records, kiln_db *db, kiln_status st) {
    const kiln_code code = kiln_status_code(st);
    const bool is_good = !st || code == KILN_NOT_FOUND || code == KILN_INVALID_ARGUMENT;
    const bool is_there = kiln_db_is_there(records->path);
    pthread_mutex_lock(&records->lock);
    if (is_good && is_there && records->idle_count < KILN_RECORDS_HANDLES_MAX) {
        records->idle[records->idle_count++] = db;
        db = NULL;
    }
    pthread_mutex_unlock(&records->lock);
    kiln_db_close(db);
}

/* ---- whose records --------------------------------------------------------------------------- */

static reader *find_reader(const kiln_records *records, const char *person) {
    for (uint32_t i = 0; i < records->reader_count; i++)
        if (strcmp(records->reader[i]->person, person) == 0) return records->reader[i];
    return NULL;
}

/* Forgets the person, or the one that was asked about longest ago where all places are taken. */
static void forget(kiln_records *records, const char *person) {
    uint32_t at = 0;
    reader *r = find_reader(records, person);
    if (!r && records->reader_count < READERS_MAX) return;
    for (uint32_t i = 0; i < records->reader_count; i++)
        if (r ? records->reader[i] == r
              : records->reader[i]->until_ns < records->reader[at]->until_ns)
            at = i;
    free_reader(records->reader[at]);
    records->reader[at] = records->reader[--records->reader_count];
}

static const kiln_db_projects *copy_projects(const kiln_db_projects *from, kiln_arena *arena) {
    kiln_str *name = KILN_ARENA_ARRAY(arena, kiln_str, from->count + 1);
    kiln_db_projects *copy = KILN_ARENA_NEW(arena, kiln_db_projects);
    for (uint32_t i = 0; i < from->count; i++) name[i] = kiln_str_copy(arena, from->name[i]);
    *copy = (kiln_db_projects){name, from->count};
    return copy;
}

/* The tracker is asked, a page at a time. */
typedef struct asking {
    kiln_call *call;
    kiln_arena *arena;
    kiln_projects_known known;
    void *context;
    kiln_message question;
    KILN_VEC(kiln_str) names;
} asking;

static void ask_page(asking *a);

static void finish(asking *a, kiln_status st) {
    kiln_records *records = a->call->web->records;
    const char *person = a->call->session.who.name;
    const kiln_db_projects found = {a->names.data, KILN_MIN(a->names.count, KILN_DB_PROJECTS_MAX)};
    if (st) {
        a->known(a->context, NULL, st);
        return;
    }
    forget(records, person);
    reader *r = kiln_alloc(sizeof *r);
    *r = (reader){.until_ns = kiln_clock_ns() + PROJECTS_NS};
    memcpy(r->person, person, strlen(person) + 1);
    kiln_arena_init(&r->arena, 0);
    r->projects = *copy_projects(&found, &r->arena);
    records->reader[records->reader_count++] = r;
    a->known(a->context, copy_projects(&found, a->arena), KILN_OK);
}

static void on_page(void *context, const kiln_message *answer, kiln_status st) {
    asking *a = context;
    if (!st && answer->type != KILN_MSG_PROJECTS)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer->type));
    if (st) {
        finish(a, st);
        return;
    }
    const kiln_msg_projects *page = &answer->projects;
    for (uint32_t i = 0; i < page->projects.count; i++) {
        const kiln_str name = kiln_str_copy(a->arena, page->projects.item[i].project);
        kiln_vec_push_in(a->arena, &a->names, name);
    }
    a->question.project_query.offset += page->projects.count;
    if (page->projects.count && a->question.project_query.offset < page->total)
        ask_page(a);
    else
        finish(a, KILN_OK);
}

static void ask_page(asking *a) { kiln_person_ask(a->call->person, &a->question, on_page, a); }

void kiln_records_find_projects(kiln_call *call, kiln_arena *arena, kiln_projects_known known,
                                void *context) {
    const kiln_identity_of_person *who = &call->session.who;
    const reader *r = find_reader(call->web->records, who->name);
    if (who->is_admin || who->is_owner) {
        known(context, NULL, KILN_OK);
    } else if (r && r->until_ns > kiln_clock_ns()) {
        known(context, copy_projects(&r->projects, arena), KILN_OK);
    } else {
        asking *a = KILN_ARENA_NEW(arena, asking);
        *a = (asking){.call = call,
                      .arena = arena,
                      .known = known,
                      .context = context,
                      .question = {.type = KILN_MSG_PROJECT_QUERY}};
        ask_page(a);
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

typedef struct work {
    kiln_question question; /* the first member */
    kiln_question_answer answer;
    kiln_question_done done;
    kiln_status st;
} work;

static void run(void *context) {
    work *w = context;
    kiln_records *records = w->question.call->web->records;
    kiln_db *db = NULL;
    w->st = kiln_records_take(records, &db);
    if (w->st) return;
    w->st = w->answer(db, &w->question);
    kiln_records_put_back(records, db, w->st);
}

static void on_done(void *context) {
    work *w = context;
    w->done(&w->question, w->st);
    kiln_strbuf_deinit(&w->question.out);
    kiln_arena_deinit(&w->question.arena);
    kiln_free(w);
}

static void on_projects(void *context, const kiln_db_projects *projects, kiln_status st) {
    work *w = context;
    w->question.projects = projects;
    w->st = st;
    if (st)
        on_done(w);
    else
        kiln_loop_work(w->question.call->web->loop, run, on_done, w);
}

void kiln_records_ask_for(kiln_call *call, kiln_question_answer answer, kiln_question_done done,
                          void *user) {
    work *w = kiln_alloc(sizeof *w);
    *w = (work){.question = {.call = call, .user = user}, .answer = answer, .done = done};
    kiln_arena_init(&w->question.arena, 0);
    kiln_records_find_projects(call, &w->question.arena, on_projects, w);
}

static void answer_request(kiln_question *question, kiln_status st) {
    kiln_http_request *r = question->call->request;
    if (st)
        kiln_http_answer_error(r, st);
    else
        kiln_http_answer(r, OK, "application/json", &question->out);
}

void kiln_records_ask(kiln_call *call, kiln_question_answer answer) {
    kiln_records_ask_for(call, answer, answer_request, NULL);
}
