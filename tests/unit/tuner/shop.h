/* A tuner's step under test: jobs, boards and records by hand. */
#ifndef KILN_TESTS_TUNER_SHOP_H
#define KILN_TESTS_TUNER_SHOP_H

#include "base/clock.h"
#include "tests/support/test.h"
#include "tuner/state.h"

#define SHOP_S KILN_NS_PER_S
#define SHOP_MS KILN_NS_PER_MS
#define SHOP_CODEGEN "1-llvm0" /* what the tuner's builders build with */

typedef struct shop {
    kiln_tuner *t;
    kiln_arena arena;
    uint64_t now_ns;
    KILN_VEC(kiln_tuner_action) done; /* every action so far, oldest first; deep */
    uint32_t seen;                    /* those before it were taken */
    uint32_t asked;                   /* requests for leases before it were taken */
    uint64_t job;                     /* handle of the last PREPARE */
    uint32_t finalists;               /* that GATHER finds; 0: no finals */
    bool by_hand; /* PROPOSE, BUILD, UPLOAD, RECORD are answered by the test only */
    uint64_t last_lease;
    uint32_t exhausted;    /* tasks, one bit each, whose space is empty */
    const char *target;    /* of the next job; NULL: "cpu:x" */
    const char *board;     /* of the next grant; NULL: "b" */
    const char *builds;    /* codegen version of that board; NULL: it does not build */
    bool builders_hang;    /* BUILD is answered by the test only */
    bool gather_hangs;     /* GATHER likewise */
    uint32_t unreferenced; /* tasks, one bit each, whose reference fails, also by_hand */
} shop;

int shop_set_up(void **state);
int shop_tear_down(void **state);
#define test_with_shop(f) cmocka_unit_test_setup_teardown(f, shop_set_up, shop_tear_down)

/* Another tuner with so many builders (4), before anything was done. */
void shop_hire(shop *s, uint32_t builders);
void shop_step(shop *s, const kiln_tuner_event *event);
void shop_tick(shop *s, uint64_t ns);
void shop_say(shop *s, const kiln_message *message);
void shop_open(shop *s);
void shop_close(shop *s);

/* The next action of that kind, or message of that type, that was not taken; NULL. Taking skips
 * what lies before. */
const kiln_tuner_action *shop_take(shop *s, kiln_tuner_action_kind kind);
const kiln_message *shop_take_sent(shop *s, kiln_message_type type);
/* How often it happened since the last shop_skip. */
uint32_t shop_count(const shop *s, kiln_tuner_action_kind kind);
uint32_t shop_count_sent(const shop *s, kiln_message_type type);
void shop_skip(shop *s);

/* JOB_ASSIGN "j" with this budget, then PREPARED with so many tasks ("t0", "t1", ...), all new. */
void shop_assign(shop *s, uint32_t trials);
void shop_assign_for(shop *s, double seconds, uint32_t trials); /* 0 trials: as many as can be */
void shop_prepare(shop *s, uint32_t task_count, const kiln_tuner_result *stored,
                  uint32_t stored_count);
/* All of that, on a new connection. */
void shop_begin(shop *s, uint32_t trials, uint32_t task_count);
void shop_begin_for(shop *s, double seconds, uint32_t trials, uint32_t task_count);
/* The same with tasks of the test's own; 0 seconds: no bound. */
void shop_begin_tasks(shop *s, double seconds, uint32_t trials, const kiln_tuner_task *task,
                      uint32_t task_count);
/* The answer to RECORD. `failure`: NULL with KILN_OK. */
void shop_recorded(shop *s, const kiln_tuner_action *record, kiln_code code, const char *failure);
/* Grants the oldest request that was not taken; returns the lease. */
uint64_t shop_grant(shop *s);
/* The board's answer to a TRIAL; its rivals, if any, take `i` per mille less each. */
void shop_answer(shop *s, const kiln_msg_trial *trial, kiln_outcome outcome);
/* The same with samples of `run_ns` per run, and whatever `how` says of stop and out_of_band. */
void shop_answer_with(shop *s, const kiln_msg_trial *trial, uint64_t run_ns,
                      const kiln_msg_trial_result *how);
/* The next TRIAL that was not taken, on a new lease where none was sent. */
const kiln_msg_trial *shop_next_trial(shop *s);
/* The JOB_DONE that was not taken. */
const kiln_msg_job_done *shop_done(shop *s);
/* Answers every TRIAL and request that comes until nothing new happens. */
void shop_run_dry(shop *s);

#endif
