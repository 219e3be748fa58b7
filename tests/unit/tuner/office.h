/* A tuner's shell without a tracker and a machine: a test carries out its actions and hears its
 * events. */
#ifndef KILN_TESTS_TUNER_OFFICE_H
#define KILN_TESTS_TUNER_OFFICE_H

#include "tests/support/test.h"
#include "tuner/shell.h"

#define OFFICE_TARGET "cpu:x86_64-linux-gnu,threads=1"

typedef struct office {
    kiln_shell shell;
    kiln_arena arena;
    char *folder;
    const char *db_path;
    uint64_t last_job;
    KILN_VEC(kiln_tuner_event) event; /* heard, without ticks; texts in the arena */
    bool ticked;
} office;

/* cmocka set-up and tear-down. */
int office_set_up(void **state);
int office_tear_down(void **state);
#define test_in_office(f) cmocka_unit_test_setup_teardown(f, office_set_up, office_tear_down)

/* Decides all events that are posted, after what the io_thread has to do. */
void office_hear(office *o);
/* The only event of that kind that was heard; NULL: there was none. */
const kiln_tuner_event *office_find(const office *o, kiln_tuner_event_kind kind);
/* PREPARE of a job with this spec; the io_thread has done what is first. */
kiln_shell_job *office_prepare(office *o, const kiln_msg_job_spec *spec);
/* The spec of a job that brings `records`; none: {{0}}. */
kiln_msg_job_spec office_spec(const kiln_digest *model, const kiln_digest *records);
/* Renames a table behind the database's back, so that each use of it fails. */
void office_lose_table(office *o, const char *name);
void office_forget(office *o, const kiln_shell_job *job, const char *state);

#endif
