/* The pool of workers. This program is its own worker (`--worker`), one that does what a request's
 * task key tells it: reply, die, hang, or speak nonsense. */
#include "compiler-core/worker/builder.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/thread_work.h"
#include "tests/support/test.h"

#define SECOND UINT64_C(1000000000)
#define PATIENCE (300 * SECOND) /* only what is broken reaches it */
#define ANSWERS_MAX 16

/* ---- the worker ------------------------------------------------------------------------------ */

static bool read_exactly(char *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = read(STDIN_FILENO, bytes + done, size - done);
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static void write_bytes(const char *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = write(STDOUT_FILENO, bytes + done, size - done);
        if (n <= 0) exit(1);
        done += (size_t)n;
    }
}

/* Its process and its arguments, so that the test can tell workers apart. */
static void reply_to(const kiln_work_request *request, int argc, char **argv, size_t padding) {
    kiln_strbuf text = {0}, frame = {0};
    kiln_strbuf_printf(&text, "%d", (int)getpid());
    for (int i = 2; i < argc; i++) kiln_strbuf_printf(&text, " %s", argv[i]);
    for (size_t i = 0; i < padding; i++) kiln_strbuf_char(&text, '.');
    kiln_work_reply reply = {
        .id = request->id, .text = kiln_strbuf_view(&text), .bytes = request->te};
    kiln_work_reply_write(&reply, &frame);
    write_bytes(frame.data, frame.size);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&frame);
}

static int worker_main(int argc, char **argv) {
    static char bytes[1 << 22];
    kiln_child_die_with_parent();
    for (;;) {
        kiln_arena arena;
        kiln_work_request request;
        size_t size = 4;
        kiln_arena_init(&arena, 0);
        if (!read_exactly(bytes, 4)) return 0;
        for (unsigned i = 0; i < 4; i++) size += (size_t)(uint8_t)bytes[i] << (8 * i);
        if (size > sizeof bytes || !read_exactly(bytes + 4, size - 4)) return 1;
        kiln_status st = kiln_work_request_read((kiln_str){bytes, size}, &request);
        if (st) return 1;
        if (kiln_str_is(request.task_key, "die")) abort();
        if (kiln_str_is(request.task_key, "end")) return 0;
        if (kiln_str_is(request.task_key, "hang"))
            for (;;) pause();
        if (kiln_str_is(request.task_key, "nonsense")) write_bytes("\xff\xff\xff\xff", 4);
        reply_to(&request, argc, argv, kiln_str_is(request.task_key, "long") ? 3000000 : 0);
        kiln_arena_deinit(&arena);
    }
}

/* ---- the pool -------------------------------------------------------------------------------- */

typedef struct answer {
    uint64_t id;
    bool replied;
    kiln_outcome outcome;
    char text[64]; /* of the reply or of the loss */
    size_t text_size, bytes_size;
} answer;

typedef struct fixture {
    kiln_loop *loop;
    kiln_builders *pool;
    kiln_timer *deadline;
    bool late;
    uint64_t next_id;
    uint32_t count;
    answer got[ANSWERS_MAX];
    const char *then; /* submitted by the callback */
} fixture;

static const char *own_path;
static fixture the_fixture;

static void on_late(void *context) {
    ((fixture *)context)->late = true;
    kiln_loop_stop(((fixture *)context)->loop);
}

static int set_up(void **state) {
    fixture *f = *state = &the_fixture;
    *f = (fixture){0};
    expect_ok(kiln_loop_create(&f->loop));
    f->deadline = kiln_timer_create(f->loop, on_late, f);
    kiln_timer_start(f->deadline, PATIENCE);
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_builders_destroy(f->pool);
    kiln_timer_destroy(f->deadline);
    kiln_loop_destroy(f->loop);
    return 0;
}

static void start_pool(fixture *f, uint32_t workers, const char *cores) {
    const kiln_builders_options options = {
        .program = own_path, .worker_count = workers, .cores = cores};
    f->pool = kiln_builders_create(f->loop, &options);
}

static void submit(fixture *f, const char *what, bool urgent, uint64_t deadline_ns);

