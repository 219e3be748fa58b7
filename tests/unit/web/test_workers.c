/* Worker processes, which are scripts here: how many run, in which order, and how they end. */
#include "web/workers.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"

typedef struct told {
    kiln_loop *loop;
    kiln_worker *worker;
    const char *name;
    char *order; /* names of those that ended */
    uint32_t *open;
    kiln_code code;
    char text[256];
    bool has_started, has_ended;
} told;

typedef struct fixture {
    kiln_arena arena;
    kiln_loop *loop;
    kiln_workers *workers;
    char order[64];
    uint32_t open;
    told told[4];
} fixture;

/* Workers of a program `kiln` that is `script`; one runs at a time. */
static void set_up(fixture *f, const char *script) {
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    char *folder = make_folder(&f->arena);
    const char *text = kiln_arena_printf(&f->arena, "#!/bin/sh\n%s\n", script);
    expect_ok(kiln_file_write(kiln_arena_printf(&f->arena, "%s/kiln", folder), kiln_str_from(text),
                              0755));
    expect_ok(kiln_loop_create(&f->loop));
    f->workers = kiln_workers_create(
        f->loop, &(kiln_workers_options){.running_max = {1, 1}, .programs = folder});
}

static void tear_down(fixture *f) {
    kiln_workers_destroy(f->workers);
    kiln_loop_destroy(f->loop);
    kiln_arena_deinit(&f->arena);
}

static void on_started(void *context) { ((told *)context)->has_started = true; }

static void on_ended(void *context, kiln_status st) {
    told *t = context;
    t->has_ended = true;
    t->code = kiln_status_code(st);
    if (st) snprintf(t->text, sizeof t->text, "%s", kiln_status_text(st));
    kiln_status_free(st);
    memcpy(t->order + strlen(t->order), t->name, strlen(t->name) + 1);
    if (--*t->open == 0) kiln_loop_stop(t->loop);
}

static told *start(fixture *f, const char *name) {
    told *t = &f->told[f->open];
    *t = (told){.loop = f->loop, .name = name, .order = f->order, .open = &f->open};
    const kiln_worker_order order = {.kind = KILN_WORKER_SHORT,
                                     .what = KILN_REQUEST_COMPILE,
                                     .subject = name,
                                     .started = on_started,
                                     .ended = on_ended,
                                     .context = t};
    expect_ok(kiln_workers_start(f->workers, &order, &t->worker));
    f->open++;
    return t;
}

static void they_run_one_after_another(void **state) {
    (void)state;
    fixture f;
    set_up(&f, "echo it broke >&2; exit 7");
    told *a = start(&f, "a"), *b = start(&f, "b"), *c = start(&f, "c");
    assert_false(a->has_started); /* never from inside */
    assert_int_equal(kiln_worker_position(c->worker), 2);
    kiln_loop_run(f.loop);
    assert_string_equal(f.order, "abc");
    assert_int_equal(b->code, KILN_INTERNAL);
    assert_non_null(strstr(b->text, "it broke"));
    tear_down(&f);
}

static void one_that_waits_is_cancelled_at_once(void **state) {
    (void)state;
    fixture f;
    set_up(&f, "read nothing; exit 1"); /* until it is told */
    told *a = start(&f, "a"), *b = start(&f, "b");
    kiln_worker_cancel(b->worker);
    assert_false(b->has_ended);
    while (!b->has_ended) kiln_loop_run_once(f.loop);
    assert_false(b->has_started);
    assert_int_equal(b->code, KILN_CANCELLED);
    assert_true(a->has_started);
    assert_false(a->has_ended);
    tear_down(&f); /* ends the one that runs */
    assert_false(a->has_ended);
}

static void a_missing_program_is_an_error(void **state) {
    (void)state;
    fixture f;
    set_up(&f, "exit 0");
    kiln_workers_destroy(f.workers);
    f.workers = kiln_workers_create(
        f.loop, &(kiln_workers_options){.running_max = {1, 1}, .programs = "/nowhere"});
    told *a = start(&f, "a");
    kiln_loop_run(f.loop);
    assert_int_equal(a->code, KILN_NOT_FOUND);
    tear_down(&f);
}

static void too_many_are_refused(void **state) {
    (void)state;
    fixture f;
    set_up(&f, "exit 0");
    const kiln_worker_order order = {.kind = KILN_WORKER_TUNE,
                                     .what = KILN_REQUEST_TUNE,
                                     .subject = "m",
                                     .ended = on_ended,
                                     .context = &f.told[0]};
    kiln_worker *worker = NULL;
    for (uint32_t i = 0; i < KILN_WORKERS_QUEUED_MAX; i++)
        expect_ok(kiln_workers_start(f.workers, &order, &worker));
    expect_error(kiln_workers_start(f.workers, &order, &worker), RESOURCE_EXHAUSTED, "wait");
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_run_one_after_another),
        cmocka_unit_test(one_that_waits_is_cancelled_at_once),
        cmocka_unit_test(a_missing_program_is_an_error),
        cmocka_unit_test(too_many_are_refused),
    };
    return cmocka_run_group_tests_name("web/workers", tests, NULL, NULL);
}
