/* A tuner's shell without a tracker and a machine: a test carries out its actions and hears its
 * events. */
#ifndef KILN_TESTS_TUNER_SHELL_FIXTURE_H
#define KILN_TESTS_TUNER_SHELL_FIXTURE_H

#include "tests/support/test.h"
#include "tuner/shell.h"

#define SHELL_FIXTURE_TARGET "cpu:x86_64-linux-gnu,threads=1"

typedef struct shell_fixture {
    kiln_shell shell;
    kiln_arena arena;
    char *folder;
    const char *db_path;
    uint64_t last_job;
    KILN_VEC(kiln_tuner_event) event; /* heard, without ticks; texts in the arena */
    bool ticked;
} shell_fixture;

/* cmocka set-up and tear-down. */
int shell_fixture_set_up(void **state);
int shell_fixture_tear_down(void **state);
#define test_with_shell(f) \
    cmocka_unit_test_setup_teardown(f, shell_fixture_set_up, shell_fixture_tear_down)

/* Decides all events that are posted, after what the io_thread has to do. */
void shell_fixture_hear(shell_fixture *o);
/* The only event of that kind that was heard; NULL: there was none. */
const kiln_tuner_event *shell_fixture_find(const shell_fixture *o, kiln_tuner_event_kind kind);
/* PREPARE of a job with this spec; the io_thread has done what is first. */
kiln_shell_job *shell_fixture_prepare(shell_fixture *o, const kiln_msg_job_spec *spec);
/* The spec of a job that brings `records`; none: {{0}}. */
kiln_msg_job_spec shell_fixture_spec(const kiln_digest *model, const kiln_digest *records);
/* Renames a table behind the database's back, so that each use of it fails. */
void shell_fixture_lose_table(shell_fixture *o, const char *name);
/* Forgets the job, as the tuner's step does at its end. */
void shell_fixture_forget(shell_fixture *o, const kiln_shell_job *job, const char *state);

#endif