static void on_done(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                    const char *text) {
    fixture *f = context;
    answer *a = &f->got[f->count++];
    kiln_str said = reply ? reply->text : kiln_str_from(text);
    *a = (answer){.replied = reply != NULL, .outcome = outcome, .text_size = said.size};
    if (reply) a->id = reply->id, a->bytes_size = reply->bytes.size;
    snprintf(a->text, sizeof a->text, "%.*s", KILN_STR_ARG(said));
    kiln_loop_stop(f->loop);
    const char *then = f->then;
    f->then = NULL;
    if (then) submit(f, then, true, PATIENCE);
}

static void submit_sized(fixture *f, const char *what, bool urgent, uint64_t deadline_ns,
                         kiln_str te) {
    const kiln_work_request request = {
        .work = KILN_WORK_BUILD, .id = f->next_id++, .task_key = kiln_str_from(what), .te = te};
    kiln_builders_submit(f->pool, &request, urgent, deadline_ns, on_done, f);
}

static void submit(fixture *f, const char *what, bool urgent, uint64_t deadline_ns) {
    submit_sized(f, what, urgent, deadline_ns, KILN_STR(""));
}

static void run_until(fixture *f, uint32_t count) {
    while (f->count < count && !f->late) kiln_loop_run_once(f->loop);
    assert_int_equal(f->count, count);
}

/* ---- promises -------------------------------------------------------------------------------- */

static void requests_are_answered_in_order_by_one_worker(void **state) {
    fixture *f = *state;
    start_pool(f, 1, NULL);
    for (int i = 0; i < 5; i++) submit(f, "reply", false, PATIENCE);
    assert_int_equal(f->count, 0); /* never from inside */
    run_until(f, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(f->got[i].replied);
        assert_int_equal(f->got[i].outcome, KILN_OUTCOME_OK);
        assert_int_equal(f->got[i].id, i);
        assert_string_equal(f->got[i].text, f->got[0].text); /* the same process */
    }
}

static void urgent_requests_go_first_and_keep_their_order(void **state) {
    fixture *f = *state;
    start_pool(f, 1, NULL);
    submit(f, "reply", false, PATIENCE); /* 0 */
    submit(f, "reply", false, PATIENCE); /* 1 */
    submit(f, "reply", true, PATIENCE);  /* 2 */
    submit(f, "reply", true, PATIENCE);  /* 3 */
    run_until(f, 4);
    static const uint64_t order[] = {2, 3, 0, 1};
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(f->got[i].id, order[i]);
}

static void workers_work_beside_each_other(void **state) {
    fixture *f = *state;
    start_pool(f, 2, NULL);
    submit(f, "hang", false, PATIENCE);
    submit(f, "reply", false, PATIENCE);
    submit(f, "reply", false, PATIENCE);
    run_until(f, 2);
    assert_int_equal(f->got[0].id, 1);
    assert_int_equal(f->got[1].id, 2);
}

static void workers_are_told_their_cores(void **state) {
    fixture *f = *state;
    start_pool(f, 1, "1-3");
    submit(f, "reply", false, PATIENCE);
    run_until(f, 1);
    expect_contains(f->got[0].text, " --cores 1-3");
}

static void workers_are_told_how_much_memory_they_may_have(void **state) {
    fixture *f = *state;
    const kiln_builders_options options = {
        .program = own_path, .worker_count = 1, .cores = "0", .memory_max = 12345678};
    f->pool = kiln_builders_create(f->loop, &options);
    submit(f, "reply", false, PATIENCE);
    run_until(f, 1);
    expect_contains(f->got[0].text, " --cores 0 --memory 12345678");
}

