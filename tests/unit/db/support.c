#include "tests/unit/db/support.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/file.h"
#ifdef KILN_WITH_POSTGRES
#include <libpq-fe.h>
#endif

#define PLACES_MAX 4

typedef struct folder {
    kiln_arena arena;
    char *path;
    const char *place[PLACES_MAX];
} folder;

static const char *the_server; /* NULL: files */

void choose_place(int argc, char **argv) { the_server = argc > 1 ? argv[1] : NULL; }
bool on_server(void) { return the_server; }

#ifdef KILN_WITH_POSTGRES
static void empty(const char *address) {
    PGconn *conn = PQconnectdb(address);
    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    PGresult *result = PQexec(conn, "SET client_min_messages = warning;"
                                    "DROP SCHEMA IF EXISTS kiln_records CASCADE;"
                                    "DROP SCHEMA IF EXISTS kiln_tracker CASCADE");
    assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    PQclear(result);
    PQfinish(conn);
}
#else
static void empty(const char *address) { (void)address; }
#endif

const char *place(void **state, unsigned number) {
    folder *f = *state;
    KILN_CHECK(number < PLACES_MAX);
    if (f->place[number]) return f->place[number];
    if (the_server) {
        const char *at = strstr(the_server, "%u");
        assert_non_null(at);
        f->place[number] = kiln_arena_printf(&f->arena, "%.*s%u%s", (int)(at - the_server),
                                             the_server, number, at + strlen("%u"));
        empty(f->place[number]);
    } else {
        f->place[number] = kiln_arena_printf(&f->arena, "%s/place%u.db", f->path, number);
    }
    return f->place[number];
}

int folder_create(void **state) {
    folder *f = kiln_alloc(sizeof *f);
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-db-test", &f->arena, &f->path));
    *state = f;
    return 0;
}

int folder_remove(void **state) {
    folder *f = *state;
    expect_ok(kiln_folder_remove(f->path));
    kiln_arena_deinit(&f->arena);
    kiln_free(f);
    return 0;
}

const char *path_in(void **state, const char *name) {
    folder *f = *state;
    return kiln_arena_printf(&f->arena, "%s/%s", f->path, name);
}

kiln_db *open_as(const char *path, kiln_db_mode mode) {
    kiln_db *db = NULL;
    expect_ok(kiln_db_open(path, KILN_DB_RECORDS, mode, &db));
    return db;
}

kiln_db *open_records(const char *path) { return open_as(path, KILN_DB_WRITE); }

#define TEXT(literal) KILN_STR(literal)

void put_parents(kiln_db *db) {
    expect_ok(kiln_db_put_task(
        db, &(kiln_db_task){.key = TEXT("t1"), .op = TEXT("conv2d"), .flops = 2e3}));
    expect_ok(kiln_db_put_target(
        db, &(kiln_db_target){.target = TEXT("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3")}));
    expect_ok(kiln_db_put_device(db, &(kiln_db_device){.id = TEXT("d1"), .name = TEXT("bench")}));
    expect_ok(kiln_db_put_fingerprint(db, &(kiln_db_fingerprint){.id = TEXT("f1"),
                                                                 .device_id = TEXT("d1"),
                                                                 .content = TEXT("cpu=some\n")}));
    expect_ok(kiln_db_put_job(
        db, &(kiln_db_job){.id = TEXT("j1"),
                           .target = TEXT("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"),
                           .searcher = TEXT("random"),
                           .trials_max = 32,
                           .state = TEXT("open"),
                           .opened_wall_ns = 1}));
    expect_ok(kiln_db_commit(db));
}

kiln_db_record record_of(unsigned number, double sample_ns) {
    /* The row borrows its texts; keep as many as one test may hold at once. */
    static char names[64][16];
    static double samples[64][5];
    char *name = names[number % 64];
    double *sample = samples[number % 64];
    snprintf(name, sizeof names[0], "r%u", number);
    for (size_t i = 0; i < 5; i++) sample[i] = sample_ns;
    return (kiln_db_record){
        .trial_id = kiln_str_from(name),
        .attempt = 1,
        .job_id = TEXT("j1"),
        .task_key = TEXT("t1"),
        .target = TEXT("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"),
        .device_id = TEXT("d1"),
        .fingerprint_id = TEXT("f1"),
        .trial_index = number,
        .trace = TEXT("\x81\x01\x00z"),
        .trace_hash = kiln_str_from(name),
        .codegen_version = TEXT("1"),
        .artefact_kind = TEXT("elf"),
        .threads = 1,
        .outcome = TEXT("ok"),
        .blame = TEXT("none"),
        .checked = 1,
        .error = 0.25,
        .samples_ns = {sample, 5},
        .runs_per_sample = 3,
        .cache_state = TEXT("warm"),
        .flops = 2e3,
        .stored_wall_ns = 1000 + number,
    };
}

void put_record(kiln_db *db, unsigned number, double sample_ns) {
    kiln_db_record record = record_of(number, sample_ns);
    expect_ok(kiln_db_put_record(db, &record));
}

kiln_status put_now(kiln_db *db, const kiln_db_record *row) {
    kiln_status st = kiln_db_put_record(db, row);
    return st ? st : kiln_db_settle(db);
}

static kiln_status count_row(void *context, kiln_db_table table, const void *row) {
    (void)table, (void)row;
    ++*(uint32_t *)context;
    return NULL;
}

uint32_t count_records(const char *path) {
    kiln_db *db = NULL;
    uint32_t count = 0;
    expect_ok(kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_READ, &db));
    expect_ok(kiln_db_each(db, KILN_DB_TABLE_RECORD, count_row, &count));
    kiln_db_close(db);
    return count;
}
