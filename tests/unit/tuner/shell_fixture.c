#include "tests/unit/tuner/shell_fixture.h"

#include <sqlite3.h>

#include "base/alloc.h"

static void ignore(void *context) { (void)context; }

static void keep_event(void *event, kiln_arena *arena) {
    kiln_tuner_event *e = event;
    e->failure = kiln_event_keep_text(e->failure, arena);
}

static void decide(void *context, const void *event) {
    shell_fixture *o = context;
    kiln_tuner_event e = *(const kiln_tuner_event *)event;
    o->ticked = e.kind == KILN_TUNER_TICK;
    if (o->ticked) return;
    e.failure = kiln_event_keep_text(e.failure, &o->arena);
    kiln_vec_push(&o->event, e);
}

static uint64_t never(void *context) {
    (void)context;
    return UINT64_MAX;
}

int shell_fixture_set_up(void **state) {
    shell_fixture *o = kiln_alloc(sizeof *o);
    kiln_shell *shell = &o->shell;
    kiln_arena_init(&o->arena, 0);
    o->folder = make_folder(&o->arena);
    o->db_path = kiln_arena_printf(&o->arena, "%s/r.db", o->folder);
    kiln_blob_store_options blobs = {.folder = kiln_arena_printf(&o->arena, "%s/blobs", o->folder)};
    expect_ok(kiln_blob_store_open(&blobs, &shell->store));
    expect_ok(kiln_db_open(o->db_path, KILN_DB_RECORDS, KILN_DB_WRITE, &shell->db));
    expect_ok(kiln_loop_create(&shell->loop));
    shell->io_thread = kiln_io_thread_create(shell->loop);
    shell->events =
        kiln_event_queue_create(&(kiln_event_queue_options){.loop = shell->loop,
                                                            .event_bytes = sizeof(kiln_tuner_event),
                                                            .keep = keep_event,
                                                            .decide = decide,
                                                            .next_ns = never,
                                                            .tick = ignore,
                                                            .context = o});
    shell->commit = kiln_timer_create(shell->loop, ignore, NULL);
    shell->claims = kiln_timer_create(shell->loop, ignore, NULL);
    *state = o;
    return 0;
}

int shell_fixture_tear_down(void **state) {
    shell_fixture *o = *state;
    kiln_shell *shell = &o->shell;
    while (shell->jobs) shell_fixture_forget(o, shell->jobs, NULL);
    kiln_io_thread_wait(shell->io_thread);
    kiln_io_thread_destroy(shell->io_thread);
    kiln_event_queue_destroy(shell->events);
    kiln_timer_destroy(shell->commit);
    kiln_timer_destroy(shell->claims);
    kiln_loop_destroy(shell->loop);
    kiln_db_close(shell->db);
    kiln_blob_store_close(shell->store);
    remove_folder(o->folder);
    kiln_vec_deinit(&o->event);
    kiln_arena_deinit(&o->arena);
    kiln_free(o);
    return 0;
}

void shell_fixture_hear(shell_fixture *o) {
    kiln_io_thread_wait(o->shell.io_thread);
    o->ticked = false;
    kiln_shell_post(&o->shell, &(kiln_tuner_event){.kind = KILN_TUNER_TICK});
    while (!o->ticked) kiln_loop_run_once(o->shell.loop);
}

const kiln_tuner_event *shell_fixture_find(const shell_fixture *o, kiln_tuner_event_kind kind) {
    const kiln_tuner_event *found = NULL;
    for (uint32_t i = 0; i < o->event.count; i++) {
        if (o->event.data[i].kind != kind) continue;
        assert_null(found);
        found = &o->event.data[i];
    }
    return found;
}

kiln_msg_job_spec shell_fixture_spec(const kiln_digest *model, const kiln_digest *records) {
    return (kiln_msg_job_spec){.model = *model,
                               .records = *records,
                               .target = KILN_STR(SHELL_FIXTURE_TARGET),
                               .searcher = KILN_STR("random")};
}

kiln_shell_job *shell_fixture_prepare(shell_fixture *o, const kiln_msg_job_spec *spec) {
    const char *identity = kiln_arena_printf(&o->arena, "job %u", (unsigned)++o->last_job);
    kiln_shell_prepare(&o->shell, &(kiln_tuner_action){.kind = KILN_TUNER_PREPARE,
                                                       .job = o->last_job,
                                                       .spec = spec,
                                                       .text = identity});
    kiln_io_thread_wait(o->shell.io_thread);
    return kiln_shell_find_job(&o->shell, o->last_job);
}

void shell_fixture_lose_table(shell_fixture *o, const char *name) {
    sqlite3 *raw = NULL;
    const char *sql = kiln_arena_printf(&o->arena, "ALTER TABLE %s RENAME TO lost", name);
    assert_int_equal(sqlite3_open(o->db_path, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(raw);
}

void shell_fixture_forget(shell_fixture *o, const kiln_shell_job *job, const char *state) {
    kiln_shell_forget(&o->shell, &(kiln_tuner_action){.job = job->handle, .text = state});
}