static void the_end_of_a_build_has_a_name(void **state) {
    (void)state;
    const kiln_work_reply built = {0}, refused = {.code = KILN_ILLEGAL_SCHEDULE},
                          unlinkable = {.code = KILN_DATA_LOSS, .link_error = true};
    assert_int_equal(kiln_builders_outcome(&built, KILN_OUTCOME_OK), KILN_OUTCOME_OK);
    assert_int_equal(kiln_builders_outcome(&refused, KILN_OUTCOME_OK), KILN_OUTCOME_BUILD_ERROR);
    assert_int_equal(kiln_builders_outcome(&unlinkable, KILN_OUTCOME_OK), KILN_OUTCOME_LINK_ERROR);
    assert_int_equal(kiln_builders_outcome(NULL, KILN_OUTCOME_CRASH), KILN_OUTCOME_BUILD_ERROR);
    assert_int_equal(kiln_builders_outcome(NULL, KILN_OUTCOME_TIMEOUT), KILN_OUTCOME_TIMEOUT);
    assert_int_equal(kiln_builders_outcome(NULL, KILN_OUTCOME_INFRA), KILN_OUTCOME_INFRA);
}

static void long_frames_pass_both_ways(void **state) {
    fixture *f = *state;
    static char program[2000000];
    memset(program, 'p', sizeof program);
    start_pool(f, 1, NULL);
    submit_sized(f, "long", false, PATIENCE, (kiln_str){program, sizeof program});
    run_until(f, 1);
    assert_true(f->got[0].replied);
    assert_int_equal(f->got[0].bytes_size, sizeof program);
    assert_true(f->got[0].text_size > 3000000);
}

/* The request before has its answer, the one that is lost is told how, and a new process serves the
 * next. */
static void expect_replaced(fixture *f, const char *what, uint64_t deadline_ns,
                            kiln_outcome outcome, const char *why) {
    start_pool(f, 1, NULL);
    submit(f, "reply", false, PATIENCE);
    submit(f, what, false, deadline_ns);
    submit(f, "reply", false, PATIENCE);
    run_until(f, 3);
    assert_true(f->got[0].replied);
    assert_false(f->got[1].replied);
    assert_int_equal(f->got[1].outcome, outcome);
    expect_contains(f->got[1].text, why);
    assert_true(f->got[2].replied);
    assert_int_equal(f->got[2].id, 2);
    assert_string_not_equal(f->got[0].text, f->got[2].text);
}

static void a_worker_that_dies_is_replaced(void **state) {
    expect_replaced(*state, "die", PATIENCE, KILN_OUTCOME_CRASH, "died");
}
static void a_worker_that_ends_is_replaced(void **state) {
    expect_replaced(*state, "end", PATIENCE, KILN_OUTCOME_CRASH, "died");
}
static void a_worker_past_its_deadline_is_replaced(void **state) {
    expect_replaced(*state, "hang", SECOND / 50, KILN_OUTCOME_TIMEOUT, "deadline");
}
static void a_worker_that_speaks_nonsense_is_replaced(void **state) {
    expect_replaced(*state, "nonsense", PATIENCE, KILN_OUTCOME_CRASH, "frame");
}

static void deadlines_count_from_when_a_worker_takes_the_request(void **state) {
    fixture *f = *state;
    start_pool(f, 1, NULL);
    submit(f, "hang", false, SECOND / 5);
    submit(f, "hang", false, SECOND / 5);
    uint64_t start_ns = kiln_clock_ns();
    run_until(f, 2);
    assert_int_equal(f->got[0].outcome, KILN_OUTCOME_TIMEOUT);
    assert_int_equal(f->got[1].outcome, KILN_OUTCOME_TIMEOUT);
    assert_true(kiln_clock_ns() - start_ns >= 2 * SECOND / 5);
}

static void a_callback_may_submit_more(void **state) {
    fixture *f = *state;
    start_pool(f, 1, NULL);
    f->then = "reply";
    submit(f, "die", false, PATIENCE);
    run_until(f, 2);
    assert_false(f->got[0].replied);
    assert_true(f->got[1].replied);
}

static void destroy_pool(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                         const char *text) {
    fixture *f = context;
    (void)reply, (void)outcome, (void)text;
    kiln_builders_destroy(f->pool);
    f->pool = NULL;
    f->count++;
    kiln_loop_stop(f->loop);
}

static void a_callback_may_destroy_the_pool(void **state) {
    fixture *f = *state;
    const char *programs[] = {own_path, "/nowhere/at/all"}; /* an answer, and none */
    for (uint32_t i = 0; i < 2; i++) {
        f->pool = kiln_builders_create(
            f->loop, &(kiln_builders_options){.program = programs[i], .worker_count = 2});
        for (uint32_t k = 0; k < 3; k++) {
            const kiln_work_request request = {.work = KILN_WORK_BUILD, .id = k};
            kiln_builders_submit(f->pool, &request, false, PATIENCE, destroy_pool, f);
        }
        kiln_loop_run(f->loop);
        assert_null(f->pool);
        assert_int_equal(f->count, i + 1);
    }
}

static void a_program_that_is_not_there_blames_the_machine(void **state) {
    fixture *f = *state;
    const kiln_builders_options options = {.program = "/nowhere/kiln-tuner", .worker_count = 1};
    f->pool = kiln_builders_create(f->loop, &options);
    submit(f, "reply", false, PATIENCE);
    run_until(f, 1);
    assert_false(f->got[0].replied);
    assert_int_equal(f->got[0].outcome, KILN_OUTCOME_INFRA);
    expect_contains(f->got[0].text, "/nowhere/kiln-tuner");
}

static void destroying_the_pool_ends_its_workers_and_calls_nobody(void **state) {
    fixture *f = *state;
    start_pool(f, 1, NULL);
    submit(f, "reply", false, PATIENCE);
    run_until(f, 1);
    uint64_t pid;
    assert_true(kiln_str_to_u64(kiln_str_from(f->got[0].text), &pid));
    submit(f, "hang", false, PATIENCE);
    submit(f, "reply", false, PATIENCE);
    kiln_builders_destroy(f->pool);
    f->pool = NULL;
    assert_int_equal(kill((pid_t)pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(f->count, 1);
}

static void the_thread_of_the_loop_starts_no_process(void **state) {
    fixture *f = *state;
    const uint64_t before = kiln_thread_work_here()->processes;
    start_pool(f, 2, NULL);
    submit(f, "reply", false, PATIENCE);
    submit(f, "die", false, PATIENCE);
    submit(f, "reply", false, PATIENCE);
    run_until(f, 3);
    assert_int_equal(kiln_thread_work_here()->processes, before);
}

/* The pool goes while its first worker starts: nobody is called, and no process is left. */
static void a_worker_that_starts_ends_with_the_pool(void **state) {
    fixture *f = *state;
    start_pool(f, 1, NULL);
    submit(f, "hang", false, PATIENCE);
    kiln_loop_run_once(f->loop); /* which hands it out */
    kiln_builders_destroy(f->pool);
    f->pool = NULL;
    kiln_timer_stop(f->deadline);
    kiln_loop_run(f->loop);
    assert_int_equal(f->count, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

#define POOL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    own_path = argv[0];
    if (argc > 1 && strcmp(argv[1], "--worker") == 0) return worker_main(argc, argv);
    const struct CMUnitTest tests[] = {
        POOL_TEST(requests_are_answered_in_order_by_one_worker),
        POOL_TEST(urgent_requests_go_first_and_keep_their_order),
        POOL_TEST(workers_work_beside_each_other),
        POOL_TEST(workers_are_told_their_cores),
        POOL_TEST(workers_are_told_how_much_memory_they_may_have),
        POOL_TEST(the_end_of_a_build_has_a_name),
        POOL_TEST(long_frames_pass_both_ways),
        POOL_TEST(a_worker_that_dies_is_replaced),
        POOL_TEST(a_worker_that_ends_is_replaced),
        POOL_TEST(a_worker_past_its_deadline_is_replaced),
        POOL_TEST(a_worker_that_speaks_nonsense_is_replaced),
        POOL_TEST(deadlines_count_from_when_a_worker_takes_the_request),
        POOL_TEST(a_callback_may_submit_more),
        POOL_TEST(a_callback_may_destroy_the_pool),
        POOL_TEST(a_program_that_is_not_there_blames_the_machine),
        POOL_TEST(destroying_the_pool_ends_its_workers_and_calls_nobody),
        POOL_TEST(the_thread_of_the_loop_starts_no_process),
        POOL_TEST(a_worker_that_starts_ends_with_the_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
